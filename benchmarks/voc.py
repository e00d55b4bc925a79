"""One engine on real VOC 2007 data, from loaded columns: seconds, as JSON on stdout."""

import json
import sys
import time
import warnings
from typing import Any

import boxscore
from benchmarks.workloads import SHARED
from boxscore import Detections, Truths
from boxscore.formats import read_detections, read_truths


def main(name: str) -> None:
    """Measure one engine; "as published" is the parallel one under the paper's protocol, "parallel, torch" the parallel
    one on tensors.
    """
    truths = read_truths(SHARED / "voc2007/Annotations.zip")
    with warnings.catch_warnings(action="ignore"):
        detections = read_detections(SHARED / "voc2007/results", truths)
    protocol: Any = "paper" if name == "as published" else "voc2012"
    engine: Any = "parallel" if name in ("as published", "parallel, torch") else name
    if name == "parallel, torch":
        detections, truths = _as_tensors(detections, truths)
    seconds = []
    for _ in range(2 if engine == "sequential" else 6):
        start = time.perf_counter()
        boxscore.evaluate(detections, truths, protocol, engine)
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": sorted(seconds)[len(seconds) // 2 - 1]}))


def _as_tensors(detections: Detections, truths: Truths) -> tuple[Detections, Truths]:
    """The same columns as tensors in host memory."""
    import torch

    ours = {name: torch.asarray(getattr(detections, name)) for name in ("image_ids", "labels", "scores", "boxes")}
    theirs = {name: torch.asarray(getattr(truths, name)) for name in ("image_ids", "labels", "boxes", "ignore")}
    names = truths.names_by_label
    return (
        Detections(**ours, box_format=detections.box_format),
        Truths(**theirs, box_format=truths.box_format, class_names=names),
    )


if __name__ == "__main__":
    main(sys.argv[1])
