"""PNG images of masks to pixels: one number per pixel, gray or of a palette, as annotation tools write masks."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.formats.archives import refuse_bomb

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GRAY, _PALETTE = 0, 3
_FILTERS = ("none", "left", "up", "average", "paeth")


def decode_png(content: bytes, location: str) -> NDArray[np.uint8]:
    """The pixels of a PNG of at most 8 bits per pixel, not interlaced: gray, or indices into its palette. Shape (H, W).

    Errors name the location.
    """
    width, height, depth, data = _unpacked(content, location)
    stride = -(-width * depth // 8)
    lines = np.frombuffer(data, np.uint8).reshape(height, stride + 1)
    if (lines[:, 0] >= len(_FILTERS)).any():
        raise InputError(f"{location}: not a whole PNG image: a line has an unknown filter")
    packed = np.zeros((height, stride), np.uint8)
    above = np.zeros(stride, np.uint8)
    for row, (kind, line) in enumerate(zip(lines[:, 0].tolist(), lines[:, 1:], strict=True)):
        above = packed[row] = _unfiltered(_FILTERS[kind], line, above)
    if depth == 8:
        return packed
    bits = np.unpackbits(packed, axis=1).reshape(height, -1, depth)
    values = np.packbits(bits, axis=2, bitorder="big")[:, :, 0] >> (8 - depth)
    return np.ascontiguousarray(values[:, :width])


def _unpacked(content: bytes, location: str) -> tuple[int, int, int, bytes]:
    """Width, height, bits per pixel, and the lines of pixels, each after the number of its filter."""
    if content[:8] != SIGNATURE:
        raise InputError(f"{location}: must be a PNG image; got another file")
    header, packed, start = b"", [], 8
    while start + 12 <= len(content):
        (length,) = struct.unpack(">I", content[start : start + 4])
        kind, chunk = content[start + 4 : start + 8], content[start + 8 : start + 8 + length]
        if kind == b"IHDR":
            header = chunk
        elif kind == b"IDAT":
            packed.append(chunk)
        elif kind == b"IEND":
            break
        start += 12 + length
    if len(header) != 13:
        raise InputError(f"{location}: not a whole PNG image: it has no header")
    width, height, depth, color, _, _, interlacing = struct.unpack(">IIBBBBB", header)
    if color not in (_GRAY, _PALETTE) or depth not in (1, 2, 4, 8) or interlacing or not 0 < width * height < 1 << 62:
        rule = "must be a PNG of 1, 2, 4 or 8 bits per pixel, gray or with a palette, not interlaced"
        raise InputError(f"{location}: {rule}; got {width} x {height}, {depth} bits, color type {color}")
    size = height * (-(-width * depth // 8) + 1)
    refuse_bomb(location, size, len(content))
    try:
        data = zlib.decompressobj().decompress(b"".join(packed), size)
    except zlib.error as error:
        raise InputError(f"{location}: not a whole PNG image: {error}") from None
    if len(data) != size:
        raise InputError(f"{location}: not a whole PNG image: {len(data):,} of {size:,} bytes of pixels are there")
    return width, height, depth, data


def _unfiltered(kind: str, line: NDArray[np.uint8], above: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A line of bytes whose differences to others are stored; `above`: the line before it."""
    if kind == "none":
        return line
    if kind == "left":
        return np.add.accumulate(line, dtype=np.uint8)
    if kind == "up":
        return line + above
    left, corner, found = 0, 0, []
    for difference, up in zip(line.tolist(), above.tolist(), strict=True):
        left = (difference + ((left + up) // 2 if kind == "average" else _paeth(left, up, corner))) & 255
        corner = up
        found.append(left)
    return np.array(found, np.uint8)


def _paeth(left: int, up: int, corner: int) -> int:
    """Of three neighbours, the one that is nearest to left + up - corner; of equals the first."""
    guess = left + up - corner
    return min((left, up, corner), key=lambda neighbour: abs(guess - neighbour))
