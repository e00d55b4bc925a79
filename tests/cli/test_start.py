"""What a start imports: nothing that it does not use. Each case is a fresh process."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from boxscore.cli import COMMANDS, sample

FILES = (str(sample.FOLDER / "truths.json"), str(sample.FOLDER / "detections.json"))
TABLE = "image,class,score,x1,y1,x2,y2\n1,cat,0.5,0,0,9,9\n"
ARRAYS = """
import numpy, boxscore
found = boxscore.Detections(image_ids=[0], labels=[1], scores=[0.9], boxes=numpy.array([[0, 0, 9, 9]]))
truths = boxscore.Truths(image_ids=[0], labels=[1], boxes=numpy.array([[0, 0, 9, 9]]))
"""


def imported_by(code: str) -> set[str]:
    """The modules that a piece of code adds to those of a bare interpreter."""
    # An editable install has a finder of its own, which imports what it needs: that is not the package's.
    prepared = "import sys, importlib.util\nimportlib.util.find_spec('boxscore')\nbefore = set(sys.modules)"
    script = f"{prepared}\n{code}\nprint('\\n'.join(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def imported_by_command(*words: str) -> set[str]:
    """The modules that a command adds to those of a bare interpreter; its output is dropped."""
    return imported_by(
        f"import os\nout = os.dup(1)\nos.dup2(os.open(os.devnull, os.O_WRONLY), 1)\n"
        f"from boxscore.cli import main\ntry: main({[*words]!r})\nexcept SystemExit: pass\n"
        "sys.stdout.flush(); os.dup2(out, 1)"
    )


def packages(modules: Iterable[str]) -> set[str]:
    """The packages of modules."""
    return {module.split(".")[0] for module in modules}


def test_the_package_imports_nothing() -> None:
    """But for what loads its names when they are first used."""
    assert imported_by("import boxscore") == {"boxscore", "boxscore._support", "boxscore._support.lazy_names"}


def test_the_version_needs_no_command() -> None:
    """Nor a protocol, nor the compiled engine."""
    modules = imported_by_command("--version")
    assert {module for module in modules if module.startswith("boxscore.cli.")} == {
        "boxscore.cli.command_line",
        "boxscore.cli.parsing",
        "boxscore.cli.terminal",
    }
    assert not {"dataclasses", "numpy", "json", "pathlib", "boxscore._compiled"} & modules


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_imports_no_other(command: str) -> None:
    """But for `compare`, `explain` and `label-errors`, which read and evaluate their files as `eval` does."""
    own = {COMMANDS[command], *(["evaluate"] if command in ("compare", "explain", "label-errors") else [])}
    loaded = imported_by_command(command, "--help")
    assert {module for module in COMMANDS.values() if f"boxscore.cli.{module}" in loaded} == own


def test_eval_of_coco_files_imports_what_it_uses() -> None:
    """Neither NumPy, nor a reader of another format, nor what only writes files or large data needs."""
    modules = imported_by_command("eval", *FILES)
    heavy = {"numpy", "array_api_compat", "json", "csv", "hashlib", "difflib", "shlex", "gzip", "zipfile", "threading"}
    assert not (heavy | {"pathlib", "shutil", "urllib"}) & packages(modules)
    unused = ("formats", "geometry", "report", "scaling", "pipeline", "engines.parallel", "engines.sequential")
    assert [module for module in modules if module.startswith(tuple(f"boxscore.{name}" for name in unused))] == []
    assert "boxscore.cli.large_data" not in modules


@pytest.mark.parametrize("start", ["boxscore.evaluate(found, truths)", "boxscore.MeanAveragePrecision().compute()"])
def test_numpy_arrays_need_the_compiled_engine_alone(start: str) -> None:
    """The parallel and the sequential engine wait until they are asked for, and so does the compat layer."""
    modules = imported_by(f"{ARRAYS}\n{start}")
    assert "boxscore.engines.native.compiled_engine" in modules
    assert not {name for name in modules if name.startswith(("boxscore.engines.parallel", "boxscore.engines.seq"))}
    assert not {"array_api_compat", "json", "hashlib", "tempfile"} & packages(modules)
    assert not {name for name in modules if name.startswith(("boxscore.formats", "boxscore.report"))}


@pytest.mark.parametrize(("engine", "other"), [("parallel", "sequential"), ("sequential", "parallel")])
def test_an_engine_does_not_import_another(engine: str, other: str) -> None:
    """Only the one that was asked for is loaded, beside the compiled one, which computes means."""
    modules = imported_by(f"{ARRAYS}\nboxscore.evaluate(found, truths, engine={engine!r})")
    assert f"boxscore.engines.{engine}" in modules
    assert f"boxscore.engines.{other}" not in modules


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_a_file_imports_no_reader_of_another_suffix(suffix: str, tmp_path: Path) -> None:
    """A table needs no XML, nor HTTP, which Python's own XML writer imports; COCO JSON needs no reader of tables."""
    path = tmp_path / f"t.{suffix}"
    path.write_text(TABLE if suffix == "csv" else json.dumps({"images": [], "annotations": [], "categories": []}))
    modules = imported_by(f"import boxscore\nboxscore.read_truths({str(path)!r})")
    assert f"boxscore.formats.{'coco' if suffix == 'json' else suffix}" in modules
    assert not {"xml", "email", "http", "ssl", "pyarrow", "zipfile"} & packages(modules)
    others = {"cvat", "voc", "dota", "yolo", "text_files", "parquet", "npz", "coco" if suffix == "csv" else "csv"}
    assert not {f"boxscore.formats.{name}" for name in others} & modules


def test_the_drop_in_imports_no_pipeline() -> None:
    """`patch_pycocotools` loads what `COCO` and `COCOeval` need, and no engine but the compiled one."""
    modules = imported_by("import boxscore\nboxscore.patch_pycocotools()")
    assert "boxscore.dropin.evaluation" in modules
    unused = ("formats", "report", "analysis", "scaling", "pipeline", "engines.parallel", "engines.sequential")
    assert [module for module in modules if module.startswith(tuple(f"boxscore.{name}" for name in unused))] == []
