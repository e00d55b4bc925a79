"""Oriented boxes: corners or angles, validation, exact IoU of convex quadrilaterals, and ProbIoU.

Dimensions: N images, D detections, G truths.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore.arrays import Array, as_widest_float, compact, namespace, to_numpy
from boxscore.data.geometry import RowGatherer, ShapeRows, Sketch, gatherer_of
from boxscore.data.geometry.box_formats import ORIENTED_FORMATS, BoxFormat, check_box_format, row_size
from boxscore.data.geometry.boxes import BoxColumn
from boxscore.data.geometry.quadrilaterals import is_ordered, pairwise_shared, shared_area
from boxscore.data.validation import RowError, as_array, check_real, shape_of
from boxscore.protocol.protocol import LARGEST_SIDE, Protocol

_FORMATS = {
    "xyxyxyxy": _compiled.OrientedFormat.corners,
    "cxcywha:radians": _compiled.OrientedFormat.radians,
    "cxcywha:degrees": _compiled.OrientedFormat.degrees,
    "cxcywha:radians:ccw": _compiled.OrientedFormat.radians_ccw,
    "cxcywha:degrees:ccw": _compiled.OrientedFormat.degrees_ccw,
}

EPSILON = 1e-7
"""As in Ultralytics' `batch_probiou`."""

ROUNDING = 1 + 1e-12
"""Tolerance for rounding: a shared area is at most the overlap of the outer boxes, times this."""


class OrientedBox(NamedTuple):
    """One box, as the sequential engine compares it."""

    corners: tuple[tuple[float, float], ...]
    """Four corners, which turn from x to y."""
    outer: tuple[float, float, float, float]
    """The upright box around the corners: left, top, right, bottom."""
    surface: float
    """The area within the corners."""
    gaussian: tuple[float, ...]
    """The normal distribution of ProbIoU: centre, variances of x and y, covariance, determinant."""


