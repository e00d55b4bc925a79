"""COCO: pycocotools' dataset class. Its dicts are made when one is first read."""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore.dropin import mask, poses
from boxscore.dropin.patch import fallback_attributes, warn_if_displaced
from boxscore.dropin.store import (
    AnnotationSnapshot,
    FileName,
    FileSnapshot,
    LazyDataset,
    LazyIndex,
    LazyResults,
    array_to_dicts,
    complete_results,
    copy_header,
    get_lazy,
    header_index,
    mask_of,
    read_columns,
)

Dict = dict[str, Any]

maskUtils = mask  # pycocotools' name, which other packages import


CROWD_COLOR = np.array([2.0, 166.0, 101.0]) / 255


class COCO(LazyIndex):
    """A dataset, or the results of a detector, as in `pycocotools.coco.COCO`.

    Args:
        annotation_file: The path of a JSON file; None for an empty dataset.

    >>> coco = COCO()
    >>> coco.dataset = {"images": [{"id": 7}], "annotations": [], "categories": [{"id": 1, "name": "cat"}]}
    >>> coco.createIndex()
    creating index...
    index created!
    >>> coco.getImgIds(), coco.getCatIds(catNms=["cat"])
    ([7], [1])
    """

    INDEX = ("anns", "imgToAnns", "catToImgs", "imgs", "cats")
    QUERIES = ("getAnnIds", "getCatIds", "getImgIds", "loadAnns", "_anns_of")

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
        self._load(annotation_file)

    def _load(self, source: Any) -> None:
        """Read a dataset and index it."""
        self._say("loading annotations into memory...")
        start = time.time()
        read = self._read(source)
        if isinstance(read, LazyDataset):
            self._set_lazy(read)
        elif type(read) is dict:
            self.dataset = read
        else:
            raise AssertionError(f"annotation file format {type(read)} not supported")  # as in COCO
        self._say(f"Done (t={time.time() - start:0.2f}s)")
        self.createIndex()

    def _read(self, source: FileName) -> Any:
        """Read a file as lazy columns, or as JSON if columns can't represent it."""
        file = FileSnapshot(source)
        return LazyDataset.from_file(file) or file.parse()

    def _say(self, text: Any) -> None:
        print(text)

    def createIndex(self) -> None:
        """Create the index, `anns`, `imgs`, `cats`, `imgToAnns` and `catToImgs`, from `dataset`."""
        self._say("creating index...")
        if get_lazy(self) is None:
            self._index_dicts()
        self._say("index created!")

    def _index_dicts(self) -> None:
        """Index dicts that are not lazy. If all ids are integers, annotations are only indexed on first use."""
        snapshot = self.__dict__.get("_next_snapshot") or AnnotationSnapshot.of(self.dataset)
        if snapshot is None:
            self.__dict__.update(self._index_of(self.dataset))
        else:
            self.__dict__.update(zip(self.INDEX[3:], header_index(self.dataset), strict=True))
            for name in self.INDEX[:3]:
                self.__dict__.pop(name, None)
        self._snapshot, self._next_snapshot = snapshot, None

    def info(self) -> None:
        """Print information about the annotation file."""
        for key, value in self.dataset["info"].items():
            self._say(f"{key}: {value}")

    def getAnnIds(
        self, imgIds: Any = (), catIds: Any = (), areaRng: Sequence[float] = (), iscrowd: bool | None = None
    ) -> list[Any]:
        """Get the ids of annotations by image, class, area range and `iscrowd`; an empty filter is skipped."""
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
        """Get the ids of classes by name, supercategory and id; an empty filter is skipped."""
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
        """Get the ids of images by id and by class: an image must have all given classes."""
        imgIds, catIds = _as_list(imgIds), _as_list(catIds)
        if len(imgIds) == len(catIds) == 0:
            lazy = get_lazy(self)
            return list(lazy.images if isinstance(lazy, LazyDataset) else self.imgs)
        ids = set(imgIds)
        for row, label in enumerate(catIds):
            with_class = set(self.catToImgs[label])
            ids = with_class if row == 0 and not ids else ids & with_class
        return list(ids)

    def loadAnns(self, ids: Any = ()) -> Any:
        """Load the annotations with the given ids."""
        return _load(self.anns, ids)

    def loadCats(self, ids: Any = ()) -> Any:
        """Load the classes with the given ids."""
        return _load(self.cats, ids)

    def loadImgs(self, ids: Any = ()) -> Any:
        """Load the images with the given ids."""
        return _load(self.imgs, ids)

    def showAnns(self, anns: Sequence[Dict], draw_bbox: bool = False) -> int | None:
        """Display annotations: draw them into matplotlib's current axes, or print captions."""
        if len(anns) == 0:
            return 0
        if "segmentation" in anns[0] or poses.KEY in anns[0]:
            draw_annotations(anns, self, draw_bbox=draw_bbox)
        elif "caption" in anns[0]:
            for ann in anns:
                print(ann["caption"])
        else:
            raise Exception("datasetType not supported")  # as in COCO
        return None

    def loadRes(self, resFile: Any) -> "COCO":
        """Load the results of a detector on this dataset from a file, a list of dicts, or an array (N, 7).

        The dicts of a list become the annotations, and get `area`, `id` and `iscrowd`, as in pycocotools.
        """
        results: COCO = self._load_results(COCO(), resFile)
        return results

    def _load_results(self, results: Any, source: Any, **settings: Any) -> Any:
        """Read results into a dataset, and index it."""
        self._say("Loading and preparing results...")
        start = time.time()
        self._fill(results, self._read_results(source, **settings))
        self._say(f"DONE (t={time.time() - start:0.2f}s)")
        results.createIndex()
        return results

    def _fill(self, results: "COCO", given: LazyResults | list[Dict]) -> None:
        load_results(results, given, self)

    def _read_results(self, source: Any) -> LazyResults | list[Dict]:
        """Read results as lazy columns, or as dicts if columns can't represent them."""
        anns = source
        if isinstance(source, str | os.PathLike):
            file = FileSnapshot(source)
            anns = LazyResults.from_file(file, self._header()) or file.parse()
        elif isinstance(source, np.ndarray):
            describe_array(source, self._say)
            anns = LazyResults.from_array(source, self._header()) or array_to_dicts(source)
        if type(anns) not in (LazyResults, list):
            raise AssertionError("results in not an array of objects")  # as in COCO
        return anns  # type: ignore[no-any-return]

    def _header(self) -> LazyDataset | Dict:
        lazy = get_lazy(self)
        return lazy if isinstance(lazy, LazyDataset) else copy_header(self.dataset)

    def loadNumpyAnnotations(self, data: NDArray[Any]) -> list[Dict]:
        """Convert rows of image, x, y, width, height, score, class to dicts."""
        describe_array(data, self._say)
        return array_to_dicts(data)

    def download(self, tarDir: FileName | None = None, imgIds: Any = ()) -> None:
        """Raise `InputError`: boxscore downloads nothing."""
        del tarDir, imgIds
        raise InputError("boxscore downloads no images; `coco_url` of each image in `coco.imgs` is its address")

    def annToRLE(self, ann: Dict) -> Any:
        """Convert the polygons or run lengths of an annotation to RLE."""
        return mask_of(ann, self.imgs)

    def annToMask(self, ann: Dict) -> Any:
        """Convert the polygons or run lengths of an annotation to a binary mask, one byte per pixel."""
        return mask.decode(self.annToRLE(ann))


