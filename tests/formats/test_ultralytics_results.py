"""Ultralytics' `Results` as detections, and the class ids of its predictions.json."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, MeanAveragePrecision, Truths
from boxscore.formats.ultralytics_json import class_rule
from tests.support import oracles

SIZE = (60, 80)
"""Height and width of every image."""
NAMES = {0: "dog", 1: "cat"}
BOX = [[10, 10, 50, 40, 0.9, 1], [20, 5, 60, 30, 0.8, 0]]
"""Corners, score and class."""


def results_of(path: str, rows: Any = BOX, **more: Any) -> Any:
    """The result of one image."""
    import torch

    boxes = None if rows is None else torch.tensor(rows).reshape(-1, 6)
    image = np.zeros((*SIZE, 3), np.uint8)
    return oracles.ultralytics("engine.results").Results(image, path=path, names=NAMES, boxes=boxes, **more)


def coco_truths(**more: Any) -> Truths:
    """Truths with ids and names of their own."""
    return Truths(
        image_ids=[7, 9],
        labels=[17, 18],
        boxes=[[10, 10, 50, 40], [20, 5, 60, 30]],
        class_names={17: "cat", 18: "dog", 44: "bird"},
        image_names={7: "street/a.jpg", 9: "b.jpg", 11: "c.jpg"},
        **more,
    )


def test_images_and_classes_are_joined_by_name() -> None:
    """The file name of `path`, whatever its folder; a stream is as good as a list."""
    stream = (results_of(path) for path in ("/data/val/b.jpg", "/data/val/a.jpg"))
    found = boxscore.formats.from_ultralytics(stream, coco_truths())
    assert found.image_ids.tolist() == [9, 9, 7, 7]
    assert found.labels.tolist() == [17, 18, 17, 18]
    assert found.boxes.tolist() == [row[:4] for row in BOX] * 2
    assert np.array_equal(found.scores, np.array([0.9, 0.8, 0.9, 0.8], np.float32))


def test_without_truths_images_are_their_file_names() -> None:
    """As `Truths.from_images` names them, and labels are the model's."""
    found = boxscore.formats.from_ultralytics([results_of("x/a.jpg"), results_of("x/b.jpg", [])])
    target = {"boxes": [BOX[0][:4]], "labels": [1]}
    truths = Truths.from_images([target, target], image_ids=["a.jpg", "b.jpg"])
    assert found.labels.tolist() == [1, 0]
    assert boxscore.evaluate(found, truths)["mar_100"] == 0.5
    same_names = boxscore.formats.from_ultralytics([results_of("x/a.jpg"), results_of("y/a.jpg")])
    assert len({*same_names.image_ids.tolist()}) == 2


def test_results_are_preds_of_the_metric() -> None:
    """To the bit those of the dicts that a user would make of them."""
    results = [results_of("a.jpg"), results_of("b.jpg", [])]
    dicts = [{"boxes": each.boxes.xyxy, "scores": each.boxes.conf, "labels": each.boxes.cls.long()} for each in results]
    target = {"boxes": np.array([[12.0, 10, 50, 40]]), "labels": np.array([1])}
    metrics = [MeanAveragePrecision(warn=False) for _ in range(2)]
    for metric, preds in zip(metrics, (results, dicts), strict=True):
        metric.update(preds, [target, target])
    assert 0 < metrics[0].compute()["map"] < 1
    assert metrics[0].compute()["map"] == metrics[1].compute()["map"]


def test_masks_poses_and_oriented_boxes_are_read() -> None:
    """Masks of the image's size, keypoints with their scores, centres with angles."""
    import torch

    masks = torch.zeros((2, *SIZE), dtype=torch.uint8)
    masks[:, 10:20, 10:30] = 1
    points = torch.rand((2, 17, 3))
    found = boxscore.formats.from_ultralytics(
        [results_of("a.jpg", masks=masks), results_of("b.jpg", [])], iou_type=("bbox", "segm")
    )
    assert found.masks.runs.area.tolist() == [200, 200]
    poses = boxscore.formats.from_ultralytics([results_of("a.jpg", keypoints=points)], iou_type="keypoints").keypoints
    assert np.array_equal(poses.arrays[0], points[..., :2].numpy())
    turned = torch.tensor([[30.0, 30.0, 20.0, 10.0, 0.5, 0.9, 1.0]])
    oriented = boxscore.formats.from_ultralytics([results_of("a.jpg", None, obb=turned)])
    assert oriented.iou_types() == ["obb", "probiou"]
    assert np.array_equal(oriented.oriented_boxes.boxes, turned[:, :5].numpy())
    corners = Detections.from_images([results_of("a.jpg", None, obb=turned)], iou_type="obb", box_format="xyxyxyxy")
    assert corners.oriented_boxes.boxes.shape == (1, 8)


