"""Plain-text tables, and text from files escaped for terminals, CSV, Markdown and LaTeX.

Names of classes, images and files may contain any characters. Unescaped, they could move the cursor of a terminal,
reverse the direction of a line, end a row of a table, or be run as the formula of a spreadsheet.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

_BIDI = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that change the direction of text."""
_CONTROLS = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160), 0x2028, 0x2029, *_BIDI)}
_MARKDOWN = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        **{mark: f"\\{mark}" for mark in "\\|`*[]"},
        **dict.fromkeys("\t\n\r", " "),
    }
)
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
        "≤": r"$\le$",
        **dict.fromkeys("\t\n\r", " "),
    }
)


def table(rows: Sequence[Sequence[str]], *, align: str, header: Sequence[str] | None = None) -> str:
    """Format rows as aligned text, one line per row, under an optional header. `align` has "<" or ">" per column.

    >>> print(table([["map", "0.5046"], ["map_50", "0.7"]], align="<>"))
    map     0.5046
    map_50     0.7
    """
    everything = [[line(cell) for cell in row] for row in (*([header] if header else []), *rows)]
    widths = [max(map(width, column)) for column in zip(*everything, strict=True)]
    lines = ["  ".join(_padded(*cell) for cell in zip(row, align, widths, strict=True)).rstrip() for row in everything]
    if header:
        lines.insert(1, "  ".join("-" * columns for columns in widths))
    return "\n".join(lines)


def line(words: str) -> str:
    r"""Escape control characters, and characters that change the direction of text, so that it stays on one line.

    >>> line("a\nb"), line("\u202eabc")
    ('a\\nb', '\\u202eabc')
    """
    return words if words.isprintable() else words.translate(_CONTROLS)


def lines(words: str) -> str:
    """Escape each line of a text as `line` does."""
    return words if words.isprintable() else "\n".join(map(line, words.split("\n")))


def csv_cell(words: str) -> str:
    """Escape a text for spreadsheets: keep it on one line, and put an apostrophe before a formula.

    >>> csv_cell("=1+1"), csv_cell("-1"), csv_cell("cat")
    ("'=1+1", '-1', 'cat')
    """
    if words[:1] in ("=", "+", "-", "@") and not _is_number(words):
        words = f"'{words}"
    return line(words)


def markdown(words: str) -> str:
    r"""Escape a text for a cell of a Markdown table: HTML, links and cell separators.

    >>> print(markdown("<b>a|b</b>"))
    &lt;b&gt;a\|b&lt;/b&gt;
    """
    return line(words.translate(_MARKDOWN))


def latex(words: str) -> str:
    r"""Escape the special characters of LaTeX.

    >>> print(latex("AP_50 & more, p ≤ 0.002"))
    AP\_50 \& more, p $\le$ 0.002
    """
    return line(words.translate(_LATEX))


def _is_number(words: str) -> bool:
    try:
        float(words)
    except ValueError:
        return False
    return True


def width(words: str) -> int:
    """Width of a text in terminal columns: 2 for a Chinese, Japanese or Korean letter, 0 for a mark or joiner.

    >>> width("dog"), width("犬"), width("e\u0301")
    (3, 2, 1)
    """
    if words.isascii():
        return len(words)
    from unicodedata import category, east_asian_width

    seen = [letter for letter in words if category(letter) not in ("Mn", "Me", "Cf")]
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in seen)


def _padded(words: str, side: str, columns: int) -> str:
    space = " " * (columns - width(words))
    return words + space if side == "<" else space + words


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> count(1, "truth"), count(1234, "class", "classes")
    ('1 truth', '1,234 classes')
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def threshold(value: float) -> str:
    """An IoU threshold, with at least two decimals.

    >>> threshold(0.5), threshold(0.625)
    ('0.50', '0.625')
    """
    return f"{value:.2f}" if abs(round(value, 2) - value) < 1e-9 else f"{value:.6g}"


def thresholds(values: Sequence[float]) -> str:
    """IoU thresholds: a range as COCO writes it, with the step unless it is 0.05; else a list, or their number.

    >>> thresholds([0.5]), thresholds([0.5, 0.9]), thresholds([0.5, 0.55, 0.6])
    ('0.50', '0.50, 0.90', '0.50:0.60')
    >>> thresholds([0.5, 0.7, 0.9]), thresholds([0.1, 0.2, 0.4, 0.5, 0.9])
    ('0.50:0.90:0.20', '5 from 0.10 to 0.90')
    """
    first, last = threshold(values[0]), threshold(values[-1])
    steps = [after - before for before, after in pairwise(values)]
    if len(steps) > 1 and max(steps) - min(steps) < 1e-9:
        return f"{first}:{last}" if abs(steps[0] - 0.05) < 1e-9 else f"{first}:{last}:{threshold(steps[0])}"
    return ", ".join(map(threshold, values)) if len(values) < 5 else f"{len(values)} from {first} to {last}"


def fraction(value: float) -> str:
    """A number between 0 and 1 with four decimals, or a dash for NaN."""
    return "-" if value != value else f"{value:.4f}"


def interval(low: float, high: float) -> str:
    """Two bounds with four decimals, or a dash for NaN.

    >>> interval(0.5, 0.75)
    '[0.5000, 0.7500]'
    """
    return "-" if low != low or high != high else f"[{low:.4f}, {high:.4f}]"


def p_value(value: float, *, is_least: bool = False) -> str:
    """A p-value with three decimals, more if all of them would be 0; a dash for NaN.

    `is_least` means that no resample contradicted the difference. The value is then the smallest that this number of
    resamples can give, and an upper bound; it is rounded up.

    >>> p_value(0.0341), p_value(0.00004), p_value(2 / 1001, is_least=True), p_value(2 / 100_001, is_least=True)
    ('0.034', '0.00004', '≤ 0.002', '≤ 0.00002')
    """
    if value != value:
        return "-"
    digits = 3 if value >= 0.001 or value <= 0 else -math.floor(math.log10(value))
    if not is_least:
        return f"{value:.{digits}f}"
    upwards = math.ceil(round(value * 10**digits, 6)) / 10**digits
    return f"≤ {upwards:.{digits}f}"
