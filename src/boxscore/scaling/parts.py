"""Parts of detections and truths as bytes: Arrow record batches, for rows on disk and for rows sent to workers.

A part is one or more IPC streams, one after the other, each with its kind in the metadata of its schema; parts are
concatenated like the bytes of a file.

| kind | columns |
|---|---|
| rows | `image_ids`, `labels`, `source`; of those that the side has: `scores`, `area`, `ignore`, `kind`; `shape.…`: the geometry's |
| images | `image`, `width`, `height`, `crowd_index` of `ImageFacts` |
| lists | `list_image`, `list_label`, `is_negative` of `ImageFacts` |

Any geometry is stored by its fields: an array of shape (N, ...) is a column of nested lists of fixed sizes, masks are
the structs of Arrow tables. The geometry's class and its other fields are in the metadata.
"""  # noqa: E501 (a table)

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any, Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.arrays import is_array, to_numpy
from boxscore.data.dataset import Columns, host_ids
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.masks import Masks
from boxscore.data.image_facts import LISTS, ImageFacts
from boxscore.result import arrow
from boxscore.scaling.shards import shard_of

_KIND, _GEOMETRY = b"boxscore", b"geometry"
_COLUMNS = ("image_ids", "labels", "scores", "area", "ignore", "kind")
_OF_FACTS = {b"images": ("image", "width", "height", "crowd_index"), b"lists": LISTS}
_SHAPE = "shape."
_MASK = f"{_SHAPE}mask"


class Part(NamedTuple, Generic[Columns]):
    """Rows of detections or truths of some images."""

    rows: Columns
    source: NDArray[np.int64]
    """The number of the file, or of another source, of each row. Shape (N,)."""
    facts: ImageFacts | None = None


def split_by_shard(part: Part[Columns], num_shards: int) -> Iterator[tuple[int, bytes]]:
    """Split a part by shard, as bytes; only shards with rows or facts. An image is in one shard."""
    shards: dict[int, list[bytes]] = {}
    for table in _tables(part):
        shard = shard_of(table.column(0).to_numpy(), num_shards)
        order = np.argsort(shard, kind="stable")
        ordered = table.take(arrow.pyarrow().array(order))
        numbers: list[int] = np.unique(shard).tolist()
        starts: list[int] = np.searchsorted(shard[order], numbers).tolist()
        for number, (first, end) in zip(numbers, pairwise([*starts, order.size]), strict=True):
            shards.setdefault(number, []).append(_stream(ordered.slice(first, end - first)))
    for number, streams in shards.items():
        yield number, b"".join(streams)


def join(contents: Iterable[Any], empty: Columns, side: str) -> Part[Columns]:
    """Concatenate parts, given as bytes.

    Args:
        contents: The bytes of parts, concatenated or separate.
        empty: An instance of the side without rows, for parts without any.
        side: "detections" or "truths", for errors.
    """
    found: dict[bytes, list[Any]] = {}
    for content in contents:
        for table in _read(content):
            found.setdefault(table.schema.metadata[_KIND], []).append(table)
    facts = ImageFacts.none()
    for kind, names in _OF_FACTS.items():
        if kind in found:
            facts = replace(facts, **_arrays(found[kind], names))
    tables = found.pop(b"rows", [])
    if not tables:
        return Part(empty, np.zeros(0, np.int64), facts)
    for table in tables[1:]:
        check_alike(tables[0].schema, table.schema, side)
    columns = _arrays(tables, [name for name in tables[0].column_names if name != _MASK])
    kind, settings = pickle.loads(tables[0].schema.metadata[_GEOMETRY])  # made by `_rows`, in this job
    if kind is Masks:
        geometry: Geometry = Masks.concatenate([arrow.masks_of(table.column(_MASK)) for table in tables])
    else:
        shape = {name: columns[f"{_SHAPE}{name}"] for name in _fields(columns)}
        geometry = kind(**settings, **shape)
    rows: dict[str, Any] = {name: columns[name] for name in _COLUMNS if name in columns}
    return Part(type(empty)(**rows, geometry=geometry), columns["source"], facts)


def layout_of(rows: Columns) -> Any:
    """The schema of rows, which `check_alike` compares."""
    return _rows(Part(rows, np.zeros(len(rows), np.int64))).schema


def check_alike(first: Any, other: Any, side: str) -> None:
    """Raise `InputError` unless rows of a side have the same columns, shapes of one size, and one box format."""
    if first.equals(other, check_metadata=True):
        return
    (kind, settings), (_, more) = (pickle.loads(schema.metadata[_GEOMETRY]) for schema in (first, other))
    for name in sorted({*first.names} ^ {*other.names}):
        field = name.removeprefix(_SHAPE)
        shown = kind.terms.get(field, field)
        raise InputError(f"`{shown}` must be a column of all files of {side}, or of none; got some of each")
    for name in settings:
        if settings[name] != more[name]:
            raise InputError(f"the {kind.plural} of all {side} must be {settings[name]}; got {more[name]}, too")
    for name in first.names:
        if first.field(name).type != other.field(name).type:
            sizes = [schema.field(name).type.list_size for schema in (first, other)]
            raise InputError(f"all {side} must have {sizes[0]} {kind.key}, as the first; got {sizes[1]}, too")


