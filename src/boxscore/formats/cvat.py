"""CVAT for images 1.1 and for video 1.1: one XML file with every image, or every track, its boxes and polygons."""

import warnings
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore._support.text import count
from boxscore.formats import xml
from boxscore.formats.cvat_shapes import bounds_of, whole_number
from boxscore.formats.cvat_video import frame_name, read_video
from boxscore.formats.files import Source
from boxscore.formats.records import Named, Options, Records, RowsWarning, places

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
    if root.find("track") is not None:
        if root.find("image") is not None:
            raise InputError(f"{where}: must have images or tracks; got both")
        return _read_tracks(root, source, where)
    ids, names, sizes, labels, boxes, offsets = [], [], [], [], [], [0]
    num_other = 0
    for index, image in enumerate(root.iter("image")):
        place = f"{where}: image {index}"
        name = image.get("name")
        if name is None:
            raise InputError(f"{place} must have a name")
        ids.append(index if (given := image.get("id")) is None else whole_number(given, f"{place}: `id`"))
        names.append(name)
        sizes.append(_size(image))
        for row, shape in enumerate(shape for shape in image if shape.tag in ("box", "polygon")):
            label = shape.get("label")
            if label is None:
                raise InputError(f"{place} ({name}): {shape.tag} {row} must have a label")
            labels.append(label)
            boxes.append(bounds_of(shape, f"{place} ({name}): {shape.tag} {row}"))
        num_other += sum(shape.tag in _OTHER_SHAPES for shape in image)
        offsets.append(len(boxes))
    _warn_of_others(num_other, where)
    if len(set(ids)) < len(ids):
        raise InputError(f"{where}: images must have different ids")
    return Records(
        image=np.repeat(np.array(ids, np.int64), np.diff(offsets)),
        label=Named.of(labels),
        box=np.array(boxes, np.float64).reshape(-1, 4),
        box_format="xyxy",
        place=places(offsets[:-1] or [0], lambda image, row: f"{where}: image {image} ({names[image]}): shape {row}"),
        source=str(source),
        image_names=dict(zip(ids, names, strict=True)),
        image_sizes={number: size for number, size in zip(ids, sizes, strict=True) if size is not None},
        class_names=_class_names(root),
    )


def _class_names(root: Any) -> dict[int, str] | None:
    listed = [element.text.strip() for element in root.iterfind("meta//labels/label/name") if element.text]
    return dict(enumerate(dict.fromkeys(listed))) if listed else None


def _warn_of_others(num_other: int, where: str) -> None:
    if num_other:
        what = f"{count(num_other, 'shape')} of other kinds than box and polygon"
        fate = "left out: they are no part of the data"
        message = f"{where}: {what} left out"
        warnings.warn(RowsWarning(message, num=num_other, what=what, fate=fate, place=str(where)), stacklevel=5)


def _read_tracks(root: Any, source: Source, where: str) -> Records:
    """The boxes of every frame of a video. Images are the frames, with their numbers and CVAT's names for them."""
    rows, video, num_other = read_video(root, where)
    _warn_of_others(num_other, where)
    return Records(
        image=np.array([row.frame for row in rows], np.int64),
        label=Named.of([row.label for row in rows]),
        box=np.array([row.box for row in rows], np.float64).reshape(-1, 4),
        box_format="xyxy",
        place=lambda row: rows[row].place,
        source=str(source),
        image_names={frame: frame_name(frame) for frame in video.frames},
        image_sizes=None if video.size is None else dict.fromkeys(video.frames, video.size),
        class_names=_class_names(root),
    )


def _size(image: Any) -> tuple[int, int] | None:
    try:
        width, height = int(image.get("width", "0")), int(image.get("height", "0"))
    except ValueError:
        return None
    return (width, height) if 0 < width < 10**9 and 0 < height < 10**9 else None
