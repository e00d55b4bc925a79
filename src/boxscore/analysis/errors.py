"""Errors: TIDE's type of every false positive and every unfound truth, and the AP gained by fixing each type.

Bolya et al., "TIDE: A General Toolbox for Identifying Object Detection Errors", ECCV 2020. The rules are as in its
package `tidecv`; AP is computed by the protocol's own rule.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore.analysis.pairing import Pairing, as_given, rows_as_given
from boxscore.data.dataset import host_ids
from boxscore.engines.native.compiled_engine import mean_average_precision
from boxscore.engines.native.pairs import nearest, side
from boxscore.protocol.fields import check_fraction
from boxscore.result.curves import Floats, Ints
from boxscore.result.summary import number_or_none
from boxscore.result.tally import FALSE, TRUE, Tally, state_dtype

TYPES = ("classification", "localisation", "both", "duplicate", "background", "missed")
"""The types of errors, in TIDE's order; a type's code is its index."""

CLASSIFICATION, LOCALISATION, BOTH, DUPLICATE, BACKGROUND, MISSED = range(len(TYPES))

NO_ERROR = -1
"""The code of a box without an error: right, ignored, or beyond the limit."""

MEANINGS = {
    "classification": "on a truth of another class",
    "localisation": "near a truth of its class, not near enough",
    "both": "near a truth of another class, not near enough",
    "duplicate": "on a truth that a better one has found",
    "background": "on nothing",
    "missed": "a truth that none of these could be fixed to find",
}

SUMS = {
    "false_positives": "every one of the above but missed",
    "false_negatives": "every truth not found, missed or not",
}
"""The errors that are fixed together in the last two rows."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Errors:
    """The errors at one IoU threshold, in the first area range and within the largest limit. `print` shows a table.

    A gain is the AP with all errors of one type fixed, minus the AP. A detection with a wrong class or position is
    corrected if it is the best one for an unfound truth; all other wrong detections are dropped, and so are missed
    truths. Gains don't add up: fixing one type changes the gains of the others.
    """

    iou: float
    similarity: str = "IoU"
    """The similarity that `iou` is a threshold of."""
    background: float
    label: Ints
    """Shape (K,)."""
    name: tuple[str, ...]
    """Class names, or labels as text. Length K."""
    ap: float
    """AP at this threshold, with all errors."""
    count: Ints
    """Number of errors of each type, in the order of `TYPES`. Shape (E,)."""
    gain: Floats
    """AP gained by fixing each type. Shape (E,)."""
    num_false: int
    """Number of false positives, of all types."""
    false_gain: float
    """AP gained by fixing all false positives: precision is then 1 up to the reached recall."""
    num_unfound: int
    """Number of truths without a true positive, whether missed or within reach of an error."""
    unfound_gain: float
    """AP gained by fixing all unfound truths, which drops them."""
    ap_of_class: Floats
    """Shape (K,)."""
    count_of_class: Ints
    """Number of errors by class: the detection's class, for `missed` the truth's. Shape (E, K)."""
    gain_of_class: Floats
    """AP that each class gains if all errors of a type are fixed; NaN where AP is undefined. Shape (E, K)."""
    detection_type: NDArray[np.int8]
    """The type of each detection, -1: no error, in the order of `result.inputs.detections`. Shape (D,)."""
    detection_truth: Ints
    """The row of the truth in `result.inputs.truths` that the error is about, or -1. Shape (D,)."""
    truth_type: NDArray[np.int8]
    """The type of each unfound truth: missed, or the type of the best error within reach of it. -1: found or ignored.
    Shape (G,).
    """

    def rows(self) -> Iterator[tuple[str, int, float]]:
        """Yield name, count and gain of each type, then of all false positives and of all unfound truths."""
        yield from zip(TYPES, self.count.tolist(), self.gain.tolist(), strict=True)
        yield "false_positives", self.num_false, self.false_gain
        yield "false_negatives", self.num_unfound, self.unfound_gain

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON: each type with `count` and `gain`, overall and per class. Undefined is None."""
        rows = {name: {"count": count, "gain": number_or_none(gain)} for name, count, gain in self.rows()}
        return {
            "iou": self.iou,
            "background": self.background,
            "ap": number_or_none(self.ap),
            "types": {name: rows.pop(name) for name in TYPES},
            **rows,
            "per_class": [
                {
                    "label": int(self.label[k]),
                    "name": name,
                    "ap": number_or_none(self.ap_of_class[k]),
                    "types": {
                        kind: {
                            "count": int(self.count_of_class[e, k]),
                            "gain": number_or_none(self.gain_of_class[e, k]),
                        }
                        for e, kind in enumerate(TYPES)
                    },
                }
                for k, name in enumerate(self.name)
            ],
        }

    def __repr__(self) -> str:
        false, unfound = text.count(self.num_false, "false positive"), text.count(self.num_unfound, "truth")
        return f"Errors({false}, {unfound} not found)"

    def __str__(self) -> str:
        title = (
            f"AP {text.fraction(self.ap)} at {self.similarity} {self.iou:.2f}; fixing all errors of a type would add"
        )
        cells = [
            [name.replace("_", " "), f"{count:,}", _signed(gain), (MEANINGS | SUMS)[name]]
            for name, count, gain in self.rows()
        ]
        return f"{title}\n\n{text.table(cells, align='<>><', header=['error', 'count', 'dAP', ''])}"


def find_errors(pairing: Pairing, classes: Ints, names: Sequence[str], background: float) -> Errors:
    """Find the errors of a pairing, and the gain of fixing each type."""
    iou = pairing.protocol.thresholds[0]
    if not 0 < check_fraction("background", background) <= iou:
        raise InputError(f"`background` must lie above 0 and not above the IoU threshold, {iou:g}; got {background!r}")
    case = find_case(pairing, classes, background)
    before, before_K = _average_precision(case, case.tally())
    fixes = [_average_precision(case, case.fixed(kind)) for kind in range(len(TYPES))]
    detection_label, truth_label = pairing.label, pairing.truth_label
    count_EK = np.stack(
        [_count(detection_label[case.type == kind], classes) for kind in range(MISSED)]
        + [_count(truth_label[case.truth_type == MISSED], classes)]
    )
    is_unfound = case.is_counted & ~case.is_found
    return Errors(
        iou=iou,
        similarity=pairing.protocol.similarity,
        background=background,
        label=classes,
        name=tuple(names),
        ap=before,
        count=count_EK.sum(axis=1),
        gain=np.array([after - before for after, _ in fixes]),
        num_false=int((pairing.verdict == FALSE).sum()),
        false_gain=_average_precision(case, case.without_false())[0] - before,
        num_unfound=int(is_unfound.sum()),
        unfound_gain=_average_precision(case, case.without_unfound())[0] - before,
        ap_of_class=before_K,
        count_of_class=count_EK,
        gain_of_class=np.stack([after_K - before_K for _, after_K in fixes]),
        detection_type=as_given(case.type, pairing.detection_row),
        detection_truth=as_given(rows_as_given(case.truth, pairing.truth_row), pairing.detection_row),
        truth_type=as_given(case.truth_type, pairing.truth_row),
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Case:
    """The error of every box, and the tallies that result from fixing errors."""

    pairing: Pairing
    classes: Ints
    type: NDArray[np.int8]
    """The type of each detection. Shape (D,)."""
    truth: NDArray[np.int32]
    """The truth that each detection's error is about, or -1. Shape (D,)."""
    is_best: NDArray[np.bool_]
    """Whether a detection is the best error about an unfound truth: if fixed, it would find it. Shape (D,)."""
    truth_type: NDArray[np.int8]
    """The type of each unfound truth, -1 for all others. Shape (G,)."""
    is_counted: NDArray[np.bool_]
    """Shape (G,)."""
    is_found: NDArray[np.bool_]
    """Shape (G,)."""

    def fixed(self, kind: int) -> Tally:
        """The tally with all errors of one type fixed."""
        if kind == MISSED:
            return self._without(self.truth_type == MISSED)
        is_of_kind = self.type == kind
        return self.tally(is_kept=~is_of_kind | self.is_best, is_corrected=is_of_kind & self.is_best)

    def without_false(self) -> Tally:
        """The tally with all false positives fixed."""
        return self.tally(is_kept=self.pairing.verdict == TRUE)

    def without_unfound(self) -> Tally:
        """The tally with all unfound truths fixed."""
        return self._without(~self.is_found)

    def _without(self, is_gone: NDArray[np.bool_]) -> Tally:
        """The tally without some of the truths.

        A class that would lose all of its truths keeps them, and with them its AP of 0: none of them was found, and
        dropping the class from the mean would credit the fix with that.
        """
        place_G = np.searchsorted(self.classes, self.pairing.truth_label)
        num_left_K = np.bincount(place_G[self.is_counted & ~is_gone], minlength=self.classes.size)
        return self.tally(is_there=~is_gone | (num_left_K[place_G] == 0))

    def tally(
        self,
        *,
        is_kept: NDArray[np.bool_] | None = None,
        is_corrected: NDArray[np.bool_] | None = None,
        is_there: NDArray[np.bool_] | None = None,
    ) -> Tally:
        """The tally of the kept detections; corrected ones become true positives of their truth's class.

        Only the truths with `is_there` count. By default all detections are kept and all truths count.
        """
        columns = self.pairing.detections
        verdict = self.pairing.verdict
        is_in = (verdict == FALSE) | (verdict == TRUE)
        row = np.flatnonzero(is_in if is_kept is None else is_in & is_kept)
        label, is_true = self.pairing.label[row], verdict[row] == TRUE
        if is_corrected is not None:
            label[is_corrected[row]] = self.pairing.truth_label[self.truth[is_corrected]]
            is_true |= is_corrected[row]
        protocol = self.pairing.protocol.replace(limits=(None,), limits_per="class")
        kind = state_dtype(protocol)
        hits = np.ones((int(is_true.sum()), 1), np.uint64)
        return Tally(
            protocol=protocol,
            image=host_ids(columns.image_ids)[row],
            label=label,
            score=self.pairing.score[row],
            tier=np.zeros(row.size, np.uint8),
            state=np.where(is_true, 1, 2).astype(kind),
            is_true=hits,
            is_counted=hits,
            classes=self.classes,
            truth_image=host_ids(self.pairing.truths.image_ids),
            truth_label=self.pairing.truth_label,
            truth_state=(self.is_counted if is_there is None else self.is_counted & is_there).astype(kind),
        )


