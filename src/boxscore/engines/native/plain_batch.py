"""Batches of dicts to tallies: the fast path of the metric, for batches with nothing to convert or to say.

The rows of a batch are validated and copied when it comes. They are matched when there are enough of them for several
threads, or when somebody asks for the tally: `make bench` measures it in the section `stream`.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import boxscore._compiled as _compiled
from boxscore.arrays import is_in_host_memory, library, to_numpy
from boxscore.data.batch_keys import DETECTION_KEYS, TRUTH_KEYS, Keys, is_unread
from boxscore.data.batches import concatenate_alike
from boxscore.data.dataset import Detections, Invalid, Truths
from boxscore.data.geometry.box_formats import BoxFormat, is_oriented
from boxscore.engines.native.columns import class_ids
from boxscore.engines.native.compiled_engine import tally_of
from boxscore.engines.native.rules import rules_of
from boxscore.protocol.protocol import LARGEST_SIDE, Protocol
from boxscore.result.tally import Tally

_NUM_ROWS = 1 << 15
"""So many rows are matched at once: enough for several threads, and few enough for the caches of a processor."""

_KEYS = _compiled.ImageKeys(DETECTION_KEYS.columns, partial(is_unread, known=DETECTION_KEYS.all))
_TRUTH_KEYS = _compiled.ImageKeys(TRUTH_KEYS.columns, partial(is_unread, known=TRUTH_KEYS.all))


class PlainBatches:
    """Batches that wait to be matched, as they mostly come: tensors or arrays in host memory, all images alike.

    No two of their images have the same id.
    """

    def __init__(
        self,
        protocol: Protocol,
        box_format: BoxFormat,
        class_names: Mapping[int, str] | None,
        invalid: Invalid = "error",
    ) -> None:
        self.settings = protocol, box_format, class_names, invalid
        self._buffer = _compiled.BatchBuffer(
            keys=_KEYS,
            truth_keys=_TRUTH_KEYS,
            box_format=getattr(_compiled.BoxFormat, box_format),
            is_inclusive=protocol.pixels == "inclusive",
            largest_side=LARGEST_SIDE,
            ignored_kind=protocol.ignored_kind,
            drops_invalid=invalid == "drop",
            labels=None if class_names is None else class_ids(class_names),
        )

    @staticmethod
    def can_match(protocol: Protocol, box_format: BoxFormat) -> bool:
        """Whether batches under this protocol need nothing but matching."""
        is_plain = protocol.iou_type == "bbox" and protocol.is_plain and not is_oriented(box_format)
        return is_plain and not protocol.class_agnostic and not protocol.class_groups

    def __len__(self) -> int:
        """How many rows there are: detections, truths, and detections that were dropped."""
        return self._buffer.num_rows

    @property
    def num_last_invalid(self) -> int:
        """How many detections of the last batch were dropped."""
        return self._buffer.num_last_invalid

    def add(
        self, preds: Sequence[Mapping[str, Any]], targets: Sequence[Mapping[str, Any]], image_ids: Sequence[int]
    ) -> bool:
        """Whether a batch is among them now, as a copy.

        If not, there is something to convert or to say, which is for `Detections.from_images` and `Truths.from_images`;
        or its numbers are of other types than those that wait.
        """
        if type(preds) is list and type(targets) is list and self._buffer.add_images(preds, targets, image_ids):
            return True
        detections, truths = _concatenated(preds, DETECTION_KEYS), _concatenated(targets, TRUTH_KEYS)
        if detections is None or truths is None:
            return False
        return self._buffer.add_columns(*detections, *truths, image_ids)

    @property
    def is_full(self) -> bool:
        """Whether there are enough rows to match them."""
        return self._buffer.num_rows >= _NUM_ROWS

    def last(self) -> tuple[Detections, Truths]:
        """The rows of the last batch, as a copy; truths without what marks them, and without areas."""
        _, box_format, class_names, _ = self.settings
        columns, truth_columns = self._buffer.last_columns()
        return (
            Detections(**columns, box_format=box_format),
            Truths(**truth_columns, box_format=box_format, class_names=class_names),
        )

    def remove_last(self) -> None:
        """Remove the rows of the last batch."""
        self._buffer.remove_last()

    def match(self, threads: int) -> Tally:
        """The tally of all of them, which are gone then; after an error they are still there."""
        protocol, _, class_names, _ = self.settings
        invalid = self._buffer.invalid_images() if self._buffer.num_invalid else None
        columns = self._buffer.match(rules_of(protocol), threads)
        tally = tally_of(columns, protocol, class_names, invalid_image=invalid)
        self._buffer.clear()
        return tally


def _concatenated(images: Sequence[Mapping[str, Any]], keys: Keys) -> tuple[dict[str, Any], list[int]] | None:
    """The columns of all images, in host memory, and how many rows each image has."""
    used = keys.used(images)
    joined = None if used is None else concatenate_alike(images, used)
    if joined is None:
        return None
    columns, num_rows = joined
    if library(columns["box"]) not in ("numpy", "torch") or not is_in_host_memory(columns["box"]):
        return None
    return {name: to_numpy(column) for name, column in columns.items()}, num_rows
