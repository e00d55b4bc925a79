"""LVIS' evaluation from files to its 13 numbers, beside `lvis` itself and the tools that have its rules.

    python -m benchmarks.federated TOOL FOLDER

One process measures one tool, and reports as JSON on stdout; `measure` runs them all in turns.
"""

import contextlib
import importlib
import io
import json
import resource
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.processes import Row, Settings, say, take_turns, worker
from benchmarks.workloads import FOLDER, apart

NUM_IMAGES, NUM_CLASSES, NUM_TRUTHS, NUM_DETECTIONS = 2_000, 1_203, 20_000, 200_000
SIZE = 600
SLOW = "lvis"
TOOLS = ("boxscore", "boxscore drop-in", "hotcoco", SLOW)
NAMES = ("AP", "AP50", "AP75", "APs", "APm", "APl", "APr", "APc", "APf", "AR@300", "ARs@300", "ARm@300", "ARl@300")


def prepare() -> Path:
    """The folder of the workload: as many classes as LVIS v1, a tenth of the images of its validation set."""
    folder = FOLDER / "federated"
    if not (folder / "detections.json").exists():
        apart(_write, folder)
    return folder


def _write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    share = 1 / np.arange(1, NUM_CLASSES + 1)
    share /= share.sum()
    image = np.sort(random.integers(1, NUM_IMAGES + 1, NUM_TRUTHS))
    label = random.choice(np.arange(1, NUM_CLASSES + 1), NUM_TRUTHS, p=share)
    box = np.concatenate([random.uniform(0, 400, (NUM_TRUTHS, 2)), random.lognormal(3.5, 0.9, (NUM_TRUTHS, 2))], axis=1)
    box = box.round(2)
    found = random.integers(0, NUM_TRUTHS, NUM_DETECTIONS)
    near = box[found] + random.normal(0, 0.08, (NUM_DETECTIONS, 4)) * np.tile(box[found][:, 2:], 2)
    near[:, 2:] = near[:, 2:].clip(1)
    is_wrong = random.random(NUM_DETECTIONS) < 0.3
    found_label = np.where(
        is_wrong, random.choice(np.arange(1, NUM_CLASSES + 1), NUM_DETECTIONS, p=share), label[found]
    )
    score = random.random(NUM_DETECTIONS).round(6)
    images: list[dict[str, Any]] = [
        {
            "id": number,
            "width": SIZE,
            "height": SIZE,
            "coco_url": f"val2017/{number:012}.jpg",
            "neg_category_ids": sorted({*random.choice(np.arange(1, NUM_CLASSES + 1), 12, p=share).tolist()}),
            "not_exhaustive_category_ids": sorted({*random.choice(label[image == number], 1).tolist()})
            if (image == number).any()
            else [],
        }
        for number in range(1, NUM_IMAGES + 1)
    ]
    present = [set(label[image == number].tolist()) for number in range(1, NUM_IMAGES + 1)]
    for each, own in zip(images, present, strict=True):
        each["neg_category_ids"] = [label for label in each["neg_category_ids"] if label not in own]
    columns = zip(image.tolist(), label.tolist(), box.tolist(), strict=True)
    annotations = [
        {"id": row, "image_id": i, "category_id": k, "bbox": b, "area": b[2] * b[3], "segmentation": []}
        for row, (i, k, b) in enumerate(columns, start=1)
    ]
    letters = ["f" if k <= 405 else "c" if k <= 866 else "r" for k in range(1, NUM_CLASSES + 1)]
    categories = [{"id": k, "name": f"class {k}", "frequency": letters[k - 1]} for k in range(1, NUM_CLASSES + 1)]
    dataset = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "truths.json").write_text(json.dumps(dataset))
    rows = zip(image[found].tolist(), found_label.tolist(), near.round(2).tolist(), score.tolist(), strict=True)
    results = [{"image_id": i, "category_id": k, "bbox": b, "score": s} for i, k, b, s in rows]
    (folder / "detections.json").write_text(json.dumps(results))


def _evaluate(tool: str, truths: str, detections: str) -> list[float]:
    """LVIS' 13 numbers; -1 is undefined."""
    if tool == "boxscore":
        import boxscore

        read = boxscore.read_truths(truths)
        result = boxscore.evaluate(boxscore.read_detections(detections, read), read, "lvis")
        return [-1.0 if value != value else float(value) for value in result.values()]
    if tool == SLOW:
        vars(np)["float"] = float  # which lvis 0.5.3 still uses
    library = importlib.import_module("boxscore.lvis" if tool == "boxscore drop-in" else tool)
    dataset = library.LVIS(truths)
    evaluation = library.LVISEval(dataset, library.LVISResults(dataset, detections), "bbox")
    evaluation.run()
    results = evaluation.get_results()
    return [float(results[name]) for name in NAMES]


def run(tool: str, folder: Path) -> dict[str, Any]:
    """Seconds without those of imports, and the peak of memory."""
    warnings.simplefilter("ignore")
    imported = {"boxscore": ("boxscore.pipeline", "boxscore.formats.coco"), "boxscore drop-in": ("boxscore.lvis",)}
    for module in imported.get(tool, (tool,)):
        importlib.import_module(module)
    with contextlib.redirect_stdout(io.StringIO()):
        start = time.perf_counter()
        stats = _evaluate(tool, str(folder / "truths.json"), str(folder / "detections.json"))
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "stats": stats, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def measure(settings: Settings) -> list[Row]:
    """Tools take turns; medians, and how far their numbers are from those of `lvis`."""
    folder = str(prepare())

    def run_tool(tool: str) -> dict[str, Any]:
        say(f"LVIS: {tool}")
        return worker("benchmarks.federated", tool, folder)

    runs = take_turns(TOOLS, run_tool, rounds=settings.rounds, once=(SLOW,))
    reference = runs[SLOW][0]["stats"]
    rows: list[Row] = []
    for tool, each in runs.items():
        seconds, peak = (statistics.median(one[key] for one in each) for key in ("seconds", "peak_mb"))
        distance = max(abs(a - b) for a, b in zip(each[0]["stats"], reference, strict=True))
        if tool.startswith("boxscore") and distance > 0:
            raise RuntimeError(f"{tool}: {distance:g} off the numbers of lvis")
        group = "files to LVIS' 13 numbers"
        rows.append({"group": group, "tool": tool, "seconds": seconds, "peak_mb": peak, "distance": distance})
    return rows


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], Path(sys.argv[2]))))
