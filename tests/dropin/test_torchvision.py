"""`boxscore.torchvision.CocoEvaluator` gives the bits of the evaluator of torchvision's references and DETR."""

import contextlib
import copy
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faster_coco_eval
import numpy as np
import pytest
import torch

from boxscore import InputError
from boxscore.torchvision import CocoEvaluator
from tests.support.dropin import OURS, Tool, check_equal
from tests.support.evaluators import (
    Dict,
    ReferenceEvaluator,
    evaluated,
    in_batches,
    parts_of,
    predictions_of,
    results_of,
    scene_of,
    truths_of,
)
from tests.support.processes import run_world
from tests.support.shared import shared_data

KINDS = ("bbox", "segm", "keypoints")


def check_same(
    dataset: Dict, batches: list[Any], kinds: Any, *, use_cats: bool = True, truths: Any = None, **params: Any
) -> Any:
    """Both evaluators, over the same batches: numbers, arrays, entries and printed lines. Gives ours."""
    evaluators: list[Any] = [ReferenceEvaluator(truths_of(dataset), kinds, use_cats)]
    evaluators.append(CocoEvaluator(truths_of(dataset) if truths is None else truths, kinds, use_cats))
    for evaluator in evaluators:
        for evaluation in evaluator.coco_eval.values():
            for name, value in params.items():
                setattr(evaluation.params, name, copy.deepcopy(value))
    (expected, expected_text), (found, text) = (evaluated(evaluator, batches) for evaluator in evaluators)
    without_seconds = [re.sub(r"t=\d+\.\d\ds", "", each) for each in (text, expected_text)]
    assert without_seconds[0] == without_seconds[1]
    for kind in kinds:
        check_equal(parts_of(found.coco_eval[kind]), parts_of(expected.coco_eval[kind]), kind)
        check_equal(found.coco_eval[kind].evalImgs, expected.coco_eval[kind].evalImgs, kind)
        assert found.coco_eval[kind].params.imgIds == expected.coco_eval[kind].params.imgIds
    return found


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_batches_give_the_bits_of_the_reference(kind: str, seed: int, size: int) -> None:
    """Numbers, curves, `evalImgs` and printed lines, however the images are batched."""
    dataset, results = scene_of(kind, seed)
    check_same(dataset, list(in_batches(predictions_of(dataset, results, kind), size)), [kind])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(("kind", "key"), [("bbox", "boxes"), ("bbox", "scores"), ("keypoints", "keypoints")])
def test_values_that_are_not_finite_give_the_bits_of_the_reference(kind: str, key: str, value: float) -> None:
    """Nothing is dropped here, as the reference drops nothing."""
    dataset, results = scene_of(kind, 4)
    predictions = predictions_of(dataset, results, kind)
    for prediction in [each for each in predictions.values() if len(each.get(key, ()))][:2]:
        prediction[key].reshape(-1)[0] = value
    check_same(dataset, list(in_batches(predictions, 3)), [kind])


def test_several_kinds_are_evaluated_side_by_side() -> None:
    """Boxes and masks of the same predictions."""
    dataset, results = scene_of("segm", 3)
    found = check_same(dataset, list(in_batches(predictions_of(dataset, results, "segm"), 4)), ("bbox", "segm"))
    assert found.iou_types == ("bbox", "segm")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_widths_are_computed_in_the_precision_of_the_corners(dtype: Any) -> None:
    """As the reference does, which subtracts tensors."""
    dataset, results = scene_of("bbox", 5)
    check_same(dataset, list(in_batches(predictions_of(dataset, results, "bbox", dtype), 4)), ["bbox"])


def test_classes_may_be_pooled() -> None:
    """`useCats` of DETR's descendants."""
    dataset, results = scene_of("bbox", 6)
    batches = list(in_batches(predictions_of(dataset, results, "bbox"), 4))
    found = check_same(dataset, batches, ["bbox"], use_cats=False)
    expected = found.coco_eval["bbox"].stats
    again, _ = evaluated(found, batches[:1])
    check_equal(again.coco_eval["bbox"].stats, expected)
    check_same(dataset, batches, ["bbox"], maxDets=[1, 2, 100], iouThrs=np.linspace(0.3, 0.9, 4))


