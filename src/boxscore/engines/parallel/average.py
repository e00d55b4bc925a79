"""Average precision of all classes at once (Alg. 12 and 13), and the envelope, which the paper could not parallelize.

The envelope of a curve is a running maximum from its end. That looks sequential; by doubling, maxima over 1, 2, 4, …
rows, it takes log2(rows) steps for all classes together.

Dimensions: D rows, K classes, R recall points.
"""

from collections.abc import Sequence

from boxscore.arrays import (
    Array,
    arange,
    constant,
    cumulative_sum,
    float_dtype,
    int_dtype,
    namespace,
    segment_sum,
)
from boxscore.engines.parallel.precision_recall import ClassCurves, clip_label


def average_every_element(curves: ClassCurves, num_truths: Array, *, is_from_first: bool = False) -> Array:
    """The area under each raw curve by trapezoids, from the point (0, 1) on (Alg. 12). NaN without truths. Shape (K,).

    Args:
        curves: Curves from `precision_recall`.
        num_truths: Number of truths per class. Shape (K,).
        is_from_first: Start at the curve's first point, as in CrowdHuman's evaluation.

    >>> import numpy as np
    >>> from boxscore.parallel import precision_recall
    >>> label, score, is_true = np.array([0, 0, 0]), np.array([0.9, 0.8, 0.7]), np.array([True, False, True])
    >>> curves = precision_recall(label, score, is_true, np.array([2]))  # (1/2, 1), (1/2, 1/2), (1, 2/3)
    >>> average_every_element(curves, np.array([2])).tolist()  # 1/2 + (1/2 + 2/3) / 2 * 1/2
    [0.7916666666666666]
    """
    xp = namespace(curves.precision)
    is_first_D = _is_first(curves.label)
    one_D, zero_D = xp.ones_like(curves.precision), xp.zeros_like(curves.precision)
    before_D = xp.where(is_first_D, one_D, _previous(curves.precision))
    gain_D = curves.recall - xp.where(is_first_D, zero_D, _previous(curves.recall))
    if is_from_first:
        gain_D = xp.where(is_first_D, zero_D, gain_D)
    return _sum_by_class((curves.precision + before_D) * gain_D / 2, curves.label, num_truths)


def average_under_envelope(curves: ClassCurves, num_truths: Array) -> Array:
    """The area under each curve's envelope, which Alg. 2 computes one class at a time. NaN without truths. Shape (K,).

    Args:
        curves: Curves from `precision_recall`.
        num_truths: Number of truths per class. Shape (K,).
    """
    xp = namespace(curves.precision)
    before_D = xp.where(_is_first(curves.label), xp.zeros_like(curves.recall), _previous(curves.recall))
    step_D = envelope(curves.precision, curves.label) * (curves.recall - before_D)
    return _sum_by_class(step_D, curves.label, num_truths)


def average_at_recalls(curves: ClassCurves, num_truths: Array, recall_points: Sequence[float]) -> Array:
    """The mean over `recall_points` of the best precision at or beyond that recall (Alg. 13). Shape (K,).

    NaN for a class without truths.

    Args:
        curves: Curves from `precision_recall`.
        num_truths: Number of truths per class. Shape (K,).
        recall_points: Recalls from 0 to 1.

    >>> import numpy as np
    >>> from boxscore.parallel import precision_recall
    >>> label, score, is_true = np.array([0, 0, 0]), np.array([0.9, 0.8, 0.7]), np.array([True, False, True])
    >>> curves = precision_recall(label, score, is_true, np.array([2]))
    >>> average_at_recalls(curves, np.array([2]), [0.0, 1.0]).tolist()  # (1 + 2/3) / 2
    [0.8333333333333333]
    """
    xp = namespace(curves.precision)
    needed_KR = num_needed(num_truths, recall_points)
    row_KR, is_reached_KR = rows_at(curves.label, curves.num_true, needed_KR)
    precision_D = envelope(curves.precision, curves.label)
    shape = tuple(needed_KR.shape)
    if precision_D.shape[0] == 0:
        return _defined(xp.zeros_like(num_truths, dtype=precision_D.dtype), num_truths)
    sample_KR = xp.reshape(xp.take(precision_D, xp.reshape(row_KR, (-1,)), axis=0), shape)
    sample_KR = xp.where(is_reached_KR, sample_KR, xp.zeros_like(sample_KR))
    return _defined(xp.sum(sample_KR, axis=1) / len(recall_points), num_truths)


