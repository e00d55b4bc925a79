"""The likely cause of a suspicious result: labels off by one, another box format, fractions beside pixels, and others.

Each reading of the boxes or labels is tried on the detections with the highest scores, as many as there are truths: a
right reading makes a good part of them overlap truths, a wrong one next to none. A detector that is just bad has no
reading that does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from boxscore._support.arrays import to_numpy
from boxscore._support.text import count
from boxscore.analysis.suspicion import Counts
from boxscore.geometry.boxes import BoxFormat, to_xyxy
from boxscore.model.dataset import Detections, Truths, host_ids, take

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST = 3000
"""So many detections are looked at, at most."""
FEWEST = 3
"""Fewer overlaps than this are an accident."""
SHARE = 0.2
"""The part of the detections that must overlap truths for a reading of boxes to be right."""
MOST_OF = 0.8
"""The part of them that leaves no doubt."""
MANYFOLD = 4
"""How many times as many must overlap, or agree, as without it."""
IOU = 0.5


class Words(NamedTuple):
    """What the sides are called where the warning is read, and what mends a mistake there."""

    detections: str = "`preds`"
    truths: str = "`targets`"
    box_format: str = "give both in the metric's `box_format`"
    """How detections of another format, `{}`, are read."""
    truth_box_format: str = "give both in the metric's `box_format`"
    labels: str = "before `update`"
    """How labels are changed."""
    classes: str = "give both the same labels"
    """What to do where all labels mean something else."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """A likely mistake, in words."""

    kind: str
    """A short name that stays the same: empty, box-format, unit, axes, image-ids, shifted-labels, other-labels,
    foreign-labels, few-images."""
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Sample:
    """The detections that are looked at, and the truths, sorted by image."""

    image: Ids
    label: Ids
    box: Floats
    box_format: BoxFormat
    truth_image: Ids
    truth_label: Ids
    truth_box: Floats
    truth_format: BoxFormat
    sizes: Mapping[int, tuple[int, int]]

    @classmethod
    def of(cls, detections: Detections, truths: Truths) -> "_Sample":
        """The detections with the highest scores, as many as there are truths."""
        num = min(max(len(truths), FEWEST), MOST, len(detections))
        score = to_numpy(detections.score)
        rows = np.sort(np.argpartition(-score, num - 1)[:num]) if num < len(score) else np.arange(len(score))
        image = host_ids(truths.image)
        order = np.argsort(image, kind="stable")
        return cls(
            image=host_ids(detections.image)[rows],
            label=host_ids(detections.label)[rows],
            box=to_numpy(detections.box)[rows].astype(np.float64),
            box_format=detections.box_format,
            truth_image=image[order],
            truth_label=host_ids(truths.label)[order],
            truth_box=to_numpy(truths.box)[order].astype(np.float64),
            truth_format=truths.box_format,
            sizes=truths.image_sizes or {},
        )

    def overlaps(
        self, corner: Floats | None = None, truth_corner: Floats | None = None, image: Ids | None = None
    ) -> tuple[Ids, Ids]:
        """The detections that overlap a truth of any class, and the truth that each overlaps most, under a reading."""
        first = _corners(self.box, self.box_format) if corner is None else corner
        second = _corners(self.truth_box, self.truth_format) if truth_corner is None else truth_corner
        image = self.image if image is None else image
        start = np.searchsorted(self.truth_image, image, side="left")
        num = np.searchsorted(self.truth_image, image, side="right") - start
        row = np.repeat(np.arange(image.size), num)
        if not row.size:
            return row, row
        truth = np.arange(row.size) - np.repeat(np.cumsum(num) - num, num) + np.repeat(start, num)
        iou = _iou(first[row], second[truth])
        best = np.lexsort((iou, row))
        best = best[np.append(row[best][1:] != row[best][:-1], True)]
        best = best[iou[best] >= IOU]
        return row[best], truth[best]

    def is_better(self, num: int, num_before: int) -> bool:
        """Whether so many overlaps make a reading right, where there were so many before: manyfold, or most of all."""
        if num < max(FEWEST, SHARE * self.image.size):
            return False
        return num >= MANYFOLD * num_before or (num >= MOST_OF * self.image.size and num >= 2 * num_before)


def _corners(box: Floats, box_format: BoxFormat) -> Floats:
    return np.stack(to_xyxy(box, box_format), axis=1)


def _iou(first: Floats, second: Floats) -> Floats:
    def area(low: Floats, high: Floats) -> Floats:
        return np.asarray((high - low).clip(min=0).prod(axis=1))

    shared = area(np.maximum(first[:, :2], second[:, :2]), np.minimum(first[:, 2:], second[:, 2:]))
    total = area(first[:, :2], first[:, 2:]) + area(second[:, :2], second[:, 2:]) - shared
    return np.asarray(np.divide(shared, total, out=np.zeros_like(shared), where=total > 0))


def diagnose(
    counts: Counts,
    detections: Detections | None,
    truths: Truths | None,
    words: Words,
    *,
    has_classes: bool = True,
    is_whole: bool = True,
) -> Diagnosis | None:
    """The likely mistake behind a result; None if it is not suspicious, or if nothing but bad boxes is found.

    `detections` and `truths`: all of them or some whole images; None where all are forgotten. `has_classes`: whether
    labels matter. `is_whole`: whether these are all boxes.
    """
    if not counts.is_suspicious:
        return None
    if counts.is_empty:
        what = f"there are no detections for {count(sum(counts.num_truths), 'truth')}, so every AP is 0"
        return Diagnosis(
            kind="empty", message=f"{what}: is {words.detections} complete, and no score threshold too high?"
        )
    if detections is None or truths is None or not len(detections) or not len(truths):
        return None
    with np.errstate(all="ignore"):
        sample = _Sample.of(detections, truths)
        rows, matched = sample.overlaps()
        found = None
        if 2 * rows.size < sample.image.size:
            found, rows, matched = _misread_boxes(sample, rows.size, words) or (None, rows, matched)
        labels = None
        if has_classes and sample.is_better(rows.size, 0):
            labels = _misread_labels(sample, rows, matched, truths.names_by_label, words)
    if found is not None and labels is not None:
        return Diagnosis(kind=found.kind, message=f"{found.message}. Besides, {labels.message}")
    if found is None and labels is None and is_whole and counts.is_near_zero:
        return _few_images(detections, truths, words)
    return found or labels


def _few_images(detections: Detections, truths: Truths, words: Words) -> Diagnosis | None:
    """What to say if nearly all images with truths have no detection."""
    images = np.unique(host_ids(truths.image))
    num = int(np.isin(images, host_ids(detections.image)).sum())
    if num >= 0.1 * images.size:
        return None
    what = f"only {num:,} of {count(images.size, 'image')} with truths have detections"
    return Diagnosis(kind="few-images", message=f"{what}: is {words.detections} complete, and for these images?")


def _misread_boxes(sample: _Sample, num_before: int, words: Words) -> tuple[Diagnosis, Ids, Ids] | None:
    """The reading of the boxes under which most detections overlap truths, and those overlaps."""
    found: tuple[Diagnosis, Ids, Ids] | None = None
    for kind, describe, mend, changes in _readings(sample, words):
        rows, matched = sample.overlaps(**changes)
        if sample.is_better(rows.size, num_before) and (found is None or rows.size > found[1].size):
            shown = f"of the {count(sample.image.size, 'best detection')} {rows.size:,} would overlap a truth"
            message = f"{describe}: {shown} (IoU {IOU:g}) if read so, and {num_before:,} do now; {mend}"
            found = Diagnosis(kind=kind, message=message), rows, matched
    if found is None and (units := unlike_units(sample.box, sample.truth_box, words)):
        nothing = np.zeros(0, np.int64)
        found = Diagnosis(kind="unit", message=units), nothing, nothing
    return found


def _readings(sample: _Sample, words: Words) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Every other way to read boxes and images: its kind, what it says, what mends it, and what it changes."""
    readings: list[tuple[str, str, str, dict[str, Any]]] = []
    sides = (
        (words.detections, sample.box, sample.box_format, sample.image, "corner", words.box_format),
        (
            words.truths,
            sample.truth_box,
            sample.truth_format,
            sample.truth_image,
            "truth_corner",
            words.truth_box_format,
        ),
    )
    for name, box, declared, image, key, mend in sides:
        for other in get_args(BoxFormat):
            if other != declared:
                says = f"the boxes of {name} look like {other}, but are read as {declared}"
                readings.append(("box-format", says, mend.format(other), {key: _corners(box, other)}))
        corner = _corners(box, declared)
        swapped = _corners(box[:, [1, 0, 3, 2]], declared)
        readings.append(("axes", f"x and y of {name} look swapped", "write x before y", {key: swapped}))
        size = np.array([sample.sizes.get(number, (np.nan, np.nan)) for number in image.tolist()], np.float64)
        scale = np.concatenate([size, size], axis=1)
        for unit, whole in (("fractions", 1), ("percentages", 100), ("thousandths", 1000)):
            says = f"the boxes of {name} look like {unit} of the image's size, but are read as pixels"
            factor = "multiply them by the image's width and height" + (f" / {whole}" if whole > 1 else "")
            readings.append(("unit", says, factor, {key: corner * scale / whole}))
    images = np.unique(np.concatenate([sample.image, sample.truth_image]))
    place = np.searchsorted(images, sample.image)
    for shift, word in ((1, "low"), (-1, "high")):
        moved = np.where(np.isin(place + shift, np.arange(images.size)), place + shift, 0)
        says = f"the images of {words.detections} look one too {word}: they are the images next to the right ones"
        readings.append(("image-ids", says, "give each detection the id of its own image", {"image": images[moved]}))
    return readings


