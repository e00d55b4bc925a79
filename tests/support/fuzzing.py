"""Random cases for as long as you like, and random damage to bytes."""

import random
import sys
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def fuzz(check_case: Callable[[int], T]) -> list[T]:
    """The results of cases, by seeds from the second word of the command line on, for the seconds of the first."""
    end = time.monotonic() + float(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    results: list[T] = []
    while time.monotonic() < end:
        # Said beforehand: a crash says nothing.
        sys.stderr.write(f"seed {seed + len(results)}\r")
        sys.stderr.flush()
        results.append(check_case(seed + len(results)))
    return results


def damage(text: bytearray, rand: random.Random, kind: int, at: int, to: int, piece: Callable[[], bytes]) -> None:
    """Change something between two places, in one of six ways."""
    if kind == 0 and at < len(text):
        text[at] ^= 1 << rand.randrange(8)
    elif kind == 1:
        del text[at:]
    elif kind == 2:
        text[at:at] = piece()
    elif kind == 3:
        text[at : at + rand.randrange(4)] = piece()
    elif kind == 4:
        text[at:at] = text[at:to]
    elif kind == 5:
        del text[at : min(to, at + rand.randrange(1, 30))]
