"""PASCAL VOC: what the fast path takes is what the XML parser gives, and no file takes long."""

import io
import json
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import boxscore
from boxscore import InputError
from boxscore.formats import voc
from tests.support.shared import shared_data
from tests.support.small_files import COCO, EMPTY_VOC, VOC, coco_truths, refused, rows_of, write

OBJECT = """<object><name>dog</name><pose>Left</pose><truncated>1</truncated><difficult>1</difficult>
<bndbox><xmin>48</xmin><ymin>24.5</ymin><xmax>195</xmax><ymax>71</ymax></bndbox></object>"""
FILE = f"""<?xml version="1.0" encoding="utf-8"?>
<annotation verified="yes"><folder>f</folder><source><database>x</database></source>
<size><width>200</width><height>100</height><depth>3</depth></size><segmented>0</segmented>
{OBJECT}
{OBJECT.replace("dog", "große Katze").replace("<difficult>1</difficult>", "")}
</annotation>
"""


def plain(found: voc._Found) -> object:
    """Rows as text, as they are used: flags as flags, names and numbers without the space about them."""
    rows = [[cell.decode() if isinstance(cell, bytes) else cell for cell in row] for row in found[0]]
    named = [(name.strip(), cut.strip() == "1", (first or late).strip() == "1") for name, cut, first, *_, late in rows]
    return named, [[corner.strip() for corner in row[3:7]] for row in rows], found[1]


def agrees(content: bytes) -> bool:
    """Whether the fast path takes the content; then it must be XML, with the same objects."""
    found = voc._scan(content)
    if found is None:
        return False
    assert plain(found) == plain(voc._parse(content, "a.xml")), content
    return True


PIECES = [
    *("<", ">", "&", "/", "</name>", "<name>", "<object>", "</object>", "<!-- ", "-->", "<![CDATA[", "]]>", "\0"),
    *("<size>", "</size>", "<width>9</width>", "<difficult>0</difficult>", "<difficult></difficult>", "<pose/>"),
    *(
        "<part><object></object></part>",
        "<a:b>1</a:b>",
        ' xmlns="x"',
        "<?pi?>",
        "&lt;",
        "\x0b",
        "\uffff",
        "\r\n",
        "<a>",
    ),
    *("</annotation>", "<annotation>", "<source>", "</source>", "<truncated>1</truncated>", "1", "_", "'", '"', "\r"),
    *("\ufeff", "\u00a0", "<a>"),
]


@pytest.mark.parametrize("seed", range(20))
def test_the_fast_path_gives_what_the_parser_gives(seed: int) -> None:
    """For files with pieces put in, taken out, doubled or swapped; bytes that are no UTF-8, too."""
    rng = random.Random(seed)
    num_taken = 0
    for _ in range(400):
        text = FILE
        for _ in range(rng.randint(1, 3)):
            first, last = sorted(rng.choices(range(len(text)), k=2))
            last = min(last, first + rng.choice([0, 1, 10, 60]))
            text = rng.choice(
                [
                    text[:first] + rng.choice(PIECES) + text[first:],
                    text[:first] + text[last:],
                    text[:last] + text[first:],
                    text[:first] + rng.choice(PIECES) + text[last:],
                ]
            )
        content = text.encode()
        if rng.random() < 0.1:
            content = content.replace(b"\xc3\x9f", b"\xff")
        num_taken += agrees(content)
    assert num_taken, "some changes are harmless"


def test_plain_files_take_the_fast_path() -> None:
    """As VOC, LabelImg and the writers of Python write them."""
    assert agrees(FILE.encode())
    assert agrees(FILE.replace('"', "'").replace("verified='yes'", 'verified="yes"').encode())
    assert agrees(FILE.replace("\n", "\r\n").encode("utf-8-sig"))
    assert agrees(b"<annotation></annotation>")


def test_real_files_take_the_fast_path() -> None:
    """All 4,952 of VOC 2007 test."""
    with zipfile.ZipFile(shared_data("voc2007/Annotations.zip")) as archive:
        assert all(agrees(archive.read(name)) for name in archive.namelist() if name.endswith(".xml"))


@pytest.mark.parametrize(
    "text",
    [
        FILE.replace("<segmented>0</segmented>", "<segmented>0</segmente>"),
        FILE.replace("<segmented>0</segmented>", "<segmented>0 & 1</segmented>"),
        FILE.replace("<folder>f</folder>", "<folder>f\x00</folder>"),
        FILE.replace("<annotation verified", "<other></other><annotation verified"),
        FILE.replace("</annotation>", "</annotation></annotation>"),
        FILE.replace("<folder>", "<folder><folder>"),
    ],
)
def test_what_is_no_xml_is_refused(tmp_path: Path, text: str) -> None:
    """Though all objects in it are well formed."""
    path = write(tmp_path / "v" / "a.xml", text).parent
    refused(lambda: boxscore.read_truths(path, format="voc"), "a.xml: not XML: ")


