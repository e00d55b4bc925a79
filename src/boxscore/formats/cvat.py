"""CVAT for images 1.1: one XML file with every image, its boxes and polygons."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from boxscore.errors import InputError
from boxscore.formats import xml
from boxscore.formats.files import Source
from boxscore.formats.records import Named, Options, Records, RowsWarning, places
from boxscore.text import count

_CORNERS = ("xtl", "ytl", "xbr", "ybr")
_OTHER_SHAPES = ("polyline", "points", "cuboid", "ellipse", "mask", "skeleton")


def recognises(source: Source, role: str) -> bool:
    """Whether it is an XML file with <annotations>, or a folder with such an annotations.xml."""
    if role != "truths":
        return False
    file = _file(source)
    return file is not None and b"<annotations" in source.read(file)[:4000]


def _file(source: Source) -> str | None:
    if not source.is_folder:
        return "" if source.suffix == ".xml" else None
    return next((file for file in source.files(".xml") if file == "annotations.xml"), None)


def read_truths(source: Source, options: Options) -> Records:  # noqa: ARG001
    """The boxes of every image, polygons and turned boxes by their bounds. Classes in the order of the file's list."""
    file = _file(source)
    if file is None:
        raise InputError(f"{source}: must be an XML file, or a folder with annotations.xml")
    where = source.place(file)
    root = xml.parse(source.read(file), where)
    if root.tag != "annotations":
        raise InputError(f"{where}: must have <annotations> as its root; got <{root.tag}>")
    ids, names, sizes, labels, boxes, offsets = [], [], [], [], [], [0]
    num_other = 0
    for index, image in enumerate(root.iter("image")):
        place = f"{where}: image {index}"
        name = image.get("name")
        if name is None:
            raise InputError(f"{place} must have a name")
        ids.append(_whole(image.get("id"), index, place))
        names.append(name)
        sizes.append(_size(image))
        for row, shape in enumerate(shape for shape in image if shape.tag in ("box", "polygon")):
            label = shape.get("label")
            if label is None:
                raise InputError(f"{place} ({name}): {shape.tag} {row} must have a label")
            labels.append(label)
            boxes.append(_bounds(shape, f"{place} ({name}): {shape.tag} {row}"))
        num_other += sum(shape.tag in _OTHER_SHAPES for shape in image)
        offsets.append(len(boxes))
    if num_other:
        what = f"{count(num_other, 'shape')} of other kinds than box and polygon"
        fate = "left out: they are no part of the data"
        message = f"{where}: {what} left out"
        warnings.warn(RowsWarning(message, num=num_other, what=what, fate=fate, place=str(where)), stacklevel=4)
    if len(set(ids)) < len(ids):
        raise InputError(f"{where}: images must have different ids")
    listed = [element.text.strip() for element in root.iterfind("meta//labels/label/name") if element.text]
    return Records(
        image=np.repeat(np.array(ids, np.int64), np.diff(offsets)),
        label=Named.of(labels),
        box=np.array(boxes, np.float64).reshape(-1, 4),
        box_format="xyxy",
        place=places(offsets[:-1] or [0], lambda image, row: f"{where}: image {image} ({names[image]}): shape {row}"),
        source=str(source),
        image_names=dict(zip(ids, names, strict=True)),
        image_sizes={number: size for number, size in zip(ids, sizes, strict=True) if size is not None},
        class_names=dict(enumerate(dict.fromkeys(listed))) if listed else None,
    )


def _whole(text: str | None, default: int, place: str) -> int:
    try:
        number = default if text is None else int(text)
    except ValueError:
        number = 1 << 63
    if abs(number) >= 1 << 63:
        raise InputError(f"{place}: `id` must be an integer; got {text!r}")
    return number


def _size(image: Any) -> tuple[int, int] | None:
    try:
        width, height = int(image.get("width", "0")), int(image.get("height", "0"))
    except ValueError:
        return None
    return (width, height) if 0 < width < 10**9 and 0 < height < 10**9 else None


def _bounds(shape: Any, place: str) -> Sequence[float]:
    if shape.tag == "polygon":
        points = shape.get("points", "")
        try:
            pairs = [tuple(map(float, point.split(","))) for point in points.split(";")]
            x, y = zip(*pairs, strict=True)
        except ValueError:
            raise InputError(f"{place}: `points` must be pairs of numbers; got {points[:60]!r}") from None
        return min(x), min(y), max(x), max(y)
    corners = [shape.get(corner) for corner in _CORNERS]
    try:
        left, top, right, bottom = (float(corner) for corner in corners)
        degrees = float(shape.get("rotation", "0"))
    except (TypeError, ValueError):
        raise InputError(f"{place}: must have {', '.join(_CORNERS)} as numbers; got {corners}") from None
    if degrees == 0:
        return left, top, right, bottom
    cos, sin = abs(math.cos(math.radians(degrees))), abs(math.sin(math.radians(degrees)))
    across, down, width, height = (left + right) / 2, (top + bottom) / 2, right - left, bottom - top
    half_width, half_height = (width * cos + height * sin) / 2, (width * sin + height * cos) / 2
    return across - half_width, down - half_height, across + half_width, down + half_height
