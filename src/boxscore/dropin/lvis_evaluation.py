"""LVISEval: the evaluation class of `lvis`, on boxscore's engine."""

import datetime
import logging
from collections import OrderedDict, defaultdict
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore._support.lazy import Lazy
from boxscore.dropin import mask
from boxscore.dropin.accumulation import build
from boxscore.dropin.image_entries import overlaps_by_image
from boxscore.dropin.lvis_columns import FederatedColumns, frequency_groups, list_of, select_federated
from boxscore.dropin.lvis_dataset import Dict, UnsupportedTypeError
from boxscore.dropin.lvis_entries import (
    LazyEntries,
    accumulate_entries,
    entries_of,
    match_pair,
    pointers_of_entries,
    pointers_of_tally,
)
from boxscore.dropin.lvis_results import LVISResults, as_dataset
from boxscore.dropin.row_selection import distinct
from boxscore.dropin.single_image import SHAPE_KEYS
from boxscore.dropin.summary_lines import mean_of
from boxscore.result.tally import Tally

LAZY = ("eval_imgs", "ious", "_gts", "_dts", "img_nel")
"""The attributes that are made when they are first read. Once made, `accumulate` uses `eval_imgs`, so changes count."""

STEPS = ("_prepare", "_to_mask", "_get_gt_dt", "compute_iou", "evaluate_img")
"""Methods that subclasses may override. If one does, every image is evaluated by these methods."""

_LINE = " {:<18} {} @[ IoU={:<9} | area={:>6s} | maxDets={:>3d} catIds={:>3s}] = {:0.3f}"


class MissingClassError(InputError, IndexError):
    """What `lvis` raises an IndexError for: groups of classes, where classes are not used."""

    __module__ = "boxscore"


