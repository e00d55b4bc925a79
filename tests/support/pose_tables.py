"""Keypoints in tables: CSV, Parquet, Arrow and .npz."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

import boxscore
from boxscore import Detections, Truths
from tests.support.pose_scenes import columns_of, protocol_with, random_poses

NUM_POINTS = 5
OKS = protocol_with(NUM_POINTS)
Rows = list[dict[str, Any]]


def scene(*, has_boxes: bool = False, num_images: int = 12) -> tuple[dict[str, Any], Rows]:
    """Images that have truths, some of them without a labelled point; `has_boxes`: whether results have boxes."""
    return random_poses(3, num_points=NUM_POINTS, num_images=num_images, has_boxes=has_boxes)


def expected(dataset: dict[str, Any], results: Rows) -> tuple[Detections, Truths]:
    """The columns of a scene, of which files list the images that have truths."""
    images = {row["image_id"] for row in dataset["annotations"]}
    return columns_of(dataset, [row for row in results if row["image_id"] in images])


def table_rows(dataset: dict[str, Any], results: Rows) -> tuple[Rows, Rows]:
    """One dict per row of a table, of detections and of truths."""
    images = {row["image_id"] for row in dataset["annotations"]}
    names = {row["id"]: row["name"] for row in dataset["categories"]}
    kept = [row for row in results if row["image_id"] in images]
    sides = []
    for side in (kept, dataset["annotations"]):
        rows = []
        for row in side:
            more = {name: row[name] for name in ("score", "area", "iscrowd", "num_keypoints") if name in row}
            box = dict(zip("xywh", row["bbox"], strict=True)) if "bbox" in row else {}
            label = row["category_id"]
            place = {"image_id": row["image_id"], "category_id": label, "class_name": names[label]}
            rows.append({**place, **more, **box, "keypoints": row["keypoints"]})
        sides.append(rows)
    return sides[0], sides[1]


def write(folder: Path, rows: Rows, name: str, kind: str) -> Path:
    """The rows in a file of a kind: csv, parquet, arrow, npz, or parquet with lists of a fixed size, or of lists."""
    path = folder / f"{name}.{kind.split('-')[0]}"
    columns: dict[str, Any] = {key: [row[key] for row in rows] for key in rows[0]}
    if kind == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(
                {key: json.dumps(cell) if key == "keypoints" else cell for key, cell in row.items()} for row in rows
            )
        return path
    if kind == "npz":
        columns["keypoints"] = np.array(columns["keypoints"]).reshape(len(rows), -1, 3)
        np.savez(path, **{key: np.array(column) for key, column in columns.items()})  # type: ignore[arg-type]
        return path
    import pyarrow
    from pyarrow import parquet

    if kind == "parquet-fixed":
        flat = np.array(columns["keypoints"]).reshape(-1)
        columns["keypoints"] = pyarrow.FixedSizeListArray.from_arrays(flat, len(rows[0]["keypoints"]))
    elif kind == "parquet-points":
        columns["keypoints"] = np.array(columns["keypoints"]).reshape(len(rows), -1, 3).tolist()
    table = pyarrow.table(columns)
    if kind == "arrow":
        with pyarrow.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    else:
        parquet.write_table(table, path, row_group_size=17)
    return path


def read(paths: tuple[Path, Path]) -> tuple[Detections, Truths]:
    """Both sides of files: detections, truths."""
    truths = boxscore.read_truths(paths[1], iou_type="keypoints")
    return boxscore.read_detections(paths[0], truths, iou_type="keypoints"), truths
