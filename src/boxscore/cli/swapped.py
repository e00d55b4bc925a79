"""A hint for those who give detections first: every command takes the ground truth before them."""

from collections.abc import Sequence
from pathlib import Path

from boxscore._support.exceptions import InputError


def hint_if_swapped(truths: str, detections: Sequence[str]) -> str:
    """What to add to an error if the first file looks like detections and another like ground truth; else nothing.

    Pipes are not asked: they can be read only once.
    """
    if not all(Path(path).is_file() or Path(path).is_dir() for path in (truths, *detections)):
        return ""
    if not _looks_like_detections(truths):
        return ""
    other = next((path for path in detections if _looks_like_truths(path)), None)
    if other is None:
        return ""
    return f"; the ground truth comes first, then detections, and {truths} looks like detections: try {other} {truths}"


def _looks_like_truths(path: str) -> bool:
    return _is_read_as(path, "truths") and not _is_read_as(path, "detections")


def _looks_like_detections(path: str) -> bool:
    """Whether it can be read as detections: only those have scores."""
    return _is_read_as(path, "detections")


def _is_read_as(path: str, role: str) -> bool:
    import warnings

    from boxscore.formats import read_records

    try:
        with warnings.catch_warnings(action="ignore"):
            read_records(path, role)  # type: ignore[arg-type]
    except InputError:
        return False
    return True
