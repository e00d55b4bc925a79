"""COCO's files read with Python's json: the oracle of the compiled reader."""

import json
import math
from typing import Any

import numpy as np
from pycocotools import mask

from boxscore import InputError, _compiled
from boxscore.data.geometry.masks import Masks, Polygons

PARTS = ("keypoints", "foot_kpts", "face_kpts", "lefthand_kpts", "righthand_kpts")
"""The keys of keypoints, in the order of their points."""

SCORES = ("wholebody_score", "foot_score", "face_score", "lefthand_score", "righthand_score")

KEYS = {
    "annotations": {
        "image_id",
        "category_id",
        "bbox",
        "score",
        "area",
        "iscrowd",
        "id",
        "segmentation",
        "num_keypoints",
        *PARTS,
        *SCORES,
    },
    "images": {
        *("id", "file_name", "coco_url", "width", "height", "crowdIndex"),
        *("neg_category_ids", "not_exhaustive_category_ids"),
    },
    "categories": {"id", "name", "frequency"},
}


class Number(str):
    """A number as the file spells it."""


class Whole(Number):
    """An integer as the file spells it."""


class Record(dict[str, Any]):
    """An object, and which of its keys came twice."""

    twice: set[str]


def _record(pairs: list[tuple[str, Any]]) -> Record:
    record = Record(pairs)
    names = [name for name, _ in pairs]
    record.twice = {name for name in record if names.count(name) > 1}
    return record


def _refuse(name: str) -> Any:
    raise InputError(f"{name} is not JSON")


def _need(is_valid: bool) -> None:
    if not is_valid:
        raise InputError("refused")


def reference(content: bytes, shapes: str = "boxes") -> dict[str, Any]:
    """The attributes that `_compiled.read_coco_bytes` must give, or InputError; masks as pycocotools has them."""
    try:
        text = content.decode("utf-8-sig")
        found = json.loads(text, object_pairs_hook=_record, parse_constant=_refuse, parse_float=Number, parse_int=Whole)
    except (ValueError, RecursionError):
        raise InputError("not JSON") from None
    _need(isinstance(found, dict | list))
    if isinstance(found, list):
        flags = {"is_dataset": False, "has_annotations": False}
        return flags | {"boxes": _boxes(found, shapes), "images": None, "categories": None}
    _need(not found.twice & set(KEYS))
    return {
        "is_dataset": True,
        "has_annotations": "annotations" in found,
        "boxes": _boxes(found.get("annotations", []), shapes),
        "images": _images(found["images"]) if "images" in found else None,
        "categories": _categories(found["categories"]) if "categories" in found else None,
    }


def _rows(rows: Any, kind: str) -> Any:
    _need(isinstance(rows, list))
    for row in rows:
        _need(isinstance(row, Record))
        _need(not row.twice & KEYS[kind])
    return rows


def _number(value: Any) -> float:
    _need(isinstance(value, Number))
    number = float(value)
    _need(math.isfinite(number))
    return number


def _whole(value: Any) -> int:
    _need(isinstance(value, Whole))
    _need(len(value) < 30)
    _need(-(2**63) <= int(value) < 2**63)
    return int(value)


def _text(value: Any) -> str:
    _need(isinstance(value, str) and not isinstance(value, Number))
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError("half a surrogate pair") from None
    return str(value)


def _ids(values: list[Any]) -> tuple[Any, Any]:
    """Integers, or indices and names."""
    if not values or isinstance(values[0], Number) or not isinstance(values[0], str):
        return np.array([_whole(value) for value in values], np.int64), None
    names = [_text(value) for value in values]
    indices = {name: index for index, name in enumerate(dict.fromkeys(names))}
    return np.array([indices[name] for name in names], np.int64), list(indices)


def _optional(rows: Any, key: str, read: Any, missing: Any, dtype: str) -> Any:
    if not any(key in row for row in rows):
        return None
    return np.array([read(row[key]) if key in row else missing for row in rows], dtype)


def _flag(value: Any) -> int:
    _need(isinstance(value, bool) or (isinstance(value, Whole) and value in ("0", "1", "-0")))
    return int(value)


