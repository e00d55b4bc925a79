"""Keypoints that are written: `boxscore convert`, and what formats cannot hold."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import boxscore
from boxscore.cli import main
from boxscore.formats import write_detections, write_truths
from tests.support.pose_scenes import random_crowds
from tests.support.pose_tables import OKS, expected, read, scene

Captured = pytest.CaptureFixture[str]
EXACT = [("coco", ".json"), ("csv", ".csv"), ("npz", ".npz"), ("parquet", ".parquet"), ("parquet", ".arrow")]


def coco_files(folder: Path, dataset: Any, results: Any) -> tuple[Path, Path]:
    """Detections and truths as JSON."""
    paths = folder / "found.json", folder / "there.json"
    for path, content in zip(paths, (results, dataset), strict=True):
        path.write_text(json.dumps(content))
    return paths


def convert(paths: tuple[Path, Path], folder: Path, name: str, suffix: str = "") -> tuple[Path, Path]:
    """Both files in another format."""
    written = folder / f"new_found{suffix}", folder / f"new_there{suffix}"
    assert main(["convert", str(paths[1]), str(written[1]), "--to", name]) == 0
    assert main(["convert", str(paths[0]), str(written[0]), "--to", name, "--truths", str(paths[1])]) == 0
    return written


def numbers(paths: tuple[Path, Path], protocol: boxscore.Protocol = OKS) -> list[float]:
    """Every number of the result of files."""
    return list(boxscore.evaluate(*read(paths), protocol).values())


@pytest.mark.parametrize("has_boxes", [False, True])
@pytest.mark.parametrize(("name", "suffix"), EXACT)
def test_the_numbers_are_the_same_to_the_last_bit(
    name: str, suffix: str, has_boxes: bool, tmp_path: Path, capsys: Captured
) -> None:
    """Whether results have boxes, which decide their areas, or not; nothing is lost."""
    paths = coco_files(tmp_path, *scene(has_boxes=has_boxes))
    before = numbers(paths)
    written = convert(paths, tmp_path, name, suffix)
    assert capsys.readouterr().err == ""
    assert np.array_equal(numbers(written), before, equal_nan=True)
    truths, again = (boxscore.read_truths(each[1], iou_type="keypoints").keypoints for each in (paths, written))
    for column in ("point", "visibility", "area", "box", "num_labelled"):
        assert np.array_equal(getattr(truths, column), getattr(again, column)), column


def test_yolo_has_poses(tmp_path: Path, capsys: Captured) -> None:
    """As fractions, with `kpt_shape`; areas and flags are lost, and the warnings say so."""
    dataset, results = scene()
    written = convert(coco_files(tmp_path, dataset, results), tmp_path, "yolo")
    err = capsys.readouterr().err
    assert yaml.safe_load((written[1] / "data.yaml").read_text())["kpt_shape"] == [5, 3]
    assert "areas are lost" in err
    assert "sets of keypoints" not in err
    detections, truths = read(written)
    original = boxscore.read_truths(tmp_path / "there.json", iou_type="keypoints")
    order = [
        np.lexsort(np.asarray(each.keypoints.point).reshape(len(each), -1).round(6).T) for each in (truths, original)
    ]
    points = [np.asarray(each.keypoints.point)[rows] for each, rows in zip((truths, original), order, strict=True)]
    assert np.allclose(points[0], points[1])
    assert len(detections) == len(results)


@pytest.mark.parametrize("name", ["voc", "openimages", "labelme", "cvat", "dota"])
def test_other_formats_say_that_keypoints_are_lost(name: str, tmp_path: Path) -> None:
    """Boxes are written."""
    dataset, results = scene()
    detections, truths = expected(dataset, results)
    named = boxscore.Truths(
        image_ids=truths.image_ids,
        labels=truths.labels,
        keypoints=truths.keypoints,
        class_names={0: "a", 1: "b"},
        image_names={image: f"{image}.jpg" for image in range(12)},
        image_sizes=dict.fromkeys(range(12), (640, 480)),
    )
    lost = [str(loss) for loss in write_truths(tmp_path / "there", named, format=name)]
    assert f"{len(truths)} sets of keypoints are lost" in lost
    if name in ("voc", "openimages", "dota"):
        lost = [str(loss) for loss in write_detections(tmp_path / "found", detections, named, format=name)]
        assert f"{len(detections)} sets of keypoints are lost" in lost


def test_masks_and_keypoints_are_both_kept(tmp_path: Path, capsys: Captured) -> None:
    """As COCO's annotations of people have both."""
    dataset, _ = scene()
    for row in dataset["annotations"]:
        x, y, w, h = row["bbox"]
        row["segmentation"] = [[x, y, x + w, y, x + w, y + h]]
    path = tmp_path / "there.json"
    path.write_text(json.dumps(dataset))
    for suffix in (".json", ".csv", ".npz", ".parquet"):
        written = tmp_path / f"new{suffix}"
        assert main(["convert", str(path), str(written)]) == 0
        masks = [np.asarray(boxscore.read_truths(each, iou_type="segm").masks.runs.area) for each in (path, written)]
        points = [
            np.asarray(boxscore.read_truths(each, iou_type="keypoints").keypoints.point) for each in (path, written)
        ]
        assert np.array_equal(masks[0], masks[1])
        assert np.array_equal(points[0], points[1])
    assert "keypoints" not in capsys.readouterr().err


