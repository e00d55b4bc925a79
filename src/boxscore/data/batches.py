"""Read batches: convert one dict per image, or padded arrays, to columns.

    dicts ──► collect_arrays ──► compiled: views of arrays in host memory ──► RowBuffer, or columns in NumPy
                    │ images differ, other devices, lists, errors to report
                    └──────────► image by image, in any array library ──────► columns

The keys are in `data.batch_keys`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore.arrays import (
    Array,
    constant,
    convert,
    int_dtype,
    is_array,
    is_in_host_memory,
    library,
    namespace,
    take_rows,
    to_numpy,
)
from boxscore.data.batch_keys import FLAGS, Keys, is_unread, row_shape_of
from boxscore.data.geometry.device_masks import masks_of_stacks
from boxscore.data.geometry.kinds import registered_keys
from boxscore.data.geometry.masks import Masks, check_are_pixels, without_channel
from boxscore.data.image_ids import different_ids
from boxscore.data.validation import (
    ImageError,
    RowError,
    as_array,
    as_flags,
    as_ids,
    check_is_dense,
    check_rows,
    is_kind,
    shape_of,
)

Made = TypeVar("Made")


def in_argument(name: str, make: Callable[..., Made], *values: Any, **settings: Any) -> Made:
    """Call `make`, and name the argument in its errors."""
    try:
        return make(*values, **settings)
    except InputError as error:
        if isinstance(error, ImageError) and error.images == "images":
            raise ImageError(error.index, error.text, name) from None
        raise InputError(f"`{name}`: {error}") from None


def build_from_images(
    make: Callable[..., Made], images: Sequence[Any], keys: Keys, image_ids: Any = None, **settings: Any
) -> Made:
    """Call `make` with the columns of one dict per image. Errors name the image, the key and its row.

    `settings` are passed to `make`, except `as_numpy`: whether to convert arrays in host memory to NumPy.
    """
    if type(images) is not list and (isinstance(images, Mapping) or not isinstance(images, Sequence)):
        raise InputError(f"`images` must be a sequence of dicts, one per image; got {type(images).__name__}")
    as_numpy = settings.pop("as_numpy", False)
    batch = read_images(images, keys, as_numpy=as_numpy)
    columns = dict(to_host(batch.columns)) if as_numpy else batch.columns
    ids = np.arange(len(images)) if image_ids is None else different_ids(image_ids, len(images))
    with batch.named_rows():
        columns["labels"] = label = to_numpy(columns["labels"])  # ids are grouped in host memory
        if label.min(initial=0) < 0:
            rule = "must not be negative: -1 is padding in padded batches; leave these rows out here"
            check_rows("labels", label >= 0, rule, label)
        if "ignore" in columns:
            columns["ignore"] = as_flags("ignore", columns["ignore"])
        if batch.masks is not None:
            settings["masks"] = batch.masks
        return make(image_ids=np.repeat(ids, batch.num_rows), **_arguments(columns), **settings)


def _arguments(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns as arguments of a constructor: arrays of registered geometries are in `shapes`."""
    registered = registered_keys()
    shapes = {name: column for name, column in columns.items() if name in registered}
    own = {name: column for name, column in columns.items() if name not in registered}
    return own | {"shapes": shapes} if shapes else own


