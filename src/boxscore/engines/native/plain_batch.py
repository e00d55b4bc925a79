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
from boxscore.geometry.box_formats import BoxFormat
from boxscore.geometry.boxes import Boxes
from boxscore.model.batch_keys import DETECTION_KEYS, TRUTH_KEYS, Keys
from boxscore.model.batches import are_of_kind, concatenate_alike
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
    if class_names is not None and not (_are_named(detections, class_names) and _are_named(truths, class_names)):
        return None
    columns = _compiled_columns(detections, truths, box_format, protocol)
    if columns is None or not (columns[0].is_valid(LARGEST_SIDE) and columns[1].is_valid(LARGEST_SIDE)):
        return None
    tally = _compiled.match(*columns, class_ids(class_names), rules_of(protocol), threads)
    return tally_of(tally, protocol, class_names)


def _joined(images: Sequence[Mapping[str, Any]], keys: Keys, image_ids: Sequence[int]) -> Columns | None:
    """The columns of all images in host memory, image by image."""
    used = keys.used(images)
    joined = None if used is None else _concatenated(images, used) or concatenate_alike(images, used)
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


def _concatenated(images: Sequence[Mapping[str, Any]], used: Mapping[str, str]) -> tuple[Columns, list[int]] | None:
    """The same by the compiled core, for tensors that it can read without calling Python: a call takes a microsecond.

    `make bench` measures it in the section `stream`.
    """
    if type(images) is not list or len(set(used.values())) < len(used):
        return None
    row_sizes = [4 if name == "box" else 1 for name in used.values()]
    found: tuple[list[NDArray[Any]], list[int]] | None = _compiled.concatenate_images(images, tuple(used), row_sizes)
    if found is None:
        return None
    columns = dict(zip(used.values(), found[0], strict=True))
    return (columns, found[1]) if are_of_kind(columns) else None


def _are_named(columns: Columns, class_names: Mapping[int, str]) -> bool:
    """Whether every label has a name."""
    return class_names.keys() >= {*_compiled.distinct(columns["label"]).tolist()}


def _compiled_columns(
    detections: Columns, truths: Columns, box_format: BoxFormat, protocol: Protocol
) -> tuple[Any, Any] | None:
    """Both sides as the compiled engine reads them, without a copy; None if there is something to convert."""
    area, ignore, kind = truths.get("area"), truths.get("ignore"), None
    try:
        boxes, truth_boxes = (Boxes.compile_array(side["box"], box_format, protocol) for side in (detections, truths))
        if ignore is not None and (kind := _compiled.kinds_of(ignore, protocol.ignored_kind)) is None:
            return None
        if area is not None and area.dtype == np.float32:
            area = area.astype(np.float64)
        return (
            _compiled.Detections(detections["image"], detections["label"], detections["score"], boxes),
            _compiled.Truths(truths["image"], truths["label"], truth_boxes, area, kind),
        )
    except (TypeError, ValueError):  # another dtype or layout of memory, or sizes that don't fit
        return None
