"""`boxscore eval --iou-type`: tables, JSON, reports, charts; the short way for COCO files gives what columns give."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pycocotools import mask

import boxscore
from boxscore import Protocol
from boxscore.cli import main
from boxscore.cli.direct import summarize_files
from boxscore.formats import read_detections, read_truths
from tests.support.dropin import THEIRS, dataset_of, from_files, run
from tests.support.mask_scenes import encoded, random_masks
from tests.support.shared import shared_data

IOU_TYPES: Any = ("bbox", "segm", "boundary")
PROTOCOLS = [Protocol.named("coco", iou_type=each) for each in IOU_TYPES]


def write(folder: Path, dataset: Any, results: Any) -> list[str]:
    """The paths of truths and results."""
    paths = folder / "truths.json", folder / "found.json"
    for path, content in zip(paths, (dataset, results), strict=True):
        path.write_text(json.dumps(content))
    return [str(path) for path in paths]


def scene(seed: int) -> tuple[Any, Any]:
    """A dataset and results with the boxes around their masks; half of the results are a pixel off."""
    random = np.random.default_rng(seed)
    dataset, _ = random_masks(seed, num_images=12)
    coco = dataset_of(THEIRS, dataset)
    results = []
    for row in dataset["annotations"]:
        pixels = np.roll(coco.annToMask(row), random.integers(2), axis=1)
        row["bbox"] = box_around(coco.annToRLE(row))
        found = {"image_id": row["image_id"], "category_id": row["category_id"], "score": round(random.random(), 1)}
        results.append(found | {"segmentation": encoded(pixels), "bbox": box_around(encoded(pixels))})
    return dataset, results


def box_around(rle: Any) -> list[float]:
    """As COCO has it."""
    return list(mask.toBbox(rle))


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Truths and results with boxes and masks."""
    return write(tmp_path, *scene(3))


@pytest.mark.native
@pytest.mark.parametrize("seed", range(6))
def test_the_short_way_gives_every_bit_of_the_long_one(seed: int, tmp_path: Path) -> None:
    """Boxes, masks and boundaries from one reading, and each by itself; with any number of threads."""
    truths, found = map(Path, write(tmp_path, *scene(seed)))
    there = read_truths(truths, iou_type=IOU_TYPES)
    columns = read_detections(found, there, iou_type=IOU_TYPES)
    expected = [boxscore.evaluate(columns, there, protocol).summary for protocol in PROTOCOLS]
    for threads in (1, 3):
        (summaries,) = summarize_files(truths, [found], PROTOCOLS, threads=threads)
        assert summaries is not None
        assert [repr(each) for each in summaries] == [repr(each) for each in expected]
    for protocol, one in zip(PROTOCOLS, expected, strict=True):
        (summaries,) = summarize_files(truths, [found], [protocol], threads=2)
        assert summaries is not None
        assert repr(summaries[0]) == repr(one)


def test_the_example_of_the_coco_api(tmp_path: Path) -> None:
    """Results with masks alone: mask AP to the last bit of pycocotools, from the short way and the long one."""
    truths = shared_data("val2014_100/instances_val2014_100.json")
    found = shared_data("val2014_100/instances_val2014_fakesegm100_results.json")
    out = tmp_path / "numbers.json"
    assert main(["eval", str(truths), str(found), "--iou-type", "segm", "--quiet", "--json", str(out)]) == 0
    expected = run(from_files(THEIRS, (str(truths), str(found)), "segm")).stats
    there = read_truths(truths, iou_type="segm")
    result = boxscore.evaluate(read_detections(found, there, iou_type="segm"), there)
    assert np.array_equal(list(result.values()), expected)
    assert [json.loads(out.read_text())[name] for name in result] == list(result.values())


def test_a_table_for_each_kind_of_overlap(files: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """In the order they were asked for, and in JSON by its name."""
    assert main(["eval", *files, "--iou-type", "segm,bbox", "--json", str(tmp_path / "both.json")]) == 0
    printed = capsys.readouterr().out
    both = json.loads((tmp_path / "both.json").read_text())
    assert list(both) == ["segm", "bbox"]
    tables = []
    for iou_type, expected in both.items():
        assert main(["eval", *files, "--iou-type", iou_type, "--json", str(tmp_path / "one.json")]) == 0
        tables.append(capsys.readouterr().out)
        assert json.loads((tmp_path / "one.json").read_text()) == expected
    assert printed == "\n".join(tables)
    assert both["segm"]["map"] != both["bbox"]["map"]


def test_a_report_and_charts_of_boxes_and_masks(files: list[str], tmp_path: Path) -> None:
    """One file of both, with their names where models have theirs."""
    report, charts = tmp_path / "report.html", tmp_path / "charts"
    outputs = ["--html", str(report), "--plots", str(charts)]
    assert main(["eval", *files, "--iou-type", "bbox,segm", "--quiet", *outputs, "--bootstrap", "0"]) == 0
    page = report.read_text()
    assert '"bbox"' in page
    assert '"segm"' in page
    assert {"models_pr.png", "models_ap_by_iou.pdf"} < {path.name for path in charts.iterdir()}
    for iou_type in ("bbox", "segm"):
        assert (charts / iou_type / "pr.png").read_bytes()[:4] == b"\x89PNG"


def test_masks_that_are_evaluated_as_boxes_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Results without boxes are probably meant as masks."""
    files = write(tmp_path, *random_masks(3))
    assert main(["eval", *files]) == 0
    assert "has masks and no boxes, so the boxes around the masks are evaluated; `--iou-type segm`" in (
        capsys.readouterr().err
    )
    assert main(["eval", *files, "--iou-type", "segm"]) == 0
    assert capsys.readouterr().err == ""


def test_models_are_compared_by_their_masks(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And by one kind of overlap at a time."""
    worse = tmp_path / "worse.json"
    worse.write_text(json.dumps(json.loads(Path(files[1]).read_text())[::2]))
    assert main(["compare", *files, str(worse), "--iou-type", "segm", "--bootstrap", "50", "--quiet"]) == 0
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["compare", *files, str(worse), "--iou-type", "bbox,segm"])
    assert "argument --iou-type: must be one of bbox, segm, boundary" in capsys.readouterr().err


