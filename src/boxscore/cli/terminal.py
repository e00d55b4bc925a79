"""What a command hands back, and how it looks on a terminal: colours there only, and never with NO_COLOR."""

import os
import sys
from typing import NamedTuple, TextIO

_STYLES = {"bold": "1", "red": "31", "yellow": "33"}


class Outcome(NamedTuple):
    """The text for stdout, and the exit code."""

    text: str
    code: int = 0


def styled(text: str, style: str, stream: TextIO) -> str:
    """The text in a style, if the stream is a terminal that may have colours."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\033[{_STYLES[style]}m{text}\033[0m"


class Progress:
    """A line on stderr that says what is being done, on a terminal only; it is gone when all is done."""

    def __init__(self, total: int, *, is_quiet: bool) -> None:
        self._total, self._done = total, 0
        self._is_shown = sys.stderr.isatty() and not is_quiet

    def step(self, doing: str) -> None:
        """The next of the steps begins."""
        if self._is_shown:
            width = 20
            filled = width * min(self._done, self._total) // self._total
            sys.stderr.write(f"\r\033[K[{'#' * filled}{'.' * (width - filled)}] {doing}")
            sys.stderr.flush()
        self._done += 1

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
