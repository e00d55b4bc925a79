"""What makes a column right: its kind, its shape, its values. Errors name the column, the rule and what came."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import boxscore._compiled as _compiled
from boxscore._support.arrays import Array, convert, float_dtype, is_array, library, namespace, to_numpy
from boxscore._support.exceptions import InputError
from boxscore.geometry.boxes import BoxFormat, check_box_format, sizes
from boxscore.model.protocol import LARGEST_SIDE

_KINDS = {"bool": "b", "integral": "iu", "real floating": "f"}
"""The array API's kinds of dtypes in NumPy's letters."""


def check_columns(
    columns: Any, *, counted_by: str, whole: Sequence[str], real: Sequence[str], boolean: Sequence[str] = ()
) -> None:
    """Turn lists into arrays, and raise `InputError` for the first thing that can't be right."""
    check_box_format(columns.box_format)
    if getattr(columns, counted_by) is not None and _are_fine(columns, whole, real, boolean):
        return
    given = {}
    for name in ("box", *whole, *real, *boolean):
        values = getattr(columns, name)
        if values is not None:
            given[name] = as_array(name, values)
        elif name in ("box", counted_by, *whole):
            raise InputError(f"`{name}` must be given; got None")
    is_numpy = library(*given.values()) == "numpy"

    size = shape_of(given[counted_by])
    if len(size) != 1:
        raise InputError(f"`{counted_by}` must have one dimension; got shape {size}")
    if size == (0,) and shape_of(given["box"]) == (0,):
        given["box"] = np.zeros((0, 4))
    axis = "G" if counted_by == "label" else "D"
    for name, column in given.items():
        expected, shown = ((*size, 4), f"({axis}, 4)") if name == "box" else (size, f"({axis},)")
        if shape_of(column) != expected:
            rule = f"`{name}` must have shape {shown} with {axis} = {size[0]}, the number of {counted_by}s"
            raise InputError(f"{rule}; got {shape_of(column)}")

    for name in whole:
        given[name] = as_ids(name, given[name])
    for name in (name for name in boolean if name in given):
        given[name] = as_flags(name, given[name])
    for name in (name for name in real if name in given):
        _check_real(name, given[name])
        if not (_is_plain(given[name]) and _compiled.are_finite(given[name])):
            check_rows(name, _is_finite(given[name]), "must be finite", given[name])
    _check_boxes(given["box"], columns.box_format)
    for name, column in given.items():
        # Ids stay where they are, for they are grouped in host memory; the numbers live with the boxes. Scores stay as
        # well: the boxes' device may have fewer digits.
        is_staying = is_numpy or name in whole or name == "score"
        object.__setattr__(columns, name, column if is_staying else convert(column, like=given["box"]))


def _are_fine(columns: Any, whole: Sequence[str], real: Sequence[str], boolean: Sequence[str]) -> bool:
    """Whether a quick look at NumPy's columns finds them right as they are; what it can't say, a careful look will."""
    if type(columns.box) is not np.ndarray:
        return False
    ids, reals, flags = (
        tuple(column for name in names if (column := getattr(columns, name)) is not None)
        for names in (whole, real, boolean)
    )
    if len(ids) < len(whole) or {*map(type, (*ids, *reals, *flags))} != {np.ndarray}:
        return False
    box_format = getattr(_compiled.BoxFormat, columns.box_format)
    return bool(_compiled.are_columns_fine(columns.box, box_format, LARGEST_SIDE, ids, reals, flags))


def _check_boxes(box: Array, box_format: BoxFormat) -> None:
    _check_real("box", box)
    if _is_plain(box) and _compiled.are_boxes_fine(box, getattr(_compiled.BoxFormat, box_format), LARGEST_SIDE):
        return
    xp = namespace(box)
    check_rows("box", xp.all(_is_finite(box), axis=-1), "must have 4 finite numbers", box)
    width, height = sizes(xp.astype(box, float_dtype(box)), box_format)
    rule = "must have x1 <= x2 and y1 <= y2" if box_format == "xyxy" else "must not have a negative width or height"
    check_rows("box", (width >= 0) & (height >= 0), f"{rule} (box_format={box_format!r})", box)
    check_rows("box", xp.maximum(width, height) <= LARGEST_SIDE, f"must have sides up to {LARGEST_SIDE:g}", box)


