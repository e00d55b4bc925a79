"""Comparability with published numbers: the rules of a result, and how they differ from published rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from boxscore.protocol.protocol import Protocol
from boxscore.protocol.table import NAMED, PROTOCOLS
from boxscore.protocol.words import RULES, FieldChange, changed_fields

NOT_EXPANDED = "classes are not expanded by a hierarchy"
"""Difference of Open Images' data without a hierarchy."""
NO_FREQUENCY = "categories have no frequency"
"""Difference of LVIS' data without groups of classes."""
_MATTERS_UNDER = {NOT_EXPANDED: ("openimages",), NO_FREQUENCY: ("lvis", "lvis_fixed")}
"""Differences that matter under some protocols only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparable:
    """Whether numbers may be compared with published ones: `bool` answers, `str` explains.

    >>> from boxscore.protocol.protocol import Protocol
    >>> str(comparable(Protocol.named("coco")))
    'COCO leaderboard rules'
    >>> print(comparable(Protocol.named("coco", limits=(1, 10, 300)), "float32", ["50 of 5,000 images"]))
    not comparable with COCO leaderboard rules: limits 1, 10, 300 in place of 1, 10, 100; 50 of 5,000 images; IoUs in \
float32
    """

    rules: str
    """The published rules that apply, or the closest ones."""
    differences: tuple[str, ...] = ()
    """Known differences from these rules."""

    def __bool__(self) -> bool:
        return not self.differences

    @property
    def sentence(self) -> str:
        """Sentence below a table."""
        return f"comparable with published numbers: {self}" if self else str(self)

    def to_dict(self) -> dict[str, Any]:
        """Values by name, ready for JSON."""
        return {"is_comparable": bool(self), "rules": self.rules, "differences": list(self.differences)}

    def __str__(self) -> str:
        if self:
            return self.rules
        return f"not comparable with {self.rules}: {'; '.join(self.differences)}"


def comparable(protocol: Protocol, iou_dtype: str = "float64", subset: Sequence[str] = ()) -> Comparable:
    """Comparability of numbers with published ones.

    Args:
        protocol: The rules of the numbers.
        iou_dtype: The type in which similarities were computed.
        subset: Parts of the data that were left out, in words.

    >>> from boxscore.protocol.protocol import Protocol
    >>> [bool(comparable(Protocol.named(name), subset=[NOT_EXPANDED])) for name in ("voc2012", "openimages")]
    [True, False]
    """
    usual = PROTOCOLS.get(protocol.name) or next(
        (each for each in PROTOCOLS.values() if each.replace(name=protocol.name) == protocol), None
    )
    name = protocol.name if usual is None else usual.name
    missing = [words for words in subset if name in _MATTERS_UNDER.get(words, (name,))]
    differences = [*missing, *([f"{protocol.similarity}s in {iou_dtype}"] if iou_dtype != "float64" else [])]
    if usual is None:
        return Comparable(rules="published numbers", differences=("rules of your own", *differences))
    entry = NAMED[usual.name]
    if protocol.iou_type in entry.iou_types:
        usual = usual.replace(iou_type=protocol.iou_type)
    changed = changed_fields(usual.with_numbers_of(protocol), protocol, tuple(RULES))
    return Comparable(rules=entry.rules, differences=(*map(_difference, changed), *differences))


def _difference(change: FieldChange) -> str:
    """A changed field in words; a rule that is on or off needs no other side."""
    rule = RULES[change.field]
    if rule.absent is False:
        return change.after
    return f"{rule.label if rule.needs_label else ''} {change.after} in place of {change.before}".strip()


def of_all(models: Mapping[str, Comparable]) -> Comparable:
    """Comparability of several models under the same rules; a difference of some models is named with them.

    >>> cut = comparable(Protocol.named("coco"), subset=["3 of 9 detections left out"])
    >>> of_all({"a": comparable(Protocol.named("coco")), "b": cut}).differences
    ('b: 3 of 9 detections left out',)
    """
    differences = dict.fromkeys(words for each in models.values() for words in each.differences)
    named = []
    for words in differences:
        names = [name for name, each in models.items() if words in each.differences]
        named.append(words if len(names) == len(models) else f"{', '.join(names)}: {words}")
    return Comparable(rules=next(iter(models.values())).rules, differences=tuple(named))
