"""Arrow tables to columns, and a tally as an Arrow table: for Spark, Dask, Ray and files that many tools read.

The table of a tally has one row per detection, then one row per truth:

| column | |
|---|---|
| `is_truth` | what the row is |
| `image`, `label` | integers |
| `score`, `tier` | of a detection; null for a truth |
| `state` | as in `Tally.state` and `Tally.truth_state` |
| `verdict` | of a hit: its words of `is_true`, then those of `is_counted`; else null |

Version, protocol, classes, a checksum and, where extra numbers are measured, the columns of `Tally` for these are in
the metadata of its schema, which IPC and Parquet files keep.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.data.dataset import ClassNames, Detections, Truths
from boxscore.data.geometry.box_formats import BoxFormat, row_size
from boxscore.data.geometry.boxes import to_xywh
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.data.geometry.masks import Masks
from boxscore.data.validation import RowError
from boxscore.protocol.keypoint_rules import NUM_WHOLEBODY
from boxscore.result import blocks, storage
from boxscore.result.tally import EXTRAS, ROWS, Tally

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

    Oriented boxes have lists of 5 or 8 numbers, as `box_format` says.

    A mask is a struct of `size`, height and width, and `counts`, COCO's compressed run lengths. Keypoints are a column
    `keypoints` of lists x, y, score, x, y, score, …; if there is also a `box`, its area is that of the detection.
    """
    if iou_type in Keypoints.iou_types:
        columns = _columns(table, "image", "label", "score", "keypoints", box_format=box_format, optional=_WITH_POSES)
        box = columns.pop("box", None)
        if box is not None and "area" not in columns:
            _, _, width, height = to_xywh(box.astype(np.float64), box_format)
            columns["area"] = width * height
        return Detections(**columns)
    shape, settings = _shape_of(iou_type, box_format)
    return Detections(**_columns(table, "image", "label", "score", shape, box_format=box_format), **settings)


def truths_of(
    table: Any, *, box_format: BoxFormat, iou_type: str = "bbox", class_names: ClassNames | None = None
) -> Truths:
    """The same for truths, which need no score and may have `ignore` and `area`; with keypoints also `box` and
    `num_keypoints`.
    """
    if iou_type in Keypoints.iou_types:
        return _posed_truths(table, box_format, class_names)
    shape, settings = _shape_of(iou_type, box_format)
    names = ("image", "label", shape)
    columns = _columns(table, *names, box_format=box_format, optional=("ignore", "area"))
    return Truths(**columns, **settings, class_names=class_names)


_WITH_POSES = ("area", "box")
"""Columns that may be beside keypoints."""


def _posed_truths(table: Any, box_format: BoxFormat, class_names: ClassNames | None) -> Truths:
    more = ("ignore", "num_keypoints", *_WITH_POSES)
    columns = _columns(table, "image", "label", "keypoints", box_format=box_format, optional=more)
    points, box, num = (columns.pop(name, None) for name in ("keypoints", "box", "num_keypoints"))
    boxes: dict[str, Any] = {} if box is None else {"box": box.astype(np.float64), "box_format": box_format}
    keypoints = Keypoints.of_truths(points, area=columns.get("area"), **boxes)
    if num is not None and keypoints.num_points != NUM_WHOLEBODY:
        keypoints = replace(keypoints, num_labelled=num.astype(np.float64))
    return Truths(**columns, keypoints=keypoints, class_names=class_names)


def _shape_of(iou_type: str, box_format: BoxFormat) -> tuple[str, dict[str, Any]]:
    """The column of the shapes of a similarity, and what goes with it."""
    return ("mask", {}) if iou_type in Masks.iou_types else ("box", {"box_format": box_format})


def _columns(table: Any, *names: str, box_format: BoxFormat, optional: Sequence[str] = ()) -> dict[str, Any]:
    if not isinstance(table, pyarrow().Table):
        raise InputError(f"must be boxscore columns or a pyarrow.Table; got {type(table).__name__}")
    if any(name not in table.column_names for name in names):
        got = ", ".join(table.column_names) or "none"
        raise InputError(f"must have the columns {', '.join(names)}; got {got}")
    for name in (*names, *optional):
        if table.column_names.count(name) > 1:
            raise InputError(f"must have each column once; got `{name}` more than once")
    size = row_size(box_format)

    def read(name: str) -> Any:
        column = table.column(name)
        if name == "keypoints":
            return keypoints_of(column)
        return masks_of(column, name) if name == "mask" else to_numpy(column, name, size)

    return {name: read(name) for name in (*names, *optional) if name in table.column_names}


