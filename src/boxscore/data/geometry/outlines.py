"""Convert masks to polygons along the edges of pixels, for files that store polygons instead of pixels.

`Masks.from_polygons` converts the polygons back to the same pixels. Corners are traced, not single edges: on each
horizontal line of the grid, each two consecutive corners are the ends of a horizontal edge, and on each vertical line
the ends of a vertical edge. So an outline is a walk along horizontal and vertical edges in turn.

    a mask      its corners         the walk
    # # .       0 - - - 1           0 -> 1 -> 3 -> 2 -> 5 -> 4 -> 0
    # . .       |   2 - 3
                4 - 5

If two pixels touch only at a corner, two corners are at one point, one for each pixel: the pixels of a part of a mask
are connected by edges.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore.data.geometry.masks import Masks

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]

_PAIRS_AT_ONCE = 1 << 20
"""Number of distances between corners that are computed at once."""


class _Corners(NamedTuple):
    """The corners of outlines, ordered by row and then by column. Shape (C,) each."""

    x: Indices
    y: Indices
    is_outer: Flags
    """Whether the pixel below and to the right of the corner is set."""
    across: Indices
    """The other end of each corner's horizontal edge."""
    along: Indices
    """The other end of each corner's vertical edge."""


def trace(pixels: NDArray[np.generic]) -> list[list[Floats]]:
    """Trace the outlines of the set pixels, part by part: first around the part, then around each of its holes.

    Pixels of a part are connected by edges. Outlines are x, y, x, y, …, clockwise; outlines of holes counterclockwise.

    >>> [[outline.tolist() for outline in part] for part in trace(np.array([[1, 1, 0], [1, 0, 0]]))]
    [[[0.0, 0.0, 2.0, 0.0, 2.0, 1.0, 1.0, 1.0, 1.0, 2.0, 0.0, 2.0]]]
    """
    is_on = np.asarray(pixels, bool)
    if not is_on.any():
        return []
    rows, columns = np.flatnonzero(is_on.any(axis=1)), np.flatnonzero(is_on.any(axis=0))
    top, left = rows[0], columns[0]
    is_on = np.pad(is_on[top : rows[-1] + 1, left : columns[-1] + 1], 1)
    corners = _corners(is_on)
    walks = _walks(corners)
    is_outer = [bool(corners.is_outer[walk[0]]) for walk in walks]
    part_of = list(range(len(walks))) if all(is_outer) else _parts(is_on, corners, walks)
    parts: dict[int, list[Floats]] = {part: [] for part, is_first in zip(part_of, is_outer, strict=True) if is_first}
    for index in sorted(range(len(walks)), key=lambda index: not is_outer[index]):
        walk = walks[index] if is_outer[index] else walks[index][:1] + walks[index][:0:-1]
        points = np.stack([corners.x[walk] + left, corners.y[walk] + top], axis=1)
        parts[part_of[index]].append(points.astype(np.float64).reshape(-1))
    return list(parts.values())


def _corners(is_on: Flags) -> _Corners:
    """The corners of all outlines. `is_on`: pixels, with a border of unset pixels."""
    north_west, north_east = is_on[:-1, :-1], is_on[:-1, 1:]
    south_west, south_east = is_on[1:, :-1], is_on[1:, 1:]
    is_odd = north_west ^ north_east ^ south_west ^ south_east
    is_falling = north_west & south_east & ~north_east & ~south_west
    is_rising = north_east & south_west & ~north_west & ~south_east
    num = is_odd.astype(np.int64) + 2 * (is_falling | is_rising)
    y, x = (np.repeat(axis, num[num > 0]) for axis in np.nonzero(num))
    # Of two corners at one point, the first ends the edge from the west, the second begins the edge to the east.
    is_second = np.concatenate([[False], (x[1:] == x[:-1]) & (y[1:] == y[:-1])])
    # For pixels on a falling diagonal, north is paired with west; on a rising diagonal, north is paired with east.
    is_south = is_second ^ is_rising[y, x]
    return _Corners(
        x=x,
        y=y,
        is_outer=south_east[y, x],
        across=_partners(np.arange(len(x))),
        along=_partners(np.lexsort([is_south, y, x])),
    )


def _partners(order: Indices) -> Indices:
    """The partner of each corner, if consecutive corners in this order form pairs."""
    partner = np.empty_like(order)
    partner[order[0::2]], partner[order[1::2]] = order[1::2], order[0::2]
    return partner


def _walks(corners: _Corners) -> list[list[int]]:
    """The corners of each outline, from the leftmost of its topmost corners, first to the right."""
    across, along = corners.across.tolist(), corners.along.tolist()
    is_walked = [False] * len(across)
    walks = []
    for first in range(len(across)):
        if is_walked[first]:
            continue
        walk, corner = [], first
        while not is_walked[corner]:
            other = across[corner]
            is_walked[corner] = is_walked[other] = True
            walk += [corner, other]
            corner = along[other]
        walks.append(walk)
    return walks


