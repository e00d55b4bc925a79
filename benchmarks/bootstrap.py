"""The bootstrap: one tool in one process, as JSON on stdout.

    python -m benchmarks.bootstrap TOOL FOLDER THREADS

Tools: `intervals`, of one model; `one-lane`, the same without the fast path that takes eight resamples side by side;
`compare`, paired, of two; `hotcoco`, its `compare` of the same two. Matching is not in the seconds, as it is done
before.
"""

import contextlib
import io
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

RESAMPLES = 1000
HOTCOCO_RESAMPLES = 20
"""It takes a fraction of a second for each."""


def main(tool: str, folder: str, threads: str) -> None:
    """Seconds for so many resamples, and the deviation of `map` in them."""
    for variable in ("RAYON_NUM_THREADS", "BOXSCORE_THREADS"):
        os.environ[variable] = threads
    tools = {"intervals": _intervals, "one-lane": _one_lane, "compare": _compare, "hotcoco": _hotcoco}
    seconds, num, error = tools[tool](Path(folder))
    print(json.dumps({"seconds": seconds, "resamples": num, "error": error}))


def _halves(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Two models: all detections, and nine of ten of them; and the truths."""
    from benchmarks.workloads import load

    found, there = load(folder)
    is_kept = [row % 10 != 0 for row in range(found["image_ids"].size)]
    return [found, {name: column[is_kept] for name, column in found.items()}], there


def _results(folder: Path) -> list[Any]:
    import boxscore

    models, there = _halves(folder)
    truths = boxscore.Truths(**there, box_format="xywh")
    return [boxscore.evaluate(boxscore.Detections(**found, box_format="xywh"), truths) for found in models]


def _intervals(folder: Path) -> tuple[float, int, float]:
    result = _results(folder)[0]
    start = time.perf_counter()
    sure = result.intervals(resamples=RESAMPLES)
    return time.perf_counter() - start, RESAMPLES, sure.error["map"]


def _one_lane(folder: Path) -> tuple[float, int, float]:
    from boxscore.analysis.bootstrap import Plan, resample

    result = _results(folder)[0]
    start = time.perf_counter()
    samples = resample(result.tally, result.images, Plan(RESAMPLES, 0, 0.95), max_lanes=1)
    return time.perf_counter() - start, RESAMPLES, float(samples.numbers["map"].std(ddof=1))


def _compare(folder: Path) -> tuple[float, int, float]:
    """Without what `compare` takes for as few resamples as it takes."""
    import boxscore

    results = _results(folder)
    start = time.perf_counter()
    boxscore.compare(results, resamples=2)
    middle = time.perf_counter()
    comparison = boxscore.compare(results, resamples=RESAMPLES + 2)
    end = time.perf_counter()
    return (end - middle) - (middle - start), RESAMPLES, comparison.differences[0].numbers["map"].error


def _hotcoco(folder: Path) -> tuple[float, int, float]:
    """The same for none at all. Its standard error is that of its interval."""
    import hotcoco
    import numpy as np

    models, _ = _halves(folder)
    evaluations: list[Any] = []
    with contextlib.redirect_stdout(io.StringIO()):
        truths = hotcoco.COCO(str(folder / "truths.json"))
        for found in models:
            matrix = np.column_stack([found["image_ids"], found["boxes"], found["scores"], found["labels"]])
            evaluation = hotcoco.COCOeval(truths, truths.loadRes(matrix), "bbox")
            evaluation.evaluate()
            evaluations.append(evaluation)
        start = time.perf_counter()
        hotcoco.compare(evaluations[0], evaluations[1], n_bootstrap=0)
        middle = time.perf_counter()
        report = hotcoco.compare(evaluations[0], evaluations[1], n_bootstrap=HOTCOCO_RESAMPLES)
        end = time.perf_counter()
    return (end - middle) - (middle - start), HOTCOCO_RESAMPLES, float(report["ci"]["AP"]["std_err"])


if __name__ == "__main__":
    main(*sys.argv[1:])
