"""The shapes of CVAT's XML: boxes, rotated or not, polygons and masks; their bounds, their outlines, their pixels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.formats.pixel_masks import MAX_PIXELS, Crop, row_major
from boxscore.formats.records import Floats

SHAPES = ("box", "polygon", "mask")
"""Shapes that are read."""
OTHER_SHAPES = ("polyline", "points", "cuboid", "ellipse", "skeleton")
CORNERS = ("xtl", "ytl", "xbr", "ybr")
_BOX_OF_MASK = ("left", "top", "width", "height")


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """A shape by its bounds, and for masks by its outline or its pixels."""

    box: Sequence[float]
    """Left, top, right, bottom."""
    outline: Floats | None = None
    """x, y, x, y, …; only for masks."""
    crop: Crop | None = None
    """The pixels of a mask; only for masks."""


def whole_number(text: str | None, what: str) -> int:
    """An integer of 63 bits."""
    try:
        number = int(text or "")
    except ValueError:
        number = 1 << 63
    if abs(number) >= 1 << 63:
        raise InputError(f"{what} must be an integer; got {text!r}")
    return number


def size_of(width_text: str | None, height_text: str | None) -> tuple[int, int] | None:
    """Width and height, if both are given and positive."""
    try:
        width, height = int(width_text or "0"), int(height_text or "0")
    except ValueError:
        return None
    return (width, height) if 0 < width < 10**9 and 0 < height < 10**9 else None


def shape_of(element: Any, location: str, *, has_masks: bool) -> Shape:
    """The shape of an element. `has_masks`: with its outline or its pixels."""
    if element.tag == "mask":
        crop = _crop_of(element, location)
        return Shape(box=crop.bounds(), crop=crop if has_masks else None)
    if element.tag == "box":
        return rotated(*corners_of(element, location), has_masks=has_masks)
    points = element.get("points", "")
    try:
        pairs = [tuple(map(float, point.split(","))) for point in points.split(";")]
        x, y = zip(*pairs, strict=True)
    except ValueError:
        raise InputError(f"{location}: `points` must be pairs of numbers; got {points[:60]!r}") from None
    outline = np.array(pairs, np.float64).reshape(-1) if has_masks else None
    return Shape(box=(min(x), min(y), max(x), max(y)), outline=outline)


def corners_of(element: Any, location: str) -> tuple[Sequence[float], float]:
    """The corners of a box before its rotation, and the angle in degrees."""
    corners = [element.get(corner) for corner in CORNERS]
    try:
        numbers = [float(corner) for corner in corners]
    except (TypeError, ValueError):
        raise InputError(f"{location}: must have {', '.join(CORNERS)} as numbers; got {corners}") from None
    angle = element.get("rotation", "0")
    try:
        degrees = float(angle)
    except ValueError:
        degrees = math.nan
    if not math.isfinite(degrees):
        raise InputError(f"{location}: `rotation` must be a finite number; got {angle!r}")
    return numbers, degrees


def rotated(corners: Sequence[float], degrees: float, *, has_masks: bool) -> Shape:
    """A box that is rotated about its center, clockwise: its bounds, and for masks its four corners."""
    left, top, right, bottom = corners
    if degrees == 0:
        outline = np.array([left, top, right, top, right, bottom, left, bottom]) if has_masks else None
        return Shape(box=corners, outline=outline)
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    center_x, center_y, width, height = (left + right) / 2, (top + bottom) / 2, right - left, bottom - top
    half_width, half_height = (width * abs(cos) + height * abs(sin)) / 2, (width * abs(sin) + height * abs(cos)) / 2
    outline = None
    if has_masks:
        x, y = np.array([-1, 1, 1, -1]) * (width / 2), np.array([-1, -1, 1, 1]) * (height / 2)
        outline = np.stack([center_x + x * cos - y * sin, center_y + x * sin + y * cos], axis=1).reshape(-1)
    return Shape(
        box=(center_x - half_width, center_y - half_height, center_x + half_width, center_y + half_height),
        outline=outline,
    )


def _crop_of(element: Any, location: str) -> Crop:
    """The pixels of a mask: run lengths row by row within a box, the first of them off."""
    left, top, width, height = (whole_number(element.get(name), f"{location}: `{name}`") for name in _BOX_OF_MASK)
    if min(width, height) < 1 or width * height > MAX_PIXELS:
        raise InputError(
            f"{location}: must have `width` and `height` from 1 on, and at most {MAX_PIXELS:,} pixels; got {width} x"
            f" {height}"
        )
    text = element.get("rle", "")
    try:
        counts = [int(count) for count in text.split(",")]
    except ValueError:
        raise InputError(f"{location}: `rle` must be integers separated by commas; got {text[:60]!r}") from None
    if min(counts) < 0 or sum(counts) != width * height:
        raise InputError(
            f"{location}: `rle` must have run lengths for the {width} x {height} pixels of its box; got"
            f" {'a negative one' if min(counts) < 0 else f'{sum(counts):,} pixels'}"
        )
    return row_major(counts, left, top, height, width)