def draw_annotations(anns: Sequence[dict[str, Any]], coco: Any, *, draw_bbox: bool) -> None:
    """Draw polygons, masks, poses and optionally boxes, in random colours, into matplotlib's current axes."""
    from matplotlib import pyplot
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Polygon

    axes = pyplot.gca()
    axes.set_autoscale_on(False)
    shapes, colors = [], []
    for ann in anns:
        color = tuple((np.random.random(3) * 0.6 + 0.4).tolist())  # noqa: NPY002 — follows np.random.seed, as users expect
        corners = []
        if isinstance(ann.get("segmentation"), list):
            corners += [np.array(polygon).reshape(-1, 2) for polygon in ann["segmentation"]]
        elif "segmentation" in ann:
            pixels = mask.decode(coco.annToRLE(ann))
            tint = CROWD_COLOR if ann["iscrowd"] else color
            axes.imshow(np.dstack([np.broadcast_to(tint, (*pixels.shape, 3)), pixels * 0.5]))
        if isinstance(ann.get(poses.KEY), list):
            poses.draw(axes, ann, coco.loadCats([ann["category_id"]])[0]["skeleton"], color)
        if draw_bbox:
            x, y, width, height = ann["bbox"]
            corners.append(np.array([[x, y], [x, y + height], [x + width, y + height], [x + width, y]]))
        shapes += [Polygon(each) for each in corners]
        colors += [color] * len(corners)
    axes.add_collection(PatchCollection(shapes, facecolor=colors, linewidths=0, alpha=0.4))
    axes.add_collection(PatchCollection(shapes, facecolor="none", edgecolors=colors, linewidths=2))


