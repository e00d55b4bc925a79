"""Random documents, most of them damaged, through the compiled reader, for as long as you like.

    python -m tests.fuzz_json SECONDS [SEED]

Each must be read as Python's json reads it, or refused if that or the rules of COCO refuse it, however it is cut for
however many threads. Run under the sanitizers (`make fuzz`) they will have their say, too.
"""

import sys
import time

from tests.support.coco_writer import check_case


def main(seconds: float, seed: int) -> None:
    """Cases from a seed on, until time is up."""
    end = time.monotonic() + seconds
    first, num_valid = seed, 0
    while time.monotonic() < end:
        # Said beforehand: a crash says nothing.
        print(f"seed {seed}", end="\r", file=sys.stderr, flush=True)
        num_valid += check_case(seed)
        seed += 1
    print(f"{seed - first} documents, {num_valid} of them fine, nothing found")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time()))
