"""`boxscore convert`: the same numbers after it, what is lost on stderr, and nothing half-written."""

import json
from pathlib import Path
from typing import Any

import pytest

import boxscore
from boxscore.cli import main, sample
from boxscore.formats import FORMATS, read_detections, read_truths
from tests.support.shared import shared_data

TRUTHS, DETECTIONS = str(sample.FOLDER / "truths.json"), str(sample.FOLDER / "detections.json")

Captured = pytest.CaptureFixture[str]


def numbers(truths: str | Path, detections: str | Path, protocol: Any = "coco") -> dict[str, float]:
    """The numbers of two files."""
    there = read_truths(truths)
    return dict(boxscore.evaluate(read_detections(detections, there), there, protocol))


def convert(folder: Path, name: str, suffix: str = "") -> tuple[Path, Path]:
    """The sample in a format, both files."""
    truths, detections = folder / f"truths{suffix}", folder / f"detections{suffix}"
    assert main(["convert", TRUTHS, str(truths), "--to", name]) == 0
    assert main(["convert", DETECTIONS, str(detections), "--to", name, "--truths", TRUTHS]) == 0
    return truths, detections


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("coco", ".json"), ("csv", ".csv"), ("csv", ".tsv.gz"), ("npz", ".npz"), ("parquet", ".arrow")],
)
def test_the_numbers_are_the_same_to_the_last_bit(tmp_path: Path, capsys: Captured, name: str, suffix: str) -> None:
    """Where the format holds every bit; nothing is said to be lost, and one line says what was written."""
    if name == "parquet":
        pytest.importorskip("pyarrow")
    truths, detections = convert(tmp_path, name, suffix)
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines() == [
        f"wrote 222 truths in 40 images to {truths} ({name})",
        f"wrote 356 detections in 40 images to {detections} ({name})",
    ]
    assert numbers(truths, detections) == numbers(TRUTHS, DETECTIONS)


@pytest.mark.parametrize("name", ["voc", "openimages", "yolo"])
def test_the_numbers_are_close_where_digits_are_lost(tmp_path: Path, name: str) -> None:
    """Under a protocol that takes no areas; YOLO has no flag for what is ignored, so those are left out before."""
    dataset = json.loads(Path(TRUTHS).read_text())
    dataset["annotations"] = [each for each in dataset["annotations"] if not each["iscrowd"]]
    plain = tmp_path / "plain.json"
    plain.write_text(json.dumps(dataset))
    truths, detections = tmp_path / f"truths {name}", tmp_path / f"detections {name}"
    assert main(["convert", str(plain), str(truths), "--to", name]) == 0
    assert main(["convert", DETECTIONS, str(detections), "--to", name, "--truths", str(plain)]) == 0
    protocol = boxscore.Protocol.named("coco", areas={"all": (0, None)})
    assert numbers(truths, detections, protocol) == pytest.approx(numbers(plain, DETECTIONS, protocol), abs=1e-9)


def test_every_pair_of_formats_converts(tmp_path: Path) -> None:
    """Truths from each written format to each other one, with their 222 boxes."""
    written = [name for name, each in FORMATS.items() if each.is_written and name != "odgt"]  # which has one class
    assert len(written) == 10
    suffixes = {name: FORMATS[name].suffixes[0] if FORMATS[name].suffixes else f"-{name}" for name in written}
    suffixes["openimages"] = "-openimages.csv"
    for first in written:
        start = tmp_path / f"truths{suffixes[first]}"
        assert main(["convert", TRUTHS, str(start), "--to", first]) == 0
        for second in written:
            # Open Images has no sizes of its own, so they are given.
            end = tmp_path / f"{first}{suffixes[second]}"
            sizes = ["--sizes", str(tmp_path / "sizes.csv")]
            (tmp_path / "sizes.csv").write_text(_sizes())
            assert main(["convert", str(start), str(end), "--to", second, *sizes]) == 0
            assert len(read_truths(end, sizes=tmp_path / "sizes.csv")) == 222


def _sizes() -> str:
    images = json.loads(Path(TRUTHS).read_text())["images"]
    rows = [f"{each['file_name']},{each['width']},{each['height']}" for each in images]
    return "\n".join(["name,width,height", *rows, ""])


