"""A tally as bytes, for files, queues and other processes:

    magic       "boxscore tally 1" and a line feed; 1 is the version
    lengths     bytes of the header; bytes of columns and checksum (two uint64)
    header      JSON: protocol, dtype and shape of each column, class names
    columns     concatenated in the order of `COLUMNS`, then those of `EXTRAS` that the tally has
    checksum    CRC-32 of header and columns (uint32)

All numbers are little-endian.
"""

import json
import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.writing import write_file
from boxscore.arrays import compact
from boxscore.protocol.protocol import Protocol
from boxscore.result.tally import EXTRAS, HITS, JACCARD_SCORES, ROWS, TRUTHS, Tally, num_words, state_dtype

MAGIC = b"boxscore tally 1\n"
"""The first bytes of a stored tally."""
_LENGTHS = struct.Struct("<QQ")
_CHECKSUM = struct.Struct("<I")
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, SyntaxError, TypeError, ValueError)
"""What Python and NumPy raise for an invalid header, or columns that don't fit it."""
COLUMNS = (*ROWS, *HITS, "classes", *TRUTHS)
"""The columns that every tally has, in the order in which they are stored."""


def to_bytes(tally: Tally) -> bytes:
    """The tally in one piece; `from_bytes` gives it back, bit for bit."""
    return b"".join(_pieces(tally))


def save(tally: Tally, path: str | PathLike[str]) -> None:
    """The tally is in the file, or, after an error, what was there before."""
    write_file(Path(path), _pieces(tally))


def load(path: str | PathLike[str]) -> Tally:
    """The tally in a file that `save` made; `InputError` with the name of any other, or truncated, file."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror}") from None
    return from_bytes(content, str(path))


def columns_of(tally: Tally) -> dict[str, Any]:
    """All columns that the tally has, in the order in which they are stored."""
    columns = {name: getattr(tally, name) for name in (*COLUMNS, *EXTRAS)}
    return {name: column for name, column in columns.items() if column is not None}


def _names(described: Mapping[str, Any]) -> list[str]:
    """The names of the columns that a header describes, in the order in which they are stored."""
    return [*COLUMNS, *(name for name in EXTRAS if name in described)]


def header_of(tally: Tally) -> bytes:
    """All but the values of the columns, in JSON."""
    columns = columns_of(tally)
    return json.dumps(
        {
            "protocol": _protocol_json(tally.protocol),
            "columns": {name: [array.dtype.newbyteorder("<").str, array.shape] for name, array in columns.items()},
            "class_names": None if tally.class_names is None else list(tally.class_names.items()),
            "class_groups": None if tally.class_groups is None else list(tally.class_groups.items()),
            "iou_dtype": tally.iou_dtype,
        }
    ).encode()


def checksum(header: bytes | memoryview, columns: Mapping[str, Any]) -> int:
    """Of a header and the values of the columns."""
    total = zlib.crc32(header)
    for name in _names(columns):
        total = zlib.crc32(_stored(columns[name]), total)
    return total


def from_columns(header: bytes | memoryview, columns: Mapping[str, Any]) -> Tally:
    """The tally of a header and its columns; one of `UNREADABLE` if they don't fit."""
    return _from_described(json.loads(bytes(header)), columns)


def _from_described(described: Mapping[str, Any], columns: Mapping[str, Any]) -> Tally:
    protocol = _protocol_of(described["protocol"])
    typed = {}
    for name in _names(described["columns"]):
        dtype, shape = described["columns"][name]
        if list(columns[name].shape) != list(shape):
            raise ValueError(f"`{name}` must have shape {tuple(shape)}; got {columns[name].shape}")
        typed[name] = columns[name].astype(np.dtype(dtype).newbyteorder("="), copy=False)
    _check(typed, protocol)
    _check_values(typed, protocol)
    names, groups = described["class_names"], described.get("class_groups")
    if described["iou_dtype"] not in ("float32", "float64"):
        raise ValueError(f"`iou_dtype` must be float32 or float64; got {described['iou_dtype']!r}")
    return Tally(
        protocol=protocol,
        **typed,
        class_names=None if names is None else {int(label): str(name) for label, name in names},
        class_groups=None if groups is None else {int(label): str(name) for label, name in groups},
        iou_dtype=str(described["iou_dtype"]),
    )


def _pieces(tally: Tally) -> Iterator[bytes | memoryview]:
    columns = columns_of(tally)
    header = header_of(tally)
    yield MAGIC
    yield _LENGTHS.pack(len(header), sum(array.nbytes for array in columns.values()) + _CHECKSUM.size)
    yield header
    for array in columns.values():
        yield _stored(array)
    yield _CHECKSUM.pack(checksum(header, columns))


def _stored(array: Any) -> memoryview:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).data


def from_bytes(content: bytes | bytearray | memoryview, source: str = "these bytes") -> Tally:
    """The tally that `to_bytes` made the bytes of; for anything else `InputError`, which begins with `source`."""
    tally, rest = split_bytes(content, source)
    if len(rest):
        raise InputError(f"{source}: {len(rest):,} bytes after the end of the tally")
    return tally


