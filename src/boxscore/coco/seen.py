"""What an evaluation looks at: the annotations of some images and classes, in columns. Taken once, when it starts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore.coco.dataset import held_by
from boxscore.coco.held import Columns
from boxscore.coco.params import Params
from boxscore.columns import Detections, Truths
from boxscore.errors import InputError
from boxscore.native import engine
from boxscore.protocol import Protocol
from boxscore.tally import Tally
from boxscore.threads import num_threads

Dict = dict[str, Any]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Side:
    """Annotations of either side, one row each. Rows of one image and class are in the order that breaks ties."""

    image: Ints
    """Places among the images."""
    label: Ints
    """Places among the classes."""
    box: Floats
    area: Floats
    id: NDArray[Any]
    """As they came: integers, or whatever else."""

    @property
    def number(self) -> Floats:
        """Ids as pycocotools writes them into its matrices of matches."""
        return self.id.astype(np.float64)

    @property
    def plain_id(self) -> NDArray[Any]:
        """Ids as numbers, for comparisons with 0."""
        return self.number if self.id.dtype == object else self.id


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FoundSide(Side):
    """Detections."""

    score: Floats


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TrueSide(Side):
    """Truths."""

    is_crowd: NDArray[np.uint8]
    is_ignored: NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Seen:
    """Both sides, and the parameters under which they were looked at."""

    found: FoundSide
    there: TrueSide
    images: list[Any]
    classes: list[Any]
    """Ids, or [-1] where classes don't matter."""
    areas: list[Any]
    """As the parameters have them."""
    bounds: list[tuple[float, float]]
    """Of the areas."""
    thresholds: Floats
    limits: list[Any]
    """Ascending."""

    @property
    def num_entries(self) -> int:
        """How many entries `evalImgs` has."""
        return len(self.classes) * len(self.areas) * len(self.images)

    def tally(self) -> Tally | None:
        """What boxscore's engine makes of it; None for what it does not take as pycocotools does."""
        found, there = self.found, self.there
        if not (self.num_entries and self.limits):
            return None
        # as in COCO: an id of 0 is none. A truth that has it is never found; a detection that has it takes none
        if (there.plain_id == 0).any() or not (found.plain_id > 0).all():
            return None
        if (there.is_crowd != there.is_ignored).any():
            return None
        if not np.array_equal(found.area, found.box[:, 2] * found.box[:, 3]):
            return None
        try:
            protocol = Protocol.named(
                "coco",
                thresholds=self.thresholds,
                areas=[(f"area {place}", low, high) for place, (low, high) in enumerate(self.bounds)],
                limits=self.limits,
            )
            detections = Detections(
                image=found.image, label=found.label, score=found.score, box=found.box, box_format="xywh"
            )
            truths = Truths(
                image=there.image,
                label=there.label,
                box=there.box,
                area=there.area,
                ignore=there.is_crowd,
                box_format="xywh",
                class_names=[str(each) for each in self.classes],
            )
        except (InputError, TypeError, ValueError):
            return None
        return engine.match(detections, truths, protocol, num_threads(None))


def look(truths: Any, results: Any, params: Params) -> Seen:
    """The annotations that pycocotools would look at under these parameters, in its order."""
    images = list(params.imgIds)
    classes = list(params.catIds)
    places = Places(images, classes, is_pooled=not params.useCats)
    there, found = places.columns(held_by(truths)), places.columns(held_by(results))
    return Seen(
        found=_found(places, results) if found is None else _held_found(places, found),
        there=_there(places, truths) if there is None else _held_there(places, there),
        images=images,
        classes=classes if params.useCats else [-1],
        areas=list(params.areaRng),
        bounds=[(float(low), float(high)) for low, high in params.areaRng],
        thresholds=np.array(params.iouThrs, np.float64),
        limits=list(params.maxDets),
    )


class Places:
    """Where images and classes stand in an evaluation; pooled, a class's place only orders the rows of an image."""

    def __init__(self, images: Sequence[Any], classes: Sequence[Any], *, is_pooled: bool) -> None:
        self.images, self.classes, self.is_pooled = images, classes, is_pooled

    def columns(self, held: Any) -> Columns | None:
        """The columns of what is held, if images and classes can be looked up in them."""
        if held is None or not all(np.array(ids).dtype.kind == "i" for ids in (self.images, self.classes)):
            return None
        return held.columns  # type: ignore[no-any-return]

    def of_columns(self, columns: Columns) -> tuple[Ints, Ints, Ints]:
        """The rows that are looked at, and the places of their images and classes."""
        image = _compiled.find(columns.image, np.array(self.images, np.int64))
        row, label = _rows_of(columns.category, np.array(self.classes, np.int64), image >= 0)
        return self._ordered(row, _take(image, row), label)

    def of_dicts(self, anns: Sequence[Dict]) -> tuple[Ints, Ints, Ints]:
        """The same for dicts."""
        place_of = {image: place for place, image in enumerate(self.images)}
        code_of = {label: code for code, label in enumerate(dict.fromkeys(self.classes))}
        image = np.array([place_of.get(ann["image_id"], -1) for ann in anns], np.int64)
        code = np.array([code_of.get(ann["category_id"], -1) for ann in anns], np.int64)
        wanted = np.array([code_of[label] for label in self.classes], np.int64)
        row, label = _rows_of(code, wanted, image >= 0)
        return self._ordered(row, image[row], label)

    def _ordered(self, row: Ints, image: Ints, label: Ints) -> tuple[Ints, Ints, Ints]:
        if not self.is_pooled:
            return row, image, label
        # as in COCO: of equal scores, that of the earlier class ranks first
        order = np.lexsort((label, image))
        return row[order], image[order], np.zeros_like(label)


