"""With `unique_images` an image that comes again counts once; and a metric can be reset while others update it."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import InputError, MeanAveragePrecision
from tests.support.comparisons import assert_same
from tests.support.image_dicts import dicts
from tests.support.scenes import random_scene

SCENE = random_scene(5, num_images=8)
PREDS, TARGETS = dicts(SCENE)
NAMED = [target | {"image_id": image} for image, target in enumerate(TARGETS)]
EXPECTED = boxscore.evaluate(SCENE.detections, SCENE.truths)
BATCHES = [[0, 1, 2], [3, 2, 4], [5, 6, 7], [0, 1, 1]]
"""The places of images: one comes again beside new ones, the last batch is filled up, and has one twice."""


def metric_of(**settings: Any) -> MeanAveragePrecision:
    """A metric that leaves out images that come again."""
    names = SCENE.truths.class_names
    return MeanAveragePrecision(box_format="xywh", class_names=names, unique_images=True, **settings)


@pytest.mark.parametrize("warn", [True, False])
@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("is_argument", [True, False])
def test_images_that_come_again_count_once(warn: bool, kind: Any, is_argument: bool) -> None:
    """The bits of one evaluation, whoever names the images."""
    metric = metric_of(warn=warn)
    for batch in BATCHES:
        targets = TARGETS if is_argument else NAMED
        ids = batch if is_argument else None
        metric.update(kind(PREDS[i] for i in batch), kind(targets[i] for i in batch), image_ids=ids)
    assert_same(metric.compute(), EXPECTED)


def test_the_first_one_counts() -> None:
    """What comes later may be anything."""
    metric = metric_of()
    metric.update(PREDS, NAMED)
    nothing = {"boxes": np.zeros((0, 4)), "scores": np.zeros(0), "labels": np.zeros(0, int)}
    metric.update([nothing], [nothing | {"image_id": 3}])
    assert_same(metric.compute(), EXPECTED)


def padded(images: list[dict[str, Any]]) -> dict[str, Any]:
    """A padded batch."""
    length = max(len(image["labels"]) for image in images)
    batch = {}
    for key, fill in {"boxes": 0, "labels": -1, "scores": 0, "iscrowd": 0, "area": 0}.items():
        if key in images[0]:
            rows = [image[key] for image in images]
            batch[key] = np.stack(
                [
                    np.pad(row, [(0, length - len(row)), *[(0, 0)] * (row.ndim - 1)], constant_values=fill)
                    for row in rows
                ]
            )
    return batch


def test_padded_batches_and_columns_too() -> None:
    """A row of a padded batch is an image; columns have their own ids."""
    by_batch, by_columns = metric_of(), metric_of()
    for batch in BATCHES:
        preds, targets = ([each[i] for i in batch] for each in (PREDS, TARGETS))
        by_batch.update(padded(preds), padded(targets) | {"image_id": np.array(batch)})
        kept = sorted(set(batch))
        found = boxscore.Detections.from_images([PREDS[i] for i in kept], image_ids=kept, box_format="xywh")
        by_columns.update(
            found, boxscore.Truths.from_images([TARGETS[i] for i in kept], image_ids=kept, box_format="xywh")
        )
    assert_same(by_batch.compute(), EXPECTED)
    assert_same(by_columns.compute(), EXPECTED)


def test_merging_leaves_out_copies() -> None:
    """Of the later one."""
    first, second = metric_of(), metric_of()
    first.update(PREDS[:5], NAMED[:5])
    second.update(PREDS[3:], NAMED[3:])
    assert_same(first.merge(second).compute(), EXPECTED)


def test_errors_name_the_option() -> None:
    """Without it, an image that comes again is refused; with it, one without a name."""
    metric = MeanAveragePrecision(box_format="xywh", warn=False)
    metric.update(PREDS[:1], NAMED[:1])
    with pytest.raises(InputError, match=r"^image 0 was in an update before; unique_images=True leaves out images"):
        metric.update(PREDS[:1], NAMED[:1])
    for twice in ((PREDS[1:2] * 2, NAMED[1:2] * 2), (padded(PREDS[1:3]), padded(TARGETS[1:3]) | {"image_id": [1, 1]})):
        with pytest.raises(InputError, match=r"^image 1 is in the batch twice; unique_images=True leaves out images"):
            metric.update(*twice)
    with pytest.raises(InputError, match=r"^`unique_images` needs the images' ids: give every target an `image_id`"):
        metric_of().update(PREDS, TARGETS)
    with pytest.raises(InputError, match=r"^`unique_images` needs the images' ids"):
        metric_of().update(padded(PREDS), padded(TARGETS))
    with pytest.raises(InputError, match=r"^`unique_images` must be True or False; got 1"):
        MeanAveragePrecision(unique_images=1)  # type: ignore[call-overload]


def test_a_batch_without_images_changes_nothing() -> None:
    """Whether or not the others have names."""
    metric = MeanAveragePrecision(box_format="xywh", warn=False, class_names=SCENE.truths.class_names)
    metric.update([], [])
    metric.update(PREDS, NAMED)
    metric.update([], [])
    assert_same(metric.compute(), EXPECTED)


def test_a_metric_may_be_reset_and_loaded_while_others_update_it() -> None:
    """Its images and its verdicts always are of the same updates."""
    metric = metric_of(threads=1, warn=False)
    metric.update(PREDS[:4], NAMED[:4])
    state = metric.state_dict()

    def update(number: int) -> None:
        for i in range(20):
            image = 100 + 20 * number + i
            metric.update([PREDS[i % 8]], [TARGETS[i % 8] | {"image_id": image}])

    def forget(_: int) -> None:
        for i in range(40):
            metric.reset() if i % 2 else metric.load_state_dict(state)
            content = metric.state_dict()
            seen = set(boxscore.result.storage.from_bytes(content["tally"]).images.tolist())
            assert seen <= set(content["seen"])

    with ThreadPoolExecutor(6) as pool:
        done = [pool.submit(work, i) for i in range(3) for work in (update, forget)]
        for each in done:
            each.result()


def test_two_metrics_may_merge_each_other() -> None:
    """At the same time, on two threads: neither waits for the other for ever."""
    for _ in range(20):
        pair = metric_of(warn=False), metric_of(warn=False)
        for metric in pair:
            metric.update(PREDS, NAMED)
        with ThreadPoolExecutor(2) as pool:
            done = [pool.submit(one.merge, other) for one, other in (pair, pair[::-1])]
            for each in done:
                assert_same(each.result(timeout=60).compute(), EXPECTED)
