"""Everything that decides a number. The protocols that have a name are in `protocol.table`."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from numbers import Integral
from operator import lt
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from boxscore._support.exceptions import InputError
from boxscore.protocol.fields import check_choice, check_finite, check_fraction
from boxscore.protocol.words import RULES, ideas_in_words, value_in_words

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
"""The similarities that boxscore has; `Protocol.iou_type` describes them."""

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
"""The names in `protocol.table`, for type checkers."""

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
"""Values of `Protocol.extra_numbers`, each with the names of its numbers."""

POOLED = -1
"""The label of all classes taken as one."""

LARGEST_SIDE = 1e18
"""Sides beyond this could make areas that overflow, in single precision."""


class Area(NamedTuple):
    """A named range of box areas; both ends belong to it."""

    name: str
    low: float
    high: float


class KeypointRules(NamedTuple):
    """Rules of OKS, the similarity of keypoints, beside the sigmas: points that count, and the size of the object."""

    first: int = 0
    """Index of the first point that counts; there is one per sigma. Parts of a whole body are consecutive points."""
    num_area_points: int | None = None
    """Number of first points whose outer box gives a detection's area; None: all points."""
    box_share: float | None = None
    """Share of its box that a truth's area is taken to be (CrowdPose); None: the given area."""
    needs_scores: bool = False
    """Whether a detection is left out if none of its points has a score above 0 (as in xtcocotools)."""
    score_key: str = "score"
    """Key of the score in a file of results that has several; `score` where it is missing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Protocol:
    """Everything that decides a number. Immutable and hashable; `replace` makes a changed copy, `print` shows it.

    Its fields answer five questions:

    - What is compared: `iou_type`, `pixels`, `clips_boxes`, `dilation_ratio`, `sigmas`, `keypoints`.
    - Who matches: `thresholds`, `comparison`, `matching`, `ties`, `ignored`, `group_of_weight`, `class_agnostic`.
    - What is left out: `min_score`, `limits`, `limits_per`, `federated`, `empty`, `areas`, `ranges_by`, `truth_area`.
    - Which curve: `ap`, `recall_points`, `precision_epsilon`.
    - Which numbers: `average`, `class_groups`, `recall_at`, `extra_numbers`.

    >>> protocol = Protocol.named("coco", limits=(1, 10, 300))
    >>> protocol.limits, len(protocol.thresholds)
    ((1, 10, 300), 10)
    >>> print(Protocol.named("voc2007", comparison=">"))
    voc2007, changed
    what is compared: boxes; inclusive pixels (+1)
    who matches: thresholds 0.50; IoU > threshold; only the best truth; the first of equal truths; \
