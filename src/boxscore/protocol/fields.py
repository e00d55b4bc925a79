"""The fields of a protocol: their values as they are kept, and the errors for those that can't be."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from numbers import Integral, Real
from operator import lt
from typing import Any, NamedTuple

from boxscore._support.exceptions import InputError


class Area(NamedTuple):
    """A named range of box areas; both ends belong to it."""

    name: str
    low: float
    high: float


def check_finite(name: str, value: Any) -> float:
    """The value as a float; `InputError` unless it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise InputError(f"`{name}` must be a finite number; got {value!r}")
    return float(value)


def check_fraction(name: str, value: Any) -> float:
    """The value as a float; `InputError` unless it is a number between 0 and 1."""
    if not 0 <= check_finite(name, value) <= 1:
        raise InputError(f"`{name}` must be a number between 0 and 1; got {value!r}")
    return float(value)


def check_number(name: str, value: Any, *, most: int | None = None) -> None:
    """Raise `InputError` unless `value` is a positive integer, and at most so large."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= int(value) <= (most or math.inf):
        rule = "a positive integer" if most is None else f"an integer from 1 to {most}"
        raise InputError(f"`{name}` must be {rule}; got {value!r}")


def check_choice(name: str, value: object, allowed: Iterable[str]) -> None:
    """Raise `InputError` unless `value` is one of those allowed."""
    if value not in tuple(allowed):
        raise InputError(f"`{name}` must be one of {', '.join(allowed)}; got {value!r}")


def ascending(name: str, values: Iterable[float], *, low: float, high: float) -> tuple[float, ...]:
    """Numbers between two bounds, ascending."""
    try:
        numbers = tuple(map(float, values))
    except (TypeError, ValueError):
        raise InputError(f"`{name}` must be a sequence of numbers; got {values!r}") from None
    if not numbers:
        raise InputError(f"`{name}` must have at least one number; got none")
    if low <= numbers[0] and numbers[-1] <= high and all(map(lt, numbers, numbers[1:])):
        return numbers  # nearly always, and at each change of a protocol
    for number in numbers:
        if not low <= number <= high:
            raise InputError(f"`{name}` must lie between {low:g} and {high:g}; got {number:g}")
    if any(first >= second for first, second in pairwise(numbers)):
        raise InputError(f"`{name}` must be ascending, without repeats; got {list(numbers)}")
    return numbers


def areas_of(areas: Any) -> tuple[Area, ...]:
    """Ranges of areas, from a mapping or a sequence."""
    try:
        rows = [(name, *bounds) for name, bounds in areas.items()] if isinstance(areas, Mapping) else list(areas)
        ranges = tuple(
            Area(str(name), float(low), math.inf if high is None else float(high)) for name, low, high in rows
        )
    except (TypeError, ValueError):
        raise InputError(f"`areas` must map names to (low, high); got {areas!r}") from None
    if not 1 <= len(ranges) <= 63:
        raise InputError(f"`areas` must have 1 to 63 ranges; got {len(ranges)}")
    for area in ranges:
        if not 0 <= area.low <= area.high:
            raise InputError(f"`areas`: {area.name!r} must have 0 <= low <= high; got ({area.low:g}, {area.high:g})")
        if area.name.isdigit():
            raise InputError(f"`areas` must have names that are not numbers, as `map_50` is one; got {area.name!r}")
    if len({area.name for area in ranges}) < len(ranges):
        raise InputError(f"`areas` must have different names; got {[area.name for area in ranges]}")
    return ranges


def recalls_of(values: Any, limits: Any, thresholds: Sequence[float]) -> tuple[float, ...]:
    """Thresholds at which recall is a number of its own, ascending."""
    is_empty = isinstance(values, tuple | list) and not values
    recalls = () if is_empty else ascending("recall_at", values, low=0.0, high=1.0)
    names = [round(recall * 100) for recall in recalls]
    if len(set(names)) < len(names):
        raise InputError(f"`recall_at` must differ by a hundredth, as `mar_50` is a name; got {list(recalls)}")
    for recall, name in zip(recalls, names, strict=True):
        is_number = any(abs(threshold - recall) < 1e-9 for threshold in thresholds)
        if is_number and name in tuple(limits)[:-1]:
            raise InputError(f"`limits` must not have {name} before the last: mar_{name} is the recall at {recall:g}")
    return recalls


def names_of(name: str, values: Any, allowed: Iterable[str] | None = None) -> tuple[str, ...]:
    """Names, each once, of those that are allowed; by default, any that may be part of the name of a number."""
    names = tuple(values) if isinstance(values, tuple | list) else ()
    if not names and values not in ((), []):
        raise InputError(f"`{name}` must be a sequence of names; got {values!r}")
    for each in names:
        if allowed is not None and each not in tuple(allowed):
            raise InputError(f"`{name}` must be of {', '.join(allowed)}; got {each!r}")
        if not isinstance(each, str) or not each or each.isdigit():
            raise InputError(f"`{name}` must be names that are not numbers; got {each!r}")
    if len(set(names)) < len(names):
        raise InputError(f"`{name}` must have each name once; got {list(names)}")
    return names


def sigmas_of(values: Any) -> tuple[float, ...]:
    """One positive number per keypoint."""
    try:
        sigmas = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        raise InputError(f"`sigmas` must be a sequence of numbers, one per keypoint; got {values!r}") from None
    for index, sigma in enumerate(sigmas):
        if not 0 < sigma < math.inf:
            raise InputError(f"`sigmas` must be above 0 and finite; got {sigma:g} for keypoint {index}")
    return sigmas


def limits_of(limits: Iterable[Any]) -> tuple[int | None, ...]:
    """Limits of detections, ascending; None is all."""
    try:
        bounds = tuple(limits)
    except TypeError:
        raise InputError(f"`limits` must be a sequence of integers or None; got {limits!r}") from None
    if not 1 <= len(bounds) <= 255:
        raise InputError(f"`limits` must have 1 to 255 limits; got {len(bounds)}")
    for bound in bounds:
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, Integral) or bound < 1):
            raise InputError(f"`limits` must be positive integers, or None for all; got {bound!r}")
    sizes = [math.inf if bound is None else bound for bound in bounds]
    if any(first >= second for first, second in pairwise(sizes)):
        raise InputError(f"`limits` must be ascending, without repeats; got {list(bounds)}")
    return tuple(None if bound is None else int(bound) for bound in bounds)
