"""Results and tallies compared bit for bit."""

import numpy as np

import boxscore

TALLY = (
    *("image", "label", "score", "tier", "state", "is_true", "is_counted"),
    *("classes", "truth_image", "truth_label", "truth_state"),
)
"""The columns of a tally."""


def assert_same(first: boxscore.Result, second: boxscore.Result) -> None:
    """Every number and every curve, bit for bit."""
    assert np.array_equal(list(first.values()), list(second.values()), equal_nan=True)
    for name in ("precision", "recall", "scores", "average_precision", "num_true", "num_false"):
        assert np.array_equal(getattr(first.curves, name), getattr(second.curves, name), equal_nan=True), name


def assert_same_tally(first: boxscore.Tally, second: boxscore.Tally) -> None:
    """Every column, with its dtype."""
    for column in TALLY:
        assert np.array_equal(getattr(first, column), getattr(second, column)), column
        assert getattr(first, column).dtype == getattr(second, column).dtype, column
