"""Shapes of a padded batch in static shapes: the columns that a similarity compares, areas, and invalid or blank rows.

    arrays by key ──► find_invalid ──► flags          nothing is read, and no constant is copied from the host
                 └──► measure ──► a `PaddedSide` for the detections and one for the truths ──► pairwise

`PADDED_GEOMETRIES` has one entry per similarity; similarities without an entry are not available in compiled steps.

Dimensions: N images, D detections, G truths, R = N * D or N * G, K keypoints.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from boxscore._support.exceptions import InputError
from boxscore.arrays import Array, float_dtype, namespace
from boxscore.data.geometry import PairwiseSimilarity, RowShape
from boxscore.data.geometry.box_formats import UPRIGHT_FORMATS, BoxFormat
from boxscore.data.geometry.boxes import Boxes, padded_boxes, sizes, to_xywh
from boxscore.data.geometry.keypoints import Keypoints
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
    """The functions and keys of a geometry for compiled steps."""

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


def _check_keypoints(shapes: Shapes, *, is_truth: bool) -> None:
    """Raise `InputError` for shapes that don't fit."""
    point, name = shapes["keypoints"], "visibility" if is_truth else "keypoints_scores"
    if point.shape[3] not in (2, 3):
        rule = "`keypoints` must have shape (N, D, K, 3) or (N, D, K, 2)"
        raise InputError(f"{rule}; got {tuple(point.shape)}")
    if name not in shapes:
        return
    if is_truth and point.shape[3] == 3:
        raise InputError(f"`keypoints` must have 2 numbers per point beside `{name}`; got {tuple(point.shape)}")
    if tuple(shapes[name].shape) != tuple(point.shape[:3]):
        rule = f"`{name}` must have shape {tuple(point.shape[:3])}, one per keypoint"
        raise InputError(f"{rule}; got {tuple(shapes[name].shape)}")


def _flat(column: Array) -> Array:
    """The rows of all images. Shape (R, ...)."""
    return namespace(column).reshape(column, (-1, *column.shape[2:]))


def _visibility(truths: Shapes) -> Array:
    """Of points without one: 1. Shape (N, G, K)."""
    point = truths["keypoints"]
    if point.shape[3] == 3:
        return _real(point[..., 2])
    if "visibility" in truths:
        return _real(truths["visibility"])
    return namespace(point).ones_like(_real(point[..., 0]))


def _truth_keypoints(truths: Shapes, box_format: BoxFormat) -> Keypoints:
    """The truths of all images, whose padding may be invalid. R rows."""
    box = None
    if "boxes" in truths:
        box = namespace(truths["boxes"]).stack(to_xywh(_flat(_real(truths["boxes"])), box_format), axis=-1)
    return Keypoints(
        point=_flat(_real(truths["keypoints"][..., :2])),
        visibility=_flat(_visibility(truths)),
        area=_flat(_real(truths["area"])) if "area" in truths else None,
        box=box,
    )


def _measure_keypoints(
    shapes: Shapes, truths: Shapes, box_format: BoxFormat, protocol: Protocol
) -> tuple[PaddedSide, PaddedSide]:
    point, truth_point = (each["keypoints"] for each in (shapes, truths))
    xp, num = namespace(point), len(protocol.sigmas)
    for each in (point, truth_point):
        if each.shape[2] != num:
            rule = f"`sigmas` must have one number for each of the {each.shape[2]} keypoints"
            raise InputError(f"{rule}; got {num} (protocol {protocol.name})")
    found = Keypoints(point=_flat(_real(point[..., :2])))
    there = _truth_keypoints(truths, box_format)
    columns = there.truth_columns(protocol, there.point)

    def apart(column: Array, like: Array) -> Array:
        return xp.reshape(column, (*like.shape[:2], *column.shape[1:]))

    area, truth_area = (apart(each.areas(protocol), like) for each, like in ((found, point), (there, truth_point)))
    return (
        PaddedSide((apart(found.point, point),), area),
        PaddedSide(
            tuple(apart(column, truth_point) for column in columns),
            truth_area,
            ~xp.any(_visibility(truths) > 0, axis=2),
        ),
    )


def _find_invalid_keypoints(shapes: Shapes, box_format: BoxFormat, *, is_truth: bool) -> Array:
    """Whether a set of keypoints has a number that is not finite. Shape (N, D).

    Of truths, also: a negative visibility, an invalid box, or labelled points and an area of 0.
    """
    _check_keypoints(shapes, is_truth=is_truth)
    point = _real(shapes["keypoints"])
    xp = namespace(point)
    is_valid = xp.all(xp.all(xp.isfinite(point), axis=3), axis=2)
    if not is_truth:
        if point.shape[3] == 2 and "keypoints_scores" in shapes:
            is_valid = is_valid & xp.all(xp.isfinite(_real(shapes["keypoints_scores"])), axis=2)
        return ~is_valid
    visibility = _visibility(shapes)
    is_valid = is_valid & xp.all((visibility >= 0) & xp.isfinite(visibility), axis=2)
    if "boxes" in shapes:
        is_valid = is_valid & ~_find_invalid_boxes(shapes, box_format, is_truth=True)
    scale = xp.reshape(_truth_keypoints(shapes, box_format).areas(_OKS), visibility.shape[:2])
    return ~(is_valid & ((scale > 0) | ~xp.any(visibility > 0, axis=2)))


def _given_area(truths: Shapes, area: Array) -> Array:
    """The areas of the truths: the given ones, or else these."""
    return _real(truths["area"]) if "area" in truths else area


def _real(column: Array) -> Array:
    """The column in the widest float of its device."""
    return namespace(column).astype(column, float_dtype(column))


_OKS = Protocol.named("coco_keypoints")
"""Rules by which areas of truths are derived, if they are not given; the same in all protocols of this table."""

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
    "keypoints": PaddedGeometry(
        _measure_keypoints,
        Keypoints.pairwise,
        "keypoints, visibilities, boxes, scores and areas must have finite numbers and no negative size, and truths"
        " with labelled points an area above 0",
        _find_invalid_keypoints,
        detection_keys={"keypoints": (None, None), "keypoints_scores": (None,)},
        truth_keys={"keypoints": (None, None), "visibility": (None,), "boxes": (4,)},
    ),
}
"""The similarities of compiled steps."""
