"""A wheel that was built elsewhere beside the local build: the same interpreter, NumPy and workloads, in turns."""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.processes import Cost, Row, Settings, run, say, take_turns, worker
from benchmarks.workloads import prepare

LOCAL = "local build"
ARRAYS, FILES = "arrays to all numbers", "files to the table, as a command"
_HOME = "import boxscore._compiled as module; print(module.__file__)"


def measure(settings: Settings) -> list[Row]:
    """COCO-val-like arrays to numbers, and files to the table: medians of both builds, whose bits must be equal."""
    if settings.wheel is None:
        raise SystemExit("the section `wheel` needs --wheel dist/NAME.whl")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", folder]
        subprocess.run([*command, str(settings.wheel)], check=True)
        return _compare(settings, settings.wheel.name, Path(folder))


def _compare(settings: Settings, wheel: str, folder: Path) -> list[Row]:
    variables: dict[str, dict[str, str]] = {LOCAL: {}, wheel: {"PYTHONPATH": str(folder)}}
    _check_homes(folder)
    workload = prepare("coco-val-like", is_with_results=True)

    def run_arrays(name: str) -> dict[str, Any]:
        say(f"{ARRAYS}: {name}")
        arguments = ["CONTESTANTS", "boxscore", str(workload), str(settings.threads), "8"]
        return worker("benchmarks.worker", *arguments, variables=variables[name])

    def run_files(name: str) -> Cost:
        say(f"{FILES}: {name}")
        command = [
            sys.executable,
            "-m",
            "boxscore",
            "eval",
            *(str(workload / name) for name in ("truths.json", "detections.json")),
        ]
        return run(command, threads=settings.threads, variables=variables[name])

    reports = take_turns(variables, run_arrays, rounds=settings.rounds)
    costs = take_turns(variables, run_files, rounds=4 * settings.rounds)
    if reports[wheel][0]["precision"] != reports[LOCAL][0]["precision"]:
        raise RuntimeError(f"{wheel}: other bits than the local build")
    rows: list[Row] = []
    for name in variables:
        seconds = [second for report in reports[name] for second in report["seconds"]]
        rows.append({"group": ARRAYS, "tool": name, "seconds": statistics.median(seconds)})
    for name in variables:
        median = statistics.median(cost.seconds for cost in costs[name])
        rows.append({"group": FILES, "tool": name, "seconds": median})
    return rows


def _check_homes(folder: Path) -> None:
    """Fail unless `PYTHONPATH` alone decides which build is imported."""
    choices: list[tuple[dict[str, str], bool]] = [({}, False), ({"PYTHONPATH": str(folder)}, True)]
    for variables, is_wheel in choices:
        command = [sys.executable, "-c", _HOME]
        home = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | variables).stdout
        if Path(home.strip()).is_relative_to(folder) != is_wheel:
            raise RuntimeError(f"boxscore was imported from {home.strip()}")
