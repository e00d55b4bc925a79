"""What detections and truths have in common: one shape per row, of one geometry or of several."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore.arrays import Array, library, to_numpy
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.box_formats import BoxFormat, check_box_format, is_oriented
from boxscore.data.geometry.boxes import Boxes
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.data.geometry.masks import Masks
from boxscore.data.geometry.oriented_boxes import OrientedBoxes

Kind = TypeVar("Kind", bound=Geometry)


class Shapes:
    """What detections and truths have in common: images, labels, and one shape per row, of one geometry or more."""

    __slots__ = ()
    image: Array
    label: Array
    geometry: Geometry
    others: tuple[Geometry, ...]
    area: Array | None

    @property
    def box(self) -> Array:
        """Boxes in `box_format`. Shape (N, 4)."""
        return self._boxes.box

    @property
    def box_format(self) -> BoxFormat:
        """How the four numbers of a box are written."""
        return self._boxes.box_format

    @property
    def mask(self) -> Masks:
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
        """The boxes of either kind as they were given, and their format."""
        found = next((each for each in self.geometries if isinstance(each, Boxes | OrientedBoxes)), None) or self._boxes
        return found.box, found.box_format

    @property
    def _boxes(self) -> Boxes:
        return self._of_kind(Boxes)

    @property
    def geometries(self) -> tuple[Geometry, ...]:
        """The shapes of each row under all geometries, the main one first."""
        return self.geometry, *self.others

    def _of_kind(self, kind: type[Kind]) -> Kind:
        found = next((each for each in self.geometries if isinstance(each, kind)), None)
        if found is None:
            raise InputError(f"{kind.plural} are needed here; these {type(self).__name__} have {self.shape_names()}")
        return found

    def shape_names(self) -> str:
        """The kinds of shapes, as messages name them."""
        return " and ".join(each.plural for each in self.geometries)

    def iou_types(self) -> list[str]:
        """The similarities that the shapes have, the main one first."""
        return [iou_type for each in self.geometries for iou_type in each.iou_types]

    def __len__(self) -> int:
        return len(self.geometry)

    def __repr__(self) -> str:
        shapes = text.count(len(self), self.geometry.name, self.shape_names())
        images = text.count(np.unique(to_numpy(self.image)).size, "image")
        return f"{type(self).__name__}({shapes} in {images}, {library(self.geometry.arrays[0])})"


def geometries_of(
    geometry: Geometry | None,
    others: Sequence[Geometry],
    written: Mapping[str, Any],
    of_side: Callable[[Keypoints], Keypoints],
) -> list[Geometry]:
    """The geometries, however they were written, the main one first. `written`: `box`, `box_format`, `mask`,
    `keypoints`; `of_side`: keypoints as those of detections, or of truths.
    """
    for name, each in (("geometry", geometry), *(("others", other) for other in others)):
        if each is not None and not isinstance(each, Geometry):
            raise InputError(f"`{name}` must be a boxscore.data.geometry.Geometry; got {type(each).__name__}")
    made: list[Geometry] = []
    if geometry is not None:
        made.append(geometry)
        for name, value in written.items():
            if value is not None:
                raise InputError(f"`geometry` and `{name}` must not both be given; boxes are `geometry=Boxes(box=…)`")
    if written["box"] is not None:
        made.append(boxes_of(written["box"], written["box_format"] or "xyxy"))
    if written["mask"] is not None:
        made.append(Masks.of(written["mask"]))
    if written["keypoints"] is not None:
        made.append(written["keypoints"])
    if not made:
        raise InputError("`box`, `mask` or `keypoints` must be given; got none of them")
    return [of_side(each) if isinstance(each, Keypoints) else each for each in (*made, *others)]


def check_has_keypoints(name: str, value: Any, keypoints: Any) -> None:
    """Raise `InputError` for what is given for keypoints, but without these."""
    if value is not None and keypoints is None:
        raise InputError(f"`{name}` must be given with `keypoints`; got no keypoints")


def boxes_of(box: Array, box_format: BoxFormat) -> Boxes | OrientedBoxes:
    """Boxes of the kind that their format says."""
    check_box_format(box_format)
    if is_oriented(box_format):
        return OrientedBoxes(box=box, box_format=box_format)
    return Boxes(box=box, box_format=box_format)


def check_lengths(geometries: Sequence[Geometry], column: Array, name: str) -> None:
    """Raise `InputError` unless there are as many shapes as rows of a column."""
    for geometry in geometries:
        if len(geometry) != column.shape[0]:
            num = int(column.shape[0])
            raise InputError(f"`{geometry.name}` must have {num} rows, the number of {name}s; got {len(geometry)}")
