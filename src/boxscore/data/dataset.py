"""Detections and Truths as columns, one row per shape. Input is validated here; later code trusts it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, cast, get_args

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore.arrays import Array, compact, convert, namespace, take_rows, to_numpy
from boxscore.data.batch_keys import COVERAGE_KEYS, DETECTION_KEYS, TRUTH_KEYS, Keys
from boxscore.data.batches import PaddedBatch, build_from_images, listed_labels
from boxscore.data.coverage import COVERED, NOT_COVERED, NOT_EXHAUSTIVE, Coverage
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.box_formats import BoxFormat, row_size
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.data.image_ids import different_ids, read_image_ids
from boxscore.data.image_objects import as_dicts
from boxscore.data.shapes import Shapes, check_has_keypoints, check_lengths, geometries_of
from boxscore.data.validation import RowError, as_array, check_rows, checked_columns, is_kind, shape_of
from boxscore.protocol.fields import check_choice
from boxscore.protocol.protocol import CROWD, DIFFICULT, GROUP, POOLED, REGULAR, IouType, Protocol

ClassNames = Mapping[int, str] | Sequence[str]
"""Names by label, or a sequence of names for the labels 0, 1, 2, …"""

ImageIdsLike = Iterable[int | str] | Array
"""Image ids: integers or names."""

Invalid = Literal["error", "drop"]
"""Treatment of invalid detections, such as a box with NaN: raise an error, or drop them."""

_CAN_BE_DROPPED = ("box", "keypoints", "keypoints_scores", "score", "area")
"""The columns whose invalid rows may be dropped: the outputs of a network. Ids and masks must always be valid."""

Columns = TypeVar("Columns", "Detections", "Truths")

IGNORED_KINDS = (DIFFICULT, CROWD)
"""Kinds that are not counted: a detection that takes such a truth is ignored."""

SHARED_KINDS = (CROWD, GROUP)
"""Kinds that any number of detections may take; similarity is relative to the detection's size."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False, init=False)
class Detections(Shapes):
    """Detections, one row per shape. Columns are arrays of any supported library, or lists.

    The order of rows breaks ties: of equal scores in one image, the earlier row ranks first.

    Args:
        image: Image ids, any integers. Shape (D,).
        label: Class ids, any integers. Shape (D,).
        score: Confidences, any finite numbers; higher means more confident. Shape (D,).
        geometry: The shapes, instead of `box`, `mask` or `keypoints`. Length D.
        box: Boxes in `box_format`. Shape (D, 4); (D, 5) with an angle; (D, 8) for corners.
        box_format: The format of `box`; default: "xyxy".
        mask: Masks: pixels (D, H, W), a list of COCO's run lengths, or `Masks`.
        keypoints: Keypoints: (D, K, 3) with a score per point, or (D, K, 2).
        keypoints_scores: The score of each point beside `keypoints` (D, K, 2); not used beside (D, K, 3). Shape (D, K).
        others: Other geometries of the rows, such as the masks of boxes.
        area: Areas that decide whether a false positive is in an area range; default: of the shapes. Shape (D,).
        invalid_image: The images of invalid rows that were dropped; `from_valid_rows` sets it. Shape (I,).

    Raises:
        InputError: Columns have different lengths, or values are invalid.

    >>> Detections(image=[0, 0, 1], label=[3, 5, 3], score=[0.9, 0.8, 0.7], box=np.ones((3, 4)))
    Detections(3 boxes in 2 images, numpy)
    """

    image: Array
    """Image ids, any integers. Shape (D,)."""
    label: Array
    """Class ids, any integers. Shape (D,)."""
    score: Array
    """Confidences, any finite numbers; higher means more confident. Shape (D,)."""
    geometry: Geometry
    """The main geometry: boxes, masks or keypoints. Length D."""
    others: tuple[Geometry, ...] = ()
    """Other geometries of the rows, such as the masks of boxes. `Protocol.iou_type` selects the geometry to compare."""
    area: Array | None = None
    """Areas that decide whether a false positive is in an area range; None: of the shapes. Shape (D,)."""
    invalid_image: NDArray[np.int64] | None = None
    """The images of invalid rows that were dropped, see `from_images`; None: no row was. Shape (I,)."""

    def __init__(
        self,
        *,
        image: Array,
        label: Array,
        score: Array,
        geometry: Geometry | None = None,
        box: Array | None = None,
        box_format: BoxFormat | None = None,
        mask: Any = None,
        keypoints: Any = None,
        keypoints_scores: Any = None,
        others: Sequence[Geometry] = (),
        area: Array | None = None,
        invalid_image: NDArray[np.int64] | None = None,
    ) -> None:
        check_has_keypoints("keypoints_scores", keypoints_scores, keypoints)
        points = None if keypoints is None else Keypoints.of_detections(keypoints, keypoints_scores)
        written = {"box": box, "box_format": box_format, "mask": mask, "keypoints": points}
        geometry, *more = geometries_of(geometry, others, written, Keypoints.of_detections)
        ids, home = {"image": image, "label": label}, geometry.arrays[0]
        columns = checked_columns(ids, {"score": score, "area": area}, {}, counted_by="score", home=home)
        check_lengths((geometry, *more), columns["score"], "score")
        _check_areas(columns.get("area"))
        _set(self, geometry=geometry, others=tuple(more), **{"area": None, **columns}, invalid_image=invalid_image)

    @classmethod
    def from_valid_rows(cls, **columns: Any) -> "Detections":
        """Drop the invalid rows of the constructor's columns, and list their images in `invalid_image`.

        A row is invalid if its box, score, area or keypoints are: a number that is not finite, a negative size, and so
        on. Other errors, such as wrong shapes of arrays or invalid ids and masks, are raised as by the constructor.

        Args:
            **columns: The arguments of the constructor.

        >>> found = Detections.from_valid_rows(image=[0, 7], label=[1, 1], score=[0.9, np.nan], box=[[0, 0, 9, 9]] * 2)
        >>> found, found.invalid_image.tolist()
        (Detections(1 box in 1 image, numpy), [7])
        """
        dropped: list[NDArray[np.int64]] = []
        rows: NDArray[np.int64] | None = None  # the index of each remaining row in the input
        while True:
            try:
                made = cls(**columns)
            except RowError as error:
                rows = np.arange(len(columns["image"])) if rows is None else rows
                if error.is_valid is None or error.column not in _CAN_BE_DROPPED:
                    raise RowError(error.column, int(rows[error.row]), error.rule) from None
                dropped.append(host_ids(as_array("image", columns["image"]))[~error.is_valid])
                rows = rows[error.is_valid]
                columns = {name: _valid_rows(value, error.is_valid) for name, value in columns.items()}
            else:
                return replace(made, invalid_image=np.concatenate(dropped)) if dropped else made

    @classmethod
    def from_images(
        cls,
        images: Sequence[Mapping[str, Any]],
        *,
        image_ids: ImageIdsLike | None = None,
        box_format: BoxFormat = "xyxy",
        iou_type: IouType | Sequence[IouType] = "bbox",
        is_hosted: bool = False,
        invalid: Invalid = "error",
    ) -> "Detections":
        """Build the columns from one dict per image with `boxes`, `scores` (D,) and `labels` (D,).

        The keys of the shapes, by `iou_type`:

        - "bbox", "obb", "probiou": `boxes` (D, 4); oriented formats have (D, 5) with an angle, or (D, 8) for corners.
        - "segm", "boundary": `masks`, booleans or bytes (D, H, W) or (D, 1, H, W), or a list of COCO's run lengths.
        - "keypoints": `keypoints` (D, K, 3), or (D, K, 2) and optionally `keypoints_scores` (D, K), which are not used
          beside (D, K, 3).

        Args:
            images: One dict per image; or supervision's `Detections` or `KeyPoints`, or Ultralytics' `Results`.
            image_ids: An integer or a name per image; a name becomes a hash of 63 bits. Default: 0, 1, 2, … Batches
                to be merged later need ids.
            box_format: The format of `boxes`, upright or oriented.
            iou_type: The similarity, which decides the keys to read; several similarities read the keys of all.
            is_hosted: Whether to convert arrays in host memory to NumPy, which is faster.
            invalid: "error" raises for a row with NaN, infinity or a negative size; "drop" drops it. Results count
                the dropped rows, and are then not `comparable`.

        Raises:
            InputError: An image is invalid; the error names the image, the key and the row.

        >>> Detections.from_images([{"boxes": [[0, 0, 9, 9]], "scores": [0.9], "labels": [1]}])
        Detections(1 box in 1 image, numpy)
        """
        keys = DETECTION_KEYS.of_shapes(iou_type, box_format)
        images = as_dicts(images, DETECTION_KEYS, iou_type, box_format)
        make = detections_maker(invalid)
        return build_from_images(make, images, keys, image_ids, is_hosted=is_hosted, **_box_setting(keys, box_format))

    @classmethod
    def from_padded(
        cls,
        *,
        box: Array | None = None,
        label: Array,
        score: Array,
        mask: Array | None = None,
        keypoints: Array | None = None,
        keypoints_scores: Array | None = None,
        discarded: Array | None = None,
        image_ids: ImageIdsLike | None = None,
        box_format: BoxFormat = "xyxy",
        invalid: Invalid = "error",
    ) -> "Detections":
        """Build the columns from a padded batch, without discarded rows (Alg. 5) and rows with a label below 0.

        At least one of `box`, `mask` and `keypoints` must be given.

        Args:
            box: Boxes in `box_format`. Shape (N, D, 4); (N, D, 5) with an angle; (N, D, 8) for corners.
            label: Class ids; below 0: padding. Shape (N, D).
            score: Confidences. Shape (N, D).
            mask: Pixels, booleans or bytes. Shape (N, D, H, W).
            keypoints: x, y and score of each point. Shape (N, D, K, 3), or (N, D, K, 2).
            keypoints_scores: As in the constructor. Shape (N, D, K).
            discarded: Whether to drop the row. Shape (N, D).
            image_ids: As in `from_images`. Length N.
            box_format: The format of `box`.
            invalid: As in `from_images`.
        """
        make = detections_maker(invalid)
        required, optional = {"label": label, "score": score}, {"box": box, "mask": mask, "discarded": discarded}
        optional |= {"keypoints": keypoints, "keypoints_scores": keypoints_scores}
        batch = PaddedBatch.from_columns(required, optional, row_size(box_format))
        return batch.build(make, image_ids, **({} if box is None else {"box_format": box_format}))


