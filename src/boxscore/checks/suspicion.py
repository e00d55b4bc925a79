"""Judge from counts and AP per class, without NumPy, whether a result looks like a mistake in the input.

`boxscore.checks.mistakes` then finds the likely cause from detections and truths. `src/core/rows/likely_mistakes.h`
checks files that are evaluated without NumPy, and has the thresholds that both need.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from boxscore import _compiled
from boxscore.result.summary import ClassRow

if TYPE_CHECKING:
    from boxscore.result.per_class import PerClass

LOW = 0.1
"""Below this mean AP at the lowest threshold, detections and truths are examined."""
NEAR_ZERO = 0.01
"""Below this mean AP, a warning is given even if no cause is found."""
MIN_ROWS_PER_CLASS = 10
"""With fewer detections and truths than this per class, a class may be missing by chance."""
MAX_COVERED = 0.2
"""Largest share of images with detections that explains a low AP."""
HIGH_RECALL = 0.6
"""Recall above which detections are not taken to cover only a part of the images."""
_NO_CLASS = ("background", "__", "bg", "none", "n/a", "void", "unlabel", "ignore", "empty", "placeholder", "dummy")
"""Parts of the names of label 0 where it does not stand for a class."""


class Counts(NamedTuple):
    """Counts and AP per class, which decide whether a result is suspicious."""

    num_truths: Sequence[int]
    num_detections: Sequence[int]
    ap: Sequence[float]
    """AP at the lowest threshold; NaN without truths."""
    label: Sequence[int] = ()
    name: Sequence[str] = ()
    """Labels and names of the classes; only needed for `has_unused_first_class`."""

    @classmethod
    def of_rows(cls, rows: Iterable[ClassRow]) -> "Counts":
        """Counts from the rows of a summary, without labels and names."""
        each = [(row.num_truths, row.num_detections, row.ap_at[0]) for row in rows]
        return cls([row[0] for row in each], [row[1] for row in each], [row[2] for row in each])

    @classmethod
    def of_result(cls, per_class: "PerClass") -> "Counts":
        """Counts from the classes of a result."""
        counts = per_class.num_truths.tolist(), per_class.num_detections.tolist(), per_class.ap_at[:, 0].tolist()
        return cls(*counts, per_class.label.tolist(), per_class.name)

    @property
    def mean_ap(self) -> float:
        """Mean AP at the lowest threshold, over classes with truths; 1 without truths."""
        aps = [ap for ap, num in zip(self.ap, self.num_truths, strict=True) if num > 0]
        return sum(aps) / len(aps) if aps else 1.0

    @property
    def is_empty(self) -> bool:
        """Whether there are truths, but not a single detection."""
        return sum(self.num_truths) > 0 and sum(self.num_detections) == 0

    @property
    def is_low(self) -> bool:
        """Whether few truths were detected, by the mean AP."""
        return self.mean_ap < LOW

    @property
    def is_near_zero(self) -> bool:
        """Whether almost no truth was detected, by the mean AP."""
        return self.mean_ap < NEAR_ZERO

    @property
    def is_suspicious(self) -> bool:
        """Whether AP is low, or at least half of the classes on each side have no rows on the other side.

        >>> Counts([5, 5], [9, 9], [0.6, 0.4]).is_suspicious, Counts([5, 5], [0, 9], [0.0, 0.01]).is_suspicious
        (False, True)
        """
        if self.is_low:
            return True
        pairs = list(zip(self.num_truths, self.num_detections, strict=True))
        truths, detections = ([pair for pair in pairs if pair[side]] for side in (0, 1))
        num_missed, num_foreign = sum(not pair[1] for pair in truths), sum(not pair[0] for pair in detections)
        return bool(truths) and 2 * num_missed >= len(truths) and 2 * num_foreign >= len(detections)

    @property
    def has_unused_first_class(self) -> bool:
        """Whether classes are numbered from 0, and nearly all of them have rows, but class 0 has none.

        False if the name of class 0 says that it is the background or the like.

        >>> names = ["cat", "dog", "cow", "pig"]
        >>> Counts([0, 5, 9, 6], [0, 50, 90, 60], [0.4] * 4, range(4), names).has_unused_first_class
        True
        """
        num = len(self.label)
        if num < 4 or list(self.label) != list(range(num)) or self.num_truths[0] or self.num_detections[0]:
            return False
        rows = [truths + detections for truths, detections in zip(self.num_truths, self.num_detections, strict=True)]
        is_used = sum(map(bool, rows)) >= 0.9 * (num - 1) and sum(rows) >= MIN_ROWS_PER_CLASS * num
        return is_used and not any(word in self.name[0].lower() for word in _NO_CLASS)


def covers_few_images(num_images: int, num_covered: int, num_detections: int, *, is_low: bool) -> bool:
    """Whether detections were likely made for only a part of the images.

    `num_images`: images with truths. `num_covered`: images with truths and detections. `is_low`: whether AP is low. A
    detector that reports many objects per image reports at least one in nearly every image.

    >>> covers_few_images(5000, 500, 25_000, is_low=False), covers_few_images(5000, 2000, 2600, is_low=False)
    (True, False)
    """
    is_enough = num_images >= _compiled.MIN_IMAGES
    if is_low and num_covered <= MAX_COVERED * num_images and (is_enough or not num_covered):
        return True
    return is_enough and 2 * num_covered < num_images and num_detections >= _compiled.MANY_DETECTIONS * num_covered
