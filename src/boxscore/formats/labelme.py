"""LabelMe: one JSON file per image; rectangles, and polygons and circles by their bounds."""

import json
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore._support.text import count
from boxscore.formats.files import Source, base_of, stem_of
from boxscore.formats.records import Named, Options, Records, RowsWarning, locations


def recognises(source: Source, role: str) -> bool:
    """Whether it is a JSON file with `shapes`, or a folder of them."""
    if role != "truths":
        return False
    if not source.is_folder:
        return source.suffix == ".json" and _has_shapes(source.read())
    files = source.files(".json")
    return bool(files) and _has_shapes(source.read(files[0]))


def _has_shapes(content: bytes) -> bool:
    return b'"shapes"' in content and b'"annotations"' not in content[:2000]


def read_truths(source: Source, options: Options) -> Records:  # noqa: ARG001
    """The shapes in a folder of files. Images are numbered by name, classes alphabetically."""
    files = source.files(".json") if source.is_folder else [""]
    if not files:
        raise InputError(f"{source}: the folder has no LabelMe files (.json)")
    names, labels, boxes, ignore, rows, offsets = [], [], [], [], [], [0]
    sizes: dict[str, tuple[int, int]] = {}
    num_other = 0
    for file in files:
        location = source.location(file)
        data = _load(source.read(file), location)
        name = base_of(str(data.get("imagePath") or stem_of(file or source.name)))
        names.append(name)
        width, height = data.get("imageWidth"), data.get("imageHeight")
        if type(width) is int and type(height) is int and 0 < min(width, height) <= max(width, height) < 10**9:
            sizes[name] = (width, height)
        for row, shape in enumerate(data["shapes"]):
            where = f"{location}: shape {row}"
            if not isinstance(shape, dict) or not isinstance(shape.get("label"), str):
                raise InputError(f"{where} must have a label, a text; got {_short(shape)}")
            box = _bounds(shape, where)
            if box is None:
                num_other += 1
                continue
            labels.append(shape["label"])
            boxes.append(box)
            ignore.append(bool(shape.get("difficult", False)))
            rows.append(row)
        offsets.append(len(boxes))
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{source}: files must be of different images; got {name!r} more than once")
    if num_other:
        what = f"{count(num_other, 'shape')} other than rectangle, polygon and circle"
        fate = "they are left out"
        message = f"{source}: {what} left out"
        warnings.warn(RowsWarning(message, num=num_other, what=what, fate=fate, location=str(source)), stacklevel=4)
    file_of = locations(offsets[:-1], lambda file, _: source.location(files[file]))
    return Records(
        image=Named(code=np.repeat(np.arange(len(files)), np.diff(offsets)), names=names),
        label=Named.of(labels),
        box=np.array(boxes, np.float64).reshape(-1, 4),
        box_format="xyxy",
        ignore=np.array(ignore, bool),
        location=lambda row: f"{file_of(row)}: shape {rows[row]}",
        source=str(source),
        image_sizes=sizes,
    )


def _load(content: bytes, location: str) -> dict[str, Any]:
    try:
        data = json.loads(content.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{location}: not JSON: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("shapes"), list):
        raise InputError(f"{location}: must be an object with a list of `shapes`; got {type(data).__name__}")
    return data


def _bounds(shape: dict[str, Any], location: str) -> Sequence[float] | None:
    kind = shape.get("shape_type") or "polygon"
    if kind not in ("rectangle", "polygon", "circle", "mask", "rotation"):
        return None
    points = shape.get("points")
    pairs = points if isinstance(points, list) else []
    is_fine = all(isinstance(p, list) and len(p) == 2 and all(type(x) in (int, float) for x in p) for p in pairs)
    if len(pairs) < 2 or not is_fine:
        raise InputError(f"{location}: `points` must be at least 2 pairs of numbers; got {_short(points)}")
    try:
        pairs = [[float(x), float(y)] for x, y in pairs]
    except OverflowError:
        raise InputError(f"{location}: `points` has a number that is too large") from None
    if kind == "circle":
        (x, y), edge = pairs[0], pairs[1]
        radius = math.dist((x, y), edge)
        return x - radius, y - radius, x + radius, y + radius
    x, y = zip(*pairs, strict=True)
    return min(x), min(y), max(x), max(y)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
