"""Reasons why a change of a rule moves a number, in words."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from boxscore._support import text
from boxscore.protocol.protocol import Protocol
from boxscore.protocol.words import (
    RULES,
    FieldChange,
    range_in_words,
    sentence_of,
    thresholds_in_words,
    value_in_words,
)

TRUE, FALSE, IGNORED, LEFT_OUT = "true positive", "false positive", "ignored", "left out"
"""The verdicts in words. Left out: beyond the limits, below the lowest score, of a class that was not verified in the
image, or without a shape to compare.
"""


class VerdictChange(NamedTuple):
    """Number of detections that changed from one verdict to another."""

    before: str
    after: str
    num: int


class RuleChange(NamedTuple):
    """One step between two protocols, and its effect on detections."""

    before: Protocol
    after: Protocol
    fields: tuple[FieldChange, ...]
    verdicts: tuple[VerdictChange, ...] = ()
    """The changes at `threshold`."""
    num_changed: int = 0
    """Number of detections whose verdict changes at any threshold that both protocols have."""
    threshold: float = 0.5

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields that change."""
        return tuple(change.field for change in self.fields)

    def count(self, before: str | None = None, after: str | None = None) -> int:
        """Number of detections that changed from and to a verdict; None: any verdict."""
        return sum(num for old, new, num in self.verdicts if before in (None, old) and after in (None, new))


def reason_of(change: RuleChange) -> str:
    """Why the number moves, in one sentence per field that matters; "" for fields that don't affect `map`.

    >>> from boxscore.protocol.words import changed_fields
    >>> before, after = Protocol.named("coco"), Protocol.named("coco", limits=[300])
    >>> fields = changed_fields(before, after, ("limits",))
    >>> reason_of(RuleChange(before, after, fields, (VerdictChange("left out", "false positive", 1234),)))
    '1,234 detections beyond the limit of 100 per image and class now count.'
    """
    sentences = list(dict.fromkeys(filter(None, (_sentence(change, name) for name in change.names))))
    if not sentences:
        return ""
    has_counts = bool({"min_score", "limits", "limits_per"} & set(change.names))
    return f"{'. '.join(sentences)}{'' if has_counts else _moves(change)}."


def _sentence(change: RuleChange, field: str) -> str:
    return _REASONS[field](change) if field in _REASONS else sentence_of(change.after, field)


def _moves(change: RuleChange) -> str:
    """The changes of verdicts after a colon, the most frequent first; "" if no verdict changes."""
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
    """A sentence on how many detections changed from one verdict to another.

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


def _limits(change: RuleChange) -> str:
    counts = (
        (change.count(before=LEFT_OUT), change.before, "now count"),
        (change.count(after=LEFT_OUT), change.after, "no longer count"),
    )
    return ", and ".join(
        _counted(num, f"beyond the limit of {of.limits[-1]:,} {of.limit_scope}", does)
        for num, of, does in counts
        if num
    )


def _counted(num: int, *words: str) -> str:
    """A number of detections with a verb, in singular or plural."""
    return f"{text.count(num, 'detection')} {' '.join(words)}{'s' if num == 1 else ''}"


def _ap(change: RuleChange) -> str:
    old, new = (value_in_words(protocol, "ap") for protocol in (change.before, change.after))
    return f"AP is the {new}{',' * (',' in new)} instead of the {old}; every verdict stays"


def _recall_points(change: RuleChange) -> str:
    old, new = change.before, change.after
    if not new.uses_recall_points:
        return ""
    if len(old.recall_points) == len(new.recall_points):
        return "Recall points have other last digits, which matters where a recall lies on one"
    return f"Precision is sampled at {len(new.recall_points)} recalls"


def _epsilon(change: RuleChange) -> str:
    if {"ap", "recall_points"} & set(change.names):
        return ""  # it changes only last digits
    return f"Precision is TP / (TP + FP + {change.after.precision_epsilon:.2g}), which changes last digits"


_REASONS: Mapping[str, Callable[[RuleChange], str]] = {
    "iou_type": _shapes,
    **{field: _scale for field, rule in RULES.items() if rule.only_for is not None},
    "min_score": _min_score,
    "thresholds": _thresholds,
    "areas": _areas,
    "limits": _limits,
    "limits_per": _limits,
    "ap": _ap,
    "recall_points": _recall_points,
    "precision_epsilon": _epsilon,
}
"""The sentences that depend on more than the field's value; `protocol.words` has the others."""
