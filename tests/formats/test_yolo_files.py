"""YOLO's files: polygons and poses, line ends, data.yaml of any content, and what `convert` writes."""

import json
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import boxscore
from boxscore import InputError, Truths
from boxscore.cli import main, sample
from boxscore.data.geometry.boxes import to_xywh
from boxscore.formats.class_names import names_of, read_yaml
from boxscore.formats.yolo import LabelLines
from tests.support.shared import shared_data
from tests.support.small_files import PNG, coco_truths, refused, rows_of, write

Captured = pytest.CaptureFixture[str]
SIZES = {"a": (100, 100)}


def truths_of(folder: Path, lines: str, yaml: str = "names: [cat, dog]\n") -> Truths:
    """The truths of one image."""
    write(folder / "d" / "labels" / "a.txt", lines)
    write(folder / "d" / "data.yaml", yaml)
    return boxscore.read_truths(folder / "d", sizes=SIZES)


def pose(center: float, *marks: str, num: int = 2) -> str:
    """A box of .2 x .2 with keypoints in it; `marks`: what follows the x and y of each."""
    points = " ".join(" ".join([str(center), "0.5", *marks]) for _ in range(num))
    return f"1 {center} 0.5 0.2 0.2 {points}\n"


@pytest.mark.parametrize(
    ("lines", "yaml"),
    [
        (pose(0.5), "kpt_shape: [2, 2]"),
        (pose(0.5) + "1 0.5 0.5 0.2 0.2\n", "kpt_shape: [2, 2]"),
        (pose(0.5, "1"), "kpt_shape: [2, 3]"),
        (pose(0.5, "2"), ""),
        (pose(0.5, "0", num=17), ""),
    ],
)
def test_a_pose_is_its_box(tmp_path: Path, lines: str, yaml: str) -> None:
    """`kpt_shape` tells; else visibilities of 2 do, which no polygon has, or an even number of numbers."""
    truths = truths_of(tmp_path, lines, f"names: [cat, dog]\n{yaml}\n")
    assert truths.boxes.tolist() == [[50, 50, 20, 20]] * lines.count("\n")
    assert set(truths.labels.tolist()) == {1}


def test_what_may_be_poses_or_polygons_is_refused(tmp_path: Path) -> None:
    """It was read as polygons; data.yaml has the last word."""
    lines = pose(0.5) + pose(0.3)
    refused(
        lambda: truths_of(tmp_path, lines), "a.txt: line 1: 9 numbers, here and in all such lines, may be polygons, or"
    )
    truths = truths_of(tmp_path, lines, "names: [cat, dog]\nkpt_shape: [0, 0]")
    np.testing.assert_allclose(truths.boxes[0], [35, 35, 30, 30], rtol=1e-12)  # x and y of .5, .2, .5, .5
    refused(
        lambda: truths_of(tmp_path, lines, "names: [cat, dog]\nkpt_shape: [3, 2]"),
        "a.txt: line 1: `kpt_shape: [3, 2]` in data.yaml means 5 + 6 numbers per line; got 9",
    )


@pytest.mark.parametrize("shape", ["[2]", "2", "[a, b]", "[2, 7]", "{a: b}", "[[2], 2]"])
def test_the_shape_of_keypoints_must_be_one(tmp_path: Path, shape: str) -> None:
    """Two numbers."""
    yaml = f"names: [cat, dog]\nkpt_shape: {shape}"
    refused(
        lambda: truths_of(tmp_path, pose(0.5), yaml), "data.yaml: `kpt_shape` must be [number of keypoints, 2 or 3]"
    )


