"""A batch for torchmetrics' metrics, and results compared bit for bit."""

from typing import Any

import torch

import boxscore
from tests.support.world_of_metrics import SCENE, as_dicts

NUMBERS = ["map", "map_50", "map_75", "map_small", "map_medium", "map_large"]
NUMBERS += ["mar_1", "mar_10", "mar_100", "mar_small", "mar_medium", "mar_large"]
COCO = boxscore.Protocol.named("coco")
IN_DOUBLE: dict[str, Any] = {"iou_thresholds": list(COCO.thresholds), "rec_thresholds": list(COCO.recall_points)}
"""Torchmetrics' own are in single precision."""
BATCH = tuple([as_dicts(SCENE, image)[side] for image in range(4)] for side in (0, 1))


def check_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """The same keys in whatever order, dtypes, shapes and bits."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if name == "ious":
            check_same_ious(found[name], value)
            continue
        assert found[name].dtype == value.dtype, name
        assert found[name].shape == value.shape, name
        assert torch.equal(found[name], value), name


def check_same_ious(found: dict[Any, Any], expected: dict[Any, Any]) -> None:
    """The same keys and bits; a pair of image and class without detections or truths has an empty list."""
    assert list(found) == list(expected)
    for key, value in expected.items():
        assert type(found[key]) is type(value), key
        assert torch.equal(torch.as_tensor(found[key]), torch.as_tensor(value)), key
