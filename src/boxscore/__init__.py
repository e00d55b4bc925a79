"""Mean average precision for object detection: exact, in parallel, on any array library."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boxscore import parallel, sequential
    from boxscore.columns import Detections, Truths
    from boxscore.curves import Curves
    from boxscore.errors import InputError
    from boxscore.formats import read_detections, read_truths, select, write_detections, write_truths
    from boxscore.metric import MeanAveragePrecision
    from boxscore.parallel.loading import collate_truths
    from boxscore.pipeline import evaluate, finish, match
    from boxscore.protocol import Area, Protocol
    from boxscore.result import PerClass, Result
    from boxscore.shards import match_shard
    from boxscore.tally import Tally

__version__ = "0.1.0"

__all__ = [
    "Area",
    "Curves",
    "Detections",
    "InputError",
    "MeanAveragePrecision",
    "PerClass",
    "Protocol",
    "Result",
    "Tally",
    "Truths",
    "collate_truths",
    "evaluate",
    "finish",
    "match",
    "match_shard",
    "parallel",
    "read_detections",
    "read_truths",
    "select",
    "sequential",
    "write_detections",
    "write_truths",
]

_HOMES = {
    "Area": "protocol",
    "Curves": "curves",
    "Detections": "columns",
    "InputError": "errors",
    "MeanAveragePrecision": "metric",
    "PerClass": "result",
    "Protocol": "protocol",
    "Result": "result",
    "Tally": "tally",
    "Truths": "columns",
    "collate_truths": "parallel.loading",
    "evaluate": "pipeline",
    "finish": "pipeline",
    "match": "pipeline",
    "match_shard": "shards",
    "read_detections": "formats",
    "read_truths": "formats",
    "select": "formats",
    "write_detections": "formats",
    "write_truths": "formats",
}
"""Where each name is. Modules are loaded when a name is first used: the command needs few of them, and not NumPy."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"boxscore.{_HOMES[name]}"), name)
    elif name in __all__:
        value = import_module(f"boxscore.{name}")
    else:
        raise AttributeError(f"module 'boxscore' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
