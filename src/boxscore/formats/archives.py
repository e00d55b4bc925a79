"""Content of .gz and .zip files: read into memory, never extracted to disk, and limited in size (no zip bombs).

Members of a zip are read, not memory-mapped: truncating a mapped file would crash the process.
"""

import gzip
import io
import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from boxscore._support.exceptions import InputError

BOMB_SIZE = 1 << 28
"""Up to this many bytes, the uncompressed content may be any multiple of the compressed size."""
BOMB_RATIO = 200
"""Beyond that size, at most this multiple. Annotations as text compress by a factor of 5 to 20."""

_LOCAL_HEADER = struct.Struct("<4s2xH18xHH")
"""Of a member: signature, flags, length of the name, length of the extra field."""
_STORED, _DEFLATED = 0, 8
_SLACK = 64
"""Extra bytes that are read with a member: its local header may be longer than its entry in the directory."""


def most_bytes(packed_size: int) -> int:
    """The largest allowed size of the content of a compressed file."""
    return max(BOMB_SIZE, BOMB_RATIO * packed_size)


def refuse_bomb(location: str, size: int, packed_size: int) -> None:
    """Raise `InputError` if a file of `packed_size` bytes has content of `size` bytes, more than is allowed."""
    if size > most_bytes(packed_size):
        raise InputError(
            f"{location}: would grow from {packed_size:,} to {size:,} bytes or more; beyond {BOMB_SIZE >> 20} MiB no"
            f" more than {BOMB_RATIO} times the file's size is read: store it less compressed, or in several files"
        )


def gunzip(content: bytes, location: str) -> bytes:
    """The uncompressed bytes of a .gz."""
    limit = most_bytes(len(content))
    parts, size = [], 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            while part := file.read(1 << 22):
                size += len(part)
                if size > limit:
                    refuse_bomb(location, size, len(content))
                parts.append(part)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{location}: not a whole gzip file: {error}") from None
    return b"".join(parts)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Archive:
    """A zip: its members by name, each read on demand."""

    file: Any
    """The open `zipfile.ZipFile`."""
    members: dict[str, Any]
    """The directory entries of all files that are not hidden, in order; no folders."""
    location: str
    size: int
    """Bytes of the zip itself."""
    fetch: Callable[[int, int], bytes] | None
    """Reads `size` bytes of the zip from an offset on; None where the system has no such call."""

    @classmethod
    def at(cls, path: str | Path) -> "Archive":
        """The zip at a path; one with too large content, or with two files of one name, is refused."""
        try:
            size = os.stat(path).st_size  # noqa: PTH116 (whatever kind of path it is)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        return cls._of(path, str(path), size)

    @classmethod
    def of_bytes(cls, content: bytes, location: str, what: str) -> "Archive":
        """The same for a zip in memory; `what`: what the file should be, for errors."""

        def fetch(size: int, start: int) -> bytes:
            return content[start : start + size]

        return cls._of(io.BytesIO(content), location, len(content), fetch, what)

    @classmethod
    def _of(
        cls,
        source: Any,
        location: str,
        size: int,
        fetch: Callable[[int, int], bytes] | None = None,
        what: str = "a zip file",
    ) -> "Archive":
        import zipfile

        try:
            file = zipfile.ZipFile(source)
            infos = file.infolist()
        except OSError as error:
            raise InputError(f"{location}: {error.strerror or f'not {what}: {error}'}") from None
        except Exception as error:  # a damaged directory raises all kinds of errors there
            raise InputError(f"{location}: not {what}: {_reason(error)}") from None
        members: dict[str, Any] = {}
        for info in infos:
            if not info.filename:
                raise InputError(f"{location}: must not have a file without a name")
            if not _is_member(info):
                continue
            if info.filename in members:
                raise InputError(f"{location}: must not have two files of one name; got {info.filename!r} twice")
            members[info.filename] = info
        refuse_bomb(location, sum(info.file_size for info in members.values()), size)
        if fetch is None and hasattr(os, "pread"):
            fetch = partial(os.pread, file.fp.fileno())  # type: ignore[union-attr]
        return cls(file=file, members=members, location=location, size=size, fetch=fetch)

    def location_of(self, name: str) -> str:
        """How errors name a member: on one line, whatever characters are in its name."""
        shown = name if name.isprintable() else name.encode("unicode_escape").decode()
        return f"{self.location}:{shown}"

    def read(self, name: str) -> bytes:
        """The bytes of a member."""
        content = self._read_plain(name)
        return self._read_any(name) if content is None else content

    def _read_plain(self, name: str) -> bytes | None:
        """Fast path for stored and deflated members, five times as fast as `zipfile`; else None."""
        info = self.members.get(name)
        if info is None or self.fetch is None or info.compress_type not in (_STORED, _DEFLATED):
            return None
        if info.compress_size > self.size:
            return None
        try:
            size = _LOCAL_HEADER.size + len(info.orig_filename) + len(info.extra) + info.compress_size + _SLACK
            start = info.header_offset
            piece = self.fetch(size, start)
            mark, flags, name_size, extra_size = _LOCAL_HEADER.unpack_from(piece)
            if mark != b"PK\x03\x04" or flags & 0x1:
                return None
            begin = _LOCAL_HEADER.size + name_size + extra_size
            content = piece[begin : begin + info.compress_size]
            if len(content) < info.compress_size:
                content = self.fetch(info.compress_size, start + begin)
            if info.compress_type == _DEFLATED:
                content = zlib.decompressobj(-15).decompress(content, info.file_size + 1)
        except (struct.error, zlib.error, ValueError, OverflowError, OSError):
            return None
        return content if len(content) == info.file_size and zlib.crc32(content) == info.CRC else None

    def _read_any(self, name: str) -> bytes:
        """General path, by `zipfile`: every compression method, and the reason of a failure."""
        parts, size = [], 0
        try:
            with self.file.open(name) as member:
                # Some methods decompress all of their input, however few bytes are requested.
                step = 1 << (20 if self.members[name].compress_type in (_STORED, _DEFLATED) else 12)
                while part := member.read(step):
                    parts.append(part)
                    size += len(part)
            # `zipfile` gives no more bytes than the directory says, and verifies the checksum.
            if size != self.members[name].file_size:
                raise InputError(f"{self.location_of(name)}: can't be read from the zip: it ends after {size:,} bytes")
        except InputError:
            raise
        except Exception as error:  # lzma, bz2, struct and text have different errors
            raise InputError(f"{self.location_of(name)}: can't be read from the zip: {_reason(error)}") from None
        return b"".join(parts)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _is_member(info: Any) -> bool:
    name = info.filename
    base = name.replace("\\", "/").rpartition("/")[2]
    return not info.is_dir() and not name.startswith("__MACOSX/") and not base.startswith(".")
