"""COCOeval_faster: faster_coco_eval's evaluation class, on boxscore's engine."""

import copy
import datetime
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore._support.lazy import Lazy
from boxscore.data.batch_keys import COVERAGE_KEYS
from boxscore.dropin import poses
from boxscore.dropin.accumulation import Arrays, LazyEntries, Line, accumulate, build, mean_of, text_of, value_of
from boxscore.dropin.evaluated_rows import (
    EvaluatedRows,
    ImageClassIndex,
    describe_invalid,
    distinct,
    frequency_groups,
    select_rows,
)
from boxscore.dropin.evaluation import COCOeval
from boxscore.dropin.faster_dataset import FasterCOCO
from boxscore.dropin.image_entries import entries_of, matched_pairs
from boxscore.dropin.params import SHAPES, FasterParams, Params
from boxscore.dropin.store import get_lazy

Dict = dict[str, Any]
Floats = NDArray[np.float64]

logger = logging.getLogger("faster_coco_eval.core.cocoeval")  # the name that users configure

MATCH_KEYS = ("tp", "fp", "fn", "gt_id", "dt_id", "iou")
"""The keys of annotations that `mark_annotations` sets."""

CELLS_AT_ONCE = 2**21
"""The largest number of scores times classes whose F1 is in memory at once."""

OKS_LABELS = [f"{number}_{part}" for number in ("AP", "AR") for part in ("all", "50", "75", "medium", "large")]
CROWD_LABELS = ["AP_all", "AP_50", "AP_75", "AR_all", "AR_50", "AR_75", "AP_easy", "AP_medium", "AP_hard"]


