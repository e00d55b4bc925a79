"""Images may be identified by names: the same images on every process, in every batch and in every checkpoint."""

from typing import Any

import numpy as np
import pytest
import torch

import boxscore
from boxscore import Detections, InputError, MeanAveragePrecision, Truths
from boxscore.data.image_ids import hash_name, read_image_ids
from boxscore.torchmetrics import MeanAveragePrecision as TorchMetric
from tests.support.comparisons import assert_same
from tests.support.image_dicts import dicts
from tests.support.scenes import random_scene

SCENE = random_scene(5, num_images=6)
PREDS, TARGETS = dicts(SCENE)
NAMES = [f"val/{image:03}.jpg" for image in range(6)]
NUMBERS = [hash_name(name) for name in NAMES]


def metric_of(**settings: Any) -> MeanAveragePrecision:
    """A metric for the scene."""
    return MeanAveragePrecision(box_format="xywh", class_names=SCENE.truths.class_names, **settings)


def numbered() -> boxscore.Result:
    """The result under the numbers that the names become."""
    metric = metric_of(warn=False)
    metric.update(PREDS, TARGETS, image_ids=NUMBERS)
    return metric.compute()


def test_a_name_is_a_number_of_63_bits_that_never_changes() -> None:
    """Others have the same: what `b2sum --length=64` gives, its bytes reversed, without the last bit."""
    assert hash_name("a.jpg") == 0x89A7126E02F047FE >> 1
    numbers = {hash_name(str(i)) for i in range(100_000)}
    assert len(numbers) == 100_000
    assert all(0 <= number < 2**63 for number in numbers)


@pytest.mark.parametrize("warn", [True, False])
@pytest.mark.parametrize("wrap", [list, tuple, np.array, iter], ids=["list", "tuple", "numpy", "iterator"])
def test_a_metric_takes_names(warn: bool, wrap: Any) -> None:
    """By the fast path and by the general one; in any batches."""
    metric = metric_of(warn=warn)
    for part in (slice(0, 4), slice(4, 6)):
        metric.update(PREDS[part], TARGETS[part], image_ids=wrap(NAMES[part]))
    assert_same(metric.compute(), numbered())
    assert metric.image_names == dict(zip(NUMBERS, NAMES, strict=True))


def test_targets_may_have_names() -> None:
    """Text, or the bytes of it, as TensorFlow has them."""
    tensorflow = pytest.importorskip("tensorflow")
    for wrap in (str, str.encode, np.str_, np.array, tensorflow.constant):
        metric = metric_of(warn=False)
        metric.update(PREDS, [t | {"image_id": wrap(name)} for t, name in zip(TARGETS, NAMES, strict=True)])
        assert_same(metric.compute(), numbered())
        assert list(metric.image_names.values()) == NAMES


def test_padded_batches_take_names() -> None:
    """As `image_ids`, in the batch, and out of `collate_truths`."""
    _, targets = boxscore.collate_truths([(0, t | {"image_id": n}) for t, n in zip(TARGETS, NAMES, strict=True)])
    assert targets["image_id"] == NAMES
    length = max(len(pred["labels"]) for pred in PREDS)
    preds: dict[str, Any] = {"boxes": [], "scores": [], "labels": []}
    for pred in PREDS:
        rest = length - len(pred["labels"])
        preds["boxes"].append(np.pad(pred["boxes"], ((0, rest), (0, 0))))
        preds["scores"].append(np.pad(pred["scores"], (0, rest)))
        preds["labels"].append(np.pad(pred["labels"], (0, rest), constant_values=-1))
    preds = {key: np.stack(parts) for key, parts in preds.items()}
    unnamed = {key: value for key, value in targets.items() if key != "image_id"}
    for batch, ids in ((targets, None), (unnamed, NAMES)):
        metric = metric_of(warn=False)
        metric.update(preds, batch, image_ids=ids)
        assert_same(metric.compute(), numbered())


