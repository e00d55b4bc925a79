"""Ranks, limits and groups of detections and truths, from ids and scores in host memory.

A group is one image and class. Dimensions: E detections and H truths as given; D detections within the limits, in the
order of a tally; N groups of detections, F groups of truths; P for any flat axis.
"""

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore.arrays import order_by
from boxscore.data.coverage import NOT_COVERED
from boxscore.data.dataset import Detections, Truths, coverage_codes, host_ids, host_scores
from boxscore.protocol.protocol import Protocol

Ints = NDArray[np.int64]


class RankedDetections(NamedTuple):
    """The detections within the limits, by image, label and descending score. Shape (D,) each."""

    row: Ints
    """Rows in the input."""
    image: Ints
    label: Ints
    score: NDArray[Any]
    rank: Ints
    """By score within image and class, or within image; of equal scores the first ranks first."""
    coverage: NDArray[np.uint8] | None
    """Coverage codes of the detections; None: all count."""


def rank_detections(detections: Detections, truths: Truths, protocol: Protocol) -> RankedDetections:
    """Rank the detections, and drop those beyond the limits or not covered (Alg. 5), before any comparison."""
    image_E, label_E, score_E = (
        host_ids(detections.image_ids),
        host_ids(detections.labels),
        host_scores(detections.scores),
    )
    row_E = order_by(image_E, label_E, -score_E)
    image, label = image_E[row_E], label_E[row_E]
    if protocol.limits_per == "image":
        by_image_E = order_by(image_E, -score_E)
        rank_E = np.empty_like(by_image_E)
        rank_E[by_image_E] = index_in_run(is_first(image_E[by_image_E]))
        rank = rank_E[row_E]
    else:
        rank = index_in_run(is_first(image, label))
    code_E = coverage_codes(detections, truths, protocol)
    ranked = RankedDetections(row_E, image, label, score_E[row_E], rank, None if code_E is None else code_E[row_E])
    limit = protocol.match_limits[-1]
    is_kept_E = np.ones(rank.size, bool) if limit is None else rank < limit
    if ranked.coverage is not None:
        is_kept_E &= ranked.coverage != NOT_COVERED
    if is_kept_E.all():
        return ranked
    return RankedDetections._make(None if column is None else column[is_kept_E] for column in ranked)


class GroupedTruths(NamedTuple):
    """The truths by image and label. Shape (H,) each."""

    row: Ints
    """Rows in the input."""
    image: Ints
    label: Ints


def group_truths(truths: Truths) -> GroupedTruths:
    """Sort the truths by group; within a group they keep their order."""
    image_H, label_H = host_ids(truths.image_ids), host_ids(truths.labels)
    row_H = order_by(image_H, label_H)
    return GroupedTruths(row_H, image_H[row_H], label_H[row_H])


class Groups(NamedTuple):
    """The truths of each detection's image and class."""

    group_D: Ints
    """The number of each detection's group, ascending."""
    start_D: Ints
    """The first truth of the group."""
    count_D: Ints
    """The number of truths of the group."""


def join_groups(detections: RankedDetections, truths: GroupedTruths) -> Groups:
    """Find the truths of each detection's group."""
    is_first_D, is_first_H = (is_first(side.image, side.label) for side in (detections, truths))
    first_N, first_F = np.flatnonzero(is_first_D), np.flatnonzero(is_first_H)
    # The groups of both sides in one list; a group that both sides have gets one number.
    image_P = np.concatenate([truths.image[first_F], detections.image[first_N]])
    label_P = np.concatenate([truths.label[first_F], detections.label[first_N]])
    order_P = order_by(image_P, label_P)
    number_P = np.empty_like(order_P)
    number_P[order_P] = np.cumsum(is_first(image_P[order_P], label_P[order_P])) - 1
    number_F, number_N = number_P[: first_F.size], number_P[first_F.size :]
    start_P, count_P = np.zeros(order_P.size, np.int64), np.zeros(order_P.size, np.int64)
    start_P[number_F], count_P[number_F] = first_F, np.diff(first_F, append=truths.row.size)
    group_D = np.cumsum(is_first_D) - 1
    return Groups(group_D, start_P[number_N][group_D], count_P[number_N][group_D])


def is_first(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each row differs from the one before it in any column. Shape (P,)."""
    is_first_P = np.ones(columns[0].size, bool)
    is_first_P[1:] = reduce(np.logical_or, (column[1:] != column[:-1] for column in columns))
    return is_first_P


def index_in_run(is_first_P: NDArray[np.bool_]) -> Ints:
    """The offset of each row from the first row of its run. Shape (P,)."""
    index_P = np.arange(is_first_P.size)
    return index_P - np.maximum.accumulate(np.where(is_first_P, index_P, 0))


def ranges(start_N: Ints, count_N: Ints) -> Ints:
    """Concatenated ranges: `count_N` integers from each start.

    >>> ranges(np.array([7, 3]), np.array([2, 3])).tolist()
    [7, 8, 3, 4, 5]
    """
    end_N = np.cumsum(count_N)
    return np.arange(count_N.sum()) + np.repeat(start_N - end_N + count_N, count_N)
