"""Keypoints: poses of people, corners of objects; object keypoint similarity (OKS) with the bits of pycocotools.

Dimensions: N images, D detections, G truths, K keypoints, S keypoints that count, J slots of a sum.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore.arrays import (
    Array,
    arange,
    as_widest_float,
    compact,
    convert,
    float_dtype,
    namespace,
    take_rows,
    to_numpy,
    zeros,
)
from boxscore.data.geometry import Geometry, RowGatherer, RowShape, ShapeRows, Sketch, TableColumns, gatherer_of
from boxscore.data.geometry.box_formats import BoxFormat, is_oriented
from boxscore.data.geometry.boxes import Boxes, to_xywh
from boxscore.data.validation import RowError, as_array, check_real, is_contiguous_float, is_kind, shape_of
from boxscore.protocol.protocol import Protocol
from boxscore.protocol.table import BOX_SHARE, NUM_WHOLEBODY

EPSILON = float(np.spacing(1))
"""Added to the area before dividing by it. # as in COCO"""

POINT_BYTES = 100
"""Memory for matching one keypoint."""

_LIST_RULE = "must be a list of numbers x, y, v, x, y, v, …, three for each point"

NUM_LANES, MOST_SUMMED = 8, 128
"""NumPy's order of additions: 8 interleaved sums for up to 128 numbers; more numbers are split into halves."""

_COCO_BONES = (
    *((15, 13), (13, 11), (16, 14), (14, 12), (11, 12), (5, 11), (6, 12), (5, 6), (5, 7), (6, 8), (7, 9), (8, 10)),
    *((1, 2), (0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6)),
)
_CROWDPOSE_BONES = (
    *((12, 13), (13, 0), (13, 1), (0, 2), (2, 4), (1, 3), (3, 5), (0, 6), (1, 7), (6, 7)),
    *((6, 8), (8, 10), (7, 9), (9, 11)),
)
_SKELETONS = {17: _COCO_BONES, 14: _CROWDPOSE_BONES, NUM_WHOLEBODY: _COCO_BONES}
"""Lines between keypoints in pictures, by the number of keypoints of a known dataset: COCO, CrowdPose,
COCO-WholeBody."""


class Pose(NamedTuple):
    """One set of keypoints, as the sequential engine compares it."""

    points: list[tuple[float, float]]
    is_labelled: list[bool]
    """Whether each point of a truth is compared; empty for a detection."""
    scale: float
    """The area of a truth, by which squared distances are divided."""
    region: tuple[float, ...]
    """If no point is labelled, distances are measured from this region, the box enlarged three times: left, top, right,
    bottom."""


