"""Validation of columns: dtype, shape, values. Errors name the column, the rule and the invalid value."""

import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore.arrays import Array, convert, is_array, library, namespace, to_numpy

_KINDS = {"bool": "b", "integral": "iu", "real floating": "f"}
"""NumPy's letters of the array API's kinds of dtypes."""


def checked_columns(
    whole: Mapping[str, Any],
    real: Mapping[str, Any],
    boolean: Mapping[str, Any],
    *,
    counted_by: str,
    axis: str,
    home: Array,
) -> dict[str, Array]:
    """Validate columns, and return them as arrays by name. Raise `InputError` for the first invalid one.

    Ids and scores stay on their device: ids are grouped in host memory, and the device of `home` may have less
    precision. Other columns are moved to the library and device of `home`.

    Args:
        whole: Columns of integers, which must be given.
        real: Columns of finite numbers, or None.
        boolean: Columns of flags, or None.
        counted_by: The column that gives the number of rows; it must be given.
        axis: The letter of the number of rows, for messages.
        home: An array of the library and device to move columns to.
    """
    given = {}
    for name, values in (*whole.items(), *real.items(), *boolean.items()):
        if values is not None:
            given[name] = as_array(name, values)
        elif name in (counted_by, *whole):
            raise InputError(f"`{name}` must be given; got None")
    is_numpy = library(home, *given.values()) == "numpy"
    _check_lengths(given, counted_by, axis)
    for name in whole:
        given[name] = as_ids(name, given[name])
    for name in (name for name in boolean if name in given):
        given[name] = as_flags(name, given[name])
    for name in (name for name in real if name in given):
        check_real(name, given[name])
        check_finite_rows(name, given[name], "must be finite")
    if not is_numpy:
        staying = {*whole, "scores"}
        given = {name: column if name in staying else convert(column, like=home) for name, column in given.items()}
    return given


def _check_lengths(given: Mapping[str, Array], counted_by: str, axis: str) -> None:
    size = shape_of(given[counted_by])
    if len(size) != 1:
        raise InputError(f"`{counted_by}` must have one dimension; got shape {size}")
    for name, column in given.items():
        if shape_of(column) != size:
            rule = f"`{name}` must have shape ({axis},) with {axis} = {size[0]}, the number of {counted_by}"
            raise InputError(f"{rule}; got {shape_of(column)}")


def is_number(value: Any) -> bool:
    """Whether a value is a finite number that a float can hold. Booleans are not numbers.

    >>> [is_number(value) for value in (0.5, 3, 10**400, float("nan"), True, "3", None)]
    [True, True, False, False, False, False, False]
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def check_finite_rows(name: str, column: Array, rule: str) -> None:
    """Raise `RowError` for the first row with a number that is not finite."""
    if is_contiguous_float(column) and _compiled.are_finite(column):
        return
    xp = namespace(column)
    is_finite = xp.isfinite(column) if is_kind(column, "real floating") else column == column
    check_rows(name, xp.all(is_finite, axis=-1) if len(column.shape) > 1 else is_finite, rule, column)


_HEADINGS = {"image_ids": "image", "labels": "label", "scores": "score", "boxes": "box", "masks": "mask"}
"""The headings of columns in tables and files, where they differ: a row of a table has one box."""


def column_named(heading: str) -> str:
    """The column with a heading of a table.

    >>> column_named("box"), column_named("area")
    ('boxes', 'area')
    """
    return next((column for column, name in _HEADINGS.items() if name == heading), heading)


class RowError(InputError):
    """An InputError about one row of a column, which callers may rename to the user's image and key.

    Args:
        column: The name of the column.
        row: The index of the row.
        rule: The rule, and the invalid value.
        is_valid: Whether each row obeys the rule, if known. Shape (N,).
    """

    def __init__(self, column: str, row: int, rule: str, is_valid: NDArray[np.bool_] | None = None) -> None:
        super().__init__(f"row {row} {rule}", argument=column)
        self.column, self.row, self.rule, self.is_valid = column, row, rule, is_valid

    @property
    def heading(self) -> str:
        """The heading of the column in tables and files."""
        return _HEADINGS.get(self.column, self.column)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return RowError, (self.column, self.row, self.rule, self.is_valid)


class ImageError(InputError):
    """An InputError about one image of a list, which `in_argument` of `batches` renames to the user's argument.

    Args:
        index: The index of the image.
        text: The message behind the image: " must be a dict; got int", ": `boxes` must have shape (2, 4)".
        images: The name of the list; "images" stands for any.
    """

    def __init__(self, index: int, text: str, images: str = "images") -> None:
        super().__init__(f"{images}[{index}]{text}")
        self.index, self.text, self.images = index, text, images

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return InputError, (str(self),)


def check_rows(name: str, is_valid: Array, rule: str, column: Array) -> None:
    """Raise `RowError` for the first row whose flag is False."""
    # Only one flag is copied to the host, unless a row is invalid.
    if not bool(namespace(is_valid).all(is_valid)):
        flags = to_numpy(is_valid)
        row = int(np.argmin(flags))
        raise RowError(name, row, f"{rule}; got {to_numpy(column[row]).tolist()}", flags)


def as_array(name: str, values: Any) -> Array:
    """Return arrays unchanged, and convert lists to NumPy. Raise `InputError` for masked, sparse and similar arrays."""
    if type(values) is np.ndarray:
        return values
    if is_array(values):
        check_is_dense(name, values)
        return values
    if isinstance(values, list | tuple) and not {*map(type, values)} <= {int, float, bool, list, tuple}:
        for value in filter(is_array, values):  # NumPy would drop masks, and fail for some tensors of PyTorch
            check_is_dense(name, value)
        values = type(values)(to_numpy(value) if is_array(value) else value for value in values)
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"`{name}` must be an array or a list of numbers; got rows of different length") from None
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"`{name}` must be an array or a list of numbers; got {type(values).__name__} of {array.dtype}"
        )
    return array


def check_is_dense(name: str, array: Array) -> None:
    """Raise `InputError` for a masked array, and for a tensor that is sparse, nested, quantized or without values."""
    if isinstance(array, np.ma.MaskedArray):
        raise InputError(
            f"`{name}` must not be a masked array, whose mask would be lost: select its valid rows, `rows[~mask]`, and"
            " pass them as an unmasked array"
        )
    if library(array) != "torch":
        return
    if (rule := _fault_of_tensor_class(type(array), is_cpu=array.is_cpu)) is not None:  # type: ignore[arg-type]
        raise InputError(f"`{name}` {rule}; got {type(array).__name__}")
    if array.is_nested:
        raise InputError(f"`{name}` must not be a nested tensor; pass one dict per image, each with its own tensor")
    if array.is_meta:
        raise InputError(f"`{name}` must have values; got a tensor on the meta device, which has none")
    if array.layout is not sys.modules["torch"].strided:
        raise InputError(f"`{name}` must be a dense tensor, `values.to_dense()`; got layout {array.layout}")
    if array.is_quantized:
        raise InputError(f"`{name}` must not be quantized, `values.dequantize()`; got {array.dtype}")
    if array.dtype.is_floating_point and array.dtype.itemsize == 1:
        raise InputError(f"`{name}` must have at least 16 bits per number, `values.float()`; got {array.dtype}")


@lru_cache(maxsize=64)
def _fault_of_tensor_class(kind: type, *, is_cpu: bool) -> str | None:
    """The rule that a class of PyTorch's tensors breaks if its values are not in its own memory; None for others."""
    tensor = sys.modules["torch"].Tensor
    if kind.__torch_dispatch__ is tensor.__torch_dispatch__:  # type: ignore[attr-defined]
        return None
    names = {each.__name__ for each in kind.__mro__}
    if "FakeTensor" in names:
        return "must have values, which a FakeTensor does not have"
    if "DTensor" in names:
        return "must be a whole tensor, `values.full_tensor()`, or this process's part, `values.to_local()`"
    return "must be a tensor with memory: convert it to a torch.Tensor" if is_cpu else None


