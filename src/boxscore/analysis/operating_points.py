"""Operating points: the score from which on detections are kept, chosen by F1, precision or recall."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore.model.curves import Floats, Ints
from boxscore.model.protocol import check_finite, check_fraction
from boxscore.model.summary import plain
from boxscore.model.tally import IGNORED, TRUE, Tally


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ScoreCurve:
    """What is found by all detections of a score and above, at every score there is, from the highest down."""

    score: NDArray[Any]
    """Different scores, falling. Shape (P,)."""
    num_true: Ints
    """True positives with this score or a higher one. Shape (P,)."""
    num_false: Ints
    """False positives likewise. Shape (P,)."""
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
        """The harmonic mean of both: 2 TP / (2 TP + FP + FN). NaN without truths. Shape (P,)."""
        if not self.num_truths:
            return np.full(self.score.size, np.nan)
        return 2 * self.num_true / (self.num_true + self.num_false + self.num_truths)


def score_curve(score: NDArray[Any], is_true: NDArray[np.bool_], num_truths: int) -> ScoreCurve:
    """The curve of detections in any order; ignored ones are not among them.

    >>> curve = score_curve(np.array([0.9, 0.8, 0.8, 0.3]), np.array([True, True, False, False]), num_truths=2)
    >>> curve.score.tolist(), curve.num_true.tolist(), curve.num_false.tolist()
    ([0.9, 0.8, 0.3], [1, 2, 2], [0, 1, 2])
    """
    order = np.argsort(-score, kind="stable")
    falling = score[order]
    is_last = np.ones(falling.size, bool)
    is_last[:-1] = falling[1:] != falling[:-1]
    last = np.flatnonzero(is_last)
    num_true = np.cumsum(is_true[order], dtype=np.int64)[last]
    return ScoreCurve(score=falling[last], num_true=num_true, num_false=last + 1 - num_true, num_truths=int(num_truths))


class Aim(NamedTuple):
    """What an operating point is chosen by: a least precision, a least recall, or neither: the best F1."""

    precision: float | None = None
    recall: float | None = None

    @classmethod
    def of(cls, precision: float | None, recall: float | None) -> "Aim":
        """The aim, checked."""
        if precision is not None and recall is not None:
            raise InputError("give `precision` or `recall`, not both: each decides the threshold")
        for name, value in (("precision", precision), ("recall", recall)):
            if value is not None:
                check_fraction(name, value)
        return cls(precision, recall)

    def place(self, curve: ScoreCurve) -> int | None:
        """The place of the score on the curve: the highest with the best F1, the lowest with so much precision, or the
        highest with so much recall. None if there is none, and where there are no truths.
        """
        if not curve.num_truths or not curve.score.size:
            return None
        if self.precision is not None:
            places = np.flatnonzero(curve.precision >= self.precision)[-1:]
        elif self.recall is not None:
            places = np.flatnonzero(curve.recall >= self.recall)[:1]
        else:
            places = np.array([np.argmax(curve.f1)])
        return int(places[0]) if places.size else None

    def __str__(self) -> str:
        if self.precision is not None:
            return f"the lowest threshold with a precision of at least {self.precision:g}"
        if self.recall is not None:
            return f"the highest threshold with a recall of at least {self.recall:g}"
        return "the threshold with the best F1"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class OperatingPoints:
    """A score threshold for all classes together, and one for each class. `print` shows a table.

    Kept are detections of this score and above. The first row is of all classes, each matched within its class. NaN:
    no threshold does it, or there are no truths.
    """

    iou: float
    aim: Aim
    label: tuple[int | None, ...]
    """None for all classes, then the labels. Length 1 + K."""
    name: tuple[str, ...]
    """"all classes", then the class names. Length 1 + K."""
    score: Floats
    """The threshold. Shape (1 + K,)."""
    precision: Floats
    """Shape (1 + K,)."""
    recall: Floats
    """Shape (1 + K,)."""
    f1: Floats
    """Shape (1 + K,)."""
    num_true: Ints
    """True positives from the threshold on. Shape (1 + K,)."""
    num_false: Ints
    """False positives from the threshold on. Shape (1 + K,)."""
    num_truths: Ints
    """Shape (1 + K,)."""

    def __len__(self) -> int:
        return len(self.name)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: `all` and `per_class`. Undefined is None."""
        rows = [
            {
                "label": label,
                "name": name,
                "score": plain(self.score[i]),
                "precision": plain(self.precision[i]),
                "recall": plain(self.recall[i]),
                "f1": plain(self.f1[i]),
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
        title = f"{str(self.aim).removeprefix('the ')}, at IoU {self.iou:.2f}"
        return f"{title}\n\n{text.table(cells, align='<>>>>>>>', header=header)}"


def find_operating_points(tally: Tally, names: Sequence[str], place: int, aim: Aim) -> OperatingPoints:
    """The operating points at the threshold of this place, in the first area range and within the largest limit."""
    columns = dict(zip(_Point._fields, map(np.array, zip(*_points(tally, place, aim), strict=True)), strict=True))
    return OperatingPoints(
        iou=tally.protocol.thresholds[place],
        aim=aim,
        label=(None, *tally.classes.tolist()),
        name=("all classes", *names),
        **columns,
    )


def curve_of_all(tally: Tally, place: int) -> ScoreCurve:
    """The curve of all classes together, each matched within its class."""
    verdict = tally.verdict_at(place)
    is_in = verdict != IGNORED
    return score_curve(tally.score[is_in], verdict[is_in] == TRUE, tally.num_truths[:, 0].sum())


def given_or_best(score: float | None, curve: ScoreCurve) -> float:
    """The score, or without one that of the best F1; NaN, which keeps nothing, where there is none."""
    if score is None:
        place = Aim().place(curve)
        return float("nan") if place is None else float(curve.score[place])
    return check_finite("score", score)


class _Point(NamedTuple):
    score: float
    precision: float
    recall: float
    f1: float
    num_true: int
    num_false: int
    num_truths: int


def _points(tally: Tally, place: int, aim: Aim) -> Iterator[_Point]:
    yield _point(curve_of_all(tally, place), aim)
    verdict = tally.verdict_at(place)
    row = np.flatnonzero(verdict != IGNORED)
    row = row[np.argsort(tally.label[row], kind="stable")]
    bounds = [*np.searchsorted(tally.label[row], tally.classes, side="left").tolist(), row.size]
    num_truths_K = tally.num_truths[:, 0]
    for k in range(tally.classes.size):
        of_class = row[bounds[k] : bounds[k + 1]]
        yield _point(score_curve(tally.score[of_class], verdict[of_class] == TRUE, num_truths_K[k]), aim)


def _point(curve: ScoreCurve, aim: Aim) -> _Point:
    place = aim.place(curve)
    if place is None:
        return _Point(np.nan, np.nan, np.nan, np.nan, 0, 0, curve.num_truths)
    return _Point(
        float(curve.score[place]),
        float(curve.precision[place]),
        float(curve.recall[place]),
        float(curve.f1[place]),
        int(curve.num_true[place]),
        int(curve.num_false[place]),
        curve.num_truths,
    )
