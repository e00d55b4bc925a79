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


_DAEMON = """
import random, threading
import numpy as np
from boxscore.cli import sample
from boxscore.coco import mask
from boxscore.formats import read_detections, read_truths
scene = random_scene(0, num_images=300, most_detections=80)
result = boxscore.evaluate(scene.detections, scene.truths)
bits = np.asfortranarray(np.random.default_rng(0).random((200, 300, 16)) > 0.5).astype(np.uint8)
rows = {"boxes": np.ones((20, 4)) * [1, 1, 9, 9], "labels": np.ones(20, int)}
batch = [rows | {"scores": np.ones(20)}] * 400, [rows] * 400
def read():
    truths = read_truths(sample.FOLDER / "truths.json")
    read_detections(sample.FOLDER / "detections.json", truths)
def update():
    metric = boxscore.MeanAveragePrecision(warn=False)
    metric.update(*batch)
    metric.compute()
calls = {
    "evaluate": evaluate,
    "read": read,
    "masks": lambda: mask.decode(mask.encode(bits)),
    "update": update,
    "bootstrap": lambda: result.intervals(resamples=50),
}
def call_for_ever(name):
    while True:
        calls[name]()
codes = {}
for name in calls:
    for _ in range(15):
        child = os.fork()
        if child == 0:
            threading.Thread(target=call_for_ever, args=[name], daemon=True).start()
            time.sleep(random.random() / 20)
            sys.exit()
        codes.setdefault(name, []).append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
assert codes == dict.fromkeys(calls, [0] * 15), codes
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes can't be forked here")
def test_a_process_ends_while_a_daemon_thread_computes() -> None:
    """It wants the interpreter back when the main thread has ended: it waits for the end, and nothing aborts."""
    command = [sys.executable, "-W", "ignore", "-c", _SCENE + _DAEMON]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


_UPDATES = """
import threading
import numpy as np
rows = {"boxes": np.ones((20, 4)) * [1, 1, 9, 9], "labels": np.ones(20, int)}
batch = [rows | {"scores": np.ones(20)}] * 16, [rows] * 16
metric = boxscore.MeanAveragePrecision(warn=False)
def update_for_ever():
    while True:
        metric.update(*batch)
        time.sleep(0)
threading.Thread(target=update_for_ever, daemon=True).start()
for _ in range(40):
    child = os.fork()
    if child == 0:
        metric.compute()
        tally = metric.tally
        os._exit(0 if len(tally) == 20 * len(tally.all_images) and len(tally.all_images) % 16 == 0 else 1)
    deadline = time.monotonic() + 30
    while (status := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            sys.exit("the child hangs")
        time.sleep(0.001)
    assert os.waitstatus_to_exitcode(status[1]) == 0
    metric.reset()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes can't be forked here")
def test_a_process_that_is_forked_during_an_update_has_whole_batches() -> None:
    """Its metric is not locked for ever by a thread that only its parent has."""
    command = [sys.executable, "-W", "ignore", "-c", _SCENE + _UPDATES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


_TWO_LOCKS = """
import itertools, os, threading
from boxscore._support.locks import fork_safe_lock
locks = [fork_safe_lock() for _ in range(6)]
def lock_pairs():
    while True:
        for first, second in itertools.combinations(locks, 2):
            with first, second:
                fork_safe_lock()
for _ in range(2):
    threading.Thread(target=lock_pairs, daemon=True).start()
for _ in range(40):
    child = os.fork()
    if child == 0:
        os._exit(0 if all(lock.acquire(timeout=10) for lock in [*locks, fork_safe_lock()]) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes can't be forked here")
def test_a_fork_waits_for_no_lock_while_it_holds_another() -> None:
    """A thread holds one lock and needs a second one, which the forking thread would acquire first: both go on."""
    command = [sys.executable, "-W", "ignore", "-c", _TWO_LOCKS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