def checked_invalid(invalid: Any) -> Invalid:
    """Return `invalid`; raise `InputError` unless it is "error" or "drop"."""
    check_choice("invalid", invalid, get_args(Invalid))
    return cast(Invalid, invalid)


def detections_maker(invalid: Invalid) -> Callable[..., Detections]:
    """Return the constructor that treats invalid rows as `invalid` says."""
    return Detections if checked_invalid(invalid) == "error" else Detections.from_valid_rows


def _valid_rows(value: Any, is_valid: NDArray[np.bool_]) -> Any:
    """The valid rows of a column in any form; settings stay unchanged."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Geometry):
        return value.take(is_valid)
    if isinstance(value, tuple) and all(isinstance(each, Geometry) for each in value):
        return tuple(each.take(is_valid) for each in value)
    return take_rows(as_array("columns", value), is_valid)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False, init=False)
class Truths(Shapes):
    """The ground truth, one row per shape. Columns are arrays of any supported library, or lists.

    Args:
        image: Image ids, any integers. Shape (G,).
        label: Class ids, any integers. Shape (G,).
        geometry: The shapes, instead of `box`, `mask` or `keypoints`. Length G.
        box: Boxes in `box_format`. Shape (G, 4); (G, 5) with an angle; (G, 8) for corners.
        box_format: The format of `box`; default: "xyxy".
        mask: Masks: pixels (G, H, W), a list of COCO's run lengths, or `Masks`.
        keypoints: Keypoints: (G, K, 3) with a visibility per point, or (G, K, 2).
        visibility: Above 0 where a point of `keypoints` (G, K, 2) is labelled; default: all are. Shape (G, K).
        others: Other geometries of the rows, as in `Detections`.
        ignore: Whether a truth is ignored: VOC's "difficult", COCO's "iscrowd". Shape (G,).
        kind: The kind of each truth, 0 to 3, instead of `ignore`; see the field. Shape (G,).
        coverage: The classes that were verified in each image; default: every class in every image.
        truncated: VOC's "truncated"; affects no number. Shape (G,).
        area: Areas that decide area ranges; default: of the shapes. Shape (G,).
        class_names: Names by label, or a sequence of names for 0, 1, 2, … If given, other labels are errors.
        image_names: File names by image id. If given, these are all images of the data.
        image_sizes: Width and height by image id.
        class_groups: The group of each class by label, such as "rare" under LVIS.
        crowd_index: How crowded each image is, 0 to 1, by image id (CrowdPose).
        subset: Descriptions of excluded data, such as "50 of 5,000 images".
        is_numbered: Whether image ids are only indices in a list of names.
        is_normalized: Whether `box` has fractions of the image's width and height.

    Raises:
        InputError: Columns have different lengths, or values are invalid.

    >>> Truths(image=[0, 7], label=[3, 5], box=[[0, 0, 10, 10], [5, 5, 20, 10]], ignore=[False, True])
    Truths(2 boxes in 2 images, numpy)
    """

    image: Array
    """Image ids, any integers. Shape (G,)."""
    label: Array
    """Class ids, any integers. Shape (G,)."""
    geometry: Geometry
    """The main geometry: boxes, masks or keypoints. Length G."""
    others: tuple[Geometry, ...] = ()
    """Other geometries of the rows, as in `Detections`."""
    ignore: Array | None = None
    """Whether a truth is ignored: finding it is not rewarded, missing it not punished. The protocol decides whether
    this means VOC's "difficult" or COCO's "iscrowd". Shape (G,)."""
    kind: Array | None = None
    """The kind of each truth, uint8; given instead of `ignore`. Shape (G,).

    - 0, regular: it counts, and one detection may take it.
    - 1, difficult (VOC): finding it is not rewarded, missing it not punished.
    - 2, crowd (COCO): an ignored region that any number of detections may take. Similarity is relative to the
      detection's size.
    - 3, group (Open Images): a region of several objects that counts as one truth. Only detections that would
      otherwise be false positives take it: the first is a true positive, later ones are ignored. Similarity is
      relative to the detection's size."""
    coverage: Coverage | None = None
    """The classes that were verified in each image; None: every class in every image, exhaustively."""
    truncated: Array | None = None
    """VOC's "truncated": a part is outside of the image. Affects no number; files keep it. Shape (G,)."""
    area: Array | None = None
    """Areas that decide area ranges; None: of the shapes. COCO gives the area of the mask. Shape (G,)."""
    class_names: ClassNames | None = None
    """If given, these are the classes: a class without boxes still has its row, any other label is an error."""
    image_names: Mapping[int, str] | None = None
    """File names, or their stems, by image id, for joining with detections that name their images. If given, these are
    all images of the data, including those without boxes."""
    image_sizes: Mapping[int, tuple[int, int]] | None = None
    """Width and height by image id, for files whose boxes are fractions, and protocols that clip boxes."""
    class_groups: Mapping[int, str] | None = None
    """The group of each class by label, for protocols that measure groups of classes: "rare", "common" or "frequent"
    under LVIS."""
    crowd_index: Mapping[int, float] | None = None
    """How crowded each image is, 0 to 1, by image id, for protocols that have ranges of it (CrowdPose)."""
    subset: tuple[str, ...] = ()
    """Descriptions of excluded data, such as "50 of 5,000 images": numbers of a subset are not comparable."""
    is_numbered: bool = False
    """Whether the image ids are only indices in a list of names, from a format without ids."""
    is_normalized: bool = False
    """Whether `box` has fractions of the image's width and height; detections must then have fractions, too."""

    def __init__(
        self,
        *,
        image: Array,
        label: Array,
        geometry: Geometry | None = None,
        box: Array | None = None,
        box_format: BoxFormat | None = None,
        mask: Any = None,
        keypoints: Any = None,
        visibility: Any = None,
        others: Sequence[Geometry] = (),
        ignore: Array | None = None,
        kind: Array | None = None,
        coverage: Coverage | None = None,
        truncated: Array | None = None,
        area: Array | None = None,
        class_names: ClassNames | None = None,
        image_names: Mapping[int, str] | None = None,
        image_sizes: Mapping[int, tuple[int, int]] | None = None,
        class_groups: Mapping[int, str] | None = None,
        crowd_index: Mapping[int, float] | None = None,
        subset: Sequence[str] = (),
        is_numbered: bool = False,
        is_normalized: bool = False,
    ) -> None:
        check_has_keypoints("visibility", visibility, keypoints)
        points = None
        if keypoints is not None:
            points = Keypoints.of_truths(keypoints, visibility, area=area, box=box, box_format=box_format or "xyxy")
        written = {"box": box, "box_format": box_format, "mask": mask, "keypoints": points}
        geometry, *more = geometries_of(geometry, others, written, Keypoints.of_truths)
        ids, flags = {"image": image, "label": label}, {"ignore": ignore, "truncated": truncated}
        columns = checked_columns(ids, {"area": area}, flags, counted_by="label", home=geometry.arrays[0])
        check_lengths((geometry, *more), columns["label"], "label")
        _check_areas(columns.get("area"))
        names = None if class_names is None else _class_names(class_names)
        if names is not None:
            check_labels_are_named(columns["label"], names)
        if kind is not None and ignore is not None:
            raise InputError("`kind` and `ignore` must not both be given: a truth marked `ignore` is of kind 1 or 2")
        if coverage is not None and not isinstance(coverage, Coverage):
            raise InputError(f"`coverage` must be a boxscore.data.Coverage; got {type(coverage).__name__}")
        _set(self, ignore=columns.get("ignore"), truncated=columns.get("truncated"), area=columns.get("area"))
        _set(self, kind=None if kind is None else _as_kinds(kind, geometry), coverage=coverage)
        _set(self, image=columns["image"], label=columns["label"], class_names=names)
        _set(self, geometry=geometry, others=tuple(more))
        _set(self, image_names=image_names, image_sizes=image_sizes, crowd_index=_checked_index(crowd_index))
        _set(self, class_groups=None if class_groups is None else _by_label("class_groups", class_groups))
        _set(self, is_numbered=is_numbered, is_normalized=is_normalized, subset=tuple(subset))

    @classmethod
    def from_images(
        cls,
        images: Sequence[Mapping[str, Any]],
        *,
        image_ids: ImageIdsLike | None = None,
        box_format: BoxFormat = "xyxy",
        iou_type: IouType | Sequence[IouType] = "bbox",
        class_names: ClassNames | None = None,
        is_hosted: bool = False,
    ) -> "Truths":
        """Build the columns from one dict per image with `labels` (G,) and the shapes.

        The keys of the shapes are as in `Detections.from_images`, without scores. Beside `keypoints` there may be
        `visibility` (G, K) and `boxes`. Optional keys:

        - `area` (G,).
        - `ignore`, `iscrowd`, `difficult` (G,): a truth that any of them marks is ignored.
        - `neg_category_ids` and `not_exhaustive_category_ids`: lists of labels that make the `coverage`, as in LVIS.
          Either all images have them, or none; the second needs the first.

        Args:
            images: One dict per image; or supervision's `Detections` or `KeyPoints`, with optional columns in `data`.
            image_ids: As in `Detections.from_images`; names also go to `image_names`.
            box_format: The format of `boxes`.
            iou_type: As in `Detections.from_images`.
            class_names: As in the constructor.
            is_hosted: As in `Detections.from_images`.

        Raises:
            InputError: An image is invalid; the error names the image, the key and the row.
        """
        ids = None if image_ids is None else read_image_ids(image_ids)
        keys = TRUTH_KEYS.of_shapes(iou_type, box_format)
        images = as_dicts(images, TRUTH_KEYS, iou_type, box_format)
        settings = {"class_names": class_names, "image_names": None if ids is None else ids.image_names}
        settings |= _box_setting(keys, box_format)
        truths = build_from_images(cls, images, keys, ids, is_hosted=is_hosted, **settings)
        coverage = _listed_coverage(images, ids, truths)
        return truths if coverage is None else replace(truths, coverage=coverage)

    @classmethod
    def from_padded(
        cls,
        *,
        box: Array | None = None,
        label: Array,
        mask: Array | None = None,
        keypoints: Array | None = None,
        visibility: Array | None = None,
        ignore: Array | None = None,
        area: Array | None = None,
        image_ids: ImageIdsLike | None = None,
        box_format: BoxFormat = "xyxy",
        class_names: ClassNames | None = None,
    ) -> "Truths":
        """Build the columns from a padded batch, without its padding: the rows with a label below 0 (Alg. 4).

        At least one of `box`, `mask` and `keypoints` must be given.

        Args:
            box: Boxes in `box_format`. Shape (N, G, 4); (N, G, 5) with an angle; (N, G, 8) for corners.
            label: Class ids; below 0: padding. Shape (N, G).
            mask: Pixels, booleans or bytes. Shape (N, G, H, W).
            keypoints: x, y and visibility of each point. Shape (N, G, K, 3), or (N, G, K, 2).
            visibility: As in the constructor. Shape (N, G, K).
            ignore: As in the constructor. Shape (N, G).
            area: As in the constructor. Shape (N, G).
            image_ids: As in `from_images`. Length N.
            box_format: The format of `box`.
            class_names: As in the constructor.
        """
        ids = None if image_ids is None else read_image_ids(image_ids)
        settings: dict[str, Any] = {"class_names": class_names}
        settings |= {"image_names": None if ids is None else ids.image_names}
        settings |= {} if box is None else {"box_format": box_format}
        optional = {"box": box, "mask": mask, "keypoints": keypoints, "visibility": visibility}
        optional |= {"ignore": ignore, "area": area}
        batch = PaddedBatch.from_columns({"label": label}, optional, row_size(box_format))
        return batch.build(cls, ids, **settings)

    def kinds(self, protocol: Protocol) -> Array | None:
        """The kind of each truth under a protocol, uint8, on the device of the shapes; None: all regular. Shape (G,).

        A regular truth with nothing to compare, such as keypoints without labelled points, is difficult.

        Args:
            protocol: The rules, which decide the kind of truths that are marked `ignore`.
        """
        kind = None if self.kind is None else kinds_under(self.kind, protocol)
        if self.ignore is not None:
            kind = ignored_kinds(self.ignore, protocol)
        is_blank = self.geometry.is_blank(protocol)
        if is_blank is None or not is_blank.any():
            return kind
        home = self.geometry.arrays[0]
        given = np.zeros(len(self), np.uint8) if kind is None else to_numpy(kind)
        return convert(np.where(is_blank & (given == REGULAR), np.uint8(DIFFICULT), given), like=home)

    @property
    def names_by_label(self) -> dict[int, str] | None:
        """The class names as a mapping from labels."""
        return cast(dict[int, str] | None, self.class_names)  # normalized to a dict in __init__


