"""Results of measurements: `docs/benchmarks/results.json`.

One entry per section, each with its date, machine and versions: a run of some sections replaces these, and the others
keep theirs. The page and the charts are functions of this file alone.
"""

import json
import os
import platform
import re
import time
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TypedDict

from benchmarks.processes import Row

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "benchmarks"
PATH = FOLDER / "results.json"
_DIGITS = 4
"""Of a number in the file: more would be noise."""


class Measured(TypedDict):
    """One section: what was measured, when and with what."""

    date: str
    machine: str
    rounds: int
    versions: dict[str, str]
    rows: list[Row]


Results = Mapping[str, Measured]


def load(path: Path = PATH) -> dict[str, Measured]:
    """All sections; none if there is no file."""
    sections: dict[str, Measured] = json.loads(path.read_text()) if path.exists() else {}
    return sections


def replaced(before: Results, now: Results, order: Iterable[str]) -> dict[str, Measured]:
    """The sections measured now, and the others as they were, in that order.

    >>> old = {"a": {"date": "1"}, "b": {"date": "1"}}
    >>> replaced(old, {"b": {"date": "2"}, "c": {"date": "2"}}, "cab")
    {'c': {'date': '2'}, 'a': {'date': '1'}, 'b': {'date': '2'}}
    """
    sections = {**before, **now}
    return {name: sections[name] for name in order if name in sections}


def save(sections: Results, path: Path = PATH) -> None:
    """Write the file, one line per row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({name: {**section, "rows": []} for name, section in sections.items()}, indent=1)
    for section in sections.values():
        rows = ",\n".join("   " + json.dumps(_rounded(row)) for row in section["rows"])
        text = text.replace('"rows": []', f'"rows": [\n{rows}\n  ]', 1)
    path.write_text(text + "\n")


def _rounded(row: Row) -> Row:
    return {key: float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value for key, value in row.items()}


def described(rows: list[Row], packages: Iterable[str], rounds: int) -> Measured:
    """Rows with today's date, this machine, and the versions of packages that are installed."""
    names = ["boxscore", "numpy", *packages]
    return Measured(
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        machine=machine(),
        rounds=rounds,
        versions={name: version(name) for name in names},
        rows=rows,
    )


def machine() -> str:
    """Cores, processor and Python of this machine."""
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, {_processor()}, {platform.system()}, Python {platform.python_version()}"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.+)", information.read_text()) if information.exists() else None
    return found[1] if found else platform.machine()