class RowError(InputError):
    """An InputError about one row of a column, for callers that know better names for both."""

    def __init__(self, column: str, row: int, rule: str) -> None:
        super().__init__(f"`{column}` row {row} {rule}")
        self.column, self.row, self.rule = column, row, rule


def check_rows(name: str, is_fine: Array, rule: str, column: Array) -> None:
    """Raise `RowError` for the first row that is not fine."""
    # One flag comes to the host; the offending row only if there is one.
    if not bool(namespace(is_fine).all(is_fine)):
        row = int(np.argmin(to_numpy(is_fine)))
        raise RowError(name, row, f"{rule}; got {to_numpy(column[row]).tolist()}")


def as_array(name: str, values: Any) -> Array:
    """`values` if it is an array whose numbers are all there, else the NumPy array of a list."""
    if is_array(values):
        check_is_plain(name, values)
        return values
    if isinstance(values, list | tuple) and not {*map(type, values)} <= {int, float, bool, list, tuple}:
        for value in filter(is_array, values):  # NumPy would drop a mask, and ask PyTorch for what it has not
            check_is_plain(name, value)
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


def check_is_plain(name: str, array: Array) -> None:
    """Raise `InputError` for a masked array, and for a tensor that is sparse, nested or without values."""
    if type(array) is np.ndarray:
        return
    if isinstance(array, np.ma.MaskedArray):
        raise InputError(
            f"`{name}` must not be a masked array, whose mask would be lost: select its valid rows, `rows[~mask]`, and"
            " pass them as a plain array"
        )
    if library(array) != "torch":
        return
    if array.is_nested:
        raise InputError(f"`{name}` must not be a nested tensor; pass one dict per image, each with its own tensor")
    if array.is_meta:
        raise InputError(f"`{name}` must have values; got a tensor on the meta device, which has none")
    if array.layout is not sys.modules["torch"].strided:
        raise InputError(f"`{name}` must be a dense tensor, `values.to_dense()`; got layout {array.layout}")
    if array.dtype.is_floating_point and array.dtype.itemsize == 1:
        raise InputError(f"`{name}` must have at least 16 bits per number, `values.float()`; got {array.dtype}")


def as_ids(name: str, column: Array) -> Array:
    """A column of integers that fit in 64 bits with a sign. What is empty has no dtype worth a complaint."""
    if column.shape[0] == 0:
        return np.zeros(shape_of(column), np.int64)
    if not is_kind(column, "integral"):
        raise InputError(f"`{name}` must hold integers; got {column.dtype}")
    # a name takes long to make; NumPy's need none
    if column.dtype == np.uint64 if isinstance(column, np.ndarray) else str(column.dtype).endswith("uint64"):
        host = to_numpy(column)
        check_rows(name, host <= np.uint64(np.iinfo(np.int64).max), "must fit in 63 bits", host)
    return column


def as_flags(name: str, column: Array, *, is_traced: bool = False) -> Array:
    """A column of 0 and 1 as booleans. `is_traced`: its values are not known yet, and not validated."""
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


def _check_real(name: str, column: Array) -> None:
    if not is_kind(column, "real floating") and not is_kind(column, "integral"):
        raise InputError(f"`{name}` must hold real numbers; got {column.dtype}")


def _is_plain(column: Array) -> bool:
    """Whether compiled code can look at it as it is: real numbers in a row, in host memory."""
    is_numpy = isinstance(column, np.ndarray) and column.dtype in (np.float32, np.float64)
    return is_numpy and column.dtype.isnative and column.flags.c_contiguous and column.flags.aligned


def _is_finite(column: Array) -> Array:
    xp = namespace(column)
    return xp.isfinite(column) if is_kind(column, "real floating") else column == column


def is_kind(column: Array, kind: str) -> bool:
    """Whether the column's dtype is of a kind of the array API: "bool", "integral" or "real floating"."""
    if isinstance(column, np.ndarray):
        return column.dtype.kind in _KINDS[kind]
    return bool(namespace(column).isdtype(column.dtype, kind))


def shape_of(array: Array) -> tuple[int, ...]:
    """The shape as plain integers."""
    return tuple(int(size) for size in array.shape)