def listed_labels(images: Sequence[Mapping[str, Any]], key: str) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The image index and the label of each entry of the lists under a key; None if no image has the key."""
    if not any(key in image for image in images):
        return None
    labels: list[NDArray[np.int64]] = []
    for index, image in enumerate(images):
        if key not in image:
            rule = f"must have the key {key!r}, as other images do"
            raise ImageError(index, f" {rule}; got {sorted(map(str, image))}")
        try:
            given = as_array(key, [*image[key]] if isinstance(image[key], set | frozenset) else image[key])
            if len(shape_of(given)) != 1:
                raise InputError(f"`{key}` must have one dimension; got shape {shape_of(given)}")
            labels.append(to_numpy(as_ids(key, given) if given.shape[0] else given).astype(np.int64))
        except InputError as error:
            raise ImageError(index, f": {error}") from None
    return np.repeat(np.arange(len(images)), [each.size for each in labels]), np.concatenate(labels)


def to_host(columns: Mapping[str, Array]) -> Mapping[str, Array]:
    """Convert columns to NumPy if the first one, boxes if present, is in host memory."""
    if not is_in_host_memory(next(iter(columns.values()))):
        return columns
    return {name: to_numpy(column) for name, column in columns.items()}


class ImageBatch(NamedTuple):
    """The columns of all images of a batch."""

    columns: dict[str, Array]
    """Columns by name; flags may be integers. Shapes (R,), and (R, 4) for `boxes`."""
    num_rows: list[int]
    """Number of rows of each image."""
    keys: Mapping[str, str]
    """The keys that became columns."""
    images: Sequence[Mapping[str, Any]]
    masks: Masks | None = None
    """The masks of all images, if requested."""

    @contextmanager
    def named_rows(self) -> Iterator[None]:
        """Convert errors about a row of the batch to errors that name the image, the key and the row in it."""
        try:
            yield
        except RowError as error:
            index = int(np.searchsorted(np.cumsum(self.num_rows), error.row, side="right"))
            row = error.row - sum(self.num_rows[:index])
            key = next(key for key, name in self.keys.items() if name == error.column and key in self.images[index])
            raise ImageError(index, f": `{key}` row {row} {error.rule}") from None


def collect_arrays(images: Any, keys: Keys) -> _compiled.ArrayBatch | None:
    """Collect the arrays of dicts without reading them; None if the images' keys differ, or a key may be misspelled."""
    if not isinstance(images, list | tuple):
        return None
    columns = _without_masks(keys.columns)
    return _compiled.ArrayBatch.of_images(list(images), _compiled_keys(tuple(columns.items()), keys.all))


@lru_cache(maxsize=64)
def _compiled_keys(columns: tuple[tuple[str, str], ...], known: tuple[str, ...]) -> _compiled.ImageKeys:
    return _compiled.ImageKeys(dict(columns), partial(is_unread, known=known))


def read_images(images: Sequence[Any], keys: Keys, *, as_numpy: bool = False) -> ImageBatch:
    """Read the columns of one dict per image. `as_numpy`: whether to convert arrays in host memory to NumPy."""
    batch = read_alike(images, keys, as_numpy=as_numpy)
    return _with_masks(_read_any(images, keys) if batch is None else batch)


def read_alike(images: Sequence[Any], keys: Keys, *, as_numpy: bool) -> ImageBatch | None:
    """Read images with the same keys and dtypes (fast path), without masks; None for other images."""
    arrays = collect_arrays(images, keys)
    if arrays is None or "labels" not in images[0] or not is_array(images[0]["labels"]):
        return None
    framework = library(images[0]["labels"])
    read = arrays.columns() if as_numpy or framework in ("numpy", "torch") else None
    if read is not None and framework == "torch" and not as_numpy:
        import torch

        read = {name: torch.from_numpy(column) for name, column in read[0].items()}, read[1]
    if read is None and framework != "numpy":
        read = _concatenate_alike(arrays.arrays())
    if read is None:
        return None
    columns, num_rows = read
    used = {key: name for key, name in keys.columns.items() if key in keys.required or key in images[0]}
    wanted = _without_masks(used)
    if set(wanted.values()) != set(columns) or not _are_of_kind(columns):
        return None
    for name, column in columns.items():
        if not fits_row(column.shape[1:], row_shape_of(name, keys.box_size)):
            return None
    # boxes first: their device decides the device of all columns
    return ImageBatch({name: columns[name] for name in wanted.values()}, num_rows, used, images)


