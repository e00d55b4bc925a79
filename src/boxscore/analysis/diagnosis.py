"""The likely cause of a suspicious result: labels off by one, another box format, fractions beside pixels, and others.

Each interpretation of the boxes or labels is tried on the detections with the highest scores, as many as there are
truths: the right one makes a good part of them overlap truths, a wrong one almost none. For a detector that is just bad
there is no interpretation that does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from boxscore._support.arrays import to_numpy
from boxscore._support.text import count
from boxscore.analysis.suspicion import Counts
from boxscore.engines.native.pairs import nearest, side
from boxscore.geometry.box_formats import BoxFormat
from boxscore.geometry.boxes import Boxes, to_xyxy
from boxscore.geometry.masks import Masks
from boxscore.model.dataset import ClassNames, Columns, Detections, Truths, host_ids, take
from boxscore.model.protocol import Protocol

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_DETECTIONS = 3000
"""At most this many detections are examined."""
MIN_OVERLAPS = 3
"""Fewer overlaps than this may be chance."""
MIN_SHARE = 0.2
"""The share of the detections that must overlap truths for an interpretation to be right."""
CLEAR_SHARE = 0.8
"""The share of them that leaves no doubt."""
MIN_RATIO = 4
"""How many times as many must overlap, or agree, as without the interpretation."""
IOU = 0.5
LARGEST_COORDINATE = 1e9
"""Boxes beyond it overlap nothing."""


Kind = Literal[
    "empty",
    "box-format",
    "unit",
    "axes",
    "image-ids",
    "shifted-labels",
    "other-labels",
    "foreign-labels",
    "few-images",
    "mask-sizes",
]
"""Short names of mistakes, which stay the same for programs."""


class Words(NamedTuple):
    """What detections and truths are called where the warning is read, and how to correct a mistake there."""

    detections: str = "`preds`"
    truths: str = "`targets`"
    box_format: str = "give both in the metric's `box_format`"
    """How detections of another format, `{}`, are read."""
    truth_box_format: str = "give both in the metric's `box_format`"
    labels: str = "before `update`"
    """Where labels are changed."""
    classes: str = "give both the same labels"
    """What to do where all labels mean something else."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """A likely mistake, in words."""

    kind: Kind
    message: str

    def __str__(self) -> str:
        return self.message


class _Reading(NamedTuple):
    """Another interpretation of boxes or images."""

    kind: Kind
    message: str
    advice: str
    detections: Any = None
    """The detections under this interpretation, as `side` gives them; None: as they are."""
    truths: Any = None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Sample:
    """The detections that are examined, and the truths."""

    detections: Detections
    truths: Truths
    has_boxes: bool
    """Whether the boxes are what was given, and not those around other shapes."""

    @classmethod
    def of(cls, detections: Detections, truths: Truths, has_boxes: bool) -> "_Sample":
        """The detections with the highest scores, as many as there are truths."""
        num = min(max(len(truths), MIN_OVERLAPS), MAX_DETECTIONS, len(detections))
        score = to_numpy(detections.score)
        is_examined = np.ones(len(score), bool)
        if num < len(score):
            is_examined[np.argpartition(-score, num - 1)[num:]] = False
        return cls(detections=take(detections, is_examined), truths=truths, has_boxes=has_boxes)

    def overlaps(self, reading: _Reading | None = None) -> tuple[Ids, Ids]:
        """The detections that overlap a truth of any class, and the truth that each overlaps most."""
        detections = None if reading is None else reading.detections
        truths = None if reading is None else reading.truths
        return find_overlaps(
            one_class(self.detections) if detections is None else detections,
            one_class(self.truths) if truths is None else truths,
        )

    def is_better(self, num: int, num_before: int) -> bool:
        """Whether so many overlaps make an interpretation right, where there were so many before."""
        if num < max(MIN_OVERLAPS, MIN_SHARE * len(self.detections)):
            return False
        return num >= MIN_RATIO * num_before or (num >= CLEAR_SHARE * len(self.detections) and num >= 2 * num_before)


def find_overlaps(detections: Any, truths: Any) -> tuple[Ids, Ids]:
    """The rows of detections that have an IoU of at least 0.5 with a truth, and the truth of the largest IoU.

    Both are given as `one_class` or `boxes_on` makes them: classes do not matter.
    """
    found = nearest(detections, truths, Protocol.named("coco"), 1)
    rows = np.flatnonzero(found.own_iou >= IOU)
    return rows, found.own[rows].astype(np.int64)


def one_class(columns: Detections | Truths) -> Any:
    """Detections or truths as they are, all of one class."""
    label = np.zeros(len(columns), np.int64)
    if isinstance(columns, Truths):
        return side(replace(columns, label=label, class_names=None), np.ones(len(columns), bool))
    return side(replace(columns, label=label), np.ones(len(columns), bool))


def boxes_on(kind: type[Detections] | type[Truths], image: Ids, corner: Floats) -> Any:
    """Detections or truths of one class with these corners, of which invalid boxes are not used."""
    is_in_range, is_ordered = np.abs(corner) <= LARGEST_COORDINATE, corner[:, :2] <= corner[:, 2:]
    is_valid = np.asarray(np.concatenate([is_in_range, is_ordered], axis=1).all(axis=1))
    columns: dict[str, Any] = {"image": image, "label": np.zeros(len(image), np.int64)}
    if kind is Detections:
        columns["score"] = np.zeros(len(image))
    return side(kind(**columns, box=np.where(is_valid[:, np.newaxis], corner, 0.0)), is_valid)


def _corners(box: Floats, box_format: BoxFormat) -> Floats:
    return np.stack(to_xyxy(box, box_format), axis=1)


def _boxes(columns: Detections | Truths) -> Floats:
    """The boxes in host memory."""
    return to_numpy(columns.box).astype(np.float64)


def with_boxes(columns: Columns) -> Columns:
    """The same rows with boxes; those around the shapes, if they have other shapes."""
    if isinstance(columns.geometry, Boxes):
        return columns
    return replace(columns, geometry=Boxes(box=to_numpy(columns.geometry.outer_boxes())), others=())


def diagnose(
    counts: Counts,
    detections: Detections | None,
    truths: Truths | None,
    words: Words,
    *,
    has_classes: bool = True,
    has_boxes: bool = True,
    is_whole: bool = True,
) -> Diagnosis | None:
    """The likely mistake behind a result; None if it is not suspicious, or if there is no likely mistake.

    `detections` and `truths`: all of them, or those of some images; None where they are not stored. `has_classes`:
    whether labels matter. `has_boxes`: whether boxes, if they have any, are what was evaluated. `is_whole`: whether
    these are all detections and truths.
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
    unlike = unlike_sizes(detections, truths)
    if unlike is not None and unlike.is_most_of(np.unique(host_ids(truths.image)).size):
        return unlike.diagnosis(words)
    has_boxes &= all(isinstance(each.geometry, Boxes) for each in (detections, truths))
    detections, truths = with_boxes(detections), with_boxes(truths)
    with np.errstate(all="ignore"):
        sample = _Sample.of(detections, truths, has_boxes)
        rows, matched = sample.overlaps()
        found = None
        if 2 * rows.size < len(sample.detections):
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
    """The interpretation of the boxes under which most detections overlap truths, and those overlaps."""
    box, truth_box = _boxes(sample.detections), _boxes(sample.truths)
    best: tuple[Diagnosis, Ids, Ids] | None = None
    for reading in _readings(sample, box, truth_box, words):
        rows, matched = sample.overlaps(reading)
        if sample.is_better(rows.size, num_before) and (best is None or rows.size > best[1].size):
            shown = f"of the {count(len(sample.detections), 'best detection')} {rows.size:,} would overlap a truth"
            message = f"{reading.message}: {shown} (IoU {IOU:g}) if read so, and {num_before:,} do now"
            best = Diagnosis(kind=reading.kind, message=f"{message}; {reading.advice}"), rows, matched
    if best is None and sample.has_boxes and (units := unlike_units(box, truth_box, words)):
        nothing = np.zeros(0, np.int64)
        best = Diagnosis(kind="unit", message=units), nothing, nothing
    return best