def _listed_coverage(images: Sequence[Mapping[str, Any]], image_ids: Any, truths: Truths) -> Coverage | None:
    """The coverage from the lists of labels in the dicts; None if they have none."""
    negative, not_exhaustive = (listed_labels(images, key) for key in COVERAGE_KEYS)
    if negative is None and not_exhaustive is None:
        return None
    if negative is None:
        raise InputError(f"images[0] must have the key {COVERAGE_KEYS[0]!r}, since it has {COVERAGE_KEYS[1]!r}")
    ids = np.arange(len(images)) if image_ids is None else different_ids(image_ids, len(images))
    no_pairs = np.zeros(0, np.int64), np.zeros(0, np.int64)
    pairs = [(ids[index], label) for index, label in (negative, not_exhaustive or no_pairs)]
    annotated = host_ids(truths.image), host_ids(truths.label)
    return Coverage.from_lists(negative=pairs[0], not_exhaustive=pairs[1], annotated=annotated)


def ignored_kinds(ignore: Array, protocol: Protocol) -> Array:
    """Kinds from `ignore` flags, uint8; the protocol decides the kind of marked truths."""
    xp = namespace(ignore)
    return xp.astype(ignore, xp.uint8) * protocol.ignored_kind


def kinds_under(kind: Array, protocol: Protocol) -> Array:
    """Kinds of truths under a protocol: if it counts ignored truths as regular, all but groups are."""
    if protocol.ignored != "regular":
        return kind
    return namespace(kind).where(kind == GROUP, kind, kind * REGULAR)


