"""The annotation store: datasets and results from files, arrays and dicts, as columns and as the dicts of clients.

Files and arrays are lazy: their dicts are made when one is first read. For half a million boxes that takes seconds, and
most evaluations never read a dict. Dicts may change at any time, so their columns are never stored: each evaluation
reads them again, in one compiled pass.
"""

import copy
import json
import os
import weakref
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.locks import fork_safe_lock
from boxscore._support.threads import num_threads
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.boxes import Boxes
from boxscore.data.geometry.masks import Masks
from boxscore.dropin import mask, poses

Dict = dict[str, Any]
FileName = str | os.PathLike[str]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Images and classes, one pair per row."""

_HEAD_SIZE = 1 << 16
"""The number of bytes within which the first record of a file begins."""


class FileSnapshot:
    """A file with the content that it had when it was opened. It stays open, so its bytes are only loaded when needed.

    The file may be moved or deleted. If it is written to, `content` raises. Copies and pickles contain the bytes.
    """

    def __init__(self, name: FileName, content: bytes | None = None) -> None:
        self.name, self._content = os.fspath(name), content
        if content is not None:
            return
        if os.name == "nt" or not Path(name).is_file():  # Windows can't delete an open file; a pipe is read once
            self._content = Path(name).read_bytes()
            return
        self._descriptor = os.open(name, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)
        self._identity = _identity(os.fstat(self._descriptor))

    def read_columns(self, shapes: str = "boxes", *, compared: Pairs | None = None, keeps_third: bool = False) -> Any:
        """Read the `_compiled.CocoFile`; return None if the file lacks the `shapes`, the key of a geometry.

        Masks whose image and class are not in `compared` only get an area.
        """
        wanted = getattr(_compiled.CocoShapes, shapes)
        settings: Dict = {"num_threads": num_threads(None), "shapes": wanted, "compared": compared}
        settings["keeps_third"] = keeps_third
        try:
            if self._content is None and self._is_there():
                columns = _compiled.read_coco_file(os.fsencode(self.name), **settings)
                if self._is_there():
                    return columns
            # The bytes are in memory, or the file was moved or replaced.
            return _compiled.read_coco_bytes(self.content(), **settings)
        except _compiled.CocoError:
            return None

    def _is_there(self) -> bool:
        try:
            return _identity(Path(self.name).stat()) == self._identity
        except OSError:
            return False

    def head(self, size: int) -> bytes:
        """The first bytes."""
        return os.pread(self._descriptor, size, 0) if self._content is None else self._content[:size]

    def content(self) -> bytes:
        """All bytes; an error if the file was written to since it was opened."""
        if self._content is not None:
            return self._content
        blocks: list[bytes] = []
        num_read = 0
        while block := os.pread(self._descriptor, 1 << 30, num_read):
            blocks.append(block)
            num_read += len(block)
        if _identity(os.fstat(self._descriptor)) != self._identity:
            raise InputError(
                f"{self.name}: was written to after it was loaded, so its annotations are no longer available as "
                "dicts; read them before writing, or write to another file"
            )
        return b"".join(blocks)

    def has(self, part: bytes) -> bool:
        """Whether the file contains a short sequence of bytes."""
        if self._content is not None:
            return part in self._content
        tail, num_read = b"", 0
        while block := os.pread(self._descriptor, 1 << 24, num_read):
            if part in (tail := tail + block):
                return True
            tail, num_read = tail[-len(part) :], num_read + len(block)
        return False

    def parse(self) -> Any:
        """Parse the JSON with Python's json."""
        return json.loads(self.content())

    def __reduce__(self) -> tuple[Any, ...]:
        return FileSnapshot, (self.name, self.content())


