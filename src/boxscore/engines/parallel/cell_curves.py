"""The curves of every cell: Alg. 11 to 13 for every area range, limit and threshold, all classes at once.

Between true positives precision falls and recall is constant, so only true positives define the curve. Of the false
positives before one, non-hits are counted once for all thresholds; only hits are counted in each cell.

Dimensions: D detections by class and descending score, H hits, U true positives, C detections that count; K classes, A
areas, T thresholds, R recall points; P for any flat axis.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore.engines.parallel.average import average_every_element, num_needed
from boxscore.engines.parallel.precision_recall import ClassCurves, curves_of_counts, curves_of_sorted
from boxscore.protocol.protocol import Protocol
from boxscore.result.curves import Curves
from boxscore.result.tally import FALSE, IGNORED, TRUE, Tally

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def curves(tally: Tally, threads: int) -> Curves:  # noqa: ARG001
    """Build the curves of every area range, limit and threshold, all classes at once (Alg. 11 to 13)."""
    protocol = tally.protocol
    sorted_tally = tally.sorted()
    rows = _rows_of(sorted_tally)
    verdict_ATH = np.ascontiguousarray(np.moveaxis(sorted_tally.hit_verdict, 0, -1))
    num_truths_KA = tally.num_truths
    result = Curves.undefined(tally)
    for a in range(len(protocol.areas)):
        num_truths_K = num_truths_KA[:, a]
        needed_KR = num_needed(num_truths_K, protocol.recall_points)
        is_false_D = sorted_tally.is_false_in(a)
        for m in range(len(protocol.limits)):
            is_within_D = sorted_tally.tier <= m
            within = _within(rows, is_within_D, is_false_D & is_within_D)
            for t in range(len(protocol.thresholds)):
                verdict_H = verdict_ATH[a, t] * within.is_within_H
                cell = _cell(rows, within, verdict_H, (num_truths_K, needed_KR), protocol)
                for name, values in cell._asdict().items():
                    getattr(result, name)[t, ..., a, m] = values
    return result


class _Rows(NamedTuple):
    """All detections by class and descending score, and the hits among them."""

    label_D: Ints
    """Indices of classes."""
    score_D: NDArray[np.floating]
    start_K: Ints
    """The first row of each class."""
    end_K: Ints
    row_H: Ints
    label_H: Ints
    hit_start_K: Ints
    """The first hit of each class."""
    hit_end_K: Ints


def _rows_of(tally: Tally) -> _Rows:
    end_K = np.searchsorted(tally.label, tally.classes.astype(tally.label.dtype), side="right")
    label_D = np.repeat(np.arange(end_K.size), np.diff(end_K, prepend=0))
    row_H = np.flatnonzero(tally.is_hit)
    hit_end_K = np.searchsorted(row_H, end_K)
    return _Rows(
        label_D=label_D,
        score_D=tally.score,
        start_K=_starts(end_K),
        end_K=end_K,
        row_H=row_H,
        label_H=label_D[row_H],
        hit_start_K=_starts(hit_end_K),
        hit_end_K=hit_end_K,
    )


def _starts(end_K: Ints) -> Ints:
    """The start of each class: the end of the class before it."""
    return np.concatenate([[0], end_K[:-1]])[: end_K.size]


class _Within(NamedTuple):
    """Counts that all thresholds share, in one area range and within one limit."""

    is_within_H: Flags
    is_false_D: Flags
    """Whether a row is a false positive and not a hit."""
    num_false_H: Ints
    """Number of these before each hit, within its class."""
    num_false_K: Ints
    first_score_K: Floats
    """The score of each class's first detection, whatever its verdict; NaN without detections."""


