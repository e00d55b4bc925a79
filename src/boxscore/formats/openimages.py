"""Open Images' CSV: boxes as fractions of their image, classes by label or by their description."""

import csv
import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.formats.csv import encoded, header, is_open_images, read_table
from boxscore.formats.files import Output, Source, open_source
from boxscore.formats.records import Named, Options, Records
from boxscore.formats.tables import SCORES, detection_records, shown, truth_records
from boxscore.formats.writers import Host, Loss, named_classes, number
from boxscore.model.dataset import Detections, Truths

HEADER = ["ImageID", "LabelName", "Confidence", "XMin", "XMax", "YMin", "YMax"]


def recognises(source: Source, role: str) -> bool:
    """Whether the header is that of Open Images, with a score for detections."""
    return is_open_images(source) and (role == "truths" or not {*SCORES}.isdisjoint(header(source)))


def read_truths(source: Source, options: Options) -> Records:
    """The rows of an Open Images file as truths; a "group of" is ignored, as a crowd is."""
    return _fractions(truth_records(read_table(source), options), options)


def read_detections(source: Source, options: Options) -> Records:
    """The rows of an Open Images file as detections."""
    return _fractions(detection_records(read_table(source), options), options)


def _fractions(records: Records, options: Options) -> Records:
    label = records.label
    if options.names is not None and isinstance(label, Named):
        meaning = _descriptions(options.names)
        label = replace(label, names=[meaning.get(name, name) for name in label.names])
    return replace(records, label=label, is_normalized=True)


def _descriptions(path: Any) -> Mapping[str, str]:
    """Class names by Open Images' label, from a mapping or a file of two columns."""
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
    """Boxes as fractions of the images' sizes; ignored truths become groups."""
    host = Host.of(truths)
    ignore = np.zeros(len(host), bool) if host.ignore is None else host.ignore
    rows = [(*row, "1" if flag else "0") for row, flag in zip(_rows(host, None), ignore.tolist(), strict=True)]
    losses = [
        *host.masks_lost(),
        *host.flags_lost("truncated"),
        Loss(num=0 if host.area is None else len(host), what="area"),
        Loss(num=len(host.empty_images), what="image without boxes", plural="images without boxes"),
        Loss(num=len(host.empty_classes), what="class without boxes", plural="classes without boxes"),
        Loss(num=len(host.class_names or ()), what="class id"),
        Loss(num=0 if truths.is_numbered else len(set(host.image.tolist())), what="image id"),
    ]
    return {"": encoded([*HEADER, "IsGroupOf"], rows, ",")}, losses


def write_detections(detections: Detections, truths: Truths) -> tuple[Output, list[Loss]]:
    """Boxes as fractions of the images' sizes, in order."""
    host = Host.of(detections, truths)
    names = ["ImageID", "LabelName", "Score", *HEADER[3:]]
    return {"": encoded(names, _rows(host, host.scores.tolist()), ",")}, host.masks_lost()


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
