"""Frameworks that need the patch of pycocotools alone: their numbers, with it and without it."""

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import boxscore
from boxscore.coco import mask
from tests.support import oracles
from tests.support.documents import ROOT
from tests.support.dropin import check_equal
from tests.support.framework_clients import CLIENTS
from tests.support.scenes import as_dataset, random_scene

SCENE = random_scene(5, num_images=8, num_classes=4, is_whole=True)
KINDS = (contextlib.nullcontext, boxscore.patch_pycocotools)

# pycocotools' own
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, list[dict[str, Any]]]:
    """A dataset and results, with boxes and masks."""
    dataset, results = as_dataset(SCENE)
    for image in dataset["images"]:
        image |= {"width": 400, "height": 400}
    for row in (*dataset["annotations"], *results):
        x, y, width, height = (float(number) for number in row["bbox"])
        outline = [[x, y, x + width, y, x + width, y + height, x, y + height]]
        rle = mask.merge(mask.frPyObjects(outline, 400, 400))
        row["segmentation"] = {**rle, "counts": rle["counts"].decode()} if "score" in row else outline
    path = tmp_path / "truths.json"
    path.write_text(json.dumps(dataset))
    return path, json.loads(json.dumps(results))


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_has_its_numbers_over_the_patch(name: str, files: Any) -> None:
    """And prints the same text."""
    path, results = files
    outcomes = []
    for context in KINDS:
        with context(), contextlib.redirect_stdout(io.StringIO()) as printed:
            numbers = CLIENTS[name](path, results)
        outcomes.append((numbers, [line for line in printed.getvalue().splitlines() if "t=" not in line]))
    check_equal(outcomes[1], outcomes[0])
    text = "\n".join(outcomes[0][1])
    assert re.search(r"Average Precision .*\| area=   all \| .* = 0\.[0-9]*[1-9]", text), "there is something to find"


def mmdetection_numbers(files: Any, **settings: Any) -> Any:
    """What mmdetection's CocoMetric computes of the results, with the pycocotools that is there now."""
    path, results = files
    module = oracles.mmdet_coco_metric()
    wrappers = oracles.load_again("mmdet.datasets.api_wrappers", "coco_api")
    with patch.multiple(module, COCO=wrappers.COCO, COCOeval=wrappers.COCOeval):
        metric = module.CocoMetric(str(path), **settings)
        metric.dataset_meta = {"classes": [each["name"] for each in json.loads(path.read_text())["categories"]]}
        rows: list[Any] = []
        for image in range(SCENE.num_images):
            own = [row for row in results if row["image_id"] == image]
            box = np.array([row["bbox"] for row in own], float).reshape(-1, 4)
            pred: dict[str, Any] = {"bboxes": np.c_[box[:, :2], box[:, :2] + box[:, 2:]], "img_id": image}
            pred["scores"] = np.array([row["score"] for row in own])
            pred["labels"] = np.array([row["category_id"] for row in own])
            rows.append(({}, pred))
        return metric.compute_metrics(rows)


PROPOSALS = {"proposal_nums": (1, 10, 100), "metric": "proposal"}


@pytest.mark.parametrize("settings", [{}, {"classwise": True}, PROPOSALS], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_mmdetections_metric_has_its_numbers_over_the_patch(files: Any, settings: dict[str, Any]) -> None:
    """Its own CocoMetric, over its own subclasses of COCO and COCOeval."""
    outcomes = []
    for context in KINDS:
        with context(), contextlib.redirect_stdout(io.StringIO()):
            outcomes.append(mmdetection_numbers(files, **settings))
    assert len(outcomes[0]) > 2
    check_equal(dict(outcomes[1]), dict(outcomes[0]))


def tensorflow_numbers(files: Any) -> Any:
    """What the TensorFlow Object Detection API computes of the results, with the pycocotools that is there now."""
    path, results = files
    with oracles.old_numpy():
        tools = oracles.load_again("object_detection.metrics", "coco_tools")
    dataset = json.loads(path.read_text())
    ground = tools.COCOWrapper(dataset)
    boxes = [{key: value for key, value in row.items() if key != "segmentation"} for row in results]
    evaluator = tools.COCOEvalWrapper(ground, ground.LoadAnnotations(boxes), agnostic_mode=False)
    return evaluator.ComputeMetrics(include_metrics_per_category=False, all_metrics_per_category=False)


@pytest.mark.filterwarnings("ignore")
def test_tensorflows_detection_api_has_its_numbers_over_the_patch(files: Any) -> None:
    """Its own wrappers of COCO and COCOeval."""
    outcomes = []
    for context in KINDS:
        with context(), contextlib.redirect_stdout(io.StringIO()):
            outcomes.append(tensorflow_numbers(files))
    assert 0 < outcomes[0][0]["Precision/mAP"] < 1
    check_equal(outcomes[1], outcomes[0])


def test_every_client_is_on_the_page() -> None:
    """And the two that are installed."""
    text = (ROOT / "docs" / "frameworks" / "others.md").read_text()
    for name in (*CLIENTS, "mmdetection", "TensorFlow Object Detection API"):
        assert f"## {name}\n" in text, name
