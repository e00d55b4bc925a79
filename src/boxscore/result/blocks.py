"""Named arrays and a JSON header as bytes: one layout for tallies, saved results and the shapes of a metric.

    magic       "boxscore KIND 1" and a line feed; 1 is the version
    lengths     bytes of the header; bytes of columns and checksum (two uint64)
    header      JSON; `columns` has dtype and shape of each column by name
    columns     concatenated in the order of the header
    checksum    CRC-32 of header and columns (uint32)

All numbers are little-endian. Blocks may be concatenated, as the states of a metric are. They are not .npz files
because a zip can't be concatenated, and takes five times as long for a tally of few rows.
"""

import json
import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from boxscore._support.exceptions import InputError

UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, SyntaxError, TypeError, ValueError)
"""The exceptions of Python and NumPy for an invalid header, or columns that don't fit it."""
_PREFIX, _VERSION = b"boxscore ", 1
_LENGTHS = struct.Struct("<QQ")
_CHECKSUM = struct.Struct("<I")
Bytes = bytes | bytearray | memoryview


class Block(NamedTuple):
    """The content of one block, and the bytes after it."""

    header: dict[str, Any]
    columns: dict[str, Any]
    rest: memoryview


def magic(kind: str) -> bytes:
    """The first bytes of a block."""
    return _PREFIX + f"{kind} {_VERSION}\n".encode()


def header_of(columns: Mapping[str, Any], **more: Any) -> bytes:
    """Encode the header as JSON: dtype and shape of each column, and `more`."""
    described = {name: [array.dtype.newbyteorder("<").str, array.shape] for name, array in columns.items()}
    return json.dumps({"columns": described} | more).encode()


def checksum(header: bytes | memoryview, columns: Mapping[str, Any]) -> int:
    """CRC-32 of a header and the values of the columns."""
    total = zlib.crc32(header)
    for column in columns.values():
        total = zlib.crc32(_stored(column), total)
    return total


def pieces(kind: str, header: bytes, columns: Mapping[str, Any]) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a block; `header`: as `header_of` makes it for these columns."""
    yield magic(kind)
    yield _LENGTHS.pack(len(header), sum(array.nbytes for array in columns.values()) + _CHECKSUM.size)
    yield header
    yield from map(_stored, columns.values())
    yield _CHECKSUM.pack(checksum(header, columns))


def _stored(array: Any) -> memoryview:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).data


def read_block(path: str | PathLike[str], kind: str) -> bytes:
    """Read a file of blocks. If it doesn't begin like one, only its first bytes are read."""
    try:
        with Path(path).open("rb") as file:
            first = file.read(len(_PREFIX))
            if first != _PREFIX:
                raise InputError(f"not a boxscore {kind}, or one of another version", place=path)
            return first + file.read()
    except OSError as error:
        raise InputError(f"can't be read: {error.strerror}", place=path) from None


def split(kind: str, content: Bytes, source: str, max_header: int = 1 << 30) -> Block:
    """Read the first of several concatenated blocks.

    Args:
        kind: The kind that it must have, such as "tally".
        content: The bytes of one or more blocks.
        source: The beginning of error messages, such as the name of a file.
        max_header: A header of more bytes is an `InputError`; JSON takes ten times as much memory.
    """
    view, first = memoryview(content), magic(kind)
    start = len(first) + _LENGTHS.size
    if bytes(view[: len(first)]) != first:
        raise InputError(f"not a boxscore {kind}, or one of another version", place=source)
    if len(view) < start:
        raise InputError(f"the {kind} is truncated: got {len(view):,} bytes", place=source)
    header_size, rest_size = _LENGTHS.unpack(view[len(first) : start])
    end = start + header_size + rest_size
    if len(view) < end or rest_size < _CHECKSUM.size:
        raise InputError(f"the {kind} is truncated: got {len(view):,} of {end:,} bytes", place=source)
    if header_size > max_header:
        raise InputError(f"the header has {header_size:,} bytes; at most {max_header:,} are read", place=source)
    header, data = view[start : start + header_size], view[start + header_size : end - _CHECKSUM.size]
    if zlib.crc32(data, zlib.crc32(header)) != _CHECKSUM.unpack(view[end - _CHECKSUM.size : end])[0]:
        raise InputError(f"the checksum of the {kind} does not match: its bytes have changed", place=source)
    try:
        described = json.loads(bytes(header))
        return Block(described, _cut(described["columns"], data), view[end:])
    except UNREADABLE as error:
        raise InputError(f"the {kind} is invalid: {error}", place=source) from None


def check_end(kind: str, block: Block, source: str) -> None:
    """Raise `InputError` if bytes follow the block."""
    if len(block.rest):
        raise InputError(f"{len(block.rest):,} bytes after the end of the {kind}", place=source)


def _cut(described: Mapping[str, Any], data: memoryview) -> dict[str, Any]:
    """Split the data into its concatenated columns."""
    columns: dict[str, Any] = {}
    offset = 0
    for name, (dtype_name, lengths) in described.items():
        dtype, shape = np.dtype(dtype_name), tuple(lengths)
        if not all(type(length) is int and length >= 0 for length in shape):
            raise ValueError(f"`{name}` has an invalid shape")
        size = dtype.itemsize * math.prod(shape)
        array = np.frombuffer(data[offset : offset + size], dtype).reshape(shape)
        columns[name] = array.astype(dtype.newbyteorder("="))  # a copy: one column must not keep all of them alive
        offset += size
    if offset != len(data):
        raise ValueError(f"columns must have {len(data):,} bytes; got {offset:,}")
    return columns
