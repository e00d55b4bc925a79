"""The pycocotools script from dicts in memory, as training loops have them: a dataset, and results or an array.

    python -m benchmarks.dicts TOOL TRUTHS.json DETECTIONS.json IOU_TYPE list|array

One process measures one tool once: results are completed in place, so a second run would find less to do.
"""

import contextlib
import io
import json
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import keypoints, masks
from benchmarks.masks import DROP_INS
from benchmarks.processes import Row, Settings, say, take_turns, worker
from benchmarks.workloads import is_present, prepare

SLOW = ("faster-coco-eval", "pycocotools")
TOOLS: Mapping[str, tuple[str, str, str]] = {
    "boxscore.coco": ("boxscore.coco", "boxscore.coco", "COCOeval"),
    "hotcoco": ("hotcoco", "hotcoco", "COCOeval"),
    "faster-coco-eval": ("faster_coco_eval", *DROP_INS["faster-coco-eval"]),
    "pycocotools": ("pycocotools.coco", "pycocotools.cocoeval", "COCOeval"),
}
"""The module of each tool's `COCO`, and the module and the name of its evaluation."""


def main(tool: str, truths: str, detections: str, iou_type: str, kind: str) -> None:
    """From dicts to `stats`: seconds, and processor seconds of all threads, without those of imports and of JSON."""
    module, evaluation_module, name = TOOLS[tool]
    COCO = __import__(module, fromlist=["COCO"]).COCO
    COCOeval = getattr(__import__(evaluation_module, fromlist=[name]), name)
    dataset, results = (json.loads(Path(path).read_bytes()) for path in (truths, detections))
    if kind == "array":
        results = np.array([[row["image_id"], *row["bbox"], row["score"], row["category_id"]] for row in results])
    with contextlib.redirect_stdout(io.StringIO()):
        start, start_cpu = time.perf_counter(), time.process_time()
        coco = COCO()
        coco.dataset = dataset
        coco.createIndex()
        evaluation = COCOeval(coco, coco.loadRes(results), iou_type)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
        end, end_cpu = time.perf_counter(), time.process_time()
    stats = [float(number) for number in evaluation.stats[: 10 if iou_type == "keypoints" else 12]]
    print(json.dumps({"seconds": end - start, "cpu_seconds": end_cpu - start_cpu, "stats": stats}))


def measure(settings: Settings) -> list[Row]:
    """Boxes, masks and keypoints; tools take turns. The tools that take minutes have boxes of one workload alone."""
    rows: list[Row] = []
    for group, folder, iou_type, kind in _workloads():
        is_with_slow = settings.is_with_slow and group.startswith("val2017, list")

        def run(
            tool: str, group: str = group, folder: Path = folder, iou_type: str = iou_type, kind: str = kind
        ) -> dict[str, Any]:
            say(f"dicts, {group}: {tool}")
            paths = (str(folder / name) for name in ("truths.json", "detections.json"))
            return worker("benchmarks.dicts", tool, *paths, iou_type, kind)

        names = [name for name in TOOLS if name not in SLOW or is_with_slow]
        reports = take_turns(names, run, rounds=settings.rounds, once=SLOW)
        for name, runs in reports.items():
            if name != "faster-coco-eval" and runs[0]["stats"] != reports["boxscore.coco"][0]["stats"]:
                raise RuntimeError(f"{name}: other `stats` than ours in {group}")
            medians = {key: statistics.median(run[key] for run in runs) for key in ("seconds", "cpu_seconds")}
            rows.append({"group": group, "tool": name} | medians)
    return rows


def _workloads() -> list[tuple[str, Path, str, str]]:
    found = [
        (f"{name}, {kind}", prepare(name, is_with_results=True), "bbox", kind)
        for name in ("val2017", "coco-val-like")
        if is_present(name)
        for kind in ("list", "array")
    ]
    found.append(("masks, list", masks.prepare(), "segm", "list"))
    found.append(("keypoints, list", keypoints.prepare(), "keypoints", "list"))
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
