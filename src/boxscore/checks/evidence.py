"""Find evidence of likely mistakes in arrays: units, formats, precision, labels, overlaps, resizing; all thresholds.

Functions take arrays and return values, not messages, so that files, batches and results are judged alike.
`boxscore.checks.suspicion` has the evidence from counts per class, without NumPy.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore.data.dataset import Detections, Truths
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.geometry.boxes import PREFIX, iou_of_measured, look_like_fractions, measure, sizes, to_xyxy
from boxscore.engines.native.pairs import nearest, side
from boxscore.protocol.protocol import Protocol

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

MIN_BOXES = 10
"""Minimum number of boxes to judge format, unit, precision and labels."""
MIN_PIXELS = 10
"""Boxes with a number above this are in pixels, if the boxes of the other side look like fractions."""
MIN_MISPLACED = 0.3
"""Minimum share of shapes that must be impossible as they are read."""
MIN_FITTING = 0.95
"""Minimum share of shapes that must be possible in the other interpretation."""

IOU = 0.5
MAX_DETECTIONS = 3000
"""Maximum number of detections that are examined."""
MIN_OVERLAPS = 3
"""Minimum number of overlaps; fewer may be chance."""
MIN_SHARE = 0.2
"""Minimum share of detections that must overlap truths if an interpretation is right."""
CLEAR_SHARE = 0.8
"""Share of overlapping detections that leaves no doubt."""
MIN_RATIO = 4
"""Minimum ratio of the overlaps, or agreements, with and without the interpretation."""
LARGEST_COORDINATE = 1e9
"""Boxes with larger coordinates are treated as invalid, and overlap nothing."""


# Units.


def have_different_units(box: Floats, other: Floats) -> bool:
    """Whether `box` looks like fractions of the image's size, and `other` like pixels."""
    if not len(box) or not len(other):
        return False
    return look_like_fractions(box) and not look_like_fractions(other) and bool(np.abs(other).max() > MIN_PIXELS)


# Box formats.


def reaches_beyond(corner: Floats, size: Floats, slack: float | Floats) -> Flags:
    """Whether boxes reach beyond their images by more than `slack`; False where the size is unknown."""
    is_out = np.concatenate([corner[:, :2] < -slack, corner[:, 2:] > size + slack], axis=1)
    return np.asarray(is_out.any(axis=1) & ~np.isnan(size[:, 0]))


class OtherFormat(NamedTuple):
    """A format in which boxes are possible, while they are not in the declared one."""

    other: BoxFormat
    is_bad: Flags
    """Which boxes are impossible, or unlikely, in the declared format. Shape (N,)."""
    why: str
    """The property of these boxes in the declared format, as a verb phrase."""


def find_other_format(
    box: Floats, declared: BoxFormat, size: Floats | None = None, *, is_truths: bool
) -> OtherFormat | None:
    """The format that boxes look like, if it is not the declared one; else None.

    Args:
        box: Finite numbers. Shape (N, 4).
        declared: The format in which they are read.
        size: Width and height of each box's image, NaN where unknown; None if all are unknown. Shape (N, 2).
        is_truths: Whether the boxes are truths. An untrained network may put its boxes anywhere.
    """
    if len(box) < MIN_BOXES:
        return None
    has_size = np.zeros(len(box), bool) if size is None else ~np.isnan(size[:, 0])
    is_measured = size is not None and has_size.sum() >= MIN_BOXES
    if declared == "xyxy" or (declared == "xywh" and is_measured):
        other: BoxFormat = "xyxy" if declared == "xywh" else "xywh"
        is_bad: Flags = np.stack(sizes(box, declared), axis=1).min(axis=1) < 0
        is_good: Flags = np.stack(sizes(box, other), axis=1).min(axis=1) >= 0
        why, judged = "are of negative size", np.ones(len(box), bool)
        if size is not None and is_measured:
            is_bad = (is_bad | reaches_beyond(corners_of(box, declared), size, 0.1 * size)) & has_size
            is_good &= ~reaches_beyond(corners_of(box, other), size, 0.01 * size)
            why, judged = f"{why}, or far outside of their image,", has_size
        is_other = is_bad[judged].mean() >= MIN_MISPLACED and is_good[judged].mean() >= MIN_FITTING
        return OtherFormat(other, is_bad, why) if is_other else None
    if look_like_corners(box, declared):
        x, y = ("cx", "cy") if declared == "cxcywh" else ("x", "y")
        return OtherFormat("xyxy", np.ones(len(box), bool), f"have width > {x} and height > {y}")
    if not is_truths or declared != "cxcywh" or len(box) < 2 * MIN_BOXES or not (box[:, :2] >= 0).all():
        return None
    is_outside = np.asarray((box[:, :2] < 0.45 * box[:, 2:]).any(axis=1))
    has_many = is_outside.mean() >= MIN_SHARE
    return OtherFormat("xywh", is_outside, "begin left of the image or above it") if has_many else None


