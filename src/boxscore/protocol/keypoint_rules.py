"""Rules of OKS, the similarity of keypoints, and the sigmas of known datasets."""

from typing import NamedTuple


class KeypointRules(NamedTuple):
    """Keypoints that count, and the size that their distances are relative to, beside the sigmas."""

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

_COCO_BONES = (
    *((15, 13), (13, 11), (16, 14), (14, 12), (11, 12), (5, 11), (6, 12), (5, 6), (5, 7), (6, 8), (7, 9), (8, 10)),
    *((1, 2), (0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6)),
)
_CROWDPOSE_BONES = (
    *((12, 13), (13, 0), (13, 1), (0, 2), (2, 4), (1, 3), (3, 5), (0, 6), (1, 7), (6, 7)),
    *((6, 8), (8, 10), (7, 9), (9, 11)),
)
SKELETONS = {17: _COCO_BONES, 14: _CROWDPOSE_BONES, NUM_WHOLEBODY: _COCO_BONES}
"""Lines between keypoints in pictures, by the number of keypoints of a known dataset: COCO, CrowdPose,
COCO-WholeBody."""
