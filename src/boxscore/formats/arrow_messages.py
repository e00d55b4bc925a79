"""Compute the uncompressed size of an Arrow IPC stream from the headers of its messages, without decompressing it.

A message is a header, a FlatBuffers table, and a body. Each buffer of a compressed record batch begins with its
uncompressed size:

    Message      version 0 | kind of header 1 | header 2 | body length 3
    RecordBatch  length 0 | nodes 1 | buffers 2 (offset, length in the body) | compression 3
    Dictionary   id 0 | record batch 1
"""

import struct
from typing import Any

_DICTIONARY = 2
_INT32, _UINT16, _INT64 = struct.Struct("<i"), struct.Struct("<H"), struct.Struct("<q")


class _Fields:
    """A FlatBuffers table in a buffer."""

    def __init__(self, data: bytes, start: int) -> None:
        self.data, self.start = data, start
        self._fields = start - _INT32.unpack_from(data, start)[0]

    def find(self, number: int) -> int | None:
        """The offset of a field; None if the field has its default value."""
        entry = 4 + 2 * number
        if self._fields < 0 or entry + 2 > _UINT16.unpack_from(self.data, self._fields)[0]:
            return None
        offset = _UINT16.unpack_from(self.data, self._fields + entry)[0]
        return self.start + offset if offset else None

    def table(self, number: int) -> "_Fields | None":
        """The table that a field refers to, or None."""
        offset = self.find(number)
        return None if offset is None else _Fields(self.data, offset + _INT32.unpack_from(self.data, offset)[0])


def unpacked_size(content: bytes, start: int) -> int:
    """Number of uncompressed bytes of all compressed batches and dictionaries.

    `start`: the offset of the first message. An invalid file counts up to the first error.
    """
    import pyarrow

    total = 0
    try:
        for message in pyarrow.ipc.MessageReader.open_stream(pyarrow.py_buffer(content).slice(start)):
            if message.type in ("record batch", "dictionary") and message.body is not None:
                total += _size_of(message.metadata.to_pybytes(), message.body)
    except (pyarrow.ArrowException, OSError):  # reading the file will report the error
        return total
    return total


def _size_of(header: bytes, body: Any) -> int:
    """Number of uncompressed bytes of a message; 0 if it is uncompressed or invalid."""
    try:
        batch = _Fields(header, _INT32.unpack_from(header)[0]).table(2)
        kind = _Fields(header, _INT32.unpack_from(header)[0]).find(1)
        if batch is not None and kind is not None and header[kind] == _DICTIONARY:
            batch = batch.table(1)
        if batch is None or batch.find(3) is None or (start := batch.find(2)) is None:
            return 0
        start += _INT32.unpack_from(header, start)[0]
        num = _INT32.unpack_from(header, start)[0]
        buffers = [struct.unpack_from("<qq", header, start + 4 + 16 * index) for index in range(num)]
        sizes = [_INT64.unpack_from(body, offset)[0] for offset, length in buffers if length >= 8 and offset >= 0]
    except (struct.error, IndexError):  # an invalid header; pyarrow will report the error
        return 0
    return sum(size for size in sizes if size > 0)
