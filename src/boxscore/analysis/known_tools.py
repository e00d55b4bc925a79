"""The settings of tools that measure mean average precision, as protocols.

Each was read in the tool's own code; tests run the tool itself where it is on PyPI. The command lists their names in
its help, so this needs no NumPy.
"""

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from boxscore._support.exceptions import InputError
from boxscore.protocol.protocol import Protocol
from boxscore.protocol.table import PROTOCOLS, protocol_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A tool, and the rules that give its numbers.

    >>> TOOLS["detectron2-voc2012"].protocol.comparison
    '>'
    """

    name: str
    """Name on the command line."""
    title: str
    """Name in texts."""
    protocol: Protocol
    """The tool's rules with its default settings; the protocol has the name of the tool."""
    note: str
    """Differences from other tools, and behaviour that no protocol can express."""
    source: str
    """Where the rules can be read: project and file."""


def _in_single_precision(first: float, last: float, num: int) -> tuple[float, ...]:
    """Numbers from first to last at equal distances, with the bits of `torch.linspace` in float32.

    PyTorch steps up from the first in the lower half and down from the last in the upper half; each number is rounded
    once, as on CPUs that multiply and add in one operation.
    """
    low, high = _single(first), _single(last)
    step = _single(_single(high - low) / (num - 1))
    values = (low + step * i if i < num // 2 else high - step * (num - 1 - i) for i in range(num))
    return tuple(map(_single, values))


def _single(value: float) -> float:
    """The nearest float32 of a number."""
    (rounded,) = struct.unpack("f", struct.pack("f", value))
    return float(rounded)


_COCO, _VOC2007, _VOC2012, _ULTRALYTICS = (PROTOCOLS[name] for name in ("coco", "voc2007", "voc2012", "ultralytics"))


def _of_coco() -> Iterator[Tool]:
    """Tools that follow COCO."""
    yield Tool(
        name="pycocotools",
        title="pycocotools",
        protocol=_COCO.replace(name="pycocotools"),
        note="The reference for COCO's rules; `coco` gives the same bits.",
        source="cocodataset/cocoapi: PythonAPI/pycocotools/cocoeval.py",
    )
    yield Tool(
        name="torchmetrics",
        title="torchmetrics MeanAveragePrecision",
        protocol=_COCO.replace(
            name="torchmetrics",
            thresholds=_in_single_precision(0.5, 0.95, 10),
            recall_points=_in_single_precision(0.0, 1.0, 101),
        ),
        note="pycocotools with IoU thresholds and recall points in float32: an IoU of exactly 0.6 misses the threshold"
        " 0.60000002. A truth without `area`, or with area 0, has the area of its box, one without `iscrowd` is not a"
        " crowd; the numbers are rounded to float32.",
        source="Lightning-AI/torchmetrics: src/torchmetrics/detection/mean_ap.py",
    )
    yield Tool(
        name="supervision",
        title="supervision MeanAveragePrecision",
        protocol=_COCO.replace(name="supervision"),
        note="COCO's rules, with crowds only if targets have `iscrowd` in `data`, and the area of the box unless they"
        " have `area` there. Precisions are rounded to float32 before they are averaged, in 0.31.2 also given areas;"
        " recall is not reported.",
        source="roboflow/supervision: src/supervision/metrics/mean_average_precision.py",
    )
    yield Tool(
        name="review-object-detection-metrics-coco",
        title="review_object_detection_metrics, COCO",
        protocol=_COCO.replace(
            name="review-object-detection-metrics-coco",
            ignored="regular",
            truth_area="shape",
            areas={area.name: (area.low, area.high if area.high < 1e10 else math.inf) for area in _COCO.areas},
            precision_epsilon=0.0,
        ),
        note="COCO's rules, but crowds count as any other truth, and areas are those of boxes, not the annotated ones.",
        source="rafaelpadilla/review_object_detection_metrics: src/evaluators/coco_evaluator.py",
    )


def _of_ultralytics() -> Iterator[Tool]:
    """Ultralytics' validation."""
    yield Tool(
        name="ultralytics",
        title="Ultralytics (8.4.190)",
        protocol=_ULTRALYTICS,
        note="A perfect detector has AP 0.995, as curves are 0 at recall 1; crowds are not in its labels; IoUs and"
        " thresholds are float32, and of equal scores any may come first, as its sort is not stable.",
        source="ultralytics/ultralytics: ultralytics/utils/metrics.py, ultralytics/engine/validator.py",
    )

    yield Tool(
        name="ultralytics-8.3",
        title="Ultralytics 8.0 to 8.3",
        protocol=_ULTRALYTICS.replace(name="ultralytics-8.3", ap="linear_points_to_end", matching="best"),
        note="As Ultralytics is now, but curves fall in a line from their last recall to (1, 0), which raises AP, and a"
        " detection whose best truth is taken gets no other. Most published YOLO numbers are of these rules.",
        source="ultralytics/ultralytics 8.3.200: ultralytics/utils/metrics.py, ultralytics/engine/validator.py",
    )


def _of_voc() -> Iterator[Tool]:
    """Tools that follow PASCAL VOC."""
    percents = tuple(percent / 100 for percent in range(50, 100, 5))
    for year, rules in (("2007", _VOC2007), ("2012", _VOC2012)):
        yield Tool(
            name=f"detectron2-voc{year}",
            title=f"detectron2, VOC {year}",
            protocol=rules.replace(name=f"detectron2-voc{year}", comparison=">", thresholds=percents),
            note="A match needs an IoU above the threshold, not equal to it; AP is the mean over IoU 0.50:0.95, AP50 is"
            " what VOC calls AP. Scores are rounded to 3 decimals and coordinates to 1 on the way, of equal scores any"
            " may come first, as the sort is not stable, and a class without truths counts as 0 or makes the mean NaN.",
            source="facebookresearch/detectron2: detectron2/evaluation/pascal_voc_evaluation.py",
        )
    for year, rules in (("2007", _VOC2007), ("2012", _VOC2012)):
        yield Tool(
            name=f"mmdetection-voc{year}",
            title=f"mmdetection VOCMetric, VOC {year}",
            protocol=rules.replace(name=f"mmdetection-voc{year}"),
            note="VOC's rules with IoUs and AP in float32. Of truths with equal IoU a regular one comes before a"
            " difficult one, whatever their order; of equal scores any may come first, as the sort is not stable. AP50"
            " is rounded to 3 decimals, mAP is not.",
            source="open-mmlab/mmdetection: functional/mean_ap.py and metrics/voc_metric.py in mmdet/evaluation",
        )
    yield Tool(
        name="cartucho",
        title="Cartucho/mAP",
        protocol=_VOC2012.replace(name="cartucho"),
        note="VOC 2012 at IoU 0.5, with difficult truths only if the word is in the text file. AP is added up one step"
        " after the other, so its last digits may differ; it divides by zero if the best detection of a class takes a"
        " difficult truth.",
        source="Cartucho/mAP: main.py",
    )
    yield Tool(
        name="review-object-detection-metrics",
        title="review_object_detection_metrics, VOC",
        protocol=_VOC2012.replace(name="review-object-detection-metrics", ignored="regular"),
        note="VOC 2012 at IoU 0.5, but difficult truths count as any other. AP is added up one step after the other, so"
        " its last digits may differ.",
        source="rafaelpadilla/review_object_detection_metrics: src/evaluators/pascal_voc_evaluator.py",
    )
    yield Tool(
        name="object-detection-metrics",
        title="object-detection-metrics (podm)",
        protocol=_VOC2012.replace(name="object-detection-metrics", ignored="regular", pixels="continuous"),
        note="VOC 2012 at IoU 0.5, but a box from x1 to x2 is x2 - x1 wide, and difficult truths count as any other. AP"
        " is added up one step after the other, so its last digits may differ.",
        source="yfpeng/object_detection_metrics: src/podm/metrics.py, src/podm/box.py",
    )


TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in (*_of_coco(), *_of_ultralytics(), *_of_voc())}
"""The tools, by the names that the command line uses."""


