"""What each process does in test_distributed where one never gathers: the last one dies, or sleeps."""

import os
import time
from collections.abc import Callable
from typing import Any

from tests.support.processes import hand_over, join_world
from tests.support.world_of_metrics import over, uneven

TIMEOUT = 4.0


def gathering(metric: str, images: list[int]) -> Callable[[], Any]:
    """What gathers the images of all processes."""
    if metric == "torchmetrics":
        from tests.support import world_of_torchmetrics

        return world_of_torchmetrics.over(images).compute
    if metric == "evaluator":
        from boxscore.torchvision import CocoEvaluator
        from tests.support.evaluators import predictions_of, scene_of, truths_of

        dataset, results = scene_of("bbox", 21)
        evaluator = CocoEvaluator(truths_of(dataset), ["bbox"])
        evaluator.update(predictions_of(dataset, results, "bbox"))
        return evaluator.synchronize_between_processes
    return over(images).compute


def main() -> None:
    """Rank 0 gathers; the last rank doesn't."""
    folder, num_processes, rank = join_world(seconds=TIMEOUT)
    fate, metric = folder.name.split("_")
    gather = gathering(metric, uneven(rank, num_processes))
    if rank == num_processes - 1:
        end = time.monotonic() + (0 if fate == "dies" else 4 * TIMEOUT)
        while time.monotonic() < end and not (folder / "0.pickle").exists():
            time.sleep(0.05)
        os._exit(1)
    start = time.monotonic()
    try:
        gather()
    except RuntimeError as error:
        hand_over((str(error), type(error.__cause__).__name__, time.monotonic() - start), folder, rank)
    os._exit(0)


if __name__ == "__main__":
    main()