@dataclass(frozen=True, slots=True, eq=False)
class OrientedRows(ShapeRows):
    """The oriented boxes of a file's rows."""

    box: NDArray[np.float64]
    """Shape (R, 8), or (R, 5) with an angle."""
    box_format: BoxFormat = "xyxyxyxy"

    def fields(self) -> dict[str, Any]:
        """The fields of `Records`: these boxes, and the upright boxes around them."""
        return {"box": bounds_of(self.box, self.box_format), "box_format": "xyxy", "shapes": {OrientedBoxes: self}}

    def take(self, rows: Any) -> "OrientedRows":
        """Select rows by index or by flag."""
        return replace(self, box=self.box[rows])

    def scaled(self, scale: NDArray[np.float64]) -> "OrientedRows":
        """Convert fractions to pixels. `scale`: width and height of each row's image. Shape (R, 2)."""
        if self.box_format != "xyxyxyxy":
            raise InputError("oriented boxes that are fractions of their image must be corners; got angles")
        return replace(self, box=self.box * np.tile(scale, 4))

    def outer_boxes(self, *, is_truth: bool) -> NDArray[np.float64]:  # noqa: ARG002
        """The upright boxes around the boxes. Shape (R, 4)."""
        return bounds_of(self.box, self.box_format)

    def to_geometry(self, **_: Any) -> "OrientedBoxes":
        """Build the boxes."""
        return OrientedBoxes(boxes=self.box, box_format=self.box_format)

    def detection_areas(self, *_: Any) -> None:
        """Return None: files of oriented boxes have no areas of detections."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OrientedBoxes(BoxColumn):
    """Boxes at any angle: rectangles with an angle, or convex quadrilaterals.

    Args:
        boxes: Boxes in `box_format`. Shape (N, 8) or (N, 4, 2) for corners; (N, 5) with an angle.
        box_format: The format of `boxes`; default: "xyxyxyxy", four corners.

    Raises:
        InputError: A box is invalid, such as corners that are not convex.

    >>> protocol = Protocol.named("coco", iou_type="obb")
    >>> OrientedBoxes(boxes=[[10, 10, 4, 2, 30]], box_format="cxcywha:degrees").areas(protocol).tolist()
    [8.0]
    >>> OrientedBoxes(boxes=[[0, 0, 4, 0, 4, 2, 0, 2]]).outer_boxes().tolist()
    [[0.0, 0.0, 4.0, 2.0]]
    """

    name: ClassVar[str] = "oriented box"
    plural: ClassVar[str] = "oriented boxes"
    iou_types: ClassVar[tuple[str, ...]] = ("obb", "probiou")
    pairs_per_batch: ClassVar[int | None] = 2**18  # up to 8 corners per pair

    boxes: Array
    """Boxes in `box_format`. Shape (N, 8) for corners, (N, 5) with an angle."""
    box_format: BoxFormat = "xyxyxyxy"

    def __post_init__(self) -> None:
        check_box_format(self.box_format, ORIENTED_FORMATS)
        num = row_size(self.box_format)
        box = as_array("boxes", self.boxes)
        shape = shape_of(box)
        if shape == (0,):
            box = np.zeros((0, num))
        elif num == 8 and len(shape) == 3 and shape[1:] == (4, 2):
            box = namespace(box).reshape(box, (shape[0], 8))
        elif len(shape) != 2 or shape[1] != num:
            raise InputError(f"`boxes` must have shape {_wanted(self.box_format)}; got {shape}{_hint(shape)}")
        check_real("boxes", box)
        object.__setattr__(self, "boxes", box)
        _check_rows(self._compiled(is_probabilistic=False), box, self.box_format)

    def corners(self) -> NDArray[np.float64]:
        """The corners x1, y1, …, x4, y4, which turn from x to y, in host memory. Shape (N, 8).

        >>> OrientedBoxes(boxes=[[2, 1, 4, 2, 0]], box_format="cxcywha:radians").corners().tolist()
        [[0.0, 0.0, 4.0, 0.0, 4.0, 2.0, 0.0, 2.0]]
        """
        corners: NDArray[np.float64] = self._compiled(is_probabilistic=False).measured()[0]
        return corners

    def rectangles(self) -> NDArray[np.float64]:
        """Centre, width, height and angle in radians; for corners, the smallest rectangle around them. Shape (N, 5)."""
        rectangles: NDArray[np.float64] = self._compiled(is_probabilistic=False).rectangles()
        return rectangles

    def areas(self, protocol: Protocol, like: Array | None = None) -> Array:  # noqa: ARG002
        """Width times height, or the area within the corners. Shape (N,)."""
        return as_widest_float(
            self._compiled(is_probabilistic=False).measured()[2], self.boxes if like is None else like
        )

    def outer_boxes(self) -> Array:
        """The upright box around the corners. Shape (N, 4)."""
        return as_widest_float(self._compiled(is_probabilistic=False).measured()[1], self.boxes)

    def sketch(self, row: int) -> Sketch:
        """The four corners."""
        return Sketch(outlines=[self.take([row]).corners().reshape(4, 2)])

    def compiled(self, protocol: Protocol) -> Any:
        """The boxes for the native engine."""
        return self._compiled(is_probabilistic=protocol.iou_type == "probiou")

    def _compiled(self, *, is_probabilistic: bool) -> Any:
        box = to_numpy(self.boxes)
        box = compact(box, box.dtype if box.dtype in (np.float32, np.float64) else np.float64)
        return _compiled.OrientedBoxes(box, _FORMATS[self.box_format], is_probabilistic)

    def shapes(self, protocol: Protocol) -> list[OrientedBox]:  # noqa: ARG002
        """The boxes for the sequential engine."""
        compiled = self._compiled(is_probabilistic=False)
        corners, outer, _, surface = compiled.measured()
        columns = (corners.reshape(-1, 4, 2), outer, surface, compiled.gaussians())
        return [
            OrientedBox(tuple(map(tuple, quad)), tuple(box), area, tuple(gaussian))
            for quad, box, area, gaussian in zip(*(column.tolist() for column in columns), strict=True)
        ]

    @staticmethod
    def similarity(shape: OrientedBox, truth: OrientedBox, *, is_crowd: bool, protocol: Protocol) -> float:
        """IoU or ProbIoU of two boxes.

        >>> protocol = Protocol.named("coco", iou_type="obb")
        >>> one, other = OrientedBoxes(boxes=[[0, 0, 2, 0, 2, 2, 0, 2], [1, 0, 3, 0, 3, 2, 1, 2]]).shapes(protocol)
        >>> OrientedBoxes.similarity(one, other, is_crowd=True, protocol=protocol)
        0.5
        """
        if protocol.iou_type == "probiou":
            return _probiou(shape.gaussian, truth.gaussian)
        near = [max(shape.outer[axis], truth.outer[axis]) for axis in (0, 1)]
        far = [min(shape.outer[axis + 2], truth.outer[axis + 2]) for axis in (0, 1)]
        sides = [end - start for start, end in zip(near, far, strict=True)]
        if min(sides) <= 0 or min(shape.surface, truth.surface) <= 0:
            return 0.0
        ours, theirs = (shape.surface, *shape.corners), (truth.surface, *truth.corners)
        small, large = (shape, truth) if ours <= theirs else (truth, shape)
        inside = max(shared_area(small.corners, large.corners), 0.0)
        shared = min(inside, small.surface, sides[0] * sides[1] * ROUNDING)
        return shared / (shape.surface if is_crowd else shape.surface + truth.surface - shared)

    def gatherer(self, protocol: Protocol, like: Array) -> RowGatherer:
        """Make a gatherer of corners, outer boxes and areas; for ProbIoU, of normal distributions.

        Shapes (N, D, 8), (N, D, 4), (N, D); or (N, D, 6).
        """
        compiled = self._compiled(is_probabilistic=False)
        if protocol.iou_type == "probiou":
            return gatherer_of([as_widest_float(compiled.gaussians(), like)], like)
        corners, outer, _, surface = compiled.measured()
        return gatherer_of([as_widest_float(column, like) for column in (corners, outer, surface)], like)

    @staticmethod
    def pairwise(
        columns: tuple[Array, ...], truth_columns: tuple[Array, ...], is_crowd: Array, protocol: Protocol
    ) -> Array:
        """IoU or ProbIoU of all pairs. Shape (N, D, G)."""
        if protocol.iou_type == "probiou":
            return pairwise_probiou(*columns, *truth_columns)
        return pairwise_oriented_iou(columns, truth_columns, is_crowd)


def bounds_of(box: NDArray[np.float64], box_format: BoxFormat) -> NDArray[np.float64]:
    """The upright boxes around boxes, which need not be valid: left, top, right, bottom. Shape (N, 4)."""
    bounds: NDArray[np.float64] = _compiled.OrientedBoxes(compact(box), _FORMATS[box_format], False).measured()[1]
    return bounds


def faults_of(box: NDArray[np.float64], box_format: BoxFormat) -> dict[str, NDArray[np.bool_]]:
    """Whether each box is invalid, by kind of fault; only kinds that occur. Shape (N,) each."""
    faults = _compiled.OrientedBoxes(compact(box), _FORMATS[box_format], False).faults(LARGEST_SIDE)
    return {
        kind.name: faults == kind.value
        for kind in _compiled.OrientedFault
        if kind.value and bool((faults == kind.value).any())
    }


def pairwise_oriented_iou(columns: Sequence[Array], truth_columns: Sequence[Array], is_crowd_NG: Array) -> Array:
    """IoU from corners, outer boxes and areas; with a crowd, relative to the detection's area. Shape (N, D, G)."""
    corner_ND8, outer_ND4, area_ND = columns
    truth_corner_NG8, truth_outer_NG4, truth_area_NG = truth_columns
    xp = namespace(corner_ND8)
    near_NDG2 = xp.maximum(outer_ND4[:, :, None, :2], truth_outer_NG4[:, None, :, :2])
    far_NDG2 = xp.minimum(outer_ND4[:, :, None, 2:], truth_outer_NG4[:, None, :, 2:])
    side_NDG2 = far_NDG2 - near_NDG2
    most_NDG = side_NDG2[..., 0] * side_NDG2[..., 1] * ROUNDING
    area_NDG = area_ND[:, :, None] + xp.zeros_like(most_NDG)
    truth_area_NDG = truth_area_NG[:, None, :] + xp.zeros_like(most_NDG)
    ours = [area_NDG, *(corner_ND8[:, :, None, i] + xp.zeros_like(most_NDG) for i in range(8))]
    theirs = [truth_area_NDG, *(truth_corner_NG8[:, None, :, i] + xp.zeros_like(most_NDG) for i in range(8))]
    is_ordered_NDG = is_ordered(ours, theirs)
    small = [xp.where(is_ordered_NDG, a, b) for a, b in zip(ours, theirs, strict=True)]
    large = [xp.where(is_ordered_NDG, b, a) for a, b in zip(ours, theirs, strict=True)]
    inside_NDG = pairwise_shared(small[1:], large[1:])
    inside_NDG = xp.maximum(inside_NDG, xp.zeros_like(inside_NDG))
    shared_NDG = xp.minimum(xp.minimum(inside_NDG, small[0]), most_NDG)
    union_NDG = area_NDG + truth_area_NDG - shared_NDG
    union_NDG = xp.where(is_crowd_NG[:, None, :], area_NDG, union_NDG)
    is_apart_NDG = (side_NDG2[..., 0] <= 0) | (side_NDG2[..., 1] <= 0) | (area_NDG <= 0) | (truth_area_NDG <= 0)
    safe_NDG = xp.where(is_apart_NDG, xp.ones_like(union_NDG), union_NDG)
    return xp.where(is_apart_NDG, xp.zeros_like(shared_NDG), shared_NDG / safe_NDG)


