"""What a result says of itself: whether its numbers may be compared with published ones, and what differs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore.cli import main, sample
from boxscore.protocol.comparable import NO_FREQUENCY, NOT_EXPANDED
from tests.support.lvis_scenes import federated_scene, write_lvis
from tests.support.open_images_files import LABELS, write_all
from tests.support.open_images_files import TRUTHS as BOXES
from tests.support.small_files import refused, write

Captured = pytest.CaptureFixture[str]
TRUTHS = str(sample.FOLDER / "truths.json")
DETECTIONS = str(sample.FOLDER / "detections.json")


def open_images(folder: Path) -> dict[str, str]:
    """The paths of the five files of a small dataset."""
    return {name: str(path) for name, path in write_all(folder).items()}


def printed(capsys: Captured, *arguments: str) -> Any:
    """The JSON that a command prints."""
    assert main([*arguments, "--json", "-", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def renamed(tmp_path: Path) -> str:
    """The sample's detections, with an unknown class in 209 of 356."""
    rows = json.loads(Path(DETECTIONS).read_text())
    for row in rows[:209]:
        row["category_id"] = 77
    return str(write(tmp_path / "renamed.json", json.dumps(rows)))


def test_detections_that_were_left_out_are_a_difference(
    renamed: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the table, in JSON and in the report; a file whose detections all count is not blamed for another."""
    monkeypatch.chdir(tmp_path)
    words = "209 of 356 detections left out"
    assert main(["eval", TRUTHS, renamed, "--unmatched", "warn"]) == 0
    line = f"not comparable with COCO leaderboard rules: {words}"
    assert capsys.readouterr().out.splitlines()[-1] == line
    both = printed(capsys, "eval", TRUTHS, DETECTIONS, renamed, "--unmatched", "warn", "--html", "report.html")
    assert [each["comparable"]["differences"] for each in both] == [[], [words]]
    assert Path("report.html").read_text().count(words) == 2


def test_large_data_says_what_was_left_out(renamed: str, tmp_path: Path, capsys: Captured) -> None:
    """Out of core, too; the warning stays."""
    assert main(["convert", TRUTHS, str(tmp_path / "t.parquet"), "--quiet"]) == 0
    assert main(["convert", DETECTIONS, str(tmp_path / "d.parquet"), "--truths", TRUTHS, "--quiet"]) == 0
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(tmp_path / "d.parquet").drop_columns(["class_name", "category_id"])
    labels = [row["category_id"] for row in json.loads(Path(renamed).read_text())]
    pq.write_table(table.append_column("category_id", pa.array(labels)), tmp_path / "d.parquet")
    files = [str(tmp_path / name) for name in ("t.parquet", "d.parquet")]
    assert main(["eval", *files, "--memory", "30GB", "--unmatched", "warn"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == "not comparable with COCO leaderboard rules: 209 of 356 detections left out"
    assert "209 detections of 356 left out" in err


def test_a_comparison_says_it_once(renamed: str, capsys: Captured) -> None:
    """What differs in one model is named with it."""
    command = ["compare", TRUTHS, DETECTIONS, f"new={renamed}", "--unmatched", "warn", "--bootstrap", "0"]
    assert main(command) == 0
    line = "not comparable with COCO leaderboard rules: new: 209 of 356 detections left out"
    assert capsys.readouterr().out.splitlines()[-1] == line
    plain = printed(capsys, *command, "--iou", "0.5")["comparable"]
    assert plain["differences"] == [
        "thresholds 0.50 in place of 0.50:0.95",
        "new: 209 of 356 detections left out",
    ]
    assert not plain["is_comparable"]


class TestOpenImages:
    """The challenge expands classes by a hierarchy."""

    def test_classes_that_were_not_expanded_are_a_difference(self, tmp_path: Path, capsys: Captured) -> None:
        """Under the challenge's rules alone; files that are expanded already are fine with the hierarchy."""
        files = open_images(tmp_path)
        options = ["--protocol", "openimages", "--image-labels", files["labels"], "--unmatched", "warn"]
        command = ["eval", files["truths"], files["detections"], *options]
        differences = printed(capsys, *command)["comparable"]["differences"]
        assert differences == [NOT_EXPANDED, "1 of 4 detections left out"]
        tree = ["--hierarchy", files["tree"]]
        assert printed(capsys, *command, *tree)["comparable"]["is_comparable"]
        for name in ("truths", "detections"):
            source = ["--truths", files["truths"]] if name == "detections" else []
            convert = ["convert", files[name], str(tmp_path / f"expanded_{name}.csv"), "--to", "openimages"]
            labels = ["--image-labels", files["labels"]]
            assert main([*convert, *source, *labels, *tree, "--quiet"]) == 0
        expanded = ["eval", *(str(tmp_path / f"expanded_{name}.csv") for name in ("truths", "detections")), *options]
        again = printed(capsys, *expanded, *tree)
        assert again["comparable"]["is_comparable"]
        assert again["map"] == printed(capsys, *command, *tree)["map"]

    def test_other_rules_ask_for_no_hierarchy(self, tmp_path: Path) -> None:
        """Only those of Open Images do."""
        plain = write(tmp_path / "t.csv", BOXES.replace("0,1,1,0", "0,1,0,0"))
        truths = boxscore.read_truths(plain)
        assert truths.subset == (NOT_EXPANDED,)
        box = np.asarray(truths.boxes)
        found = boxscore.Detections(image_ids=truths.image_ids, labels=truths.labels, scores=[0.5] * 3, boxes=box)
        assert boxscore.evaluate(found, truths, "voc2012").comparable
        assert not boxscore.evaluate(found, truths, boxscore.Protocol.named("openimages", federated=False)).comparable

    def test_labels_must_be_of_the_same_images(self, tmp_path: Path) -> None:
        """Of one at least; labels of classes that the hierarchy does not have say nothing."""
        files = open_images(tmp_path)
        other = write(tmp_path / "other.csv", "ImageID,LabelName,Confidence\nx,/m/cat,1\ny,/m/cat,0\n")
        read = boxscore.read_truths
        message = f"{other}: image labels must be of the images of {files['truths']}, and none is: these have x, y"
        refused(lambda: read(files["truths"], image_labels=other), message)
        more = write(tmp_path / "more.csv", LABELS + "a,verification,/m/wing,1\n")
        expected, found = (
            read(files["truths"], image_labels=labels, hierarchy=files["tree"]) for labels in (files["labels"], more)
        )
        assert found.names_by_label == expected.names_by_label
        assert found.coverage is not None
        assert expected.coverage is not None
        assert found.coverage.labels.tolist() == expected.coverage.labels.tolist()

    def test_a_class_that_is_missing_from_the_hierarchy_comes_with_advice(self, tmp_path: Path) -> None:
        """What to do about it."""
        files = open_images(tmp_path)
        odd = write(tmp_path / "odd.csv", BOXES.replace("/m/pug", "/m/wing"))
        advice = "take the hierarchy that was published with these classes"
        refused(lambda: boxscore.read_truths(odd, hierarchy=files["tree"]), advice)


class TestLvis:
    """Its categories have a frequency."""

    def test_categories_without_frequency_are_a_difference(self, tmp_path: Path, capsys: Captured) -> None:
        """Under LVIS' rules alone."""
        dataset, results = federated_scene(4)
        files = write_lvis(tmp_path, dataset, results)
        assert printed(capsys, "eval", *files, "--protocol", "lvis")["comparable"]["is_comparable"]
        for category in dataset["categories"]:
            del category["frequency"]
        files = write_lvis(tmp_path, dataset, results)
        for protocol in ("lvis", "lvis_fixed"):
            plain = printed(capsys, "eval", *files, "--protocol", protocol)
            assert plain["comparable"]["differences"] == [NO_FREQUENCY]
        assert printed(capsys, "eval", *files)["comparable"]["is_comparable"]

    def test_the_error_says_first_what_lvis_has(self, capsys: Captured) -> None:
        """For Open Images it is the labels."""
        assert main(["eval", TRUTHS, DETECTIONS, "--protocol", "lvis"]) == 1
        error = capsys.readouterr().err
        assert f"{TRUTHS}: this is not an LVIS file: its images have no `neg_category_ids`; protocol lvis" in error
        assert main(["eval", TRUTHS, DETECTIONS, "--protocol", "openimages"]) == 1
        error = capsys.readouterr().err
        assert error.index("--image-labels") < error.index("`neg_category_ids`")

    def test_classes_can_not_be_disregarded(self, capsys: Captured) -> None:
        """A usage error."""
        with pytest.raises(SystemExit) as stopped:
            main(["eval", TRUTHS, DETECTIONS, "--protocol", "lvis", "--class-agnostic"])
        assert stopped.value.code == 2
        assert "argument --class-agnostic: not with --protocol lvis" in capsys.readouterr().err
