"""Summary: a result as Python values, for tables and JSON. Needs no array library."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from boxscore._support import text
from boxscore.protocol.comparable import Comparable, comparable
from boxscore.protocol.measures import meanings
from boxscore.protocol.protocol import Protocol, threshold_index


class ClassRow(NamedTuple):
    """The numbers of one class, in the first area range and within the largest limit. NaN: no truths."""

    label: int
    name: str
    ap: float
    """Average precision, mean over thresholds."""
    ap_50: float
    """Average precision at IoU 0.5. NaN also if 0.5 is not one of the thresholds."""
    ar: float
    """Recall of all detections within the limit, mean over thresholds."""
    num_truths: int
    """Number of truths that count."""
    num_detections: int
    """Number of detections within the limit, ignored ones included."""
    ap_at: Sequence[float]
    """Average precision at each threshold."""
    num_true: Sequence[int]
    """Number of true positives at each threshold."""
    num_false: Sequence[int]
    """Number of false positives at each threshold."""
    extra: Mapping[str, float] = {}
    """The protocol's numbers beside AP and recall."""

    def to_dict(self) -> dict[str, Any]:
        """Convert to values for JSON; undefined numbers are None."""
        columns = self._asdict()
        columns |= {name: number_or_none(value) for name, value in columns.pop("extra").items()}
        return {
            **columns,
            "ap": number_or_none(self.ap),
            "ap_50": number_or_none(self.ap_50),
            "ar": number_or_none(self.ar),
            "ap_at": [number_or_none(value) for value in self.ap_at],
            "num_true": list(self.num_true),
            "num_false": list(self.num_false),
        }


class ClassPoint(NamedTuple):
    """Precision and recall of one class at a score threshold. NaN: no threshold was found."""

    score: float
    precision: float
    recall: float


class Interval(NamedTuple):
    """The confidence interval of a number, and its standard error."""

    low: float
    high: float
    error: float

    def to_dict(self) -> dict[str, float | None]:
        """Convert to values for JSON."""
        return {name: number_or_none(value) for name, value in self._asdict().items()}

    def __str__(self) -> str:
        return text.interval(self.low, self.high)