SIZE = (20, 30)
"""Height and width of the images of polygons."""


def segmentation(value: Any) -> dict[str, Any]:
    """A mask as pycocotools has it, with its runs in order; InputError if there is anything wrong with it."""
    if isinstance(value, list):
        _need(bool(value))
        for part in value:
            _need(isinstance(part, list) and len(part) > 0 and len(part) % 2 == 0)
        parts = [[_number(number) for number in part] for part in value]
        _need(all(abs(number) <= 4e8 for part in parts for number in part))
        polygons = [
            [*part, *part[:2], *part[:2], *part[:2]] for part in parts
        ]  # pycocotools wants more than four numbers
        return dict(mask.merge(mask.frPyObjects(polygons, *SIZE)))
    _need(isinstance(value, Record) and {"size", "counts"} <= set(value) and not value.twice & {"size", "counts"})
    size, counts = value["size"], value["counts"]
    _need(isinstance(size, list) and len(size) == 2)
    height, width = (_number(side) for side in size)
    _need(height >= 0 and width >= 0 and height.is_integer() and width.is_integer() and height * width < 2**32)
    _need(max(height, width) < 2**32)
    runs = [_whole(count) for count in counts] if isinstance(counts, list) else _compressed(_text(counts))
    _need(all(run >= 0 for run in runs) and sum(runs) == height * width)
    for index in range(len(runs) - 1, 0, -1):  # a run without pixels joins those beside it
        if runs[index] == 0:
            runs[index - 1 : index + 2] = [sum(runs[index - 1 : index + 2])]
    return {"size": [int(height), int(width)], "counts": compress(runs)}


def compress(runs: list[int]) -> bytes:
    """Counts as text. pycocotools' own writes beyond its memory if there is one count of 2**29 or more."""
    text = bytearray()
    for index, run in enumerate(runs):
        value = run - (runs[index - 2] if index > 2 else 0)
        while not -16 <= value < 16:
            text.append(48 + 32 + (value & 31))
            value >>= 5
        text.append(48 + (value & 31))
    return bytes(text)


def _compressed(text: str) -> list[int]:
    """Counts of five bits per character."""
    runs: list[int] = []
    value, shift = 0, 0
    for character in text:
        code = ord(character) - 48
        _need(0 <= code < 64 and shift < 35)
        value |= (code & 31) << shift
        shift += 5
        if code & 32:
            continue
        value -= (1 << shift) * bool(code & 16)
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
        _need(runs[-1] >= 0)
        value, shift = 0, 0
    _need(shift == 0)
    return runs


def _keypoints(rows: Any) -> dict[str, Any] | None:
    """Points in one array, the third numbers in another, the boxes around the points of the body."""
    table: list[tuple[Any, Any]] = []
    for row in rows:
        _need("keypoints" in row)
        parts = [row[key] for key in PARTS if key in row]
        _need(len(parts) in (1, len(PARTS)))
        for part in parts:
            _need(isinstance(part, list) and len(part) > 0 and len(part) % 3 == 0)
        numbers = np.array([[_number(number) for number in part] for part in parts[:1]]).reshape(-1, 3)
        every = np.array([_number(number) for part in parts for number in part]).reshape(-1, 3)
        _need(not table or len(every) == len(table[0][0]))
        low, high = numbers[:, :2].min(0), numbers[:, :2].max(0)
        with np.errstate(over="ignore"):
            table.append((every, [*low, *(high - low)]))
    num_labelled = _optional(rows, "num_keypoints", _number, math.nan, "float64")
    if not table:
        return None
    return {
        "point": np.array([every[:, :2].reshape(-1) for every, _ in table]),
        "third": np.array([every[:, 2] for every, _ in table]),
        "around": np.array([box for _, box in table]),
        "num_labelled": num_labelled,
    }


