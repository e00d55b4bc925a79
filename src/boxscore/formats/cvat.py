"""CVAT for images 1.1 and for video 1.1: one XML file with every image, or every track, its boxes and polygons.

A video has tracks of shapes, with a box in each frame from one keyframe to the next:

    frame      0        1        2        3        4        5        6
    shape      A                          B                 C, outside
    box        A        between A and B   B        between  none     none
                                                   B and C

As in CVAT: boxes between two shapes are interpolated linearly, and the last shape is repeated until the end of the
video. A shape with `outside` means that there is no box until the next shape.
"""

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore._support.text import count
from boxscore.formats import xml
from boxscore.formats.files import Source
from boxscore.formats.records import Named, Options, Records, RowsWarning, locations

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
    """The boxes of every image, polygons and rotated boxes by their bounds. Classes in the order of the file's list."""
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
        return _read_tracks(root, source, where)
    ids, names, sizes, labels, boxes, offsets = [], [], [], [], [], [0]
    num_other = 0
    for index, image in enumerate(root.iter("image")):
        location = f"{where}: image {index}"
        name = image.get("name")
        if name is None:
            raise InputError(f"{location} must have a name")
        ids.append(index if (given := image.get("id")) is None else whole_number(given, f"{location}: `id`"))
        names.append(name)
        sizes.append(_size(image.get("width"), image.get("height")))
        for row, shape in enumerate(shape for shape in image if shape.tag in ("box", "polygon")):
            label = shape.get("label")
            if label is None:
                raise InputError(f"{location} ({name}): {shape.tag} {row} must have a label")
            labels.append(label)
            boxes.append(bounds_of(shape, f"{location} ({name}): {shape.tag} {row}"))
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
        location=locations(
            offsets[:-1] or [0], lambda image, row: f"{where}: image {image} ({names[image]}): shape {row}"
        ),
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
        what = f"{count(num_other, 'shape')} other than box and polygon"
        fate = "they are left out"
        message = f"{where}: {what} left out"
        warnings.warn(RowsWarning(message, num=num_other, what=what, fate=fate, location=str(where)), stacklevel=5)


def _read_tracks(root: Any, source: Source, where: str) -> Records:
    """The boxes of every frame of a video. Images are the frames, with their numbers and CVAT's names for them."""
    rows, video, num_other = read_video(root, where)
    _warn_of_others(num_other, where)
    return Records(
        image=np.array([row.frame for row in rows], np.int64),
        label=Named.of([row.label for row in rows]),
        box=np.array([row.box for row in rows], np.float64).reshape(-1, 4),
        box_format="xyxy",
        location=lambda row: rows[row].location,
        source=str(source),
        image_names={frame: frame_name(frame) for frame in video.frames},
        image_sizes=None if video.size is None else dict.fromkeys(video.frames, video.size),
        class_names=_class_names(root),
    )


def _size(width_text: str | None, height_text: str | None) -> tuple[int, int] | None:
    """Width and height, if both are given and positive."""
    try:
        width, height = int(width_text or "0"), int(height_text or "0")
    except ValueError:
        return None
    return (width, height) if 0 < width < 10**9 and 0 < height < 10**9 else None


MAX_FRAMES = 1_000_000
"""Largest number of frames of a video: nine hours at 30 frames per second."""
MAX_INTERPOLATED = 2_000_000
"""Largest number of interpolated boxes."""
SHAPES = ("box", "polygon")


