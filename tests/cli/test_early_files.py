"""Files that the command reads while Python imports the rest: a guess, which changes no result and no error."""

from pathlib import Path

import pytest

import boxscore._compiled as _compiled
from boxscore.cli import main, sample
from boxscore.cli.direct import summarize_files
from boxscore.cli.early_files import start_reading
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
def test_plain_command_lines_read_early(words: tuple[str, ...]) -> None:
    """Files that exist, and options that change nothing in how they are read."""
    assert isinstance(start_reading(words), _compiled.EarlyFiles)


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
def test_other_command_lines_do_not(words: tuple[str, ...]) -> None:
    """Whatever else is on the command line, what it means is left to the parser."""
    assert start_reading(words) is None


def test_an_invalid_number_of_threads_is_left_to_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the words for that error."""
    monkeypatch.setenv("BOXSCORE_THREADS", "none")
    assert start_reading((TRUTHS, DETECTIONS)) is None


def test_early_files_change_no_result() -> None:
    """Neither those that are wanted, nor others, nor those that somebody has taken before."""
    expected = summarize_files(TRUTHS, [DETECTIONS], [PROTOCOL], 2)
    assert expected is not None
    early, other = start_reading((TRUTHS, DETECTIONS)), start_reading((DETECTIONS, TRUTHS))
    for files in (early, early, other):
        assert summarize_files(TRUTHS, [DETECTIONS], [PROTOCOL], 2, files) == expected
    early = start_reading((TRUTHS, DETECTIONS))
    assert summarize_files(TRUTHS, [DETECTIONS] * 2, [PROTOCOL], 2, early) == [expected[0] * 2]


def test_early_files_that_nobody_wants_are_dropped(tmp_path: Path) -> None:
    """Reading stops; no error of theirs is ever seen."""
    large, bad = tmp_path / "large.json", tmp_path / "bad.json"
    row = '{"image_id": 1, "category_id": 1, "bbox": [1.5, 2.5, 3.5, 4.5], "score": 0.5}'
    large.write_text(f"[{', '.join([row] * 200_000)}]")
    bad.write_text('[{"image_id": ')
    for path in (large, bad):
        early = start_reading((TRUTHS, str(path)))
        assert early is not None
        del early


def test_errors_are_those_of_files_that_are_read_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the path and the byte."""
    bad = tmp_path / "bad.json"
    bad.write_text('[{"image_id": 1, "category_id": }]')
    assert main(["eval", TRUTHS, str(bad)]) == 1
    early = capsys.readouterr().err
    assert main(["eval", TRUTHS, str(bad), "--threads", "1"]) == 1
    assert capsys.readouterr().err == early
    assert f"{bad}: " in early
