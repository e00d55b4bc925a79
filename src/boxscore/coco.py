"""pycocotools' classes over boxscore's engine: its names, its numbers, its texts. See docs/guides/pycocotools.md."""

from boxscore.dropin import mask
from boxscore.dropin.coco_dataset import COCO
from boxscore.dropin.evaluation import COCOeval
from boxscore.dropin.params import Params
from boxscore.dropin.patch import patch_pycocotools

__all__ = ["COCO", "COCOeval", "Params", "mask", "patch_pycocotools"]
