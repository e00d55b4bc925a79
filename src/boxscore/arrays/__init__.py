"""What the kernels need of an array library beyond the array API standard.

Kernels are written once, against the namespace `xp` that `namespace` returns: NumPy and `jax.numpy` themselves,
`array_api_compat` for PyTorch and old NumPy, and `arrays.tensorflow` for TensorFlow. The standard has no loop
that a jit can trace, no reduction by segment and no name for the widest float of a device; those are here. No library
is imported before the user has imported it.
"""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from boxscore._support.exceptions import InputError

_IS_STANDARD = int(np.__version__.split(".")[0]) >= 2
"""Whether NumPy has the array API's own names."""

_KNOWN: dict[type, str] = {np.ndarray: "numpy"}
"""Cache: the library of each array type that was seen."""

Array: TypeAlias = Any
"""An array of any supported library."""

Namespace: TypeAlias = Any
"""The functions of one array library under the names of the array API standard."""


def library(*arrays: Array) -> str:
    """The name of the array library that `arrays` come from: "numpy", "torch", "jax" or "tensorflow".

    NumPy arrays may be mixed with those of one other library. Raises `InputError` for two other libraries, and for
    anything that is not an array.

    >>> library(np.zeros(3))
    'numpy'
    """
    if len(arrays) == 1:
        return _library_of(arrays[0])
    found = {_library_of(array) for array in arrays}
    frameworks = sorted(found - {"numpy"})
    if len(frameworks) > 1:
        raise InputError(f"arrays must come from one library; got {' and '.join(frameworks)}")
    return frameworks[0] if frameworks else "numpy"


def _library_of(array: Array) -> str:
    if type(array) in _KNOWN:
        return _KNOWN[type(array)]
    if isinstance(array, (np.ndarray, np.generic)):  # a tuple, since torch.compile can't trace a union
        return "numpy"
    for name, class_name in (
        ("torch", "Tensor"),
        ("jax", "Array"),
        ("tensorflow", "Tensor"),
        ("tensorflow", "Variable"),
    ):
        array_class = getattr(sys.modules.get(name), class_name, None)
        if array_class is not None and isinstance(array, array_class):
            if type(array) is array_class:
                _KNOWN[array_class] = name
            return name
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
    # No match statement here or below: TensorFlow's AutoGraph can't read it.
    name = library(*arrays)
    if name == "torch":
        import array_api_compat.torch as xp
    elif name == "jax":
        import jax.numpy as xp
    elif name == "tensorflow":
        import boxscore.arrays.tensorflow as xp
    elif _IS_STANDARD:
        return np  # importing the compat layer would take longer than many evaluations
    else:
        import array_api_compat.numpy as xp
    return xp


def float_dtype(like: Array) -> Any:
    """The widest float where `like` lives: float64, or float32 for JAX without x64 and for Apple's MPS."""
    if library(like) == "jax":
        return _module("jax").dtypes.canonicalize_dtype("float64")
    if library(like) == "torch" and like.device.type == "mps":
        return _module("torch").float32
    return namespace(like).float64


def int_dtype(like: Array) -> Any:
    """The integer of counts and indices where `like` lives: int64, or int32 for JAX without x64."""
    if library(like) == "jax":
        return _module("jax").dtypes.canonicalize_dtype("int64")
    return namespace(like).int64


def constant(values: object, *, like: Array, dtype: Any) -> Array:
    """`values` as an array of `dtype` on the device of `like`."""
    return namespace(like).asarray(values, dtype=dtype, **_placement(like))


def arange(size: int, *, like: Array) -> Array:
    """The integers 0 to `size` - 1 on the device of `like`."""
    return namespace(like).arange(size, dtype=int_dtype(like), **_placement(like))


def _placement(like: Array) -> dict[str, Any]:
    # JAX and TensorFlow place new arrays with the arrays they meet; PyTorch has to be told.
    return {"device": like.device} if library(like) == "torch" else {}


def convert(array: Array, *, like: Array) -> Array:
    """`array` in the library and on the device of `like`; not from one framework to another."""
    if library(array) == library(like):
        return array.to(like.device) if library(like) == "torch" else array
    if library(like) == "numpy":
        return to_numpy(array)
    if library(array) != "numpy":
        raise InputError(f"arrays must come from one library; got {library(array)} and {library(like)}")
    return namespace(like).asarray(_portable(array, like), **_placement(like))


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
    if type(array) is np.ndarray:
        return array
    if library(array) == "torch":
        if array.requires_grad:
            array = array.detach()
        if not array.is_cpu:
            array = array.cpu()
        if array.dtype == _module("torch").bfloat16:
            array = array.float()  # NumPy has no bfloat16
        host: np.ndarray[Any, Any] = array.numpy()
        return host
    return np.asarray(array)


