"""Amounts of memory as text, and the memory that this process uses."""

import re

from boxscore._support.exceptions import InputError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_STATUS = "/proc/self/statm"
_TYPICAL = 150_000_000
"""Bytes that Python, NumPy and pyarrow use together; the fallback if the system doesn't tell."""


def parse_size(amount: int | str) -> int:
    """Convert a number of bytes, or an amount with a unit, to bytes.

    >>> parse_size("500MB"), parse_size("1.5 GiB"), parse_size(1000)
    (500000000, 1610612736, 1000)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?", str(amount).strip(), re.IGNORECASE)
    if found is None or float(found[1]) <= 0:
        raise InputError(f"must be an amount like 500MB or 2GiB; got {amount!r}", argument="memory")
    return int(float(found[1]) * _UNITS[(found[2] or "").upper()])


def format_size(num: float) -> str:
    """Format a number of bytes, with a unit and three digits.

    >>> format_size(1_234_567_890)
    '1.23 GB'
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if num >= size:
            return f"{num / size:.3g} {unit}"
    return f"{num:.0f} bytes"


def resident_memory() -> int:
    """The memory that this process uses, in bytes."""
    from pathlib import Path

    if not Path(_STATUS).exists():
        return _TYPICAL
    import resource

    return int(Path(_STATUS).read_text().split()[1]) * resource.getpagesize()
