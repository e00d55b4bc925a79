"""Masks: files to numbers, loaded data to numbers, a stream through torchmetrics, and pycocotools.mask.

    python -m benchmarks.masks files|loaded|stream TOOL FOLDER, or functions FOLDER

One process measures one tool, and reports as JSON on stdout; `measure` runs them all in turns.
"""

import contextlib
import io
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import files
from benchmarks.processes import Row, Settings, say, take_turns, worker
from benchmarks.workloads import FOLDER, apart, generate

HEIGHT, WIDTH = 480, 640
DROP_INS: Mapping[str, tuple[str, str]] = {
    "hotcoco": ("hotcoco", "COCOeval"),
    "ultrafast-pycocotools": ("ultrafast_pycocotools", "COCOeval"),
    "faster-coco-eval": ("faster_coco_eval", "COCOeval_faster"),
    "boxscore.coco": ("boxscore.coco", "COCOeval"),
}
"""The module of each drop-in, and the name of its evaluation."""
TOOLS = ("boxscore.coco", "boxscore", "hotcoco", "ultrafast-pycocotools", "vernier")
SLOW = ("vernier", "torchmetrics")
NUM_STREAMED = 160
"""Images of the stream: their pixels take 300 KB per mask."""
COMMANDS = "files to the table, as a command"
KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "files": ("files to all numbers", TOOLS),
    "loaded": ("loaded data to all numbers", TOOLS),
    "stream": (f"stream of {NUM_STREAMED} images, 20 detections each", ("boxscore.torchmetrics", "torchmetrics")),
}
"""What is measured: its title, and by which tools."""


def prepare() -> Path:
    """The folder of the workload, like COCO val: 5,000 images of 640 x 480, 36,000 polygons, 100 masks per image."""
    folder = FOLDER / "masks"
    if not (folder / "detections.json").exists():
        apart(_write, folder)
    return folder


def _write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    workload = generate(num_images=5000, per_image=100, num_classes=80, truths_per_image=7.3, size=float(HEIGHT))
    random = np.random.default_rng(1)
    truth, detection = workload.truth, workload.detection
    shape = random.normal(0, 0.12, (len(truth["labels"]), 4, 2))
    outlines = _outlines(truth["boxes"], shape, 32, 0.02, random)
    _write_truths(folder / "truths.json", workload, outlines)
    near = _shapes_near(workload, shape, random)
    _write_detections(folder / "detections.json", detection, _outlines(detection["boxes"], near, 64, 0.03, random))


def _outlines(box: Any, shape: Any, num: int, noise: float, random: np.random.Generator) -> Any:
    """An outline of so many points in each box: an ellipse with some waves and noise. Shape (R, 2 x num)."""
    angle = np.linspace(0, 2 * np.pi, num, endpoint=False)
    radius = np.ones((len(box), num))
    for wave in range(2, 6):
        radius += shape[:, wave - 2, :1] * np.cos(wave * angle) + shape[:, wave - 2, 1:] * np.sin(wave * angle)
    radius *= 1 + noise * random.standard_normal(radius.shape)
    center, extent = box[:, :2] + box[:, 2:] / 2, box[:, 2:] / 2
    x = (center[:, :1] + radius * np.cos(angle) * extent[:, :1]).clip(0, WIDTH - 0.01)
    y = (center[:, 1:] + radius * np.sin(angle) * extent[:, 1:]).clip(0, HEIGHT - 0.01)
    return np.round(np.stack([x, y], axis=-1).reshape(len(box), -1), 2)


def _shapes_near(workload: Any, shape: Any, random: np.random.Generator) -> Any:
    """The waves of detections: those of the truth that is nearest, where one is near."""
    truth, detection = workload.truth, workload.detection
    waves = random.normal(0, 0.12, (len(detection["labels"]), 4, 2))
    start = np.searchsorted(truth["image_ids"], np.arange(1, workload.num_images + 2))
    for image in range(workload.num_images):
        first, last = start[image], start[image + 1]
        rows = slice(image * 100, (image + 1) * 100)
        if first == last:
            continue
        box = detection["boxes"][rows]
        distance = np.abs(box[:, None] - truth["boxes"][None, first:last]).sum(-1)
        is_near = distance.min(1) < 0.6 * (box[:, 2] + box[:, 3])
        waves[rows][is_near] = shape[first + distance.argmin(1)[is_near]] + random.normal(
            0, 0.02, (is_near.sum(), 4, 2)
        )
    return waves