def _within(rows: _Rows, is_within_D: Flags, is_false_D: Flags) -> _Within:
    num_before_P = _counts_before(is_false_D)
    row_P = np.append(np.flatnonzero(is_within_D), is_within_D.size)
    first_K = row_P[np.searchsorted(row_P, rows.start_K)]
    score_P = np.append(rows.score_D, rows.score_D.dtype.type(np.nan))
    return _Within(
        is_within_H=is_within_D[rows.row_H],
        is_false_D=is_false_D,
        num_false_H=num_before_P[rows.row_H] - num_before_P[rows.start_K][rows.label_H],
        num_false_K=num_before_P[rows.end_K] - num_before_P[rows.start_K],
        first_score_K=np.where(first_K < rows.end_K, score_P[first_K], np.nan),
    )


def _counts_before(flag_D: Flags) -> Ints:
    """Number of True values before each row, and in total. Shape (D + 1,)."""
    count_P = np.zeros(flag_D.size + 1, np.int64)
    np.cumsum(flag_D, out=count_P[1:])
    return count_P


class _Cell(NamedTuple):
    """The curves of all classes at one threshold, in one area range, within one limit."""

    precision: Floats
    scores: Floats
    recall: Floats
    average_precision: Floats
    num_true: Ints
    num_false: Ints


def _cell(
    rows: _Rows, within: _Within, verdict_H: NDArray[np.uint8], needed: tuple[Ints, Ints], protocol: Protocol
) -> _Cell:
    """Build one cell. `needed`: truths per class, (K,), and true positives needed per recall point, (K, R)."""
    num_truths_K, needed_KR = needed
    hit_U = np.flatnonzero(verdict_H == TRUE)
    label_U = rows.label_H[hit_U]
    num_true_K = np.bincount(label_U, minlength=num_truths_K.size)
    end_K = np.cumsum(num_true_K)
    start_K = _starts(end_K)
    num_before_P = _counts_before(verdict_H == FALSE)
    num_before_K = num_before_P[rows.hit_start_K]
    true = curves_of_counts(
        label_U,
        rows.score_D[rows.row_H[hit_U]],
        (
            np.arange(1, hit_U.size + 1) - start_K[label_U],
            within.num_false_H[hit_U] + num_before_P[hit_U] - num_before_K[label_U],
        ),
        num_truths_K,
        epsilon=protocol.precision_epsilon,
    )
    row_KR = start_K[:, None] + np.maximum(needed_KR, 1) - 1
    is_reached_KR = row_KR < end_K[:, None]
    precision_KR = _best_from(true.precision, start_K, np.minimum(row_KR, end_K[:, None]), is_reached_KR)
    scores_KR = np.where(is_reached_KR, np.append(true.score, 0)[np.minimum(row_KR, hit_U.size)], 0.0)
    # as in COCO: recall 0 is reached by the first detection, whatever its verdict
    is_at_first_KR = (needed_KR == 0) & ~np.isnan(within.first_score_K)[:, None]
    scores_KR = np.where(is_at_first_KR, within.first_score_K[:, None], scores_KR)

    is_defined_K = num_truths_K > 0
    if protocol.ap == "envelope":
        ap_K = _area_under_envelope(true, (start_K, end_K), num_truths_K)
    elif protocol.ap == "interpolated":
        ap_K = np.where(is_defined_K, _sum_in_order(precision_KR / precision_KR.shape[1]), np.nan)
    elif protocol.ap in ("trapezoid", "trapezoid_from_first", "linear_points", "linear_points_to_end"):
        ap_K = _average_all(_counted(rows, within, verdict_H, num_truths_K, protocol), num_truths_K, protocol)
    else:
        # as in COCO: NumPy's order of additions, which depends on the layout of memory
        ap_K = np.where(is_defined_K, np.mean(np.ascontiguousarray(precision_KR), axis=1), np.nan)
    return _Cell(
        precision=np.where(is_defined_K, precision_KR.T, -1.0),
        scores=np.where(is_defined_K, scores_KR.T, -1.0),
        recall=np.where(is_defined_K, num_true_K / np.maximum(num_truths_K, 1), -1.0),
        average_precision=ap_K,
        num_true=num_true_K,
        num_false=within.num_false_K + num_before_P[rows.hit_end_K] - num_before_K,
    )


