"""The plan of the reduce: which detections have their curves built together.

A bin holds a few classes, or a range of one large class. Ranges are cut between two rows of the order in which curves
are built: descending score, then image.

    label   num_detections   bin_size 1000
      1         2,300        bin 0, 1, 2, 3, 4: ranges of about 500, by descending score
      2           300        bin 5
      3           400        bin 5
      4           600        bin 6
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore.protocol.protocol import POOLED
from boxscore.result.curves import Floats, Ints
from boxscore.result.tally import TRUTHS, Tally, Totals

_SAMPLES = 64
"""Average number of sampled rows per full bin: enough that a range planned as half a bin never exceeds a bin."""


class Sample(NamedTuple):
    """A few rows of a tally, by which ranges are cut."""

    label: NDArray[Any]
    score: NDArray[Any]
    image: NDArray[Any]

    @classmethod
    def from_tally(cls, tally: Tally, bin_size: int) -> "Sample":
        """Choose rows at random; the choice is the same for the same tally."""
        is_taken = np.random.default_rng(len(tally)).random(len(tally)) < _SAMPLES / bin_size
        return cls(tally.label[is_taken], tally.score[is_taken].astype(np.float64), tally.image[is_taken])

    @classmethod
    def concatenate(cls, samples: Sequence["Sample"]) -> "Sample":
        """Concatenate samples; at least one."""
        return cls(*(np.concatenate(columns) for columns in zip(*samples, strict=True)))

    def pooled(self) -> "Sample":
        """The sample with all classes merged into one."""
        return self._replace(label=np.full_like(self.label, POOLED))


class Cuts(NamedTuple):
    """The ends of a class's ranges: the last row of each, by descending score and then by image."""

    score: Floats
    image: Ints

    @classmethod
    def from_sample(cls, sample: Sample, label: int, num_ranges: int) -> "Cuts":
        """The cuts that divide the sampled rows of a class evenly."""
        rows = sample.label == label
        score, image = sample.score[rows], sample.image[rows].astype(np.int64)
        order = np.lexsort((image, -score))
        chosen = order[np.arange(1, num_ranges) * order.size // num_ranges] if order.size else order
        pairs = dict.fromkeys(zip(score[chosen].tolist(), image[chosen].tolist(), strict=True))
        return cls(np.array([pair[0] for pair in pairs], np.float64), np.array([pair[1] for pair in pairs], np.int64))

    def range_of(self, score: NDArray[Any], image: NDArray[Any]) -> Ints:
        """The range of each row: the number of cuts before it."""
        rising = self.score[::-1]
        index = len(self.score) - np.searchsorted(rising, score, side="right")  # cuts of a higher score
        is_tied = np.searchsorted(rising, score, side="left") + index < len(self.score)
        for tied in np.unique(score[is_tied]):
            rows = np.flatnonzero(is_tied & (score == tied))
            index[rows] += np.searchsorted(self.image[self.score == tied], image[rows], side="left")
        return index.astype(np.int64)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Bins:
    """The bin of each row of a class, and the classes of each bin."""

    totals: Totals
    first: Ints
    """The bin of each class, or the bin of its first range. Shape (K,)."""
    cuts: Mapping[int, Cuts]
    """The cuts of the classes that are split, by label."""

    @classmethod
    def plan(cls, totals: Totals, sample: Sample, bin_size: int) -> "Bins":
        """Plan bins of at most `bin_size` rows; a larger class is split into ranges of about half a bin."""
        first = np.zeros(totals.classes.size, np.int64)
        cuts: dict[int, Cuts] = {}
        current, num_in_current = 0, 0
        for k, (label, num) in enumerate(zip(totals.classes.tolist(), totals.num_detections.tolist(), strict=True)):
            if num_in_current and num_in_current + num > bin_size:
                current, num_in_current = current + 1, 0
            first[k] = current
            num_in_current += num
            if num > bin_size:
                cuts[label] = Cuts.from_sample(sample, label, math.ceil(2 * num / bin_size))
                current, num_in_current = current + len(cuts[label].score) + 1, 0
        return cls(totals=totals, first=first, cuts=cuts)

    @property
    def num_bins(self) -> int:
        """Number of bins; some may be empty."""
        last = [*self.first.tolist(), *(numbers[-1] for numbers in self.ranges.values())]
        return max(map(int, last), default=-1) + 1

    @property
    def is_pooled(self) -> bool:
        """Whether all classes are merged into one."""
        return bool(self.totals.classes.tolist() == [POOLED])

    @property
    def ranges(self) -> dict[int, range]:
        """The bins of the classes that are split, by label, in the order of descending score."""
        first = dict(zip(self.totals.classes.tolist(), self.first.tolist(), strict=True))
        return {label: range(first[label], first[label] + len(cuts.score) + 1) for label, cuts in self.cuts.items()}

    def classes_of(self, number: int) -> Ints:
        """The labels in a bin. Shape (K,)."""
        label = next((label for label, numbers in self.ranges.items() if number in numbers), None)
        return self.totals.classes[self.first == number] if label is None else np.array([label])

    def num_truths_of(self, classes: Ints) -> Ints:
        """Number of counted truths by class and area range. Shape (K, A)."""
        return self.totals.num_truths[np.searchsorted(self.totals.classes, classes)]

    def bin_of(self, label: NDArray[Any], score: NDArray[Any], image: NDArray[Any]) -> Ints:
        """The bin of each row. Shape (D,)."""
        if self.is_pooled:
            label = np.full_like(label, POOLED)
        number = self.first[np.searchsorted(self.totals.classes, label)]
        for split, cuts in self.cuts.items():
            rows = np.flatnonzero(label == split)
            number[rows] += cuts.range_of(score[rows], image[rows])
        return np.asarray(number)

    def split(self, tally: Tally) -> Iterable[tuple[int, Tally]]:
        """Yield the detections of each bin that has any, in their order and with their own labels."""
        number = self.bin_of(tally.label, tally.score, tally.image)
        unused = {name: getattr(tally, name) for name in (*TRUTHS, "listed_image", "jaccard", "invalid_image")}
        tally = replace(tally, **{name: column[:0] for name, column in unused.items() if column is not None})
        order = np.argsort(number, kind="stable")
        present, start = np.unique(number[order], return_index=True)
        for bin_number, (first, end) in zip(present.tolist(), pairwise([*start, order.size]), strict=True):
            yield bin_number, tally.in_order(order[first:end])
