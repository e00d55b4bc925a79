"""CSV and TSV with a header, and Open Images' CSV, whose boxes are fractions."""

import csv
import io
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.formats.files import Output, Source
from boxscore.formats.records import Named, Options, Records
from boxscore.formats.tables import BOXES, SCORES, Table, detection_records, shown, truth_records
from boxscore.formats.writing import Host, Loss, named_classes, number
from boxscore.model.dataset import Detections, Truths


def recognises(source: Source, role: str) -> bool:
    """Whether it is a file whose first line names an image, a class and, for detections, a score."""
    return _looks_right(source, role) and not is_open_images(source)


def is_open_images(source: Source) -> bool:
    """Whether the first line is that of Open Images."""
    return {"imageid", "labelname", "xmin", "xmax", "ymin", "ymax"} <= set(_header(source))


def recognises_open_images(source: Source, role: str) -> bool:
    """Whether the first line is that of Open Images, with a score for detections."""
    header = set(_header(source))
    return is_open_images(source) and (role == "truths" or bool(header & {"score", "conf", "confidence"}))


def _looks_right(source: Source, role: str) -> bool:
    if source.is_folder or source.suffix not in (".csv", ".tsv", ".txt", ""):
        return False
    header = set(_header(source))
    from boxscore.formats import tables

    needed = [{*tables.IMAGE_IDS, *tables.IMAGE_NAMES}, {*tables.LABEL_IDS, *tables.LABEL_NAMES}]
    if role == "detections":
        needed.append(set(tables.SCORES))
    return all(header & names for names in needed)


def _header(source: Source) -> list[str]:
    if source.content is None or b"\0" in source.content[:1000]:
        return []
    line = source.content[:10_000].split(b"\n", 1)[0].decode("utf-8-sig", "replace").strip("\r")
    return [name.strip(' "').lower() for name in line.split(_delimiter(source, line))]


def _delimiter(source: Source, line: str) -> str:
    if source.suffix == ".tsv":
        return "\t"
    return next((mark for mark in ",\t;" if mark in line), ",")


