"""Numbers inside a compiled step: the bits of `evaluate`, on every array library, without reads and copies."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import InputError, Protocol
from boxscore.arrays import to_numpy
from boxscore.engines.parallel.average import num_needed
from boxscore.engines.parallel.static_finish import (
    CountedTruths,
    VerdictRows,
    _needed_evenly,
    check_static_finish,
    pairwise_sums,
    static_numbers,
)
from tests.conftest import Backend, make_backend
from tests.support.documents import ROOT
from tests.support.scenes import random_scene
from tests.support.static_rows import static_rows

SCENES: dict[str, dict[str, Any]] = {
    "ties": {"seed": 2, "num_images": 40, "most_truths": 30},
    "few": {"seed": 1, "num_images": 3},
    "no truths": {"seed": 4, "most_truths": 0},
    "no detections": {"seed": 5, "most_detections": 0},
}

LABELS = range(4)


def compiled_numbers(backend: Backend, protocol: Protocol) -> Any:
    """The function from columns to numbers and APs, on a backend."""

    def compute(*columns: Any) -> Any:
        found = static_numbers(VerdictRows(*columns[:7]), CountedTruths(*columns[7:]), protocol, LABELS)
        return found.numbers, found.ap

    return backend.compile(compute)


def assert_bits(backend: Backend, scenes: Sequence[dict[str, Any]], protocol: Protocol) -> None:
    """The numbers and the AP of each class are those of `evaluate`, to the last bit; compiled once."""
    compute = compiled_numbers(backend, protocol)
    for scene in scenes:
        columns = random_scene(**scene)
        expected = boxscore.evaluate(columns.detections, columns.truths, protocol)
        rows = static_rows(expected.tally, capacity=1000 if len(scenes) > 1 else None)
        numbers, ap = compute(*(backend.array(column) for part in rows for column in part))
        assert set(numbers) == set(expected)
        found = [float(to_numpy(numbers[name])) for name in expected]
        assert np.array_equal(found, list(expected.values()), equal_nan=True)
        if not protocol.class_agnostic:
            assert np.array_equal(to_numpy(ap), expected.per_class.ap, equal_nan=True)


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("protocol", ["coco", "voc2007", "voc2012"])
@pytest.mark.parametrize("name", ["numpy-readonly", "torch", "tensorflow"])
def test_the_bits_of_evaluate(name: str, protocol: str, scene: str) -> None:
    """With ties of score across images and classes, crowds, classes without truths or detections, unused rows."""
    assert_bits(make_backend(name), [SCENES[scene]], Protocol.named(protocol))


@pytest.mark.parametrize("protocol", ["coco", "voc2007", "voc2012"])
@pytest.mark.parametrize("name", ["jax-jit", "tensorflow-function"])
def test_the_bits_of_evaluate_when_compiled(name: str, protocol: str) -> None:
    """XLA divides by no reciprocal, and TensorFlow's optimizer adds in the order of the source."""
    scenes = [{"seed": seed, "num_images": (11, 40)[seed % 2], "most_truths": 30} for seed in range(8)]
    assert_bits(make_backend(name), scenes, Protocol.named(protocol))


@pytest.mark.parametrize(
    "protocol",
    [Protocol.named("coco", areas={"all": (0, 1e10)}, limits=(100,)), Protocol.named("voc2012")],
    ids=["coco", "voc2012"],
)
def test_torch_compiles_one_graph(protocol: Protocol) -> None:
    """With `fullgraph=True`."""
    assert_bits(make_backend("torch-compile"), [SCENES["ties"]], protocol)


@pytest.mark.parametrize(
    "protocol",
    [
        Protocol.named("coco", class_agnostic=True),
        Protocol.named("coco", limits=(3, None), thresholds=(0.5, 0.6), areas={"all": (0, 1e10), "tiny": (0, 99)}),
        Protocol.named("coco", recall_at=(0.5, 0.75), limits=(20,)),
        Protocol.named("coco", limits_per="image", limits=(9,), recall_points=np.linspace(0, 1, 51).tolist()),
        Protocol.named("voc2012", thresholds=(0.3, 0.5, 0.75), areas={"all": (0, 1e10), "small": (0, 1024)}),
        Protocol.named("voc2007", thresholds=(0.3, 0.5), recall_points=np.linspace(0, 1, 21).tolist()),
    ],
    ids=["agnostic", "no limit", "recall at", "by image", "areas under", "interpolated"],
)
def test_changed_protocols(protocol: Protocol) -> None:
    """Thresholds, ranges, limits and recall points of one's own."""
    assert_bits(make_backend("numpy"), [{"seed": seed, "num_images": 20} for seed in range(3)], protocol)


def test_nothing_is_copied_and_nothing_is_read() -> None:
    """So a CUDA graph can capture it."""
    import torch

    from boxscore.arrays.counting import counting

    scene = random_scene(**SCENES["ties"])
    expected = boxscore.evaluate(scene.detections, scene.truths)
    with counting() as counts:
        columns = [
            [counts.place(torch.from_numpy(np.array(column))) for column in part]
            for part in static_rows(expected.tally)
        ]
        detections, truths = VerdictRows(*columns[0]), CountedTruths(*columns[1])
        counts.reset()
        found = static_numbers(detections, truths, Protocol.named("coco"), [*LABELS, 7, 90])
        assert (counts.copies_to_device, counts.copies_to_host, counts.reads) == (0, 0, 0)
        assert [value.item() for value in found.numbers.values()] == list(expected.values())


