"""Params: faster_coco_eval's parameters of an evaluation."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from boxscore.dropin.params import Params

LARGEST_AREA = 1e5**2
RANGES: Mapping[str, Sequence[float]] = {"small": [0, 32**2], "medium": [32**2, 96**2], "large": [96**2, LARGEST_AREA]}
"""The area ranges beside "all"."""

SHAPES = ("segm", "bbox", "boundary")
"""The similarities of boxes and masks."""

logger = logging.getLogger("faster_coco_eval.core.cocoeval")  # the name that its users configure


class FasterParams(Params):
    """The parameters of pycocotools, area ranges of one's own, and faster_coco_eval's second name for each."""

    iou_types: ClassVar[tuple[str, ...]] = (*SHAPES, "keypoints", "keypoints_crowd")
    precision_epsilon: ClassVar[float] = 0.0
    defaults: ClassVar[Mapping[str, Any]] = {"iscrowd": 0, "area": 0, "num_keypoints": 0}

    def __init__(
        self,
        iouType: str = "segm",
        kpt_sigmas: Sequence[float] | None = None,
        ranges: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        if iouType not in self.iou_types:
            raise TypeError("iouType not supported")  # as in faster_coco_eval
        if iouType in SHAPES:
            self.setDetParams(RANGES if ranges is None else ranges)
        else:
            self.setKpParams()
            if kpt_sigmas is not None:
                self.kpt_oks_sigmas = np.array(kpt_sigmas)
        self.iouType = iouType
        self.compute_rle, self.compute_boundary = iouType in ("segm", "boundary"), iouType == "boundary"
        self.imgCountLbl = ["r", "c", "f"]

    def setDetParams(self, ranges: Mapping[str, Sequence[float]] = RANGES) -> None:
        """Set the parameters of boxes and masks."""
        self._set_thresholds()
        self.maxDets = [1, 10, 100]
        self.areaRng = [[0, LARGEST_AREA], *map(list, ranges.values())]
        self.areaRngLbl = ["all", *ranges]
        low, high = ([bounds[side] for bounds in ranges.values()] for side in (0, 1))
        if min(low, default=LARGEST_AREA) > 0 or max(high, default=0) < LARGEST_AREA:
            logger.warning("Provided area ranges do not span full range from 0 to 1e5^2.")

    @property
    def useSegm(self) -> int:
        """1 if masks are evaluated, else 0."""
        return int(self.iouType == "segm")

    @useSegm.setter
    def useSegm(self, value: int) -> None:
        self.iouType = "segm" if value == 1 else "bbox"
        logger.warning("useSegm is deprecated. Please use iouType (string) instead.")


def _alias(name: str) -> property:
    return property(lambda params: getattr(params, name), doc=f"`{name}`.")


for _alias_name, _name in (
    ("iou_type", "iouType"),
    ("img_ids", "imgIds"),
    ("cat_ids", "catIds"),
    ("iou_thrs", "iouThrs"),
    ("rec_thrs", "recThrs"),
    ("max_dets", "maxDets"),
    ("area_rng", "areaRng"),
    ("area_rng_lbl", "areaRngLbl"),
    ("use_cats", "useCats"),
    ("img_count_lbl", "imgCountLbl"),
):
    setattr(FasterParams, _alias_name, _alias(_name))
