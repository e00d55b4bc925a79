"""Hints for keyword arguments of other tools: the error for such a keyword names boxscore's argument."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Made = TypeVar("Made")


def _changed(field: str, value: str) -> str:
    return f"protocol=boxscore.Protocol.named('coco', {field}={value})"


_LIMITS = _changed("limits", "(1, 10, 100)")
_THRESHOLDS = _changed("thresholds", "(0.5, 0.75)")
_RECALLS = _changed("recall_points", "(0.0, 0.5, 1.0)")
_NAMES = "class_names=['cat', 'dog']"

FOREIGN: Mapping[str, str] = {
    **dict.fromkeys(
        ("maxDets", "max_dets", "max_det", "max_detections", "max_detection_thresholds", "limits"), _LIMITS
    ),
    **dict.fromkeys(("iouThrs", "iou_thrs", "iou_threshold", "iou_thresholds", "thresholds"), _THRESHOLDS),
    **dict.fromkeys(("recThrs", "rec_thrs", "rec_thresholds", "recall_points"), _RECALLS),
    **dict.fromkeys(("areaRng", "area_rng", "areas"), _changed("areas", "{'all': (0, None), 'tiny': (0, 256)}")),
    **dict.fromkeys(("kpt_oks_sigmas", "kpt_sigmas", "sigmas"), _changed("sigmas", "[0.05, 0.05]")),
    **dict.fromkeys(
        ("useCats", "use_cats", "class_agnostic", "agnostic_nms", "single_cls"), _changed("class_agnostic", "True")
    ),
    "average": _changed("average", "'micro'"),
    **dict.fromkeys(("iouType", "iou_types", "iouTypes"), "iou_type='segm'"),
    **dict.fromkeys(("box_fmt", "bbox_format", "bbox_fmt", "format"), "box_format='xywh'"),
    **dict.fromkeys(("names", "classes", "categories", "label_names", "id2label"), _NAMES),
    "class_metrics": "`per_class` of the result",
    "extended_summary": "`curves` of the result",
    "backend": "engine='auto'",
    **dict.fromkeys(("sync_on_compute", "dist_sync_on_step"), "sync=False"),
}
"""boxscore's equivalent of each keyword of torchmetrics, pycocotools, Ultralytics or a protocol."""


def suggests_keywords(function: Callable[Given, Made]) -> Callable[Given, Made]:
    """Add advice to the `TypeError` for an unknown keyword: boxscore's equivalent, or the known keywords.

    The signature is preserved for type checkers, editors and `inspect`.
    """
    known = inspect.signature(function).parameters

    @wraps(function)
    def called(*values: Given.args, **named: Given.kwargs) -> Made:
        if named.keys() <= known.keys():
            return function(*values, **named)
        wrong = next(name for name in named if name not in known)
        advice = f"; use {FOREIGN[wrong]}" if wrong in FOREIGN else f"; it has {', '.join([*known][1:])}"
        owner = function.__qualname__.partition(".")[0]
        raise TypeError(f"{owner}() got an unexpected keyword argument {wrong!r}{advice}")

    return called
