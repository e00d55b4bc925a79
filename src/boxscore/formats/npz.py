"""NumPy's .npz: one array per column, and lists of images and classes."""

import io
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore._support.text import line
from boxscore.data.dataset import Detections, Truths
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.kinds import GEOMETRIES
from boxscore.data.geometry.masks import Masks
from boxscore.formats.archives import Archive
from boxscore.formats.files import Output, Source
from boxscore.formats.polygon_writers import outlines_lost
from boxscore.formats.records import Ids, Key, Named, Options, Records
from boxscore.formats.table_masks import ARRAYS, arrays_of, masks_of_arrays
from boxscore.formats.tables import Table, column_names, detection_records, kinds_in, merge_names, truth_records
from boxscore.formats.writers import Host, Loss

LISTS = ("images", "image_names", "image_sizes", "classes", "class_names")
"""Arrays that are not columns but have one entry per image or class."""


def recognises(source: Source, role: str) -> bool:  # noqa: ARG001
    """Whether the source is a file that ends in .npz."""
    return not source.is_folder and source.suffix == ".npz"


def kinds_of(source: Source, role: str) -> list[type[Geometry]]:  # noqa: ARG001
    """The geometries that the file has arrays of, except upright boxes."""
    archive = Archive.of_bytes(source.read(), str(source), "a whole .npz file")
    names = {member.removesuffix(".npy").lower() for member in archive.members}
    return kinds_in(names | {"mask"} if names & {*ARRAYS} else names)


def _arrays(source: Source, options: Options) -> dict[str, Any]:
    """Read the arrays by name in lower case; a name that occurs twice is an error.

    Shapes other than boxes are read only if the options ask for them.
    """
    archive = Archive.of_bytes(source.read(), str(source), "a whole .npz file")
    arrays: dict[str, Any] = {}
    others = {name for kind in GEOMETRIES if not options.reads(kind) for name in column_names(kind)}
    others |= set() if options.reads(Masks) else {*ARRAYS}
    for member in archive.members:
        name = member.removesuffix(".npy").lower()
        if name in others:
            continue
        if name in arrays:
            raise InputError(f"{source}: arrays must have different names, in any case; got {name!r} more than once")
        arrays[name] = _array(archive.read(member), archive.location_of(member))
    return arrays


def _array(content: bytes, location: str) -> NDArray[Any]:
    """Parse the bytes of an .npy file. Arrays of objects are refused: unpickling may run any code."""
    file = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, is_fortran, dtype = read(file)
    except Exception as error:  # a header is a Python literal: parsing it raises errors of many types
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{location}: not an array of NumPy: {reason}") from None
    if dtype.kind not in "biufU" or any(size < 0 for size in shape):
        raise InputError(f"{location}: must be an array of numbers, flags or text; got {dtype} of shape {shape}")
    num = math.prod(shape)
    size = len(content) - file.tell()
    # Values of 0 bytes would allow any number of rows in a small file.
    if num * dtype.itemsize != size or (num == 0) != (shape[:1] == (0,)) or (num and not dtype.itemsize):
        raise InputError(
            f"{location}: must have the bytes of {shape} values of {dtype}, as its header says; got {size:,}"
        )
    flat = np.frombuffer(content, "u1" if dtype.kind == "b" else dtype, num, file.tell())
    if dtype.kind == "b":
        flat = flat != 0
    if dtype.kind == "U" and num and flat.view(dtype.byteorder.replace("=", "<") + "u4").max() > 0x10FFFF:
        raise InputError(f"{location}: must be Unicode text; got an invalid code point")
    return np.array(flat.reshape(shape, order="F" if is_fortran else "C"), dtype.newbyteorder("="), order="C")


def _table(source: Source, options: Options) -> tuple[Table, dict[str, Any]]:
    arrays = _arrays(source, options)
    columns: dict[str, Any] = {name: array for name, array in arrays.items() if name not in (*LISTS, *ARRAYS)}
    if not columns:
        raise InputError(f"{source}: must have an array for each column; got none")
    first = next(iter(columns))
    num_rows = len(columns[first]) if columns[first].ndim else -1
    for name, array in columns.items():
        if not array.ndim or len(array) != num_rows:
            got = len(array) if array.ndim else "one value"
            raise InputError(
                f"{source}: `{line(name)}` must have as many rows as `{line(first)}`, {num_rows}; got {got}"
            )
    if (masks := masks_of_arrays(arrays, str(source))) is not None:
        if len(masks) != num_rows:
            raise InputError(f"{source}: masks must have as many rows as `{line(first)}`, {num_rows}; got {len(masks)}")
        columns["mask"] = masks
    return (
        Table(source=str(source), columns=columns, num_rows=num_rows, location=lambda row: f"{source}: row {row}"),
        {name: arrays[name] for name in LISTS if name in arrays},
    )


def read_truths(source: Source, options: Options) -> Records:
    """Read the arrays of the file as truths."""
    table, lists = _table(source, options)
    return _with_lists(truth_records(table, options), lists)