def unlike_units(box: Floats, truth_box: Floats, words: Words) -> str | None:
    """What to say if one side has fractions of the image's size and the other has pixels."""
    if not len(box) or not len(truth_box):
        return None
    sides = ((words.detections, np.abs(box).max()), (words.truths, np.abs(truth_box).max()))
    for (name, largest), (other, others) in (sides, sides[::-1]):
        if largest <= 1.5 and others > 10:
            says = f"the boxes of {name} look like fractions of the image's size, those of {other} like pixels"
            return f"{says}; multiply the fractions by the image's width and height"
    return None


def _misread_labels(
    sample: _Sample, rows: Ids, matched: Ids, names: Mapping[int, str] | None, words: Words
) -> Diagnosis | None:
    """What is wrong with labels, where the boxes are right."""
    label, wanted = sample.label[rows], sample.truth_label[matched]
    order = np.array(sorted(names) if names else np.unique(sample.truth_label), np.int64)
    num_before = int((label == wanted).sum())
    # A class that is listed and has no truths is one that others were taken for; two with one label each are one class.
    is_foreign = not np.isin(sample.label, sample.truth_label).any()
    is_foreign &= names is None or np.unique(sample.truth_label).size == 1

    def at(place: Ids) -> Ids:
        is_there = (place >= 0) & (place < order.size)
        return np.where(is_there, order[np.where(is_there, place, 0)], np.iinfo(np.int64).min)

    readings: dict[str, tuple[Ids, str]] = {
        "one too low": (label + 1, "add 1"),
        "one too high": (label - 1, "subtract 1"),
        "like places in the list of classes, from 0": (at(label), "give the ids at these places"),
        "like places in the list of classes, from 1": (at(label - 1), "give the ids at these places"),
    }
    # As places, one too low and one too high: the ids of classes have gaps.
    places = np.searchsorted(order, label)
    if np.isin(label, order).all():
        readings |= {
            "one class too low": (at(places + 1), "give the next class"),
            "one class too high": (at(places - 1), "give the class before"),
        }
    best, num = "", 0
    for says, (reading, _) in readings.items():
        is_right = reading == wanted
        num_labels = np.unique(label[is_right & (label != wanted)]).size
        # A detector that knows one class only, and the wrong one, is no shift.
        if is_right.sum() > num and (num_labels >= 2 or is_foreign):
            best, num = says, int(is_right.sum())
    is_manyfold = num >= max(FEWEST, 0.5 * rows.size, MANYFOLD * num_before)
    if is_manyfold or num >= max(10, MOST_OF * rows.size, 1.5 * num_before):
        shown = f"of {rows.size:,} that overlap a truth, {num:,} would be of its class, and {num_before:,} are now"
        message = f"the labels of {words.detections} look {best}: {shown}; {readings[best][1]} ({words.labels})"
        return Diagnosis(kind="shifted-labels", message=message)
    if (mapping := _mapping(label, wanted)) and num_before * MANYFOLD <= rows.size:
        shown = ", ".join(f"{one} is {_shown(other, names)}" for one, other in mapping[:3])
        message = f"the labels of {words.detections} look like those of another list of classes ({shown}, …)"
        return Diagnosis(kind="other-labels", message=f"{message}: {words.classes}")
    if is_foreign:
        found, there = (", ".join(map(str, np.unique(each)[:3])) for each in (sample.label, sample.truth_label))
        message = f"no label of {words.detections} ({found}, …) is one of {words.truths} ({there}, …)"
        return Diagnosis(kind="foreign-labels", message=f"{message}: {words.classes}")
    return None


