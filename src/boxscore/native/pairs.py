"""Who met whom, at one threshold, in compiled code: the truth that a detection took, and the nearest of any class."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore.arrays import compact, to_numpy
from boxscore.columns import Detections, Truths
from boxscore.native.engine import inputs
from boxscore.native.rules import rules_of
from boxscore.protocol import Protocol

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


def nearest(
    detections: Detections,
    truths: Truths,
    protocol: Protocol,
    threads: int,
    *,
    is_asked: NDArray[Any],
    is_there: NDArray[Any],
) -> Nearest:
    """The nearest of the truths that are there, for the detections that are asked for; none for the others."""
    found, there = _side(detections, is_asked), _side(truths, is_there)
    return Nearest(*_compiled.find_nearest(found, there, protocol.geometry == "inclusive", threads))


def match_across(
    detections: Detections,
    truths: Truths,
    protocol: Protocol,
    threads: int,
    *,
    is_asked: NDArray[Any],
    is_there: NDArray[Any],
) -> Rows:
    """The truth of another class that each detection takes, by falling score, the nearest first; or -1. Shape (D,)."""
    score = compact(to_numpy(detections.score), np.float64)
    found, there = _side(detections, is_asked), _side(truths, is_there)
    rows: Rows = _compiled.match_across(found, score, there, rules_of(protocol), threads)
    return rows


def _side(columns: Detections | Truths, is_used: NDArray[Any]) -> Any:
    return _compiled.Side(
        image=compact(to_numpy(columns.image)),
        label=compact(to_numpy(columns.label)),
        box=compact(to_numpy(columns.box), np.float64),
        box_format=getattr(_compiled.BoxFormat, columns.box_format),
        is_used=compact(is_used, np.uint8),
    )
