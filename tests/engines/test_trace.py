"""Traced tallies: every row and every taken truth is known by its index in the inputs, from any engine."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, Protocol, Tally, Truths
from boxscore.data.dataset import SHARED_KINDS
from boxscore.data.preparation import prepare
from boxscore.engines.native import compiled_engine
from boxscore.result import storage
from boxscore.result.tally import IGNORED, TRACE, TRUE
from tests.geometries.intervals import Intervals
from tests.support import mask_scenes, pose_scenes
from tests.support.comparisons import assert_same_tally
from tests.support.open_images_scenes import random_open_images
from tests.support.oriented_scenes import random_oriented
from tests.support.scenes import random_scene

pytestmark = pytest.mark.native

Sides = tuple[Detections, Truths]


def boxes(seed: int) -> Sides:
    """With crowds, ties and empty images."""
    scene = random_scene(seed, num_images=10)
    return scene.detections, scene.truths


def groups(seed: int) -> Sides:
    """Truths that are groups, and classes that were not verified."""
    scene = random_open_images(seed)
    return scene.detections, scene.truths


def intervals(seed: int) -> Sides:
    """A geometry that boxscore knows nothing of: the widths of boxes."""
    scene = random_scene(seed, num_images=10)
    found, there = scene.detection, scene.truth
    shapes = [Intervals(interval=box[:, :1] + box[:, [2]] * [0, 1]) for box in (found["boxes"], there["boxes"])]
    truths = Truths(image_ids=there["image_ids"], labels=there["labels"], ignore=there["ignore"], geometry=shapes[1])
    return Detections(
        image_ids=found["image_ids"], labels=found["labels"], scores=found["scores"], geometry=shapes[0]
    ), truths


SCENES: dict[str, tuple[Callable[[int], Sides], Protocol]] = {
    "coco": (boxes, Protocol.named("coco")),
    "limits": (boxes, Protocol.named("coco", limits=(1, 3))),
    "limits per image": (boxes, Protocol.named("coco", limits=(5,), limits_per="image")),
    "many cells": (boxes, Protocol.named("coco", thresholds=[0.1 + 0.8 * i / 29 for i in range(30)])),
    "voc2012": (boxes, Protocol.named("voc2012")),
    "paper": (boxes, Protocol.named("paper")),
    "class agnostic": (boxes, Protocol.named("coco", class_agnostic=True)),
    "olrp": (boxes, Protocol.named("coco", extra_numbers=("olrp",))),
    "left out": (boxes, Protocol.named("coco", min_score=0.4, ignored="absent", empty="drop")),
    "left out, agnostic": (boxes, Protocol.named("coco", class_agnostic=True, min_score=0.4, ignored="absent")),
    "groups": (groups, Protocol.named("openimages")),
    "masks": (
        lambda seed: mask_scenes.columns_of(*mask_scenes.random_masks(seed)),
        Protocol.named("coco", iou_type="segm"),
    ),
    "boundaries": (
        lambda seed: mask_scenes.columns_of(*mask_scenes.random_masks(seed)),
        Protocol.named("coco", iou_type="boundary"),
    ),
    "keypoints": (
        lambda seed: pose_scenes.columns_of(*pose_scenes.random_poses(seed)),
        pose_scenes.protocol_with(17),
    ),
    "oriented boxes": (random_oriented, Protocol.named("coco", iou_type="obb")),
    "gaussians": (random_oriented, Protocol.named("coco", iou_type="probiou")),
    "intervals": (intervals, Protocol.named("coco", iou_type="interval_iou")),
}


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.not_sanitized
def test_engines_trace_the_same_rows(name: str) -> None:
    """Input rows and taken truths, with the verdicts of a tally that is not traced."""
    make, protocol = SCENES[name]
    for seed in range(3):
        detections, truths = make(seed)
        expected = boxscore.match(detections, truths, protocol, "sequential", trace=True)
        assert_same_tally(expected, boxscore.match(detections, truths, protocol))
        assert expected.taken is not None
        assert (expected.taken >= 0).any()
        for engine in ("parallel", "native"):
            traced = boxscore.match(detections, truths, protocol, engine, trace=True)
            assert_same_tally(traced, expected)
            for column in ("row", "taken", "truth_row"):
                assert getattr(traced, column).dtype == np.int64
                assert np.array_equal(getattr(traced, column), getattr(expected, column)), column
            similarity = traced.taken_similarity, expected.taken_similarity
            assert np.allclose(*similarity, rtol=1e-12, atol=0, equal_nan=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SCENES)
def test_rows_are_those_that_were_given(name: str) -> None:
    """Whatever the protocol leaves out or pools before matching."""
    make, protocol = SCENES[name]
    detections, truths = make(7)
    tally = boxscore.match(detections, truths, protocol, trace=True)
    row, taken, truth_row = (traced_column(tally, column) for column in ("row", "taken", "truth_row"))
    assert np.array_equal(np.asarray(detections.image_ids)[row], tally.image)
    assert np.array_equal(np.asarray(detections.scores)[row], tally.score)
    assert np.array_equal(np.asarray(truths.image_ids)[truth_row], tally.truth_image)
    if not protocol.class_agnostic:
        assert np.array_equal(np.asarray(detections.labels)[row], tally.label)
        assert np.array_equal(np.asarray(truths.labels)[truth_row], tally.truth_label)
        assert np.array_equal(np.asarray(truths.labels)[taken[taken >= 0]], tally.label[taken >= 0])
    assert np.array_equal(np.asarray(truths.image_ids)[taken[taken >= 0]], tally.image[taken >= 0])
    for each in (row, truth_row):
        assert np.unique(each).size == each.size
    prepared, prepared_truths = prepare(detections, truths, protocol)
    assert row.size <= len(prepared)
    assert truth_row.size == len(prepared_truths)


@pytest.mark.parametrize("name", SCENES)
def test_a_taken_truth_explains_the_verdict(name: str) -> None:
    """Of true positives one that counts, and no two have the same; of ignored ones a truth that does not count."""
    make, protocol = SCENES[name]
    detections, truths = make(2)
    tally = boxscore.match(detections, truths, protocol, trace=True)
    taken, truth_row = traced_column(tally, "taken"), traced_column(tally, "truth_row")
    verdict = tally.verdict_at(0)
    counts = np.zeros(len(truths), bool)
    counts[truth_row] = tally.truth_state & 1
    true = taken[verdict == TRUE]
    assert (true >= 0).all()
    assert counts[true].all()
    assert np.unique(true).size == true.size
    kind = truths.kinds(protocol)
    is_shared = np.zeros(len(truths), bool) if kind is None else np.isin(np.asarray(kind), SHARED_KINDS)
    ignored = taken[(verdict == IGNORED) & (taken >= 0)]
    assert (~counts | is_shared)[ignored].all()
    assert np.array_equal(taken >= 0, ~np.isnan(traced_column(tally, "taken_similarity")))
    assert ((verdict != TRUE) & (verdict != IGNORED))[taken < 0].any()


def traced_column(tally: Tally, name: str) -> Any:
    """A column that the tally must have."""
    column = getattr(tally, name)
    assert column is not None
    return column


def test_the_similarity_is_that_of_the_two_shapes() -> None:
    """0.9, by hand; a crowd is compared by the area of the detection."""
    truths = Truths(image_ids=[0, 0], labels=[1, 1], boxes=[[0, 0, 100, 100], [200, 0, 300, 100]], ignore=[False, True])
    detections = Detections(
        image_ids=[0, 0], labels=[1, 1], scores=[0.5, 0.9], boxes=[[0, 0, 90, 100], [250, 0, 350, 100]]
    )
    tally = boxscore.match(detections, truths, "coco", trace=True)
    assert traced_column(tally, "row").tolist() == [1, 0]
    assert traced_column(tally, "taken").tolist() == [1, 0]
    assert traced_column(tally, "taken_similarity").tolist() == [0.5, 0.9]


def test_tallies_are_not_traced_unless_asked() -> None:
    """Neither by `match` nor by `evaluate`: the columns cost time and memory."""
    sides = boxes(0)
    for tally in (boxscore.match(*sides), boxscore.evaluate(*sides).tally, Tally.empty(Protocol.named("coco"))):
        assert all(getattr(tally, column) is None for column in TRACE)
    assert boxscore.match(*sides, trace=True).nbytes > boxscore.match(*sides).nbytes


@pytest.mark.parametrize("is_empty", [True, False])
def test_sides_without_rows_are_traced(is_empty: bool) -> None:
    """No detections, or no truths: columns of no rows, not None."""
    detections, truths = boxes(0)
    nothing = np.zeros(0, np.int64)
    if is_empty:
        detections = Detections(image_ids=nothing, labels=nothing, scores=np.zeros(0), boxes=np.zeros((0, 4)))
    else:
        truths = Truths(image_ids=nothing, labels=nothing, boxes=np.zeros((0, 4)))
    for engine in boxscore.pipeline.ENGINES:
        tally = boxscore.match(detections, truths, "coco", engine, trace=True)  # type: ignore[arg-type]
        assert traced_column(tally, "row").size == len(tally)
        assert sorted(traced_column(tally, "truth_row").tolist()) == list(range(len(truths)))
        assert (traced_column(tally, "taken") == -1).all()


def test_what_keeps_rows_keeps_the_trace() -> None:
    """A part of the images, another order, fewer detections."""
    detections, truths = boxes(3)
    whole = boxscore.match(detections, truths, Protocol.named("coco", limits=(4,), limits_per="dataset"), trace=True)
    images = whole.images[::2]
    for part in (whole.within(images), whole.without(images), whole.sorted(), whole.limited(), whole.pooled()):
        row, truth_row = traced_column(part, "row"), traced_column(part, "truth_row")
        assert np.array_equal(np.asarray(detections.image_ids)[row], part.image)
        assert np.array_equal(np.asarray(detections.scores)[row], part.score)
        assert np.array_equal(np.asarray(truths.image_ids)[truth_row], part.truth_image)
        taken = traced_column(part, "taken")
        assert np.array_equal(np.asarray(truths.image_ids)[taken[taken >= 0]], part.image[taken >= 0])
        assert np.array_equal(taken >= 0, ~np.isnan(traced_column(part, "taken_similarity")))
    assert len(whole.limited()) < len(whole)


def test_merged_tallies_are_not_traced() -> None:
    """Rows of different inputs have the same indices; with an empty tally there is one input."""
    detections, truths = boxes(4)
    whole = boxscore.match(detections, truths, trace=True)
    parts = whole.within(whole.images[::2]), whole.without(whole.images[::2])
    merged = parts[0].merge(parts[1])
    assert all(getattr(merged, column) is None for column in TRACE)
    empty = Tally.empty(whole.protocol)
    for same in (whole.merge(empty), empty.merge(whole)):
        assert_same_tally(same, whole)
        for column in TRACE:
            assert np.array_equal(getattr(same, column), getattr(whole, column), equal_nan=True), column


@pytest.mark.not_sanitized  # needs pyarrow
def test_stored_tallies_are_not_traced() -> None:
    """Neither in bytes, which files and other processes get, nor in Arrow tables."""
    whole = boxscore.match(*boxes(5), trace=True)
    for stored in (storage.from_bytes(storage.to_bytes(whole)), Tally.from_arrow(whole.to_arrow())):
        assert_same_tally(stored, whole)
        assert all(getattr(stored, column) is None for column in TRACE)


@pytest.mark.not_sanitized  # needs pyarrow
def test_analyses_at_one_threshold_match_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result retains the pairs of the last threshold; one with other inputs starts anew."""
    calls: list[Any] = []
    match = compiled_engine.match

    def counted(*arguments: Any, **options: Any) -> Tally:
        calls.append(arguments[2].thresholds)
        return match(*arguments, **options)

    monkeypatch.setattr(compiled_engine, "match", counted)
    result = boxscore.evaluate(*boxes(6))
    result.errors()
    result.confusion(score=0.3)
    result.to_arrow("detections", errors=True)
    result.to_arrow("truths", iou=0.5)
    assert calls == [(0.5,)]
    result.errors(iou=0.75)
    result.calibration(iou=0.42)
    result.scores(iou=0.42)
    assert calls == [(0.5,), (0.75,), (0.42,)]
    replace(result, inputs=result.inputs).errors(iou=0.42)
    assert calls == [(0.5,), (0.75,), (0.42,), (0.42,)]
