"""Detections and Truths as columns, one row per shape. Data is checked here; past here it is trusted."""

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
"""The ids of images: integers or names."""

Invalid = Literal["error", "drop"]
"""Treatment of invalid detections, such as a box with NaN: raise an error, or drop them."""

_CAN_BE_DROPPED = ("box", "keypoints", "keypoints_scores", "score", "area")
"""The columns whose invalid rows may be dropped: what a network computes. Ids and masks must be valid always."""

Columns = TypeVar("Columns", "Detections", "Truths")

IGNORED_KINDS = (DIFFICULT, CROWD)
"""Kinds that count nowhere: a detection that takes one is ignored."""

SHARED_KINDS = (CROWD, GROUP)
"""Kinds that any number of detections may take, with a similarity relative to the detection's own size."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False, init=False)
class Detections(Shapes):
    """What a detector found, one row per shape. Arrays of any supported library, or lists.

    The order of rows breaks ties: of equal scores in one image, the earlier row ranks first.

    >>> Detections(image=[0, 0, 1], label=[3, 5, 3], score=[0.9, 0.8, 0.7], box=np.ones((3, 4)))
    Detections(3 boxes in 2 images, numpy)
    """

    image: Array
    """Image ids, any integers. Shape (D,)."""
    label: Array
    """Class ids, any integers. Shape (D,)."""
    score: Array
    """Confidence, any finite numbers; higher is surer. Shape (D,)."""
    geometry: Geometry
    """The shapes; boxes are written as `box` and `box_format`, masks as `mask`, poses as `keypoints`, (D, K, 3), or
    (D, K, 2) and, if you like, `keypoints_scores`; beside (D, K, 3) these are not used. Length D."""
    others: tuple[Geometry, ...] = ()
    """The same rows under other geometries, such as the masks of boxes. `Protocol.iou_type` says which one counts."""
    area: Array | None = None
    """The area that decides whether a false positive is in an area range, else the shape's own. Shape (D,)."""
    invalid_image: NDArray[np.int64] | None = None
    """The images of invalid rows that were dropped, see `from_images`; None: none was. Shape (I,)."""

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
        """The valid rows of columns that the constructor takes; the images of the others are in `invalid_image`.

        Invalid is what the constructor refuses row by row: a box, a score, an area or keypoints with a number that is
        not finite, a negative size, and so on. All else stays an error.

        >>> found = Detections.from_valid_rows(image=[0, 7], label=[1, 1], score=[0.9, np.nan], box=[[0, 0, 9, 9]] * 2)
        >>> found, found.invalid_image.tolist()
        (Detections(1 box in 1 image, numpy), [7])
        """
        dropped: list[NDArray[np.int64]] = []
        rows: NDArray[np.int64] | None = None  # the index of each row that is left in what was given
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
        """Columns from one dict per image with `boxes` (D, 4), `scores` (D,) and `labels` (D,).

        `box_format`: that of oriented boxes makes `boxes` (D, 5), with an angle, or (D, 8), corners.

        `iou_type`: with "segm" or "boundary" dicts have `masks` in place of `boxes`, with several both: booleans
        or bytes (D, H, W) or (D, 1, H, W), or a list of COCO's run lengths; with "keypoints" they have `keypoints`,
        (D, K, 3), or (D, K, 2) and perhaps `keypoints_scores`, (D, K), which are not used beside (D, K, 3). Images are
        numbered 0, 1, 2, … unless `image_ids` has an integer or a name for each; a name becomes a hash of 63 bits.
        Batches to be merged later need ids. `is_hosted`: what is in host memory becomes NumPy's, which is faster. In
        place of a dict there may be an object that has what one image has: supervision's `Detections` or `KeyPoints`,
        Ultralytics' `Results`.

        `invalid`: what becomes of a row with a NaN, an infinity or a negative size: "error", or "drop", as if it were
        not there. Results count the rows that were dropped, and are not `comparable`.

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
        """Columns from a padded batch, without the rows that `discarded` marks (Alg. 5) and those with a label below 0.

        Shapes (N, D, 4), (N, D), (N, D), (N, D, H, W), (N, D, K, 3), (N, D, K), (N, D); any of boxes, masks and
        keypoints; `image_ids` and `invalid`: as in `from_images`.
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
    """The valid rows of a column, however it was given; settings stay as they are."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Geometry):
        return value.take(is_valid)
    if isinstance(value, tuple) and all(isinstance(each, Geometry) for each in value):
        return tuple(each.take(is_valid) for each in value)
    return take_rows(as_array("columns", value), is_valid)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False, init=False)
class Truths(Shapes):
    """The ground truth, one row per shape. Arrays of any supported library, or lists.

    >>> Truths(image=[0, 7], label=[3, 5], box=[[0, 0, 10, 10], [5, 5, 20, 10]], ignore=[False, True])
    Truths(2 boxes in 2 images, numpy)
    """

    image: Array
    """Image ids, any integers. Shape (G,)."""
    label: Array
    """Class ids, any integers. Shape (G,)."""
    geometry: Geometry
    """The shapes; boxes are written as `box` and `box_format`, masks as `mask`, poses as `keypoints`, (G, K, 3), or
    (G, K, 2) and, if not all points are labelled, `visibility`. Length G."""
    others: tuple[Geometry, ...] = ()
    """The same rows under other geometries, as in `Detections`."""
    ignore: Array | None = None
    """VOC's "difficult", COCO's "iscrowd": finding it is not rewarded, missing it not punished. Which of
    the two it is, the protocol says. Shape (G,)."""
    kind: Array | None = None
    """What each truth is, instead of `ignore`, uint8. Shape (G,).

    - 0, regular: it counts, and one detection may take it.
    - 1, difficult (VOC): finding it is not rewarded, missing it not punished.
    - 2, crowd (COCO): the same for a region that any number of detections may take. Similarity is relative to the
      detection's own size.
    - 3, group (Open Images): a region of several objects that counts as one truth. It is for detections that would be
      false positives without it: the first that takes it is a true positive, later ones are ignored. Similarity is
      relative to the detection's own size."""
    coverage: Coverage | None = None
    """Which classes were looked for in which images; None: every class in every image, exhaustively."""
    truncated: Array | None = None
    """VOC's "truncated": a part of it is outside of the image. Decides no number; files keep it. Shape (G,)."""
    area: Array | None = None
    """The area that decides its size class, else the shape's own; COCO gives the area of the mask. Shape (G,)."""
    class_names: ClassNames | None = None
    """If given, these are the classes: one without boxes still has its row, another label is an error."""
    image_names: Mapping[int, str] | None = None
    """File names, or their stems, by image id, for joining with detections that name their images. If given, these are
    all images of the data, those without boxes, too."""
    image_sizes: Mapping[int, tuple[int, int]] | None = None
    """Width and height by image id, for files whose boxes are fractions of them."""
    class_groups: Mapping[int, str] | None = None
    """The group of each class by label, for protocols that measure groups of their own: "rare", "common" or "frequent"
    under LVIS."""
    crowd_index: Mapping[int, float] | None = None
    """How crowded each image is, 0 to 1, by image id, for protocols that have ranges of it (CrowdPose)."""
    subset: tuple[str, ...] = ()
    """What was left out of the data, in words, such as "50 of 5,000 images": numbers of a part are not comparable."""
    is_numbered: bool = False
    """Whether the image ids are only indices in a list of names, from a format that has no ids."""
    is_normalized: bool = False
    """Whether `box` has fractions of the image's width and height, as every detection must then."""

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
        """Columns from one dict per image with `boxes` (G, 4), `labels` (G,) and, if you like, `area` (G,) and any of
        `ignore`, `iscrowd` and `difficult` (G,): a truth that one of them marks is ignored. `iou_type`, `image_ids` and
        `is_hosted`: as in `Detections.from_images`; names of images are also in `image_names`. Beside `keypoints` there
        may be `visibility`, (G, K), and `boxes`. Lists of labels in `neg_category_ids` and, if you like,
        `not_exhaustive_category_ids` make the `coverage`, as in LVIS: all images have them, or none. In place of a dict
        there may be supervision's `Detections` or `KeyPoints`, with such columns in `data`.
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
        """Columns from a padded batch, without its dummies: the rows with a label below 0 (Alg. 4).

        Shapes (N, G, 4), (N, G), (N, G, H, W), (N, G, K, 3), (N, G, K), (N, G), (N, G); any of boxes, masks and
        keypoints; `image_ids`: as in `from_images`.
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
        """The kind of each truth under a protocol, uint8, where the shapes are; None: all are regular. Shape (G,).

        A regular truth that has nothing to compare is difficult: keypoints without a label.
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
        """The class names as a mapping, however they were given."""
        return cast(dict[int, str] | None, self.class_names)  # they were made one when they came


def _listed_coverage(images: Sequence[Mapping[str, Any]], image_ids: Any, truths: Truths) -> Coverage | None:
    """What was looked for, from the lists of labels of dicts; None if they have none."""
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
    """The kinds of truths of which some are marked `ignore`, uint8; the protocol says what these are."""
    xp = namespace(ignore)
    return xp.astype(ignore, xp.uint8) * protocol.ignored_kind


def kinds_under(kind: Array, protocol: Protocol) -> Array:
    """The kinds of truths as a protocol has them: where it ignores no truth, all but groups are regular."""
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
    """What the coverage says of each detection, in host memory; None: all count. Shape (D,).

    Detections without area are left out where the protocol says so. Where limits are over the dataset, those that would
    be left out are ignored instead: they are left out once limits were applied.

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
    """Every label there is, ascending: those of the truths, of the detections and of the class names. Shape (K,)."""
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
    """The areas that decide ranges, in host memory: those given, else those of the shapes. Shape (N,)."""
    given: NDArray[Any] = (
        columns.geometry.areas(protocol, like=np.zeros(0)) if columns.area is None else to_numpy(columns.area)
    )
    return given


