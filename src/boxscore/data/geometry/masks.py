"""Masks: columns of run lengths, from RLE, polygons or pixels; mask IoU and boundary IoU.

Dimensions: N images, D detections, G truths, P pixels.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads
from boxscore.arrays import Array, convert, float_dtype, is_array, is_in_host_memory, namespace, to_numpy
from boxscore.data.geometry import Geometry, RowGatherer, Sketch, gatherer_of
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.validation import RowError, check_is_dense, is_kind, shape_of
from boxscore.protocol.protocol import Protocol

LARGEST_SINGLE = 2**24
"""The largest number of pixels that single precision counts exactly."""


class Mask(NamedTuple):
    """One mask, as the sequential engine compares it."""

    pixels: NDArray[np.bool_]
    """Shape (H, W)."""
    box: tuple[float, ...]
    """The outer box: left, top, right, bottom."""
    boundary: NDArray[np.bool_] | None
    """The pixels near the outline, for boundary IoU. Shape (H, W)."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Polygons:
    """The outlines of masks, for files that store outlines: any number of polygons per mask."""

    points: NDArray[np.float64]
    """x, y, x, y, … of all polygons, concatenated. Shape (P,)."""
    part_start: NDArray[np.int64]
    """The offset of each polygon in `points`, and the end of the last."""
    mask_start: NDArray[np.int64]
    """The index of each mask's first polygon, and the end of the last. Shape (N + 1,)."""

    @classmethod
    def of(cls, masks: Iterable[Iterable[Any]]) -> "Polygons":
        """Convert the polygons of each mask, each a sequence of numbers x, y, x, y, …

        >>> Polygons.of([[[0, 0, 2, 0, 2, 2]], []]).mask_start.tolist()
        [0, 1, 1]
        """
        parts = [[_numbers(part, row) for part in mask] for row, mask in enumerate(masks)]
        for row, mask in enumerate(parts):
            if len(mask) > 1 and max(map(len, mask)) == 2:
                raise RowError("masks", row, "must have polygons x, y, x, y, …; got points one by one")
        return cls._concatenated(parts)

    @classmethod
    def _concatenated(cls, masks: Sequence[Sequence[NDArray[np.float64]]]) -> "Polygons":
        """Concatenate the polygons of each mask. Files may have polygons of one point, so none is refused here."""
        flat = [part for mask in masks for part in mask]
        return cls(
            points=np.concatenate([np.zeros(0), *flat]),
            part_start=np.cumsum([0, *map(len, flat)], dtype=np.int64),
            mask_start=np.cumsum([0, *map(len, masks)], dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.mask_start) - 1

    def __getitem__(self, row: int) -> list[NDArray[np.float64]]:
        """The polygons of a mask."""
        first, last = self.mask_start[row : row + 2].tolist()
        starts = self.part_start[first : last + 1].tolist()
        return [self.points[start:end] for start, end in pairwise(starts)]

    def take(self, rows: NDArray[Any]) -> "Polygons":
        """Select the polygons of some masks by index."""
        return self._concatenated([self[int(row)] for row in rows])

    @property
    def has_parts(self) -> NDArray[np.bool_]:
        """Whether each mask has polygons. Shape (N,)."""
        return np.asarray(np.diff(self.mask_start) > 0)

    def row_of_points(self) -> NDArray[np.int64]:
        """The mask that each point belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.part_start[self.mask_start]) // 2)

    def bounds(self) -> NDArray[np.float64]:
        """Left, top, right, bottom of the points of each mask; infinite for a mask without points. Shape (N, 4).

        >>> Polygons.of([[[0, 3, 2, 0], [2, 2, 5, 1]]]).bounds().tolist()
        [[0.0, 0.0, 5.0, 3.0]]
        """
        bounds = np.full((len(self), 4), [np.inf, np.inf, -np.inf, -np.inf])
        rows = np.flatnonzero(np.diff(self.part_start[self.mask_start]))
        if rows.size:
            points, first = self.points.reshape(-1, 2), self.part_start[self.mask_start[rows]] // 2
            bounds[rows] = np.concatenate(
                [np.minimum.reduceat(points, first), np.maximum.reduceat(points, first)], axis=1
            )
        return bounds

    def scaled(self, factor: NDArray[np.float64]) -> "Polygons":
        """Scale the points by one factor for x and one for y per mask. Shape (N, 2)."""
        return replace(self, points=(self.points.reshape(-1, 2) * factor[self.row_of_points()]).reshape(-1))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Masks(Geometry):
    """Masks as run lengths, about one byte per run.

    Use `from_rle`, `from_polygons` and `from_pixels` to construct them. `Detections` and `Truths` take `Masks`, pixels
    and run lengths as `masks`.

    Args:
        runs: A `_compiled.Masks`, as the other constructors make it.
        polygons: The outlines of the masks, to be written to files.

    >>> len(Masks.from_pixels(np.ones((3, 480, 640), bool)))
    3
    """

    name: ClassVar[str] = "mask"
    plural: ClassVar[str] = "masks"
    key: ClassVar[str] = "masks"
    misspellings: ClassVar[Mapping[str, tuple[str, ...]]] = {"masks": ("mask", "segmentation", "segmentations")}
    iou_types: ClassVar[tuple[str, ...]] = ("segm", "boundary")
    columns: ClassVar[tuple[str, ...]] = ("mask",)
    pairs_per_batch: ClassVar[int | None] = None  # each mask is decoded once; its pixels are enough work

    runs: Any
    """A `_compiled.Masks`: immutable, in host memory. Its arrays are `counts`, uint8, COCO's compressed run lengths,
    concatenated; their offsets `start` (N + 1,); `sizes` (N, 2), height and width; `area` (N,); `box` (N, 4), xywh."""
    polygons: Polygons | None = None
    """The outlines from which the masks were made, if kept for writing files."""

    @classmethod
    def from_rle(cls, masks: Any, sizes: Any = None) -> "Masks":
        """Build masks from the `segmentation` of COCO's files.

        Args:
            masks: For each mask, a dict with `size` and `counts` (text, bytes or a list), or a list of polygons.
            sizes: Height and width of each mask, or of all; needed for polygons. Shape (N, 2) or (2,).

        >>> masks = Masks.from_rle([{"size": [3, 4], "counts": "42102"}, {"size": [3, 4], "counts": [0, 12]}])
        >>> masks.areas(Protocol.named("coco")).tolist()
        [4.0, 12.0]
        """
        if isinstance(masks, str | bytes | Mapping) or not isinstance(masks, Sequence):
            raise InputError(f"`masks` must be a sequence of masks; got {type(masks).__name__}")
        known = None if sizes is None else _sizes(sizes, len(masks))
        return cls(runs=_in_rows(_compiled.Masks.from_objects, list(masks), known, num_threads(None)))

    @classmethod
    def from_polygons(cls, polygons: Any, sizes: Any, *, keep: bool = False) -> "Masks":
        """Build masks from polygons, with exactly the pixels of pycocotools.

        Args:
            polygons: For each mask, one or more sequences x, y, x, y, …
            sizes: Height and width of each mask, or of all. Shape (N, 2) or (2,).
            keep: Whether to keep the polygons, too, for writing files.

        >>> Masks.from_polygons([[[1, 1, 3, 1, 3, 3, 1, 3]]], sizes=(3, 4)).pixels(0).sum()
        np.uint64(4)
        """
        column = polygons if isinstance(polygons, Polygons) else Polygons.of(polygons)
        if odd := [part for part in np.diff(column.part_start).tolist() if part % 2 or part == 0]:
            raise InputError(f"`masks` must have polygons of pairs x, y; got {odd[0]} numbers")
        known = _sizes(sizes, len(column))
        arrays = (column.points, column.part_start, column.mask_start, known, num_threads(None))
        return cls(runs=_in_rows(_compiled.Masks.from_polygons, *arrays), polygons=column if keep else None)

    @classmethod
    def from_pixels(cls, masks: Any) -> "Masks":
        """Build masks from pixels.

        Args:
            masks: Booleans or bytes of any array library: an array (N, H, W), or (N, 1, H, W) as in Mask R-CNN, or a
                list with one array (H, W) per mask. Probabilities are refused; `masks > 0.5` makes booleans of them.

        >>> Masks.from_pixels([np.eye(3, dtype=bool), np.ones((2, 5), np.uint8)]).runs.area.tolist()
        [3, 10]
        """
        if is_array(masks):
            return cls.from_stacks([masks])
        for row, mask in enumerate(masks):
            if len(shape_of(mask)) != 2:
                raise RowError("masks", row, f"must have shape (H, W); got {shape_of(mask)}")
        return cls(runs=_in_rows(_compiled.Masks.from_pixels, [*map(_as_bytes, masks)], num_threads(None)))

    @classmethod
    def from_stacks(cls, stacks: Sequence[Any]) -> "Masks":
        """Build masks from several arrays (N, H, W), such as one per image, concatenated.

        Args:
            stacks: Booleans or bytes of any array library. Shape (N, H, W) each; N, H and W may differ.
        """
        for stack in stacks:
            if len(shape_of(without_channel(stack))) != 3:
                raise InputError(f"`masks` must have shape (N, H, W); got {shape_of(stack)}")
        pixels = [without_channel(_as_bytes(stack)) for stack in stacks]
        return cls(runs=_in_rows(_compiled.Masks.from_pixels, pixels, num_threads(None)))

    @classmethod
    def from_arrays(cls, counts: Any, start: Any, sizes: Any) -> "Masks":
        """Build masks from the columns of other masks. They are validated again.

        Args:
            counts: As in `runs.counts`. Shape (B,).
            start: As in `runs.start`. Shape (N + 1,).
            sizes: As in `runs.sizes`. Shape (N, 2).
        """
        wanted = ((counts, np.uint8), (start, np.int64), (sizes, np.int64))
        try:
            columns = [np.require(column, dtype, ["C", "A"]) for column, dtype in wanted]
            return cls(runs=_in_rows(_compiled.Masks.from_arrays, *columns, num_threads(None)))
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"`masks`: {error}") from None

    @classmethod
    def from_written(cls, written: Mapping[str, Any], **_: Any) -> "Masks":
        """Build masks from any accepted form."""
        return cls.of(written["masks"])

    @classmethod
    def empty(cls, box_format: BoxFormat | None = None) -> "Masks":  # noqa: ARG003
        """Build a column without masks."""
        return cls.from_rle([])

    def to_bytes(self) -> bytes:
        """Encode as a block: the numbers of masks and of bytes of run lengths, then the columns, little-endian."""
        runs = self.runs
        head = np.array([len(runs), runs.counts.size], "<i8")
        columns = (head, runs.start.astype("<i8"), runs.sizes.astype("<i8"), runs.counts)
        return b"".join(column.tobytes() for column in columns)

    @classmethod
    def split_bytes(cls, content: memoryview) -> tuple["Masks", memoryview]:
        """Decode the masks of the first block, and return the bytes after it.

        Args:
            content: One or more concatenated blocks of `to_bytes`.

        >>> block = Masks.from_pixels(np.eye(3, dtype=bool)[None]).to_bytes()
        >>> masks, rest = Masks.split_bytes(memoryview(block + b"more"))
        >>> masks.runs.area.tolist(), bytes(rest)
        ([3], b'more')
        """
        num, num_bytes = np.frombuffer(content, "<i8", 2).tolist()
        start = np.frombuffer(content, "<i8", num + 1, 16)
        sizes = np.frombuffer(content, "<i8", 2 * num, 16 + start.nbytes).reshape(-1, 2)
        first = 16 + start.nbytes + sizes.nbytes
        counts = np.frombuffer(content, np.uint8, num_bytes, first)
        return cls.from_arrays(counts, start, sizes), content[first + num_bytes :]

    @classmethod
    def of(cls, values: Any) -> "Masks":
        """Build masks from any accepted form.

        Args:
            values: `Masks`, pixels as in `from_pixels`, or COCO's run lengths as in `from_rle`. Pixels in one array on
                a device stay there until run lengths are needed.
        """
        if isinstance(values, Masks):
            return values
        if is_array(values) and not is_in_host_memory(values):
            from boxscore.data.geometry.device_masks import DeviceMasks

            return DeviceMasks.of_stacks([values])
        if is_array(values):
            return cls.from_pixels(np.zeros((0, 0, 0), bool) if shape_of(values) == (0,) else values)
        if isinstance(values, Sequence) and values and all(is_array(each) for each in values):
            return cls.from_pixels(values)
        return cls.from_rle(values)

    @classmethod
    def concatenate(cls, parts: Sequence["Masks"]) -> "Masks":
        """Concatenate masks.

        Args:
            parts: One or more masks.
        """
        from boxscore.data.geometry.device_masks import ComparedMasks

        compared = [part for part in parts if isinstance(part, ComparedMasks)]
        if compared and len(compared) == len(parts):
            return ComparedMasks.joined(compared)
        return parts[0] if len(parts) == 1 else cls(runs=_compiled.Masks.concatenate([part.runs for part in parts]))

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Height and width of each mask. Shape (N, 2)."""
        sizes: NDArray[np.int64] = self.runs.sizes
        return sizes

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.runs.counts, self.runs.start, self.runs.sizes, self.polygons)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Compressed run lengths, and the offset of each mask."""
        return self.runs.counts, self.runs.start

    def take(self, rows: Any) -> Self:
        """Select masks. `rows`: indices, or one flag per row."""
        rows = np.asarray(rows)
        index = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)
        polygons = None if self.polygons is None else self.polygons.take(index)
        return replace(self, runs=self.runs.take(np.ascontiguousarray(index)), polygons=polygons)

    def rle(self) -> list[dict[str, Any]]:
        """The masks as in COCO's files: dicts with `size`, and `counts` as text."""
        text, start = self.runs.counts.tobytes().decode("ascii"), self.runs.start.tolist()
        return [
            {"size": size, "counts": text[start[row] : start[row + 1]]}
            for row, size in enumerate(self.runs.sizes.tolist())
        ]

    def pixels(self, row: int) -> NDArray[np.uint8]:
        """The pixels of one mask, 0 and 1. Shape (H, W).

        Args:
            row: The index of the mask.
        """
        pixels: NDArray[np.uint8] = self.runs.pixels(row)
        return pixels

    def areas(self, protocol: Protocol, like: Array | None = None) -> Array:  # noqa: ARG002
        """Number of pixels of each mask. Shape (N,)."""
        area = convert(self.runs.area.astype(np.float64), like=np.zeros(0) if like is None else like)
        return namespace(area).astype(area, float_dtype(area))

    def outer_boxes(self) -> Array:
        """The smallest box around the pixels: left, top, right, bottom. Shape (N, 4)."""
        box = self.runs.box.astype(np.float64)
        return np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], axis=1)

    def sketch(self, row: int) -> Sketch:
        """The outlines of the parts and their holes, along the edges of pixels."""
        from boxscore.data.geometry.outlines import trace

        parts = trace(self.pixels(row))
        return Sketch(outlines=[outline.reshape(-1, 2) for part in parts for outline in part], is_area=True)

    def compiled(self, protocol: Protocol) -> Any:
        """The masks for the native engine."""
        return self.runs.with_boundary(protocol.dilation_ratio if protocol.iou_type == "boundary" else 0.0)

    def shapes(self, protocol: Protocol) -> list[Mask]:
        """The masks for the sequential engine."""
        is_boundary = protocol.iou_type == "boundary"
        pixels = [self.pixels(row).astype(bool) for row in range(len(self))]
        return [
            Mask(each, tuple(box), boundary_of(each, protocol.dilation_ratio) if is_boundary else None)
            for each, box in zip(pixels, self.outer_boxes().tolist(), strict=True)
        ]

    @staticmethod
    def similarity(shape: Mask, truth: Mask, *, is_crowd: bool, protocol: Protocol) -> float:
        """IoU of two masks; for "boundary", the minimum of that and the IoU of their boundaries.

        >>> protocol = Protocol.named("coco", iou_type="segm")
        >>> one, other = Masks.from_pixels([np.eye(2, dtype=bool), np.ones((2, 2), bool)]).shapes(protocol)
        >>> Masks.similarity(one, other, is_crowd=False, protocol=protocol)
        0.5
        """
        is_apart = any(
            min(shape.box[axis + 2], truth.box[axis + 2]) <= max(shape.box[axis], truth.box[axis]) for axis in (0, 1)
        )
        if is_apart:
            return 0.0
        if shape.pixels.shape != truth.pixels.shape:
            return -1.0  # as in COCO
        iou = _iou(shape.pixels, truth.pixels, is_crowd=is_crowd)
        # As in the reference of boundary IoU: an object in a crowd doesn't share the crowd's boundary.
        if protocol.iou_type != "boundary" or is_crowd or shape.boundary is None or truth.boundary is None:
            return iou
        return min(iou, _iou(shape.boundary, truth.boundary, is_crowd=False))

    def gatherer(self, protocol: Protocol, like: Array) -> RowGatherer:
        """Make a gatherer of pixels, pixels of boundaries (if not needed, the same pixels), outer boxes and sizes.

        Shapes (N, D, P), (N, D, P), (N, D, 4), (N, D, 2). Pixels are in row-major order, padded with 0.
        """
        is_boundary = protocol.iou_type == "boundary"
        gather_sizes = gatherer_of((self.outer_boxes(), self.runs.sizes.astype(np.float64)), like)

        def stacked(rows: NDArray[np.int64], outline: Callable[[NDArray[Any]], NDArray[Any]]) -> Array:
            each = [self.pixels(row) for row in rows.reshape(-1).tolist()]
            dense = np.zeros((len(each), max(pixels.size for pixels in each)), np.float32)
            if dense.shape[1] > LARGEST_SINGLE:
                dense = dense.astype(np.float64)
            for index, pixels in enumerate(each):
                dense[index, : pixels.size] = outline(pixels).reshape(-1)
            return convert(dense.reshape(*rows.shape, -1), like=like)

        def gathered(rows: NDArray[np.int64]) -> tuple[Array, ...]:
            pixels = stacked(rows, lambda pixels: pixels)
            outline = stacked(rows, lambda each: boundary_of(each, protocol.dilation_ratio)) if is_boundary else pixels
            return pixels, outline, *gather_sizes(rows)

        return gathered

    @staticmethod
    def pairwise(
        columns: tuple[Array, ...],
        truth_columns: tuple[Array, ...],
        is_crowd: Array,
        protocol: Protocol,
    ) -> Array:
        """IoU of all pairs. Shape (N, D, G)."""
        pixels_NDP, boundary_NDP, box_ND4, size_ND2 = columns
        truth_NGP, truth_boundary_NGP, truth_box_NG4, truth_size_NG2 = truth_columns
        xp = namespace(pixels_NDP)
        iou_NDG = iou_of_pixels(pixels_NDP, truth_NGP, is_crowd_NG=is_crowd)
        if protocol.iou_type == "boundary":
            both_NDG = xp.minimum(iou_NDG, iou_of_pixels(boundary_NDP, truth_boundary_NGP))
            iou_NDG = xp.where(is_crowd[:, None, :], iou_NDG, both_NDG)
        near_NDG2 = xp.maximum(box_ND4[:, :, None, :2], truth_box_NG4[:, None, :, :2])
        far_NDG2 = xp.minimum(box_ND4[:, :, None, 2:], truth_box_NG4[:, None, :, 2:])
        is_touching_NDG = xp.all(near_NDG2 < far_NDG2, axis=-1)
        is_alike_NDG = xp.all(size_ND2[:, :, None] == truth_size_NG2[:, None], axis=-1)
        apart_NDG = xp.where(is_touching_NDG, -xp.ones_like(iou_NDG), xp.zeros_like(iou_NDG))  # as in COCO
        return xp.where(is_alike_NDG, iou_NDG, apart_NDG)


