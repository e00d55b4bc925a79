"""Arrow tables to columns, and a tally as an Arrow table: for Spark, Dask, Ray and files that many tools read.

The table of a tally has one row per detection, then one row per truth:

| column | |
|---|---|
| `is_truth` | what the row is |
| `image`, `label` | integers |
| `score`, `tier` | of a detection; null for a truth |
| `state` | as in `Tally.state` and `Tally.truth_state` |
| `verdict` | of a hit: its words of `is_true`, then those of `is_counted`; else null |

Version, protocol, classes and a checksum are in the metadata of its schema, which IPC and Parquet files keep.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.checks import RowError
from boxscore._support.exceptions import InputError
from boxscore.geometry.boxes import BoxFormat
from boxscore.geometry.masks import Masks
from boxscore.model.dataset import ClassNames, Detections, Truths
from boxscore.model.tally import ROWS, Tally
from boxscore.scaling import storage

_KEY = b"boxscore tally"
_VERSION = 1


def pyarrow() -> Any:
    """The library; `InputError` if it is not installed."""
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError:
        raise InputError("Arrow tables need pyarrow: pip install 'boxscore[arrow]'") from None
    return pyarrow


def detections_of(table: Any, *, box_format: BoxFormat, iou_type: str = "bbox") -> Detections:
    """The rows of a table with the columns `image`, `label`, `score` and `box`, a list of 4, or `mask`.

    A mask is a struct of `size`, height and width, and `counts`, COCO's compressed run lengths.
    """
    shape, settings = _shape_of(iou_type, box_format)
    return Detections(**_columns(table, "image", "label", "score", shape), **settings)


def truths_of(
    table: Any, *, box_format: BoxFormat, iou_type: str = "bbox", class_names: ClassNames | None = None
) -> Truths:
    """The same for truths, which need no score and may have `ignore` and `area`."""
    shape, settings = _shape_of(iou_type, box_format)
    columns: dict[str, Any] = _columns(table, "image", "label", shape, optional=("ignore", "area"))
    return Truths(**columns, **settings, class_names=class_names)


def _shape_of(iou_type: str, box_format: BoxFormat) -> tuple[str, dict[str, Any]]:
    """The column of the shapes of a similarity, and what goes with it."""
    return ("mask", {}) if iou_type in Masks.iou_types else ("box", {"box_format": box_format})


def _columns(table: Any, *names: str, optional: Sequence[str] = ()) -> dict[str, Any]:
    if not isinstance(table, pyarrow().Table):
        raise InputError(f"must be boxscore columns or a pyarrow.Table; got {type(table).__name__}")
    if any(name not in table.column_names for name in names):
        got = ", ".join(table.column_names) or "none"
        raise InputError(f"must have the columns {', '.join(names)}; got {got}")
    for name in (*names, *optional):
        if table.column_names.count(name) > 1:
            raise InputError(f"must have each column once; got `{name}` more than once")
    return {
        name: masks_of(table.column(name), name) if name == "mask" else to_numpy(table.column(name), name)
        for name in (*names, *optional)
        if name in table.column_names
    }


def masks_of(column: Any, name: str = "mask") -> Masks:
    """The masks of a column of structs: `size`, a list of height and width, and `counts`, text or bytes.

    The run lengths are taken as they are in memory, without an object per mask.
    """
    arrow = pyarrow()
    kind = column.type
    if not arrow.types.is_struct(kind) or {kind.field(i).name for i in range(kind.num_fields)} < {"size", "counts"}:
        raise InputError(f"`{name}` must be a struct of `size` and `counts`; got {kind}")
    parts, first = [], 0
    for chunk in column.chunks if isinstance(column, arrow.ChunkedArray) else [column]:
        size, counts = chunk.field("size"), chunk.field("counts")
        for each in (chunk, size, counts):
            if each.null_count:
                raise RowError(name, first + int(np.argmax(each.is_null().to_numpy(False))), "must not be null")
        try:
            counts = counts.cast(arrow.large_binary())
            sides = _twos(size, name, first)
        except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError):
            rule = "must have `size` as a list of integers, and `counts` as text or bytes"
            raise InputError(f"`{name}` {rule}; got {kind}") from None
        _, offsets, data = counts.buffers()
        start = np.frombuffer(offsets, np.int64)[counts.offset : counts.offset + len(counts) + 1]
        text = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        try:
            parts.append(Masks.from_arrays(text[start[0] : start[-1]], start - start[0], sides))
        except RowError as error:
            raise RowError(name, first + error.row, error.rule) from None
        first += len(chunk)
    return Masks.concatenate(parts) if parts else Masks.from_rle([])


def _twos(column: Any, name: str, first: int) -> NDArray[np.int64]:
    """Lists of two integers. Shape (R, 2)."""
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    if (lengths != 2).any():
        raise RowError(
            name, first + int(np.argmax(lengths != 2)), "must have a `size` of two numbers, height and width"
        )
    return np.asarray(column.flatten().cast(pyarrow().int64()).to_numpy(zero_copy_only=False)).reshape(-1, 2)


def column_of(masks: Masks) -> Any:
    """The masks as a column of structs, which `masks_of` reads."""
    arrow, runs = pyarrow(), masks.runs
    buffers = [None, arrow.py_buffer(runs.start.tobytes()), arrow.py_buffer(runs.counts.tobytes())]
    counts = arrow.Array.from_buffers(arrow.large_binary(), len(masks), buffers)
    sizes = arrow.FixedSizeListArray.from_arrays(runs.sizes.astype(np.int64).ravel(), 2)
    return arrow.StructArray.from_arrays([sizes, counts], ["size", "counts"])


def to_numpy(column: Any, name: str) -> NDArray[Any]:
    """A column of numbers, or of lists or tensors of 4 numbers: shape (R,) or (R, 4)."""
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise RowError(name, row, "must not be null")
    if isinstance(column.type, pyarrow().BaseExtensionType):  # a tensor of shape (4,), say: lists with a name
        column = pyarrow().chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    values: NDArray[Any] = fours(column, name) if is_list(column.type) else column.to_numpy()
    if values.dtype == object:
        raise InputError(f"`{name}` must hold numbers; got {column.type}")
    return values


def is_list(kind: Any) -> bool:
    """Whether a type is one of lists."""
    types = pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def fours(column: Any, name: str) -> NDArray[Any]:
    """A column of lists without nulls, each of 4 numbers. Shape (R, 4)."""
    chunks = [np.zeros((0, 4))]
    row = 0
    for chunk in column.chunks:
        lengths = chunk.value_lengths().to_numpy(zero_copy_only=False)
        if (lengths != 4).any():
            index = int(np.argmax(lengths != 4))
            raise RowError(name, row + index, f"must have 4 numbers; got {lengths[index]}")
        chunks.append(chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, 4))
        row += len(chunk)
    return np.concatenate(chunks[1:] or chunks)


def to_arrow(tally: Tally) -> Any:
    """The tally as a table; `from_arrow` gives it back, bit for bit."""
    header = storage.header_of(tally)
    total = storage.checksum(header, {name: getattr(tally, name) for name in storage.COLUMNS})
    described = {"version": _VERSION, "checksum": total, "tally": header.decode(), "classes": tally.classes.tolist()}
    return verdict_table(tally).replace_schema_metadata({_KEY: json.dumps(described).encode()})


def from_arrow(table: Any, source: str = "this table") -> Tally:
    """The tally of a table; for anything else `InputError`, which begins with `source`."""
    arrow = pyarrow()
    if not isinstance(table, arrow.Table):
        raise InputError(f"{source}: must be a pyarrow.Table; got {type(table).__name__}")
    try:
        described = json.loads((table.schema.metadata or {})[_KEY])
        if described["version"] != _VERSION:
            raise InputError(f"{source}: must be a tally of version {_VERSION}; got version {described['version']}")
        header = described["tally"].encode()
        num_words = int(json.loads(header)["columns"]["is_true"][1][1])
        columns = rows_of(table, num_words) | {"classes": np.array(described["classes"], np.int64)}
        tally = storage.from_columns(header, columns)
    except InputError:
        raise
    except KeyError:
        raise InputError(f"{source}: not a boxscore tally, or one with missing columns") from None
    except (*storage.UNREADABLE, arrow.ArrowException) as error:
        raise InputError(f"{source}: the tally is invalid: {error}") from None
    if storage.checksum(header, {name: getattr(tally, name) for name in storage.COLUMNS}) != described["checksum"]:
        raise InputError(f"{source}: the checksum of the tally does not match: its rows have changed")
    return tally


def verdict_table(tally: Tally) -> Any:
    """The rows of a tally, without metadata."""
    arrow = pyarrow()
    num_truths = tally.truth_image.size
    is_truth = np.repeat([False, True], [len(tally), num_truths])
    is_hit = np.concatenate([tally.is_hit, np.zeros(num_truths, bool)])
    words = np.ascontiguousarray(np.concatenate([tally.is_true, tally.is_counted], axis=1), "<u8")
    end = np.concatenate([[0], np.cumsum(is_hit)]) * (words.shape[1] * words.itemsize)
    buffers = [np.packbits(is_hit, bitorder="little"), end.astype(np.int64), words]
    verdict = arrow.LargeBinaryArray.from_buffers(
        arrow.large_binary(), is_hit.size, [arrow.py_buffer(buffer) for buffer in buffers]
    )
    of_detections = {
        name: arrow.array(np.concatenate([column, np.zeros(num_truths, column.dtype)]), mask=is_truth)
        for name, column in (("score", tally.score), ("tier", tally.tier))
    }
    return arrow.table(
        {
            "is_truth": is_truth,
            "image": np.concatenate([tally.image, tally.truth_image]),
            "label": np.concatenate([tally.label, tally.truth_label]),
            **of_detections,
            "state": np.concatenate([tally.state, tally.truth_state]),
            "verdict": verdict,
        }
    )


def rows_of(table: Any, num_words: int) -> dict[str, NDArray[Any]]:
    """The columns of a tally but for its classes, from the rows of a `verdict_table` in any order.

    Detections, and truths, stay in the order in which they are.
    """
    is_truth = table.column("is_truth")
    detections, truths = table.filter(pyarrow().compute.invert(is_truth)), table.filter(is_truth)
    columns = {name: detections.column(name).to_numpy() for name in ROWS}
    columns |= {f"truth_{name}": truths.column(name).to_numpy() for name in ("image", "label", "state")}
    words = _words(detections.column("verdict").combine_chunks(), num_words)
    is_true, is_counted = np.split(words.astype(np.uint64, copy=False), 2, axis=1)
    return columns | {"is_true": np.ascontiguousarray(is_true), "is_counted": np.ascontiguousarray(is_counted)}


def _words(verdict: Any, num_words: int) -> NDArray[np.uint64]:
    """The verdicts of the hits. Shape (H, 2 W)."""
    hits = verdict.drop_null()
    if not len(hits):
        return np.zeros((0, 2 * num_words), np.uint64)
    _, offsets, data = hits.buffers()
    end = np.frombuffer(offsets, np.int64)[hits.offset : hits.offset + len(hits) + 1]
    return np.frombuffer(data, np.uint8)[end[0] : end[-1]].view("<u8").reshape(-1, 2 * num_words)
