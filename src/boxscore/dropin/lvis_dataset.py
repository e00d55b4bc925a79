"""LVIS and LVISResults: the dataset classes of `lvis`. Their dicts are made when one is first read."""

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
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.boxes import Boxes
from boxscore.dropin import mask
from boxscore.dropin.store import (
    FileName,
    FileSnapshot,
    LazyDataset,
    LazyIndex,
    LazyResults,
    complete_masks,
    get_lazy,
    mask_of,
)

Dict = dict[str, Any]


class InvalidFileError(InputError, AssertionError):
    """Raised for a file or results of another kind, for which `lvis` raises an AssertionError."""

    __module__ = "boxscore"


class UnsupportedTypeError(InputError, TypeError):
    """Raised for an argument of another type, for which `lvis` raises a TypeError."""

    __module__ = "boxscore"


class ClassPairs(NamedTuple):
    """The classes that images list, as pairs of an image and a class, one per row."""

    image: NDArray[np.int64]
    category: NDArray[np.int64]


class LazyFederated(LazyDataset):
    """An LVIS file whose annotations are all in columns, with the classes that were verified in its images."""

    def __init__(self, *args: Any, frequency: dict[int, str], negative: ClassPairs, not_exhaustive: ClassPairs) -> None:
        super().__init__(*args)
        self.frequency, self.negative, self.not_exhaustive = frequency, negative, not_exhaustive

    @classmethod
    def _read_more(cls, file: FileSnapshot, read: Any) -> Dict | None:
        images, categories = read.images, read.categories
        lists = (images.negative, images.not_exhaustive)
        if any(each is None or not each[2].all() for each in lists) or not all(categories.frequency):
            return None
        if _compiled.distinct(images.id).size < images.id.size or file.has(b'"ignore"'):
            return None
        negative, not_exhaustive = (
            ClassPairs(np.repeat(images.id, np.diff(end, prepend=0)), value) for value, end, _ in lists
        )
        frequency = dict(zip(categories.id.tolist(), categories.frequency, strict=True))
        return {"frequency": frequency, "negative": negative, "not_exhaustive": not_exhaustive}

    def header(self) -> Dict:
        """A copy of all parts of the file except the annotations, for the results of a detector."""
        return copy_all_but_annotations(self.dataset())


def copy_all_but_annotations(dataset: Dict) -> Dict:
    """Copy all parts of a dataset except the annotations."""
    return {key: copy.deepcopy(value) for key, value in dataset.items() if key != "annotations"}


