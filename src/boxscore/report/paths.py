"""Shapes as paths of SVG, with few points and few digits."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore.data.geometry import Sketch

TOLERANCE = 0.6
"""A point is dropped if the line without it is at most this many drawn pixels away."""


class Paths(NamedTuple):
    """One shape, in drawn pixels."""

    lines: str
    """The outlines and open lines."""
    dots: str
    """The single points, as lines of length 0: with round ends they are dots."""
    bounds: tuple[float, float, float, float]
    """Left, top, right and bottom of the shape."""


def paths_of(sketch: Sketch, scale: Any, origin: Any = (0.0, 0.0)) -> Paths:
    """The paths of a sketch.

    `scale`: drawn pixels per unit of the sketch, for x and y. `origin`: the left and top of the picture, in units of
    the sketch.

    >>> square = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]])
    >>> paths_of(Sketch(outlines=[square]), (0.5, 0.5))
    Paths(lines='M0 0L5 0L5 5L0 5Z', dots='', bounds=(0.0, 0.0, 5.0, 5.0))
    """
    outlines = [simplified((points - origin) * scale, is_closed=True) for points in sketch.outlines]
    lines = [simplified((points - origin) * scale, is_closed=False) for points in sketch.lines]
    dots = (sketch.points - origin) * scale
    drawn = np.concatenate([np.zeros((0, 2)), *outlines, *lines, dots])
    ends = (*drawn.min(axis=0).tolist(), *drawn.max(axis=0).tolist()) if len(drawn) else (0.0, 0.0, 0.0, 0.0)
    closed = [f"{_joined(points)}Z" for points in outlines]
    return Paths("".join([*closed, *map(_joined, lines)]), "".join(f"M{_pair(point)}h0" for point in dots), ends)


def simplified(points: NDArray[np.float64], *, is_closed: bool) -> NDArray[np.float64]:
    """The points of a line without those that hardly change it (Douglas and Peucker). Shape (P, 2).

    >>> simplified(np.array([[0, 0], [1, 0.1], [2, 0], [2, 9.0]]), is_closed=False).tolist()
    [[0.0, 0.0], [2.0, 0.0], [2.0, 9.0]]
    """
    if len(points) <= (4 if is_closed else 2):
        return points
    line = np.concatenate([points, points[:1]]) if is_closed else points
    is_kept = np.zeros(len(line), bool)
    is_kept[[0, -1]] = True
    parts = [(0, len(line) - 1)]
    if is_closed:
        # A closed line has no ends: split it at the first point and at the point farthest from it.
        farthest = int(np.argmax(np.square(line - line[0]).sum(axis=1)))
        is_kept[farthest] = True
        parts = [(0, farthest), (farthest, len(line) - 1)]
    while parts:
        first, last = parts.pop()
        if last - first < 2:
            continue
        distance = _distances(line[first + 1 : last], line[first], line[last])
        index = int(np.argmax(distance))
        if distance[index] > TOLERANCE:
            middle = first + 1 + index
            is_kept[middle] = True
            parts += [(first, middle), (middle, last)]
    kept = line[is_kept]
    return kept[:-1] if is_closed else kept


def _distances(
    points: NDArray[np.float64], start: NDArray[np.float64], end: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The distances of points from a line; from its start, if the line has no length."""
    along, towards = end - start, points - start
    length = float(np.hypot(*along))
    if length == 0:
        return np.asarray(np.hypot(towards[:, 0], towards[:, 1]))
    return np.asarray(np.abs(along[0] * towards[:, 1] - along[1] * towards[:, 0]) / length)


def _joined(points: Iterable[NDArray[np.float64]]) -> str:
    return "M" + "L".join(map(_pair, points))


def _pair(point: NDArray[np.float64]) -> str:
    return " ".join(f"{round(value, 1):g}" for value in point.tolist())
