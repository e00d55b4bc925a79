"""All that decides a number, and the named protocols: `voc2007`, `coco`, `paper`, `coco_keypoints`, …"""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from boxscore._support.exceptions import InputError
from boxscore.model.keypoint_rules import (
    BOX_SHARE,
    COCO_SIGMAS,
    CROWDPOSE_SIGMAS,
    WHOLEBODY_PARTS,
    KeypointRules,
)
from boxscore.model.protocol_fields import (
    Area,
    areas_of,
    ascending,
    check_choice,
    check_finite,
    check_fraction,
    limits_of,
    recalls_of,
    sigmas_of,
)

Pixels = Literal["continuous", "inclusive"]
Matching = Literal["best", "best_regular", "next_best"]
ApRule = Literal["recall_points", "interpolated", "envelope", "trapezoid"]
Average = Literal["macro", "weighted", "micro"]
Comparison = Literal[">=", ">"]
LimitsPer = Literal["class", "image"]
RangesBy = Literal["area", "crowd_index"]


REGULAR, DIFFICULT, CROWD, GROUP = range(4)
"""The kinds of truths."""

IOU_TYPES = ("bbox", "segm", "boundary", "keypoints", "obb", "probiou")
"""The similarities that boxscore has: of boxes, of masks, of masks and their boundaries, of keypoints, of oriented
boxes, and of these as Gaussians."""

POOLED = -1
"""The label of all classes taken as one."""

