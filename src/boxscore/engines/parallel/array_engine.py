"""The parallel engine: the stages in order, over mini-batches of images, on whatever array library holds the shapes.

Shapes and scores stay on their device; ids are grouped in host memory, and verdicts come back to it.

Dimensions: E detections and H truths of all images, I images with detections; in a batch N images, D detections and G
truths of each, P = N * D, S detections to settle; A areas, T thresholds, R recall points, K classes; for curves D
detections within the limit, C that count, U true positives.
"""

from collections.abc import Iterator
from functools import reduce
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from boxscore._support.arrays import (
    Array,
    convert,
    float_dtype,
    gather,
    has_float64,
    library,
    namespace,
    to_numpy,
    with_padding,
)
from boxscore.engines.parallel.average import average_every_element, envelope, num_needed, rows_at
from boxscore.engines.parallel.batch import Compared, DetectionBatch, TruthBatch, compare, which_count
from boxscore.engines.parallel.categorization import nominate, reaches, settle
from boxscore.engines.parallel.precision_recall import ClassCurves, curves_of_sorted
from boxscore.model.coverage import COVERED
from boxscore.model.curves import Curves
from boxscore.model.dataset import Detections, Truths, classes_of, coverage_codes, host_ids, host_scores
from boxscore.model.protocol import CROWD, GROUP, Protocol
from boxscore.model.tally import FALSE, IGNORED, TRUE, Tally

Ints = NDArray[np.int64]
Batch = TypeVar("Batch", DetectionBatch, TruthBatch)


def match(detections: Detections, truths: Truths, protocol: Protocol, threads: int) -> Tally:  # noqa: ARG001
    """The verdict of every detection, from flat columns, in mini-batches of images of similar size."""
    classes = classes_of(detections, truths)
    columns, truth_columns = detections.geometry.arrays[0], truths.geometry.arrays[0]
    home = truth_columns if library(columns) == "numpy" else columns
    flat = _flat_detections(detections, classes, protocol, home)
    if (code_E := coverage_codes(detections, truths, protocol)) is not None:
        flat = flat._replace(coverage=with_padding(code_E, COVERED, home))
    truth_flat = _flat_truths(truths, classes, protocol, home)
    image_E, image_H = host_ids(detections.image), host_ids(truths.image)
    gather_shapes, gather_truths = (each.geometry.gatherer(protocol, home) for each in (detections, truths))

    num_detections = len(detections)
    verdict_EAT = np.zeros((num_detections, len(protocol.areas), len(protocol.thresholds)), np.uint8)
    similarity_E = np.zeros(num_detections)
    rank_E = np.zeros(num_detections, np.int32)
    is_kept_E = np.zeros(num_detections, bool)
    for row_ND, row_NG in _batches(image_E, image_H, detections.geometry.pairs_per_batch):
        batch = _gather_rows(flat, row_ND)._replace(columns=gather_shapes(row_ND))
        truth_batch = _gather_rows(truth_flat, row_NG)._replace(columns=gather_truths(row_NG))
        compared = compare(batch, truth_batch, protocol, detections.geometry.pairwise)
        is_row_ND = row_ND < num_detections
        row_P = row_ND[is_row_ND]
        verdict_NDAT, similarity_ND = _categorize(compared, protocol)
        verdict_EAT[row_P], similarity_E[row_P] = verdict_NDAT[is_row_ND], similarity_ND[is_row_ND]
        rank_E[row_P] = to_numpy(compared.rank_ND)[is_row_ND]
        is_kept_E[row_P] = ~to_numpy(compared.discarded_ND)[is_row_ND]

    kind_H = None if truth_flat.kind is None else truth_flat.kind[:-1]
    return Tally.from_verdicts(
        protocol=protocol,
        image=image_E[is_kept_E],
        label=host_ids(detections.label)[is_kept_E],
        score=host_scores(detections.score)[is_kept_E],
        rank=rank_E[is_kept_E],
        verdict=verdict_EAT[is_kept_E],
        similarity=similarity_E[is_kept_E],
        classes=classes,
        truth_image=image_H,
        truth_label=host_ids(truths.label),
        truth_counts=to_numpy(which_count(truth_flat.area[:-1], kind_H, protocol)),
        class_names=truths.names_by_label,
        iou_dtype="float64" if has_float64(home) else "float32",
    )


