"""The protocols that have a name: `voc2007`, `coco`, `paper`, `lvis`, …"""

import math
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from boxscore.protocol.protocol import Area, KeypointRules, Protocol, ProtocolLike, as_protocol

BOX_SHARE = 0.53
"""Share of its box that a person fills where the area is unknown, as in CrowdPose, xtcocotools and Ultralytics."""

# From pycocotools' `Params.kpt_oks_sigmas`; divided, so that they have its bits.
COCO_SIGMAS = tuple(
    tenth / 10.0
    for tenth in (0.26, 0.25, 0.25, 0.35, 0.35, 0.79, 0.79, 0.72, 0.72, 0.62, 0.62, 1.07, 1.07, 0.87, 0.87, 0.89, 0.89)
)

# From the CrowdPose API: shoulders, elbows, wrists, hips, knees, ankles, head, neck.
CROWDPOSE_SIGMAS = tuple(
    tenth / 10.0 for tenth in (0.79, 0.79, 0.72, 0.72, 0.62, 0.62, 1.07, 1.07, 0.87, 0.87, 0.89, 0.89, 0.79, 0.79)
)


def _thousandths(values: str) -> tuple[float, ...]:
    """Numbers divided by 1000, with the bits of the literal: 26 is 0.026."""
    return tuple(float(f"0.{value:0>3}") for value in values.split())


# From COCO-WholeBody's `myeval_wholebody.py`: body, feet, face, left hand, right hand.
_HAND = _thousandths("29 22 35 37 47 26 25 24 35 18 24 22 26 17 21 21 32 20 19 22 31")
WHOLEBODY_PARTS = {
    "body": _thousandths("26 25 25 35 35 79 79 72 72 62 62 107 107 87 87 89 89"),
    "foot": _thousandths("68 66 66 92 94 94"),
    "face": _thousandths(
        "42 43 44 43 40 35 31 25 20 23 29 32 37 38 43 41 45 13 12 11 11 12 12 11 11 13 15 9 7 7 7 12 9 8 16 10 17 11 9"
        " 11 9 7 13 8 11 12 10 34 8 8 9 8 8 7 10 8 9 9 9 7 7 8 11 8 8 8 10 8"
    ),
    "lefthand": _HAND,
    "righthand": _HAND,
}
"""Sigmas of each part of a whole body, in the order of its 133 points."""

NUM_WHOLEBODY = sum(map(len, WHOLEBODY_PARTS.values()))
"""Number of points of a whole body; `num_keypoints` in files counts only some of them."""


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
    ties="last",
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
    """Yield the protocol of the whole body, then one per part."""
    num_body = len(WHOLEBODY_PARTS["body"])
    whole = KeypointRules(num_area_points=num_body, needs_scores=True, score_key="wholebody_score")
    every = tuple(sigma for sigmas in WHOLEBODY_PARTS.values() for sigma in sigmas)
    yield _COCO_KEYPOINTS.replace(name="coco_wholebody", sigmas=every, keypoints=whole)
    first = 0
    for part, sigmas in WHOLEBODY_PARTS.items():
        rules = whole._replace(first=first, score_key="score" if part == "body" else f"{part}_score")
        yield _COCO_KEYPOINTS.replace(name=f"coco_wholebody_{part}", sigmas=sigmas, keypoints=rules)
        first += len(sigmas)


_LVIS = _COCO.replace(
    name="lvis",
    ignored="regular",
    federated=True,
    empty="drop",
    limits=(300,),
    limits_per="image",
    class_groups=("rare", "common", "frequent"),
)

_LVIS_FIXED = _LVIS.replace(name="lvis_fixed", limits=(10_000,), limits_per="dataset")

_OPENIMAGES = _VOC2012.replace(
    name="openimages", pixels="continuous", group_of_weight=1, federated=True, empty="drop_detections"
)

_CROWDHUMAN = Protocol(
    name="crowdhuman",
    thresholds=(0.5,),
    recall_points=_COCO.recall_points,
    ap="trapezoid_from_first",
    pixels="continuous",
    comparison=">",
    matching="next_best",
    ignored="crowd",
    clips_boxes=True,
    extra_numbers=("mr", "ji"),
)

