"""`evaluate` and `match` of arrays on an accelerator: copied to host memory and matched there, with the same bits."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import boxscore
from tests.support.comparisons import assert_same, assert_same_tally
from tests.support.image_dicts import dicts
from tests.support.scenes import random_scene

torch = pytest.importorskip("torch")

from boxscore.arrays.counting import Counts, counting  # noqa: E402

pytestmark = pytest.mark.native

SCENE = random_scene(2, num_images=6, num_classes=3, most_detections=12, most_truths=6)


@pytest.fixture
def device() -> Iterator[Counts]:
    """The counting device."""
    with counting() as counts:
        yield counts


def test_lists_of_dicts_take_one_copy_per_side(device: Counts) -> None:
    """It waits for each, as the result is wanted now."""
    expected = boxscore.evaluate(*dicts(SCENE, torch.as_tensor), box_format="xywh")
    sides = dicts(SCENE, lambda values: device.place(torch.as_tensor(values)))
    device.reset()
    result = boxscore.evaluate(*sides, box_format="xywh")
    assert (device.launches, device.copies_to_host, device.reads) == (2, 2, 2)
    assert_same(result, expected)


def test_padded_batches_take_one_copy_per_array(device: Counts) -> None:
    """And no kernel."""
    boxes = torch.tensor([[[0.0, 0, 9, 9], [5, 5, 3, 4]], [[1, 1, 6, 7], [0, 0, 0, 0]]])
    labels = torch.tensor([[0, 1], [1, -1]])
    truths = {"boxes": boxes, "labels": labels}
    detections = {"boxes": boxes + 0.5, "scores": torch.tensor([[0.5, 0.7], [0.9, 0]]), "labels": labels}
    expected = boxscore.evaluate(detections, truths, box_format="xywh")
    sides: Any = [{key: device.place(value) for key, value in side.items()} for side in (detections, truths)]
    device.reset()
    result = boxscore.evaluate(*sides, box_format="xywh")
    assert (device.launches, device.copies_to_host) == (0, 5)
    assert_same(result, expected)


def test_columns_are_matched_by_the_compiled_engine(device: Counts) -> None:
    """A kernel or two for validation; `engine="parallel"` launches many, and gives the same verdicts."""

    def columns(place: Any) -> tuple[boxscore.Detections, boxscore.Truths]:
        preds, targets = dicts(SCENE, lambda values: place(torch.as_tensor(values)))
        return (
            boxscore.Detections.from_images(preds, box_format="xywh"),
            boxscore.Truths.from_images(targets, box_format="xywh"),
        )

    expected, sides = boxscore.match(*columns(torch.clone)), columns(device.place)
    device.reset()
    assert_same_tally(boxscore.match(*sides), expected)
    assert device.launches <= 2
    device.reset()
    tally = boxscore.match(*sides, engine="parallel")
    assert device.launches > 50
    assert np.array_equal(tally.is_true, expected.is_true)


@pytest.mark.parametrize(
    ("key", "change"), [("boxes", lambda box: box[:, :3]), ("labels", lambda label: label.float())]
)
def test_errors_are_those_of_host_memory(device: Counts, key: str, change: Any) -> None:
    """In the same words."""
    words = []
    for place in (torch.clone, device.place):
        preds, targets = dicts(SCENE, lambda values, place=place: place(torch.as_tensor(values)))
        index = max(range(len(targets)), key=lambda each: len(targets[each]["labels"]))
        targets[index][key] = change(targets[index][key])
        with pytest.raises(boxscore.InputError) as error:
            boxscore.evaluate(preds, targets, box_format="xywh")
        words.append(str(error.value))
    assert words[0] == words[1]
    assert words[0].startswith("truths[")
