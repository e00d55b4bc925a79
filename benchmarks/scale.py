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


def measure(num_detections: int) -> dict[str, float]:
    """Nanoseconds a detection in each step, and bytes a detection: of the tally, and at the peak."""
    tallies: list[boxscore.Tally] = []
    matching = 0.0
    for detections, truths in batches(num_detections):
        start = time.perf_counter()
        tallies.append(boxscore.match(detections, truths))
        matching += time.perf_counter() - start
    del detections, truths
    reset_peak()
    before = peak() - sum(tally.nbytes for tally in tallies)
    start = time.perf_counter()
    tally = tallies[0].merge(*tallies[1:])
    merging = time.perf_counter() - start
    tallies.clear()
    start = time.perf_counter()
    boxscore.finish(tally)
    finishing = time.perf_counter() - start
    per = {"match_ns": matching, "merge_ns": merging, "finish_ns": finishing}
    return {
        "detections": num_detections,
        **{name: seconds / num_detections * 1e9 for name, seconds in per.items()},
        "tally_bytes": tally.nbytes / num_detections,
        "peak_bytes": (peak() - before) / num_detections,
    }


def table(rows: list[dict[str, float]]) -> str:
    """The sizes as Markdown, each beside the first."""
    lines = [
        "| detections | match | merge | finish | ns a detection | beside the first | bytes in a Tally | peak bytes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    totals = [row["match_ns"] + row["merge_ns"] + row["finish_ns"] for row in rows]
    for row, total in zip(rows, totals, strict=True):
        steps = " | ".join(f"{row[name]:.0f}" for name in ("match_ns", "merge_ns", "finish_ns"))
        sizes = f"{row['tally_bytes']:.1f} | {row['peak_bytes']:.0f}"
        lines.append(f"| {row['detections']:,.0f} | {steps} | {total:.0f} | {total / totals[0]:.2f}x | {sizes} |")
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