def test_single_precision_is_close() -> None:
    """JAX without x64, in a fresh process: within 1e-6, though single precision merges some recall points."""
    code = """
import json, jax, numpy as np, boxscore
from boxscore.engines.parallel.static_finish import static_numbers
from tests.support.scenes import random_scene
from tests.support.static_rows import static_rows
scene = random_scene(2, num_images=40, most_truths=30)
expected = boxscore.evaluate(scene.detections, scene.truths)
rows = jax.tree.map(jax.numpy.asarray, static_rows(expected.tally))
found = jax.jit(lambda *rows: static_numbers(*rows, expected.protocol, range(4)))(*rows)
assert found.ap.dtype == "float32"
print(json.dumps(max(abs(float(found.numbers[name]) - value) for name, value in expected.items())))
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert json.loads(done.stdout) < 1e-6


def test_a_truth_of_no_class_makes_all_numbers_undefined() -> None:
    """As a compiled step can't raise an error; detections of such a label change nothing."""
    scene = random_scene(2)
    expected = boxscore.evaluate(scene.detections, scene.truths)
    detections, truths = static_rows(expected.tally)
    unknown = detections._replace(label=np.where(detections.label == 2, 99, detections.label))  # 2 has no truths
    found = static_numbers(unknown, truths, expected.protocol, LABELS)
    assert [float(value) for value in found.numbers.values()] == list(expected.values())
    wrong = truths._replace(label=np.where(np.arange(truths.label.size) == 1, 99, truths.label))
    found = static_numbers(detections, wrong, expected.protocol, LABELS)
    assert np.isnan([*found.numbers.values(), *found.ap]).all()


def test_invalid_rows_make_all_numbers_undefined() -> None:
    """`is_valid` is False for rows that were lost, or should have been an error."""
    scene = random_scene(2)
    expected = boxscore.evaluate(scene.detections, scene.truths)
    rows = static_rows(expected.tally)
    for is_valid in (True, False):
        found = static_numbers(*rows, expected.protocol, LABELS, is_valid=np.array(is_valid))
        assert np.isnan(list(found.numbers.values())).all() == (not is_valid)


@pytest.mark.parametrize(
    ("protocol", "rule"),
    [
        (Protocol.named("paper"), "ap"),
        (Protocol.named("ultralytics"), "ap"),
        (Protocol.named("olrp"), "extra_numbers"),
        (Protocol.named("lvis"), "class_groups"),
        (Protocol.named("lvis_fixed", class_groups=()), "limits_per"),
        (Protocol.named("coco", average="micro"), "average"),
        (Protocol.named("coco", average="weighted"), "average"),
        (Protocol.named("coco", recall_points=(0.1, 0.5)), "recall_points"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_rules_that_need_more_are_refused_by_name(protocol: Protocol, rule: str) -> None:
    """When the step is traced."""
    with pytest.raises(InputError, match=f"^protocol {protocol.name} has a rule .*, `{rule}`: use `compute`$"):
        check_static_finish(protocol)


@pytest.mark.parametrize("classes", [[], [1, 1], [3, 2]])
def test_classes_ascend(classes: list[int]) -> None:
    """Means over classes add in this order."""
    rows = static_rows(boxscore.Tally.empty(Protocol.named("coco")))
    with pytest.raises(InputError, match=r"^`classes` must be one or more labels, ascending; got"):
        static_numbers(*rows, Protocol.named("coco"), classes)


@pytest.mark.parametrize("name", ["numpy-readonly", "torch", "tensorflow", "jax-jit"])
def test_sums_have_the_bits_of_numpy(name: str) -> None:
    """Of segments of any size, at any place."""
    backend = make_backend(name)
    random = np.random.default_rng(0)
    sizes = np.array([0, 1, 7, 8, 9, 127, 128, 129, 135, 136, 137, 255, 256, 257, 1009, 5000, 0, 3])
    begins = np.concatenate([[5], 5 + np.cumsum(sizes + random.integers(0, 4, sizes.size))[:-1]])
    values = random.random(int(begins[-1]) + 40)
    sums = to_numpy(backend.compile(pairwise_sums)(*map(backend.array, (values, begins, sizes))))
    expected = [np.sum(values[begin : begin + size]) for begin, size in zip(begins, sizes, strict=True)]
    assert np.array_equal(sums, expected)


@pytest.mark.parametrize("num_points", [2, 11, 21, 51, 101])
def test_recall_points_are_reached_as_in_double_precision(num_points: int) -> None:
    """Integers give what `num_needed` finds in doubles, for up to 20,000 truths."""
    num_truths = np.arange(1, 20_001)
    for points in ([i / (num_points - 1) for i in range(num_points)], np.linspace(0, 1, num_points).tolist()):
        assert np.array_equal(_needed_evenly(num_truths, points), num_needed(num_truths, points))
