"""Random scenes that hit the corners: crowds, ties in score and IoU, boxes of no size, empty images."""

import contextlib
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

import boxscore
from boxscore import parallel

BORDERS = [32.0**2, 96.0**2, float(np.nextafter(32.0**2, 0)), float(np.nextafter(96.0**2, np.inf))]
"""Areas at the borders of COCO's ranges."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Flat columns in xywh, and the classes there are."""

    detection: dict[str, Any]
    truth: dict[str, Any]
    num_classes: int
    num_images: int

    @property
    def detections(self) -> boxscore.Detections:
        return boxscore.Detections(**self.detection, box_format="xywh")

    @property
    def truths(self) -> boxscore.Truths:
        names = [f"class {label}" for label in range(self.num_classes)]
        return boxscore.Truths(**self.truth, box_format="xywh", class_names=names)

    def pycocotools(self, **params: Any) -> COCOeval:
        """The evaluation by pycocotools, accumulated."""
        return run_pycocotools(*as_dataset(self), **params)


def as_dataset(scene: Scene) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A scene as COCO's dicts: a dataset, and results."""
    annotations = [
        {"id": row + 1, "image_id": image, "category_id": label, "bbox": box, "area": area, "iscrowd": int(ignore)}
        for row, (image, label, box, area, ignore) in enumerate(_rows(scene.truth, "area", "ignore"))
    ]
    results = [
        {"image_id": image, "category_id": label, "bbox": box, "score": score}
        for image, label, box, score in _rows(scene.detection, "scores")
    ]
    dataset = {
        "info": {"year": 2026},
        "images": [{"id": image, "width": 640, "height": 480} for image in range(scene.num_images)],
        "annotations": annotations,
        "categories": [{"id": label, "name": f"class {label}"} for label in range(scene.num_classes)],
    }
    return dataset, results


def _rows(columns: dict[str, Any], *more: str) -> Any:
    return zip(*(columns[name].tolist() for name in ("image_ids", "labels", "boxes", *more)), strict=True)


def run_pycocotools(dataset: dict[str, Any], results: list[dict[str, Any]], **params: Any) -> COCOeval:
    """What pycocotools makes of a dataset and results; `params` replace its defaults, and then there are no stats."""
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = {"info": {}} | dataset
        coco.createIndex()
        evaluation = COCOeval(coco, coco.loadRes(results) if results else COCO(), "bbox")
        for name, value in params.items():
            setattr(evaluation.params, name, value)
        evaluation.evaluate()
        evaluation.accumulate()
        if not params:
            evaluation.summarize()
    return evaluation


def random_scene(
    seed: int,
    *,
    num_images: int = 12,
    num_classes: int = 4,
    most_detections: int = 30,
    most_truths: int = 12,
    is_whole: bool = False,
) -> Scene:
    """A scene by seed. The last class but one has no truths, the last no detections; `is_whole`: on whole pixels."""
    random = np.random.default_rng(seed)
    truth = _boxes(random, num_images, most_truths, num_classes, excluded=num_classes - 2, is_whole=is_whole)
    num_truths = truth["labels"].size
    truth["ignore"] = random.random(num_truths) < 0.15
    own = truth["boxes"][:, 2] * truth["boxes"][:, 3]
    truth["area"] = np.where(random.random(num_truths) < 0.3, random.choice(BORDERS, num_truths), own)

    found = _boxes(random, num_images, most_detections, num_classes, excluded=num_classes - 1, is_whole=is_whole)
    num_found = found["labels"].size
    if num_truths and num_found:
        # Half of the detections are at truths, shifted a little or not at all, and mostly in the right image and class.
        row = random.integers(num_truths, size=num_found)
        is_near = random.random(num_found) < 0.6
        shift = random.integers(-3, 4, (num_found, 4)) if is_whole else random.normal(0, 3, (num_found, 4))
        shift = shift * (random.random((num_found, 1)) < 0.7)
        near = np.maximum(truth["boxes"][row] + shift, 0)
        found["boxes"] = np.where(is_near[:, None], near, found["boxes"])
        found["image_ids"] = np.where(is_near, truth["image_ids"][row], found["image_ids"])
        is_right = is_near & (random.random(num_found) < 0.9)
        found["labels"] = np.where(is_right, truth["labels"][row], found["labels"])
        found["labels"] = np.where(found["labels"] == num_classes - 1, 0, found["labels"])
    # Few different scores, so there are ties everywhere.
    found["scores"] = random.integers(0, 25, num_found) / 25
    return Scene(detection=found, truth=truth, num_classes=num_classes, num_images=num_images)


def _boxes(
    random: np.random.Generator, num_images: int, most: int, num_classes: int, *, excluded: int, is_whole: bool
) -> dict[str, Any]:
    """Boxes in some of the images, with every class but one; some on a coarse grid so that IoUs tie, some empty."""
    counts = random.integers(0, most + 1, num_images) * (random.random(num_images) < 0.8)
    size = int(counts.sum())
    corner, extent = random.uniform(0, 200, (size, 2)), random.lognormal(3.5, 0.9, (size, 2))
    if is_whole:
        corner, extent = corner.round(), extent.round()
    is_coarse = random.random((size, 1)) < 0.4
    corner = np.where(is_coarse, (corner / 40).round() * 40, corner)
    extent = np.where(is_coarse, (extent / 32).round() * 32, extent)
    label = random.integers(0, num_classes, size)
    return {
        "image_ids": np.repeat(np.arange(num_images), counts),
        "labels": np.where(label == excluded, 0, label),
        "boxes": np.concatenate([corner, extent], axis=1),
    }


def padded(scene: Scene) -> tuple[parallel.PaddedDetections, parallel.PaddedTruths]:
    """A scene as one padded batch of NumPy arrays."""
    images = range(scene.num_images)
    found, truth = scene.detection, scene.truth
    rows = [np.flatnonzero(truth["image_ids"] == image) for image in images]
    truths = parallel.pad_truths(
        [truth["boxes"][row] for row in rows],
        [truth["labels"][row] for row in rows],
        [truth["ignore"][row] for row in rows],
    )
    length = max(np.count_nonzero(found["image_ids"] == image) for image in images)
    box = np.zeros((scene.num_images, length, 4))
    label, score = np.zeros((scene.num_images, length), int), np.zeros((scene.num_images, length))
    discarded = np.ones((scene.num_images, length), bool)
    for image in images:
        row = np.flatnonzero(found["image_ids"] == image)
        box[image, : row.size], label[image, : row.size] = found["boxes"][row], found["labels"][row]
        score[image, : row.size], discarded[image, : row.size] = found["scores"][row], False
    return parallel.PaddedDetections(box, label, score, discarded), truths