def _concatenate_alike(arrays: Mapping[str, Sequence[Any]]) -> tuple[dict[str, Array], list[int]] | None:
    """Concatenate the rows of all images on their device, and count them per image; None if types or shapes differ."""
    first = arrays["labels"][0]
    try:
        num_rows = [int(part.shape[0]) if getattr(part, "ndim", 0) == 1 else -1 for part in arrays["labels"]]
        for column in arrays.values():
            if {*map(type, column)} != {type(first)} or len({part.dtype for part in column}) > 1:
                return None
            row_shape = tuple(column[0].shape[1:])
            if [tuple(part.shape) for part in column] != [(num, *row_shape) for num in num_rows]:
                return None
        columns = {name: namespace(first).concat([*column], axis=0) for name, column in arrays.items()}
        for name, column in columns.items():
            check_is_dense(name, column)
    except (InputError, TypeError, ValueError, RuntimeError):  # `_read_any` reports the reason
        return None
    return columns, num_rows


def _are_of_kind(columns: Mapping[str, Array]) -> bool:
    """Whether labels are integers, and flags are booleans or integers."""
    flags = columns.get("ignore")
    are_flags = flags is None or is_kind(flags, "bool") or is_kind(flags, "integral")
    return are_flags and is_kind(columns["labels"], "integral")


def _read_any(images: Sequence[Any], keys: Keys) -> ImageBatch:
    """Read images one by one, with validation, without masks."""
    for index, image in enumerate(images):
        if not isinstance(image, Mapping):
            raise ImageError(index, f" must be a dict with {_listed(keys)}; got {_described(image, keys)}")
        if (rule := keys.broken_rule(image)) is not None:
            raise ImageError(index, f" {rule}")
    optional = {key: name for key, name in keys.optional.items() if any(key in image for image in images)}
    used = {**keys.required, **optional}
    wanted = _without_masks(used)
    parts = [_image_columns(index, image, wanted, keys) for index, image in enumerate(images)]
    columns = {name: _concatenate([part[name] for part in parts], name, keys.box_size) for name in wanted.values()}
    return ImageBatch(columns, [int(part["labels"].shape[0]) for part in parts], used, images)


def _without_masks(used: Mapping[str, str]) -> dict[str, str]:
    return {key: name for key, name in used.items() if name != "masks"}


def _with_masks(batch: ImageBatch) -> ImageBatch:
    """Add the masks of all images, if the keys have masks: arrays (N, H, W), or lists of COCO's run lengths."""
    key = next((key for key, name in batch.keys.items() if name == "masks"), None)
    if key is None:
        return batch
    parts = masks_of_images(batch.images, key, batch.num_rows)
    arrays = [part for part in parts if is_array(part)]
    if len(arrays) == len(parts):
        return batch._replace(masks=masks_of_stacks(arrays))
    each = [Masks.from_pixels(part) if is_array(part) else part for part in parts]
    return batch._replace(masks=Masks.concatenate(each))


def masks_of_images(images: Sequence[Mapping[str, Any]], key: str, num_rows: Sequence[int]) -> list[Any]:
    """The masks of each image: the given array (num, H, W), or `Masks` for a list."""
    parts = []
    for index, (image, num) in enumerate(zip(images, num_rows, strict=True)):
        if key not in image:
            raise ImageError(index, f" must have the key {key!r}; got {sorted(map(str, image))}")
        try:
            parts.append(_masks_of_image(image[key], num))
        except RowError as error:
            raise ImageError(index, f": `{key}` row {error.row} {error.rule}") from None
        except InputError as error:
            raise ImageError(index, f": {error}") from None
    return parts


def _masks_of_image(masks: Any, num: int) -> Any:
    """The array (num, H, W), not encoded yet, or `Masks` for a list. From (num, 1, H, W) the second axis is removed."""
    if is_array(masks):
        check_is_dense("masks", masks)
        shape = shape_of(masks)
        if num == 0 and 0 in shape:
            return np.zeros((0, *shape[1:]) if len(shape) == 3 else (0, 0, 0), bool)
        pixels = without_channel(masks)
        if len(shape_of(pixels)) != 3 or shape[0] != num:
            raise InputError(f"`masks` must have shape ({num}, H, W) for {num} labels; got {shape}")
        check_are_pixels(masks)
        return pixels
    column = Masks.of(masks)
    if len(column) != num:
        raise InputError(f"`masks` must have {num} masks for {num} labels; got {len(column)}")
    return column


