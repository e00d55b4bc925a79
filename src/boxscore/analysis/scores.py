"""Scores: how those of true and of false positives are spread."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from boxscore import text
from boxscore.analysis.operating_points import curve_of_all, given_or_best
from boxscore.curves import Floats, Ints
from boxscore.protocol import check_number
from boxscore.summary import plain
from boxscore.tally import FALSE, TRUE, Tally


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Scores:
    """How many true and false positives have which scores, all classes together. `print` shows a table.

    At one IoU threshold, in the first area range and within the largest limit. A bin has its lower end, the last one
    both ends.
    """

    iou: float
    edge: Floats
    """The ends of the bins: from 0 to 1, or, if there are other scores, from the lowest to the highest.
    Shape (B + 1,)."""
    num_true: Ints
    """True positives. Shape (B,)."""
    num_false: Ints
    """False positives. Shape (B,)."""
    best: float
    """The threshold with the best F1 over all classes; NaN without truths or detections."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "iou": self.iou,
            "best": plain(self.best),
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
        title = f"at IoU {self.iou:.2f}; best F1 from {text.fraction(self.best)} on"
        return f"{title}\n\n{text.table(cells, align='<>>', header=['score', 'TP', 'FP'])}"


def spread_scores(tally: Tally, place: int, bins: int) -> Scores:
    """The scores at the threshold of this place."""
    check_number("bins", bins, most=10_000)
    verdict, score = tally.verdict_at(place), tally.score
    low, high = (float(score.min()), float(score.max())) if score.size else (0.0, 1.0)
    ends = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
    num_true, edge = np.histogram(score[verdict == TRUE], bins, ends)
    num_false, _ = np.histogram(score[verdict == FALSE], bins, ends)
    return Scores(
        iou=tally.protocol.thresholds[place],
        edge=edge.astype(np.float64),
        num_true=num_true,
        num_false=num_false,
        best=given_or_best(None, curve_of_all(tally, place)),
    )
