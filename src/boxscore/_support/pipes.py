"""Pipes as inputs: named pipes, `/dev/stdin`, and what `<(command)` of a shell gives."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from os import PathLike, fspath

from boxscore._support.exceptions import InputError

_KEPT: ContextVar[dict[str, bytes] | None] = ContextVar("_KEPT", default=None)
"""The content by path of pipes that were read inside `pipes_can_be_reopened`."""


@contextmanager
def pipes_can_be_reopened() -> Iterator[None]:
    """Inside, a pipe can be opened any number of times, as a file can: it is read once, and its content is kept."""
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def read_pipe(path: str | PathLike[str]) -> bytes:
    """Read a pipe to its end, or get what it had when it was read before; see `pipes_can_be_reopened`."""
    name, kept = fspath(path), _KEPT.get()
    if kept is not None and name in kept:
        return kept[name]
    try:
        with open(name, "rb") as pipe:  # noqa: PTH123 (without waiting for pathlib)
            content = pipe.read()
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}") from None
    if kept is not None:
        kept[name] = content
    return content
