"""Masks through the drop-in: every array, entry, overlap and letter of pycocotools."""

import copy
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pycocotools import mask as reference

import boxscore
import boxscore.coco
from tests.support.dropin import (
    OURS,
    THEIRS,
    Tool,
    check_equal,
    check_same,
    dataset_of,
    evaluated,
    from_dicts,
    from_files,
    match_by_steps,
    measure_by_steps,
    run,
    write_files,
)
from tests.support.mask_scenes import random_masks
from tests.support.shared import shared_data

pytestmark = pytest.mark.native


@pytest.mark.parametrize("has_boxes", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_everything_is_pycocotools_own(seed: int, has_boxes: bool) -> None:
    """From dicts: crowds, ties, empty masks, masks of another size, images without masks."""
    dataset, results = random_masks(seed, has_boxes=has_boxes)
    check_same(lambda tool: evaluated(tool, dataset, results, iou_type="segm"))


@pytest.mark.parametrize("has_boxes", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_everything_is_pycocotools_own_from_files(seed: int, has_boxes: bool, tmp_path: Path) -> None:
    """Masks and boxes, one after the other, from one reading."""
    files = write_files(tmp_path, *random_masks(seed, has_boxes=has_boxes))

    def script(tool: Tool) -> Any:
        truths = tool.COCO(files[0])
        results = truths.loadRes(files[1])
        return [run(tool.COCOeval(truths, results, kind)) for kind in ("bbox", "segm", "bbox")]

    check_same(script)


@pytest.mark.parametrize(
    "params", [{"useCats": 0}, {"maxDets": [1, 2, 3]}, {"imgIds": [1, 4]}, {"catIds": [2, 0]}], ids=str
)
def test_parameters_change_the_same(params: dict[str, Any], tmp_path: Path) -> None:
    """From dicts and from files."""
    dataset, results = random_masks(3, has_boxes=True)
    files = write_files(tmp_path, dataset, results)

    def script(tool: Tool) -> Any:
        evaluation = from_files(tool, files, "segm")
        for name, value in params.items():
            setattr(evaluation.params, name, copy.copy(value))
        return run(evaluation, summarize=False)

    check_same(script)
    check_same(lambda tool: evaluated(tool, dataset, results, iou_type="segm", summarize=False, **params))


def test_masks_that_were_not_wanted_before_are_read_when_they_are(tmp_path: Path) -> None:
    """By class, then whatever the class, then against other truths; the files may be gone by then."""
    dataset, results = random_masks(4, num_images=40, has_boxes=True)
    for row in results[::3]:
        row["category_id"] = (row["category_id"] + 1) % 3
    others = copy.deepcopy(dataset)
    for ann in others["annotations"]:
        ann["category_id"] = dataset["annotations"][0]["category_id"]
    files = write_files(tmp_path, dataset, results)
    (tmp_path / "others").mkdir()
    other_files = write_files(tmp_path / "others", others, results)
    loaded = {}
    for tool in (THEIRS, OURS):
        truths = tool.COCO(files[0])
        loaded[tool] = truths, truths.loadRes(files[1]), tool.COCO(other_files[0])
    for file in (*files, *other_files):
        Path(file).unlink()

    def script(tool: Tool) -> Any:
        truths, found, other_truths = loaded[tool]
        pooled = tool.COCOeval(truths, found, "segm")
        pooled.params.useCats = 0
        by_class, by_others = (tool.COCOeval(each, found, "segm") for each in (truths, other_truths))
        return [run(each) for each in (by_class, pooled, by_others)]

    check_same(script)


def test_results_that_have_boxes_alone_are_evaluated_by_the_masks_of_these(tmp_path: Path) -> None:
    """As in COCO: `loadRes` gives them the outline of their box."""
    dataset, results = random_masks(5, has_boxes=True)
    results = [{key: value for key, value in row.items() if key != "segmentation"} for row in results]
    check_same(lambda tool: evaluated(tool, dataset, results, iou_type="segm"))
    files = write_files(tmp_path, dataset, results)
    check_same(lambda tool: run(from_files(tool, files, "segm")))


@pytest.mark.parametrize("row", [0, 3])
def test_a_file_in_which_a_result_has_no_mask(row: int, tmp_path: Path) -> None:
    """It has the mask of its box, and all others have their own, as in pycocotools."""
    dataset, results = random_masks(5, has_boxes=True)
    del results[row]["segmentation"]
    files = write_files(tmp_path, dataset, results)
    check_same(lambda tool: run(from_files(tool, files, "segm")))


@pytest.mark.parametrize("broken", [None, "5", 7, [], {"size": [9, 9], "counts": "zzzz"}])
@pytest.mark.parametrize("row", [0, 3])
def test_a_file_in_which_a_mask_is_invalid_is_refused(row: int, broken: Any, tmp_path: Path) -> None:
    """By name, and no other mask is replaced by its box."""
    dataset, results = random_masks(5, has_boxes=True)
    results[row]["segmentation"] = broken
    files = write_files(tmp_path, dataset, results)
    with pytest.raises(boxscore.InputError, match=rf"annotation {row + 1} of image \d+: `segmentation` "):
        run(from_files(OURS, files, "segm"))


def test_steps_by_themselves() -> None:
    """As evaluators call them that match image by image: `_prepare`, `computeIoU`, `evaluateImg`."""
    dataset, results = random_masks(7)

    def script(tool: Tool) -> Any:
        evaluation = from_dicts(tool, dataset, results, iou_type="segm")
        evaluation._prepare()
        measure_by_steps(evaluation)
        return evaluation.ious, match_by_steps(evaluation)

    check_same(script)


def test_a_subclass_with_a_step_of_its_own() -> None:
    """Is asked for every image."""
    dataset, results = random_masks(8)

    def script(tool: Tool) -> Any:
        class Own(tool.COCOeval):  # type: ignore[misc, name-defined]
            def computeIoU(self, imgId: Any, catId: Any) -> Any:
                found = super().computeIoU(imgId, catId)
                return np.asarray(found) / 2 if len(found) else found

        truths = dataset_of(tool, dataset)
        return run(Own(truths, truths.loadRes(copy.deepcopy(results)), "segm"))

    check_same(script)


def test_masks_of_annotations_in_every_spelling() -> None:
    """`annToRLE` and `annToMask`, of polygons, plain and compressed run lengths."""
    dataset, _ = random_masks(2, num_images=9)

    def script(tool: Tool) -> Any:
        coco = dataset_of(tool, dataset)
        return [(coco.annToRLE(ann), coco.annToMask(ann)) for ann in coco.anns.values()]

    assert len(check_same(script)) > 10


def test_dicts_read_after_an_evaluation_are_pycocotools_own(tmp_path: Path) -> None:
    """`anns` of results from a file: areas, boxes and ids."""
    for has_boxes in (False, True):
        files = write_files(tmp_path, *random_masks(9, has_boxes=has_boxes))

        def script(tool: Tool) -> Any:
            evaluation = run(from_files(tool, files, "segm"))  # noqa: B023 (called at once)
            return [
                {key: value for key, value in ann.items() if key != "segmentation"}
                for ann in evaluation.cocoDt.anns.values()
            ]

        check_same(script)


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        ({"size": [4, 4], "counts": "0"}, "`counts` must have run lengths for the 4 x 4 pixels of `size`; got fewer"),
        ({"size": [4, 4], "counts": "P0"}, "`counts` must have run lengths for the 4 x 4 pixels of `size`; got fewer"),
        ({"size": [4, 4], "counts": "`"}, "`counts` must be compressed run lengths; the last one is cut off"),
        ({"size": [4, 4], "counts": "!"}, "`counts` must be compressed run lengths, of the characters '0' to 'o'"),
        (
            {"size": [4, 4], "counts": [3, 20]},
            "`counts` must have run lengths for the 4 x 4 pixels of `size`; got more",
        ),
        ({"size": [4, 4], "counts": [17, -1]}, "`counts` must"),
        ({"size": [10**9, 10**9], "counts": "0"}, "must have at most 4294967295 pixels"),
        ({"size": [4], "counts": "0"}, "must have a `size` of two whole numbers, height and width"),
        ([[1, 2, 3, 4, 5, 6, 7]], "must have polygons of pairs x, y; got 7 numbers"),
        ([[1, 2, float("nan"), 4, 5, 6]], "must have polygons of finite numbers"),
        ([], "must have at least one polygon; got none"),
        (None, "must be a dict with `size` and `counts`, or a list of polygons; got NoneType"),
    ],
    ids=str,
)
def test_what_is_no_mask_is_an_error(broken: Any, rule: str) -> None:
    """That names the annotation and the rule, before any number is given."""
    dataset, results = random_masks(4, has_boxes=True)
    for side, rows in enumerate((dataset["annotations"], results)):
        good, rows[0]["segmentation"] = rows[0]["segmentation"], broken
        evaluation = from_dicts(OURS, dataset, results, iou_type="segm")
        where = f"annotation 1 of image {rows[0]['image_id']}: `segmentation` "
        with pytest.raises(boxscore.InputError, match=re.escape(f"{where}{rule}")):
            evaluation.evaluate()
        assert evaluation.eval == {}, side
        rows[0]["segmentation"] = good


