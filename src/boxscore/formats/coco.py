"""COCO JSON: a dataset with `images`, `annotations` and `categories`; a list of results."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from boxscore.columns import Detections, Truths
from boxscore.errors import InputError


def read_truths(path: Path) -> Truths:
    """The annotations of a COCO dataset."""
    dataset = _load(path)
    if not isinstance(dataset, dict):
        raise InputError(
            f"{path}: expected an object with `annotations` and `categories`; got {type(dataset).__name__}"
        )
    rows, categories = _list(path, dataset, "annotations"), _list(path, dataset, "categories")
    class_names = {
        _get(path, "category", i, row, "id"): _get(path, "category", i, row, "name") for i, row in enumerate(categories)
    }
    names = {
        row["id"]: Path(row["file_name"]).stem
        for row in dataset.get("images", [])
        if "id" in row and "file_name" in row
    }
    columns = _columns(path, "annotation", rows)
    try:
        return Truths(
            **columns,
            ignore=np.array([row.get("iscrowd", 0) for row in rows], dtype=np.int64),
            area=np.array([_get(path, "annotation", i, row, "area") for i, row in enumerate(rows)], dtype=np.float64),
            box_format="xywh",
            class_names=class_names,
            image_names=names,
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def read_detections(path: Path) -> Detections:
    """The rows of a COCO results file."""
    rows = _load(path)
    if not isinstance(rows, list):
        raise InputError(f"{path}: expected a list of results; got {type(rows).__name__}")
    score = np.array([_get(path, "result", i, row, "score") for i, row in enumerate(rows)], dtype=np.float64)
    try:
        return Detections(**_columns(path, "result", rows), score=score, box_format="xywh")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _columns(path: Path, kind: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    boxes = [_get(path, kind, i, row, "bbox") for i, row in enumerate(rows)]
    for i, box in enumerate(boxes):
        if not isinstance(box, list) or len(box) != 4:
            raise InputError(f"{path}: {kind} {i}: `bbox` must have 4 numbers; got {box!r}")
    return {
        "image": [_get(path, kind, i, row, "image_id") for i, row in enumerate(rows)],
        "label": [_get(path, kind, i, row, "category_id") for i, row in enumerate(rows)],
        "box": np.array(boxes, dtype=np.float64).reshape(-1, 4),
    }


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON: {error}") from None


def _list(path: Path, dataset: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    rows = dataset.get(key)
    if not isinstance(rows, list):
        raise InputError(f"{path}: `{key}` must be a list; got {type(rows).__name__}")
    return rows


def _get(path: Path, kind: str, index: int, row: Any, key: str) -> Any:
    if not isinstance(row, dict) or key not in row:
        raise InputError(f"{path}: {kind} {index} must have `{key}`")
    return row[key]
