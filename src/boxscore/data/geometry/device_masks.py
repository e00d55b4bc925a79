"""Masks whose pixels stay on a device and are compared there, so that only integers come to host memory.

    pixels on a device ── count_overlaps, image by image ──► common pixels, areas ──► host memory ──► native matching
       │ boundary IoU, other engines, one side in host memory, several sizes in one image
       └──────────────► pixels in host memory ──► run lengths, `Masks`

Nothing is copied twice: run lengths are made when something needs them.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore.arrays import (
    Array,
    convert,
    count_flags,
    float_dtype,
    home_of,
    is_in_host_memory,
    jitted,
    namespace,
    start_copies,
    take_rows,
    with_spare_rows,
)
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.mask_overlaps import as_flags, can_count, count_overlaps_in_tiles, find_outer_boxes
from boxscore.data.geometry.masks import Masks, check_are_pixels, without_channel
from boxscore.data.validation import shape_of
from boxscore.protocol.protocol import Protocol

Ints = NDArray[np.int64]


class DeviceMasks(Masks):
    """Masks whose pixels stay where they are until something needs their run lengths.

    Args:
        stacks: Booleans or bytes of one library and device. Shape (n, H, W) each; n, H and W may differ.
        row: The index of each mask among those of all stacks; default: all of them. Shape (N,).
    """

    __slots__ = ("_cached", "row", "stacks")
    compares_on_device: ClassVar[bool] = True
    stacks: tuple[Array, ...]
    row: Ints
    _cached: dict[str, Any]

    def __init__(self, stacks: Sequence[Array], row: Ints | None = None) -> None:
        num = sum(shape_of(stack)[0] for stack in stacks)
        values: dict[str, Any] = {"stacks": tuple(stacks), "row": np.arange(num) if row is None else row}
        for name, value in (values | {"polygons": None, "_cached": {}}).items():
            object.__setattr__(self, name, value)

    @classmethod
    def of_stacks(cls, stacks: Sequence[Array]) -> "DeviceMasks":
        """Make masks of arrays (n, H, W) or (n, 1, H, W), whose shapes and dtypes are validated."""
        for stack in stacks:
            check_are_pixels(stack)
            if len(shape_of(without_channel(stack))) != 3:
                raise InputError(f"`masks` must have shape (N, H, W); got {shape_of(stack)}")
        return cls([without_channel(stack) for stack in stacks])

    @property
    def runs(self) -> Any:
        """The run lengths, from a copy of the pixels in host memory; made once."""
        if "runs" not in self._cached:
            whole = Masks.from_stacks(self.stacks if len(self) else [])
            self._cached["runs"] = whole.runs.take(np.ascontiguousarray(self.row))
        return self._cached["runs"]

    def __len__(self) -> int:
        return int(self.row.size)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The pixels."""
        return self.stacks

    def take(self, rows: Any) -> Self:
        """Select masks. `rows`: indices, or one flag per row."""
        index = _index_of(rows)
        taken = type(self)(self.stacks, self.row[index])
        if "runs" in self._cached:
            taken._cached["runs"] = self.runs.take(np.ascontiguousarray(index))
        return taken

    @property
    def sizes(self) -> Ints:
        """Height and width of each mask, which need no copy. Shape (N, 2)."""
        sizes = np.array([shape_of(stack)[1:] for stack in self.stacks], np.int64)
        return sizes[self._places.stack]

    @property
    def _places(self) -> "_Places":
        end = np.cumsum([shape_of(stack)[0] for stack in self.stacks])
        stack = np.searchsorted(end, self.row, side="right")
        return _Places(stack, self.row - np.append(0, end)[stack])

    def areas(self, protocol: Protocol, like: Array | None = None) -> Array:
        """Number of pixels of each mask, counted on the device. Shape (N,)."""
        if "runs" in self._cached:
            return super().areas(protocol, like)
        counted = _in_host_memory([jitted(_count_pixels, like=stack)(stack) for stack in self.stacks])
        area = convert(counted[self.row].astype(np.float64), like=np.zeros(0) if like is None else like)
        return namespace(area).astype(area, float_dtype(area))

    def outer_boxes(self) -> Array:
        """The smallest box around the pixels, found on the device: left, top, right, bottom. Shape (N, 4)."""
        if "runs" in self._cached:
            return super().outer_boxes()
        found = [jitted(find_outer_boxes, like=stack)(stack) for stack in self.stacks]
        return _in_host_memory(found).reshape(-1, 4)[self.row].astype(np.float64)

    def compared(
        self, image: NDArray[Any], truths: Geometry, truth_image: NDArray[Any], protocol: Protocol
    ) -> tuple[Geometry, Geometry]:
        """Compare both sides on the device if the pixels of both are there; unchanged otherwise."""
        if protocol.iou_type != "segm" or not isinstance(truths, DeviceMasks) or not _are_together(self, truths):
            return self, truths
        own, other = self._by_image(image), truths._by_image(truth_image)
        if own is None or other is None:
            return self, truths
        pairs = []
        for key in sorted({*own, *other}):
            part, truth_part = own.get(key), other.get(key)
            stacks = [each.stack for each in (part, truth_part) if each is not None]
            stack = stacks[0][:0] if part is None else stacks[0]
            truth_stack = stacks[-1][:0] if truth_part is None else stacks[-1]
            if not can_compare(stack, truth_stack):
                return self, truths  # of different sizes: -1 or 0, depending on their outer boxes
            pairs.append((stack, truth_stack))
        sides = compare_stacks(pairs) if pairs else (self, truths)
        compared, truth_compared = (
            side.take(np.argsort(np.concatenate([np.zeros(0, np.int64), *(parts[key].rows for key in sorted(parts))])))
            for side, parts in zip(sides, (own, other), strict=True)
        )
        return compared, truth_compared

    def _by_image(self, image: NDArray[Any]) -> dict[int, "_Part"] | None:
        """The masks of each image; None if an image has masks of several stacks."""
        if not len(self):
            return {}
        order = np.argsort(image, kind="stable")
        images, first = np.unique(image[order], return_index=True)
        places, parts = self._places, {}
        for key, rows in zip(images.tolist(), np.split(order, first[1:]), strict=True):
            stacks = np.unique(places.stack[rows])
            if stacks.size != 1:
                return None
            parts[key] = _Part(rows, _select(self.stacks[stacks[0]], places.position[rows]))
        return parts


