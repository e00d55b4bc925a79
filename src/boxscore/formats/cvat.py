"""CVAT for images 1.1 and for video 1.1: one XML file with boxes, polygons and masks of every image or track.

A track of a video has a shape in each frame from one keyframe to the next:

    frame      0        1        2        3        4        5        6
    shape      A                          B                 C, outside
    box        A        between A and B   B        between  none     none
                                                   B and C

As in CVAT: boxes between two shapes are interpolated linearly, and the last shape is repeated until the end of the
video. From a shape with `outside` until the next shape, the track has no box.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.data.dataset import Truths
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.masks import Masks
from boxscore.data.geometry.outlines import trace
from boxscore.formats import xml
from boxscore.formats.files import Output, Source, suffix_of
from boxscore.formats.pixel_masks import MAX_PIXELS, Crop, drawn, row_major, row_major_counts, with_masks
from boxscore.formats.polygon_writers import bounds_of, boxes_lost, shapes_lost, with_enough_points
from boxscore.formats.records import Floats, Ids, Options, Records, RowBuilder, warn_of_shapes_left_out
from boxscore.formats.writers import Host, Loss, named_classes, number, rounding_of_corners

_SHAPES = ("box", "polygon", "mask")
"""Shapes that are read."""
_READ = "box and polygon"
"""The shapes of the file, in warnings."""
_OTHER_SHAPES = ("polyline", "points", "cuboid", "ellipse", "skeleton")
_CORNERS = ("xtl", "ytl", "xbr", "ybr")
_BOX_OF_MASK = ("left", "top", "width", "height")
MAX_FRAMES = 1_000_000
"""Maximum number of frames of a video: nine hours at 30 frames per second."""
MAX_INTERPOLATED = 2_000_000
"""Maximum number of interpolated boxes of a file."""
_CONTENT = ("points", "rle", "left", "top", "width", "height")
"""The attributes of a polygon or a mask that define its pixels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shape:
    """A shape: its bounds, and if masks are read its outline or its pixels."""

    box: Sequence[float]
    """Left, top, right, bottom."""
    outline: Floats | None = None
    """x, y, x, y, …; only if masks are read."""
    crop: Crop | None = None
    """The pixels of a <mask>; only if masks are read."""


def recognises(source: Source, role: str) -> bool:
    """Whether the source is an XML file with <annotations>, or a folder with such an annotations.xml."""
    if role != "truths":
        return False
    file = _file(source)
    return file is not None and b"<annotations" in source.read(file)[:4000]


def _file(source: Source) -> str | None:
    if not source.is_folder:
        return ""
    return next((file for file in source.files(".xml") if file == "annotations.xml"), None)


def kinds_of(source: Source, role: str) -> list[type[Geometry]]:  # noqa: ARG001
    """Masks, if the file has a polygon or a mask."""
    file = _file(source)
    content = b"" if file is None else source.read(file)
    return [Masks] if b"<polygon" in content or b"<mask" in content else []


