"""What a metric costs inside a training loop, in one process, as JSON on stdout: update, compute, state, classes."""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boxscore
from benchmarks.contestants import load_stream
from boxscore.torchmetrics import MeanAveragePrecision


def main(folder: str) -> None:
    """Medians over many rounds, as ratios near 1 need them, in which the metrics take turns, one way and back."""
    loaded = load_stream(Path(folder))
    metrics: dict[str, Callable[[], Any]] = {
        "boxscore": lambda: boxscore.MeanAveragePrecision(box_format="xywh"),
        "torchmetrics": lambda: MeanAveragePrecision(box_format="xywh"),
        "torchmetrics, class_metrics": lambda: MeanAveragePrecision(box_format="xywh", class_metrics=True),
    }
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in metrics}
    for turn in range(41):
        for name in list(metrics)[:: 1 if turn % 2 else -1]:
            seconds[name].append(_costs(metrics[name](), loaded))
    update, compute = (statistics.median(cost) for cost in zip(*seconds["boxscore"][1:], strict=True))
    pairs = zip(seconds["torchmetrics"][1:], seconds["torchmetrics, class_metrics"][1:], strict=True)
    with_classes = statistics.median(sum(second) / sum(first) for first, second in pairs)
    metric = metrics["boxscore"]()
    _costs(metric, loaded)
    report = {"update": update, "compute": compute, "class_metrics": with_classes}
    print(json.dumps(report | {"state_bytes": metric.tally.nbytes / len(metric.tally)}))


def _costs(metric: Any, loaded: Any) -> tuple[float, float]:
    """Seconds of all updates, and of one compute after them."""
    start = time.perf_counter()
    for first in range(0, len(loaded[0]), 16):
        metric.update(*(images[first : first + 16] for images in loaded))
    between = time.perf_counter()
    metric.compute()
    return between - start, time.perf_counter() - between


if __name__ == "__main__":
    main(sys.argv[1])