def test_masks_of_the_networks_size_are_refused() -> None:
    """They have to be predicted in the size of the image."""
    import torch

    result = results_of("a.jpg", masks=torch.zeros((2, 32, 32)))
    rule = (
        r"images\[0\] must have masks of its image's size, \(60, 80\); got \(32, 32\): predict with `retina_masks=True`"
    )
    with pytest.raises(InputError, match=rule):
        boxscore.formats.from_ultralytics([result], iou_type="segm")


def test_results_of_models_with_other_classes_are_refused() -> None:
    """A label means the class of its model; the names of the first can't be those of all."""
    results = [results_of("a.jpg"), results_of("b.jpg")]
    results[1].names = {0: "cat", 1: "dog"}
    rule = "`results` must be from one model, with the same class `names`; those at 1 are not those at 0"
    for truths in (None, coco_truths()):
        with pytest.raises(InputError, match=f"^{rule}$"):
            boxscore.formats.from_ultralytics(results, truths)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2],), "`results` must be Ultralytics' Results, one per image; got int at 0"),
        ((5,), "`results` must be Ultralytics' Results, one per image; got int at 0"),
        ((["a.jpg"], 7), "`truths` must be boxscore.Truths; got int"),
        ((["z.jpg"], "truths"), "z.jpg: detection 0: image 'z.jpg' is not among those of the truths (2 detections"),
    ],
)
def test_what_is_no_result_or_has_no_truths_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    """The error names the argument, the rule and what came."""
    results, *others = arguments
    if isinstance(results, list) and isinstance(results[0], str):
        results = [results_of(path) for path in results]
    others = [coco_truths() if each == "truths" else each for each in others]
    with pytest.raises(InputError) as error:
        boxscore.formats.from_ultralytics(results, *others)
    assert str(error.value).startswith(message)


def test_unmatched_detections_may_be_left_out() -> None:
    """With a warning that counts them."""
    with pytest.warns(UserWarning, match=r"2 detections of 4 left out: z.jpg: detection 0: image 'z.jpg' is not"):
        found = boxscore.formats.from_ultralytics(
            [results_of("z.jpg"), results_of("a.jpg")], coco_truths(), unmatched="warn"
        )
    assert found.image_ids.tolist() == [7, 7]


COCO_80 = {label: str(label) for label in range(80)}


@pytest.mark.parametrize(
    ("ids", "known", "expected"),
    [
        ([1, 2, 3], {0: "a", 1: "b", 2: "c"}, [0, 1, 2]),  # indices plus 1
        ([2], {0: "a", 1: "b", 2: "c"}, [1]),
        ([0, 1], {0: "a", 1: "b", 2: "c"}, None),  # Ultralytics writes no 0
        ([1, 4], {0: "a", 1: "b", 2: "c"}, None),  # and none beyond the last class
        ([1, 3], {1: "a", 2: "b", 3: "c"}, None),  # truths that do not count from 0
        ([], {0: "a"}, None),
        ([1, 13, 90], COCO_80, [0, 11, 79]),  # COCO's ids
        ([1, 12, 80], COCO_80, [0, 11, 79]),  # 12 is no id of COCO
        ([1, 11], COCO_80, [0, 10]),  # the same either way
        ([12, 90], COCO_80, None),
    ],
)
def test_class_ids_of_predictions_json(ids: list[int], known: dict[int, str], expected: list[int] | None) -> None:
    """Indices plus 1, or COCO's ids; what is neither is compared as it is."""
    rule = class_rule(ids, known, "p.json")
    assert (None if rule is None else [rule(each) for each in ids]) == expected


def test_class_ids_that_may_mean_either_are_refused() -> None:
    """80 classes, and no id that only one of the two lists has."""
    with pytest.raises(
        InputError, match=r"p.json: category ids \(1, 20\) may be COCO's, or indices plus 1; give `map_c"
    ):
        class_rule([1, 20], COCO_80, "p.json")


ROW = {"image_id": "a", "file_name": "a.jpg", "category_id": 1, "bbox": [1.0, 1.0, 9.0, 9.0], "score": 0.9}


def write_yolo(folder: Path) -> Truths:
    """Truths whose classes count from 0."""
    (folder / "labels").mkdir()
    (folder / "labels" / "a.txt").write_text("0 .5 .5 .2 .2\n")
    (folder / "data.yaml").write_text("names: [cat, dog]\n")
    return boxscore.read_truths(folder, sizes={"a": (100, 100)})