def _rows_of(category: Ints, wanted: Ints, is_wanted: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Rows of the classes wanted, as often as these are named, and the places where they are."""
    order = np.argsort(wanted, kind="stable")
    ascending = wanted[order]
    if (ascending[1:] > ascending[:-1]).all():
        place = _compiled.find(category, ascending)
        row = np.flatnonzero(is_wanted & (place >= 0))
        return row, order[_take(place, row)]
    first, last = (np.searchsorted(ascending, category, side=side) for side in ("left", "right"))
    num = (last - first) * is_wanted
    row = np.repeat(np.arange(len(category)), num)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(num) - num, num)
    return row, order[first[row] + nth]


def _take(column: NDArray[Any], row: Ints) -> NDArray[Any]:
    """Some rows; all of them, in order, without a copy."""
    is_all = len(row) == len(column) and (len(row) == 0 or (row[1:] > row[:-1]).all())
    return column if is_all else column[row]


def _held_found(places: Places, columns: Columns) -> FoundSide:
    row, image, label = places.of_columns(columns)
    assert columns.score is not None
    box, area, number, score = (_take(each, row) for each in (columns.box, columns.area, columns.id, columns.score))
    return FoundSide(image=image, label=label, box=box, area=area, id=number, score=score)


def _held_there(places: Places, columns: Columns) -> TrueSide:
    row, image, label = places.of_columns(columns)
    assert columns.is_crowd is not None
    box, area, number, crowd = (_take(each, row) for each in (columns.box, columns.area, columns.id, columns.is_crowd))
    return TrueSide(image=image, label=label, box=box, area=area, id=number, is_crowd=crowd, is_ignored=crowd)


def _found(places: Places, results: Any) -> FoundSide:
    anns, sides = _dicts(places, results)
    score = np.array([ann["score"] for ann in anns], np.float64)
    return FoundSide(**sides, area=np.array([ann["area"] for ann in anns], np.float64), score=score)


def _there(places: Places, truths: Any) -> TrueSide:
    anns, sides = _dicts(places, truths)
    is_ignored = np.array([bool(ann["iscrowd"]) for ann in anns], np.uint8)
    # as in COCO: the area of a crowd is never looked at
    area = [0 if ann["iscrowd"] else ann["area"] for ann in anns]
    return TrueSide(
        **sides,
        area=np.array(area, np.float64),
        is_crowd=np.array([int(ann["iscrowd"]) != 0 for ann in anns], np.uint8),
        is_ignored=is_ignored,
    )


def _dicts(places: Places, coco: Any) -> tuple[list[Dict], Dict]:
    """The annotations looked at, in order, and the columns that both sides have."""
    anns: list[Dict] = annotations(coco, places.images, places.classes, is_pooled=places.is_pooled)
    row, image, label = places.of_dicts(anns)
    anns = [anns[place] for place in row.tolist()]
    box = np.array([ann["bbox"] for ann in anns], np.float64).reshape(-1, 4)
    return anns, {"image": image, "label": label, "box": box, "id": ids_of(anns)}


def annotations(coco: Any, images: Sequence[Any], classes: Sequence[Any], *, is_pooled: bool) -> list[Dict]:
    """The annotations of some images and classes, or of all classes, by the dataset's own methods."""
    ids = coco.getAnnIds(imgIds=images) if is_pooled else coco.getAnnIds(imgIds=images, catIds=classes)
    return coco.loadAnns(ids)  # type: ignore[no-any-return]


def ids_of(anns: Sequence[Dict]) -> NDArray[Any]:
    """Ids as they are: integers, if all are, else objects."""
    ids = [ann["id"] for ann in anns]
    if all(type(each) is int for each in ids):
        try:
            return np.array(ids, np.int64)
        except OverflowError:
            pass
    made = np.empty(len(ids), object)
    made[:] = ids
    return made