@pytest.mark.parametrize(
    "lines",
    [
        "0 0.1 0.1 0.3 0.1 0.3 0.3\n0 0.1 0.1 0.3 0.1 0.3 0.3 0.1 0.3\n",  # different lengths
        "0 0.8 0.8 0.9 0.8 0.9 0.9 0.8 0.9\n",  # a box about (.8, .8) of .9 x .8 is not in the image
        "0 0.1 0.1 0.3 0.1 0.3 0.3\n",
        "0 0.5 0.4 0.6 0.5 0.5 0.6 0.4 0.5\n",  # an oriented box: its corners are those of a parallelogram
    ],
)
def test_what_can_only_be_polygons_is(tmp_path: Path, lines: str) -> None:
    """By their bounds."""
    truths = truths_of(tmp_path, lines)
    low = 80 if "0.8" in lines else 40 if "0.6" in lines else 10
    size = 10 if "0.8" in lines else 20
    np.testing.assert_allclose(truths.boxes[0], [low + size / 2, low + size / 2, size, size], rtol=1e-12)


def test_poses_as_detections(tmp_path: Path) -> None:
    """Ultralytics writes the confidence last."""
    truths = truths_of(tmp_path, "1 0.5 0.5 0.2 0.2\n")
    line = pose(0.5, "0.93", num=17).strip()
    write(tmp_path / "p" / "a.txt", f"{line} 0.75\n")
    found = boxscore.read_detections(tmp_path / "p", truths)
    assert (found.boxes.tolist(), found.scores.tolist()) == ([[50, 50, 20, 20]], [0.75])
    write(tmp_path / "p" / "a.txt", f"{pose(0.5).strip()} 0.75\n")
    refused(lambda: boxscore.read_detections(tmp_path / "p", truths), "a.txt: line 1: 10 numbers, here and in all")
    write(tmp_path / "p" / "data.yaml", "kpt_shape: [2, 2]\n")
    assert boxscore.read_detections(tmp_path / "p", truths).scores.tolist() == [0.75]


def test_detections_need_a_sixth_number(tmp_path: Path, capsys: Captured) -> None:
    """The message says which, and how to get it."""
    truths = truths_of(tmp_path, "1 0.5 0.5 0.2 0.2\n")
    path = write(tmp_path / "p" / "labels" / "a.txt", "1 0.5 0.5 0.2 0.2\n").parent
    message = (
        "a.txt: line 1 must be six numbers: class cx cy w h confidence; got five: the sixth, the confidence, is missing"
    )
    refused(lambda: boxscore.read_detections(path, truths), message)
    sizes = write(tmp_path / "sizes.csv", "a,100,100\n")
    assert main(["eval", str(tmp_path / "d"), str(path), "--sizes", str(sizes)]) == 1
    assert f"{message} (in Ultralytics, `save_conf=True` writes it)" in capsys.readouterr().err


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_line_end(tmp_path: Path, end: str) -> None:
    """With a bare CR three boxes were a polygon of seven points."""
    lines = end.join(["1 0.5 0.5 0.2 0.2", "0 0.25 0.5 0.2 0.2", "", "0 0.5 0.5 0.4 0.4", ""])
    truths = truths_of(tmp_path, lines)
    assert truths.boxes[:, 2].tolist() == [20, 20, 40]
    assert truths.labels.tolist() == [1, 0, 0]
    refused(lambda: truths_of(tmp_path, lines.replace("0.25", "x")), "a.txt: line 2 must be numbers: class cx cy w h")


NAMES = [
    "😀 cat",
    "a\u2028b",
    "\x85\ufeff",
    "quote \" and \\ and '",
    "tab\there",
    "# no comment",
    "ÿ\uffff",
    "null",
    "-",
]


def test_any_class_name_comes_back(tmp_path: Path) -> None:
    """Characters beyond U+FFFF came back as two halves."""
    image = [0] * len(NAMES)
    known: dict[str, Any] = {"image_names": {0: "a.jpg"}, "image_sizes": {0: (100, 100)}, "class_names": NAMES}
    truths = Truths(image_ids=image, labels=list(range(len(NAMES))), boxes=[[0, 0, 9, 9]] * len(NAMES), **known)
    boxscore.write_truths(tmp_path / "y", truths, format="yolo")
    assert list((boxscore.read_truths(tmp_path / "y").names_by_label or {}).values()) == NAMES
    escaped = read_yaml('names: ["\\ud83d\\ude00 cat"]', "data.yaml")  # as JSON escapes it
    assert names_of(escaped, "data.yaml") == {0: "😀 cat"}
    refused(
        lambda: names_of(read_yaml('names: ["\\ud83d cat"]', "d.yaml"), "d.yaml"),
        "d.yaml: `names`: 0: must be valid Unicode",
    )


