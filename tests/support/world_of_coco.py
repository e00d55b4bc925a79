"""What each process does in test_coco_clients: an evaluator in the manner of DETR and torchvision's references."""

import contextlib
import copy
import io
from typing import Any

import numpy as np
import torch.distributed as dist

from tests.support.dropin import OURS, THEIRS, Tool, as_dataset, dataset_of, match_by_steps, measure_by_steps
from tests.support.processes import hand_over, join_world
from tests.support.scenes import random_scene

SCENE = random_scene(11, num_images=20, num_classes=5)


class Evaluator:
    """Results come in batches; every batch is evaluated at once; processes put their entries together at the end."""

    def __init__(self, tool: Tool, *, by_steps: bool) -> None:
        self.tool, self.by_steps = tool, by_steps
        self.truths = dataset_of(tool, as_dataset(SCENE)[0])
        self.evaluation = tool.COCOeval(self.truths, iouType="bbox")
        self.images: list[Any] = []
        self.entries: list[Any] = []

    def update(self, images: list[int], results: list[dict[str, Any]]) -> None:
        """Load one batch's results, evaluate them, keep the entries."""
        evaluation = self.evaluation
        evaluation.cocoDt = self.tool.COCO.loadRes(self.truths, results) if results else self.tool.COCO()
        evaluation.params.imgIds = list(images)
        entries = self._entries_by_steps() if self.by_steps else self._entries()
        p = evaluation.params
        self.images += p.imgIds
        self.entries.append(np.asarray(entries).reshape(-1, len(p.areaRng), len(p.imgIds)))

    def _entries(self) -> list[Any]:
        self.evaluation.evaluate()
        return self.evaluation.evalImgs  # type: ignore[no-any-return]

    def _entries_by_steps(self) -> list[Any]:
        evaluation, p = self.evaluation, self.evaluation.params
        p.imgIds = list(np.unique(p.imgIds))
        p.maxDets = sorted(p.maxDets)
        evaluation._prepare()
        measure_by_steps(evaluation)
        evaluation._paramsEval = copy.deepcopy(p)
        return match_by_steps(evaluation)

    def finish(self, num_processes: int) -> Any:
        """The evaluation of what all processes have seen."""
        gathered: list[Any] = [None] * num_processes
        dist.all_gather_object(gathered, (self.images, np.concatenate(self.entries, axis=2)))
        images, first = np.unique(np.concatenate([part[0] for part in gathered]), return_index=True)
        entries = np.concatenate([part[1] for part in gathered], axis=2)[..., first]
        evaluation = self.evaluation
        evaluation.evalImgs = list(entries.flatten())
        evaluation.params.imgIds = list(images)
        evaluation._paramsEval = copy.deepcopy(evaluation.params)
        evaluation.accumulate()
        evaluation.summarize()
        return {name: evaluation.eval[name] for name in ("precision", "recall", "scores")} | {"stats": evaluation.stats}


def main() -> None:
    """Both packages, both manners; the last image is seen by both processes, as a sampler that pads does."""
    folder, num_processes, rank = join_world()
    mine = [*range(rank, SCENE.num_images, num_processes), SCENE.num_images - 1]
    found = {}
    for by_steps in (False, True):
        for name, tool in (("ours", OURS), ("theirs", THEIRS)):
            with contextlib.redirect_stdout(io.StringIO()):
                evaluator = Evaluator(tool, by_steps=by_steps)
                for first in range(0, len(mine), 4):
                    batch = mine[first : first + 4]
                    results = [row for row in as_dataset(SCENE)[1] if row["image_id"] in batch]
                    evaluator.update(batch, results)
                found[name, by_steps] = evaluator.finish(num_processes)
    hand_over(found, folder, rank)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