ignored truths difficult
    what is left out: limits all; limits apply per image and class; areas all from 0
    which curve: mean precision at recall points, class by class; recall points 11 from 0 to 1
    which numbers: mean over classes
    """

    name: str
    """Name in tables and files."""

    # What is compared

    iou_type: str = "bbox"
    """Shapes, and how their similarity is measured.

    - "bbox": IoU of boxes.
    - "segm": IoU of masks.
    - "boundary": IoU of masks or of their boundaries, whichever is smaller; with a crowd, of masks (Cheng et al. 2021).
    - "keypoints": OKS.
    - "obb": IoU of oriented boxes.
    - "probiou": similarity of oriented boxes as Gaussians.
    """

    pixels: Pixels
    """Width of a box from x1 to x2: x2 - x1 ("continuous") or x2 - x1 + 1 ("inclusive")."""

    clips_boxes: bool = False
    """Whether boxes end where their image ends, for which `Truths.image_sizes` must be known (CrowdHuman)."""

    dilation_ratio: float = 0.02
    """Width of boundaries as a share of the image's diagonal, for `iou_type="boundary"`."""

    sigmas: tuple[float, ...] = ()
    """Distance between annotators for each keypoint, relative to the size of the object; for keypoints."""

    keypoints: KeypointRules = KeypointRules()
    """Keypoints that count, and the size that their distances are relative to."""

    # Who matches

    thresholds: tuple[float, ...]
    """IoU thresholds, ascending. Detections are matched at each of them separately."""

    comparison: Comparison
    """How an IoU compares with a threshold that it reaches."""

    matching: Matching
    """Truths that a detection may take.

    - "best": its best one; if that is taken it is a false positive, if that is ignored it is dropped (VOC).
    - "best_regular": its best regular one; an ignored one counts only if no regular one reaches the threshold (as the
      paper publishes it).
    - "next_best": its best regular one that is free, else its best ignored one that is free (COCO).
    """

    ties: Ties = "first"
    """Which of several truths with equal IoU a detection prefers, by their rows."""

    ignored: Ignored
    """Kind of a truth that is marked `ignore`; `Truths.kind` overrides it for each truth.

    - "crowd": a region that takes any number of detections, with overlap relative to the detection's area (COCO).
    - "difficult": a truth that neither rewards nor punishes (VOC).
    - "regular": it counts as any other, and so do difficult truths and crowds of `Truths.kind` (LVIS).
    - "absent": all of these are left out (Ultralytics).
    """

    group_of_weight: float | None = None
    """Number of truths that a group (`Truths.kind` 3) counts for.

    - 1: the first detection in it is a true positive (Open Images' challenge).
    - 0: all of its detections are ignored.
    - None: a truth of that kind is an error.
    """

    class_agnostic: bool = False
    """Whether labels are disregarded, so that all boxes are of one class."""

    # What is left out

    min_score: float | None = None
    """Lowest score that counts; None: any. Other detections are left out before limits are applied."""

    limits: tuple[int | None, ...] = (None,)
    """Numbers of detections that count, ascending; None is all. `map` uses the last."""

    limits_per: LimitsPer = "class"
    """Detections to which `limits` apply; those with the highest scores count.

    - "class": the detections of one image and class (COCO).
    - "image": all detections of one image (LVIS).
    - "dataset": the detections of one class in all images, with one limit (LVIS' fixed AP).

    Of equal scores the earlier row counts first, in the dataset the lower image id.
    """

    federated: bool = False
    """Whether a class counts only in images where it was verified, as `Truths.coverage` says (LVIS, Open Images)."""

    empty: Empty = "keep"
    """Treatment of shapes without area.

    - "keep": they count as any other.
    - "drop_detections": such detections are left out, after limits are applied (Open Images).
    - "drop": such truths are left out, too (LVIS).
    """

    areas: tuple[Area, ...] = (Area("all", 0.0, math.inf),)
    """Named ranges of truth area, both ends included, each evaluated separately; `map` uses the first. A truth outside
    counts as ignored, and so does a false positive outside. A mapping of names to (low, high) is accepted, where high
    may be None for no bound."""

    ranges_by: RangesBy = "area"
    """Quantity that `areas` are ranges of: the "area" of a shape, or the "crowd_index" of its image (CrowdPose)."""

    truth_area: TruthArea = "given"
    """Area that decides the range of a truth: the one "given" in `Truths.area`, if any, or always the
    area of its "shape"."""

    # Which curve

    ap: ApRule
    """Area under a precision-recall curve.

    - "recall_points": mean of the precisions at `recall_points`; a mean over classes takes all of these precisions at
      once (COCO).
    - "interpolated": sum of precision / number of points, class by class (VOC 2007).
    - "linear_points": trapezoids through the envelope at `recall_points`; it begins at (0, 1), is interpolated
      linearly, and is 0 beyond its last recall (Ultralytics).
    - "linear_points_to_end": the envelope falls from its last recall to (1, 0) (Ultralytics until April 2026).
    - "envelope": every step under the curve's envelope (VOC 2012).
    - "trapezoid": trapezoids through the raw curve, beginning at (0, 1) (the paper's Alg. 12).
    - "trapezoid_from_first": trapezoids through the raw curve, beginning at its first point (CrowdHuman).
    """

    recall_points: tuple[float, ...]
    """Recalls at which `curves` samples precision, ascending; some rules of `ap` use them."""

    precision_epsilon: float = 0.0
    """Addend to TP + FP before dividing; COCO adds `np.spacing(1)`, so a first hit has precision 1 - 2.2e-16."""

    # Which numbers

    average: Average = "macro"
    """Mean over classes.

    - "macro": unweighted.
    - "weighted": weighted by the number of truths.
    - "micro": one curve through the detections of all classes, each matched within its class.
    """

    class_groups: tuple[str, ...] = ()
    """Groups of classes with a `map` for each, such as `map_rare`; `Truths.class_groups` lists their classes (LVIS)."""

    recall_at: tuple[float, ...] = ()
    """Thresholds at which recall is a number, such as `mar_50`, beside the mean over all, which is then called `mar`
    within the last limit (COCO's keypoints)."""

    extra_numbers: tuple[str, ...] = ()
    """Numbers beside AP and recall, at the first threshold, in the first area range and within the last limit; each is
    the unweighted mean over classes.

    - "mr": log-average miss rate over nine numbers of false positives per image from 0.01 to 1.
    - "ji": Jaccard index of all detections and truths, without ranges and limits (CrowdHuman).
    - "olrp": optimal localization recall precision error, with its parts `olrp_loc`, `olrp_fp` and `olrp_fn`.
    """

    @classmethod
    def named(cls, name: str, /, **changes: Any) -> "Protocol":
        """The protocol called `name`, with `changes` to any of its fields.

        Args:
            name: A name in `protocol.table`, such as "coco" or "voc2012".
            **changes: New values by field.

        Raises:
            InputError: If a name, a field or a value is unknown.
        """
        from boxscore.protocol.table import PROTOCOLS

        if name not in PROTOCOLS:
            raise InputError(f"`protocol` must be one of {', '.join(PROTOCOLS)}; got {name!r}")
        return PROTOCOLS[name].replace(**changes)

    def replace(self, **changes: Any) -> "Protocol":
        """A copy with other values in some fields.

        Args:
            **changes: New values by field; without any, the protocol itself is returned.

        Raises:
            InputError: If a field or a value is unknown.
        """
        if not changes:
            return self
        unknown = changes.keys() - {field.name for field in fields(self)}
        if unknown:
            raise InputError(f"a protocol has no field `{min(unknown)}`; it has {_field_names(self)}")
        return replace(self, **changes)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputError(f"`name` must be text; got {type(self.name).__name__}")
        # Lists, arrays and mappings are accepted, and stored as immutable values.
        _set(self, "thresholds", _ascending("thresholds", self.thresholds))
        _set(self, "recall_points", _ascending("recall_points", self.recall_points))
        _set(self, "recall_at", _recalls(self.recall_at, self.limits, self.thresholds))
        _set(self, "sigmas", _sigmas(self.sigmas))
        _set(self, "keypoints", _keypoint_rules(self.keypoints))
        _set(self, "areas", _areas(self.areas))
        _set(self, "limits", _limits(self.limits))
        _set(self, "class_groups", _names("class_groups", self.class_groups))
        _set(self, "extra_numbers", _names("extra_numbers", self.extra_numbers, EXTRA_NUMBERS))
        _set(self, "min_score", None if self.min_score is None else check_finite("min_score", self.min_score))
        for name, allowed in _CHOICES.items():
            check_choice(name, getattr(self, name), allowed)
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
            raise InputError(
                "must begin below 1 for olrp, which divides by 1 - threshold; got 1", argument="thresholds"
            )
        if self.limits_per == "dataset" and (len(self.limits) > 1 or self.limits[0] is None):
            raise InputError(
                f"must be one number where they are per dataset; got {list(self.limits)}", argument="limits"
            )
        if not isinstance(self.iou_type, str) or not self.iou_type:
            raise InputError(f"`iou_type` must be a text, such as bbox, segm or boundary; got {self.iou_type!r}")
        if not 0 < check_finite("dilation_ratio", self.dilation_ratio) <= 1:
            raise InputError(f"`dilation_ratio` must be above 0 and at most 1; got {self.dilation_ratio!r}")
        if check_finite("precision_epsilon", self.precision_epsilon) < 0:
            raise InputError(f"`precision_epsilon` must not be negative; got {self.precision_epsilon!r}")

    def __str__(self) -> str:
        ideas = (f"{idea}: {'; '.join(rules)}" for idea, rules in ideas_in_words(self))
        return "\n".join([self.title, *ideas])

    @property
    def title(self) -> str:
        """The name, with the similarity if that was changed, and a remark if other rules were.

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
        """A copy that reports the numbers of `other`: more or fewer of them, each under these rules.

        It takes area ranges behind the first, limits before the last, groups of classes, recalls and extra numbers from
        `other`, if this changes no number.
        """
        own = {area.name: area for area in self.areas}
        has_areas = other.areas[0] == self.areas[0] and all(own.get(area.name, area) == area for area in other.areas)
        areas = other.areas if has_areas else self.areas
        taken = {area.name for area in areas}  # names that groups must not have
        return self.replace(
            areas=areas,
            limits=other.limits if other.limits[-1] == self.limits[-1] else self.limits,
            class_groups=tuple(name for name in other.class_groups if self.average != "micro" and name not in taken),
            extra_numbers=other.extra_numbers,
            recall_at=other.recall_at,
        )

    @property
    def similarity(self) -> str:
        """Name of the similarity in tables: IoU, OKS or ProbIoU."""
        return {"keypoints": "OKS", "probiou": "ProbIoU"}.get(self.iou_type, "IoU")

    @property
    def score_key(self) -> str:
        """The key of the scores in results that have several."""
        return self.keypoints.score_key

    @property
    def cutoffs(self) -> tuple[float, ...]:
        """The thresholds that IoUs are compared with; COCO clamps them to 1 - 1e-10."""
        if self.matching == "next_best" and self.comparison == ">=":
            return tuple(min(threshold, 1 - 1e-10) for threshold in self.thresholds)  # as in COCO
        return self.thresholds

    def threshold_index(self, iou: float | None = None) -> int:
        """Index of a threshold.

        Args:
            iou: The threshold; None: 0.5, or the first threshold if 0.5 is missing.

        Raises:
            InputError: If `iou` is not among the thresholds.

        >>> Protocol.named("coco").threshold_index(0.75), Protocol.named("coco").threshold_index()
        (5, 0)
        """
        index = self.find_threshold(0.5 if iou is None else iou)
        if index is None and iou is not None:
            known = ", ".join(f"{threshold:g}" for threshold in self.thresholds)
            raise InputError(f"`iou` must be one of the thresholds that were measured ({known}); got {iou!r}")
        return index or 0

    def at(self, iou: float | None = None) -> "Protocol":
        """A copy with one threshold, the first area range and the largest limit.

        Args:
            iou: The threshold, which may be new; None: 0.5, or the first threshold if 0.5 is missing.
        """
        index = self.threshold_index() if iou is None else self.find_threshold(iou)
        threshold = iou if index is None else self.thresholds[index]
        return self.replace(
            thresholds=(threshold,), areas=self.areas[:1], limits=self.limits[-1:], class_groups=(), extra_numbers=()
        )

    def find_threshold(self, iou: float) -> int | None:
        """Index of a threshold, or None if it is missing."""
        return threshold_index(self.thresholds, check_fraction("iou", iou))

    @property
    def is_sampled(self) -> bool:
        """Whether AP is a mean of precisions at recall points."""
        return self.ap in ("recall_points", "interpolated")

    @property
    def uses_recall_points(self) -> bool:
        """Whether `recall_points` decide AP."""
        return self.is_sampled or self.ap in ("linear_points", "linear_points_to_end")

    @property
    def ignored_kind(self) -> int:
        """Kind of a truth that is marked `ignore`; absent ones have been left out before."""
        return {"crowd": CROWD, "difficult": DIFFICULT}.get(self.ignored, REGULAR)

    @property
    def needs(self) -> tuple[str, ...]:
        """Fields whose rules drop, change or require something before columns are matched."""
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
    def limit_scope(self) -> str:
        """The detections to which a limit applies, in words."""
        return value_in_words(self, "limits_per")

    @property
    def left_out(self) -> str:
        """The detections that no number counts, in words; "" for none.

        >>> Protocol.named("coco").left_out, Protocol.named("voc2007").left_out
        ('beyond the limit of 100 per image and class', '')
        """
        limit = self.limits[-1]
        rules = [
            "" if self.min_score is None else f"with a score below {self.min_score:g}",
            "" if limit is None else f"beyond the limit of {limit:,} {self.limit_scope}",
            "of a class that was not verified" if self.federated else "",
            "" if self.empty == "keep" else "without area",
            "without a sure keypoint" if self.keypoints.needs_scores else "",
        ]
        words = [rule for rule in rules if rule]
        return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)

    @property
    def match_limits(self) -> tuple[int | None, ...]:
        """The limits that matching applies; a limit over the dataset is applied to a whole tally."""
        return (None,) if self.limits_per == "dataset" else self.limits

    @property
    def keeps_similarity(self) -> bool:
        """Whether a tally stores the similarities of true positives."""
        return "olrp" in self.extra_numbers

    @property
    def names_thresholds(self) -> bool:
        """Whether numbers at one threshold have a name, such as `map_50`.

        They have one if there are several thresholds, or if the protocol of that name has several: a protocol that was
        reduced to one threshold keeps the names.
        """
        from boxscore.protocol.table import PROTOCOLS

        return len(self.thresholds) > 1 or len(PROTOCOLS.get(self.name, self).thresholds) > 1

    @property
    def extra_names(self) -> tuple[str, ...]:
        """Names of the numbers beside AP and recall."""
        return tuple(name for extra in self.extra_numbers for name in EXTRA_NUMBERS[extra])

    @property
    def extent(self) -> float:
        """The length that the last pixel adds."""
        return extent_of(self.pixels)

    @property
    def largest_limit(self) -> float:
        """Number of detections that matching keeps per image and class, or per image; infinity for all."""
        return math.inf if self.match_limits[-1] is None else self.match_limits[-1]

    def to_dict(self) -> dict[str, Any]:
        """Values by field, ready for JSON: infinite bounds are None."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()} | {
            "keypoints": self.keypoints._asdict(),
            "areas": {name: [low, None if high == math.inf else high] for name, low, high in self.areas},
        }


