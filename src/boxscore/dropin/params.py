"""The parameters of an evaluation, under the names of pycocotools, faster_coco_eval and lvis."""

import copy
import logging
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from boxscore.protocol.table import COCO_SIGMAS

SHAPE_KEYS = {"bbox": "bbox", "segm": "segmentation", "keypoints": "keypoints"}
"""The key of the shapes in dicts, by pycocotools' similarities."""


class Params:
    """Thresholds, area ranges, limits, images and classes, as attributes that may be changed before `evaluate`."""

    iou_types: ClassVar[tuple[str, ...]] = ("segm", "bbox", "keypoints")
    """Valid values of `iouType`."""
    precision_epsilon: ClassVar[float] = sys.float_info.epsilon
    """Added to TP + FP before dividing."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Default values of keys that an annotation lacks."""

    imgIds: Any
    catIds: Any
    iouThrs: NDArray[np.float64]
    recThrs: NDArray[np.float64]
    maxDets: list[int]
    areaRng: list[list[float]]
    areaRngLbl: list[str]
    useCats: int
    kpt_oks_sigmas: NDArray[np.float64]

    def __init__(self, iouType: str = "segm") -> None:
        if iouType not in self.iou_types:
            raise Exception("iouType not supported")  # as in COCO
        if iouType == "keypoints":
            self.setKpParams()
        else:
            self.setDetParams()
        self.iouType = iouType
        self.useSegm: int | None = None  # deprecated, but still read

    def setDetParams(self) -> None:
        """Set the parameters of boxes and masks."""
        self._set_thresholds()
        self.maxDets = [1, 10, 100]
        self.areaRng = [[0, 1e5**2], [0, 32**2], [32**2, 96**2], [96**2, 1e5**2]]
        self.areaRngLbl = ["all", "small", "medium", "large"]

    def setKpParams(self) -> None:
        """Set the parameters of keypoints."""
        self._set_thresholds()
        self.maxDets = [20]
        self.areaRng = [[0, 1e5**2], [32**2, 96**2], [96**2, 1e5**2]]
        self.areaRngLbl = ["all", "medium", "large"]
        self.kpt_oks_sigmas = np.array(COCO_SIGMAS)

    def _set_thresholds(self) -> None:
        self.imgIds = []
        self.catIds = []
        self.iouThrs = np.linspace(0.5, 0.95, 10)
        self.recThrs = np.linspace(0.0, 1.0, 101)
        self.useCats = 1

    def __deepcopy__(self, memo: dict[int, Any]) -> "Params":
        # Ids are immutable, so a shallow copy suffices: 0.03 ms for 5,000 images; `copy.deepcopy` takes 3 ms.
        copied = object.__new__(type(self))
        for name, value in vars(self).items():
            is_flat = name in ("imgIds", "catIds") and isinstance(value, list)
            setattr(copied, name, list(value) if is_flat else copy.deepcopy(value, memo))
        return copied


LARGEST_AREA = 1e5**2
RANGES: Mapping[str, Sequence[float]] = {"small": [0, 32**2], "medium": [32**2, 96**2], "large": [96**2, LARGEST_AREA]}
"""The area ranges in addition to "all"."""

SHAPES = ("segm", "bbox", "boundary")
"""The similarities of boxes and masks."""

logger = logging.getLogger("faster_coco_eval.core.cocoeval")  # the name that users configure


class FasterParams(Params):
    """The parameters of pycocotools with custom area ranges, and faster_coco_eval's aliases."""

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

    def takes_lvis_style(self) -> bool:
        """Whether classes may count only in images in which they were verified; warn if not."""
        if self.iouType == "keypoints":
            logger.warning("lvis_style not supported for keypoint evaluation")
        return self.iouType != "keypoints"

    @property
    def useSegm(self) -> int:
        """1 if masks are evaluated, else 0."""
        return int(self.iouType == "segm")

    @useSegm.setter
    def useSegm(self, value: int) -> None:
        self.iouType = "segm" if value == 1 else "bbox"
        logger.warning("useSegm is deprecated. Please use iouType (string) instead.")


def similarity_of(params: Params) -> str:
    """The similarity of an evaluation, as in `Protocol.iou_type`."""
    return params.iouType.removesuffix("_crowd")


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


NO_LIMIT = 2**31 - 1
"""More detections than any image has: `LVISResults` limits them."""


class LVISParams:
    """Thresholds, area ranges, images and classes, as attributes that may be changed before `evaluate`.

    `max_dets` only appears in names and printed lines: `LVISResults` limits the results.
    """

    def __init__(self, iou_type: str) -> None:
        self.img_ids: Any = []
        self.cat_ids: Any = []
        self.iou_thrs: NDArray[np.float64] = np.linspace(0.5, 0.95, 10)
        self.rec_thrs: NDArray[np.float64] = np.linspace(0.0, 1.0, 101)
        self.max_dets = 300
        self.area_rng: list[list[float]] = [[0, 1e5**2], [0, 32**2], [32**2, 96**2], [96**2, 1e5**2]]
        self.area_rng_lbl = ["all", "small", "medium", "large"]
        self.use_cats = 1
        self.img_count_lbl = ["r", "c", "f"]
        self.iou_type = iou_type


def coco_params(p: LVISParams) -> Any:
    """The parameters under pycocotools' names."""
    return SimpleNamespace(
        imgIds=p.img_ids,
        catIds=p.cat_ids if p.use_cats else [-1],
        areaRng=p.area_rng,
        maxDets=[NO_LIMIT],
        iouThrs=p.iou_thrs,
        recThrs=p.rec_thrs,
        useCats=1,
        iouType=p.iou_type,
        is_federated=True,
    )
