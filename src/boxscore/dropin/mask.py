"""pycocotools.mask: masks as run lengths, with the values, types and errors of pycocotools 2.0.11."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.threads import num_threads
from boxscore.dropin.patch import fallback_attributes

_BOXES_ONLY = "numpy ndarray input is only for *bounding boxes* and should have Nx4 dimension"
_LISTS_ONLY = "list input can be bounding box (Nx4) or RLEs ([RLE])"
_KNOWN_ONLY = "unrecognized type.  The following type: RLEs (rle), np.ndarray (box), and list (box) are supported."
_ALIKE_ONLY = "The dt and gt should have the same data type, either RLEs, list or np.ndarray"


def iou(dt: Any, gt: Any, pyiscrowd: Any) -> Any:
    """Compute the IoU of each pair, (D, G); [] if a side is empty. With a crowd, the union is the detection's area.

    Both sides are masks, a list of dicts, or boxes in xywh: an array (N, 4), or a list of such rows.

    >>> iou([[0, 0, 2, 2]], [[0, 0, 1, 1], [1, 1, 2, 3]], [0, 1])
    array([[0.25, 0.25]])
    """
    is_crowd = np.array(pyiscrowd, np.uint8)
    detections, truths = _shapes(dt), _shapes(gt)
    if isinstance(detections, list) != isinstance(truths, list) and len(detections) and len(truths):
        raise Exception(_ALIKE_ONLY)
    if len(is_crowd) != len(truths):
        raise AssertionError("iou(iscrowd=) must have the same length as gt")
    if len(detections) == 0 or len(truths) == 0:
        return []
    if isinstance(detections, list) or isinstance(truths, list):
        return np.asfortranarray(_compiled.rle_compare(detections, truths, is_crowd))
    groups = _compiled.ImageGroups(np.array([0, len(detections)], np.int64), np.array([0, len(truths)], np.int64))
    overlaps = _compiled.overlaps(groups, detections, truths, is_crowd, num_threads(None))
    return np.asfortranarray(overlaps.reshape(len(detections), len(truths)))


def _shapes(values: Any) -> NDArray[np.float64] | list[Any]:
    """Boxes as an array, masks as a list of dicts."""
    if isinstance(values, np.ndarray):
        if values.ndim == 1:
            raise TypeError(_BOXES_ONLY)
        if values.shape[1:] != (4,):
            raise Exception(_BOXES_ONLY)
        return np.ascontiguousarray(values, np.float64)
    if not isinstance(values, list):
        raise Exception(_KNOWN_ONLY)
    if not values or all(isinstance(each, dict) for each in values):
        return values
    if all(len(each) == 4 and isinstance(each, list | np.ndarray) for each in values):
        boxes = np.array(values, np.float64)
        _check_array(boxes, "double_t", (np.float64,), 2)
        return boxes
    raise Exception(_LISTS_ONLY)


def merge(rleObjs: Any, intersect: Any = 0) -> dict[str, Any]:
    """Compute the union of masks, or their intersection.

    >>> left, right = ({"size": [1, 4], "counts": counts} for counts in (b"031", b"13"))
    >>> merge([left, right])["counts"], merge([left, right], intersect=1)["counts"]
    (b'04', b'121')
    """
    if intersect is None or isinstance(intersect, str):
        raise TypeError("an integer is required")
    return _compiled.rle_merge(rleObjs, bool(int(intersect)))


def frPyObjects(pyobj: Any, h: Any, w: Any) -> Any:
    """Convert polygons, boxes or uncompressed run lengths to encoded masks.

    >>> frPyObjects([[1, 1, 3, 1, 3, 3, 1, 3]], 3, 4)
    [{'size': [3, 4], 'counts': b'42102'}]
    """
    if isinstance(pyobj, np.ndarray):
        return _from_boxes(pyobj, h, w)
    if isinstance(pyobj, list):
        first = pyobj[0]
        if len(first) == 4:
            name = type(pyobj).__name__
            raise TypeError(f"Argument 'bb' has incorrect type (expected numpy.ndarray, got {name})")
        if len(first) > 4:
            return _compiled.rle_from_polygons([_polygon(each) for each in pyobj], h, w)
        if isinstance(first, dict) and "counts" in first and "size" in first:
            return [_from_counts(each) for each in pyobj]
    elif isinstance(pyobj, dict) and "counts" in pyobj and "size" in pyobj:
        return _from_counts(pyobj)
    raise Exception("input type is not supported.")


def _polygon(points: Any) -> NDArray[np.float64]:
    return np.ascontiguousarray(np.array(points, np.float64).reshape(-1))


def _from_boxes(boxes: NDArray[Any], h: Any, w: Any) -> list[Any]:
    """Draw boxes in xywh. As in COCO: read 4 numbers per box in memory order, whatever the length of a row."""
    _check_array(boxes, "double_t", (np.float64,), 2)
    flat = boxes.reshape(-1)[: 4 * len(boxes)]
    if flat.size < 4 * len(boxes):
        raise ValueError(f"boxes must have 4 numbers per row; got shape {boxes.shape}")
    x, y, width, height = flat.reshape(-1, 4).T
    right, bottom = x + width, y + height
    corners = np.ascontiguousarray(np.stack([x, y, x, bottom, right, bottom, right, y], axis=1))
    return _compiled.rle_from_polygons(list(corners), h, w)


def _from_counts(mask: dict[str, Any]) -> dict[str, Any]:
    counts = np.array(mask["counts"], np.uint32)
    if counts.ndim != 1:
        raise ValueError(f"Buffer has wrong number of dimensions (expected 1, got {counts.ndim})")
    return _compiled.rle_from_counts(counts, mask["size"][0], mask["size"][1])


def encode(bimask: Any) -> Any:
    """Encode pixels as run lengths: (H, W) as one dict, (H, W, N) as a list of dicts; uint8, in column-major order.

    >>> encode(np.asfortranarray([[0, 0, 0], [0, 1, 1]], np.uint8))
    {'size': [2, 3], 'counts': b'3110'}
    """
    if len(bimask.shape) == 3:
        return _encode(bimask)
    if len(bimask.shape) == 2:
        return _encode(bimask.reshape((*bimask.shape, 1), order="F"))[0]
    return None


def _encode(pixels: Any) -> list[Any]:
    _check_array(pixels, "uint8_t", (np.uint8, np.bool_), 3)
    if not pixels.flags.f_contiguous:
        raise ValueError("ndarray is not Fortran contiguous")
    height, width, num = pixels.shape
    flat = pixels.reshape(-1, order="F").view(np.uint8)
    return _compiled.rle_encode(flat, height, width, num)


def _check_array(array: Any, wanted: str, dtypes: Sequence[Any], ndim: int) -> None:
    """Raise Cython's errors for invalid arrays, as pycocotools does."""
    if array.ndim != ndim:
        raise ValueError(f"Buffer has wrong number of dimensions (expected {ndim}, got {array.ndim})")
    if array.dtype not in dtypes:
        got = {np.dtype(np.int64): "long", np.dtype(np.float64): "double", np.dtype(np.float32): "float"}
        name = got.get(array.dtype, array.dtype.name)
        raise ValueError(f"Buffer dtype mismatch, expected '{wanted}' but got '{name}'")


