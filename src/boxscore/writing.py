"""Files that appear whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from boxscore.errors import InputError


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
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


def write_file(path: Path, content: str | bytes) -> None:
    """The file has the content, or, if anything fails, what it had before."""
    try:
        with whole_file(path) as file:
            file.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise InputError(f"{path}: can't be written: {error.strerror}") from None