def read_truths(source: Source, options: Options) -> Records:
    """Read the shapes of every image, as boxes or as masks. Classes are in the order of the file's list."""
    file = _file(source)
    if file is None:
        raise InputError(f"{source}: must be an XML file, or a folder with annotations.xml")
    where = source.location(file)
    root = xml.parse(source.read(file), where)
    if root.tag != "annotations":
        raise InputError(f"{where}: must have <annotations> as its root; got <{root.tag}>")
    if root.find("track") is not None:
        if root.find("image") is not None:
            raise InputError(f"{where}: must have images or tracks; got both")
        return _read_tracks(root, source, where, options)
    ids: list[int] = []
    sizes: dict[int, tuple[int, int] | None] = {}
    shapes: list[_Shape] = []
    rows = RowBuilder(source, lambda image, row: f"{where}: image {image} ({rows.groups[image]}): shape {row}")
    num_other = 0
    for index, image in enumerate(root.iter("image")):
        location = f"{where}: image {index}"
        name = image.get("name")
        if name is None:
            raise InputError(f"{location} must have a name")
        ids.append(index if (given := image.get("id")) is None else _whole_number(given, f"{location}: `id`"))
        rows.begin(name)
        sizes[ids[-1]] = _size_of(image.get("width"), image.get("height"))
        for row, element in enumerate(element for element in image if element.tag in _SHAPES):
            label = element.get("label")
            if label is None:
                raise InputError(f"{location} ({name}): {element.tag} {row} must have a label")
            shapes.append(
                _shape_of(element, f"{location} ({name}): {element.tag} {row}", has_masks=options.reads(Masks))
            )
            rows.add(label, shapes[-1].box, row)
        num_other += sum(element.tag in _OTHER_SHAPES for element in image)
    warn_of_shapes_left_out(num_other, _READ, where)
    if len(set(ids)) < len(ids):
        raise InputError(f"{where}: images must have different ids")
    images = {
        "image_names": dict(zip(ids, rows.groups, strict=True)),
        "image_sizes": {number: size for number, size in sizes.items() if size is not None},
    }
    return _records(root, rows, np.array(ids, np.int64), images, shapes, options)


def _records(
    root: Any, rows: RowBuilder, ids: Ids, images: Mapping[str, Any], shapes: Sequence[_Shape], options: Options
) -> Records:
    """The records of the rows, with their masks if the options ask for them. `ids`: the image of each group."""
    more = {"box": rows.values(4), "box_format": "xyxy", "class_names": _class_names(root), **images}
    records = Records(**rows.fields() | {"image": ids[rows.group.code]}, **more)
    if not options.reads(Masks):
        return records
    parts = [[] if shape.outline is None else [shape.outline] for shape in shapes]
    crops = {row: [shape.crop] for row, shape in enumerate(shapes) if shape.crop is not None}
    return with_masks(records, parts, crops, options)


def _class_names(root: Any) -> dict[int, str] | None:
    listed = [element.text.strip() for element in root.iterfind("meta//labels/label/name") if element.text]
    return dict(enumerate(dict.fromkeys(listed))) if listed else None


def _read_tracks(root: Any, source: Source, where: str, options: Options) -> Records:
    """Read the shapes of every frame of a video. Images are frames, with their numbers as ids and CVAT's names."""
    found, video, num_other = _read_video(root, where, has_masks=options.reads(Masks))
    warn_of_shapes_left_out(num_other, _READ, where)
    rows = RowBuilder(source, lambda _, row: found[row].location)
    frames: list[int] = []
    for index, row in enumerate(found):
        if frames[-1:] != [row.frame]:
            frames.append(row.frame)
            rows.begin(_frame_name(row.frame))
        rows.add(row.label, row.shape.box, index)
    images = {
        "image_names": {frame: _frame_name(frame) for frame in video.frames},
        "image_sizes": None if video.size is None else dict.fromkeys(video.frames, video.size),
    }
    return _records(root, rows, np.array(frames, np.int64), images, [row.shape for row in found], options)


def _whole_number(text: str | None, what: str) -> int:
    """Parse an integer of at most 63 bits."""
    try:
        number = int(text or "")
    except ValueError:
        number = 1 << 63
    if abs(number) >= 1 << 63:
        raise InputError(f"{what} must be an integer; got {text!r}")
    return number


def _size_of(width_text: str | None, height_text: str | None) -> tuple[int, int] | None:
    """Width and height; None unless both are given and positive."""
    try:
        width, height = int(width_text or "0"), int(height_text or "0")
    except ValueError:
        return None
    return (width, height) if 0 < width < 10**9 and 0 < height < 10**9 else None


