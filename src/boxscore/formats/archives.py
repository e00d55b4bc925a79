"""What comes out of .gz and .zip: in memory, never extracted, and never more than an honest file would be.

Members of a zip are read, not mapped: a mapped file that somebody cuts short ends the process.
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
"""Up to this many bytes, a compressed file may grow by any factor."""
BOMB_RATIO = 200
"""Beyond that size, by this one. Annotations as text shrink to a fifth or a twentieth."""

_LOCAL_HEADER = struct.Struct("<4s2xH18xHH")
"""Of a member: its mark, its flags, and how long its name and what follows are."""
_STORED, _DEFLATED = 0, 8
_SLACK = 64
"""Bytes that are read behind what a member should take: its own header may be longer than the directory's."""


def most_bytes(packed_size: int) -> int:
    """How large a compressed file of so many bytes may become."""
    return max(BOMB_SIZE, BOMB_RATIO * packed_size)


def refuse_bomb(place: str, size: int, packed_size: int) -> None:
    """Raise `InputError` if a file of `packed_size` bytes would become one of `size`, more than can be honest."""
    if size > most_bytes(packed_size):
        raise InputError(
            f"{place}: would grow from {packed_size:,} to {size:,} bytes or more; beyond {BOMB_SIZE >> 20} MiB no"
            f" more than {BOMB_RATIO} times the file's size is read: store it less compressed, or in several files"
        )


def gunzip(content: bytes, place: str) -> bytes:
    """The bytes in a .gz."""
    limit = most_bytes(len(content))
    parts, size = [], 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            while part := file.read(1 << 22):
                size += len(part)
                if size > limit:
                    refuse_bomb(place, size, len(content))
                parts.append(part)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{place}: not a whole gzip file: {error}") from None
    return b"".join(parts)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Archive:
    """A zip: its members by name, each read when it is asked for."""

    file: Any
    """The open `zipfile.ZipFile`."""
    members: dict[str, Any]
    """What its directory says of each file that is no folder and not hidden, in its order."""
    place: str
    size: int
    """Of the zip itself."""
    fetch: Callable[[int, int], bytes] | None
    """So many bytes of the zip from an offset on; None where the system has no call for it."""

    @classmethod
    def at(cls, path: str | Path) -> "Archive":
        """The zip at a path; one that would grow too much, or has two files of one name, is refused."""
        try:
            size = os.stat(path).st_size  # noqa: PTH116 (whatever kind of path it is)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        return cls._of(path, str(path), size)

    @classmethod
    def of_bytes(cls, content: bytes, place: str, what: str) -> "Archive":
        """The same for a zip in memory; `what`: a file that is a zip inside, for errors."""

        def fetch(size: int, start: int) -> bytes:
            return content[start : start + size]

        return cls._of(io.BytesIO(content), place, len(content), fetch, what)

    @classmethod
    def _of(
        cls,
        source: Any,
        place: str,
        size: int,
        fetch: Callable[[int, int], bytes] | None = None,
        what: str = "a zip file",
    ) -> "Archive":
        import zipfile

        try:
            file = zipfile.ZipFile(source)
            infos = file.infolist()
        except OSError as error:
            raise InputError(f"{place}: {error.strerror or f'not {what}: {error}'}") from None
        except Exception as error:  # that module lets through whatever goes wrong in a damaged directory
            raise InputError(f"{place}: not {what}: {_reason(error)}") from None
        members: dict[str, Any] = {}
        for info in infos:
            if not info.filename:
                raise InputError(f"{place}: must not have a file without a name")
            if not _is_member(info):
                continue
            if info.filename in members:
                raise InputError(f"{place}: must not have two files of one name; got {info.filename!r} twice")
            members[info.filename] = info
        refuse_bomb(place, sum(info.file_size for info in members.values()), size)
        if fetch is None and hasattr(os, "pread"):
            fetch = partial(os.pread, file.fp.fileno())  # type: ignore[union-attr]
        return cls(file=file, members=members, place=place, size=size, fetch=fetch)

    def place_of(self, name: str) -> str:
        """How an error names a member; its name is shown on one line, whatever is in it."""
        shown = name if name.isprintable() else name.encode("unicode_escape").decode()
        return f"{self.place}:{shown}"

    def read(self, name: str) -> bytes:
        """The bytes of a member."""
        content = self._read_plain(name)
        return self._read_any(name) if content is None else content

    def _read_plain(self, name: str) -> bytes | None:
        """A plain member, a fifth of the time that `zipfile` takes; None for what is not plain, or not right."""
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
        """The same by the module: every method of compression, and the reason where something is wrong."""
        parts, size = [], 0
        try:
            with self.file.open(name) as member:
                # Some methods unpack all of what they are given, however little was asked for.
                step = 1 << (20 if self.members[name].compress_type in (_STORED, _DEFLATED) else 12)
                while part := member.read(step):
                    parts.append(part)
                    size += len(part)
            # No more bytes come than the directory of the zip has promised, and their sum has been checked.
            if size != self.members[name].file_size:
                raise InputError(f"{self.place_of(name)}: can't be read from the zip: it ends after {size:,} bytes")
        except InputError:
            raise
        except Exception as error:  # lzma, bz2, struct, text: each has errors of its own
            raise InputError(f"{self.place_of(name)}: can't be read from the zip: {_reason(error)}") from None
        return b"".join(parts)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _is_member(info: Any) -> bool:
    name = info.filename
    base = name.replace("\\", "/").rpartition("/")[2]
    return not info.is_dir() and not name.startswith("__MACOSX/") and not base.startswith(".")
