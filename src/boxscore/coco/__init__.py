"""pycocotools' classes over boxscore's engine: its names, its numbers, its texts. See docs/guides/pycocotools.md."""

from boxscore.coco.coco_dataset import COCO
from boxscore.coco.evaluation import COCOeval
from boxscore.coco.params import Params
from boxscore.coco.patch import patch_pycocotools

__all__ = ["COCO", "COCOeval", "Params", "patch_pycocotools"]
