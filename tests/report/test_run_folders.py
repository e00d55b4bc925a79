"""What a run is on disk: folders of results, read once per change."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import boxscore
from boxscore import InputError, Protocol, Result
from boxscore.cli import main, sample
from boxscore.protocol.measures import meanings
from boxscore.protocol.protocol import EXTRA_NUMBERS
from boxscore.report.serving import runs
from boxscore.report.serving.runs import RunFolder
from tests.support.saved_files import sealed

FILES = [str(sample.FOLDER / name) for name in ("truths.json", "detections.json")]


def names(folder: Path) -> dict[str, list[str]]:
    """The labels of the results of each run."""
    return {run.name: [entry.label for entry in run.entries] for run in RunFolder(folder).scan()}


def test_every_folder_with_results_is_a_run(tmp_path: Path, result: Result) -> None:
    """The served one, too; by step where a file or its name has one. Hidden files and other files are left out."""
    folder = tmp_path / "runs"
    result.save(folder / "final.boxscore", name="the final one")
    result.save(folder / "a" / "any name", step=12)
    result.save(folder / "a" / "epoch_2.boxscore")
    result.tally.save(folder / "a" / "epoch_10.tally")
    result.save(folder / "b" / "seed 1" / "ckpt-500.boxscore")
    result.save(folder / "a" / ".hidden.boxscore")
    result.save(folder / ".git" / "epoch_1.boxscore")
    (folder / "a" / "notes.txt").write_text("boxscore")
    assert names(folder) == {
        "a": ["epoch 2", "epoch 10", "step 12"],
        "b/seed 1": ["step 500"],
        "runs/": ["the final one"],
    }


def test_a_file_is_read_again_only_when_it_has_changed(
    tmp_path: Path, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its time, size and inode."""
    read, real = [], runs._read

    def counted(path: Path, *rest: Any) -> Any:
        read.append(path.name)
        return real(path, *rest)

    monkeypatch.setattr(runs, "_read", counted)
    folder = RunFolder(tmp_path)
    for name in ("epoch_1", "epoch_2"):
        result.save(tmp_path / name)
    folder.scan()
    folder.scan()
    assert sorted(read) == ["epoch_1", "epoch_2"]
    result.save(tmp_path / "epoch_1", step=7)
    assert [entry.step for run in folder.scan() for entry in run.entries] == [2, 7]
    assert sorted(read) == ["epoch_1", "epoch_1", "epoch_2"]


def test_a_run_that_has_not_changed_is_the_same_object(tmp_path: Path, result: Result) -> None:
    """So what is made of it can be cached."""
    folder = RunFolder(tmp_path)
    for name in ("a", "b"):
        result.save(tmp_path / name / "epoch_1.boxscore")
    before = folder.scan()
    assert folder.scan() == before
    result.save(tmp_path / "b" / "epoch_2.boxscore")
    after = folder.scan()
    assert after[0] is before[0]
    assert after[1] is not before[1]


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="names of files are Unicode there")
def test_a_name_of_bytes_that_are_no_text_is_escaped(tmp_path: Path, result: Result) -> None:
    """In ids, which become addresses."""
    result.save(tmp_path / os.fsdecode(b"epoch_1_\xff.boxscore"))
    (run,) = RunFolder(tmp_path).scan()
    assert run.entries[0].id == "epoch_1_\\udcff.boxscore"
    assert dict(run.entries[0].load()) == dict(result)


@pytest.mark.parametrize("version", [boxscore.__version__, "0.1.0"])
def test_numbers_are_those_of_the_tally_whatever_the_header_says(tmp_path: Path, result: Result, version: str) -> None:
    """The header may be crafted, or of a version that had another number."""
    path = tmp_path / "epoch_1.boxscore"
    result.save(path, name="a")
    said = {"numbers": {"map": 0.99, "best": 1.0}, "title": "another", "comparable": "with all", "version": version}
    path.write_bytes(sealed(path.read_bytes(), **said))
    (run,) = RunFolder(tmp_path).scan()
    (entry,) = run.entries
    assert dict(entry.numbers) == dict(result)
    assert (entry.title, entry.comparable) == (result.protocol.title, str(result.comparable))
    assert entry.name == "a"