class COCOeval_faster(COCOeval):  # noqa: N801 — the name that it replaces
    """The evaluation of detections, as in `faster_coco_eval.COCOeval_faster`: `run`, then `stats_as_dict`.

    Args:
        cocoGt: The dataset.
        cocoDt: The results.
        iouType: One of `FasterParams.iou_types`.
        ranges: The area ranges by name, in addition to "all"; by default small, medium and large.
        print_function: Receives the messages and the summary.
        extra_calc: Whether `accumulate` marks matched annotations, so that mIoU and mAUC are computed.
        kpt_oks_sigmas: The sigmas of OKS; by default COCO's.
        use_area: Whether OKS uses the area of a truth; if False, 0.53 of its box.
        lvis_style: Whether a class only counts in images in which it was verified.
        separate_eval: Whether `accumulate`, not `evaluate`, computes the curves, from `_evalImgs_cpp`.
        boundary_dilation_ratio: The width of boundaries, as a fraction of the image's diagonal.
        boundary_cpu_count: Not used.
        rle_iou_max_workers: Validated, not used.
    """

    def __init__(
        self,
        cocoGt: Any = None,
        cocoDt: Any = None,
        iouType: str = "segm",
        ranges: Mapping[str, Sequence[float]] | None = None,
        print_function: Callable[..., Any] = logger.info,
        extra_calc: bool = False,
        kpt_oks_sigmas: Sequence[float] | None = None,
        use_area: bool | None = True,
        lvis_style: bool = False,
        separate_eval: bool = False,
        boundary_dilation_ratio: float = 0.02,
        boundary_cpu_count: int = 4,
        rle_iou_max_workers: int = 8,
    ) -> None:
        super().__init__(iouType="bbox")
        if isinstance(rle_iou_max_workers, bool) or not isinstance(rle_iou_max_workers, int) or rle_iou_max_workers < 1:
            raise ValueError("rle_iou_max_workers must be a positive integer")  # as in faster_coco_eval
        self.cocoGt, self.cocoDt = cocoGt, cocoDt
        self.params: FasterParams = FasterParams(iouType, kpt_oks_sigmas, ranges)
        self.extra_calc, self.separate_eval, self.use_area = extra_calc, separate_eval, use_area
        self.matched = False
        self.boundary_dilation_ratio = boundary_dilation_ratio
        self.boundary_cpu_count, self.rle_iou_max_workers = boundary_cpu_count, rle_iou_max_workers
        self.lvis_style = lvis_style and self.params.takes_lvis_style()
        if cocoGt is not None:
            self.params.imgIds = sorted(cocoGt.getImgIds())
            self.params.catIds = sorted(_annotated_classes(cocoGt) if poses.is_oks(iouType) else cocoGt.getCatIds())
        self._print_function = print_function
        if self.print_function == print:
            for coco in (cocoGt, cocoDt):
                if coco is not None:
                    coco.print_function = print

    @property
    def print_function(self) -> Callable[..., Any]:
        """The function that receives the messages."""
        return self._print_function

    @print_function.setter
    def print_function(self, value: Callable[..., Any]) -> None:
        self._print_function = value

    def __getattr__(self, name: str) -> Any:
        if name == "_evalImgs_cpp" and self.__dict__.get("_paramsEval"):
            self._evalImgs_cpp = self.evalImgs if self._seen is None else entries_of(self._seen)
            return self._evalImgs_cpp
        return super().__getattr__(name)

    def evaluate(self) -> None:
        """Run per-image evaluation; without `separate_eval` compute the curves, too."""
        start = time.time()
        p = self.params
        self.print_function(f"Evaluate annotation type *{p.iouType}*")
        p.imgIds = distinct(p.imgIds)
        if p.useCats:
            p.catIds = distinct(p.catIds)
        p.maxDets = sorted(p.maxDets)
        if self._has_own_steps():
            self._evaluate_step_by_step(p)
        else:
            self._evaluate_columns(p)
        self._paramsEval = copy.deepcopy(p)
        self.__dict__.pop("_evalImgs_cpp", None)
        if not self.separate_eval:
            self.eval = self._accumulated()
        self.print_function("COCOeval_opt.evaluate() finished...")
        self.print_function(f"DONE (t={time.time() - start:0.2f}s).")

    def _select_rows(self, p: Params) -> EvaluatedRows | None:
        has_own_rules = self.lvis_style or p.iouType not in Params.iou_types or not self.use_area
        # Single images are evaluated under pycocotools' rules only.
        rows = select_rows(self.cocoGt, self.cocoDt, p) if has_own_rules else super()._select_rows(p)
        if rows is None:
            if has_own_rules and (described := describe_invalid(self.cocoGt, self.cocoDt, p)) is not None:
                raise InputError(described)
            return None
        rules: Dict = {**rows.rules, "dilation_ratio": self.boundary_dilation_ratio}
        if poses.is_oks(rows.cells.iou_type) and not self.use_area:
            rules |= poses.AREA_OF_BOX
        rows = replace(rows, rules=rules)
        return self._with_coverage(rows, ImageClassIndex(p)) if self.lvis_style else rows

    def _with_coverage(self, rows: EvaluatedRows, index: ImageClassIndex) -> EvaluatedRows:
        """Count classes only in images in which they were verified."""
        if rows.cells.classes == [-1]:
            raise InputError("`lvis_style` must be False where classes are pooled (`params.useCats` = 0)")
        self.freq_groups = frequency_groups(
            [(each["id"], each.get("frequency")) for each in self.cocoGt.loadCats(self.params.catIds)],
            self.params.imgCountLbl,
            " must have a `frequency`, one of {}, for `lvis_style`",
        )
        images = self.cocoGt.loadImgs(rows.cells.images)
        negative, not_exhaustive = (
            index.listed((image["id"], image.get(key, ())) for image in images) for key in COVERAGE_KEYS
        )
        return rows.with_coverage(negative=negative, not_exhaustive=not_exhaustive)

    def accumulate(self, p: Params | None = None) -> None:
        """Compute the curves if `separate_eval`, and with `extra_calc` mark the matched pairs."""
        if p is not None:
            raise InputError("`p` must be None: faster_coco_eval accumulates what was evaluated, with its parameters")
        self.print_function("Accumulating evaluation results...")
        start = time.time()
        if self.separate_eval:
            if not self._paramsEval:
                raise AssertionError("evaluate() must be called before accmulate() is called.")
            self.eval = self._accumulated()
        self.matched = False
        if self.extra_calc:
            self.math_matches()
            self.matched = True
        self.print_function("COCOeval_opt.accumulate() finished...")
        self.print_function(f"DONE (t={time.time() - start:0.2f}s).")

    def _accumulated(self) -> Dict:
        p = self._paramsEval
        has_own = "_evalImgs_cpp" in self.__dict__  # `_arrays` may set it
        arrays = self._arrays(p)
        T, R, K, A, M = arrays.precision.shape
        values = {
            "params": p,
            "counts": [T, R, K, A, M],
            "date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S"),
            "matched": Lazy(_refuse_matched if has_own else partial(_matched, copy.copy(self))),
            "precision": arrays.precision,
            "scores": arrays.scores,
            "recall": arrays.recall,
            "evaluations_size": K * A * len(p.imgIds),
        }
        return LazyEntries(values)

    def _matched_pairs(self) -> Iterator[tuple[Any, Any, float]]:
        """Yield the ids and the IoU of each matched pair, from the rows, or from the entries of single images."""
        rows = None if self._seen is None else self._seen.parts[0].rows
        if rows is not None:
            yield from matched_pairs(rows)
            return
        for entry in filter(None, self.evalImgs):
            pair = entry["image_id"], entry["category_id"]
            ids = [truth["id"] for truth in self._pair(*pair)[0]]
            for t, d in np.argwhere(entry["dtMatches"]).tolist():
                truth = ids.index(entry["dtMatches"][t, d])
                yield entry["dtIds"][d], ids[truth], float(self.ious[pair][d][truth])

    def _arrays(self, p: FasterParams) -> Arrays:
        """Build the arrays from the tally, or from entries if these were read or set, or without a tally."""
        if self._seen is not None and self._seen.tally is not None and "_evalImgs_cpp" not in self.__dict__:
            return build(self._seen.tally, p.recThrs)
        wanted = copy.copy(p)
        wanted.catIds = p.catIds if p.useCats else [-1]
        every: Any = np.asarray(self._evalImgs_cpp, object)
        return accumulate(every.ravel(), wanted, wanted)

    def math_matches(self) -> None:
        """Set `tp` or `fp` in the dicts of detections, and `fn` in the dicts of truths."""
        mark_annotations(self.cocoDt.anns, self.cocoGt.anns, self.eval["matched"])

    def compute_mIoU(self) -> float:
        """Compute the mean IoU of matched pairs."""
        if self.eval.get("matched") is None:
            raise RuntimeError("Matching data is unavailable; run the evaluation and accumulation pipeline first")
        return mean_iou(self.eval["matched"])

    def compute_mAUC(self) -> float:
        """Compute the mean area under the curves of classes and area ranges."""
        if "precision" not in self.eval:
            raise RuntimeError("Accumulation results are unavailable; call evaluate() and accumulate() first")
        return mean_area(self.eval["precision"], self.params.recThrs)

    @staticmethod
    def calc_auc(recall_list: Any, precision_list: Any, method: str = "c++") -> float:
        """Compute the area under the envelope of precision; `method` changes nothing."""
        del method
        return area_under_curve(recall_list, precision_list)

    def run(self) -> None:
        """Run `evaluate`, `accumulate` and `summarize`."""
        self.evaluate()
        self.accumulate()
        self.summarize()

    def _summarize(
        self,
        ap: int = 1,
        iouThr: float | None = None,
        areaRng: str = "all",
        maxDets: int = 100,
        freq_group_idx: int | None = None,
        catIds: Any = None,
    ) -> float:
        """Compute and print one number; `catIds` are indices of classes."""
        classes = "catIds=all" if self.lvis_style else ""
        if catIds is not None:
            classes = f"catIds=={catIds!s:>3s}"
        if self.lvis_style and freq_group_idx is not None:
            catIds, classes = self.freq_groups[freq_group_idx], f"catIds={self.params.imgCountLbl[freq_group_idx]:>3s}"
        line = Line(not ap, maxDets, iouThr, areaRng)
        value = value_of(line, self.eval, self.params, catIds)
        self.print_function(text_of(line, value, self.params, classes))
        return value

    def summarize(self) -> None:
        """Compute and print the numbers; store all in `all_stats`, and pycocotools' numbers in `stats`."""
        if not self.eval:
            raise Exception("Please run accumulate() first")  # as in faster_coco_eval
        kind = self.params.iouType
        if kind in SHAPES:
            self.all_stats = self._box_numbers()
            self.stats = self.all_stats[: 3 + 2 * len(self.params.areaRngLbl[1:]) + self._num_recalls()]
        elif poses.is_oks(kind):
            self.all_stats = self.stats = self._oks_numbers(("medium", "large"))
        else:
            self.all_stats = self.stats = np.append(self._oks_numbers(()), self._crowd_numbers())
        if self.matched:
            self.all_stats = np.append(self.all_stats, [self.compute_mIoU(), self.compute_mAUC()])

    def _num_recalls(self) -> int:
        """Number of recalls. As in faster_coco_eval: with `lvis_style` at least three, though LVIS has one."""
        return max(len(self.params.maxDets), 3) if self.lvis_style else len(self.params.maxDets)

    def _box_numbers(self) -> Any:
        p, most = self.params, self.params.maxDets[-1]
        areas = p.areaRngLbl[1:]
        precisions = [self._summarize(1, threshold, maxDets=most) for threshold in (None, 0.5, 0.75)]
        precisions += [self._summarize(1, areaRng=area, maxDets=most) for area in areas]
        groups = [self._summarize(1, maxDets=most, freq_group_idx=g) for g in range(3)] if self.lvis_style else []
        recalls = [self._summarize(0, maxDets=limit) for limit in p.maxDets]
        recalls += [0.0] * (self._num_recalls() - len(recalls))
        recalls += [self._summarize(0, areaRng=area, maxDets=most) for area in areas]
        recalls += [self._summarize(0, threshold, maxDets=most) for threshold in (0.5, 0.75)]
        return np.array([*precisions, *recalls, *groups], np.float64)

    def _oks_numbers(self, areas: Sequence[str]) -> Any:
        most = self.params.maxDets[-1]
        numbers = []
        for ap in (1, 0):
            numbers += [self._summarize(ap, threshold, maxDets=most) for threshold in (None, 0.5, 0.75)]
            numbers += [self._summarize(ap, areaRng=area, maxDets=most) for area in areas]
        return np.array(numbers, np.float64)

    def _crowd_numbers(self) -> list[float]:
        """Compute and print the precision in images of low, medium and high crowd index."""
        numbers = self.get_type_result(first=0.2, second=0.8)
        p = self.params
        start = f" Average Precision  (AP) @[ IoU={p.iouThrs[0]:0.2f}:{p.iouThrs[-1]:0.2f}"
        for name, value in zip(("easy", "medium", "hard"), numbers, strict=True):
            self.print_function(f"{start} | type={name:>6s} | maxDets={p.maxDets[-1]:>3d} ] = {value:0.3f}")
        return numbers

    def get_type_result(self, first: float = 0.01, second: float = 0.85) -> list[float]:
        """Compute the mean precision in images whose crowd index is below `first`, below `second`, and others."""
        numbers, print_function = [], self.print_function
        self.print_function = _say_nothing
        for images in self.split(self.cocoGt.annotation_file, first, second):
            self.params.imgIds = images
            self.evaluate()
            self.accumulate()
            # as in faster_coco_eval: the mean includes -1 for undefined
            numbers.append(round(np.mean(self.eval["precision"][:, :, :, 0, :]), 4))
        self.print_function = print_function
        return numbers

    def split(self, gt_file: Any, first: float = 0.01, second: float = 0.85) -> tuple[list[Any], list[Any], list[Any]]:
        """Split the ids of images by `crowdIndex`: below `first`, below `second`, and others."""
        easy: list[Any] = []
        medium: list[Any] = []
        hard: list[Any] = []
        for image in FasterCOCO.load_json(gt_file)["images"]:
            index = image["crowdIndex"]
            (easy if index < first else medium if index < second else hard).append(image["id"])
        return easy, medium, hard

    @property
    def stats_as_dict(self) -> dict[str, float]:
        """The numbers by name."""
        return {label: float(self.all_stats[i]) for i, label in enumerate(self._labels())}

    def _labels(self) -> list[str]:
        p = self.params
        if p.iouType in SHAPES:
            areas = [label for label in p.areaRngLbl if label != "all"]
            recalls = ["AR_all", "AR_second", "AR_third"]
            if self.lvis_style:
                recalls += [f"AR_{limit}" for limit in p.maxDets[3:]]
            elif p.maxDets != [1, 10, 100]:
                recalls = [f"AR_{limit}" for limit in p.maxDets]
            labels = ["AP_all", "AP_50", "AP_75", *(f"AP_{area}" for area in areas), *recalls]
            labels += [*(f"AR_{area}" for area in areas), "AR_50", "AR_75"]
            labels += ["APr", "APc", "APf"] if self.lvis_style else []
        else:
            labels = list(OKS_LABELS if poses.is_oks(p.iouType) else CROWD_LABELS)
        return labels + (["mIoU", f"mAUC_{int(p.iouThrs[0] * 100)}"] if self.matched else [])

    @property
    def extended_metrics(self) -> Dict:
        """AP of each class, and precision and recall at the score with the highest mean F1 of the classes."""
        p, precision, stats = self.params, self.eval["precision"], self.stats_as_dict
        at_50 = np.where(np.isclose(p.iouThrs, 0.50))[0]
        if len(at_50) == 0:
            given = np.asarray(p.iouThrs).tolist()
            raise ValueError(
                f"extended_metrics requires IoU threshold 0.50, but it is not present in params.iouThrs={given}."
            )
        detections, truths = self.cocoDt.anns, self.cocoGt.anns
        labels = p.catIds if p.useCats else list({ann["category_id"] for ann in detections.values()})
        scores = np.array(sorted({float(ann["score"]) for ann in detections.values()}))
        best = best_threshold(scored_classes(labels, detections, truths, self.eval["matched"]), scores)
        rows, last = [], precision.shape[-1] - 1
        for k, category in enumerate(self.cocoGt.loadCats(p.catIds) if p.useCats else ()):
            ap, ap_50 = (
                mean_of(precision, areas=[0], limits=[last], thresholds=each, classes=[k]) for each in (None, at_50[:1])
            )
            if category["id"] in best.of_class and not np.isnan(ap) and not np.isnan(ap_50):
                rates = dict(zip(("precision", "recall"), best.of_class[category["id"]], strict=True))
                rows.append({"class": category["name"], "map@50:95": ap, "map@50": ap_50, **rates})
        whole = {"precision": best.precision, "recall": best.recall}
        rows.append({"class": "all", "map@50:95": stats["AP_all"], "map@50": stats["AP_50"], **whole})
        return {"class_map": rows, "map": stats["AP_50"], **whole}

    def __str__(self) -> str:
        self.summarize()
        return repr(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}() # boxscore, in place of faster_coco_eval"


