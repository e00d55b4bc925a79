"""Keypoints in COCO's annotations: their keys, their geometry, OKS of dicts with any values, and their drawing."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.protocol.protocol import KeypointRules
from boxscore.protocol.table import BOX_SHARE, protocol_of

Dict = dict[str, Any]
Floats = NDArray[np.float64]

KEY = "keypoints"

TRUTH_KEYS = ("iscrowd", "area", "bbox", "num_keypoints")
"""The keys that truths need besides `KEY`."""

RULE = "must have 3 numbers per point, x, y and another, in a list"

AREA_OF_BOX = {"keypoints": KeypointRules(box_share=BOX_SHARE)}
"""The changes of a protocol that takes the areas of truths from their boxes."""


def is_oks(iou_type: str) -> bool:
    """Whether OKS is this similarity."""
    return iou_type in Keypoints.iou_types


def is_unlabelled(truth: Dict) -> Any:
    """Whether a truth has no labelled points."""
    return truth["num_keypoints"] == 0


def detected_in_file(boxes: Any) -> Keypoints | None:
    """The keypoints of a `_compiled.CocoBoxes` of results; None if not all have them."""
    given = boxes.keypoints
    return None if given is None else Keypoints(point=given.point.reshape(len(boxes.image), -1, 2))


def labelled_in_file(boxes: Any, *, area: Floats, box: Floats) -> Keypoints | None:
    """The keypoints of a `_compiled.CocoBoxes` of a dataset; None if not all have them and `num_keypoints`."""
    given = boxes.keypoints
    if given is None or given.num_labelled is None or np.isnan(given.num_labelled).any():
        return None
    point, num_labelled = given.point.reshape(len(box), -1, 2), given.num_labelled
    return Keypoints(point=point, visibility=given.third, area=area, box=box, num_labelled=num_labelled)


def in_columns(columns: Any, row: Any, *, is_truth: bool) -> Keypoints:
    """The keypoints of some rows of a `_compiled.DictColumns`."""
    numbers = columns.keypoints[row]
    if not is_truth:
        return _detected(numbers)
    return _labelled(numbers, area=columns.area[row], box=columns.box[row], num_labelled=columns.num_keypoints[row])


def _triples(numbers: Floats) -> Floats:
    return numbers.reshape(len(numbers), numbers.shape[1] // 3, 3)


def _detected(numbers: Floats) -> Keypoints:
    """The keypoints of results. Shape (N, 3 K): x, y and another number per point."""
    return Keypoints(point=_triples(numbers)[:, :, :2])


def _labelled(numbers: Floats, **columns: Floats) -> Keypoints:
    """The keypoints of annotations. Shape (N, 3 K): x, y and visibility per point."""
    triples = _triples(numbers)
    return Keypoints(point=triples[:, :, :2], visibility=triples[:, :, 2], **columns)


def complete(anns: list[Dict]) -> bool:
    """Give results an area, an id and a box around their points; return whether ids are known to be 1, 2, 3, …"""
    return _compiled.complete_keypoints(anns, _compiled.boxes_around_keypoints(anns), _around)


def _around(ann: Dict) -> tuple[Any, list[Any]]:
    """Area and bounding box of keypoints of any type."""
    x, y = ann["keypoints"][0::3], ann["keypoints"][1::3]
    left, right, top, bottom = np.min(x), np.max(x), np.min(y), np.max(y)
    return (right - left) * (bottom - top), [left, top, right - left, bottom - top]


def measure_oks(detections: Sequence[Dict], truths: Sequence[Dict], sigmas: Any) -> NDArray[np.float64]:
    """Compute the OKS of all pairs of one image and class, for values of any type. Shape (D, G)."""
    num_points = len(sigmas)
    group = _compiled.ImageGroups(np.array([0, len(detections)]), np.array([0, len(truths)]))
    protocol = protocol_of("coco", "keypoints").replace(sigmas=np.asarray(sigmas, np.float64).tolist())
    labelled = np.array([_labelled_numbers(truth, num_points) for truth in truths])
    truth_side = _labelled(
        labelled,
        area=np.array([_sum(truth["area"]) for truth in truths]),
        box=np.array(
            [_box_of(truth, has_labels=row.any()) for truth, row in zip(truths, labelled[:, 2::3] > 0, strict=True)]
        ),
        num_labelled=np.count_nonzero(labelled[:, 2::3] > 0, axis=1).astype(np.float64),
    )
    found = _detected(np.array([_detected_numbers(each, num_points) for each in detections]))
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
    """x, y and visibility of each point; zeros if none is labelled, since the box is compared then. Shape (3 K,)."""
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
    """The box of a truth. As in COCO: an invalid box raises even if labelled keypoints are compared instead."""
    box = truth["bbox"]
    _ = [box[side] - box[side + 2] * 2 for side in (0, 1)]
    return [0.0] * 4 if has_labels else [_sum(box[side]) for side in range(4)]


def _sum(value: Any) -> float:
    """Convert a value to a float by adding 0.0; raise the error of the addition for other types."""
    total = value + 0.0
    return float(total.item() if isinstance(total, np.ndarray) else total)


def draw(axes: Any, ann: Dict, skeleton: Any, color: Any) -> None:
    """Draw the bones and points of an annotation into matplotlib's axes."""
    x, y, visibility = np.array(ann["keypoints"]).reshape(-1, 3).T
    for bone in np.array(skeleton) - 1:
        if (visibility[bone] > 0).all():
            axes.plot(x[bone], y[bone], linewidth=3, color=color)
    for least, edge in ((0, "k"), (1, color)):
        is_drawn = visibility > least
        axes.plot(
            x[is_drawn], y[is_drawn], "o", markersize=8, markerfacecolor=color, markeredgecolor=edge, markeredgewidth=2
        )
