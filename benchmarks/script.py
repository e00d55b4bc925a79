"""The unchanged pycocotools script, with each package that replaces pycocotools; one process, seconds as JSON."""

import contextlib
import io
import json
import sys
import time
from importlib import import_module

PATCHES = {
    "boxscore": "patch_pycocotools",
    "hotcoco": "init_as_pycocotools",
    "ultrafast-pycocotools": "init_as_pycocotools",
    "faster-coco-eval": "init_as_pycocotools",
    "pycocotools": None,
}
"""What each calls the function that replaces pycocotools."""


def main(tool: str, truths: str, detections: str) -> None:
    """From files to `stats`: seconds, and processor seconds of all threads; those of imports apart."""
    start_cpu = time.process_time()
    patch = PATCHES[tool]
    if patch is not None:
        getattr(import_module(tool.replace("-", "_")), patch)()
    with contextlib.redirect_stdout(io.StringIO()):
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval

        imported, imported_cpu = time.perf_counter(), time.process_time()
        coco = COCO(truths)
        evaluation = COCOeval(coco, coco.loadRes(detections), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
        end, end_cpu = time.perf_counter(), time.process_time()
    report = {
        "seconds": end - imported,
        "cpu_seconds": end_cpu - imported_cpu,
        "import_cpu_seconds": imported_cpu - start_cpu,
        "stats": [float(x) for x in evaluation.stats[:12]],
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
