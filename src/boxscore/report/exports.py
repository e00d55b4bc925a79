"""Exports of summaries: CSV, Markdown, LaTeX, and flat numbers for loggers. Needs no array library."""

import csv
import io
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from boxscore._support import text
from boxscore._support.writing import write_file
from boxscore.protocol.measures import quantity_of
from boxscore.result.summary import ClassPoint, Interval, Summary, has_ap_50, number_or_none

MAX_TABLE_ROWS = 40
"""Maximum number of rows of a LaTeX table on one page; longer tables are a `longtable`."""


def to_csv(
    summaries: Sequence[Summary], names: Sequence[str] | None = None, groups: Sequence[str | None] | None = None
) -> str:
    """CSV with one number per line: class (empty: all), number, value (empty: undefined), and its confidence interval.

    `names`: one per summary, adds a column `detections`. `groups`: one per summary, adds a column `slice` (empty: all
    images). Columns of intervals are only added if the first summary has them.
    """
    ends = () if summaries[0].confidence is None else ("low", "high", "error")
    leading = {"detections": names, "slice": groups}
    rows: list[list[Any]] = [
        [*(name for name in leading if leading[name] is not None), "class", "number", "value", *ends]
    ]
    for i, summary in enumerate(summaries):
        whole = summary.to_dict()
        per_class: tuple[str, ...] = ("ap", "ap_50", "ar", "num_truths", "num_detections", *_extra_names(summary))
        if summary.points is not None:
            per_class += ClassPoint._fields
            for row, point in zip(whole["per_class"], summary.points, strict=True):
                row |= {name: number_or_none(value) for name, value in point._asdict().items()}
        parts = [("", whole, tuple(summary.numbers)), *((row["name"], row, per_class) for row in whole["per_class"])]
        first = [column[i] for column in leading.values() if column is not None]
        for class_name, values, numbers in parts:
            intervals = values.get("intervals", {})
            rows += [
                [*first, class_name, number, values[number], *(intervals.get(number, {}).get(end) for end in ends)]
                for number in numbers
            ]
    return as_csv(rows)


def save(content: str, path: str | os.PathLike[str] | None) -> str | None:
    """Write the content to `path` and return None; without a path, return it."""
    if path is None:
        return content
    write_file(Path(path), content)
    return None


