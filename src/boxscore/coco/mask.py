"""pycocotools.mask: the IoU of boxes is boxscore's; all that needs masks is pycocotools' own, if it is installed."""

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.threads import num_threads
from boxscore.coco.modules import fallback_attributes, original_module


def iou(dt: Any, gt: Any, pyiscrowd: Sequence[int]) -> Any:
    """The IoU of every pair, (D, G); with a crowd the union is the detection's own area. [] if either side is empty.

    Boxes in xywh: an array (N, 4), or a list of such rows. Masks go to pycocotools.

    >>> iou([[0, 0, 2, 2]], [[0, 0, 1, 1], [1, 1, 2, 3]], [0, 1])
    array([[0.25, 0.25]])
    """
    boxes, truth_boxes = _boxes(dt), _boxes(gt)
    if boxes is None or truth_boxes is None:
        return _original().iou(dt, gt, pyiscrowd)
    if len(pyiscrowd) != len(truth_boxes):
        raise AssertionError("iou(iscrowd=) must have the same length as gt")
    if len(boxes) == 0 or len(truth_boxes) == 0:
        return []
    groups = _compiled.ImageGroups(np.array([0, len(boxes)], np.int64), np.array([0, len(truth_boxes)], np.int64))
    is_crowd = np.array(pyiscrowd, np.uint8)
    return _compiled.overlaps(groups, boxes, truth_boxes, is_crowd, num_threads(None)).reshape(
        len(boxes), len(truth_boxes)
    )


def _boxes(values: Any) -> NDArray[np.float64] | None:
    """Boxes as an array; None if the values are not boxes."""
    if isinstance(values, np.ndarray):
        return np.ascontiguousarray(values, np.float64) if values.shape[1:] == (4,) else None
    if isinstance(values, list) and all(isinstance(box, list | tuple | np.ndarray) and len(box) == 4 for box in values):
        return np.array(values, np.float64).reshape(-1, 4)
    return None


def merge(rleObjs: Any, intersect: int = 0) -> Any:
    """The union of masks, or their intersection."""
    return _original().merge(rleObjs, intersect)


def frPyObjects(pyobj: Any, h: int, w: int) -> Any:
    """Polygons, boxes or plain run lengths as encoded masks."""
    return _original().frPyObjects(pyobj, h, w)


def encode(bimask: Any) -> Any:
    """Masks of pixels as run lengths."""
    return _original().encode(bimask)


def decode(rleObjs: Any) -> Any:
    """Run lengths as masks of pixels."""
    return _original().decode(rleObjs)


def area(rleObjs: Any) -> Any:
    """The number of pixels of each mask."""
    return _original().area(rleObjs)


def toBbox(rleObjs: Any) -> Any:
    """The boxes around masks, in xywh."""
    return _original().toBbox(rleObjs)


def _original() -> ModuleType:
    return original_module("mask", "anything with masks")


if not TYPE_CHECKING:
    __getattr__, __dir__ = fallback_attributes("mask", globals())
