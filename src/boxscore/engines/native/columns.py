"""Detections and truths as the compiled engine reads them: columns in host memory, contiguous."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.arrays import compact, to_numpy
from boxscore.engines.native.rules import kind_of_ignored
from boxscore.model.dataset import Detections, Truths, host_scores
from boxscore.model.protocol import Protocol

_NO_IDS: NDArray[np.int64] = np.zeros(0, np.int64)


def compiled_boxes(box: NDArray[Any], box_format: str, protocol: Protocol) -> Any:
    """Boxes with their similarity."""
    return _compiled.Boxes(box, getattr(_compiled.BoxFormat, box_format), protocol.geometry == "inclusive")


def compiled_geometry(columns: Detections | Truths, protocol: Protocol) -> Any:
    """The shapes of either side with their similarity."""
    return compiled_boxes(compact(host_scores(columns.box)), columns.box_format, protocol)


def compiled_detections(detections: Detections, protocol: Protocol, score_dtype: Any = None) -> Any:
    """The columns of detections, with scores of a dtype if it matters."""
    return _compiled.Detections(
        compact(to_numpy(detections.image)),
        compact(to_numpy(detections.label)),
        compact(host_scores(detections.score), score_dtype),
        compiled_geometry(detections, protocol),
    )


def compiled_truths(truths: Truths, protocol: Protocol) -> Any:
    """The columns of truths."""
    return _compiled.Truths(
        compact(to_numpy(truths.image)),
        compact(to_numpy(truths.label)),
        compiled_geometry(truths, protocol),
        None if truths.area is None else compact(to_numpy(truths.area), np.float64),
        None
        if truths.ignore is None
        else _compiled.kinds_of(compact(to_numpy(truths.ignore)), kind_of_ignored(protocol)),
    )


def class_ids(names: Any) -> NDArray[np.int64]:
    """The labels that have a name, for those that have neither detections nor truths. Shape (K,)."""
    return np.array(list(names), np.int64) if names else _NO_IDS