def read_detections(source: Source, options: Options) -> Records:
    """Read the arrays of the file as detections."""
    table, lists = _table(source, options)
    return _with_lists(detection_records(table, options), {name: lists[name] for name in lists if "class" in name})


def _with_lists(records: Records, lists: dict[str, Any]) -> Records:
    """Add the images and classes that the file lists to the records."""
    more: dict[str, Any] = {}
    for name, array in lists.items():
        if array.ndim != (2 if name == "image_sizes" else 1):
            raise InputError(
                f"{records.source}: `{name}` must be a list, one entry per image or class; got {array.shape}"
            )
    for pair in (("images", "image_names"), ("images", "image_sizes"), ("classes", "class_names")):
        if all(name in lists for name in pair) and len(lists[pair[0]]) != len(lists[pair[1]]):
            raise InputError(f"{records.source}: `{pair[1]}` must have as many entries as `{pair[0]}`")
    table = Table(
        source=records.source, columns=lists, num_rows=0, location=lambda row: f"{records.source}: entry {row}"
    )
    if "class_names" in lists:
        classes = table.keys("classes") if "classes" in lists else np.arange(len(lists["class_names"]))
        if isinstance(classes, Named):
            raise InputError(f"{records.source}: `classes` must be integers; got text")
        more["class_names"] = _names_of(records, "class", classes, lists["class_names"], records.class_names)
    if "images" in lists:
        more |= _images(lists, table.keys("images"), records)
    return replace(records, **more)


def _names_of(
    records: Records, kind: str, ids: Ids, listed: NDArray[Any], known: Mapping[int, str] | None
) -> dict[int, str]:
    """Listed names by id; a row with another name is an error."""
    names: dict[int, str] = {}
    for number, name in zip(ids.tolist(), map(str, listed.tolist()), strict=True):
        merge_names(names, {number: name}, kind, records.source)
    merge_names(dict(names), known or {}, kind, records.source)
    return names


def _images(lists: Mapping[str, NDArray[Any]], images: Key, records: Records) -> dict[str, Any]:
    """Fields of `Records` for all listed images, with or without rows: names and sizes."""
    if len(records) and isinstance(images, Named) != isinstance(records.image, Named):
        wanted = "names" if isinstance(records.image, Named) else "integers"
        raise InputError(f"{records.source}: `images` must be {wanted}, as in the column with the image; got others")
    more: dict[str, Any] = {}
    if isinstance(images, Named):
        more["image"] = Named.of(records.image.tolist(), also=images.tolist())
    else:
        more["image_names"] = _names_of(records, "image", images, lists.get("image_names", images), records.image_names)
    if "image_sizes" in lists:
        more["image_sizes"] = _sizes_of(lists["image_sizes"], images.tolist(), records.source)
    return more


def _sizes_of(sizes: NDArray[Any], images: list[Any], source: str) -> dict[Any, tuple[int, int]]:
    """Known sizes by image."""
    if sizes.shape != (len(images), 2) or sizes.dtype.kind not in "iuf":
        rule = f"`image_sizes` must be numbers of shape ({len(images)}, 2)"
        raise InputError(f"{source}: {rule}; got {sizes.dtype} of shape {sizes.shape}")
    is_valid = ((sizes >= 0) & (sizes < 1e9)).all(axis=1)
    if not is_valid.all():
        row = int(np.argmin(is_valid))
        raise InputError(
            f"{source}: entry {row} of `image_sizes` must be a width and a height in pixels, or 0 where they are not"
            f" known; got {sizes[row].tolist()}"
        )
    pairs = zip(images, sizes.tolist(), strict=True)
    return {image: (int(w), int(h)) for image, (w, h) in pairs if w >= 1 and h >= 1}


def write_truths(truths: Truths) -> tuple[Output, list[Loss]]:
    """Write every column, image and class, exactly."""
    host = Host.of(truths)
    arrays = _columns(host) | host.facts()
    if host.image_names:
        arrays["images"] = np.array(host.images, np.int64)
        arrays["image_names"] = np.array([host.image_names[image] for image in host.images], str)
        arrays["image_sizes"] = np.array([host.sizes.get(image, (0, 0)) for image in host.images], np.int64)
    losses = [] if host.mask is None else [outlines_lost(host.mask)]
    return {"": _saved(arrays)}, [*host.shapes_lost_in_tables(), *host.lost("crowd index"), *losses]


def write_detections(detections: Detections, truths: Truths) -> tuple[Output, list[Loss]]:
    """Write every column, exactly."""
    host = Host.of(detections, truths)
    losses = [] if host.mask is None else [outlines_lost(host.mask)]
    saved = _saved(_columns(host) | {"score": host.scores} | host.own_areas())
    return {"": saved}, [*host.shapes_lost_in_tables(), *losses]


def _columns(host: Host) -> dict[str, Any]:
    arrays: dict[str, Any] = {"image": host.image, "label": host.label, **host.box_columns()}
    if host.class_names is not None:
        arrays["classes"] = np.array(list(host.class_names), np.int64)
        arrays["class_names"] = np.array(list(host.class_names.values()), str)
    return arrays | host.shape_columns() | arrays_of(host.mask)


def _saved(arrays: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()