class PrintingCOCOeval(COCOeval_faster):
    """`COCOeval_faster` under pycocotools' name: it prints, unless `print_function` is set later."""

    @property
    def print_function(self) -> Callable[..., Any]:
        """The function that receives the messages, by default `print`."""
        return getattr(self, "_compat_print_function", print)

    @print_function.setter
    def print_function(self, value: Callable[..., Any]) -> None:
        self._compat_print_function = value


PrintingCOCOeval.__name__ = PrintingCOCOeval.__qualname__ = "COCOeval"


def _annotated_classes(coco: Any) -> Any:
    """The classes that have annotations."""
    lazy = get_lazy(coco)
    return coco.catToImgs if lazy is None else np.unique(lazy.columns.category).tolist()


def _matched(evaluation: COCOeval_faster) -> dict[str, float]:
    return {f"{detection}_{truth}": overlap for detection, truth, overlap in evaluation._matched_pairs()}


def _refuse_matched() -> dict[str, float]:
    raise InputError(
        "`matched` needs the overlaps of evaluate(), which are not among the entries of `_evalImgs_cpp`; evaluate "
        "without separate_eval"
    )


def _say_nothing(*_: Any) -> None:
    pass


def mark_annotations(detections: Mapping[int, Dict], truths: Mapping[int, Dict], matched: Mapping[str, float]) -> None:
    """Set `tp` or `fp`, `fn`, and the ids and IoUs of pairs, in the dicts of detections and truths."""
    for ann in (*detections.values(), *truths.values()):
        for key in MATCH_KEYS:
            ann.pop(key, None)
    for pair, iou in matched.items():
        detection_id, truth_id = map(int, pair.split("_", 1))
        detections[detection_id] |= {"tp": True, "gt_id": truth_id, "iou": iou}
        truths[truth_id]["dt_id"] = detection_id
    for ann in detections.values():
        if ann.get("gt_id") is None:
            ann["fp"] = True
    for ann in truths.values():
        if ann.get("dt_id") is None:
            ann["fn"] = True


