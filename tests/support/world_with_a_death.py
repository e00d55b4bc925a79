"""What each process does in test_distributed where one never gathers: the last one dies, or sleeps."""

import os
import time

from tests.support.processes import hand_over, join_world
from tests.support.world_of_metrics import over, uneven

TIMEOUT = 4.0


def main() -> None:
    """Rank 0 computes; the last rank doesn't."""
    folder, num_processes, rank = join_world(seconds=TIMEOUT)
    metric = over(uneven(rank, num_processes))
    if rank == num_processes - 1:
        if folder.name.startswith("dies"):
            os._exit(1)
        time.sleep(4 * TIMEOUT)
        os._exit(1)
    start = time.monotonic()
    try:
        metric.compute()
    except RuntimeError as error:
        hand_over((str(error), type(error.__cause__).__name__, time.monotonic() - start), folder, rank)
    os._exit(0)


if __name__ == "__main__":
    main()
