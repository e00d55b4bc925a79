"""Scenes as Arrow tables."""

import pyarrow as pa

from tests.support.scenes import Scene

_HEADINGS = {"image_ids": "image", "labels": "label", "scores": "score", "boxes": "box"}


def tables(scene: Scene) -> tuple[pa.Table, pa.Table]:
    """The columns of a scene as Arrow tables, boxes as lists of 4."""
    found, there = (
        pa.table(
            {
                _HEADINGS.get(name, name): column.tolist() if name == "boxes" else column
                for name, column in columns.items()
            }
        )
        for columns in (scene.detection, scene.truth)
    )
    return found, there