@pytest.mark.parametrize("name", ["coco", "csv", "voc"])
def test_a_name_that_is_no_text_is_refused(tmp_path: Path, name: str) -> None:
    """Half of a character can't be written."""
    truths = Truths(image_ids=[0], labels=[0], boxes=[[0, 0, 9, 9]], class_names=["\ud83d"], image_names={0: "a"})
    refused(
        lambda: boxscore.write_truths(tmp_path / "o", truths, format=name), "the name of class 0 must be valid Unicode"
    )


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("names: [&a cat]\n", "data.yaml: line 1: not YAML: anchors and aliases are not read"),
        ("a: b\nnames: [*a]\n", "data.yaml: line 2: not YAML: anchors and aliases are not read"),
        (BOMB + "names: *i\n", "not YAML: anchors and aliases are not read"),
        (BOMB + "names: {0: *i}\n", "not YAML: anchors and aliases are not read"),
        (BOMB + "names: {a: *i}\n", "not YAML: anchors and aliases are not read"),
        (BOMB + "names: [cat]\npath: *i\n", "not YAML: anchors and aliases are not read"),
        (BOMB + "names: [cat]\nval: *i\n", "not YAML: anchors and aliases are not read"),
        ("names: [cat]\npath: [a]\n", "`path` must be a folder; got a list"),
        ("names: [cat]\nval: {a: b}\n", "`val` must be a folder or a list of images; got a dict"),
        ("names: [cat]\nval: [[a]]\n", "`val` must be a folder or a list of images; got a list"),
        (
            'names: [cat]\nval: "a\\0b"\n',
            "`val` must be a folder or a list of images; got 'a\\x00b', which does not exist",
        ),
        (f"names: [cat]\nval: {'x' * 5000}\n", "which does not exist"),
        (f'names: [cat]\npath: "{"x" * 5000}"\nval: y\n', "`val` must be a folder or a list of images; got 'y'"),
        ("names: [a, [b]]\n", "got '1': a list of 1"),
        ("names: {0: a, 00: b}\n", "got the number 0 twice"),
        ("names:\n", "got ''"),
        ("path: .\n", "got None"),
        ("names: {? [a] : b}\n", "not YAML: "),
        ("&a [*a]\n", "not YAML: anchors and aliases are not read"),
        ("[a]\n", "must be a mapping with `names`; got list"),
        ('names: ["\\UFFFFFFFF"]\n', "not YAML"),
        ("[" * 5000, "not YAML"),
        ("names: " + "[" * 100_000, "not YAML"),
        ("names: [" + "a, " * 400_000 + "]", "must have at most 1,048,576 characters, as a data.yaml; got 1,200,009"),
    ],
)
def test_odd_data_yaml(tmp_path: Path, text: str, message: str) -> None:
    """Aliases that grow without end, values of the wrong kind: one line each."""
    write(tmp_path / "labels" / "a.txt", "0 0.5 0.5 0.2 0.2\n")
    path = write(tmp_path / "data.yaml", text)
    assert len(refused(lambda: boxscore.read_truths(path, sizes=SIZES), message)) < 6000


def test_a_list_of_images_with_odd_names(tmp_path: Path) -> None:
    """A null byte is in no name of a file."""
    write(tmp_path / "labels" / "a.txt", "0 0.5 0.5 0.2 0.2\n")
    write(tmp_path / "images" / "a.png", PNG)
    write(tmp_path / "some.txt", "images/a.png\nimages/some\0thing.png\n")
    path = write(tmp_path / "data.yaml", "names: [cat]\nval: some.txt\n")
    message = refused(lambda: boxscore.read_truths(path), "some\\x00thing.png': not a valid file name: ")
    assert "embedded null" in message  # Python's own words, which vary with its version