def _identity(status: os.stat_result) -> tuple[int, ...]:
    """Device, inode, size and time of modification, which identify a file and its version."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class AnnotationColumns(NamedTuple):
    """Annotations, one row each, in the order of the file or array."""

    image: Ints
    category: Ints
    box: Floats
    """In xywh. Shape (N, 4)."""
    id: Ints
    area: Floats | None = None
    """None: the areas of the boxes."""
    is_crowd: NDArray[np.uint8] | None = None
    score: Floats | None = None

    @property
    def areas(self) -> Floats:
        """The given areas, or the areas of the boxes."""
        return self.box[:, 2] * self.box[:, 3] if self.area is None else self.area

    def take(self, row: Ints) -> "AnnotationColumns":
        """Select rows."""
        columns: list[Any] = [None if column is None else column[row] for column in self]
        return AnnotationColumns(*columns)


class LazyDataset:
    """A dataset file whose annotations are all in columns. Shapes other than boxes are read on first use."""

    def __init__(self, file: FileSnapshot, columns: AnnotationColumns, read: Any) -> None:
        self.columns = columns
        self.read: Any = read
        """The `_compiled.CocoFile`; None in a copy."""
        self.categories = dict(zip(read.categories.id.tolist(), read.categories.name, strict=True))
        self._file: FileSnapshot | None = file
        self._parsed: Dict = {}
        self._shapes: dict[type[Geometry], Any] = {Boxes: columns.box}
        self._by_image: Pairs | None = None

    @cached_property
    def images(self) -> dict[int, None]:
        """The ids of all images, in the order of the file."""
        return dict.fromkeys(self.read.images.id.tolist())

    def __getstate__(self) -> Dict:
        """The state of a copy, without `read`: results with polygons are then read as dicts."""
        return {**vars(self), "images": self.images, "read": None}

    def rows_of(self, images: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of some images, ascending, by binary search: for evaluations batch by batch."""
        if self._by_image is None:
            order = np.argsort(self.columns.image, kind="stable")
            self._by_image = order, self.columns.image[order]
        order, ascending = self._by_image
        first, last = (np.searchsorted(ascending, images, side=side) for side in ("left", "right"))
        return np.sort(
            np.concatenate([order[slice(*each)] for each in zip(first.tolist(), last.tolist(), strict=True)])
        )

    @classmethod
    def from_file(cls, file: FileSnapshot) -> "Self | None":
        """Read a file; return None if columns can't represent all of it."""
        read = read_boxes(file)
        if read is None or not read.is_dataset or read.images is None or read.categories is None:
            return None
        boxes = read.boxes
        if boxes.id is None or boxes.area is None or boxes.mask_area is not None or np.isnan(boxes.area).any():
            return None
        if read.images.names is not None or not _are_distinct(boxes.id):
            return None
        more = cls._read_more(file, read)
        if more is None:
            return None
        columns = AnnotationColumns(
            boxes.image, boxes.category, boxes.box, id=boxes.id, area=boxes.area, is_crowd=boxes.is_crowd
        )
        return cls(file, columns, read, **more)

    @classmethod
    def _read_more(cls, file: FileSnapshot, read: Any) -> Dict | None:  # noqa: ARG003
        """Further arguments of the class, from a `_compiled.CocoFile`; None if it lacks a value that clients need."""
        return None if read.boxes.num_flagged < len(read.boxes.id) else {}

    def shapes(self, kind: type[Geometry], compared: Any = None) -> Any:  # noqa: ARG002
        """The shapes of all annotations: boxes in xywh, or a geometry; None if not all have one."""
        if kind not in self._shapes and self._file is not None:
            read = self._file.read_columns(kind.key, keeps_third=True)
            if read is None:
                self._shapes[kind] = None
            elif kind is Masks:
                self._shapes[kind] = drawn(read, read.complete_truths)
            else:
                columns = self.columns
                self._shapes[kind] = poses.labelled_in_file(read.boxes, area=columns.areas, box=columns.box)
        return self._shapes.get(kind)

    def dataset(self) -> Dict:
        """The file as dicts, parsed once, so that all users share them."""
        if self._file is not None:
            self._parsed = self._file.parse()
            self._header = copy_header(self._parsed)
            self._file = None
        return self._parsed

    def header(self) -> Dict:
        """A copy of all parts of the file except the annotations, for the results of a detector."""
        self.dataset()
        return copy_header(self._header)


