"""One image and class at a time, for evaluators that call the steps themselves: from dicts of plain numbers.

Both functions give None for values that are anything else; `COCOeval` then goes the long way, which takes them as
pycocotools does.
"""

from typing import Any

import numpy as np

import boxscore._compiled as _compiled

Dict = dict[str, Any]


def overlaps_of(found: Any, truths: Any, limit: Any) -> Any:
    """What `computeIoU` gives: a row per detection, by falling score within the limit, a column per truth; or []."""
    if type(limit) is not int or limit <= 0:
        return None
    overlap = np.empty((min(len(found), limit), len(truths)))
    if not _compiled.measure_annotations(found, truths, overlap):
        return None
    return overlap if overlap.size else []


def entry_of(found: Any, truths: Any, overlap: Any, thresholds: Any, area: Any, limit: Any) -> Dict | None:
    """What `evaluateImg` gives, but for its arguments."""
    if type(limit) is not int or limit <= 0 or len(area) != 2:
        return None
    T, D, G = len(thresholds), min(len(found), limit), len(truths)
    match, truth_match = np.empty((T, D)), np.empty((T, G))
    is_ignored, is_truth_ignored = np.empty((T, D), np.bool_), np.empty(G, np.int64)
    low, high = area
    pairs = overlap if len(overlap) else None
    ids = _compiled.assign_annotations(
        found, truths, pairs, thresholds, low, high, limit, match, truth_match, is_ignored, is_truth_ignored
    )
    if ids is None:
        return None
    return {
        "dtIds": ids[0],
        "gtIds": ids[1],
        "dtMatches": match,
        "gtMatches": truth_match,
        "dtScores": ids[2],
        # as in COCO: NumPy's array of an empty list
        "gtIgnore": is_truth_ignored if G else np.array([]),
        "dtIgnore": is_ignored,
    }
