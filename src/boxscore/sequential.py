"""The sequential method (Alg. 1 to 3) as plain loops; see `boxscore.engines.sequential`."""

from boxscore.engines.sequential import (
    average_at_recalls,
    average_by_trapezoids,
    average_every_point,
    average_interpolated,
    curves,
    flatten,
    match,
    precision_recall,
    suppress,
)

__all__ = [
    "average_at_recalls",
    "average_by_trapezoids",
    "average_every_point",
    "average_interpolated",
    "curves",
    "flatten",
    "match",
    "precision_recall",
    "suppress",
]