def test_many_new_files_are_read_by_several_scans(
    tmp_path: Path, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan takes no longer than it may; until then no number of a file is shown."""
    monkeypatch.setattr(runs, "READ_SECONDS", 1e-9)  # one file is read, whatever it takes
    for name in ("a", "b", "c"):
        result.save(tmp_path / "run" / name)
    folder = RunFolder(tmp_path)
    found = []
    for _ in range(4):
        (run,) = folder.scan()
        found.append((len(run.entries), run.num_waiting))
    assert found == [(1, 2), (2, 1), (3, 0), (3, 0)]


def test_json_of_eval_keeps_every_number(tmp_path: Path) -> None:
    """Those beside AP and recall, too; nothing else in the file is a number."""
    protocol = ["--extra-numbers", ",".join(EXTRA_NUMBERS)]
    assert main(["eval", *FILES, *protocol, "--json", str(tmp_path / "a.json"), "--quiet"]) == 0
    (run,) = RunFolder(tmp_path).scan()
    expected = Protocol.named("coco", extra_numbers=[*EXTRA_NUMBERS])
    assert list(run.entries[0].numbers) == [name for name, _ in meanings(expected)]


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path, result: Result) -> None:
    """One within it is; other files than results are left out without a word."""
    folder, outside = tmp_path / "runs", tmp_path / "private"
    result.save(folder / "epoch_1.boxscore")
    result.save(outside / "secret.boxscore", name="secret")
    assert main(["eval", *FILES, "--json", str(outside / "secret.json"), "--quiet"]) == 0
    (folder / "best.boxscore").symlink_to("epoch_1.boxscore")
    (folder / "absolute.boxscore").symlink_to(outside / "secret.boxscore")
    (folder / "relative.boxscore").symlink_to("../private/secret.boxscore")
    (folder / "twice.boxscore").symlink_to("relative.boxscore")
    (folder / "numbers.json").symlink_to(outside / "secret.json")
    (folder / "linked").symlink_to(outside, target_is_directory=True)
    (run,) = RunFolder(folder).scan()
    assert [entry.id for entry in run.entries] == ["epoch_1.boxscore", "best.boxscore"]
    why = "a link out of the served folder is not followed"
    assert run.unreadable == tuple((f"{name}.boxscore", why) for name in ("absolute", "relative", "twice"))


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_the_served_folder_may_be_a_link(tmp_path: Path, result: Result) -> None:
    """And its files, and links among them, are shown."""
    result.save(tmp_path / "real" / "epoch_1.boxscore")
    (tmp_path / "real" / "best.boxscore").symlink_to(tmp_path / "real" / "epoch_1.boxscore")
    (tmp_path / "runs").symlink_to(tmp_path / "real", target_is_directory=True)
    assert names(tmp_path / "runs") == {"real/": ["epoch 1", "best.boxscore"]}


def test_a_link_that_is_turned_out_of_the_folder_gives_no_report(tmp_path: Path, result: Result) -> None:
    """Even between the list and the report."""
    result.save(tmp_path / "runs" / "epoch_1.boxscore")
    result.save(tmp_path / "secret.boxscore", name="secret")
    link = tmp_path / "runs" / "link.boxscore"
    link.symlink_to("epoch_1.boxscore")
    (run,) = RunFolder(tmp_path / "runs").scan()
    link.unlink()
    link.symlink_to("../secret.boxscore")
    with pytest.raises(InputError, match="has changed while it was read"):
        run.entries[1].load()


@pytest.mark.parametrize(
    ("name", "start", "why"),
    [
        ("a.json", b'{"protocol": "coco"', "has 17 MB; JSON files of more than 16 MB are not read"),
        ("a.boxscore", b"boxscore saved result 1\n", "has 513 MB; saved results of more than 512 MB are not read"),
        ("a.tally", b"boxscore tally 1\n", "has 513 MB; saved results of more than 512 MB are not read"),
    ],
)
def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, name: str, start: bytes, why: str) -> None:
    """It would take the memory of a training."""
    with (tmp_path / name).open("wb") as file:
        file.write(start)
        file.truncate(17_000_000 if name.endswith("json") else 513_000_000)  # a sparse file: no bytes on disk
    (run,) = RunFolder(tmp_path).scan()
    assert run.unreadable == ((name, why),)


def test_a_header_that_is_too_large_is_not_read(tmp_path: Path, result: Result) -> None:
    """It is JSON, too."""
    path = tmp_path / "a.boxscore"
    result.save(path)
    path.write_bytes(sealed(path.read_bytes(), subset=["x" * 16_000_000]))
    (run,) = RunFolder(tmp_path).scan()
    ((_, why),) = run.unreadable
    assert re.fullmatch(r"the header has 16,00\d,\d{3} bytes; at most 16,000,000 are read", why)
    assert dict(boxscore.load_result(path)) == dict(result)


def test_a_file_that_changes_while_it_is_read_gives_no_report(tmp_path: Path, result: Result) -> None:
    """The numbers of the list and of the report would be of different files."""
    result.save(tmp_path / "epoch_1.boxscore")
    (run,) = RunFolder(tmp_path).scan()
    result.save(tmp_path / "epoch_1.boxscore", step=2)
    with pytest.raises(InputError, match=r"epoch_1\.boxscore: has changed while it was read; reload the page"):
        run.entries[0].load()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not a boxscore saved result, or one of another version"),
        (b"boxscore saved result 2\n", "not a boxscore saved result, or one of another version"),
        (b"boxscore saved result 1\n", "the saved result is truncated: got 24 bytes"),
        (b"boxscore tally 1\n", "the tally is truncated: got 17 bytes"),
    ],
)
def test_a_file_that_should_be_a_result_has_a_reason(tmp_path: Path, content: bytes, why: str) -> None:
    """Whatever is in it."""
    (tmp_path / "epoch_1.boxscore").write_bytes(content)
    (run,) = RunFolder(tmp_path).scan()
    assert run.unreadable == (("epoch_1.boxscore", why),)
    assert run.entries == ()
