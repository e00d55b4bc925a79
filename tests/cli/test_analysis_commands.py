"""Intervals, comparisons and slices from the command line: tables, JSON and CSV say what Python says."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

import boxscore
from boxscore.cli import main, sample
from boxscore.formats import read_detections, read_truths

TRUTHS, DETECTIONS = sample.FOLDER / "truths.json", sample.FOLDER / "detections.json"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sample, every other of its detections, and a group for most of its images."""
    dataset = json.loads(TRUTHS.read_text())
    for number, image in enumerate(dataset["images"]):
        image["camera"] = "front" if number < 25 else "rear"
    (tmp_path / "truths.json").write_text(json.dumps(dataset))
    results = json.loads(DETECTIONS.read_text())
    (tmp_path / "detections.json").write_text(json.dumps(results))
    (tmp_path / "fewer.json").write_text(json.dumps(results[::2]))
    names = [image["file_name"] for image in dataset["images"][:30]]
    lines = [f"{name},{'day' if number % 2 else 'night'}" for number, name in enumerate(names)]
    (tmp_path / "groups.csv").write_text("\n".join(["image,group", *lines]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def result_of(name: str) -> boxscore.Result:
    """What Python makes of a file."""
    truths = read_truths("truths.json")
    return boxscore.evaluate(read_detections(name, truths), truths)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints, which must end well and say nothing else but what it wrote."""
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert all(line.startswith("wrote ") for line in err.splitlines())
    return out


def test_intervals_in_json_are_those_of_python(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of every number and of every class."""
    options = ("--bootstrap", "50", "--seed", "3", "--level", "0.8")
    found = json.loads(printed(capsys, "eval", "truths.json", "detections.json", *options, "--json", "-"))
    sure = result_of("detections.json").intervals(resamples=50, seed=3, level=0.8)
    plan = {"level": 0.8, "resamples": 50, "seed": 3, "num_images": 40}
    assert {key: found["intervals"][key] for key in plan} == plan
    for name in sure.numbers:
        expected = {"low": sure.low[name], "high": sure.high[name], "error": sure.error[name]}
        assert found["intervals"][name] == expected
    for k, row in enumerate(found["per_class"]):
        assert row["intervals"]["ap"]["low"] == sure.per_class.ap_low[k]
        assert row["intervals"]["ar"]["error"] == sure.per_class.ar_error[k]
    plain = json.loads(printed(capsys, "eval", "truths.json", "detections.json", "--json", "-"))
    assert "intervals" not in plain
    assert {key: found[key] for key in plain if key != "per_class"} | {"per_class": plain["per_class"]} == plain


def test_the_table_and_the_csv_have_intervals(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For one file and for several, per class, too."""
    options = ("--bootstrap", "50", "--per-class", "--csv", "numbers.csv")
    sure = result_of("detections.json").intervals(resamples=50)
    shown = f"0.5375  [{sure.low['map']:.4f}, {sure.high['map']:.4f}]"
    one = printed(capsys, "eval", "truths.json", "detections.json", *options)
    assert "95 % intervals: 50 resamples of 40 images, seed 0" in one
    assert shown in one
    rows = list(csv.DictReader(io.StringIO(Path("numbers.csv").read_text())))
    by_place = {(row["class"], row["number"]): row for row in rows}
    assert float(by_place["", "map"]["low"]) == sure.low["map"]
    assert float(by_place["dog", "ap"]["high"]) == sure.per_class.ap_high[3]
    assert by_place["dog", "num_truths"]["error"] == ""
    two = printed(capsys, "eval", "truths.json", "detections.json", "fewer.json", *options)
    assert shown.replace("  ", " ") in two
    assert f"[{sure.per_class.ap_low[3]:.4f}, {sure.per_class.ap_high[3]:.4f}]" in two


def test_slices_have_columns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a file that says so, or of a key of the images; images without a group have a column, too."""
    result = result_of("detections.json")
    assert result.inputs is not None
    groups = boxscore.formats.read_groups("groups.csv", result.inputs.truths)
    parts = boxscore.analysis.slices(result, groups)
    command = ("eval", "truths.json", "detections.json", "--slice", "groups.csv")
    table = printed(capsys, *command, "--csv", "numbers.csv").splitlines()
    assert table[0].split()[:5] == ["coco", "all", "night", "day", "(none)"]
    assert table[2].split()[1:5] == [f"{number:.4f}" for number in (result["map"], *(p["map"] for p in parts.values()))]
    assert table[-5].split() == ["images", "40", "15", "15", "10"]
    assert table[-2:] == [
        "comparable with published numbers: COCO leaderboard rules",
        "slices are not comparable with published numbers: they have a part of the images",
    ]
    assert str(parts["day"].comparable) == "not comparable with COCO leaderboard rules: 15 images of 40, a slice"
    rows = list(csv.DictReader(io.StringIO(Path("numbers.csv").read_text())))
    (row,) = [row for row in rows if (row["slice"], row["class"], row["number"]) == ("day", "", "map_50")]
    assert float(row["value"]) == parts["day"]["map_50"]
    found = json.loads(printed(capsys, *command, "--json", "-", "--bootstrap", "20"))
    assert list(found["slices"]) == ["night", "day", "(none)"]
    assert found["slices"]["day"]["num_images"] == 15
    assert found["slices"]["day"]["intervals"]["map"]["low"] == parts["day"].intervals(resamples=20).low["map"]

    cameras = printed(capsys, "eval", "truths.json", "detections.json", "fewer.json", "--slice-by", "camera")
    heads = ["detections.json", "detections.json: front", "detections.json: rear", "fewer.json"]
    assert all(head in cameras.splitlines()[0] for head in heads)


def test_slices_by_a_column_of_the_detections(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the ground truth has no such column; where neither has it, the ground truth is what is told about."""
    results = [row | {"run": row["image_id"] % 2} for row in json.loads(DETECTIONS.read_text())]
    Path("runs.json").write_text(json.dumps(results))
    table = printed(capsys, "eval", "truths.json", "runs.json", "--slice-by", "run")
    assert table.splitlines()[0].split()[1:4] == ["all", "1", "0"]
    assert main(["eval", "truths.json", "runs.json", "--slice-by", "sky"]) == 1
    assert capsys.readouterr().err.startswith("boxscore: truths.json: no image has `sky`; they have id,")


def test_compare_says_what_python_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Table, JSON and CSV."""
    command = ("compare", "truths.json", "fewer.json", "detections.json", "--bootstrap", "50", "--seed", "1")
    expected = boxscore.compare(
        {name: result_of(name) for name in ("fewer.json", "detections.json")}, resamples=50, seed=1
    )
    table = printed(capsys, *command, "--per-class", "--images-changed", "2", "--csv", "changes.csv")
    assert table == expected.tables(is_per_class=True, num_images=2) + "\n"
    *_, images, comparable = table.strip().split("\n\n")
    assert len(images.splitlines()) == 4
    assert comparable == "comparable with published numbers: COCO leaderboard rules"
    assert json.loads(printed(capsys, *command, "--json", "-")) == expected.to_dict()
    rows = list(csv.DictReader(io.StringIO(Path("changes.csv").read_text())))
    (row,) = [row for row in rows if (row["class"], row["number"]) == ("dog", "ap")]
    assert float(row["p_value"]) == expected.differences[0].ap[3].p_value
    assert float(row["second_value"]) == result_of("detections.json").per_class.ap[3]


def test_one_file_twice_is_compared_with_itself(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Under two names."""
    table = printed(capsys, "compare", "truths.json", "fewer.json", "fewer.json", "--bootstrap", "10")
    assert "fewer.json (1)  fewer.json (2)" in table
    assert table.endswith("no image changed\n\ncomparable with published numbers: COCO leaderboard rules\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eval", "GT", "DT", "--bootstrap", "1"], "argument --bootstrap: must be 2 or more, or 0 for none; got '1'"),
        (
            ["eval", "GT", "DT", "--bootstrap", "many"],
            "argument --bootstrap: must be a non-negative integer; got 'many'",
        ),
        (["eval", "GT", "DT", "--seed", "-1"], "argument --seed: must be a non-negative integer; got '-1'"),
        (["eval", "GT", "DT", "--level", "95"], "argument --level: must be greater than 0 and less than 1; got 95"),
        (["compare", "GT", "A"], "the following arguments are required: B"),
    ],
)
def test_a_wrong_call_is_told(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With exit code 2."""
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


def test_bad_groups_leave_nothing_behind(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and no file."""
    Path("groups.csv").write_text("image,group\nstreet_001.jpg,a\nstreet_001.jpg,b\n")
    options: list[Any] = ["--slice", "groups.csv", "--json", "out.json", "--csv", "out.csv"]
    assert main(["eval", "truths.json", "detections.json", *options]) == 1
    complaint = "groups.csv: line 3: an image must have one group; got 'a' and 'b'"
    assert capsys.readouterr().err == f"boxscore: {complaint}\n"
    assert not Path("out.json").exists()
    assert not Path("out.csv").exists()
