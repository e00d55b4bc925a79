"""CVAT for video 1.1: tracks of shapes, with a shape in each frame from one keyframe to the next.

    frame      0        1        2        3        4        5        6
    shape      A                          B                 C, outside
    box        A        between A and B   B        between  none     none
                                                   B and C

As in CVAT: boxes between two shapes are interpolated linearly, and the last shape is repeated until the end of the
video. A shape with `outside` means that there is no box until the next shape.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from boxscore._support.exceptions import InputError
from boxscore.formats.cvat_shapes import SHAPES, Shape, corners_of, rotated, shape_of, size_of, whole_number

MAX_FRAMES = 1_000_000
"""Largest number of frames of a video: nine hours at 30 frames per second."""
MAX_INTERPOLATED = 2_000_000
"""Largest number of interpolated boxes."""


_CONTENT = ("points", "rle", "left", "top", "width", "height")
"""What a polygon or a mask is, beside its frame."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Video:
    """The frames of a video: their numbers and their size."""

    frames: range
    has_length: bool
    """Whether the file has the number of frames; otherwise they end with the last shape."""
    size: tuple[int, int] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A shape in a frame, and its location in the file."""

    frame: int
    label: str
    shape: Shape
    location: str
    is_interpolated: bool = False
    """Whether it is not in the file, but between two shapes or after the last."""


def frame_name(frame: int) -> str:
    """The name that CVAT gives to a frame's image.

    >>> frame_name(7)
    'frame_000007'
    """
    return f"frame_{frame:06d}"


def read_video(root: Any, where: str, *, has_masks: bool) -> tuple[list[Row], Video, int]:
    """The shapes of all tracks in the order of frames, the frames, and the number of shapes of other kinds."""
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
        found = _Track(label=label, video=video, location=location, has_masks=has_masks).rows(shapes, room)
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
        size=None if size is None else size_of(size.findtext("width"), size.findtext("height")),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Track:
    """How the shapes of a track are read."""

    label: str
    video: Video
    location: str
    has_masks: bool

    def rows(self, elements: Sequence[Any], room: int) -> list[Row]:
        """The shapes in all frames where the track is visible; `room`: how many of them may be interpolated."""
        rows: list[Row] = []
        known = self._by_frame(elements)
        for index, (frame, element, where) in enumerate(known):
            if element.get("outside") == "1":
                continue
            shape = shape_of(element, where, has_masks=self.has_masks)
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

    def _row(self, frame: int, shape: Shape, location: str, *, is_interpolated: bool = False) -> Row:
        return Row(frame=frame, label=self.label, shape=shape, location=location, is_interpolated=is_interpolated)

    def _by_frame(self, elements: Sequence[Any]) -> list[tuple[int, Any, str]]:
        """Each element with its frame and its location."""
        known: list[tuple[int, Any, str]] = []
        for index, element in enumerate(elements):
            where = f"{self.location}: {element.tag} {index}"
            frame = whole_number(element.get("frame"), f"{where}: `frame`")
            if known and frame <= known[-1][0]:
                raise InputError(f"{where}: frames of a track must be ascending; got {frame} after {known[-1][0]}")
            known.append((frame, element, where))
        return known

    def _between(
        self, shape: Shape, own: tuple[int, Any], following: tuple[int, Any, str], frames: range, where: str
    ) -> list[Shape]:
        """The shapes between two: boxes move linearly, and turn in the shorter direction; others must not change."""
        (first, element), (last, other, _) = own, following
        if element.tag != "box" or other.tag != "box":
            if element.tag == other.tag and all(element.get(name) == other.get(name) for name in _CONTENT):
                return [shape] * len(frames)
            kind = element.tag if element.tag != "box" else other.tag
            raise InputError(
                f"{where}: a {kind} must have a shape in every frame, as CVAT exports it; got none in frame {frames[0]}"
            )
        (start, angle), (end, next_angle) = corners_of(element, where), corners_of(other, where)
        turn = (next_angle - angle + 180) % 360 - 180
        found = []
        for frame in frames:
            share = (frame - first) / (last - first)
            corners = [a + (b - a) * share for a, b in zip(start, end, strict=True)]
            found.append(rotated(corners, (angle + turn * share) % 360, has_masks=self.has_masks))
        return found


def _frames_between(frames: range, first: int, last: int) -> range:
    """The frames of the video after `first` and before `last`."""
    step = frames.step
    start = max(frames.start, first + 1)
    start += (frames.start - start) % step
    return range(start, min(last, frames.stop), step)