def test_a_size_deep_inside_is_not_that_of_the_image(tmp_path: Path) -> None:
    """Only one right below the root is."""
    size = "<size><width>9</width><height>9</height></size>"
    text = f"<annotation><source>{size}</source>{OBJECT}</annotation>"
    assert boxscore.read_truths(write(tmp_path / "v" / "a.xml", text).parent).image_sizes is None


def test_a_space_that_does_not_break_is_no_part_of_a_number(tmp_path: Path) -> None:
    """U+00A0 after a corner and after a flag."""
    text = FILE.replace("195", "195\u00a0").replace("<difficult>1", "<difficult>1\u00a0")
    truths = boxscore.read_truths(write(tmp_path / "v" / "a.xml", text).parent)
    assert truths.boxes.tolist() == [[48, 24.5, 195, 71]] * 2
    assert np.asarray(truths.ignore).tolist() == [True, False]


@pytest.mark.parametrize(
    "content",
    [
        "<annotation><object><name>x</name>" + "<pose></pose>" * 20_000 + "</annotation>",
        "<annotation>" + "<object><name>x</name><pose>a</pose>" * 10_000 + "</annotation>",
        "<annotation>" + " " * 300_000 + "</annotation>",
        "<annotation>" + "<a><b></b> " * 20_000 + "</annotation>",
        "<annotation>" + "<" * 300_000 + "</annotation>",
    ],
)
def test_no_file_takes_long(content: str) -> None:
    """Half a megabyte that nearly matches; minutes were possible."""
    code = "import sys; from boxscore.formats import voc; voc._scan(sys.stdin.buffer.read())"
    subprocess.run([sys.executable, "-c", code], input=content.encode(), check=True, timeout=60)


def test_file_names_with_many_marks_take_no_time(tmp_path: Path) -> None:
    """A zip may have names of 65,535 bytes."""
    with zipfile.ZipFile(tmp_path / "r.zip", "w") as archive:
        archive.writestr("comp4" + "_det_" * 13_000 + ".txt", "")
        archive.writestr("comp4" + "_det_" * 13_000 + "x", "")
        archive.writestr("comp4_det_test_dog.txt", "a 0.5 1 2 3 4")
    code = "import sys; from boxscore.formats import detect; detect(sys.argv[1], 'detections')"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "r.zip")], check=True, timeout=60)
    truths = boxscore.Truths(image_ids=[0], labels=[0], boxes=[[0, 0, 9, 9]], image_names={0: "a"}, class_names=["dog"])
    with pytest.raises(InputError, match=r"the file name must be comp\*_det_SET_CLASS.txt; got 'comp4_det__det_"):
        boxscore.read_detections(tmp_path / "r.zip", truths)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("comp4_det_test_cat.txt", "cat"),
        ("comp3_det_val_traffic_light.txt", "traffic_light"),
        ("comp4_det__det_val_cat.txt", "cat"),
        ("comp_x_det_a_det_b_c.txt", "det_b_c"),
    ],
)
def test_the_class_is_what_follows_the_set(file: str, name: str) -> None:
    """Without truths that know it better."""
    assert voc._class_of(file, (), "here") == name


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


def test_voc_results(tmp_path: Path) -> None:
    """Joined by stem, from a folder or a zip, with any line ends; sets may have names with underscores."""
    truths = coco_truths(tmp_path)
    write(tmp_path / "r" / "comp4_det_test_x_cat.txt", "\ufeffa 0.5 1 2 3 4\r\n\r\nb 1e-1 5 6 7.5 8\r\n")
    write(tmp_path / "r" / "comp4_det_test_x_dog.txt", "")
    expected = [("val/a.jpg", "cat", [1, 2, 3, 4], 0.5), ("val/b.jpg", "cat", [5, 6, 7.5, 8], 0.1)]
    assert rows_of(boxscore.read_detections(tmp_path / "r", truths), truths) == expected


def test_a_zip_of_voc_results(tmp_path: Path) -> None:
    """It is read as a folder of them is."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("r/comp3_det_val_cat.txt", "a 0.5 1 2 3 4\n")
        archive.writestr("r/comp3_det_val_dog.txt", "a 0.25 1 2 3 4\n")
    truths = boxscore.read_truths(write(tmp_path / "c.json", json.dumps(COCO)))
    found = boxscore.read_detections(write(tmp_path / "r.zip", buffer.getvalue()), truths)
    assert rows_of(found, truths) == [("val/a.jpg", "cat", [1, 2, 3, 4], 0.5), ("val/a.jpg", "dog", [1, 2, 3, 4], 0.25)]


def test_real_voc_data_reads_as_a_folder_as_it_does_as_a_zip(tmp_path: Path) -> None:
    """4,952 files either way."""
    path = shared_data("voc2007/Annotations.zip")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    first, second = boxscore.read_truths(path), boxscore.read_truths(tmp_path)
    assert len(first) == len(second) == 14_976
    assert int(np.asarray(first.ignore).sum()) == 2_944
    assert np.array_equal(first.boxes, second.boxes)
    assert first.image_names == second.image_names
    assert len(first.image_sizes or {}) == 4_952
    listed = boxscore.read_truths(path, images=shared_data("voc2007/ImageSets/Main/test.txt"))
    assert len(listed) == 14_976
