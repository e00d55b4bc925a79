"""What each process does in test_coco_clients: the evaluator of torchvision's references over both packages."""

import contextlib
import io
from pathlib import Path
from typing import Any

from tests.support.dropin import OURS, THEIRS, dataset_of
from tests.support.evaluators import ReferenceEvaluator, parts_of
from tests.support.processes import take_part
from tests.support.scenes import as_dataset, random_scene

SCENE = random_scene(11, num_images=20, num_classes=5)


def every_case(_: Path, num_processes: int, rank: int) -> dict[Any, Any]:
    """Both packages, both manners; the last image is seen by both processes, as a sampler that pads does."""
    mine = [*range(rank, SCENE.num_images, num_processes), SCENE.num_images - 1]
    dataset, rows = as_dataset(SCENE)
    found = {}
    for by_steps in (False, True):
        for name, tool in (("ours", OURS), ("theirs", THEIRS)):
            with contextlib.redirect_stdout(io.StringIO()):
                evaluator = ReferenceEvaluator(dataset_of(tool, dataset), ["bbox"], tool=tool, by_steps=by_steps)
                for first in range(0, len(mine), 4):
                    batch = mine[first : first + 4]
                    evaluator.add(batch, "bbox", [row for row in rows if row["image_id"] in batch])
                evaluator.synchronize_between_processes()
                evaluator.accumulate()
                evaluator.summarize()
            found[name, by_steps] = parts_of(evaluator.coco_eval["bbox"])
    return found


if __name__ == "__main__":
    take_part(every_case)
