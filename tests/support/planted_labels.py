"""Truths with planted errors, and how many of the first cases of a ranking are planted."""

from typing import NamedTuple

import numpy as np

from boxscore import Detections, Truths
from boxscore.analysis import LabelErrors
from boxscore.arrays import to_numpy

LEAST_AREA = 32**2
"""Errors are planted in objects of this area or more."""


class Planted(NamedTuple):
    """Truths with planted errors, and where these are."""

    truths: Truths
    rows: dict[str, set[int]]
    """The rows of wrong truths, by kind."""
    removed: tuple[np.ndarray, np.ndarray]
    """Images and boxes of the truths that were removed."""
    num: int
    """How many errors there are of each kind."""

    def is_planted(self, errors: LabelErrors, row: int) -> bool:
        """Whether a case is one of the planted errors."""
        kind = errors.kind[row]
        if kind != "missing":
            return int(errors.truth[row]) in self.rows[kind]
        images, boxes = self.removed
        own = boxes[images == errors.image[row]]
        return any(_iou(errors.suggested_box[row], box) >= 0.5 for box in own)

    def num_found(self, errors: LabelErrors, first: int) -> int:
        """How many of the first cases are planted."""
        return sum(self.is_planted(errors, row) for row in range(min(first, len(errors))))


def _iou(box: np.ndarray, other: np.ndarray) -> float:
    sides = np.maximum(0, np.minimum(box[2:], other[2:]) - np.maximum(box[:2], other[:2]))
    areas = [float(np.prod(each[2:] - each[:2])) for each in (box, other)]
    return float(sides.prod() / (sum(areas) - sides.prod()))


def plant(truths: Truths, share: float, seed: int = 0) -> Planted:
    """Errors of each kind in this share of the larger truths: removed, relabelled, moved by 35 % of their sides, and
    copied into another image.
    """
    random = np.random.default_rng(seed)
    image, label = to_numpy(truths.image_ids), to_numpy(truths.labels).copy()
    box = to_numpy(truths.geometry.outer_boxes()).copy()
    original = box.copy()
    ignore = np.zeros(len(truths), bool) if truths.ignore is None else to_numpy(truths.ignore)
    usable = np.flatnonzero(~ignore & (np.prod(box[:, 2:] - box[:, :2], axis=1) >= LEAST_AREA))
    num = int(len(usable) * share)
    removed, relabelled, moved = random.choice(usable, 3 * num, replace=False).reshape(3, num)
    labels = np.unique(label)
    for row in relabelled:
        label[row] = random.choice(labels[labels != label[row]])
    step = 0.35 * (box[moved, 2:] - box[moved, :2]) * random.choice([-1, 1], (num, 2))
    box[moved] += np.tile(step, 2)
    copied, into = random.choice(usable, num), random.choice(np.array([*(truths.image_names or {})]), num)
    is_kept = np.ones(len(truths), bool)
    is_kept[removed] = False
    new_row = np.cumsum(is_kept) - 1
    num_kept = int(is_kept.sum())
    planted = Truths(
        image_ids=np.concatenate([image[is_kept], into]),
        labels=np.concatenate([label[is_kept], label[copied]]),
        boxes=np.concatenate([box[is_kept], box[copied]]),
        ignore=np.concatenate([ignore[is_kept], np.zeros(num, bool)]),
        class_names=truths.class_names,
        image_names=truths.image_names,
        image_sizes=truths.image_sizes,
    )
    rows = {
        "wrong_class": set(new_row[relabelled].tolist()),
        "misplaced": set(new_row[moved].tolist()),
        "spurious": set(range(num_kept, num_kept + num)),
    }
    return Planted(planted, rows, (image[removed], original[removed]), num)


def simulated_detector(truths: Truths, seed: int) -> Detections:
    """A detector that finds 80 % of the truths, 8 % of these with a random class, and half as many that are nothing."""
    random = np.random.default_rng(seed)
    image, label = to_numpy(truths.image_ids), to_numpy(truths.labels)
    box = to_numpy(truths.geometry.outer_boxes())
    found = np.flatnonzero(random.random(len(truths)) < 0.8)
    moved = box[found] + np.tile(random.normal(0, 0.06, (found.size, 2)) * (box[found, 2:] - box[found, :2]), 2)
    seen = np.where(random.random(found.size) < 0.08, random.choice(np.unique(label), found.size), label[found])
    nothing = random.integers(0, len(truths), len(truths) // 2)
    return Detections(
        image_ids=np.concatenate([image[found], random.permutation(image)[: nothing.size]]),
        labels=np.concatenate([seen, label[nothing]]),
        scores=np.concatenate([random.beta(4, 2, found.size), random.beta(2, 4, nothing.size)]),
        boxes=np.concatenate([moved, box[nothing]]),
    )