def _as_kinds(kind: Any, geometry: Geometry) -> Array:
    column = as_array("kind", kind)
    if shape_of(column) != (len(geometry),):
        raise InputError(f"`kind` must have shape ({len(geometry)},), one per truth; got {shape_of(column)}")
    if len(geometry) and not is_kind(column, "integral"):
        raise InputError(f"`kind` must hold integers; got {column.dtype}")
    rule = "must be 0 (regular), 1 (difficult), 2 (crowd) or 3 (group)"
    check_rows("kind", (column >= REGULAR) & (column <= GROUP), rule, column)
    column = convert(column, like=geometry.arrays[0])
    return namespace(column).astype(column, namespace(column).uint8)


def coverage_codes(detections: Detections, truths: Truths, protocol: Protocol) -> NDArray[np.uint8] | None:
    """The coverage code of each detection, in host memory; None: all count. Shape (D,).

    Unless `Protocol.empty` is "keep", detections without area are not covered. If limits are over the dataset,
    detections that are not covered are ignored instead: they are dropped after the limits were applied.

    >>> detections = Detections(image=[0, 0, 0], label=[1, 2, 3], score=[0.9, 0.8, 0.7], box=[[0, 0, 9, 9]] * 3)
    >>> coverage = Coverage(image=[0, 0], label=[1, 2], is_exhaustive=[True, False])
    >>> truths = Truths(image=[], label=[], box=[], coverage=coverage)
    >>> coverage_codes(detections, truths, Protocol.named("lvis")).tolist()
    [0, 1, 2]
    """
    codes = _codes_by_class(detections, truths)
    if protocol.empty != "keep":
        is_empty = host_areas(detections, protocol) <= 0
        if is_empty.any():
            given = np.full(len(detections), COVERED, np.uint8) if codes is None else codes
            codes = np.where(is_empty, np.uint8(NOT_COVERED), given)
    return codes if codes is None or protocol.limits_per != "dataset" else np.minimum(codes, np.uint8(NOT_EXHAUSTIVE))


