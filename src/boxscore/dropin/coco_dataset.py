"""COCO: pycocotools' dataset class. Its dicts are made when one of them is first read."""

import os
import time
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.locks import fork_safe_lock
from boxscore.dropin import mask
from boxscore.dropin.dict_columns import ANNOTATION_INDEX, AnnotationSnapshot, read_columns
from boxscore.dropin.lazy_annotations import (
    FileName,
    FileSnapshot,
    LazyDataset,
    LazyResults,
    array_to_dicts,
    complete_boxes,
    complete_keypoints,
    complete_masks,
    copy_header,
)
from boxscore.dropin.modules import fallback_attributes, warn_if_displaced

Dict = dict[str, Any]

maskUtils = mask  # pycocotools' name for it, which others import from here

INDEX = ("dataset", "anns", "imgs", "cats", "imgToAnns", "catToImgs")
"""The attributes that hold dicts. Once any of them was read or set, they are the data, and the columns are dropped."""

QUERIES = ("getAnnIds", "getCatIds", "getImgIds", "loadAnns")
"""The methods that an evaluation calls."""

_index_lock = fork_safe_lock()
"""Taken while dicts are made: if several threads read them for the first time, one makes them for all."""


class COCO:
    """A dataset, or the results of a detector, as `pycocotools.coco.COCO` has it.

    >>> coco = COCO()
    >>> coco.dataset = {"images": [{"id": 7}], "annotations": [], "categories": [{"id": 1, "name": "cat"}]}
    >>> coco.createIndex()
    creating index...
    index created!
    >>> coco.getImgIds(), coco.getCatIds(catNms=["cat"])
    ([7], [1])
    """

    dataset: Dict
    anns: dict[Any, Dict]
    imgs: dict[Any, Dict]
    cats: dict[Any, Dict]
    imgToAnns: defaultdict[Any, list[Dict]]
    catToImgs: defaultdict[Any, list[Any]]

    def __init__(self, annotation_file: FileName | None = None) -> None:
        warn_if_displaced()
        self._lazy: LazyDataset | LazyResults | None = None
        self._snapshot: AnnotationSnapshot | None = None
        self._next_snapshot: AnnotationSnapshot | None = None
        self.dataset, self.anns, self.imgs, self.cats = {}, {}, {}, {}
        self.imgToAnns, self.catToImgs = defaultdict(list), defaultdict(list)
        if annotation_file is None:
            return
        print("loading annotations into memory...")
        start = time.time()
        file = FileSnapshot(annotation_file)
        lazy = LazyDataset.from_file(file)
        if lazy is not None:
            self._set_lazy(lazy)
        else:
            self.dataset = file.parse()
            if type(self.dataset) is not dict:
                raise AssertionError(f"annotation file format {type(self.dataset)} not supported")  # as in COCO
        print(f"Done (t={time.time() - start:0.2f}s)")
        self.createIndex()

    def _set_lazy(self, lazy: LazyDataset | LazyResults) -> None:
        """Make the dicts from `lazy` when one of them is first read."""
        self._lazy = lazy
        for name in INDEX:
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        """Make all dicts of a file when one of them is first read, and a part of an index when it is."""
        if name in INDEX:
            with _index_lock:
                lazy = self.__dict__.get("_lazy")
                if lazy is not None:
                    dataset = lazy.dataset()
                    for key, value in {"dataset": dataset, **build_index(dataset)}.items():
                        self.__dict__.setdefault(key, value)
                    self._lazy = None
                snapshot = self.__dict__.get("_snapshot")
                if name not in self.__dict__ and snapshot is not None and name in ANNOTATION_INDEX:
                    self.__dict__[name] = snapshot.index(name)
                if name in self.__dict__:
                    return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def createIndex(self) -> None:
        """Make `anns`, `imgs`, `cats`, `imgToAnns` and `catToImgs` from `dataset`."""
        print("creating index...")
        if get_lazy(self) is None:
            self._index_dicts()
        print("index created!")

    def _index_dicts(self) -> None:
        """The index of what is not lazy; that of annotations is made when it is read, if their values are plain."""
        dataset = self.dataset
        snapshot = self.__dict__.get("_next_snapshot") or AnnotationSnapshot.of(dataset)
        self.__dict__.update(build_index(dataset) if snapshot is None else _header_index(dataset))
        self._snapshot, self._next_snapshot = snapshot, None
        for name in ANNOTATION_INDEX if snapshot is not None else ():
            self.__dict__.pop(name, None)

    def info(self) -> None:
        """Print what the dataset says about itself."""
        for key, value in self.dataset["info"].items():
            print(f"{key}: {value}")

    def getAnnIds(
        self, imgIds: Any = (), catIds: Any = (), areaRng: Sequence[float] = (), iscrowd: bool | None = None
    ) -> list[Any]:
        """The ids of the annotations of some images and classes, within an area range, crowds only or none of them."""
        imgIds, catIds = _as_list(imgIds), _as_list(catIds)
        anns: Iterable[Dict] = self.dataset["annotations"] if len(imgIds) == 0 else self._anns_of(imgIds)
        if len(catIds) > 0:
            wanted = _as_set(catIds)
            anns = [
                ann for ann in anns if ann["category_id"] in (catIds if _isArrayLike(ann["category_id"]) else wanted)
            ]
        if len(areaRng) > 0:
            anns = [ann for ann in anns if areaRng[0] < ann["area"] < areaRng[1]]
        return [ann["id"] for ann in anns if iscrowd is None or ann["iscrowd"] == iscrowd]

    def _anns_of(self, imgIds: Iterable[Any]) -> Iterable[Dict]:
        return chain.from_iterable(self.imgToAnns[image] for image in imgIds if image in self.imgToAnns)

    def getCatIds(self, catNms: Any = (), supNms: Any = (), catIds: Any = ()) -> list[Any]:
        """The ids of the classes with some names, supercategories or ids."""
        catNms, supNms, catIds = _as_list(catNms), _as_list(supNms), _as_list(catIds)
        lazy = get_lazy(self)
        if isinstance(lazy, LazyDataset) and len(supNms) == 0:
            cats = [{"id": label, "name": name} for label, name in lazy.categories.items()]
        else:
            cats = self.dataset["categories"]
        for key, wanted in (("name", catNms), ("supercategory", supNms), ("id", catIds)):
            if len(wanted) > 0:
                cats = [cat for cat in cats if cat[key] in wanted]
        return [cat["id"] for cat in cats]

    def getImgIds(self, imgIds: Any = (), catIds: Any = ()) -> list[Any]:
        """The ids of all images, or of those of the given images that have all of the given classes."""
        imgIds, catIds = _as_list(imgIds), _as_list(catIds)
        if len(imgIds) == len(catIds) == 0:
            lazy = get_lazy(self)
            return lazy.image_ids() if isinstance(lazy, LazyDataset) else list(self.imgs)
        ids = set(imgIds)
        for row, label in enumerate(catIds):
            with_class = set(self.catToImgs[label])
            ids = with_class if row == 0 and not ids else ids & with_class
        return list(ids)

    def loadAnns(self, ids: Any = ()) -> Any:
        """The annotations with some ids."""
        return _load(self.anns, ids)

    def loadCats(self, ids: Any = ()) -> Any:
        """The classes with some ids."""
        return _load(self.cats, ids)

    def loadImgs(self, ids: Any = ()) -> Any:
        """The images with some ids."""
        return _load(self.imgs, ids)

    def showAnns(self, anns: Sequence[Dict], draw_bbox: bool = False) -> int | None:
        """Draw annotations into matplotlib's current axes, or print captions."""
        if len(anns) == 0:
            return 0
        if "segmentation" in anns[0] or "keypoints" in anns[0]:
            from boxscore.dropin.drawing import draw_annotations

            draw_annotations(anns, self, draw_bbox=draw_bbox)
        elif "caption" in anns[0]:
            for ann in anns:
                print(ann["caption"])
        else:
            raise Exception("datasetType not supported")  # as in COCO
        return None

    def loadRes(self, resFile: Any) -> "COCO":
        """The results of a detector on this dataset: a file, a list of dicts, or an array (N, 7).

        A list's dicts become the annotations, completed with `area`, `id` and `iscrowd`, as pycocotools does.
        """
        print("Loading and preparing results...")
        start = time.time()
        given = _read_results(resFile, self)
        columns: Any = (
            given.columns if isinstance(given, LazyResults) else read_columns(given, ("image_id", "category_id"))
        )
        if columns is not None:
            images = set(_compiled.distinct(columns.image).tolist())
        else:
            images = {ann["image_id"] for ann in given}  # type: ignore[union-attr]
        # A batch of results is small and the dataset may be large: where it has an index, no set of its ids is made.
        has_index = type(self).getImgIds is COCO.getImgIds and "imgs" in self.__dict__
        if not (images <= self.imgs.keys() if has_index else images <= set(self.getImgIds())):
            raise AssertionError("Results do not correspond to current coco set")  # as in COCO
        results = COCO()
        if isinstance(given, LazyResults):
            results._set_lazy(given)
        else:
            results.dataset, are_numbered = complete_results(given, copy_header(self.dataset))
            if are_numbered and columns is not None and columns.has_plain_ids:
                results._next_snapshot = AnnotationSnapshot(
                    annotations=list(given),
                    image=columns.image,
                    id=np.arange(1, len(given) + 1),
                    category=columns.category,
                )
        print(f"DONE (t={time.time() - start:0.2f}s)")
        results.createIndex()
        return results

    def loadNumpyAnnotations(self, data: NDArray[Any]) -> list[Dict]:
        """One dict per row of image, x, y, width, height, score, class."""
        _print_array(data)
        return array_to_dicts(data)

    def download(self, tarDir: FileName | None = None, imgIds: Any = ()) -> None:
        """Raises: boxscore downloads nothing."""
        del tarDir, imgIds
        raise InputError("boxscore downloads no images; `coco_url` of each image in `coco.imgs` is its address")

    def annToRLE(self, ann: Dict) -> Any:
        """The mask of an annotation as run lengths."""
        image, outline = self.imgs[ann["image_id"]], ann["segmentation"]
        if type(outline) is list:
            return mask.merge(mask.frPyObjects(outline, image["height"], image["width"]))
        if type(outline["counts"]) is list:
            return mask.frPyObjects(outline, image["height"], image["width"])
        return outline

    def annToMask(self, ann: Dict) -> Any:
        """The mask of an annotation, one byte per pixel."""
        return mask.decode(self.annToRLE(ann))