@dataclass(frozen=True, kw_only=True, slots=True)
class Video:
    """The frames of a video: their numbers and their size."""

    frames: range
    has_length: bool
    """Whether the file has the number of frames; otherwise they end with the last shape."""
    size: tuple[int, int] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A box in a frame, and its location in the file."""

    frame: int
    label: str
    box: Sequence[float]
    location: str
    is_interpolated: bool = False
    """Whether it is not in the file, but between two shapes or after the last."""


def frame_name(frame: int) -> str:
    """The name that CVAT gives to a frame's image.

    >>> frame_name(7)
    'frame_000007'
    """
    return f"frame_{frame:06d}"


def read_video(root: Any, where: str) -> tuple[list[Row], Video, int]:
    """The boxes of all tracks in the order of frames, the frames, and the number of shapes of other kinds."""
    tracks = list(root.iterfind("track"))
    if len({track.get("task_id") for track in tracks}) > 1:
        raise InputError(f"{where}: tracks must be of one task; got several, whose frames have the same numbers")
    video = _video(root, tracks, where)
    rows: list[Row] = []
    num_other, room = 0, MAX_INTERPOLATED
    for index, track in enumerate(tracks):
        location = f"{where}: track {index} (id {track.get('id')})"
        label = track.get("label")
        if label is None:
            raise InputError(f"{location} must have a label")
        shapes = [shape for shape in track if shape.tag in SHAPES]
        num_other += sum(1 for shape in track if shape.tag not in SHAPES and shape.get("frame") is not None)
        found = _track(shapes, label, video, location, room)
        room -= sum(row.is_interpolated for row in found)
        rows += found
    rows.sort(key=lambda row: row.frame)  # stable: tracks stay in order
    return rows, video, num_other


def _video(root: Any, tracks: Sequence[Any], where: str) -> Video:
    """The frames from the first to the last, in the step of the task."""
    meta = next((found for name in ("job", "task") if (found := root.find(f"meta/{name}")) is not None), None)
    given: Mapping[str, str | None] = {}
    if meta is not None:
        given = {name: meta.findtext(name) for name in ("size", "start_frame", "stop_frame", "frame_filter")}
    match = re.search(r"step=([0-9]{1,9})", given.get("frame_filter") or "")
    step = max(1, int(match[1])) if match else 1
    start = whole_number(given.get("start_frame") or "0", f"{where}: `start_frame`")
    seen = [
        whole_number(shape.get("frame"), f"{where}: track {index}: `frame`")
        for index, track in enumerate(tracks)
        for shape in track
        if shape.tag in SHAPES and shape.get("outside") != "1"
    ]
    if any((frame - start) % step for frame in seen):
        raise InputError(
            f"{where}: shapes must be in frames {start}, {start + step}, … (`start_frame`, `frame_filter`)"
        )
    has_length = True
    if given.get("size"):
        stop = start + step * whole_number(given["size"], f"{where}: `size`")
    elif given.get("stop_frame"):
        stop = whole_number(given["stop_frame"], f"{where}: `stop_frame`") + 1
    else:
        stop, has_length = start, False
    start, stop = min([start, *seen]), max([stop, *(frame + 1 for frame in seen)])
    if (stop - start) / step > MAX_FRAMES:
        raise InputError(f"{where}: must have at most {MAX_FRAMES:,} frames; got {(stop - start) // step:,}")
    size = root.find("meta//original_size")
    return Video(
        frames=range(start, stop, step),
        has_length=has_length,
        size=None if size is None else _size(size.findtext("width"), size.findtext("height")),
    )


def _track(shapes: Sequence[Any], label: str, video: Video, location: str, room: int) -> list[Row]:
    """The boxes of a track in all frames where it is visible; `room`: how many of them may be interpolated."""
    rows: list[Row] = []
    known: list[tuple[int, Any, str]] = []
    for index, shape in enumerate(shapes):
        where = f"{location}: {shape.tag} {index}"
        frame = whole_number(shape.get("frame"), f"{where}: `frame`")
        if known and frame <= known[-1][0]:
            raise InputError(f"{where}: frames of a track must be ascending; got {frame} after {known[-1][0]}")
        known.append((frame, shape, where))
    for index, (frame, shape, where) in enumerate(known):
        if shape.get("outside") == "1":
            continue
        box = bounds_of(shape, where)
        rows.append(Row(frame=frame, label=label, box=box, location=where))
        following = known[index + 1] if index + 1 < len(known) else None
        if following is None and not video.has_length:
            continue
        end = following[0] if following else video.frames.stop
        between = _frames_between(video.frames, frame, end)
        room -= len(between)
        if room < 0:
            raise InputError(f"{where}: must have at most {MAX_INTERPOLATED:,} interpolated boxes; got more")
        if following is None:
            rows += [Row(frame=each, label=label, box=box, location=where, is_interpolated=True) for each in between]
        elif between:
            rows += [
                Row(
                    frame=each,
                    label=label,
                    box=box,
                    location=f"{where}, interpolated in frame {each}",
                    is_interpolated=True,
                )
                for each, box in zip(
                    between, _interpolated(shape, following[1], where, frame, end, between), strict=True
                )
            ]
    return rows


def _frames_between(frames: range, first: int, last: int) -> range:
    """The frames of the video after `first` and before `last`."""
    step = frames.step
    start = max(frames.start, first + 1)
    start += (frames.start - start) % step
    return range(start, min(last, frames.stop), step)


def _interpolated(
    shape: Any, following: Any, where: str, first: int, last: int, frames: range
) -> list[Sequence[float]]:
    """The bounds of a box, interpolated to the next one; its angle takes the shorter direction."""
    if shape.tag == "polygon" or following.tag == "polygon":
        if shape.tag == following.tag and shape.get("points") == following.get("points"):
            return [bounds_of(shape, where)] * len(frames)
        raise InputError(
            f"{where}: a polygon must have a shape in every frame, as CVAT exports it; got none in frame {frames[0]}"
        )
    (start, angle), (end, next_angle) = corners_of(shape, where), corners_of(following, where)
    turn = (next_angle - angle + 180) % 360 - 180
    found = []
    for frame in frames:
        share = (frame - first) / (last - first)
        corners = [a + (b - a) * share for a, b in zip(start, end, strict=True)]
        found.append(box_of(corners, (angle + turn * share) % 360))
    return found


CORNERS = ("xtl", "ytl", "xbr", "ybr")


def whole_number(text: str | None, what: str) -> int:
    """An integer of 63 bits."""
    try:
        number = int(text or "")
    except ValueError:
        number = 1 << 63
    if abs(number) >= 1 << 63:
        raise InputError(f"{what} must be an integer; got {text!r}")
    return number


def bounds_of(shape: Any, location: str) -> Sequence[float]:
    """Left, top, right, bottom of a box, rotated or not, or of a polygon."""
    if shape.tag != "polygon":
        return box_of(*corners_of(shape, location))
    points = shape.get("points", "")
    try:
        pairs = [tuple(map(float, point.split(","))) for point in points.split(";")]
        x, y = zip(*pairs, strict=True)
    except ValueError:
        raise InputError(f"{location}: `points` must be pairs of numbers; got {points[:60]!r}") from None
    return min(x), min(y), max(x), max(y)


def corners_of(shape: Any, location: str) -> tuple[Sequence[float], float]:
    """The corners of a box before its rotation, and the angle in degrees."""
    corners = [shape.get(corner) for corner in CORNERS]
    try:
        numbers = [float(corner) for corner in corners]
    except (TypeError, ValueError):
        raise InputError(f"{location}: must have {', '.join(CORNERS)} as numbers; got {corners}") from None
    angle = shape.get("rotation", "0")
    try:
        degrees = float(angle)
    except ValueError:
        degrees = math.nan
    if not math.isfinite(degrees):
        raise InputError(f"{location}: `rotation` must be a finite number; got {angle!r}")
    return numbers, degrees


def box_of(corners: Sequence[float], degrees: float) -> Sequence[float]:
    """The bounds of a box that is rotated about its center."""
    if degrees == 0:
        return corners
    left, top, right, bottom = corners
    cos, sin = abs(math.cos(math.radians(degrees))), abs(math.sin(math.radians(degrees)))
    center_x, center_y, width, height = (left + right) / 2, (top + bottom) / 2, right - left, bottom - top
    half_width, half_height = (width * cos + height * sin) / 2, (width * sin + height * cos) / 2
    return center_x - half_width, center_y - half_height, center_x + half_width, center_y + half_height
