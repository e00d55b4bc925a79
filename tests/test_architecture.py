"""The shape of the house: imports point one way, names say their axes, nothing heavy gets imported."""

import ast
import json
import os
import re
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import parallel
from tests.support.documents import ROOT
from tests.support.scenes import padded, random_scene

SOURCE = ROOT / "src" / "boxscore"
CORE = SOURCE.parent / "core"

LAYERS = [
    "_compiled",
    "_support",
    "arrays",
    "protocol",
    "data",
    "result",
    "engines",
    "pipeline",
    "formats",
    "inputs",
    "dropin",
    "checks",
    "training",
    "scaling",
    "analysis",
    "report",
    "cli",
]
"""The packages, and the modules `pipeline` and `inputs`: each may import those above it."""

ENTRANCES = {
    *("coco", "lvis", "faster_coco_eval", "torchvision", "torchmetrics", "huggingface"),
    *("ultralytics", "jax", "torch", "keras", "ray", "parallel", "sequential"),
}
"""Modules that people import, which only name what others have: nothing else imports them."""

DOORS = {
    "result/result.py": {"analysis", "report"},
    "analysis/comparison.py": {"report"},
    "analysis/label_review.py": {"report"},
}
"""Files with thin methods that hand a result to a later package, which they import when they are called."""


def imported_packages(path: Path, *, is_at_once: bool = False) -> set[str]:
    """Packages of boxscore that a file imports; `is_at_once`: without those that only a function or a type needs."""
    names = []
    tree = ast.parse(path.read_text())
    for node in tree.body if is_at_once else ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name.split(".") for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            names += [[*str(node.module).split("."), alias.name] for alias in node.names]
    return {parts[1] for parts in names if parts[0] == "boxscore" and len(parts) > 1}


def test_imports_point_one_way() -> None:
    """Data flows from columns to result; nothing looks back."""
    public = set(boxscore.__all__) - ENTRANCES
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        package = parts[0]
        if package in ("__init__", "__main__"):
            continue
        earlier = {*LAYERS[: LAYERS.index(package)], package} if package in LAYERS else {*LAYERS}
        allowed = earlier | DOORS.get("/".join(parts) + ".py", set()) | (public if package == "cli" else set())
        imported = imported_packages(path)
        assert imported <= allowed | {"__version__"}, f"{path.relative_to(SOURCE)} imports {imported - allowed}"
        at_once = imported_packages(path, is_at_once=True)
        assert at_once <= earlier | {"__version__"}, f"{path.relative_to(SOURCE)} imports {at_once - earlier} at once"


def test_every_package_has_its_layer() -> None:
    """A new folder is put in order on purpose."""
    names = {path.relative_to(SOURCE).parts[0] for path in SOURCE.rglob("*.py")} - {"__init__.py", "__main__.py"}
    assert {name.removesuffix(".py") for name in names} | {"_compiled"} == {*LAYERS, *ENTRANCES}


def test_includes_point_one_way() -> None:
    """So does the compiled core."""
    layers = ["platform", "rows", "masks", "geometry", "match", "curves", "bootstrap", "io", "python"]
    for path in [*CORE.rglob("*.h"), *CORE.rglob("*.cpp")]:
        folder = path.relative_to(CORE).parts[0]
        for name in re.findall(r'#include "([^"]+)"', path.read_text()):
            assert layers.index(name.split("/")[0]) <= layers.index(folder), f"{path.relative_to(CORE)} includes {name}"


CODE = re.compile(r"^(?!\s*(#|//|>>>|\*)).*$", re.MULTILINE)
"""Lines that are neither a comment nor a doctest."""

SHAPES = ("boxes", "masks")