def as_ids(name: str, column: Array) -> Array:
    """Validate a column of integers that fit in int64. An empty column may have any dtype."""
    if column.shape[0] == 0:
        return np.zeros(shape_of(column), np.int64)
    if not is_kind(column, "integral"):
        raise InputError(f"`{name}` must hold integers; got {column.dtype}")
    # `str(dtype)` is slow; NumPy's dtypes are compared directly
    if column.dtype == np.uint64 if isinstance(column, np.ndarray) else str(column.dtype).endswith("uint64"):
        host = to_numpy(column)
        check_rows(name, host <= np.uint64(np.iinfo(np.int64).max), "must fit in 63 bits", host)
    return column


def as_flags(name: str, column: Array, *, is_traced: bool = False) -> Array:
    """Convert a column of 0 and 1 to booleans. `is_traced`: a compiler traces the values, so they are not validated."""
    if is_kind(column, "bool"):
        return column
    if column.shape[0] == 0:
        return column != 0
    if not is_kind(column, "integral"):
        raise InputError(f"`{name}` must hold booleans, or integers 0 and 1; got {column.dtype}")
    flags = column != 0
    if not is_traced and not (type(column) is np.ndarray and (flags == column).all()):
        check_rows(name, (column == 0) | (column == 1), "must be 0 or 1", column)
    return flags


def check_real(name: str, column: Array) -> None:
    """Raise `InputError` unless a column holds floats or integers."""
    if not is_kind(column, "real floating") and not is_kind(column, "integral"):
        raise InputError(f"`{name}` must hold real numbers; got {column.dtype}")


def is_contiguous_float(column: Array) -> bool:
    """Whether compiled code can read the column directly: contiguous float32 or float64 in host memory."""
    is_numpy = isinstance(column, np.ndarray) and column.dtype in (np.float32, np.float64)
    return is_numpy and column.dtype.isnative and column.flags.c_contiguous and column.flags.aligned


def is_kind(column: Array, kind: str) -> bool:
    """Whether the column's dtype is of a kind of the array API: "bool", "integral" or "real floating"."""
    if isinstance(column, np.ndarray):
        return column.dtype.kind in _KINDS[kind]
    return bool(namespace(column).isdtype(column.dtype, kind))


def shape_of(array: Array) -> tuple[int, ...]:
    """The shape as Python integers."""
    if isinstance(array, np.ndarray):
        return tuple(array.shape)
    return tuple(int(size) for size in array.shape)
