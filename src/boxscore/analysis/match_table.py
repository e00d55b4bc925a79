"""Tables of a result: one row per class, image, detection or truth, in columns with stable names.

docs/guides/analysis.md lists the columns. `boxscore.report.frames` converts tables to data frames.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore.analysis.errors import TYPES, find_case
from boxscore.analysis.pairing import BEYOND, Pairing, as_given, pair_inputs, rows_as_given, verdicts_at
from boxscore.analysis.verdict_counts import VerdictCounts, count_by_class, count_by_image
from boxscore.arrays import compact, to_numpy
from boxscore.data.coverage import NOT_COVERED
from boxscore.data.dataset import Detections, Truths, coverage_codes, host_areas, host_ids, host_scores
from boxscore.protocol.fields import check_choice, check_finite
from boxscore.protocol.protocol import CROWD, DIFFICULT, GROUP, REGULAR, Protocol
from boxscore.result.curves import Ints
from boxscore.result.result import Inputs, Result, inputs_of
from boxscore.result.tally import FALSE, IGNORED, TRUE

RowKind = Literal["classes", "images", "detections", "truths"]

BACKGROUND = 0.1
"""As in TIDE: a detection whose similarity with every truth is at most this is on background."""

_LEFT_OUT = 4

_VERDICTS = {
    IGNORED: "ignored",
    FALSE: "false",
    TRUE: "true",
    BEYOND: "beyond the limit",
    _LEFT_OUT: "left out",
}
"""The verdicts of detections in words, by their codes."""

_KINDS = {REGULAR: "regular", DIFFICULT: "difficult", CROWD: "crowd", GROUP: "group"}
"""The kinds of truths in words, by their codes."""


class Names(NamedTuple):
    """A column of names from a short list."""

    code: NDArray[Any]
    """The index of each row's name in the list; -1: no name. Shape (N,)."""
    names: tuple[str, ...]
    """Distinct names."""


class RowNumbers(NamedTuple):
    """A column of row numbers in another table."""

    row: Ints
    """Row numbers; -1: no row. Shape (N,)."""


Column: TypeAlias = NDArray[Any] | Names | RowNumbers
"""In an array of floats, NaN is a missing value."""

Table: TypeAlias = dict[str, Column]
"""Columns of equal length, by name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableOptions:
    """Validated options of a table."""

    rows: RowKind
    iou: float | None = None
    """The threshold of a match; default: 0.5, or the protocol's first threshold if it has no 0.5."""
    score: float | None = None
    """Detections below this score are dropped; None: all are kept."""
    errors: bool = False
    """Whether to add columns with TIDE's types of errors."""
    threads: int | None = None

    def __post_init__(self) -> None:
        check_choice("rows", self.rows, get_args(RowKind))
        if self.score is not None:
            check_finite("score", self.score)
        if self.errors and self.rows not in ("detections", "truths"):
            raise InputError(f'`errors` must be given with rows="detections" or rows="truths"; got rows={self.rows!r}')


def make_table(result: Result, options: TableOptions, method: str) -> Table:
    """Build the table of a result. `method`: the caller's name, for messages."""
    name = f'{method}(rows="{options.rows}")'
    if options.rows == "classes":
        return _class_table(result, options, name)
    if options.rows == "images":
        return _image_table(result, options, name)
    pairing = pair_inputs(result, f"`{name}`", options.iou, options.threads)
    matches = _match_inputs(result, pairing, options)
    make = _detection_table if options.rows == "detections" else _truth_table
    return make(inputs_of(result, name), matches)


def _class_table(result: Result, options: TableOptions, name: str) -> Table:
    per_class = result.per_class
    table: Table = {
        "label": per_class.label,
        "class_name": _names_of(per_class.label, dict(zip(per_class.label.tolist(), per_class.name, strict=True))),
        "ap": per_class.ap,
        "ap_50": per_class.ap_50,
        "ar": per_class.ar,
        **_count_columns(_class_counts(result, options, name)),
        **per_class.extra,
    }
    return table | {f"ap_at_{iou:.4g}": per_class.ap_at[:, t] for t, iou in enumerate(per_class.thresholds)}


def _class_counts(result: Result, options: TableOptions, name: str) -> VerdictCounts:
    """The counts of each class, taken from `per_class` if it has them: a result may have no verdicts."""
    is_measured = options.iou is None or result.protocol.find_threshold(options.iou) is not None
    if options.score is not None or not is_measured:
        return count_by_class(*verdicts_at(result, name, options.iou), options.score)
    per_class, t = result.per_class, result.protocol.threshold_index(options.iou)
    num_true, num_false = per_class.num_true[:, t], per_class.num_false[:, t]
    num_ignored = per_class.num_detections - num_true - num_false
    return VerdictCounts(per_class.num_truths, num_true, num_false, num_ignored)


def _image_table(result: Result, options: TableOptions, name: str) -> Table:
    tally, t = verdicts_at(result, name, options.iou)
    images = result.images
    counts = count_by_image(tally, t, images, options.score)
    return {"image": images, "image_name": _names_of(images, result.image_names), **_count_columns(counts)}


