"""Mean average precision for object detection: exact, in parallel, on any array library."""

from boxscore._support.lazy_names import lazy_names

__version__ = "0.2.0"

TYPE_CHECKING = False  # as in `lazy_names`
if TYPE_CHECKING:
    from boxscore._support.exceptions import InputError as InputError
    from boxscore.analysis.comparison import compare as compare
    from boxscore.analysis.explanation import explain as explain
    from boxscore.data.dataset import Detections as Detections
    from boxscore.data.dataset import Truths as Truths
    from boxscore.dropin.patch import patch_faster_coco_eval as patch_faster_coco_eval
    from boxscore.dropin.patch import patch_pycocotools as patch_pycocotools
    from boxscore.engines.parallel.loading import collate_truths as collate_truths
    from boxscore.formats import read_detections as read_detections
    from boxscore.formats import read_truths as read_truths
    from boxscore.formats import write_detections as write_detections
    from boxscore.formats import write_truths as write_truths
    from boxscore.inputs import evaluate as evaluate
    from boxscore.pipeline import finish as finish
    from boxscore.pipeline import load_result as load_result
    from boxscore.pipeline import match as match
    from boxscore.protocol.protocol import Protocol as Protocol
    from boxscore.result.result import Result as Result
    from boxscore.result.tally import Tally as Tally
    from boxscore.training.metric import MeanAveragePrecision as MeanAveragePrecision

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    globals(),
    {
        "_support.exceptions": "InputError",
        "analysis.comparison": "compare",
        "analysis.explanation": "explain",
        "data.dataset": "Detections Truths",
        "dropin.patch": "patch_faster_coco_eval patch_pycocotools",
        "engines.parallel.loading": "collate_truths",
        "inputs": "evaluate",
        "formats": "read_detections read_truths write_detections write_truths",
        "pipeline": "finish load_result match",
        "protocol.protocol": "Protocol",
        "result.result": "Result",
        "result.tally": "Tally",
        "training.metric": "MeanAveragePrecision",
    },
    modules="analysis data formats parallel protocol report result scaling sequential",
)
