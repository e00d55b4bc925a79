"""Files that appear whole or not at all."""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from boxscore.errors import InputError


@contextlib.contextmanager
def _whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to. It takes the place of what is there once all is written; after an error that stays.

    Where `path` is a link, what it points to is replaced. A pipe or a device is written to as it is: a file in its
    place would be the end of it.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{os.urandom(4).hex()}")
    try:
        with temporary.open("xb") as file:
            yield file
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def check_place(path: Path) -> None:
    """Raise `InputError` where no file can be: in a folder that is not there, or in the place of one.

    Better known before the work than after it.
    """
    if path.is_dir():
        raise InputError(f"{path}: can't be written: {os.strerror(errno.EISDIR)}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: can't be written: {os.strerror(errno.ENOENT)}")


def write_file(path: Path, content: str | bytes | Iterable[bytes | memoryview]) -> None:
    """The file has the content, or, if anything fails, what it had before.

    Pieces are written one after the other. Whoever else writes to the same name, at the same time, writes a file of its
    own; the last to end is the one that stays.
    """
    if not path.name:
        raise InputError(f"{path}: can't be written: {os.strerror(errno.EISDIR)}")
    if isinstance(content, str):
        content = content.encode(errors="backslashreplace")  # names of files may have bytes that are no text
    try:
        with _whole_file(path) as file:
            file.writelines([content] if isinstance(content, bytes) else content)
    except OSError as error:
        raise InputError(f"{path}: can't be written: {error.strerror}") from None
