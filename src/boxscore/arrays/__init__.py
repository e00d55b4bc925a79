"""Functions on arrays of any supported library, beyond those of the array API standard.

Kernels are written once, against the namespace `xp` that `namespace` returns: NumPy and `jax.numpy` themselves,
`array_api_compat` for PyTorch and old NumPy, `arrays.tensorflow` for TensorFlow. `arrays.libraries` has one class per
library.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore.arrays.copies import Copies as Copies
from boxscore.arrays.libraries import LIBRARIES, NumPy
from boxscore.arrays.libraries import Array as Array
from boxscore.arrays.libraries import Namespace as Namespace

_NUMPY = LIBRARIES[0]

_KNOWN: dict[type, NumPy] = {np.ndarray: _NUMPY}
"""Cache: the library of each array type that was seen."""


def library(*arrays: Array) -> str:
    """The name of the array library that `arrays` come from: "numpy", "torch", "jax" or "tensorflow".

    NumPy arrays may be mixed with those of one other library. Raises `InputError` for two other libraries, and for
    anything that is not an array.

    >>> library(np.zeros(3))
    'numpy'
    """
    return _library(*arrays).name


def _library(*arrays: Array) -> NumPy:
    if len(arrays) == 1:
        return _library_of(arrays[0])
    found = {each.name: each for each in map(_library_of, arrays)}
    found.pop("numpy", None)
    if len(found) > 1:
        raise InputError(f"arrays must come from one library; got {' and '.join(sorted(found))}")
    return next(iter(found.values()), _NUMPY)


def _library_of(array: Array) -> NumPy:
    kind = type(array)
    if kind in _KNOWN:
        return _KNOWN[kind]
    for each in LIBRARIES:
        module = each.module
        for name in each.array_classes:
            array_class = getattr(module, name, None)
            if array_class is not None and isinstance(array, array_class):
                if kind is array_class:
                    _KNOWN[array_class] = each
                return each
    raise InputError(f"expected an array of NumPy, PyTorch, JAX or TensorFlow; got {type(array).__name__}")


def is_array(value: object) -> bool:
    """Whether `value` is an array of a supported library."""
    try:
        _library_of(value)
    except InputError:
        return False
    return True


def namespace(*arrays: Array) -> Namespace:
    """The namespace whose functions work on `arrays`."""
    return _library(*arrays).namespace()


def float_dtype(like: Array) -> Any:
    """The widest float where `like` lives: float64, or float32 for JAX without x64 and for Apple's MPS."""
    return _library_of(like).float_dtype(like)


def int_dtype(like: Array) -> Any:
    """The integer of counts and indices where `like` lives: int64, or int32 for JAX without x64."""
    return _library_of(like).int_dtype(like)


def constant(values: object, *, like: Array, dtype: Any) -> Array:
    """`values` as an array of `dtype` on the device of `like`."""
    home = _library_of(like)
    return home.namespace().asarray(values, dtype=dtype, **home.placement(like))


def arange(size: int, *, like: Array) -> Array:
    """The integers 0 to `size` - 1 on the device of `like`."""
    home = _library_of(like)
    return home.namespace().arange(size, dtype=home.int_dtype(like), **home.placement(like))


def convert(array: Array, *, like: Array) -> Array:
    """`array` in the library and on the device of `like`; not from one framework to another."""
    own, home = _library_of(array), _library_of(like)
    if own is home:
        return home.move(array, like)
    if home is _NUMPY:
        return own.to_numpy(array)
    if own is not _NUMPY:
        raise InputError(f"arrays must come from one library; got {own.name} and {home.name}")
    return home.namespace().asarray(_portable(array, like), **home.placement(like))


def _portable(array: np.ndarray[Any, Any], like: Array) -> np.ndarray[Any, Any]:
    """The array in a dtype, byte order and layout that every framework accepts."""
    dtype = array.dtype
    if dtype.kind == "f":
        is_wide = dtype.itemsize >= 8 and has_float64(like)
        dtype = np.dtype(np.float64 if is_wide else np.float32) if dtype.itemsize != 2 else dtype
    elif dtype.kind in "iu":
        dtype = np.dtype(np.int64)
    # PyTorch has no read-only tensors and would warn.
    array = np.require(array, dtype=dtype.newbyteorder("="), requirements=["C", "W"])
    # NumPy calls an axis of one item contiguous whatever its stride is; PyTorch refuses negative ones.
    return array.copy() if min(array.strides, default=0) < 0 else array


def has_float64(like: Array) -> bool:
    """Whether there are 64-bit floats where `like` lives."""
    return "64" in str(float_dtype(like))


