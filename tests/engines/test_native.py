"""The compiled engine: any array in host memory, any number of threads and cells, and Ctrl-C."""

import ast
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, Protocol, Tally, Truths, _compiled
from tests.support.comparisons import TALLY, assert_same
from tests.support.scenes import Scene, random_scene

pytestmark = pytest.mark.native


def assert_same_tally(first: Tally, second: Tally) -> None:
    """Every column, bit for bit."""
    for column in TALLY:
        assert np.array_equal(getattr(first, column), getattr(second, column)), column


def large_scene() -> Scene:
    """Enough rows for several chunks of work, with limits that drop some."""
    return random_scene(8, num_images=150, num_classes=5, most_detections=600, most_truths=30)


@pytest.mark.parametrize("protocol", ["coco", "voc2012", "paper"])
def test_any_number_of_threads_gives_the_same_bits(protocol: str) -> None:
    """One to more than there are cores."""
    scene = large_scene()
    changed = Protocol.named(protocol, limits=(1, 20))
    assert len(scene.detections) > 2**15
    first = boxscore.match(scene.detections, scene.truths, changed, "native", threads=1)
    expected = boxscore.finish(first, "native", threads=1)
    for threads in (2, 3, 8):
        tally = boxscore.match(scene.detections, scene.truths, changed, "native", threads=threads)
        assert_same_tally(tally, first)
        assert_same(boxscore.finish(tally, "native", threads=threads), expected)


