"""What pages of the documentation take for granted: a reader's files, model and data. All files are real, and small."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import boxscore
from boxscore import Detections, Truths
from boxscore.cli import sample
from boxscore.data import Masks
from tests.support import crowd_scenes, lvis_scenes, open_images_files
from tests.support.photos import write_photos
from tests.support.shared import shared_data

Names = dict[str, Any]
Setup = Callable[[Path], Names]
"""Writes files into the folder of a page; returns the names that its examples find."""


def write_sample(folder: Path) -> None:
    """The sample of the package, and every other of its detections."""
    for name in ("truths.json", "detections.json"):
        shutil.copy(sample.FOLDER / name, folder / name)
    every_other = json.loads((folder / "detections.json").read_text())[::2]
    (folder / "fewer.json").write_text(json.dumps(every_other))


def training_loop(_: Path) -> Names:
    """A detector whose boxes are too short, and by less after each epoch."""
    import torch

    box = torch.tensor([[0.0, 0.0, 200.0, 100.0]])

    def train_one_epoch(model: Any) -> None:
        model.height += 30.0

    class Model:
        height = 22.0

        def __call__(self, images: Any) -> list[Names]:
            found = torch.tensor([[0.0, 0.0, 200.0, self.height]])
            return [{"boxes": found, "scores": torch.tensor([0.9]), "labels": torch.tensor([0])} for _ in images]

    loader = [([torch.zeros(3, 8, 8)], [{"boxes": box, "labels": torch.tensor([0]), "image_id": i}]) for i in range(2)]
    return {"model": Model(), "train_one_epoch": train_one_epoch, "val_loader": loader}


def training(_: Path) -> Names:
    """A detector that finds every truth, in dicts and in padded batches."""
    import torch

    boxes, labels = torch.tensor([[0.0, 0.0, 9.0, 9.0], [5.0, 5.0, 20.0, 30.0]]), torch.tensor([0, 1])
    found = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": labels}
    dataset = [(torch.zeros(3, 8, 8), {"boxes": boxes, "labels": labels, "image_id": image}) for image in (7, 8)]
    return {
        "boxes": boxes,
        "labels": labels,
        "dataset": dataset,
        "class_names": ["cat", "dog"],
        "loader": [([image], [target]) for image, target in dataset],
        "model": lambda images: [found] * (1 if torch.is_tensor(images) else len(images)),
        "padded_model": lambda images: {key: torch.stack([value] * len(images)) for key, value in found.items()},
    }


def huggingface(_: Path) -> Names:
    """A model with the outputs of DETR that finds the box of every other image: 3 of 7 truths, with the best scores.

    43 of 101 recall points.
    """
    import torch
    import transformers

    class Detector(torch.nn.Module):  # type: ignore[misc]
        config = transformers.PretrainedConfig(id2label={0: "cat", 1: "dog"})

        def forward(self, pixel_values: Any, labels: Any) -> Any:
            is_even = torch.tensor([int(label["image_id"]) % 2 == 0 for label in labels])
            logits = torch.where(is_even[:, None], torch.tensor([0.0, 5, 0]), torch.tensor([0.0, 0, 5]))
            return {
                "loss": pixel_values.sum() * 0,
                "loss_dict": {"loss_ce": torch.zeros(())},
                "logits": logits[:, None],
                "pred_boxes": pixel_values[:, None],
                "last_hidden_state": torch.zeros(len(labels), 1, 2),
            }

    def collate(samples: list[Names]) -> Names:
        images = torch.stack([sample["pixel_values"] for sample in samples])
        return {"pixel_values": images, "labels": [sample["labels"] for sample in samples]}

    boxes = torch.from_numpy(np.random.default_rng(0).uniform(0.3, 0.6, (5, 4)).astype(np.float32))
    dataset = []
    for image, box in enumerate(boxes):
        num = 1 + image % 2
        label = {"boxes": box[None].repeat(num, 1), "class_labels": torch.ones(num, dtype=torch.int64)}
        label |= {"image_id": torch.tensor([image]), "orig_size": torch.tensor([100, 200])}
        dataset.append({"pixel_values": box, "labels": label})
    names: Names = {"model": Detector(), "processor": transformers.DetrImageProcessorPil(), "collate": collate}
    return names | {"train_dataset": dataset, "val_dataset": dataset}


def segmentation(_: Path) -> Names:
    """A Mask R-CNN that finds every truth."""
    import torch

    masks = torch.eye(2)[:, :, None].expand(2, 2, 3)
    labels = torch.tensor([0, 1])
    found = {"masks": masks[:, None], "scores": torch.tensor([0.9, 0.8]), "labels": labels}
    loader = [([torch.zeros(3, 2, 3)], [{"masks": masks.bool(), "labels": labels}])]
    return {"masked_loader": loader, "mask_rcnn": lambda _: [found]}


def coco_evaluator(folder: Path) -> Names:
    """The sample as a loader of batches, and a model that has its detections."""
    import torch

    truths = json.loads((folder / "truths.json").read_text())
    predictions: dict[int, Names] = {}
    for image in truths["images"]:
        rows = [row for row in json.loads((folder / "detections.json").read_text()) if row["image_id"] == image["id"]]
        box = torch.tensor([row["bbox"] for row in rows], dtype=torch.float64).reshape(-1, 4)
        predictions[image["id"]] = {
            "boxes": torch.cat([box[:, :2], box[:, :2] + box[:, 2:]], dim=1),
            "scores": torch.tensor([row["score"] for row in rows]),
            "labels": torch.tensor([row["category_id"] for row in rows]),
        }
    ids = list(predictions)
    loader = [
        (ids[first : first + 8], [{"image_id": each} for each in ids[first : first + 8]]) for first in range(0, 40, 8)
    ]
    return {"val_loader": loader, "model": lambda images: [predictions[image] for image in images]}


def oriented_boxes(folder: Path) -> Names:
    """A folder of DOTA, and its results."""
    columns: Names = {"image_ids": [0, 0], "labels": [0, 0], "boxes": [[20, 20, 16, 6, 30], [60, 20, 16, 6, 90]]}
    columns["box_format"] = "cxcywha:degrees"
    truths = Truths(**columns, image_names={0: "P0003"}, class_names=["ship"])
    boxscore.write_truths(folder / "DOTA" / "val" / "labelTxt", truths, format="dota")
    boxscore.write_detections(folder / "Task1_results", Detections(**columns, scores=[0.9, 0.8]), truths, format="dota")
    return {}


def protocols(folder: Path) -> Names:
    """LVIS, Open Images and CrowdHuman."""
    lvis, _ = lvis_scenes.write_lvis(folder, *lvis_scenes.federated_scene(0, has_masks=True))
    Path(lvis).rename(folder / "lvis_v1_val.json")
    open_images = open_images_files.write_all(folder)
    open_images["truths"].rename(folder / "boxes.csv")
    open_images["tree"].rename(folder / "bbox_labels_600_hierarchy.json")
    truths, detections = crowd_scenes.write_crowd(folder, crowd_scenes.random_crowd(0))
    truths.rename(folder / "annotation_val.odgt")
    detections.rename(folder / "results.odgt")
    return {}


def formats(folder: Path) -> Names:
    """VOC with an image set, masks and poses in several formats, DOTA, Open Images."""
    detections, truths = sample.load()
    boxscore.write_truths(folder / "VOC2007", truths, format="voc")
    listed = folder / "VOC2007" / "ImageSets" / "Main" / "test.txt"
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.write_text("".join(f"street_{number:03}\n" for number in range(1, 21)))
    boxscore.write_detections(folder / "results.csv", detections, truths)

    mask = Masks.from_polygons([[[4, 4, 20, 4, 20, 16, 4, 16]]], sizes=(48, 64))
    shapes: Names = {"image_ids": [1], "labels": [1]}
    named: Names = {"image_names": {1: "a.jpg"}, "image_sizes": {1: (64, 48)}, "class_names": {1: "person"}}
    masked = Truths(**shapes, boxes=[[4, 4, 20, 16]], masks=mask, **named)
    boxscore.write_truths(folder / "instances_val2017.json", masked)
    found = Detections(**shapes, boxes=[[4, 4, 20, 16]], masks=mask, scores=[0.9])
    boxscore.write_detections(folder / "predictions" / "labels", found, masked, format="yolo")

    pose = np.ones((1, 17, 3)) * 10
    posed = Truths(**shapes, boxes=[[4, 4, 20, 16]], keypoints=pose, area=[100.0], **named)
    boxscore.write_truths(folder / "person_keypoints_val2017.json", posed)
    boxscore.write_detections(folder / "poses.parquet", Detections(**shapes, keypoints=pose, scores=[0.9]), posed)

    oriented_boxes(folder)
    shutil.make_archive(str(folder / "Task1_results"), "zip", folder / "Task1_results")
    open_images = open_images_files.write_all(folder)
    for name, path in {
        "truths": "validation-annotations-bbox.csv",
        "labels": "validation-imagelabels.csv",
        "names": "class-descriptions-boxable.csv",
        "tree": "bbox_labels_600_hierarchy.json",
    }.items():
        open_images[name].rename(folder / path)
    return {}


def scaling(folder: Path) -> Names:
    """Tables of two images, in one file and in folders."""
    rows = {"image": [1, 2], "label": [1, 1], "box": [[0.0, 0.0, 9.0, 9.0]] * 2}
    for name, table in {"truths": pa.table(rows), "detections": pa.table({**rows, "score": [0.9, 0.8]})}.items():
        (folder / name).mkdir()
        pa.parquet.write_table(table, folder / name / "part-0.parquet")
    pa.parquet.write_table(pa.table(rows), folder / "truths.parquet")
    return {}


def pictures(folder: Path) -> Names:
    """The images of the sample, made up."""
    write_photos(folder / "images", sample.load()[1])
    return {}


def table1(folder: Path) -> Names:
    """The real data of the paper's table."""
    (folder / "VOC2007").symlink_to(shared_data("voc2007"))
    return {}