def test_the_first_of_two_copies_of_an_image_counts() -> None:
    """In the process that repeats it."""
    dataset, results = scene_of("bbox", 7)
    predictions = predictions_of(dataset, results, "bbox")
    other: dict[int, Dict] = {image: {} for image in [*predictions][:4]}
    check_same(dataset, [*in_batches(predictions, 4), other], ["bbox"])
    check_same(dataset, [other, *in_batches(predictions, 4)], ["bbox"])


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_goes_on_by_itself(copied: Callable[[Any], Any]) -> None:
    """Its updates and its numbers are no part of the original."""
    dataset, results = scene_of("bbox", 8)
    first, *others = in_batches(predictions_of(dataset, results, "bbox"), 3)
    evaluator = CocoEvaluator(truths_of(dataset), ["bbox"])
    evaluator.update(first)
    other = copied(evaluator)
    evaluated(other, others)
    assert evaluator.img_ids == sorted(first)
    found, _ = evaluated(evaluator, [])
    expected, _ = evaluated(CocoEvaluator(truths_of(dataset), ["bbox"]), [first])
    check_equal(parts_of(found.coco_eval["bbox"]), parts_of(expected.coco_eval["bbox"]), "bbox")
    assert found.coco_eval["bbox"].params.imgIds == expected.coco_eval["bbox"].params.imgIds
    assert len(other.coco_eval["bbox"].params.imgIds) > len(first)


def test_only_the_images_that_were_seen_are_evaluated() -> None:
    """Truths of others are not missed."""
    dataset, results = scene_of("bbox", 8)
    batches = list(in_batches(predictions_of(dataset, results, "bbox"), 3))[:2]
    found = check_same(dataset, batches, ["bbox"])
    assert found.img_ids == [8, 9, 10, 5, 6, 7]
    assert found.coco_eval["bbox"].params.imgIds == [5, 6, 7, 8, 9, 10]


def test_no_predictions_at_all_is_an_evaluation() -> None:
    """Of truths that nobody found."""
    dataset, _ = scene_of("bbox", 9)
    images = [image["id"] for image in dataset["images"]]
    found = check_same(dataset, [{image: {} for image in images}], ["bbox"])
    assert found.coco_eval["bbox"].stats[0] == 0
    nothing = {"boxes": torch.zeros(0, 4), "scores": torch.zeros(0), "labels": torch.zeros(0, dtype=torch.int64)}
    check_same(dataset, [dict.fromkeys(images, nothing)], ["bbox"])


def test_labels_that_are_no_category_are_left_out() -> None:
    """As pycocotools leaves them out."""
    dataset, results = scene_of("bbox", 10)
    for row in results[::3]:
        row["category_id"] = 77
    check_same(dataset, list(in_batches(predictions_of(dataset, results, "bbox"), 3)), ["bbox"])


@pytest.mark.parametrize("broken", ["annotation 0", "nan"])
def test_what_only_pycocotools_takes_is_taken_alike(broken: str) -> None:
    """An annotation with the id 0 is never matched; a score that is no number ranks last."""
    dataset, results = scene_of("bbox", 11)
    if broken == "annotation 0":
        for row in dataset["annotations"]:
            row["id"] -= 1
    else:
        results[3]["score"] = float("nan")
    check_same(dataset, list(in_batches(predictions_of(dataset, results, "bbox"), 4)), ["bbox"])


