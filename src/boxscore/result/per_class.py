"""The numbers of each class in columns."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from boxscore._support import text
from boxscore.protocol.protocol import threshold_index
from boxscore.result.curves import Averages, Curves, Floats, Ints
from boxscore.result.summary import ClassRow, class_table
from boxscore.result.tally import Totals


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class PerClass:
    """The numbers of each class in columns, in the first area range and within the largest limit.

    NaN marks a class without truths. `print` shows a table. `Result.per_class` has one.

    Args:
        label: Labels. Shape (K,).
        name: Class names, or labels as text. Length K.
        ap: Average precision, mean over thresholds. Shape (K,).
        ap_50: Average precision at IoU 0.5. Shape (K,).
        ar: Recall, mean over thresholds. Shape (K,).
        num_truths: Number of truths that count. Shape (K,).
        num_detections: Number of detections within the limit. Shape (K,).
        ap_at: Average precision at each threshold. Shape (K, T).
        num_true: Number of true positives at each threshold. Shape (K, T).
        num_false: Number of false positives at each threshold. Shape (K, T).
        thresholds: The similarity thresholds. Length T.
        extra: Numbers beside AP and recall, by name. Shape (K,) each.
    """

    label: Ints
    """Labels. Shape (K,)."""
    name: tuple[str, ...]
    """Class names, or labels as text. Length K."""
    ap: Floats
    """Average precision, mean over thresholds. Shape (K,)."""
    ap_50: Floats
    """Average precision at IoU 0.5. NaN also if 0.5 is not one of the thresholds. Shape (K,)."""
    ar: Floats
    """Recall of all detections within the limit, mean over thresholds. Shape (K,)."""
    num_truths: Ints
    """Truths that count. Shape (K,)."""
    num_detections: Ints
    """Detections within the limit, ignored ones included. Shape (K,)."""
    ap_at: Floats
    """Average precision at each threshold. Shape (K, T)."""
    num_true: Ints
    """True positives at each threshold. Shape (K, T)."""
    num_false: Ints
    """False positives at each threshold. Shape (K, T)."""
    thresholds: tuple[float, ...]
    """The similarity thresholds of `ap_at`, `num_true` and `num_false`. Length T."""
    extra: Mapping[str, Floats] = field(default_factory=dict)
    """The protocol's numbers beside AP and recall: `mr`, `olrp`, `olrp_loc`, `olrp_fp`, `olrp_fn`, and `olrp_score`,
    the score threshold of the LRP errors. Shape (K,) each."""

    def __len__(self) -> int:
        return len(self.name)

    def rows(self) -> Iterator[ClassRow]:
        """Yield one row of Python values per class."""
        names = [name for name in ClassRow._fields if name not in ("name", "extra")]
        columns = {name: getattr(self, name).tolist() for name in names} | {"name": self.name}
        for k in range(len(self)):
            extra = {name: float(values[k]) for name, values in self.extra.items()}
            yield ClassRow(**{name: column[k] for name, column in columns.items()}, extra=extra)

    def __repr__(self) -> str:
        return f"PerClass({text.count(len(self), 'class', 'classes')})"

    def __str__(self) -> str:
        return class_table(list(self.rows()), self.thresholds)


def per_class_of(totals: Totals, curves: Curves, averages: Averages, extra: Mapping[str, Floats]) -> PerClass:
    """The numbers of each class. `extra`: numbers beside AP and recall."""
    names = totals.class_names or {}
    ap_TK = averages.ap_at
    index = threshold_index(totals.protocol.thresholds, 0.5)
    return PerClass(
        label=totals.classes,
        name=tuple(names.get(label, str(label)) for label in totals.classes.tolist()),
        ap=averages.ap,
        ap_50=np.full(ap_TK.shape[1], np.nan) if index is None else ap_TK[index],
        ar=averages.ar,
        num_truths=totals.num_truths[:, 0],
        num_detections=totals.num_detections,
        ap_at=ap_TK.T,
        num_true=curves.num_true[:, :, 0, -1].T,
        num_false=curves.num_false[:, :, 0, -1].T,
        thresholds=totals.protocol.thresholds,
        extra=extra,
    )
