"""COCO: pycocotools' class of a dataset. Its dicts are made when they are first looked at."""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore.coco import mask
from boxscore.coco.fallback import names_of_original
from boxscore.coco.held import (
    HeldDataset,
    HeldResults,
    complete_boxes,
    dicts_of_array,
    heading_of,
    parse,
)
from boxscore.coco.kept import FileName, Kept
from boxscore.coco.names import warn_if_displaced

Dict = dict[str, Any]

maskUtils = mask  # pycocotools' name for it, which others import from here

INDEX = ("dataset", "anns", "imgs", "cats", "imgToAnns", "catToImgs")
"""What a dataset is as dicts. Once any of it was looked at or set, that is what counts."""

QUERIES = ("getAnnIds", "getCatIds", "getImgIds", "loadAnns")
"""The methods that an evaluation calls."""


_making = threading.RLock()
"""Held while dicts are made: of all threads that look for the first time, one makes them, and all have the same."""


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
        self._held: HeldDataset | HeldResults | None = None
        self.dataset, self.anns, self.imgs, self.cats = {}, {}, {}, {}
        self.imgToAnns, self.catToImgs = defaultdict(list), defaultdict(list)
        if annotation_file is None:
            return
        print("loading annotations into memory...")
        start = time.time()
        file = Kept(annotation_file)
        held = HeldDataset.of(file)
        if held is not None:
            self._hold(held)
        else:
            self.dataset = parse(file)
            if type(self.dataset) is not dict:
                raise AssertionError(f"annotation file format {type(self.dataset)} not supported")  # as in COCO
        print(f"Done (t={time.time() - start:0.2f}s)")
        self.createIndex()

    def _hold(self, held: HeldDataset | HeldResults) -> None:
        """From now on the dicts are those of what is held, once anybody looks at them."""
        self._held = held
        for name in INDEX:
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        """The dicts, all of them, at the first look at one."""
        if name in INDEX:
            with _making:
                held = self.__dict__.get("_held")
                if held is not None:
                    dataset = held.dataset()
                    for key, value in {"dataset": dataset, **_index(dataset)}.items():
                        self.__dict__.setdefault(key, value)
                    self._held = None
                if name in self.__dict__:
                    return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def createIndex(self) -> None:
        """Make `anns`, `imgs`, `cats`, `imgToAnns` and `catToImgs` from `dataset`."""
        print("creating index...")
        if held_by(self) is None:
            self.__dict__.update(_index(self.dataset))
        print("index created!")

    def info(self) -> None:
        """Print what the dataset says about itself."""
        for key, value in self.dataset["info"].items():
            print(f"{key}: {value}")

    def getAnnIds(
        self, imgIds: Any = (), catIds: Any = (), areaRng: Sequence[float] = (), iscrowd: bool | None = None
    ) -> list[Any]:
        """The ids of the annotations of some images and classes, with areas in between, and crowds or none."""
        imgIds, catIds = _as_list(imgIds), _as_list(catIds)
        anns: Iterable[Dict] = self.dataset["annotations"] if len(imgIds) == 0 else self._anns_of(imgIds)
        if len(catIds) > 0:
            wanted = _as_set(catIds)
            anns = [ann for ann in anns if ann["category_id"] in wanted]
        if len(areaRng) > 0:
            anns = [ann for ann in anns if areaRng[0] < ann["area"] < areaRng[1]]
        return [ann["id"] for ann in anns if iscrowd is None or ann["iscrowd"] == iscrowd]

    def _anns_of(self, imgIds: Iterable[Any]) -> Iterable[Dict]:
        return chain.from_iterable(self.imgToAnns[image] for image in imgIds if image in self.imgToAnns)

    def getCatIds(self, catNms: Any = (), supNms: Any = (), catIds: Any = ()) -> list[Any]:
        """The ids of the classes with some names, supercategories or ids."""
        catNms, supNms, catIds = _as_list(catNms), _as_list(supNms), _as_list(catIds)
        held = held_by(self)
        if isinstance(held, HeldDataset) and len(supNms) == 0:
            cats = [{"id": label, "name": name} for label, name in held.categories.items()]
        else:
            cats = self.dataset["categories"]
        for key, wanted in (("name", catNms), ("supercategory", supNms), ("id", catIds)):
            if len(wanted) > 0:
                cats = [cat for cat in cats if cat[key] in wanted]
        return [cat["id"] for cat in cats]

    def getImgIds(self, imgIds: Any = (), catIds: Any = ()) -> list[Any]:
        """The ids of all images, or of those among some that have all of some classes."""
        imgIds, catIds = _as_list(imgIds), _as_list(catIds)
        if len(imgIds) == len(catIds) == 0:
            held = held_by(self)
            return list(held.images if isinstance(held, HeldDataset) else self.imgs)
        ids = set(imgIds)
        for place, label in enumerate(catIds):
            there = set(self.catToImgs[label])
            ids = there if place == 0 and not ids else ids & there
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
        """Draw annotations into matplotlib's present axes, or print captions."""
        if len(anns) == 0:
            return 0
        if "segmentation" in anns[0] or "keypoints" in anns[0]:
            from boxscore.coco.drawing import draw_annotations

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
        given = _given(resFile, self)
        if isinstance(given, HeldResults):
            images = set(_compiled.distinct(given.columns.image).tolist())
        else:
            images = {ann["image_id"] for ann in given}
        # A batch of results is small, and the dataset may be large: its ids are looked up where they are.
        is_listed = type(self).getImgIds is COCO.getImgIds and "imgs" in self.__dict__
        if not (images <= self.imgs.keys() if is_listed else images <= set(self.getImgIds())):
            raise AssertionError("Results do not correspond to current coco set")  # as in COCO
        results = COCO()
        if isinstance(given, HeldResults):
            results._hold(given)
        else:
            results.dataset = _completed(given, heading_of(self.dataset))
        print(f"DONE (t={time.time() - start:0.2f}s)")
        results.createIndex()
        return results

    def loadNumpyAnnotations(self, data: NDArray[Any]) -> list[Dict]:
        """A dict for each row of image, x, y, width, height, score, class."""
        _say_array(data)
        return dicts_of_array(data)

    def download(self, tarDir: FileName | None = None, imgIds: Any = ()) -> None:
        """Refused: boxscore fetches nothing."""
        del tarDir, imgIds
        raise InputError(
            "boxscore downloads no images; `coco_url` of each image in `coco.imgs` says where it is to be had"
        )

    def annToRLE(self, ann: Dict) -> Any:
        """The mask of an annotation as run lengths; takes pycocotools."""
        image, outline = self.imgs[ann["image_id"]], ann["segmentation"]
        if type(outline) is list:
            return mask.merge(mask.frPyObjects(outline, image["height"], image["width"]))
        if type(outline["counts"]) is list:
            return mask.frPyObjects(outline, image["height"], image["width"])
        return outline

    def annToMask(self, ann: Dict) -> Any:
        """The mask of an annotation, a byte a pixel; takes pycocotools."""
        return mask.decode(self.annToRLE(ann))


