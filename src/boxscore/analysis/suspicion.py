"""Whether a result looks like a mistake in the input. Needs only counts and AP per class.

`boxscore.analysis.diagnosis` then finds the likely cause from detections and truths.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from boxscore.model.summary import ClassRow

if TYPE_CHECKING:
    from boxscore.model.per_class import PerClass

LOW = 0.1
"""Below this mean AP at the lowest threshold, detections and truths are examined."""
NEAR_ZERO = 0.01
"""Below this, there is a warning even if no cause is found."""


class Counts(NamedTuple):
    """Counts and AP per class, which decide whether a result is suspicious."""

    num_truths: Sequence[int]
    num_detections: Sequence[int]
    ap: Sequence[float]
    """At the lowest threshold; NaN without truths."""

    @classmethod
    def of_rows(cls, rows: Iterable[ClassRow]) -> "Counts":
        """From the rows of a summary."""
        each = [(row.num_truths, row.num_detections, row.ap_at[0]) for row in rows]
        return cls([row[0] for row in each], [row[1] for row in each], [row[2] for row in each])

    @classmethod
    def of_result(cls, per_class: "PerClass") -> "Counts":
        """From the classes of a result."""
        return cls(per_class.num_truths.tolist(), per_class.num_detections.tolist(), per_class.ap_at[:, 0].tolist())

    @property
    def mean_ap(self) -> float:
        """Mean AP at the lowest threshold, over classes with truths; 1 where there are none."""
        aps = [ap for ap, num in zip(self.ap, self.num_truths, strict=True) if num > 0]
        return sum(aps) / len(aps) if aps else 1.0

    @property
    def is_empty(self) -> bool:
        """Whether there are truths, and not a single detection."""
        return sum(self.num_truths) > 0 and sum(self.num_detections) == 0

    @property
    def is_near_zero(self) -> bool:
        """Whether almost no truth was detected."""
        return self.mean_ap < NEAR_ZERO

    @property
    def is_suspicious(self) -> bool:
        """Whether few truths were detected, or half of the classes of either are not among the other's.

        >>> Counts([5, 5], [9, 9], [0.6, 0.4]).is_suspicious, Counts([5, 5], [0, 9], [0.0, 0.01]).is_suspicious
        (False, True)
        """
        if self.mean_ap < LOW:
            return True
        pairs = list(zip(self.num_truths, self.num_detections, strict=True))
        truths, detections = ([pair for pair in pairs if pair[side]] for side in (0, 1))
        num_missed, num_foreign = sum(not pair[1] for pair in truths), sum(not pair[0] for pair in detections)
        return bool(truths) and 2 * num_missed >= len(truths) and 2 * num_foreign >= len(detections)
