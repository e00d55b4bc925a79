"""Confusion: which classes are detected as which, which are not found, and which are detected on background."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from boxscore._support import text
from boxscore.analysis.operating_points import curve_of_pairs, given_or_best
from boxscore.analysis.pairing import Pairing
from boxscore.engines.native.pairs import match_across, side
from boxscore.protocol.fields import check_choice
from boxscore.result.curves import Floats, Ints
from boxscore.result.summary import number_or_none
from boxscore.result.tally import FALSE, TRUE

Normalize = Literal["truths", "detections", "all"]

_MOST_COLUMNS = 12
"""A matrix with more classes is not printed; its largest confusions are."""


class Cells(NamedTuple):
    """The nonzero cells of a matrix, in order of rows, then columns. Shape (C,) each."""

    truth: Ints
    """The class of the truths, as an index into the classes; K: background."""
    found: Ints
    """The class of the detections, as an index into the classes; K: background."""
    num: Ints


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Confusion:
    """How often each class was detected as each class. `print` shows the matrix, or its largest confusions if large.

    Rows are truths, columns are detections of at least `score`. The last row and column are background: detections
    without a truth, truths without a detection. Ignored detections, detections beyond the limit and ignored truths are
    excluded. So a row sums to the truths of its class, a column to its detections, and the diagonal has the true
    positives.
    """

    iou: float
    similarity: str = "IoU"
    """The similarity that `iou` is a threshold of."""
    score: float
    """The lowest score of detections in the matrix. NaN: no detections or no truths."""
    label: Ints
    """Shape (K,)."""
    name: tuple[str, ...]
    """Class names, or labels as text. Length K."""
    cells: Cells
    """The nonzero cells. With thousands of classes few pairs occur, and the dense matrix takes gigabytes."""
    normalize: Normalize | None = None

    @property
    def count(self) -> Ints:
        """The dense matrix, built on each access. Shape (K + 1, K + 1)."""
        return self.part(range(len(self.name) + 1))

    def part(self, places: Sequence[int]) -> Ints:
        """The matrix of the classes at these indices, ascending; K is background. Shape (P, P)."""
        chosen = np.asarray(places, np.int64)
        matrix = np.zeros((chosen.size, chosen.size), np.int64)
        is_in = np.isin(self.cells.truth, chosen) & np.isin(self.cells.found, chosen)
        row, column = (np.searchsorted(chosen, place[is_in]) for place in (self.cells.truth, self.cells.found))
        matrix[row, column] = self.cells.num[is_in]
        return matrix

    @property
    def num_of_row(self) -> Ints:
        """The truths of each class, then the detections on background. Shape (K + 1,)."""
        return self._sum_by(self.cells.truth)

    def _sum_by(self, place: Ints) -> Ints:
        total = np.zeros(len(self.name) + 1, np.int64)
        np.add.at(total, place, self.cells.num)
        return total

    def _between(self) -> Cells:
        """The cells between two different classes, the most frequent first; ties by row, then column."""
        nothing = len(self.name)
        truth, found, num = self.cells
        row = np.flatnonzero((truth != found) & (truth < nothing) & (found < nothing))
        row = row[np.argsort(-num[row], kind="stable")]
        return Cells(truth[row], found[row], num[row])

    @property
    def matrix(self) -> NDArray[Any]:
        """The counts; if normalized, fractions of the row's truths, of the column's detections, or of all.

        NaN where the denominator is 0. Shape (K + 1, K + 1).
        """
        count = self.count
        if self.normalize is None:
            return count
        whole: Any = {
            "truths": count.sum(axis=1, keepdims=True),
            "detections": count.sum(axis=0, keepdims=True),
            "all": count.sum(keepdims=True),
        }[self.normalize]
        shares: Floats = np.full(count.shape, np.nan)
        np.divide(count, whole, out=shares, where=whole > 0)
        return shares

    def largest(self, num: int = 20) -> list[tuple[str, str, int]]:
        """The most frequent confusions between classes: the truth's class, the detection's class, and the count."""
        return [(self.name[i], self.name[j], count) for i, j, count in self.largest_cells(num)]

    def largest_cells(self, num: int) -> list[tuple[int, int, int]]:
        """The most frequent confusions between classes, with class indices instead of names."""
        return list(zip(*(column[:num].tolist() for column in self._between()), strict=True))

    def most_confused(self, num: int) -> list[int]:
        """The indices of the `num` classes that occur in most confusions, as truth or as detection; ascending."""
        between = self._between()
        total = np.zeros(len(self.name), np.int64)
        for place in (between.truth, between.found):
            np.add.at(total, place, between.num)
        return sorted(np.argsort(-total, kind="stable")[:num].tolist())

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON: rows of truths, columns of detections, background last. Undefined is None."""
        matrix = self.matrix.tolist()
        return {
            "iou": self.iou,
            "score": number_or_none(self.score),
            "labels": self.label.tolist(),
            "names": list(self.name),
            "normalize": self.normalize,
            "matrix": matrix
            if self.normalize is None
            else [[number_or_none(value) for value in row] for row in matrix],
        }

    def __repr__(self) -> str:
        return f"Confusion({text.count(len(self.name), 'class', 'classes')}, score={self.score:.4g}, iou={self.iou:g})"

    def __str__(self) -> str:
        truth, found, num = self.cells
        right, wrong = int(num[truth == found].sum()), int(self._between().num.sum())
        unfound, stray = (int(num[place == len(self.name)].sum()) for place in (found, truth))
        title = (
            f"at {self.similarity} {self.iou:.2f}, scores from {text.fraction(self.score)}: "
            f"{right:,} found as what they are, {wrong:,} as another class, {unfound:,} not found; "
            f"{stray:,} on background"
        )
        if len(self.name) <= _MOST_COLUMNS:
            names = [*self.name, "background"]
            cells = [
                [name, *(f"{value:,}" if self.normalize is None else text.fraction(value) for value in row)]
                for name, row in zip(names, self.matrix.tolist(), strict=True)
            ]
            table = text.table(cells, align="<" + ">" * len(names), header=["truth \\ detection", *names])
        else:
            rows = [[truth, found, f"{count:,}"] for truth, found, count in self.largest()]
            table = text.table(rows, align="<<>", header=["truth", "found as", "count"])
        return f"{title}\n\n{table}"


