"""Bad files get one line that names the file, the place in it, and what was expected."""

import gzip
import json
import os
import struct
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import InputError, Truths
from boxscore.formats import archives
from boxscore.formats.class_names import names_of, read_yaml
from tests.support.small_files import COCO, EMPTY_VOC, PNG, VOC, refused, write

KNOWN: dict[str, Any] = {"image_names": {0: "a.jpg"}, "image_sizes": {0: (100, 100)}, "class_names": ["cat", "dog"]}
TRUTHS = Truths(image_ids=[0], labels=[0], boxes=[[0, 0, 9, 9]], **KNOWN)
TABLE = "image,label,x1,y1,x2,y2\n"
RESULTS = "image,label,score,x1,y1,x2,y2\n"
CVAT = '<annotations><image id="0" name="a.jpg" width="9" height="9">{}</image></annotations>'
OPEN = "ImageID,LabelName,Score,XMin,XMax,YMin,YMax\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.json", json.dumps(COCO)[:-20], "c.json: not JSON: "),
        ("c.json", "", "c.json: not JSON: "),
        ("c.json", b"\xff\xfe\xff", "c.json: not JSON: "),
        ("c.json", "[" * 100_000, "c.json: not JSON: "),
        ("c.json", json.dumps(COCO).replace("30.5", "1e400"), "annotation 0 (id 1): `bbox` must have 4 finite numbers"),
        ("c.json", json.dumps(COCO).replace("30.5", "NaN"), "annotation 0 (id 1): `bbox` must have 4 finite numbers"),
        (
            "c.json",
            json.dumps(COCO).replace('"iscrowd": 1', '"iscrowd": 2'),
            "annotation 1 (id 2): `iscrowd` must be 0 or 1",
        ),
        ("c.json", json.dumps(COCO).replace('"iscrowd": 1', '"iscrowd": "x"'), '`iscrowd` must be 0 or 1; got "x"'),
        (
            "c.json",
            json.dumps(COCO).replace('"image_id": 7', '"image_id": 1e3'),
            "`image_id` must be an integer; got 1e3",
        ),
        (
            "c.json",
            json.dumps(COCO).replace('"image_id": 7', f'"image_id": {2**70}'),
            "annotation 0 (id 1): `image_id` must fit in 63 bits",
        ),
        ("t.csv", "", "t.csv: must have a header; got an empty first line"),
        (
            "t.csv",
            "a,b\n1,2\n",
            "with the image (image_id, imageid, image, file_name, filename, image_name); got a, b",
        ),
        ("t.csv", "image,label\na,cat\n", "t.csv: must have the box as columns x1,y1,x2,y2 | "),
        ("t.csv", TABLE + "a,cat,1,2,3\n", "t.csv: line 2 must have 6 cells, as the header has; got 5"),
        ("t.csv", TABLE + "a,cat,1,2,3,4\n\na,cat,1,2,x,4\n", "t.csv: line 4: `x2` must be a number; got 'x'"),
        ("t.csv", TABLE + "a,cat,1,2,,4\n", "t.csv: line 2: `x2` must be a number; got ''"),
        ("t.csv", TABLE + "a,cat,1,2,nan,4\n", "t.csv: line 2: `x1,y1,x2,y2` must have 4 finite numbers"),
        ("t.csv", TABLE + "a,cat,1,2,1e400,4\n", "t.csv: line 2: `x1,y1,x2,y2` must have 4 finite numbers"),
        ("t.csv", TABLE + "a,cat,5,2,3,4\n", "t.csv: line 2: `x1,y1,x2,y2` must have x1 <= x2 and y1 <= y2"),
        ("t.csv", TABLE + ",cat,5,2,3,4\n", "t.csv: line 2: `image` must be an id or a name; got ''"),
        ("t.csv", TABLE.encode() + b"a,c\xff,1,2,3,4\n", "t.csv: line 2: byte 27 is not UTF-8"),
        ("t.csv", TABLE + 'a,"cat,1,2,3,4\n', "t.csv: line 2: not a delimited file: "),
        ("t.csv", "image,label,label,x1,y1,x2,y2\n", "t.csv: columns must have different names; got 'label'"),
        (
            "t.csv",
            TABLE.strip() + ",difficult\na,cat,1,2,3,4,7\n",
            "t.csv: line 2: `difficult` must be 0 or 1; got '7'",
        ),
        ("t.csv", TABLE.strip() + ",area\na,cat,1,2,3,4,-7\n", "t.csv: line 2: `area` must not be negative; got -7.0"),
        ("a.xml", VOC[:-30], "a.xml: not XML: "),
        ("a.xml", VOC.replace("<annotation>", "<annotatio>"), "a.xml: the file is in no known format"),
        (
            "a.xml",
            CVAT.format('<box label="c" xtl="1" ytl="1" xbr="x" ybr="1"/>'),
            "image 0 (a.jpg): box 0: must have xtl",
        ),
        ("a.xml", CVAT.format('<box xtl="1" ytl="1" xbr="1" ybr="1"/>'), "image 0 (a.jpg): box 0 must have a label"),
        ("a.xml", CVAT.format('<polygon label="c" points="1,2;3"/>'), "polygon 0: `points` must be pairs of numbers"),
        (
            "a.xml",
            CVAT.format('<box label="c" xtl="5" ytl="1" xbr="2" ybr="1"/>'),
            "(a.jpg): shape 0: `box` must have x1 <= x2",
        ),
        ("a.xml", CVAT.replace('"0"', '"x"'), "a.xml: image 0: `id` must be an integer; got 'x'"),
        ("l.json", '{"shapes": [{"points": []}]}', "l.json: shape 0 must have a label, a text"),
        (
            "l.json",
            '{"shapes": [{"label": "c", "points": [[1, "x"], [1, 2]]}]}',
            "shape 0: `points` must be at least 2 pairs",
        ),
        ("l.json", '{"shapes": 5}', "l.json: must be an object with a list of `shapes`"),
        ("t.npz", b"PK\x03\x04", "t.npz: not a whole .npz file"),
        ("t.parquet", b"PAR1 and then nothing", "t.parquet: not a whole Parquet or Arrow file: "),
        ("t.json.gz", gzip.compress(b"{}" * 1000, mtime=0)[:-12], "t.json.gz: not a whole gzip file: "),
        ("t.zip", b"PK\x03\x04nothing", "t.zip: not a zip file: "),
        ("data.yaml", "names: 5\n", "data.yaml: "),
    ],
)
def test_truths_in_one_file(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    """Truncated, of the wrong type, with bad numbers, with bytes that are no text."""
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    path = write(tmp_path / name, content)
    refused(lambda: boxscore.read_truths(path), message)
    refused(lambda: boxscore.read_truths(path), str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (VOC[:-30], "a.xml: not XML: "),
        ("", "a.xml: not XML: no element found"),
        (b"\xff\xfe\x00", "a.xml: not XML: "),
        (VOC.encode().replace(b"dog", b"d\xffg"), "a.xml: not XML: not well-formed (invalid token)"),
        (VOC.replace("195", "ten"), "a.xml: object 0: `bndbox` must have 4 numbers; got ['48', '24.5', 'ten', '71']"),
        (VOC.replace("195", "nan"), "a.xml: object 0: `box` must have 4 finite numbers"),
        (VOC.replace("195", "1e400"), "a.xml: object 0: `box` must have 4 finite numbers"),
        (VOC.replace("195", "7"), "a.xml: object 0: `box` must have x1 <= x2"),
        (
            VOC.replace("<xmin>1</xmin>", ""),
            "a.xml: object 1 must have `name` and `bndbox` with xmin, ymin, xmax, ymax",
        ),
        (VOC.replace("<name>cat</name>", ""), "a.xml: object 1 must have `name` and `bndbox`"),
        (VOC.replace("<name>cat</name>", "<name> </name>"), "a.xml: object 1: `name` must not be empty"),
        (VOC.replace("annotation>", "other>"), "a.xml: must have <annotation> as its root; got <other>"),
    ],
)
def test_voc_annotations(tmp_path: Path, content: str | bytes, message: str) -> None:
    """The file and the object."""
    write(tmp_path / "v" / "a.xml", content)
    write(tmp_path / "v" / "b.xml", EMPTY_VOC)
    refused(lambda: boxscore.read_truths(tmp_path / "v", format="voc"), message)


