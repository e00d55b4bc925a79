"""COCO: equal to pycocotools 2.0.11 to the last bit."""

import json
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore.formats import read_detections, read_truths
from tests.support.engines import ENGINES
from tests.support.scenes import Scene, random_scene, run_pycocotools
from tests.support.shared import shared_data

pytestmark = pytest.mark.native

STATS = ["map", "map_50", "map_75", "map_small", "map_medium", "map_large"]
STATS += ["mar_1", "mar_10", "mar_100", "mar_small", "mar_medium", "mar_large"]


def assert_equal(result: boxscore.Result, reference: Any) -> None:
    """All of pycocotools' arrays and the means of each class, bit for bit."""
    for name in ("precision", "recall", "scores"):
        assert np.array_equal(getattr(result.curves, name), reference.eval[name]), name
    precision, recall = reference.eval["precision"][..., 0, -1], reference.eval["recall"][..., 0, -1]
    for k in range(len(result.per_class)):
        assert np.array_equal(result.per_class.ap[k], mean_as_in_summarize(precision[:, :, k]), equal_nan=True), k
        assert np.array_equal(result.per_class.ar[k], mean_as_in_summarize(recall[:, k]), equal_nan=True), k
        ap_at = [mean_as_in_summarize(precision[t, :, k]) for t in range(len(precision))]
        assert np.array_equal(result.per_class.ap_at[k], ap_at, equal_nan=True), k
        assert np.array_equal(result.curves.average_precision[:, k, 0, -1], ap_at, equal_nan=True), k


def mean_as_in_summarize(values: Any) -> float:
    """The mean of all that is defined, as pycocotools takes it."""
    defined = values[values > -1]
    return float(np.mean(defined)) if defined.size else np.nan


def assert_scene_is_equal(scene: Scene, engine: Any) -> None:
    """The arrays and the twelve numbers."""
    reference = scene.pycocotools()
    result = boxscore.evaluate(scene.detections, scene.truths, "coco", engine)
    assert_equal(result, reference)
    stats = [-1.0 if np.isnan(result[name]) else result[name] for name in STATS]
    assert np.array_equal(stats, reference.stats)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(12))
