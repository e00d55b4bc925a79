"""Datasets and results as lists of dicts: read by the compiled core, with pycocotools' results and side effects."""

import copy
import gc
import pickle
import sys
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import boxscore._compiled as _compiled
from boxscore.coco import COCO, COCOeval
from boxscore.dropin import evaluated_rows, evaluation
from boxscore.dropin.params import Params
from tests.support.dropin import OURS, SCENE, THEIRS, Tool, check_equal, check_same, dataset_of, outcome, run
from tests.support.pose_scenes import random_poses
from tests.support.scenes import as_dataset

pytestmark = pytest.mark.native

DATASET, RESULTS = as_dataset(SCENE)


def same_types(found: Any, expected: Any) -> bool:
    """Whether two values have the same types, all the way down."""
    if type(found) is not type(expected):
        return False
    if isinstance(expected, dict):
        return all(same_types(found[key], value) for key, value in expected.items())
    if isinstance(expected, list | tuple):
        return all(map(same_types, found, expected))
    return True


@contextmanager
def without_compiled_reader() -> Iterator[None]:
    """All dicts are read by Python, in here, image by image."""
    with patch.object(evaluation, "select_rows", lambda *_: None):
        yield


# --- Reading: the compiled reader and Python give the same ---------------------------------------------------------

NUMBERS: list[Any] = [0, 3, -2, 2**53 + 1, 10**400, 0.5, -1.25, float("nan"), float("inf"), True, False]
NUMBERS += [np.float32(0.1), np.float64(0.3), np.float16(0.2), np.int64(7), np.uint8(3), np.bool_(True), np.array(2.5)]
ODD: list[Any] = [None, "3", "x", [1], 1j]
IDS: list[Any] = [0, 1, 2, 5, True, np.int64(1), np.uint8(2), 1.0, "1", 2**70, np.float64(2), None]
FOUR = st.lists(st.sampled_from(NUMBERS[:3] + NUMBERS[5:]), min_size=4, max_size=4)
BOXES = st.one_of(
    FOUR,
    FOUR.map(tuple),
    st.lists(st.floats(-9, 9, width=32), min_size=4, max_size=4).map(np.array),
    st.lists(st.floats(-9, 9, width=32), min_size=4, max_size=4).map(lambda box: np.array(box, np.float32)),
    st.lists(st.integers(-9, 9), min_size=4, max_size=4).map(np.array),
    st.lists(st.sampled_from(NUMBERS + ODD), max_size=5),
    st.sampled_from(ODD),
)


