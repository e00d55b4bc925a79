"""Who met whom, at one threshold, in compiled code: the truth that a detection took, and the nearest of any class."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.arrays import compact, to_numpy
from boxscore.engines.native.engine import inputs
from boxscore.engines.native.rules import rules_of
from boxscore.model.dataset import Detections, Truths
from boxscore.model.protocol import Protocol

Rows = NDArray[np.int32]
Floats = NDArray[np.float64]

BEYOND = 3
"""The verdict of a detection beyond the largest limit: it never came to one."""


class Pairs(NamedTuple):
    """What became of each row in the protocol's first threshold and area range."""

    verdict: NDArray[np.uint8]
    """0 ignored, 1 false positive, 2 true positive, 3 beyond the limit. Shape (D,)."""
    truth: Rows
    """The row of the truth that a detection took, or -1. Shape (D,)."""
    is_counted: NDArray[np.uint8]
    """Whether a truth counts; the others are ignored. Shape (G,)."""


class Nearest(NamedTuple):
    """The truth with the largest IoU for each detection, the first of equal ones; -1 and 0 where none overlaps."""

    own: Rows
    """Of its own class. Shape (D,)."""
    own_iou: Floats
    other: Rows
    """Of any other class. Shape (D,)."""
    other_iou: Floats


def pair(detections: Detections, truths: Truths, protocol: Protocol, threads: int) -> Pairs:
    """Which truth each detection takes."""
    return Pairs(*_compiled.match(**inputs(detections, truths, protocol), num_threads=threads, is_paired=True))


def side(columns: Detections | Truths, is_used: NDArray[Any]) -> Any:
    """Boxes as the compiled code reads them; those that are not used are as good as absent."""
    return _compiled.Side(
        image=compact(to_numpy(columns.image)),
        label=compact(to_numpy(columns.label)),
        box=compact(to_numpy(columns.box), np.float64),
        box_format=getattr(_compiled.BoxFormat, columns.box_format),
        is_used=compact(is_used, np.uint8),
    )


def nearest(detections: Any, truths: Any, protocol: Protocol, threads: int) -> Nearest:
    """The nearest of the truths in use for each detection in use, each given as a `side`; none for the others."""
    return Nearest(*_compiled.find_nearest(detections, truths, protocol.pixels == "inclusive", threads))


def match_across(detections: Any, score: NDArray[Any], truths: Any, protocol: Protocol, threads: int) -> Rows:
    """The truth of another class that each detection takes, by falling score, the nearest first; or -1. Shape (D,)."""
    rows: Rows = _compiled.match_across(detections, compact(score, np.float64), truths, rules_of(protocol), threads)
    return rows
