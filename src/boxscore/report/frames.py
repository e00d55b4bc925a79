"""Tables as data frames of pandas, Polars and Arrow. Names are categoricals; a missing value is null, NA or NaN."""

from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.analysis.match_table import Column, Names, RowNumbers, Table
from boxscore.result.arrow import pyarrow


def to_pandas(table: Table) -> Any:
    """Convert a table to a `pandas.DataFrame`."""
    try:
        import pandas as pd
    except ImportError:
        raise InputError("`to_pandas` needs pandas: pip install 'boxscore[pandas]'") from None

    def convert(column: Column) -> Any:
        if isinstance(column, Names):
            return pd.Categorical.from_codes(column.code, list(column.names))
        if isinstance(column, RowNumbers):
            return pd.arrays.IntegerArray(column.row, column.row < 0)
        return column

    return pd.DataFrame({name: convert(column) for name, column in table.items()})


def to_polars(table: Table) -> Any:
    """Convert a table to a `polars.DataFrame`."""
    try:
        import polars as pl
    except ImportError:
        raise InputError("`to_polars` needs Polars: pip install 'boxscore[polars]'") from None

    def convert(column: Column) -> Any:
        if isinstance(column, Names):
            return pl.Series(column.names, dtype=pl.Categorical).gather(numbers(column.code))
        return numbers(column.row) if isinstance(column, RowNumbers) else pl.Series(column, nan_to_null=True)

    def numbers(values: Any) -> Any:
        series = pl.Series(values)
        return series.set(series < 0, None)

    return pl.DataFrame([convert(column).alias(name) for name, column in table.items()])


def to_arrow(table: Table) -> Any:
    """Convert a table to a `pyarrow.Table`."""
    pa = pyarrow()

    def convert(column: Column) -> Any:
        if isinstance(column, Names):
            names = pa.array(column.names, pa.string())
            return pa.DictionaryArray.from_arrays(pa.array(column.code, mask=column.code < 0), names)
        if isinstance(column, RowNumbers):
            return pa.array(column.row, mask=column.row < 0)
        return pa.array(np.ascontiguousarray(column), from_pandas=True)

    return pa.table({name: convert(column) for name, column in table.items()})


def to_lists(table: Table) -> dict[str, list[Any]]:
    """Convert columns to lists of Python values; None: missing.

    >>> to_lists({"ap": np.array([0.5, np.nan]), "truth": RowNumbers(np.array([3, -1]))})
    {'ap': [0.5, None], 'truth': [3, None]}
    """

    def convert(column: Column) -> list[Any]:
        if isinstance(column, Names):
            return [column.names[code] if code >= 0 else None for code in column.code.tolist()]
        if isinstance(column, RowNumbers):
            return [row if row >= 0 else None for row in column.row.tolist()]
        return [None if value != value else value for value in column.tolist()]

    return {name: convert(column) for name, column in table.items()}
