"""Convert Arrow tables to columns, and tallies to Arrow tables: for Spark, Dask, Ray and common file formats.

The table of a tally has one row per detection, then one row per truth:

| column | |
|---|---|
| `is_truth` | whether the row is a truth |
| `image`, `label` | integers |
| `score`, `tier` | of a detection; null for a truth |
| `state` | as in `Tally.state` and `Tally.truth_state` |
| `verdict` | of a hit: its words of `is_true`, then its words of `is_counted`; else null |

The metadata of the schema, which IPC and Parquet files keep, has version, protocol, classes, a checksum and the
optional columns of `Tally`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.data.batch_keys import COVERAGE_KEYS
from boxscore.data.dataset import ClassNames, Detections, Truths
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.box_formats import BoxFormat, row_size
from boxscore.data.geometry.boxes import Boxes
from boxscore.data.geometry.kinds import boxes_of
from boxscore.data.geometry.masks import Masks
from boxscore.data.image_facts import CLASS_GROUP, CROWD_INDEX, SIZES, ImageFacts
from boxscore.data.validation import RowError, as_ids, column_named
from boxscore.result import blocks, storage
from boxscore.result.tally import EXTRAS, ROWS, Tally

_KEY = b"boxscore tally"
_VERSION = 1


def pyarrow() -> Any:
    """Import pyarrow. Raise `InputError` if it is not installed."""
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError:
        raise InputError("Arrow tables need pyarrow: pip install 'boxscore[arrow]'") from None
    return pyarrow


def detections_of(table: Any, *, box_format: BoxFormat, kind: type[Geometry] = Boxes) -> Detections:
    """Read detections from a table with the columns `image`, `label`, `score` and the columns of a geometry.

    - Boxes: `box`, lists of 4 numbers, or of 5 or 8 for oriented boxes, as `box_format` says.
    - Masks: `mask`, structs of `size`, height and width, and `counts`, COCO's compressed run lengths.
    - Others: their `Geometry.columns`, and optionally `area` and upright boxes, `box`.
    """
    columns = _columns(table, "image", "label", "score", *kind.columns)
    return Detections(**columns, **_shapes_of(table, kind, box_format, is_truth=False))


def truths_of(
    table: Any, *, box_format: BoxFormat, kind: type[Geometry] = Boxes, class_names: ClassNames | None = None
) -> Truths:
    """Read truths from a table of whole images.

    It has the columns of detections without `score`, and optionally:

    - `ignore` or `kind`, and `area`; the geometry's `more_columns`.
    - Facts about the row's image, in one or all of the image's rows: `image_width` and `image_height`, `crowd_index`,
      and the lists of labels `neg_category_ids` and `not_exhaustive_category_ids`.
    - `class_group`: the group of the row's class.

    A row without a label is an image without truths.
    """
    truths, facts = truth_rows_of(table, box_format=box_format, kind=kind, class_names=class_names)
    return truths if facts is None else facts.completed(truths)


def truth_rows_of(
    table: Any, *, box_format: BoxFormat, kind: type[Geometry] = Boxes, class_names: ClassNames | None = None
) -> tuple[Truths, ImageFacts | None]:
    """Read truths and facts about images from a table that may have only some rows of an image; see `truths_of`."""
    _check_table(table)
    facts = _facts_of(table)
    row = None
    if "label" in table.column_names and table.column("label").null_count:
        has_label = table.column("label").is_valid()
        row = np.flatnonzero(has_label.to_numpy())
        table = table.filter(has_label)
    try:
        groups = class_groups_of(table)
        columns = _columns(table, "image", "label", *kind.columns, optional=("ignore", "kind"))
        columns |= _shapes_of(table, kind, box_format, is_truth=True)
        return Truths(**columns, class_names=class_names, class_groups=groups), facts
    except RowError as error:
        raise RowError(error.column, error.row if row is None else int(row[error.row]), error.rule) from None


def class_groups_of(table: Any) -> dict[int, str] | None:
    """The group of each label, from the column `class_group`; None without such a column."""
    if not {"label", CLASS_GROUP} <= {*table.column_names}:
        return None
    pairs = table.select(["label", CLASS_GROUP]).group_by(["label", CLASS_GROUP]).aggregate([])
    groups: dict[int, str] = {}
    for label, group in zip(*(pairs.column(name).to_pylist() for name in ("label", CLASS_GROUP)), strict=True):
        if label is not None and group is not None and groups.setdefault(label, str(group)) != str(group):
            raise InputError(f"`{CLASS_GROUP}` of class {label} must be one; got {groups[label]!r} and {group!r}")
    return groups


def _facts_of(table: Any) -> ImageFacts | None:
    """The facts about images; None if the table has none."""
    names = {*table.column_names}
    has_lists = COVERAGE_KEYS[0] in names
    if COVERAGE_KEYS[1] in names and not has_lists:
        raise InputError(f"must have the column {COVERAGE_KEYS[0]}, since it has {COVERAGE_KEYS[1]}")
    has_images = "label" in names and table.column("label").null_count
    if "image" not in names or not (has_images or has_lists or names & {*SIZES, CROWD_INDEX}):
        return None
    image = to_numpy(table.column("image"), "image")
    values = {name: _floats_or_nan(table, name) for name in (*SIZES, CROWD_INDEX)}
    is_given = np.logical_or.reduce([~np.isnan(column) for column in values.values()])
    is_given |= ~table.column("label").is_valid().to_numpy() if has_images else False
    columns = {name: column[is_given] for name, column in values.items()}
    lists = {}
    if has_lists:
        pairs = [_listed(table, name, image) for name in COVERAGE_KEYS if name in names]
        lists = {
            "list_image": np.concatenate([each[0] for each in pairs]),
            "list_label": np.concatenate([each[1] for each in pairs]),
            "is_negative": np.repeat([True, False][: len(pairs)], [each[0].size for each in pairs]),
        }
    width, height = (columns[name] for name in SIZES)
    return ImageFacts(
        image=image[is_given].astype(np.int64),
        width=width,
        height=height,
        crowd_index=columns[CROWD_INDEX],
        **lists,
    )


def _floats_or_nan(table: Any, name: str) -> NDArray[np.float64]:
    """A column of numbers, with NaN for null; all NaN if the table has no such column."""
    if name not in table.column_names:
        return np.full(table.num_rows, np.nan)
    types, column = pyarrow().types, table.column(name)
    if not any(is_it(column.type) for is_it in (types.is_integer, types.is_floating, types.is_null)):
        raise InputError(f"`{name}` must hold numbers; got {column.type}")
    return np.asarray(column.cast(pyarrow().float64()).to_numpy(), np.float64)


def _listed(table: Any, name: str, image: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The image and the value of each entry of a column of lists of labels; null is an empty list. Shapes (L,)."""
    column = table.column(name)
    if pyarrow().types.is_null(column.type):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if not is_list(column.type):
        raise InputError(f"`{name}` must be lists of labels; got {column.type}")
    lengths = [chunk.value_lengths().fill_null(0).to_numpy(zero_copy_only=False) for chunk in column.chunks]
    length = np.concatenate([np.zeros(0, np.int64), *lengths]).astype(np.int64)
    values = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    labels = np.concatenate([np.zeros(0, np.int64), *(part for part in values if part.size)])
    if labels.dtype.kind not in "iu":
        raise InputError(f"`{name}` must be lists of integers, labels of classes; got {column.type}")
    return np.repeat(image.astype(np.int64), length), labels.astype(np.int64)


