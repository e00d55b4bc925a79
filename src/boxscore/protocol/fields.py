"""Checks of single values: fields of a protocol, and arguments elsewhere."""

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from boxscore._support.exceptions import InputError


def check_finite(name: str, value: Any) -> float:
    """Return the value as a float; raise `InputError` unless it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise InputError(f"`{name}` must be a finite number; got {value!r}")
    return float(value)


def check_fraction(name: str, value: Any) -> float:
    """Return the value as a float; raise `InputError` unless it is a number between 0 and 1."""
    if not 0 <= check_finite(name, value) <= 1:
        raise InputError(f"`{name}` must be a number between 0 and 1; got {value!r}")
    return float(value)


def check_number(name: str, value: Any, *, most: int | None = None) -> None:
    """Raise `InputError` unless `value` is a positive integer, and at most `most`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= int(value) <= (most or math.inf):
        rule = "a positive integer" if most is None else f"an integer from 1 to {most}"
        raise InputError(f"`{name}` must be {rule}; got {value!r}")


def check_choice(name: str, value: object, allowed: Iterable[str]) -> None:
    """Raise `InputError` unless `value` is in `allowed`."""
    if value not in tuple(allowed):
        raise InputError(f"`{name}` must be one of {', '.join(allowed)}; got {value!r}")
