"""The parallel engine: the stages in order, over all images at once, on the array library that holds the shapes.

A detection can only take a truth of its image and class. So rows are put in groups, one per image and class, and only
pairs within a group are compared, as flat arrays with one row per pair.

    host memory     ids, scores ── groups ── pairs            candidates ── blocks               Tally
                                               │                ▲             │                    ▲
    device          shapes ───────────────── similarity ── who reaches? ── fixed point ───── verdicts

Shapes and similarities stay on their device; only one flag per pair, and the verdicts of detections with candidates,
come back to host memory.

Dimensions: D detections within the limits, in the order of a tally, H truths by image and label; P pairs; Q candidates,
S detections with candidates; in a block C candidates of a detection, G truths, N groups; A areas, T thresholds.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore.arrays import (
    Array,
    convert,
    float_dtype,
    gather,
    has_float64,
    is_in_host_memory,
    library,
    namespace,
    to_numpy,
)
from boxscore.data.coverage import NOT_EXHAUSTIVE
from boxscore.data.dataset import Detections, Truths, classes_of
from boxscore.data.geometry import is_in_areas
from boxscore.engines.parallel.batch import which_count
from boxscore.engines.parallel.categorization import Settled, TruthRows, nominate, reaches, settle
from boxscore.engines.parallel.cell_curves import curves
from boxscore.engines.parallel.grouping import (
    Groups,
    Ints,
    RankedDetections,
    group_truths,
    is_first,
    join_groups,
    ranges,
    rank_detections,
)
from boxscore.protocol.protocol import CROWD, GROUP, Protocol
from boxscore.result.tally import FALSE, TRUE, CountedTruths, Hits, RankedRows, Tally

__all__ = ["curves", "match"]

CELLS_PER_BLOCK = 2**21
"""Number of candidate cells settled together: enough to keep an accelerator busy."""

SHARE_IN_HOST_MEMORY = 16
"""In host memory, batches and blocks are a 16th of that: they stay in cache, and are too small for a library to split
them among threads, which may take longer than the work.
"""


def match(
    detections: Detections,
    truths: Truths,
    protocol: Protocol,
    threads: int,  # noqa: ARG001
    is_traced: bool = False,
) -> Tally:
    """Match flat columns: the verdict of every detection. `is_traced`: add the columns of a traced tally."""
    columns, truth_columns = detections.geometry.arrays[0], truths.geometry.arrays[0]
    home = truth_columns if library(columns) == "numpy" else columns
    ranked, grouped = rank_detections(detections, truths, protocol), group_truths(truths)
    groups = join_groups(ranked, grouped)
    truth_rows = _truth_rows(truths, grouped.row, protocol, home)
    candidates = _find_candidates(
        _Sides(detections, ranked.row, truths, grouped.row), groups, truth_rows.is_crowd_G, protocol, home
    )
    has_takes = is_traced or protocol.keeps_similarity
    verdict_SAT, taken_S, similarity_S = _settle(
        candidates, ranked.rank, groups, truth_rows, protocol, has_takes=has_takes
    )

    is_false_DA = _is_false_unmatched(detections, ranked, protocol, home)
    verdict_SAT = np.where(verdict_SAT == FALSE, is_false_DA[candidates.detection_S][:, :, None], verdict_SAT)
    is_hit_S = ((verdict_SAT == TRUE) | (verdict_SAT != verdict_SAT[:, :, :1])).any(axis=(1, 2))
    is_false_DA[candidates.detection_S] = verdict_SAT[:, :, 0] == FALSE
    return Tally.from_hits(
        protocol=protocol,
        rows=RankedRows(image=ranked.image, label=ranked.label, score=ranked.score, rank=ranked.rank),
        hits=Hits(
            row=candidates.detection_S[is_hit_S],
            verdict=verdict_SAT[is_hit_S],
            is_false=is_false_DA,
            similarity=np.where(verdict_SAT[:, 0, 0] == TRUE, similarity_S, 0.0)[is_hit_S],
        ),
        truths=CountedTruths(grouped.image, grouped.label, counts=to_numpy(truth_rows.is_regular_GA)),
        classes=classes_of(detections, truths),
        class_names=truths.names_by_label,
        iou_dtype="float64" if has_float64(home) else "float32",
        **(_trace(ranked.row, grouped.row, candidates.detection_S, taken_S, similarity_S) if is_traced else {}),
    )


def _trace(
    row_D: Ints, row_H: Ints, detection_S: Ints, taken_S: Ints, similarity_S: NDArray[np.float64]
) -> dict[str, NDArray[Any]]:
    """The columns of a traced tally."""
    taken_D, similarity_D = np.full(row_D.size, -1), np.full(row_D.size, np.nan)
    taken_D[detection_S] = np.append(row_H, -1)[taken_S]
    similarity_D[detection_S] = np.where(taken_S < 0, np.nan, similarity_S)
    return {"row": row_D, "taken": taken_D, "taken_similarity": similarity_D, "truth_row": row_H}


def _truth_rows(truths: Truths, row_H: Ints, protocol: Protocol, home: Array) -> TruthRows:
    """The columns of the truths that matching reads, by image and label, on the device."""
    kind_H = truths.kinds(protocol)
    kind_H = None if kind_H is None else gather(convert(kind_H, like=home), row_H)
    counts_HA = which_count(gather(_areas(truths, protocol, home), row_H), kind_H, protocol)
    if kind_H is None:
        columns = counts_HA, namespace(counts_HA).zeros_like(counts_HA[:, 0]), None
    else:
        is_group_H = kind_H == GROUP
        has_groups = bool(to_numpy(is_group_H).any())
        columns = counts_HA, (kind_H == CROWD) | is_group_H, is_group_H if has_groups else None
    return TruthRows(*columns)


def _areas(columns: Detections | Truths, protocol: Protocol, home: Array) -> Array:
    """The areas that decide area ranges, in the widest float of `home`."""
    area = columns.geometry.areas(protocol, home) if columns.area is None else convert(columns.area, like=home)
    return namespace(area).astype(area, float_dtype(home))


def _is_false_unmatched(
    detections: Detections, ranked: RankedDetections, protocol: Protocol, home: Array
) -> NDArray[np.bool_]:
    """Whether an unmatched detection counts: by its area, and by the coverage of its image. Shape (D, A)."""
    area_E = _areas(detections, protocol, home)
    is_inside_DA: NDArray[np.bool_] = to_numpy(is_in_areas(area_E, protocol.areas))[ranked.row]
    if ranked.coverage is not None:
        is_inside_DA &= (ranked.coverage != NOT_EXHAUSTIVE)[:, None]
    return is_inside_DA


class _Sides(NamedTuple):
    """Both inputs, and the order of their rows."""

    detections: Detections
    row_D: Ints
    truths: Truths
    row_H: Ints


class _Candidates(NamedTuple):
    """The pairs that reach the lowest threshold, by detection and truth; in host memory, except similarities."""

    detection_S: Ints
    """The detections with candidates, ascending."""
    first_S: Ints
    """The index of each detection's first candidate."""
    count_S: Ints
    """The number of each detection's candidates."""
    truth_Q: Ints
    similarity_Q: Array


