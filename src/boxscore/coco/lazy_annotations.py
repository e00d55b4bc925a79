"""Lazy annotations: files and arrays as columns. Their dicts are made when somebody first reads one.

A dataset of half a million boxes takes seconds as dicts, and most evaluations never read one.
"""

import copy
import json
import os
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads

Dict = dict[str, Any]
FileName = str | os.PathLike[str]

_HEAD_SIZE = 1 << 16
"""The number of bytes in which the first record of a file surely begins."""


class FileSnapshot:
    """A file as it was when it was opened. It stays open, so that its bytes need not be in memory until they are read.

    The file may be moved or deleted. If it is written to, `content` raises. Copies and pickles have the bytes.
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

    def read_columns(self) -> Any:
        """The `_compiled.CocoFile` of the file; None if it is not a file of boxes."""
        try:
            if self._content is None:
                columns = _compiled.read_coco_file(os.fsencode(self.name), num_threads(None))
                if _identity(Path(self.name).stat()) == self._identity:
                    return columns
            # From memory; or another file has that name already.
            return _compiled.read_coco_bytes(self.content(), num_threads(None))
        except _compiled.CocoError:
            return None

    def head(self, size: int) -> bytes:
        """The first bytes."""
        return os.pread(self._descriptor, size, 0) if self._content is None else self._content[:size]

    def content(self) -> bytes:
        """All bytes, as they were when the file was opened."""
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

    def parse(self) -> Any:
        """The JSON as Python reads it."""
        return json.loads(self.content())

    def __reduce__(self) -> tuple[Any, ...]:
        return FileSnapshot, (self.name, self.content())


def _identity(status: os.stat_result) -> tuple[int, ...]:
    """What tells a file from others, and from itself after a change."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AnnotationColumns:
    """Annotations, one row each, in the order of the file or array."""

    image: NDArray[np.int64]
    category: NDArray[np.int64]
    box: NDArray[np.float64]
    """In xywh. Shape (N, 4)."""
    area: NDArray[np.float64]
    id: NDArray[np.int64]
    is_crowd: NDArray[np.uint8] | None = None
    score: NDArray[np.float64] | None = None


class LazyDataset:
    """A dataset's file whose annotations are all in columns."""

    def __init__(
        self, file: FileSnapshot, columns: AnnotationColumns, images: list[int], categories: dict[int, str]
    ) -> None:
        self.columns, self.images, self.categories = columns, images, categories
        self._file: FileSnapshot | None = file
        self._parsed: Dict = {}

    @classmethod
    def from_file(cls, file: FileSnapshot) -> "LazyDataset | None":
        """None if the file has anything that columns can't represent."""
        read = _read_boxes(file)
        if read is None or not read.is_dataset or read.images is None or read.categories is None:
            return None
        boxes = read.boxes
        if boxes.id is None or boxes.area is None or boxes.num_flagged < len(boxes.id):
            return None
        if read.images.names is not None or np.isnan(boxes.area).any():
            return None
        if len(_compiled.distinct(boxes.id)) < len(boxes.id):
            return None
        columns = AnnotationColumns(
            image=boxes.image,
            category=boxes.category,
            box=boxes.box,
            area=boxes.area,
            id=boxes.id,
            is_crowd=boxes.is_crowd,
        )
        names = dict(zip(read.categories.id.tolist(), read.categories.name, strict=True))
        return cls(file, columns, list(dict.fromkeys(read.images.id.tolist())), names)

    def dataset(self) -> Dict:
        """The file as Python's json reads it: parsed once, so that all who share it share its dicts."""
        if self._file is not None:
            self._parsed = self._file.parse()
            self._header = copy_header(self._parsed)
            self._file = None
        return self._parsed

    def header(self) -> Dict:
        """All but the annotations, as they were in the file, for the results of a detector."""
        self.dataset()
        return copy_header(self._header)


