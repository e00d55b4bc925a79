"""Data loading (Alg. 4): truths of a mini-batch in arrays of one length, with a mask.

Dimensions: N images, G truths of the image that has most.
"""

from collections.abc import Sequence
from typing import NamedTuple

from boxscore.arrays import Array, constant, int_dtype, namespace
from boxscore.errors import InputError


class PaddedTruths(NamedTuple):
    """The truths of a mini-batch. A dummy has label -1, which no detection has, and is ignored."""

    box: Array
    """Shape (N, G, 4)."""
    label: Array
    """Shape (N, G)."""
    ignore: Array
    """The paper's mask: True for dummies and for difficult truths or crowds. Shape (N, G)."""
    area: Array | None = None
    """Areas that decide the size class, if they differ from the boxes'. Shape (N, G)."""


class PaddedDetections(NamedTuple):
    """The detections of a mini-batch."""

    box: Array
    """Shape (N, D, 4)."""
    label: Array
    """Shape (N, D)."""
    score: Array
    """Shape (N, D)."""
    discarded: Array
    """True for detections that post-processing discarded, and for padding. Shape (N, D)."""


def pad_truths(
    boxes: Sequence[Array],
    labels: Sequence[Array],
    ignores: Sequence[Array] | None = None,
    *,
    num_truths: int | None = None,
) -> PaddedTruths:
    """Truths of one image each, padded to `num_truths`, by default to the longest (Alg. 4).

    The paper gives a dummy label 0 and a box of zeros, which in inclusive pixels still covers one; label -1 keeps it
    from ever meeting a detection. Shapes: lists of (G, 4), (G,) and (G,).

    >>> import numpy as np
    >>> padded = pad_truths([np.ones((2, 4)), np.ones((1, 4))], [np.array([3, 5]), np.array([3])])
    >>> padded.label.tolist(), padded.ignore.tolist()
    ([[3, 5], [3, -1]], [[False, False], [False, True]])
    """
    if not boxes:
        raise InputError("`boxes` must have at least one image; got none")
    for name, lists in (("labels", labels), ("ignores", ignores)):
        if lists is not None and len(lists) != len(boxes):
            raise InputError(f"`{name}` must have {len(boxes)} images, as `boxes` has; got {len(lists)}")
    longest = max(int(label.shape[0]) for label in labels)
    length = longest if num_truths is None else num_truths
    if longest > length:
        raise InputError(f"`num_truths` must be at least {longest}, the most truths of an image; got {num_truths}")

    xp = namespace(*boxes, *labels)
    labels = [xp.astype(label, int_dtype(label)) for label in labels]
    if ignores is None:
        ignores = [xp.zeros_like(label, dtype=xp.bool) for label in labels]
    return PaddedTruths(
        box=xp.stack([_pad(box, length, fill=0) for box in boxes], axis=0),
        label=xp.stack([_pad(label, length, fill=-1) for label in labels], axis=0),
        ignore=xp.stack([_pad(ignore, length, fill=True) for ignore in ignores], axis=0),
    )


def _pad(values: Array, length: int, *, fill: int) -> Array:
    xp = namespace(values)
    shape = (length - int(values.shape[0]), *values.shape[1:])
    padding = xp.broadcast_to(constant(fill, like=values, dtype=values.dtype), shape)
    return xp.concat([values, padding], axis=0)