def pooled(columns: Columns) -> Columns:
    """The same rows as one class, sorted by the label they had: COCO breaks ties between classes that way."""
    order = pooled_order(to_numpy(columns.label))
    one_class: dict[str, Any] = {"label": np.full(order.size, POOLED)}
    if isinstance(columns, Truths):
        if columns.coverage is not None:
            raise InputError("`coverage` is by class, and a class-agnostic protocol has none: set one of them only")
        one_class |= {"class_names": {POOLED: "all"}, "class_groups": None}
    return replace(columns, **_rows(columns, order) | one_class)


def pooled_order(label: NDArray[Any]) -> NDArray[np.int64]:
    """The order of rows as one class: by the label they had, as COCO breaks ties between classes. Shape (N,)."""
    return np.argsort(label, kind="stable")


def take(columns: Columns, is_kept: NDArray[np.bool_]) -> Columns:
    """The rows that are kept."""
    return columns if is_kept.all() else replace(columns, **_rows(columns, is_kept))


def _rows(columns: Detections | Truths, rows: NDArray[Any]) -> dict[str, Any]:
    """Some rows of all columns, by name; ids in host memory."""
    names = [
        name for name in ("score", "ignore", "kind", "truncated", "area") if getattr(columns, name, None) is not None
    ]
    ids = {name: host_ids(getattr(columns, name))[rows] for name in ("image", "label")}
    more = {name: take_rows(getattr(columns, name), rows) for name in names}
    shapes = [each.take(rows) for each in columns.geometries]
    return {**ids, **more, "geometry": shapes[0], "others": shapes[1:]}


def _box_setting(keys: Keys, box_format: BoxFormat) -> dict[str, Any]:
    """The format of boxes, if there are any."""
    return {"box_format": box_format} if "box" in keys.columns.values() else {}


def take_images(columns: Columns, images: Sequence[int]) -> Columns:
    """The rows of some images, those that were dropped included."""
    kept = take(columns, np.isin(host_ids(columns.image), images))
    if isinstance(kept, Detections) and kept.invalid_image is not None:
        return replace(kept, invalid_image=kept.invalid_image[np.isin(kept.invalid_image, images)])
    return kept


def select_images(columns: Columns, indices: Sequence[int], ids: Sequence[int]) -> Columns:
    """The rows of some images of a batch, under their ids; before, images were identified by their index in it."""
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
