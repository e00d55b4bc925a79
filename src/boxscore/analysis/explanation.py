"""Explanation: the path from the `map` of one protocol to the `map` of another, one rule at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads
from boxscore.analysis.known_tools import TOOLS, as_rules, rules_of_shapes, with_sigmas_of
from boxscore.analysis.pairing import BEYOND
from boxscore.analysis.rule_reasons import (
    FALSE,
    IGNORED,
    LEFT_OUT,
    TRUE,
    RuleChange,
    VerdictChange,
    reason_of,
)
from boxscore.data.dataset import Detections, Truths
from boxscore.data.preparation import common_iou_type
from boxscore.pipeline import finish, match
from boxscore.protocol.protocol import Protocol
from boxscore.protocol.words import FieldChange, changed_fields, ordered_steps
from boxscore.result.summary import number_or_none
from boxscore.result.tally import Tally

NO_EFFECT = "No effect on this data."

_VERDICTS = (IGNORED, FALSE, TRUE, LEFT_OUT)
"""The verdicts in words, by their numbers."""

_ORDER = tuple(map(_VERDICTS.index, (TRUE, FALSE, IGNORED, LEFT_OUT)))
"""The numbers of verdicts in the order in which changes are listed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One rule that changes, and the effect on numbers and verdicts."""

    name: str
    """The rule: one of the names of `STEPS`."""
    fields: tuple[FieldChange, ...]
    """The fields of the protocol that change, with their values in words."""
    before: float
    """`map` before the step. NaN: no truths."""
    after: float
    """`map` after the step."""
    num_changed: int
    """Number of detections whose verdict changes at any threshold that both protocols of the step have."""
    verdicts: tuple[VerdictChange, ...]
    """Number of detections per change of verdict at `Explanation.verdicts_at`, in the order of true positive, false
    positive, ignored, left out. Left out: beyond the limits, below the lowest score, or of a class that was not
    verified in the image.
    """
    reason: str
    """Why the number moves."""

    @property
    def difference(self) -> float:
        """The change of the number."""
        return self.after - self.before

    @property
    def has_effect(self) -> bool:
        """Whether the number or any verdict changed."""
        is_equal = self.before == self.after or (self.before != self.before and self.after != self.after)
        return bool(self.num_changed) or not is_equal

    @property
    def what(self) -> str:
        """The rule and the fields that change, on one line."""
        return f"{self.name}: {'; '.join(map(str, self.fields))}"

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON; undefined is None."""
        return {
            "name": self.name,
            "fields": [{**change._asdict(), "label": change.label} for change in self.fields],
            "before": number_or_none(self.before),
            "after": number_or_none(self.after),
            "difference": number_or_none(self.difference),
            "has_effect": self.has_effect,
            "num_changed": self.num_changed,
            "verdicts": [change._asdict() for change in self.verdicts],
            "reason": self.reason,
        }