def held_by(coco: Any) -> HeldDataset | HeldResults | None:
    """What a dataset was read from, while nobody can have changed anything of it, nor what its methods say of it."""
    state = getattr(coco, "__dict__", {})
    is_own = all(getattr(type(coco), name, None) is getattr(COCO, name) for name in QUERIES)
    return state.get("_held") if is_own and not any(name in state for name in INDEX) else None


def _given(results: Any, coco: Any) -> HeldResults | list[Dict]:
    """Results as they are held, or as dicts."""
    if isinstance(results, str | os.PathLike):
        file = Kept(results)
        anns = HeldResults.of_file(file, _heading(coco)) or parse(file)
    elif isinstance(results, np.ndarray):
        _say_array(results)
        anns = HeldResults.of_array(results, _heading(coco)) or dicts_of_array(results)
    else:
        anns = results
    if type(anns) not in (HeldResults, list):
        raise AssertionError("results in not an array of objects")  # as in COCO
    return anns


def _heading(coco: Any) -> HeldDataset | Dict:
    held = held_by(coco)
    return held if isinstance(held, HeldDataset) else heading_of(coco.dataset)


def _completed(anns: list[Dict], heading: Dict) -> Dict:
    """A dataset of results as dicts, whatever they are results of."""
    first = anns[0]
    dataset = {"info": heading["info"], "images": heading["images"]}
    has_boxes = "bbox" in first and first["bbox"] != []
    if "caption" in first:
        there = {ann["image_id"] for ann in anns}
        dataset["images"] = [image for image in dataset["images"] if image["id"] in there]
        for number, ann in enumerate(anns, start=1):
            ann["id"] = number
    elif has_boxes or "segmentation" in first or "keypoints" in first:
        dataset["categories"] = heading["categories"]
        complete = complete_boxes if has_boxes else _complete_masks if "segmentation" in first else _complete_keypoints
        complete(anns)
    return {**dataset, "annotations": anns}


