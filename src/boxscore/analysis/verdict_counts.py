"""Counts of verdicts by image or by class, at one IoU threshold and one score threshold."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore.result.curves import Ints
from boxscore.result.tally import FALSE, IGNORED, TRUE, Tally


class VerdictCounts(NamedTuple):
    """Counts per image or class, in the first area range and within the largest limit. Shape (N,) each."""

    num_truths: Ints
    """Counted truths."""
    num_true: Ints
    """True positives."""
    num_false: Ints
    """False positives."""
    num_ignored: Ints
    """Ignored detections."""

    @property
    def num_unfound(self) -> Ints:
        """Truths without a true positive."""
        return self.num_truths - self.num_true


def count_by_image(tally: Tally, t: int, images: Ints, score: float | None = None) -> VerdictCounts:
    """Count the verdicts of each image at the t-th threshold. `images`: ids, ascending, all in the tally or more.

    `score`: detections below it are dropped; NaN drops all, None drops none.
    """
    return _count(tally, t, (tally.image, tally.truth_image), images, score)


def count_by_class(tally: Tally, t: int, score: float | None = None) -> VerdictCounts:
    """Count the verdicts of each class of the tally; arguments as in `count_by_image`."""
    return _count(tally, t, (tally.label, tally.truth_label), tally.classes, score)


def _count(
    tally: Tally, t: int, ids: tuple[NDArray[Any], NDArray[Any]], known: Ints, score: float | None
) -> VerdictCounts:
    """Count verdicts by the ids of detections and truths. `known`: all ids, ascending."""
    verdict = tally.verdict_at(t)
    index, truth_index = (np.searchsorted(known, column) for column in ids)
    is_kept = np.ones(verdict.size, bool) if score is None else tally.score >= score
    is_counted = (tally.truth_state & tally.truth_state.dtype.type(1)).astype(bool)

    def count(rows: Ints) -> Ints:
        return np.bincount(rows, minlength=known.size)

    return VerdictCounts(
        count(truth_index[is_counted]),
        *(count(index[is_kept & (verdict == wanted)]) for wanted in (TRUE, FALSE, IGNORED)),
    )
