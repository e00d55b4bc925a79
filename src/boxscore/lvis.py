"""The classes of `lvis` over boxscore's engine; see `boxscore.dropin.lvis_evaluation`."""

from boxscore.dropin.lvis_dataset import LVIS, LVISResults
from boxscore.dropin.lvis_evaluation import LVISEval

__all__ = [
    "LVIS",
    "LVISEval",
    "LVISResults",
]