LARGEST_SIDE = 1e18
"""Sides beyond this could make areas that overflow, in single precision."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Protocol:
    """All that decides a number. Immutable and hashable; `replace` makes a changed copy.

    >>> protocol = Protocol.named("coco", limits=(1, 10, 300))
    >>> protocol.limits, len(protocol.thresholds)
    ((1, 10, 300), 10)
    >>> Protocol.named("voc2007", comparison=">").thresholds
    (0.5,)
    """

    name: str
    """What it is called in tables and files."""

    thresholds: tuple[float, ...]
    """IoU thresholds, ascending. Every one gets its own matching."""

    recall_points: tuple[float, ...]
    """Recalls at which `curves` samples precision, ascending; AP is made from them where `ap` says so."""

    ap: ApRule
    """The area under a curve. "recall_points": the mean of the precisions at `recall_points`; a mean over classes takes
    all of these precisions at once (COCO). "interpolated": the sum of precision / number of points, per class (VOC
    2007). "envelope": every step under the curve's envelope (VOC 2012). "trapezoid": trapezoids through the raw
    curve from (0, 1) on (the paper's Alg. 12)."""

    pixels: Pixels
    """Whether a box from x1 to x2 is x2 - x1 wide (continuous) or x2 - x1 + 1 (inclusive pixels)."""

    comparison: Comparison
    """How an IoU compares with a threshold that it reaches."""

    matching: Matching
    """Which truths a detection may take. "best": its best one alone; if that is taken it is a false positive, if that
    is ignored it is dropped (VOC). "best_regular": the same, but only if no regular truth reaches the threshold does an
    ignored one count (as the paper publishes it). "next_best": its best regular one that is free, else its best ignored
    one that is free (COCO). Of truths with equal IoU "next_best" takes the last, the others the first."""

    ignored: Literal["crowd", "difficult"]
    """What a truth marked `ignore` is; `Truths.kind` says it for each truth instead. "crowd": a region that holds any
    number of detections, with overlap relative to the detection's own area (COCO). "difficult": an ordinary truth that
    neither rewards nor punishes (VOC)."""

    areas: tuple[Area, ...] = (Area("all", 0.0, math.inf),)
    """Ranges of truth area to evaluate separately; the first is the one of the main numbers. A truth outside counts as
    ignored, and so does a false positive outside. Also accepts a mapping of names to (low, high), where high may be
    None for no bound."""

    ranges_by: RangesBy = "area"
    """What `areas` are ranges of: the "area" of a shape, or the "crowd_index" of its image (CrowdPose)."""

    limits: tuple[int | None, ...] = (None,)
    """How many detections count, ascending; None is all. The last is that of the main numbers."""

    limits_per: LimitsPer = "class"
    """What `limits` are for: the detections of one image and "class" (COCO), or all of one "image" (LVIS). The
    detections with the highest scores count; of equal scores the earlier row."""

    class_agnostic: bool = False
    """Whether labels are disregarded: every box is of one class."""

    recall_at: tuple[float, ...] = ()
    """Thresholds at which recall is a number of its own, beside the mean over all: `mar_50` (COCO's keypoints). Then
    the mean within the last limit is called `mar`."""

    average: Average = "macro"
    """Over classes: the plain mean ("macro"), the mean weighted by the number of truths ("weighted"), or one curve
    through the detections of all classes, each matched within its class ("micro")."""

    iou_type: str = "bbox"
    """Which similarity of which shapes: "bbox", IoU of boxes; "segm", IoU of masks; "boundary", of the masks and of
    their boundaries, whichever is smaller, and of the masks alone with a crowd (Cheng et al. 2021); "keypoints", OKS;
    "obb", IoU of oriented boxes; "probiou", of oriented boxes as Gaussians."""

    dilation_ratio: float = 0.02
    """The width of boundaries as a share of the image's diagonal, for `iou_type="boundary"`."""

    sigmas: tuple[float, ...] = ()
    """How far apart annotators place each keypoint, relative to the size of the object; for `iou_type="keypoints"`."""

    keypoints: KeypointRules = KeypointRules()
    """Which keypoints count, and what their distances are relative to."""

    precision_epsilon: float = 0.0
    """Added to TP + FP before dividing; COCO adds `np.spacing(1)`, so a first hit has precision 1 - 2.2e-16."""

    @classmethod
    def named(cls, name: str, /, **changes: Any) -> "Protocol":
        """The protocol called `name`, with `changes` to any of its fields."""
        if name not in PROTOCOLS:
            raise InputError(f"`protocol` must be one of {', '.join(PROTOCOLS)}; got {name!r}")
        return PROTOCOLS[name].replace(**changes)

    def replace(self, **changes: Any) -> "Protocol":
        """A copy with other values in some fields."""
        unknown = changes.keys() - {field.name for field in fields(self)}
        if unknown:
            raise InputError(f"a protocol has no field `{min(unknown)}`; it has {_field_names(self)}")
        return replace(self, **changes)

    def __post_init__(self) -> None:
        # Lists, arrays and mappings are welcome; what is kept is immutable.
        _set(self, "thresholds", ascending("thresholds", self.thresholds, low=0.0, high=1.0))
        _set(self, "recall_points", ascending("recall_points", self.recall_points, low=0.0, high=1.0))
        _set(self, "recall_at", recalls_of(self.recall_at, self.limits, self.thresholds))
        _set(self, "sigmas", sigmas_of(self.sigmas))
        _set(self, "keypoints", _keypoint_rules(self.keypoints))
        _set(self, "areas", areas_of(self.areas))
        _set(self, "limits", limits_of(self.limits))
        check_choice("ap", self.ap, get_args(ApRule))
        check_choice("pixels", self.pixels, get_args(Pixels))
        check_choice("comparison", self.comparison, get_args(Comparison))
        check_choice("matching", self.matching, get_args(Matching))
        check_choice("ignored", self.ignored, ("crowd", "difficult"))
        check_choice("limits_per", self.limits_per, get_args(LimitsPer))
        check_choice("ranges_by", self.ranges_by, get_args(RangesBy))
        check_choice("average", self.average, get_args(Average))
        if not isinstance(self.class_agnostic, bool):
            raise InputError(f"`class_agnostic` must be True or False; got {self.class_agnostic!r}")
        if not isinstance(self.iou_type, str) or not self.iou_type:
            raise InputError(f"`iou_type` must be a text, such as bbox, segm or boundary; got {self.iou_type!r}")
        if not 0 < check_finite("dilation_ratio", self.dilation_ratio) <= 1:
            raise InputError(f"`dilation_ratio` must be above 0 and at most 1; got {self.dilation_ratio!r}")
        if not 0 <= self.precision_epsilon < math.inf:
            raise InputError(f"`precision_epsilon` must be finite and not negative; got {self.precision_epsilon!r}")

    @property
    def title(self) -> str:
        """The name, with the similarity if it is not that of boxes, and a remark if other rules changed.

        >>> Protocol.named("coco", iou_type="segm").title, Protocol.named("coco", limits=[300]).title
        ('coco segm', 'coco, changed')
        """
        known = PROTOCOLS.get(self.name, self)
        usual = known.iou_type if self.name in PROTOCOLS else "bbox"
        name = self.name if self.iou_type == usual else f"{self.name} {self.iou_type}"
        is_known = known.replace(iou_type=self.iou_type) == self
        return name if is_known else f"{name}, changed"

    @property
    def similarity(self) -> str:
        """What thresholds are thresholds of, as tables name it."""
        return {"keypoints": "OKS", "probiou": "ProbIoU"}.get(self.iou_type, "IoU")

    @property
    def cutoffs(self) -> tuple[float, ...]:
        """The thresholds as IoUs are compared with them: COCO takes 1 - 1e-10 for anything above."""
        if self.matching == "next_best" and self.comparison == ">=":
            return tuple(min(threshold, 1 - 1e-10) for threshold in self.thresholds)  # as in COCO
        return self.thresholds

    def threshold_index(self, iou: float | None = None) -> int:
        """The index of a threshold; without one, that of 0.5, or 0 where there is no 0.5.

        >>> Protocol.named("coco").threshold_index(0.75), Protocol.named("coco").threshold_index()
        (5, 0)
        """
        index = self.find_threshold(0.5 if iou is None else iou)
        if index is None and iou is not None:
            known = ", ".join(f"{threshold:g}" for threshold in self.thresholds)
            raise InputError(f"`iou` must be one of the thresholds that were measured ({known}); got {iou!r}")
        return index or 0

    def at(self, iou: float | None = None) -> "Protocol":
        """The same rules at one threshold, in the first area range and within the largest limit.

        The threshold may be a new one; without one it is 0.5, or the first where there is no 0.5.
        """
        index = self.threshold_index() if iou is None else self.find_threshold(iou)
        threshold = iou if index is None else self.thresholds[index]
        return self.replace(thresholds=(threshold,), areas=self.areas[:1], limits=self.limits[-1:])

    def find_threshold(self, iou: float) -> int | None:
        """The index of a threshold, or None; whatever its last digits, as linspace's 0.6 has others than 0.6."""
        iou = check_fraction("iou", iou)
        return next((t for t, threshold in enumerate(self.thresholds) if abs(threshold - iou) < 1e-9), None)

    @property
    def is_sampled(self) -> bool:
        """Whether AP is made from precisions at recall points."""
        return self.ap in ("recall_points", "interpolated")

    @property
    def ignored_kind(self) -> int:
        """The kind of a truth that is marked `ignore`."""
        return CROWD if self.ignored == "crowd" else DIFFICULT

    @property
    def extent(self) -> float:
        """What the last pixel adds to a length."""
        return extent_of(self.pixels)

    @property
    def largest_limit(self) -> float:
        """The number of detections kept per image and class, or per image; infinity for all."""
        return math.inf if self.limits[-1] is None else self.limits[-1]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: infinite bounds are None."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        plain["thresholds"] = list(self.thresholds)
        plain["recall_points"] = list(self.recall_points)
        plain["limits"] = list(self.limits)
        plain["recall_at"] = list(self.recall_at)
        plain["sigmas"] = list(self.sigmas)
        plain["keypoints"] = self.keypoints._asdict()
        plain["areas"] = {name: [low, None if high == math.inf else high] for name, low, high in self.areas}
        return plain


def extent_of(pixels: Pixels) -> float:
    """What the last pixel adds to a length: 1 if it is inside the box, 0 if coordinates are continuous."""
    return 1.0 if pixels == "inclusive" else 0.0


def _set(protocol: Protocol, name: str, value: object) -> None:
    object.__setattr__(protocol, name, value)


def _field_names(protocol: Protocol) -> str:
    return ", ".join(field.name for field in fields(protocol))


def iou_types_of(value: object, allowed: Sequence[str] = IOU_TYPES) -> tuple[str, ...]:
    """One similarity or several, each once.

    >>> iou_types_of("segm"), iou_types_of(["bbox", "segm"])
    (('segm',), ('bbox', 'segm'))
    """
    types = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, tuple | list) else ()
    if not types or any(each not in allowed or types.count(each) > 1 for each in types):
        raise InputError(f"`iou_type` must be one of {', '.join(allowed)} or a tuple of these; got {value!r}")
    return types


