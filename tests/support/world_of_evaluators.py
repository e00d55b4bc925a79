"""What each process does in test_torchvision: both evaluators, over its share of the images."""

import contextlib
import io
from pathlib import Path
from typing import Any

from boxscore.torchvision import CocoEvaluator
from tests.support.evaluators import (
    ReferenceEvaluator,
    evaluated,
    in_batches,
    parts_of,
    predictions_of,
    scene_of,
    truths_of,
)
from tests.support.processes import take_part


def both(dataset: Any, predictions: Any, kind: str) -> tuple[Any, Any]:
    """Ours and the reference's."""
    pair = []
    for evaluator in (CocoEvaluator, ReferenceEvaluator):
        done, _ = evaluated(evaluator(truths_of(dataset), [kind]), in_batches(predictions, 3))
        pair.append(parts_of(done.coco_eval[kind]) | {"evalImgs": done.coco_eval[kind].evalImgs})
    return pair[0], pair[1]


def every_case(_folder: Path, _num_processes: int, rank: int) -> dict[str, Any]:
    """An uneven number of images on both; then with images that both processes have."""
    found: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for kind in ("bbox", "segm", "keypoints"):
            dataset, results = scene_of(kind, 21)
            predictions = predictions_of(dataset, results, kind)
            images = list(predictions)
            mine = images[: len(images) // 3] if rank == 0 else images[len(images) // 3 :]
            found[kind] = both(dataset, {image: predictions[image] for image in mine}, kind)
        dataset, results = scene_of("bbox", 21)
        whole = predictions_of(dataset, results, "bbox") if rank == 0 else {}
        done, _ = evaluated(CocoEvaluator(truths_of(dataset), ["bbox"]), in_batches(whole, 3))
        found["one empty"] = parts_of(done.coco_eval["bbox"]), {**found["bbox"][1]}
        del found["one empty"][1]["evalImgs"]
        dataset, results = scene_of("bbox", 22)
        predictions = predictions_of(dataset, results, "bbox")
        images = list(predictions)
        padded = [*images[rank::2], images[0]]
        found["padded"] = both(dataset, {image: predictions[image] for image in padded}, "bbox")
        own = {image: predictions[image] for image in padded} | {images[1]: {} if rank == 0 else predictions[images[1]]}
        found["different copies"] = both(dataset, own, "bbox")
        for row in dataset["annotations"]:
            row["id"] -= 1
        found["annotation 0"] = both(dataset, own, "bbox")
    return found


if __name__ == "__main__":
    take_part(every_case)