def to_numpy(array: Array) -> np.ndarray[Any, Any]:
    """`array` in host memory."""
    return array if type(array) is np.ndarray else _library_of(array).to_numpy(array)


def start_copy(array: Array) -> Callable[[], np.ndarray[Any, Any]]:
    """Start to copy an array to host memory, without waiting. The returned function waits, and returns the copy."""
    return _library_of(array).start_copy(array)


def start_copies(arrays: Sequence[Array], *, is_joined: bool) -> Copies:
    """Start to copy arrays of one library and device to host memory, without waiting.

    Args:
        arrays: Arrays of any shapes and dtypes, at least one.
        is_joined: Whether they are many and small, so that it is better to concatenate them on the device first.
    """
    return _library(*arrays).start_copies(arrays, is_joined=is_joined)


def home_of(array: Array) -> tuple[str, Any]:
    """The library and the device of an array, as a hashable value."""
    home = _library_of(array)
    return home.name, home.device_of(array)


def is_on_device(value: object) -> bool:
    """Whether `value` is an array that is not in host memory; other values are not."""
    kind = type(value)
    if kind is np.ndarray:
        return False
    home = _KNOWN.get(kind)
    if home is None and not is_array(value):
        return False
    return not _library_of(value).is_in_host_memory(value)


def compact(array: np.ndarray[Any, Any], dtype: Any = None) -> np.ndarray[Any, Any]:
    """The array as compiled code reads it: contiguous, aligned, in native byte order; copied only if necessary."""
    dtype = np.dtype(array.dtype if dtype is None else dtype)
    if array.dtype == dtype and dtype.isnative and array.flags.c_contiguous and array.flags.aligned:
        return array
    return np.require(array, dtype.newbyteorder("="), ["C", "A"])