def _keypoint_rules(rules: Any) -> KeypointRules:
    if isinstance(rules, KeypointRules):
        return rules
    if isinstance(rules, Mapping) and set(rules) <= set(KeypointRules._fields):
        return KeypointRules(**rules)
    raise InputError(f"`keypoints` must be a boxscore.KeypointRules; got {rules!r}")


def _evenly(first: float, last: float, num: int) -> tuple[float, ...]:
    """Numbers from first to last at equal distances, with the bits of `np.linspace`."""
    step = (last - first) / (num - 1)
    return (*(first + i * step for i in range(num - 1)), last)


_VOC2007 = Protocol(
    name="voc2007",
    thresholds=(0.5,),
    recall_points=tuple(i * 0.1 for i in range(11)),  # as in py-faster-rcnn: 0.3 is 0.30000000000000004
    ap="interpolated",
    pixels="inclusive",
    comparison=">=",
    matching="best",
    ignored="difficult",
)

_VOC2012 = _VOC2007.replace(name="voc2012", recall_points=_evenly(0.0, 1.0, 101), ap="envelope")

_DOTA = _VOC2012.replace(name="dota", pixels="continuous", comparison=">", iou_type="obb")

_DOTA2007 = _VOC2007.replace(name="dota2007", pixels="continuous", comparison=">", iou_type="obb")

