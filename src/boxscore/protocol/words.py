"""The rules of protocols in words: their steps, the values of their fields, and what differs between two protocols."""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from boxscore._support import text
from boxscore.protocol.protocol import Protocol


class RuleStep(NamedTuple):
    """The fields that change together."""

    name: str
    fields: tuple[str, ...]


STEPS = (
    RuleStep("geometry", ("iou_type", "pixels", "clips_boxes", "dilation_ratio", "sigmas", "keypoints")),
    RuleStep("score cut-off", ("min_score",)),
    RuleStep("thresholds", ("thresholds", "recall_at")),
    RuleStep("ignored truths", ("ignored",)),
    RuleStep("groups", ("group_of_weight",)),
    RuleStep("classes looked for", ("federated",)),
    RuleStep("match condition", ("comparison",)),
    RuleStep("matching rule", ("matching",)),
    RuleStep("ties", ("ties",)),
    RuleStep("areas", ("truth_area", "areas", "ranges_by", "empty")),
    RuleStep("limits", ("limits", "limits_per")),
    RuleStep("AP rule", ("ap", "recall_points", "precision_epsilon")),
    RuleStep("averaging", ("average", "class_agnostic", "class_groups")),
)
"""Every rule, in the order in which a path from one protocol to another changes them; see `ordered_steps`."""


def ordered_steps(first: Protocol, last: Protocol) -> tuple[RuleStep, ...]:
    """Every rule, in the order of the path between two protocols: that of `STEPS`, with one exception.

    A crowd is compared by its share of the detection, so it wins against most truths that overlap it. COCO's matching
    rule tries regular truths first; under the others, detections of regular truths would be lost to crowds, as in no
    tool. So crowds end before the matching rule changes, and begin after it: where ignored truths become crowds, that
    step comes behind ties.

    >>> coco, voc = Protocol.named("coco"), Protocol.named("voc2012")
    >>> [step.name for step in ordered_steps(coco, voc)[3:9]]
    ['ignored truths', 'groups', 'classes looked for', 'match condition', 'matching rule', 'ties']
    >>> [step.name for step in ordered_steps(voc, coco)[3:9]]
    ['groups', 'classes looked for', 'match condition', 'matching rule', 'ties', 'ignored truths']
    """
    if last.ignored != "crowd" or first.ignored == "crowd":
        return STEPS
    names = [step.name for step in STEPS]
    moved, behind = names.index("ignored truths"), names.index("ties") + 1
    return (*STEPS[:moved], *STEPS[moved + 1 : behind], STEPS[moved], *STEPS[behind:])


FIELD_LABELS: Mapping[str, str] = {
    "precision_epsilon": "epsilon",
    "dilation_ratio": "width of boundaries",
    "sigmas": "sigmas",
    "recall_at": "recall at",
    "class_groups": "groups",
}
"""What a field is called before its values, where neither these nor the name of its step say it."""

