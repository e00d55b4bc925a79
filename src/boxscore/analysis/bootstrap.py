"""The bootstrap: every number again, on images drawn with replacement, from the verdicts of one matching.

An image is drawn with all of its detections and truths, since a dataset is a sample of images. The numbers of a
resample equal, bit for bit, the numbers of a dataset that repeats each image as often as it was drawn.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads
from boxscore.arrays import compact
from boxscore.engines.native.compiled_engine import compiled_tally
from boxscore.engines.native.rules import compiled_measures, rules_of
from boxscore.protocol.measures import Measure, measures
from boxscore.result.curves import Floats, Ints
from boxscore.result.extra_numbers import ExtraCounter
from boxscore.result.summary import Confidence, Interval
from boxscore.result.tally import Tally

MAX_LANES = 8
"""Number of resamples computed side by side; `python -m benchmarks.bootstrap one-lane` measures the benefit."""


class Run(NamedTuple):
    """How resamples are computed. It doesn't change any bit."""

    num_threads: int
    max_lanes: int


class Plan(NamedTuple):
    """Number of resamples, their seed, and the confidence level of intervals."""

    resamples: int
    seed: int
    level: float

    @classmethod
    def checked(cls, resamples: int, seed: int, level: float) -> "Plan":
        """Validate the values; raise `InputError` for invalid ones."""
        whole: tuple[tuple[str, object, int], ...] = (("resamples", resamples, 2), ("seed", seed, 0))
        for name, value, low in whole:
            if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) < 2**63:
                raise InputError(f"`{name}` must be an integer of at least {low}; got {value!r}")
        if not isinstance(level, int | float) or not 0 < level < 1:
            raise InputError(f"`level` must lie between 0 and 1, both excluded; got {level!r}")
        return cls(int(resamples), int(seed), float(level))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Samples:
    """The numbers of every resample. NaN: undefined, because no image with such a truth was drawn."""

    numbers: Mapping[str, Floats]
    """Numbers by name. Shape (S,) each."""
    ap: Floats
    """Average precision of each class, mean over thresholds. Shape (S, K)."""
    ar: Floats
    """Recall of each class, mean over thresholds. Shape (S, K)."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ClassIntervals:
    """Confidence intervals of the numbers of each class, in columns. Shape (K,) each.

    NaN marks a class without truths, or with all truths in one image.
    """

    label: Ints
    ap_low: Floats
    ap_high: Floats
    ap_error: Floats
    """The standard error: the standard deviation of the samples."""
    ar_low: Floats
    ar_high: Floats
    ar_error: Floats


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Intervals:
    """Confidence interval of each number: its likely range on an equally large sample of similar images.

    The mean of the resamples is above the number itself: an image that is drawn twice repeats its hits at the same
    score, which a curve's envelope rewards. To remove this bias, the interval spans percentiles of the samples, shifted
    so that their mean is the number, and clipped to 0 and 1. Undefined samples are excluded. If all truths are in one
    image, the interval is NaN: one image says nothing about others. `print` shows a table.
    """

    numbers: Mapping[str, float]
    """The measured numbers."""
    low: Mapping[str, float]
    """The lower end of each number's interval."""
    high: Mapping[str, float]
    """The upper end."""
    error: Mapping[str, float]
    """The standard error: the standard deviation of the samples."""
    per_class: ClassIntervals
    """Intervals of AP and recall of each class."""
    samples: Samples
    """The samples behind the intervals, for further statistics."""
    level: float
    """The confidence level: the fraction of samples between `low` and `high`."""
    resamples: int
    """Number of resamples."""
    seed: int
    """The seed of the resamples."""
    num_images: int
    """Number of images, which is also the number of draws per resample."""

    @property
    def confidence(self) -> Confidence:
        """The intervals as Python values, for summaries."""
        classes = self.per_class
        return Confidence(
            level=self.level,
            resamples=self.resamples,
            seed=self.seed,
            num_images=self.num_images,
            numbers={name: Interval(self.low[name], self.high[name], self.error[name]) for name in self.numbers},
            ap=_rows(classes.ap_low, classes.ap_high, classes.ap_error),
            ar=_rows(classes.ar_low, classes.ar_high, classes.ar_error),
        )

    def __repr__(self) -> str:
        low, high = text.fraction(self.low["map"]), text.fraction(self.high["map"])
        return f"Intervals(map from {low} to {high}, {self.resamples:,} resamples)"

    def __str__(self) -> str:
        rows = [
            [name, *(text.fraction(column[name]) for column in (self.numbers, self.low, self.high, self.error))]
            for name in self.numbers
        ]
        header = ["", "value", "low", "high", "error"]
        return f"{self.confidence.title}\n\n{text.table(rows, align='<>>>>', header=header)}"