def order_by(*columns: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The order that puts rows in ascending order of the first column, then of the next; of equal rows the first stays
    first. Columns of integers or floats, without NaN. Shape (N,) each.

    >>> order_by(np.array([7, 5, 7]), np.array([0.5, 0.9, -0.5])).tolist()
    [1, 2, 0]
    """
    order: np.ndarray[Any, Any] = _compiled.order_of_rows([compact(column) for column in columns])
    return order


def as_widest_float(column: Array, like: Array) -> Array:
    """A column in the library, on the device and in the widest float of `like`."""
    column = convert(column, like=like)
    return namespace(column).astype(column, float_dtype(column))


def take_rows(column: Array, rows: Any) -> Array:
    """Some rows of a column, where it is. `rows`: indices, or one flag per row, in host memory."""
    rows = np.asarray(rows)
    if type(column) is np.ndarray:
        return column[rows]
    index = np.flatnonzero(rows) if rows.dtype == bool else rows
    return namespace(column).take(column, convert(index, like=column), axis=0)


def gather(column: Array, rows: np.ndarray[Any, Any]) -> Array:
    """Rows of a column, by indices in host memory. Shape (N, D) of `rows`, and more axes where the column has them."""
    xp = namespace(column)
    flat = rows_at(column, convert(rows.reshape(-1), like=column))
    return xp.reshape(flat, (*rows.shape, *column.shape[1:]))


def contiguous(array: Array) -> Array:
    """The array in row-major order, where the library has other layouts."""
    return _library_of(array).contiguous(array)


def rows_at(array: Array, index_P: Array) -> Array:
    """Rows of an array, by indices that live where it does. Shape (P, ...)."""
    return _library_of(array).rows_at(array, index_P)


def is_in_host_memory(array: Array) -> bool:
    """Whether the array can be read by this process without a copy from a device."""
    return _library_of(array).is_in_host_memory(array)


def fixed_point(step: Callable[[Array], Array], start: Array) -> Array:
    """The array that `step` does not change, reached from `start` by the library's own loop.

    `lax.while_loop` in JAX, `tf.while_loop` in TensorFlow, PyTorch's while_loop operator inside `torch.compile`. In
    eager PyTorch and NumPy it is a Python loop, with one flag per iteration copied to the host.
    """
    return _library_of(start).fixed_point(step, start)


def scan(step: Callable[..., tuple[Array, tuple[Array, ...]]], start: Array, rows: tuple[Array, ...]) -> Any:
    """Call `step(carried, *row)` for each row of some arrays, at least one, by the library's own loop.

    A step returns what it carries to the next one, and a tuple of arrays. `lax.scan` in JAX, `tf.while_loop` in
    TensorFlow, PyTorch's scan operator inside `torch.compile`; a Python loop in eager PyTorch and NumPy. No loop reads
    a value.

    Returns:
        The arrays of all steps, stacked: one tuple.
    """
    return _library_of(start).scan(step, start, rows)


def size_of(array: Array, axis: int) -> Any:
    """The size of an axis: an integer, or a scalar tensor where TensorFlow does not know it while it traces."""
    return _library_of(array).size_of(array, axis)


def descending_index(value: Array, ties: str) -> Array:
    """The index that each element of a row would have in descending order, as int32. Shape (P, G).

    Of equal elements the "first" or the "last" comes first, as `ties` says.
    """
    return _library_of(value).descending_index(value, is_last_first=ties == "last")


def zeros(shape: tuple[int, ...], *, like: Array, dtype: Any) -> Array:
    """Zeros in the library and on the device of `like`."""
    home = _library_of(like)
    return home.namespace().zeros(shape, dtype=dtype, **home.placement(like))


def slice_rows(array: Array, start: Array, size: int) -> Array:
    """`size` rows, the first of which is told by an array of shape (); all must exist. Shape (size, ...)."""
    return _library_of(array).slice_rows(array, start, size)


def write_rows(array: Array, start: Array, rows: Array) -> Array:
    """A copy of an array with other rows, which begin at `start`; all must exist. Shape of `array`."""
    return _library_of(array).write_rows(array, start, rows)


def segment_min(value_D: Array, segment_D: Array, num_segments: int, *, empty: int) -> Array:
    """The smallest value of each segment, or `empty`, which no value may exceed. Shape (num_segments,)."""
    return _library_of(value_D).segment_min(value_D, segment_D, num_segments, empty)


def segment_max(value_D: Array, segment_D: Array, num_segments: int, *, empty: float) -> Array:
    """The largest value of each segment, or `empty`, which no value may be below. Shape (num_segments,)."""
    return _library_of(value_D).segment_max(value_D, segment_D, num_segments, empty)


def segment_sum(value_D: Array, segment_D: Array, num_segments: int) -> Array:
    """The sum of each segment, 0 where it is empty. Shape (num_segments,)."""
    return _library_of(value_D).segment_sum(value_D, segment_D, num_segments)


def jitted(function: Callable[..., Any], *, like: Array) -> Callable[..., Any]:
    """The function of arrays like this one: in JAX compiled, else unchanged. It must be defined once, in a module."""
    return _library_of(like).jitted(function)


def with_spare_rows(array: Array) -> Array:
    """The array; in JAX with rows of zeros up to a power of two, so that few numbers of rows are compiled."""
    return _library_of(array).with_spare_rows(array)


def count_flags(flag_NDHW: Array) -> Array:
    """The number of flags that are True in the last two axes, int32. Shape (N, D)."""
    return _library_of(flag_NDHW).count_flags(flag_NDHW)


def count_common(flag_NDHW: Array, other_NGHW: Array) -> Array:
    """The number of flags that are True in both of each pair, int32. Shape (N, D, G). At most 2^24 flags each."""
    return _library(flag_NDHW, other_NGHW).count_common(flag_NDHW, other_NGHW)


def sum_of_steps(step: Callable[[Any], tuple[Array, ...]], num: Any, *, like: Array) -> tuple[Array, ...]:
    """The sum of the arrays of `step(0)` to `step(num - 1)`, and of step 0 in any case.

    Memory of a step is free for the next one, also in graphs of TensorFlow.
    """
    return _library_of(like).sum_of_steps(step, num)


def sorted_order(*columns: Array) -> Array:
    """The order that puts rows in ascending order of the first column, then of the next, where they live; stable.

    `order_by` is the same for columns in host memory. Shape (D,) each, without NaN.
    """
    return _library_of(columns[0]).lexsort(columns[::-1])


def cumulative_sum(value_D: Array) -> Array:
    """The running sum along the first axis. Shape (D, ...)."""
    return _library_of(value_D).cumulative_sum(value_D)


def cumulative_max(value: Array) -> Array:
    """The running maximum along the last axis."""
    return _library_of(value).cumulative_max(value)


def along_rows(value_ND: Array, index_NE: Array) -> Array:
    """Elements of each row, by their indices in the row. Shape (N, E)."""
    return _library_of(value_ND).along_rows(value_ND, index_NE)


def smallest(value: Array, *, axis: int) -> Array:
    """The smallest along an axis of at least one, by halving it: log2(length) steps.

    PyTorch's own takes many times as long where the axis is short.
    """
    xp = namespace(value)
    before = (slice(None),) * axis
    while (length := value.shape[axis]) > 1:
        half = (length + 1) // 2
        value = xp.minimum(value[(*before, slice(0, half))], value[(*before, slice(length - half, length))])
    return value[(*before, 0)]
