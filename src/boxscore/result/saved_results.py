"""A result as a file: the tally that all of its numbers come from, and what a reader wants to know before loading it.

    magic       "boxscore result 1" and a line feed; 1 is the version
    lengths     bytes of the header; bytes of the tally (two uint64)
    header      JSON: name, step, time, numbers, what `inputs` knew of the images
    checksum    CRC-32 of the header (uint32)
    tally       as in `storage`, with a checksum of its own

All numbers are little-endian. The numbers in the header are a note for whoever opens the file: `boxscore.load_result`
computes them from the tally.
"""

import json
import math
import struct
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import IO, Any

import boxscore
from boxscore._support.exceptions import InputError
from boxscore._support.writing import write_file
from boxscore.data.validation import is_number
from boxscore.result import storage
from boxscore.result.result import Result, Stored
from boxscore.result.summary import plain
from boxscore.result.tally import Tally

MAGIC = b"boxscore result 1\n"
"""The first bytes of a saved result."""
_LENGTHS = struct.Struct("<QQ")
_CHECKSUM = struct.Struct("<I")
_MAX_HEADER = 1 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """What a saved result says of itself."""

    name: str | None
    """The name of the model or run, if it was given."""
    step: int | None
    """The epoch or step, if it was given."""
    time: datetime
    """When it was saved."""
    version: str
    """The version of boxscore that computed the numbers."""
    numbers: dict[str, float]
    """The numbers by name; NaN: undefined."""
    title: str
    """The title of the protocol."""
    comparable: str
    """Whether the numbers may be compared with published ones, in words."""
    num_given: int | None
    stored: Stored | None


def save_result(result: Result, path: str | PathLike[str], *, name: str | None = None, step: int | None = None) -> None:
    """Write the result; missing folders are created. After an error, the path has what it had before."""
    if name is not None and not isinstance(name, str):
        raise InputError(f"`name` must be text; got {type(name).__name__}")
    if step is not None and (isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < 2**63):
        raise InputError(f"`step` must be a non-negative integer; got {step!r}")
    tally, target = storage.to_bytes(result.tally), Path(path)
    header = _encoded(result, name, step)
    lengths = _LENGTHS.pack(len(header), len(tally))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{target}: can't be written: {error.strerror}") from None
    write_file(target, [MAGIC, lengths, header, _CHECKSUM.pack(zlib.crc32(header)), tally])


def _encoded(result: Result, name: str | None, step: int | None) -> bytes:
    names = result.image_names
    return json.dumps(
        {
            "version": boxscore.__version__,
            "name": name,
            "step": step,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "numbers": {number: plain(value) for number, value in result.items()},
            "title": result.protocol.title,
            "comparable": str(result.comparable),
            "num_given": result.num_given,
            "subset": list(result.subset),
            "image_names": None if names is None else [[int(image), file] for image, file in names.items()],
        }
    ).encode()


def read_saved(path: str | PathLike[str], *, max_header: int = _MAX_HEADER) -> tuple[Tally, Header | None]:
    """Read the tally and the header of a file that `Result.save` made; a file of `Tally.save` has no header.

    Args:
        path: The file. Any other file, and a truncated or damaged one, is an `InputError`.
        max_header: A header of more bytes is an `InputError`; JSON takes ten times as much memory.
    """
    with _opened(path) as file:
        if file.read(len(storage.MAGIC)) == storage.MAGIC:
            return storage.load(path), None
        file.seek(0)
        header, size = _read_header(file, str(path), max_header)
        return storage.from_bytes(file.read(size), str(path)), header


def _opened(path: str | PathLike[str]) -> IO[bytes]:
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror}") from None


def _read_header(file: IO[bytes], source: str, max_header: int) -> tuple[Header, int]:
    """The header, and the length of the tally; the file stands at the tally."""
    num_bytes = file.seek(0, 2)
    file.seek(0)
    start = file.read(len(MAGIC) + _LENGTHS.size)
    if start[: len(MAGIC)] != MAGIC:
        raise InputError(f"{source}: not a saved result of boxscore, or one of another version")
    if len(start) < len(MAGIC) + _LENGTHS.size:
        raise InputError(f"{source}: the saved result is truncated: got {num_bytes:,} bytes")
    header_size, tally_size = _LENGTHS.unpack(start[len(MAGIC) :])
    expected = len(start) + header_size + _CHECKSUM.size + tally_size
    if num_bytes < expected:
        raise InputError(f"{source}: the saved result is truncated: got {num_bytes:,} of {expected:,} bytes")
    if num_bytes > expected:
        raise InputError(f"{source}: {num_bytes - expected:,} bytes after the end of the saved result")
    if header_size > max_header:
        raise InputError(f"{source}: the header has {header_size:,} bytes; at most {max_header:,} are read")
    content = file.read(header_size)
    if zlib.crc32(content) != _CHECKSUM.unpack(file.read(_CHECKSUM.size))[0]:
        raise InputError(f"{source}: the checksum of the saved result does not match: its bytes have changed")
    try:
        return _decoded(json.loads(content)), tally_size
    except storage.UNREADABLE as error:
        raise InputError(f"{source}: the saved result is invalid: {error}") from None


def _decoded(header: Any) -> Header:
    """The header of JSON; one of `storage.UNREADABLE` if it is not one."""
    names, numbers, subset = header["image_names"], header["numbers"], header["subset"]
    for key in ("version", "title", "comparable", *(["name"] if header["name"] is not None else [])):
        if not isinstance(header[key], str):
            raise ValueError(f"`{key}` must be text")
    for key in ("step", "num_given"):
        value = header[key]
        if value is not None and (type(value) is not int or not 0 <= value < 2**63):
            raise ValueError(f"`{key}` must be a non-negative integer")
    if not all(value is None or is_number(value) for value in numbers.values()):
        raise ValueError("`numbers` must be finite")
    if not isinstance(subset, list) or not all(isinstance(each, str) for each in subset):
        raise ValueError("`subset` must be a list of texts")
    for image, file in names or ():
        if type(image) is not int or not -(2**63) <= image < 2**63 or not isinstance(file, str):
            raise ValueError("`image_names` must be pairs of an id and a name")
    return Header(
        name=header["name"],
        step=header["step"],
        time=datetime.fromisoformat(header["time"]).astimezone(UTC),
        version=header["version"],
        numbers={name: math.nan if value is None else float(value) for name, value in numbers.items()},
        title=header["title"],
        comparable=header["comparable"],
        num_given=header["num_given"],
        stored=Stored(image_names=None if names is None else dict(names), subset=tuple(subset)),
    )