def test_rows_without_keypoints(tmp_path: Path, capsys: Captured) -> None:
    """All keypoints are left out, and a warning says where."""
    dataset, _ = scene()
    del dataset["annotations"][1]["keypoints"]
    path = tmp_path / "there.json"
    path.write_text(json.dumps(dataset))
    assert main(["convert", str(path), str(tmp_path / "there.csv")]) == 0
    assert "keypoints are left out, as not every row has valid ones: " in capsys.readouterr().err
    assert len(boxscore.read_truths(tmp_path / "there.csv")) == len(dataset["annotations"])


def test_crowd_indices(tmp_path: Path, capsys: Captured) -> None:
    """Are written to COCO's JSON, and lost elsewhere."""
    paths = coco_files(tmp_path, *random_crowds(1, has_boxes=True))
    protocol = boxscore.Protocol.named("crowdpose")
    written = convert(paths, tmp_path, "coco", ".json")
    assert np.array_equal(numbers(written, protocol), numbers(paths, protocol), equal_nan=True)
    assert capsys.readouterr().err == ""
    assert main(["convert", str(paths[1]), str(tmp_path / "there.csv")]) == 0
    assert "14 crowd indices are lost" in capsys.readouterr().err


def test_areas_of_points_stay_beside_boxes(tmp_path: Path) -> None:
    """As those of YOLO's poses: tables keep them, and COCO's results have the areas of boxes."""
    truths = boxscore.Truths(image_ids=[1], labels=[0], keypoints=[[[1, 2, 2], [5, 9, 2]]], class_names=["a"])
    columns: dict[str, Any] = {"image_ids": [1], "labels": [0], "scores": [0.5], "boxes": [[0, 0, 100, 100]]}
    detections = boxscore.Detections(**columns, keypoints=[[[1, 2, 0.5], [5, 9, 0.5]]])
    write_truths(tmp_path / "there.csv", truths)
    for suffix in (".csv", ".npz", ".parquet"):
        assert write_detections(tmp_path / f"found{suffix}", detections, truths) == ()
        found, _ = read((tmp_path / f"found{suffix}", tmp_path / "there.csv"))
        assert np.asarray(found.area).tolist() == [4 * 7]
    assert [str(loss) for loss in write_detections(tmp_path / "a.json", detections, truths)] == ["1 area is lost"]


def test_keypoints_alone_are_written_without_boxes(tmp_path: Path) -> None:
    """The areas of detections stay what they are."""
    truths = boxscore.Truths(image_ids=[1], labels=[0], keypoints=[[[1, 2, 2], [5, 9, 2]]], class_names=["a"])
    detections = boxscore.Detections(image_ids=[1], labels=[0], scores=[0.5], keypoints=[[[1, 2], [5, 9]]], area=[7.0])
    for suffix in (".csv", ".npz", ".parquet"):
        assert write_truths(tmp_path / f"there{suffix}", truths) == ()
        assert write_detections(tmp_path / f"found{suffix}", detections, truths) == ()
        found, there = read((tmp_path / f"found{suffix}", tmp_path / f"there{suffix}"))
        assert there.keypoints.box is None
        assert np.asarray(found.area).tolist() == [7.0]
    lost = write_detections(tmp_path / "found.json", detections, truths)
    assert [str(loss) for loss in lost] == ["1 area is lost"]
    assert "bbox" not in json.loads((tmp_path / "found.json").read_text())[0]
