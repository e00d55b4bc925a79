"""TensorFlow under the names of the array API standard: as much of it as the kernels use, and no more.

Integers are int64 throughout, since TensorFlow neither promotes dtypes nor agrees with itself on a default.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

bool = tf.bool
uint8 = tf.uint8
int32 = tf.int32
int64 = tf.int64
float32 = tf.float32
float64 = tf.float64

all = tf.reduce_all
any = tf.reduce_any
bitwise_left_shift = tf.bitwise.left_shift
bitwise_right_shift = tf.bitwise.right_shift
broadcast_to = tf.broadcast_to
ceil = tf.math.ceil
exp = tf.math.exp
floor = tf.math.floor
inf = np.inf
isfinite = tf.math.is_finite
log = tf.math.log
matmul = tf.linalg.matmul
matrix_transpose = tf.linalg.matrix_transpose
max = tf.reduce_max
maximum = tf.maximum
min = tf.reduce_min
minimum = tf.minimum
ones_like = tf.ones_like
reshape = tf.reshape
sqrt = tf.math.sqrt
stack = tf.stack
where = tf.where
zeros = tf.zeros
zeros_like = tf.zeros_like


def asarray(values: Any, *, dtype: Any = None) -> tf.Tensor:
    return tf.convert_to_tensor(values, dtype=dtype)


def astype(x: tf.Tensor, dtype: Any) -> tf.Tensor:
    return tf.cast(x, dtype)


def isdtype(dtype: Any, kind: str) -> Any:
    return {"bool": dtype.is_bool, "integral": dtype.is_integer, "real floating": dtype.is_floating}[kind]


def arange(size: int, *, dtype: Any = tf.int64) -> tf.Tensor:
    return tf.range(size, dtype=dtype)


def full_like(x: tf.Tensor, value: float) -> tf.Tensor:
    return tf.fill(tf.shape(x), tf.constant(value, x.dtype))


def flip(x: tf.Tensor, *, axis: int) -> tf.Tensor:
    return tf.reverse(x, [axis % len(x.shape)])


def concat(arrays: Sequence[tf.Tensor], *, axis: int) -> tf.Tensor:
    dtype = np.result_type(*(array.dtype.as_numpy_dtype for array in arrays))
    return tf.concat([tf.cast(array, dtype) for array in arrays], axis=axis)


def argsort(x: tf.Tensor, *, axis: int = -1, stable: Any = True) -> tf.Tensor:
    return tf.cast(tf.argsort(x, axis=axis, stable=stable), tf.int64)


def sum(x: tf.Tensor, *, axis: int) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(x, tf.int64) if x.dtype.is_bool else x, axis=axis)


def cumulative_sum(x: tf.Tensor, *, axis: int = 0) -> tf.Tensor:
    return tf.cumsum(x, axis=axis)


def searchsorted(x: tf.Tensor, values: tf.Tensor, *, side: str = "left") -> tf.Tensor:
    return tf.searchsorted(x, values, side=side, out_type=tf.int64)


def take(x: tf.Tensor, indices: tf.Tensor, *, axis: int) -> tf.Tensor:
    return tf.gather(x, indices, axis=axis)


def take_along_axis(x: tf.Tensor, indices: tf.Tensor, *, axis: int = -1) -> tf.Tensor:
    return tf.gather(x, indices, axis=axis, batch_dims=len(x.shape) - 1)


def nonzero(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
    return tuple(tf.unstack(tf.where(x), axis=1))
