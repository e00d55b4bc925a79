"""The base class of detections and truths: one shape per row, of one geometry or several."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore.arrays import Array, library, to_numpy
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.box_formats import BoxFormat, check_box_format, is_oriented
from boxscore.data.geometry.boxes import Boxes
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.data.geometry.kinds import GEOMETRIES
from boxscore.data.geometry.masks import Masks
from boxscore.data.geometry.oriented_boxes import OrientedBoxes

Kind = TypeVar("Kind", bound=Geometry)


class Shapes:
    """The base class of detections and truths: images, labels, and one shape per row, of one or more geometries."""

    __slots__ = ()
    image_ids: Array
    labels: Array
    geometry: Geometry
    _others: tuple[Geometry, ...]
    area: Array | None

    @property
    def boxes(self) -> Array:
        """Upright boxes in `box_format`. Shape (N, 4)."""
        return self._boxes.boxes

    @property
    def box_format(self) -> BoxFormat:
        """The format of `boxes`."""
        return self._boxes.box_format

    @property
    def masks(self) -> Masks:
        """Masks. Length N."""
        return self._of_kind(Masks)

    @property
    def keypoints(self) -> Keypoints:
        """Sets of keypoints. Length N."""
        return self._of_kind(Keypoints)

    @property
    def oriented_boxes(self) -> OrientedBoxes:
        """Boxes at any angle. Length N."""
        return self._of_kind(OrientedBoxes)

    @property
    def written_boxes(self) -> tuple[Array, BoxFormat]:
        """Upright or oriented boxes as given, and their format."""
        found = next((each for each in self.geometries if isinstance(each, Boxes | OrientedBoxes)), None) or self._boxes
        return found.boxes, found.box_format

    @property
    def _boxes(self) -> Boxes:
        return self._of_kind(Boxes)

    @property
    def geometries(self) -> tuple[Geometry, ...]:
        """All geometries of the rows, the main one first."""
        return self.geometry, *self._others

    def _of_kind(self, kind: type[Kind]) -> Kind:
        found = next((each for each in self.geometries if isinstance(each, kind)), None)
        if found is None:
            raise InputError(f"{kind.plural} are needed here; these {type(self).__name__} have {self.shape_names()}")
        return found

    def shape_names(self) -> str:
        """The names of the geometries, for messages."""
        return " and ".join(each.plural for each in self.geometries)

    def iou_types(self) -> list[str]:
        """The similarities that the geometries support, of the main one first."""
        return [iou_type for each in self.geometries for iou_type in each.iou_types]

    def __len__(self) -> int:
        return len(self.geometry)

    def __repr__(self) -> str:
        shapes = text.count(len(self), self.geometry.name, self.shape_names())
        images = text.count(np.unique(to_numpy(self.image_ids)).size, "image")
        return f"{type(self).__name__}({shapes} in {images}, {library(self.geometry.arrays[0])})"


def geometries_of(
    geometry: Geometry | None, others: Sequence[Geometry], written: Mapping[str, Any], *, is_truth: bool, area: Any
) -> list[Geometry]:
    """Build the geometries from the arguments of a constructor, the main one first.

    Args:
        geometry: The main geometry, if given as such.
        others: Other geometries of the same rows.
        written: The arguments by the keys of geometries, and `box_format`; None: not given.
        is_truth: Whether the rows are truths.
        area: The areas of the rows, or None.
    """
    for name, each in (("geometry", geometry), *(("geometry", other) for other in others)):
        if each is not None and not isinstance(each, Geometry):
            raise InputError(f"`{name}` must be a boxscore.data.geometry.Geometry; got {type(each).__name__}")
    given = {name: value for name, value in written.items() if value is not None}
    _check_arguments(given, is_truth=is_truth)
    made: list[Geometry] = []
    if geometry is not None:
        made.append(geometry)
        for name in given:
            raise InputError(f"`geometry` and `{name}` must not both be given; boxes are `geometry=Boxes(boxes=…)`")
    if "boxes" in given:
        made.append(boxes_of(given["boxes"], given.get("box_format", "xyxy")))
    shapes = [kind for kind in GEOMETRIES if kind.key in given and not kind.is_box]
    made += [kind.from_written(given, is_truth=is_truth, area=area) for kind in shapes]
    if not made:
        raise InputError("`boxes`, `masks` or `keypoints` must be given; got none of them")
    return [each.for_side(is_truth=is_truth) for each in (*made, *others)]


def _check_arguments(given: Mapping[str, Any], *, is_truth: bool) -> None:
    """Raise an error for an argument that no geometry has, or that is given without its shapes."""
    keys = dict.fromkeys(kind.key for kind in GEOMETRIES)
    for name in given:
        if name in keys or name == "box_format":
            continue
        kinds = [kind for kind in GEOMETRIES if name in (kind.truth_keys if is_truth else kind.detection_keys)]
        if not kinds:
            raise InputError(f"`shapes` must have keys of geometries, {', '.join(keys)}; got {name!r}")
        if not any(kind.key in given for kind in kinds):
            key = kinds[0].key
            raise InputError(f"`{name}` must be given with `{key}`; got no {key}")


def boxes_of(box: Array, box_format: BoxFormat) -> Boxes | OrientedBoxes:
    """Make upright or oriented boxes, depending on the format."""
    check_box_format(box_format)
    if is_oriented(box_format):
        return OrientedBoxes(boxes=box, box_format=box_format)
    return Boxes(boxes=box, box_format=box_format)


def check_lengths(geometries: Sequence[Geometry], column: Array, name: str) -> None:
    """Raise `InputError` unless every geometry has the length of a column."""
    for geometry in geometries:
        if len(geometry) != column.shape[0]:
            num = int(column.shape[0])
            raise InputError(f"`{geometry.key}` must have {num} rows, the number of {name}; got {len(geometry)}")