@pytest.mark.parametrize("kind", KINDS)
def test_any_dataset_class_serves(kind: str, tmp_path: Path) -> None:
    """That of boxscore, from dicts and from a file, and that of faster_coco_eval."""
    dataset, results = scene_of(kind, 12)
    dataset["images"] += [{**dataset["images"][0], "id": 1000 + number} for number in range(40)]
    batches = list(in_batches(predictions_of(dataset, results, kind), 4))
    file = tmp_path / "truths.json"
    file.write_text(json.dumps(dataset))
    with contextlib.redirect_stdout(io.StringIO()):
        lazy = OURS.COCO(str(file))
    faster = truths_of(dataset, Tool(COCO=faster_coco_eval.COCO, COCOeval=None))
    for truths in (truths_of(dataset, OURS), lazy, faster):
        check_same(dataset, batches, [kind], truths=truths)


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_prepared_as_the_reference_does(kind: str) -> None:
    """The dicts that clients write to files."""
    dataset, results = scene_of(kind, 13)
    predictions = predictions_of(dataset, results, kind)
    evaluator = CocoEvaluator(truths_of(dataset), [kind])
    expected = results_of(predictions, kind)
    assert expected
    assert evaluator.prepare(predictions, kind) == expected
    assert evaluator.prepare({7: {}}, kind) == []


class Shifted(CocoEvaluator):
    """A client whose labels are one lower than the ids of categories."""

    def prepare_for_coco_detection(self, predictions: Any) -> list[Dict]:
        results = super().prepare_for_coco_detection(predictions)
        return [{**row, "category_id": row["category_id"] + 1} for row in results]


def test_a_subclass_may_prepare_its_own_results() -> None:
    """What it returns is evaluated."""
    dataset, results = scene_of("bbox", 14)
    predictions = predictions_of(dataset, results, "bbox")
    for category in dataset["categories"] + dataset["annotations"]:
        category["id" if "name" in category else "category_id"] += 1
    shifted = {image: {**each, "labels": each["labels"] + 1} if each else {} for image, each in predictions.items()}
    expected, _ = evaluated(CocoEvaluator(truths_of(dataset), ["bbox"]), in_batches(shifted, 4))
    found, _ = evaluated(Shifted(truths_of(dataset), ["bbox"]), in_batches(predictions, 4))
    check_equal(parts_of(found.coco_eval["bbox"]), parts_of(expected.coco_eval["bbox"]))
    assert 0 < found.coco_eval["bbox"].stats[0] < 1


def test_entries_of_each_update_are_there_when_read() -> None:
    """`eval_imgs`, by class, area range and image."""
    dataset, results = scene_of("bbox", 15)
    batches = list(in_batches(predictions_of(dataset, results, "bbox"), 4))
    reference, evaluator = ReferenceEvaluator(truths_of(dataset), ["bbox"]), CocoEvaluator(truths_of(dataset), ["bbox"])
    for batch in batches:
        reference.update(batch)
        evaluator.update(batch)
    for found, expected in zip(evaluator.eval_imgs["bbox"], reference.entries["bbox"], strict=True):
        check_equal(found.tolist(), expected.tolist())


def test_the_coco_api_example_gives_the_bits_of_the_reference() -> None:
    """Boxes and masks of 20 images of COCO val2014."""
    dataset = json.loads(shared_data("val2014_100/instances_val2014_100.json").read_text())
    dataset["images"] = dataset["images"][:20]
    for kind in ("bbox", "segm"):
        results = json.loads(shared_data(f"val2014_100/instances_val2014_fake{kind}100_results.json").read_text())
        found = check_same(dataset, list(in_batches(predictions_of(dataset, results, kind), 7)), [kind])
        assert 0.2 < found.coco_eval[kind].stats[0] < 0.8


def test_real_poses_give_the_bits_of_the_reference() -> None:
    """200 people of COCO, by Lite-HRNet."""
    dataset = json.loads(shared_data("keypoints/person_keypoints_1000.json").read_text())
    results = json.loads(shared_data("keypoints/litehrnet_18_256.json").read_text())
    images = {image["id"] for image in dataset["images"][:200]}
    dataset["images"] = dataset["images"][:200]
    results = [row for row in results if row["image_id"] in images]
    found = check_same(dataset, list(in_batches(predictions_of(dataset, results, "keypoints"), 16)), ["keypoints"])
    assert 0.7 < found.coco_eval["keypoints"].stats[0] < 0.9


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> list[Dict]:
    """What two processes found, by both evaluators."""
    return run_world("tests.support.world_of_evaluators", 2, tmp_path_factory.mktemp("world"))


