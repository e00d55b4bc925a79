"""COCO JSON: a dataset with `images`, `annotations` and `categories`; a list of results."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore.checks import RowError
from boxscore.columns import Columns, Detections, Truths
from boxscore.errors import InputError

_KEYS = {"box": "bbox", "ignore": "iscrowd"}
"""COCO's names for our columns, where they differ and a row can be wrong."""


def read_truths(path: Path) -> Truths:
    """The annotations of a COCO dataset."""
    dataset = _load(path)
    if not isinstance(dataset, dict):
        raise InputError(
            f"{path}: expected an object with `annotations` and `categories`; got {type(dataset).__name__}"
        )
    annotations = _Rows(path, "annotation", dataset.get("annotations"))
    categories = _Rows(path, "category", dataset.get("categories"))
    images = _Rows(path, "image", dataset.get("images", []))
    class_names = dict(zip(categories.whole("id"), categories.get("name"), strict=True))
    if len(class_names) < len(categories.rows):
        raise InputError(f"{path}: categories must have different ids")
    stems = [Path(str(row.get("file_name", row.get("id")))).stem for row in images.rows]
    return annotations.make(
        Truths,
        ignore=[row.get("iscrowd", 0) for row in annotations.rows],
        area=annotations.numbers("area"),
        class_names=class_names,
        image_names=dict(zip(images.whole("id"), stems, strict=True)),
    )


def read_detections(path: Path, truths: Truths) -> Detections:
    """The rows of a COCO results file. Each must be for an image of `truths`, where those are listed."""
    results = _Rows(path, "result", _load(path))
    if truths.image_names:
        for index, image in enumerate(results.whole("image_id")):
            if image not in truths.image_names:
                raise InputError(f"{results.place(index)}: image {image} is not among those of the truths")
    return results.make(Detections, score=results.numbers("score"))


class _Rows:
    """A list of objects in a file, and columns from it; errors name the file, the row and its id."""

    def __init__(self, path: Path, kind: str, rows: Any) -> None:
        self.path, self.kind = path, kind
        if not isinstance(rows, list):
            plural = "categories" if kind == "category" else f"{kind}s"
            raise InputError(f"{path}: `{plural}` must be a list; got {type(rows).__name__}")
        self.rows: Sequence[Mapping[str, Any]] = rows
        for index, row in enumerate(rows):
            if not isinstance(row, dict):
                raise InputError(f"{path}: {kind} {index} must be an object; got {type(row).__name__}")

    def place(self, index: int) -> str:
        name = f"{self.path}: {self.kind} {index}"
        return f"{name} (id {self.rows[index]['id']})" if "id" in self.rows[index] else name

    def get(self, key: str) -> list[Any]:
        for index, row in enumerate(self.rows):
            if key not in row:
                raise InputError(f"{self.place(index)} must have `{key}`")
        return [row[key] for row in self.rows]

    def whole(self, key: str) -> list[int]:
        values = self.get(key)
        for index, value in enumerate(values):
            if type(value) is not int:
                raise InputError(f"{self.place(index)}: `{key}` must be an integer; got {value!r}")
        return values

    def numbers(self, key: str) -> NDArray[np.float64]:
        values = self.get(key)
        for index, value in enumerate(values):
            if type(value) not in (int, float):
                raise InputError(f"{self.place(index)}: `{key}` must be a number; got {value!r}")
        return np.array(values, dtype=np.float64)

    def boxes(self) -> NDArray[np.float64]:
        values = self.get("bbox")
        for index, value in enumerate(values):
            if not isinstance(value, list) or len(value) != 4 or any(type(x) not in (int, float) for x in value):
                raise InputError(f"{self.place(index)}: `bbox` must have 4 numbers; got {value!r}")
        return np.array(values, dtype=np.float64).reshape(-1, 4)

    def make(self, columns: type[Columns], **more: Any) -> Columns:
        """The columns of these rows, with `more` of them."""
        image, label, box = self.whole("image_id"), self.whole("category_id"), self.boxes()
        try:
            return columns(image=image, label=label, box=box, box_format="xywh", **more)
        except RowError as error:
            key = _KEYS.get(error.column, error.column)
            raise InputError(f"{self.place(error.row)}: `{key}` {error.rule}") from None
        except InputError as error:
            raise InputError(f"{self.path}: {error}") from None


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON: {error}") from None
