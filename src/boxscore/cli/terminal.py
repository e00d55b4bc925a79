"""The outcome of a command, printing, progress and signals. The only module that prints.

Colours are for terminals only, and never with NO_COLOR.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn, TextIO

from boxscore._support.text import line
from boxscore.cli import quit_at_once

_STYLES = {"bold": "1", "red": "31", "yellow": "33"}


class Outcome(NamedTuple):
    """The text for stdout, the exit code, and notes for stderr."""

    text: str
    code: int = 0
    notes: tuple[str, ...] = ()


def say(text: str, stream: TextIO | None) -> None:
    """Print the text to the stream, if it is not None; escape characters that its encoding lacks."""
    if stream is not None:
        encoding = stream.encoding or "utf-8"
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream)


def show(text: str, stream: TextIO | None) -> str | None:
    """Print and flush; return the error message if that fails, else None. Ignore a pipe whose reader has ended."""
    if stream is None:
        return None
    try:
        if text:
            say(text, stream)
        stream.flush()
    except OSError as error:
        # Otherwise Python flushes again when it closes the stream, and reports the error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        # The reader has ended, as `head` does.
        return None if isinstance(error, BrokenPipeError) else f"stdout: can't be written: {error.strerror}"
    return None


def styled(text: str, style: str, stream: TextIO | None) -> str:
    """Style the text if the stream is a terminal with colours."""
    if not _is_terminal(stream) or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\033[{_STYLES[style]}m{text}\033[0m"


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


class Progress:
    """A progress line on stderr, only on a terminal; it is removed at the end."""

    def __init__(self, total: int, *, is_quiet: bool) -> None:
        self._total, self._done = total, 0
        self._is_shown = not is_quiet and _is_terminal(sys.stderr)

    def step(self, doing: str) -> None:
        """Begin the next step."""
        if self._is_shown:
            width = 20
            filled = width * min(self._done, self._total) // self._total
            sys.stderr.write(f"\r\033[K[{'#' * filled}{'.' * (width - filled)}] {line(doing)}")
            sys.stderr.flush()
        self._done += 1

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


class Stopped(BaseException):
    """Raised at SIGTERM or SIGHUP, so that temporary files are removed as after Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.code = 128 + number


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise `Stopped` inside the block, unless they are ignored (nohup) or already handled.

    Ctrl-C raises `KeyboardInterrupt` instead of ending the process at once.
    """
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    handlers: dict[int, Any] = {n: _stop for n in numbers if signal.getsignal(n) is signal.SIG_DFL}
    if signal.getsignal(signal.SIGINT) is quit_at_once:
        handlers[signal.SIGINT] = signal.default_int_handler
    before = {}
    with contextlib.suppress(ValueError):  # Python only allows handlers in the main thread
        for number, handler in handlers.items():
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, _: Any) -> NoReturn:
    raise Stopped(number)
