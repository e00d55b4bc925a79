"""Post-processing (Alg. 5): masks of discarded detections, instead of fewer detections.

Each function takes a mask and returns one with more detections discarded, so they can be chained in any order; shapes
never change. Dimensions: N images, D detections, W detections of a window, E detections on a second axis.
"""

import math
from functools import partial
from typing import NamedTuple, get_args

from boxscore.arrays import Array, along_rows, arange, cumulative_max, fixed_point, float_dtype, namespace, size_of
from boxscore.data.geometry.box_formats import UPRIGHT_FORMATS, BoxFormat, check_box_format
from boxscore.data.geometry.boxes import MeasuredBoxes, iou_of_measured, measure
from boxscore.protocol.fields import check_choice
from boxscore.protocol.protocol import Pixels, extent_of

PAIRS_PER_TILE = 2**18
"""Number of pairs of boxes of an image that suppression compares at a time: 2 MB for each column of doubles."""
LEAST_WINDOW = 64
"""The least number of boxes of an image that a step of suppression decides together."""
ROUNDS_PER_STEP = 8
"""Length of a chain of overlapping boxes, in pairs, that one step settles; longer ones take more steps."""
UNDECIDED, KEPT, DISCARDED = 0, 1, 2


def discard_below(score: Array, threshold: float, *, discarded: Array | None = None) -> Array:
    """Discard scores below `threshold`; an equal score is kept. Shape (N, D).

    Args:
        score: Scores. Shape (N, D).
        threshold: The lowest score that is kept.
        discarded: Mask of already discarded detections. Shape (N, D).

    >>> import numpy as np
    >>> discard_below(np.array([[0.9, 0.05, 0.1]]), 0.1).tolist()
    [[False, True, False]]
    """
    is_low_ND = score < threshold
    return is_low_ND if discarded is None else discarded | is_low_ND


def discard_beyond_top(score: Array, num: int, *, label: Array | None = None, discarded: Array | None = None) -> Array:
    """Discard all but the `num` best of each image, or of each image and label. Shape (N, D).

    Of equal scores the first is better.

    Args:
        score: Scores. Shape (N, D).
        num: Number of detections that are kept.
        label: Labels, to keep `num` of each image and label. Shape (N, D).
        discarded: Mask of already discarded detections. Shape (N, D).

    >>> import numpy as np
    >>> discard_beyond_top(np.array([[0.3, 0.9, 0.9, 0.1]]), 2).tolist()
    [[True, False, False, True]]
    """
    is_beyond_ND = rank_by_score(score, label=label, discarded=discarded) >= num
    return is_beyond_ND if discarded is None else discarded | is_beyond_ND


def discard_overlapping(
    box: Array,
    score: Array,
    threshold: float,
    *,
    label: Array | None = None,
    discarded: Array | None = None,
    box_format: BoxFormat = "xyxy",
    pixels: Pixels = "continuous",
) -> Array:
    """Discard the boxes that greedy non-maximum suppression discards, for all images at once. Shape (N, D).

    A box is discarded if a better box that is kept has an IoU above `threshold` with it. Greedy NMS visits the boxes
    one by one; but the kept boxes are the only mask for which that sentence is true, so they are a fixed point, reached
    by deciding many boxes at once, the best ones first. Pairs are compared in tiles: memory does not grow with D * D.

    Args:
        box: Boxes. Shape (N, D, 4).
        score: Scores. Shape (N, D).
        threshold: The largest IoU of two boxes that are both kept.
        label: Labels; if given, only boxes of equal label compete. Shape (N, D).
        discarded: Mask of already discarded detections. Shape (N, D).
        box_format: "xyxy", "xywh" or "cxcywh".
        pixels: "inclusive" or "continuous", as in `pairwise_iou`.

    >>> import numpy as np
    >>> box = np.array([[[0.0, 0, 10, 10], [1, 0, 11, 10], [2, 0, 12, 10]]])  # the second only saves the third
    >>> discard_overlapping(box, np.array([[0.9, 0.8, 0.7]]), 0.7).tolist()
    [[False, True, False]]
    """
    check_box_format(box_format, UPRIGHT_FORMATS)
    check_choice("pixels", pixels, get_args(Pixels))
    xp = namespace(box)
    rank_ND = rank_by_score(score, discarded=discarded)
    order_ND = xp.argsort(rank_ND, axis=-1, stable=True)

    def sort(column_ND: Array) -> Array:
        return along_rows(column_ND, order_ND)

    measured = measure(xp.astype(box, float_dtype(box)), box_format=box_format, pixels=pixels)
    rivals = _Rivals(
        MeasuredBoxes(*map(sort, measured)), None if label is None else sort(label), threshold, extent_of(pixels)
    )
    is_open_ND = xp.ones_like(rank_ND, dtype=xp.bool) if discarded is None else ~sort(discarded)
    if box.shape[1] ** 2 <= PAIRS_PER_TILE:
        is_kept_ND = _keep_among_all(rivals, is_open_ND)
    else:
        start_ND = xp.where(is_open_ND, xp.zeros_like(rank_ND), DISCARDED * xp.ones_like(rank_ND))
        is_kept_ND = fixed_point(partial(_decide, rivals), start_ND) == KEPT
    return ~along_rows(is_kept_ND, rank_ND)


