"""Ray datasets: their columns, the files of their rows, messages from tasks to the driver, one-line errors."""

import logging
import pickle
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore._support.versions import framework_imports
from boxscore.result import arrow

_TASK_BITS = 33
"""Number of low bits of a row number that hold its index within a reading task; the bits above hold the task."""


def library() -> Any:
    """Import Ray; `InputError` if it is not installed or too old."""
    try:
        with framework_imports("evaluation on Ray", "ray"):
            import ray
            import ray.data
    except ModuleNotFoundError as error:
        raise InputError(str(error)) from None
    return ray


def as_messages(values: Iterable[Any]) -> Any:
    """Pack values for the driver into a table, one row per value."""
    kind = arrow.pyarrow().large_binary()
    return arrow.pyarrow().table({"message": arrow.pyarrow().array([*map(pickle.dumps, values)], kind)})


def messages_of(dataset: Any) -> list[Any]:
    """Unpack the values that tasks have sent to the driver."""
    return [pickle.loads(row["message"]) for row in dataset.iter_rows()]


def check_columns(detections: Any, truths: Any, shape: Sequence[str] = ("box",)) -> None:
    """Raise `InputError` unless both sides have their columns, and the same kind of ids, text or integers.

    `shape`: the columns of the shapes.
    """
    sides = {"detections": _types_of(detections), "truths": _types_of(truths)}
    for side, types in sides.items():
        needed = [name for name in ("image", "label", "score", *shape) if name != "score" or side == "detections"]
        if types and not types.keys() >= set(needed):
            raise InputError(f"`{side}` must have the columns {', '.join(needed)}; got {', '.join(types)}")
    for name in ("image", "label"):
        kinds = {side: types[name] for side, types in sides.items() if types and types[name] != arrow.pyarrow().null()}
        if len({_is_text(kind) for kind in kinds.values()}) > 1:
            came = " and ".join(f"{kind} in `{side}`" for side, kind in kinds.items())
            raise InputError(f"`{name}` must be text on both sides, or integers on both; got {came}")


def _types_of(dataset: Any) -> dict[str, Any]:
    """The columns and types of a dataset's first block: null types if it has no rows; empty without blocks."""
    schema = dataset.schema()
    if schema is None:
        return {}
    if None in schema.types and dataset.count():  # pandas has types for which Ray has no name
        schema = dataset.take_batch(1, batch_format="pyarrow").schema
    return {name: kind or arrow.pyarrow().null() for name, kind in zip(schema.names, schema.types, strict=True)}


def has_text(dataset: Any, name: str) -> bool:
    """Whether a column of a dataset has text."""
    types = _types_of(dataset)
    return name in types and _is_text(types[name])


def _is_text(kind: Any) -> bool:
    """Whether a type is text, dictionary-encoded or not."""
    types = arrow.pyarrow().types
    value_type = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(value_type) or types.is_large_string(value_type))


def distinct_values(dataset: Any, name: str) -> list[Any]:
    """The distinct values of a column, collected block by block."""

    def distinct(table: Any) -> Any:
        return arrow.pyarrow().table({name: table.column(name).unique()})

    found = dataset.select_columns([name]).map_batches(distinct, batch_format="pyarrow", batch_size=None)
    return list({row[name]: None for row in found.iter_rows() if row[name] is not None})


def place_of(table: Any, row: int, side: str) -> str:
    """The location of a row, for errors: its file, or else its side, and its image."""
    known = table.column_names if table.num_rows else ()
    source = str(table.column("path")[row]) if "path" in known else side
    return f"{source}: image {table.column('image')[row]}" if "image" in known else source


def sources_of(table: Any) -> NDArray[np.int64]:
    """The number of each row's file; if unknown, of the task that read it."""
    if "path" not in table.column_names:
        return np.asarray(table.column("row").to_numpy() >> _TASK_BITS)
    paths = table.column("path").combine_chunks().dictionary_encode()
    numbers = np.array([_number_of(path) for path in paths.dictionary.to_pylist()], np.int64)
    return np.asarray(numbers[paths.indices.to_numpy()])


def _number_of(path: str) -> int:
    """A number for a path, equal in every process."""
    return zlib.crc32(path.encode())


@contextmanager
def settings_of(context: Any, quiet: bool) -> Iterator[None]:
    """Preserve the order of rows, which breaks ties, and restore the user's settings afterwards."""
    options = context.execution_options
    before = options.preserve_order, context.enable_progress_bars
    options.preserve_order, context.enable_progress_bars = True, before[1] and not quiet
    try:
        yield
    finally:
        options.preserve_order, context.enable_progress_bars = before


