"""All that decides a number. The protocols that have a name are in `protocol_table`."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias, get_args

from boxscore._support.exceptions import InputError
from boxscore.protocol.fields import (
    Area,
    areas_of,
    ascending,
    check_choice,
    check_finite,
    check_fraction,
    limits_of,
    names_of,
    recalls_of,
    sigmas_of,
)
from boxscore.protocol.keypoint_rules import KeypointRules

Pixels = Literal["continuous", "inclusive"]
Matching = Literal["best", "best_regular", "next_best"]
Ties = Literal["first", "last"]
Ignored = Literal["crowd", "difficult", "regular", "absent"]
ApRule = Literal[
    "recall_points",
    "interpolated",
    "linear_points",
    "linear_points_to_end",
    "envelope",
    "trapezoid",
    "trapezoid_from_first",
]
Average = Literal["macro", "weighted", "micro"]
Comparison = Literal[">=", ">"]
LimitsPer = Literal["class", "image", "dataset"]
RangesBy = Literal["area", "crowd_index"]
TruthArea = Literal["given", "shape"]
Empty = Literal["keep", "drop_detections", "drop"]


IouType = Literal["bbox", "segm", "boundary", "keypoints", "obb", "probiou"]
"""The similarities that boxscore has: of boxes, of masks, of masks and their boundaries, of keypoints, of oriented
boxes, and of these as Gaussians."""

ProtocolName = Literal[
    "voc2007",
    "voc2012",
    "coco",
    "paper",
    "lvis",
    "lvis_fixed",
    "openimages",
    "crowdhuman",
    "ultralytics",
    "olrp",
    "dota",
    "dota2007",
    "coco_keypoints",
    "crowdpose",
    "coco_wholebody",
    "coco_wholebody_body",
    "coco_wholebody_foot",
    "coco_wholebody_face",
    "coco_wholebody_lefthand",
    "coco_wholebody_righthand",
]
"""The names in `protocol_table.PROTOCOLS`, for type checkers."""

EngineName = Literal["auto", "native", "parallel", "sequential"]
"""Valid values of `engine`."""

REGULAR, DIFFICULT, CROWD, GROUP = range(4)
"""The kinds of truths."""

IOU_TYPES: tuple[IouType, ...] = get_args(IouType)

EXTRA_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "mr": ("mr",),
    "ji": ("ji",),
    "olrp": ("olrp", "olrp_loc", "olrp_fp", "olrp_fn"),
}
"""What may be measured beside AP and recall, and the names of its numbers: the log-average miss rate, the Jaccard
index, the optimal localization recall precision error and its three parts."""

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
    2007). "linear_points": trapezoids through the envelope, which begins at (0, 1), at `recall_points`, where it is
    interpolated linearly, and is 0 from its last recall on (Ultralytics); "linear_points_to_end": from there it falls
    to (1, 0) (Ultralytics until April 2026). "envelope": every step under the curve's envelope (VOC 2012). "trapezoid":
    trapezoids through the raw curve from (0, 1) on (the paper's Alg. 12); "trapezoid_from_first": from its first point
    on (CrowdHuman)."""

    pixels: Pixels
    """Whether a box from x1 to x2 is x2 - x1 wide (continuous) or x2 - x1 + 1 (inclusive pixels)."""

    comparison: Comparison
    """How an IoU compares with a threshold that it reaches."""

    matching: Matching
    """Which truths a detection may take. "best": its best one alone; if that is taken it is a false positive, if that
    is ignored it is dropped (VOC). "best_regular": the same, but only if no regular truth reaches the threshold does an
    ignored one count (as the paper publishes it). "next_best": its best regular one that is free, else its best ignored
    one that is free (COCO)."""

    ignored: Ignored
    """What a truth marked `ignore` is; `Truths.kind` says it for each truth instead. "crowd": a region that holds any
    number of detections, with overlap relative to the detection's own area (COCO). "difficult": an ordinary truth that
    neither rewards nor punishes (VOC). "regular": it counts as any other (LVIS), and so do difficult ones and crowds of
    `Truths.kind`. "absent": all of these are left out (Ultralytics)."""

    ties: Ties = "first"
    """Which of several truths with equal IoU a detection prefers; rows have an order."""

    group_of_weight: float | None = None
    """What a group (`Truths.kind` 3) counts for: 1, one truth, and the first detection in it is a true positive (Open
    Images' challenge); 0, none, and all of its detections are ignored. None: there is no rule for groups, and a truth
    of that kind is an error."""

    federated: bool = False
    """Whether a class counts only in images where it was looked for, as `Truths.coverage` says (LVIS, Open Images).
    Else every class was looked for in every image."""

    areas: tuple[Area, ...] = (Area("all", 0.0, math.inf),)
    """Ranges of truth area to evaluate separately; the first is the one of the main numbers. A truth outside counts as
    ignored, and so does a false positive outside. Also accepts a mapping of names to (low, high), where high may be
    None for no bound."""

    truth_area: TruthArea = "given"
    """The area that decides the range of a truth: the one "given" in `Truths.area`, if there is one, or always that of
    its "shape"."""

    empty: Empty = "keep"
    """What becomes of shapes without area: "keep", they count as any other; "drop_detections", such detections are left
    out, once limits were applied (Open Images); "drop", such truths, too (LVIS)."""

    clips_boxes: bool = False
    """Whether boxes end where their image ends, for which `Truths.image_sizes` must be known (CrowdHuman)."""

    ranges_by: RangesBy = "area"
    """What `areas` are ranges of: the "area" of a shape, or the "crowd_index" of its image (CrowdPose)."""

    limits: tuple[int | None, ...] = (None,)
    """How many detections count, ascending; None is all. The last is that of the main numbers."""

    limits_per: LimitsPer = "class"
    """What `limits` are for: the detections of one image and "class" (COCO), all of one "image" (LVIS), or those of one
    class in the whole "dataset" (LVIS' fixed AP), which allows one limit only. The detections with the highest scores
    count; of equal scores the earlier row, in the dataset the lower image id first."""

    min_score: float | None = None
    """The lowest score that counts; detections below it are left out, before limits are applied. None: any."""

    class_agnostic: bool = False
    """Whether labels are disregarded: every box is of one class."""

    recall_at: tuple[float, ...] = ()
    """Thresholds at which recall is a number of its own, beside the mean over all: `mar_50` (COCO's keypoints). Then
    the mean within the last limit is called `mar`."""

    class_groups: tuple[str, ...] = ()
    """Groups of classes that have a `map` of their own, such as `map_rare`; `Truths.class_groups` says which classes
    are in them (LVIS)."""

    extra_numbers: tuple[str, ...] = ()
    """What is measured beside AP and recall, at the first threshold, in the first area range and within the last limit;
    the plain mean over classes, whatever `average` is. "mr": the log-average miss rate over nine numbers of false
    positives per image from 0.01 to 1. "ji": the Jaccard index of all detections and truths, without ranges and limits
    (CrowdHuman). "olrp": the optimal localization recall precision error, and its parts `olrp_loc`, `olrp_fp` and
    `olrp_fn`."""

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
        from boxscore.protocol.table import PROTOCOLS

        if name not in PROTOCOLS:
            raise InputError(f"`protocol` must be one of {', '.join(PROTOCOLS)}; got {name!r}")
        return PROTOCOLS[name].replace(**changes)

    def replace(self, **changes: Any) -> "Protocol":
        """A copy with other values in some fields; without any it is the same."""
        if not changes:
            return self
        unknown = changes.keys() - {field.name for field in fields(self)}
        if unknown:
            raise InputError(f"a protocol has no field `{min(unknown)}`; it has {_field_names(self)}")
        return replace(self, **changes)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputError(f"`name` must be text; got {type(self.name).__name__}")
        # Lists, arrays and mappings are welcome; what is kept is immutable.
        _set(self, "thresholds", ascending("thresholds", self.thresholds, low=0.0, high=1.0))
        _set(self, "recall_points", ascending("recall_points", self.recall_points, low=0.0, high=1.0))
        _set(self, "recall_at", recalls_of(self.recall_at, self.limits, self.thresholds))
        _set(self, "sigmas", sigmas_of(self.sigmas))
        _set(self, "keypoints", _keypoint_rules(self.keypoints))
        _set(self, "areas", areas_of(self.areas))
        _set(self, "limits", limits_of(self.limits))
        _set(self, "class_groups", names_of("class_groups", self.class_groups))
        _set(self, "extra_numbers", names_of("extra_numbers", self.extra_numbers, EXTRA_NUMBERS))
        _set(self, "min_score", None if self.min_score is None else check_finite("min_score", self.min_score))
        check_choice("ap", self.ap, get_args(ApRule))
        check_choice("pixels", self.pixels, get_args(Pixels))
        check_choice("comparison", self.comparison, get_args(Comparison))
        check_choice("matching", self.matching, get_args(Matching))
        check_choice("ignored", self.ignored, get_args(Ignored))
        check_choice("ties", self.ties, get_args(Ties))
        check_choice("truth_area", self.truth_area, get_args(TruthArea))
        check_choice("empty", self.empty, get_args(Empty))
        check_choice("limits_per", self.limits_per, get_args(LimitsPer))
        check_choice("ranges_by", self.ranges_by, get_args(RangesBy))
        check_choice("average", self.average, get_args(Average))
        for flag in ("class_agnostic", "federated", "clips_boxes"):
            if not isinstance(getattr(self, flag), bool):
                raise InputError(f"`{flag}` must be True or False; got {getattr(self, flag)!r}")
        if self.group_of_weight is not None and self.group_of_weight not in (0, 1):
            raise InputError(f"`group_of_weight` must be 0, 1 or None; got {self.group_of_weight!r}")
        names = {area.name for area in self.areas}
        if clash := [name for name in self.class_groups if name in names]:
            raise InputError(
                f"`class_groups` must not have names of area ranges, as map_{clash[0]} is one; got {clash[0]!r}"
            )
        if self.class_groups and self.average == "micro":
            raise InputError(
                "`class_groups` must be empty where `average` is micro: one curve has no groups of classes"
            )
        if self.keeps_similarity and self.thresholds[0] >= 1:
            raise InputError("`thresholds` must begin below 1 for olrp, which divides by 1 - threshold; got 1")
        if self.limits_per == "dataset" and (len(self.limits) > 1 or self.limits[0] is None):
            raise InputError(f"`limits` must be one number where they are per dataset; got {list(self.limits)}")
        if not isinstance(self.iou_type, str) or not self.iou_type:
            raise InputError(f"`iou_type` must be a text, such as bbox, segm or boundary; got {self.iou_type!r}")
        if not 0 < check_finite("dilation_ratio", self.dilation_ratio) <= 1:
            raise InputError(f"`dilation_ratio` must be above 0 and at most 1; got {self.dilation_ratio!r}")
        if check_finite("precision_epsilon", self.precision_epsilon) < 0:
            raise InputError(f"`precision_epsilon` must not be negative; got {self.precision_epsilon!r}")

    @property
    def title(self) -> str:
        """The name, with the similarity if it is not that of boxes, and a remark if other rules changed.

        >>> Protocol.named("coco", iou_type="segm").title, Protocol.named("coco", limits=[300]).title
        ('coco segm', 'coco, changed')
        """
        from boxscore.protocol.table import PROTOCOLS

        known = PROTOCOLS.get(self.name, self)
        usual = known.iou_type if self.name in PROTOCOLS else "bbox"
        name = self.name if self.iou_type == usual else f"{self.name} {self.iou_type}"
        is_known = known.with_numbers_of(self).replace(iou_type=self.iou_type) == self
        return name if is_known else f"{name}, changed"

    def with_numbers_of(self, other: "Protocol") -> "Protocol":
        """The same rules with the numbers that another one has: more or fewer of them, but each as it was.

        Those are area ranges beside the first, limits before the last, groups of classes, recalls and extra numbers.
        """
        own = {area.name: area for area in self.areas}
        has_areas = other.areas[0] == self.areas[0] and all(own.get(area.name, area) == area for area in other.areas)
        return self.replace(
            areas=other.areas if has_areas else self.areas,
            limits=other.limits if other.limits[-1] == self.limits[-1] else self.limits,
            class_groups=other.class_groups if self.average != "micro" else (),
            extra_numbers=other.extra_numbers,
            recall_at=other.recall_at,
        )

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
        return self.replace(
            thresholds=(threshold,), areas=self.areas[:1], limits=self.limits[-1:], class_groups=(), extra_numbers=()
        )

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
        """The kind of a truth that is marked `ignore`; those that are absent have been left out before."""
        return {"crowd": CROWD, "difficult": DIFFICULT}.get(self.ignored, REGULAR)

    @property
    def needs(self) -> tuple[str, ...]:
        """The fields whose rules leave out, change or ask for something before columns are matched."""
        rules = {
            "min_score": self.min_score is not None,
            "ignored": self.ignored == "absent",
            "federated": self.federated,
            "truth_area": self.truth_area != "given",
            "empty": self.empty != "keep",
            "clips_boxes": self.clips_boxes,
            "ranges_by": self.ranges_by != "area",
            "extra_numbers": bool(self.extra_numbers),
        }
        return tuple(name for name, is_needed in rules.items() if is_needed)

    @property
    def is_plain(self) -> bool:
        """Whether columns are matched as they come."""
        return not self.needs

    @property
    def limit_scope(self) -> str:
        """What a limit is for, in words."""
        words = {"class": "per image and class", "image": "per image", "dataset": "per class over all images"}
        return words[self.limits_per]

    @property
    def left_out(self) -> str:
        """Which detections no number counts, in words; empty: none.

        >>> Protocol.named("coco").left_out, Protocol.named("voc2007").left_out
        ('beyond the limit of 100 per image and class', '')
        """
        limit = self.limits[-1]
        rules = [
            "" if self.min_score is None else f"with a score below {self.min_score:g}",
            "" if limit is None else f"beyond the limit of {limit:,} {self.limit_scope}",
            "of a class that was not looked for" if self.federated else "",
            "" if self.empty == "keep" else "without area",
            "without a sure keypoint" if self.keypoints.needs_scores else "",
        ]
        words = [rule for rule in rules if rule]
        return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)

    @property
    def match_limits(self) -> tuple[int | None, ...]:
        """The limits that matching applies; those over the dataset are applied to a whole tally."""
        return (None,) if self.limits_per == "dataset" else self.limits

    @property
    def keeps_similarity(self) -> bool:
        """Whether a tally has the similarities of true positives."""
        return "olrp" in self.extra_numbers

    @property
    def names_thresholds(self) -> bool:
        """Whether numbers at one threshold have a name of their own, such as `map_50`.

        They have if there are several thresholds, or if the protocol of that name has several: a protocol that was
        reduced to one threshold keeps the names.
        """
        from boxscore.protocol.table import PROTOCOLS

        return len(self.thresholds) > 1 or len(PROTOCOLS.get(self.name, self).thresholds) > 1

    @property
    def extra_names(self) -> tuple[str, ...]:
        """The names of the numbers beside AP and recall."""
        return tuple(name for extra in self.extra_numbers for name in EXTRA_NUMBERS[extra])

    @property
    def extent(self) -> float:
        """What the last pixel adds to a length."""
        return extent_of(self.pixels)

    @property
    def largest_limit(self) -> float:
        """The number of detections that matching keeps per image and class, or per image; infinity for all."""
        return math.inf if self.match_limits[-1] is None else self.match_limits[-1]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: infinite bounds are None."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        plain["thresholds"] = list(self.thresholds)
        plain["recall_points"] = list(self.recall_points)
        plain["limits"] = list(self.limits)
        plain["class_groups"] = list(self.class_groups)
        plain["extra_numbers"] = list(self.extra_numbers)
        plain["recall_at"] = list(self.recall_at)
        plain["sigmas"] = list(self.sigmas)
        plain["keypoints"] = self.keypoints._asdict()
        plain["areas"] = {name: [low, None if high == math.inf else high] for name, low, high in self.areas}
        return plain


ProtocolLike: TypeAlias = ProtocolName | Protocol
"""A protocol, or the name of one: what `protocol` is wherever it is an argument."""


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
    raise InputError(f"`keypoints` must be a boxscore.protocol.KeypointRules; got {rules!r}")


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