class LVISParams:
    """Thresholds, area ranges, images and classes: plain attributes, to be changed before `evaluate`.

    `max_dets` is only a text in names and lines: results are limited when they are loaded.
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


class LVISEval:
    """The evaluation of detections, as `lvis.LVISEval` has it: `run`, or evaluate, accumulate, summarize.

    `lvis_gt`: a dataset or its path. `lvis_dt`: results, their path, or a list of dicts. `iou_type`: "bbox" or "segm".
    """

    eval_imgs: Any
    """One dict per class, area range and image; None where there are neither detections nor truths."""
    ious: dict[tuple[Any, Any], Any]
    """The overlaps of every image and class: one row per detection, by falling score, one column per truth."""
    img_nel: dict[Any, list[Any]]
    """The classes of each image that were not annotated exhaustively."""
    freq_groups: list[list[int]]
    """The indices in `params.cat_ids` of rare, common and frequent classes."""
    _gts: defaultdict[tuple[Any, Any], list[Dict]]
    _dts: defaultdict[tuple[Any, Any], list[Dict]]

    def __init__(self, lvis_gt: Any, lvis_dt: Any, iou_type: str = "segm") -> None:
        self.logger = logging.getLogger(__name__)
        if iou_type not in ("bbox", "segm"):
            raise InputError(f"`iou_type` must be bbox or segm; got {iou_type!r}")
        self.lvis_gt = as_dataset("lvis_gt", lvis_gt)
        if isinstance(lvis_dt, LVISResults):
            self.lvis_dt = lvis_dt
        elif isinstance(lvis_dt, str | list):
            self.lvis_dt = LVISResults(self.lvis_gt, lvis_dt)
        else:
            got = type(lvis_dt).__name__
            raise UnsupportedTypeError(f"`lvis_dt` must be a boxscore.lvis.LVISResults, a path or a list; got {got}")
        self.eval_imgs = defaultdict(list)
        self.eval: Dict = {}
        self._gts, self._dts = defaultdict(list), defaultdict(list)
        self.params = LVISParams(iou_type)
        self.results: OrderedDict[str, Any] = OrderedDict()
        self.ious = {}
        self._columns: FederatedColumns | None = None
        self._tally: Tally | None = None
        self.params.img_ids = sorted(self.lvis_gt.get_img_ids())
        self.params.cat_ids = sorted(self.lvis_gt.get_cat_ids())

    def __getattr__(self, name: str) -> Any:
        """Make a lazy attribute when it is first read."""
        columns = self.__dict__.get("_columns")
        if name not in LAZY or columns is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name == "eval_imgs":
            self.eval_imgs = entries_of(columns)
        elif name == "ious":
            self.ious = overlaps_by_image(columns.seen)
        else:
            self._prepare()
        return self.__dict__[name]

    def evaluate(self) -> None:
        """Match every image and class, in every area range, at every threshold."""
        self.logger.info("Running per image evaluation.")
        p = self.params
        if p.iou_type not in ("bbox", "segm"):
            raise InputError(f"`params.iou_type` must be bbox or segm; got {p.iou_type!r}")
        self.logger.info("Evaluate annotation type *%s*", p.iou_type)
        p.img_ids = distinct(p.img_ids)
        p.cat_ids = list(p.cat_ids)
        for name in LAZY:
            self.__dict__.pop(name, None)
        self._columns = self._tally = None
        self.eval = {}
        has_own_steps = any(
            getattr(type(self), name) is not getattr(LVISEval, name) or name in self.__dict__ for name in STEPS
        )
        if has_own_steps or not p.use_cats:
            self._evaluate_step_by_step()
            return
        self._columns = select_federated(self.lvis_gt, self.lvis_dt, p)
        self.freq_groups = self._prepare_freq_group()
        self._tally = self._columns.tally()

    def _evaluate_step_by_step(self) -> None:
        p = self.params
        self._gts, self._dts = defaultdict(list), defaultdict(list)
        self._prepare()
        classes = p.cat_ids if p.use_cats else [-1]
        self.ious = {(image, label): self.compute_iou(image, label) for image in p.img_ids for label in classes}
        self.eval_imgs = [
            self.evaluate_img(image, label, area) for label in classes for area in p.area_rng for image in p.img_ids
        ]

    def _prepare(self) -> None:
        """Put the annotations into `_gts` and `_dts`, by image and class, and make `img_nel` and `freq_groups`."""
        p = self.params
        truths, detections = (
            lvis.load_anns(lvis.get_ann_ids(img_ids=p.img_ids, cat_ids=p.cat_ids or None))
            for lvis in (self.lvis_gt, self.lvis_dt)
        )
        if p.iou_type == "segm":
            self._to_mask(truths, self.lvis_gt)
            self._to_mask(detections, self.lvis_dt)
        images = self.lvis_gt.load_imgs(p.img_ids)
        looked_for = {image["id"]: set(list_of(image, "neg_category_ids")) for image in images}
        self.img_nel = {image["id"]: list_of(image, "not_exhaustive_category_ids") for image in images}
        gts, dts = defaultdict(list), defaultdict(list)
        for truth in truths:
            truth.setdefault("ignore", 0)
            gts[truth["image_id"], truth["category_id"]].append(truth)
            looked_for[truth["image_id"]].add(truth["category_id"])
        for detection in detections:
            if detection["category_id"] in looked_for[detection["image_id"]]:
                dts[detection["image_id"], detection["category_id"]].append(detection)
        self._gts, self._dts = gts, dts
        self.freq_groups = self._prepare_freq_group()

    def _to_mask(self, anns: list[Dict], lvis: Any) -> None:
        """Encode the masks of annotations. As in LVIS: in the dicts themselves."""
        for ann in anns:
            ann["segmentation"] = lvis.ann_to_rle(ann)

    def _prepare_freq_group(self) -> list[list[int]]:
        return frequency_groups(self.lvis_gt, self.params.cat_ids, self.params.img_count_lbl)

    def _get_gt_dt(self, img_id: Any, cat_id: Any) -> tuple[list[Dict], list[Dict]]:
        """The truths and the detections of an image and class.

        As in LVIS: where classes are not used, those of the class -1, which no annotation is of.
        """
        return self._gts[img_id, cat_id], self._dts[img_id, cat_id]

    def compute_iou(self, img_id: Any, cat_id: Any) -> Any:
        """The overlaps of an image and class: one row per detection, by falling score, one column per truth; or []."""
        truths, detections = self._get_gt_dt(img_id, cat_id)
        key = SHAPE_KEYS[self.params.iou_type]
        order = np.argsort([-each["score"] for each in detections], kind="mergesort")
        return mask.iou([detections[row][key] for row in order], [each[key] for each in truths], [0] * len(truths))

    def evaluate_img(self, img_id: Any, cat_id: Any, area_rng: Any) -> Dict | None:
        """Match one image and class in one area range; None if there are neither detections nor truths."""
        truths, detections = self._get_gt_dt(img_id, cat_id)
        if not truths and not detections:
            return None
        is_partial = [each["category_id"] in self.img_nel[each["image_id"]] for each in detections]
        entry = match_pair(
            detections, truths, self.ious[img_id, cat_id], is_partial, thresholds=self.params.iou_thrs, area=area_rng
        )
        return {"image_id": img_id, "category_id": cat_id, "area_rng": area_rng, **entry}

    def accumulate(self) -> None:
        """Compute the curves of all that was evaluated, and store them in `eval`."""
        self.logger.info("Accumulating evaluation results.")
        p = self.params
        columns, tally = self._columns, self._tally
        is_lazy = "eval_imgs" not in self.__dict__
        if not is_lazy and not self.eval_imgs:
            self.logger.warning("Please run evaluate first.")
        if "freq_groups" not in self.__dict__:
            raise InputError("accumulate() needs the results of evaluate(); got none")
        if is_lazy and columns is not None and tally is not None:
            _check_unchanged(p, columns)
            arrays = build(tally, p.rec_thrs)
            pointers = Lazy(partial(pointers_of_tally, tally, columns.seen))
        else:
            arrays = accumulate_entries(self.eval_imgs, p)
            pointers = Lazy(partial(pointers_of_entries, self.eval_imgs, p))
        self.eval = LazyEntries(
            params=p,
            counts=list(arrays.precision.shape[:4]),
            date=datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S"),
            precision=arrays.precision[..., 0],
            recall=arrays.recall[..., 0],
            dt_pointers=pointers,
        )

    def _summarize(
        self, summary_type: str, iou_thr: float | None = None, area_rng: str = "all", freq_group_idx: int | None = None
    ) -> Any:
        """The mean of what is defined, or -1."""
        p = self.params
        areas = [index for index, name in enumerate(p.area_rng_lbl) if name == area_rng]
        samples = self.eval["precision" if summary_type == "ap" else "recall"][..., None]
        thresholds = None if iou_thr is None else np.where(iou_thr == p.iou_thrs)[0]
        classes = self.freq_groups[freq_group_idx] if summary_type == "ap" and freq_group_idx is not None else None
        if any(index >= samples.shape[2] for index in classes or ()):
            raise MissingClassError("`params.use_cats` must be 1 for the numbers of rare, common and frequent classes")
        mean = mean_of(samples, areas=areas, limits=[0], thresholds=thresholds, classes=classes)
        return -1 if np.isnan(mean) else np.float64(mean)

    def summarize(self) -> None:
        """Store the numbers in `results`."""
        if not self.eval:
            raise RuntimeError("Please run accumulate() first.")  # as in LVIS
        results, limit = self.results, self.params.max_dets
        results["AP"] = self._summarize("ap")
        results["AP50"] = self._summarize("ap", iou_thr=0.50)
        results["AP75"] = self._summarize("ap", iou_thr=0.75)
        for area in ("small", "medium", "large"):
            results[f"AP{area[0]}"] = self._summarize("ap", area_rng=area)
        for index, letter in enumerate("rcf"):
            results[f"AP{letter}"] = self._summarize("ap", freq_group_idx=index)
        results[f"AR@{limit}"] = self._summarize("ar")
        for area in ("small", "medium", "large"):
            results[f"AR{area[0]}@{limit}"] = self._summarize("ar", area_rng=area)

    def run(self) -> None:
        """Evaluate, accumulate and summarize."""
        self.evaluate()
        self.accumulate()
        self.summarize()

    def print_results(self) -> None:
        """Print one line per number."""
        thresholds = self.params.iou_thrs
        for key, value in self.results.items():
            title, kind = ("Average Precision", "(AP)") if "AP" in key else ("Average Recall", "(AR)")
            mark = key[2:3]
            iou = f"{thresholds[0]:0.2f}:{thresholds[-1]:0.2f}"
            if mark.isdigit():
                iou = f"{float(key[2:]) / 100:0.2f}"
            area = mark if mark and mark in "sml" else "all"
            group = mark if mark and mark in "rcf" else "all"
            print(_LINE.format(title, kind, iou, area, self.params.max_dets, group, value))

    def get_results(self) -> "OrderedDict[str, Any]":
        """The numbers by name."""
        if not self.results:
            self.logger.warning("results is empty. Call run().")
        return self.results


def _check_unchanged(p: LVISParams, columns: FederatedColumns) -> None:
    """Raise `InputError` if other images, classes, thresholds or ranges are wanted than were evaluated."""
    seen = columns.seen
    is_same = {
        "img_ids": list(p.img_ids) == seen.images,
        "cat_ids": list(p.cat_ids) == seen.classes,
        "area_rng": [tuple(area) for area in p.area_rng] == seen.bounds,
        "iou_thrs": np.array_equal(p.iou_thrs, seen.thresholds),
        "use_cats": bool(p.use_cats),
    }
    changed = next((name for name, same in is_same.items() if not same), None)
    if changed is not None:
        raise InputError(f"`params.{changed}` must be as it was in evaluate(); call evaluate() again after changing it")
