"""Prepare columns for matching under a protocol: one geometry, only rows that count, values of the ranges."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.arrays import convert, to_numpy
from boxscore.data.coverage import Coverage
from boxscore.data.dataset import (
    IGNORED_KINDS,
    Columns,
    Detections,
    Truths,
    host_areas,
    host_ids,
    host_scores,
    take,
    with_geometries,
)
from boxscore.protocol.protocol import GROUP, Protocol


class Prepared(NamedTuple):
    """Detections and truths, prepared for matching."""

    detections: Detections
    truths: Truths
    row: NDArray[np.int64] | None
    """The input row of each detection; None: no row was dropped. Shape (D,)."""
    truth_row: NDArray[np.int64] | None
    """The input row of each truth; None: no row was dropped. Shape (G,)."""


def prepare(detections: Detections, truths: Truths, protocol: Protocol) -> tuple[Detections, Truths]:
    """Prepare detections and truths for matching. Idempotent."""
    prepared = prepare_rows(detections, truths, protocol)
    return prepared.detections, prepared.truths


def prepare_rows(detections: Detections, truths: Truths, protocol: Protocol) -> Prepared:
    """Prepare detections and truths for matching, and record their input rows."""
    row = truth_row = None
    detections, truths = shaped_by(detections, protocol.iou_type), shaped_by(truths, protocol.iou_type)
    _check_groups(truths, protocol)
    if (is_kept := kept_detections(detections, protocol)) is not None:
        detections, row = take(detections, is_kept), np.flatnonzero(is_kept)
    if not protocol.needs and truths.coverage is None:
        return Prepared(detections, truths, row, truth_row)
    if protocol.ignored == "absent":
        is_kept = ~_is_ignored(truths)
        truths, truth_row = take(truths, is_kept), np.flatnonzero(is_kept)
    if protocol.clips_boxes:
        sizes = truths.image_sizes
        detections, truths = _clipped(detections, sizes, protocol), _clipped(truths, sizes, protocol)
    if protocol.truth_area == "shape":
        truths = replace(truths, area=None)
    if protocol.empty == "drop":
        is_kept = host_areas(truths, protocol) > 0
        truth_row = np.flatnonzero(is_kept) if truth_row is None else truth_row[is_kept]
        truths = take(truths, is_kept)
    truths = replace(truths, coverage=_coverage(detections, truths, protocol))
    if protocol.ranges_by == "crowd_index":
        known = truths.crowd_index
        detections, truths = _ranged_by(detections, known, protocol), _ranged_by(truths, known, protocol)
    return Prepared(detections, truths, row, truth_row)


def kept_detections(detections: Detections, protocol: Protocol) -> NDArray[np.bool_] | None:
    """Whether each detection is not blank and reaches the minimum score, in host memory; None: all do. Shape (D,).

    The detections must have only the geometry of the protocol.
    """
    is_blank = detections.geometry.is_blank(protocol)
    is_kept = None if is_blank is None else ~is_blank
    if protocol.min_score is None:
        return is_kept
    is_scored: NDArray[np.bool_] = host_scores(detections.scores) >= protocol.min_score
    return is_scored if is_kept is None else is_kept & is_scored


def shaped_by(columns: Columns, iou_type: str) -> Columns:
    """Keep only the geometry that supports a similarity. Raise `InputError` if none does."""
    found = next((each for each in columns.geometries if iou_type in each.iou_types), None)
    if found is None:
        name, known = type(columns).__name__, ", ".join(columns.iou_types())
        raise InputError(
            f"`iou_type` {iou_type!r} needs other shapes; these {name} have {columns.shape_names()} ({known})"
        )
    return columns if columns.geometries == (found,) else with_geometries(columns, found)


def common_iou_type(detections: Detections, truths: Truths) -> str | None:
    """The first similarity that both sides support, in the order of the detections' geometries; None: none."""
    known = truths.iou_types()
    return next((iou_type for iou_type in detections.iou_types() if iou_type in known), None)


def _check_groups(truths: Truths, protocol: Protocol) -> None:
    if truths.kind is None or protocol.group_of_weight is not None:
        return
    if (groups := np.flatnonzero(to_numpy(truths.kind) == GROUP)).size:
        raise InputError(
            f"`kind` of truth {groups[0]} is 3, a group, for which protocol {protocol.name} has no rule: evaluate under"
            " openimages, set `group_of_weight`, or leave groups out"
        )


def _is_ignored(truths: Truths) -> NDArray[np.bool_]:
    """Whether each truth is marked as ignored, difficult or a crowd. Shape (G,)."""
    if truths.ignore is not None:
        return to_numpy(truths.ignore).astype(bool)
    kind = np.zeros(len(truths), np.uint8) if truths.kind is None else to_numpy(truths.kind)
    return np.isin(kind, IGNORED_KINDS)


def _coverage(detections: Detections, truths: Truths, protocol: Protocol) -> Coverage | None:
    """The coverage, if the protocol is federated. Raise `InputError` if it is missing."""
    if not protocol.federated:
        return None
    if truths.coverage is None and (len(detections) or len(truths)):
        raise InputError(
            f"`coverage` must be given for the truths: protocol {protocol.name} counts a class only in images where it"
            " was verified; LVIS' files have `neg_category_ids`, `image_labels` of `read_truths` reads Open Images'"
            f" (Protocol.named({protocol.name!r}, federated=False) counts every class in every image)"
        )
    return truths.coverage


def _clipped(columns: Columns, sizes: Mapping[int, tuple[int, int]] | None, protocol: Protocol) -> Columns:
    """Clip the shapes to their images."""
    if len(columns) == 0:
        return columns
    images, index = np.unique(host_ids(columns.image_ids), return_inverse=True)
    known = sizes or {}
    if unknown := [image for image in images.tolist() if image not in known]:
        raise InputError(
            f"`image_sizes` must have every image: protocol {protocol.name} clips boxes to their images; got none for"
            f" image {unknown[0]} (Protocol.named({protocol.name!r}, clips_boxes=False) leaves boxes as they are)"
        )
    size = np.array([known[image] for image in images.tolist()])[index]
    return replace(columns, geometry=columns.geometry.clipped(size[:, 0], size[:, 1]))


def _ranged_by(columns: Columns, values: Mapping[int, float] | None, protocol: Protocol) -> Columns:
    """Replace the areas by the value of each row's image."""
    if len(columns) == 0:
        return columns
    if values is None:
        raise InputError(
            f"`crowd_index` must be given for the truths, `crowdIndex` of images in COCO's files: protocol"
            f" {protocol.name} has ranges of it; got none"
        )
    images, index = np.unique(host_ids(columns.image_ids), return_inverse=True)
    if unknown := [image for image in images.tolist() if image not in values]:
        raise InputError(f"`crowd_index` must have every image; got none for image {unknown[0]}")
    column = np.array([float(values[image]) for image in images.tolist()])[index]
    return replace(columns, area=convert(column, like=columns.geometry.arrays[0]))
