"""Labels of charts: short enough for their space, with characters that an installed font has."""

import functools
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from boxscore._support import text

BASE_FAMILY = "DejaVu Sans"
"""The default font of matplotlib, which includes it."""

MISSING = "□"
"""Replaces a character that no installed font has."""

_UNFIT = ("emoji", "color", "last resort")
"""Words in the names of fonts that matplotlib can't draw, or that only have placeholders."""

_LIKELY = ("cjk", "noto sans", "gothic", "hei", "sans")
"""Words in the names of fonts that are tried first for characters missing in the base font."""


class Labels(NamedTuple):
    """Names as a chart shows them, and the font families to draw them with, in order of fallback."""

    names: list[str]
    families: list[str]
    longest: int
    """The width of the widest name in columns; a Chinese, Japanese or Korean character takes two."""


def fit_labels(names: Sequence[str], most: int) -> Labels:
    """Names of at most `most` columns that can be drawn. The middle of a longer name is cut."""
    briefs = [brief(printable(name), most) for name in names]
    families, missing = _fonts_for(frozenset("".join(briefs)))
    shown = ["".join(MISSING if letter in missing else letter for letter in name) for name in briefs]
    return Labels(shown, families, max(map(text.width, shown), default=0))


def brief(name: str, most: int) -> str:
    """A name of at most `most` columns; the middle of a longer one is cut.

    >>> brief("dog", 9), brief("a rather long name", 9), brief("日本語のクラス名", 9)
    ('dog', 'a ra…name', '日本…ス名')
    """
    if text.width(name) <= most:
        return name
    half = (most - 1) // 2
    return f"{_start(name, half)}…{_start(name[::-1], half)[::-1]}"


def _start(name: str, most: int) -> str:
    end = next((i for i in range(len(name) + 1) if text.width(name[:i]) > most), len(name) + 1)
    return name[: end - 1]


def printable(name: str) -> str:
    """The name on one line, without control characters, direction marks and lone surrogates."""
    encodable = text.line(name).encode("utf-8", "replace").decode()
    return "".join(letter for letter in encodable if unicodedata.category(letter) not in ("Cc", "Cf", "Zl", "Zp"))


@functools.lru_cache(maxsize=64)
def _fonts_for(letters: frozenset[str]) -> tuple[list[str], frozenset[str]]:
    """The font families with these characters, and the characters that no font has. Fonts are read only if needed."""
    from matplotlib import font_manager

    families = [BASE_FAMILY]
    missing = {letter for letter in letters if ord(letter) not in _letters_of(font_manager.findfont(BASE_FAMILY))}
    if not missing:
        return families, frozenset()
    fonts = {
        font.name: font.fname
        for font in font_manager.fontManager.ttflist
        if font.style == "normal" and not any(word in font.name.lower() for word in _UNFIT)
    }
    for family in sorted(fonts, key=_rank):
        present = {letter for letter in missing if ord(letter) in _letters_of(fonts[family])}
        if present:
            families.append(family)
            missing -= present
        if not missing:
            break
    return families, frozenset(missing)


def _rank(family: str) -> tuple[int, str]:
    return next((i for i, word in enumerate(_LIKELY) if word in family.lower()), len(_LIKELY)), family


@functools.lru_cache(maxsize=256)
def _letters_of(path: str) -> frozenset[int]:
    """The code points of a font; empty if it can't be read."""
    from matplotlib import font_manager

    try:
        return frozenset(font_manager.get_font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()