def mean_iou(matched: Mapping[str, float]) -> float:
    """Mean IoU of matched pairs, summed exactly; 0 without pairs."""
    return math.fsum(matched.values()) / len(matched) if matched else 0.0


def area_under_curve(recall: Any, precision: Any) -> float:
    """The area under the envelope of precision, to 15 digits.

    >>> area_under_curve([0, 0.5, 1], [1, 0.5, 0.25])
    0.375
    """
    recall, precision = (np.asarray(each, np.longdouble) for each in (recall, precision))
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    steps = np.diff(recall) * envelope[1 : len(recall)]
    return round(float(steps.cumsum()[-1]) if len(steps) else 0.0, 15)


def mean_area(precision: Floats, recall_points: Any) -> float:
    """Mean area under the curves of all classes and area ranges that have one, at the first threshold.

    As in faster_coco_eval: the precisions of all limits are flattened into one list, and only its first points count.
    """
    _, _, K, A, _ = precision.shape
    areas = [area_under_curve(recall_points, precision[0, :, k, a].ravel()) for k in range(K) for a in range(A)]
    defined = [area for area in areas if area != -1]
    return sum(defined) / len(defined) if defined else 0.0


class BestThreshold(NamedTuple):
    """Precision and recall at the score with the highest mean F1 of the classes."""

    precision: float
    recall: float
    of_class: dict[Any, tuple[float, float]]