def row_values(part: Part[Columns]) -> dict[str, NDArray[Any]]:
    """Columns of numbers for finding equal rows; masks are compared by the boxes around them."""
    rows, geometry = part.rows, part.rows.geometry
    columns = {name: to_numpy(getattr(rows, name)) for name in _COLUMNS if getattr(rows, name, None) is not None}
    if isinstance(geometry, Masks):
        return {**columns, "source": part.source, _MASK: to_numpy(geometry.outer_boxes())}
    return {**columns, "source": part.source, **_shape_arrays(geometry)}


def _tables(part: Part[Columns]) -> Iterator[Any]:
    """The tables of a part; the first column of each is the image."""
    if len(part.rows):
        yield _rows(part)
    if part.facts is not None:
        for kind, names in _OF_FACTS.items():
            columns = {name: getattr(part.facts, name) for name in names}
            if columns[names[0]] is not None:
                yield arrow.pyarrow().table(columns).replace_schema_metadata({_KIND: kind})


def _rows(part: Part[Columns]) -> Any:
    """The table of rows, in double precision."""
    columns: dict[str, Any] = {name: getattr(part.rows, name, None) for name in _COLUMNS}
    columns |= {name: host_ids(columns[name]) for name in ("image_ids", "labels")}
    arrays = {name: _column(to_numpy(column)) for name, column in columns.items() if column is not None}
    arrays["source"] = _column(part.source)
    geometry = part.rows.geometry
    settings: Mapping[str, Any] = {}
    if isinstance(geometry, Masks):
        arrays[_MASK] = arrow.column_of(geometry)
    else:
        arrays |= {name: _column(column) for name, column in _shape_arrays(geometry).items()}
        settings = {name: value for name, value in _values(geometry).items() if not is_array(value)}
    described = pickle.dumps((type(geometry), settings))
    return arrow.pyarrow().table(arrays).replace_schema_metadata({_KIND: b"rows", _GEOMETRY: described})


def _values(geometry: Geometry) -> dict[str, Any]:
    """The fields of a geometry that are not None."""
    values = {field.name: getattr(geometry, field.name) for field in fields(geometry)}  # type: ignore[arg-type]
    return {name: value for name, value in values.items() if value is not None}


def _shape_arrays(geometry: Geometry) -> dict[str, NDArray[Any]]:
    arrays = {f"{_SHAPE}{name}": to_numpy(value) for name, value in _values(geometry).items() if is_array(value)}
    return {name: array if array.dtype.kind == "b" else array.astype(np.float64) for name, array in arrays.items()}


def _fields(columns: Mapping[str, Any]) -> list[str]:
    return [name.removeprefix(_SHAPE) for name in columns if name.startswith(_SHAPE)]


def _column(values: NDArray[Any]) -> Any:
    """An Arrow array of numbers: 64-bit integers, double precision; further axes are fixed-size lists."""
    wide_kinds = {"i": np.int64, "f": np.float64}
    wide = values.astype(wide_kinds.get(values.dtype.kind, values.dtype), copy=False)
    column = arrow.pyarrow().array(np.ascontiguousarray(wide).reshape(-1))
    for size in reversed(values.shape[1:]):
        column = arrow.pyarrow().FixedSizeListArray.from_arrays(column, size)
    return column


def _arrays(tables: Sequence[Any], names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Columns of all tables as NumPy arrays, with their original axes."""
    return {
        name: np.concatenate([_array(chunk) for table in tables for chunk in table.column(name).chunks])
        for name in names
    }


def _array(chunk: Any) -> NDArray[Any]:
    shape = [len(chunk)]
    while arrow.is_list(chunk.type):
        shape.append(chunk.type.list_size)
        chunk = chunk.flatten()
    return np.asarray(chunk.to_numpy(zero_copy_only=False)).reshape(shape)


def _stream(table: Any) -> bytes:
    library = arrow.pyarrow()
    output = library.BufferOutputStream()
    with library.ipc.new_stream(output, table.schema) as writer:
        writer.write_table(table)
    return bytes(output.getvalue().to_pybytes())


def _read(content: Any) -> Iterator[Any]:
    """The tables of all streams of some bytes, without a copy."""
    library = arrow.pyarrow()
    source = library.BufferReader(content)
    while source.tell() < source.size():
        with library.ipc.open_stream(source) as reader:
            yield reader.read_all()
