"""Calibration: whether a score of 0.7 means that seven of ten such detections are right."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore.analysis.pairing import verdicts_at
from boxscore.protocol.fields import check_number
from boxscore.result.curves import Floats, Ints
from boxscore.result.result import Result
from boxscore.result.summary import number_or_none
from boxscore.result.tally import IGNORED, TRUE


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Calibration:
    """Mean score and precision in bins of score, at one IoU threshold. `print` shows a table.

    All classes together, without ignored detections, in the first area range and within the largest limit. A bin
    includes its lower edge, the last bin both edges. NaN marks an empty bin.
    """

    iou: float
    similarity: str = "IoU"
    """The similarity that `iou` is a threshold of."""
    edge: Floats
    """The edges of the bins, from 0 to 1. Shape (B + 1,)."""
    count: Ints
    """Number of detections. Shape (B,)."""
    num_true: Ints
    """Number of true positives. Shape (B,)."""
    mean_score: Floats
    """Shape (B,)."""
    precision: Floats
    """Shape (B,)."""
    ece: float
    """Expected calibration error: the mean of |precision - mean score| over detections. NaN without detections."""
    mce: float
    """Maximum calibration error: the largest |precision - mean score| of any bin."""
    label: Ints
    """Shape (K,)."""
    name: tuple[str, ...]
    """Length K."""
    ece_of_class: Floats
    """Expected calibration error of each class, in the same bins. NaN without detections. Shape (K,)."""

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON; undefined is None."""
        return {
            "iou": self.iou,
            "ece": number_or_none(self.ece),
            "mce": number_or_none(self.mce),
            "bins": [
                {
                    "low": float(self.edge[b]),
                    "high": float(self.edge[b + 1]),
                    "count": int(self.count[b]),
                    "num_true": int(self.num_true[b]),
                    "mean_score": number_or_none(self.mean_score[b]),
                    "precision": number_or_none(self.precision[b]),
                }
                for b in range(self.count.size)
            ],
            "per_class": [
                {"label": int(self.label[k]), "name": name, "ece": number_or_none(self.ece_of_class[k])}
                for k, name in enumerate(self.name)
            ],
        }

    def __repr__(self) -> str:
        return f"Calibration(ece={self.ece:.4f}, {text.count(self.count.size, 'bin')})"

    def __str__(self) -> str:
        cells = [
            [
                f"{self.edge[b]:.2f} to {self.edge[b + 1]:.2f}",
                f"{self.count[b]:,}",
                text.fraction(self.mean_score[b]),
                text.fraction(self.precision[b]),
                text.fraction(abs(self.precision[b] - self.mean_score[b])),
            ]
            for b in range(self.count.size)
        ]
        table = text.table(cells, align="<>>>>", header=["score", "detections", "mean score", "precision", "gap"])
        error = f"{text.fraction(self.ece)}, at most {text.fraction(self.mce)} in a bin"
        title = f"calibration error {error}, at {self.similarity} {self.iou:.2f}"
        return f"{title}\n\n{table}"


def calibrate(result: Result, *, bins: int = 10, iou: float | None = None) -> Calibration:
    """The calibration of a result. `iou`: any threshold; default: 0.5, or the protocol's first if it has no 0.5."""
    check_number("bins", bins, most=10_000)
    tally, t = verdicts_at(result, "calibration", iou)
    verdict = tally.verdict_at(t)
    is_in = verdict != IGNORED
    score, is_true = tally.score[is_in].astype(np.float64), verdict[is_in] == TRUE
    is_outside = (score < 0) | (score > 1)
    if is_outside.any():
        raise InputError(f"calibration needs scores between 0 and 1; got {score[is_outside][0]:g}")
    edge = np.arange(bins + 1) / bins
    bin_D = np.minimum(np.searchsorted(edge, score, side="right") - 1, bins - 1)
    class_D = np.searchsorted(tally.classes, tally.label[is_in])
    shape = (tally.classes.size, bins)
    cell_D = class_D * bins + bin_D

    def total(weight: Any = None) -> Any:
        return np.bincount(cell_D, weight, minlength=shape[0] * shape[1]).reshape(shape)

    count_KB, true_KB, score_KB = total(), total(is_true).astype(np.int64), total(score)
    count_B, true_B, score_B = count_KB.sum(axis=0), true_KB.sum(axis=0), score_KB.sum(axis=0)
    gap_B = np.abs(true_B - score_B)  # |precision - mean score|, times the detections in the bin
    is_full_B = count_B > 0
    with np.errstate(invalid="ignore"):
        return Calibration(
            iou=tally.protocol.thresholds[t],
            similarity=tally.protocol.similarity,
            edge=edge,
            count=count_B,
            num_true=true_B,
            mean_score=score_B / count_B,
            precision=true_B / count_B,
            ece=float(gap_B.sum() / np.float64(count_B.sum())),
            mce=float((gap_B[is_full_B] / count_B[is_full_B]).max()) if is_full_B.any() else float("nan"),
            label=tally.classes,
            name=result.per_class.name,
            ece_of_class=np.abs(true_KB - score_KB).sum(axis=1) / count_KB.sum(axis=1),
        )
