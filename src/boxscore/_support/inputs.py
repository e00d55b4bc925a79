"""Inputs of a command that are read once, however many steps ask for them: pipes, heads of files, parsed files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from os import PathLike, fspath
from typing import Any, Literal, NamedTuple

from boxscore._support.exceptions import InputError

Part = Literal["pipe", "head", "truths", "detections"]
"""A part of an input that may be kept: all bytes of a pipe, the first bytes of a file, a parsed COCO file by role."""


class ParsedFile(NamedTuple):
    """A COCO file after reading."""

    file: Any
    """A `_compiled.CocoFile`."""
    shapes: str
    """The shapes that were read: a name of `_compiled.CocoShapes`."""


_KEPT: ContextVar[dict[tuple[Part, str], Any] | None] = ContextVar("_KEPT", default=None)
"""The inputs that were read inside `inputs_are_kept`, by part and path."""


@contextmanager
def inputs_are_kept() -> Iterator[None]:
    """Keep what is read inside the block, so that later steps continue from it; a pipe can't be read twice."""
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def keep(part: Part, path: str | PathLike[str], value: Any) -> None:
    """Keep a part of an input; outside of `inputs_are_kept`, nothing is kept."""
    if (kept := _KEPT.get()) is not None:
        kept[part, fspath(path)] = value


def kept(part: Part, path: str | PathLike[str]) -> Any:
    """The kept part of an input, or None."""
    return (_KEPT.get() or {}).get((part, fspath(path)))


def read_once(part: Part, path: str | PathLike[str], read: Callable[[], bytes]) -> bytes:
    """The kept part of an input; it is read and kept if there is none."""
    content: bytes | None = kept(part, path)
    if content is None:
        content = read()
        keep(part, path, content)
    return content


def read_pipe(path: str | PathLike[str]) -> bytes:
    """Read a named pipe, `/dev/stdin` or a process substitution, `<(command)`, to its end."""

    def read() -> bytes:
        try:
            with open(path, "rb") as pipe:  # noqa: PTH123 (without waiting for pathlib)
                return pipe.read()
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None

    return read_once("pipe", path, read)