BOMB = """<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>
<annotation><object><name>&b;</name></object></annotation>"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_xml_bombs_and_foreign_entities_are_refused(tmp_path: Path, encoding: str) -> None:
    """Whatever the encoding, before anything is expanded."""
    bomb = BOMB.replace('"1.0"', f'"1.0" encoding="{encoding}"').encode(encoding)
    write(tmp_path / "v" / "a.xml", bomb)
    refused(
        lambda: boxscore.read_truths(tmp_path / "v", format="voc"),
        "a.xml: must not declare a document type or entities",
    )
    outside = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><annotations><image name="&x;"/></annotations>'
    path = write(tmp_path / "c.xml", outside)
    refused(lambda: boxscore.read_truths(path), "c.xml: must not declare a document type or entities")


def test_zip_and_gzip_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros shrink a thousandfold. The limit is lowered here, so that the test need not grow a gigabyte."""
    monkeypatch.setattr(archives, "BOMB_SIZE", 1 << 20)
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", b"\0" * (1 << 22))
    write(tmp_path / "b.json.gz", gzip.compress(b"\0" * (1 << 22), mtime=0))
    grown = "to 4,194,304 bytes or more; beyond 1 MiB no more than 200 times the file's size is read"
    for name in ("b.zip", "b.json.gz"):
        refused(lambda: boxscore.read_truths(tmp_path / name), f"{name}: would grow from 4,")  # noqa: B023
        refused(lambda: boxscore.read_truths(tmp_path / name), grown)  # noqa: B023


