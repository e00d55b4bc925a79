"""`evalImgs` and `ious`: pycocotools' entries for each image and class, from columns or from dicts.

Evaluators that call `computeIoU` and `evaluateImg` themselves make two million calls for COCO val2017. So the functions
for one image and class have a fast path, which reads dicts of Python numbers in C++, and a general path, which treats
all other values as pycocotools does. `benchmarks/steps.py` measures the gain of the fast path.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads
from boxscore.arrays import order_by, to_numpy
from boxscore.data.coverage import NOT_COVERED, NOT_EXHAUSTIVE
from boxscore.data.dataset import coverage_codes, host_areas, host_ids, host_scores
from boxscore.dropin import mask
from boxscore.dropin.evaluated_rows import (
    Evaluated,
    EvaluatedPart,
    EvaluatedRows,
    are_numbers,
    ids_of,
)
from boxscore.protocol.protocol import CROWD, REGULAR

Dict = dict[str, Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Groups:
    """The rows of each image and class with rows: detections by falling score within the limit, and truths."""

    image: Ints
    label: Ints
    row: Ints
    start: Ints
    truth_row: Ints
    truth_start: Ints
    is_partial: NDArray[np.bool_] | None
    """Whether the class of a detection was not annotated exhaustively in its image; None: all were. Shape (D,)."""

    @classmethod
    def of(cls, seen: EvaluatedRows) -> "Groups":
        """Group the rows, by class, then by image, without detections of classes that were not verified."""
        sides, num_images = (seen.detections, seen.truths), len(seen.cells.images)
        key, truth_key = (host_ids(side.labels) * num_images + host_ids(side.image_ids) for side in sides)
        row, truth_row = order_by(key, -host_scores(seen.detections.scores)), order_by(truth_key)
        codes = coverage_codes(*sides, seen.protocol())
        if codes is not None:
            row = row[codes[row] != NOT_COVERED]
        key = key[row]
        keys = np.union1d(key, truth_key)
        is_kept = np.arange(len(row)) - np.searchsorted(key, key) < seen.cells.limits[-1]
        row, key = row[is_kept], key[is_kept]
        return cls(
            image=keys % num_images,
            label=keys // num_images,
            row=row,
            start=_starts(key, keys),
            truth_row=truth_row,
            truth_start=_starts(truth_key[truth_row], keys),
            is_partial=None if codes is None else codes[row] == NOT_EXHAUSTIVE,
        )

    @property
    def compiled(self) -> _compiled.ImageGroups:
        """The offsets of the groups, for the compiled engine."""
        return _compiled.ImageGroups(self.start, self.truth_start)

    @property
    def sizes(self) -> tuple[list[int], list[int]]:
        """The numbers of detections and truths of each group."""
        return np.diff(self.start).tolist(), np.diff(self.truth_start).tolist()


def _starts(ascending: Ints, keys: Ints) -> Ints:
    """Offset of each key, then the end of the last one."""
    return np.append(np.searchsorted(ascending, keys), len(ascending))


class Measured(NamedTuple):
    """The rows of an evaluation in groups, with the IoUs of each group, (D, G), flattened and concatenated."""

    seen: EvaluatedRows
    groups: Groups
    overlap: Floats
    kind: NDArray[np.uint8]
    """The kind of each truth of the groups. Shape (G,)."""

    @classmethod
    def of(cls, seen: EvaluatedRows) -> "Measured":
        """Group the rows and compute the IoUs."""
        groups, protocol = Groups.of(seen), seen.protocol()
        kinds = seen.truths.kinds(protocol)
        kind = np.zeros(len(groups.truth_row), np.uint8) if kinds is None else to_numpy(kinds)[groups.truth_row]
        shapes = seen.detections.geometry.take(groups.row).compiled(protocol)
        truth_shapes = seen.truths.geometry.take(groups.truth_row).compiled(protocol)
        is_crowd = (kind == CROWD).astype(np.uint8)
        overlap = _compiled.similarities(groups.compiled, shapes, truth_shapes, is_crowd, num_threads(None))
        return cls(seen, groups, overlap, kind)

    def assign(self) -> "Assigned":
        """Match the detections and truths of all groups."""
        seen, row, truth_row = self.seen, self.groups.row, self.groups.truth_row
        area, truth_area = (host_areas(side, seen.protocol()) for side in (seen.detections, seen.truths))
        return Assigned.of(
            self.groups.compiled,
            self.overlap,
            _compiled.GroupedDetections(area[row].astype(np.float64), seen.id[row].astype(np.float64)),
            _compiled.GroupedTruths(
                truth_area[truth_row].astype(np.float64),
                seen.truth_id[truth_row].astype(np.float64),
                (self.kind != REGULAR).astype(np.uint8),
                (self.kind == CROWD).astype(np.uint8),
            ),
            assignment_rules(seen.cells.thresholds, seen.cells.bounds),
        )


def overlaps_by_image(evaluation: Evaluated) -> dict[tuple[Any, Any], Any]:
    """Compute `ious`, with an entry for each image and class; [] without pairs. The first copy of an image counts."""
    by_image: dict[tuple[Any, Any], Any] = {}
    for part in reversed(evaluation.parts):
        by_image |= _overlaps_of(part.rows) if part.rows is not None else part.overlaps or {}
    return by_image


def _overlaps_of(seen: EvaluatedRows) -> dict[tuple[Any, Any], Any]:
    images, classes = seen.cells.images, seen.cells.classes
    by_image: dict[tuple[Any, Any], Any] = {(image, label): [] for image in images for label in classes}
    measured = Measured.of(seen)
    groups, first = measured.groups, 0
    for image, label, num, num_truths in zip(groups.image.tolist(), groups.label.tolist(), *groups.sizes, strict=True):
        if num and num_truths:
            block = measured.overlap[first : first + num * num_truths].reshape(num, num_truths)
            by_image[images[image], classes[label]] = block
            first += num * num_truths
    return by_image


def entries_of(evaluation: Evaluated) -> list[Dict | None]:
    """The entries of `evalImgs`, by class, then area range, then image."""
    if len(evaluation.parts) == 1:
        return part_entries(evaluation.parts[0])
    cells = evaluation.cells
    made = np.full((len(cells.classes) * len(cells.areas), len(cells.images)), None)
    for part, index in zip(evaluation.parts, evaluation.new_image, strict=True):
        own = np.array([*part_entries(part), None], object)[:-1].reshape(len(made), len(index))
        made[:, index[index >= 0]] = own[:, index >= 0]
    return made.ravel().tolist()


def part_entries(part: EvaluatedPart) -> list[Dict | None]:
    """The entries of a part."""
    return entries(part.rows) if part.rows is not None else part.entries or []


def entries(seen: EvaluatedRows) -> list[Dict | None]:
    """Compute the entries of `evalImgs`, by class, then area range, then image."""
    cells = seen.cells
    num_images, num_areas = len(cells.images), len(cells.areas)
    made: list[Dict | None] = [None] * cells.num_entries
    if not made:
        return made
    measured = Measured.of(seen)
    groups, assigned = measured.groups, measured.assign()
    ids, truth_ids = seen.id[groups.row].tolist(), seen.truth_id[groups.truth_row]
    scores = seen.scores
    scores = [scores[index] for index in groups.row.tolist()]
    start, truth_start = groups.start.tolist(), groups.truth_start.tolist()
    pairs = list(zip(groups.image.tolist(), groups.label.tolist(), strict=True))
    first_of_group = np.repeat(groups.truth_start[:-1], np.diff(groups.truth_start))
    for a, area in enumerate(cells.areas):
        ordered_ids = truth_ids[assigned.truth_order[a] + first_of_group].tolist()
        for n, (image, label) in enumerate(pairs):
            begin, end, truth_begin, truth_end = start[n], start[n + 1], truth_start[n], truth_start[n + 1]
            entry = made[(label * num_areas + a) * num_images + image] = {
                "image_id": cells.images[image],
                "category_id": cells.classes[label],
                "aRng": area,
                "maxDet": cells.limits[-1],
                "dtIds": ids[begin:end],
                "gtIds": ordered_ids[truth_begin:truth_end],
                **assigned.block(a, slice(begin, end), slice(truth_begin, truth_end), scores[begin:end]),
            }
            if groups.is_partial is not None:
                is_partial = groups.is_partial[begin:end]
                entry["dtIgnore"] = entry["dtIgnore"] | ((entry["dtMatches"] == 0) & is_partial)
    return made


def matched_pairs(seen: EvaluatedRows) -> Iterator[tuple[int, int, float]]:
    """Yield the ids and the IoU of each pair that is matched at any threshold in any area range."""
    if not seen.cells.num_entries:
        return
    measured = Measured.of(seen)
    groups, assigned = measured.groups, measured.assign()
    num, num_truths = np.diff(groups.start), np.diff(groups.truth_start)
    # The matrices of groups, (T, D) each, are concatenated: find the group and the detection of each cell.
    T = assigned.num_thresholds
    group = np.repeat(np.arange(len(num)), T * num)
    detection = np.arange(len(group)) - T * groups.start[group]
    detection = groups.start[group] + detection % np.maximum(num, 1)[group]
    _, cell = np.nonzero(assigned.match)
    ids, code = np.unique(seen.truth_id[groups.truth_row].astype(np.float64), return_inverse=True)
    key = np.repeat(np.arange(len(num_truths)), num_truths) * len(ids) + code
    by_key = np.argsort(key, kind="stable")
    wanted = group[cell] * len(ids) + np.searchsorted(ids, assigned.match[assigned.match != 0])
    truth = by_key[np.searchsorted(key[by_key], wanted)] if len(cell) else cell
    pair = np.unique(detection[cell] * max(len(key), 1) + truth)
    detection, truth = np.divmod(pair, max(len(key), 1))
    group = np.searchsorted(groups.start, detection, side="right") - 1
    first = np.cumsum(num * num_truths) - num * num_truths
    index = first[group] + (detection - groups.start[group]) * num_truths[group] + truth - groups.truth_start[group]
    sides = seen.id[groups.row][detection], seen.truth_id[groups.truth_row][truth]
    yield from zip(*(side.tolist() for side in sides), measured.overlap[index].tolist(), strict=True)


def assignment_rules(thresholds: Any, bounds: Sequence[Any]) -> tuple[int, _compiled.AssignmentRules]:
    """The number of thresholds, and the compiled rules for the thresholds and area ranges."""
    low, high = ([float(bound) for bound in side] for side in zip(*bounds, strict=True)) if len(bounds) else ([], [])
    return len(thresholds), _compiled.AssignmentRules([float(threshold) for threshold in thresholds], low, high)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Assigned:
    """The matches by area range: one block per group, one row per threshold in it."""

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
        """Match groups of rows by their IoUs, under `assignment_rules`."""
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
        """The matrices of one group in one area range, (T, D) and (T, G), its scores, and its truths' flags."""
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


