"""Whether numbers may be compared with published ones: under whose rules they were measured, and what differs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from boxscore.protocol.protocol import Protocol
from boxscore.protocol.table import PROTOCOLS
from boxscore.protocol.words import STEPS, changed_fields

RULES = {
    "coco": "COCO leaderboard rules",
    "coco_keypoints": "COCO keypoint leaderboard rules",
    "olrp": "COCO leaderboard rules",
    "voc2007": "PASCAL VOC 2007 rules",
    "voc2012": "PASCAL VOC 2012 rules",
    "lvis": "LVIS leaderboard rules",
    "lvis_fixed": "LVIS fixed AP rules",
    "openimages": "Open Images challenge rules",
    "crowdhuman": "CrowdHuman rules",
    "crowdpose": "CrowdPose rules",
    "dota": "DOTA rules",
    "dota2007": "DOTA rules, AP at 11 recall points",
    "ultralytics": "Ultralytics validation rules",
}
"""Under whose rules numbers are published that a protocol's may be compared with."""

_SHAPES = {"coco": ("bbox", "segm"), "olrp": ("bbox", "segm"), "lvis": ("bbox", "segm"), "lvis_fixed": ("bbox", "segm")}
"""The similarities that the rules of a name are published for, where these are not the protocol's own alone."""

_LABELS = {
    "iou_type": "shapes",
    "dilation_ratio": "width of boundaries",
    "sigmas": "sigmas",
    "min_score": "lowest score",
    "thresholds": "thresholds",
    "ignored": "ignored truths",
    "areas": "area ranges",
    "limits": "limits",
    "limits_per": "limits",
    "recall_points": "recall points",
    "precision_epsilon": "epsilon of precision",
    "class_groups": "groups of classes",
}
"""What a field is called before its values, where these don't say it."""

_HARMLESS = ("extra_numbers", "class_groups", "recall_at")
"""Fields that add numbers and change none."""

NOT_EXPANDED = "classes are not expanded by a hierarchy"
"""Of Open Images' data without a hierarchy."""
NO_FREQUENCY = "categories have no frequency"
"""Of LVIS' data without groups of classes."""
_MATTERS_UNDER = {NOT_EXPANDED: ("openimages",), NO_FREQUENCY: ("lvis", "lvis_fixed")}
"""What is a difference under some protocols only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparable:
    """Whether numbers may be compared with published ones; `bool` says it, `str` in words.

    >>> from boxscore.protocol.protocol import Protocol
    >>> str(comparable(Protocol.named("coco")))
    'COCO leaderboard rules'
    >>> print(comparable(Protocol.named("coco", limits=(1, 10, 300)), "float32", ["50 of 5,000 images"]))
    not comparable with COCO leaderboard rules: limits 1, 10, 300 in place of 1, 10, 100; 50 of 5,000 images; IoUs in \
float32
    """

    rules: str
    """Whose rules they are, or are closest to."""
    differences: tuple[str, ...] = ()
    """What differs from these; empty: nothing that is known."""

    def __bool__(self) -> bool:
        return not self.differences

    @property
    def sentence(self) -> str:
        """The line below a table."""
        return f"comparable with published numbers: {self}" if self else str(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"is_comparable": bool(self), "rules": self.rules, "differences": list(self.differences)}

    def __str__(self) -> str:
        if self:
            return self.rules
        return f"not comparable with {self.rules}: {'; '.join(self.differences)}"


def comparable(protocol: Protocol, iou_dtype: str = "float64", subset: Sequence[str] = ()) -> Comparable:
    """What is known of numbers under a protocol. `subset`: what was left out of the data, in words.

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
    if protocol.iou_type in _SHAPES.get(usual.name, ()):
        usual = usual.replace(iou_type=protocol.iou_type)
    usual = usual.with_numbers_of(protocol)
    fields = [name for step in STEPS for name in step.fields if name not in _HARMLESS]
    changed = [
        after
        if isinstance(getattr(usual, name), bool)
        else f"{_LABELS.get(name, '')} {after} in place of {before}".strip()
        for name, before, after in changed_fields(usual, protocol, tuple(fields))
    ]
    rules = RULES.get(usual.name, f"the rules of {usual.name}")
    return Comparable(rules=rules, differences=(*changed, *differences))


def of_all(models: Mapping[str, Comparable]) -> Comparable:
    """What is known of several models under the same rules; what differs in some of them only is named with these.

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
