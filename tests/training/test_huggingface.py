"""Transformers' `Trainer` reports what pycocotools computes from the original annotations, in one and two processes."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from copy import copy, deepcopy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from pycocotools import mask as rle

import boxscore
from boxscore import InputError
from boxscore.huggingface import DetectionMetrics, DetectionTrainer
from tests.support.huggingface_scenes import (
    DETECTORS,
    ID2LABEL,
    NUMBERS,
    SEGMENTERS,
    DetectionScene,
    MaskScene,
    arguments,
    coco_numbers,
    detection_scene,
    encoded,
    mask_scene,
)
from tests.support.processes import run_world
from tests.support.world_of_huggingface import BATCH_SIZE, BOXES, NUM_MASKED

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")

NAMES = ("padded by the processor", "padded as batches")
"""Detectors for what does not depend on how images are padded: one without pixel masks, one with them."""


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Models this small are slower on several, which wait for each other."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.fixture(scope="module")
def scenes() -> dict[str, DetectionScene]:
    """Twelve images for each detector."""
    return {name: detection_scene(name) for name in DETECTORS}


@pytest.fixture(scope="module")
def masked() -> MaskScene:
    """Six images with masks."""
    return mask_scene()


def make_trainer(
    scene: Any, folder: Path, batch_size: int = 4, kind: Any = DetectionTrainer, metrics: Any = None, **settings: Any
) -> Any:
    """A trainer that evaluates a scene."""
    given: dict[str, Any] = {} if isinstance(scene, DetectionScene) else {"iou_type": "segm"}
    return kind(
        scene.model,
        arguments(folder, batch_size, **settings),
        data_collator=scene.collate,
        eval_dataset=scene.dataset,
        compute_metrics=metrics or DetectionMetrics(scene.processor, id2label=ID2LABEL, **given),
    )


def numbers_of(logged: dict[str, float], prefix: str = "eval_") -> dict[str, float]:
    """Those that pycocotools has, too."""
    return {name: logged[f"{prefix}{name}"] for name in NUMBERS}


@pytest.mark.parametrize("name", DETECTORS)
def test_the_trainer_has_the_numbers_of_the_original_annotations(
    name: str, scenes: dict[str, DetectionScene], tmp_path: Path
) -> None:
    """However images are resized and padded; with an incomplete last batch, and again in a second evaluation."""
    expected = scenes[name].expected(5)
    assert 0 < expected["map"] < 1
    trainer = make_trainer(scenes[name], tmp_path, 5)
    for _ in range(2):
        assert numbers_of(trainer.evaluate()) == expected


@pytest.mark.parametrize("settings", [{"eval_do_concat_batches": False}, {"batch_eval_metrics": True}], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_a_plain_trainer_has_the_same_numbers(
    name: str, settings: dict[str, Any], scenes: dict[str, DetectionScene], tmp_path: Path
) -> None:
    """With complete batches, all at once or one by one; NumPy or PyTorch."""
    trainer = make_trainer(scenes[name], tmp_path, 4, transformers.Trainer, **settings)
    for _ in range(2):
        assert numbers_of(trainer.evaluate()) == scenes[name].expected(4)


@pytest.mark.parametrize("name", SEGMENTERS)
def test_masks_have_the_numbers_of_pycocotools(name: str, tmp_path: Path) -> None:
    """In both kinds of trainers."""
    scene = mask_scene(name)
    expected = scene.expected(3)
    assert 0 < expected["map"] < 1
    for kind in (DetectionTrainer, transformers.Trainer):
        logged = make_trainer(scene, tmp_path, 3, kind, batch_eval_metrics=True).evaluate()
        assert numbers_of(logged) == expected


def test_masks_of_an_incomplete_batch_count(masked: MaskScene, tmp_path: Path) -> None:
    """The last of four and two images; a plain trainer would have lost two of its truths."""
    assert numbers_of(make_trainer(masked, tmp_path, 4).evaluate()) == masked.expected(4)


def test_a_map_of_segments_becomes_masks() -> None:
    """DETR's processor has no maps per segment, but one of their ids."""
    rng = np.random.default_rng(0)
    processor = transformers.DetrImageProcessorPil()
    outputs = {
        "logits": torch.from_numpy(rng.normal(size=(2, 5, 4)).astype(np.float32)) * 3,
        "pred_boxes": torch.rand(2, 5, 4),
        "pred_masks": torch.from_numpy(rng.normal(size=(2, 5, 8, 8)).astype(np.float32)) * 4,
    }
    arguments = {"threshold": 0.0, "overlap_mask_area_threshold": 0.1}
    found = processor.post_process_instance_segmentation(
        SimpleNamespace(**outputs), target_sizes=[(24, 32)] * 2, **arguments
    )
    results, images, labels = [], [], []
    for image, each in enumerate(found):
        masks = [(each["segmentation"] == segment["id"]).numpy() for segment in each["segments_info"]]
        shifted = np.array([np.roll(mask, 1, axis=1) for mask in masks])
        classes = [segment["label_id"] for segment in each["segments_info"]]
        labels.append({"masks": torch.from_numpy(shifted), "class_labels": torch.tensor(classes), "image_id": image})
        rows = [
            {"segmentation": code, "category_id": label, "area": float(rle.area(code)), "iscrowd": 0}
            for code, label in zip(map(encoded, shifted), classes, strict=True)
        ]
        images.append({"image_id": image, "annotations": rows, "size": {"height": 24, "width": 32}})
        for mask, segment in zip(masks, each["segments_info"], strict=True):
            about = {"category_id": segment["label_id"], "score": segment["score"]}
            results.append({"image_id": image, "segmentation": encoded(mask), **about})
    metrics = DetectionMetrics(
        processor, iou_type="segm", id2label=ID2LABEL, post_process={"overlap_mask_area_threshold": 0.1}
    )
    metrics.update(outputs, labels)
    expected = coco_numbers(images, results, "segm")
    assert 0 < expected["map"] < 1
    assert metrics.compute() == expected


