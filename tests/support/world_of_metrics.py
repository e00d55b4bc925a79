"""What each process does in test_distributed: every case by name, on its shard."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

import boxscore
from boxscore.data.dataset import take
from tests.support.image_dicts import image_dicts
from tests.support.mask_scenes import columns_of, random_masks
from tests.support.processes import take_part
from tests.support.scenes import Scene, random_scene

SCENE = random_scene(5, num_images=23)
PROTOCOLS = ("coco", "voc2007", "voc2012", "ultralytics", "olrp")


def seen(scene: Scene, images: Any) -> tuple[boxscore.Detections, boxscore.Truths]:
    """The columns of some images."""
    detections, truths = (
        {name: column[np.isin(columns["image_ids"], images)] for name, column in columns.items()}
        for columns in (scene.detection, scene.truth)
    )
    part = replace(scene, detection=detections, truth=truths)
    return part.detections, part.truths


def as_dicts(scene: Scene, image: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """One image as loaders and detectors give it, in tensors."""
    return image_dicts(scene, image, torch.from_numpy)


def values_of(result: boxscore.Result) -> dict[str, Any]:
    """All numbers and curves of a result."""
    curves = {name: getattr(result.curves, name) for name in ("precision", "recall", "scores", "average_precision")}
    classes = {"label": result.per_class.label, "ap": result.per_class.ap, "num_true": result.per_class.num_true}
    return {"numbers": np.array(list(result.values())), "classes": list(result.per_class.name), **curves, **classes}


def uneven(rank: int, num_processes: int) -> list[int]:
    """The images of a rank: the higher the rank, the more."""
    borders = np.cumsum(np.arange(num_processes + 1)) * SCENE.num_images // (num_processes * (num_processes + 1) // 2)
    return list(range(borders[rank], borders[rank + 1]))


def over(images: list[int], protocol: Any = "coco", **settings: Any) -> boxscore.MeanAveragePrecision:
    """A metric that has seen some images by their ids, in two updates."""
    metric = boxscore.MeanAveragePrecision(protocol, box_format="xywh", warn=False, **settings)
    for half in (images[::2], images[1::2]):
        if half:
            metric.update(*seen(SCENE, half), image_ids=half)
    return metric


def over_masks(images: list[int], iou_type: Any = "segm") -> boxscore.MeanAveragePrecision[Any]:
    """A metric that has seen the masks of some images by their ids."""
    detections, truths = columns_of(*random_masks(5, num_images=SCENE.num_images))
    metric: boxscore.MeanAveragePrecision[Any] = boxscore.MeanAveragePrecision("coco", iou_type=iou_type, warn=False)
    some = take(detections, np.isin(detections.image_ids, images)), take(truths, np.isin(truths.image_ids, images))
    metric.update(*some, image_ids=images)
    return metric


def numbered(images: list[int]) -> boxscore.MeanAveragePrecision:
    """A metric that has seen some images without their ids."""
    metric = boxscore.MeanAveragePrecision(box_format="xywh", warn=False)
    for image in images:
        pred, target = as_dicts(SCENE, image)
        metric.update([pred], [target])
    return metric


def refused(call: Callable[[], Any]) -> str:
    """The message of the `InputError` that a call raises."""
    try:
        call()
    except boxscore.InputError as error:
        return str(error)
    return "nothing was wrong"


def counted(call: Callable[[], Any]) -> list[str]:
    """The collectives of a call, by name."""
    names = ("all_gather", "all_gather_into_tensor", "all_reduce", "broadcast", "barrier", "all_gather_object")
    calls: list[str] = []
    originals = {name: getattr(dist, name) for name in names}

    def recorded(name: str) -> Callable[..., Any]:
        def record(*values: Any, **settings: Any) -> Any:
            calls.append(name)
            return originals[name](*values, **settings)

        return record

    for name in names:
        setattr(dist, name, recorded(name))
    try:
        call()
    finally:
        for name in names:
            setattr(dist, name, originals[name])
    return calls


def two_copies(rank: int) -> dict[str, Any]:
    """Every rank has every image, but those above 0 found nothing."""
    metric = boxscore.MeanAveragePrecision(box_format="xywh", warn=False)
    detections, truths = seen(SCENE, range(SCENE.num_images))
    nothing, _ = seen(SCENE, [])
    metric.update(detections if rank == 0 else nothing, truths)
    return values_of(metric.compute())


def stays(mine: list[int]) -> bool:
    """Whether a metric's own state is what it was after compute, and goes on from there."""
    metric = over(mine[:-1])
    before = metric.state_dict()
    metric.compute()
    after = metric.state_dict()
    metric.update(*seen(SCENE, mine[-1:]), image_ids=mine[-1:])
    goes_on = np.array_equal(values_of(metric.compute())["precision"], values_of(over(mine).compute())["precision"])
    return goes_on and all(np.array_equal(before[key], after[key]) for key in before)


def dropping(rank: int, images: list[int], invalid: Any) -> boxscore.MeanAveragePrecision:
    """A metric that has seen some images, of which that of rank 0 has a box with NaN in the last one."""
    metric = boxscore.MeanAveragePrecision(box_format="xywh", warn=False, invalid=invalid)
    for image in images:
        pred, target = as_dicts(SCENE, image)
        if rank == 0 and image == images[-1]:
            pred = {key: torch.cat([column[:1], column]) for key, column in pred.items()}
            pred["boxes"][0, 2] = torch.nan
        metric.update([pred], [target], image_ids=[image])
    return metric


def every_case(_: Path, num_processes: int, rank: int) -> dict[str, Any]:
    """The results of one process, by case."""
    mine = uneven(rank, num_processes)
    sampler = torch.utils.data.DistributedSampler(
        list(range(SCENE.num_images)), num_replicas=num_processes, rank=rank, shuffle=False
    )
    pair = dist.new_group([0, 1])
    cases: dict[str, Any] = {f"uneven {name}": values_of(over(mine, name).compute()) for name in PROTOCOLS}
    cases["one empty"] = values_of(over(uneven(rank, num_processes - 1) if rank < num_processes - 1 else []).compute())
    cases["all empty"] = values_of(over([]).compute())
    cases["sampler"] = values_of(over(list(sampler)).compute())
    cases["num sampled"] = len(list(sampler))
    cases["two copies"] = two_copies(rank)
    cases["numbered"] = values_of(numbered(mine).compute())
    cases["numbered, one empty"] = values_of(
        numbered([] if rank == 0 else uneven(rank - 1, num_processes - 1)).compute()
    )
    cases["not synced"] = values_of(over(mine, sync=False).compute())
    cases["protocols"] = refused(over(mine, "coco" if rank == 0 else "voc2012").compute)
    cases["some numbered"] = refused((over if rank == 0 else numbered)(mine).compute)
    group_metric = over(mine, process_group=pair)
    cases["pair"] = values_of(group_metric.compute()) if rank < 2 else refused(group_metric.compute)
    cases["collectives"] = counted(over(mine).compute)
    cases["stays"] = stays(mine)
    cases["masks"] = values_of(over_masks(mine).compute())
    cases["both"] = {each: values_of(one) for each, one in over_masks(mine, ("segm", "boundary")).compute().items()}
    result = dropping(rank, mine, "drop").compute()
    cases["invalid"] = values_of(result), result.num_invalid, str(result.comparable)
    both = [*mine, 22] if 22 not in mine else mine  # an image that all ranks have
    cases["invalid, twice"] = dropping(0, both, "drop").compute().num_invalid
    return cases


if __name__ == "__main__":
    take_part(every_case)
