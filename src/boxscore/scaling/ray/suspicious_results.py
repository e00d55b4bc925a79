"""Warnings about results that look like a mistake. Only for these, the driver reads some boxes."""

import warnings
from typing import Any

from boxscore.checks.mistakes import Remedies, find_mistakes
from boxscore.checks.suspicion import Counts
from boxscore.result import arrow
from boxscore.result.result import Result
from boxscore.scaling.ray.job import Job

_NUM_TRUTHS = 1000
"""Number of truths that are diagnosed, with the detections on their images."""
_NUM_DETECTIONS = 100_000
"""Maximum number of these detections."""


def warn_if_suspicious(job: Job, result: Result, detections: Any, truths: Any) -> None:
    """Warn about the likely mistake behind a result near 0."""
    counts = Counts.of_result(result.per_class)
    if not counts.is_suspicious:
        return
    boxes = (None, None) if counts.is_empty else _read_some(job, detections, truths)
    one = "both must be in one `box_format`"
    remedies = Remedies("`detections`", "`truths`", one, one, labels="in the dataset", class_names=None)
    for mistake in find_mistakes(result, boxes[0], boxes[1], remedies):
        warnings.warn(str(mistake), stacklevel=3)


def _read_some(job: Job, detections: Any, truths: Any) -> tuple[Any, Any]:
    """Read some truths, and the detections on their images; None without detections, or if reading fails."""
    try:
        rows = truths.limit(_NUM_TRUTHS).take_batch(_NUM_TRUTHS, batch_format="pyarrow")
        images = rows.column("image").unique()
        near = detections.map_batches(_on_images, fn_kwargs={"images": images}, batch_format="pyarrow", batch_size=None)
        near = near.limit(_NUM_DETECTIONS).materialize()
        if near.count() == 0:
            return None, None
        near_rows = near.take_batch(_NUM_DETECTIONS, batch_format="pyarrow")
        return (
            arrow.detections_of(job.names.numbered(near_rows), **job.shapes),
            arrow.truths_of(job.names.numbered(rows), **job.shapes, class_names=job.class_names),
        )
    except Exception:  # the result is complete: a diagnosis that fails must not lose it
        return None, None


def _on_images(table: Any, images: Any) -> Any:
    """The rows on some images."""
    import pyarrow.compute

    return table.filter(pyarrow.compute.is_in(table.column("image"), value_set=images))