def test_accelerate_truncates_targets(scenes: dict[str, DetectionScene], tmp_path: Path) -> None:
    """Every tensor of a target of an incomplete last batch. If this fails, Accelerate has been repaired: rejoice."""
    scene, given = scenes[NAMES[0]], []

    def record(evaluation: Any) -> dict[str, float]:
        given.extend(evaluation.label_ids[-1])
        return {}

    make_trainer(scene, tmp_path, 5, transformers.Trainer, record, eval_do_concat_batches=False).evaluate()
    annotated = [len(each["annotations"]) for each in scene.annotations[-2:]]
    assert min(annotated) > 2
    assert [len(each["class_labels"]) for each in given] == [2, 2]


@pytest.mark.parametrize("settings", [{"eval_do_concat_batches": False}, {"batch_eval_metrics": True}], ids=str)
@pytest.mark.parametrize("batch_size", [5, 11])
def test_truncated_targets_are_an_error(
    batch_size: int, settings: dict[str, Any], scenes: dict[str, DetectionScene], tmp_path: Path
) -> None:
    """Two images are left, or one, of whose size nothing but the height is left."""
    trainer = make_trainer(scenes[NAMES[0]], tmp_path, batch_size, transformers.Trainer, **settings)
    left = "2 images" if batch_size == 5 else "1 image"
    text = rf"last batch, of {left}, may be incomplete: Accelerate's .* truncates .* to {left[0]}\. Use .*DetectionTr"
    with pytest.raises(InputError, match=text):
        trainer.evaluate()


