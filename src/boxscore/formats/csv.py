"""CSV and TSV with a header: one row per box."""

import csv
import io
import json
from array import array
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from boxscore._support.exceptions import InputError
from boxscore.data.dataset import Detections, Truths
from boxscore.data.geometry import Geometry
from boxscore.formats.files import Output, Source, suffix_of
from boxscore.formats.polygon_writers import outlines_as_runs
from boxscore.formats.records import Options, Records
from boxscore.formats.table_masks import cells_of
from boxscore.formats.tables import (
    BOXES,
    CORNERS,
    IMAGE_IDS,
    IMAGE_NAMES,
    LABEL_IDS,
    LABEL_NAMES,
    SCORES,
    TURNED_BOXES,
    Table,
    detection_records,
    kinds_in,
    shown,
    truth_records,
)
from boxscore.formats.writers import ANGLES, Host, Loss, named_classes


def recognises(source: Source, role: str) -> bool:
    """Whether the source is a file whose header has an image, a class and, for detections, a score."""
    if source.is_folder or source.suffix not in (".csv", ".tsv", ".txt", ""):
        return False
    names = set(header(source))
    needed = [{*IMAGE_IDS, *IMAGE_NAMES}, {*LABEL_IDS, *LABEL_NAMES}, *([set(SCORES)] if role == "detections" else [])]
    return all(names & known for known in needed) and not is_open_images(source)


def is_open_images(source: Source) -> bool:
    """Whether the header has Open Images' columns."""
    return {"imageid", "labelname", "xmin", "xmax", "ymin", "ymax"} <= set(header(source))


def kinds_of(source: Source, role: str) -> list[type[Geometry]]:  # noqa: ARG001
    """The geometries that the header has columns of, except upright boxes."""
    return kinds_in(header(source))


def header(source: Source) -> list[str]:
    """Names of the columns in lower case; empty if the file is binary."""
    if source.head is None or b"\0" in source.head[:1000]:
        return []
    line = source.head[:10_000].split(b"\n", 1)[0].decode("utf-8-sig", "replace").strip("\r")
    return [name.strip(' "').lower() for name in line.split(_delimiter(source, line))]


def _delimiter(source: Source, line: str) -> str:
    if source.suffix == ".tsv":
        return "\t"
    return next((mark for mark in ",\t;" if mark in line), ",")


def read_table(source: Source) -> Table:
    """Read the columns of a delimited file as text."""
    content = source.text()
    line, _, _ = content.partition("\n")
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=_delimiter(source, line), strict=True)
    rows: list[list[str]] = []
    numbers = array("q")
    try:
        names = [name.strip().lower() for name in next(reader, [])]
        if not any(names):
            raise InputError(f"{source}: must have a header; got an empty first line")
        name, num = Counter(names).most_common(1)[0]
        if num > 1:
            raise InputError(f"{source}: columns must have different names; got {shown(name)} more than once")
        number = reader.line_num + 1
        for row in reader:
            if row:
                if len(row) != len(names):
                    raise InputError(
                        f"{source}: line {number} must have {len(names):,} cells, as the header has; got {len(row):,}"
                    )
                rows.append(row)
                numbers.append(number)
            number = reader.line_num + 1  # of the next row; a quoted cell may have a line break
    except csv.Error as error:
        raise InputError(f"{source}: line {reader.line_num}: not a delimited file: {error}") from None
    columns: dict[str, Sequence[str]] = (
        dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(names, ())
    )
    if _delimiter(source, line) == ";" or is_open_images(source):
        columns |= {name: _with_points(columns[name]) for name in _MEASURES & columns.keys()}
    return Table(
        source=str(source), columns=columns, num_rows=len(rows), location=lambda row: f"{source}: line {numbers[row]}"
    )


_MEASURES = {name for names in (*BOXES, CORNERS, *TURNED_BOXES) for name in names} | {*SCORES, "area"}


def _with_points(column: Sequence[str]) -> Sequence[str]:
    """Replace decimal commas, as some countries write them, by points."""
    return [cell.replace(",", ".") for cell in column] if any("," in cell for cell in column) else column


def read_truths(source: Source, options: Options) -> Records:
    """Read the rows of a delimited file as truths."""
    return truth_records(read_table(source), options)


def read_detections(source: Source, options: Options) -> Records:
    """Read the rows of a delimited file as detections."""
    return detection_records(read_table(source), options)


