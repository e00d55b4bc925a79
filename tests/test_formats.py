"""Every format, from small files written by hand: the numbers in the file are the numbers in the columns."""

import gzip
import io
import json
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, Truths, formats
from boxscore.formats.image_sizes import size_of
from tests.support.shared import shared_data


def write(path: Path, text: str | bytes) -> Path:
    """The file with this text, and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rows_of(columns: Truths | Detections, truths: Truths) -> list[Any]:
    """(image name, class name, box, …) of every row; names instead of numbers."""
    names, classes = truths.image_names or {}, truths.names_by_label or {}
    keys = zip(columns.image.tolist(), columns.label.tolist(), columns.box.tolist(), strict=True)
    rows = [(names.get(image, image), classes.get(label, label), box) for image, label, box in keys]
    if isinstance(columns, Detections):
        return [(*row, score) for row, score in zip(rows, columns.score.tolist(), strict=True)]
    return rows


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 200, 100) + b"\x08\x02\0\0\0"

COCO = {
    "images": [
        {"id": 7, "file_name": "val/a.jpg", "width": 200, "height": 100},
        {"id": 9, "file_name": "val/b.jpg", "width": 100, "height": 100},
    ],
    "annotations": [
        {"id": 1, "image_id": 7, "category_id": 3, "bbox": [1, 2, 30.5, 40], "area": 1000, "iscrowd": 0},
        {"id": 2, "image_id": 7, "category_id": 5, "bbox": [5, 6, 7, 8], "area": 50, "iscrowd": 1},
    ],
    "categories": [{"id": 3, "name": "cat"}, {"id": 5, "name": "dog"}],
}


@pytest.fixture
def truths(tmp_path: Path) -> Truths:
    """A cat and a crowd of dogs in a.jpg; nothing in b.jpg."""
    return boxscore.read_truths(write(tmp_path / "truths" / "coco.json", json.dumps(COCO)))


def test_coco(tmp_path: Path, truths: Truths) -> None:
    """Ids, names and sizes are the file's own."""
    assert rows_of(truths, truths) == [("val/a.jpg", "cat", [1, 2, 30.5, 40]), ("val/a.jpg", "dog", [5, 6, 7, 8])]
    assert np.asarray(truths.ignore).tolist() == [False, True]
    assert np.asarray(truths.area).tolist() == [1000, 50]
    assert truths.image_names == {7: "val/a.jpg", 9: "val/b.jpg"}
    assert truths.image_sizes == {7: (200, 100), 9: (100, 100)}
    assert not truths.is_numbered
    result = {"image_id": 9, "category_id": 5, "bbox": [1, 2, 3, 4], "score": 0.5}
    results = boxscore.read_detections(write(tmp_path / "results.json", json.dumps([result])), truths)
    assert rows_of(results, truths) == [("val/b.jpg", "dog", [1, 2, 3, 4], 0.5)]


def test_a_coco_dataset_with_scores_is_detections(tmp_path: Path, truths: Truths) -> None:
    """Its own ids may differ: names join."""
    dataset = {
        "images": [{"id": 1, "file_name": "b.png"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.25}],
        "categories": [{"id": 1, "name": "Dog"}],
    }
    found = boxscore.read_detections(write(tmp_path / "d.json", json.dumps(dataset)), truths)
    assert rows_of(found, truths) == [("val/b.jpg", "dog", [1, 2, 3, 4], 0.25)]


VOC = """<annotation><filename>x.jpg</filename><size><width>200</width><height>100</height></size>
<object><name>dog</name><pose>Left</pose><truncated>1</truncated><difficult>1</difficult>
<bndbox><xmin>48</xmin><ymin>24.5</ymin><xmax>195</xmax><ymax>71</ymax></bndbox></object>
<object><name>cat</name><bndbox><ymin>2</ymin><xmin>1</xmin><xmax>3</xmax><ymax>4</ymax></bndbox></object>
</annotation>"""
EMPTY_VOC = "<annotation></annotation>"