def test_what_is_lost_is_a_warning_each(tmp_path: Path, capsys: Captured) -> None:
    """On stderr, with counts; `--quiet` says nothing."""
    arguments = ["convert", TRUTHS, str(tmp_path / "labels"), "--to", "yolo"]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert out == f"wrote 222 truths in 40 images to {tmp_path / 'labels'} (yolo)\n"
    assert err.splitlines() == [
        "boxscore: warning: 7 ignore flags are lost",
        "boxscore: warning: 222 areas are lost",
        "boxscore: warning: 4 class ids are lost",
        "boxscore: warning: 117 last digits of boxes that are fractions now are lost",
    ]
    assert main([*arguments, "--overwrite", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_what_is_there_is_replaced_only_if_asked(tmp_path: Path, capsys: Captured) -> None:
    """A file as well as a folder."""
    output = tmp_path / "out.csv"
    output.write_text("precious")
    assert main(["convert", TRUTHS, str(output)]) == 1
    assert capsys.readouterr().err == f"boxscore: {output}: already exists; pass --overwrite to replace it\n"
    assert output.read_text() == "precious"
    assert main(["convert", TRUTHS, str(output), "--overwrite"]) == 0
    assert output.read_text().startswith("image_id,")


def test_bad_data_writes_nothing(tmp_path: Path, capsys: Captured) -> None:
    """The error has its place, and OUT is not there."""
    path = tmp_path / "bad.csv"
    path.write_text("image,label,x1,y1,x2,y2\na,cat,1,2,3,4\na,cat,9,2,3,4\n")
    assert main(["convert", str(path), str(tmp_path / "out.json")]) == 1
    assert f"{path}: line 3: " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]


def test_detections_need_their_truths(tmp_path: Path, capsys: Captured) -> None:
    """Results that can't be truths say so; a table with scores that can be truths warns."""
    assert main(["convert", DETECTIONS, str(tmp_path / "out.csv")]) == 1
    assert capsys.readouterr().err.endswith("contains detections; pass their ground truth with --truths\n")
    _, detections = convert(tmp_path, "csv", ".csv")
    capsys.readouterr()
    assert main(["convert", str(detections), str(tmp_path / "out.csv")]) == 0
    assert "warning: 356 scores in" in capsys.readouterr().err


def test_truths_are_truths_even_beside_truths(tmp_path: Path, capsys: Captured) -> None:
    """A table without scores, and `--truths` that it does not need; a dataset that might have scores is refused."""
    truths, _ = convert(tmp_path, "csv", ".csv")
    capsys.readouterr()
    assert main(["convert", str(truths), str(tmp_path / "out.npz"), "--truths", TRUTHS]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("wrote 222 truths in 40 images")
    assert err == f"boxscore: warning: {truths} has no scores, so it is converted as ground truth\n"
    assert main(["convert", TRUTHS, str(tmp_path / "other.npz"), "--truths", TRUTHS]) == 1
    assert "must have `score`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["out"],
            "argument --to: required, as the suffix of 'out' is not known; one of labelme, odgt, coco, cvat, voc, ",
        ),
        (["out", "--to", "text"], "argument --to: must be one of labelme, odgt, coco, cvat, voc, "),
        (["out.csv", "--from", "jason"], "argument --from: must be one of labelme, odgt, coco, "),
        ([], "the following arguments are required: OUT"),
    ],
)
def test_a_wrong_call_is_exit_code_2(capsys: Captured, arguments: list[str], message: str) -> None:
    """With the formats that there are."""
    with pytest.raises(SystemExit) as stopped:
        main(["convert", TRUTHS, *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_real_data_keeps_its_numbers(tmp_path: Path) -> None:
    """VOC 2007 test and a real detector through npz and CSV."""
    truths, detections = str(shared_data("voc2007/Annotations.zip")), str(shared_data("voc2007/results"))
    there, found = tmp_path / "truths.npz", tmp_path / "detections.csv"
    assert main(["convert", truths, str(there)]) == 0
    assert main(["convert", detections, str(found), "--truths", truths]) == 0
    with pytest.warns(UserWarning, match="corners in the wrong order"):
        expected = numbers(truths, detections, "voc2007")
    assert numbers(there, found, "voc2007") == expected
