"""Pairs at one threshold, in compiled code: the truth that a detection took, and the nearest of any class."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore.arrays import compact, to_numpy
from boxscore.data.dataset import SHARED_KINDS, Detections, Truths
from boxscore.engines.native.columns import compiled_columns
from boxscore.engines.native.rules import rules_of
from boxscore.protocol.protocol import Protocol

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
    """The most similar truth of each detection, the first of equal ones; -1 and 0 where none is similar at all."""

    own: Rows
    """Of its own class. Shape (D,)."""
    own_iou: Floats
    other: Rows
    """Of any other class. Shape (D,)."""
    other_iou: Floats


class Side(NamedTuple):
    """Rows of detections or truths; those that are not used are skipped."""

    columns: Any
    is_used: NDArray[np.uint8]


def pair(detections: Detections, truths: Truths, protocol: Protocol, threads: int) -> Pairs:
    """Which truth each detection takes."""
    columns = compiled_columns(detections, truths, protocol, np.float64)
    return Pairs(*_compiled.pair(*columns, rules_of(protocol), threads))


def similarities(detections: Detections, truths: Truths, truth: Rows, protocol: Protocol, threads: int) -> Floats:
    """The similarity of each detection with the truth that it took, as matching compared them. Shape (D,).

    `truth`: the row of that truth, as `pair` gives it under the same protocol. NaN where it is -1.
    """
    similarity: Floats = np.full(truth.size, np.nan)
    kind = truths.kinds(protocol)
    is_shared = np.zeros(len(truths), bool) if kind is None else np.isin(to_numpy(kind), SHARED_KINDS)
    paired = np.flatnonzero(truth >= 0)
    for is_relative in (False, True):
        row = paired[is_shared[truth[paired]] == is_relative]
        taken = np.unique(truth[row])
        # Each truth is the only one of an image, so that it is compared with those that took it and no others.
        found = Detections(
            image=truth[row], label=np.zeros_like(row), score=np.zeros(row.size), geometry=detections.geometry.take(row)
        )
        there = Truths(image=taken, label=np.zeros_like(taken), geometry=truths.geometry.take(taken))
        columns = compiled_columns(found, there, protocol, np.float64)
        index, _, value = _compiled.find_pairs(*columns, is_relative, rules_of(protocol), threads)
        similarity[row[index]] = value
    return similarity


def side(columns: Detections | Truths, is_used: NDArray[Any]) -> Side:
    """Detections or truths, some of which are used."""
    return Side(columns, compact(is_used, np.uint8))


def nearest(detections: Side, truths: Side, protocol: Protocol, threads: int) -> Nearest:
    """The nearest of the truths in use for each detection in use; none for the others."""
    return Nearest(*_compiled.find_nearest(*_both(detections, truths, protocol), threads))


def match_across(detections: Side, truths: Side, protocol: Protocol, threads: int) -> Rows:
    """The truth of another class that each detection takes, by falling score, the nearest first; or -1. Shape (D,)."""
    rows: Rows = _compiled.match_across(*_both(detections, truths, protocol), rules_of(protocol), threads)
    return rows


def _both(detections: Side, truths: Side, protocol: Protocol) -> tuple[Any, Any, Any, Any]:
    columns = compiled_columns(detections.columns, truths.columns, protocol, np.float64)
    return *columns, detections.is_used, truths.is_used
