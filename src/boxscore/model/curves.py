"""Curves: precision, recall and scores in every cell, in pycocotools' layout."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from boxscore.model.tally import Tally

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Curves:
    """Precision-recall curves of every class, sampled at the protocol's recall points, as pycocotools has them.

    Axes: T thresholds, R recall points, K classes, A areas, M limits. As in COCO, -1 is undefined: the class has no
    truths in that area range. `average_precision` has NaN there.
    """

    classes: Ints
    """The labels along K."""
    precision: Floats
    """The best precision at this recall or beyond, 0 where the recall is not reached. Shape (T, R, K, A, M)."""
    scores: Floats
    """The score at which the recall is reached. Shape (T, R, K, A, M)."""
    recall: Floats
    """The recall of all detections within the limit. Shape (T, K, A, M)."""
    average_precision: Floats
    """The area under each curve by the protocol's rule. Shape (T, K, A, M)."""
    num_true: Ints
    """True positives. Shape (T, K, A, M)."""
    num_false: Ints
    """False positives. Shape (T, K, A, M)."""

    @classmethod
    def undefined(cls, tally: Tally) -> "Curves":
        """Curves for all cells of `tally`, none of them defined yet."""
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
