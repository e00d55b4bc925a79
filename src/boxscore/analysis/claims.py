"""Claims: which tool, with which settings, gives a number that somebody claims."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support import text
from boxscore._support.arrays import to_numpy
from boxscore._support.exceptions import InputError
from boxscore.analysis.explanation import rules_for
from boxscore.analysis.known_tools import TOOLS, as_rules
from boxscore.model.dataset import IGNORED_KINDS, Detections, Truths, classes_of, host_ids, host_scores, take
from boxscore.model.protocol import Protocol
from boxscore.model.protocol_table import PROTOCOLS
from boxscore.model.tally import Tally
from boxscore.pipeline import evaluate, finish, match

MAIN_NUMBERS = ("map", "map_50", "map_75")
"""The numbers that are called mAP, and so searched with settings; the others are searched without."""

MAIN_RULES = ("coco", "ultralytics", "voc2012", "voc2007")
"""Rules that are also searched with two settings at once."""


MOST_SHOWN = 20
"""How many matches a table shows."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Setting:
    """A change that people make, knowingly or not, to what a tool evaluates."""

    kind: str
    """Two settings of one kind exclude each other."""
    name: str
    reason: str
    """What it does, in one sentence."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """The fields of the protocol that it changes."""
    label_offset: int = 0
    """What it adds to the labels of detections; those that are then no class of the truths are left out."""
    drops_images: bool = False
    """Whether images without detections are left out."""


def _cut_off(score: float) -> Setting:
    return Setting(
        kind="score cut-off",
        name=f"score cut-off {score:g}",
        reason=f"Detections with a score below {score:g} are left out, often before results are written.",
        changes={"min_score": score},
    )


_LIMITED = {None: "All detections count", 1: "Only the best detection counts"}


def _limit(limit: int | None) -> Setting:
    return Setting(
        kind="limit",
        name="no limit" if limit is None else f"limit {limit:,}",
        reason=f"{_LIMITED.get(limit, f'Only the {limit} best detections count')}, per image or per image and class, as"
        " the tool does it.",
        changes={"limits": (limit,)},
    )


LIMITS = (1, 10, 100, 300, 1000, None)

SETTINGS = (
    *map(_cut_off, (0.001, 0.01, 0.05, 0.1, 0.25, 0.3, 0.5)),
    *map(_limit, LIMITS),
    Setting(
        kind="pixels",
        name="+1 pixel",
        reason="A box from x1 to x2 is x2 - x1 + 1 wide, as if coordinates were inclusive pixels.",
        changes={"pixels": "inclusive"},
    ),
    Setting(
        kind="labels",
        name="labels + 1",
        reason="The labels of detections are one too low: 1 is added to them.",
        label_offset=1,
    ),
    Setting(
        kind="labels",
        name="labels - 1",
        reason="The labels of detections are one too high: 1 is subtracted from them.",
        label_offset=-1,
    ),
    Setting(
        kind="labels",
        name="labels disregarded",
        reason="All boxes are of one class.",
        changes={"class_agnostic": True},
    ),
    Setting(
        kind="images",
        name="images without detections left out",
        reason="Truths of images without detections don't count, as if only images in the results were evaluated.",
        drops_images=True,
    ),
    Setting(
        kind="ignored truths",
        name="ignored truths as regular ones",
        reason="Crowds and difficult truths count as any other, as if the mark were not read.",
        changes={"ignored": "regular"},
    ),
    Setting(
        kind="ignored truths",
        name="ignored truths left out",
        reason="Crowds and difficult truths are left out, so detections of them are false positives.",
        changes={"ignored": "absent"},
    ),
)
"""All settings that are searched."""


class Claim(NamedTuple):
    """A number as it was claimed, and the numbers that round to it: low <= number < high, as fractions."""

    text: str
    value: float
    low: float
    high: float

    def holds(self, number: float) -> bool:
        """Whether a number rounds to the claim."""
        return self.low <= number < self.high


def read_claim(claim: str | float) -> Claim:
    """A claim with the digits that it was given with: a fraction, or percent where it is above 1 or has a % behind.

    >>> read_claim("0.531")
    Claim(text='0.531', value=0.531, low=0.5305, high=0.5315)
    >>> read_claim("53.10 %")[1:]
    (0.531, 0.53095, 0.53105)
    """
    words = str(claim).strip()
    rule = f"`claim` must be a number from 0 to 1, such as 0.531, or in percent, such as 53.1; got {claim!r}"
    try:
        value = Decimal(words.removesuffix("%").strip())
    except InvalidOperation:
        raise InputError(rule) from None
    if isinstance(claim, bool) or not value.is_finite():
        raise InputError(rule)
    exponent = int(value.as_tuple().exponent)
    is_percent = words.endswith("%") or value > 1
    if not is_percent and exponent >= 0:
        raise InputError(f"`claim` must have digits behind the point, so that it says something; got {claim!r}")
    scale, half = Decimal(100 if is_percent else 1), Decimal(5).scaleb(exponent - 1)
    if not 0 <= value <= scale:
        raise InputError(rule)
    return Claim(words, *(float(each / scale) for each in (value, value - half, value + half)))


class Rules(NamedTuple):
    """Rules that several tools and protocols may share."""

    names: tuple[str, ...]
    protocol: Protocol


class Reproduction(NamedTuple):
    """A number, and what gives it."""

    number: str
    """Its name: `map`, `map_50`, …"""
    value: float
    names: tuple[str, ...]
    """The tools and protocols whose rules give it."""
    settings: tuple[Setting, ...] = ()

    @property
    def how(self) -> str:
        """The rules and the settings, in words."""
        return ", ".join([self.names[0], *(setting.name for setting in self.settings)])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "number": self.number,
            "value": self.value,
            "rules": list(self.names),
            "settings": [{"name": setting.name, "reason": setting.reason} for setting in self.settings],
        }


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ClaimExplanation:
    """What reproduces a claimed number. `print` shows a table."""

    claim: Claim
    matches: tuple[Reproduction, ...]
    """What reproduces it, the simplest first: few settings, `map` before other numbers."""
    nearest: tuple[Reproduction, ...]
    """What comes nearest without settings, with one, and with two; where nothing reproduces it."""
    num_tried: int
    """How many combinations of rules and settings were tried."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "claim": self.claim.text,
            "low": self.claim.low,
            "high": self.claim.high,
            "is_reproduced": bool(self.matches),
            "num_tried": self.num_tried,
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
            title = f"No number {tried} gives {claim}" + (", the nearest are" if self.nearest else "")
        if not (self.matches or self.nearest):
            return title
        shown = self.matches[:MOST_SHOWN] or self.nearest
        rows = [
            [each.number, f"{each.value:.6f}", ", ".join(s.name for s in each.settings) or "-", ", ".join(each.names)]
            for each in shown
        ]
        table = text.table(rows, align="<><<", header=["number", "value", "settings", "rules"])
        reasons = dict.fromkeys(f"{s.name}: {s.reason}" for each in shown for s in each.settings)
        more = len(self.matches) - MOST_SHOWN
        parts = [title, table, f"and {more:,} more" if more > 0 else "", "\n".join(reasons)]
        return "\n\n".join(filter(None, parts))