HOMES = {
    "similarity of two boxes": (
        r"(min(imum)?|lower)\(.*\) - [\w:.]*(max(imum)?|upper)\(",
        {"core/geometry/boxes.h", "core/geometry/oriented_boxes.h", "boxscore/data/geometry/boxes.py"},
    ),
    "cutting of a polygon": (
        r"distances?\[(inner|inside)\] - distance|distance - other",
        {"core/geometry/oriented_boxes.h", "boxscore/data/geometry/quadrilaterals.py"},
    ),
    "ProbIoU": (r"sqrt\(1 - ", {"core/geometry/oriented_boxes.h", "boxscore/data/geometry/oriented_boxes.py"}),
    "union of two shapes": (
        r"\+ .*truth.* - shared",
        {
            *(f"core/geometry/{name}.h" for name in SHAPES),
            *(f"boxscore/data/geometry/{name}.py" for name in (*SHAPES, "oriented_boxes")),
        },
    ),
    "who takes which truth": (
        r"is_free &=|is_free\) = false|taken\.add|segment_min\(bid",
        {"core/match/match.h", "boxscore/engines/sequential.py", "boxscore/engines/parallel/categorization.py"},
    ),
    "precision": (
        r"/ \(.*\+ epsilon\)",
        {"core/curves/precision.h", "boxscore/engines/sequential.py", "boxscore/engines/parallel/precision_recall.py"},
    ),
    "closeness of keypoints": (
        r"\bexp\(-(error|\(squared)",
        {"core/geometry/keypoints.h", "boxscore/data/geometry/keypoints.py"},
    ),
    "NumPy's order of additions": (
        r"lane\[4\] \+ lane\[5\]|\[:, 0::2\] \+ ",
        {
            "core/platform/pairwise_sum.h",
            "boxscore/data/geometry/keypoints.py",
            "boxscore/engines/parallel/static_finish.py",
        },
    ),
    "means over classes": (
        r"pairwise_sum_by\(num_defined|sum_M / ",
        {"core/curves/average.h", "boxscore/engines/parallel/static_finish.py"},
    ),
    "reduce by class": (
        r"\bcan_finish_together\(",
        {"boxscore/engines/native/compiled_engine.py", "boxscore/engines/map_reduce.py"},
    ),
}
"""What a formula looks like in the sources, and the files that may have it: the docs on architecture say why."""


def sources() -> dict[str, str]:
    """Every source of the package and of the compiled core, by its path in `src`: code without comments."""
    paths = [path for folder in (SOURCE, CORE) for path in folder.rglob("*.*") if path.suffix in (".py", ".h", ".cpp")]
    return {
        path.relative_to(SOURCE.parent).as_posix(): "\n".join(match[0] for match in CODE.finditer(path.read_text()))
        for path in paths
    }


@pytest.mark.parametrize("formula", HOMES)
def test_a_formula_has_one_home(formula: str) -> None:
    """And the twins that the other engines need; a second home fails, and so does a home that is gone."""
    pattern, homes = HOMES[formula]
    assert {name for name, code in sources().items() if re.search(pattern, code)} == homes


def test_no_mean_is_taken_in_python_on_the_way_to_a_number() -> None:
    """Means over classes, thresholds and recall points are the compiled ones, whoever asks for them."""
    on_the_way = re.compile(
        r"^boxscore/(result|engines/(native|map_reduce)|scaling|pipeline|checks/pycocotools|dropin/(?!faster_))"
    )
    means = re.compile(r"np\.(mean|average|nanmean)\(|\.mean\(")
    assert [name for name, code in sources().items() if on_the_way.match(name) and means.search(code)] == []


AFTER_MATCHING = re.compile(
    r"^boxscore/(result/(?!arrow)|pipeline|engines/map_reduce|analysis/|report/|dropin/accumulation)"
    r"|^core/(match/(?!images)|curves/|bootstrap/)"
)


def test_nothing_after_matching_knows_what_a_shape_is() -> None:
    """Nor before it what a verdict is: the seam of docs/how-it-works/architecture.md."""
    shape = re.compile(
        r"geometry[./](boxes|masks|keypoints|oriented_boxes)|\.(box|mask)\b|\bbox_format\b|\bBoxFormat\b|\b(Box|Mask)Shape\b"
    )
    verdict = re.compile(r"\b(verdict|is_true|is_counted|Tally)\b")
    after = {name: code for name, code in sources().items() if AFTER_MATCHING.match(name)}
    assert len(after) > 30
    assert [name for name, code in after.items() if shape.search(code)] == []
    before = {name: code for name, code in sources().items() if "/geometry/" in name}
    assert len(before) >= 5
    assert [name for name, code in before.items() if verdict.search(code)] == []


def importers_of(module: str) -> set[str]:
    """The modules of boxscore that import a module, wherever in them."""
    package, _, name = module.rpartition(".")
    pattern = re.compile(
        rf"^\s*(import {re.escape(module)}\b|from {re.escape(module)} import|"
        rf"from {re.escape(package)} import .*\b{name}\b)",
        re.MULTILINE,
    )
    return {path for path, code in sources().items() if pattern.search(code)}


def test_a_format_is_its_file_and_an_entry_in_the_table() -> None:
    """Nothing outside of formats imports the module of one format."""
    from boxscore.formats.registry import FORMATS

    assert len(FORMATS) >= 8
    for each in FORMATS.values():
        others = importers_of(f"boxscore.formats.{each.module or each.name}")
        assert {name for name in others if not name.startswith("boxscore/formats/")} == set(), each.name


