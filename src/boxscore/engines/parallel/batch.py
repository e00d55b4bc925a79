"""A whole mini-batch in static shapes: Alg. 5 to 9 under any protocol.

Dimensions: N images, D detections, G truths, A areas, T thresholds.
"""

from typing import NamedTuple

from boxscore._support.arrays import Array, float_dtype, namespace
from boxscore._support.exceptions import InputError
from boxscore.engines.parallel.categorization import TruthRows, categorize
from boxscore.engines.parallel.iou import filter_iou, iou_of_measured
from boxscore.engines.parallel.loading import PaddedDetections, PaddedTruths
from boxscore.engines.parallel.postprocessing import rank_by_score
from boxscore.geometry.boxes import BoxFormat, check_box_format, is_in_areas, measure
from boxscore.model.protocol import Protocol, as_protocol
from boxscore.model.tally import FALSE


class Matched(NamedTuple):
    """What became of the detections of a mini-batch."""

    verdict: Array
    """2 true positive, 1 false positive, 0 ignored or discarded. Shape (N, D, A, T)."""
    rank: Array
    """The place by score within image and class. Shape (N, D)."""
    discarded: Array
    """As given, and all beyond the protocol's largest limit. Shape (N, D)."""


class Compared(NamedTuple):
    """A mini-batch whose boxes have been compared; nothing after this sees a box."""

    iou_NDG: Array
    rank_ND: Array
    discarded_ND: Array
    is_in_area_NDA: Array
    truths: TruthRows


def match_batch(
    detections: PaddedDetections,
    truths: PaddedTruths,
    protocol: str | Protocol,
    *,
    box_format: BoxFormat = "xyxy",
    num_candidates: int | None = None,
) -> Matched:
    """The verdicts of a padded mini-batch, in every area range and at every threshold. Can be jitted.

    No detection may have more than `num_candidates` truths of its class that reach the lowest threshold; by default all
    truths of an image are candidates, which is always right and costs memory in proportion. Ties fall by the order of
    rows; `evaluate` puts rows in order of their labels first where classes are disregarded, as in COCO.

    >>> import numpy as np
    >>> from boxscore.parallel import pad_truths
    >>> truths = pad_truths([np.array([[0.0, 0, 9, 9]])], [np.array([7])])
    >>> box, score = np.array([[[0.0, 0, 9, 9], [1, 0, 9, 9]]]), np.array([[0.8, 0.9]])
    >>> detections = PaddedDetections(box, np.array([[7, 7]]), score, np.zeros((1, 2), bool))
    >>> match_batch(detections, truths, Protocol.named("voc2007")).verdict[..., 0, 0].tolist()
    [[1, 2]]
    """
    check_box_format(box_format)
    protocol = as_protocol(protocol)
    if num_candidates is not None and num_candidates < 1:
        raise InputError(f"`num_candidates` must be at least 1; got {num_candidates}")
    xp = namespace(detections.box, truths.box)
    compared = compare(detections, truths, protocol, box_format=box_format, truth_box_format=box_format)
    unmatched_NDA1 = xp.astype(compared.is_in_area_NDA, xp.uint8)[..., None] * FALSE
    shape_NDAT = (*unmatched_NDA1.shape[:-1], len(protocol.thresholds))
    verdict_NDAT = xp.broadcast_to(unmatched_NDA1, shape_NDAT)
    num_truths = int(truths.label.shape[1])
    if num_truths > 0:
        size = num_truths if num_candidates is None else min(num_candidates, num_truths)
        found_NDAT = categorize(compared.iou_NDG, compared.rank_ND, compared.truths, protocol, num_candidates=size)
        verdict_NDAT = xp.where(found_NDAT == FALSE, verdict_NDAT, found_NDAT)
    is_discarded_ND11 = compared.discarded_ND[:, :, None, None]
    verdict_NDAT = xp.where(is_discarded_ND11, xp.zeros_like(verdict_NDAT), verdict_NDAT)
    return Matched(verdict_NDAT, compared.rank_ND, compared.discarded_ND)


def compare(
    detections: PaddedDetections,
    truths: PaddedTruths,
    protocol: Protocol,
    *,
    box_format: BoxFormat,
    truth_box_format: BoxFormat,
) -> Compared:
    """Ranks, limits and IoUs: Alg. 5 to 7 under a protocol."""
    xp = namespace(detections.box, truths.box)
    real = float_dtype(detections.box)
    label_ND, truth_label_NG = detections.label, truths.label
    if protocol.class_agnostic:
        label_ND = xp.minimum(label_ND, xp.zeros_like(label_ND))
        truth_label_NG = xp.minimum(truth_label_NG, xp.zeros_like(truth_label_NG))

    discarded_ND = detections.discarded
    rank_ND = rank_by_score(detections.score, label=label_ND, discarded=discarded_ND)
    if protocol.limits[-1] is not None:
        discarded_ND = discarded_ND | (rank_ND >= protocol.limits[-1])

    pixels = protocol.pixels
    corner_ND4, area_ND = measure(xp.astype(detections.box, real), box_format=box_format, pixels=pixels)
    truth_corner_NG4, truth_area_NG = measure(xp.astype(truths.box, real), box_format=truth_box_format, pixels=pixels)
    is_crowd_NG = truths.ignore if protocol.ignored == "crowd" else xp.zeros_like(truths.ignore)
    iou_NDG = iou_of_measured(
        corner_ND4, area_ND, truth_corner_NG4, truth_area_NG, extent=protocol.extent, is_crowd_NG=is_crowd_NG
    )
    iou_NDG = filter_iou(iou_NDG, label_ND, truth_label_NG, discarded_ND)

    size_NG = truth_area_NG if truths.area is None else xp.astype(truths.area, real)
    is_regular_NGA = is_in_areas(size_NG, protocol.areas) & ~truths.ignore[:, :, None]
    rows = TruthRows(xp.reshape(is_regular_NGA, (-1, len(protocol.areas))), xp.reshape(is_crowd_NG, (-1,)))
    return Compared(iou_NDG, rank_ND, discarded_ND, is_in_areas(area_ND, protocol.areas), rows)
