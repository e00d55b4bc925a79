"""Formats of boxes: upright boxes with four numbers, oriented boxes with an angle or four corners."""

from typing import Literal, get_args

from boxscore._support.exceptions import InputError

BoxFormat = Literal[
    "xyxy",
    "xywh",
    "cxcywh",
    "xyxyxyxy",
    "cxcywha:radians",
    "cxcywha:degrees",
    "cxcywha:radians:ccw",
    "cxcywha:degrees:ccw",
]
"""The formats of boxes; the last five are of oriented boxes. An angle turns x towards y, clockwise in the image, as in
OpenCV, MMRotate and Ultralytics; with ccw it turns the other way, as in detectron2 and torchvision."""

UPRIGHT_FORMATS: tuple[BoxFormat, ...] = ("xyxy", "xywh", "cxcywh")

ORIENTED_FORMATS: tuple[BoxFormat, ...] = tuple(each for each in get_args(BoxFormat) if each not in UPRIGHT_FORMATS)


def is_oriented(box_format: str | None) -> bool:
    """Whether a format is for oriented boxes.

    >>> is_oriented("xyxyxyxy"), is_oriented("xyxy"), is_oriented(None)
    (True, False, False)
    """
    return box_format in ORIENTED_FORMATS


def row_size(box_format: str) -> int:
    """Number of numbers per box: 4 if it is upright, 8 for corners, 5 with an angle."""
    return 8 if box_format == "xyxyxyxy" else 5 if is_oriented(box_format) else 4


def check_box_format(box_format: str, allowed: tuple[BoxFormat, ...] = get_args(BoxFormat)) -> None:
    """Raise `InputError` unless `box_format` is allowed."""
    if box_format == "cxcywha" and ORIENTED_FORMATS[0] in allowed:
        rule = "`box_format` must say what angles are in, radians or degrees: cxcywha:radians or cxcywha:degrees"
        raise InputError(f"{rule}; got 'cxcywha'")
    if box_format not in allowed:
        raise InputError(f"`box_format` must be one of {', '.join(allowed)}; got {box_format!r}")


def check_format_of(iou_type: str, box_format: str) -> None:
    """Raise `InputError` if boxes of a format don't support a similarity, such as "obb" for upright boxes."""
    if iou_type in ("obb", "probiou") and not is_oriented(box_format):
        names = ", ".join(ORIENTED_FORMATS)
        raise InputError(f"`box_format` must be one of {names} for `iou_type` {iou_type!r}; got {box_format!r}")
