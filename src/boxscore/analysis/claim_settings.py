"""Settings of claims: changes that people make, knowingly or not, to the inputs or rules of a tool."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore.arrays import to_numpy
from boxscore.checks.evidence import labels_at
from boxscore.data.dataset import IGNORED_KINDS, Detections, Truths, classes_of, host_ids, host_scores, take


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Setting:
    """A change that people make, knowingly or not, to the inputs or rules of a tool."""

    kind: str
    """Two settings of one kind exclude each other."""
    name: str
    reason: str
    """The effect of the setting, in one sentence."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """The fields of the protocol that change, with their new values."""
    label_offset: int = 0
    """Number added to the labels of detections. Detections whose new label is not a class of the truths are dropped."""
    first_position: int | None = None
    """The position of the first class, if the labels of detections are positions in the sorted labels of the truths'
    classes; None: they are labels.
    """
    drops_images: bool = False
    """Whether images without detections are dropped."""

    @property
    def changes_labels(self) -> bool:
        """Whether the labels of detections change."""
        return self.label_offset != 0 or self.first_position is not None


def _cut_off(score: float) -> Setting:
    return Setting(
        kind="score cut-off",
        name=f"score cut-off {score:g}",
        reason=f"Detections with a score below {score:g} are left out, often before results are written.",
        changes={"min_score": score},
    )


_LIMITED = {None: "All detections count", 1: "Only the best detection counts"}


def _limit(limit: int | None) -> Setting:
    return Setting(
        kind="limit",
        name="no limit" if limit is None else f"limit {limit:,}",
        reason=f"{_LIMITED.get(limit, f'Only the {limit} best detections count')}, per image or per image and class, as"
        " the tool does it.",
        changes={"limits": (limit,)},
    )


LIMITS = (1, 10, 100, 300, 1000, None)

SETTINGS = (
    *map(_cut_off, (0.001, 0.01, 0.05, 0.1, 0.25, 0.3, 0.5)),
    *map(_limit, LIMITS),
    Setting(
        kind="pixels",
        name="+1 pixel",
        reason="A box from x1 to x2 is x2 - x1 + 1 wide, as if coordinates were inclusive pixels.",
        changes={"pixels": "inclusive"},
    ),
    Setting(
        kind="labels",
        name="labels + 1",
        reason="The labels of detections are one too low: 1 is added to them.",
        label_offset=1,
    ),
    Setting(
        kind="labels",
        name="labels - 1",
        reason="The labels of detections are one too high: 1 is subtracted from them.",
        label_offset=-1,
    ),
    Setting(
        kind="labels",
        name="labels are positions from 0",
        reason="The labels of detections are positions in the list of classes, 0 for the lowest label of the truths, as"
        " detectors number COCO's 80 classes.",
        first_position=0,
    ),
    Setting(
        kind="labels",
        name="labels are positions from 1",
        reason="The labels of detections are positions in the list of classes, 1 for the lowest label of the truths.",
        first_position=1,
    ),
    Setting(
        kind="labels",
        name="labels disregarded",
        reason="All boxes are of one class.",
        changes={"class_agnostic": True},
    ),
    Setting(
        kind="images",
        name="images without detections left out",
        reason="Truths of images without detections don't count, as if only images in the results were evaluated.",
        drops_images=True,
    ),
    Setting(
        kind="ignored truths",
        name="ignored truths as regular ones",
        reason="Crowds and difficult truths count as any other, as if the mark were not read.",
        changes={"ignored": "regular"},
    ),
    Setting(
        kind="ignored truths",
        name="ignored truths left out",
        reason="Crowds and difficult truths are left out, so detections of them are false positives.",
        changes={"ignored": "absent"},
    ),
)
"""All settings that are searched."""


class Labels:
    """The labels of detections, and the classes of truths that settings map them to."""

    def __init__(self, detections: Detections, truths: Truths) -> None:
        self.own = np.unique(host_ids(detections.labels))
        """All labels of detections, ascending."""
        self._has_names = truths.names_by_label is not None
        self._classes = classes_of(take(detections, np.zeros(len(detections), bool)), truths)

    def under(self, settings: Sequence[Setting]) -> NDArray[np.int64] | None:
        """The class of each own label, or the smallest int64 for no class; None: no label changes. Shape (L,)."""
        changing = next((each for each in settings if each.changes_labels), None)
        none, classes = np.iinfo(np.int64).min, self._classes
        if changing is None:
            is_known = np.isin(self.own, classes)
            # as file readers do; without class names, an unknown label is a class without truths
            return None if not self._has_names or is_known.all() else np.where(is_known, self.own, none)
        if changing.first_position is None:
            shifted = self.own + changing.label_offset
            return np.where(np.isin(shifted, classes), shifted, none)
        return labels_at(classes, self.own - changing.first_position)


def labelled(detections: Detections, truths: Truths, settings: Sequence[Setting]) -> Detections:
    """The detections with the labels that settings map them to, without detections whose label is then not a class."""
    labels = Labels(detections, truths)
    classes = labels.under(settings)
    if classes is None:
        return detections
    label = classes[np.searchsorted(labels.own, host_ids(detections.labels))]
    is_kept = label != np.iinfo(np.int64).min
    return take(replace(detections, labels=np.where(is_kept, label, 0)), is_kept)


def images_with(detections: Detections, min_score: float | None) -> NDArray[np.int64]:
    """The images that have detections of at least this score."""
    image = host_ids(detections.image_ids)
    return np.unique(image if min_score is None else image[host_scores(detections.scores) >= min_score])


def has_ignored(truths: Truths) -> bool:
    """Whether any truth is a crowd, difficult, or marked as ignored."""
    if truths.ignore is not None:
        return bool(np.asarray(to_numpy(truths.ignore), bool).any())
    return truths.kind is not None and bool(np.isin(to_numpy(truths.kind), IGNORED_KINDS).any())