def _image_columns(index: int, image: Mapping[str, Any], used: Mapping[str, str], keys: Keys) -> dict[str, Array]:
    """Read the columns of one image by name, with defaults for keys that only other images have."""
    missing = [key for key in used if key not in image]
    for key in missing:
        if key not in keys.defaults:
            rule = f"must have the key {key!r}, as other images do"
            raise ImageError(index, f" {rule}; got {sorted(map(str, image))}")
    try:
        given = {key: as_array(key, image[key]) for key in used if key in image}
        size = shape_of(given["labels"])
        if len(size) != 1:
            raise InputError(f"`labels` must have one dimension; got shape {size}")
        for key, column in given.items():
            row_shape = row_shape_of(used[key], keys.box_size)
            if size == (0,) and shape_of(column) == (0,):
                given[key] = namespace(column).reshape(column, (0, *(each or 0 for each in row_shape)))
            elif shape_of(column)[:1] != size or not fits_row(shape_of(column)[1:], row_shape):
                wanted = shape_text((*size, *row_shape))
                raise InputError(f"`{key}` must have shape {wanted} for {size[0]} labels; got {shape_of(column)}")
        columns: dict[str, Array] = {used[key]: np.full(size, keys.defaults[key]) for key in missing}
        columns |= {used[key]: column for key, column in given.items()}
        columns["labels"] = _as_labels(given["labels"])
        if "ignore" in used.values():
            columns["ignore"] = _any_flag({key: given[key] for key in FLAGS if key in given}, size)
    except InputError as error:
        raise ImageError(index, f": {error}") from None
    return columns


def _as_labels(labels: Array) -> Array:
    if labels.shape[0]:
        return as_ids("labels", labels)
    return namespace(labels).astype(labels, int_dtype(labels))  # an empty column may have any dtype


def _any_flag(flags: Mapping[str, Array], shape: tuple[int, ...], *, is_traced: bool = False) -> Array:
    """Whether any of the flags is set in each row; all False without flags."""
    columns = [as_flags(key, column, is_traced=is_traced) for key, column in flags.items()]
    if not columns:
        return np.zeros(shape, bool)
    framework = library(*columns)
    marked = next(column for column in columns if library(column) == framework)
    for column in columns:
        if column is not marked:
            marked = marked | convert(column, like=marked)
    return marked


def fits_row(row_shape: Sequence[int], wanted: Sequence[int | None]) -> bool:
    """Whether a row's shape is the expected one; None: any size."""
    pairs = zip(row_shape, wanted, strict=False)
    return len(row_shape) == len(wanted) and all(size in (given, None) for given, size in pairs)


def shape_text(shape: Sequence[int | None]) -> str:
    """A shape as text, with letters for arbitrary sizes.

    >>> shape_text((2, None, None)), shape_text((3,))
    ('(2, K, 2 or 3)', '(3,)')
    """
    names = iter(("K", "2 or 3"))
    sizes = [next(names) if size is None else str(size) for size in shape]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"


def _concatenate(parts: Sequence[Array], name: str, box_size: int) -> Array:
    """Concatenate parts. Lists are converted to the library of the other parts; empty parts don't affect the dtype."""
    if not parts:
        return np.zeros((0, *(size or 0 for size in row_shape_of(name, box_size))))
    full = [part for part in parts if part.shape[0]]
    for index, part in enumerate(parts):
        if part.shape[0] and shape_of(part)[1:] != shape_of(full[0])[1:]:
            wanted, got = (f"(N, {', '.join(map(str, shape_of(each)[1:]))})" for each in (full[0], part))
            raise ImageError(index, f": `{name}` must have shape {wanted}, as in images before; got {got}")
    framework = library(*(full or parts))
    home = next(part for part in full or parts if library(part) == framework)
    return namespace(home).concat([convert(part, like=home) for part in full or [home]], axis=0)


