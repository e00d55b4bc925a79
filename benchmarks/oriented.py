"""Oriented boxes: files to numbers, and loaded data to numbers, beside hotcoco, the only other one that has them.

    python -m benchmarks.oriented files|loaded|loaded-2000 TOOL FOLDER

One process measures one tool, and reports as JSON on stdout; `measure` runs them all in turns.

Both tools get the same boxes, each in files of its own form: corners as `segmentation` for boxscore, `obb` of center,
sides and radians for hotcoco. hotcoco takes detections with a `segmentation` besides their `obb` to have no area.
"""

import contextlib
import io
import json
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.processes import Row, Settings, say, take_turns, worker
from benchmarks.workloads import FOLDER, apart

SIZE = 4000
NUM_IMAGES, PER_IMAGE, NUM_STRAY, NUM_CLASSES = 20, 2000, 700, 15
TOOLS = ("boxscore", "hotcoco")
KINDS: Mapping[str, tuple[str, tuple[int, ...] | None]] = {
    "files": ("files to all numbers", None),
    "loaded": ("loaded data to all numbers", None),
    "loaded-2000": ("loaded data, up to 2,000 per image and class", (1, 10, 2000)),
}
"""What is measured: its title, and limits of detections that are not COCO's."""
TOLERANCE = 1e-4
"""How far the numbers of both may be apart: corners and angles are rounded differently, and IoUs are at thresholds."""


def prepare() -> Path:
    """The folder of the workload, like DOTA: 20 images of 2,000 oriented boxes, 15 classes, 2,500 detections each."""
    folder = FOLDER / "oriented"
    if not (folder / "columns.npz").exists():
        apart(_write, folder)
    return folder


def _write(
    folder: Path, num_images: int = NUM_IMAGES, per_image: int = PER_IMAGE, num_stray: int = NUM_STRAY, seed: int = 0
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    num = num_images * per_image
    truth = {"image_ids": np.repeat(np.arange(1, num_images + 1), per_image), "labels": _labels(num, random)}
    truth |= {"obb": _boxes(num, random), "ignore": random.random(num) < 0.01}
    found = _detections(truth, num_images, num_stray, random)
    for key, columns in (("truths", truth), ("detections", found)):
        for name, shape in (("", _as_segmentation), ("_obb", _as_obb)):
            _write_json(folder / f"{key}{name}.json", columns, shape, num_images)
    kept = {f"truth_{key}": value for key, value in truth.items()}
    np.savez(folder / "columns.npz", **kept, **{f"detection_{key}": value for key, value in found.items()})


def _labels(num: int, random: np.random.Generator) -> Any:
    """Small vehicles and ships are most of it."""
    share = 1 / np.arange(1, NUM_CLASSES + 1)
    return random.choice(np.arange(1, NUM_CLASSES + 1), num, p=share / share.sum())


def _boxes(num: int, random: np.random.Generator) -> Any:
    """Center, sides and radians: x turns towards y, clockwise as images are seen. Shape (N, 5)."""
    length = np.exp(random.normal(3.5, 0.6, num)).clip(8, 400)
    sides = np.stack([length, length * random.uniform(0.25, 0.7, num)], axis=1)
    center = random.uniform(0, SIZE, (num, 2))
    return np.concatenate([center, sides, random.uniform(-np.pi / 2, np.pi / 2, (num, 1))], axis=1).round(3)


def _detections(
    truth: Mapping[str, Any], num_images: int, num_stray: int, random: np.random.Generator
) -> dict[str, Any]:
    """Nine of ten truths, moved and turned a little, one of ten with another label; and boxes anywhere."""
    rows = np.flatnonzero(random.random(len(truth["labels"])) < 0.9)
    near = truth["obb"][rows].copy()
    noise = np.exp(random.normal(0, 0.6, (len(rows), 1)))
    near[:, :2] += random.normal(0, 0.06, (len(rows), 2)) * noise * near[:, 2:4].min(1, keepdims=True)
    near[:, 2:4] *= np.exp(random.normal(0, 0.06, (len(rows), 2)) * noise)
    near[:, 4:] += random.normal(0, 0.04, (len(rows), 1)) * noise
    is_wrong = random.random(len(rows)) < 0.1
    label = np.where(is_wrong, _labels(len(rows), random), truth["labels"][rows])
    num = num_images * num_stray
    image = np.concatenate([truth["image_ids"][rows], np.repeat(np.arange(1, num_images + 1), num_stray)])
    score = np.concatenate([random.beta(3, 2, len(rows)) / (1 + 0.2 * noise[:, 0]), random.beta(1, 5, num)])
    order = np.argsort(image, kind="stable")
    columns = {
        "image_ids": image,
        "labels": np.concatenate([label, _labels(num, random)]),
        "scores": score.round(5),
        "obb": np.concatenate([near, _boxes(num, random)]).round(3),
    }
    return {key: column[order] for key, column in columns.items()}


def corners(obb: Any) -> Any:
    """Four corners, x and y of each, the first side along the width. Shape (N, 8).

    >>> corners(np.array([[5.0, 3, 10, 6, 0]])).tolist()
    [[0.0, 0.0, 10.0, 0.0, 10.0, 6.0, 0.0, 6.0]]
    """
    cos, sin = np.cos(obb[:, 4]), np.sin(obb[:, 4])
    along = obb[:, 2:3] / 2 * np.stack([cos, sin], axis=1)
    across = obb[:, 3:4] / 2 * np.stack([-sin, cos], axis=1)
    center = obb[:, :2]
    sides = [center - along - across, center + along - across, center + along + across, center - along + across]
    return np.concatenate(sides, axis=1)


def _as_segmentation(obb: Any) -> list[dict[str, Any]]:
    return [{"segmentation": [row]} for row in corners(obb).tolist()]


def _as_obb(obb: Any) -> list[dict[str, Any]]:
    return [{"obb": row} for row in obb.tolist()]


def _write_json(path: Path, columns: Mapping[str, Any], shape: Callable[[Any], Any], num_images: int) -> None:
    """A dataset, or results if there are scores."""
    shapes = shape(columns["obb"])
    named = zip(columns["image_ids"].tolist(), columns["labels"].tolist(), shapes, strict=True)
    rows = [{"image_id": image, "category_id": label} | each for image, label, each in named]
    if "scores" in columns:
        scores = columns["scores"].tolist()
        path.write_text(json.dumps([row | {"score": score} for row, score in zip(rows, scores, strict=True)]))
        return
    areas, ignored = (columns["obb"][:, 2] * columns["obb"][:, 3]).tolist(), columns["ignore"].tolist()
    annotations = [
        row | {"id": number + 1, "area": areas[number], "iscrowd": int(ignored[number])}
        for number, row in enumerate(rows)
    ]
    images = [{"id": i, "file_name": f"{i}.png", "width": SIZE, "height": SIZE} for i in range(1, num_images + 1)]
    categories = [{"id": label, "name": f"class {label}"} for label in range(1, NUM_CLASSES + 1)]
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))


