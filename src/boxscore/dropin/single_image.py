"""One image and class at a time: what `computeIoU` and `evaluateImg` give, for evaluators that call these themselves.

Such evaluators make two million calls for COCO val2017. So each function has a fast path, which reads dicts of plain
numbers in C++, and a general path, which takes all other values as pycocotools does. `benchmarks/steps.py` measures
what the fast path buys.
"""

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore.dropin import mask
from boxscore.dropin.image_entries import Assigned, assignment_rules
from boxscore.dropin.oks import measure_oks
from boxscore.dropin.row_selection import are_numbers, ids_of

Dict = dict[str, Any]


class ImageRules(NamedTuple):
    """The rules under which an image is matched."""

    thresholds: Any
    area: Any
    """The lowest and the highest area that count."""
    limit: Any


SHAPE_KEYS = {"bbox": "bbox", "segm": "segmentation", "keypoints": "keypoints"}
"""The key of the shapes in dicts, by similarity."""


def measure_overlaps(detections: list[Dict], truths: list[Dict], limit: Any, *, key: str = "bbox") -> Any:
    """One row per detection, by falling score within the limit, one column per truth; [] if either side is empty."""
    overlap = measure_plain(detections, truths, limit) if key == "bbox" else None
    if overlap is not None:
        return overlap
    detections = _by_score(detections)[:limit]
    crowds = [int(truth["iscrowd"]) for truth in truths]
    return mask.iou([each[key] for each in detections], [each[key] for each in truths], crowds)


def measure_keypoints(detections: list[Dict], truths: list[Dict], limit: Any, sigmas: Any) -> Any:
    """The same for keypoints."""
    if not detections or not truths:
        return []
    return measure_oks(_by_score(detections)[:limit], truths, sigmas)


def measure_plain(detections: Any, truths: Any, limit: Any) -> Any:
    """The fast path of `measure_overlaps`; None for values that are not plain numbers."""
    if type(limit) is not int or limit <= 0:
        return None
    overlap = np.empty((min(len(detections), limit), len(truths)))
    if not _compiled.measure_annotations(detections, truths, overlap):
        return None
    return overlap if overlap.size else []


def match_image(detections: list[Dict], truths: list[Dict], overlap: Any, rules: ImageRules) -> Dict:
    """The entry of `evalImgs`, without the image, class, area range and limit."""
    entry = match_plain(detections, truths, overlap, rules)
    if entry is not None:
        return entry
    detections = _by_score(detections)[0 : rules.limit]
    num, num_truths = len(detections), len(truths)
    truth_ids = ids_of(truths)
    assigned = Assigned.of(
        _compiled.ImageGroups(np.array([0, num], np.int64), np.array([0, num_truths], np.int64)),
        np.ascontiguousarray(_overlap_of(overlap, num, num_truths)).reshape(-1),
        _compiled.GroupedDetections(_areas(each["area"] for each in detections), ids_of(detections).astype(np.float64)),
        _compiled.GroupedTruths(
            _areas(0 if each["ignore"] else each["area"] for each in truths),
            _float_ids(truth_ids),
            _flags(each["ignore"] for each in truths),
            _flags(int(each["iscrowd"]) for each in truths),
        ),
        assignment_rules(rules.thresholds, [rules.area]),
    )
    if np.isnan(assigned.match).any():
        truth_ids.astype(np.float64)  # as in COCO: the error of an id that is matched and is not a number
    scores = [each["score"] for each in detections]
    return {
        "dtIds": [each["id"] for each in detections],
        "gtIds": truth_ids[assigned.truth_order[0]].tolist(),
        **assigned.block(0, slice(0, num), slice(0, num_truths), scores),
    }


def match_plain(detections: Any, truths: Any, overlap: Any, rules: ImageRules) -> Dict | None:
    """The fast path of `match_image`; None for values that are not plain numbers."""
    if type(rules.limit) is not int or rules.limit <= 0 or len(rules.area) != 2:
        return None
    T, D, G = len(rules.thresholds), min(len(detections), rules.limit), len(truths)
    match, truth_match = np.empty((T, D)), np.empty((T, G))
    is_ignored, is_truth_ignored = np.empty((T, D), np.bool_), np.empty(G, np.int64)
    low, high = rules.area
    ids = _compiled.match_annotations(
        detections,
        truths,
        overlap if len(overlap) else None,
        (rules.thresholds, low, high, rules.limit),
        (match, truth_match, is_ignored, is_truth_ignored),
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


def _overlap_of(overlap: Any, num_detections: int, num_truths: int) -> NDArray[np.float64]:
    """The overlaps of the detections and truths; those that were never measured are below any threshold."""
    if len(overlap) == 0:
        return np.full((num_detections, num_truths), -np.inf)
    measured = np.array(overlap, np.float64)
    if num_truths and (len(measured) < num_detections or measured.shape[1] < num_truths):
        raise IndexError(  # as in COCO
            f"`ious` has {measured.shape[0]} x {measured.shape[1]} overlaps where {num_detections} x {num_truths} are "
            "needed; call evaluateImg with the limit and the annotations that computeIoU had"
        )
    return measured[:num_detections, :num_truths] if num_truths else np.zeros((num_detections, 0))


def _by_score(detections: list[Dict]) -> list[Dict]:
    """By falling score; of equal scores, the first stays first."""
    negative = [-each["score"] for each in detections]  # as in COCO: text, lists and None have no negative
    for each, value in zip(detections, negative, strict=True):
        _check_score(each, value)
    order = np.argsort(negative, kind="mergesort")
    return [detections[row] for row in order]


def _check_score(detection: Dict, negative: Any) -> None:
    """Raise for scores that pycocotools takes, and whose curves break off where they are."""
    if isinstance(negative, complex | np.complexfloating):
        got = "a complex number"
    elif isinstance(negative, int) and abs(negative) > sys.float_info.max:
        got = "an integer beyond 1e308"
    else:
        return
    raise InputError(
        f"result {detection['id']} of image {detection['image_id']}: `score` must be a number that a float64 can hold; "
        f"got {got} (pycocotools takes it, and its curves break off there)"
    )


def _float_ids(ids: NDArray[Any]) -> NDArray[np.float64]:
    """Ids as pycocotools writes them where they are matched; NaN for those that are not numbers."""
    if are_numbers(ids):
        return ids.astype(np.float64)
    return np.array([float(each) if are_numbers(ids[i : i + 1]) else np.nan for i, each in enumerate(ids)])


def _areas(values: Any) -> NDArray[np.float64]:
    return np.array([_comparable(value) for value in values], np.float64)


def _comparable(value: Any) -> float:
    """An area that can be compared with the bounds of a range; one beyond all floats is infinite."""
    is_negative = bool(value < 0)  # as in COCO: the error of text, lists and None
    try:
        return float(value.item() if isinstance(value, np.ndarray) else value)
    except OverflowError:
        return -np.inf if is_negative else np.inf


def _flags(values: Any) -> NDArray[np.uint8]:
    return np.array([bool(value) for value in values], np.uint8)