class LVIS(LazyIndex):
    """A dataset from a file, as in `lvis.LVIS`.

    Args:
        annotation_path: The path of the file.
    """

    INDEX = ("anns", "img_ann_map", "cat_img_map", "imgs", "cats")
    QUERIES = ("get_ann_ids", "get_cat_ids", "get_img_ids", "load_anns", "load_cats", "load_imgs", "ann_to_rle")

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

    def _index_of(self, dataset: Dict) -> Dict:
        check_rows(dataset, self._source)
        return super()._index_of(dataset)

    def _load_json(self, path: FileName) -> Any:
        """Parse a JSON file."""
        return parsed(FileSnapshot(path))

    def _create_index(self) -> None:
        """Create the index, `anns`, `imgs`, `cats`, `img_ann_map` and `cat_img_map`, from `dataset`."""
        self.logger.info("Creating index.")
        self.__dict__.update(self._index_of(self.dataset))
        self.logger.info("Index created.")

    def get_ann_ids(
        self, img_ids: Any = None, cat_ids: Any = None, area_rng: Sequence[float] | None = None
    ) -> list[Any]:
        """Get the ids of annotations by image, class and area range; None skips a filter.

        As in LVIS: with classes or a range, annotations of area 0 are excluded.
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
        """Get the ids of all classes."""
        lazy = get_lazy(self)
        return list(lazy.categories if isinstance(lazy, LazyFederated) else self.cats)

    def get_img_ids(self) -> list[Any]:
        """Get the ids of all images."""
        lazy = get_lazy(self)
        return list(lazy.images if isinstance(lazy, LazyFederated) else self.imgs)

    def _load_helper(self, by_id: dict[Any, Dict], ids: Any) -> list[Dict]:
        return list(by_id.values()) if ids is None else [by_id[each] for each in ids]

    def load_anns(self, ids: Any = None) -> list[Dict]:
        """Load the annotations with the given ids, or all."""
        return self._load_helper(self.anns, ids)

    def load_cats(self, ids: Any) -> list[Dict]:
        """Load the classes with the given ids; all for None."""
        return self._load_helper(self.cats, ids)

    def load_imgs(self, ids: Any) -> list[Dict]:
        """Load the images with the given ids; all for None."""
        return self._load_helper(self.imgs, ids)

    def download(self, save_dir: FileName, img_ids: Any = None) -> None:
        """Raise `InputError`: boxscore downloads nothing."""
        del save_dir, img_ids
        raise InputError("boxscore downloads no images; `coco_url` of each image in `lvis.imgs` is its address")

    def ann_to_rle(self, ann: Dict) -> Any:
        """Convert the polygons or run lengths of an annotation to RLE."""
        return mask_of(ann, self.imgs)

    def ann_to_mask(self, ann: Dict) -> Any:
        """Convert the polygons or run lengths of an annotation to a binary mask, one byte per pixel."""
        return mask.decode(self.ann_to_rle(ann))


def parsed(file: FileSnapshot) -> Any:
    """Parse a JSON file."""
    try:
        return file.parse()
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file.name}: not JSON: {error}") from None


def check_rows(dataset: Dict, source: str) -> None:
    """Raise `InputError` for the first row of a dataset that lacks an id."""
    for key, what in (("annotations", "annotation"), ("images", "image"), ("categories", "category")):
        rows = dataset.get(key)
        if not isinstance(rows, list):
            got = "nothing" if rows is None else f"a {type(rows).__name__}"
            raise InputError(f"{source}: `{key}` must be a list; got {got}")
        wanted = ("id", "image_id", "category_id") if key == "annotations" else ("id",)
        check_keys(rows, wanted, f"{source}: {what}")


def check_keys(rows: list[Any], wanted: Sequence[str], what: str) -> None:
    """Raise `InputError` for the first row that is not a dict, or lacks a key."""
    for row, each in enumerate(rows):
        if not isinstance(each, dict):
            raise InputError(f"{what} {row} must be an object; got a {type(each).__name__}")
        for key in wanted:
            if key not in each:
                raise InputError(f"{what} {row} must have `{key}`")


def area_of(ann: Dict) -> Any:
    """The area of an annotation; an error if it has none."""
    if "area" not in ann:
        raise InputError(f"annotation {ann['id']} of image {ann['image_id']} must have `area`")
    return ann["area"]


class LimitedResults(LazyResults):
    """Results from a file as columns, in the order of `lvis`, within a limit per image."""

    def __init__(self, results: LazyResults, max_dets: int) -> None:
        given = results.columns
        assert given.score is not None
        self._results, self._row = results, limited_rows(given.image, given.score, max_dets)
        columns = given.take(self._row)._replace(id=np.arange(1, self._row.size + 1))
        super().__init__(results._source, columns, results._header)

    def shapes(self, kind: type[Geometry], compared: Any = None) -> Any:
        """The shapes of all results, as in `LazyResults`."""
        if kind is Boxes:
            return self.columns.box
        shapes = self._results.shapes(kind, compared)
        return None if shapes is None else shapes.take(self._row)

    def dataset(self) -> Dict:
        """The results as in `lvis`: the dataset without its annotations, and one completed dict per result."""
        assert isinstance(self._source, FileSnapshot)
        assert isinstance(self._header, LazyFederated)
        given = parsed(self._source)
        anns = [given[row] for row in self._row.tolist()]
        complete_federated(anns)
        return {**self._header.header(), "annotations": anns}


class LVISResults(LVIS):
    """Results as in `lvis.LVISResults`.

    Args:
        lvis_gt: The dataset, or its path.
        results: The path of a file, or a list of dicts, which are completed in place.
        max_dets: The number of detections per image that count, those with the highest scores; negative: all.
    """

    def __init__(self, lvis_gt: Any, results: Any, max_dets: int = 300) -> None:
        self.logger = logging.getLogger(__name__)
        self.logger.info("Loading and preparing results.")
        lvis_gt = as_dataset("lvis_gt", lvis_gt)
        self._lazy = None
        self._source = "results"
        header = get_lazy(lvis_gt)
        if isinstance(results, str | os.PathLike):
            self._source = os.fspath(results)
            file = FileSnapshot(results)
            lazy = LazyResults.from_file(file, header) if isinstance(header, LazyFederated) else None
            if lazy is not None:
                self._lazy = LimitedResults(lazy, max_dets)
                _check_images(set(np.unique(lazy.columns.image).tolist()), lvis_gt)
                return
            results = parsed(file)
        if not isinstance(results, list):
            got = type(results).__name__
            raise InvalidFileError(f"`results` must be a list of dicts, or the path of a file with one; got a {got}")
        check_keys(results, ("image_id", "category_id", "score"), f"{self._source}: result")
        _check_images({ann["image_id"] for ann in results}, lvis_gt)
        anns = self.limit_dets_per_image(results, max_dets) if max_dets >= 0 else results
        complete_federated(anns)
        header = header.header() if isinstance(header, LazyFederated) else copy_all_but_annotations(lvis_gt.dataset)
        self.dataset = {**header, "annotations": anns}
        self._create_index()

    def limit_dets_per_image(self, anns: list[Dict], max_dets: int) -> list[Dict]:
        """Group the results by image; of an image with more than `max_dets`, keep those with the highest scores."""
        by_image: dict[Any, list[Dict]] = {}
        for ann in anns:
            by_image.setdefault(ann["image_id"], []).append(ann)
        for image, own in by_image.items():
            if len(own) > max_dets:
                by_image[image] = sorted(own, key=lambda ann: ann["score"], reverse=True)[:max_dets]
        return [ann for own in by_image.values() for ann in own]

    def get_top_results(self, img_id: Any, score_thrs: float) -> list[Dict]:
        """Get the results of an image with a score above a threshold."""
        return [ann for ann in self.load_anns(self.get_ann_ids(img_ids=[img_id])) if ann["score"] > score_thrs]


def as_dataset(argument: str, value: Any) -> LVIS:
    """Load a dataset from its path; return a dataset unchanged."""
    if isinstance(value, LVIS):
        return value
    if isinstance(value, str | os.PathLike):
        return LVIS(value)
    raise UnsupportedTypeError(f"`{argument}` must be a boxscore.lvis.LVIS or a path; got {type(value).__name__}")


def limited_rows(image: NDArray[np.int64], score: NDArray[np.float64], max_dets: int) -> NDArray[np.int64]:
    """The rows that `limit_dets_per_image` keeps, in its order.

    >>> limited_rows(np.array([7, 3, 7, 7]), np.array([0.1, 0.5, 0.9, 0.9]), 2).tolist()
    [2, 3, 1]
    """
    if max_dets < 0:
        return np.arange(image.size)
    _, first, index, count = np.unique(image, return_index=True, return_inverse=True, return_counts=True)
    order = np.lexsort((np.where(count[index] > max_dets, -score, 0.0), first[index]))
    rank = np.arange(order.size) - np.searchsorted(first[index][order], first[index][order])
    return order[rank < max_dets]


def complete_federated(anns: list[Dict]) -> None:
    """Give results an area, an id, and a missing box or mask.

    As in LVIS: the first result decides whether all areas are areas of boxes or of masks.
    """
    if not anns:
        return
    if "bbox" in anns[0]:
        for ann in anns:
            _check_box(ann)
        _compiled.complete_boxes(anns, has_crowds=False)
    elif "segmentation" in anns[0]:
        for ann in anns:
            _check_mask(ann)
        try:
            complete_masks(anns, has_crowds=False)
        except ValueError as error:
            raise InputError(f"results: `segmentation` must be COCO's compressed run lengths: {error}") from None
    else:
        raise InputError("results must have `bbox` or `segmentation`; the first one has neither")


def _check_box(ann: Dict) -> None:
    box = ann.get("bbox")
    if box is None or len(box) != 4:
        got = "nothing" if box is None else f"{len(box)}"
        raise InputError(
            f"a result of image {ann['image_id']} must have 4 numbers in `bbox`, as the first result has; got {got}"
        )


def _check_mask(ann: Dict) -> None:
    given = ann.get("segmentation")
    if not isinstance(given, dict) or not isinstance(given.get("counts"), str | bytes):
        raise InputError(
            f"a result of image {ann['image_id']} must have compressed run lengths in `segmentation`, as the first"
            " result has no `bbox`"
        )


def _check_images(images: set[Any], lvis_gt: LVIS) -> None:
    foreign = images - set(lvis_gt.get_img_ids())
    if foreign:
        some = next(iter(foreign))
        raise InvalidFileError(f"Results do not correspond to current LVIS set: image {some!r} is not in it")
