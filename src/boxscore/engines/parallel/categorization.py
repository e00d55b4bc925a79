"""Categorization of detections (Alg. 8 and 9), for one threshold as in the paper, and for all cells at once.

Dimensions: N images, D detections, G truths, C candidates of a detection, A areas, T thresholds, X = A * T cells, P
for any flat axis.

The paper's rule is "every detection points at its best truth, and of all that point at one truth the best-scored takes
it". This is the first round of an iteration: let a detection whose truth went to a better one point at its next best,
and repeat until nothing changes; that is COCO's greedy matching. With `held` the rank of the detection that holds a
truth,

    repeat
        each detection picks its most preferred truth with IoU >= t and rank <= held
        held' = the smallest rank among those that picked a truth
    until held' == held

`held` only ever improves and a holder never lets go, so it ends, and the end is the one stable matching.
"""

from typing import NamedTuple, get_args

from boxscore.arrays import (
    Array,
    arange,
    constant,
    contiguous,
    fixed_point,
    int_dtype,
    namespace,
    rows_at,
    segment_min,
    smallest,
)
from boxscore.engines.parallel.postprocessing import rank_by_score
from boxscore.protocol.fields import check_choice
from boxscore.protocol.protocol import Comparison, Matching, Protocol, Ties
from boxscore.result.tally import FALSE, IGNORED, TRUE

FREE = 2**31 - 1
"""The value of `held` for a truth that no detection holds."""


class Candidates(NamedTuple):
    """For each detection, the truths that it overlaps most, best first."""

    truth_DC: Array
    """Rows of truths."""
    iou_DC: Array
    """-1 where a detection has fewer candidates."""


class TruthRows(NamedTuple):
    """Columns of the truths that matching reads."""

    is_regular_GA: Array
    """Whether a truth counts in an area range."""
    is_crowd_G: Array
    """Whether any number of detections may take it."""
    is_group_G: Array | None = None
    """Whether the truth is a group, for detections that take no other truth; None without groups."""


def categorize_below(iou: Array, discarded: Array, threshold: float, *, comparison: Comparison = ">") -> Array:
    """Find false positives: 1 (FP) for detections that reach the threshold with no truth, 0 for all others (Alg. 8).

    Args:
        iou: IoUs from `filter_iou`. Shape (N, D, G).
        discarded: Mask of discarded detections. Shape (N, D).
        threshold: IoU threshold.
        comparison: ">" or ">=".

    Returns:
        Verdicts, to be completed by `categorize_above`. Shape (N, D).
    """
    check_choice("comparison", comparison, get_args(Comparison))
    return _verdict(~_reaches_any(iou, threshold, comparison) & ~discarded, FALSE)


def categorize_above(
    verdict: Array,
    iou: Array,
    score: Array,
    truth_ignore: Array,
    threshold: float,
    *,
    matching: Matching = "best_regular",
    comparison: Comparison = ">",
) -> Array:
    """Complete verdicts for detections that reach the threshold: 2 (TP), 1 (FP), 0 (ignored) (Alg. 9). Shape (N, D).

    The paper sorts by score, and then reads labels and scores unsorted; here ranks replace sorting, and every array
    keeps its order.

    Args:
        verdict: Verdicts from `categorize_below`. Shape (N, D).
        iou: IoUs from `filter_iou`. Shape (N, D, G).
        score: Scores. Shape (N, D).
        truth_ignore: Ignored truths. Shape (N, G).
        threshold: IoU threshold.
        matching: "best_regular": the paper as published, which drops ignored truths before it finds the best one;
            "best": VOC; "next_best": COCO.
        comparison: ">" or ">=".

    >>> import numpy as np
    >>> iou = np.array([[[0.9, 0.6], [0.8, 0.0]]])  # both prefer the first truth
    >>> start = categorize_below(iou, np.zeros((1, 2), bool), 0.5)
    >>> truth_ignore, score = np.zeros((1, 2), bool), np.array([[0.7, 0.8]])
    >>> categorize_above(start, iou, score, truth_ignore, 0.5).tolist()  # the first comes too late
    [[1, 2]]
    >>> categorize_above(start, iou, score, truth_ignore, 0.5, matching="next_best").tolist()  # and takes its next best
    [[2, 2]]
    """
    xp = namespace(iou)
    num_images, num_detections, num_truths = iou.shape
    if num_truths == 0:
        return verdict
    found_ND11 = categorize(
        iou,
        rank_by_score(score),
        TruthRows(xp.reshape(~truth_ignore, (-1, 1)), xp.reshape(xp.zeros_like(truth_ignore), (-1,))),
        Protocol.named(
            "paper",
            thresholds=(threshold,),
            matching=matching,
            ties="last" if matching == "next_best" else "first",  # as in COCO
            comparison=comparison,
        ),
        num_candidates=num_truths,
    )
    found_ND = xp.reshape(found_ND11, (num_images, num_detections))
    return xp.where(_reaches_any(iou, threshold, comparison), found_ND, verdict)


