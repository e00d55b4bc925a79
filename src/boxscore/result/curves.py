"""Curves: precision, recall and scores in every cell, in pycocotools' layout; and their averages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support.lazy import LazyField
from boxscore.result.tally import Tally

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Curves:
    """Precision-recall curves of every class, sampled at the protocol's recall points, in pycocotools' layout.

    Axes: T thresholds, R recall points, K classes, A areas, M limits. As in COCO, -1 is undefined: the class has no
    truths in that area range; `average_precision` has NaN there. The compiled engine builds `precision`, `scores` and
    `average_precision` when one of them is first read, as the numbers don't need them.

    Args:
        classes: The labels along K. Shape (K,).
        precision: The best precision at each recall or beyond. Shape (T, R, K, A, M).
        scores: The score at which each recall is reached. Shape (T, R, K, A, M).
        recall: The recall of all detections within the limit. Shape (T, K, A, M).
        average_precision: The area under each curve. Shape (T, K, A, M).
        num_true: Number of true positives. Shape (T, K, A, M).
        num_false: Number of false positives. Shape (T, K, A, M).

    >>> from boxscore import Detections, Truths, evaluate
    >>> truths = Truths(image_ids=[0, 0], labels=[1, 1], boxes=[[0, 0, 10, 10], [20, 20, 30, 30]])
    >>> found = Detections(image_ids=[0], labels=[1], scores=[0.9], boxes=[[0, 0, 10, 10]])
    >>> curves = evaluate(found, truths, "voc2012").curves
    >>> curves.recall.tolist(), curves.precision[0, ::50, 0, 0, 0].tolist()  # at recalls 0, 0.5 and 1
    ([[[[0.5]]]], [1.0, 1.0, 0.0])
    """

    classes: Ints
    """The labels along K. Shape (K,)."""
    precision: LazyField[Floats] = LazyField()
    """The best precision at this recall or beyond; 0 if the recall is not reached. Shape (T, R, K, A, M)."""
    scores: LazyField[Floats] = LazyField()
    """The score at which the recall is reached. Shape (T, R, K, A, M)."""
    recall: Floats
    """The recall of all detections within the limit. Shape (T, K, A, M)."""
    average_precision: LazyField[Floats] = LazyField()
    """The area under each curve by the protocol's rule. Shape (T, K, A, M)."""
    num_true: Ints
    """True positives. Shape (T, K, A, M)."""
    num_false: Ints
    """False positives. Shape (T, K, A, M)."""

    @classmethod
    def undefined(cls, tally: Tally) -> "Curves":
        """Make curves for all cells of `tally`, with undefined values.

        Args:
            tally: The tally whose protocol and classes give the shapes.
        """
        protocol = tally.protocol
        num_thresholds, num_classes = len(protocol.thresholds), tally.classes.size
        cells = (num_thresholds, num_classes, len(protocol.areas), len(protocol.limits))
        samples = (num_thresholds, len(protocol.recall_points), *cells[1:])
        return cls(
            classes=tally.classes,
            precision=np.full(samples, -1.0),
            scores=np.full(samples, -1.0),
            recall=np.full(cells, -1.0),
            average_precision=np.full(cells, np.nan),
            num_true=np.zeros(cells, np.int64),
            num_false=np.zeros(cells, np.int64),
        )


class Averages(NamedTuple):
    """Means of curves over thresholds, recall points and classes. NaN is undefined: no truths."""

    numbers: Mapping[str, float]
    """The protocol's measures, by name."""
    per_threshold: Mapping[float, float]
    """The protocol's first measure at each threshold."""
    ap: Floats
    """Average precision of each class, mean over thresholds. Shape (K,)."""
    ap_at: Floats
    """Average precision of each class at each threshold. Shape (T, K)."""
    ar: Floats
    """Recall of each class, mean over thresholds. Shape (K,)."""
