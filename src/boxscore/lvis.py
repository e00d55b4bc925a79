"""The classes of `lvis` over boxscore's engine; see `boxscore.coco.lvis_evaluation`."""

from boxscore.coco.lvis_dataset import LVIS
from boxscore.coco.lvis_evaluation import LVISEval
from boxscore.coco.lvis_results import LVISResults

__all__ = [
    "LVIS",
    "LVISEval",
    "LVISResults",
]