TRUTH = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 2, 2], "area": 4, "iscrowd": 0}
FOUND = {"image_id": 1, "category_id": 1, "score": 0.5, "segmentation": encoded(np.eye(5, dtype=bool))}


@pytest.mark.parametrize(
    ("truth", "found", "message"),
    [
        (TRUTH, FOUND, "truths.json: annotation 0 (id 1) must have `segmentation`"),
        (TRUTH | {"segmentation": [[1, 1, 2]]}, FOUND, "truths.json: annotation 0 (id 1)"),
        (
            TRUTH | {"segmentation": [[1, 1, 3, 1, 3, 3]]},
            FOUND | {"segmentation": {"size": [10**9, 10**9], "counts": "0"}},
            "found.json: result 0",
        ),
        (
            TRUTH | {"segmentation": [[1, 1, 3, 1, 3, 3]]},
            FOUND | {"segmentation": {"size": [5, 5], "counts": "54"}},
            "found.json: result 0",
        ),
    ],
)
def test_what_is_no_mask_is_one_line(
    truth: Any, found: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the file, the annotation and the rule; nothing is written."""
    dataset = {
        "images": [{"id": 1, "height": 5, "width": 5}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [truth],
    }
    files = write(tmp_path, dataset, [found])
    out = tmp_path / "numbers.json"
    assert main(["eval", *files, "--iou-type", "segm", "--json", str(out)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not out.exists()


POLYGON = [[1, 1, 9, 1, 9, 7, 1, 7]]


def test_polygons_of_results_are_drawn_into_the_image_that_they_are_joined_with(tmp_path: Path) -> None:
    """Whatever its number is: truths that have names alone are numbered by boxscore."""
    shape = {"label": "cat", "points": [[1, 1], [9, 1], [9, 7], [1, 7]], "shape_type": "polygon"}
    for stem, size in (("1", (20, 30)), ("2", (40, 50))):
        picture = {"imagePath": f"{stem}.jpg", "imageHeight": size[0], "imageWidth": size[1], "imageData": None}
        write_json(tmp_path / "truths" / f"{stem}.json", picture | {"shapes": [shape]})
    found: list[Any] = [
        {"image_id": image, "category_id": 0, "score": 0.5, "bbox": [1, 1, 8, 6], "segmentation": POLYGON}
        for image in (1, 2)
    ]
    truths = read_truths(tmp_path / "truths", iou_type="segm")
    for results in (found, [row | {"segmentation": encoded_in(row["image_id"])} for row in found[:1]] + found[1:]):
        detections = read_detections(write_json(tmp_path / "found.json", results), truths, iou_type="segm")
        assert detections.masks.runs.sizes.tolist() == [[20, 30], [40, 50]]
        assert boxscore.evaluate(detections, truths)["map"] == pytest.approx(1)


def write_json(path: Path, content: Any) -> Path:
    """The path of the content."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def encoded_in(image: int) -> Any:
    """The polygon as run lengths in an image of the test above."""
    height, width = {1: (20, 30), 2: (40, 50)}[image]
    rle = mask.merge(mask.frPyObjects(POLYGON, height, width))
    return {"size": rle["size"], "counts": rle["counts"].decode()}


def test_boxes_around_masks_are_not_read_in_another_format(tmp_path: Path) -> None:
    """`box_format` is that of the file's boxes, and there are none."""
    dataset, results = scene(1)
    truths, found = write(tmp_path, dataset, [{k: v for k, v in row.items() if k != "bbox"} for row in results])
    there = read_truths(truths)
    plain = boxscore.evaluate(read_detections(found, there), there)
    assert dict(boxscore.evaluate(read_detections(found, there, box_format="xyxy"), there)) == dict(plain)


@pytest.mark.native
def test_boxes_in_some_results_alone_take_the_general_path(tmp_path: Path) -> None:
    """Which measures all masks; the short way measures only those that are compared."""
    dataset, results = scene(2)
    results[0].pop("bbox")
    truths, found = map(Path, write(tmp_path, dataset, results))
    assert summarize_files(truths, [found], PROTOCOLS[:2], threads=1) == [None]
    assert main(["eval", str(truths), str(found), "--iou-type", "bbox,segm", "--quiet"]) == 0
