"""Upright boxes: formats, corners and areas, validation, and IoU in continuous coordinates or inclusive pixels.

Dimensions: N images, D detections, G truths.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore.arrays import Array, compact, convert, float_dtype, namespace, take_rows, to_numpy
from boxscore.data.geometry import Geometry, RowGatherer, gatherer_of
from boxscore.data.geometry.box_formats import UPRIGHT_FORMATS, BoxFormat, check_box_format
from boxscore.data.validation import as_array, check_finite_rows, check_real, check_rows, is_contiguous_float, shape_of
from boxscore.protocol.protocol import LARGEST_SIDE, Pixels, Protocol


class Box(NamedTuple):
    """Corners and area of one box, as the sequential engine compares it."""

    left: float
    top: float
    right: float
    bottom: float
    area: float


class MeasuredBoxes(NamedTuple):
    """Corners and areas of boxes, in separate columns, so that every step reads contiguous numbers. Shapes (...)."""

    left: Array
    top: Array
    right: Array
    bottom: Array
    area: Array


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class BoxColumn(Geometry):
    """One array of boxes, upright or oriented; subclasses give `box_format` its default."""

    key: ClassVar[str] = "boxes"
    columns: ClassVar[tuple[str, ...]] = ("box",)
    is_box: ClassVar[bool] = True

    boxes: Array
    """Boxes in `box_format`. Shape (N, 4), (N, 8) for corners, or (N, 5) with an angle."""
    box_format: BoxFormat

    @classmethod
    def from_written(cls, written: Mapping[str, Any], **_: Any) -> Self:
        """Build boxes of the given format."""
        return cls(**{name: written[name] for name in ("boxes", "box_format") if name in written})

    @classmethod
    def empty(cls, box_format: BoxFormat | None = None) -> Self:
        """Build a column without boxes."""
        return cls(boxes=np.zeros(0), **({} if box_format is None else {"box_format": box_format}))

    def __len__(self) -> int:
        return int(self.boxes.shape[0])

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The boxes."""
        return (self.boxes,)

    def take(self, rows: Any) -> Self:
        """Select boxes. `rows`: indices, or one flag per row."""
        return replace(self, boxes=take_rows(self.boxes, rows))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Boxes(BoxColumn):
    """Upright boxes with finite numbers and non-negative sizes.

    Args:
        boxes: Boxes in `box_format`. Shape (N, 4).
        box_format: "xyxy", "xywh" or "cxcywh".

    >>> len(Boxes(boxes=[[0, 0, 10, 10], [5, 5, 20, 10]]))
    2
    """

    name: ClassVar[str] = "box"
    plural: ClassVar[str] = "boxes"
    misspellings: ClassVar[Mapping[str, tuple[str, ...]]] = {"boxes": ("box", "bbox", "bboxes")}
    iou_types: ClassVar[tuple[str, ...]] = ("bbox",)

    box_format: BoxFormat = "xyxy"

    def __post_init__(self) -> None:
        check_box_format(self.box_format, UPRIGHT_FORMATS)
        box = as_array("boxes", self.boxes)
        if shape_of(box) == (0,):
            box = np.zeros((0, 4))
        if len(shape_of(box)) != 2 or shape_of(box)[1] != 4:
            is_other = len(shape_of(box)) > 1 and shape_of(box)[1:] in ((5,), (8,), (4, 2))
            hint = "; oriented boxes have a box_format such as xyxyxyxy or cxcywha:degrees" if is_other else ""
            raise InputError(f"`boxes` must have shape (N, 4), four numbers per box; got {shape_of(box)}{hint}")
        _check_boxes(box, self.box_format)
        object.__setattr__(self, "boxes", box)

    def clipped(self, width: NDArray[Any], height: NDArray[Any]) -> "Boxes":
        """Clip the boxes to their images, as in CrowdHuman's evaluation.

        A box to the right of its image, or below, is moved to the last column or row of pixels; a box to the left or
        above gets no area.

        >>> boxes = Boxes(boxes=[[-5.0, 2, 50, 8], [30, 2, 40, 8]])
        >>> boxes.clipped(np.array([20, 20]), np.array([10, 10])).boxes.tolist()
        [[0.0, 2.0, 20.0, 8.0], [19.0, 2.0, 20.0, 8.0]]
        """
        xp = namespace(self.boxes)
        corners = self.outer_boxes()
        size = np.stack([width, height], axis=-1).astype(np.float64)
        far = xp.astype(convert(size, like=corners), corners.dtype)
        zero = xp.zeros_like(far)
        near = xp.minimum(xp.maximum(corners[:, :2], zero), far - 1)
        return Boxes(boxes=xp.concat([near, xp.maximum(xp.minimum(corners[:, 2:], far), zero)], axis=-1))

    def areas(self, protocol: Protocol, like: Array | None = None) -> Array:
        """Width times height. Shape (N,)."""
        return self._measured(protocol, self.boxes if like is None else like).area

    def outer_boxes(self) -> Array:
        """The corners. Shape (N, 4)."""
        xp = namespace(self.boxes)
        return xp.stack(to_xyxy(xp.astype(self.boxes, float_dtype(self.boxes)), self.box_format), axis=-1)

    def compiled(self, protocol: Protocol) -> Any:
        """The boxes for the native engine."""
        box = to_numpy(self.boxes)
        box = compact(box, box.dtype if box.dtype in (np.float32, np.float64) else np.float64)
        return self.compile_array(box, self.box_format, protocol)

    @staticmethod
    def compile_array(box: NDArray[Any], box_format: BoxFormat, protocol: Protocol) -> Any:
        """Make the boxes for the native engine from an array that is known to be valid."""
        return _compiled.Boxes(box, getattr(_compiled.BoxFormat, box_format), protocol.pixels == "inclusive")

    def shapes(self, protocol: Protocol) -> list[Box]:
        """The boxes for the sequential engine."""
        columns = self._measured(protocol, like=np.zeros(0))
        return [Box._make(each) for each in zip(*(column.tolist() for column in columns), strict=True)]

    @staticmethod
    def similarity(shape: Box, truth: Box, *, is_crowd: bool, protocol: Protocol) -> float:
        """IoU of two boxes.

        >>> protocol = Protocol.named("coco")
        >>> one, other = Boxes(boxes=[[0, 0, 10, 10], [0, 0, 10, 20]]).shapes(protocol)
        >>> Boxes.similarity(one, other, is_crowd=False, protocol=protocol)
        0.5
        >>> Boxes.similarity(one, other, is_crowd=True, protocol=protocol)
        1.0
        """
        width = max(0.0, min(shape.right, truth.right) - max(shape.left, truth.left) + protocol.extent)
        height = max(0.0, min(shape.bottom, truth.bottom) - max(shape.top, truth.top) + protocol.extent)
        shared = width * height
        if shared == 0:
            return 0.0
        if is_crowd:
            return shared / shape.area  # as in COCO: with a crowd, the union is the detection
        return shared / (shape.area + truth.area - shared)

    def gatherer(self, protocol: Protocol, like: Array) -> RowGatherer:
        """Make a gatherer of corners and areas, the columns of `MeasuredBoxes`. Shape (N, D) each."""
        return gatherer_of(self._measured(protocol, like), like)

    def _measured(self, protocol: Protocol, like: Array) -> MeasuredBoxes:
        return padded_boxes(convert(self.boxes, like=like), self.box_format, protocol)

    @staticmethod
    def pairwise(
        columns: tuple[Array, ...], truth_columns: tuple[Array, ...], is_crowd: Array, protocol: Protocol
    ) -> Array:
        """IoU of all pairs. Shape (N, D, G)."""
        ours, theirs = MeasuredBoxes._make(columns), MeasuredBoxes._make(truth_columns)
        return iou_of_measured(ours, theirs, extent=protocol.extent, is_crowd_NG=is_crowd)