@dataclass(frozen=True, slots=True, eq=False)
class PoseRows(ShapeRows):
    """The keypoints of a file's rows."""

    point: NDArray[np.float64]
    """Shape (R, K, 2)."""
    third: NDArray[np.float64] | None
    """The visibility of each point of a truth, the score of each point of a detection. Shape (R, K)."""
    num_labelled: NDArray[np.float64] | None = None
    """Number of labelled points, if the file has it. Shape (R,)."""

    @classmethod
    def of_lists(cls, column: Sequence[Any] | NDArray[Any], name: str = "keypoints") -> "PoseRows":
        """Read a list x, y, v, x, y, v, … per row, in JSON or not, or an array (R, 3 K), (R, K, 3) or (R, K, 2).

        Every row must have the same number of points. `name`: of the column, for errors.
        """
        array = column if isinstance(column, np.ndarray) else np.zeros(())
        is_real = array.dtype.kind in "iuf"
        if is_real and array.ndim == 2 and array.shape[1] and array.shape[1] % 3 == 0:
            numbers = array.astype(np.float64).reshape(len(array), -1, 3)
        elif array.ndim == 3:
            if not is_real or array.shape[2] not in (2, 3) or not (array.shape[1] or not len(array)):
                rule = "must be numbers of shape (N, K, 3) or (N, K, 2)"
                raise RowError(name, 0, f"{rule}; got {array.dtype} of shape {array.shape}")
            numbers = array.astype(np.float64, copy=False)
        else:
            numbers = _listed(column, name)
        point = np.ascontiguousarray(numbers[:, :, :2])
        return cls(point, np.ascontiguousarray(numbers[:, :, 2]) if numbers.shape[2] == 3 else None)

    def take(self, rows: Any) -> "PoseRows":
        """Select rows by index or by flag."""
        names = ("point", "third", "num_labelled")
        columns = {name: column[rows] for name in names if (column := getattr(self, name)) is not None}
        return replace(self, **columns)

    def scaled(self, scale: NDArray[np.float64]) -> "PoseRows":
        """Convert fractions to pixels. `scale`: width and height of each row's image. Shape (R, 2)."""
        return replace(self, point=self.point * scale[:, None])

    def outer_boxes(self, *, is_truth: bool) -> NDArray[np.float64]:
        """The boxes around the points, of truths around the labelled ones. Shape (R, 4)."""
        return to_numpy(Keypoints(point=self.point, visibility=self.third if is_truth else None).outer_boxes())

    def to_geometry(
        self,
        *,
        is_truth: bool,
        box: NDArray[np.float64],
        box_format: BoxFormat,
        area: NDArray[np.float64] | None,
    ) -> "Keypoints":
        """Build the keypoints; the boxes and areas decide the scales of truths."""
        if not is_truth:
            return Keypoints.of_detections(self.point, self.third)
        boxes: dict[str, Any] = {"box": box, "box_format": box_format} if self.has_boxes else {}
        keypoints = Keypoints.of_truths(self.point, self.third, area=area, **boxes)
        return replace(keypoints, num_labelled=self.num_labelled)

    def detection_areas(
        self, area: NDArray[np.float64] | None, box: NDArray[np.float64], box_format: BoxFormat
    ) -> NDArray[np.float64] | None:
        """The given areas, else of the boxes. # as in COCO: the box decides, and not the points"""
        if area is not None or not self.has_boxes:
            return area
        _, _, width, height = to_xywh(box, box_format)
        return np.asarray(width * height)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Keypoints(Geometry):
    """Sets of keypoints, K in each.

    Use `of_detections` and `of_truths` to construct them. `Detections` and `Truths` take arrays as `keypoints`.

    Args:
        point: x and y. Shape (N, K, 2).
        visibility: Of truths: above 0 if a point is labelled. Shape (N, K).
        score: Of detections: the confidence of each point. Shape (N, K).
        area: Of truths: the area by which squared distances are divided. Shape (N,).
        box: Of truths: left, top, width and height of the object. Shape (N, 4).
        num_labelled: Of truths: the number of labelled points. Shape (N,).

    >>> len(Keypoints.of_detections(np.ones((3, 17, 3))))
    3
    """

    name: ClassVar[str] = "set of keypoints"
    plural: ClassVar[str] = "sets of keypoints"
    key: ClassVar[str] = "keypoints"
    row_shape: ClassVar[RowShape] = (None, None)
    detection_keys: ClassVar[Mapping[str, RowShape]] = {"keypoints_scores": (None,)}
    # If no point of a truth is labelled, points may be anywhere near its box.
    truth_keys: ClassVar[Mapping[str, RowShape]] = {"visibility": (None,), "boxes": (4,)}
    misspellings: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "keypoints": ("kpts", "kpt", "poses", "landmarks"),
        "visibility": ("visibilities", "visible", "keypointsvisible", "keypointsvisibility"),
        "keypoints_scores": ("keypointscores", "keypointscore", "keypointsconf"),
    }
    iou_types: ClassVar[tuple[str, ...]] = ("keypoints",)
    columns: ClassVar[tuple[str, ...]] = ("keypoints",)
    more_columns: ClassVar[tuple[str, ...]] = ("num_keypoints",)
    terms: ClassVar[Mapping[str, str]] = {
        "visibility": "keypoints",
        "keypoints_scores": "keypoints",
        "num_labelled": "num_keypoints",
    }
    pairs_per_batch: ClassVar[int | None] = 2**16

    point: Array
    """x and y. Shape (N, K, 2)."""
    visibility: Array | None = None
    """Of truths: above 0 if a point is labelled. Shape (N, K)."""
    score: Array | None = None
    """Of detections: the confidence of each point. Some protocols drop detections without a score above 0. Shape
    (N, K)."""
    area: Array | None = None
    """Of truths: the area by which squared distances are divided; None: derived. Shape (N,)."""
    box: Array | None = None
    """Of truths: left, top, width and height of the object. Shape (N, 4)."""
    num_labelled: Array | None = None
    """Of truths: the number of labelled points, if a file gives it. Shape (N,)."""

    @classmethod
    def of_detections(cls, values: Any, score: Any = None) -> "Keypoints":
        """Build the keypoints of detections.

        Args:
            values: Points (D, K, 2), or (D, K, 3) with a score per point; or `Keypoints`.
            score: The scores of points (D, K, 2). Beside (D, K, 3), as from torchvision's KeypointRCNN, they are not
                used: they are scores of heatmaps, and COCO's results have the third column. Shape (D, K).
        """
        if isinstance(values, Keypoints):
            return replace(values, visibility=None, area=None, box=None, num_labelled=None)
        point, third, name = _split(values, score, "keypoints_scores", prefers_own=True)
        if third is not None:
            _check_third(name, third, point)
        return cls(point=point, score=third)

    @classmethod
    def of_truths(
        cls, values: Any, visibility: Any = None, *, area: Any = None, box: Any = None, box_format: BoxFormat = "xyxy"
    ) -> "Keypoints":
        """Build the keypoints of truths.

        Args:
            values: Points (G, K, 3) with a visibility per point, or (G, K, 2); or `Keypoints`. Those of detections get
                the boxes around their points.
            visibility: The visibilities of points (G, K, 2); default: all points are labelled. Shape (G, K).
            area: The areas of the truths. Default: BOX_SHARE of the area of `box`, or, without it, of the box around
                the labelled points. Shape (G,).
            box: Upright boxes of the objects. Shape (G, 4).
            box_format: The format of `box`.

        Raises:
            InputError: Values are invalid, such as an area of 0 of a truth with labelled points.

        >>> truth = Keypoints.of_truths([[[0, 0, 2], [10, 20, 2], [0, 0, 0]]])
        >>> truth.areas(Protocol.named("coco_keypoints")).tolist()
        [106.0]
        """
        if isinstance(values, Keypoints):
            if values.visibility is not None:
                return values
            visibility = namespace(values.point).ones_like(values.point[:, :, 0])
            bounds = _bounds(as_widest_float(values.point, values.point))
            sides = namespace(bounds).concat([bounds[:, :2], bounds[:, 2:] - bounds[:, :2]], axis=1)
            return replace(values, visibility=visibility, score=None, box=sides)
        point, third, name = _split(values, visibility, "visibility")
        if third is None:
            xp = namespace(point)
            third = xp.ones_like(point[:, :, 0])
        else:
            _check_third(name, third, point)
            _check_each(name, third >= 0, third, "must not have a negative visibility")
        sides = None
        if box is not None:
            if is_oriented(box_format):
                raise InputError(f"`box_format` must be of upright boxes beside keypoints; got {box_format!r}")
            boxes = Boxes(boxes=convert(as_array("boxes", box), like=point), box_format=box_format)
            real = namespace(boxes.boxes).astype(boxes.boxes, float_dtype(boxes.boxes))
            sides = namespace(real).stack(to_xywh(real, box_format), axis=-1)
        given = None if area is None else convert(as_array("area", area), like=point)
        truths = cls(point=point, visibility=third, area=given, box=sides)
        if all(shape_of(column)[:1] == (len(truths),) for column in truths.arrays):  # else `Truths` reports it
            truths._check_scales()
        return truths

    def _check_scales(self) -> None:
        """Raise `RowError` for a truth with labelled points and an area of 0, as OKS divides by it."""
        if len(self):
            scale = self.area if self.area is not None else self._default_areas(self.point)
            name = "area" if self.area is not None else "box" if self.box is not None else "keypoints"
            self._check_labelled(scale, name)

    def _check_labelled(self, scale: Array, name: str) -> None:
        """Raise `RowError` for a truth with labelled points and a scale of 0. `name`: the column of the scale."""
        is_labelled = np.asarray((to_numpy(self.visibility) > 0).any(axis=1))
        is_valid = (to_numpy(scale) > 0) | ~is_labelled
        if is_valid.all():
            return
        row = int(np.argmin(is_valid))
        rule = "must have an area above 0, as OKS divides by it"
        if name == "area":
            raise RowError("area", row, f"must be above 0, as OKS divides by it; got {float(scale[row]):g}")
        if name == "box" and self.box is not None:
            raise RowError("boxes", row, f"{rule}; got sides {to_numpy(self.box[row, 2:]).tolist()}")
        raise RowError("keypoints", row, f"{rule}; give `area`, or boxes; got labelled points in one line")

    def __len__(self) -> int:
        return int(self.point.shape[0])

    @property
    def num_points(self) -> int:
        """Number of points per set, K."""
        return int(self.point.shape[1])

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The points, and the other columns that are not None."""
        more = (self.visibility, self.score, self.area, self.box, self.num_labelled)
        return self.point, *(column for column in more if column is not None)

    def take(self, rows: Any) -> Self:
        """Select sets. `rows`: indices, or one flag per row."""
        names = ("point", "visibility", "score", "area", "box", "num_labelled")
        columns = {name: column for name in names if (column := getattr(self, name)) is not None}
        return replace(self, **{name: take_rows(column, rows) for name, column in columns.items()})

    def is_blank(self, protocol: Protocol) -> NDArray[np.bool_] | None:
        """Whether a truth has no labelled points, or a detection no score above 0, if the protocol needs scores."""
        if self.visibility is None:
            if self.score is None or not protocol.keypoints.needs_scores:
                return None
            return ~np.asarray((to_numpy(self._part(self.score, protocol)) > 0).any(axis=1))
        if len(self) == 0:
            return None
        if self.num_labelled is not None and self._range(protocol) == (0, self.num_points):
            return np.asarray(to_numpy(self.num_labelled) == 0)
        return ~np.asarray((to_numpy(self._part(self.visibility, protocol)) > 0).any(axis=1))

    def suits(self, protocol: Protocol) -> bool:
        """Whether a protocol of parts of a body is given whole bodies; others suit any points."""
        return protocol.keypoints.num_area_points is None or self.num_points == NUM_WHOLEBODY

    def areas(self, protocol: Protocol, like: Array | None = None) -> Array:
        """Areas of truths, given or derived; for detections, areas of the boxes around the points. Shape (N,)."""
        home = self.point if like is None else like
        if self.visibility is not None:
            return self._scales(protocol, home)
        box = _bounds(as_widest_float(self.point, home)[:, : self._num_area_points(protocol)])
        return (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1])

    def outer_boxes(self) -> Array:
        """The boxes of truths, if given; else the boxes around the points, of truths only around labelled ones."""
        xp = namespace(self.point)
        if self.box is not None:
            return xp.concat([self.box[:, :2], self.box[:, :2] + self.box[:, 2:]], axis=1)
        return _bounds(as_widest_float(self.point, self.point), self.visibility)

    def sketch(self, row: int) -> Sketch:
        """The labelled points of a truth, or all points of a detection, with the skeleton if it is known."""
        point = to_numpy(self.point[row]).astype(np.float64)
        is_shown = np.ones(len(point), bool) if self.visibility is None else to_numpy(self.visibility[row]) > 0
        bones = [point[[a, b]] for a, b in _SKELETONS.get(len(point), ()) if is_shown[a] and is_shown[b]]
        return Sketch(lines=bones, points=point[is_shown])

    @classmethod
    def from_written(cls, written: Mapping[str, Any], *, is_truth: bool, area: Any) -> "Keypoints":
        """Build the keypoints of detections or truths."""
        values = written["keypoints"]
        if not is_truth:
            return cls.of_detections(values, written.get("keypoints_scores"))
        box_format: BoxFormat = written.get("box_format", "xyxy")
        return cls.of_truths(
            values, written.get("visibility"), area=area, box=written.get("boxes"), box_format=box_format
        )

    def for_side(self, *, is_truth: bool) -> "Keypoints":
        """Truths have visibilities, detections scores."""
        return self.of_truths(self) if is_truth else self.of_detections(self)

    @classmethod
    def read_columns(cls, table: TableColumns, *, is_truth: bool) -> PoseRows:
        """Read the lists of points; of truths also the number of labelled points, if the table has it."""
        (name,), (num,) = cls.columns, cls.more_columns
        rows = PoseRows.of_lists(table.columns[name])
        # A whole body's file counts only some of its points.
        if not is_truth or num not in table.columns or rows.point.shape[1] == NUM_WHOLEBODY:
            return rows
        return replace(rows, num_labelled=table.floats(num))

    @classmethod
    def from_columns(cls, columns: Mapping[str, NDArray[Any]]) -> "Keypoints":
        """Build the keypoints of detections."""
        return cls.of_detections(columns["keypoints"])

    def triples(self) -> NDArray[np.float64]:
        """x, y and the visibility or score of every point; 1 without either. Shape (N, K, 3)."""
        point = to_numpy(self.point).astype(np.float64)
        third = self.score if self.visibility is None else self.visibility
        last = np.ones(point.shape[:2]) if third is None else to_numpy(third).astype(np.float64)
        return np.concatenate([point, last[:, :, None]], axis=2)

    def written_columns(self) -> dict[str, NDArray[Any]]:
        """The points, and the number of labelled ones if a file gave it."""
        num = {} if self.num_labelled is None else {"num_keypoints": to_numpy(self.num_labelled).astype(np.int64)}
        return {**num, "keypoints": self.triples()}

    def own_boxes(self) -> tuple[Array, BoxFormat] | None:
        """The boxes of truths, if they were given."""
        return None if self.box is None else (self.box, "xywh")

    def written_areas(self, area: NDArray[np.float64] | None, box_area: NDArray[np.float64] | None) -> Any:
        """The areas, unless readers get the same ones from the boxes."""
        if area is None and box_area is not None and self.num_points != NUM_WHOLEBODY:
            area = to_numpy(self.areas(Protocol.named("coco_keypoints"))).astype(np.float64)
        return None if area is None or (box_area is not None and np.array_equal(box_area, area)) else area

    @classmethod
    def row_bytes(cls, protocol: Protocol) -> int:
        """Memory for the points that count."""
        return POINT_BYTES * len(protocol.sigmas)

    def compiled(self, protocol: Protocol) -> Any:
        """The sets for the native engine."""
        host, points = np.zeros(0), compact(to_numpy(self._part(self.point, protocol)), np.float64)
        sigmas = [] if len(self) == 0 else list(protocol.sigmas)
        has_all = len(self) == 0 or self._range(protocol) == (0, self.num_points)
        if self.visibility is None and has_all and self._num_area_points(protocol) >= self.num_points:
            return _compiled.Keypoints(points, sigmas)
        areas = compact(to_numpy(self.areas(protocol, host)), np.float64)
        if self.visibility is None:
            return _compiled.Keypoints(points, sigmas, areas)
        labelled = compact(to_numpy(self._part(self.visibility, protocol)) > 0, np.uint8)
        box = None if self.box is None else compact(to_numpy(self.box), np.float64)
        return _compiled.Keypoints(points, sigmas, areas, labelled, areas, box)

    def shapes(self, protocol: Protocol) -> list[Pose]:
        """The sets for the sequential engine."""
        host = np.zeros(0)
        points = as_widest_float(self._part(self.point, protocol), host).tolist()
        if self.visibility is None:
            return [Pose([(x, y) for x, y in each], [], 0.0, ()) for each in points]
        labelled = (to_numpy(self._part(self.visibility, protocol)) > 0).tolist()
        columns = (points, labelled, self._scales(protocol, host).tolist(), self._regions(host).tolist())
        return [
            Pose([(x, y) for x, y in each], flags, scale, tuple(region))
            for each, flags, scale, region in zip(*columns, strict=True)
        ]

    @staticmethod
    def similarity(shape: Pose, truth: Pose, *, is_crowd: bool, protocol: Protocol) -> float:  # noqa: ARG004
        """OKS of two sets. `is_crowd` has no effect: a crowd is compared like any truth.

        >>> protocol = Protocol.named("coco_keypoints", sigmas=[0.1, 0.1])
        >>> truth = Keypoints.of_truths([[[0, 0, 2], [9, 9, 2]]], area=[100]).shapes(protocol)[0]
        >>> pose = Keypoints.of_detections([[[0, 0], [9, 5]]]).shapes(protocol)[0]
        >>> Keypoints.similarity(pose, truth, is_crowd=False, protocol=protocol)  # (1 + exp(-2)) / 2
        0.5676676416183064
        """
        closeness = []
        has_labels = any(truth.is_labelled)
        for k, ((x, y), (truth_x, truth_y), sigma) in enumerate(
            zip(shape.points, truth.points, protocol.sigmas, strict=True)
        ):
            if has_labels:
                if not truth.is_labelled[k]:
                    continue
                dx, dy = x - truth_x, y - truth_y
            else:
                left, top, right, bottom = truth.region
                dx = max(0.0, left - x) + max(0.0, x - right)
                dy = max(0.0, top - y) + max(0.0, y - bottom)
            squared = dx * dx + dy * dy
            closeness.append(math.exp(-(squared / variance_of(sigma) / (truth.scale + EPSILON) / 2)))
        return float(np.sum(np.array(closeness)) / len(closeness))  # as in COCO: NumPy's order of additions

    def gatherer(self, protocol: Protocol, like: Array) -> RowGatherer:
        """Make a gatherer of points; for truths also of labelled flags, scales and regions.

        Shapes (N, D, S, 2), and for truths (N, G, S), (N, G), (N, G, 4).
        """
        if self.visibility is None:
            return gatherer_of([as_widest_float(self._part(self.point, protocol), like)], like)
        return gatherer_of(self.truth_columns(protocol, like), like)

    @staticmethod
    def pairwise(
        columns: tuple[Array, ...],
        truth_columns: tuple[Array, ...],
        is_crowd: Array,  # noqa: ARG004
        protocol: Protocol,
    ) -> Array:
        """OKS of all pairs. Shape (N, D, G)."""
        (point_NDS2,), (truth_NGS2, labelled_NGS, scale_NG, region_NG4) = columns, truth_columns
        xp = namespace(point_NDS2, truth_NGS2)
        point_ND1S2 = point_NDS2[:, :, None]
        beyond_NDGS2 = region_NG4[:, None, :, None, :2] - point_ND1S2
        below_NDGS2 = point_ND1S2 - region_NG4[:, None, :, None, 2:]
        zero = xp.zeros_like(beyond_NDGS2)
        apart_NDGS2 = xp.maximum(zero, beyond_NDGS2) + xp.maximum(zero, below_NDGS2)
        num_NG1 = xp.sum(labelled_NGS, axis=-1)[:, :, None]
        has_labels_N1G11 = (num_NG1 > 0)[:, None, :, :, None]
        offset_NDGS2 = xp.where(has_labels_N1G11, point_ND1S2 - truth_NGS2[:, None], apart_NDGS2)
        squared_NDGS = offset_NDGS2[..., 0] * offset_NDGS2[..., 0] + offset_NDGS2[..., 1] * offset_NDGS2[..., 1]
        zero_1 = zeros((1,), like=scale_NG, dtype=scale_NG.dtype)
        variance_S = xp.concat([zero_1 + variance_of(sigma) for sigma in protocol.sigmas], axis=0)
        scale_N1G1 = scale_NG[:, None, :, None] + EPSILON
        # XLA would replace division by a constant or a broadcast array by a product with the rounded reciprocal, and
        # two divisions by one. Conditions that are always True prevent it.
        is_real_NDGS = squared_NDGS >= 0
        one_NDGS = xp.ones_like(squared_NDGS)
        squared_NDGS = squared_NDGS / xp.where(is_real_NDGS, variance_S, one_NDGS)
        squared_NDGS = xp.where(is_real_NDGS, squared_NDGS, one_NDGS)
        squared_NDGS = squared_NDGS / xp.where(is_real_NDGS, scale_N1G1, one_NDGS)
        closeness_NDGS = xp.exp(-(squared_NDGS / 2))
        counted_NGS = xp.where(num_NG1 > 0, labelled_NGS, xp.ones_like(labelled_NGS))
        total_NDG = _sum_as_numpy(closeness_NDGS, counted_NGS)
        num_N1G = xp.sum(counted_NGS, axis=-1)[:, None, :]
        return total_NDG / xp.where(total_NDG >= 0, num_N1G, xp.ones_like(total_NDG))

    def truth_columns(self, protocol: Protocol, like: Array) -> tuple[Array, ...]:
        """The columns of truths that `pairwise` compares. Shapes (N, S, 2), (N, S), (N,) and (N, 4)."""
        points = as_widest_float(self._part(self.point, protocol), like)
        visibility = as_widest_float(self._part(self.visibility, protocol), like)
        labelled = namespace(visibility).astype(visibility > 0, visibility.dtype)
        return points, labelled, self._scales(protocol, like), self._regions(like)

    def _range(self, protocol: Protocol) -> tuple[int, int]:
        """Start and end of the points that count. Arrays may also have only these points."""
        num = len(protocol.sigmas)
        first = protocol.keypoints.first
        if self.num_points == num:
            return 0, num
        has_parts = protocol.keypoints.num_area_points is not None
        if not has_parts or first + num > self.num_points:
            rule = f"`sigmas` must have one number for each of the {self.num_points} keypoints; got {num}"
            hint = "" if num else "; those of COCO are in the protocol coco_keypoints"
            raise InputError(f"{rule} (protocol {protocol.name}){hint}")
        return first, first + num

    def _num_area_points(self, protocol: Protocol) -> int:
        """Number of leading points whose outer box gives a detection's area; all, if no other points are given."""
        num = protocol.keypoints.num_area_points
        is_part_alone = protocol.keypoints.first > 0 and self.num_points == len(protocol.sigmas)
        return self.num_points if num is None or is_part_alone else num

    def _part(self, column: Array, protocol: Protocol) -> Array:
        """Select the points that count from a column. Shape (N, S, ...)."""
        if self.point.shape[0] == 0:  # `len` would make a compiler assume one number of rows
            return convert(np.zeros((0, len(protocol.sigmas), *shape_of(column)[2:])), like=column)
        first, end = self._range(protocol)
        return column if (first, end) == (0, self.num_points) else column[:, first:end]

    def _scales(self, protocol: Protocol, like: Array) -> Array:
        """The areas by which squared distances to truths are divided. Shape (N,)."""
        share = protocol.keypoints.box_share
        if share is not None:
            if self.box is None and len(self) == 0:
                return self._default_areas(like)
            if self.box is None:
                raise InputError(
                    f"`boxes` must be given for the truths: protocol {protocol.name} takes areas from them"
                )
            areas = _box_areas(as_widest_float(self.box, like)) * share
            self._check_labelled(areas, "box")
            return areas
        return self._default_areas(like) if self.area is None else as_widest_float(self.area, like)

    def _default_areas(self, like: Array) -> Array:
        """Areas derived from boxes, or else from the labelled points. Shape (N,)."""
        if self.box is not None:
            return _box_areas(as_widest_float(self.box, like)) * BOX_SHARE
        visibility = None if self.visibility is None else convert(self.visibility, like=like)
        box = _bounds(as_widest_float(self.point, like), visibility)
        return (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1]) * BOX_SHARE

    def _regions(self, like: Array) -> Array:
        """Left, top, right, bottom of boxes enlarged three times; empty regions without boxes. Shape (N, 4)."""
        if self.box is None:
            corner = namespace(like).sum(as_widest_float(self.point, like), axis=1)
            nowhere = namespace(like).full_like(corner, np.inf)
            return namespace(like).concat([nowhere, -nowhere], axis=1)
        box = as_widest_float(self.box, like)
        near, side = box[:, :2], box[:, 2:]
        return namespace(box).concat([near - side, near + side * 2], axis=1)


