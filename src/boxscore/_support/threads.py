"""How many threads to use."""

import os

from boxscore._support.exceptions import InputError

_LARGEST = 65_536
"""More than any machine runs; what is larger is a mistake."""


def num_threads(threads: int | None) -> int:
    """The number asked for, else BOXSCORE_THREADS, else the cores that this process may use.

    >>> num_threads(3)
    3
    """
    if isinstance(threads, int) and threads > _LARGEST:
        raise InputError(f"`threads` must be at most {_LARGEST:,}; got {threads if threads < 10**40 else 'far more'}")
    name, value = "`threads`", str(threads)
    if threads is None:
        name, value = "BOXSCORE_THREADS", os.environ.get("BOXSCORE_THREADS", "")
        if not value:
            return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not (value.isascii() and value.isdigit()) or not value.strip("0"):
        raise InputError(f"{name} must be a positive integer; got {value[:40]}")
    if len(value) > 9 or int(value) > _LARGEST:
        raise InputError(f"{name} must be at most {_LARGEST:,}; got {value[:40]}")
    return int(value)
