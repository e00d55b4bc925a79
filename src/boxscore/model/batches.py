"""Dicts of images, one per image, to columns: in one step if all are alike, else image by image with every check."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from boxscore._support.arrays import Array, convert, is_array, is_in_host_memory, library, namespace, to_numpy
from boxscore._support.checks import RowError, as_array, as_flags, as_ids, is_kind, shape_of
from boxscore._support.exceptions import InputError
from boxscore.model.batch_keys import FLAGS, Keys

Made = TypeVar("Made")


def columns_from_images(
    cls: Callable[..., Made],
    images: Sequence[Mapping[str, Any]],
    keys: Keys,
    *,
    image_ids: Sequence[int] | None,
    is_hosted: bool = False,
    **settings: Any,
) -> Made:
    """What `cls` makes of the columns of dicts, one dict per image; errors name the image, the key and its row."""
    if type(images) is not list and (isinstance(images, Mapping) or not isinstance(images, Sequence)):
        raise InputError(f"`images` must be a sequence of dicts, one an image; got {type(images).__name__}")
    columns, num_rows, used = columns_of(images, keys)
    if is_hosted and is_in_host_memory(columns["box"]):
        columns = {name: to_numpy(column) for name, column in columns.items()}
    ids = np.arange(len(images)) if image_ids is None else _image_ids("image_ids", image_ids, len(images))
    columns["image"] = np.repeat(ids, num_rows)
    try:
        if "ignore" in columns:
            columns["ignore"] = as_flags("ignore", columns["ignore"])
        return cls(**columns, **settings)
    except RowError as error:
        index = int(np.searchsorted(np.cumsum(num_rows), error.row, side="right"))
        row = error.row - sum(num_rows[:index])
        key = next(key for key, name in used.items() if name == error.column and key in images[index])
        raise InputError(f"images[{index}]: `{key}` row {row} {error.rule}") from None


def _image_ids(name: str, image_ids: Any, num_images: int) -> NDArray[np.int64]:
    ids = as_array(name, image_ids)
    if shape_of(ids) != (num_images,):
        raise InputError(f"`{name}` must have shape ({num_images},), an id an image; got {shape_of(ids)}")
    ids = to_numpy(as_ids(name, ids)).astype(np.int64, copy=False)
    seen, counts = np.unique(ids, return_counts=True)
    if seen.size < num_images:
        raise InputError(f"`{name}` must have each id once; got {seen[counts > 1][0]} more than once")
    return ids


def columns_from_padded(
    cls: Callable[..., Made],
    columns: Mapping[str, Array],
    discarded: Array | None,
    image: Array | None,
    **settings: Any,
) -> Made:
    """What `cls` makes of the rows of a padded batch that are neither padding nor discarded."""
    arrays = {name: as_array(name, column) for name, column in columns.items()}
    shape: tuple[int, ...] = shape_of(arrays["label"])
    if len(shape) != 2:
        raise InputError(f"`label` must have two dimensions, images and boxes; got shape {shape}")
    if discarded is not None:
        arrays["discarded"] = as_array("discarded", discarded)
    for name, array in arrays.items():
        expected = (*shape, 4) if name == "box" else shape
        if shape_of(array) != expected:
            raise InputError(f"`{name}` must have shape {expected}, to go with `label`; got {shape_of(array)}")
    if not is_kind(arrays["label"], "integral"):
        raise InputError(f"`label` must hold integers; got {arrays['label'].dtype}")

    # Ids are grouped in host memory, so that is where it is decided which rows there are.
    label = to_numpy(arrays.pop("label")).reshape(-1)
    is_kept = label >= 0
    if discarded is not None:
        is_kept &= ~as_flags("discarded", to_numpy(arrays.pop("discarded")).reshape(-1))
    row = np.flatnonzero(is_kept)
    ids = np.arange(shape[0]) if image is None else _image_ids("image", image, shape[0])
    flat = {
        name: namespace(array).reshape(array, (-1, 4) if name == "box" else (-1,)) for name, array in arrays.items()
    }
    try:
        return cls(
            image=np.repeat(ids, shape[1])[row],
            label=label[row],
            **{name: namespace(array).take(array, convert(row, like=array), axis=0) for name, array in flat.items()},
            **settings,
        )
    except RowError as error:
        place = [int(index) for index in np.unravel_index(row[error.row], shape)]
        raise InputError(f"`{error.column}` row {place} {error.rule}") from None


def columns_of(images: Sequence[Any], keys: Keys) -> tuple[dict[str, Array], list[int], dict[str, str]]:
    """The columns of all images, how many rows each image has, and the keys that became columns."""
    used = keys.used(images)
    if used is not None and (quick := join_alike(images, used)) is not None:
        return *quick, used
    for index, image in enumerate(images):
        if not isinstance(image, Mapping):
            raise InputError(f"images[{index}] must be a dict with {_listed(keys)}; got {_described(image, keys)}")
        keys.check(image, f"images[{index}]")
    optional = {key: name for key, name in keys.optional.items() if any(key in image for image in images)}
    used = {**keys.needed, **optional}
    parts = [_image_columns(index, image, used) for index, image in enumerate(images)]
    num_rows = [int(part["label"].shape[0]) for part in parts]
    return {name: _join([part[name] for part in parts], name) for name in used.values()}, num_rows, used


def join_alike(
    images: Sequence[Mapping[str, Any]], used: Mapping[str, str]
) -> tuple[dict[str, Array], list[int]] | None:
    """The columns of all images and their lengths; None if images are not all alike, for the careful way to look at."""
    if not images or len(set(used.values())) < len(used):
        return None
    try:
        parts = {name: [image[key] for image in images] for key, name in used.items()}
    except KeyError:
        return None
    first = parts["label"][0]
    if not is_array(first):
        return None
    if library(first) == "torch":
        return _join_tensors(parts)
    if isinstance(first, np.ndarray) and type(first) is not np.ndarray:
        return None
    num_rows = [int(part.shape[0]) if getattr(part, "ndim", 0) == 1 else -1 for part in parts["label"]]
    for name, column in parts.items():
        if {*map(type, column)} != {type(first)} or len({part.dtype for part in column}) > 1:
            return None
        if [part.shape for part in column] != [(num, 4) if name == "box" else (num,) for num in num_rows]:
            return None
    columns = {name: namespace(first).concat(column, axis=0) for name, column in parts.items()}
    return (columns, num_rows) if _are_of_kind(columns) else None


def _are_of_kind(columns: Mapping[str, Array]) -> bool:
    """Whether labels are integers, and flags are flags or integers."""
    flags = columns.get("ignore")
    are_flags = flags is None or is_kind(flags, "bool") or is_kind(flags, "integral")
    return are_flags and is_kind(columns["label"], "integral")


def _join_tensors(parts: Mapping[str, list[Any]]) -> tuple[dict[str, Array], list[int]] | None:
    """The same of PyTorch's tensors, which are asked as little as can be: a question takes as long as ten numbers."""
    import torch

    try:
        columns = {name: torch.cat(column) for name, column in parts.items()}
    except (TypeError, RuntimeError):  # they are not all tensors of as many dimensions on one device
        return None
    if {*map(type, columns.values())} != {torch.Tensor} or not _are_of_kind(columns):
        return None
    for column in columns.values():
        is_tiny = column.dtype.itemsize == 1 and column.dtype.is_floating_point
        if column.layout is not torch.strided or column.is_nested or column.is_meta or is_tiny:
            return None
    num_rows = [*map(torch.Tensor.numel, parts["label"])]
    for name, column in parts.items():
        num_numbers = [4 * num for num in num_rows] if name == "box" else num_rows
        if columns[name].shape != ((sum(num_rows), 4) if name == "box" else (sum(num_rows),)):
            return None
        if [*map(torch.Tensor.numel, column)] != num_numbers:
            return None
    # Labels that are flags would have become numbers.
    return (columns, num_rows) if len({part.dtype for part in parts["label"]}) == 1 else None


