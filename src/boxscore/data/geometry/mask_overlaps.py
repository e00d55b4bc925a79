"""Overlaps of masks that are pixels in an array: common pixels and areas, counted where the pixels are.

A count of common pixels is an entry of a matrix product of zeros and ones, exact in any precision that holds the number
of pixels. So only integers leave a device, and mask IoU is divided from them in double precision, as for run lengths.

Dimensions: N images, D detections, G truths, H x W pixels.
"""

from typing import Any, NamedTuple

from boxscore._support.exceptions import InputError
from boxscore.arrays import Array, arange, count_common, count_flags, namespace, size_of, sum_of_steps
from boxscore.data.validation import is_kind

MOST_PIXELS_PER_TILE = 2**24
"""The largest number of pixels whose count single precision holds exactly."""

_PIXELS_PER_TILE = 2**16
_MOST_TILES = 16
_BYTES_PER_TILE = 2**28


class Overlaps(NamedTuple):
    """Areas of masks, and the pixels that a detection and a truth have in common, int32."""

    common: Array
    """Shape (N, D, G)."""
    area: Array
    """Shape (N, D)."""
    truth_area: Array
    """Shape (N, G)."""


def count_overlaps(masks: Array, truth_masks: Array, *, lines: int | None = None) -> Overlaps:
    """Count the pixels of masks, and the pixels that every detection has in common with every truth of its image.

    Works in static shapes without reading a value, so it can be part of one graph: `jax.jit`, `torch.compile`,
    `torch.export` with a dynamic number of images or masks, CUDA graphs, `tf.function` with any size unknown.

    Args:
        masks: The masks of detections, booleans or bytes; a byte that is not 0 is a pixel of the mask. Masks without
            pixels are suitable padding. Shape (N, D, H, W), of less than 2^31 pixels per mask.
        truth_masks: The masks of truths, of the same library, device, height and width. Shape (N, G, H, W).
        lines: The number of lines of pixels to compare at once, which bounds the memory: 2 to 4 bytes per pixel of
            both sides. By default lines of 65,536 pixels, or a 16th of the height if that is more, so that a graph has
            at most 16 tiles.

    Raises:
        InputError: The masks of both sides have different sizes, or have too many pixels.

    >>> import numpy as np
    >>> overlaps = count_overlaps(np.ones((1, 2, 3, 4), bool), np.eye(3, 4, dtype=bool)[None, None])
    >>> overlaps.common.tolist(), overlaps.area.tolist(), overlaps.truth_area.tolist()
    ([[[3], [3]]], [[12, 12]], [[3]])
    """
    height, width = _common_size(masks, truth_masks)
    if height is None or width is None:
        lines = 1  # in a graph of TensorFlow that doesn't know the size yet
    else:
        lines = _lines_per_tile(height, width) if lines is None else min(lines, _most_lines(width))
    num_lines = size_of(masks, 2)

    def compare(index: Any) -> tuple[Array, ...]:
        tile = slice(index * lines, (index + 1) * lines)
        flag_NDHW, truth_NGHW = as_flags(masks[:, :, tile]), as_flags(truth_masks[:, :, tile])
        return count_common(flag_NDHW, truth_NGHW), count_flags(flag_NDHW), count_flags(truth_NGHW)

    return Overlaps(*sum_of_steps(compare, (num_lines + lines - 1) // lines, like=masks))


def count_overlaps_in_tiles(masks: Array, truth_masks: Array) -> Overlaps:
    """Count overlaps as `count_overlaps` does, in tiles of at most 256 MB unless one line of pixels takes more.

    Args:
        masks: The masks of the detections. Shape (N, D, H, W).
        truth_masks: The masks of the truths. Shape (N, G, H, W).
    """
    num_images, num, height, width = masks.shape
    num_truths = truth_masks.shape[1]
    # Pixels in single precision; in half precision, at most one count per line and pair.
    bytes_per_line = num_images * (4 * (num + num_truths) * width + 2 * num * num_truths)
    num_tiles = -(-height // max(1, _BYTES_PER_TILE // max(1, bytes_per_line)))
    return count_overlaps(masks, truth_masks, lines=max(1, -(-height // max(1, num_tiles))))


def can_count(height: int, width: int) -> bool:
    """Whether masks of this size have few enough pixels to be counted in 32 bits, and per line in single precision."""
    return height * width < 2**31 and width <= MOST_PIXELS_PER_TILE


def find_outer_boxes(masks: Array) -> Array:
    """Find the smallest boxes around masks: left, top, right, bottom; 0 for a mask without pixels.

    In int32. Shape (D, 4).

    Args:
        masks: Booleans or bytes. Shape (D, H, W).
    """
    xp, flag_DHW = namespace(masks), as_flags(masks)
    starts, ends = [], []
    for axis in (1, 2):
        is_on_DP = xp.any(flag_DHW, axis=axis)  # columns, then lines
        index_P = arange(is_on_DP.shape[1], like=masks)
        end_D = xp.max(xp.where(is_on_DP, index_P + 1, xp.zeros_like(index_P)), axis=1)
        start_D = xp.min(xp.where(is_on_DP, index_P, xp.zeros_like(index_P) + is_on_DP.shape[1]), axis=1)
        starts.append(xp.where(end_D == 0, xp.zeros_like(start_D), start_D))
        ends.append(end_D)
    return xp.astype(xp.stack([*starts, *ends], axis=-1), xp.int32)


def _common_size(masks: Array, truth_masks: Array) -> tuple[int | None, int | None]:
    """Height and width of both sides; None: not known yet."""
    sizes = [tuple(each.shape[2:]) for each in (masks, truth_masks)]
    for first, second in zip(*sizes, strict=True):
        if None not in (first, second) and first != second:
            rule = "`masks` and `truth_masks` must have the same height and width"
            raise InputError(f"{rule}; got {sizes[0]} and {sizes[1]}")
    height, width = (second if first is None else first for first, second in zip(*sizes, strict=True))
    if height is not None and width is not None and not can_count(height, width):
        raise InputError(f"`masks` must have less than 2^31 pixels, and at most 2^24 per line; got {height} x {width}")
    return height, width


def _most_lines(width: int) -> int:
    return max(1, MOST_PIXELS_PER_TILE // max(1, width))


def _lines_per_tile(height: int, width: int) -> int:
    lines = max(1, _PIXELS_PER_TILE // max(1, width), -(-height // _MOST_TILES))
    return min(lines, _most_lines(width))


def as_flags(pixels: Array) -> Array:
    """Whether each pixel belongs to its mask: booleans, or bytes that are not 0."""
    return pixels if is_kind(pixels, "bool") else pixels != 0
