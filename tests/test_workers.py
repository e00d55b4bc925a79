"""The threads of the compiled core: shared by calls at the same time, not by processes, and gone when they are idle."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import boxscore
from boxscore import Result
from tests.support.scenes import random_scene

pytestmark = pytest.mark.native

NUM_IMAGES = 2500
"""So many have more detections than are evaluated on the calling thread."""


def test_calls_at_the_same_time_give_the_same_bits() -> None:
    """More calls than threads, each of which asks for several."""
    scene = random_scene(0, num_images=NUM_IMAGES, most_detections=80)
    alone = boxscore.evaluate(scene.detections, scene.truths, threads=1)

    def evaluate(threads: int) -> Result:
        return boxscore.evaluate(scene.detections, scene.truths, threads=threads)

    assert len(scene.detections) > 1 << 16
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(evaluate, [1, 2, 3, 4, 5, 6, 7, 8] * 3))
    for result in results:
        assert dict(result) == dict(alone)
        assert np.array_equal(result.curves.precision, alone.curves.precision)


_SCENE = f"""
import os, sys, time
import boxscore
from tests.support.scenes import random_scene
scene = random_scene(0, num_images={NUM_IMAGES}, most_detections=80)
def evaluate():
    return dict(boxscore.evaluate(scene.detections, scene.truths, threads=2))
"""

_FORK = """
expected = evaluate()
child = os.fork()
if child == 0:
    os._exit(0 if evaluate() == expected else 1)
_, status = os.waitpid(child, 0)
assert evaluate() == expected
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes can't be forked here")
def test_a_forked_process_has_threads_of_its_own() -> None:
    """Those of its parent do not exist in it, and are not waited for."""
    done = subprocess.run([sys.executable, "-c", _SCENE + _FORK], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


_IDLE = """
def count():
    return len(os.listdir("/proc/self/task"))
before = count()
evaluate()
assert count() > before, "threads are kept for the next call"
deadline = time.monotonic() + 30
while count() > before:
    assert time.monotonic() < deadline, "threads end after a second"
    time.sleep(0.1)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted by Linux")
def test_threads_end_when_there_is_nothing_to_do() -> None:
    """So nothing of them is left when a training loop forks its loaders."""
    done = subprocess.run([sys.executable, "-c", _SCENE + _IDLE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
