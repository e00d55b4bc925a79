"""An epoch's evaluation inside frameworks: their default evaluators, and boxscore's in their place.

    python -m benchmarks.adapters "Hugging Face" boxscore

500 images with 100 detections each, COCO-val-like, in batches of 16, as each framework's models return them. Data is
made before the clock starts; what is measured is all that a framework does from predictions to its numbers.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.framework_epochs import (
    Epoch,
    faster_coco_eval,
    hugging_face_example,
    hugging_face_ours,
    mmdetection,
    quiet,
    rf_detr,
    sahi,
    supervision_metric,
    supervision_ours,
    torchvision_ours,
    torchvision_reference,
    ultralytics_json,
    ultralytics_ours,
)
from benchmarks.processes import Row, Settings, say, take_turns, worker
from benchmarks.workloads import prepare

TOLERANCE = 1e-3
"""Some frameworks round numbers to three digits, or boxes to float32."""


class Adapter(NamedTuple):
    """One framework: its evaluators by name, boxscore's first. Each prepares what the framework would have."""

    page: str
    """Its page in docs/frameworks."""
    tools: Mapping[str, Callable[[Path], Epoch]]
    once: tuple[str, ...] = ()
    """What takes too long for several rounds."""


ADAPTERS: Mapping[str, Adapter] = {
    "torchvision's references, DETR": Adapter(
        "torchvision", {"boxscore": torchvision_ours, "the reference over pycocotools": torchvision_reference}
    ),
    "faster-coco-eval": Adapter(
        "faster-coco-eval",
        {
            "boxscore": faster_coco_eval("boxscore.faster_coco_eval"),
            "faster-coco-eval": faster_coco_eval("faster_coco_eval"),
        },
    ),
    "Hugging Face": Adapter(
        "huggingface", {"boxscore": hugging_face_ours, "Transformers' example and torchmetrics": hugging_face_example}
    ),
    "Ultralytics": Adapter(
        "ultralytics", {"boxscore": ultralytics_ours, "`save_json=True` and faster-coco-eval": ultralytics_json}
    ),
    "supervision": Adapter(
        "supervision", {"boxscore": supervision_ours, "supervision": supervision_metric}, once=("supervision",)
    ),
    "RF-DETR": Adapter(
        "rf-detr",
        {
            "boxscore": rf_detr("boxscore"),
            "hotcoco": rf_detr("hotcoco"),
            "faster-coco-eval": rf_detr("faster_coco_eval"),
        },
    ),
    "SAHI": Adapter("sahi", {"boxscore": sahi(is_patched=True), "pycocotools": sahi(is_patched=False)}),
    "mmdetection": Adapter(
        "others", {"boxscore": mmdetection(is_patched=True), "pycocotools": mmdetection(is_patched=False)}
    ),
}


def measure(settings: Settings) -> list[Row]:
    """Seconds of an epoch's evaluation, by framework and evaluator. All evaluators of a framework must agree."""
    rows: list[Row] = []
    for title, adapter in ADAPTERS.items():

        def run(tool: str, title: str = title) -> dict[str, Any]:
            say(f"{title}: {tool}")
            variables = {"BOXSCORE_THREADS": str(settings.threads)}
            return worker("benchmarks.adapters", title, tool, variables=variables)

        reports = take_turns(adapter.tools, run, rounds=settings.rounds, once=adapter.once)
        numbers = [runs[0]["number"] for runs in reports.values()]
        if max(numbers) - min(numbers) > TOLERANCE:
            raise RuntimeError(f"{title}: the numbers of {', '.join(reports)} are {numbers}")
        rows += [
            {
                "group": title,
                "tool": tool,
                "seconds": statistics.median(report["seconds"] for report in runs),
            }
            for tool, runs in reports.items()
        ]
    return rows


def main(title: str, tool: str) -> None:
    """One evaluator, in this process: the second of two epochs, unless that would take long."""
    adapter = ADAPTERS[title]
    os.environ.setdefault("YOLO_VERBOSE", "False")
    with quiet():
        epoch = adapter.tools[tool](prepare("adapters", is_with_results=True))
        for _ in range(1 if tool in adapter.once else 2):
            start = time.perf_counter()
            value = epoch()
            seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "number": value}))


if __name__ == "__main__":
    main(*sys.argv[1:])
