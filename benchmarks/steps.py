"""An evaluator that calls pycocotools' steps itself, batch by batch, as DETR's does; one process, seconds as JSON.

    python -m benchmarks.steps boxscore TRUTHS.json DETECTIONS.json

Tools as in `benchmarks.script`. Processor seconds, too, for machines that are busy.
"""

import contextlib
import copy
import io
import json
import sys
import time
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.script import PATCHES

BATCH = 16
"""Images."""


def main(tool: str, truths: str, detections: str) -> None:
    """From results as dicts to `stats`."""
    patch = PATCHES[tool]
    if patch is not None:
        getattr(import_module(tool.replace("-", "_")), patch)()
    results = defaultdict(list)
    for row in json.loads(Path(detections).read_text()):
        results[row["image_id"]].append(row)
    with contextlib.redirect_stdout(io.StringIO()):
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval

        start, start_cpu = time.perf_counter(), time.process_time()
        coco = COCO(truths)
        evaluation = COCOeval(coco, iouType="bbox")
        images = sorted(coco.getImgIds())
        parts = []
        for first in range(0, len(images), BATCH):
            batch = images[first : first + BATCH]
            rows = [row for image in batch for row in results[image]]
            evaluation.cocoDt = COCO.loadRes(coco, rows) if rows else COCO()
            evaluation.params.imgIds = batch
            parts.append(entries_of(evaluation))
        evaluation.params.imgIds = images
        evaluation._paramsEval = copy.deepcopy(evaluation.params)
        evaluation.evalImgs = list(np.concatenate(parts, axis=2).flatten())
        evaluation.accumulate()
        evaluation.summarize()
        end, end_cpu = time.perf_counter(), time.process_time()
    stats = [float(x) for x in evaluation.stats[:12]]
    print(json.dumps({"seconds": end - start, "cpu_seconds": end_cpu - start_cpu, "stats": stats}))


def entries_of(evaluation: Any) -> Any:
    """The entries of one batch, by the steps: (K, A, N)."""
    p = evaluation.params
    evaluation._prepare()
    evaluation.ious = {(image, label): evaluation.computeIoU(image, label) for image in p.imgIds for label in p.catIds}
    entries = [
        evaluation.evaluateImg(image, label, area, p.maxDets[-1])
        for label in p.catIds
        for area in p.areaRng
        for image in p.imgIds
    ]
    return np.asarray(entries).reshape(len(p.catIds), len(p.areaRng), len(p.imgIds))


if __name__ == "__main__":
    main(*sys.argv[1:])