def _boxes(rows: Any, shapes: str) -> dict[str, Any]:
    has_masks, has_keypoints = shapes == "masks", shapes == "keypoints"
    rows = _rows(rows, "annotations")
    masks: list[dict[str, Any]] = []
    boxes: list[list[float]] = []
    areas: list[float] = []
    for row in rows:
        _need({"image_id", "category_id"} <= set(row))
        given = row.get("bbox")
        if has_masks:
            _need("segmentation" in row)
            masks.append(segmentation(row["segmentation"]))
        elif given is None and "bbox" not in row and not has_keypoints:
            _need(isinstance(row.get("segmentation"), Record))
            alone = segmentation(row["segmentation"])
            given = [Number(number) for number in _outer_box(alone)]
        is_needed = not has_masks and not has_keypoints
        if "bbox" in row or is_needed:
            _need(isinstance(given, list) and len(given) == 4)
        areas.append(float(mask.area(alone)) if "bbox" not in row and is_needed else math.nan)
        boxes.append([math.nan] * 4 if given is None else [_number(number) for number in given])
    num_scored = sum("score" in row for row in rows)
    _need(num_scored in (0, len(rows)))
    image, names = _ids([row["image_id"] for row in rows])
    has_ids = all(
        isinstance(row.get("id"), Whole) and len(row["id"]) < 30 and -(2**63) <= int(row["id"]) < 2**63 for row in rows
    )
    return {
        "image": image,
        "image_names": names,
        "category": np.array([_whole(row["category_id"]) for row in rows], np.int64),
        "box": np.array(boxes, np.float64).reshape(-1, 4),
        "mask_area": None if has_keypoints or all("bbox" in row for row in rows) else np.array(areas),
        "score": _optional(rows, "score", _number, math.nan, "float64"),
        "area": _optional(rows, "area", _number, math.nan, "float64"),
        "num_flagged": sum("iscrowd" in row for row in rows),
        "first_ignored": next((i for i, row in enumerate(rows) if _is_set(row.get("ignore"))), None),
        "is_crowd": _optional(rows, "iscrowd", _flag, 0, "uint8"),
        "id": np.array([int(row["id"]) for row in rows], np.int64) if has_ids and rows else None,
        "segmentations": masks or None,
        "keypoints": _keypoints(rows) if has_keypoints else None,
        "oriented": None,
        "has_boxes": True,  # until rows are completed
    }


def _is_set(value: Any) -> bool:
    """Whether Python calls a value true; a number that is too small for a float is not 0."""
    return bool(value.lower().partition("e")[0].strip("-0.") if isinstance(value, Number) else value)


def _images(rows: Any) -> dict[str, Any]:
    rows = _rows(rows, "images")
    for row in rows:
        _need("id" in row)
    ids, names = _ids([row["id"] for row in rows])

    def size(value: Any) -> float:
        return math.nan if value is None else _number(value)

    sides = [(size(row.get("width")), size(row.get("height"))) for row in rows]
    are_valid = [all(0 < side < 1e9 and side.is_integer() for side in pair) for pair in sides]
    return {
        "id": ids,
        "names": names,
        "file_name": [_name(row) for row in rows],
        "width": np.array([size(row.get("width")) for row in rows], np.float64),
        "height": np.array([size(row.get("height")) for row in rows], np.float64),
        "size": np.array([pair if is_valid else (0, 0) for pair, is_valid in zip(sides, are_valid, strict=True)])
        .reshape(-1, 2)
        .astype(np.int64),
        "crowd_index": np.array([size(row.get("crowdIndex")) for row in rows], np.float64),
        "negative": _lists(rows, "neg_category_ids"),
        "not_exhaustive": _lists(rows, "not_exhaustive_category_ids"),
    }


def _name(row: Record) -> str:
    """The file's name, or the last part of the address."""
    name, url = ("" if row.get(key) is None else _text(row[key]) for key in ("file_name", "coco_url"))
    return name or url.rpartition("/")[2]


def _lists(rows: list[Record], key: str) -> tuple[Any, Any, Any] | None:
    """All ids, the end of each row's, and whether a row has a list; None if none has."""
    lists = []
    for row in rows:
        given = row.get(key)
        _need(given is None or type(given) is list)
        lists.append(None if given is None else [_whole(each) for each in given])
    if all(each is None for each in lists):
        return None
    return (
        np.array([value for each in lists for value in each or ()], np.int64),
        np.cumsum([len(each or ()) for each in lists], dtype=np.int64),
        np.array([each is not None for each in lists], np.uint8),
    )


