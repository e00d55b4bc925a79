"""Detections and Truths as columns, one row per shape. Input is validated here; later code trusts it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, TypeVar, Unpack, cast, get_args

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore.arrays import Array, compact, convert, library, namespace, take_rows, to_numpy
from boxscore.data.batch_keys import COVERAGE_KEYS, DETECTION_KEYS, TRUTH_KEYS, Keys
from boxscore.data.batches import PaddedBatch, build_from_images, listed_labels
from boxscore.data.coverage import COVERED, NOT_COVERED, NOT_EXHAUSTIVE, Coverage
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.box_formats import BoxFormat, row_size
from boxscore.data.geometry.boxes import BoxColumn, Boxes
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.data.geometry.kinds import geometries_of
from boxscore.data.geometry.masks import Masks
from boxscore.data.geometry.oriented_boxes import OrientedBoxes
from boxscore.data.image_ids import different_ids, read_image_ids
from boxscore.data.image_objects import as_dicts
from boxscore.data.validation import ImageError, RowError, as_array, check_rows, checked_columns, is_kind, shape_of
from boxscore.protocol.fields import check_choice
from boxscore.protocol.protocol import CROWD, DIFFICULT, GROUP, POOLED, REGULAR, IouType, Protocol

ClassNames = Mapping[int, str] | Sequence[str]
"""Names by label, or a sequence of names for the labels 0, 1, 2, …"""

ImageIdsLike = Iterable[int | str] | Array
"""Image ids: integers or names."""

Invalid = Literal["error", "drop"]
"""Treatment of invalid detections, such as a box with NaN: raise an error, or drop them."""

_MUST_BE_VALID = ("image_ids", "labels", "masks")
"""The columns whose invalid rows are never dropped; other columns are the outputs of a network."""

Columns = TypeVar("Columns", "Detections", "Truths")
Kind = TypeVar("Kind", bound=Geometry)

IGNORED_KINDS = (DIFFICULT, CROWD)
"""Kinds that are not counted: a detection that takes such a truth is ignored."""

SHARED_KINDS = (CROWD, GROUP)
"""Kinds that any number of detections may take; similarity is relative to the detection's size."""


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
        found = next((each for each in self.geometries if isinstance(each, BoxColumn)), None) or self._boxes
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


class _DetectionInternals(TypedDict, total=False):
    """Fields of `Detections` that only boxscore sets."""

    _others: Sequence[Geometry]
    _invalid_image_ids: NDArray[np.int64] | None


