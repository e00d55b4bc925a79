"""A batch of dicts to a tally: the fast path of the metric, for batches with nothing to convert or to say."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.arrays import is_in_host_memory, library, to_numpy
from boxscore.engines.native.columns import class_ids
from boxscore.engines.native.engine import tally_of
from boxscore.engines.native.rules import rules_of
from boxscore.geometry.boxes import BoxFormat, compiled_boxes
from boxscore.model.batch_keys import DETECTION_KEYS, TRUTH_KEYS, Keys
from boxscore.model.batches import join_alike
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
    if not all(_are_valid(columns, box_format, class_names) for columns in (detections, truths)):
        return None
    area, ignore = truths.get("area"), truths.get("ignore")
    tally = _compiled.match(
        _compiled.Detections(
            detections["image"],
            detections["label"],
            detections["score"],
            compiled_boxes(detections["box"], box_format, protocol),
        ),
        _compiled.Truths(
            truths["image"],
            truths["label"],
            compiled_boxes(truths["box"], box_format, protocol),
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
    joined = None if used is None else join_alike(images, used)
    if joined is None:
        return None
    columns, num_rows = joined
    if library(columns["box"]) not in ("numpy", "torch") or not is_in_host_memory(columns["box"]):
        return None
    ids = np.array(image_ids)
    if ids.dtype != np.int64:
        return None
    return {"image": np.repeat(ids, num_rows), **{name: to_numpy(column) for name, column in columns.items()}}


def _are_valid(columns: Columns, box_format: BoxFormat, class_names: Mapping[int, str] | None) -> bool:
    """Whether there is nothing to say of the columns of either side, and nothing to convert."""
    form, label = getattr(_compiled.BoxFormat, box_format), columns["label"]
    area, ignore = columns.get("area"), columns.get("ignore")
    reals = tuple(columns[name] for name in ("score", "area") if name in columns)
    if not _compiled.are_columns_fine(columns["box"], form, LARGEST_SIDE, (label,), reals, ()):
        return False
    if area is not None and area.min() < 0:
        return False
    if ignore is not None and ignore.dtype != np.bool_ and not ((ignore == 0) | (ignore == 1)).all():
        return False
    return class_names is None or class_names.keys() >= {*_compiled.distinct(label).tolist()}
