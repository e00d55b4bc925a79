"""What it takes to start: imports, `--version`, and the small sample, by whole processes."""

import statistics
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from benchmarks.files import commands as file_commands
from benchmarks.processes import Cost, Row, Settings, run, say, take_turns

ALONE = "Python alone"
_IMPORTS = {
    "boxscore": "import boxscore",
    "hotcoco": "import hotcoco",
    "ultrafast-pycocotools": "import ultrafast_pycocotools",
    "pycocotools": "import pycocotools",
    ALONE: "pass",
}
_EVALUATORS = {
    "boxscore": "from boxscore import evaluate, read_detections, read_truths",
    "boxscore.coco": "from boxscore.coco import COCO, COCOeval",
    "hotcoco": "from hotcoco import COCO, COCOeval",
    "ultrafast-pycocotools": "from ultrafast_pycocotools import COCO, COCOeval",
    "pycocotools": "from pycocotools.coco import COCO; from pycocotools.cocoeval import COCOeval",
    ALONE: "pass",
}
_PYCOCOTOOLS = """
import sys
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
truths = COCO(sys.argv[1])
evaluation = COCOeval(truths, truths.loadRes(sys.argv[2]), "bbox")
evaluation.evaluate()
evaluation.accumulate()
evaluation.summarize()
"""
_ROUNDS = 5
"""Processes per round: each takes a fraction of a second."""


def commands() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """The commands of each group."""
    scripts = Path(sys.executable).parent
    sample = _sample()
    evaluations = {name: command for name, command in file_commands().items() if name != "vernier"}
    evaluations["pycocotools"] = [sys.executable, "-c", _PYCOCOTOOLS]
    return {
        "import the package": {name: [sys.executable, "-c", code] for name, code in _IMPORTS.items()},
        "import all that evaluates": {name: [sys.executable, "-c", code] for name, code in _EVALUATORS.items()},
        "print the version": {
            "boxscore --version": [str(scripts / "boxscore"), "--version"],
            "coco --version, of hotcoco": [str(scripts / "coco"), "--version"],
            ALONE: [sys.executable, "-c", "pass"],
        },
        "evaluate a sample of 40 images": {
            name: [*command, str(sample / "truths.json"), str(sample / "detections.json")]
            for name, command in evaluations.items()
        },
    }


def _sample() -> Path:
    """The folder of the sample in the package that is installed."""
    package = find_spec("boxscore")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "cli" / "sample"


def measure(settings: Settings) -> list[Row]:
    """All commands of a group in turns: medians."""
    rows: list[Row] = []
    for group, each in commands().items():

        def run_one(name: str, group: str = group, each: Mapping[str, Sequence[str]] = each) -> Cost:
            say(f"{group}: {name}")
            return run(each[name], threads=settings.threads)

        costs = take_turns(each, run_one, rounds=_ROUNDS * settings.rounds)
        for name, measured in costs.items():
            seconds = statistics.median(cost.seconds for cost in measured)
            rows.append({"group": group, "tool": name, "seconds": seconds})
    return rows
