"""Turn the results of Ultralytics' `predict` into detections, with or without truths to join them with."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore._support.image_file_names import base_of
from boxscore._support.text import count
from boxscore.data.dataset import Detections, Truths, detections_of_images, host_ids, take
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.geometry.oriented_boxes import OrientedBoxes
from boxscore.data.image_objects import is_image_object
from boxscore.formats.joining import join_classes, join_images, unmatched_rows
from boxscore.formats.records import Named, RowKeys, locations
from boxscore.protocol.protocol import IouType, iou_types_of


def from_ultralytics(
    results: Iterable[Any],
    truths: Truths | None = None,
    *,
    iou_type: IouType | Sequence[IouType] | None = None,
    unmatched: Literal["error", "warn"] = "error",
) -> Detections:
    """Turn Ultralytics' `Results` into detections.

    Args:
        results: A list of `Results`, a single one, or the generator that `predict(stream=True)` returns.
        truths: If given, images are joined by the file names in `Results.path`, and classes by their names, as
            `read_detections` joins them. If not, an image is identified by its file name, as with
            `Truths.from_images(…, image_ids=[names])`, and labels are the model's, from 0 on.
        iou_type: The shapes to read; by default oriented boxes if the results have them, else boxes. Masks need
            `predict(retina_masks=True)`, which gives them the size of the image.
        unmatched: For detections on an image, or of a class, that the truths do not have: "error" raises `InputError`;
            "warn" drops them, and a warning says how many.
    """
    given: list[Any] = [results] if is_image_object(results) or not isinstance(results, Iterable) else [*results]
    for index, each in enumerate(given):
        if not is_image_object(each) or not hasattr(each, "names") or not hasattr(each, "path"):
            raise InputError(
                f"`results` must be Ultralytics' Results, one per image; got {type(each).__name__} at {index}"
            )
        if each.names != given[0].names:
            raise InputError(
                f"`results` must be from one model, with the same class `names`; those at {index} are not those at 0"
            )
    if truths is not None and not isinstance(truths, Truths):
        raise InputError(f"`truths` must be boxscore.Truths; got {type(truths).__name__}")
    if unmatched not in ("error", "warn"):
        raise InputError(f"`unmatched` must be one of error, warn; got {unmatched!r}")
    if iou_type is None:
        iou_type = "obb" if any(each.obb is not None for each in given) else "bbox"
    is_oriented = any(each in OrientedBoxes.iou_types for each in iou_types_of(iou_type))
    box_format: BoxFormat = "cxcywha:radians" if is_oriented else "xyxy"
    names = [str(each.path) for each in given]
    short = [base_of(name.replace("\\", "/")) for name in names]
    ids = short if len({*short}) == len(short) else names
    found = detections_of_images(given, ids, box_format, iou_type, invalid="error", as_numpy=True)
    return found if truths is None else _joined(found, truths, given, names, unmatched)


def _joined(
    found: Detections, truths: Truths, given: Sequence[Any], names: Sequence[str], unmatched: str
) -> Detections:
    """Join the detections with the truths: give them the truths' ids and labels, drop or refuse unmatched rows."""
    num_rows = [len(each.boxes if each.obb is None else each.obb) for each in given]
    keys = RowKeys(
        image=Named(code=np.repeat(np.arange(len(given)), num_rows), names=[name.replace("\\", "/") for name in names]),
        label=host_ids(found.labels),
        location=locations(np.cumsum([0, *num_rows[:-1]]), lambda image, row: f"{names[image]}: detection {row}"),
        source="`results`",
        class_names=dict(given[0].names) if given else None,
    )
    image, is_image_lost = join_images(keys, truths)
    label, is_class_lost = join_classes(keys, truths)
    problems = unmatched_rows(keys, truths, is_image_lost, is_class_lost)
    if problems and unmatched == "error":
        raise InputError(str(problems[0]))
    is_lost = is_image_lost | is_class_lost
    if problems:
        dropped = f"{count(int(is_lost.sum()), 'detection')} of {len(keys):,} left out"
        warnings.warn(f"{dropped}: {'; '.join(map(str, problems))}", stacklevel=3)
    return take(replace(found, image_ids=image, labels=label), ~is_lost)