class _Places(NamedTuple):
    """The stack of each mask, and its position there."""

    stack: Ints
    position: Ints


class _Part(NamedTuple):
    """The masks of one image: their rows, and their pixels."""

    rows: Ints
    stack: Array


class ComparedMasks(Masks):
    """Masks that were compared where they are: their areas, sizes and overlaps, but not their pixels.

    Args:
        area: Number of pixels of each mask. Shape (N,).
        sizes: Height and width of each mask. Shape (N, 2).
        offset: Where the row of each detection starts in `common`, or the column of each truth in such a row.
        common: The pixels that each detection has in common with each truth of its image, int32, row after row; None
            for truths.
        box: The outer box of each mask, if known: left, top, right, bottom. Shape (N, 4).
    """

    __slots__ = ("_sizes", "area", "box", "common", "offset")
    iou_types: ClassVar[tuple[str, ...]] = ("segm",)
    area: Ints
    offset: Ints
    common: NDArray[np.int32] | None
    box: Ints | None
    _sizes: Ints

    def __init__(
        self, area: Ints, sizes: Ints, offset: Ints, common: NDArray[np.int32] | None = None, box: Ints | None = None
    ) -> None:
        values = {"area": area, "_sizes": sizes, "offset": offset, "common": common, "box": box, "polygons": None}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def joined(cls, parts: Sequence["ComparedMasks"]) -> "ComparedMasks":
        """Concatenate masks of different images, at least one."""
        starts = np.cumsum([0, *(0 if part.common is None else part.common.size for part in parts)])
        boxes = [part.box for part in parts if part.box is not None]
        common = [part.common for part in parts if part.common is not None]
        return cls(
            np.concatenate([part.area for part in parts]),
            np.concatenate([part._sizes for part in parts]),
            np.concatenate([part.offset + start for part, start in zip(parts, starts.tolist(), strict=False)]),
            np.concatenate(common) if len(common) == len(parts) else None,
            np.concatenate(boxes) if len(boxes) == len(parts) else None,
        )

    @property
    def runs(self) -> Any:
        """Raise `InputError`: the pixels are not known."""
        raise InputError("masks that were compared on a device have no run lengths")

    def __len__(self) -> int:
        return int(self.area.size)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Areas, and the positions of overlaps."""
        return self.area, self.offset

    @property
    def sizes(self) -> Ints:
        """Height and width of each mask. Shape (N, 2)."""
        return self._sizes

    def take(self, rows: Any) -> Self:
        """Select masks. `rows`: indices, or one flag per row."""
        index = _index_of(rows)
        box = None if self.box is None else self.box[index]
        return type(self)(self.area[index], self._sizes[index], self.offset[index], self.common, box)

    def areas(self, protocol: Protocol, like: Array | None = None) -> Array:  # noqa: ARG002
        """Number of pixels of each mask. Shape (N,)."""
        area = convert(self.area.astype(np.float64), like=np.zeros(0) if like is None else like)
        return namespace(area).astype(area, float_dtype(area))

    def outer_boxes(self) -> Array:
        """The smallest box around the pixels: left, top, right, bottom. Shape (N, 4)."""
        if self.box is None:
            raise InputError("masks that were compared on a device have outer boxes only if these were asked for")
        return self.box.astype(np.float64)

    def compiled(self, protocol: Protocol) -> Any:
        """The overlaps for the native engine."""
        if protocol.iou_type != "segm":
            raise InputError(f"masks that were compared on a device have mask IoU only; got {protocol.iou_type!r}")
        return _compiled.GivenOverlaps(self.area.astype(np.float64), np.ascontiguousarray(self.offset), self.common)


def masks_of_stacks(stacks: Sequence[Array]) -> Masks:
    """Masks of several arrays, concatenated: on their device, or as run lengths if one is in host memory.

    Args:
        stacks: Booleans or bytes. Shape (n, H, W) each.
    """
    full = [stack for stack in stacks if shape_of(stack)[0]]
    if not full or any(map(is_in_host_memory, full)):
        return Masks.from_stacks(stacks)
    return DeviceMasks.of_stacks(full)


def can_compare(stack: Array, truth_stack: Array) -> bool:
    """Whether masks have one size, of which pixels can be counted. Shapes (…, H, W)."""
    return shape_of(stack)[-2:] == shape_of(truth_stack)[-2:] and can_count(*shape_of(stack)[-2:])


def compare_stacks(pairs: Sequence[tuple[Array, Array]]) -> tuple[ComparedMasks, ComparedMasks]:
    """Compare the masks of each image on their device; masks of both sides are in the order of the images.

    Args:
        pairs: The masks of detections and truths of each image, which `can_compare`. Shapes (D, H, W) and (G, H, W).
    """
    counts = [start_counts_of_image(*pair) for pair in pairs]
    copies = start_copies([array for each in counts for array in each], is_joined=True)
    values = copies.wait()
    sides = zip(
        *(
            compared_masks(values[first : first + 3], CountedShape.of_image(*pair))
            for first, pair in zip(range(0, len(values), 3), pairs, strict=True)
        ),
        strict=True,
    )
    detections, truths = (ComparedMasks.joined(side) for side in sides)
    copies.release()
    return detections, truths


class CountedShape(NamedTuple):
    """The numbers of masks per image, and their size."""

    num: int
    num_truths: int
    size: tuple[int, ...]
    """Height and width."""

    @classmethod
    def of_image(cls, stack: Array, truth_stack: Array) -> "CountedShape":
        """The shape of masks (D, H, W) and (G, H, W)."""
        return cls(shape_of(stack)[0], shape_of(truth_stack)[0], shape_of(stack)[1:])


def start_counts_of_image(stack: Array, truth_stack: Array, *, has_boxes: bool = False) -> tuple[Array, ...]:
    """Count the overlaps of masks (D, H, W) and (G, H, W) as `start_counts` does; there may be more rows than masks."""
    masks, truth_masks = (with_spare_rows(each)[None] for each in (stack, truth_stack))
    return start_counts(masks, truth_masks, has_boxes=has_boxes)


def start_counts(masks: Array, truth_masks: Array, *, has_boxes: bool = False) -> tuple[Array, ...]:
    """Count the overlaps of images on their device: areas of both sides, common pixels, and outer boxes if asked for.

    Args:
        masks: The masks of the detections. Shape (N, D, H, W).
        truth_masks: The masks of the truths. Shape (N, G, H, W).
        has_boxes: Whether to find the outer boxes, too.

    Returns:
        Integers of shapes (N, D), (N, G) and (N, D, G), and boxes (N * D, 4) and (N * G, 4).
    """
    count = jitted(_count_with_boxes if has_boxes else _count, like=masks)
    counts: tuple[Array, ...] = count(masks, truth_masks)
    return counts


def _count_pixels(stack: Array) -> Array:
    return count_flags(as_flags(stack)[None])[0]


def _count(masks: Array, truth_masks: Array) -> tuple[Array, ...]:
    overlaps = count_overlaps_in_tiles(masks, truth_masks)
    return overlaps.area, overlaps.truth_area, overlaps.common


def _count_with_boxes(masks: Array, truth_masks: Array) -> tuple[Array, ...]:
    xp = namespace(masks)
    stacks = (xp.reshape(each, (each.shape[0] * each.shape[1], *each.shape[2:])) for each in (masks, truth_masks))
    return *_count(masks, truth_masks), *map(find_outer_boxes, stacks)


def compared_masks(counts: Sequence[NDArray[Any]], shape: CountedShape) -> tuple[ComparedMasks, ComparedMasks]:
    """The masks of both sides of some images, from their counts in host memory, of which nothing need be copied.

    Args:
        counts: What `start_counts` counted.
        shape: The numbers of masks, without spare rows, and their size.
    """
    num, num_truths, size = shape
    area, truth_area, common, *boxes = counts
    num_images = len(area)

    def side(area: NDArray[Any], num: int, offset: Ints, common: Any, boxes: Sequence[NDArray[Any]]) -> ComparedMasks:
        sizes = np.tile(np.array(size, np.int64), (num_images * num, 1))
        box = boxes[0].reshape(num_images, -1, 4)[:, :num].reshape(-1, 4) if boxes else None
        return ComparedMasks(area[:, :num].reshape(-1), sizes, offset, common, box)

    rows = np.ascontiguousarray(common[:, :num, :num_truths], np.int32).reshape(-1)
    return (
        side(area, num, np.arange(num_images * num) * num_truths, rows, boxes[:1]),
        side(truth_area, num_truths, np.tile(np.arange(num_truths), num_images), None, boxes[1:]),
    )


def _are_together(masks: DeviceMasks, others: DeviceMasks) -> bool:
    """Whether all pixels are in one library and on one device."""
    return len({home_of(each) for each in (*masks.stacks, *others.stacks)}) == 1


def _select(stack: Array, index: Ints) -> Array:
    """Some masks of a stack, without a copy if they are adjacent."""
    first, last = int(index[0]), int(index[-1])
    if np.array_equal(index, np.arange(first, last + 1)):
        return stack[first : last + 1]
    return take_rows(stack, index)


def _index_of(rows: Any) -> Ints:
    """The indices of rows, which are indices or one flag per row."""
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)


def _in_host_memory(arrays: Sequence[Array]) -> NDArray[Any]:
    """Arrays on a device, concatenated in host memory."""
    copies = start_copies(arrays, is_joined=True)
    values: NDArray[Any] = np.concatenate(copies.wait())
    copies.release()
    return values
