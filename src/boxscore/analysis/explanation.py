"""Explanation: the path from the number of one protocol to that of another, one rule at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads
from boxscore.analysis.known_tools import as_rules
from boxscore.analysis.pairing import Pairing, as_given, pair_rows
from boxscore.analysis.rule_reasons import (
    FALSE,
    IGNORED,
    LEFT_OUT,
    TRUE,
    RuleChange,
    VerdictChange,
    reason_of,
)
from boxscore.engines.native.pairs import BEYOND
from boxscore.model.dataset import Detections, Truths, host_ids
from boxscore.model.preparation import common_iou_type, kept_detections, prepare, shaped_by
from boxscore.model.protocol import Protocol
from boxscore.model.protocol_table import PROTOCOLS
from boxscore.model.rules_in_words import STEPS, FieldChange, changed_fields
from boxscore.model.summary import plain
from boxscore.pipeline import evaluate, protocol_for

NO_EFFECT = "No effect on this data."

_VERDICTS = (IGNORED, FALSE, TRUE, LEFT_OUT)
"""The verdicts in words, by their numbers."""

_LABELS = {
    "precision_epsilon": "epsilon",
    "dilation_ratio": "width of boundaries",
    "sigmas": "sigmas",
    "recall_at": "recall at",
    "class_groups": "groups",
}
"""What a field is called before its values, where neither these nor the name of the step say it."""

_ORDER = tuple(map(_VERDICTS.index, (TRUE, FALSE, IGNORED, LEFT_OUT)))
"""The numbers of verdicts in the order in which changes are listed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One rule that changes, and what this does."""

    name: str
    """Which rule: one of the names of `STEPS`."""
    fields: tuple[FieldChange, ...]
    """The fields of the protocol that change, with their values in words."""
    before: float
    """`map` before the step. NaN: there are no truths."""
    after: float
    """`map` after the step."""
    verdicts: tuple[VerdictChange, ...]
    """How many detections changed from one verdict to another, in the order of true positive, false positive, ignored,
    left out. Left out: beyond the limits, below the lowest score, or of a class that was not looked for."""
    reason: str
    """Why the number moves."""

    @property
    def difference(self) -> float:
        """What the step adds to the number."""
        return self.after - self.before

    @property
    def num_changed(self) -> int:
        """How many detections changed their verdict."""
        return sum(change.num for change in self.verdicts)

    @property
    def has_effect(self) -> bool:
        """Whether the number or any verdict changed."""
        is_equal = self.before == self.after or (self.before != self.before and self.after != self.after)
        return bool(self.verdicts) or not is_equal

    @property
    def what(self) -> str:
        """What changes, on one line."""
        changes = (f"{_LABELS.get(change.field, '')} {change}".strip() for change in self.fields)
        return f"{self.name}: {'; '.join(changes)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; undefined is None."""
        return {
            "name": self.name,
            "fields": [change._asdict() for change in self.fields],
            "before": plain(self.before),
            "after": plain(self.after),
            "difference": plain(self.difference),
            "has_effect": self.has_effect,
            "num_changed": self.num_changed,
            "verdicts": [change._asdict() for change in self.verdicts],
            "reason": self.reason,
        }


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
    """The rules that differ, in the order of `STEPS`, which is always the same."""
    num_detections: int
    """All detections, left out or not."""
    verdicts_at: str
    """The threshold at which verdicts are counted, in words; in the first area range and within the last limit."""

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
        """Plain values, ready for JSON; undefined is None."""
        return {
            "source": self.source,
            "target": self.target,
            "number": "map",
            "first": plain(self.first),
            "last": plain(self.last),
            "difference": plain(self.difference),
            "num_detections": self.num_detections,
            "verdicts_at": self.verdicts_at,
            "order": [step.name for step in STEPS],
            "steps": [step.to_dict() for step in self.steps],
        }

    @property
    def title(self) -> str:
        """The two protocols and their numbers."""
        ends = f"{self.source} {text.fraction(self.first)} -> {self.target} {text.fraction(self.last)}"
        return f"{ends}, one rule at a time"

    def __repr__(self) -> str:
        return f"Explanation({self.source} to {self.target}, {text.count(len(self.steps), 'step')})"

    def __str__(self) -> str:
        return "\n\n".join([self.title, *self._parts()])

    def _parts(self) -> Iterator[str]:
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
        yield (
            f"Verdicts are TP, FP, ignored or left out, of {text.count(self.num_detections, 'detection')}, at"
            f" {self.verdicts_at}.\nThe order of steps is fixed: {', '.join(step.name for step in STEPS)}."
        )


