"""The evaluator of torchvision's references over pycocotools, and predictions in the manner of its models."""

import contextlib
import copy
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from pycocotools import mask

from tests.support.dropin import THEIRS, Tool, dataset_of, match_by_steps, measure_by_steps
from tests.support.mask_scenes import random_masks
from tests.support.pose_scenes import random_poses
from tests.support.scenes import as_dataset, random_scene

Dict = dict[str, Any]
Predictions = dict[int, Dict]


class ReferenceEvaluator:
    """Every batch is evaluated by pycocotools as it comes; the entries of all images are accumulated at the end.

    Args:
        truths: The dataset, of the classes of `tool`.
        iou_types: One evaluation each.
        useCats: As in pycocotools.
        tool: The package that evaluates.
        by_steps: By one call per image and class, in the manner of DETR, not by `evaluate`.
    """

    def __init__(
        self,
        truths: Any,
        iou_types: Sequence[str],
        useCats: bool = True,
        *,
        tool: Tool = THEIRS,
        by_steps: bool = False,
    ) -> None:
        self.tool, self.by_steps = tool, by_steps
        self.truths = copy.deepcopy(truths)
        self.coco_eval = {kind: tool.COCOeval(self.truths, iouType=kind) for kind in iou_types}
        for evaluation in self.coco_eval.values():
            evaluation.params.useCats = useCats
        self.images: dict[str, list[Any]] = {kind: [] for kind in iou_types}
        self.entries: dict[str, list[Any]] = {kind: [] for kind in iou_types}

    def update(self, predictions: Predictions) -> None:
        """Evaluate one batch of a model's outputs."""
        for kind in self.coco_eval:
            self.add(predictions, kind, results_of(predictions, kind))

    def add(self, images: Iterable[int], kind: str, results: list[Dict]) -> None:
        """Evaluate the results of some images, and keep the entries by class, area range and image."""
        evaluation = self.coco_eval[kind]
        p = evaluation.params
        p.imgIds = sorted(set(images))
        with contextlib.redirect_stdout(io.StringIO()):
            evaluation.cocoDt = self.tool.COCO.loadRes(self.truths, results) if results else self.tool.COCO()
            if self.by_steps:
                p.maxDets = sorted(p.maxDets)
                evaluation._prepare()
                measure_by_steps(evaluation)
                evaluation._paramsEval = copy.deepcopy(p)
                evaluation.evalImgs = match_by_steps(evaluation)
            else:
                evaluation.evaluate()
        self.images[kind] += p.imgIds
        self.entries[kind].append(np.asarray(evaluation.evalImgs).reshape(-1, len(p.areaRng), len(p.imgIds)))

    def synchronize_between_processes(self) -> None:
        """Every process has the entries of all; of copies of an image, the first."""
        for kind, evaluation in self.coco_eval.items():
            gathered = [(self.images[kind], np.concatenate(self.entries[kind], axis=2))]
            if torch.distributed.is_initialized():
                gathered *= torch.distributed.get_world_size()
                torch.distributed.all_gather_object(gathered, gathered[0])
            images, first = np.unique([image for part in gathered for image in part[0]], return_index=True)
            entries = np.concatenate([part[1] for part in gathered], axis=2)[..., first]
            evaluation.evalImgs, evaluation.params.imgIds = list(entries.flatten()), list(images)
            evaluation._paramsEval = copy.deepcopy(evaluation.params)

    def accumulate(self) -> None:
        """Accumulate what was synchronized."""
        for evaluation in self.coco_eval.values():
            evaluation.accumulate()

    def summarize(self) -> None:
        """Print the numbers."""
        for kind, evaluation in self.coco_eval.items():
            print(f"IoU metric: {kind}")  # noqa: T201 — as the reference does
            evaluation.summarize()


