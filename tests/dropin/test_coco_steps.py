"""`_prepare`, `computeIoU` and `evaluateImg`, called by evaluators themselves, as DETR's does."""

import copy
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from boxscore.dropin import image_entries
from tests.support.dropin import (
    OURS,
    SCENE,
    Tool,
    check_same,
    dataset_of,
    from_dicts,
    match_by_steps,
    measure_by_steps,
    outcome,
)
from tests.support.scenes import as_dataset, random_scene
from tests.support.shared import shared_data

pytestmark = pytest.mark.native

Change = Callable[[Any], None]


def prepared(tool: Tool, dataset: Any, results: Any, **params: Any) -> Any:
    """An evaluation after `_prepare`."""
    evaluation = from_dicts(tool, dataset, results, **params)
    evaluation._prepare()
    return evaluation


def with_types(entries: list[Any]) -> list[Any]:
    """Entries, and the type of each value and of each item of its lists."""
    types = [
        (key, type(value), [type(each) for each in value] if isinstance(value, list) else [])
        for entry in entries
        for key, value in (entry or {}).items()
    ]
    return [entries, types]


PARAMS: list[dict[str, Any]] = [{}, {"useCats": 0}, {"maxDets": [1, 3]}, {"iouThrs": np.array([0.75, 0.1])}]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("params", PARAMS, ids=str)
def test_every_value_and_type_is_pycocotools_own(seed: int, params: dict[str, Any]) -> None:
    """Of overlaps and entries, with and without classes, within any limit."""
    scene = random_scene(seed, num_images=5, num_classes=4, most_detections=25)

    def script(tool: Tool) -> Any:
        evaluation = prepared(tool, *as_dataset(scene), **params)
        measure_by_steps(evaluation)
        return [
            list(evaluation.ious.items()),
            with_types(match_by_steps(evaluation)),
            with_types(match_by_steps(evaluation, limit=2)),
        ]

    check_same(script)


def changes() -> dict[str, Change]:
    """What may happen between the steps."""

    def thresholds(evaluation: Any) -> None:
        evaluation.params.iouThrs = [0.3, 0.6]

    def thresholds_in_place(evaluation: Any) -> None:
        evaluation.params.iouThrs[:] = 0.25

    def ranges(evaluation: Any) -> None:
        evaluation.params.areaRng = [(0, 2000), np.array([5.0, 900.0])]

    def overlaps(evaluation: Any) -> None:
        for overlap in evaluation.ious.values():
            if len(overlap):
                overlap[:] = overlap**0.5

    def other_overlaps(evaluation: Any) -> None:
        for pair, overlap in evaluation.ious.items():
            evaluation.ious[pair] = np.asfortranarray(overlap, np.float32) if len(overlap) else []

    def no_overlaps(evaluation: Any) -> None:
        evaluation.ious = {pair: [] for pair in evaluation.ious}

    def ignored(evaluation: Any) -> None:
        for truths in evaluation._gts.values():
            for truth in truths:
                truth["ignore"] = truth["id"] % 2

    def scores(evaluation: Any) -> None:
        for found in evaluation._dts.values():
            for each in found:
                each["score"] = np.float32(each["score"] / 2)

    def ids(evaluation: Any) -> None:
        for annotations in (*evaluation._gts.values(), *evaluation._dts.values()):
            for ann in annotations:
                ann["id"] = ann["id"] % 3 if ann["id"] % 2 else ann["id"] + 0.5

    def areas(evaluation: Any) -> None:
        for ann in evaluation.cocoDt.anns.values():
            ann["area"] = 2**60

    def fewer(evaluation: Any) -> None:
        for found in evaluation._dts.values():
            del found[2:]

    def a_text(evaluation: Any) -> None:
        next(found for found in evaluation._dts.values() if found)[0]["score"] = "0.9"

    def nothing_there(evaluation: Any) -> None:
        evaluation._gts.clear()

    every = (
        thresholds,
        thresholds_in_place,
        ranges,
        overlaps,
        other_overlaps,
        no_overlaps,
        ignored,
        scores,
        ids,
        areas,
    )
    return {each.__name__: each for each in (*every, fewer, a_text, nothing_there)}


