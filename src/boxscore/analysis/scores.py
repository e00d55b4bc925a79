"""Scores: histograms of the scores of true and false positives."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from boxscore._support import text
from boxscore.analysis.operating_points import Aim, curve_of_all
from boxscore.analysis.pairing import verdicts_at
from boxscore.protocol.fields import check_number
from boxscore.result.curves import Floats, Ints
from boxscore.result.result import Result
from boxscore.result.summary import number_or_none
from boxscore.result.tally import FALSE, TRUE


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Scores:
    """Number of true and false positives in each bin of scores, per class and in total. `print` shows a table.

    At one IoU threshold, in the first area range and within the largest limit. A bin includes its lower edge, the last
    bin both edges.
    """

    iou: float
    similarity: str = "IoU"
    """The similarity that `iou` is a threshold of."""
    edge: Floats
    """The edges of the bins: from 0 to 1, or, if a score is outside, from the lowest score to the highest.
    Shape (B + 1,)."""
    num_true: Ints
    """True positives. Shape (B,)."""
    num_false: Ints
    """False positives. Shape (B,)."""
    num_true_of_class: Ints
    """True positives of each class. Shape (K, B)."""
    num_false_of_class: Ints
    """False positives of each class. Shape (K, B)."""
    best: float
    """The threshold with the best F1 over all classes; NaN without truths or detections."""
    best_f1: float
    """F1 of the detections with at least that score."""

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON; undefined is None."""
        return {
            "iou": self.iou,
            "best": number_or_none(self.best),
            "best_f1": number_or_none(self.best_f1),
            "edges": self.edge.tolist(),
            "num_true": self.num_true.tolist(),
            "num_false": self.num_false.tolist(),
        }

    def __repr__(self) -> str:
        return f"Scores({text.count(self.num_true.size, 'bin')}, best={self.best:.4g})"

    def __str__(self) -> str:
        cells = [
            [f"{self.edge[b]:.4g} to {self.edge[b + 1]:.4g}", f"{self.num_true[b]:,}", f"{self.num_false[b]:,}"]
            for b in range(self.num_true.size)
        ]
        best = f"best F1 {text.fraction(self.best_f1)} at score >= {text.fraction(self.best)}"
        title = f"scores at {self.similarity} {self.iou:.2f}; {best}"
        return f"{title}\n\n{text.table(cells, align='<>>', header=['score', 'TP', 'FP'])}"


def histogram_scores(result: Result, *, bins: int = 40, iou: float | None = None) -> Scores:
    """Compute histograms of a result's scores. `iou`: as in `calibrate`."""
    check_number("bins", bins, most=10_000)
    tally, t = verdicts_at(result, "scores", iou)
    verdict, score = tally.verdict_at(t), tally.score
    low, high = (float(score.min()), float(score.max())) if score.size else (0.0, 1.0)
    ends = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
    edge = np.histogram_bin_edges(np.zeros(0), bins, ends)
    bin_D = np.minimum(np.searchsorted(edge, score, side="right") - 1, bins - 1)
    cell_D = np.searchsorted(tally.classes, tally.label) * bins + bin_D

    def count(wanted: int) -> Ints:
        num_cells = tally.classes.size * bins
        return np.bincount(cell_D[verdict == wanted], minlength=num_cells).reshape(-1, bins)

    num_true_KB, num_false_KB = count(TRUE), count(FALSE)
    curve = curve_of_all(tally, t)
    best = Aim().choose(curve)
    return Scores(
        iou=tally.protocol.thresholds[t],
        similarity=tally.protocol.similarity,
        edge=edge,
        num_true=num_true_KB.sum(axis=0),
        num_false=num_false_KB.sum(axis=0),
        num_true_of_class=num_true_KB,
        num_false_of_class=num_false_KB,
        best=float("nan") if best is None else float(curve.score[best]),
        best_f1=float("nan") if best is None else float(curve.f1[best]),
    )
