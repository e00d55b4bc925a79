"""The state for compiled JAX loops: jitted, scanned and merged, it gives the bits of one evaluation of everything."""

import importlib
import json
import os
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import InputError, Protocol
from tests.support.padded_batches import batched
from tests.support.scenes import random_scene

jax = pytest.importorskip("jax", reason="JAX is not installed")
metric = importlib.import_module("boxscore.jax")
update, merge = jax.jit(metric.update), jax.jit(metric.merge)
jnp = jax.numpy
NAMES = [f"class {label}" for label in range(4)]


@pytest.fixture(autouse=True, scope="module")
def _double() -> Any:
    jax.config.update("jax_enable_x64", True)  # as the other tests of JAX have it


def fresh(protocol: Any, capacity: int = 2000) -> Any:
    """A state for scenes."""
    return metric.init(capacity, protocol, box_format="xywh", class_names=NAMES)


def assert_equal(result: boxscore.Result, expected: boxscore.Result) -> None:
    """To the last bit, curves and all."""
    assert dict(result) == pytest.approx(dict(expected), abs=0, nan_ok=True)
    for name in ("precision", "recall", "scores", "average_precision", "num_true", "num_false"):
        ours, theirs = (getattr(each.curves, name) for each in (result, expected))
        assert np.array_equal(ours, theirs, equal_nan=True), name
    assert np.array_equal(result.per_class.num_truths, expected.per_class.num_truths)
    assert result.per_class.name == expected.per_class.name


PROTOCOLS: list[str | Protocol] = ["coco", "voc2007", "voc2012", "paper", Protocol.named("coco", class_agnostic=True)]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=["coco", "voc2007", "voc2012", "paper", "agnostic"])
def test_jitted_updates_give_the_bits_of_evaluate(protocol: Any) -> None:
    """Over batches of three, the last padded with empty images."""
    scene = random_scene(3, num_images=11)
    donating = jax.jit(metric.update, donate_argnums=0)
    state = fresh(protocol)
    for batch in batched(scene, 3):
        state = donating(state, *batch)
    assert_equal(metric.compute(state), boxscore.evaluate(scene.detections, scene.truths, protocol))


@pytest.mark.parametrize("protocol", ["coco", "voc2012"])
def test_a_scan_over_batches_gives_the_bits_of_evaluate(protocol: Any) -> None:
    """The whole epoch is one compiled program."""
    scene = random_scene(4)
    batches = jax.tree.map(lambda *leaves: jnp.stack(leaves), *batched(scene, 4))

    def step(state: Any, batch: Any) -> tuple[Any, None]:
        return metric.update(state, *batch), None

    state, _ = jax.jit(partial(jax.lax.scan, step))(fresh(protocol), batches)
    assert_equal(metric.compute(state), boxscore.evaluate(scene.detections, scene.truths, protocol))


def test_merged_states_are_one() -> None:
    """Whichever saw which batch, in either order."""
    scene = random_scene(5, num_images=10)
    one, other = fresh("coco"), fresh("coco")
    for index, batch in enumerate(batched(scene, 2)):
        if index in (0, 3):
            one = update(one, *batch)
        else:
            other = update(other, *batch)
    expected = boxscore.evaluate(scene.detections, scene.truths)
    assert_equal(metric.compute(merge(one, other)), expected)
    assert_equal(metric.compute(merge(other, one)), expected)
    assert_equal(metric.compute(merge(fresh("coco", 1), merge(one, other))), expected)


def test_truths_without_areas_or_flags_are_measured_by_their_boxes() -> None:
    """As everywhere else."""
    scene = random_scene(6)
    del scene.truth["area"]
    state = fresh("coco")
    for batch in batched(scene, 6, areas=False):
        state = update(state, *batch)
    assert_equal(metric.compute(state), boxscore.evaluate(scene.detections, scene.truths))


def test_a_state_that_has_seen_nothing_has_no_numbers() -> None:
    """NaN is undefined."""
    result = metric.compute(fresh("voc2012"))
    assert np.isnan(result["map"])
    assert len(result.per_class) == 4


