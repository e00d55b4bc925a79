"""`boxscore check --iou-type keypoints`: each planted problem of keypoints is found, with its count and place."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boxscore.checks.inspector import Reading, inspect_files
from boxscore.cli import main
from boxscore.formats.records import Options
from tests.support import planted_problems
from tests.support.planted_problems import NAMES, Rows, change, of
from tests.support.pose_scenes import protocol_with
from tests.support.small_files import write

WIDTH, HEIGHT, NUM_POINTS = 640, 480, 5
OKS = protocol_with(NUM_POINTS)


def clean(seed: int, *, has_boxes: bool = False) -> tuple[dict[str, Any], Rows]:
    """Poses with nothing to say about; `has_boxes`: whether results have boxes."""
    rng = np.random.default_rng(seed)
    images = [{"id": i + 10, "file_name": f"{i:03}.jpg", "width": WIDTH, "height": HEIGHT} for i in range(6)]
    annotations: Rows = []
    results: Rows = []
    for image in images:
        for k in range(8):
            left, top, width, height = box = [*rng.uniform(20, 300, 2).tolist(), *rng.uniform(60, 150, 2).tolist()]
            point = rng.uniform([left, top], [left + width, top + height], (NUM_POINTS, 2))
            visibility = rng.integers(0, 3, (NUM_POINTS, 1))
            visibility[0] = 2
            place = {"image_id": image["id"], "category_id": k % 4 + 1}
            numbers = np.where(visibility > 0, np.concatenate([point, visibility], axis=1), 0).reshape(-1).tolist()
            own = {"id": len(annotations) + 1, "bbox": box, "area": width * height * 0.6, "iscrowd": 0}
            own |= {"keypoints": numbers, "num_keypoints": int((visibility > 0).sum())}
            annotations.append(place | own)
            near = np.concatenate([point + 0.5, np.full((NUM_POINTS, 1), 0.75)], axis=1).reshape(-1).tolist()
            more = {"bbox": box} if has_boxes else {}
            results.append(place | {"score": float(rng.random()), "keypoints": near} | more)
    categories = [{"id": k + 1, "name": name} for k, name in enumerate(NAMES)]
    return {"images": images, "annotations": annotations, "categories": categories}, results


inspect = partial(planted_problems.inspect, protocol=OKS, iou_types=("keypoints",))


@pytest.mark.parametrize("has_boxes", [False, True])
def test_clean_keypoints_have_no_findings(has_boxes: bool, tmp_path: Path) -> None:
    """With and without boxes of results."""
    for seed in range(3):
        assert inspect(tmp_path, *clean(seed, has_boxes=has_boxes)) == []


def with_point(row: dict[str, Any], index: int, *numbers: float) -> list[float]:
    """The keypoints of a row with another one."""
    return [*row["keypoints"][: 3 * index], *numbers, *row["keypoints"][3 * index + 3 :]]


Planting = Callable[[dict[str, Any], Rows], object]


def each(rows: Rows, *numbers: int, **values: Any) -> None:
    """Change some rows."""
    for number in numbers:
        change(
            rows, number, **{key: value(rows[number]) if callable(value) else value for key, value in values.items()}
        )


PLANTED: list[tuple[str, str, Planting, str, int, str]] = [
    (
        "gt.json",
        "keypoint-outside",
        lambda gt, _: each(
            gt["annotations"], 3, 6, keypoints=lambda row: with_point(row, 1, 900, 50, 2), num_keypoints=5
        ),
        "warning",
        2,
        "annotation 3 (id 4): point 1: (900, 50, 2) in an image of 640 x 480",
    ),
    (
        "dt.json",
        "keypoint-outside",
        lambda _, dt: each(dt, 4, keypoints=lambda row: with_point(row, 1, -80, 50, 0.5)),
        "note",
        1,
        "result 4: point 1: (-80, 50, 0.5) in an image of 640 x 480",
    ),
    (
        "gt.json",
        "num-keypoints",
        lambda gt, _: each(gt["annotations"], 3, num_keypoints=0),
        "warning",
        1,
        "annotation 3 (id 4): num_keypoints 0, ",
    ),
    (
        "gt.json",
        "num-keypoints-differs",
        lambda gt, _: each(gt["annotations"], 3, 4, num_keypoints=7),
        "note",
        2,
        "annotation 3 (id 4): num_keypoints 7, ",
    ),
    (
        "gt.json",
        "keypoints-outside-box",
        lambda gt, _: each(gt["annotations"], 5, bbox=[1, 2, 10, 10]),
        "warning",
        1,
        "labelled points, box [1, 2, 10, 10] (xywh)",
    ),
    (
        "gt.json",
        "visibility",
        lambda gt, _: each(gt["annotations"], 2, keypoints=lambda row: with_point(row, 0, *row["keypoints"][:2], 0.5)),
        "warning",
        1,
        "annotation 2 (id 3): point 0: (",
    ),
    (
        "gt.json",
        "negative-visibility",
        lambda gt, _: each(gt["annotations"], 2, keypoints=lambda row: with_point(row, 4, 1, 2, -1)),
        "error",
        1,
        "annotation 2 (id 3): point 4: (1, 2, -1)",
    ),
    (
        "gt.json",
        "keypoints-without-area",
        lambda gt, _: each(gt["annotations"], 2, 9, area=0),
        "error",
        2,
        "annotation 2 (id 3): area 0",
    ),
    (
        "gt.json",
        "no-labelled-points",
        lambda gt, _: each(gt["annotations"], 2, keypoints=[0] * 15, num_keypoints=0),
        "note",
        1,
        "annotation 2 (id 3): 5 points, all of visibility 0",
    ),
    (
        "dt.json",
        "coinciding-keypoints",
        lambda _, dt: each(dt, 7, 8, keypoints=[30, 40, 1] * 5),
        "warning",
        2,
        "result 7: 5 points at (30, 40)",
    ),
    (
        "dt.json",
        "keypoint-fractions",
        lambda _, dt: each(dt, *range(48), keypoints=lambda row: [n / 640 for n in row["keypoints"]]),
        "warning",
        48,
        "result 0: point 0: (0.",
    ),
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: f"{planted[0]} {planted[1]}")
def test_planted_problems_are_found(planted: tuple[str, str, Planting, str, int, str], tmp_path: Path) -> None:
    """Each by its kind, with the severity, the number of rows and the first of them."""
    file, kind, plant, severity, num, example = planted
    dataset, results = clean(0)
    plant(dataset, results)
    finding = of(inspect(tmp_path, dataset, results), kind)
    assert (finding.severity, finding.count, Path(finding.file).name) == (severity, num, file)
    assert example in finding.example


def test_x_and_y_swapped(tmp_path: Path) -> None:
    """Are one finding, and not one for every point that is outside."""
    dataset, results = clean(0)
    for image in dataset["images"]:
        image["height"] = 200
    for row in (*dataset["annotations"], *results):
        points = np.array(row["keypoints"]).reshape(-1, 3)
        points[:, 1] = points[:, 1] * 0.4
        row["keypoints"] = points.reshape(-1).tolist()
    for row in dataset["annotations"]:
        row["bbox"] = [row["bbox"][0], row["bbox"][1] * 0.4, row["bbox"][2], row["bbox"][3] * 0.4]
        row["area"] *= 0.3
    assert inspect(tmp_path, dataset, results) == []
    for row in results:
        row["keypoints"] = np.array(row["keypoints"]).reshape(-1, 3)[:, [1, 0, 2]].reshape(-1).tolist()
    finding = of(inspect(tmp_path, dataset, results), "keypoint-axes")
    assert "nearly all fit if x and y are swapped" in finding.title


def test_files_without_keypoints(tmp_path: Path) -> None:
    """Are refused; of a file with invalid ones, the boxes are checked."""
    dataset, results = clean(0)
    dataset["annotations"][3]["keypoints"] = [1, 2]
    dataset["annotations"][4]["bbox"] = [1, 2, -3, 4]
    kinds = [finding.kind for finding in inspect(tmp_path, dataset, results)]
    assert {"invalid-keypoints", "negative-size"} <= {*kinds}
    write(tmp_path / "gt.csv", "image_id,category_id,x,y,w,h\n1,1,1,2,3,4\n")
    reading = Reading(options=Options(iou_types=("keypoints",)))
    (finding,) = (each for each in inspect_files(tmp_path / "gt.csv", [], OKS, reading) if each.severity == "error")
    assert "must have sets of keypoints for `iou_type` keypoints; the file has none" in finding.example


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exits with 0 if nothing is refused."""
    dataset, results = clean(0)
    truths = write(tmp_path / "gt.json", json.dumps(dataset))
    detections = write(tmp_path / "dt.json", json.dumps(results))
    sigmas = ["--sigmas", ",".join(map(str, OKS.sigmas))]
    assert main(["check", str(truths), str(detections), "--iou-type", "keypoints", *sigmas]) == 0
    assert capsys.readouterr().out == "no errors, no warnings, no notes\n"
