"""YOLO's poses: boxes with keypoints, as fractions of their images."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import InputError, Protocol
from boxscore.cli import main

WIDTH, HEIGHT, NUM_POINTS = 640, 480, 5
PROTOCOL = Protocol.named("coco_keypoints", sigmas=[0.05] * NUM_POINTS)


def write_poses(folder: Path, *, size: int = 3, has_yaml: bool = True) -> None:
    """The same poses as YOLO's labels and results, and as COCO's files; coordinates are exact as fractions."""
    random = np.random.default_rng(0)
    for name in ("gt/labels", "dt"):
        (folder / name).mkdir(parents=True)
    if has_yaml:
        (folder / "gt" / "data.yaml").write_text(f"names: [person]\nkpt_shape: [{NUM_POINTS}, {size}]\n")
    images: list[Any] = []
    annotations: list[Any] = []
    results: list[Any] = []
    for image in range(6):
        images.append({"id": image, "file_name": f"im{image}.jpg", "width": WIDTH, "height": HEIGHT})
        labels, found = [], []
        for _ in range(3):
            extent, corner = random.integers(8, 32, 2) * 8, random.integers(0, 20, 2) * 8
            point = corner + random.integers(0, extent // 8, (NUM_POINTS, 2)) * 8.0
            seen = random.integers(0, 3, NUM_POINTS) if size == 3 else np.ones(NUM_POINTS)
            near = point + random.integers(-4, 5, point.shape)
            score = float(random.random())
            box = [*((corner + extent / 2) / [WIDTH, HEIGHT]), *(extent / [WIDTH, HEIGHT])]
            numbers = np.column_stack([point / [WIDTH, HEIGHT], seen])[:, :size].reshape(-1)
            labels.append(" ".join(map(repr, [0, *map(float, [*box, *numbers])])))
            numbers = np.column_stack([near / [WIDTH, HEIGHT], np.full(NUM_POINTS, 0.5)])[:, :size].reshape(-1)
            found.append(" ".join(map(repr, [0, *map(float, [*box, *numbers]), score])))
            row: dict[str, Any] = {"image_id": image, "category_id": 0}
            annotations.append(
                row
                | {"id": len(annotations) + 1, "iscrowd": 0, "bbox": [*corner.tolist(), *extent.tolist()]}
                | {"area": float(extent[0] * extent[1]) * 0.53, "num_keypoints": int((seen > 0).sum())}
                | {"keypoints": np.column_stack([point, seen]).reshape(-1).tolist()}
            )
            flat = np.column_stack([near, np.full(NUM_POINTS, 0.5)]).reshape(-1).tolist()
            results.append(row | {"score": score, "keypoints": flat})
        (folder / "gt" / "labels" / f"im{image}.txt").write_text("\n".join(labels))
        (folder / "dt" / f"im{image}.txt").write_text("\n".join(found))
    sizes = [f"im{image}.jpg,{WIDTH},{HEIGHT}" for image in range(6)]
    (folder / "sizes.csv").write_text("\n".join(["name,width,height", *sizes]))
    dataset = {"images": images, "annotations": annotations, "categories": [{"id": 0, "name": "person"}]}
    (folder / "gt.json").write_text(json.dumps(dataset))
    (folder / "dt.json").write_text(json.dumps(results))


def poses(folder: Path, truths: str, detections: str, **settings: Any) -> boxscore.Result:
    """The result of two files or folders."""
    there = boxscore.read_truths(folder / truths, iou_type="keypoints", **settings)
    found = boxscore.read_detections(folder / detections, there, iou_type="keypoints")
    return boxscore.evaluate(found, there, PROTOCOL)


@pytest.mark.parametrize("size", [2, 3])
def test_poses_have_the_numbers_of_coco(tmp_path: Path, size: int) -> None:
    """A truth's area is 0.53 of its box, as in Ultralytics; points of two numbers are all labelled."""
    write_poses(tmp_path, size=size)
    expected = poses(tmp_path, "gt.json", "dt.json")
    result = poses(tmp_path, "gt", "dt", sizes=tmp_path / "sizes.csv")
    assert 0 < expected["map"] < 1
    for name in ("map", "map_50", "map_75", "mar", "mar_50", "mar_75"):
        assert result[name] == expected[name]


def test_the_command_reads_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With sigmas of one's own."""
    write_poses(tmp_path)
    paths = [str(tmp_path / name) for name in ("gt", "dt")]
    sigmas = ",".join(map(str, PROTOCOL.sigmas))
    options = ["--iou-type", "keypoints", "--sigmas", sigmas, "--sizes", str(tmp_path / "sizes.csv"), "--json", "-"]
    assert main(["eval", *paths, *options]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["map"] == poses(tmp_path, "gt", "dt", sizes=tmp_path / "sizes.csv")["map"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "0 0.5 0.5 0.1 0.1",
            r"im2.txt: line 1 must be a box with keypoints: class cx cy w h x y v .*kpt_shape: \[5, 3\]",
        ),
        ("0 0.5 0.5 0.1 0.1 0.5 0.5 2 0.5", r"im2.txt: line 1 must be a box with keypoints"),
        ("0 0.5 0.5 0.1 0.1" + " 0.5 0.5 -1" * 5, r"im2.txt: line 1: `keypoints` must not have a negative visibility"),
        ("0 0.5 0.5 0.1 0.1" + " 0.5 nan 1" * 5, r"im2.txt: line 1: `keypoints` must have finite numbers"),
        ("0 0.5 0.5 0 0.1" + " 0.5 0.5 1" * 5, r"im2.txt: line 1: `box` must have an area above 0"),
    ],
)
def test_a_line_that_is_no_pose_is_refused(tmp_path: Path, line: str, message: str) -> None:
    """With the file, the line and the rule."""
    write_poses(tmp_path)
    (tmp_path / "gt" / "labels" / "im2.txt").write_text(line)
    with pytest.raises(InputError, match=message):
        poses(tmp_path, "gt", "dt", sizes=tmp_path / "sizes.csv")


def test_what_may_be_pairs_or_triples_is_refused(tmp_path: Path) -> None:
    """Six numbers are two keypoints of three numbers, or three of two: `kpt_shape` tells."""
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "a.txt").write_text("0 0.5 0.5 0.5 0.5 0.5 0.5 0.4 0.4 0.6 0.6")
    with pytest.raises(InputError, match=r"6 numbers may be 2 keypoints of three numbers, or 3 of two; give data.yaml"):
        boxscore.read_truths(tmp_path, format="yolo", iou_type="keypoints", sizes={"a": (10, 10)})
