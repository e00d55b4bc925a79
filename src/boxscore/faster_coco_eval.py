"""The classes of faster_coco_eval over boxscore's engine; see `boxscore.coco.faster_evaluation`."""

from boxscore.coco import faster_mask as mask
from boxscore.coco.faster_dataset import FasterCOCO as COCO  # noqa: N814 — its name there
from boxscore.coco.faster_evaluation import COCOeval_faster
from boxscore.coco.faster_patch import init_as_pycocotools

__all__ = [
    "COCO",
    "COCOeval_faster",
    "init_as_pycocotools",
    "mask",
]