def iou_of_pixels(pixels_NDP: Array, truth_NGP: Array, *, is_crowd_NG: Array | None = None) -> Array:
    """IoU of every detection with every truth of its image, from pixels 0 and 1 in floats; 0 for empty masks.

    Counts of pixels are sums of products, which are exact. Shapes (N, D, P) and (N, G, P) to (N, D, G), in the widest
    float of the device. If P differs, the shorter side is padded with 0.
    """
    xp = namespace(pixels_NDP)
    real = float_dtype(pixels_NDP)
    num = min(pixels_NDP.shape[-1], truth_NGP.shape[-1])
    shared_NDG = xp.astype(xp.matmul(pixels_NDP[..., :num], xp.matrix_transpose(truth_NGP[..., :num])), real)
    area_ND1 = xp.astype(xp.sum(pixels_NDP, axis=-1), real)[:, :, None]
    truth_area_N1G = xp.astype(xp.sum(truth_NGP, axis=-1), real)[:, None, :]
    return iou_of_counts(shared_NDG, area_ND1[:, :, 0], truth_area_N1G[:, 0], is_crowd_NG=is_crowd_NG)


def iou_of_counts(
    shared_NDG: Array, area_ND: Array, truth_area_NG: Array, *, is_crowd_NG: Array | None = None
) -> Array:
    """IoU from numbers of pixels in floats; with a crowd, relative to the detection's area; 0 for empty masks."""
    xp = namespace(shared_NDG)
    area_ND1, truth_area_N1G = area_ND[:, :, None], truth_area_NG[:, None, :]
    union_NDG = area_ND1 + truth_area_N1G - shared_NDG
    if is_crowd_NG is not None:
        union_NDG = xp.where(is_crowd_NG[:, None, :], area_ND1 + xp.zeros_like(union_NDG), union_NDG)
    is_apart_NDG = shared_NDG <= 0
    safe_NDG = xp.where(is_apart_NDG, xp.ones_like(union_NDG), union_NDG)
    return xp.where(is_apart_NDG, xp.zeros_like(shared_NDG), shared_NDG / safe_NDG)


