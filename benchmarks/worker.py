"""One tool, one workload, one process: seconds, peak memory and a fingerprint of the numbers, as JSON on stdout."""

import hashlib
import json
import os
import resource
import sys
import time
from pathlib import Path


def main(table: str, name: str, folder: str, threads: str, repeats: str) -> None:
    """Measure some runs, after one to warm up if there are several."""
    for variable in ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "BOXSCORE_THREADS"):
        os.environ[variable] = threads
    import numpy as np

    from benchmarks import contestants

    contestant = getattr(contestants, table)[name]
    loaded = contestant.load(Path(folder))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    for _ in range(int(repeats)):
        start = time.perf_counter()
        stats, precision = contestant.run(loaded, int(threads))
        seconds.append(time.perf_counter() - start)
    digest = None
    if precision is not None:
        digest = hashlib.sha256(np.ascontiguousarray(precision, np.float64).tobytes()).hexdigest()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = {"seconds": seconds[1:] if len(seconds) > 1 else seconds, "stats": [float(x) for x in stats]}
    print(json.dumps(report | {"precision": digest, "peak_kb": peak, "loaded_kb": before}))


if __name__ == "__main__":
    main(*sys.argv[1:])