def test_the_number_of_threads_comes_from_the_call_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it is that of the cores this process may use."""
    from boxscore._support.threads import num_threads

    for variable in ("BOXSCORE_THREADS", "OMP_NUM_THREADS", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(variable, raising=False)
    assert num_threads(None) == len(os.sched_getaffinity(0))
    monkeypatch.setenv("BOXSCORE_THREADS", "5")
    assert num_threads(None) == 5
    assert num_threads(2) == 2
    monkeypatch.setenv("BOXSCORE_THREADS", "many")
    with pytest.raises(InputError, match=r"^BOXSCORE_THREADS must be a positive integer; got many$"):
        num_threads(None)
    with pytest.raises(InputError, match=r"^`threads` must be a positive integer; got 0$"):
        num_threads(0)


@pytest.mark.parametrize(
    ("variables", "num"),
    [
        ({"OMP_NUM_THREADS": "1"}, 1),
        ({"OMP_NUM_THREADS": "3,2"}, 3),  # one number per level of nesting
        ({"OMP_NUM_THREADS": "999"}, 8),  # an upper bound, no order
        ({"OMP_NUM_THREADS": "many"}, 8),
        ({"OMP_NUM_THREADS": "0"}, 8),
        ({"LOCAL_WORLD_SIZE": "3"}, 2),
        ({"LOCAL_WORLD_SIZE": "16"}, 1),
        ({"LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "3"}, 3),
        ({"LOCAL_WORLD_SIZE": "4", "OMP_NUM_THREADS": "3"}, 2),
        ({"LOCAL_WORLD_SIZE": "4", "OMP_NUM_THREADS": "1", "BOXSCORE_THREADS": "6"}, 6),
    ],
)
def test_launchers_limit_the_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], num: int
) -> None:
    """The cores are shared by the processes on a machine, and OMP_NUM_THREADS is a bound; BOXSCORE_THREADS decides."""
    from boxscore._support.threads import num_threads

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    for variable in ("BOXSCORE_THREADS", "OMP_NUM_THREADS", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert num_threads(None) == num
    assert num_threads(5) == 5


@pytest.mark.parametrize("num_thresholds", [1, 16, 17, 64, 65, 130])
@pytest.mark.parametrize("name", ["coco", "voc2012", "paper"])
def test_any_number_of_cells(name: str, num_thresholds: int) -> None:
    """One word of verdicts for up to 64 thresholds x areas, several beyond; areas may straddle words."""
    scene = random_scene(6, num_images=6)
    areas = {"all": (0, 1e10), "small": (0, 900), "medium": (900, 4000), "large": (4000, None)}
    protocol = Protocol.named(name, thresholds=np.linspace(0.1, 0.9, num_thresholds), areas=areas)
    native = boxscore.match(scene.detections, scene.truths, protocol, "native")
    assert native.is_true.shape[1] == -(-4 * num_thresholds // 64)
    assert_same_tally(native, boxscore.match(scene.detections, scene.truths, protocol, "parallel"))
    assert_same(boxscore.finish(native, "native"), boxscore.finish(native, "parallel"))


def test_more_than_seven_area_ranges() -> None:
    """States take eight bytes then."""
    scene = random_scene(6, num_images=6)
    areas = {f"area {a}": (a * 300, (a + 2) * 300) for a in range(12)}
    protocol = Protocol.named("coco", areas=areas)
    native = boxscore.match(scene.detections, scene.truths, protocol, "native")
    assert native.state.dtype == np.uint64
    assert_same_tally(native, boxscore.match(scene.detections, scene.truths, protocol, "sequential"))
    assert_same(boxscore.finish(native, "native"), boxscore.finish(native, "parallel"))


def strided(array: np.ndarray) -> np.ndarray:
    """The same values, with gaps in between."""
    wide = np.zeros((array.shape[0] * 3, *array.shape[1:]), array.dtype)
    wide[::3] = array
    return wide[::3]


def misaligned(array: np.ndarray) -> np.ndarray:
    """The same values, one byte off."""
    memory = np.zeros(array.nbytes + 1, np.uint8)
    shifted = memory[1:].view(array.dtype).reshape(array.shape)
    shifted[...] = array
    return shifted


LAYOUTS: dict[str, Any] = {
    "big-endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "strided": strided,
    "reversed": lambda array: array[::-1].copy()[::-1],
    "fortran": np.asfortranarray,
    "misaligned": misaligned,
    "torch": lambda array: pytest.importorskip("torch").from_numpy(array.copy()),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_of_memory(layout: str) -> None:
    """Numbers are numbers wherever their bytes are; inputs are left alone."""
    scene = random_scene(5)
    change = LAYOUTS[layout]
    found, there = ({n: change(c) for n, c in columns.items()} for columns in (scene.detection, scene.truth))
    tally = boxscore.match(
        Detections(**found, box_format="xywh"),
        Truths(**there, box_format="xywh", class_names=scene.truths.class_names),
        "coco",
        "native",
    )
    assert_same_tally(tally, boxscore.match(scene.detections, scene.truths, "coco", "sequential"))
    assert np.array_equal(np.asarray(found["boxes"]), scene.detection["boxes"])


@pytest.mark.parametrize("ids", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("reals", ["float16", "float32", "float64"])
def test_any_width_of_number(ids: str, reals: str) -> None:
    """Small floats are widened, which loses nothing; the sequential engine sees the same numbers."""
    scene = random_scene(5)
    found = scene.detection | {
        "image_ids": scene.detection["image_ids"].astype(ids),
        "labels": scene.detection["labels"].astype(ids),
        "scores": scene.detection["scores"].astype(reals),
        "boxes": scene.detection["boxes"].astype(reals),
    }
    detections = Detections(**found, box_format="xywh")
    native = boxscore.match(detections, scene.truths, "coco", "native")
    assert_same_tally(native, boxscore.match(detections, scene.truths, "coco", "sequential"))


@pytest.mark.parametrize("spread", [1, 10**4, 10**12])
def test_ids_need_not_be_dense_or_small(spread: int) -> None:
    """By a table where that is cheap, by search where not."""
    scene = random_scene(5)
    found, there = (
        columns | {name: (columns[name] - 2) * spread for name in ("image_ids", "labels")}
        for columns in (scene.detection, scene.truth)
    )
    truths = Truths(**there, box_format="xywh")
    native = boxscore.match(Detections(**found, box_format="xywh"), truths, "coco", "native")
    assert native.image.dtype == (np.int64 if spread == 10**12 else np.int32)
    plain = boxscore.match(scene.detections, Truths(**scene.truth, box_format="xywh"), "coco", "native")
    assert np.array_equal(native.state, plain.state)
    assert np.array_equal(native.classes, (plain.classes - 2) * spread)


def test_a_detection_takes_at_most_24_bytes() -> None:
    """And so does a million of them: 18 for every one, and 16 more for the few that meet a truth."""
    random = np.random.default_rng(0)
    num = 10_000
    corner = random.uniform(0, 600, (num, 2))
    detections = Detections(
        image_ids=np.repeat(np.arange(100), 100),
        labels=random.integers(0, 20, num),
        scores=random.random(num),
        boxes=np.concatenate([corner, corner + random.uniform(5, 200, (num, 2))], axis=1),
    )
    row = random.choice(num, 700, replace=False)
    truths = Truths(image_ids=detections.image_ids[row], labels=detections.labels[row], boxes=detections.boxes[row])
    tally = boxscore.match(detections, truths)
    assert tally.nbytes <= 24 * len(tally)


def test_columns_of_a_tally_that_do_not_fit_together_are_refused() -> None:
    """Compiled code trusts nothing that could make it read where it should not."""
    from dataclasses import replace

    scene = random_scene(5)
    tally = boxscore.match(scene.detections, scene.truths)
    broken: dict[str, dict[str, Any]] = {
        "tier: beyond the limits": {"tier": np.full_like(tally.tier, 3)},
        "is_true: expected one row per hit": {"is_true": tally.is_true[1:], "is_counted": tally.is_counted[1:]},
        "is_counted: unexpected dtype or size": {"is_counted": tally.is_counted[1:]},
        "score: unexpected dtype or size": {"score": tally.score[1:]},
        "state: unexpected dtype or size": {"state": tally.state.astype(np.uint64)},
        "state: beyond the area ranges": {"state": tally.state | np.uint8(128)},
        "classes: not ascending": {"classes": tally.classes[::-1]},
        "truth_label: not among the classes": {"truth_label": tally.truth_label + 1000},
        "truth_state: unexpected dtype or size": {"truth_state": tally.truth_state[1:]},
        "label: not among the classes": {"label": tally.label + 1000},
    }
    for message, change in broken.items():
        with pytest.raises(ValueError, match=message):
            boxscore.finish(replace(tally, **change), "native")


def test_groups_that_do_not_fit_their_rows_are_refused() -> None:
    """Where the rows of each image begin must ascend from 0 to all of them, on both sides."""
    box, flags = np.ones((3, 4)), np.zeros(2, np.uint8)
    starts = {"start": np.array([0, 1, 3]), "truth_start": np.array([0, 0, 2])}
    groups = _compiled.ImageGroups(**starts)
    overlap = _compiled.overlaps(groups, box, box[:2], flags, 1)
    assert overlap.tolist() == [1.0] * 4
    wrong = [{"start": np.array([0, 4, 3])}, {"start": np.array([1, 1, 3])}, {"truth_start": np.array([0, 0, 1])}]
    wrong += [{"start": np.array([0, 3])}, {"start": np.zeros(0, np.int64)}]
    for change in wrong:
        with pytest.raises(ValueError, match=r"must ascend from 0|unexpected size"):
            _compiled.overlaps(_compiled.ImageGroups(**(starts | change)), box, box[:2], flags, 1)
    detections = _compiled.GroupedDetections(np.ones(3), np.ones(3))
    truths = _compiled.GroupedTruths(np.ones(2), np.ones(2), flags, flags)
    rules = _compiled.AssignmentRules([0.5], [0.0], [9.0])
    assert _compiled.assign(groups, overlap, detections, truths, rules, 1).match.tolist() == [[0.0, 1.0, 1.0]]
    with pytest.raises(ValueError, match="overlap: unexpected"):
        _compiled.assign(groups, overlap[:2], detections, truths, rules, 1)
    with pytest.raises(ValueError, match="area_high: unexpected"):
        _compiled.assign(groups, overlap, detections, truths, _compiled.AssignmentRules([0.5], [0.0], []), 1)


def test_after_an_overlap_that_is_no_number_the_last_truth_wins_as_in_coco() -> None:
    """One detection and two truths: pycocotools asks whether an overlap is below the best, and NaN has none below."""
    groups = _compiled.ImageGroups(np.array([0, 1]), np.array([0, 2]))
    detections = _compiled.GroupedDetections(np.ones(1), np.array([7.0]))
    truths = _compiled.GroupedTruths(np.ones(2), np.array([3.0, 4.0]), np.zeros(2, np.uint8), np.zeros(2, np.uint8))
    rules = _compiled.AssignmentRules([0.5], [0.0], [9.0])
    for overlap, taken in (
        ([np.nan, 1.0], 4),
        ([np.nan, 0.0], 4),
        ([0.9, 1.0], 4),
        ([0.0, np.nan], 4),
        ([1.0, 0.9], 3),
    ):
        assigned = _compiled.assign(groups, np.array(overlap), detections, truths, rules, 1)
        assert assigned.match.tolist() == [[taken]]


def test_indices_of_ids_that_are_not_there_are_below_0() -> None:
    """In small tables and in wide ones."""
    for step in (1, 10**12):
        found = _compiled.find(np.array([5, 3, 3, 9]) * step, np.array([3, 4, 5]) * step)
        assert found.tolist() == [2, 0, 0, -1]
    assert _compiled.find(np.array([1]), np.zeros(0, np.int64)).tolist() == [-1]


def test_other_threads_run_meanwhile() -> None:
    """The interpreter lock is released."""
    scene = large_scene()
    is_done = threading.Event()
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        while not is_done.is_set():
            ticks += 1
            time.sleep(0)

    ticker = threading.Thread(target=tick)
    ticker.start()
    meanwhile = 0
    for _ in range(5):
        before = ticks
        boxscore.match(scene.detections, scene.truths, threads=1)
        meanwhile += ticks - before
    is_done.set()
    ticker.join()
    assert meanwhile > 0


@pytest.mark.not_sanitized
@pytest.mark.parametrize("num_small", [0, 4])
def test_ctrl_c_stops_a_long_evaluation_within_a_second(num_small: int) -> None:
    """In an image of one class, where matching would take minutes; others beside it are done while one thread works."""
    code = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests may have it ignored
import numpy as np, boxscore
num, small = 100_000, 5_000
image = np.repeat(np.arange(1 + {num_small}), [num] + [small] * {num_small})
box = np.random.default_rng(0).uniform(0, 1, (image.size, 4)) + [0, 0, 100, 100]
box[num:] += 1000 * np.arange(image.size - num)[:, None]
columns = dict(image_ids=image, labels=np.zeros(image.size, int), boxes=box)
found = boxscore.Detections(**columns, scores=np.linspace(0, 1, image.size))
print("ready", flush=True)
boxscore.evaluate(found, boxscore.Truths(**columns), boxscore.Protocol.named("coco", limits=(None,)), threads=2)
"""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    run = subprocess.Popen([sys.executable, "-c", code], **pipes)  # type: ignore[call-overload]
    try:
        assert run.stdout.readline() == "ready\n"
        time.sleep(1.5)
        assert run.poll() is None, "it was not long"
        start = time.monotonic()
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=20)
        assert time.monotonic() - start < 1
        assert err.rstrip().endswith("KeyboardInterrupt")
    finally:
        run.kill()
        run.communicate()


