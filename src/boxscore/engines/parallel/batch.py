"""A whole mini-batch in static shapes: Alg. 5 to 9 under any protocol.

Dimensions: N images, D detections, G truths, A areas, T thresholds, X = A * T cells.
"""

from collections.abc import Iterable
from typing import NamedTuple

from boxscore._support.exceptions import InputError
from boxscore.arrays import Array, float_dtype, namespace, size_of
from boxscore.data.coverage import NOT_COVERED, NOT_EXHAUSTIVE
from boxscore.data.dataset import ignored_kinds, kinds_under
from boxscore.data.geometry import PairwiseSimilarity, is_in_areas
from boxscore.data.geometry.box_formats import UPRIGHT_FORMATS, BoxFormat, check_box_format
from boxscore.data.geometry.boxes import Boxes, padded_boxes
from boxscore.engines.parallel.categorization import Batch, in_cells, sweep
from boxscore.engines.parallel.iou import filter_iou
from boxscore.engines.parallel.loading import PaddedDetections, PaddedTruths
from boxscore.engines.parallel.postprocessing import rank_by_score
from boxscore.protocol.protocol import CROWD, DIFFICULT, GROUP, Protocol, ProtocolLike, as_protocol
from boxscore.result.tally import TRUE


class DetectionBatch(NamedTuple):
    """The detections of a mini-batch, of any geometry."""

    columns: tuple[Array, ...]
    """Columns that the similarity reads. Shapes (N, D, ...)."""
    area: Array
    """Shape (N, D)."""
    label: Array
    """Shape (N, D)."""
    score: Array
    """Shape (N, D)."""
    discarded: Array
    """True for padding, too. Shape (N, D)."""
    coverage: Array | None = None
    """uint8, or None if all count. Shape (N, D)."""


class TruthBatch(NamedTuple):
    """The truths of a mini-batch, of any geometry."""

    columns: tuple[Array, ...]
    """Columns that the similarity reads. Shapes (N, G, ...)."""
    area: Array
    """Shape (N, G)."""
    label: Array
    """-1 for padding. Shape (N, G)."""
    kind: Array | None = None
    """uint8, or None if all are regular. Shape (N, G)."""
    is_group: Array | None = None
    """Whether the truth is a group; None without groups. Shape (N, G)."""


class Matched(NamedTuple):
    """The verdicts of a mini-batch."""

    verdict: Array
    """2 true positive, 1 false positive, 0 ignored or discarded. Shape (N, D, A, T)."""
    rank: Array
    """The rank by score within image and class, or within image. Shape (N, D)."""
    discarded: Array
    """The given mask, extended by all beyond the protocol's largest limit. Shape (N, D)."""


class Judged(NamedTuple):
    """The verdicts of a mini-batch, one flag per cell; cell a * T + t is area range a at threshold t."""

    is_true: Array
    """Shape (N, D, X)."""
    is_false: Array
    """False for ignored and discarded detections, too. Shape (N, D, X)."""
    rank: Array
    """As in `Matched`."""
    discarded: Array
    """As in `Matched`."""


def match_batch(
    detections: PaddedDetections,
    truths: PaddedTruths,
    protocol: ProtocolLike,
    *,
    box_format: BoxFormat = "xyxy",
) -> Matched:
    """Match a padded mini-batch of boxes, in every area range and at every threshold. Can be jitted.

    Ties are broken by the order of rows. As in COCO, `evaluate` first sorts rows by label if classes are disregarded;
    this function doesn't.

    Args:
        detections: A padded batch; under a federated protocol with `coverage`.
        truths: A padded batch. `kind` 3, a group, needs a protocol with a `group_of_weight`.
        protocol: A protocol whose `iou_type` is "bbox", and whose rules only need the rows of a batch.
        box_format: "xyxy", "xywh" or "cxcywh".

    Raises:
        InputError: The protocol compares other shapes than boxes, or drops or changes rows before matching.

    >>> import numpy as np
    >>> from boxscore.parallel import pad_truths
    >>> truths = pad_truths([np.array([[0.0, 0, 9, 9]])], [np.array([7])])
    >>> box, score = np.array([[[0.0, 0, 9, 9], [1, 0, 9, 9]]]), np.array([[0.8, 0.9]])
    >>> detections = PaddedDetections(box, np.array([[7, 7]]), score, np.zeros((1, 2), bool))
    >>> match_batch(detections, truths, Protocol.named("voc2007")).verdict[..., 0, 0].tolist()
    [[1, 2]]
    """
    check_box_format(box_format, UPRIGHT_FORMATS)
    protocol = as_protocol(protocol)
    check_static(protocol)
    if protocol.federated and detections.coverage is None:
        raise InputError(f"`detections` must have `coverage`: protocol {protocol.name} is federated; got None")
    columns = padded_boxes(detections.boxes, box_format, protocol)
    truth_columns = padded_boxes(truths.boxes, box_format, protocol)
    real = float_dtype(truths.boxes)
    return match_shapes(
        DetectionBatch(
            columns, columns.area, detections.labels, detections.scores, detections.discarded, detections.coverage
        ),
        TruthBatch(
            truth_columns,
            truth_columns.area if truths.area is None else namespace(truths.area).astype(truths.area, real),
            truths.labels,
            ignored_kinds(truths.ignore, protocol) if truths.kind is None else kinds_under(truths.kind, protocol),
            None if truths.kind is None else truths.kind == GROUP,
        ),
        protocol,
        Boxes.pairwise,
    )