def mostly(usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The usual nine times of ten: one odd value sends all of a list to the general path."""
    return st.integers(0, 9).flatmap(lambda n: odd if n == 0 else usual)


@st.composite
def annotation_lists(draw: st.DrawFn, *, is_truth: bool) -> list[dict[str, Any]]:
    """Annotations with ids of their own, most of them plain; some values are of other types, or missing."""
    is_odd = draw(st.booleans())
    number = st.sampled_from(NUMBERS + ODD) if is_odd else st.floats(-5, 5)
    rows = []
    for row in range(draw(st.integers(1, 6))):
        annotation = {
            "id": row + 1,
            "image_id": draw(mostly(st.sampled_from([1, 2, 3]), st.sampled_from(IDS))),
            "category_id": draw(mostly(st.sampled_from([1, 2, 3]), st.sampled_from(IDS))),
            "bbox": draw(BOXES if is_odd else FOUR),
            "area": draw(mostly(st.floats(0, 9), number)),
        }
        if is_truth:
            annotation["iscrowd"] = draw(mostly(st.sampled_from([0, 1]), st.sampled_from([True, 2, 0.5, "1", None])))
        else:
            annotation["score"] = draw(mostly(st.floats(0, 1), number))
        if is_odd and draw(st.integers(0, 9)) == 0:
            del annotation[draw(st.sampled_from(list(annotation)))]
        rows.append(annotation)
    return rows


def evaluate(truths: list[Any], results: list[Any], iou_type: str = "bbox", **params: Any) -> Any:
    """`evalImgs` and `ious` of copies of annotations, or the type of the error that ours ends with."""
    sides = []
    for annotations in (truths, results):
        coco = COCO()
        coco.dataset = {"images": [{"id": each} for each in (1, 2, 3)], "annotations": copy.deepcopy(annotations)}
        sides.append(coco)

    def script(_: Tool) -> Any:
        for coco in sides:
            coco.createIndex()
        found = COCOeval(iouType=iou_type)
        found.cocoGt, found.cocoDt = sides
        for name, value in ({"imgIds": [1, 2, 3], "catIds": [1, 2]} | params).items():
            setattr(found.params, name, value)
        found.evaluate()
        return found.evalImgs, found.ious

    return outcome(script, OURS)[0]


def test_scores_of_other_images_do_not_matter() -> None:
    """One that is not a float makes no difference to those that are evaluated, or to none."""
    other = {"image_id": 0, "category_id": 1, "bbox": [0, 0, 1, 1], "area": 1, "score": 1, "id": 1}
    own = {**other, "image_id": 1, "score": 0.5, "id": 2}
    params = Params(iouType="bbox")
    params.imgIds, params.catIds = [1, 2, 3], [1, 2]
    for results in ([other], [other, own]):
        truths, loaded = COCO(), COCO()
        for coco, annotations in ((truths, []), (loaded, results)):
            coco.dataset = {"images": [{"id": 1}], "annotations": annotations}
            coco.createIndex()
        found = evaluated_rows.select_rows(truths, loaded, params)
        assert found is not None
        assert found.given_score is None


@settings(max_examples=100, deadline=None)
@given(truths=annotation_lists(is_truth=True), results=annotation_lists(is_truth=False), pooled=st.booleans())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_compiled_reader_gives_what_python_gives(truths: Any, results: Any, pooled: bool) -> None:
    """For random values of many types: the same entries and overlaps, or the same error."""
    found = evaluate(truths, results, useCats=not pooled)
    with without_compiled_reader():
        expected = evaluate(truths, results, useCats=not pooled)
    check_equal(found, expected)


def test_plain_values_are_read_by_the_compiled_reader() -> None:
    """Of a detector's results and of annotations, with the numbers of Python and of NumPy."""
    keys = ["image_id", "category_id", "id", "iscrowd", "area", "bbox", "score"]
    plain = {"image_id": 7, "category_id": 1, "id": 2, "iscrowd": 0, "area": 3.5, "bbox": [1, 2, 3, 4.5], "score": 0.5}
    of_numpy = {
        **plain,
        "image_id": np.int64(7),
        "area": np.float32(3.5),
        "bbox": np.array([1, 2, 3, 4.5], np.float32),
        "score": np.float32(0.5),
    }
    columns = _compiled.read_dicts([plain, of_numpy], keys, True)
    assert columns is not None
    assert columns.image.tolist() == [7, 7]
    assert columns.box.tolist() == [[1, 2, 3, 4.5]] * 2
    assert columns.score.tolist() == [0.5, 0.5]
    assert not columns.has_int_ids
    assert not columns.has_float_scores


@pytest.mark.parametrize("value", [None, "3", [3], 1j, 2**60, object()], ids=lambda value: type(value).__name__)
def test_other_values_are_left_to_python(value: Any) -> None:
    """The compiled reader gives nothing at all, rather than a part."""
    assert _compiled.read_dicts([{"area": 1.0}, {"area": value}], ["area"], False) is None


@pytest.mark.parametrize("annotations", [(), {}, [1], [{}], [{"area": 1}, None], ({"area": 1},)], ids=repr)
def test_what_is_no_list_of_dicts_is_left_to_python(annotations: Any) -> None:
    """A tuple, a dict, a list of others, and a dict without the key."""
    found = _compiled.read_dicts(annotations, ["area"], False)
    assert found is None or len(found.area) == len(annotations)


def test_an_unknown_key_is_an_error() -> None:
    """Of ours, not of a user's."""
    with pytest.raises(ValueError, match="unknown key"):
        _compiled.read_dicts([], ["colour"], False)


def test_tensors_are_read_by_python() -> None:
    """Boxes, areas and scores of PyTorch, without a dimension or with one."""
    torch = pytest.importorskip("torch")
    results = copy.deepcopy(RESULTS)
    for row in results:
        row["bbox"], row["score"] = [torch.tensor(each) for each in row["bbox"]], torch.tensor(row["score"])
    expected = copy.deepcopy(RESULTS)
    for row in expected:
        row["bbox"] = np.array(row["bbox"], np.float32).tolist()
        row["score"] = float(np.float32(row["score"]))

    def stats(rows: Any) -> Any:
        truths = dataset_of(OURS, DATASET)
        return outcome(lambda tool: run(tool.COCOeval(truths, truths.loadRes(rows), "bbox")), OURS)[0].stats

    found = stats(results)
    assert np.array_equal(found, stats(expected))
    assert found[0] > 0


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_keypoints_are_read_as_python_reads_them(kind: Callable[[Any], Any]) -> None:
    """Lists, tuples and arrays of numbers."""
    dataset, results = random_poses(4)
    for row in results:
        row["keypoints"] = kind([float(each) for each in row["keypoints"]])
        row |= {"area": 9.0, "id": 1}
    for number, row in enumerate(results, start=1):
        row["id"] = number
    images = [image["id"] for image in dataset["images"]]
    params = {"imgIds": images, "catIds": [row["id"] for row in dataset["categories"]]}
    found = evaluate(dataset["annotations"], results, "keypoints", **params)
    with without_compiled_reader():
        expected = evaluate(dataset["annotations"], results, "keypoints", **params)
    assert not isinstance(expected, type)
    check_equal(found, expected)


# --- Changes between the index and the evaluation -----------------------------------------------------------------


def _drop_half(coco: Any) -> None:
    del coco.dataset["annotations"][::2]


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a box": lambda coco: coco.dataset["annotations"][0].update(bbox=[0, 0, 600, 400]),
    "an area": lambda coco: coco.dataset["annotations"][0].update(area=1),
    "a class": lambda coco: coco.dataset["annotations"][0].update(category_id=3),
    "an unknown class": lambda coco: coco.dataset["annotations"][0].update(category_id=99),
    "an image": lambda coco: coco.dataset["annotations"][0].update(image_id=5),
    "an id": lambda coco: coco.dataset["annotations"][0].update(id=2),
    "an unknown id": lambda coco: coco.dataset["annotations"][0].update(id=10**6),
    "the order of two": lambda coco: coco.dataset["annotations"].reverse(),
    "the list, shortened": _drop_half,
    "the list, emptied": lambda coco: coco.dataset["annotations"].clear(),
    "the list, replaced": lambda coco: coco.dataset.update(annotations=[]),
    "the dataset, replaced": lambda coco: setattr(coco, "dataset", {"images": [], "annotations": []}),
    "the dataset, replaced and indexed": lambda coco: (
        coco.dataset.update(annotations=coco.dataset["annotations"][3:]),
        coco.createIndex(),
    ),
    "anns, without one": lambda coco: coco.anns.update({1: coco.anns[2]}),
    "imgToAnns, without an image": lambda coco: coco.imgToAnns.pop(coco.dataset["annotations"][0]["image_id"]),
    "imgToAnns, with one more": lambda coco: coco.imgToAnns[3].append(coco.anns[1]),
    "catToImgs, which is only read": lambda coco: coco.catToImgs[1],
    "imgs, without one": lambda coco: coco.imgs.pop(3),
    "anns, set": lambda coco: setattr(coco, "anns", dict(coco.anns)),
}


