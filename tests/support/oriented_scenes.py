"""Random oriented boxes: pairs of every kind, and scenes with ties, crowds, empty images and boxes without area."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.geometry.oriented_boxes import OrientedBoxes

RADIANS: BoxFormat = "cxcywha:radians"
SPECIAL_ANGLES = np.radians([0, 45, 90, 135, 180, -45, -90, 270, 360])


def random_boxes(random: np.random.Generator, num: int, *, extent: float = 60.0) -> NDArray[np.float64]:
    """Centre, width, height and angle; a third of the angles are special. Shape (N, 5)."""
    box = np.stack(
        [
            *(random.uniform(0, extent, num) for _ in range(2)),
            *(random.uniform(1, extent, num) for _ in range(2)),
            random.uniform(-np.pi, np.pi, num),
        ],
        axis=1,
    )
    return np.where((random.random(num) < 0.3)[:, None], _special(random, box), box)


def _special(random: np.random.Generator, box: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same with whole numbers and special angles: edges that touch and fall together."""
    return np.concatenate([np.round(box[:, :4]), random.choice(SPECIAL_ANGLES, (len(box), 1))], axis=1)


def random_pairs(seed: int, num: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Corners of two boxes each: anywhere, near, touching, one in the other, alike, thin. Shapes (N, 8)."""
    random = np.random.default_rng(seed)
    one, other = random_boxes(random, num), random_boxes(random, num)
    kind = random.integers(0, 8, num)
    near = one + random.normal(0, 1, one.shape) * [1, 1, 0.5, 0.5, 0.05]
    near[:, 4] = np.remainder(near[:, 4], 2 * np.pi)
    other[kind == 1] = near[kind == 1]
    touching = one.copy()  # an edge in common: the next one along the width
    touching[:, 0] += one[:, 2] * np.cos(one[:, 4])
    touching[:, 1] += one[:, 2] * np.sin(one[:, 4])
    other[kind == 2] = touching[kind == 2]
    inner = one * [1, 1, 0.5, 0.25, 1]
    other[kind == 3] = inner[kind == 3]
    turned = one[:, [0, 1, 3, 2, 4]]  # the same rectangle, written the other way
    turned[:, 4] = np.remainder(turned[:, 4] + np.pi / 2, 2 * np.pi)
    other[kind == 4] = turned[kind == 4]
    other[kind == 5] = one[kind == 5]
    one[kind == 6, 3] /= 100  # thin
    other[:, 2:4] = np.maximum(np.abs(other[:, 2:4]), 0.5)
    first, second = (OrientedBoxes(boxes=box, box_format=RADIANS).corners() for box in (one, other))
    rough = kind == 7  # quadrilaterals that are no rectangles
    first[rough] += random.uniform(-0.3, 0.3, (int(rough.sum()), 8))
    return first, second


def random_oriented(
    seed: int, *, num_images: int = 8, most: int = 12, num_classes: int = 3
) -> tuple[boxscore.Detections, boxscore.Truths]:
    """Both sides: detections near truths, some turned, some anywhere; the first image is empty, scores have ties."""
    random = np.random.default_rng(seed)
    num = random.integers(0, most + 1, num_images)
    num[0] = 0
    image = np.repeat(np.arange(num_images), num)
    truth = random_boxes(random, image.size, extent=100.0)
    truth[:, 2:4] = 4 + truth[:, 2:4] / 3
    truth[random.random(image.size) < 0.05, 3] = 0.0  # no area
    label = random.integers(0, num_classes, image.size)
    repeats = random.integers(0, 4, image.size)
    found = np.repeat(truth, repeats, axis=0)
    found = found + random.normal(0, 1, found.shape) * [1, 1, 1, 1, 0.1] * random.integers(0, 3, (len(found), 1))
    found[:, 2:4] = np.abs(found[:, 2:4])
    found[:, 4] = np.remainder(found[:, 4], 2 * np.pi)
    stray = random_boxes(random, 2 * num_images, extent=100.0)
    labels = np.concatenate([np.repeat(label, repeats), random.integers(0, num_classes, len(stray))])
    columns: dict[str, Any] = {
        "image_ids": np.concatenate([np.repeat(image, repeats), np.repeat(np.arange(num_images), 2)]),
        "labels": np.where(random.random(labels.size) < 0.1, 0, labels),
        "scores": np.round(random.random(labels.size), 1),
    }
    box = OrientedBoxes(boxes=np.concatenate([found, stray]), box_format=RADIANS)
    truths = boxscore.Truths(
        image_ids=image,
        labels=label,
        geometry=OrientedBoxes(boxes=truth, box_format=RADIANS),
        ignore=random.random(image.size) < 0.15,
    )
    return boxscore.Detections(**columns, geometry=box), truths


def crowded_scene(seed: int, *, num: int = 300, extent: float = 600.0) -> tuple[boxscore.Detections, boxscore.Truths]:
    """Two images of one class, with enough truths for an index: long, thin, tiny, turned by anything, some crowds."""
    random = np.random.default_rng(seed)
    image = np.repeat([0, 1], num)
    size = np.exp(random.uniform(-2, 4.5, (2 * num, 2)))
    place, angle = random.uniform(0, extent, (2 * num, 2)), random.uniform(-3.1, 3.1, (2 * num, 1))
    truth = np.concatenate([place, size, angle], axis=1)
    share = random.choice([0.01, 0.1, 0.3], (2 * num, 1))
    spread = np.concatenate([size, size, np.full_like(angle, 0.5)], axis=1) * share
    found = truth + random.normal(0, 1, truth.shape) * spread
    found[:, 2:4] = np.abs(found[:, 2:4])
    found[:, 4] = np.remainder(found[:, 4], 2 * np.pi)
    columns: dict[str, Any] = {"image_ids": image, "labels": np.zeros(2 * num, np.int64)}
    first, second = (OrientedBoxes(boxes=box, box_format=RADIANS) for box in (found, truth))
    return (
        boxscore.Detections(**columns, scores=random.random(2 * num), geometry=first),
        boxscore.Truths(**columns, geometry=second, ignore=random.random(2 * num) < 0.05),
    )
