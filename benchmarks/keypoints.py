"""Keypoints: from two files to COCO's ten numbers, as a command and in a process that has its imports.

    python -m benchmarks.keypoints files TOOL FOLDER

One process measures one tool, and reports as JSON on stdout; `measure` runs them all in turns.
"""

import contextlib
import io
import json
import resource
import statistics
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import files
from benchmarks.processes import Row, Settings, say, take_turns, worker
from benchmarks.workloads import FOLDER, apart

HEIGHT, WIDTH = 480, 640
NUM_IMAGES, NUM_TRUTHS, PER_IMAGE = 5000, 11_000, 27
NAMES = "nose left_eye right_eye left_ear right_ear left_shoulder right_shoulder left_elbow right_elbow left_wrist "
NAMES += "right_wrist left_hip right_hip left_knee right_knee left_ankle right_ankle"
SIGMAS = np.array([26, 25, 25, 35, 35, 79, 79, 72, 72, 62, 62, 107, 107, 87, 87, 89, 89]) / 1000
"""How far people are apart who mark the same keypoint, as a share of the root of the area."""
PARTS = np.stack(
    [
        [50, 54, 46, 58, 42, 66, 34, 74, 26, 78, 22, 60, 40, 61, 39, 62, 38],
        [8, 6, 6, 8, 8, 22, 22, 38, 38, 52, 52, 54, 54, 76, 76, 97, 97],
    ],
    axis=1,
)
"""Where the keypoints of a person are that stands, in hundredths of the box."""
DROP_INS: Mapping[str, tuple[str, str, str]] = {
    "boxscore.coco": ("boxscore.coco", "boxscore.coco", "COCOeval"),
    "hotcoco": ("hotcoco", "hotcoco", "COCOeval"),
    "ultrafast-pycocotools": ("ultrafast_pycocotools", "ultrafast_pycocotools", "COCOeval"),
    "faster-coco-eval": ("faster_coco_eval", "faster_coco_eval", "COCOeval_faster"),
    "pycocotools": ("pycocotools.coco", "pycocotools.cocoeval", "COCOeval"),
}
"""The module of each drop-in's `COCO`, that of its evaluation, and the name of the evaluation."""
TOOLS = ("boxscore.coco", "boxscore", "hotcoco", "ultrafast-pycocotools", "vernier", "pycocotools")
SLOW = ("pycocotools",)


def prepare() -> Path:
    """The folder of the workload, like COCO val: 5,000 images, 11,000 persons, 27 poses per image."""
    folder = FOLDER / "keypoints"
    if not (folder / "detections.json").exists():
        apart(_write, folder)
    return folder


