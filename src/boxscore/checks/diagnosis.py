"""Likely mistakes of a user, for every way in: the metric, the commands, larger data, the adapters.

`find_input_mistakes` examines the data, whatever its result: boxes in another format, fractions, rounded numbers.
`find_mistakes` also examines why a result is suspicious: each interpretation of the boxes or labels is tried on the
detections with the highest scores, as many as there are truths. The right one makes a good part of them overlap truths,
a wrong one almost none; for a detector that is just bad no interpretation does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support.text import count
from boxscore.arrays import is_in_host_memory, to_numpy
from boxscore.checks.resizing import find_resizings
from boxscore.checks.suspicion import Counts, covers_few_images
from boxscore.data.dataset import ClassNames, Columns, Detections, Truths, host_ids, take
from boxscore.data.geometry.box_formats import UPRIGHT_FORMATS, BoxFormat
from boxscore.data.geometry.boxes import Boxes, to_xyxy
from boxscore.data.geometry.masks import Masks
from boxscore.engines.native.pairs import nearest, side
from boxscore.protocol.protocol import Protocol
from boxscore.result.result import Result

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
MAX_RESIZED_IMAGES = 150
"""In at most this many images the resizing of detections is looked for."""
MIN_BOXES = 10
"""Fewer boxes than this, on either side, say nothing about format and precision."""
HIGH_RECALL = 0.6
"""Recall above which detections are not taken to cover a part of the images only."""
_PREFIX = 32
"""So many rows usually show that a check need not look at all of them."""
LARGEST_FRACTION = 1.5
"""Coordinates up to this may be fractions of the image's size; boxes may reach beyond the image."""


