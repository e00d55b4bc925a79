"""Keypoints in CSV, Parquet, Arrow and .npz."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, Truths
from tests.support.pose_tables import OKS, expected, read, scene, table_rows, write

KINDS = ["csv", "parquet", "parquet-fixed", "parquet-points", "arrow", "npz"]
TRUTH: dict[str, Any] = {"image_id": 1, "category_id": 1, "area": 90.0, "keypoints": [1.0, 2.0, 2.0, 5.0, 6.0, 0.0]}
DETECTION: dict[str, Any] = {"image_id": 1, "category_id": 1, "score": 0.5, "keypoints": [1.0, 2.0, 0.9, 5.0, 6.0, 0.1]}


def values_of(detections: Detections, truths: Truths) -> list[float]:
    """Every number of the result."""
    return list(boxscore.evaluate(detections, truths, OKS).values())


@pytest.mark.parametrize("has_boxes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_has_the_result_of_its_columns(kind: str, has_boxes: bool, tmp_path: Path) -> None:
    """Boxes of truths and, if there are any, of detections decide areas, as in COCO's JSON."""
    dataset, results = scene(has_boxes=has_boxes)
    found, there = table_rows(dataset, results)
    files = write(tmp_path, found, "found", kind), write(tmp_path, there, "there", kind)
    detections, truths = read(files)
    assert np.array_equal(values_of(detections, truths), values_of(*expected(dataset, results)), equal_nan=True)
    assert truths.keypoints.box is not None
    assert np.asarray(truths.keypoints.num_labelled).tolist() == [row["num_keypoints"] for row in there]


@pytest.mark.parametrize("kind", KINDS)
def test_truths_without_boxes_and_areas_have_the_box_around_their_labelled_points(kind: str, tmp_path: Path) -> None:
    """0.53 of it is the area: 0.53 * 4 * 4."""
    row = {**TRUTH, "keypoints": [1.0, 2.0, 2.0, 5.0, 6.0, 2.0]}
    del row["area"]
    truths = boxscore.read_truths(write(tmp_path, [row], "there", kind), iou_type=("bbox", "keypoints"))
    assert np.asarray(truths.boxes).tolist() == [[1, 2, 5, 6]]
    assert truths.keypoints.box is None
    assert np.asarray(truths.keypoints.areas(OKS)).tolist() == [0.53 * 16]


def test_boxes_are_read_without_keypoints(tmp_path: Path) -> None:
    """Where nothing asks for them, a column `keypoints` may have anything."""
    row = {"image_id": 1, "category_id": 1, "x": 1, "y": 2, "w": 3, "h": 4, "keypoints": "left out"}
    for kind in ("csv", "parquet"):
        assert len(boxscore.read_truths(write(tmp_path, [row], "there", kind))) == 1


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ([1.0, 2.0, 2.0], "`keypoints` must have as many points as the first row, 2; got 1"),
        (
            [1.0, 2.0, 2.0, 5.0],
            "`keypoints` must be a list of numbers x, y, v, .*, three for each point; got 4 numbers",
        ),
        ([], "three for each point; got 0 numbers"),
        ([1.0, float("nan"), 2.0, 5.0, 6.0, 0.0], "`keypoints` must have finite numbers; got .* for point 0"),
        ([1.0, 2.0, 2.0, 5.0, 6.0, -1.0], "`keypoints` must not have a negative visibility; got -1.0 for point 1"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_invalid_keypoints_are_named_with_their_file_and_row(
    kind: str, cell: list[float], message: str, tmp_path: Path
) -> None:
    """Of truths, the second row."""
    path = write(tmp_path, [TRUTH, {**TRUTH, "keypoints": cell}], "there", kind)
    second = "line 3" if kind == "csv" else "row 1"
    with pytest.raises(InputError, match=f"there.{kind}: {second}: .*{message}"):
        boxscore.read_truths(path, iou_type="keypoints")


def test_cells_that_are_no_lists(tmp_path: Path) -> None:
    """Text that is no JSON, and a missing cell."""
    for cell in ("1 2 2", "", '{"x": 1}', "[[1, 2], [3]]"):
        path = tmp_path / "there.csv"
        path.write_text("image_id,category_id,keypoints\n" + f'1,1,"{cell.replace(chr(34), chr(34) * 2)}"\n')
        with pytest.raises(InputError, match=r"there.csv: line 2: `keypoints` must be a list of numbers x, y, v"):
            boxscore.read_truths(path, iou_type="keypoints")


def test_a_null_in_a_list(tmp_path: Path) -> None:
    """Is no number."""
    path = write(tmp_path, [{**DETECTION, "keypoints": [1.0, 2.0, None]}], "found", "parquet")
    truths = boxscore.read_truths(
        write(tmp_path, [{**TRUTH, "keypoints": [1.0, 2.0, 2.0]}], "there", "parquet"), iou_type="keypoints"
    )
    with pytest.raises(InputError, match=r"found.parquet: row 0: `keypoints` must have finite numbers"):
        boxscore.read_detections(path, truths, iou_type="keypoints")


def test_arrays_of_other_shapes(tmp_path: Path) -> None:
    """In .npz, points have three numbers, or two: then all are labelled."""
    columns = {"image_id": [1], "category_id": [1], "area": [9.0]}
    np.savez(tmp_path / "two.npz", **columns, keypoints=np.ones((1, 4, 2)))  # type: ignore[arg-type]
    truths = boxscore.read_truths(tmp_path / "two.npz", iou_type="keypoints")
    assert np.asarray(truths.keypoints.visibility).tolist() == [[1, 1, 1, 1]]
    np.savez(tmp_path / "four.npz", **columns, keypoints=np.ones((1, 4, 4)))  # type: ignore[arg-type]
    with pytest.raises(
        InputError, match=r"four.npz: row 0: `keypoints` must be numbers of shape \(N, K, 3\) or \(N, K, 2\)"
    ):
        boxscore.read_truths(tmp_path / "four.npz", iou_type="keypoints")


def test_a_table_without_keypoints(tmp_path: Path) -> None:
    """Has nothing to be evaluated by OKS."""
    path = tmp_path / "there.csv"
    path.write_text("image_id,category_id,x,y,w,h\n1,1,1,2,3,4\n")
    with pytest.raises(
        InputError, match=r"there.csv: must have sets of keypoints for `iou_type` keypoints; the file has none"
    ):
        boxscore.read_truths(path, iou_type="keypoints")


def test_images_without_truths_have_empty_cells(tmp_path: Path) -> None:
    """As other columns have."""
    path = tmp_path / "there.csv"
    path.write_text(f'image_id,category_id,area,keypoints\n1,1,9,"{json.dumps(TRUTH["keypoints"])}"\n2,,,\n')
    truths = boxscore.read_truths(path, iou_type="keypoints")
    assert (len(truths), len(truths.image_names or ())) == (1, 2)
