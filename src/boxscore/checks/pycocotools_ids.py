"""Find annotation ids that change the result of pycocotools, and compute that result.

pycocotools stores the id of the truth that a detection matches, where 0 means no match; and it looks up annotations by
id, so the last of several annotations with the same id replaces the others.
"""

import contextlib
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from boxscore._support.inputs import ParsedFile, kept
from boxscore._support.text import count
from boxscore.formats import detect, read_records
from boxscore.formats.records import Ids
from boxscore.protocol.protocol import Protocol

SAME = 1e-12
"""Maximum difference of equal results, whose sums may be in different order."""


def why_ids_differ(ids: Ids | None) -> str | None:
    """The reason why pycocotools may give another result with these annotation ids; None if it does not.

    >>> why_ids_differ(np.array([0, 1, 2])), why_ids_differ(np.array([1, 2]))
    ('an annotation has the id 0, which means no match in pycocotools', None)
    """
    if ids is None or not len(ids):
        return None
    reasons = []
    if (ids == 0).any():
        reasons.append("an annotation has the id 0, which means no match in pycocotools")
    if num := len(ids) - len(np.unique(ids)):
        what = count(num, "annotation has the id of another", "annotations have the id of another")
        reasons.append(f"{what}, which pycocotools confuses")
    return "; ".join(reasons) or None


def ids_of(truths: str | Path, name: str | None) -> Ids | None:
    """Read the annotation ids of a COCO dataset; None for other formats."""
    if (name or detect(truths, "truths")) != "coco":
        return None
    known: ParsedFile | None = kept("truths", truths)
    return read_records(truths, "truths", format="coco").id if known is None else known.file.boxes.id


def has_protocol(protocol: Protocol) -> bool:
    """Whether pycocotools can be configured to these rules."""
    coco = Protocol.named("coco")
    rules = ("matching", "ties", "ignored", "comparison", "ap", "pixels", "average", "class_agnostic", "limits_per")
    is_known = protocol.iou_type in ("bbox", "segm") and None not in protocol.limits and not protocol.needs
    return is_known and all(getattr(protocol, rule) == getattr(coco, rule) for rule in rules)


def map_of_pycocotools(truths: str | Path, detections: str | Path, protocol: Protocol) -> float | None:
    """Compute pycocotools' mean AP for two COCO files; None if it lacks the protocol, or cannot read the files."""
    if not has_protocol(protocol):
        return None
    from boxscore.dropin.accumulation import mean_of
    from boxscore.dropin.coco_dataset import COCO
    from boxscore.dropin.evaluation import COCOeval

    areas, limits = protocol.areas, protocol.limits
    with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        try:
            dataset = COCO(os.fspath(truths))
            evaluation: Any = COCOeval(dataset, dataset.loadRes(os.fspath(detections)), protocol.iou_type)
            params = evaluation.params
            params.iouThrs, params.recThrs = np.array(protocol.thresholds), np.array(protocol.recall_points)
            params.maxDets = [int(limit) for limit in limits if limit is not None]
            params.areaRng = [[area.low, area.high] for area in areas]
            params.areaRngLbl = [area.name for area in areas]
            evaluation.evaluate()
            evaluation.accumulate()
        except Exception:  # pycocotools would fail, too
            return None
    mean = mean_of(evaluation.eval["precision"], areas=[0], limits=[len(params.maxDets) - 1])
    return None if np.isnan(mean) else mean


def differing(
    truths: str | Path, files: Sequence[tuple[str | Path, float]], protocol: Protocol, name: str | None = None
) -> list[str]:
    """Warnings about files for which pycocotools would give another result because of annotation ids.

    `files`: paths of detections, each with its `map` by boxscore.
    """
    if not has_protocol(protocol) or (why := why_ids_differ(ids_of(truths, name))) is None:
        return []
    messages = []
    for path, own in files:
        other = map_of_pycocotools(truths, path, protocol)
        if other is None:
            messages.append(f"{truths}: {why}: it may give other results for {path}")
        elif abs(other - own) > SAME:
            messages.append(f"{truths}: {why}: it would give map {other:.4f} for {path}, not {own:.4f}")
    return messages
