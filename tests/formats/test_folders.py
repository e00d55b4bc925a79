"""Folders: which format they have, image sets, and what in them is none of our business."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import boxscore
from boxscore import Truths, formats
from boxscore.cli import main
from tests.support.shared import shared_data
from tests.support.small_files import COCO, EMPTY_VOC, VOC, refused, rows_of, write

Captured = pytest.CaptureFixture[str]
CSV = "image,label,x1,y1,x2,y2\na.jpg,cat,1,2,3,4\n"


def voc_root(folder: Path) -> Path:
    """Two images, one of them in the set `test`."""
    write(folder / "VOC" / "Annotations" / "000001.xml", VOC)
    write(folder / "VOC" / "Annotations" / "000002.xml", EMPTY_VOC)
    write(folder / "VOC" / "ImageSets" / "Main" / "test.txt", "000001\n")
    write(folder / "results" / "comp4_det_test_dog.txt", "000001 0.9 48 24.5 195 71\n000002 0.8 1 2 3 4\n")
    write(folder / "results" / "comp4_det_test_cat.txt", "000001 0.9 1 2 3 4\n")
    return folder / "VOC"


@pytest.mark.parametrize("truths", ["VOC", "VOC/Annotations", "VOC.zip", "."])
def test_an_image_set_is_looked_up_in_the_ground_truth(tmp_path: Path, capsys: Captured, truths: str) -> None:
    """Wherever the results are; `compare` does the same."""
    root = voc_root(tmp_path / "devkit")
    results = tmp_path / "elsewhere"
    shutil.move(tmp_path / "devkit" / "results", results)
    shutil.make_archive(str(root), "zip", root.parent, "VOC")
    path = str(root.parent / truths)
    if truths == ".":
        (root.parent / "VOC.zip").unlink()
    arguments = [path, str(results), "--protocol", "voc2012", "--only-images", "test", "--json", "-"]
    assert main(["eval", *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["map"] == 1
    assert main(["compare", path, str(results), str(results), *arguments[2:], "--bootstrap", "2"]) == 0
    assert main(["eval", path, str(results), "--only-images", "train"]) == 1
    message = "`images`: 'train' is neither a file, nor a pattern like 'night_*', nor an image set in ImageSets/Main of"
    assert f"boxscore: {message} {path}" in capsys.readouterr().err


def test_real_data_by_the_name_of_its_set(tmp_path: Path, capsys: Captured) -> None:
    """VOC 2007 as it lies there: the annotations in a zip beside image sets and results; the results elsewhere, too."""
    root = shared_data("voc2007/Annotations.zip").parent
    results = tmp_path / "results"
    shutil.copytree(root / "results", results)
    found = []
    for path in (results, root / "results"):
        assert (
            main(["eval", str(root), str(path), "--protocol", "voc2007", "--only-images", "test", "--json", "-"]) == 0
        )
        found.append(json.loads(capsys.readouterr().out)["map"])
    assert found[0] == found[1] == pytest.approx(0.67748, abs=5e-6)


def test_annotations_in_a_zip_beside_results_are_voc(tmp_path: Path) -> None:
    """Lines of results begin with a number and go on with five, as YOLO's do."""
    root = voc_root(tmp_path)
    shutil.make_archive(str(root / "Annotations"), "zip", root, "Annotations")
    shutil.rmtree(root / "Annotations")
    shutil.move(tmp_path / "results", root / "results")
    assert formats.detect(root, "truths") == "voc"
    assert formats.detect(root, "detections") == "voc"
    truths = boxscore.read_truths(root, images="test")
    assert truths.image_names == {0: "000001"}
    assert len(boxscore.read_detections(root, truths, images="test")) == 2


@pytest.mark.parametrize("name", ["instances.json", "deep/er/instances.json", "truths.csv", "truths.csv.gz"])
def test_a_folder_with_one_file_is_that_file(tmp_path: Path, name: str) -> None:
    """Beside images and notes; so is a zip."""
    content = json.dumps(COCO).encode() if "json" in name else CSV.encode()
    if name.endswith("gz"):
        import gzip

        content = gzip.compress(content)
    write(tmp_path / "d" / name, content)
    write(tmp_path / "d" / "images" / "a.jpg", "an image")
    write(tmp_path / "d" / "README.txt", "about this")
    truths = boxscore.read_truths(tmp_path / "d")
    assert rows_of(truths, truths)[0][:2] == (("val/a.jpg" if "json" in name else "a.jpg"), "cat")
    named = boxscore.read_truths(tmp_path / "d", format="coco" if "json" in name else "csv")
    assert np.array_equal(named.boxes, truths.boxes)
    if not name.endswith("gz"):
        shutil.make_archive(str(tmp_path / "z"), "zip", tmp_path / "d")
        assert np.array_equal(boxscore.read_truths(tmp_path / "z.zip").boxes, truths.boxes)