def keypoints_of(column: Any, name: str = "keypoints") -> NDArray[np.float64]:
    """A column of lists or tensors of three numbers for each point, as many points in each. Shape (N, K, 3)."""
    arrow = pyarrow()
    if arrow.types.is_string(column.type) or arrow.types.is_large_string(column.type):  # as CSV has them: JSON
        column = arrow.chunked_array([arrow.array(_parsed(column, name), arrow.list_(arrow.float64()))])
    plain = _without_extension(column, name)
    if not is_list(plain.type):
        raise InputError(f"`{name}` must be lists of numbers x, y, v, x, y, v, …; got {plain.type}")
    size = size_of_lists(plain)
    if size % 3 or (len(plain) and not size):
        raise RowError(name, 0, f"must have three numbers for each point; got {size}")
    numbers = number_lists(plain, name, size)
    if numbers.dtype.kind not in "iuf":
        raise InputError(f"`{name}` must hold numbers; got {plain.type}")
    return numbers.astype(np.float64).reshape(len(numbers), -1, 3) if len(numbers) else np.zeros((0, 0, 3))


def _parsed(column: Any, name: str) -> list[Any]:
    """Lists of numbers from text."""
    lists = []
    for row, cell in enumerate(column.to_pylist()):
        try:
            lists.append([float(number) for number in json.loads(cell)])
        except (ValueError, TypeError, RecursionError):
            raise RowError(name, row, f"must be a list of numbers in JSON; got {str(cell)[:60]!r}") from None
    return lists


def masks_of(column: Any, name: str = "mask") -> Masks:
    """The masks of a column of struct<size: list of height and width, counts: text or bytes>, COCO's run lengths.

    They are taken as they are in memory, without an object per mask.
    """
    arrow, kind = pyarrow(), column.type
    fields = {kind.field(index).name: index for index in range(kind.num_fields)} if arrow.types.is_struct(kind) else {}
    if not {"size", "counts"} <= fields.keys():
        raise InputError(f"`{name}` must be a struct of `size` and `counts`; got {kind}")
    parts, first = [], 0
    for chunk in column.chunks if isinstance(column, arrow.ChunkedArray) else [column]:
        children = chunk.flatten()  # a null of the struct is a null of its children
        try:
            size, counts = (_without_nulls(children[fields[field]], name) for field in ("size", "counts"))
            parts.append(Masks.from_arrays(*_characters(counts, name), _pairs(size, name)))
        except RowError as error:
            raise RowError(name, first + error.row, error.rule) from None
        first += len(chunk)
    return Masks.concatenate(parts) if parts else Masks.from_rle([])


def column_of(masks: Masks) -> Any:
    """The masks as an array of structs, which `masks_of` reads."""
    arrow, runs = pyarrow(), masks.runs
    is_large = runs.counts.size > np.iinfo(np.int32).max
    counts = (arrow.LargeStringArray if is_large else arrow.StringArray).from_buffers(
        len(masks),
        arrow.py_buffer(runs.start.astype(np.int64 if is_large else np.int32)),
        arrow.py_buffer(np.ascontiguousarray(runs.counts)),
    )
    sides = arrow.array(np.ascontiguousarray(runs.sizes, np.int64).reshape(-1))
    size = arrow.ListArray.from_arrays(arrow.array(np.arange(0, len(sides) + 1, 2, dtype=np.int32)), sides)
    return arrow.StructArray.from_arrays([size, counts], names=["size", "counts"])


def list_column(numbers: NDArray[np.float64]) -> Any:
    """An array of lists of numbers. Shape (N, L)."""
    is_large = numbers.size > np.iinfo(np.int32).max
    offsets = np.arange(len(numbers) + 1, dtype=np.int64) * numbers.shape[1]
    kind = pyarrow().LargeListArray if is_large else pyarrow().ListArray
    values = np.ascontiguousarray(numbers).reshape(-1)
    return kind.from_arrays(offsets if is_large else offsets.astype(np.int32), values)


def _without_nulls(array: Any, name: str) -> Any:
    if array.null_count:
        raise RowError(name, _first(array.is_null().to_numpy(False)), "must not be null")
    return array


