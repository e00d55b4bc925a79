"""A tally as bytes, for files, queues and other processes: a block of its columns, validated when read."""

import json
from collections.abc import Mapping
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
from boxscore.result import blocks
from boxscore.result.blocks import UNREADABLE, Bytes
from boxscore.result.tally import EXTRAS, HITS, JACCARD_SCORES, ROWS, TRUTHS, Tally, num_words, state_dtype

KIND = "tally"
COLUMNS = (*ROWS, *HITS, "classes", *TRUTHS)
"""The columns that every tally has, in the order in which they are stored."""


def to_bytes(tally: Tally) -> bytes:
    """Encode the tally as bytes; `from_bytes` restores it, bit for bit."""
    return b"".join(blocks.pieces(KIND, header_of(tally), columns_of(tally)))


def save(tally: Tally, path: str | PathLike[str]) -> None:
    """Write the tally to a file. After an error, the path is unchanged."""
    write_file(Path(path), blocks.pieces(KIND, header_of(tally), columns_of(tally)))


def load(path: str | PathLike[str]) -> Tally:
    """Read a file of `save`. Raise `InputError`, which names the file, for any other or truncated file."""
    return from_bytes(blocks.read_block(path, KIND), str(path))


def from_bytes(content: Bytes, source: str = "these bytes") -> Tally:
    """Decode the bytes of `to_bytes`. Raise `InputError`, which begins with `source`, for any other bytes."""
    block = blocks.split(KIND, content, source)
    blocks.check_end(KIND, block, source)
    return checked_tally(block.header, block.columns, source)


def split_bytes(content: Bytes, source: str = "these bytes") -> tuple[Tally, memoryview]:
    """Decode the first of several concatenated tallies, and return the bytes of the others."""
    block = blocks.split(KIND, content, source)
    return checked_tally(block.header, block.columns, source), block.rest


def checked_tally(header: Mapping[str, Any], columns: Mapping[str, Any], source: str) -> Tally:
    """Build the tally of a block. Raise `InputError` if its content is invalid."""
    try:
        return from_columns(header, columns)
    except UNREADABLE as error:
        raise InputError(f"the tally is invalid: {error}", place=source) from None


def columns_of(tally: Tally) -> dict[str, Any]:
    """All columns of the tally that are not None, in the order in which they are stored."""
    columns = {name: getattr(tally, name) for name in (*COLUMNS, *EXTRAS)}
    return {name: column for name, column in columns.items() if column is not None}


def header_of(tally: Tally, **more: Any) -> bytes:
    """The header of the tally's block: everything but the values of columns. `more`: further entries."""
    return blocks.header_of(
        columns_of(tally),
        protocol=_protocol_json(tally.protocol),
        class_names=None if tally.class_names is None else list(tally.class_names.items()),
        class_groups=None if tally.class_groups is None else list(tally.class_groups.items()),
        iou_dtype=tally.iou_dtype,
        **more,
    )


def from_columns(header: Mapping[str, Any], columns: Mapping[str, Any]) -> Tally:
    """Build the tally from a header and columns. Raise one of `UNREADABLE` if they don't fit together."""
    protocol = _protocol_of(header["protocol"])
    typed = {}
    for name, (dtype, shape) in header["columns"].items():
        if list(columns[name].shape) != list(shape):
            raise ValueError(f"`{name}` must have shape {tuple(shape)}; got {columns[name].shape}")
        typed[name] = columns[name].astype(np.dtype(dtype).newbyteorder("="), copy=False)
    _check(typed, protocol)
    _check_values(typed, protocol)
    names, groups = header["class_names"], header.get("class_groups")
    if header["iou_dtype"] not in ("float32", "float64"):
        raise ValueError(f"`iou_dtype` must be float32 or float64; got {header['iou_dtype']!r}")
    return Tally(
        protocol=protocol,
        **typed,
        class_names=None if names is None else {int(label): str(name) for label, name in names},
        class_groups=None if groups is None else {int(label): str(name) for label, name in groups},
        iou_dtype=str(header["iou_dtype"]),
    )


@lru_cache(maxsize=32)
def _protocol_json(protocol: Protocol) -> str:
    """The protocol as JSON, cached for the many tallies of one metric."""
    return json.dumps(protocol.to_dict())


@lru_cache(maxsize=32)
def _protocol_of(content: str) -> Protocol:
    return Protocol(**json.loads(content))


def _check(columns: dict[str, Any], protocol: Protocol) -> None:
    """Raise `ValueError` if columns of a tally are missing or unknown, or have other shapes or dtypes."""
    if missing := {*COLUMNS} - columns.keys():
        raise ValueError(f"`{min(missing)}` is missing")
    if unknown := columns.keys() - {*COLUMNS, *EXTRAS}:
        raise ValueError(f"`{min(unknown)}` is not a column of a tally")
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
