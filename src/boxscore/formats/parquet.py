"""Parquet, and Arrow IPC (.arrow, .feather): tables for which pyarrow is needed."""

import contextlib
import io
import json
from dataclasses import replace
from typing import Any

from boxscore.arrow import fours, is_list
from boxscore.checks import RowError
from boxscore.columns import Detections, Truths
from boxscore.errors import InputError
from boxscore.formats.files import Output, Source
from boxscore.formats.records import Options, Records
from boxscore.formats.tables import Column, Table, detection_records, truth_records
from boxscore.formats.writing import Host, Loss

SUFFIXES = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
LISTS = b"boxscore"
"""The key of the table's metadata under which our own files keep every image and class."""


def recognises(source: Source, role: str) -> bool:  # noqa: ARG001
    """Whether it begins as Parquet or Arrow files do, or ends in one of their suffixes."""
    return source.content is not None and (
        source.content[:4] == b"PAR1" or source.content[:6] == b"ARROW1" or source.suffix in SUFFIXES
    )


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise InputError("Parquet and Arrow files need pyarrow: pip install 'boxscore[arrow]'") from None
    return pyarrow


def _table(source: Source) -> tuple[Table, dict[str, Any]]:
    arrow = _arrow()
    content = source.read()
    try:
        if content[:6] == b"ARROW1":
            read = arrow.ipc.open_file(io.BytesIO(content)).read_all()
        elif content[:4] == b"PAR1":
            read = arrow.parquet.read_table(io.BytesIO(content))
        else:
            read = arrow.ipc.open_stream(io.BytesIO(content)).read_all()
        read.validate(full=True)  # offsets in a broken file may lead anywhere, and pyarrow would follow them
        names = read.column_names
        columns = {name.lower(): _column(arrow, read.column(index)) for index, name in enumerate(names)}
    except (arrow.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{source}: not a whole Parquet or Arrow file: {reason}") from None
    if len(columns) < len(names):
        raise InputError(f"{source}: columns must have different names; got {', '.join(names)}")
    table = Table(source=str(source), columns=columns, num_rows=read.num_rows, place=lambda row: f"{source}: row {row}")
    return table, lists_of(read.schema)


def lists_of(schema: Any) -> dict[str, Any]:
    """What our own files list of images and classes; nothing for others."""
    try:
        lists = json.loads((schema.metadata or {}).get(LISTS, b"{}"))
    except ValueError:
        return {}
    return lists if isinstance(lists, dict) else {}


def table_of(read: Any, source: str, first_row: int = 0) -> Table:
    """A `pyarrow.Table` as a table of boxes; `first_row`: where in the source it begins."""
    columns = {name.lower(): _column(_arrow(), read.column(index)) for index, name in enumerate(read.column_names)}
    if len(columns) < len(read.column_names):
        raise InputError(f"{source}: columns must have different names; got {', '.join(read.column_names)}")
    return Table(
        source=source, columns=columns, num_rows=read.num_rows, place=lambda row: f"{source}: row {first_row + row}"
    )


def read_table(source: Source) -> Table:
    """The columns of a file."""
    return _table(source)[0]


def _column(arrow: Any, column: Any) -> Column:
    types = arrow.types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    is_plain = types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type)
    if is_plain and column.null_count == 0:
        result: Column = column.to_numpy()
        return result
    if is_list(column.type) and column.null_count == 0:
        with contextlib.suppress(RowError):  # what is not four numbers is told by those who know its place
            return fours(column, "box")
    values: Column = column.to_pylist()
    return values


def _with_lists(records: Records, lists: dict[str, Any]) -> Records:
    more: dict[str, Any] = {}
    try:
        if "images" in lists:
            more["image_names"] = {int(number): str(name) for number, name in lists["images"].items()}
        if "sizes" in lists:
            more["image_sizes"] = {int(number): (int(w), int(h)) for number, (w, h) in lists["sizes"].items()}
        if "classes" in lists:
            more["class_names"] = {int(label): str(name) for label, name in lists["classes"].items()}
    except (AttributeError, TypeError, ValueError):
        raise InputError(f"{records.source}: the metadata `boxscore` must list images and classes by id") from None
    return replace(records, **more)


def read_truths(source: Source, options: Options) -> Records:
    """The rows of the table as truths."""
    table, lists = _table(source)
    return _with_lists(truth_records(table, options), lists)


def read_detections(source: Source, options: Options) -> Records:
    """The rows of the table as detections."""
    table, lists = _table(source)
    return _with_lists(detection_records(table, options), lists)


def write_truths(truths: Truths, *, is_ipc: bool = False) -> tuple[Output, list[Loss]]:
    """Every column, bit by bit; every image and class in the table's metadata."""
    host = Host.of(truths)
    more = {"ignore": host.ignore, "truncated": host.truncated, "area": host.area}
    return {"": _written(host, {name: column for name, column in more.items() if column is not None}, is_ipc)}, []


def write_detections(detections: Detections, truths: Truths, *, is_ipc: bool = False) -> tuple[Output, list[Loss]]:
    """Every column, bit by bit."""
    host = Host.of(detections, truths)
    return {"": _written(host, {"score": host.scores}, is_ipc)}, []


def _written(host: Host, more: dict[str, Any], is_ipc: bool) -> bytes:
    arrow = _arrow()
    columns: dict[str, Any] = {"image_id": host.image}
    if host.image_names:
        columns["file_name"] = [host.image_names[image] for image in host.image.tolist()]
    columns["category_id"] = host.label
    if host.class_names:
        columns["class_name"] = [host.class_names[label] for label in host.label.tolist()]
    columns |= host.box_columns() | more
    table = arrow.table({name: arrow.array(column) for name, column in columns.items()})
    lists: dict[str, Any] = {}
    if host.image_names:
        lists["images"] = host.image_names
    if host.sizes:
        lists["sizes"] = host.sizes
    if host.class_names is not None:
        lists["classes"] = host.class_names
    table = table.replace_schema_metadata({LISTS: json.dumps(lists).encode()})
    buffer = io.BytesIO()
    if is_ipc:
        with arrow.ipc.new_file(buffer, table.schema) as writer:
            writer.write_table(table)
    else:
        arrow.parquet.write_table(table, buffer)
    return buffer.getvalue()
