"""Detections find images and classes by id, name or stem; what finds none is never dropped in silence."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import boxscore
from boxscore import Detections, InputError, Truths
from boxscore.cli import main
from boxscore.cli.sample import FOLDER
from boxscore.scaling.out_of_core import evaluate_files
from tests.support.memory_limits import plenty

NAMES = {1: "x/000007.jpg", 7: "x/000001.jpg", 12: "x/cat.v2.png"}


def truths(**changes: Any) -> Truths:
    """Three images, of which one has a box; two classes."""
    good: dict[str, Any] = {
        "image_ids": [1],
        "labels": [3],
        "boxes": [[0.0, 0.0, 9.0, 9.0]],
        "class_names": {3: "Cat", 5: "dog"},
        "image_names": NAMES,
    }
    return Truths(**good | changes)


def results(folder: Path, images: list[Any], labels: list[Any] | None = None) -> Path:
    """Results, one on each image: COCO's, or a table where classes have names."""
    pairs = list(zip(images, labels or [3] * len(images), strict=True))
    if any(isinstance(label, str) for _, label in pairs):
        path = folder / "results.csv"
        rows = "".join(f"{image},{label},0.5,0,0,1,1\n" for image, label in pairs)
        path.write_text(f"image,label,score,x1,y1,x2,y2\n{rows}")
    else:
        path = folder / "results.json"
        keys = ({"image_id": image, "category_id": label} for image, label in pairs)
        path.write_text(json.dumps([key | {"bbox": [0, 0, 1, 1], "score": 0.5} for key in keys]))
    return path


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        ([1, 7, 12], [1, 7, 12]),
        (["x/000001.jpg", "x/000007.jpg"], [7, 1]),
        (["000001.jpg", "cat.v2.png"], [7, 12]),
        (["000001", "cat.v2"], [7, 12]),
        (["other/000001.png"], [7]),
        (["C:\\data\\000001.jpg"], [7]),
        (["12", "1"], [12, 1]),
    ],
)
def test_images(tmp_path: Path, images: list[Any], expected: list[int]) -> None:
    """Numbers are ids; texts are file names, with or without folder and suffix, or ids written as text."""
    assert boxscore.read_detections(results(tmp_path, images), truths()).image_ids.tolist() == expected


@pytest.mark.parametrize(
    ("labels", "expected"), [([3, 5], [3, 5]), (["Cat", "dog"], [3, 5]), (["cat", "DOG"], [3, 5]), (["5"], [5])]
)
def test_classes(tmp_path: Path, labels: list[Any], expected: list[int]) -> None:
    """By id or name; case matters only where it tells two classes apart."""
    found = boxscore.read_detections(results(tmp_path, [1] * len(labels), labels), truths())
    assert found.labels.tolist() == expected


def test_case_that_tells_classes_apart_matters(tmp_path: Path) -> None:
    """`cat` may be neither of them."""
    both = truths(class_names={3: "Cat", 5: "CAT"})
    assert boxscore.read_detections(results(tmp_path, [1], ["CAT"]), both).labels.tolist() == [5]
    with pytest.raises(InputError, match="class 'cat' is not among those of the truths"):
        boxscore.read_detections(results(tmp_path, [1], ["cat"]), both)


def test_stems_that_two_images_share_find_neither(tmp_path: Path) -> None:
    """With their folders they are found."""
    twins = truths(image_ids=[0], image_names={0: "a/1.jpg", 1: "b/1.jpg"})
    assert boxscore.read_detections(results(tmp_path, ["b/1.jpg"]), twins).image_ids.tolist() == [1]
    with pytest.raises(InputError, match=r"image '1.png' is not among those of the truths"):
        boxscore.read_detections(results(tmp_path, ["1.png"]), twins)


VOC = {0: "000001", 1: "000002", 2: "000007"}


def test_ids_find_images_that_have_only_names_by_the_number_in_the_name(tmp_path: Path) -> None:
    """Truths of VOC are numbered by name, and 1 is 000001, never the second of them; with ids it is the id."""
    numbered = truths(image_ids=[0], image_names=VOC, _is_numbered=True)
    assert boxscore.read_detections(results(tmp_path, [7, 1]), numbered).image_ids.tolist() == [2, 0]
    assert boxscore.read_detections(results(tmp_path, [1, 2]), numbered).image_ids.tolist() == [0, 1]
    assert boxscore.read_detections(results(tmp_path, ["7", "1"]), numbered).image_ids.tolist() == [2, 0]
    assert len(boxscore.read_detections(results(tmp_path, []), numbered)) == 0
    own = truths(image_ids=[0], image_names=VOC)
    assert boxscore.read_detections(results(tmp_path, [1, 2]), own).image_ids.tolist() == [1, 2]


