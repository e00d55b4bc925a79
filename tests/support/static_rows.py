"""A tally as the rows of a state of fixed size, shuffled, with unused rows behind them."""

from typing import Any

import numpy as np

from boxscore import Tally
from boxscore.engines.parallel.static_finish import CountedTruths, VerdictRows
from boxscore.result.tally import FALSE, TRUE


def static_rows(tally: Tally, *, capacity: int | None = None) -> tuple[VerdictRows, CountedTruths]:
    """The rows, in double precision, with capacity for `capacity` of each kind; by default a few more than there are.

    Unused ones count as true positives of class 1, with invalid scores.
    """
    random = np.random.default_rng(0)
    num_areas, num_cells = len(tally.protocol.areas), len(tally.protocol.areas) * len(tally.protocol.thresholds)

    def columns(size: int, values: dict[str, tuple[Any, Any]]) -> list[Any]:
        order = random.permutation(size)
        padded = []
        for column, fill in values.values():
            whole = np.full((capacity or size + 7, *column.shape[1:]), fill, column.dtype)
            whole[:size] = column[order]
            padded.append(whole)
        return [*padded, np.array(size)]

    key = np.stack([tally.image, tally.label], axis=1) if len(tally) else np.zeros((0, 2), int)
    is_first = np.concatenate([[True], (key[1:] != key[:-1]).any(axis=1)])[: len(tally)]
    row = np.arange(len(tally))
    verdict = tally.verdict.reshape(len(tally), num_cells)
    detections = {
        "label": (tally.label.astype(np.int64), 1),
        "score": (tally.score.astype(np.float64), np.nan),
        "image": (tally.image.astype(np.int64), 0),
        "rank": (row - np.maximum.accumulate(np.where(is_first, row, 0)), 0),
        "is_true": (verdict == TRUE, True),
        "is_false": (verdict == FALSE, True),
    }
    counts = tally.truth_state[:, None].astype(np.int64) >> np.arange(num_areas) & 1 > 0
    truths = {"label": (tally.truth_label.astype(np.int64), 1), "counts": (counts, True)}
    return VerdictRows(*columns(len(tally), detections)), CountedTruths(*columns(tally.truth_label.size, truths))