def test_the_mean_over_recall_points_has_the_same_bits_for_a_single_class() -> None:
    """Found by fuzzing: NumPy sums a column in another order if it is the only one."""
    for seed in range(20):
        scene = random_scene(seed, num_images=6, num_classes=3)
        protocol = Protocol.named("coco", class_agnostic=True, recall_points=np.linspace(0.02, 0.94, 29))
        native = boxscore.evaluate(scene.detections, scene.truths, protocol, "native")
        assert_same(native, boxscore.evaluate(scene.detections, scene.truths, protocol, "parallel"))


def crowded_scene(seed: int, *, far: float, size: float) -> Scene:
    """Many truths of one class in an image, `far` from the origin, some of them crowds, some thin as a line."""
    random = np.random.default_rng(seed)
    num_truths, num_found = 120, 240
    extent = size * np.exp(random.normal(0, 1, (num_truths, 2)))
    extent[random.random(num_truths) < 0.1, 0] *= 1e-7
    corner = far + random.uniform(0, 8 * size, (num_truths, 2))
    truth = np.concatenate([corner, extent], axis=1)
    near = truth[random.integers(0, num_truths, num_found)]
    near[:, :2] += random.normal(0, 0.15, (num_found, 2)) * near[:, 2:]
    near[:, 2:] *= random.choice([0.5, 0.75, 1.0, 1.5, 2.0], (num_found, 2))
    return Scene(
        detection={
            "image_ids": np.zeros(num_found, int),
            "labels": random.integers(0, 2, num_found),
            "scores": np.round(random.random(num_found), 2),
            "boxes": near,
        },
        truth={
            "image_ids": np.zeros(num_truths, int),
            "labels": random.integers(0, 2, num_truths),
            "boxes": truth,
            "ignore": random.random(num_truths) < 0.1,
            "area": truth[:, 2] * truth[:, 3],
        },
        num_classes=2,
        num_images=1,
    )


