"""What nobody should hand to boxscore.coco, and some do: it gives what pycocotools gives, or ends as it ends."""

import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from tests.support.dropin import (
    OURS,
    SCENE,
    THEIRS,
    Tool,
    check_same,
    check_same_from,
    dataset_of,
    evaluated,
    from_files,
    outcome,
    run,
    write_files,
)
from tests.support.scenes import as_dataset

pytestmark = pytest.mark.native

ODD_TRUTHS: dict[str, dict[str, Any]] = {
    "the id 0": {"id": 0},
    "the id of another": {"id": 2},
    "an id below 0": {"id": -4},
    "an id that is not whole": {"id": 0.5},
    "an id of digits": {"id": "77"},
    "an id that is a word": {"id": "seven"},
    "an iscrowd of 2": {"iscrowd": 2},
    "an iscrowd of a half": {"iscrowd": 0.5},
    "a negative width": {"bbox": [5, 5, -3, 4]},
    "a negative area": {"area": -1},
    "an image that nobody lists": {"image_id": 99},
    "a class that nobody lists": {"category_id": 99},
    "an ignore of its own": {"ignore": 1},
}

ODD_RESULTS: dict[str, dict[str, Any]] = {
    "a negative width": {"bbox": [5, 5, -3, 4]},
    "an infinite score": {"score": float("inf")},
    "a score that is no number": {"score": float("nan")},
    "a whole score": {"score": 1},
    "an image that nobody lists": {"image_id": 99},
    "a class that nobody lists": {"category_id": 99},
    "an outline": {"segmentation": [[0, 0, 5, 0, 5, 5]]},
    "a caption": {"caption": "a box"},
    "an id of its own": {"id": 0, "area": 3, "iscrowd": 1},
}


@pytest.mark.parametrize("name", ODD_TRUTHS)
def test_odd_truths_give_the_same_or_end_the_same(name: str, tmp_path: Path) -> None:
    """Whatever pycocotools makes of them."""
    dataset, results = as_dataset(SCENE)
    dataset["annotations"][0] |= ODD_TRUTHS[name]
    check_same_from(dataset, results, tmp_path)


@pytest.mark.parametrize("name", ODD_RESULTS)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_odd_results_give_the_same_or_end_the_same(name: str, tmp_path: Path) -> None:
    """Whatever pycocotools makes of them."""
    dataset, results = as_dataset(SCENE)
    results[0] |= ODD_RESULTS[name]
    check_same_from(dataset, results, tmp_path)


ODD_SCORES: dict[str, Any] = {"null": None, "text": "0.9", "a list": [0.5], "true": True, "a whole number": 3}


@pytest.mark.parametrize("name", ODD_SCORES)
@pytest.mark.parametrize("rows", [slice(1), slice(None)], ids=["one", "all"])
def test_odd_scores_give_the_same_or_end_the_same(name: str, rows: slice, tmp_path: Path) -> None:
    """Text, lists and nothing can't be negated; `true` is 1, unless nothing else is among the scores of a class."""
    dataset, results = as_dataset(SCENE)
    for row in results[rows]:
        row["score"] = ODD_SCORES[name]
    ends = check_same_from(dataset, results, tmp_path) is TypeError
    assert ends == (name in ("null", "text", "a list") or (name == "true" and rows.stop is None))


def test_scores_are_handed_on_as_they_came() -> None:
    """In `evalImgs`, also their types."""
    dataset, results = as_dataset(SCENE)
    for row, value in zip(results, (1, True, np.float32(0.5), np.float64(0.25)), strict=False):
        row["score"] = value
    theirs, ours = (outcome(partial(evaluated, dataset=dataset, results=results), tool)[0] for tool in (THEIRS, OURS))
    types = [
        [[type(score) for score in entry["dtScores"]] for entry in evaluation.evalImgs if entry]
        for evaluation in (theirs, ours)
    ]
    assert types[0] == types[1]
    assert {bool, int, float, np.float32, np.float64} == {each for entry in types[1] for each in entry}


def test_a_score_beyond_all_floats_is_refused(tmp_path: Path) -> None:
    """One that pycocotools takes: its curves break off there, so that what it says of the class is next to nothing."""
    dataset, results = as_dataset(SCENE)
    expected = outcome(partial(evaluated, dataset=dataset, results=results), THEIRS)[0].stats[0]
    results[0]["score"] = 10**400
    theirs = outcome(partial(evaluated, dataset=dataset, results=results), THEIRS)[0].stats[0]
    assert theirs < 0.6 * expected
    message = r"result 1 of image \d+: `score` must be a number that a float64 can hold; got an integer beyond 1e308"
    with pytest.raises(boxscore.InputError, match=message):
        evaluated(OURS, dataset, results)
    with pytest.raises(boxscore.InputError, match=message):
        run(from_files(OURS, write_files(tmp_path, dataset, results)))


