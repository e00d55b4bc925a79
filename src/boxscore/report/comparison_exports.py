"""A comparison as CSV, Markdown and LaTeX."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from boxscore._support import text
from boxscore.report.exports import as_csv, latex_table, markdown_table, percent

if TYPE_CHECKING:
    from boxscore.analysis.comparison import Change, Comparison, Difference


def to_csv(comparison: "Comparison") -> str:
    """CSV with one number per line: models, class (empty: all), number, both values, difference, interval and p-value.

    The last column says whether the p-value is an upper bound.
    """
    rows: list[list[Any]] = []
    for difference in comparison.differences:
        models = [difference.first, difference.second]
        values = difference.to_dict()
        changes = [("", name, values[name]) for name in difference.numbers]
        changes += [(row["name"], name, row[name]) for row in values["per_class"] for name in ("ap", "ar")]
        rows += [[*models, class_name, name, *change.values()] for class_name, name, change in changes]
    columns = ["first_value", "second_value", "difference", "low", "high", "error", "p_value", "is_least"]
    return as_csv([["first", "second", "class", "number", *columns], *rows])


def to_markdown(comparison: "Comparison") -> str:
    """Markdown with two tables: every number, and the AP of every class, with difference, interval and p-value."""
    return _tables(comparison, text.markdown, lambda change: change.cells(), markdown_table)


def to_latex(comparison: "Comparison") -> str:
    """Format the comparison for LaTeX's booktabs, in percent; a table of many rows is a `longtable`."""
    return _tables(comparison, text.latex, _in_percent, latex_table)


def _tables(
    comparison: "Comparison",
    escape: Callable[[str], str],
    cells: Callable[["Change"], list[str]],
    table: Callable[..., str],
) -> str:
    """Both tables, with a column `model` if several models are compared with the first."""
    names = comparison.names
    is_one = len(names) == 2
    head = [escape(names[0]), escape(names[1]) if is_one else "value", "difference", "interval", "p"]

    def made(title: str, changes: "Callable[[Difference], Iterator[tuple[str, Change]]]") -> str:
        rows = [
            [*([] if is_one else [escape(difference.second)]), escape(name), *cells(change)]
            for difference in comparison.differences
            for name, change in changes(difference)
        ]
        lead = [title] if is_one else ["model", title]
        return table([*lead, *head], rows, num_left=len(lead))

    numbers = made("number", lambda difference: iter(difference.numbers.items()))
    classes = made("AP by class", lambda difference: zip(difference.class_name, difference.ap, strict=True))
    return f"{numbers}\n\n{classes}"


def _in_percent(change: "Change") -> list[str]:
    both = [percent(change.first), percent(change.second)]
    if change.difference != change.difference:
        return [*both, "--", "--", "--"]
    both.append(f"{100 * change.difference:+.1f}")
    if change.low != change.low:
        return [*both, "--", "--"]
    return [*both, f"[{100 * change.low:+.1f}, {100 * change.high:+.1f}]", text.latex(change.p_text)]
