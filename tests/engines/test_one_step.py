"""Matching and finishing in one compiled step, the counting of what is no hit, and tensors of every kind in batches."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, MeanAveragePrecision, Protocol, Truths
from boxscore.engines.native import compiled_engine as native
from tests.support.comparisons import TALLY, assert_same
from tests.support.scenes import random_scene

pytestmark = pytest.mark.native

PROTOCOLS = [
    Protocol.named("coco"),
    Protocol.named("coco", limits=(2, 5)),
    Protocol.named("coco", average="weighted"),
    Protocol.named("coco", average="micro"),
    Protocol.named("coco", limits_per="image"),
    Protocol.named("coco", class_agnostic=True),
    Protocol.named("voc2007"),
    Protocol.named("voc2012"),
    Protocol.named("paper"),
]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.title)
@pytest.mark.parametrize("threads", [1, 3])
def test_one_step_gives_the_bits_of_two(protocol: Protocol, threads: int) -> None:
    """Numbers, classes, every array of curves, and every column of the tally."""
    scene = random_scene(3, num_images=60, num_classes=6, most_detections=80, most_truths=25)
    at_once = boxscore.evaluate(scene.detections, scene.truths, protocol, threads=threads)
    tally = boxscore.match(scene.detections, scene.truths, protocol, threads=threads)
    assert_same(at_once, boxscore.finish(tally, threads=threads))
    for column in TALLY:
        assert np.array_equal(getattr(at_once.tally, column), getattr(tally, column)), column


@pytest.mark.parametrize("most_truths", [1, 40], ids=["few truths", "many truths"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.title)
def test_arrays_that_are_read_later_are_those_built_at_once(protocol: Protocol, most_truths: int) -> None:
    """Few truths: a true positive reaches many recall points, all of which get its score."""
    scene = random_scene(5, num_images=40, num_classes=5, most_detections=60, most_truths=most_truths)
    result = boxscore.evaluate(scene.detections, scene.truths, protocol)
    at_once = native.curves(result.tally, threads=1)
    for name in ("precision", "scores", "recall", "average_precision", "num_true", "num_false"):
        read = getattr(result.curves, name)
        assert np.array_equal(read, getattr(at_once, name), equal_nan=True), name
    assert_same(result, boxscore.evaluate(scene.detections, scene.truths, protocol, "sequential"))


@pytest.mark.parametrize("seed", range(4))
def test_rows_with_the_scores_of_hits_are_counted_on_the_right_side_of_them(seed: int) -> None:
    """Three scores for all detections, so that nearly every order is decided by ties: as by plain loops."""
    scene = random_scene(seed, num_images=30, num_classes=2, most_detections=60, most_truths=20)
    random = np.random.default_rng(seed)
    given = scene.detections
    detections = Detections(
        image_ids=given.image_ids,
        labels=given.labels,
        scores=random.choice([0.25, 0.5, 0.5000000001], len(given)),
        geometry=given.geometry,
    )
    for protocol in ("coco", "voc2012"):
        native, sequential = (
            boxscore.evaluate(detections, scene.truths, protocol, engine) for engine in ("native", "sequential")
        )
        assert_same(native, sequential)


def test_ids_that_need_64_bits_are_those_of_the_tally_and_of_the_result() -> None:
    """Indices are looked up after all is finished, narrow and wide."""
    image, label = np.array([2**40, 5, 5]), np.array([-(2**50), 7, 7])
    box = np.array([[0.0, 0, 10, 10], [0, 0, 10, 10], [50, 50, 60, 60]])
    detections = Detections(image_ids=image, labels=label, scores=[0.9, 0.8, 0.7], boxes=box)
    result = boxscore.evaluate(detections, Truths(image_ids=image[:2], labels=label[:2], boxes=box[:2]))
    assert result.tally.image.tolist() == [5, 5, 2**40]
    assert result.tally.label.tolist() == [7, 7, -(2**50)]
    assert result.tally.truth_label.tolist() == [7, -(2**50)]
    assert result.per_class.label.tolist() == [-(2**50), 7]
    assert result.per_class.num_detections.tolist() == [1, 2]


def test_many_boxes_of_one_class_are_compared_as_without_an_index() -> None:
    """Buckets of left edges: many boxes at one position, some far away, flat ones, crowds."""
    random = np.random.default_rng(0)
    left = np.concatenate([np.zeros(60), random.uniform(0, 50, 200), [1e6, -1e6], random.integers(0, 4, 40)])
    top, size = random.uniform(0, 40, left.size), random.uniform(0, 30, (left.size, 2))
    size[:5] = 0
    size[5:10, 0] = 1e-9
    box = np.column_stack([left, top, size])
    ignore = random.random(left.size) < 0.1
    near = box + np.concatenate([random.normal(0, 1, (left.size, 2)), np.zeros((left.size, 2))], axis=1)
    ids = np.zeros(left.size, int)
    truths = Truths(image_ids=ids, labels=ids, boxes=box, box_format="xywh", ignore=ignore)
    detections = Detections(image_ids=ids, labels=ids, scores=random.random(left.size), boxes=near, box_format="xywh")
    for protocol in (Protocol.named("coco", limits=(1, 10, 1000)), Protocol.named("voc2012")):
        tallies = [boxscore.match(detections, truths, protocol, engine) for engine in ("native", "sequential")]
        for column in TALLY:
            assert np.array_equal(*(getattr(tally, column) for tally in tallies)), column


def batch(wrap: Any, num_images: int = 5) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Predictions and targets with different numbers of rows, one image without any."""
    random = np.random.default_rng(1)
    preds, targets = [], []
    for i in range(num_images):
        num = 3 * i
        near = random.uniform(0, 50, (num, 2))
        boxes = np.concatenate([near, near + random.uniform(1, 20, (num, 2))], axis=1).astype(np.float32)
        labels = random.integers(0, 2, num)
        preds.append({"boxes": wrap(boxes), "scores": wrap(random.random(num, np.float32)), "labels": wrap(labels)})
        targets.append({"boxes": wrap(boxes + 1), "labels": wrap(labels), "iscrowd": wrap(random.random(num) < 0.2)})
    return preds, targets


