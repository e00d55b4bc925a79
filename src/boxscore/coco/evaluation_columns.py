"""The columns of an evaluation: the annotations of its images and classes, selected once, when it starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.checks import RowError
from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads
from boxscore.coco.coco_dataset import get_lazy, get_snapshot
from boxscore.coco.dict_columns import read_columns
from boxscore.coco.lazy_annotations import LazyDataset, LazyResults
from boxscore.coco.oks import detected_keypoints, keypoint_numbers, keypoints_of_dicts, labelled_keypoints, oks_protocol
from boxscore.coco.params import Params
from boxscore.engines.native import compiled_engine
from boxscore.geometry.keypoints import Keypoints
from boxscore.geometry.masks import Masks
from boxscore.model.coverage import Coverage
from boxscore.model.dataset import Detections, Truths
from boxscore.model.protocol import Protocol
from boxscore.model.tally import Tally

Dict = dict[str, Any]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Rows = Any
"""Indices of rows, or `ALL` rows as they are, which takes no copy."""

ALL = slice(None)

DRAWN_ALIKE = ("boxscore.coco.coco_dataset", "pycocotools.coco", "faster_coco_eval.core.coco")
"""The modules whose `annToRLE` draws the same masks."""

TRUTH_KEYPOINT_KEYS = ("iscrowd", "area", "bbox", "num_keypoints")
"""What truths with keypoints have besides these."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SideColumns:
    """Truths or detections, one row each. Rows of one image and class are in the order that breaks ties."""

    image: Ints
    """Indices into the images of the evaluation."""
    label: Ints
    """Indices into its classes."""
    box: Floats
    """In xywh; where masks are evaluated, zeros."""
    mask: Masks | None = None
    """The masks, where they are evaluated."""
    keypoints: Keypoints | None = None
    """The keypoints, where they are evaluated."""
    area: Floats
    id: NDArray[Any]
    """Integers, or objects if not all ids are integers."""

    @property
    def float_id(self) -> Floats:
        """Ids as pycocotools writes them into its matrices of matches."""
        return self.id.astype(np.float64)

    @property
    def comparable_id(self) -> NDArray[Any]:
        """Ids as numbers, for comparisons with 0."""
        return self.float_id if self.id.dtype == object else self.id


Side = TypeVar("Side", bound=SideColumns)


def take_side(side: Side, row: Ints) -> Side:
    """Some rows of truths or detections."""
    if row.size == side.image.size and (row == np.arange(row.size)).all():
        return side
    taken: Dict = {}
    for each in fields(side):
        value = getattr(side, each.name)
        if isinstance(value, Masks | Keypoints):
            taken[each.name] = value.take(row)
        elif isinstance(value, list):
            taken[each.name] = [value[i] for i in row.tolist()]
        elif value is not None:
            taken[each.name] = value[row]
    return replace(side, **taken)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DetectionColumns(SideColumns):
    """Detections."""

    score: Floats
    given_score: list[Any] | None = None
    """The scores as they were given, if not all are floats."""
    is_partial: NDArray[np.bool_] | None = None
    """Whether the class was not annotated exhaustively in the image; None: all were. Shape (D,)."""

    @property
    def scores(self) -> list[Any]:
        """The scores as pycocotools hands them on: as they were given."""
        return self.score.tolist() if self.given_score is None else self.given_score


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
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
    """As in the parameters."""
    iou_type: str
    """ "bbox", "segm" or "keypoints"."""
    sigmas: Any
    """Of keypoints."""
    bounds: list[tuple[float, float]]
    """Of the areas."""
    thresholds: Floats
    limits: list[Any]
    """Ascending."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """Those of the protocol that are not COCO's."""

    @property
    def num_entries(self) -> int:
        """The number of entries of `evalImgs`."""
        return len(self.classes) * len(self.areas) * len(self.images)

    def tally(self) -> Tally | None:
        """The tally of boxscore's engine; None for inputs that pycocotools treats differently."""
        detections, truths = self.detections, self.truths
        if not (self.num_entries and self.limits):
            return None
        if detections.given_score is not None and bool in map(type, detections.given_score):
            return None  # as in COCO: whether bools can be sorted depends on the other scores of the class
        # as in COCO: the id 0 means no match, so neither such a truth nor such a detection is ever matched
        if (truths.comparable_id == 0).any() or not (detections.comparable_id > 0).all():
            return None
        if truths.keypoints is None and (truths.is_crowd != truths.is_ignored).any():
            return None
        try:
            protocol = self.protocol(
                thresholds=self.thresholds,
                areas=[(f"area {a}", low, high) for a, (low, high) in enumerate(self.bounds)],
                limits=self.limits,
            )
            columns = Detections(
                image=detections.image,
                label=detections.label,
                score=detections.score,
                area=self.own_area(),
                **shapes_of(detections),
            )
            truth_columns = Truths(
                image=truths.image,
                label=truths.label,
                **shapes_of(truths),
                area=truths.area,
                ignore=truths.is_crowd,
                class_names=[str(each) for each in self.classes],
                coverage=None if detections.is_partial is None else coverage_of(detections, detections.is_partial),
            )
        except (InputError, TypeError, ValueError):
            return None
        return compiled_engine.match(columns, truth_columns, protocol, num_threads(None))

    def protocol(self, **changes: Any) -> Protocol:
        """COCO's, with these changes."""
        changes = {**self.rules, **changes}
        if self.iou_type == "keypoints":
            return oks_protocol(self.sigmas, **changes)
        return Protocol.named("coco", iou_type=self.iou_type, **changes)

    def own_area(self) -> Floats | None:
        """The areas of detections, if they are not those of their shapes."""
        side = self.detections
        if side.keypoints is not None:
            return side.area
        own = side.box[:, 2] * side.box[:, 3] if side.mask is None else side.mask.runs.area
        return None if np.array_equal(side.area, own) else side.area


