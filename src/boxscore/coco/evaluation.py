"""COCOeval: pycocotools' class of an evaluation, on boxscore's engine."""

import copy
import datetime
import time
import warnings
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.coco import mask
from boxscore.coco.accumulation import Arrays, accumulate, build
from boxscore.coco.fallback import names_of_original
from boxscore.coco.images import Assigned, entries, overlaps_by_image
from boxscore.coco.names import outer_level, own_module, warn_if_displaced
from boxscore.coco.params import Params
from boxscore.coco.seen import Seen, annotations, distinct, ids_of, look
from boxscore.coco.steps import entry_of, overlaps_of
from boxscore.coco.summary import box_lines, keypoint_lines, text_of, value_of
from boxscore.model.tally import Tally

Dict = dict[str, Any]

maskUtils = mask  # pycocotools' name for it, which others import from here

MADE_LATE = ("evalImgs", "ious", "_gts", "_dts")
"""What nobody may ever read after an evaluation: made at the first look. Once it is there, it is what counts."""

STEPS = ("_prepare", "computeIoU", "computeOks", "evaluateImg")
"""Methods that subclasses replace; then every image is done by them, one after the other."""


class COCOeval:
    """The evaluation of detections, as `pycocotools.cocoeval.COCOeval` has it: evaluate, accumulate, summarize.

    Boxes are boxscore's; for masks and keypoints, pycocotools measures the overlaps, if it is installed, and a warning
    says so. `iouType`: "bbox", "segm" or "keypoints".
    """

    evalImgs: Any
    """For every class, area range and image a dict, or None where there is nothing."""
    ious: dict[tuple[Any, Any], Any]
    """The overlaps of every image and class, a row a detection by falling score, a column a truth."""
    _gts: defaultdict[tuple[Any, Any], list[Dict]]
    _dts: defaultdict[tuple[Any, Any], list[Dict]]

    def __init__(self, cocoGt: Any = None, cocoDt: Any = None, iouType: str = "segm") -> None:
        warn_if_displaced()
        if not iouType:
            print("iouType not specified. use default iouType segm")
        self.cocoGt, self.cocoDt = cocoGt, cocoDt
        self.evalImgs = defaultdict(list)
        self.eval: Dict = {}
        self._gts, self._dts = defaultdict(list), defaultdict(list)
        self.params = Params(iouType=iouType)
        self._paramsEval: Any = {}
        self.stats: Any = []
        self.ious = {}
        self._seen: Seen | None = None
        self._tally: Tally | None = None
        if cocoGt is not None:
            self.params.imgIds = sorted(cocoGt.getImgIds())
            self.params.catIds = sorted(cocoGt.getCatIds())

    def __getattr__(self, name: str) -> Any:
        """What is made late, at the first look."""
        seen = self.__dict__.get("_seen")
        if name not in MADE_LATE or seen is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name == "evalImgs":
            self.evalImgs = entries(seen)
        elif name == "ious":
            self.ious = overlaps_by_image(seen)
        else:
            for key, value in zip(("_gts", "_dts"), _by_image_and_class(self, self._paramsEval), strict=True):
                self.__dict__.setdefault(key, value)
        return self.__dict__[name]

    def evaluate(self) -> None:
        """Match every image and class, in every area range, at every threshold."""
        start = time.time()
        print("Running per image evaluation...")
        p = self.params
        if p.useSegm is not None:
            p.iouType = "segm" if p.useSegm == 1 else "bbox"
            print(f"useSegm (deprecated) is not None. Running {p.iouType} evaluation")
        print(f"Evaluate annotation type *{p.iouType}*")
        p.imgIds = distinct(p.imgIds)
        if p.useCats:
            p.catIds = distinct(p.catIds)
        p.maxDets = sorted(p.maxDets)
        if p.iouType == "bbox" and not self._has_own_steps():
            self._evaluate_boxes(p)
        else:
            self._evaluate_step_by_step(p)
        self._paramsEval = copy.deepcopy(self.params)
        print(f"DONE (t={time.time() - start:0.2f}s).")

    def _has_own_steps(self) -> bool:
        return any(getattr(type(self), name) is not getattr(COCOeval, name) or name in self.__dict__ for name in STEPS)

    def _evaluate_boxes(self, p: Params) -> None:
        seen = look(self.cocoGt, self.cocoDt, p)
        self._seen, self._tally = seen, seen.tally()
        self.eval = {}
        for name in MADE_LATE:
            self.__dict__.pop(name, None)

    def _evaluate_step_by_step(self, p: Params) -> None:
        self._seen = self._tally = None
        self._prepare()
        classes = p.catIds if p.useCats else [-1]
        measure = self.computeOks if p.iouType == "keypoints" else self.computeIoU
        self.ious = {(image, label): measure(image, label) for image in p.imgIds for label in classes}
        self.evalImgs = [
            self.evaluateImg(image, label, area, p.maxDets[-1])
            for label in classes
            for area in p.areaRng
            for image in p.imgIds
        ]

    def _prepare(self) -> None:
        """Put the annotations into `_gts` and `_dts`, by image and class."""
        if self.params.iouType != "bbox":
            own = own_module("cocoeval", f"iouType={self.params.iouType!r}").COCOeval
            _say_handed_over(self.params.iouType)
            own._prepare(self)
            return
        self._gts, self._dts = _by_image_and_class(self, self.params)
        self.evalImgs = defaultdict(list)
        self.eval = {}

    def _pair(self, imgId: Any, catId: Any) -> tuple[list[Dict], list[Dict]]:
        """The truths and the detections of an image and class, or of all classes."""
        if self.params.useCats:
            pair = imgId, catId
            return self._gts[pair], self._dts[pair]
        labels = self.params.catIds
        return (
            [ann for label in labels for ann in self._gts[imgId, label]],
            [ann for label in labels for ann in self._dts[imgId, label]],
        )

    def computeIoU(self, imgId: Any, catId: Any) -> Any:
        """The overlaps of an image and class: a row a detection by falling score, a column a truth; or []."""
        p = self.params
        if p.iouType == "segm":
            return own_module("cocoeval", "iouType='segm'").COCOeval.computeIoU(self, imgId, catId)
        if p.iouType != "bbox":
            raise Exception("unknown iouType for iou computation")  # as in COCO
        truths, found = self._pair(imgId, catId)
        if not truths and not found:
            return []
        overlap = overlaps_of(found, truths, p.maxDets[-1])
        if overlap is not None:
            return overlap
        found = _by_score(found)[: p.maxDets[-1]]
        crowds = [int(truth["iscrowd"]) for truth in truths]
        return mask.iou([each["bbox"] for each in found], [each["bbox"] for each in truths], crowds)

    def computeOks(self, imgId: Any, catId: Any) -> Any:
        """The similarity of the keypoints of an image and class, by pycocotools."""
        return own_module("cocoeval", "iouType='keypoints'").COCOeval.computeOks(self, imgId, catId)

    def evaluateImg(self, imgId: Any, catId: Any, aRng: Any, maxDet: int) -> Dict | None:
        """Match one image and class in one area range; None if there is nothing."""
        truths, found = self._pair(imgId, catId)
        if not truths and not found:
            return None
        overlap = self.ious[imgId, catId]
        entry = entry_of(found, truths, overlap, self.params.iouThrs, aRng, maxDet)
        if entry is not None:
            return {"image_id": imgId, "category_id": catId, "aRng": aRng, "maxDet": maxDet, **entry}
        found = _by_score(found)[0:maxDet]
        overlap = _overlap_of(overlap, len(found), len(truths))
        truth_ids = ids_of(truths)
        assigned = Assigned.of(
            overlap=np.ascontiguousarray(overlap).reshape(-1),
            start=np.array([0, len(found)], np.int64),
            truth_start=np.array([0, len(truths)], np.int64),
            area=_numbers(each["area"] for each in found),
            id=ids_of(found).astype(np.float64),
            truth_area=_numbers(0 if each["ignore"] else each["area"] for each in truths),
            truth_id=truth_ids.astype(np.float64),
            is_ignored=_flags(each["ignore"] for each in truths),
            is_crowd=_flags(int(each["iscrowd"]) for each in truths),
            thresholds=self.params.iouThrs,
            bounds=[aRng],
        )
        scores = [each["score"] for each in found]
        return {
            "image_id": imgId,
            "category_id": catId,
            "aRng": aRng,
            "maxDet": maxDet,
            "dtIds": [each["id"] for each in found],
            "gtIds": truth_ids[assigned.truth_order[0]].tolist(),
            **assigned.block(0, slice(0, len(found)), slice(0, len(truths)), scores),
        }

    def accumulate(self, p: Params | None = None) -> None:
        """Draw the curves of all that was evaluated, or of what `p` says, into `eval`."""
        print("Accumulating evaluation results...")
        start = time.time()
        is_late = "evalImgs" not in self.__dict__
        if (self._seen.num_entries if is_late and self._seen else len(self.evalImgs)) == 0:
            print("Please run evaluate() first")
        if not self._paramsEval:
            raise InputError("accumulate() needs the results of evaluate(); got none")
        if p is None:
            p = self.params
        p.catIds = p.catIds if p.useCats == 1 else [-1]
        arrays = self._build_late(p) if is_late else None
        if arrays is None:
            arrays = accumulate(self.evalImgs, p, self._paramsEval)
        T, R, K, A, M = arrays.precision.shape
        self.eval = {
            "params": p,
            "counts": [T, R, K, A, M],
            "date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S"),
            "precision": arrays.precision,
            "recall": arrays.recall,
            "scores": arrays.scores,
        }
        print(f"DONE (t={time.time() - start:0.2f}s).")

    def _build_late(self, p: Params) -> Arrays | None:
        """The arrays straight from the tally, if all that was evaluated is wanted, and nothing else."""
        seen = self._seen
        if seen is None or self._tally is None:
            return None
        is_same = (
            list(p.imgIds) == seen.images
            and list(p.catIds) == seen.classes
            and [tuple(area) for area in p.areaRng] == seen.bounds
            and list(p.maxDets) == seen.limits
            and np.array_equal(p.iouThrs, seen.thresholds)
        )
        return build(self._tally, p.recThrs) if is_same else None

    def summarize(self) -> None:
        """Print the numbers, and keep them in `stats`."""
        if not self.eval:
            raise Exception("Please run accumulate() first")  # as in COCO
        lines = keypoint_lines() if self.params.iouType == "keypoints" else box_lines(self.params.maxDets)
        stats = np.zeros(len(lines))
        for place, line in enumerate(lines):
            stats[place] = value_of(line, self.eval, self.params)
            print(text_of(line, stats[place], self.params))
        self.stats = stats

    def __str__(self) -> str:
        self.summarize()
        return ""