@pytest.mark.parametrize("side", ["truths", "results"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_between_the_index_and_the_evaluation_counts(change: str, side: str) -> None:
    """As in pycocotools: the dicts as they are now, of the images that they belonged to then."""

    def script(tool: Tool) -> Any:
        truths = dataset_of(tool, DATASET)
        results = truths.loadRes(copy.deepcopy(RESULTS))
        CHANGES[change](truths if side == "truths" else results)
        evaluation = run(tool.COCOeval(truths, results, "bbox"))
        return evaluation.stats, evaluation.eval["precision"], evaluation.evalImgs

    check_same(script)


def test_an_index_that_is_read_late_is_that_of_its_time() -> None:
    """Changes of ids after `createIndex` do not move an annotation to another image."""

    def script(tool: Tool) -> Any:
        coco = dataset_of(tool, DATASET)
        for row in coco.dataset["annotations"]:
            row["image_id"], row["id"], row["category_id"] = 0, -1, 0
        del coco.dataset["annotations"][3:]
        return dict(coco.anns), dict(coco.imgToAnns), dict(coco.catToImgs), coco.getAnnIds(imgIds=[2, 3])

    found = check_same(script)
    assert len(found[0]) == len(DATASET["annotations"])


@pytest.mark.parametrize("first", ["anns", "imgToAnns", "catToImgs"])
def test_the_parts_of_an_index_share_their_dicts(first: str) -> None:
    """Whichever is read first: the dicts are the user's."""
    coco = dataset_of(OURS, DATASET)
    getattr(coco, first)
    given = coco.dataset["annotations"][0]
    assert coco.anns[given["id"]] is given
    assert any(each is given for each in coco.imgToAnns[given["image_id"]])
    assert coco.anns is coco.anns


def test_datasets_of_dicts_can_be_copied_and_pickled() -> None:
    """Before their index is read, and after."""
    coco = dataset_of(OURS, DATASET)
    for made in (copy.deepcopy(coco), pickle.loads(pickle.dumps(coco))):
        assert made.anns == coco.anns
        assert made.anns[1] is made.dataset["annotations"][0]
        assert made.anns[1] is not coco.anns[1]


def test_a_batch_of_a_large_dataset_is_evaluated_by_its_index() -> None:
    """And all of it in one pass: both with the bits of pycocotools."""
    for images in ([2], [1, 2], list(range(9))):

        def script(tool: Tool, images: list[int] = images) -> Any:
            truths = dataset_of(tool, DATASET)
            evaluation = tool.COCOeval(truths, truths.loadRes(copy.deepcopy(RESULTS)), "bbox")
            evaluation.params.imgIds = images
            return run(evaluation)

        check_same(script)


# --- What loadRes does to the dicts --------------------------------------------------------------------------------

BOX_KINDS: dict[str, Callable[[list[float]], Any]] = {
    "floats": list,
    "whole numbers": lambda box: [int(each) for each in box],
    "both": lambda box: [int(box[0]), *box[1:]],
    "a tuple": tuple,
    "an array": np.array,
    "an array of float32": lambda box: np.array(box, np.float32),
    "NumPy's numbers": lambda box: [np.float32(each) for each in box],
    "large numbers": lambda _: [2**60, 3, 2**62, 5],
    "five numbers": lambda box: [*box, 0.5],
    "bools": lambda _: [True, False, True, True],
    "three numbers": lambda box: box[:3],
    "text": lambda _: ["a", "b", "c", "d"],
    "nothing": lambda _: None,
    "a dict": lambda box: dict(enumerate(box)),
}


@pytest.mark.parametrize("kind", BOX_KINDS)
@pytest.mark.parametrize("row", [0, 3])
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_results_are_completed_in_place_as_pycocotools_does(kind: str, row: int) -> None:
    """The same keys in the same order, the same values of the same types; also those before an error."""

    def script(tool: Tool) -> Any:
        results = copy.deepcopy(RESULTS[:6])
        results[row]["bbox"] = BOX_KINDS[kind](results[row]["bbox"])
        results[4]["segmentation"] = [[1, 2, 3, 4, 5, 6]]
        results[5] |= {"id": 3, "iscrowd": 1, "area": None}
        truths = dataset_of(tool, DATASET)
        try:
            truths.loadRes(results)
        except Exception as error:
            return results, (type(error), str(error))
        return results, None

    found = check_same(script)
    assert same_types(found, outcome(script, THEIRS)[0])


def test_a_dict_that_is_in_the_list_twice_has_the_id_of_its_last_place() -> None:
    """So the other id names nothing, and the dict counts twice."""

    def script(tool: Tool) -> Any:
        results = copy.deepcopy(RESULTS)
        results[5] = results[2]
        truths = dataset_of(tool, DATASET)
        loaded = truths.loadRes(results)
        evaluation = run(tool.COCOeval(truths, loaded, "bbox"))
        return sorted(loaded.anns), results, evaluation.stats, evaluation.evalImgs

    assert 3 not in check_same(script)[0]


def test_results_may_be_loaded_again() -> None:
    """With the dicts of the first time, in another order."""

    def script(tool: Tool) -> Any:
        results = copy.deepcopy(RESULTS)
        truths = dataset_of(tool, DATASET)
        truths.loadRes(results)
        results.reverse()
        loaded = truths.loadRes(results)
        return results, dict(loaded.anns), run(tool.COCOeval(truths, loaded, "bbox")).stats

    check_same(script)


@pytest.mark.parametrize("key", ["image_id", "category_id", "bbox", "score"])
def test_results_that_lack_a_key_end_as_in_pycocotools(key: str) -> None:
    """A `KeyError`, when the key is first needed."""

    def script(tool: Tool) -> Any:
        results = copy.deepcopy(RESULTS)
        del results[7][key]
        truths = dataset_of(tool, DATASET)
        return run(tool.COCOeval(truths, truths.loadRes(results), "bbox")).stats

    assert check_same(script) is KeyError


class Loud(dict[str, Any]):
    """A dict of another class, which no compiled reader may take for a plain one."""

    def __getitem__(self, key: str) -> Any:
        return 9.5 if key == "area" else super().__getitem__(key)


def test_dicts_of_other_classes_have_their_say() -> None:
    """Their own `__getitem__` is called."""

    def script(tool: Tool) -> Any:
        truths = dataset_of(tool, DATASET | {"annotations": [Loud(row) for row in DATASET["annotations"]]})
        return run(tool.COCOeval(truths, truths.loadRes([Loud(row) for row in copy.deepcopy(RESULTS)]), "bbox"))

    check_same(script)


@pytest.mark.parametrize(
    "points",
    [
        [1.5, 2.5, 1, 3.25, 4.5, 2],
        [1, 2, 1, 3, 4, 2],
        [1, 2.5, 1, 3, 4, 2],
        [0.0, -0.0, 1, -0.0, 0.0, 2],
        [-0.0, 5.0, 1, 2.0, 3.0, 2],
        [float("nan"), 1.0, 2, 1.0, 2.0, 2],
        [np.float32(1.5), np.float32(2), 1, np.float32(7), np.float32(4), 1],
        (1.5, 2.5, 1, 3.25, 4.5, 2),
    ],
    ids=repr,
)
def test_results_with_keypoints_are_completed_as_pycocotools_does(points: Any) -> None:
    """With NumPy's numbers, whatever the keypoints are."""

    def script(tool: Tool) -> Any:
        results = [{"image_id": image, "category_id": 1, "keypoints": points, "score": 0.5} for image in (1, 2)]
        results[0]["keypoints"] = [1.5, 2.5, 1, 3.25, 4.5, 2]
        dataset_of(tool, DATASET).loadRes(results)
        return results

    found = check_same(script)
    assert same_types(found, outcome(script, THEIRS)[0])
    assert repr(found) == repr(outcome(script, THEIRS)[0])


# --- References ----------------------------------------------------------------------------------------------------

KEYS = ["image_id", "category_id", "id", "iscrowd", "area", "bbox", "score", "keypoints"]


def shared_values() -> dict[str, Any]:
    """An annotation whose values are objects of their own, so that their references can be counted."""
    numbers = [float(each) + 0.123 for each in range(6)]
    return {
        "image_id": 10**9 + 7,
        "category_id": 10**9 + 8,
        "id": 10**9 + 9,
        "iscrowd": np.int64(1),
        "area": 12.5 + numbers[0],
        "bbox": [numbers[0], np.float32(2.5), numbers[2], numbers[3]],
        "score": np.float32(0.25),
        "keypoints": numbers,
    }


def references(values: dict[str, Any]) -> list[int]:
    """How often each value is referred to."""
    objects = [values, *values.values(), *values["bbox"], *values["keypoints"]]
    return [sys.getrefcount(each) for each in objects]


def test_reading_keeps_no_references() -> None:
    """Neither where all is plain, nor where the reader gives up in the middle."""
    values = shared_values()
    wrong = {**values, "score": object()}
    before = references(values)
    for _ in range(20):
        columns = _compiled.read_dicts([values] * 50, KEYS, False)
        assert columns is not None
        assert _compiled.read_dicts([values] * 50 + [wrong], KEYS, False) is None
        _compiled.boxes_around_keypoints([values, wrong])
        del columns
    assert references(values) == before


def test_completing_keeps_the_references_of_the_dicts_alone() -> None:
    """Once the dicts are gone, so is everything that was added to them."""
    box = [10.5, 20.25, 30.125, 40.0625]
    before = [sys.getrefcount(each) for each in (box, *box)]
    for _ in range(20):
        _compiled.complete_boxes([{"bbox": box} for _ in range(50)])
        with pytest.raises(TypeError):
            _compiled.complete_boxes([{"bbox": box}, {"bbox": [*box[:3], None]}])
    gc.collect()
    assert [sys.getrefcount(each) for each in (box, *box)] == before


def test_completing_leaves_no_memory_behind() -> None:
    """Of the lists, floats and integers that it makes."""

    def complete() -> None:
        _compiled.complete_boxes([{"bbox": [1.5, 2.5, 3.5, 4.5]} for _ in range(2000)])
        poses = [{"keypoints": [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]} for _ in range(2000)]
        _compiled.complete_keypoints(poses, _compiled.boxes_around_keypoints(poses), tuple)

    complete()
    gc.collect()
    tracemalloc.start()
    complete()
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(5):
        complete()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 20_000, "five times 2,000 results would take megabytes"


class Owner:
    """An object that can be referred to weakly."""


@pytest.mark.parametrize("num", [1, 20_000])
def test_a_cycle_through_a_list_that_was_added_is_collected(num: int) -> None:
    """The garbage collector knows every list in the user's dicts."""
    owner, results = Owner(), [{"bbox": [1.5, 2.5, 3.5, 4.5]} for _ in range(num)]
    _compiled.complete_boxes(results)
    outline: Any = results[0]["segmentation"]
    assert gc.is_tracked(outline)
    assert gc.is_tracked(outline[0])
    outline[0].append((outline, owner))
    gone = weakref.ref(owner)
    del owner, results, outline
    gc.collect()
    assert gone() is None


def test_objects_that_were_frozen_stay_frozen() -> None:
    """As servers freeze what they share with their workers."""
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        _compiled.complete_boxes([{"bbox": [1.5, 2.5, 3.5, 4.5]} for _ in range(20_000)])
        assert before > 0
        assert gc.get_freeze_count() > before / 2, "some may have been freed since"
    finally:
        gc.unfreeze()
    _compiled.complete_boxes([{"bbox": [1.5, 2.5, 3.5, 4.5]} for _ in range(20_000)])
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_garbage_collector_is_as_it_was(is_enabled: bool) -> None:
    """Also after an error."""
    (gc.enable if is_enabled else gc.disable)()
    try:
        _compiled.complete_boxes([{"bbox": [1, 2, 3, 4]}])
        assert gc.isenabled() is is_enabled
        with pytest.raises(KeyError):
            _compiled.complete_boxes([{}])
        assert gc.isenabled() is is_enabled
    finally:
        gc.enable()


class Thief(float):
    """A width that empties the list of results while they are completed."""

    victims: list[Any]

    def __radd__(self, other: float) -> float:
        self.victims.clear()
        return other


def test_a_list_that_shrinks_while_it_is_completed_is_no_harm() -> None:
    """What is left of it is completed."""
    width = Thief(3)
    results: list[Any] = [{"bbox": [1.5, 2.5, width, 3.5]}, {"bbox": [1.5, 2.5, 3.5, 4.5]}]
    width.victims = results
    first, second = results
    _compiled.complete_boxes(results)
    assert "area" in first
    assert "area" not in second