def test_a_folder_of_detections_in_one_file(tmp_path: Path) -> None:
    """A results file of COCO in the folder of its run."""
    truths = boxscore.read_truths(write(tmp_path / "t.json", json.dumps(COCO)))
    result = {"image_id": 7, "category_id": 3, "bbox": [1, 2, 3, 4], "score": 0.5}
    write(tmp_path / "run" / "results.json", json.dumps([result]))
    write(tmp_path / "run" / "args.yaml", "lr: 1")
    assert len(boxscore.read_detections(tmp_path / "run", truths)) == 1


def test_a_folder_with_several_files_must_be_told_which(tmp_path: Path) -> None:
    """Their names are in the message."""
    for name in ("train", "val"):
        write(tmp_path / f"instances_{name}.json", json.dumps(COCO))
    message = "the folder has 2 files that may hold the truths; choose one: instances_train.json, instances_val.json"
    refused(lambda: boxscore.read_truths(tmp_path), message)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_in_a_folder_is_passed_over(tmp_path: Path) -> None:
    """Reading it would wait for ever."""
    root = voc_root(tmp_path)
    os.mkfifo(root / "Annotations" / "000003.xml")
    code = "import sys, boxscore; print(boxscore.read_truths(sys.argv[1]).image_names)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(root)], check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stdout == "{0: '000001', 1: '000002'}\n"


def test_a_list_may_have_any_names(tmp_path: Path) -> None:
    """Digits without end are no id."""
    path = write(tmp_path / "list.txt", "9" * 5000)
    refused(
        lambda: boxscore.read_truths(voc_root(tmp_path), images=path),
        "is neither a name nor an id in the data, which has 000001, 000002",
    )


def test_a_link_to_nothing_is_an_error(tmp_path: Path) -> None:
    """Its image would be lost without a word."""
    root = voc_root(tmp_path)
    (root / "Annotations" / "000003.xml").symlink_to("nowhere")
    refused(lambda: boxscore.read_truths(root), "000003.xml: No such file or directory")


def text_truths(folder: Path, lines: str) -> Truths:
    """The truths of one image."""
    return boxscore.read_truths(write(folder / "ground-truth" / "a.txt", lines).parent)


def test_text_files_of_cartucho(tmp_path: Path) -> None:
    """`class left top right bottom [difficult]`, and the confidence after the class; classes may have spaces."""
    truths = text_truths(tmp_path, "traffic light 1 2 30 40\ncat 5 6 7.5 8 difficult\n")
    assert rows_of(truths, truths) == [("a", "traffic light", [1, 2, 30, 40]), ("a", "cat", [5, 6, 7.5, 8])]
    assert np.asarray(truths.ignore).tolist() == [False, True]
    found = boxscore.read_detections(
        write(tmp_path / "detection-results" / "a.txt", "cat 0.5 5 6 7.5 8\r\ntraffic light 0.25 1 2 3 4\r\n").parent,
        truths,
    )
    assert rows_of(found, truths) == [("a", "cat", [5, 6, 7.5, 8], 0.5), ("a", "traffic light", [1, 2, 3, 4], 0.25)]


def test_text_files_with_numbers_for_classes(tmp_path: Path) -> None:
    """Pixels tell them from YOLO's fractions."""
    truths = text_truths(tmp_path, "0 1 2 30 40\n3 5 6 7 8\n")
    assert rows_of(truths, truths) == [("a", "0", [1, 2, 30, 40]), ("a", "3", [5, 6, 7, 8])]
    found = boxscore.read_detections(write(tmp_path / "d" / "a.txt", "3 0.5 5 6 7 8\n").parent, truths)
    assert rows_of(found, truths) == [("a", "3", [5, 6, 7, 8], 0.5)]
    yolo = write(tmp_path / "y" / "labels" / "a.txt", "0 0.5 0.5 0.6 0.7\n").parent
    assert formats.detect(yolo, "truths") == "yolo"
    write(tmp_path / "x" / "a.txt", "0 10 20 30 40\n")
    assert formats.detect(tmp_path / "x", "truths") == "text"
    write(tmp_path / "x" / "data.yaml", "names: [cat]\n")
    assert formats.detect(tmp_path / "x", "truths") == "yolo"
    yolo = write(tmp_path / "z" / "labels" / "a.txt", "0 0.5 0.5 0.6 0.7 0.9\n").parent
    assert formats.detect(yolo, "detections") == "yolo"


