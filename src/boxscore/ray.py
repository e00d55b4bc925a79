"""Evaluation on Ray; see `boxscore.scaling.ray`."""

from boxscore.scaling.ray import (
    connect,
    evaluate,
    evaluate_files,
)

__all__ = [
    "connect",
    "evaluate",
    "evaluate_files",
]