class PaddedBatch(NamedTuple):
    """The arrays of a padded batch, with validated shapes."""

    arrays: dict[str, Array]
    """Arrays by key. Shapes (N, D), and (N, D, 4) for boxes."""
    names: Mapping[str, str]
    """The column that each key becomes."""
    label: str = "labels"
    """The key of the labels."""
    box_size: int = 4
    """Number of numbers per box."""
    masks: Masks | None = None
    """The masks of all rows, N x D, instead of their pixels in `arrays`."""

    @classmethod
    def from_columns(cls, required: Mapping[str, Any], optional: Mapping[str, Any], box_size: int = 4) -> "PaddedBatch":
        """Make a batch of columns by name; optional ones may be None."""
        columns = {**required, **{name: column for name, column in optional.items() if column is not None}}
        arrays = {name: as_array(name, column) for name, column in columns.items()}
        return cls(arrays, {name: name for name in arrays}, "labels", box_size)._validated()

    @classmethod
    def from_dict(cls, argument: str, batch: Any, keys: Keys) -> "PaddedBatch":
        """Read a dict of padded arrays. `argument`: its name, for errors."""
        if not isinstance(batch, Mapping):
            raise InputError(f"`{argument}` must be a dict of padded arrays; got {type(batch).__name__}")
        given = keys.of_padded(batch, f"`{argument}`")

        def read() -> PaddedBatch:
            arrays = {key: as_array(key, value) for key, value in given.items() if key not in keys.others}
            return cls(arrays, keys.columns, box_size=keys.box_size)._validated()

        return in_argument(argument, read)

    def _validated(self) -> "PaddedBatch":
        key, label = self.label, self.arrays[self.label]
        shape = shape_of(label)
        if len(shape) != 2:
            raise InputError(f"`{key}` must have two dimensions, images and boxes; got shape {shape}")
        for other, column in self.arrays.items():
            if self.names[other] == "masks":
                if len(shape_of(column)) == 5 and shape_of(column)[2] == 1:  # as in Mask R-CNN
                    return self._replace(arrays={**self.arrays, other: column[:, :, 0]})._validated()
                if len(shape_of(column)) != 4 or shape_of(column)[:2] != shape:
                    wanted = f"({shape[0]}, {shape[1]}, H, W)"
                    raise InputError(f"`{other}` must have shape {wanted}, to go with `{key}`; got {shape_of(column)}")
                continue
            row_shape = row_shape_of(self.names[other], self.box_size)
            if shape_of(column)[:2] != shape or not fits_row(shape_of(column)[2:], row_shape):
                wanted = shape_text((*shape, *row_shape))
                raise InputError(f"`{other}` must have shape {wanted}, to go with `{key}`; got {shape_of(column)}")
        if not is_kind(label, "integral"):
            raise InputError(f"`{key}` must hold integers; got {label.dtype}")
        return self

    def _key_of(self, column: str) -> str:
        return next(key for key in self.arrays if column in (key, self.names[key]))

    def without(self, key: str) -> "PaddedBatch":
        """The batch without an array."""
        return self._replace(arrays={name: array for name, array in self.arrays.items() if name != key})

    def as_numpy(self) -> "PaddedBatch":
        """The batch with arrays of NumPy, if they are in host memory."""
        return self._replace(arrays=dict(to_host(self.arrays)))

    def without_arrays(self) -> "PaddedBatch":
        """The batch without its arrays, which it would keep in memory."""
        return self._replace(arrays={})

    @property
    def num_images(self) -> int:
        """Number of images, N."""
        return int(self.arrays[self.label].shape[0])

    def columns(self) -> dict[str, Array]:
        """The columns by name. Values of flags are not validated, as a compiler may trace them."""
        return self._named(self.arrays, is_traced=True)

    def _named(self, arrays: Mapping[str, Array], *, is_traced: bool = False) -> dict[str, Array]:
        columns = {self.names[key]: array for key, array in arrays.items()}
        for name in ("ignore", "discarded"):
            if name in columns:
                flags = {key: array for key, array in arrays.items() if self.names[key] == name}
                columns[name] = _any_flag(flags, shape_of(columns[name]), is_traced=is_traced)
        return columns

    def collect_arrays(self) -> _compiled.ArrayBatch | None:
        """The arrays for the compiled reader; None if several keys become one column."""
        if len({self.names[key] for key in self.arrays}) < len(self.arrays):
            return None
        return _compiled.ArrayBatch.of_padded({self.names[key]: array for key, array in self.arrays.items()})

    def take(self, images: Sequence[int]) -> "PaddedBatch":
        """Select some images of the batch by index."""
        rows = np.array(images, np.int64)
        arrays = {key: take_rows(array, rows) for key, array in self.arrays.items()}
        if self.masks is None:
            return self._replace(arrays=arrays)
        num_rows = shape_of(self.arrays[self.label])[1]
        return self._replace(
            arrays=arrays, masks=self.masks.take((rows[:, None] * num_rows + np.arange(num_rows)).reshape(-1))
        )

    def build(self, make: Callable[..., Made], image_ids: Any = None, **settings: Any) -> Made:
        """Call `make` with the columns, without padding (a label below 0) and discarded rows."""
        # Ids are grouped in host memory, so rows are selected there, too.
        arrays = dict(self.arrays)
        label = to_numpy(arrays.pop(self.label))
        is_kept = label.reshape(-1) >= 0
        flat = {
            key: namespace(array).reshape(array, (label.size, *shape_of(array)[2:])) for key, array in arrays.items()
        }
        if "discarded" in flat:
            is_kept &= ~as_flags("discarded", to_numpy(flat.pop("discarded")))
        rows = np.flatnonzero(is_kept)
        ids = np.arange(label.shape[0]) if image_ids is None else different_ids(image_ids, label.shape[0])
        try:
            stacks = [flat.pop(key) for key in [*flat] if self.names[key] == "masks"]
            columns = self._named({key: take_rows(array, rows) for key, array in flat.items()})
            for stack in stacks:  # at most one
                is_here = is_in_host_memory(stack)
                columns["masks"] = Masks.of(take_rows(stack, rows)) if is_here else Masks.of(stack).take(rows)
            if self.masks is not None:
                columns["masks"] = self.masks.take(rows)
            columns |= {"image_ids": np.repeat(ids, label.shape[1])[rows], "labels": label.reshape(-1)[rows]}
            return make(**_arguments(columns), **settings)
        except RowError as error:
            index = [int(each) for each in np.unravel_index(rows[error.row], label.shape)]
            raise InputError(f"`{self._key_of(error.column)}` row {index} {error.rule}") from None


