"""Parquet and Arrow IPC (.arrow, .feather): tables that need pyarrow."""

import contextlib
import io
import json
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore._support.text import line
from boxscore.arrays import to_numpy
from boxscore.data.batch_keys import COVERAGE_KEYS
from boxscore.data.dataset import Detections, Truths
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.kinds import GEOMETRIES
from boxscore.data.geometry.masks import Masks
from boxscore.data.image_facts import CLASS_GROUP, CROWD_INDEX, SIZES
from boxscore.data.validation import RowError
from boxscore.formats import table_facts, tables
from boxscore.formats.archives import refuse_bomb
from boxscore.formats.arrow_messages import unpacked_size
from boxscore.formats.federated import written_lists
from boxscore.formats.files import Output, Source, suffix_of
from boxscore.formats.polygon_writers import outlines_lost
from boxscore.formats.records import Ids, Options, Records
from boxscore.formats.table_masks import NAMES, MaskColumn
from boxscore.formats.tables import Column, Table, detection_records, known_columns, merge_names, truth_records
from boxscore.formats.writers import ANGLES, Host, Loss
from boxscore.result.arrow import (
    column_of,
    is_list,
    list_column,
    masks_of,
    number_lists,
    size_of_lists,
)

SUFFIXES = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
LISTS = b"boxscore"
"""The key of the table's metadata under which files written by boxscore list every image and class."""
_VALUE_BYTES = 8
"""Minimum memory for a value of a column, in bytes."""
_BATCH_ROWS = 1 << 16
"""Number of rows per batch."""


def recognises(source: Source, role: str) -> bool:  # noqa: ARG001
    """Whether the file has the first bytes of Parquet or Arrow, or one of their suffixes."""
    return source.head is not None and (
        source.head[:4] == b"PAR1" or source.head[:6] == b"ARROW1" or source.suffix in SUFFIXES
    )


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise InputError("Parquet and Arrow files need pyarrow: pip install 'boxscore[arrow]'") from None
    return pyarrow


