"""Prepare the shapes of records as columns: scale them to pixels, draw masks, choose them by similarity."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.boxes import Boxes
from boxscore.data.geometry.kinds import kinds_of
from boxscore.data.geometry.masks import Masks
from boxscore.formats.records import Ids, Named, Records


def in_pixels(records: Records, image: Ids, sizes: Mapping[int, tuple[int, int]]) -> Records:
    """Scale boxes and other shapes, except masks, from fractions to pixels."""
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
    shapes = {kind: rows.scaled(scale) for kind, rows in records.shapes.items()}
    return replace(records, box=records.box * np.tile(scale, 2), shapes=shapes)


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
    box, box_format = records.box, records.box_format
    made: list[Geometry] = []
    for kind in kinds_of(iou_types):
        rows = records.shapes.get(kind)
        if kind is Boxes:
            made.append(Boxes(boxes=box, box_format=box_format))
        elif kind is Masks and mask is not None:
            made.append(mask)
        elif rows is not None:
            is_truth = records.score is None
            made.append(rows.to_geometry(is_truth=is_truth, box=box, box_format=box_format, area=records.area))
        elif kind is Masks or len(records):
            raise InputError(missing_shapes(kind, iou_types))
        else:
            made.append(kind.empty())
    return {"geometry": made}


def missing_shapes(kind: type[Geometry], iou_types: Sequence[str]) -> str:
    """The error about a file that lacks the shapes of some similarities."""
    return f"must have {kind.plural} for `iou_type` {', '.join(iou_types)}; the file has none"


def crowd_index_by_id(records: Records, names: Mapping[int, str] | None) -> dict[int, float] | None:
    """The crowd index of each image, by id; None if the file has none."""
    known = records.crowd_index
    if known is None or not isinstance(records.image, Named):
        return None if known is None else dict(known)
    return {image: known[name] for image, name in (names or {}).items() if name in known}


def first_of(flags: NDArray[np.bool_]) -> int | None:
    """The index of the first flag that is set, or None."""
    return int(np.argmax(flags)) if flags.any() else None