def boundary_of(pixels: NDArray[Any], ratio: float) -> NDArray[np.bool_]:
    """The pixels near the outline of a mask, or near the border of the image (Cheng et al. 2021). Shape (H, W).

    Near means a distance of at most round(ratio x diagonal) pixels, and at least 1, in the maximum norm.

    >>> boundary_of(np.ones((5, 5), bool), 0.02).sum()
    np.int64(16)
    """
    is_on = np.asarray(pixels, bool)
    height, width = is_on.shape
    distance = max(1, round(ratio * math.sqrt(height**2 + width**2)))
    is_inside = np.pad(is_on, 1)
    for _ in range(distance):  # one pixel at a time
        for axis in (0, 1):
            before, after = np.roll(is_inside, 1, axis), np.roll(is_inside, -1, axis)
            is_inside = is_inside & before & after
    return np.asarray(is_on & ~is_inside[1:-1, 1:-1])


def _iou(pixels: NDArray[np.bool_], truth: NDArray[np.bool_], *, is_crowd: bool) -> float:
    shared, area = int((pixels & truth).sum()), int(pixels.sum())
    if shared == 0:
        return 0.0
    return shared / (area if is_crowd else area + int(truth.sum()) - shared)


def _numbers(part: Any, row: int) -> NDArray[np.float64]:
    """Convert a polygon to a flat array of numbers."""
    try:
        return np.asarray(part, np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise RowError("masks", row, f"must have polygons of numbers x, y, x, y, …; got {part!r:.60}") from None


def without_channel(masks: Array) -> Array:
    """Remove the channel axis of masks (N, 1, H, W), as in Mask R-CNN; other arrays stay unchanged."""
    shape = shape_of(masks)
    return masks[:, 0] if len(shape) == 4 and shape[1] == 1 else masks


def check_are_pixels(masks: Array) -> None:
    """Raise `InputError` unless masks are booleans or bytes."""
    check_is_dense("masks", masks)
    check_pixel_dtype(masks)


def check_pixel_dtype(masks: Array) -> None:
    """Raise `InputError` unless the dtype of masks is boolean or uint8. A compiler may trace it."""
    if is_kind(masks, "bool") or masks.dtype == namespace(masks).uint8:
        return
    axes = "" if without_channel(masks) is masks else "[:, 0]"
    advice = f": pass `masks{axes} > 0.5` for probabilities" if is_kind(masks, "real floating") else ""
    raise InputError(f"`masks` must hold booleans or bytes (uint8); got {masks.dtype}{advice}")


def _as_bytes(pixels: Any) -> NDArray[np.uint8]:
    """Copy pixels to host memory, one byte each."""
    check_are_pixels(pixels)
    return np.ascontiguousarray(to_numpy(pixels)).view(np.uint8)


def _sizes(sizes: Any, num: int) -> NDArray[np.int64]:
    """Height and width of each mask, from one pair for all or one for each. Shape (N, 2)."""
    given = np.asarray(sizes)
    if given.dtype.kind not in "iu" and given.size:
        raise InputError(f"`sizes` must be integers, height and width; got {given.dtype}")
    if given.shape not in ((2,), (num, 2)) and (num or given.size):
        shapes = f"(2,), or ({num}, 2) for {num} masks"
        raise InputError(f"`sizes` must be height and width, of shape {shapes}; got {given.shape}")
    return np.ascontiguousarray(np.broadcast_to(given.reshape(-1, 2), (num, 2)), np.int64)


def _in_rows(make: Callable[..., Any], *arguments: Any) -> Any:
    """Call a compiled constructor, and convert its errors to `RowError`."""
    try:
        return make(*arguments)
    except _compiled.MaskError as error:
        raise RowError("masks", *error.args) from None


def _unpickled(counts: Any, start: Any, sizes: Any, polygons: Polygons | None) -> Masks:
    return replace(Masks.from_arrays(counts, start, sizes), polygons=polygons)