def load_results(results: COCO, given: LazyResults | list[Dict], dataset: Any) -> None:
    """Fill `results` with the given annotations, which must be of images of `dataset`, without indexing them."""
    columns: Any = given.columns if isinstance(given, LazyResults) else read_columns(given, ("image_id", "category_id"))
    if columns is not None:
        images = set(_compiled.distinct(columns.image).tolist())
    else:
        images = {ann["image_id"] for ann in given}  # type: ignore[union-attr]
    # A batch of results is small and the dataset may be large: use its index, if any, instead of a set of its ids.
    has_index = type(dataset).getImgIds is COCO.getImgIds and "imgs" in dataset.__dict__
    if not (images <= dataset.imgs.keys() if has_index else images <= set(dataset.getImgIds())):
        raise AssertionError("Results do not correspond to current coco set")  # as in COCO
    if isinstance(given, LazyResults):
        results._set_lazy(given)
        return
    results.dataset, are_numbered = dataset_of_results(given, copy_header(dataset.dataset))
    if are_numbered and columns is not None and columns.has_int_ids:
        results._next_snapshot = AnnotationSnapshot(
            annotations=list(given),
            image=columns.image,
            id=np.arange(1, len(given) + 1),
            category=columns.category,
        )


def dataset_of_results(anns: list[Dict], header: Dict) -> tuple[Dict, bool]:
    """Make a dataset of captions, boxes, masks or poses; return also whether ids are known to be 1, 2, 3, …"""
    first = anns[0]
    dataset = {"info": header["info"], "images": header["images"]}
    are_numbered = False
    if "caption" in first:
        with_caption = {ann["image_id"] for ann in anns}
        dataset["images"] = [image for image in dataset["images"] if image["id"] in with_caption]
        for number, ann in enumerate(anns, start=1):
            ann["id"] = number
    elif first.get("bbox", []) != [] or "segmentation" in first or poses.KEY in first:
        dataset["categories"] = header["categories"]
        are_numbered = complete_results(anns)
    return {**dataset, "annotations": anns}, are_numbered


def describe_array(data: NDArray[Any], say: Callable[[Any], Any]) -> None:
    """Print pycocotools' messages about an array of results, and refuse one without 7 columns."""
    say("Converting ndarray to lists...")
    say(data.shape)
    if data.shape[1] != 7:
        raise AssertionError(f"results must have 7 columns; got an array of shape {data.shape}")
    for row in range(0, len(data), 1_000_000):
        say(f"{row}/{len(data)}")


def _isArrayLike(value: Any) -> bool:  # pycocotools' name, which other packages import
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
