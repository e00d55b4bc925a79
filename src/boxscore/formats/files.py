"""One interface to files, folders, .gz and .zip. Nothing is extracted to disk."""

import gzip
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path, PurePosixPath
from typing import Any

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.image_file_names import base_of, stem_of
from boxscore._support.inputs import read_once, read_pipe
from boxscore._support.writing import write_file, write_folder
from boxscore.formats.archives import Archive, gunzip

READ_ONLY = os.O_RDONLY | getattr(os, "O_BINARY", 0)

HEAD_SIZE = _compiled.HEAD_SIZE
"""Number of first bytes by which formats are recognised; most files in folders are not larger."""

MAX_DEPTH = 8
"""Maximum depth of the folders that are searched, as links may form a cycle."""


def suffix_of(path: Path) -> str:
    """The suffix of a file name in lower case, ignoring a final .gz.

    >>> suffix_of(Path("truths.CSV.gz"))
    '.csv'
    """
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Source:
    """A file, or a folder of files; a file may be inside a .gz or a .zip, and a zip of several files is a folder."""

    path: Path
    name: str
    """The name without .gz; for a zip of one file, the name of that file. Its suffix tells the format."""
    head: bytes | None
    """The first bytes of the file, or all of them; None for a folder."""
    _archive: Archive | None = None
    _listing: dict[str, list[str]] = field(default_factory=dict)
    """Cache of the sorted names by suffix."""
    _content: list[bytes] = field(default_factory=list)
    """The bytes of the file, once they have been read; at most one entry."""

    @classmethod
    def of_bytes(cls, path: Path, name: str, content: bytes) -> "Source":
        """A source for a file whose bytes are in memory."""
        return cls(path=path, name=name, head=content, _content=[content])

    @property
    def is_folder(self) -> bool:
        """Whether the source is a folder of files."""
        return self.head is None

    @property
    def unread_path(self) -> Path | None:
        """The path of a file that is not in memory yet, for readers that take paths; else None."""
        return None if self.is_folder or self._content else self.path

    @property
    def suffix(self) -> str:
        """The suffix of the name, in lower case."""
        return PurePosixPath(self.name).suffix.lower()

    def __str__(self) -> str:
        return str(self.path)

    def files(self, *suffixes: str) -> list[str]:
        """Sorted names of the folder's files, at any depth, that have one of the suffixes (given in lower case)."""
        if not self._listing:
            names = list(self._archive.members) if self._archive is not None else _walk(str(self.path))
            self._listing[""] = []  # not empty, so a folder is listed only once
            for name in sorted(names):
                self._listing.setdefault(os.path.splitext(name)[1].lower(), []).append(name)  # noqa: PTH122
        groups = [self._listing[suffix] for suffix in suffixes if suffix in self._listing]
        return list(groups[0]) if len(groups) == 1 else sorted(name for group in groups for name in group)

    def location(self, file: str = "") -> str:
        """The path of a file in the source, for errors."""
        if not file:
            return str(self.path)
        return self._archive.location_of(file) if self._archive is not None else str(self.path / file)

    def read(self, file: str = "") -> bytes:
        """Read the bytes of the file, or of a file in the folder."""
        if not file:
            if self.is_folder:
                raise InputError(f"{self.path}: must be a file; got a folder")
            if not self._content:
                self._content.append(read_file(str(self.path)))
            return self._content[0]
        if self._archive is not None:
            return self._archive.read(file)
        return read_file(f"{self.path}{os.sep}{file}")

    def within(self, file: str) -> "Source":
        """Open a file of the folder as a source."""
        if self._archive is None:
            return open_source(self.path / file)
        return Source.of_bytes(Path(self.location(file)), base_of(file), self.read(file))

    def read_all(self, files: Iterable[str]) -> Iterator[bytes]:
        """Read the bytes of several files of the folder, lazily and in order."""
        return map(self.read, files)

    def image_names(self, files: Sequence[str]) -> list[str]:
        """The stems of the files, one per image; if two are equal, the paths without suffix."""
        stems = [stem_of(file or self.name) for file in files]
        return stems if len({*stems}) == len(stems) else [os.path.splitext(file)[0] for file in files]  # noqa: PTH122

    def lines(self, file: str = "") -> Iterator[tuple[int, str]]:
        """Yield the number and the text of each line that is not blank."""
        for number, line in enumerate(self.text(file).splitlines(), start=1):
            if line.strip():
                yield number, line

    def text(self, file: str = "") -> str:
        """Read the file as UTF-8 text, with or without a byte order mark."""
        return decode(self.read(file), self.location(file))