class LazyResults:
    """A detector's results, from a file or an array, and the dataset they belong to."""

    def __init__(
        self, source: FileSnapshot | NDArray[Any], columns: AnnotationColumns, header: "LazyDataset | Dict"
    ) -> None:
        self.columns = columns
        self._source, self._header = source, header

    @classmethod
    def from_file(cls, file: FileSnapshot, header: "LazyDataset | Dict") -> "LazyResults | None":
        """None if the file has anything that columns can't represent."""
        read = _read_boxes(file) if _has_categories(header) else None
        if read is None or read.is_dataset or read.boxes.score is None or b'"caption"' in file.head(_HEAD_SIZE):
            return None
        box = read.boxes.box
        columns = AnnotationColumns(
            image=read.boxes.image,
            category=read.boxes.category,
            box=box,
            area=box[:, 2] * box[:, 3],
            id=np.arange(1, len(box) + 1),
            score=read.boxes.score,
        )
        return cls(file, columns, header)

    @classmethod
    def from_array(cls, data: NDArray[Any], header: "LazyDataset | Dict") -> "LazyResults | None":
        """From rows of image, x, y, width, height, score, class; None for types other than float32 and float64."""
        if data.dtype not in (np.float32, np.float64) or len(data) == 0 or not _has_categories(header):
            return None
        if not (np.abs(data[:, [0, 6]]) < 2**53).all():
            return None
        data = data.copy()
        columns = AnnotationColumns(
            image=data[:, 0].astype(np.int64),
            category=data[:, 6].astype(np.int64),
            box=np.ascontiguousarray(data[:, 1:5], np.float64),
            area=(data[:, 3] * data[:, 4]).astype(np.float64),
            id=np.arange(1, len(data) + 1),
            score=data[:, 5].astype(np.float64),
        )
        return cls(data, columns, header)

    def dataset(self) -> Dict:
        """As pycocotools has it: the dataset's header, and one completed dict per result."""
        header = self._header.header() if isinstance(self._header, LazyDataset) else self._header
        is_file = isinstance(self._source, FileSnapshot)
        anns = self._source.parse() if is_file else array_to_dicts(self._source)  # type: ignore[union-attr, arg-type]
        complete_boxes(anns)
        return {**header, "annotations": anns}


def _has_categories(header: LazyDataset | Dict) -> bool:
    return isinstance(header, LazyDataset) or "categories" in header


def _read_boxes(file: FileSnapshot) -> Any:
    """The `_compiled.CocoFile` of a file; None if it does not have boxes of images with integer ids."""
    read = file.read_columns()
    return read if read is not None and read.boxes.image_names is None and len(read.boxes.image) else None


def copy_header(dataset: Dict) -> Dict:
    """What results take over from a dataset: copies, except for the images, which are shared."""
    header = {"info": copy.deepcopy(dataset.get("info", {})), "images": list(dataset["images"])}
    if "categories" in dataset:
        header["categories"] = copy.deepcopy(dataset["categories"])
    return header


def complete_boxes(anns: list[Dict]) -> None:
    """Give results an outline, an area and an id, and mark them as not crowds."""
    for number, ann in enumerate(anns, start=1):
        box = ann["bbox"]
        # as in COCO: the first four numbers of a box that has more, as rotated boxes do
        x, y, width, height = box[0], box[1], box[2], box[3]
        if "segmentation" not in ann:
            right, bottom = x + width, y + height
            ann["segmentation"] = [[x, y, x, bottom, right, bottom, right, y]]
        ann["area"] = width * height
        ann["id"] = number
        ann["iscrowd"] = 0


def array_to_dicts(data: NDArray[Any]) -> list[Dict]:
    """One dict per row of image, x, y, width, height, score, class."""
    return [
        {"image_id": int(row[0]), "bbox": [row[1], row[2], row[3], row[4]], "score": row[5], "category_id": int(row[6])}
        for row in data
    ]