def test_random_scenes_equal_pycocotools(seed: int, engine: Any) -> None:
    """Crowds, ties, empty boxes and images, area borders, classes without truths or detections."""
    assert_scene_is_equal(random_scene(seed, is_whole=seed % 2 == 0), engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_the_numbers_of_the_only_class_are_those_of_all_classes(average: str, engine: Any) -> None:
    """To the last bit: both are the same mean."""
    for seed in range(8):
        scene = random_scene(seed)
        rows = {name: columns["labels"] == 0 for name, columns in (("truth", scene.truth), ("found", scene.detection))}
        truths = boxscore.Truths(**{key: each[rows["truth"]] for key, each in scene.truth.items()}, box_format="xywh")
        found = {key: each[rows["found"]] for key, each in scene.detection.items()}
        protocol = boxscore.Protocol.named("coco", average=average)
        result = boxscore.evaluate(boxscore.Detections(**found, box_format="xywh"), truths, protocol, engine)
        (row,) = result.per_class.rows()
        expected = [result[name] for name in ("map", "map_50", "mar_100")]
        if average == "macro":
            assert [row.ap, row.ap_50, row.ar] == expected
        else:  # times its number of truths, and divided by it again
            num = row.num_truths
            assert [row.ap * num / num, row.ap_50 * num / num, row.ar * num / num] == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_more_than_100_detections_of_a_class_in_an_image(engine: Any) -> None:
    """Only the best 100 count, ties in file order."""
    scene = random_scene(99, num_images=3, num_classes=3, most_detections=450, most_truths=40)
    places = np.stack([scene.detection["image_ids"], scene.detection["labels"]])
    assert np.unique(places, axis=1, return_counts=True)[1].max() > 100
    assert_scene_is_equal(scene, engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_many_truths_in_one_image_force_next_best_choices(engine: Any) -> None:
    """A crowd of equal boxes: who gets which truth takes many rounds to settle."""
    random = np.random.default_rng(5)
    num = 60
    box = np.concatenate([random.integers(0, 6, (num, 2)), np.full((num, 2), 40)], axis=1).astype(float)
    truth = {
        "image_ids": np.zeros(num, int),
        "labels": np.zeros(num, int),
        "boxes": box,
        "ignore": np.arange(num) % 7 == 0,
        "area": np.full(num, 1600.0),
    }
    found = {
        "image_ids": truth["image_ids"],
        "labels": truth["labels"],
        "boxes": box[::-1] + 1,
        "scores": random.random(num),
    }
    assert_scene_is_equal(Scene(detection=found, truth=truth, num_classes=1, num_images=1), engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("params", "changes"),
    [
        ({"iouThrs": np.array([0.0, 0.3, 1.0])}, {"thresholds": (0.0, 0.3, 1.0)}),
        ({"recThrs": np.array([0.1, 1 / 3, 0.9])}, {"recall_points": (0.1, 1 / 3, 0.9)}),
        ({"recThrs": np.linspace(0, 1, 301)}, {"recall_points": np.linspace(0, 1, 301)}),
        ({"recThrs": np.array([0.5])}, {"recall_points": (0.5,)}),
        ({"maxDets": [1, 2, 3, 100]}, {"limits": (1, 2, 3, 100)}),
        ({"useCats": 0}, {"class_agnostic": True}),
        (
            {"areaRng": [[0, 1e10], [50, 60]], "areaRngLbl": ["all", "small"]},
            {"areas": {"all": (0, 1e10), "small": (50, 60)}},
        ),
    ],
    ids=lambda value: next(iter(value)),
)
def test_changed_protocols_equal_changed_params(params: dict[str, Any], changes: dict[str, Any], engine: Any) -> None:
    """Any field can be changed; the result is that of pycocotools with the same change."""
    for seed in (3, 4):
        scene = random_scene(seed)
        reference = scene.pycocotools(**params)
        protocol = boxscore.Protocol.named("coco", **changes)
        assert_equal(boxscore.evaluate(scene.detections, scene.truths, protocol, engine), reference)


def test_a_perfect_detector_scores_what_pycocotools_gives() -> None:
    """Not quite 1: COCO adds 2.2e-16 to the first detection's denominator."""
    scene = random_scene(1)
    keep = ~scene.truth["ignore"] & (scene.truth["boxes"][:, 2:] > 0).all(axis=1)  # an empty box overlaps nothing
    truth = {name: column[keep] for name, column in scene.truth.items()}
    found = {"scores": np.ones(keep.sum())} | {name: truth[name] for name in ("image_ids", "labels", "boxes")}
    scene = Scene(detection=found, truth=truth, num_classes=scene.num_classes, num_images=scene.num_images)
    assert_scene_is_equal(scene, "native")
    assert 1 - 1e-12 < boxscore.evaluate(scene.detections, scene.truths)["map"] <= 1


@pytest.mark.not_sanitized
@pytest.mark.parametrize(
    ("truths", "results"),
    [
        ("coco_val2017/instances_val2017_boxes.json", "coco_val2017/yolox_nano.json"),
        ("val2014_100/instances_val2014_100.json", "val2014_100/instances_val2014_fakebbox100_results.json"),
    ],
    ids=["val2017", "val2014_100"],
)
def test_real_data_equal_pycocotools(truths: str, results: str) -> None:
    """Real annotations and the output of a real detector."""
    truths_path, results_path = shared_data(truths), shared_data(results)
    reference = run_pycocotools(json.loads(truths_path.read_bytes()), json.loads(results_path.read_bytes()))
    columns = read_truths(truths_path)
    detections = read_detections(results_path, columns)
    for engine in ("parallel", "native"):
        result = boxscore.evaluate(detections, columns, "coco", engine)
        assert_equal(result, reference)
        assert np.array_equal([result[name] for name in STATS], reference.stats)


@pytest.mark.not_sanitized
def test_real_data_has_the_published_numbers() -> None:
    """YOLOX-Nano on val2017: the numbers that pycocotools 2.0.11 gave."""
    truths = read_truths(shared_data("coco_val2017/instances_val2017_boxes.json"))
    result = boxscore.evaluate(read_detections(shared_data("coco_val2017/yolox_nano.json"), truths), truths)
    assert result["map"] == 0.25640230486509386
    assert result["map_50"] == 0.4113483421332722