class Estimates(NamedTuple):
    """The measured values: the named numbers, and AP and recall of each class."""

    numbers: Mapping[str, float]
    ap: Floats
    ar: Floats


class Spread(NamedTuple):
    """Lower bound, upper bound and standard error of each estimate. All of one shape."""

    low: Floats
    high: Floats
    error: Floats

    def where(self, is_known: NDArray[np.bool_]) -> "Spread":
        """The spread where `is_known`, NaN elsewhere. Shape (K,)."""
        return Spread(*(np.where(is_known, column, np.nan) for column in self))

    def within(self, least: float, most: float) -> "Spread":
        """The spread with its bounds clipped to the range of the numbers."""
        return self._replace(low=np.maximum(self.low, least), high=np.minimum(self.high, most))


class Grounds(NamedTuple):
    """Whether each number can have an interval: whether its truths are in more than one image.

    With truths in a single image the bootstrap has no variance to estimate, so the interval would look certain.
    """

    numbers: NDArray[np.bool_]
    """In the order of the protocol's measures."""
    classes: NDArray[np.bool_]
    """In the first area range. Shape (K,)."""


def grounds(tally: Tally, labels: Ints) -> Grounds:
    """Find which numbers can have an interval, by the truths of a tally. `labels`: ascending, all that truths have."""
    bit = tally.truth_state.dtype.type

    def is_there(area: int) -> NDArray[np.bool_]:
        return np.asarray(tally.truth_state >> bit(area) & bit(1), bool)

    def are_in_several(area: int, group: str | None = None) -> bool:
        is_member = is_there(area)
        if group is not None:
            members = [label for label, each in (tally.class_groups or {}).items() if each == group]
            is_member = is_member & np.isin(tally.truth_label, members)
        image = tally.truth_image[is_member]
        return image.size > 0 and bool(image.min() < image.max())

    several = [are_in_several(measure.area, measure.group) for measure in measures(tally.protocol)]
    image = tally.truth_image[is_there(0)]
    place = np.searchsorted(labels, tally.truth_label[is_there(0)])
    limits = np.iinfo(np.int64)
    lowest, highest = np.full(labels.size, limits.max), np.full(labels.size, limits.min)
    np.minimum.at(lowest, place, image)
    np.maximum.at(highest, place, image)
    num_extra = len(tally.protocol.extra_names)
    return Grounds(
        numbers=np.array([*several, *several[:1] * num_extra], bool),
        classes=lowest < highest,
    )


def intervals(tally: Tally, images: Ints, estimates: Estimates, plan: Plan, *, threads: int | None = None) -> Intervals:
    """The intervals of all estimates of a tally. `images`: all image ids of the dataset, ascending."""
    samples = resample(tally, images, plan, threads=threads)
    has = grounds(tally, tally.classes)
    measured = np.array([*estimates.numbers.values()])
    stacked = np.stack([*samples.numbers.values()], axis=1)
    numbers = spread(stacked, measured, plan.level).where(has.numbers).within(0, 1)
    low, high, error = (dict(zip(samples.numbers, column.tolist(), strict=True)) for column in numbers)
    ap, ar = (
        spread(*pair, plan.level).where(has.classes).within(0, 1)
        for pair in ((samples.ap, estimates.ap), (samples.ar, estimates.ar))
    )
    return Intervals(
        numbers=estimates.numbers,
        low=low,
        high=high,
        error=error,
        per_class=ClassIntervals(
            label=tally.classes,
            ap_low=ap.low,
            ap_high=ap.high,
            ap_error=ap.error,
            ar_low=ar.low,
            ar_high=ar.high,
            ar_error=ar.error,
        ),
        samples=samples,
        level=plan.level,
        resamples=plan.resamples,
        seed=plan.seed,
        num_images=images.size,
    )


