"""The compiled reader of COCO's files: as Python's json reads them, whatever the threads; errors name the place."""

import json
import os
import random
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, Truths, _compiled
from boxscore.formats import coco, join, to_truths
from boxscore.formats.files import Source
from boxscore.formats.records import Options
from tests.support.coco_reference import check, reference, same
from tests.support.coco_writer import Writer, check_case
from tests.support.shared import shared_data

pytestmark = pytest.mark.native

BOX = {"image_id": 1, "category_id": 2, "bbox": [1, 2, 3, 4]}


def read(text: str | bytes, threads: int = 1, size: int = 1 << 18) -> Any:
    """The columns of a text."""
    return _compiled.read_coco_bytes(text.encode() if isinstance(text, str) else text, threads, size)


def box(**changes: Any) -> str:
    """A list of one result, with changes; what is a string is JSON."""
    pairs = {key: json.dumps(value) for key, value in BOX.items()} | changes
    return "[{" + ", ".join(f'"{key}": {value}' for key, value in pairs.items()) + "}]"


def test_results_by_hand() -> None:
    """Columns in the order of the rows; what nobody reads is skipped."""
    text = """[{"image_id": 7, "category_id": 3, "bbox": [1.5, 2, 3e1, 0.25], "score": 0.5},
        {"score":1,"bbox" : [ 0,0 ,1,-0.1e-1],"segmentation":{"counts":"},{","size":[1,2]},
        "category_id":-3, "image_id":8}]"""
    found = read(text)
    assert found.boxes.image.tolist() == [7, 8]
    assert found.boxes.category.tolist() == [3, -3]
    assert found.boxes.box.tolist() == [[1.5, 2, 30, 0.25], [0, 0, 1, -0.01]]
    assert found.boxes.score.tolist() == [0.5, 1]
    assert [getattr(found.boxes, name) for name in ("area", "is_crowd", "id", "image_names")] == [None] * 4
    assert found.images is found.categories is None
    assert not found.is_dataset


def test_a_dataset_by_hand() -> None:
    """Keys in any order; missing areas are NaN, missing flags 0."""
    text = """\ufeff{"categories": [{"name": "c\\u0061t \\ud83d\\ude00", "id": 5}], "info": {"a": [{}, {}]},\r\n
        "annotations": [
        {"id": 1, "image_id": 1, "category_id": 5, "bbox": [0, 0, 1, 1]},
        {"id": 2, "image_id": 1, "category_id": 5, "bbox": [0, 0, 1, 1], "area": 0.5, "iscrowd": true}],
        "images": [{"id": 1, "file_name": "a.jpg", "width": 640, "height": null}]}"""
    found = read(text, 3, 10)
    assert found.categories.name == ["cat 😀"]
    assert found.categories.id.tolist() == [5]
    assert found.images.file_name == ["a.jpg"]
    assert found.images.width.tolist() == [640]
    assert np.isnan(found.images.height).all()
    assert found.boxes.id.tolist() == [1, 2]
    assert np.isnan(found.boxes.area[0])
    assert found.boxes.area[1] == 0.5
    assert found.boxes.is_crowd.tolist() == [0, 1]


