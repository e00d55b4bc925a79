"""What commands write: CSV, and names that tell files apart."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def as_csv(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV; None is nothing."""
    output = io.StringIO()
    csv.writer(output, lineterminator="\n").writerows(rows)
    return output.getvalue()


def short_names(paths: Sequence[str]) -> list[str]:
    """Names for columns: the last part of each path, or as much more as tells them apart.

    >>> short_names(["runs/a/boxes.json", "runs/b/boxes.json"])
    ['a/boxes.json', 'b/boxes.json']
    """
    parts = [Path(path).parts for path in paths]
    for num in range(1, max(map(len, parts)) + 1):
        names = [str(Path(*part[-num:])) for part in parts]
        if len(set(names)) == len(names):
            return names
    return list(paths)