_PAPER = _VOC2012.replace(name="paper", ap="trapezoid", comparison=">", matching="best_regular")

_COCO = Protocol(
    name="coco",
    thresholds=_evenly(0.5, 0.95, 10),
    recall_points=_evenly(0.0, 1.0, 101),
    ap="recall_points",
    pixels="continuous",
    comparison=">=",
    matching="next_best",
    ignored="crowd",
    areas=(
        Area("all", 0.0, 1e10),
        Area("small", 0.0, 32.0**2),
        Area("medium", 32.0**2, 96.0**2),
        Area("large", 96.0**2, 1e10),
    ),
    limits=(1, 10, 100),
    precision_epsilon=sys.float_info.epsilon,
)

_COCO_KEYPOINTS = _COCO.replace(
    name="coco_keypoints",
    areas=tuple(area for area in _COCO.areas if area.name != "small"),
    limits=(20,),
    recall_at=(0.5, 0.75),
    iou_type="keypoints",
    sigmas=COCO_SIGMAS,
)

_CROWDPOSE = _COCO_KEYPOINTS.replace(
    name="crowdpose",
    ranges_by="crowd_index",
    areas=(
        Area("all", 0.0, math.inf),
        Area("easy", 0.0, math.nextafter(0.2, 0.0)),
        Area("medium", 0.2, math.nextafter(0.8, 0.0)),
        Area("hard", 0.8, math.inf),
    ),
    sigmas=CROWDPOSE_SIGMAS,
    keypoints=KeypointRules(box_share=BOX_SHARE, needs_scores=True),
)


def _wholebody() -> Iterator[Protocol]:
    """The protocol of the whole body, and those of its parts."""
    num_body = len(WHOLEBODY_PARTS["body"])
    whole = KeypointRules(num_area_points=num_body, needs_scores=True, score_key="wholebody_score")
    every = tuple(sigma for sigmas in WHOLEBODY_PARTS.values() for sigma in sigmas)
    yield _COCO_KEYPOINTS.replace(name="coco_wholebody", sigmas=every, keypoints=whole)
    first = 0
    for part, sigmas in WHOLEBODY_PARTS.items():
        rules = whole._replace(first=first, score_key="score" if part == "body" else f"{part}_score")
        yield _COCO_KEYPOINTS.replace(name=f"coco_wholebody_{part}", sigmas=sigmas, keypoints=rules)
        first += len(sigmas)


def are_alike(protocols: Iterable[Protocol]) -> bool:
    """Whether protocols are the same, but for their `iou_type`."""
    return len({protocol.replace(iou_type="bbox") for protocol in protocols}) <= 1


def as_protocol(protocol: str | Protocol) -> Protocol:
    """A protocol, or the one of that name."""
    if isinstance(protocol, str):
        return Protocol.named(protocol)
    if not isinstance(protocol, Protocol):
        raise InputError(f"`protocol` must be a name or a boxscore.Protocol; got {type(protocol).__name__}")
    return protocol


PROTOCOLS: Mapping[str, Protocol] = {
    protocol.name: protocol
    for protocol in (_VOC2007, _VOC2012, _COCO, _PAPER, _DOTA, _DOTA2007, _COCO_KEYPOINTS, _CROWDPOSE, *_wholebody())
}
"""The protocols that have a name."""

_OF_SHAPES = {("coco", "keypoints"): "coco_keypoints"}
"""The protocols that a family has for a similarity, where its main one has other rules."""


def protocol_of(name: str, iou_type: str) -> Protocol:
    """The protocol of a name for a similarity.

    >>> protocol_of("coco", "keypoints").limits, protocol_of("coco", "segm").limits
    ((20,), (1, 10, 100))
    """
    return Protocol.named(_OF_SHAPES.get((name, iou_type), name), iou_type=iou_type)