@pytest.mark.parametrize("far", [0.0, 300.0, -1e7, 1e15])
@pytest.mark.parametrize("size", [1.0, 1e3])
@pytest.mark.parametrize("protocol", ["coco", "voc2012"])
def test_truths_that_are_passed_over_could_not_have_matched(protocol: str, size: float, far: float) -> None:
    """Where a class has many truths, a detection meets those near it only; none is missed, however boxes round."""
    for seed in range(6):
        scene = crowded_scene(seed, far=far, size=size)
        for lowest in (0.02, 0.5, 0.9):
            changed = Protocol.named(protocol, thresholds=(lowest, 0.95), limits=(None,))
            expected = boxscore.match(scene.detections, scene.truths, changed, "sequential")
            assert_same_tally(boxscore.match(scene.detections, scene.truths, changed, "native"), expected)


@pytest.mark.parametrize("num_truths", [1, 3, 11, 12, 13, 16, 17, 63, 64, 65, 70, 127, 130, 200])
def test_truths_at_one_place_are_all_met(num_truths: int) -> None:
    """However many there are: vectors that are not full, and windows with more truths than a mask has bits."""
    random = np.random.default_rng(num_truths)
    box = np.tile([50.0, 50.0, 20.0, 20.0], (num_truths, 1)) + random.uniform(0, 8, (num_truths, 4))
    near = np.tile([50.0, 50.0, 20.0, 20.0], (150, 1)) + random.uniform(-4, 12, (150, 4))
    truths = Truths(
        image_ids=[0] * num_truths,
        labels=[0] * num_truths,
        boxes=box,
        ignore=random.random(num_truths) < 0.05,
        box_format="xywh",
    )
    detections = Detections(
        image_ids=[0] * 150, labels=[0] * 150, scores=np.round(random.random(150), 1), boxes=near, box_format="xywh"
    )
    for lowest in (0.3, 0.5, 0.8):
        protocol = Protocol.named("coco", thresholds=(lowest, 0.85), limits=(None,))
        expected = boxscore.match(detections, truths, protocol, "sequential")
        assert_same_tally(boxscore.match(detections, truths, protocol, "native"), expected)


