"""The rows of batches that wait to be matched together: validated and copied when they come.

They are matched when there are enough of them for several threads, or when somebody asks for the tally: `make bench`
measures it in the section `stream`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

import boxscore._compiled as _compiled
from boxscore.data.dataset import Detections, Invalid, Truths
from boxscore.data.geometry.box_formats import BoxFormat, is_oriented
from boxscore.protocol.protocol import LARGEST_SIDE, Protocol

NUM_ROWS = 1 << 15
"""Number of rows to match at once: enough for several threads, and few enough for the caches of a processor."""


class BufferSettings(NamedTuple):
    """The rules for rows: batches with other settings need another buffer."""

    protocol: Protocol
    box_format: BoxFormat
    class_names: Mapping[int, str] | None
    invalid: Invalid = "error"
    fills_areas: bool = False
    """Whether an `area` of 0 stands for the box's own, as in torchmetrics."""

    @property
    def are_supported(self) -> bool:
        """Whether batches under these settings need nothing between reading and matching."""
        protocol = self.protocol
        is_of_boxes = protocol.iou_type == "bbox" and not is_oriented(self.box_format)
        return is_of_boxes and protocol.is_plain and not protocol.class_agnostic and not protocol.class_groups


class RowBuffer:
    """Rows of upright boxes, in which no two batches have an image in common."""

    def __init__(self, settings: BufferSettings) -> None:
        self.settings = settings
        protocol, names = settings.protocol, settings.class_names
        self.compiled = _compiled.BatchBuffer(
            box_format=getattr(_compiled.BoxFormat, settings.box_format),
            is_inclusive=protocol.pixels == "inclusive",
            largest_side=LARGEST_SIDE,
            ignored_kind=protocol.ignored_kind,
            drops_invalid=settings.invalid == "drop",
            fills_areas=settings.fills_areas,
            labels=None if names is None else np.array(list(names), np.int64),
        )

    def __len__(self) -> int:
        """Number of rows: detections, truths, and detections that were dropped."""
        return self.compiled.num_rows

    @property
    def is_full(self) -> bool:
        """Whether there are enough rows to match them."""
        return self.compiled.num_rows >= NUM_ROWS

    def add(
        self, preds: _compiled.ArrayBatch | None, targets: _compiled.ArrayBatch | None, image_ids: list[int]
    ) -> bool:
        """Copy the rows of a batch; return whether that was possible.

        If not, there is something to convert or to report, which is for `Detections.from_images` and so on; or the
        numbers have other types than those that wait.
        """
        return preds is not None and targets is not None and self.compiled.add(preds, targets, image_ids)

    @property
    def num_last_invalid(self) -> int:
        """Number of detections of the last batch that were dropped."""
        return self.compiled.num_last_invalid

    def last(self) -> tuple[Detections, Truths]:
        """The rows of the last batch, as a copy; truths without flags and areas."""
        box_format, names = self.settings.box_format, self.settings.class_names
        columns, truth_columns = self.compiled.last_columns()
        return (
            Detections(**columns, box_format=box_format),
            Truths(**truth_columns, box_format=box_format, class_names=names),
        )

    def remove_last(self) -> None:
        """Remove the rows of the last batch."""
        self.compiled.remove_last()
