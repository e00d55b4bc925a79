"""The words of every rule: its label, its values, and what each value does to detections.

`explain`, comparability, the report and the tables of docs/reference/protocols.md read them here and nowhere else.
"""

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from boxscore._support import text

if TYPE_CHECKING:
    from boxscore.protocol.protocol import IouType, KeypointRules, Protocol


class Value(NamedTuple):
    """A value of a rule in words. "IoU" stands for the similarity of the protocol."""

    words: str
    sentence: str = ""
    """Effect of a change to the value; "" where it depends on more than the value: see `analysis.rule_reasons`."""


class Rule(NamedTuple):
    """The words of one field of a protocol."""

    step: str | None
    """The step of a path between two protocols in which it changes; None: it changes no `map`."""
    label: str
    values: Mapping[Any, Value] | Callable[[Any], str]
    """The words of each value; of a number or a sequence, a function that writes it."""
    needs_label: bool = False
    """Whether values are understood only behind the label."""
    absent: Any = ...
    """The value that means that the rule does not exist; the report then leaves it out."""
    only_for: "IouType | None" = None
    """The only similarity for which the rule matters."""

    @property
    def choices(self) -> Mapping[Any, Value]:
        """Each value with its words; empty for numbers and sequences."""
        return self.values if isinstance(self.values, Mapping) else {}


def range_in_words(name: str, low: float, high: float) -> str:
    """Name and bounds of an area range."""
    return f"{name} {low:g} to {high:g}" if math.isfinite(high) else f"{name} from {low:g}"


def thresholds_in_words(values: Sequence[float]) -> str:
    """Thresholds, with a remark where they were rounded to float32.

    >>> thresholds_in_words([0.5, 0.55, 0.6]), thresholds_in_words([0.5, 0.550000011920929, 0.6000000238418579])
    ('0.50:0.60', '0.50:0.60 in float32')
    """
    if not _are_single(values):
        return text.thresholds(values)
    return f"{text.thresholds([round(value, 6) for value in values])} in float32"


def _are_single(values: Sequence[float]) -> bool:
    """Whether these are decimals that were rounded to float32."""
    singles = struct.unpack(f"{len(values)}f", struct.pack(f"{len(values)}f", *values))
    decimals = [round(value, 6) for value in values]
    is_near = all(abs(value - decimal) < 1e-7 for value, decimal in zip(values, decimals, strict=True))
    return is_near and tuple(values) == singles != tuple(decimals)


def _number(value: float) -> str:
    return f"{value:.6g}"


def _recall_points(points: Sequence[float]) -> str:
    words = f"{len(points)} from {points[0]:g} to {points[-1]:g}"
    return f"{words} in float32" if _are_single(points) else words


def _keypoint_rules(rules: "KeypointRules") -> str:
    usual = rules._field_defaults
    changed = [f"{name} {value}" for name, value in rules._asdict().items() if value != usual[name]]
    return ", ".join(changed).replace("_", " ") or "as in COCO"