def as_rules(name_or_protocol: str | Protocol) -> Protocol:
    """The rules of a tool or a protocol, by name; a protocol is returned as it is.

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
        f"the rules must be those of a tool ({', '.join(TOOLS)}), of a protocol ({', '.join(PROTOCOLS)}) or a"
        f" boxscore.Protocol; got {name_or_protocol!r}"
    )


def rules_of_shapes(name: str, iou_type: str) -> Protocol:
    """The rules of a tool or a protocol for an `iou_type`.

    >>> rules_of_shapes("torchmetrics", "segm").iou_type
    'segm'
    """
    if name in PROTOCOLS:
        return protocol_of(name, iou_type)
    if name in _AS_COCO:
        return protocol_of("coco", iou_type).replace(name=name)
    return as_rules(name).replace(iou_type=iou_type)


_AS_COCO = ("pycocotools",)
"""Tools with COCO's rules for all shapes that COCO has rules for."""


def with_sigmas_of(rules: Protocol, other: Protocol) -> Protocol:
    """The rules, with the sigmas of `other` if OKS needs sigmas and the rules have none."""
    if rules.similarity != "OKS" or rules.sigmas:
        return rules
    if not other.sigmas:
        having = [name for name, protocol in PROTOCOLS.items() if protocol.sigmas]
        both = rules.name if rules.name == other.name else f"{rules.name} and {other.name}"
        raise InputError(
            f"OKS can't be computed without `sigmas`, which {both} have not: compare with one of"
            f" {', '.join(having)}, or with a boxscore.Protocol that has them"
        )
    return rules.replace(sigmas=other.sigmas)
