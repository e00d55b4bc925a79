"""Boxes and polygons of CVAT's XML, and the numbers in them."""

import math
from collections.abc import Sequence
from typing import Any

from boxscore._support.exceptions import InputError

CORNERS = ("xtl", "ytl", "xbr", "ybr")


def whole_number(text: str | None, what: str) -> int:
    """An integer of 63 bits."""
    try:
        number = int(text or "")
    except ValueError:
        number = 1 << 63
    if abs(number) >= 1 << 63:
        raise InputError(f"{what} must be an integer; got {text!r}")
    return number


def bounds_of(shape: Any, place: str) -> Sequence[float]:
    """Left, top, right, bottom of a box, turned or not, or of a polygon."""
    if shape.tag != "polygon":
        return box_of(*corners_of(shape, place))
    points = shape.get("points", "")
    try:
        pairs = [tuple(map(float, point.split(","))) for point in points.split(";")]
        x, y = zip(*pairs, strict=True)
    except ValueError:
        raise InputError(f"{place}: `points` must be pairs of numbers; got {points[:60]!r}") from None
    return min(x), min(y), max(x), max(y)


def corners_of(shape: Any, place: str) -> tuple[Sequence[float], float]:
    """The corners of a box, and the angle that it is turned by, in degrees."""
    corners = [shape.get(corner) for corner in CORNERS]
    try:
        numbers = [float(corner) for corner in corners]
    except (TypeError, ValueError):
        raise InputError(f"{place}: must have {', '.join(CORNERS)} as numbers; got {corners}") from None
    angle = shape.get("rotation", "0")
    try:
        degrees = float(angle)
    except ValueError:
        degrees = math.nan
    if not math.isfinite(degrees):
        raise InputError(f"{place}: `rotation` must be a finite number; got {angle!r}")
    return numbers, degrees


def box_of(corners: Sequence[float], degrees: float) -> Sequence[float]:
    """The bounds of a box that is turned about its middle."""
    if degrees == 0:
        return corners
    left, top, right, bottom = corners
    cos, sin = abs(math.cos(math.radians(degrees))), abs(math.sin(math.radians(degrees)))
    across, down, width, height = (left + right) / 2, (top + bottom) / 2, right - left, bottom - top
    half_width, half_height = (width * cos + height * sin) / 2, (width * sin + height * cos) / 2
    return across - half_width, down - half_height, across + half_width, down + half_height
