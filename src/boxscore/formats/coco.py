"""COCO JSON: a dataset with `images`, `annotations` and `categories`; a list of results."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore.columns import Detections, Truths
from boxscore.errors import InputError
from boxscore.formats.files import Output, Source
from boxscore.formats.records import Key, Named, Options, Records
from boxscore.formats.writing import Host, Loss, changed, from_xywh

_KEYS = {"box": "bbox", "ignore": "iscrowd"}
"""COCO's names for our columns, where they differ and a row can be wrong."""


def recognises(source: Source, role: str) -> bool:
    """Whether it is JSON: a list of results, or an object with annotations."""
    if source.content is None or source.suffix not in (".json", ""):
        return False
    head = source.content[:200].lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    return head == b"{" or (head == b"[" and role == "detections") or source.suffix == ".json"


def read_truths(source: Source, options: Options) -> Records:  # noqa: ARG001
    """The annotations of a COCO dataset."""
    dataset = _load(source)
    if not isinstance(dataset, dict):
        raise InputError(
            f"{source}: expected an object with `annotations` and `categories`; got {type(dataset).__name__}"
        )
    return _dataset(source, dataset, "truths")


def read_detections(source: Source, options: Options) -> Records:  # noqa: ARG001
    """The rows of a COCO results file, or the annotations of a dataset, if they have scores."""
    dataset = _load(source)
    if isinstance(dataset, dict) and "annotations" in dataset:
        return _dataset(source, dataset, "detections")
    return _Rows(source, "result", dataset).make(score="score")


def _dataset(source: Source, dataset: Mapping[str, Any], role: str) -> Records:
    annotations = _Rows(source, "annotation", dataset.get("annotations"))
    categories = _Rows(source, "category", dataset.get("categories"))
    images = _Rows(source, "image", dataset.get("images", []))
    class_names = dict(zip(categories.whole("id"), map(str, categories.get("name")), strict=True))
    if len(class_names) < len(categories.rows):
        raise InputError(f"{source}: categories must have different ids")
    more: dict[str, Any] = {"class_names": class_names}
    ids = images.keys("id")
    if not isinstance(ids, Named):
        numbers = ids.tolist()
        if len(set(numbers)) < len(numbers):
            raise InputError(f"{source}: images must have different ids")
        names = [str(row.get("file_name", number)) for row, number in zip(images.rows, numbers, strict=True)]
        more["image_names"] = dict(zip(numbers, names, strict=True)) if numbers else None
        more["image_sizes"] = {number: size for number, size in zip(numbers, images.sizes(), strict=True) if size}
    if role == "detections":
        records = annotations.make(score="score", **more)
    else:
        records = annotations.make(area="area", ignore=annotations.flags("iscrowd"), **more)
    if isinstance(ids, Named) and isinstance(records.image, Named):
        image = Named.of([records.image.names[code] for code in records.image.code], also=ids.names)
        sizes = {name: size for name, size in zip(images.get("id"), images.sizes(), strict=True) if size}
        records = replace(records, image=image, image_sizes=sizes)
    return records


