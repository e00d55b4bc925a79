"""What faster_coco_eval makes of matched pairs: flags of annotations, mean IoU, areas under curves, the best F1."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Dict = dict[str, Any]
Floats = NDArray[np.float64]

MATCH_KEYS = ("tp", "fp", "fn", "gt_id", "dt_id", "iou")
"""The keys of annotations that `mark_annotations` sets."""

CELLS_AT_ONCE = 2**21
"""Scores times classes whose F1 is in memory at once."""


class LazyEvaluation(dict[str, Any]):
    """A dict whose `matched` is made when it is first read: it takes longer than all other values together."""

    def __init__(self, values: Mapping[str, Any], make: Callable[[], Dict]) -> None:
        super().__init__(values)
        self._make = make

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if key == "matched" and value is None:
            value = self._make()
            self[key] = value
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default."""
        return self[key] if key in self else default  # noqa: SIM401 — which is this method

    def __iter__(self) -> Iterator[str]:  # so that `dict(…)` reads the values one by one
        return super().__iter__()

    def values(self) -> Any:
        """The values."""
        return dict(self).values()

    def items(self) -> Any:
        """Keys and values."""
        return dict(self).items()

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


def mark_annotations(detections: Mapping[int, Dict], truths: Mapping[int, Dict], matched: Mapping[str, float]) -> None:
    """Set `tp` or `fp` of detections, `fn` of truths, and the ids and IoUs of pairs, in their dicts."""
    for ann in (*detections.values(), *truths.values()):
        for key in MATCH_KEYS:
            ann.pop(key, None)
    for pair, iou in matched.items():
        detection_id, truth_id = map(int, pair.split("_", 1))
        detections[detection_id] |= {"tp": True, "gt_id": truth_id, "iou": iou}
        truths[truth_id]["dt_id"] = detection_id
    for ann in detections.values():
        if ann.get("gt_id") is None:
            ann["fp"] = True
    for ann in truths.values():
        if ann.get("dt_id") is None:
            ann["fn"] = True


def mean_iou(matched: Mapping[str, float]) -> float:
    """The mean overlap of matched pairs, correctly rounded; 0 without any."""
    return math.fsum(matched.values()) / len(matched) if matched else 0.0


def area_under_curve(recall: Any, precision: Any) -> float:
    """The area under the envelope of precision, to 15 digits.

    >>> area_under_curve([0, 0.5, 1], [1, 0.5, 0.25])
    0.375
    """
    recall, precision = (np.asarray(each, np.longdouble) for each in (recall, precision))
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    steps = np.diff(recall) * envelope[1 : len(recall)]
    return round(float(steps.cumsum()[-1]) if len(steps) else 0.0, 15)


def mean_area(precision: Floats, recall_points: Any) -> float:
    """The mean area under the curves of all classes and area ranges that have one, at the first threshold.

    As in faster_coco_eval: the precisions of all limits are one list, and its first points are taken.
    """
    _, _, K, A, _ = precision.shape
    areas = [area_under_curve(recall_points, precision[0, :, k, a].ravel()) for k in range(K) for a in range(A)]
    defined = [area for area in areas if area != -1]
    return sum(defined) / len(defined) if defined else 0.0


class BestThreshold(NamedTuple):
    """Precision and recall where the mean F1 of the classes is highest."""

    precision: float
    recall: float
    of_class: dict[Any, tuple[float, float]]


class ScoredClass(NamedTuple):
    """The detections of a class by falling score, and how many truths it has."""

    label: Any
    score: Floats
    num_true: NDArray[np.int64]
    """True positives up to each score."""
    num_truths: int


def scored_classes(
    labels: Sequence[Any], detections: Mapping[int, Dict], truths: Mapping[int, Dict], matched: Mapping[str, float]
) -> list[ScoredClass]:
    """The classes that have truths; a detection with a match of IoU 0.5 or more is a true positive."""
    is_true = {int(pair.split("_", 1)[0]) for pair, iou in matched.items() if iou >= 0.5}
    num_truths: dict[Any, int] = {}
    for ann in truths.values():
        if not ann.get("iscrowd", 0):
            num_truths[ann["category_id"]] = num_truths.get(ann["category_id"], 0) + 1
    rows: dict[Any, list[tuple[float, bool]]] = {}
    for number, ann in detections.items():
        rows.setdefault(ann["category_id"], []).append((float(ann["score"]), number in is_true))
    classes = []
    for label in labels:
        if label in num_truths:
            score, hit = np.array(sorted(rows.get(label, ()), key=lambda row: -row[0]), np.float64).reshape(-1, 2).T
            classes.append(ScoredClass(label, score, np.cumsum(hit).astype(np.int64), num_truths[label]))
    return classes


def best_threshold(classes: Sequence[ScoredClass], scores: Floats) -> BestThreshold:
    """Of the scores, ascending, the first with the highest mean F1 as threshold."""
    best, found = -np.inf, BestThreshold(0.0, 0.0, {})
    if not classes:
        return found
    step = max(1, CELLS_AT_ONCE // len(classes))
    for first in range(0, len(scores), step):
        precision_SK, recall_SK = _rates(classes, scores[first : first + step])
        both = precision_SK + recall_SK
        f1 = np.divide(2.0 * precision_SK * recall_SK, both, out=np.zeros_like(both), where=both > 0)
        mean_S = f1.mean(axis=1)
        row = int(mean_S.argmax())
        if mean_S[row] > best:
            best = float(mean_S[row])
            rates = zip(precision_SK[row].tolist(), recall_SK[row].tolist(), strict=True)
            of_class = {each.label: pair for each, pair in zip(classes, rates, strict=True)}
            found = BestThreshold(float(precision_SK[row].mean()), float(recall_SK[row].mean()), of_class)
    return found


def _rates(classes: Sequence[ScoredClass], thresholds: Floats) -> tuple[Floats, Floats]:
    """Precision and recall of detections with at least these scores. Shape (S, K)."""
    precision, recall = (np.zeros((len(thresholds), len(classes))) for _ in range(2))
    for k, each in enumerate(classes):
        num = np.searchsorted(-each.score, -thresholds, side="right")
        num_true = np.concatenate([[0], each.num_true])[num]
        precision[:, k] = np.divide(num_true, num, out=np.zeros(len(num)), where=num > 0)
        recall[:, k] = num_true / each.num_truths
    return precision, recall
