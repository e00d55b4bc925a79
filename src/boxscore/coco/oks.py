"""Keypoints as pycocotools has them: in dicts and columns that nobody has validated, and their similarity."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore.geometry.keypoints import Keypoints
from boxscore.model.protocol import Protocol

Dict = dict[str, Any]
Floats = NDArray[np.float64]


def oks_protocol(sigmas: Any, **changes: Any) -> Protocol:
    """COCO's protocol of keypoints with these sigmas."""
    return Protocol.named("coco_keypoints", sigmas=np.asarray(sigmas, np.float64).tolist(), **changes)


def _triples(numbers: Floats) -> Floats:
    return numbers.reshape(len(numbers), numbers.shape[1] // 3, 3)


def detected_keypoints(numbers: Floats) -> Keypoints:
    """The keypoints of results. Shape (N, 3 K): x, y and another number per point."""
    return Keypoints(point=_triples(numbers)[:, :, :2])


def labelled_keypoints(numbers: Floats, *, area: Floats, box: Floats, num_labelled: Floats) -> Keypoints:
    """The keypoints of annotations. Shape (N, 3 K): x, y and visibility per point."""
    triples = _triples(numbers)
    return Keypoints(
        point=triples[:, :, :2], visibility=triples[:, :, 2], area=area, box=box, num_labelled=num_labelled
    )


def keypoints_of_dicts(anns: Sequence[Dict]) -> Keypoints:
    """The keypoints of annotations that are dicts."""
    return labelled_keypoints(
        keypoint_numbers(anns),
        area=np.array([ann["area"] for ann in anns], np.float64),
        box=np.array([ann["bbox"] for ann in anns], np.float64).reshape(-1, 4),
        num_labelled=np.array([ann["num_keypoints"] for ann in anns], np.float64),
    )


def keypoint_numbers(anns: Sequence[Dict]) -> Floats:
    """x, y and the third number of each point. Shape (N, 3 K)."""
    if not anns:
        return np.zeros((0, 0))
    size = len(anns[0]["keypoints"])
    for ann in anns:
        if (num := len(ann["keypoints"])) != size or num % 3:
            rule = f"`keypoints` must have three numbers per point, {size} as the first; got {num}"
            raise InputError(f"annotation {ann['id']} of image {ann['image_id']}: {rule}")
    return np.array([ann["keypoints"] for ann in anns], np.float64)


def measure_oks(detections: Sequence[Dict], truths: Sequence[Dict], sigmas: Any) -> NDArray[np.float64]:
    """The similarity of all pairs of one image and class. Shape (D, G)."""
    group = _compiled.ImageGroups(np.array([0, len(detections)]), np.array([0, len(truths)]))
    protocol = oks_protocol(sigmas)
    sides = (
        detected_keypoints(keypoint_numbers(detections)).compiled(protocol),
        keypoints_of_dicts(truths).compiled(protocol),
    )
    values: NDArray[np.float64] = _compiled.similarities(group, *sides, np.zeros(len(truths), np.uint8), 1)
    return values.reshape(len(detections), len(truths))
