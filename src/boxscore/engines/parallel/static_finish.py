"""From verdicts to numbers in static shapes: Alg. 11 to 13 for all cells, and the means, inside a compiled step.

Nothing here has a shape that depends on data, reads a value, or copies a constant from the host. The steps:

    rows --one sort by class, score, image, rank--> sorted rows
    per area range:
        running counts of true and false positives, less those before the class
        precision in each row ----maximum by class and number of recall points reached----> bins
        running maximum from the last bin ----> precision at each recall point, which is the envelope
    samples of defined classes --sums in NumPy's order of additions--> numbers

Only true positives raise a recall, and a bin holds those that reach as many recall points; so the maximum needs no
order, and no envelope of all rows.

Dimensions: B rows of capacity for detections, C for truths; K classes, A area ranges, T thresholds, X = A * T cells,
R recall points, S values, M segments, Y nodes and Z children in the tree of a sum; P for any flat axis.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from boxscore._support.exceptions import InputError
from boxscore.arrays import (
    Array,
    arange,
    cumulative_max,
    cumulative_sum,
    float_dtype,
    int_dtype,
    namespace,
    rows_at,
    segment_max,
    segment_sum,
    sorted_order,
)
from boxscore.engines.parallel.average import envelope
from boxscore.engines.parallel.precision_recall import precision_of
from boxscore.protocol.measures import Measure, measures
from boxscore.protocol.protocol import Protocol

MOST_SUMMED = 128
"""NumPy adds up to this many values without halving."""

NUM_LANES = 8
"""NumPy adds that many partial sums."""

_STATIC_RULES = ("recall_points", "interpolated", "envelope")
"""Values of `Protocol.ap` whose sums have a fixed order that needs no loop over rows."""


class VerdictRows(NamedTuple):
    """Detections with their verdicts. Rows at `num` and beyond may have any values."""

    label: Array
    """Shape (B,)."""
    score: Array
    """Shape (B,)."""
    image: Array
    """Ids of images, which break ties of score. Shape (B,)."""
    rank: Array
    """Ranks by score within image and class, or within image. Shape (B,)."""
    is_true: Array
    """Whether the row is a true positive in each cell: threshold t of area range a is cell a * T + t. Shape (B, X)."""
    is_false: Array
    """Whether the row is a false positive. Shape (B, X)."""
    num: Array
    """Number of rows in use. Shape ()."""


class CountedTruths(NamedTuple):
    """Truths. Rows at `num` and beyond may have any values."""

    label: Array
    """Shape (C,)."""
    counts: Array
    """Whether the truth counts in each area range. Shape (C, A)."""
    num: Array
    """Number of rows in use. Shape ()."""


class StaticNumbers(NamedTuple):
    """The numbers of a protocol, as arrays."""

    numbers: Mapping[str, Array]
    """By name. NaN: no class has truths. Shape () each."""
    ap: Array
    """Average precision of each class, mean over thresholds; NaN: no truths. Shape (K,)."""


def check_static_finish(protocol: Protocol) -> None:
    """Raise `InputError` for a protocol whose numbers need more than verdicts, or sums without a fixed order."""
    rules = {
        "extra_numbers": bool(protocol.extra_numbers),
        "class_groups": bool(protocol.class_groups),
        "limits_per": protocol.limits_per == "dataset",
        "average": protocol.average != "macro",
        "ap": protocol.ap not in _STATIC_RULES,
        "recall_points": protocol.is_sampled and not _is_even(protocol.recall_points),
    }
    if needed := [name for name, is_needed in rules.items() if is_needed]:
        raise InputError(
            f"protocol {protocol.name} has a rule that numbers inside a compiled step can't follow, `{needed[0]}`: use"
            " `compute`"
        )


def static_numbers(
    detections: VerdictRows,
    truths: CountedTruths,
    protocol: Protocol,
    classes: Sequence[int],
    *,
    is_valid: Array | None = None,
) -> StaticNumbers:
    """The numbers of `evaluate` from verdicts, in static shapes.

    In double precision they have the bits of `evaluate`. In single precision (JAX without x64, Apple's MPS) they differ
    by up to 1e-6, which is not exact: numbers to be compared with published ones are those of `compute`.

    A compiled step can't raise an error, so all numbers are NaN if a truth has a label that is not among `classes`, or
    if `is_valid` is False. Detections of such labels are left out, as they belong to classes without truths.

    Args:
        detections: Detections within the protocol's largest limit.
        truths: All truths.
        protocol: The protocol of the verdicts.
        classes: All labels, ascending; not read if the protocol disregards classes.
        is_valid: Whether the rows are complete and valid. Shape ().

    Raises:
        InputError: The protocol has a rule that static shapes can't follow, or `classes` are not ascending integers.
    """
    check_static_finish(protocol)
    labels = [0] if protocol.class_agnostic else check_classes(classes)
    curves = _Curves(detections, truths, protocol, labels)
    wanted = list(measures(protocol))
    samples, recalls = zip(*map(curves.of_area, range(len(protocol.areas))), strict=True)
    xp = namespace(detections.score)
    parts, sizes, offsets, offset = [], [], [], 0
    for measure in wanted:
        sample_KPT = samples[measure.area]
        if measure.is_recall:
            is_last = measure.limit == len(protocol.limits) - 1
            sample_KPT = recalls[measure.area] if is_last else curves.recall_within(measure)
        value_P, size = _defined_values(sample_KPT, measure, curves.is_defined(measure.area), protocol)
        parts.append(value_P)
        sizes.append(size)
        offsets.append(xp.zeros_like(size) + offset)
        offset += int(value_P.shape[0])
    # AP of each class: its own values, by threshold
    own_KP = xp.reshape(xp.matrix_transpose(samples[0]), (len(labels), -1))
    num_own = int(own_KP.shape[1])
    class_K = arange(len(labels), like=curves.class_B)
    begin_M = xp.concat([xp.stack(offsets), class_K * num_own + offset], axis=0)
    size_M = xp.concat([xp.stack(sizes), xp.zeros_like(class_K) + num_own], axis=0)
    sum_M = pairwise_sums(xp.concat([*parts, xp.reshape(own_KP, (-1,))], axis=0), begin_M, size_M)
    # It is 1 for classes without truths, and so no constant: see `_divisors`.
    is_defined_M = xp.concat([xp.stack(sizes) > 0, curves.is_defined(0)], axis=0)
    size_M = xp.where(is_defined_M, size_M, xp.ones_like(size_M))
    mean_M = sum_M / xp.astype(size_M, sum_M.dtype)
    is_known = curves.is_known if is_valid is None else curves.is_known & is_valid
    mean_M = xp.where(is_defined_M & is_known, mean_M, float("nan") * xp.ones_like(mean_M))
    numbers = {measure.name: mean_M[i] for i, measure in enumerate(wanted)}
    return StaticNumbers(numbers, mean_M[len(wanted) :])


def check_classes(classes: Sequence[int]) -> list[int]:
    """The labels as integers. Raise `InputError` unless there is one, and they ascend."""
    labels = [int(label) for label in classes]
    if not labels or any(first >= second for first, second in pairwise(labels)):
        raise InputError(f"`classes` must be one or more labels, ascending; got {_shortened(labels)}")
    return labels


def _shortened(labels: Sequence[int]) -> str:
    return str(list(labels)) if len(labels) <= 6 else f"{len(labels)} labels that begin with {list(labels[:6])}"


class _Curves:
    """The samples of all curves. Sorts the rows once; areas are built one after the other, to bound memory."""

    def __init__(
        self, detections: VerdictRows, truths: CountedTruths, protocol: Protocol, labels: Sequence[int]
    ) -> None:
        xp = namespace(detections.score, truths.label)
        self.protocol, self.num_classes = protocol, len(labels)
        self.real, self.whole = float_dtype(detections.score), int_dtype(detections.score)
        is_used_B = _is_used(detections.label, detections.num)
        class_B = _class_index(detections.label, labels, protocol, is_used_B)
        score_B = xp.where(is_used_B, detections.score, xp.zeros_like(detections.score))
        order_B = sorted_order(class_B, xp.zeros_like(score_B) - score_B, detections.image, detections.rank)
        self.class_B = rows_at(class_B, order_B)
        self.rank_B = rows_at(detections.rank, order_B)
        is_row_B1 = (self.class_B < self.num_classes)[:, None]
        self.is_true_BX = rows_at(detections.is_true, order_B) & is_row_B1
        self.is_counted_BX = self.is_true_BX | (rows_at(detections.is_false, order_B) & is_row_B1)
        class_K = arange(self.num_classes, like=self.class_B)
        self.start_K = xp.searchsorted(self.class_B, class_K)
        self.end_K = xp.searchsorted(self.class_B, class_K, side="right")
        self.at_B = xp.minimum(self.class_B, xp.zeros_like(self.class_B) + self.num_classes - 1)
        """`class_B` as an index: rows without a class read the last one, and have no verdicts."""

        is_truth_C = _is_used(truths.label, truths.num)
        class_C = _class_index(truths.label, labels, protocol, is_truth_C)
        self.is_known = ~xp.any(is_truth_C & (class_C == self.num_classes))
        """Whether all truths have one of the labels. Shape ()."""
        self.num_slots = int(truths.label.shape[0]) + self.num_classes
        num_areas = len(protocol.areas)
        counts_CA = xp.astype(truths.counts & is_truth_C[:, None], self.whole)
        area_A = arange(num_areas, like=class_C)
        num_P = segment_sum(
            xp.reshape(counts_CA, (-1,)),
            xp.reshape(class_C[:, None] * num_areas + area_A, (-1,)),
            (self.num_classes + 1) * num_areas,
        )
        self.num_truths_KA = xp.reshape(xp.astype(num_P, self.whole), (-1, num_areas))[: self.num_classes]

    def is_defined(self, area: int) -> Array:
        """Whether each class has truths in an area range. Shape (K,)."""
        return self.num_truths_KA[:, area] > 0

    def recall_within(self, measure: Measure) -> Array:
        """Recall within the measure's limit, 0 for classes without truths. Shape (K, 1, T)."""
        is_within_B = self.rank_B < self.protocol.limits[measure.limit]
        is_true_BT = self._cells(self.is_true_BX, measure.area) & is_within_B[:, None]
        return self._recall(self._running(is_true_BT)[1], measure.area)

    def _recall(self, num_true_KT: Array, area: int) -> Array:
        xp = namespace(num_true_KT)
        divisor_KT = self._divisors(num_true_KT, xp.astype(self._at_least_one_truth(area), self.real)[:, None])
        return (xp.astype(num_true_KT, self.real) / divisor_KT)[:, None, :]

    def _divisors(self, num_true_KT: Array, divisor_K1: Array) -> Array:
        """Divisors of each class in all cells. Shape (K, T).

        XLA replaces division by a constant, or by a broadcast array, by a product with the reciprocal, which is rounded
        differently. A condition on counts, which is always True, makes the divisors neither.
        """
        xp = namespace(divisor_K1)
        return xp.where(num_true_KT >= 0, divisor_K1, xp.ones_like(divisor_K1))

    def of_area(self, area: int) -> tuple[Array, Array]:
        """The values that AP is the mean of, and recall within the largest limit.

        The values are precisions at recall points, (K, R, T), or one AP, (K, 1, T). Recall: (K, 1, T). Both are 0 for
        classes without truths.
        """
        is_true_BT = self._cells(self.is_true_BX, area)
        num_true_BT, num_true_KT = self._running(is_true_BT)
        return self._samples(is_true_BT, (num_true_BT, num_true_KT), area), self._recall(num_true_KT, area)

    def _samples(self, is_true_BT: Array, num_true: tuple[Array, Array], area: int) -> Array:
        xp = namespace(self.class_B)
        num_true_BT, num_true_KT = num_true
        num_counted_BT, _ = self._running(self._cells(self.is_counted_BX, area))
        precision_BT = precision_of(
            xp.astype(num_true_BT, self.real), xp.astype(num_counted_BT, self.real), self.protocol.precision_epsilon
        )
        precision_BT = xp.where(is_true_BT, precision_BT, xp.zeros_like(precision_BT))
        # One slot for each number of true positives that a class can have: 0 to its number of truths.
        num_slots_K = self._at_least_one_truth(area) + 1
        first_slot_K = cumulative_sum(num_slots_K) - num_slots_K
        slot_BT = rows_at(first_slot_K, self.at_B)[:, None] + num_true_BT
        if self.protocol.ap == "envelope":
            return self._areas_under_envelope(precision_BT, slot_BT, (first_slot_K, num_true_KT), area)
        precision_KRT = self._at_recall_points(precision_BT, slot_BT, first_slot_K, area)
        if self.protocol.ap == "recall_points":
            return precision_KRT
        # as in py-faster-rcnn: precisions are divided before they are added, one after the other
        num_points = int(precision_KRT.shape[1])
        one_K1 = xp.ones_like(precision_KRT[:, 0, :1])
        divisor_KT = self._divisors(num_true_KT, one_K1 * num_points)
        total_KT = xp.zeros_like(precision_KRT[:, 0])
        for r in range(num_points):
            # The condition keeps TensorFlow's graph optimizer from adding in another order.
            total_KT = xp.where(num_true_KT >= 0, total_KT + precision_KRT[:, r] / divisor_KT, total_KT)
        return total_KT[:, None, :]

    def _at_recall_points(self, precision_BT: Array, slot_BT: Array, first_slot_K: Array, area: int) -> Array:
        """The best precision at each recall point or beyond, 0 if it is not reached. Shape (K, R, T)."""
        xp = namespace(self.class_B)
        num_points, num_thresholds = len(self.protocol.recall_points), len(self.protocol.thresholds)
        needed_KR = _needed_evenly(self._at_least_one_truth(area), self.protocol.recall_points)
        # Number of recall points that each number of true positives reaches, by slot, after those of earlier classes.
        needed_P = xp.reshape(first_slot_K[:, None] + needed_KR, (-1,))
        num_reached_P = cumulative_sum(
            xp.astype(segment_sum(xp.ones_like(needed_P), needed_P, self.num_slots + self.num_classes), self.whole)
        )
        num_reached_P = rows_at(num_reached_P, xp.reshape(slot_BT, (-1,)))
        num_reached_BT = xp.reshape(num_reached_P, (-1, num_thresholds)) - (self.at_B * num_points)[:, None]
        bin_BT = self.at_B[:, None] * (num_points + 1) + num_reached_BT
        threshold_T = arange(num_thresholds, like=bin_BT)
        best_P = segment_max(
            xp.reshape(precision_BT, (-1,)),
            xp.reshape(bin_BT * num_thresholds + threshold_T, (-1,)),
            self.num_classes * (num_points + 1) * num_thresholds,
            empty=0.0,
        )
        best_KTR = xp.matrix_transpose(xp.reshape(best_P, (self.num_classes, num_points + 1, num_thresholds)))[..., 1:]
        return xp.matrix_transpose(xp.flip(cumulative_max(xp.flip(best_KTR, axis=-1)), axis=-1))

    def _areas_under_envelope(
        self, precision_BT: Array, slot_BT: Array, counts: tuple[Array, Array], area: int
    ) -> Array:
        """The area under each envelope: the steps of recall, the last of which leads to recall 1. Shape (K, 1, T).

        `counts`: the first slot and the number of true positives of each class.
        """
        xp = namespace(self.class_B)
        (first_slot_K, num_true_KT), num_thresholds = counts, len(self.protocol.thresholds)
        num_slots = self.num_slots + self.num_classes
        threshold_T = arange(num_thresholds, like=slot_BT)
        precision_P = segment_max(
            xp.reshape(precision_BT, (-1,)),
            xp.reshape(slot_BT + threshold_T * num_slots, (-1,)),
            num_thresholds * num_slots,
            empty=0.0,
        )
        slot_S = arange(num_slots, like=slot_BT)
        class_S = xp.astype(xp.searchsorted(first_slot_K, slot_S, side="right") - 1, slot_S.dtype)
        num_true_S = slot_S - rows_at(first_slot_K, class_S)
        num_truths_S = xp.astype(rows_at(self._at_least_one_truth(area), class_S), self.real)
        before_S = xp.astype(xp.maximum(num_true_S - 1, xp.zeros_like(num_true_S)), self.real)
        gain_S = xp.astype(num_true_S, self.real) / num_truths_S - before_S / num_truths_S
        curve_TS = threshold_T[:, None] * self.num_classes + class_S
        best_P = envelope(precision_P, xp.reshape(curve_TS, (-1,)))
        step_TS = xp.reshape(best_P, (num_thresholds, num_slots)) * gain_S
        is_short_KT = num_true_KT != self._at_least_one_truth(area)[:, None]
        begin_KT = first_slot_K[:, None] + 1 + threshold_T * num_slots
        size_KT = num_true_KT + xp.astype(is_short_KT, num_true_KT.dtype)
        area_P = pairwise_sums(xp.reshape(step_TS, (-1,)), xp.reshape(begin_KT, (-1,)), xp.reshape(size_KT, (-1,)))
        return xp.reshape(area_P, (self.num_classes, 1, num_thresholds))

    def _at_least_one_truth(self, area: int) -> Array:
        """The number of truths of each class in an area range, or 1 if there is none. Shape (K,)."""
        num_truths_K = self.num_truths_KA[:, area]
        xp = namespace(num_truths_K)
        return xp.maximum(num_truths_K, xp.ones_like(num_truths_K))

    def _cells(self, flag_BX: Array, area: int) -> Array:
        num_thresholds = len(self.protocol.thresholds)
        return flag_BX[:, area * num_thresholds : (area + 1) * num_thresholds]

    def _running(self, flag_BT: Array) -> tuple[Array, Array]:
        """The number of True values of the class down to each row, (B, T), and in all its rows, (K, T)."""
        xp = namespace(flag_BT)
        count_BT = cumulative_sum(xp.astype(flag_BT, self.whole))
        before_PT = xp.concat([xp.zeros_like(count_BT[:1]), count_BT], axis=0)
        start_KT, end_KT = rows_at(before_PT, self.start_K), rows_at(before_PT, self.end_K)
        return before_PT[1:] - rows_at(start_KT, self.at_B), end_KT - start_KT


def _is_used(column: Array, num: Array) -> Array:
    return arange(int(column.shape[0]), like=column) < num


def _class_index(label: Array, labels: Sequence[int], protocol: Protocol, is_used: Array) -> Array:
    """The class of each row: its index among `labels`, or their number for rows of no class."""
    xp = namespace(label)
    label = xp.astype(label, int_dtype(label))
    index, is_member = xp.zeros_like(label), is_used
    if not protocol.class_agnostic:
        class_K = arange(len(labels), like=label)
        label_K = class_K + labels[0]
        for k, (before, after) in enumerate(pairwise(labels), start=1):
            if after > before + 1:  # a gap; a list of labels would be copied from the host
                label_K = label_K + xp.astype(class_K >= k, label_K.dtype) * (after - before - 1)
        index = xp.astype(xp.searchsorted(label_K, label), label.dtype)
        index = xp.minimum(index, xp.zeros_like(index) + len(labels) - 1)
        is_member = is_used & (rows_at(label_K, index) == label)
    return xp.where(is_member, index, xp.zeros_like(index) + len(labels))


def _is_even(points: Sequence[float]) -> bool:
    """Whether points are at equal distances from 0 to 1, but for rounding."""
    last = max(len(points) - 1, 1)
    return all(abs(point - i / last) < 1e-15 for i, point in enumerate(points))


def _needed_evenly(num_truths_K: Array, points: Sequence[float]) -> Array:
    """`average.num_needed` for recall points at equal distances, in integers. Shape (K, R).

    Single precision can't tell 0.35 from 0.35000000000000003, which more true positives reach. Point i of b means
    n / num_truths >= i / b, or > if the point's double is above that of i / b.
    """
    xp = namespace(num_truths_K)
    last = max(len(points) - 1, 1)
    point_R = arange(len(points), like=num_truths_K)
    product_KR = num_truths_K[:, None] * point_R
    is_above_R = point_R < 0
    for i, point in enumerate(points):
        if i / last < point:
            is_above_R = is_above_R | (point_R == i)
    is_next_KR = (product_KR % last == 0) & is_above_R
    return (product_KR + last - 1) // last + xp.astype(is_next_KR, product_KR.dtype)


def _defined_values(
    sample_KPT: Array, measure: Measure, is_defined_K: Array, protocol: Protocol
) -> tuple[Array, Array]:
    """The values of defined classes that a number is the mean of, in the order in which `evaluate` adds them.

    They come first; shapes (S,) and (), the number of them.
    """
    xp = namespace(sample_KPT)
    num_classes, num_points, num_thresholds = (int(size) for size in sample_KPT.shape)
    num_defined = xp.sum(xp.astype(is_defined_K, int_dtype(is_defined_K)), axis=0)
    defined_K = xp.argsort(xp.astype(~is_defined_K, num_defined.dtype), stable=True)
    num_used, first = len(measure.thresholds), measure.thresholds[0]
    place_S = arange(num_used * num_points * num_classes, like=is_defined_K)
    if measure.is_recall or protocol.ap == "recall_points":
        # as in COCO: by threshold, recall point, class
        width = xp.maximum(num_defined, xp.ones_like(num_defined))
        row_S, index_S = place_S // width, place_S % width
        threshold_S, point_S = row_S // num_points, row_S % num_points
    else:
        # as in Ultralytics: an array of APs has one row per class
        index_S, threshold_S, point_S = place_S // num_used, place_S % num_used, xp.zeros_like(place_S)
    threshold_S = xp.minimum(threshold_S, xp.zeros_like(threshold_S) + num_used - 1)  # beyond the defined values
    source_S = (rows_at(defined_K, index_S) * num_points + point_S) * num_thresholds + threshold_S + first
    return rows_at(xp.reshape(sample_KPT, (-1,)), source_S), num_defined * (num_used * num_points)


def pairwise_sums(value_S: Array, begin_M: Array, size_M: Array) -> Array:
    """The sums of segments with the bits of `np.sum`, whatever their sizes. Shape (M,).

    NumPy halves a segment until at most 128 values are left, and adds these in eight lanes. Here all segments are
    halved together, level by level: the nodes of a level are a list with room for all nodes there can be.

    Args:
        value_S: Values. Shape (S,).
        begin_M: The first value of each segment. Shape (M,).
        size_M: Number of values of each segment; segments don't overlap. Shape (M,).

    >>> import numpy as np
    >>> value = np.random.default_rng(0).random(1000)
    >>> sums = pairwise_sums(value, np.array([0, 700]), np.array([700, 299]))
    >>> sums.tolist() == [np.sum(value[:700]), np.sum(value[700:999])]
    True
    """
    xp = namespace(value_S)
    num_values, num_nodes = int(value_S.shape[0]), int(size_M.shape[0])
    most_nodes = num_values // (MOST_SUMMED // 2) + num_nodes  # a half has at least 64 values
    begin_P, size_P, levels, longest = begin_M, size_M, [], num_values
    while longest > MOST_SUMMED:
        num_nodes = min(most_nodes, 2 * num_nodes)
        begin_P, size_P, level = _halved(begin_P, size_P, num_nodes)
        levels.append(level)
        longest = longest // 2 + NUM_LANES
    sum_P = _sums_in_lanes(value_S, begin_P, size_P)
    for is_split_P, first_P in reversed(levels):
        last_P = xp.zeros_like(first_P) + int(sum_P.shape[0]) - 1
        first_P = xp.minimum(first_P, last_P)  # unused nodes at the end may have no children
        first_sum_P = rows_at(sum_P, first_P)
        both_P = first_sum_P + rows_at(sum_P, xp.minimum(first_P + 1, last_P))
        sum_P = xp.where(is_split_P, both_P, first_sum_P)
    return sum_P


def _halved(begin_Y: Array, size_Y: Array, num_children: int) -> tuple[Array, Array, tuple[Array, Array]]:
    """The next level of nodes: two halves of each that is too long, and all others.

    They begin at, (Z,), and have so many values, (Z,). Then whether each node was halved, and its first child, (Y,).
    """
    xp = namespace(size_Y)
    half_Y = size_Y // 2
    half_Y = half_Y - half_Y % NUM_LANES
    is_split_Y = size_Y > MOST_SUMMED
    num_children_Y = xp.astype(is_split_Y, size_Y.dtype) + 1
    end_Y = cumulative_sum(num_children_Y)
    first_Y = end_Y - num_children_Y
    child_Z = arange(num_children, like=size_Y)
    parent_Z = xp.searchsorted(end_Y, child_Z, side="right")
    last_Z = xp.zeros_like(parent_Z) + int(size_Y.shape[0]) - 1
    is_node_Z = parent_Z <= last_Z
    parent_Z = xp.minimum(parent_Z, last_Z)
    is_second_Z = child_Z > rows_at(first_Y, parent_Z)
    first_size_Z = rows_at(xp.where(is_split_Y, half_Y, size_Y), parent_Z)
    begin_Z, size_Z = rows_at(begin_Y, parent_Z), rows_at(size_Y, parent_Z)
    begin_Z = xp.where(is_second_Z, begin_Z + first_size_Z, begin_Z)
    size_Z = xp.where(is_second_Z, size_Z - first_size_Z, first_size_Z)
    return begin_Z, xp.where(is_node_Z, size_Z, xp.zeros_like(size_Z)), (is_split_Y, first_Y)


def _sums_in_lanes(value_S: Array, begin_Y: Array, size_Y: Array) -> Array:
    """The sums of up to 128 values each, in eight lanes; then the values that are left over. Shape (Y,)."""
    xp = namespace(value_S)
    num_rows, last = MOST_SUMMED // NUM_LANES, int(value_S.shape[0]) - 1

    def values(index: Array, is_there: Array) -> Array:
        index = xp.minimum(index, xp.zeros_like(index) + last)
        value = xp.reshape(rows_at(value_S, xp.reshape(index, (-1,))), index.shape)
        return xp.where(is_there, value, xp.zeros_like(value))

    # Conditions and slices between additions keep TensorFlow's graph optimizer from adding in another order.
    num_even_Y = size_Y - size_Y % NUM_LANES
    slot_P = arange(MOST_SUMMED, like=size_Y)
    is_even_YP = slot_P < num_even_Y[:, None]
    value_YP = values(begin_Y[:, None] + slot_P, is_even_YP)
    lane_YP = value_YP[:, :NUM_LANES]
    for row in range(1, num_rows):
        lanes = slice(row * NUM_LANES, (row + 1) * NUM_LANES)
        lane_YP = xp.where(is_even_YP[:, lanes], lane_YP + value_YP[:, lanes], lane_YP)
    while lane_YP.shape[1] > 1:
        lane_YP = lane_YP[:, 0::2] + lane_YP[:, 1::2]
    sum_Y = lane_YP[:, 0]
    for rest in range(NUM_LANES - 1):
        is_rest_Y = num_even_Y + rest < size_Y
        sum_Y = xp.where(is_rest_Y, sum_Y + values(begin_Y + num_even_Y + rest, is_rest_Y), sum_Y)
    return sum_Y
