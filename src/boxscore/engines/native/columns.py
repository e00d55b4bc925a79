"""Detections and truths for the compiled engine: contiguous columns in host memory."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore.arrays import compact, to_numpy
from boxscore.data.dataset import Detections, Truths, coverage_codes, host_scores
from boxscore.protocol.protocol import Protocol

_NO_IDS: NDArray[np.int64] = np.zeros(0, np.int64)


def compiled_columns(
    detections: Detections, truths: Truths, protocol: Protocol, score_dtype: Any = None
) -> tuple[Any, Any]:
    """Convert both sides. `score_dtype`: the dtype of scores; None: unchanged."""
    area, own_area, kind = truths.area, detections.area, truths.kinds(protocol)
    image, truth_image = compact(to_numpy(detections.image_ids)), compact(to_numpy(truths.image_ids))
    shapes, truth_shapes = detections.geometry.compared(image, truths.geometry, truth_image, protocol)
    return (
        _compiled.Detections(
            image,
            compact(to_numpy(detections.labels)),
            compact(host_scores(detections.scores), score_dtype),
            shapes.compiled(protocol),
            coverage_codes(detections, truths, protocol),
            None if own_area is None else compact(to_numpy(own_area), np.float64),
        ),
        _compiled.Truths(
            truth_image,
            compact(to_numpy(truths.labels)),
            truth_shapes.compiled(protocol),
            None if area is None else compact(to_numpy(area), np.float64),
            None if kind is None else compact(to_numpy(kind), np.uint8),
        ),
    )


def class_ids(names: Any) -> NDArray[np.int64]:
    """The labels with a name, which are classes even without detections and truths. Shape (K,)."""
    return np.array(list(names), np.int64) if names else _NO_IDS