def _codes_by_class(detections: Detections, truths: Truths) -> NDArray[np.uint8] | None:
    if truths.coverage is None:
        return None
    own, annotated = ((host_ids(side.image), host_ids(side.label)) for side in (detections, truths))
    return truths.coverage.codes(own, annotated)


def classes_of(detections: Detections, truths: Truths) -> NDArray[np.int64]:
    """All labels of truths, detections and class names, ascending. Shape (K,)."""
    seen = [_compiled.distinct(compact(host_ids(side.label))) for side in (truths, detections)]
    named = np.array(list(truths.names_by_label or ()), np.int64)
    classes: NDArray[np.int64] = _compiled.distinct(np.concatenate([*seen, named]))
    return classes


def host_ids(column: Array) -> NDArray[np.int64]:
    """Image ids or labels in host memory."""
    return to_numpy(column).astype(np.int64, copy=False)


def host_scores(column: Array) -> NDArray[Any]:
    """Scores in host memory, float32 or float64."""
    array = to_numpy(column)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def host_areas(columns: "Detections | Truths", protocol: Protocol) -> NDArray[Any]:
    """The areas that decide area ranges, in host memory: given areas, else areas of the shapes. Shape (N,)."""
    given: NDArray[Any] = (
        columns.geometry.areas(protocol, like=np.zeros(0)) if columns.area is None else to_numpy(columns.area)
    )
    return given


