"""A table of odd values x fields x drop-ins: ours raises where pycocotools does, and else gives the same arrays."""

import copy
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore.coco
import boxscore.faster_coco_eval
import boxscore.torchvision
from boxscore import InputError
from tests.support.dropin import OURS, THEIRS, Tool, check_equal, dataset_of, outcome, write_files
from tests.support.mask_scenes import encoded
from tests.support.pose_scenes import random_poses
from tests.support.scenes import as_dataset, random_scene

pytestmark = [
    pytest.mark.native,
    pytest.mark.usefixtures("libm_exp"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning"),
]

Dict = dict[str, Any]
Scene = tuple[Dict, list[Dict]]
NAN, INF = float("nan"), float("inf")
MISSING = object()

VALUES: dict[str, Any] = {
    "missing": MISSING,
    "None": None,
    "digits": "5",
    "a word": "x",
    "no text": "",
    "bytes": b"5",
    "True": True,
    "False": False,
    "0": 0,
    "2": 2,
    "-1": -1,
    "256": 256,
    "a half": 0.5,
    "2^70": 2**70,
    "10^400": 10**400,
    "NaN": NAN,
    "infinity": INF,
    "-infinity": -INF,
    "a complex number": 1j,
    "a Decimal": Decimal("5.5"),
    "a Fraction": Fraction(11, 2),
    "an object": object(),
    "a dict": {},
    "no items": [],
    "a list": [5],
    "a tuple": (1, 2, 3, 4),
    "np.float32": np.float32(5.5),
    "np.int64": np.int64(3),
    "np.uint8": np.uint8(3),
    "np.str_": np.str_("5"),
    "np.bool_": np.True_,
    "an array": np.arange(1, 5.0),
    "an array of one": np.array([5.0]),
    "an array without axes": np.array(5.0),
    "an array of objects": np.array([1, 2, 3, 4], object),
    "an array of text": np.array(["1", "2", "3", "4"]),
    "four numbers": [1, 2, 3, 4],
    "four digits": ["1", "2", "3", "4"],
    "four Nones": [None] * 4,
    "one None": [1, 2, None, 4],
    "one digit": [1, "2", 3, 4],
    "one NaN": [1, 2, NAN, 4],
    "one infinity": [1, 2, INF, 4],
    "one 10^400": [1, 2, 10**400, 4],
    "a negative width": [5, 5, -3, 4],
    "four bools": [True, False, True, True],
    "four lists": [[1], [2], [3], [4]],
    "text of four": "1234",
}

POSES: dict[str, Any] = {
    "all None": lambda pose: [None] * len(pose),
    "one None": lambda pose: [*pose[:3], None, *pose[4:]],
    "one visibility None": lambda pose: [*pose[:5], None, *pose[6:]],
    "text": lambda pose: [str(each) for each in pose],
    "one digit": lambda pose: [*pose[:3], "7", *pose[4:]],
    "one NaN": lambda pose: [*pose[:3], NAN, *pose[4:]],
    "one infinity": lambda pose: [*pose[:3], INF, *pose[4:]],
    "one 10^400": lambda pose: [*pose[:3], 10**400, *pose[4:]],
    "one complex": lambda pose: [*pose[:3], 1j, *pose[4:]],
    "a negative visibility": lambda pose: [*pose[:5], -1, *pose[6:]],
    "Decimals": lambda pose: [Decimal(each) for each in pose],
    "bools": lambda pose: [True] * len(pose),
    "a tuple": tuple,
    "an array": np.array,
    "bytes in an array": lambda pose: np.array([int(each) % 200 for each in pose], np.uint8),
    "a point less": lambda pose: pose[:-3],
    "a point more": lambda pose: [*pose, 1, 2, 2],
    "cut off": lambda pose: pose[:-1],
    "zeros": lambda pose: [0] * len(pose),
    "nothing": [],
    "rows": lambda pose: [pose[i : i + 3] for i in range(0, len(pose), 3)],
}

# Without coordinates that are not finite: pycocotools takes all memory, or crashes.
MASKS: dict[str, Any] = {
    "no counts": lambda mask: {"size": mask["size"]},
    "no size": lambda mask: {"counts": mask["counts"]},
    "counts None": lambda mask: {**mask, "counts": None},
    "counts 5": lambda mask: {**mask, "counts": 5},
    "size None": lambda mask: {**mask, "size": None},
    "a size of one": lambda mask: {**mask, "size": mask["size"][:1]},
    "a negative size": lambda mask: {**mask, "size": [-1, 4]},
    "a tuple of sides": lambda mask: {**mask, "size": tuple(mask["size"])},
    "a polygon": [[1, 1, 9, 1, 9, 9, 1, 9]],
    "a polygon of text": [["1", "1", "9", "1", "9", "9"]],
    "a polygon of bools": [[True] * 6],
    "a polygon of a box": [[1, 1, 9, 9]],
    "an array of a polygon": [np.array([1.0, 1, 9, 1, 9, 9])],
    "one list": [1, 1, 9, 1, 9, 9],
    "a mask in a list": lambda mask: [mask],
}

TRUTH_FIELDS = ("area", "bbox", "iscrowd", "ignore", "category_id", "image_id", "id", "num_keypoints", "score")
RESULT_FIELDS = ("area", "bbox", "iscrowd", "category_id", "image_id", "id", "score", "num_keypoints")
SHAPES = {"bbox": "bbox", "segm": "segmentation", "keypoints": "keypoints"}

REFUSED = {
    ("result", "score", "10^400"): "its curves break off there",
    ("result", "score", "a complex number"): "its curves break off there",
    ("truth", "keypoints", "one complex"): "half of each number is lost",
    ("result", "keypoints", "one complex"): "half of each number is lost",
    ("truth", "segmentation", "a polygon of text"): "text is not a number",
    ("result", "segmentation", "a polygon of text"): "text is not a number",
}
"""Values that pycocotools takes, and whose numbers mean nothing: refused."""


@cache
def scene_of(kind: str) -> Scene:
    """Two images: in the first, truths and results of one class overlap; in the second, there are results alone."""
    if kind == "keypoints":
        dataset, results = random_poses(1, num_images=3, num_classes=1)
    else:
        dataset, results = as_dataset(random_scene(3, num_images=3, num_classes=2))
        for image in dataset["images"]:
            image |= {"height": 40, "width": 40}
    first = dataset["annotations"][0]["image_id"]
    dataset["annotations"] = [ann for ann in dataset["annotations"] if ann["image_id"] == first][:2]
    near = [row for row in results if row["image_id"] == first][:4]
    other = next((row for row in results if row["image_id"] != first), near[0])
    results = [*near, {**other, "image_id": next(each["id"] for each in dataset["images"] if each["id"] != first)}]
    dataset["annotations"][-1] |= {"category_id": near[0]["category_id"]}
    if kind == "segm":
        for row, ann in enumerate([*dataset["annotations"], *results]):
            pixels = np.zeros((40, 40), bool)
            pixels[row : row + 12, 2 : 14 + row] = True
            ann["segmentation"] = encoded(pixels)
            ann.pop("bbox") if "score" in ann else None
    return dataset, results


def cells(kind: str) -> Iterator[tuple[str, str, str, Any]]:
    """The rows of the table: truth or result, field, name and value."""
    for side, fields in (("truth", TRUTH_FIELDS), ("result", RESULT_FIELDS)):
        values: list[tuple[str, dict[str, Any]]] = [(field, VALUES) for field in fields]
        if kind != "bbox":
            values.append((SHAPES[kind], VALUES | (POSES if kind == "keypoints" else MASKS)))
        for field, table in values:
            yield from ((side, field, name, value) for name, value in table.items())


def with_value(kind: str, side: str, field: str, value: Any) -> Scene:
    """The scene with a value in a field of its first truth or result."""
    dataset, results = copy.deepcopy(scene_of(kind))
    row = (dataset["annotations"] if side == "truth" else results)[0]
    if value is MISSING:
        row.pop(field, None)
    else:
        row[field] = value(row[field]) if callable(value) and field in row else value
    return dataset, results


def evaluate(tool: Tool, scene: Scene, kind: str, **settings: Any) -> Any:
    """Curves at few thresholds and areas, so that the table is quick."""
    dataset, results = scene
    truths = dataset_of(tool, dataset)
    evaluation = tool.COCOeval(truths, truths.loadRes(copy.deepcopy(results)), kind, **settings)
    evaluation.params.iouThrs = np.array([0.5, 0.9])
    evaluation.params.recThrs = np.array([0.0, 0.5, 1.0])
    evaluation.params.areaRng, evaluation.params.areaRngLbl = [[0, 1e10], [0, 500]], ["all", "small"]
    evaluation.evaluate()
    evaluation.accumulate()
    return [evaluation.eval[name] for name in ("precision", "recall", "scores")]


def compare(script: Callable[[Tool], Any], ours: Tool) -> str | None:
    """How ours differs from pycocotools; None if both raise, or both give the same."""
    (expected, _), (found, _) = outcome(script, THEIRS), outcome(script, ours)
    if isinstance(expected, type) and isinstance(found, type):
        return None
    if isinstance(expected, type):
        return f"answered, where pycocotools raises {expected.__name__}"
    if isinstance(found, type):
        return f"{found.__name__}, where pycocotools answers"
    try:
        check_equal(found, expected)
    except AssertionError:
        return "another answer"
    return None


@pytest.mark.parametrize("kind", SHAPES)
def test_extreme_values_give_what_pycocotools_gives(kind: str) -> None:
    """Both raise, or both give the same arrays."""
    differences = {}
    for side, field, name, value in cells(kind):
        script = partial(evaluate, scene=with_value(kind, side, field, value), kind=kind)
        difference = compare(script, OURS)
        if (side, field, name) in REFUSED:
            assert difference is None or difference.endswith("where pycocotools answers")
        elif difference is not None:
            differences[side, field, name] = difference
    assert not differences


@pytest.mark.parametrize("kind", SHAPES)
def test_extreme_values_are_refused_by_the_faster_drop_in(kind: str) -> None:
    """Where pycocotools raises. Numbers are compared with those of faster_coco_eval elsewhere; it has defaults."""
    ours = Tool(
        COCO=boxscore.coco.COCO, COCOeval=partial(boxscore.faster_coco_eval.COCOeval_faster, separate_eval=True)
    )
    answered = set()
    for side, field, name, value in cells(kind):
        script = partial(evaluate, scene=with_value(kind, side, field, value), kind=kind)
        if (compare(script, ours) or "").startswith("answered"):
            answered.add((side, field, name))
    assert answered <= {("truth", field, "missing") for field in ("area", "iscrowd", "num_keypoints")}


@pytest.mark.parametrize(
    ("kind", "field", "value", "error", "message"),
    [
        ("bbox", "area", None, TypeError, "`area` must be a number that a float64 can hold; got None"),
        ("bbox", "area", "5", TypeError, "`area` must be a number that a float64 can hold; got '5'"),
        ("bbox", "iscrowd", -1, OverflowError, "`iscrowd` must be 0 or 1; got -1"),
        (
            "bbox",
            "bbox",
            (1, 2, 3, 4),
            Exception,
            r"`bbox` must have 4 numbers to be evaluated, .*in a list; got \(1, 2",
        ),
        ("keypoints", "keypoints", [None] * 51, TypeError, r"`keypoints` must have 3 numbers per point.*got \[None"),
        ("keypoints", "area", None, TypeError, "`area` must be a number that a float64 can hold; got None"),
        ("keypoints", "bbox", MISSING, KeyError, "must have `bbox`"),
    ],
)
def test_errors_name_the_annotation_and_are_of_pycocotools_types(
    kind: str, field: str, value: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    """From dicts and from files."""
    scene = with_value(kind, "truth", field, value)
    first = scene[0]["annotations"][0]
    with pytest.raises(error, match=f"annotation {first['id']} of image {first['image_id']}:? {message}"):
        evaluate(OURS, scene, kind)
    assert outcome(partial(evaluate, scene=scene, kind=kind), THEIRS)[0] is error
    if not isinstance(value, tuple):
        files = write_files(tmp_path, *scene)
        truths = boxscore.coco.COCO(files[0])
        evaluation = boxscore.coco.COCOeval(truths, truths.loadRes(files[1]), kind)
        with pytest.raises(error, match=message):
            evaluation.evaluate()


@pytest.mark.parametrize("field", ["bbox", "area", "keypoints"])
def test_keypoints_are_read_where_pycocotools_reads_them(field: str) -> None:
    """A truth in whose image there are no results needs no box and no keypoints, and as a crowd no area."""
    dataset, results = copy.deepcopy(scene_of("keypoints"))
    dataset["annotations"][0] |= {"iscrowd": 1}
    del dataset["annotations"][0][field]
    near = [row for row in results if row["image_id"] != dataset["annotations"][0]["image_id"]]
    script = partial(evaluate, kind="keypoints")
    assert compare(partial(script, scene=(dataset, results)), OURS) is None
    assert outcome(partial(script, scene=(dataset, results)), OURS)[0] is KeyError
    assert compare(partial(script, scene=(dataset, near)), OURS) is None
    assert not isinstance(outcome(partial(script, scene=(dataset, near)), OURS)[0], type)


def test_the_evaluator_of_torchvision_names_the_annotation() -> None:
    """It has no other way to evaluate such values."""
    dataset, _ = with_value("bbox", "truth", "area", None)
    image = dataset["annotations"][0]["image_id"]
    prediction = {"boxes": np.zeros((1, 4)), "scores": np.ones(1), "labels": np.ones(1, np.int64)}
    evaluator = boxscore.torchvision.CocoEvaluator(dataset_of(OURS, dataset), ["bbox"])
    with pytest.raises(InputError, match=f"annotation 1 of image {image}: `area` must be a number"):
        evaluator.update({image: prediction})
