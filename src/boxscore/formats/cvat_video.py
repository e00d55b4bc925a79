"""CVAT for video 1.1: tracks of shapes, a box in each frame from one keyframe to the next.

    frame      0        1        2        3        4        5        6
    shape      A                          B                 C, outside
    box        A        between A and B   B        between  none     none
                                                   B and C

As CVAT has it: a box is there in every frame from a shape on, moves in a straight line to the next shape, and stays
where it is after the last one. From a shape that is `outside` on there is none, until the next.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from boxscore._support.exceptions import InputError
from boxscore.formats.cvat_shapes import bounds_of, box_of, corners_of, whole_number

MOST_FRAMES = 1_000_000
"""The most frames of a video: nine hours at 30 frames per second."""
MOST_BOXES = 2_000_000
"""The most boxes between those that are in the file."""
SHAPES = ("box", "polygon")


@dataclass(frozen=True, kw_only=True, slots=True)
class Video:
    """What a file says about the frames: their numbers in the video, and their size."""

    frames: range
    is_whole: bool
    """Whether the file tells how many there are; else they end with the last that a track has."""
    size: tuple[int, int] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A box in a frame, and where it comes from."""

    frame: int
    label: str
    box: Sequence[float]
    place: str
    is_between: bool = False
    """Whether it is not in the file, but between two that are, or after the last."""


def frame_name(frame: int) -> str:
    """The name that CVAT gives to a frame's image.

    >>> frame_name(7)
    'frame_000007'
    """
    return f"frame_{frame:06d}"


def read_video(root: Any, where: str) -> tuple[list[Row], Video, int]:
    """The boxes of all tracks in the order of frames, the frames, and how many shapes of other kinds there were."""
    tracks = list(root.iterfind("track"))
    if len({track.get("task_id") for track in tracks}) > 1:
        raise InputError(f"{where}: tracks must be of one task; got those of several, whose frames can't be told apart")
    video = _video(root, tracks, where)
    rows: list[Row] = []
    num_other, room = 0, MOST_BOXES
    for index, track in enumerate(tracks):
        place = f"{where}: track {index} (id {track.get('id')})"
        label = track.get("label")
        if label is None:
            raise InputError(f"{place} must have a label")
        shapes = [shape for shape in track if shape.tag in SHAPES]
        num_other += sum(1 for shape in track if shape.tag not in SHAPES and shape.get("frame") is not None)
        found = _track(shapes, label, video, place, room)
        room -= sum(row.is_between for row in found)
        rows += found
    rows.sort(key=lambda row: row.frame)  # stable: tracks stay in order
    return rows, video, num_other


def _video(root: Any, tracks: Sequence[Any], where: str) -> Video:
    """The frames from the first to the last one, by the step of the task."""
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
    is_whole = True
    if given.get("size"):
        stop = start + step * whole_number(given["size"], f"{where}: `size`")
    elif given.get("stop_frame"):
        stop = whole_number(given["stop_frame"], f"{where}: `stop_frame`") + 1
    else:
        stop, is_whole = start, False
    start, stop = min([start, *seen]), max([stop, *(frame + 1 for frame in seen)])
    if (stop - start) / step > MOST_FRAMES:
        raise InputError(f"{where}: must have at most {MOST_FRAMES:,} frames; got {(stop - start) // step:,}")
    size = root.find("meta//original_size")
    return Video(
        frames=range(start, stop, step),
        is_whole=is_whole,
        size=None if size is None else _size(size),
    )


def _size(element: Any) -> tuple[int, int] | None:
    texts = [(element.findtext(name) or "").strip() for name in ("width", "height")]
    if not all(re.fullmatch("[0-9]{1,9}", text) for text in texts):
        return None
    width, height = map(int, texts)
    return (width, height) if width and height else None


def _track(shapes: Sequence[Any], label: str, video: Video, place: str, room: int) -> list[Row]:
    """The boxes of a track in all frames where it is to be seen; `room`: how many may be between those in the file."""
    rows: list[Row] = []
    known: list[tuple[int, Any, str]] = []
    for index, shape in enumerate(shapes):
        where = f"{place}: {shape.tag} {index}"
        frame = whole_number(shape.get("frame"), f"{where}: `frame`")
        if known and frame <= known[-1][0]:
            raise InputError(f"{where}: frames of a track must ascend; got {frame} after {known[-1][0]}")
        known.append((frame, shape, where))
    for index, (frame, shape, where) in enumerate(known):
        if shape.get("outside") == "1":
            continue
        box = bounds_of(shape, where)
        rows.append(Row(frame=frame, label=label, box=box, place=where))
        following = known[index + 1] if index + 1 < len(known) else None
        if following is None and not video.is_whole:
            continue
        end = following[0] if following else video.frames.stop
        between = _frames_between(video.frames, frame, end)
        room -= len(between)
        if room < 0:
            raise InputError(f"{where}: must have at most {MOST_BOXES:,} boxes between those in the file; got more")
        if following is None:
            rows += [Row(frame=each, label=label, box=box, place=where, is_between=True) for each in between]
        elif between:
            rows += [
                Row(frame=each, label=label, box=moved, place=f"{where}, moved on to frame {each}", is_between=True)
                for each, moved in zip(between, _moved(shape, following[1], where, frame, end, between), strict=True)
            ]
    return rows


def _frames_between(frames: range, first: int, last: int) -> range:
    """The frames of the video after `first` and before `last`."""
    step = frames.step
    start = max(frames.start, first + 1)
    start += (frames.start - start) % step
    return range(start, min(last, frames.stop), step)


def _moved(shape: Any, following: Any, where: str, first: int, last: int, frames: range) -> list[Sequence[float]]:
    """The bounds of a box on its way to the next one; its angle takes the shorter way round."""
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
