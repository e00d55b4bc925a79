"""Mean average precision for object detection: exact, in parallel, on any array library."""

TYPE_CHECKING = False  # type checkers take it for `typing.TYPE_CHECKING`, whose import would take longer than the rest
if TYPE_CHECKING:
    from typing import Any

    from boxscore import parallel, sequential
    from boxscore._support.exceptions import InputError
    from boxscore.analysis.bootstrap import Intervals
    from boxscore.analysis.claims import ClaimExplanation, explain_claim
    from boxscore.analysis.comparison import Comparison, compare
    from boxscore.analysis.explanation import Explanation, explain
    from boxscore.analysis.label_errors import LabelErrors, label_errors
    from boxscore.analysis.slices import Slices, slices
    from boxscore.data.coverage import Coverage
    from boxscore.data.dataset import Detections, Truths
    from boxscore.data.geometry.keypoints import Keypoints
    from boxscore.data.geometry.masks import Masks
    from boxscore.data.geometry.oriented_boxes import OrientedBoxes
    from boxscore.dropin.faster_patch import patch_faster_coco_eval
    from boxscore.dropin.patch import patch_pycocotools
    from boxscore.engines.parallel.loading import collate_truths
    from boxscore.formats import read_detections, read_truths, select, write_detections, write_truths
    from boxscore.formats.groups import read_groups
    from boxscore.formats.ultralytics_results import from_ultralytics
    from boxscore.pipeline import evaluate, finish, load_result, match
    from boxscore.protocol.fields import Area
    from boxscore.protocol.keypoint_rules import KeypointRules
    from boxscore.protocol.protocol import Protocol
    from boxscore.report.pictures import Picture, draw
    from boxscore.result.curves import Curves
    from boxscore.result.per_class import PerClass
    from boxscore.result.result import Result
    from boxscore.result.tally import Tally
    from boxscore.scaling.shards import match_shard
    from boxscore.training.metric import MeanAveragePrecision

__version__ = "0.2.0"

__all__ = [
    "Area",
    "ClaimExplanation",
    "Comparison",
    "Coverage",
    "Curves",
    "Detections",
    "Explanation",
    "InputError",
    "Intervals",
    "KeypointRules",
    "Keypoints",
    "LabelErrors",
    "Masks",
    "MeanAveragePrecision",
    "OrientedBoxes",
    "PerClass",
    "Picture",
    "Protocol",
    "Result",
    "Slices",
    "Tally",
    "Truths",
    "collate_truths",
    "compare",
    "draw",
    "evaluate",
    "explain",
    "explain_claim",
    "finish",
    "from_ultralytics",
    "label_errors",
    "load_result",
    "match",
    "match_shard",
    "parallel",
    "patch_faster_coco_eval",
    "patch_pycocotools",
    "read_detections",
    "read_groups",
    "read_truths",
    "select",
    "sequential",
    "slices",
    "write_detections",
    "write_truths",
]

_HOMES = {
    "Area": "protocol.fields",
    "ClaimExplanation": "analysis.claims",
    "Comparison": "analysis.comparison",
    "Coverage": "data.coverage",
    "Curves": "result.curves",
    "Detections": "data.dataset",
    "Explanation": "analysis.explanation",
    "InputError": "_support.exceptions",
    "Intervals": "analysis.bootstrap",
    "Keypoints": "data.geometry.keypoints",
    "KeypointRules": "protocol.keypoint_rules",
    "LabelErrors": "analysis.label_errors",
    "Masks": "data.geometry.masks",
    "MeanAveragePrecision": "training.metric",
    "OrientedBoxes": "data.geometry.oriented_boxes",
    "PerClass": "result.per_class",
    "Picture": "report.pictures",
    "Protocol": "protocol.protocol",
    "Result": "result.result",
    "Slices": "analysis.slices",
    "Tally": "result.tally",
    "Truths": "data.dataset",
    "collate_truths": "engines.parallel.loading",
    "compare": "analysis.comparison",
    "draw": "report.pictures",
    "evaluate": "pipeline",
    "explain": "analysis.explanation",
    "explain_claim": "analysis.claims",
    "finish": "pipeline",
    "load_result": "pipeline",
    "from_ultralytics": "formats.ultralytics_results",
    "label_errors": "analysis.label_errors",
    "match": "pipeline",
    "match_shard": "scaling.shards",
    "patch_faster_coco_eval": "dropin.faster_patch",
    "patch_pycocotools": "dropin.patch",
    "read_detections": "formats",
    "read_groups": "formats.groups",
    "read_truths": "formats",
    "select": "formats",
    "slices": "analysis.slices",
    "write_detections": "formats",
    "write_truths": "formats",
}
"""Where each name is. Modules are loaded when a name is first used: the command needs few of them, and not NumPy."""


def __getattr__(name: str) -> "Any":
    from importlib import import_module

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
