"""NumPy's .npz: one array a column, and the lists of images and classes beside them."""

import io
import zipfile
import zlib
from dataclasses import replace
from typing import Any

import numpy as np

from boxscore.columns import Detections, Truths
from boxscore.errors import InputError
from boxscore.formats.files import BOMB_RATIO, BOMB_SIZE, Output, Source
from boxscore.formats.records import Named, Options, Records
from boxscore.formats.tables import Table, detection_records, truth_records
from boxscore.formats.writing import Host, Loss

LISTS = ("images", "image_names", "image_sizes", "classes", "class_names")
"""Arrays that are no columns: one entry an image or a class."""


_BROKEN = (zipfile.BadZipFile, zlib.error, ValueError, OSError, EOFError, LookupError, RuntimeError, TypeError)
_UNREADABLE = (*_BROKEN, MemoryError, SyntaxError, OverflowError)
"""What NumPy raises for files that are not whole; a header may also promise more than there is memory."""


def recognises(source: Source, role: str) -> bool:  # noqa: ARG001
    """Whether it is a file that ends in .npz."""
    return not source.is_folder and source.suffix == ".npz"


def _arrays(source: Source) -> dict[str, Any]:
    content = source.read()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(info.file_size for info in archive.infolist())
        if size > max(BOMB_SIZE, BOMB_RATIO * len(content)):
            raise InputError(f"{source}: would grow to {size:,} bytes, more than {BOMB_RATIO} times its size; refused")
        # Objects would be unpickled, which may run anything.
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name.lower(): arrays[name] for name in arrays.files}
    except InputError:
        raise
    except _UNREADABLE as error:
        raise InputError(f"{source}: not a whole .npz file of numbers and text: {error}") from None


def _table(source: Source) -> tuple[Table, dict[str, Any]]:
    arrays = _arrays(source)
    columns = {name: array for name, array in arrays.items() if name not in LISTS or name == "class_names"}
    names = arrays.get("class_names")
    if names is not None:
        columns.pop("class_names")
    if not columns:
        raise InputError(f"{source}: must have an array for each column; got none")
    lengths = {name: len(array) if array.ndim else -1 for name, array in columns.items()}
    first = next(iter(columns))
    for name, length in lengths.items():
        if length != lengths[first] or length < 0:
            raise InputError(f"{source}: `{name}` must have as many rows as `{first}`, {lengths[first]}; got {length}")
    return (
        Table(source=str(source), columns=columns, num_rows=lengths[first], place=lambda row: f"{source}: row {row}"),
        {name: arrays[name] for name in LISTS if name in arrays},
    )


def read_truths(source: Source, options: Options) -> Records:
    """The arrays of the file as truths."""
    table, lists = _table(source)
    return _with_lists(truth_records(table, options), lists)


def read_detections(source: Source, options: Options) -> Records:
    """The arrays of the file as detections."""
    table, lists = _table(source)
    return _with_lists(detection_records(table, options), {name: lists[name] for name in lists if "class" in name})


def _with_lists(records: Records, lists: dict[str, Any]) -> Records:
    more: dict[str, Any] = {}
    for name, array in lists.items():
        if array.ndim != (2 if name == "image_sizes" else 1):
            raise InputError(
                f"{records.source}: `{name}` must be a list, one entry an image or class; got {array.shape}"
            )
    for pair in (("images", "image_names"), ("images", "image_sizes"), ("classes", "class_names")):
        if all(name in lists for name in pair) and len(lists[pair[0]]) != len(lists[pair[1]]):
            raise InputError(f"{records.source}: `{pair[1]}` must have as many entries as `{pair[0]}`")
    if "classes" in lists and "class_names" in lists:
        more["class_names"] = dict(zip(lists["classes"].tolist(), map(str, lists["class_names"].tolist()), strict=True))
    elif "class_names" in lists:
        more["class_names"] = dict(enumerate(map(str, lists["class_names"].tolist())))
    images = lists.get("images")
    if images is not None and not isinstance(records.image, Named):
        ids = images.tolist()
        names = lists.get("image_names")
        more["image_names"] = dict(zip(ids, map(str, ids if names is None else names.tolist()), strict=True))
        if "image_sizes" in lists:
            sizes = lists["image_sizes"]
            if sizes.shape != (len(ids), 2):
                raise InputError(f"{records.source}: `image_sizes` must have shape ({len(ids)}, 2); got {sizes.shape}")
            pairs = zip(ids, sizes.tolist(), strict=True)
            more["image_sizes"] = {image: (int(w), int(h)) for image, (w, h) in pairs if w > 0 and h > 0}
    return replace(records, **more)


def write_truths(truths: Truths) -> tuple[Output, list[Loss]]:
    """Every column, image and class, bit by bit."""
    host = Host.of(truths)
    arrays = _columns(host)
    if host.ignore is not None:
        arrays["ignore"] = host.ignore
    if host.truncated is not None:
        arrays["truncated"] = host.truncated
    if host.area is not None:
        arrays["area"] = host.area
    if host.image_names:
        arrays["images"] = np.array(host.images, np.int64)
        arrays["image_names"] = np.array([host.image_names[image] for image in host.images], str)
        arrays["image_sizes"] = np.array([host.sizes.get(image, (0, 0)) for image in host.images], np.int64)
    return {"": _saved(arrays)}, []


def write_detections(detections: Detections, truths: Truths) -> tuple[Output, list[Loss]]:
    """Every column, bit by bit."""
    host = Host.of(detections, truths)
    return {"": _saved(_columns(host) | {"score": host.scores})}, []


def _columns(host: Host) -> dict[str, Any]:
    arrays: dict[str, Any] = {"image": host.image, "label": host.label, **host.box_columns()}
    if host.class_names is not None:
        arrays["classes"] = np.array(list(host.class_names), np.int64)
        arrays["class_names"] = np.array(list(host.class_names.values()), str)
    return arrays


def _saved(arrays: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()
