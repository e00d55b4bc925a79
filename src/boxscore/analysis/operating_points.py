"""Operating points: score thresholds, chosen by F1, precision or recall."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore.analysis.pairing import Pairing, verdicts_at
from boxscore.protocol.fields import check_finite, check_fraction
from boxscore.result.curves import Floats, Ints
from boxscore.result.result import Result
from boxscore.result.summary import number_or_none
from boxscore.result.tally import FALSE, IGNORED, TRUE, Tally


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ScoreCurve:
    """Precision and recall of the detections with at least a score, at every distinct score, descending."""

    score: NDArray[Any]
    """Distinct scores, descending. Shape (P,)."""
    num_true: Ints
    """True positives with at least this score. Shape (P,)."""
    num_false: Ints
    """False positives with at least this score. Shape (P,)."""
    num_truths: int

    @property
    def precision(self) -> Floats:
        """Shape (P,)."""
        return self.num_true / (self.num_true + self.num_false)

    @property
    def recall(self) -> Floats:
        """NaN without truths. Shape (P,)."""
        return self.num_true / self.num_truths if self.num_truths else np.full(self.score.size, np.nan)

    @property
    def f1(self) -> Floats:
        """The harmonic mean of precision and recall: 2 TP / (2 TP + FP + FN). NaN without truths. Shape (P,)."""
        if not self.num_truths:
            return np.full(self.score.size, np.nan)
        return 2 * self.num_true / (self.num_true + self.num_false + self.num_truths)


def score_curve(score: NDArray[Any], is_true: NDArray[np.bool_], num_truths: int) -> ScoreCurve:
    """The curve of detections in any order, without ignored ones.

    >>> curve = score_curve(np.array([0.9, 0.8, 0.8, 0.3]), np.array([True, True, False, False]), num_truths=2)
    >>> curve.score.tolist(), curve.num_true.tolist(), curve.num_false.tolist()
    ([0.9, 0.8, 0.3], [1, 2, 2], [0, 1, 2])
    """
    order = np.argsort(-score, kind="stable")
    ranked = score[order]
    is_last = np.ones(ranked.size, bool)
    is_last[:-1] = ranked[1:] != ranked[:-1]
    last = np.flatnonzero(is_last)
    num_true = np.cumsum(is_true[order], dtype=np.int64)[last]
    return ScoreCurve(score=ranked[last], num_true=num_true, num_false=last + 1 - num_true, num_truths=int(num_truths))


class Aim(NamedTuple):
    """The criterion of an operating point: a minimum precision, a minimum recall, or, with neither, the best F1."""

    precision: float | None = None
    recall: float | None = None

    @classmethod
    def validated(cls, precision: float | None, recall: float | None) -> "Aim":
        """Validate the aim; raise `InputError` if it is invalid."""
        if precision is not None and recall is not None:
            raise InputError("give `precision` or `recall`, not both: each decides the threshold")
        for name, value in (("precision", precision), ("recall", recall)):
            if value is not None:
                check_fraction(name, value)
        return cls(precision, recall)

    def choose(self, curve: ScoreCurve) -> int | None:
        """The index of the chosen score on the curve; None if no score meets the aim, or without truths.

        It is the highest score with the best F1, the lowest with the minimum precision, or the highest with the minimum
        recall.
        """
        if not curve.num_truths or not curve.score.size:
            return None
        if self.precision is not None:
            indices = np.flatnonzero(curve.precision >= self.precision)[-1:]
        elif self.recall is not None:
            indices = np.flatnonzero(curve.recall >= self.recall)[:1]
        else:
            indices = np.array([np.argmax(curve.f1)])
        return int(indices[0]) if indices.size else None

    def __str__(self) -> str:
        if self.precision is not None:
            return f"the lowest threshold with a precision of at least {self.precision:g}"
        if self.recall is not None:
            return f"the highest threshold with a recall of at least {self.recall:g}"
        return "the threshold with the best F1"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class OperatingPoints:
    """A score threshold for all classes together, and one for each class. `print` shows a table.

    Detections with at least this score are kept. The first row is for all classes, each matched within its class. NaN:
    no threshold meets the aim, or no truths.
    """

    iou: float
    similarity: str = "IoU"
    """The similarity that `iou` is a threshold of."""
    aim: Aim
    label: tuple[int | None, ...]
    """None for all classes, then the labels. Length 1 + K."""
    name: tuple[str, ...]
    """"all classes", then the class names. Length 1 + K."""
    score: Floats
    """The score threshold. Shape (1 + K,)."""
    precision: Floats
    """Shape (1 + K,)."""
    recall: Floats
    """Shape (1 + K,)."""
    f1: Floats
    """Shape (1 + K,)."""
    num_true: Ints
    """True positives with at least this score. Shape (1 + K,)."""
    num_false: Ints
    """False positives with at least this score. Shape (1 + K,)."""
    num_truths: Ints
    """Shape (1 + K,)."""

    def __len__(self) -> int:
        return len(self.name)

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON: `all` and `per_class`. Undefined is None."""
        rows = [
            {
                "label": label,
                "name": name,
                "score": number_or_none(self.score[i]),
                "precision": number_or_none(self.precision[i]),
                "recall": number_or_none(self.recall[i]),
                "f1": number_or_none(self.f1[i]),
                "num_true": int(self.num_true[i]),
                "num_false": int(self.num_false[i]),
                "num_truths": int(self.num_truths[i]),
            }
            for i, (label, name) in enumerate(zip(self.label, self.name, strict=True))
        ]
        whole = {key: value for key, value in rows[0].items() if key not in ("label", "name")}
        return {"iou": self.iou, "aim": self.aim._asdict(), "all": whole, "per_class": rows[1:]}

    def __repr__(self) -> str:
        return f"OperatingPoints({self.aim}: {text.fraction(self.score[0])})"

    def __str__(self) -> str:
        header = ["class", "threshold", "precision", "recall", "F1", "TP", "FP", "truths"]
        cells = [
            [
                name,
                *(text.fraction(column[i]) for column in (self.score, self.precision, self.recall, self.f1)),
                *(f"{column[i]:,}" for column in (self.num_true, self.num_false, self.num_truths)),
            ]
            for i, name in enumerate(self.name)
        ]
        title = f"{str(self.aim).removeprefix('the ')}, at {self.similarity} {self.iou:.2f}"
        return f"{title}\n\n{text.table(cells, align='<>>>>>>>', header=header)}"


