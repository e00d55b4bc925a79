"""Annotations drawn into the current axes of matplotlib, as pycocotools does."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from boxscore.dropin import mask

CROWD_COLOR = np.array([2.0, 166.0, 101.0]) / 255


def draw_annotations(anns: Sequence[dict[str, Any]], coco: Any, *, draw_bbox: bool) -> None:
    """Draw polygons, masks, keypoints and, if wanted, boxes, in random colours."""
    from matplotlib import pyplot
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Polygon

    axes = pyplot.gca()
    axes.set_autoscale_on(False)
    shapes, colors = [], []
    for ann in anns:
        color = tuple((np.random.random(3) * 0.6 + 0.4).tolist())  # noqa: NPY002 — follows np.random.seed, as users expect
        corners = []
        if isinstance(ann.get("segmentation"), list):
            corners += [np.array(polygon).reshape(-1, 2) for polygon in ann["segmentation"]]
        elif "segmentation" in ann:
            pixels = mask.decode(coco.annToRLE(ann))
            tint = CROWD_COLOR if ann["iscrowd"] else color
            axes.imshow(np.dstack([np.broadcast_to(tint, (*pixels.shape, 3)), pixels * 0.5]))
        if isinstance(ann.get("keypoints"), list):
            _draw_keypoints(axes, ann, coco.loadCats([ann["category_id"]])[0]["skeleton"], color)
        if draw_bbox:
            x, y, width, height = ann["bbox"]
            corners.append(np.array([[x, y], [x, y + height], [x + width, y + height], [x + width, y]]))
        shapes += [Polygon(each) for each in corners]
        colors += [color] * len(corners)
    axes.add_collection(PatchCollection(shapes, facecolor=colors, linewidths=0, alpha=0.4))
    axes.add_collection(PatchCollection(shapes, facecolor="none", edgecolors=colors, linewidths=2))


def _draw_keypoints(axes: Any, ann: dict[str, Any], skeleton: Any, color: Any) -> None:
    x, y, visibility = np.array(ann["keypoints"]).reshape(-1, 3).T
    for bone in np.array(skeleton) - 1:
        if (visibility[bone] > 0).all():
            axes.plot(x[bone], y[bone], linewidth=3, color=color)
    for least, edge in ((0, "k"), (1, color)):
        is_drawn = visibility > least
        axes.plot(
            x[is_drawn], y[is_drawn], "o", markersize=8, markerfacecolor=color, markeredgecolor=edge, markeredgewidth=2
        )
