"""Formats from small files written by hand: the numbers in the file are the numbers in the columns."""

import gzip
import json
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

import boxscore
from boxscore import InputError, formats
from boxscore.formats.files import HEAD_SIZE, open_source
from tests.support.shared import shared_data
from tests.support.small_files import COCO, coco_truths, refused, rows_of, write


def test_coco(tmp_path: Path) -> None:
    """Ids, names and sizes are the file's own."""
    truths = coco_truths(tmp_path)
    assert rows_of(truths, truths) == [("val/a.jpg", "cat", [1, 2, 30.5, 40]), ("val/a.jpg", "dog", [5, 6, 7, 8])]
    assert np.asarray(truths.ignore).tolist() == [False, True]
    assert np.asarray(truths.area).tolist() == [1000, 50]
    assert truths.image_names == {7: "val/a.jpg", 9: "val/b.jpg"}
    assert truths.image_sizes == {7: (200, 100), 9: (100, 100)}
    assert not truths.is_numbered
    result = {"image_id": 9, "category_id": 5, "bbox": [1, 2, 3, 4], "score": 0.5}
    results = boxscore.read_detections(write(tmp_path / "results.json", json.dumps([result])), truths)
    assert rows_of(results, truths) == [("val/b.jpg", "dog", [1, 2, 3, 4], 0.5)]


def test_a_coco_dataset_with_scores_is_detections(tmp_path: Path) -> None:
    """Its own ids may differ: names join."""
    truths = coco_truths(tmp_path)
    dataset = {
        "images": [{"id": 1, "file_name": "b.png"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.25}],
        "categories": [{"id": 1, "name": "Dog"}],
    }
    found = boxscore.read_detections(write(tmp_path / "d.json", json.dumps(dataset)), truths)
    assert rows_of(found, truths) == [("val/b.jpg", "dog", [1, 2, 3, 4], 0.25)]


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
    with pytest.warns(UserWarning, match="1 shape other than box and polygon left out"):
        truths = boxscore.read_truths(path)
    assert truths.image_names == {4: "f/a.jpg", 5: "f/b.jpg"}
    assert truths.image_sizes == {4: (200, 100), 5: (20, 10)}
    assert truths.names_by_label == {0: "dog", 1: "cat"}
    assert truths.labels.tolist() == [1, 0, 0]
    # a box of 20 x 10 about (20, 25), turned by 90 degrees, is one of 10 x 20
    expected = np.array([[1.5, 2, 3, 4], [1, 2, 5, 9.5], [15, 15, 25, 35]])
    np.testing.assert_allclose(truths.boxes, expected, rtol=1e-12)


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
    with pytest.warns(UserWarning, match="1 shape other than rectangle, polygon and circle"):
        truths = boxscore.read_truths(tmp_path / "l")
    assert rows_of(truths, truths) == [
        ("a.jpg", "cat", [1, 2, 30, 4]),
        ("a.jpg", "dog", [1, 2, 5, 9]),
        ("a.jpg", "dog", [5, 5, 15, 15]),
    ]
    assert np.asarray(truths.ignore).tolist() == [False, False, True]
    assert truths.image_sizes == {0: (200, 100)}


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


def test_gz_and_zip_of_one_file_are_that_file(tmp_path: Path) -> None:
    """Whatever their names."""
    truths = coco_truths(tmp_path)
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
        boxscore.InputError,
        match=r"odd.bin: the file is in no known format for truths; if it is in one of these, name it by `format`: lab",
    ):
        boxscore.read_truths(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(boxscore.InputError, match=r"empty: the folder is in no known format for truths"):
        boxscore.read_truths(tmp_path / "empty")
    with pytest.raises(
        boxscore.InputError, match=r"^`format` of truths must be one of labelme, odgt, coco, .*; got 'tfrecord'"
    ):
        boxscore.read_truths(path, format="tfrecord")
    with pytest.raises(boxscore.InputError, match=r"^s3://bucket/truths: no such file or folder on this machine; "):
        boxscore.read_truths("s3://bucket/truths")
    with pytest.raises(boxscore.InputError, match=r"^part-\*.csv: no such file or folder; a pattern in quotes is for "):
        boxscore.read_truths("part-*.csv")
    assert formats.detect(write(tmp_path / "x.json", json.dumps(COCO)), "truths") == "coco"


def test_mixed_formats_give_the_numbers_of_one(tmp_path: Path) -> None:
    """VOC truths with results in COCO's list, by stem and by file name, and in a table."""
    truths = boxscore.read_truths(shared_data("voc2007/Annotations.zip"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = boxscore.read_detections(shared_data("voc2007/results"), truths)
    expected = boxscore.evaluate(found, truths, "voc2007")["map"]
    names = truths.image_names or {}
    for ending in ("", ".jpg"):
        columns = zip(
            found.image_ids.tolist(), found.labels.tolist(), found.scores.tolist(), found.boxes.tolist(), strict=True
        )
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


def test_threads_reach_the_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number gives the same columns; the environment is asked only where none is given."""
    path = write(tmp_path / "truths.json", json.dumps(COCO))
    rows = [{"image_id": 9, "category_id": 5, "bbox": [1, 2, 3, 4], "score": 0.5}]
    results = write(tmp_path / "results.json", json.dumps(rows))
    monkeypatch.setenv("BOXSCORE_THREADS", "many")
    for threads in (1, 3):
        truths = boxscore.read_truths(path, threads=threads)
        assert rows_of(truths, truths) == [("val/a.jpg", "cat", [1, 2, 30.5, 40]), ("val/a.jpg", "dog", [5, 6, 7, 8])]
        assert len(boxscore.read_detections(results, truths, threads=threads)) == 1
    refused(lambda: boxscore.read_truths(path), "BOXSCORE_THREADS must be a positive integer; got many")
    table = write(tmp_path / "truths.csv", "image,label,x1,y1,x2,y2\na,cat,1,2,3,4\n")
    for file in (path, table):
        refused(lambda: boxscore.read_truths(file, threads=0), "`threads` must be a positive integer; got 0")  # noqa: B023


def test_a_large_file_is_read_once_it_is_wanted(tmp_path: Path) -> None:
    """Its first bytes tell the format; COCO's reader takes the path, so that the file is never in memory as a whole."""
    small, large = tmp_path / "small.json", tmp_path / "large.json"
    content = json.dumps([{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5}])
    small.write_text(content)
    large.write_text(" " * HEAD_SIZE + content)
    assert open_source(small).unread_path is None
    source = open_source(large)
    paths = [source.unread_path, source.read() and source.unread_path]
    assert paths == [large, None]
    assert source.read() == large.read_bytes()
    truths = boxscore.Truths(image_ids=[1], labels=[1], boxes=[[1, 2, 4, 6]])
    assert boxscore.read_detections(large, truths).scores.tolist() == [0.5]
    large.write_text(" " * HEAD_SIZE + content[:-1])
    with pytest.raises(InputError, match=r"large\.json: not JSON: byte 65606 \(line 1\): expected .* got the end"):
        boxscore.read_detections(large, truths)


def test_labelme_is_known_by_shapes_wherever_they_are(tmp_path: Path) -> None:
    """After an image in the file, too, which may be large."""
    path = tmp_path / "a.json"
    shape = {"label": "cat", "points": [[1, 2], [5, 7]], "shape_type": "rectangle"}
    picture = {"imageData": "A" * HEAD_SIZE, "imagePath": "a.jpg", "imageHeight": 9, "imageWidth": 9}
    path.write_text(json.dumps(picture | {"shapes": [shape]}))
    assert boxscore.read_truths(path).boxes.tolist() == [[1, 2, 5, 7]]