def find_operating_points(result: Result, aim: Aim, *, iou: float | None = None) -> OperatingPoints:
    """The operating points of a result, in the first area range and within the largest limit.

    `iou`: any threshold; default: 0.5, or the protocol's first if it has no 0.5.
    """
    tally, t = verdicts_at(result, "operating_points", iou)
    columns = dict(zip(_Point._fields, map(np.array, zip(*_points(tally, t, aim), strict=True)), strict=True))
    return OperatingPoints(
        iou=tally.protocol.thresholds[t],
        similarity=tally.protocol.similarity,
        aim=aim,
        label=(None, *tally.classes.tolist()),
        name=("all classes", *result.per_class.name),
        **columns,
    )


def curve_of_all(tally: Tally, t: int) -> ScoreCurve:
    """The curve of all classes together, each matched within its class, at the t-th threshold."""
    verdict = tally.verdict_at(t)
    is_in = verdict != IGNORED
    return score_curve(tally.score[is_in], verdict[is_in] == TRUE, tally.num_truths[:, 0].sum())


def curve_of_pairs(pairing: Pairing) -> ScoreCurve:
    """The curve of all classes together, from the pairs at one threshold."""
    verdict, is_counted = pairing.verdict, pairing.is_counted
    is_in = (verdict == FALSE) | (verdict == TRUE)
    return score_curve(pairing.score[is_in], verdict[is_in] == TRUE, int(np.count_nonzero(is_counted)))


def given_or_best(score: float | None, curve: ScoreCurve) -> float:
    """The validated score, by default the one with the best F1; NaN, which no detection reaches, if undefined."""
    if score is None:
        best = Aim().choose(curve)
        return float("nan") if best is None else float(curve.score[best])
    return check_finite("score", score)


class _Point(NamedTuple):
    score: float
    precision: float
    recall: float
    f1: float
    num_true: int
    num_false: int
    num_truths: int


def _points(tally: Tally, t: int, aim: Aim) -> Iterator[_Point]:
    yield _point(curve_of_all(tally, t), aim)
    verdict = tally.verdict_at(t)
    row = np.flatnonzero(verdict != IGNORED)
    row = row[np.argsort(tally.label[row], kind="stable")]
    bounds = [*np.searchsorted(tally.label[row], tally.classes, side="left").tolist(), row.size]
    num_truths_K = tally.num_truths[:, 0]
    for k in range(tally.classes.size):
        of_class = row[bounds[k] : bounds[k + 1]]
        yield _point(score_curve(tally.score[of_class], verdict[of_class] == TRUE, num_truths_K[k]), aim)


def _point(curve: ScoreCurve, aim: Aim) -> _Point:
    i = aim.choose(curve)
    if i is None:
        return _Point(np.nan, np.nan, np.nan, np.nan, 0, 0, curve.num_truths)
    return _Point(
        float(curve.score[i]),
        float(curve.precision[i]),
        float(curve.recall[i]),
        float(curve.f1[i]),
        int(curve.num_true[i]),
        int(curve.num_false[i]),
        curve.num_truths,
    )
