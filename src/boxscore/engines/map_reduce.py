"""Map by image, reduce by class: the driver of out-of-core evaluation, of Ray, and of many tallies in memory.

    images --match--> tallies --plan--> bins --build-> curves of bins --assemble--> Result
                      (TallyStore.map)       (TallyStore.reduce)

A `TallyStore` decides where rows are and which process runs a task; everything that affects a number is here. A bin has
a few classes, or a range of one large class (see `boxscore.engines.bins`). A range knows how many detections counted
before it, so it can be built without them. The assembled parts have the bits of a curve that was built at once:
precision is the same division of the same counts, an envelope is a maximum, which doesn't depend on order, and a sum
over true positives continues from range to range.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from boxscore._compiled import SUM_STATE
from boxscore._support.exceptions import InputError
from boxscore._support.lazy import Lazy
from boxscore.engines.bins import Bins, Sample
from boxscore.engines.native.compiled_engine import (
    Start,
    average,
    average_points,
    build_curves,
    build_range,
    can_finish_together,
    finish,
)
from boxscore.protocol.protocol import Protocol
from boxscore.result.curves import Curves, Floats, Ints
from boxscore.result.extra_numbers import ExtraCounter, combined, image_counts
from boxscore.result.result import Result, summarize
from boxscore.result.tally import Tally, Totals, joined

T = TypeVar("T")

_PART_SIZE = 1 << 16
"""Minimum number of rows for a separate part, when tallies are finished without being merged."""


class Built(NamedTuple):
    """The curves of some classes, and their extra numbers."""

    curves: Curves
    extra: Mapping[str, Floats]
    """From `ExtraCounter.measure_classes`; empty if the protocol has no extra numbers. Shape (K,) each."""


class Reduced(NamedTuple):
    """The results of a task on each bin that has rows."""

    built: Mapping[int, Built]
    load: Callable[[int], Tally]
    """Loads the rows of a bin that are needed again."""


class TallyStore(ABC):
    """Tallies of different images: where their rows are, and which process runs a task. Tasks can be pickled."""

    bin_size: int
    """Maximum number of detections through which a task may build curves at once."""
    is_local: bool
    """Whether tasks run in this process, one bin after the other, by number. Then all tallies may be in this process at
    once, if they have no more detections than a bin.
    """

    @abstractmethod
    def map(self, task: Callable[[Tally], T]) -> Iterable[T]:
        """Run a task on each tally, or on each part of one; yield results in any order, at least one."""

    @abstractmethod
    def reduce(self, bins: Bins, task: Callable[[int, Tally], Built], needed_again: Collection[int]) -> Reduced:
        """Run a task on each bin that has detections. Within a bin, the detections of an image keep their order."""


def reduce_tallies(store: TallyStore, threads: int) -> Result:
    """Compute the result of all tallies of a store. It has a tally only if all fit in this process at once."""
    surveys = list(store.map(partial(_survey, bin_size=store.bin_size)))
    totals = surveys[0].totals.merge(*(part.totals for part in surveys[1:]))
    if store.is_local and totals.num_detections.sum() <= store.bin_size:
        return finish_within_limit(list(store.map(_identity)), partial(finish_tallies, threads=threads))
    protocol, limit = totals.protocol, totals.protocol.limits[-1]
    sample = Sample.concatenate([part.sample for part in surveys])
    listed = [part.images for part in surveys]
    num_images = sum(each.all_images.size for each in listed)
    bins = Bins.plan(totals, sample, store.bin_size)
    if protocol.limits_per == "dataset" and limit is not None:
        totals = replace(totals, num_detections=np.minimum(totals.num_detections, limit))
    built = _reduce(store, bins, num_images, threads)
    pooled = None
    if protocol.average == "micro":
        pooled_bins = Bins.plan(bins.totals.pooled(), sample.pooled(), store.bin_size)
        pooled = _reduce(store, pooled_bins, num_images, threads).curves
    extra = None
    if protocol.extra_numbers:
        extra = combined(protocol, built.extra, image_counts(listed))
    return summarize(totals, built.curves, average(totals, built.curves, pooled), extra=extra)


def finish_within_limit(tallies: Sequence[Tally], finish: Callable[[list[Tally]], Result]) -> Result:
    """Finish tallies of different images, within the limit over the dataset if the protocol has one."""
    if tallies[0].protocol.limits_per != "dataset":
        return finish(list(tallies))
    whole = joined(tallies)
    return replace(finish([whole.limited()]), _lazy_tally=Lazy(lambda: whole))


def finish_tallies(tallies: Sequence[Tally], threads: int) -> Result:
    """Finish tallies of different images that are all in memory, without copying large ones where possible."""
    parts = _parts(tallies)
    return summarize(*finish(parts, threads), parts[0] if len(parts) == 1 else tuple(parts))


def _parts(tallies: Sequence[Tally]) -> list[Tally]:
    """Parts that can be finished together: large tallies unchanged, small ones concatenated; or all as one part."""
    if len(tallies) == 1:
        return list(tallies)
    groups: list[list[Tally]] = [[]]
    num_rows = 0
    for tally in sorted(tallies, key=lambda tally: int(tally.image[0]) if len(tally) else 0):
        if num_rows >= _PART_SIZE:
            groups.append([])
            num_rows = 0
        groups[-1].append(tally)
        num_rows += len(tally)
    parts = [joined(group) if len(group) > 1 else group[0] for group in groups]
    return parts if can_finish_together(parts) else [joined(tallies)]


class _Survey(NamedTuple):
    """The facts about a tally that the plan needs."""

    totals: Totals
    sample: Sample
    images: Tally
    """Only the columns with one row per image, if extra numbers are measured."""


def _survey(tally: Tally, bin_size: int) -> _Survey:
    images = Tally.empty(tally.protocol)
    if tally.protocol.extra_numbers:
        images = replace(images, listed_image=tally.all_images, jaccard=image_counts([tally]))
    return _Survey(tally.totals, Sample.from_tally(tally, bin_size), images)


def _identity(tally: Tally) -> Tally:
    return tally


def _reduce(store: TallyStore, bins: Bins, num_images: int, threads: int) -> Built:
    """Build the curves of all classes. A class is in one bin, in several bins as ranges, or has no rows."""
    if not bins.totals.num_detections.any():
        return _assemble(bins.totals, num_images, [])
    protocol = bins.totals.protocol
    _check_ranges(bins)
    of_ranges = {number for numbers in bins.ranges.values() for number in numbers}
    settings: dict[str, Any] = {"bins": bins, "num_images": num_images, "threads": threads}
    if store.is_local:
        task = partial(_build_next, starts=dict.fromkeys(bins.ranges, no_start(protocol)), **settings)
    else:
        task = partial(build_bin, starts=_starts(store, bins, threads), **settings)
    built, load = store.reduce(bins, task, () if protocol.is_sampled else of_ranges)
    parts = [part for number, part in built.items() if number not in of_ranges]
    for numbers in bins.ranges.values():
        present = [number for number in numbers if number in built]

        def rebuild(index: int, start: Start, present: Sequence[int] = present) -> tuple[Curves, Floats]:
            number = present[index]
            return _build_range(number, load(number), bins, start, threads)

        parts.append(Built(join_ranges([built[number].curves for number in present], protocol, rebuild), {}))
    return _assemble(bins.totals, num_images, parts)


def _check_ranges(bins: Bins) -> None:
    """Raise `InputError` if a class is split that must be in memory as a whole."""
    protocol = bins.totals.protocol
    rules = {
        "interpolates between all true positives of a class": protocol.ap in ("linear_points", "linear_points_to_end"),
        "has extra numbers, which need all verdicts of a class": bool(protocol.extra_numbers),
        "has a limit over the whole dataset, which needs all verdicts of a class": protocol.limits_per == "dataset",
    }
    rule = next((rule for rule, is_set in rules.items() if is_set), None)
    if bins.ranges and rule is not None:
        label = next(iter(bins.ranges))
        raise InputError(
            f"protocol {protocol.name} {rule}, and class {label} has more detections than fit in memory at once: allow"
            " more memory"
        )


def build_bin(
    number: int, rows: Tally, *, bins: Bins, starts: Mapping[int, Start], num_images: int, threads: int
) -> Built:
    """Build the curves of a bin. `starts`: for bins that are ranges, by number."""
    if number in starts:
        return Built(_build_range(number, rows, bins, starts[number], threads)[0], {})
    rows = _rows_of(number, rows, bins)
    return _build(rows, bins.num_truths_of(rows.classes), num_images, threads)


def _build(rows: Tally, num_truths: Ints, num_images: int, threads: int) -> Built:
    extra = ExtraCounter(rows).measure_classes(num_truths[:, 0], num_images) if rows.protocol.extra_numbers else {}
    return Built(build_curves(rows, num_truths, threads), extra)


def _build_next(
    number: int, rows: Tally, *, bins: Bins, starts: dict[int, Start], num_images: int, threads: int
) -> Built:
    """Build the next bin, in order of their numbers: a range starts where the one before ended. `starts`: by label.

    This avoids a separate pass that counts, which would take half as long as the whole out-of-core reduce.
    """
    label = int(bins.classes_of(number)[0])
    if label not in starts:
        return build_bin(number, rows, bins=bins, starts={}, num_images=num_images, threads=threads)
    curves, _ = _build_range(number, rows, bins, starts[label], threads)
    starts[label] = _next_start(starts[label], curves.num_true, curves.num_true + curves.num_false)
    return Built(curves, {})


def _build_range(number: int, rows: Tally, bins: Bins, start: Start, threads: int) -> tuple[Curves, Floats]:
    """Build the curves of a range, and the state of the sum over true positives at its end."""
    rows = _rows_of(number, rows, bins)
    rows = replace(rows, protocol=_with_recall_0(rows.protocol))
    return build_range(rows, bins.num_truths_of(rows.classes), threads, start)


def _rows_of(number: int, rows: Tally, bins: Bins) -> Tally:
    """The rows with the classes of their bin, within the limit over the dataset."""
    rows = rows.limited()
    rows = rows.pooled() if bins.is_pooled else rows
    return replace(rows, classes=bins.classes_of(number), class_names=None)


def no_start(protocol: Protocol) -> Start:
    """The start of the first range of a class."""
    shape = (len(protocol.thresholds), 1, len(protocol.areas), len(protocol.limits))
    counts = np.zeros(shape, np.int64)
    return Start(counts, counts, counts, np.zeros((*shape, SUM_STATE)), np.zeros(shape))


def _starts(store: TallyStore, bins: Bins, threads: int) -> dict[int, Start]:
    """The start of each range, from the counts of all ranges before it."""
    if not bins.ranges:
        return {}
    counts = list(store.map(partial(_count, bins=bins, threads=threads)))
    starts: dict[int, Start] = {}
    for numbers in bins.ranges.values():
        start = no_start(bins.totals.protocol)
        for number in numbers:
            starts[number] = start
            for num_true, num_false in (part[number] for part in counts if number in part):
                start = _next_start(start, start.num_true + num_true, start.num_counted + num_true + num_false)
    return starts


def _count(tally: Tally, bins: Bins, threads: int) -> dict[int, tuple[Ints, Ints]]:
    """Count the true and false positives of a tally in each range. Shape (T, 1, A, M)."""
    of_ranges = {number for numbers in bins.ranges.values() for number in numbers}
    counts = {}
    for number, rows in bins.split(tally):
        if number in of_ranges:
            curves = build_bin(number, rows, bins=bins, starts={}, num_images=0, threads=threads).curves
            counts[number] = curves.num_true, curves.num_false
    return counts


def _next_start(start: Start, num_true: Ints, num_counted: Ints) -> Start:
    return start._replace(num_true=num_true, num_counted=num_counted, total_true=num_true)


Rebuild = Callable[[int, Start], tuple[Curves, Floats]]
"""Rebuilds a range, by its index, from another start."""


def join_ranges(parts: Sequence[Curves], protocol: Protocol, rebuild: Rebuild) -> Curves:
    """Join the curves of a class from its ranges, each built from its start.

    If AP is a sum over true positives, `rebuild` is called for one range after the other: the sum continues from the
    range before, and depends on the total number of true positives.
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
        average_precision=_average_precision(parts, precision[:, own], protocol, rebuild),
    )


