"""What each process does in test_huggingface: evaluations by trainers, each over its share of the images."""

import os
from pathlib import Path
from typing import Any

import torch

import boxscore
from boxscore.huggingface import DetectionMetrics, DetectionTrainer
from tests.support.huggingface_scenes import ID2LABEL, arguments, detection_scene, mask_scene
from tests.support.processes import take_part

BOXES = ("padded as batches", 11)
"""The detector and its number of images, which fill no whole number of batches on any number of processes here."""
NUM_MASKED = 5
BATCH_SIZE = 2


class Stream(torch.utils.data.IterableDataset):
    """Samples whose number is not known in advance."""

    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    def __iter__(self) -> Any:
        return iter(self.samples)


def without_ids(dataset: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same samples, whose labels don't name their image."""
    return [
        sample | {"labels": {key: value for key, value in sample["labels"].items() if key != "image_id"}}
        for sample in dataset
    ]


def evaluated(scene: Any, folder: Any, dataset: Any, kind: Any = DetectionTrainer, **settings: Any) -> Any:
    """The numbers of a trainer, by their names without the prefix; the text of an error."""
    metrics = DetectionMetrics(scene.processor, id2label=ID2LABEL, **settings)
    trainer = kind(
        scene.model,
        arguments(
            folder, BATCH_SIZE, eval_do_concat_batches=False, accelerator_config={"dispatch_batches": False}
        ),  # else rank 0 would read streams for all, and refuse labels of different sizes
        data_collator=scene.collate,
        eval_dataset=dataset,
        compute_metrics=metrics,
    )
    try:
        numbers = trainer.evaluate()
    except boxscore.InputError as error:
        return str(error)
    return {name.removeprefix("eval_"): value for name, value in numbers.items() if "_ma" in name}


def every_case(folder: Path, num_processes: int, rank: int) -> dict[str, Any]:
    """The numbers of each trainer."""
    world = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": num_processes, "LOCAL_WORLD_SIZE": num_processes}
    os.environ.update({name: str(value) for name, value in world.items()})  # as torchrun does
    name, num_images = BOXES
    scene, masked = detection_scene(name, num_images), mask_scene(num_images=NUM_MASKED)
    dataset = scene.dataset
    return {
        "boxes": evaluated(scene, folder, dataset),
        "without ids": evaluated(scene, folder, without_ids(dataset)),
        "stream": evaluated(scene, folder, Stream(dataset)),
        "stream without ids": evaluated(scene, folder, Stream(without_ids(dataset))),
        "masks": evaluated(masked, folder, masked.dataset, iou_type="segm"),
    }


if __name__ == "__main__":
    take_part(every_case)
