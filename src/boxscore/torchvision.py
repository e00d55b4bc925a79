"""The evaluator of torchvision's references and of DETR; see `boxscore.dropin.torchvision_evaluator`."""

from boxscore.dropin.torchvision_evaluator import CocoEvaluator

__all__ = [
    "CocoEvaluator",
]
