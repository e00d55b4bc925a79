"""Truths, and a detector that finds nearly all of them; its boxes in other formats."""

import json
from collections.abc import Sequence
from pathlib import Path
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


def write_coco(
    folder: Path, found: Detections, truths: Truths, *, images: Sequence[dict[str, Any]], first_id: int = 1
) -> list[str]:
    """Write both as COCO files, with the numbers of boxes as they are; return the paths, truths first."""
    there = (np.asarray(column).tolist() for column in (truths.image_ids, truths.labels, truths.boxes))
    labels = np.union1d(np.asarray(found.labels), np.asarray(truths.labels)).tolist()
    dataset = {
        "images": images,
        "categories": [{"id": label, "name": f"class {label}"} for label in labels],
        "annotations": [
            {"id": i, "image_id": image, "category_id": label, "bbox": box, "area": box[2] * box[3], "iscrowd": 0}
            for i, (image, label, box) in enumerate(zip(*there, strict=True), start=first_id)
        ],
    }
    columns = (np.asarray(column).tolist() for column in (found.image_ids, found.labels, found.boxes, found.scores))
    results = [
        {"image_id": image, "category_id": label, "bbox": box, "score": score}
        for image, label, box, score in zip(*columns, strict=True)
    ]
    paths = [folder / "gt.json", folder / "dt.json"]
    for path, content in zip(paths, (dataset, results), strict=True):
        path.write_text(json.dumps(content))
    return [str(path) for path in paths]
