"""Ultralytics' predictions.json: COCO results with other class ids, and with oriented boxes.

| validated | category_id |
|---|---|
| COCO's val2017 (or LVIS) | COCO's ids, 1 to 90 with ten gaps |
| any other dataset | the index of the class in data.yaml, plus 1 |
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.data.geometry.box_formats import BoxFormat, row_size
from boxscore.data.geometry.oriented_boxes import OrientedRows
from boxscore.formats.files import Source, is_json_number, parse_json
from boxscore.formats.records import Named, Records
from boxscore.formats.selection import Rule, some
from boxscore.formats.tables import shown

_FIRST_ROW = re.compile(rb'\s*\[\s*\{\s*"image_id"\s*:\s*(?:"(?:[^"\\]|\\.)*"|\d+)\s*,\s*"file_name"\s*:')
"""The beginning of the file; no other tool is known to write `file_name` there."""
_ORIENTED = re.compile(rb'"rbox"\s*:')
_COCO_GAPS = frozenset((12, 26, 29, 30, 45, 66, 68, 69, 71, 83))
_COCO_IDS = [number for number in range(1, 91) if number not in _COCO_GAPS]
_KEYS: dict[str, BoxFormat] = {"poly": "xyxyxyxy", "rbox": "cxcywha:radians"}
"""Box formats of oriented boxes by key."""


def is_from_ultralytics(source: Source) -> bool:
    """Whether the first result looks like one written by Ultralytics."""
    return source.head is not None and _FIRST_ROW.match(source.head) is not None


def are_oriented_results(source: Source) -> bool:
    """Whether the first results are oriented boxes written by Ultralytics."""
    return is_from_ultralytics(source) and _ORIENTED.search((source.head or b"")[:2000]) is not None


def class_rule(ids: Iterable[int], known: Mapping[int, str], source: str) -> Rule | None:
    """A rule from the file's ids to labels, for truths whose classes are numbered from 0 on, as in data.yaml.

    None if the ids can't be Ultralytics', or the truths' classes are not numbered from 0 on: ids are then compared
    unchanged. Ids that may be COCO's as well as indices plus 1 are an error.

    >>> rule = class_rule([1, 2], {0: "cat", 1: "dog"}, "predictions.json")
    >>> rule(2)
    1
    """
    num, given = len(known), {*ids}
    if not given or {*known} != {*range(num)} or min(given) < 1:
        return None
    if num != len(_COCO_IDS):
        return (lambda value: int(value) - 1) if max(given) <= num else None
    has_gaps, has_large = bool(given & _COCO_GAPS), max(given) > num
    if has_large:
        label_of = {number: label for label, number in enumerate(_COCO_IDS)}
        return None if has_gaps or max(given) > _COCO_IDS[-1] else lambda value: label_of.get(int(value))
    if not has_gaps and max(given) > 11:  # the first eleven ids mean the same in both
        advice = "give `map_classes`, such as 1:0,2:1"
        raise InputError(
            f"{source}: category ids ({some(sorted(given), 3)}) may be COCO's, or indices plus 1; {advice}"
        )
    return lambda value: int(value) - 1


def read_oriented(source: Source, box_format: BoxFormat | None) -> Records:
    """Read the oriented boxes of the file: corners, or centres, sizes and angles if `box_format` says so."""
    rows = parse_json(source.text(), str(source))
    key = next((key for key, each in _KEYS.items() if each == box_format), "poly")
    columns = [_row_of(row, key, f"{source}: result {index}") for index, row in enumerate(rows)]
    images, labels, scores, boxes = zip(*columns, strict=True)
    return Records(
        image=_images(images),
        label=np.array(labels, np.int64),
        score=np.array(scores, np.float64),
        **OrientedRows(np.array(boxes, np.float64), _KEYS[key]).fields(),
        location=lambda row: f"{source}: result {row}",
        source=str(source),
        terms={"boxes": key},
        has_ultralytics_ids=True,
    )


def _row_of(row: Any, key: str, place: str) -> tuple[Any, int, float, list[float]]:
    """Image, class, score and box of a result."""
    if not isinstance(row, dict) or not {"image_id", "category_id", "score", key} <= row.keys():
        rule = f"must have `image_id`, `category_id`, `score` and `{key}`"
        raise InputError(f"{place} {rule}, as Ultralytics writes oriented boxes")
    image, label, score, box = row["image_id"], row["category_id"], row["score"], row[key]
    num = row_size(_KEYS[key])
    rules = (
        ("image_id", isinstance(image, str) or _is_id(image), "an integer, or the stem of a file name"),
        ("category_id", _is_id(label), "an integer"),
        ("score", is_json_number(score), "a number"),
        (key, isinstance(box, list) and len(box) == num and all(map(is_json_number, box)), f"{num} numbers"),
    )
    for name, is_valid, rule in rules:
        if not is_valid:
            raise InputError(f"{place}: `{name}` must be {rule}; got {shown(row[name])}")
    return image, label, float(score), [float(number) for number in box]


def _is_id(value: Any) -> bool:
    """Whether a value is an integer that fits in 63 bits."""
    return type(value) is int and value.bit_length() < 64


def _images(values: Sequence[Any]) -> Any:
    """The column of images: integer ids, or stems."""
    if all(isinstance(value, int) for value in values):
        return np.array(values, np.int64)
    return Named.of([str(value) for value in values])
