"""Files, folders, .gz and .zip, opened alike. Nothing is ever extracted, and bombs are refused."""

import gzip
import io
import mmap
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from boxscore.errors import InputError
from boxscore.writing import write_file, write_folder

BOMB_SIZE = 1 << 30
"""Up to this many bytes, a compressed file may grow by any factor."""
BOMB_RATIO = 200
"""Beyond that size, by this one. Annotations as text shrink to a fifth or a twentieth."""

READ_ONLY = os.O_RDONLY | getattr(os, "O_BINARY", 0)

DEEPEST = 8
"""How far down a folder is looked into; links may make it a circle."""

IMAGE_SUFFIXES = frozenset({".bmp", ".dng", ".gif", ".heic", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
SUFFIXES = IMAGE_SUFFIXES | {".json", ".txt", ".xml"}


def base_of(name: str) -> str:
    r"""A file name without its folder, whichever slash it was written with.

    >>> base_of("val/000001.jpg"), base_of("val\\a.b.png")
    ('000001.jpg', 'a.b.png')
    """
    return name.replace("\\", "/").rpartition("/")[2]


def stem_of(name: str) -> str:
    """A file name without its folder and without the suffix of an image or a label file.

    >>> stem_of("val/000001.jpg"), stem_of("clip.v2"), stem_of("clip.v2.TXT")
    ('000001', 'clip.v2', 'clip.v2')
    """
    base = base_of(name)
    stem, dot, suffix = base.rpartition(".")
    return stem if stem and f"{dot}{suffix}".lower() in SUFFIXES else base


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Source:
    """A file, or a folder of files; either may come out of a .gz or a .zip."""

    path: Path
    name: str
    """The file's own name, without .gz and as inside a .zip of one: its suffix says what it may be."""
    content: bytes | None
    """What the file holds; None for a folder."""
    _archive: Any = None
    _mapped: Any = None
    """The bytes of the zip, where its members can be read without its module's overhead."""
    _listing: dict[str, list[str]] = field(default_factory=dict)
    """Sorted names by suffix, once they are asked for."""

    @property
    def is_folder(self) -> bool:
        """Whether it holds files."""
        return self.content is None

    @property
    def suffix(self) -> str:
        """The suffix of its own name, in lower case."""
        return PurePosixPath(self.name).suffix.lower()

    def __str__(self) -> str:
        return str(self.path)

    def files(self, *suffixes: str) -> list[str]:
        """The files of a folder, in any folder in it, with one of the suffixes, in lower case; sorted."""
        if not self._listing:
            names = self._archive_names() if self._archive is not None else _walk(str(self.path))
            self._listing[""] = []  # looked at, even if there is nothing
            for name in sorted(names):
                self._listing.setdefault(os.path.splitext(name)[1].lower(), []).append(name)  # noqa: PTH122
        groups = [self._listing[suffix] for suffix in suffixes if suffix in self._listing]
        return list(groups[0]) if len(groups) == 1 else sorted(name for group in groups for name in group)

    def _archive_names(self) -> list[str]:
        return [info.filename for info in self._archive.infolist() if _is_member(info)]

    def place(self, file: str = "") -> str:
        """How an error names a file in it."""
        if not file:
            return str(self.path)
        return f"{self.path}:{file}" if self._archive is not None else str(self.path / file)

    def read(self, file: str = "") -> bytes:
        """The bytes of the file, or of one in the folder."""
        if not file:
            if self.content is None:
                raise InputError(f"{self.path}: must be a file; got a folder")
            return self.content
        if self._archive is not None:
            return _read_mapped(self._mapped, self._archive, file) or _read_member(
                self._archive, file, self.place(file)
            )
        return read_file(f"{self.path}{os.sep}{file}")

    def read_all(self, files: Iterable[str]) -> Iterator[bytes]:
        """The bytes of many files of the folder, in order."""
        return map(self.read, files)

    def text(self, file: str = "") -> str:
        """The file as text: UTF-8, with or without a mark in front."""
        return decode(self.read(file), self.place(file))


def decode(content: bytes, place: str) -> str:
    """Bytes as text: UTF-8, with or without a mark in front; errors name the place."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{place}: line {line}: byte {error.start} is not UTF-8") from None


def read_file(path: str) -> bytes:
    """All bytes of a file."""
    try:
        handle = os.open(path, READ_ONLY)
        try:
            content = os.read(handle, 1 << 16)
            if len(content) < 1 << 16:
                return content
            parts = [content]
            while content := os.read(handle, 1 << 24):
                parts.append(content)
            return b"".join(parts)
        finally:
            os.close(handle)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def _hint(path: str) -> str:
    """What to do about a path that is none of this machine's."""
    if "://" in path:
        return " on this machine; `boxscore eval --engine ray` reads from elsewhere"
    if any(sign in path for sign in "*?["):
        return "; a pattern in quotes is for `boxscore eval --memory` and `--engine ray`"
    return ""


def open_source(path: str | os.PathLike[str]) -> Source:
    """The file or folder at a path. A .gz is the file inside; so is a .zip of one file; another .zip is a folder."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"`path` must be the path of a file or a folder; got {type(path).__name__}")
    given, path = os.fspath(path), Path(path)
    try:
        if path.is_dir():
            return Source(path=path, name=path.name, content=None)
        if not path.exists():
            raise InputError(f"{given}: no such file or folder{_hint(given)}")
    except PermissionError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if path.suffix.lower() == ".zip":
        return _open_zip(path)
    content = read_file(str(path))
    if path.suffix.lower() == ".gz" or content[:2] == b"\x1f\x8b":
        name = path.stem if path.suffix.lower() == ".gz" else path.name
        return Source(path=path, name=name, content=_gunzip(content, path))
    return Source(path=path, name=path.name, content=content)


def _walk(root: str) -> list[str]:
    names: list[str] = []

    def visit(folder: str, prefix: str, depth: int) -> None:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    if depth < DEEPEST:
                        visit(entry.path, f"{prefix}{entry.name}/", depth + 1)
                else:
                    names.append(prefix + entry.name)

    try:
        visit(root, "", 0)
    except OSError as error:
        raise InputError(f"{error.filename or root}: {error.strerror}") from None
    return names


def _gunzip(content: bytes, path: Path) -> bytes:
    limit = max(BOMB_SIZE, BOMB_RATIO * len(content))
    parts, size = [], 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            while part := file.read(1 << 22):
                size += len(part)
                if size > limit:
                    raise InputError(f"{path}: grows beyond {limit:,} bytes, {BOMB_RATIO} times its size; refused")
                parts.append(part)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: not a whole gzip file: {error}") from None
    return b"".join(parts)


def _open_zip(path: Path) -> Source:
    import zipfile

    try:
        archive = zipfile.ZipFile(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise InputError(f"{path}: not a zip file: {error}") from None
    members = [info for info in archive.infolist() if _is_member(info)]
    size = sum(info.file_size for info in members)
    if size > max(BOMB_SIZE, BOMB_RATIO * path.stat().st_size):
        raise InputError(f"{path}: would grow to {size:,} bytes, more than {BOMB_RATIO} times its size; refused")
    if len(members) != 1:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return Source(path=path, name=path.stem, content=None, _archive=archive, _mapped=mapped)
    name = members[0].filename
    return Source(path=path, name=base_of(name), content=_read_member(archive, name, f"{path}:{name}"))


def _is_member(info: Any) -> bool:
    name = info.filename
    return not info.is_dir() and not name.startswith("__MACOSX/") and not base_of(name).startswith(".")


def _read_mapped(mapped: Any, archive: Any, name: str) -> bytes | None:
    """A plain member of a zip, a fifth of the time that its module takes; None for what is not plain, or not right."""
    try:
        info = archive.NameToInfo[name]
        start = info.header_offset
        mark, flags, name_size, extra_size = _LOCAL_HEADER.unpack_from(mapped, start)
        start += 30 + name_size + extra_size
        if mark != b"PK\x03\x04" or flags & 0x1 or info.compress_type not in (0, 8):
            return None
        content = mapped[start : start + info.compress_size]
        if info.compress_type == 8:
            content = zlib.decompressobj(-15).decompress(content, info.file_size + 1)
    except (KeyError, struct.error, zlib.error, ValueError):
        return None
    return content if len(content) == info.file_size and zlib.crc32(content) == info.CRC else None


_LOCAL_HEADER = struct.Struct("<4s2xH18xHH")
"""Of a member: its mark, its flags, and how long its name and what follows are."""


def _read_member(archive: Any, name: str, place: str) -> bytes:
    import zipfile

    try:
        # No more bytes come than the directory of the zip has promised, so its sum has been checked.
        return bytes(archive.read(name))
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, KeyError, OSError) as error:
        raise InputError(f"{place}: can't be read from the zip: {error}") from None


Output = Mapping[str, bytes]
"""Files to write: content by name, relative to a folder; a single file has the name ""."""


def write_output(path: Path, output: Output, *, overwrite: bool) -> None:
    """Every file is there, or, after an error, none of it: each is written under another name and then renamed.

    A folder with something in it is refused unless `overwrite`; then files of the same names are replaced, and others
    stay.
    """
    try:
        if list(output) == [""]:
            content = output[""]
            if path.is_dir():
                raise InputError(f"{path}: must be the name of a file; got a folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, gzip.compress(content, 6, mtime=0) if path.suffix.lower() == ".gz" else content)
        else:
            write_folder(path, output, overwrite=overwrite)
    except OSError as error:
        raise InputError(f"{error.filename or path}: can't be written: {error.strerror}") from None
