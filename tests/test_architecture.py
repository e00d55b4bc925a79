"""The shape of the house: imports point one way, names say their axes, nothing heavy gets imported."""

import ast
import json
import os
import re
import subprocess
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import parallel
from tests.support.scenes import random_scene
from tests.test_backends import padded

SOURCE = Path(boxscore.__file__).parent

LAYERS = [
    ["_compiled"],
    ["_support"],
    ["model.protocol"],
    ["geometry"],
    ["model.measures", "model.batch_keys"],
    ["model.summary", "model.batches"],
    ["model.dataset", "model.tally"],
    ["report.exports"],
    ["scaling.storage"],
    ["scaling.arrow"],
    ["training.distributed"],
    ["model.curves"],
    ["model.average"],
    ["engines"],
    ["model.result"],
    ["analysis.suspicion"],
    ["pipeline", "scaling.reduction", "analysis.diagnosis"],
    ["analysis"],
    ["report"],
    ["training.metric", "training.seen_boxes", "scaling.shards"],
    ["training", "coco"],
    ["formats"],
    ["scaling.out_of_core", "scaling.ray", "cli.sample"],
    ["cli"],
    ["torchmetrics", "jax", "keras", "ray", "parallel", "sequential"],
]
"""What may import what: only modules of earlier rows, or of the same package. A module of a package may be a room of
its own, in a row of its own."""

DOORS = {
    *(("model.tally", room) for room in ("scaling.arrow", "pipeline", "model.result", "scaling.storage")),
    *(("model.result", room) for room in ("analysis", "pipeline", "report", "report.exports")),
    ("analysis", "report"),
}
"""Methods that hand their object to a function of a later row, and import that when they are called: a tally finishes
itself, a result analyses itself, a comparison makes its own report."""

HEIGHT = {room: level for level, row in enumerate(LAYERS) for room in row}


def room_of(parts: Sequence[str]) -> str:
    """The room of a module of boxscore, given by the parts of its name."""
    whole = ".".join(parts[:2])
    return whole if whole in HEIGHT else parts[0]


def imported_rooms(path: Path, *, is_at_once: bool = False) -> set[str]:
    """The rooms of boxscore that a file imports; `is_at_once`: without those that only a function or a type needs."""
    rooms = set()
    tree = ast.parse(path.read_text())
    for node in tree.body if is_at_once else ast.walk(tree):
        if isinstance(node, ast.Import):
            rooms |= {room_of(alias.name.split(".")[1:]) for alias in node.names if alias.name.startswith("boxscore.")}
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "boxscore":
            rooms |= {room_of([*str(node.module).split(".")[1:], alias.name]) for alias in node.names}
    return rooms


def test_imports_point_one_way() -> None:
    """Data flows from columns to result; nothing looks back."""
    public = set(boxscore.__all__)
    for path in SOURCE.rglob("*.py"):
        room = room_of(path.relative_to(SOURCE).with_suffix("").parts)
        if room in ("__init__", "__main__"):
            continue
        for other in imported_rooms(path) - {room}:
            if room == "cli" and other in public:
                continue
            if (room, other) in DOORS:
                assert other not in imported_rooms(path, is_at_once=True), f"{path.relative_to(SOURCE)}: {other}"
                continue
            assert HEIGHT[other] < HEIGHT[room], f"{path.relative_to(SOURCE)} imports {other}"


@pytest.mark.parametrize("module", [boxscore, parallel])
def test_all_is_exact(module: types.ModuleType) -> None:
    """Every public name is listed, and every listed name is there."""
    listed = set(module.__all__)
    assert all(hasattr(module, name) for name in listed)
    modules = {name for name, value in vars(module).items() if isinstance(value, types.ModuleType)}
    helpers = {"import_module", "TYPE_CHECKING", "Any"} if module is boxscore else set()
    assert {name for name in vars(module) if not name.startswith("_")} - (modules - listed) - helpers == listed


def run(code: str) -> Any:
    """The JSON that a fresh Python prints."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def test_no_framework_is_imported_before_the_user_does() -> None:
    """Nor anything else that is heavy: NumPy and the compat layer are all."""
    code = "import sys, json, boxscore, boxscore.cli; print(json.dumps(sorted({n.split('.')[0] for n in sys.modules})))"
    heavy = {"torch", "jax", "tensorflow", "keras", "matplotlib", "pandas", "scipy", "pycocotools", "torchmetrics"}
    heavy |= {"pyarrow", "yaml", "xml", "zipfile", "lightning", "ray"}
    assert not heavy & set(run(code))
    used = code.replace("; print", "; boxscore.MeanAveragePrecision().compute(); boxscore.collate_truths; print")
    assert not {"torch", "jax", "tensorflow", "torchmetrics", "lightning"} & set(run(used))


def test_what_only_a_method_needs_is_imported_by_it() -> None:
    """Who trains a model and asks for its mAP waits for no analysis, no chart and no export."""
    code = """
