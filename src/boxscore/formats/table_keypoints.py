"""Keypoints in a column of a table: three numbers per point, x, y and its visibility or score, one list per row.

A cell of text has the list in JSON, `[x, y, v, x, y, v, …]`; in .npz the array has shape (N, K, 3).
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.arrays import to_numpy
from boxscore.data.geometry.boxes import to_xywh
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.formats.records import Floats, PoseRows

NAME = "keypoints"
"""The name of the column."""
NUM_LABELLED = "num_keypoints"
"""The name of the column with the number of labelled points of a truth."""
NAMES = (NAME, NUM_LABELLED)
TERMS = {"visibility": NAME, "keypoints_scores": NAME}
"""The names of our columns in errors."""
_RULE = "must be a list of numbers x, y, v, x, y, v, …, three for each point"


def read_column(column: Sequence[Any] | NDArray[Any], location: Callable[[int], str], source: str) -> PoseRows:
    """Read the keypoints of all rows, each with the same number of points."""
    shape = column.shape if isinstance(column, np.ndarray) else ()
    is_real = isinstance(column, np.ndarray) and column.dtype.kind in "iuf"
    if is_real and len(shape) == 2 and shape[1] and shape[1] % 3 == 0:
        numbers = np.asarray(column, np.float64).reshape(len(column), -1, 3)
    elif isinstance(column, np.ndarray) and column.ndim == 3:
        if not is_real or column.shape[2] not in (2, 3) or not (column.shape[1] or not len(column)):
            rule = "must be numbers of shape (N, K, 3) or (N, K, 2)"
            raise InputError(f"{source}: `{NAME}` {rule}; got {column.dtype} of shape {column.shape}")
        numbers = column.astype(np.float64, copy=False)
    else:
        numbers = _listed(column, location)
    point = np.ascontiguousarray(numbers[:, :, :2])
    return PoseRows(point, np.ascontiguousarray(numbers[:, :, 2]) if numbers.shape[2] == 3 else None)


def _listed(column: Sequence[Any] | NDArray[Any], location: Callable[[int], str]) -> Floats:
    """Read lists of numbers, in JSON or not. Shape (R, K, 3)."""
    rows: list[Floats] = []
    for row, cell in enumerate(column):
        numbers = _numbers(cell)
        if numbers is None or not numbers.size or numbers.size % 3:
            got = repr(cell)[:60] if numbers is None else f"{numbers.size} numbers"
            raise InputError(f"{location(row)}: `{NAME}` {_RULE}; got {got}")
        if rows and numbers.size != rows[0].size:
            rule = f"must have as many points in every row: {rows[0].size // 3}, as in {location(0)}"
            raise InputError(f"{location(row)}: `{NAME}` {rule}; got {numbers.size // 3}")
        rows.append(numbers)
    return np.stack(rows).reshape(len(rows), -1, 3) if rows else np.zeros((0, 0, 3))


def _numbers(cell: Any) -> Floats | None:
    """The numbers of a cell, which has one list, or one list per point; None if the cell is invalid."""
    try:
        value = json.loads(cell) if isinstance(cell, str) else cell.tolist() if isinstance(cell, np.ndarray) else cell
        numbers = np.asarray(value, np.float64)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    is_fine = numbers.ndim == 1 or (numbers.ndim == 2 and numbers.shape[1] == 3)
    return numbers.reshape(-1) if is_fine else None


def boxes_around(poses: PoseRows, *, is_truth: bool) -> Floats:
    """Boxes around the points (for truths, the labelled points) in xyxy, for tables without boxes. Shape (R, 4)."""
    visibility = poses.third if is_truth else None
    return to_numpy(Keypoints(point=poses.point, visibility=visibility).outer_boxes())


def areas_of_boxes(box: Floats, box_format: Any) -> Floats:
    """Areas of detections that have both boxes and keypoints. # as in COCO: the box decides, and not the points"""
    _, _, width, height = to_xywh(box, box_format)
    return np.asarray(width * height)


def lists_of(keypoints: Keypoints) -> Floats:
    """x, y and the third number of every point; 1 without visibilities and scores. Shape (N, 3 K)."""
    point = to_numpy(keypoints.point).astype(np.float64)
    third = keypoints.score if keypoints.visibility is None else keypoints.visibility
    last = np.ones(point.shape[:2]) if third is None else to_numpy(third).astype(np.float64)
    return np.concatenate([point, last[:, :, None]], axis=2).reshape(len(point), 3 * point.shape[1])


def num_labelled_of(keypoints: Keypoints) -> dict[str, NDArray[np.int64]]:
    """The column with the number of labelled points; empty if it was not in a file."""
    labelled = keypoints.num_labelled
    return {} if labelled is None else {NUM_LABELLED: to_numpy(labelled).astype(np.int64)}
