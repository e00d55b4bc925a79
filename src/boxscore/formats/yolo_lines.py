"""Lines of YOLO label files: boxes, oriented boxes, polygons and poses, and errors about invalid lines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.data.geometry.keypoints import PoseRows
from boxscore.data.geometry.masks import Polygons
from boxscore.formats.records import Floats

KeypointShape = tuple[int, int]
"""Number of keypoints per box, and of numbers per keypoint: `kpt_shape` in data.yaml."""

_BOM = b"\xef\xbb\xbf"
_NO_SCORE = "no confidence (in Ultralytics, `save_conf=True` writes it): "
_BORDER = 0.01
"""Distance by which a box may reach beyond its image, as a fraction of the image."""
_MARGIN = 0.25
"""Distance by which keypoints may lie outside of their box, as a fraction of the box."""
_MIN_OUT, _MIN_OUT_SHARE, _TIMES_FEWER = 3, 0.1, 10
"""Number and share of boxes that must leave their images before another order of the numbers is considered, and the
factor by which fewer must do so in that order. Detectors seldom predict boxes that leave the image by a percent."""
_MIN_SHARE = 0.8
"""Share of lines that must look like poses. Less than half of random polygons do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelLines:
    """The lines of label files, without blank ones."""

    words: Sequence[Sequence[bytes]]
    """The words of each line."""
    has_score: bool
    """Whether the last number of a line is a score."""
    location: Callable[[int], str]
    keypoint_shape: Callable[[], KeypointShape | None]

    def boxes(self) -> Floats:
        """Class, cx, cy, w, h and, for detections, the score of every line; the bounds of polygons.

        A pose is `class cx cy w h` and its keypoints, a polygon `class x y x y x y …`. `kpt_shape` decides which;
        without it the numbers decide, and ambiguous files are refused.
        """
        width = 5 + self.has_score
        try:
            if {*map(len, self.words)} <= {width}:  # the usual case
                flat = map(float, chain.from_iterable(self.words))
                return np.fromiter(flat, np.float64, width * len(self.words)).reshape(-1, width)
        except ValueError:
            pass
        rows, scores = [], []
        for row, words in enumerate(self.words):
            values = _numbers(words)
            if len(values) < width:
                raise self._no_box(row, values)
            rows.append(values[:-1] if self.has_score else values)
            scores += values[-1:] if self.has_score else []
        wide = [row for row, values in enumerate(rows) if len(values) > 5]
        are_poses = bool(wide) and self._are_poses([rows[row] for row in wide], wide, self.keypoint_shape())
        table = np.zeros((len(rows), 5))
        for row, values in enumerate(rows):
            if len(values) == 5 or are_poses:
                table[row] = values[:5]
            elif len(values) >= 7 and len(values) % 2 == 1:
                x, y = values[1::2], values[2::2]
                low, high = (min(x), min(y)), (max(x), max(y))
                center = (low[0] + high[0]) / 2, (low[1] + high[1]) / 2
                table[row] = [values[0], *center, high[0] - low[0], high[1] - low[1]]
            else:
                raise self._no_box(row, values)
        return np.column_stack([table, scores]) if self.has_score else table

    def corners(self) -> tuple[Floats, Floats]:
        """The class and, for detections, the score of every line, and its four corners. Shapes (R, 1 or 2), (R, 8)."""
        width = 9 + self.has_score
        rows = [_numbers(words) for words in self.words]
        for row, values in enumerate(rows):
            if len(values) != width:
                hint = _NO_SCORE if self.has_score and len(values) == 9 else ""
                raise self._refusal(row, "an oriented box: class x1 y1 x2 y2 x3 y3 x4 y4", hint)
        table = np.array(rows, np.float64).reshape(-1, width)
        return table[:, [0, 9] if self.has_score else [0]], np.ascontiguousarray(table[:, 1:9])

    def poses(self) -> tuple[Floats, PoseRows]:
        """The table of `boxes`, and the keypoints of every line: x, y and a third number.

        Without a third number, it is 1 for points whose coordinates are not negative, else 0.
        """
        has_score = self.has_score
        rows = [_numbers(words) for words in self.words]
        shape = self.keypoint_shape() if rows else (1, 3)
        num_words = len(rows[0]) if rows else 8 + has_score
        num = num_words - 5 - has_score
        sizes = [size for size in (3, 2) if num > 0 and num % size == 0 and shape in (None, (num // size, size))]
        if has_score and shape is not None and not sizes:  # results may have more or fewer numbers than labels
            sizes = [size for size in (3, 2) if num == shape[0] * size]
        for row, values in enumerate(rows):
            if len(values) != num_words or not sizes:
                more = "" if shape is None else f", with `kpt_shape: [{shape[0]}, {shape[1]}]` of data.yaml"
                raise self._refusal(row, "a box with keypoints: class cx cy w h x y v x y v …", more=more)
        table = np.array(rows, np.float64).reshape(-1, num_words)
        if len(sizes) > 1 and not (has_score is False and np.isin(table[:, 7::3], (0, 1, 2)).all()):
            raise InputError(
                f"{self.location(0)}: {num} numbers may be {num // 3} keypoints of three numbers, or {num // 2} of two;"
                " give data.yaml `kpt_shape: [number of keypoints, 2 or 3]`"
            )
        points = table[:, 5 : 5 + num].reshape(len(rows), -1, sizes[0])
        third = points[..., 2] if sizes[0] == 3 else (points >= 0).all(axis=2).astype(np.float64)
        columns = table[:, [*range(5), *([num_words - 1] if has_score else [])]]
        return columns, PoseRows(np.ascontiguousarray(points[..., :2]), np.ascontiguousarray(third))

    def polygons(self) -> tuple[Floats, Polygons]:
        """The table of `boxes`, and the polygon of every line; a line with a box, or a pose, is refused."""
        lines, has_score = self.words, self.has_score
        num_words = np.fromiter(map(len, lines), np.int64, len(lines))
        num_numbers = num_words - 1 - has_score  # of the polygon
        is_polygon = (num_numbers >= 6) & (num_numbers % 2 == 0)
        try:
            flat = np.fromiter(map(float, chain.from_iterable(lines)), np.float64, int(num_words.sum()))
        except ValueError:
            is_polygon = is_polygon & [bool(_numbers(words)) for words in lines]
            flat = np.array(list(chain.from_iterable(map(_numbers, lines))), np.float64)
        if not is_polygon.all():
            row = int(np.argmin(is_polygon))
            hint = "a box: " if num_words[row] == 5 + has_score and _numbers(lines[row]) else ""
            if has_score and num_words[row] >= 7 and num_words[row] % 2 == 1:
                hint = _NO_SCORE
            raise self._refusal(row, "a polygon, as masks are read: class x y x y x y …", hint)
        shape = self.keypoint_shape() if len(lines) else None
        start = np.concatenate([[0], np.cumsum(num_words)])
        if len(lines) and (shape is not None or (num_words == num_words[0]).all()):
            rows = [flat[first:last].tolist() for first, last in zip(start, start[1:] - has_score, strict=False)]
            if self._are_poses(rows, range(len(rows)), shape):
                raise InputError(f"{self.location(0)} must be a polygon, as masks are read; got a box with keypoints")
        is_point = np.ones(len(flat), bool)
        is_point[start[:-1]] = False
        if has_score:
            is_point[start[1:] - 1] = False
        points = flat[is_point]
        part_start = np.concatenate([[0], np.cumsum(num_numbers)])
        polygons = Polygons(points=points, part_start=part_start, mask_start=np.arange(len(lines) + 1, dtype=np.int64))
        low, high = np.split(polygons.bounds(), 2, axis=1)
        columns = [flat[start[:-1]], (low + high) / 2, high - low, *([flat[start[1:] - 1]] if has_score else [])]
        return np.column_stack(columns), polygons

    def _no_box(self, row: int, values: Sequence[float]) -> InputError:
        """The error about a line that is neither a box nor a polygon."""
        if self.has_score and len(values) == 5:
            hint = "the sixth, the confidence, is missing (in Ultralytics, `save_conf=True` writes it)"
            return InputError(f"{self.location(row)} must be six numbers: class cx cy w h confidence; got five: {hint}")
        more = "" if self.has_score else ", or a class and a polygon"
        return self._refusal(row, "numbers: class cx cy w h", more=more)

    def _refusal(self, row: int, wanted: str, hint: str = "", more: str = "") -> InputError:
        """The error about a line that is not what is wanted."""
        score, text = " confidence" * self.has_score, _shortened(b" ".join(self.words[row]))
        return InputError(f"{self.location(row)} must be {wanted}{score}{more}; got {hint}{text!r}")

    def check_order(self, table: Floats) -> None:
        """Raise `InputError` if boxes leave their images, and would not if the numbers of a line had another order.

        Lines of the text format, `class confidence cx cy w h` or with corners, have the same length as YOLO's.
        """
        is_out = _leaves_image(table[:, 1:5])
        num_out = int(is_out.sum())
        if num_out < _MIN_OUT or num_out < _MIN_OUT_SHARE * len(table):
            return
        box = table[:, -4:] if self.has_score else table[:, 1:5]
        confidence, option = (" confidence", "--dt-format") if self.has_score else ("", "--gt-format")
        corners = np.concatenate([(box[:, :2] + box[:, 2:]) / 2, box[:, 2:] - box[:, :2]], axis=1)
        others = [("left top right bottom", corners, "`format` text", f"{option} text")]
        if self.has_score:
            more = ("`format` text and `box_format` cxcywh", f"{option} text --box-format cxcywh")
            others.append(("cx cy w h", box, *more))
        num_left, (order, _, setting, words) = min(
            ((int(_leaves_image(other[1]).sum()), other) for other in others), key=lambda pair: pair[0]
        )
        if num_left * _TIMES_FEWER <= num_out:
            raise InputError(
                f"{self.location(int(np.argmax(is_out)))}: read as `class cx cy w h{confidence}`, this box and"
                f" {num_out - 1} of {len(table) - 1} others leave their images; read as `class{confidence} {order}`,"
                f" {num_left} do: give {setting} ({words}) if that is their order, or `format` yolo ({option}"
                " yolo) if it is not"
            )

    def _are_poses(self, rows: Sequence[Sequence[float]], numbers: Sequence[int], shape: KeypointShape | None) -> bool:
        """Whether lines of more than five numbers are boxes with keypoints, all of the same length.

        `numbers`: the index of each line.
        """
        if shape is not None:
            num_wanted = 5 + shape[0] * shape[1]
            wrong = next((index for index, row in enumerate(rows) if len(row) != num_wanted), None)
            if wrong is not None and shape[0]:
                what = f"`kpt_shape: [{shape[0]}, {shape[1]}]` in data.yaml means 5 + {num_wanted - 5} numbers per line"
                more = " and the confidence" if self.has_score else ""
                raise InputError(
                    f"{self.location(numbers[wrong])}: {what}{more}; got {len(rows[wrong]) + self.has_score}"
                )
            return shape[0] > 0
        length = len(rows[0])
        if any(len(row) != length for row in rows):
            return False
        if length % 2 == 0:  # a polygon has an odd length
            return (length - 5) % 3 == 0 and _look_like_poses(rows, 3, self.has_score)
        is_likely = (length - 5) % 3 == 0 and _look_like_poses(rows, 3, self.has_score)
        if is_likely and not self.has_score and any(2 in row[7::3] for row in rows):
            return True  # 2 is "labelled and visible", and cannot be a fraction of an image
        if not is_likely and not _look_like_poses(rows, 2, self.has_score):
            return False
        if length == 9 and _are_oriented_boxes(rows):
            return False
        raise InputError(
            f"{self.location(numbers[0])}: {length + self.has_score} numbers, here and in all such lines, may be"
            " polygons, or boxes with keypoints; give data.yaml `kpt_shape: [number of keypoints, 2 or 3]`, or [0, 0]"
            " for polygons"
        )


def _numbers(words: Sequence[bytes]) -> list[float]:
    try:
        return [float(word.removeprefix(_BOM)) for word in words]
    except ValueError:
        return []


def _leaves_image(box: Floats) -> NDArray[np.bool_]:
    """Whether a box, given by center and size, reaches beyond its image, or is empty. Shape (R,)."""
    center, extent = box[:, :2], box[:, 2:]
    is_inside = (extent > 0) & (center - extent / 2 >= -_BORDER) & (center + extent / 2 <= 1 + _BORDER)
    return np.logical_not(is_inside.all(axis=1))


def _shortened(content: bytes) -> str:
    """Decode and shorten bytes for an error message."""
    text = content.decode("utf-8", "replace")
    return text if len(text) <= 80 else f"{text[:79]}…"


def _are_oriented_boxes(rows: Sequence[Sequence[float]]) -> bool:
    """Whether all lines are the four corners of parallelograms."""
    corners = np.array(rows, np.float64)[:, 1:].reshape(-1, 4, 2)
    return bool((np.abs(corners[:, 0] - corners[:, 1] + corners[:, 2] - corners[:, 3]) <= _BORDER).all())


def _look_like_poses(rows: Sequence[Sequence[float]], size: int, has_score: bool) -> bool:
    """Whether most lines are a box in the image with keypoints in or near it. `size`: numbers per keypoint."""
    table = np.array(rows, np.float64)
    center, extent = table[:, 1:3], table[:, 3:5]
    low, high = center - extent / 2, center + extent / 2
    is_box = ~_leaves_image(table[:, 1:5])
    points = table[:, 5:].reshape(len(rows), -1, size)
    low, high = (low - _MARGIN * extent)[:, None], (high + _MARGIN * extent)[:, None]
    is_inside = ((points[..., :2] >= low) & (points[..., :2] <= high)).all(axis=2)
    is_pose = is_box & (is_inside | (points[..., :2] == 0).all(axis=2)).all(axis=1)
    if size == 3 and not has_score:
        is_pose &= np.isin(points[..., 2], (0, 1, 2)).all(axis=1)
    return bool(is_pose.mean() >= _MIN_SHARE)
