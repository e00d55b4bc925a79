"""A tally as bytes, for files, queues and other processes: a mark, a header in JSON, columns and a checksum."""

import json
import struct
import zlib
from functools import lru_cache
from typing import Any

import numpy as np

from boxscore.errors import InputError
from boxscore.protocol import Protocol
from boxscore.tally import HITS, ROWS, TRUTHS, Tally, state_dtype

_MARK = b"boxscore tally 1\n"
_LENGTHS = struct.Struct("<QQ")
"""Of the header and of all that follows it, checksum included."""
_CHECKSUM = struct.Struct("<I")
_COLUMNS = (*ROWS, *HITS, "classes", *TRUTHS)


def to_bytes(tally: Tally) -> bytes:
    """The tally in one piece; `from_bytes` gives it back, bit for bit."""
    arrays = {name: np.ascontiguousarray(getattr(tally, name)) for name in _COLUMNS}
    header = json.dumps(
        {
            "protocol": _text_of(tally.protocol),
            "columns": {name: [array.dtype.newbyteorder("<").str, array.shape] for name, array in arrays.items()},
            "class_names": None if tally.class_names is None else list(tally.class_names.items()),
            "iou_dtype": tally.iou_dtype,
        }
    ).encode()
    data = b"".join(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes() for array in arrays.values())
    lengths = _LENGTHS.pack(len(header), len(data) + _CHECKSUM.size)
    return b"".join([_MARK, lengths, header, data, _CHECKSUM.pack(zlib.crc32(data, zlib.crc32(header)))])


def from_bytes(content: bytes | bytearray | memoryview, source: str = "these bytes") -> Tally:
    """The tally that `to_bytes` made the bytes of; anything else is refused, in the name of `source`."""
    tally, rest = split_bytes(content, source)
    if len(rest):
        raise InputError(f"{source}: {len(rest):,} bytes after the end of the tally")
    return tally


def split_bytes(content: bytes | bytearray | memoryview, source: str = "these bytes") -> tuple[Tally, memoryview]:
    """The first of some tallies that stand one after the other, and the bytes of the others."""
    view = memoryview(content)
    start = len(_MARK) + _LENGTHS.size
    if bytes(view[: len(_MARK)]) != _MARK:
        raise InputError(f"{source}: not a tally of boxscore, or of another version")
    if len(view) < start:
        raise InputError(f"{source}: a tally that ends too early, after {len(view):,} bytes")
    header_size, rest_size = _LENGTHS.unpack(view[len(_MARK) : start])
    end = start + header_size + rest_size
    if len(view) < end or rest_size < _CHECKSUM.size:
        raise InputError(f"{source}: a tally that ends too early, after {len(view):,} of {end:,} bytes")
    header, data = view[start : start + header_size], view[start + header_size : end - _CHECKSUM.size]
    if zlib.crc32(data, zlib.crc32(header)) != _CHECKSUM.unpack(view[end - _CHECKSUM.size : end])[0]:
        raise InputError(f"{source}: a tally whose checksum does not fit; its bytes have changed")
    try:
        return _decode(json.loads(bytes(header)), data), view[end:]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{source}: a tally that can't be read: {error}") from None


@lru_cache(maxsize=32)
def _text_of(protocol: Protocol) -> str:
    """The protocol as JSON, made once for the many tallies of one metric."""
    return json.dumps(protocol.to_dict())


@lru_cache(maxsize=32)
def _protocol_of(content: str) -> Protocol:
    return Protocol(**json.loads(content))


def _decode(header: dict[str, Any], data: memoryview) -> Tally:
    protocol = _protocol_of(header["protocol"])
    columns: dict[str, Any] = {}
    offset = 0
    for name in _COLUMNS:
        dtype, shape = np.dtype(header["columns"][name][0]), tuple(header["columns"][name][1])
        size = dtype.itemsize * int(np.prod(shape))
        array = np.frombuffer(data[offset : offset + size], dtype).reshape(shape)
        columns[name] = array.astype(dtype.newbyteorder("="), copy=False)
        offset += size
    _check(columns, protocol, len(data) - offset)
    names = header["class_names"]
    return Tally(
        protocol=protocol,
        **columns,
        class_names=None if names is None else {int(label): str(name) for label, name in names},
        iou_dtype=str(header["iou_dtype"]),
    )


def _check(columns: dict[str, Any], protocol: Protocol, num_left: int) -> None:
    """Raise `ValueError` if the columns are not those of a tally."""
    num_rows, num_truths = columns["image"].size, columns["truth_image"].size
    num_hits = int((columns["state"] & columns["state"].dtype.type(1)).sum())
    num_words = -(-len(protocol.areas) * len(protocol.thresholds) // 64)
    shapes = dict.fromkeys(ROWS, (num_rows,)) | dict.fromkeys(HITS, (num_hits, num_words))
    shapes |= dict.fromkeys(TRUTHS, (num_truths,)) | {"classes": columns["classes"].shape[:1]}
    kinds = {"score": "f", "tier": "u", "state": "u", "is_true": "u", "is_counted": "u", "truth_state": "u"}
    for name, array in columns.items():
        if array.shape != shapes[name] or array.dtype.kind != kinds.get(name, "i"):
            raise ValueError(f"`{name}` has an unexpected shape or dtype")
    if columns["state"].dtype != state_dtype(protocol) or columns["truth_state"].dtype != state_dtype(protocol):
        raise ValueError("`state` has an unexpected dtype")
    if num_left:
        raise ValueError("columns that don't fill it")