@dataclass(frozen=True, kw_only=True, slots=True)
class Confidence:
    """Confidence intervals of the numbers of a summary, as Python values."""

    level: float
    resamples: int
    seed: int
    num_images: int
    numbers: Mapping[str, Interval]
    ap: Sequence[Interval]
    """Intervals of AP, by class. `ar`: intervals of recall, by class."""
    ar: Sequence[Interval]

    @property
    def title(self) -> str:
        """A description of the intervals."""
        images = text.count(self.num_images, "image")
        return f"{self.level * 100:g} % intervals: {self.resamples:,} resamples of {images}, seed {self.seed}"

    def to_dict(self) -> dict[str, Any]:
        """Convert to values for JSON: the settings, and `low`, `high` and `error` of every number."""
        return {
            "level": self.level,
            "resamples": self.resamples,
            "seed": self.seed,
            "num_images": self.num_images,
            **{name: interval.to_dict() for name, interval in self.numbers.items()},
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """The outcome of an evaluation as Python values: the named numbers, and one row per class."""

    protocol: Protocol
    numbers: Mapping[str, float]
    per_class: Sequence[ClassRow]
    iou_dtype: str
    num_invalid: int = 0
    """Number of invalid detections that were dropped."""
    num_left_out: int | None = None
    """Number of detections that no number counts, such as beyond the limit; see `Protocol.left_out`. None: unknown."""
    subset: Sequence[str] = ()
    """Descriptions of excluded data."""
    confidence: Confidence | None = None
    """Confidence intervals, if they were requested."""
    points: Sequence[ClassPoint] | None = None
    """The operating point of each class, if requested."""

    def to_dict(self) -> dict[str, Any]:
        """Convert to values for JSON: `protocol`, the numbers by name, `per_class`, `settings`. Undefined is None.

        With confidence intervals, also `intervals`, of the numbers and in each class.
        """
        per_class = [row.to_dict() for row in self.per_class]
        if self.confidence is not None:
            for k, row in enumerate(per_class):
                row |= {"intervals": {name: getattr(self.confidence, name)[k].to_dict() for name in ("ap", "ar")}}
        return {
            "protocol": self.protocol.name,
            **{name: number_or_none(value) for name, value in self.numbers.items()},
            "per_class": per_class,
            "num_left_out": self.num_left_out,
            "settings": self.protocol.to_dict(),
            "iou_dtype": self.iou_dtype,
            "comparable": self.comparable.to_dict(),
            **({} if self.confidence is None else {"intervals": self.confidence.to_dict()}),
        }

    @property
    def comparable(self) -> Comparable:
        """Whether the numbers may be compared with published ones."""
        dropped = [f"{text.count(self.num_invalid, 'invalid detection')} dropped"] if self.num_invalid else []
        return comparable(self.protocol, self.iou_dtype, [*self.subset, *dropped])

    @property
    def class_table(self) -> str:
        """A table with one line per class."""
        table = class_table(self.per_class, self.protocol.thresholds, self.confidence, self.points)
        if not self.num_left_out:
            return table
        return f"{table}\n\nwithout {text.count(self.num_left_out, 'detection')} {self.protocol.left_out}"

    @property
    def counts(self) -> str:
        """The numbers of classes, truths and detections, and of detections that no number counts, as text."""
        num = sum(row.num_detections for row in self.per_class)
        found = text.count(num + (self.num_left_out or 0), "detection")
        if self.num_left_out is None:
            words, is_limit = self.protocol.left_out, not self.protocol.needs
            found += f" {words.replace('beyond', 'within', 1)}" if is_limit else f", without those {words}"
        elif self.num_left_out:
            why = "left out: " if self.protocol.needs else ""
            found += f" ({self.num_left_out:,} {why}{self.protocol.left_out})"
        truths = text.count(sum(row.num_truths for row in self.per_class), "truth")
        return f"{text.count(len(self.per_class), 'class', 'classes')}, {truths}, {found}"

    def __str__(self) -> str:
        sure = self.confidence
        rows = [
            [
                name,
                text.fraction(self.numbers[name]),
                *([] if sure is None else [str(sure.numbers[name]) if name in sure.numbers else ""]),
                *meaning,
            ]
            for name, meaning in meanings(self.protocol)
        ]
        title = f"{self.protocol.title}: {self.counts}" + ("" if sure is None else f"\n{sure.title}")
        table = text.table(rows, align="<><<<<" if sure is None else "<><<<<<")
        return f"{title}\n\n{table}\n\n{self.comparable.sentence}"


def class_table(
    rows: Sequence[ClassRow],
    thresholds: Sequence[float],
    sure: Confidence | None = None,
    points: Sequence[ClassPoint] | None = None,
) -> str:
    """A table with one line per class, with precision, recall and intervals if given.

    True, false and ignored detections at the first threshold add up to all detections. The column of ignored detections
    is omitted if all its values are 0.
    """
    first = text.threshold(thresholds[0])
    intervals = ["interval"] if sure is not None else []
    half = ["AP50"] if has_ap_50(thresholds) else []
    ignored = [row.num_detections - row.num_true[0] - row.num_false[0] for row in rows]
    header = ["class", *(["P", "R"] if points else []), "AP", *intervals, *half, "AR", *intervals, "truths"]
    header += ["detections", f"TP@{first}", f"FP@{first}", *([f"ignored@{first}"] if any(ignored) else [])]
    header += list(rows[0].extra) if rows else []
    cells = [
        [
            row.name,
            *([text.fraction(points[k].precision), text.fraction(points[k].recall)] if points else []),
            text.fraction(row.ap),
            *([] if sure is None else [str(sure.ap[k])]),
            *([text.fraction(row.ap_50)] if half else []),
            text.fraction(row.ar),
            *([] if sure is None else [str(sure.ar[k])]),
            f"{row.num_truths:,}",
            f"{row.num_detections:,}",
            f"{row.num_true[0]:,}",
            f"{row.num_false[0]:,}",
            *([f"{ignored[k]:,}"] if any(ignored) else []),
            *map(text.fraction, row.extra.values()),
        ]
        for k, row in enumerate(rows)
    ]
    return text.table(cells, align="<" + ">" * (len(header) - 1), header=header)


def has_ap_50(thresholds: Sequence[float]) -> bool:
    """Whether the AP at IoU 0.5 differs from the mean AP: 0.5 is one of several thresholds."""
    return len(thresholds) > 1 and threshold_index(thresholds, 0.5) is not None


def ap_50_of(ap_at: Sequence[float], thresholds: Sequence[float]) -> float:
    """The average precision at IoU 0.5; NaN if 0.5 is not one of the thresholds."""
    index = threshold_index(thresholds, 0.5)
    return math.nan if index is None else float(ap_at[index])


def number_or_none(value: float) -> float | None:
    """The number, or None for NaN: JSON has no NaN."""
    return None if math.isnan(value) else float(value)
