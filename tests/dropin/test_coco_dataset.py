"""COCO, the dataset of pycocotools: what it answers, which dicts it makes and when, what becomes of its files."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
import boxscore.coco
from tests.support.dropin import OURS, SCENE, Tool, check_same, dataset_of, from_files, outcome, run, write_files
from tests.support.scenes import as_dataset, random_scene

pytestmark = pytest.mark.native


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """The scene in two files."""
    return write_files(tmp_path, *as_dataset(SCENE))


def without_marks(ann: dict[str, Any]) -> dict[str, Any]:
    """An annotation without what pycocotools writes into it as it evaluates."""
    return {key: value for key, value in ann.items() if key not in ("ignore", "_ignore")}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_results_may_be_an_array(dtype: Any) -> None:
    """Of any kind of numbers."""
    dataset, results = as_dataset(SCENE)
    rows = [[row["image_id"], *row["bbox"], row["score"] * 25, row["category_id"]] for row in results]
    array = np.array(rows).astype(dtype)

    def script(tool: Tool) -> Any:
        truths = dataset_of(tool, dataset)
        found = truths.loadRes(array)
        evaluation = run(tool.COCOeval(truths, found, "bbox"))
        return evaluation, found.dataset

    check_same(script)


def test_the_queries_of_a_dataset_are_the_same(files: tuple[str, str]) -> None:
    """Ids by image, class, area, crowd and name; what they load; and what is printed."""

    def script(tool: Tool) -> Any:
        truths = tool.COCO(files[0])
        found = [
            truths.getImgIds(),
            truths.getCatIds(),
            truths.getCatIds(catNms=["class 1"]),
            truths.getCatIds(catIds=2),
        ]
        results = truths.loadRes(files[1])
        truths.info()
        found += [
            truths.getAnnIds(),
            truths.getAnnIds(imgIds=[0, 1]),
            truths.getAnnIds(imgIds=2, catIds=[0, 1]),
            truths.getAnnIds(catIds=np.array([1])),
            truths.getAnnIds(areaRng=[100, 2000]),
            truths.getAnnIds(iscrowd=True),
            truths.getAnnIds(iscrowd=False, imgIds=[5]),
            sorted(truths.getImgIds(imgIds=[1, 2, 3])),
            sorted(truths.getImgIds(catIds=[0, 1])),
            sorted(truths.getImgIds(imgIds=[0, 1, 2], catIds=1)),
            truths.loadAnns([1, 2]),
            truths.loadAnns(3),
            truths.loadCats([0]),
            truths.loadCats(1),
            truths.loadImgs([4, 5]),
            truths.loadImgs(6),
            truths.loadAnns(np.int64(3)),
            truths.anns,
            truths.imgs,
            truths.cats,
            dict(truths.imgToAnns),
            dict(truths.catToImgs),
            truths.dataset,
            results.getImgIds(),
            results.getAnnIds(imgIds=[1]),
            results.dataset["annotations"],
            results.dataset["images"],
            results.dataset["categories"],
            results.dataset["info"],
        ]
        return found

    check_same(script)


def changes_of_a_dataset() -> dict[str, Any]:
    """What users do to dicts before they evaluate."""

    def drop(coco: Any) -> None:
        coco.dataset["annotations"] = coco.dataset["annotations"][::2]
        coco.createIndex()

    def to_crowd(coco: Any) -> None:
        for ann in coco.anns.values():
            ann["iscrowd"] = int(ann["id"] % 3 == 0)

    def by_image(coco: Any) -> None:
        for anns in coco.imgToAnns.values():
            anns[0]["bbox"] = [0, 0, 50, 50]

    def loaded(coco: Any) -> None:
        for ann in coco.loadAnns(coco.getAnnIds(imgIds=[1, 2, 3])):
            ann["area"] = 5000

    def replaced(coco: Any) -> None:
        coco.anns = {key: {**ann, "area": 10} for key, ann in coco.anns.items()}

    def another(coco: Any) -> None:
        coco.dataset = as_dataset(random_scene(8, num_images=9, num_classes=5))[0]
        coco.createIndex()

    def not_indexed(coco: Any) -> None:
        coco.dataset = {"images": [], "annotations": [], "categories": []}

    def fewer_images(coco: Any) -> None:
        coco.imgs = {image: coco.imgs[image] for image in (0, 1, 2)}

    return {
        change.__name__: change
        for change in (drop, to_crowd, by_image, loaded, replaced, another, not_indexed, fewer_images)
    }


@pytest.mark.parametrize("name", changes_of_a_dataset())
def test_dicts_that_were_changed_count(name: str, files: tuple[str, str]) -> None:
    """Before and after the results are loaded, and after the evaluation was made."""
    change = changes_of_a_dataset()[name]

    def script(tool: Tool, when: int) -> Any:
        truths = tool.COCO(files[0])
        if when == 0:
            change(truths)
            results = truths.loadRes(as_dataset(SCENE)[1][:50] if name != "fewer_images" else [])
        else:
            results = truths.loadRes(files[1])
        if when == 1:
            change(truths)
        evaluation = tool.COCOeval(truths, results, "bbox")
        if when == 2:
            change(truths)
        return run(evaluation), results.dataset["images"]

    for when in (0, 1, 2):
        check_same(partial(script, when=when))


def test_subclasses_of_a_dataset_have_their_say(files: tuple[str, str]) -> None:
    """By what they answer, and by the index they make."""

    def script(tool: Tool, name: str) -> Any:
        class Other(tool.COCO):  # type: ignore[name-defined, misc]
            def getAnnIds(self, *values: Any, **named: Any) -> Any:
                return super().getAnnIds(*values, **named)[::2]

            def getImgIds(self, *values: Any, **named: Any) -> Any:
                return super().getImgIds(*values, **named)[:7]

            def createIndex(self) -> None:
                self.dataset["annotations"] = self.dataset["annotations"][5:]
                super().createIndex()

        for step in {"getAnnIds", "getImgIds", "createIndex"} - {name}:
            delattr(Other, step)
        truths = Other(files[0])
        results = tool.COCO(files[0]).loadRes(files[1])
        return run(tool.COCOeval(truths, results, "bbox"))

    for name in ("getAnnIds", "getImgIds", "createIndex"):
        check_same(partial(script, name=name))


def test_truths_without_a_list_of_classes_end_as_in_pycocotools(files: tuple[str, str]) -> None:
    """Results need one."""
    dataset, _ = as_dataset(SCENE)
    del dataset["categories"]

    def script(tool: Tool) -> Any:
        return dataset_of(tool, dataset).loadRes(files[1]).dataset

    assert check_same(script) is KeyError


def test_threads_that_look_at_once_see_the_same_dicts(files: tuple[str, str]) -> None:
    """Of truths and of their results: one thread makes them, the others wait."""
    names = ("anns", "dataset", "imgToAnns", "anns", "imgs", "cats")
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(60):
            evaluation = outcome(lambda tool: from_files(tool, files), OURS)[0]
            pairs = [(coco, name) for coco in (evaluation.cocoGt, evaluation.cocoDt) for name in names]
            at_once = threading.Barrier(len(pairs))

            def look(pair: tuple[Any, str], at_once: threading.Barrier = at_once) -> Any:
                at_once.wait()
                return getattr(*pair)

            with ThreadPoolExecutor(len(pairs)) as pool:
                seen = list(pool.map(look, pairs))
            assert all(value is getattr(*pair) for value, pair in zip(seen, pairs, strict=True))
            for coco in (evaluation.cocoGt, evaluation.cocoDt):
                assert coco.anns[1] is coco.dataset["annotations"][0]
    finally:
        sys.setswitchinterval(interval)


def test_results_that_were_changed_count(files: tuple[str, str]) -> None:
    """Scores, areas and boxes."""

    def script(tool: Tool) -> Any:
        truths = tool.COCO(files[0])
        results = truths.loadRes(files[1])
        for ann in results.dataset["annotations"]:
            ann["score"] = 1 - ann["score"]
            ann["area"] = ann["area"] * 2
        return run(tool.COCOeval(truths, results, "bbox"))

    check_same(script)


def test_a_file_may_be_gone_after_it_was_read(files: tuple[str, str]) -> None:
    """The dicts are there all the same."""

    def script(tool: Tool) -> Any:
        contents = [Path(name).read_bytes() for name in files]
        evaluation = from_files(tool, files)
        for name in files:
            Path(name).unlink()
        run(evaluation)
        for name, content in zip(files, contents, strict=True):
            Path(name).write_bytes(content)
        annotations = [without_marks(ann) for ann in evaluation.cocoGt.anns.values()]
        return evaluation, evaluation.cocoDt.anns, annotations, evaluation.cocoGt.imgs

    check_same(script)


def test_a_file_that_was_written_to_has_no_dicts_any_more(files: tuple[str, str]) -> None:
    """It says so; the columns that were read of it are evaluated all the same."""
    evaluation = from_files(OURS, files)
    expected, _ = outcome(lambda tool: run(from_files(tool, files)), OURS)
    Path(files[1]).write_text("[]")
    assert np.array_equal(run(evaluation).stats, expected.stats)
    with pytest.raises(boxscore.InputError, match=r"results\.json: was written to after it was loaded"):
        evaluation.cocoDt.anns  # noqa: B018 — reading it is the point


def test_another_file_of_the_same_name_is_another_file(files: tuple[str, str]) -> None:
    """What was loaded is what was there."""

    def script(tool: Tool) -> Any:
        content = Path(files[1]).read_bytes()
        evaluation = from_files(tool, files)
        other = Path(files[1]).with_suffix(".other")
        other.write_text("[]")
        other.replace(files[1])
        run(evaluation)
        found = evaluation.cocoDt.anns
        Path(files[1]).write_bytes(content)
        return evaluation, found

    check_same(script)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not list open files")
def test_files_are_closed_with_the_datasets(files: tuple[str, str]) -> None:
    """All that were open for them."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    evaluations = [from_files(OURS, files) for _ in range(3)]
    assert len(list(Path("/proc/self/fd").iterdir())) == before + 6
    assert evaluations.pop().cocoDt.dataset
    evaluations.clear()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_nothing_is_downloaded() -> None:
    """It says where images are to be had."""
    with pytest.raises(boxscore.InputError, match="boxscore downloads no images"):
        boxscore.coco.COCO().download("images")


def images_of(tool: Tool, name: str) -> Any:
    """The images of a file."""
    return tool.COCO(name).imgs


def results_of(tool: Tool, name: str) -> Any:
    """The results of a file."""
    return dataset_of(tool, as_dataset(SCENE)[0]).loadRes(name).anns


def test_files_that_are_no_datasets_end_as_in_pycocotools(tmp_path: Path) -> None:
    """Not JSON, a list, an object without annotations, results that are no list."""
    for row, content in enumerate(["{", "[1]", "{}", '{"images": []}', '"text"']):
        name = tmp_path / f"{row}.json"
        name.write_text(content)
        check_same(partial(images_of, name=str(name)))
        check_same(partial(results_of, name=str(name)))
    check_same(partial(images_of, name="there is no such file"))
