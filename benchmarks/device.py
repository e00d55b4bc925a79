"""What an update costs on an accelerator, as far as any machine can tell, as JSON on stdout.

    python -m benchmarks.device FOLDER

Launches, copies and reads are counted on a device that computes on the CPU. A new measure is a function that returns
rows, one entry in `MEASURES`, and its table in `benchmarks.page`.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.contestants import load_padded_stream, load_stream
from benchmarks.processes import Row
from boxscore import MeanAveragePrecision
from boxscore.arrays.counting import counting
from boxscore.torchmetrics import MeanAveragePrecision as TorchMetric

NUM_IMAGES, NUM_ROWS = 16, 100
NUM_TRUE_MASKS = 20
NUM_TRUTHS = 24

Sides = list[list[dict[str, torch.Tensor]]]


def main(folder: str) -> None:
    """Print the rows of all measures."""
    rows = [{"measure": name} | row for name, each in MEASURES.items() for row in each(Path(folder))]
    print(json.dumps({"rows": rows}))


def count_updates(_: Path) -> list[Row]:
    """Launches, copies and reads of one update of 16 images with 100 predictions and 100 targets each."""
    cases: dict[str, tuple[Any, Callable[[], Sides], bool]] = {
        "lists of dicts": (MeanAveragePrecision, _boxes, False),
        "padded batches": (MeanAveragePrecision, _boxes, True),
        "lists of dicts, `boxscore.torchmetrics`": (TorchMetric, _boxes, False),
        "lists of dicts, poses": (lambda: MeanAveragePrecision(iou_type="keypoints"), _poses, False),
        "lists of dicts, oriented boxes": (
            lambda: MeanAveragePrecision(box_format="cxcywha:radians"),
            lambda: _boxes(5),
            False,
        ),
        'lists of dicts, `engine="parallel"`': (lambda: MeanAveragePrecision(engine="parallel"), _boxes, False),
    }
    group = f"update of {NUM_IMAGES} images x {NUM_ROWS}"
    return [{"group": group, "tool": name, **_counted(*case)} for name, case in cases.items()]


def count_masks(_: Path) -> list[Row]:
    """Launches, copies and reads of one update of 16 images with 100 masks against 20, of 640 x 480 pixels."""
    cases: dict[str, tuple[Any, bool]] = {
        "lists of dicts": (lambda: MeanAveragePrecision(iou_type="segm", warn=False), False),
        "padded batches": (lambda: MeanAveragePrecision(iou_type="segm", warn=False), True),
        "lists of dicts, examined for mistakes, as the first ten": (
            lambda: MeanAveragePrecision(iou_type="segm"),
            False,
        ),
        "lists of dicts, boundary IoU, which reads pixels": (lambda: MeanAveragePrecision(iou_type="boundary"), False),
    }
    group = f"update of {NUM_IMAGES} images x {NUM_ROWS} x {NUM_TRUE_MASKS} masks"
    return [
        {"group": group, "tool": name, **_counted(make, _masks, is_padded)} for name, (make, is_padded) in cases.items()
    ]


def _counted(make: Any, sides: Callable[[], Sides], is_padded: bool) -> Row:
    """The counts of one update of a new metric."""
    with counting() as counts:
        given: Any = [
            [{key: counts.place(value) for key, value in image.items()} for image in images] for images in sides()
        ]
        if is_padded:
            given = [{key: torch.stack([each[key] for each in images]) for key in images[0]} for images in given]
        metric = make()
        counts.reset()
        metric.update(*given)
        return {
            "launches": counts.launches,
            "copies_to_device": counts.copies_to_device,
            "copies_to_host": counts.copies_to_host,
            "kilobytes_to_host": counts.bytes_to_host / 1000,
            "reads": counts.reads,
        }


def time_padded(folder: Path) -> list[Row]:
    """Processor time of all updates of a stream in host memory, on one thread, as lists and padded, in turns."""
    images = load_stream(folder)
    batches = {
        "lists of dicts": [
            [side[first : first + NUM_IMAGES] for side in images] for first in range(0, len(images[0]), NUM_IMAGES)
        ],
        "padded batches": load_padded_stream(folder),
    }
    seconds: dict[str, list[float]] = {name: [] for name in batches}
    for turn in range(21):
        for name in list(batches)[:: 1 if turn % 2 else -1]:
            metric = MeanAveragePrecision(box_format="xywh", warn=False, threads=1)
            start = time.process_time()
            for sides in batches[name]:
                metric.update(*sides)
            seconds[name].append(time.process_time() - start)
    return [
        {"group": "all updates of the stream, in host memory", "tool": name, "seconds": statistics.median(each[1:])}
        for name, each in seconds.items()
    ]


def time_states(_: Path) -> list[Row]:
    """Time, temporary memory and compilation of an `update` inside a compiled step, on the CPU."""
    return [_jax_state(), _torch_state()]


def _jax_state() -> Row:
    import jax

    import boxscore.jax

    jax.config.update("jax_enable_x64", True)
    state = boxscore.jax.init()
    batch = [{key: jax.numpy.asarray(value.numpy()) for key, value in side.items()} for side in _padded_sides()]
    image_ids = jax.numpy.arange(NUM_IMAGES)
    start = time.perf_counter()
    step = jax.jit(boxscore.jax.update, donate_argnums=0).lower(state, *batch, image_ids).compile()
    compiled = time.perf_counter() - start
    seconds = []
    for _turn in range(50):
        start = time.perf_counter()
        state = jax.block_until_ready(step(state, *batch, image_ids))
        seconds.append(time.perf_counter() - start)
    megabytes = step.memory_analysis().temp_size_in_bytes / 1e6
    return _of_state("`boxscore.jax`, `jax.jit`", seconds, megabytes, compiled)


def _torch_state() -> Row:
    import boxscore.torch

    state, (preds, targets), image_ids = boxscore.torch.init(), _padded_sides(), torch.arange(NUM_IMAGES)
    step = torch.compile(boxscore.torch.update, fullgraph=True)
    seconds = []
    with torch._inductor.config.patch(force_disable_caches=True):
        for _turn in range(21):
            start = time.perf_counter()
            state = step(state, preds, targets, image_ids)
            seconds.append(time.perf_counter() - start)
    return _of_state("`boxscore.torch`, `torch.compile`", seconds[1:], None, seconds[0])


def _of_state(tool: str, seconds: list[float], megabytes: float | None, compiled: float) -> Row:
    row = {"seconds": statistics.median(seconds), "megabytes": megabytes, "compiled": compiled}
    return {"group": f"update of {NUM_IMAGES} images x {NUM_ROWS} x {NUM_TRUTHS}", "tool": tool, **row}


def _padded_sides() -> list[dict[str, torch.Tensor]]:
    preds, targets = (
        {key: torch.stack([image[key] for image in images]).double() for key in images[0]} for images in _boxes()
    )
    sides = [preds, {key: column[:, :NUM_TRUTHS] for key, column in targets.items()}]
    return [{**side, "labels": side["labels"].long()} for side in sides]


def _boxes(row_size: int = 4) -> Sides:
    generator = torch.Generator().manual_seed(0)
    sides: Sides = [[], []]
    for _ in range(NUM_IMAGES):
        rows = torch.rand(NUM_ROWS, row_size, generator=generator) * 0.9 + 0.1
        rows[:, :2] *= 200
        rows[:, 2:4] *= 100
        if row_size == 4:
            rows[:, 2:] += rows[:, :2]
        labels = torch.randint(0, 80, (NUM_ROWS,), generator=generator)
        scores = torch.rand(NUM_ROWS, generator=generator)
        sides[0].append({"boxes": rows, "scores": scores, "labels": labels})
        sides[1].append({"boxes": rows, "labels": labels})
    return sides


def _masks() -> Sides:
    """Rectangles."""
    generator = torch.Generator().manual_seed(0)
    sides: Sides = [[], []]
    for _ in range(NUM_IMAGES):
        for side, num in zip(sides, (NUM_ROWS, NUM_TRUE_MASKS), strict=True):
            masks = torch.zeros(num, 480, 640, dtype=torch.bool)
            for mask, (x, y) in zip(masks, torch.randint(0, 400, (num, 2), generator=generator).tolist(), strict=True):
                mask[y : y + 80, x : x + 150] = True
            side.append({"masks": masks, "labels": torch.randint(0, 5, (num,), generator=generator)})
        sides[0][-1]["scores"] = torch.rand(NUM_ROWS, generator=generator)
    return sides


def _poses() -> Sides:
    generator = torch.Generator().manual_seed(0)
    sides: Sides = [[], []]
    for _ in range(NUM_IMAGES):
        points = torch.rand(NUM_ROWS, 17, 3, generator=generator) * 100 + 1
        labels = torch.ones(NUM_ROWS, dtype=torch.int64)
        scores = torch.rand(NUM_ROWS, generator=generator)
        sides[0].append({"keypoints": points, "scores": scores, "labels": labels})
        sides[1].append({"keypoints": points, "labels": labels, "area": torch.full((NUM_ROWS,), 900.0)})
    return sides


MEASURES: Mapping[str, Callable[[Path], list[Row]]] = {
    "counts": count_updates,
    "masks": count_masks,
    "padded": time_padded,
    "states": time_states,
}
"""By the name under which `benchmarks.page` has the table."""


if __name__ == "__main__":
    main(sys.argv[1])