def _write_truths(path: Path, workload: Any, outlines: Any) -> None:
    """Polygons, and crowds as plain run lengths."""
    from boxscore.data import Masks

    truth = workload.truth
    masks = Masks.from_polygons(outlines[:, None], (HEIGHT, WIDTH))
    columns = (truth[key].tolist() for key in ("image_ids", "labels", "ignore"))
    boxes, areas = masks.runs.box.tolist(), masks.runs.area.tolist()
    annotations = []
    for row, (image, label, is_crowd) in enumerate(zip(*columns, strict=True)):
        segmentation: Any = [outlines[row].tolist()]
        if is_crowd:
            flat = np.concatenate([[0], masks.pixels(row).astype(np.int64).reshape(-1, order="F")])
            edges = np.flatnonzero(np.diff(flat))
            counts = np.diff(np.concatenate([[0], edges, [HEIGHT * WIDTH]])).tolist()
            segmentation = {"size": [HEIGHT, WIDTH], "counts": counts}
        annotation = {"id": row + 1, "image_id": image, "category_id": label, "iscrowd": int(is_crowd)}
        annotations.append(annotation | {"bbox": boxes[row], "area": areas[row], "segmentation": segmentation})
    images = [
        {"id": i, "file_name": f"{i}.jpg", "width": WIDTH, "height": HEIGHT} for i in range(1, workload.num_images + 1)
    ]
    categories = [{"id": label, "name": f"class {label}"} for label in range(1, workload.num_classes + 1)]
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))


def _write_detections(path: Path, detection: Mapping[str, Any], outlines: Any) -> None:
    """Results as instance segmentation writes them: compressed run lengths, and the box around them."""
    from boxscore.data import Masks

    masks = Masks.from_polygons(outlines[:, None], (HEIGHT, WIDTH))
    columns = (detection[key].tolist() for key in ("image_ids", "labels", "scores"))
    rows = zip(*columns, masks.runs.box.tolist(), masks.rle(), strict=True)
    with path.open("w") as file:
        file.write("[")
        for number, (image, label, score, box, mask) in enumerate(rows):
            row = {"image_id": image, "category_id": label, "bbox": box, "score": score, "segmentation": mask}
            file.write((", " if number else "") + json.dumps(row))
        file.write("]")


def _evaluated(tool: str, loaded: Any) -> list[float]:
    """COCO's twelve numbers of loaded data."""
    if tool == "boxscore":
        import boxscore

        result = boxscore.evaluate(*loaded)
        assert result.curves.precision is not None
        return [-1.0 if value != value else float(value) for value in result.values()]
    if tool == "vernier":
        from vernier import instance

        settings = {"parity_mode": "strict", "max_dets": [1, 10, 100], "use_cats": True}
        return list(instance.evaluate_segm_summary(*loaded, **settings).stats)
    module = __import__(DROP_INS[tool][0], fromlist=["COCO"])
    evaluation = getattr(module, DROP_INS[tool][1])(*loaded, "segm")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return [float(number) for number in evaluation.stats[:12]]


def _load(tool: str, folder: Path) -> Any:
    """Both files in the tool's own form."""
    truths, detections = (str(folder / f"{name}.json") for name in ("truths", "detections"))
    if tool == "boxscore":
        import boxscore

        there = boxscore.read_truths(truths, iou_type="segm")
        return boxscore.read_detections(detections, there, iou_type="segm"), there
    if tool == "vernier":
        from vernier import instance

        return instance.CocoDataset.from_json(Path(truths).read_bytes()), Path(detections).read_bytes()
    module = __import__(DROP_INS[tool][0], fromlist=["COCO"])
    coco = module.COCO(truths)
    return coco, coco.loadRes(detections)


def run_files(tool: str, folder: Path) -> dict[str, Any]:
    """From two files to the numbers: seconds without those of imports, and the peak of memory."""
    _warm_up(tool)
    with contextlib.redirect_stdout(io.StringIO()):
        start = time.perf_counter()
        stats = _evaluated(tool, _load(tool, folder))
        seconds = time.perf_counter() - start
    return {"seconds": [seconds], "stats": stats, "peak_mb": _peak()}


def run_loaded(tool: str, folder: Path) -> dict[str, Any]:
    """From loaded data to the numbers."""
    with contextlib.redirect_stdout(io.StringIO()):
        loaded = _load(tool, folder)
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            stats = _evaluated(tool, loaded)
            seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "stats": stats, "peak_mb": _peak()}


def _warm_up(tool: str) -> None:
    """Import what is needed, which is not measured."""
    modules = ["boxscore.pipeline", "boxscore.formats.coco"] if tool == "boxscore" else [DROP_INS.get(tool, (tool,))[0]]
    for module in modules:
        __import__(module)


