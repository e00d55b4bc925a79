"""Random scenes of keypoints, as COCO's dicts: crowds, truths without labels, ties, poses of no size, empty images."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore
from boxscore import Protocol
from tests.support.scenes import BORDERS

Dict = dict[str, Any]


def protocol_with(num_points: int, name: str = "coco_keypoints", **changes: Any) -> Protocol:
    """COCO's protocol for so many points, each with another sigma."""
    return Protocol.named(name, sigmas=sigmas_of(num_points), **changes)


def sigmas_of(num_points: int) -> list[float]:
    """Numbers like those of COCO."""
    return [0.025 + 0.0817 * ((7 * k) % 11) / 11 for k in range(num_points)]


def random_poses(
    seed: int,
    *,
    num_points: int = 17,
    num_images: int = 8,
    num_classes: int = 2,
    most_truths: int = 5,
    has_boxes: bool = False,
    has_zero_areas: bool = False,
) -> tuple[Dict, list[Dict]]:
    """A dataset and results. The first image has no truths, the last has neither truths nor results.

    `has_boxes`: whether results have boxes, too, which decide their areas in pycocotools. `has_zero_areas`: whether
    some truths have no size, which pycocotools takes and boxscore's columns refuse.
    """
    random = np.random.default_rng(seed)
    annotations: list[Dict] = []
    results: list[Dict] = []
    for image in range(num_images - 1):
        for _ in range(random.integers(0, most_truths + 1) if image else 0):
            truth = _truth(random, num_points, has_zero_areas=has_zero_areas)
            place = {"image_id": image, "category_id": int(random.integers(num_classes))}
            annotations.append({"id": len(annotations) + 1, **place, **truth})
            if random.random() < 0.15:  # twice the same, so that two truths are equally similar
                annotations.append({**annotations[-1], "id": len(annotations) + 1})
            for _ in range(random.integers(0, 4)):
                label = place["category_id"] if random.random() < 0.9 else 0
                results.append({"image_id": image, "category_id": label, "keypoints": _near(random, truth)})
        for _ in range(random.integers(0, 3)):
            label = int(random.integers(num_classes))
            results.append({"image_id": image, "category_id": label, "keypoints": _anywhere(random, num_points)})
    if not results:
        results.append({"image_id": 0, "category_id": 0, "keypoints": _anywhere(random, num_points)})
    for row in results:
        row["score"] = round(float(random.random()), 1)  # ties
        if has_boxes:
            row["bbox"] = np.round(random.random(4) * 120, 1).tolist()
    dataset = {
        "info": {"year": 2026},
        "images": [{"id": image, "width": 640, "height": 480} for image in range(num_images)],
        "annotations": annotations,
        "categories": [{"id": label, "name": f"class {label}"} for label in range(num_classes)],
    }
    return dataset, results


def _truth(random: np.random.Generator, num_points: int, *, has_zero_areas: bool) -> Dict:
    """Keypoints within a box; some are labelled, of some truths none."""
    side = random.lognormal(4.3, 0.6, 2)
    near = random.random(2) * 300
    point = near + random.random((num_points, 2)) * side
    if random.random() < 0.4:  # on a grid, so that distances tie
        point = np.round(point / 8) * 8
    visibility = random.choice([0, 1, 2], num_points, p=[0.25, 0.15, 0.6])
    if random.random() < 0.2:
        visibility[:] = 0
    point[visibility == 0] = 0
    area = float(random.choice([side[0] * side[1] * 0.53, *BORDERS], p=[0.6, 0.1, 0.1, 0.1, 0.1]))
    if has_zero_areas and random.random() < 0.25:
        area = 0.0
    return {
        "keypoints": _listed(point, visibility),
        "num_keypoints": int((visibility > 0).sum()),
        "bbox": np.round([*near, *side], 2).tolist(),
        "area": area,
        "iscrowd": int(random.random() < 0.15),
    }


def _near(random: np.random.Generator, truth: Dict) -> list[float]:
    """The keypoints of a truth, moved a little or not at all; those without a label are in its box or near."""
    number = np.array(truth["keypoints"], np.float64).reshape(-1, 3)
    left, top, width, height = truth["bbox"]
    size = max(width * height, 1.0) ** 0.5
    point = number[:, :2] + random.normal(0, random.choice([0, 0.01, 0.04, 0.1]) * size, (len(number), 2))
    is_free = number[:, 2] == 0
    free = (left, top) + (random.random((len(number), 2)) * 5 - 2) * (width, height)
    return _listed(np.where(is_free[:, None], free, point), random.integers(1, 5, len(number)) / 4)


def _anywhere(random: np.random.Generator, num_points: int) -> list[float]:
    """Points in the image; now and then all in one place, so that their box has no size."""
    point = random.random((num_points, 2)) * (640, 480)
    if random.random() < 0.3:
        point[:] = point[0]
    return _listed(point, random.integers(1, 5, num_points) / 4)