def _flat_detections(detections: Detections, classes: Ints, protocol: Protocol, home: Array) -> DetectionBatch:
    """All but the shapes, on the device of `home`, with a row of padding behind the last; labels are indices of
    `classes`.
    """
    label_E = np.searchsorted(classes, to_numpy(detections.label))
    return DetectionBatch(
        columns=(),
        area=with_padding(_areas(detections, protocol, home), 0, home),
        label=with_padding(label_E, -1, home),
        score=with_padding(_comparable(detections.score, home), 0, home),
        discarded=with_padding(np.zeros(len(detections), bool), True, home),
    )


def _areas(columns: Detections | Truths, protocol: Protocol, home: Array) -> Array:
    """The areas that decide size classes, in the widest float of `home`."""
    area = columns.geometry.areas(protocol, home) if columns.area is None else convert(columns.area, like=home)
    return namespace(area).astype(area, float_dtype(home))


def _comparable(score: Array, home: Array) -> Array:
    """Scores that compare on the device of `home` as they do where they are."""
    if library(score) == "numpy" and not has_float64(home):
        return np.unique(score, return_inverse=True)[1].astype(np.float32)  # exact for 16 million different scores
    return score


def _flat_truths(truths: Truths, classes: Ints, protocol: Protocol, home: Array) -> TruthBatch:
    label_H = np.searchsorted(classes, to_numpy(truths.label))
    kind_H = truths.kinds(protocol)
    has_groups = kind_H is not None and bool((to_numpy(kind_H) == GROUP).any())
    return TruthBatch(
        columns=(),
        area=with_padding(_areas(truths, protocol, home), 0, home),
        label=with_padding(label_H, -1, home),
        kind=None if kind_H is None else with_padding(kind_H, CROWD, home),
        is_group=with_padding(kind_H == GROUP, False, home) if has_groups else None,
    )


def _batches(image_E: Ints, image_H: Ints, pairs_per_batch: int) -> Iterator[tuple[Ints, Ints]]:
    """Rows of detections and of truths for mini-batches of images, padded with the row behind the last.

    Images with alike numbers of detections go together, so little is padded. Those without detections need no matching.
    """
    order_E, order_H = np.argsort(image_E, kind="stable"), np.argsort(image_H, kind="stable")
    image_I, start_I, count_I = np.unique(image_E[order_E], return_index=True, return_counts=True)
    truth_start_I = np.searchsorted(image_H[order_H], image_I)
    truth_count_I = np.searchsorted(image_H[order_H], image_I, side="right") - truth_start_I
    by_size_I = np.lexsort((truth_count_I, count_I))

    def rows_of(image_N: Ints) -> tuple[Ints, Ints]:
        return (
            _padded_rows(order_E, start_I[image_N], count_I[image_N]),
            _padded_rows(order_H, truth_start_I[image_N], truth_count_I[image_N]),
        )

    first, most_truths = 0, 1
    for last, image in enumerate(by_size_I):
        most_truths = max(most_truths, truth_count_I[image])
        if (last + 1 - first) * count_I[image] * most_truths > pairs_per_batch and last > first:
            yield rows_of(by_size_I[first:last])
            first, most_truths = last, max(1, truth_count_I[image])
    if first < by_size_I.size:
        yield rows_of(by_size_I[first:])


def _padded_rows(order_E: Ints, start_N: Ints, count_N: Ints) -> Ints:
    """The rows of each image, at least one, padded with the row behind the last. Shape (N, D)."""
    index_D = np.arange(max(1, count_N.max()))
    is_row_ND = index_D < count_N[:, None]
    row_ND = np.full(is_row_ND.shape, order_E.size)
    row_ND[is_row_ND] = order_E[(start_N[:, None] + index_D)[is_row_ND]]
    return row_ND


def _gather_rows(batch: Batch, row: Ints) -> Batch:
    """Rows of all columns but the shapes as a mini-batch. Shape (N, D) each."""
    return type(batch)((), *(None if column is None else gather(column, row) for column in batch[1:]))