def test_columns_take_names() -> None:
    """Truths list all of them, those of images without boxes, too."""
    detections = Detections.from_images(PREDS, image_ids=NAMES, box_format="xywh")
    names = SCENE.truths.class_names
    truths = Truths.from_images(TARGETS, image_ids=NAMES, box_format="xywh", class_names=names)
    assert truths.image_names == dict(zip(NUMBERS, NAMES, strict=True))
    result = boxscore.evaluate(detections, truths)
    assert_same(result, numbered())
    assert result.images.tolist() == sorted(NUMBERS)
    padded = Truths.from_padded(boxes=np.ones((2, 1, 4)), labels=np.ones((2, 1), int), image_ids=["a", 7])
    assert padded.image_names == {hash_name("a"): "a", 7: "7"}
    assert padded.image_ids.tolist() == [hash_name("a"), 7]


def test_an_image_that_comes_again_is_found_by_its_name() -> None:
    """In a batch, in a later one, in another metric; and left out if that is asked for."""
    metric = metric_of(warn=False)
    metric.update(PREDS[:2], TARGETS[:2], image_ids=NAMES[:2])
    with pytest.raises(InputError, match=r"^image 'val/001.jpg' was in an update before"):
        metric.update(PREDS[1:2], TARGETS[1:2], image_ids=NAMES[1:2])
    with pytest.raises(InputError, match=r"^image 'val/002.jpg' is in the batch twice"):
        metric.update(PREDS[:2], TARGETS[:2], image_ids=NAMES[2:3] * 2)
    with pytest.raises(InputError, match=r"^image 'val/00[01].jpg' is in more than one of the metrics"):
        metric.merge(metric)
    with pytest.raises(InputError, match=r"^`image_ids` must have each id once; got 'a' more than once"):
        Detections.from_images(PREDS[:2], image_ids=["a", "a"])
    unique = metric_of(unique_images=True)
    for batch in ([0, 1, 2, 0], [2, 3, 4, 5]):
        unique.update([PREDS[i] for i in batch], [TARGETS[i] for i in batch], image_ids=[NAMES[i] for i in batch])
    assert_same(unique.compute(), numbered())


def test_names_survive_merging_and_checkpoints() -> None:
    """Metrics of different processes, in any order."""
    parts = [metric_of(warn=False) for _ in range(2)]
    for part, images in zip(parts, ([3, 0], [5, 1, 4, 2]), strict=True):
        part.update([PREDS[i] for i in images], [TARGETS[i] for i in images], image_ids=[NAMES[i] for i in images])
    again = metric_of(warn=False)
    again.load_state_dict(parts[0].state_dict())
    for merged in (again.merge(parts[1]), parts[1].merge(again)):
        assert_same(merged.compute(), numbered())
        assert merged.image_names == dict(zip(NUMBERS, NAMES, strict=True))


def test_the_class_for_torchmetrics_takes_names() -> None:
    """Under `unique_images`, which needs ids."""
    metric, expected = (TorchMetric(unique_images=True, box_format="xywh") for _ in range(2))
    preds, targets = dicts(SCENE, torch.as_tensor)
    expected.update(preds, [t | {"image_id": number} for t, number in zip(targets, NUMBERS, strict=True)])
    for images in ([0, 1, 2, 1], [2, 3, 4, 5]):
        metric.update([preds[i] for i in images], [targets[i] | {"image_id": NAMES[i]} for i in images])
    assert metric.compute()["map"] == expected.compute()["map"]


def test_what_is_neither_a_number_nor_a_name_is_refused() -> None:
    """With its index."""
    with pytest.raises(
        InputError, match=r"^image_ids\[1\]: an image id must be an integer of 64 bits or a name; got No"
    ):
        read_image_ids(["a", None])
    for wrong in ("a.jpg", b"a.jpg", {"a": 1}, 7, None):
        with pytest.raises(InputError, match=r"^`image_ids` must be a list of integers or names, one per image; got "):
            read_image_ids(wrong)
