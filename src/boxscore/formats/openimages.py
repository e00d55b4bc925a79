"""Open Images' CSV: boxes as fractions of their image, classes by label or by their description."""

import csv
import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.arrays import to_numpy
from boxscore.data.dataset import Detections, Truths
from boxscore.formats.csv import encoded, header, is_open_images, read_table
from boxscore.formats.files import Output, Source, open_source
from boxscore.formats.records import Named, Options, Records
from boxscore.formats.tables import SCORES, boxes_only, detection_records, shown, truth_records
from boxscore.formats.writers import Host, Loss, named_classes, number
from boxscore.protocol.comparable import NOT_EXPANDED
from boxscore.protocol.protocol import DIFFICULT, GROUP, REGULAR

GROUPS = "isgroupof"
"""The column of group flags: 1, 0, or -1 for unknown."""

HEADER = ["ImageID", "LabelName", "Confidence", "XMin", "XMax", "YMin", "YMax"]


def recognises(source: Source, role: str) -> bool:
    """Whether the header has Open Images' columns and, for detections, a score."""
    return is_open_images(source) and (role == "truths" or not {*SCORES}.isdisjoint(header(source)))


def read_truths(source: Source, options: Options) -> Records:
    """Read the rows of an Open Images file as truths; rows with `IsGroupOf` 1 are groups, of kind 3."""
    table = read_table(source)
    records = _fractions(truth_records(table, options), options)
    if options.hierarchy is None:
        records = replace(records, subset=(NOT_EXPANDED,))
    if GROUPS not in table.columns:
        return records
    is_group = boxes_only(table).flags(GROUPS) == 1
    if not is_group.any():
        return records
    # `truth_records` took the column for `ignore` if the file has no other column for it.
    is_ignored = (records.ignore == 1) & ~is_group if records.ignore is not None else np.zeros(len(records), bool)
    kind = np.where(is_group, GROUP, np.where(is_ignored, DIFFICULT, REGULAR)).astype(np.uint8)
    return replace(records, ignore=None, kind=kind)


def read_detections(source: Source, options: Options) -> Records:
    """Read the rows of an Open Images file as detections."""
    return _fractions(detection_records(read_table(source), options), options)


def _fractions(records: Records, options: Options) -> Records:
    label = records.label
    if options.names is not None and isinstance(label, Named):
        label = renamed(label, read_descriptions(options.names))
    return replace(records, label=label, is_normalized=True)


def renamed(label: Named, meaning: Mapping[str, str]) -> Named:
    """Replace labels by their descriptions; labels without one stay."""
    return Named.of([meaning.get(name, name) for name in label.names])[label.code]


def read_descriptions(path: Any) -> Mapping[str, str]:
    """Read class names by Open Images' label from a mapping or a file of two columns."""
    if isinstance(path, Mapping):
        return path
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


def write_truths(truths: Truths) -> tuple[Output, list[Loss]]:
    """Write boxes as fractions of the images' sizes; groups have `IsGroupOf` 1."""
    host = Host.of(truths)
    is_group = np.zeros(len(host), bool) if truths.kind is None else to_numpy(truths.kind) == GROUP
    rows = [(*row, "1" if flag else "0") for row, flag in zip(_rows(host, None), is_group.tolist(), strict=True)]
    losses = [
        *host.shapes_lost(),
        *host.lost("crowd index", "ignore flag", "truncated flag", "area"),
        *host.lost("image without boxes", "class without boxes", "class id"),
        Loss(num=0 if truths.is_numbered else len(set(host.image.tolist())), what="image id"),
    ]
    return {"": encoded([*HEADER, "IsGroupOf"], rows, ",")}, losses


def write_detections(detections: Detections, truths: Truths) -> tuple[Output, list[Loss]]:
    """Write boxes as fractions of the images' sizes, in order."""
    host = Host.of(detections, truths)
    names = ["ImageID", "LabelName", "Score", *HEADER[3:]]
    return {"": encoded(names, _rows(host, host.scores.tolist()), ",")}, host.shapes_lost()


def _rows(host: Host, scores: list[float] | None) -> list[tuple[str, ...]]:
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
