"""The sequential method (Alg. 1 to 3) as plain loops; see `boxscore.engines.sequential`."""

from boxscore import pipeline
from boxscore.data.dataset import Detections, Truths
from boxscore.engines.sequential import (
    average_at_recalls,
    average_by_trapezoids,
    average_every_point,
    average_interpolated,
    flatten,
    precision_recall,
    suppress,
)
from boxscore.protocol.protocol import ProtocolLike
from boxscore.result.curves import Curves
from boxscore.result.tally import Tally

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


def match(detections: Detections, truths: Truths, protocol: ProtocolLike) -> Tally:
    """The verdict of every detection, by the loops of Alg. 1: `boxscore.match` with `engine="sequential"`."""
    return pipeline.match(detections, truths, protocol, "sequential")


def curves(tally: Tally) -> Curves:
    """Build the curves of every class, area range, limit and threshold by loops, equal to `boxscore.finish`."""
    return pipeline.finish(tally, "sequential").curves