def _listed(point: NDArray[np.float64], third: Iterable[float]) -> list[float]:
    """COCO's list x, y, v, x, y, v, …"""
    return [float(each) for (x, y), v in zip(point.tolist(), third, strict=True) for each in (x, y, v)]


def points_of(rows: list[Dict]) -> NDArray[np.float64]:
    """x, y and the third number of each point. Shape (N, K, 3)."""
    return np.array([row["keypoints"] for row in rows], np.float64).reshape(len(rows), -1, 3)


def flat_columns(dataset: Dict, results: list[Dict]) -> tuple[Dict, Dict]:
    """The columns of detections and of truths, as NumPy's arrays by name."""
    annotations = dataset["annotations"]
    found: Dict = {name: np.array([row[key] for row in results]) for name, key in _FOUND}
    truth: Dict = {name: np.array([row[key] for row in annotations]) for name, key in _TRUTH}
    truth["ignore"] = truth["ignore"] == 1
    if "bbox" in results[0]:
        found["area"] = np.array([row["bbox"][2] * row["bbox"][3] for row in results])
    return found | {"keypoints": points_of(results)}, truth | {"keypoints": points_of(annotations)}


_FOUND = (("image_ids", "image_id"), ("labels", "category_id"), ("scores", "score"))
_TRUTH = (
    ("image_ids", "image_id"),
    ("labels", "category_id"),
    ("boxes", "bbox"),
    ("area", "area"),
    ("ignore", "iscrowd"),
)


def columns_of(dataset: Dict, results: list[Dict]) -> tuple[boxscore.Detections, boxscore.Truths]:
    """The same as boxscore's columns."""
    found, truth = flat_columns(dataset, results)
    names = {row["id"]: row["name"] for row in dataset["categories"]}
    return boxscore.Detections(**found), boxscore.Truths(**truth, box_format="xywh", class_names=names)


def image_dicts(dataset: Dict, results: list[Dict]) -> tuple[list[Dict], list[Dict]]:
    """The same as one dict per image, for both sides; an image without rows has empty arrays."""
    found, truth = flat_columns(dataset, results)
    preds, targets = [], []
    for image in (each["id"] for each in dataset["images"]):
        row, truth_row = (np.flatnonzero(side["image_ids"] == image) for side in (found, truth))
        preds.append(
            {"keypoints": found["keypoints"][row], "scores": found["scores"][row], "labels": found["labels"][row]}
        )
        targets.append(
            {
                "keypoints": truth["keypoints"][truth_row],
                "labels": truth["labels"][truth_row],
                "boxes": truth["boxes"][truth_row],
                "area": truth["area"][truth_row],
                "iscrowd": truth["ignore"][truth_row].astype(int),
            }
        )
    return preds, targets


PARTS = {"keypoints": 17, "foot_kpts": 6, "face_kpts": 68, "lefthand_kpts": 21, "righthand_kpts": 21}
"""The keys of COCO-WholeBody, and how many points each has."""


def random_bodies(seed: int, *, has_part_scores: bool, has_boxes: bool = False) -> tuple[Dict, list[Dict]]:
    """A dataset of whole bodies, and results; some parts have no labels, or no score above 0."""
    random = np.random.default_rng(seed)
    settings: Dict = {"num_points": sum(PARTS.values()), "num_images": 14, "num_classes": 1}
    dataset, results = random_poses(seed, **settings, has_boxes=has_boxes)
    for row in (*dataset["annotations"], *results):
        numbers = np.array(row["keypoints"]).reshape(-1, 3)
        for part, each in zip(PARTS, np.split(numbers, np.cumsum(list(PARTS.values()))[:-1]), strict=True):
            if random.random() < 0.3:
                each[:, 2] = 0
            row[part] = each.reshape(-1).tolist()
        if "score" not in row:
            row["num_keypoints"] = sum(v > 0 for v in row["keypoints"][2::3])
        elif has_part_scores:
            names = ("wholebody", "foot", "face", "lefthand", "righthand")
            row |= {f"{name}_score": round(float(random.random()), 1) for name in names}
    return dataset, results


def random_crowds(seed: int, *, has_boxes: bool = False) -> tuple[Dict, list[Dict]]:
    """A dataset of CrowdPose, and results; some are sure of no point. Some images are at the borders of its ranges."""
    random = np.random.default_rng(seed)
    dataset, results = random_poses(seed, num_points=14, num_images=14, num_classes=1, has_boxes=has_boxes)
    for image in dataset["images"]:
        image["crowdIndex"] = float(random.choice([0, 0.1, 0.2, 0.5, 0.79, 0.8, 1]))
    for row in dataset["annotations"]:
        row["num_keypoints"] = row["keypoints"][2::3].count(2)  # as in CrowdPose: the visible ones alone
        del row["area"]
    for row in results:
        if random.random() < 0.15:
            row["keypoints"][2::3] = [0.0] * 14
    return dataset, results
