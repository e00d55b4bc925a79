"""Truths, and a detector that finds nearly all of them; its boxes in other formats."""

from typing import Any

import numpy as np

from boxscore import Detections, Truths

SIZE = (640, 480)


def data(num_classes: int = 10, *, first: int = 1, num_images: int = 12, seed: int = 0) -> tuple[Detections, Truths]:
    """Truths, and a detector that finds nearly all of them, in xywh."""
    rng = np.random.default_rng(seed)
    num = 5 * num_images
    image, label = np.repeat(np.arange(1, num_images + 1), 5), rng.integers(first, first + num_classes, num)
    size = rng.uniform(30, 150, (num, 2))
    box = np.concatenate([rng.uniform(0, 1, (num, 2)) * (np.array(SIZE) - size), size], axis=1)
    truths = Truths(
        image_ids=image,
        labels=label,
        boxes=box,
        box_format="xywh",
        image_sizes=dict.fromkeys(range(1, num_images + 1), SIZE),
    )
    moved = box + rng.normal(0, 2, box.shape)
    return Detections(image_ids=image, labels=label, scores=rng.random(num), boxes=moved, box_format="xywh"), truths


def corners(box: Any) -> Any:
    """From xywh."""
    return np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], axis=1)


def centers(box: Any) -> Any:
    """From xywh."""
    return np.concatenate([box[:, :2] + box[:, 2:] / 2, box[:, 2:]], axis=1)