def numbers_of(preds: list[dict[str, Any]], targets: list[dict[str, Any]]) -> dict[str, float]:
    """Those of a metric that has seen one batch."""
    metric = MeanAveragePrecision("coco", box_format="xyxy", warn=False)
    metric.update(preds, targets)
    return dict(metric.compute().numbers)


class TestTensors:
    """PyTorch's tensors are read where they are; others take the general path, with the same numbers."""

    @pytest.mark.parametrize(
        "kind", ["plain", "slices", "columns", "doubles in one image", "half", "gradient", "parameter"]
    )
    def test_the_numbers_are_those_of_arrays(self, kind: str) -> None:
        """Whatever the memory of a tensor is like."""
        torch = pytest.importorskip("torch")
        preds, targets = batch(torch.as_tensor)
        change = {
            "plain": lambda boxes: boxes,
            "slices": lambda boxes: torch.cat([boxes, boxes])[: len(boxes)],
            "columns": lambda boxes: boxes.T.contiguous().T,
            "doubles in one image": lambda boxes: boxes.double() if len(boxes) == 6 else boxes,
            "half": lambda boxes: boxes.to(torch.bfloat16),
            "gradient": lambda boxes: boxes.clone().requires_grad_(),
            "parameter": torch.nn.Parameter,
        }[kind]
        changed = [image | {"boxes": change(image["boxes"])} for image in preds]
        plain = [{k: v.detach().to(torch.float64).numpy() for k, v in image.items()} for image in changed]
        for image, given in zip(plain, preds, strict=True):
            image["labels"] = given["labels"].numpy()
            image["scores"] = given["scores"].numpy()
        expected = numbers_of(plain, [{key: value.numpy() for key, value in image.items()} for image in targets])
        assert expected["map_50"] > 0
        got = numbers_of(changed, targets)
        assert np.array_equal([got[name] for name in expected], [*expected.values()], equal_nan=True)


def test_ranks_count_detections_without_area_that_are_left_out() -> None:
    """They are left out after limits were applied, so those below them keep their ranks."""
    rng = np.random.default_rng(5)
    box = rng.uniform(1, 9, (40, 4))
    box[::3, 2] = 0
    detections = Detections(
        image_ids=np.zeros(40, int), labels=np.zeros(40, int), scores=rng.random(40), boxes=box, box_format="xywh"
    )
    truths = Truths(image_ids=[0], labels=[0], boxes=[[0, 0, 9, 9]])
    protocol = Protocol.named("coco", empty="drop", limits=(2, 5, 20))
    native, sequential = (boxscore.match(detections, truths, protocol, engine) for engine in ("native", "sequential"))
    assert 0 < len(native) < 20
    assert native.tier.max() == 2
    for column in TALLY:
        assert np.array_equal(getattr(native, column), getattr(sequential, column)), column


def test_bits_that_belong_to_no_cell_are_ignored() -> None:
    """Words of a tally may come from outside, such as a file."""
    scene = random_scene(2, num_images=10, num_classes=3, most_detections=30, most_truths=10)
    tally = boxscore.match(scene.detections, scene.truths)
    beyond = np.uint64(2**64 - 2**40)  # COCO has 40 cells
    tampered = replace(tally, is_true=tally.is_true | beyond, is_counted=tally.is_counted | beyond)
    assert_same(boxscore.finish(tampered), boxscore.finish(tally))
