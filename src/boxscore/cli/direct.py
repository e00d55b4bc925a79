"""COCO files straight to a Summary, in the compiled core alone: no columns in Python, and no NumPy to wait for."""

import os
from collections.abc import Sequence

import boxscore._compiled as _compiled
from boxscore.checks.suspicion import Counts
from boxscore.engines.native.rules import compiled_measures, rules_of
from boxscore.protocol.keypoint_rules import KeypointRules
from boxscore.protocol.measures import measures
from boxscore.protocol.protocol import LARGEST_SIDE, Protocol
from boxscore.result.summary import ClassRow, Summary, ap_50_of


def summarize_files(
    truths: str | os.PathLike[str],
    detections: Sequence[str | os.PathLike[str]],
    protocols: Sequence[Protocol],
    threads: int,
    early_files: "_compiled.EarlyFiles | None" = None,
) -> list[list[Summary]] | None:
    """A summary for each protocol and file of detections, the same as that of `evaluate`.

    The protocols differ in `iou_type` alone. `early_files` are not read again, if they are the first ones of these.

    None if this way can't do it: the files are not a COCO dataset and lists of results, or there is something in them
    that a reader would tell the user about, or the result looks like a mistake in the input.
    """
    protocol = protocols[0]
    if protocol.average != "macro" or protocol.class_agnostic or os.name == "nt":
        return None
    if not protocol.is_plain or protocol.limits_per == "dataset" or protocol.class_groups:
        return None
    is_other = any(not hasattr(_compiled.IouType, each.iou_type) for each in protocols)
    if is_other or protocol.keypoints != KeypointRules():
        return None
    if not all(os.path.isfile(path) for path in (truths, *detections)):  # noqa: PTH113 (without waiting for pathlib)
        return None
    wanted = list(measures(protocol))
    results = _compiled.evaluate_coco_files(
        os.fsencode(truths),
        [os.fsencode(path) for path in detections],
        rules_of(protocol),
        compiled_measures(wanted),
        _compiled.ShapeRules(
            [getattr(_compiled.IouType, each.iou_type) for each in protocols],
            LARGEST_SIDE,
            protocol.pixels == "inclusive",
            protocol.ignored_kind,
            protocol.dilation_ratio,
            list(protocol.sigmas),
        ),
        threads,
        early_files,
    )
    if results is None:
        return None
    summaries = [
        [
            Summary(
                protocol=each,
                numbers={measure.name: number for measure, number in zip(wanted, result.numbers, strict=True)},
                per_class=_rows(result, each.thresholds),
                iou_dtype="float64",
                num_left_out=result.num_read - sum(result.num_detections),
            )
            for result in of_type
        ]
        for each, of_type in zip(protocols, zip(*results, strict=True), strict=True)
    ]
    if any(Counts.of_rows(summary.per_class).is_suspicious for each in summaries for summary in each):
        return None  # the shapes may tell why
    return summaries


def _rows(result: _compiled.PlainResult, thresholds: Sequence[float]) -> list[ClassRow]:
    num_thresholds = len(thresholds)
    ap_at, num_true, num_false = (
        [values[first : first + num_thresholds] for first in range(0, len(values), num_thresholds)]
        for values in (result.ap_at, result.num_true, result.num_false)
    )
    columns = {
        "label": result.label,
        "name": result.name,
        "ap": result.ap,
        "ap_50": [ap_50_of(row, thresholds) for row in ap_at],
        "ar": result.ar,
        "num_truths": result.num_truths,
        "num_detections": result.num_detections,
        "ap_at": ap_at,
        "num_true": num_true,
        "num_false": num_false,
    }
    return [ClassRow(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]