class LazyResults:
    """The results of a detector, from a file or an array, and their dataset."""

    def __init__(
        self,
        source: FileSnapshot | NDArray[Any],
        columns: AnnotationColumns,
        header: "LazyDataset | Dict",
        shapes: Sequence[Geometry] = (),
        *,
        is_partial: bool = False,
    ) -> None:
        self.columns = columns
        self._source, self._header = source, header
        self._shapes: dict[type[Geometry], Any] = {Boxes: columns.box, **{type(each): each for each in shapes}}
        self._is_partial = is_partial

    @classmethod
    def from_file(cls, file: FileSnapshot, header: "LazyDataset | Dict") -> "LazyResults | None":
        """Read a file; return None if columns can't represent all of it."""
        if not _has_categories(header) or b'"caption"' in (head := file.head(_HEAD_SIZE)):
            return None
        # Results with masks are most likely evaluated as masks against this dataset: read the compared masks now.
        read, compared = None, None
        if b'"segmentation"' in head:
            if isinstance(header, LazyDataset) and b'"bbox"' in head:
                compared = header.columns.image, header.columns.category
            read = read_boxes(file, "masks", compared=compared)
            if read is not None and read.boxes.mask_area is not None and compared is not None:
                read, compared = read_boxes(file, "masks"), None  # boxes come from masks, so all masks are needed
        if read is None and f'"{poses.KEY}"'.encode() in head:
            read = read_boxes(file, poses.KEY)
        read = read or read_boxes(file)
        if read is None or read.is_dataset or read.boxes.score is None:
            return None
        # as in COCO: the first result decides whether boxes are given, or made around other shapes
        is_missing = np.isnan(read.boxes.box[:, 0])
        if is_missing.any() and not is_missing[0]:
            return None
        boxes, masks = read.boxes, _drawn_results(read, header)
        if masks is None and (boxes.segmentations is not None or boxes.mask_area is not None):
            return None
        columns = AnnotationColumns(
            boxes.image,
            boxes.category,
            boxes.box,
            id=np.arange(1, len(boxes.box) + 1),
            area=boxes.area,
            score=boxes.score,
        )
        shapes = [shape for shape in (masks, poses.detected_in_file(boxes)) if shape is not None]
        return cls(file, columns, header, shapes, is_partial=compared is not None)

    @classmethod
    def from_array(cls, data: NDArray[Any], header: "LazyDataset | Dict") -> "LazyResults | None":
        """Read rows of image, x, y, width, height, score, class; return None for types except float32 and float64."""
        if data.dtype not in (np.float32, np.float64) or len(data) == 0 or not _has_categories(header):
            return None
        if not (np.abs(data[:, [0, 6]]) < 2**53).all():
            return None
        data = data.copy()
        columns = AnnotationColumns(
            data[:, 0].astype(np.int64),
            data[:, 6].astype(np.int64),
            np.ascontiguousarray(data[:, 1:5], np.float64),
            id=np.arange(1, len(data) + 1),
            area=(data[:, 3] * data[:, 4]).astype(np.float64),
            score=data[:, 5].astype(np.float64),
        )
        return cls(data, columns, header)

    def shapes(self, kind: type[Geometry], compared: Any = None) -> Any:
        """The shapes of all results: boxes in xywh, or a geometry; None if not all have one.

        With `compared` truths, masks without a truth of the same image and class may have only an area.
        """
        lacks_masks = self._is_partial and kind is Masks and compared is not self._header
        if (lacks_masks or kind not in self._shapes) and isinstance(self._source, FileSnapshot):
            read = self._source.read_columns(kind.key)
            if read is None:
                self._shapes[kind] = None
            elif kind is Masks:
                self._shapes[kind], self._is_partial = _drawn_results(read, self._header), False
            else:
                self._shapes[kind] = poses.detected_in_file(read.boxes)
        return self._shapes.get(kind)

    def dataset(self) -> Dict:
        """The results as in pycocotools: the dataset's header, and one completed dict per result."""
        header = self._header.header() if isinstance(self._header, LazyDataset) else self._header
        is_file = isinstance(self._source, FileSnapshot)
        anns = self._source.parse() if is_file else array_to_dicts(self._source)  # type: ignore[union-attr, arg-type]
        complete_results(anns)
        return {**header, "annotations": anns}


def drawn(read: Any, complete: Callable[[int], None]) -> Masks | None:
    """Complete the rows of a `_compiled.CocoFile`, and draw its masks; return None if one can't be drawn.

    As in COCO: a polygon of fewer than three points is an error; return None, since the path for dicts raises it.
    """
    if read.boxes.segmentations is not None and read.boxes.segmentations.has_short_polygons:
        return None
    try:
        complete(num_threads(None))
    except _compiled.MaskError:
        return None
    found = read.boxes.segmentations
    return Masks(runs=found.masks) if found is not None and found.is_drawn else None


def _drawn_results(read: Any, header: LazyDataset | Dict) -> Masks | None:
    """Complete results and draw their masks. Polygons can only be drawn if the dataset is a file."""
    truths = header.read if isinstance(header, LazyDataset) else None
    return drawn(read, lambda threads: read.complete_detections(threads, truths))


def _has_categories(header: LazyDataset | Dict) -> bool:
    return isinstance(header, LazyDataset) or "categories" in header