def _image_columns(index: int, image: Mapping[str, Any], used: Mapping[str, str]) -> dict[str, Array]:
    """The columns of one image under our names; a flag that only other images have is False here."""
    if "area" in used and "area" not in image:
        raise InputError(f"images[{index}] must have the key 'area', as other images do; got {sorted(map(str, image))}")
    try:
        given = {key: as_array(key, image[key]) for key in used if key in image}
        size = shape_of(given["labels"])
        if len(size) != 1:
            raise InputError(f"`labels` must have one dimension; got shape {size}")
        for key, column in given.items():
            expected = (*size, 4) if key == "boxes" else size
            if size == (0,) and shape_of(column) == (0,):
                given[key] = np.zeros(expected)
            elif shape_of(column) != expected:
                raise InputError(f"`{key}` must have shape {expected} for {size[0]} labels; got {shape_of(column)}")
        columns = {used[key]: column for key, column in given.items() if key not in FLAGS}
        columns["label"] = as_ids("labels", given["labels"])
        if "ignore" in used.values():
            columns["ignore"] = any_of([as_flags(key, given[key]) for key in FLAGS if key in given], size)
    except InputError as error:
        raise InputError(f"images[{index}]: {error}") from None
    return columns


def padded_columns(given: Mapping[str, Any], keys: Keys) -> dict[str, Array]:
    """The columns of what `keys.of_padded` found in a batch, under our names."""
    arrays = {key: as_array(key, value) for key, value in given.items() if key not in keys.others}
    flags = [key for key in FLAGS if key in arrays]
    if len(flags) > 1:
        shape = shape_of(arrays["labels"])
        for key in flags:
            if shape_of(arrays[key]) != shape:
                raise InputError(f"`{key}` must have shape {shape}, to go with `labels`; got {shape_of(arrays[key])}")
        arrays[flags[0]] = any_of([as_flags(key, arrays[key]) for key in flags], shape)
    names = {**keys.needed, **keys.optional}
    return {names[key]: array for key, array in arrays.items() if key not in flags[1:]}


def any_of(flags: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """True where one of these columns of booleans is; without columns, False everywhere."""
    if not flags:
        return np.zeros(shape, bool)
    framework = library(*flags)
    marked = next(column for column in flags if library(column) == framework)
    for column in flags:
        if column is not marked:
            marked = marked | convert(column, like=marked)
    return marked


def _join(parts: Sequence[Array], name: str) -> Array:
    """The rows of all parts; those of lists take the library of the others, those of empty parts their dtype, too."""
    full = [part for part in parts if part.shape[0]] or list(parts[:1])
    if not full:
        return np.zeros((0, 4) if name == "box" else 0)
    framework = library(*full)
    home = next(part for part in full if library(part) == framework)
    return namespace(home).concat([convert(part, like=home) for part in full], axis=0)


def _listed(keys: Keys) -> str:
    *first, last = (f"`{key}`" for key in keys.needed)
    return f"{', '.join(first)} and {last}"


def _described(value: Any, keys: Keys) -> str:
    """What came in place of a dict, and what to pass if it is plain what it holds."""
    kind = type(value).__name__
    if not is_array(value):
        return kind
    shape = shape_of(value)
    if "scores" in keys.needed and len(shape) == 2 and shape[1] == 6:
        columns = '{"boxes": rows[:, :4], "scores": rows[:, 4], "labels": rows[:, 5]}, with labels as integers'
        return f"{kind} of shape {shape}: if its rows have a box, a score and a label, pass {columns}"
    return f"{kind} of shape {shape}"