def as_csv(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV; None is an empty cell. Text is on one line and never a formula."""
    output = io.StringIO()
    safe = ([text.csv_cell(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    csv.writer(output, lineterminator="\n").writerows(safe)
    return output.getvalue()


class _Style(NamedTuple):
    """How a table format writes the content of cells."""

    name: Callable[[str], str]
    """Formats the name of a class, a model or a group."""
    measure: Callable[[str], str]
    value: Callable[[float], str]
    interval: Callable[[Interval], str]
    table: Callable[..., str]


def to_markdown(
    summaries: Sequence[Summary], names: Sequence[str] | None = None, groups: Sequence[str | None] | None = None
) -> str:
    """Markdown with two tables: the numbers, one row per summary, and the classes, one row per class and summary.

    Fractions have four digits; a dash is undefined. `names` adds a column `model`, `groups` a column `slice`.
    """
    style = _Style(text.markdown, str, text.fraction, str, markdown_table)
    return _tables(summaries, {"model": names, "slice": groups}, style)


def to_latex(
    summaries: Sequence[Summary], names: Sequence[str] | None = None, groups: Sequence[str | None] | None = None
) -> str:
    """The tables of `to_markdown` for LaTeX's booktabs. AP and AR are in percent with one digit, as in papers.

    A table of many rows is a `longtable`, which continues on the next page.
    """
    style = _Style(text.latex, _short_name, percent, _percent_interval, latex_table)
    return _tables(summaries, {"model": names, "slice": groups}, style)


def _tables(summaries: Sequence[Summary], columns: Mapping[str, Sequence[str | None] | None], style: _Style) -> str:
    leading = {name: values for name, values in columns.items() if values is not None}
    half = ["AP50"] if has_ap_50(summaries[0].protocol.thresholds) else []
    numbers, classes = [], []
    for i, summary in enumerate(summaries):
        lead = [style.name(values[i] or "") for values in leading.values()]
        confidence, points = summary.confidence, summary.points
        numbers.append(
            [
                *lead,
                *(
                    _cell(style, value, confidence.numbers[name] if confidence else None)
                    for name, value in summary.numbers.items()
                ),
            ]
        )
        classes += [
            [
                *lead,
                style.name(row.name),
                *([style.value(points[k].precision), style.value(points[k].recall)] if points else []),
                _cell(style, row.ap, confidence.ap[k] if confidence else None),
                *([style.value(row.ap_50)] if half else []),
                _cell(style, row.ar, confidence.ar[k] if confidence else None),
                f"{row.num_truths:,}",
                f"{row.num_detections:,}",
                *(_extra_value(style, name, value) for name, value in row.extra.items()),
            ]
            for k, row in enumerate(summary.per_class)
        ]
    head = [*leading, *map(style.measure, summaries[0].numbers)]
    both = ["P", "R"] if summaries[0].points else []
    extra = map(style.measure, _extra_names(summaries[0]))
    class_head = [*leading, "class", *both, "AP", *half, "AR", "truths", "detections", *extra]
    tables = [
        style.table(head, numbers, num_left=len(leading)),
        style.table(class_head, classes, num_left=len(leading) + 1),
    ]
    return "\n\n".join(tables)


def _extra_names(summary: Summary) -> tuple[str, ...]:
    """The names of the per-class numbers besides AP and recall."""
    return tuple(summary.per_class[0].extra) if summary.per_class else ()


def _extra_value(style: _Style, name: str, value: float) -> str:
    """An extra number as text; scores are never in percent."""
    return text.fraction(value) if name.endswith("_score") else style.value(value)


def _cell(style: _Style, value: float, interval: Interval | None) -> str:
    return style.value(value) if interval is None else f"{style.value(value)} {style.interval(interval)}"


def log_dict(
    summary: Summary, prefix: str = "", *, undefined: float | None = None, per_class: bool = True
) -> dict[str, float]:
    """Flat floats with `prefix`: the numbers, and `ap/<class>`. Undefined numbers become `undefined`, or are dropped.

    Classes that share a name get their label appended.
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


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, num_left: int = 0) -> str:
    """Cells as a Markdown table, the first `num_left` columns left-aligned."""
    sides = ["---"] * num_left + ["---:"] * (len(header) - num_left)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, sides, *rows))


def latex_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, num_left: int = 0) -> str:
    """Cells as a table for LaTeX's booktabs, the first `num_left` columns left-aligned; a long one is a `longtable`."""
    first, *lines = [" & ".join(cells) + r" \\" for cells in (header, *rows)]
    sides = "l" * num_left + "r" * (len(header) - num_left)
    top = [r"\toprule", first, r"\midrule"]
    if len(rows) <= MAX_TABLE_ROWS:
        return "\n".join([rf"\begin{{tabular}}{{{sides}}}", *top, *lines, r"\bottomrule", r"\end{tabular}"])
    # head and foot of every page come first
    ends = [r"\endhead", r"\bottomrule", r"\endfoot"]
    needs = r"% \usepackage{booktabs, longtable}"
    return "\n".join([needs, rf"\begin{{longtable}}{{{sides}}}", *top, *ends, *lines, r"\end{longtable}"])


def _short_name(name: str) -> str:
    """A number's name as in papers: `map_50` is AP with subscript 50."""
    known = quantity_of(name)
    if known is None:
        return text.latex(name)
    quantity, which = known
    return rf"{quantity.latex}\textsubscript{{{text.latex(which)}}}" if which else quantity.latex


def percent(value: float) -> str:
    """A fraction in percent with one digit, as in papers; two dashes for NaN."""
    return "--" if math.isnan(value) else f"{100 * value:.1f}"


def _percent_interval(interval: Interval) -> str:
    return "--" if math.isnan(interval.low) else f"[{percent(interval.low)}, {percent(interval.high)}]"
