"""What comes after matching works for every geometry and every similarity."""

import pickle
from collections.abc import Callable, Iterable
from functools import cache, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import boxscore
from boxscore import Detections, MeanAveragePrecision, Protocol, Tally, Truths
from boxscore.data.dataset import take
from boxscore.protocol.protocol import IOU_TYPES
from boxscore.protocol.table import protocol_of
from tests.support import mask_scenes, pose_scenes
from tests.support.comparisons import assert_same, assert_same_tally
from tests.support.engines import ENGINES
from tests.support.oriented_scenes import random_oriented

Sides = tuple[Detections, Truths]
NUM_IMAGES = 12

every_similarity = pytest.mark.parametrize("iou_type", IOU_TYPES)


def _boxes(seed: int, **options: Any) -> Sides:
    """The upright boxes around oriented ones."""
    detections, truths = random_oriented(seed, **options)
    ids, there = ({"image_ids": each.image_ids, "labels": each.labels} for each in (detections, truths))
    found = Detections(**ids, scores=detections.scores, boxes=detections.geometry.outer_boxes())
    return found, Truths(**there, boxes=truths.geometry.outer_boxes(), ignore=truths.ignore)


SCENES: dict[str, Callable[..., Sides]] = {
    "bbox": _boxes,
    "segm": lambda *seed, **options: mask_scenes.columns_of(*mask_scenes.random_masks(*seed, **options)),
    "keypoints": lambda *seed, **options: pose_scenes.columns_of(*pose_scenes.random_poses(*seed, **options)),
    "obb": random_oriented,
}
"""Makers of random scenes, by the first similarity of their geometry."""


@cache
def scene(iou_type: Any, seed: int = 32) -> tuple[Detections, Truths, Protocol]:
    """Both sides in 12 images, and COCO's rules for the similarity."""
    make = SCENES[{"boundary": "segm", "probiou": "obb"}.get(iou_type, iou_type)]
    return *make(seed, num_images=NUM_IMAGES), protocol_of("coco", iou_type)


def on_images(detections: Detections, truths: Truths, images: Iterable[int]) -> Sides:
    """The rows on these images."""
    wanted = list(images)
    return take(detections, np.isin(detections.image_ids, wanted)), take(truths, np.isin(truths.image_ids, wanted))


@pytest.mark.parametrize("engine", ENGINES)
@every_similarity
def test_every_engine_gives_the_same_tally(iou_type: Any, engine: Any) -> None:
    """Under COCO and VOC, with crowds, ties, and shapes without area or of other sizes."""
    for seed in range(6):
        detections, truths, coco = scene(iou_type, seed)
        dota = Protocol.named("voc2012", comparison=">", iou_type=iou_type, sigmas=coco.sigmas)
        for protocol in (coco, dota, coco.replace(class_agnostic=True), coco.replace(thresholds=(0.0, 0.001))):
            tally, expected = (boxscore.match(detections, truths, protocol, each) for each in (engine, "native"))
            assert_same_tally(tally.sorted(), expected.sorted())
            assert len(tally)


@pytest.mark.native
@every_similarity
@settings(max_examples=8, deadline=None)
@given(shards=st.lists(st.integers(0, 3), min_size=NUM_IMAGES, max_size=NUM_IMAGES))
def test_merge_is_associative(iou_type: Any, shards: list[int]) -> None:
    """Images are dealt to four shards; any grouping gives the bits of all at once."""
    detections, truths, protocol = scene(iou_type)
    images = [np.flatnonzero(np.array(shards) == shard) for shard in range(4)]
    parts = [boxscore.match(*on_images(detections, truths, each), protocol) for each in images]
    expected = boxscore.evaluate(detections, truths, protocol)
    assert_same(boxscore.finish(reduce(Tally.merge, parts, Tally.empty(protocol))), expected)
    assert_same(boxscore.finish(parts[3].merge(parts[1].merge(parts[2], parts[0]))), expected)
    assert_same(boxscore.finish(parts), expected)


@every_similarity
def test_a_metric_over_batches_gives_what_all_at_once_give(iou_type: Any) -> None:
    """Also two metrics that are merged, and a metric after a checkpoint or a pickle."""
    detections, truths, protocol = scene(iou_type)
    expected = boxscore.evaluate(detections, truths, protocol)
    whole, restored, *ranks = (MeanAveragePrecision(protocol, warn=False) for _ in range(4))
    for first in range(0, NUM_IMAGES, 3):
        batch = on_images(detections, truths, range(first, first + 3))
        whole.update(*batch)
        ranks[first % 2].update(*batch)
    assert_same(whole.compute(), expected)
    assert_same(ranks[0].merge(ranks[1]).compute(), expected)
    restored.load_state_dict(whole.state_dict())
    assert_same(restored.compute(), expected)
    assert_same(pickle.loads(pickle.dumps(whole)).compute(), expected)


@every_similarity
def test_a_stored_tally_gives_the_result_again(iou_type: Any, tmp_path: Path) -> None:
    """With the rules of the similarity."""
    detections, truths, protocol = scene(iou_type)
    boxscore.match(detections, truths, protocol).save(tmp_path / "tally")
    loaded = Tally.load(tmp_path / "tally")
    assert loaded.protocol == protocol
    assert_same(boxscore.finish(loaded), boxscore.evaluate(detections, truths, protocol))


@every_similarity
def test_bootstrap_comparison_and_slices(iou_type: Any) -> None:
    """Confidence intervals, differences and groups of images."""
    detections, truths, protocol = scene(iou_type)
    result = boxscore.evaluate(detections, truths, protocol)
    intervals = result.intervals(resamples=50)
    assert intervals.low["map"] < result["map"] < intervals.high["map"]
    recall = next(name for name in result if name.startswith("mar"))
    assert intervals.low[recall] <= result[recall] <= intervals.high[recall]
    worse = boxscore.evaluate(take(detections, np.arange(len(detections)) % 3 > 0), truths, protocol)
    change = boxscore.compare({"all": result, "some": worse}, resamples=20).differences[0].numbers["map"]
    assert (change.first, change.second) == (result["map"], worse["map"])
    assert result["map"] != worse["map"]
    odd = range(1, NUM_IMAGES, 2)
    groups = boxscore.analysis.slices(result, {image: "odd" if image % 2 else "even" for image in range(NUM_IMAGES)})
    assert_same(groups["odd"], boxscore.evaluate(*on_images(detections, truths, odd), protocol))


@pytest.mark.not_sanitized
@every_similarity
def test_errors_confusion_and_report(iou_type: Any) -> None:
    """The analyses that look at shapes again, at any threshold; texts name the protocol and the similarity."""
    result = boxscore.evaluate(*scene(iou_type))
    assert result.errors().count.sum() > 0
    assert result.confusion(iou=0.6).count.sum() > 0
    assert result.worst_images(num=3)
    assert str(result).startswith(f"{result.protocol.title}: {len(result.per_class)} classes, ")
    assert f"{result.protocol.similarity} 0.50:0.95" in str(result)
    page = result.to_html(resamples=0)
    assert result.protocol.title in page
    assert result.protocol.similarity in page
