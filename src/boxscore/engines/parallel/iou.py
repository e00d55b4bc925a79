"""IoU computation (Alg. 6) and IoU filtering (Alg. 7).

Dimensions: N images, D detections, G truths.
"""

from typing import get_args

from boxscore._support.exceptions import InputError
from boxscore.arrays import Array, float_dtype, int_dtype, namespace
from boxscore.data.geometry.box_formats import UPRIGHT_FORMATS, BoxFormat, check_box_format
from boxscore.data.geometry.boxes import iou_of_measured, measure
from boxscore.data.geometry.masks import LARGEST_SINGLE, iou_of_pixels
from boxscore.protocol.fields import check_choice
from boxscore.protocol.protocol import Pixels, extent_of

NO_PAIR = -1.0
"""The IoU of a pair that must not match. The paper writes 0, which a threshold of 0 compared by >= would accept."""


def pairwise_iou(box: Array, truth: Array, *, box_format: BoxFormat = "xyxy", pixels: Pixels = "inclusive") -> Array:
    """IoU of every detection with every truth of its image (Alg. 6), 0 for boxes of no area. Shape (N, D, G).

    Args:
        box: Boxes of detections. Shape (N, D, 4).
        truth: Boxes of truths. Shape (N, G, 4).
        box_format: "xyxy", "xywh" or "cxcywh".
        pixels: "inclusive": a box from x1 to x2 is x2 - x1 + 1 wide; "continuous": x2 - x1.

    >>> import numpy as np
    >>> box, truth = np.array([[[0.0, 0.0, 9.0, 9.0]]]), np.array([[[0.0, 0.0, 9.0, 4.0], [5.0, 0.0, 14.0, 9.0]]])
    >>> pairwise_iou(box, truth).tolist()  # 50 of 100 pixels, 50 of 150
    [[[0.5, 0.3333333333333333]]]
    """
    check_box_format(box_format, UPRIGHT_FORMATS)
    check_choice("pixels", pixels, get_args(Pixels))
    xp = namespace(box, truth)
    real = float_dtype(box)
    detections = measure(xp.astype(box, real), box_format=box_format, pixels=pixels)
    truths = measure(xp.astype(truth, real), box_format=box_format, pixels=pixels)
    return iou_of_measured(detections, truths, extent=extent_of(pixels))


def pairwise_mask_iou(mask: Array, truth: Array, *, is_crowd: Array | None = None) -> Array:
    """IoU of every detected mask with every true mask of its image, 0 for masks without pixels. Shape (N, D, G).

    Exact: pixels are counted by a matrix product, on the device of the masks. All masks have one size (H, W).

    Args:
        mask: Masks of detections, booleans or 0 and 1. Shape (N, D, H, W).
        truth: Masks of truths. Shape (N, G, H, W).
        is_crowd: Crowds, with which the union is only the detection's area. Shape (N, G).

    >>> import numpy as np
    >>> square, row = np.zeros((1, 1, 4, 4), bool), np.zeros((1, 1, 4, 4), bool)
    >>> square[0, 0, :2, :2], row[0, 0, 0] = True, True
    >>> pairwise_mask_iou(square, row).tolist()  # 2 of 6 pixels
    [[[0.3333333333333333]]]
    """
    xp = namespace(mask, truth)
    if tuple(mask.shape[-2:]) != tuple(truth.shape[-2:]):
        sizes = f"{tuple(mask.shape[-2:])} and {tuple(truth.shape[-2:])}"
        raise InputError(f"`mask` and `truth` must have pixels of one shape (H, W); got {sizes}")
    num_pixels = mask.shape[-2] * mask.shape[-1]
    real = xp.float32 if num_pixels <= LARGEST_SINGLE else float_dtype(mask)
    flat, truth_flat = (xp.astype(xp.reshape(each, (*each.shape[:2], num_pixels)), real) for each in (mask, truth))
    return iou_of_pixels(flat, truth_flat, is_crowd_NG=is_crowd)


def filter_iou(iou: Array, label: Array, truth_label: Array, discarded: Array | None = None) -> Array:
    """The IoUs, with -1 for pairs that must not match: different labels, or a discarded detection (Alg. 7).

    Args:
        iou: IoUs from `pairwise_iou`. Shape (N, D, G).
        label: Labels of detections. Shape (N, D).
        truth_label: Labels of truths. Shape (N, G).
        discarded: Mask of discarded detections. Shape (N, D).

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
