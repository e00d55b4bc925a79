"""The detections and truths of an evaluation, and their verdicts at one threshold."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.threads import num_threads
from boxscore.arrays import to_numpy
from boxscore.data.dataset import Detections, Truths, host_ids, host_scores, pooled
from boxscore.engines.native.pairs import BEYOND, Pairs, Rows, pair
from boxscore.pipeline import match
from boxscore.protocol.protocol import Protocol
from boxscore.result.result import Result
from boxscore.result.tally import TRUE, Tally, is_within_dataset


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pairing:
    """Both sides and their verdicts. Rows are as they were given; by label, where a protocol takes all as one class."""

    protocol: Protocol
    """With one threshold, one area range, one limit."""
    detections: Detections
    truths: Truths
    pairs: Pairs
    detection_row: NDArray[np.int64]
    """The row in which each detection was given. Shape (D,)."""
    truth_row: NDArray[np.int64]
    """The row in which each truth was given. Shape (G,)."""
    threads: int

    @property
    def label(self) -> NDArray[np.int64]:
        """Labels of the detections. Shape (D,)."""
        return host_ids(self.detections.label)

    @property
    def score(self) -> NDArray[Any]:
        """Shape (D,)."""
        return host_scores(self.detections.score)

    @property
    def truth_label(self) -> NDArray[np.int64]:
        """Labels of the truths. Shape (G,)."""
        return host_ids(self.truths.label)

    def is_found(self, is_kept: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Whether a truth has a true positive, among the detections that are kept. Shape (G,)."""
        is_true = self.pairs.verdict == TRUE
        is_found = np.zeros(len(self.truths), bool)
        is_found[self.pairs.truth[is_true if is_kept is None else is_true & is_kept]] = True
        return is_found


def pair_rows(detections: Detections, truths: Truths, protocol: Protocol, threads: int) -> Pairing:
    """The verdict of every detection at the protocol's only threshold, and the truth that it took."""
    rows = [np.arange(len(columns)) for columns in (detections, truths)]
    if protocol.class_agnostic:
        rows = [np.argsort(to_numpy(columns.label), kind="stable") for columns in (detections, truths)]
        detections, truths = pooled(detections), pooled(truths)
    pairs = pair(detections, truths, protocol, threads)
    ids = (host_ids(detections.label), host_scores(detections.score), host_ids(detections.image))
    is_within = is_within_dataset(protocol, *ids)
    if is_within is not None:
        verdict = np.where(is_within, pairs.verdict, np.uint8(BEYOND))
        pairs = pairs._replace(verdict=verdict, truth=np.where(is_within, pairs.truth, np.int32(-1)))
    return Pairing(
        protocol=protocol,
        detections=detections,
        truths=truths,
        pairs=pairs,
        detection_row=rows[0],
        truth_row=rows[1],
        threads=threads,
    )


def pair_inputs(result: Result, name: str, iou: float | None, threads: int | None) -> Pairing:
    """The pairs of a result's inputs at any threshold, for the analysis of that name."""
    protocol = result.protocol.at(iou)
    return pair_rows(*result.inputs_for(f"`{name}`"), protocol, num_threads(threads))


def verdicts_at(result: Result, name: str, iou: float | None) -> tuple[Tally, int]:
    """A tally with the verdicts at any threshold, and the threshold's index; matched again if it was not measured."""
    if iou is None or result.protocol.find_threshold(iou) is not None:
        return result.tally.limited(), result.protocol.threshold_index(iou)
    inputs = result.inputs_for(f"`{name}` at a threshold that was not measured")
    return match(*inputs, result.protocol.at(iou)).limited(), 0


def as_given(values: NDArray[Any], row: NDArray[np.int64]) -> NDArray[Any]:
    """Values of rows in the order that the rows were given."""
    given = np.empty_like(values)
    given[row] = values
    return given


def rows_as_given(rows: Rows, row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indices of rows as indices of the rows as they were given; -1 stays."""
    return np.where(rows >= 0, row[rows] if row.size else -1, -1)
