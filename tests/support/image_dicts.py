"""Scenes as one dict per image."""

from typing import Any

import numpy as np

from tests.support.scenes import Scene

PREDS = {"boxes": "boxes", "scores": "scores", "labels": "labels"}
TARGETS = {"boxes": "boxes", "labels": "labels", "iscrowd": "ignore", "area": "area"}


def image_dicts(scene: Scene, image: int, wrap: Any = np.asarray) -> tuple[dict[str, Any], dict[str, Any]]:
    """Detections and truths of an image, as torchmetrics takes them."""
    found, there = scene.detection["image_ids"] == image, scene.truth["image_ids"] == image
    return (
        {key: wrap(scene.detection[name][found]) for key, name in PREDS.items()},
        {key: wrap(scene.truth[name][there]) for key, name in TARGETS.items()},
    )


def dicts(scene: Scene, wrap: Any = np.asarray) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Both sides of all images."""
    pairs = [image_dicts(scene, image, wrap) for image in range(scene.num_images)]
    return [pred for pred, _ in pairs], [target for _, target in pairs]