def explain_claim(
    detections: Detections, truths: Truths, claim: str | float, *, threads: int | None = None
) -> ClaimExplanation:
    """Which known tools and settings give a claimed number, to the digits that it was claimed with.

    `claim`: 0.531, or 53.1 for percent; as text, "0.530" has three digits. First every tool and every protocol that the
    data allows is tried as it is, all of its numbers; then with one of `SETTINGS`, the numbers that are called mAP;
    then the main rules with two. The search ends where a number that is called mAP is found. With few digits some match
    by chance.

    >>> from boxscore import Detections, Truths
    >>> truths = Truths(image=[0, 0], label=[1, 1], box=[[0, 0, 10, 10], [20, 20, 30, 30]])
    >>> detections = Detections(image=[0], label=[1], score=[0.9], box=[[0, 0, 10, 10]])
    >>> explain_claim(detections, truths, "0.545").matches[0].how
    'voc2007'
    """
    wanted = read_claim(claim)
    every = distinct_rules(detections, truths)
    found, possible = _tools_alone(detections, truths, every, threads)
    search = _Search(detections, truths, threads)
    for variants in (_with_one(possible, search.settings), _with_two(possible, search.settings)):
        if any(wanted.holds(each.value) for each in found if each.number in MAIN_NUMBERS):
            break
        found += search.numbers_of(list(variants))
    order = sorted(found, key=lambda each: (each.number not in MAIN_NUMBERS, len(each.settings), _rank(each.number)))
    return ClaimExplanation(
        claim=wanted,
        matches=(matches := tuple(each for each in order if wanted.holds(each.value))),
        nearest=() if matches else tuple(_nearest(wanted, order)),
        num_tried=len({(each.names, each.settings) for each in found}),
    )


def _nearest(claim: Claim, found: Sequence[Reproduction]) -> Iterator[Reproduction]:
    """Of the numbers that are called mAP, the nearest one without settings, with one, and with two."""
    for num in range(3):
        level = [each for each in found if len(each.settings) == num and each.number in MAIN_NUMBERS]
        defined = [each for each in level if not math.isnan(each.value)]
        yield from sorted(defined, key=lambda each: abs(each.value - claim.value))[:1]


def distinct_rules(detections: Detections, truths: Truths) -> list[Rules]:
    """The rules of all tools and protocols for the shapes of the data, each once, the main rules first."""
    by_rules: dict[Protocol, Rules] = {}
    for name in dict.fromkeys((*MAIN_RULES, *PROTOCOLS, *TOOLS)):
        protocol = rules_for(name, detections, truths)
        key = protocol.replace(name="", extra_numbers=())
        names, known = by_rules.get(key, Rules((), protocol))
        extra = tuple(dict.fromkeys((*known.extra_numbers, *protocol.extra_numbers)))
        by_rules[key] = Rules((*names, name), known.replace(extra_numbers=extra))
    return list(by_rules.values())