@pytest.mark.parametrize("unmatched", ["error", "warn"])
@pytest.mark.parametrize(
    ("names", "images", "strange"),
    [
        (VOC, [0, 2], 0),  # places in the list, of which one happens to be a number in a name
        (VOC, [0], 0),
        (VOC, [1000, 1001], 1000),
        ({0: "cat", 1: "dog"}, [0, 1], 0),
    ],
)
def test_ids_that_are_no_names_are_refused(
    tmp_path: Path, names: dict[int, str], images: list[int], strange: int, unmatched: Any
) -> None:
    """Numbers that were given to names here mean nothing in a file of results."""
    path = results(tmp_path, images)
    with pytest.raises(InputError) as refused:
        boxscore.read_detections(path, truths(image_ids=[0], image_names=names, _is_numbered=True), unmatched=unmatched)
    assert str(refused.value) == (
        f"{path}: images have ids ({', '.join(map(str, images))}), but those of the truths have only names"
        f" ({', '.join(names.values())}), and {strange} is none of them; give the images of the detections by file"
        " name, or read truths that have ids, as those of COCO JSON do"
    )


def test_an_id_that_is_no_name_among_many_that_are_is_unmatched(tmp_path: Path) -> None:
    """The file goes by the names; this one image is not there."""
    numbered = truths(image_ids=[0], image_names=VOC, _is_numbered=True)
    with pytest.raises(InputError, match=r"result 2: image 8 is not among those of the truths \(1 detection"):
        boxscore.read_detections(results(tmp_path, [1, 7, 8]), numbered)


def test_an_id_that_two_names_share_is_refused(tmp_path: Path) -> None:
    """It may be either."""
    twins = truths(image_ids=[0], image_names={0: "a/12.jpg", 1: "b/012.jpg", 2: "b/13.jpg"}, _is_numbered=True)
    assert boxscore.read_detections(results(tmp_path, [13]), twins).image_ids.tolist() == [2]
    with pytest.raises(InputError, match=r"results.json: image 12 may be 'a/12.jpg' or 'b/012.jpg' of the truths"):
        boxscore.read_detections(results(tmp_path, [13, 12]), twins)


def test_unmatched_images_are_an_error_with_place_count_and_examples(tmp_path: Path) -> None:
    """The first of them, how many, and some that are known."""
    path = results(tmp_path, [1, 99, 98, 99])
    message = (
        f"{path}: result 1: image 99 is not among those of the truths"
        " (3 detections with it and 1 other image; known: x/000007.jpg, x/000001.jpg, x/cat.v2.png)"
    )
    with pytest.raises(InputError) as refused:
        boxscore.read_detections(path, truths())
    assert str(refused.value) == message


def test_unmatched_detections_can_be_left_out_with_a_warning(tmp_path: Path) -> None:
    """One warning, with the counts of images and classes."""
    path = results(tmp_path, [1, 99, 7, 98], [3, 3, 4, 4])
    with pytest.warns(UserWarning, match=r"^3 detections of 4 left out: .*image 99 .*; .*class 4 ") as caught:
        found = boxscore.read_detections(path, truths(), unmatched="warn")
    assert len(caught) == 1
    assert found.image_ids.tolist() == [1]
    with pytest.raises(InputError, match="`unmatched` must be one of error, warn; got 'drop'"):
        boxscore.read_detections(path, truths(), unmatched="drop")  # type: ignore[arg-type]


def test_a_selection_drops_other_images_without_complaint(tmp_path: Path) -> None:
    """Of truths that were read with the same selection; an unknown image that is selected is still an error."""
    path = results(tmp_path, [1, 7, 12])
    some = boxscore.formats.select(Detections(image_ids=[], labels=[], scores=[], boxes=[]), truths(), images=[1, 12])[
        1
    ]
    assert some.image_names == {1: NAMES[1], 12: NAMES[12]}
    with pytest.raises(InputError, match="image 7 is not among those"):
        boxscore.read_detections(path, some)
    assert boxscore.read_detections(path, some, images=[1, 12]).image_ids.tolist() == [1, 12]
    assert boxscore.read_detections(path, truths(), images=["cat.v2"]).image_ids.tolist() == [12]
    listed = tmp_path / "list.txt"
    listed.write_text("cat.v2.png 1\n\n000007 -1\n")
    assert boxscore.read_detections(path, truths(), images=listed).image_ids.tolist() == [1, 12]
    with pytest.raises(InputError, match="`images`: 'nowhere' is neither a name nor an id in the data, which has "):
        boxscore.read_detections(path, truths(), images=["nowhere"])


