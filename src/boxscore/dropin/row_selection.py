"""The rows of annotations that an evaluation is of: which images and classes, from lazy columns or from dicts."""

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.lazy import Lazy
from boxscore.data.geometry.masks import Masks
from boxscore.data.validation import RowError
from boxscore.dropin.coco_dataset import get_lazy, get_snapshot
from boxscore.dropin.dict_columns import read_columns
from boxscore.dropin.lazy_annotations import LazyDataset, LazyResults
from boxscore.dropin.params import Params

Dict = dict[str, Any]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Rows = Any
"""Indices of rows, or `ALL` rows as they are, which takes no copy."""

ALL = slice(None)

DRAWN_ALIKE = ("boxscore.dropin.coco_dataset", "pycocotools.coco", "faster_coco_eval.core.coco")
"""The modules whose `annToRLE` draws the same masks."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SelectedDicts:
    """Annotations that are dicts, and the columns that both sides have."""

    given: list[Dict]
    row: Rows
    """Those of `given` that are evaluated."""
    columns: Any
    """The `_compiled.DictColumns` of all that are given."""
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
        known = getattr(params, "iou_types", Params.iou_types)
        if params.iouType not in known:  # it may have been changed since
            raise InputError(f"`params.iouType` must be one of {', '.join(known)}; got {params.iouType!r}")
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
        columns, wanted = lazy.columns, self._image_ids.astype(np.int64, copy=False)
        near: Rows = ALL
        if isinstance(lazy, LazyDataset) and 0 < len(wanted) * 8 < lazy.num_images:
            near = lazy.rows_of(wanted)
        row, image, label = self.select_labels(_compiled.find(columns.image[near], wanted), columns.category[near])
        row = row if near is ALL else near[row]
        shared: Dict = {
            "box": columns.box[row],
            "area": Lazy(lambda: columns.area[row]),
            "id": Lazy(lambda: columns.id[row]),
        }
        if self.has_masks and (masks := self._masks(lazy)) is not None:
            shared["mask"] = masks if row is ALL else masks.take(row)
        if self.has_keypoints and (keypoints := lazy.keypoints()) is not None:
            shared["keypoints"] = keypoints if row is ALL else keypoints.take(row)
        return row, {"image": image, "label": label, **shared}

    def select_labels(self, image: Ints, category: Ints) -> tuple[Rows, Ints, Ints]:
        """The rows of the evaluation's images and classes, and the indices of these; `image`: indices, or -1."""
        row, label = select_classes(category, self._class_ids.astype(np.int64, copy=False), image >= 0)
        return self._ordered(row, image[row], label)

    def _select(self, image_id: Ints, category: Ints) -> tuple[Rows, Ints, Ints]:
        """The rows of the evaluation's images and classes, with the indices of both."""
        return self.select_labels(_compiled.find(image_id, self._image_ids.astype(np.int64, copy=False)), category)

    def select_dicts(self, coco: Any, keys: Sequence[str]) -> "SelectedDicts | None":
        """The annotations of the evaluation's images and classes, which are dicts; None if a value is not a number.

        `keys`: what their side needs.
        """
        keys = (*self._shape_keys(), *keys)
        anns, columns = self._read_dicts(coco, ("image_id", "category_id", "id", *keys))
        if columns is not None:
            row, image, label = self._select(columns.image, columns.category)
            shared: Dict = {"image": image, "label": label, "id": columns.id[row]}
        else:
            row, image, label = self._select_any(anns)
            anns, row = taken(anns, row), ALL
            columns = _compiled.read_dicts(anns, list(keys), self._skips_crowds)
            ids = ids_of(anns)
            if columns is None or not are_numbers(ids):
                return None
            shared = {"image": image, "label": label, "id": ids}
        num = len(image)
        shared["box"] = np.zeros((num, 4)) if self.has_masks or self.has_keypoints else columns.box[row]
        if self.has_masks:
            shared["mask"] = masks_of(taken(anns, row), coco)
        return SelectedDicts(given=anns, row=row, columns=columns, shared=shared)

    @property
    def _skips_crowds(self) -> bool:
        """As in COCO: the area of a crowd is not read, unless keypoints are measured by it."""
        return not self.has_keypoints

    def _shape_keys(self) -> tuple[str, ...]:
        return ("keypoints",) if self.has_keypoints else () if self.has_masks else ("bbox",)

    def _read_dicts(self, coco: Any, keys: Sequence[str]) -> tuple[list[Dict], Any]:
        """Annotations of at least the evaluation's images and classes, and their columns, if these are plain."""
        has_integers = self._has_integers()
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

    def _has_integers(self) -> bool:
        return self._image_ids.dtype.kind == self._class_ids.dtype.kind == "i"

    def _select_any(self, anns: list[Dict]) -> tuple[Rows, Ints, Ints]:
        """Select rows as `_select` does, by ids of any type."""
        image_index = {image: i for i, image in enumerate(self.images)}
        code_of = {label: code for code, label in enumerate(dict.fromkeys(self.classes))}
        image = np.array([image_index.get(ann["image_id"], -1) for ann in anns], np.int64)
        code = np.array([code_of.get(ann["category_id"], -1) for ann in anns], np.int64)
        wanted = np.array([code_of[label] for label in self.classes], np.int64)
        row, label = select_classes(code, wanted, image >= 0)
        return self._ordered(row, image[row], label)

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


def boxes_of(anns: Sequence[Dict]) -> Floats:
    """The boxes of annotations. Shape (N, 4)."""
    columns = _compiled.read_dicts(list(anns), ["bbox"], False)
    if columns is None:
        raise InputError(odd_value(anns, ("bbox",)))
    box: Floats = columns.box
    return box


def odd_value(anns: Sequence[Dict], keys: Sequence[str], what: str = "annotation") -> str | None:
    """The first value that is not as columns need it, by the annotation that has it; None if there is none."""
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


def are_numbers(ids: NDArray[Any]) -> bool:
    """Whether all ids can be written into a matrix of floats, as pycocotools does with those that are matched."""
    try:
        ids.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return False
    return True
