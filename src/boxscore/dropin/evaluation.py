"""COCOeval: pycocotools' evaluation class, on boxscore's engine."""

import copy
import datetime
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.dropin import mask, poses
from boxscore.dropin.accumulation import Arrays, accumulate, box_lines, build, oks_lines, text_of, value_of
from boxscore.dropin.evaluated_rows import (
    Evaluated,
    EvaluatedPart,
    EvaluatedRows,
    RefusedRowError,
    describe_invalid,
    distinct,
    join,
    load_annotations,
    select_rows,
)
from boxscore.dropin.image_entries import (
    ImageRules,
    by_score,
    entries_of,
    match_image,
    measure_overlaps,
    overlaps_by_image,
)
from boxscore.dropin.params import SHAPE_KEYS, Params
from boxscore.dropin.patch import fallback_attributes, warn_if_displaced

Dict = dict[str, Any]

maskUtils = mask  # pycocotools' name, which other packages import


class StepwiseEvaluation:
    """An evaluation of all rows at once; of one image at a time if a subclass overrides steps."""

    LAZY: ClassVar[tuple[str, ...]]
    """Attributes that are made when they are first read. From then on `accumulate` uses them, so changes count."""
    STEPS: ClassVar[tuple[str, ...]]
    """Methods that subclasses may override. If one is overridden, these methods evaluate each image."""

    _seen: Evaluated | None
    """The evaluated rows; None before `evaluate`, and if single images were evaluated."""
    eval: Dict

    def __getattr__(self, name: str) -> Any:
        """Make a lazy attribute when it is first read."""
        seen = self.__dict__.get("_seen")
        if name not in self.LAZY or seen is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._make_lazy(name, seen)
        return self.__dict__[name]

    def _make_lazy(self, name: str, seen: Evaluated) -> None:
        raise NotImplementedError

    def _has_own_steps(self) -> bool:
        homes = (getattr(getattr(type(self), name), "__module__", "") for name in self.STEPS)
        is_ours = all(home.startswith("boxscore.dropin.") for home in homes)
        return not is_ours or any(name in self.__dict__ for name in self.STEPS)

    def _set_seen(self, seen: Evaluated | None) -> None:
        self._seen, self.eval = seen, {}
        for name in self.LAZY:
            self.__dict__.pop(name, None)


