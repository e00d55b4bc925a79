"""Files that appear whole or not at all."""

import os
from collections.abc import Iterable
from pathlib import Path

from boxscore.errors import InputError


def write_file(path: Path, content: str | bytes | Iterable[bytes | memoryview]) -> None:
    """The file has the content, or, if anything fails, what it had before.

    Pieces are written one after the other. Whoever else writes to the same name, at the same time, writes a file of its
    own; the last to end is the one that stays.
    """
    if not path.name:
        raise InputError(f"{path}: can't be written: Is a directory")
    pieces = [content.encode()] if isinstance(content, str) else [content] if isinstance(content, bytes) else content
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        try:
            with temporary.open("xb") as file:
                file.writelines(pieces)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: can't be written: {error.strerror}") from None
