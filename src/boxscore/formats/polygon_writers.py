"""Shared parts of polygon writers: the polygons of masks, kept or traced, and the losses of writing them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from boxscore.data.dataset import Detections, Truths
from boxscore.data.geometry.boxes import Boxes
from boxscore.data.geometry.masks import Masks
from boxscore.data.geometry.outlines import are_same, traced
from boxscore.formats.records import Floats
from boxscore.formats.writers import Host, Loss

MIN_POINTS = 3
"""Minimum number of points that readers accept as a polygon."""
_SAME = 1e-6
"""Maximum distance in pixels of boxes that differ only in their last digits."""


def has_polygons(mask: Masks) -> NDArray[np.bool_]:
    """Whether each mask has kept the polygons that it was drawn from. Shape (N,)."""
    if mask.polygons is None:
        return np.zeros(len(mask), bool)
    return np.asarray(np.diff(mask.polygons.mask_start) > 0)


def polygons_of(mask: Masks, row: int) -> list[Floats]:
    """The kept polygons of a mask; if none were kept, polygons traced around its parts. Empty for an empty mask."""
    kept = [] if mask.polygons is None else mask.polygons[row]
    return kept or traced(mask, row)


def with_enough_points(polygon: Floats, corner: Sequence[float]) -> Floats:
    """Repeat the last point until the polygon has three; an empty polygon becomes `corner` three times.

    Neither adds a pixel.

    >>> with_enough_points(np.array([1.0, 2, 3, 4]), (0, 0)).tolist()
    [1.0, 2.0, 3.0, 4.0, 3.0, 4.0]
    """
    points = polygon.reshape(-1, 2) if polygon.size else np.array([corner], np.float64)
    missing = max(0, MIN_POINTS - len(points))
    return np.concatenate([points, np.repeat(points[-1:], missing, axis=0)]).reshape(-1)


def bounds_of(polygons: Sequence[Floats]) -> list[float]:
    """Left, top, right, bottom of all points."""
    points = np.concatenate([polygon.reshape(-1, 2) for polygon in polygons])
    return [*points.min(axis=0).tolist(), *points.max(axis=0).tolist()]


def outlines_lost(mask: Masks) -> Loss:
    """The loss of a format that has run lengths but no polygons."""
    return outlines_as_runs(int(has_polygons(mask).sum()))


def outlines_as_runs(num: int) -> Loss:
    """The loss of kept polygons that are written as run lengths."""
    return Loss(num=num, what="outline that is run lengths now", plural="outlines that are run lengths now")


def shapes_lost(mask: Masks, again: Masks) -> Loss:
    """The loss of masks that are read back with other pixels or another size. `again`: the masks as read back."""
    num = int((~are_same(mask, again)).sum())
    return Loss(num=num, what="exact shape of a mask", plural="exact shapes of masks")


def boxes_lost(columns: Detections | Truths, host: Host, corners: Floats) -> list[Loss]:
    """The losses of boxes that are not the boxes around their polygons, as readers compute them.

    `corners`: the boxes around the polygons.
    """
    if not any(isinstance(each, Boxes) for each in columns.geometries) or not len(host):
        return []
    distance = np.abs(host.corners() - corners).max(axis=1)
    is_other, is_moved = distance > _SAME, (distance > 0) & (distance <= _SAME)
    what = "box that is not the one around its polygons"
    last = "last digit of a box around polygons"
    return [
        Loss(num=int(is_other.sum()), what=what, plural="boxes that are not the ones around their polygons"),
        Loss(num=int(is_moved.sum()), what=last, plural="last digits of boxes around polygons"),
    ]