@pytest.mark.parametrize("name", changes())
def test_what_is_changed_between_the_steps_counts(name: str) -> None:
    """Nothing is remembered: parameters, overlaps and annotations are those of the moment."""

    def script(tool: Tool) -> Any:
        evaluation = prepared(tool, *as_dataset(SCENE))
        measure_by_steps(evaluation)
        before = match_by_steps(evaluation)
        changes()[name](evaluation)
        return before, match_by_steps(evaluation)

    check_same(script)


@pytest.mark.parametrize("key", ["score", "bbox", "area", "id", "iscrowd", "ignore"])
@pytest.mark.parametrize("side", ["_gts", "_dts"])
def test_what_lacks_something_ends_as_in_pycocotools(key: str, side: str) -> None:
    """At the step that asks for it, if any does."""

    def script(tool: Tool) -> Any:
        evaluation = prepared(tool, *as_dataset(SCENE))
        for annotations in getattr(evaluation, side).values():
            for ann in annotations:
                ann.pop(key, None)
        measure_by_steps(evaluation)
        return match_by_steps(evaluation)

    check_same(script)


def test_a_limit_beyond_what_was_measured_ends_as_in_pycocotools() -> None:
    """There are no overlaps for the rest."""

    def script(tool: Tool) -> Any:
        evaluation = prepared(tool, *as_dataset(SCENE), maxDets=[1])
        measure_by_steps(evaluation)
        return match_by_steps(evaluation, limit=100)

    assert check_same(script) is IndexError


def test_plain_numbers_are_read_by_the_compiled_engine() -> None:
    """And nothing else is: it gives up before it writes a wrong number."""
    evaluation, _ = outcome(partial(prepared, dataset=as_dataset(SCENE)[0], results=as_dataset(SCENE)[1]), OURS)
    pair = next(pair for pair, found in evaluation._dts.items() if len(found) > 1 and evaluation._gts[pair])
    detections, truths = evaluation._dts[pair], evaluation._gts[pair]
    overlap = image_entries.measure_python_numbers(detections, truths, 100)
    thresholds = evaluation.params.iouThrs
    sides = {"detections": detections, "truths": truths, "overlap": overlap}
    rules = image_entries.ImageRules(thresholds=thresholds, area=[0, 1e9], limit=100)
    assert image_entries.match_python_numbers(**sides, rules=rules) is not None
    first, truth = detections[0], truths[0]
    odd_sides: dict[str, list[Any]] = {
        "detections": [tuple(detections), [first | {"score": True}], [first | {"score": float("nan")}], [None]],
        "truths": [[*truths, truth], [truth | {"area": 2**60}], [truth | {"iscrowd": 0.5}]],
        "overlap": [overlap[:1], overlap.astype(np.float32), overlap.ravel(), overlap.tolist()],
    }
    odd_rules: dict[str, list[Any]] = {
        "thresholds": [thresholds.tolist(), thresholds.astype(np.float32), thresholds[::2]],
        "area": [[0, None], [0, 2**60], [0, 1, 2]],
        "limit": [0, -1, None, 1.0],
    }
    for name, values in odd_sides.items():
        for value in values:
            assert image_entries.match_python_numbers(**(sides | {name: value}), rules=rules) is None, (name, value)
    for name, values in odd_rules.items():
        for value in values:
            assert image_entries.match_python_numbers(**sides, rules=rules._replace(**{name: value})) is None, (
                name,
                value,
            )
    for each in ([1, 2, 3], [1, 2, 3, 4, 5], (1, 2, 3, 4), [1, 2, 3, "4"], [1, 2, 3, 10**400], None):
        assert image_entries.measure_python_numbers([first | {"bbox": each}], truths, 100) is None
        assert image_entries.measure_python_numbers(detections, [truth | {"bbox": each}], 100) is None


