"""boxscore.coco in the place of pycocotools: the same script, the same bits, the same letters."""

import copy
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import boxscore
import boxscore.coco
from tests.support.dropin import (
    OURS,
    SCENE,
    THEIRS,
    Tool,
    check_equal,
    check_same,
    check_same_from,
    dataset_of,
    evaluated,
    from_dicts,
    from_files,
    outcome,
    run,
    write_files,
)
from tests.support.scenes import Scene, as_dataset, random_scene
from tests.support.shared import shared_data
from tests.support.strategies import scenes

pytestmark = pytest.mark.native


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """The scene in two files."""
    return write_files(tmp_path, *as_dataset(SCENE))


@pytest.mark.parametrize("seed", range(12))
def test_everything_is_pycocotools_own(seed: int) -> None:
    """Arrays, stats, evalImgs, ious and the text, from dicts."""
    scene = random_scene(seed, num_images=7, num_classes=5)
    check_same(lambda tool: evaluated(tool, *as_dataset(scene)))


def test_everything_is_pycocotools_own_from_files(files: tuple[str, str]) -> None:
    """The script that most have."""
    check_same(lambda tool: run(from_files(tool, files)))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), scene=scenes(num_images=4))
def test_any_parameters_give_the_same(data: st.DataObject, scene: Scene) -> None:
    """Subsets and repeats of ids, thresholds in any order, limits, ranges and recall points nobody would choose."""
    unit = st.floats(0, 1.25, width=16)
    choices: dict[str, st.SearchStrategy[Any]] = {
        "imgIds": st.lists(st.integers(0, 5), min_size=1, max_size=6),
        "catIds": st.lists(st.integers(0, 5), min_size=1, max_size=6),
        "iouThrs": st.lists(unit, min_size=1, max_size=5).map(np.array),
        "recThrs": st.lists(unit, min_size=1, max_size=7).map(np.array),
        "maxDets": st.lists(st.integers(1, 12), min_size=1, max_size=4),
        "areaRng": st.lists(st.tuples(unit, unit).map(lambda r: [r[0] * 9000, r[1] * 1e5]), min_size=1, max_size=9),
        "useCats": st.sampled_from([0, 1, 1]),
    }
    names = data.draw(st.sets(st.sampled_from(sorted(choices)), max_size=4))
    params = {name: data.draw(choices[name], label=name) for name in sorted(names)}
    check_same(lambda tool: evaluated(tool, *as_dataset(scene), summarize=False, **params))


@pytest.mark.parametrize(
    "change",
    [
        {"recThrs": np.linspace(0, 1, 11)},
        {"recThrs": np.array([0.9, 0.1, 0.5])},
        {"maxDets": [10]},
        {"maxDets": [1, 7, 100]},
        {"catIds": [1, 0]},
        {"catIds": [0, 3, 3, 9]},
        {"areaRng": [[0, 1e10], [1, 2]]},
        {"areaRng": [[0, 32**2], [0, 1e10]]},
        {"imgIds": [3, 4]},
        {"iouThrs": np.array([0.5])},
        {"useCats": 0},
    ],
    ids=str,
)
def test_parameters_may_change_between_evaluate_and_accumulate(change: dict[str, Any]) -> None:
    """In place, or as another set of parameters."""

    def script(tool: Tool, *, is_argument: bool) -> Any:
        evaluation = from_dicts(tool, *as_dataset(SCENE))
        evaluation.evaluate()
        other = copy.deepcopy(evaluation.params) if is_argument else evaluation.params
        for name, value in change.items():
            setattr(other, name, value)
        evaluation.accumulate(other if is_argument else None)
        return evaluation

    for is_argument in (False, True):
        check_same(partial(script, is_argument=is_argument))


def test_the_old_switch_between_boxes_and_masks_works() -> None:
    """`useSegm`, which pycocotools still looks at."""
    check_same(lambda tool: evaluated(tool, *as_dataset(SCENE), useSegm=0))


def test_evaluate_may_be_repeated() -> None:
    """With other images, classes left out, and without classes, after which pycocotools finds nothing."""

    def script(tool: Tool) -> Any:
        evaluation = from_dicts(tool, *as_dataset(SCENE))
        found = []
        for change in ({}, {"imgIds": [1, 2]}, {"catIds": [0, 1]}, {"useCats": 0}, {}):
            for name, value in change.items():
                setattr(evaluation.params, name, value)
            found.append(copy.copy(run(evaluation)))
        return found

    check_same(script)


