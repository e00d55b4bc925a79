"""Dicts: every name of a flag counts wherever dicts are read, and a misspelled key is told, not dropped."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch

import boxscore
from boxscore import Detections, InputError, MeanAveragePrecision, Truths
from boxscore.data.batch_keys import FLAGS
from boxscore.torchmetrics import MeanAveragePrecision as TorchMetric

PRED = {"boxes": np.array([[0.0, 0, 9, 9]]), "scores": np.array([0.9]), "labels": np.array([1])}
TARGET = {"boxes": np.array([[0.0, 0, 9, 9], [50, 50, 59, 59]]), "labels": np.array([1, 1])}
"""One truth is found. The other is not: a mean of 1 if it is ignored, of 51 / 101 recall points if it counts."""


def tensors(image: dict[str, Any]) -> dict[str, Any]:
    """The same in PyTorch."""
    return {key: torch.as_tensor(value) for key, value in image.items()}


def padded(image: dict[str, Any]) -> dict[str, Any]:
    """The same as a padded batch of one image."""
    return {key: np.asarray(value)[None] for key, value in image.items()}


def map_of_lists(target: dict[str, Any], *, warn: bool = False) -> float:
    """By the metric; without warnings the compiled step takes the batch."""
    metric = MeanAveragePrecision(warn=warn)
    metric.update([PRED], [target])
    return metric.compute()["map"]


def map_of_tensors(target: dict[str, Any]) -> float:
    """By the metric, of tensors."""
    metric = MeanAveragePrecision(warn=False)
    metric.update([tensors(PRED)], [tensors(target)])
    return metric.compute()["map"]


def map_of_columns(target: dict[str, Any]) -> float:
    """By `from_images` and `evaluate`."""
    return boxscore.evaluate(Detections.from_images([PRED]), Truths.from_images([target]))["map"]


def map_of_padded(target: dict[str, Any]) -> float:
    """By the metric, of a padded batch."""
    metric = MeanAveragePrecision(warn=False)
    metric.update(padded(PRED), padded(target))
    return metric.compute()["map"]


def map_of_samples(target: dict[str, Any]) -> float:
    """By the metric, of what `collate_truths` made."""
    metric = MeanAveragePrecision(warn=False)
    _, targets = boxscore.collate_truths([(np.zeros(1), target)])
    metric.update(padded(PRED), targets)
    return metric.compute()["map"]


def map_of_torchmetrics(target: dict[str, Any]) -> float:
    """By the class for torchmetrics."""
    metric = TorchMetric()
    metric.update([tensors(PRED)], [tensors(target)])
    return float(metric.compute()["map"])


def map_of_jax(target: dict[str, Any]) -> float:
    """By a state of JAX."""
    import boxscore.jax as state

    return state.compute(state.update(state.init(10), padded(PRED), padded(target), [0]))["map"]


READERS = [map_of_lists, map_of_tensors, map_of_columns, map_of_padded, map_of_samples, map_of_torchmetrics, map_of_jax]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_counts_wherever_dicts_are_read(read: Callable[..., float], flag: str) -> None:
    """The truth that is not found costs nothing under any of the three names."""
    assert read(TARGET) == pytest.approx(51 / 101)
    for marked in (np.array([False, True]), np.array([0, 1])):
        assert read(TARGET | {flag: marked}) == pytest.approx(1)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("flags", [*combinations(FLAGS, 2), FLAGS], ids=str)
def test_a_truth_that_any_flag_marks_is_ignored(read: Callable[..., float], flags: tuple[str, ...]) -> None:
    """One of them marks it, the others don't."""
    none = dict.fromkeys(flags, np.array([0, 0]))
    assert read(TARGET | none) == pytest.approx(51 / 101)
    for flag in flags:
        assert read(TARGET | none | {flag: np.array([0, 1])}) == pytest.approx(1)


def test_images_may_have_different_flags() -> None:
    """An image that has none has no truths to ignore."""
    images: list[dict[str, Any]] = [
        TARGET,
        *(TARGET | {flag: [0, 1]} for flag in FLAGS),
        TARGET | {"ignore": [1, 0], "difficult": [0, 1]},
    ]
    ignore = [False, False, *[False, True] * 3, True, True]
    assert Truths.from_images(images).ignore.tolist() == ignore  # type: ignore[union-attr]