def pooled(columns: Columns) -> Columns:
    """Relabel all rows as one class, sorted by the original label, which breaks ties as in COCO."""
    order = pooled_order(to_numpy(columns.label))
    one_class: dict[str, Any] = {"label": np.full(order.size, POOLED)}
    if isinstance(columns, Truths):
        if columns.coverage is not None:
            raise InputError("`coverage` is by class, and a class-agnostic protocol has none: set one of them only")
        one_class |= {"class_names": {POOLED: "all"}, "class_groups": None}
    return replace(columns, **_rows(columns, order) | one_class)


def pooled_order(label: NDArray[Any]) -> NDArray[np.int64]:
    """The order of rows as one class: stable by label, which breaks ties as in COCO. Shape (N,)."""
    return np.argsort(label, kind="stable")


def take(columns: Columns, is_kept: NDArray[np.bool_]) -> Columns:
    """Select the rows that are kept."""
    return columns if is_kept.all() else replace(columns, **_rows(columns, is_kept))


def _rows(columns: Detections | Truths, rows: NDArray[Any]) -> dict[str, Any]:
    """Selected rows of all columns, by name; ids are in host memory."""
    names = [
        name for name in ("score", "ignore", "kind", "truncated", "area") if getattr(columns, name, None) is not None
    ]
    ids = {name: host_ids(getattr(columns, name))[rows] for name in ("image", "label")}
    more = {name: take_rows(getattr(columns, name), rows) for name in names}
    shapes = [each.take(rows) for each in columns.geometries]
    return {**ids, **more, "geometry": shapes[0], "others": shapes[1:]}


