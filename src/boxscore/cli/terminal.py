"""What a command hands back, and how it is shown: the only place that prints.

Colours are for terminals only, and never with NO_COLOR.
"""

import os
import sys
from typing import NamedTuple, TextIO

from boxscore._support.text import line

_STYLES = {"bold": "1", "red": "31", "yellow": "33"}


class Outcome(NamedTuple):
    """The text for stdout, the exit code, and what else to say on stderr, below the text."""

    text: str
    code: int = 0
    notes: tuple[str, ...] = ()


def say(text: str, stream: TextIO | None) -> None:
    """The text is on the stream, if there is one; what its encoding does not have is escaped."""
    if stream is not None:
        encoding = stream.encoding or "utf-8"
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream)


def show(text: str, stream: TextIO | None) -> str | None:
    """The same for text that must arrive: why it did not, or None if it did, or if nobody reads the stream any more."""
    if stream is None:
        return None
    try:
        if text:
            say(text, stream)
        stream.flush()
    except OSError as error:
        # Python would try again, and complain, when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        # Whoever reads has seen enough, as `head` has.
        return None if isinstance(error, BrokenPipeError) else f"stdout: can't be written: {error.strerror}"
    return None


def styled(text: str, style: str, stream: TextIO | None) -> str:
    """The text in a style, if the stream is a terminal that may have colours."""
    if not _is_terminal(stream) or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\033[{_STYLES[style]}m{text}\033[0m"


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


class Progress:
    """A line on stderr that says what is being done, on a terminal only; it is gone when all is done."""

    def __init__(self, total: int, *, is_quiet: bool) -> None:
        self._total, self._done = total, 0
        self._is_shown = not is_quiet and _is_terminal(sys.stderr)

    def step(self, doing: str) -> None:
        """The next of the steps begins."""
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