MISSPELLED = {
    "crowd": "iscrowd",
    "is_crowd": "iscrowd",
    "iscrwd": "iscrowd",
    "isCrowd": "iscrowd",
    "areas": "area",
    "aera": "area",
    "ignored": "ignore",
    "is_difficult": "difficult",
    "image_ids": "image_id",
    "imageId": "image_id",
}


@pytest.mark.parametrize(
    ("read", "key"),
    [
        (read, key)
        for read in READERS
        for key, right in MISSPELLED.items()
        if read is not map_of_jax or right != "image_id"  # ids are an argument of their own there
    ],
)
def test_a_misspelled_key_is_refused_with_the_right_one(read: Callable[..., float], key: str) -> None:
    """Not dropped: it would have changed the result."""
    with pytest.raises(InputError) as error:
        read(TARGET | {key: np.array([0, 1])})
    assert f"must not have the key {key!r}, which is not read: rename it to {MISSPELLED[key]!r}" in str(error.value)


@pytest.mark.parametrize("warn", [True, False])
def test_the_error_names_the_image(warn: bool) -> None:
    """Whether or not the compiled step had its chance."""
    metric = MeanAveragePrecision(warn=warn)
    with pytest.raises(InputError, match=r"^targets\[1\] must not have the key 'crowd', which is not read"):
        metric.update([PRED, PRED], [TARGET, TARGET | {"crowd": np.array([0, 1])}])
    with pytest.raises(InputError, match=r"^preds\[1\] must have the key 'scores'; got .*: 'score' must be called"):
        metric.update([PRED, renamed("scores", "score")], [TARGET, TARGET])


def renamed(key: str, name: str) -> dict[str, Any]:
    """A prediction with another name for a key."""
    return {name if each == key else each: value for each, value in PRED.items()}


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("labels", "label"),
        ("labels", "Labels"),
        ("labels", "classes"),
        ("labels", "class_labels"),
        ("scores", "score"),
        ("scores", "confidence"),
        ("boxes", "box"),
        ("boxes", "bboxes"),
    ],
)
def test_a_missing_key_under_another_name_is_recognized(key: str, name: str) -> None:
    """The error says what to call it."""
    with pytest.raises(InputError) as error:
        Detections.from_images([renamed(key, name)])
    assert str(error.value).startswith(f"images[0] must have the key {key!r}; got ")
    assert str(error.value).endswith(f": {name!r} must be called {key!r}")


def test_other_keys_are_allowed() -> None:
    """Those of other tasks and loaders, those that mean something else, and near ones beside the right one."""
    others = {"masks": 1, "size": 2, "orig_size": 3, "image_idx": 4, "truncated": 5, "keypoints": 6, "scores": 7, 8: 9}
    metric = MeanAveragePrecision(warn=False)
    pred = PRED | {"image_id": 3, "label": "cat", "masks": None, "area": 5, "logits": 6}
    metric.update([pred], [TARGET | others | {"image_id": 3, "iscrowd": np.array([0, 1]), "crowd": "none", "class": 1}])
    assert metric.compute()["map"] == pytest.approx(1)


@pytest.mark.parametrize("make", [MeanAveragePrecision, TorchMetric])
@pytest.mark.parametrize(
    "value",
    [torch.ones(3, 6), np.ones((3, 6)), (1, 2), None, "a.jpg", 5, [PRED], {1, 2}],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("position", [0, 1])
def test_images_that_are_no_dicts_are_refused(make: Any, value: Any, position: int) -> None:
    """On either side, alone or behind good ones; rows of a box, a score and a label get a recipe."""
    metric = make()
    good = [tensors(PRED), tensors(TARGET)]
    for before in (0, 1):
        images: list[list[Any]] = [[each] * (before + 1) for each in good]
        images[position][before] = value
        with pytest.raises(InputError) as error:
            metric.update(*images)
        name = (("preds", "targets") if make is MeanAveragePrecision else ("preds", "target"))[position]
        keys = ("`boxes`, `scores` and `labels`", "`boxes` and `labels`")[position]
        assert str(error.value).startswith(f"{name}[{before}] must be a dict with {keys}; got {type(value).__name__}")
        is_rows = position == 0 and isinstance(value, torch.Tensor | np.ndarray)
        assert ('pass {"boxes": rows[:, :4], "scores": rows[:, 4]' in str(error.value)) == is_rows
