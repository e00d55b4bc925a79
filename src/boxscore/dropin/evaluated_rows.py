"""The rows of an evaluation: the selected annotations of a dataset and of results, as Detections and Truths.

    params, annotations ──► ImageClassIndex ──► EvaluatedRows (Detections, Truths, ids) ──► prepare, match ──► Tally

Values that `Detections` and `Truths` refuse are evaluated image by image, from dicts: pycocotools has rules for them.
"""

import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads
from boxscore.data.coverage import Coverage, Pairs
from boxscore.data.dataset import Detections, Truths, host_ids, pooled_order
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.boxes import Boxes
from boxscore.data.geometry.kinds import kind_of
from boxscore.data.geometry.masks import Masks
from boxscore.data.preparation import prepare
from boxscore.data.validation import RowError
from boxscore.dropin import poses
from boxscore.dropin.params import Params, similarity_of
from boxscore.dropin.store import LazyDataset, LazyResults, get_lazy, get_snapshot, read_columns
from boxscore.engines.native import compiled_engine
from boxscore.protocol.protocol import Protocol
from boxscore.protocol.table import protocol_of
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


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Cells:
    """The images, classes, area ranges, thresholds and limits of an evaluation."""

    images: list[Any]
    classes: list[Any]
    """Ids, or [-1] if the evaluation is class-agnostic."""
    areas: list[Any]
    """Area ranges, as in the parameters."""
    iou_type: str
    """The similarity, as in `Protocol.iou_type`."""
    sigmas: Any
    """Sigmas of OKS."""
    bounds: list[tuple[float, float]]
    """Lower and upper bounds of the area ranges."""
    thresholds: Floats
    limits: list[Any]
    """Detection limits, ascending."""

    @classmethod
    def of(cls, params: Params) -> "Cells":
        """Copy the parameters."""
        return cls(
            images=list(params.imgIds),
            classes=list(params.catIds) if params.useCats else [-1],
            areas=list(params.areaRng),
            iou_type=(iou_type := similarity_of(params)),
            sigmas=params.kpt_oks_sigmas if poses.is_oks(iou_type) else (),
            bounds=[(float(low), float(high)) for low, high in params.areaRng],
            thresholds=np.array(params.iouThrs, np.float64),
            limits=list(params.maxDets),
        )

    @property
    def num_entries(self) -> int:
        """The number of entries of `evalImgs`."""
        return len(self.classes) * len(self.areas) * len(self.images)

    def is_alike(self, other: "Cells") -> bool:
        """Whether all but the images are equal."""
        return (
            (self.iou_type, self.classes, self.bounds, self.limits)
            == (other.iou_type, other.classes, other.bounds, other.limits)
            and np.array_equal(self.thresholds, other.thresholds)
            and np.array_equal(self.sigmas, other.sigmas)
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EvaluatedRows:
    """Detections and truths, and the cells for which they were selected.

    Images and labels are indices into the images and classes of the cells. Rows of one image and class are in the order
    that breaks ties.
    """

    cells: Cells
    detections: Detections
    truths: Truths
    id: NDArray[Any]
    """Ids of detections: integers, or objects if not all are integers. Shape (D,)."""
    truth_id: NDArray[Any]
    """Ids of truths, likewise. Shape (G,)."""
    given_score: list[Any] | None = None
    """The scores with their given types, if not all are floats."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """The fields of the protocol that differ from COCO's."""

    @property
    def scores(self) -> list[Any]:
        """The scores with their given types, as pycocotools passes them on."""
        return self.detections.scores.tolist() if self.given_score is None else self.given_score

    def tally(self, *, is_traced: bool = False) -> Tally | None:
        """Match with boxscore's engine; return None for parameters and ids that pycocotools treats differently."""
        cells = self.cells
        # as in COCO: the id 0 means no match, so a truth or a detection with this id is never matched
        if not (cells.num_entries and cells.limits):
            return None
        if not (comparable(self.id) > 0).all() or (comparable(self.truth_id) == 0).any():
            return None
        try:
            protocol = self.protocol(
                thresholds=cells.thresholds,
                areas=[(f"area {a}", low, high) for a, (low, high) in enumerate(cells.bounds)],
                limits=cells.limits,
            )
        except (InputError, TypeError, ValueError):
            return None  # values that no protocol accepts, such as thresholds that don't ascend
        sides = prepare(self.detections, self.truths, protocol)
        return compiled_engine.match(*sides, protocol, num_threads(None), is_traced)

    def protocol(self, **changes: Any) -> Protocol:
        """COCO's protocol with these changes and the client's rules."""
        sigmas = np.asarray(self.cells.sigmas, np.float64).tolist()
        return protocol_of("coco", self.cells.iou_type).replace(**{"sigmas": sigmas, **changes, **self.rules})

    def with_coverage(self, *, negative: Pairs, not_exhaustive: Pairs) -> "EvaluatedRows":
        """Count classes only in images in which they were verified.

        Args:
            negative: Indices of images and classes: the class was verified to be absent from the image.
            not_exhaustive: Indices of images and classes: some objects of the class have no truth in the image.
        """
        annotated = host_ids(self.truths.image_ids), host_ids(self.truths.labels)
        coverage = Coverage.from_lists(negative=negative, not_exhaustive=not_exhaustive, annotated=annotated)
        return replace(self, truths=replace(self.truths, coverage=coverage), rules={**self.rules, "federated": True})


class RefusedRowError(InputError):
    """Raised for a value that `Detections` or `Truths` refuse; pycocotools may have a rule for it."""

    __module__ = "boxscore"


@contextmanager
def _named_rows(what: str, ids: NDArray[Any]) -> Iterator[None]:
    """Make errors about a row name the result or annotation."""
    try:
        yield
    except RowError as error:
        key = {"boxes": "bbox", "masks": "segmentation", "scores": "score"}.get(error.column, error.column)
        raise RefusedRowError(f"{what} {ids[error.row]}: `{key}` {error.rule}") from None


def shape_of(shape: Any) -> Dict:
    """A geometry, or boxes in xywh, as keyword arguments of `Detections` and `Truths`."""
    return {"geometry": shape} if isinstance(shape, Geometry) else {"boxes": shape, "box_format": "xywh"}


Columns = TypeVar("Columns", Detections, Truths)


class Selected(NamedTuple, Generic[Columns]):
    """The selected rows of one side."""

    rows: Columns
    id: NDArray[Any]
    given_score: list[Any] | None = None


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


class SelectedDicts(NamedTuple):
    """Annotations that are dicts, and the columns of the given keys."""

    given: list[Dict]
    row: Rows
    """The rows of `given` that are evaluated."""
    columns: Any
    """The `_compiled.DictColumns` of `given`."""
    image: Ints
    label: Ints
    id: NDArray[Any]
    geometry: Geometry | None
    """The shapes; None: boxes, which are columns."""

    @property
    def anns(self) -> list[Dict]:
        """The annotations that are evaluated."""
        return taken(self.given, self.row)

    def column(self, name: str) -> Any:
        """Select the evaluated rows of a column."""
        return getattr(self.columns, name)[self.row]

    def shapes(self) -> Dict:
        """Images, labels and shapes, as arguments of `Detections` and `Truths`."""
        shape = shape_of(self.column("box") if self.geometry is None else self.geometry)
        return {"image_ids": self.image, "labels": self.label, **shape}


def taken(anns: list[Dict], row: Rows) -> list[Dict]:
    """Select annotations by row."""
    return anns if row is ALL else [anns[i] for i in row.tolist()]


class ImageClassIndex:
    """Indices of the images and classes of an evaluation; pooled classes only determine the order of rows."""

    def __init__(self, params: Params, compared: Any = None) -> None:
        known = getattr(params, "iou_types", Params.iou_types)
        if params.iouType not in known:  # users may have changed it
            raise InputError(f"`params.iouType` must be one of {', '.join(known)}; got {params.iouType!r}")
        self.images, self.classes, self.is_pooled = list(params.imgIds), list(params.catIds), not params.useCats
        iou_type = similarity_of(params)
        self.kind, is_oks = kind_of(iou_type), poses.is_oks(iou_type)
        self.defaults: Mapping[str, Any] = getattr(params, "defaults", {})
        """Default values of keys that an annotation lacks."""
        self.compared = compared
        """The lazy truths, if masks are only compared with truths of the same class; else None."""
        self.is_federated = getattr(params, "is_federated", False)
        """Whether the rules of `lvis` hold: crowds are regular truths, `ignore` of truths counts, and lazy rows without
        a positive finite area are skipped, as `LVIS.get_ann_ids` does."""
        shape = (poses.KEY,) if is_oks else ("bbox",) if self.kind is Boxes else ()
        own = ("area",) if self.is_federated else poses.TRUTH_KEYS if is_oks else ("iscrowd", "area")
        self.truth_keys = (*shape, *own)
        """The keys with numbers that truths need."""
        self.result_keys = (*shape, "area", *(() if self.is_federated else ("score",)))
        """The keys with numbers that results need. `lvis` takes scores of other types, too."""
        self.skips_crowds = not is_oks
        """Whether areas of crowds are skipped. As in COCO: they are not read, unless OKS needs them."""

    def lazy_columns(self, coco: Any) -> "LazyDataset | LazyResults | None":
        """The lazy annotations; None if image or class ids are not integers, or if rows lack the compared shapes."""
        lazy = get_lazy(coco)
        if lazy is None or not self.has_integers:
            return None
        return None if lazy.shapes(self.kind, self.compared) is None else lazy

    def select_rows(self, lazy: "LazyDataset | LazyResults") -> tuple[Rows, Dict]:
        """Select the rows of the evaluation's images and classes; return also the ids and shapes of `Detections`."""
        columns, wanted = lazy.columns, self._image_ids.astype(np.int64, copy=False)
        near: Rows = ALL
        if isinstance(lazy, LazyDataset) and 0 < len(wanted) * 8 < len(lazy.images):
            near = lazy.rows_of(wanted)
        image = _compiled.find(columns.image[near], wanted)
        if self.is_federated:
            area = columns.areas[near]
            image = np.where((area > 0) & (area < np.inf), image, -1)
        row, image, label = self.select_labels(image, columns.category[near])
        row = row if near is ALL else near[row]
        shape = lazy.shapes(self.kind, self.compared)
        if row is not ALL:
            shape = shape.take(row) if isinstance(shape, Geometry) else shape[row]
        return row, {"image_ids": image, "labels": label, **shape_of(shape)}

    def select_labels(self, image: Ints, category: Ints) -> tuple[Rows, Ints, Ints]:
        """Select rows as `select` does, by indices of images; -1 for other images."""
        row, label = select_classes(category, self._class_ids.astype(np.int64, copy=False), image >= 0)
        return self._ordered(row, image[row], label)

    def select(self, image_id: Ints, category: Ints) -> tuple[Rows, Ints, Ints]:
        """Select the rows of the evaluation's images and classes; return also the indices of both."""
        return self.select_labels(_compiled.find(image_id, self._image_ids.astype(np.int64, copy=False)), category)

    def select_dicts(self, coco: Any, *, is_truth: bool) -> "SelectedDicts | None":
        """Select the dicts of the evaluation's images and classes; return None if a value is not a number."""
        keys = self.truth_keys if is_truth else self.result_keys
        anns, columns = self._read_dicts(coco, ("image_id", "category_id", "id", *keys))
        if columns is not None:
            row, image, label = self.select(columns.image, columns.category)
            ids = columns.id[row]
        else:
            row, image, label = self._select_any(anns)
            anns, row = taken(anns, row), ALL
            columns = _compiled.read_dicts(anns, list(keys), self.skips_crowds)
            ids = ids_of(anns)
            if columns is None or not are_numbers(ids):
                return None
        geometry: Geometry | None = None
        if self.kind is Masks:
            geometry = masks_of(taken(anns, row), coco)
        elif self.kind is not Boxes:
            geometry = poses.in_columns(columns, row, is_truth=is_truth)
        return SelectedDicts(anns, row, columns, image, label, ids, geometry)

    def _read_dicts(self, coco: Any, keys: Sequence[str]) -> tuple[list[Dict], Any]:
        """Load the evaluation's annotations, possibly more; their columns are None if a value is not a number."""
        has_integers = self.has_integers
        snapshot = get_snapshot(coco) if has_integers and not self.defaults else None
        if snapshot is not None and snapshot.is_mostly_of(self.images):
            columns = snapshot.read(keys, skips_crowds=self.skips_crowds)
            if columns is not None:
                return snapshot.annotations, columns
        anns = load_annotations(coco, self.images, self.classes, is_pooled=self.is_pooled)
        if self.defaults:
            anns = [{**self.defaults, **ann} for ann in anns]
        return anns, read_columns(anns, keys, skips_crowds=self.skips_crowds) if has_integers else None

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


def invalid_value(anns: Sequence[Dict], keys: Sequence[str], what: str = "annotation") -> str | None:
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
            return f"{rule}; got {len(value)}. Rotated boxes need a COCOeval with another computeIoU"
        rule += ", in a list"
    elif key == poses.KEY:
        rule = poses.RULE
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


def comparable(ids: NDArray[Any]) -> NDArray[Any]:
    """Ids as numbers, for comparisons with 0."""
    return ids.astype(np.float64) if ids.dtype == object else ids


def select_rows(truths: Any, results: Any, params: Params) -> EvaluatedRows | None:
    """Select the annotations that pycocotools evaluates under these parameters, in its order.

    Return None if columns can't represent them: a value is not a number, or an IoU depends on how masks were encoded.

    Raises:
        RefusedRowError: `Detections` or `Truths` refuse a value.
    """
    index = ImageClassIndex(params, compared=get_lazy(truths) if params.useCats else None)
    return rows_under(params, select_detections(index, results), select_truths(index, truths))


def describe_invalid(truths: Any, results: Any, params: Params) -> str | None:
    """Describe the value for which `select_columns` returns None, with its annotation or result; None if not found."""
    index = ImageClassIndex(params)
    sides = (truths, "annotation", index.truth_keys), (results, "result", index.result_keys)
    for coco, what, keys in sides:
        anns = load_annotations(coco, index.images, index.classes, is_pooled=index.is_pooled)
        found = invalid_value([{**index.defaults, **ann} for ann in anns], keys, what)
        if found is not None:
            return found
    return None


def rows_under(
    params: Params, detections: Selected[Detections] | None, truths: Selected[Truths] | None
) -> EvaluatedRows | None:
    """Combine detections and truths that were selected under the parameters.

    As in COCO: the comparison of two masks stops where both have a run of zero pixels. Return None if any could.
    """
    if detections is None or truths is None:
        return None
    shapes = detections.rows.geometry, truths.rows.geometry
    if all(isinstance(shape, Masks) and shape.runs.has_joined_runs for shape in shapes):
        return None
    return EvaluatedRows(
        cells=Cells.of(params),
        detections=detections.rows,
        truths=truths.rows,
        id=detections.id,
        truth_id=truths.id,
        given_score=detections.given_score,
        rules={"precision_epsilon": getattr(params, "precision_epsilon", Params.precision_epsilon)},
    )


def select_detections(index: ImageClassIndex, results: Any) -> Selected[Detections] | None:
    """Select the detections of the evaluation's images and classes; return None if a value is not a number."""
    lazy = index.lazy_columns(results)
    if lazy is not None and (score := lazy.columns.score) is not None:
        row, columns = index.select_rows(lazy)
        area = None if lazy.columns.area is None and "boxes" in columns else lazy.columns.areas[row]
        return detections_of(columns, score[row], area, lazy.columns.id[row])
    found = index.select_dicts(results, is_truth=False)
    if found is None:
        return None
    given: list[Any] | None
    if index.is_federated:
        given, score = _any_scores(found.anns)
    else:
        given, score = None, found.column("score")
        if not found.columns.has_float_scores and any(type(ann["score"]) is not float for ann in found.anns):
            given = [ann["score"] for ann in found.anns]
    return detections_of(found.shapes(), score, found.column("area"), found.id, given)


def _any_scores(anns: Sequence[Dict]) -> tuple[list[Any], Floats]:
    """Scores with their given types, and as floats; an error for a score that is not a number."""
    given = [ann["score"] for ann in anns]
    score = np.array(given) if given else np.zeros(0)
    if score.dtype.kind not in "biuf" or score.ndim != 1:
        bad = next((row for row, each in enumerate(given) if np.asarray(each).dtype.kind not in "biuf"), 0)
        raise InputError(f"result {anns[bad]['id']}: `score` must be a number; got {given[bad]!r}")
    return given, score.astype(np.float64)


def detections_of(
    columns: Dict, score: Floats, area: Floats | None, ids: NDArray[Any], given_score: list[Any] | None = None
) -> Selected[Detections]:
    """Make `Detections`; areas that equal the areas of the shapes are dropped. Errors name the result."""
    shape = columns.get("geometry")
    if area is not None and (shape is None or isinstance(shape, Masks)):
        own = shape.runs.area if isinstance(shape, Masks) else columns["boxes"][:, 2] * columns["boxes"][:, 3]
        area = None if np.array_equal(area, own) else area
    with _named_rows("result", ids):
        return Selected(Detections(**columns, scores=score, area=area), ids, given_score)


def select_truths(index: ImageClassIndex, truths: Any) -> Selected[Truths] | None:
    """Select the truths of the evaluation's images and classes; return None if a value is not a number."""
    lazy, ignore = index.lazy_columns(truths), None
    if lazy is not None and (index.is_federated or lazy.columns.is_crowd is not None):
        row, columns = index.select_rows(lazy)
        area, ids = lazy.columns.areas[row], lazy.columns.id[row]
        if not index.is_federated and lazy.columns.is_crowd is not None:
            ignore = lazy.columns.is_crowd[row]
    else:
        found = index.select_dicts(truths, is_truth=True)
        if found is None:
            return None
        columns, area, ids = found.shapes(), found.column("area"), found.id
        if index.is_federated:
            ignore = np.array([bool(ann.get("ignore", 0)) for ann in found.anns], np.uint8)
        else:
            ignore = found.column("is_crowd")
    names = ["all"] if index.is_pooled else [str(each) for each in index.classes]
    with _named_rows("annotation", ids):
        return Selected(Truths(**columns, ignore=ignore, area=area, class_names=names), ids)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EvaluatedPart:
    """Some images of an evaluation: their rows and tally; or, if rows can't represent them, their entries."""

    cells: Cells
    rows: EvaluatedRows | None = None
    tally: Tally | None = None
    entries: list[Dict | None] | None = None
    """The entries of `evalImgs`, if there are no rows."""
    overlaps: Mapping[tuple[Any, Any], Any] | None = None
    """`ious`, if there are no rows."""

    @classmethod
    def of(cls, rows: EvaluatedRows, *, is_traced: bool = False) -> "EvaluatedPart":
        """Match the rows."""
        return cls(cells=rows.cells, rows=rows, tally=rows.tally(is_traced=is_traced))


class Evaluated(NamedTuple):
    """An evaluation in one or more parts."""

    cells: Cells
    parts: Sequence[EvaluatedPart]
    new_image: Sequence[Ints]
    """For each part, the index of each of its images among all images; -1 for a copy of an image of an earlier part."""
    tally: Tally | None
    """The joined tallies; None if a part has none."""


def join(parts: Sequence[EvaluatedPart]) -> Evaluated:
    """Join parts, with images in ascending order. Of an image in several parts, the first copy counts.

    part             0        1        2
    its images       7  3     5        3  9
    new index        2  0     1       -1  3
    """
    first = parts[0].cells
    if len(parts) == 1:
        return Evaluated(first, parts, [np.arange(len(first.images))], parts[0].tally)
    if not all(part.cells.is_alike(first) for part in parts):
        raise InputError("`params` must be the same for all updates of an evaluator; they were changed in between")
    every = [image for part in parts for image in part.cells.images]
    images, first_row, rank = np.unique(np.array(every), return_index=True, return_inverse=True)
    new = np.where(np.isin(np.arange(len(every)), first_row), rank, -1)
    index = np.split(new, np.cumsum([len(part.cells.images) for part in parts])[:-1])
    tallies = [part.tally for part in parts if part.tally is not None]
    tally = _joined_tally(tallies, index) if len(tallies) == len(parts) else None
    return Evaluated(replace(first, images=list(images)), parts, index, tally)


def _joined_tally(tallies: Sequence[Tally], new_image: Sequence[Ints]) -> Tally:
    """Join tallies, with new indices of images; without copies of images."""
    image, truth_image = (
        narrowest(np.concatenate([new[getattr(each, name)] for each, new in zip(tallies, new_image, strict=True)]))
        for name in ("image", "truth_image")
    )
    every = replace(joined(tallies), image=image, truth_image=truth_image)
    return every.without(np.array([-1])) if any((new < 0).any() for new in new_image) else every
