"""Mean average precision for object detection: exact, in parallel, on any array library."""

from boxscore import parallel, sequential
from boxscore.columns import Detections, Truths
from boxscore.curves import Curves
from boxscore.errors import InputError
from boxscore.evaluate import evaluate, finish, match
from boxscore.formats import read_detections, read_truths, select, write_detections, write_truths
from boxscore.protocol import Area, Protocol
from boxscore.result import PerClass, Result
from boxscore.tally import Tally

__version__ = "0.1.0"

__all__ = [
    "Area",
    "Curves",
    "Detections",
    "InputError",
    "PerClass",
    "Protocol",
    "Result",
    "Tally",
    "Truths",
    "evaluate",
    "finish",
    "match",
    "parallel",
    "read_detections",
    "read_truths",
    "select",
    "sequential",
    "write_detections",
    "write_truths",
]