@pytest.mark.parametrize("seed", range(5))
def test_data_yaml_with_changes_gives_names_or_one_line(seed: int) -> None:
    """Never another error."""
    rng = np.random.default_rng(seed)
    text = "path: ../x\nval: [a, 'b']\nnames: {0: cat, 1: \"d\\u00e9g\"}\nkpt_shape: [17, 3]\nother:\n- a\n- b: c\n"
    marks = [*"[]{}:,-&*!|>'\"%@`#?\n\t \\\0\x85~0", "\n  ", ": ", "- ", "\\u12", "\\x", "---\n", "<<: *a", "&a "]
    for _ in range(300):
        changed = text
        for _ in range(int(rng.integers(1, 5))):
            place = int(rng.integers(len(changed)))
            changed = changed[:place] + str(rng.choice(marks)) + changed[place + int(rng.integers(0, 3)) :]
        try:
            names_of(read_yaml(changed, "data.yaml"), "data.yaml")
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017


def test_names_may_be_given_as_a_mapping(tmp_path: Path) -> None:
    """From numbers."""
    path = write(tmp_path / "labels" / "a.txt", "1 0.5 0.5 0.2 0.2\n").parent
    assert boxscore.read_truths(path, sizes=SIZES, names={1: "dog"}).names_by_label == {1: "dog"}
    refused(
        lambda: boxscore.read_truths(path, sizes=SIZES, names={"dog": 1}), "`names` must be a list of names, a mapping"
    )


