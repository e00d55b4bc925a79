"""`evaluate` reads columns, files, one dict per image and padded batches; `tests/data/test_ways_in.py` pairs them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, Protocol, Truths, evaluate
from boxscore.cli.sample import FOLDER
from tests.support.comparisons import assert_same
from tests.support.small_files import write

BOX = {"boxes": np.array([[0.0, 0.0, 10.0, 9.0]]), "labels": np.array([1])}
PRED = BOX | {"scores": np.array([0.9])}


def test_a_similarity_selects_among_the_shapes_of_columns() -> None:
    """Boxes and masks in one table."""
    masks = np.zeros((1, 20, 20), bool)
    masks[0, :10, :10] = True
    truths = Truths(image_ids=[0], labels=[1], boxes=[[0, 0, 10, 10]], masks=masks)
    found = Detections(image_ids=[0], labels=[1], scores=[0.9], boxes=[[0, 0, 10, 6]], masks=masks)
    assert evaluate(found, truths)["map_75"] == 0
    assert evaluate(found, truths, iou_type="segm")["map_75"] > 0.99
    assert evaluate(found, truths, Protocol.named("voc2012"), iou_type="segm").protocol.iou_type == "segm"


def test_files_are_read_as_by_the_readers() -> None:
    """As text or as a path."""
    paths = FOLDER / "detections.json", FOLDER / "truths.json"
    truths = boxscore.read_truths(paths[1])
    expected = evaluate(boxscore.read_detections(paths[0], truths), truths)
    assert_same(evaluate(*paths), expected)
    assert_same(evaluate(str(paths[0]), str(paths[1]), threads=1), expected)


def test_files_without_names_take_class_names_and_a_box_format(tmp_path: Path) -> None:
    """The options of the readers."""
    write(tmp_path / "truths" / "a.txt", "cat 0 0 10 10\n")
    write(tmp_path / "found" / "a.txt", "cat 0.9 0 0 10 10\n")
    for box_format in ("xyxy", "xywh"):
        options: Any = {"box_format": box_format}
        truths = boxscore.read_truths(tmp_path / "truths", **options)
        expected = evaluate(boxscore.read_detections(tmp_path / "found", truths, **options), truths)
        assert_same(evaluate(tmp_path / "found", tmp_path / "truths", **options), expected)
    image = pytest.importorskip("PIL.Image").new("L", (20, 20))
    for name, line in (("val", "0 0.5 0.5 0.2 0.2\n"), ("found", "0 0.5 0.5 0.2 0.2 0.9\n")):
        write(tmp_path / name / "labels" / "a.txt", line)
        (tmp_path / name / "images").mkdir()
        image.save(tmp_path / name / "images" / "a.png")
    result = evaluate(tmp_path / "found" / "labels", tmp_path / "val" / "labels", class_names=["dog", "cat"])
    assert [*result.per_class.name] == ["dog", "cat"]
    assert result["map"] > 0.99


def test_a_box_format_beside_a_file_is_that_of_the_dicts() -> None:
    """COCO's files have their own: its truths stay xywh."""
    truths = boxscore.read_truths(FOLDER / "truths.json")
    found = boxscore.read_detections(FOLDER / "detections.json", truths)
    rows = [np.flatnonzero(found.image_ids == image) for image in truths.image_names or ()]
    box = np.asarray(found.boxes, np.float64)
    corners = np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], axis=1)
    preds = [{"boxes": corners[row], "scores": found.scores[row], "labels": found.labels[row]} for row in rows]
    for ids in ([*(truths.image_names or ())], [*(truths.image_names or {}).values()]):  # ids, or file names
        result = evaluate(preds, FOLDER / "truths.json", image_ids=ids, box_format="xyxy")
        assert result["map"] == pytest.approx(evaluate(found, truths)["map"], abs=1e-12)


def test_images_are_paired_by_position_or_by_their_ids() -> None:
    """Without ids they are numbered; `image_id` names them."""
    result = evaluate([PRED, PRED], [BOX, BOX])
    assert result.images.tolist() == [0, 1]
    assert evaluate([PRED], [BOX | {"image_id": 7}]).images.tolist() == [7]
    named = evaluate([PRED | {"image_id": "a.jpg"}], [BOX])
    assert named.image_names is not None
    assert [*named.image_names.values()] == ["a.jpg"]
    truths = Truths(image_ids=[3], labels=[1], boxes=[[0, 0, 10, 9]], image_names={3: "a.jpg", 4: "b.jpg"})
    assert evaluate([PRED | {"image_id": "a"}], truths)["map"] > 0.99
    assert evaluate([PRED | {"image_id": 3}], truths)["map"] > 0.99
    assert evaluate([PRED | {"image_id": 4}], truths)["map"] == 0
    assert evaluate([], truths)["map"] == 0


