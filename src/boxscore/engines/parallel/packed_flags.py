"""Flags packed into words of 32 bits: flag x is bit x % 32 of word x // 32. Bit 31 is the sign of its word.

Dimensions: P for any flat axis, X flags, W words.
"""

from boxscore.arrays import Array, arange, namespace

NUM_BITS = 32


def pack(flag_PX: Array) -> Array:
    """Pack flags into words, int32. Shape (P, W).

    >>> import numpy as np
    >>> pack(np.array([[True, False, True]])).tolist(), unpack(np.array([[5]], np.int32), 3).tolist()
    ([[5]], [[True, False, True]])
    """
    xp = namespace(flag_PX)
    num_flags = int(flag_PX.shape[1])
    words = []
    for first in range(0, num_flags, NUM_BITS):
        part_PX = xp.astype(flag_PX[:, first : first + NUM_BITS], xp.int32)
        bit_X = xp.astype(arange(min(NUM_BITS, num_flags - first), like=flag_PX), xp.int32)
        words.append(xp.astype(xp.sum(xp.bitwise_left_shift(part_PX, bit_X), axis=1), xp.int32))
    return xp.stack(words, axis=1)


def unpack(word_PW: Array, num_flags: int) -> Array:
    """Unpack the flags of words. Shape (P, X)."""
    xp = namespace(word_PW)
    bit_X = xp.astype(arange(min(NUM_BITS, num_flags), like=word_PW), xp.int32)
    parts = [xp.bitwise_right_shift(word_PW[:, w, None], bit_X) for w in range(word_PW.shape[1])]
    return xp.concat(parts, axis=1)[:, :num_flags] % 2 == 1
