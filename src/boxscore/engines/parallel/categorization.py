"""Categorization of detections (Alg. 8 and 9), for one threshold as in the paper, and for all cells at once.

Dimensions: N images, D detections, G truths, C candidates of a detection, A areas, T thresholds, X = A * T cells, P for
any flat axis.

The paper's rule is "every detection points at its best truth, and of all that point at one truth the best-scored takes
it". This is the first round of an iteration: let a detection whose truth went to a better one point at its next best,
and repeat until nothing changes; that is COCO's greedy matching. With `held` the rank of the detection that holds a
truth,

    repeat
        each detection picks its most preferred truth with IoU >= t and rank <= held
        held' = the smallest rank among those that picked a truth
    until held' == held

`held` only ever improves and a holder never lets go, so it ends, and the end is the one stable matching. `settle` does
this for the flat candidates of the parallel engine: few rounds, and no work for pairs that reach no threshold.

A compiled step has padded batches, static shapes, and no way to stop early without waiting for the device. `sweep`
reaches the same matching there in as many steps as there are detections in an image, with little memory.
"""

from typing import NamedTuple, get_args

from boxscore.arrays import (
    Array,
    arange,
    constant,
    contiguous,
    descending_index,
    fixed_point,
    int_dtype,
    namespace,
    rows_at,
    scan,
    segment_min,
    size_of,
    smallest,
)
from boxscore.engines.parallel.postprocessing import rank_by_score
from boxscore.protocol.fields import check_choice
from boxscore.protocol.protocol import Comparison, Matching, Protocol, Ties
from boxscore.result.tally import FALSE, TRUE

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
    if 0 in iou.shape[1:]:
        return verdict
    is_true_ND1, is_ignored_ND1 = sweep(
        iou,
        rank_by_score(score),
        Batch(~truth_ignore[:, :, None], xp.zeros_like(truth_ignore)),
        Protocol.named(
            "paper",
            thresholds=(threshold,),
            matching=matching,
            ties="last" if matching == "next_best" else "first",  # as in COCO
            comparison=comparison,
        ),
    )
    is_true_ND, is_false_ND = is_true_ND1[..., 0], ~(is_true_ND1 | is_ignored_ND1)[..., 0]
    found_ND = xp.where(is_true_ND, _verdict(is_true_ND, TRUE), _verdict(is_false_ND, FALSE))
    return xp.where(_reaches_any(iou, threshold, comparison), found_ND, verdict)


class Batch(NamedTuple):
    """Columns of the truths of a mini-batch that matching reads."""

    is_regular_NGA: Array
    """Whether a truth counts in an area range."""
    is_shared_NG: Array
    """Whether any number of detections may take it: crowds and groups."""
    is_group_NG: Array | None = None
    """Whether the truth is a group, for detections that take no other truth; None without groups."""


FREE_TRUTH, TAKEN_TRUTH, IGNORED_TRUTH = range(3)
"""The state of a truth in a cell, for a detection that reaches it: regular and free, regular and taken, ignored."""

LATER, NOTHING = 2**29, 2**30
"""Addends to the key of a truth: it comes after all regular ones; it is not open."""


