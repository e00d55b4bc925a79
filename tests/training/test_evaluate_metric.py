"""The metric of Hugging Face's Evaluate: its interface, boxscore's numbers, and nothing to download."""

import importlib
from pathlib import Path
from typing import Any

import evaluate
import numpy as np
import pytest
import torch

import boxscore
from boxscore import InputError
from tests.support.image_dicts import dicts
from tests.support.mask_scenes import columns_of, random_masks
from tests.support.scenes import Scene, random_scene

EvaluateMetric = importlib.import_module("boxscore.huggingface").EvaluateMetric

PRED = {"boxes": [[0, 0, 10, 9]], "scores": [0.9], "labels": [1]}
TARGET = {"boxes": [[0, 0, 10, 10]], "labels": [1]}


@pytest.fixture
def scene() -> Scene:
    """Crowds, areas, ties, images without truths."""
    return random_scene(3)


def make_metric(folder: Path, *values: Any, **settings: Any) -> Any:
    """A metric that writes nowhere else."""
    return EvaluateMetric(*values, cache_dir=str(folder), **settings)


@pytest.mark.parametrize("keep_in_memory", [False, True])
@pytest.mark.parametrize("wrap", [np.asarray, torch.from_numpy, lambda column: column.tolist()])
def test_the_numbers_are_those_of_pycocotools(scene: Scene, wrap: Any, keep_in_memory: bool, tmp_path: Path) -> None:
    """And of `boxscore.evaluate`; one image, a batch, the rest with `compute`. A second evaluation starts anew."""
    preds, targets = dicts(scene, wrap)
    metric = make_metric(tmp_path, box_format="xywh", keep_in_memory=keep_in_memory)
    expected = boxscore.evaluate(scene.detections, scene.truths)
    for _ in range(2):
        metric.add(prediction=preds[0], reference=targets[0])
        metric.add_batch(predictions=preds[1:5], references=targets[1:5])
        numbers = metric.compute(predictions=preds[5:], references=targets[5:])
        assert numbers == expected.log_dict(per_class=False, undefined=-1.0)
        assert list(numbers.values()) == scene.pycocotools().stats.tolist()


def test_masks_are_pixels_or_run_lengths(tmp_path: Path) -> None:
    """Both give the numbers of columns."""
    dataset, results = random_masks(1)
    sizes = {image["id"]: (image["height"], image["width"]) for image in dataset["images"]}
    expected = boxscore.evaluate(*columns_of(dataset, results), boxscore.Protocol.named("coco", iou_type="segm"))
    for is_pixels in (False, True):
        preds, targets = [], []
        for image, size in sizes.items():
            found = [row for row in results if row["image_id"] == image]
            there = [row for row in dataset["annotations"] if row["image_id"] == image]
            masks = boxscore.data.Masks.from_rle([row["segmentation"] for row in there], [size] * len(there))
            stack = np.array([masks.pixels(row) for row in range(len(there))], bool).reshape(-1, *size)
            preds.append(
                {
                    "masks": [row["segmentation"] for row in found],
                    "scores": np.array([row["score"] for row in found]),
                    "labels": np.array([row["category_id"] for row in found], int),
                }
            )
            targets.append(
                {
                    "masks": stack if is_pixels else masks.rle(),
                    "labels": np.array([row["category_id"] for row in there], int),
                    "area": np.array([row["area"] for row in there], float),
                    "iscrowd": np.array([row["iscrowd"] for row in there], bool),
                }
            )
        metric = make_metric(tmp_path, iou_type="segm", warn=False)
        numbers = metric.compute(predictions=preds, references=targets)
        assert numbers == expected.log_dict(per_class=False, undefined=-1.0)


def test_it_is_a_module_of_evaluate(tmp_path: Path) -> None:
    """With a description, the types of its inputs, and a name of its own for each kind of shape."""
    metric = make_metric(tmp_path)
    assert isinstance(metric, evaluate.EvaluationModule)
    assert metric.module_type == "metric"
    assert (metric.name, metric.config_name) == ("boxscore", "bbox")
    assert list(metric.features) == ["predictions", "references"]
    assert list(metric.features["references"]) == ["boxes", "labels", "ignore", "iscrowd", "difficult", "area"]
    assert list(make_metric(tmp_path, iou_type="segm").features["predictions"]) == ["masks", "scores", "labels"]
    assert "`iscrowd`" in metric.inputs_description
    assert "`iscrowd`" in metric.add_batch.__doc__
    assert "pycocotools" in metric.info.description