def _average_precision(parts: Sequence[Curves], precision: Floats, protocol: Protocol, rebuild: Rebuild) -> Floats:
    is_defined = parts[-1].recall >= 0
    if protocol.is_sampled:
        return np.where(is_defined, average_points(precision, protocol), np.nan)
    start = no_start(protocol)._replace(total_true=parts[-1].num_true)
    best = [part.precision[:, 0] for part in parts]  # at recall 0 or beyond: of the whole range
    for index, part in enumerate(parts):
        beyond = np.max([np.zeros_like(best[0]), *best[index + 1 :]], axis=0)
        built, sum_after = rebuild(index, start._replace(beyond=beyond))
        start = _next_start(start, part.num_true, part.num_true + part.num_false)
        start = start._replace(total_true=parts[-1].num_true, sum=sum_after)
    return np.where(is_defined, built.average_precision, np.nan)


def _with_recall_0(protocol: Protocol) -> Protocol:
    points = protocol.recall_points
    return protocol if points[0] == 0 else protocol.replace(recall_points=(0.0, *points))


def _assemble(totals: Totals, num_images: int, parts: Iterable[Built]) -> Built:
    """Assemble the curves of all classes. A class is in one of the parts, or has no rows."""
    empty = replace(Tally.empty(totals.protocol), classes=totals.classes)
    whole = _build(empty, totals.num_truths, num_images, 1)
    for part in parts:
        index = np.searchsorted(totals.classes, part.curves.classes)
        for name in ("precision", "scores"):
            getattr(whole.curves, name)[:, :, index] = getattr(part.curves, name)
        for name in ("recall", "average_precision", "num_true", "num_false"):
            getattr(whole.curves, name)[:, index] = getattr(part.curves, name)
        for name, values in part.extra.items():
            whole.extra[name][index] = values
    return whole
