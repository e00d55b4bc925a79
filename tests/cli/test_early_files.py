"""COCO files that another thread reads while the command is imported: the results and errors stay the same."""

from pathlib import Path

import pytest

from boxscore.cli import main, sample
from boxscore.cli.direct import summarize_files
from boxscore.cli.early_files import EarlyFiles, start_reading
from boxscore.protocol.protocol import Protocol

TRUTHS, DETECTIONS = (str(sample.FOLDER / f"{name}.json") for name in ("truths", "detections"))
PROTOCOL = Protocol.named("coco")


@pytest.mark.parametrize(
    "words",
    [
        (TRUTHS, DETECTIONS),
        ("--iou-type", "bbox", TRUTHS, DETECTIONS, "--per-class"),
        (TRUTHS, DETECTIONS, DETECTIONS),
    ],
)
def test_files_of_boxes_are_read_early(words: tuple[str, ...]) -> None:
    """Files that exist, and options that don't change how they are read."""
    assert isinstance(start_reading(words), EarlyFiles)


@pytest.mark.parametrize(
    "words",
    [
        (),
        (TRUTHS,),
        (TRUTHS, "missing.json"),
        (TRUTHS, DETECTIONS, "--iou-type", "segm"),
        (TRUTHS, DETECTIONS, "--only-images", TRUTHS),
        (TRUTHS, f"name={DETECTIONS}"),
        (str(sample.FOLDER), DETECTIONS),
    ],
)
def test_other_command_lines_wait_for_the_parser(words: tuple[str, ...]) -> None:
    """Other words may mean other files or other shapes."""
    assert start_reading(words) is None


def test_an_invalid_number_of_threads_is_left_to_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command reports it."""
    monkeypatch.setenv("BOXSCORE_THREADS", "none")
    assert start_reading((TRUTHS, DETECTIONS)) is None


def test_early_files_change_no_summary() -> None:
    """Neither the files that are evaluated, nor others, nor files that were taken before."""
    expected = summarize_files(TRUTHS, [DETECTIONS], [PROTOCOL], 2)
    early, other = start_reading((TRUTHS, DETECTIONS)), start_reading((DETECTIONS, TRUTHS))
    for files in (early, early, other):
        assert summarize_files(TRUTHS, [DETECTIONS], [PROTOCOL], 2, files) == expected
    early = start_reading((TRUTHS, DETECTIONS))
    assert summarize_files(TRUTHS, [DETECTIONS] * 2, [PROTOCOL], 2, early) == expected * 2


def test_results_without_rows_are_taken(tmp_path: Path) -> None:
    """An empty file is read once, too."""
    empty = tmp_path / "empty.json"
    empty.write_text("[]")
    early = EarlyFiles([str(empty)], 1)
    file = early.take(str(empty))
    assert file is not None
    assert len(file) == 0
    assert early.take(str(empty)) is None


def test_errors_are_the_ones_of_files_that_are_read_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the path and the byte."""
    bad = tmp_path / "bad.json"
    bad.write_text('[{"image_id": 1, "category_id": }]')
    assert main(["eval", TRUTHS, str(bad)]) == 1
    early = capsys.readouterr().err
    assert main(["eval", TRUTHS, str(bad), "--threads", "1"]) == 1
    assert capsys.readouterr().err == early
    assert f"{bad}: " in early