def test_one_image_of_another_library_is_a_batch() -> None:
    """As in `update`."""
    from types import SimpleNamespace

    image = SimpleNamespace(xyxy=BOX["boxes"], mask=None, confidence=PRED["scores"], class_id=BOX["labels"], data={})
    assert evaluate(image, [BOX])["map"] > 0.99


TRUTHS = Truths(image_ids=[3], labels=[1], boxes=[[0, 0, 10, 9]])
COLUMNS = Detections(image_ids=[3], labels=[1], scores=[0.9], boxes=[[0, 0, 10, 9]])
PADDED = {key: column[None] for key, column in PRED.items()}
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "numbers": (lambda: evaluate([1, 2], [BOX, BOX]), r"^detections\[0\] must be a dict with `boxes`, `scores`"),
    "paths in a list": (lambda: evaluate([PRED], ["a.json"]), r"^truths\[0\] must be a dict with .*got str"),
    "lists in a dict": (
        lambda: evaluate(PADDED | {"labels": [1]}, [BOX]),
        "^`detections`: `labels` must have two dimensions",
    ),
    "a set": (lambda: evaluate({1}, [BOX]), "^`detections` must be boxscore.Detections, a path, .*got set"),  # type: ignore[arg-type]
    "an array": (lambda: evaluate(np.zeros((3, 6)), [BOX]), "^`detections` must be .*got ndarray"),  # type: ignore[arg-type]
    "no file": (lambda: evaluate("none.json", FOLDER / "truths.json"), "none.json"),
    "no truths": (lambda: evaluate(FOLDER / "detections.json", "none.json"), "none.json"),
    "swapped": (
        lambda: evaluate(FOLDER / "truths.json", FOLDER / "detections.json"),
        r"; detections come first, then truths, but .*detections\.json looks like detections: try evaluate\('",
    ),
    "other number": (lambda: evaluate([PRED], [BOX, BOX]), "must have one entry per image; got 1 and 2"),
    "other number of padded": (lambda: evaluate(PADDED, [BOX, BOX]), "must have one entry per image; got 1 and 2"),
    "no ids for a file": (
        lambda: evaluate([PRED], FOLDER / "truths.json"),
        "^`detections` must name its images, by `image_ids` or the key 'image_id' of each: `truths` is a file",
    ),
    "no ids for columns": (lambda: evaluate(COLUMNS, [BOX]), "^`truths` must name its images.*`detections` is columns"),
    "another order": (
        lambda: evaluate([PRED | {"image_id": 1}], [BOX | {"image_id": "a"}]),
        "^`image_id` of `detections` and `truths` must agree, as entries are pairs; got 1 and 'a' in entry 0",
    ),
    "an unknown image": (
        lambda: evaluate([PRED], FOLDER / "truths.json", image_ids=["none.jpg"]),
        r"^detections\[0\]: image 'none.jpg' is not among those of the truths",
    ),
    "names for ids": (
        lambda: evaluate([PRED], TRUTHS, image_ids=["a"]),
        "`detections`: images have names, but the truths have no `image_names`",
    ),
    "too few ids": (lambda: evaluate([PRED], [BOX], image_ids=[1, 2]), "`image_ids` must have one id per image"),
    "a format of columns": (lambda: evaluate(COLUMNS, TRUTHS, box_format="xywh"), "^`box_format` is read with dicts"),
    "names of columns": (lambda: evaluate(COLUMNS, TRUTHS, class_names=["a"]), "^`class_names` is read with dicts"),
    "names beside columns": (
        lambda: evaluate([PRED], TRUTHS, class_names=["a"], image_ids=[3]),
        "^`class_names` is read with .*leave it out with `detections` as images and `truths` as columns",
    ),
    "ids of columns": (lambda: evaluate(COLUMNS, TRUTHS, image_ids=[3]), "^`image_ids` is read with dicts and padded"),
    "ids of files": (
        lambda: evaluate(FOLDER / "detections.json", FOLDER / "truths.json", image_ids=[3]),
        "^`image_ids` is read with dicts and padded batches: leave it out with `detections` as file",
    ),
    "a similarity": (lambda: evaluate([PRED], [BOX], iou_type="iou"), "^`iou_type` must be one of bbox"),  # type: ignore[arg-type]
    "no masks": (lambda: evaluate([PRED], [BOX], iou_type="segm"), r"^truths\[0\] must have the key 'masks'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_nonsense_is_refused_by_name(case: str) -> None:
    """The argument, the rule and what came."""
    call, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        call()