class _Table(NamedTuple):
    """The columns of an Arrow table, as a geometry reads them."""

    table: Any

    @property
    def columns(self) -> "_Cells":
        """Columns by name."""
        return _Cells(self.table)

    def floats(self, name: str) -> NDArray[np.float64]:
        """Read a column with one number per row."""
        return to_numpy(self.table.column(name), name).astype(np.float64)


class _Cells(Mapping[str, Any]):
    """The columns of an Arrow table, converted when they are looked up: text stays text, in lists."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __getitem__(self, name: str) -> Any:
        types, column = pyarrow().types, _without_extension(self._table.column(name), name)
        if types.is_string(column.type) or types.is_large_string(column.type):  # from CSV files
            return column.to_pylist()
        return to_numpy(column, name, size_of_lists(column) if is_list(column.type) else 1)

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.column_names)

    def __len__(self) -> int:
        return len(self._table.column_names)


def _shapes_of(table: Any, kind: type[Geometry], box_format: BoxFormat, *, is_truth: bool) -> dict[str, Any]:
    """The arguments `geometry` and `area` of detections or truths."""
    given = to_numpy(table.column("area"), "area") if "area" in table.column_names else None
    if kind.is_box or kind is Masks:
        column, size = table.column(kind.columns[0]), row_size(box_format)
        shapes = masks_of(column) if kind is Masks else boxes_of(to_numpy(column, "box", size), box_format)
        return {"geometry": shapes, "area": given if is_truth else None}
    rows = kind.read_columns(_Table(table), is_truth=is_truth)
    has_boxes = "box" in table.column_names
    rows = replace(rows, has_boxes=has_boxes)
    box = to_numpy(table.column("box"), "box").astype(np.float64) if has_boxes else np.zeros((table.num_rows, 4))
    area = given if is_truth else rows.detection_areas(given, box, box_format)
    geometry = rows.to_geometry(is_truth=is_truth, box=box, box_format=box_format, area=area)
    return {"geometry": geometry, "area": area}


def _check_table(table: Any) -> None:
    if not isinstance(table, pyarrow().Table):
        raise InputError(f"must be boxscore columns or a pyarrow.Table; got {type(table).__name__}")
    for name in table.column_names:
        if table.column_names.count(name) > 1:
            raise InputError(f"must have each column once; got `{name}` more than once")


def _columns(table: Any, *names: str, optional: Sequence[str] = ()) -> dict[str, Any]:
    """The columns with one number per row. Raise `InputError` unless the table has all `names`."""
    _check_table(table)
    if any(name not in table.column_names for name in names):
        got = ", ".join(table.column_names) or "none"
        raise InputError(f"must have the columns {', '.join(names)}; got {got}")
    read = (name for name in ("image", "label", "score", *optional) if name in names or name in optional)
    columns = {name: to_numpy(table.column(name), name) for name in read if name in table.column_names}
    ids = {name: as_ids(name, columns[name]) for name in ("image", "label")}
    return {column_named(name): column for name, column in (columns | ids).items()}


def masks_of(column: Any, name: str = "mask") -> Masks:
    """Read masks from a column of struct<size: list of height and width, counts: text or bytes>, COCO's run lengths.

    Buffers are read directly, without a Python object per mask.
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
    """Convert masks to an array of structs, which `masks_of` reads."""
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
    """Convert numbers of shape (N, L) to an array of N lists."""
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
    """Read an array of lists of two integers. Shape (N, 2)."""
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
    """The concatenated bytes of all texts of an array, and their offsets. Shapes (B,) and (N + 1,)."""
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
    """Convert a column of numbers, shape (R,), or of lists or tensors of `size` numbers, shape (R, size)."""
    column = _without_extension(column, name)
    values: NDArray[Any] = number_lists(column, name, size) if is_list(column.type) else column.to_numpy()
    if values.dtype == object:
        raise InputError(f"`{name}` must hold numbers; got {column.type}")
    return values