PRED = {
    "boxes": np.tile(np.array([0.0, 0, 9, 9]), (2, 3, 1)),
    "labels": np.ones((2, 3), int),
    "scores": np.array([[0.9, 0.5, 0.4]] * 2),
}
TARGET = {"boxes": PRED["boxes"][:, :1], "labels": np.ones((2, 1), int)}


def test_the_last_row_of_the_buffer_can_be_used() -> None:
    """And padding beyond it harms no earlier row: 8 detections in room for 8, with a batch of 6 rows at row 4."""
    discarded = np.array([[False, True, False], [False, False, True]])
    pred = PRED | {"discarded": discarded, "scores": np.array([[0.9, 0.1, 0.8], [0.7, 0.6, 0.1]])}
    state = metric.init(8, "voc2012")
    for first in (0, 2):
        state = update(state, pred, TARGET, np.array([first, first + 1]))
    result = metric.compute(state)
    assert result.per_class.num_detections.tolist() == [8]
    assert result.per_class.num_true.tolist() == [[4]]


def test_what_found_no_room_is_an_error_and_stays_one() -> None:
    """Also after a merge with a state that has room."""
    state = metric.init(10, "voc2012")
    for first in (0, 2):
        state = update(state, PRED, TARGET, np.array([first, first + 1]))
    with pytest.raises(InputError, match=r"`capacity` must be at least the number of rows; got 10, and 12 detections"):
        metric.compute(state)
    with pytest.raises(InputError, match="`capacity`"):
        metric.compute(merge(metric.init(10, "voc2012"), state))

    few = metric.init(100, "voc2012", truth_capacity=3)
    for first in (0, 2):
        few = update(few, PRED, TARGET, np.array([first, first + 1]))
    with pytest.raises(InputError, match=r"`truth_capacity` must be .*; got 3, and 4 truths came"):
        metric.compute(few)


def test_a_batch_larger_than_the_room_is_refused_at_once() -> None:
    """When the step is compiled, before it runs."""
    with pytest.raises(InputError, match=r"`capacity` must have room for a batch, 2 \* 3 with its padding; got 5"):
        update(metric.init(5, "voc2012"), PRED, TARGET, np.array([0, 1]))


def test_numbers_that_are_not_finite_are_reported_by_compute() -> None:
    """A compiled step can't refuse them; in padding they don't matter."""
    for key, value in (("scores", np.nan), ("boxes", np.inf)):
        spoilt = PRED | {key: PRED[key].copy()}
        spoilt[key][1, 2] = value
        state = update(metric.init(10, "voc2012", invalid="error"), spoilt, TARGET, np.array([0, 1]))
        rule = r"must have finite numbers, no negative size, and sides up to 1e\+18"
        with pytest.raises(InputError, match=f"{rule}; got 1 row that had not"):
            metric.compute(state)
        padding = spoilt | {"labels": np.array([[1, 1, 1], [1, 1, -1]])}
        assert metric.compute(update(metric.init(10, "voc2012"), padding, TARGET, np.array([0, 1])))["map"] == 1
    reversed_box = TARGET | {"boxes": -TARGET["boxes"]}
    with pytest.raises(InputError, match="got 2 rows"):
        metric.compute(update(metric.init(10, "voc2012"), PRED, reversed_box, np.array([0, 1])))


