"""Images of shapes that cover each other, made by seed: the same number gives the same image, on any machine.

Dimensions: N images, G truths of an image (padded), S the side of an image in pixels.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from boxscore.parallel import PaddedTruths, pad_truths

CLASSES = ("circle", "square", "triangle", "cross", "star")
MOST_SHAPES = 6
LEAST_VISIBLE = 0.15
"""A shape that shows less than this is not there."""
EASILY_VISIBLE = 0.5
"""A shape that shows less than this is difficult."""


class Picture(NamedTuple):
    """One image with its truths."""

    image: NDArray[np.float32]
    """Shape (3, S, S)."""
    box: NDArray[np.float32]
    """The first and the last pixel of each shape, covered parts included: x, y, x, y. Shape (G, 4)."""
    label: NDArray[np.int64]
    """Shape (G,)."""
    difficult: NDArray[np.bool_]
    """Whether most of it is covered. Shape (G,)."""


class Batch(NamedTuple):
    """Images with their padded truths."""

    image: torch.Tensor
    """Shape (N, 3, S, S)."""
    truths: PaddedTruths

    def to(self, device: torch.device) -> "Batch":
        """The batch on a device."""
        columns = (None if column is None else column.to(device) for column in self.truths)
        return Batch(self.image.to(device), PaddedTruths(*columns))


def make_batch(seed: int, first: int, num: int, side: int) -> Batch:
    """The images number `first` to `first + num - 1` of the endless dataset called `seed`."""
    pictures = [draw(np.random.default_rng((seed, first + index)), side) for index in range(num)]
    truths = pad_truths(
        [torch.from_numpy(picture.box) for picture in pictures],
        [torch.from_numpy(picture.label) for picture in pictures],
        [torch.from_numpy(picture.difficult) for picture in pictures],
        num_truths=MOST_SHAPES,
    )
    return Batch(torch.from_numpy(np.stack([picture.image for picture in pictures])), truths)


def draw(random: np.random.Generator, side: int) -> Picture:
    """One to six shapes on a soft background, the later ones in front, with noise over all of it."""
    y_SS, x_SS = np.mgrid[:side, :side].astype(np.float32)
    slope = random.uniform(-0.3, 0.3, (3, 2)) / side
    image = random.uniform(0.2, 0.8, 3)[:, None, None] + np.tensordot(slope, np.stack([x_SS, y_SS]), axes=1)
    front = np.full((side, side), -1)
    boxes, labels, sizes = [], [], []
    for index in range(random.integers(1, MOST_SHAPES + 1)):
        label = int(random.integers(len(CLASSES)))
        radius = side * random.uniform(0.07, 0.2)
        middle = random.uniform(radius * 0.8, side - radius * 0.8, 2)
        low = np.maximum(np.floor(middle - radius - 1), 0).astype(int)
        window = np.s_[low[1] : int(middle[1] + radius) + 2, low[0] : int(middle[0] + radius) + 2]
        x, y = (x_SS[window] - middle[0]) / radius, (y_SS[window] - middle[1]) / radius
        inside = is_inside(CLASSES[label], x, y, random.uniform(-1, 1))
        rows, columns = np.nonzero(inside)
        rows, columns = rows + low[1], columns + low[0]
        image[:, rows, columns] = random.uniform(0, 1, (3, 1))
        front[rows, columns] = index
        boxes.append((columns.min(), rows.min(), columns.max(), rows.max()))
        labels.append(label)
        sizes.append(rows.size)
    visible = np.bincount(front[front >= 0], minlength=len(sizes)) / sizes
    is_there = visible >= LEAST_VISIBLE
    image += 0.08 * random.standard_normal(image.shape, np.float32)
    return Picture(
        image=(image - 0.5).astype(np.float32),
        box=np.array(boxes, np.float32)[is_there],
        label=np.array(labels)[is_there],
        difficult=visible[is_there] < EASILY_VISIBLE,
    )


def is_inside(name: str, x: NDArray[np.float32], y: NDArray[np.float32], turn: float) -> NDArray[np.bool_]:
    """Which points lie in a shape within radius 1, turned by up to 20 degrees each way."""
    angle = turn * np.pi / 9
    x, y = x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)
    radius, direction = np.hypot(x, y), np.arctan2(x, -y)
    if name == "circle":
        inside = radius <= 0.95
    elif name == "square":
        inside = np.maximum(abs(x), abs(y)) <= 0.7
    elif name == "cross":
        inside = (np.minimum(abs(x), abs(y)) <= 0.28) & (radius <= 0.95)
    else:
        points, valley = {"triangle": (3, 0.5), "star": (5, 0.42)}[name]
        inside = radius <= _outline(direction, points, valley)
    return np.asarray(inside)


def _outline(direction: NDArray[np.float32], points: int, valley: float) -> NDArray[np.float32]:
    """The distance of a star's edge from its middle: straight from a tip at 1 to a valley, and up again."""
    half = np.pi / points
    along = abs((direction + half) % (2 * half) - half)  # the angle from the nearest tip
    # The line through the tip (1, 0) and the valley, valley * (cos(half), sin(half)), in polar coordinates.
    edge: NDArray[np.float32] = valley * np.sin(half) / (valley * np.sin(half - along) + np.sin(along))
    return edge