RULES: Mapping[str, Rule] = {
    "iou_type": Rule(
        "geometry",
        "shapes",
        {
            "bbox": Value("boxes"),
            "segm": Value("masks"),
            "boundary": Value("masks and their boundaries"),
            "keypoints": Value("keypoints"),
            "obb": Value("oriented boxes"),
            "probiou": Value("oriented boxes as distributions"),
        },
    ),
    "pixels": Rule(
        "geometry",
        "pixels",
        {
            "continuous": Value(
                "continuous coordinates",
                "Every box is one pixel narrower and lower, which changes the IoU of small boxes most",
            ),
            "inclusive": Value(
                "inclusive pixels (+1)",
                "Every box is one pixel wider and higher, which changes the IoU of small boxes most",
            ),
        },
    ),
    "clips_boxes": Rule(
        "geometry",
        "boxes",
        {
            False: Value(
                "boxes as they are",
                "Boxes no longer end where their image ends, which changes the IoU of those at its border",
            ),
            True: Value(
                "boxes end where their image ends",
                "Boxes end where their image ends, which changes the IoU of those at its border",
            ),
        },
        absent=False,
    ),
    "dilation_ratio": Rule("geometry", "width of boundaries", _number, needs_label=True, only_for="boundary"),
    "sigmas": Rule(
        "geometry",
        "sigmas",
        lambda sigmas: f"{len(sigmas)} from {min(sigmas):g} to {max(sigmas):g}",
        needs_label=True,
        only_for="keypoints",
    ),
    "keypoints": Rule("geometry", "keypoint rules", _keypoint_rules, needs_label=True, only_for="keypoints"),
    "min_score": Rule("score cut-off", "lowest score", _number, needs_label=True, absent=None),
    "thresholds": Rule("thresholds", "thresholds", thresholds_in_words, needs_label=True),
    "recall_at": Rule("thresholds", "recall at", thresholds_in_words, needs_label=True, absent=()),
    "ignored": Rule(
        "ignored truths",
        "ignored truths",
        {
            "crowd": Value("crowds", "A truth marked as ignored is a crowd, which any number of detections may take"),
            "difficult": Value("difficult", "A truth marked as ignored is difficult, and one detection may take it"),
            "regular": Value("regular", "A truth marked as ignored counts as any other"),
            "absent": Value("left out", "Truths marked as ignored are left out, so nothing can take them"),
        },
        needs_label=True,
    ),
    "group_of_weight": Rule(
        "groups",
        "groups",
        {
            None: Value("no rule for groups", "A truth that is a group is an error"),
            0: Value("groups count for nothing", "Groups count for nothing, and detections in them are ignored"),
            1: Value(
                "a group counts as one truth",
                "A group counts as one truth, and its first detection as a true positive",
            ),
        },
        absent=None,
    ),
    "federated": Rule(
        "verified classes",
        "verified classes",
        {
            False: Value(
                "every class counts in every image",
                "A class counts in every image, also where it was not verified",
            ),
            True: Value("a class counts where it was verified", "A class counts only in images where it was verified"),
        },
        absent=False,
    ),
    "comparison": Rule(
        "match condition",
        "match condition",
        {
            ">=": Value("IoU >= threshold", "An IoU equal to the threshold now suffices"),
            ">": Value("IoU > threshold", "An IoU equal to the threshold no longer suffices"),
        },
    ),
    "matching": Rule(
        "matching rule",
        "matching rule",
        {
            "best": Value(
                "only the best truth",
                "A detection may take only its best truth, and is false if that is taken, or ignored if that is"
                " ignored; truths that it no longer takes are left for later detections",
            ),
            "best_regular": Value(
                "only the best truth, regular ones first",
                "A detection may take only its best regular truth, and is false if that is taken, or ignored if only"
                " ignored truths reach the threshold",
            ),
            "next_best": Value(
                "the best truth that is free",
                "A detection may take the best truth that is free, regular ones before ignored ones, which later"
                " detections then lack",
            ),
        },
    ),
    "ties": Rule(
        "ties",
        "ties",
        {
            "first": Value(
                "the first of equal truths",
                "Of truths with equal IoU a detection takes the first, which leaves others for later detections",
            ),
            "last": Value(
                "the last of equal truths",
                "Of truths with equal IoU a detection takes the last, which leaves others for later detections",
            ),
        },
    ),
    "truth_area": Rule(
        "areas",
        "areas of truths",
        {
            "given": Value("areas as given", "The area that decides the range of a truth is the one given"),
            "shape": Value(
                "areas of the shapes", "The area that decides the range of a truth is the area of its shape"
            ),
        },
        absent="given",
    ),
    "areas": Rule(
        "areas",
        "areas",
        lambda areas: ", ".join(range_in_words(*area) for area in areas),
        needs_label=True,
    ),
    "ranges_by": Rule(
        "areas",
        "ranges",
        {
            "area": Value("ranges of areas", "The range of a truth is decided by its area"),
            "crowd_index": Value(
                "ranges of crowd indices", "The range of a truth is decided by the crowd index of its image"
            ),
        },
        absent="area",
    ),
    "empty": Rule(
        "areas",
        "shapes without area",
        {
            "keep": Value("empty shapes count", "Shapes without area count as any other"),
            "drop_detections": Value("empty detections are left out", "Detections without area are left out"),
            "drop": Value("empty shapes are left out", "Detections and truths without area are left out"),
        },
        absent="keep",
    ),
    "limits": Rule(
        "limits",
        "limits",
        lambda limits: ", ".join("all" if limit is None else f"{limit:,}" for limit in limits),
        needs_label=True,
    ),
    "limits_per": Rule(
        "limits",
        "limits apply",
        {
            "class": Value("per image and class"),
            "image": Value("per image"),
            "dataset": Value("per class over all images"),
        },
        needs_label=True,
    ),
    "ap": Rule(
        "AP rule",
        "AP",
        {
            "recall_points": Value("mean precision at recall points"),
            "interpolated": Value("mean precision at recall points, class by class"),
            "linear_points": Value("area under lines between recall points of the envelope"),
            "linear_points_to_end": Value("area under lines between recall points of the envelope, down to (1, 0)"),
            "envelope": Value("whole area under the envelope"),
            "trapezoid": Value("area of trapezoids under the raw curve"),
            "trapezoid_from_first": Value("area of trapezoids under the raw curve, from its first point on"),
        },
    ),
    "recall_points": Rule("AP rule", "recall points", _recall_points, needs_label=True),
    "precision_epsilon": Rule("AP rule", "epsilon of precision", _number, needs_label=True, absent=0),
    "average": Rule(
        "averaging",
        "average",
        {
            "macro": Value("mean over classes", "Every class has the same weight"),
            "weighted": Value("mean over classes, weighted by truths", "The weight of a class is its number of truths"),
            "micro": Value(
                "one curve of all classes",
                "The detections of all classes make one curve, in which their scores compete",
            ),
        },
    ),
    "class_agnostic": Rule(
        "averaging",
        "labels",
        {
            False: Value("labels count", "A detection may take only a truth of its class"),
            True: Value(
                "labels are disregarded", "Labels are disregarded, so a detection may take a truth of any class"
            ),
        },
        absent=False,
    ),
    "class_groups": Rule("averaging", "groups of classes", ", ".join, needs_label=True, absent=()),
    "extra_numbers": Rule(None, "extra numbers", ", ".join, needs_label=True, absent=()),
}
"""Every field of a protocol but its name, in the order in which a path between two protocols changes them."""