import json, sys, boxscore
found = boxscore.Detections(image=[0], label=[1], score=[0.9], box=[[0, 0, 9, 9]])
truths = boxscore.Truths(image=[0], label=[1], box=[[0, 0, 9, 9]])
str(boxscore.evaluate(found, truths).to_dict()), boxscore.MeanAveragePrecision()
print(json.dumps([name for name in sys.modules if name.startswith("boxscore.")]))
"""
    rooms = {room_of(name.split(".")[1:]) for name in run(code)}
    assert "result" in rooms
    assert not rooms & {"analysis", "report", "exports", "formats"}


def test_jax_without_x64_works_in_float32_and_says_so() -> None:
    """No warning either; the verdicts of whole pixels are the same."""
    code = """
import json, numpy as np, jax.numpy as jnp, boxscore
box = np.array([[0, 0, 10, 10], [0, 1, 10, 11], [20, 20, 30, 30]])
found = dict(image=[0, 0, 0], label=[1, 1, 1], score=[0.9, 0.8, 0.7])
truths = boxscore.Truths(image=[0, 0], label=[1, 1], box=[[0, 0, 10, 10], [0, 4, 10, 14]])
plain = found
found = {name: jnp.asarray(value) for name, value in plain.items()}
result = boxscore.evaluate(boxscore.Detections(**found, box=jnp.asarray(box)), truths, engine="parallel")
expected = boxscore.evaluate(boxscore.Detections(**plain, box=box), truths)
assert expected.iou_dtype == "float64"
print(json.dumps([result.iou_dtype, result["map"], result["map_50"], expected["map"], expected["map_50"]]))
"""
    dtype, *numbers = run(code)
    assert dtype == "float32"
    assert numbers[:2] == numbers[2:]


def test_jax_without_x64_ranks_by_the_scores_it_was_given() -> None:
    """Two scores that single precision can't tell apart, beside boxes on a device that has nothing else."""
    code = """
import json, numpy as np, jax.numpy as jnp, boxscore
truths = boxscore.Truths(image=[0], label=[1], box=[[0, 0, 10, 10]])
box = jnp.asarray([[50, 50, 60, 60], [0, 0, 10, 10]])
found = boxscore.Detections(image=[0, 0], label=[1, 1], score=[0.1, 0.1 + 1e-9], box=box)
print(json.dumps(boxscore.evaluate(found, truths, "voc2012", "parallel")["map"]))
"""
    assert run(code) == 1


def test_tf_function_says_nothing() -> None:
    """AutoGraph can read all of it."""
    code = """
import tensorflow as tf
from boxscore import parallel
tf.function(lambda box, score: parallel.discard_overlapping(box, score, 0.5))(tf.ones((1, 2, 4)), tf.ones((1, 2)))
"""
    quiet = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=quiet)
    assert done.stderr == ""


AXES = re.compile(r"_([A-Z0-9]+)$")


def test_names_say_their_axes() -> None:
    """A local called x_NDG really has three axes, and N, D and G mean one length each within a function."""
    seen = set()

    def check(frame: types.FrameType, event: str, _: Any) -> Any:
        if "boxscore/engines/parallel" not in frame.f_code.co_filename:
            return None
        if event == "return":
            sizes: dict[str, int] = {}
            for name, value in frame.f_locals.items():
                axes = AXES.search(name)
                if axes is None or not isinstance(value, np.ndarray):
                    continue
                place = f"{frame.f_code.co_name}: {name} has shape {value.shape}"
                assert value.ndim == len(axes[1]), place
                for letter, size in zip(axes[1], value.shape, strict=True):
                    expected = int(letter) if letter.isdigit() else sizes.setdefault(letter, size)
                    assert size == expected or letter in "P", f"{place}, but {letter} is {expected}"
                seen.add(name)
        return check

    scene = random_scene(0, num_images=7)
    found, truths = padded(scene)
    sys.settrace(check)
    try:
        for protocol in ("coco", "paper"):
            boxscore.evaluate(scene.detections, scene.truths, protocol, "parallel")
            parallel.match_batch(found, truths, boxscore.Protocol.named(protocol), box_format="xywh")
        parallel.discard_overlapping(found.box, found.score, 0.5, label=found.label, box_format="xywh")
    finally:
        sys.settrace(None)
    assert len(seen) > 60, "the kernels ran under the trace"