def test_other_results_keep_their_ids(tmp_path: Path) -> None:
    """Ids are taken for Ultralytics' only where `file_name` is where it writes it, and `map_classes` comes first."""
    truths = write_yolo(tmp_path)
    path = tmp_path / "results.json"
    plain = {key: value for key, value in ROW.items() if key != "file_name"}
    for row, mapping, label in ((ROW, None, 0), (plain, None, 1), (ROW, "1:1", 1)):
        path.write_text(json.dumps([row]))
        assert boxscore.read_detections(path, truths, map_classes=mapping).labels.tolist() == [label]


ORIENTED_ROW = {**ROW, "rbox": [5, 5, 4, 2, 0.1], "poly": [1, 1, 9, 1, 9, 9, 1, 9]}
"""A result as Ultralytics writes it for oriented boxes."""


def oriented_truths() -> Truths:
    """One oriented box in image a."""
    return Truths(
        image_ids=[0], labels=[0], boxes=[[5, 5, 4, 2, 0]], box_format="cxcywha:radians", image_names={0: "a"}
    )


INVALID = [
    ({"poly": [1, 2]}, r"result 1: `poly` must be 8 numbers; got \[1, 2\]"),
    ({"poly": [10**400] * 8}, r"result 1: `poly` must be 8 numbers; got \[1000"),
    ({"poly": ["1", 1, 9, 1, 9, 9, 1, 9]}, r"result 1: `poly` must be 8 numbers; got \['1', 1"),
    ({"poly": [True, 1, 9, 1, 9, 9, 1, 9]}, r"result 1: `poly` must be 8 numbers; got \[True, 1"),
    ({"poly": [math.nan, 1, 9, 1, 9, 9, 1, 9]}, r"result 1: `poly` must have 8 finite numbers; got \[nan"),
    ({"score": 10**400}, r"result 1: `score` must be a number; got 1000"),
    ({"score": "0.5"}, r"result 1: `score` must be a number; got '0.5'"),
    ({"score": True}, r"result 1: `score` must be a number; got True"),
    ({"score": math.nan}, r"result 1: `score` must be finite; got nan"),
    ({"category_id": 1e999}, r"result 1: `category_id` must be an integer; got inf"),
    ({"category_id": 1.5}, r"result 1: `category_id` must be an integer; got 1.5"),
    ({"category_id": True}, r"result 1: `category_id` must be an integer; got True"),
    ({"category_id": 10**30}, r"result 1: `category_id` must be an integer; got 1000"),
    ({"image_id": 10**30}, r"result 1: `image_id` must be an integer, or the stem of a file name; got 1000"),
    ({"image_id": [7]}, r"result 1: `image_id` must be an integer, or the stem of a file name; got \[7\]"),
]
"""Changes of a result of oriented boxes, and the error."""


@pytest.mark.parametrize(("changes", "rule"), INVALID)
def test_an_oriented_box_that_is_invalid_is_named(tmp_path: Path, changes: dict[str, Any], rule: str) -> None:
    """By its index in the file, and by the value that is wrong."""
    path, truths = tmp_path / "predictions.json", oriented_truths()
    path.write_text(json.dumps([ORIENTED_ROW, {**ORIENTED_ROW, **changes}]))
    with pytest.raises(InputError, match=rule):
        boxscore.read_detections(path, truths, iou_type="obb")


@pytest.mark.parametrize("more", [5, {"image_id": 1}])
def test_a_result_that_is_no_oriented_box_is_named(tmp_path: Path, more: Any) -> None:
    """With the values that it must have."""
    path = tmp_path / "predictions.json"
    path.write_text(json.dumps([ORIENTED_ROW, more]))
    with pytest.raises(InputError, match=r"result 1 must have `image_id`, `category_id`, `score` and `poly`, as Ultra"):
        boxscore.read_detections(path, oriented_truths(), iou_type="obb")


def test_a_file_of_oriented_boxes_that_is_not_json_is_named(tmp_path: Path) -> None:
    """Nested too deeply for Python's parser."""
    path, row, truths = tmp_path / "predictions.json", ORIENTED_ROW, oriented_truths()
    path.write_text(json.dumps([row])[:-1] + ", " + "[" * 100_000)
    with pytest.raises(InputError, match=r"predictions.json: not JSON: maximum recursion depth exceeded"):
        boxscore.read_detections(path, truths, iou_type="obb")
