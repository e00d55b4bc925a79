"""Some of the images and classes, by id, by name or by a pattern."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore._support.text import line
from boxscore.formats.files import base_of, stem_of
from boxscore.model.dataset import Detections, Truths, host_ids, take

Rule = Callable[[int | str], int | None]
"""The id among the truths for a value in the detections, if there is one."""


def as_known_id(value: int | str, known: Mapping[int, str]) -> int | None:
    """The id that a number, or a text of digits, is among those known; None if it is none of them."""
    if isinstance(value, str):
        if not _is_id(value):
            return None
        value = int(value)
    return value if value in known else None


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def finder(known: Mapping[int, str], key: Callable[[str], str]) -> Rule:
    """Ids by what `key` makes of names; what it makes of two of them finds neither."""
    found: dict[str, int | None] | None = None

    def find(value: int | str) -> int | None:
        nonlocal found
        if found is None:
            found = {}
            for number, name in known.items():
                short = key(name)
                found[short] = None if short in found else number
        return found.get(key(str(value)))

    return find


def some(values: Iterable[Any], num: int = 10) -> str:
    """The first few of them, for a message."""
    values = list(values)
    return ", ".join(line(str(value)) for value in values[:num]) + (", …" if len(values) > num else "")


class Selection:
    """Some images or classes, by id or by name."""

    def __init__(self, kind: str, values: Iterable[Any]) -> None:
        self.kind = kind
        self.values = [value if isinstance(value, str) else _whole(kind, value) for value in values]
        key = stem_of if kind == "images" else str.casefold
        self._key = key
        self._found = {key(value) if isinstance(value, str) else value for value in self.values}
        self._found |= {int(value) for value in self._found if isinstance(value, str) and _is_id(value)}

    def has(self, value: int | str) -> bool:
        """Whether an id or a name is in it."""
        return (self._key(value) if isinstance(value, str) else value) in self._found

    def ids(self, known: Mapping[int, str]) -> list[int]:
        """The ids of those selected, among the known ones; one that isn't known is an error."""
        keys = (str, base_of, stem_of) if self.kind == "images" else (str, str.casefold)
        by_name: list[Rule] = [finder(known, key) for key in keys]
        ids = []
        for value in self.values:
            by_id = partial(as_known_id, known=known)
            rules: list[Rule] = [*by_name, by_id] if isinstance(value, str) else [by_id, *by_name]
            found = next((number for rule in rules if (number := rule(value)) is not None), None)
            if found is None:
                raise InputError(f"`{self.kind}`: {value!r} is not among them: {some(known.values())}")
            ids.append(found)
        return ids


class Pattern(Selection):
    """The images whose names, with or without folder and suffix, match a pattern with `*`, `?` and `[…]`."""

    def __init__(self, pattern: str) -> None:
        super().__init__("images", [])
        self._pattern = pattern

    def has(self, value: int | str) -> bool:
        """Whether a name matches."""
        name = str(value)
        return any(fnmatchcase(part, self._pattern) for part in (name, base_of(name), stem_of(name)))

    def ids(self, known: Mapping[int, str]) -> list[int]:
        """The ids of those that match; none is an error."""
        ids = [number for number, name in known.items() if self.has(name)]
        if not ids:
            raise InputError(f"`images`: {self._pattern!r} matches none of them: {some(known.values())}")
        return ids


def _whole(kind: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"`{kind}` must have names or ids; got {value!r}")
    return int(value)


def select_truths(truths: Truths, *, images: Selection | None, classes: Selection | None) -> Truths:
    """The truths of some images and some classes; other images and classes are not among its names, either."""
    if images is not None:
        names = truths.image_names or {number: str(number) for number in np.unique(host_ids(truths.image)).tolist()}
        chosen = set(images.ids(names))
        truths = take(truths, np.isin(host_ids(truths.image), list(chosen)))
        sizes = truths.image_sizes
        truths = replace(
            truths,
            image_names={number: name for number, name in names.items() if number in chosen},
            image_sizes=sizes and {number: size for number, size in sizes.items() if number in chosen},
        )
    if classes is not None:
        labels = truths.names_by_label or {label: str(label) for label in np.unique(host_ids(truths.label)).tolist()}
        kept = set(classes.ids(labels))
        truths = take(truths, np.isin(host_ids(truths.label), list(kept)))
        truths = replace(truths, class_names={label: name for label, name in labels.items() if label in kept})
    return truths


def select(
    detections: Detections,
    truths: Truths,
    *,
    images: Iterable[int | str] | None = None,
    classes: Iterable[int | str] | None = None,
) -> tuple[Detections, Truths]:
    """Both, with some images and some classes only, by id or by name; the others are no longer part of the data.

    >>> truths = Truths(image=[0, 1], label=[1, 1], box=[[0, 0, 9, 9]] * 2, image_names={0: "a.jpg", 1: "b.jpg"})
    >>> found = Detections(image=[0, 1], label=[1, 1], score=[0.9, 0.8], box=[[0, 0, 9, 9]] * 2)
    >>> select(found, truths, images=["b"])
    (Detections(1 box in 1 image, numpy), Truths(1 box in 1 image, numpy))
    """
    pictures = None if images is None else Selection("images", images)
    kinds = None if classes is None else Selection("classes", classes)
    chosen = select_truths(truths, images=pictures, classes=kinds)
    is_kept = np.ones(len(detections), bool)
    if pictures is not None:
        is_kept &= np.isin(host_ids(detections.image), list(chosen.image_names or ()))
    if kinds is not None:
        is_kept &= np.isin(host_ids(detections.label), list(chosen.names_by_label or ()))
    return take(detections, is_kept), chosen
