"""The classes of `lvis` over boxscore's engine; see `boxscore.dropin.lvis_evaluation`."""

from boxscore.dropin.lvis_dataset import LVIS
from boxscore.dropin.lvis_evaluation import LVISEval
from boxscore.dropin.lvis_results import LVISResults

__all__ = [
    "LVIS",
    "LVISEval",
    "LVISResults",
]