def with_angles(num: int = 5) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A scene whose boxes have more numbers than four: results, and truths if there are five."""
    dataset, results = as_dataset(SCENE)
    for row, ann in enumerate([*results, *(dataset["annotations"] if num == 5 else [])]):
        ann["bbox"] = [*ann["bbox"], *(10 * row % 90 + extra for extra in range(num - 4))]
    return dataset, results


@pytest.mark.parametrize("num", [5, 6])
def test_boxes_of_more_numbers_are_loaded_by_their_first_four(num: int, tmp_path: Path) -> None:
    """From dicts and files: outline, area, ids. They have no overlap, which ends the same."""
    dataset, results = with_angles(num)
    files = write_files(tmp_path, dataset, results)

    def loaded(tool: Tool, is_file: bool) -> Any:
        given = files[1] if is_file else copy.deepcopy(results)
        return tool.COCO(files[0]).loadRes(given).dataset

    for is_file in (False, True):
        found = check_same(partial(loaded, is_file=is_file))
        x, y, width, height, *_ = results[0]["bbox"]
        first = found["annotations"][0]
        assert first["area"] == width * height
        assert first["segmentation"] == [[x, y, x, y + height, x + width, y + height, x + width, y]]
    check_same_from(dataset, results, tmp_path)
    with pytest.raises(
        Exception, match=r"`bbox` must have 4 numbers to be evaluated, .*; got [56]\. Rotated boxes need"
    ):
        evaluated(OURS, dataset, results)


def test_boxes_of_fewer_numbers_end_as_in_pycocotools() -> None:
    """When they are loaded."""
    dataset, results = as_dataset(SCENE)
    results[3]["bbox"] = [1, 2, 3]
    assert check_same(lambda tool: evaluated(tool, dataset, results)) is IndexError


def test_an_evaluator_of_rotated_boxes_gives_the_same() -> None:
    """A subclass that measures boxes of five numbers itself, as detectron2's does."""
    dataset, results = with_angles()

    def script(tool: Tool) -> Any:
        class Rotated(tool.COCOeval):  # type: ignore[name-defined, misc]
            def computeIoU(self, image: Any, label: Any) -> Any:
                truths, found = self._gts[image, label], self._dts[image, label]
                if not truths or not found:
                    return []
                order = np.argsort([-each["score"] for each in found], kind="mergesort")[: self.params.maxDets[-1]]
                turned = [
                    abs(np.subtract.outer(found[row]["bbox"], [t["bbox"] for t in truths])[4, :, 4]) for row in order
                ]
                return 1 / (1 + np.array(turned) / 30)

        truths = dataset_of(tool, dataset)
        return run(Rotated(truths, truths.loadRes(copy.deepcopy(results)), "bbox"))

    assert check_same(script).stats[0] > 0


def perfect(ids: list[int], folder: Path) -> tuple[Any, float]:
    """What boxscore.coco makes of an image with a detection on every truth, and what boxscore makes of its files."""
    boxes = [[40 * row, 0, 30 + row, 30] for row in range(len(ids))]
    rows: list[dict[str, Any]] = [{"image_id": 1, "category_id": 1, "bbox": box} for box in boxes]
    dataset = {"images": [{"id": 1, "width": 640, "height": 480}], "categories": [{"id": 1, "name": "cat"}]} | {
        "annotations": [
            row | {"id": number, "area": row["bbox"][2] * 30, "iscrowd": 0}
            for number, row in zip(ids, rows, strict=True)
        ]
    }
    results = [row | {"score": 0.9} for row in rows]
    found = check_same_from(dataset, results, folder)
    read = boxscore.read_truths(folder / "truths.json")
    return found, boxscore.evaluate(boxscore.read_detections(folder / "results.json", read), read)["map"]


def test_truths_whose_id_is_0_are_never_found_as_in_coco(tmp_path: Path) -> None:
    """A match is kept as the truth's id, and 0 means none. Files and the command look at boxes, not at ids."""
    found, other = perfect([0], tmp_path)
    assert (found.stats[0], other) == (0.0, 1 / (1 + np.spacing(1)))
    # Of ids 0, 1, 2 the first is lost, which also counts as a false positive: precision 2 / 3 up to a recall of 2 / 3,
    # since it ranks first. 67 of 101 recall points are reached.
    found, other = perfect([0, 1, 2], tmp_path)
    assert found.stats[0] == pytest.approx(2 / 3 * 67 / 101, abs=1e-12)
    assert other == 1.0
    found, other = perfect([1, 2, 3], tmp_path)
    assert found.stats[0] == other == 1.0


def test_truths_that_share_an_id_become_the_last_of_them_as_in_coco(tmp_path: Path) -> None:
    """Each is looked up by its id. The other boxes are never found; files and the command take each as it is."""
    found, other = perfect([7, 7], tmp_path)
    # Two truths, both the second box: its detection finds one, the other detection none. It ranks first, so that
    # precision is 1 / 2 up to a recall of 1 / 2: 51 of 101 recall points.
    assert found.stats[0] == pytest.approx(1 / 2 * 51 / 101, abs=1e-12)
    assert [entry["gtIds"] for entry in found.evalImgs[:1]] == [[7, 7]]
    assert other == 1.0


@pytest.mark.parametrize("name", ["images", "annotations", "categories", "results"])
def test_nothing_gives_the_same_or_ends_the_same(name: str, tmp_path: Path) -> None:
    """No images, no truths, no classes, no results."""
    dataset, results = as_dataset(SCENE)
    if name == "results":
        results = []
    else:
        dataset[name] = []
    check_same_from(dataset, results, tmp_path)


def test_images_that_share_an_id_are_one(tmp_path: Path) -> None:
    """As in pycocotools."""
    dataset, results = as_dataset(SCENE)
    dataset["images"].append({"id": 0})
    check_same_from(dataset, results, tmp_path)
