"""Names in charts: short enough for their place, and in letters that some installed font has."""

import functools
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from boxscore._support import text

BASE_FAMILY = "DejaVu Sans"
"""It comes with matplotlib."""

MISSING = "□"
"""What stands for a letter that no installed font has."""

_UNFIT = ("emoji", "color", "last resort")
"""Words in the names of fonts that matplotlib can't draw, or that have a sign for "no such letter" only."""

_LIKELY = ("cjk", "noto sans", "gothic", "hei", "sans")
"""Words in the names of fonts that are asked first for letters that the base font lacks."""


class Written(NamedTuple):
    """Names as a chart has them, and the fonts to write them with, the first that has a letter."""

    names: list[str]
    families: list[str]
    longest: int
    """The width of the widest name; a Chinese, Japanese or Korean letter counts as two."""


def written(names: Sequence[str], most: int) -> Written:
    """Names of at most so many columns, without letters that can't be drawn. The middle of a longer one is left out."""
    plain = [brief(_plain(name), most) for name in names]
    families, missing = _fonts_for(frozenset("".join(plain)))
    shown = ["".join(MISSING if letter in missing else letter for letter in name) for name in plain]
    return Written(shown, families, max(map(text.width, shown), default=0))


def brief(name: str, most: int) -> str:
    """A name in at most so many columns, without its middle.

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


def _plain(name: str) -> str:
    """One line, without control characters, marks of direction and halves of surrogate pairs."""
    whole = text.line(name).encode("utf-8", "replace").decode()
    return "".join(letter for letter in whole if unicodedata.category(letter) not in ("Cc", "Cf", "Zl", "Zp"))


@functools.lru_cache(maxsize=64)
def _fonts_for(letters: frozenset[str]) -> tuple[list[str], frozenset[str]]:
    """The families that have these letters, and the letters that none has. Other fonts are read only if need be."""
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
        found = {letter for letter in missing if ord(letter) in _letters_of(fonts[family])}
        if found:
            families.append(family)
            missing -= found
        if not missing:
            break
    return families, frozenset(missing)


def _rank(family: str) -> tuple[int, str]:
    place = next((i for i, word in enumerate(_LIKELY) if word in family.lower()), len(_LIKELY))
    return place, family


@functools.lru_cache(maxsize=256)
def _letters_of(path: str) -> frozenset[int]:
    """The code points that a font has; none if it can't be read."""
    from matplotlib import font_manager

    try:
        return frozenset(font_manager.get_font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()