def supervision(folder: Path) -> Names:
    """A dataset of two images, and a detector whose boxes are too wide."""
    import supervision as sv
    from PIL import Image

    box = np.array([[10.0, 10.0, 60.0, 60.0]])
    annotations = {}
    for name, label in (("cat.png", 0), ("dog.png", 1)):
        Image.new("RGB", (80, 80)).save(folder / name)
        annotations[name] = sv.Detections(xyxy=box, class_id=np.array([label]))

    def predict(_: Any) -> Any:
        return sv.Detections(xyxy=box + np.array([0, 0, 9, 0]), confidence=np.array([0.9]), class_id=np.array([0]))

    dataset = sv.DetectionDataset(classes=["cat", "dog"], images=[*annotations], annotations=annotations)
    return {"dataset": dataset, "predict": predict}


SETUPS: dict[str, Setup] = {
    "docs/frameworks/supervision.md": supervision,
    "docs/frameworks/torchvision.md": coco_evaluator,
    "docs/frameworks/huggingface.md": huggingface,
    "docs/guides/training.md": training,
    "docs/guides/serve.md": training_loop,
    "docs/guides/segmentation.md": segmentation,
    "docs/guides/oriented-boxes.md": oriented_boxes,
    "docs/guides/protocols.md": protocols,
    "docs/guides/label-errors.md": pictures,
    "docs/guides/report.md": pictures,
    "docs/guides/scaling.md": scaling,
    "docs/reference/formats.md": formats,
    "docs/how-it-works/table1.md": table1,
}
"""Pages that need more than the sample."""


def prepare_page(page: str, folder: Path) -> Names:
    """The folder of a page, ready; the names that its examples find."""
    write_sample(folder)
    return SETUPS[page](folder) if page in SETUPS else {}
