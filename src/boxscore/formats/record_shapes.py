"""Prepare the shapes of records as columns: scale them to pixels, draw masks, choose them by similarity."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.data.geometry.masks import Masks
from boxscore.data.geometry.oriented_boxes import OrientedBoxes
from boxscore.formats.records import Ids, Named, Records


def in_pixels(records: Records, image: Ids, sizes: Mapping[int, tuple[int, int]]) -> Records:
    """Scale boxes, oriented boxes and keypoints from fractions to pixels."""
    if not records.is_normalized or not len(records):
        return records
    seen, code = np.unique(image, return_inverse=True)
    for number in seen.tolist():
        if number not in sizes:
            row = int(np.argmax(image == number))
            raise InputError(
                f"{records.location(row)}: boxes are fractions, and the size of the image is unknown; give `sizes`,"
                " a list (name,width,height) or the folder of the images"
            )
    scale = np.array([sizes[number] for number in seen.tolist()], np.float64)[code]
    oriented = None if records.oriented is None else records.oriented.scaled(scale)
    keypoints = None if records.keypoints is None else records.keypoints.scaled(scale)
    return replace(records, box=records.box * np.tile(scale, 2), oriented=oriented, keypoints=keypoints)


def masks_in_images(
    records: Records, image: Ids, sizes: Mapping[int, tuple[int, int]], *, keeps_polygons: bool
) -> Masks | None:
    """The masks of records, drawn from polygons if necessary; None if they were not read."""
    if records.polygons is None:
        return records.mask
    known = np.array([sizes.get(number, (0, 0)) for number in image.tolist()], np.int64).reshape(-1, 2)
    if (unknown := first_of((known == 0).any(axis=1) & records.polygons.has_parts)) is not None:
        raise InputError(
            f"{records.location(unknown)}: masks are drawn into images, and the size of the image is unknown; give"
            " `sizes`, a list (name,width,height) or the folder of the images"
        )
    return records.drawn_masks(known, keeps_polygons=keeps_polygons)


def shapes_for(records: Records, mask: Masks | None, iou_types: Sequence[str]) -> dict[str, Any]:
    """Arguments of `Truths` or `Detections` with the shapes that the similarities need. Boxes must be in pixels."""
    upright = {"box": records.box, "box_format": records.box_format}
    boxes: dict[str, Any] = upright if "bbox" in iou_types else {}
    if any(iou_type in OrientedBoxes.iou_types for iou_type in iou_types):
        if records.oriented is None and len(records):
            wanted = ", ".join(iou_types)
            raise InputError(f"must have oriented boxes for `iou_type` {wanted}; {records.source} has upright boxes")
        box, box_format = records.oriented or (np.zeros((0, 8)), "xyxyxyxy")
        if boxes:
            boxes["others"] = [OrientedBoxes(box=box, box_format=box_format)]
        else:
            boxes |= {"box": box, "box_format": box_format}
    if any(iou_type in Keypoints.iou_types for iou_type in iou_types):
        if records.keypoints is None:
            raise InputError(f"must have keypoints for `iou_type` {', '.join(iou_types)}; {records.source} has none")
        poses, is_truth = records.keypoints, records.score is None
        boxes["keypoints"] = (
            poses.of_truths(records.box, records.box_format, records.area) if is_truth else poses.of_detections()
        )
    if not any(iou_type in Masks.iou_types for iou_type in iou_types):
        return boxes
    if mask is None:
        raise InputError(f"must have masks for `iou_type` {', '.join(iou_types)}; {records.source} has boxes alone")
    return {**boxes, "mask": mask}


def crowd_index_by_id(records: Records, names: Mapping[int, str] | None) -> dict[int, float] | None:
    """The crowd index of each image, by id; None if the file has none."""
    known = records.crowd_index
    if known is None or not isinstance(records.image, Named):
        return None if known is None else dict(known)
    return {image: known[name] for image, name in (names or {}).items() if name in known}


def first_of(flags: NDArray[np.bool_]) -> int | None:
    """The index of the first flag that is set, or None."""
    return int(np.argmax(flags)) if flags.any() else None
