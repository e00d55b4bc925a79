"""Nothing is lost: outputs never replace inputs, and a command that is stopped leaves all or nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import boxscore
from boxscore._support.writing import write_file, write_folder
from boxscore.cli import main, sample

TRUTHS, DETECTIONS = sample.FOLDER / "truths.json", sample.FOLDER / "detections.json"

MAIN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests may have it ignored
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from boxscore.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sample, and an empty folder beside it."""
    (tmp_path / "truths.json").write_text(TRUTHS.read_text())
    (tmp_path / "found.json").write_text(DETECTIONS.read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below, by its path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "command",
    [
        "eval truths.json found.json --json found.json",
        "eval truths.json found.json --csv ./truths.json",
        "eval truths.json found.json --html link.json",
        "eval truths.json found.json --json hard.json",
        "eval truths.json link.json --json found.json",
        "eval truths.json found.json --names names.txt --json names.txt",
        "compare truths.json found.json found.json --json truths.json",
        "compare truths.json found.json link.json --html found.json",
        "check truths.json found.json --json found.json",
        "check truths.json link.json --json found.json",
        "convert found.json found.json --truths truths.json --overwrite",
        "convert found.json truths.json --truths truths.json --overwrite",
        "convert truths.json link.json --to coco --truths found.json --overwrite",
    ],
)
def test_an_output_never_replaces_an_input(folder: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    """By no name: not as it is given, not through a link of either kind."""
    (folder / "link.json").symlink_to("found.json")
    os.link("found.json", "hard.json")
    (folder / "names.txt").write_text("person\n")
    before = contents(folder)
    assert main(command.split()) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "is an input, and" in err
    assert "choose another name" in err
    assert contents(folder) == before


@pytest.mark.parametrize(
    "outputs", [("a.out", "a.out"), ("a.out", "./A.OUT"), ("old.out", "link.out"), ("new/../a.out", "a.out")]
)
def test_two_outputs_need_two_names(folder: Path, capsys: pytest.CaptureFixture[str], outputs: tuple[str, str]) -> None:
    """Also where one of them is a link, or differs in case alone, which many file systems take for the same."""
    (folder / "old.out").write_text("old")
    (folder / "link.out").symlink_to("old.out")
    (folder / "new").mkdir()
    before = contents(folder)
    assert main(["eval", "truths.json", "found.json", "--json", outputs[0], "--csv", outputs[1]]) == 1
    assert "is the output of both --json and --csv; choose different names" in capsys.readouterr().err
    assert contents(folder) == before
    assert main(["eval", "truths.json", "found.json", "--json", os.devnull, "--csv", os.devnull]) == 0


def test_charts_need_a_folder_and_a_name_of_their_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Known before anything is read; a folder that is read may have charts, too, as they replace nothing of it."""
    assert main(["eval", "nothing.json", "found.json", "--plots", "found.json"]) == 1
    assert "found.json: can't be created as a folder: File exists" in capsys.readouterr().err
    assert main(["eval", "nothing.json", "found.json", "--plots", "out", "--json", "out"]) == 1
    assert "out: is the output of both --json and --plots" in capsys.readouterr().err
    assert main(["eval", "nothing.json", ".", "--plots", "."]) == 1
    assert "nothing.json: no such file" in capsys.readouterr().err


def test_files_inside_a_folder_that_is_read_are_not_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """But for what the command itself wrote there before."""
    assert main(["convert", "truths.json", "labels", "--to", "voc", "--quiet"]) == 0
    annotation = next((folder / "labels").rglob("*.xml"))
    before = contents(folder / "labels")
    assert main(["check", "labels", "--json", str(annotation)]) == 1
    assert "is inside the input folder labels, and --json would overwrite it" in capsys.readouterr().err
    assert main(["convert", "labels", str(annotation), "--to", "csv", "--overwrite"]) == 1
    assert main(["convert", "labels", str(annotation.parent), "--to", "voc", "--overwrite"]) == 1
    assert main(["convert", str(annotation.parent), "labels", "--to", "voc", "--overwrite"]) == 1
    assert main(["convert", "labels", "labels", "--to", "yolo", "--overwrite"]) == 1
    assert contents(folder / "labels") == before
    for _ in range(2):
        assert main(["eval", "labels", "found.json", "--unmatched", "warn", "--json", "labels/scores.json"]) in (0, 1)
        capsys.readouterr()
    assert main(["convert", "truths.json", ".", "--to", "voc", "--overwrite", "--quiet"]) == 0, "another kind of file"


def test_a_replaced_file_keeps_its_permissions(folder: Path) -> None:
    """A private one stays private, one for the group stays for the group; a new one has what the system gives."""
    private, shared = folder / "private.json", folder / "shared.json"
    for path, mode in ((private, 0o600), (shared, 0o664)):
        path.write_text("old")
        path.chmod(mode)
        assert main(["eval", "truths.json", "found.json", "--json", path.name, "--quiet"]) == 0
        assert path.stat().st_mode & 0o7777 == mode
        assert path.read_text() != "old"
    write_folder(folder / "out", {"a.txt": b"a", "b.txt": b"b"}, overwrite=False)
    (folder / "out" / "a.txt").chmod(0o600)
    write_folder(folder / "out", {"a.txt": b"A", "b.txt": b"B"}, overwrite=True)
    assert (folder / "out" / "a.txt").stat().st_mode & 0o7777 == 0o600
    assert (folder / "out" / "b.txt").stat().st_mode & 0o7777 == (folder / "truths.json").stat().st_mode & 0o7777
    assert contents(folder / "out") == {"a.txt": b"A", "b.txt": b"B"}


def test_a_folder_that_cannot_be_replaced_stays_as_it_was(folder: Path) -> None:
    """The last of its files is in the way of a folder: those before it are put back, and new folders are gone."""
    (folder / "out" / "z.txt").mkdir(parents=True)
    (folder / "out" / "a.txt").write_text("old")
    files = {"a.txt": b"new", "new/b.txt": b"new", "z.txt": b"new"}
    with pytest.raises(IsADirectoryError):
        write_folder(folder / "out", files, overwrite=True)
    assert contents(folder / "out") == {"a.txt": b"old"}
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["a.txt", "z.txt"]
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


NUM_IMAGES = 6000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of many images, each of which becomes a file."""
    images = [{"id": i, "file_name": f"{i:06}.jpg", "width": 100, "height": 100} for i in range(NUM_IMAGES)]
    boxes = [
        {"id": i + 1, "image_id": i, "category_id": 1, "bbox": [1, 2, 30, 40], "area": 1200, "iscrowd": 0}
        for i in range(NUM_IMAGES)
    ]
    path = tmp_path_factory.mktemp("many") / "truths.json"
    path.write_text(json.dumps({"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "cat"}]}))
    return path


def stop(command: list[str], when: Callable[[], bool], number: signal.Signals) -> tuple[int, str]:
    """The exit code and stderr of a command that gets a signal as soon as something is the case."""
    with subprocess.Popen([sys.executable, "-c", MAIN, *command], stderr=subprocess.PIPE, text=True) as run:
        try:
            end = time.monotonic() + 120
            while not when() and run.poll() is None and time.monotonic() < end:
                time.sleep(0.001)
            run.send_signal(number)
            _, err = run.communicate(timeout=120)
        finally:
            run.kill()
    return run.returncode, err


def temporaries(folder: Path) -> list[Path]:
    """What is there under a hidden name."""
    return [path for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_stopped_while_it_writes_leaves_nothing(
    many: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """Neither the folder nor a temporary one; the exit code says which signal it was."""
    command = ["convert", str(many), str(tmp_path / "out"), "--to", "yolo", "--quiet"]
    code, err = stop(command, lambda: bool(temporaries(tmp_path)), number)
    word = "interrupted" if number == signal.SIGINT else f"stopped by {number.name}"
    assert (code, err) == (128 + number, f"boxscore: {word}\n")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_a_folder_is_replaced_leaves_the_new_one_whole(many: Path, tmp_path: Path) -> None:
    """It comes when the first files are new already; the others follow before it takes effect."""
    out = tmp_path / "out"
    assert main(["convert", str(many), str(out), "--to", "yolo", "--quiet"]) == 0
    new = contents(out)
    for name in new:
        (out / name).write_bytes(b"old")
    first = out / next(iter(new))
    names = sorted(new)
    code, err = stop(
        ["convert", str(many), str(out), "--to", "yolo", "--overwrite", "--quiet"],
        lambda: any(
            (out / name).read_bytes() != b"old" for name in (names[0], names[1], first.name) if (out / name).exists()
        ),
        signal.SIGINT,
    )
    assert contents(out) == new
    assert temporaries(tmp_path) == []
    assert (code, err) == (130, "boxscore: interrupted\n")


WRITER = """
import sys, time
from pathlib import Path
from boxscore._support.writing import write_file
def pieces():
    yield b"half"
    print("ready", flush=True)
    time.sleep(600)
write_file(Path(sys.argv[1]), pieces())
"""


def test_what_a_killed_process_left_is_removed_by_the_next(folder: Path) -> None:
    """But not the temporary file of one that lives, nor a file that only looks alike."""
    alike = folder / ".mine.boxscore-notes"
    alike.write_text("mine")
    command = [sys.executable, "-c", WRITER]
    with (
        subprocess.Popen([*command, "dead.json"], stdout=subprocess.PIPE, text=True) as dead,
        subprocess.Popen([*command, "alive.json"], stdout=subprocess.PIPE, text=True) as alive,
    ):
        try:
            for run in (dead, alive):
                assert run.stdout is not None
                assert run.stdout.readline() == "ready\n"
            dead.kill()
            dead.wait()
            left = {path.name.split(".boxscore-")[0] for path in temporaries(folder)}
            assert left == {".dead.json", ".alive.json", ".mine"}
            command = [sys.executable, "-m", "boxscore", "eval", "truths.json", "found.json", "--json", "scores.json"]
            subprocess.run(command, check=True, capture_output=True)
            left = {path.name.split(".boxscore-")[0] for path in temporaries(folder)}
            assert left == {".alive.json", ".mine"}
        finally:
            dead.kill()
            alive.kill()
    assert "map" in json.loads((folder / "scores.json").read_text())


def test_files_are_on_the_disk_before_they_are_renamed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file's content, then its new name; of a folder all files and folders, then the name."""
    calls: list[tuple[str, int]] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        calls.append(("sync", os.fstat(descriptor).st_ino))
        fsync(descriptor)

    def renamed(path: Path, target: Path) -> Path:
        calls.append(("rename", path.stat().st_ino))
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    write_file(folder / "a.txt", "content")
    number = (folder / "a.txt").stat().st_ino
    assert calls == [("sync", number), ("rename", number), ("sync", folder.stat().st_ino)]
    for is_there in (False, True):
        calls.clear()
        write_folder(folder / "out", {"b.txt": b"b", "sub/c.txt": b"c"}, overwrite=is_there)
        first = next(i for i, (call, _) in enumerate(calls) if call == "rename")
        written = {("sync", (folder / "out" / name).stat().st_ino) for name in ("b.txt", "sub/c.txt")}
        assert written <= {*calls[:first]}
        folders = {("sync", each.stat().st_ino) for each in (folder, folder / "out", folder / "out" / "sub")}
        assert folders <= {*calls[first:]}


def test_long_names_have_room_for_a_temporary_one(folder: Path) -> None:
    """As long as a file system allows."""
    path = folder / ("n" * 255)
    write_file(path, "content")
    assert path.read_text() == "content"
    boxscore.evaluate(*sample.load()).to_csv(folder / ("類" * 85))
