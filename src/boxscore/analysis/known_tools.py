"""The settings of tools that measure mean average precision, as protocols.

Each was read in the tool's own code, and tests run the tool itself where it can be installed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.model.protocol import Protocol
from boxscore.model.protocol_fields import Area
from boxscore.model.protocol_table import PROTOCOLS


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A tool, and the rules that give its numbers."""

    name: str
    """What it is called on the command line."""
    title: str
    """What it is called in texts."""
    protocol: Protocol
    """Its rules; the protocol's name is that of the tool."""
    note: str
    """What it does differently, and what no protocol can express."""
    source: str
    """Where the rules can be read: project and file."""


_COCO, _VOC2007, _VOC2012 = (PROTOCOLS[name] for name in ("coco", "voc2007", "voc2012"))


def _in_single_precision(first: float, last: float, num: int) -> tuple[float, ...]:
    """Numbers at equal distances with the bits of `torch.linspace`: float32, each half counted from its own end."""
    low, high = np.float32(first), np.float32(last)
    step = np.float32((high - low) / np.float32(num - 1))
    index = np.arange(num, dtype=np.float32)
    upward, downward = low + step * index, high - step * (np.float32(num - 1) - index)
    return tuple(np.where(np.arange(num) < num // 2, upward, downward).astype(np.float64).tolist())


_DETECTRON2_VOC = {"comparison": ">", "thresholds": tuple(percent / 100 for percent in range(50, 100, 5))}

_ALL_AREAS = (Area("all", 0.0, np.inf),)

TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            name="pycocotools",
            title="pycocotools",
            protocol=_COCO.replace(name="pycocotools"),
            note="The reference for COCO.",
            source="cocodataset/cocoapi, PythonAPI/pycocotools/cocoeval.py",
        ),
        Tool(
            name="torchmetrics",
            title="torchmetrics MeanAveragePrecision",
            protocol=_COCO.replace(
                name="torchmetrics",
                thresholds=_in_single_precision(0.5, 0.95, 10),
                recall_points=_in_single_precision(0.0, 1.0, 101),
            ),
            note="pycocotools with thresholds and recall points rounded to float32.",
            source="Lightning-AI/torchmetrics, src/torchmetrics/detection/mean_ap.py",
        ),
        Tool(
            name="ultralytics",
            title="Ultralytics",
            protocol=PROTOCOLS["ultralytics"],
            note="IoUs are float32.",
            source="ultralytics/ultralytics, ultralytics/utils/metrics.py",
        ),
        Tool(
            name="detectron2-voc2007",
            title="detectron2, VOC 2007",
            protocol=_VOC2007.replace(name="detectron2-voc2007", **_DETECTRON2_VOC),
            note="Scores are rounded to 3 decimals, coordinates to 1.",
            source="facebookresearch/detectron2, detectron2/evaluation/pascal_voc_evaluation.py",
        ),
        Tool(
            name="detectron2-voc2012",
            title="detectron2, VOC 2012",
            protocol=_VOC2012.replace(name="detectron2-voc2012", **_DETECTRON2_VOC),
            note="Scores are rounded to 3 decimals, coordinates to 1.",
            source="facebookresearch/detectron2, detectron2/evaluation/pascal_voc_evaluation.py",
        ),
        Tool(
            name="mmdetection-voc2007",
            title="mmdetection, VOC 2007",
            protocol=_VOC2007.replace(name="mmdetection-voc2007"),
            note="IoUs are float32.",
            source="open-mmlab/mmdetection, mmdet/evaluation/functional/mean_ap.py",
        ),
        Tool(
            name="mmdetection-voc2012",
            title="mmdetection, VOC 2012",
            protocol=_VOC2012.replace(name="mmdetection-voc2012"),
            note="IoUs are float32.",
            source="open-mmlab/mmdetection, mmdet/evaluation/functional/mean_ap.py",
        ),
        Tool(
            name="supervision",
            title="supervision MeanAveragePrecision",
            protocol=_COCO.replace(name="supervision"),
            note="COCO.",
            source="roboflow/supervision, src/supervision/metrics/mean_average_precision.py",
        ),
        Tool(
            name="cartucho",
            title="Cartucho/mAP",
            protocol=_VOC2012.replace(name="cartucho"),
            note="VOC 2012 rules.",
            source="Cartucho/mAP, main.py",
        ),
        Tool(
            name="review-object-detection-metrics",
            title="review_object_detection_metrics, VOC",
            protocol=_VOC2012.replace(name="review-object-detection-metrics", ignored="regular"),
            note="It knows no difficult truths.",
            source="rafaelpadilla/review_object_detection_metrics, src/evaluators/pascal_voc_evaluator.py",
        ),
        Tool(
            name="review-object-detection-metrics-coco",
            title="review_object_detection_metrics, COCO",
            protocol=_COCO.replace(
                name="review-object-detection-metrics-coco",
                ignored="regular",
                truth_area="shape",
                precision_epsilon=0.0,
            ),
            note="It knows no crowds, and takes areas from boxes.",
            source="rafaelpadilla/review_object_detection_metrics, src/evaluators/coco_evaluator.py",
        ),
        Tool(
            name="object-detection-metrics",
            title="object-detection-metrics (podm)",
            protocol=_VOC2012.replace(name="object-detection-metrics", ignored="regular", pixels="continuous"),
            note="It knows no difficult truths.",
            source="yfpeng/object_detection_metrics, src/podm/metrics.py",
        ),
    )
}
"""Tools by the name that the command line uses."""


def as_rules(name_or_protocol: str | Protocol) -> Protocol:
    """The rules of a tool, the protocol of a name, or a protocol itself.

    >>> as_rules("detectron2-voc2007").comparison, as_rules("voc2007").comparison
    ('>', '>=')
    """
    if isinstance(name_or_protocol, Protocol):
        return name_or_protocol
    if isinstance(name_or_protocol, str):
        if name_or_protocol in TOOLS:
            return TOOLS[name_or_protocol].protocol
        if name_or_protocol in PROTOCOLS:
            return PROTOCOLS[name_or_protocol]
    raise InputError(
        f"rules must be a tool ({', '.join(TOOLS)}), a protocol ({', '.join(PROTOCOLS)}) or a boxscore.Protocol;"
        f" got {name_or_protocol!r}"
    )