def split_bytes(content: bytes | bytearray | memoryview, source: str = "these bytes") -> tuple[Tally, memoryview]:
    """The first of several concatenated tallies, and the bytes of the others."""
    view = memoryview(content)
    start = len(MAGIC) + _LENGTHS.size
    if bytes(view[: len(MAGIC)]) != MAGIC:
        raise InputError(f"{source}: not a boxscore tally, or one of another version")
    if len(view) < start:
        raise InputError(f"{source}: the tally is truncated: got {len(view):,} bytes")
    header_size, rest_size = _LENGTHS.unpack(view[len(MAGIC) : start])
    end = start + header_size + rest_size
    if len(view) < end or rest_size < _CHECKSUM.size:
        raise InputError(f"{source}: the tally is truncated: got {len(view):,} of {end:,} bytes")
    header, data = view[start : start + header_size], view[start + header_size : end - _CHECKSUM.size]
    if zlib.crc32(data, zlib.crc32(header)) != _CHECKSUM.unpack(view[end - _CHECKSUM.size : end])[0]:
        raise InputError(f"{source}: the checksum of the tally does not match: its bytes have changed")
    try:
        described = json.loads(bytes(header))
        return _from_described(described, _cut(described["columns"], data)), view[end:]
    except UNREADABLE as error:
        raise InputError(f"{source}: the tally is invalid: {error}") from None


@lru_cache(maxsize=32)
def _protocol_json(protocol: Protocol) -> str:
    """The protocol as JSON, cached for the many tallies of one metric."""
    return json.dumps(protocol.to_dict())


@lru_cache(maxsize=32)
def _protocol_of(content: str) -> Protocol:
    return Protocol(**json.loads(content))


def _cut(described: Mapping[str, Any], data: memoryview) -> dict[str, Any]:
    """The columns, which are concatenated in the data."""
    columns: dict[str, Any] = {}
    offset = 0
    for name in _names(described):
        dtype, shape = np.dtype(described[name][0]), tuple(described[name][1])
        if not all(type(length) is int and length >= 0 for length in shape):
            raise ValueError(f"`{name}` has an invalid shape")
        size = dtype.itemsize * math.prod(shape)
        array = np.frombuffer(data[offset : offset + size], dtype).reshape(shape)
        columns[name] = array.astype(dtype.newbyteorder("="))  # a copy: one column must not keep all of them alive
        offset += size
    if offset != len(data):
        raise ValueError(f"columns must have {len(data):,} bytes; got {offset:,}")
    return columns


def _check(columns: dict[str, Any], protocol: Protocol) -> None:
    """Raise `ValueError` if the columns are not those of a tally."""
    num_rows, num_truths = columns["image"].size, columns["truth_image"].size
    num_hits = int((columns["state"] & columns["state"].dtype.type(1)).sum())
    shapes = dict.fromkeys(ROWS, (num_rows,)) | dict.fromkeys(HITS, (num_hits, num_words(protocol)))
    shapes |= dict.fromkeys(TRUTHS, (num_truths,)) | {
        "classes": columns["classes"].shape[:1],
        "similarity": (num_hits,),
    }
    expected = {
        "similarity": protocol.keeps_similarity,
        "listed_image": bool(protocol.extra_numbers),
        "jaccard": "ji" in protocol.extra_numbers,
    }
    for name, is_expected in expected.items():
        if is_expected != (name in columns):
            raise ValueError(f"`{name}` is {'missing' if is_expected else 'not expected'}: the protocol decides")
    if "invalid_image" in columns:
        shapes["invalid_image"] = columns["invalid_image"].shape[:1]
    if "listed_image" in columns:
        shapes["listed_image"] = columns["listed_image"].shape[:1]
        shapes["jaccard"] = (*shapes["listed_image"], len(JACCARD_SCORES), 3)
    kinds = {"score": "f", "tier": "u", "state": "u", "is_true": "u", "is_counted": "u", "truth_state": "u"}
    kinds["similarity"] = "f"
    widths = {
        "tier": (1,),
        "state": (1, 8),
        "truth_state": (1, 8),
        "is_true": (8,),
        "is_counted": (8,),
        "classes": (8,),
        "similarity": (8,),
        "listed_image": (8,),
        "jaccard": (4,),
        "invalid_image": (8,),
    }
    for name, array in columns.items():
        is_unexpected = array.dtype.kind != kinds.get(name, "i") or array.dtype.itemsize not in widths.get(name, (4, 8))
        if array.shape != shapes[name] or is_unexpected:
            raise ValueError(f"`{name}` has an unexpected shape or dtype")
    if columns["state"].dtype != state_dtype(protocol) or columns["truth_state"].dtype != state_dtype(protocol):
        raise ValueError("`state` has an unexpected dtype")


def _check_values(columns: dict[str, Any], protocol: Protocol) -> None:
    """Raise `ValueError` if columns of the right shapes have invalid values: compiled code trusts them."""
    classes, num_areas = columns["classes"], len(protocol.areas)
    if not (classes[1:] > classes[:-1]).all():
        raise ValueError("`classes` must be ascending")
    for name in ("label", "truth_label"):
        labels = _compiled.distinct(compact(columns[name]))
        if not np.isin(labels, classes).all():
            raise ValueError(f"`{name}` must be one of `classes`")
    if not np.isfinite(columns["score"]).all():
        raise ValueError("`score` must be finite")
    if int(columns["tier"].max(initial=0)) >= len(protocol.limits):
        raise ValueError(f"`tier` must be below {len(protocol.limits)}, the number of limits")
    for name, num_bits in (("state", num_areas + 1), ("truth_state", num_areas)):
        if int(columns[name].max(initial=0)) >> num_bits:
            raise ValueError(f"`{name}` must have {num_bits} bits")
    is_true, is_counted = columns["is_true"], columns["is_counted"]
    num_used = num_areas * len(protocol.thresholds) % 64  # bits of the last word; 0: all
    if (is_true & ~is_counted).any() or (num_used and (is_counted[:, -1] >> np.uint64(num_used)).any()):
        raise ValueError("`is_true` and `is_counted` must be verdicts")