def _first(is_wrong: NDArray[Any]) -> int:
    return int(np.argmax(is_wrong))


def _pairs(column: Any, name: str) -> NDArray[np.int64]:
    """An array of lists of two integers. Shape (N, 2)."""
    if not is_list(column.type) or not pyarrow().types.is_integer(column.type.value_type):
        raise InputError(f"`size` of `{name}` must be lists of integers, height and width; got {column.type}")
    rule = "must have a `size` of 2 integers, height and width"
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    if (lengths != 2).any():
        row = _first(lengths != 2)
        raise RowError(name, row, f"{rule}; got {lengths[row]}")
    values = column.flatten()
    if values.null_count:
        raise RowError(name, _first(values.is_null().to_numpy(False)) // 2, f"{rule}; got null")
    return np.asarray(values.to_numpy(zero_copy_only=False)).astype(np.int64).reshape(-1, 2)


def _characters(column: Any, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The characters of all texts of an array one after the other, and where those of each begin, and end."""
    arrow = pyarrow()
    types = arrow.types
    is_text = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    if not any(is_it(column.type) for is_it in is_text):
        raise InputError(f"`counts` of `{name}` must be text or bytes; got {column.type}")
    column = column.cast(arrow.large_binary())
    _, offsets, data = column.buffers()
    start = np.zeros(1, np.int64) if offsets is None else np.frombuffer(offsets, np.int64)
    start = start[column.offset : column.offset + len(column) + 1]
    text = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return text[int(start[0]) : int(start[-1])], start - start[0]


def to_numpy(column: Any, name: str, size: int = 4) -> NDArray[Any]:
    """A column of numbers, or of lists or tensors of `size` numbers: shape (R,) or (R, size)."""
    column = _without_extension(column, name)
    values: NDArray[Any] = number_lists(column, name, size) if is_list(column.type) else column.to_numpy()
    if values.dtype == object:
        raise InputError(f"`{name}` must hold numbers; got {column.type}")
    return values


def _without_extension(column: Any, name: str) -> Any:
    """A column without nulls, of a plain type."""
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise RowError(name, row, "must not be null")
    if isinstance(column.type, pyarrow().BaseExtensionType):  # a tensor of shape (4,), say: lists with a name
        return pyarrow().chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    return column


def is_list(kind: Any) -> bool:
    """Whether a type is one of lists."""
    types = pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def size_of_lists(column: Any) -> int:
    """The length of the first list of a column; 0 if it has no rows."""
    lengths = (chunk.value_lengths() for chunk in column.chunks if len(chunk))
    first = next(lengths, None)
    return 0 if first is None else int(first[0].as_py())


def number_lists(column: Any, name: str, size: int = 4) -> NDArray[Any]:
    """A column of lists without nulls, each of `size` numbers. Shape (R, size)."""
    chunks = [np.zeros((0, size))]
    row = 0
    for chunk in column.chunks:
        lengths = chunk.value_lengths().to_numpy(zero_copy_only=False)
        if (lengths != size).any():
            index = int(np.argmax(lengths != size))
            raise RowError(name, row + index, f"must have {size} numbers; got {lengths[index]}")
        chunks.append(chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, size))
        row += len(chunk)
    return np.concatenate(chunks[1:] or chunks)


def to_arrow(tally: Tally) -> Any:
    """The tally as a table; `from_arrow` gives it back, bit for bit."""
    header = storage.header_of(tally)
    columns = storage.columns_of(tally)
    described = {"version": _VERSION, "checksum": blocks.checksum(header, columns), "tally": header.decode()}
    described |= {name: columns[name].tolist() for name in ("classes", *EXTRAS) if name in columns}
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
        inner = json.loads(header)
        kept = inner["columns"]
        columns = rows_of(table, int(kept["is_true"][1][1]))
        for name in ("classes", *(name for name in EXTRAS if name in kept)):
            columns[name] = np.array(described[name], np.dtype(kept[name][0])).reshape(kept[name][1])
        tally = storage.from_columns(inner, columns)
    except InputError:
        raise
    except KeyError:
        raise InputError(f"{source}: not a boxscore tally, or one with missing columns") from None
    except (*blocks.UNREADABLE, arrow.ArrowException) as error:
        raise InputError(f"{source}: the tally is invalid: {error}") from None
    if blocks.checksum(header, storage.columns_of(tally)) != described["checksum"]:
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