def _tools_alone(
    detections: Detections, truths: Truths, every: Sequence[Rules], threads: int | None
) -> tuple[list[Reproduction], list[Rules]]:
    """All numbers of the rules that the data allows, and these rules."""
    found: list[Reproduction] = []
    possible = []
    error: InputError | None = None
    for rules in every:
        try:
            result = evaluate(detections, truths, rules.protocol, threads=threads)
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


def apply_settings(
    detections: Detections, truths: Truths, protocol: Protocol, settings: Sequence[Setting]
) -> tuple[Detections, Truths, Protocol]:
    """What is evaluated with the settings, and under which protocol."""
    for setting in settings:
        protocol = protocol.replace(**setting.changes)
    for setting in settings:
        if setting.label_offset:
            detections = _relabelled(detections, truths, setting.label_offset)
    if any(setting.drops_images for setting in settings):
        truths = take(truths, np.isin(host_ids(truths.image), _images_with(detections, protocol.min_score)))
    return detections, truths, protocol


def _relabelled(detections: Detections, truths: Truths, offset: int) -> Detections:
    """The detections with other labels, those of them that are classes of the truths."""
    label = host_ids(detections.label) + offset
    known = classes_of(take(detections, np.zeros(len(detections), bool)), truths)
    return take(replace(detections, label=label), np.isin(label, known))


def _images_with(detections: Detections, min_score: float | None) -> NDArray[np.int64]:
    """The images that have detections of at least this score."""
    image = host_ids(detections.image)
    return np.unique(image if min_score is None else image[host_scores(detections.score) >= min_score])


class _Search:
    """Evaluates many variants of one dataset, and matches each distinct matching rule once.

    A detection's verdict depends on those of higher scores alone. So a tally without a score cut-off and without limits
    has the verdicts of all cut-offs and limits: the rows are taken that are within them. Rules that differ in the AP
    rule or in averaging have one matching, too.
    """

    def __init__(self, detections: Detections, truths: Truths, threads: int | None) -> None:
        self._detections, self._truths, self._threads = detections, truths, threads
        self.settings = [setting for setting in SETTINGS if self._is_possible(setting)]

    def _is_possible(self, setting: Setting) -> bool:
        """Whether the setting can change anything here."""
        if setting.label_offset:
            return len(_relabelled(self._detections, self._truths, setting.label_offset)) > 0
        return setting.kind != "ignored truths" or _has_ignored(self._truths)

    def numbers_of(self, variants: Sequence[Variant]) -> list[Reproduction]:
        """The main numbers of the variants that are possible, in their order."""
        by_matching: dict[tuple[Protocol, int], list[int]] = {}
        protocols: list[Protocol | None] = []
        for i, (rules, settings) in enumerate(variants):
            protocol = _changed(rules.protocol, settings)
            protocols.append(protocol)
            if protocol is not None:
                by_matching.setdefault((_matching(protocol), _offset(settings)), []).append(i)
        results: dict[int, Mapping[str, float]] = {}
        for (matching, offset), members in by_matching.items():
            labelled = self._detections if not offset else _relabelled(self._detections, self._truths, offset)
            try:
                tally = match(labelled, self._truths, matching, threads=self._threads)
            except InputError:
                continue  # coverage is by class, which class-agnostic rules have none of
            for i in members:
                protocol = protocols[i]
                assert protocol is not None
                results[i] = self._finish(tally, labelled, protocol, variants[i].settings)
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
        """The numbers of a protocol, from the verdicts of a tally without score cut-off and limits."""
        is_kept = np.ones(len(tally), bool)
        if protocol.min_score is not None:
            is_kept &= tally.score >= protocol.min_score
        if protocol.limits_per != "dataset":
            is_kept &= tally.tier <= tally.protocol.limits.index(protocol.limits[-1])
        rows = tally if is_kept.all() else tally.in_order(np.flatnonzero(is_kept))
        rows = replace(rows, protocol=protocol, tier=np.zeros_like(rows.tier))
        if any(setting.drops_images for setting in settings):
            rows = rows.within(_images_with(detections, protocol.min_score))
        return finish(rows, threads=self._threads)


def _changed(protocol: Protocol, settings: Sequence[Setting]) -> Protocol | None:
    """The protocol with the settings, for the main numbers alone; None if one of them changes nothing or can't be."""
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
    """The protocol without score cut-off and limits, and without what decides no verdict."""
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


def _offset(settings: Sequence[Setting]) -> int:
    return sum(setting.label_offset for setting in settings)


def _has_ignored(truths: Truths) -> bool:
    if truths.ignore is not None:
        return bool(np.asarray(to_numpy(truths.ignore), bool).any())
    return truths.kind is not None and bool(np.isin(to_numpy(truths.kind), IGNORED_KINDS).any())


def _rank(number: str) -> int:
    return MAIN_NUMBERS.index(number) if number in MAIN_NUMBERS else len(MAIN_NUMBERS)
