"""Claims: find the tool and the settings that give a claimed number."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore.analysis.claim_settings import LIMITS, SETTINGS, Labels, Setting, has_ignored, images_with, labelled
from boxscore.analysis.explanation import rules_for
from boxscore.analysis.known_tools import TOOLS, as_rules
from boxscore.data.dataset import Detections, Truths
from boxscore.pipeline import evaluate_columns, finish, match
from boxscore.protocol.protocol import Protocol
from boxscore.protocol.table import PROTOCOLS
from boxscore.result.tally import Tally

MAIN_NUMBERS = ("map", "map_50", "map_75")
"""The numbers that are called mAP. They are searched with settings, all others only without."""

MAIN_RULES = ("coco", "ultralytics", "voc2012", "voc2007")
"""Rules that are also searched with two settings at once."""


MOST_SHOWN = 20
"""Number of matches in the printed table."""

SURE_DIGITS = 6
"""With at least this number of digits, a match among a few thousand numbers is hardly chance."""

Progress = Callable[[int, int], None]
"""Called before each matching, with the number of finished matchings and the largest possible total."""


class Claim(NamedTuple):
    """A number as it was claimed, and the numbers that round to it: low <= number < high, as fractions."""

    text: str
    value: float
    low: float
    high: float

    def holds(self, number: float) -> bool:
        """Whether a number rounds to the claim."""
        return self.low <= number < self.high

    @property
    def num_digits(self) -> int:
        """Number of decimal places of the claim as a fraction."""
        return round(-math.log10(self.high - self.low))


def read_claim(claim: str | float) -> Claim:
    """Parse a claim with the digits that it was given with: a fraction, or percent if it is above 1 or ends in %.

    >>> read_claim("0.531")
    Claim(text='0.531', value=0.531, low=0.5305, high=0.5315)
    >>> read_claim("53.10 %")[1:]
    (0.531, 0.53095, 0.53105)
    """
    words = str(claim).strip()
    rule = f"must be a number from 0 to 1, such as 0.531, or in percent, such as 53.1; got {claim!r}"
    try:
        value = Decimal(words.removesuffix("%").strip())
    except InvalidOperation:
        raise InputError(rule, argument="claim") from None
    if isinstance(claim, bool) or not value.is_finite():
        raise InputError(rule, argument="claim")
    exponent = int(value.as_tuple().exponent)
    is_percent = words.endswith("%") or value > 1
    if not is_percent and exponent >= 0:
        rule = f"must have digits behind the point, so that it says something; got {claim!r}"
        raise InputError(rule, argument="claim")
    scale, half = Decimal(100 if is_percent else 1), Decimal(5).scaleb(exponent - 1)
    if not 0 <= value <= scale:
        raise InputError(rule, argument="claim")
    return Claim(words, *(float(each / scale) for each in (value, value - half, value + half)))


class Rules(NamedTuple):
    """Rules that several tools and protocols may share."""

    names: tuple[str, ...]
    protocol: Protocol


class Reproduction(NamedTuple):
    """A number, and the rules and settings that give it."""

    number: str
    """The name of the number: `map`, `map_50`, …"""
    value: float
    names: tuple[str, ...]
    """The tools and protocols whose rules give the number."""
    settings: tuple[Setting, ...] = ()

    @property
    def how(self) -> str:
        """The rules and the settings, in words."""
        return ", ".join([self.names[0], *(setting.name for setting in self.settings)])

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "number": self.number,
            "value": self.value,
            "rules": list(self.names),
            "settings": [{"name": setting.name, "reason": setting.reason} for setting in self.settings],
        }


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ClaimExplanation:
    """The rules and settings that reproduce a claimed number. `print` shows a table."""

    claim: Claim
    matches: tuple[Reproduction, ...]
    """Reproductions of the claim, the simplest first: few settings, `map` before other numbers."""
    nearest: tuple[Reproduction, ...]
    """If nothing matches: the nearest numbers without settings, with one, and with two."""
    num_tried: int
    """Number of combinations of rules and settings that were tried."""
    num_unknown: int = 0
    """Number of detections whose labels are not among the classes of the truths. They count only where a setting maps
    their labels to classes.
    """
    num_detections: int = 0

    @property
    def may_be_chance(self) -> bool:
        """Whether all matches may be chance: few digits, and only with settings or by a number other than `map`."""
        is_own_map = any(each.number == "map" and not each.settings for each in self.matches)
        return bool(self.matches) and not is_own_map and self.claim.num_digits < SURE_DIGITS

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "claim": self.claim.text,
            "low": self.claim.low,
            "high": self.claim.high,
            "is_reproduced": bool(self.matches),
            "may_be_chance": self.may_be_chance,
            "num_tried": self.num_tried,
            "num_detections": self.num_detections,
            "num_unknown": self.num_unknown,
            "matches": [match.to_dict() for match in self.matches],
            "nearest": [match.to_dict() for match in self.nearest],
        }

    def __repr__(self) -> str:
        return f"ClaimExplanation({self.claim.text}, {text.count(len(self.matches), 'match', 'matches')})"

    def __str__(self) -> str:
        tried = f"of {text.count(self.num_tried, 'combination')} of rules and settings"
        claim = f"{self.claim.text} (at least {self.claim.low:.6g} and below {self.claim.high:.6g})"
        if self.matches:
            verb = "gives" if len(self.matches) == 1 else "give"
            title = f"{text.count(len(self.matches), 'number')} {tried} {verb} {claim}"
        else:
            title = f"No number {tried} gives {claim}"
        if not (self.matches or self.nearest):
            return "\n\n".join(filter(None, [title, self._unknown]))
        shown = self.matches[:MOST_SHOWN] or self.nearest
        rows = [
            [each.number, f"{each.value:.6f}", ", ".join(s.name for s in each.settings) or "-", ", ".join(each.names)]
            for each in shown
        ]
        table = text.table(rows, align="<><<", header=["number", "value", "settings", "rules"])
        reasons = dict.fromkeys(f"{s.name}: {s.reason}" for each in shown for s in each.settings)
        more = len(self.matches) - MOST_SHOWN
        nearest = "" if self.matches else "The nearest without settings, with one and with two:"
        rest = f"and {more:,} more" if more > 0 else ""
        parts = [title, nearest, table, rest, "\n".join(reasons), self._chance, self._unknown]
        return "\n\n".join(filter(None, parts))

    @property
    def _chance(self) -> str:
        if not self.may_be_chance:
            return ""
        num, digits = self.claim.num_digits, ("no", "one", "two", "three", "four", "five")
        tried = text.count(self.num_tried, "combination was", "combinations were")
        noun = "digit" if num == 1 else "digits"
        return f"{tried} tried, so a match of {digits[max(num, 0)]} {noun} may be chance: more digits tell more."

    @property
    def _unknown(self) -> str:
        if not self.num_unknown:
            return ""
        having = f"{self.num_unknown:,} of {text.count(self.num_detections, 'detection')}"
        rule = "these count only where a setting changes labels"
        return f"{having} have labels that are not among the classes of the truths; {rule}."


def explain_claim(
    detections: Detections,
    truths: Truths,
    claim: str | float,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> ClaimExplanation:
    """Find the known tools and settings that give a claimed number, to the digits that it was claimed with.

    The search first tries every tool and protocol that the data allows, with all of its numbers; then each with one of
    `SETTINGS`, for the numbers that are called mAP; then the main rules with two settings. It ends after the first of
    these rounds in which one of the mAP numbers matches. With few digits, some numbers match by chance.

    Args:
        detections: Detections. A label that is not in `Truths.class_names` drops the detection, as file readers do,
            unless a setting changes labels.
        truths: Truths.
        claim: The number: 0.531, or 53.1 for percent. As text, "0.530" has three digits.
        threads: Number of threads; default: BOXSCORE_THREADS, else this process's share of the cores.
        progress: Called before each matching, with the number of finished matchings and the largest possible total.

    >>> from boxscore import Detections, Truths
    >>> truths = Truths(image_ids=[0, 0], labels=[1, 1], boxes=[[0, 0, 10, 10], [20, 20, 30, 30]])
    >>> detections = Detections(image_ids=[0], labels=[1], scores=[0.9], boxes=[[0, 0, 10, 10]])
    >>> explain_claim(detections, truths, "0.545").matches[0].how
    'voc2007'
    """
    wanted = read_claim(claim)
    every = distinct_rules(detections, truths)
    search = _Search(detections, truths, threads)
    steps = _Steps(search, every, progress)
    found, possible = _tools_alone(search, every, steps)
    for with_settings in (_with_one, _with_two):
        if any(wanted.holds(each.value) for each in found if each.number in MAIN_NUMBERS):
            break
        found += search.numbers_of(list(with_settings(possible, search.settings)), steps)
    order = sorted(found, key=lambda each: (each.number not in MAIN_NUMBERS, len(each.settings), _rank(each.number)))
    return ClaimExplanation(
        claim=wanted,
        matches=(matches := tuple(each for each in order if wanted.holds(each.value))),
        nearest=() if matches else tuple(_nearest(wanted, order)),
        num_tried=len({(each.names, each.settings) for each in found}),
        num_unknown=len(detections) - len(search.labelled(())),
        num_detections=len(detections),
    )


class _Steps:
    """Reports each matching before it begins."""

    def __init__(self, search: "_Search", every: Sequence[Rules], progress: Progress | None) -> None:
        self._num_done, self._progress, self._num = 0, progress, 0
        if progress is not None:
            levels = (list(with_settings(every, search.settings)) for with_settings in (_with_one, _with_two))
            self._num = len(every) + sum(len(search.matchings(variants)) for variants in levels)

    def begin(self) -> None:
        """Report that the next matching begins."""
        if self._progress is not None:
            self._progress(self._num_done, self._num)
        self._num_done += 1


def _nearest(claim: Claim, found: Sequence[Reproduction]) -> Iterator[Reproduction]:
    """The nearest of the numbers that are called mAP: one without settings, one with one setting, one with two."""
    for num in range(3):
        level = [each for each in found if len(each.settings) == num and each.number in MAIN_NUMBERS]
        defined = [each for each in level if not math.isnan(each.value)]
        yield from sorted(defined, key=lambda each: abs(each.value - claim.value))[:1]


def distinct_rules(detections: Detections, truths: Truths) -> list[Rules]:
    """The distinct rules of all tools and protocols for the shapes of the data, the main rules first."""
    by_rules: dict[Protocol, Rules] = {}
    for name in dict.fromkeys((*MAIN_RULES, *PROTOCOLS, *TOOLS)):
        protocol = rules_for(name, detections, truths)
        if not all(geometry.suits(protocol) for geometry in truths.geometries):
            continue
        key = protocol.replace(name="", extra_numbers=())
        names, known = by_rules.get(key, Rules((), protocol))
        extra = tuple(dict.fromkeys((*known.extra_numbers, *protocol.extra_numbers)))
        by_rules[key] = Rules((*names, name), known.replace(extra_numbers=extra))
    return list(by_rules.values())


def _tools_alone(search: "_Search", every: Sequence[Rules], steps: _Steps) -> tuple[list[Reproduction], list[Rules]]:
    """All numbers of the rules that the data allows, and these rules. Raise the first error if it allows none."""
    found: list[Reproduction] = []
    possible = []
    error: InputError | None = None
    for rules in every:
        steps.begin()
        try:
            result = evaluate_columns(search.labelled(()), search.truths, rules.protocol, threads=search.threads)
        except InputError as reason:
            error = error or reason
            continue
        possible.append(rules)
        for number, value in result.items():
            names = rules.names
            if number in rules.protocol.extra_names:
                names = tuple(name for name in names if number in as_rules(name).extra_names)
            found.append(Reproduction(number, value, names))
    if error is not None and not possible:
        raise error
    return found, possible


class Variant(NamedTuple):
    """Rules with settings."""

    rules: Rules
    settings: tuple[Setting, ...]


def _with_one(every: Sequence[Rules], settings: Sequence[Setting]) -> Iterator[Variant]:
    return (Variant(rules, (setting,)) for rules in every for setting in settings)


def _with_two(every: Sequence[Rules], settings: Sequence[Setting]) -> Iterator[Variant]:
    """The main rules with two settings of different kinds."""
    for rules in every:
        if set(rules.names) & set(MAIN_RULES):
            for pair in combinations(settings, 2):
                if pair[0].kind != pair[1].kind:
                    yield Variant(rules, pair)


class _Member(NamedTuple):
    """A variant: its row in the list of variants, its protocol and its settings."""

    row: int
    protocol: Protocol
    settings: tuple[Setting, ...]


class _Search:
    """Evaluates many variants of one dataset, and matches once for each distinct matching rule.

    A detection's verdict depends only on detections with higher scores. So a tally without score cut-off and limits
    contains the verdicts for every cut-off and limit: select the rows within them. Rules that differ only in the AP
    rule or in averaging share a matching, too.
    """

    def __init__(self, detections: Detections, truths: Truths, threads: int | None) -> None:
        self.truths, self.threads = truths, threads
        self._detections, self._labels = detections, Labels(detections, truths)
        self._by_labels: dict[bytes | None, Detections] = {}
        self.settings = list(self._possible_settings())
        has_others = any(setting.changes_labels for setting in self.settings)
        if len(detections) and not len(self.labelled(())) and not has_others:
            labels, classes = (_some(each) for each in (self._labels.own.tolist(), sorted(truths.names_by_label or ())))
            raise InputError(
                f"no label of the detections ({labels}) is a class of the truths ({classes}), nor are they off by one"
                " or positions in the list of classes"
            )

    def _possible_settings(self) -> Iterator[Setting]:
        """The settings that can have an effect here; of settings that map labels to the same classes, the first."""
        seen = {self._key(())}
        for setting in SETTINGS:
            if setting.changes_labels:
                key = self._key((setting,))
                if key not in seen and len(self.labelled((setting,))):
                    yield setting
                seen.add(key)
            elif setting.kind != "ignored truths" or has_ignored(self.truths):
                yield setting

    def _key(self, settings: Sequence[Setting]) -> bytes | None:
        """Key of the classes that the settings map the labels to; None: the labels don't change."""
        classes = self._labels.under(settings)
        return None if classes is None or np.array_equal(classes, self._labels.own) else classes.tobytes()

    def labelled(self, settings: Sequence[Setting]) -> Detections:
        """The detections with the labels that the settings give them; cached."""
        key = self._key(settings)
        if key not in self._by_labels:
            self._by_labels[key] = labelled(self._detections, self.truths, settings)
        return self._by_labels[key]

    def matchings(self, variants: Sequence[Variant]) -> "dict[tuple[Protocol, bytes | None], list[_Member]]":
        """The possible variants, grouped by matching rule and by the classes of their labels."""
        members: dict[tuple[Protocol, bytes | None], list[_Member]] = {}
        for i, (rules, settings) in enumerate(variants):
            protocol = _changed(rules.protocol, settings)
            # Coverage is by class, and class-agnostic rules have no classes.
            if protocol is not None and not (protocol.federated and protocol.class_agnostic):
                key = _matching(protocol), self._key(settings)
                members.setdefault(key, []).append(_Member(i, protocol, settings))
        return members

    def numbers_of(self, variants: Sequence[Variant], steps: _Steps | None = None) -> list[Reproduction]:
        """The main numbers of the possible variants, in their order."""
        results: dict[int, Mapping[str, float]] = {}
        for (matching, _), members in self.matchings(variants).items():
            if steps is not None:
                steps.begin()
            detections = self.labelled(members[0].settings)
            tally = match(detections, self.truths, matching, threads=self.threads)
            for i, protocol, settings in members:
                results[i] = self._finish(tally, detections, protocol, settings)
        return [
            Reproduction(number, results[i][number], variant.rules.names, variant.settings)
            for i, variant in enumerate(variants)
            if i in results
            for number in MAIN_NUMBERS
            if number in results[i]
        ]

    def _finish(
        self, tally: Tally, detections: Detections, protocol: Protocol, settings: Sequence[Setting]
    ) -> Mapping[str, float]:
        """The numbers of a protocol, from a tally without score cut-off and limits."""
        is_kept = np.ones(len(tally), bool)
        if protocol.min_score is not None:
            is_kept &= tally.score >= protocol.min_score
        if protocol.limits_per != "dataset":
            is_kept &= tally.tier <= tally.protocol.limits.index(protocol.limits[-1])
        rows = tally if is_kept.all() else tally.in_order(np.flatnonzero(is_kept))
        rows = replace(rows, protocol=protocol, tier=np.zeros_like(rows.tier))
        if any(setting.drops_images for setting in settings):
            rows = rows.within(images_with(detections, protocol.min_score))
        return finish(rows, threads=self.threads)