class _Rivals(NamedTuple):
    """The boxes of each image in descending order of score, and when two of them compete."""

    columns: MeasuredBoxes
    label_ND: Array | None
    threshold: float
    extent: float

    def at(self, place_NW: Array) -> "_Rivals":
        """The boxes at some places of the order."""
        columns = MeasuredBoxes(*(along_rows(column_ND, place_NW) for column_ND in self.columns))
        label_NW = None if self.label_ND is None else along_rows(self.label_ND, place_NW)
        return self._replace(columns=columns, label_ND=label_NW)

    def between(self, first: int, last: int) -> "_Rivals":
        """The boxes from one place of the order up to another."""
        columns = MeasuredBoxes(*(column_ND[:, first:last] for column_ND in self.columns))
        return self._replace(columns=columns, label_ND=None if self.label_ND is None else self.label_ND[:, first:last])

    def overlaps(self, others: "_Rivals") -> Array:
        """Whether pairs of boxes can't both be kept. Shape (N, W, E)."""
        is_overlap_NWE = iou_of_measured(self.columns, others.columns, extent=self.extent) > self.threshold
        if self.label_ND is None or others.label_ND is None:
            return is_overlap_NWE
        return is_overlap_NWE & (self.label_ND[:, :, None] == others.label_ND[:, None, :])


def _keep_among_all(rivals: _Rivals, is_open_ND: Array) -> Array:
    """The boxes that are kept, from all pairs at once. Shape (N, D)."""
    xp = namespace(is_open_ND)
    place_D = arange(is_open_ND.shape[1], like=is_open_ND)
    is_threat_NDE = rivals.overlaps(rivals) & (place_D < place_D[:, None])

    def survivors(is_kept_ND: Array) -> Array:
        return is_open_ND & ~xp.any(is_threat_NDE & is_kept_ND[:, None, :], axis=2)

    return fixed_point(survivors, is_open_ND)


def _decide(rivals: _Rivals, state_ND: Array) -> Array:
    """Decide the best undecided boxes of each image, and discard all boxes that the kept ones overlap. Shape (N, D).

    A box that no better undecided box overlaps is kept. All better undecided boxes of a box in the window are in the
    window, too; and the best of all is kept, so that every step decides boxes of every image that has undecided ones.
    """
    xp = namespace(state_ND)
    num_boxes = state_ND.shape[1]
    width = min(num_boxes, max(LEAST_WINDOW, PAIRS_PER_TILE // num_boxes))
    tile = max(1, PAIRS_PER_TILE // width)

    place_ND = xp.zeros_like(state_ND) + arange(num_boxes, like=state_ND)
    place_NW = xp.argsort(xp.where(state_ND == UNDECIDED, place_ND, place_ND + num_boxes), axis=-1)[:, :width]
    window = rivals.at(place_NW)
    is_threat_NWW = window.overlaps(window) & (place_NW[:, :, None] < place_NW[:, None, :])
    is_open_NW = along_rows(state_ND, place_NW) == UNDECIDED
    is_kept_NW = xp.zeros_like(is_open_NW)
    for _ in range(ROUNDS_PER_STEP):
        is_next_NW = is_open_NW & ~xp.any(is_threat_NWW & is_open_NW[:, :, None], axis=1)
        is_kept_NW = is_kept_NW | is_next_NW
        is_open_NW = is_open_NW & ~is_next_NW & ~xp.any(is_threat_NWW & is_next_NW[:, :, None], axis=1)

    parts = []
    for first in range(0, num_boxes, tile):
        last = min(first + tile, num_boxes)
        part_NE = state_ND[:, first:last]
        place_N1E, kept_place_NW1 = place_ND[:, None, first:last], xp.where(is_kept_NW, place_NW, -1)[:, :, None]
        is_overlap_NWE = window.overlaps(rivals.between(first, last)) & (kept_place_NW1 < place_N1E)
        is_lost_NE = xp.any(is_overlap_NWE & (kept_place_NW1 >= 0), axis=1) & (part_NE == UNDECIDED)
        is_kept_NE = xp.any(kept_place_NW1 == place_N1E, axis=1)
        part_NE = xp.where(is_kept_NE, KEPT * xp.ones_like(part_NE), part_NE)
        parts.append(xp.where(is_lost_NE, DISCARDED * xp.ones_like(part_NE), part_NE))
    return xp.concat(parts, axis=1)


def rank_by_score(score: Array, *, label: Array | None = None, discarded: Array | None = None) -> Array:
    """The rank of each detection in its image, or in its image and label: 0 for the best. Shape (N, D).

    Of equal scores the first ranks first; discarded detections rank after all others.

    Args:
        score: Scores. Shape (N, D).
        label: Labels, to rank within image and label. Shape (N, D).
        discarded: Mask of discarded detections. Shape (N, D).

    >>> import numpy as np
    >>> rank_by_score(np.array([[0.3, 0.9, 0.9]]), label=np.array([[7, 7, 4]])).tolist()
    [[1, 0, 0]]
    """
    xp = namespace(score)
    score = xp.astype(score, float_dtype(score))
    descent_ND = -score if discarded is None else xp.where(discarded, math.inf * xp.ones_like(score), -score)
    order_ND = xp.argsort(descent_ND, axis=-1, stable=True)
    position_ND = xp.zeros_like(order_ND) + arange(size_of(score, 1), like=score)
    if label is not None:
        by_label_ND = xp.argsort(along_rows(label, order_ND), axis=-1, stable=True)
        order_ND = along_rows(order_ND, by_label_ND)
        label_ND = along_rows(label, order_ND)
        is_first_ND = xp.concat([label_ND[:, :1] == label_ND[:, :1], label_ND[:, 1:] != label_ND[:, :-1]], axis=-1)
        position_ND = position_ND - cumulative_max(xp.where(is_first_ND, position_ND, xp.zeros_like(position_ND)))
    return along_rows(position_ND, xp.argsort(order_ND, axis=-1, stable=True))
