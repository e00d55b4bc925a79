"""Numbers beside AP and recall, from a tally: log-average miss rate, Jaccard index, optimal LRP error.

All are taken at the protocol's first threshold, in its first area range and within its last limit.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore.arrays import compact
from boxscore.protocol.protocol import Protocol
from boxscore.result.curves import Floats
from boxscore.result.tally import FALSE, JACCARD_SCORES, TRUE, Tally

FALSE_POSITIVES_PER_IMAGE = (0.0100, 0.0178, 0.03160, 0.0562, 0.1000, 0.1778, 0.3162, 0.5623, 1.000)
"""The points at which miss rates are taken: nine from 0.01 to 1, evenly spaced in the logarithm (Dollár et al. 2012),
rounded as in CrowdHuman's evaluation."""


class ExtraNumbers(NamedTuple):
    """The numbers beside AP and recall, over all classes and by class."""

    numbers: Mapping[str, float]
    """Means over classes; NaN is undefined: no truths."""
    per_class: Mapping[str, Floats]
    """Shape (K,) each. `olrp_score` is the score threshold at which the LRP error is the least."""


def extra_numbers(tally: Tally) -> ExtraNumbers:
    """Compute all extra numbers of the tally's protocol."""
    return ExtraCounter(tally).measure()


class ClassVerdicts(NamedTuple):
    """The detections of one class by descending score, with the inputs of its extra numbers."""

    verdict: NDArray[np.uint8]
    """Shape (D,)."""
    score: NDArray[Any]
    """Shape (D,)."""
    similarity: Floats
    """Similarities of true positives, else 0. Shape (D,)."""
    num_truths: int

    def running_count(self, verdict: int) -> NDArray[np.int64]:
        """Running count of a verdict, up to and including each detection. Shape (D,)."""
        return np.cumsum(self.verdict == verdict)