def test_voc_truths(tmp_path: Path) -> None:
    """A root folder, its Annotations or a zip; corners in any order; images without objects are images, too."""
    write(tmp_path / "VOC" / "Annotations" / "000002.xml", VOC)
    write(tmp_path / "VOC" / "Annotations" / "000001.xml", EMPTY_VOC)
    write(tmp_path / "VOC" / "ImageSets" / "Main" / "val.txt", "000002 1\n")
    with zipfile.ZipFile(tmp_path / "voc.zip", "w") as archive:
        for file in sorted((tmp_path / "VOC" / "Annotations").iterdir()):
            archive.write(file, f"VOC/Annotations/{file.name}")
    for path in (tmp_path / "VOC", tmp_path / "VOC" / "Annotations", tmp_path / "voc.zip"):
        truths = boxscore.read_truths(path)
        assert rows_of(truths, truths) == [("000002", "dog", [48, 24.5, 195, 71]), ("000002", "cat", [1, 2, 3, 4])]
        assert np.asarray(truths.ignore).tolist() == [True, False]
        assert truths.image_names == {0: "000001", 1: "000002"}
        assert truths.image_sizes == {1: (200, 100)}
        assert truths.names_by_label == {0: "cat", 1: "dog"}
    for images in ("val", tmp_path / "VOC" / "ImageSets" / "Main" / "val.txt", ["000002.jpg"]):
        assert boxscore.read_truths(tmp_path / "VOC", images=images).image_names == {1: "000002"}


def test_the_quick_way_through_voc_files_is_the_xml_parsers(tmp_path: Path) -> None:
    """On plain files, on files with comments and entities, and with parts that have boxes of their own."""
    part = "<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part>"
    box = "<bndbox><xmin>48</xmin><ymin>24.5</ymin><xmax>195</xmax><ymax>71</ymax></bndbox>"
    plain = f"<annotation><object><name>dog</name>{box}<difficult>1</difficult></object></annotation>"
    odd = [
        plain,
        "\ufeff" + plain,
        plain.replace("\n", "\r\n"),
        plain.replace("<name>", "<!-- <object> --><name>"),
        plain.replace("dog", "d&#111;g"),
        plain.replace("<object>", "<object id='1'>"),
        plain.replace("</object>", f"{part}</object>"),
        plain.replace("<name>dog", "<name> dog "),
        f'<?xml version="1.0" encoding="utf-8"?>\n{plain}',
    ]
    for number, text in enumerate(odd):
        truths = boxscore.read_truths(write(tmp_path / str(number) / "a.xml", text).parent)
        assert rows_of(truths, truths) == [("a", "dog", [48, 24.5, 195, 71])], text
        assert np.asarray(truths.ignore).tolist() == [True]
    latin = '<?xml version="1.0" encoding="latin-1"?>' + plain.replace("dog", "Kätzchen")
    truths = boxscore.read_truths(write(tmp_path / "latin" / "a.xml", latin.encode("latin-1")).parent)
    assert truths.names_by_label == {0: "Kätzchen"}


def test_voc_results(tmp_path: Path, truths: Truths) -> None:
    """Joined by stem, from a folder or a zip, with any line ends; sets may have names with underscores."""
    write(tmp_path / "r" / "comp4_det_test_x_cat.txt", "\ufeffa 0.5 1 2 3 4\r\n\r\nb 1e-1 5 6 7.5 8\r\n")
    write(tmp_path / "r" / "comp4_det_test_x_dog.txt", "")
    expected = [("val/a.jpg", "cat", [1, 2, 3, 4], 0.5), ("val/b.jpg", "cat", [5, 6, 7.5, 8], 0.1)]
    assert rows_of(boxscore.read_detections(tmp_path / "r", truths), truths) == expected


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
        np.testing.assert_allclose(truths.box, expected, rtol=1e-12)
        assert truths.label.tolist() == [1, 0]


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


def test_yolo_detections_take_sizes_and_classes_from_the_truths(tmp_path: Path, truths: Truths) -> None:
    """Class 1 is the second of the truths' classes by id, unless names say otherwise."""
    write(tmp_path / "p" / "labels" / "a.txt", "1 0.5 0.5 0.25 0.5 0.75\r\n")
    found = boxscore.read_detections(tmp_path / "p", truths)
    assert found.box_format == "cxcywh"
    assert rows_of(found, truths) == [("val/a.jpg", "dog", [100, 50, 50, 50], 0.75)]
    found = boxscore.read_detections(tmp_path / "p", truths, names=["dog", "cat"])
    assert rows_of(found, truths) == [("val/a.jpg", "cat", [100, 50, 50, 50], 0.75)]


