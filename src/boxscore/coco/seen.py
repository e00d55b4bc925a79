"""What an evaluation looks at: the annotations of some images and classes, in columns. Taken once, when it starts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads
from boxscore.coco.dataset import held_by
from boxscore.coco.held import Columns
from boxscore.coco.params import Params
from boxscore.engines.native import engine
from boxscore.model.dataset import Detections, Truths
from boxscore.model.protocol import Protocol
from boxscore.model.tally import Tally

Dict = dict[str, Any]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Rows = Any
"""Places of rows, or `ALL` of them as they stand, which takes no copy."""

ALL = slice(None)


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
    given_score: list[Any] | None = None
    """As they came, where not all are floats."""

    @property
    def scores(self) -> list[Any]:
        """As pycocotools hands them on: what came."""
        return self.score.tolist() if self.given_score is None else self.given_score


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
        if found.given_score is not None and bool in map(type, found.given_score):
            return None  # as in COCO: whether they can be sorted depends on what else there is
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

    def of_columns(self, columns: Columns) -> tuple[Rows, Ints, Ints]:
        """The rows that are looked at, and the places of their images and classes."""
        image = _compiled.find(columns.image, np.array(self.images, np.int64))
        row, label = _rows_of(columns.category, np.array(self.classes, np.int64), image >= 0)
        return self._ordered(row, image[row], label)

    def of_dicts(self, anns: Sequence[Dict]) -> tuple[Rows, Ints, Ints]:
        """The same for dicts."""
        place_of = {image: place for place, image in enumerate(self.images)}
        code_of = {label: code for code, label in enumerate(dict.fromkeys(self.classes))}
        image = np.array([place_of.get(ann["image_id"], -1) for ann in anns], np.int64)
        code = np.array([code_of.get(ann["category_id"], -1) for ann in anns], np.int64)
        wanted = np.array([code_of[label] for label in self.classes], np.int64)
        row, label = _rows_of(code, wanted, image >= 0)
        return self._ordered(row, image[row], label)

    def _ordered(self, row: Rows, image: Ints, label: Ints) -> tuple[Rows, Ints, Ints]:
        if not self.is_pooled:
            return row, image, label
        # as in COCO: of equal scores, that of the earlier class ranks first
        order = np.lexsort((label, image))
        return (order if row is ALL else row[order]), image[order], np.zeros_like(label)


def _rows_of(category: Ints, wanted: Ints, is_wanted: NDArray[np.bool_]) -> tuple[Rows, Ints]:
    """Rows of the classes wanted, as often as these are named, and the places where they are."""
    if (wanted[1:] > wanted[:-1]).all():
        place = _compiled.find(category, wanted)
        is_kept = is_wanted & (place >= 0)
        row = ALL if is_kept.all() else np.flatnonzero(is_kept)
        return row, place[row]
    order = np.argsort(wanted, kind="stable")
    first, last = (np.searchsorted(wanted[order], category, side=side) for side in ("left", "right"))
    num = (last - first) * is_wanted
    row = np.repeat(np.arange(len(category)), num)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(num) - num, num)
    return row, order[first[row] + nth]


def _held_found(places: Places, columns: Columns) -> FoundSide:
    row, image, label = places.of_columns(columns)
    assert columns.score is not None
    return FoundSide(
        image=image,
        label=label,
        box=columns.box[row],
        area=columns.area[row],
        id=columns.id[row],
        score=columns.score[row],
    )


def _held_there(places: Places, columns: Columns) -> TrueSide:
    row, image, label = places.of_columns(columns)
    assert columns.is_crowd is not None
    is_crowd = columns.is_crowd[row]
    return TrueSide(
        image=image,
        label=label,
        box=columns.box[row],
        area=columns.area[row],
        id=columns.id[row],
        is_crowd=is_crowd,
        is_ignored=is_crowd,
    )


def _found(places: Places, results: Any) -> FoundSide:
    anns, sides = _dicts(places, results)
    given = [ann["score"] for ann in anns]
    is_plain = all(type(each) is float for each in given)
    return FoundSide(
        **sides,
        area=np.array([ann["area"] for ann in anns], np.float64),
        score=np.array(given, np.float64) if is_plain else _scores(given, anns),
        given_score=None if is_plain else given,
    )


def _scores(given: Sequence[Any], anns: Sequence[Dict]) -> Floats:
    """Scores that are not all floats, as numbers."""
    score = np.zeros(len(given))
    for row, value in enumerate(given):
        negative = -value  # as in COCO: a TypeError for text, lists and None, and none for what can be negated
        try:
            score[row] = -float(negative)
        except OverflowError:
            raise InputError(
                f"result {anns[row]['id']} of image {anns[row]['image_id']}: `score` must be a number that a float64 "
                "can hold; got an integer beyond 1e308 (pycocotools takes it, and its curves break off there)"
            ) from None
    return score


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
    anns = anns if row is ALL else [anns[place] for place in row.tolist()]
    return anns, {"image": image, "label": label, "box": _boxes(anns), "id": ids_of(anns)}


def _boxes(anns: Sequence[Dict]) -> Floats:
    boxes = [ann["bbox"] for ann in anns]
    try:
        box = np.array(boxes, np.float64)
    except ValueError:
        if all(len(each) == 4 for each in boxes):
            raise
        box = np.zeros((len(boxes), 0))
    if boxes and box.shape[1:] != (4,):
        ann = next(ann for ann in anns if len(ann["bbox"]) != 4)
        raise Exception(  # as in COCO, which can load such boxes, and has no overlap for them
            f"annotation {ann['id']} of image {ann['image_id']}: `bbox` must have 4 numbers to be evaluated, x, y, "
            f"width and height; got {len(ann['bbox'])}. Rotated boxes need a COCOeval with a computeIoU of their own"
        )
    return box.reshape(-1, 4)


def distinct(ids: Any) -> list[Any]:
    """`list(np.unique(ids))`, which takes longer to get ready than to do."""
    array = np.asarray(ids)
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        return list(np.unique(ids))
    array = np.sort(array)
    return list(array[np.append(True, array[1:] != array[:-1])]) if len(array) else []


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
