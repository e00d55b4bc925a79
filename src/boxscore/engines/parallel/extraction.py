"""TP and FP extraction (Alg. 10)."""

from typing import NamedTuple

from boxscore.arrays import Array, int_dtype, namespace
from boxscore.result.tally import IGNORED, TRUE


class Extracted(NamedTuple):
    """The verdicts of a mini-batch, flat. Rows that don't count have label -1."""

    label: Array
    score: Array
    is_true: Array


def extract(label: Array, score: Array, verdict: Array) -> Extracted:
    """The detections of a mini-batch as flat rows, true or false positive (Alg. 10). Shape (N * D,) each.

    The paper drops ignored detections; here they keep their row with label -1, which `precision_recall` skips, so that
    shapes are static and the stage can be jitted.

    Args:
        label: Labels. Shape (N, D).
        score: Scores. Shape (N, D).
        verdict: 2 true positive, 1 false positive, 0 ignored. Shape (N, D).

    >>> import numpy as np
    >>> extract(np.array([[7, 7, 4]]), np.array([[0.9, 0.8, 0.7]]), np.array([[2, 0, 1]])).label.tolist()
    [7, -1, 4]
    """
    xp = namespace(label, score, verdict)
    label = xp.astype(label, int_dtype(label))
    counted_ND = xp.where(verdict != IGNORED, label, -xp.ones_like(label))
    return Extracted(xp.reshape(counted_ND, (-1,)), xp.reshape(score, (-1,)), xp.reshape(verdict == TRUE, (-1,)))