def _without_extension(column: Any, name: str) -> Any:
    """Replace an extension type by its storage type. Raise `RowError` for nulls."""
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise RowError(name, row, "must not be null")
    if isinstance(column.type, pyarrow().BaseExtensionType):  # such as a tensor of shape (4,)
        return pyarrow().chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    return column


def is_list(kind: Any) -> bool:
    """Whether a type is a list type."""
    types = pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def size_of_lists(column: Any) -> int:
    """The length of the first list of a column; 0 without rows."""
    lengths = (chunk.value_lengths() for chunk in column.chunks if len(chunk))
    first = next(lengths, None)
    return 0 if first is None else int(first[0].as_py())


def number_lists(column: Any, name: str, size: int = 4) -> NDArray[Any]:
    """Convert a column of lists of `size` numbers, without nulls. Shape (R, size)."""
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
    """Convert the tally to a table; `from_arrow` restores it, bit for bit."""
    header = storage.header_of(tally)
    columns = storage.columns_of(tally)
    described = {"version": _VERSION, "checksum": blocks.checksum(header, columns), "tally": header.decode()}
    described |= {name: columns[name].tolist() for name in ("classes", *EXTRAS) if name in columns}
    return verdict_table(tally).replace_schema_metadata({_KEY: json.dumps(described).encode()})


def from_arrow(table: Any, source: str = "this table") -> Tally:
    """Read the tally of a table. Raise `InputError`, which begins with `source`, for any other table."""
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
    """The columns of a tally except its classes, from the rows of a `verdict_table` in any order.

    Detections keep their order, and so do truths.
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
