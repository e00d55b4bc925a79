"""LVIS' additions to COCO's JSON: which classes were verified in which images, and how frequent classes are."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore.data.batch_keys import COVERAGE_KEYS
from boxscore.data.coverage import Coverage, pair_keys
from boxscore.data.dataset import Truths, host_ids
from boxscore.formats.files import Source
from boxscore.formats.records import CoverageRows, Key, Named

GROUPS = {"r": "rare", "c": "common", "f": "frequent"}
"""Class groups by LVIS' letter: classes in up to 10 images of the training set, in up to 100, in more."""


def coverage_rows(source: Source, images: Any, listed: Key, boxes: Any) -> CoverageRows | None:
    """The coverage, from the lists of each image and the annotations; None if no image has such lists.

    A class in `not_exhaustive_category_ids` that is neither annotated in the image nor in `neg_category_ids` was not
    verified.
    """
    if images.negative is None:
        return None
    _check_lists(source, images, listed)
    negative, not_exhaustive = (_pairs(lists) for lists in (images.negative, images.not_exhaustive))
    annotated = (_numbers(boxes, listed), boxes.category)
    rows = Coverage.from_lists(negative=negative, not_exhaustive=not_exhaustive, annotated=annotated)
    return CoverageRows(listed[rows.image_ids], rows.labels, rows.is_exhaustive)


def class_groups(source: Source, categories: Any) -> Mapping[int, str] | None:
    """The group of each class by label; None if no category has a `frequency`."""
    letters = categories.frequency
    if not any(letters):
        return None
    for row, letter in enumerate(letters):
        if letter not in GROUPS:
            got = repr(letter) if letter else "nothing"
            place = f"{source}: category {row} (id {categories.id[row]})"
            raise InputError(f"{place}: `frequency` must be r, c or f, as LVIS has it; got {got}")
    return {label: GROUPS[letter] for label, letter in zip(categories.id.tolist(), letters, strict=True)}


def written_lists(truths: Truths) -> dict[int, dict[str, list[int]]]:
    """The lists of each image with truths or coverage, from which readers restore the coverage; {} without coverage."""
    coverage = truths.coverage
    if coverage is None:
        return {}
    keys = pair_keys(
        np.concatenate([coverage.image_ids, host_ids(truths.image_ids)]),
        np.concatenate([coverage.labels, host_ids(truths.labels)]),
    )
    own, annotated = np.split(keys, [coverage.image_ids.size])
    is_partial = np.zeros(own.size, bool) if coverage.is_exhaustive is None else ~coverage.is_exhaustive
    is_negative = ~is_partial | ~np.isin(own, annotated)
    images = np.union1d(coverage.image_ids, host_ids(truths.image_ids)).tolist()
    lists: dict[int, dict[str, list[int]]] = {image: {key: [] for key in COVERAGE_KEYS} for image in images}
    for key, is_listed in zip(COVERAGE_KEYS, (is_negative, is_partial), strict=True):
        for image, label in zip(
            coverage.image_ids[is_listed].tolist(), coverage.labels[is_listed].tolist(), strict=True
        ):
            lists[image][key].append(label)
    return lists


def written_letters(truths: Truths) -> dict[int, dict[str, str]]:
    """The `frequency` of each class by label; {} unless every class has a group and all groups are LVIS'."""
    groups = truths.class_groups or {}
    letter_of = {group: letter for letter, group in GROUPS.items()}
    labels = truths.names_by_label or np.unique(host_ids(truths.labels)).tolist()
    if not set(groups.values()) <= letter_of.keys() or not set(labels) <= groups.keys():
        return {}
    return {label: {"frequency": letter_of[group]} for label, group in groups.items() if label in labels}


def _check_lists(source: Source, images: Any, listed: Key) -> None:
    """Raise `InputError` unless every image has both lists."""
    for name, lists in zip(COVERAGE_KEYS, (images.negative, images.not_exhaustive), strict=True):
        is_given = np.zeros(len(listed), bool) if lists is None else lists[2].astype(bool)
        if not is_given.all():
            row = int(np.argmin(is_given))
            place = f"{source}: image {row} (id {listed.item(row)})"
            raise InputError(f"{place} must have `{name}`, as LVIS' images have")


def _pairs(lists: tuple[Any, Any, Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The image's index and the class of each entry of the lists. Shapes (P,)."""
    value, end, _ = lists
    return np.repeat(np.arange(end.size), np.diff(end, prepend=0)), value


def _numbers(boxes: Any, listed: Key) -> NDArray[np.int64]:
    """The index of each annotation's image in the list of images, or -1. Shape (G,)."""
    if isinstance(listed, Named):
        number_of = {name: number for number, name in enumerate(listed.tolist())}
        numbers = np.array([number_of.get(name, -1) for name in boxes.image_names or ()], np.int64)
        own: NDArray[np.int64] = numbers[boxes.image]
        return own
    order = np.argsort(listed)
    found = _compiled.find(boxes.image, listed[order])
    return np.where(found >= 0, order[found], -1)
