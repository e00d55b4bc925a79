"""The detections and truths of an evaluation, and their verdicts at one threshold, looked up in a traced tally."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.threads import num_threads
from boxscore.arrays import to_numpy
from boxscore.data.dataset import Detections, Truths, host_ids, host_scores, pooled, pooled_order
from boxscore.engines.native import compiled_engine
from boxscore.protocol.protocol import Protocol
from boxscore.result.result import Result, inputs_of
from boxscore.result.tally import TRUE, Tally

BEYOND = 3
"""The verdict of a detection without a row in the tally: beyond the largest limit, or of an unverified class."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pairing:
    """Detections and truths with their verdicts.

    Rows are in the order of the inputs; sorted by label if the protocol is class-agnostic.
    """

    protocol: Protocol
    """The protocol, with one threshold, one area range and one limit."""
    detections: Detections
    truths: Truths
    tally: Tally
    """The tally, within the limit over the dataset, if any."""
    verdict: NDArray[np.uint8]
    """0 ignored, 1 false positive, 2 true positive, 3 beyond the limit. Shape (D,)."""
    truth: NDArray[np.int64]
    """The row of the truth that a detection took, or -1. Shape (D,)."""
    similarity: NDArray[np.float64]
    """The similarity with that truth, or NaN. Shape (D,)."""
    is_counted: NDArray[np.bool_]
    """Whether a truth counts; the others are ignored. Shape (G,)."""
    detection_row: NDArray[np.int64]
    """The row of each detection in the inputs. Shape (D,)."""
    truth_row: NDArray[np.int64]
    """The row of each truth in the inputs. Shape (G,)."""
    threads: int

    @property
    def label(self) -> NDArray[np.int64]:
        """Labels of the detections. Shape (D,)."""
        return host_ids(self.detections.labels)

    @property
    def score(self) -> NDArray[Any]:
        """Shape (D,)."""
        return host_scores(self.detections.scores)

    @property
    def truth_label(self) -> NDArray[np.int64]:
        """Labels of the truths. Shape (G,)."""
        return host_ids(self.truths.labels)

    def is_found(self, is_kept: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Whether a truth has a true positive among the kept detections. Shape (G,)."""
        is_true = self.verdict == TRUE
        is_found = np.zeros(len(self.truths), bool)
        is_found[self.truth[is_true if is_kept is None else is_true & is_kept]] = True
        return is_found


def pair_rows(detections: Detections, truths: Truths, protocol: Protocol, threads: int) -> Pairing:
    """Match rows at the protocol's only threshold: the verdict of every detection, and the truth that it took."""
    rows = np.arange(len(detections)), np.arange(len(truths))
    if protocol.class_agnostic:
        rows = pooled_order(to_numpy(detections.labels)), pooled_order(to_numpy(truths.labels))
        detections, truths = pooled(detections), pooled(truths)
    tally = compiled_engine.match(detections, truths, protocol, threads, is_traced=True).limited()
    verdict, truth = np.full(len(detections), BEYOND, np.uint8), np.full(len(detections), -1)
    similarity, is_counted = np.full(len(detections), np.nan), np.zeros(len(truths), bool)
    verdict[tally.row] = tally.verdict_at(0)
    truth[tally.row], similarity[tally.row] = tally.taken, tally.taken_similarity
    is_counted[tally.truth_row] = tally.truth_state != 0
    return Pairing(
        protocol=protocol,
        detections=detections,
        truths=truths,
        tally=tally,
        verdict=verdict,
        truth=truth,
        similarity=similarity,
        is_counted=is_counted,
        detection_row=rows[0],
        truth_row=rows[1],
        threads=threads,
    )


def pair_inputs(result: Result, purpose: str, iou: float | None, threads: int | None) -> Pairing:
    """Match a result's inputs at any threshold. `purpose`: the caller's name, for messages.

    The result caches the pairing of the last threshold, so that analyses at one threshold match once.
    """
    inputs, num, last = inputs_of(result, purpose), num_threads(threads), result.last_pairing
    protocol = result.protocol.at(iou)
    if (pairing := last.get(protocol)) is None:
        pairing = pair_rows(*inputs, protocol, num)
        last.clear()
        last[protocol] = pairing
    return replace(pairing, threads=num)


def verdicts_at(result: Result, name: str, iou: float | None) -> tuple[Tally, int]:
    """A tally with the verdicts at any threshold, and the threshold's index. Match again if it was not measured."""
    if iou is None or result.protocol.find_threshold(iou) is not None:
        return result.tally.limited(), result.protocol.threshold_index(iou)
    return pair_inputs(result, f"`{name}` at a threshold that was not measured", iou, None).tally, 0


def as_given(values: NDArray[Any], row: NDArray[np.int64]) -> NDArray[Any]:
    """Values in the order of the inputs. `row`: the input row of each value."""
    given = np.empty_like(values)
    given[row] = values
    return given


def rows_as_given(rows: NDArray[Any], row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Row numbers translated to rows of the inputs; -1 stays."""
    return np.where(rows >= 0, row[rows] if row.size else -1, -1)