@pytest.mark.parametrize("case", [*KINDS, "padded", "different copies", "annotation 0", "one empty"])
def test_two_processes_give_the_bits_of_the_reference(world: list[Dict], case: str) -> None:
    """On both ranks, with uneven numbers of images, and with images that both have."""
    for rank in world:
        found, expected = rank[case]
        check_equal(found, expected, case)
    check_equal(world[0][case], world[1][case], case)


ONE = {"boxes": torch.tensor([[0.0, 0, 9, 9]]), "scores": torch.tensor([0.5]), "labels": torch.tensor([1])}


@pytest.mark.parametrize(
    ("prediction", "message"),
    [
        ({"boxes": ONE["boxes"]}, "image 0: the prediction must have `labels`; got boxes"),
        ([1], "image 0: a prediction must be a dict; got list"),
        ({**ONE, "boxes": torch.zeros(1, 5)}, r"image 0: `boxes` must have shape (N, 4); got (1, 5)"),
        (
            {**ONE, "scores": torch.zeros(2)},
            "must have one score and one label each; got 1 boxes, 2 scores and 1 labels",
        ),
        ({**ONE, "scores": torch.zeros(1, 1)}, "image 0: `scores` must be numbers of shape (N,); got float32 (1, 1)"),
        ({**ONE, "labels": torch.tensor([0.5])}, "image 0: `labels` must be the ids of categories, whole numbers"),
    ],
)
def test_a_bad_prediction_is_named_and_nothing_is_counted(prediction: Any, message: str) -> None:
    """The whole batch is left out."""
    dataset, _ = scene_of("bbox", 16)
    evaluator = CocoEvaluator(truths_of(dataset), ["bbox"])
    with pytest.raises(InputError, match=re.escape(message)):
        evaluator.update({1: ONE, 0: prediction})
    assert evaluator.img_ids == []
    assert evaluator.eval_imgs == {"bbox": []}


@pytest.mark.parametrize(
    ("kind", "shapes", "message"),
    [
        (
            "segm",
            {"masks": torch.zeros(1, 8, 8)},
            "image 0: `masks` must be an array of shape (N, 1, H, W); got (1, 8, 8)",
        ),
        (
            "keypoints",
            {"keypoints": torch.zeros(1, 17, 2)},
            "image 0: `keypoints` must have shape (N, K, 3); got (1, 17, 2)",
        ),
    ],
)
def test_bad_shapes_are_named(kind: str, shapes: Dict, message: str) -> None:
    """With what they must be."""
    evaluator = CocoEvaluator(truths_of(scene_of(kind, 16)[0]), [kind])
    with pytest.raises(InputError, match=re.escape(message)):
        evaluator.update({0: {**ONE, **shapes}})


def test_bad_arguments_are_named() -> None:
    """An unknown similarity, an unknown image, and an evaluator that has seen nothing."""
    truths = truths_of(scene_of("bbox", 16)[0])
    with pytest.raises(InputError, match="`iou_types` must be a list of 'bbox', 'segm', 'keypoints'; got 'bbox'"):
        CocoEvaluator(truths, "bbox")
    with pytest.raises(InputError, match="`useCats` must be True for keypoints"):
        CocoEvaluator(truths, ["keypoints"], False)
    evaluator = CocoEvaluator(truths, ["bbox"])
    with pytest.raises(InputError, match="must be of images in `coco_gt`; got image 999"):
        evaluator.update({999: ONE})
    with pytest.raises(InputError, match="call update\\(\\) first"):
        evaluator.accumulate()
    with pytest.raises(InputError, match="`iou_type` must be one of 'bbox', 'segm', 'keypoints'; got 'obb'"):
        evaluator.prepare({}, "obb")


def test_parameters_may_not_change_between_updates() -> None:
    """Entries of different rules can't be accumulated together."""
    evaluator = CocoEvaluator(truths_of(scene_of("bbox", 16)[0]), ["bbox"])
    evaluator.update({0: ONE})
    evaluator.coco_eval["bbox"].params.maxDets = [1, 10, 500]
    evaluator.update({1: ONE})
    with pytest.raises(InputError, match="`params` must be the same for all updates"):
        evaluator.accumulate()
