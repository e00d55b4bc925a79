"""The native engine: columns to a tally, a tally to curves, in compiled code."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import boxscore._compiled as _compiled
from boxscore._support.lazy import Lazy
from boxscore.arrays import compact
from boxscore.data.dataset import Detections, Truths
from boxscore.data.row_buffer import RowBuffer
from boxscore.engines.native.columns import class_ids, compiled_columns
from boxscore.engines.native.rules import compiled_measures, rules_of
from boxscore.protocol.measures import Measure, measures, measures_at_thresholds
from boxscore.protocol.protocol import Protocol
from boxscore.result.curves import Averages, Curves, Floats, Ints
from boxscore.result.tally import HITS, ROWS, TRACE, TRUTHS, Tally, Totals, united_groups, united_names

_COLUMNS = (*ROWS, *HITS, "classes", *TRUTHS)
_WRITTEN = (*_COLUMNS, "similarity", *TRACE)


def match(detections: Detections, truths: Truths, protocol: Protocol, threads: int, is_traced: bool = False) -> Tally:
    """Match: the verdict of every detection. `is_traced`: add the columns of a traced tally."""
    columns = _compiled.match(
        *compiled_columns(detections, truths, protocol),
        class_ids(truths.names_by_label),
        rules_of(protocol),
        threads,
        is_traced,
    )
    return tally_of(columns, protocol, truths.names_by_label)


def tally_of(columns: _compiled.Tally, protocol: Protocol, class_names: Mapping[int, str] | None, **more: Any) -> Tally:
    """Convert the tally of compiled matching. `more`: fields that matching doesn't see."""
    written = {name: getattr(columns, name) for name in _WRITTEN}
    return Tally(protocol=protocol, class_names=class_names, **written, **more)


def match_buffer(buffer: RowBuffer, threads: int) -> Tally:
    """Match all rows of a buffer and clear it; after an error the rows are still there."""
    settings = buffer.settings
    invalid = buffer.compiled.invalid_images() if buffer.compiled.num_invalid else None
    columns = buffer.compiled.match(rules_of(settings.protocol), threads)
    tally = tally_of(columns, settings.protocol, settings.class_names, invalid_image=invalid)
    buffer.compiled.clear()
    return tally


class Evaluated(NamedTuple):
    """A tally and its totals, curves and means."""

    tally: Tally
    finished: "Finished"


def can_evaluate(protocol: Protocol) -> bool:
    """Whether matching and finishing can be one step: nothing has to be done with the tally in between."""
    return protocol.average != "micro" and protocol.limits_per != "dataset" and not protocol.extra_numbers


def evaluate(detections: Detections, truths: Truths, protocol: Protocol, threads: int) -> Evaluated:
    """Match and finish in one step, without checking and indexing the rows again: the same numbers.

    Only if `can_evaluate`. `make bench` measures it as `val2017` and the other sections from arrays.
    """
    groups = truths.class_groups if protocol.class_groups else None
    columns, done = _compiled.evaluate(
        *compiled_columns(detections, truths, protocol),
        class_ids(truths.names_by_label),
        rules_of(protocol),
        _compiled_numbers(_wanted(protocol), protocol, groups),
        threads,
    )
    unseen = {"class_groups": groups, "invalid_image": detections.invalid_image_ids}
    tally = tally_of(columns, protocol, truths.names_by_label, **unseen)
    return Evaluated(tally, _finished([tally], done, done.averages.numbers, threads))


class Finished(NamedTuple):
    """Totals, curves and means of a tally."""

    totals: Totals
    curves: Curves
    averages: Averages


def finish(parts: Sequence[Tally], threads: int) -> Finished:
    """Compute the numbers of one tally, or of several that can be finished together."""
    protocol = parts[0].protocol
    is_micro = protocol.average == "micro"
    done = _finish(parts, () if is_micro else _wanted(protocol), threads)
    numbers = done.averages.numbers
    if is_micro:
        numbers = _finish([part.pooled() for part in parts], _wanted(protocol), threads).averages.numbers
    return _finished(parts, done, numbers, threads)


def _finished(parts: Sequence[Tally], done: _compiled.Finished, numbers: Sequence[float], threads: int) -> Finished:
    samples = Lazy(lambda: done.build_curves(threads))
    curves = Curves(
        classes=done.classes,
        precision=Lazy(lambda: samples.value.precision),
        scores=Lazy(lambda: samples.value.scores),
        recall=done.recall,
        average_precision=Lazy(lambda: samples.value.average_precision),
        num_true=done.num_true,
        num_false=done.num_false,
    )
    protocol = parts[0].protocol
    totals = Totals(
        protocol=protocol,
        classes=done.classes,
        num_truths=done.num_truths,
        num_detections=done.num_detections,
        class_names=united_names(parts),
        class_groups=united_groups(parts),
        iou_dtype=min(part.iou_dtype for part in parts),
        num_invalid=sum(part.num_invalid for part in parts),
    )
    return Finished(totals, curves, _averages(protocol, numbers, done.averages, done.ap_at))


