"""The paper's method, Alg. 4 to 13: one function per stage, on NumPy, PyTorch, JAX and TensorFlow.

| stage | algorithm | functions |
|---|---|---|
| data loading | 4 | `pad_truths`; for a loader: `collate_truths` |
| post-processing | 5 | `discard_below`, `discard_beyond_top`, `discard_overlapping` |
| IoU computation | 6 | `pairwise_iou`; of masks: `pairwise_mask_iou` |
| IoU filtering | 7 | `filter_iou` |
| categorization | 8, 9 | `categorize_below`, `categorize_above`; all cells at once: `match_batch` |
| extraction | 10 | `extract` |
| precision and recall | 11 | `precision_recall` |
| average precision | 12, 13 | `average_every_element`, `average_at_recalls`; exact: `average_under_envelope` |

Categorization and averaging are the method as published unless told otherwise. The engine behind `evaluate` is these
stages, for all thresholds and area ranges at once, with the corrections that make it equal to the sequential method.
"""

from boxscore.engines.parallel.average import average_at_recalls, average_every_element, average_under_envelope
from boxscore.engines.parallel.batch import Matched, match_batch
from boxscore.engines.parallel.categorization import categorize_above, categorize_below
from boxscore.engines.parallel.iou import filter_iou, pairwise_iou, pairwise_mask_iou
from boxscore.engines.parallel.loading import PaddedDetections, PaddedTruths, collate_truths, pad_truths
from boxscore.engines.parallel.postprocessing import (
    discard_below,
    discard_beyond_top,
    discard_overlapping,
    rank_by_score,
)
from boxscore.engines.parallel.precision_recall import ClassCurves, Extracted, extract, precision_recall

__all__ = [
    "ClassCurves",
    "Extracted",
    "Matched",
    "PaddedDetections",
    "PaddedTruths",
    "average_at_recalls",
    "average_every_element",
    "average_under_envelope",
    "categorize_above",
    "categorize_below",
    "collate_truths",
    "discard_below",
    "discard_beyond_top",
    "discard_overlapping",
    "extract",
    "filter_iou",
    "match_batch",
    "pad_truths",
    "pairwise_iou",
    "pairwise_mask_iou",
    "precision_recall",
    "rank_by_score",
]