class ExtraCounter:
    """A sorted tally, from which extra numbers are computed, once or for many resamples of images."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.images = tally.all_images
        rows = tally.sorted()
        self._image = np.searchsorted(self.images, rows.image)
        self._columns: tuple[NDArray[Any], ...] = (rows.verdict_at(0), rows.score, np.zeros(len(rows)))
        if rows.similarity is not None:
            self._columns[2][rows.is_hit] = rows.similarity
        keys = (rows.label, rows.score, rows.image)
        is_tied = np.logical_and.reduce([column[1:] == column[:-1] for column in keys])
        self._tie = np.cumsum(np.append(True, ~is_tied)[: len(rows)])
        self._bounds = [np.searchsorted(rows.label, tally.classes, side=side).tolist() for side in ("left", "right")]
        is_counted = (tally.truth_state & tally.truth_state.dtype.type(1)).astype(bool)
        self._truth_image = np.searchsorted(self.images, tally.truth_image[is_counted])
        self._truth_class = np.searchsorted(tally.classes, tally.truth_label[is_counted])
        self.jaccard = image_counts([tally])

    def measure(self, weight: NDArray[Any] | None = None) -> ExtraNumbers:
        """Compute the numbers. `weight`: how often each image occurs; None: once. Shape (N,)."""
        num_images = self.images.size if weight is None else int(weight.sum())
        truth_weight = None if weight is None else weight[self._truth_image]
        num_truths = np.bincount(self._truth_class, truth_weight, minlength=self.tally.classes.size)
        row_weight = None if weight is None else weight[self._image].astype(np.int64)
        return combined(
            self.tally.protocol, self.measure_classes(num_truths, num_images, row_weight), self.jaccard, weight
        )

    def measure_classes(
        self, num_truths: NDArray[Any], num_images: int, row_weight: NDArray[np.int64] | None = None
    ) -> dict[str, Floats]:
        """Compute the numbers of each class; NaN for a class without truths. Shape (K,) each.

        Args:
            num_truths: Truths that count in the first area range, by class. Shape (K,).
            num_images: Number of images.
            row_weight: How often each detection occurs; None: once. Shape (D,).
        """
        protocol = self.tally.protocol
        wanted = protocol.extra_numbers
        names = [*(["mr"] if "mr" in wanted else []), *(_LRP_NAMES if "olrp" in wanted else [])]
        per_class = {name: np.full(self.tally.classes.size, np.nan) for name in names}
        for k, rows in self._by_class(num_truths, row_weight) if names else ():
            if "mr" in wanted:
                per_class["mr"][k] = miss_rate(rows, num_images)
            if "olrp" in wanted:
                for name, value in optimal_lrp(rows, protocol.thresholds[0])._asdict().items():
                    per_class[name][k] = value
        return per_class

    def _by_class(
        self, num_truths: NDArray[Any], row_weight: NDArray[np.int64] | None
    ) -> Iterator[tuple[int, ClassVerdicts]]:
        """Yield the index and the detections of each class that has truths."""
        for k, (start, end) in enumerate(zip(*self._bounds, strict=True)):
            if num_truths[k]:
                columns = [column[start:end] for column in self._columns]
                if row_weight is not None:
                    drawn = _repeated(row_weight[start:end], self._tie[start:end])
                    columns = [column[drawn] for column in columns]
                verdict, score, similarity = columns
                yield k, ClassVerdicts(verdict, score, similarity, int(num_truths[k]))


def combined(
    protocol: Protocol,
    per_class: Mapping[str, Floats],
    jaccard: NDArray[np.int32] | None,
    weight: NDArray[Any] | None = None,
) -> ExtraNumbers:
    """Means over classes and images. `jaccard`: counts of all images, by ascending id; `weight`: as in `measure`."""
    numbers = {name: _mean(per_class[name]) for name in protocol.extra_names if name != "ji"}
    if jaccard is not None:
        numbers["ji"] = jaccard_index(jaccard, weight)
    return ExtraNumbers({name: numbers[name] for name in protocol.extra_names}, per_class)


def image_counts(tallies: Sequence[Tally]) -> NDArray[np.int32] | None:
    """Counts of the Jaccard index of all images, by ascending id; None: it is not measured. Shape (N, S, 3).

    Images of merged tallies may be in any order.
    """
    images = np.unique(np.concatenate([each.all_images for each in tallies]))
    counts = np.zeros((images.size, len(JACCARD_SCORES), 3), np.int32)
    for each in tallies:
        if each.listed_image is None or each.jaccard is None:
            return None
        np.add.at(counts, np.searchsorted(images, each.listed_image), each.jaccard)
    return counts


def _repeated(weight: NDArray[np.int64], tie: NDArray[np.int64]) -> NDArray[np.int64]:
    """Repeat the index of each row by its weight.

    Rows of one tie (the same image and score) are repeated as a group, as an image that is drawn twice occurs twice.

    >>> _repeated(np.array([2, 2, 1]), np.array([1, 1, 2])).tolist()
    [0, 1, 0, 1, 2]
    """
    row = np.repeat(np.arange(weight.size), weight)
    if tie.size == 0 or tie[-1] - tie[0] + 1 == tie.size:
        return row
    copy = np.arange(row.size) - np.repeat(np.cumsum(weight) - weight, weight)
    return row[np.lexsort((row, copy, tie[row]))]


def miss_rate(rows: ClassVerdicts, num_images: int) -> float:
    """The geometric mean of the miss rates at nine numbers of false positives per image (MR⁻²).

    Each miss rate is taken at the first detection that reaches the number of false positives per image, or at the last
    detection if none does. Without detections, all truths are missed: 1.

    >>> verdict, score = np.array([2, 1, 2, 1]), np.array([0.9, 0.8, 0.7, 0.6])  # 2 of 3 truths, in 4 images
    >>> rows = ClassVerdicts(verdict, score, np.zeros(4), 3)
    >>> round(miss_rate(rows, num_images=4), 4)  # 0.25 false positives per image, then 0.5: (2/3)^6 (1/3)^3, ninth root
    0.5291
    """
    is_counted = rows.verdict != 0
    if not is_counted.any():
        return 1.0
    missed = 1.0 - rows.running_count(TRUE)[is_counted] / rows.num_truths
    false_per_image = rows.running_count(FALSE)[is_counted] / num_images
    reached = np.searchsorted(false_per_image, FALSE_POSITIVES_PER_IMAGE)
    with np.errstate(divide="ignore"):  # if no truth is missed, the logarithm is -inf, and the mean 0
        logs = np.log(missed[np.minimum(reached, missed.size - 1)])
    return float(np.exp(np.add.reduce(logs) / logs.size))


class LrpError(NamedTuple):
    """The optimal LRP error, its parts, and its score threshold."""

    olrp: float
    olrp_loc: float
    olrp_fp: float
    olrp_fn: float
    olrp_score: float


_LRP_NAMES = LrpError._fields


def optimal_lrp(rows: ClassVerdicts, threshold: float) -> LrpError:
    """The least localization recall precision error over all cuts of the ranking.

    With TP, FP and FN at a score threshold and similarities s of the true positives, the error is

        (sum of (1 - s) / (1 - threshold) over TP + FP + FN) / (TP + FP + FN)

    and its parts are the mean of 1 - s, FP / (TP + FP) and FN / (TP + FN) (Oksuz et al. 2018). Without true positives
    it is 1.

    >>> rows = ClassVerdicts(np.array([2, 1]), np.array([0.9, 0.8]), np.array([0.75, 0.0]), 2)
    >>> optimal_lrp(rows, 0.5)  # after the first: (0.25 / 0.5 + 0 + 1) / 2
    LrpError(olrp=0.75, olrp_loc=0.25, olrp_fp=0.0, olrp_fn=0.5, olrp_score=0.9)
    """
    num_true, num_false = rows.running_count(TRUE), rows.running_count(FALSE)
    if num_true.size == 0 or num_true[-1] == 0:
        return LrpError(1.0, np.nan, np.nan, 1.0, np.nan)
    num_missed = rows.num_truths - num_true
    shared = rows.similarity * (rows.verdict == TRUE)
    lost = num_true - np.cumsum(shared)
    error = (lost / (1 - threshold) + num_false + num_missed) / (num_true + num_false + num_missed)
    best = int(np.argmin(error))
    with np.errstate(invalid="ignore"):
        parts = (
            error[best],
            lost[best] / num_true[best],
            num_false[best] / (num_true[best] + num_false[best]),
            num_missed[best] / rows.num_truths,
            rows.score[best],
        )
    return LrpError(*map(float, parts))


def jaccard_index(counts: NDArray[np.int32], weight: NDArray[Any] | None = None) -> float:
    """The mean over images of pairs / (truths + detections - pairs), at the score threshold where it is the largest.

    Images without truths and detections don't count; NaN if no image counts. Shapes (N, S, 3) and (N,).

    >>> counts = np.array([[[1, 1, 2]], [[1, 2, 1]], [[0, 0, 0]]], np.int32)  # pairs, truths, detections
    >>> round(jaccard_index(counts), 4)
    0.5
    """
    # One contiguous row per score threshold: NumPy adds it in the order of a list of images, as in CrowdHuman's code.
    repeated = counts if weight is None else np.repeat(counts, weight, axis=0)
    num_pairs, num_truths, num_detections = np.ascontiguousarray(repeated.astype(np.float64).transpose(2, 1, 0))
    total = np.add.reduce(num_pairs / (num_truths + num_detections - num_pairs + 1e-6), axis=1)
    num_images = np.add.reduce((num_truths != 0) | (num_detections != 0), axis=1, dtype=np.int64)
    with np.errstate(invalid="ignore"):
        return float(np.max(total / num_images))


def _mean(values: Floats) -> float:
    """Mean of the defined values."""
    mean: float = _compiled.mean_samples(compact(values.reshape(1, -1, 1, 1)), [0], 0, 0)
    return mean
