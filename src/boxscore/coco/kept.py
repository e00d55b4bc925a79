"""Files that can be read again, whatever becomes of their names."""

import os
import weakref
from pathlib import Path
from typing import Any

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads

FileName = str | os.PathLike[str]


class Kept:
    """A file, open, so that its bytes need not be in memory while nobody asks for them.

    It may be moved or deleted. If it is written to, `content` raises. Copies, and pickles, have the bytes.
    """

    def __init__(self, name: FileName, content: bytes | None = None) -> None:
        self.name, self._content = os.fspath(name), content
        if content is not None:
            return
        if os.name == "nt" or not Path(name).is_file():  # an open file can't be deleted there; a pipe is read once
            self._content = Path(name).read_bytes()
            return
        self._descriptor = os.open(name, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)
        self._mark = _mark(os.fstat(self._descriptor))

    def columns(self) -> dict[str, Any] | None:
        """What the compiled reader finds; None if it is no file of boxes."""
        try:
            if self._content is None:
                found = _compiled.read_coco_file(os.fsencode(self.name), num_threads(None))
                if _mark(Path(self.name).stat()) == self._mark:
                    return found
            # Bytes; or another file has that name already.
            return _compiled.read_coco_bytes(self.content(), num_threads(None))
        except _compiled.CocoError:
            return None

    def head(self, size: int) -> bytes:
        """The first bytes."""
        return os.pread(self._descriptor, size, 0) if self._content is None else self._content[:size]

    def content(self) -> bytes:
        """All bytes, as they were when the file was opened."""
        if self._content is not None:
            return self._content
        blocks: list[bytes] = []
        num_read = 0
        while block := os.pread(self._descriptor, 1 << 30, num_read):
            blocks.append(block)
            num_read += len(block)
        if _mark(os.fstat(self._descriptor)) != self._mark:
            raise InputError(
                f"{self.name}: was written to after it was loaded, so that its annotations can't be had as dicts any "
                "more; look at them before, or write to another file"
            )
        return b"".join(blocks)

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, (self.name, self.content())


def _mark(status: os.stat_result) -> tuple[int, ...]:
    """What tells a file from others, and from itself after a change."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