def padded_boxes(box: Array, box_format: BoxFormat, protocol: Protocol) -> MeasuredBoxes:
    """Corners and areas in the widest float of the device, as `Boxes.pairwise` takes them. Shapes (...)."""
    xp = namespace(box)
    return measure(xp.astype(box, float_dtype(box)), box_format=box_format, pixels=protocol.pixels)


def _check_boxes(box: Array, box_format: BoxFormat) -> None:
    check_real("boxes", box)
    if is_contiguous_float(box) and _compiled.are_boxes_valid(
        box, getattr(_compiled.BoxFormat, box_format), LARGEST_SIDE
    ):
        return
    xp = namespace(box)
    check_finite_rows("boxes", box, "must have 4 finite numbers")
    width, height = sizes(xp.astype(box, float_dtype(box)), box_format)
    rule = "must have x1 <= x2 and y1 <= y2" if box_format == "xyxy" else "must not have a negative width or height"
    check_rows("boxes", (width >= 0) & (height >= 0), f"{rule} (box_format={box_format!r})", box)
    check_rows("boxes", xp.maximum(width, height) <= LARGEST_SIDE, f"must have sides up to {LARGEST_SIDE:g}", box)


def sizes(box: Array, box_format: BoxFormat) -> tuple[Array, Array]:
    """Width and height, without inclusive pixels. Shapes (...)."""
    if box_format == "xyxy":
        return box[..., 2] - box[..., 0], box[..., 3] - box[..., 1]
    return box[..., 2], box[..., 3]


