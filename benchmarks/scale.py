"""A stream of detections as long as you like: matched batch by batch, and finished.

python -m benchmarks.scale [1000000 10000000 100000000]

Every size runs in a process of its own. Batches are made on the fly, and the time that takes is not counted. The
inputs are gone when memory is at its peak, so the peak is that of the tallies and of what is made of them. Time is
that on the wall, of all steps and of each, and that of processors, in our code and in the system, which is asked for
new memory all the while.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import boxscore
from benchmarks.growth import peak, reset_peak
from benchmarks.page import stream_table
from benchmarks.workloads import coco_val_like

SIZES = (1_000_000, 10_000_000, 100_000_000)
BATCH = 1_000_000
PER_IMAGE = 100
STEPS = ("match", "finish")


def batches(num_detections: int) -> Iterator[tuple[boxscore.Detections, boxscore.Truths]]:
    """COCO-like batches. Boxes come again from batch to batch, with other images and scores of their own."""
    num_images = min(BATCH, num_detections) // PER_IMAGE
    workload = coco_val_like(num_images)
    random = np.random.default_rng(0)
    for first in range(0, num_detections // PER_IMAGE, num_images):
        noise = random.random(len(workload.detection["scores"]))
        moved = {
            "image_ids": workload.detection["image_ids"] + first,
            "scores": workload.detection["scores"] * 0.9 + noise * 0.1,
        }
        truth = dict(workload.truth) | {"image_ids": workload.truth["image_ids"] + first}
        yield (
            boxscore.Detections(**dict(workload.detection) | moved, box_format="xywh"),
            boxscore.Truths(**truth, box_format="xywh"),
        )


class Clock:
    """Seconds on the wall, of processors in our code, and of processors in the system, that some steps take."""

    def __init__(self) -> None:
        self.seconds = np.zeros(3)

    def __enter__(self) -> None:
        self.seconds -= self._now()

    def __exit__(self, *_: object) -> None:
        self.seconds += self._now()

    @staticmethod
    def _now() -> NDArray[np.float64]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return np.array([time.perf_counter(), used.ru_utime, used.ru_stime])


def stream(num_detections: int) -> dict[str, float]:
    """Nanoseconds per detection in each step, and bytes per detection: of the tally, and at the peak."""
    tallies: list[boxscore.Tally] = []
    clocks = {name: Clock() for name in STEPS}
    for detections, truths in batches(num_detections):
        with clocks["match"]:
            tallies.append(boxscore.match(detections, truths))
    del detections, truths
    reset_peak()
    before = peak() - sum(tally.nbytes for tally in tallies)
    with clocks["finish"]:
        boxscore.finish(tallies)
    row: dict[str, float] = {"detections": num_detections}
    for name, clock in clocks.items():
        row |= dict(zip((name, f"{name}_user", f"{name}_system"), clock.seconds / num_detections * 1e9, strict=True))
    for kind in ("", "_user", "_system"):
        row[f"all{kind}"] = sum(row[f"{name}{kind}"] for name in clocks)
    sizes = {"tally_bytes": sum(tally.nbytes for tally in tallies), "peak_bytes": peak() - before}
    return row | {name: size / num_detections for name, size in sizes.items()}


def run(sizes: tuple[int, ...] = SIZES) -> list[dict[str, float]]:
    """Each size in a process of its own, since new memory costs time, too; the median of several where it is short."""
    rows = []
    for size in sizes:
        command = [sys.executable, "-m", "benchmarks.scale", "--one", str(size)]
        runs = []
        for _ in range(max(1, 5 * BATCH // size)):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"{size:,} detections:\n{done.stderr[-2000:]}")
            runs.append(json.loads(done.stdout))
        rows.append(sorted(runs, key=lambda row: float(row["all"]))[len(runs) // 2])
    return rows


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        stream(PER_IMAGE)  # all code is loaded
        print(json.dumps(stream(int(sys.argv[2]))))
    else:
        print("\n".join(stream_table(run(tuple(map(int, sys.argv[1:])) or SIZES))))