def _by_image_and_class(evaluation: COCOeval, p: Params) -> tuple[Any, Any]:
    """The annotations of both sides in lists; truths know whether they are ignored."""
    sides = []
    for coco in (evaluation.cocoGt, evaluation.cocoDt):
        by_pair = defaultdict(list)
        for ann in annotations(coco, p.imgIds, p.catIds, is_pooled=not p.useCats):
            by_pair[ann["image_id"], ann["category_id"]].append(ann)
        sides.append(by_pair)
    for truths in sides[0].values():
        for truth in truths:
            truth["ignore"] = truth.get("iscrowd", False)
    return sides[0], sides[1]


def _overlap_of(overlap: Any, num_found: int, num_truths: int) -> NDArray[np.float64]:
    """The overlaps of so many detections and truths; those that were never measured are less than any threshold."""
    if len(overlap) == 0:
        return np.full((num_found, num_truths), -np.inf)
    measured = np.array(overlap, np.float64)
    if num_truths and (len(measured) < num_found or measured.shape[1] < num_truths):
        raise IndexError(  # as in COCO
            f"`ious` has {measured.shape[0]} x {measured.shape[1]} overlaps where {num_found} x {num_truths} are "
            "needed; call evaluateImg with the limit and the annotations that computeIoU had"
        )
    return measured[:num_found, :num_truths] if num_truths else np.zeros((num_found, 0))


def _by_score(found: list[Dict]) -> list[Dict]:
    """By falling score; of equal ones the first stays first."""
    order = np.argsort([-each["score"] for each in found], kind="mergesort")
    return [found[place] for place in order]


def _numbers(values: Any) -> NDArray[np.float64]:
    return np.array(list(values), np.float64)


def _flags(values: Any) -> NDArray[np.uint8]:
    return np.array([bool(value) for value in values], np.uint8)


def _say_handed_over(kind: str) -> None:
    """A warning, at the line outside of here that asked for it."""
    from importlib.metadata import PackageNotFoundError, version  # takes a while to import

    try:
        name = f"pycocotools {version('pycocotools')}"
    except PackageNotFoundError:
        name = "pycocotools"
    message = f"boxscore measures boxes; the overlaps of iouType={kind!r} are measured by {name}"
    warnings.warn(message, stacklevel=outer_level())


if not TYPE_CHECKING:
    __getattr__, __dir__ = names_of_original("cocoeval", globals())
