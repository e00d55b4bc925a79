"""Ultralytics' own validators and trainers on tiny datasets, with detections that are planned.

The datasets are files; loading, letterboxing, scaling, matching and writing are Ultralytics'. Its network runs, but
what it found is replaced by the labels, moved a little: random weights find nothing.
"""

import contextlib
import json
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.support import oracles

SIZES = ((64, 48), (50, 70), (64, 64), (128, 96), (64, 48))
"""Width and height of each image; the last one has no objects."""
NAMES = ("cat", "dog", "bird")
SUFFIXES = {"detect": "", "segment": "-seg", "pose": "-pose", "obb": "-obb"}
NUM_KEYPOINTS = 17


INTEGRATIONS = ("clearml", "comet", "dvc", "hub", "mlflow", "neptune", "raytune", "tensorboard", "wandb")


@contextlib.contextmanager
def without_torchvision() -> Iterator[None]:
    """Ultralytics imports torchvision for its NMS alone, and has one of its own. Loggers that are installed rest."""
    settings = oracles.ultralytics("utils").SETTINGS
    settings.update({name: False for name in INTEGRATIONS if name in settings})
    ops = types.SimpleNamespace(nms=oracles.ultralytics("utils.nms").TorchNMS.nms)
    with oracles.stand_in("torchvision", ops=ops):
        yield


@cache
def adapters() -> Any:
    """`boxscore.ultralytics`."""
    oracles.ultralytics("models.yolo")
    import boxscore.ultralytics

    return boxscore.ultralytics


def random_line(task: str, random: np.random.Generator) -> list[float]:
    """A label: of multiples of 1/64, so that it is the same in float32."""
    low = random.integers(4, 30, 2)
    high = low + random.integers(8, 28, 2)
    label = int(random.integers(0, len(NAMES)))
    (left, top), (right, bottom) = (low / 64).tolist(), (high / 64).tolist()
    box = [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]
    if task == "segment":
        return [label, left, top, right, top, right, bottom, left, bottom]
    if task == "obb":
        return [label, left, box[1], box[0], top, right, box[1], box[0], bottom]
    if task == "pose":
        points = np.c_[random.integers(low, high, (NUM_KEYPOINTS, 2)) / 64, random.integers(0, 3, NUM_KEYPOINTS)]
        return [label, *box, *points.reshape(-1).tolist()]
    return [label, *box]


def write_dataset(folder: Path, task: str, *, seed: int = 0) -> Path:
    """A dataset of noise with labels; the path of its data.yaml."""
    from PIL import Image

    random = np.random.default_rng(seed)
    for kind in ("images", "labels"):
        (folder / kind / "val").mkdir(parents=True)
    for index, (width, height) in enumerate(SIZES):
        pixels = random.integers(0, 255, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "images" / "val" / f"{index:012}.png")
        lines = [random_line(task, random) for _ in range(5)] if index < len(SIZES) - 1 else []
        text = "".join(" ".join(f"{number:.17g}" for number in line) + "\n" for line in lines)
        (folder / "labels" / "val" / f"{index:012}.txt").write_text(text)
    yaml = f"path: {folder}\ntrain: images/val\nval: images/val\nnames: [{', '.join(NAMES)}]\n"
    keypoints = f"kpt_shape: [{NUM_KEYPOINTS}, 3]\n" if task == "pose" else ""
    (folder / "data.yaml").write_text(yaml + keypoints)
    return folder / "data.yaml"


def planned(validator: type) -> Any:
    """A validator whose network finds the labels of each batch, moved by up to 2 pixels, and some of another class."""
    import torch

    class Planned(validator):  # type: ignore[misc]
        def preprocess(self, batch: dict[str, Any]) -> Any:
            self.current = super().preprocess(batch)
            return self.current

        def postprocess(self, _: Any) -> list[dict[str, Any]]:
            found = []
            for index in range(len(self.current["im_file"])):
                truth = self._prepare_batch(index, {**self.current, "bboxes": self.current["bboxes"].clone()})
                num = len(truth["cls"])
                generator = torch.Generator().manual_seed(index)
                moved = torch.rand((num, truth["bboxes"].shape[-1]), generator=generator) * 4 - 2
                moved[:, 4:] /= 20  # the angle
                label = truth["cls"].clone()
                label[::4] = (label[::4] + 1) % len(NAMES)
                pred = {"bboxes": truth["bboxes"] + moved, "cls": label, "conf": torch.rand(num, generator=generator)}
                if "masks" in truth:
                    pred["masks"] = torch.roll(truth["masks"], 1, dims=2).byte()
                if "keypoints" in truth:
                    noise = torch.rand(truth["keypoints"].shape, generator=generator)
                    pred["keypoints"] = truth["keypoints"] + noise * 1.5
                found.append(pred if index % 5 != 3 else {key: value[:0] for key, value in pred.items()})
            return found

    Planned.__name__ = validator.__name__
    return Planned


def validate(data: Path, task: str, folder: Path, validator: type, **settings: Any) -> Any:
    """The metrics of `model.val` with a validator; files are written into `folder`."""
    models = oracles.ultralytics("models")
    with without_torchvision():
        import torch

        torch.manual_seed(0)
        model = models.YOLO(f"yolo11n{SUFFIXES[task]}.yaml", verbose=False)
        model.model.names = dict(enumerate(NAMES))
        chosen = {"data": str(data), "imgsz": 64, "batch": 3, "plots": False, "verbose": False, "device": "cpu"}
        chosen |= {"project": str(folder.parent), "name": folder.name, "exist_ok": True}
        return model.val(validator=validator, **chosen, **settings)


def truths_as_json(data: Path, task: str) -> dict[str, Any]:
    """The labels of a dataset as COCO has them: categories from 1 on, boxes in pixels."""
    images: list[Any] = []
    annotations: list[Any] = []
    for index, (width, height) in enumerate(SIZES):
        images.append({"id": index, "file_name": f"{index:012}.png", "width": width, "height": height})
        text = (data.parent / "labels" / "val" / f"{index:012}.txt").read_text()
        for line in text.splitlines():
            label, *numbers = map(float, line.split())
            scale = np.array([width, height])
            annotation: dict[str, Any] = {"id": len(annotations) + 1, "image_id": index, "iscrowd": 0}
            annotation["category_id"] = int(label) + 1
            if task == "segment":
                points = np.array(numbers).reshape(-1, 2) * scale
                annotation["segmentation"] = [points.reshape(-1).tolist()]
                box = [*points.min(axis=0), *(points.max(axis=0) - points.min(axis=0))]
            else:
                center, size = np.array(numbers[:2]) * scale, np.array(numbers[2:4]) * scale
                box = [*(center - size / 2), *size]
            annotation |= {"bbox": [float(each) for each in box], "area": float(box[2] * box[3])}
            if task == "pose":
                pose = np.array(numbers[4:]).reshape(-1, 3) * [*scale, 1]
                annotation |= {"keypoints": pose.reshape(-1).tolist(), "num_keypoints": int((pose[:, 2] > 0).sum())}
            annotations.append(annotation)
    categories = [{"id": label + 1, "name": name} for label, name in enumerate(NAMES)]
    return {"images": images, "annotations": annotations, "categories": categories}


def write_json(path: Path, content: Any) -> Path:
    """A file of JSON."""
    path.write_text(json.dumps(content))
    return path
