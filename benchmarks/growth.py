"""Time and memory as data grows: one size in one process, as JSON on stdout."""

import json
import statistics
import sys
import time
from pathlib import Path

import boxscore
from benchmarks.workloads import coco_val_like


def main(num_detections: int) -> None:
    """Evaluate so many detections; seconds and bytes per detection beyond the inputs."""
    workload = coco_val_like(num_detections // 100)
    detections = boxscore.Detections(**workload.detection, box_format="xywh")
    truths = boxscore.Truths(**workload.truth, box_format="xywh")
    seconds = []
    for _ in range(max(3, 1_000_000 // num_detections)):  # a few milliseconds are measured many times
        start = time.perf_counter()
        tally = boxscore.match(detections, truths)
        boxscore.finish(tally)
        seconds.append(time.perf_counter() - start)
    tally_bytes = tally.nbytes
    del tally
    print(json.dumps({"num": num_detections, "seconds": statistics.median(seconds), "tally_bytes": tally_bytes}))


def memory(num_detections: int) -> None:
    """Peak memory of an evaluation beyond its inputs, in bytes per detection."""
    workload = coco_val_like(num_detections // 100)
    detections = boxscore.Detections(**workload.detection, box_format="xywh")
    truths = boxscore.Truths(**workload.truth, box_format="xywh")
    del workload
    reset_peak()
    before = peak()
    boxscore.evaluate(detections, truths)
    print(json.dumps({"num": num_detections, "bytes": (peak() - before) / num_detections}))


def reset_peak() -> None:
    """The peak of memory is what is in use now."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """The most memory that this process has had in use, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


if __name__ == "__main__":
    {"time": main, "memory": memory}[sys.argv[1]](int(sys.argv[2]))
