"""What others say of oriented boxes: shapely's areas, fractions, and ProbIoU as its paper has it."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray


def shapely_iou(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """IoU of pairs of corners. Shape (N,)."""
    import shapely

    first, second = (shapely.polygons(corners.reshape(-1, 4, 2)) for corners in (one, other))
    shared = shapely.area(shapely.intersection(first, second))
    union = shapely.area(first) + shapely.area(second) - shared
    return np.asarray(shared / union)


def exact_iou(one: Any, other: Any) -> float:
    """IoU of the corners of two convex boxes in fractions, which nothing is lost of."""
    first, second = (
        [(Fraction(x), Fraction(y)) for x, y in np.reshape(quad, (4, 2)).tolist()] for quad in (one, other)
    )

    def area(polygon: Any) -> Fraction:
        edges = zip(polygon, polygon[1:] + polygon[:1], strict=True)
        return sum((a[0] * b[1] - a[1] * b[0] for a, b in edges), Fraction(0)) / 2

    first, second = (quad if area(quad) > 0 else quad[::-1] for quad in (first, second))
    inside: Any = first
    for a, b in zip(second, second[1:] + second[:1], strict=True):
        distance = [(b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]) for p in inside]
        kept = []
        for i, (point, d) in enumerate(zip(inside, distance, strict=True)):
            before, d_before = inside[i - 1], distance[i - 1]
            if (d >= 0) != (d_before >= 0):
                share = d / (d - d_before)
                kept.append(tuple(p + (q - p) * share for p, q in zip(point, before, strict=True)))
            if d >= 0:
                kept.append(point)
        inside = kept
    shared = area(inside)
    return float(shared / (area(first) + area(second) - shared))


def largest_difference(iou: NDArray[np.float64], one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """From shapely; where that is beyond 1e-12, from fractions.

    Shapely finds nothing in common of some boxes that are the same but for the last digits.
    """
    difference = np.abs(iou - shapely_iou(one, other))
    doubtful = np.flatnonzero(difference > 1e-12)
    assert doubtful.size < 1 + iou.size / 1000
    for row in doubtful:
        difference[row] = abs(iou[row] - exact_iou(one[row], other[row]))
    return float(difference.max())


def probiou(one: Any, other: Any) -> NDArray[np.float64]:
    """The formula of `batch_probiou`, term by term as its paper has it (arXiv 2106.06072). Shape (N,)."""

    def covariance(box: Any) -> NDArray[np.float64]:
        turn = np.array([[np.cos(box[4]), -np.sin(box[4])], [np.sin(box[4]), np.cos(box[4])]])
        return np.asarray(turn @ np.diag([box[2] ** 2 / 12, box[3] ** 2 / 12]) @ turn.T)

    values = []
    for a, b in zip(one, other, strict=True):
        first, second = covariance(a), covariance(b)
        both, distance = first + second, np.array(a[:2]) - b[:2]
        shape = np.sqrt(np.linalg.det(first) * np.linalg.det(second))
        bhattacharyya = distance @ np.linalg.inv(both) @ distance / 4
        bhattacharyya += np.log(np.linalg.det(both) / (4 * shape)) / 2
        values.append(1 - np.sqrt(1 - np.exp(-bhattacharyya) + 1e-7))
    return np.maximum(values, 0)
