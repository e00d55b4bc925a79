"""Poses as YOLO has them: a box and its keypoints, in fractions of the image's size."""

import numpy as np

from boxscore.arrays import to_numpy
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.formats.records import Floats
from boxscore.formats.table_keypoints import lists_of
from boxscore.formats.writers import Host, Loss
from boxscore.protocol.protocol import Protocol


def poses_as_fractions(
    host: Host, keypoints: Keypoints, boxes: list[list[float]]
) -> tuple[list[list[float]], list[Loss]]:
    """The numbers of each line: those of the box, then x, y and the third number of each point; and what is lost.

    `boxes`: the numbers of the boxes, as fractions.
    """
    shape = len(host), keypoints.num_points
    numbers = lists_of(keypoints).reshape(*shape, 3)
    point = numbers[:, :, :2].reshape(len(host), -1) if len(host) else np.zeros((0, 2))
    fractions = host.fractions(point)
    num_moved = int((fractions * _scale(host, point) != point).any(axis=1).sum())
    poses = np.concatenate([fractions.reshape(*shape, 2), numbers[:, :, 2:]], axis=2) if len(host) else numbers
    what = "last digit of a pose that is a fraction now"
    losses = [
        Loss(num=0 if host.mask is None else len(host.mask), what="mask"),
        Loss(num=num_moved, what=what, plural="last digits of poses that are fractions now"),
        *_counts_lost(host, keypoints),
        *host.crowding_lost(),
    ]
    lines = poses.reshape(len(host), 3 * keypoints.num_points).tolist()
    return [[*box, *pose] for box, pose in zip(boxes, lines, strict=True)], losses


def _scale(host: Host, point: Floats) -> Floats:
    """Width and height of each point's image. Shape (R, 2 K)."""
    sizes = np.array([host.sizes[image] for image in host.image.tolist()], np.float64).reshape(-1, 2)
    return np.tile(sizes, point.shape[1] // 2)


def _counts_lost(host: Host, keypoints: Keypoints) -> list[Loss]:
    """Numbers of labelled points that are not those of the points, and areas of detections that are not theirs."""
    num_counts = num_areas = 0
    if keypoints.num_labelled is not None and keypoints.visibility is not None:
        counted = (to_numpy(keypoints.visibility) > 0).sum(axis=1)
        num_counts = int((to_numpy(keypoints.num_labelled) != counted).sum())
    if host.score is not None and host.area is not None:
        num_areas = int((to_numpy(keypoints.areas(Protocol.named("coco_keypoints"))) != host.area).sum())
    what = "number of labelled points"
    return [Loss(num=num_counts, what=what, plural="numbers of labelled points"), Loss(num=num_areas, what="area")]