def _box_setting(keys: Keys, box_format: BoxFormat) -> dict[str, Any]:
    """The setting `box_format`, if the keys have boxes."""
    return {"box_format": box_format} if "box" in keys.columns.values() else {}


def take_images(columns: Columns, images: Sequence[int]) -> Columns:
    """Select the rows of some images; `invalid_image` keeps only these images, too."""
    kept = take(columns, np.isin(host_ids(columns.image), images))
    if isinstance(kept, Detections) and kept.invalid_image is not None:
        return replace(kept, invalid_image=kept.invalid_image[np.isin(kept.invalid_image, images)])
    return kept


def select_images(columns: Columns, indices: Sequence[int], ids: Sequence[int]) -> Columns:
    """Select some images of a batch by index, and replace the indices by their ids."""
    kept, number = take_images(columns, indices), np.asarray(ids, np.int64)
    if isinstance(kept, Detections) and kept.invalid_image is not None:
        kept = replace(kept, invalid_image=number[kept.invalid_image])
    return replace(kept, image=number[host_ids(kept.image)])


def check_labels_are_named(label: Array, class_names: Mapping[int, str]) -> None:
    """Raise `InputError` if a label has no name."""
    seen = _compiled.distinct(compact(host_ids(label)))
    unnamed = [each for each in seen.tolist() if each not in class_names]
    if unnamed:
        known = ", ".join(map(str, sorted(class_names)[:10])) + (", …" if len(class_names) > 10 else "")
        is_from_1 = unnamed == [len(class_names)] and 0 in class_names and 0 not in seen
        hint = "; labels that count from 1 need class_names={1: …}, or a name for 0 in front" if is_from_1 else ""
        raise InputError(f"`label` must be one of those in `class_names` ({known}); got {unnamed[0]}{hint}")


