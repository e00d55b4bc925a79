"""Read width and height of images from a list, or with Pillow from the headers of files; no image is decoded."""

import csv
import errno
import io
import os
import stat
import warnings
from collections.abc import Mapping
from os import PathLike
from typing import IO, Any

from boxscore._support.exceptions import InputError
from boxscore._support.image_file_names import IMAGE_SUFFIXES
from boxscore.formats.files import READ_ONLY, Source, open_source

_FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF")
"""Pillow's names of the formats whose headers are read."""

ORIENTATION = 0x0112
"""The EXIF tag of the orientation."""

TURNED = (5, 6, 7, 8)
"""EXIF orientations that swap width and height."""


def pillow(purpose: str) -> Any:
    """Import `PIL.Image` with all of its formats; raise `InputError` with the `purpose` if Pillow is not installed."""
    try:
        from PIL import Image
    except ImportError:
        raise InputError(f"{purpose} need Pillow, to read images: pip install 'boxscore[pictures]'") from None
    Image.init()
    return Image


def open_header(file: IO[bytes], location: str, formats: tuple[str, ...] = _FORMATS) -> Any:
    """Open an image without decoding its pixels; raise `InputError` for other files.

    `Image.open` would refuse images of more pixels than Pillow decodes, even if only their size is read.
    """
    readers = pillow(f"{location}: sizes and masks").OPEN
    prefix = file.read(16)
    for name in formats:
        factory, is_accepted = readers[name]
        if is_accepted(prefix) is not True:
            continue
        file.seek(0)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about header entries that are not read here
                return factory(file, location)
        except Exception as error:  # damaged headers raise errors of many types
            reason = " ".join(str(error).split())
            raise InputError(f"{location}: not a whole {name} image: {reason or type(error).__name__}") from None
    wanted = " or ".join((", ".join(formats[:-1]), formats[-1])) if formats[1:] else formats[0]
    raise InputError(f"{location}: must be a {wanted} image; got another file")


def size_in(path: str) -> tuple[int, int]:
    """Read the width and height of an image file, as it is displayed."""
    try:
        with open_regular(path) as file:
            return size_of(file, path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path!r}: not a valid file name: {error}") from None


def size_of(file: IO[bytes], location: str) -> tuple[int, int]:
    """Read the width and height of an image, as it is displayed: the sides of a turned JPEG are swapped."""
    image = open_header(file, location)
    width, height = image.size
    if min(width, height) < 1:
        raise InputError(f"{location}: must be an image with pixels; got {width} x {height}")
    return (height, width) if image.format in ("JPEG", "MPO") and is_turned(image) else (width, height)


def is_turned(image: Any) -> bool:
    """Whether the EXIF orientation of a Pillow image swaps width and height."""
    try:
        return image.getexif().get(ORIENTATION) in TURNED
    except Exception:  # damaged EXIF raises errors of many types
        return False


def open_regular(path: str | PathLike[str]) -> IO[bytes]:
    """Open a file for reading; raise `OSError` for a folder, or for a pipe, on which reading would block."""
    descriptor = os.open(path, READ_ONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, "is not a regular file")


def sizes_in(source: Source, files: list[str]) -> dict[str, tuple[int, int]]:
    """Read the sizes of images in a folder or zip, by name."""
    if source.path.is_dir():
        root = f"{source.path}{os.sep}"
        return {file: size_in(root + file) for file in files}
    return {file: size_of(io.BytesIO(source.read(file)), source.location(file)) for file in files}


def _python_id(key: Any) -> Any:
    """Convert an id of any integer type to `int`; names stay."""
    return int(key) if hasattr(key, "__index__") else key


def read_sizes(given: Any) -> dict[Any, tuple[int, int]] | None:
    """Read sizes by id or name from a mapping, a list `name,width,height`, a folder of images or CrowdHuman's .odgt."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {_python_id(key): _pair(size, f"`sizes`: {key!r}") for key, size in given.items()}
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
    """Parse sizes by name from the text of a list `name,width,height`, with or without that header."""
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
