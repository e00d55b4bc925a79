"""The reduce, for more verdicts than fit at once: rows go to bins by class, and parts of a curve become one curve.

A bin holds a few classes, or a range of one large class. Ranges are cut between two places of the order that curves are
drawn in: falling score, then image. A range knows how many detections counted before it, so it can be drawn without
them. The parts are put together with the bits of a curve that was drawn at once: precision is the same division of the
same counts, an envelope is a maximum, which has no order, and a sum over true positives continues from range to range.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._compiled import SUM_STATE
from boxscore.engines.native.engine import Start, average, build_curves, build_range
from boxscore.model.curves import Curves, Floats, Ints
from boxscore.model.protocol import POOLED, Protocol
from boxscore.model.result import Result, summarize
from boxscore.model.tally import TRUTHS, Tally, Totals

_SAMPLES = 64
"""Rows of a full bin that are in the sample, on average; enough that half a bin never turns out to be more than one."""


class Sample(NamedTuple):
    """A few rows of a tally, from which ranges are cut."""

    label: NDArray[Any]
    score: NDArray[Any]
    image: NDArray[Any]

    @classmethod
    def of(cls, tally: Tally, bin_size: int) -> "Sample":
        """One row in many, the same for the same tally."""
        is_taken = np.random.default_rng(len(tally)).random(len(tally)) < _SAMPLES / bin_size
        return cls(tally.label[is_taken], tally.score[is_taken].astype(np.float64), tally.image[is_taken])

    @classmethod
    def joined(cls, samples: Sequence["Sample"]) -> "Sample":
        """All of them as one; there is at least one."""
        return cls(*(np.concatenate(columns) for columns in zip(*samples, strict=True)))

    def pooled(self) -> "Sample":
        """The same with all classes taken as one."""
        return self._replace(label=np.full_like(self.label, POOLED))


class Cuts(NamedTuple):
    """Where ranges of a class end: each at the last row of it, by falling score and then by image."""

    score: Floats
    image: Ints

    def range_of(self, score: NDArray[Any], image: NDArray[Any]) -> Ints:
        """The range of each row: how many of the cuts come before it."""
        rising = self.score[::-1]
        place = len(self.score) - np.searchsorted(rising, score, side="right")  # cuts of a higher score
        is_tied = np.searchsorted(rising, score, side="left") + place < len(self.score)
        for tied in np.unique(score[is_tied]):
            rows = np.flatnonzero(is_tied & (score == tied))
            place[rows] += np.searchsorted(self.image[self.score == tied], image[rows], side="left")
        return place.astype(np.int64)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Bins:
    """Which bin each row of a class goes to, and which classes a bin has."""

    totals: Totals
    first: Ints
    """The bin of each class, or the first of those of its ranges. Shape (K,)."""
    cuts: Mapping[int, Cuts]
    """Of the classes that are split, by label."""

    @classmethod
    def plan(cls, totals: Totals, sample: Sample, bin_size: int) -> "Bins":
        """Bins of `bin_size` rows at most: a class that has more is split into ranges of about half as many."""
        first = np.zeros(totals.classes.size, np.int64)
        cuts: dict[int, Cuts] = {}
        current, num_in_current = 0, 0
        for k, (label, num) in enumerate(zip(totals.classes.tolist(), totals.num_detections.tolist(), strict=True)):
            if num_in_current and num_in_current + num > bin_size:
                current, num_in_current = current + 1, 0
            first[k] = current
            num_in_current += num
            if num > bin_size:
                cuts[label] = _cuts_of(sample, label, math.ceil(2 * num / bin_size))
                current, num_in_current = current + len(cuts[label].score) + 1, 0
        return cls(totals=totals, first=first, cuts=cuts)

    @property
    def num(self) -> int:
        """How many there are; some may have no rows."""
        last = [*self.first.tolist(), *(numbers[-1] for numbers in self.ranges.values())]
        return max(map(int, last), default=-1) + 1

    def classes_of(self, number: int) -> list[int]:
        """The labels of one of the bins."""
        label = next((label for label, parts in self.ranges.items() if number in parts), None)
        return self.totals.classes[self.first == number].tolist() if label is None else [label]

    @property
    def ranges(self) -> dict[int, range]:
        """The bins of the classes that are split, by label, in the order of falling score."""
        first = dict(zip(self.totals.classes.tolist(), self.first.tolist(), strict=True))
        return {label: range(first[label], first[label] + len(cuts.score) + 1) for label, cuts in self.cuts.items()}

    def of(self, label: NDArray[Any], score: NDArray[Any], image: NDArray[Any]) -> Ints:
        """The bin of each row. Shape (D,)."""
        number = self.first[np.searchsorted(self.totals.classes, label)]
        for split, cuts in self.cuts.items():
            rows = np.flatnonzero(label == split)
            number[rows] += cuts.range_of(score[rows], image[rows])
        return np.asarray(number)

    def split(self, tally: Tally) -> Iterable[tuple[int, Tally]]:
        """The detections of each bin that has some, in their order."""
        number = self.of(tally.label, tally.score, tally.image)
        tally = replace(tally, **{name: getattr(tally, name)[:0] for name in TRUTHS})
        order = np.argsort(number, kind="stable")
        seen, start = np.unique(number[order], return_index=True)
        for bin_number, first, end in zip(seen.tolist(), start, [*start[1:], order.size], strict=False):
            yield bin_number, tally.in_order(order[first:end])

    def num_truths_of(self, labels: Sequence[int]) -> Ints:
        """Truths that count, by class and area range. Shape (K, A)."""
        return self.totals.num_truths[np.searchsorted(self.totals.classes, labels)]


def _cuts_of(sample: Sample, label: int, num_ranges: int) -> Cuts:
    rows = sample.label == label
    score, image = sample.score[rows], sample.image[rows].astype(np.int64)
    order = np.lexsort((image, -score))
    places = np.arange(1, num_ranges) * order.size // num_ranges
    chosen = order[places] if order.size else order
    pairs = dict.fromkeys(zip(score[chosen].tolist(), image[chosen].tolist(), strict=True))
    return Cuts(np.array([score for score, _ in pairs], np.float64), np.array([image for _, image in pairs], np.int64))


def no_start(protocol: Protocol) -> Start:
    """The start of the first range of a class."""
    shape = (len(protocol.thresholds), 1, len(protocol.areas), len(protocol.limits))
    counts = np.zeros(shape, np.int64)
    return Start(counts, counts, counts, np.zeros((*shape, SUM_STATE)), np.zeros(shape))


def draw_bin(piece: Tally, bins: Bins, number: int, threads: int) -> Curves:
    """The curves through the rows of a bin. All rows of an image are in their order."""
    labels = bins.classes_of(number)
    piece = replace(piece, classes=np.array(labels, np.int64), class_names=None)
    return build_curves(piece, bins.num_truths_of(labels), threads)


def draw_bin_from(start: Start, piece: Tally, bins: Bins, number: int, threads: int) -> tuple[Curves, Floats]:
    """The curves through a range of a class, and the state of the sum over true positives at its end."""
    labels = bins.classes_of(number)
    protocol = _with_recall_0(piece.protocol)
    piece = replace(piece, classes=np.array(labels, np.int64), class_names=None, protocol=protocol)
    return build_range(piece, bins.num_truths_of(labels), threads, start)


def next_start(start: Start, curves: Curves) -> Start:
    """The start of the range after one that was drawn from `start`."""
    num_true = curves.num_true
    return start._replace(num_true=num_true, num_counted=num_true + curves.num_false, total_true=num_true)


Redraw = Callable[[int, Start], tuple[Curves, Floats]]
"""Draws a range again, from another start."""


def join_ranges(parts: Sequence[Curves], protocol: Protocol, redraw: Redraw) -> Curves:
    """The curves of a class from those of its ranges, each drawn from its start.

    `redraw` is called, one range after the other, where AP is a sum over true positives: such a sum continues that of
    the range before, and must know how many true positives there will be.
    """
    precision = np.max([part.precision for part in parts], axis=0)
    point_R = np.array(_with_recall_0(protocol).recall_points)[:, None, None, None]
    scores = parts[0].scores.copy()
    recall = parts[0].recall
    for part in parts[1:]:
        # A recall point is reached in the first range that ends at its recall or beyond.
        is_new = (recall[:, None] < point_R) & (part.recall[:, None] >= point_R)
        scores = np.where(is_new, part.scores, scores)
        recall = part.recall
    own = slice(None) if protocol.recall_points[0] == 0 else slice(1, None)
    return replace(
        parts[-1],
        precision=precision[:, own],
        scores=scores[:, own],
        average_precision=_area(parts, precision[:, own], protocol, redraw),
    )


def _area(parts: Sequence[Curves], precision: Floats, protocol: Protocol, redraw: Redraw) -> Floats:
    is_defined = parts[-1].recall >= 0
    if protocol.is_sampled:
        num_points = precision.shape[1]
        is_interpolated = protocol.ap == "interpolated"
        total = np.zeros_like(parts[-1].recall)
        for r in range(num_points):  # one after the other, as they are added when a curve is drawn at once
            total = total + (precision[:, r] / num_points if is_interpolated else precision[:, r])
        return np.where(is_defined, total if is_interpolated else total / num_points, np.nan)
    start = no_start(protocol)._replace(total_true=parts[-1].num_true)
    best = [part.precision[:, 0] for part in parts]  # at recall 0 or beyond: of the whole range
    for i, part in enumerate(parts):
        beyond = np.max(best[i + 1 :], axis=0, initial=0, keepdims=False) if i + 1 < len(best) else start.beyond
        drawn, sum_after = redraw(i, start._replace(beyond=np.broadcast_to(beyond, start.beyond.shape)))
        start = next_start(start, part)._replace(total_true=parts[-1].num_true, sum=sum_after)
    return np.where(is_defined, drawn.average_precision, np.nan)


def _with_recall_0(protocol: Protocol) -> Protocol:
    points = protocol.recall_points
    return protocol if points[0] == 0 else protocol.replace(recall_points=(0.0, *points))


def assemble(totals: Totals, parts: Iterable[Curves]) -> Curves:
    """The curves of all classes; each class is in one of the parts, or has no rows."""
    nothing = replace(Tally.empty(totals.protocol), classes=totals.classes)
    whole = build_curves(nothing, totals.num_truths, 1)
    for part in parts:
        place = np.searchsorted(totals.classes, part.classes)
        for name in ("precision", "scores"):
            getattr(whole, name)[:, :, place] = getattr(part, name)
        for name in ("recall", "average_precision", "num_true", "num_false"):
            getattr(whole, name)[:, place] = getattr(part, name)
    return whole


def reduce_bins(bins: Bins, load: Callable[[int], Tally | None], threads: int) -> Curves:
    """The curves of all classes, bin after bin; `load` gives the rows of a bin, or none where it has none."""
    protocol, ranges = bins.totals.protocol, bins.ranges
    of_ranges = {number for numbers in ranges.values() for number in numbers}
    whole = (
        draw_bin(piece, bins, number, threads)
        for number in range(bins.num)
        if number not in of_ranges and (piece := load(number)) is not None
    )
    split = (_reduce_ranges(bins, numbers, load, threads, protocol) for numbers in ranges.values())
    return assemble(bins.totals, chain(whole, split))


def _reduce_ranges(
    bins: Bins, numbers: range, load: Callable[[int], Tally | None], threads: int, protocol: Protocol
) -> Curves:
    start, parts, used = no_start(protocol), [], []
    for number in numbers:
        piece = load(number)
        if piece is not None:
            parts.append(draw_bin_from(start, piece, bins, number, threads)[0])
            used.append(number)
            start = next_start(start, parts[-1])

    def redraw(place: int, begin: Start) -> tuple[Curves, Floats]:
        piece = load(used[place])
        assert piece is not None  # it was there a moment ago
        return draw_bin_from(begin, piece, bins, used[place], threads)

    return join_ranges(parts, protocol, redraw)


def result_of(totals: Totals, curves: Curves, averaged: Curves | None = None) -> Result:
    """The result of verdicts that were not kept; `averaged`: the curves of all classes as one, for micro averages."""
    return summarize(totals, curves, average(totals, curves, averaged))