def test_string_ids_of_images_are_fine(tmp_path: Path) -> None:
    """As far as they are in pycocotools: all strings, or none."""
    dataset, results = as_dataset(SCENE)
    for row in (*dataset["annotations"], *results):
        row["image_id"] = f"image {row['image_id']}"
    for image in dataset["images"]:
        image["id"] = f"image {image['id']}"
    assert check_same_from(dataset, results, tmp_path).stats[0] > 0
    dataset["images"].append({"id": 7})
    assert check_same_from(dataset, results, tmp_path) is TypeError


@pytest.mark.parametrize("key", ["area", "iscrowd", "id", "bbox", "image_id", "category_id"])
def test_annotations_that_lack_something_end_as_in_pycocotools(key: str, tmp_path: Path) -> None:
    """With a KeyError: for one row as for all, and from files as from dicts."""
    for rows in (slice(None), slice(2, 3)):
        dataset, results = as_dataset(SCENE)
        for ann in dataset["annotations"][rows]:
            del ann[key]
        assert check_same_from(dataset, results, tmp_path) is KeyError


def test_a_crowd_needs_no_area() -> None:
    """Nobody looks at it."""
    dataset, results = as_dataset(SCENE)
    for ann in dataset["annotations"]:
        if ann["iscrowd"]:
            del ann["area"]
    assert any("area" not in ann for ann in dataset["annotations"])
    check_same(lambda tool: evaluated(tool, dataset, results))


def test_truths_evaluated_as_results_end_as_in_pycocotools(files: tuple[str, str]) -> None:
    """With a KeyError, since they have no scores; results may be evaluated as truths."""

    def script(tool: Tool, is_swapped: bool) -> Any:
        truths = tool.COCO(files[0])
        results = truths.loadRes(files[1])
        pair = (results, truths) if is_swapped else (results, truths.loadRes(files[1]))
        return run(tool.COCOeval(*pair, "bbox"))

    assert check_same(partial(script, is_swapped=False)).stats[0] > 0.8
    assert check_same(partial(script, is_swapped=True)) is KeyError


def test_entries_that_were_changed_count() -> None:
    """Once `evalImgs` was looked at, curves are drawn from it."""

    def script(tool: Tool) -> Any:
        evaluation = from_dicts(tool, *as_dataset(SCENE))
        evaluation.evaluate()
        for row, entry in enumerate(evaluation.evalImgs):
            if entry is not None and row % 3 == 0:
                entry["dtIgnore"][:, ::2] = True
        evaluation.evalImgs[5] = None
        evaluation.accumulate()
        evaluation.summarize()
        return evaluation

    check_same(script)


def test_entries_that_nobody_reads_are_not_made(files: tuple[str, str]) -> None:
    """Nor dicts of annotations."""
    evaluation, _ = outcome(lambda tool: run(from_files(tool, files)), OURS)
    for name in ("evalImgs", "ious", "_gts", "_dts"):
        assert name not in vars(evaluation)
    for coco in (evaluation.cocoGt, evaluation.cocoDt):
        assert not {"dataset", "anns", "imgs", "cats", "imgToAnns", "catToImgs"} & set(vars(coco))


def test_steps_may_be_called_one_by_one() -> None:
    """`_prepare`, `computeIoU`, `evaluateImg`, as evaluators that replace `evaluate` do."""

    def script(tool: Tool) -> Any:
        evaluation = from_dicts(tool, *as_dataset(SCENE))
        p = evaluation.params
        evaluation._prepare()
        pairs = [(image, label) for image in p.imgIds for label in p.catIds]
        evaluation.ious = {pair: evaluation.computeIoU(*pair) for pair in pairs}
        single = [evaluation.evaluateImg(*pair, [0, 5000], 3) for pair in pairs]
        evaluation.evaluate()
        again = [evaluation.evaluateImg(*pair, [0, 5000], 3) for pair in pairs]
        return single, again, [evaluation.computeIoU(*pair) for pair in pairs]

    check_same(script)


