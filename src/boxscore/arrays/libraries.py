"""The supported array libraries, one class each.

A class has what kernels need of its library beyond the array API standard: a loop that a jit can trace, reductions by
segment, the widest dtypes of a device, the way to and from host memory. To support another library, write its class and
list it in `LIBRARIES`. No library is imported before the user has imported it.
"""

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.arrays.copies import Copies, HostArrays, copy_each, copy_tensors

Array: TypeAlias = Any
"""An array of any supported library."""

Namespace: TypeAlias = Any
"""The functions of one array library under the names of the array API standard."""

_IS_STANDARD = int(np.__version__.split(".")[0]) >= 2
"""Whether NumPy has the array API's own names."""


class NumPy:
    """NumPy, and the default for other libraries."""

    name = "numpy"
    array_classes: tuple[str, ...] = ("ndarray", "generic")

    def __repr__(self) -> str:
        return self.name

    @property
    def module(self) -> Any:
        """The imported library; None if the user has not imported it."""
        return sys.modules.get(self.name)

    def namespace(self) -> Namespace:
        """The functions of the library under the array API's names."""
        if _IS_STANDARD:
            return np  # importing the compat layer would take longer than many evaluations
        import array_api_compat.numpy

        return array_api_compat.numpy

    def float_dtype(self, like: Array) -> Any:
        """The widest float dtype where `like` lives."""
        return self.namespace().float64

    def int_dtype(self, like: Array) -> Any:
        """The dtype of counts and indices where `like` lives."""
        return self.namespace().int64

    def placement(self, like: Array) -> dict[str, Any]:
        """Keyword arguments that create an array where `like` lives."""
        return {}

    def move(self, array: Array, like: Array) -> Array:
        """An array of this library on the device of `like`."""
        return array

    def to_numpy(self, array: Array) -> np.ndarray[Any, Any]:
        """The array in host memory."""
        return np.asarray(array)

    def is_in_host_memory(self, array: Array) -> bool:
        """Whether this process can read the array without a copy from a device."""
        return True

    def start_copy(self, array: Array) -> Callable[[], np.ndarray[Any, Any]]:
        """Start to copy the array to host memory. The returned function waits for the copy."""
        return lambda: self.to_numpy(array)

    def device_of(self, array: Array) -> Any:
        """The device of the array: a hashable value."""
        return None

    def start_copies(self, arrays: Sequence[Array], *, is_joined: bool) -> Copies:
        """Start to copy arrays of one device to host memory. `is_joined`: they are many and small."""
        return copy_each(arrays, self.start_copy)

    def contiguous(self, array: Array) -> Array:
        """The array in row-major order, if the library has other layouts."""
        return np.ascontiguousarray(array)

    def rows_at(self, array: Array, index_P: Array) -> Array:
        """Rows by indices that live where the array does. Shape (P, ...)."""
        return self.namespace().take(array, index_P, axis=0)

    def cumulative_sum(self, value_D: Array) -> Array:
        """The running sum. Shape (D,)."""
        return self.namespace().cumulative_sum(value_D, axis=0)

    def lexsort(self, columns: Sequence[Array]) -> Array:
        """The order that sorts rows by the last column, then by the one before it. Shape (D,)."""
        return np.lexsort(tuple(columns))

    def cumulative_max(self, value: Array) -> Array:
        """The running maximum along the last axis, by doubling: log2(length) steps."""
        xp = self.namespace()
        reach = 1
        while reach < value.shape[-1]:
            shifted = xp.concat([value[..., :reach], value[..., :-reach]], axis=-1)
            value = xp.maximum(value, shifted)
            reach *= 2
        return value

    def along_rows(self, value_ND: Array, index_NE: Array) -> Array:
        """Elements of each row, by their indices. Shape (N, E)."""
        return self.namespace().take_along_axis(value_ND, index_NE, axis=1)

    def fixed_point(self, step: Callable[[Array], Array], start: Array) -> Array:
        """Repeat `step` until it changes nothing. Copies one flag per iteration to the host."""
        xp = self.namespace()
        before, after = start, step(start)
        while xp.any(before != after):
            before, after = after, step(after)
        return after

    def scan(self, step: Callable[..., Any], start: Array, rows: tuple[Array, ...]) -> Any:
        """Call `step` for each row, with what the step before carries on; stack what the steps return."""
        xp, found = self.namespace(), []
        for index in range(rows[0].shape[0]):
            start, each = step(start, *(array[index] for array in rows))
            found.append(each)
        return tuple(xp.stack(each, axis=0) for each in zip(*found, strict=True))

    def slice_rows(self, array: Array, start: Array, size: int) -> Array:
        """Rows from a start that lives where the array does. Shape (size, ...)."""
        xp = self.namespace()
        return self.rows_at(array, start + xp.arange(size, dtype=start.dtype, **self.placement(array)))

    def write_rows(self, array: Array, start: Array, rows: Array) -> Array:
        """A copy of the array with other rows from a start that lives where the array does."""
        written = np.array(array)
        written[int(start) : int(start) + len(rows)] = rows
        return written

    def size_of(self, array: Array, axis: int) -> Any:
        """The size of an axis; a scalar of the library if a graph doesn't know it yet."""
        return array.shape[axis]

    def descending_index(self, value_PG: Array, *, is_last_first: bool) -> Array:
        """The index of each element in its row, if that were sorted. Shape (P, G)."""
        xp = self.namespace()
        if is_last_first:
            return xp.flip(self.descending_index(xp.flip(value_PG, axis=1), is_last_first=False), axis=1)
        order_PG = xp.argsort(-value_PG, axis=-1, stable=True)
        return xp.astype(xp.argsort(order_PG, axis=-1, stable=True), xp.int32)

    def segment_min(self, value_D: Array, segment_D: Array, num_segments: int, empty: int) -> Array:
        """The smallest value of each segment, or `empty`. Shape (num_segments,)."""
        smallest = np.full(num_segments, empty, dtype=value_D.dtype)
        np.minimum.at(smallest, segment_D, value_D)
        return smallest

    def segment_max(self, value_D: Array, segment_D: Array, num_segments: int, empty: float) -> Array:
        """The largest value of each segment, or `empty`. Shape (num_segments,)."""
        largest = np.full(num_segments, empty, dtype=value_D.dtype)
        np.maximum.at(largest, segment_D, value_D)
        return largest

    def segment_sum(self, value_D: Array, segment_D: Array, num_segments: int) -> Array:
        """The sum of each segment. Shape (num_segments,)."""
        return np.bincount(segment_D, weights=value_D, minlength=num_segments)

    def jitted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, compiled if eager operations would be compiled one by one."""
        return function

    def with_spare_rows(self, array: Array) -> Array:
        """The array, or one with rows of zeros besides if each number of rows would be compiled anew."""
        return array

    def count_flags(self, flag_NDHW: Array) -> Array:
        """The number of flags that are True in the last two axes, int32. Shape (N, D)."""
        xp = self.namespace()
        return xp.sum(flag_NDHW, axis=(-2, -1), dtype=xp.int32)

    def count_common(self, flag_NDHW: Array, other_NGHW: Array) -> Array:
        """The number of flags that are True in both of each pair, int32. Shape (N, D, G). At most 2^24 flags each.

        A product of zeros and ones: every partial sum is an integer of at most 2^24, which single precision holds
        exactly, in any order of additions. Devices that round the factors to fewer bits round neither 0 nor 1.
        """
        xp = self.namespace()
        num_images, num_rows, height, width = flag_NDHW.shape
        left_NDP = xp.reshape(flag_NDHW, (num_images, num_rows, height * width))
        right_NGP = xp.reshape(other_NGHW, (num_images, other_NGHW.shape[1], height * width))
        left_NDP, right_NGP = xp.astype(left_NDP, xp.float32), xp.astype(right_NGP, xp.float32)
        return xp.astype(xp.matmul(left_NDP, xp.matrix_transpose(right_NGP)), xp.int32)

    def sum_of_steps(self, step: Callable[[Any], tuple[Array, ...]], num: Any) -> tuple[Array, ...]:
        """The sum of the arrays of `step(0)` to `step(num - 1)`, and of step 0 in any case."""
        total = step(0)
        for index in range(1, num):
            total = tuple(before + more for before, more in zip(total, step(index), strict=True))
        return total


class PyTorch(NumPy):
    """PyTorch, eager and inside `torch.compile`."""

    name = "torch"
    array_classes = ("Tensor",)

    def namespace(self) -> Namespace:
        import array_api_compat.torch

        return array_api_compat.torch

    def float_dtype(self, like: Array) -> Any:
        return self.module.float32 if like.device.type == "mps" else self.module.float64

    def int_dtype(self, like: Array) -> Any:
        return self.module.int64

    def placement(self, like: Array) -> dict[str, Any]:
        return {"device": like.device}

    def move(self, array: Array, like: Array) -> Array:
        return array.to(like.device)

    def to_numpy(self, array: Array) -> np.ndarray[Any, Any]:
        if array.requires_grad:
            array = array.detach()
        if not array.is_cpu:
            array = array.cpu()
        if array.dtype == self.module.bfloat16:
            array = array.float()  # NumPy has no bfloat16
        host: np.ndarray[Any, Any] = array.numpy()
        return host

    def is_in_host_memory(self, array: Array) -> bool:
        return bool(array.is_cpu)

    def start_copy(self, array: Array) -> Callable[[], np.ndarray[Any, Any]]:
        if self.is_in_host_memory(array):
            return lambda: self.to_numpy(array)
        copies = self.start_copies([array], is_joined=False)
        return lambda: copies.wait()[0]  # the buffer is never released, so it belongs to the array

    def device_of(self, array: Array) -> Any:
        return array.device

    def start_copies(self, arrays: Sequence[Array], *, is_joined: bool) -> Copies:
        return copy_tensors(self.module, arrays, is_joined=is_joined)

    def contiguous(self, array: Array) -> Array:
        return array.contiguous()

    def rows_at(self, array: Array, index_P: Array) -> Array:
        return array.index_select(0, index_P)  # without the compat layer's check for negative indices

    def cumulative_sum(self, value_D: Array) -> Array:
        return value_D.cumsum(0)  # the compat layer's own makes torch.compile warn

    def cumulative_max(self, value: Array) -> Array:
        return value.cummax(-1).values

    def along_rows(self, value_ND: Array, index_NE: Array) -> Array:
        return value_ND.gather(1, index_NE)  # take_along_dim makes torch.compile assume that sizes never change

    def lexsort(self, columns: Sequence[Array]) -> Array:
        order = columns[0].argsort(stable=True)
        for column in columns[1:]:
            order = order.index_select(0, column.index_select(0, order).argsort(stable=True))
        return order

    def fixed_point(self, step: Callable[[Array], Array], start: Array) -> Array:
        if not self.module.compiler.is_compiling():
            return super().fixed_point(step, start)
        from torch._higher_order_ops.while_loop import while_loop

        def is_changing(before: Array, after: Array) -> Array:
            return (before != after).any()

        # The operator does not accept aliased arrays, hence the copies.
        return while_loop(is_changing, lambda _, after: (after.clone(), step(after)), (start.clone(), step(start)))[1]

    def scan(self, step: Callable[..., Any], start: Array, rows: tuple[Array, ...]) -> Any:
        if not self.module.compiler.is_compiling():
            return super().scan(step, start, rows)
        try:
            from torch._higher_order_ops import scan
        except ImportError:  # an older PyTorch, which unrolls the loop
            return super().scan(step, start, rows)
        return scan(lambda carried, row: step(carried, *row), start, rows)[1]

    def segment_min(self, value_D: Array, segment_D: Array, num_segments: int, empty: int) -> Array:
        start = self.module.full((num_segments,), empty, dtype=value_D.dtype, device=value_D.device)
        return start.scatter_reduce(0, segment_D, value_D, "amin")

    def segment_max(self, value_D: Array, segment_D: Array, num_segments: int, empty: float) -> Array:
        start = self.module.full((num_segments,), empty, dtype=value_D.dtype, device=value_D.device)
        return start.scatter_reduce(0, segment_D, value_D, "amax")

    def segment_sum(self, value_D: Array, segment_D: Array, num_segments: int) -> Array:
        start = self.module.zeros(num_segments, dtype=value_D.dtype, device=value_D.device)
        return start.scatter_add(0, segment_D, value_D)

    def count_flags(self, flag_NDHW: Array) -> Array:
        return flag_NDHW.sum((-2, -1), dtype=self.module.int32)

    def count_common(self, flag_NDHW: Array, other_NGHW: Array) -> Array:
        torch = self.module
        height, width = flag_NDHW.shape[2:]
        if flag_NDHW.device.type != "cuda" or not 0 < width <= 2048:
            return super().count_common(flag_NDHW, other_NGHW)
        # Half precision takes half the memory and holds integers up to 2^11 exactly. A batch of products, each over
        # as many whole lines of pixels as have at most 2^11 flags, makes counts that it holds, whatever the GPU
        # accumulates in; their sum is in integers.
        lines = max(num for num in range(1, 2048 // width + 1) if height % num == 0)

        def split(flag: Array) -> Array:
            flag = flag.reshape(*flag.shape[:2], height // lines, lines * width).transpose(1, 2)
            return flag.to(torch.float16, memory_format=torch.contiguous_format)

        common_NSDG = torch.matmul(split(flag_NDHW), split(other_NGHW).transpose(-1, -2))
        return common_NSDG.sum(1, dtype=torch.int32)

    def write_rows(self, array: Array, start: Array, rows: Array) -> Array:
        index_P = start + self.module.arange(rows.shape[0], dtype=start.dtype, device=array.device)
        return array.index_copy(0, index_P, rows)


class Jax(NumPy):
    """JAX; without x64 its widest float has 32 bits."""

    name = "jax"
    array_classes = ("Array",)

    def namespace(self) -> Namespace:
        import jax.numpy

        return jax.numpy

    def float_dtype(self, like: Array) -> Any:
        return self.module.dtypes.canonicalize_dtype("float64")

    def int_dtype(self, like: Array) -> Any:
        return self.module.dtypes.canonicalize_dtype("int64")

    def is_in_host_memory(self, array: Array) -> bool:
        return all(device.platform == "cpu" for device in array.devices())

    def start_copy(self, array: Array) -> Callable[[], np.ndarray[Any, Any]]:
        array.copy_to_host_async()
        return lambda: self.to_numpy(array)

    def start_copies(self, arrays: Sequence[Array], *, is_joined: bool) -> Copies:
        # One by one: XLA would compile a concatenation anew for each combination of shapes.
        for array in arrays:
            array.copy_to_host_async()

        def wait() -> HostArrays:
            if any(array.is_deleted() for array in arrays):
                rule = "must stay until their copies have arrived: don't donate or delete them before `compute`"
                raise InputError(f"arrays of JAX {rule}; got one that was deleted")
            return [self.to_numpy(array) for array in arrays]

        return Copies(wait, lambda: all(array.is_deleted() or array.is_ready() for array in arrays))

    def contiguous(self, array: Array) -> Array:
        return array

    def lexsort(self, columns: Sequence[Array]) -> Array:
        return self.namespace().lexsort(tuple(columns))

    def fixed_point(self, step: Callable[[Array], Array], start: Array) -> Array:
        def is_changing(state: tuple[Array, Array]) -> Array:
            return (state[0] != state[1]).any()

        return self.module.lax.while_loop(is_changing, lambda s: (s[1], step(s[1])), (start, step(start)))[1]

    def slice_rows(self, array: Array, start: Array, size: int) -> Array:
        return self.module.lax.dynamic_slice_in_dim(array, start, size)

    def write_rows(self, array: Array, start: Array, rows: Array) -> Array:
        return self.module.lax.dynamic_update_slice_in_dim(array, rows, start, axis=0)

    def scan(self, step: Callable[..., Any], start: Array, rows: tuple[Array, ...]) -> Any:
        return self.module.lax.scan(lambda carried, row: step(carried, *row), start, rows)[1]

    def descending_index(self, value_PG: Array, *, is_last_first: bool) -> Array:
        # XLA's sort on CPUs takes many times as long as counting, column by column, the elements that come before.
        xp, lax = self.namespace(), self.module.lax
        num = value_PG.shape[-1]
        column_G, dtype = xp.arange(num), xp.int16 if num < 2**15 else xp.int32

        def add(index: Array, count_PG: Array) -> Array:
            other_P1 = lax.dynamic_slice_in_dim(value_PG, index, 1, axis=1)
            is_earlier_G = index > column_G if is_last_first else index < column_G
            is_before_PG = (other_P1 > value_PG) | ((other_P1 == value_PG) & is_earlier_G)
            return count_PG + is_before_PG.astype(dtype)

        return lax.fori_loop(0, num, add, xp.zeros_like(value_PG, dtype=dtype)).astype(xp.int32)

    def segment_min(self, value_D: Array, segment_D: Array, num_segments: int, empty: int) -> Array:
        return self.namespace().full(num_segments, empty, value_D.dtype).at[segment_D].min(value_D)

    def segment_max(self, value_D: Array, segment_D: Array, num_segments: int, empty: float) -> Array:
        return self.namespace().full(num_segments, empty, value_D.dtype).at[segment_D].max(value_D)

    def segment_sum(self, value_D: Array, segment_D: Array, num_segments: int) -> Array:
        return self.namespace().zeros(num_segments, value_D.dtype).at[segment_D].add(value_D)

    def jitted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return _jitted_by_jax(function)

    def with_spare_rows(self, array: Array) -> Array:
        num = array.shape[0]
        num_spare = (1 << max(num - 1, 0).bit_length()) - num
        return self.namespace().pad(array, [(0, num_spare), *[(0, 0)] * (array.ndim - 1)]) if num_spare else array

    def count_common(self, flag_NDHW: Array, other_NGHW: Array) -> Array:
        if self.module.default_backend() == "cpu":
            return super().count_common(flag_NDHW, other_NGHW)
        # Accelerators multiply short factors and accumulate in single precision.
        jnp = self.namespace()
        short = flag_NDHW.astype(jnp.bfloat16), other_NGHW.astype(jnp.bfloat16)
        return jnp.einsum("ndhw,nghw->ndg", *short, preferred_element_type=jnp.float32).astype(jnp.int32)


@lru_cache
def _jitted_by_jax(function: Callable[..., Any]) -> Callable[..., Any]:
    import jax

    compiled: Callable[..., Any] = jax.jit(function)  # one object per function: it has the compiled code
    return compiled


class TensorFlow(NumPy):
    """TensorFlow, eager and inside `tf.function`. AutoGraph can't read match statements, so none of this has any."""

    name = "tensorflow"
    array_classes = ("Tensor", "Variable")

    def namespace(self) -> Namespace:
        import boxscore.arrays.tensorflow

        return boxscore.arrays.tensorflow

    def is_in_host_memory(self, array: Array) -> bool:
        return "CPU" in array.device

    def start_copy(self, array: Array) -> Callable[[], np.ndarray[Any, Any]]:
        with self.module.device("CPU:0"):
            host = self.module.identity(array)
        return lambda: self.to_numpy(host)

    def device_of(self, array: Array) -> Any:
        return array.device

    def start_copies(self, arrays: Sequence[Array], *, is_joined: bool) -> Copies:
        # Eager copies from a device block, so only the values are kept there until they are needed. Tensors never
        # change, but variables do.
        tf = self.module
        groups: dict[Any, list[int]] = {}
        for position, array in enumerate(arrays):
            is_alone = not is_joined or not array.shape.rank
            groups.setdefault(position if is_alone else (array.dtype, *array.shape[1:]), []).append(position)
        given = [[arrays[position] for position in group] for group in groups.values()]
        joined = [tf.concat(parts, axis=0) if len(parts) > 1 else tf.identity(parts[0]) for parts in given]
        sizes = [[part.shape[0] for part in parts] if len(parts) > 1 else [] for parts in given]

        def wait() -> HostArrays:
            host: dict[int, np.ndarray[Any, Any]] = {}
            for group, values, size in zip(groups.values(), joined, sizes, strict=True):
                parts = np.split(self.to_numpy(values), np.cumsum(size)[:-1]) if size else [self.to_numpy(values)]
                host.update(zip(group, parts, strict=True))
            return [host[position] for position in range(len(host))]

        return Copies(wait, lambda: False)

    def contiguous(self, array: Array) -> Array:
        return array

    def lexsort(self, columns: Sequence[Array]) -> Array:
        tf = self.module
        order = tf.argsort(columns[0], stable=True)
        for column in columns[1:]:
            order = tf.gather(order, tf.argsort(tf.gather(column, order), stable=True))
        return order

    def fixed_point(self, step: Callable[[Array], Array], start: Array) -> Array:
        tf = self.module

        def is_changing(before: Array, after: Array) -> Array:
            return tf.reduce_any(before != after)

        return tf.while_loop(is_changing, lambda _, after: (after, step(after)), (start, step(start)))[1]

    def scan(self, step: Callable[..., Any], start: Array, rows: tuple[Array, ...]) -> Any:
        tf = self.module
        num_steps = tf.shape(rows[0])[0]
        # A step on zeros tells the dtypes, and keeps the arrays from being empty.
        _, first = step(start, *(tf.zeros(tf.shape(array)[1:], array.dtype) for array in rows))
        found = [tf.TensorArray(each.dtype, num_steps + 1, element_shape=each.shape).write(0, each) for each in first]

        def body(index: Array, carried: Array, *found: Array) -> Any:
            carried, each = step(carried, *(array[index] for array in rows))
            written = [array.write(index + 1, one) for array, one in zip(found, each, strict=True)]
            return index + 1, carried, *written

        def is_going(index: Array, *_: Array) -> Array:
            return index < num_steps

        _, _, *found = tf.while_loop(is_going, body, (tf.constant(0), start, *found))
        return tuple(array.stack()[1:] for array in found)

    def cumulative_max(self, value: Array) -> Array:
        tf = self.module
        return tf.transpose(tf.scan(tf.maximum, tf.transpose(value)))  # the last axis is the first, and back

    def write_rows(self, array: Array, start: Array, rows: Array) -> Array:
        tf = self.module
        index_P1 = (start + tf.range(tf.shape(rows, start.dtype)[0], dtype=start.dtype))[:, None]
        return tf.tensor_scatter_nd_update(array, index_P1, rows)

    def size_of(self, array: Array, axis: int) -> Any:
        size = array.shape[axis]
        return self.module.shape(array, self.module.int64)[axis] if size is None else size

    def segment_min(self, value_D: Array, segment_D: Array, num_segments: int, empty: int) -> Array:
        tf = self.module
        start = tf.fill([num_segments], tf.constant(empty, value_D.dtype))
        return tf.tensor_scatter_nd_min(start, segment_D[:, None], value_D)

    def segment_max(self, value_D: Array, segment_D: Array, num_segments: int, empty: float) -> Array:
        tf = self.module
        start = tf.fill([num_segments], tf.constant(empty, value_D.dtype))
        return tf.tensor_scatter_nd_max(start, segment_D[:, None], value_D)

    def segment_sum(self, value_D: Array, segment_D: Array, num_segments: int) -> Array:
        return self.module.math.unsorted_segment_sum(value_D, segment_D, num_segments)

    def count_flags(self, flag_NDHW: Array) -> Array:
        tf = self.module
        return tf.reduce_sum(tf.cast(flag_NDHW, tf.int32), axis=[-2, -1])

    def count_common(self, flag_NDHW: Array, other_NGHW: Array) -> Array:
        tf = self.module

        def flat(flag: Array) -> Array:
            shape = tf.shape(flag)  # a graph may not know it yet
            return tf.reshape(tf.cast(flag, tf.float32), [shape[0], shape[1], shape[2] * shape[3]])

        return tf.cast(tf.matmul(flat(flag_NDHW), flat(other_NGHW), transpose_b=True), tf.int32)

    def sum_of_steps(self, step: Callable[[Any], tuple[Array, ...]], num: Any) -> tuple[Array, ...]:
        tf = self.module
        if tf.executing_eagerly():
            return super().sum_of_steps(step, num)

        def add(index: Array, *total: Array) -> tuple[Array, ...]:
            return index + 1, *(before + more for before, more in zip(total, step(index), strict=True))

        _, *total = tf.while_loop(lambda i, *_: i < num, add, (tf.ones_like(num), *step(0)), parallel_iterations=1)
        return tuple(total)


LIBRARIES = (NumPy(), PyTorch(), Jax(), TensorFlow())
