"""Boxes and masks, or any other similarities, by one metric: each has the bits of a metric for it."""

import pickle
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import InputError, MeanAveragePrecision
from boxscore.data.geometry.kinds import GEOMETRIES, kind_of
from tests.support.comparisons import assert_same

SIDE, NUM_POINTS = 40, 17
BOTH: Any = ("bbox", "segm")
Dicts = list[dict[str, Any]]
Metric = MeanAveragePrecision[dict[str, boxscore.Result]]


def scene(num_images: int = 6) -> tuple[Dicts, Dicts]:
    """One dict per image with boxes, masks and keypoints that don't agree, so that every similarity differs."""
    random = np.random.default_rng(7)
    preds: Dicts = []
    targets: Dicts = []
    for image in range(num_images):
        corner, size = random.integers(0, 16, (4, 2)), random.integers(6, 20, (4, 2))
        sides = []
        for shift in (np.zeros((4, 2), int), random.integers(0, 3, (4, 2)) * [[0], [1], [1], [1]]):
            start, end = corner + shift, corner + shift + size
            is_less = np.any(
                shift > 0, axis=1, keepdims=True
            )  # masks and points of shifted boxes are moved by one more
            grid = np.arange(SIDE)
            columns, rows = ((grid >= start[:, [i]]) & (grid < (end - is_less)[:, [i]]) for i in range(2))
            points = np.tile((start + size // 2 + is_less)[:, None], (1, NUM_POINTS, 1))
            sides.append(
                {
                    "boxes": np.concatenate([start, end], axis=1) * 1.0,
                    "masks": rows[:, :, None] & columns[:, None, :],
                    "keypoints": np.concatenate([points, np.full((4, NUM_POINTS, 1), 2)], axis=2) * 1.0,
                    "labels": np.array([1, 1, 2, 2]),
                }
            )
        targets.append(sides[0] | {"image_id": image, "area": size.prod(axis=1) * 1.0})
        preds.append(sides[1] | {"scores": random.random(4)})
    return preds, targets


def padded(images: Dicts, iou_types: tuple[str, ...]) -> dict[str, Any]:
    """The images as a padded batch, without the shapes that are not compared."""
    kept = {kind_of(each).key for each in iou_types} | images[0].keys() - {kind.key for kind in GEOMETRIES}
    return {key: np.stack([image[key] for image in images]) for key in images[0] if key in kept}


def fed(metric: Any, form: str = "lists") -> Any:
    """The metric after two updates."""
    kinds = tuple(metric.protocols)
    for part in (slice(0, 4), slice(4, 6)):
        preds, targets = (side[part] for side in scene())
        if form == "padded":
            metric.update(padded(preds, kinds), padded(targets, kinds))
        elif form == "columns":
            ids = [target["image_id"] for target in targets]
            found = boxscore.Detections.from_images(preds, image_ids=ids, iou_type=kinds)
            metric.update(found, boxscore.Truths.from_images(targets, image_ids=ids, iou_type=kinds))
        else:
            metric.update(preds, targets)
    return metric


@pytest.mark.parametrize("form", ["lists", "padded", "columns"])
@pytest.mark.parametrize(
    "iou_types", [("bbox", "segm"), ("segm", "bbox"), ("segm", "boundary"), ("bbox", "segm", "keypoints"), ("segm",)]
)
def test_each_has_the_bits_of_its_own_metric(iou_types: Any, form: str) -> None:
    """In the order of the argument; a tuple of one gives a dict, too."""
    metric: Metric = MeanAveragePrecision("coco", iou_type=iou_types, warn=False)
    results = fed(metric, form).compute()
    assert [*results] == [*iou_types]
    for iou_type, result in results.items():
        alone = fed(MeanAveragePrecision("coco", iou_type=iou_type, warn=False), form)
        assert result.protocol == alone.protocol
        assert 0 < result["map"] < 1
        assert_same(result, alone.compute())
    assert len({result["map"] for result in results.values()}) == len(iou_types)


def test_a_protocol_keeps_its_rules_for_each() -> None:
    """Only the similarity is replaced."""
    strict = boxscore.Protocol.named("voc2012", thresholds=[0.75])
    metric: Metric = MeanAveragePrecision(strict, iou_type=BOTH)
    assert [*metric.protocols.values()] == [strict, strict.replace(iou_type="segm")]
    assert metric.protocol == strict


def copied_by(way: str, metric: Metric) -> Metric:
    """A copy through a checkpoint, a pickle, a copy, or a merge with an empty one."""
    new: Metric = MeanAveragePrecision("coco", iou_type=BOTH, warn=False)
    if way == "checkpoint":
        new.load_state_dict(metric.state_dict())
        return new
    if way == "pickle":
        return pickle.loads(pickle.dumps(metric))  # type: ignore[no-any-return]
    return deepcopy(metric) if way == "copy" else metric.merge(new)


@pytest.mark.parametrize("way", ["checkpoint", "pickle", "copy", "merge"])
def test_a_copy_goes_on_alone(way: str) -> None:
    """With both tallies; the original does not change."""
    preds, targets = scene()
    first: Metric = MeanAveragePrecision("coco", iou_type=BOTH, warn=False)
    first.update(preds[:4], targets[:4])
    before = first.compute()
    second = copied_by(way, first)
    second.update(preds[4:], targets[4:])
    expected = fed(MeanAveragePrecision("coco", iou_type=BOTH, warn=False)).compute()
    for iou_type in BOTH:
        assert_same(second.compute()[iou_type], expected[iou_type])
        assert_same(first.compute()[iou_type], before[iou_type])


def test_merging_skips_images_that_come_again() -> None:
    """In every tally."""
    preds, targets = scene()
    parts: list[Metric] = []
    for part in (slice(0, 4), slice(2, 6)):
        parts.append(MeanAveragePrecision("coco", iou_type=BOTH, warn=False, unique_images=True))
        parts[-1].update(preds[part], targets[part])
    merged = parts[0].merge(parts[1])
    assert repr(merged) == "MeanAveragePrecision(coco and coco segm, 6 images, 24 detections)"
    expected = fed(MeanAveragePrecision("coco", iou_type=BOTH, warn=False)).compute()
    for iou_type in BOTH:
        assert_same(merged.compute()[iou_type], expected[iou_type])


def test_reset_forgets_both() -> None:
    """And an empty metric has two undefined results."""
    metric: Metric = fed(MeanAveragePrecision("coco", iou_type=BOTH, warn=False))
    assert {name: len(tally) for name, tally in metric.tallies.items()} == {"bbox": 24, "segm": 24}
    metric.reset()
    assert {name: len(tally) for name, tally in metric.tallies.items()} == {"bbox": 0, "segm": 0}
    assert all(np.isnan(result["map"]) for result in metric.compute().values())


def test_an_invalid_prediction_is_dropped_from_both() -> None:
    """Its box makes it invalid; both results count it."""
    preds, targets = scene(1)
    preds[0]["boxes"][0, 0] = np.nan
    metric: Metric = MeanAveragePrecision("coco", iou_type=BOTH, invalid="drop")
    with pytest.warns(UserWarning, match=r"1 invalid prediction of a batch was dropped; the first: preds\[0\]") as told:
        metric.update(preds, targets)
    assert len(told) == 1
    assert [result.num_invalid for result in metric.compute().values()] == [1, 1]


def test_a_mistake_is_told_once() -> None:
    """Labels that are one too high concern both results."""
    preds, targets = scene()
    metric: Metric = MeanAveragePrecision("coco", iou_type=BOTH)
    metric.update([each | {"labels": each["labels"] + 1} for each in preds], targets)
    with pytest.warns(UserWarning, match="the labels of `preds` look one too high") as told:
        metric.compute()
    assert len(told) == 1
    assert told[0].filename == __file__


def update_of(*, without: str) -> Any:
    """Update a metric of both with predictions that lack a key."""
    metric: Metric = MeanAveragePrecision("coco", iou_type=BOTH)
    preds, targets = scene(1)
    del preds[0][without]
    metric.update(preds, targets)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "twice": (
        lambda: MeanAveragePrecision(iou_type=("bbox", "bbox")),
        r"^`iou_type` must be one of bbox, .* or a tuple of these; got \('bbox', 'bbox'\)",
    ),
    "none": (lambda: MeanAveragePrecision(iou_type=()), r"^`iou_type` must be one of bbox, .*; got \(\)"),
    "unknown": (lambda: MeanAveragePrecision(iou_type=("iou",)), "^`iou_type` must be one of bbox"),  # type: ignore[arg-type]
    "oriented": (lambda: MeanAveragePrecision(iou_type=("bbox", "obb")), "'obb'"),
    "one tally": (
        lambda: MeanAveragePrecision(iou_type=BOTH).tally,
        "^a metric of several similarities has several tallies; `tallies` has them by `iou_type`",
    ),
    "no masks": (lambda: update_of(without="masks"), r"^preds\[0\] must have the key 'masks'"),
    "no boxes": (lambda: update_of(without="boxes"), r"^preds\[0\] must have the key 'boxes'"),
    "merged with one": (
        lambda: MeanAveragePrecision(iou_type=BOTH).merge(MeanAveragePrecision()),
        r"^metrics to be merged must have one protocol; got different ones \(`iou_type` bbox, segm and bbox\)",
    ),
    "the state of one": (
        lambda: MeanAveragePrecision(iou_type=BOTH).load_state_dict(MeanAveragePrecision().state_dict()),
        r"^`state` must have the metric's protocol; got another one \(`iou_type` bbox and bbox, segm\)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_nonsense_is_refused(case: str) -> None:
    """By name."""
    call, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        call()