def to_xywh(box: Array, box_format: BoxFormat) -> tuple[Array, Array, Array, Array]:
    """Left, top, width, height. Shapes (...)."""
    width, height = sizes(box, box_format)
    if box_format == "cxcywh":
        return box[..., 0] - width / 2, box[..., 1] - height / 2, width, height
    return box[..., 0], box[..., 1], width, height


def to_xyxy(box: Array, box_format: BoxFormat) -> tuple[Array, Array, Array, Array]:
    """Left, top, right, bottom. Shapes (...)."""
    if box_format == "xyxy":
        return box[..., 0], box[..., 1], box[..., 2], box[..., 3]
    left, top, width, height = to_xywh(box, box_format)
    if box_format == "cxcywh":
        return left, top, box[..., 0] + width / 2, box[..., 1] + height / 2
    return left, top, left + width, top + height


def measure(box: Array, *, box_format: BoxFormat, pixels: Pixels) -> MeasuredBoxes:
    """Corners and areas of boxes. Shapes (...).

    >>> import numpy as np
    >>> box = np.asarray([[10.0, 10.0, 19.0, 19.0]])
    >>> measure(box, box_format="xyxy", pixels="continuous").area.tolist()
    [81.0]
    >>> measure(box, box_format="xyxy", pixels="inclusive").area.tolist()
    [100.0]
    """
    if pixels == "continuous":
        # as in COCO: a far corner is left + width, even if the format gives the corner
        left, top, width, height = to_xywh(box, box_format)
        return MeasuredBoxes(left, top, left + width, top + height, _area(width, height))
    left, top, right, bottom = to_xyxy(box, box_format)
    return MeasuredBoxes(left, top, right, bottom, _area(right - left + 1, bottom - top + 1))


def _area(width: Array, height: Array) -> Array:
    """The product of sizes that are not negative.

    The maximum changes no number. It keeps XLA from fusing the product with a later sum, which would skip a rounding.
    """
    xp = namespace(width)
    area = width * height
    return xp.maximum(area, xp.zeros_like(area))


def iou_of_measured(
    boxes: MeasuredBoxes, truths: MeasuredBoxes, *, extent: float, is_crowd_NG: Array | None = None
) -> Array:
    """IoU from corners and areas; with a crowd, the union is the detection's area.

    Shapes (N, D) and (N, G) to (N, D, G).
    """
    xp = namespace(boxes.area)
    area_ND1, truth_area_N1G = boxes.area[:, :, None], truths.area[:, None, :]

    def overlap(near_ND: Array, far_ND: Array, truth_near_NG: Array, truth_far_NG: Array) -> Array:
        end_NDG = xp.minimum(far_ND[:, :, None], truth_far_NG[:, None, :])
        side_NDG = end_NDG - xp.maximum(near_ND[:, :, None], truth_near_NG[:, None, :]) + extent
        return xp.maximum(side_NDG, xp.zeros_like(side_NDG))

    width_NDG = overlap(boxes.left, boxes.right, truths.left, truths.right)
    shared_NDG = _area(width_NDG, overlap(boxes.top, boxes.bottom, truths.top, truths.bottom))
    union_NDG = area_ND1 + truth_area_N1G - shared_NDG
    if is_crowd_NG is not None:
        union_NDG = xp.where(is_crowd_NG[:, None, :], area_ND1, union_NDG)
    is_apart_NDG = shared_NDG <= 0
    safe_NDG = xp.where(is_apart_NDG, xp.ones_like(union_NDG), union_NDG)
    return xp.where(is_apart_NDG, xp.zeros_like(shared_NDG), shared_NDG / safe_NDG)


LARGEST_FRACTION: float = _compiled.LARGEST_FRACTION
"""The largest fraction of an image's size; above 1, as boxes may extend beyond their image."""
PREFIX = 32
"""Number of rows that a check tests first, to return early."""


def look_like_fractions(values: NDArray[np.float64], share: float = _compiled.MIN_FRACTION_SHARE) -> bool:
    """Whether numbers look like fractions of an image's size.

    Args:
        values: The numbers of each box or point. Shape (N, C).
        share: The share of rows that must be within `LARGEST_FRACTION`. A detector may put a few boxes far outside.

    >>> look_like_fractions(np.array([[0.5, 0.5, 1.01, 1.2]])), look_like_fractions(np.array([[0, 0, 1.0, 1.0]]))
    (True, False)
    """
    if not len(values) or (np.abs(values[:PREFIX]) > LARGEST_FRACTION).mean() > 0.5:
        return False
    is_within = (np.abs(values) <= LARGEST_FRACTION).all(axis=1)
    return bool(is_within.mean() >= share and (values != np.floor(values)).any())
