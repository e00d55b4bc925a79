"""faster_coco_eval.mask: masks as run lengths. Accepts more than pycocotools: any memory layout, and lists of boxes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boxscore.data.geometry.masks import boundary_of
from boxscore.dropin import mask
from boxscore.dropin.mask import decode, iou, merge, toBbox
from boxscore.dropin.store import mask_of

__all__ = [
    "area",
    "calculateRleForAllAnnotations",
    "decode",
    "encode",
    "frPyObjects",
    "iou",
    "merge",
    "rleToBoundary",
    "rleToBoundaryCV",
    "segmToRle",
    "toBbox",
]


def encode(bimask: Any) -> Any:
    """Encode pixels as run lengths: (H, W) as one dict, (H, W, N) as a list of dicts.

    >>> encode(np.eye(2, dtype=bool))
    {'size': [2, 2], 'counts': b'0120'}
    """
    return mask.encode(np.asfortranarray(np.asarray(bimask).astype(np.uint8, copy=False)))


def area(rleObjs: Any) -> Any:
    """Compute the area of masks in pixels, of one dict or a list of dicts."""
    return np.asarray(mask.area(rleObjs)).astype(np.uint64)[()]


def frPyObjects(objs: Any, h: int, w: int) -> Any:
    """Convert polygons, boxes or uncompressed run lengths to encoded masks; a single polygon or box to one mask."""
    if isinstance(objs, list) and objs and np.isscalar(objs[0]):
        return frPyObjects([objs], h, w)[0]
    if isinstance(objs, list) and objs and not isinstance(objs[0], Mapping) and len(objs[0]) == 4:
        objs = np.array(objs, np.float64)
    return mask.frPyObjects(objs, h, w)


def segmToRle(segm: Any, w: int, h: int) -> Any:
    """Convert polygons or uncompressed run lengths to an encoded mask; an encoded mask stays unchanged.

    >>> segmToRle([[1, 1, 3, 1, 3, 3, 1, 3]], 4, 3)
    {'size': [3, 4], 'counts': b'42102'}
    """
    return mask_of({"image_id": 0, "segmentation": segm}, {0: {"height": h, "width": w}})


def rleToBoundary(rle: Any, dilation_ratio: float = 0.02, backend: str = "mask_api") -> Any:
    """Compute the boundary of a mask, `dilation_ratio` of the image's diagonal wide; `backend` changes nothing."""
    del backend
    return encode(boundary_of(mask.decode(rle).astype(bool), dilation_ratio))


def rleToBoundaryCV(rle: Any, dilation_ratio: float = 0.02) -> Any:
    """Compute the boundary as `rleToBoundary` does; OpenCV is not needed."""
    return rleToBoundary(rle, dilation_ratio)


def calculateRleForAllAnnotations(
    anns: Sequence[dict[str, Any]],
    img_sizes: Mapping[int, tuple[int, int]],
    compute_rle: bool,
    compute_boundary: bool,
    boundary_dilation_ratio: float,
    boundary_cpu_count: int,
) -> None:
    """Set `rle` and `boundary` in the dicts of annotations."""
    del boundary_cpu_count
    for ann in anns if compute_rle else ():
        height, width = img_sizes[ann["image_id"]]
        ann["rle"] = segmToRle(ann["segmentation"], width, height)
        if compute_boundary:
            ann["boundary"] = rleToBoundary(ann["rle"], boundary_dilation_ratio)
