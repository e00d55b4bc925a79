"""Width and height of images, from the headers of their files or from a list. No image is decoded."""

import csv
import io
import os
import struct
from collections.abc import Mapping
from os import PathLike
from typing import Any

from boxscore._support.exceptions import InputError
from boxscore._support.image_file_names import IMAGE_SUFFIXES
from boxscore.formats.files import READ_ONLY, Source, open_source

HEAD = 1 << 15
"""Bytes that are read first; a JPEG with a thumbnail in its header may need more."""

_ROTATED = (5, 6, 7, 8)
"""EXIF orientations with width and height swapped; labels are for the image as it is displayed."""


def size_of(head: bytes) -> tuple[int, int] | None:
    r"""Width and height from the header of a PNG, JPEG, GIF, BMP or WebP file, as displayed; None for others.

    >>> size_of(b"GIF89a\x40\x01\xf0\x00")
    (320, 240)
    """
    try:
        return _size_of(head)
    except (struct.error, IndexError):
        return None


def _size_of(head: bytes) -> tuple[int, int] | None:
    if head[:2] == b"\xff\xd8":
        return _jpeg(head)
    if head[:8] == b"\x89PNG\r\n\x1a\n" and head[12:16] == b"IHDR":
        return struct.unpack(">II", head[16:24])
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return struct.unpack("<HH", head[6:10])
    if head[:2] == b"BM":
        if struct.unpack("<I", head[14:18])[0] == 12:
            return struct.unpack("<HH", head[18:22])
        width, height = struct.unpack("<ii", head[18:26])
        return abs(width), abs(height)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp(head)
    return None


def _webp(head: bytes) -> tuple[int, int] | None:
    kind = head[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    if kind == b"VP8 " and head[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", head[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L" and head[20] == 0x2F:
        bits = struct.unpack("<I", head[21:25])[0]
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return None


def _jpeg(head: bytes) -> tuple[int, int] | None:
    """The size in the first frame header; the segments before it are skipped."""
    offset, is_rotated = 2, False
    while offset + 9 <= len(head):
        if head[offset] != 0xFF:
            return None
        marker = head[offset + 1]
        if marker == 0xFF:
            offset += 1
            continue
        if 0xD0 <= marker <= 0xD8 or marker == 0x01:
            offset += 2
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[offset + 5 : offset + 9])
            return (height, width) if is_rotated else (width, height)
        length = struct.unpack(">H", head[offset + 2 : offset + 4])[0]
        if marker == 0xE1 and head[offset + 4 : offset + 10] == b"Exif\0\0":
            is_rotated = _orientation(head[offset + 10 : offset + 2 + length]) in _ROTATED
        offset += 2 + length
    return None


def _orientation(exif: bytes) -> int:
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None or len(exif) < 10:
        return 1
    start = struct.unpack(f"{order}I", exif[4:8])[0]
    if start + 2 > len(exif):
        return 1
    for entry in range(struct.unpack(f"{order}H", exif[start : start + 2])[0]):
        field = exif[start + 2 + 12 * entry : start + 14 + 12 * entry]
        if len(field) == 12 and struct.unpack(f"{order}H", field[:2])[0] == 0x0112:
            return int(struct.unpack(f"{order}H", field[8:10])[0])
    return 1


def size_in(path: str) -> tuple[int, int]:
    """Width and height of an image file."""
    try:
        handle = os.open(path, READ_ONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe would block
        try:
            head = os.read(handle, HEAD)
            size = size_of(head)
            if size is None and head[:2] == b"\xff\xd8":
                size = size_of(head + os.read(handle, 1 << 24))
        finally:
            os.close(handle)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path!r}: not a valid file name: {error}") from None
    return checked(size, path)


def checked(size: tuple[int, int] | None, location: str) -> tuple[int, int]:
    """The size; an error if there is none."""
    if size is None or min(size) < 1:
        raise InputError(f"{location}: must be a PNG, JPEG, GIF, BMP or WebP image, to read its size; got another file")
    return int(size[0]), int(size[1])


def sizes_in(source: Source, files: list[str]) -> dict[str, tuple[int, int]]:
    """The sizes of images in a folder or zip, by name."""
    if source.path.is_dir():
        root = f"{source.path}{os.sep}"
        return {file: size_in(root + file) for file in files}
    return {file: checked(size_of(source.read(file)), source.location(file)) for file in files}


def _as_plain_id(key: Any) -> Any:
    """An id of any integer type as Python's; names stay."""
    return int(key) if hasattr(key, "__index__") else key


def read_sizes(given: Any) -> dict[Any, tuple[int, int]] | None:
    """Sizes by id or name, from a mapping, a list `name,width,height`, a folder of images, or CrowdHuman's .odgt."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {_as_plain_id(key): _pair(size, f"`sizes`: {key!r}") for key, size in given.items()}
    if not isinstance(given, str | PathLike):
        raise InputError(f"`sizes` must be a mapping or a path; got {type(given).__name__}")
    source = open_source(given)
    if source.is_folder:
        files = source.files(*IMAGE_SUFFIXES)
        if not files:
            raise InputError(f"{source}: the folder has no images")
        return dict(sizes_in(source, files))
    from boxscore.formats import odgt

    if odgt.recognises(source, "truths") or odgt.recognises(source, "detections"):
        return odgt.image_sizes_of(source)
    return list_of_sizes(source.text(), str(source))


def list_of_sizes(text: str, source: str) -> dict[Any, tuple[int, int]]:
    """Sizes by name, from the text of a list `name,width,height`, with or without that header."""
    delimiter = "\t" if "\t" in text and "," not in text else ","
    sizes: dict[Any, tuple[int, int]] = {}
    reader = csv.reader(io.StringIO(text), delimiter=delimiter)
    try:
        for row in reader:
            line = reader.line_num
            if not row or (line == 1 and len(row) == 3 and not row[1].strip().isdigit()):
                continue
            if len(row) != 3:
                got = delimiter.join(row)
                raise InputError(f"{source}: line {line} must have name, width and height; got {got[:80]!r}")
            sizes[row[0].strip()] = _pair([cell.strip() for cell in row[1:]], f"{source}: line {line}")
    except csv.Error as error:
        raise InputError(f"{source}: line {reader.line_num}: not a list of sizes: {error}") from None
    return sizes


def _pair(size: Any, location: str) -> tuple[int, int]:
    try:
        width, height = (int(side) for side in size)
    except (TypeError, ValueError, OverflowError):
        width = height = 0
    if not (0 < width < 10**9 and 0 < height < 10**9):
        raise InputError(f"{location} must have a width and a height, positive integers; got {size!r}")
    return width, height
