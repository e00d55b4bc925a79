"""Find likely mistakes of a user: the checks of detections and truths that every entrance runs.

`find_input_mistakes` checks the data, whatever its result: boxes in another format, fractions, rounded numbers.
`find_mistakes` also explains suspicious results: it tries each interpretation of the boxes or labels on the N
detections with the highest scores, where N is the number of truths. With the right one, a good part of them overlaps
truths, with a wrong one almost none; for a detector that is simply bad, no interpretation helps.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore.arrays import is_in_host_memory, to_numpy
from boxscore.checks.checklist import Check, Evidence
from boxscore.checks.evidence import (
    CLEAR_SHARE,
    IOU,
    MIN_BOXES,
    MIN_OVERLAPS,
    MIN_RATIO,
    MIN_SHARE,
    SHIFTED,
    Floats,
    Ids,
    Resizing,
    best_rows,
    boxes_on,
    corners_of,
    find_label_mapping,
    find_label_shift,
    find_other_format,
    find_overlaps,
    find_resizings,
    find_shifted_labels,
    have_different_units,
    is_better,
    label_readings,
    one_class,
    rounded_to,
)
from boxscore.checks.suspicion import HIGH_RECALL, Counts, covers_few_images
from boxscore.data.dataset import ClassNames, Columns, Detections, Truths, host_ids, host_scores, take, with_geometries
from boxscore.data.geometry.box_formats import UPRIGHT_FORMATS, BoxFormat
from boxscore.data.geometry.boxes import BoxColumn, Boxes, look_like_fractions
from boxscore.data.geometry.masks import Masks
from boxscore.data.geometry.oriented_boxes import OrientedBoxes
from boxscore.engines.native.pairs import nearest
from boxscore.protocol.protocol import Protocol
from boxscore.result.result import Result

MAX_RESIZED_IMAGES = 150
"""Maximum number of images that are examined for resized detections."""
_OBB = Protocol.named("coco", iou_type="obb")


class Remedies(NamedTuple):
    """An entrance's names for detections and truths, and its advice on how to correct mistakes."""

    detections: str = "`preds`"
    truths: str = "`targets`"
    box_format: str = "give both in the metric's `box_format`"
    """How to read detections of another format, `{}`."""
    truth_box_format: str = "give both in the metric's `box_format`"
    both_formats: str = "did you mean box_format='{}'?"
    """How to read both sides in another format, `{}`."""
    angles: str = "box_format='{}' reads them so"
    """How to read angles of another convention, `{}`."""
    labels: str = "before `update`"
    """Where to change labels."""
    classes: str = "give both the same labels"
    """Advice if all labels mean something else."""
    class_names: str | None = "pass class_names={1: …}, or a list that starts with a name for label 0"
    """How to give class names from 1 on; None if the source lists its classes with their ids."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mistake:
    """A likely mistake: its kind, the numbers that show it, and a message."""

    kind: str
    """A short stable name, for programs."""
    evidence: Evidence
    message: str

    @classmethod
    def of(cls, check: Check[Any], found: Evidence, remedies: Remedies) -> "Mistake":
        """A mistake with the message in the terms of an entrance.

        The fact `remedy` is the name of a field of `Remedies`; facts that are lists, such as `sides`, have several.
        """
        names = remedies._asdict()
        facts = {
            key: " and ".join(names[each] for each in value) if isinstance(value, list) else value
            for key, value in found.facts.items()
        }
        if "remedy" in facts:
            facts["remedy"] = names[facts["remedy"]].format(facts.get("other"))
        return cls(kind=check.kind, evidence=found, message=replace(found, facts=facts).fill(check.title, **names))

    def __str__(self) -> str:
        return self.message


# Checks of any part of the data, such as one batch.


class Batch(NamedTuple):
    """Detections and truths as given, and the rules of their evaluation."""

    detections: Detections
    truths: Truths
    protocol: Protocol

    @property
    def boxes(self) -> tuple[Floats, Floats]:
        """The boxes of both sides as given; empty unless both sides have upright boxes. Shapes (D, 4), (G, 4)."""
        if not all(isinstance(each.geometry, Boxes) for each in self[:2]):
            return np.zeros((0, 4)), np.zeros((0, 4))
        return _boxes(self.detections), _boxes(self.truths)


_SIDES = ("detections", "truths")


def _boxes(columns: Detections | Truths) -> Floats:
    """The boxes in host memory."""
    return np.asarray(to_numpy(columns.boxes), np.float64)


def _unlike_sizes(batch: Batch) -> Iterable[Evidence]:
    found = unlike_sizes(batch.detections, batch.truths)
    return () if found is None else [found]


def unlike_sizes(detections: Detections, truths: Truths) -> Evidence | None:
    """Evidence of images whose masks have different sizes in detections and truths, and so never match; or None."""
    geometry, truth_geometry = detections.geometry, truths.geometry
    if not (isinstance(geometry, Masks) and isinstance(truth_geometry, Masks)):
        return None
    images, first = np.unique(host_ids(truths.image_ids), return_index=True)
    row = np.searchsorted(images, host_ids(detections.image_ids)).clip(max=max(images.size - 1, 0))
    if not images.size or not row.size:
        return None
    size, other = geometry.sizes, truth_geometry.sizes[first[row]]
    is_unlike = (images[row] == host_ids(detections.image_ids)) & (size != other).any(axis=1)
    if not is_unlike.any():
        return None
    index = int(np.argmax(is_unlike))
    facts = {name: " x ".join(map(str, each[index].tolist())) for name, each in (("size", size), ("truth_size", other))}
    return Evidence(num=np.unique(row[is_unlike]).size, facts=facts)


def _different_units(batch: Batch) -> Iterable[Evidence]:
    boxes = batch.boxes
    for name, (own, other) in zip(_SIDES, (boxes, boxes[::-1]), strict=True):
        if have_different_units(own, other):
            return [Evidence(num=len(own), facts={"sides": [name], "others": [*{*_SIDES} - {name}]})]
    return ()


def _fractions(batch: Batch) -> Iterable[Evidence]:
    """Yield evidence of fractions on both sides, if the protocol measures in pixels."""
    effects, protocol = [], batch.protocol
    if len(protocol.areas) > 1 and protocol.ranges_by == "area":
        effects.append(f"every box counts as {protocol.areas[1].name}")
    if protocol.pixels == "inclusive":
        effects.append("every box becomes one pixel wider and higher")
    if effects and all(len(box) >= MIN_BOXES and look_like_fractions(box) for box in batch.boxes):
        yield Evidence(num=len(batch.detections), facts={"sides": [*_SIDES], "effects": " and ".join(effects)})


def _implausible_format(batch: Batch) -> Iterable[Evidence]:
    """Yield evidence of boxes that are implausible in their declared format, whatever they overlap."""
    boxes, (detections, truths, _) = batch.boxes, batch
    if not len(boxes[0]) and not len(boxes[1]):
        return
    formats = detections.box_format, truths.box_format
    found = [
        find_other_format(box, declared, is_truths=is_truths)
        for box, declared, is_truths in zip(boxes, formats, (False, True), strict=True)
    ]
    others = [each for each in found if each is not None]
    if not others:
        return
    first = others[0]
    sides = [name for name, each in zip(_SIDES, found, strict=True) if each is not None and each.other == first.other]
    is_one_sided = len(sides) == 1 and first.other == "xyxy" and min(map(len, boxes)) >= MIN_BOXES
    remedy = {"detections": "box_format", "truths": "truth_box_format"}[sides[0]] if is_one_sided else "both_formats"
    amount = "all" if first.is_bad.all() else f"{first.is_bad.sum():,} of {len(first.is_bad):,}"
    facts = {"sides": sides, "amount": amount, "why": first.why, "other": first.other, "remedy": remedy}
    yield Evidence(num=int(first.is_bad.sum()), facts=facts)


_STEPS = {"bfloat16": "2 pixels from 256 on", "float16": "half a pixel from 512 on"}


def _low_precision(batch: Batch) -> Iterable[Evidence]:
    for name, box in zip(_SIDES, batch.boxes, strict=True):
        if (kind := rounded_to(box[:, :2])) is not None:
            return [Evidence(num=len(box), facts={"sides": [name], "type": kind, "steps": _STEPS[kind]})]
    return ()


def _disjoint_labels(batch: Batch) -> Iterable[Evidence]:
    shift = find_label_shift(host_ids(batch.detections.labels), host_ids(batch.truths.labels))
    if shift is not None:
        advice = "add 1" if shift > 0 else "subtract 1"
        yield Evidence(num=len(batch.detections), facts={"shift": f"{shift:+d}", "advice": advice})


_MASK_SIZES = Check(
    "mask-sizes",
    _unlike_sizes,
    "masks have different sizes in {detections} and {truths} for {num:image}, such as {size} and {truth_size} (height x"
    " width): these never match; resize one of them",
)
_UNITS = Check(
    "unit",
    _different_units,
    "the boxes of {sides} look like fractions of the image's size, and the boxes of {others} like pixels; multiply the"
    " fractions by the image's width and height",
)
INPUT_CHECKS: Sequence[Check[Batch]] = (
    _MASK_SIZES,
    _UNITS,
    Check(
        "fractions",
        _fractions,
        "the boxes of {sides} look like fractions of the image's size, but are read as pixels: {effects}; multiply them"
        " by the image's width and height",
    ),
    Check(
        "box-format",
        _implausible_format,
        "{amount} boxes in {sides} {why}; {remedy}",
    ),
    Check(
        "low-precision",
        _low_precision,
        "the boxes of {sides} are rounded to {type}, in steps of {steps}, which changes the result; compute boxes in"
        " float32: cast the network's outputs before they are decoded, outside of autocast",
    ),
    Check(
        "shifted-labels",
        _disjoint_labels,
        "no label of {detections} is among the labels of {truths}, but most would be with {shift}: off by one? {advice}"
        " ({labels})",
    ),
)
"""Checks of any part of the data, independent of its result."""


def find_input_mistakes(
    detections: Detections, truths: Truths, protocol: Protocol, remedies: Remedies
) -> list[Mistake]:
    """Find likely mistakes in the data, independent of its result; it may be a part, such as one batch.

    Data that is not in host memory is not checked, except labels and sizes of masks.
    """
    shapes = detections.geometry, truths.geometry
    if not all(each.compares_on_device or is_in_host_memory(each.arrays[0]) for each in shapes):
        return []
    batch = Batch(detections, truths, protocol)
    return [Mistake.of(check, found, remedies) for check in INPUT_CHECKS for found in check.find(batch)]


# Checks of the detections with the highest scores, for a result that is suspicious.


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Reading(Evidence):
    """Another interpretation of boxes or images."""

    detections: Any = None
    """The detections under this interpretation, from `boxes_on`; None if they are unchanged."""
    truths: Any = None
    num_fitted: int = 0
    """Number of overlaps that prove nothing, as the interpretation was chosen to produce them."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Sample:
    """The detections that are examined, and the truths."""

    detections: Detections
    truths: Truths
    has_boxes: bool
    """Whether boxes were given; if not, they were computed around other shapes."""

    @classmethod
    def of(cls, detections: Detections, truths: Truths, has_boxes: bool) -> "_Sample":
        """Sample the detections with the highest scores."""
        is_best = np.zeros(len(detections), bool)
        is_best[best_rows(host_scores(detections.scores), len(truths))] = True
        return cls(detections=take(detections, is_best), truths=truths, has_boxes=has_boxes)

    def overlaps(self, reading: _Reading | None = None) -> "_Overlaps":
        """The detections that overlap a truth of any class, under an interpretation or unchanged."""
        detections = None if reading is None else reading.detections
        truths = None if reading is None else reading.truths
        rows, truth = find_overlaps(
            one_class(self.detections) if detections is None else detections,
            one_class(self.truths) if truths is None else truths,
        )
        return _Overlaps(self, rows, truth)

    def of_some_images(self) -> "_Sample":
        """The rows on at most `MAX_RESIZED_IMAGES` images that have both detections and truths, spread evenly."""
        image, truth_image = host_ids(self.detections.image_ids), host_ids(self.truths.image_ids)
        images = np.intersect1d(image, truth_image)
        images = images[:: -(-images.size // MAX_RESIZED_IMAGES) or 1]
        detections = take(self.detections, np.isin(image, images))
        return replace(self, detections=detections, truths=take(self.truths, np.isin(truth_image, images)))


class _Overlaps(NamedTuple):
    """The detections of a sample that overlap a truth of any class, and the truth that each overlaps most."""

    sample: _Sample
    rows: Ids
    truth: Ids

    @property
    def share(self) -> float:
        """The share of the sample's detections."""
        return self.rows.size / len(self.sample.detections)

    @property
    def num_truths(self) -> int:
        """Number of distinct overlapped truths. Identical boxes may all overlap one truth, which proves nothing."""
        return int(np.unique(self.truth).size)

    def told(self, check: Check[Any], reading: _Reading, now: "_Overlaps", remedies: Remedies) -> Mistake:
        """The mistake; `self` has the overlaps once it is corrected, `now` the overlaps with it."""
        numbers = {"best": len(self.sample.detections), "then": self.rows.size, "now": now.rows.size, "iou": IOU}
        return Mistake.of(check, replace(reading, facts={**reading.facts, **numbers}), remedies)


def _shifted_images(sample: _Sample) -> Iterator[_Reading]:
    """Yield the detections on the next image, then on the previous one."""
    image = host_ids(sample.detections.image_ids)
    images = np.unique(np.concatenate([image, host_ids(sample.truths.image_ids)]))
    index, corner = np.searchsorted(images, image), corners_of(_boxes(sample.detections), sample.detections.box_format)
    for shift, word in ((1, "low"), (-1, "high")):
        moved = np.where(np.isin(index + shift, np.arange(images.size)), index + shift, 0)
        changed = boxes_on(Detections, images[moved], corner)
        yield _Reading(num=len(image), facts={"word": word}, detections=changed)


def _on_side(sample: _Sample, name: str, corner: Floats, **facts: Any) -> _Reading:
    """The interpretation in which one side has these corners."""
    columns = getattr(sample, name)
    changed = boxes_on(type(columns), host_ids(columns.image_ids), corner)
    return _Reading(num=len(columns), facts={"sides": [name], **facts}, **{name: changed})


def _other_formats(sample: _Sample) -> Iterator[_Reading]:
    for name, remedy in zip(_SIDES, ("box_format", "truth_box_format"), strict=True):
        columns: Detections | Truths = getattr(sample, name)
        for other in UPRIGHT_FORMATS:
            corner = corners_of(_boxes(columns), other)
            # In the right format, few boxes begin left of or above the image.
            is_outside = (corner[:, :2] < 0.1 * (corner[:, :2] - corner[:, 2:])).any(axis=1)
            if other != columns.box_format and is_outside.mean() <= MIN_SHARE:
                facts = {"other": other, "declared": columns.box_format, "remedy": remedy}
                yield _on_side(sample, name, corner, **facts)


def _swapped_axes(sample: _Sample) -> Iterator[_Reading]:
    for name in _SIDES:
        columns: Detections | Truths = getattr(sample, name)
        yield _on_side(sample, name, corners_of(_boxes(columns)[:, [1, 0, 3, 2]], columns.box_format))


def _other_units(sample: _Sample) -> Iterator[_Reading]:
    sizes = sample.truths.image_sizes or {}
    for name in _SIDES:
        columns: Detections | Truths = getattr(sample, name)
        images = host_ids(columns.image_ids).tolist()
        size = np.array([sizes.get(image, (np.nan, np.nan)) for image in images], np.float64).reshape(-1, 2)
        in_pixels = corners_of(_boxes(columns), columns.box_format) * np.concatenate([size, size], axis=1)
        for unit, whole in (("fractions", 1), ("percentages", 100), ("thousandths", 1000)):
            divisor = f" / {whole}" if whole > 1 else ""
            yield _on_side(sample, name, in_pixels / whole, unit=unit, divisor=divisor)


def _resizings(sample: _Sample) -> Iterator[_Reading]:
    detections, truths = sample.detections, sample.truths
    image, truth_image = host_ids(detections.image_ids), host_ids(truths.image_ids)
    corner, truth_corner = (corners_of(_boxes(each), each.box_format) for each in (detections, truths))
    for each in find_resizings(image, corner, truth_image, truth_corner):
        # Boxes around points are smaller than boxes of bodies, so the factor is rough.
        what, change = ("boxes", _shown_change(each)) if sample.has_boxes else ("shapes", "scaled")
        changed = boxes_on(Detections, image, each.corner)
        facts = {"what": what, "change": change, "factors": tuple(each.factors.tolist())}
        yield _Reading(num=len(image), facts=facts, detections=changed, num_fitted=each.num_fitted)


def _shown_change(resizing: Resizing) -> str:
    """Describe the change of boxes.

    >>> _shown_change(Resizing(np.zeros((0, 4)), 1, np.array([2.0, 1.5]), is_common=True))
    'multiplied by 2 (x) and 1.5 (y)'
    """
    x, y = resizing.factors.tolist()
    if not resizing.is_common:
        padding = "shifted by the image's padding and " if resizing.is_padded else ""
        return f"{padding}multiplied by a factor per image (mostly {x:.3g} to {y:.3g})"
    is_one = abs(np.log(x / y)) <= 0.03
    return f"multiplied by {(x + y) / 2:.3g}" if is_one else f"multiplied by {x:.3g} (x) and {y:.3g} (y)"


_SHOWN = "of the {best:best detection} {then} would then overlap a truth (IoU {iou:g}), and {now} do now"
_IMAGE_CHECK: Check[_Sample] = Check(
    "image-ids",
    _shifted_images,
    f"the images of {{detections}} look one too {{word}}: they are the images next to the right ones: {_SHOWN}; give"
    " each detection the id of its own image",
)
READING_CHECKS: Sequence[Check[_Sample]] = (
    Check(
        "box-format",
        _other_formats,
        f"the boxes of {{sides}} look like {{other}}, but are read as {{declared}}: {_SHOWN}; {{remedy}}",
    ),
    Check("axes", _swapped_axes, f"x and y of {{sides}} look swapped: {_SHOWN}; write x before y"),
    Check(
        "unit",
        _other_units,
        f"the boxes of {{sides}} look like {{unit}} of the image's size, but are read as pixels: {_SHOWN}; multiply"
        " them by the image's width and height{divisor}",
    ),
)
"""Interpretations of boxes; with the right one, far more detections overlap truths."""
_RESIZED: Check[_Sample] = Check(
    "resized",
    _resizings,
    f"the {{what}} of {{detections}} match the truths if they are {{change}}: {_SHOWN}; are they in the pixels of"
    " resized images? Scale them to the images of {truths}",
)


def _misread_boxes(now: _Overlaps, remedies: Remedies) -> tuple[Mistake | None, _Overlaps]:
    """Find the interpretation of boxes with which most truths are overlapped, and its overlaps.

    Without one, the mistake is None, and the overlaps are `now`.
    """
    sample, num_rows = now.sample, len(now.sample.detections)
    best: Mistake | None = None
    overlaps = now
    for check in (_IMAGE_CHECK, *(READING_CHECKS if sample.has_boxes else ())):
        for reading in check.find(sample):
            assert isinstance(reading, _Reading)
            then = sample.overlaps(reading)
            is_best = best is None or then.num_truths > overlaps.num_truths
            if is_best and is_better(then.num_truths, now.num_truths, num_rows):
                best, overlaps = then.told(check, reading, now, remedies), then
    if best is None and sample.has_boxes:
        for found in _UNITS.find(Batch(sample.detections, sample.truths, _OBB)):
            nothing = np.zeros(0, np.int64)
            return Mistake.of(_UNITS, found, remedies), _Overlaps(sample, nothing, nothing)
    resized = _resized(sample.of_some_images(), remedies)
    # Thousandths of the image's size look much like the pixels of an image that was resized to 1000 x 1000.
    if resized is not None and (best is None or resized[1].share > 1.2 * overlaps.share):
        return resized
    return best, overlaps


def _resized(sample: _Sample, remedies: Remedies) -> tuple[Mistake, _Overlaps] | None:
    """Find the resizing that was not undone in the detections, and the overlaps once it is undone."""
    now, num_rows = sample.overlaps(), len(sample.detections)
    best: tuple[Mistake, _Overlaps] | None = None
    least = max(MIN_OVERLAPS, min(max(MIN_SHARE * num_rows, 1.5 * now.num_truths), CLEAR_SHARE * num_rows))
    for reading in _resizings(sample):
        then = sample.overlaps(reading)
        num = then.num_truths - reading.num_fitted
        if num >= max(least, 1.2 * now.num_truths):
            least = num + 1
            best = then.told(_RESIZED, reading, now, remedies), then
    return best


class _Angles(NamedTuple):
    """The oriented boxes of a sample, unchanged, and which of them overlap a truth of any class."""

    detections: Detections
    truths: Truths
    is_overlapping: NDArray[np.bool_]

    @classmethod
    def of(cls, detections: Detections, truths: Truths) -> "_Angles":
        """Sample the detections with the highest scores."""
        is_best = np.zeros(len(detections), bool)
        is_best[best_rows(host_scores(detections.scores), len(truths))] = True
        some = take(detections, is_best)
        return cls(some, truths, _are_overlapping(some, some.oriented_boxes.rectangles(), truths))

    def gained(self, change: Callable[[Floats], Floats], other: str = "") -> Iterable[Evidence]:
        """Yield evidence if many detections overlap a truth only once their boxes are changed.

        `change` takes and returns cx, cy, width, height, radians. `other`: the box format with the same effect.
        """
        box = change(self.detections.oriented_boxes.rectangles())
        num = int((_are_overlapping(self.detections, box, self.truths) & ~self.is_overlapping).sum())
        if num >= max(MIN_OVERLAPS, MIN_SHARE * len(self.detections)):
            yield Evidence(num=num, facts={"rows": len(self.detections), "other": other, "remedy": "angles"})


def _are_overlapping(some: Detections, box: Floats, truths: Truths) -> NDArray[np.bool_]:
    """Whether each detection, with these oriented boxes, overlaps a truth of any class. Shape (D,)."""
    geometry = OrientedBoxes(boxes=box, box_format="cxcywha:radians")
    found = one_class(with_geometries(some, geometry))
    there = one_class(with_geometries(truths, truths.oriented_boxes))
    return np.asarray(nearest(found, there, _OBB, 1).own_iou >= IOU)


_ONLY_IF = "{num} of the {rows} best of {detections} overlap a truth only if "
ANGLE_CHECKS: Sequence[Check[_Angles]] = (
    Check(
        "swapped-sides",
        lambda angles: angles.gained(lambda box: box[:, [0, 1, 3, 2, 4]]),
        f"{_ONLY_IF}width and height are swapped, or the box is turned by 90 degrees",
    ),
    Check(
        "turned-backwards",
        lambda angles: angles.gained(lambda box: box * [1, 1, 1, 1, -1], "cxcywha:radians:ccw"),
        f"{_ONLY_IF}angles turn the other way: {{remedy}}, cxcywha:degrees:ccw if they are degrees",
    ),
    Check(
        "radians-as-degrees",
        lambda angles: angles.gained(
            lambda box: np.concatenate([box[:, :4], np.remainder(np.degrees(box[:, 4:]), 2 * np.pi)], axis=1),
            "cxcywha:radians",
        ),
        f"{_ONLY_IF}angles are radians, read as degrees: {{remedy}}",
    ),
)
"""Checks of the conventions of oriented boxes' angles."""


def find_angle_mistake(detections: Detections, truths: Truths, remedies: Remedies) -> Mistake | None:
    """Find the convention of angles with which many more oriented boxes overlap truths, or None."""
    are_oriented = all(OrientedBoxes.iou_types[0] in columns.iou_types() for columns in (detections, truths))
    if not are_oriented or not len(detections) or not len(truths):
        return None
    angles = _Angles.of(detections, truths)
    found = [Mistake.of(check, each, remedies) for check in ANGLE_CHECKS for each in check.find(angles)]
    return max(found, key=lambda mistake: mistake.evidence.num, default=None)


# Labels of detections that overlap truths.


class _Labels(NamedTuple):
    """The labels of a sample, and of its detections that overlap a truth."""

    own: Ids
    truths: Ids
    label: Ids
    """Labels of detections that overlap a truth. Shape (N,)."""
    wanted: Ids
    """Labels of these truths. Shape (N,)."""
    names: Mapping[int, str] | None

    @classmethod
    def of(cls, overlaps: _Overlaps) -> "_Labels":
        """The labels of a sample and its overlaps."""
        sample, rows, truth = overlaps
        own, truths = host_ids(sample.detections.labels), host_ids(sample.truths.labels)
        return cls(own, truths, own[rows], truths[truth], sample.truths.names_by_label)

    @property
    def are_foreign(self) -> bool:
        """Whether no label is a label of the truths.

        False if classes are listed and several have truths: detections may be of listed classes without truths.
        """
        is_known = np.isin(self.own, self.truths).any()
        return not is_known and (self.names is None or np.unique(self.truths).size == 1)


def _shifted_labels(labels: _Labels) -> Iterable[Evidence]:
    order = np.array(sorted(labels.names) if labels.names else np.unique(labels.truths), np.int64)
    readings = label_readings(labels.label, order)
    is_right = labels.label == labels.wanted
    found = find_shifted_labels(labels.label, labels.wanted, is_right, readings, is_foreign=labels.are_foreign)
    if found is not None:
        yield Evidence(num=found.num_then, facts=found.facts)


def _other_labels(labels: _Labels) -> Iterable[Evidence]:
    mapping, names = find_label_mapping(labels.label, labels.wanted), labels.names or {}
    if mapping and (labels.label == labels.wanted).sum() * MIN_RATIO <= labels.label.size:
        shown = (f"{one} is {repr(names[other]) if other in names else other}" for one, other in mapping[:3])
        yield Evidence(num=len(mapping), facts={"some": ", ".join(shown)})


def _foreign_labels(labels: _Labels) -> Iterable[Evidence]:
    if labels.are_foreign:
        some, others = (", ".join(map(str, np.unique(each)[:3])) for each in (labels.own, labels.truths))
        yield Evidence(num=len(labels.own), facts={"some": some, "others": others})


LABEL_CHECKS: Sequence[Check[_Labels]] = (
    Check(
        "shifted-labels",
        _shifted_labels,
        f"the labels of {{detections}} look {{reading}}: {SHIFTED}; {{advice}} ({{labels}})",
    ),
    Check(
        "other-labels",
        _other_labels,
        "the labels of {detections} look like those of another list of classes ({some}, …): {classes}",
    ),
    Check(
        "foreign-labels",
        _foreign_labels,
        "no label of {detections} ({some}, …) is one of {truths} ({others}, …): {classes}",
    ),
)
"""Checks of labels, for boxes that overlap truths; only the first finding counts."""


# Checks of a result.


def _no_detections(counts: Counts) -> Iterable[Evidence]:
    if counts.is_empty:
        yield Evidence(num=sum(counts.num_truths))


def _unused_first_class(counts: Counts) -> Iterable[Evidence]:
    if counts.has_unused_first_class:
        yield Evidence(num=len(counts.label), facts={"name": repr(counts.name[0])})


def _few_images(result: Result) -> Iterable[Evidence]:
    """Yield evidence of images without detections, if the detector is unlikely to be the cause."""
    counts = Counts.of_result(result.per_class)
    num_found = int(result.per_class.num_true[:, 0].sum())
    if not result.has_tally or counts.is_empty or num_found > HIGH_RECALL * sum(counts.num_truths):
        return
    tally = result.tally
    images = np.unique(tally.truth_image)
    num = int(np.isin(images, tally.image).sum())
    if covers_few_images(images.size, num, len(tally), is_low=counts.is_low):
        yield Evidence(num=num, facts={"images": images.size})


_EMPTY = Check(
    "empty",
    _no_detections,
    "there are no detections for {num:truth}, so every AP is 0: is {detections} complete, and no score threshold too"
    " high?",
)
_UNUSED_FIRST_CLASS = Check(
    "unused-first-class",
    _unused_first_class,
    "no label is 0, the label of {name}, and nearly all other classes occur: if labels count from 1, every class has"
    " the name of the next one; {class_names}",
)
_FEW_IMAGES = Check(
    "few-images",
    _few_images,
    "only {num} of {images:image} with truths have detections: is {detections} complete, for these images, and no score"
    " threshold too high?",
)
CHECKS: Sequence[Check[Any]] = (
    _EMPTY,
    *INPUT_CHECKS,
    *ANGLE_CHECKS,
    _IMAGE_CHECK,
    *READING_CHECKS,
    _RESIZED,
    *LABEL_CHECKS,
    _FEW_IMAGES,
    _UNUSED_FIRST_CLASS,
)
"""All checks of detections, truths and their result. Several may have the same kind, each with different evidence."""


def find_mistakes(
    result: Result,
    detections: Detections | None,
    truths: Truths | None,
    remedies: Remedies,
    *,
    has_boxes: bool = True,
) -> list[Mistake]:
    """Find the likely mistakes behind a result; empty if nothing is suspicious, or no mistake is likely.

    Args:
        result: The result of all data.
        detections: All rows, or the rows of some images; None if they are not stored.
        truths: All rows, or the rows of the same images.
        remedies: The entrance's terms and advice.
        has_boxes: Whether boxes, if the rows have any, were evaluated.
    """
    counts = Counts.of_result(result.per_class)
    found: list[Mistake | None] = [
        _cause(
            counts, detections, truths, remedies, has_classes=not result.protocol.class_agnostic, has_boxes=has_boxes
        )
    ]
    if found == [None]:
        found += [Mistake.of(_FEW_IMAGES, each, remedies) for each in _FEW_IMAGES.find(result)]
    if remedies.class_names is not None:
        found += [Mistake.of(_UNUSED_FIRST_CLASS, each, remedies) for each in _UNUSED_FIRST_CLASS.find(counts)]
    if detections is not None and truths is not None and has_boxes:
        found += find_input_mistakes(detections, truths, result.protocol, remedies)
    # The first explanation of each kind is the best.
    return list({each.kind: each for each in reversed(found) if each is not None}.values())[::-1]


def _cause(
    counts: Counts,
    detections: Detections | None,
    truths: Truths | None,
    remedies: Remedies,
    *,
    has_classes: bool,
    has_boxes: bool,
) -> Mistake | None:
    """Find the interpretation of shapes and labels that would raise a suspicious result, or None."""
    if not counts.is_suspicious:
        return None
    for found in _EMPTY.find(counts):
        return Mistake.of(_EMPTY, found, remedies)
    if detections is None or truths is None or not len(detections) or not len(truths):
        return None
    unlike = unlike_sizes(detections, truths)
    if unlike is not None and is_most_of(unlike, np.unique(host_ids(truths.image_ids)).size):
        return Mistake.of(_MASK_SIZES, unlike, remedies)
    if (angle := find_angle_mistake(detections, truths, remedies)) is not None:
        return angle
    has_boxes &= all(isinstance(each.geometry, Boxes) for each in (detections, truths))
    detections, truths = with_boxes(detections), with_boxes(truths)
    with np.errstate(all="ignore"):
        overlaps = _Sample.of(detections, truths, has_boxes).overlaps()
        mistake, labels = None, None
        if overlaps.share < CLEAR_SHARE:
            mistake, overlaps = _misread_boxes(overlaps, remedies)
        if has_classes and is_better(overlaps.rows.size, 0, len(overlaps.sample.detections)):
            given = _Labels.of(overlaps)
            every = (Mistake.of(check, each, remedies) for check in LABEL_CHECKS for each in check.find(given))
            labels = next(every, None)
    if mistake is not None and labels is not None:
        return replace(mistake, message=f"{mistake}. Besides, {labels}")
    return mistake or labels


def is_most_of(unlike: Evidence, num_images: int) -> bool:
    """Whether masks differ in size in at least half of the images, which is enough to explain a result near 0."""
    return 2 * unlike.num >= num_images


def with_boxes(columns: Columns) -> Columns:
    """Columns with upright boxes; other shapes are replaced by the boxes around them."""
    if isinstance(columns.geometry, Boxes):
        return columns
    return with_geometries(columns, Boxes(boxes=to_numpy(columns.geometry.outer_boxes())))


class _CopiedBatch(NamedTuple):
    """Copies of the columns of one batch by name."""

    detections: dict[str, Any]
    truths: dict[str, Any]


class Watch:
    """Copies of the first batches of a stream whose boxes are not stored elsewhere."""

    NUM_BATCHES = 10
    NUM_ROWS = 20_000
    """Once this many rows are copied, no more batches are; of a batch with more rows, only some images are copied."""

    def __init__(self) -> None:
        self._batches: list[_CopiedBatch] = []
        self._num_rows = 0
        self._has_boxes = True
        self._unlike_sizes: Evidence | None = None
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
        """Copy a batch, unless it has no truths or the watch is full."""
        if not self.is_open or not len(truths):
            return
        self._has_boxes &= isinstance(truths.geometry, Boxes)
        if (unlike := unlike_sizes(detections, truths)) is not None:
            before = self._unlike_sizes
            self._unlike_sizes = replace(unlike, num=unlike.num + (0 if before is None else before.num))
        if not all(isinstance(each.geometry, BoxColumn) for each in (detections, truths)):
            detections, truths = with_boxes(detections), with_boxes(truths)
        if max(len(detections), len(truths)) > self.NUM_ROWS:
            images = np.unique(host_ids(truths.image_ids)[: self.NUM_ROWS // 10])
            detections = take(detections, np.isin(host_ids(detections.image_ids), images))
            truths = take(truths, np.isin(host_ids(truths.image_ids), images))
        if not self._batches:
            self._formats = detections.written_boxes[1], truths.written_boxes[1]
            self._class_names = truths.class_names
        self._batches.append(_CopiedBatch(_copied(detections), _copied(truths)))
        self._num_rows += max(len(detections), len(truths))

    def find_mistakes(self, result: Result, remedies: Remedies) -> list[Mistake]:
        """Find the likely mistakes behind the result of the whole stream, from the copied batches."""
        is_suspicious = Counts.of_result(result.per_class).is_suspicious
        is_new = self._num_examined < len(self._batches)
        if not is_new and (self._is_explained or not is_suspicious):
            return find_mistakes(result, None, None, remedies)
        self._num_examined = len(self._batches)
        found = self._examine(result, remedies)
        self._is_explained = is_suspicious and bool(found)
        return found

    def _examine(self, result: Result, remedies: Remedies) -> list[Mistake]:
        if not self._batches:
            return find_mistakes(result, None, None, remedies)
        columns, truth_columns, num_images = self._joined()
        if self._unlike_sizes is not None and is_most_of(self._unlike_sizes, num_images):
            return [Mistake.of(_MASK_SIZES, self._unlike_sizes, remedies)]
        detections = Detections(**columns, box_format=self._formats[0])
        truths = Truths(**truth_columns, box_format=self._formats[1], class_names=self._class_names)
        return find_mistakes(result, detections, truths, remedies, has_boxes=self._has_boxes)

    def _joined(self) -> tuple[dict[str, Any], dict[str, Any], int]:
        """Concatenate the columns of all batches; also return the number of images.

        Images are renumbered, as batches may use the same ids.
        """
        num_images, batches = 0, []
        for columns, truth_columns in self._batches:
            ids = np.concatenate([columns["image_ids"], truth_columns["image_ids"]])
            images, code = np.unique(ids, return_inverse=True)
            image, truth_image = np.split(code + num_images, [columns["image_ids"].size])
            batches.append((columns | {"image_ids": image}, truth_columns | {"image_ids": truth_image}))
            num_images += images.size
        sides = zip(*batches, strict=True)
        joined, truths = ({name: np.concatenate([each[name] for each in side]) for name in side[0]} for side in sides)
        return joined, truths, num_images


def _copied(columns: Detections | Truths) -> dict[str, Any]:
    """Copy the columns that the checks need."""
    copied = {"image_ids": host_ids(columns.image_ids).copy(), "labels": host_ids(columns.labels).copy()}
    if isinstance(columns, Detections):
        copied["scores"] = to_numpy(columns.scores).copy()
    return copied | {"boxes": to_numpy(columns.written_boxes[0]).copy()}