def _categorize(compared: Compared, protocol: Protocol) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """The verdicts of a batch, and the similarities of true positives in the first cell, in host memory. Shapes
    (N, D, A, T) and (N, D).

    Eager, so it may look: only detections with a candidate are settled, with as many candidates as the one that has
    most. All that is looked at is a count for each detection.
    """
    xp = namespace(compared.similarity_NDG)
    _, num_detections, num_truths = compared.similarity_NDG.shape
    is_candidate_NDG = reaches(compared.similarity_NDG, protocol.cutoffs[0], protocol.comparison)
    count_P = to_numpy(xp.sum(xp.astype(is_candidate_NDG, xp.int32), axis=2)).reshape(-1)
    is_counted_NDA1 = to_numpy(compared.is_counted_NDA)[..., None]
    verdict_NDAT = np.repeat(
        np.where(is_counted_NDA1, np.uint8(FALSE), np.uint8(IGNORED)), len(protocol.thresholds), axis=3
    )
    verdict_PAT = verdict_NDAT.reshape(-1, *verdict_NDAT.shape[2:])  # the same memory
    similarity_P = np.zeros(count_P.size)
    row_S = np.flatnonzero(count_P)
    if row_S.size:
        similarity_SG = gather(xp.reshape(compared.similarity_NDG, (-1, num_truths)), row_S)
        first_truth_S = convert(row_S // num_detections * num_truths, like=similarity_SG)
        is_one_enough = protocol.matching == "best" and compared.truths.is_group_G is None
        num_candidates = 1 if is_one_enough else int(count_P.max())
        candidates = nominate(similarity_SG, first_truth_S, protocol.ties, num_candidates=num_candidates)
        rank_S = gather(xp.reshape(compared.rank_ND, (-1,)), row_S)
        settled = settle(candidates, rank_S, compared.truths, protocol)
        found_SAT = to_numpy(settled.verdict_DAT)
        verdict_PAT[row_S] = np.where(found_SAT == FALSE, verdict_PAT[row_S], found_SAT)
        if protocol.keeps_similarity:
            similarity_P[row_S] = to_numpy(settled.similarity_D)
    return verdict_NDAT, similarity_P.reshape(verdict_NDAT.shape[:2])


def curves(tally: Tally, threads: int) -> Curves:  # noqa: ARG001
    """Alg. 11 to 13 for every area range, limit and threshold, all classes at once."""
    protocol = tally.protocol
    rows = tally.sorted()
    result = Curves.undefined(tally)
    num_truths_KA = tally.num_truths
    label_D = np.searchsorted(tally.classes, rows.label)
    verdict_ATD = np.ascontiguousarray(np.moveaxis(rows.verdict, 0, -1))
    for m in range(len(protocol.limits)):
        is_within_D = rows.tier <= m
        within = label_D[is_within_D], rows.score[is_within_D]
        for a in range(len(protocol.areas)):
            for t in range(len(protocol.thresholds)):
                cell = _cell(*within, verdict_ATD[a, t][is_within_D], num_truths_KA[:, a], protocol)
                for name, values in cell._asdict().items():
                    getattr(result, name)[t, ..., a, m] = values
    return result


class _Cell(NamedTuple):
    """The curves of all classes at one threshold, in one area range, within one limit."""

    precision: NDArray[np.float64]
    scores: NDArray[np.float64]
    recall: NDArray[np.float64]
    average_precision: NDArray[np.float64]
    num_true: Ints
    num_false: Ints


def _cell(label_D: Ints, score_D: Array, verdict_D: Array, num_truths_K: Ints, protocol: Protocol) -> _Cell:
    num_classes = num_truths_K.size
    row_C = np.flatnonzero(verdict_D != IGNORED)
    is_true_C = verdict_D[row_C] == TRUE
    counted = curves_of_sorted(
        label_D[row_C], score_D[row_C], is_true_C, num_truths_K, epsilon=protocol.precision_epsilon
    )
    # Precision falls between true positives and recall stands still, so they alone make the curve.
    true_U = np.flatnonzero(is_true_C)
    true = ClassCurves(*(column[true_U] for column in counted))
    num_true_K = np.bincount(true.label, minlength=num_classes)
    num_false_K = np.bincount(counted.label, minlength=num_classes) - num_true_K

    needed_KR = num_needed(num_truths_K, protocol.recall_points)
    row_KR, is_reached_KR = rows_at(true.label, true.num_true, needed_KR)
    best_U = envelope(true.precision, true.label)
    precision_RK = _sample(best_U, row_KR, is_reached_KR).T
    scores_RK = _sample(true.score, row_KR, is_reached_KR).T
    # as in COCO: recall 0 is reached by the first detection, whatever its verdict
    seen, first = np.unique(label_D, return_index=True)
    scores_RK[:, seen] = np.where(needed_KR[seen].T == 0, score_D[first], scores_RK[:, seen])

    if protocol.ap == "trapezoid":
        ap_K = average_every_element(counted, num_truths_K)
    elif protocol.ap == "trapezoid_from_first":
        ap_K = average_every_element(counted, num_truths_K, is_from_first=True)
    elif protocol.ap in ("linear_points", "linear_points_to_end"):
        ap_K = _average_linear_points(counted, num_truths_K, protocol)
    elif protocol.ap == "envelope":
        ap_K = _area_under_envelope(true, best_U, num_truths_K)
    elif protocol.ap == "interpolated":
        ap_K = np.where(num_truths_K > 0, reduce(np.add, precision_RK / len(precision_RK)), np.nan)
    else:
        # one point after the other, so that every engine has the same bits; NumPy's mean goes by the layout of memory
        ap_K = np.where(num_truths_K > 0, reduce(np.add, precision_RK) / len(precision_RK), np.nan)
    is_defined_K = num_truths_K > 0
    return _Cell(
        precision=np.where(is_defined_K, precision_RK, -1.0),
        scores=np.where(is_defined_K, scores_RK, -1.0),
        recall=np.where(is_defined_K, num_true_K / np.maximum(num_truths_K, 1), -1.0),
        average_precision=ap_K,
        num_true=num_true_K,
        num_false=num_false_K,
    )


def _area_under_envelope(true: ClassCurves, best_U: Array, num_truths_K: Ints) -> Array:
    """The area under each envelope, summed as py-faster-rcnn does: by NumPy, with the step that leads to recall 1."""
    ap_K = np.full(num_truths_K.size, np.nan)
    end_K = np.searchsorted(true.label, np.arange(num_truths_K.size), side="right")
    start_K = np.concatenate([[0], end_K[:-1]])
    for k in np.flatnonzero(num_truths_K > 0):
        rows = slice(start_K[k], end_K[k])
        step_U = best_U[rows] * np.diff(true.recall[rows], prepend=0.0)
        ap_K[k] = np.sum(step_U if step_U.size == num_truths_K[k] else np.append(step_U, 0.0))
    return ap_K


def _average_linear_points(curves: ClassCurves, num_truths_K: Ints, protocol: Protocol) -> Array:
    """The area under each envelope, interpolated at the recall points as Ultralytics does, by NumPy."""
    ap_K = np.full(num_truths_K.size, np.nan)
    point_R = np.asarray(protocol.recall_points)
    is_to_end = protocol.ap == "linear_points_to_end"
    for k in np.flatnonzero(num_truths_K > 0):
        rows = curves.label == k
        ap_K[k] = 0.0
        if rows.any():
            recall_U, precision_U = curves.recall[rows], curves.precision[rows]
            drop = recall_U[:0] if is_to_end else recall_U[-1:]  # where the curve falls to 0
            recall_U = np.concatenate([[0.0], recall_U, drop, [1.0]])
            precision_U = np.concatenate([[1.0], precision_U, 0 * drop, [0.0]])
            envelope_U = np.maximum.accumulate(precision_U[::-1])[::-1]
            sample_R = np.interp(point_R, recall_U, envelope_U)
            ap_K[k] = np.sum(np.diff(point_R) * (sample_R[1:] + sample_R[:-1]) / 2.0)
    return ap_K


def _sample(value_D: Array, row_KR: Array, is_reached_KR: Array) -> Array:
    return np.where(is_reached_KR, value_D[row_KR], 0.0) if value_D.size else np.zeros(row_KR.shape)