def coverage_of(detections: DetectionColumns, is_partial: NDArray[np.bool_]) -> Coverage:
    """The pairs of images and classes that have detections, all of which were looked for."""
    num_classes = int(detections.label.max(initial=0)) + 1
    pair, row = np.unique(detections.image * num_classes + detections.label, return_index=True)
    return Coverage(image=pair // num_classes, label=pair % num_classes, is_exhaustive=~is_partial[row])


def shapes_of(side: SideColumns) -> Dict:
    """The shapes of columns, as `Detections` and `Truths` take them."""
    if side.keypoints is not None:
        return {"geometry": side.keypoints}
    return {"box": side.box, "box_format": "xywh"} if side.mask is None else {"mask": side.mask}


def select_columns(truths: Any, results: Any, params: Params) -> EvaluationColumns:
    """The annotations that pycocotools would evaluate under these parameters, in its order."""
    index = ImageClassIndex.of(params, compared=get_lazy(truths) if params.useCats else None)
    return columns_under(params, index, _select_detections(index, results), select_truths(index, truths))


def columns_under(
    params: Params, index: "ImageClassIndex", detections: DetectionColumns, truths: TruthColumns
) -> EvaluationColumns:
    """Detections and truths that were selected by `index`, and the parameters."""
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


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SelectedDicts:
    """Annotations that are dicts, and the columns that both sides have."""

    given: list[Dict]
    row: Rows
    """Those of `given` that are evaluated."""
    columns: Any
    """The `_compiled.DictColumns` of all that are given; None if not all values are plain."""
    shared: Dict

    @property
    def anns(self) -> list[Dict]:
        """The annotations that are evaluated."""
        return taken(self.given, self.row)


def taken(anns: list[Dict], row: Rows) -> list[Dict]:
    """The annotations of some rows."""
    return anns if row is ALL else [anns[i] for i in row.tolist()]


class ImageClassIndex:
    """The indices of images and classes in an evaluation; if classes are pooled, they only order an image's rows."""

    def __init__(self, images: list[Any], classes: list[Any], *, is_pooled: bool, iou_type: str, compared: Any) -> None:
        self.images, self.classes, self.is_pooled = images, classes, is_pooled
        self.has_masks, self.has_keypoints = iou_type in ("segm", "boundary"), iou_type.startswith("keypoints")
        self.defaults: Mapping[str, Any] = {}
        """What annotations have that don't say otherwise."""
        self.compared = compared
        """The lazy truths, if masks are compared with nothing but these, class by class."""

    @classmethod
    def of(cls, params: Params, compared: Any = None) -> "ImageClassIndex":
        """That of the images and classes of parameters."""
        images, classes = list(params.imgIds), list(params.catIds)
        index = cls(images, classes, is_pooled=not params.useCats, iou_type=params.iouType, compared=compared)
        index.defaults = getattr(params, "defaults", index.defaults)
        return index

    def lazy_columns(self, coco: Any) -> "LazyDataset | LazyResults | None":
        """The lazy annotations, if the ids of images and classes are integers, as theirs are, and masks can be had."""
        lazy = get_lazy(coco)
        if lazy is None or not self._has_integers():
            return None
        if self.has_keypoints and lazy.keypoints() is None:
            return None
        return None if self.has_masks and self._masks(lazy) is None else lazy

    def _masks(self, lazy: "LazyDataset | LazyResults") -> Masks | None:
        return lazy.masks(self.compared) if isinstance(lazy, LazyResults) else lazy.masks()

    def select_rows(self, lazy: "LazyDataset | LazyResults") -> tuple[Rows, Dict]:
        """The rows of the evaluation's images and classes, and the columns that both sides have."""
        columns, wanted = lazy.columns, np.array(self.images, np.int64)
        near: Rows = ALL
        if isinstance(lazy, LazyDataset) and 0 < len(wanted) * 8 < len(lazy.images):
            near = lazy.rows_of(wanted)
        row, image, label = self.select_labels(_compiled.find(columns.image[near], wanted), columns.category[near])
        row = row if near is ALL else near[row]
        shared: Dict = {"box": columns.box[row], "area": columns.area[row], "id": columns.id[row]}
        if self.has_masks and (masks := self._masks(lazy)) is not None:
            shared["mask"] = masks if row is ALL else masks.take(row)
        if self.has_keypoints and (keypoints := lazy.keypoints()) is not None:
            shared["keypoints"] = keypoints if row is ALL else keypoints.take(row)
        return row, {"image": image, "label": label, **shared}

    def select_labels(self, image: Ints, category: Ints) -> tuple[Rows, Ints, Ints]:
        """The rows of the evaluation's images and classes, and the indices of these; `image`: indices, or -1."""
        row, label = select_classes(category, np.array(self.classes, np.int64), image >= 0)
        return self._ordered(row, image[row], label)

    def _select(self, image_id: Ints, category: Ints) -> tuple[Rows, Ints, Ints]:
        """The rows of the evaluation's images and classes, with the indices of both."""
        return self.select_labels(_compiled.find(image_id, np.array(self.images, np.int64)), category)

    def select_dicts(self, coco: Any, keys: Sequence[str]) -> "SelectedDicts":
        """The annotations of the evaluation's images and classes, which are dicts; `keys`: what their side needs."""
        anns, columns = self._read_dicts(coco, ("image_id", "category_id", "id", *self._shape_keys(), *keys))
        if columns is None:
            return self._select_by_hand(anns, coco)
        row, image, label = self._select(columns.image, columns.category)
        shared: Dict = {"image": image, "label": label, "id": columns.id[row]}
        num = len(image)
        shared["box"] = np.zeros((num, 4)) if self.has_masks or self.has_keypoints else columns.box[row]
        if self.has_masks:
            shared["mask"] = masks_of(taken(anns, row), coco)
        return SelectedDicts(given=anns, row=row, columns=columns, shared=shared)

    def _shape_keys(self) -> tuple[str, ...]:
        return ("keypoints",) if self.has_keypoints else () if self.has_masks else ("bbox",)

    def _read_dicts(self, coco: Any, keys: Sequence[str]) -> tuple[list[Dict], Any]:
        """Annotations of at least the evaluation's images and classes, and their columns, if these are plain."""
        skips_crowds = not self.has_keypoints
        has_integers = self._has_integers()
        snapshot = get_snapshot(coco) if has_integers and not self.defaults else None
        if snapshot is not None and snapshot.is_mostly_of(self.images):
            columns = snapshot.read(keys, skips_crowds=skips_crowds)
            if columns is not None:
                return snapshot.annotations, columns
        anns = load_annotations(coco, self.images, self.classes, is_pooled=self.is_pooled)
        if self.defaults:
            anns = [{**self.defaults, **ann} for ann in anns]
        return anns, read_columns(anns, keys, skips_crowds=skips_crowds) if has_integers else None

    def _has_integers(self) -> bool:
        return all(np.array(ids).dtype.kind == "i" for ids in (self.images, self.classes))

    def _select_by_hand(self, anns: list[Dict], coco: Any) -> "SelectedDicts":
        """The general path: for values of any type."""
        image_index = {image: i for i, image in enumerate(self.images)}
        code_of = {label: code for code, label in enumerate(dict.fromkeys(self.classes))}
        image = np.array([image_index.get(ann["image_id"], -1) for ann in anns], np.int64)
        code = np.array([code_of.get(ann["category_id"], -1) for ann in anns], np.int64)
        wanted = np.array([code_of[label] for label in self.classes], np.int64)
        row, label = select_classes(code, wanted, image >= 0)
        row, image, label = self._ordered(row, image[row], label)
        anns = taken(anns, row)
        shapes: Dict = {"box": np.zeros((len(anns), 4)), "mask": masks_of(anns, coco)} if self.has_masks else {}
        if self.has_keypoints:
            shapes = {"box": np.zeros((len(anns), 4))}  # keypoints are different for both sides
        shared = {"image": image, "label": label, "id": ids_of(anns), **(shapes or {"box": boxes_of(anns)})}
        return SelectedDicts(given=anns, row=ALL, columns=None, shared=shared)

    def _ordered(self, row: Rows, image: Ints, label: Ints) -> tuple[Rows, Ints, Ints]:
        if not self.is_pooled:
            return row, image, label
        # as in COCO: of equal scores, that of the earlier class ranks first
        order = np.lexsort((label, image))
        return (order if row is ALL else row[order]), image[order], np.zeros_like(label)


def select_classes(category: Ints, wanted: Ints, is_wanted: NDArray[np.bool_]) -> tuple[Rows, Ints]:
    """The rows of the wanted classes and their indices into these; a class that is named twice gives its rows twice."""
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


def _select_detections(index: ImageClassIndex, results: Any) -> DetectionColumns:
    lazy = index.lazy_columns(results)
    if lazy is not None and lazy.columns.score is not None:
        row, shared = index.select_rows(lazy)
        return DetectionColumns(**shared, score=lazy.columns.score[row])
    selected = index.select_dicts(results, ("area", "score"))
    columns, row, shared = selected.columns, selected.row, selected.shared
    if columns is not None:
        if index.has_keypoints:
            shared["keypoints"] = detected_keypoints(columns.keypoints[row])
        given = None if columns.has_plain_scores else [ann["score"] for ann in selected.anns]
        return DetectionColumns(**shared, area=columns.area[row], score=columns.score[row], given_score=given)
    anns = selected.anns
    if index.has_keypoints:
        shared["keypoints"] = detected_keypoints(keypoint_numbers(anns))
    given = [ann["score"] for ann in anns]
    is_plain = all(type(each) is float for each in given)
    return DetectionColumns(
        **shared,
        area=np.array([ann["area"] for ann in anns], np.float64),
        score=np.array(given, np.float64) if is_plain else _scores(given, anns),
        given_score=None if is_plain else given,
    )


def _scores(given: Sequence[Any], anns: Sequence[Dict]) -> Floats:
    """Scores that are not all floats, as numbers."""
    score = np.zeros(len(given))
    for row, value in enumerate(given):
        negative = -value  # as in COCO: a TypeError for text, lists and None, and none for what can be negated
        try:
            score[row] = -float(negative)
        except OverflowError:
            raise InputError(
                f"result {anns[row]['id']} of image {anns[row]['image_id']}: `score` must be a number that a float64 "
                "can hold; got an integer beyond 1e308 (pycocotools takes it, and its curves break off there)"
            ) from None
    return score


def select_truths(index: ImageClassIndex, truths: Any) -> TruthColumns:
    """The truths of the evaluation's images and classes."""
    """The truths of the evaluation's images and classes."""
    lazy = index.lazy_columns(truths)
    if lazy is not None and lazy.columns.is_crowd is not None:
        row, shared = index.select_rows(lazy)
        is_crowd = lazy.columns.is_crowd[row]
        return TruthColumns(**shared, is_crowd=is_crowd, is_ignored=is_crowd | _blank(shared))
    selected = index.select_dicts(truths, TRUTH_KEYPOINT_KEYS if index.has_keypoints else ("iscrowd", "area"))
    columns, row, shared = selected.columns, selected.row, selected.shared
    if columns is not None:
        is_crowd, area = columns.is_crowd[row], columns.area[row]
        if index.has_keypoints:
            shared["keypoints"] = labelled_keypoints(
                columns.keypoints[row], area=area, box=columns.box[row], num_labelled=columns.num_keypoints[row]
            )
        return TruthColumns(**shared, area=area, is_crowd=is_crowd, is_ignored=is_crowd | _blank(shared))
    anns = selected.anns
    if index.has_keypoints:
        shared["keypoints"] = keypoints_of_dicts(anns)
    # as in COCO: the area of a crowd is never read
    return TruthColumns(
        **shared,
        area=np.array([0 if ann["iscrowd"] else ann["area"] for ann in anns], np.float64),
        is_crowd=np.array([int(ann["iscrowd"]) != 0 for ann in anns], np.uint8),
        is_ignored=np.array([bool(ann["iscrowd"]) for ann in anns], np.uint8) | _blank(shared),
    )


def _blank(shared: Dict) -> Any:
    """Truths without labelled keypoints, which are ignored; 0 where there are no keypoints. Shape (G,)."""
    keypoints = shared.get("keypoints")
    return np.uint8(0) if keypoints is None else (keypoints.num_labelled == 0).astype(np.uint8)


def masks_of(anns: Sequence[Dict], coco: Any) -> Masks:
    """The masks of annotations, which the dataset's own `annToRLE` makes where it is another one than here."""
    has_own = type(coco).annToRLE.__module__ not in DRAWN_ALIKE or "annToRLE" in getattr(coco, "__dict__", {})
    return read_masks(anns, {}, [coco.annToRLE(ann) for ann in anns]) if has_own else read_masks(anns, coco.imgs)


def read_masks(anns: Sequence[Dict], images: Mapping[Any, Dict], drawn: list[Any] | None = None) -> Masks:
    """The masks of annotations of images; `drawn`: their run lengths, if others made them."""
    masks, sizes = drawn, np.zeros((len(anns), 2), np.int64)
    if masks is None:
        masks = [ann["segmentation"] for ann in anns]
        has_polygons = list in set(map(type, masks))
        for row in [row for row, each in enumerate(masks) if type(each) is list] if has_polygons else ():
            image = images[anns[row]["image_id"]]
            sizes[row] = image["height"], image["width"]
    try:
        return Masks.from_rle(masks, sizes)
    except RowError as error:
        ann = anns[error.row]
        where = f"annotation {ann['id']} of image {ann['image_id']}"
        raise InputError(f"{where}: `segmentation` {error.rule}") from None


def boxes_of(anns: Sequence[Dict]) -> Floats:
    """The boxes of annotations. Shape (N, 4)."""
    boxes = [ann["bbox"] for ann in anns]
    try:
        box = np.array(boxes, np.float64)
    except ValueError:
        if all(len(each) == 4 for each in boxes):
            raise
        box = np.zeros((len(boxes), 0))
    if boxes and box.shape[1:] != (4,):
        ann = next(ann for ann in anns if len(ann["bbox"]) != 4)
        raise Exception(  # as in COCO, which can load such boxes, and has no overlap for them
            f"annotation {ann['id']} of image {ann['image_id']}: `bbox` must have 4 numbers to be evaluated, x, y, "
            f"width and height; got {len(ann['bbox'])}. Rotated boxes need a COCOeval with a computeIoU of their own"
        )
    return box.reshape(-1, 4)


def distinct(ids: Any) -> list[Any]:
    """`list(np.unique(ids))`, whose first call takes 30 ms, for imports, if the ids are integers or strings."""
    array = np.asarray(ids)
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        return list(np.unique(ids))
    array = np.sort(array)
    return list(array[np.append(True, array[1:] != array[:-1])]) if len(array) else []


def load_annotations(coco: Any, images: Sequence[Any], classes: Sequence[Any], *, is_pooled: bool) -> list[Dict]:
    """The annotations of some images and classes, or of all classes, by the dataset's own methods."""
    ids = coco.getAnnIds(imgIds=images) if is_pooled else coco.getAnnIds(imgIds=images, catIds=classes)
    return coco.loadAnns(ids)  # type: ignore[no-any-return]


def ids_of(anns: Sequence[Dict]) -> NDArray[Any]:
    """Ids as integers if all of them are, else as objects."""
    ids = [ann["id"] for ann in anns]
    if all(type(each) is int for each in ids):
        try:
            return np.array(ids, np.int64)
        except OverflowError:
            pass
    objects = np.empty(len(ids), object)
    objects[:] = ids
    return objects