def test_a_command_is_its_file() -> None:
    """Only the list of commands names it, so an option of it is nobody else's business."""
    from boxscore.cli import COMMANDS

    assert len(COMMANDS) >= 8
    for command in COMMANDS.values():
        others = importers_of(f"boxscore.cli.{command}")
        # `compare`, `explain` and `label-errors` read and evaluate their files as `eval` does.
        like_eval = {f"boxscore/cli/{name}.py" for name in ("compare", "explain", "find_label_errors")}
        alike = like_eval if command == "evaluate" else set()
        assert others == alike, command


def test_a_protocol_is_its_entry() -> None:
    """No rule asks for a protocol's name: what decides a number is in its fields."""
    asks = re.compile(r"protocol\.name (==|!=|in)|\.title (==|!=)")
    assert [name for name, code in sources().items() if asks.search(code)] == []


def test_no_two_modules_have_one_name() -> None:
    """But for those that people import, which are thin. The main module of a package may have the package's name."""
    modules = [path for path in SOURCE.rglob("*.py") if path.stem != "__init__" and path.parent != SOURCE]
    assert [name for name, count in Counter(path.stem for path in modules).items() if count > 1] == []
    packages = {path.parent.name: path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE}
    assert all(path.parent == packages.get(path.stem, path.parent) for path in modules)
    assert {path.stem for path in SOURCE.glob("*.py")} == {"__init__", "__main__", "pipeline", "inputs"} | ENTRANCES


def test_tests_share_through_support_alone() -> None:
    """No test module imports another one."""
    imports = re.compile(r"^(from|import) tests\.(\w+\.)?test_", re.MULTILINE)
    paths = list((ROOT / "tests").rglob("*.py"))
    assert len(paths) > 80
    assert {path.name for path in paths if imports.search(path.read_text())} == {
        "test_keras.py",
        "test_keras_metric.py",
    }, "which start processes that import themselves"


def test_files_that_the_architecture_names_are_there() -> None:
    """In docs/how-it-works/architecture.md, relative to src/boxscore, or to the repository."""
    text = (ROOT / "docs" / "how-it-works" / "architecture.md").read_text()
    named = re.findall(r"`([\w/]+(?:/|\.(?:py|h|cpp)))`", text)
    assert len(named) > 20
    for name in named:
        assert any((folder / name).exists() for folder in (SOURCE, ROOT, CORE)), name


def test_no_row_of_the_architecture_appears_twice() -> None:
    """A formula has one home, and a change one list of files."""
    text = (ROOT / "docs" / "how-it-works" / "architecture.md").read_text()
    first_cells = re.findall(r"^\| ([^|]+) \|", text, flags=re.MULTILINE)
    assert len(first_cells) > 40
    assert [cell for cell, count in Counter(first_cells).items() if count > 1] == []


def test_functions_that_return_nothing_begin_with_a_verb() -> None:
    """Ruff's D401, for functions that have an effect; a pure function may begin with the noun that it returns."""
    command = ["ruff", "check", str(SOURCE), "--isolated", "--select", "D401", "--output-format", "json"]
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    nouns = {(each["filename"], each["location"]["row"]) for each in json.loads(done.stdout)}
    assert len(nouns) > 100, "the pure functions"
    effects = {
        (str(path), node.body[0].lineno)
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and isinstance(node.returns, ast.Constant) and node.returns.value is None
    }
    assert len(effects) > 100
    assert sorted(effects & nouns) == []


@pytest.mark.parametrize("module", [boxscore, parallel])
def test_all_is_exact(module: types.ModuleType) -> None:
    """Every public name is listed, and every listed name is there."""
    listed = set(module.__all__)
    assert all(hasattr(module, name) for name in listed)
    modules = {name for name, value in vars(module).items() if isinstance(value, types.ModuleType)}
    helpers = {"TYPE_CHECKING", "lazy_names"} if module is boxscore else set()
    assert {name for name in vars(module) if not name.startswith("_")} - (modules - listed) - helpers == listed