def test_targets_that_can_not_be_truncated_are_no_error(masked: MaskScene, tmp_path: Path) -> None:
    """In an incomplete last batch, of more images than any of its targets has truths."""
    few = MaskScene(masked.model, masked.processor, [*masked.dataset[:5], *[masked.dataset[4]] * 3])
    assert [len(each["class_labels"]) for each in few.dataset[5:]] == [2, 2, 2]
    trainer = make_trainer(few, tmp_path, 5, transformers.Trainer, batch_eval_metrics=True)
    assert numbers_of(trainer.evaluate()) == few.expected(5)


def test_concatenated_batches_are_an_error(scenes: dict[str, DetectionScene], tmp_path: Path) -> None:
    """The default of a plain trainer, which concatenates the targets of different images."""
    trainer = make_trainer(scenes["not padded"], tmp_path, 4, transformers.Trainer)
    with pytest.raises(InputError, match=r"must not concatenate batches.*set eval_do_concat_batches=False or"):
        trainer.evaluate()


def test_an_evaluation_that_was_interrupted_leaves_nothing(scenes: dict[str, DetectionScene], tmp_path: Path) -> None:
    """Batch by batch, where the metrics see no first batch."""
    scene = scenes[NAMES[0]]
    metrics = DetectionMetrics(scene.processor, id2label=ID2LABEL)
    trainer = make_trainer(scene, tmp_path, 4, transformers.Trainer, metrics, batch_eval_metrics=True)

    class Stopped(transformers.TrainerCallback):  # type: ignore[misc]
        def on_prediction_step(self, *_: Any, **__: Any) -> None:
            if metrics.metric.tally.images.size:
                raise KeyboardInterrupt

    trainer.add_callback(Stopped)
    with pytest.raises(KeyboardInterrupt):
        trainer.evaluate()
    trainer.remove_callback(Stopped)
    assert numbers_of(trainer.evaluate()) == scene.expected(4)


def test_the_best_model_is_that_of_the_highest_map(tmp_path: Path) -> None:
    """`metric_for_best_model` knows the number, and the result has the classes."""
    scene = detection_scene(NAMES[0], 4)
    metrics = DetectionMetrics(scene.processor, id2label=ID2LABEL, per_class=True)
    trainer = DetectionTrainer(
        scene.model,
        arguments(
            tmp_path,
            num_train_epochs=2,
            learning_rate=1e-2,
            eval_strategy="epoch",
            save_strategy="epoch",
            metric_for_best_model="eval_map",
            load_best_model_at_end=True,
        ),
        data_collator=scene.collate,
        train_dataset=scene.dataset,
        eval_dataset=scene.dataset,
        compute_metrics=metrics,
    )
    trainer.train()
    logged = [each["eval_map"] for each in trainer.state.log_history if "eval_map" in each]
    assert len(logged) == 2
    assert trainer.state.best_metric == max(logged) == trainer.evaluate()["eval_map"]
    assert metrics.result is not None
    assert metrics.result.per_class.name == ("cat", "dog", "owl")
    last = [each for each in trainer.state.log_history if "eval_map" in each][-1]
    defined = {name: value for name, value in metrics.result.log_dict("eval_").items() if "/" in name}
    assert defined
    assert {name: last[name] for name in defined} == defined


def test_each_of_several_datasets_has_its_numbers(scenes: dict[str, DetectionScene], tmp_path: Path) -> None:
    """And so has a test set, whose predictions are not collected."""
    scene = scenes["not padded"]
    trainer, dataset = make_trainer(scene, tmp_path), scene.dataset
    logged = trainer.evaluate({"all": dataset, "few": dataset[:4]})
    few = replace(scene, images=scene.images[:4], annotations=scene.annotations[:4])
    assert numbers_of(logged, "eval_all_") == scene.expected(4)
    assert numbers_of(logged, "eval_few_") == few.expected(4) != scene.expected(4)
    predicted = trainer.predict(dataset)
    assert numbers_of(predicted.metrics, "test_") == scene.expected(4)
    assert predicted.predictions is None