def results_of(predictions: Predictions, kind: str) -> list[Dict]:
    """COCO's results of a batch, by operations of PyTorch and pycocotools alone."""
    results = []
    for image, prediction in predictions.items():
        if not prediction:
            continue
        if kind == "bbox":
            left, top, right, bottom = prediction["boxes"].unbind(1)
            key, shapes = "bbox", torch.stack([left, top, right - left, bottom - top], dim=1).tolist()
        elif kind == "segm":
            pixels = [np.asfortranarray((each[0] > 0.5).numpy().astype(np.uint8)) for each in prediction["masks"]]
            key, shapes = "segmentation", [mask.encode(each) for each in pixels]
            for each in shapes:
                each["counts"] = each["counts"].decode()
        else:
            key, shapes = "keypoints", prediction["keypoints"].flatten(1).tolist()
        rows = zip(prediction["labels"].tolist(), prediction["scores"].tolist(), shapes, strict=True)
        results += [{"image_id": image, "category_id": label, "score": score, key: each} for label, score, each in rows]
    return results


def scene_of(kind: str, seed: int) -> tuple[Dict, list[Dict]]:
    """A random dataset and results of one kind."""
    if kind == "segm":
        return random_masks(seed)
    if kind == "keypoints":
        return random_poses(seed)
    return as_dataset(random_scene(seed, num_images=11, num_classes=4))


def predictions_of(dataset: Dict, results: list[Dict], kind: str, dtype: Any = torch.float32) -> Predictions:
    """The results as tensors, for every image: boxes in xyxy, soft masks, keypoints; empty dicts for some images."""
    random = np.random.default_rng(0)
    predictions: Predictions = {}
    for number, image in enumerate(dataset["images"]):
        rows = [row for row in results if row["image_id"] == image["id"]]
        if kind == "segm":  # a tensor has masks of one size
            rows = [row for row in rows if row["segmentation"]["size"] == [image["height"], image["width"]]]
        if not rows and number % 2:
            predictions[image["id"]] = {}
            continue
        box = np.array([row.get("bbox", [0, 0, 1, 1]) for row in rows]).reshape(-1, 4)
        box[:, 2:] += box[:, :2]
        predictions[image["id"]] = {
            "boxes": torch.tensor(box, dtype=dtype),
            "scores": torch.tensor([row["score"] for row in rows], dtype=dtype),
            "labels": torch.tensor([row["category_id"] for row in rows], dtype=torch.int64),
        }
        if kind == "segm":
            size = image["height"], image["width"]
            pixels = np.array([mask.decode(row["segmentation"]) for row in rows], bool).reshape(-1, 1, *size)
            noise = random.random(pixels.shape, np.float32) / 2
            soft = noise + 0.5 * pixels + (pixels - 1e-9) * 1e-6  # on either side of 0.5
            predictions[image["id"]]["masks"] = torch.tensor(soft) if number % 3 else torch.tensor(pixels)
        elif kind == "keypoints":
            points = np.array([row["keypoints"] for row in rows]).reshape(len(rows), 17, 3)
            predictions[image["id"]]["keypoints"] = torch.tensor(points, dtype=dtype)
    return predictions


def in_batches(predictions: Predictions, size: int) -> Iterator[Predictions]:
    """So many images at a time, in another order than that of their ids."""
    images = list(predictions)[::-1]
    for first in range(0, len(images), size):
        yield {image: predictions[image] for image in images[first : first + size]}


def evaluated(evaluator: Any, batches: Any) -> tuple[Any, str]:
    """The evaluator after the usual calls, and what it printed."""
    for batch in batches:
        evaluator.update(batch)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        evaluator.synchronize_between_processes()
        evaluator.accumulate()
        evaluator.summarize()
    return evaluator, said.getvalue()


def truths_of(dataset: Dict, tool: Any = THEIRS) -> Any:
    """The dataset as pycocotools' COCO, or that of another tool, without a word."""
    with contextlib.redirect_stdout(io.StringIO()):
        return dataset_of(tool, dataset)


def parts_of(evaluation: Any) -> Dict:
    """What is compared: the numbers and the arrays."""
    return {"stats": evaluation.stats} | {name: evaluation.eval[name] for name in ("precision", "recall", "scores")}
