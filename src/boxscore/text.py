"""Plain-text tables."""

from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]], *, align: str, header: Sequence[str] | None = None) -> str:
    """Rows as aligned text, a line each, under a ruled header if there is one. `align`: "<" or ">" for each column.

    >>> print(table([["map", "0.5046"], ["map_50", "0.7"]], align="<>"))
    map     0.5046
    map_50     0.7
    """
    everything = [*([header] if header else []), *rows]
    widths = [max(map(len, column)) for column in zip(*everything, strict=True)]
    lines = [
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True)).rstrip()
        for row in everything
    ]
    if header:
        lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


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