def decode(rleObjs: Any) -> Any:
    """Decode run lengths to pixels: one dict to (H, W), a list of dicts to (H, W, N), in column-major order.

    >>> decode({"size": [2, 3], "counts": b"3110"}).tolist()
    [[0, 0, 0], [0, 1, 1]]
    """
    is_list = type(rleObjs) is list
    pixels, height, width = _compiled.rle_decode(rleObjs if is_list else [rleObjs])
    num = pixels.size // (height * width) if height * width else len(rleObjs) if is_list else 1
    masks = pixels.reshape((height, width, num), order="F")
    return masks if is_list else masks[:, :, 0]


def area(rleObjs: Any) -> Any:
    """Compute the area of masks in pixels, of one dict or a list of dicts."""
    return _compiled.rle_areas(rleObjs) if type(rleObjs) is list else _compiled.rle_areas([rleObjs])[0]


def toBbox(rleObjs: Any) -> Any:
    """Get the bounding boxes of masks in xywh: (4,) for one dict, (N, 4) for a list of dicts."""
    return _compiled.rle_boxes(rleObjs) if type(rleObjs) is list else _compiled.rle_boxes([rleObjs])[0]


if not TYPE_CHECKING:
    __getattr__, __dir__ = fallback_attributes("mask", globals())