def _find_candidates(sides: _Sides, groups: Groups, is_shared_H: Array, protocol: Protocol, home: Array) -> _Candidates:
    """Compute similarities within groups, and find the pairs that reach the lowest threshold (Alg. 6 and 7)."""
    geometry, truth_geometry = sides.detections.geometry, sides.truths.geometry
    gather_shapes, gather_truths = (each.gatherer(protocol, home) for each in (geometry, truth_geometry))

    def candidates_among(detection_ND: Ints, truth_NG: Ints) -> tuple[Ints, Ints, Array]:
        similarity_NDG = geometry.pairwise(
            gather_shapes(sides.row_D[detection_ND]),
            gather_truths(sides.row_H[truth_NG]),
            gather(is_shared_H, truth_NG),
            protocol,
        )
        similarity_P = namespace(similarity_NDG).reshape(similarity_NDG, (-1,))
        index_Q = np.flatnonzero(to_numpy(reaches(similarity_P, protocol.cutoffs[0], protocol.comparison)))
        row_Q, truth_Q = np.divmod(index_Q, truth_NG.shape[1])
        image_Q = row_Q // detection_ND.shape[1]
        return detection_ND.reshape(-1)[row_Q], truth_NG[image_Q, truth_Q], gather(similarity_P, index_Q)

    most = geometry.pairs_per_batch
    found = [candidates_among(*pairs) for pairs in _pairs(groups, None if most is None else most // _share(home))]
    nothing = np.zeros(0, np.int64)
    detection_Q = np.concatenate([nothing, *(each[0] for each in found)])
    first_S = np.flatnonzero(is_first(detection_Q))
    return _Candidates(
        detection_S=detection_Q[first_S],
        first_S=first_S,
        count_S=np.diff(first_S, append=detection_Q.size),
        truth_Q=np.concatenate([nothing, *(each[1] for each in found)]),
        similarity_Q=namespace(home).concat([each[2] for each in found], axis=0) if found else nothing,
    )


def _share(home: Array) -> int:
    """The divisor of batch sizes for the device of `home`. JAX compiles each step for each size: few are best."""
    return SHARE_IN_HOST_MEMORY if is_in_host_memory(home) and library(home) != "jax" else 1


def _pairs(groups: Groups, pairs_per_batch: int | None) -> Iterator[tuple[Ints, Ints]]:
    """Yield batches with all pairs of a detection and a truth of its group, by detection. Shapes (N, D) and (N, G).

    Each batch has N pairs of one detection and one truth; or, without `pairs_per_batch`, one whole group.
    """
    row_P = np.flatnonzero(groups.count_D)
    if pairs_per_batch is None:
        for rows in np.split(row_P, np.flatnonzero(is_first(groups.group_D[row_P]))[1:]) if row_P.size else ():
            yield rows[None], ranges(groups.start_D[rows[:1]], groups.count_D[rows[:1]])[None]
        return
    for rows in _split(row_P, np.cumsum(groups.count_D[row_P]), pairs_per_batch):
        truth_P = ranges(groups.start_D[rows], groups.count_D[rows])
        yield np.repeat(rows, groups.count_D[rows])[:, None], truth_P[:, None]


def _split(row_P: Ints, end_P: Ints, most: int) -> list[Ints]:
    """Split rows into parts of at most `most` pairs, or one row. `end_P`: cumulative number of pairs."""
    size_P = np.diff(end_P, prepend=0)
    part_P = (end_P - size_P) // max(1, most - size_P.max(initial=0))
    return np.split(row_P, np.flatnonzero(is_first(part_P))[1:]) if row_P.size else []


def _settle(
    candidates: _Candidates, rank_D: Ints, groups: Groups, truths: TruthRows, protocol: Protocol, *, has_takes: bool
) -> tuple[NDArray[np.uint8], Ints, NDArray[np.float64]]:
    """The verdicts of all detections with candidates, in host memory (Alg. 8 and 9). Shapes (S, A, T), (S,) and (S,).

    With `has_takes` also the truth, out of H, that each takes in the first cell, or -1, and their similarity.
    """
    num_settled = candidates.detection_S.size
    num_areas, num_thresholds = len(protocol.areas), len(protocol.thresholds)
    verdict_SAT = np.zeros((num_settled, num_areas, num_thresholds), np.uint8)
    taken_S, similarity_S = np.full(num_settled, -1), np.zeros(num_settled)
    group_S = groups.group_D[candidates.detection_S]
    most_candidates = CELLS_PER_BLOCK // _share(candidates.similarity_Q) // (num_areas * num_thresholds)
    for index in _blocks(group_S, candidates.count_S, most_candidates):
        row_G, settled = _settle_block(index, candidates, rank_D, groups, truths, protocol)
        verdict_SAT[index] = to_numpy(settled.verdict_DAT)
        if has_takes:
            taken_S[index] = np.append(row_G, -1)[to_numpy(settled.taken_D)]
            similarity_S[index] = to_numpy(settled.similarity_D)
    return verdict_SAT, taken_S, similarity_S


def _blocks(group_S: Ints, count_S: Ints, most_candidates: int) -> Iterator[Ints]:
    """Yield detections to settle together: whole groups with similar numbers of candidates, for little padding."""
    if group_S.size * count_S.max(initial=0) <= most_candidates:
        if group_S.size:
            yield np.arange(group_S.size)
        return
    is_first_S = is_first(group_S)
    first_N = np.flatnonzero(is_first_S)
    most_N = np.maximum.reduceat(count_S, first_N)
    size_N = 1 << np.ceil(np.log2(most_N)).astype(np.int64)  # the next power of two
    size_S = size_N[np.cumsum(is_first_S) - 1]
    for size in np.unique(size_N).tolist():
        index = np.flatnonzero(size_S == size)
        start_P = np.flatnonzero(is_first(group_S[index]))
        end_P = np.append(start_P[1:], index.size)
        for part in _split(np.arange(start_P.size), end_P, most_candidates // size):
            yield index[start_P[part[0]] : end_P[part[-1]]]


def _settle_block(
    index: Ints, candidates: _Candidates, rank_D: Ints, groups: Groups, truths: TruthRows, protocol: Protocol
) -> tuple[Ints, Settled]:
    """Settle some whole groups: their truths, out of H, and which detection takes which.

    `index`: detections with candidates, out of S.
    """
    detection_S, first_S, count_S = candidates.detection_S[index], candidates.first_S[index], candidates.count_S[index]
    num_candidates = int(count_S.max())
    slot_SC = np.minimum(np.arange(num_candidates), count_S[:, None] - 1) + first_S[:, None]
    similarity_SC = gather(candidates.similarity_Q, slot_SC)
    xp = namespace(similarity_SC)
    if num_candidates > 1:
        is_slot_SC = convert(np.arange(num_candidates) < count_S[:, None], like=similarity_SC)
        similarity_SC = xp.where(is_slot_SC, similarity_SC, -xp.ones_like(similarity_SC))

    # Renumber the truths of these groups.
    is_first_S = is_first(groups.group_D[detection_S])
    start_N, count_N = groups.start_D[detection_S[is_first_S]], groups.count_D[detection_S[is_first_S]]
    moved_N = np.cumsum(count_N) - count_N - start_N
    truth_SC = candidates.truth_Q[slot_SC] + moved_N[np.cumsum(is_first_S) - 1][:, None]
    row_G = ranges(start_N, count_N)
    block = TruthRows(*(None if column is None else gather(column, row_G) for column in truths))

    is_one_enough = protocol.matching == "best" and truths.is_group_G is None
    preferred = nominate(
        similarity_SC,
        convert(truth_SC, like=similarity_SC),
        protocol.ties,
        num_candidates=1 if is_one_enough else num_candidates,
    )
    return row_G, settle(preferred, convert(rank_D[detection_S], like=similarity_SC), block, protocol)