def test_subclasses_may_replace_steps() -> None:
    """Overlaps of their own, entries of their own, another rule of what is ignored."""

    def script(tool: Tool, name: str) -> Any:
        class Other(tool.COCOeval):  # type: ignore[name-defined, misc]
            def computeIoU(self, image: Any, label: Any) -> Any:
                overlap = super().computeIoU(image, label)
                return overlap if len(overlap) == 0 or name != "computeIoU" else overlap**0.5

            def evaluateImg(self, image: Any, label: Any, area: Any, limit: Any) -> Any:
                entry = super().evaluateImg(image, label, area, limit)
                return None if name == "evaluateImg" and image == 3 else entry

            def _prepare(self) -> None:
                super()._prepare()
                if name == "_prepare":
                    for truths in self._gts.values():
                        for truth in truths:
                            truth["ignore"] = truth["ignore"] or truth["id"] % 4 == 0

        for step in {"computeIoU", "evaluateImg", "_prepare"} - {name}:
            delattr(Other, step)
        truths = dataset_of(tool, as_dataset(SCENE)[0])
        return run(Other(truths, truths.loadRes(as_dataset(SCENE)[1]), "bbox"))

    for name in ("computeIoU", "evaluateImg", "_prepare"):
        check_same(partial(script, name=name))


def test_an_evaluation_can_be_copied_and_pickled(files: tuple[str, str]) -> None:
    """Before and after `evalImgs` was looked at."""
    evaluation, _ = outcome(lambda tool: run(from_files(tool, files)), OURS)
    expected, _ = outcome(lambda tool: run(from_files(tool, files)), THEIRS)
    for _ in range(2):
        for again in (copy.deepcopy(evaluation), pickle.loads(pickle.dumps(evaluation))):
            again.accumulate()
            check_equal(again, expected)
            check_equal(again.cocoDt.dataset, expected.cocoDt.dataset)
        assert evaluation.evalImgs


def test_without_100_among_the_limits_ap_is_that_of_the_largest() -> None:
    """The one deliberate difference: pycocotools says -1."""
    for limits, largest in (([1, 5, 10], 10), ([2, 20, 300], 300)):
        dataset, results = as_dataset(SCENE)
        script = partial(evaluated, dataset=dataset, results=results, maxDets=limits)
        (theirs, expected), (ours, text) = outcome(script, THEIRS), outcome(script, OURS)
        assert theirs.stats[0] == -1
        assert np.array_equal(ours.stats[1:], theirs.stats[1:])
        precision = theirs.eval["precision"][:, :, :, 0, limits.index(largest)]
        assert ours.stats[0] == np.mean(precision[precision > -1])
        mine, other = text.splitlines(), expected.splitlines()
        first = next(row for row, line in enumerate(mine) if line.startswith(" Average"))
        assert mine[:first] + mine[first + 1 :] == other[:first] + other[first + 1 :]
        assert f"maxDets={largest:>3} ] = {ours.stats[0]:.3f}" in mine[first]


def test_what_is_called_too_early_is_told_of() -> None:
    """In pycocotools' words where it has any."""
    evaluation = boxscore.coco.COCOeval()
    with pytest.raises(boxscore.InputError, match=r"accumulate\(\) needs the results of evaluate\(\)"):
        evaluation.accumulate()
    with pytest.raises(Exception, match=r"Please run accumulate\(\) first"):
        evaluation.summarize()
    assert outcome(lambda tool: tool.COCOeval(iouType=""), OURS) == outcome(
        lambda tool: tool.COCOeval(iouType=""), THEIRS
    )


@pytest.mark.not_sanitized
@pytest.mark.parametrize(
    ("truths", "results"),
    [
        ("val2014_100/instances_val2014_100.json", "val2014_100/instances_val2014_fakebbox100_results.json"),
        ("coco_val2017/instances_val2017_boxes.json", "coco_val2017/yolox_nano.json"),
    ],
)
def test_real_data_gives_every_bit(truths: str, results: str) -> None:
    """From files; of val2017 the first 250 images, since pycocotools takes its time."""
    files = str(shared_data(truths)), str(shared_data(results))

    def script(tool: Tool) -> Any:
        evaluation = from_files(tool, files)
        evaluation.params.imgIds = evaluation.params.imgIds[:250]
        return run(evaluation)

    check_same(script)
