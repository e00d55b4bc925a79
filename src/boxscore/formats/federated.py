"""LVIS' additions to COCO's JSON: which classes were looked for in which images, and how frequent classes are."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.formats.files import Source
from boxscore.formats.records import CoverageRows, Key, Named

GROUPS = {"r": "rare", "c": "common", "f": "frequent"}
"""The groups of classes by LVIS' letter: in fewer than 10 images of the training set, in fewer than 100, in more."""


def coverage_rows(source: Source, images: Any, listed: Key, boxes: Any) -> CoverageRows | None:
    """What was looked for, from the lists of each image and the annotations; None if no image has such lists.

    A class in `not_exhaustive_category_ids` that has neither annotations in the image nor a place in
    `neg_category_ids` was not looked for.
    """
    if images.negative is None:
        return None
    _check_lists(source, images, listed)
    num_images = len(listed)
    negative = _pairs(images.negative)
    not_exhaustive = _pairs(images.not_exhaustive) if images.not_exhaustive is not None else negative[:0]
    index = {key: number for number, key in enumerate(_keys(listed))}
    is_by_name = isinstance(listed, Named)
    row_image = boxes.image.tolist() if not is_by_name else [boxes.image_names[code] for code in boxes.image.tolist()]
    annotated = np.array([index.get(key, num_images) for key in row_image], np.int64)
    found = np.unique(np.stack([annotated, boxes.category], axis=1), axis=0)
    partly = not_exhaustive[_is_in(not_exhaustive, found)]
    covered = np.unique(np.concatenate([negative, partly]), axis=0)
    number = covered[:, 0]
    image = Named(code=listed.code[number], names=listed.names) if isinstance(listed, Named) else listed[number]
    return CoverageRows(image, covered[:, 1], ~_is_in(covered, not_exhaustive))


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


def _check_lists(source: Source, images: Any, listed: Key) -> None:
    """Every image must have both lists, if one has."""
    for name, lists in (("neg_category_ids", images.negative), ("not_exhaustive_category_ids", images.not_exhaustive)):
        is_given = np.zeros(len(listed), bool) if lists is None else lists[2].astype(bool)
        if not is_given.all():
            row = int(np.argmin(is_given))
            raise InputError(f"{source}: image {row} (id {_keys(listed)[row]}) must have `{name}`, as LVIS' images have")


def _keys(listed: Key) -> list[Any]:
    return [listed.names[code] for code in listed.code] if isinstance(listed, Named) else listed.tolist()


def _pairs(lists: tuple[Any, Any, Any]) -> NDArray[np.int64]:
    """The number of the image and the class of each entry of the lists. Shape (P, 2)."""
    value, end, _ = lists
    number = np.repeat(np.arange(end.size), np.diff(end, prepend=0))
    return np.stack([number, value], axis=1)


def _is_in(pairs: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each pair is among others. Shape (P,)."""
    both, code = np.unique(np.concatenate([pairs, others]), axis=0, return_inverse=True)
    is_other = np.zeros(len(both), bool)
    own, other = np.split(code.reshape(-1), [len(pairs)])
    is_other[other] = True
    return is_other[own]