def _readings(sample: _Sample, box: Floats, truth_box: Floats, words: Words) -> list[_Reading]:
    """Every other interpretation of boxes and image ids."""
    detections, truths = sample.detections, sample.truths
    sizes = truths.image_sizes or {}
    readings = _shifted_images(sample, box, words)
    if not sample.has_boxes:
        return readings
    for kind, message, advice, corner in _other_corners(detections, box, sizes, words.detections, words.box_format):
        changed = boxes_on(Detections, host_ids(detections.image), corner)
        readings.append(_Reading(kind, message, advice, detections=changed))
    for kind, message, advice, corner in _other_corners(truths, truth_box, sizes, words.truths, words.truth_box_format):
        changed = boxes_on(Truths, host_ids(truths.image), corner)
        readings.append(_Reading(kind, message, advice, truths=changed))
    return readings


def _other_corners(
    columns: Detections | Truths, box: Floats, sizes: Mapping[int, tuple[int, int]], name: str, advice: str
) -> Iterator[tuple[Kind, str, str, Floats]]:
    """Kind, message and advice of every other interpretation of boxes, and the corners that they then have."""
    declared = columns.box_format
    for other in get_args(BoxFormat):
        if other != declared:
            message = f"the boxes of {name} look like {other}, but are read as {declared}"
            yield "box-format", message, advice.format(other), _corners(box, other)
    yield "axes", f"x and y of {name} look swapped", "write x before y", _corners(box[:, [1, 0, 3, 2]], declared)
    images = host_ids(columns.image).tolist()
    size = np.array([sizes.get(image, (np.nan, np.nan)) for image in images], np.float64).reshape(-1, 2)
    in_pixels = _corners(box, declared) * np.concatenate([size, size], axis=1)
    for unit, whole in (("fractions", 1), ("percentages", 100), ("thousandths", 1000)):
        message = f"the boxes of {name} look like {unit} of the image's size, but are read as pixels"
        factor = "multiply them by the image's width and height" + (f" / {whole}" if whole > 1 else "")
        yield "unit", message, factor, in_pixels / whole