def _write(
    folder: Path,
    num_images: int = NUM_IMAGES,
    num_truths: int = NUM_TRUTHS,
    per_image: int = PER_IMAGE,
    seed: int = 0,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    truth = _truths(num_images, num_truths, random)
    _write_truths(folder / "truths.json", truth, num_images)
    _write_detections(folder / "detections.json", truth, num_images, per_image, random)


def _truths(num_images: int, num: int, random: np.random.Generator) -> dict[str, Any]:
    """Persons in half of the images, as in COCO: two of five without keypoints, some crowds, hidden parts."""
    with_persons = np.sort(random.choice(np.arange(1, num_images + 1), max(1, num_images * 27 // 50), replace=False))
    image = np.sort(random.choice(with_persons, num))
    height = np.exp(random.normal(4.6, 0.8, num)).clip(12, HEIGHT * 0.95)
    extent = np.stack([(height * random.uniform(0.25, 0.7, num)).clip(6, WIDTH * 0.9), height], axis=1)
    box = np.concatenate([random.uniform(0, [WIDTH, HEIGHT] - extent), extent], axis=1).round(2)
    part = box[:, None, :2] + box[:, None, 2:] * (PARTS / 100 + random.normal(0, 0.04, (num, 17, 2)))
    seen = random.choice([0, 1, 2], (num, 17), p=[0.3, 0.1, 0.6])
    is_crowd = random.random(num) < 0.015
    seen[(random.random(num) < 0.42) | is_crowd] = 0
    keypoints = np.concatenate([part.round(), seen[:, :, None]], axis=2)
    keypoints[seen == 0] = 0
    area = (box[:, 2] * box[:, 3] * random.uniform(0.4, 0.7, num)).round(4)
    return {"image": image, "box": box, "area": area, "is_crowd": is_crowd, "part": part, "keypoints": keypoints}


def _write_truths(path: Path, truth: Mapping[str, Any], num_images: int) -> None:
    """Keypoints are whole numbers, as they are in COCO."""
    num_seen = (truth["keypoints"][:, :, 2] > 0).sum(1).tolist()
    flat = truth["keypoints"].astype(int).reshape(len(num_seen), -1).tolist()
    columns = (truth[key].tolist() for key in ("image", "is_crowd", "box", "area"))
    annotations = [
        {"id": row + 1, "image_id": image, "category_id": 1, "iscrowd": int(is_crowd), "bbox": box, "area": area}
        | {"num_keypoints": num_seen[row], "keypoints": flat[row]}
        for row, (image, is_crowd, box, area) in enumerate(zip(*columns, strict=True))
    ]
    images = [{"id": i, "file_name": f"{i}.jpg", "width": WIDTH, "height": HEIGHT} for i in range(1, num_images + 1)]
    categories = [{"id": 1, "name": "person", "keypoints": NAMES.split(), "skeleton": []}]
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))


def _write_detections(
    path: Path, truth: Mapping[str, Any], num_images: int, per_image: int, random: np.random.Generator
) -> None:
    """Of poses in images with persons half are near one, more or less; the others are anywhere.

    A second file has the box around every pose besides, which is what COCO makes of results without boxes: vernier
    reads no others.
    """
    image = np.repeat(np.arange(1, num_images + 1), per_image)
    num = len(image)
    first, last = (np.searchsorted(truth["image"], image, side=side) for side in ("left", "right"))
    near = np.minimum(first + (random.random(num) * (last - first)).astype(int), len(truth["image"]) - 1)
    is_near = (random.random(num) < 0.5) & (last > first)
    noise = np.exp(random.normal(0, 0.7, num)) * 1.2
    spread = (np.sqrt(truth["area"][near]) * noise)[:, None, None] * SIGMAS[:, None]
    close = truth["part"][near] + spread * random.standard_normal((num, 17, 2))
    height = np.exp(random.normal(4.6, 0.8, num)).clip(12, HEIGHT * 0.95)
    extent = np.stack([height * random.uniform(0.25, 0.7, num), height], axis=1)
    corner = random.uniform(0, [WIDTH, HEIGHT] - extent)
    stray = corner[:, None] + extent[:, None] * (PARTS / 100 + random.normal(0, 0.04, (num, 17, 2)))
    part = np.where(is_near[:, None, None], close, stray).round(2)
    sure = random.beta(5, 2, (num, 17, 1)).round(3)
    score = np.where(is_near, random.beta(3, 2, num) / (1 + 0.2 * noise), random.beta(1, 6, num)).round(5)
    flat = np.concatenate([part, sure], axis=2).reshape(num, -1)
    box = np.concatenate([part.min(1), part.max(1) - part.min(1)], axis=1).tolist()
    with path.open("w") as file, path.with_stem(f"{path.stem}_with_boxes").open("w") as boxed:
        for row in range(num):
            pose = {"image_id": int(image[row]), "category_id": 1, "keypoints": flat[row].tolist()}
            pose["score"] = float(score[row])
            file.write((", " if row else "[") + json.dumps(pose))
            boxed.write((", " if row else "[") + json.dumps(pose | {"bbox": box[row]}))
        file.write("]")
        boxed.write("]")


def _evaluated(tool: str, folder: Path) -> list[float]:
    """COCO's ten numbers of two files."""
    truths, detections = (str(folder / f"{name}.json") for name in ("truths", "detections"))
    if tool == "boxscore":
        import boxscore

        there = boxscore.read_truths(truths, iou_type="keypoints")
        read = boxscore.read_detections(detections, there, iou_type="keypoints")
        result = boxscore.evaluate(read, there, "coco_keypoints")
        assert result.curves.precision is not None
        return [-1.0 if value != value else float(value) for value in result.values()]
    if tool == "vernier":
        from vernier import instance

        dataset = instance.CocoDataset.from_json(Path(truths).read_bytes())
        found = (folder / "detections_with_boxes.json").read_bytes()
        settings = {"parity_mode": "strict", "max_dets": [20], "use_cats": True, "sigmas": {}}
        return list(instance.evaluate_keypoints_summary(dataset, found, **settings).stats)
    home, evaluation_home, name = DROP_INS[tool]
    coco = import_module(home).COCO(truths)
    evaluation = getattr(import_module(evaluation_home), name)(coco, coco.loadRes(detections), "keypoints")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return [float(number) for number in evaluation.stats[:10]]


def run_files(tool: str, folder: Path) -> dict[str, Any]:
    """From two files to the numbers: seconds without those of imports, and the peak of memory."""
    modules = {"boxscore": ("boxscore.pipeline", "boxscore.formats.coco"), "vernier": ("vernier.instance",)}
    for module in modules.get(tool) or DROP_INS[tool][:2]:
        import_module(module)
    with contextlib.redirect_stdout(io.StringIO()):
        start = time.perf_counter()
        stats = _evaluated(tool, folder)
        seconds = time.perf_counter() - start
    return {"seconds": [seconds], "stats": stats, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def measure(settings: Settings) -> list[Row]:
    """All of it: tools take turns; medians. All must have pycocotools' numbers."""
    folder = prepare()
    commands = "files to the table, as a command"
    rows = files.measure_commands(folder, "keypoints", group=commands, rounds=settings.rounds, threads=settings.threads)

    def run_tool(tool: str) -> dict[str, Any]:
        say(f"keypoints, files: {tool}")
        return worker("benchmarks.keypoints", "files", tool, str(folder))

    runs = take_turns(TOOLS, run_tool, rounds=settings.rounds, once=SLOW)
    for tool, each in runs.items():
        if each[0]["stats"] != runs["pycocotools"][0]["stats"]:
            raise RuntimeError(f"{tool}: other numbers than pycocotools, {each[0]['stats']}")
        seconds = statistics.median(second for run in each for second in run["seconds"])
        peak = statistics.median(run["peak_mb"] for run in each)
        rows.append({"group": "files to all numbers", "tool": tool, "seconds": seconds, "peak_mb": peak})
    return rows


if __name__ == "__main__":
    kind, *arguments = sys.argv[1:]
    print(json.dumps({"files": run_files}[kind](arguments[0], Path(arguments[1]))))