ProtocolLike: TypeAlias = ProtocolName | Protocol
"""A protocol or the name of one: the type of every argument `protocol`."""

_CHOICES = {
    field: tuple(RULES[field].choices)
    for field in (
        *("pixels", "comparison", "matching", "ties", "ignored", "limits_per", "empty", "ranges_by", "truth_area"),
        *("ap", "average"),
    )
}
"""The allowed values of fields that have one of a few names: those with words."""


def extent_of(pixels: Pixels) -> float:
    """The length that the last pixel adds: 1 if it is inside the box, 0 if coordinates are continuous."""
    return 1.0 if pixels == "inclusive" else 0.0


def threshold_index(thresholds: Sequence[float], iou: float) -> int | None:
    """Index of a threshold up to its last digits, or None: `linspace` gives 0.6000000000000001 for 0.6.

    >>> threshold_index((0.5, 0.55, 0.6000000000000001), 0.6), threshold_index((0.75,), 0.5)
    (2, None)
    """
    return next((t for t, threshold in enumerate(thresholds) if abs(threshold - iou) < 1e-9), None)


def difference_of(first: Protocol, second: Protocol) -> str:
    """The names of two protocols, and the fields in which they differ if they share one; for errors.

    >>> difference_of(Protocol.named("coco"), Protocol.named("coco", limits=[300]))
    "both named 'coco'; they differ in `limits`"
    >>> difference_of(Protocol.named("coco"), Protocol.named("voc2012"))
    "'coco' and 'voc2012'"
    """
    if first.name != second.name:
        return f"{first.name!r} and {second.name!r}"
    names = [field.name for field in fields(first) if getattr(first, field.name) != getattr(second, field.name)]
    return f"both named {first.name!r}; they differ in {', '.join(f'`{name}`' for name in names)}"


