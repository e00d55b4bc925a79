"""The command that explains: tables, JSON, names, usage errors, and what it says of bad data."""

import json
from pathlib import Path

import pytest

import boxscore
from boxscore.analysis.known_tools import TOOLS
from boxscore.cli import main
from boxscore.cli.sample import FOLDER
from boxscore.protocol.table import PROTOCOLS
from boxscore.protocol.words import STEPS
from tests.support.shared import shared_data

FILES = [str(FOLDER / "truths.json"), str(FOLDER / "detections.json")]


def test_the_command_prints_the_path(capsys: pytest.CaptureFixture[str]) -> None:
    """That of the function."""
    assert main(["explain", *FILES, "--from", "coco", "--to", "voc2012"]) == 0
    out, err = capsys.readouterr()
    truths = boxscore.read_truths(FILES[0])
    explanation = boxscore.explain(boxscore.read_detections(FILES[1], truths), truths, "coco", "voc2012")
    assert out == f"{explanation}\n"
    assert err == ""


def test_the_command_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To a file beside the table, or to stdout in place of it; quiet prints neither."""
    path = tmp_path / "path.json"
    assert main(["explain", *FILES, "--json", str(path)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("coco 0.5375 -> ultralytics 0.5323, one rule at a time\n")
    assert err == f"wrote {path}\n"
    assert main(["explain", *FILES, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads(path.read_text())
    assert document["order"] == [step.name for step in STEPS]
    assert [step["name"] for step in document["steps"] if step["has_effect"]] == ["ignored truths", "AP rule"]
    assert main(["explain", *FILES, "--json", str(path), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_the_command_selects_as_eval_does(capsys: pytest.CaptureFixture[str]) -> None:
    """Classes, and a lowest score that is no step of the path."""
    assert main(["explain", *FILES, "--classes", "dog", "--min-score", "0.5", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert main(["eval", *FILES, "--classes", "dog", "--min-score", "0.5", "--json", "-"]) == 0
    assert document["first"] == json.loads(capsys.readouterr().out)["map"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "yolo"], "argument --to: "),
        (
            ["--from", "dota", "--to", "coco_keypoints"],
            "argument --to: coco_keypoints needs keypoints, and dota needs obb",
        ),
        (["--from", "coco", "--iou-type", "bbox,segm"], "argument --iou-type: must be one of"),
        (["--claim", "0.5", "--to", "coco"], "argument --claim: not allowed with argument --to"),
        (["--claim", "0.5", "--html", "a.html"], "argument --claim: not allowed with argument --html"),
        (["--claim", "abc"], "argument --claim: must be a number from 0 to 1, such as 0.531"),
        (["--title", "a"], "argument --title: needs --html"),
        (["--html", "-"], "argument --html: must be a file; got -"),
    ],
)
def test_a_wrong_call_is_a_usage_error(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and what to do instead."""
    with pytest.raises(SystemExit) as stop:
        main(["explain", *FILES, *words])
    assert stop.value.code == 2
    assert f"boxscore explain: error: {message}" in capsys.readouterr().err


def test_data_that_a_protocol_can_not_use_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, with the file and the option that would help."""
    assert main(["explain", *FILES, "--to", "lvis"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"boxscore: {FILES[0]}: ")
    assert "protocol lvis counts a class only in images where it was verified" in error


def test_the_command_explains_keypoints(capsys: pytest.CaptureFixture[str]) -> None:
    """Of real poses; the defaults suffice."""
    files = [str(shared_data(f"keypoints/{name}.json")) for name in ("person_keypoints_1000", "litehrnet_18_256")]
    assert main(["explain", *files, "--iou-type", "keypoints"]) == 0
    assert capsys.readouterr().out.startswith("coco_keypoints 0.8273 -> ultralytics keypoints 0.8305")
    assert main(["explain", *files, "--iou-type", "keypoints", "--from", "voc2007"]) == 1
    assert "compare with one of coco_keypoints" in capsys.readouterr().err


def test_the_help_has_every_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Of protocols and tools; so has the completion of shells."""
    with pytest.raises(SystemExit):
        main(["explain", "--help"])
    *_, after = capsys.readouterr().out.partition("\nprotocols:\n")
    protocols, _, tools = after.partition("\n\nexamples:")[0].partition("\n\ntools:\n")
    assert protocols.replace("\n", " ").replace(",", " ").split() == list(PROTOCOLS)
    assert tools.replace("\n", " ").replace(",", " ").split() == [name for name in TOOLS if name not in PROTOCOLS]
    assert max(map(len, after.partition("examples:")[0].splitlines())) < 80
    assert main(["completion", "bash"]) == 0
    assert "detectron2-voc2007" in capsys.readouterr().out


def test_swapped_files_are_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    """As eval notices them."""
    assert main(["explain", *FILES[::-1]]) == 1
    assert "the ground truth comes first" in capsys.readouterr().err