_ULTRALYTICS = _COCO.replace(
    name="ultralytics",
    ap="linear_points",
    ties="first",
    ignored="absent",
    areas=(Area("all", 0.0, math.inf),),
    limits=(300,),
    limits_per="image",
    min_score=0.001,
    precision_epsilon=0.0,
)

_OLRP = _COCO.replace(name="olrp", extra_numbers=("olrp",))


class NamedProtocol(NamedTuple):
    """A protocol with a name, and the sources of its rules."""

    protocol: Protocol
    reference: str
    """The code that decides its numbers."""
    rules: str
    """The rules of published numbers with which its numbers may be compared."""
    iou_types: tuple[str, ...] = ()
    """More similarities for which numbers are published under these rules."""


_VOC_CODE = "VOC devkit, py-faster-rcnn, detectron2"
_PYCOCOTOOLS = "pycocotools 2.0.11"
_XTCOCOTOOLS = "xtcocotools 1.14.3"

NAMED: Mapping[str, NamedProtocol] = {
    entry.protocol.name: entry
    for entry in (
        NamedProtocol(_VOC2007, _VOC_CODE, "PASCAL VOC 2007 rules"),
        NamedProtocol(_VOC2012, _VOC_CODE, "PASCAL VOC 2012 rules"),
        NamedProtocol(_COCO, _PYCOCOTOOLS, "COCO leaderboard rules", ("segm",)),
        NamedProtocol(_PAPER, "the paper's pseudocode", "the rules of paper"),
        NamedProtocol(_LVIS, "lvis 0.5.3", "LVIS leaderboard rules", ("segm",)),
        NamedProtocol(_LVIS_FIXED, "lvis 0.5.3 after the cut of Dave et al. 2021", "LVIS fixed AP rules", ("segm",)),
        NamedProtocol(_OPENIMAGES, "TensorFlow's OpenImagesDetectionChallengeEvaluator", "Open Images challenge rules"),
        NamedProtocol(_CROWDHUMAN, "CrowdDet's evaluation, mmdetection 3.3.0", "CrowdHuman rules"),
        NamedProtocol(_ULTRALYTICS, "Ultralytics 8.4.190", "Ultralytics validation rules"),
        NamedProtocol(_OLRP, f"{_PYCOCOTOOLS}; Oksuz et al. 2018 for LRP", "COCO leaderboard rules", ("segm",)),
        NamedProtocol(_DOTA, "DOTA_devkit", "DOTA rules"),
        NamedProtocol(_DOTA2007, "DOTA_devkit", "DOTA rules, AP at 11 recall points"),
        NamedProtocol(_COCO_KEYPOINTS, _PYCOCOTOOLS, "COCO keypoint leaderboard rules"),
        NamedProtocol(_CROWDPOSE, _XTCOCOTOOLS, "CrowdPose rules"),
        *(NamedProtocol(part, _XTCOCOTOOLS, f"the rules of {part.name}") for part in _wholebody()),
    )
}
"""The protocols that have a name. A new one is one entry."""

PROTOCOLS: Mapping[str, Protocol] = {name: entry.protocol for name, entry in NAMED.items()}

_OF_SHAPES = {("coco", "keypoints"): "coco_keypoints"}
"""Protocols that a family has for a similarity for which its main one does not serve."""


def protocol_of(name: str, iou_type: str) -> Protocol:
    """Protocol of a name for a similarity.

    Args:
        name: The name of a protocol, such as "coco".
        iou_type: The similarity; some have a protocol with other rules.

    >>> protocol_of("coco", "keypoints").limits, protocol_of("coco", "segm").limits
    ((20,), (1, 10, 100))
    """
    protocol = Protocol.named(_OF_SHAPES.get((name, iou_type), name))
    return protocol if protocol.iou_type == iou_type else protocol.replace(iou_type=iou_type)


def for_iou_type(protocol: ProtocolLike, iou_type: str) -> Protocol:
    """Protocol, given by name or as a value, for a similarity.

    Args:
        protocol: The name of a protocol, or a `Protocol`.
        iou_type: The similarity.

    >>> for_iou_type("coco", "keypoints").limits, for_iou_type(Protocol.named("coco"), "keypoints").limits
    ((20,), (1, 10, 100))
    """
    rules = as_protocol(protocol)
    return protocol_of(protocol, iou_type) if isinstance(protocol, str) else rules.replace(iou_type=iou_type)
