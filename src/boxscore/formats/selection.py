"""Select images and classes by id, by name or by a pattern."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore._support.image_file_names import base_of, stem_of
from boxscore._support.text import count, line
from boxscore.data.dataset import Detections, Truths, host_ids, take
from boxscore.formats.files import open_source

Rule = Callable[[int | str], int | None]
"""A function from a value in the detections to an id of the truths, or None."""


def as_known_id(value: int | str, known: Mapping[int, str]) -> int | None:
    """The id that a number or a text of digits stands for; None if it is not a known id."""
    if isinstance(value, str):
        if not _is_id(value):
            return None
        value = int(value)
    return value if value in known else None


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def finder(known: Mapping[int, str], key: Callable[[str], str]) -> Rule:
    """A rule that compares the keys of names; a key that two names share matches neither."""
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
    """The first few values, for a message."""
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
        """Whether an id or a name is selected."""
        return (self._key(value) if isinstance(value, str) else value) in self._found

    def ids(self, known: Mapping[int, str]) -> list[int]:
        """The selected ids, in the order of the values; an unknown value is an error."""
        keys = (str, base_of, stem_of) if self.kind == "images" else (str, str.casefold)
        by_name: list[Rule] = [finder(known, key) for key in keys]
        ids = []
        for value in self.values:
            by_id = partial(as_known_id, known=known)
            rules: list[Rule] = [*by_name, by_id] if isinstance(value, str) else [by_id, *by_name]
            found = next((number for rule in rules if (number := rule(value)) is not None), None)
            if found is None:
                rule = f"{value!r} is neither a name nor an id in the data"
                raise InputError(f"`{self.kind}`: {rule}, which has {some(known.values())}")
            ids.append(found)
        return ids


class Pattern(Selection):
    """The images whose names, with or without folder and suffix, match a pattern with `*`, `?` and `[…]`."""

    def __init__(self, pattern: str) -> None:
        super().__init__("images", [])
        self._pattern = pattern

    def has(self, value: int | str) -> bool:
        """Whether a name matches the pattern."""
        name = str(value)
        return any(fnmatchcase(part, self._pattern) for part in (name, base_of(name), stem_of(name)))

    def ids(self, known: Mapping[int, str]) -> list[int]:
        """The ids whose names match; no match is an error."""
        ids = [number for number, name in known.items() if self.has(name)]
        if not ids:
            raise InputError(
                f"`images`: {self._pattern!r} matches no name in the data, which has {some(known.values())}"
            )
        return ids


def _whole(kind: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"`{kind}` must have names or ids; got {value!r}")
    return int(value)


def selected_images(images: Any, path: str | PathLike[str]) -> Selection | None:
    """Selection of the images in a list or in the file of a list, of a pattern, or of the VOC image set of that name.

    Args:
        images: Ids or names, the path of a list, a pattern like "night_*", or the name of a VOC image set. None selects
            all images.
        path: The file, folder or zip of the data. The image set is searched in it, and in its parent folder.

    Returns:
        The selection; None for all images.
    """
    if images is None or isinstance(images, Selection):
        return images
    if not isinstance(images, str | PathLike):
        return _listed("images", images)
    given = os.fspath(images)
    text = open_source(given).text() if os.path.isfile(given) else _image_set(given, Path(path))  # noqa: PTH113
    if text is None and any(sign in given for sign in "*?["):
        return Pattern(given)
    if text is None:
        if not os.path.exists(given):  # noqa: PTH110
            rule = f"{given!r} is neither a file, nor a pattern like 'night_*', nor an image set"
            raise InputError(f"`images`: {rule} in ImageSets/Main of {path}")
        text = open_source(given).text()
    return Selection("images", [line.split()[0] for line in text.splitlines() if line.strip()])


def _image_set(name: str, root: Path) -> str | None:
    """The text of the VOC image set of that name, or None."""
    inside = f"ImageSets/Main/{name}.txt"
    for folder in (root, root.parent):
        if os.path.isfile(folder / inside):  # noqa: PTH113
            return open_source(folder / inside).text()
    if not (root.is_dir() or root.suffix.lower() == ".zip") or "/" in name:
        return None
    source = open_source(root)
    files = [file for file in source.files(".txt") if f"/{file}".endswith(f"/{inside}")] if source.is_folder else []
    return source.text(files[0]) if len(files) == 1 else None


def selected_classes(classes: Any) -> Selection | None:
    """Selection of the classes in a list."""
    return _listed("classes", classes)


def _listed(kind: str, values: Any) -> Selection | None:
    """Selection of the values in a list; None for all."""
    if values is not None and (isinstance(values, str) or not isinstance(values, Iterable)):
        raise InputError(f"`{kind}` must be a list of names or ids, such as [{values!r}]; got {values!r}")
    return None if values is None else Selection(kind, values)


def select_truths(truths: Truths, *, images: Selection | None, classes: Selection | None) -> Truths:
    """Truths of the selected images and classes; names and sizes of the others are removed, too."""
    if images is not None:
        names = _image_names(truths)
        chosen = set(images.ids(names))
        truths = take(truths, np.isin(host_ids(truths.image_ids), list(chosen)))
        sizes = truths.image_sizes
        truths = replace(
            truths,
            image_names={number: name for number, name in names.items() if number in chosen},
            image_sizes=sizes and {number: size for number, size in sizes.items() if number in chosen},
            coverage=truths.coverage and truths.coverage.within(images=chosen),
            subset=(*truths.subset, *_part_of(len(chosen), len(names), "image", "images")),
        )
    if classes is not None:
        names = _class_names(truths)
        chosen = set(classes.ids(names))
        truths = take(truths, np.isin(host_ids(truths.labels), list(chosen)))
        groups = truths.class_groups
        truths = replace(
            truths,
            class_names={label: name for label, name in names.items() if label in chosen},
            class_groups=groups and {label: group for label, group in groups.items() if label in chosen},
            coverage=truths.coverage and truths.coverage.within(labels=chosen),
            subset=(*truths.subset, *_part_of(len(chosen), len(names), "class", "classes")),
        )
    return truths


def _part_of(num: int, whole: int, noun: str, plural: str) -> list[str]:
    """The text "3 images of 40" for a part; empty for the whole."""
    return [] if num == whole else [f"{count(num, noun, plural)} of {whole:,}"]


def select_detections(
    detections: Detections, truths: Truths, *, images: Selection | None, classes: Selection | None
) -> Detections:
    """Detections on the selected images and of the selected classes of the truths."""
    is_selected = np.ones(len(detections), bool)
    if images is not None:
        is_selected &= np.isin(host_ids(detections.image_ids), images.ids(_image_names(truths)))
    if classes is not None:
        is_selected &= np.isin(host_ids(detections.labels), classes.ids(_class_names(truths)))
    return take(detections, is_selected)


def _image_names(truths: Truths) -> Mapping[int, str]:
    """Names of all images by id; if the truths have none, the ids that occur, as text."""
    return truths.image_names or {number: str(number) for number in np.unique(host_ids(truths.image_ids)).tolist()}


def _class_names(truths: Truths) -> Mapping[int, str]:
    """Names of all classes by label; if the truths have none, the labels that occur, as text."""
    return truths.names_by_label or {label: str(label) for label in np.unique(host_ids(truths.labels)).tolist()}


def select(
    detections: Detections,
    truths: Truths,
    *,
    images: Iterable[int | str] | None = None,
    classes: Iterable[int | str] | None = None,
) -> tuple[Detections, Truths]:
    """Select some images and classes of detections and truths; the others are no longer part of the data.

    Args:
        detections: The detections.
        truths: The truths, which give the names of images and classes.
        images: Ids or names of the images; all by default. An unknown one is an error.
        classes: Ids or names of the classes; all by default. An unknown one is an error.

    >>> truths = Truths(image_ids=[0, 1], labels=[1, 1], boxes=[[0, 0, 9, 9]] * 2, image_names={0: "a.jpg", 1: "b.jpg"})
    >>> detections = Detections(image_ids=[0, 1], labels=[1, 1], scores=[0.9, 0.8], boxes=[[0, 0, 9, 9]] * 2)
    >>> select(detections, truths, images=["b"])
    (Detections(1 box in 1 image, numpy), Truths(1 box in 1 image, numpy))
    """
    some_images, some_classes = _listed("images", images), _listed("classes", classes)
    return (
        select_detections(detections, truths, images=some_images, classes=some_classes),
        select_truths(truths, images=some_images, classes=some_classes),
    )
