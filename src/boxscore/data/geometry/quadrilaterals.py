"""Intersection area of two convex quadrilaterals: one is clipped by the four edges of the other.

Each operation is as in `src/core/geometry/oriented_boxes.h`, which has a drawing: once for single numbers,
once for arrays of pairs. In arrays, a polygon has one slot per possible corner; unused slots repeat a neighbour, which
adds nothing to the area.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from boxscore.arrays import Array, Namespace, namespace

Point: TypeAlias = tuple[float, float]


def shared_area(small: Sequence[Point], large: Sequence[Point]) -> float:
    """Area of the intersection; both polygons are convex, with corners that turn from x to y.

    >>> shared_area([(0, 0), (2, 0), (2, 2), (0, 2)], [(1, 0), (5, 0), (5, 4), (1, 4)])
    2.0
    """
    origin = small[0]
    polygon, edges = ([(x - origin[0], y - origin[1]) for x, y in corners] for corners in (small, large))
    for index in range(4):
        polygon = _cut(polygon, edges[index], edges[(index + 1) % 4])
    return _area(polygon)


def _area(polygon: Sequence[Point]) -> float:
    twice = 0.0
    for (x, y), (next_x, next_y) in zip(polygon, [*polygon[1:], *polygon[:1]], strict=True):
        twice += x * next_y - y * next_x
    return twice / 2


def _cut(polygon: list[Point], start: Point, end: Point) -> list[Point]:
    """Clip a polygon to the inner side of the line from start to end."""
    edge_x, edge_y = end[0] - start[0], end[1] - start[1]
    distances = [edge_x * (y - start[1]) - edge_y * (x - start[0]) for x, y in polygon]
    if not polygon or min(distances) >= 0:
        return polygon
    farthest = distances.index(min(distances))
    # Start at the corner that is farthest outside.
    polygon = polygon[farthest:] + polygon[:farthest]
    distances = distances[farthest:] + distances[:farthest]
    inside = [index for index, distance in enumerate(distances) if distance >= 0]
    if not inside:
        return []
    first, last = inside[0], inside[-1]
    after = (last + 1) % len(polygon)

    def crossing(inner: int, outer: int) -> Point:
        share = distances[inner] / (distances[inner] - distances[outer])
        (x, y), (outer_x, outer_y) = polygon[inner], polygon[outer]
        return x + (outer_x - x) * share, y + (outer_y - y) * share

    return [crossing(first, first - 1), *polygon[first : last + 1], crossing(last, after)]


def is_ordered(first: Sequence[Array], second: Sequence[Array]) -> Array:
    """Whether `first <= second` in lexicographic order, for each element of the arrays."""
    xp = namespace(first[0])
    ordered = first[-1] <= second[-1]
    for one, other in zip(first[-2::-1], second[-2::-1], strict=True):
        ordered = xp.where(one == other, ordered, one < other)
    return ordered


def pairwise_shared(small: Sequence[Array], large: Sequence[Array]) -> Array:
    """`shared_area` for arrays: eight arrays of coordinates for each polygon, all of one shape."""
    xp = namespace(small[0])
    polygon = [[small[i] - small[i % 2] for i in range(axis, 8, 2)] for axis in (0, 1)]
    edges = [[large[i] - small[i % 2] for i in range(axis, 8, 2)] for axis in (0, 1)]
    x, y = (xp.stack(axis) for axis in polygon)
    for index in range(4):
        start, end = ((edges[0][i], edges[1][i]) for i in (index, (index + 1) % 4))
        x, y = _pairwise_cut(x, y, start, end)
    num = x.shape[0]
    twice = xp.zeros_like(x[0])
    for i in range(num):
        j = (i + 1) % num
        twice = twice + (x[i] * y[j] - y[i] * x[j])
    return twice / 2


def _pairwise_cut(x: Array, y: Array, start: tuple[Array, Array], end: tuple[Array, Array]) -> tuple[Array, Array]:
    """Clip as `_cut` does, for polygons in slots along the first axis; the result has one more slot."""
    xp = namespace(x)
    edge_x, edge_y = end[0] - start[0], end[1] - start[1]
    distance = edge_x * (y - start[1]) - edge_y * (x - start[0])
    farthest, least = xp.zeros_like(x[0]), distance[0]
    for i in range(1, x.shape[0]):
        is_farther = distance[i] < least
        farthest = xp.where(is_farther, xp.full_like(farthest, float(i)), farthest)
        least = xp.where(is_farther, distance[i], least)
    is_whole = least >= 0
    farthest = xp.where(is_whole, xp.zeros_like(farthest), farthest)
    x, y, distance = (_rolled(xp, column, farthest) for column in (x, y, distance))

    is_inside = distance >= 0
    seen_before = _running_any(xp, is_inside)
    seen_after = xp.flip(_running_any(xp, xp.flip(is_inside, axis=0)), axis=0)
    is_first = is_inside & ~_shifted(xp, seen_before, 1)
    is_last = is_inside & ~_shifted(xp, seen_after, -1)
    first = _crossing(xp, x, y, distance, is_first & ~is_whole, -1)
    last = _crossing(xp, x, y, distance, is_last & ~is_whole, 1)

    slots = []
    for column, entry, leaving in ((x, first[0], last[0]), (y, first[1], last[1])):
        kept = xp.where(seen_before & seen_after | is_whole, column, xp.where(seen_before, leaving, entry))
        ahead = xp.where(is_whole, column[0], entry)
        behind = xp.where(is_whole, column[-1], leaving)
        # Slot 0 is outside unless all are inside, so the first crossing replaces it.
        slots.append(xp.concat([ahead[None], kept[1:], behind[None]], axis=0))
    return slots[0], slots[1]


def _crossing(xp: Namespace, x: Array, y: Array, distance: Array, is_chosen: Array, step: int) -> tuple[Array, Array]:
    """The point where the edge from the chosen corner to its neighbour crosses the line; 0 if none is chosen."""
    other_x, other_y, other = (_wrapped(xp, column, step) for column in (x, y, distance))
    share = distance / xp.where(is_chosen, distance - other, xp.ones_like(distance))
    zero = xp.zeros_like(x)
    return (
        xp.sum(xp.where(is_chosen, x + (other_x - x) * share, zero), axis=0),
        xp.sum(xp.where(is_chosen, y + (other_y - y) * share, zero), axis=0),
    )


def _wrapped(xp: Namespace, column: Array, step: int) -> Array:
    """The neighbour of each slot, `step` slots after it (negative: before), cyclic."""
    return xp.concat([column[step:], column[:step]], axis=0)


def _rolled(xp: Namespace, column: Array, amount: Array) -> Array:
    """Rotate the slots of each pair, so that slot `amount` becomes the first."""
    for bit in (4, 2, 1):
        if bit < column.shape[0]:
            is_on = amount >= bit
            column = xp.where(is_on, _wrapped(xp, column, bit), column)
            amount = xp.where(is_on, amount - bit, amount)
    return column


def _running_any(xp: Namespace, flags: Array) -> Array:
    """Whether a slot, or any slot before it, has a flag."""
    rows: list[Any] = [flags[0]]
    for i in range(1, flags.shape[0]):
        rows.append(rows[-1] | flags[i])
    return xp.stack(rows)


def _shifted(xp: Namespace, flags: Array, step: int) -> Array:
    """The flag of the previous (1) or the next (-1) slot; False at the ends."""
    nothing = xp.zeros_like(flags[:1])
    return xp.concat([nothing, flags[:-1]], axis=0) if step == 1 else xp.concat([flags[1:], nothing], axis=0)
