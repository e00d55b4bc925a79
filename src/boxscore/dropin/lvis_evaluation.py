"""LVISEval: the evaluation class of `lvis`, on boxscore's engine."""

import datetime
import logging
import os
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore._support.lazy import Lazy
from boxscore.data.batch_keys import COVERAGE_KEYS
from boxscore.dropin import mask
from boxscore.dropin.accumulation import LINE, Arrays, LazyEntries, accumulate, build, mean_of
from boxscore.dropin.evaluated_rows import (
    Cells,
    Evaluated,
    EvaluatedPart,
    EvaluatedRows,
    ImageClassIndex,
    describe_invalid,
    distinct,
    frequency_groups,
    join,
    load_annotations,
    rows_under,
    select_detections,
    select_truths,
)
from boxscore.dropin.evaluation import StepwiseEvaluation
from boxscore.dropin.image_entries import ImageRules, entries_of, match_image, overlaps_by_image
from boxscore.dropin.lvis_dataset import LVIS, Dict, LVISResults, UnsupportedTypeError, as_dataset
from boxscore.dropin.params import SHAPE_KEYS, LVISParams, coco_params
from boxscore.dropin.store import get_lazy
from boxscore.result.tally import FALSE, TRUE

_NAMES = {
    "image_id": "image_id",
    "category_id": "category_id",
    "aRng": "area_rng",
    "dtIds": "dt_ids",
    "gtIds": "gt_ids",
    "dtMatches": "dt_matches",
    "gtMatches": "gt_matches",
    "dtScores": "dt_scores",
    "gtIgnore": "gt_ignore",
    "dtIgnore": "dt_ignore",
}
"""The names of `lvis` for pycocotools' keys of an entry, in the order of `lvis`."""


class MissingClassError(InputError, IndexError):
    """Raised for groups of classes if classes are not used, for which `lvis` raises an IndexError."""

    __module__ = "boxscore"


