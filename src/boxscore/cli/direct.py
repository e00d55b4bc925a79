"""Evaluate COCO files to a Summary without NumPy, whose import takes as long as the rest."""

import os
from collections.abc import Sequence

import boxscore._compiled as _compiled
from boxscore.checks.suspicion import Counts
from boxscore.engines.native.rules import compiled_measures, rules_of
from boxscore.protocol.keypoint_rules import KeypointRules
from boxscore.protocol.measures import measures
from boxscore.protocol.protocol import LARGEST_SIDE, Protocol
from boxscore.result.summary import ClassRow, Summary, ap_50_of

_Path = str | os.PathLike[str]


def summarize_files(
    truths: _Path, detections: Sequence[_Path], protocols: Sequence[Protocol], threads: int
) -> list[list[Summary]] | None:
    """Summarize each protocol and file of detections, with the numbers of `evaluate`.

    Args:
        truths: The file of a COCO dataset.
        detections: Files of COCO results.
        protocols: Protocols that differ only in `iou_type`.
        threads: The number of threads of the compiled core.

    Returns:
        Summaries by protocol and file; None if a file, a row or a result needs an error or a warning, which the
        general path reports, or if the protocol needs more than rows.
    """
    if not all(map(_is_supported, protocols)) or os.name == "nt":
        return None
    if not all(os.path.isfile(path) for path in (truths, *detections)):  # noqa: PTH113 (without waiting for pathlib)
        return None
    try:
        by_file = _summaries_by_file(truths, detections, protocols, threads)
    except (_compiled.CocoError, _compiled.MaskError, OSError):
        return None
    if by_file is None or any(Counts.of_rows(each.per_class).is_suspicious for file in by_file for each in file):
        return None
    return [list(each) for each in zip(*by_file, strict=True)]


def _is_supported(protocol: Protocol) -> bool:
    if protocol.average != "macro" or protocol.class_agnostic or not protocol.is_plain or protocol.class_groups:
        return False
    if protocol.limits_per == "dataset" or protocol.keypoints != KeypointRules():
        return False
    return hasattr(_compiled.IouType, protocol.iou_type)


def _summaries_by_file(
    truths: _Path, detections: Sequence[_Path], protocols: Sequence[Protocol], threads: int
) -> list[list[Summary]] | None:
    protocol = protocols[0]
    shapes = _compiled.ShapeRules(
        [getattr(_compiled.IouType, each.iou_type) for each in protocols],
        LARGEST_SIDE,
        protocol.pixels == "inclusive",
        protocol.ignored_kind,
        protocol.dilation_ratio,
        list(protocol.sigmas),
    )
    read = _compiled.CocoShapes.boxes
    if any(each.iou_type in ("segm", "boundary") for each in protocols):
        read = _compiled.CocoShapes.masks
    elif protocol.iou_type == "keypoints":
        read = _compiled.CocoShapes.keypoints
    dataset = _compiled.read_coco_file(os.fsencode(truths), threads, shapes=read)
    dataset.complete_truths(threads)
    summaries = []
    for path in detections:
        # Only areas are needed of masks and keypoints that are compared with no truth.
        results = _compiled.read_coco_file(
            os.fsencode(path), threads, shapes=read, compared=dataset.pairs(), keeps_third=False
        )
        results.complete_detections(threads, dataset)
        columns = _compiled.coco_columns(dataset, results, shapes, threads)
        if columns is None:
            return None
        summaries.append(
            [
                _summary(protocol, sides, dataset, num_read=len(results), threads=threads)
                for protocol, sides in zip(protocols, columns, strict=True)
            ]
        )
    return summaries


def _summary(
    protocol: Protocol,
    sides: tuple[_compiled.Detections, _compiled.Truths],
    dataset: _compiled.CocoFile,
    *,
    num_read: int,
    threads: int,
) -> Summary:
    wanted = list(measures(protocol))
    numbers = _compiled.CompiledNumbers(compiled_measures(wanted), is_weighted=False, keeps_tally=False)
    done = _compiled.evaluate(*sides, dataset.class_ids(), rules_of(protocol), numbers, threads)
    name_of = dataset.class_names()
    rows = [
        ClassRow(
            label=label,
            name=name_of[label],
            ap=ap,
            ap_50=ap_50_of(ap_at, protocol.thresholds),
            ar=ar,
            num_truths=num_truths,
            num_detections=num_detections,
            ap_at=ap_at,
            num_true=num_true,
            num_false=num_false,
        )
        for label, ap, ar, num_truths, num_detections, ap_at, num_true, num_false in zip(
            *done.class_rows(), strict=True
        )
    ]
    return Summary(
        protocol=protocol,
        numbers={measure.name: number for measure, number in zip(wanted, done.averages.numbers, strict=True)},
        per_class=rows,
        iou_dtype="float64",
        num_left_out=num_read - sum(row.num_detections for row in rows),
    )
