"""Three ways to give the same data: flat arrays, one dict per image, padded batches; on every library."""

from typing import Any

import numpy as np

from boxscore import Detections, Truths
from boxscore.arrays import library, to_numpy
from tests.conftest import Backend


def assert_columns(columns: Detections | Truths, expected: dict[str, Any]) -> None:
    """These columns have these values."""
    for name, values in expected.items():
        assert to_numpy(getattr(columns, name)).tolist() == values, name


def test_detections_from_images(eager: Backend) -> None:
    """Images without boxes leave gaps in the ids, empty lists included."""
    array = eager.array
    images = [
        {
            "boxes": array(np.arange(8.0).reshape(2, 4)),
            "scores": array(np.array([0.9, 0.8])),
            "labels": array(np.array([3, 5])),
        },
        {"boxes": [], "scores": [], "labels": []},
        {"boxes": array(np.ones((1, 4))), "scores": array(np.array([0.7])), "labels": array(np.array([3]))},
    ]
    expected = {"labels": [3, 5, 3], "scores": [0.9, 0.8, 0.7], "boxes": [[0, 1, 2, 3], [4, 5, 6, 7], [1, 1, 1, 1]]}
    detections = Detections.from_images(images)
    assert_columns(detections, expected | {"image_ids": [0, 0, 2]})
    assert library(detections.boxes) == library(array(np.ones(1)))
    assert_columns(Detections.from_images(images, image_ids=[70, 8, 9]), expected | {"image_ids": [70, 70, 9]})


def test_truths_from_images(eager: Backend) -> None:
    """`iscrowd` and `difficult` mean `ignore`; an image that has neither has none ignored."""
    array = eager.array
    box, label = array(np.ones((1, 4))), array(np.array([3]))
    truths = Truths.from_images(
        [
            {"boxes": box, "labels": label, "iscrowd": array(np.array([1])), "area": array(np.array([5.0]))},
            {"boxes": box, "labels": label, "difficult": [True], "area": [6.0]},
            {"boxes": box, "labels": label, "area": [7]},
        ]
    )
    assert_columns(truths, {"image_ids": [0, 1, 2], "ignore": [True, True, False], "area": [5, 6, 7]})


def test_padded_batches(eager: Backend) -> None:
    """Discarded detections and dummy truths are left out."""
    array = eager.array
    label = array(np.array([[3, 5], [3, -1]]))
    box = array(np.arange(16.0).reshape(2, 2, 4))
    score, discarded = array(np.array([[0.9, 0.8], [0.7, 0.6]])), array(np.array([[False, True], [False, False]]))
    detections = Detections.from_padded(boxes=box, labels=label, scores=score, discarded=discarded, image_ids=[40, 30])
    assert_columns(
        detections,
        {"image_ids": [40, 30], "labels": [3, 3], "scores": [0.9, 0.7], "boxes": [[0, 1, 2, 3], [8, 9, 10, 11]]},
    )
    truths = Truths.from_padded(boxes=box, labels=label, ignore=discarded, area=score)
    assert_columns(truths, {"image_ids": [0, 0, 1], "ignore": [False, True, False], "area": [0.9, 0.8, 0.7]})


def test_empty_arrays_of_any_dtype_are_empty_columns(eager: Backend) -> None:
    """A detector that found nothing may say so with `tensor([])`."""
    nothing = eager.array(np.array([]))
    assert len(Detections(image_ids=nothing, labels=nothing, scores=nothing, boxes=eager.array(np.zeros((0, 4))))) == 0
    image = {"boxes": nothing, "scores": nothing, "labels": nothing}
    assert len(Detections.from_images([image, image])) == 0
    assert len(Detections.from_images([], image_ids=[])) == 0


def test_ids_beyond_32_bits(eager: Backend) -> None:
    """They are ids, not indices."""
    label = np.array([[1], [2**32 + 3]])
    detections = Detections.from_padded(
        boxes=eager.array(np.ones((2, 1, 4))), labels=label, scores=np.ones((2, 1)), image_ids=[2**32 + 7, 7]
    )
    assert_columns(detections, {"image_ids": [2**32 + 7, 7], "labels": [1, 2**32 + 3]})


def test_no_images_at_all() -> None:
    """An empty list is a dataset without images."""
    assert len(Detections.from_images([])) == 0
    assert len(Truths.from_images([])) == 0


def test_columns_do_not_print_their_arrays() -> None:
    """A repr fits on a line."""
    detections = Detections(image_ids=[0, 0], labels=[1, 1], scores=[0.9, 0.8], boxes=np.ones((2, 4)))
    assert repr(detections) == "Detections(2 boxes in 1 image, numpy)"
    assert repr(Truths(image_ids=[5], labels=[1], boxes=np.ones((1, 4)))) == "Truths(1 box in 1 image, numpy)"