class _Rows:
    """A list of objects in a file, and columns from it; errors name the file, the row and its id."""

    def __init__(self, path: Source, kind: str, rows: Any) -> None:
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
        return self._array(key, values, np.float64)

    def boxes(self) -> NDArray[np.float64]:
        values = self.get("bbox")
        for index, value in enumerate(values):
            if not isinstance(value, list) or len(value) != 4 or any(type(x) not in (int, float) for x in value):
                raise InputError(f"{self.place(index)}: `bbox` must have 4 numbers; got {value!r}")
        return self._array("bbox", values, np.float64).reshape(-1, 4)

    def _array(self, key: str, values: list[Any], dtype: type) -> NDArray[Any]:
        try:
            return np.array(values, dtype=dtype)
        except OverflowError:
            for index, value in enumerate(values):
                try:
                    np.array(value, dtype=dtype)
                except OverflowError:
                    raise InputError(f"{self.place(index)}: `{key}` has a number that is too large") from None
            raise

    def flags(self, key: str) -> NDArray[Any]:
        values = [row.get(key, 0) for row in self.rows]
        for index, value in enumerate(values):
            if type(value) not in (int, bool):
                raise InputError(f"{self.place(index)}: `{key}` must be 0 or 1; got {value!r}")
        return self._array(key, values, np.int64)

    def keys(self, key: str) -> Key:
        """A column of ids: integers, or names if the first is one."""
        values = self.get(key)
        if not values or not isinstance(values[0], str):
            return self._array(key, self.whole(key), np.int64)
        for index, value in enumerate(values):
            if type(value) is not str:
                raise InputError(f"{self.place(index)}: `{key}` must be a name, as those before it; got {value!r}")
        return Named.of(values)

    def sizes(self) -> list[tuple[int, int] | None]:
        pairs = [(row.get("width"), row.get("height")) for row in self.rows]
        return [
            (w, h) if type(w) is int and type(h) is int and 0 < min(w, h) <= max(w, h) < 10**9 else None
            for w, h in pairs
        ]

    def make(self, *, score: str | None = None, area: str | None = None, **more: Any) -> Records:
        """The records of these rows, with `more` of them."""
        numbers: dict[str, Any] = {name: self.numbers(key) for name, key in (("score", score), ("area", area)) if key}
        return Records(
            image=self.keys("image_id"),
            label=self.keys("category_id"),
            box=self.boxes(),
            box_format="xywh",
            place=self.place,
            source=str(self.path),
            terms=_KEYS,
            **numbers,
            **more,
        )


def _load(source: Source) -> Any:
    try:
        return json.loads(source.read().removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}: not JSON: {error}") from None


def write_truths(truths: Truths) -> tuple[Output, list[Loss]]:
    """A dataset; annotations are numbered 1, 2, 3, … in order."""
    host = Host.of(truths)
    box = host.left_top_sizes()
    area = host.area if host.area is not None else box[:, 2] * box[:, 3]
    ignore = np.zeros(len(host), bool) if host.ignore is None else host.ignore
    columns = (host.image.tolist(), host.label.tolist(), box.tolist(), area.tolist(), ignore.tolist())
    dataset = {
        "images": [_image(host, image) for image in host.images],
        "annotations": [
            {"id": i, "image_id": image, "category_id": label, "bbox": box, "area": area, "iscrowd": int(flag)}
            for i, (image, label, box, area, flag) in enumerate(zip(*columns, strict=True), start=1)
        ],
        "categories": [{"id": label, "name": name} for label, name in _categories(host)],
    }
    return {"": json.dumps(dataset).encode()}, _rounding(host, box)


def _image(host: Host, image: int) -> dict[str, Any]:
    name = {"id": image, "file_name": host.image_names.get(image, str(image))}
    if image not in host.sizes:
        return name
    return name | {"width": host.sizes[image][0], "height": host.sizes[image][1]}


def _categories(host: Host) -> list[tuple[int, str]]:
    if host.class_names is not None:
        return list(host.class_names.items())
    return [(label, str(label)) for label in np.unique(host.label).tolist()]


def _rounding(host: Host, box: NDArray[np.float64]) -> list[Loss]:
    again = np.stack(from_xywh(box, host.box_format), axis=1)
    what = "last digit of a box that was not left, top, width, height"
    return [
        Loss(
            num=changed(host.box, again), what=what, plural=what.replace("last digit of a box", "last digits of boxes")
        )
    ]


def write_detections(detections: Detections, truths: Truths) -> tuple[Output, list[Loss]]:
    """A list of results, in order."""
    host = Host.of(detections, truths)
    box = host.left_top_sizes()
    columns = (host.image.tolist(), host.label.tolist(), box.tolist(), host.scores.tolist())
    results = [
        {"image_id": image, "category_id": label, "bbox": box, "score": score}
        for image, label, box, score in zip(*columns, strict=True)
    ]
    return {"": json.dumps(results).encode()}, _rounding(host, box)
