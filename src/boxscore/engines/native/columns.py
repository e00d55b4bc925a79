"""Detections and truths as the compiled engine reads them: columns in host memory, contiguous."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.arrays import compact, to_numpy
from boxscore.model.dataset import Detections, Truths, coverage_codes, host_scores
from boxscore.model.protocol import Protocol


def compiled_detections(detections: Detections, truths: Truths, protocol: Protocol, score_dtype: Any = None) -> Any:
    """The columns of detections, with scores of a dtype if it matters, and what the truths' coverage says of them."""
    return _compiled.Detections(
        compact(to_numpy(detections.image)),
        compact(to_numpy(detections.label)),
        compact(host_scores(detections.score), score_dtype),
        detections.geometry.compiled(protocol),
        coverage_codes(detections, truths),
    )


def compiled_truths(truths: Truths, protocol: Protocol) -> Any:
    """The columns of truths."""
    kinds = truths.kinds(protocol)
    return _compiled.Truths(
        compact(to_numpy(truths.image)),
        compact(to_numpy(truths.label)),
        truths.geometry.compiled(protocol),
        None if truths.area is None else compact(to_numpy(truths.area), np.float64),
        None if kinds is None else compact(to_numpy(kinds)),
    )


def class_ids(names: Any) -> NDArray[np.int64]:
    """The labels that have a name, for those that have neither detections nor truths. Shape (K,)."""
    return np.array(list(names or ()), np.int64)