def _shifted_images(sample: _Sample, box: Floats, words: Words) -> list[_Reading]:
    """The detections on the images before and after their own."""
    image = host_ids(sample.detections.image)
    images = np.unique(np.concatenate([image, host_ids(sample.truths.image)]))
    index, corner = np.searchsorted(images, image), _corners(box, sample.detections.box_format)
    readings = []
    for shift, word in ((1, "low"), (-1, "high")):
        moved = np.where(np.isin(index + shift, np.arange(images.size)), index + shift, 0)
        message = f"the images of {words.detections} look one too {word}: they are the images next to the right ones"
        advice = "give each detection the id of its own image"
        readings.append(_Reading("image-ids", message, advice, boxes_on(Detections, images[moved], corner)))
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


class UnlikeSizes(NamedTuple):
    """Masks of the same image that have different sizes, and so nothing in common."""

    num_images: int
    size: list[int]
    """Height and width of a detection."""
    truth_size: list[int]

    def is_most_of(self, num_images: int) -> bool:
        """Whether so many images may have a result near 0 for this reason alone."""
        return 2 * self.num_images >= num_images

    def diagnosis(self, words: Words) -> Diagnosis:
        """What to say about them."""
        sizes = [" x ".join(map(str, each)) for each in (self.size, self.truth_size)]
        images = count(self.num_images, "image")
        what = f"masks have different sizes in {words.detections} and {words.truths} for {images}"
        message = f"{what}, such as {sizes[0]} and {sizes[1]} (height x width): these never match; resize one of them"
        return Diagnosis(kind="mask-sizes", message=message)