def test_a_zip_that_lies_about_its_sizes_is_refused(tmp_path: Path) -> None:
    """No more is read than its directory says, and then the checksum is wrong."""
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", b"\0" * 100_000)
    content = path.read_bytes().replace(struct.pack("<I", 100_000), struct.pack("<I", 10))
    path.write_bytes(content)
    refused(lambda: boxscore.read_truths(path), "b.zip:a.json: can't be read from the zip: ")


def test_a_path_in_a_zip_leads_nowhere(tmp_path: Path) -> None:
    """Members are read, not extracted."""
    with zipfile.ZipFile(tmp_path / "v.zip", "w") as archive:
        archive.writestr("../../Annotations/a.xml", VOC)
        archive.writestr("/Annotations/b.xml", EMPTY_VOC)
    truths = boxscore.read_truths(tmp_path / "v.zip")
    assert truths.image_names == {0: "a", 1: "b"}
    assert [file.name for file in tmp_path.iterdir()] == ["v.zip"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "0 0.5 0.5 0.5\n",
            "a.txt: line 1 must be numbers: class cx cy w h, or a class and a polygon; got '0 0.5 0.5 0.5'",
        ),
        ("\n0 0.5 0.5 x 0.5\n", "a.txt: line 2 must be numbers: class cx cy w h"),
        ("0 0.5 0.5 0.1 0.1\n0 1 2 3 4 5\n", "a.txt: line 2 must be numbers: class cx cy w h"),
        ("0.5 0.5 0.5 0.5 0.5\n", "a.txt: line 1: the class must be an integer from 0 on; got 0.5"),
        ("-1 0.5 0.5 0.5 0.5\n", "a.txt: line 1: the class must be an integer from 0 on; got -1"),
        ("nan 0.5 0.5 0.5 0.5\n", "a.txt: line 1: the class must be an integer from 0 on; got nan"),
        ("0 0.5 nan 0.5 0.5\n", "a.txt: line 1: `box` must have 4 finite numbers"),
        ("0 0.5 0.5 0.5 -0.5\n", "a.txt: line 1: `box` must not have a negative width or height"),
        (b"0 0.5 0.5 \xff 0.5\n", "a.txt: line 1 must be numbers: "),
        ("7 0.5 0.5 0.5 0.5\n", "d: `labels` must be one of those in `class_names` (0, 1); got 7"),
    ],
)
def test_yolo_labels(tmp_path: Path, content: str | bytes, message: str) -> None:
    """The file and the line."""
    write(tmp_path / "d" / "labels" / "a.txt", content)
    write(tmp_path / "d" / "images" / "a.png", PNG)
    write(tmp_path / "d" / "data.yaml", "names: [cat, dog]\n")
    refused(lambda: boxscore.read_truths(tmp_path / "d", format="yolo"), message)