@contextmanager
def one_line_errors(datasets: Sequence[Any], quiet: bool, files: Sequence[str] = ()) -> Iterator[None]:
    """Convert errors in tasks to a one-line `InputError`, without Ray's stack traces.

    `files`: the files of the datasets, if Ray doesn't know them.
    """
    ray = library()
    logger = logging.getLogger("ray.data")
    muted = [handler for handler in logger.handlers if isinstance(handler, logging.StreamHandler)]

    def is_shown(record: logging.LogRecord) -> bool:
        return not quiet and record.levelno < logging.ERROR

    for handler in muted:
        handler.addFilter(is_shown)
    try:
        yield
    except ray.exceptions.RayError as error:
        # Ray keeps only the text of an error in a task.
        found = re.findall(rf"^{re.escape(InputError.__module__)}\.InputError: (.*)$", str(error), flags=re.MULTILINE)
        if found:
            raise InputError(_with_paths(found[0], datasets)) from None
        if not _is_of_reading(error):
            raise
        paths = list(files) or [path for dataset in datasets for path in _paths_of(dataset)]
        hint = "" if paths else "; datasets with a column `path` (include_paths=True) have its name"
        raise InputError(_damage_in(paths) or f"a file can't be read: {_reason(error)}{hint}") from error
    finally:
        for handler in muted:
            handler.removeFilter(is_shown)


def _paths_of(dataset: Any) -> list[str]:
    """The files of a dataset, as Ray knows them, or else from its column `path`."""
    try:
        known: list[str] = dataset.input_files()
        return known or (distinct_values(dataset, "path") if has_text(dataset, "path") else [])
    except library().exceptions.RayError:
        return []


def _damage_in(paths: Sequence[str]) -> str | None:
    """Describe the first file that can't be read; None if all can be. One task reads one file to its end."""
    ray = library()
    tasks = [ray.remote(damage_of).options(max_retries=0).remote(path) for path in paths]
    try:
        for path, task in zip(paths, tasks, strict=True):
            if reason := ray.get(task):
                return f"{path}: can't be read: {reason}"
    except ray.exceptions.RayError:
        return None
    finally:
        for task in tasks:
            ray.cancel(task)
    return None


def damage_of(path: str) -> str | None:
    """The reason why a Parquet, CSV or JSON-lines file can't be read to its end, batch by batch; None if it can be."""
    from pyarrow import csv, fs, json, parquet

    try:
        system, local = fs.FileSystem.from_uri(path) if "://" in path else (fs.LocalFileSystem(), path)
    except (OSError, arrow.pyarrow().ArrowException):
        return None  # an address that only its reader can open
    try:
        with system.open_input_file(local) as file:
            suffix = PurePosixPath(path).suffix.lower()
            if suffix == ".csv":
                batches: Any = csv.open_csv(file)
            elif suffix in (".json", ".jsonl"):
                batches = [json.read_json(file)]
            else:
                batches = parquet.ParquetFile(file).iter_batches()
            for _ in batches:
                pass
    except (OSError, ValueError) as error:  # includes Arrow's errors
        return _reason(error)
    return None


@contextmanager
def readable(file: str) -> Iterator[None]:
    """Put the name of the file in front of errors."""
    try:
        yield
    except library().exceptions.RayError as error:
        raise InputError(f"{file}: can't be read: {_reason(error)}") from None
    except arrow.pyarrow().ArrowException as error:
        raise InputError(f"{file}: can't be read: {error}") from None


def _is_of_reading(error: Exception) -> bool:
    """Whether a task failed in one of Ray's own readers, judged by its stack trace."""
    return re.search(r"ray/data/\S*(datasource|reader)\S*\.py", str(error)) is not None


def _reason(error: Exception) -> str:
    """The first line of a task's error, or else its type."""
    cause = getattr(error, "cause", None) or error
    return next(iter(str(cause).strip().splitlines()), type(cause).__name__)


def _with_paths(message: str, datasets: Sequence[Any]) -> str:
    """Replace the numbers of sources in a message by paths, if rows have paths; else name them as blocks."""
    if not re.search(r"source \d+", message):
        return message
    paths = [path for dataset in datasets if has_text(dataset, "path") for path in distinct_values(dataset, "path")]
    named = {str(_number_of(path)): path for path in paths}
    return re.sub(r"source (\d+)", lambda match: named.get(match[1], f"block {match[1]}"), message)
