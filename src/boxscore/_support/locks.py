"""Locks that are free in a forked process, even if another thread of the parent held them."""

import os
from threading import RLock
from weakref import WeakSet

_locks: "WeakSet[RLock]" = WeakSet()
_registry = RLock()
"""Guards `_locks`."""
_held: "list[RLock]" = []
"""Locks that the forking thread holds; one entry per acquisition."""


def fork_safe_lock() -> RLock:
    """Return a reentrant lock that `os.fork` waits for, so that a child never sees half of an update.

    >>> lock = fork_safe_lock()
    >>> with lock, lock:
    ...     pass
    """
    lock = RLock()
    with _registry:
        _locks.add(lock)
    return lock


def _acquire_all() -> None:
    """Acquire all locks. Wait for a lock only while holding no other: its holder may need another one to continue."""
    awaited: RLock | None = _registry
    while awaited is not None:
        awaited.acquire()
        acquired = [awaited]
        awaited = _acquire_free(acquired)
        if awaited is not None:
            _release(acquired)
    _held.extend(acquired)


def _acquire_free(acquired: list[RLock]) -> "RLock | None":
    """Acquire the locks that are free and append them to `acquired`; return the first that is not, or None."""
    if not _registry.acquire(blocking=False):
        return _registry
    acquired.append(_registry)
    for lock in list(_locks):
        if not lock.acquire(blocking=False):
            return lock
        acquired.append(lock)
    return None


def _release_all() -> None:
    held = _held.copy()
    _held.clear()  # before releasing them: another thread may fork as soon as they are free
    _release(held)


def _release(acquired: list[RLock]) -> None:
    for lock in reversed(acquired):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_acquire_all, after_in_parent=_release_all, after_in_child=_release_all)