def look_like_corners(box: Floats, box_format: BoxFormat) -> bool:
    """Whether boxes that are read as positions and sizes look like xyxy.

    Corners always have x2 >= x1. Some sizes are smaller than the position, unless all boxes fill most of their images;
    but then few sizes are only a little larger than the position.
    """
    if box_format == "xyxy" or len(box) < MIN_BOXES or (box[:PREFIX, 2:] < box[:PREFIX, :2]).any():
        return False
    near, far = box[:, :2], box[:, 2:]
    if not (far >= near).all() or (near > 0.7 * far).any(axis=1).mean() < MIN_MISPLACED:
        return False
    return len(np.unique(box, axis=0)) >= MIN_BOXES


def corners_of(box: Floats, box_format: BoxFormat) -> Floats:
    """Left, top, right, bottom. Shape (N, 4)."""
    return np.stack(to_xyxy(box, box_format), axis=1)


# Precision.

_NUM_BITS = {"bfloat16": _compiled.BFLOAT16_BITS, "float16": _compiled.FLOAT16_BITS}
"""Number of significant bits by type."""


def rounded_to(values: Floats) -> str | None:
    """The narrowest type of 16 bits that numbers were rounded to; None if they have more digits, or fewer.

    All numbers fit in its bits, and small numbers need the last bit as often as large ones. Whole and half pixels fit,
    too, but then small numbers have fewer bits than large ones.

    >>> values = np.random.default_rng(0).uniform(0, 640, 100)
    >>> rounded_to(values), rounded_to(values.astype(np.float16)), rounded_to(np.round(values))
    (None, 'float16', None)
    """
    if not _fits(values[:PREFIX], max(_NUM_BITS.values())):
        return None
    values = np.unique(np.abs(values[(values != 0) & np.isfinite(values)]))
    is_small = values < values.max(initial=0) / 4
    if values.size < 2 * MIN_BOXES or is_small.sum() < MIN_BOXES:
        return None
    for kind, bits in _NUM_BITS.items():
        if _fits(values, bits):
            is_odd = _digits(values, bits) % 2 == 1
            return kind if is_odd.mean() >= 0.3 and is_odd[is_small].mean() >= 0.25 else None
    return None


def _fits(values: Floats, bits: int) -> bool:
    """Whether no number has more than `bits` significant bits."""
    digits = _digits(values, bits)
    return bool((digits == np.floor(digits)).all())


def _digits(values: Floats, bits: int) -> Floats:
    """The first `bits` significant bits of numbers as integers; with a fraction if a number has more bits."""
    return np.ldexp(np.frexp(values.astype(np.float64))[0], bits)


# Overlaps.


def best_rows(score: Floats, num_truths: int) -> Ids:
    """The `num_truths` rows with the highest scores, ascending; at least `MIN_OVERLAPS`, at most `MAX_DETECTIONS`."""
    num = min(max(num_truths, MIN_OVERLAPS), MAX_DETECTIONS, len(score))
    if num == len(score):
        return np.arange(num)
    return np.sort(np.argpartition(-score, num - 1)[:num])


def is_better(num: int, num_before: int, num_rows: int) -> bool:
    """Whether an interpretation is likely right.

    `num` of `num_rows` rows overlap truths with it, `num_before` without it.
    """
    if num < max(MIN_OVERLAPS, MIN_SHARE * num_rows):
        return False
    return num >= MIN_RATIO * num_before or (num >= CLEAR_SHARE * num_rows and num >= 2 * num_before)


def find_overlaps(detections: Any, truths: Any) -> tuple[Ids, Ids]:
    """The detections that have an IoU of at least 0.5 with a truth, and for each the truth with the largest IoU.

    `detections` and `truths` come from `one_class` or `boxes_on`, so that classes do not matter.
    """
    found = nearest(detections, truths, Protocol.named("coco"), 1)
    rows = np.flatnonzero(found.own_iou >= IOU)
    return rows, found.own[rows].astype(np.int64)