def _set(protocol: Protocol, name: str, value: object) -> None:
    object.__setattr__(protocol, name, value)


def _field_names(protocol: Protocol) -> str:
    return ", ".join(field.name for field in fields(protocol))


def iou_types_of(value: object, allowed: Sequence[str] = IOU_TYPES) -> tuple[str, ...]:
    """Tuple of one similarity or several, each once.

    Args:
        value: A name, or a tuple or list of names.
        allowed: The names that are allowed.

    Raises:
        InputError: If `value` is anything else.

    >>> iou_types_of("segm"), iou_types_of(["bbox", "segm"])
    (('segm',), ('bbox', 'segm'))
    """
    types = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, tuple | list) else ()
    if not types or any(each not in allowed or types.count(each) > 1 for each in types):
        raise InputError(f"`iou_type` must be one of {', '.join(allowed)} or a tuple of these; got {value!r}")
    return types


def _ascending(name: str, values: Iterable[float]) -> tuple[float, ...]:
    """Numbers between 0 and 1, ascending."""
    try:
        numbers = tuple(map(float, values))
    except (TypeError, ValueError):
        raise InputError(f"must be a sequence of numbers; got {values!r}", argument=name) from None
    if not numbers:
        raise InputError("must have at least one number; got none", argument=name)
    if numbers[0] >= 0 and numbers[-1] <= 1 and all(map(lt, numbers, numbers[1:])):
        return numbers  # the usual case, at each change of a protocol
    for number in numbers:
        if not 0 <= number <= 1:
            raise InputError(f"must lie between 0 and 1; got {number:g}", argument=name)
    if any(first >= second for first, second in pairwise(numbers)):
        raise InputError(f"must be ascending, without repeats; got {list(numbers)}", argument=name)
    return numbers


