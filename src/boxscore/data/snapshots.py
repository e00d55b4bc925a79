"""Batches with arrays on a device, as they are now: copies of their values, which arrive in host memory later.

update(batch)
    │ keys, shapes and dtypes are checked ── invalid: read at once, which reports the error
    ├── arrays on a device ──► arrays.copies, without waiting
    └── arrays in host memory ──► copied
later
    the same dicts, with NumPy arrays, are read like any batch in host memory
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.arrays import Copies, home_of, is_array, is_on_device, library, start_copies, to_numpy
from boxscore.data.batch_keys import COVERAGE_KEYS, Keys, row_shape_of
from boxscore.data.batches import PaddedBatch, fits_row
from boxscore.data.validation import as_array, check_is_dense, is_kind, shape_of


class Snapshot:
    """The values of dicts as they were when this was made, some of them still on their way to host memory.

    Args:
        dicts: Arrays of any library and device; other values stay as they are.
        is_joined: Whether arrays on a device are concatenated there before they are copied.
    """

    def __init__(self, dicts: Sequence[Mapping[str, Any]], *, is_joined: bool) -> None:
        self._keys = [list(each) for each in dicts]
        values = [value for each in dicts for value in each.values()]
        self._values: list[Any] = [None] * len(values)
        by_home: dict[Any, list[int]] = {}
        for index, value in enumerate(values):
            if is_on_device(value):
                by_home.setdefault(home_of(value), []).append(index)
            else:
                self._values[index] = np.array(to_numpy(value)) if is_array(value) else value
        self._copies: list[tuple[list[int], Copies]] = [
            (indices, start_copies([values[index] for index in indices], is_joined=is_joined))
            for indices in by_home.values()
        ]

    @property
    def has_arrived(self) -> bool:
        """Whether all values are in host memory; False for libraries that can't tell."""
        return all(copies.has_arrived() for _, copies in self._copies)

    def wait(self) -> list[dict[str, Any]]:
        """Wait for all values, and return the dicts with NumPy arrays, which are valid until `release`."""
        for indices, copies in self._copies:
            for index, value in zip(indices, copies.wait(), strict=True):
                self._values[index] = _common(value)
        values = iter(self._values)
        return [{key: next(values) for key in keys} for keys in self._keys]

    def release(self) -> None:
        """Allow the memory to be used again."""
        for _, copies in self._copies:
            copies.release()
        self._copies = []


def _common(array: NDArray[Any]) -> NDArray[Any]:
    """The array in a dtype of NumPy's own: JAX and TensorFlow return bfloat16 as another one."""
    return array if array.dtype.kind in "biuf" else array.astype(np.float32)


def has_device_arrays(*batches: Any) -> bool:
    """Whether batches have arrays on a device: padded ones, or the first images of lists of dicts."""
    for batch in batches:
        first = batch if isinstance(batch, Mapping) else batch[0] if isinstance(batch, list | tuple) and batch else None
        if isinstance(first, Mapping) and any(map(is_on_device, first.values())):
            return True
    return False


def host_images(images: Sequence[Any], keys: Keys) -> list[dict[str, Any]] | None:
    """The values that are read from one dict per image, in NumPy; None as in `delayed_images`."""
    values = delayed_images(images, keys)
    return None if values is None else Snapshot(values, is_joined=True).wait()


def host_padded(batch: Mapping[str, Any]) -> dict[str, Any] | None:
    """The values of a padded batch, in NumPy; None if an array can't be copied, which a reader reports."""
    try:
        for key, value in batch.items():
            if is_array(value):
                check_is_dense(key, value)
    except InputError:
        return None
    return Snapshot([batch], is_joined=False).wait()[0]


def delayed_images(images: Sequence[Any], keys: Keys) -> list[dict[str, Any]] | None:
    """The values that are read from one dict per image, if they can be copied now and read later.

    None if a key, a shape or a dtype is invalid, which a reader should report now; or in rare cases if in doubt. Values
    of arrays are not read.
    """
    made: list[dict[str, Any]] = []
    columns = _Columns(keys)
    given: tuple[Any, ...] = ()
    for image in images:
        if not isinstance(image, Mapping):
            return None
        if tuple(image) != given:
            given = tuple(image)
            if keys.broken_rule(image) is not None:
                return None
        values = {key: image[key] for key in keys.all if key in image}
        try:
            values = {key: columns.checked(key, value) for key, value in values.items()}
        except InputError:
            return None
        if not columns.are_alike(values):
            return None
        made.append(values)
    missing = {key for each in made for key in columns.names if key in each}
    missing = {key for key in missing if not all(key in each for each in made)}
    return made if missing <= keys.defaults.keys() and len(columns.libraries - {"numpy"}) <= 1 else None


class _Columns:
    """The columns of a batch, as far as they are known from images."""

    def __init__(self, keys: Keys) -> None:
        self.names, self.box_size = keys.columns, keys.box_size
        self.libraries: set[str] = set()
        self._row_shapes: dict[str, tuple[int, ...]] = {}

    def checked(self, key: str, value: Any) -> Any:
        """The value as an array, or as something that later changes of the caller's don't reach."""
        if key not in self.names and not is_array(value):
            is_list = isinstance(value, list | tuple | set | frozenset)
            if key in COVERAGE_KEYS and is_list and not any(map(is_array, value)):
                return [*value]
            if isinstance(value, str | bytes | int):
                return value
            raise InputError("unknown")
        array = as_array(key, value)
        check_is_dense(key, array)
        self.libraries.add(library(array))
        return array

    def are_alike(self, values: Mapping[str, Any]) -> bool:
        """Whether all columns of an image have valid dtypes, as many rows as it has labels, and rows as others have."""
        size = shape_of(values["labels"])
        if len(size) != 1:
            return False
        for key in self.names.keys() & values.keys():
            shape, name = shape_of(values[key]), self.names[key]
            if size == shape == (0,):
                continue
            if shape[:1] != size or not fits_row(shape[1:], row_shape_of(name, self.box_size)):
                return False
            if shape[0] and (
                self._row_shapes.setdefault(name, shape[1:]) != shape[1:] or not _has_valid_dtype(name, values[key])
            ):
                return False
        return True


_HAS_VALID_DTYPE: dict[tuple[str, Any], bool] = {}
"""Cache: whether a column may have a dtype."""


def _has_valid_dtype(column: str, array: Any) -> bool:
    key = column, array.dtype
    if key not in _HAS_VALID_DTYPE:
        _HAS_VALID_DTYPE[key] = _may_have_dtype_of(column, array)
    return _HAS_VALID_DTYPE[key]


def _may_have_dtype_of(column: str, array: Any) -> bool:
    if column in ("ignore", "discarded"):
        return is_kind(array, "bool") or is_kind(array, "integral")
    return is_kind(array, "integral") or (column != "labels" and is_kind(array, "real floating"))


def can_delay(batch: PaddedBatch) -> bool:
    """Whether the dtypes of a padded batch are valid, so that its values can be copied now and read later."""
    try:
        for key, array in batch.arrays.items():
            check_is_dense(key, array)
        library(*batch.arrays.values())
    except InputError:
        return False
    return all(_has_valid_dtype(batch.names[key], array) for key, array in batch.arrays.items())