def pairwise_probiou(gaussian_ND6: Array, truth_NG6: Array) -> Array:
    """One minus the Hellinger distance of normal distributions, with Ultralytics' epsilons. Shape (N, D, G)."""
    xp = namespace(gaussian_ND6)
    x, y, xx, yy, xy, own = (gaussian_ND6[:, :, None, i] for i in range(6))
    truth_x, truth_y, truth_xx, truth_yy, truth_xy, other = (truth_NG6[:, None, :, i] for i in range(6))
    xx, yy, xy, dx, dy = xx + truth_xx, yy + truth_yy, xy + truth_xy, x - truth_x, y - truth_y
    determinant = xx * yy - xy * xy
    determinant = xp.maximum(determinant, xp.zeros_like(determinant))  # rounding; Ultralytics' would be NaN
    divisor = determinant + EPSILON
    of_means = (xx * (dy * dy) + yy * (dx * dx)) / divisor * 0.25 + xy * (-dx) * dy / divisor * 0.5
    of_shapes = xp.log(determinant / (4 * xp.sqrt(own * other) + EPSILON) + EPSILON) * 0.5
    distance = of_means + of_shapes
    low, high = xp.full_like(distance, EPSILON), xp.full_like(distance, 100.0)
    distance = xp.minimum(xp.maximum(distance, low), high)
    similarity = 1 - xp.sqrt(1 - xp.exp(-distance) + EPSILON)
    return xp.maximum(similarity, xp.zeros_like(similarity))  # Ultralytics' may be -5e-8


