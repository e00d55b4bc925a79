"""The rows of an evaluation: the selected annotations of a dataset and of results, as columns, and their tally.

    params, annotations ──► ImageClassIndex ──► EvaluationColumns ──► Detections, Truths ──► prepare, match ──► Tally

Columns may hold values that `Detections` and `Truths` refuse: pycocotools has rules for them.
"""

import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.lazy import Lazy, LazyField
from boxscore._support.threads import num_threads
from boxscore.data.coverage import NOT_COVERED, NOT_EXHAUSTIVE, Coverage, Pairs
from boxscore.data.dataset import Detections, Truths, pooled_order
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.data.geometry.masks import Masks
from boxscore.data.preparation import prepare
from boxscore.data.validation import RowError
from boxscore.dropin.coco_dataset import get_snapshot
from boxscore.dropin.params import Params
from boxscore.dropin.store import LazyDataset, LazyResults, get_lazy, read_columns
from boxscore.engines.native import compiled_engine
from boxscore.protocol.protocol import Protocol
from boxscore.protocol.table import PROTOCOLS
from boxscore.result.tally import Tally, joined, narrowest

Dict = dict[str, Any]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Rows = Any
"""Indices of rows, or `ALL`, which selects all rows without a copy."""

ALL = slice(None)

DRAWN_ALIKE = (
    *("boxscore.dropin.coco_dataset", "boxscore.dropin.lvis_dataset"),
    *("pycocotools.coco", "faster_coco_eval.core.coco"),
)
"""The modules whose `annToRLE` or `ann_to_rle` draws the same masks."""

TRUTH_KEYPOINT_KEYS = ("iscrowd", "area", "bbox", "num_keypoints")
"""The keys that truths with keypoints need besides `keypoints`."""


def oks_protocol(sigmas: Any, **changes: Any) -> Protocol:
    """COCO's protocol for keypoints with these sigmas."""
    return Protocol.named("coco_keypoints", sigmas=np.asarray(sigmas, np.float64).tolist(), **changes)