def average(totals: Totals, curves: Curves, pooled: Curves | None = None) -> Averages:
    """Compute the means of curves from any engine. `pooled`: curves of all classes as one, for micro averages."""
    protocol = totals.protocol
    averages = _average(totals, curves, _wanted(protocol))
    numbers = (averages if pooled is None else _average(totals.pooled(), pooled, _wanted(protocol))).numbers
    return _averages(protocol, numbers, averages, curves.average_precision[:, :, 0, -1])


def mean_average_precision(tally: Tally, threads: int) -> tuple[float, Floats]:
    """The first number of the protocol, and AP by threshold and class, in the first area range. Shape (T, K).

    Within the largest limit. Skips the rest of `finish`.
    """
    first = tuple(islice(measures(tally.protocol), 1))
    done = _finish([tally], first, threads)
    is_micro = tally.protocol.average == "micro"
    averages = _finish([tally.pooled()], first, threads).averages if is_micro else done.averages
    return averages.numbers[0], done.ap_at


def can_finish_together(parts: Sequence[Tally]) -> bool:
    """Whether tallies can be finished without merging: rows by image, from part to part, and scores of one dtype."""
    is_alike = len({part.score.dtype for part in parts}) == 1
    return is_alike and bool(_compiled.are_in_order([compact(part.image) for part in parts]))


def curves(tally: Tally, threads: int, recall_points: Floats | None = None) -> Curves:
    """Build the curves of every class, area range, limit and threshold, all at once.

    `recall_points`: replace the protocol's; ascending from 0 or more, and may exceed 1.
    """
    rules = rules_of(tally.protocol)
    if recall_points is not None:
        rules = rules_of.__wrapped__(tally.protocol)  # an uncached copy, which is changed below
        rules.recall_points = recall_points.tolist()
    return _curves(tally.classes, _compiled.build_curves(compiled_tally(tally), rules, threads))


def build_curves(tally: Tally, num_truths: Ints, threads: int) -> Curves:
    """Build the curves through the rows of `tally`. `num_truths`: by class and area range, (K, A)."""
    built = _compiled.build_curves(compiled_tally(tally), rules_of(tally.protocol), threads, compact(num_truths))
    return _curves(tally.classes, built)


def compiled_tally(tally: Tally) -> _compiled.Tally:
    """A tally as the compiled engine reads it."""
    return _compiled.Tally(**{name: compact(getattr(tally, name)) for name in _COLUMNS})


@lru_cache(maxsize=32)
def _wanted(protocol: Protocol) -> tuple[Measure, ...]:
    return (*measures(protocol), *measures_at_thresholds(protocol))


def _finish(parts: Sequence[Tally], wanted: Iterable[Measure], threads: int) -> _compiled.Finished:
    protocol = parts[0].protocol
    return _compiled.finish(
        [compiled_tally(part) for part in parts],
        rules_of(protocol),
        _compiled_numbers(wanted, protocol, united_groups(parts)),
        threads,
    )


def _compiled_numbers(
    wanted: Iterable[Measure], protocol: Protocol, class_groups: Mapping[int, str] | None
) -> _compiled.WantedNumbers:
    return _compiled.CompiledNumbers(compiled_measures(wanted, class_groups), protocol.average == "weighted")


def _average(totals: Totals, curves: Curves, wanted: Iterable[Measure]) -> _compiled.Averages:
    protocol = totals.protocol
    return _compiled.average_curves(
        precision=compact(curves.precision),
        recall=compact(curves.recall),
        average_precision=compact(curves.average_precision),
        num_truths=compact(totals.num_truths),
        classes=compact(totals.classes),
        rules=rules_of(protocol),
        measures=compiled_measures(wanted, totals.class_groups),
        is_weighted=protocol.average == "weighted",
    )


def _averages(protocol: Protocol, numbers: Sequence[float], averages: _compiled.Averages, ap_at: Floats) -> Averages:
    names = [measure.name for measure in measures(protocol)]
    return Averages(
        numbers=dict(zip(names, numbers, strict=False)),
        per_threshold=dict(zip(protocol.thresholds, numbers[len(names) :], strict=True)),
        ap=averages.ap,
        ap_at=ap_at,
        ar=averages.ar,
    )


def _curves(classes: Ints, built: _compiled.Curves) -> Curves:
    return Curves(
        classes=classes,
        precision=built.precision,
        scores=built.scores,
        recall=built.recall,
        average_precision=built.average_precision,
        num_true=built.num_true,
        num_false=built.num_false,
    )