@pytest.mark.parametrize("protocol", ["coco", "voc2012"])
@pytest.mark.parametrize("step", [update, metric.update], ids=["jitted", "eager"])
def test_detections_that_can_not_be_are_dropped(protocol: str, step: Any) -> None:
    """As if they had been discarded: they take no room, and `compute` counts them."""
    random = np.random.default_rng(0)
    low = random.integers(0, 20, (2, 9, 2)).astype(float)
    pred = {"boxes": np.concatenate([low, low + random.integers(5, 20, (2, 9, 2))], axis=2)}
    pred |= {"labels": random.integers(0, 2, (2, 9)), "scores": random.random((2, 9))}
    target = {"boxes": pred["boxes"][:, ::3] + 1, "labels": pred["labels"][:, ::3]}
    spoilt = {key: column.copy() for key, column in pred.items()}
    spoilt["boxes"][0, 1, 2], spoilt["boxes"][0, 4], spoilt["boxes"][1, 0, 0] = np.nan, [9, 9, 1, 1], -np.inf
    spoilt["scores"][1, 6] = np.nan
    discarded = np.zeros((2, 9), bool)
    discarded[[0, 0, 1, 1], [1, 4, 0, 6]] = True
    states = [
        step(metric.init(18, protocol), each, target, np.arange(2))
        for each in (spoilt, pred | {"discarded": discarded})
    ]
    with pytest.warns(
        UserWarning, match=r'^4 invalid detections dropped; init\(invalid="error"\) makes them an error$'
    ):
        result = metric.compute(states[0])
    expected = metric.compute(states[1])
    assert int(states[0].detections.num) == int(states[1].detections.num)
    assert np.array_equal(list(result.values()), list(expected.values()), equal_nan=True)
    assert np.array_equal(result.curves.precision, expected.curves.precision, equal_nan=True)
    assert (result.num_invalid, expected.num_invalid) == (4, 0)
    assert "4 invalid detections dropped" in result.comparable.differences
    later = step(metric.init(18, protocol), spoilt, target, np.arange(2, 4))
    with pytest.warns(UserWarning, match="8 invalid detections dropped"):
        assert metric.compute(metric.merge(states[0], later)).num_invalid == 8
    with pytest.raises(InputError, match=r"^`invalid` must be one of error, drop; got 'no'$"):
        metric.init(18, protocol, invalid="no")


@pytest.mark.parametrize("box", [np.array([9, 9, 0, 0], np.uint8), np.array([0, 0, 1e30, 1e30], np.float32)])
def test_a_size_that_can_not_be_is_reported_in_any_dtype(box: Any) -> None:
    """Unsigned integers know no negative difference, and the area of a box that large is infinite in float32."""
    spoilt = TARGET | {"boxes": np.tile(box, (2, 1, 1))}
    with pytest.raises(InputError, match=r"sides up to 1e\+18; got 2 rows that had not"):
        metric.compute(update(metric.init(10, "voc2012"), PRED, spoilt, np.array([0, 1])))


@pytest.mark.parametrize("wrap", [list, tuple, np.array, jnp.array], ids=["list", "tuple", "numpy", "jax"])
def test_image_ids_may_be_a_list(wrap: Any) -> None:
    """Jitted or not; in a jitted step each of its numbers is traced."""
    for step in (update, metric.update):
        assert metric.compute(step(metric.init(10, "voc2012"), PRED, TARGET, wrap([7, 8])))["map"] == 1


def test_image_ids_may_be_names() -> None:
    """Outside of a jitted step, which takes numbers only; a name that comes twice is found."""
    state = metric.update(metric.init(20, "voc2012"), PRED, TARGET, ["a.jpg", "b.jpg"])
    assert metric.compute(state)["map"] == 1
    with pytest.raises(InputError, match="came more than once"):
        metric.compute(metric.update(state, PRED, TARGET, ["c.jpg", "a.jpg"]))


