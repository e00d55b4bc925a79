"""The threads of the compiled core: shared by calls at the same time, not by processes, and gone when they are idle."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import boxscore
from boxscore import Detections, Result, Truths

pytestmark = pytest.mark.native

NUM_DETECTIONS = 70_000
"""More than are evaluated on the calling thread."""


def _sides() -> tuple[Detections, Truths]:
    random = np.random.default_rng(0)
    corner, size = random.uniform(0, 500, (NUM_DETECTIONS, 2)), random.uniform(5, 100, (NUM_DETECTIONS, 2))
    image, label = np.sort(random.integers(700, size=NUM_DETECTIONS)), random.integers(20, size=NUM_DETECTIONS)
    box = np.hstack([corner, corner + size])
    is_truth = random.random(NUM_DETECTIONS) < 0.1
    return (
        Detections(image=image, label=label, score=random.random(NUM_DETECTIONS), box=box),
        Truths(image=image[is_truth], label=label[is_truth], box=box[is_truth] + 1),
    )


def test_calls_at_the_same_time_give_the_same_bits() -> None:
    """More calls than threads, each of which asks for several."""
    sides = _sides()
    alone = boxscore.evaluate(*sides, threads=1)

    def evaluate(threads: int) -> Result:
        return boxscore.evaluate(*sides, threads=threads)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(evaluate, [1, 2, 3, 4, 5, 6, 7, 8] * 3))
    for result in results:
        assert dict(result) == dict(alone)
        assert np.array_equal(result.curves.precision, alone.curves.precision)


_FORK = """
import os, sys
from tests.test_workers import _sides
import boxscore
sides = _sides()
expected = dict(boxscore.evaluate(*sides, threads=2))
child = os.fork()
if child == 0:
    os._exit(0 if dict(boxscore.evaluate(*sides, threads=2)) == expected else 1)
_, status = os.waitpid(child, 0)
assert dict(boxscore.evaluate(*sides, threads=2)) == expected
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes can't be forked here")
def test_a_forked_process_has_threads_of_its_own() -> None:
    """Those of its parent do not exist in it, and are not waited for."""
    done = subprocess.run([sys.executable, "-c", _FORK], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


_IDLE = """
import os, time
from tests.test_workers import _sides
import boxscore
sides = _sides()
def count():
    return len(os.listdir("/proc/self/task"))
before = count()
boxscore.evaluate(*sides, threads=2)
assert count() > before, "threads are kept for the next call"
deadline = time.monotonic() + 30
while count() > before:
    assert time.monotonic() < deadline, "threads end after a second"
    time.sleep(0.1)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted by Linux")
def test_threads_end_when_there_is_nothing_to_do() -> None:
    """So nothing of them is left when a training loop forks its loaders."""
    done = subprocess.run([sys.executable, "-c", _IDLE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