def test_text_files_with_fractions(tmp_path: Path) -> None:
    """They are multiplied by the sizes; `box_format` says what the four numbers are, if not corners."""
    path = write(tmp_path / "gt" / "a.txt", "cat 0.25 0.5 0.75 1\n").parent
    truths = boxscore.read_truths(path, sizes={"a": (200, 100)})
    assert rows_of(truths, truths) == [("a", "cat", [50, 50, 150, 100])]
    found = write(tmp_path / "d" / "a.txt", "cat 0.9 0.5 0.75 0.5 0.5\n").parent
    detections = boxscore.read_detections(found, truths, box_format="cxcywh")
    assert (detections.boxes.tolist(), detections.box_format) == ([[100, 75, 100, 50]], "cxcywh")
    assert boxscore.read_truths(path).boxes.tolist() == [[0.25, 0.5, 0.75, 1]]


@pytest.mark.parametrize(
    ("role", "line", "message"),
    [
        ("truths", "cat 1 2 3", "a.txt: line 2 must be `class left top right bottom`, and `difficult`"),
        ("truths", "cat 0.9 1 2 3 4", "a.txt: line 2 must be `class left top right bottom`"),
        (
            "truths",
            "cat 5 2 3 4",
            "a.txt: line 2 must have left <= right and top <= bottom; if boxes are not corners",
        ),
        ("truths", "cat 1 2 nan 4", "a.txt: line 2: `box` must have 4 finite numbers"),
        (
            "detections",
            "cat 1 2 3 4",
            "a.txt: line 2 must be `class confidence left top right bottom`; got 'cat 1 2 3 4'",
        ),
    ],
)
def test_bad_text_files(tmp_path: Path, role: str, line: str, message: str) -> None:
    """The file and the line."""
    good = "cat 1 2 3 4\n" if role == "truths" else "cat 0.5 1 2 3 4\n"
    path = write(tmp_path / "t" / "a.txt", good + line).parent
    truths = text_truths(tmp_path, "cat 1 2 30 40\n")
    if role == "truths":
        refused(lambda: boxscore.read_truths(path, format="text"), message)
    else:
        refused(lambda: boxscore.read_detections(path, truths, format="text"), message)


def test_text_files_without_confidence_are_no_detections(tmp_path: Path) -> None:
    """The reader says what is missing, not that the format is unknown."""
    truths = text_truths(tmp_path, "cat 1 2 30 40\n")
    refused(
        lambda: boxscore.read_detections(tmp_path / "ground-truth", truths),
        "a.txt: line 1 must be `class confidence left top right bottom`; got 'cat 1 2 30 40'",
    )


@pytest.mark.parametrize(
    "text",
    [
        'ImageID,LabelName,XMin,XMax,YMin,YMax\na,cat,"0,25","0,5","0,125","0,75"\n',
        "ImageID;LabelName;XMin;XMax;YMin;YMax\na;cat;0,25;0,5;0,125;0,75\n",
        "image;label;xmin;ymin;xmax;ymax\na;cat;0,25;0,125;0,5;0,75\n",
    ],
)
def test_decimal_commas(tmp_path: Path, text: str) -> None:
    """In Open Images' files, and in tables whose cells are separated by semicolons."""
    assert boxscore.read_truths(write(tmp_path / "t.csv", text)).boxes.tolist() == [[0.25, 0.125, 0.5, 0.75]]


def test_a_comma_in_a_table_with_commas_is_no_decimal_one(tmp_path: Path) -> None:
    """`"1,234"` may be a thousand and more."""
    path = write(tmp_path / "t.csv", 'image,label,x1,y1,x2,y2\na,cat,1,2,"1,234",4\n')
    refused(lambda: boxscore.read_truths(path), "t.csv: line 2: `x2` must be a number; got '1,234'")


def test_a_zip_of_images_beside_a_dataset_is_passed_over(tmp_path: Path) -> None:
    """It is none of the formats."""
    write(tmp_path / "d" / "instances.json", json.dumps(COCO))
    with zipfile.ZipFile(tmp_path / "d" / "images.zip", "w") as archive:
        archive.writestr("a.jpg", "an image")
        archive.writestr("b.jpg", "an image")
    write(tmp_path / "d" / "broken.zip", "no zip")
    assert len(boxscore.read_truths(tmp_path / "d")) == 2