def _changed(protocol: Protocol, settings: Sequence[Setting]) -> Protocol | None:
    """The protocol with the settings, for the main numbers only; None if a setting has no effect or is invalid here."""
    protocol = protocol.replace(
        areas=protocol.areas[:1], limits=protocol.limits[-1:], recall_at=(), class_groups=(), extra_numbers=()
    )
    for setting in settings:
        try:
            changed = protocol.replace(**setting.changes)
        except InputError:
            return None  # no limit over the dataset
        if setting.changes and changed == protocol:
            return None
        protocol = changed
    return protocol


def _matching(protocol: Protocol) -> Protocol:
    """The protocol without score cut-off and limits, and with defaults for all fields that don't affect verdicts."""
    coco = PROTOCOLS["coco"]
    limits: dict[str, Any] = {}
    if protocol.limits_per != "dataset":
        numbers = sorted({limit for limit in (*LIMITS, *protocol.limits) if limit is not None})
        limits = {"limits": (*numbers, None)}
    return protocol.replace(
        name="coco",
        min_score=None,
        ap=coco.ap,
        recall_points=coco.recall_points,
        precision_epsilon=coco.precision_epsilon,
        average=coco.average,
        **limits,
    )


def _some(values: Sequence[int]) -> str:
    """The first 10 values as text."""
    return ", ".join(map(str, values[:10])) + (", …" if len(values) > 10 else "")


def _rank(number: str) -> int:
    return MAIN_NUMBERS.index(number) if number in MAIN_NUMBERS else len(MAIN_NUMBERS)
