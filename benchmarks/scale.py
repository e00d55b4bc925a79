"""A stream of detections as long as you like: matched batch by batch, merged, finished.

python -m benchmarks.scale [1000000 10000000 100000000]

Every size runs in a process of its own. Batches are made on the fly, and the time that takes is not counted. The
inputs are gone when memory is at its peak, so the peak is that of the tallies and of what is made of them.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

import boxscore
from benchmarks.growth import peak, reset_peak
from benchmarks.workloads import coco_val_like

SIZES = (1_000_000, 10_000_000, 100_000_000)
BATCH = 1_000_000
PER_IMAGE = 100


def batches(num_detections: int) -> Iterator[tuple[boxscore.Detections, boxscore.Truths]]:
    """COCO-like batches. Boxes come again from batch to batch, with other images and scores of their own."""
    num_images = BATCH // PER_IMAGE
    workload = coco_val_like(num_images)
    random = np.random.default_rng(0)
    for first in range(0, num_detections // PER_IMAGE, num_images):
        noise = random.random(len(workload.detection["score"]))
        moved = {"image": workload.detection["image"] + first, "score": workload.detection["score"] * 0.9 + noise * 0.1}
        truth = dict(workload.truth) | {"image": workload.truth["image"] + first}
        yield (
            boxscore.Detections(**dict(workload.detection) | moved, box_format="xywh"),
            boxscore.Truths(**truth, box_format="xywh"),
        )


class Clock:
    """Seconds on the wall, and of processors, that some steps take together."""

    def __init__(self) -> None:
        self.wall, self.processor = 0.0, 0.0

    def __enter__(self) -> None:
        self.wall -= time.perf_counter()
        self.processor -= time.process_time()

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter()
        self.processor += time.process_time()


def stream(num_detections: int) -> dict[str, float]:
    """Nanoseconds a detection in each step, and bytes a detection: of the tally, and at the peak."""
    tallies: list[boxscore.Tally] = []
    clocks = {name: Clock() for name in ("match", "merge", "finish")}
    for detections, truths in batches(num_detections):
        with clocks["match"]:
            tallies.append(boxscore.match(detections, truths))
    del detections, truths
    reset_peak()
    before = peak() - sum(tally.nbytes for tally in tallies)
    with clocks["merge"]:
        tally = tallies[0].merge(*tallies[1:])
    tallies.clear()
    with clocks["finish"]:
        boxscore.finish(tally)
    row: dict[str, float] = {"detections": num_detections}
    row |= {name: clock.wall / num_detections * 1e9 for name, clock in clocks.items()}
    row["processor"] = sum(clock.processor for clock in clocks.values()) / num_detections * 1e9
    sizes = {"tally_bytes": tally.nbytes, "peak_bytes": peak() - before}
    return row | {name: size / num_detections for name, size in sizes.items()}


def measure(num_detections: int) -> dict[str, float]:
    """A stream, or the median of several if they are short; memory is that of the first, when none lies around."""
    first = stream(num_detections)
    rows = [stream(num_detections) for _ in range(9 * BATCH // num_detections)] or [first]
    middle = sorted(rows, key=lambda row: row["match"] + row["merge"] + row["finish"])[len(rows) // 2]
    return middle | {"peak_bytes": first["peak_bytes"]}


def table(rows: list[dict[str, float]]) -> str:
    """The sizes as Markdown, each beside the first."""
    lines = [
        "| detections | match | merge | finish | in all | beside the first | processors | beside the first "
        "| bytes in a Tally | peak bytes |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    totals = [row["match"] + row["merge"] + row["finish"] for row in rows]
    for row, total in zip(rows, totals, strict=True):
        steps = " | ".join(f"{row[name]:.0f}" for name in ("match", "merge", "finish"))
        spent = ((total, totals[0]), (row["processor"], rows[0]["processor"]))
        ratios = [f"{value:.0f} | {value / first:.2f}x" for value, first in spent]
        sizes = f"{row['tally_bytes']:.1f} | {row['peak_bytes']:.0f}"
        lines.append(f"| {row['detections']:,.0f} | {steps} | {' | '.join(ratios)} | {sizes} |")
    return "\n".join(lines)


def run(sizes: tuple[int, ...] = SIZES) -> list[dict[str, float]]:
    """Each size in a process of its own."""
    rows = []
    for size in sizes:
        command = [sys.executable, "-m", "benchmarks.scale", "--one", str(size)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{size:,} detections:\n{done.stderr[-2000:]}")
        rows.append(json.loads(done.stdout))
    return rows


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(int(sys.argv[2]))))
    else:
        print(table(run(tuple(map(int, sys.argv[1:])) or SIZES)))