def pad_rows(column: Array, num_rows: Sequence[int], length: int, fill: float) -> Array:
    """Pad the rows of each image to `length` with `fill`. Shape (R, …) to (N, length, …)."""
    xp = namespace(column)
    offset = np.cumsum([0, *num_rows])
    slot = np.arange(length)
    rows = np.where(slot < np.array(num_rows)[:, None], offset[:-1, None] + slot, offset[-1])  # else the padding
    padding = xp.broadcast_to(constant(fill, like=column, dtype=column.dtype), (1, *column.shape[1:]))
    taken = take_rows(xp.concat([column, padding], axis=0), rows.reshape(-1))
    return xp.reshape(taken, (*rows.shape, *column.shape[1:]))


def _listed(keys: Keys) -> str:
    *first, last = (f"`{key}`" for key in keys.required)
    return f"{', '.join(first)} and {last}"


def _described(value: Any, keys: Keys) -> str:
    """Describe a value that should be a dict, with advice if its columns can be guessed."""
    kind = type(value).__name__
    if not is_array(value):
        return kind
    shape = shape_of(value)
    if "scores" in keys.required and len(shape) == 2 and shape[1] == 6:
        columns = '{"boxes": rows[:, :4], "scores": rows[:, 4], "labels": rows[:, 5]}, with labels as integers'
        return f"{kind} of shape {shape}: if its rows have a box, a score and a label, pass {columns}"
    return f"{kind} of shape {shape}"