def test_cvat(tmp_path: Path) -> None:
    """Boxes, turned boxes and polygons by their bounds; other shapes are counted in a warning."""
    xml = """<?xml version="1.0" encoding="utf-8"?><annotations><version>1.1</version><meta><task><labels>
    <label><name>dog</name></label><label><name>cat</name></label></labels></task></meta>
    <image id="4" name="f/a.jpg" width="200" height="100">
    <box label="cat" occluded="0" xtl="1.5" ytl="2" xbr="3" ybr="4"><attribute name="x">1</attribute></box>
    <polygon label="dog" points="1,2;5,3;2,9.5"/><points label="dog" points="1,1"/>
    <box label="dog" xtl="10" ytl="20" xbr="30" ybr="30" rotation="90"/></image>
    <image id="5" name="f/b.jpg" width="20" height="10"/></annotations>"""
    path = write(tmp_path / "annotations.xml", xml)
    with pytest.warns(UserWarning, match="1 shape of other kinds than box and polygon left out"):
        truths = boxscore.read_truths(path)
    assert truths.image_names == {4: "f/a.jpg", 5: "f/b.jpg"}
    assert truths.image_sizes == {4: (200, 100), 5: (20, 10)}
    assert truths.names_by_label == {0: "dog", 1: "cat"}
    assert truths.label.tolist() == [1, 0, 0]
    # a box of 20 x 10 about (20, 25), turned by 90 degrees, is one of 10 x 20
    expected = np.array([[1.5, 2, 3, 4], [1, 2, 5, 9.5], [15, 15, 25, 35]])
    np.testing.assert_allclose(truths.box, expected, rtol=1e-12)


def test_labelme(tmp_path: Path) -> None:
    """Rectangles by any two corners, polygons and circles by their bounds."""
    shapes = [
        {"label": "cat", "points": [[30, 4], [1, 2]], "shape_type": "rectangle"},
        {"label": "dog", "points": [[1, 2], [5, 3], [2, 9]], "shape_type": "polygon"},
        {"label": "dog", "points": [[10, 10], [13, 14]], "shape_type": "circle", "difficult": True},
        {"label": "dog", "points": [[10, 10]], "shape_type": "point"},
    ]
    data = {"imagePath": "../a.jpg", "imageWidth": 200, "imageHeight": 100, "shapes": shapes}
    write(tmp_path / "l" / "a.json", json.dumps(data))
    with pytest.warns(UserWarning, match="1 shape of other kinds"):
        truths = boxscore.read_truths(tmp_path / "l")
    assert rows_of(truths, truths) == [
        ("a.jpg", "cat", [1, 2, 30, 4]),
        ("a.jpg", "dog", [1, 2, 5, 9]),
        ("a.jpg", "dog", [5, 5, 15, 15]),
    ]
    assert np.asarray(truths.ignore).tolist() == [False, False, True]
    assert truths.image_sizes == {0: (200, 100)}


OPEN_IMAGES = """ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf
000a,x,/m/01,1,0.25,0.5,0.125,0.75,0,0,1
000b,x,/m/02,1,0,1,0,0.5,0,0,0
"""


def test_open_images(tmp_path: Path) -> None:
    """Fractions stay fractions unless sizes are known; a group is ignored; descriptions give names."""
    path = write(tmp_path / "t.csv", OPEN_IMAGES)
    results = write(tmp_path / "d.csv", "ImageID,LabelName,Score,XMin,XMax,YMin,YMax\n000b,/m/02,0.5,0,0.5,0,0.5\n")
    truths = boxscore.read_truths(path)
    assert rows_of(truths, truths)[0] == ("000a", "/m/01", [0.25, 0.125, 0.5, 0.75])
    assert np.asarray(truths.ignore).tolist() == [True, False]
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


