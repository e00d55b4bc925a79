"""The columns of an LVIS evaluation: the annotations of its images and classes, and what was looked for."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads
from boxscore.data.batch_keys import COVERAGE_KEYS
from boxscore.data.dataset import Detections, Truths
from boxscore.data.validation import RowError
from boxscore.dropin.evaluation_columns import (
    DetectionColumns,
    EvaluationColumns,
    Side,
    SideColumns,
    TruthColumns,
    coverage_of,
    shapes_of,
    take_side,
)
from boxscore.dropin.lvis_dataset import LVIS, ClassPairs, Dict, LazyFederated, area_of, get_lazy
from boxscore.dropin.lvis_results import LimitedResults, LVISResults
from boxscore.dropin.row_selection import boxes_of, ids_of, read_masks, select_classes
from boxscore.engines.native import compiled_engine
from boxscore.protocol.protocol import Protocol
from boxscore.result.tally import Tally

Ints = NDArray[np.int64]

NO_LIMIT = 2**31 - 1
"""More detections than an image has: results were limited when they were loaded."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FederatedColumns:
    """Detections of classes that were looked for in their images, and truths."""

    seen: EvaluationColumns
    is_partial: NDArray[np.bool_]
    """Whether a detection's class was not annotated exhaustively in its image. Shape (D,)."""

    def tally(self) -> Tally | None:
        """The tally of boxscore's engine; None for inputs that `lvis` treats differently."""
        seen = self.seen
        detections, truths = seen.detections, seen.truths
        # as in LVIS: the id 0 means no match
        if not seen.num_entries or (truths.comparable_id == 0).any():
            return None
        try:
            protocol = Protocol.named(
                "lvis",
                iou_type=seen.iou_type,
                thresholds=seen.thresholds,
                areas=[(f"area {a}", low, high) for a, (low, high) in enumerate(seen.bounds)],
                limits=(None,),
                ignored="difficult",
                empty="keep",  # those without area are not among the columns
                class_groups=(),
            )
        except InputError:
            return None  # thresholds that don't ascend, and others that no protocol has
        with _named_rows("result", detections):
            columns = Detections(
                image=detections.image,
                label=detections.label,
                score=detections.score,
                area=seen.own_area(),
                **shapes_of(detections),
            )
        with _named_rows("annotation", truths):
            truth_columns = Truths(
                image=truths.image,
                label=truths.label,
                **shapes_of(truths),
                area=truths.area,
                ignore=truths.is_ignored if truths.is_ignored.any() else None,
                class_names=[str(each) for each in seen.classes],
                coverage=coverage_of(detections, self.is_partial),
            )
        return compiled_engine.match(columns, truth_columns, protocol, num_threads(None))


@contextmanager
def _named_rows(what: str, side: SideColumns) -> Iterator[None]:
    """Errors about a row name the result or annotation."""
    try:
        yield
    except RowError as error:
        key = {"box": "bbox", "mask": "segmentation"}.get(error.column, error.column)
        raise InputError(f"{what} {side.id[error.row]}: `{key}` {error.rule}") from None


class Scope(NamedTuple):
    """The images and classes of an evaluation; classes are distinct here."""

    images: list[Any]
    classes: list[Any]
    has_masks: bool
    image_index: Mapping[Any, int]
    class_index: Mapping[Any, int]

    @classmethod
    def of(cls, images: Sequence[Any], classes: Sequence[Any], *, has_masks: bool) -> "Scope":
        """With integers as Python's, and classes ascending, if they are integers."""
        images, wanted = (_plain(ids) for ids in (images, classes))
        distinct = list(dict.fromkeys(wanted))
        if all(type(label) is int for label in distinct):
            distinct.sort()
        return cls(
            images, distinct, has_masks, *({each: i for i, each in enumerate(ids)} for ids in (images, distinct))
        )

    @property
    def is_integral(self) -> bool:
        """Whether ids are integers that ascend, as lazy columns need them."""
        return all(type(each) is int for ids in (self.images, self.classes) for each in ids)

    def keys(self, image: Ints, label: Ints) -> Ints:
        """One number for each pair of the indices of an image and a class; -1 if one of them is -1."""
        return np.where((image >= 0) & (label >= 0), image * max(len(self.classes), 1) + label, -1)


def _plain(ids: Sequence[Any]) -> list[Any]:
    return [each.item() if isinstance(each, np.generic) else each for each in ids]


