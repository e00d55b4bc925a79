"""A buffer of the rows of batches that will be matched together; rows are validated and copied when added.

Rows are matched when they are enough for several threads, or when the tally is requested. `make bench` measures it in
the section `stream`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

import boxscore._compiled as _compiled
from boxscore.data.dataset import Detections, Invalid, Truths
from boxscore.data.geometry.box_formats import BoxFormat, is_oriented
from boxscore.protocol.protocol import LARGEST_SIDE, Protocol

NUM_ROWS = 1 << 15
"""Number of rows to match at once: enough for several threads, and few enough for the processor's caches."""


class BufferSettings(NamedTuple):
    """Settings of a buffer. Batches with other settings need another buffer."""

    protocol: Protocol
    box_format: BoxFormat
    class_names: Mapping[int, str] | None
    invalid: Invalid = "error"
    fills_areas: bool = False
    """Whether an `area` of 0 means the area of the box, as in torchmetrics."""

    @property
    def are_supported(self) -> bool:
        """Whether batches are matched without preparation: upright boxes, and a protocol that needs none."""
        protocol = self.protocol
        is_of_boxes = protocol.iou_type == "bbox" and not is_oriented(self.box_format)
        return is_of_boxes and not protocol.needs and not protocol.class_agnostic and not protocol.class_groups


class RowBuffer:
    """A buffer of upright boxes. No two of its batches have an image in common."""

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
        """Number of rows: detections, truths, and dropped detections."""
        return self.compiled.num_rows

    @property
    def is_full(self) -> bool:
        """Whether the buffer has enough rows to match."""
        return self.compiled.num_rows >= NUM_ROWS

    def add(
        self, preds: _compiled.ArrayBatch | None, targets: _compiled.ArrayBatch | None, image_ids: list[int]
    ) -> bool:
        """Copy the rows of a batch. Return whether that was possible.

        It is not if values must be converted or errors reported, which `Detections.from_images` and `from_padded` do,
        or if the buffered rows have other dtypes.
        """
        return preds is not None and targets is not None and self.compiled.add(preds, targets, image_ids)

    @property
    def num_last_invalid(self) -> int:
        """Number of dropped detections of the last batch."""
        return self.compiled.num_last_invalid

    def last(self) -> tuple[Detections, Truths]:
        """Copy the rows of the last batch; truths have no flags and areas."""
        box_format, names = self.settings.box_format, self.settings.class_names
        columns, truth_columns = self.compiled.last_columns()
        return (
            Detections(**columns, box_format=box_format),
            Truths(**truth_columns, box_format=box_format, class_names=names),
        )

    def remove_last(self) -> None:
        """Remove the rows of the last batch."""
        self.compiled.remove_last()
