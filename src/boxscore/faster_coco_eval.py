"""The classes of faster_coco_eval over boxscore's engine; see `boxscore.dropin.faster_evaluation`."""

from boxscore.dropin import faster_mask as mask
from boxscore.dropin.faster_dataset import FasterCOCO as COCO  # noqa: N814 — its name there
from boxscore.dropin.faster_evaluation import COCOeval_faster
from boxscore.dropin.patch import init_as_pycocotools

__all__ = [
    "COCO",
    "COCOeval_faster",
    "init_as_pycocotools",
    "mask",
]