class ScoredClass(NamedTuple):
    """The detections of a class by falling score, and its number of truths."""

    label: Any
    score: Floats
    num_true: NDArray[np.int64]
    """Number of true positives down to each score."""
    num_truths: int


def scored_classes(
    labels: Sequence[Any], detections: Mapping[int, Dict], truths: Mapping[int, Dict], matched: Mapping[str, float]
) -> list[ScoredClass]:
    """The classes that have truths; a detection with a match of IoU 0.5 or more is a true positive."""
    is_true = {int(pair.split("_", 1)[0]) for pair, iou in matched.items() if iou >= 0.5}
    num_truths: dict[Any, int] = {}
    for ann in truths.values():
        if not ann.get("iscrowd", 0):
            num_truths[ann["category_id"]] = num_truths.get(ann["category_id"], 0) + 1
    rows: dict[Any, list[tuple[float, bool]]] = {}
    for number, ann in detections.items():
        rows.setdefault(ann["category_id"], []).append((float(ann["score"]), number in is_true))
    classes = []
    for label in labels:
        if label in num_truths:
            score, hit = np.array(sorted(rows.get(label, ()), key=lambda row: -row[0]), np.float64).reshape(-1, 2).T
            classes.append(ScoredClass(label, score, np.cumsum(hit).astype(np.int64), num_truths[label]))
    return classes