def _parts(is_on: Flags, corners: _Corners, walks: Sequence[Sequence[int]]) -> list[int]:
    """The part that each outline belongs to: outlines on both sides of a run of pixels belong to the same part."""
    outline_of = np.empty(len(corners.x), np.int64)
    for outline, walk in enumerate(walks):
        outline_of[walk] = outline
    first = np.flatnonzero(corners.y < corners.y[corners.along])
    length = corners.y[corners.along[first]] - corners.y[first]
    within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    edge = np.zeros((is_on.shape[0], is_on.shape[1] - 1), np.int64)
    edge[np.repeat(corners.y[first], length) + within + 1, np.repeat(corners.x[first], length)] = np.repeat(
        outline_of[first], length
    )
    is_edge = is_on[:, 1:] != is_on[:, :-1]
    beside = np.unique(edge[is_edge].reshape(-1, 2), axis=0)  # the left and the right end of each run
    part_of = list(range(len(walks)))

    def part(outline: int) -> int:
        while part_of[outline] != outline:
            part_of[outline] = part_of[part_of[outline]]
            outline = part_of[outline]
        return outline

    for one, other in beside.tolist():
        low, high = sorted((part(one), part(other)))
        part_of[high] = low  # the first outline of a part is its outer one
    return [part(outline) for outline in range(len(walks))]


def joined(outlines: Sequence[Floats]) -> Floats:
    """Join outlines into one polygon: a line between the nearest corners connects each with the previous ones.

    The line is walked forth and back, so that it encloses nothing. Drawn with the even-odd rule, as in COCO, the
    polygon has the pixels of all outlines that don't overlap, without the pixels of holes.

    >>> joined([np.array([0.0, 0, 1, 0, 1, 1]), np.array([3.0, 1, 4, 1, 4, 2])]).tolist()
    [0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 3.0, 1.0, 4.0, 1.0, 4.0, 2.0, 3.0, 1.0, 1.0, 1.0]
    """
    whole = outlines[0].reshape(-1, 2)
    for outline in outlines[1:]:
        points = outline.reshape(-1, 2)
        at, other = _nearest(whole, points)
        whole = np.concatenate(
            [whole[: at + 1], points[other:], points[: other + 1], whole[at:] if len(whole) > 1 else whole[:0]]
        )
    return np.asarray(whole.reshape(-1))


def _nearest(points: Floats, others: Floats) -> tuple[int, int]:
    """The indices of the nearest pair of a point and another point."""
    best, found = np.inf, (0, 0)
    num_at_once = max(1, _PAIRS_AT_ONCE // len(others))
    for start in range(0, len(points), num_at_once):
        some = points[start : start + num_at_once]
        distance = np.square(some[:, :1] - others[:, 0]) + np.square(some[:, 1:] - others[:, 1])
        index = int(np.argmin(distance))
        if distance.flat[index] < best:
            best, found = float(distance.flat[index]), (start + index // len(others), index % len(others))
    return found


def traced(masks: Masks, row: int) -> list[Floats]:
    """Trace the polygons of a mask, one per part; a line connects each hole with the outline of its part.

    >>> [part.tolist() for part in traced(Masks.from_pixels(np.eye(2, dtype=bool)[None]), 0)]
    [[0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0], [1.0, 1.0, 2.0, 1.0, 2.0, 2.0, 1.0, 2.0]]
    """
    return [joined(part) for part in trace(masks.pixels(row))]


def are_same(masks: Masks, others: Masks) -> Flags:
    """Whether masks have the same size and pixels, row by row. Shape (N,).

    >>> are_same(Masks.from_pixels(np.eye(2, dtype=bool)[None]), Masks.from_pixels(np.ones((1, 2, 2), bool))).tolist()
    [False]
    """
    starts, other_starts = masks.runs.start.tolist(), others.runs.start.tolist()
    counts, other_counts = masks.runs.counts.tobytes(), others.runs.counts.tobytes()
    is_same = (masks.runs.sizes == others.runs.sizes).all(axis=1) & (masks.runs.area == others.runs.area)
    for row in np.flatnonzero(is_same).tolist():
        text, other_text = (
            counts[starts[row] : starts[row + 1]],
            other_counts[other_starts[row] : other_starts[row + 1]],
        )
        # Different texts may have the same pixels, as runs of length 0 are allowed.
        is_same[row] = text == other_text or np.array_equal(masks.pixels(row), others.pixels(row))
    return np.asarray(is_same)
