"""Keypoints as pycocotools has them: in dicts and columns that nobody has validated, and their similarity."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.protocol.protocol import Protocol

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


def measure_oks(detections: Sequence[Dict], truths: Sequence[Dict], sigmas: Any) -> NDArray[np.float64]:
    """The similarity of all pairs of one image and class, of values of any type. Shape (D, G)."""
    num_points = len(sigmas)
    group = _compiled.ImageGroups(np.array([0, len(detections)]), np.array([0, len(truths)]))
    protocol = oks_protocol(sigmas)
    labelled = np.array([_labelled_numbers(truth, num_points) for truth in truths])
    truth_side = labelled_keypoints(
        labelled,
        area=np.array([_sum(truth["area"]) for truth in truths]),
        box=np.array(
            [_box_of(truth, has_labels=row.any()) for truth, row in zip(truths, labelled[:, 2::3] > 0, strict=True)]
        ),
        num_labelled=np.count_nonzero(labelled[:, 2::3] > 0, axis=1).astype(np.float64),
    )
    found = detected_keypoints(np.array([_detected_numbers(each, num_points) for each in detections]))
    sides = found.compiled(protocol), truth_side.compiled(protocol)
    values: NDArray[np.float64] = _compiled.similarities(group, *sides, np.zeros(len(truths), np.uint8), 1)
    return values.reshape(len(detections), len(truths))


def _numbers_of(ann: Dict) -> Floats:
    numbers = np.array(ann["keypoints"])
    if numbers.dtype.kind not in "biuf" or numbers.ndim != 1:
        raise TypeError("`keypoints` must be a list of numbers")  # as in COCO, from NumPy's functions
    return numbers.astype(np.float64)


def _detected_numbers(ann: Dict, num_points: int) -> Floats:
    """x, y and 0 of each point. As in COCO: the third number may be missing. Shape (3 K,)."""
    numbers = _numbers_of(ann)
    _check_length(ann, len(numbers[1::3]) if len(numbers[0::3]) == num_points else -1, num_points)
    triples = np.zeros((num_points, 3))
    triples[:, 0], triples[:, 1] = numbers[0::3], numbers[1::3]
    return triples.reshape(-1)


def _labelled_numbers(ann: Dict, num_points: int) -> Floats:
    """x, y and visibility of each point; zeros if none is labelled, as the box is measured then. Shape (3 K,)."""
    numbers = _numbers_of(ann)
    if not (numbers[2::3] > 0).any():
        return np.zeros(3 * num_points)
    _check_length(ann, len(numbers) / 3, num_points)
    return numbers


def _check_length(ann: Dict, num: float, num_points: int) -> None:
    if num != num_points:
        rule = f"`keypoints` must have three numbers per point, {3 * num_points}; got {len(ann['keypoints'])}"
        raise InputError(f"annotation {ann['id']} of image {ann['image_id']}: {rule}")


def _box_of(truth: Dict, *, has_labels: bool) -> list[float]:
    """The box of a truth. As in COCO: one without numbers is an error even where keypoints are measured by labels."""
    box = truth["bbox"]
    _ = [box[side] - box[side + 2] * 2 for side in (0, 1)]
    return [0.0] * 4 if has_labels else [_sum(box[side]) for side in range(4)]


def _sum(value: Any) -> float:
    """A value that floats can be added to, as a float; others have the error of that."""
    total = value + 0.0
    return float(total.item() if isinstance(total, np.ndarray) else total)
