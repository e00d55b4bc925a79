"""Box formats; corners and areas of boxes in continuous coordinates or inclusive pixels."""

from typing import Any, Literal, get_args

from boxscore._support.arrays import Array, constant, namespace
from boxscore._support.exceptions import InputError
from boxscore.model.protocol import Pixels

BoxFormat = Literal["xyxy", "xywh", "cxcywh"]


def check_box_format(box_format: str) -> None:
    """Raise `InputError` unless `box_format` is one of xyxy, xywh, cxcywh."""
    if box_format not in get_args(BoxFormat):
        raise InputError(f"`box_format` must be one of {', '.join(get_args(BoxFormat))}; got {box_format!r}")


def sizes(box: Array, box_format: BoxFormat) -> tuple[Array, Array]:
    """Width and height as the format has them. Shapes (...)."""
    if box_format == "xyxy":
        return box[..., 2] - box[..., 0], box[..., 3] - box[..., 1]
    return box[..., 2], box[..., 3]


def to_xywh(box: Array, box_format: BoxFormat) -> tuple[Array, Array, Array, Array]:
    """Left, top, width, height. Shapes (...)."""
    width, height = sizes(box, box_format)
    if box_format == "cxcywh":
        return box[..., 0] - width / 2, box[..., 1] - height / 2, width, height
    return box[..., 0], box[..., 1], width, height


def to_xyxy(box: Array, box_format: BoxFormat) -> tuple[Array, Array, Array, Array]:
    """Left, top, right, bottom. Shapes (...)."""
    if box_format == "xyxy":
        return box[..., 0], box[..., 1], box[..., 2], box[..., 3]
    left, top, width, height = to_xywh(box, box_format)
    if box_format == "cxcywh":
        return left, top, box[..., 0] + width / 2, box[..., 1] + height / 2
    return left, top, left + width, top + height


def measure(box: Array, *, box_format: BoxFormat, pixels: Pixels) -> tuple[Array, Array]:
    """Corners (left, top, right, bottom) and areas of boxes. Shapes (..., 4) and (...).

    >>> import numpy as np
    >>> box = np.asarray([[10.0, 10.0, 19.0, 19.0]])
    >>> measure(box, box_format="xyxy", pixels="continuous")[1].tolist()
    [81.0]
    >>> measure(box, box_format="xyxy", pixels="inclusive")[1].tolist()
    [100.0]
    """
    xp = namespace(box)
    if pixels == "continuous":
        # as in COCO: xywh decides, so a far corner is left + width even where it was given
        left, top, width, height = to_xywh(box, box_format)
        return xp.stack([left, top, left + width, top + height], axis=-1), width * height
    left, top, right, bottom = to_xyxy(box, box_format)
    return xp.stack([left, top, right, bottom], axis=-1), (right - left + 1) * (bottom - top + 1)


def is_in_areas(area: Array, areas: Any) -> Array:
    """Whether each area lies in each range, ends included. Shape (..., A)."""
    low_A = constant([each.low for each in areas], like=area, dtype=area.dtype)
    high_A = constant([each.high for each in areas], like=area, dtype=area.dtype)
    return (area[..., None] >= low_A) & (area[..., None] <= high_A)
