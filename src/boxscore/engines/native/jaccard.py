"""Counts of the Jaccard index for each image, in compiled code."""

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore.arrays import to_numpy
from boxscore.data.coverage import NOT_COVERED
from boxscore.data.dataset import Detections, Truths, coverage_codes, host_ids, host_scores, take
from boxscore.engines.native.columns import compiled_columns
from boxscore.engines.native.rules import rules_of
from boxscore.protocol.protocol import REGULAR, Protocol
from boxscore.result.tally import JACCARD_SCORES

Rows = NDArray[np.int32]


def count_jaccard(
    detections: Detections, truths: Truths, images: NDArray[np.int64], protocol: Protocol, threads: int
) -> NDArray[np.int32]:
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

    def find_pairs(one: Detections, other: Truths, *, is_relative: bool) -> tuple[Rows, Rows, NDArray[np.float64]]:
        found: tuple[Rows, Rows, NDArray[np.float64]] = _compiled.find_pairs(
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