def read_boxes(file: FileSnapshot, shapes: str = "boxes", **settings: Any) -> Any:
    """Read the `_compiled.CocoFile`; return None if the file lacks these shapes, integer image ids, or any rows."""
    read = file.read_columns(shapes, **settings)
    return read if read is not None and read.boxes.image_names is None and len(read.boxes.image) else None


def copy_header(dataset: Dict) -> Dict:
    """Copy the parts of a dataset that results need; the dicts of images are shared."""
    header = {"info": copy.deepcopy(dataset.get("info", {})), "images": list(dataset["images"])}
    if "categories" in dataset:
        header["categories"] = copy.deepcopy(dataset["categories"])
    return header


def complete_results(anns: list[Dict]) -> bool:
    """Give results an area, an id, and a missing box or outline; return whether ids are known to be 1, 2, 3, …

    As in COCO: the first result decides whether all have boxes, else masks, else poses.
    """
    if "bbox" in anns[0] and anns[0]["bbox"] != []:
        return _compiled.complete_boxes(anns)
    if "segmentation" in anns[0]:
        complete_masks(anns)
        return False
    return poses.complete(anns)


def complete_masks(anns: list[Dict], *, has_crowds: bool = True) -> None:
    """Give results that only have masks an area, a box, an id and, if `has_crowds`, `iscrowd` 0."""
    masks = [ann["segmentation"] for ann in anns]
    for number, (ann, area, box) in enumerate(zip(anns, mask.area(masks), mask.toBbox(masks), strict=True), start=1):
        ann["area"] = area
        if "bbox" not in ann:
            ann["bbox"] = box
        ann["id"] = number
        if has_crowds:
            ann["iscrowd"] = 0


def mask_of(ann: Dict, images: Mapping[Any, Dict]) -> Any:
    """The mask of an annotation as encoded run lengths; polygons are drawn."""
    image, outline = images[ann["image_id"]], ann["segmentation"]
    if isinstance(outline, list):
        return mask.merge(mask.frPyObjects(outline, image["height"], image["width"]))
    if isinstance(outline["counts"], list):
        return mask.frPyObjects(outline, image["height"], image["width"])
    return outline


def array_to_dicts(data: NDArray[Any]) -> list[Dict]:
    """Make one dict per row of image, x, y, width, height, score, class."""
    return [
        {"image_id": int(row[0]), "bbox": [row[1], row[2], row[3], row[4]], "score": row[5], "category_id": int(row[6])}
        for row in data
    ]


def read_columns(annotations: Any, keys: Sequence[str], *, skips_crowds: bool = False) -> _compiled.DictColumns | None:
    """Read these keys as columns; return None if a value is not a number, or without annotations.

    With `skips_crowds` the areas of crowds are not read, and are 0.
    """
    return _compiled.read_dicts(annotations, list(keys), skips_crowds) if len(annotations) else None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AnnotationSnapshot:
    """The annotations, their ids and images at the time when the index of a dataset was made.

    All ids are integers, and annotation ids are distinct. The dicts belong to the user and may have changed since.
    """

    annotations: list[Dict]
    image: Ints
    id: Ints
    category: Ints | None
    """None if the dataset has no categories."""

    @classmethod
    def of(cls, dataset: Dict) -> "AnnotationSnapshot | None":
        """Make a snapshot; return None if ids are missing or not distinct integers."""
        annotations = dataset.get("annotations", ())
        if type(annotations) is not list:
            return None
        has_categories = "categories" in dataset
        columns = read_columns(annotations, ("image_id", "id", *["category_id"] * has_categories))
        if columns is None or not columns.has_int_ids or not _are_distinct(ids := columns.id):
            return None
        return cls(
            annotations=list(annotations),
            image=columns.image,
            id=ids,
            category=columns.category if has_categories else None,
        )

    def index(self, part: str) -> Any:
        """Build a part of the index: `anns` by id, `of_image` annotations by image, `of_class` images by class."""
        if part == "anns":
            return dict(zip(self.id.tolist(), self.annotations, strict=True))
        grouped = defaultdict(list)
        if part == "of_image":
            for image, annotation in zip(self.image.tolist(), self.annotations, strict=True):
                grouped[image].append(annotation)
        elif self.category is not None:
            for category, image in zip(self.category.tolist(), self.image.tolist(), strict=True):
                grouped[category].append(image)
        return grouped

    def is_mostly_of(self, images: Sequence[Any]) -> bool:
        """Whether `images` are at least half of all, so that reading all annotations beats looking up each image."""
        return 2 * len(images) >= len(_compiled.distinct(self.image))

    def read(self, keys: Sequence[str], *, skips_crowds: bool) -> _compiled.DictColumns | None:
        """Read the current columns; return None if ids of images or annotations have changed since the snapshot."""
        columns = read_columns(self.annotations, keys, skips_crowds=skips_crowds)
        if columns is None or not np.array_equal(columns.image, self.image) or not np.array_equal(columns.id, self.id):
            return None
        return columns


