"""Tally: the verdicts of matching, all that the curves need. Mergeable: `empty` is the identity of `merge`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore import text
from boxscore.errors import InputError
from boxscore.protocol import POOLED, Protocol

IGNORED, FALSE, TRUE = 0, 1, 2
"""The verdicts, as the paper numbers them: ignored, false positive, true positive."""

COLUMNS = ("image", "label", "score", "rank", "verdict")
"""The columns with a row for each detection."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Tally:
    """What matching found, one row a detection, in host memory. Boxes are gone.

    Detections beyond the protocol's largest limit are not in it. Every image must be matched whole, in one tally.

    >>> Tally.empty(Protocol.named("voc2007"))
    Tally(0 detections, 0 truths, 0 classes, voc2007)
    """

    protocol: Protocol
    image: NDArray[np.int64]
    """Image ids; they break ties of score. Shape (D,)."""
    label: NDArray[np.int64]
    """Shape (D,)."""
    score: NDArray[np.float64]
    """Shape (D,)."""
    rank: NDArray[np.int32]
    """The place by score within image and class, 0 for the best; limits cut by it. Shape (D,)."""
    verdict: NDArray[np.uint8]
    """0 ignored, 1 false positive, 2 true positive. Shape (D, A, T)."""
    classes: NDArray[np.int64]
    """Every label there is, ascending, with or without detections and truths. Shape (K,)."""
    num_truths: NDArray[np.int64]
    """Truths that count, by class and area range. Shape (K, A)."""
    class_names: Mapping[int, str] | None = None
    iou_dtype: str = "float64"
    """The precision in which IoUs were computed: the lowest of all that was merged."""

    @classmethod
    def empty(cls, protocol: Protocol) -> "Tally":
        """No detections and no truths: what `merge` leaves out."""
        num_areas = len(protocol.areas)
        return cls(
            protocol=protocol,
            image=np.zeros(0, np.int64),
            label=np.zeros(0, np.int64),
            score=np.zeros(0, np.float64),
            rank=np.zeros(0, np.int32),
            verdict=np.zeros((0, num_areas, len(protocol.thresholds)), np.uint8),
            classes=np.zeros(0, np.int64),
            num_truths=np.zeros((0, num_areas), np.int64),
        )

    def merge(self, *others: "Tally") -> "Tally":
        """All of it as one tally. Associative; the grouping and the order change no result.

        An image may be in one of them only: ids tell images apart, and break ties.
        """
        tallies = (self, *others)
        for other in others:
            if not isinstance(other, Tally):
                raise InputError(f"a tally can be merged with tallies only; got {type(other).__name__}")
            if other.protocol != self.protocol:
                pair = f"{self.protocol.name!r} and {other.protocol.name!r}"
                raise InputError(f"tallies of different protocols can't be merged; got {pair}, and they differ")
        classes = np.unique(np.concatenate([tally.classes for tally in tallies]))
        num_truths = np.zeros((classes.size, len(self.protocol.areas)), np.int64)
        for tally in tallies:
            num_truths[np.searchsorted(classes, tally.classes)] += tally.num_truths
        _check_images_are_different(tallies)
        names: dict[int, str] = {}
        for tally in tallies:
            for label, name in (tally.class_names or {}).items():
                if names.setdefault(label, name) != name:
                    raise InputError(f"label {label} is {names[label]!r} in one tally and {name!r} in another")
        return Tally(
            protocol=self.protocol,
            **{column: _concatenate(tallies, column) for column in COLUMNS},
            classes=classes,
            num_truths=num_truths,
            class_names=names or None,
            iou_dtype=min(tally.iou_dtype for tally in tallies),  # "float32" < "float64"
        )

    def pooled(self) -> "Tally":
        """The same verdicts with all classes taken as one, for micro averages."""
        one_class = {"classes": np.array([POOLED]), "num_truths": self.num_truths.sum(axis=0, keepdims=True)}
        rows = self.sorted()  # so that ties between classes fall the same way whatever was merged first
        return replace(rows, label=np.full_like(rows.label, POOLED), **one_class, class_names=None)

    def sorted(self) -> "Tally":
        """The same rows in the one order that curves are made in: class, falling score, image, rank."""
        order = np.lexsort((self.rank, self.image, -self.score, self.label))
        return replace(self, **{column: getattr(self, column)[order] for column in COLUMNS})

    def __len__(self) -> int:
        return self.score.size

    def __repr__(self) -> str:
        counts = [
            text.count(len(self), "detection"),
            text.count(self.num_truths[:, 0].sum(), "truth"),
            text.count(self.classes.size, "class", "classes"),
        ]
        return f"Tally({', '.join(counts)}, {self.protocol.title})"


def _check_images_are_different(tallies: tuple[Tally, ...]) -> None:
    images = np.concatenate([np.unique(tally.image) for tally in tallies])
    seen, counts = np.unique(images, return_counts=True)
    if seen.size < images.size:
        image = seen[counts > 1][0]
        raise InputError(f"image {image} is in more than one tally; an image needs an id of its own, and one tally")


def _concatenate(tallies: tuple[Tally, ...], column: str) -> Any:
    return np.concatenate([getattr(tally, column) for tally in tallies])