def one_class(columns: Detections | Truths) -> Any:
    """Detections or truths with the same label in all rows."""
    label = np.zeros(len(columns), np.int64)
    if isinstance(columns, Truths):
        return side(replace(columns, labels=label, class_names=None), np.ones(len(columns), bool))
    return side(replace(columns, labels=label), np.ones(len(columns), bool))


def boxes_on(kind: type[Detections] | type[Truths], image: Ids, corner: Floats) -> Any:
    """Detections or truths of one class with these corners; invalid boxes are excluded."""
    is_in_range, is_ordered = np.abs(corner) <= LARGEST_COORDINATE, corner[:, :2] <= corner[:, 2:]
    is_valid = np.asarray(np.concatenate([is_in_range, is_ordered], axis=1).all(axis=1))
    columns: dict[str, Any] = {"image_ids": image, "labels": np.zeros(len(image), np.int64)}
    if kind is Detections:
        columns["scores"] = np.zeros(len(image))
    return side(kind(**columns, boxes=np.where(is_valid[:, np.newaxis], corner, 0.0)), is_valid)


# Labels.


class LabelReading(NamedTuple):
    """An interpretation of labels."""

    name: str
    """Description of the labels, such as "one too low"."""
    label: Ids
    """The labels under this interpretation. Shape (N,)."""
    remedy: str


class ShiftedLabels(NamedTuple):
    """The interpretation under which labels agree with the truths that their boxes overlap."""

    reading: LabelReading
    num_overlaps: int
    num_then: int
    num_now: int

    @property
    def facts(self) -> dict[str, Any]:
        """Values for the placeholders of templates, such as `SHIFTED`."""
        numbers = {"overlaps": self.num_overlaps, "then": self.num_then, "now": self.num_now}
        return {"reading": self.reading.name, "advice": self.reading.remedy, **numbers}


SHIFTED = "of {overlaps} that overlap a truth, {then} would be of its class, and {now} are now"
"""Template of the evidence of shifted labels."""


def labels_at(order: Ids, index: Ids) -> Ids:
    """The classes at these indices; the smallest int64 for invalid indices."""
    is_valid = (index >= 0) & (index < order.size)
    none = np.iinfo(np.int64).min
    return np.where(is_valid, order[np.where(is_valid, index, 0)], none) if order.size else np.full(index.shape, none)


def label_readings(label: Ids, order: Ids, *, is_position: bool = False) -> list[LabelReading]:
    """All other interpretations of labels.

    `order`: the classes, ascending. `is_position`: whether labels are indices into `order`.

    >>> [each.name for each in label_readings(np.array([0, 1]), np.array([1, 17]))][:2]
    ['one too low', 'one too high']
    """
    if is_position:
        return [
            LabelReading("one too low", labels_at(order, label + 1), "add 1"),
            LabelReading("one too high", labels_at(order, label - 1), "subtract 1"),
            LabelReading("like ids of classes", label, "give indices into the list of classes"),
        ]
    at_index = "give the ids at these indices"
    readings = [
        LabelReading("one too low", label + 1, "add 1"),
        LabelReading("one too high", label - 1, "subtract 1"),
        LabelReading("like indices into the list of classes, from 0", labels_at(order, label), at_index),
        LabelReading("like indices into the list of classes, from 1", labels_at(order, label - 1), at_index),
    ]
    # The ids of classes may have gaps: the next class does not always have the next id.
    if np.isin(label, order).all():
        index = np.searchsorted(order, label)
        readings += [
            LabelReading("one class too low", labels_at(order, index + 1), "give the next class"),
            LabelReading("one class too high", labels_at(order, index - 1), "give the class before"),
        ]
    return readings


def find_shifted_labels(
    label: Ids, wanted: Ids, is_right: Flags, readings: Sequence[LabelReading], *, is_foreign: bool
) -> ShiftedLabels | None:
    """The interpretation under which far more labels agree with the truths that their boxes overlap.

    Args:
        label: The labels of detections that overlap a truth. Shape (N,).
        wanted: The labels of these truths. Shape (N,).
        is_right: Which detections are of the class of their truth now. Shape (N,).
        readings: The interpretations of `label`.
        is_foreign: Whether none of the labels is a class of the truths.
    """
    best, num, num_now = None, 0, int(is_right.sum())
    for reading in readings:
        is_then = reading.label == wanted
        # A detector that knows only one class, and the wrong one, is not shifted.
        if is_then.sum() > num and (is_foreign or np.unique(label[is_then & ~is_right]).size >= 2):
            best, num = reading, int(is_then.sum())
    is_much_better = num >= max(MIN_OVERLAPS, 0.5 * label.size, MIN_RATIO * num_now)
    if best is None or not (is_much_better or num >= max(MIN_BOXES, CLEAR_SHARE * label.size, 1.5 * num_now)):
        return None
    return ShiftedLabels(best, label.size, num, num_now)


