"""COCO JSON: a dataset with `images`, `annotations` and `categories`; a list of results."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore.checks import RowError
from boxscore.columns import Columns, Detections, Truths
from boxscore.errors import InputError
from boxscore.threads import num_threads

_KEYS = {"box": "bbox", "ignore": "iscrowd"}
"""COCO's names for our columns, where they differ and a row can be wrong."""


class Content(NamedTuple):
    """The bytes of a file that is not on disk by itself, such as a member of an archive."""

    name: str
    """What errors call it."""
    content: bytes | bytearray | memoryview


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CocoImages:
    """The images of a dataset, one row each."""

    id: NDArray[np.int64]
    """Ids; places in `names`, if there are any. Shape (N,)."""
    names: Sequence[str] | None
    """The distinct ids, where they are strings."""
    file_name: Sequence[str]
    """File names, "" where there is none."""
    width: NDArray[np.float64]
    """NaN where it is missing. Shape (N,)."""
    height: NDArray[np.float64]
    """NaN where it is missing. Shape (N,)."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CocoFile:
    """What a dataset or a list of results says about boxes, one row a box."""

    name: str
    """The file, as errors call it."""
    is_dataset: bool
    """Else it is a list of results."""
    has_annotations: bool
    image: NDArray[np.int64]
    """Image ids; places in `image_names`, if there are any. Shape (D,)."""
    image_names: Sequence[str] | None
    """The distinct image ids, where they are strings."""
    category: NDArray[np.int64]
    """Shape (D,)."""
    box: NDArray[np.float64]
    """Left, top, width and height. Shape (D, 4)."""
    score: NDArray[np.float64] | None
    """None if no row has one. Shape (D,)."""
    area: NDArray[np.float64] | None
    """None if no row has one; the box's own where only some have. Shape (D,)."""
    is_crowd: NDArray[np.bool_] | None
    """None if no row says so. Shape (D,)."""
    id: NDArray[np.int64] | None
    """None unless every row has an integer. Shape (D,)."""
    images: CocoImages | None
    categories: dict[int, str] | None

    def place(self, row: int) -> str:
        """A row, as errors call it."""
        place = f"{self.name}: {'annotation' if self.is_dataset else 'result'} {row}"
        return place if self.id is None else f"{place} (id {self.id[row]})"

    def make(self, columns: type[Columns], **more: Any) -> Columns:
        """The columns of these rows, with `more` of them; errors name the file and the row."""
        try:
            return columns(label=self.category, box=self.box, box_format="xywh", **more)
        except RowError as error:
            key = _KEYS.get(error.column, error.column)
            raise InputError(f"{self.place(error.row)}: `{key}` {error.rule}") from None
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None


def load(source: Path | Content, threads: int | None = None) -> CocoFile:
    """The columns of a COCO dataset or of a list of results, the same for any number of threads."""
    name = source.name if isinstance(source, Content) else str(source)
    try:
        found = _read(source, num_threads(threads))
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}") from None
    except _compiled.CocoError as error:
        raise InputError(f"{name}: {error}") from None
    images, categories = found.pop("images"), found.pop("categories")
    if categories is not None:
        categories = dict(zip(categories["id"].tolist(), categories["name"], strict=True))
    area, is_crowd = found.pop("area"), found.pop("is_crowd")
    if area is not None and np.isnan(area).any():
        box = found["box"]
        area = np.where(np.isnan(area), box[:, 2] * box[:, 3], area)
    return CocoFile(
        name=name,
        area=area,
        is_crowd=None if is_crowd is None else is_crowd.view(np.bool_),
        images=None if images is None else CocoImages(**images),
        categories=categories,
        **found,
    )