class ImageRules(NamedTuple):
    """The rules under which an image is matched."""

    thresholds: Any
    area: Any
    """The smallest and the largest area that count."""
    limit: Any


def measure_overlaps(detections: list[Dict], truths: list[Dict], limit: Any, *, key: str = "bbox") -> Any:
    """Compute the IoUs: one row per detection, by falling score within the limit, one column per truth; or []."""
    overlap = measure_python_numbers(detections, truths, limit) if key == "bbox" else None
    if overlap is not None:
        return overlap
    detections = by_score(detections)[:limit]
    crowds = [int(truth["iscrowd"]) for truth in truths]
    return mask.iou([each[key] for each in detections], [each[key] for each in truths], crowds)


def measure_python_numbers(detections: Any, truths: Any, limit: Any) -> Any:
    """Take the fast path of `measure_overlaps`; return None for values that are not Python numbers."""
    if type(limit) is not int or limit <= 0:
        return None
    overlap = np.empty((min(len(detections), limit), len(truths)))
    if not _compiled.measure_annotations(detections, truths, overlap):
        return None
    return overlap if overlap.size else []


def match_image(detections: list[Dict], truths: list[Dict], overlap: Any, rules: ImageRules) -> Dict:
    """Compute an entry of `evalImgs`, without its image, class, area range and limit."""
    entry = match_python_numbers(detections, truths, overlap, rules)
    if entry is not None:
        return entry
    detections = by_score(detections)[0 : rules.limit]
    num, num_truths = len(detections), len(truths)
    truth_ids = ids_of(truths)
    assigned = Assigned.of(
        _compiled.ImageGroups(np.array([0, num], np.int64), np.array([0, num_truths], np.int64)),
        np.ascontiguousarray(_overlap_of(overlap, num, num_truths)).reshape(-1),
        _compiled.GroupedDetections(_areas(each["area"] for each in detections), ids_of(detections).astype(np.float64)),
        _compiled.GroupedTruths(
            _areas(0 if each["ignore"] else each["area"] for each in truths),
            _float_ids(truth_ids),
            _flags(each["ignore"] for each in truths),
            _flags(int(each["iscrowd"]) for each in truths),
        ),
        assignment_rules(rules.thresholds, [rules.area]),
    )
    if np.isnan(assigned.match).any():
        truth_ids.astype(np.float64)  # as in COCO: raises for a matched id that is not a number
    scores = [each["score"] for each in detections]
    return {
        "dtIds": [each["id"] for each in detections],
        "gtIds": truth_ids[assigned.truth_order[0]].tolist(),
        **assigned.block(0, slice(0, num), slice(0, num_truths), scores),
    }