def _shape_of(element: Any, location: str, *, has_masks: bool) -> _Shape:
    """Read the shape of an element. `has_masks`: with its outline or its pixels."""
    if element.tag == "mask":
        crop = _crop_of(element, location)
        return _Shape(box=crop.bounds(), crop=crop if has_masks else None)
    if element.tag == "box":
        return _rotated(*_corners_of(element, location), has_masks=has_masks)
    points = element.get("points", "")
    try:
        pairs = [tuple(map(float, point.split(","))) for point in points.split(";")]
        x, y = zip(*pairs, strict=True)
    except ValueError:
        raise InputError(f"{location}: `points` must be pairs of numbers; got {points[:60]!r}") from None
    outline = np.array(pairs, np.float64).reshape(-1) if has_masks else None
    return _Shape(box=(min(x), min(y), max(x), max(y)), outline=outline)


def _corners_of(element: Any, location: str) -> tuple[Sequence[float], float]:
    """Read the corners of a box before its rotation, and the angle in degrees."""
    corners = [element.get(corner) for corner in _CORNERS]
    try:
        numbers = [float(corner) for corner in corners]
    except (TypeError, ValueError):
        raise InputError(f"{location}: must have {', '.join(_CORNERS)} as numbers; got {corners}") from None
    angle = element.get("rotation", "0")
    try:
        degrees = float(angle)
    except ValueError:
        degrees = math.nan
    if not math.isfinite(degrees):
        raise InputError(f"{location}: `rotation` must be a finite number; got {angle!r}")
    return numbers, degrees


def _rotated(corners: Sequence[float], degrees: float, *, has_masks: bool) -> _Shape:
    """Rotate a box clockwise about its center: its bounds and, with `has_masks`, its four corners."""
    left, top, right, bottom = corners
    if degrees == 0:
        outline = np.array([left, top, right, top, right, bottom, left, bottom]) if has_masks else None
        return _Shape(box=corners, outline=outline)
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    center_x, center_y, width, height = (left + right) / 2, (top + bottom) / 2, right - left, bottom - top
    half_width, half_height = (width * abs(cos) + height * abs(sin)) / 2, (width * abs(sin) + height * abs(cos)) / 2
    outline = None
    if has_masks:
        x, y = np.array([-1, 1, 1, -1]) * (width / 2), np.array([-1, -1, 1, 1]) * (height / 2)
        outline = np.stack([center_x + x * cos - y * sin, center_y + x * sin + y * cos], axis=1).reshape(-1)
    return _Shape(
        box=(center_x - half_width, center_y - half_height, center_x + half_width, center_y + half_height),
        outline=outline,
    )


def _crop_of(element: Any, location: str) -> Crop:
    """Read the pixels of a mask: run lengths row by row within a box, starting with unset pixels."""
    left, top, width, height = (_whole_number(element.get(name), f"{location}: `{name}`") for name in _BOX_OF_MASK)
    if min(width, height) < 1 or width * height > MAX_PIXELS:
        raise InputError(
            f"{location}: must have `width` and `height` from 1 on, and at most {MAX_PIXELS:,} pixels; got {width} x"
            f" {height}"
        )
    text = element.get("rle", "")
    try:
        counts = [int(count) for count in text.split(",")]
    except ValueError:
        raise InputError(f"{location}: `rle` must be integers separated by commas; got {text[:60]!r}") from None
    if min(counts) < 0 or sum(counts) != width * height:
        raise InputError(
            f"{location}: `rle` must have run lengths for the {width} x {height} pixels of its box; got"
            f" {'a negative one' if min(counts) < 0 else f'{sum(counts):,} pixels'}"
        )
    return row_major(counts, left, top, height, width)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Video:
    """The frames of a video: their numbers and their size."""

    frames: range
    has_length: bool
    """Whether the file has the number of frames; if not, the last shape is in the last frame."""
    size: tuple[int, int] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    """A shape in a frame, and its location in the file."""

    frame: int
    label: str
    shape: _Shape
    location: str
    is_interpolated: bool = False
    """Whether the shape was interpolated or repeated, and is not in the file."""


def _frame_name(frame: int) -> str:
    """The name that CVAT gives to a frame's image.

    >>> _frame_name(7)
    'frame_000007'
    """
    return f"frame_{frame:06d}"


