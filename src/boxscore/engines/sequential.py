"""The sequential method (Alg. 1, 2 and 3) as simple loops: one class, one detection, one truth at a time.

Short, obvious and slow: the oracle that the other engines must equal, and the baseline that they are compared with.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from boxscore.arrays import to_numpy
from boxscore.data.coverage import COVERED, NOT_COVERED, NOT_EXHAUSTIVE
from boxscore.data.dataset import (
    IGNORED_KINDS,
    SHARED_KINDS,
    Detections,
    Truths,
    classes_of,
    coverage_codes,
    host_areas,
    host_scores,
)
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.geometry.boxes import Boxes
from boxscore.protocol.protocol import GROUP, REGULAR, Area, Pixels, Protocol
from boxscore.result.curves import Curves
from boxscore.result.tally import FALSE, IGNORED, TRUE, CountedTruths, RankedRows, Tally


class _Truth(NamedTuple):
    row: int
    shape: Any
    area: float
    kind: int


class _Overlap(NamedTuple):
    truth: _Truth
    similarity: float


class _Judged(NamedTuple):
    verdict: int
    taken: int = -1
    similarity: float = math.nan


def match(
    detections: Detections,
    truths: Truths,
    protocol: Protocol,
    threads: int = 1,  # noqa: ARG001
    is_traced: bool = False,
) -> Tally:
    """Match with the loops of Alg. 1, for every area range and threshold: the verdict of every detection.

    `is_traced`: add the columns of a traced tally.
    """
    similarity = detections.geometry.similarity
    shapes, areas = detections.geometry.shapes(protocol), host_areas(detections, protocol).tolist()
    truths_of = _truths_by_image_and_label(truths, protocol)
    images, labels, scores = (to_numpy(column).tolist() for column in _ids_and_scores(detections))

    ranks = _ranks(images, labels, scores, protocol)
    codes = coverage_codes(detections, truths, protocol)
    code_of = [COVERED] * len(detections) if codes is None else codes.tolist()

    taken: set[tuple[int, int, int]] = set()  # (truth, area, threshold)
    kept, verdicts, firsts = [], [], []
    for row in sorted(range(len(detections)), key=lambda row: (labels[row], -scores[row], images[row])):
        if ranks[row] >= protocol.largest_limit or code_of[row] == NOT_COVERED:
            continue
        overlaps = [
            _Overlap(
                truth, similarity(shapes[row], truth.shape, is_crowd=truth.kind in SHARED_KINDS, protocol=protocol)
            )
            for truth in truths_of[images[row], labels[row]]
        ]
        of_row = []
        for a, area in enumerate(protocol.areas):
            is_counted = code_of[row] != NOT_EXHAUSTIVE and area.low <= areas[row] <= area.high
            for t, cutoff in enumerate(protocol.cutoffs):
                judged = _judge(overlaps, cutoff, area, taken, cell=(a, t), protocol=protocol)
                of_row.append(judged or _Judged(FALSE if is_counted else IGNORED))
        kept.append(row)
        verdicts.append([judged.verdict for judged in of_row])
        firsts.append(of_row[0])

    rows = [(image, label, truth) for (image, label), group in truths_of.items() for truth in group]
    shape = (len(kept), len(protocol.areas), len(protocol.thresholds))
    trace = {
        "row": np.array(kept, np.int64),
        "taken": np.array([first.taken for first in firsts], np.int64),
        "taken_similarity": np.array([first.similarity for first in firsts], np.float64),
        "truth_row": np.array([truth.row for _, _, truth in rows], np.int64),
    }
    return Tally.from_verdicts(
        protocol=protocol,
        rows=RankedRows(
            image=np.array([images[row] for row in kept], np.int64),
            label=np.array([labels[row] for row in kept], np.int64),
            score=host_scores(detections.scores)[np.array(kept, np.int64)],
            rank=np.array([ranks[row] for row in kept], np.int64),
        ),
        verdict=np.array(verdicts, np.uint8).reshape(shape),
        similarity=np.array([each.similarity if each.verdict == TRUE else 0.0 for each in firsts], np.float64),
        trace=trace if is_traced else None,
        truths=CountedTruths(
            image=np.array([image for image, _, _ in rows], np.int64),
            label=np.array([label for _, label, _ in rows], np.int64),
            counts=np.array(
                [[not _is_ignored(truth, area, protocol) for area in protocol.areas] for _, _, truth in rows], bool
            ).reshape(len(rows), len(protocol.areas)),
        ),
        classes=classes_of(detections, truths),
        class_names=truths.names_by_label,
    )


def _judge(
    overlaps: Sequence[_Overlap],
    cutoff: float,
    area: Area,
    taken: set[tuple[int, int, int]],
    *,
    cell: tuple[int, int],
    protocol: Protocol,
) -> _Judged | None:
    """Judge a detection in one cell by the truth that it takes, and mark the truth as taken; None: it takes none.

    Groups are only for detections that take no other truth.
    """
    reached = [
        overlap
        for overlap in overlaps
        if (overlap.similarity >= cutoff if protocol.comparison == ">=" else overlap.similarity > cutoff)
    ]
    for is_of_group in (False, True):
        best: _Overlap | None = None
        for overlap in reached:
            truth = overlap.truth
            is_full = (truth.row, *cell) in taken and truth.kind not in SHARED_KINDS
            if (truth.kind == GROUP) != is_of_group or (protocol.matching == "next_best" and is_full):
                continue
            if best is None or _is_preferred(overlap, best, area, protocol):
                best = overlap
        if best is None:
            continue
        is_first = (best.truth.row, *cell) not in taken
        taken.add((best.truth.row, *cell))
        if _is_ignored(best.truth, area, protocol) or (is_of_group and not is_first):
            return _Judged(IGNORED, best.truth.row, best.similarity)
        if is_first:
            return _Judged(TRUE, best.truth.row, best.similarity)
    return None


def _ranks(images: Sequence[int], labels: Sequence[int], scores: Sequence[float], protocol: Protocol) -> list[int]:
    """The rank of each row by descending score, within its image and class or within its image."""
    num_seen: dict[Any, int] = defaultdict(int)
    ranks = [0] * len(scores)
    for row in sorted(range(len(scores)), key=lambda row: -scores[row]):
        group = images[row] if protocol.limits_per == "image" else (images[row], labels[row])
        ranks[row] = num_seen[group]
        num_seen[group] += 1
    return ranks


def _is_preferred(new: _Overlap, old: _Overlap, area: Area, protocol: Protocol) -> bool:
    """Whether a detection prefers the later truth `new` to `old`."""
    is_old_ignored = _is_ignored(old.truth, area, protocol)
    if protocol.matching != "best" and _is_ignored(new.truth, area, protocol) != is_old_ignored:
        return is_old_ignored
    if protocol.ties == "last":
        return new.similarity >= old.similarity  # as in COCO: of equal IoUs the last
    return new.similarity > old.similarity


def _is_ignored(truth: _Truth, area: Area, protocol: Protocol) -> bool:
    if truth.kind in IGNORED_KINDS or (truth.kind == GROUP and protocol.group_of_weight == 0):
        return True
    return not area.low <= truth.area <= area.high


def _ids_and_scores(detections: Detections) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    score = to_numpy(detections.scores).astype(np.float64)
    return to_numpy(detections.image_ids), to_numpy(detections.labels), score


def _truths_by_image_and_label(truths: Truths, protocol: Protocol) -> dict[tuple[int, int], list[_Truth]]:
    shapes = truths.geometry.shapes(protocol)
    areas = host_areas(truths, protocol).tolist()
    kinds = truths.kinds(protocol)
    kind_of = [REGULAR] * len(truths) if kinds is None else to_numpy(kinds).tolist()
    groups: dict[tuple[int, int], list[_Truth]] = defaultdict(list)
    ids = zip(to_numpy(truths.image_ids).tolist(), to_numpy(truths.labels).tolist(), strict=True)
    for row, group in enumerate(ids):
        groups[group].append(_Truth(row, shapes[row], areas[row], kind_of[row]))
    return groups


def precision_recall(
    verdicts: Sequence[int], num_truths: int, *, epsilon: float = 0.0
) -> tuple[list[float], list[float]]:
    """Precision and recall after each detection that counts (the end of Alg. 1).

    Args:
        verdicts: 2 true positive, 1 false positive, 0 ignored; by descending score.
        num_truths: Number of truths, at least 1.
        epsilon: Number added to the denominator of precision.

    >>> precision_recall([2, 0, 1, 2], num_truths=4)
    ([1.0, 0.5, 0.6666666666666666], [0.25, 0.25, 0.5])
    """
    num_true, num_counted = 0, 0
    precision, recall = [], []
    for verdict in verdicts:
        if verdict == IGNORED:
            continue
        num_true += verdict == TRUE
        num_counted += 1
        precision.append(num_true / (num_counted + epsilon))
        recall.append(num_true / num_truths)
    return precision, recall


def average_every_point(precision: Sequence[float], recall: Sequence[float]) -> float:
    """AP as the area under the envelope of the curve (Alg. 2).

    Args:
        precision: Precision after each detection, by descending score.
        recall: Recall after each detection.

    >>> average_every_point([1.0, 0.5, 0.6666666666666666], [0.5, 0.5, 1.0])
    0.8333333333333333
    """
    steps, reached = [], 0.0
    for p, q in zip([*flatten(precision), 0.0], [*recall, 1.0], strict=True):
        if q != reached:
            steps.append(p * (q - reached))
        reached = q
    return float(np.sum(steps))  # as in py-faster-rcnn: NumPy's order of additions


def average_at_recalls(precision: Sequence[float], recall: Sequence[float], recall_points: Sequence[float]) -> float:
    """AP as the mean of the best precision at or beyond each recall point (Alg. 3).

    Args:
        precision: Precision after each detection, by descending score.
        recall: Recall after each detection.
        recall_points: Recalls from 0 to 1.

    >>> average_at_recalls([1.0, 0.5, 0.6666666666666666], [0.5, 0.5, 1.0], [0.0, 1.0])
    0.8333333333333333
    """
    return float(np.mean(_best_at(precision, recall, recall_points)))  # as in COCO: NumPy's order of additions


def average_interpolated(precision: Sequence[float], recall: Sequence[float], recall_points: Sequence[float]) -> float:
    """AP as a sum of the precisions divided by their number, which rounds differently than their mean (VOC 2007).

    Args:
        precision: Precision after each detection, by descending score.
        recall: Recall after each detection.
        recall_points: Recalls from 0 to 1.

    >>> average_interpolated([1.0, 0.5, 0.6666666666666666], [0.5, 0.5, 1.0], [0.0, 1.0])
    0.8333333333333333
    """
    ap = 0.0
    for p in _best_at(precision, recall, recall_points):
        ap += p / len(recall_points)  # as in py-faster-rcnn
    return ap


def _best_at(precision: Sequence[float], recall: Sequence[float], recall_points: Sequence[float]) -> list[float]:
    """The best precision at or beyond each recall point; 0 if it is not reached."""
    pairs = list(zip(precision, recall, strict=True))
    return [max((p for p, q in pairs if q >= point), default=0.0) for point in recall_points]


def average_by_trapezoids(precision: Sequence[float], recall: Sequence[float], *, is_from_first: bool = False) -> float:
    """AP as the area under the raw curve from (0, 1) on: Alg. 12, one class at a time.

    Args:
        precision: Precision after each detection, by descending score.
        recall: Recall after each detection.
        is_from_first: Start at the curve's first point, as in CrowdHuman's evaluation.
    """
    ap, height, reached = 0.0, 1.0, 0.0
    for i, (p, q) in enumerate(zip(precision, recall, strict=True)):
        if i > 0 or not is_from_first:
            ap += (p + height) * (q - reached) / 2
        height, reached = p, q
    return ap


def average_linear_points(
    precision: Sequence[float], recall: Sequence[float], recall_points: Sequence[float], *, is_to_end: bool = False
) -> float:
    """AP as trapezoids through the envelope from (0, 1) on, interpolated linearly at the recall points (Ultralytics).

    If a curve has several precisions at one recall, the last counts; at and beyond its end it is 0.

    Args:
        precision: Precision after each detection, by descending score.
        recall: Recall after each detection.
        recall_points: Recalls from 0 to 1.
        is_to_end: Let the curve fall in a line from its end to (1, 0).

    >>> average_linear_points([1.0, 0.5, 0.6666666666666666], [0.5, 0.5, 1.0], [0.0, 0.5, 1.0])
    0.5833333333333333
    """
    if not precision:
        return 0.0
    recalls = [0.0, *recall, *([] if is_to_end else recall[-1:]), 1.0]
    best = flatten([1.0, *precision, *([] if is_to_end else [0.0]), 0.0])
    samples = []
    for point in recall_points:
        i = max(i for i, q in enumerate(recalls) if q <= point)
        if i + 1 == len(recalls) or recalls[i] == point:
            samples.append(best[i])
        else:
            slope = (best[i + 1] - best[i]) / (recalls[i + 1] - recalls[i])
            samples.append(slope * (point - recalls[i]) + best[i])
    steps = [
        (after - before) * (upper + lower) / 2.0
        for before, after, lower, upper in zip(recall_points, recall_points[1:], samples, samples[1:], strict=False)
    ]
    return float(np.sum(steps))  # as in Ultralytics: NumPy's order of additions


def flatten(precision: Sequence[float]) -> list[float]:
    """The envelope: each precision raised to the best that follows it.

    Args:
        precision: Precision after each detection, by descending score.

    >>> flatten([1.0, 0.5, 0.6])
    [1.0, 0.6, 0.6]
    """
    best = list(precision)
    for i in range(len(best) - 1, 0, -1):
        best[i - 1] = max(best[i - 1], best[i])
    return best


def suppress(
    box: Sequence[Sequence[float]],
    score: Sequence[float],
    threshold: float,
    *,
    label: Sequence[int] | None = None,
    box_format: BoxFormat = "xyxy",
    pixels: Pixels = "continuous",
) -> list[bool]:
    """Find the boxes of an image that greedy non-maximum suppression discards. Of equal scores the first is better.

    Args:
        box: Boxes of one image.
        score: Scores.
        threshold: The largest IoU of two boxes that are both kept.
        label: Labels; if given, only boxes of equal label compete.
        box_format: "xyxy", "xywh" or "cxcywh".
        pixels: "inclusive": a box from x1 to x2 is x2 - x1 + 1 wide; "continuous": x2 - x1.

    >>> suppress([[0, 0, 10, 10], [1, 0, 11, 10], [2, 0, 12, 10]], [0.9, 0.8, 0.7], 0.7)
    [False, True, False]
    """
    protocol = Protocol.named("voc2012", pixels=pixels)
    boxes = Boxes(boxes=np.asarray(box, np.float64), box_format=box_format).shapes(protocol)
    kept: list[int] = []
    discarded = [True] * len(boxes)
    for i in sorted(range(len(boxes)), key=lambda i: -score[i]):
        rivals = [boxes[j] for j in kept if label is None or label[j] == label[i]]
        if all(Boxes.similarity(boxes[i], rival, is_crowd=False, protocol=protocol) <= threshold for rival in rivals):
            kept.append(i)
            discarded[i] = False
    return discarded


def curves(tally: Tally, threads: int = 1) -> Curves:  # noqa: ARG001
    """Build the curves of every class, area range, limit and threshold, one after the other."""
    protocol = tally.protocol
    result = Curves.undefined(tally)
    rows = tally.sorted()
    verdict, num_truths = rows.verdict, tally.num_truths
    for k, label in enumerate(tally.classes):
        of_class = rows.label == label
        for m in range(len(protocol.limits)):
            within = of_class & (rows.tier <= m)
            scores = rows.score[within].tolist()
            for a in range(len(protocol.areas)):
                for t in range(len(protocol.thresholds)):
                    cell = t, k, a, m
                    verdicts = verdict[within, a, t].tolist()
                    result.num_true[cell] = verdicts.count(TRUE)
                    result.num_false[cell] = verdicts.count(FALSE)
                    if num_truths[k, a] > 0:
                        _draw(result, cell, verdicts, scores, int(num_truths[k, a]), protocol)
    return result


def _draw(
    result: Curves,
    cell: tuple[int, int, int, int],
    verdicts: Sequence[int],
    scores: Sequence[float],
    num_truths: int,
    protocol: Protocol,
) -> None:
    """Fill in one curve."""
    t, k, a, m = cell
    precision, recall = precision_recall(verdicts, num_truths, epsilon=protocol.precision_epsilon)
    best = flatten(precision)
    counted = [score for score, verdict in zip(scores, verdicts, strict=True) if verdict != IGNORED]
    samples, thresholds = [], []
    for point in protocol.recall_points:
        reached = next((i for i, q in enumerate(recall) if q >= point), None)
        samples.append(0.0 if reached is None else best[reached])
        if point == 0:  # as in COCO: recall 0 is reached by the first detection, whatever its verdict
            thresholds.append(scores[0] if scores else 0.0)
        else:
            thresholds.append(0.0 if reached is None else counted[reached])
    result.precision[t, :, k, a, m] = samples
    result.scores[t, :, k, a, m] = thresholds
    result.recall[cell] = recall[-1] if recall else 0.0
    if protocol.ap == "trapezoid":
        result.average_precision[cell] = average_by_trapezoids(precision, recall)
    elif protocol.ap == "trapezoid_from_first":
        result.average_precision[cell] = average_by_trapezoids(precision, recall, is_from_first=True)
    elif protocol.ap in ("linear_points", "linear_points_to_end"):
        result.average_precision[cell] = average_linear_points(
            precision, recall, protocol.recall_points, is_to_end=protocol.ap == "linear_points_to_end"
        )
    elif protocol.ap == "envelope":
        result.average_precision[cell] = average_every_point(precision, recall)
    elif protocol.ap == "interpolated":
        result.average_precision[cell] = average_interpolated(precision, recall, protocol.recall_points)
    else:
        result.average_precision[cell] = average_at_recalls(precision, recall, protocol.recall_points)