def _areas(areas: Any) -> tuple[Area, ...]:
    """Area ranges, from a mapping or a sequence."""
    try:
        rows = [(name, *bounds) for name, bounds in areas.items()] if isinstance(areas, Mapping) else list(areas)
        ranges = tuple(
            Area(str(name), float(low), math.inf if high is None else float(high)) for name, low, high in rows
        )
    except (TypeError, ValueError):
        raise InputError(f"must map names to (low, high); got {areas!r}", argument="areas") from None
    if not 1 <= len(ranges) <= 63:
        raise InputError(f"must have 1 to 63 ranges; got {len(ranges)}", argument="areas")
    for area in ranges:
        if not 0 <= area.low <= area.high:
            raise InputError(f"`areas`: {area.name!r} must have 0 <= low <= high; got ({area.low:g}, {area.high:g})")
        if area.name.isdigit():
            raise InputError(
                f"must have names that are not numbers, as `map_50` is one; got {area.name!r}", argument="areas"
            )
    if len({area.name for area in ranges}) < len(ranges):
        raise InputError(f"must have different names; got {[area.name for area in ranges]}", argument="areas")
    return ranges


def _recalls(values: Any, limits: Any, thresholds: Sequence[float]) -> tuple[float, ...]:
    """Thresholds at which recall is a number, ascending."""
    is_empty = isinstance(values, tuple | list) and not values
    recalls = () if is_empty else _ascending("recall_at", values)
    names = [round(recall * 100) for recall in recalls]
    if len(set(names)) < len(names):
        raise InputError(f"`recall_at` must differ by a hundredth, as `mar_50` is a name; got {list(recalls)}")
    for recall, name in zip(recalls, names, strict=True):
        is_number = any(abs(threshold - recall) < 1e-9 for threshold in thresholds)
        if is_number and name in tuple(limits)[:-1]:
            raise InputError(
                f"must not have {name} before the last: mar_{name} is the recall at {recall:g}", argument="limits"
            )
    return recalls