class RuleStep(NamedTuple):
    """The fields that change together."""

    name: str
    fields: tuple[str, ...]


STEPS = tuple(
    RuleStep(name, tuple(fields))
    for name, fields in groupby(RULES, lambda field: RULES[field].step)
    if name is not None
)
"""The steps of a path from one protocol to another; see `ordered_steps`."""


def ordered_steps(first: "Protocol", last: "Protocol") -> tuple[RuleStep, ...]:
    """The steps of the path between two protocols: `STEPS`, except where ignored truths become crowds.

    A crowd is compared by its share of the detection, so it wins against most truths that overlap it. COCO's matching
    rule tries regular truths first; under the others, detections of regular truths would be lost to crowds, as in no
    tool. So crowds end before the matching rule changes, and begin after it: where ignored truths become crowds, that
    step comes behind ties.

    >>> from boxscore import Protocol
    >>> coco, voc = Protocol.named("coco"), Protocol.named("voc2012")
    >>> [step.name for step in ordered_steps(coco, voc)[3:9]]
    ['ignored truths', 'groups', 'verified classes', 'match condition', 'matching rule', 'ties']
    >>> [step.name for step in ordered_steps(voc, coco)[3:9]]
    ['groups', 'verified classes', 'match condition', 'matching rule', 'ties', 'ignored truths']
    """
    if last.ignored != "crowd" or first.ignored == "crowd":
        return STEPS
    names = [step.name for step in STEPS]
    moved, behind = names.index("ignored truths"), names.index("ties") + 1
    return (*STEPS[:moved], *STEPS[moved + 1 : behind], STEPS[moved], *STEPS[behind:])