@contextlib.contextmanager
def whole(location: str, kind: str = "Parquet or Arrow") -> Iterator[None]:
    """Turn pyarrow's errors about a damaged file into `InputError` with the file's name."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # invalid text and types raise errors that are not pyarrow's own
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"{location}: not a whole {kind} file: {reason}") from None


def open_parquet(source: Any, location: str, size: int, **options: Any) -> Any:
    """Open a `ParquetFile` of `size` bytes; refuse too large content before it is read.

    A few bytes may encode millions of equal values, or millions of copies of a long text. So texts are read as
    dictionaries, and the size is estimated from the metadata of the row groups.
    """
    arrow = _arrow()
    with arrow.parquet.ParquetFile(source) as file:
        schema, about = file.schema_arrow, file.metadata
        texts = [field.name for field in schema if _is_text(arrow, field.type)]
        # The metadata of columns is not read: pyarrow aborts the process if it is invalid.
        groups = map(about.row_group, range(about.num_row_groups))
        sizes = (max(_VALUE_BYTES * each.num_rows * about.num_columns, each.total_byte_size) for each in groups)
        grown = max(sum(sizes), _VALUE_BYTES * about.num_rows * about.num_columns)
    refuse_bomb(location, grown, size)
    return arrow.parquet.ParquetFile(source, read_dictionary=texts, **options)


def _is_text(arrow: Any, kind: Any) -> bool:
    types = arrow.types
    return any(
        is_it(kind) for is_it in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    )


def kinds_of(source: Source, role: str) -> list[type[Geometry]]:  # noqa: ARG001
    """The geometries that the file has columns of, except upright boxes."""
    return tables.kinds_in(_names(source))


def _names(source: Source) -> set[str]:
    """Names of the columns in lower case; only the footer of a Parquet file on disk is read."""
    arrow = _arrow()
    with whole(str(source)):
        if (source.head or b"")[:4] == b"PAR1":
            names = arrow.parquet.read_schema(source.unread_path or io.BytesIO(source.read())).names
        else:
            content = source.read()
            open_ipc = arrow.ipc.open_file if content[:6] == b"ARROW1" else arrow.ipc.open_stream
            with open_ipc(arrow.BufferReader(content)) as file:
                names = file.schema.names
    return {name.lower() for name in names}


def chosen(schema: Any, location: str, known: Container[str] | None = tables.KNOWN) -> dict[str, str]:
    """The columns to read: names in the file by names in lower case. `known`: the names to read, None for all."""
    names: dict[str, str] = {}
    for name in schema.names:
        if known is None or name.lower() in known:
            if name.lower() in names:
                raise InputError(
                    f"{location}: columns must have different names, in any case; got `{line(name)}` twice"
                )
            names[name.lower()] = name
    return names


def _table(source: Source, known: Container[str] | None = tables.KNOWN) -> tuple[Table, dict[str, Any]]:
    arrow = _arrow()
    content, location = source.read(), str(source)
    with whole(location):
        if content[:4] == b"PAR1":
            with open_parquet(io.BytesIO(content), location, len(content)) as file:
                schema = file.schema_arrow
                read = _read_rows(file, list(chosen(schema, location, known).values()), location, len(content))
        else:
            is_file = content[:6] == b"ARROW1"
            open_ipc = arrow.ipc.open_file if is_file else arrow.ipc.open_stream
            refuse_bomb(location, unpacked_size(content, 8 if is_file else 0), len(content))
            with open_ipc(arrow.BufferReader(content)) as file:
                schema = file.schema
                read = file.read_all().select(list(chosen(schema, location, known).values()))
        read.validate(full=True)  # or invalid offsets in a damaged file would be followed
        refuse_bomb(location, _VALUE_BYTES * read.num_rows * read.num_columns, len(content))
        unread = [name.lower() for name in schema.names if name not in read.column_names]
        return replace(table_of(read, location), unread=unread), lists_of(schema, location)


def _read_rows(file: Any, names: list[str], location: str, size: int) -> Any:
    """Read some columns of a Parquet file. The size is checked per batch, as the metadata has no lengths of lists."""
    batches, grown = [], 0
    for batch in file.iter_batches(_BATCH_ROWS, columns=names):
        grown += batch.nbytes
        refuse_bomb(location, grown, size)
        batches.append(batch)
    return _arrow().Table.from_batches(batches) if batches else file.schema_arrow.empty_table().select(names)


def lists_of(schema: Any, location: str) -> dict[str, Any]:
    """Fields of `Records` for the images and classes that files written by boxscore list; empty for other files."""
    try:
        lists = json.loads((schema.metadata or {}).get(LISTS, b"{}"))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(lists, dict):
        return {}
    more: dict[str, Any] = {}
    try:
        for ours, name in (("image_names", "images"), ("class_names", "classes")):
            if name in lists:
                more[ours] = {_whole(number): str(title) for number, title in lists[name].items()}
        if "groups" in lists:
            more["class_groups"] = {_whole(number): str(group) for number, group in lists["groups"].items()}
        if "sizes" in lists:
            more["image_sizes"] = {_whole(image): (_whole(w), _whole(h)) for image, (w, h) in lists["sizes"].items()}
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise InputError(f"{location}: the metadata `boxscore` must list images and classes by id") from None
    return more


def _whole(value: Any) -> int:
    number = int(value)
    if number.bit_length() > 63:
        raise ValueError
    return number


def table_of(read: Any, source: str, first_row: int = 0) -> Table:
    """Convert a `pyarrow.Table` to a `Table`. `first_row`: the index of its first row in the source."""
    names = chosen(read.schema, source, None)
    columns = {name: _column(_arrow(), read.column(index), name) for index, name in enumerate(names)}
    return Table(
        source=source, columns=columns, num_rows=read.num_rows, location=lambda row: f"{source}: row {first_row + row}"
    )


def read_table(source: Source, column: str | None) -> Table:
    """Read the known columns of a file and `column`; with None, all columns."""
    return _table(source, None if column is None else {*tables.KNOWN, column.lower()})[0]


def _column(arrow: Any, column: Any, name: str) -> Column:
    types = arrow.types
    if name in NAMES and types.is_struct(column.type):
        return _mask_column(column)
    if types.is_dictionary(column.type):
        if _is_text(arrow, column.type.value_type):
            return [value for chunk in column.chunks for value in _texts(chunk)]
        column = column.cast(column.type.value_type)
    is_number = types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type)
    if is_number and column.null_count == 0:
        result: Column = column.to_numpy()
        return result
    if is_list(column.type) and column.null_count == 0 and name not in COVERAGE_KEYS:
        with contextlib.suppress(RowError):  # reported later, with the location of the row
            is_box = all(kind.is_box for kind in GEOMETRIES if name in kind.columns)
            return number_lists(column, name, 4 if is_box else size_of_lists(column))
    values: Column = column.to_pylist()
    return values


def _mask_column(column: Any) -> MaskColumn:
    """A lazy column of masks, read once it is known which rows are needed."""

    def read(rows: Ids | None) -> Masks:
        return masks_of(column if rows is None else column.take(rows))

    return MaskColumn(read=read, num_rows=len(column))


def _texts(chunk: Any) -> Iterator[Any]:
    """The values of a dictionary-encoded chunk; equal values share one object."""
    values = [*chunk.dictionary.to_pylist(), None]
    indices = chunk.indices.fill_null(len(values) - 1) if chunk.indices.null_count else chunk.indices
    return map(values.__getitem__, indices.to_numpy(zero_copy_only=False).tolist())


def _with_lists(records: Records, lists: dict[str, Any]) -> Records:
    for kind, field in (("image", "image_names"), ("class", "class_names")):
        if field in lists:
            merge_names(dict(lists[field]), getattr(records, field) or {}, kind, records.source)
    return replace(records, **lists)


def read_truths(source: Source, options: Options) -> Records:
    """Read the rows of the table as truths."""
    table, lists = _table(source, known_columns(options))
    return _with_lists(truth_records(table, options), lists)


def read_detections(source: Source, options: Options) -> Records:
    """Read the rows of the table as detections."""
    table, lists = _table(source, known_columns(options))
    return _with_lists(detection_records(table, options), lists)


def write_truths(truths: Truths, *, path: Path) -> tuple[Output, list[Loss]]:
    """Write every column exactly, and every image and class in the table's metadata.

    An image without truths gets a row without a class.
    """
    host = Host.of(truths)
    columns: dict[str, Any] = host.facts()
    if truths.kind is not None:
        columns[table_facts.KIND] = to_numpy(truths.kind).astype(np.uint8)
    groups = truths.class_groups
    if groups is not None:
        columns[CLASS_GROUP] = [groups.get(label) for label in host.label.tolist()]
    content = _written(host, columns, path, lambda table: _with_images(table, host, truths), groups)
    return {"": content}, _losses(host)


def _with_images(table: Any, host: Host, truths: Truths) -> Any:
    """Add a row for each image without truths, and the columns with facts of images."""
    arrow = _arrow()
    listed = {
        *host.empty_images,
        *host.crowd_index,
        *(() if truths.coverage is None else truths.coverage.image_ids.tolist()),
    }
    empty = sorted(listed - {*host.image.tolist()})
    image, num = np.concatenate([host.image, np.array(empty, np.int64)]), len(empty)
    if num:
        columns: dict[str, Any] = {"image_id": empty}
        columns["file_name"] = [host.image_names.get(number, str(number)) for number in empty]
        for field in table.schema:
            types = arrow.types
            if is_list(field.type):
                columns[field.name] = list_column(np.zeros((num, size_of_lists(table.column(field.name)))))
            elif types.is_integer(field.type) or types.is_floating(field.type) or types.is_boolean(field.type):
                columns.setdefault(field.name, np.zeros(num, bool if types.is_boolean(field.type) else np.int64))
        columns["category_id"] = None
        rows = [
            arrow.nulls(num, field.type)
            if columns.get(field.name) is None
            else arrow.array(columns[field.name]).cast(field.type)
            for field in table.schema
        ]
        table = arrow.concat_tables([table, arrow.Table.from_arrays(rows, schema=table.schema)])
    if host.sizes:
        pairs = np.array([host.sizes.get(number, (0, 0)) for number in image.tolist()], np.int64).reshape(-1, 2)
        for axis, name in enumerate(SIZES):
            table = table.append_column(name, arrow.array(pairs[:, axis]))
    if host.crowd_index:
        values = [host.crowd_index.get(number) for number in image.tolist()]
        table = table.append_column(CROWD_INDEX, arrow.array(values, arrow.float64()))
    if truths.coverage is not None:
        lists = written_lists(truths)
        first = {number: row for row, number in reversed([*enumerate(image.tolist())])}
        for name in COVERAGE_KEYS:
            cells = [
                lists.get(number, {}).get(name, []) if first[number] == row else None
                for row, number in enumerate(image.tolist())
            ]
            table = table.append_column(name, arrow.array(cells, arrow.list_(arrow.int64())))
    return table


def write_detections(detections: Detections, truths: Truths, *, path: Path) -> tuple[Output, list[Loss]]:
    """Write every column, exactly."""
    host = Host.of(detections, truths)
    return {"": _written(host, {"score": host.scores, **host.own_areas()}, path)}, _losses(host)


def _losses(host: Host) -> list[Loss]:
    outlines = [] if host.mask is None else [outlines_lost(host.mask)]
    return [*host.shapes_lost_in_tables(), *host.lost(ANGLES), *outlines]


def _written(
    host: Host,
    more: dict[str, Any],
    path: Path,
    complete: Callable[[Any], Any] = lambda table: table,
    class_groups: Mapping[int, str] | None = None,
) -> bytes:
    arrow = _arrow()
    columns: dict[str, Any] = {"image_id": host.image}
    if host.image_names:
        columns["file_name"] = [host.image_names[image] for image in host.image.tolist()]
    columns["category_id"] = host.label
    if host.class_names:
        columns["class_name"] = [host.class_names[label] for label in host.label.tolist()]
    columns |= host.box_columns() | more
    arrays = {name: arrow.array(column) for name, column in columns.items()}
    if host.mask is not None:
        arrays["segmentation"] = column_of(host.mask)
    for name, column in host.shape_columns().items():
        arrays[name] = arrow.array(column) if column.ndim == 1 else list_column(column.reshape(len(column), -1))
    table = complete(arrow.table(arrays))
    lists: dict[str, Any] = {}
    if host.image_names:
        lists["images"] = host.image_names
    if host.sizes:
        lists["sizes"] = host.sizes
    if host.class_names is not None:
        lists["classes"] = host.class_names
    if class_groups is not None:
        lists["groups"] = class_groups
    table = table.replace_schema_metadata({LISTS: json.dumps(lists).encode()})
    buffer = io.BytesIO()
    if suffix_of(path) in (".arrow", ".feather"):
        with arrow.ipc.new_file(buffer, table.schema) as writer:
            writer.write_table(table)
    else:
        arrow.parquet.write_table(table, buffer)
    return buffer.getvalue()