def test_data_yaml_without_pyyaml_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading and writing; label files with a list of names need nothing."""
    path = write(tmp_path / "d" / "data.yaml", "names: [cat]\n")
    write(tmp_path / "n" / "classes.txt", "cat\n")
    labels = [write(tmp_path / name / "labels" / "a.txt", "0 0.5 0.5 0.2 0.2\n").parents[1] for name in "dn"]
    monkeypatch.setitem(sys.modules, "yaml", None)
    advice = f"{path}: YAML files need PyYAML: pip install 'boxscore[yolo]'"
    for read in (path, labels[0]):
        refused(lambda: boxscore.read_truths(read, sizes=SIZES), advice)  # noqa: B023
    refused(lambda: boxscore.write_truths(tmp_path / "o", simple(), format="yolo"), "pip install 'boxscore[yolo]'")
    assert not (tmp_path / "o").exists()
    assert boxscore.read_truths(labels[1], sizes=SIZES).names_by_label == {0: "cat"}


def simple(**names: Any) -> Truths:
    """A box in each image."""
    images = names.pop("images", ["a.jpg"])
    known = {"class_names": ["cat"], "image_names": dict(enumerate(images))} | names
    sizes = dict.fromkeys(range(len(images)), (100, 100))
    return Truths(
        image_ids=range(len(images)),
        labels=[0] * len(images),
        boxes=[[0, 0, 50, 50]] * len(images),
        image_sizes=sizes,
        **known,
    )


def test_labels_are_right_in_a_folder_of_that_name(tmp_path: Path) -> None:
    """Not in `labels/labels`; anywhere else there is a folder for them."""
    for name, expected in (("labels", "a.txt"), ("x/labels/val", "a.txt"), ("dataset", "labels/a.txt")):
        boxscore.write_truths(tmp_path / name, simple(), format="yolo")
        assert (tmp_path / name / expected).is_file()
        assert sorted(file.name for file in (tmp_path / name).rglob("*.*")) == ["a.txt", "data.yaml", "sizes.csv"]
        for path in (tmp_path / name, tmp_path / name / "data.yaml"):
            truths = boxscore.read_truths(path)
            assert rows_of(truths, truths) == [("a", "cat", [25, 25, 50, 50])]


@pytest.mark.parametrize(("name", "root", "images"), [("d", "d", "images"), ("x/labels/val", "x", "images/val")])
def test_data_yaml_is_what_ultralytics_reads(tmp_path: Path, name: str, root: str, images: str) -> None:
    """`path` is absolute, `train` and `val` are folders of images in it, whose labels are beside them."""
    boxscore.write_truths(tmp_path / name, simple(class_names=["cat", "dog"]), format="yolo")
    data = yaml.safe_load((tmp_path / name / "data.yaml").read_text())
    assert data == {"path": str(tmp_path / root), "train": images, "val": images, "names": {0: "cat", 1: "dog"}}
    # as Ultralytics finds a label: the image's path with "labels" for "images"
    image = write(Path(data["path"]) / data["val"] / "a.png", PNG)
    label = Path("/labels/".join(str(image).rsplit("/images/", 1))).with_suffix(".txt")
    assert label.read_text() == "0 0.25 0.25 0.5 0.5\n"
    assert boxscore.read_truths(tmp_path / name / "data.yaml").image_sizes == {0: (200, 100)}


@pytest.mark.parametrize("folder", ["d", "labels"])
def test_images_called_like_lists_are_not_lost(tmp_path: Path, folder: str) -> None:
    """`classes.txt` and `train.txt` are label files if they look like that, or have nothing in them."""
    names = ["classes.jpg", "train.jpg", "readme.jpg", "predefined_classes.jpg"]
    truths = simple(images=[*names, "empty.jpg"])
    boxscore.write_truths(tmp_path / folder, truths, format="yolo")
    assert list((boxscore.read_truths(tmp_path / folder).image_names or {}).values()) == sorted(
        ["classes", "train", "readme", "predefined_classes", "empty"]
    )
    empty = Truths(image_ids=[], labels=[], boxes=np.zeros((0, 4)), image_names={0: "classes.jpg"}, class_names=["cat"])
    boxscore.write_truths(tmp_path / "e" / folder, empty, format="yolo")
    assert boxscore.read_truths(tmp_path / "e" / folder).image_names == {0: "classes"}


def test_lists_in_a_folder_of_labels_are_no_labels(tmp_path: Path) -> None:
    """LabelImg puts classes.txt there, darknet train.txt."""
    write(tmp_path / "labels" / "a.txt", "1 0.5 0.5 0.2 0.2\n")
    write(tmp_path / "labels" / "classes.txt", "cat\nbig dog\n")
    write(tmp_path / "labels" / "train.txt", "images/a.jpg\n")
    truths = boxscore.read_truths(tmp_path / "labels", sizes=SIZES)
    assert (truths.image_names, truths.names_by_label) == ({0: "a"}, {0: "cat", 1: "big dog"})


@pytest.mark.parametrize("name", ["yolo", "voc"])
def test_a_hidden_image_is_refused(tmp_path: Path, name: str) -> None:
    """Readers skip files that begin with a dot, so it was lost without a word."""
    refused(
        lambda: boxscore.write_truths(tmp_path / "o", simple(images=[".a.jpg"]), format=name),
        "image '.a' begins with a dot",
    )
    assert not (tmp_path / "o").exists()
    boxscore.write_truths(tmp_path / "o.csv", simple(images=[".a.jpg"]))
    assert boxscore.read_truths(tmp_path / "o.csv").image_names == {0: ".a.jpg"}


@pytest.mark.parametrize("name", ["voc", "csv", "openimages"])
def test_a_class_without_a_name_is_refused_where_names_are_all_there_is(tmp_path: Path, name: str) -> None:
    """Its boxes were lost: a row without a class is an image without boxes."""
    truths = simple(class_names=[""])
    refused(lambda: boxscore.write_truths(tmp_path / "o", truths, format=name), "class 0 has an empty name")
    detections = boxscore.Detections(image_ids=[0], labels=[0], scores=[0.5], boxes=[[0, 0, 9, 9]])
    refused(
        lambda: boxscore.write_detections(tmp_path / "o", detections, truths, format=name), "class 0 has an empty name"
    )


@pytest.mark.parametrize("name", ["coco", "npz", "yolo"])
def test_a_class_without_a_name_is_held_elsewhere(tmp_path: Path, name: str) -> None:
    """By its number."""
    path = tmp_path / {"coco": "o.json", "npz": "o.npz"}.get(name, "o")
    boxscore.write_truths(path, simple(class_names=[""]), format=name)
    again = boxscore.read_truths(path)
    assert (len(again), again.names_by_label) == (1, {0: ""})


@pytest.mark.parametrize("side", [float("inf"), float("nan"), 10**18, "inf", None])
def test_sizes_must_be_whole_numbers(tmp_path: Path, side: Any) -> None:
    """Infinity was a traceback."""
    path = write(tmp_path / "labels" / "a.txt", "0 0.5 0.5 0.2 0.2\n").parent
    refused(lambda: boxscore.read_truths(path, sizes={"a": (side, 5)}), "`sizes`: 'a' must have a width and a height")


def test_yolo_truths(tmp_path: Path) -> None:
    """Sizes from the images; polygons by their bounds; an image without labels is an image."""
    write(tmp_path / "d" / "data.yaml", "path: .\nval: images/val\nnames:\n  0: cat\n  1: big dog\n")
    write(tmp_path / "d" / "labels" / "val" / "a.txt", "1 0.5 0.5 0.25 0.5\n0 0.1 0.2 0.3 0.2 0.3 0.6\n")
    write(tmp_path / "d" / "labels" / "val" / "b.txt", "")
    for name in "abc":
        write(tmp_path / "d" / "images" / "val" / f"{name}.png", PNG)
    for path in (tmp_path / "d", tmp_path / "d" / "labels" / "val", tmp_path / "d" / "data.yaml"):
        truths = boxscore.read_truths(path)
        assert truths.image_names == {0: "a", 1: "b", 2: "c"}
        assert truths.image_sizes == dict.fromkeys(range(3), (200, 100))
        assert truths.names_by_label == {0: "cat", 1: "big dog"}
        assert truths.box_format == "cxcywh"
        # the polygon (.1, .2) (.3, .2) (.3, .6): middle (.2, .4), size (.2, .4), of 200 x 100 pixels
        expected = np.array([[100, 50, 50, 50], [40, 40, 40, 40]])
        np.testing.assert_allclose(truths.boxes, expected, rtol=1e-12)
        assert truths.labels.tolist() == [1, 0]


def test_data_yaml_may_name_lists_of_images(tmp_path: Path) -> None:
    """One image a line, from where the list is; a missing label file means no boxes, a missing list is an error."""
    write(tmp_path / "data.yaml", "val: [some.txt]\nnames: [cat]\n")
    write(tmp_path / "some.txt", "./images/a.png\nimages/b.png\n")
    write(tmp_path / "labels" / "a.txt", "0 0.5 0.5 0.25 0.5\n")
    write(tmp_path / "labels" / "c.txt", "0 0.5 0.5 0.25 0.5\n")
    for name in "abc":
        write(tmp_path / "images" / f"{name}.png", PNG)
    truths = boxscore.read_truths(tmp_path / "data.yaml")
    assert (truths.image_names, len(truths)) == ({0: "a", 1: "b"}, 1)
    write(tmp_path / "data.yaml", "val: nowhere\nnames: [cat]\n")
    with pytest.raises(boxscore.InputError, match="`val` must be a folder or a list of images; got 'nowhere'"):
        boxscore.read_truths(tmp_path / "data.yaml")


def test_yolo_truths_with_a_list_of_sizes(tmp_path: Path) -> None:
    """And a names file; without either, the error says what to give."""
    write(tmp_path / "labels" / "a.txt", "0 0.5 0.5 0.25 0.5")
    with pytest.raises(boxscore.InputError, match=r"give `sizes`, a list \(name,width,height\) or the folder"):
        boxscore.read_truths(tmp_path / "labels")
    write(tmp_path / "classes.txt", "cat\ndog\n")
    sizes = write(tmp_path / "sizes" / "list.csv", "name,width,height\na.jpg,400,100\n")
    for given in (sizes, {"a": (400, 100)}):
        truths = boxscore.read_truths(tmp_path / "labels", sizes=given)
        assert rows_of(truths, truths) == [("a", "cat", [200, 50, 100, 50])]


def test_yolo_detections_take_sizes_and_classes_from_the_truths(tmp_path: Path) -> None:
    """Class 1 is the second of the truths' classes by id, unless names say otherwise."""
    truths = coco_truths(tmp_path)
    write(tmp_path / "p" / "labels" / "a.txt", "1 0.5 0.5 0.25 0.5 0.75\r\n")
    found = boxscore.read_detections(tmp_path / "p", truths)
    assert found.box_format == "cxcywh"
    assert rows_of(found, truths) == [("val/a.jpg", "dog", [100, 50, 50, 50], 0.75)]
    found = boxscore.read_detections(tmp_path / "p", truths, names=["dog", "cat"])
    assert rows_of(found, truths) == [("val/a.jpg", "cat", [100, 50, 50, 50], 0.75)]