def run(code: str) -> Any:
    """The JSON that a fresh Python prints."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def test_no_framework_is_imported_before_the_user_does() -> None:
    """Nor anything else that is heavy: NumPy and the compat layer are all."""
    code = "import sys, json, boxscore, boxscore.cli; print(json.dumps(sorted({n.split('.')[0] for n in sys.modules})))"
    heavy = {"torch", "jax", "tensorflow", "keras", "matplotlib", "pandas", "scipy", "pycocotools", "torchmetrics"}
    heavy |= {"pyarrow", "yaml", "xml", "zipfile", "lightning", "ray", "ultralytics", "supervision"}
    assert not heavy & set(run(code))
    used = code.replace("; print", "; boxscore.MeanAveragePrecision().compute(); boxscore.collate_truths; print")
    assert not {"torch", "jax", "tensorflow", "torchmetrics", "lightning"} & set(run(used))


def test_what_only_a_method_needs_is_imported_by_it() -> None:
    """Who trains a model and asks for its mAP waits for no analysis, no chart and no export."""
    code = """
import json, sys, boxscore
found = boxscore.Detections(image_ids=[0], labels=[1], scores=[0.9], boxes=[[0, 0, 9, 9]])
truths = boxscore.Truths(image_ids=[0], labels=[1], boxes=[[0, 0, 9, 9]])
str(boxscore.evaluate(found, truths).to_dict()), boxscore.MeanAveragePrecision()
print(json.dumps([name for name in sys.modules if name.startswith("boxscore.")]))
"""
    names = set(run(code))
    assert "boxscore.result.result" in names
    assert not [name for name in names if name.startswith(("boxscore.analysis", "boxscore.report", "boxscore.formats"))]


@pytest.fixture(scope="module")
def without_x64() -> dict[str, Any]:
    """What a fresh process finds in which JAX has single precision alone, with warnings as errors."""
    found: dict[str, Any] = run("""
import json, numpy as np, jax.numpy as jnp, boxscore
box = np.array([[0, 0, 10, 10], [0, 1, 10, 11], [20, 20, 30, 30]])
plain = dict(image_ids=[0, 0, 0], labels=[1, 1, 1], scores=[0.9, 0.8, 0.7])
truths = boxscore.Truths(image_ids=[0, 0], labels=[1, 1], boxes=[[0, 0, 10, 10], [0, 4, 10, 14]])
found = {name: jnp.asarray(value) for name, value in plain.items()}
result = boxscore.evaluate(boxscore.Detections(**found, boxes=jnp.asarray(box)), truths, engine="parallel")
expected = boxscore.evaluate(boxscore.Detections(**plain, boxes=box), truths)

near = boxscore.Detections(
    image_ids=[0, 0], labels=[1, 1], scores=[0.1, 0.1 + 1e-9], boxes=jnp.asarray([[50, 50, 60, 60], [0, 0, 10, 10]])
)
one = boxscore.Truths(image_ids=[0], labels=[1], boxes=[[0, 0, 10, 10]])
print(json.dumps({
    "dtypes": [result.iou_dtype, expected.iou_dtype],
    "numbers": [result["map"], result["map_50"]],
    "expected": [expected["map"], expected["map_50"]],
    "ranked": boxscore.evaluate(near, one, "voc2012", "parallel")["map"],
}))
""")
    return found


def test_jax_without_x64_works_in_float32_and_says_so(without_x64: dict[str, Any]) -> None:
    """No warning either; the verdicts of whole pixels are the same."""
    assert without_x64["dtypes"] == ["float32", "float64"]
    assert without_x64["numbers"] == without_x64["expected"]


def test_jax_without_x64_ranks_by_the_scores_it_was_given(without_x64: dict[str, Any]) -> None:
    """Two scores that single precision can't tell apart, beside boxes on a device that has nothing else."""
    assert without_x64["ranked"] == 1


def test_tf_function_says_nothing() -> None:
    """AutoGraph can read all of it."""
    code = """
import tensorflow as tf
from boxscore import parallel
tf.function(lambda box, score: parallel.discard_overlapping(box, score, 0.5))(tf.ones((1, 2, 4)), tf.ones((1, 2)))
"""
    quiet = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
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
        parallel.discard_overlapping(found.boxes, found.scores, 0.5, label=found.labels, box_format="xywh")
    finally:
        sys.settrace(None)
    assert len(seen) > 60, "the kernels ran under the trace"


def test_no_two_types_of_the_engine_have_one_name() -> None:
    """Two classes of one name in different files would be one class to the linker."""
    kinds = r"^(?:struct|class|enum class|enum) (\w+)(?!\w)(?:[^;]*)\{"
    core = ROOT / "src" / "core"
    files: dict[str, set[str]] = {}
    for path in [*core.rglob("*.h"), *core.rglob("*.cpp")]:
        for name in re.findall(kinds, path.read_text(), flags=re.MULTILINE):
            files.setdefault(name, set()).add(str(path.relative_to(core)))
    assert len(files) > 100
    assert {name: where for name, where in files.items() if len(where) > 1} == {}
