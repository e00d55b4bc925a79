"""Scenes for evaluators of other projects, and these evaluators run on them."""

import contextlib
import importlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from boxscore import Detections, Truths
from tests.support import oracles
from tests.support.scenes import Scene, random_scene

Floats = NDArray[np.float64]


CONTESTED_TRUTHS = [
    # Two truths with equal IoU for one detection, the first of which another detection fits: the tie decides.
    *([1000, 0, 20, 20, 0], [1008, 0, 20, 20, 0]),
    # A regular truth beside an ignored one that overlaps the detection more.
    *([1000, 50, 20, 20, 0], [1005, 50, 20, 20, 1]),
    # Truths whose IoU with the detection is 1/2: with continuous pixels, and with the last pixel inside.
    *([1000, 100, 20, 20, 0], [1000, 150, 19, 19, 0]),
    # Truths that detections of very low scores find.
    *([1000, 200, 20, 20, 0], [1000, 250, 20, 20, 0]),
]
"""Boxes of xywh and whether they are ignored."""

CONTESTED_DETECTIONS = [
    *([1004, 0, 20, 20, 0.52], [1000, 0, 20, 20, 0.48], [1004, 50, 20, 20, 0.44]),
    *([1000, 100, 20, 10, 0.4], [1000, 150, 19, 9, 0.36], [1000, 200, 20, 20, 0.02], [1000, 250, 20, 20, 0.0005]),
]
"""Boxes of xywh and scores."""


def tool_scene(seed: int, *, is_crowded: bool = False, has_empty_boxes: bool = True) -> Scene:
    """A scene of whole pixels and areas, with cases that rules decide; regular truths of an image come first.

    `is_crowded`: few images, each with more detections than any tool counts. The last class but one has no truths, the
    last no detections.
    """
    size: dict[str, Any] = {"num_images": 3, "num_classes": 3, "most_detections": 900, "most_truths": 60}
    scene = random_scene(seed, is_whole=True, **(size if is_crowded else {"num_images": 16, "num_classes": 5}))
    truth, found = scene.truth, scene.detection
    contested = np.array(CONTESTED_TRUTHS, float)
    truth = _with_rows(truth, contested, ignore=contested[:, 4] > 0, area=contested[:, 2:4].prod(axis=1))
    contested = np.array(CONTESTED_DETECTIONS)
    found = _with_rows(found, contested, scores=contested[:, 4])
    truth["area"] = truth["area"].round()
    truth = _rows(truth, np.lexsort((truth["ignore"], truth["image_ids"])))
    found = _rows(found, np.argsort(found["image_ids"], kind="stable"))
    if not has_empty_boxes:
        truth, found = (_rows(each, (each["boxes"][:, 2:] > 0).all(axis=1)) for each in (truth, found))
    return replace(scene, truth=truth, detection=found)


def _with_rows(columns: dict[str, Any], rows: Floats, **more: Any) -> dict[str, Any]:
    """Columns with more boxes of the first class in the first image."""
    zeros = np.zeros(len(rows), int)
    added = {"image_ids": zeros, "labels": zeros, "boxes": rows[:, :4], **more}
    return {name: np.concatenate([column, added[name]]) for name, column in columns.items()}


def _rows(columns: dict[str, Any], rows: Any) -> dict[str, Any]:
    return {name: column[rows] for name, column in columns.items()}


def corners(box: Floats) -> Floats:
    """Boxes of xywh as xyxy."""
    return np.hstack([box[:, :2], box[:, :2] + box[:, 2:]])


def by_corners(scene: Scene, *, longer: int = 0) -> tuple[Detections, Truths]:
    """The columns of a scene with corners of whole pixels. `longer`: how many pixels are added to each side."""
    found, truth = (
        {**columns, "boxes": corners(columns["boxes"]) + np.array([0, 0, longer, longer])}
        for columns in (scene.detection, scene.truth)
    )
    names = [f"class {label}" for label in range(scene.num_classes)]
    return Detections(**found, box_format="xyxy"), Truths(**truth, box_format="xyxy", class_names=names)


def overlaps(scene: Scene, row: int) -> Floats:
    """The IoUs of a detection with the truths of its image and class."""
    truth, found = scene.truth, scene.detection
    is_near = (truth["image_ids"] == found["image_ids"][row]) & (truth["labels"] == found["labels"][row])
    theirs, own = corners(truth["boxes"][is_near]), corners(found["boxes"][row : row + 1])
    sides = np.minimum(theirs[:, 2:], own[:, 2:]) - np.maximum(theirs[:, :2], own[:, :2])
    shared = sides.clip(0).prod(axis=1)
    union = (theirs[:, 2:] - theirs[:, :2]).prod(axis=1) + (own[:, 2:] - own[:, :2]).prod() - shared
    return np.asarray(shared / union.clip(1e-9))


def without_close_calls(scene: Scene) -> Scene:
    """The same without detections whose IoU is so close to a threshold that float32 may decide otherwise."""
    thresholds = np.array([0.55, 0.6, 0.65, 0.7, 0.8, 0.85, 0.9, 0.95])  # 0.5 and 0.75 are the same in float32
    rows = range(scene.detection["labels"].size)
    is_clear = [(abs(overlaps(scene, row)[:, None] - thresholds) > 1e-5).all() for row in rows]
    return replace(scene, detection=_rows(scene.detection, np.array(is_clear, bool)))


