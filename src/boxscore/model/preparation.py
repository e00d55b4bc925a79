"""What a protocol makes of columns before they are matched: one geometry, no blank rows, values of its ranges."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from boxscore._support.arrays import convert
from boxscore._support.exceptions import InputError
from boxscore.model.dataset import Columns, Detections, Truths, host_ids, take
from boxscore.model.protocol import Protocol


def prepare(detections: Detections, truths: Truths, protocol: Protocol) -> tuple[Detections, Truths]:
    """Both sides as a protocol compares them; those that were prepared stay as they are."""
    detections, truths = shaped_by(detections, protocol.iou_type), shaped_by(truths, protocol.iou_type)
    is_blank = detections.geometry.is_blank(protocol)
    if is_blank is not None:
        detections = take(detections, ~is_blank)
    if protocol.ranges_by == "crowd_index":
        known = truths.crowd_index
        detections, truths = _ranged_by(detections, known, protocol), _ranged_by(truths, known, protocol)
    return detections, truths


def shaped_by(columns: Columns, iou_type: str) -> Columns:
    """The same rows with the one geometry that has a similarity."""
    found = next((each for each in columns.geometries if iou_type in each.iou_types), None)
    if found is None:
        name, known = type(columns).__name__, ", ".join(columns.iou_types())
        raise InputError(
            f"`iou_type` {iou_type!r} needs other shapes; these {name} have {columns.shape_names()} ({known})"
        )
    return columns if columns.geometries == (found,) else replace(columns, geometry=found, others=())


def common_iou_type(detections: Detections, truths: Truths) -> str | None:
    """The first similarity that the shapes of both sides have, in the order of the detections' geometries."""
    known = truths.iou_types()
    return next((iou_type for iou_type in detections.iou_types() if iou_type in known), None)


def _ranged_by(columns: Columns, values: Mapping[int, float] | None, protocol: Protocol) -> Columns:
    """The same rows with the value of each one's image in place of areas."""
    if len(columns) == 0:
        return columns
    if values is None:
        raise InputError(
            f"`crowd_index` must be given for the truths, `crowdIndex` of images in COCO's files: protocol"
            f" {protocol.name} has ranges of it; got none"
        )
    images, index = np.unique(host_ids(columns.image), return_inverse=True)
    if unknown := [image for image in images.tolist() if image not in values]:
        raise InputError(f"`crowd_index` must have every image; got none for image {unknown[0]}")
    column = np.array([float(values[image]) for image in images.tolist()])[index]
    return replace(columns, area=convert(column, like=columns.geometry.arrays[0]))