def _listed(column: Sequence[Any] | NDArray[Any], name: str) -> NDArray[np.float64]:
    """Read lists of numbers, in JSON or not. Shape (R, K, 3)."""
    rows: list[NDArray[np.float64]] = []
    for row, cell in enumerate(column):
        numbers = _numbers(cell)
        if numbers is None or not numbers.size or numbers.size % 3:
            got = repr(cell)[:60] if numbers is None else f"{numbers.size} numbers"
            raise RowError(name, row, f"{_LIST_RULE}; got {got}")
        if rows and numbers.size != rows[0].size:
            rule = f"must have as many points as the first row, {rows[0].size // 3}"
            raise RowError(name, row, f"{rule}; got {numbers.size // 3}")
        rows.append(numbers)
    return np.stack(rows).reshape(len(rows), -1, 3) if rows else np.zeros((0, 0, 3))


def _numbers(cell: Any) -> NDArray[np.float64] | None:
    """The numbers of a cell, which has one list, or one list per point; None if the cell is invalid."""
    import json  # only tables need it

    try:
        value = json.loads(cell) if isinstance(cell, str) else cell.tolist() if isinstance(cell, np.ndarray) else cell
        numbers = np.asarray(value, np.float64)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    is_valid = numbers.ndim == 1 or (numbers.ndim == 2 and numbers.shape[1] == 3)
    return numbers.reshape(-1) if is_valid else None