def check_static(protocol: Protocol, iou_types: Iterable[str] = Boxes.iou_types) -> None:
    """Raise `InputError` for a protocol of other similarities, or whose rules drop or change rows before matching.

    Federated protocols are allowed: the batch has its coverage in `PaddedDetections.coverage`.
    """
    if protocol.iou_type not in iou_types:
        known = ", ".join(map(repr, iou_types))
        raise InputError(
            f"protocol {protocol.name} has `iou_type` {protocol.iou_type!r}, and padded batches in static shapes have"
            f" {known}: use `boxscore.evaluate` or `boxscore.MeanAveragePrecision`"
        )
    if needed := [name for name in protocol.needs if name not in ("federated", "extra_numbers")]:
        raise InputError(
            f"protocol {protocol.name} has a rule that padded batches can't follow, `{needed[0]}`: use"
            " `boxscore.evaluate` or `boxscore.MeanAveragePrecision`"
        )


def match_shapes(
    detections: DetectionBatch, truths: TruthBatch, protocol: Protocol, similarity: PairwiseSimilarity
) -> Matched:
    """Match a padded mini-batch of any geometry: `match_batch` with the similarity as an argument.

    No step behind the similarity sees a shape.
    """
    judged = judge(detections, truths, protocol, similarity)
    xp = namespace(judged.rank)
    verdict_NDX = TRUE * xp.astype(judged.is_true, xp.uint8) + xp.astype(judged.is_false, xp.uint8)
    shape_NDAT = (*(size_of(judged.rank, axis) for axis in (0, 1)), len(protocol.areas), len(protocol.thresholds))
    return Matched(xp.reshape(verdict_NDX, shape_NDAT), judged.rank, judged.discarded)


def judge(detections: DetectionBatch, truths: TruthBatch, protocol: Protocol, similarity: PairwiseSimilarity) -> Judged:
    """Match a padded mini-batch of any geometry, in static shapes, without constants from the host and reads."""
    xp = namespace(detections.area, truths.area)
    label_ND, truth_label_NG = detections.label, truths.label
    if protocol.class_agnostic:
        label_ND = xp.minimum(label_ND, xp.zeros_like(label_ND))
        truth_label_NG = xp.minimum(truth_label_NG, xp.zeros_like(truth_label_NG))

    discarded_ND = detections.discarded
    group_ND = None if protocol.limits_per == "image" else label_ND
    rank_ND = rank_by_score(detections.score, label=group_ND, discarded=discarded_ND)
    limit = protocol.match_limits[-1]
    if limit is not None:
        discarded_ND = discarded_ND | (rank_ND >= limit)
    # An unmatched detection counts by its area, and by the coverage of its image.
    is_counted_NDA = is_in_areas(detections.area, protocol.areas)
    if detections.coverage is not None:
        discarded_ND = discarded_ND | (detections.coverage == NOT_COVERED)
        is_counted_NDA = is_counted_NDA & (detections.coverage != NOT_EXHAUSTIVE)[:, :, None]
    is_false_NDX = in_cells(is_counted_NDA & ~discarded_ND[:, :, None], protocol)
    if 0 in (label_ND.shape[1], truth_label_NG.shape[1]):
        return Judged(is_false_NDX & False, is_false_NDX, rank_ND, discarded_ND)
    is_shared_NG = _is_shared(truths)
    similarity_NDG = similarity(detections.columns, truths.columns, is_shared_NG, protocol)
    is_true_NDX, is_ignored_NDX = sweep(
        filter_iou(similarity_NDG, label_ND, truth_label_NG, discarded_ND),
        rank_ND,
        Batch(which_count(truths.area, truths.kind, protocol), is_shared_NG, truths.is_group),
        protocol,
    )
    return Judged(is_true_NDX, is_false_NDX & ~is_true_NDX & ~is_ignored_NDX, rank_ND, discarded_ND)


def _is_shared(truths: TruthBatch) -> Array:
    """Whether any number of detections may take a truth: crowds and groups. Shape (N, G)."""
    if truths.kind is None:
        return namespace(truths.label).zeros_like(truths.label) > 0
    return (truths.kind == CROWD) | (truths.kind == GROUP)


def which_count(area: Array, kind: Array | None, protocol: Protocol) -> Array:
    """Whether each truth counts in each area range. Shapes (...), (...); gives (..., A)."""
    is_inside = is_in_areas(area, protocol.areas)
    if kind is None:
        return is_inside
    is_regular = (kind != DIFFICULT) & (kind != CROWD)
    if protocol.group_of_weight == 0:
        is_regular = is_regular & (kind != GROUP)
    return is_inside & is_regular[..., None]