def read_table(source: Source) -> Table:
    """The columns of a delimited file, as text."""
    content = source.text()
    line, _, _ = content.partition("\n")
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=_delimiter(source, line), strict=True)
    rows: list[list[str]] = []
    numbers = array("q")
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        if not any(header):
            raise InputError(f"{source}: must have a header; got an empty first line")
        name, num = Counter(header).most_common(1)[0]
        if num > 1:
            raise InputError(f"{source}: columns must have different names; got {shown(name)} more than once")
        number = reader.line_num + 1
        for row in reader:
            if row:
                if len(row) != len(header):
                    raise InputError(
                        f"{source}: line {number} must have {len(header):,} cells, as the header has; got {len(row):,}"
                    )
                rows.append(row)
                numbers.append(number)
            number = reader.line_num + 1  # of the next row; a quoted cell may hold a line break
    except csv.Error as error:
        raise InputError(f"{source}: line {reader.line_num}: not a delimited file: {error}") from None
    columns: dict[str, Sequence[str]] = (
        dict(zip(header, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(header, ())
    )
    if _delimiter(source, line) == ";" or is_open_images(source):
        columns |= {name: _with_points(columns[name]) for name in _MEASURES & columns.keys()}
    return Table(
        source=str(source), columns=columns, num_rows=len(rows), place=lambda row: f"{source}: line {numbers[row]}"
    )


_MEASURES = {name for names in BOXES for name in names} | {*SCORES, "area"}


def _with_points(column: Sequence[str]) -> Sequence[str]:
    """Numbers with a decimal comma, as some countries write them, with a point."""
    return [cell.replace(",", ".") for cell in column] if any("," in cell for cell in column) else column


def read_truths(source: Source, options: Options) -> Records:
    """The rows of a delimited file as truths."""
    return truth_records(read_table(source), options)


def read_detections(source: Source, options: Options) -> Records:
    """The rows of a delimited file as detections."""
    return detection_records(read_table(source), options)


def read_open_images_truths(source: Source, options: Options) -> Records:
    """The rows of an Open Images file as truths; a "group of" is ignored, as a crowd is."""
    return _fractions(truth_records(read_table(source), options), options)


def read_open_images_detections(source: Source, options: Options) -> Records:
    """The rows of an Open Images file as detections."""
    return _fractions(detection_records(read_table(source), options), options)


def _fractions(records: Records, options: Options) -> Records:
    label = records.label
    if options.names is not None and isinstance(label, Named):
        meaning = _descriptions(options.names)
        label = replace(label, names=[meaning.get(name, name) for name in label.names])
    return replace(records, label=label, is_normalized=True)


def _descriptions(path: Any) -> Mapping[str, str]:
    """Names by Open Images' label, from a mapping or a file of two columns."""
    if isinstance(path, Mapping):
        return path
    from boxscore.formats.files import open_source

    source = open_source(path)
    reader = csv.reader(io.StringIO(source.text()))
    meaning: dict[str, str] = {}
    try:
        for row in reader:
            if row and len(row) < 2:
                raise InputError(
                    f"{source}: line {reader.line_num} must have a label and its name; got {shown(','.join(row))}"
                )
            if row:
                meaning[row[0]] = row[1]
    except csv.Error as error:
        raise InputError(f"{source}: line {reader.line_num}: not a delimited file: {error}") from None
    return meaning


def write_truths(truths: Truths, *, delimiter: str = ",") -> tuple[Output, list[Loss]]:
    """One row a box, and one with nothing but the image for an image without boxes."""
    host = Host.of(truths)
    sizes = host.sizes
    box = list(host.box_columns().values())
    columns: dict[str, list[str]] = {"image_id": list(map(str, host.image.tolist()))}
    if host.image_names:
        columns["file_name"] = [host.image_names.get(image, "") for image in host.image.tolist()]
    columns |= _label_columns(host)
    columns |= dict(zip(host.box_columns(), ([repr(x) for x in side.tolist()] for side in box), strict=True))
    for name, column in (("ignore", host.ignore), ("truncated", host.truncated)):
        if column is not None:
            columns[name] = ["1" if flag else "0" for flag in column.tolist()]
    if host.area is not None:
        columns["area"] = [repr(area) for area in host.area.tolist()]
    if sizes:
        columns["image_width"] = [_side(sizes, image, 0) for image in host.image.tolist()]
        columns["image_height"] = [_side(sizes, image, 1) for image in host.image.tolist()]
    rows = list(zip(*columns.values(), strict=True))
    for image in host.empty_images:
        row = dict.fromkeys(columns, "") | {"image_id": str(image)}
        if host.image_names:
            row["file_name"] = host.image_names[image]
        if sizes:
            row |= {"image_width": _side(sizes, image, 0), "image_height": _side(sizes, image, 1)}
        rows.append(tuple(row.values()))
    losses = [Loss(num=len(host.empty_classes), what="class without boxes", plural="classes without boxes")]
    return {"": _written(list(columns), rows, delimiter)}, losses


def _side(sizes: Mapping[int, tuple[int, int]], image: int, axis: int) -> str:
    return str(sizes[image][axis]) if image in sizes else "0"


def _label_columns(host: Host) -> dict[str, list[str]]:
    columns = {"category_id": list(map(str, host.label.tolist()))}
    if host.class_names:
        names = named_classes(host)
        columns["class_name"] = [names[label] for label in host.label.tolist()]
    return columns


def write_detections(detections: Detections, truths: Truths, *, delimiter: str = ",") -> tuple[Output, list[Loss]]:
    """One row a detection, in order."""
    host = Host.of(detections, truths)
    columns: dict[str, list[str]] = {"image_id": list(map(str, host.image.tolist()))}
    if host.image_names:
        columns["file_name"] = [host.image_names.get(image, "") for image in host.image.tolist()]
    columns |= _label_columns(host)
    columns |= {name: [repr(x) for x in side.tolist()] for name, side in host.box_columns().items()}
    columns["score"] = [repr(score) for score in host.scores.tolist()]
    return {"": _written(list(columns), list(zip(*columns.values(), strict=True)), delimiter)}, []


def write_open_images_truths(truths: Truths) -> tuple[Output, list[Loss]]:
    """Fractions of the images' sizes; ignored ones are groups."""
    host = Host.of(truths)
    ignore = np.zeros(len(host), bool) if host.ignore is None else host.ignore
    rows = [
        (*row, "1" if flag else "0") for row, flag in zip(_open_images_rows(host, None), ignore.tolist(), strict=True)
    ]
    losses = [
        *host.flags_lost("truncated"),
        Loss(num=0 if host.area is None else len(host), what="area"),
        Loss(num=len(host.empty_images), what="image without boxes", plural="images without boxes"),
        Loss(num=len(host.empty_classes), what="class without boxes", plural="classes without boxes"),
        Loss(num=len(host.class_names or ()), what="class id"),
        Loss(num=0 if truths.is_numbered else len(set(host.image.tolist())), what="image id"),
    ]
    return {"": _written([*OPEN_IMAGES, "IsGroupOf"], rows, ",")}, losses


OPEN_IMAGES = ["ImageID", "LabelName", "Confidence", "XMin", "XMax", "YMin", "YMax"]


def write_open_images_detections(detections: Detections, truths: Truths) -> tuple[Output, list[Loss]]:
    """Fractions of the images' sizes, in order."""
    host = Host.of(detections, truths)
    header = ["ImageID", "LabelName", "Score", *OPEN_IMAGES[3:]]
    return {"": _written(header, _open_images_rows(host, host.scores.tolist()), ",")}, []


def _open_images_rows(host: Host, scores: list[float] | None) -> list[tuple[str, ...]]:
    box = host.fractions(host.corners())
    stems = host.stems()
    names = named_classes(host)
    return [
        (
            stems[image],
            names[label],
            "1" if scores is None else number(scores[row]),
            number(x1),
            number(x2),
            number(y1),
            number(y2),
        )
        for row, (image, label, (x1, y1, x2, y2)) in enumerate(
            zip(host.image.tolist(), host.label.tolist(), box.tolist(), strict=True)
        )
    ]


def _written(header: list[str], rows: list[tuple[str, ...]], delimiter: str) -> bytes:
    content = _quoted(header, rows, delimiter, csv.QUOTE_MINIMAL)
    # Python quotes a cell that has the end of a line in it, but not for "\r", which readers take for one, too.
    return (_quoted(header, rows, delimiter, csv.QUOTE_ALL) if "\r" in content else content).encode()


def _quoted(header: list[str], rows: list[tuple[str, ...]], delimiter: str, quoting: Any) -> str:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n", quoting=quoting)
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()
