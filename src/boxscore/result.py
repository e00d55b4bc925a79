"""Result: the numbers under the names that people know, per class, and the curves they come from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from boxscore import text
from boxscore.average import average
from boxscore.columns import Detections, Truths
from boxscore.curves import Curves, Floats, Ints
from boxscore.errors import InputError
from boxscore.measures import measures
from boxscore.protocol import Protocol
from boxscore.summary import ClassRow, Summary, class_table
from boxscore.tally import Tally, Totals


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class PerClass:
    """The numbers of each class in columns, in the first area range and within the largest limit.

    NaN marks a class without truths. `print` shows a table.
    """

    label: Ints
    """Shape (K,)."""
    name: tuple[str, ...]
    """Class names, or labels as text. Length K."""
    ap: Floats
    """Average precision, mean over thresholds. Shape (K,)."""
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

    def __len__(self) -> int:
        return len(self.name)

    def rows(self) -> Iterator[ClassRow]:
        """A row of plain values a class."""
        for k, name in enumerate(self.name):
            yield ClassRow(
                label=int(self.label[k]),
                name=name,
                ap=float(self.ap[k]),
                ar=float(self.ar[k]),
                num_truths=int(self.num_truths[k]),
                num_detections=int(self.num_detections[k]),
                ap_at=self.ap_at[k].tolist(),
                num_true=self.num_true[k].tolist(),
                num_false=self.num_false[k].tolist(),
            )

    def __repr__(self) -> str:
        return f"PerClass({text.count(len(self), 'class', 'classes')})"

    def __str__(self) -> str:
        return class_table(list(self.rows()), self.thresholds)


class Boxes(NamedTuple):
    """Both sides of an evaluation."""

    detections: Detections
    truths: Truths


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Result(Mapping[str, float]):
    """What an evaluation found: a mapping of names to numbers, with all that is behind them.

    Names: `map`, over all thresholds; `map_50` and `map_75` where those are among several thresholds; `map_small`, …
    for each area range but the first; `mar_1`, … for each limit (`mar` where there is none) and `mar_small`, … for each
    area range but the first. NaN is undefined: no truths there. `print` shows a table.
    """

    numbers: Mapping[str, float]
    per_threshold: Mapping[float, float]
    """`map` at each IoU threshold."""
    per_class: PerClass
    curves: Curves
    protocol: Protocol
    iou_dtype: str
    """The precision in which IoUs were computed: float64, or float32 where the device has no more."""
    kept: Tally | None = None
    """The tally, or none where there were too many verdicts to keep."""
    boxes: Boxes | None = None
    """What was matched, for the questions that verdicts can't answer; none where boxes were forgotten on the way."""

    @property
    def tally(self) -> Tally:
        """The verdicts that all of it comes from."""
        if self.kept is None:
            raise InputError("the verdicts of this result were not kept: it was put together class by class")
        return self.kept

    def __getitem__(self, name: str) -> float:
        try:
            return self.numbers[name]
        except KeyError:
            raise KeyError(f"{name!r} is not measured under this protocol; measured are {', '.join(self)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def summary(self) -> Summary:
        """The same in plain values."""
        return Summary(
            protocol=self.protocol,
            numbers=self.numbers,
            per_class=list(self.per_class.rows()),
            iou_dtype=self.iou_dtype,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: `protocol`, the numbers by name, `per_class`, `settings`. Undefined is None."""
        return self.summary.to_dict()

    def __repr__(self) -> str:
        classes = text.count(len(self.per_class), "class", "classes")
        return f"Result({self.protocol.title}, map={self['map']:.4f}, {classes})"

    def __str__(self) -> str:
        return str(self.summary)


def summarize(totals: Totals, curves: Curves, averaged: Curves, tally: Tally | None = None) -> Result:
    """The result of all that `totals` count: numbers from the curves in `averaged`, the rest from `curves`.

    They are the same unless all classes are averaged as one. `tally`: the verdicts, where there is one that has all.
    """
    protocol = totals.protocol
    num_truths_KA = totals.num_truths
    num_truths = num_truths_KA if averaged is curves else num_truths_KA.sum(axis=0, keepdims=True)
    main = next(measures(protocol))
    return Result(
        numbers={measure.name: average(measure, averaged, num_truths, protocol) for measure in measures(protocol)},
        per_threshold={
            threshold: average(main._replace(thresholds=(t,)), averaged, num_truths, protocol)
            for t, threshold in enumerate(protocol.thresholds)
        },
        per_class=_per_class(totals, curves, num_truths_KA[:, 0]),
        curves=curves,
        protocol=protocol,
        iou_dtype=totals.iou_dtype,
        kept=tally,
    )


def _per_class(totals: Totals, curves: Curves, num_truths_K: Ints) -> PerClass:
    names = totals.class_names or {}
    recall_TK = np.where(num_truths_K > 0, curves.recall[:, :, 0, -1], np.nan)
    return PerClass(
        label=totals.classes,
        name=tuple(names.get(int(label), str(label)) for label in totals.classes),
        ap=_mean_over_thresholds(curves.average_precision[:, :, 0, -1]),
        ar=_mean_over_thresholds(recall_TK),
        num_truths=num_truths_K,
        num_detections=totals.num_detections,
        ap_at=curves.average_precision[:, :, 0, -1].T,
        num_true=curves.num_true[:, :, 0, -1].T,
        num_false=curves.num_false[:, :, 0, -1].T,
        thresholds=totals.protocol.thresholds,
    )


def _mean_over_thresholds(values_TK: Floats) -> Floats:
    # One after the other, whatever the number of classes; NumPy's own mean has another order where there is only one.
    return np.asarray(sum(values_TK) / values_TK.shape[0])
