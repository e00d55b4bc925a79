"""COCO files straight to a Summary, in the compiled core alone: no columns in Python, and no NumPy to wait for."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import boxscore._compiled as _compiled
from boxscore.analysis.suspicion import Counts
from boxscore.engines.native.rules import rules_of
from boxscore.model.measures import measures
from boxscore.model.protocol import LARGEST_SIDE, Protocol
from boxscore.model.summary import ClassRow, Summary, ap_50_of


def summarize_files(truths: Path, detections: Sequence[Path], protocol: Protocol, threads: int) -> list[Summary] | None:
    """A summary for each file of detections, the same as that of `evaluate`.

    None if this way can't do it: the files are not a COCO dataset and lists of results, or there is something in them
    that a reader would tell the user about, or the result looks like a mistake in the input.
    """
    if protocol.average != "macro" or protocol.class_agnostic or os.name == "nt":
        return None
    if not all(path.is_file() for path in (truths, *detections)):
        return None
    wanted = list(measures(protocol))
    results = _compiled.evaluate_coco_files(
        os.fsencode(truths),
        [os.fsencode(path) for path in detections],
        rules_of(protocol),
        [(measure.is_recall, measure.thresholds, measure.area, measure.limit) for measure in wanted],
        LARGEST_SIDE,
        protocol.pixels == "inclusive",
        protocol.kind_of_ignored,
        threads,
    )
    if results is None:
        return None
    summaries = [
        Summary(
            protocol=protocol,
            numbers={measure.name: number for measure, number in zip(wanted, result["numbers"], strict=True)},
            per_class=list(_rows(result, protocol.thresholds)),
            iou_dtype="float64",
            num_beyond_limit=result["num_read"] - sum(result["num_detections"]),
        )
        for result in results
    ]
    if any(Counts.of_rows(summary.per_class).is_suspicious for summary in summaries):
        return None  # the boxes may tell why
    return summaries


def _rows(result: dict[str, Any], thresholds: Sequence[float]) -> Sequence[ClassRow]:
    num_thresholds = len(thresholds)

    def at(name: str, k: int) -> Any:
        return result[name][k * num_thresholds : (k + 1) * num_thresholds]

    return [
        ClassRow(
            label=result["label"][k],
            name=result["name"][k],
            ap=result["ap"][k],
            ap_50=ap_50_of(at("ap_at", k), thresholds),
            ar=result["ar"][k],
            num_truths=result["num_truths"][k],
            num_detections=result["num_detections"][k],
            ap_at=at("ap_at", k),
            num_true=at("num_true", k),
            num_false=at("num_false", k),
        )
        for k in range(len(result["label"]))
    ]