def test_images_without_labels_have_predictions_and_no_numbers(
    scenes: dict[str, DetectionScene], tmp_path: Path
) -> None:
    """`predict` then returns what a plain trainer does."""
    scene = scenes[NAMES[0]]

    class Unlabelled(DetectionTrainer):
        def get_test_dataloader(self, dataset: Any) -> Any:
            loader = super().get_test_dataloader(dataset)
            return [{"pixel_values": batch["pixel_values"]} for batch in loader]

    predicted = make_trainer(scene, tmp_path, 4, Unlabelled).predict(scene.dataset)
    assert predicted.predictions[0].shape[0] == 12
    assert [name for name in predicted.metrics if "map" in name] == []


def test_the_loss_alone_has_no_numbers(scenes: dict[str, DetectionScene], tmp_path: Path) -> None:
    """`prediction_loss_only` is what a plain trainer does with it."""
    logged = make_trainer(scenes["not padded"], tmp_path, prediction_loss_only=True).evaluate()
    assert logged["eval_loss"] > 0
    assert "eval_map" not in logged


def test_a_loop_of_your_own_has_the_same_numbers(scenes: dict[str, DetectionScene]) -> None:
    """With outputs by name or in a tuple; images that come again are left out if they should be."""
    scene = scenes["padded, with pixel masks"]
    metrics = DetectionMetrics(scene.processor, id2label=ID2LABEL, unique_images=True)
    dataset = scene.dataset
    for is_tuple in (False, True):
        metrics.reset()
        for first in (0, 4, 8, 4):
            batch = scene.collate(dataset[first : first + 4])
            with torch.no_grad():
                outputs = scene.model(**batch, return_dict=not is_tuple)
            metrics.update(outputs, batch["labels"], pixel_mask=batch["pixel_mask"])
        assert metrics.compute() == scene.expected(4)


def test_another_function_is_called_as_by_any_trainer(scenes: dict[str, DetectionScene], tmp_path: Path) -> None:
    """With all outputs."""
    trainer = make_trainer(
        scenes["not padded"],
        tmp_path,
        metrics=lambda evaluation: {"num_batches": len(evaluation.predictions)},
        eval_do_concat_batches=False,
    )
    assert trainer.evaluate()["eval_num_batches"] == 3


def test_half_precision_is_computed_in_single(scenes: dict[str, DetectionScene], tmp_path: Path) -> None:
    """The outputs are those of the model; nothing after them is rounded again."""
    scene = scenes[NAMES[0]]
    metrics = DetectionMetrics(scene.processor, id2label=ID2LABEL)
    samples = scene.dataset
    labels = [sample["labels"] for sample in samples]
    with torch.no_grad():
        outputs = scene.model(pixel_values=torch.stack([sample["pixel_values"] for sample in samples]))
    rounded = {key: outputs[key].bfloat16() for key in ("logits", "pred_boxes")}
    computed = []
    for each in (rounded, {key: value.float() for key, value in rounded.items()}):
        metrics.update(each, labels)
        computed.append(metrics.compute())
        metrics.reset()
    assert computed[0] == computed[1]
    assert 0 < computed[0]["map"] < 1


def test_a_number_without_truths_is_minus_one(scenes: dict[str, DetectionScene], tmp_path: Path) -> None:
    """As torchmetrics has it, so that callbacks get a number."""
    scene = scenes["not padded"]
    nothing = [{**each, "annotations": []} for each in scene.annotations]
    trainer = make_trainer(replace(scene, annotations=nothing), tmp_path)
    assert set(numbers_of(trainer.evaluate()).values()) == {-1.0}


def test_a_function_may_do_the_post_processing(scenes: dict[str, DetectionScene], tmp_path: Path) -> None:
    """With the arguments that a processor gets; it has no settings, so that pixel masks say what is padding."""
    scene = scenes["padded, with pixel masks"]

    def post_process(outputs: Any, threshold: float, target_sizes: Any) -> Any:
        return scene.processor.post_process_object_detection(outputs, threshold, target_sizes)

    trainer = make_trainer(scene, tmp_path, metrics=DetectionMetrics(post_process, id2label=ID2LABEL))
    assert numbers_of(trainer.evaluate()) == scene.expected(4)