def unlike_sizes(detections: Detections, truths: Truths) -> UnlikeSizes | None:
    """The masks of the same image that have different sizes, if there are any."""
    geometry, truth_geometry = detections.geometry, truths.geometry
    if not (isinstance(geometry, Masks) and isinstance(truth_geometry, Masks)):
        return None
    images, first = np.unique(host_ids(truths.image), return_index=True)
    row = np.searchsorted(images, host_ids(detections.image)).clip(max=max(images.size - 1, 0))
    if not images.size or not row.size:
        return None
    size, other = geometry.runs.sizes, truth_geometry.runs.sizes[first[row]]
    is_unlike = (images[row] == host_ids(detections.image)) & (size != other).any(axis=1)
    if not is_unlike.any():
        return None
    index = int(np.argmax(is_unlike))
    return UnlikeSizes(np.unique(row[is_unlike]).size, size[index].tolist(), other[index].tolist())


def _misread_labels(
    sample: _Sample, rows: Ids, matched: Ids, names: Mapping[int, str] | None, words: Words
) -> Diagnosis | None:
    """What is wrong with labels, where the boxes are right."""
    labels, truth_labels = host_ids(sample.detections.label), host_ids(sample.truths.label)
    label, wanted = labels[rows], truth_labels[matched]
    order = np.array(sorted(names) if names else np.unique(truth_labels), np.int64)
    num_before = int((label == wanted).sum())
    # If the list of classes has a class without truths, detections may really be of that class.
    is_foreign = not np.isin(labels, truth_labels).any()
    is_foreign &= names is None or np.unique(truth_labels).size == 1

    def at(index: Ids) -> Ids:
        is_valid = (index >= 0) & (index < order.size)
        return np.where(is_valid, order[np.where(is_valid, index, 0)], np.iinfo(np.int64).min)

    readings: dict[str, tuple[Ids, str]] = {
        "one too low": (label + 1, "add 1"),
        "one too high": (label - 1, "subtract 1"),
        "like indices into the list of classes, from 0": (at(label), "give the ids at these indices"),
        "like indices into the list of classes, from 1": (at(label - 1), "give the ids at these indices"),
    }
    # The ids of classes may have gaps: the next class is not always one more.
    index = np.searchsorted(order, label)
    if np.isin(label, order).all():
        readings |= {
            "one class too low": (at(index + 1), "give the next class"),
            "one class too high": (at(index - 1), "give the class before"),
        }
    best, num = "", 0
    for says, (reading, _) in readings.items():
        is_right = reading == wanted
        num_labels = np.unique(label[is_right & (label != wanted)]).size
        # A detector that knows one class only, and the wrong one, is no shift.
        if is_right.sum() > num and (num_labels >= 2 or is_foreign):
            best, num = says, int(is_right.sum())
    is_much_better = num >= max(MIN_OVERLAPS, 0.5 * rows.size, MIN_RATIO * num_before)
    if is_much_better or num >= max(10, CLEAR_SHARE * rows.size, 1.5 * num_before):
        shown = f"of {rows.size:,} that overlap a truth, {num:,} would be of its class, and {num_before:,} are now"
        message = f"the labels of {words.detections} look {best}: {shown}; {readings[best][1]} ({words.labels})"
        return Diagnosis(kind="shifted-labels", message=message)
    if (mapping := _mapping(label, wanted)) and num_before * MIN_RATIO <= rows.size:
        shown = ", ".join(f"{one} is {_shown(other, names)}" for one, other in mapping[:3])
        message = f"the labels of {words.detections} look like those of another list of classes ({shown}, …)"
        return Diagnosis(kind="other-labels", message=f"{message}: {words.classes}")
    if is_foreign:
        some, others = (", ".join(map(str, np.unique(each)[:3])) for each in (labels, truth_labels))
        message = f"no label of {words.detections} ({some}, …) is one of {words.truths} ({others}, …)"
        return Diagnosis(kind="foreign-labels", message=f"{message}: {words.classes}")
    return None


