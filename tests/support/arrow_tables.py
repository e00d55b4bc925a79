"""Both sides as Arrow tables with our columns."""

from typing import Any

import numpy as np

from boxscore import Detections, Truths
from boxscore.data.geometry.boxes import Boxes
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.data.geometry.masks import Masks
from boxscore.data.geometry.oriented_boxes import OrientedBoxes
from boxscore.result.arrow import column_of


def tables(detections: Detections, truths: Truths, *, is_fixed: bool = False) -> tuple[Any, Any]:
    """Boxes and keypoints as lists, masks as structs; `is_fixed`: with keypoints in lists of a fixed size."""
    import pyarrow

    return (
        pyarrow.table(table_columns(detections, is_fixed=is_fixed)),
        pyarrow.table(table_columns(truths, is_fixed=is_fixed)),
    )


def table_columns(side: Detections | Truths, *, is_fixed: bool = False) -> dict[str, Any]:
    """The columns of one side that are given."""
    import pyarrow

    columns = {"image": side.image_ids, "label": side.labels, "area": side.area}
    columns |= {"score": side.scores} if isinstance(side, Detections) else {"ignore": side.ignore}
    for shapes in side.geometries:
        if isinstance(shapes, Masks):
            columns["mask"] = column_of(shapes)
        elif isinstance(shapes, Keypoints):
            third = shapes.score if shapes.visibility is None else shapes.visibility
            points = np.concatenate([np.asarray(shapes.point), np.asarray(third)[:, :, None]], axis=2)
            size = 3 * points.shape[1]
            fixed = pyarrow.FixedSizeListArray.from_arrays(points.reshape(-1), size) if is_fixed else None
            columns["keypoints"] = points.reshape(-1, size).tolist() if fixed is None else fixed
        elif isinstance(shapes, Boxes | OrientedBoxes):
            columns["box"] = np.asarray(shapes.boxes).tolist()
    return {name: column for name, column in columns.items() if column is not None}
