"""How many threads to use."""

import os

from boxscore.errors import InputError


def num_threads(threads: int | None) -> int:
    """The number asked for, else BOXSCORE_THREADS, else the cores that this process may use.

    >>> num_threads(3)
    3
    """
    name, value = "`threads`", str(threads)
    if threads is None:
        name, value = "BOXSCORE_THREADS", os.environ.get("BOXSCORE_THREADS", "")
        if not value:
            return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not value.isdigit() or int(value) < 1:
        raise InputError(f"{name} must be a positive integer; got {value}")
    return int(value)