class LVISEval(StepwiseEvaluation):
    """The evaluation of detections, as in `lvis.LVISEval`: `run`, or evaluate, accumulate, summarize.

    Args:
        lvis_gt: A dataset, or its path.
        lvis_dt: Results, their path, or a list of dicts.
        iou_type: "bbox" or "segm".
    """

    LAZY = ("eval_imgs", "ious", "_gts", "_dts", "img_nel")
    STEPS = ("_prepare", "_to_mask", "_get_gt_dt", "compute_iou", "evaluate_img")

    eval_imgs: Any
    """One dict per class, area range and image; None without detections and truths."""
    ious: dict[tuple[Any, Any], Any]
    """The IoUs of each image and class: one row per detection, by falling score, one column per truth."""
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
        elif isinstance(lvis_dt, str | os.PathLike | list):
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
        self._seen: Evaluated | None = None
        self.params.img_ids = sorted(self.lvis_gt.get_img_ids())
        self.params.cat_ids = sorted(self.lvis_gt.get_cat_ids())

    def _make_lazy(self, name: str, seen: Evaluated) -> None:
        if name == "eval_imgs":
            self.eval_imgs = [None if entry is None else _renamed(entry) for entry in entries_of(seen)]
        elif name == "ious":
            self.ious = overlaps_by_image(seen)
        else:
            self._prepare()

    def evaluate(self) -> None:
        """Run per-image evaluation: match each image and class, in each area range, at each threshold."""
        self.logger.info("Running per image evaluation.")
        p = self.params
        if p.iou_type not in ("bbox", "segm"):
            raise InputError(f"`params.iou_type` must be bbox or segm; got {p.iou_type!r}")
        self.logger.info("Evaluate annotation type *%s*", p.iou_type)
        p.img_ids = distinct(p.img_ids)
        p.cat_ids = list(p.cat_ids)
        self._set_seen(None)
        if self._has_own_steps() or not p.use_cats:
            self._evaluate_step_by_step()
            return
        rows = select_federated(self.lvis_gt, self.lvis_dt, p)
        self.freq_groups = self._prepare_freq_group()
        self._set_seen(join([EvaluatedPart.of(rows, is_traced=True)]))

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
        """Prepare `_gts` and `_dts`, the annotations by image and class, `img_nel` and `freq_groups`."""
        p = self.params
        truths, detections = (
            load_annotations(lvis, p.img_ids, p.cat_ids, is_pooled=False) for lvis in (self.lvis_gt, self.lvis_dt)
        )
        if p.iou_type == "segm":
            self._to_mask(truths, self.lvis_gt)
            self._to_mask(detections, self.lvis_dt)
        images = self.lvis_gt.load_imgs(p.img_ids)
        verified = {image["id"]: set(list_of(image, "neg_category_ids")) for image in images}
        self.img_nel = {image["id"]: list_of(image, "not_exhaustive_category_ids") for image in images}
        gts, dts = defaultdict(list), defaultdict(list)
        for truth in truths:
            truth.setdefault("ignore", 0)
            gts[truth["image_id"], truth["category_id"]].append(truth)
            verified[truth["image_id"]].add(truth["category_id"])
        for detection in detections:
            if detection["category_id"] in verified[detection["image_id"]]:
                dts[detection["image_id"], detection["category_id"]].append(detection)
        self._gts, self._dts = gts, dts
        self.freq_groups = self._prepare_freq_group()

    def _to_mask(self, anns: list[Dict], lvis: Any) -> None:
        """Encode the masks of annotations. As in LVIS: this changes the dicts."""
        for ann in anns:
            ann["segmentation"] = lvis.ann_to_rle(ann)

    def _prepare_freq_group(self) -> list[list[int]]:
        lazy, labels = get_lazy(self.lvis_gt), [_python_value(label) for label in self.params.cat_ids]
        if lazy is not None:
            frequency = lazy.frequency
        else:
            frequency = {label: category.get("frequency") for label, category in self.lvis_gt.cats.items()}
        pairs = [(label, frequency.get(label)) for label in labels]
        return frequency_groups(pairs, self.params.img_count_lbl, ": `frequency` must be one of {}")

    def _get_gt_dt(self, img_id: Any, cat_id: Any) -> tuple[list[Dict], list[Dict]]:
        """Get the truths and the detections of an image and class.

        As in LVIS: if classes are not used, the class is -1, which has no annotations.
        """
        return self._gts[img_id, cat_id], self._dts[img_id, cat_id]

    def compute_iou(self, img_id: Any, cat_id: Any) -> Any:
        """Compute the IoUs of an image and class: one row per detection, by falling score; one column per truth."""
        truths, detections = self._get_gt_dt(img_id, cat_id)
        key = SHAPE_KEYS[self.params.iou_type]
        order = np.argsort([-each["score"] for each in detections], kind="mergesort")
        return mask.iou([detections[row][key] for row in order], [each[key] for each in truths], [0] * len(truths))

    def evaluate_img(self, img_id: Any, cat_id: Any, area_rng: Any) -> Dict | None:
        """Match one image and class in one area range; return None without detections and truths."""
        truths, detections = self._get_gt_dt(img_id, cat_id)
        if not truths and not detections:
            return None
        is_partial = [each["category_id"] in self.img_nel[each["image_id"]] for each in detections]
        rules = ImageRules(thresholds=self.params.iou_thrs, area=area_rng, limit=max(len(detections), 1))
        # as in LVIS: crowds are regular truths
        entry = match_image(detections, [{**each, "iscrowd": 0} for each in truths], self.ious[img_id, cat_id], rules)
        order = np.argsort([-each["score"] for each in detections], kind="mergesort")
        entry["dtIgnore"] = entry["dtIgnore"] | ((entry["dtMatches"] == 0) & np.array(is_partial, bool)[order])
        return _renamed({"image_id": img_id, "category_id": cat_id, "aRng": area_rng, **entry})

    def accumulate(self) -> None:
        """Accumulate the per-image results into curves, and store them in `eval`."""
        self.logger.info("Accumulating evaluation results.")
        p = self.params
        seen = self._seen
        is_lazy = "eval_imgs" not in self.__dict__
        if not is_lazy and not self.eval_imgs:
            self.logger.warning("Please run evaluate first.")
        if "freq_groups" not in self.__dict__:
            raise InputError("accumulate() needs the results of evaluate(); got none")
        if is_lazy and seen is not None and seen.tally is not None:
            _check_unchanged(p, seen.cells)
            arrays = build(seen.tally, p.rec_thrs)
            pointers = Lazy(partial(pointers_of_tally, seen))
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
        """Mean of the defined samples, or -1."""
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
        """Compute the summary numbers and store them in `results`."""
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
            print(LINE.format(title, kind, iou, area, self.params.max_dets, f"catIds={group:>3s}", value))

    def get_results(self) -> "OrderedDict[str, Any]":
        """The numbers by name."""
        if not self.results:
            self.logger.warning("results is empty. Call run().")
        return self.results


def _check_unchanged(p: LVISParams, cells: Cells) -> None:
    """Raise `InputError` if images, classes, thresholds or ranges were changed after `evaluate`."""
    is_same = {
        "img_ids": list(p.img_ids) == cells.images,
        "cat_ids": list(p.cat_ids) == cells.classes,
        "area_rng": [tuple(area) for area in p.area_rng] == cells.bounds,
        "iou_thrs": np.array_equal(p.iou_thrs, cells.thresholds),
        "use_cats": bool(p.use_cats),
    }
    changed = next((name for name, same in is_same.items() if not same), None)
    if changed is not None:
        raise InputError(f"`params.{changed}` must be as it was in evaluate(); call evaluate() again after changing it")