def best_threshold(classes: Sequence[ScoredClass], scores: Floats) -> BestThreshold:
    """Find the lowest of the ascending scores that gives the highest mean F1 as a threshold."""
    best, found = -np.inf, BestThreshold(0.0, 0.0, {})
    if not classes:
        return found
    step = max(1, CELLS_AT_ONCE // len(classes))
    for first in range(0, len(scores), step):
        precision_SK, recall_SK = _rates(classes, scores[first : first + step])
        both = precision_SK + recall_SK
        f1 = np.divide(2.0 * precision_SK * recall_SK, both, out=np.zeros_like(both), where=both > 0)
        mean_S = f1.mean(axis=1)
        row = int(mean_S.argmax())
        if mean_S[row] > best:
            best = float(mean_S[row])
            rates = zip(precision_SK[row].tolist(), recall_SK[row].tolist(), strict=True)
            of_class = {each.label: pair for each, pair in zip(classes, rates, strict=True)}
            found = BestThreshold(float(precision_SK[row].mean()), float(recall_SK[row].mean()), of_class)
    return found


def _rates(classes: Sequence[ScoredClass], thresholds: Floats) -> tuple[Floats, Floats]:
    """Precision and recall of detections with at least these scores. Shape (S, K)."""
    precision, recall = (np.zeros((len(thresholds), len(classes))) for _ in range(2))
    for k, each in enumerate(classes):
        num = np.searchsorted(-each.score, -thresholds, side="right")
        num_true = np.concatenate([[0], each.num_true])[num]
        precision[:, k] = np.divide(num_true, num, out=np.zeros(len(num)), where=num > 0)
        recall[:, k] = num_true / each.num_truths
    return precision, recall
