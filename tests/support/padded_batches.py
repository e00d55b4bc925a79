"""A scene in padded batches."""

from typing import Any

import numpy as np

from tests.support.scenes import Scene


def batched(scene: Scene, size: int, *, areas: bool = True) -> list[tuple[dict[str, Any], dict[str, Any], Any]]:
    """The scene in padded batches of `size` images; the last may end in images that are all padding."""
    images = range(-(-scene.num_images // size) * size)
    rows, truth_rows = (
        [np.flatnonzero(columns["image_ids"] == image) for image in images]
        for columns in (scene.detection, scene.truth)
    )

    def padded(column: Any, rows: list[Any], fill: float) -> Any:
        longest = max(row.size for row in rows) + 1
        values = np.full((len(rows), longest, *column.shape[1:]), fill, column.dtype)
        for image, row in enumerate(rows):
            values[image, : row.size] = column[row]
        return values.reshape(-1, size, *values.shape[1:])

    found, truth = scene.detection, scene.truth
    preds = {"boxes": padded(found["boxes"], rows, 0), "scores": padded(found["scores"], rows, 0)}
    preds |= {"labels": padded(found["labels"], rows, -1)}
    targets = {"boxes": padded(truth["boxes"], truth_rows, 0), "labels": padded(truth["labels"], truth_rows, -1)}
    targets |= {"iscrowd": padded(truth["ignore"], truth_rows, 0)}
    if areas:
        targets |= {"area": padded(truth["area"], truth_rows, 0)}
    ids = np.array(images).reshape(-1, size)
    return [
        ({key: value[i] for key, value in preds.items()}, {key: value[i] for key, value in targets.items()}, ids[i])
        for i in range(len(ids))
    ]
