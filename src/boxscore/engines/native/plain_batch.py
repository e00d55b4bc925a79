"""A batch of dicts to a tally: the fast path of the metric, for batches with nothing to convert or to say."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.arrays import is_in_host_memory, library, to_numpy
from boxscore.engines.native.columns import class_ids
from boxscore.engines.native.compiled_engine import tally_of
from boxscore.engines.native.rules import rules_of
from boxscore.geometry.boxes import Boxes, BoxFormat
from boxscore.model.batch_keys import DETECTION_KEYS, TRUTH_KEYS, Keys
from boxscore.model.batches import concatenate_alike
from boxscore.model.dataset import ignored_kinds
from boxscore.model.protocol import LARGEST_SIDE, Protocol
from boxscore.model.tally import Tally

Columns = dict[str, NDArray[Any]]


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
    """The tally of a batch as it mostly comes: tensors or arrays in host memory, all images alike, nothing invalid.

    None: there is something to convert or to say, which is for `Detections.from_images` and `Truths.from_images`.
    """
    if not len(preds) == len(targets) == len({*image_ids}) == len(image_ids):
        return None
    detections, truths = _joined(preds, DETECTION_KEYS, image_ids), _joined(targets, TRUTH_KEYS, image_ids)
    if detections is None or truths is None:
        return None
    boxes, truth_boxes = (_boxes(columns, box_format, protocol) for columns in (detections, truths))
    if boxes is None or truth_boxes is None:
        return None
    label, truth_label, score = detections["label"], truths["label"], detections["score"]
    area, ignore = truths.get("area"), truths.get("ignore")
    if not (
        _compiled.are_batch_columns_valid(boxes, LARGEST_SIDE, label, score)
        and _compiled.are_batch_columns_valid(truth_boxes, LARGEST_SIDE, truth_label, None, area, ignore)
    ):
        return None
    if class_names is not None:
        for column in (label, truth_label):
            if not class_names.keys() >= {*_compiled.distinct(column).tolist()}:
                return None
    tally = _compiled.match(
        _compiled.Detections(detections["image"], label, score, boxes),
        _compiled.Truths(
            truths["image"],
            truth_label,
            truth_boxes,
            None if area is None else area.astype(np.float64, copy=False),
            None if ignore is None else ignored_kinds(ignore, protocol),
        ),
        class_ids(class_names),
        rules_of(protocol),
        threads,
    )
    return tally_of(tally, protocol, class_names)


def _joined(images: Sequence[Mapping[str, Any]], keys: Keys, image_ids: Sequence[int]) -> Columns | None:
    """The columns of all images in host memory, image by image."""
    used = keys.used(images)
    joined = None if used is None else concatenate_alike(images, used)
    if joined is None:
        return None
    columns, num_rows = joined
    if library(columns["box"]) not in ("numpy", "torch") or not is_in_host_memory(columns["box"]):
        return None
    try:
        image = _compiled.repeat_ids(image_ids, num_rows)
    except TypeError:  # not all ids are integers of 64 bits
        return None
    return {"image": image, **{name: to_numpy(column) for name, column in columns.items()}}


def _boxes(columns: Columns, box_format: BoxFormat, protocol: Protocol) -> Any:
    """Boxes as they are; None if there is something to convert."""
    box = columns["box"]
    if box.dtype not in (np.float32, np.float64) or box.ndim != 2 or box.shape[1] != 4:
        return None
    try:
        return Boxes.compile_array(box, box_format, protocol)
    except (TypeError, ValueError):  # not contiguous, not aligned or not in native byte order
        return None