def _read(tool: str, folder: Path) -> Any:
    """Both files in the tool's own form."""
    if tool == "boxscore":
        import boxscore

        truths = boxscore.read_truths(folder / "truths.json", iou_type="obb")
        return boxscore.read_detections(folder / "detections.json", truths, iou_type="obb"), truths
    import hotcoco

    coco = hotcoco.COCO(str(folder / "truths_obb.json"))
    return coco, coco.loadRes(str(folder / "detections_obb.json"))


def _load(tool: str, folder: Path) -> Any:
    """Data in memory: columns, of which boxscore makes its own form while it is measured, or hotcoco's own form."""
    if tool == "hotcoco":
        return _read(tool, folder)
    with np.load(folder / "columns.npz") as kept:
        columns = {name: kept[name] for name in kept.files}
    sides: dict[str, dict[str, Any]] = {"detection": {}, "truth": {}}
    for name, column in columns.items():
        side, key = name.split("_", 1)
        sides[side] |= {"boxes" if key == "obb" else key: column}
    return sides["detection"], sides["truth"]


def _evaluated(tool: str, loaded: Any, limits: tuple[int, ...] | None) -> list[float]:
    """COCO's twelve numbers."""
    if tool == "boxscore":
        import boxscore

        detections, truths = loaded
        if isinstance(detections, dict):
            detections = boxscore.Detections(**detections, box_format="cxcywha:radians")
            truths = boxscore.Truths(**truths, box_format="cxcywha:radians")
        settings = {"limits": list(limits)} if limits else {}
        result = boxscore.evaluate(detections, truths, boxscore.Protocol.named("coco", iou_type="obb", **settings))
        assert result.curves.precision is not None
        return [-1.0 if value != value else float(value) for value in result.values()]
    import hotcoco

    truths, detections = loaded
    evaluation = hotcoco.COCOeval(truths, detections, "obb")
    if limits:
        evaluation.params.maxDets = list(limits)
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return [float(number) for number in evaluation.stats[:12]]


def run(kind: str, tool: str, folder: Path) -> dict[str, Any]:
    """Seconds without those of imports, and the peak of memory."""
    warnings.simplefilter("ignore")  # hotcoco says that nobody has checked its numbers
    limits = KINDS[kind][1]
    for module in ("boxscore.pipeline", "boxscore.formats.coco") if tool == "boxscore" else (tool,):
        __import__(module)
    seconds = []
    with contextlib.redirect_stdout(io.StringIO()):
        loaded = None if kind == "files" else _load(tool, folder)
        for _ in range(1 if kind == "files" else 3):
            start = time.perf_counter()
            stats = _evaluated(tool, _read(tool, folder) if loaded is None else loaded, limits)
            seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "stats": stats, "peak_mb": peak}


def measure(settings: Settings) -> list[Row]:
    """All of it: tools take turns; medians, and how far the others' numbers are from boxscore's."""
    folder = prepare()
    rows: list[Row] = []
    for kind, (title, _) in KINDS.items():

        def run_tool(tool: str, kind: str = kind) -> dict[str, Any]:
            say(f"oriented boxes, {kind}: {tool}")
            return worker("benchmarks.oriented", kind, tool, str(folder))

        runs = take_turns(TOOLS, run_tool, rounds=settings.rounds)
        ours = runs["boxscore"][0]["stats"]
        for tool, each in runs.items():
            seconds = statistics.median(second for run in each for second in run["seconds"])
            peak = statistics.median(run["peak_mb"] for run in each)
            distance = max(abs(a - b) for a, b in zip(each[0]["stats"], ours, strict=True))
            if distance > TOLERANCE:
                raise RuntimeError(f"{tool}, {kind}: {distance:g} off boxscore's numbers, {each[0]['stats']}, {ours}")
            rows.append({"group": title, "tool": tool, "seconds": seconds, "peak_mb": peak, "distance": distance})
    return rows


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
