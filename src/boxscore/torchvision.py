"""The evaluator of torchvision's references and of DETR; see `boxscore.coco.torchvision_evaluator`."""

from boxscore.coco.torchvision_evaluator import CocoEvaluator

__all__ = [
    "CocoEvaluator",
]