def test_an_image_that_comes_twice_is_an_error() -> None:
    """In one batch, in two, or in two states."""
    once = update(metric.init(20, "voc2012"), PRED, TARGET, np.array([3, 4]))
    twice = update(once, PRED, TARGET, np.array([4, 5]))
    same = update(metric.init(20, "voc2012"), PRED, TARGET, np.array([4, 4]))
    for state in (twice, same, merge(once, once)):
        with pytest.raises(InputError, match=r"image [34] came more than once"):
            metric.compute(state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": np.ones((2, 4))}, r"`preds`: `scores` must have shape \(2, 3\), to go with `labels`; got \(2, 4\)"),
        ({"labels": np.ones((2, 3))}, "`preds`: `labels` must hold integers; got float64"),
        ({"score": np.ones((2, 3))}, "`preds` must have no keys but boxes, scores, labels, discarded; got 'score'"),
        ({"labels": None}, r"`preds` must have the key 'labels'; got \['boxes', 'scores'\]"),
        ({"discarded": np.ones((2, 3))}, "`preds`: `discarded` must hold booleans, or integers 0 and 1; got float64"),
    ],
)
def test_errors_name_the_argument_and_the_rule(change: dict[str, Any], message: str) -> None:
    """Shapes and types are known while tracing, so these come at once."""
    with pytest.raises(InputError, match=message):
        update(metric.init(20, "voc2012"), PRED | change, TARGET, np.array([0, 1]))


def test_other_errors_name_the_argument_and_the_rule() -> None:
    """Made with nonsense, updated with nonsense, merged with another kind, computed from nothing."""
    state = metric.init(20, "voc2012")
    with pytest.raises(InputError, match="`capacity` must be a number of rows, at least 1; got 0"):
        metric.init(0, "coco")
    with pytest.raises(InputError, match="must have as many images; got 2, 2 and shape"):
        update(state, PRED, TARGET, np.array([0, 1, 2]))
    with pytest.raises(InputError, match="`preds` must be a dict of padded arrays; got list"):
        update(state, [], TARGET, np.array([0, 1]))
    with pytest.raises(InputError, match="`preds` must have the key 'scores'"):
        update(state, TARGET, TARGET, np.array([0, 1]))
    with pytest.raises(InputError, match="`image_ids` must be integers; got float64"):
        update(state, PRED, TARGET, np.array([0.5, 1]))
    with pytest.raises(InputError, match="`image_ids` must be a list of integers or names, one per image; got None"):
        metric.update(state, PRED, TARGET, None)
    with pytest.raises(InputError, match=r"image_ids\[1\]: an image id must be an integer of 64 bits or a name"):
        metric.update(state, PRED, TARGET, [[1], [2, 3]])
    with pytest.raises(InputError, match="`preds`: `boxes` must be an array or a list of numbers; got str"):
        metric.update(state, PRED | {"boxes": "boxes"}, TARGET, np.array([0, 1]))
    with pytest.raises(InputError, match="`targets`: `iscrowd` must hold booleans, or integers 0 and 1; got float64"):
        update(state, PRED, TARGET | {"iscrowd": np.full((2, 1), 0.5)}, np.array([0, 1]))
    with pytest.raises(InputError, match=r"`state` must be a boxscore\.jax\.State; got dict"):
        metric.update({}, PRED, TARGET, np.array([0, 1]))
    with pytest.raises(InputError, match=r"`other` must be a boxscore\.jax\.State; got NoneType"):
        metric.merge(state, None)
    with pytest.raises(InputError, match=r"must have the same `protocol`; got different ones \('voc2012' and 'coco'\)"):
        merge(state, metric.init(20, "coco"))
    with pytest.raises(InputError, match=r"`state` must be a boxscore\.jax\.State; got NoneType"):
        metric.compute(None)
    named = metric.init(20, "voc2012", class_names=["background"])
    with pytest.raises(InputError, match="`labels` must be one of those in `class_names`"):
        metric.compute(update(named, PRED, TARGET, np.array([0, 1])))


