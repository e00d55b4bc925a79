"""Exports: a summary as CSV, Markdown and LaTeX, and as flat numbers for loggers. Needs no array library."""

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from boxscore import text
from boxscore.summary import Summary

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "\n": " ",
    }
)

_CLASS_COLUMNS = ("class", "AP", "AR", "truths", "detections")


def to_csv(
    summaries: Sequence[Summary], names: Sequence[str] | None = None, groups: Sequence[str | None] | None = None
) -> str:
    """One number a line: which class (none: all), which number, its value (none: undefined), and its interval if any.

    `names`: what the first column, `detections`, has for each summary; `groups`: the same for a second, `slice` (none:
    all images). Without them there is no such column.
    """
    ends = () if summaries[0].confidence is None else ("low", "high", "error")
    places = {"detections": names, "slice": groups}
    rows: list[list[Any]] = [
        [*(name for name in places if places[name] is not None), "class", "number", "value", *ends]
    ]
    for i, summary in enumerate(summaries):
        whole = summary.to_dict()
        per_class = ("ap", "ar", "num_truths", "num_detections")
        parts = [("", whole, tuple(summary.numbers)), *((row["name"], row, per_class) for row in whole["per_class"])]
        first = [column[i] for column in places.values() if column is not None]
        for class_name, values, numbers in parts:
            intervals = values.get("intervals", {})
            rows += [
                [*first, class_name, number, values[number], *(intervals.get(number, {}).get(end) for end in ends)]
                for number in numbers
            ]
    return as_csv(rows)


def as_csv(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV; None is nothing."""
    output = io.StringIO()
    csv.writer(output, lineterminator="\n").writerows(rows)
    return output.getvalue()


def to_markdown(summary: Summary) -> str:
    """Two tables: the numbers in a row, and a row for each class. Fractions with four digits; a dash is undefined."""
    numbers = _markdown(list(summary.numbers), [[text.fraction(value) for value in summary.numbers.values()]])
    rows = [
        [
            row.name.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " "),
            text.fraction(row.ap),
            text.fraction(row.ar),
            f"{row.num_truths:,}",
            f"{row.num_detections:,}",
        ]
        for row in summary.per_class
    ]
    return f"{numbers}\n\n{_markdown(_CLASS_COLUMNS, rows, num_left=1)}"


def to_latex(summary: Summary) -> str:
    r"""The same tables for LaTeX's booktabs. AP and AR in percent with one digit, as papers have them.

    >>> print("AP_50 & more".translate(_LATEX))
    AP\_50 \& more
    """
    header = [_short_name(name) for name in summary.numbers]
    numbers = _latex(header, [[_percent(value) for value in summary.numbers.values()]])
    rows = [
        [
            row.name.translate(_LATEX),
            _percent(row.ap),
            _percent(row.ar),
            f"{row.num_truths:,}",
            f"{row.num_detections:,}",
        ]
        for row in summary.per_class
    ]
    return f"{numbers}\n\n{_latex(_CLASS_COLUMNS, rows, num_left=1)}"


def log_dict(
    summary: Summary, prefix: str = "", *, undefined: float | None = None, per_class: bool = True
) -> dict[str, float]:
    """Flat floats under `prefix`: the numbers, and `ap/<class>`. What is undefined is `undefined`, or left out.

    Of classes that share a name, each has its label behind it.
    """
    shared = Counter(row.name for row in summary.per_class)
    classes = {
        f"ap/{row.name}" if shared[row.name] == 1 else f"ap/{row.name} {row.label}": row.ap for row in summary.per_class
    }
    everything = {**summary.numbers, **(classes if per_class else {})}
    if undefined is not None:
        everything = {name: undefined if math.isnan(value) else value for name, value in everything.items()}
        return {f"{prefix}{name}": float(value) for name, value in everything.items()}
    return {f"{prefix}{name}": float(value) for name, value in everything.items() if not math.isnan(value)}


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]], *, num_left: int = 0) -> str:
    sides = ["---"] * num_left + ["---:"] * (len(header) - num_left)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, sides, *rows))


def _latex(header: Sequence[str], rows: Sequence[Sequence[str]], *, num_left: int = 0) -> str:
    lines = [" & ".join(cells) + r" \\" for cells in (header, *rows)]
    sides = "l" * num_left + "r" * (len(header) - num_left)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{sides}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def _short_name(name: str) -> str:
    """A number's name as papers have it: `map_50` is AP with a low 50."""
    quantity, _, which = name.partition("_")
    short = {"map": "AP", "mar": "AR"}[quantity]
    return rf"{short}\textsubscript{{{which.translate(_LATEX)}}}" if which else short


def _percent(value: float) -> str:
    return "--" if math.isnan(value) else f"{100 * value:.1f}"