def categorize(iou: Array, rank: Array, truths: TruthRows, protocol: Protocol, *, num_candidates: int) -> Array:
    """The verdict of every detection in every area range and at every threshold, in static shapes.

    A detection may have at most `num_candidates` truths that reach the lowest threshold; the number of truths is always
    enough. Shapes (N, D, G), (N, D), (N * G, A); gives (N, D, A, T).
    """
    xp = namespace(iou)
    num_images, num_detections, num_truths = iou.shape
    image_P1 = arange(num_images * num_detections, like=iou)[:, None] // num_detections
    truth_PG = image_P1 * num_truths + arange(num_truths, like=iou)
    candidates = nominate(xp.reshape(iou, (-1, num_truths)), truth_PG, protocol.ties, num_candidates=num_candidates)
    verdict_PAT = settle(candidates, xp.reshape(rank, (-1,)), truths, protocol).verdict_DAT
    return xp.reshape(verdict_PAT, (num_images, num_detections, *verdict_PAT.shape[1:]))


def nominate(iou_DG: Array, truth_DG: Array, ties: Ties, *, num_candidates: int) -> Candidates:
    """The truths with the largest IoU of each detection, best first; `ties` decides between equal IoUs.

    `truth_DG`: the rows of the truths.
    """
    xp = namespace(iou_DG)
    num_truths = iou_DG.shape[1]
    if num_truths == 1:
        return Candidates(truth_DG, iou_DG)
    if ties == "last":  # as in COCO
        order_DG = num_truths - 1 - xp.argsort(-xp.flip(iou_DG, axis=1), axis=-1, stable=True)
    else:
        order_DG = xp.argsort(-iou_DG, axis=-1, stable=True)
    chosen_DC = order_DG[:, :num_candidates]
    return Candidates(*(xp.take_along_axis(column_DG, chosen_DC, axis=-1) for column_DG in (truth_DG, iou_DG)))


class Settled(NamedTuple):
    """The verdict of each detection, and the truth that it takes."""

    verdict_DAT: Array
    """2 (TP), 1 (FP), 0 (ignored)."""
    taken_D: Array
    """The truth that a detection takes in the first cell, or -1."""
    similarity_D: Array
    """The similarity with that truth; of any candidate if it takes none."""