def write_truths(truths: Truths, *, path: Path) -> tuple[Output, list[Loss]]:
    """Write one row per box; an image without boxes gets a row with only the image and its size."""
    host = Host.of(truths)
    columns = _columns(host)
    # A plus makes 0 and 1 of flags.
    columns |= {name: [repr(+value) for value in column.tolist()] for name, column in host.facts().items()}
    columns |= _size_columns(host, host.image.tolist())
    masks, lost = _mask_column(host)
    columns |= masks | _shape_columns(host)
    rows = list(zip(*columns.values(), strict=True))
    if host.empty_images:
        empty = dict.fromkeys(columns, [""] * len(host.empty_images))
        empty |= _image_columns(host, host.empty_images) | _size_columns(host, host.empty_images)
        rows += zip(*empty.values(), strict=True)
    losses = [*host.lost("class without boxes"), lost, *host.shapes_lost_in_tables(), *host.lost(ANGLES, "crowd index")]
    return {"": encoded(list(columns), rows, _delimiter_of(path))}, losses


def write_detections(detections: Detections, truths: Truths, *, path: Path) -> tuple[Output, list[Loss]]:
    """Write one row per detection, in order."""
    host = Host.of(detections, truths)
    columns = _columns(host) | {"score": [repr(score) for score in host.scores.tolist()]}
    masks, lost = _mask_column(host)
    if any(cell.startswith("[") for cell in masks.get("segmentation", ())):
        columns |= _size_columns(host, host.image.tolist())  # polygons are drawn into images of these sizes
    columns |= masks | _shape_columns(host)
    columns |= {name: [repr(area) for area in areas.tolist()] for name, areas in host.own_areas().items()}
    return {"": encoded(list(columns), list(zip(*columns.values(), strict=True)), _delimiter_of(path))}, [
        lost,
        *host.shapes_lost_in_tables(),
        *host.lost(ANGLES),
    ]


def _delimiter_of(path: Path) -> str:
    return "\t" if suffix_of(path) == ".tsv" else ","


def _columns(host: Host) -> dict[str, list[str]]:
    """The columns of image, class and box."""
    columns = _image_columns(host, host.image.tolist())
    columns["category_id"] = list(map(str, host.label.tolist()))
    if host.class_names:
        names = named_classes(host)
        columns["class_name"] = [names[label] for label in host.label.tolist()]
    return columns | {name: [repr(x) for x in side.tolist()] for name, side in host.box_columns().items()}


def _image_columns(host: Host, images: Sequence[int]) -> dict[str, list[str]]:
    columns = {"image_id": list(map(str, images))}
    if host.image_names:
        columns["file_name"] = [host.image_names.get(image, "") for image in images]
    return columns


def _size_columns(host: Host, images: Sequence[int]) -> dict[str, list[str]]:
    """The columns of the images' width and height, 0 where unknown; empty if all are unknown."""
    if not host.sizes:
        return {}
    sizes = [host.sizes.get(image, (0, 0)) for image in images]
    return {"image_width": [str(width) for width, _ in sizes], "image_height": [str(height) for _, height in sizes]}


def _mask_column(host: Host) -> tuple[dict[str, list[str]], Loss]:
    """The column of masks in JSON, if there are masks, and the loss of polygons."""
    columns, num_lost = {}, 0
    if host.mask is not None:
        sizes = [host.sizes.get(image) for image in host.image.tolist()]
        columns["segmentation"], num_lost = cells_of(host.mask, sizes, csv.field_size_limit())
    return columns, outlines_as_runs(num_lost)


def _shape_columns(host: Host) -> dict[str, list[str]]:
    """The columns of shapes other than boxes and masks; several numbers per row are a list in JSON."""
    return {
        name: [*map(_cell, (column if column.ndim == 1 else column.reshape(len(column), -1)).tolist())]
        for name, column in host.shape_columns().items()
    }


def _cell(value: Any) -> str:
    return json.dumps(value) if isinstance(value, list) else repr(value)


def encoded(header: list[str], rows: list[tuple[str, ...]], delimiter: str) -> bytes:
    """Encode the rows of a delimited file as bytes."""
    content = _quoted(header, rows, delimiter, csv.QUOTE_MINIMAL)
    # Python's writer does not quote a cell with "\r", which readers take for a line break.
    return (_quoted(header, rows, delimiter, csv.QUOTE_ALL) if "\r" in content else content).encode()


def _quoted(header: list[str], rows: list[tuple[str, ...]], delimiter: str, quoting: Any) -> str:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n", quoting=quoting)
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()