def variance_of(sigma: float) -> float:
    """Square of twice a sigma. # as in COCO"""
    return (sigma * 2) * (sigma * 2)


def _split(values: Any, third: Any, name: str, *, prefers_own: bool = False) -> tuple[Array, Array | None, str]:
    """Split keypoints into points and the third value of each, with the argument it is from. Shapes (N, K, 2), (N, K).

    Args:
        values: The keypoints. Shape (N, K, 2) or (N, K, 3).
        third: The third values, if given separately.
        name: The argument of `third`.
        prefers_own: Whether to prefer the third column of `values` over `third`; else giving both is an error.
    """
    array = as_array("keypoints", values)
    shape = shape_of(array)
    if shape[:1] == (0,) and 0 in (shape[1:] or (0,)):
        array, shape = np.zeros((0, 0, 2)), (0, 0, 2)
    if len(shape) != 3 or shape[2] not in (2, 3) or (shape[0] and not shape[1]):
        raise InputError(f"`keypoints` must have shape (N, K, 3) or (N, K, 2); got {shape}")
    check_real("keypoints", array)
    own = array[:, :, 2] if shape[2] == 3 else None
    point = array[:, :, :2] if shape[2] == 3 else array
    _check_each("keypoints", _are_finite(point), point, "must have finite numbers")
    if third is None:
        return point, own, "keypoints"
    if own is not None and not prefers_own:
        raise InputError(f"`keypoints` must have shape (N, K, 2) beside `{name}`; got {shape}")
    apart = as_array(name, third)
    if own is not None:
        _check_shape(name, apart, point)
        return point, own, "keypoints"
    if is_kind(apart, "bool"):
        apart = namespace(apart).astype(apart, float_dtype(apart))
    return point, convert(apart, like=point), name


