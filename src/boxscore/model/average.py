"""Averages: the value of a measure."""

import numpy as np

import boxscore._compiled as _compiled
from boxscore.model.curves import Curves, Floats, Ints
from boxscore.model.measures import Measure
from boxscore.model.protocol import Protocol


def average(measure: Measure, curves: Curves, num_truths: Ints, protocol: Protocol) -> float:
    """The value of one number: NaN if no class has truths. `num_truths`: by class and area range, (K, A)."""
    t, a, m = list(measure.thresholds), measure.area, measure.limit
    num_truths_K = num_truths[:, a]
    if protocol.average == "weighted":
        value_TK = curves.recall[t, :, a, m] if measure.is_recall else curves.average_precision[t, :, a, m]
        is_defined_K = num_truths_K > 0
        value_K = mean_over_thresholds(value_TK)[is_defined_K]
        return float(np.average(value_K, weights=num_truths_K[is_defined_K])) if value_K.size else float("nan")
    # as in COCO: one mean over thresholds, recall points and classes together, of what is defined
    samples = curves.recall if measure.is_recall else _samples(curves, protocol)
    return float(_compiled.mean_samples(samples, measure.thresholds, a, m))


def mean_over_thresholds(values_TK: Floats) -> Floats:
    """The mean along the first axis, in the order of thresholds."""
    # One after the other, whatever the number of classes; NumPy's own mean has another order where there is only one.
    return np.asarray(sum(values_TK) / values_TK.shape[0])


def _samples(curves: Curves, protocol: Protocol) -> Floats:
    """What AP is the mean of, classes third from last: precisions at recall points, or areas under curves."""
    return curves.precision if protocol.ap == "recall_points" else curves.average_precision
