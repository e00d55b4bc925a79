"""Random scenes of Open Images, and what TensorFlow's evaluator makes of them."""

from typing import Any, NamedTuple

import numpy as np

from boxscore import Detections, Truths
from boxscore.data import Coverage
from boxscore.protocol.protocol import GROUP, REGULAR
from tests.support import oracles

CLASSES = {1: "Cat", 2: "Dog", 3: "Car", 4: "Tree"}
"""As TensorFlow has them: from 1 on. The last has no truths."""


class OpenImagesScene(NamedTuple):
    """Columns of truths and detections, and the verified labels of each image."""

    truth: dict[str, Any]
    detection: dict[str, Any]
    verified: dict[int, list[int]]
    num_images: int

    @property
    def truths(self) -> Truths:
        pairs = [(image, label) for image, labels in self.verified.items() for label in labels]
        image, label = np.array(pairs, np.int64).reshape(-1, 2).T
        kind = np.where(self.truth["is_group"], GROUP, REGULAR)
        columns = {name: self.truth[name] for name in ("image_ids", "labels", "boxes")}
        return Truths(**columns, kind=kind, coverage=Coverage(image_ids=image, labels=label), class_names=CLASSES)

    @property
    def detections(self) -> Detections:
        return Detections(**self.detection)


def random_open_images(seed: int, *, num_images: int = 15) -> OpenImagesScene:
    """Boxes in fractions: groups among the truths, detections of no area, no two equal scores."""
    random = np.random.default_rng(seed)
    num_truths, num_found = int(random.integers(10, 40)), int(random.integers(20, 120))
    is_group = random.random(num_truths) < 0.3
    truth = {
        "image_ids": random.integers(0, num_images, num_truths),
        "labels": random.integers(1, 4, num_truths),
        "boxes": _boxes(random, num_truths, np.where(is_group, 0.5, 0.2)),
        "is_group": is_group,
    }
    row = random.integers(0, num_truths, num_found)
    is_near = random.random(num_found) < 0.7
    near = truth["boxes"][row] + random.normal(0, 0.02, (num_found, 4)) * (random.random((num_found, 1)) < 0.8)
    inside = truth["boxes"][row].copy()
    inside[:, 2:] = inside[:, :2] + (inside[:, 2:] - inside[:, :2]) * random.uniform(0.1, 1, (num_found, 2))
    box = np.where(random.random((num_found, 1)) < 0.5, near, inside)
    box = np.where(is_near[:, None], box, _boxes(random, num_found, np.full(num_found, 0.3)))
    box[:, 2:] = np.maximum(box[:, 2:], box[:, :2])
    box[random.random(num_found) < 0.08, 2] = 0  # no area, once the left edge is there, too
    box[:, 0] = np.minimum(box[:, 0], box[:, 2])
    detection = {
        "image_ids": np.where(is_near, truth["image_ids"][row], random.integers(0, num_images, num_found)),
        "labels": np.where(is_near, truth["labels"][row], random.integers(1, 5, num_found)),
        "boxes": box,
        "scores": (1 + random.permutation(num_found)) / num_found,  # TensorFlow takes a score of 0 in a group for none
    }
    verified = {image: np.flatnonzero(random.random(4) < 0.4) + 1 for image in range(num_images)}
    return OpenImagesScene(truth, detection, {image: each.tolist() for image, each in verified.items()}, num_images)


def _boxes(random: np.random.Generator, num: int, size: Any) -> Any:
    corner = random.uniform(0, 0.5, (num, 2))
    return np.concatenate([corner, corner + size[:, None] * random.uniform(0.3, 1, (num, 2))], axis=1)


def tensorflow_numbers(scene: OpenImagesScene, *, group_of_weight: float = 1.0) -> tuple[Any, float]:
    """The AP of each class and their mean, by TensorFlow's evaluator of the challenge."""
    with oracles.old_numpy():
        module = oracles.open_images()
        categories = [{"id": label, "name": name} for label, name in CLASSES.items()]
        if group_of_weight == 1:
            evaluator = module.OpenImagesDetectionChallengeEvaluator(categories)
        else:
            evaluator = module.OpenImagesChallengeEvaluator(categories, group_of_weight=group_of_weight)
        for image in range(scene.num_images):
            own, found = scene.truth["image_ids"] == image, scene.detection["image_ids"] == image
            truth = {
                "groundtruth_boxes": _turned(scene.truth["boxes"][own]),
                "groundtruth_classes": scene.truth["labels"][own],
                "groundtruth_group_of": scene.truth["is_group"][own],
                "groundtruth_image_classes": np.array(scene.verified[image], int),
            }
            evaluator.add_single_ground_truth_image_info(image, truth)
            detection = {
                "detection_boxes": _turned(scene.detection["boxes"][found]),
                "detection_scores": scene.detection["scores"][found],
                "detection_classes": scene.detection["labels"][found],
            }
            evaluator.add_single_detected_image_info(image, detection)
        numbers = evaluator.evaluate()
    prefix = "OpenImagesDetectionChallenge_"
    per_class = [numbers[f"{prefix}PerformanceByCategory/AP@0.5IOU/{name}"] for name in CLASSES.values()]
    return np.array(per_class), numbers[f"{prefix}Precision/mAP@0.5IOU"]


def _turned(box: Any) -> Any:
    """Corners as TensorFlow has them, with y before x."""
    return box[:, [1, 0, 3, 2]]