def test_the_example_of_the_coco_api() -> None:
    """100 images of val2014: mask AP .3195, to the last bit, and everything beside it."""
    files = tuple(
        str(shared_data(f"val2014_100/{name}"))
        for name in ("instances_val2014_100.json", "instances_val2014_fakesegm100_results.json")
    )
    evaluation = check_same(lambda tool: run(from_files(tool, (files[0], files[1]), "segm")))
    assert evaluation.stats[0] == 0.3195452758576433


def test_real_outlines_against_masks_near_them() -> None:
    """COCO annotations with polygons and crowds, and results that are moved by some pixels."""
    dataset = json.loads(shared_data("masks/instances_coco_tiny.json").read_text())
    sizes = {image["id"]: (image["height"], image["width"]) for image in dataset["images"]}
    coco = dataset_of(OURS, dataset)
    random = np.random.default_rng(0)
    results = []
    for row in dataset["annotations"]:
        pixels = coco.annToMask(row)
        assert pixels.shape == sizes[row["image_id"]]
        pixels = np.roll(pixels, random.integers(-6, 7, 2), axis=(0, 1))
        rle = reference.encode(np.asfortranarray(pixels))
        found = {"image_id": row["image_id"], "category_id": row["category_id"], "score": round(random.random(), 2)}
        results.append(found | {"segmentation": rle})
    evaluation = check_same(lambda tool: evaluated(tool, dataset, results, iou_type="segm"))
    assert 0.2 < evaluation.stats[0] < 0.95