def _check_shape(name: str, column: Array, point: Array) -> None:
    if shape_of(column) != shape_of(point)[:2]:
        raise InputError(f"`{name}` must have shape {shape_of(point)[:2]}, one per keypoint; got {shape_of(column)}")


def _check_third(name: str, column: Array, point: Array) -> None:
    _check_shape(name, column, point)
    check_real(name, column)
    _check_each(name, _are_finite(column), column, "must have finite numbers")


def _are_finite(column: Array) -> Array:
    if is_contiguous_float(column) and _compiled.are_finite(column):
        return np.ones((0,), bool)
    return namespace(column).isfinite(namespace(column).astype(column, float_dtype(column)))


def _check_each(name: str, is_valid: Array, column: Array, rule: str) -> None:
    """Raise `RowError` for the first point whose flag is False."""
    if bool(namespace(is_valid).all(is_valid)):
        return
    flags = to_numpy(is_valid)
    row, point, *_ = np.argwhere(~flags)[0].tolist()
    of_rows = np.asarray(flags.reshape(len(flags), -1).all(axis=1))
    raise RowError(name, row, f"{rule}; got {to_numpy(column)[row, point].tolist()} for point {point}", of_rows)


def _box_areas(box: Array) -> Array:
    return box[:, 2] * box[:, 3]


