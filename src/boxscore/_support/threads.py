"""The number of threads to use."""

import os

from boxscore._support.exceptions import InputError

_LARGEST = 65_536
"""More threads than any machine runs; a larger number is a mistake."""


def num_threads(threads: int | None) -> int:
    """The requested number, else BOXSCORE_THREADS, else this process's share of the cores.

    >>> num_threads(3)
    3
    """
    if isinstance(threads, int) and threads > _LARGEST:
        raise InputError(f"`threads` must be at most {_LARGEST:,}; got {threads if threads < 10**40 else 'far more'}")
    name, value = "`threads`", str(threads)
    if threads is None:
        name, value = "BOXSCORE_THREADS", os.environ.get("BOXSCORE_THREADS", "")
        if not value:
            return _own_share()
    if not (value.isascii() and value.isdigit()) or not value.strip("0"):
        raise InputError(f"{name} must be a positive integer; got {value[:40]}")
    if len(value) > 9 or int(value) > _LARGEST:
        raise InputError(f"{name} must be at most {_LARGEST:,}; got {value[:40]}")
    return int(value)


def _own_share() -> int:
    """The cores that this process may use, divided by the processes that a launcher started on this machine; at most
    OMP_NUM_THREADS. `torchrun` sets both LOCAL_WORLD_SIZE and OMP_NUM_THREADS.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = max(cores // (_positive("LOCAL_WORLD_SIZE") or 1), 1)
    return min(share, _positive("OMP_NUM_THREADS") or share)


def _positive(variable: str) -> int | None:
    """The positive number in an environment variable, else None. Of a list, one number per level, the first counts."""
    value = os.environ.get(variable, "").partition(",")[0].strip()
    is_number = value.isascii() and value.isdigit() and len(value) <= 9
    return int(value) or None if is_number else None