class COCOeval(StepwiseEvaluation):
    """The evaluation of detections, as in `pycocotools.cocoeval.COCOeval`: evaluate, accumulate, summarize.

    Args:
        cocoGt: The dataset.
        cocoDt: The results.
        iouType: One of `Params.iou_types`.
    """

    LAZY = ("evalImgs", "ious", "_gts", "_dts")
    STEPS = ("_prepare", "computeIoU", "computeOks", "evaluateImg")

    evalImgs: Any
    """One dict per class, area range and image; None without detections and truths."""
    ious: dict[tuple[Any, Any], Any]
    """The IoUs of each image and class: one row per detection, by falling score, one column per truth."""
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
        self._seen: Evaluated | None = None
        if cocoGt is not None:
            self.params.imgIds = sorted(cocoGt.getImgIds())
            self.params.catIds = sorted(cocoGt.getCatIds())

    def _make_lazy(self, name: str, seen: Evaluated) -> None:
        if name == "evalImgs":
            self.evalImgs = entries_of(seen)
        elif name == "ious":
            self.ious = overlaps_by_image(seen)
        else:
            for key, value in zip(("_gts", "_dts"), _by_image_and_class(self, self._paramsEval), strict=True):
                self.__dict__.setdefault(key, value)

    def evaluate(self) -> None:
        """Run per-image evaluation: match each image and class, in each area range, at each threshold."""
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
        # as in COCO: with pooled classes, no poses are compared
        is_pooled_pose = poses.is_oks(p.iouType) and not p.useCats
        if not self._has_own_steps() and not is_pooled_pose:
            self._evaluate_columns(p)
        else:
            self._evaluate_step_by_step(p)
        self._paramsEval = copy.deepcopy(self.params)
        print(f"DONE (t={time.time() - start:0.2f}s).")

    def _evaluate_columns(self, p: Params) -> None:
        rows = self._select_rows(p)
        if rows is None:
            self._evaluate_any(p)
        else:
            self._set_seen(join([EvaluatedPart.of(rows)]))

    def _select_rows(self, p: Params) -> EvaluatedRows | None:
        try:
            return select_rows(self.cocoGt, self.cocoDt, p)
        except RefusedRowError:
            return None

    def _evaluate_any(self, p: Params) -> None:
        """Evaluate values that columns can't represent, as pycocotools does; errors name the annotation."""
        try:
            self._evaluate_step_by_step(p)
        except InputError:
            raise
        except Exception as error:
            described = describe_invalid(self.cocoGt, self.cocoDt, p)
            if described is None:
                raise
            kind = next(each for each in type(error).__mro__ if each.__module__ == "builtins")
            raise kind(described) from error

    def take_over(self, seen: Evaluated) -> None:
        """Adopt the rows and the tally of an evaluator that works batch by batch."""
        self.params.imgIds = seen.cells.images
        self._set_seen(seen)
        self._paramsEval = copy.deepcopy(self.params)

    def _evaluate_step_by_step(self, p: Params) -> None:
        self._seen = None
        self._prepare()
        classes = p.catIds if p.useCats else [-1]
        measure = self.computeOks if poses.is_oks(p.iouType) else self.computeIoU
        self.ious = {(image, label): measure(image, label) for image in p.imgIds for label in classes}
        self.evalImgs = [
            self.evaluateImg(image, label, area, p.maxDets[-1])
            for label in classes
            for area in p.areaRng
            for image in p.imgIds
        ]

    def _prepare(self) -> None:
        """Prepare `_gts` and `_dts` for evaluation: the annotations by image and class."""
        self._gts, self._dts = _by_image_and_class(self, self.params)
        self.evalImgs = defaultdict(list)
        self.eval = {}

    def _pair(self, imgId: Any, catId: Any) -> tuple[list[Dict], list[Dict]]:
        """The truths and the detections of an image and class; of all classes if they are pooled."""
        if self.params.useCats:
            pair = imgId, catId
            return self._gts[pair], self._dts[pair]
        labels = self.params.catIds
        return (
            [ann for label in labels for ann in self._gts[imgId, label]],
            [ann for label in labels for ann in self._dts[imgId, label]],
        )

    def computeIoU(self, imgId: Any, catId: Any) -> Any:
        """Compute the IoUs of an image and class: one row per detection, by falling score; one column per truth."""
        p = self.params
        if p.iouType not in ("bbox", "segm"):
            raise Exception("unknown iouType for iou computation")  # as in COCO
        truths, detections = self._pair(imgId, catId)
        if not truths and not detections:
            return []
        return measure_overlaps(detections, truths, p.maxDets[-1], key=SHAPE_KEYS[p.iouType])

    def computeOks(self, imgId: Any, catId: Any) -> Any:
        """Compute the OKS of an image and class, in the layout of `computeIoU`; or []."""
        p, truths, detections = self.params, self._gts[imgId, catId], self._dts[imgId, catId]
        if not detections or not truths:
            return []
        return poses.measure_oks(by_score(detections)[: p.maxDets[-1]], truths, p.kpt_oks_sigmas)

    def evaluateImg(self, imgId: Any, catId: Any, aRng: Any, maxDet: int) -> Dict | None:
        """Match one image and class in one area range; return None without detections and truths."""
        truths, detections = self._pair(imgId, catId)
        if not truths and not detections:
            return None
        rules = ImageRules(thresholds=self.params.iouThrs, area=aRng, limit=maxDet)
        entry = match_image(detections, truths, self.ious[imgId, catId], rules)
        return {"image_id": imgId, "category_id": catId, "aRng": aRng, "maxDet": maxDet, **entry}

    def accumulate(self, p: Params | None = None) -> None:
        """Accumulate the per-image results, or those that `p` selects, into curves, and store them in `eval`."""
        print("Accumulating evaluation results...")
        start = time.time()
        is_lazy = "evalImgs" not in self.__dict__
        if (self._seen.cells.num_entries if is_lazy and self._seen else len(self.evalImgs)) == 0:
            print("Please run evaluate() first")
        if not self._paramsEval:
            raise InputError("accumulate() needs the results of evaluate(); got none")
        if p is None:
            p = self.params
        p.catIds = p.catIds if p.useCats == 1 else [-1]
        arrays = self._accumulate_tally(p) if is_lazy else None
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

    def _accumulate_tally(self, p: Params) -> Arrays | None:
        """Build the arrays from the tally; return None if `p` differs from the parameters of `evaluate`."""
        if self._seen is None or self._seen.tally is None:
            return None
        cells = self._seen.cells
        is_same = (
            list(p.imgIds) == cells.images
            and list(p.catIds) == cells.classes
            and [tuple(area) for area in p.areaRng] == cells.bounds
            and list(p.maxDets) == cells.limits
            and np.array_equal(p.iouThrs, cells.thresholds)
        )
        return build(self._seen.tally, p.recThrs) if is_same else None

    def summarize(self) -> None:
        """Compute and print the summary numbers, and store them in `stats`."""
        if not self.eval:
            raise Exception("Please run accumulate() first")  # as in COCO
        lines = oks_lines() if poses.is_oks(self.params.iouType) else box_lines(self.params.maxDets)
        stats = np.zeros(len(lines))
        for i, line in enumerate(lines):
            stats[i] = value_of(line, self.eval, self.params)
            print(text_of(line, stats[i], self.params))
        self.stats = stats

    def __str__(self) -> str:
        self.summarize()
        return ""


def _by_image_and_class(evaluation: COCOeval, p: Params) -> tuple[Any, Any]:
    """Group truths and detections by image and class; set `ignore` of each truth, and encode masks, in the dicts."""
    sides = []
    for coco in (evaluation.cocoGt, evaluation.cocoDt):
        by_pair = defaultdict(list)
        for ann in load_annotations(coco, p.imgIds, p.catIds, is_pooled=not p.useCats):
            if p.iouType == "segm":
                ann["segmentation"] = coco.annToRLE(ann)  # as in COCO: changes the dict
            by_pair[ann["image_id"], ann["category_id"]].append(ann)
        sides.append(by_pair)
    for truths in sides[0].values():
        for truth in truths:
            truth["ignore"] = truth.get("iscrowd", False)
            if poses.is_oks(p.iouType):
                truth["ignore"] = poses.is_unlabelled(truth) or truth["ignore"]
    return sides[0], sides[1]


if not TYPE_CHECKING:
    __getattr__, __dir__ = fallback_attributes("cocoeval", globals())