def scores_of(kind: str, num: int, random: np.random.Generator) -> Any:
    """So many scores."""
    made = {
        "random": random.random(num),
        "tied": np.round(random.random(num), 1),
        "equal": np.full(num, 0.5),
        "falling": np.sort(random.random(num))[::-1],
        "rising": np.sort(random.random(num)),
        "close, but for one": np.append(0.5 + random.random(num - 1) * 1e-9, 1e-300),
        "of both signs": random.normal(size=num) * (random.random(num) < 0.8),
    }
    return made[kind]


@pytest.mark.parametrize(
    "kind", ["random", "tied", "equal", "falling", "rising", "close, but for one", "of both signs"]
)
def test_detections_rank_by_score_in_classes_of_any_size(kind: str) -> None:
    """Of equal scores the first row first: areas tell which is which, as there is no truth."""
    random = np.random.default_rng(0)
    protocol = Protocol.named("coco", areas={f"size {i}": (4.0**i, 4.0 ** (i + 1)) for i in range(6)}, limits=(None,))
    truths = Truths(image_ids=[0], labels=[10**6], boxes=[[0, 0, 1, 1]])
    for num in (1, 2, 3, 15, 16, 17, 33, 100, 511, 512, 600, 1023, 1024, 3000):
        extent = 2.0 ** random.uniform(0, 6, (num, 1)) * [[1.0, 1.0]]
        detections = Detections(
            image_ids=np.zeros(num, int),
            labels=random.integers(0, 2, num) if num > 100 else np.zeros(num, int),
            scores=scores_of(kind, num, random),
            boxes=np.concatenate([np.zeros((num, 2)), extent], axis=1),
            box_format="xywh",
        )
        expected = boxscore.match(detections, truths, protocol, "sequential")
        assert_same_tally(boxscore.match(detections, truths, protocol, "native"), expected)


def test_means_have_the_bits_of_numpy() -> None:
    """In every branch of its order of additions; what is -1 does not count."""
    import boxscore._compiled as compiled

    random = np.random.default_rng(0)
    for size in [1, 2, 7, 8, 9, 15, 127, 128, 129, 136, 255, 256, 257, 1000, 4097, 100_003]:
        values = random.random((2, size, 3, 2))
        values[random.random(values.shape) < 0.2] = -1
        chosen = values[[1, 0], :, 2, 1]
        defined = chosen[chosen > -1]
        mean = compiled.mean_samples(values, [1, 0], 2, 1)
        assert np.isnan(mean) if defined.size == 0 else mean == np.mean(defined), size


