"""Coverage: the classes that were verified in each image (LVIS, Open Images)."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore.arrays import Array, to_numpy
from boxscore.data.validation import checked_columns

Ids = NDArray[np.int64]
Pairs = tuple[Any, Any]
"""Images and labels, one pair per row: two arrays, or two lists."""

COVERED, NOT_EXHAUSTIVE, NOT_COVERED = range(3)
"""Codes of a detection: it counts; it is ignored if it takes no truth; it is dropped."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Coverage:
    """The classes that were verified in each image, one row per image and class, in host memory.

    A class with a truth in an image counts as verified there, with or without a row. A detection of a class that was
    not verified in its image is dropped, after limits were applied.

    Args:
        image_ids: Image ids. Shape (C,).
        labels: Class ids. Shape (C,).
        is_exhaustive: Whether every object of the class was annotated in the image; default: yes. Shape (C,).

    Raises:
        InputError: A pair of image and label is repeated, or columns are invalid.

    >>> Coverage(image_ids=[0, 0], labels=[3, 5], is_exhaustive=[True, False]).labels.tolist()
    [3, 5]
    """

    image_ids: Array
    """Image ids. Shape (C,)."""
    labels: Array
    """Class ids. Shape (C,)."""
    is_exhaustive: Array | None = None
    """Whether every object of the class was annotated; None: all were. If not, a detection that takes no truth is
    ignored. Shape (C,)."""

    def __post_init__(self) -> None:
        ids, flags = {"image_ids": self.image_ids, "labels": self.labels}, {"is_exhaustive": self.is_exhaustive}
        columns = checked_columns(ids, {}, flags, counted_by="labels", axis="C", home=np.zeros(0))
        for name, column in columns.items():
            kept = to_numpy(column) if name == "is_exhaustive" else to_numpy(column).astype(np.int64, copy=False)
            object.__setattr__(self, name, kept)
        keys = pair_keys(self.image_ids, self.labels)
        ordered = np.sort(keys)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        if repeated.size:
            row = int(np.argmax(keys == repeated[0]))
            pair = f"image {self.image_ids[row]}, label {self.labels[row]}"
            raise InputError(f"`coverage` must have each image and label once; got {pair} twice")

    @classmethod
    def from_lists(cls, *, negative: Pairs, not_exhaustive: Pairs, annotated: Pairs) -> "Coverage":
        """Build coverage from pairs of images and labels, as LVIS lists them, and the pairs of the truths.

        Args:
            negative: Images and labels of classes that were verified to be absent.
            not_exhaustive: Images and labels of classes with objects that are not annotated. A pair that is neither in
                `negative` nor in `annotated` is not covered.
            annotated: Images and labels of the truths.

        >>> from_lists = Coverage.from_lists
        >>> rows = from_lists(negative=([0], [5]), not_exhaustive=([0, 0], [3, 4]), annotated=([0], [3]))
        >>> rows.labels.tolist(), rows.is_exhaustive.tolist()
        ([5, 3], [True, False])
        """
        sides = [negative, not_exhaustive, annotated]
        image, label = (np.concatenate([_ids(side[axis]) for side in sides]) for axis in (0, 1))
        keys = pair_keys(image, label)
        absent, partial, found = np.split(keys, np.cumsum([len(side[0]) for side in sides[:2]]))
        candidates = np.flatnonzero(np.isin(keys, np.union1d(absent, np.intersect1d(partial, found))))
        candidates = candidates[candidates < absent.size + partial.size]
        _, first = np.unique(keys[candidates], return_index=True)
        rows = candidates[np.sort(first)]
        return cls(image_ids=image[rows], labels=label[rows], is_exhaustive=~np.isin(keys[rows], partial))

    def within(self, *, images: Collection[int] | None = None, labels: Collection[int] | None = None) -> "Coverage":
        """Select the rows of some images and some classes.

        Args:
            images: Image ids; None: all.
            labels: Class ids; None: all.

        >>> Coverage(image_ids=[0, 1], labels=[3, 5]).within(images=[1]).labels.tolist()
        [5]
        """
        is_kept = np.ones(self.image_ids.size, bool)
        for column, chosen in ((self.image_ids, images), (self.labels, labels)):
            if chosen is not None:
                is_kept &= np.isin(column, list(chosen))
        is_exhaustive = None if self.is_exhaustive is None else self.is_exhaustive[is_kept]
        return Coverage(image_ids=self.image_ids[is_kept], labels=self.labels[is_kept], is_exhaustive=is_exhaustive)

    def codes(self, own: tuple[Ids, Ids], annotated: tuple[Ids, Ids]) -> NDArray[np.uint8]:
        """The code of each detection. Shape (D,).

        Args:
            own: Images and labels of the detections.
            annotated: Images and labels of the truths.
        """
        sides = [own, annotated, (self.image_ids, self.labels)]
        image, label = (np.concatenate([side[axis] for side in sides]) for axis in (0, 1))
        keys, with_truths, listed = np.split(pair_keys(image, label), np.cumsum([own[0].size, annotated[0].size]))
        known = _compiled.distinct(np.concatenate([with_truths, listed]))
        code = np.full(known.size + 1, NOT_COVERED, np.uint8)  # unknown pairs have index -1, the last
        code[_compiled.find(with_truths, known)] = COVERED
        is_exhaustive = True if self.is_exhaustive is None else self.is_exhaustive
        code[_compiled.find(listed, known)] = np.where(is_exhaustive, COVERED, NOT_EXHAUSTIVE)
        found: NDArray[np.uint8] = code[_compiled.find(keys, known)]
        return found


def pair_keys(image: Ids, label: Ids) -> Ids:
    """A number for each pair of image and label; equal pairs have equal numbers. Shape (R,)."""
    image, label = np.ascontiguousarray(image), np.ascontiguousarray(label)
    images, labels = _compiled.distinct(image), _compiled.distinct(label)
    keys: Ids = _compiled.find(image, images) * labels.size + _compiled.find(label, labels)
    return keys


def _ids(column: Any) -> Ids:
    return to_numpy(column if hasattr(column, "dtype") else np.array(column, np.int64)).astype(np.int64, copy=False)
