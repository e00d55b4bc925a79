"""Limits of memory for tests that share a process with others."""

from boxscore._support.memory_size import resident_memory


def plenty() -> str:
    """Return a limit that small files stay well within, however much memory earlier tests left in use."""
    return f"{resident_memory() // 10**6 + 2000}MB"
