"""Oriented boxes in Parquet files."""

from pathlib import Path
from typing import Any

import numpy as np

from boxscore import Detections, Truths
from boxscore.data.dataset import take
from tests.support.oriented_scenes import random_oriented

NAMES = ("cx", "cy", "w", "h", "angle")
CORNERS = ("x1", "y1", "x2", "y2", "x3", "y3", "x4", "y4")


def scene() -> tuple[Detections, Truths]:
    """Images that have truths."""
    detections, truths = random_oriented(5, num_images=30)
    return take(detections, np.isin(detections.image_ids, truths.image_ids)), truths


def write(folder: Path, form: str) -> tuple[Path, Path]:
    """Both sides as Parquet: with angles in columns, in lists, or as corners."""
    import pyarrow
    from pyarrow import parquet

    paths = []
    for side, columns in zip(("found", "there"), scene(), strict=True):
        flags = (
            {"score": columns.scores}
            if isinstance(columns, Detections)
            else {"ignore": getattr(columns, "ignore", None)}
        )
        table: dict[str, Any] = {"image_id": columns.image_ids, "category_id": columns.labels, **flags}
        box = np.asarray(columns.oriented_boxes.boxes)
        if form == "list":
            table["box"] = pyarrow.FixedSizeListArray.from_arrays(box.ravel(), 5)
        elif form == "columns":
            table |= dict(zip(NAMES, box.T, strict=True))
        else:
            table |= dict(zip(CORNERS, columns.oriented_boxes.corners().T, strict=True))
        paths.append(folder / f"{side}.parquet")
        parquet.write_table(pyarrow.table(table), paths[-1], row_group_size=17)
    return paths[0], paths[1]