def value_in_words(protocol: "Protocol", field: str) -> str:
    """Words of the value that a protocol has in a field.

    >>> from boxscore import Protocol
    >>> coco = Protocol.named("coco")
    >>> value_in_words(coco, "limits"), value_in_words(coco, "min_score"), value_in_words(coco, "comparison")
    ('1, 10, 100', 'none', 'IoU >= threshold')
    """
    value, values = getattr(protocol, field), RULES[field].values
    if isinstance(values, Mapping):
        known = values.get(value)  # a foreign geometry has a similarity without words
        return str(value) if known is None else known.words.replace("IoU", protocol.similarity)
    return "none" if value is None or value == () else values(value)


def sentence_of(protocol: "Protocol", field: str) -> str:
    """Effect of the value that a protocol has in a field; "" where it depends on more than the value."""
    known = RULES[field].choices.get(getattr(protocol, field))
    return "" if known is None else known.sentence.replace("IoU", protocol.similarity)


IDEAS: Mapping[str, tuple[str, ...]] = {
    "what is compared": ("iou_type", "pixels", "clips_boxes", "dilation_ratio", "sigmas", "keypoints"),
    "who matches": (*("thresholds", "comparison", "matching", "ties", "ignored", "group_of_weight", "class_agnostic"),),
    "what is left out": (
        *("min_score", "limits", "limits_per", "federated", "empty", "areas", "ranges_by", "truth_area"),
    ),
    "which curve": ("ap", "recall_points", "precision_epsilon"),
    "which numbers": ("average", "class_groups", "recall_at", "extra_numbers"),
}
"""The fields of a protocol, by the question that they answer; `Protocol` has them in this order."""


def settings_in_words(protocol: "Protocol") -> Iterator[tuple[str, str]]:
    """Label and value of each rule that a protocol has, in the order of `IDEAS`.

    >>> from boxscore import Protocol
    >>> dict(settings_in_words(Protocol.named("voc2007")))["recall points"]
    '11 from 0 to 1'
    """
    for fields in IDEAS.values():
        for field in filter(lambda each: _applies(protocol, each), fields):
            yield RULES[field].label, value_in_words(protocol, field)


def ideas_in_words(protocol: "Protocol") -> Iterator[tuple[str, list[str]]]:
    """Each of the five ideas, with the rules that a protocol has."""
    for idea, fields in IDEAS.items():
        labels = {field: f"{RULES[field].label} " if RULES[field].needs_label else "" for field in fields}
        yield (
            idea,
            [f"{labels[field]}{value_in_words(protocol, field)}" for field in fields if _applies(protocol, field)],
        )


def _applies(protocol: "Protocol", field: str) -> bool:
    """Whether a protocol has a rule, and it may matter under the other rules."""
    if RULES[field].only_for is not None:
        return protocol.iou_type == RULES[field].only_for
    if field == "recall_points":
        return protocol.uses_recall_points
    return bool(getattr(protocol, field) != RULES[field].absent)


class FieldChange(NamedTuple):
    """A field with another value, both in words."""

    field: str
    before: str
    after: str

    @property
    def label(self) -> str:
        """The label to write before the values; "" where these, or the name of the step, say it."""
        rule = RULES[self.field]
        return rule.label if rule.needs_label and not rule.label.startswith(rule.step or "") else ""

    def __str__(self) -> str:
        return f"{self.label} {self.before} -> {self.after}".strip()


def changed_fields(before: "Protocol", after: "Protocol", names: tuple[str, ...]) -> tuple[FieldChange, ...]:
    """The fields among `names` that differ, with their values in words."""
    changes = []
    for name in names:
        if getattr(before, name) != getattr(after, name):
            old, new = value_in_words(before, name), value_in_words(after, name)
            changes.append(FieldChange(name, old, new if new != old else f"{new}, with other last digits"))
    return tuple(changes)
