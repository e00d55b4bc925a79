"""Checks of oriented boxes: corners out of order, angles in another unit, and conventions of angles that differ."""

from collections.abc import Iterable, Mapping

import numpy as np

from boxscore._support.text import count
from boxscore.checks.diagnosis import MAX_DETECTIONS, MIN_OVERLAPS
from boxscore.checks.file_rows import FileRows, Flags
from boxscore.checks.findings import Finding
from boxscore.checks.row_checks import REFUSED
from boxscore.data.dataset import Detections, Truths, host_scores, take
from boxscore.data.geometry.oriented_boxes import OrientedBoxes, faults_of
from boxscore.engines.native.pairs import nearest, side
from boxscore.formats.records import Floats
from boxscore.protocol.protocol import Protocol

OBB = Protocol.named("coco", iou_type="obb")
IOU = 0.5
MIN_SHARE = 0.2
"""The share of detections that overlap a truth only if they are read another way."""

_TITLES = {
    "negative_size": ("of negative width or height", "of negative width or height"),
    "large_side": ("with a side that is too large", "with a side that is too large"),
    "large_angle": ("with an angle beyond a turn", "with an angle beyond a turn"),
    "self_crossing": ("whose edges cross", "whose edges cross"),
    "not_convex": ("that is not convex", "that are not convex"),
}
_HINTS = {
    "large_angle": "angles in degrees, read as radians? `--box-format cxcywha:degrees` reads them so",
    "self_crossing": "corners must be in order around the box",
}


def faults(rows: FileRows) -> Mapping[str, Flags]:
    """Which oriented boxes are invalid, by the kind of fault, but for those that other checks find."""
    if rows.records.oriented is None:
        return {}
    found = faults_of(*rows.records.oriented)
    return {kind: is_wrong for kind, is_wrong in found.items() if kind != "not_finite"}


def invalid_boxes(rows: FileRows) -> Iterable[Finding]:
    """Oriented boxes that the evaluation refuses."""
    for kind, is_wrong in faults(rows).items():
        title = _TITLES[kind]
        hint = _HINTS.get(kind)
        yield from rows.found(
            is_wrong,
            kind=kind.replace("_", "-"),
            severity="error",
            title=lambda num, title=title: f"{count(num, 'oriented box', 'oriented boxes')} {title[num > 1]}",  # type: ignore[misc]
            show=rows.show_box,
            effect=REFUSED if hint is None else f"{REFUSED}; {hint}",
        )


def angle_conventions(detections: Detections, truths: Truths, source: str) -> list[Finding]:
    """A finding if many detections overlap a truth only when their angles are read another way."""
    are_oriented = all(OrientedBoxes.iou_types[0] in columns.iou_types() for columns in (detections, truths))
    if not are_oriented or not len(detections) or not len(truths):
        return []
    score = host_scores(detections.score)
    best = np.zeros(len(score), bool)
    best[np.argsort(-score, kind="stable")[: min(max(len(truths), MIN_OVERLAPS), MAX_DETECTIONS)]] = True
    some = take(detections, best)
    box, truth_geometry = some.oriented_boxes.rectangles(), truths.oriented_boxes
    is_overlapping = _overlapping(some, box, truths, truth_geometry)
    findings = []
    for kind, (words, other) in _readings(box).items():
        is_gained = _overlapping(some, other, truths, truth_geometry) & ~is_overlapping
        if is_gained.sum() >= max(MIN_OVERLAPS, MIN_SHARE * len(some)):
            findings.append((int(is_gained.sum()), kind, words))
    if not findings:
        return []
    num, kind, words = max(findings)
    title = f"{count(num, 'detection')} of {len(some):,} overlap a truth only if {words}"
    return [
        Finding(
            severity="warning",
            kind=kind,
            file=source,
            count=num,
            title=title,
            example=source,
            effect="their IoU is low, and most of them are false positives; is it the convention of their angles?",
        )
    ]


def _readings(box: Floats) -> dict[str, tuple[str, Floats]]:
    """The same boxes under other conventions."""
    angle = box[:, 4:]
    return {
        "swapped-sides": ("width and height are swapped, or the box is turned by 90 degrees", box[:, [0, 1, 3, 2, 4]]),
        "turned-backwards": (
            "angles turn the other way: `--box-format cxcywha:radians:ccw` or `cxcywha:degrees:ccw` reads them so",
            np.concatenate([box[:, :4], -angle], axis=1),
        ),
        "radians-as-degrees": (
            "angles are radians, read as degrees: `--box-format cxcywha:radians` reads them so",
            np.concatenate([box[:, :4], np.remainder(np.degrees(angle), 2 * np.pi)], axis=1),
        ),
    }


def _overlapping(some: Detections, box: Floats, truths: Truths, truth_geometry: OrientedBoxes) -> Flags:
    """Which detections, with these boxes, overlap a truth of any class."""
    geometry = OrientedBoxes(box=box, box_format="cxcywha:radians")
    label = np.zeros(len(some), np.int64)
    found = Detections(image=some.image, label=label, score=np.zeros(len(some)), geometry=geometry)
    there = Truths(image=truths.image, label=np.zeros(len(truths), np.int64), geometry=truth_geometry)
    ours, theirs = (side(columns, np.ones(len(columns), bool)) for columns in (found, there))
    return np.asarray(nearest(ours, theirs, OBB, 1).own_iou >= IOU)