def envelope(precision_D: Array, label_D: Array) -> Array:
    """The best precision in this row or a later one of the same class. Shape (D,)."""
    xp = namespace(precision_D)
    reach, num_rows = 1, int(precision_D.shape[0])
    while reach < num_rows:
        near, far = precision_D[:-reach], precision_D[reach:]
        best = xp.where(label_D[:-reach] == label_D[reach:], xp.maximum(near, far), near)
        precision_D = xp.concat([best, precision_D[-reach:]], axis=0)
        reach *= 2
    return precision_D


def num_needed(num_truths: Array, recall_points: Sequence[float]) -> Array:
    """The smallest number of true positives n with n / num_truths >= recall, in floating point. Shape (K, R)."""
    xp = namespace(num_truths)
    real = float_dtype(num_truths)
    truths_K1 = xp.astype(xp.maximum(num_truths, xp.ones_like(num_truths)), real)[:, None]
    recall_R = constant(list(recall_points), like=num_truths, dtype=real)
    guess_KR = xp.ceil(recall_R * truths_K1)  # right, or one off either way by rounding
    is_enough_KR = guess_KR / truths_K1 >= recall_R
    is_too_many_KR = (guess_KR - 1) / truths_K1 >= recall_R
    whole = int_dtype(num_truths)
    return xp.astype(guess_KR, whole) + 1 - xp.astype(is_enough_KR, whole) - xp.astype(is_too_many_KR, whole)


def rows_at(label_D: Array, num_true_D: Array, needed_KR: Array) -> tuple[Array, Array]:
    """The row of each class's n-th true positive, its first row for n = 0, and whether such a row exists.

    Running counts of true positives over all classes ascend, so one search finds all rows. Shapes (K, R).
    """
    xp = namespace(num_true_D)
    num_classes, num_rows = int(needed_KR.shape[0]), int(label_D.shape[0])
    if num_rows == 0:
        return xp.zeros_like(needed_KR), needed_KR < 0
    class_K = xp.astype(arange(num_classes, like=label_D), label_D.dtype)
    start_K, end_K = xp.searchsorted(label_D, class_K), xp.searchsorted(label_D, class_K, side="right")
    is_true_D = num_true_D > xp.where(_is_first(label_D), xp.zeros_like(num_true_D), _previous(num_true_D))
    total_D = cumulative_sum(xp.astype(is_true_D, int_dtype(num_true_D)))
    before_K = xp.take(total_D - xp.astype(is_true_D, total_D.dtype), _clip(start_K, num_rows), axis=0)
    row_P = xp.searchsorted(total_D, xp.reshape(before_K[:, None] + needed_KR, (-1,)))
    row_KR = xp.maximum(xp.reshape(row_P, tuple(needed_KR.shape)), start_K[:, None] + xp.zeros_like(needed_KR))
    return _clip(row_KR, num_rows), row_KR < end_K[:, None]


def _clip(row: Array, num_rows: int) -> Array:
    xp = namespace(row)
    return xp.minimum(row, (num_rows - 1) * xp.ones_like(row))


def _is_first(label_D: Array) -> Array:
    """Whether each row is the first of its class."""
    xp = namespace(label_D)
    return xp.concat([label_D[:1] == label_D[:1], label_D[1:] != label_D[:-1]], axis=0)


def _previous(value_D: Array) -> Array:
    """The value of the previous row; the first row keeps its own."""
    return namespace(value_D).concat([value_D[:1], value_D[:-1]], axis=0)


def _sum_by_class(value_D: Array, label_D: Array, num_truths_K: Array) -> Array:
    xp = namespace(value_D)
    value_D = xp.where(label_D >= 0, value_D, xp.zeros_like(value_D))
    return _defined(segment_sum(value_D, clip_label(label_D), int(num_truths_K.shape[0])), num_truths_K)


def _defined(ap_K: Array, num_truths_K: Array) -> Array:
    """The values, with NaN for classes without truths."""
    xp = namespace(ap_K)
    return xp.where(num_truths_K > 0, ap_K, float("nan") * xp.ones_like(ap_K))