def _python_value(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def select_federated(truths: LVIS, results: LVISResults, p: LVISParams) -> EvaluatedRows:
    """Select the annotations that `lvis` evaluates under these parameters, in its order."""
    params = coco_params(p)
    index = ImageClassIndex(params, compared=get_lazy(truths))
    lists = _lists(index, truths)
    sides = select_detections(index, results), select_truths(index, truths)
    rows = rows_under(params, *sides)
    if rows is None:
        fallback = "annotations must have numbers as ids"
        if None not in sides:
            fallback = (
                "masks of annotations and of results have runs of no pixels, where `lvis` stops comparing them; encode "
                "them again, as `boxscore.dropin.mask.encode` does"
            )
        raise InputError(describe_invalid(truths, results, params) or fallback)
    rules = {**rows.rules, "ignored": "difficult", "limits_per": "image", "limits": (None,)}
    return replace(rows, rules=rules).with_coverage(negative=lists[0], not_exhaustive=lists[1])


def _lists(index: ImageClassIndex, truths: LVIS) -> list[tuple[Any, Any]]:
    """Indices of images and classes in `neg_category_ids` and in `not_exhaustive_category_ids`."""
    lazy = get_lazy(truths) if index.has_integers else None
    known = (truths.imgs, truths.cats) if lazy is None else (lazy.images, lazy.categories)
    for name, wanted, ids in (("img_ids", index.images, known[0]), ("cat_ids", index.classes, known[1])):
        unknown = next((each for each in wanted if each not in ids), None)
        if unknown is not None:
            raise InputError(f"`params.{name}` must be ids of the dataset; got {_python_value(unknown)!r}")
    if lazy is not None:
        return [index.select(*pairs)[1:] for pairs in (lazy.negative, lazy.not_exhaustive)]
    images = truths.load_imgs(index.images)
    return [index.listed((image["id"], list_of(image, key)) for image in images) for key in COVERAGE_KEYS]


def list_of(image: Dict, key: str) -> list[Any]:
    """A list of classes of an image; an error if it is missing, as in files that are not LVIS."""
    if key not in image:
        raise InputError(f"image {image['id']!r} must have `{key}`, as LVIS' images have; this is not an LVIS file")
    if not isinstance(image[key], list) or not all(isinstance(each, int | str) for each in image[key]):
        raise InputError(f"image {image['id']!r}: `{key}` must be a list of the ids of classes; got {image[key]!r}")
    return list(image[key])


def _renamed(entry: Dict) -> Dict:
    """Convert an entry of pycocotools to the keys of `lvis`."""
    return {name: entry[key] for key, name in _NAMES.items()}


def accumulate_entries(made: Sequence[Dict | None], p: LVISParams) -> Arrays:
    """Build the arrays from entries."""
    keys = {name: key for key, name in _NAMES.items()}
    again = [None if entry is None else {keys[name]: value for name, value in entry.items()} for entry in made]
    wanted = coco_params(p)
    return accumulate(again, wanted, wanted)


def pointers_of_tally(seen: Evaluated) -> dict[int, dict[int, Dict]]:
    """`dt_pointers`: ids of detections by falling score, and whether they are TP or FP, per class and area range."""
    rows = seen.parts[0].rows
    assert seen.tally is not None
    assert rows is not None
    tally, classes = seen.tally.sorted(), np.arange(len(seen.cells.classes))
    ids, verdict, num_truths = rows.id[tally.row], tally.verdict, tally.num_truths
    start, end = (np.searchsorted(tally.label, classes, side=side) for side in ("left", "right"))
    return {
        k: {
            a: _pointers(ids[start[k] : end[k]], verdict[start[k] : end[k], a].T) if num_truths[k, a] else {}
            for a in range(len(seen.cells.areas))
        }
        for k in classes.tolist()
    }


def _pointers(ids: NDArray[Any], verdict: NDArray[np.uint8]) -> Dict:
    return {"dt_ids": ids, "tps": verdict == TRUE, "fps": verdict == FALSE}


def pointers_of_entries(made: Sequence[Dict | None], p: Any) -> dict[int, dict[int, Dict]]:
    """`dt_pointers` from entries, as in `pointers_of_tally`."""
    num_images, num_areas = len(p.img_ids), len(p.area_rng)
    num_classes = len(p.cat_ids) if p.use_cats else 1
    pointers: dict[int, dict[int, Dict]] = {k: {a: {} for a in range(num_areas)} for k in range(num_classes)}
    for k in range(num_classes):
        for a in range(num_areas):
            first = (k * num_areas + a) * num_images
            own = [entry for entry in made[first : first + num_images] if entry is not None]
            if not any((entry["gt_ignore"] == 0).any() for entry in own):
                continue
            order = np.argsort(-np.concatenate([entry["dt_scores"] for entry in own]), kind="mergesort")
            is_matched, is_ignored = (
                np.concatenate([entry[key] for entry in own], axis=1)[:, order].astype(bool)
                for key in ("dt_matches", "dt_ignore")
            )
            pointers[k][a] = {
                "dt_ids": np.concatenate([entry["dt_ids"] for entry in own])[order],
                "tps": is_matched & ~is_ignored,
                "fps": ~is_matched & ~is_ignored,
            }
    return pointers