def test_images_may_be_named_by_strings() -> None:
    """As ultralytics writes them: places in a list of distinct names."""
    rows = [BOX | {"image_id": name} for name in ("b", "a", "b", 'c"\\', "a")]
    for size in (1, 60, 1000):
        found = read(json.dumps(rows), 3, size)
        assert found.boxes.image.tolist() == [0, 1, 0, 2, 1]
        assert found.boxes.image_names == ["b", "a", 'c"\\']


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON: byte 0 (line 1): expected an object or a list; got the end"),
        (" \n", "not JSON: byte 2 (line 2): expected an object or a list; got the end"),
        ("\ufeff", "not JSON: byte 3 (line 1): expected an object or a list; got the end"),
        ("5", "expected an object with `annotations` and `categories`, or a list of results; got 5"),
        ("{", "not JSON: byte 1 (line 1): expected a key or '}'; got the end"),
        ("[", "not JSON: byte 1 (line 1): expected a value; got the end"),
        (box()[:-1], "not JSON: byte 56 (line 1): expected ',' or ']'; got the end"),
        (box() + "\n\n x", "not JSON: byte 60 (line 3): expected the end; got 'x'"),
        (box()[:-1] + ",]", "not JSON: byte 57 (line 1): expected a value; got ']'"),
        (box()[:-2] + ",}]", "not JSON: byte 56 (line 1): expected a key; got '}'"),
        (box().replace('"bbox":', '"bbox"'), "not JSON: byte 42 (line 1): expected ':'; got '['"),
        (box().replace(", 3", "  3"), "not JSON: byte 50 (line 1): expected ',' or ']'; got '3'"),
        (box(category_id="01"), "not JSON: byte 33 (line 1): expected ',' or '}'; got '1'"),
        (box(score="1."), "not JSON: byte 68 (line 1): expected a digit; got '}'"),
        (box(score=".5"), "not JSON: byte 66 (line 1): expected a value; got '.'"),
        (box(score="-"), "not JSON: byte 67 (line 1): expected a digit; got '}'"),
        (box(score="1e+"), "not JSON: byte 69 (line 1): expected a digit; got '}'"),
        (box(score="'1'"), "not JSON: byte 66 (line 1): expected a value; got '''"),
        (box(x='"\\x"'), "not JSON: byte 64 (line 1): expected an escape sequence; got 'x'"),
        (box(x='"\\u12g4"'), "not JSON: byte 67 (line 1): expected an escape sequence; got 'g'"),
        (box(x='"a\nb"'), "not JSON: byte 64 (line 1): expected no control character in a string; got byte 0x0a"),
        (box(x="[" * 513), "not JSON: byte 574 (line 1): expected at most 512 levels; got '['"),
        (box(x="[1, NaN]"), "not JSON: byte 66 (line 1): expected a value; got 'N'"),
        (box(x="tru"), "not JSON: byte 65 (line 1): expected a value; got '}'"),
        (box(image_id='"\\ud800"'), "not JSON: byte 15 (line 1): expected both halves of a surrogate pair; got '\\'"),
        (b'[{"x": "\xff"}]', "not JSON: byte 8 (line 1): expected UTF-8; got byte 0xff"),
        (b'[{"x": "\xed\xa0\x80"}]', "not JSON: byte 9 (line 1): expected UTF-8; got byte 0xa0"),
        (b'[{"x": "\xc3', "not JSON: byte 9 (line 1): expected UTF-8; got the end"),
        (b"[\0]", "not JSON: byte 1 (line 1): expected a value; got byte 0x00"),
        ("[1]", "result 0 must be an object; got 1"),
        ('{"annotations": [{}, []]}', "annotation 0 must have `image_id`"),
        ('{"images": {}}', "`images` must be a list; got {}"),
        ('{"images": [], "images": []}', "`images` must be given once; got it twice"),
        ('{"images": [{}]}', "image 0 must have `id`"),
        ('{"images": [{"id": 1, "file_name": 5}]}', "image 0 (id 1): `file_name` must be a string; got 5"),
        ('{"images": [{"id": 1, "width": "5"}]}', 'image 0 (id 1): `width` must be a number; got "5"'),
        (
            '{"images": [{"id": 1}, {"id": "a"}]}',
            'image 1 (id "a"): `id` must be an integer, as in the rows before it; got "a"',
        ),
        ('{"categories": [{"id": 1}]}', "category 0 (id 1) must have `name`"),
        ('{"categories": [{"name": "a"}]}', "category 0 must have `id`"),
        ('{"categories": [{"id": 1, "name": null}]}', "category 0 (id 1): `name` must be a string; got null"),
        (
            '{"categories": [{"id": 3, "name": "a"}, {"name": "", "id": 3}]}',
            "categories must have different ids; got 3 twice",
        ),
        (box(bbox="[1, 2,\n3]", id="42"), "result 0 (id 42): `bbox` must have 4 numbers; got [1, 2, 3]"),
        (box(bbox="[1, 2, 3, 4, 5]"), "result 0: `bbox` must have 4 numbers; got [1, 2, 3, 4, 5]"),
        (box(bbox="[1, 2, 3, true]"), "result 0: `bbox` must have 4 numbers; got [1, 2, 3, true]"),
        (box(bbox="null"), "result 0: `bbox` must have 4 numbers; got null"),
        (box(bbox="[1, 2, NaN, 4]"), "result 0: `bbox` must have 4 finite numbers; got [1, 2, NaN, 4]"),
        (box(bbox="[1, 2, 1e400, 4]"), "result 0: `bbox` must have 4 finite numbers; got [1, 2, 1e400, 4]"),
        (
            box(bbox="[" + "123456789, " * 20 + "1]"),
            "result 0: `bbox` must have 4 numbers; got [123456789, 123456789, 123456789, 123456789, 123456789, 1...",
        ),
        (box(score="NaN"), "result 0: `score` must be finite; got NaN"),
        (box(score="-Infinity"), "result 0: `score` must be finite; got -Infinity"),
        (box(score="-1e999"), "result 0: `score` must be finite; got -1e999"),
        (box(score="null"), "result 0: `score` must be a number; got null"),
        (box(image_id="1.0"), "result 0: `image_id` must be an integer; got 1.0"),
        (box(category_id="1e3"), "result 0: `category_id` must be an integer; got 1e3"),
        (box(category_id="true"), "result 0: `category_id` must be an integer; got true"),
        (box(category_id='"1"'), 'result 0: `category_id` must be an integer; got "1"'),
        (box(image_id=str(2**63)), "result 0: `image_id` must fit in 63 bits; got 9223372036854775808"),
        (box(iscrowd="2"), "result 0: `iscrowd` must be 0 or 1; got 2"),
        (box(iscrowd="0.0"), "result 0: `iscrowd` must be 0 or 1; got 0.0"),
        (box(score="1").replace('"score"', '"bbox"'), "result 0: `bbox` must be given once; got it twice"),
        (box(id='"a"', x="0")[:-2] + ', "area": {}}]', 'result 0 (id "a"): `area` must be a number; got {}'),
        (box(score="1")[:-1] + "," + box()[1:], "result 1 must have `score`, as those before it have"),
        (
            box()[:-1] + "," + box(score="1", id="5")[1:],
            "result 1 (id 5): `score` must be in all rows or in none; those before it have none",
        ),
        (
            box(image_id='"a"')[:-1] + "," + box()[1:],
            "result 1: `image_id` must be a string, as in the rows before it; got 1",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_wrong_is_said_in_one_line(text: str | bytes, message: str) -> None:
    """With its place; the same, however the text is cut."""
    content = text.encode() if isinstance(text, str) else text
    for threads in (1, 2, 8):
        for size in (1, 5, 30, 1 << 18):
            with pytest.raises(_compiled.CocoError, match=f"^{re.escape(message)}$"):
                _compiled.read_coco_bytes(content, threads, size)
    assert not check(content)


def test_the_first_error_is_the_one_reported() -> None:
    """By any number of threads, though a later one may be found earlier."""
    good = json.dumps(BOX)
    rows = [good] * 2000
    rows[700] = good.replace("[1,", '["x",')
    rows[900] = "{"
    rows[1500] = good.replace("[1,", "[")
    text = "[" + ", ".join(rows) + "]"
    for threads in (1, 2, 3, 8):
        for size in (100, 1000, 10000):
            with pytest.raises(
                _compiled.CocoError, match=r'^result 700: `bbox` must have 4 numbers; got \["x", 2, 3, 4\]$'
            ):
                read(text, threads, size)


def test_strings_and_lists_that_look_like_records_do_not_mislead() -> None:
    """A guess that lands in one of them is found out."""
    row = json.dumps(BOX)
    tricks = [
        f'"x": [{row}, {row}, {row}]',
        '"x": "' + row.replace('"', '\\"') + ", " + row.replace('"', '\\"') + '"',
        '"x": [{"y": [{}, {}]}, {}, {}], "z": "}, {"',
    ]
    rows = [row[:-1] + ", " + tricks[i % 3] + "}" for i in range(50)]
    for text in ("[" + ", ".join(rows) + "]", '{"annotations": [' + " ,\n ".join(rows) + '], "info": [{}, {}, {}]}'):
        content = text.encode()
        assert check(content, sizes=(1, 17, 40, 100, 333, 1000))


@pytest.mark.parametrize("seed", range(300))
def test_random_documents_are_read_as_python_reads_them(seed: int) -> None:
    """Every bit, or both refuse; whole and damaged ones."""
    check(Writer(seed).document())
    check_case(seed)


def test_the_box_around_zeros_of_both_signs_begins_at_the_later_one() -> None:
    """As NumPy's minimum; found by `tests.fuzz_json`, as -8.77E-327 is -0."""
    for first, second in (("-8.77E-327", "0.0"), ("0.0", "-0.0")):
        points = f"[{first}, 6, 2, {second}, 7, 2, 3, 8, 2]"
        row = f'{{"image_id": 1, "category_id": 1, "score": 0.5, "keypoints": {points}}}'
        assert check(f"[{row}]".encode(), shapes="keypoints")


def test_numbers_are_those_of_python() -> None:
    """200,000 spellings, bit for bit."""
    rand = random.Random(0)
    writer = Writer(0)

    def spelling(kind: int) -> str:
        if kind == 0:
            return writer.number()
        if kind == 1:
            return repr(rand.uniform(0, 1000))
        if kind == 2:
            return f"{rand.randrange(10 ** rand.randint(1, 12))}.{rand.randrange(10**12):0{rand.randint(1, 12)}d}"
        if kind == 3:
            # Halfway between two doubles, and next to it.
            middle = (2 * rand.randrange(2**52, 2**53) + 1) * 5 ** rand.randint(0, 4)
            return f"{middle + rand.randint(-1, 1)}e-{rand.randint(0, 30)}"
        if kind == 4:
            return f"{rand.randrange(10**17, 10**19)}e{rand.randint(-340, 288)}"
        return f"0.{'0' * rand.randint(0, 12)}{rand.randrange(10**18)}"

    texts = [spelling(i % 6) for i in range(200_000)]
    texts += ["0", "-0", "0.0", "-0.0", "4.9e-324", "2.4e-324", "1e-400", "1.7976931348623157e308", "0e999", "0.0e-999"]
    texts += [f"{2**53 + 1}.0", "9007199254740993", "9007199254740993.00000000000000000001", "1" + "0" * 300]
    texts = [text for text in texts if np.isfinite(float(text))]
    texts = texts[: len(texts) // 4 * 4]
    rows = [f'{{"image_id":1,"category_id":1,"bbox":[{",".join(texts[i : i + 4])}]}}' for i in range(0, len(texts), 4)]
    found = read("[" + ",".join(rows) + "]", 2).boxes.box.reshape(-1)
    expected = np.array([float(text) for text in texts])
    is_same = found.view(np.int64) == expected.view(np.int64)
    assert is_same.all(), [text for text, fine in zip(texts, is_same, strict=True) if not fine][:10]


@pytest.mark.not_sanitized
@pytest.mark.parametrize(
    "name",
    [
        "coco_val2017/instances_val2017_boxes.json",
        "coco_val2017/yolox_nano.json",
        "val2014_100/instances_val2014_100.json",
        "val2014_100/instances_val2014_fakebbox100_results.json",
    ],
)
def test_real_data(name: str) -> None:
    """Files and bytes, one thread and many."""
    path = shared_data(name)
    content = path.read_bytes()
    expected = reference(content)
    for threads in (1, 2, 8):
        assert same(_compiled.read_coco_file(os.fsencode(path), threads), expected)
        assert same(_compiled.read_coco_bytes(memoryview(content), threads, 10_000), expected)


def test_files_that_can_not_be_read_say_why(tmp_path: Path) -> None:
    """In the words of the system."""
    with pytest.raises(FileNotFoundError):
        _compiled.read_coco_file(os.fsencode(tmp_path / "missing.json"), 1)
    with pytest.raises(IsADirectoryError):
        _compiled.read_coco_file(os.fsencode(tmp_path), 1)
    with pytest.raises(OSError, match="Invalid argument"):
        _compiled.read_coco_file(b"a\0b", 1)
    (tmp_path / "empty.json").write_bytes(b"")
    with pytest.raises(InputError, match=r"empty\.json: not JSON: byte 0"):
        boxscore.read_truths(tmp_path / "empty.json")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_pipes_are_read_to_their_end(tmp_path: Path) -> None:
    """Their size is not known before."""
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    content = json.dumps([BOX] * 10_000).encode()
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    assert len(_compiled.read_coco_file(os.fsencode(pipe), 2).boxes.box) == 10_000
    writer.join()


DATASET = {
    "images": [{"id": 4, "file_name": "dir/b.c.jpg"}],
    "annotations": [],
    "categories": [{"id": 2, "name": "cat"}],
}


def source(name: str, content: Any) -> Source:
    """A file in memory."""
    return Source.of_bytes(Path(name), name, json.dumps(content).encode())


def truths(**changes: Any) -> Truths:
    """The truths of a dataset in memory."""
    return to_truths(coco.read_truths(source("gt.json", DATASET | changes), Options()))


def detections(rows: Any, there: Truths) -> Detections:
    """The detections of results in memory."""
    columns, report = join(coco.read_detections(source("dt.json", rows), Options()), there)
    if report.unmatched:
        raise InputError(str(report.unmatched[0]))
    return columns


def test_areas_that_are_missing_are_those_of_the_boxes() -> None:
    """In some rows; where no row has one, there is no column."""
    rows = [BOX | {"bbox": [0, 0, 0.1, 0.3]}, BOX | {"area": 7}]
    there = truths(images=[], annotations=rows)
    assert there.area.tolist() == [0.1 * 0.3, 7]  # type: ignore[union-attr]
    assert truths(images=[], annotations=rows[:1]).area is None
    assert there.ignore is None
    assert truths(images=[], annotations=[BOX, BOX | {"iscrowd": 1}]).ignore.tolist() == [False, True]  # type: ignore[union-attr]


def test_results_are_joined_with_images_by_id_or_by_stem() -> None:
    """A dataset with scores is as good as a list."""
    there = truths()
    assert there.image_names == {4: "dir/b.c.jpg"}
    row = BOX | {"score": 0.5}
    assert detections([row | {"image_id": 4}], there).image_ids.tolist() == [4]
    assert detections([row | {"image_id": "b.c"}], there).image_ids.tolist() == [4]
    assert detections({"annotations": [row | {"image_id": 4}]}, there).scores.tolist() == [0.5]
    assert len(detections([], there)) == 0
    for rows, message in [
        ([row | {"image_id": 4}, row | {"id": 9}], "dt.json: result 1: image 1 is not among those of the truths"),
        ([row | {"image_id": "x"}], "dt.json: result 0: image 'x' is not among those of the truths"),
        ([BOX | {"image_id": 4}], "dt.json: result 0 must have `score`"),
        ({"annotations": [BOX | {"image_id": 4}]}, "dt.json: annotation 0 must have `score`"),
        ({}, "dt.json: `annotations` must be a list; got nothing"),
    ]:
        with pytest.raises(InputError, match=f"^{re.escape(message)}"):
            detections(rows, there)
    twice = truths(images=[{"id": 1, "file_name": "a/x.jpg"}, {"id": 2, "file_name": "b/x.jpg"}])
    with pytest.raises(InputError, match=r"^dt.json: result 0: image 'x' is not among those of the truths"):
        detections([row | {"image_id": "x"}], twice)


def test_datasets_may_name_images_by_strings() -> None:
    """Then images are numbered by name, and results name them the same way."""
    images = [{"id": "z", "file_name": "1.jpg"}, {"id": "y", "file_name": "2.jpg"}]
    there = truths(images=images, annotations=[BOX | {"image_id": name} for name in ("y", "z", "new")])
    assert there.image_ids.tolist() == [1, 2, 0]
    assert there.image_names == {0: "new", 1: "y", 2: "z"}
    assert detections([BOX | {"image_id": "y", "score": 1}], there).image_ids.tolist() == [1]
    with pytest.raises(
        InputError,
        match=r"^gt.json: annotation 0: `image_id` must be a string, as the ids of `images` are; got an integer$",
    ):
        truths(images=images, annotations=[BOX])


def test_rules_of_columns_name_the_row_and_its_id() -> None:
    """With the file's name, that of a member of an archive too."""
    rows = [BOX | {"id": 41}, BOX | {"id": 42, "area": -1}]
    with pytest.raises(InputError, match=r"^gt.json: annotation 1 \(id 42\): `area` must not be negative; got -1.0$"):
        truths(images=[], annotations=rows)
    with pytest.raises(InputError, match=r"^gt.json: `labels` must be one of those in `class_names` \(2\); got 3$"):
        truths(images=[], annotations=[BOX | {"category_id": 3}])


def test_truths_on_images_that_are_not_listed_are_left_out_with_a_warning() -> None:
    """As in COCO; a subset of a dataset may list its images alone."""
    rows = [BOX | {"image_id": image, "id": image, "category_id": 2} for image in (4, 5, 6)]
    with pytest.warns(UserWarning, match=r"^2 truths on images that the file does not list left out; the first is "):
        there = truths(annotations=rows)
    assert there.image_ids.tolist() == [4]
