"""PASCAL VOC by the rules of py-faster-rcnn's `voc_eval`, class by class: written from the rules, not from boxscore.

A detection, by falling confidence, looks at the truth of its image and class that it overlaps most, with the last pixel
inside a box. Above the threshold it is dropped if that truth is difficult, true if the truth is still free, false if
not; at or below the threshold it is false. AP is a sum of eleven shares (2007), or NumPy's sum over the steps of recall
under the envelope.
"""

import numpy as np
from numpy.typing import NDArray

from boxscore import Detections, Truths

Floats = NDArray[np.float64]


def average_precisions(
    detections: Detections, truths: Truths, *, is_2007: bool, threshold: float = 0.5
) -> dict[int, float]:
    """The AP of every class that has truths which count. Boxes are `xyxy`."""
    is_difficult = np.zeros(len(truths), bool) if truths.ignore is None else np.asarray(truths.ignore, bool)
    found = {}
    for label in np.unique(truths.labels):
        of_class = np.flatnonzero(np.asarray(truths.labels) == label)
        num_positive = int(np.count_nonzero(~is_difficult[of_class]))
        if num_positive == 0:
            continue
        boxes = {}
        for image in np.unique(truths.image_ids[of_class]):
            rows = of_class[truths.image_ids[of_class] == image]
            boxes[int(image)] = (np.asarray(truths.boxes, float)[rows], is_difficult[rows], np.zeros(rows.size, bool))
        recall, precision = _curve(detections, int(label), boxes, num_positive, threshold)
        found[int(label)] = _eleven_points(recall, precision) if is_2007 else _every_point(recall, precision)
    return found


def _curve(
    detections: Detections,
    label: int,
    boxes: dict[int, tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]],
    num_positive: int,
    threshold: float,
) -> tuple[Floats, Floats]:
    rows = np.flatnonzero(np.asarray(detections.labels) == label)
    order = np.lexsort((rows, detections.image_ids[rows], -np.asarray(detections.scores, float)[rows]))
    true, false = np.zeros(rows.size), np.zeros(rows.size)
    for place, row in enumerate(rows[order]):
        truths, is_difficult, is_taken = boxes.get(int(detections.image_ids[row]), (np.zeros((0, 4)), None, None))
        overlap = _overlaps(np.asarray(detections.boxes[row], float), truths)
        if overlap.size == 0 or overlap.max() <= threshold:
            false[place] = 1
            continue
        assert is_difficult is not None
        assert is_taken is not None
        best = int(overlap.argmax())
        if is_difficult[best]:
            continue
        (false if is_taken[best] else true)[place] = 1
        is_taken[best] = True
    num_true, num_false = np.cumsum(true), np.cumsum(false)
    return num_true / num_positive, num_true / np.maximum(num_true + num_false, np.finfo(np.float64).eps)


def _overlaps(box: Floats, truths: Floats) -> Floats:
    width = np.minimum(truths[:, 2], box[2]) - np.maximum(truths[:, 0], box[0]) + 1.0
    height = np.minimum(truths[:, 3], box[3]) - np.maximum(truths[:, 1], box[1]) + 1.0
    shared = np.maximum(width, 0.0) * np.maximum(height, 0.0)
    own = (box[2] - box[0] + 1.0) * (box[3] - box[1] + 1.0)
    theirs = (truths[:, 2] - truths[:, 0] + 1.0) * (truths[:, 3] - truths[:, 1] + 1.0)
    return np.asarray(shared / (own + theirs - shared))


def _eleven_points(recall: Floats, precision: Floats) -> float:
    ap = 0.0
    for point in np.arange(0.0, 1.1, 0.1):
        ap = ap + (precision[recall >= point].max() if (recall >= point).any() else 0.0) / 11.0
    return float(ap)


def _every_point(recall: Floats, precision: Floats) -> float:
    recall = np.concatenate([[0.0], recall, [1.0]])
    precision = np.concatenate([[0.0], precision, [0.0]])
    best = np.maximum.accumulate(precision[::-1])[::-1]
    steps = np.flatnonzero(recall[1:] != recall[:-1])
    return float(np.sum((recall[steps + 1] - recall[steps]) * best[steps + 1]))
