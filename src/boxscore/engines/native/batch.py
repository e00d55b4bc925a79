"""A batch of images in one compiled step, from dicts to a tally."""

from collections.abc import Mapping, Sequence
from typing import Any

import boxscore._compiled as _compiled
from boxscore._support.arrays import is_in_host_memory, library, to_numpy
from boxscore.engines.native.engine import tally_of
from boxscore.engines.native.rules import rules_of
from boxscore.geometry.boxes import BoxFormat
from boxscore.model.batch_keys import DETECTION_KEYS, TRUTH_KEYS, Keys
from boxscore.model.batches import join_alike
from boxscore.model.protocol import LARGEST_SIDE, Protocol
from boxscore.model.tally import Tally


def match_images(
    preds: Sequence[Mapping[str, Any]],
    targets: Sequence[Mapping[str, Any]],
    image_ids: Sequence[int],
    *,
    protocol: Protocol,
    box_format: BoxFormat,
    class_names: Mapping[int, str] | None,
    threads: int,
) -> Tally | None:
    """The tally of a batch as it mostly comes: tensors or arrays in host memory, all images alike, nothing wrong.

    None: there is something to convert or to say, which is for `Detections.from_images` and `Truths.from_images`.
    """
    if protocol.limits_per != "class":
        return None
    found, there = _joined(preds, DETECTION_KEYS), _joined(targets, TRUTH_KEYS)
    if found is None or there is None:
        return None
    (detections, num_rows), (truths, truth_num_rows) = found, there
    columns = _compiled.match_images(
        image_ids,
        detections["box"],
        detections["score"],
        detections["label"],
        num_rows,
        truths["box"],
        truths["label"],
        truths.get("area"),
        truths.get("ignore"),
        truth_num_rows,
        getattr(_compiled.BoxFormat, box_format),
        LARGEST_SIDE,
        None if class_names is None else list(class_names),
        rules_of(protocol),
        threads,
    )
    return None if columns is None else tally_of(columns, protocol, class_names)


def _joined(images: Sequence[Mapping[str, Any]], keys: Keys) -> tuple[dict[str, Any], list[int]] | None:
    """The columns of all images in host memory, and how many rows each image has."""
    used = keys.used(images)
    joined = None if used is None else join_alike(images, used)
    if joined is None:
        return None
    columns, num_rows = joined
    if library(columns["box"]) not in ("numpy", "torch") or not is_in_host_memory(columns["box"]):
        return None
    return {name: to_numpy(column) for name, column in columns.items()}, num_rows