def resample(
    tally: Tally, images: Ints, plan: Plan, *, threads: int | None = None, max_lanes: int = MAX_LANES
) -> Samples:
    """The numbers of each resample of `images`, which must ascend.

    The bits are the same for any number of threads, and of resamples that are computed side by side.
    """
    if tally.protocol.limits_per == "dataset":
        raise InputError(
            f"protocol {tally.protocol.name} has no confidence intervals: its limit over the dataset would be another"
            " one for each resample"
        )
    wanted = list(measures(tally.protocol))
    is_micro = tally.protocol.average == "micro"
    run = Run(num_threads(threads), max_lanes)
    numbers, ap, ar = _resample(tally, images, [] if is_micro else wanted, plan, run)
    if is_micro:
        numbers, _, _ = _resample(tally.pooled(), images, wanted, plan, run)
    columns = np.ascontiguousarray(numbers.T)
    by_name = {measure.name: columns[i] for i, measure in enumerate(wanted)} | _resample_extra(tally, images, plan)
    return Samples(numbers=by_name, ap=ap, ar=ar)


def _resample_extra(tally: Tally, images: Ints, plan: Plan) -> dict[str, Floats]:
    """The extra numbers of each resample."""
    names = tally.protocol.extra_names
    if not names:
        return {}
    counter = ExtraCounter(tally.listing(images.tolist()))
    drawn = (draws(images.size, resample=index, seed=plan.seed) for index in range(plan.resamples))
    measured = [counter.measure(weight).numbers for weight in drawn]
    return {name: np.array([numbers[name] for numbers in measured]) for name in names}


def draws(num_images: int, *, resample: int, seed: int = 0) -> NDArray[np.uint16]:
    """How often each image is drawn for one resample. Shape (N,).

    By SplitMix64, whose state depends only on the seed and the number of the resample.

    >>> draws(8, resample=0, seed=0)
    array([0, 2, 2, 0, 0, 1, 1, 2], dtype=uint16)
    """
    drawn: NDArray[np.uint16] = _compiled.draw_images(num_images, seed, resample)
    return drawn


def spread(samples: Floats, estimates: Floats, level: float) -> Spread:
    """Percentiles of the samples, shifted so that their mean is the estimate. Shapes (S, K) and (K,) to (K,)."""
    is_defined = ~np.isnan(samples)
    num = is_defined.sum(axis=0)
    rising = np.sort(samples, axis=0)  # NaN at the end
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(is_defined, samples, 0).sum(axis=0) / num
        error = np.sqrt((np.where(is_defined, samples - mean, 0) ** 2).sum(axis=0) / (num - 1))
    shift = estimates - mean
    low, high = (_quantile(rising, num, part) + shift for part in ((1 - level) / 2, (1 + level) / 2))
    return Spread(low=low, high=high, error=np.where(num > 1, error, np.nan))


def _quantile(rising: Floats, num: NDArray[np.int64], part: float) -> Floats:
    """The quantile of the first `num` values of each column, by linear interpolation; NaN where `num` is 0."""
    place = part * np.maximum(num - 1, 0)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(num - 1, 0))
    column = np.arange(rising.shape[1])
    at_below, at_above = rising[below, column], rising[above, column]
    return np.asarray(at_below + (at_above - at_below) * (place - below))


def _resample(tally: Tally, images: Ints, wanted: list[Measure], plan: Plan, run: Run) -> tuple[Floats, Floats, Floats]:
    """Numbers (S, measures), average precision (S, K) and recall (S, K)."""
    found: tuple[Any, Any, Any] = _compiled.bootstrap(
        compiled_tally(tally),
        images=compact(images),
        rules=rules_of(tally.protocol),
        measures=compiled_measures(wanted, tally.class_groups),
        is_weighted=tally.protocol.average == "weighted",
        seed=plan.seed,
        num_resamples=plan.resamples,
        num_threads=run.num_threads,
        max_lanes=run.max_lanes,
    )
    return found


def _rows(low: Floats, high: Floats, error: Floats) -> list[Interval]:
    return [Interval(*row) for row in zip(low.tolist(), high.tolist(), error.tolist(), strict=True)]
