"""The command: tables on stdout, the rest on stderr, exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import boxscore
from boxscore.cli import main, sample

FILES = [str(sample.FOLDER / name) for name in ("truths.json", "detections.json")]


def test_demo_prints_the_tables_of_the_sample(capsys: pytest.CaptureFixture[str]) -> None:
    """Under COCO, by class, and under VOC 2012."""
    assert main(["demo"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("coco: 4 classes, 215 truths, 356 detections\n\nmap         0.5375  AP")
    assert "person   0.5466" in out
    assert "voc2012: 4 classes" in out


def test_it_runs_as_a_module() -> None:
    """`python -m boxscore` is the command."""
    done = subprocess.run([sys.executable, "-m", "boxscore", "--version"], check=True, capture_output=True, text=True)
    assert done.stdout == f"boxscore {boxscore.__version__}\n"


def test_table1_of_coco_files(capsys: pytest.CaptureFixture[str]) -> None:
    """Any dataset will do: ours differs by 0 from the sequential method in every row."""
    assert main(["table1", str(sample.FOLDER / "truths.json"), str(sample.FOLDER / "detections.json")]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[0] for row in rows] == ["person", "bicycle", "car", "dog", "mAP"]
    assert all(row[5] == "0" for row in rows)
    assert all(row[10] == "0" for row in rows[:-1])


def test_bad_data_is_one_line_and_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It names the file."""
    missing = tmp_path / "missing.json"
    assert main(["table1", str(missing), str(missing)]) == 1
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"boxscore: {missing}: no such file or folder\n")


def test_results_for_unknown_images_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As pycocotools does."""
    path = tmp_path / "results.json"
    path.write_text(json.dumps([{"image_id": 999, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5}]))
    assert main(["table1", str(sample.FOLDER / "truths.json"), str(path)]) == 1
    rule = "image 999 is not among those of the truths (1 detection with it; known: "
    assert capsys.readouterr().err.startswith(f"boxscore: {path}: result 0: {rule}")


def test_a_wrong_call_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    """With what is missing."""
    with pytest.raises(SystemExit) as stopped:
        main(["table1"])
    assert stopped.value.code == 2
    assert "the following arguments are required: GT, DT" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["table1", "a", "b", "--iou", "1.5"])
    assert stopped.value.code == 2


def test_voc_files_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder of annotations and one of results."""
    write_voc(tmp_path, results="000001 0.9 1 1 10 10\n000001 0.8 50 50 60 40\n")
    assert main(["table1", str(tmp_path / "Annotations"), str(tmp_path / "results")]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[2].split() == ["cat", "1", "1", "0", "1", "0", "1", "1", "0", "1", "0"]
    assert err.startswith("boxscore: warning: corners in the wrong order (1 box, first in ")


def write_voc(folder: Path, *, results: str, name: str = "cat") -> None:
    """One image with one cat, and results for a class."""
    (folder / "Annotations").mkdir()
    (folder / "results").mkdir()
    corners = "<xmin>1</xmin><ymin>1</ymin><xmax>10</xmax><ymax>10</ymax>"
    xml = (
        f"<annotation><object><name>cat</name><difficult>0</difficult><bndbox>{corners}</bndbox></object></annotation>"
    )
    (folder / "Annotations" / "000001.xml").write_text(xml)
    (folder / "results" / f"comp4_det_test_{name}.txt").write_text(results)


@pytest.mark.parametrize(
    ("results", "name", "message"),
    [
        ("000001 0.9 1 1 10\n", "cat", "line 1 must have an image, a score and 4 corners; got '000001 0.9 1 1 10'"),
        (
            "000001 0.9 1 1 10 ten\n",
            "cat",
            "line 1 must have an image, a score and 4 corners; got '000001 0.9 1 1 10 ten'",
        ),
        ("\n000002 0.9 1 1 10 10\n", "cat", "line 2: image '000002' is not among those of the truths"),
        ("000001 nan 1 1 10 10\n", "cat", "line 1: `score` must be finite; got nan"),
        (
            "000001 0.9 1 1 10 10\n",
            "dog",
            "comp4_det_test_dog.txt: line 1: class 'dog' is not among those of the truths"
            " (1 detection with it; known: cat)",
        ),
    ],
)
def test_bad_voc_results_name_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], results: str, name: str, message: str
) -> None:
    """File, line, and what was expected."""
    write_voc(tmp_path, results=results, name=name)
    assert main(["table1", str(tmp_path / "Annotations"), str(tmp_path / "results")]) == 1
    assert message in capsys.readouterr().err


ANNOTATION = {"image_id": 1, "category_id": 1, "area": 1}
CATEGORIES = [{"id": 1, "name": "cat"}]


@pytest.mark.parametrize(
    ("truths", "message"),
    [
        ("{", "truths.json: not JSON: "),
        ("[]", "truths.json: expected an object with `annotations` and `categories`; got a list"),
        ('{"categories": []}', "truths.json: `annotations` must be a list; got nothing"),
        ('{"annotations": [{}], "categories": []}', "truths.json: annotation 0 must have `image_id`"),
        (
            json.dumps({"annotations": [ANNOTATION | {"bbox": [1, 2, 3, 4], "area": "x", "id": 7}], "categories": []}),
            'truths.json: annotation 0 (id 7): `area` must be a number; got "x"',
        ),
        (
            json.dumps({"annotations": [ANNOTATION | {"bbox": [1, 2, 3]}], "categories": CATEGORIES}),
            "truths.json: annotation 0: `bbox` must have 4 numbers; got [1, 2, 3]",
        ),
        (
            json.dumps({"annotations": [ANNOTATION | {"bbox": [1, 2, 3, -4]}], "categories": CATEGORIES}),
            "truths.json: annotation 0: `bbox` must not have a negative width or height (box_format='xywh'); got",
        ),
    ],
)
def test_bad_coco_files_name_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], truths: str, message: str
) -> None:
    """File, annotation, and what was expected."""
    path = tmp_path / "truths.json"
    path.write_text(truths)
    assert main(["table1", str(path), str(sample.FOLDER / "detections.json")]) == 1
    assert message in capsys.readouterr().err


