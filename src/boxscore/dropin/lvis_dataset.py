"""LVIS: the dataset class of `lvis`. Its dicts are made when one of them is first read."""

import copy
import logging
import os
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.locks import fork_safe_lock
from boxscore.dropin import mask
from boxscore.dropin.lazy_annotations import (
    AnnotationColumns,
    FileName,
    FileSnapshot,
    LazyDataset,
    ListedImages,
    read_boxes,
)

Dict = dict[str, Any]

INDEX = ("dataset", "anns", "cats", "imgs", "img_ann_map", "cat_img_map")
"""The attributes that hold dicts. Once any of them was read or set, they are the data, and the columns are dropped."""

QUERIES = ("get_ann_ids", "get_cat_ids", "get_img_ids", "load_anns", "load_cats", "load_imgs", "ann_to_rle")
"""The methods that an evaluation calls."""

_index_lock = fork_safe_lock()
"""Taken while dicts are made: if several threads read them for the first time, one makes them for all."""


class InvalidFileError(InputError, AssertionError):
    """What `lvis` raises an AssertionError for: a file, or results, of another kind."""

    __module__ = "boxscore"


class UnsupportedTypeError(InputError, TypeError):
    """What `lvis` raises a TypeError for: an argument of another type."""

    __module__ = "boxscore"


class ClassPairs(NamedTuple):
    """Images and classes, one pair per row: what the lists of images hold."""

    image: NDArray[np.int64]
    category: NDArray[np.int64]


class LazyFederated(LazyDataset):
    """An LVIS file whose annotations are all in columns, with what was looked for in its images."""

    def __init__(
        self,
        file: FileSnapshot,
        columns: AnnotationColumns,
        images: ListedImages,
        categories: dict[int, str],
        *,
        frequency: dict[int, str],
        negative: ClassPairs,
        not_exhaustive: ClassPairs,
    ) -> None:
        super().__init__(file, columns, images, categories)
        self.frequency, self.negative, self.not_exhaustive = frequency, negative, not_exhaustive

    @classmethod
    def from_file(cls, file: FileSnapshot) -> "LazyFederated | None":
        """None if the file has anything that columns can't represent."""
        read = read_boxes(file)
        if read is None or not read.is_dataset or read.images is None or read.categories is None:
            return None
        boxes, images, categories = read.boxes, read.images, read.categories
        if boxes.id is None or boxes.area is None or boxes.mask_area is not None or np.isnan(boxes.area).any():
            return None
        lists = (images.negative, images.not_exhaustive)
        if images.names is not None or any(each is None or not each[2].all() for each in lists):
            return None
        if any(_compiled.distinct(ids).size < ids.size for ids in (boxes.id, images.id)) or not all(
            categories.frequency
        ):
            return None
        if file.has(b'"ignore"'):
            return None
        columns = AnnotationColumns(
            image=boxes.image, category=boxes.category, box=boxes.box, area=boxes.area, id=boxes.id
        )
        labels = categories.id.tolist()
        negative, not_exhaustive = (
            ClassPairs(np.repeat(images.id, np.diff(end, prepend=0)), value) for value, end, _ in lists
        )
        return cls(
            file,
            columns,
            ListedImages.of(images),
            dict(zip(labels, categories.name, strict=True)),
            frequency=dict(zip(labels, categories.frequency, strict=True)),
            negative=negative,
            not_exhaustive=not_exhaustive,
        )

    def header(self) -> Dict:
        """All but the annotations, as they were in the file, for the results of a detector."""
        return copy_all_but_annotations(self.dataset())


def copy_all_but_annotations(dataset: Dict) -> Dict:
    """What results take over from a dataset."""
    return {key: copy.deepcopy(value) for key, value in dataset.items() if key != "annotations"}


