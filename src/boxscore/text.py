"""Plain-text tables."""

import math
from collections.abc import Sequence

_CONTROLS = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160))}


def table(rows: Sequence[Sequence[str]], *, align: str, header: Sequence[str] | None = None) -> str:
    """Rows as aligned text, a line each, under a ruled header if there is one. `align`: "<" or ">" for each column.

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
    r"""Text that stays on its line and does nothing to a terminal: control characters are escaped.

    >>> line("a\nb")
    'a\\nb'
    """
    return words if words.isprintable() else words.translate(_CONTROLS)


def width(words: str) -> int:
    """How many columns of a terminal the text takes: a Chinese, Japanese or Korean letter two, a mark or joiner none.

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
    """A number of things.

    >>> count(1, "truth"), count(1234, "class", "classes")
    ('1 truth', '1,234 classes')
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def fraction(value: float) -> str:
    """A number between 0 and 1 with four digits, or a dash for NaN."""
    return "-" if value != value else f"{value:.4f}"


def interval(low: float, high: float) -> str:
    """Two ends with four digits, or a dash for NaN.

    >>> interval(0.5, 0.75)
    '[0.5000, 0.7500]'
    """
    return "-" if low != low or high != high else f"[{low:.4f}, {high:.4f}]"


def p_value(value: float, *, is_least: bool = False) -> str:
    """A p-value with three digits, or with one that is not 0, or a dash for NaN.

    `is_least`: no resample spoke against the difference, so that this is the least that so many resamples can show,
    and an upper bound; it is rounded upwards.

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