def select_federated(truths: LVIS, results: LVISResults, params: Any) -> FederatedColumns:
    """The annotations that `lvis` would evaluate under these parameters, in its order."""
    scope = Scope.of(params.img_ids, params.cat_ids, has_masks=params.iou_type == "segm")
    lists = _lists(scope, truths)
    truth_side = _truths(scope, truths)
    side = _detections(scope, results, get_lazy(truths))
    if all(each.mask is not None and each.mask.runs.has_joined_runs for each in (side, truth_side)):
        raise InputError(
            "masks of annotations and of results have runs of no pixels, where `lvis` stops comparing them; encode "
            "them again, as `boxscore.dropin.mask.encode` does"
        )
    own, annotated = (scope.keys(each.image, each.label) for each in (side, truth_side))
    negative, not_exhaustive = (scope.keys(*each) for each in lists)
    is_looked_for = np.isin(own, np.concatenate([annotated, negative]))
    side = take_side(side, np.flatnonzero(is_looked_for))
    is_partial = np.isin(own[is_looked_for], not_exhaustive)
    if (wanted := _plain(params.cat_ids)) != scope.classes:
        # as in LVIS: classes in any order, and one that is named twice is evaluated twice
        index = np.array([scope.class_index[label] for label in wanted], np.int64)
        truth_side = _with_labels(truth_side, *_rows(truth_side, index))
        row, label = _rows(side, index)
        side, is_partial = _with_labels(side, row, label), is_partial[row]
    seen = EvaluationColumns(
        detections=side,
        truths=truth_side,
        images=list(params.img_ids),
        classes=list(params.cat_ids),
        areas=list(params.area_rng),
        iou_type=params.iou_type,
        sigmas=(),
        bounds=[(float(low), float(high)) for low, high in params.area_rng],
        thresholds=np.array(params.iou_thrs, np.float64),
        limits=[NO_LIMIT],
    )
    return FederatedColumns(seen=seen, is_partial=is_partial)


def _rows(side: SideColumns, index: Ints) -> tuple[Ints, Ints]:
    row, label = select_classes(side.label, index, np.ones(side.label.size, bool))
    return np.arange(side.label.size)[row], label


def _with_labels(side: Side, row: Ints, label: Ints) -> Side:
    return replace(take_side(side, row), label=label)


def _truths(scope: Scope, truths: LVIS) -> TruthColumns:
    lazy = get_lazy(truths)
    shared = _lazy_side(scope, lazy, None)
    if shared is not None:
        no_flags = np.zeros(len(shared["id"]), np.uint8)
        return TruthColumns(**shared, is_crowd=no_flags, is_ignored=no_flags)
    anns, shared = _dict_side(scope, truths)
    is_ignored = np.array([bool(ann.get("ignore", 0)) for ann in anns], np.uint8)
    return TruthColumns(**shared, is_crowd=np.zeros(len(anns), np.uint8), is_ignored=is_ignored)


def _detections(scope: Scope, results: LVISResults, truths: Any) -> DetectionColumns:
    lazy = get_lazy(results)
    shared = _lazy_side(scope, lazy, truths)
    if shared is not None:
        return DetectionColumns(**shared)
    anns, shared = _dict_side(scope, results)
    given = [ann["score"] for ann in anns]
    score = np.array(given) if given else np.zeros(0)
    if score.dtype.kind not in "biuf" or score.ndim != 1:
        bad = next((row for row, each in enumerate(given) if np.asarray(each).dtype.kind not in "biuf"), 0)
        raise InputError(f"result {anns[bad]['id']}: `score` must be a number; got {given[bad]!r}")
    return DetectionColumns(**shared, score=score.astype(np.float64), given_score=given)


def _lazy_side(scope: Scope, lazy: LazyFederated | LimitedResults | None, compared: Any) -> Dict | None:
    """The columns of the evaluation's images and classes; None if they are not lazy, or masks are missing."""
    if lazy is None or not scope.is_integral:
        return None
    masks = None
    if scope.has_masks:
        masks = lazy.masks(compared) if isinstance(lazy, LimitedResults) else lazy.masks()
        if masks is None:
            return None
    columns = lazy.columns
    image = _compiled.find(columns.image, np.array(scope.images, np.int64))
    label = _compiled.find(columns.category, np.array(scope.classes, np.int64))
    row = np.flatnonzero((image >= 0) & (label >= 0) & (columns.area > 0) & (columns.area < np.inf))
    shared: Dict = {"image": image[row], "label": label[row], "area": columns.area[row], "id": columns.id[row]}
    shared["box"] = np.zeros((row.size, 4)) if scope.has_masks else columns.box[row]
    if masks is not None:
        shared["mask"] = masks.take(row)
    if columns.score is not None:
        shared["score"] = columns.score[row]
    return shared


