"""Text files of Cartucho/mAP and review_object_detection_metrics: one file per image, one line per box.

A line is `class left top right bottom`. Detections have their confidence after the class. A truth to be ignored ends in
`difficult`. Coordinates are pixels, or fractions of the image.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore._support.image_file_names import base_of
from boxscore.data.geometry.boxes import look_like_fractions
from boxscore.formats.class_names import NAMES_FILES, find_yaml
from boxscore.formats.files import Source
from boxscore.formats.records import Options, Records, RowBuilder
from boxscore.formats.voc import is_image_set, is_result

_NO_BOXES = (*NAMES_FILES, "readme.txt", "license.txt", "requirements.txt", "train.txt", "val.txt", "test.txt")
_DIFFICULT = "difficult"
_MAX_FILES, _MAX_LINES = 100, 300
"""Maximum number of files and lines that are read to recognise the format."""


def recognises(source: Source, role: str) -> bool:
    """Whether the lines of a folder's files can only be of this format.

    YOLO's lines begin with an integer and have fractions: `class cx cy w h confidence`. So a class that is not an
    integer, or coordinates in pixels, mean this format.
    """
    rows = _sample(source) if source.is_folder else []
    if not rows:
        return False
    parsed = [each for words in rows if (each := _parsed(words, role)) is not None]
    if len(parsed) < len(rows):
        return False
    if not all(name.isdigit() for name, _, _ in parsed):
        return True
    if find_yaml(source, "names") or any("labels" in file.split("/")[:-1] for file in source.files(".txt")):
        return False  # YOLO's format, whatever the numbers are
    numbers = np.array([values for _, values, _ in parsed])
    box = numbers[:, -4:]
    are_corners = bool((box[:, :2] <= box[:, 2:]).all())
    are_scores = role == "truths" or bool((np.abs(numbers[:, 0]) <= 1).all())
    return are_corners and are_scores and not look_like_fractions(box, share=1)


def _files(source: Source) -> list[str]:
    files = [file for file in source.files(".txt") if not is_result(file) and not is_image_set(file)]
    return [file for file in files if base_of(file).lower() not in _NO_BOXES]


def _sample(source: Source) -> list[list[str]]:
    rows: list[list[str]] = []
    for file in _files(source)[:_MAX_FILES]:
        content = source.read(file)
        lines = content[:100_000].decode("utf-8-sig", "replace").splitlines()
        rows += [line.split() for line in (lines[:-1] if len(content) > 100_000 else lines) if line.strip()]
        if len(rows) >= _MAX_LINES or (rows and _is_yolo(rows[0])):
            break
    return rows


def _is_yolo(words: Sequence[str]) -> bool:
    """Whether a line has an integer and fractions, and so is certainly YOLO's."""
    return words[0].isdigit() and all(_is_number(word) and abs(float(word)) <= 1 for word in words[1:])


def _parsed(words: Sequence[str], role: str) -> tuple[str, list[float], bool] | None:
    """Parse the class, the numbers, and whether the line ends in `difficult`; None if the line is invalid.

    A class may have spaces in its name, so the numbers are counted from the end.
    """
    is_difficult = role == "truths" and len(words) > 5 and words[-1].lower() == _DIFFICULT
    words = words[:-1] if is_difficult else words
    num = 4 if role == "truths" else 5
    try:
        values = [float(word) for word in words[-num:]]
    except ValueError:
        return None
    name = words[:-num]
    if len(values) < num or not name or (len(name) > 1 and _is_number(name[0])):
        return None
    if role == "truths" and len(name) > 1 and _is_number(name[-1]) and abs(float(name[-1])) <= 1:
        return None  # the number is a confidence, so the line is a detection
    return " ".join(name), values, is_difficult


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def read_truths(source: Source, options: Options) -> Records:
    """Read the boxes of every file. Images and classes are numbered by name."""
    return Records(**_records(source, options, "truths"))


def read_detections(source: Source, options: Options) -> Records:
    """Read the boxes of every file with their scores."""
    return Records(**_records(source, options, "detections"))


def _records(source: Source, options: Options, role: str) -> dict[str, Any]:
    files = _files(source) if source.is_folder else [""]
    if not files:
        raise InputError(f"{source}: the folder has no text files (*.txt)")
    rows = RowBuilder(source, lambda file, line: f"{source.location(files[file])}: line {line}")
    for file, name in zip(files, source.image_names(files), strict=True):
        rows.begin(name)
        for line, content in source.lines(file):
            found = _parsed(content.split(), role)
            if found is None:
                raise InputError(f"{source.location(file)}: line {line} must be {_wanted(role)}; got {content[:80]!r}")
            rows.add(found[0], found[1], line, is_ignored=found[2])
    table = rows.values(4 if role == "truths" else 5)
    box = np.ascontiguousarray(table[:, -4:])
    is_inverted = (box[:, 2:] < box[:, :2]).any(axis=1)
    if options.box_format is None and is_inverted.any():
        row = int(np.argmax(is_inverted))
        rule = "must have left <= right and top <= bottom; if boxes are not corners, give their format as `box_format`"
        raise InputError(f"{rows.location(row)} {rule}; got {box[row].tolist()}")
    return {
        **rows.fields(),
        "box": box,
        "box_format": options.box_format or "xyxy",
        "score": np.ascontiguousarray(table[:, 0]) if role == "detections" else None,
        "ignore": rows.ignore if rows.ignore.any() else None,
        "is_normalized": look_like_fractions(box, share=1),
    }


def _wanted(role: str) -> str:
    if role == "truths":
        return "`class left top right bottom`, and `difficult` if it is to be ignored"
    return "`class confidence left top right bottom`"