class _TruthInternals(TypedDict, total=False):
    """Fields of `Truths` that only boxscore sets."""

    _others: Sequence[Geometry]
    _is_numbered: bool
    _is_normalized: bool


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False, init=False)
class Detections(Shapes):
    """Detections, one row per shape. Columns are arrays of any supported library, or lists.

    The order of rows breaks ties: of equal scores in one image, the earlier row ranks first.

    Args:
        image_ids: Image ids, any integers. Shape (D,).
        labels: Class ids, any integers. Shape (D,).
        scores: Confidences, any finite numbers; higher means more confident. Shape (D,).
        boxes: Boxes in `box_format`. Shape (D, 4); (D, 5) with an angle; (D, 8) for corners.
        box_format: The format of `boxes`; default: "xyxy".
        masks: Masks: pixels (D, H, W), a list of COCO's run lengths, or `Masks`.
        keypoints: Keypoints: (D, K, 3) with a score per point, or (D, K, 2).
        keypoints_scores: The score of each point beside `keypoints` (D, K, 2); not used beside (D, K, 3). Shape (D, K).
        geometry: The shapes as a geometry or several, instead of `boxes`, `masks` or `keypoints`. Length D.
        area: Areas that decide whether a false positive is in an area range; default: of the shapes. Shape (D,).
        shapes: Arrays of registered geometries by `Geometry.key`.
        **internal: Fields that only boxscore sets.

    Raises:
        InputError: Columns have different lengths, or values are invalid.

    >>> Detections(image_ids=[0, 0, 1], labels=[3, 5, 3], scores=[0.9, 0.8, 0.7], boxes=np.ones((3, 4)))
    Detections(3 boxes in 2 images, numpy)
    """

    image_ids: Array
    """Image ids, any integers. Shape (D,)."""
    labels: Array
    """Class ids, any integers. Shape (D,)."""
    scores: Array
    """Confidences, any finite numbers; higher means more confident. Shape (D,)."""
    geometry: Geometry
    """The main geometry: boxes, masks or keypoints. Length D."""
    _others: tuple[Geometry, ...] = ()
    """Other geometries of the rows, such as the masks of boxes. `Protocol.iou_type` selects the geometry to compare."""
    area: Array | None = None
    """Areas that decide whether a false positive is in an area range; None: of the shapes. Shape (D,)."""
    _invalid_image_ids: NDArray[np.int64] | None = None
    """The images of invalid rows that were dropped, see `from_images`; None: no row was. Shape (I,)."""

    def __init__(
        self,
        *,
        image_ids: Array,
        labels: Array,
        scores: Array,
        boxes: Array | None = None,
        box_format: BoxFormat | None = None,
        masks: Any = None,
        keypoints: Any = None,
        keypoints_scores: Any = None,
        geometry: Geometry | Sequence[Geometry] | None = None,
        area: Array | None = None,
        shapes: Mapping[str, Any] | None = None,
        **internal: Unpack[_DetectionInternals],
    ) -> None:
        check_keywords("Detections", internal, _DetectionInternals)
        written = {"boxes": boxes, "box_format": box_format, "masks": masks, "keypoints": keypoints, **(shapes or {})}
        written["keypoints_scores"] = keypoints_scores
        main, *more = geometries_of(*_given(geometry, internal), written, is_truth=False, area=area)
        ids, home = {"image_ids": image_ids, "labels": labels}, main.arrays[0]
        columns = checked_columns(ids, {"scores": scores, "area": area}, {}, counted_by="scores", axis="D", home=home)
        _check_lengths((main, *more), columns["scores"], "scores")
        _check_areas(columns.get("area"))
        _set(
            self,
            geometry=main,
            _others=tuple(more),
            **{"area": None, **columns},
            _invalid_image_ids=internal.get("_invalid_image_ids"),
        )

    @property
    def invalid_image_ids(self) -> NDArray[np.int64] | None:
        """The images of invalid rows that were dropped, see `from_images`; None: no row was. Shape (I,)."""
        return self._invalid_image_ids

    @classmethod
    def from_valid_rows(cls, **columns: Any) -> "Detections":
        """Drop the invalid rows of the constructor's columns, and list their images in `invalid_image_ids`.

        A row is invalid if its box, score, area or keypoints are: a number that is not finite, a negative size, and so
        on. Other errors, such as wrong shapes of arrays or invalid ids and masks, are raised as by the constructor.

        Args:
            **columns: The arguments of the constructor.

        >>> boxes = [[0, 0, 9, 9]] * 2
        >>> found = Detections.from_valid_rows(image_ids=[0, 7], labels=[1, 1], scores=[0.9, np.nan], boxes=boxes)
        >>> found, found.invalid_image_ids.tolist()
        (Detections(1 box in 1 image, numpy), [7])
        """
        dropped: list[NDArray[np.int64]] = []
        rows: NDArray[np.int64] | None = None  # the index of each remaining row in the input
        while True:
            try:
                made = cls(**columns)
            except RowError as error:
                rows = np.arange(len(columns["image_ids"])) if rows is None else rows
                if error.is_valid is None or error.column in _MUST_BE_VALID:
                    raise RowError(error.column, int(rows[error.row]), error.rule) from None
                dropped.append(host_ids(as_array("image_ids", columns["image_ids"]))[~error.is_valid])
                rows = rows[error.is_valid]
                columns = {name: _valid_rows(value, error.is_valid) for name, value in columns.items()}
            else:
                return replace(made, _invalid_image_ids=np.concatenate(dropped)) if dropped else made

    @classmethod
    def from_images(
        cls,
        images: Sequence[Mapping[str, Any]],
        *,
        image_ids: ImageIdsLike | None = None,
        box_format: BoxFormat = "xyxy",
        iou_type: IouType | Sequence[IouType] = "bbox",
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
            invalid: "error" raises for a row with NaN, infinity or a negative size; "drop" drops it. Results count
                the dropped rows, and are then not `comparable`.

        Raises:
            InputError: An image is invalid; the error names the image, the key and the row.

        >>> Detections.from_images([{"boxes": [[0, 0, 9, 9]], "scores": [0.9], "labels": [1]}])
        Detections(1 box in 1 image, numpy)
        """
        return detections_of_images(images, image_ids, box_format, iou_type, invalid=invalid)

    @classmethod
    def from_padded(
        cls,
        *,
        boxes: Array | None = None,
        labels: Array,
        scores: Array,
        masks: Array | None = None,
        keypoints: Array | None = None,
        keypoints_scores: Array | None = None,
        discarded: Array | None = None,
        image_ids: ImageIdsLike | None = None,
        box_format: BoxFormat = "xyxy",
        invalid: Invalid = "error",
    ) -> "Detections":
        """Build the columns from a padded batch, without discarded rows (Alg. 5) and rows with a label below 0.

        At least one of `boxes`, `masks` and `keypoints` must be given.

        Args:
            boxes: Boxes in `box_format`. Shape (N, D, 4); (N, D, 5) with an angle; (N, D, 8) for corners.
            labels: Class ids; below 0: padding. Shape (N, D).
            scores: Confidences. Shape (N, D).
            masks: Pixels, booleans or bytes. Shape (N, D, H, W).
            keypoints: x, y and score of each point. Shape (N, D, K, 3), or (N, D, K, 2).
            keypoints_scores: As in the constructor. Shape (N, D, K).
            discarded: Whether to drop the row. Shape (N, D).
            image_ids: As in `from_images`. Length N.
            box_format: The format of `boxes`.
            invalid: As in `from_images`.
        """
        make = detections_maker(invalid)
        required = {"labels": labels, "scores": scores}
        optional = {"boxes": boxes, "masks": masks, "discarded": discarded}
        optional |= {"keypoints": keypoints, "keypoints_scores": keypoints_scores}
        batch = PaddedBatch.from_columns(required, optional, row_size(box_format))
        return batch.build(make, image_ids, **({} if boxes is None else {"box_format": box_format}))


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
    if isinstance(value, Mapping):
        return {name: _valid_rows(each, is_valid) for name, each in value.items()}
    if isinstance(value, Geometry):
        return value.take(is_valid)
    if isinstance(value, list | tuple) and value and all(isinstance(each, Geometry) for each in value):
        return tuple(each.take(is_valid) for each in value)
    return take_rows(as_array("columns", value), is_valid)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False, init=False)
class Truths(Shapes):
    """The ground truth, one row per shape. Columns are arrays of any supported library, or lists.

    Its arguments answer three questions:

    - What is where: `image_ids`, `labels`, and the shapes: `boxes`, `masks`, `keypoints` or a `geometry`.
    - How each truth counts: `ignore` or `kind`, `area`, `truncated`.
    - What is known of the data as a whole: `class_names`, `class_groups`, `image_names`, `image_sizes`, `crowd_index`,
      `coverage`, `subset`.

    Args:
        image_ids: Image ids, any integers. Shape (G,).
        labels: Class ids, any integers. Shape (G,).
        boxes: Boxes in `box_format`. Shape (G, 4); (G, 5) with an angle; (G, 8) for corners.
        box_format: The format of `boxes`; default: "xyxy".
        masks: Masks: pixels (G, H, W), a list of COCO's run lengths, or `Masks`.
        keypoints: Keypoints: (G, K, 3) with a visibility per point, or (G, K, 2).
        visibility: Above 0 where a point of `keypoints` (G, K, 2) is labelled; default: all are. Shape (G, K).
        geometry: The shapes as a geometry or several, instead of `boxes`, `masks` or `keypoints`. Length G.
        ignore: Whether a truth is ignored: VOC's "difficult", COCO's "iscrowd". Shape (G,).
        kind: The kind of each truth, 0 to 3, instead of `ignore`; see the field. Shape (G,).
        area: Areas that decide area ranges; default: of the shapes. Shape (G,).
        truncated: VOC's "truncated"; affects no number. Shape (G,).
        class_names: Names by label, or a sequence of names for 0, 1, 2, … If given, other labels are errors.
        class_groups: The group of each class by label, such as "rare" under LVIS.
        image_names: File names by image id. If given, these are all images of the data.
        image_sizes: Width and height by image id.
        crowd_index: How crowded each image is, 0 to 1, by image id (CrowdPose).
        coverage: The classes that were verified in each image; default: every class in every image.
        subset: Descriptions of excluded data, such as "50 of 5,000 images".
        shapes: Arrays of registered geometries by `Geometry.key`.
        **internal: Fields that only boxscore sets.

    Raises:
        InputError: Columns have different lengths, or values are invalid.

    >>> Truths(image_ids=[0, 7], labels=[3, 5], boxes=[[0, 0, 10, 10], [5, 5, 20, 10]], ignore=[False, True])
    Truths(2 boxes in 2 images, numpy)
    """

    image_ids: Array
    """Image ids, any integers. Shape (G,)."""
    labels: Array
    """Class ids, any integers. Shape (G,)."""
    geometry: Geometry
    """The main geometry: boxes, masks or keypoints. Length G."""
    _others: tuple[Geometry, ...] = ()
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
    _is_numbered: bool = False
    """Whether the image ids are only indices in a list of names, from a format without ids."""
    _is_normalized: bool = False
    """Whether `boxes` has fractions of the image's width and height; detections must then have fractions, too."""

    def __init__(
        self,
        *,
        image_ids: Array,
        labels: Array,
        boxes: Array | None = None,
        box_format: BoxFormat | None = None,
        masks: Any = None,
        keypoints: Any = None,
        visibility: Any = None,
        geometry: Geometry | Sequence[Geometry] | None = None,
        ignore: Array | None = None,
        kind: Array | None = None,
        area: Array | None = None,
        truncated: Array | None = None,
        class_names: ClassNames | None = None,
        class_groups: Mapping[int, str] | None = None,
        image_names: Mapping[int, str] | None = None,
        image_sizes: Mapping[int, tuple[int, int]] | None = None,
        crowd_index: Mapping[int, float] | None = None,
        coverage: Coverage | None = None,
        subset: Sequence[str] = (),
        shapes: Mapping[str, Any] | None = None,
        **internal: Unpack[_TruthInternals],
    ) -> None:
        check_keywords("Truths", internal, _TruthInternals)
        written = {"boxes": boxes, "box_format": box_format, "masks": masks, "keypoints": keypoints, **(shapes or {})}
        written["visibility"] = visibility
        main, *more = geometries_of(*_given(geometry, internal), written, is_truth=True, area=area)
        ids, flags = {"image_ids": image_ids, "labels": labels}, {"ignore": ignore, "truncated": truncated}
        columns = checked_columns(ids, {"area": area}, flags, counted_by="labels", axis="G", home=main.arrays[0])
        _check_lengths((main, *more), columns["labels"], "labels")
        _check_areas(columns.get("area"))
        names = None if class_names is None else _class_names(class_names)
        if names is not None:
            check_labels_are_named(columns["labels"], names)
        if kind is not None and ignore is not None:
            raise InputError("`kind` and `ignore` must not both be given: a truth marked `ignore` is of kind 1 or 2")
        if coverage is not None and not isinstance(coverage, Coverage):
            raise InputError(f"`coverage` must be a boxscore.data.Coverage; got {type(coverage).__name__}")
        _set(self, ignore=columns.get("ignore"), truncated=columns.get("truncated"), area=columns.get("area"))
        _set(self, kind=None if kind is None else _as_kinds(kind, main), coverage=coverage)
        _set(self, image_ids=columns["image_ids"], labels=columns["labels"], class_names=names)
        _set(self, geometry=main, _others=tuple(more))
        _set(self, image_names=image_names, image_sizes=image_sizes, crowd_index=_checked_index(crowd_index))
        _set(self, class_groups=None if class_groups is None else _by_label("class_groups", class_groups))
        _set(self, _is_numbered=internal.get("_is_numbered", False), subset=tuple(subset))
        _set(self, _is_normalized=internal.get("_is_normalized", False))

    @classmethod
    def from_images(
        cls,
        images: Sequence[Mapping[str, Any]],
        *,
        image_ids: ImageIdsLike | None = None,
        box_format: BoxFormat = "xyxy",
        iou_type: IouType | Sequence[IouType] = "bbox",
        class_names: ClassNames | None = None,
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

        Raises:
            InputError: An image is invalid; the error names the image, the key and the row.
        """
        return truths_of_images(images, image_ids, box_format, iou_type, class_names=class_names)

    @classmethod
    def from_padded(
        cls,
        *,
        boxes: Array | None = None,
        labels: Array,
        masks: Array | None = None,
        keypoints: Array | None = None,
        visibility: Array | None = None,
        ignore: Array | None = None,
        area: Array | None = None,
        image_ids: ImageIdsLike | None = None,
        box_format: BoxFormat = "xyxy",
        class_names: ClassNames | None = None,
    ) -> "Truths":
        """Build the columns from a padded batch, without its padding: the rows with a label below 0 (Alg. 4).

        At least one of `boxes`, `masks` and `keypoints` must be given.

        Args:
            boxes: Boxes in `box_format`. Shape (N, G, 4); (N, G, 5) with an angle; (N, G, 8) for corners.
            labels: Class ids; below 0: padding. Shape (N, G).
            masks: Pixels, booleans or bytes. Shape (N, G, H, W).
            keypoints: x, y and visibility of each point. Shape (N, G, K, 3), or (N, G, K, 2).
            visibility: As in the constructor. Shape (N, G, K).
            ignore: As in the constructor. Shape (N, G).
            area: As in the constructor. Shape (N, G).
            image_ids: As in `from_images`. Length N.
            box_format: The format of `boxes`.
            class_names: As in the constructor.
        """
        ids = None if image_ids is None else read_image_ids(image_ids)
        settings: dict[str, Any] = {"class_names": class_names}
        settings |= {"image_names": None if ids is None else ids.image_names}
        settings |= {} if boxes is None else {"box_format": box_format}
        optional = {"boxes": boxes, "masks": masks, "keypoints": keypoints, "visibility": visibility}
        optional |= {"ignore": ignore, "area": area}
        batch = PaddedBatch.from_columns({"labels": labels}, optional, row_size(box_format))
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
    def is_numbered(self) -> bool:
        """Whether the image ids are only indices in a list of names, from a format without ids."""
        return self._is_numbered

    @property
    def is_normalized(self) -> bool:
        """Whether boxes are fractions of the image's width and height; detections must then be fractions, too."""
        return self._is_normalized

    @property
    def names_by_label(self) -> dict[int, str] | None:
        """The class names as a mapping from labels."""
        return cast(dict[int, str] | None, self.class_names)  # normalized to a dict in __init__


def detections_of_images(
    images: Any, image_ids: Any, box_format: BoxFormat, iou_type: Any, *, invalid: Invalid, as_numpy: bool = False
) -> Detections:
    """Build the columns as `Detections.from_images` does. `as_numpy`: convert arrays in host memory to NumPy."""
    keys = DETECTION_KEYS.of_shapes(iou_type, box_format)
    images = as_dicts(images, DETECTION_KEYS, iou_type, box_format)
    settings = {"as_numpy": as_numpy, **_box_setting(keys, box_format)}
    return build_from_images(detections_maker(invalid), images, keys, image_ids, **settings)


def truths_of_images(
    images: Any,
    image_ids: Any,
    box_format: BoxFormat,
    iou_type: Any,
    *,
    class_names: ClassNames | None = None,
    as_numpy: bool = False,
) -> Truths:
    """Build the columns as `Truths.from_images` does. `as_numpy`: convert arrays in host memory to NumPy."""
    ids = None if image_ids is None else read_image_ids(image_ids)
    keys = TRUTH_KEYS.of_shapes(iou_type, box_format)
    images = as_dicts(images, TRUTH_KEYS, iou_type, box_format)
    settings = {"class_names": class_names, "image_names": None if ids is None else ids.image_names}
    settings |= _box_setting(keys, box_format)
    truths = build_from_images(Truths, images, keys, ids, as_numpy=as_numpy, **settings)
    coverage = _listed_coverage(images, ids, truths)
    return truths if coverage is None else replace(truths, coverage=coverage)


def _listed_coverage(images: Sequence[Mapping[str, Any]], image_ids: Any, truths: Truths) -> Coverage | None:
    """The coverage from the lists of labels in the dicts; None if they have none."""
    negative, not_exhaustive = (listed_labels(images, key) for key in COVERAGE_KEYS)
    if negative is None and not_exhaustive is None:
        return None
    if negative is None:
        raise ImageError(0, f" must have the key {COVERAGE_KEYS[0]!r}, since it has {COVERAGE_KEYS[1]!r}")
    ids = np.arange(len(images)) if image_ids is None else different_ids(image_ids, len(images))
    no_pairs = np.zeros(0, np.int64), np.zeros(0, np.int64)
    pairs = [(ids[index], label) for index, label in (negative, not_exhaustive or no_pairs)]
    annotated = host_ids(truths.image_ids), host_ids(truths.labels)
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

    >>> detections = Detections(image_ids=[0, 0, 0], labels=[1, 2, 3], scores=[0.9, 0.8, 0.7], boxes=[[0, 0, 9, 9]] * 3)
    >>> coverage = Coverage(image_ids=[0, 0], labels=[1, 2], is_exhaustive=[True, False])
    >>> truths = Truths(image_ids=[], labels=[], boxes=[], coverage=coverage)
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
    own, annotated = ((host_ids(side.image_ids), host_ids(side.labels)) for side in (detections, truths))
    return truths.coverage.codes(own, annotated)


def classes_of(detections: Detections, truths: Truths) -> NDArray[np.int64]:
    """All labels of truths, detections and class names, ascending. Shape (K,)."""
    seen = [_compiled.distinct(compact(host_ids(side.labels))) for side in (truths, detections)]
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
    order = pooled_order(to_numpy(columns.labels))
    one_class: dict[str, Any] = {"labels": np.full(order.size, POOLED)}
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
        name for name in ("scores", "ignore", "kind", "truncated", "area") if getattr(columns, name, None) is not None
    ]
    ids = {name: host_ids(getattr(columns, name))[rows] for name in ("image_ids", "labels")}
    more = {name: take_rows(getattr(columns, name), rows) for name in names}
    shapes = [each.take(rows) for each in columns.geometries]
    return {**ids, **more, "geometry": shapes[0], "_others": shapes[1:]}


def _given(geometry: Any, internal: Mapping[str, Any]) -> tuple[Geometry | None, Sequence[Geometry]]:
    """The main geometry and the others, from one or several."""
    if isinstance(geometry, list | tuple) and geometry:
        return geometry[0], geometry[1:]
    return geometry, internal.get("_others", ())


def with_geometries(columns: Columns, *geometries: Geometry) -> Columns:
    """Replace the geometries; the first is the main one."""
    return replace(columns, geometry=geometries[0], _others=geometries[1:])


def check_keywords(owner: str, given: Mapping[str, Any], known: type) -> None:
    """Raise `TypeError`, as Python does, for a keyword argument that is not known."""
    for name in given.keys() - known.__annotations__.keys():
        raise TypeError(f"{owner}.__init__() got an unexpected keyword argument {name!r}")


def _box_setting(keys: Keys, box_format: BoxFormat) -> dict[str, Any]:
    """The setting `box_format`, if the keys have boxes."""
    return {"box_format": box_format} if "boxes" in keys.columns.values() else {}


def take_images(columns: Columns, images: Sequence[int]) -> Columns:
    """Select the rows of some images; `invalid_image_ids` keeps only these images, too."""
    kept = take(columns, np.isin(host_ids(columns.image_ids), images))
    if isinstance(kept, Detections) and kept.invalid_image_ids is not None:
        return replace(kept, _invalid_image_ids=kept.invalid_image_ids[np.isin(kept.invalid_image_ids, images)])
    return kept


def check_labels_are_named(label: Array, class_names: Mapping[int, str]) -> None:
    """Raise `InputError` if a label has no name."""
    seen = _compiled.distinct(compact(host_ids(label)))
    unnamed = [each for each in seen.tolist() if each not in class_names]
    if unnamed:
        known = ", ".join(map(str, sorted(class_names)[:10])) + (", …" if len(class_names) > 10 else "")
        is_from_1 = unnamed == [len(class_names)] and 0 in class_names and 0 not in seen
        hint = "; labels that count from 1 need class_names={1: …}, or a name for 0 in front" if is_from_1 else ""
        raise InputError(f"`labels` must be one of those in `class_names` ({known}); got {unnamed[0]}{hint}")


def _check_lengths(geometries: Sequence[Geometry], column: Array, name: str) -> None:
    """Raise `InputError` unless every geometry has the length of a column."""
    for geometry in geometries:
        if len(geometry) != column.shape[0]:
            num = int(column.shape[0])
            raise InputError(f"`{geometry.key}` must have {num} rows, the number of {name}; got {len(geometry)}")


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
    by_label = {}
    for label, name in names.items():
        if isinstance(label, bool) or not isinstance(label, int | np.integer):
            raise InputError(f"`{argument}` must have integer keys; got {label!r}")
        by_label[int(label)] = str(name)
    return by_label