def sweep(similarity_NDG: Array, rank_ND: Array, truths: Batch, protocol: Protocol) -> tuple[Array, Array]:
    """Match a mini-batch in static shapes: in the order of ranks, one detection of each image per step.

    A step sees one row of similarities per image, and keeps one flag per truth and cell: whether it is free. So memory
    is (N, D, G) and (N, G, X), the number of steps is D, and nothing depends on the values.

        key = 4 * index in the detection's preference + state of the truth,  for truths that are open
        best = the smallest key, per image and cell
        the truth whose key is `best` is taken, and its state is the verdict

    Args:
        similarity_NDG: Similarities from `filter_iou`.
        rank_ND: Ranks. Only their order within a class matters.
        truths: The truths.
        protocol: The rules.

    Returns:
        Whether each detection is a true positive, and whether the truth it takes is ignored, in each cell. Shapes
        (N, D, X). In other cells a detection is a false positive, if it counts.
    """
    xp = namespace(similarity_NDG)
    num_images, num_detections, num_truths = (size_of(similarity_NDG, axis) for axis in range(3))
    num_cells = len(protocol.areas) * len(protocol.thresholds)

    # Rows in the order of steps: the detection of each image that comes first, then the one that comes second, …
    order_ND = xp.argsort(rank_ND, axis=-1, stable=True)
    image_N = arange(num_images, like=similarity_NDG)
    row_DN = xp.matrix_transpose(order_ND + (image_N * num_detections)[:, None])
    step_ND = xp.argsort(order_ND, axis=-1, stable=True) * num_images + image_N[:, None]
    similarity_PG = rows_at(xp.reshape(similarity_NDG, (-1, num_truths)), xp.reshape(row_DN, (-1,)))
    shape_DNG = (num_detections, num_images, num_truths)
    index_DNG = xp.reshape(descending_index(similarity_PG, protocol.ties), shape_DNG)
    reached_DNG = xp.reshape(_num_reached(similarity_PG, protocol), shape_DNG)

    threshold_X = xp.astype(arange(num_cells, like=similarity_NDG) % len(protocol.thresholds), xp.int32)
    is_regular_NGX = in_cells(truths.is_regular_NGA, protocol)
    is_shared_NG1 = truths.is_shared_NG[..., None]
    is_group_NG1 = None if truths.is_group_NG is None else truths.is_group_NG[..., None]
    ignored = IGNORED_TRUTH + (0 if protocol.matching == "best" else LATER)
    ignored_NGX = ignored * xp.astype(~is_regular_NGX, xp.int32)
    nothing_NGX = (NOTHING + TAKEN_TRUTH) * xp.ones_like(ignored_NGX)

    def take(is_open_NGX: Array, is_free_NGX: Array, index_NG: Array) -> tuple[Array, Array]:
        """The truth that each detection takes, out of those that are open to it, and the state of this truth."""
        state_NGX = ignored_NGX + xp.astype(is_regular_NGX & ~is_free_NGX, xp.int32)
        key_NGX = xp.where(is_open_NGX, 4 * index_NG[..., None] + state_NGX, nothing_NGX)
        best_NX = xp.min(key_NGX, axis=1)
        return is_open_NGX & (key_NGX == best_NX[:, None]), best_NX % 4

    def step(is_free_NGX: Array, index_NG: Array, reached_NG: Array) -> tuple[Array, tuple[Array, Array]]:
        is_reached_NGX = reached_NG[..., None] > threshold_X
        is_open_NGX = is_reached_NGX
        if protocol.matching == "next_best":
            is_open_NGX = is_open_NGX & (is_free_NGX | is_shared_NG1)
        if is_group_NG1 is not None:
            is_open_NGX = is_open_NGX & ~is_group_NG1
        is_taken_NGX, state_NX = take(is_open_NGX, is_free_NGX, index_NG)
        is_left_NGX = is_free_NGX & (~is_taken_NGX | is_shared_NG1)
        is_true_NX, is_ignored_NX = state_NX == FREE_TRUTH, state_NX == IGNORED_TRUTH
        if is_group_NG1 is not None:
            is_open_NGX = is_reached_NGX & is_group_NG1 & (state_NX == TAKEN_TRUTH)[:, None]
            is_taken_NGX, group_NX = take(is_open_NGX, is_free_NGX, index_NG)
            is_left_NGX = is_left_NGX & ~is_taken_NGX
            is_ignored_NX = is_ignored_NX | (xp.any(is_taken_NGX, axis=1) & (group_NX != FREE_TRUTH))
            is_true_NX = is_true_NX | (group_NX == FREE_TRUTH)
        return is_left_NGX, (is_true_NX, is_ignored_NX)

    found_DNX = scan(step, xp.ones_like(is_regular_NGX), (index_DNG, reached_DNG))

    def by_row(flag_DNX: Array) -> Array:
        flag_PX = rows_at(xp.reshape(flag_DNX, (-1, num_cells)), xp.reshape(step_ND, (-1,)))
        return xp.reshape(flag_PX, (num_images, num_detections, num_cells))

    is_true_NDX, is_ignored_NDX = map(by_row, found_DNX)
    return is_true_NDX, is_ignored_NDX


def in_cells(flag: Array, protocol: Protocol) -> Array:
    """The flag of each cell's area range. Shapes (..., A) to (..., X)."""
    num_areas, num_thresholds = len(protocol.areas), len(protocol.thresholds)
    areas = [flag[..., area : area + 1] for area in range(num_areas)]
    return namespace(flag).concat([area for area in areas for _ in range(num_thresholds)], axis=-1)


def _num_reached(similarity: Array, protocol: Protocol) -> Array:
    """The number of thresholds that similarities reach; it is the lowest ones."""
    xp = namespace(similarity)
    count = xp.zeros_like(similarity, dtype=xp.int32)
    for cutoff in protocol.cutoffs:
        count = count + xp.astype(reaches(similarity, cutoff, protocol.comparison), xp.int32)
    return count


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
    """`verdict` where `mask` is True, else ignored, 0."""
    xp = namespace(mask)
    return verdict * xp.astype(mask, xp.uint8)