def find_label_shift(label: Ids, truth_label: Ids) -> int | None:
    """1 or -1, if no label is a truth's label, and adding it would reach most of the truths' labels; else None."""
    if min(len(label), len(truth_label)) < MIN_BOXES // 2 or np.isin(label[:PREFIX], truth_label[:PREFIX]).any():
        return None
    labels, truth_labels = set(label.tolist()), set(truth_label.tolist())
    if labels & truth_labels:
        return None
    shifts = (
        shift for shift in (1, -1) if 2 * len({each + shift for each in labels} & truth_labels) > len(truth_labels)
    )
    return next(shifts, None)


def find_label_mapping(label: Ids, wanted: Ids) -> list[tuple[int, int]]:
    """Pairs of a label and the class of the truths that its boxes overlap, where they differ.

    Empty unless most overlaps are with the main class of their label, and most labels have different main classes.
    """
    pairs: list[tuple[int, int]] = []
    num_right = 0
    for each in np.unique(label).tolist():
        values, nums = np.unique(wanted[label == each], return_counts=True)
        pairs.append((each, int(values[np.argmax(nums)])))
        num_right += int(nums.max())
    is_clear = num_right >= max(MIN_BOXES, 0.7 * label.size)
    is_clear &= len({other for _, other in pairs}) >= max(2, 0.7 * len(pairs))
    return [pair for pair in pairs if pair[0] != pair[1]] if is_clear else []


# Resizing. A network's input is resized, and often padded to a square (letterboxing). A detection in its pixels has
# the size of its truth times one factor per axis. So each pair of a detection and a truth in one image proposes
# factors; if the two do not belong together, their centers rarely agree with these factors. The factors on which
# different objects agree are the resizing: one for all images, or one per image if images have different sizes.

MAX_BOXES = 20
"""Maximum number of boxes per image and side that are examined."""
MAX_PROPOSALS = 60
"""Maximum number of proposals per image that are examined."""
MAX_OFFSET = 0.15
"""Maximum distance of the centers of a pair, relative to the truth's width and height."""
MAX_SKEW = 0.12
"""Maximum difference of the logarithms of two factors that count as equal."""
BIN = 0.06
"""The width of the bins in which the logarithms of factors are counted."""


class Resizing(NamedTuple):
    """A resizing that would explain the detections."""

    corner: Floats
    """The detections with the resizing undone. Shape (D, 4), xyxy."""
    num_fitted: int
    """Number of overlaps that prove nothing, as the factors were chosen to produce them."""
    factors: Floats
    """Factors for the boxes in x and y; if images differ, the range of most of their factors. Shape (2,)."""
    is_common: bool
    """Whether all images have the same factors."""
    is_padded: bool = False
    """Whether boxes must be shifted by the image's padding, too."""


