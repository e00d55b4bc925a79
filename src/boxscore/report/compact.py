"""Values in few bytes: cut names, rounded numbers, packed and thinned curves. They keep an HTML report small."""

import base64
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore.result.curves import Ints
from boxscore.result.result import Result

MAX_NAME_LENGTH = 200
"""Maximum length of names of classes and images."""

UNDEFINED = 65535
"""The packed value of an undefined number."""

CURVE_STEPS = 65534
"""The resolution of packed precisions of a curve: steps per 1."""

SHOWN_STEPS = 10_000
"""The resolution of packed numbers that are shown: four digits."""


def shown_classes(result: Result, most: int) -> Ints:
    """The indices of the shown classes: all, or the `most` with the most truths; ascending."""
    order = np.argsort(-result.per_class.num_truths, kind="stable")
    return np.sort(order[:most])


def cut(name: str) -> str:
    """The name, truncated if it is too long.

    >>> cut("dog"), len(cut("x" * 1000))
    ('dog', 200)
    """
    return name if len(name) <= MAX_NAME_LENGTH else f"{name[: MAX_NAME_LENGTH - 1]}…"


def rounded(value: float, digits: int = 6) -> float | None:
    """A number with few digits, but enough to show the same digits as tables; None for NaN."""
    if math.isnan(value):
        return None
    short = round(float(value), digits)
    is_same = all(f"{short:.{shown}f}" == f"{value:.{shown}f}" for shown in (3, 4))
    return short if is_same else round(float(value), digits + 3)


def column(values: Iterable[float]) -> list[float | None]:
    """Numbers with few digits; None for NaN."""
    return [rounded(value) for value in values]


def packed(values: NDArray[Any], num_steps: int) -> str:
    """Numbers from 0 to 1 in two bytes each, as base64; negative numbers and NaN are undefined."""
    samples = np.where(values >= 0, np.rint(values * num_steps), UNDEFINED)
    return base64.b64encode(samples.astype("<u2").tobytes()).decode()


def thinned_curves(result: Result, num_bytes: int, most: int) -> dict[str, Any]:
    """Curves of the first area range within the largest limit, thinned until they fit: two bytes per sample, in base64.

    All thresholds if they fit, else two of them, else only the main one; and all recall points, or every second, and so
    on.
    """
    protocol = result.protocol
    precision_TRK = result.curves.precision[:, :, :, 0, -1]
    shown = shown_classes(result, most)
    num_thresholds, num_points, num_classes = *precision_TRK.shape[:2], shown.size
    main = protocol.threshold_index(None)
    some = {"all": list(range(num_thresholds)), "two": sorted({main, (main + num_thresholds) // 2}), "one": [main]}
    plans = [("all", 1), ("two", 1), ("two", 2), *(("one", step) for step in (1, 2, 4, 5, 10, 20))]
    for which, step in plans:
        chosen, points = some[which], np.arange(0, num_points, step)
        if len(chosen) * points.size * num_classes * 8 / 3 <= num_bytes:
            break
    chosen_TRK = precision_TRK[np.ix_(chosen, points)]
    is_defined_K = chosen_TRK[0, 0] >= 0
    mean_TR = (
        chosen_TRK[:, :, is_defined_K].mean(axis=2) if is_defined_K.any() else np.full((len(chosen), points.size), -1)
    )
    return {
        "thresholds": chosen,
        "recall": [rounded(protocol.recall_points[r]) for r in points],
        "precision": packed(chosen_TRK[:, :, shown].transpose(0, 2, 1), CURVE_STEPS),
        "mean": packed(mean_TR, CURVE_STEPS),
    }