def get_lazy(coco: Any) -> LazyDataset | LazyResults | None:
    """The lazy annotations of a dataset; None once its dicts may have changed, or if a subclass has its own queries."""
    state = getattr(coco, "__dict__", {})
    homes = {getattr(getattr(type(coco), name, None), "__module__", None) for name in QUERIES}
    has_own_queries = not homes <= {"boxscore.dropin.coco_dataset", "boxscore.dropin.faster_dataset"}
    return None if has_own_queries or any(name in state for name in INDEX) else state.get("_lazy")


def get_snapshot(coco: Any) -> AnnotationSnapshot | None:
    """The annotations of an index that nobody has read or set, of a dataset with the queries of `COCO`."""
    state = getattr(coco, "__dict__", {})
    has_own_queries = any(getattr(type(coco), name, None) is not getattr(COCO, name) for name in (*QUERIES, "_anns_of"))
    is_untouched = not any(name in state for name in ("anns", "imgToAnns", *QUERIES))
    return state.get("_snapshot") if is_untouched and not has_own_queries else None


def _read_results(results: Any, coco: Any) -> LazyResults | list[Dict]:
    """Results as lazy columns, or as dicts where columns can't represent them."""
    if isinstance(results, str | os.PathLike):
        file = FileSnapshot(results)
        anns = LazyResults.from_file(file, _header(coco)) or file.parse()
    elif isinstance(results, np.ndarray):
        _print_array(results)
        anns = LazyResults.from_array(results, _header(coco)) or array_to_dicts(results)
    else:
        anns = results
    if type(anns) not in (LazyResults, list):
        raise AssertionError("results in not an array of objects")  # as in COCO
    return anns


