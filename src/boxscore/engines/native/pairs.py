"""Pairs across classes, in compiled code: the nearest truths, and the truths of other classes that detections take."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore.arrays import compact
from boxscore.data.dataset import Detections, Truths
from boxscore.engines.native.columns import compiled_columns
from boxscore.engines.native.rules import rules_of
from boxscore.protocol.protocol import Protocol

Rows = NDArray[np.int32]
Floats = NDArray[np.float64]


class Nearest(NamedTuple):
    """The most similar truth of each detection, the first of equal ones; -1 and 0 if none is similar at all."""

    own: Rows
    """The nearest truth of the detection's class. Shape (D,)."""
    own_iou: Floats
    other: Rows
    """The nearest truth of any other class. Shape (D,)."""
    other_iou: Floats


class Side(NamedTuple):
    """Detections or truths, and which of their rows are used."""

    columns: Any
    is_used: NDArray[np.uint8]


def side(columns: Detections | Truths, is_used: NDArray[Any]) -> Side:
    """Detections or truths, and which of their rows to use."""
    return Side(columns, compact(is_used, np.uint8))


def nearest(detections: Side, truths: Side, protocol: Protocol, threads: int) -> Nearest:
    """The nearest used truth of each used detection; -1 for unused detections."""
    return Nearest(*_compiled.find_nearest(*_both(detections, truths, protocol), threads))


def match_across(detections: Side, truths: Side, protocol: Protocol, threads: int) -> Rows:
    """The truth of another class that each detection takes, by descending score, nearest first; or -1. Shape (D,)."""
    rows: Rows = _compiled.match_across(*_both(detections, truths, protocol), rules_of(protocol), threads)
    return rows


def _both(detections: Side, truths: Side, protocol: Protocol) -> tuple[Any, Any, Any, Any]:
    columns = compiled_columns(detections.columns, truths.columns, protocol, np.float64)
    return *columns, detections.is_used, truths.is_used
