"""Why a change of a rule moves a number, in words."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from boxscore._support import text
from boxscore.protocol.protocol import Protocol
from boxscore.protocol.words import FieldChange, range_in_words, thresholds_in_words, value_in_words

TRUE, FALSE, IGNORED, LEFT_OUT = "true positive", "false positive", "ignored", "left out"
"""What a detection may be. Left out: beyond the limits, below the lowest score, of a class that was not looked for, or
with nothing to compare."""


class VerdictChange(NamedTuple):
    """How many detections went from one verdict to another."""

    before: str
    after: str
    num: int


class RuleChange(NamedTuple):
    """One step between two protocols, and what it does to detections."""

    before: Protocol
    after: Protocol
    fields: tuple[FieldChange, ...]
    verdicts: tuple[VerdictChange, ...] = ()
    """At `threshold`."""
    num_changed: int = 0
    """How many detections have another verdict at any threshold that both protocols have."""
    threshold: float = 0.5

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields that change."""
        return tuple(change.field for change in self.fields)

    def count(self, before: str | None = None, after: str | None = None) -> int:
        """How many detections changed from and to a verdict; None: any."""
        return sum(num for old, new, num in self.verdicts if before in (None, old) and after in (None, new))


_SENTENCES: Mapping[str, Mapping[Any, str]] = {
    "pixels": {
        "inclusive": "Every box is one pixel wider and higher, which changes the IoU of small boxes most",
        "continuous": "Every box is one pixel narrower and lower, which changes the IoU of small boxes most",
    },
    "clips_boxes": {
        True: "Boxes end where their image ends, which changes the IoU of those at its border",
        False: "Boxes no longer end where their image ends, which changes the IoU of those at its border",
    },
    "comparison": {
        ">": "An IoU equal to the threshold no longer suffices",
        ">=": "An IoU equal to the threshold now suffices",
    },
    "matching": {
        "best": "A detection may take its best truth alone, and is false if that is taken, or ignored if that is"
        " ignored; truths that it no longer takes are left for later detections",
        "best_regular": "A detection may take its best regular truth alone, and is false if that is taken, or"
        " ignored if only ignored truths reach the threshold",
        "next_best": "A detection may take the best truth that is free, regular ones before ignored ones, which later"
        " detections then lack",
    },
    "ties": {
        "first": "Of truths with equal IoU a detection takes the first, which leaves others for later detections",
        "last": "Of truths with equal IoU a detection takes the last, which leaves others for later detections",
    },
    "ignored": {
        "crowd": "A truth marked as ignored is a crowd, which any number of detections may take",
        "difficult": "A truth marked as ignored is difficult, and one detection may take it",
        "regular": "A truth marked as ignored counts as any other",
        "absent": "Truths marked as ignored are left out, so nothing can take them",
    },
    "group_of_weight": {
        0: "Groups count for nothing, and detections in them are ignored",
        1: "A group counts as one truth, and its first detection as a true positive",
    },
    "federated": {
        True: "A class counts only in images where it was looked for",
        False: "A class counts in every image, also where it was not looked for",
    },
    "truth_area": {
        "given": "The area that decides the range of a truth is the one given",
        "shape": "The area that decides the range of a truth is that of its shape",
    },
    "empty": {
        "keep": "Shapes without area count as any other",
        "drop_detections": "Detections without area are left out",
        "drop": "Detections and truths without area are left out",
    },
    "average": {
        "macro": "Every class has the same weight",
        "weighted": "The weight of a class is its number of truths",
        "micro": "The detections of all classes make one curve, in which their scores compete",
    },
    "class_agnostic": {
        True: "Labels are disregarded, so a detection may take a truth of any class",
        False: "A detection may take a truth of its own class only",
    },
}
"""What a rule does, by field and value."""


def reason_of(change: RuleChange) -> str:
    """Why the number moves, in one sentence per field that matters; "" for fields that have nothing to do with `map`.

    >>> from boxscore.protocol.words import changed_fields
    >>> before, after = Protocol.named("coco"), Protocol.named("coco", limits=[300])
    >>> fields = changed_fields(before, after, ("limits",))
    >>> reason_of(RuleChange(before, after, fields, (VerdictChange("left out", "false positive", 1234),)))
    '1,234 detections beyond the 100 best of their image and class now count.'
    """
    sentences = list(dict.fromkeys(filter(None, (_sentence(change, name) for name in change.names))))
    if not sentences:
        return ""
    has_counts = bool({"min_score", "limits", "limits_per"} & set(change.names))
    return f"{'. '.join(sentences)}{'' if has_counts else _moves(change)}."


def _sentence(change: RuleChange, field: str) -> str:
    if field in _SENTENCES:
        sentence = _SENTENCES[field].get(getattr(change.after, field), "")
        return sentence.replace("IoU", change.after.similarity)
    return _REASONS[field](change) if field in _REASONS else ""


def _moves(change: RuleChange) -> str:
    """The changes of verdicts, the most frequent first, behind a colon; or nothing."""
    parts = [_became(*each) for each in sorted(change.verdicts, key=lambda each: -each.num)]
    num_others = change.num_changed - change.count()
    if not parts and num_others <= 0:
        return ""
    has_several = min(len(change.before.thresholds), len(change.after.thresholds)) > 1
    cell = f"{change.after.similarity} {text.threshold(change.threshold)}"
    if not parts:
        does = "changes its verdict" if num_others == 1 else "change their verdicts"
        return f": {text.count(num_others, 'detection')} {does} at thresholds other than {cell}"
    counted = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    where = f" at {cell}" if has_several else ""
    change_verb = "changes" if num_others == 1 else "change"
    others = f", and {num_others:,} more {change_verb} at other thresholds" if num_others > 0 else ""
    return f": {counted}{where}{others}"


