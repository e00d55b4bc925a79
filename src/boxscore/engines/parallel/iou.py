"""IoU computation (Alg. 6) and IoU filtering (Alg. 7).

Dimensions: N images, D detections, G truths.
"""

from typing import get_args

from boxscore._support.arrays import Array, float_dtype, int_dtype, namespace
from boxscore.geometry.boxes import BoxFormat, check_box_format, iou_of_measured, measure
from boxscore.model.protocol import Pixels, check_choice, extent_of

NO_PAIR = -1.0
"""The IoU of a pair that must not meet. The paper writes 0, which a threshold of 0 compared by >= would reach."""


def pairwise_iou(box: Array, truth: Array, *, box_format: BoxFormat = "xyxy", pixels: Pixels = "inclusive") -> Array:
    """IoU of every detection with every truth of its image (Alg. 6), 0 for boxes of no area.

    Shapes (N, D, 4) and (N, G, 4); gives (N, D, G).

    >>> import numpy as np
    >>> box, truth = np.array([[[0.0, 0.0, 9.0, 9.0]]]), np.array([[[0.0, 0.0, 9.0, 4.0], [5.0, 0.0, 14.0, 9.0]]])
    >>> pairwise_iou(box, truth).tolist()  # 50 of 100 pixels, 50 of 150
    [[[0.5, 0.3333333333333333]]]
    """
    check_box_format(box_format)
    check_choice("pixels", pixels, get_args(Pixels))
    xp = namespace(box, truth)
    real = float_dtype(box)
    detections = measure(xp.astype(box, real), box_format=box_format, pixels=pixels)
    truths = measure(xp.astype(truth, real), box_format=box_format, pixels=pixels)
    return iou_of_measured(*detections, *truths, extent=extent_of(pixels))


def filter_iou(iou: Array, label: Array, truth_label: Array, discarded: Array | None = None) -> Array:
    """The IoUs with -1 for pairs that must not meet: different labels, or a discarded detection (Alg. 7).

    Shapes (N, D, G), (N, D), (N, G), (N, D).

    >>> import numpy as np
    >>> filter_iou(np.full((1, 2, 2), 0.7), np.array([[3, 5]]), np.array([[3, -1]])).tolist()
    [[[0.7, -1.0], [-1.0, -1.0]]]
    """
    xp = namespace(iou)
    whole = int_dtype(iou)
    is_pair_NDG = xp.astype(label, whole)[:, :, None] == xp.astype(truth_label, whole)[:, None, :]
    if discarded is not None:
        is_pair_NDG = is_pair_NDG & ~discarded[:, :, None]
    return xp.where(is_pair_NDG, iou, NO_PAIR * xp.ones_like(iou))