def _header(coco: Any) -> LazyDataset | Dict:
    lazy = get_lazy(coco)
    return lazy if isinstance(lazy, LazyDataset) else copy_header(coco.dataset)


def complete_results(anns: list[Dict], header: Dict) -> tuple[Dict, bool]:
    """A dataset of results as dicts, captions, boxes, masks or keypoints; and whether ids are surely 1, 2, 3, …"""
    first = anns[0]
    dataset = {"info": header["info"], "images": header["images"]}
    has_boxes = "bbox" in first and first["bbox"] != []
    are_numbered = False
    if "caption" in first:
        with_caption = {ann["image_id"] for ann in anns}
        dataset["images"] = [image for image in dataset["images"] if image["id"] in with_caption]
        for number, ann in enumerate(anns, start=1):
            ann["id"] = number
    elif has_boxes or "segmentation" in first or "keypoints" in first:
        dataset["categories"] = header["categories"]
        complete = complete_boxes if has_boxes else complete_masks if "segmentation" in first else complete_keypoints
        are_numbered = complete(anns)
    return {**dataset, "annotations": anns}, are_numbered


def _print_array(data: NDArray[Any]) -> None:
    print("Converting ndarray to lists...")
    print(data.shape)
    if data.shape[1] != 7:
        raise AssertionError(f"results must have 7 columns; got an array of shape {data.shape}")
    for row in range(0, len(data), 1_000_000):
        print(f"{row}/{len(data)}")


def build_index(dataset: Dict) -> Dict:
    """The dicts by id, and what belongs to each image and class."""
    anns, of_image, of_class = {}, defaultdict(list), defaultdict(list)
    for ann in dataset.get("annotations", ()):
        of_image[ann["image_id"]].append(ann)
        anns[ann["id"]] = ann
    if "categories" in dataset:
        for ann in dataset.get("annotations", ()):
            of_class[ann["category_id"]].append(ann["image_id"])
    return {"anns": anns, "imgToAnns": of_image, "catToImgs": of_class, **_header_index(dataset)}


def _header_index(dataset: Dict) -> Dict:
    """The dicts of images and classes by id."""
    return {
        "imgs": {image["id"]: image for image in dataset.get("images", ())},
        "cats": {cat["id"]: cat for cat in dataset.get("categories", ())},
    }


def _isArrayLike(value: Any) -> bool:  # pycocotools' name for it, which others import
    return hasattr(value, "__iter__") and hasattr(value, "__len__")


def _as_list(value: Any) -> Any:
    return value if _isArrayLike(value) else [value]


def _as_set(values: Any) -> Container[Any]:
    """A set for fast look-ups; the values themselves if they can't be hashed."""
    try:
        return frozenset(values)
    except TypeError:
        return values  # type: ignore[no-any-return]


def _load(by_id: dict[Any, Dict], ids: Any) -> Any:
    if _isArrayLike(ids):
        return [by_id[each] for each in ids]
    return [by_id[ids]] if type(ids) is int else None


if not TYPE_CHECKING:
    __getattr__, __dir__ = fallback_attributes("coco", globals())