def _triples(numbers: Floats) -> Floats:
    return numbers.reshape(len(numbers), numbers.shape[1] // 3, 3)


def detected_keypoints(numbers: Floats) -> Keypoints:
    """The keypoints of results. Shape (N, 3 K): x, y and another number per point."""
    return Keypoints(point=_triples(numbers)[:, :, :2])


def labelled_keypoints(numbers: Floats, *, area: Floats, box: Floats, num_labelled: Floats) -> Keypoints:
    """The keypoints of annotations. Shape (N, 3 K): x, y and visibility per point."""
    triples = _triples(numbers)
    return Keypoints(
        point=triples[:, :, :2], visibility=triples[:, :, 2], area=area, box=box, num_labelled=num_labelled
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class SideColumns:
    """Truths or detections, one row each. Rows of one image and class are in the order that breaks ties."""

    image: Ints
    """Indices into the images of the evaluation."""
    label: Ints
    """Indices into the classes of the evaluation."""
    shape: Any
    """Boxes in xywh, (N, 4); `Masks`; or `Keypoints`."""
    area: Floats = LazyField()  # type: ignore[assignment]
    id: NDArray[Any] = LazyField()  # type: ignore[assignment]
    """Integers, or objects if not all ids are integers."""

    @property
    def float_id(self) -> Floats:
        """Ids as floats, as in pycocotools' matrices of matches."""
        return self.id.astype(np.float64)

    @property
    def comparable_id(self) -> NDArray[Any]:
        """Ids as numbers, for comparisons with 0."""
        return self.float_id if self.id.dtype == object else self.id


Side = TypeVar("Side", bound=SideColumns)


def take_side(side: Side, row: Ints) -> Side:
    """Select rows of truths or detections."""
    if row.size == side.image.size and (row == np.arange(row.size)).all():
        return side
    taken: Dict = {}
    for each in fields(side):
        value = getattr(side, each.name)
        if isinstance(value, Geometry):
            taken[each.name] = value.take(row)
        elif isinstance(value, list):
            taken[each.name] = [value[i] for i in row.tolist()]
        elif value is not None and not isinstance(value, bool):
            taken[each.name] = value[row]
    return replace(side, **taken)


@dataclass(frozen=True, kw_only=True, eq=False)
class DetectionColumns(SideColumns):
    """Detections."""

    score: Floats
    given_score: list[Any] | None = None
    """The scores with their given types, if not all are floats."""
    is_partial: NDArray[np.bool_] | None = None
    """Whether the class was not annotated exhaustively in the image; None: all were. Shape (D,)."""
    has_box_areas: bool = False
    """Whether all areas are known to be the boxes' areas."""
    is_numbered: bool = False
    """Whether all ids are known to be above 0."""

    @property
    def scores(self) -> list[Any]:
        """The scores with their given types, as pycocotools passes them on."""
        return self.score.tolist() if self.given_score is None else self.given_score


@dataclass(frozen=True, kw_only=True, eq=False)
class TruthColumns(SideColumns):
    """Truths."""

    is_crowd: NDArray[np.uint8]
    is_ignored: NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EvaluationColumns:
    """Detections, truths, and the parameters under which they were selected."""

    detections: DetectionColumns
    truths: TruthColumns
    images: list[Any]
    classes: list[Any]
    """Ids, or [-1] if the evaluation is class-agnostic."""
    areas: list[Any]
    """Area ranges, as in the parameters."""
    iou_type: str
    """ "bbox", "segm" or "keypoints"."""
    sigmas: Any
    """Sigmas of keypoints."""
    bounds: list[tuple[float, float]]
    """Lower and upper bounds of the area ranges."""
    thresholds: Floats
    limits: list[Any]
    """Detection limits, ascending."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """The fields of the protocol that differ from COCO's."""
    coverage: Coverage | None = None
    """The images in which each class was verified; None: all images."""
    is_strict: bool = False
    """Whether a row that can't be matched raises an error; if False, pycocotools has a rule for it."""

    @property
    def num_entries(self) -> int:
        """The number of entries of `evalImgs`."""
        return len(self.classes) * len(self.areas) * len(self.images)

    def tally(self) -> Tally | None:
        """Match with boxscore's engine; return None for inputs that pycocotools treats differently."""
        detections, truths = self.detections, self.truths
        if not (self.num_entries and self.limits):
            return None
        # as in COCO: the id 0 means no match, so a truth or a detection with this id is never matched
        if (truths.comparable_id == 0).any() or not (detections.is_numbered or (detections.comparable_id > 0).all()):
            return None
        try:
            protocol = self.protocol(
                thresholds=self.thresholds,
                areas=[(f"area {a}", low, high) for a, (low, high) in enumerate(self.bounds)],
                limits=self.limits,
            )
        except (InputError, TypeError, ValueError):
            return None  # values that no protocol accepts, such as thresholds that don't ascend
        is_pose = isinstance(truths.shape, Keypoints)
        if protocol.ignored == "crowd" and not is_pose and (truths.is_crowd != truths.is_ignored).any():
            return None
        try:
            sides = prepare(*self.sides(protocol), protocol)
        except (InputError, TypeError, ValueError):
            if self.is_strict:
                raise
            return None
        return compiled_engine.match(*sides, protocol, num_threads(None))

    def sides(self, protocol: Protocol) -> tuple[Detections, Truths]:
        """Build the inputs of `prepare`. Errors name the result or the annotation."""
        detections, truths = self.detections, self.truths
        with _named_rows("result", detections):
            columns = Detections(
                image=detections.image,
                label=detections.label,
                score=detections.score,
                area=self.own_area(),
                **_shape_of(detections),
            )
        with _named_rows("annotation", truths):
            truth_columns = Truths(
                image=truths.image,
                label=truths.label,
                **_shape_of(truths),
                area=truths.area,
                ignore=truths.is_crowd if protocol.ignored == "crowd" else truths.is_ignored,
                class_names=[str(each) for each in self.classes],
                coverage=self.coverage,
            )
        return columns, truth_columns

    def protocol(self, **changes: Any) -> Protocol:
        """COCO's protocol with these changes and the client's rules."""
        changes = {**changes, **self.rules}
        if self.iou_type == "keypoints":
            return oks_protocol(self.sigmas, **changes)
        return PROTOCOLS["coco"].replace(iou_type=self.iou_type, **changes)

    def own_area(self) -> Floats | None:
        """The areas of detections; None if they equal the areas of the shapes."""
        side = self.detections
        if isinstance(side.shape, Keypoints):
            return side.area
        if isinstance(side.shape, Masks):
            own = side.shape.runs.area
        elif side.has_box_areas:
            return None
        else:
            own = side.shape[:, 2] * side.shape[:, 3]
        return None if np.array_equal(side.area, own) else side.area

    @property
    def has_joined_runs(self) -> bool:
        """Whether masks of both sides have a run of zero pixels, where pycocotools stops comparing them."""
        shapes = self.detections.shape, self.truths.shape
        return all(isinstance(shape, Masks) and shape.runs.has_joined_runs for shape in shapes)

    def looked_for(self, *, negative: Pairs, not_exhaustive: Pairs) -> "EvaluationColumns":
        """Drop detections of classes that were not verified in their images.

        Args:
            negative: Indices of images and classes: the class was verified to be absent from the image.
            not_exhaustive: Indices of images and classes: some objects of the class have no truth in the image.
        """
        own, annotated = ((side.image, side.label) for side in (self.detections, self.truths))
        coverage = Coverage.from_lists(negative=negative, not_exhaustive=not_exhaustive, annotated=annotated)
        code = coverage.codes(own, annotated)
        row = np.flatnonzero(code != NOT_COVERED)
        detections = replace(take_side(self.detections, row), is_partial=code[row] == NOT_EXHAUSTIVE)
        return replace(self, detections=detections, coverage=coverage, rules={**self.rules, "federated": True})


@contextmanager
def _named_rows(what: str, side: SideColumns) -> Iterator[None]:
    """Make errors about a row name the result or annotation."""
    try:
        yield
    except RowError as error:
        key = {"box": "bbox", "mask": "segmentation"}.get(error.column, error.column)
        raise InputError(f"{what} {side.id[error.row]}: `{key}` {error.rule}") from None


def _shape_of(side: SideColumns) -> Dict:
    """The shapes of columns, as keyword arguments of `Detections` and `Truths`."""
    if isinstance(side.shape, Geometry):
        return {"geometry": side.shape}
    return {"box": side.shape, "box_format": "xywh"}


def frequency_groups(frequencies: Iterable[tuple[Any, Any]], letters: Sequence[str], rule: str) -> list[list[int]]:
    """The indices of the classes of each frequency.

    Args:
        frequencies: The id and the frequency of each class.
        letters: The valid frequencies.
        rule: The text of the error for a class without a valid frequency.
    """
    groups: list[list[int]] = [[] for _ in letters]
    for index, (label, frequency) in enumerate(frequencies):
        if frequency not in letters:
            got = "nothing" if frequency is None else repr(frequency)
            raise InputError(f"category {label!r}{rule.format(', '.join(letters))}; got {got}")
        groups[letters.index(frequency)].append(index)
    return groups


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SelectedDicts:
    """Annotations that are dicts, and the columns that truths and detections share."""

    given: list[Dict]
    row: Rows
    """The rows of `given` that are evaluated."""
    columns: Any
    """The `_compiled.DictColumns` of `given`."""
    shared: Dict

    @property
    def anns(self) -> list[Dict]:
        """The annotations that are evaluated."""
        return taken(self.given, self.row)


def taken(anns: list[Dict], row: Rows) -> list[Dict]:
    """Select annotations by row."""
    return anns if row is ALL else [anns[i] for i in row.tolist()]


class ImageClassIndex:
    """Indices of the images and classes of an evaluation; pooled classes only determine the order of rows."""

    def __init__(self, images: list[Any], classes: list[Any], *, is_pooled: bool, iou_type: str, compared: Any) -> None:
        self.images, self.classes, self.is_pooled = images, classes, is_pooled
        self.has_masks, self.has_keypoints = iou_type in ("segm", "boundary"), iou_type.startswith("keypoints")
        self.defaults: Mapping[str, Any] = {}
        """Default values of keys that an annotation lacks."""
        self.compared = compared
        """The lazy truths, if masks are only compared with truths of the same class; else None."""

    @classmethod
    def of(cls, params: Params, compared: Any = None) -> "ImageClassIndex":
        """Make the index of the images and classes in the parameters."""
        known = getattr(params, "iou_types", Params.iou_types)
        if params.iouType not in known:  # users may have changed it
            raise InputError(f"`params.iouType` must be one of {', '.join(known)}; got {params.iouType!r}")
        images, classes = list(params.imgIds), list(params.catIds)
        index = cls(images, classes, is_pooled=not params.useCats, iou_type=params.iouType, compared=compared)
        index.defaults = getattr(params, "defaults", index.defaults)
        return index

    def lazy_columns(self, coco: Any) -> "LazyDataset | LazyResults | None":
        """The lazy annotations; None if image or class ids are not integers, or if rows lack the compared shapes."""
        lazy = get_lazy(coco)
        if lazy is None or not self.has_integers:
            return None
        return None if self._shapes(lazy) is None else lazy

    def _shapes(self, lazy: "LazyDataset | LazyResults") -> Any:
        """The shapes that are compared; None if not all rows have them."""
        if self.has_keypoints:
            return lazy.keypoints()
        if self.has_masks:
            return lazy.masks(self.compared) if isinstance(lazy, LazyResults) else lazy.masks()
        return lazy.columns.box

    def select_rows(self, lazy: "LazyDataset | LazyResults") -> tuple[Rows, Dict]:
        """Select the rows of the evaluation's images and classes; return also the columns that both sides share."""
        columns, wanted = lazy.columns, self._image_ids.astype(np.int64, copy=False)
        near: Rows = ALL
        if isinstance(lazy, LazyDataset) and 0 < len(wanted) * 8 < lazy.num_images:
            near = lazy.rows_of(wanted)
        row, image, label = self.select_labels(_compiled.find(columns.image[near], wanted), columns.category[near])
        row = row if near is ALL else near[row]
        shape = self._shapes(lazy)
        if row is not ALL:
            shape = shape.take(row) if isinstance(shape, Geometry) else shape[row]
        area, number = Lazy(lambda: columns.area[row]), Lazy(lambda: columns.id[row])
        return row, {"image": image, "label": label, "shape": shape, "area": area, "id": number}

    def select_labels(self, image: Ints, category: Ints) -> tuple[Rows, Ints, Ints]:
        """Select rows as `select` does, by indices of images; -1 for other images."""
        row, label = select_classes(category, self._class_ids.astype(np.int64, copy=False), image >= 0)
        return self._ordered(row, image[row], label)

    def select(self, image_id: Ints, category: Ints) -> tuple[Rows, Ints, Ints]:
        """Select the rows of the evaluation's images and classes; return also the indices of both."""
        return self.select_labels(_compiled.find(image_id, self._image_ids.astype(np.int64, copy=False)), category)

    def select_dicts(self, coco: Any, keys: Sequence[str]) -> "SelectedDicts | None":
        """Select the dicts of the evaluation's images and classes; return None if a value is not a number.

        `keys` are the keys that the side needs.
        """
        keys = (*self._shape_keys(), *keys)
        anns, columns = self._read_dicts(coco, ("image_id", "category_id", "id", *keys))
        if columns is not None:
            row, image, label = self.select(columns.image, columns.category)
            shared: Dict = {"image": image, "label": label, "id": columns.id[row]}
        else:
            row, image, label = self._select_any(anns)
            anns, row = taken(anns, row), ALL
            columns = _compiled.read_dicts(anns, list(keys), self._skips_crowds)
            ids = ids_of(anns)
            if columns is None or not are_numbers(ids):
                return None
            shared = {"image": image, "label": label, "id": ids}
        if self.has_masks:
            shared["shape"] = masks_of(taken(anns, row), coco)
        elif not self.has_keypoints:
            shared["shape"] = columns.box[row]
        return SelectedDicts(given=anns, row=row, columns=columns, shared=shared)

    @property
    def _skips_crowds(self) -> bool:
        """Whether areas of crowds are skipped. As in COCO: they are not read, unless OKS needs them."""
        return not self.has_keypoints

    def _shape_keys(self) -> tuple[str, ...]:
        return ("keypoints",) if self.has_keypoints else () if self.has_masks else ("bbox",)

    def _read_dicts(self, coco: Any, keys: Sequence[str]) -> tuple[list[Dict], Any]:
        """Load the evaluation's annotations, possibly more; their columns are None if a value is not a number."""
        has_integers = self.has_integers
        snapshot = get_snapshot(coco) if has_integers and not self.defaults else None
        if snapshot is not None and snapshot.is_mostly_of(self.images):
            columns = snapshot.read(keys, skips_crowds=self._skips_crowds)
            if columns is not None:
                return snapshot.annotations, columns
        anns = load_annotations(coco, self.images, self.classes, is_pooled=self.is_pooled)
        if self.defaults:
            anns = [{**self.defaults, **ann} for ann in anns]
        return anns, read_columns(anns, keys, skips_crowds=self._skips_crowds) if has_integers else None

    @cached_property
    def _image_ids(self) -> NDArray[Any]:
        return np.array(self.images)

    @cached_property
    def _class_ids(self) -> NDArray[Any]:
        return np.array(self.classes)

    @property
    def has_integers(self) -> bool:
        """Whether the ids of images and classes are integers, as in lazy columns."""
        return self._image_ids.dtype.kind == self._class_ids.dtype.kind == "i"

    def _select_any(self, anns: list[Dict]) -> tuple[Rows, Ints, Ints]:
        """Select rows as `select` does, for ids of any type."""
        image_index = {image: i for i, image in enumerate(self.images)}
        code_of = {label: code for code, label in enumerate(dict.fromkeys(self.classes))}
        image = np.array([image_index.get(ann["image_id"], -1) for ann in anns], np.int64)
        code = np.array([code_of.get(ann["category_id"], -1) for ann in anns], np.int64)
        wanted = np.array([code_of[label] for label in self.classes], np.int64)
        row, label = select_classes(code, wanted, image >= 0)
        return self._ordered(row, image[row], label)

    def listed(self, lists: Iterable[tuple[Any, Iterable[Any]]]) -> tuple[Ints, Ints]:
        """Indices of images and classes, one pair for each class that an image lists. `lists` has classes by image."""
        rows = [{"image_id": image, "category_id": label} for image, labels in lists for label in labels]
        _, image, label = self._select_any(rows)
        return image, label

    def _ordered(self, row: Rows, image: Ints, label: Ints) -> tuple[Rows, Ints, Ints]:
        if not self.is_pooled:
            return row, image, label
        order = pooled_order(label)
        return (order if row is ALL else row[order]), image[order], np.zeros_like(label)


def select_classes(category: Ints, wanted: Ints, is_wanted: NDArray[np.bool_]) -> tuple[Rows, Ints]:
    """Select the rows of the wanted classes; return also indices into `wanted`. A repeated class repeats its rows."""
    if (wanted[1:] > wanted[:-1]).all():
        label = _compiled.find(category, wanted)
        is_selected = is_wanted & (label >= 0)
        row = ALL if is_selected.all() else np.flatnonzero(is_selected)
        return row, label[row]
    order = np.argsort(wanted, kind="stable")
    first, last = (np.searchsorted(wanted[order], category, side=side) for side in ("left", "right"))
    num = (last - first) * is_wanted
    row = np.repeat(np.arange(len(category)), num)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(num) - num, num)
    return row, order[first[row] + nth]


def masks_of(anns: Sequence[Dict], coco: Any) -> Masks:
    """Read the masks of annotations; if the dataset overrides `annToRLE`, by that method."""
    name = "annToRLE" if hasattr(type(coco), "annToRLE") else "ann_to_rle"
    draw = getattr(coco, name)
    has_own = getattr(type(coco), name).__module__ not in DRAWN_ALIKE or name in getattr(coco, "__dict__", {})
    return read_masks(anns, {}, [draw(ann) for ann in anns]) if has_own else read_masks(anns, coco.imgs)


def read_masks(anns: Sequence[Dict], images: Mapping[Any, Dict], drawn: list[Any] | None = None) -> Masks:
    """Read the masks of annotations. `drawn` are their run lengths, if the dataset made them."""
    masks, sizes = drawn, np.zeros((len(anns), 2), np.int64)
    if masks is None:
        masks = [ann["segmentation"] for ann in anns]
        has_polygons = list in set(map(type, masks))
        for row in [row for row, each in enumerate(masks) if type(each) is list] if has_polygons else ():
            if masks[row] and isinstance(masks[row][0], list) and len(masks[row][0]) <= 4:
                where = f"annotation {anns[row]['id']} of image {anns[row]['image_id']}"
                rule = f"must have polygons of at least 3 points; got {len(masks[row][0])} numbers"
                raise TypeError(f"{where}: `segmentation` {rule}")  # as in COCO
            image = images[anns[row]["image_id"]]
            sizes[row] = image["height"], image["width"]
    try:
        return Masks.from_rle(masks, sizes)
    except RowError as error:
        ann = anns[error.row]
        where = f"annotation {ann['id']} of image {ann['image_id']}"
        raise InputError(f"{where}: `segmentation` {error.rule}") from None


def odd_value(anns: Sequence[Dict], keys: Sequence[str], what: str = "annotation") -> str | None:
    """Describe the first value that columns can't represent, with its annotation; None if all are valid."""
    for ann in anns:
        for key in keys:
            where = f"{what} {ann.get('id')} of image {ann.get('image_id')}"
            if key not in ann:
                return f"{where} must have `{key}`"
            if _compiled.read_dicts([ann], [key], False) is None:
                return f"{where}: `{key}` {_broken_rule(key, ann[key])}"
    return None


def _broken_rule(key: str, value: Any) -> str:
    if key == "bbox":
        rule = "must have 4 numbers to be evaluated, x, y, width and height"
        if isinstance(value, list | np.ndarray) and len(value) > 4:
            return f"{rule}; got {len(value)}. Rotated boxes need a COCOeval with a computeIoU of their own"
        rule += ", in a list"
    elif key == "keypoints":
        rule = "must have 3 numbers per point, x, y and another, in a list"
    else:
        rule = "must be 0 or 1" if key == "iscrowd" else "must be a number that a float64 can hold"
    return f"{rule}; got {reprlib.repr(value)}"


def distinct(ids: Any) -> list[Any]:
    """Return `list(np.unique(ids))`; for integers and strings without its imports, which take 30 ms at first."""
    array = np.asarray(ids)
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        return list(np.unique(ids))
    array = np.sort(array)
    return list(array[np.append(True, array[1:] != array[:-1])]) if len(array) else []


def load_annotations(coco: Any, images: Sequence[Any], classes: Sequence[Any], *, is_pooled: bool) -> list[Dict]:
    """Load the annotations of some images and classes, or of all classes, by the dataset's methods."""
    if not hasattr(coco, "getAnnIds"):  # a dataset of `lvis`
        return coco.load_anns(coco.get_ann_ids(img_ids=images, cat_ids=classes or None))  # type: ignore[no-any-return]
    ids = coco.getAnnIds(imgIds=images) if is_pooled else coco.getAnnIds(imgIds=images, catIds=classes)
    return coco.loadAnns(ids)  # type: ignore[no-any-return]


def ids_of(anns: Sequence[Dict]) -> NDArray[Any]:
    """Ids as an integer array if all are integers, else as an object array."""
    ids = [ann["id"] for ann in anns]
    if all(type(each) is int for each in ids):
        try:
            return np.array(ids, np.int64)
        except OverflowError:
            pass
    objects = np.empty(len(ids), object)
    objects[:] = ids
    return objects


def are_numbers(ids: NDArray[Any]) -> bool:
    """Whether all ids can be converted to floats, as pycocotools does with matched ids."""
    try:
        ids.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def select_columns(truths: Any, results: Any, params: Params) -> EvaluationColumns | None:
    """Select the annotations that pycocotools evaluates under these parameters, in its order.

    Return None if columns can't represent them: a value is not a number, or an IoU depends on how masks were encoded.
    """
    index = ImageClassIndex.of(params, compared=get_lazy(truths) if params.useCats else None)
    detections, truth_side = select_detections(index, results), select_truths(index, truths)
    if detections is None or truth_side is None:
        return None
    columns = columns_under(params, index, detections, truth_side)
    return None if columns.has_joined_runs else columns


def describe_odd(truths: Any, results: Any, params: Params) -> str | None:
    """Describe the value for which `select_columns` returns None, with its annotation or result; None if not found."""
    has_keypoints = params.iouType.startswith("keypoints")
    shape = ("keypoints",) if has_keypoints else ("bbox",) if params.iouType == "bbox" else ()
    keys = (*shape, *(TRUTH_KEYPOINT_KEYS if has_keypoints else ("iscrowd", "area")))
    defaults = getattr(params, "defaults", {})
    for coco, what, wanted in ((truths, "annotation", keys), (results, "result", (*shape, "area", "score"))):
        anns = load_annotations(coco, params.imgIds, params.catIds, is_pooled=not params.useCats)
        found = odd_value([{**defaults, **ann} for ann in anns], wanted, what)
        if found is not None:
            return found
    return None


def columns_under(
    params: Params, index: ImageClassIndex, detections: DetectionColumns, truths: TruthColumns
) -> EvaluationColumns:
    """Combine detections and truths that were selected by `index` with the parameters."""
    return EvaluationColumns(
        detections=detections,
        truths=truths,
        images=index.images,
        classes=index.classes if params.useCats else [-1],
        areas=list(params.areaRng),
        iou_type="keypoints" if index.has_keypoints else params.iouType,
        sigmas=getattr(params, "kpt_oks_sigmas", ()),
        bounds=[(float(low), float(high)) for low, high in params.areaRng],
        thresholds=np.array(params.iouThrs, np.float64),
        limits=list(params.maxDets),
        rules={"precision_epsilon": getattr(params, "precision_epsilon", Params.precision_epsilon)},
    )


def select_detections(index: ImageClassIndex, results: Any) -> DetectionColumns | None:
    """Select the detections of the evaluation's images and classes; return None if a value is not a number."""
    lazy = index.lazy_columns(results)
    if lazy is not None and lazy.columns.score is not None:
        row, shared = index.select_rows(lazy)
        return DetectionColumns(
            **shared, score=lazy.columns.score[row], has_box_areas=lazy.columns.has_box_areas, is_numbered=True
        )
    selected = index.select_dicts(results, ("area", "score"))
    if selected is None:
        return None
    columns, row, shared = selected.columns, selected.row, selected.shared
    if index.has_keypoints:
        shared["shape"] = detected_keypoints(columns.keypoints[row])
    given = None if columns.has_plain_scores else _odd_scores(selected.anns)
    return DetectionColumns(**shared, area=columns.area[row], score=columns.score[row], given_score=given)


def _odd_scores(anns: Sequence[Dict]) -> list[Any] | None:
    """Scores with their given types; None if all are floats."""
    given = [ann["score"] for ann in anns]
    return None if all(type(each) is float for each in given) else given


def select_truths(index: ImageClassIndex, truths: Any) -> TruthColumns | None:
    """Select the truths of the evaluation's images and classes; return None if a value is not a number."""
    lazy = index.lazy_columns(truths)
    if lazy is not None and lazy.columns.is_crowd is not None:
        row, shared = index.select_rows(lazy)
        is_crowd = lazy.columns.is_crowd[row]
        return TruthColumns(**shared, is_crowd=is_crowd, is_ignored=is_crowd | _blank(shared))
    selected = index.select_dicts(truths, TRUTH_KEYPOINT_KEYS if index.has_keypoints else ("iscrowd", "area"))
    if selected is None:
        return None
    columns, row, shared = selected.columns, selected.row, selected.shared
    is_crowd, area = columns.is_crowd[row], columns.area[row]
    if index.has_keypoints:
        shared["shape"] = labelled_keypoints(
            columns.keypoints[row], area=area, box=columns.box[row], num_labelled=columns.num_keypoints[row]
        )
    return TruthColumns(**shared, area=area, is_crowd=is_crowd, is_ignored=is_crowd | _blank(shared))


def _blank(shared: Dict) -> Any:
    """1 for truths without labelled keypoints, which are ignored. Shape (G,); the scalar 0 for other shapes."""
    shape = shared["shape"]
    return np.asarray(shape.num_labelled == 0, np.uint8) if isinstance(shape, Keypoints) else np.uint8(0)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EvaluatedBatch:
    """The columns of some images, and the verdicts on their detections."""

    columns: EvaluationColumns
    tally: Tally | None
    """None for inputs that pycocotools treats differently; `evalImgs` is then made from the columns."""

    @classmethod
    def of(cls, columns: EvaluationColumns) -> "EvaluatedBatch":
        """Match the columns."""
        return cls(columns=columns, tally=columns.tally())


def join(batches: Sequence[EvaluatedBatch]) -> EvaluatedBatch:
    """Join batches, with images in ascending order. Of an image in several batches, the first copy counts."""
    first = batches[0].columns
    for batch in batches:
        if not _is_alike(batch.columns, first):
            raise InputError("`params` must be the same for all updates of an evaluator; they were changed in between")
    if len(batches) == 1:
        return batches[0]
    every = [image for batch in batches for image in batch.columns.images]
    images, first_row, rank = np.unique(np.array(every), return_index=True, return_inverse=True)
    numbers = _Renumbering(batches, rank, np.isin(np.arange(len(every)), first_row))
    sides = {
        name: numbers.side([getattr(batch.columns, name) for batch in batches]) for name in ("detections", "truths")
    }
    tallies = [batch.tally for batch in batches]
    known = [tally for tally in tallies if tally is not None]
    return EvaluatedBatch(
        columns=replace(first, images=list(images), **sides),
        tally=numbers.tally(known) if len(known) == len(tallies) else None,
    )


def _is_alike(columns: EvaluationColumns, other: EvaluationColumns) -> bool:
    return (
        (columns.iou_type, columns.classes, columns.bounds, columns.limits)
        == (other.iou_type, other.classes, other.bounds, other.limits)
        and np.array_equal(columns.thresholds, other.thresholds)
        and np.array_equal(columns.sigmas, other.sigmas)
    )


class _Renumbering:
    """Maps indices of images within batches to indices among all images; -1 for copies.

    batch            0        1        2
    its images       7  3     5        3  9
    index in it      0  1     0        0  1
    new index        2  0     1       -1  3
    """

    def __init__(self, batches: Sequence[EvaluatedBatch], rank: Ints, is_first: NDArray[np.bool_]) -> None:
        self._new = np.where(is_first, rank, -1)
        sizes = [len(batch.columns.images) for batch in batches]
        self._start = np.cumsum(sizes) - sizes

    def images(self, columns: Sequence[NDArray[Any]]) -> Ints:
        """The new indices of the rows of all batches."""
        start = np.repeat(self._start, [len(column) for column in columns])
        new: Ints = self._new[np.concatenate(columns).astype(np.int64) + start]
        return new

    def side(self, sides: Sequence[Side]) -> Side:
        """Join the truths or the detections of all batches, without copies."""
        columns: dict[str, Any] = {"image": self.images([side.image for side in sides])}
        for name in type(sides[0]).__dataclass_fields__:
            values = [getattr(side, name) for side in sides]
            if name not in columns:
                columns[name] = _concatenate(values)
        everything = replace(sides[0], **columns)
        return take_side(everything, np.flatnonzero(everything.image >= 0))

    def tally(self, tallies: Sequence[Tally]) -> Tally:
        """Join the tallies of all batches, without copies."""
        image, truth_image = (
            self.images([getattr(each, name) for each in tallies]) for name in ("image", "truth_image")
        )
        every = replace(joined(tallies), image=narrowest(image), truth_image=narrowest(truth_image))
        return every if (self._new >= 0).all() else every.without(np.array([-1]))


def _concatenate(values: Sequence[Any]) -> Any:
    if values[0] is None:
        return None
    if isinstance(values[0], bool):  # a flag for all rows
        return all(values)
    if isinstance(values[0], Masks):
        return Masks.concatenate(values)
    if isinstance(values[0], Keypoints):
        return _concatenated_keypoints(values)
    return np.concatenate(values)


def _concatenated_keypoints(parts: Sequence[Keypoints]) -> Keypoints:
    """Concatenate keypoints, skipping empty parts, whose number of points is unknown."""
    parts = [part for part in parts if len(part)] or parts[:1]
    names = ("point", "visibility", "area", "box", "num_labelled")
    columns = {name: [getattr(part, name) for part in parts] for name in names}
    return Keypoints(**{name: None if each[0] is None else np.concatenate(each) for name, each in columns.items()})
