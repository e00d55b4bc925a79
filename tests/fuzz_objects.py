"""Annotations with hostile objects through the compiled readers of dicts, for as long as you like.

    python -m tests.fuzz_objects SECONDS [SEED]

Each object changes the containers that are being read, whenever Python code of its own is run. Readers may end with an
error, not with a crash. Run under the sanitizers (`make fuzz`) they will have their say, too. A case is named by its
seed, to be tried again.
"""

import contextlib
import io
import sys
import time

from tests.support.hostile_objects import check_case


def main(seconds: float, seed: int) -> None:
    """Cases from a seed on, until time is up."""
    end = time.monotonic() + seconds
    first, num_strikes = seed, 0
    while time.monotonic() < end:
        # Said beforehand: a crash says nothing.
        print(f"seed {seed}", end="\r", file=sys.stderr, flush=True)
        with contextlib.redirect_stdout(io.StringIO()):
            num_strikes += check_case(seed)
        seed += 1
    print(f"{seed - first} cases, containers changed {num_strikes} times, nothing found")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time()))
