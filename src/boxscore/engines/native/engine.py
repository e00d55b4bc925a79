"""The native engine: columns to a tally, a tally to curves, in compiled code."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import boxscore._compiled as _compiled
from boxscore._support.arrays import compact
from boxscore.engines.native.columns import class_ids, compiled_detections, compiled_truths
from boxscore.engines.native.rules import rules_of
from boxscore.model.curves import Curves, Floats, Ints
from boxscore.model.dataset import Detections, Truths
from boxscore.model.protocol import Protocol
from boxscore.model.tally import HITS, ROWS, TRUTHS, Tally


def match(detections: Detections, truths: Truths, protocol: Protocol, threads: int) -> Tally:
    """The verdict of every detection."""
    columns = _compiled.match(
        compiled_detections(detections, truths, protocol),
        compiled_truths(truths, protocol),
        class_ids(truths.names_by_label),
        rules_of(protocol),
        threads,
    )
    return tally_of(columns, protocol, truths.names_by_label)


def tally_of(columns: Any, protocol: Protocol, class_names: Mapping[int, str] | None) -> Tally:
    """The tally whose columns compiled matching gives, as a `_compiled.Tally`."""
    names = (*ROWS, *HITS, "classes", *TRUTHS)
    return Tally(protocol=protocol, class_names=class_names, **{name: getattr(columns, name) for name in names})


def curves(tally: Tally, threads: int) -> Curves:
    """The curves of every class, area range, limit and threshold."""
    return draw(tally, tally.num_truths, threads)


class Start(NamedTuple):
    """Where curves begin that go on from detections of higher scores. Shape (T, K, A, M) each."""

    num_true: Ints
    """True positives before the first row."""
    num_counted: Ints
    """True and false positives before the first row."""
    total_true: Ints
    """True positives of all ranges; only the envelope needs to know."""
    sum: Floats
    """The state of the sum over true positives so far, for the AP rules that are one. Shape (T, K, A, M, SUM_STATE)."""
    beyond: Floats
    """The best precision after the last row, for the envelope."""


def draw(tally: Tally, num_truths: Ints, threads: int) -> Curves:
    """The curves through the rows of `tally`, for so many truths by class and area range, (K, A)."""
    return draw_parts([tally], tally.classes, num_truths, threads)


def draw_range(tally: Tally, num_truths: Ints, threads: int, start: Start) -> tuple[Curves, Floats]:
    """The curves through a range of scores, and the state of the sum over true positives at its end.

    Counts are those up to the end of the range; so is AP where it is a sum over true positives.
    """
    return _draw([tally], tally.classes, num_truths, threads, start)


def are_drawable(parts: Sequence[Tally]) -> bool:
    """Whether curves can be drawn through the rows of all parts as they stand: by image, from part to part."""
    is_alike = len({part.score.dtype for part in parts}) == 1
    return is_alike and bool(_compiled.are_in_order([compact(part.image) for part in parts]))


def draw_parts(parts: Sequence[Tally], classes: Ints, num_truths: Ints, threads: int) -> Curves:
    """The curves through the rows of all parts, which are drawable or one."""
    return _draw(parts, classes, num_truths, threads, None)[0]


def _draw(
    parts: Sequence[Tally], classes: Ints, num_truths: Ints, threads: int, start: Start | None
) -> tuple[Curves, Floats]:
    is_true, is_counted = (
        compact(columns[0] if len(columns) == 1 else np.concatenate(columns))
        for columns in ([getattr(part, name) for part in parts] for name in HITS)
    )
    precision, scores, recall, average_precision, num_true, num_false, sum_after = _compiled.draw_curves(
        rows=[tuple(compact(getattr(part, name)) for name in ROWS) for part in parts],
        is_true=is_true,
        is_counted=is_counted,
        classes=compact(classes),
        num_truths=compact(num_truths),
        rules=rules_of(parts[0].protocol),
        num_threads=threads,
        start=None if start is None else [compact(each) for each in start],
    )
    curves = Curves(
        classes=classes,
        precision=precision,
        scores=scores,
        recall=recall,
        average_precision=average_precision,
        num_true=num_true,
        num_false=num_false,
    )
    return curves, sum_after