@contextlib.contextmanager
def stable_sorts() -> Iterator[None]:
    """NumPy's sorts keep the order of equal scores, as tools don't ask for it and none says what comes first."""
    with patch.object(np, "argsort", partial(np.argsort, kind="stable")):
        yield


def run_supervision(scene: Scene) -> Any:
    """The result of supervision's metric, with areas and crowds."""
    import supervision
    from supervision.metrics import MeanAveragePrecision

    metric = MeanAveragePrecision()
    for image in range(scene.num_images):
        truth, found = (_rows(each, each["image_ids"] == image) for each in (scene.truth, scene.detection))
        data = {"area": truth["area"], "iscrowd": truth["ignore"].astype(int)}
        targets = supervision.Detections(xyxy=corners(truth["boxes"]), class_id=truth["labels"], data=data)
        predictions = supervision.Detections(
            xyxy=corners(found["boxes"]), class_id=found["labels"], confidence=found["scores"]
        )
        metric.update(predictions, targets)
    return metric.compute()


class _OneProcess:
    """Stands for a pool of processes."""

    def __init__(self, num: int) -> None:
        pass

    def starmap(self, function: Any, rows: Any) -> list[Any]:
        return [function(*row) for row in rows]

    def close(self) -> None:
        pass


def run_mmdetection(scene: Scene, *, mode: str) -> tuple[float, list[dict[str, Any]]]:
    """The mean AP and the results per class of mmdetection, called as by its VOCMetric. `mode`: its rule of AP."""
    module = oracles.mmdet("functional.mean_ap")
    annotations, results = [], []
    for image in range(scene.num_images):
        truth, found = (_rows(each, each["image_ids"] == image) for each in (scene.truth, scene.detection))
        box, is_ignored = corners(truth["boxes"]), truth["ignore"]
        regular = {"bboxes": box[~is_ignored], "labels": truth["labels"][~is_ignored]}
        ignored = {"bboxes_ignore": box[is_ignored], "labels_ignore": truth["labels"][is_ignored]}
        annotations.append(regular | ignored)
        rows = np.hstack([corners(found["boxes"]), found["scores"][:, None]])
        results.append([rows[found["labels"] == label] for label in range(scene.num_classes)])
    with patch.object(module, "Pool", _OneProcess), stable_sorts():
        settings: dict[str, Any] = {"iou_thr": 0.5, "eval_mode": mode, "use_legacy_coordinate": True}
        mean, per_class = module.eval_map(results, annotations, logger="silent", **settings)
    return mean, per_class


def run_podm(detections: Detections, truths: Truths) -> tuple[float, dict[int, Any]]:
    """The mean AP and the results per class of object-detection-metrics. Boxes are `xyxy`."""
    podm: Any = importlib.import_module("podm.metrics")

    def boxes(columns: Any, scores: list[float | None]) -> list[Any]:
        rows = zip(columns.image_ids.tolist(), columns.labels.tolist(), columns.boxes.tolist(), scores, strict=True)
        return [podm.BoundingBox.of_bbox(image, label, *box, score) for image, label, box, score in rows]

    found = boxes(detections, detections.scores.tolist())
    results = podm.get_pascal_voc_metrics(boxes(truths, [None] * len(truths)), found)
    return float(podm.MetricPerClass.mAP(results)), results


def _with_curve(compute_ap: Any) -> Any:
    """The function with two more values, which `ap_per_class` takes as the curve that it draws."""
    if compute_ap is None:
        return None
    return lambda recall, precision: (*compute_ap(recall, precision), np.zeros(2), np.arange(2.0))


def run_ultralytics(scene: Scene, match: Any = None, compute_ap: Any = None) -> tuple[Floats, list[int]]:
    """AP by class and threshold, and the classes, of Ultralytics' own IoUs, matching and curves.

    Its labels have no crowds; of an image it keeps scores above 0.001, and of these the 300 highest. `match`,
    `compute_ap`: in place of its own.
    """
    import torch

    metrics, validator = oracles.ultralytics("utils.metrics"), oracles.ultralytics("engine.validator")
    stand_in = SimpleNamespace(iouv=torch.linspace(0.5, 0.95, 10))
    columns: list[Any] = []
    for image in range(scene.num_images):
        truth = _rows(scene.truth, (scene.truth["image_ids"] == image) & ~scene.truth["ignore"])
        found = _rows(scene.detection, (scene.detection["image_ids"] == image) & (scene.detection["scores"] > 0.001))
        found = _rows(found, np.argsort(-found["scores"], kind="stable")[:300])
        correct = np.zeros((found["scores"].size, 10), bool)
        if found["scores"].size and truth["labels"].size:
            boxes = (torch.from_numpy(corners(each["boxes"])).float() for each in (truth, found))
            labels = (torch.from_numpy(each["labels"]) for each in (found, truth))
            iou = metrics.box_iou(*boxes)
            if match is None:
                correct = validator.BaseValidator.match_predictions(stand_in, *labels, iou).numpy()
            else:
                correct = match(*labels, iou, stand_in.iouv.numpy())
        columns.append((correct, found["scores"], found["labels"], truth["labels"]))
    with stable_sorts(), patch.object(metrics, "compute_ap", _with_curve(compute_ap) or metrics.compute_ap):
        results = metrics.ap_per_class(*(np.concatenate(parts) for parts in zip(*columns, strict=True)))
    return results[5], results[6].tolist()