ODD_POINTS: dict[str, list[float]] = {
    "falling": [1.0, 0.7, 0.2, 0.0],
    "repeated": [0.1, 0.1, 0.0, 0.3, 0.3],
    "beyond 1": [0.0, 0.5, 1.5, 1e300, float("inf"), 0.5],
    "below 0": [-1.0, -float("inf"), 0.0, 0.5],
    "no number": [0.0, float("nan"), 0.2],
    "none": [],
}

EDITS: dict[str, Callable[[list[Any]], object]] = {
    "every detection is right": lambda entries: [entry["dtMatches"].fill(1) for entry in entries],
    "a score that is no number": lambda entries: [
        entry["dtScores"].__setitem__(0, float("nan")) for entry in entries if entry["dtScores"]
    ],
    "fewer thresholds": lambda entries: [
        entry.update(dtMatches=entry["dtMatches"][:3], dtIgnore=entry["dtIgnore"][:3]) for entry in entries
    ],
    "more thresholds": lambda entries: [
        entry.update({key: np.concatenate([entry[key]] * 2) for key in ("dtMatches", "dtIgnore")}) for entry in entries
    ],
}


@pytest.mark.parametrize("edit", ["nothing", *EDITS])
@pytest.mark.parametrize("limits", [[1, 10, 100], [100, 1, 1], [0, 2, 100]], ids=str)
@pytest.mark.parametrize("name", ["default", *ODD_POINTS])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_curves_of_any_entries_at_any_points_are_pycocotools_own(name: str, limits: list[int], edit: str) -> None:
    """From `evalImgs` as they are or as a user has left them: one curve builder for all of it."""

    def script(tool: Tool) -> Any:
        truths = dataset_of(tool, as_dataset(SCENE)[0])
        evaluation = tool.COCOeval(truths, truths.loadRes(as_dataset(SCENE)[1]), "bbox")
        evaluation.params.maxDets = limits
        evaluation.evaluate()
        if edit != "nothing":
            EDITS[edit]([entry for entry in evaluation.evalImgs if entry is not None])
        if name != "default":
            evaluation.params.recThrs = np.array(ODD_POINTS[name])
        evaluation.accumulate()
        return {key: evaluation.eval[key] for key in ("precision", "recall", "scores", "counts")}

    check_same(script)


@pytest.mark.not_sanitized
def test_real_data_gives_every_bit_in_batches() -> None:
    """COCO val2017, 16 images at a time, as an evaluator in a training loop does."""
    names = (shared_data(f"coco_val2017/{name}.json") for name in ("instances_val2017_boxes", "yolox_nano"))
    dataset, results = (json.loads(name.read_text()) for name in names)
    images = sorted(image["id"] for image in dataset["images"])[:96]
    there = [ann for ann in dataset["annotations"] if ann["image_id"] in set(images)]
    dataset = {**dataset, "annotations": there}

    def script(tool: Tool) -> Any:
        truths = dataset_of(tool, dataset)
        evaluation = tool.COCOeval(truths, iouType="bbox")
        entries, p = [], evaluation.params
        for first in range(0, len(images), 16):
            p.imgIds = images[first : first + 16]
            evaluation.cocoDt = truths.loadRes([dict(row) for row in results if row["image_id"] in p.imgIds])
            evaluation._prepare()
            measure_by_steps(evaluation)
            made = np.asarray(match_by_steps(evaluation)).reshape(len(p.catIds), len(p.areaRng), len(p.imgIds))
            entries.append(made)
        p.imgIds = images
        evaluation._paramsEval = copy.deepcopy(p)
        evaluation.evalImgs = list(np.concatenate(entries, axis=2).flatten())
        evaluation.accumulate()
        evaluation.summarize()
        return evaluation

    assert check_same(script).stats[0] > 0.1
