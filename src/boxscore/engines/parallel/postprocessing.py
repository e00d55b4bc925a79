"""Post-processing (Alg. 5): masks of discarded detections, instead of fewer detections.

Each function takes a mask and returns one with more detections discarded, so they can be chained in any order; shapes
never change. Dimensions: N images, D detections, E the same detections on a second axis.
"""

import math

from boxscore.arrays import Array, arange, cumulative_max, fixed_point, float_dtype, namespace
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.engines.parallel.iou import pairwise_iou
from boxscore.protocol.protocol import Pixels


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
    one by one; but the kept boxes are the only mask for which that sentence is true, so they are the fixed point of
    applying the sentence to all boxes at once.

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
    xp = namespace(box)
    rank_ND = rank_by_score(score, label=label, discarded=discarded)
    iou_NDE = pairwise_iou(box, box, box_format=box_format, pixels=pixels)
    is_threat_NDE = (iou_NDE > threshold) & (rank_ND[:, None, :] < rank_ND[:, :, None])
    if label is not None:
        is_threat_NDE = is_threat_NDE & (label[:, None, :] == label[:, :, None])
    is_open_ND = xp.ones_like(score, dtype=xp.bool) if discarded is None else ~discarded

    def survivors(is_kept_ND: Array) -> Array:
        return is_open_ND & ~xp.any(is_threat_NDE & is_kept_ND[:, None, :], axis=2)

    return ~fixed_point(survivors, is_open_ND)


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
    position_ND = xp.zeros_like(order_ND) + arange(score.shape[-1], like=score)
    if label is not None:
        by_label_ND = xp.argsort(xp.take_along_axis(label, order_ND, axis=-1), axis=-1, stable=True)
        order_ND = xp.take_along_axis(order_ND, by_label_ND, axis=-1)
        label_ND = xp.take_along_axis(label, order_ND, axis=-1)
        is_first_ND = xp.concat([label_ND[:, :1] == label_ND[:, :1], label_ND[:, 1:] != label_ND[:, :-1]], axis=-1)
        position_ND = position_ND - cumulative_max(xp.where(is_first_ND, position_ND, xp.zeros_like(position_ND)))
    return xp.take_along_axis(position_ND, xp.argsort(order_ND, axis=-1, stable=True), axis=-1)