class LVIS:
    """A dataset as `lvis.LVIS` has it, from a file."""

    dataset: Dict
    anns: dict[Any, Dict]
    cats: dict[Any, Dict]
    imgs: dict[Any, Dict]
    img_ann_map: defaultdict[Any, list[Dict]]
    cat_img_map: defaultdict[Any, list[Any]]

    def __init__(self, annotation_path: Any) -> None:
        self.logger = logging.getLogger(__name__)
        self.logger.info("Loading annotations.")
        if not isinstance(annotation_path, str | os.PathLike):
            got = type(annotation_path).__name__
            raise UnsupportedTypeError(f"`annotation_path` must be the path of a file; got {got}")
        self._source = os.fspath(annotation_path)
        file = FileSnapshot(annotation_path)
        lazy = LazyFederated.from_file(file)
        if lazy is not None:
            self._lazy: Any = lazy
            return
        self._lazy = None
        self.dataset = parsed(file)
        if type(self.dataset) is not dict:
            got = type(self.dataset).__name__
            raise InvalidFileError(
                f"{self._source}: expected an object with `images`, `annotations` and `categories`; got a {got}"
            )
        self._create_index()

    def __getattr__(self, name: str) -> Any:
        """Make all dicts when one of them is first read."""
        if name in INDEX:
            with _index_lock:
                lazy = self.__dict__.get("_lazy")
                if lazy is not None:
                    dataset = lazy.dataset()
                    for key, value in {"dataset": dataset, **index_of(dataset, self._source)}.items():
                        self.__dict__.setdefault(key, value)
                    self._lazy = None
                if name in self.__dict__:
                    return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _load_json(self, path: FileName) -> Any:
        """The content of a file."""
        return parsed(FileSnapshot(path))

    def _create_index(self) -> None:
        """Make `anns`, `imgs`, `cats`, `img_ann_map` and `cat_img_map` from `dataset`."""
        self.logger.info("Creating index.")
        self.__dict__.update(index_of(self.dataset, self._source))
        self.logger.info("Index created.")

    def get_ann_ids(
        self, img_ids: Any = None, cat_ids: Any = None, area_rng: Sequence[float] | None = None
    ) -> list[Any]:
        """The ids of the annotations of some images and classes, within an area range.

        As in LVIS: with classes or a range, annotations without area are left out.
        """
        if img_ids is None:
            anns = self.dataset["annotations"]
        else:
            anns = [ann for image in img_ids for ann in self.img_ann_map.get(image, ())]
        if cat_ids is None and area_rng is None:
            return [ann["id"] for ann in anns]
        wanted = None if cat_ids is None else set(cat_ids)
        low, high = (0, float("inf")) if area_rng is None else (area_rng[0], area_rng[1])
        return [
            ann["id"] for ann in anns if (wanted is None or ann["category_id"] in wanted) and low < area_of(ann) < high
        ]

    def get_cat_ids(self) -> list[Any]:
        """The ids of all classes."""
        lazy = get_lazy(self)
        return list(lazy.categories if isinstance(lazy, LazyFederated) else self.cats)

    def get_img_ids(self) -> list[Any]:
        """The ids of all images."""
        lazy = get_lazy(self)
        return list(lazy.images if isinstance(lazy, LazyFederated) else self.imgs)

    def _load_helper(self, by_id: dict[Any, Dict], ids: Any) -> list[Dict]:
        return list(by_id.values()) if ids is None else [by_id[each] for each in ids]

    def load_anns(self, ids: Any = None) -> list[Dict]:
        """The annotations with some ids, or all."""
        return self._load_helper(self.anns, ids)

    def load_cats(self, ids: Any) -> list[Dict]:
        """The classes with some ids; all for None."""
        return self._load_helper(self.cats, ids)

    def load_imgs(self, ids: Any) -> list[Dict]:
        """The images with some ids; all for None."""
        return self._load_helper(self.imgs, ids)

    def download(self, save_dir: FileName, img_ids: Any = None) -> None:
        """Raises: boxscore downloads nothing."""
        del save_dir, img_ids
        raise InputError("boxscore downloads no images; `coco_url` of each image in `lvis.imgs` is its address")

    def ann_to_rle(self, ann: Dict) -> Any:
        """The mask of an annotation as run lengths."""
        image, outline = self.imgs[ann["image_id"]], ann["segmentation"]
        if isinstance(outline, list):
            return mask.merge(mask.frPyObjects(outline, image["height"], image["width"]))
        if isinstance(outline["counts"], list):
            return mask.frPyObjects(outline, image["height"], image["width"])
        return outline

    def ann_to_mask(self, ann: Dict) -> Any:
        """The mask of an annotation, one byte per pixel."""
        return mask.decode(self.ann_to_rle(ann))


def get_lazy(lvis: LVIS) -> Any:
    """The lazy annotations of a dataset; None once its dicts may have changed, or if a subclass has its own queries."""
    state = lvis.__dict__
    has_own_queries = any(getattr(type(lvis), name) is not getattr(LVIS, name) or name in state for name in QUERIES)
    return None if has_own_queries or any(name in state for name in INDEX) else state.get("_lazy")


def parsed(file: FileSnapshot) -> Any:
    """The content of a file."""
    try:
        return file.parse()
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file.name}: not JSON: {error}") from None


def index_of(dataset: Dict, source: str) -> Dict:
    """The dicts by id, and what belongs to each image and class."""
    by_id: dict[str, dict[Any, Dict]] = {}
    for key, what in (("annotations", "annotation"), ("images", "image"), ("categories", "category")):
        rows = dataset.get(key)
        if not isinstance(rows, list):
            got = "nothing" if rows is None else f"a {type(rows).__name__}"
            raise InputError(f"{source}: `{key}` must be a list; got {got}")
        wanted = ("id", "image_id", "category_id") if key == "annotations" else ("id",)
        for row, each in enumerate(rows):
            if not isinstance(each, dict):
                raise InputError(f"{source}: {what} {row} must be an object; got a {type(each).__name__}")
            for name in wanted:
                if name not in each:
                    raise InputError(f"{source}: {what} {row} must have `{name}`")
        by_id[key] = {each["id"]: each for each in rows}
    of_image, of_class = defaultdict(list), defaultdict(list)
    for ann in dataset["annotations"]:
        of_image[ann["image_id"]].append(ann)
        of_class[ann["category_id"]].append(ann["image_id"])
    return {
        "anns": by_id["annotations"],
        "cats": by_id["categories"],
        "imgs": by_id["images"],
        "img_ann_map": of_image,
        "cat_img_map": of_class,
    }


def area_of(ann: Dict) -> Any:
    """The area of an annotation."""
    if "area" not in ann:
        raise InputError(f"annotation {ann['id']} of image {ann['image_id']} must have `area`")
    return ann["area"]