def _count_columns(counts: VerdictCounts) -> Table:
    return {
        "num_truths": counts.num_truths,
        "num_detections": counts.num_true + counts.num_false + counts.num_ignored,
        "num_true": counts.num_true,
        "num_false": counts.num_false,
        "num_ignored": counts.num_ignored,
        "num_unfound": counts.num_unfound,
    }


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Matches:
    """Verdicts, matches and errors of a result's inputs, in the order of the inputs."""

    protocol: Protocol
    verdict: NDArray[np.uint8]
    """Shape (D,)."""
    truth: Ints
    """The row of the truth that a detection took, or -1. Shape (D,)."""
    similarity: NDArray[np.float64]
    """The similarity of a detection with the truth that it took, or NaN. Shape (D,)."""
    is_kept: NDArray[np.bool_]
    """Whether a detection has at least the requested score. Shape (D,)."""
    is_counted: NDArray[np.bool_]
    """Whether a truth counts. Shape (G,)."""
    errors: Table
    """Columns of detections: the type of each error, and the truth that it is about; empty unless requested."""
    truth_errors: Table
    """The column of truths: the type of each error; empty unless requested."""


def _match_inputs(result: Result, pairing: Pairing, options: TableOptions) -> _Matches:
    detections, truths = inputs_of(result, "a table of matches")
    verdict = as_given(pairing.verdict, pairing.detection_row)
    coverage = coverage_codes(detections, truths, pairing.protocol)
    if coverage is not None:
        verdict = np.where(coverage == NOT_COVERED, np.uint8(_LEFT_OUT), verdict)
    errors, truth_errors = _error_columns(result, pairing) if options.errors else ({}, {})
    score = host_scores(detections.scores)
    return _Matches(
        protocol=pairing.protocol,
        verdict=verdict,
        truth=as_given(rows_as_given(pairing.truth, pairing.truth_row), pairing.detection_row),
        similarity=as_given(pairing.similarity, pairing.detection_row),
        is_kept=np.ones(score.size, bool) if options.score is None else score >= options.score,
        is_counted=as_given(pairing.is_counted, pairing.truth_row),
        errors=errors,
        truth_errors=truth_errors,
    )


def _error_columns(result: Result, pairing: Pairing) -> tuple[Table, Table]:
    """The types of errors, of detections and of truths; computed from all detections, whatever their scores."""
    case = find_case(pairing, result.tally.classes, min(BACKGROUND, pairing.protocol.thresholds[0]))
    about = as_given(rows_as_given(case.truth, pairing.truth_row), pairing.detection_row)
    errors = Names(as_given(case.type, pairing.detection_row), TYPES)
    return (
        {"error": errors, "error_truth": RowNumbers(about)},
        {"error": Names(as_given(case.truth_type, pairing.truth_row), TYPES)},
    )


def _detection_table(inputs: Inputs, matches: _Matches) -> Table:
    detections = inputs.detections
    shapes = _shape_columns(detections, inputs.truths, matches.protocol)
    table: Table = {
        "detection": np.arange(len(detections)),
        **{name: shapes.pop(name) for name in ("image", "image_name", "label", "class_name")},
        "score": host_scores(detections.scores),
        **shapes,
        "verdict": _words(matches.verdict, _VERDICTS),
        "truth": RowNumbers(matches.truth),
        "similarity": matches.similarity,
        **matches.errors,
    }
    return table if matches.is_kept.all() else {name: _where(column, matches.is_kept) for name, column in table.items()}


def _truth_table(inputs: Inputs, matches: _Matches) -> Table:
    truths = inputs.truths
    kind = truths.kinds(matches.protocol)
    finder = np.full(len(truths), -1, np.int64)
    true = np.flatnonzero((matches.verdict == TRUE) & matches.is_kept)
    finder[matches.truth[true]] = true
    score, similarity = np.full((2, len(truths)), np.nan)
    score[matches.truth[true]] = host_scores(inputs.detections.scores)[true]
    similarity[matches.truth[true]] = matches.similarity[true]
    return {
        "truth": np.arange(len(truths)),
        **_shape_columns(truths, truths, matches.protocol),
        "kind": _words(np.zeros(len(truths), np.uint8) if kind is None else to_numpy(kind), _KINDS),
        "is_counted": matches.is_counted,
        "is_found": finder >= 0,
        "detection": RowNumbers(finder),
        "score": score,
        "similarity": similarity,
        **matches.truth_errors,
    }


def _shape_columns(columns: Detections | Truths, truths: Truths, protocol: Protocol) -> Table:
    """Image, class, the upright box around each shape, and area."""
    image, label = host_ids(columns.image_ids), host_ids(columns.labels)
    corners = np.ascontiguousarray(to_numpy(columns.geometry.outer_boxes()).T)
    # If ranges are of another value, `columns.area` holds that value instead of an area.
    area = host_areas(columns, protocol) if protocol.ranges_by == "area" else columns.geometry.areas(protocol)
    return {
        "image": image,
        "image_name": _names_of(image, truths.image_names),
        "label": label,
        "class_name": _names_of(label, truths.names_by_label),
        **dict(zip(("x1", "y1", "x2", "y2"), corners, strict=True)),
        "area": to_numpy(area),
    }


def _names_of(ids: Ints, known: Mapping[int, str] | None) -> Names:
    """The names of ids, or the ids as text, in the order of their lowest ids."""
    distinct = _compiled.distinct(compact(ids))
    given = [(known or {}).get(each, str(each)) for each in distinct.tolist()]
    codes = {name: code for code, name in enumerate(dict.fromkeys(given))}
    code_of = np.array([codes[name] for name in given], np.int32)
    index = np.searchsorted(distinct, ids)
    return Names(code_of[index] if ids.size else np.zeros(0, np.int32), tuple(codes))


def _words(code: NDArray[Any], words: Mapping[int, str]) -> Names:
    return Names(code.astype(np.int8), tuple(words.values()))


def _where(column: Column, is_kept: NDArray[np.bool_]) -> Column:
    """The rows of a column where `is_kept`."""
    if isinstance(column, Names):
        return column._replace(code=column.code[is_kept])
    return RowNumbers(column.row[is_kept]) if isinstance(column, RowNumbers) else column[is_kept]