def _bounds(point: Array, visibility: Array | None = None) -> Array:
    """Left, top, right, bottom of the labelled points, or of all points if none is labelled. Shape (N, 4)."""
    xp = namespace(point)
    if 0 in (point.shape[0], point.shape[1]):
        return zeros((int(point.shape[0]), 4), like=point, dtype=point.dtype)
    low = high = point
    if visibility is not None:
        is_labelled = visibility > 0
        is_out = (~is_labelled & xp.any(is_labelled, axis=1)[:, None])[:, :, None]
        low = xp.where(is_out, xp.full_like(point, xp.inf), point)
        high = xp.where(is_out, xp.full_like(point, -xp.inf), point)
    return xp.concat([xp.min(low, axis=1), xp.max(high, axis=1)], axis=1)


def _sum_as_numpy(value_NDGS: Array, counted_NGS: Array) -> Array:
    """Sum the values that count, in the order in which NumPy adds an array of only these values. Shape (N, D, G).

    NumPy adds up to 7 numbers sequentially. For more, it computes eight sums, each of every eighth number; adds these
    in pairs; and then adds the remaining numbers after the last multiple of eight. Here each value goes to a slot:

        slot   0 … 7: the eight sums   8 … 14: the remaining numbers   repeated for each part of more than 128 numbers
    """
    xp = namespace(value_NDGS)
    num_values = int(value_NDGS.shape[-1])
    depth = _most_halvings(num_values)
    slot_NGS = _slots(counted_NGS, depth)
    num_slots = (2 * NUM_LANES - 1) * 2**depth
    index_J = xp.astype(arange(num_slots, like=slot_NGS), slot_NGS.dtype)
    total_NDGJ = xp.zeros_like(value_NDGS[..., :1]) + xp.zeros_like(index_J)
    for s in range(num_values):
        is_slot_NGJ = (slot_NGS[:, :, s, None] == index_J) & (counted_NGS[:, :, s, None] > 0)
        total_NDGJ = total_NDGJ + value_NDGS[..., s, None] * xp.astype(is_slot_NGJ, value_NDGS.dtype)[:, None]
    sums = []
    for part in range(2**depth):
        lane = [total_NDGJ[..., part * (2 * NUM_LANES - 1) + j] for j in range(2 * NUM_LANES - 1)]
        total = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]))
        for j in range(NUM_LANES, 2 * NUM_LANES - 1):
            total = total + lane[j]
        sums.append(total)
    while len(sums) > 1:
        sums = [sums[i] + sums[i + 1] for i in range(0, len(sums), 2)]
    return sums[0]