class _Image(NamedTuple):
    """The boxes of one image."""

    rows: Ids
    """The rows of its detections. Shape (D,)."""
    corner: Floats
    truth: Floats

    def proposals(self) -> Floats:
        """Scale (x, y) and shift (x, y) of each pair that may belong together. Shape (P, 4)."""
        center, size = _centers_and_sizes(self.corner)
        truth_center, truth_size = _centers_and_sizes(self.truth)
        row, other = np.nonzero((size.min(axis=1) > 0)[:, np.newaxis] & (truth_size.min(axis=1) > 0))
        scale, size = truth_size[other] / size[row], truth_size[other]
        shift = truth_center[other] - scale * center[row]
        found = [np.concatenate([scale, 0 * shift], axis=1)[_is_small(shift, size).all(axis=1)]]
        # Letterboxing: one factor for both axes, and padding along one of them.
        is_even = np.abs(np.log(scale[:, 0] / scale[:, 1])) <= MAX_SKEW
        scale = np.sqrt(scale.prod(axis=1, keepdims=True)) * [1.0, 1.0]
        shift = truth_center[other] - scale * center[row]
        for padded in ([True, False], [False, True]):
            is_possible = is_even & (_is_small(shift, size) | padded).all(axis=1)
            found.append(np.concatenate([scale, np.where(padded, shift, 0.0)], axis=1)[is_possible])
        every = np.concatenate(found)
        return np.asarray(every[np.isfinite(every).all(axis=1) & (every[:, :2].min(axis=1) > 0)])

    def best(self, proposals: Floats) -> Floats:
        """The proposal under which most objects overlap. Shape (4,)."""
        proposals = proposals[:: -(-len(proposals) // MAX_PROPOSALS)]
        is_overlap = _iou(_moved(self.corner, proposals[:, np.newaxis]), self.truth[np.newaxis]) >= IOU
        num = np.minimum(is_overlap.any(axis=1).sum(axis=1), is_overlap.any(axis=2).sum(axis=1))
        return np.asarray(proposals[np.argmax(num)])


def find_resizings(image: Ids, corner: Floats, truth_image: Ids, truth_corner: Floats) -> Iterator[Resizing]:
    """Yield the likeliest resizings: one with the same factors for all images, and one with factors per image.

    The caller judges whether enough detections overlap truths once it is undone. Corners are xyxy, shapes (D, 4) and
    (G, 4).
    """
    images = list(_images(image, corner, truth_image, truth_corner))
    proposals = [each.proposals() for each in images]
    if (common := _most_common(proposals)) is not None:
        yield Resizing(_moved(corner, np.append(common, [0, 0])), 1, common, is_common=True)
    moved, chosen = corner.copy(), []
    for each, own in zip(images, proposals, strict=True):
        if len(own):
            chosen.append(each.best(own))
            moved[each.rows] = _moved(each.corner, chosen[-1])
    if not chosen:
        return
    factors = np.percentile([each[:2] for each in chosen], [10, 90])
    is_padded = bool(np.mean([each[2:].any() for each in chosen]) > MIN_MISPLACED)
    yield Resizing(moved, len(chosen), factors, is_common=False, is_padded=is_padded)


def _images(image: Ids, corner: Floats, truth_image: Ids, truth_corner: Floats) -> Iterator[_Image]:
    """The images that have boxes on both sides."""
    order, truth_order = np.argsort(image, kind="stable"), np.argsort(truth_image, kind="stable")
    for each in np.intersect1d(image, truth_image):
        rows, others = (
            some[slice(*np.searchsorted(ids[some], [each, each + 1]))][:MAX_BOXES]
            for ids, some in ((image, order), (truth_image, truth_order))
        )
        yield _Image(rows, corner[rows], truth_corner[others])


def _most_common(proposals: Sequence[Floats]) -> Floats | None:
    """The factors (x, y) that most proposals without padding share, over all images; None without such proposals."""
    each = np.concatenate([np.zeros((0, 4)), *proposals])
    logs = np.log(each[~each[:, 2:].any(axis=1), :2])
    if not len(logs):
        return None
    num = Counter((x, y) for x, y in np.round(logs / BIN).astype(np.int64).tolist())
    # Count the neighbouring bins, too, as equal factors may fall into two bins.
    around = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)]
    top = max([*num], key=lambda each: sum(num[each[0] + x, each[1] + y] for x, y in around))
    is_near = np.abs(logs - np.multiply(top, BIN)).max(axis=1) <= 1.5 * BIN
    return np.asarray(np.exp(np.median(logs[is_near], axis=0)))


def _moved(corner: Floats, proposal: Floats) -> Floats:
    """Multiply boxes by the scale of a proposal and add its shift."""
    return np.asarray(corner * proposal[..., [0, 1, 0, 1]] + proposal[..., [2, 3, 2, 3]])


def _centers_and_sizes(corner: Floats) -> tuple[Floats, Floats]:
    return (corner[:, :2] + corner[:, 2:]) / 2, corner[:, 2:] - corner[:, :2]


def _is_small(shift: Floats, size: Floats) -> NDArray[np.bool_]:
    return np.asarray(np.abs(shift) <= MAX_OFFSET * size)


def _iou(corner: Floats, truth: Floats) -> Floats:
    """IoU of each pair. Shapes (P, D, 4), (1, G, 4); gives (P, D, G)."""
    measured = (measure(each, box_format="xyxy", pixels="continuous") for each in (corner, truth))
    return np.asarray(iou_of_measured(*measured, extent=0))