def yolo_folder(folder: Path, lines: str) -> Path:
    """Labels of one image of 640 x 480."""
    write(folder / "sizes.csv", "name,width,height\na,640,480\n")
    return write(folder / "labels" / "a.txt", lines).parent


def test_yolo_rows_in_pixels_are_refused(tmp_path: Path) -> None:
    """They would lie far outside of their image. Among many detections a few may be very large: that is told."""
    pixels = yolo_folder(tmp_path / "pixels", "0 0.5 0.5 0.2 0.2\n0 320 240 100 50\n")
    with pytest.raises(boxscore.InputError) as refused:
        boxscore.read_truths(pixels)
    assert str(refused.value) == (
        f"{pixels / 'a.txt'}: line 2: boxes must be fractions of the image's width and height, 0 to 1; got"
        " 320 240 100 50 (cxcywh); these look like pixels: divide them by the image's size"
    )
    truths = boxscore.read_truths(yolo_folder(tmp_path / "truths", "0 0.5 0.5 1.0003 1.0003\n0 0.9 0.9 0.3 0.3\n"))
    assert len(truths) == 2, "a box may reach over the border"
    most = yolo_folder(tmp_path / "most", "0 320 240 100 50 0.9\n0 0.5 0.5 0.2 0.2 0.8\n")
    with pytest.raises(boxscore.InputError, match=r"a.txt: line 1: boxes must be fractions"):
        boxscore.read_detections(most, truths)
    few = yolo_folder(tmp_path / "few", "0 0.5 0.5 0.2 0.2 0.8\n" * 2 + "0 0.5 0.5 7 7 0.1\n")
    with pytest.warns(UserWarning, match=r"^1 box of 3 look like pixels; .*a.txt: line 3: boxes must be fractions"):
        assert len(boxscore.read_detections(few, truths)) == 3