def _are_distinct(ids: Ints) -> bool:
    return bool((ids[1:] > ids[:-1]).all()) or len(_compiled.distinct(ids)) == len(ids)


_index_lock = fork_safe_lock()
"""Held while dicts are made: if several threads read them for the first time, one makes them for all."""

INDEX_PARTS = ("anns", "of_image", "of_class", "imgs", "cats")
"""The parts of an index: annotations by id and by image, images by class, images and classes by id."""


class LazyIndex:
    """A dataset whose dicts are made when one is first read, from its file or its snapshot.

    Once a dict was read or set, the dicts are the data, and lazy columns are dropped.
    """

    INDEX: ClassVar[tuple[str, ...]]
    """The client's names for `INDEX_PARTS`."""
    QUERIES: ClassVar[tuple[str, ...]]
    """The methods that an evaluation calls."""

    _lazy: Any
    _snapshot: AnnotationSnapshot | None

    def _set_lazy(self, lazy: "LazyDataset | LazyResults") -> None:
        """Drop all dicts; make them from `lazy` when one is first read."""
        self._lazy = lazy
        for name in ("dataset", *self.INDEX):
            self.__dict__.pop(name, None)

    def _index_of(self, dataset: Dict) -> Dict:
        """Build all parts of the index of a dataset, by the client's names."""
        return dict(zip(self.INDEX, build_index(dataset), strict=True))

    def __getattr__(self, name: str) -> Any:
        """Make dicts on first use: all dicts of a file, or one part of a snapshot's index."""
        if name == "dataset" or name in self.INDEX:
            with _index_lock:
                lazy = self.__dict__.get("_lazy")
                if lazy is not None:
                    dataset = lazy.dataset()
                    for key, value in {"dataset": dataset, **self._index_of(dataset)}.items():
                        self.__dict__.setdefault(key, value)
                    self._lazy = None
                snapshot = self.__dict__.get("_snapshot")
                if name not in self.__dict__ and snapshot is not None and name in self.INDEX[:3]:
                    self.__dict__[name] = snapshot.index(INDEX_PARTS[self.INDEX.index(name)])
                if name in self.__dict__:
                    return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def get_lazy(dataset: Any) -> Any:
    """The lazy annotations of a dataset; None once dicts may have changed, or if a subclass overrides queries."""
    return _untouched(dataset, "_lazy", "dataset", *getattr(dataset, "INDEX", ()))


def get_snapshot(dataset: Any) -> AnnotationSnapshot | None:
    """The snapshot of a dataset; None once its annotations were read or set, or if a subclass overrides queries."""
    return _untouched(dataset, "_snapshot", *getattr(dataset, "INDEX", ())[:2])  # type: ignore[no-any-return]


def _untouched(dataset: Any, name: str, *parts: str) -> Any:
    """A private attribute; None if an instance has one of these attributes, or queries from outside of this package."""
    state = getattr(dataset, "__dict__", {})
    value = state.get(name)
    if value is None or any(part in state for part in (*parts, *dataset.QUERIES)):
        return None
    homes = (getattr(getattr(type(dataset), query), "__module__", "") for query in dataset.QUERIES)
    return value if all(home.startswith("boxscore.dropin.") for home in homes) else None


def build_index(dataset: Dict) -> tuple[Any, ...]:
    """Build the `INDEX_PARTS` of a dataset."""
    anns, of_image, of_class = {}, defaultdict(list), defaultdict(list)
    for ann in dataset.get("annotations", ()):
        of_image[ann["image_id"]].append(ann)
        anns[ann["id"]] = ann
    if "categories" in dataset:
        for ann in dataset.get("annotations", ()):
            of_class[ann["category_id"]].append(ann["image_id"])
    return anns, of_image, of_class, *header_index(dataset)


def header_index(dataset: Dict) -> tuple[Dict, Dict]:
    """The dicts of images and of classes by id."""
    images, classes = ({each["id"]: each for each in dataset.get(key, ())} for key in ("images", "categories"))
    return images, classes