def match_python_numbers(detections: Any, truths: Any, overlap: Any, rules: ImageRules) -> Dict | None:
    """Take the fast path of `match_image`; return None for values that are not Python numbers."""
    if type(rules.limit) is not int or rules.limit <= 0 or len(rules.area) != 2:
        return None
    T, D, G = len(rules.thresholds), min(len(detections), rules.limit), len(truths)
    match, truth_match = np.empty((T, D)), np.empty((T, G))
    is_ignored, is_truth_ignored = np.empty((T, D), np.bool_), np.empty(G, np.int64)
    low, high = rules.area
    ids = _compiled.match_annotations(
        detections,
        truths,
        overlap if len(overlap) else None,
        (rules.thresholds, low, high, rules.limit),
        (match, truth_match, is_ignored, is_truth_ignored),
    )
    if ids is None:
        return None
    return {
        "dtIds": ids[0],
        "gtIds": ids[1],
        "dtMatches": match,
        "gtMatches": truth_match,
        "dtScores": ids[2],
        # as in COCO: NumPy's array of an empty list
        "gtIgnore": is_truth_ignored if G else np.array([]),
        "dtIgnore": is_ignored,
    }


def _overlap_of(overlap: Any, num_detections: int, num_truths: int) -> NDArray[np.float64]:
    """The IoUs of the detections and truths; -inf, below any threshold, if they were not computed."""
    if len(overlap) == 0:
        return np.full((num_detections, num_truths), -np.inf)
    measured = np.array(overlap, np.float64)
    if num_truths and (len(measured) < num_detections or measured.shape[1] < num_truths):
        raise IndexError(  # as in COCO
            f"`ious` has {measured.shape[0]} x {measured.shape[1]} overlaps where {num_detections} x {num_truths} are "
            "needed; call evaluateImg with the limit and the annotations that computeIoU had"
        )
    return measured[:num_detections, :num_truths] if num_truths else np.zeros((num_detections, 0))


