"""Exports: a summary as CSV, Markdown and LaTeX, and as flat numbers for loggers. Needs no array library."""

import csv
import io
import math
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from boxscore import text
from boxscore.errors import InputError
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


def to_csv(summaries: Sequence[Summary], names: Sequence[str] | None = None) -> str:
    """One number a line: which class (none: all), which number, its value (none: undefined).

    `names`: what the first column, `detections`, has for each summary; without them there is no such column.
    """
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow([*(["detections"] if names is not None else []), "class", "number", "value"])
    for place, summary in enumerate(summaries):
        first = [] if names is None else [names[place]]
        whole = summary.to_dict()
        for number in summary.numbers:
            writer.writerow([*first, "", number, whole[number]])
        for row in whole["per_class"]:
            for number in ("ap", "ar", "num_truths", "num_detections"):
                writer.writerow([*first, row["name"], number, row[number]])
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


def log_dict(summary: Summary, prefix: str = "") -> dict[str, float]:
    """Flat floats under `prefix`: the numbers, and `ap/<class>`. What is undefined is left out: loggers refuse NaN.

    Of classes that share a name, each has its label behind it.
    """
    shared = Counter(row.name for row in summary.per_class)
    classes = {
        f"ap/{row.name}" if shared[row.name] == 1 else f"ap/{row.name} {row.label}": row.ap for row in summary.per_class
    }
    everything = {**summary.numbers, **classes}
    return {f"{prefix}{name}": float(value) for name, value in everything.items() if not math.isnan(value)}


def write_file(path: Path, content: str | bytes) -> None:
    """The file has the content, or, if anything fails, what it had before."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            temporary.write_bytes(content.encode() if isinstance(content, str) else content)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: can't be written: {error.strerror}") from None


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