def confuse(
    pairing: Pairing, classes: Ints, names: Sequence[str], score: float | None, normalize: Normalize | None
) -> Confusion:
    """The confusion matrix of a pairing.

    First each class is matched within itself, by the protocol's rules. Then the false positives, by descending score,
    take the nearest remaining truth of another class, if it reaches the threshold.
    """
    if normalize is not None:
        check_choice("normalize", normalize, get_args(Normalize))
    is_in = (pairing.verdict == FALSE) | (pairing.verdict == TRUE)
    score = given_or_best(score, curve_of_pairs(pairing))
    is_kept = is_in & (pairing.score >= score)
    is_true = is_kept & (pairing.verdict == TRUE)
    is_left = is_kept & ~is_true
    is_free = pairing.is_counted & ~pairing.is_found(is_kept)
    found, there = side(pairing.detections, is_left), side(pairing.truths, is_free)
    across = match_across(found, there, pairing.protocol, pairing.threads)
    truth = np.where(is_true, pairing.truth, across)
    found_K, there_K = np.searchsorted(classes, pairing.label), np.searchsorted(classes, pairing.truth_label)
    nothing = classes.size
    met = truth >= 0
    is_free[truth[met]] = False
    strays, unfound = found_K[is_kept & ~met], there_K[is_free]
    row = np.concatenate([there_K[truth[met]], np.full(strays.size, nothing), unfound])
    column = np.concatenate([found_K[met], strays, np.full(unfound.size, nothing)])
    cell, num = np.unique(row * (nothing + 1) + column, return_counts=True)
    return Confusion(
        iou=pairing.protocol.thresholds[0],
        similarity=pairing.protocol.similarity,
        score=score,
        label=classes,
        name=tuple(names),
        cells=Cells(*np.divmod(cell, nothing + 1), num),
        normalize=normalize,
    )