def _dict_side(scope: Scope, lvis: LVIS) -> tuple[list[Dict], Dict]:
    """The annotations of the evaluation's images and classes as dicts, and the columns that both sides have."""
    ids = lvis.get_ann_ids(img_ids=scope.images, cat_ids=scope.classes or None)
    anns = [ann for ann in lvis.load_anns(ids) if ann["category_id"] in scope.class_index]
    shared: Dict = {
        "image": np.array([scope.image_index[ann["image_id"]] for ann in anns], np.int64),
        "label": np.array([scope.class_index[ann["category_id"]] for ann in anns], np.int64),
        "area": np.array([area_of(ann) for ann in anns], np.float64),
        "id": ids_of(anns),
    }
    if not scope.has_masks:
        return anns, {**shared, "box": boxes_of(anns)}
    has_own_masks = type(lvis).ann_to_rle is not LVIS.ann_to_rle or "ann_to_rle" in lvis.__dict__
    drawn = [lvis.ann_to_rle(ann) for ann in anns] if has_own_masks else None
    return anns, {**shared, "box": np.zeros((len(anns), 4)), "mask": read_masks(anns, lvis.imgs, drawn)}


def _lists(scope: Scope, truths: LVIS) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    """The indices of images and classes in `neg_category_ids`, and in `not_exhaustive_category_ids`."""
    lazy = get_lazy(truths)
    if isinstance(lazy, LazyFederated) and scope.is_integral:
        _check_known(scope, lazy.images, lazy.categories)
        negative, not_exhaustive = (_indices(scope, pairs) for pairs in (lazy.negative, lazy.not_exhaustive))
    else:
        _check_known(scope, truths.imgs, truths.cats)
        negative, not_exhaustive = (_listed(scope, truths, key) for key in COVERAGE_KEYS)
    return negative, not_exhaustive


def _check_known(scope: Scope, images: Mapping[Any, Any], classes: Mapping[Any, Any]) -> None:
    for name, wanted, known in (("img_ids", scope.images, images), ("cat_ids", scope.classes, classes)):
        unknown = next((each for each in wanted if each not in known), None)
        if unknown is not None:
            raise InputError(f"`params.{name}` must be ids of the dataset; got {unknown!r}")


def _indices(scope: Scope, pairs: ClassPairs) -> tuple[Ints, Ints]:
    return (
        _compiled.find(pairs.image, np.array(scope.images, np.int64)),
        _compiled.find(pairs.category, np.array(scope.classes, np.int64)),
    )


def _listed(scope: Scope, truths: LVIS, key: str) -> tuple[Ints, Ints]:
    """The same from dicts."""
    image, label = [], []
    for index, each in enumerate(truths.load_imgs(scope.images)):
        for category in list_of(each, key):
            image.append(index)
            label.append(scope.class_index.get(category, -1))
    return np.array(image, np.int64), np.array(label, np.int64)


def list_of(image: Dict, key: str) -> list[Any]:
    """A list of classes of an image, which LVIS' images have."""
    if key not in image:
        raise InputError(f"image {image['id']!r} must have `{key}`, as LVIS' images have; this is no LVIS file")
    if not isinstance(image[key], list) or not all(isinstance(each, int | str) for each in image[key]):
        raise InputError(f"image {image['id']!r}: `{key}` must be a list of the ids of classes; got {image[key]!r}")
    return list(image[key])


def frequency_groups(truths: LVIS, classes: Sequence[Any], letters: Sequence[str]) -> list[list[int]]:
    """The indices of the classes of each frequency."""
    groups: list[list[int]] = [[] for _ in letters]
    for index, (label, frequency) in enumerate(_frequencies(truths, _plain(classes))):
        if frequency not in letters:
            got = "nothing" if frequency is None else repr(frequency)
            raise InputError(f"category {label!r}: `frequency` must be one of {', '.join(letters)}; got {got}")
        groups[letters.index(frequency)].append(index)
    return groups


def _frequencies(truths: LVIS, classes: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    lazy = get_lazy(truths)
    if isinstance(lazy, LazyFederated):
        yield from ((label, lazy.frequency.get(label)) for label in classes)
    else:
        yield from ((label, truths.cats.get(label, {}).get("frequency")) for label in classes)