def run_stream(tool: str, folder: Path) -> dict[str, Any]:
    """Batches of 8 images through a metric of torchmetrics: masks as booleans, update and compute."""
    import torch

    import boxscore

    truths = boxscore.read_truths(folder / "truths.json", iou_type="segm")
    detections = boxscore.read_detections(folder / "detections.json", truths, iou_type="segm")
    images = [_streamed(detections, truths, image) for image in range(1, NUM_STREAMED + 1)]
    as_tensors = [tuple({k: torch.as_tensor(v) for k, v in side.items()} for side in image) for image in images]
    batches = [as_tensors[first : first + 8] for first in range(0, NUM_STREAMED, 8)]
    if tool == "torchmetrics":
        from benchmarks.contestants import torchmetrics_metric

        metric = torchmetrics_metric(iou_type="segm")
    else:
        from boxscore.torchmetrics import MeanAveragePrecision

        metric = MeanAveragePrecision(iou_type="segm")
    metric.warn_on_many_detections = False
    seconds = []
    for _ in range(1 if tool == "torchmetrics" else 4):
        metric.reset()
        start = time.perf_counter()
        for batch in batches:
            metric.update([pred for pred, _ in batch], [target for _, target in batch])
        stats = [float(value) for name, value in metric.compute().items() if name in ("map", "map_50", "mar_100")]
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds[1:] or seconds, "stats": stats, "peak_mb": _peak()}


def _streamed(detections: Any, truths: Any, image: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """One image as a detector and a loader give it; of the detections every fifth, so that their pixels fit."""
    rows, truth_rows = np.flatnonzero(detections.image_ids == image)[::5], np.flatnonzero(truths.image_ids == image)

    def pixels(masks: Any, chosen: Any) -> Any:
        stacked = [masks.pixels(int(row)) for row in chosen]
        return np.array(stacked, bool).reshape(len(chosen), HEIGHT, WIDTH)

    pred = {"masks": pixels(detections.masks, rows), "scores": detections.scores[rows].astype(np.float32)}
    target = {"masks": pixels(truths.masks, truth_rows), "iscrowd": truths.ignore[truth_rows].astype(np.int64)}
    return pred | {"labels": detections.labels[rows]}, target | {"labels": truths.labels[truth_rows]}


def run_functions(folder: Path) -> dict[str, Any]:
    """The functions of pycocotools.mask and ours, in turns: seconds for some hundred masks, ours first."""
    from pycocotools import mask as theirs

    from boxscore.coco import mask as ours

    results = json.loads((folder / "detections.json").read_text())[:400]
    masks = [row["segmentation"] for row in results[:200]]  # pycocotools measures at most 255 at a time
    annotations = json.loads((folder / "truths.json").read_text())["annotations"][:400]
    polygons = [row["segmentation"] for row in annotations if isinstance(row["segmentation"], list)]
    pixels = theirs.decode(masks[:100])
    one = np.asfortranarray(pixels[:, :, 0])
    calls: dict[str, Callable[[Any], Any]] = {
        "iou": lambda tool: tool.iou(masks[:100], masks[100:200], [0] * 100),
        "decode": lambda tool: tool.decode(masks[:100]),
        "decode, one": lambda tool: tool.decode(masks[0]),
        "encode": lambda tool: tool.encode(pixels),
        "encode, one": lambda tool: tool.encode(one),
        "frPyObjects": lambda tool: [tool.frPyObjects(each, HEIGHT, WIDTH) for each in polygons],
        "merge": lambda tool: tool.merge(masks[:100]),
        "area": lambda tool: tool.area(masks),
        "toBbox": lambda tool: tool.toBbox(masks),
    }
    found = {}
    for name, call in calls.items():
        seconds: dict[Any, list[float]] = {ours: [], theirs: []}
        for _ in range(30):
            for tool, each in seconds.items():
                start = time.perf_counter()
                call(tool)
                each.append(time.perf_counter() - start)
        found[name] = [statistics.median(each) for each in seconds.values()]
    return {"functions": found}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(settings: Settings) -> list[Row]:
    """All of it: tools take turns; medians."""
    folder = prepare()
    rows = files.measure_commands(folder, "segm", group=COMMANDS, rounds=settings.rounds, threads=settings.threads)
    for kind, (title, tools) in KINDS.items():

        def run_tool(tool: str, kind: str = kind) -> dict[str, Any]:
            say(f"masks, {kind}: {tool}")
            return worker("benchmarks.masks", kind, tool, str(folder))

        runs = take_turns(tools, run_tool, rounds=settings.rounds, once=SLOW)
        rows += [
            {
                "group": title,
                "tool": tool,
                "seconds": statistics.median(second for run in each for second in run["seconds"]),
                "peak_mb": statistics.median(run["peak_mb"] for run in each),
            }
            for tool, each in runs.items()
        ]
    return rows


def measure_functions(settings: Settings) -> list[Row]:
    """The functions of `pycocotools.mask`, ours and theirs."""
    del settings  # each is called 30 times in one process
    say("masks: functions")
    seconds = worker("benchmarks.masks", "functions", str(prepare()))["functions"]
    return [
        {"group": name, "tool": tool, "seconds": each}
        for name, both in seconds.items()
        for tool, each in zip(("boxscore", "pycocotools"), both, strict=True)
    ]


if __name__ == "__main__":
    kind, *arguments = sys.argv[1:]
    if kind == "functions":
        done = run_functions(Path(arguments[0]))
    else:
        done = {"files": run_files, "loaded": run_loaded, "stream": run_stream}[kind](arguments[0], Path(arguments[1]))
    print(json.dumps(done))