def decode(content: bytes, location: str) -> str:
    """Decode UTF-8, with or without a byte order mark; errors name the location."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{location}: line {line}: byte {error.start} is not UTF-8") from None


def parse_json(content: str | bytes, location: str, **options: Any) -> Any:
    """Parse JSON, with or without a byte order mark; errors name the location. `options`: of `json.loads`."""
    try:
        return json.loads(content.removeprefix(b"\xef\xbb\xbf") if isinstance(content, bytes) else content, **options)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{location}: not JSON: {error}") from None


def is_json_number(value: Any) -> bool:
    """Whether a parsed value is a number, and not too large for a float."""
    return type(value) is float or (type(value) is int and value.bit_length() < 1000)


def read_file(path: str, *, is_head: bool = False) -> bytes:
    """Read all bytes of a regular file, or with `is_head` the first `HEAD_SIZE`."""
    try:
        handle = os.open(path, READ_ONLY)
        try:
            content = os.read(handle, HEAD_SIZE)
            if is_head or len(content) < HEAD_SIZE:
                return content
            os.lseek(handle, 0, os.SEEK_SET)
            with FileIO(handle, closefd=False) as file:
                return file.readall()
        finally:
            os.close(handle)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path!r}: not a valid file name: {error}") from None


def _hint(path: str) -> str:
    """A hint for the error about a path that does not exist."""
    if path == "-":
        return "; /dev/stdin is the standard input"
    if "://" in path:
        return " on this machine; `boxscore eval --engine ray` reads from elsewhere"
    if any(sign in path for sign in "*?["):
        return "; a pattern in quotes is for `boxscore eval --memory` and `--engine ray`"
    return ""


def open_source(path: str | os.PathLike[str]) -> Source:
    """Open the file or folder at a path. A .gz or a .zip of one file is the file inside; another .zip is a folder."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"`path` must be the path of a file or a folder; got {type(path).__name__}")
    given, path = os.fspath(path), Path(path)
    try:
        if path.is_dir():
            return Source(path=path, name=path.name, head=None)
        if not path.exists():
            raise InputError(f"{given}: no such file or folder{_hint(given)}")
    except OSError as error:  # no permission, or a name that is too long
        raise InputError(f"{path}: {error.strerror}") from None
    if path.suffix.lower() == ".zip":
        return _open_zip(path)
    is_pipe = not path.is_file()
    head = read_pipe(path) if is_pipe else read_once("head", path, lambda: read_file(given, is_head=True))
    is_whole = is_pipe or len(head) < HEAD_SIZE
    if path.suffix.lower() == ".gz" or head[:2] == b"\x1f\x8b":
        name = path.stem if path.suffix.lower() == ".gz" else path.name
        return Source.of_bytes(path, name, gunzip(head if is_whole else read_file(str(path)), str(path)))
    return Source(path=path, name=path.name, head=head, _content=[head] if is_whole else [])


def _walk(root: str) -> list[str]:
    names: list[str] = []

    def visit(folder: str, prefix: str, depth: int) -> None:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    if depth < MAX_DEPTH:
                        visit(entry.path, f"{prefix}{entry.name}/", depth + 1)
                elif entry.is_file() or (entry.is_symlink() and not os.path.exists(entry.path)):  # noqa: PTH110
                    # Reading from a pipe would block. A broken link is listed: reading it is an error.
                    names.append(prefix + entry.name)

    try:
        visit(root, "", 0)
    except OSError as error:
        raise InputError(f"{error.filename or root}: {error.strerror}") from None
    return names


def _open_zip(path: Path) -> Source:
    archive = Archive.at(path)
    if len(archive.members) != 1:
        return Source(path=path, name=path.stem, head=None, _archive=archive)
    (name,) = archive.members
    return Source.of_bytes(path, base_of(name), archive.read(name))


Output = Mapping[str, bytes]
"""Files to write: content by name, relative to a folder; a single file has the name ""."""


def write_output(path: Path, output: Output, *, overwrite: bool) -> None:
    """Write all files, or, after an error, none: each is written under a temporary name and then renamed.

    A folder that is not empty is refused unless `overwrite`; then files of the same names are replaced, and others
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
