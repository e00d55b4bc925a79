"""Files that appear whole or not at all."""

import os
from pathlib import Path

from boxscore.errors import InputError


def write_file(path: Path, content: str | bytes) -> None:
    """The file has the content, or, if anything fails, what it had before."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            temporary.write_bytes(content.encode() if isinstance(content, str) else content)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: can't be written: {error.strerror}") from None