def test_ctrl_c_is_exit_code_130(tmp_path: Path) -> None:
    """With one word on stderr, and no traceback. The detections come through a pipe that says nothing."""
    pipe = tmp_path / "detections.json"
    os.mkfifo(pipe)
    code = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests may have it ignored
from boxscore.cli import main
print("ready", flush=True)
sys.exit(main(sys.argv[1:]))
"""
    command = [sys.executable, "-c", code, "eval", str(sample.FOLDER / "truths.json"), str(pipe)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            assert run.stdout is not None
            assert run.stdout.readline() == "ready\n"
            time.sleep(2)
            run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=20)
            assert (run.returncode, out, err) == (130, "", "boxscore: interrupted\n")
        finally:
            run.kill()


_INTERRUPTED = """
import os, signal, sys
from boxscore.__main__ import command
module = sys.argv.pop(1)
class Interrupter:
    def find_spec(self, name, *_):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupter())
sys.exit(command())
"""


@pytest.mark.parametrize("module", ["boxscore._compiled", "argparse", "numpy", "numpy.linalg", "boxscore.cli.evaluate"])
def test_ctrl_c_while_modules_are_imported_is_exit_code_130(module: str) -> None:
    """Whichever module it is, and whatever that one would do with an exception."""
    command = [sys.executable, "-c", _INTERRUPTED, module, "eval", *FILES, "--errors"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "boxscore: interrupted\n")


def limited(*command: str, memory: int | None = None, stack: int | None = None) -> "subprocess.CompletedProcess[str]":
    """A command in a process of at most so many bytes of addresses, and so many for the stack of each thread."""
    resource = pytest.importorskip("resource")

    def limit() -> None:
        for number, num_bytes in ((resource.RLIMIT_STACK, stack), (resource.RLIMIT_AS, memory)):
            if num_bytes is not None:
                resource.setrlimit(number, (num_bytes, num_bytes))

    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "boxscore", *command],
        preexec_fn=limit,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="other systems don't limit addresses")
@pytest.mark.parametrize("command", [["eval"], ["eval", "--errors"], ["check"]])
def test_too_little_memory_is_one_line(command: list[str], tmp_path: Path) -> None:
    """Whether the core, NumPy or an import is refused more of it; with enough, the command succeeds.

    OpenBLAS, which NumPy imports while files are read, ends the process itself, with a line of its own.
    """
    truths, found = tmp_path / "truths.json", tmp_path / "found.json"
    image = {"id": 1, "width": 100, "height": 100}
    box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 30, 40], "area": 1200, "iscrowd": 0}
    truths.write_text(json.dumps({"images": [image], "annotations": [box], "categories": [{"id": 1, "name": "cat"}]}))
    row = '{"image_id": 1, "category_id": 1, "bbox": [1, 2, 30, 40], "score": 0.5}'
    found.write_text(f"[{','.join([row] * 400_000)}]")
    codes, told = [], set()
    for megabytes in (160, 190, 220, 4000):
        done = limited(command[0], str(truths), str(found), *command[1:], "--quiet", memory=megabytes << 20)
        codes.append(done.returncode)
        told.add(done.stderr)
        assert (done.stderr == "") == (done.returncode == 0)
    assert codes[-1] == 0
    ours = "boxscore: out of memory; `boxscore eval --memory` evaluates Parquet files of any size within a limit\n"
    assert told - {"", "OpenBLAS error: Memory allocation still failed after 10 retries, giving up.\n"} <= {ours}
    assert len(command) == 1 or 1 in codes


@pytest.mark.skipif(sys.platform != "linux", reason="other systems don't limit addresses")
@pytest.mark.parametrize("more", [[], ["--threads", "4"]])
def test_without_more_threads_one_does_it_all(more: list[str]) -> None:
    """No other thread can be started: each would have a stack larger than all memory."""
    usual = limited("eval", *FILES, *more)
    done = limited("eval", *FILES, *more, memory=3 << 30, stack=4 << 30)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == usual.stdout


LONG = "n" * 300
"""A name that no file system has room for."""


@pytest.mark.parametrize(
    "command",
    [
        ["eval", LONG, FILES[1]],
        ["eval", FILES[0], f"{LONG}.json"],
        ["eval", *FILES, "--json", LONG],
        ["eval", *FILES, "--html", f"{LONG}/a.html"],
        ["eval", *FILES, "--plots", LONG],
        ["eval", *FILES, "--save", LONG],
        ["eval", *FILES, "--sizes", LONG],
        ["compare", FILES[0], LONG, FILES[1]],
        ["explain", FILES[0], LONG],
        ["convert", FILES[0], LONG, "--to", "yolo"],
        ["convert", LONG, "out.csv"],
        ["serve", LONG],
        ["label-errors", *FILES, "--html", LONG],
    ],
)
def test_a_name_that_is_too_long_is_one_line(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Of an input and of an output."""
    assert main(command) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.endswith("File name too long\n")


def test_a_name_that_is_too_long_is_a_finding_of_check(capsys: pytest.CaptureFixture[str]) -> None:
    """As any other file that can't be read."""
    assert main(["check", LONG]) == 1
    assert f"error: cannot be read\n  {LONG}: File name too long\n" in capsys.readouterr().out
