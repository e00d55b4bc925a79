"""Shapes of a padded batch in static shapes: the columns that a similarity compares, areas, and invalid or blank rows.

    arrays by key ──► find_invalid ──► flags          nothing is read, and no constant is copied from the host
                 └──► measure ──► a `PaddedSide` for the detections and one for the truths ──► pairwise

`PADDED_GEOMETRIES` has one entry per similarity; similarities without an entry are not available in compiled steps.

Dimensions: N images, D detections, G truths, R = N * D or N * G, K keypoints.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from boxscore.arrays import Array, float_dtype, namespace
from boxscore.data.geometry import PairwiseSimilarity, RowShape
from boxscore.data.geometry.box_formats import UPRIGHT_FORMATS, BoxFormat
from boxscore.data.geometry.boxes import Boxes, padded_boxes, sizes
from boxscore.data.geometry.mask_overlaps import count_overlaps
from boxscore.data.geometry.masks import check_pixel_dtype, iou_of_counts
from boxscore.protocol.protocol import LARGEST_SIDE, Protocol

Shapes: TypeAlias = Mapping[str, Array]
"""The arrays of one side by key; of truths with `area`, if it is given."""


class PaddedSide(NamedTuple):
    """The detections or the truths of a padded batch."""

    columns: tuple[Array, ...]
    """Columns that the similarity reads. Shapes (N, D, ...)."""
    area: Array
    """In the widest float of the device. Shape (N, D)."""
    is_blank: Array | None = None
    """Whether a truth has nothing to compare, and is ignored; None: no truth is blank. Shape (N, D)."""


class PaddedGeometry(NamedTuple):
    """What compiled steps ask of a geometry."""

    measure: Callable[[Shapes, Shapes, BoxFormat, Protocol], tuple[PaddedSide, PaddedSide]]
    """Measure the detections and the truths."""
    pairwise: PairwiseSimilarity
    rule: str
    """The rule that valid rows follow, for errors."""
    find_invalid: Callable[..., Array] | None = None
    """Whether each row is invalid, from its arrays, the box format and `is_truth`; None: all rows are valid."""
    box_formats: tuple[BoxFormat, ...] = UPRIGHT_FORMATS
    detection_keys: Mapping[str, RowShape] = {}
    """The keys of a detection's arrays and the shapes of a row; None: any size."""
    truth_keys: Mapping[str, RowShape] = {}


def _measure_boxes(
    shapes: Shapes, truths: Shapes, box_format: BoxFormat, protocol: Protocol
) -> tuple[PaddedSide, PaddedSide]:
    sides = [padded_boxes(each["boxes"], box_format, protocol) for each in (shapes, truths)]
    return PaddedSide(sides[0], sides[0].area), PaddedSide(sides[1], _given_area(truths, sides[1].area))


def _find_invalid_boxes(shapes: Shapes, box_format: BoxFormat, *, is_truth: bool) -> Array:  # noqa: ARG001
    """Whether a box has a number that is not finite, or a size that is negative or too large. Shape (N, D)."""
    box = _real(shapes["boxes"])  # differences of unsigned integers are never negative
    xp = namespace(box)
    width, height = sizes(box, box_format)
    is_valid = (width >= 0) & (height >= 0) & (xp.maximum(width, height) <= LARGEST_SIDE)
    return ~(xp.all(xp.isfinite(box), axis=-1) & is_valid)


def _measure_masks(
    shapes: Shapes,
    truths: Shapes,
    box_format: BoxFormat,  # noqa: ARG001
    protocol: Protocol,  # noqa: ARG001
) -> tuple[PaddedSide, PaddedSide]:
    for each in (shapes, truths):
        check_pixel_dtype(each["masks"])
    overlaps = count_overlaps(shapes["masks"], truths["masks"])
    area, truth_area = _real(overlaps.area), _real(overlaps.truth_area)
    return (
        PaddedSide((_real(overlaps.common), area), area),
        PaddedSide((truth_area,), _given_area(truths, truth_area)),
    )


def _pairwise_masks(
    columns: tuple[Array, ...],
    truth_columns: tuple[Array, ...],
    is_crowd: Array,
    protocol: Protocol,  # noqa: ARG001
) -> Array:
    """Mask IoU from counts of pixels. Shape (N, D, G)."""
    (common_NDG, area_ND), (truth_area_NG,) = columns, truth_columns
    return iou_of_counts(common_NDG, area_ND, truth_area_NG, is_crowd_NG=is_crowd)


def _given_area(truths: Shapes, area: Array) -> Array:
    """The areas of the truths: the given ones, or else these."""
    return _real(truths["area"]) if "area" in truths else area


def _real(column: Array) -> Array:
    """The column in the widest float of its device."""
    return namespace(column).astype(column, float_dtype(column))


PADDED_GEOMETRIES: Mapping[str, PaddedGeometry] = {
    "bbox": PaddedGeometry(
        _measure_boxes,
        Boxes.pairwise,
        f"boxes, scores and areas must have finite numbers, no negative size, and sides up to {LARGEST_SIDE:g}",
        _find_invalid_boxes,
        detection_keys={"boxes": (4,)},
        truth_keys={"boxes": (4,)},
    ),
    "segm": PaddedGeometry(
        _measure_masks,
        _pairwise_masks,
        "scores and areas must have finite numbers, and areas no negative ones",
        detection_keys={"masks": (None, None)},
        truth_keys={"masks": (None, None)},
    ),
}
"""The similarities of compiled steps."""
