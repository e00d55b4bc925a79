"""`boxscore check --iou-type segm`: each planted problem of masks is found, with its count and place."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boxscore.checks.checklist import Finding
from boxscore.checks.inspector import Reading, inspect_files
from boxscore.cli import main
from boxscore.data.geometry.masks import Masks
from boxscore.formats.records import Options
from boxscore.protocol.protocol import Protocol
from tests.support import planted_problems
from tests.support.planted_problems import NAMES, Rows, change, of
from tests.support.shared import shared_data
from tests.support.small_files import PNG, write

WIDTH, HEIGHT = 64, 48
Captured = pytest.CaptureFixture[str]


def encoded(box: list[int], height: int = HEIGHT, width: int = WIDTH) -> dict[str, Any]:
    """The run lengths of a rectangle, given by its left, top, width and height."""
    pixels = np.zeros((1, height, width), bool)
    left, top, sides = box[0], box[1], box[2:]
    pixels[0, top : top + sides[1], left : left + sides[0]] = True
    return Masks.from_pixels(pixels).rle()[0]


def clean(seed: int) -> tuple[dict[str, Any], Rows]:
    """A dataset of polygons and run lengths with nothing to say about, and results of run lengths."""
    rng = np.random.default_rng(seed)
    images = [{"id": i + 10, "file_name": f"{i:03}.jpg", "width": WIDTH, "height": HEIGHT} for i in range(6)]
    annotations: Rows = []
    results: Rows = []
    for image in images:
        for k in range(8):
            box = [*rng.integers(1, 24, 2).tolist(), *rng.integers(6, 20, 2).tolist()]
            x, y, w, h = box
            place = {"image_id": image["id"], "category_id": k % 4 + 1}
            polygon = [[x, y, x + w, y, x + w, y + h, x, y + h]]
            mask: Any = encoded(box) if k % 3 == 0 else polygon
            own = {"id": len(annotations) + 1, "bbox": box, "area": w * h, "iscrowd": 0, "segmentation": mask}
            annotations.append(place | own)
            near = [x + 1, y, w, h + 1]
            results.append(place | {"bbox": near, "score": float(rng.random()), "segmentation": encoded(near)})
    categories = [{"id": k + 1, "name": name} for k, name in enumerate(NAMES)]
    return {"images": images, "annotations": annotations, "categories": categories}, results


def inspect(folder: Path, dataset: Any, results: Any = None, *iou_types: str) -> list[Finding]:
    """The findings in these, with masks by default."""
    types = iou_types or ("segm",)
    return planted_problems.inspect(folder, dataset, results, iou_types=types, iou_type=types[0])


@pytest.mark.parametrize("iou_types", [("segm",), ("bbox", "segm"), ("boundary",), ("bbox",)])
def test_clean_masks_have_no_findings(tmp_path: Path, iou_types: tuple[str, ...]) -> None:
    """Nor have their boxes."""
    for seed in range(3):
        assert inspect(tmp_path, *clean(seed), *iou_types) == []


Planting = Callable[[dict[str, Any], Rows], object]
POINTS = [[5, 5, 9, 9]]
BEYOND = [[1, 1, 75, 1, 75, 9, 1, 9]]

PLANTED: list[tuple[str, str, Planting, str, int, str]] = [
    (
        "gt.json",
        "empty-mask",
        lambda gt, _: [change(gt["annotations"], i, segmentation=encoded([0, 0, 0, 0])) for i in (3, 6)],
        "warning",
        2,
        "annotation 3 (id 4): a mask of 64 x 48 pixels, all off",
    ),
    (
        "gt.json",
        "mask-size",
        lambda gt, _: change(gt["annotations"], 3, bbox=[1, 2, 9, 9], area=81, segmentation=encoded([1, 2, 9, 9], 50)),
        "warning",
        1,
        "annotation 3 (id 4): 64 x 50 pixels in an image of 64 x 48",
    ),
    (
        "gt.json",
        "few-points",
        lambda gt, _: change(gt["annotations"], 4, bbox=[5, 5, 4, 4], area=16, segmentation=POINTS),
        "warning",
        1,
        "annotation 4 (id 5): a polygon of 2 points: 5, 5, 9, 9",
    ),
    (
        "gt.json",
        "mask-box",
        lambda gt, _: [change(gt["annotations"], i, bbox=[1, 2, 9, 9]) for i in (5, 7)],
        "warning",
        2,
        "annotation 5 (id 6): [1, 2, 9, 9] (xywh), and around the mask [",
    ),
    (
        "gt.json",
        "mask-area",
        lambda gt, _: [
            change(gt["annotations"], i, bbox=[5, 5, 20, 20], segmentation=encoded([5, 5, 20, 20]), area=area)
            for i, area in ((5, 100), (7, 900), (9, 250), (11, 400))
        ],
        "warning",
        2,
        "annotation 5 (id 6): area 100, mask of 400 pixels",
    ),
    (
        "gt.json",
        "polygon-outside",
        lambda gt, _: change(gt["annotations"], 5, bbox=[1, 1, 74, 8], area=592, segmentation=BEYOND),
        "warning",
        1,
        "annotation 5 (id 6): a point (75, 1) in an image of 64 x 48",
    ),
    (
        "dt.json",
        "empty-mask",
        lambda _, dt: change(dt, 3, segmentation=encoded([0, 0, 0, 0])),
        "warning",
        1,
        "result 3: a mask of 64 x 48 pixels, all off",
    ),
    (
        "dt.json",
        "mask-size",
        lambda _, dt: [change(dt, i, bbox=[1, 2, 9, 9], segmentation=encoded([1, 2, 9, 9], 9, 99)) for i in (5, 7)],
        "warning",
        2,
        "result 5: 99 x 9 pixels in an image of 64 x 48",
    ),
    (
        "dt.json",
        "mask-box",
        lambda _, dt: change(dt, 3, bbox=[1, 2, 30, 9]),
        "note",
        1,
        "result 3: [1, 2, 30, 9] (xywh), and around the mask [",
    ),
]


@pytest.mark.parametrize(
    ("file", "kind", "plant", "severity", "num", "example"), PLANTED, ids=[f"{row[0][:2]}-{row[1]}" for row in PLANTED]
)
def test_a_planted_problem_is_found(
    tmp_path: Path, file: str, kind: str, plant: Planting, severity: str, num: int, example: str
) -> None:
    """With its count, the place of the first, and how bad it is; without --iou-type nobody looks at masks."""
    dataset, results = clean(1)
    plant(dataset, results)
    findings = [each for each in inspect(tmp_path, dataset, results) if each.file == str(tmp_path / file)]
    found = of(findings, kind)
    assert (found.severity, found.count) == (severity, num)
    assert found.example.startswith(f"{tmp_path / file}: {example}")
    assert found.effect
    assert not any(each.severity == "error" for each in findings)
    masks = {each[1] for each in PLANTED}
    assert masks.isdisjoint(each.kind for each in inspect(tmp_path, dataset, results, "bbox"))


@pytest.mark.parametrize(
    ("segmentation", "rule"),
    [
        ({"size": [HEIGHT, WIDTH], "counts": "421"}, "`counts` of `segmentation` must have run lengths for the "),
        (
            {"size": [HEIGHT, WIDTH], "counts": [1, -2]},
            "`counts` of `segmentation` must not have a negative run length",
        ),
        ([[1, 2, 3]], "`segmentation` must have polygons of pairs x, y, not of 3 numbers"),
        ([], "`segmentation` must have at least one polygon; got []"),
        ([[1, 2, 1e99, 3]], "`segmentation` must have polygons of finite numbers, none of them beyond 4e8; got 1e+99"),
    ],
)
def test_a_corrupt_mask_is_an_error_and_boxes_are_checked(tmp_path: Path, segmentation: Any, rule: str) -> None:
    """With its place; the evaluation refuses it, too."""
    dataset, results = clean(2)
    change(dataset["annotations"], 7, segmentation=segmentation)
    change(results, 5, score=7)
    findings = inspect(tmp_path, dataset, results)
    assert [each.kind for each in findings] == ["invalid-mask", "score-range"]
    assert findings[0].severity == "error"
    assert findings[0].example.startswith(f"{tmp_path / 'gt.json'}: annotation 7 (id 8): {rule}")
    files = [str(tmp_path / name) for name in ("gt.json", "dt.json")]
    for command in ("check", "eval"):
        assert main([command, *files, "--iou-type", "segm", "--quiet"]) == 1
        assert main([command, *files, "--quiet"]) == 0


def test_files_without_masks_are_refused(tmp_path: Path) -> None:
    """As by the evaluation; their boxes are checked all the same."""
    path = write(tmp_path / "t.csv", "image,label,x1,y1,x2,y2\na,cat,1,2,3,4\na,cat,5,5,4,9\n")
    findings = inspect_files(path, [], Protocol.named("coco"), Reading(options=Options(iou_types=("segm",))))
    assert [each.kind for each in findings] == ["refused", "negative-size", "no-size"]
    assert findings[0].example == f"{path}: must have masks for `iou_type` segm; the file has none"


def test_yolo_polygons_are_checked(tmp_path: Path) -> None:
    """As fractions, and as pixels of the image."""
    write(tmp_path / "images" / "a.png", PNG)
    lines = ["0 0.1 0.1 0.4 0.1 0.4 0.4", "0 0.5 0.5 1.5 0.5 1.5 0.9 0.5 0.9", "0 0.001 0.001 0.002 0.001 0.002 0.002"]
    write(tmp_path / "labels" / "a.txt", "\n".join(lines))
    reading = Reading(options=Options(iou_types=("segm",)))
    findings = inspect_files(tmp_path / "labels", [], Protocol.named("coco", iou_type="segm"), reading)
    assert of(findings, "polygon-outside").example.endswith("line 2: a point (1.5, 0.5) in an image of 1 x 1")
    assert of(findings, "empty-mask").example.endswith("line 3: a mask of 200 x 100 pixels, all off")
    assert not any(finding.severity == "error" for finding in findings)


def test_real_masks_have_nothing_to_say_about() -> None:
    """COCO's annotations, and results with masks alone."""
    truths = shared_data("val2014_100/instances_val2014_100.json")
    results = shared_data("val2014_100/instances_val2014_fakesegm100_results.json")
    reading = Reading(options=Options(iou_types=("bbox", "segm")))
    findings = inspect_files(truths, [results], Protocol.named("coco", iou_type="segm"), reading)
    assert {finding.kind for finding in findings} == {"unused-class", "silent-images"}


def test_pycocotools_would_give_another_number_for_masks(tmp_path: Path) -> None:
    """Where an annotation has the id 0."""
    dataset, results = clean(3)
    change(dataset["annotations"], 0, id=0)
    found = of(inspect(tmp_path, dataset, results), "pycocotools-differs")
    assert found.title.startswith("pycocotools would give map 0.")
