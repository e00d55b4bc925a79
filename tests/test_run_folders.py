"""What a run is on disk: folders of results, read once per change."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import boxscore
from boxscore import InputError, Result
from boxscore.scaling import saved_results
from boxscore.serving import runs
from boxscore.serving.runs import RunFolder


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


def test_numbers_of_another_version_are_computed_again(
    tmp_path: Path, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the same tally may have another number now."""
    monkeypatch.setattr(boxscore, "__version__", "0.1.0")
    result.save(tmp_path / "epoch_1.boxscore", name="old")
    monkeypatch.undo()
    monkeypatch.setattr(saved_results, "_number", lambda _: 0.123)
    (run,) = RunFolder(tmp_path).scan()
    assert dict(run.entries[0].numbers) == dict(result)
    assert run.entries[0].name == "old"


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
        (b"", "not a saved result of boxscore, or one of another version"),
        (b"boxscore result 2\n", "not a saved result of boxscore, or one of another version"),
        (b"boxscore result 1\n", "the saved result is truncated: got 18 bytes"),
        (b"boxscore tally 1\n", "the tally is truncated: got 17 bytes"),
    ],
)
def test_a_file_that_should_be_a_result_has_a_reason(tmp_path: Path, content: bytes, why: str) -> None:
    """Whatever is in it."""
    (tmp_path / "epoch_1.boxscore").write_bytes(content)
    (run,) = RunFolder(tmp_path).scan()
    assert run.unreadable == (("epoch_1.boxscore", why),)
    assert run.entries == ()
