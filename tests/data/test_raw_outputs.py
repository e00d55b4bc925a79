"""What torchvision's Mask R-CNN and KeypointRCNN give goes in as it is, but for the threshold of masks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import boxscore
from boxscore import Detections, InputError, MeanAveragePrecision, Truths
from boxscore.data import Masks
from boxscore.torchmetrics import MeanAveragePrecision as TorchMetric
from tests.conftest import EAGER, make_backend

Dicts = list[dict[str, Any]]
IOU_TYPES: Any = {"masks": "segm", "keypoints": "keypoints"}


def by_metric(preds: Dicts, targets: Dicts, iou_type: Any) -> float:
    """A list of dicts."""
    metric: MeanAveragePrecision = MeanAveragePrecision("coco", iou_type=iou_type, warn=False)
    metric.update(preds, targets)
    return metric.compute()["map"]


def by_mixed_metric(preds: Dicts, targets: Dicts, iou_type: Any) -> float:
    """The same where images differ, so that each is validated by itself: the last one has lists."""
    last = {key: np.asarray(value).tolist() if key != "masks" else value for key, value in preds[-1].items()}
    return by_metric([*preds[:-1], last], targets, iou_type)


def by_padded(preds: Dicts, targets: Dicts, iou_type: Any) -> float:
    """A dict of padded batches; all images have as many rows."""
    metric: MeanAveragePrecision = MeanAveragePrecision("coco", iou_type=iou_type, warn=False)
    batches = [
        {key: np.stack([np.asarray(image[key]) for image in images]) for key in images[0] if key != "boxes"}
        for images in (preds, targets)
    ]
    metric.update(*batches)
    return metric.compute()["map"]


def by_columns(preds: Dicts, targets: Dicts, iou_type: Any) -> float:
    """`from_images`, then `evaluate`."""
    found = Detections.from_images(preds, iou_type=iou_type)
    return boxscore.evaluate(found, Truths.from_images(targets, iou_type=iou_type))["map"]


def by_torchmetrics(preds: Dicts, targets: Dicts, iou_type: Any) -> float:
    """The class for torchmetrics, which has tensors."""
    metric = TorchMetric(iou_type=iou_type)
    metric.update(
        *(
            [{key: torch.tensor(np.array(value)) for key, value in image.items()} for image in images]
            for images in (preds, targets)
        )
    )
    return float(metric.compute()["map"])


WAYS: list[Callable[..., float]] = [by_metric, by_mixed_metric, by_padded, by_columns, by_torchmetrics]


def outputs(kind: str) -> tuple[Dicts, Dicts]:
    """Two images as torchvision's models give them: masks (D, 1, H, W), poses (D, 17, 3) and scores of heatmaps."""
    random = np.random.default_rng(0)
    preds, targets = [], []
    for _ in range(2):
        corner = random.integers(0, 20, (3, 2)) * 1.0
        box = np.concatenate([corner, corner + random.integers(8, 20, (3, 2))], axis=1)
        pred = {"boxes": box, "labels": np.array([1, 1, 2]), "scores": np.array([0.9, 0.8, 0.7])}
        target = {"boxes": box, "labels": np.array([1, 2, 2])}
        if kind == "masks":
            place = np.arange(48)
            inside = [(place >= box[:, i, None]) & (place < box[:, i + 2, None]) for i in (0, 1)]
            pixels = inside[1][:, :, None] & inside[0][:, None, :]
            pred["masks"], target["masks"] = np.roll(pixels, 1, axis=2)[:, None], pixels
        else:
            pose = np.concatenate([corner[:, None] + random.random((3, 17, 2)) * 16, np.ones((3, 17, 1))], axis=2)
            pred["keypoints"] = pose + np.array([0.4, 0, 0])
            pred["keypoints_scores"] = random.normal(0, 9, (3, 17))  # negative ones, too
            target["keypoints"], target["area"] = pose, np.full(3, 200.0)
        preds.append(pred)
        targets.append(target)
    return preds, targets


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("library", EAGER)
@pytest.mark.parametrize("kind", ["masks", "keypoints"])
def test_raw_outputs_have_the_numbers_of_what_is_documented(kind: str, library: str, way: Callable[..., float]) -> None:
    """Masks without their second axis, poses without scores of heatmaps; in every array library."""
    preds, targets = outputs(kind)
    plain = [{key: value for key, value in pred.items() if key != "keypoints_scores"} for pred in preds]
    if kind == "masks":
        plain = [pred | {"masks": pred["masks"][:, 0]} for pred in plain]
    wanted = by_metric(plain, targets, IOU_TYPES[kind])
    assert 0.1 < wanted < 0.9
    wrap = make_backend(library).array
    given = [[{key: wrap(value) for key, value in image.items()} for image in images] for images in (preds, targets)]
    found = way(*given, IOU_TYPES[kind])
    assert found == (float(np.float32(wanted)) if way is by_torchmetrics else wanted)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("library", EAGER)
def test_probabilities_are_refused_with_what_to_pass(library: str, way: Callable[..., float]) -> None:
    """No threshold is chosen silently; bytes are taken."""
    preds, targets = outputs("masks")
    wrap = make_backend(library).array
    raw = [pred | {"masks": wrap(pred["masks"].astype(np.float32) * 0.7)} for pred in preds]
    axes = "" if way is by_padded else "[:, 0]"
    with pytest.raises(InputError) as error:
        way(raw, targets, "segm")
    assert str(error.value).endswith(f": pass `masks{axes} > 0.5` for probabilities")
    as_bytes = [pred | {"masks": wrap(pred["masks"].astype(np.uint8))} for pred in preds]
    assert way(as_bytes, targets, "segm") == way(preds, targets, "segm")


def test_columns_take_raw_outputs() -> None:
    """`Masks`, `Detections`, and images without detections."""
    preds, _ = outputs("masks")
    assert Masks.of(preds[0]["masks"]).rle() == Masks.of(preds[0]["masks"][:, 0]).rle()
    with pytest.raises(InputError, match=r"got float64: pass `masks\[:, 0\] > 0.5` for probabilities"):
        Masks.of(preds[0]["masks"] * 0.5)
    nothing = {"labels": np.zeros(0, int), "scores": np.zeros(0), "masks": np.zeros((0, 1, 48, 48), bool)}
    assert len(Detections.from_images([nothing, preds[1]], iou_type="segm")) == 3
    poses, _ = outputs("keypoints")
    empty = {key: value[:0] for key, value in poses[0].items()}
    assert len(Detections.from_images([empty, poses[1]], iou_type="keypoints")) == 3


def test_the_third_column_of_keypoints_is_what_protocols_read() -> None:
    """CrowdPose leaves out poses without a sure point, and scores of heatmaps may all be negative."""
    preds, _ = outputs("keypoints")
    both = Detections.from_images([preds[0]], iou_type="keypoints")
    assert np.asarray(both.keypoints.score).tolist() == [[1.0] * 17] * 3