def test_nothing_of_pycocotools_is_needed() -> None:
    """No module of it is imported for masks."""
    dataset, results = random_masks(1)
    assert "pycocotools" not in boxscore.coco.mask.iou.__module__
    evaluation = run(from_dicts(OURS, dataset, results, iou_type="segm"))
    check_equal(len(evaluation.stats), 12)


def _run_files(files: tuple[str, str], tool: Tool) -> Any:
    return run(from_files(tool, files, "segm"))


EMPTY_RUNS: dict[str, Any] = {"text": "Yk00a0f9", "a list": [873, 0, 17, 310]}
"""The last 310 of 30 x 40 pixels, with a run of no pixels before them."""


@pytest.mark.parametrize("given", EMPTY_RUNS)
@pytest.mark.parametrize("is_crowd", [0, 1])
def test_masks_are_compared_up_to_where_both_have_an_empty_run_as_in_coco(
    given: str, is_crowd: int, tmp_path: Path
) -> None:
    """A quirk of the drop-in, from dicts, files and step by step. Everything else compares pixels."""
    pixels = np.zeros(1200, np.uint8)
    pixels[890:] = 1
    empty = {"size": [30, 40], "counts": EMPTY_RUNS[given]}
    usual = reference.encode(np.asfortranarray(pixels.reshape(30, 40, order="F")))
    usual = {"size": usual["size"], "counts": usual["counts"].decode()}
    shape = {"image_id": 1, "category_id": 1, "bbox": [29, 0, 11, 30]}
    overlaps = {}
    for name, masks in {"both": (empty, empty), "one": (empty, usual), "none": (usual, usual)}.items():
        truth = {**shape, "id": 1, "area": 310, "iscrowd": is_crowd, "segmentation": masks[0]}
        dataset = {"images": [{"id": 1, "height": 30, "width": 40}], "categories": [{"id": 1, "name": "a"}]}
        dataset |= {"annotations": [truth]}
        results = [{**shape, "score": 0.9, "segmentation": masks[1]}]
        if given == "a list" and masks[1] is empty:
            results[0]["segmentation"] = {"size": [30, 40], "counts": EMPTY_RUNS["text"]}
        files = write_files(tmp_path, dataset, results)
        found = check_same(partial(evaluated, dataset=dataset, results=results, iou_type="segm"))
        check_same(partial(_run_files, files))
        overlaps[name] = found.ious[1, 1].tolist()
        truths = boxscore.read_truths(files[0], iou_type="segm")
        detections = boxscore.read_detections(files[1], truths, iou_type="segm")
        pixelwise = boxscore.evaluate(detections, truths, boxscore.Protocol.named("coco", iou_type="segm"))
        assert is_crowd or pixelwise["map"] == 1 / (1 + np.spacing(1))
    assert overlaps == {"both": [[0.0]], "one": [[1.0]], "none": [[1.0]]}
    text = {"size": [30, 40], "counts": EMPTY_RUNS["text"]}
    assert boxscore.coco.mask.iou([text], [text], [is_crowd]).tolist() == [[0.0]]
