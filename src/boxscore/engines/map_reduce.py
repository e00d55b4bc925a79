"""Map by image, reduce by class: the driver of out-of-core evaluation, of Ray, and of many tallies in memory.

    images --match--> tallies --plan--> bins --build-> curves of bins --assemble--> Result
                      (TallyStore.map)       (TallyStore.reduce)

A `TallyStore` decides where rows are and which process runs a task; everything that affects a number is here. A bin has
the detections of one or more whole classes:

    label   num_detections   bin_size 1000
      1           900        bin 0
      2           300        bin 1
      3           400        bin 1
      4           600        bin 2
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import ceil
from typing import NamedTuple, TypeVar

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore._support.lazy import Lazy
from boxscore.engines.native.compiled_engine import average, build_curves, can_finish_together, finish
from boxscore.protocol.protocol import POOLED
from boxscore.result.curves import Curves, Floats, Ints
from boxscore.result.extra_numbers import ExtraCounter, combined, image_counts
from boxscore.result.result import Result, summarize
from boxscore.result.tally import TRUTHS, Tally, Totals, joined

T = TypeVar("T")

_PART_SIZE = 1 << 16
"""Minimum number of rows for a separate part, when tallies are finished without being merged."""


class Built(NamedTuple):
    """The curves of some classes, and their extra numbers."""

    curves: Curves
    extra: Mapping[str, Floats]
    """From `ExtraCounter.measure_classes`; empty if the protocol has no extra numbers. Shape (K,) each."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Bins:
    """The plan of the reduce: which classes have their curves built together."""

    totals: Totals
    number: Ints
    """The bin of each class. Shape (K,)."""

    @classmethod
    def plan(cls, totals: Totals, bin_size: int) -> "Bins":
        """Plan bins of at most `bin_size` rows; raise `InputError` if a class has more."""
        number = np.zeros(totals.classes.size, np.int64)
        current, num_in_current = 0, 0
        for k, (label, num) in enumerate(zip(totals.classes.tolist(), totals.num_detections.tolist(), strict=True)):
            if num > bin_size:
                which = "the average over all classes as one" if label == POOLED else f"class {label}"
                raise InputError(
                    f"`memory` must be larger: {which} has {num:,} detections, which must fit at once, and {bin_size:,}"
                    f" fit; {ceil(10 * num / bin_size) / 10} times as much is enough"
                )
            if num_in_current and num_in_current + num > bin_size:
                current, num_in_current = current + 1, 0
            number[k] = current
            num_in_current += num
        return cls(totals=totals, number=number)

    @property
    def num_bins(self) -> int:
        """Number of bins; some may be empty."""
        return int(self.number.max(initial=-1)) + 1

    @property
    def is_pooled(self) -> bool:
        """Whether all classes are merged into one."""
        return bool(self.totals.classes.tolist() == [POOLED])

    def split(self, tally: Tally) -> Iterable[tuple[int, Tally]]:
        """Yield the detections of each bin that has any, in their order and with their own labels."""
        label = np.full_like(tally.label, POOLED) if self.is_pooled else tally.label
        number = self.number[np.searchsorted(self.totals.classes, label)]
        unused = {name: getattr(tally, name) for name in (*TRUTHS, "listed_image", "jaccard", "invalid_image")}
        tally = replace(tally, **{name: column[:0] for name, column in unused.items() if column is not None})
        order = np.argsort(number, kind="stable")
        present, start = np.unique(number[order], return_index=True)
        for bin_number, (first, end) in zip(present.tolist(), pairwise([*start, order.size]), strict=True):
            yield bin_number, tally.in_order(order[first:end])


class TallyStore(ABC):
    """Tallies of different images: where their rows are, and which process runs a task. Tasks can be pickled."""

    bin_size: int
    """Maximum number of detections through which a task may build curves at once."""
    is_local: bool
    """Whether tasks run in this process. Then all tallies are finished at once if they have no more detections than a
    bin.
    """

    @abstractmethod
    def map(self, task: Callable[[Tally], T]) -> Iterable[T]:
        """Run a task on each tally, or on each part of one; yield results in any order, at least one."""

    @abstractmethod
    def reduce(self, bins: Bins, task: Callable[[int, Tally], Built]) -> Iterable[Built]:
        """Run a task on each bin that has detections. Within a bin, the detections of an image keep their order."""


def reduce_tallies(store: TallyStore, threads: int) -> Result:
    """Compute the result of all tallies of a store. It has a tally only if all fit in this process at once."""
    surveys = list(store.map(_survey))
    totals = surveys[0].totals.merge(*(part.totals for part in surveys[1:]))
    if store.is_local and totals.num_detections.sum() <= store.bin_size:
        return finish_within_limit(list(store.map(_identity)), partial(finish_tallies, threads=threads))
    protocol, limit = totals.protocol, totals.protocol.limits[-1]
    listed = [part.images for part in surveys]
    num_images = sum(each.all_images.size for each in listed)
    bins = [Bins.plan(totals, store.bin_size)]
    if protocol.average == "micro":
        bins.append(Bins.plan(totals.pooled(), store.bin_size))
    if protocol.limits_per == "dataset" and limit is not None:
        totals = replace(totals, num_detections=np.minimum(totals.num_detections, limit))
    built, *pooled = [_reduce(store, each, num_images, threads) for each in bins]
    extra = None
    if protocol.extra_numbers:
        extra = combined(protocol, built.extra, image_counts(listed))
    return summarize(
        totals, built.curves, average(totals, built.curves, *(each.curves for each in pooled)), extra=extra
    )


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
    images: Tally
    """Only the columns with one row per image, if extra numbers are measured."""


def _survey(tally: Tally) -> _Survey:
    images = Tally.empty(tally.protocol)
    if tally.protocol.extra_numbers:
        images = replace(images, listed_image=tally.all_images, jaccard=image_counts([tally]))
    return _Survey(tally.totals, images)


def _identity(tally: Tally) -> Tally:
    return tally


def _reduce(store: TallyStore, bins: Bins, num_images: int, threads: int) -> Built:
    """Build the curves of all classes. A class is in one bin, or has no rows."""
    if not bins.totals.num_detections.any():
        return _assemble(bins.totals, num_images, [])
    built = store.reduce(bins, partial(_build_bin, bins=bins, num_images=num_images, threads=threads))
    return _assemble(bins.totals, num_images, built)


def _build_bin(number: int, rows: Tally, *, bins: Bins, num_images: int, threads: int) -> Built:
    """Build the curves of a bin, within the limit over the dataset."""
    is_here = bins.number == number
    rows = rows.limited()
    rows = rows.pooled() if bins.is_pooled else rows
    rows = replace(rows, classes=bins.totals.classes[is_here], class_names=None)
    return _build(rows, bins.totals.num_truths[is_here], num_images, threads)


def _build(rows: Tally, num_truths: Ints, num_images: int, threads: int) -> Built:
    extra = ExtraCounter(rows).measure_classes(num_truths[:, 0], num_images) if rows.protocol.extra_numbers else {}
    return Built(build_curves(rows, num_truths, threads), extra)


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