def _names(name: str, values: Any, allowed: Iterable[str] | None = None) -> tuple[str, ...]:
    """Names, each once; `allowed`: None for any that may be part of the name of a number."""
    names = tuple(values) if isinstance(values, tuple | list) else ()
    if not names and values not in ((), []):
        raise InputError(f"must be a sequence of names; got {values!r}", argument=name)
    for each in names:
        if allowed is not None and each not in tuple(allowed):
            raise InputError(f"must be of {', '.join(allowed)}; got {each!r}", argument=name)
        if not isinstance(each, str) or not each or each.isdigit():
            raise InputError(f"must be names that are not numbers; got {each!r}", argument=name)
    if len(set(names)) < len(names):
        raise InputError(f"must have each name once; got {list(names)}", argument=name)
    return names


def _sigmas(values: Any) -> tuple[float, ...]:
    """One positive number per keypoint."""
    try:
        sigmas = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        raise InputError(
            f"must be a sequence of numbers, one per keypoint; got {values!r}", argument="sigmas"
        ) from None
    for index, sigma in enumerate(sigmas):
        if not 0 < sigma < math.inf:
            raise InputError(f"must be above 0 and finite; got {sigma:g} for keypoint {index}", argument="sigmas")
    return sigmas


def _limits(limits: Iterable[Any]) -> tuple[int | None, ...]:
    """Limits of detections, ascending; None is all."""
    try:
        bounds = tuple(limits)
    except TypeError:
        raise InputError(f"must be a sequence of integers or None; got {limits!r}", argument="limits") from None
    if not 1 <= len(bounds) <= 255:
        raise InputError(f"must have 1 to 255 limits; got {len(bounds)}", argument="limits")
    for bound in bounds:
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, Integral) or bound < 1):
            raise InputError(f"must be positive integers, or None for all; got {bound!r}", argument="limits")
    sizes = [math.inf if bound is None else bound for bound in bounds]
    if any(first >= second for first, second in pairwise(sizes)):
        raise InputError(f"must be ascending, without repeats; got {list(bounds)}", argument="limits")
    return tuple(None if bound is None else int(bound) for bound in bounds)


def _keypoint_rules(rules: Any) -> KeypointRules:
    if isinstance(rules, KeypointRules):
        return rules
    if isinstance(rules, Mapping) and set(rules) <= set(KeypointRules._fields):
        return KeypointRules(**rules)
    raise InputError(f"`keypoints` must be a boxscore.protocol.KeypointRules; got {rules!r}")


def check_alike(protocols: Iterable[Protocol]) -> None:
    """Raise `InputError` unless the protocols of several results differ only in their `iou_type`."""
    rules = [protocol.replace(iou_type="bbox") for protocol in protocols]
    for other in rules:
        if other != rules[0]:
            difference = difference_of(rules[0], other)
            raise InputError(
                f"`results` must all have one protocol, but for `iou_type`; got different ones ({difference})"
            )


def as_protocol(protocol: str | Protocol) -> Protocol:
    """The protocol itself, or the protocol of that name.

    Args:
        protocol: A protocol or a name.

    Raises:
        InputError: If it is neither, or the name is unknown.
    """
    if isinstance(protocol, str):
        return Protocol.named(protocol)
    if not isinstance(protocol, Protocol):
        raise InputError(f"`protocol` must be a name or a boxscore.Protocol; got {type(protocol).__name__}")
    return protocol