def _check_areas(area: Array | None) -> None:
    if area is not None and not (type(area) is np.ndarray and area.min(initial=0) >= 0):
        check_rows("area", area >= 0, "must not be negative", area)


def _set(columns: Detections | Truths, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(columns, name, value)


def _checked_index(crowd_index: Any) -> Mapping[int, float] | None:
    if crowd_index is None:
        return None
    if not isinstance(crowd_index, Mapping):
        raise InputError(f"`crowd_index` must be a mapping of image ids to numbers; got {type(crowd_index).__name__}")
    for image, value in crowd_index.items():
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value < np.inf:
            raise InputError(f"`crowd_index` must be finite and not negative; got {value!r} for image {image}")
    return crowd_index


def _class_names(names: ClassNames) -> dict[int, str]:
    if isinstance(names, str) or not isinstance(names, Mapping | Sequence):
        raise InputError(f"`class_names` must be a sequence or a mapping of names; got {names!r}")
    return _by_label("class_names", names if isinstance(names, Mapping) else dict(enumerate(names)))


def _by_label(argument: str, names: Any) -> dict[int, str]:
    if not isinstance(names, Mapping):
        raise InputError(f"`{argument}` must be a mapping of labels to names; got {names!r}")
    plain = {}
    for label, name in names.items():
        if isinstance(label, bool) or not isinstance(label, int | np.integer):
            raise InputError(f"`{argument}` must have integer keys; got {label!r}")
        plain[int(label)] = str(name)
    return plain
