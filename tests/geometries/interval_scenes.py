"""The same scene in intervals and in boxes of height 1."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from boxscore import Detections, Protocol, Truths
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.boxes import Boxes
from tests.geometries.intervals import Intervals

COCO = Protocol.named("coco", areas={"all": (0, 1e10), "short": (0, 20), "long": (20, 1e10)})


def protocol_of(detections: Detections, protocol: Protocol = COCO) -> Protocol:
    """The same rules for the shapes of these detections."""
    return protocol.replace(iou_type=detections.geometry.iou_types[0])


@dataclass(frozen=True)
class Scene:
    """The same shapes under two geometries."""

    detections: tuple[Detections, Detections]
    truths: tuple[Truths, Truths]


def geometries(interval: Any) -> tuple[Geometry, Geometry]:
    """Intervals, and boxes of height 1 with the same sides."""
    start, end = interval.T
    box = np.stack([start, np.zeros(len(start)), end, np.ones(len(start))], axis=1)
    return Intervals(interval=interval), Boxes(boxes=box)


def make_scene(seed: int = 0, num: int = 120) -> Scene:
    """Whole numbers, so that both geometries have the same bits; detections near truths, and some anywhere."""
    random = np.random.default_rng(seed)
    start = random.integers(0, 200, num)
    interval = np.stack([start, start + random.integers(5, 40, num)], axis=1).astype(float)
    truth: dict[str, Any] = {"image_ids": random.integers(0, 12, num), "labels": random.integers(0, 3, num)}
    ignore = random.random(num) < 0.1
    moved = interval + random.integers(-3, 4, (num, 1))
    found: dict[str, Any] = {
        "image_ids": truth["image_ids"],
        "labels": truth["labels"],
        "scores": random.integers(0, 50, num) / 50,
    }
    found["labels"] = np.where(random.random(num) < 0.15, (found["labels"] + 1) % 3, found["labels"])
    moved[random.random(num) < 0.2] += 60
    first, second = (Detections(**found, geometry=geometry) for geometry in geometries(moved))
    true, other = (Truths(**truth, ignore=ignore, geometry=geometry) for geometry in geometries(interval))
    return Scene((first, second), (true, other))
