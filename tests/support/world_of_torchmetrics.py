"""What each process does in test_torchmetrics: cases by name, synchronized by torchmetrics itself."""

from pathlib import Path
from typing import Any

import torch
from torchmetrics import MetricCollection

from boxscore.torchmetrics import MeanAveragePrecision
from tests.support.processes import take_part
from tests.support.world_of_metrics import SCENE, as_dicts, counted, uneven


def over(images: list[int], **settings: Any) -> MeanAveragePrecision:
    """A metric that has seen some images, in batches of three, with their ids in the targets."""
    metric = MeanAveragePrecision(box_format="xywh", class_metrics=True, **settings)
    for first in range(0, len(images), 3):
        batch = images[first : first + 3]
        pairs = [as_dicts(SCENE, image) for image in batch]
        named = [target | {"image_id": torch.tensor(image)} for image, (_, target) in zip(batch, pairs, strict=True)]
        metric.update([pred for pred, _ in pairs], named)
    return metric


def every_case(_: Path, num_processes: int, rank: int) -> dict[str, Any]:
    """The results of one process, by case."""
    mine = uneven(rank, num_processes)
    everything = list(range(SCENE.num_images))
    sampler = torch.utils.data.DistributedSampler(everything, num_replicas=num_processes, rank=rank, shuffle=False)
    cases: dict[str, Any] = {average: over(mine, average=average).compute() for average in ("macro", "micro")}
    cases["one empty"] = over(everything if rank == 1 else [], extended_summary=True).compute()
    cases["sampler"] = over(list(sampler), unique_images=True).compute()
    cases["not synced"] = over(mine, sync_on_compute=False).compute()
    cases["collectives"] = counted(over(mine).compute)
    cases["collection"] = MetricCollection({"map": over(mine)}).compute()
    metric = over(mine)
    before = metric.state_dict(), [part.clone() for part in metric.tallies]
    metric.compute()
    cases["stays"] = torch.equal(torch.cat(before[1]), torch.cat(metric.tallies))
    metric.reset()
    cases["on step"] = over([], dist_sync_on_step=True)(*([each] for each in as_dicts(SCENE, rank)))
    metric = over([])
    for image in mine:
        pred, target = as_dicts(SCENE, image)
        if rank == 0 and image == mine[0]:
            pred = {key: torch.cat([column[:1], column]) for key, column in pred.items()}
            pred["boxes"][0] = torch.nan
        metric.update([pred], [target])
    cases["invalid"] = metric.compute()
    return cases


if __name__ == "__main__":
    take_part(every_case)
