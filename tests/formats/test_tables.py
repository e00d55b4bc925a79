"""Tables of every kind: the names of their columns say what they hold."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore.data.image_facts import ImageFacts
from tests.support.small_files import rows_of, write


@pytest.mark.parametrize(
    ("header", "box", "expected"),
    [
        ("x1,y1,x2,y2", "1,2,3,4", "xyxy"),
        ("xmin,ymin,xmax,ymax", "1,2,3,4", "xyxy"),
        ("left,top,right,bottom", "1,2,3,4", "xyxy"),
        ("x,y,w,h", "1,2,3,4", "xywh"),
        ("left,top,width,height", "1,2,3,4", "xywh"),
        ("cx,cy,w,h", "1,2,3,4", "cxcywh"),
        ("x_center,y_center,width,height", "1,2,3,4", "cxcywh"),
    ],
)
@pytest.mark.parametrize("mark", [",", "\t", ";"])
def test_tables(tmp_path: Path, header: str, box: str, expected: str, mark: str) -> None:
    """The names of the columns say what the box is; an image row without a class is an image without boxes."""
    text = f"Image,Label,{header},difficult\na.jpg,cat,{box},1\nb.jpg,,,,,,\n".replace(",", mark)
    truths = boxscore.read_truths(write(tmp_path / "t.csv", text))
    assert rows_of(truths, truths) == [("a.jpg", "cat", [1, 2, 3, 4])]
    assert truths.box_format == expected
    assert np.asarray(truths.ignore).tolist() == [True]
    assert truths.image_names == {0: "a.jpg", 1: "b.jpg"}
    results = write(
        tmp_path / "d.csv", f"confidence,class,file_name,{header}\n0.5,cat,b.jpg,{box}\n".replace(",", mark)
    )
    found = boxscore.read_detections(results, truths)
    assert rows_of(found, truths) == [("b.jpg", "cat", [1, 2, 3, 4], 0.5)]


def test_ids_in_tables_are_numbers_only_if_they_look_like_it(tmp_path: Path) -> None:
    """7 is an id, 007 is a name."""
    text = "image,label,x1,y1,x2,y2\n{},3,1,2,3,4\n"
    truths = boxscore.read_truths(write(tmp_path / "t.csv", text.format("7")))
    assert truths.image_ids.tolist() == [7]
    assert truths.labels.tolist() == [3]
    truths = boxscore.read_truths(write(tmp_path / "t.csv", text.format("007")))
    assert truths.image_names == {0: "007"}


def test_a_box_in_one_column_needs_its_format(tmp_path: Path) -> None:
    """Nothing in the file says which it is."""
    path = write(tmp_path / "t.csv", 'image,label,bbox\na,cat,"[1, 2, 3, 4]"\n')
    with pytest.raises(boxscore.InputError, match="column `bbox` has four numbers; give their format as `box_format`"):
        boxscore.read_truths(path)
    truths = boxscore.read_truths(path, box_format="xywh")
    assert (truths.boxes.tolist(), truths.box_format) == ([[1, 2, 3, 4]], "xywh")


def test_a_size_of_0_in_a_table_is_none(tmp_path: Path) -> None:
    """Writers put 0 where they know no size."""
    path = tmp_path / "truths.csv"
    rows = ["a,1,1,1,2,2,640,480", "b,1,1,1,2,2,0,0"]
    path.write_text("\n".join(["image,label,x1,y1,x2,y2,image_width,image_height", *rows]))
    assert boxscore.read_truths(path).image_sizes == {0: (640, 480)}


def test_two_sizes_of_one_image_are_refused(tmp_path: Path) -> None:
    """In memory and beyond it; none of them can be the right one in silence."""
    path = tmp_path / "truths.csv"
    rows = ["7,1,1,1,2,2,640,480", "7,1,1,1,2,2,0,0", "7,1,1,1,2,2,640,427"]
    path.write_text("\n".join(["image,label,x1,y1,x2,y2,image_width,image_height", *rows]))
    message = "line 4: `image_width` and `image_height` must be one size for each image; got 640 x 427, but 640 x 480"
    with pytest.raises(boxscore.InputError, match=message):
        boxscore.read_truths(path)
    unknown = np.full(3, np.nan)
    sizes = {"width": np.array([640, np.nan, 640]), "height": np.array([480, np.nan, 427])}
    facts = ImageFacts(image=np.full(3, 7), crowd_index=unknown, **sizes)
    message = "`image_width` and `image_height` of image 7 must be one size; got 640 x 480 and 640 x 427"
    with pytest.raises(boxscore.InputError, match=f"^{message}$"):
        facts.completed(boxscore.Truths(image_ids=[7], labels=[1], boxes=[[1, 1, 2, 2]]))


def test_npz_with_a_box_column_and_names(tmp_path: Path) -> None:
    """Text and numbers; whatever needs unpickling is refused."""
    path = tmp_path / "t.npz"
    np.savez(path, image=np.array(["a", "b"]), label=np.array(["x", "y"]), box=np.array([[1, 2, 3, 4], [5, 6, 7, 8]]))
    truths = boxscore.read_truths(path, box_format="xywh")
    assert rows_of(truths, truths) == [("a", "x", [1, 2, 3, 4]), ("b", "y", [5, 6, 7, 8])]
    np.savez(path, image=np.array([object()]), label=np.array([1]), box=np.ones((1, 4)))
    with pytest.raises(boxscore.InputError, match=r"t.npz:image.npy: must be an array of numbers, .*; got object"):
        boxscore.read_truths(path, box_format="xywh")


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_parquet_and_arrow(tmp_path: Path, name: str) -> None:
    """Strings, dictionaries and lists."""
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    table = arrow.table(
        {
            "image": ["a", "b"],
            "label": arrow.array(["x", None]).dictionary_encode(),
            "bbox": arrow.array([[1.0, 2.0, 3.0, 4.0], None]),
        }
    )
    save = parquet.write_table if name.endswith("parquet") else feather.write_feather
    save(table, str(tmp_path / name))
    truths = boxscore.read_truths(tmp_path / name, box_format="xywh")
    assert rows_of(truths, truths) == [("a", "x", [1, 2, 3, 4])]
    assert truths.image_names == {0: "a", 1: "b"}


FACTS = boxscore.Truths(
    image_ids=[7, 7, 9, 7],
    labels=[1, 2, 1, 3],
    boxes=[[0, 0, 9, 9], [1, 2, 5, 6], [0, 0, 3, 3], [2, 2, 8, 8]],
    box_format="xyxy",
    kind=[0, 1, 2, 3],
    coverage=boxscore.data.Coverage(image_ids=[7, 7, 9, 4, 5], labels=[1, 3, 2, 2, 3], is_exhaustive=[1, 0, 1, 0, 1]),
    class_names={1: "a", 2: "b", 3: "c", 4: "no truths"},
    class_groups={1: "rare", 2: "common", 3: "frequent", 4: "rare"},
    image_names={4: "4.jpg", 5: "5.jpg", 7: "7.jpg", 9: "9.jpg"},
    image_sizes={4: (640, 480), 5: (10, 20), 7: (30, 40), 9: (50, 60)},
    crowd_index={4: 0.25, 7: 0.5, 9: 1.0},
)
"""All that decides numbers: images 4 and 5 have no truths, class 4 neither, and 4 is covered in part."""


def pairs_of(coverage: Any) -> set[tuple[int, int, bool]]:
    """The rows of a coverage."""
    return {*zip(*(getattr(coverage, name).tolist() for name in ("image_ids", "labels", "is_exhaustive")), strict=True)}


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
@pytest.mark.parametrize("is_named", [True, False], ids=["names", "ids"])
def test_parquet_keeps_all_that_decides_numbers(tmp_path: Path, name: str, is_named: bool) -> None:
    """Kinds, coverage, groups, crowding, sizes and images without truths: nothing is lost."""
    pytest.importorskip("pyarrow")
    truths = FACTS if is_named else replace(FACTS, image_names=None, class_names=None)
    assert boxscore.write_truths(tmp_path / name, truths) == ()
    read = boxscore.read_truths(tmp_path / name)
    for column in ("image_ids", "labels", "boxes", "kind"):
        assert np.array_equal(getattr(read, column), getattr(truths, column)), column
    assert pairs_of(read.coverage) == pairs_of(truths.coverage)
    for fact in ("class_names", "class_groups", "image_sizes", "crowd_index"):
        assert getattr(read, fact) == getattr(truths, fact), fact
    assert read.image_names == (FACTS.image_names if is_named else {image: str(image) for image in (4, 5, 7, 9)})


def test_facts_of_images_and_classes_in_a_csv(tmp_path: Path) -> None:
    """By name, lists in JSON, in one row of an image or in several; a row without a class is an image."""
    path = tmp_path / "t.csv"
    head = "image,label,x1,y1,x2,y2,kind,class_group,crowd_index,neg_category_ids,not_exhaustive_category_ids"
    rows = [
        'a,cat,0,0,9,9,crowd,rare,0.5,,"[""cat""]"',
        'a,dog,0,0,9,9,0,common,,"[""cow""]",',
        'b,,,,,,,,,"[""dog""]",',
    ]
    path.write_text("\n".join([head, *rows, "b,cow,0,0,1,1,regular,,,,"]))
    truths = boxscore.read_truths(path)
    assert truths.class_names == {0: "cat", 1: "cow", 2: "dog"}
    assert truths.class_groups == {0: "rare", 2: "common"}
    assert truths.crowd_index == {0: 0.5}
    assert truths.kind is not None
    assert np.asarray(truths.kind).tolist() == [2, 0, 0]
    assert pairs_of(truths.coverage) == {(0, 0, False), (0, 1, True), (1, 2, True)}


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("kind", ["car", "0"], "line 2: `kind` must be 0 to 3, or regular, difficult, crowd, group; got 'car'"),
        (
            "neg_category_ids",
            ["[1]", "1"],
            "line 3: `neg_category_ids` must be a list of classes, by id or name; got '1'",
        ),
        ("neg_category_ids", ["[1]", "[0.5]"], "line 3: `neg_category_ids` must be a list of classes, by id or name"),
        ("not_exhaustive_category_ids", ["[1]", ""], "must have the column neg_category_ids, since it has not_exhaust"),
        ("class_group", ["rare", "common"], "line 3: class 1 must have one `class_group`; got 'rare' and 'common'"),
        ("crowd_index", ["", "dense"], "line 3: `crowd_index` must be a number; got 'dense'"),
        ("crowd_index", ["0.5", "0.6"], "`crowd_index` of image 7 must be one number; got 0.5 and 0.6"),
    ],
)
def test_facts_that_can_not_be_are_refused(tmp_path: Path, column: str, values: list[str], message: str) -> None:
    """By the row and the column."""
    path = tmp_path / "t.csv"
    rows = [f"7;1;0;0;9;9;{value}" for value in values]
    path.write_text("\n".join([f"image_id;category_id;x1;y1;x2;y2;{column}", *rows]))
    with pytest.raises(boxscore.InputError, match=re.escape(message)):
        boxscore.read_truths(path)


OPEN_IMAGES = """ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf
000a,x,/m/01,1,0.25,0.5,0.125,0.75,0,0,1
000b,x,/m/02,1,0,1,0,0.5,0,0,0
"""


def test_open_images(tmp_path: Path) -> None:
    """Fractions stay fractions unless sizes are known; a group is of kind 3; descriptions give names."""
    path = write(tmp_path / "t.csv", OPEN_IMAGES)
    results = write(tmp_path / "d.csv", "ImageID,LabelName,Score,XMin,XMax,YMin,YMax\n000b,/m/02,0.5,0,0.5,0,0.5\n")
    truths = boxscore.read_truths(path)
    assert rows_of(truths, truths)[0] == ("000a", "/m/01", [0.25, 0.125, 0.5, 0.75])
    assert np.asarray(truths.kind).tolist() == [3, 0]
    assert truths.ignore is None
    assert rows_of(boxscore.read_detections(results, truths), truths) == [("000b", "/m/02", [0, 0, 0.5, 0.5], 0.5)]
    names = write(tmp_path / "n.csv", "/m/01,Cat\n/m/02,Dog\n")
    sizes = {"000a": (100, 200), "000b": (10, 10)}
    truths = boxscore.read_truths(path, sizes=sizes, names=names)
    assert rows_of(truths, truths)[0] == ("000a", "Cat", [25, 25, 50, 150])
    found = boxscore.read_detections(results, truths, names=names)
    assert rows_of(found, truths) == [("000b", "Dog", [0, 0, 5, 5], 0.5)]


def test_pixels_do_not_meet_fractions(tmp_path: Path) -> None:
    """Open Images without sizes against a file in pixels would give 0 for no good reason."""
    truths = boxscore.read_truths(write(tmp_path / "t.csv", OPEN_IMAGES))
    found = write(tmp_path / "d.csv", "image,label,score,x1,y1,x2,y2\n000b,/m/02,0.5,0,0,50,50\n")
    with pytest.raises(
        boxscore.InputError, match="the truths are fractions of their images' sizes, but the detections"
    ):
        boxscore.read_detections(found, truths)