def settle(candidates: Candidates, rank_D: Array, truths: TruthRows, protocol: Protocol) -> Settled:
    """Assign truths to detections, in every cell at once."""
    xp = namespace(rank_D)
    num_detections, num_candidates = candidates.iou_DC.shape
    num_truths, num_areas = truths.is_regular_GA.shape
    shape_GAT = (num_truths, num_areas, len(protocol.thresholds))
    num_cells = num_areas * len(protocol.thresholds)
    rank_D1 = xp.astype(rank_D, xp.int32)[:, None]  # half the memory of an index
    cell_X = arange(num_cells, like=rank_D)
    nothing = 2 * num_candidates

    # A cell is an area range, which decides the regular truths, and a threshold, which decides the reached ones.
    is_regular_GAT = xp.broadcast_to(truths.is_regular_GA[:, :, None], shape_GAT)
    is_regular_GX = contiguous(xp.reshape(is_regular_GAT, (num_truths, num_cells)))
    cutoff_X = constant(protocol.cutoffs * num_areas, like=candidates.iou_DC, dtype=candidates.iou_DC.dtype)
    is_reached_DCX = reaches(candidates.iou_DC[:, :, None], cutoff_X, protocol.comparison)

    def of_candidates(value_GX: Array) -> Array:
        gathered_PX = rows_at(value_GX, xp.reshape(candidates.truth_DC, (-1,)))
        return xp.reshape(gathered_PX, (num_detections, num_candidates, gathered_PX.shape[1]))

    is_crowd_DC1 = of_candidates(truths.is_crowd_G[:, None])
    is_open_DCX = is_reached_DCX
    if truths.is_group_G is not None:
        is_group_DC1 = of_candidates(truths.is_group_G[:, None])
        is_open_DCX = is_reached_DCX & ~is_group_DC1

    # A candidate's index in its detection's preference: by IoU, ignored truths after all regular ones.
    choice_C1 = xp.astype(arange(num_candidates, like=rank_D), xp.int32)[:, None]
    choice_DCX = xp.zeros_like(is_reached_DCX, dtype=xp.int32) + choice_C1
    if protocol.matching != "best":
        choice_DCX = xp.where(of_candidates(is_regular_GX), choice_DCX, choice_DCX + num_candidates)

    nothing_DCX = nothing * xp.ones_like(choice_DCX)
    first_cell_DC = candidates.truth_DC * num_cells
    rank_DX = rank_D1 + xp.zeros_like(choice_DCX[:, 0, :])
    free_DX = FREE * xp.ones_like(rank_DX)

    def pick(is_open_DCX: Array, held_GX: Array) -> Array:
        """The index of the most preferred truth available to each detection, or `nothing`."""
        is_free_DCX = (rank_D1[:, :, None] <= of_candidates(held_GX)) | is_crowd_DC1
        return smallest(xp.where(is_open_DCX & is_free_DCX, choice_DCX, nothing_DCX), axis=1)

    def of_slot(value_DC: Array, choice_DX: Array) -> Array:
        """The value of the picked candidate; of any candidate for a pick of `nothing`."""
        if num_candidates == 1:
            return xp.broadcast_to(value_DC, tuple(choice_DX.shape))
        slot_DX = choice_DX - choice_DX // num_candidates * num_candidates
        return xp.take_along_axis(value_DC, xp.astype(slot_DX, int_dtype(value_DC)), axis=-1)

    def cell_of(choice_DX: Array) -> Array:
        """The picked truth and cell, as one index into (G, X)."""
        return xp.reshape(of_slot(first_cell_DC, choice_DX) + cell_X, (-1,))

    def give(choice_DX: Array) -> Array:
        """Give every truth to the best of the detections that pick it."""
        bid_P = xp.reshape(xp.where(choice_DX < nothing, rank_DX, free_DX), (-1,))
        held_P = segment_min(bid_P, cell_of(choice_DX), num_truths * num_cells, empty=FREE)
        return xp.reshape(held_P, (num_truths, num_cells))

    def of_pick(value_GX: Array, choice_DX: Array) -> Array:
        if num_candidates == 1:
            return of_candidates(value_GX)[:, 0, :]
        picked_P = rows_at(xp.reshape(value_GX, (-1,)), cell_of(choice_DX))
        return xp.reshape(picked_P, (num_detections, num_cells))

    free_GX = FREE * xp.ones_like(is_regular_GX, dtype=xp.int32)
    if protocol.matching == "next_best":
        held_GX = fixed_point(lambda held_GX: give(pick(is_open_DCX, held_GX)), free_GX)
        choice_DX = pick(is_open_DCX, held_GX)
    else:
        choice_DX = pick(is_open_DCX, free_GX)
        held_GX = give(choice_DX)

    is_taking_DX = choice_DX < nothing
    is_regular_DX = of_pick(is_regular_GX, choice_DX)
    is_true_DX = is_taking_DX & is_regular_DX & (of_pick(held_GX, choice_DX) == rank_D1)
    is_false_DX = ~(is_taking_DX & ~is_regular_DX) & ~is_true_DX
    if truths.is_group_G is not None:
        group_DX = pick(is_reached_DCX & is_group_DC1 & is_false_DX[:, None, :], free_GX)
        is_first_DX = of_pick(give(group_DX), group_DX) == rank_D1
        is_taking_DX = group_DX < nothing
        choice_DX = xp.where(is_taking_DX, group_DX, choice_DX)
        is_true_DX = is_true_DX | (is_taking_DX & is_first_DX & of_pick(is_regular_GX, choice_DX))
        is_false_DX = is_false_DX & ~is_taking_DX
    verdict_DX = xp.where(is_true_DX, _verdict(is_true_DX, TRUE), _verdict(is_false_DX, FALSE))
    taken_D, similarity_D = (of_slot(column_DC, choice_DX[:, :1])[:, 0] for column_DC in candidates)
    taken_D = xp.where(is_false_DX[:, 0], -xp.ones_like(taken_D), taken_D)
    return Settled(xp.reshape(verdict_DX, (num_detections, *shape_GAT[1:])), taken_D, similarity_D)


def reaches(iou: Array, threshold: Array | float, comparison: str) -> Array:
    """Whether IoUs reach a threshold."""
    return iou >= threshold if comparison == ">=" else iou > threshold


def _reaches_any(iou_NDG: Array, threshold: float, comparison: str) -> Array:
    return namespace(iou_NDG).any(reaches(iou_NDG, threshold, comparison), axis=2)


def _verdict(mask: Array, verdict: int) -> Array:
    """`verdict` where `mask` is True, else ignored."""
    xp = namespace(mask)
    filled = constant([IGNORED, verdict], like=mask, dtype=xp.uint8)
    return xp.where(mask, filled[1], filled[0])