def by_score(detections: list[Dict]) -> list[Dict]:
    """Sort by falling score; ties keep their order."""
    negative = [-each["score"] for each in detections]  # as in COCO: raises for text, lists and None
    for each, value in zip(detections, negative, strict=True):
        _check_score(each, value)
    order = np.argsort(negative, kind="mergesort")
    return [detections[row] for row in order]


def _check_score(detection: Dict, negative: Any) -> None:
    """Raise `InputError` for scores that pycocotools accepts, but at which its curves break off."""
    if isinstance(negative, complex | np.complexfloating):
        got = "a complex number"
    elif isinstance(negative, int) and abs(negative) > sys.float_info.max:
        got = "an integer beyond 1e308"
    else:
        return
    raise InputError(
        f"result {detection['id']} of image {detection['image_id']}: `score` must be a number that a float64 can hold; "
        f"got {got} (pycocotools takes it, and its curves break off there)"
    )


def _float_ids(ids: NDArray[Any]) -> NDArray[np.float64]:
    """Ids as floats, as pycocotools stores matched ids; NaN for ids that are not numbers."""
    if are_numbers(ids):
        return ids.astype(np.float64)
    return np.array([float(each) if are_numbers(ids[i : i + 1]) else np.nan for i, each in enumerate(ids)])


def _areas(values: Any) -> NDArray[np.float64]:
    return np.array([_comparable(value) for value in values], np.float64)


def _comparable(value: Any) -> float:
    """An area as a float, for comparisons with a range; infinite if it is beyond all floats."""
    is_negative = bool(value < 0)  # as in COCO: raises for text, lists and None
    try:
        return float(value.item() if isinstance(value, np.ndarray) else value)
    except OverflowError:
        return -np.inf if is_negative else np.inf


def _flags(values: Any) -> NDArray[np.uint8]:
    return np.array([bool(value) for value in values], np.uint8)