def test_images_that_are_none(tmp_path: Path) -> None:
    """A size can't be told from them."""
    write(tmp_path / "labels" / "a.txt", "0 0.5 0.5 0.5 0.5")
    write(tmp_path / "images" / "a.jpg", "not an image")
    refused(lambda: boxscore.read_truths(tmp_path), "a.jpg: must be a JPEG, PNG, WEBP, TIFF, BMP or GIF image")
    write(tmp_path / "list.csv", "a,100\n")
    refused(
        lambda: boxscore.read_truths(tmp_path / "labels", sizes=tmp_path / "list.csv"),
        "list.csv: line 1 must have name, width",
    )
    refused(
        lambda: boxscore.read_truths(tmp_path / "labels", sizes={"a": (0, 5)}),
        "`sizes`: 'a' must have a width and a height",
    )
    refused(
        lambda: boxscore.read_truths(tmp_path / "labels", sizes={"b": (5, 5)}), "a.txt: line 1: boxes are fractions"
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.json", '[{"image_id": 0}]', "r.json: result 0 must have `category_id`"),
        ("r.json", '{"a": 1}', "r.json: `annotations` must be a list; got nothing"),
        (
            "r.csv",
            TABLE + "a,cat,1,2,3,4\n",
            "r.csv: must have a column with the score (score, conf",
        ),
        ("r.csv", RESULTS + "a,cat,x,1,2,3,4\n", "r.csv: line 2: `score` must be a number; got 'x'"),
        ("r.csv", RESULTS + "a,cat,inf,1,2,3,4\n", "r.csv: line 2: `score` must be finite; got inf"),
        ("r.csv", RESULTS + "b,cat,1,1,2,3,4\n", "r.csv: line 2: image 'b' is not among those of the truths"),
        ("r.csv", RESULTS + "a,cow,1,1,2,3,4\n", "r.csv: line 2: class 'cow' is not among those of the truths"),
        ("r.csv", OPEN + "a,cat,0.5,0.5,0.1,0,1\n", "r.csv: line 2: `xmin,ymin,xmax,ymax` must have x1 <= x2"),
        ("d/a.txt", "0 0.5 0.5 0.5 0.5 x\n", "a.txt: line 1 must be numbers: class cx cy w h confidence"),
        ("d/a.txt", "9 0.5 0.5 0.5 0.5 1\n", "a.txt: line 1: class 9 is not among those of the truths"),
        ("d/b.txt", "1 0.5 0.5 0.5 0.5 1\n", "b.txt: line 1: image 'b' is not among those of the truths"),
        ("d/comp4_det_x_cat.txt", b"a\xff 1 1 2 3 4\n", "not UTF-8"),
    ],
)
def test_detections(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    """The file and the row."""
    path = write(tmp_path / name, content)
    path = path.parent if "/" in name else path
    known = {"r.csv": None, "d/a.txt": "yolo"}.get(name)
    refused(lambda: boxscore.read_detections(path, TRUTHS, format=known), message)


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    """In every text format."""
    mark = b"\xef\xbb\xbf"
    write(tmp_path / "c.json", mark + json.dumps(COCO, indent=1).replace("\n", "\r\n").encode())
    write(tmp_path / "t.csv", mark + (TABLE + "a,cat,1,2,3,4\n").replace("\n", "\r\n").encode())
    write(tmp_path / "v" / "a.xml", mark + VOC.replace("\n", "\r\n").encode())
    write(tmp_path / "y" / "labels" / "a.txt", mark + b"0 0.5 0.5 0.5 0.5\r\n1 0.5 0.5 0.5 0.5\r\n")
    write(tmp_path / "y" / "images" / "a.png", PNG)
    write(tmp_path / "y" / "data.yaml", mark + b"names:\r\n- cat\r\n- dog\r\n")
    assert [len(boxscore.read_truths(tmp_path / name)) for name in ("c.json", "t.csv", "v", "y")] == [2, 1, 2, 2]


def test_paths(tmp_path: Path) -> None:
    """What is not there, a folder for a file, and the like."""
    refused(lambda: boxscore.read_truths(tmp_path / "nowhere"), "nowhere: no such file or folder")
    refused(lambda: boxscore.read_truths(tmp_path, format="coco"), "must be a file; got a folder")
    refused(lambda: boxscore.read_truths(5), "`path` must be the path of a file or a folder; got int")  # type: ignore[arg-type]
    path = write(tmp_path / "c.json", json.dumps(COCO))
    refused(lambda: boxscore.read_detections(path, path), "`truths` must be boxscore.Truths")  # type: ignore[arg-type]
    refused(
        lambda: boxscore.read_truths(path, classes="cat"),
        "`classes` must be a list of names or ids, such as ['cat']; got",
    )
    refused(lambda: boxscore.read_truths(path, images=[1.5]), "`images` must have names or ids; got 1.5")  # type: ignore[list-item]
    refused(lambda: boxscore.read_truths(path, box_format="yx"), "`box_format` must be one of")  # type: ignore[arg-type]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_files_that_may_not_be_read(tmp_path: Path) -> None:
    """The reason is the system's."""
    path = write(tmp_path / "c.json", json.dumps(COCO))
    path.chmod(0)
    refused(lambda: boxscore.read_truths(path), "c.json: Permission denied")


def test_a_missing_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra."""
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = write(tmp_path / "t.parquet", b"PAR1")
    refused(lambda: boxscore.read_truths(path), "pip install 'boxscore[arrow]'")


def test_names_in_any_style_of_yaml() -> None:
    """Lists and mappings, in brackets or one per line, with quotes and comments."""
    expected = {0: "cat", 1: "a, b", 2: "it's # 1"}
    texts = [
        """names: [cat, "a, b", 'it''s # 1']  # three""",
        """names: {0: cat, 1: "a, b", 2: "it's # 1"}""",
        """names:\n  0: cat\n  1: 'a, b'  # two\n\n  2: "it's # 1"\nnc: 3""",
        """# head\npath: ../x\nnames:\n- cat\n- "a, b"\n- "it's # 1"\nroboflow:\n  license: CC\n""",
        """names: [\n  cat,\n  "a, b",\n  "it's # 1"\n]""",
    ]
    for text in texts:
        assert names_of(read_yaml(text, "d.yaml"), "d.yaml") == expected, text
    assert read_yaml("path: C:/x y\nval: a/b", "d.yaml") == {"path": "C:/x y", "val": "a/b"}
    refused(lambda: read_yaml("a: b\nnames: [a, b", "d.yaml"), "d.yaml: line 2: not YAML: expected ',' or ']'")
    refused(lambda: read_yaml("what is this", "d.yaml"), "d.yaml: must be a mapping with `names`; got str")
    refused(lambda: names_of(read_yaml("names: {a: b}", "d.yaml"), "d.yaml"), "`names` must be a list, or a mapping")


