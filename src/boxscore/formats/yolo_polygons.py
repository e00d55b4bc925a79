"""Masks as YOLO has them: one polygon per object, in fractions of the image's size.

A mask of several parts, or with holes, becomes one polygon, too: its parts are connected by lines that enclose nothing,
as Ultralytics does with COCO's polygons.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.data.dataset import Detections, Truths
from boxscore.data.geometry.masks import Masks, Polygons
from boxscore.data.geometry.outlines import are_same, joined, traced
from boxscore.formats.polygon_writers import boxes_lost, has_polygons, polygons_of, shapes_lost, with_enough_points
from boxscore.formats.records import Floats
from boxscore.formats.writers import Host, Loss


def polygons_as_fractions(
    columns: Detections | Truths, host: Host, mask: Masks
) -> tuple[list[list[float]], list[Loss]]:
    """The numbers x, y, x, y, … of each mask's polygon, and what is lost."""
    parts = [polygons_of(mask, row) for row in range(len(mask))]
    corners = host.corners().tolist()
    whole = [_one_polygon(polygons, corner) for polygons, corner in zip(parts, corners, strict=True)]
    is_kept = has_polygons(mask)
    is_divided = is_kept & np.array([len(polygons) > 1 for polygons in parts], bool)
    is_overlapping = _overlap(mask, whole, is_divided)
    for row in np.flatnonzero(is_overlapping).tolist():
        whole[row] = _one_polygon(traced(mask, row), corners[row])
    column = Polygons.of([[polygon] for polygon in whole])
    num_points = np.diff(column.part_start) // 2
    points, size = column.points.reshape(-1, 2), _sizes(host)
    scale = np.repeat(size, num_points, axis=0)
    fractions = _fractions(points, scale)
    again = fractions * scale
    is_kept_point = np.repeat(is_kept & ~is_overlapping, num_points)
    row_of_point = np.repeat(np.arange(len(mask)), num_points)
    num_moved = len(np.unique(row_of_point[is_kept_point & (again != points).any(axis=1)]))
    redrawn_from = replace(column, points=again.reshape(-1))
    redrawn = Masks.from_polygons(redrawn_from, size[:, ::-1].astype(np.int64))
    moved, divided = "last digit of a polygon that is a fraction now", "division of a mask into polygons"
    overlapping = "outline of overlapping polygons that is traced now"
    losses = [
        Loss(num=int((is_divided & ~is_overlapping).sum()), what=divided, plural="divisions of masks into polygons"),
        Loss(num=int(is_overlapping.sum()), what=overlapping, plural=overlapping.replace("outline", "outlines", 1)),
        Loss(num=num_moved, what=moved, plural="last digits of polygons that are fractions now"),
        shapes_lost(mask, redrawn),
        *boxes_lost(columns, host, redrawn_from.bounds()),
    ]
    numbers, starts = fractions.reshape(-1).tolist(), column.part_start.tolist()
    return [numbers[start:end] for start, end in pairwise(starts)], losses


def _one_polygon(polygons: Sequence[Floats], box: Sequence[float]) -> Floats:
    """All polygons as one; for an empty mask one at the corner of its box that encloses nothing."""
    return with_enough_points(joined(polygons) if polygons else np.zeros(0), box[:2])


def _overlap(mask: Masks, whole: list[Floats], is_divided: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which masks of several polygons have other pixels if these are one: where polygons overlap, a part is off."""
    rows = np.flatnonzero(is_divided)
    is_overlapping = np.zeros(len(mask), bool)
    own = mask.take(rows)
    one = Masks.from_polygons([[whole[row]] for row in rows.tolist()], own.runs.sizes)
    is_overlapping[rows] = ~are_same(own, one)
    return is_overlapping


def _sizes(host: Host) -> Floats:
    """Width and height of each row's image. Shape (R, 2)."""
    for image in np.unique(host.image).tolist():
        if image not in host.sizes:
            raise InputError(
                f"image {image}: polygons are written as fractions of its size, and `image_sizes` has none for it"
            )
    return np.array([host.sizes[image] for image in host.image.tolist()], np.float64).reshape(-1, 2)


def _fractions(points: Floats, scale: Floats) -> Floats:
    """Pixels as fractions of an image's size; multiplying gives the same pixels, or at least draws the same ones."""
    fraction = points / scale
    for is_fine in (np.equal, _are_drawn_alike):
        for direction in (np.inf, -np.inf):
            other = np.nextafter(fraction, direction)
            is_better = is_fine(other * scale, points) & ~is_fine(fraction * scale, points)
            fraction = np.where(is_better, other, fraction)
    return np.asarray(fraction)


def _are_drawn_alike(points: Floats, others: Floats) -> NDArray[np.bool_]:
    """Whether coordinates are drawn at the same place: as in COCO, polygons are drawn on a grid of fifths of pixels."""
    return np.asarray(np.trunc(5 * points + 0.5) == np.trunc(5 * others + 0.5))