def _read_video(root: Any, where: str, *, has_masks: bool) -> tuple[list[_Row], _Video, int]:
    """Read the shapes of all tracks in the order of frames; also return the frames and the number of other shapes."""
    tracks = list(root.iterfind("track"))
    if len({track.get("task_id") for track in tracks}) > 1:
        raise InputError(f"{where}: tracks must be of one task; got several, whose frames have the same numbers")
    video = _video(root, tracks, where)
    rows: list[_Row] = []
    num_other, room = 0, MAX_INTERPOLATED
    for index, track in enumerate(tracks):
        location = f"{where}: track {index} (id {track.get('id')})"
        label = track.get("label")
        if label is None:
            raise InputError(f"{location} must have a label")
        shapes = [shape for shape in track if shape.tag in _SHAPES]
        num_other += sum(1 for shape in track if shape.tag not in _SHAPES and shape.get("frame") is not None)
        found = _Track(label=label, video=video, location=location, has_masks=has_masks).rows(shapes, room)
        room -= sum(row.is_interpolated for row in found)
        rows += found
    rows.sort(key=lambda row: row.frame)  # stable: tracks stay in order
    return rows, video, num_other


def _video(root: Any, tracks: Sequence[Any], where: str) -> _Video:
    """Read the frames of the task: from the first to the last, in its step, extended to include all visible shapes."""
    meta = next((found for name in ("job", "task") if (found := root.find(f"meta/{name}")) is not None), None)
    given: Mapping[str, str | None] = {}
    if meta is not None:
        given = {name: meta.findtext(name) for name in ("size", "start_frame", "stop_frame", "frame_filter")}
    match = re.search(r"step=([0-9]{1,9})", given.get("frame_filter") or "")
    step = max(1, int(match[1])) if match else 1
    start = _whole_number(given.get("start_frame") or "0", f"{where}: `start_frame`")
    seen = [
        _whole_number(shape.get("frame"), f"{where}: track {index}: `frame`")
        for index, track in enumerate(tracks)
        for shape in track
        if shape.tag in _SHAPES and shape.get("outside") != "1"
    ]
    if any((frame - start) % step for frame in seen):
        raise InputError(
            f"{where}: shapes must be in frames {start}, {start + step}, … (`start_frame`, `frame_filter`)"
        )
    has_length = True
    if given.get("size"):
        stop = start + step * _whole_number(given["size"], f"{where}: `size`")
    elif given.get("stop_frame"):
        stop = _whole_number(given["stop_frame"], f"{where}: `stop_frame`") + 1
    else:
        stop, has_length = start, False
    start, stop = min([start, *seen]), max([stop, *(frame + 1 for frame in seen)])
    if (stop - start) / step > MAX_FRAMES:
        raise InputError(f"{where}: must have at most {MAX_FRAMES:,} frames; got {(stop - start) // step:,}")
    size = root.find("meta//original_size")
    return _Video(
        frames=range(start, stop, step),
        has_length=has_length,
        size=None if size is None else _size_of(size.findtext("width"), size.findtext("height")),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Track:
    """Reader of the shapes of a track."""

    label: str
    video: _Video
    location: str
    has_masks: bool

    def rows(self, elements: Sequence[Any], room: int) -> list[_Row]:
        """The shapes in all frames where the track is visible. `room`: maximum number of interpolated shapes."""
        rows: list[_Row] = []
        known = self._by_frame(elements)
        for index, (frame, element, where) in enumerate(known):
            if element.get("outside") == "1":
                continue
            shape = _shape_of(element, where, has_masks=self.has_masks)
            rows.append(self._row(frame, shape, where))
            following = known[index + 1] if index + 1 < len(known) else None
            if following is None and not self.video.has_length:
                continue
            end = following[0] if following else self.video.frames.stop
            between = _frames_between(self.video.frames, frame, end)
            room -= len(between)
            if room < 0:
                raise InputError(f"{where}: must have at most {MAX_INTERPOLATED:,} interpolated boxes; got more")
            if following is None:
                rows += [self._row(each, shape, where, is_interpolated=True) for each in between]
            elif between:
                shapes = self._between(shape, (frame, element), following, between, where)
                rows += [
                    self._row(each, shape, f"{where}, interpolated in frame {each}", is_interpolated=True)
                    for each, shape in zip(between, shapes, strict=True)
                ]
        return rows

    def _row(self, frame: int, shape: _Shape, location: str, *, is_interpolated: bool = False) -> _Row:
        return _Row(frame=frame, label=self.label, shape=shape, location=location, is_interpolated=is_interpolated)

    def _by_frame(self, elements: Sequence[Any]) -> list[tuple[int, Any, str]]:
        """Each element with its frame and its location."""
        known: list[tuple[int, Any, str]] = []
        for index, element in enumerate(elements):
            where = f"{self.location}: {element.tag} {index}"
            frame = _whole_number(element.get("frame"), f"{where}: `frame`")
            if known and frame <= known[-1][0]:
                raise InputError(f"{where}: frames of a track must be ascending; got {frame} after {known[-1][0]}")
            known.append((frame, element, where))
        return known

    def _between(
        self, shape: _Shape, own: tuple[int, Any], following: tuple[int, Any, str], frames: range, where: str
    ) -> list[_Shape]:
        """Interpolate two shapes: boxes move linearly and turn in the shorter direction; other shapes must be equal."""
        (first, element), (last, other, _) = own, following
        if element.tag != "box" or other.tag != "box":
            if element.tag == other.tag and all(element.get(name) == other.get(name) for name in _CONTENT):
                return [shape] * len(frames)
            kind = element.tag if element.tag != "box" else other.tag
            raise InputError(
                f"{where}: a {kind} must have a shape in every frame, as CVAT exports it; got none in frame {frames[0]}"
            )
        (start, angle), (end, next_angle) = _corners_of(element, where), _corners_of(other, where)
        turn = (next_angle - angle + 180) % 360 - 180
        found = []
        for frame in frames:
            share = (frame - first) / (last - first)
            corners = [a + (b - a) * share for a, b in zip(start, end, strict=True)]
            found.append(_rotated(corners, (angle + turn * share) % 360, has_masks=self.has_masks))
        return found


def _frames_between(frames: range, first: int, last: int) -> range:
    """The frames of the video after `first` and before `last`."""
    step = frames.step
    start = max(frames.start, first + 1)
    start += (frames.start - start) % step
    return range(start, min(last, frames.stop), step)


def write_truths(truths: Truths, *, path: Path) -> tuple[Output, list[Loss]]:
    """Write every image with its shapes as "CVAT for images 1.1": boxes, or for masks polygons and masks.

    `path`: a file that ends in .xml; anything else is a folder, which gets an annotations.xml.
    """
    host = Host.of(truths)
    names = _checked(named_classes(host), "class")
    images = _checked({image: host.image_names.get(image, str(image)) for image in host.images}, "image")
    sizes = dict(host.sizes)
    corners = host.corners()
    if host.mask is None:
        attributes = [_box_attributes(box) for box in corners.tolist()]
        losses = [rounding_of_corners(host, corners)]
    else:
        attributes, losses = _mask_attributes(truths, host, host.mask, sizes)
    labels = host.label.tolist()
    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<annotations>", "  <version>1.1</version>"]
    lines += ["  <meta>", "    <task>", "      <labels>"]
    lines += [f"        <label><name>{xml.escaped(name)}</name></label>" for name in names.values()]
    lines += ["      </labels>", "    </task>", "  </meta>"]
    for image, rows in host.by_image().items():
        size = f' width="{sizes[image][0]}" height="{sizes[image][1]}"' if image in sizes else ""
        lines.append(f'  <image id="{image}" name={xml.quoted(images[image])}{size}>')
        for row in rows:
            tag, _, rest = attributes[row].partition(" ")
            label = xml.quoted(names[labels[row]])
            lines.append(f'    <{tag} label={label} source="file" occluded="0" {rest} z_order="0"/>')
        lines.append("  </image>")
    content = "\n".join([*lines, "</annotations>", ""]).encode()
    losses = [
        *host.lost("ignore flag", "truncated flag", "area"),
        *host.shapes_lost(Masks),
        Loss(num=sum(label != position for position, label in enumerate(names)), what="class id"),
        *host.lost("crowd index"),
        *losses,
    ]
    return {"" if suffix_of(path) == ".xml" else "annotations.xml": content}, losses


def _checked(names: Mapping[int, str], kind: str) -> Mapping[int, str]:
    """Return the names; raise `InputError` unless XML can hold them and readers will get the same distinct names."""
    owner: dict[str, int] = {}
    for key, name in names.items():
        if not xml.is_text(name) or (kind == "class" and name != name.strip()):
            raise InputError(
                f"{kind} {key} must have a name without control characters{' and outer spaces' * (kind == 'class')};"
                f" got {name!r}"
            )
        if kind == "class" and owner.setdefault(name, key) != key:
            raise InputError(f"classes {owner[name]} and {key} have the same name {name!r}; CVAT's labels must differ")
    return names


def _box_attributes(box: Sequence[float]) -> str:
    """The tag and the attributes of a box."""
    sides = (f'{name}="{number(side)}"' for name, side in zip(_CORNERS, box, strict=True))
    return f"box {' '.join(sides)}"


def _mask_attributes(
    truths: Truths, host: Host, mask: Masks, sizes: dict[int, tuple[int, int]]
) -> tuple[list[str], list[Loss]]:
    """The tag and the attributes of each mask, and the losses. Unknown image sizes are taken from the masks.

    A single outline without holes becomes a polygon; any other mask a <mask> within the box around its pixels.
    """
    attributes: list[str] = []
    parts: list[list[Floats]] = []
    crops: dict[int, list[Crop]] = {}
    corners, images = host.corners().tolist(), host.image.tolist()
    num_divided = 0
    for row, (image, (height, width)) in enumerate(zip(images, mask.runs.sizes.tolist(), strict=True)):
        size = sizes.setdefault(image, (width, height))
        kept = [] if mask.polygons is None else mask.polygons[row]
        outlines = [kept] if kept else trace(mask.pixels(row))
        num_divided += len(kept) > 1
        if len(outlines) == 1 and len(outlines[0]) == 1:
            polygon = with_enough_points(outlines[0][0], corners[row][:2])
            points = ";".join(f"{number(x)},{number(y)}" for x, y in polygon.reshape(-1, 2).tolist())
            attributes.append(f'polygon points="{points}"')
            parts.append([polygon])
            continue
        left, top, width, height = mask.runs.box[row].tolist()
        is_on = mask.pixels(row)[top : top + height, left : left + width].astype(bool)
        crop = Crop(left, top, is_on if is_on.size else np.zeros((1, 1), bool))
        crop.check_inside(size, f"image {image}: row {row}")
        height, width = crop.is_on.shape
        counts = ", ".join(map(str, row_major_counts(crop.is_on)))
        attributes.append(f'mask rle="{counts}" left="{left}" top="{top}" width="{width}" height="{height}"')
        crops[row] = [crop]
        parts.append([])
    known = np.array([sizes[image][::-1] for image in images], np.int64).reshape(-1, 2)
    bounds = [crops[row][0].bounds() if row in crops else bounds_of(polygons) for row, polygons in enumerate(parts)]
    return attributes, [
        Loss(
            num=num_divided,
            what="outline of several polygons that is a mask now",
            plural="outlines of several polygons that are masks now",
        ),
        shapes_lost(mask, drawn(parts, crops, known, keeps_polygons=False)),
        *boxes_lost(truths, host, np.array(bounds, np.float64).reshape(-1, 4)),
    ]