@pytest.mark.parametrize("seed", range(30))
def test_files_with_bytes_changed_give_columns_or_one_line(tmp_path: Path, seed: int) -> None:
    """Never another error: cut off, or with a few bytes replaced."""
    rng = np.random.default_rng(seed)
    good: dict[str, bytes] = {
        "c.json": json.dumps(COCO).encode(),
        "t.csv": (TABLE + "a,cat,1,2,3,4\nb,dog,1,2,3,4\n").encode(),
        "a.xml": VOC.encode(),
        "v.xml": CVAT.format('<box label="c" xtl="1" ytl="1" xbr="2" ybr="1"/>').encode(),
        "l.json": b'{"imagePath": "a", "shapes": [{"label": "c", "points": [[1, 3], [1, 2]]}]}',
        "j.json.gz": gzip.compress(json.dumps(COCO).encode()),
        "y/labels/a.txt": b"0 0.5 0.5 0.5 0.5\n1 0.1 0.1 0.3 0.3 0.2 0.4\n",
    }
    for name in ("n.npz", "p.parquet", "p.arrow") if find_spec("pyarrow") else ("n.npz",):
        boxscore.write_truths(tmp_path / name, TRUTHS)
        good[name] = (tmp_path / name).read_bytes()
    complaints: list[str] = []
    for name, content in good.items():
        for _ in range(5):
            changed = bytearray(content)
            for place in rng.integers(len(changed), size=rng.integers(1, 4)):
                changed[place] = rng.integers(256)
            path = write(tmp_path / name, bytes(changed[: rng.integers(1, len(changed) + 1)]))
            path = tmp_path / "y" if name.startswith("y/") else path
            try:
                boxscore.read_truths(path, sizes={"a": (10, 10)})
            except InputError as error:
                complaints.append(str(error))
    assert not [complaint for complaint in complaints if "\n" in complaint]