def test_without_areas_that_of_the_box_counts(scenes: dict[str, DetectionScene], tmp_path: Path) -> None:
    """As in any batch of dicts. Labels without `size` have areas of an unknown size, which don't count either."""
    scene = scenes["not padded"]
    boxes = [
        {
            **image,
            "annotations": [each | {"area": each["bbox"][2] * each["bbox"][3]} for each in image["annotations"]],
        }
        for image in scene.annotations
    ]
    expected = coco_numbers(boxes, scene.found(4), "bbox")
    for missing in ("area", "size"):
        trainer = make_trainer(scene, tmp_path)
        trainer.eval_dataset = [
            sample | {"labels": {key: value for key, value in sample["labels"].items() if key != missing}}
            for sample in scene.dataset
        ]
        assert numbers_of(trainer.evaluate()) == expected


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"processor": 7}, "`processor` must have the method `post_process_object_detection`, or be a func.*got int"),
        ({"iou_type": "keypoints"}, "`iou_type` must be one of bbox, segm, boundary; got 'keypoints'"),
        ({"iou_type": ("bbox", "segm")}, r"`iou_type` must be one of bbox, segm, boundary; got \('bbox', 'segm'\)"),
        ({"threshold": 2}, "`threshold` must be a number from 0 to 1; got 2"),
        ({"per_class": "yes"}, "`per_class` must be True or False; got 'yes'"),
        ({"protocol": "cocoa"}, "cocoa"),
    ],
)
def test_invalid_settings_are_named(settings: dict[str, Any], text: str) -> None:
    """Before any training starts."""
    with pytest.raises(InputError, match=text):
        DetectionMetrics(**{"processor": transformers.DetrImageProcessorPil(), **settings})


LABEL = {"boxes": torch.ones(1, 4) / 2, "class_labels": torch.tensor([0]), "orig_size": torch.tensor([9, 9])}
OUTPUTS = {"logits": torch.zeros(1, 2, 4), "pred_boxes": torch.ones(1, 2, 4) / 2}


@pytest.mark.parametrize(
    ("outputs", "labels", "text"),
    [
        (7, [LABEL], "`outputs` must be the outputs of a model, or a tuple of them; got int"),
        (OUTPUTS, LABEL, "`labels` must be a list of dicts, one per image; got dict"),
        (OUTPUTS, [7], r"labels\[0\] must be a dict; got int"),
        (OUTPUTS, [{"boxes": 0}], r"labels\[0\] must have the key 'class_labels'; got \['boxes'\]"),
        (OUTPUTS, [LABEL] * 2, "`outputs` and `labels` must have as many images; got 1 and 2"),
        (OUTPUTS, [LABEL | {"orig_size": torch.tensor([9])}], r"`orig_size` .* a height and a width; got \[9\]"),
        ((OUTPUTS["logits"],), [LABEL], r"must have logits and pred_boxes, .*; got {'logits': \(1, 2, 4\)}"),
        (OUTPUTS, [LABEL | {"class_labels": torch.tensor([9])}], "9"),
    ],
)
def test_invalid_batches_are_named(outputs: Any, labels: Any, text: str) -> None:
    """And nothing of them counts."""
    metrics = DetectionMetrics(transformers.DetrImageProcessorPil(), id2label=ID2LABEL)
    with pytest.raises(InputError, match=text):
        metrics.update(outputs, labels)
    assert len(metrics.metric.tally.images) == 0