def compact(array: np.ndarray[Any, Any], dtype: Any = None) -> np.ndarray[Any, Any]:
    """The array as compiled code reads it: contiguous, aligned, in native byte order; copied only if necessary."""
    dtype = np.dtype(array.dtype if dtype is None else dtype)
    if array.dtype == dtype and dtype.isnative and array.flags.c_contiguous and array.flags.aligned:
        return array
    return np.require(array, dtype.newbyteorder("="), ["C", "A"])


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
    """The array with its numbers one after the other in memory, where the library lets it have another layout."""
    if library(array) == "torch":
        return array.contiguous()
    return np.ascontiguousarray(array) if library(array) == "numpy" else array


def rows_at(array: Array, index_P: Array) -> Array:
    """Rows of an array, by indices that are where it is. Shape (P, ...)."""
    if library(array) == "torch":
        return array.index_select(0, index_P)  # without the compat layer's check for negative indices
    return namespace(array).take(array, index_P, axis=0)


def is_in_host_memory(array: Array) -> bool:
    """Whether the array can be read by this process without a copy from a device."""
    name = library(array)
    if name == "torch":
        return bool(array.device.type == "cpu")
    if name == "jax":
        return all(device.platform == "cpu" for device in array.devices())
    if name == "tensorflow":
        return "CPU" in array.device
    return True


def fixed_point(step: Callable[[Array], Array], start: Array) -> Array:
    """The array that `step` does not change, reached from `start` by the library's own loop.

    `lax.while_loop` in JAX, `tf.while_loop` in TensorFlow, PyTorch's while_loop operator inside `torch.compile`. In
    eager PyTorch and NumPy it is a Python loop, with one flag per iteration copied to the host.
    """
    xp = namespace(start)

    def is_changing(before: Array, after: Array) -> Array:
        return xp.any(before != after)

    name = library(start)
    if name == "jax":
        lax = _module("jax").lax
        return lax.while_loop(lambda s: is_changing(*s), lambda s: (s[1], step(s[1])), (start, step(start)))[1]
    if name == "tensorflow":
        tf = _module("tensorflow")
        return tf.while_loop(is_changing, lambda _, after: (after, step(after)), (start, step(start)))[1]
    if name == "torch" and _module("torch").compiler.is_compiling():
        from torch._higher_order_ops.while_loop import while_loop

        # The operator does not accept aliased arrays, hence the copies.
        return while_loop(is_changing, lambda _, after: (after.clone(), step(after)), (start.clone(), step(start)))[1]
    before, after = start, step(start)
    while is_changing(before, after):
        before, after = after, step(after)
    return after


def segment_min(value_D: Array, segment_D: Array, num_segments: int, *, empty: int) -> Array:
    """The smallest value of each segment, or `empty`, which no value may exceed. Shape (num_segments,)."""
    name = library(value_D)
    if name == "torch":
        start = _module("torch").full((num_segments,), empty, dtype=value_D.dtype, device=value_D.device)
        return start.scatter_reduce(0, segment_D, value_D, "amin")
    if name == "jax":
        return _module("jax").numpy.full(num_segments, empty, value_D.dtype).at[segment_D].min(value_D)
    if name == "tensorflow":
        tf = _module("tensorflow")
        start = tf.fill([num_segments], tf.constant(empty, value_D.dtype))
        return tf.tensor_scatter_nd_min(start, segment_D[:, None], value_D)
    smallest = np.full(num_segments, empty, dtype=value_D.dtype)
    np.minimum.at(smallest, segment_D, value_D)
    return smallest


def segment_sum(value_D: Array, segment_D: Array, num_segments: int) -> Array:
    """The sum of each segment, 0 where it is empty. Shape (num_segments,)."""
    name = library(value_D)
    if name == "torch":
        start = _module("torch").zeros(num_segments, dtype=value_D.dtype, device=value_D.device)
        return start.scatter_add(0, segment_D, value_D)
    if name == "jax":
        return _module("jax").numpy.zeros(num_segments, value_D.dtype).at[segment_D].add(value_D)
    if name == "tensorflow":
        return _module("tensorflow").math.unsorted_segment_sum(value_D, segment_D, num_segments)
    return np.bincount(segment_D, weights=value_D, minlength=num_segments)


def cumulative_sum(value_D: Array) -> Array:
    """The running sum. Shape (D,)."""
    if library(value_D) == "torch":
        return value_D.cumsum(0)  # the compat layer's own makes torch.compile warn
    return namespace(value_D).cumulative_sum(value_D, axis=0)


def cumulative_max(value: Array) -> Array:
    """The running maximum along the last axis, by doubling: log2(length) steps, whatever the library."""
    xp = namespace(value)
    reach = 1
    while reach < value.shape[-1]:
        shifted = xp.concat([value[..., :reach], value[..., :-reach]], axis=-1)
        value = xp.maximum(value, shifted)
        reach *= 2
    return value


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


def _module(name: str) -> ModuleType:
    return sys.modules[name]
