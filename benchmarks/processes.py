"""How anything is measured: in processes of its own, in turns."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

Report = TypeVar("Report")
Row = dict[str, Any]
"""One measurement, as `results.json` has it: `group` and `tool` say of what."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How to measure: rounds, threads, whether tools that take minutes take part, and the wheel to compare."""

    rounds: int
    threads: int
    is_with_slow: bool = True
    wheel: Path | None = None


class Cost(NamedTuple):
    """What a process took."""

    seconds: float
    peak_mb: float


def take_turns(
    names: Iterable[str], measure: Callable[[str], Report], *, rounds: int, once: Collection[str] = ()
) -> dict[str, list[Report]]:
    """The reports of each name, one per round. All run in every round, so a slow moment of the machine affects all.

    Those in `once` take minutes, and run in the first round only.
    """
    reports: dict[str, list[Report]] = {name: [] for name in names}
    for number in range(rounds):
        for name in reports:
            if number == 0 or name not in once:
                reports[name].append(measure(name))
    return reports


def worker(module: str, *arguments: str, variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The JSON that a process prints last; if it fails, an error with its messages."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | dict(variables or {}))
    if done.returncode != 0:
        raise RuntimeError(f"{module} {' '.join(arguments)}:\n{done.stderr[-2000:]}")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def run(command: Sequence[str], *, threads: int, variables: Mapping[str, str] | None = None) -> Cost:
    """A process, from its start to its end."""
    limits = {name: str(threads) for name in ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "BOXSCORE_THREADS")}
    environment = os.environ | limits | dict(variables or {})
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command[:2]}:\n{printed[-2000:]}")
    return Cost(seconds, usage.ru_maxrss / 1024)


def say(text: str) -> None:
    """Progress, on stderr."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)
