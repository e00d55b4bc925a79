"""Keypoints as columns of numbers, for rows that are spilled to disk or sent to workers.

| column | |
|---|---|
| `point` | x, y, x, y, …: shape (N, 2 K) |
| `third` | visibilities of truths, scores of detections: shape (N, K) |
| `box` | of truths: left, top, width, height: shape (N, 4) |
| `num_labelled` | of truths, where a file says so |
| `area` | of truths, and of detections that have boxes, too |

NaN stands for what the rows of a side do not have.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.arrays import to_numpy
from boxscore.data.geometry.keypoints import Keypoints

Rows = Mapping[str, NDArray[Any]]


def fields_of(num_points: int) -> list[Any]:
    """The fields of a row beside those of boxes, as NumPy's dtypes have them."""
    return [("point", "f8", 2 * num_points), ("third", "f8", num_points), ("num_labelled", "f8"), ("area", "f8")]


def columns_of(keypoints: Keypoints) -> dict[str, NDArray[np.float64]]:
    """The columns of keypoints, but for areas."""
    num, num_points = len(keypoints), keypoints.num_points

    def floats(column: Any, *shape: int) -> NDArray[np.float64]:
        if column is None:
            return np.full((num, *shape), np.nan)
        return to_numpy(column).astype(np.float64).reshape(num, *shape)

    return {
        "point": floats(keypoints.point, 2 * num_points),
        "third": floats(keypoints.score if keypoints.visibility is None else keypoints.visibility, num_points),
        "box": floats(keypoints.box, 4),
        "num_labelled": floats(keypoints.num_labelled),
    }


def keypoints_from(rows: Rows, *, is_truth: bool) -> Keypoints:
    """The keypoints of columns, with the bits that they had."""
    num = len(rows["image"])
    point = rows["point"].reshape(num, rows["point"].shape[1] // 2, 2)
    third = given(rows, "third")
    if not is_truth:
        return Keypoints(point=point, score=third)
    return Keypoints(
        point=point,
        visibility=rows["third"],
        area=given(rows, "area"),
        box=given(rows, "box"),
        num_labelled=given(rows, "num_labelled"),
    )


def given(rows: Rows, name: str) -> NDArray[np.float64] | None:
    """A column that all rows have; None if none has it, `InputError` if some have."""
    column = rows[name]
    is_given = ~np.isnan(column.reshape(len(column), -1)).any(axis=1)
    if is_given.any() and not is_given.all():
        shown = {"box": "boxes", "num_labelled": "`num_keypoints`"}.get(name, f"`{name}`")
        raise InputError(f"{shown} must be given for all rows of a side, or for none; got some of each")
    return column if is_given.any() else None
