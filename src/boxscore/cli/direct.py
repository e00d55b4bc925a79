"""Evaluate COCO files to a Summary without NumPy, whose import takes as long as the rest."""

import os
from collections.abc import Sequence
from typing import Any

import boxscore._compiled as _compiled
from boxscore._support.inputs import ParsedFile, Part, keep
from boxscore.checks.suspicion import Counts
from boxscore.cli.early_files import EarlyFiles
from boxscore.engines.native.rules import compiled_measures, rules_of
from boxscore.protocol.measures import measures
from boxscore.protocol.protocol import LARGEST_SIDE, KeypointRules, Protocol
from boxscore.result.summary import ClassRow, Summary, ap_50_of

_Path = str | os.PathLike[str]


def summarize_files(
    truths: _Path,
    detections: Sequence[_Path],
    protocols: Sequence[Protocol],
    threads: int,
    early: EarlyFiles | None = None,
) -> list[list[Summary] | None]:
    """Summarize each file of detections by each protocol, with the numbers of `evaluate`.

    Args:
        truths: The file of a COCO dataset.
        detections: Files of COCO results.
        protocols: Protocols that differ only in `iou_type`.
        threads: The number of threads of the compiled core.
        early: Files of boxes that are read already.

    Returns:
        The summaries of each file by protocol; None for a file that needs an error or a warning, which the general path
        reports, and for all files if the truths need one or the protocol needs more than rows. What was read is kept,
        for the general path to continue from; only masks and keypoints of detections are read again, because those
        that are compared with no truth were only measured.
    """
    if not all(map(_is_supported, protocols)) or os.name == "nt" or not os.path.isfile(truths):  # noqa: PTH113 (as below)
        return [None] * len(detections)
    shapes = "boxes"
    if any(each.iou_type in ("segm", "boundary") for each in protocols):
        shapes = "masks"
    elif protocols[0].iou_type == "keypoints":
        shapes = "keypoints"
    try:
        dataset = _read(truths, shapes, threads, early)
        dataset.complete_truths(threads)
    except (_compiled.CocoError, _compiled.MaskError, OSError):
        return [None] * len(detections)
    summaries = [_summaries(dataset, path, shapes, protocols, threads, early) for path in detections]
    if None in summaries:
        _keep("truths", truths, dataset, shapes)
    return summaries


def _read(
    path: _Path,
    shapes: str,
    threads: int,
    early: EarlyFiles | None,
    compared: _compiled.CocoFile | None = None,
) -> _compiled.CocoFile:
    """Read a file, or take it if it is read already. `compared`: the truths that detections are compared with."""
    if shapes == "boxes":
        taken = early.take(os.fspath(path)) if early is not None else None
        return _compiled.read_coco_file(os.fsencode(path), threads) if taken is None else taken
    settings: dict[str, Any] = {"shapes": getattr(_compiled.CocoShapes, shapes)}
    if compared is not None:  # only areas are needed of masks and keypoints that are compared with no truth
        settings |= {"compared": compared.pairs(), "keeps_third": False}
    return _compiled.read_coco_file(os.fsencode(path), threads, **settings)


def _keep(role: Part, path: _Path, file: _compiled.CocoFile, shapes: str) -> None:
    keep("head", path, file.head())
    keep(role, path, ParsedFile(file, shapes))


def _is_supported(protocol: Protocol) -> bool:
    if protocol.average != "macro" or protocol.class_agnostic or protocol.needs or protocol.class_groups:
        return False
    if protocol.limits_per == "dataset" or protocol.keypoints != KeypointRules():
        return False
    return hasattr(_compiled.IouType, protocol.iou_type)


def _summaries(
    dataset: _compiled.CocoFile,
    path: _Path,
    shapes: str,
    protocols: Sequence[Protocol],
    threads: int,
    early: EarlyFiles | None,
) -> list[Summary] | None:
    """Summarize one file of detections; if it can't be done here, keep what was read."""
    protocol = protocols[0]
    rules = _compiled.ShapeRules(
        [getattr(_compiled.IouType, each.iou_type) for each in protocols],
        LARGEST_SIDE,
        protocol.pixels == "inclusive",
        protocol.ignored_kind,
        protocol.dilation_ratio,
        list(protocol.sigmas),
    )
    if not os.path.isfile(path):  # noqa: PTH113 (without waiting for pathlib)
        return None
    try:
        results = _read(path, shapes, threads, early, compared=dataset)
        results.complete_detections(threads, dataset)
    except (_compiled.CocoError, _compiled.MaskError, OSError):
        return None
    columns = _compiled.coco_columns(dataset, results, rules, threads)
    if columns is not None:
        summaries = [
            _summary(protocol, sides, dataset, num_read=len(results), threads=threads)
            for protocol, sides in zip(protocols, columns, strict=True)
        ]
        if not any(Counts.of_rows(each.per_class).is_suspicious for each in summaries):
            return summaries
    if shapes == "boxes":
        _keep("detections", path, results, shapes)
    return None


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