def _read(source: Path | Content, threads: int) -> Any:
    if isinstance(source, Content):
        return _compiled.read_coco_bytes(source.content, threads)
    # Python waits for pipes better, since it listens to Ctrl-C meanwhile.
    if os.name == "nt" or (source.exists() and not source.is_file()):
        return _compiled.read_coco_bytes(source.read_bytes(), threads)
    return _compiled.read_coco_file(os.fsencode(source), threads)


def read_truths(source: Path | Content, threads: int | None = None) -> Truths:
    """The annotations of a COCO dataset. Images whose ids are strings are numbered in their order."""
    dataset = load(source, threads)
    if not dataset.is_dataset:
        raise InputError(f"{dataset.name}: expected an object with `annotations` and `categories`; got a list")
    if not dataset.has_annotations:
        raise InputError(f"{dataset.name}: `annotations` must be a list; got nothing")
    if dataset.categories is None:
        raise InputError(f"{dataset.name}: `categories` must be a list; got nothing")
    image, image_names = _numbered(dataset)
    return dataset.make(
        Truths,
        image=image,
        ignore=dataset.is_crowd,
        area=dataset.area,
        class_names=dataset.categories,
        image_names=image_names,
    )


def read_detections(source: Path | Content, truths: Truths, threads: int | None = None) -> Detections:
    """The rows of a COCO results file, or the annotations of a dataset that have scores.

    Each must be for an image of `truths`, where those are listed. Strings for images are the stems of their files.
    """
    results = load(source, threads)
    if results.is_dataset and not results.has_annotations:
        raise InputError(f"{results.name}: `annotations` must be a list; got nothing")
    if results.score is None and len(results.category):
        raise InputError(f"{results.place(0)} must have `score`")
    score = np.zeros(0) if results.score is None else results.score
    return results.make(Detections, image=_known(results, truths), score=score)


def _numbered(dataset: CocoFile) -> tuple[NDArray[np.int64], dict[int, str]]:
    """The image of each annotation as a number, and the images' names."""
    images = dataset.images
    if images is None or not len(images.id):
        return dataset.image, dict(enumerate(dataset.image_names or ()))
    if len(dataset.image) and (images.names is None) != (dataset.image_names is None):
        is_whole = images.names is None
        rule = f"`image_id` must be {'an integer' if is_whole else 'a string'}, as the ids of `images` are"
        raise InputError(f"{dataset.place(0)}: {rule}; got {'a string' if is_whole else 'an integer'}")
    if images.names is None:
        ids = images.id.tolist()
        stems = [_stem(name or str(image)) for image, name in zip(ids, images.file_name, strict=True)]
        return dataset.image, dict(zip(ids, stems, strict=True))
    numbers = {name: number for number, name in enumerate(images.names)}
    table = np.array([numbers.setdefault(name, len(numbers)) for name in dataset.image_names or ()], np.int64)
    return table[dataset.image], {number: name for name, number in numbers.items()}


def _known(results: CocoFile, truths: Truths) -> NDArray[np.int64]:
    """The image of each result as the truths number it."""
    if results.image_names is None:
        if truths.image_names:
            is_known = np.isin(results.image, np.fromiter(truths.image_names, np.int64))
            if not is_known.all():
                row = int(np.argmin(is_known))
                raise InputError(f"{results.place(row)}: image {results.image[row]} is not among those of the truths")
        return results.image
    numbers: dict[str, int] = {}
    ambiguous = set()
    for number, name in (truths.image_names or {}).items():
        if numbers.setdefault(name, number) != number:
            ambiguous.add(name)
    table = np.zeros(len(results.image_names), np.int64)
    for place, name in enumerate(results.image_names):
        if name not in numbers or name in ambiguous:
            problem = "is the name of several images" if name in ambiguous else "is not among those"
            row = int(np.argmax(results.image == place))
            raise InputError(f"{results.place(row)}: image {name!r} {problem} of the truths")
        table[place] = numbers[name]
    return table[results.image]


def _stem(file_name: str) -> str:
    return PurePosixPath(file_name.replace("\\", "/")).stem
