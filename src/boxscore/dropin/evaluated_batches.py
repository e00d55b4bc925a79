"""Batches of images that were evaluated one by one, or by several processes, as one evaluation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.data.geometry.masks import Masks
from boxscore.dropin.evaluation_columns import EvaluationColumns, Side, take_side
from boxscore.result.tally import Tally, joined, narrowest

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EvaluatedBatch:
    """The columns of some images, and the verdicts on their detections."""

    columns: EvaluationColumns
    tally: Tally | None
    """None for inputs that pycocotools treats differently; then `evalImgs` is made of the columns."""

    @classmethod
    def of(cls, columns: EvaluationColumns) -> "EvaluatedBatch":
        """The batch, matched."""
        return cls(columns=columns, tally=columns.tally())


def join(batches: Sequence[EvaluatedBatch]) -> EvaluatedBatch:
    """All of them as one, with images in ascending order. Of an image in several batches, the first copy counts."""
    first = batches[0].columns
    for batch in batches:
        if not _is_alike(batch.columns, first):
            raise InputError("`params` must be the same for all updates of an evaluator; they were changed in between")
    if len(batches) == 1:
        return batches[0]
    every = [image for batch in batches for image in batch.columns.images]
    images, first_row, rank = np.unique(np.array(every), return_index=True, return_inverse=True)
    numbers = _Renumbering(batches, rank, np.isin(np.arange(len(every)), first_row))
    sides = {
        name: numbers.side([getattr(batch.columns, name) for batch in batches]) for name in ("detections", "truths")
    }
    tallies = [batch.tally for batch in batches]
    known = [tally for tally in tallies if tally is not None]
    return EvaluatedBatch(
        columns=replace(first, images=list(images), **sides),
        tally=numbers.tally(known) if len(known) == len(tallies) else None,
    )


def _is_alike(columns: EvaluationColumns, other: EvaluationColumns) -> bool:
    return (
        (columns.iou_type, columns.classes, columns.bounds, columns.limits)
        == (other.iou_type, other.classes, other.bounds, other.limits)
        and np.array_equal(columns.thresholds, other.thresholds)
        and np.array_equal(columns.sigmas, other.sigmas)
    )


class _Renumbering:
    """Indices of images within batches to those among all images; -1 for copies.

    batch            0        1        2
    its images       7  3     5        3  9
    index in it      0  1     0        0  1
    new index        2  0     1       -1  3
    """

    def __init__(self, batches: Sequence[EvaluatedBatch], rank: Ints, is_first: NDArray[np.bool_]) -> None:
        self._new = np.where(is_first, rank, -1)
        sizes = [len(batch.columns.images) for batch in batches]
        self._start = np.cumsum(sizes) - sizes

    def images(self, columns: Sequence[NDArray[Any]]) -> Ints:
        """The new indices of the rows of all batches."""
        start = np.repeat(self._start, [len(column) for column in columns])
        new: Ints = self._new[np.concatenate(columns).astype(np.int64) + start]
        return new

    def side(self, sides: Sequence[Side]) -> Side:
        """The truths or the detections of all batches, without copies."""
        columns: dict[str, Any] = {"image": self.images([side.image for side in sides])}
        for name in type(sides[0]).__dataclass_fields__:
            values = [getattr(side, name) for side in sides]
            if name not in columns:
                columns[name] = _concatenate(values)
        everything = replace(sides[0], **columns)
        return take_side(everything, np.flatnonzero(everything.image >= 0))

    def tally(self, tallies: Sequence[Tally]) -> Tally:
        """The verdicts of all batches, without copies."""
        image, truth_image = (
            self.images([getattr(each, name) for each in tallies]) for name in ("image", "truth_image")
        )
        every = replace(joined(tallies), image=narrowest(image), truth_image=narrowest(truth_image))
        return every if (self._new >= 0).all() else every.without(np.array([-1]))


def _concatenate(values: Sequence[Any]) -> Any:
    if values[0] is None:
        return None
    if isinstance(values[0], bool):  # of all rows
        return all(values)
    if isinstance(values[0], Masks):
        return Masks.concatenate(values)
    if isinstance(values[0], Keypoints):
        return _concatenated_keypoints(values)
    return np.concatenate(values)


def _concatenated_keypoints(parts: Sequence[Keypoints]) -> Keypoints:
    """Those of parts with any; a part without has no number of points."""
    parts = [part for part in parts if len(part)] or parts[:1]
    names = ("point", "visibility", "area", "box", "num_labelled")
    columns = {name: [getattr(part, name) for part in parts] for name in names}
    return Keypoints(**{name: None if each[0] is None else np.concatenate(each) for name, each in columns.items()})