def _most_halvings(num: int) -> int:
    """The largest number of times that NumPy halves up to `num` numbers; the larger half has at most `num // 2 + 8`.

    >>> [_most_halvings(num) for num in (128, 129, 200, 251)]
    [0, 1, 1, 2]
    """
    num_halvings = 0
    while num > MOST_SUMMED:
        num, num_halvings = num // 2 + NUM_LANES, num_halvings + 1
    return num_halvings


def _slots(counted_NGS: Array, depth: int) -> Array:
    """The slot to which each value is added, if it counts. Shape (N, G, S)."""
    xp = namespace(counted_NGS)
    num_values = int(counted_NGS.shape[-1])
    index_S = arange(num_values, like=counted_NGS)
    earlier = xp.astype(index_S[:, None] < index_S, counted_NGS.dtype)
    index = xp.matmul(counted_NGS, earlier)  # among the values that count
    num = xp.sum(counted_NGS, axis=-1)[:, :, None] + xp.zeros_like(index)
    part = xp.zeros_like(index)
    for _ in range(depth):
        is_split = num > MOST_SUMMED
        half = xp.floor(num / 2)
        half = half - _remainder(half)
        is_second = is_split & (index >= half)
        part = part * 2 + xp.astype(is_second, part.dtype)
        index = xp.where(is_second, index - half, index)
        num = xp.where(is_split, xp.where(is_second, num - half, half), num)
    num_even = xp.where(num < NUM_LANES, xp.zeros_like(num), num - _remainder(num))
    lane = xp.where(index < num_even, _remainder(index), index - num_even + NUM_LANES)
    return part * (2 * NUM_LANES - 1) + lane


def _remainder(count: Array) -> Array:
    return count - NUM_LANES * namespace(count).floor(count / NUM_LANES)
