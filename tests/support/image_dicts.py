"""Scenes as one dict per image."""

from typing import Any

import numpy as np

from tests.support.scenes import Scene

PREDS = {"boxes": "boxes", "scores": "scores", "labels": "labels"}
TARGETS = {"boxes": "boxes", "labels": "labels", "iscrowd": "ignore", "area": "area"}


def dicts(scene: Scene, wrap: Any = np.asarray) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """One dict per image, as torchmetrics takes them."""
    preds, targets = [], []
    for image in range(scene.num_images):
        found, there = scene.detection["image_ids"] == image, scene.truth["image_ids"] == image
        preds.append({key: wrap(scene.detection[name][found]) for key, name in PREDS.items()})
        targets.append({key: wrap(scene.truth[name][there]) for key, name in TARGETS.items()})
    return preds, targets