def explain(
    detections: Detections,
    truths: Truths,
    source: str | Protocol = "coco",
    target: str | Protocol = "ultralytics",
    *,
    threads: int | None = None,
) -> Explanation:
    """The path from the `map` of one protocol to that of another, one rule at a time.

    `source`, `target`: the name of a protocol or of a known tool ("torchmetrics", "detectron2-voc2007", …), or a
    `Protocol`. The order of rules is fixed: geometry, score cut-off, thresholds, match condition, matching rule, ties,
    ignored truths, groups, classes looked for, areas, limits, AP rule, averaging. Only rules that differ are steps. How
    much a step adds depends on the steps before it. Every protocol on the path must be possible with the data: one that
    needs image sizes or coverage is an `InputError` without them.

    >>> from boxscore import Detections, Truths
    >>> truths = Truths(image=[0, 0], label=[1, 1], box=[[0, 0, 10, 10], [20, 20, 30, 30]])
    >>> detections = Detections(image=[0], label=[1], score=[0.9], box=[[0, 0, 10, 10]])
    >>> explanation = explain(detections, truths, "voc2012", "voc2007")
    >>> [(step.name, round(step.before, 4), round(step.after, 4)) for step in explanation.steps]
    [('AP rule', 0.5, 0.5455)]
    """
    first, last = (rules_for(each, detections, truths) for each in (source, target))
    num = num_threads(threads)
    before = first.replace(extra_numbers=())
    number = evaluate(detections, truths, before, threads=threads)["map"]
    verdicts = verdicts_as_given(detections, truths, before, num)
    first_number, steps = number, []
    for name, fields, after in _path(before, last):
        new_number = evaluate(detections, truths, after, threads=threads)["map"]
        new_verdicts = verdicts_as_given(detections, truths, after, num)
        changes = RuleChange(before, after, fields, _changes(verdicts, new_verdicts))
        step = Step(
            name=name,
            fields=fields,
            before=number,
            after=new_number,
            verdicts=changes.verdicts,
            reason=reason_of(changes),
        )
        steps.append(step if step.has_effect else replace(step, reason=NO_EFFECT))
        before, number, verdicts = after, new_number, new_verdicts
    return Explanation(
        source=first.title,
        target=last.title,
        first=first_number,
        last=number,
        steps=tuple(steps),
        num_detections=len(detections),
        verdicts_at=", then ".join(dict.fromkeys(map(_cell, (first, last)))),
    )


def rules_for(rules: str | Protocol, detections: Detections, truths: Truths) -> Protocol:
    """The rules of a protocol or a tool, for the shapes that both sides have where a name is given."""
    if not isinstance(detections, Detections):
        raise InputError(f"`detections` must be boxscore.Detections; got {type(detections).__name__}")
    if not isinstance(truths, Truths):
        raise InputError(f"`truths` must be boxscore.Truths; got {type(truths).__name__}")
    known = as_rules(rules)
    if not isinstance(rules, str) or known.iou_type != "bbox":
        return known
    if rules in PROTOCOLS:
        return protocol_for(rules, detections, truths)
    return known.replace(iou_type=common_iou_type(detections, truths) or known.iou_type)


def _path(first: Protocol, last: Protocol) -> Iterator[tuple[str, tuple[FieldChange, ...], Protocol]]:
    """The steps: their names, the fields that change, and the protocols after them, which are named after the last."""
    current = first
    for step in STEPS:
        if fields := changed_fields(current, last, step.fields):
            current = current.replace(name=last.name, **{name: getattr(last, name) for name in step.fields})
            yield step.name, fields, current


def verdicts_as_given(detections: Detections, truths: Truths, protocol: Protocol, threads: int) -> NDArray[np.uint8]:
    """The verdict of each detection, in the order of its rows; 3: left out. Shape (D,).

    At 0.50, or the first threshold where there is no 0.50, in the first area range, within the last limit.
    """
    protocol = protocol.at()
    is_kept = kept_detections(shaped_by(detections, protocol.iou_type), protocol)
    verdicts = np.full(len(detections), BEYOND, np.uint8)
    pairing = pair_rows(*prepare(detections, truths, protocol), protocol, threads)
    kept_verdicts = np.where(_is_within_dataset(pairing), pairing.pairs.verdict, np.uint8(BEYOND))
    verdicts[slice(None) if is_kept is None else is_kept] = as_given(kept_verdicts, pairing.detection_row)
    return verdicts


def _is_within_dataset(pairing: Pairing) -> NDArray[np.bool_]:
    """Whether a detection is within the limit of its class over all images, if there is one. Shape (D,)."""
    limit = pairing.protocol.limits[-1]
    if pairing.protocol.limits_per != "dataset" or limit is None:
        return np.ones(len(pairing.detections), bool)
    rows = np.flatnonzero(pairing.pairs.verdict != BEYOND)
    label, image = pairing.label[rows], host_ids(pairing.detections.image)[rows]
    order = np.lexsort((rows, image, -pairing.score[rows], label))
    rank = np.arange(rows.size) - np.searchsorted(label[order], label[order])
    is_within = np.zeros(len(pairing.detections), bool)
    is_within[rows[order[rank < limit]]] = True
    return is_within


def _changes(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> tuple[VerdictChange, ...]:
    """How many detections changed from each verdict to each other one."""
    counts = np.bincount(before * len(_VERDICTS) + after, minlength=len(_VERDICTS) ** 2).reshape(len(_VERDICTS), -1)
    return tuple(
        VerdictChange(_VERDICTS[old], _VERDICTS[new], int(counts[old, new]))
        for old, new in product(_ORDER, _ORDER)
        if old != new and counts[old, new]
    )


def _cell(protocol: Protocol) -> str:
    """The threshold and the area range of verdicts."""
    only = protocol.at()
    return f"{protocol.similarity} {text.threshold(only.thresholds[0])} in area range {only.areas[0].name}"


def _signed(difference: float) -> str:
    """A difference with four digits, or with one that is not 0, or a dash for NaN."""
    if difference != difference:
        return "-"
    return f"{difference:+.0e}" if 0 < abs(difference) < 0.00005 else f"{difference:+.4f}"