class Note(NamedTuple):
    """Behaviour of a tool that no protocol can express, or values that its rules were completed with."""

    name: str
    """The tool or the protocol."""
    text: str


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Explanation:
    """The path from one number to another. `print` shows a table, and why each step moves the number."""

    source: str
    """The title of the first protocol."""
    target: str
    """The title of the last protocol."""
    first: float
    """`map` under the first protocol."""
    last: float
    """`map` under the last protocol."""
    steps: tuple[Step, ...]
    """The rules that differ, in the order of the path."""
    order: tuple[str, ...]
    """The names of all rules, in the order of the path, which is fixed: see `protocol.words.ordered_steps`."""
    num_detections: int
    """Number of detections, including detections that are left out."""
    verdicts_at: str
    """The threshold of `Step.verdicts`, in words; in the first area range and within the last limit."""
    notes: tuple[Note, ...] = ()
    """Notes on the tools at both ends."""

    @property
    def difference(self) -> float:
        """The last number minus the first."""
        return self.last - self.first

    def waterfall(self) -> list[tuple[str, float, float]]:
        """The bars of a waterfall chart: label, start and end. The first and the last bar start at 0.

        Between them is one bar per step that has an effect.
        """
        bars = [(step.name, step.before, step.after) for step in self.steps if step.has_effect]
        return [(self.source, 0.0, self.first), *bars, (self.target, 0.0, self.last)]

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON; undefined is None."""
        return {
            "source": self.source,
            "target": self.target,
            "number": "map",
            "first": number_or_none(self.first),
            "last": number_or_none(self.last),
            "difference": number_or_none(self.difference),
            "num_detections": self.num_detections,
            "verdicts_at": self.verdicts_at,
            "counting": self.counting,
            "order": list(self.order),
            "steps": [step.to_dict() for step in self.steps],
            "notes": [note._asdict() for note in self.notes],
        }

    @property
    def title(self) -> str:
        """The two protocols and their numbers."""
        ends = f"{self.source} {text.fraction(self.first)} -> {self.target} {text.fraction(self.last)}"
        return f"{ends}, one rule at a time"

    def __repr__(self) -> str:
        return f"Explanation({self.source} to {self.target}, {text.count(len(self.steps), 'step')})"

    def __str__(self) -> str:
        notes = "\n".join(text.line(f"{name}: {words}") for name, words in self.notes)
        return "\n\n".join(filter(None, [self.title, *self._path(), notes, *self._footer()]))

    def _path(self) -> Iterator[str]:
        if not self.steps:
            yield "The rules are the same."
            return
        shown = [step for step in self.steps if step.has_effect]
        rows = [
            [self.source, text.fraction(self.first), "", ""],
            *(
                [step.name, text.fraction(step.after), _signed(step.difference), f"{step.num_changed:,}"]
                for step in shown
            ),
            [self.target, text.fraction(self.last), _signed(self.difference), ""],
        ]
        yield text.table(rows, align="<>>>", header=["step", "map", "difference", "verdicts changed"])
        if shown:
            yield "\n".join(f"{text.line(step.what)}\n  {text.line(step.reason)}" for step in shown)
        if idle := [step.name for step in self.steps if not step.has_effect]:
            yield f"No effect on this data: {', '.join(idle)}."

    def _footer(self) -> Iterator[str]:
        if self.steps:
            yield f"{self.counting}\nThe order of steps is fixed: {', '.join(self.order)}."

    @property
    def counting(self) -> str:
        """A sentence on how changed verdicts are counted."""
        return (
            f"A verdict is TP, FP, ignored or left out. Of {text.count(self.num_detections, 'detection')}, those are"
            " counted whose verdict changes at any threshold that a step keeps; reasons count at"
            f" {self.verdicts_at}."
        )


def explain(
    detections: Detections,
    truths: Truths,
    source: str | Protocol = "coco",
    target: str | Protocol = "ultralytics",
    *,
    threads: int | None = None,
) -> Explanation:
    """Explain the difference between the `map` of two protocols, one rule at a time.

    The order of rules is fixed: geometry, score cut-off, thresholds, ignored truths, groups, verified classes, match
    condition, matching rule, ties, areas, limits, AP rule, averaging. Exception: if ignored truths become crowds, that
    step comes after ties. Only rules that differ are steps. The effect of a step depends on the steps before it. If one
    of the protocols lacks the sigmas of OKS, it gets the sigmas of the other.

    Args:
        detections: Detections.
        truths: Truths.
        source: The first protocol: a `Protocol`, or the name of a protocol or of a known tool ("torchmetrics",
            "detectron2-voc2007", …).
        target: The last protocol, as `source`.
        threads: Number of threads; default: BOXSCORE_THREADS, else this process's share of the cores.

    Raises:
        InputError: A protocol on the path needs image sizes or coverage that the data lacks.

    >>> from boxscore import Detections, Truths
    >>> truths = Truths(image_ids=[0, 0], labels=[1, 1], boxes=[[0, 0, 10, 10], [20, 20, 30, 30]])
    >>> detections = Detections(image_ids=[0], labels=[1], scores=[0.9], boxes=[[0, 0, 10, 10]])
    >>> explanation = explain(detections, truths, "voc2012", "voc2007")
    >>> [(step.name, round(step.before, 4), round(step.after, 4)) for step in explanation.steps]
    [('AP rule', 0.5, 0.5455)]
    """
    named = [rules_for(each, detections, truths) for each in (source, target)]
    first, last = (with_sigmas_of(rules, other) for rules, other in (named, named[::-1]))
    num = num_threads(threads)
    before = first.replace(extra_numbers=())
    state = _State.of(detections, truths, before, num)
    first_number, cells, steps = state.number, [], []
    for name, fields, after in _path(before, last):
        new = _State.of(detections, truths, after, num)
        shared, main = _shared_thresholds(before, after)
        is_changed = np.zeros(len(detections), bool)
        for i, j in shared:
            is_changed |= state.verdict[i] != new.verdict[j]
        verdicts = _changes(state.verdict[main[0]], new.verdict[main[1]])
        threshold = after.thresholds[main[1]]
        change = RuleChange(before, after, fields, verdicts, int(is_changed.sum()), threshold)
        step = Step(
            name=name,
            fields=fields,
            before=state.number,
            after=new.number,
            num_changed=change.num_changed,
            verdicts=verdicts,
            reason=reason_of(change),
        )
        steps.append(step if step.has_effect else replace(step, reason=NO_EFFECT))
        cells += [_cell(before, main[0]), _cell(after, main[1])]
        before, state = after, new
    return Explanation(
        source=named[0].title,
        target=named[1].title,
        first=first_number,
        last=state.number,
        steps=tuple(steps),
        order=tuple(step.name for step in ordered_steps(first, last)),
        num_detections=len(detections),
        verdicts_at=", then ".join(dict.fromkeys(cells or [_cell(first, first.threshold_index())])),
        notes=tuple(_notes(named, (first, last))),
    )


def rules_for(rules: str | Protocol, detections: Detections, truths: Truths) -> Protocol:
    """The rules of a protocol or a tool; a name gets its rules for the shapes that both sides have."""
    if not isinstance(detections, Detections):
        raise InputError(f"`detections` must be boxscore.Detections; got {type(detections).__name__}")
    if not isinstance(truths, Truths):
        raise InputError(f"`truths` must be boxscore.Truths; got {type(truths).__name__}")
    known = as_rules(rules)
    if not isinstance(rules, str) or known.iou_type != "bbox":
        return known
    return rules_of_shapes(rules, common_iou_type(detections, truths) or known.iou_type)


def _notes(named: Sequence[Protocol], used: Sequence[Protocol]) -> Iterator[Note]:
    """Notes on the tools, and on sigmas that a protocol got from the other."""
    for name in dict.fromkeys(rules.name for rules in named):
        if name in TOOLS:
            yield Note(name, TOOLS[name].note)
    for rules, other, completed in zip(named, named[::-1], used, strict=True):
        if completed != rules:
            yield Note(rules.name, f"It has no sigmas here, so it gets the sigmas of {other.name}.")


def _path(first: Protocol, last: Protocol) -> Iterator[tuple[str, tuple[FieldChange, ...], Protocol]]:
    """Yield the steps: name, changed fields, and the protocol after the step, which has the name of the last one."""
    current = first
    for step in ordered_steps(first, last):
        if fields := changed_fields(current, last, step.fields):
            current = current.replace(name=last.name, **{name: getattr(last, name) for name in step.fields})
            yield step.name, fields, current


class _State(NamedTuple):
    """A number on the path, and its verdicts."""

    number: float
    verdict: NDArray[np.uint8]
    """By threshold and row. Shape (T, D)."""

    @classmethod
    def of(cls, detections: Detections, truths: Truths, protocol: Protocol, threads: int) -> "_State":
        """Evaluate under a protocol."""
        tally = match(detections, truths, protocol, threads=threads, trace=True)
        return cls(finish(tally, threads=threads)["map"], verdicts_as_given(tally, len(detections)))


def verdicts_as_given(tally: Tally, num: int) -> NDArray[np.uint8]:
    """The verdict of each of `num` detections at each threshold, in their order; 3: left out. Shape (T, D).

    In the first area range, within the last limit. `tally` must be traced.
    """
    tally = tally.limited()
    verdict = np.full((len(tally.protocol.thresholds), num), BEYOND, np.uint8)
    for t, at_threshold in enumerate(verdict):
        at_threshold[tally.row] = tally.verdict_at(t)
    return verdict


def _shared_thresholds(before: Protocol, after: Protocol) -> tuple[list[tuple[int, int]], tuple[int, int]]:
    """The index pairs of thresholds that are equal to 1e-6, and the pair at which verdict changes are listed.

    The listed pair is at 0.50, or at the first threshold of both. Without shared thresholds, the verdicts at 0.50, or
    the first threshold, of each protocol are compared.
    """
    shared = [
        (i, j)
        for i, one in enumerate(before.thresholds)
        for j, other in enumerate(after.thresholds)
        if abs(one - other) < 1e-6
    ]
    own = before.threshold_index(), after.threshold_index()
    if not shared:
        return [own], own
    return shared, own if own in shared else shared[0]


def _changes(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> tuple[VerdictChange, ...]:
    """Number of detections per change from one verdict to another."""
    counts = np.bincount(before * len(_VERDICTS) + after, minlength=len(_VERDICTS) ** 2).reshape(len(_VERDICTS), -1)
    return tuple(
        VerdictChange(_VERDICTS[old], _VERDICTS[new], int(counts[old, new]))
        for old, new in product(_ORDER, _ORDER)
        if old != new and counts[old, new]
    )


def _cell(protocol: Protocol, threshold: int) -> str:
    """A threshold, by its index, and the first area range, as text."""
    value = text.threshold(protocol.thresholds[threshold])
    return f"{protocol.similarity} {value} in area range {protocol.areas[0].name}"


def _signed(difference: float) -> str:
    """A difference with four decimals; with one significant digit if it would round to 0; a dash for NaN."""
    if difference != difference:
        return "-"
    return f"{difference:+.0e}" if 0 < abs(difference) < 0.00005 else f"{difference:+.4f}"
