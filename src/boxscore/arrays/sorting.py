"""The order of rows by several columns, in host memory."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore.arrays import compact


def order_by(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """The order that puts rows in ascending order of the first column, then of the next; of equal rows the first stays
    first. Columns of integers or floats, without NaN. Shape (N,) each.

    >>> order_by(np.array([7, 5, 7]), np.array([0.5, 0.9, -0.5])).tolist()
    [1, 2, 0]
    """
    order: NDArray[np.int64] = _compiled.order_of_rows([compact(column) for column in columns])
    return order
