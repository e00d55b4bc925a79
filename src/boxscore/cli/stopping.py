"""SIGTERM and SIGHUP as exceptions, so that a command that they stop removes its temporary files as after Ctrl-C."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any, NoReturn


class Stopped(BaseException):
    """A signal has come."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.code = 128 + number


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP raise `Stopped`, unless they are ignored (as by nohup) or handled by somebody else."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ours = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in ours:
            signal.signal(number, _stop)
    except ValueError:
        ours = []  # in another thread than the main one, which Python takes no handlers from
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _stop(number: int, _: Any) -> NoReturn:
    raise Stopped(number)
