"""Hypothesis strategies: scenes that are drawn box by box, so that a failure shrinks to the few boxes that matter."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.support.scenes import BORDERS, Scene

protocol_names = st.sampled_from(["coco", "voc2007", "voc2012", "paper"])


@st.composite
def scenes(
    draw: st.DrawFn,
    *,
    num_images: int = 5,
    num_classes: int = 4,
    most_detections: int = 24,
    most_truths: int = 14,
    is_whole: bool = False,
) -> Scene:
    """A scene with ties in score and IoU, crowds, boxes of no size and empty images; `is_whole`: on whole pixels."""
    image, label = st.integers(0, num_images - 1), st.integers(0, num_classes - 1)
    grid = st.integers(0, 5).map(lambda n: n * 40.0)
    number = st.integers(0, 200).map(float) if is_whole else st.floats(0, 200, width=32)
    box = st.lists(grid | number, min_size=4, max_size=4)
    area = st.none() | st.sampled_from(BORDERS)
    truth = draw(st.lists(st.tuples(image, label, box, st.booleans(), area), max_size=most_truths))
    shift = st.integers(-3, 3).map(float)
    near = st.tuples(st.integers(0, max(len(truth) - 1, 0)), st.lists(shift, min_size=4, max_size=4), label)
    free = st.tuples(image, box, label)
    place = free if not truth else near | free
    score = st.integers(0, 8).map(lambda n: n / 8)
    found = draw(st.lists(st.tuples(place, score), max_size=most_detections))
    rows = [(*_placed(where, truth), value) for where, value in found]
    return Scene(
        detection={
            "image_ids": np.array([row[0] for row in rows], np.int64),
            "labels": np.array([row[1] for row in rows], np.int64),
            "boxes": np.array([row[2] for row in rows], np.float64).reshape(-1, 4),
            "scores": np.array([row[3] for row in rows], np.float64),
        },
        truth={
            "image_ids": np.array([row[0] for row in truth], np.int64),
            "labels": np.array([row[1] for row in truth], np.int64),
            "boxes": np.array([row[2] for row in truth], np.float64).reshape(-1, 4),
            "ignore": np.array([row[3] for row in truth], bool),
            "area": np.array([row[2][2] * row[2][3] if row[4] is None else row[4] for row in truth], np.float64),
        },
        num_classes=num_classes,
        num_images=num_images,
    )


def _placed(where: tuple[int, list[float], int], truth: list[Any]) -> tuple[int, int, list[float]]:
    """Image, label and box of a detection: near a truth, mostly of its class, or anywhere."""
    index, numbers, label = where
    if (min(numbers) >= 0 and max(numbers) > 3) or not truth:
        return index, label, numbers
    image, its_label, box, *_ = truth[index % len(truth)]
    moved = [max(side + step, 0.0) for side, step in zip(box, numbers, strict=True)]
    return image, label if label == 0 else its_label, moved
