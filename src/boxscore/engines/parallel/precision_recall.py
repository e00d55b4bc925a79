"""TP and FP extraction (Alg. 10), and precision and recall of all classes at once (Alg. 11).

The paper compares every detection with every class: classes x detections numbers. Sorted by class, the detections of
one class are contiguous, and the same counts are differences of one running sum.

Dimensions: D detections, K classes.
"""

from typing import NamedTuple

from boxscore.arrays import Array, arange, cumulative_sum, float_dtype, int_dtype, namespace
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


class ClassCurves(NamedTuple):
    """Precision-recall curves of all classes, one row per detection: class by class, by descending score."""

    label: Array
    """The class, 0 to K - 1; -1: no class. Shape (D,)."""
    score: Array
    """Shape (D,)."""
    num_true: Array
    """True positives of the class down to this row. Shape (D,)."""
    num_false: Array
    """False positives of the class down to this row. Shape (D,)."""
    precision: Array
    """Shape (D,)."""
    recall: Array
    """0 for a class without truths. Shape (D,)."""


def precision_recall(
    label: Array, score: Array, is_true: Array, num_truths: Array, *, epsilon: float = 0.0
) -> ClassCurves:
    """The curves of all classes from the verdicts of all mini-batches (Alg. 11).

    Args:
        label: Classes 0 to K - 1, or -1 for rows to skip. Shape (D,).
        score: Scores; of equal ones the first row comes first. Shape (D,).
        is_true: Whether a row is a true positive. Shape (D,).
        num_truths: Number of truths per class. Shape (K,).
        epsilon: Number added to the denominator of precision.

    >>> import numpy as np
    >>> label, score, is_true = np.array([0, 1, 0]), np.array([0.7, 0.9, 0.8]), np.array([True, False, False])
    >>> curves = precision_recall(label, score, is_true, np.array([2, 1]))
    >>> curves.precision.tolist(), curves.recall.tolist()
    ([0.0, 0.5, 0.0], [0.0, 0.5, 0.0])
    """
    xp = namespace(label, score, is_true, num_truths)
    order_D = xp.argsort(-score, stable=True)
    order_D = xp.take(order_D, xp.argsort(xp.take(label, order_D, axis=0), stable=True), axis=0)
    label_D, score_D, is_true_D = (xp.take(column, order_D, axis=0) for column in (label, score, is_true))
    return curves_of_sorted(label_D, score_D, is_true_D, num_truths, epsilon=epsilon)


def curves_of_sorted(
    label_D: Array, score_D: Array, is_true_D: Array, num_truths_K: Array, *, epsilon: float
) -> ClassCurves:
    """The curves of rows that are already sorted: class by class, by descending score."""
    num_classes = int(num_truths_K.shape[0])
    num_true_D = _running_count(is_true_D, label_D, num_classes)
    num_false_D = _running_count(~is_true_D, label_D, num_classes)
    return curves_of_counts(label_D, score_D, (num_true_D, num_false_D), num_truths_K, epsilon=epsilon)


def curves_of_counts(
    label_D: Array, score_D: Array, counts: tuple[Array, Array], num_truths_K: Array, *, epsilon: float
) -> ClassCurves:
    """The curves of rows with known counts of true and false positives."""
    xp = namespace(label_D, score_D, num_truths_K)
    num_true_D, num_false_D = counts
    real = float_dtype(score_D)
    truths_D = xp.astype(xp.take(num_truths_K, clip_label(label_D), axis=0), real)
    true_D = xp.astype(num_true_D, real)
    one_D = xp.ones_like(true_D)  # for classes without truths
    return ClassCurves(
        label=label_D,
        score=score_D,
        num_true=num_true_D,
        num_false=num_false_D,
        precision=precision_of(true_D, xp.astype(num_true_D + num_false_D, real), epsilon),
        recall=true_D / xp.maximum(truths_D, one_D),
    )


def precision_of(num_true: Array, num_counted: Array, epsilon: float) -> Array:
    """Precision from counts, as floats; 0 where nothing is counted. Any shape."""
    xp = namespace(num_true)
    return num_true / (xp.maximum(num_counted, xp.ones_like(num_counted)) + epsilon)


def _running_count(mask_D: Array, label_D: Array, num_classes: int) -> Array:
    """The number of True values up to each row, restarting in each class. `label_D` ascends. Shape (D,)."""
    xp = namespace(mask_D)
    total_D = cumulative_sum(xp.astype(mask_D, int_dtype(mask_D)))
    before_D = total_D - xp.astype(mask_D, total_D.dtype)
    start_K = xp.searchsorted(label_D, xp.astype(arange(num_classes, like=label_D), label_D.dtype))
    num_rows = int(mask_D.shape[0])
    if num_rows == 0:
        return total_D
    start_K = xp.minimum(start_K, (num_rows - 1) * xp.ones_like(start_K))  # classes after the last row are never read
    return total_D - xp.take(xp.take(before_D, start_K, axis=0), clip_label(label_D), axis=0)


def clip_label(label_D: Array) -> Array:
    """Labels as indices: rows without a class read class 0, and are skipped later."""
    xp = namespace(label_D)
    return xp.astype(xp.maximum(label_D, xp.zeros_like(label_D)), int_dtype(label_D))
