"""Files and arrays that are held as they came, with their columns; dicts are made of them when somebody asks.

A dataset of half a million boxes takes seconds as dicts, and most who evaluate never look at one.
"""

import copy
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore.coco.kept import Kept

Dict = dict[str, Any]

_HEAD = 1 << 16
"""As much of a file as its first record surely begins in."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Columns:
    """Annotations, one row each, in the order in which they came."""

    image: NDArray[np.int64]
    category: NDArray[np.int64]
    box: NDArray[np.float64]
    """In xywh. Shape (N, 4)."""
    area: NDArray[np.float64]
    id: NDArray[np.int64]
    is_crowd: NDArray[np.uint8] | None = None
    score: NDArray[np.float64] | None = None


class HeldDataset:
    """A dataset's file whose annotations are all in columns."""

    def __init__(self, file: Kept, columns: Columns, images: list[int], categories: dict[int, str]) -> None:
        self.columns, self.images, self.categories = columns, images, categories
        self._file: Kept | None = file
        self._parsed: Dict = {}

    @classmethod
    def of(cls, file: Kept) -> "HeldDataset | None":
        """None if there is anything in it that only dicts can tell."""
        found = _read(file)
        if found is None or not (found["is_dataset"] and found["images"] and found["categories"]):
            return None
        ids, area, is_crowd = found["id"], found["area"], found["is_crowd"]
        if ids is None or area is None or is_crowd is None or found["num_flagged"] < len(ids):
            return None
        if found["images"]["names"] is not None or np.isnan(area).any() or len(_compiled.distinct(ids)) < len(ids):
            return None
        rows = Columns(
            image=found["image"], category=found["category"], box=found["box"], area=area, id=ids, is_crowd=is_crowd
        )
        names = dict(zip(found["categories"]["id"].tolist(), found["categories"]["name"], strict=True))
        return cls(file, rows, list(dict.fromkeys(found["images"]["id"].tolist())), names)

    def dataset(self) -> Dict:
        """The file as Python's json reads it: once, so that all who share it share its dicts."""
        if self._file is not None:
            self._parsed = parse(self._file)
            self._heading = heading_of(self._parsed)
            self._file = None
        return self._parsed

    def heading(self) -> Dict:
        """All but the annotations, as they were in the file, for the results of a detector."""
        self.dataset()
        return heading_of(self._heading)


class HeldResults:
    """A detector's results, from a file or an array, and the dataset they belong to."""

    def __init__(self, source: Kept | NDArray[Any], columns: Columns, heading: "HeldDataset | Dict") -> None:
        self.columns = columns
        self._source, self._heading = source, heading

    @classmethod
    def of_file(cls, file: Kept, heading: "HeldDataset | Dict") -> "HeldResults | None":
        """None if there is anything in it that only dicts can tell."""
        found = _read(file) if _has_classes(heading) else None
        if found is None or found["is_dataset"] or found["score"] is None or b'"caption"' in file.head(_HEAD):
            return None
        box = found["box"]
        rows = _results(found["image"], found["category"], box, found["score"], box[:, 2] * box[:, 3])
        return cls(file, rows, heading)

    @classmethod
    def of_array(cls, data: NDArray[Any], heading: "HeldDataset | Dict") -> "HeldResults | None":
        """From rows of image, x, y, width, height, score, class; None for what is neither float32 nor float64."""
        if data.dtype not in (np.float32, np.float64) or len(data) == 0 or not _has_classes(heading):
            return None
        if not (np.abs(data[:, [0, 6]]) < 2**53).all():
            return None
        data = data.copy()
        box = np.ascontiguousarray(data[:, 1:5], np.float64)
        area = (data[:, 3] * data[:, 4]).astype(np.float64)
        image, category = data[:, 0].astype(np.int64), data[:, 6].astype(np.int64)
        return cls(data, _results(image, category, box, data[:, 5].astype(np.float64), area), heading)

    def dataset(self) -> Dict:
        """As pycocotools has it: the dataset's heading, and a dict a result, completed."""
        heading = self._heading.heading() if isinstance(self._heading, HeldDataset) else self._heading
        anns = parse(self._source) if isinstance(self._source, Kept) else dicts_of_array(self._source)
        complete_boxes(anns)
        return {**heading, "annotations": anns}


def _has_classes(heading: HeldDataset | Dict) -> bool:
    return isinstance(heading, HeldDataset) or "categories" in heading


def heading_of(dataset: Dict) -> Dict:
    """What results take over of a dataset: copies, but for the images, which are shared."""
    heading = {"info": _copied(dataset.get("info", {})), "images": list(dataset["images"])}
    if "categories" in dataset:
        heading["categories"] = _copied(dataset["categories"])
    return heading


def _copied(value: Any) -> Any:
    """`copy.deepcopy`, which takes its time with what JSON is made of; an evaluator copies classes at every batch."""
    if type(value) is dict:
        return {key: _copied(each) for key, each in value.items()}
    if type(value) is list:
        return [_copied(each) for each in value]
    return value if type(value) in (str, int, float, bool, type(None)) else copy.deepcopy(value)


def complete_boxes(anns: list[Dict]) -> None:
    """Results get an outline, an area and an id, and are no crowds."""
    for number, ann in enumerate(anns, start=1):
        box = ann["bbox"]
        # as in COCO: of a box with more numbers, as those of rotated ones have, the first four
        x, y, width, height = box[0], box[1], box[2], box[3]
        if "segmentation" not in ann:
            right, bottom = x + width, y + height
            ann["segmentation"] = [[x, y, x, bottom, right, bottom, right, y]]
        ann["area"] = width * height
        ann["id"] = number
        ann["iscrowd"] = 0


def dicts_of_array(data: NDArray[Any]) -> list[Dict]:
    """A dict a row of image, x, y, width, height, score, class."""
    return [
        {"image_id": int(row[0]), "bbox": [row[1], row[2], row[3], row[4]], "score": row[5], "category_id": int(row[6])}
        for row in data
    ]


def parse(file: Kept) -> Any:
    """JSON as Python reads it."""
    return json.loads(file.content())


def _read(file: Kept) -> Dict | None:
    """What the compiled reader finds; None if it is not all boxes of images with integers for ids."""
    found = file.columns()
    return found if found is not None and found["image_names"] is None and len(found["image"]) else None


def _results(
    image: NDArray[np.int64],
    category: NDArray[np.int64],
    box: NDArray[np.float64],
    score: NDArray[np.float64],
    area: NDArray[np.float64],
) -> Columns:
    number = np.arange(1, len(image) + 1)
    return Columns(image=image, category=category, box=box, area=area, id=number, score=score)
