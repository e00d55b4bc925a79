"""Summary: a result in plain values, as tables and JSON show it. Needs no array library."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from boxscore import text
from boxscore.measures import measures
from boxscore.protocol import Protocol


class ClassRow(NamedTuple):
    """The numbers of one class, in the first area range and within the largest limit. NaN: it has no truths."""

    label: int
    name: str
    ap: float
    """Average precision, mean over thresholds."""
    ar: float
    """Recall of all detections within the limit, mean over thresholds."""
    num_truths: int
    """Truths that count."""
    num_detections: int
    """Detections within the limit, ignored ones included."""
    ap_at: Sequence[float]
    """Average precision at each threshold."""
    num_true: Sequence[int]
    """True positives at each threshold."""
    num_false: Sequence[int]
    """False positives at each threshold."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; undefined numbers are None."""
        return {
            **self._asdict(),
            "ap": plain(self.ap),
            "ar": plain(self.ar),
            "ap_at": [plain(value) for value in self.ap_at],
            "num_true": list(self.num_true),
            "num_false": list(self.num_false),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What an evaluation found, in plain values: the named numbers and a row for each class."""

    protocol: Protocol
    numbers: Mapping[str, float]
    per_class: Sequence[ClassRow]
    iou_dtype: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: `protocol`, the numbers by name, `per_class`, `settings`. Undefined is None."""
        return {
            "protocol": self.protocol.name,
            **{name: plain(value) for name, value in self.numbers.items()},
            "per_class": [row.to_dict() for row in self.per_class],
            "settings": self.protocol.to_dict(),
            "iou_dtype": self.iou_dtype,
        }

    def __str__(self) -> str:
        counts = [
            text.count(len(self.per_class), "class", "classes"),
            text.count(sum(row.num_truths for row in self.per_class), "truth"),
            text.count(sum(row.num_detections for row in self.per_class), "detection"),
        ]
        rows = [
            [measure.name, text.fraction(self.numbers[measure.name]), *measure.meaning(self.protocol)]
            for measure in measures(self.protocol)
        ]
        return f"{self.protocol.title}: {', '.join(counts)}\n\n{text.table(rows, align='<><<<<')}"


def class_table(rows: Sequence[ClassRow], thresholds: Sequence[float]) -> str:
    """Classes as a table, a line each."""
    first = f"{thresholds[0]:.2f}"
    header = ["class", "AP", "AR", "truths", "detections", f"TP@{first}", f"FP@{first}"]
    cells = [
        [
            row.name,
            text.fraction(row.ap),
            text.fraction(row.ar),
            f"{row.num_truths:,}",
            f"{row.num_detections:,}",
            f"{row.num_true[0]:,}",
            f"{row.num_false[0]:,}",
        ]
        for row in rows
    ]
    return text.table(cells, align="<>>>>>>", header=header)


def plain(value: float) -> float | None:
    """The number, or None for NaN: JSON has no NaN."""
    return None if math.isnan(value) else float(value)
