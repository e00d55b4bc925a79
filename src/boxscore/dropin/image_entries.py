"""`evalImgs` and `ious`: what pycocotools keeps of every image and class."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.threads import num_threads
from boxscore.dropin.evaluation_columns import DetectionColumns, EvaluationColumns, TruthColumns

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Groups:
    """The rows of each image and class that has any: detections by falling score within the limit, and truths."""

    image: Ints
    label: Ints
    row: Ints
    start: Ints
    truth_row: Ints
    truth_start: Ints

    @classmethod
    def of(cls, detections: DetectionColumns, truths: TruthColumns, num_images: int, limit: int) -> "Groups":
        """Groups in the order of classes, and in it of images."""
        key, truth_key = (side.label.astype(np.int64) * num_images + side.image for side in (detections, truths))
        row = np.lexsort((-detections.score, key))
        truth_row = np.argsort(truth_key, kind="stable")
        keys = np.union1d(key, truth_key)
        key = key[row]
        rank = np.arange(len(row)) - np.searchsorted(key, key)
        row, key = row[rank < limit], key[rank < limit]
        return cls(
            image=keys % num_images,
            label=keys // num_images,
            row=row,
            start=_starts(key, keys),
            truth_row=truth_row,
            truth_start=_starts(truth_key[truth_row], keys),
        )

    @property
    def compiled(self) -> _compiled.ImageGroups:
        """Where they begin, for the compiled engine."""
        return _compiled.ImageGroups(self.start, self.truth_start)

    @property
    def sizes(self) -> tuple[list[int], list[int]]:
        """How many detections and truths each has."""
        return np.diff(self.start).tolist(), np.diff(self.truth_start).tolist()


def _starts(ascending: Ints, keys: Ints) -> Ints:
    """Where each key begins, and where the last one ends."""
    return np.append(np.searchsorted(ascending, keys), len(ascending))


def measure(seen: EvaluationColumns) -> tuple[Groups, NDArray[np.float64]]:
    """The groups, and the overlaps of each: one row per detection, one column per truth, group after group."""
    groups = Groups.of(seen.detections, seen.truths, len(seen.images), seen.limits[-1])
    is_crowd, threads = seen.truths.is_crowd[groups.truth_row], num_threads(None)
    masks, truth_masks = seen.detections.mask, seen.truths.mask
    keypoints, truth_keypoints = seen.detections.keypoints, seen.truths.keypoints
    if keypoints is not None and truth_keypoints is not None:
        protocol = seen.protocol()
        sides = (
            keypoints.take(groups.row).compiled(protocol),
            truth_keypoints.take(groups.truth_row).compiled(protocol),
        )
        return groups, _compiled.similarities(groups.compiled, *sides, is_crowd, threads)
    if masks is None or truth_masks is None:
        boxes = seen.detections.box[groups.row], seen.truths.box[groups.truth_row]
        return groups, _compiled.overlaps(groups.compiled, *boxes, is_crowd, threads)
    protocol = seen.protocol()
    runs = masks.take(groups.row).compiled(protocol), truth_masks.take(groups.truth_row).compiled(protocol)
    return groups, _compiled.similarities(groups.compiled, *runs, is_crowd, threads)


def overlaps_by_image(seen: EvaluationColumns) -> dict[tuple[Any, Any], Any]:
    """`ious`: an entry for every image and class; [] where there are no pairs."""
    by_image: dict[tuple[Any, Any], Any] = {(image, label): [] for image in seen.images for label in seen.classes}
    groups, overlap = measure(seen)
    first = 0
    for image, label, num, num_truths in zip(groups.image.tolist(), groups.label.tolist(), *groups.sizes, strict=True):
        if num and num_truths:
            block = overlap[first : first + num * num_truths].reshape(num, num_truths)
            by_image[seen.images[image], seen.classes[label]] = block
            first += num * num_truths
    return by_image


def entries(seen: EvaluationColumns) -> list[dict[str, Any] | None]:
    """`evalImgs`: class by class, in it area range by area range, in it image by image."""
    num_images, num_areas = len(seen.images), len(seen.areas)
    made: list[dict[str, Any] | None] = [None] * seen.num_entries
    if not made:
        return made
    groups, overlap = measure(seen)
    assigned = assign(seen, groups, overlap)
    detections, truths, row, truth_row = seen.detections, seen.truths, groups.row, groups.truth_row
    is_partial = None if detections.is_partial is None else detections.is_partial[row]
    ids, truth_ids = detections.id[row].tolist(), truths.id[truth_row]
    scores = [detections.scores[index] for index in row.tolist()]
    start, truth_start = groups.start.tolist(), groups.truth_start.tolist()
    pairs = list(zip(groups.image.tolist(), groups.label.tolist(), strict=True))
    first_of_group = np.repeat(groups.truth_start[:-1], np.diff(groups.truth_start))
    for a, area in enumerate(seen.areas):
        ordered_ids = truth_ids[assigned.truth_order[a] + first_of_group].tolist()
        for n, (image, label) in enumerate(pairs):
            begin, end, truth_begin, truth_end = start[n], start[n + 1], truth_start[n], truth_start[n + 1]
            entry = made[(label * num_areas + a) * num_images + image] = {
                "image_id": seen.images[image],
                "category_id": seen.classes[label],
                "aRng": area,
                "maxDet": seen.limits[-1],
                "dtIds": ids[begin:end],
                "gtIds": ordered_ids[truth_begin:truth_end],
                **assigned.block(a, slice(begin, end), slice(truth_begin, truth_end), scores[begin:end]),
            }
            if is_partial is not None:
                entry["dtIgnore"] = entry["dtIgnore"] | ((entry["dtMatches"] == 0) & is_partial[begin:end])
    return made


def assign(seen: EvaluationColumns, groups: Groups, overlap: NDArray[np.float64]) -> "Assigned":
    """Who is matched with whom, in all groups."""
    detections, truths, row, truth_row = seen.detections, seen.truths, groups.row, groups.truth_row
    return Assigned.of(
        groups.compiled,
        overlap,
        _compiled.GroupedDetections(detections.area[row], detections.float_id[row]),
        _compiled.GroupedTruths(
            truths.area[truth_row],
            truths.float_id[truth_row],
            truths.is_ignored[truth_row],
            truths.is_crowd[truth_row],
        ),
        assignment_rules(seen.thresholds, seen.bounds),
    )


def matched_pairs(seen: EvaluationColumns) -> Iterator[tuple[int, int, float]]:
    """The ids of each detection and truth that are matched at any threshold in any area range, and their overlap."""
    if not seen.num_entries:
        return
    groups, overlap = measure(seen)
    assigned = assign(seen, groups, overlap)
    num, num_truths = np.diff(groups.start), np.diff(groups.truth_start)
    # The matrices of a group are (T, D), one group after the other: the group and the detection of each cell.
    T = assigned.num_thresholds
    group = np.repeat(np.arange(len(num)), T * num)
    detection = np.arange(len(group)) - T * groups.start[group]
    detection = groups.start[group] + detection % np.maximum(num, 1)[group]
    _, cell = np.nonzero(assigned.match)
    ids, code = np.unique(seen.truths.float_id[groups.truth_row], return_inverse=True)
    key = np.repeat(np.arange(len(num_truths)), num_truths) * len(ids) + code
    by_key = np.argsort(key, kind="stable")
    wanted = group[cell] * len(ids) + np.searchsorted(ids, assigned.match[assigned.match != 0])
    truth = by_key[np.searchsorted(key[by_key], wanted)] if len(cell) else cell
    pair = np.unique(detection[cell] * max(len(key), 1) + truth)
    detection, truth = np.divmod(pair, max(len(key), 1))
    group = np.searchsorted(groups.start, detection, side="right") - 1
    first = np.cumsum(num * num_truths) - num * num_truths
    index = first[group] + (detection - groups.start[group]) * num_truths[group] + truth - groups.truth_start[group]
    sides = seen.detections.id[groups.row][detection], seen.truths.id[groups.truth_row][truth]
    yield from zip(*(side.tolist() for side in sides), overlap[index].tolist(), strict=True)


def assignment_rules(thresholds: Any, bounds: Sequence[Any]) -> tuple[int, _compiled.AssignmentRules]:
    """How many thresholds there are, and the rules with them and with some area ranges."""
    low, high = ([float(bound) for bound in side] for side in zip(*bounds, strict=True)) if len(bounds) else ([], [])
    return len(thresholds), _compiled.AssignmentRules([float(threshold) for threshold in thresholds], low, high)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Assigned:
    """Who is matched with whom: by area range, with one block per group and one row per threshold."""

    num_thresholds: int
    match: NDArray[np.float64]
    is_ignored: NDArray[np.bool_]
    truth_match: NDArray[np.float64]
    is_truth_ignored: Ints
    truth_order: Ints

    @classmethod
    def of(
        cls,
        groups: _compiled.ImageGroups,
        overlap: NDArray[np.float64],
        detections: _compiled.GroupedDetections,
        truths: _compiled.GroupedTruths,
        rules: tuple[int, _compiled.AssignmentRules],
    ) -> "Assigned":
        """The assignments of groups of rows with their overlaps, under `assignment_rules`."""
        num_thresholds, compiled_rules = rules
        assigned = _compiled.assign(groups, overlap, detections, truths, compiled_rules, num_threads(None))
        return cls(
            num_thresholds=num_thresholds,
            match=assigned.match,
            is_ignored=assigned.is_ignored.view(np.bool_),
            truth_match=assigned.truth_match,
            is_truth_ignored=assigned.is_truth_ignored,
            truth_order=assigned.truth_order,
        )

    def block(self, area: int, rows: slice, truth_rows: slice, scores: list[Any]) -> dict[str, Any]:
        """The matrices of one group in one area range, (T, D) and (T, G), its scores, and the flags of its truths."""
        T = self.num_thresholds
        flat, truth_flat = slice(T * rows.start, T * rows.stop), slice(T * truth_rows.start, T * truth_rows.stop)
        num_truths = truth_rows.stop - truth_rows.start
        return {
            "dtMatches": self.match[area, flat].reshape(T, rows.stop - rows.start),
            "gtMatches": self.truth_match[area, truth_flat].reshape(T, num_truths),
            "dtScores": scores,
            # as in COCO: NumPy's array of an empty list
            "gtIgnore": self.is_truth_ignored[area, truth_rows] if num_truths else np.array([]),
            "dtIgnore": self.is_ignored[area, flat].reshape(T, rows.stop - rows.start),
        }