def test_more_rows_than_32_bits_can_number_are_refused() -> None:
    """With what to do instead. The memory is never touched."""
    import boxscore._compiled as compiled

    many, none = np.zeros(2**31, np.int8), compiled.Boxes(np.zeros((0, 4)), compiled.BoxFormat.xyxy, False)
    with pytest.raises(ValueError, match="more than 2\\*\\*31 - 1 rows; match in batches and merge the tallies"):
        compiled.Detections(many, many, many, none)


def test_without_a_compiler_the_build_says_what_to_install(tmp_path: Path) -> None:
    """There is no slow path to fall back to in silence."""
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("cmake is not on the PATH; the build brings its own")
    source = Path(__file__).parents[2]
    done = subprocess.run(
        [cmake, "-S", source, "-B", tmp_path],
        env=os.environ | {"CXX": "no-such-compiler"},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    message = " ".join(done.stderr.split())
    assert "boxscore needs a C++17 compiler to build its engine, and found none." in message
    assert "'apt install g++' (Debian, Ubuntu)" in message


def test_limits_beyond_any_number_of_rows_are_none() -> None:
    """More than 32 bits, and all the same as no limit at all."""
    scene = random_scene(4)
    expected = boxscore.evaluate(scene.detections, scene.truths, Protocol.named("coco", limits=(2, None)))
    result = boxscore.evaluate(scene.detections, scene.truths, Protocol.named("coco", limits=(2, 2**32, 2**70)))
    assert result["map"] == expected["map"]
    assert np.array_equal(result.curves.precision[..., 2], expected.curves.precision[..., 1])
    assert np.array_equal(result.curves.precision[..., 1], expected.curves.precision[..., 1])


CHANGED_MEANWHILE = """
import threading
import numpy as np
import boxscore

random = np.random.default_rng(0)
image, label = random.integers(0, 2_000, 200_000), random.integers(0, 80, 200_000)
box = np.tile([0.0, 0.0, 10.0, 10.0], (image.size, 1))
detections = boxscore.Detections(image_ids=image, labels=label, scores=random.random(image.size), boxes=box)
truths = boxscore.Truths(image_ids=image[:2_000], labels=label[:2_000].copy(), boxes=box[:2_000])
tally = boxscore.match(detections, truths)
is_done = threading.Event()

def change():
    while not is_done.is_set():
        for value in (79, 1 << 40, -(1 << 40), 1):
            label[:] = value
        for column, value in ((tally.state, 255), (tally.tier, 250), (tally.state, 0), (tally.tier, 0)):
            column[:] = value

thread = threading.Thread(target=change)
thread.start()
num_results = 0
for _ in range(30):
    for compute in (lambda: boxscore.evaluate(detections, truths), lambda: boxscore.finish(tally)):
        try:
            compute()
            num_results += 1
        except ValueError:
            pass
is_done.set()
thread.join()
print(num_results)
"""


def test_columns_that_another_thread_changes_meanwhile_do_no_harm() -> None:
    """Any result or a ValueError, but no memory is touched that is not ours: a process of its own would die of it."""
    done = subprocess.run([sys.executable, "-c", CHANGED_MEANWHILE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert 0 <= int(done.stdout) <= 60


@pytest.mark.skipif(sys.platform != "linux", reason="the flags of ELF files")
def test_the_compiled_core_is_built_hardened() -> None:
    """No lazy binding, no executable stack, and canaries on the stack."""
    if (readelf := shutil.which("readelf")) is None:
        pytest.skip("needs readelf")
    listing = subprocess.run([readelf, "-Wlds", _compiled.__file__], capture_output=True, text=True, check=True).stdout
    assert "GNU_RELRO" in listing
    assert "BIND_NOW" in listing
    assert "__stack_chk_fail" in listing
    assert not [line for line in listing.splitlines() if "GNU_STACK" in line and "E" in line.split()[-2]]


def test_the_stub_is_that_of_the_compiled_module() -> None:
    """`make stubs` was run after the bindings changed, so mypy checks every call of them."""
    from tests.support.stubs import PATH, make_stub

    assert ast.dump(ast.parse(PATH.read_text())) == ast.dump(ast.parse(make_stub()))