Kind = Literal[
    "empty",
    "box-format",
    "unit",
    "fractions",
    "low-precision",
    "resized",
    "axes",
    "image-ids",
    "shifted-labels",
    "other-labels",
    "foreign-labels",
    "unused-first-class",
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
    both_formats: str = "did you mean box_format='{}'?"
    """How both sides are read in another format, `{}`."""
    labels: str = "before `update`"
    """Where labels are changed."""
    classes: str = "give both the same labels"
    """What to do where all labels mean something else."""
    class_names: str | None = "pass class_names={1: …}, or a list that starts with a name for label 0"
    """How class names from 1 on are given; None where the source lists its classes with their ids."""


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

    def of_some_images(self) -> "_Sample":
        """The rows on `MAX_RESIZED_IMAGES` images that have both detections and truths, spread evenly."""
        image, truth_image = host_ids(self.detections.image), host_ids(self.truths.image)
        images = np.intersect1d(image, truth_image)
        images = images[:: -(-images.size // MAX_RESIZED_IMAGES) or 1]
        detections, truths = (
            take(self.detections, np.isin(image, images)),
            take(self.truths, np.isin(truth_image, images)),
        )
        return replace(self, detections=detections, truths=truths)

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
    return np.asarray(to_numpy(columns.box), np.float64)


def with_boxes(columns: Columns) -> Columns:
    """The same rows with boxes; those around the shapes, if they have other shapes."""
    if isinstance(columns.geometry, Boxes):
        return columns
    return replace(columns, geometry=Boxes(box=to_numpy(columns.geometry.outer_boxes())), others=())


def find_mistakes(
    result: Result,
    detections: Detections | None,
    truths: Truths | None,
    words: Words,
    *,
    has_boxes: bool = True,
) -> list[Diagnosis]:
    """The likely mistakes behind a result; none if nothing is suspicious, or no mistake is likely.

    `detections` and `truths`: all rows, or the rows of some images; None where they are not stored. `has_boxes`:
    whether boxes, if they have any, are what was evaluated.
    """
    counts = Counts.of_result(result.per_class)
    has_classes = not result.protocol.class_agnostic
    cause = _cause(counts, detections, truths, words, has_classes=has_classes, has_boxes=has_boxes)
    found = [cause or _few_images(result, counts, words), _unused_first_class(counts, words)]
    if detections is not None and truths is not None and has_boxes:
        found += find_input_mistakes(detections, truths, words, result.protocol)
    # The first explanation of each kind is the best.
    return list({each.kind: each for each in reversed(found) if each is not None}.values())[::-1]


def _cause(
    counts: Counts,
    detections: Detections | None,
    truths: Truths | None,
    words: Words,
    *,
    has_classes: bool,
    has_boxes: bool,
) -> Diagnosis | None:
    """The interpretation of boxes and labels that would raise a suspicious result."""
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
        overlaps = _Overlaps(sample, *sample.overlaps())
        found = None
        if overlaps.share < CLEAR_SHARE:
            found, overlaps = _misread_boxes(overlaps, words)
        labels = None
        if has_classes and overlaps.sample.is_better(overlaps.rows.size, 0):
            labels = _misread_labels(overlaps, truths.names_by_label, words)
    if found is not None and labels is not None:
        return Diagnosis(kind=found.kind, message=f"{found.message}. Besides, {labels.message}")
    return found or labels


def _few_images(result: Result, counts: Counts, words: Words) -> Diagnosis | None:
    """Diagnose detections that cover few of the images with truths, where the detector is unlikely to be the cause."""
    num_found, num_truths = int(result.per_class.num_true[:, 0].sum()), sum(counts.num_truths)
    if result.lazy_tally is None or counts.is_empty or num_found > HIGH_RECALL * num_truths:
        return None
    tally = result.lazy_tally.value
    images = np.unique(tally.truth_image)
    num = int(np.isin(images, tally.image).sum())
    if not covers_few_images(images.size, num, len(tally), is_low=counts.is_low):
        return None
    what = f"only {num:,} of {count(images.size, 'image')} with truths have detections"
    advice = f"is {words.detections} complete, for these images, and no score threshold too high?"
    return Diagnosis(kind="few-images", message=f"{what}: {advice}")


def _unused_first_class(counts: Counts, words: Words) -> Diagnosis | None:
    """Diagnose labels that count from 1 beside class names that count from 0."""
    if words.class_names is None or not counts.has_unused_first_class:
        return None
    what = f"no label is 0, the label of {counts.name[0]!r}, and nearly all other classes occur"
    message = f"{what}: if labels count from 1, every class has the name of the next one; {words.class_names}"
    return Diagnosis(kind="unused-first-class", message=message)


class _Overlaps(NamedTuple):
    """The detections of a sample that overlap a truth of any class, and the truth that each overlaps most."""

    sample: _Sample
    rows: Ids
    truth: Ids

    @property
    def share(self) -> float:
        """The share of the detections."""
        return self.rows.size / len(self.sample.detections)

    @property
    def num_truths(self) -> int:
        """How many truths are overlapped. Identical boxes may all overlap one truth, which proves nothing."""
        return int(np.unique(self.truth).size)


def _misread_boxes(now: _Overlaps, words: Words) -> tuple[Diagnosis | None, _Overlaps]:
    """The interpretation of the boxes under which most detections overlap truths, and these overlaps."""
    sample = now.sample
    box, truth_box = _boxes(sample.detections), _boxes(sample.truths)
    best: Diagnosis | None = None
    overlaps = now
    for reading in _readings(sample, box, truth_box, words):
        then = _Overlaps(sample, *sample.overlaps(reading))
        is_better = sample.is_better(then.num_truths, now.num_truths)
        if is_better and (best is None or then.num_truths > overlaps.num_truths):
            message = f"{reading.message}: {_shown_overlaps(now, then)}; {reading.advice}"
            best, overlaps = Diagnosis(kind=reading.kind, message=message), then
    if best is None and sample.has_boxes and (units := unlike_units(box, truth_box, words)):
        nothing = np.zeros(0, np.int64)
        return Diagnosis(kind="unit", message=units), _Overlaps(sample, nothing, nothing)
    resized = _resized(sample.of_some_images(), words)
    # Thousandths of most images are much like the pixels of an image that was resized to 1000 x 1000.
    if resized is not None and (best is None or resized[1].share > 1.2 * overlaps.share):
        return resized
    return best, overlaps


def _resized(sample: _Sample, words: Words) -> tuple[Diagnosis, _Overlaps] | None:
    """The resizing of images that the detections still have, and the overlaps without it."""
    detections, truths = sample.detections, sample.truths
    image, corner = host_ids(detections.image), _corners(_boxes(detections), detections.box_format)
    now = _Overlaps(sample, *sample.overlaps())
    best: tuple[Diagnosis, _Overlaps] | None = None
    least = max(
        MIN_OVERLAPS, min(max(MIN_SHARE * len(detections), 1.5 * now.num_truths), CLEAR_SHARE * len(detections))
    )
    for resizing in find_resizings(image, corner, host_ids(truths.image), _corners(_boxes(truths), truths.box_format)):
        reading = _Reading("resized", "", "", detections=boxes_on(Detections, image, resizing.corner))
        then = _Overlaps(sample, *sample.overlaps(reading))
        num = then.num_truths - resizing.num_fitted
        if num >= max(least, 1.2 * now.num_truths):
            least = num + 1
            what = f"the boxes of {words.detections} match the truths if they are {resizing.change}"
            if not sample.has_boxes:  # boxes around points are smaller than boxes of bodies, so the factor is rough
                what = f"the shapes of {words.detections} match the truths if they are scaled"
            advice = f"are they in the pixels of resized images? Scale them to the images of {words.truths}"
            best = Diagnosis(kind="resized", message=f"{what}: {_shown_overlaps(now, then)}; {advice}"), then
    return best


def _shown_overlaps(now: _Overlaps, then: _Overlaps) -> str:
    best = count(len(now.sample.detections), "best detection")
    return f"of the {best} {then.rows.size:,} would then overlap a truth (IoU {IOU:g}), and {now.rows.size:,} do now"


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
    for other in UPRIGHT_FORMATS:
        corner = _corners(box, other)
        # In the right format, few boxes begin left of the image or above it.
        is_outside = (corner[:, :2] < 0.1 * (corner[:, :2] - corner[:, 2:])).any(axis=1)
        if other != declared and is_outside.mean() <= 0.2:
            message = f"the boxes of {name} look like {other}, but are read as {declared}"
            yield "box-format", message, advice.format(other), corner
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


def find_input_mistakes(detections: Detections, truths: Truths, words: Words, protocol: Protocol) -> list[Diagnosis]:
    """The likely mistakes that the data shows, whatever its result: for any part of it, such as one batch."""
    geometry, truth_geometry = detections.geometry, truths.geometry
    if not (is_in_host_memory(geometry.arrays[0]) and is_in_host_memory(truth_geometry.arrays[0])):
        return []
    found: list[Diagnosis | None] = []
    if (unlike := unlike_sizes(detections, truths)) is not None:
        found.append(unlike.diagnosis(words))
    if isinstance(geometry, Boxes) and isinstance(truth_geometry, Boxes):
        pair = _BoxPair(_boxes(detections), _boxes(truths), geometry.box_format, truth_geometry.box_format)
        found += [check(pair, words, protocol) for check in _BOX_CHECKS]
    found.append(_foreign_labels(detections, truths, words))
    return [each for each in found if each is not None]


class _BoxPair(NamedTuple):
    """The boxes of both sides as they were given. Shapes (D, 4), (G, 4)."""

    box: Floats
    truth_box: Floats
    box_format: BoxFormat
    truth_box_format: BoxFormat


def _different_units(pair: _BoxPair, words: Words, _: Protocol) -> Diagnosis | None:
    units = unlike_units(pair.box, pair.truth_box, words)
    return None if units is None else Diagnosis(kind="unit", message=units)


def unlike_units(box: Floats, truth_box: Floats, words: Words) -> str | None:
    """What to say if one side has fractions of the image's size and the other has pixels."""
    if not len(box) or not len(truth_box):
        return None
    sides = ((words.detections, box), (words.truths, truth_box))
    for (name, own), (other, others) in (sides, sides[::-1]):
        if are_fractions(own) and not are_fractions(others) and np.abs(others).max() > 10:
            what = f"the boxes of {name} look like fractions of the image's size, and the boxes of {other} like pixels"
            return f"{what}; multiply the fractions by the image's width and height"
    return None


def are_fractions(box: Floats) -> bool:
    """Whether boxes may be fractions of the image's size. A detector may put a few of them far outside."""
    if (np.abs(box[:_PREFIX]) > LARGEST_FRACTION).mean() > 0.5:
        return False
    return bool((np.abs(box) <= LARGEST_FRACTION).all(axis=1).mean() >= 0.99)


def _fractions(pair: _BoxPair, words: Words, protocol: Protocol) -> Diagnosis | None:
    """Fractions on both sides, where the protocol measures in pixels."""
    effects = []
    if len(protocol.areas) > 1 and protocol.ranges_by == "area":
        effects.append(f"every box counts as {protocol.areas[1].name}")
    if protocol.pixels == "inclusive":
        effects.append("every box becomes one pixel wider and higher")
    sides = pair.box, pair.truth_box
    if not effects or any(len(box) < MIN_BOXES or not are_fractions(box) for box in sides):
        return None
    if all((box == np.floor(box)).all() for box in sides):
        return None
    what = f"the boxes of {words.detections} and {words.truths} look like fractions of the image's size"
    message = f"{what}, but are read as pixels: {' and '.join(effects)}; multiply them by the image's width and height"
    return Diagnosis(kind="fractions", message=message)


def _other_format(pair: _BoxPair, words: Words, _: Protocol) -> Diagnosis | None:
    """Boxes that are implausible in the format that they are read in, whatever they overlap."""
    are_corners = [
        look_like_corners(pair.box, pair.box_format),
        look_like_corners(pair.truth_box, pair.truth_box_format),
    ]
    if any(are_corners):
        sides = zip((words.detections, words.truths), are_corners, strict=True)
        names = " and ".join(name for name, is_corner in sides if is_corner)
        is_one_sided = not all(are_corners) and min(len(pair.box), len(pair.truth_box)) >= MIN_BOXES
        advice = (
            (words.box_format if are_corners[0] else words.truth_box_format) if is_one_sided else words.both_formats
        )
        x, y = ("cx", "cy") if pair.box_format == "cxcywh" else ("x", "y")
        message = f"all boxes in {names} have width > {x} and height > {y}; {advice.format('xyxy')}"
        return Diagnosis(kind="box-format", message=message)
    # Truths only: a network that is not trained yet may put its boxes anywhere.
    if _begin_outside(pair.truth_box, pair.truth_box_format):
        what = f"many boxes in {words.truths} begin left of the image or above it as cxcywh, and none as xywh"
        return Diagnosis(kind="box-format", message=f"{what}; {words.both_formats.format('xywh')}")
    return None


def look_like_corners(box: Floats, box_format: BoxFormat) -> bool:
    """Whether boxes that are read as positions and sizes look like xyxy.

    Of corners, x2 >= x1 always. Of sizes, some are smaller than the position; not if all boxes fill most of their
    images, but then few are only a little larger.
    """
    if box_format == "xyxy" or len(box) < MIN_BOXES or (box[:_PREFIX, 2:] < box[:_PREFIX, :2]).any():
        return False
    near, far = box[:, :2], box[:, 2:]
    if not (far >= near).all() or (near > 0.7 * far).any(axis=1).mean() < 0.3:
        return False
    return len(np.unique(box, axis=0)) >= MIN_BOXES


def _begin_outside(box: Floats, box_format: BoxFormat) -> bool:
    """Whether boxes that are read as cxcywh look like xywh."""
    if box_format != "cxcywh" or len(box) < 2 * MIN_BOXES:
        return False
    is_outside = (box[:, :2] < 0.45 * box[:, 2:]).any(axis=1)
    return bool((box[:, :2] >= 0).all() and is_outside.mean() >= 0.2)


def _low_precision(pair: _BoxPair, words: Words, _: Protocol) -> Diagnosis | None:
    """Boxes that were rounded to 16 bits, in whatever type they came."""
    for name, box in ((words.detections, pair.box), (words.truths, pair.truth_box)):
        if (kind := rounded_to(box[:, :2])) is not None:
            steps = {"bfloat16": "2 pixels from 256 on", "float16": "half a pixel from 512 on"}[kind]
            what = f"the boxes of {name} are rounded to {kind}, in steps of {steps}, which changes the result"
            advice = "compute boxes in float32: cast the network's outputs before they are decoded, outside of autocast"
            return Diagnosis(kind="low-precision", message=f"{what}; {advice}")
    return None


_NUM_BITS = {"bfloat16": 8, "float16": 11}
"""Significant bits of a number."""


def rounded_to(values: Floats) -> str | None:
    """The narrowest type of 16 bits that numbers were rounded to; None if they have more digits, or fewer.

    All of them fit in its bits, and small ones need the last bit as often as large ones. Whole pixels and halves fit,
    too, but small ones have fewer bits than large ones.

    >>> values = np.random.default_rng(0).uniform(0, 640, 100)
    >>> rounded_to(values), rounded_to(values.astype(np.float16)), rounded_to(np.round(values))
    (None, 'float16', None)
    """
    if not _fits(values[:_PREFIX], max(_NUM_BITS.values())):
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
    """Whether no number has more significant bits."""
    digits = _digits(values, bits)
    return bool((digits == np.floor(digits)).all())


def _digits(values: Floats, bits: int) -> Floats:
    """The significant digits of numbers, of so many bits, as integers; with a fraction where there are more."""
    return np.ldexp(np.frexp(values.astype(np.float64))[0], bits)


_BOX_CHECKS = (_different_units, _fractions, _other_format, _low_precision)
"""The checks of the boxes of both sides."""


def _foreign_labels(detections: Detections, truths: Truths, words: Words) -> Diagnosis | None:
    """Labels of which none is among the other's, and most would be if they were one more or less."""
    if min(len(detections), len(truths)) < 5:
        return None
    label, truth_label = host_ids(detections.label), host_ids(truths.label)
    if np.isin(label[:_PREFIX], truth_label[:_PREFIX]).any():
        return None
    labels, truth_labels = set(label.tolist()), set(truth_label.tolist())
    if labels & truth_labels:
        return None
    for shift, advice in ((1, "add 1"), (-1, "subtract 1")):
        if len({label + shift for label in labels} & truth_labels) * 2 > len(truth_labels):
            what = f"no label of {words.detections} is among the labels of {words.truths}"
            message = f"{what}, but most would be with {shift:+d}: off by one? {advice} ({words.labels})"
            return Diagnosis(kind="shifted-labels", message=message)
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


def _misread_labels(overlaps: _Overlaps, names: Mapping[int, str] | None, words: Words) -> Diagnosis | None:
    """What is wrong with labels, where the boxes are right."""
    sample, rows, matched = overlaps
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
        self._num_examined = 0
        self._is_explained = False

    @property
    def is_open(self) -> bool:
        """Whether there is room for another batch."""
        return len(self._batches) < self.NUM_BATCHES and self._num_rows < self.NUM_ROWS

    def __copy__(self) -> "Watch":
        other = Watch()
        vars(other).update(vars(self), _batches=[*self._batches])
        return other

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

    def find_mistakes(self, result: Result, words: Words) -> list[Diagnosis]:
        """The likely mistakes behind the result of the whole stream, by the batches that were copied."""
        is_suspicious = Counts.of_result(result.per_class).is_suspicious
        is_new = self._num_examined < len(self._batches)
        if not is_new and (self._is_explained or not is_suspicious):
            return find_mistakes(result, None, None, words)
        self._num_examined = len(self._batches)
        found = self._examine(result, words)
        self._is_explained = is_suspicious and bool(found)
        return found

    def _examine(self, result: Result, words: Words) -> list[Diagnosis]:
        if not self._batches:
            return find_mistakes(result, None, None, words)
        columns, truth_columns, num_images = self._joined()
        if self._unlike_sizes is not None and self._unlike_sizes.is_most_of(num_images):
            return [self._unlike_sizes.diagnosis(words)]
        detections = Detections(**columns, box_format=self._formats[0])
        truths = Truths(**truth_columns, box_format=self._formats[1], class_names=self._class_names)
        return find_mistakes(result, detections, truths, words, has_boxes=self._has_boxes)

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