def _best_from(precision_U: Floats, start_K: Ints, row_KR: Ints, is_reached_KR: Flags) -> Floats:
    """The best precision in each row or a later one of its class, 0 without such a row. Shape (K, R).

    Recall points ascend, so take the maximum between consecutive rows, and then a running maximum from the end.
    """
    bound_P = np.concatenate([start_K[:, None], row_KR], axis=1).reshape(-1)
    best_P = np.maximum.reduceat(np.append(precision_U, 0.0), bound_P)
    best_KR = np.where(is_reached_KR, best_P.reshape(start_K.size, row_KR.shape[1] + 1)[:, 1:], 0.0)
    return np.maximum.accumulate(best_KR[:, ::-1], axis=1)[:, ::-1]


def _sum_in_order(value_KR: Floats) -> Floats:
    """The sum of each row, added in order. # as in py-faster-rcnn"""
    return np.add.accumulate(value_KR, axis=1)[:, -1]


def _counted(
    rows: _Rows, within: _Within, verdict_H: NDArray[np.uint8], num_truths_K: Ints, protocol: Protocol
) -> ClassCurves:
    """The curves with one row per counted detection, for averages that also read false positives."""
    is_counted_D, is_true_D = within.is_false_D.copy(), np.zeros(within.is_false_D.size, bool)
    is_counted_D[rows.row_H], is_true_D[rows.row_H] = verdict_H != IGNORED, verdict_H == TRUE
    row_C = np.flatnonzero(is_counted_D)
    return curves_of_sorted(
        rows.label_D[row_C], rows.score_D[row_C], is_true_D[row_C], num_truths_K, epsilon=protocol.precision_epsilon
    )


def _average_all(counted: ClassCurves, num_truths_K: Ints, protocol: Protocol) -> Floats:
    """AP by the rules that read every counted detection."""
    if protocol.ap in ("linear_points", "linear_points_to_end"):
        return _average_linear_points(counted, num_truths_K, protocol)
    ap_K: Floats = average_every_element(counted, num_truths_K, is_from_first=protocol.ap == "trapezoid_from_first")
    return ap_K


def _area_under_envelope(true: ClassCurves, bounds: tuple[Ints, Ints], num_truths_K: Ints) -> Floats:
    """The area under each envelope, summed as in py-faster-rcnn: by NumPy, including the step to recall 1."""
    ap_K = np.full(num_truths_K.size, np.nan)
    for k in np.flatnonzero(num_truths_K > 0):
        rows = slice(bounds[0][k], bounds[1][k])
        best_U = np.maximum.accumulate(true.precision[rows][::-1])[::-1]
        step_U = best_U * np.diff(true.recall[rows], prepend=0.0)
        ap_K[k] = np.sum(step_U if step_U.size == num_truths_K[k] else np.append(step_U, 0.0))
    return ap_K


def _average_linear_points(counted: ClassCurves, num_truths_K: Ints, protocol: Protocol) -> Floats:
    """The area under each envelope, interpolated at the recall points as in Ultralytics, by NumPy."""
    ap_K = np.full(num_truths_K.size, np.nan)
    point_R = np.asarray(protocol.recall_points)
    is_to_end = protocol.ap == "linear_points_to_end"
    bound_K = np.searchsorted(counted.label, np.arange(num_truths_K.size + 1))
    for k in np.flatnonzero(num_truths_K > 0):
        rows = slice(bound_K[k], bound_K[k + 1])
        recall_U, precision_U = counted.recall[rows], counted.precision[rows]
        ap_K[k] = 0.0
        if recall_U.size:
            drop = recall_U[:0] if is_to_end else recall_U[-1:]  # where the curve falls to 0
            recall_U = np.concatenate([[0.0], recall_U, drop, [1.0]])
            precision_U = np.concatenate([[1.0], precision_U, 0 * drop, [0.0]])
            envelope_U = np.maximum.accumulate(precision_U[::-1])[::-1]
            sample_R = np.interp(point_R, recall_U, envelope_U)
            ap_K[k] = np.sum(np.diff(point_R) * (sample_R[1:] + sample_R[:-1]) / 2.0)
    return ap_K