def reordered(folder: Path, target: Path, order: Callable[[list[str]], list[str]]) -> Path:
    """Label files whose lines have their words in another order."""
    for file in sorted(folder.rglob("*.txt")):
        lines = [" ".join(order(line.split())) for line in file.read_text().splitlines()]
        write(target / file.name, "\n".join(lines))
    return target


def as_corners(words: list[str]) -> list[str]:
    """`class left top right bottom`, from center and size; a sixth word comes second."""
    cx, cy, width, height = map(float, words[1:5])
    return [words[0], *words[5:], *map(repr, (cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2))]


@pytest.mark.parametrize(
    ("order", "words", "options"),
    [
        (
            lambda words: [words[0], words[5], *words[1:5]],
            "class confidence cx cy w h",
            ["--dt-format", "text", "--box-format", "cxcywh"],
        ),
        (as_corners, "class confidence left top right bottom", ["--dt-format", "text"]),
    ],
    ids=["centers", "corners"],
)
def test_another_order_of_numbers_is_refused(
    tmp_path: Path, capsys: Captured, order: Callable[[list[str]], list[str]], words: str, options: list[str]
) -> None:
    """It would give a wrong number without a word; the message has the options that read it."""
    found, truths = sample.load()
    boxscore.write_truths(tmp_path / "t", truths, format="yolo")
    boxscore.write_detections(tmp_path / "d", found, truths, format="yolo")
    assert main(["eval", str(tmp_path / "t"), str(tmp_path / "d"), "--json", "-"]) == 0
    right = json.loads(capsys.readouterr().out)["map"]
    odd = reordered(tmp_path / "d", tmp_path / "odd", order)
    for command in ("eval", "check"):
        assert main([command, str(tmp_path / "t"), str(odd)]) == 1
        said = "".join(capsys.readouterr())
        assert re.search(rf"{odd}/street_\d+.txt: line \d+: read as `class cx cy w h confidence`, this box and ", said)
        assert f"leave their images; read as `{words}`, 4 do: give `format` text" in said
        assert f"({' '.join(options)}) if that is their order, or `format` yolo (--dt-format yolo) if it is not" in said
    assert main(["eval", str(tmp_path / "t"), str(odd), *options, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["map"] == right
    assert main(["eval", str(tmp_path / "t"), str(odd), "--dt-format", "yolo", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["map"] < right / 2


def test_truths_with_corners_are_refused(tmp_path: Path) -> None:
    """Fractions of corners, where the class is a number."""
    _, truths = sample.load()
    boxscore.write_truths(tmp_path / "t", truths, format="yolo")
    odd = reordered(tmp_path / "t", tmp_path / "odd", as_corners)
    sizes = tmp_path / "t" / "sizes.csv"
    refused(
        lambda: boxscore.read_truths(odd, sizes=sizes),
        "read as `class left top right bottom`, 0 do: give `format` text (--gt-format text) if that is their order",
    )
    assert len(boxscore.read_truths(odd, sizes=sizes, format="text")) == len(truths)


@pytest.mark.parametrize(
    ("path", "results"),
    [
        ("coco_val2017/instances_val2017_boxes.json", "coco_val2017/yolox_nano.json"),
        ("val2014_100/instances_val2014_100.json", "val2014_100/instances_val2014_fakebbox100_results.json"),
        ("voc2007/Annotations.zip", "voc2007/results"),
    ],
)
@pytest.mark.filterwarnings("ignore:corners in the wrong order")
def test_the_order_of_real_boxes_is_known(path: str, results: str) -> None:
    """Those of detectors that predict boxes beyond the image, too; in another order they are refused."""
    images = shared_data("voc2007/ImageSets/Main/test.txt") if "voc" in path else None
    truths = boxscore.read_truths(shared_data(path), images=images)
    detections = boxscore.read_detections(shared_data(results), truths, images=images)
    for columns in (detections, truths):
        left, top, width, height = to_xywh(columns.boxes, columns.box_format)
        sizes = [(truths.image_sizes or {})[image] for image in columns.image_ids.tolist()]
        box = np.stack([left + width / 2, top + height / 2, width, height], axis=1) / np.tile(sizes, 2)
        corners = np.concatenate([box[:, :2] - box[:, 2:] / 2, box[:, :2] + box[:, 2:] / 2], axis=1)
        label = columns.labels.astype(float)[:, None]
        has_score = isinstance(columns, boxscore.Detections)
        lines = LabelLines(words=[], has_score=has_score, location=str, keypoint_shape=lambda: None)
        if isinstance(columns, Truths):
            lines.check_order(np.hstack([label, box]))
            others = [np.hstack([label, corners])]
        else:
            score = columns.scores[:, None]
            lines.check_order(np.hstack([label, box, score]))
            others = [np.hstack([label, score, box]), np.hstack([label, score, corners])]
        for other in others:
            refused(partial(lines.check_order, other), "read as `class")