def find_case(pairing: Pairing, classes: Ints, background: float) -> Case:
    """Find the error of every box."""
    protocol, is_counted = pairing.protocol, pairing.is_counted
    iou = protocol.thresholds[0]
    is_false = pairing.verdict == FALSE
    found, there = side(pairing.detections, is_false), side(pairing.truths, is_counted)
    near = nearest(found, there, protocol, pairing.threads)
    reaches = np.greater if protocol.comparison == ">" else np.greater_equal
    # The first that holds, in TIDE's order. As in TIDE an IoU of exactly the threshold is not near enough here.
    rules = {
        LOCALISATION: (background <= near.own_iou) & (near.own_iou <= iou),
        CLASSIFICATION: reaches(near.other_iou, protocol.cutoffs[0]),
        DUPLICATE: reaches(near.own_iou, protocol.cutoffs[0]),
        BACKGROUND: np.maximum(near.own_iou, near.other_iou) <= background,
    }
    type_ = np.select([~is_false, *rules.values()], [NO_ERROR, *rules], BOTH).astype(np.int8)
    truth = np.select(
        [np.isin(type_, (LOCALISATION, DUPLICATE)), np.isin(type_, (CLASSIFICATION, BOTH))],
        [near.own, near.other],
        np.int32(-1),
    )
    is_found = pairing.is_found()
    is_best = _is_best(type_, truth, pairing.score, is_found)
    truth_type = np.where(is_counted & ~is_found, np.int8(MISSED), np.int8(NO_ERROR))
    truth_type[truth[is_best]] = type_[is_best]
    return Case(
        pairing=pairing,
        classes=classes,
        type=type_,
        truth=truth,
        is_best=is_best,
        truth_type=truth_type,
        is_counted=is_counted,
        is_found=is_found,
    )


def _is_best(
    type_: NDArray[np.int8], truth: NDArray[np.int32], score: NDArray[Any], is_found: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Whether a detection of wrong class or position has the highest score of all errors about its unfound truth.

    As in TIDE both types compete for a truth; of equal scores the first row wins.
    """
    row = np.flatnonzero((type_ == CLASSIFICATION) | (type_ == LOCALISATION))
    row = row[~is_found[truth[row]]]
    row = row[np.lexsort((-score[row], truth[row]))]
    is_first = np.ones(row.size, bool)
    is_first[1:] = truth[row][1:] != truth[row][:-1]
    is_best = np.zeros(type_.size, bool)
    is_best[row[is_first]] = True
    return is_best


def _average_precision(case: Case, tally: Tally) -> tuple[float, Floats]:
    """AP over all classes by the protocol's rule, and of each class."""
    number, ap_TK = mean_average_precision(tally, case.pairing.threads)
    return number, ap_TK[0]


def _count(label: Ints, classes: Ints) -> Ints:
    return np.bincount(np.searchsorted(classes, label), minlength=classes.size)


def _signed(gain: float) -> str:
    return "-" if gain != gain else f"{gain:+.4f}"