def test_an_image_that_comes_twice_is_an_error() -> None:
    """One that has an id: else a dataset in which all images have the id 0 would have one image."""
    metrics = DetectionMetrics(transformers.DetrImageProcessorPil(), id2label=ID2LABEL)
    label = LABEL | {"image_id": torch.tensor([0])}
    metrics.update(OUTPUTS, [label])
    with pytest.raises(InputError, match="image 0 was in an update before"):
        metrics.update(OUTPUTS, [label])


def test_predictions_that_can_not_be_end_no_training() -> None:
    """They are dropped, with a warning, unless they shall be errors."""
    metrics = DetectionMetrics(transformers.DetrImageProcessorPil(), id2label=ID2LABEL)
    spoilt = OUTPUTS | {"pred_boxes": OUTPUTS["pred_boxes"] * torch.tensor([1.0, torch.nan])[:, None]}
    with pytest.warns(UserWarning, match="1 invalid prediction of a batch was dropped"):
        metrics.update(spoilt, [LABEL])
    metrics.compute()
    assert metrics.result is not None
    assert metrics.result.num_invalid == 1
    strict = DetectionMetrics(transformers.DetrImageProcessorPil(), id2label=ID2LABEL, invalid="error")
    with pytest.raises(InputError, match=r"preds\[0\]: `boxes` row 1 must have 4 finite numbers"):
        strict.update(spoilt, [LABEL])


@pytest.mark.parametrize("copied", [copy, deepcopy])
def test_a_copy_goes_on_by_itself(copied: Callable[[Any], Any]) -> None:
    """What it sees does not count in the original."""
    metrics = DetectionMetrics(transformers.DetrImageProcessorPil(), id2label=ID2LABEL)
    metrics.update(OUTPUTS, [LABEL])
    copied(metrics).update(OUTPUTS, [LABEL])
    assert len(metrics.metric.tally.images) == 1


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What two processes found in each case."""
    found = run_world("tests.support.world_of_huggingface", 2, tmp_path_factory.mktemp("world"))
    assert all(each is not None for each in found)
    return found


@pytest.mark.parametrize("case", ["boxes", "without ids", "stream"])
def test_two_processes_have_the_numbers_of_one(case: str, world: list[dict[str, Any]]) -> None:
    """Though Accelerate repeats images, so that both have as many batches; with ids, and without them."""
    name, num_images = BOXES
    expected = detection_scene(name, num_images).expected(BATCH_SIZE)
    assert 0 < expected["map"] < 1
    assert [rank[case] for rank in world] == [expected, expected]


def test_masks_of_two_processes_have_the_numbers_of_one(world: list[dict[str, Any]]) -> None:
    """They have no ids at all."""
    expected = mask_scene(num_images=NUM_MASKED).expected(BATCH_SIZE)
    assert [rank["masks"] for rank in world] == [expected, expected]


def test_a_stream_in_two_processes_needs_ids(world: list[dict[str, Any]]) -> None:
    """Nobody knows which of the last images are repeated."""
    assert all("labels must have `image_id`" in rank["stream without ids"] for rank in world)


@pytest.mark.parametrize(
    ("missing", "name", "extra"),
    [("torch", "DetectionMetrics", "huggingface"), ("datasets", "EvaluateMetric", "evaluate")],
)
def test_a_missing_package_is_named_with_the_extra_that_has_it(missing: str, name: str, extra: str) -> None:
    """When the name is first used."""
    code = f"import sys; sys.modules[{missing!r}] = None; import boxscore.huggingface as h; h.{name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    needs = f"boxscore.huggingface.{name} needs it: pip install 'boxscore[{extra}]'"
    assert done.stderr.endswith(f"ModuleNotFoundError: No module named '{missing}'; {needs}\n")


def test_the_module_has_the_names_that_it_lists() -> None:
    """And says so of one that it has not."""
    assert set(boxscore.huggingface.__all__) <= set(dir(boxscore.huggingface))
    with pytest.raises(AttributeError, match=r"module 'boxscore\.huggingface' has no attribute 'load'"):
        boxscore.huggingface.load  # noqa: B018