def test_images_of_one_pixel_are_no_fractions(tmp_path: Path) -> None:
    """A COCO dataset of 1 x 1 images is one in pixels."""
    dataset = {
        "images": [{"id": 1, "width": 1, "height": 1}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1], "area": 1, "iscrowd": 0}],
        "categories": [{"id": 1, "name": "cat"}],
    }
    truths = boxscore.read_truths(write(tmp_path / "t.json", json.dumps(dataset)))
    rows = [{"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1], "score": 0.5}]
    found = boxscore.read_detections(write(tmp_path / "d.json", json.dumps(rows)), truths)
    assert not truths.is_normalized
    assert boxscore.evaluate(found, truths)["map"] == pytest.approx(1)


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
    assert truths.image.tolist() == [7]
    assert truths.label.tolist() == [3]
    truths = boxscore.read_truths(write(tmp_path / "t.csv", text.format("007")))
    assert truths.image_names == {0: "007"}


def test_a_box_in_one_column_needs_its_format(tmp_path: Path) -> None:
    """Nothing in the file says which it is."""
    path = write(tmp_path / "t.csv", 'image,label,bbox\na,cat,"[1, 2, 3, 4]"\n')
    with pytest.raises(boxscore.InputError, match="column `bbox` has four numbers: say which by `box_format`"):
        boxscore.read_truths(path)
    truths = boxscore.read_truths(path, box_format="xywh")
    assert (truths.box.tolist(), truths.box_format) == ([[1, 2, 3, 4]], "xywh")


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


def test_gz_and_zip_of_one_file_are_that_file(tmp_path: Path, truths: Truths) -> None:
    """Whatever their names."""
    text = json.dumps(COCO).encode()
    write(tmp_path / "c.json.gz", gzip.compress(text))
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("folder/instances.json", text)
        archive.writestr("__MACOSX/folder/._instances.json", b"junk")
    for name in ("c.json.gz", "c.zip"):
        assert rows_of(boxscore.read_truths(tmp_path / name), truths) == rows_of(truths, truths)


def test_the_format_is_found_out_or_given(tmp_path: Path) -> None:
    """A path that is none of them gets the list of what was looked for."""
    path = write(tmp_path / "odd.bin", b"\x00\x01")
    with pytest.raises(
        boxscore.InputError, match=r"odd.bin: a file in none of the formats for truths. They are: labelme: "
    ):
        boxscore.read_truths(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(boxscore.InputError, match=r"empty: a folder in none of the formats for truths"):
        boxscore.read_truths(tmp_path / "empty")
    with pytest.raises(
        boxscore.InputError, match=r"^`format` of truths must be one of labelme, coco, .*; got 'tfrecord'"
    ):
        boxscore.read_truths(path, format="tfrecord")
    with pytest.raises(boxscore.InputError, match=r"^s3://bucket/truths: no such file or folder on this machine; "):
        boxscore.read_truths("s3://bucket/truths")
    with pytest.raises(boxscore.InputError, match=r"^part-\*.csv: no such file or folder; a pattern in quotes is for "):
        boxscore.read_truths("part-*.csv")
    assert formats.detect(write(tmp_path / "x.json", json.dumps(COCO)), "truths") == "coco"


def jpeg(*, is_turned: bool = False) -> bytes:
    """The head of a JPEG of 320 x 240, with a thumbnail's worth of other things before the frame."""
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01" + struct.pack(">HH", 6 if is_turned else 1, 0)
    parts = [(0xE0, b"JFIF\0" + b"\0" * 9), (0xE1, exif), (0xE2, b"\xff\xc0" * 20_000)]
    head = b"\xff\xd8" + b"".join(bytes([0xFF, mark]) + struct.pack(">H", len(data) + 2) + data for mark, data in parts)
    return head + b"\xff\xc2" + struct.pack(">HBHHB", 17, 8, 240, 320, 3)


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (PNG, (200, 100)),
        (jpeg(), (320, 240)),
        (jpeg(is_turned=True), (240, 320)),
        (b"GIF87a" + struct.pack("<HH", 3, 4), (3, 4)),
        (b"BM" + b"\0" * 12 + struct.pack("<Iii", 40, 5, -6), (5, 6)),
        (b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + b"\x09\0\0\x13\0\0", (10, 20)),
        (b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 7 + b"\x9d\x01\x2a" + struct.pack("<HH", 30, 40), (30, 40)),
        (b"RIFF\0\0\0\0WEBPVP8L" + b"\0" * 4 + b"\x2f" + struct.pack("<I", 49 | 59 << 14), (50, 60)),
        (b"II*\0", None),
        (b"", None),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0", None),
        (jpeg()[:100], None),
    ],
)
def test_sizes_come_from_the_heads_of_images(head: bytes, size: tuple[int, int] | None) -> None:
    """As shown, so a turned JPEG has its sides swapped."""
    assert size_of(head) == size


def test_a_long_head_of_a_jpeg_is_read_to_its_end(tmp_path: Path) -> None:
    """Its size comes after more than the first read."""
    from boxscore.formats.image_sizes import size_in

    assert size_in(str(write(tmp_path / "a.jpg", jpeg()))) == (320, 240)


def test_real_voc_data_reads_as_a_folder_as_it_does_as_a_zip(tmp_path: Path) -> None:
    """4,952 files either way."""
    path = shared_data("voc2007/Annotations.zip")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    first, second = boxscore.read_truths(path), boxscore.read_truths(tmp_path)
    assert len(first) == len(second) == 14_976
    assert int(np.asarray(first.ignore).sum()) == 2_944
    assert np.array_equal(first.box, second.box)
    assert first.image_names == second.image_names
    assert len(first.image_sizes or {}) == 4_952
    listed = boxscore.read_truths(path, images=shared_data("voc2007/ImageSets/Main/test.txt"))
    assert len(listed) == 14_976


def test_mixed_formats_give_the_numbers_of_one(tmp_path: Path) -> None:
    """VOC truths with results in COCO's list, by stem and by file name, and in a table."""
    truths = boxscore.read_truths(shared_data("voc2007/Annotations.zip"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = boxscore.read_detections(shared_data("voc2007/results"), truths)
    expected = boxscore.evaluate(found, truths, "voc2007")["map"]
    names = truths.image_names or {}
    for ending in ("", ".jpg"):
        columns = zip(found.image.tolist(), found.label.tolist(), found.score.tolist(), found.box.tolist(), strict=True)
        results = [
            {"image_id": names[i] + ending, "category_id": k, "score": s, "bbox": [a, b, c - a, d - b]}
            for i, k, s, (a, b, c, d) in columns
        ]
        path = write(tmp_path / "results.json", json.dumps(results))
        again = boxscore.read_detections(path, truths)
        assert boxscore.evaluate(again, truths, "voc2007")["map"] == pytest.approx(expected, abs=1e-6)
    boxscore.write_detections(tmp_path / "results.csv", found, truths)
    again = boxscore.read_detections(tmp_path / "results.csv", truths)
    assert boxscore.evaluate(again, truths, "voc2007")["map"] == expected


def test_a_zip_of_voc_results(tmp_path: Path) -> None:
    """It is read as a folder of them is."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("r/comp3_det_val_cat.txt", "a 0.5 1 2 3 4\n")
        archive.writestr("r/comp3_det_val_dog.txt", "a 0.25 1 2 3 4\n")
    truths = boxscore.read_truths(write(tmp_path / "c.json", json.dumps(COCO)))
    found = boxscore.read_detections(write(tmp_path / "r.zip", buffer.getvalue()), truths)
    assert rows_of(found, truths) == [("val/a.jpg", "cat", [1, 2, 3, 4], 0.5), ("val/a.jpg", "dog", [1, 2, 3, 4], 0.25)]


def test_a_size_of_0_in_a_table_is_none(tmp_path: Path) -> None:
    """Writers put 0 where they know no size."""
    path = tmp_path / "truths.csv"
    rows = ["a,1,1,1,2,2,640,480", "b,1,1,1,2,2,0,0"]
    path.write_text("\n".join(["image,label,x1,y1,x2,y2,image_width,image_height", *rows]))
    assert boxscore.read_truths(path).image_sizes == {0: (640, 480)}
