"""Pipes as inputs: named pipes, `/dev/stdin`, and process substitutions, `<(command)`."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from os import PathLike, fspath

from boxscore._support.exceptions import InputError

_KEPT: ContextVar[dict[str, bytes] | None] = ContextVar("_KEPT", default=None)
"""The content by path of pipes that were read inside `pipes_can_be_reopened`."""


@contextmanager
def pipes_can_be_reopened() -> Iterator[None]:
    """Let pipes be read repeatedly inside the block: each is read once, and its content is cached."""
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def read_pipe(path: str | PathLike[str]) -> bytes:
    """Read a pipe to its end, or return the cached content; see `pipes_can_be_reopened`."""
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
