"""Read .gz and .zip files into memory, with a limit on their size (against zip bombs); nothing is extracted to disk.

Members of a zip are read, not memory-mapped: truncating a mapped file would crash the process.
"""

import gzip
import io
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boxscore._support.exceptions import InputError

BOMB_SIZE = 1 << 28
"""Up to this many bytes, the uncompressed content may be any multiple of the compressed size."""
BOMB_RATIO = 200
"""Beyond `BOMB_SIZE`, the largest allowed multiple. Annotations as text compress by a factor of 5 to 20."""

_STORED, _DEFLATED = 0, 8


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
    """Decompress the bytes of a .gz."""
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
    """The directory entries of all files, in order, without hidden files and folders."""
    location: str

    @classmethod
    def at(cls, path: str | Path) -> "Archive":
        """Open the zip at a path; too large content, or two files of one name, are refused."""
        try:
            size = os.stat(path).st_size  # noqa: PTH116 (whatever kind of path it is)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        return cls._of(path, str(path), size)

    @classmethod
    def of_bytes(cls, content: bytes, location: str, what: str) -> "Archive":
        """Open a zip in memory. `what`: the kind of file that is expected, for errors."""
        return cls._of(io.BytesIO(content), location, len(content), what)

    @classmethod
    def _of(cls, source: Any, location: str, size: int, what: str = "a zip file") -> "Archive":
        import zipfile

        try:
            file = zipfile.ZipFile(source)
            infos = file.infolist()
        except OSError as error:
            raise InputError(f"{location}: {error.strerror or f'not {what}: {error}'}") from None
        except Exception as error:  # a damaged directory raises errors of many types
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
        return cls(file=file, members=members, location=location)

    def location_of(self, name: str) -> str:
        """The location of a member for errors, with characters that are not printable escaped."""
        shown = name if name.isprintable() else name.encode("unicode_escape").decode()
        return f"{self.location}:{shown}"

    def read(self, name: str) -> bytes:
        """Read the bytes of a member."""
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