def test_select_gives_both_without_the_rest() -> None:
    """Rows, names and sizes of other images and classes are gone."""
    there = truths(
        image_ids=[1, 7],
        labels=[3, 5],
        boxes=np.ones((2, 4)),
        ignore=[True, False],
        image_sizes=dict.fromkeys(NAMES, (4, 4)),
    )
    found = Detections(image_ids=[1, 7, 12], labels=[3, 3, 5], scores=[0.5] * 3, boxes=np.ones((3, 4)))
    detections, kept = boxscore.formats.select(found, there, images=[1, "cat.v2.png"], classes=["cat"])
    assert (detections.image_ids.tolist(), kept.image_ids.tolist()) == ([1], [1])
    assert kept.names_by_label == {3: "Cat"}
    assert kept.image_sizes == {1: (4, 4), 12: (4, 4)}
    assert np.asarray(kept.ignore).tolist() == [True]
    with pytest.raises(
        InputError, match="`classes`: 'cow' is neither a name nor an id in the data, which has Cat, dog"
    ):
        boxscore.formats.select(found, there, classes=["cow"])
    for name, value in (("classes", "cat"), ("images", "cat.v2.png"), ("classes", 7)):
        some: Any = {name: value}
        with pytest.raises(InputError, match=rf"`{name}` must be a list of names or ids, such as \[{value!r}\]; got"):
            boxscore.formats.select(found, there, **some)


def test_names_need_names(tmp_path: Path) -> None:
    """Truths without them can be joined by id alone."""
    bare = Truths(image_ids=[1], labels=[3], boxes=[[0, 0, 1, 1]])
    assert boxscore.read_detections(results(tmp_path, [1, 999], [3, 4]), bare).image_ids.tolist() == [1, 999]
    with pytest.raises(InputError, match="images have names, but the truths have no `image_names`"):
        boxscore.read_detections(results(tmp_path, ["a"]), bare)
    with pytest.raises(InputError, match="classes have names, but the truths have no `class_names`"):
        boxscore.read_detections(results(tmp_path, [1], ["cat"]), bare)


def test_places_survive_what_is_left_out(tmp_path: Path) -> None:
    """A bad number after a dropped row is named by its own row."""
    path = tmp_path / "d.csv"
    path.write_text("image,label,score,x1,y1,x2,y2\n99,3,0.5,0,0,1,1\n1,3,0.5,0,0,1,1\n7,3,0.5,5,0,1,1\n")
    with pytest.raises(InputError, match=r"d.csv: line 4: `x1,y1,x2,y2` must have x1 <= x2"):
        boxscore.read_detections(path, truths(), unmatched="warn")


def test_ids_in_a_table_are_no_names(tmp_path: Path) -> None:
    """Image 1 is the one with that id, not 1.jpg."""
    path = tmp_path / "d.csv"
    path.write_text("image_id,label,score,x1,y1,x2,y2\n1,3,0.5,0,0,1,1\n")
    there = truths(image_ids=[2], image_names={1: "2.jpg", 2: "1.jpg"})
    assert boxscore.read_detections(path, there).image_ids.tolist() == [1]
    path.write_text("image_id,file_name,label,score,x1,y1,x2,y2\n1,1.jpg,3,0.5,0,0,1,1\n")
    assert boxscore.read_detections(path, there).image_ids.tolist() == [2], "a name in the file itself says more"


def test_a_selection_tells_folders_apart() -> None:
    """Two images of one stem: by whole name each, by stem neither."""
    twins = truths(image_ids=[0], image_names={0: "a/1.jpg", 1: "b/1.jpg"})
    nothing = Detections(image_ids=[], labels=[], scores=[], boxes=[])
    assert boxscore.formats.select(nothing, twins, images=["a/1.jpg"])[1].image_names == {0: "a/1.jpg"}
    with pytest.raises(InputError, match="`images`: 'c/1' is neither a name nor an id in the data"):
        boxscore.formats.select(nothing, twins, images=["c/1"])