def _complete_masks(anns: list[Dict]) -> None:
    for number, ann in enumerate(anns, start=1):
        ann["area"] = mask.area(ann["segmentation"])
        if "bbox" not in ann:
            ann["bbox"] = mask.toBbox(ann["segmentation"])
        ann["id"], ann["iscrowd"] = number, 0


def _complete_keypoints(anns: list[Dict]) -> None:
    for number, ann in enumerate(anns, start=1):
        x, y = ann["keypoints"][0::3], ann["keypoints"][1::3]
        left, right, top, bottom = np.min(x), np.max(x), np.min(y), np.max(y)
        ann["area"], ann["id"] = (right - left) * (bottom - top), number
        ann["bbox"] = [left, top, right - left, bottom - top]


def _say_array(data: NDArray[Any]) -> None:
    print("Converting ndarray to lists...")
    print(data.shape)
    if data.shape[1] != 7:
        raise AssertionError(f"results must have 7 columns; got an array of shape {data.shape}")
    for row in range(0, len(data), 1_000_000):
        print(f"{row}/{len(data)}")


def _index(dataset: Dict) -> Dict:
    """The dicts by id, and what belongs to each image and class."""
    anns, of_image, of_class = {}, defaultdict(list), defaultdict(list)
    for ann in dataset.get("annotations", ()):
        of_image[ann["image_id"]].append(ann)
        anns[ann["id"]] = ann
    if "categories" in dataset:
        for ann in dataset.get("annotations", ()):
            of_class[ann["category_id"]].append(ann["image_id"])
    return {
        "anns": anns,
        "imgToAnns": of_image,
        "catToImgs": of_class,
        "imgs": {image["id"]: image for image in dataset.get("images", ())},
        "cats": {cat["id"]: cat for cat in dataset.get("categories", ())},
    }


def _isArrayLike(value: Any) -> bool:  # pycocotools' name for it, which others import
    return hasattr(value, "__iter__") and hasattr(value, "__len__")


def _as_list(value: Any) -> Any:
    return value if _isArrayLike(value) else [value]


def _as_set(values: Any) -> Container[Any]:
    """For quick look-ups; what can't be hashed is searched as it is."""
    try:
        return frozenset(values)
    except TypeError:
        return values  # type: ignore[no-any-return]


def _load(by_id: dict[Any, Dict], ids: Any) -> Any:
    if _isArrayLike(ids):
        return [by_id[each] for each in ids]
    return [by_id[ids]] if type(ids) is int else None


if not TYPE_CHECKING:
    __getattr__, __dir__ = names_of_original("coco", globals())