def _mapping(label: Ids, wanted: Ids) -> list[tuple[int, int]]:
    """The class that boxes of each label lie on, if that is nearly always the same one, and another for each label."""
    pairs: list[tuple[int, int]] = []
    num_right = 0
    for each in np.unique(label).tolist():
        values, nums = np.unique(wanted[label == each], return_counts=True)
        pairs.append((each, int(values[np.argmax(nums)])))
        num_right += int(nums.max())
    others = [pair for pair in pairs if pair[0] != pair[1]]
    is_clear = num_right >= max(10, 0.7 * label.size) and len({other for _, other in pairs}) >= max(2, 0.7 * len(pairs))
    return others if is_clear else []


def _shown(label: int, names: Mapping[int, str] | None) -> str:
    return repr(names[label]) if names and label in names else str(label)


class Watch:
    """Copies of the first batches of a stream, whose boxes are forgotten otherwise."""

    NUM_BATCHES = 10
    NUM_ROWS = 20_000
    """With so many boxes of either side no more batches are kept; of a batch with more, some images are."""

    def __init__(self) -> None:
        self._batches: list[tuple[Detections, Truths]] = []
        self._num_rows = 0
        self._first = 0

    @property
    def is_open(self) -> bool:
        """Whether there is room for another batch."""
        return len(self._batches) < self.NUM_BATCHES and self._num_rows < self.NUM_ROWS

    def add(self, detections: Detections, truths: Truths) -> None:
        """Keep a copy of a batch; its images are renumbered, so that batches may use the same numbers."""
        if not self.is_open or not len(truths):
            return
        if max(len(detections), len(truths)) > self.NUM_ROWS:
            images = np.unique(host_ids(truths.image)[: self.NUM_ROWS // 10])
            detections = take(detections, np.isin(host_ids(detections.image), images))
            truths = take(truths, np.isin(host_ids(truths.image), images))
        images, code = np.unique(
            np.concatenate([host_ids(detections.image), host_ids(truths.image)]), return_inverse=True
        )
        code += self._first
        num = len(detections)
        kept = Detections(
            image=code[:num],
            label=host_ids(detections.label).copy(),
            score=to_numpy(detections.score).copy(),
            box=to_numpy(detections.box).copy(),
            box_format=detections.box_format,
        )
        there = Truths(
            image=code[num:],
            label=host_ids(truths.label).copy(),
            box=to_numpy(truths.box).copy(),
            box_format=truths.box_format,
            class_names=truths.class_names,
        )
        self._batches.append((kept, there))
        self._num_rows += max(num, len(truths))
        self._first += images.size

    def diagnose(self, counts: Counts, words: Words, *, has_classes: bool = True) -> Diagnosis | None:
        """The likely mistake behind the result of the whole stream, by what was kept of it."""
        if not counts.is_suspicious:
            return None
        if not self._batches:
            return diagnose(counts, None, None, words)
        found, there = ([batch[side] for batch in self._batches] for side in (0, 1))
        detections = Detections(
            **_joined(found, ("image", "label", "score", "box")), box_format=self._batches[0][0].box_format
        )
        truths = Truths(
            **_joined(there, ("image", "label", "box")),
            box_format=self._batches[0][1].box_format,
            class_names=self._batches[0][1].class_names,
        )
        return diagnose(counts, detections, truths, words, has_classes=has_classes, is_whole=False)


def _joined(batches: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: np.concatenate([getattr(batch, name) for batch in batches]) for name in names}