def test_truths_of_nothing_know_no_image_and_no_class() -> None:
    """A file that lists none says so; one that lists nothing leaves it open."""
    found = FOLDER / "detections.json"
    nowhere = Truths(image_ids=[], labels=[], boxes=[], image_names={}, class_names={})
    with pytest.raises(InputError, match=r"result 0: image 1 is not among those of the truths \(356 .*known: none\)"):
        boxscore.read_detections(found, nowhere)
    classless = Truths(
        image_ids=[], labels=[], boxes=[], image_names=dict.fromkeys(range(1, 41), "a.jpg"), class_names={}
    )
    with pytest.raises(InputError, match=r"result 0: class \d+ is not among those of the truths \(356 .*known: none\)"):
        boxscore.read_detections(found, classless)
    assert len(boxscore.read_detections(found, Truths(image_ids=[], labels=[], boxes=[]))) == 356


def yolo(folder: Path, names: list[str]) -> Path:
    """Labels of images of 100 x 100, each with one box, at another place in each."""
    labels = folder / "labels"
    labels.mkdir()
    for place, name in enumerate(names):
        (labels / f"{name}.txt").write_text(f"0 {0.1 + 0.2 * place} 0.5 0.1 0.1\n")
    sizes = "".join(f"{name},100,100\n" for name in names)
    (folder / "sizes.csv").write_text(f"name,width,height\n{sizes}")
    return labels


def perfect_results(folder: Path, images: list[int]) -> Path:
    """COCO results with the boxes of `yolo`, in the same order, on these images."""
    boxes = [[5 + 20 * place, 45, 10, 10] for place in range(len(images))]
    rows = [
        {"image_id": image, "category_id": 0, "bbox": box, "score": 0.9}
        for image, box in zip(images, boxes, strict=True)
    ]
    path = folder / "results.json"
    path.write_text(json.dumps(rows))
    return path


def test_commands_join_ids_to_names_or_refuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`eval` and `compare` of a YOLO folder: by the number in the name, never by a place in the list."""
    labels = yolo(tmp_path, ["000003", "000005", "000010"])
    good = str(perfect_results(tmp_path, [3, 5, 10]))
    assert main(["eval", str(labels), good, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["map"] == pytest.approx(1)
    assert main(["compare", str(labels), good, good, "--bootstrap", "10"]) == 0
    capsys.readouterr()
    for images in ([0, 1, 2], [1, 2, 0]):
        bad = str(perfect_results(tmp_path, images))
        for call in (["eval", str(labels), bad], ["compare", str(labels), bad, bad]):
            assert main(call) == 1
            assert (
                f"{bad}: images have ids (0, 1, 2), but those of the truths have only names" in capsys.readouterr().err
            )


def test_files_beyond_memory_join_ids_to_names_or_refuse(tmp_path: Path) -> None:
    """The same rule for Parquet files in pieces."""
    names = {0: "000003", 1: "000005", 2: "000010"}
    box = [[0.0, 0.0, 9.0 + place, 9.0] for place in range(3)]
    named = Truths(
        image_ids=[0, 1, 2], labels=[0] * 3, boxes=box, image_names=names, class_names=["cat"], _is_numbered=True
    )
    rows = pa.table({"file_name": list(names.values()), "label": ["cat"] * 3, "box": box})
    pa.parquet.write_table(rows, tmp_path / "gt.parquet")
    for images, is_valid in (([3, 5, 10], True), ([0, 1, 2], False)):
        found = pa.table({"image_id": images, "label": ["cat"] * 3, "box": box, "score": [0.9] * 3})
        pa.parquet.write_table(found, tmp_path / "dt.parquet")
        files = str(tmp_path / "dt.parquet"), str(tmp_path / "gt.parquet")
        if is_valid:
            detections = boxscore.read_detections(files[0], named, box_format="xyxy")
            expected = boxscore.evaluate(detections, named)["map"]
            assert evaluate_files(*files, memory=plenty(), box_format="xyxy")["map"] == expected == pytest.approx(1)
        else:
            with pytest.raises(InputError, match=r"dt.parquet: images have ids \(0, 1, 2\), but those of the truths"):
                evaluate_files(*files, memory=plenty(), box_format="xyxy")
