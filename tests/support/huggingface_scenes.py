"""Real models of Transformers, tiny and of random weights, with images whose truths are near what they find."""

import contextlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from pycocotools import mask as rle

from tests.support.scenes import run_pycocotools

NUMBERS = (
    *("map", "map_50", "map_75", "map_small", "map_medium", "map_large"),
    *("mar_1", "mar_10", "mar_100", "mar_small", "mar_medium", "mar_large"),
)
"""The names of pycocotools' numbers, in its order."""

NUM_CLASSES = 3
SIDE = 64
"""Of processed images, in pixels."""
ID2LABEL = {0: "cat", 1: "dog", 2: "owl"}
SETTINGS = {"num_labels": NUM_CLASSES, "id2label": ID2LABEL, "label2id": {name: key for key, name in ID2LABEL.items()}}


@dataclass(frozen=True)
class DetectionScene:
    """A model, its processor, and images with annotations in their original pixels, as in a file of COCO."""

    model: Any
    processor: Any
    images: list[Any]
    annotations: list[dict[str, Any]]
    has_pixel_masks: bool

    @property
    def dataset(self) -> list[dict[str, Any]]:
        """What the processor makes of each image, alone."""
        samples = []
        for image, annotation in zip(self.images, self.annotations, strict=True):
            encoded = self.processor(images=image, annotations=annotation, return_tensors="pt")
            sample = {"pixel_values": encoded["pixel_values"][0], "labels": dict(encoded["labels"][0])}
            samples.append(sample | ({"pixel_mask": encoded["pixel_mask"][0]} if self.has_pixel_masks else {}))
        return samples

    def collate(self, samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """A batch; images that the processor has left in different sizes are padded, and their labels stay."""
        batch = {"labels": [each["labels"] for each in samples]}
        for key in ("pixel_values", "pixel_mask"):
            values = [each[key] for each in samples if key in each]
            if values:
                sides = [max(each.shape[side] for each in values) for side in (-2, -1)]
                batch[key] = torch.zeros(len(values), *values[0].shape[:-2], *sides, dtype=values[0].dtype)
                for row, each in zip(batch[key], values, strict=True):
                    row[..., : each.shape[-2], : each.shape[-1]] = each
        return batch

    def found(self, batch_size: int) -> list[dict[str, Any]]:
        """COCO's results of the model, in the original pixels, which the settings of the processor lead to."""
        dataset, results = self.dataset, []
        for first in range(0, len(dataset), batch_size):
            inputs = self.collate(dataset[first : first + batch_size])
            labels = inputs.pop("labels")
            with torch.no_grad():
                outputs = self.model(**inputs)
            scale = [self._scale(label, self.images[first + index]) for index, label in enumerate(labels)]
            found = self.processor.post_process_object_detection(
                outputs, threshold=0.0, target_sizes=torch.tensor(scale, dtype=torch.float32)
            )
            for label, each in zip(labels, found, strict=True):
                columns = (each["boxes"].double(), each["scores"], each["labels"])
                for (left, top, right, bottom), score, category in zip(*(x.tolist() for x in columns), strict=True):
                    box = [left, top, right - left, bottom - top]
                    row = {"image_id": int(label["image_id"]), "category_id": category, "bbox": box, "score": score}
                    results.append(row)
        return results

    def _scale(self, label: dict[str, Any], image: Any) -> tuple[float, float]:
        """What fractions of height and width are multiplied by: the processor resizes, then pads."""
        height, width = image.shape[:2]
        alone = type(self.processor)(**{**self.processor.to_dict(), "do_pad": False})
        resized = alone(images=image, return_tensors="pt")["pixel_values"].shape[-2:]
        padded = label["size"].tolist()
        return height * padded[0] / resized[0], width * padded[1] / resized[1]

    def expected(self, batch_size: int) -> dict[str, float]:
        """The numbers that pycocotools gives the model, with the annotations as they were before any processing."""
        return coco_numbers(self.annotations, self.found(batch_size), "bbox")


def coco_numbers(images: Sequence[dict[str, Any]], results: list[dict[str, Any]], iou_type: str) -> dict[str, float]:
    """The numbers of pycocotools, by name."""
    annotations = [
        {"id": index + 1, "image_id": image["image_id"], **each}
        for index, (image, each) in enumerate((image, each) for image in images for each in image["annotations"])
    ]
    dataset = {
        "images": [{"id": image["image_id"], **image.get("size", {})} for image in images],
        "annotations": annotations,
        "categories": [{"id": label, "name": name} for label, name in ID2LABEL.items()],
    }
    evaluation = run_pycocotools(dataset, results, iouType=iou_type)
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation.summarize()
    return dict(zip(NUMBERS, evaluation.stats.tolist(), strict=True))


def arguments(folder: Path, batch_size: int = 4, **settings: Any) -> Any:
    """Arguments of a trainer that works quietly on the processor."""
    return transformers.TrainingArguments(
        str(folder),
        per_device_eval_batch_size=batch_size,
        remove_unused_columns=False,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        **settings,
    )


def _varied(model: Any) -> Any:
    """The same with larger weights, so that queries differ from each other."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 4 if parameter.dim() > 1 else 1
    return model.eval()


def _yolos() -> Any:
    config = transformers.YolosConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=[48, 48],
        patch_size=8,
        num_detection_tokens=12,
        **SETTINGS,
    )
    processor = transformers.YolosImageProcessorPil(
        size={"max_height": 48, "max_width": 48}, pad_size={"height": 48, "width": 48}
    )
    return transformers.YolosForObjectDetection(config), processor


def _detr_config(num_queries: int) -> Any:
    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1], out_features=["stage2"], layer_type="basic"
    )
    return transformers.DetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone_config=backbone,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        num_queries=num_queries,
        **SETTINGS,
    )


def _detr(**padding: Any) -> Any:
    processor = transformers.DetrImageProcessorPil(size={"shortest_edge": 40, "longest_edge": SIDE}, **padding)
    return transformers.DetrForObjectDetection(_detr_config(12)), processor


def _rt_detr() -> Any:
    backbone = transformers.RTDetrResNetConfig(
        embedding_size=8, hidden_sizes=[8] * 4, depths=[1] * 4, out_features=["stage2", "stage3", "stage4"]
    )
    config = transformers.RTDetrConfig(
        backbone_config=backbone,
        encoder_hidden_dim=16,
        encoder_in_channels=[8] * 3,
        encoder_ffn_dim=16,
        encoder_attention_heads=2,
        d_model=16,
        num_queries=12,
        decoder_in_channels=[16] * 3,
        decoder_ffn_dim=16,
        decoder_layers=1,
        decoder_attention_heads=2,
        decoder_n_points=2,
        num_denoising=0,
        **SETTINGS,
    )
    return transformers.RTDetrForObjectDetection(config), transformers.RTDetrImageProcessorPil(
        size={"height": SIDE, "width": SIDE}
    )


DETECTORS: dict[str, Callable[[], Any]] = {
    "padded by the processor": _yolos,
    "padded, with pixel masks": partial(_detr, pad_size={"height": SIDE, "width": SIDE}),
    "padded as batches": _detr,
    "not padded": _rt_detr,
}
"""Detectors by how their images get one size; the last ignores the aspect."""


def detection_scene(name: str, num_images: int = 12) -> DetectionScene:
    """Images of which a model finds about half the truths, at every size."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    model, processor = DETECTORS[name]()
    images = [rng.integers(0, 256, (*rng.integers(60, 300, 2), 3), dtype=np.uint8) for _ in range(num_images)]
    empty = [{"image_id": 100 + 7 * index, "annotations": []} for index in range(num_images)]
    bare = DetectionScene(
        _varied(model), processor, images, empty, isinstance(model, transformers.DetrForObjectDetection)
    )
    annotations: list[dict[str, Any]] = [{**each, "annotations": []} for each in empty]
    by_id = {each["image_id"]: (each, image) for each, image in zip(annotations, images, strict=True)}
    for found in bare.found(4):
        annotation, image = by_id[found["image_id"]]
        height, width = image.shape[:2]
        left, top, w, h = found["bbox"]
        box = np.array([left, top, left + w, top + h]) + rng.normal(0, 0.06, 4) * [w, h, w, h]
        box = np.clip(box, 0, [width, height, width, height])
        if rng.random() < 0.5 or (box[2:] - box[:2]).min() < 2:
            continue
        label = found["category_id"] if rng.random() < 0.8 else int(rng.integers(NUM_CLASSES))
        sides = (box[2:] - box[:2]).tolist()
        area = sides[0] * sides[1] * rng.uniform(0.4, 0.9)  # that of a mask
        row = {"bbox": [*box[:2].tolist(), *sides], "category_id": label, "area": area, "iscrowd": 0}
        annotation["annotations"].append(row)
    return replace(bare, annotations=annotations)


@dataclass(frozen=True)
class MaskScene:
    """A model of instance segmentation, its processor, and samples with masks and classes."""

    model: Any
    processor: Any
    dataset: list[dict[str, Any]]

    @staticmethod
    def collate(samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """A batch as in Transformers' example."""
        return {
            "pixel_values": torch.stack([each["pixel_values"] for each in samples]),
            "mask_labels": [each["mask_labels"] for each in samples],
            "class_labels": [each["class_labels"] for each in samples],
        }

    def found(self, batch_size: int) -> list[dict[str, Any]]:
        """COCO's results of the model."""
        results = []
        for first in range(0, len(self.dataset), batch_size):
            samples = self.dataset[first : first + batch_size]
            with torch.no_grad():
                outputs = self.model(pixel_values=torch.stack([each["pixel_values"] for each in samples]))
            sizes = [tuple(each["pixel_values"].shape[-2:]) for each in samples]
            found = self.processor.post_process_instance_segmentation(
                outputs, threshold=0.0, target_sizes=sizes, return_binary_maps=True
            )
            for index, each in enumerate(found):
                for row, segment in enumerate(each["segments_info"]):
                    mask = each["segmentation"][row].numpy()
                    about = {"category_id": segment["label_id"], "score": segment["score"]}
                    results.append({"image_id": first + index, "segmentation": encoded(mask), **about})
        return results

    def expected(self, batch_size: int) -> dict[str, float]:
        """The numbers that pycocotools gives the model."""
        images = []
        for index, each in enumerate(self.dataset):
            masks = [encoded(mask.numpy()) for mask in each["mask_labels"]]
            rows = [
                {"category_id": int(label), "segmentation": mask, "area": float(rle.area(mask)), "iscrowd": 0}
                for label, mask in zip(each["class_labels"], masks, strict=True)
            ]
            images.append({"image_id": index, "annotations": rows, "size": {"height": SIDE, "width": SIDE}})
        return coco_numbers(images, self.found(batch_size), "segm")


def encoded(mask: Any) -> dict[str, Any]:
    """A mask as pycocotools' run lengths."""
    return dict(rle.encode(np.asfortranarray(mask.astype(np.uint8))))


def _swin() -> Any:
    return transformers.SwinConfig(
        image_size=SIDE,
        patch_size=2,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 2, 2],
        window_size=2,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )


def _mask2former() -> Any:
    config = transformers.Mask2FormerConfig(
        backbone_config=_swin(),
        feature_size=32,
        mask_feature_size=32,
        hidden_dim=32,
        encoder_feedforward_dim=16,
        dim_feedforward=16,
        num_attention_heads=2,
        encoder_layers=1,
        decoder_layers=2,
        num_queries=6,
        train_num_points=16,
        **SETTINGS,
    )
    processor = transformers.Mask2FormerImageProcessorPil(size={"height": SIDE, "width": SIDE})
    return transformers.Mask2FormerForUniversalSegmentation(config), processor


def _maskformer() -> Any:
    config = transformers.MaskFormerConfig(
        backbone_config=_swin(), decoder_config=_detr_config(6), fpn_feature_size=32, mask_feature_size=32, **SETTINGS
    )
    processor = transformers.MaskFormerImageProcessorPil(size={"height": SIDE, "width": SIDE})
    return transformers.MaskFormerForInstanceSegmentation(config), processor


SEGMENTERS: dict[str, Callable[[], Any]] = {"Mask2Former": _mask2former, "MaskFormer": _maskformer}


def mask_scene(name: str = "Mask2Former", num_images: int = 6) -> MaskScene:
    """Images with masks near those that a model finds."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    model, processor = SEGMENTERS[name]()
    model = _varied(model)
    images = [torch.from_numpy(rng.normal(size=(3, SIDE, SIDE)).astype(np.float32)) for _ in range(num_images)]
    bare = MaskScene(model, processor, [{"pixel_values": image} for image in images])
    masks: list[list[Any]] = [[] for _ in images]
    labels: list[list[int]] = [[] for _ in images]
    for found in bare.found(2):
        if rng.random() < 0.4:
            continue
        mask = rle.decode(found["segmentation"])
        masks[found["image_id"]].append(np.roll(mask, int(rng.integers(0, 4)), axis=1))
        labels[found["image_id"]].append(found["category_id"])
    dataset = [
        {
            "pixel_values": image,
            "mask_labels": torch.from_numpy(np.array(mask, np.float32).reshape(-1, SIDE, SIDE)),
            "class_labels": torch.tensor(label, dtype=torch.int64),
        }
        for image, mask, label in zip(images, masks, labels, strict=True)
    ]
    return MaskScene(model, processor, dataset)
