"""The page of label errors: a picture of each of the first cases, and a table of all."""

import base64
import json
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import boxscore
from boxscore.analysis.label_review import CONTRADICTED, KINDS, LabelErrors
from boxscore.arrays import to_numpy
from boxscore.data.dataset import Truths, host_ids, host_scores
from boxscore.data.geometry import Geometry
from boxscore.report.compact import cut, rounded
from boxscore.report.gallery import Gallery, Problem, problem_notes, shape_values, size_notes
from boxscore.report.html import render
from boxscore.report.image_files import Photo, UnreadableImageError, read_photo
from boxscore.report.paths import paths_of
from boxscore.report.pictures import DrawnShape, known_size
from boxscore.result.curves import Floats
from boxscore.result.result import inputs_of

NUM_CASES = 60
"""The default number of pictures."""

MAX_ROWS = 5_000
"""Maximum number of cases in the table of a page."""

SIDES = (480, 360, 240)
"""The longest sides to try, in pixels, until a picture has few enough bytes."""

LARGEST = 4096
"""Images with more pixels than this in a direction are reduced before cropping."""

MARGIN, LEAST = 0.6, 40
"""Margin around a case: a multiple of its longer side, and a minimum in pixels."""

SCRIPTS = ("elements.js", "tables.js", "sections.js", "theme.js", "label_errors.js")

SHAPES = {"matched": "other truth", "missed": "truth in question", "false": "detection"}
"""The shapes of a picture, with the colours and dashes of a report."""

MARKS = {"missed": "label: ", "false": "suggested: "}


def make_page(errors: LabelErrors, *, title: str, made_from: Mapping[str, str], gallery: Gallery | None) -> str:
    """Render the page as HTML."""
    protocol = errors.results[0].protocol
    first = errors.first(MAX_ROWS)
    contents = {
        "title": title,
        "headline": f"{len(errors):,} suspicious labels.",
        "subtitle": f"{protocol.title}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, boxscore {boxscore.__version__}",
        "num_models": len(errors.results),
        "kinds": {
            kind: {"name": kind.replace("_", " "), "meaning": meaning, "num": errors.kind.count(kind)}
            for kind, meaning in KINDS.items()
            if kind in (*CONTRADICTED, *errors.kind)
        },
        "rows": [_row_values(row) for row in first.rows()],
        "left_out": len(errors) - len(first),
        "made": [*made_from.items(), ("protocol", protocol.title), ("models", str(len(errors.results)))],
    }
    if gallery is not None:
        contents["pictures"] = _pictures(first, gallery)
    return render(contents, "", SCRIPTS)


def _row_values(row: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: None if row[name] is None else cut(row[name]) for name in ("name", "label", "suggested_label")}
    numbers = {name: row[name] for name in ("kind", "num_models", "truth")}
    return {**numbers, **texts, "suspicion": rounded(row["suspicion"])}


def _pictures(errors: LabelErrors, gallery: Gallery) -> dict[str, Any]:
    """One picture per case: the part of the image around it."""
    truths = inputs_of(errors.results[0], "`label_errors`").truths
    share = gallery.max_bytes // max(1, min(gallery.num, len(errors)))
    problems: list[Problem] = []
    too_large: list[str] = []
    items = []

    @lru_cache(maxsize=4)
    def photo_of(image: int) -> Photo | Problem:
        names = truths.image_names or {}
        path = gallery.folder.find(image, names.get(image))
        if path is None:
            return Problem(str(names.get(image, image)), None, "has no file, or several")
        return _read(path, known_size(truths, image))

    for row in range(min(gallery.num, len(errors))):
        photo = photo_of(int(errors.image[row]))
        if isinstance(photo, Problem):
            problems.append(photo)
        elif (item := _item(errors, row, photo, share)) is None:
            too_large.append(errors.name[row])
        else:
            items.append(item)
    notes = problem_notes(problems, gallery.folder, "cases")
    for note in notes:
        warnings.warn(note, UserWarning, stacklevel=2)
    notes += size_notes(too_large, gallery, "cases")
    return {"items": items, "kinds": SHAPES, "marks": MARKS, "notes": notes}


def _read(path: Path, size: tuple[int, int] | None) -> Photo | Problem:
    try:
        return read_photo(path, size, LARGEST)
    except UnreadableImageError as error:
        return Problem(path.name, str(path), str(error))


def _item(errors: LabelErrors, row: int, photo: Photo, share: int) -> dict[str, Any] | None:
    """A picture of at most `share` bytes; None if even the smallest has more."""
    truths = inputs_of(errors.results[0], "`label_errors`").truths
    unit = np.array(photo.size if truths.is_normalized else (1, 1), np.float64)
    window = _window(errors, row, photo.size, unit)
    part = photo.cropped(*window.tolist())
    for longest in SIDES:
        jpeg, drawn = part.as_jpeg(longest)
        scale = np.asarray(drawn) / (window[2:] - window[:2])
        shapes = _shapes(errors, row, truths, (scale * unit, window.reshape(2, 2) / unit))
        described = {
            "name": cut(errors.name[row]),
            "width": drawn[0],
            "height": drawn[1],
            "jpeg": base64.b64encode(jpeg).decode(),
            "notes": list(photo.notes),
        }
        item = {"row": row, "image": described, "shapes": [shape_values(shape, drawn) for shape in shapes]}
        if len(json.dumps(item, separators=(",", ":"))) <= share:
            return item
    return None


def _window(errors: LabelErrors, row: int, size: tuple[int, int], unit: Floats) -> Floats:
    """The part of the image around a case, in whole pixels: left, top, right, bottom."""
    boxes = np.stack([errors.truth_box[row], errors.suggested_box[row]]).reshape(2, 2, 2) * unit
    low, high = np.nanmin(boxes[:, 0], axis=0), np.nanmax(boxes[:, 1], axis=0)
    margin = max(LEAST, MARGIN * float((high - low).max()))
    end = np.array(size, np.float64)
    low = np.clip(np.floor(low - margin), 0, end - 1)
    high = np.clip(np.ceil(high + margin), low + 1, end)
    return np.concatenate([low, high])


def _shapes(errors: LabelErrors, row: int, truths: Truths, view: tuple[Floats, Floats]) -> list[DrawnShape]:
    """Other truths, the truth in question, and the detection.

    `view`: drawn pixels per unit of the shapes, (2,), and the corners of the window in these units, (2, 2).
    """
    scale, (low, high) = view

    def drawn(geometry: Geometry, index: int, kind: str, label: int, score: float | None) -> DrawnShape:
        sketch, name = geometry.sketch(index), errors.name_of(label) or ""
        return DrawnShape(kind, name, score, paths_of(sketch, scale, low), sketch.is_area)

    shapes = []
    labels = host_ids(truths.labels)
    for index in np.flatnonzero(host_ids(truths.image_ids) == errors.image[row]).tolist():
        ends = to_numpy(truths.geometry.take([index]).outer_boxes())[0].reshape(2, 2)
        is_inside = bool(((ends[1] >= low) & (ends[0] <= high)).all())
        if index != errors.truth[row] and is_inside:
            shapes.append(drawn(truths.geometry, index, "matched", int(labels[index]), None))
    if (index := int(errors.truth[row])) >= 0:
        shapes.append(drawn(truths.geometry, index, "missed", int(labels[index]), None))
    if (index := int(errors.detection[row])) >= 0:
        detections = inputs_of(errors.results[int(errors.model[row])], "`label_errors`").detections
        score = float(host_scores(detections.scores)[index])
        shapes.append(drawn(detections.geometry, index, "false", int(errors.suggested_label[row]), score))
    return shapes