def test_without_x64_the_verdicts_of_whole_pixels_are_the_same() -> None:
    """In float32, and the result says so; ids that don't fit are refused."""
    code = """
import json, jax, numpy as np, boxscore, boxscore.jax as metric
random = np.random.default_rng(0)
corner = random.integers(0, 50, (4, 20, 2))
box = np.concatenate([corner, corner + random.integers(4, 30, (4, 20, 2))], axis=2)
label, score = random.integers(0, 3, (4, 20)), random.integers(0, 50, (4, 20)) / 64
near = box[:, :8] + random.integers(0, 3, (4, 8, 4)) * [0, 0, 1, 1]
preds, targets = {"boxes": box, "labels": label, "scores": score}, {"boxes": near, "labels": label[:, :8]}
result = metric.compute(metric.update(metric.init(100, "coco"), preds, targets, np.arange(4)))
found = boxscore.Detections.from_padded(boxes=box, labels=label, scores=score)
expected = boxscore.evaluate(found, boxscore.Truths.from_padded(boxes=near, labels=label[:, :8]))
assert np.array_equal(result.curves.precision, expected.curves.precision)
try:
    metric.update(metric.init(100, "coco"), preds, targets, np.arange(4) + 2**40)
except boxscore.InputError as error:
    print(json.dumps([result.iou_dtype, result["map"], expected["map"], str(error)]))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    dtype, ours, theirs, error = json.loads(done.stdout)
    assert (dtype, ours) == ("float32", theirs)
    assert error.startswith("`image_ids` must fit int32, all there is without x64")


def test_a_detection_takes_as_many_bytes_as_the_docstring_says() -> None:
    """With x64, as these tests have it: five columns of 8, and two words of 4 for each 32 cells."""
    for protocol, expected in (("coco", 56), ("voc2012", 48)):
        rows = metric.init(10, protocol).detections.columns.values()
        assert sum(column.nbytes for column in rows) == 10 * expected


def test_a_state_shows_what_it_has_room_for() -> None:
    """Not its arrays."""
    state = metric.init(500, "coco", truth_capacity=80)
    assert repr(state) == "State(coco, room for 500 detections and 80 truths)"
    assert all(hasattr(metric, name) for name in metric.__all__)


def test_numbers_of_a_jitted_step_have_the_bits_of_compute() -> None:
    """Update and numbers in one program."""
    scene = random_scene(8)

    def updated(state: Any, *batch: Any) -> Any:
        state = metric.update(state, *batch)
        return state, metric.numbers(state)

    step = jax.jit(updated)
    for protocol in ("coco", "voc2012"):
        state = fresh(protocol)
        for batch in batched(scene, 6):
            state, found = step(state, *batch)
        result = metric.compute(state)
        assert {name: float(value) for name, value in found.items()} == pytest.approx(
            {name: result[name] for name in found}, abs=0, nan_ok=True
        )


def test_several_devices_have_a_state_each() -> None:
    """By `shard_map` over devices that XLA makes of one processor, and by `vmap`; merged, they are one."""
    code = """
import json, functools
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
import boxscore, boxscore.jax as metric
from jax.sharding import Mesh, PartitionSpec
from tests.support.padded_batches import batched
from tests.support.scenes import random_scene
scene = random_scene(3, num_images=16)
batches = jax.tree.map(lambda *leaves: jnp.stack(leaves), *batched(scene, 2))
one = metric.init(200, box_format="xywh")
states = jax.tree.map(lambda leaf: jnp.stack([leaf] * 8), one)
def on_each(state, preds, targets, ids):
    first = jax.tree.map(lambda leaf: leaf[0], (state, preds, targets, ids))
    return jax.tree.map(lambda leaf: leaf[None], metric.update(*first))
each = PartitionSpec("device")
shard = jax.shard_map(on_each, mesh=Mesh(jax.devices(), "device"), in_specs=each, out_specs=each)
expected = dict(boxscore.evaluate(scene.detections, scene.truths))
are_equal = []
for step in (shard, jax.vmap(metric.update)):
    done = jax.device_get(jax.jit(step)(states, *batches))
    parts = [jax.tree.map(lambda leaf: jnp.asarray(leaf[i]), done) for i in range(8)]
    result = metric.compute(functools.reduce(metric.merge, parts))
    are_equal.append(all(np.array_equal(result[name], expected[name], equal_nan=True) for name in expected))
print(json.dumps([len(jax.devices()), are_equal]))
"""
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=env)
    assert json.loads(done.stdout) == [8, [True, True]]