def _became(before: str, after: str, num: int) -> str:
    """How many changed from one verdict to another.

    >>> _became(FALSE, TRUE, 3), _became(LEFT_OUT, FALSE, 1)
    ('3 false positives become true positives', '1 detection left out becomes a false positive')
    """
    singular = {IGNORED: "ignored detection", LEFT_OUT: "detection left out"}
    plural = {IGNORED: "ignored detections", LEFT_OUT: "detections left out"}
    what = text.count(num, singular.get(before, before), plural.get(before, f"{before}s"))
    if after in (IGNORED, LEFT_OUT):
        return f"{what} {'is' if num == 1 else 'are'} {after}"
    return f"{what} becomes a {after}" if num == 1 else f"{what} become {after}s"


def _shapes(change: RuleChange) -> str:
    return f"Other shapes are compared: {value_in_words(change.after, 'iou_type')}"


def _scale(change: RuleChange) -> str:
    return f"The {change.after.similarity} of every pair is measured on another scale"


def _min_score(change: RuleChange) -> str:
    old, new = change.before.min_score, change.after.min_score
    if new is not None and (old is None or new > old):
        return _counted(change.count(after=LEFT_OUT), f"with a score below {new:g}", "no longer count")
    return _counted(change.count(before=LEFT_OUT), f"with a score below {old:g}", "now count")


def _thresholds(change: RuleChange) -> str:
    old, new = change.before.thresholds, change.after.thresholds
    similarity = change.after.similarity
    if len(old) == len(new) and max(abs(a - b) for a, b in zip(old, new, strict=True)) < 1e-6:
        return f"Thresholds have other last digits, which matters where an {similarity} lies on one"
    values = thresholds_in_words(new)
    what = "taken at" if len(new) == 1 else f"the mean over {len(new)} thresholds of"
    return f"AP is {what} {similarity} {values}, and a stricter threshold gives a lower AP"


def _areas(change: RuleChange) -> str:
    if change.before.areas[0] == change.after.areas[0]:
        return ""
    return f"Truths outside of the range {range_in_words(*change.after.areas[0])} are ignored"


def _ranges_by(change: RuleChange) -> str:
    return f"Other truths are outside of the ranges: they are {value_in_words(change.after, 'ranges_by')}"


def _limits(change: RuleChange) -> str:
    counts = (
        (change.count(before=LEFT_OUT), change.before, "now count"),
        (change.count(after=LEFT_OUT), change.after, "no longer count"),
    )
    return ", and ".join(_counted(num, f"beyond {_limit(of)}", does) for num, of, does in counts if num)


def _limit(protocol: Protocol) -> str:
    """How many count, of what."""
    whose = {"class": "their image and class", "image": "their image", "dataset": "their class"}[protocol.limits_per]
    return f"the {protocol.limits[-1]:,} best of {whose}"


def _counted(num: int, *words: str) -> str:
    """A number of detections, and what they do."""
    return f"{text.count(num, 'detection')} {' '.join(words)}{'s' if num == 1 else ''}"


def _ap(change: RuleChange) -> str:
    return f"AP is the {_AREA[change.after.ap]} instead of the {_AREA[change.before.ap]}; every verdict stays"


_AREA = {
    "recall_points": "mean of the precisions at recall points",
    "interpolated": "mean of each class over the precisions at recall points",
    "linear_points": "area of trapezoids through points between which the envelope is interpolated",
    "linear_points_to_end": "area of trapezoids through points of the envelope down to (1, 0)",
    "envelope": "whole area under the envelope of the curve",
    "trapezoid": "area of trapezoids through the raw curve",
    "trapezoid_from_first": "area of trapezoids through the raw curve from its first point on",
}


def _recall_points(change: RuleChange) -> str:
    old, new = change.before, change.after
    if new.ap not in ("recall_points", "interpolated", "linear_points", "linear_points_to_end"):
        return ""
    if len(old.recall_points) == len(new.recall_points):
        return "Recall points have other last digits, which matters where a recall lies on one"
    return f"Precision is sampled at {len(new.recall_points)} recalls"


def _epsilon(change: RuleChange) -> str:
    if {"ap", "recall_points"} & set(change.names):
        return ""  # it changes last digits alone
    return f"Precision is TP / (TP + FP + {change.after.precision_epsilon:.2g}), which changes last digits"


_REASONS: Mapping[str, Callable[[RuleChange], str]] = {
    "iou_type": _shapes,
    "dilation_ratio": _scale,
    "sigmas": _scale,
    "keypoints": _scale,
    "min_score": _min_score,
    "thresholds": _thresholds,
    "areas": _areas,
    "ranges_by": _ranges_by,
    "limits": _limits,
    "limits_per": _limits,
    "ap": _ap,
    "recall_points": _recall_points,
    "precision_epsilon": _epsilon,
}
"""What a rule does where that depends on more than its value. The others add numbers beside `map`, and change none."""