def _categories(rows: Any) -> dict[str, Any]:
    rows = _rows(rows, "categories")
    for row in rows:
        _need({"id", "name"} <= set(row))
    ids = [_whole(row["id"]) for row in rows]
    _need(len(set(ids)) == len(ids))
    frequency = ["" if row.get("frequency") is None else _text(row["frequency"]) for row in rows]
    return {"id": np.array(ids, np.int64), "name": [_text(row["name"]) for row in rows], "frequency": frequency}


def same(found: Any, expected: Any) -> bool:
    """Whether an object has the expected attributes, every bit of every number."""
    if isinstance(found, _compiled.CocoSegmentations):
        return isinstance(expected, list) and same_masks(found, expected)
    if isinstance(expected, dict):
        names = {name for name in dir(found) if not name.startswith("_") and not callable(getattr(found, name))}
        return names == set(expected) and all(same(getattr(found, key), value) for key, value in expected.items())
    if isinstance(expected, tuple):
        return isinstance(found, tuple) and all(same(*pair) for pair in zip(found, expected, strict=True))
    if isinstance(expected, np.ndarray):
        return (
            isinstance(found, np.ndarray)
            and found.dtype == expected.dtype
            and found.shape == expected.shape
            and np.array_equal(np.isnan(found), np.isnan(expected))
            and np.array_equal(found[~np.isnan(found)].view(np.uint8), expected[~np.isnan(expected)].view(np.uint8))
        )
    return type(found) is type(expected) and bool(found == expected)


def same_masks(found: Any, expected: list[dict[str, Any]]) -> bool:
    """Whether segmentations are the masks that pycocotools has, with their areas and boxes."""
    drawn = _drawn(found)
    counts, start = drawn.counts.tobytes(), drawn.start.tolist()
    return (
        [counts[start[row] : start[row + 1]] for row in range(len(drawn))] == [each["counts"] for each in expected]
        and drawn.sizes.tolist() == [each["size"] for each in expected]
        and np.array_equal(drawn.area, mask.area(expected))
        and np.array_equal(drawn.box, [_outer_box(each) for each in expected])
    )


def _drawn(found: Any) -> Any:
    """The masks of segmentations, with polygons drawn in images of one size."""
    if not found.has_polygons:
        return found.masks
    points, part_start, mask_start = found.polygons()
    outlines = Polygons(points=points, part_start=part_start, mask_start=mask_start)
    read, rows = Masks(runs=found.masks), []
    for row, is_outlined in enumerate(outlines.has_parts.tolist()):
        own = outlines.take(np.array([row]))
        rows.append(Masks.from_polygons(own, [SIZE]) if is_outlined else read.take([row]))
    return Masks.concatenate(rows).runs


def _outer_box(encoded: dict[str, Any]) -> list[float]:
    """Zeros around nothing, where pycocotools may have other numbers."""
    return list(mask.toBbox(encoded)) if mask.area(encoded) else [0.0] * 4


def check(
    content: bytes,
    threads: tuple[int, ...] = (1, 2, 3, 8),
    sizes: tuple[int, ...] = (1, 7, 64, 1 << 18),
    shapes: str = "boxes",
) -> bool:
    """Whether the content is valid. However it is cut for however many threads, it is read, or refused, alike."""
    wanted = getattr(_compiled.CocoShapes, shapes)
    expected: dict[str, Any] | None
    try:
        expected = reference(content, shapes)
    except InputError:
        expected = None
    messages = set()
    for num_threads in threads:
        for size in sizes:
            try:
                found = _compiled.read_coco_bytes(content, num_threads, size, wanted)
            except _compiled.CocoError as error:
                found = None
                messages.add(str(error))
            assert same(found, expected), f"{content!r} on {num_threads} threads, by {size} bytes: {messages}"
    assert len(messages) <= 1, messages
    return expected is not None