def test_it_combines_with_other_modules(tmp_path: Path) -> None:
    """`evaluate.combine` hands every input to all, and tells their numbers apart."""
    both = evaluate.combine([make_metric(tmp_path / "a"), make_metric(tmp_path / "b", "voc2012")])
    for is_batch in (False, True):
        if is_batch:
            both.add_batch(predictions=[PRED], references=[TARGET])
        else:
            both.add(prediction=PRED, reference=TARGET)
        numbers = both.compute()
        assert (numbers["boxscore_0_map"], numbers["boxscore_1_map"]) == (pytest.approx(0.9), 1)


def test_classes_have_their_own_numbers(tmp_path: Path) -> None:
    """Under their names."""
    metric = make_metric(tmp_path, class_names={1: "cat", 2: "dog"}, per_class=True)
    numbers = metric.compute(predictions=[PRED], references=[TARGET])
    assert (numbers["ap/cat"], numbers["ap/dog"]) == (pytest.approx(0.9), -1)


def test_some_images_may_lack_flags(tmp_path: Path) -> None:
    """Those that have none are regular; the crowd alone would leave nothing to find."""
    metric = make_metric(tmp_path)
    metric.add(prediction=PRED, reference=TARGET | {"iscrowd": [True]})
    metric.add(prediction={"boxes": [], "scores": [], "labels": []}, reference=TARGET)
    assert metric.compute()["map"] == 0


def test_batches_may_differ_in_what_is_optional(tmp_path: Path) -> None:
    """An image without areas has those of its boxes: of two large truths one is found, 51 of 101 recall points."""
    metric = make_metric(tmp_path)
    large = {"boxes": [[0, 0, 200, 100]], "labels": [1]}
    metric.add(prediction={"boxes": [], "scores": [], "labels": []}, reference=TARGET | {"area": [1e4]})
    metric.add(prediction=large | {"scores": [0.8]}, reference=large)
    assert metric.compute()["map_large"] == pytest.approx(51 / 101)


@pytest.mark.parametrize(
    ("prediction", "reference", "text"),
    [
        (7, TARGET, r"predictions\[0\] must be a dict with .*; got int"),
        (PRED, {"boxes": [[0, 0, 1, 1]]}, r"references\[0\] must have the key 'labels'"),
        (
            PRED,
            TARGET | {"is_crowd": [1]},
            r"references\[0\] must not have the key 'is_crowd', .*rename it to 'iscrowd'",
        ),
        (PRED, TARGET | {"labels": [3]}, r"`references`: .*3"),
        (PRED | {"scores": [np.nan]}, TARGET, r"predictions\[0\]: `scores` row 0 .*"),
    ],
)
def test_invalid_inputs_are_refused_as_they_are_added(
    prediction: Any, reference: Any, text: str, tmp_path: Path
) -> None:
    """A batch of which one image is invalid is not added; what was added before stays."""
    metric = make_metric(tmp_path, class_names={1: "cat"})
    metric.add(prediction=PRED, reference=TARGET)
    for preds, targets in (([prediction], [reference]), ([prediction, PRED], [reference, TARGET])):
        with pytest.raises(InputError, match=text):
            metric.add_batch(predictions=preds, references=targets)
    assert metric.compute()["map"] == pytest.approx(0.9)


@pytest.mark.filterwarnings("ignore:1 invalid prediction:UserWarning")
def test_predictions_that_can_not_be_are_dropped_if_asked(tmp_path: Path) -> None:
    """As if they had not been there."""
    metric = make_metric(tmp_path, invalid="drop")
    spoilt = {"boxes": [[0, 0, np.nan, 9], [0, 0, 10, 9]], "scores": [0.95, 0.9], "labels": [1, 1]}
    metric.add(prediction=spoilt, reference=TARGET)
    assert metric.compute()["map"] == pytest.approx(0.9)


def test_lists_of_different_length_are_refused(tmp_path: Path) -> None:
    """And what is no list."""
    metric = make_metric(tmp_path)
    with pytest.raises(InputError, match="`predictions` and `references` must have one entry per image; got 2 and 1"):
        metric.add_batch(predictions=[PRED, PRED], references=[TARGET])
    with pytest.raises(InputError, match="`references` must be a list of dicts, one per image; got dict"):
        metric.add_batch(predictions=[PRED], references=TARGET)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"box_format": "xyxyxyxy"}, "box_format"),
        ({"iou_type": "keypoints"}, "`iou_type` must be one of bbox, segm, boundary; got 'keypoints'"),
        ({"iou_type": ("bbox", "segm")}, r"`iou_type` must be one of bbox, segm, boundary; got \('bbox', 'segm'\)"),
        ({"per_class": 1}, "`per_class` must be True or False; got 1"),
    ],
)
def test_invalid_settings_are_named(settings: dict[str, Any], text: str, tmp_path: Path) -> None:
    """When the metric is made."""
    with pytest.raises(InputError, match=text):
        make_metric(tmp_path, **settings)
