"""One engine on real VOC 2007 data, from loaded columns: seconds, as JSON on stdout."""

import json
import sys
import time
import warnings

import boxscore
from benchmarks.workloads import SHARED
from boxscore.formats import read_detections, read_truths


def main(name: str) -> None:
    """Measure one engine; "as published" is the parallel one under the paper's protocol."""
    truths = read_truths(SHARED / "voc2007/Annotations.zip")
    with warnings.catch_warnings(action="ignore"):
        detections = read_detections(SHARED / "voc2007/results", truths)
    protocol = "paper" if name == "as published" else "voc2012"
    engine = "parallel" if name == "as published" else name
    seconds = []
    for _ in range(2 if engine == "sequential" else 6):
        start = time.perf_counter()
        boxscore.evaluate(detections, truths, protocol, engine)
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": sorted(seconds)[len(seconds) // 2 - 1]}))


if __name__ == "__main__":
    main(sys.argv[1])