_CHOICES: Mapping[str, Mapping[Any, str]] = {
    "iou_type": {
        "bbox": "boxes",
        "segm": "masks",
        "boundary": "masks and their boundaries",
        "keypoints": "keypoints",
        "obb": "oriented boxes",
        "probiou": "oriented boxes as distributions",
    },
    "pixels": {"continuous": "continuous coordinates", "inclusive": "inclusive pixels (+1)"},
    "clips_boxes": {False: "boxes as they are", True: "boxes end where their image ends"},
    "matching": {
        "best": "the best truth alone",
        "best_regular": "the best truth alone, regular ones first",
        "next_best": "the best truth that is free",
    },
    "ties": {"first": "the first of equal truths", "last": "the last of equal truths"},
    "ignored": {
        "crowd": "crowds",
        "difficult": "difficult",
        "regular": "regular",
        "absent": "left out",
    },
    "group_of_weight": {None: "no rule for groups", 0: "groups count for nothing", 1: "a group counts as one truth"},
    "federated": {False: "every class counts in every image", True: "a class counts where it was looked for"},
    "truth_area": {"given": "areas as given", "shape": "areas of the shapes"},
    "ranges_by": {"area": "ranges of areas", "crowd_index": "ranges of crowd indices"},
    "empty": {
        "keep": "empty shapes count",
        "drop_detections": "empty detections are left out",
        "drop": "empty shapes are left out",
    },
    "limits_per": {"class": "per image and class", "image": "per image", "dataset": "per class over all images"},
    "ap": {
        "recall_points": "mean precision at recall points",
        "interpolated": "mean precision at recall points, by class",
        "linear_points": "trapezoids through interpolated points",
        "linear_points_to_end": "trapezoids through interpolated points to (1, 0)",
        "envelope": "every step under the envelope",
        "trapezoid": "trapezoids through the curve",
        "trapezoid_from_first": "trapezoids from the first point on",
    },
    "average": {
        "macro": "mean over classes",
        "weighted": "mean over classes, weighted by truths",
        "micro": "one curve of all classes",
    },
    "class_agnostic": {False: "labels count", True: "labels are disregarded"},
}


def value_in_words(protocol: Protocol, field: str) -> str:
    """The value of a field, in words.

    >>> coco = Protocol.named("coco")
    >>> value_in_words(coco, "limits"), value_in_words(coco, "min_score"), value_in_words(coco, "comparison")
    ('1, 10, 100', 'none', 'IoU >= threshold')
    """
    value: Any = getattr(protocol, field)
    if field in _CHOICES:
        return _CHOICES[field].get(value, str(value))
    if field == "comparison":
        return f"{protocol.similarity} {value} threshold"
    if field in _SEQUENCES:
        return _SEQUENCES[field](value) if value else "none"
    if field == "keypoints":
        parts = (f"{name} {each}" for name, each in value._asdict().items() if each is not None)
        return ", ".join(parts).replace("_", " ")
    return "none" if value is None else f"{value:.6g}"


def range_in_words(name: str, low: float, high: float) -> str:
    """An area range with its bounds."""
    return f"{name} {low:g} to {high:g}" if math.isfinite(high) else f"{name} from {low:g}"


def thresholds_in_words(values: Sequence[float]) -> str:
    """Thresholds, also where they were rounded to float32.

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


def _recall_points(points: Sequence[float]) -> str:
    words = f"{len(points)} points from {points[0]:g} to {points[-1]:g}"
    return f"{words} in float32" if _are_single(points) else words


_SEQUENCES: Mapping[str, Callable[[Any], str]] = {
    "thresholds": thresholds_in_words,
    "recall_at": thresholds_in_words,
    "recall_points": _recall_points,
    "sigmas": lambda sigmas: f"{len(sigmas)} from {min(sigmas):g} to {max(sigmas):g}",
    "areas": lambda areas: ", ".join(range_in_words(*area) for area in areas),
    "limits": lambda limits: ", ".join("all" if limit is None else f"{limit:,}" for limit in limits),
    "class_groups": ", ".join,
}


class FieldChange(NamedTuple):
    """A field with another value, both in words."""

    field: str
    before: str
    after: str

    @property
    def label(self) -> str:
        """What the field is called before its values; "" where that is clear."""
        return FIELD_LABELS.get(self.field, "")

    def __str__(self) -> str:
        return f"{self.label} {self.before} -> {self.after}".strip()


def changed_fields(before: Protocol, after: Protocol, names: tuple[str, ...]) -> tuple[FieldChange, ...]:
    """The fields among `names` that differ, with their values in words."""
    changes = []
    for name in names:
        if getattr(before, name) != getattr(after, name):
            old, new = value_in_words(before, name), value_in_words(after, name)
            changes.append(FieldChange(name, old, new if new != old else f"{new}, with other last digits"))
    return tuple(changes)
