"""How much memory: amounts as people write them, and what this process has."""

import re
from pathlib import Path

from boxscore._support.exceptions import InputError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_STATUS = Path("/proc/self/statm")
_TYPICAL = 150_000_000
"""What Python, NumPy and pyarrow take together, where the system doesn't tell."""


def num_bytes(amount: int | str) -> int:
    """A number of bytes, or an amount with a unit.

    >>> num_bytes("500MB"), num_bytes("1.5 GiB"), num_bytes(1000)
    (500000000, 1610612736, 1000)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?", str(amount).strip(), re.IGNORECASE)
    if found is None or float(found[1]) <= 0:
        raise InputError(f"`memory` must be an amount like 500MB or 2GiB; got {amount!r}")
    return int(float(found[1]) * _UNITS[(found[2] or "").upper()])


def text_of(num: float) -> str:
    """An amount for people.

    >>> text_of(1_234_567_890)
    '1.23 GB'
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if num >= size:
            return f"{num / size:.3g} {unit}"
    return f"{num:.0f} bytes"


def in_use() -> int:
    """The memory that this process has in use, in bytes."""
    if not _STATUS.exists():
        return _TYPICAL
    import resource

    return int(_STATUS.read_text().split()[1]) * resource.getpagesize()