def _mapping(label: Ids, wanted: Ids) -> list[tuple[int, int]]:
    """The class of the truths that each label overlaps, if it is nearly always the same, and another for each label."""
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


class _CopiedBatch(NamedTuple):
    """The columns of one batch by name, in memory of its own."""

    detections: dict[str, Any]
    truths: dict[str, Any]


class Watch:
    """Copies of the first batches of a stream, which does not store its boxes otherwise."""

    NUM_BATCHES = 10
    NUM_ROWS = 20_000
    """Once it has so many boxes, no more batches are copied; of a batch with more, only some images are."""

    def __init__(self) -> None:
        self._batches: list[_CopiedBatch] = []
        self._num_rows = 0
        self._has_boxes = True
        self._unlike_sizes: UnlikeSizes | None = None
        self._formats: tuple[BoxFormat, BoxFormat] = "xyxy", "xyxy"
        self._class_names: ClassNames | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is room for another batch."""
        return len(self._batches) < self.NUM_BATCHES and self._num_rows < self.NUM_ROWS

    def add(self, detections: Detections, truths: Truths) -> None:
        """Copy a batch."""
        if not self.is_open or not len(truths):
            return
        self._has_boxes &= isinstance(truths.geometry, Boxes)
        if (unlike := unlike_sizes(detections, truths)) is not None:
            before = self._unlike_sizes
            self._unlike_sizes = unlike._replace(num_images=unlike.num_images + (before.num_images if before else 0))
        detections, truths = with_boxes(detections), with_boxes(truths)
        if max(len(detections), len(truths)) > self.NUM_ROWS:
            images = np.unique(host_ids(truths.image)[: self.NUM_ROWS // 10])
            detections = take(detections, np.isin(host_ids(detections.image), images))
            truths = take(truths, np.isin(host_ids(truths.image), images))
        if not self._batches:
            self._formats, self._class_names = (detections.box_format, truths.box_format), truths.class_names
        self._batches.append(_CopiedBatch(_copied(detections), _copied(truths)))
        self._num_rows += max(len(detections), len(truths))

    def diagnose(self, counts: Counts, words: Words, *, has_classes: bool = True) -> Diagnosis | None:
        """The likely mistake behind the result of the whole stream, by the batches that were copied."""
        if not counts.is_suspicious:
            return None
        if not self._batches:
            return diagnose(counts, None, None, words)
        columns, truth_columns, num_images = self._joined()
        if self._unlike_sizes is not None and self._unlike_sizes.is_most_of(num_images) and not counts.is_empty:
            return self._unlike_sizes.diagnosis(words)
        detections = Detections(**columns, box_format=self._formats[0])
        truths = Truths(**truth_columns, box_format=self._formats[1], class_names=self._class_names)
        settings = {"has_classes": has_classes, "has_boxes": self._has_boxes}
        return diagnose(counts, detections, truths, words, **settings, is_whole=False)

    def _joined(self) -> tuple[dict[str, Any], dict[str, Any], int]:
        """The columns of all batches, and how many images they have.

        Images are renumbered: batches may use the same numbers.
        """
        num_images, batches = 0, []
        for columns, truth_columns in self._batches:
            ids = np.concatenate([columns["image"], truth_columns["image"]])
            images, code = np.unique(ids, return_inverse=True)
            image, truth_image = np.split(code + num_images, [columns["image"].size])
            batches.append((columns | {"image": image}, truth_columns | {"image": truth_image}))
            num_images += images.size
        sides = zip(*batches, strict=True)
        joined, truths = ({name: np.concatenate([each[name] for each in side]) for name in side[0]} for side in sides)
        return joined, truths, num_images


def _copied(columns: Detections | Truths) -> dict[str, Any]:
    """The columns that a diagnosis needs."""
    copied = {"image": host_ids(columns.image).copy(), "label": host_ids(columns.label).copy()}
    if isinstance(columns, Detections):
        copied["score"] = to_numpy(columns.score).copy()
    return copied | {"box": to_numpy(columns.box).copy()}
