"""Pairs of detections and truths beyond matching, in compiled code.

The nearest truths, the truths of other classes that detections take, and the counts of the Jaccard index.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore.arrays import compact, to_numpy
from boxscore.data.coverage import NOT_COVERED
from boxscore.data.dataset import Detections, Truths, coverage_codes, host_ids, host_scores, take
from boxscore.engines.native.columns import compiled_columns
from boxscore.engines.native.rules import rules_of
from boxscore.protocol.protocol import REGULAR, Protocol
from boxscore.result.tally import JACCARD_SCORES

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


def count_jaccard(
    detections: Detections, truths: Truths, images: NDArray[np.int64], protocol: Protocol, threads: int
) -> Rows:
    """For each image and score threshold: number of pairs, truths and detections that count. Shape (N, S, 3).

    Detections above the score threshold are paired with regular truths of their class, so that the sum of similarities
    is maximal, among pairs that reach the protocol's first threshold. An unpaired box inside an ignored truth doesn't
    count; for this test the similarity is relative to the box's own size.
    """
    rules = rules_of(protocol.at(protocol.thresholds[0]))
    codes = coverage_codes(detections, truths, protocol)
    if codes is not None:
        detections = take(detections, codes != NOT_COVERED)
    kinds = truths.kinds(protocol)
    is_regular = np.ones(len(truths), bool) if kinds is None else to_numpy(kinds) == REGULAR
    regular, ignored = take(truths, is_regular), take(truths, ~is_regular)

    def find_pairs(one: Detections, other: Truths, *, is_relative: bool) -> tuple[Rows, Rows, Floats]:
        found: tuple[Rows, Rows, Floats] = _compiled.find_pairs(
            *compiled_columns(one, other, protocol, np.float64), is_relative, rules, threads
        )
        return found

    as_detections = Detections(
        image_ids=regular.image_ids, labels=regular.labels, scores=np.ones(len(regular)), geometry=regular.geometry
    )
    is_within, is_truth_within = np.zeros(len(detections), bool), np.zeros(len(regular), bool)
    is_within[find_pairs(detections, ignored, is_relative=True)[0]] = True
    is_truth_within[find_pairs(as_detections, ignored, is_relative=True)[0]] = True

    row, column, weight = find_pairs(detections, regular, is_relative=False)
    score = host_scores(detections.scores)
    image_of = np.searchsorted(images, host_ids(detections.image_ids))
    truth_image_of = np.searchsorted(images, host_ids(regular.image_ids))
    counts = np.zeros((images.size, len(JACCARD_SCORES), 3), np.int32)
    for s, threshold in enumerate(JACCARD_SCORES):
        is_above = score > threshold
        kept = np.flatnonzero(is_above[row] & (weight > 0))
        pair = _compiled.assign_pairs(row[kept], column[kept], weight[kept], len(detections), len(regular))
        is_paired = pair >= 0
        is_found = np.zeros(len(regular), bool)
        is_found[column[kept][pair[is_paired]]] = True
        for i, (image, is_counted) in enumerate(
            [
                (image_of, is_paired),
                (truth_image_of, is_found | ~is_truth_within),
                (image_of, is_above & (is_paired | ~is_within)),
            ]
        ):
            counts[:, s, i] = np.bincount(image[is_counted], minlength=images.size)
    return counts