def _probiou(shape: Sequence[float], truth: Sequence[float]) -> float:
    xx, yy, xy = (shape[i] + truth[i] for i in (2, 3, 4))
    dx, dy = shape[0] - truth[0], shape[1] - truth[1]
    determinant = max(xx * yy - xy * xy, 0.0)
    divisor = determinant + EPSILON
    of_means = (xx * (dy * dy) + yy * (dx * dx)) / divisor * 0.25 + xy * (-dx) * dy / divisor * 0.5
    of_shapes = math.log(determinant / (4 * math.sqrt(shape[5] * truth[5]) + EPSILON) + EPSILON) * 0.5
    distance = min(max(of_means + of_shapes, EPSILON), 100.0)
    return max(1 - math.sqrt(1 - math.exp(-distance) + EPSILON), 0.0)


def _wanted(box_format: str) -> str:
    if box_format == "xyxyxyxy":
        return "(N, 8) or (N, 4, 2), four corners per box"
    return f"(N, 5), centre, width, height and angle (box_format={box_format!r})"


def _hint(shape: tuple[int, ...]) -> str:
    """A hint at the format that a wrong number of columns suggests."""
    last = shape[-1] if len(shape) == 2 else 0
    if last == 8:
        return ': four corners per box are box_format="xyxyxyxy"'
    if last == 5:
        return ': boxes with an angle are box_format="cxcywha:radians" or "cxcywha:degrees"'
    if last == 4:
        return ': upright boxes are box_format="xyxy", "xywh" or "cxcywh"'
    if last >= 6 and last % 2 == 0:
        return f": {last // 2} corners per box"
    return ""


def _check_rows(compiled: Any, box: Array, box_format: str) -> None:
    """Raise `RowError` for the first invalid box."""
    row, fault = compiled.find_fault(LARGEST_SIDE)
    if fault == _compiled.OrientedFault.none:
        return
    rules = {
        "not_finite": f"must have {row_size(box_format)} finite numbers",
        "negative_size": f"must not have a negative width or height (box_format={box_format!r})",
        "large_side": f"must have sides up to {LARGEST_SIDE:g}",
        "large_angle": _angle_rule(box_format),
        "self_crossing": "must have its corners in order around the box, and not be self-crossing",
        "not_convex": "must be convex: no corner may lie inside of the triangle of the others",
    }
    is_valid = compiled.faults(LARGEST_SIDE) == _compiled.OrientedFault.none.value
    raise RowError("boxes", int(row), f"{rules[fault.name]}; got {to_numpy(box[row]).tolist()}", is_valid)


def _angle_rule(box_format: str) -> str:
    if "degrees" in box_format:
        return f"must have an angle of at most a turn, 360 degrees (box_format={box_format!r})"
    other = box_format.replace("radians", "degrees")
    hint = f"are these degrees, box_format={other!r}?"
    return f"must have an angle of at most a turn, 2 pi radians (box_format={box_format!r}; {hint})"
