"""Masks in files: what is written reads back with the same pixels, and what is lost is told."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import boxscore
from boxscore import Detections, Truths
from boxscore._support.image_file_names import stem_of
from boxscore.cli import main
from boxscore.data.geometry.masks import Masks
from boxscore.formats import FORMATS
from tests.support.masked_files import MASKED_COCO, MASKED_TABLE, RLE
from tests.support.shared import shared_data
from tests.support.small_files import PNG, refused, write

BOTH: dict[str, Any] = {"iou_type": ("bbox", "segm")}
KEPT: dict[str, Any] = BOTH | {"keep_polygons": True}
NAMES = {3: "a.jpg", 7: "b.png", 9: "none.jpg"}
SIZES = {3: (40, 30), 7: (50, 20), 9: (5, 5)}
TRUTHS = [("coco", "t.json"), ("csv", "t.csv"), ("csv", "t.tsv.gz"), ("npz", "t.npz"), ("parquet", "t.parquet")]
TRUTHS += [("parquet", "t.arrow"), ("yolo", "t"), ("labelme", "t"), ("cvat", "t"), ("cvat", "t.xml")]
DETECTIONS = [(name, file) for name, file in TRUTHS if FORMATS[name].detections]

Captured = pytest.CaptureFixture[str]


def blobs(seed: int, num: int) -> tuple[list[int], Masks]:
    """Images, and masks of any shape: parts, holes, single pixels, whole images, and one without pixels."""
    rng = np.random.default_rng(seed)
    images = rng.choice([3, 7], num).tolist()
    pixels = []
    for row, image in enumerate(images):
        width, height = SIZES[image]
        coarse = rng.random((height // 5, width // 5)) < rng.random() ** 2
        mask = np.kron(coarse, np.ones((5, 5), bool)) ^ (rng.random((height, width)) < 0.003)
        pixels.append(mask if row else np.zeros((height, width), bool))
    return images, Masks.from_pixels(pixels)


def outlines(seed: int, num: int) -> tuple[list[int], Masks]:
    """Images, and masks that keep their polygons: one or two, with long decimals, some of which overlap."""
    rng = np.random.default_rng(seed)
    images = rng.choice([3, 7], num).tolist()
    polygons = []
    for image in images:
        parts = []
        for _ in range(rng.integers(1, 3)):
            angle = np.sort(rng.random(rng.integers(3, 9))) * 2 * math.pi
            center = (0.3 + 0.4 * rng.random(2)) * SIZES[image]
            parts.append((center + 6 * np.stack([np.cos(angle), np.sin(angle)], axis=1)).reshape(-1))
        polygons.append(parts)
    return images, Masks.from_polygons(polygons, [SIZES[image][::-1] for image in images], keep=True)


def scene(seed: int, *, has_polygons: bool = False) -> tuple[Detections, Truths]:
    """Columns of masks and of the boxes around them."""
    rng = np.random.default_rng(seed)

    def columns(num: int) -> dict[str, Any]:
        images, mask = (outlines if has_polygons else blobs)(seed + num, num)
        box = mask.outer_boxes()
        return {
            "image_ids": images,
            "labels": rng.choice([2, 4], num),
            "boxes": box,
            "box_format": "xyxy",
            "masks": mask,
        }

    classes = {2: "cat", 4: "big dog"}
    truths = Truths(**columns(20), class_names=classes, image_names=NAMES, image_sizes=SIZES)
    return Detections(**columns(30), scores=rng.random(30)), truths


def rows_of(columns: Detections | Truths, truths: Truths) -> list[tuple[Any, ...]]:
    """The rows as image, class, mask and score, in an order of their own."""
    names, classes = truths.image_names or {}, truths.names_by_label or {}
    score = columns.scores.tolist() if isinstance(columns, Detections) else [0] * len(columns)
    masks = [columns.masks.pixels(row).tobytes() for row in range(len(columns))]
    keys = zip(columns.image_ids.tolist(), columns.labels.tolist(), masks, score, strict=True)
    return sorted((stem_of(names[image]), classes[label], mask, score) for image, label, mask, score in keys)


def losses(path: Path, columns: Any, *more: Any, **options: Any) -> dict[str, int]:
    """What writing loses, by its name."""
    write_columns = boxscore.write_truths if isinstance(columns, Truths) else boxscore.write_detections
    return {loss.what: loss.num for loss in write_columns(path, columns, *more, **options)}


@pytest.mark.parametrize("has_polygons", [False, True])
@pytest.mark.parametrize(("name", "file"), TRUTHS)
def test_truths_keep_every_pixel(tmp_path: Path, name: str, file: str, has_polygons: bool) -> None:
    """Run lengths as well as polygons, with parts, holes and empty masks."""
    _, truths = scene(1, has_polygons=has_polygons)
    lost = losses(tmp_path / file, truths, format=name)
    assert "exact shape of a mask" not in lost
    assert "mask" not in lost
    again = boxscore.read_truths(tmp_path / file, format=name, **BOTH)
    assert rows_of(again, again) == rows_of(truths, truths)
    assert len(again.image_names or {}) == 3
    assert {*(again.image_sizes or {}).values()} == {*SIZES.values()}


@pytest.mark.parametrize("has_polygons", [False, True])
@pytest.mark.parametrize(("name", "file"), DETECTIONS)
def test_detections_keep_every_pixel(tmp_path: Path, name: str, file: str, has_polygons: bool) -> None:
    """And every bit of their scores."""
    detections, truths = scene(2, has_polygons=has_polygons)
    lost = losses(tmp_path / file, detections, truths, format=name)
    assert "exact shape of a mask" not in lost
    again = boxscore.read_detections(tmp_path / file, truths, format=name, **BOTH)
    assert rows_of(again, truths) == rows_of(detections, truths)


@pytest.mark.parametrize(("name", "file"), [("coco", "t.json"), ("csv", "t.csv"), ("labelme", "t")])
def test_polygons_are_kept_number_for_number(tmp_path: Path, name: str, file: str) -> None:
    """Of every mask, in the order of its parts."""
    _, truths = scene(3, has_polygons=True)
    lost = losses(tmp_path / file, truths, format=name)
    assert "outline that is run lengths now" not in lost
    again = boxscore.read_truths(tmp_path / file, format=name, **KEPT)
    before, after = truths.masks.polygons, again.masks.polygons
    assert before is not None
    assert after is not None

    def kept(polygons: Any, columns: Truths) -> list[Any]:
        names = columns.image_names or {}
        images = enumerate(columns.image_ids.tolist())
        return sorted((names[image], [part.tolist() for part in polygons[row]]) for row, image in images)

    assert kept(before, truths) == kept(after, again)


def test_parquet_and_npz_tell_that_outlines_are_lost(tmp_path: Path) -> None:
    """They hold pixels; without polygons nothing is lost."""
    detections, truths = scene(4, has_polygons=True)
    for file in ("t.npz", "t.parquet", "t.arrow"):
        assert losses(tmp_path / file, truths) == {"outline that is run lengths now": 20}
        assert losses(tmp_path / file, detections, truths) == {"outline that is run lengths now": 30}
    detections, truths = scene(4)
    for file in ("t.npz", "t.parquet", "t.arrow", "t.csv", "t.json"):
        assert losses(tmp_path / file, truths) == {}
        assert losses(tmp_path / file, detections, truths) == {}


def test_formats_without_masks_tell_that_they_are_lost(tmp_path: Path) -> None:
    """Of truths and of detections."""
    detections, truths = scene(5)
    for name in ("voc", "openimages"):
        assert losses(tmp_path / name, truths, format=name)["mask"] == 20
        assert losses(tmp_path / f"d{name}", detections, truths, format=name)["mask"] == 30


def test_yolo_has_one_polygon_per_line(tmp_path: Path) -> None:
    """Parts are joined by a line; where polygons overlap, the outline of their pixels is written."""
    two = [[0.0, 0, 4, 0, 4, 4, 0, 4], [8.0, 0, 12, 0, 12, 4, 8, 4]]
    overlapping = [[0.0, 0, 4, 0, 4, 4, 0, 4], [2.0, 0, 12, 0, 12, 4, 2, 4]]
    mask = Masks.from_polygons([two, overlapping], (8, 16), keep=True)
    columns: dict[str, Any] = {"image_ids": [0, 0], "labels": [0, 0], "image_names": {0: "a.jpg"}}
    truths = Truths(**columns, masks=mask, class_names=["cat"], image_sizes={0: (16, 8)})
    lost = losses(tmp_path / "t", truths, format="yolo")
    assert lost == {"division of a mask into polygons": 1, "outline of overlapping polygons that is traced now": 1}
    lines = (tmp_path / "t" / "labels" / "a.txt").read_text().splitlines()
    assert lines == [
        # (4, 0) is nearest to (8, 0): from there around the second part, and back
        "0 0 0 0.25 0 0.5 0 0.75 0 0.75 0.5 0.5 0.5 0.5 0 0.25 0 0.25 0.5 0 0.5",
        "0 0 0 0.75 0 0.75 0.5 0 0.5",
    ]
    assert yaml.safe_load((tmp_path / "t" / "data.yaml").read_text())["kpt_shape"] == [0, 0]


def test_yolo_tells_which_boxes_are_lost(tmp_path: Path) -> None:
    """A line has no box: it is the one around the polygon."""
    mask = Masks.from_pixels(np.ones((1, 8, 16), bool))
    columns: dict[str, Any] = {"image_ids": [0], "labels": [0], "image_names": {0: "a"}, "image_sizes": {0: (16, 8)}}
    same, other = ([[0, 0, 16, 8]], [[1, 0, 16, 8]])
    assert losses(tmp_path / "a", Truths(**columns, boxes=same, masks=mask), format="yolo") == {}
    lost = losses(tmp_path / "b", Truths(**columns, boxes=other, masks=mask), format="yolo")
    assert lost == {"box that is not the one around its polygons": 1}
    small = Truths(**columns | {"image_sizes": {0: (17, 8)}}, masks=mask)
    assert losses(tmp_path / "c", small, format="yolo") == {"exact shape of a mask": 1}
    unknown = Truths(**columns | {"image_sizes": None}, masks=mask)
    refused(
        lambda: boxscore.write_truths(tmp_path / "d", unknown, format="yolo"),
        "image 0: polygons are written as fractions of its size, and `image_sizes` has none for it",
    )


def yolo(folder: Path, lines: str, more: str = "") -> Truths:
    """The masks of a label file, on an image of 200 x 100 pixels."""
    write(folder / "labels" / "a.txt", lines)
    write(folder / "images" / "a.png", PNG)
    write(folder / "data.yaml", f"names: [cat, dog]\n{more}")
    return boxscore.read_truths(folder / "labels", format="yolo", **KEPT)


def test_yolo_polygons_are_read_as_masks(tmp_path: Path) -> None:
    """In pixels of the image, with the box around them."""
    truths = yolo(tmp_path, "1 0.1 0.2 0.3 0.2 0.3 0.6\n\n0 0 0 0.5 0 0.5 0.5 0 0.5\n")
    assert truths.labels.tolist() == [1, 0]
    np.testing.assert_allclose(truths.boxes, [[40, 40, 40, 40], [50, 25, 100, 50]], rtol=1e-12)
    assert truths.masks.runs.area[1] == 100 * 50
    polygons = truths.masks.polygons
    assert polygons is not None
    np.testing.assert_allclose(polygons[0][0], [20, 20, 60, 20, 60, 60], rtol=1e-12)


@pytest.mark.parametrize(
    ("lines", "more", "message"),
    [
        ("0 .1 .2 .3 .2 .3 .6\n1 .5 .5 .2 .2\n", "", "a.txt: line 2 must be a polygon, as masks are read: class x y "),
        ("1 .5 .5 .2 .2\n", "", "…; got a box: '1 .5 .5 .2 .2'"),
        ("0 .1 .2 .3 .2 .3\n", "", "a.txt: line 1 must be a polygon"),
        ("0 .1 .2 .3 .2 .3 x\n", "", "line 1 must be a polygon, as masks are read: class x y x y x y …; got '0 .1"),
        ("0.5 .1 .2 .3 .2 .3 .6\n", "", "line 1: the class must be an integer from 0 on; got 0.5"),
        ("0 .1 .2 .3 .2 .3 nan\n", "", "a.txt: line 1: `polygon` must have polygons of finite numbers"),
        ("0 .5 .5 .2 .2 .5 .5\n", "kpt_shape: [1, 2]\n", "must be a polygon, as masks are read; got a box with keypoi"),
    ],
)
def test_yolo_lines_that_are_no_polygons(tmp_path: Path, lines: str, more: str, message: str) -> None:
    """The file, the line, and what it is."""
    refused(lambda: yolo(tmp_path, lines, more), message)


def test_yolo_results_have_the_confidence_behind_the_polygon(tmp_path: Path) -> None:
    """As Ultralytics' `save_txt` and `save_conf` write segments."""
    truths = yolo(tmp_path / "gt", "0 .1 .2 .3 .2 .3 .6\n")
    write(tmp_path / "dt" / "a.txt", "0 0 0 0.5 0 0.5 0.5 0 0.5 0.75\n1 .1 .2 .3 .2 .3 .6 0.5\n")
    found = boxscore.read_detections(tmp_path / "dt", truths, **BOTH)
    assert found.scores.tolist() == [0.75, 0.5]
    assert found.masks.runs.area[0] == 5000
    for line, message in (
        (
            "0 .5 .5 .2 .2 .9",
            "line 1 must be a polygon, as masks are read: class x y x y x y … confidence; got a box: ",
        ),
        ("0 0 0 0.5 0 0.5 0.5", "got no confidence (in Ultralytics, `save_conf=True` writes it): '0 0 0"),
    ):
        write(tmp_path / "dt" / "a.txt", f"{line}\n")
        refused(lambda: boxscore.read_detections(tmp_path / "dt", truths, format="yolo", **BOTH), message)


def test_cvat_writes_polygons_and_masks(tmp_path: Path) -> None:
    """One outline without holes is a polygon; parts and holes are a mask; boxes are boxes."""
    mask = Masks.from_pixels([np.eye(3, 4, k=1, dtype=bool)[:1], np.eye(2, 4, dtype=bool)[:2]])
    truths = Truths(image_ids=[5, 6], labels=[0, 0], masks=mask, class_names=["a & b"], image_names={5: "x<y>", 6: "b"})
    assert losses(tmp_path / "t.xml", truths, format="cvat") == {}
    lines = [line.strip() for line in (tmp_path / "t.xml").read_text().splitlines() if "label=" in line]
    shared = 'label="a &amp; b" source="file" occluded="0"'
    assert lines == [
        f'<polygon {shared} points="1,0;2,0;2,1;1,1" z_order="0"/>',
        f'<mask {shared} rle="0, 1, 2, 1" left="0" top="0" width="2" height="2" z_order="0"/>',
    ]
    again = boxscore.read_truths(tmp_path / "t.xml", **BOTH)
    assert again.image_names == {5: "x<y>", 6: "b"}
    assert again.image_sizes == {5: (4, 1), 6: (4, 2)}
    plain = Truths(image_ids=[5], labels=[0], boxes=[[0.1, 0, 3, 1]], class_names=["a"], image_names={5: "x"})
    assert losses(tmp_path / "b.xml", plain, format="cvat") == {}
    box = '<box label="a" source="file" occluded="0" xtl="0.1" ytl="0" xbr="3" ybr="1" z_order="0"/>'
    assert box in (tmp_path / "b.xml").read_text()


@pytest.mark.parametrize("name", ["bad\x07", " outer"])
def test_names_that_cvat_can_not_hold(tmp_path: Path, name: str) -> None:
    """Control characters, and spaces that readers strip."""
    truths = Truths(image_ids=[0], labels=[0], boxes=[[0, 0, 1, 1]], class_names=[name])
    refused(lambda: boxscore.write_truths(tmp_path / "t", truths, format="cvat"), "class 0 must have a name without")
    twins = Truths(image_ids=[0], labels=[0], boxes=[[0, 0, 1, 1]], class_names=["a", "a"])
    refused(lambda: boxscore.write_truths(tmp_path / "t", twins, format="cvat"), "classes 0 and 1 have the same name")


def test_cells_of_run_lengths_and_polygons(tmp_path: Path) -> None:
    """Both in one column; without columns of boxes, the boxes are those around the masks."""
    truths = boxscore.read_truths(write(tmp_path / "t.tsv", MASKED_TABLE), **KEPT)
    assert truths.masks.runs.area[0] == 23 * 15
    assert truths.boxes[0].tolist() == [7, 5, 23, 15]
    assert truths.box_format == "xywh"
    polygons = truths.masks.polygons
    assert polygons is not None
    assert [part.tolist() for part in polygons[1]] == [[1, 2, 30.5, 4, 5, 60]]
    alone = write(tmp_path / "p.csv", 'image,label,mask\na,cat,"[[1, 2, 30.5, 4, 5, 60]]"\n')
    around = boxscore.read_truths(alone, sizes={"a": (90, 80)}, **BOTH)
    assert around.boxes.tolist() == [[1, 2, 30.5, 60]]
    assert around.masks.runs.sizes.tolist() == [[80, 90]]
    boxes = boxscore.read_truths(write(tmp_path / "b.csv", "image,label,x1,y1,x2,y2,mask\na,cat,1,2,3,4,nonsense\n"))
    assert boxes.boxes.tolist() == [[1, 2, 3, 4]]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("", 't.tsv: line 2: `mask` must be {"size": [height, width], "counts": "…"} or polygons [[x, y, '),
        ("{", "line 2: `mask` must be {"),
        ("7", "in JSON; got '7'"),
        ("[]", "t.tsv: line 2: `mask` must have at least one polygon; got none"),
        ("[[1, 2, 3]]", "t.tsv: line 2: `mask` must have polygons of pairs x, y; got 3 numbers"),
        ("[1, 2, 3]", "`mask` must be a list of polygons, each a list of numbers x, y, x, y, …"),
        ('[["a", 2]]', "`mask` must be a list of polygons, each a list of numbers x, y, x, y, …"),
        ("[[1, 2, 1e99, 4]]", "t.tsv: line 2: `mask` must have polygons of finite numbers"),
        ('{"size": [3, 4]}', "t.tsv: line 2: `mask` must have `size` and `counts`"),
        ('{"size": [3, 4], "counts": "4210"}', "t.tsv: line 2: `mask` `counts` must have run lengths for the 3 x 4"),
    ],
)
def test_bad_cells(tmp_path: Path, cell: str, message: str) -> None:
    """The line, the column and the rule."""
    path = write(tmp_path / "t.tsv", f"image\tlabel\timage_width\timage_height\tmask\na\tcat\t4\t3\t{cell}\n")
    refused(lambda: boxscore.read_truths(path, **BOTH), message)


def test_polygons_beside_run_lengths_need_a_size(tmp_path: Path) -> None:
    """In columns of the table."""
    cells = [json.dumps(cell).replace('"', '""') for cell in (RLE, [[1, 2, 3, 4, 5, 6]])]
    text = "image,label,mask\n" + "".join(f'a,cat,"{cell}"\n' for cell in cells)
    path = write(tmp_path / "t.csv", text)
    message = "t.csv: line 3: `mask` is a polygon: `image_width` and `image_height` must have its image's size"
    refused(lambda: boxscore.read_truths(path, **BOTH), message)
    plain = write(tmp_path / "b.csv", "image,label,x1,y1,x2,y2\na,cat,1,2,3,4\n")
    refused(lambda: boxscore.read_truths(plain, **BOTH), "b.csv: must have masks for `iou_type` bbox, segm; ")


def test_a_cell_has_a_limit(tmp_path: Path) -> None:
    """Readers of delimited files have it, so what is longer is refused when it is written."""
    noise = np.random.default_rng(0).random((1, 600, 600)) < 0.5
    truths = Truths(image_ids=[0], labels=[0], masks=Masks.from_pixels(noise))
    refused(lambda: boxscore.write_truths(tmp_path / "t.csv", truths), "mask 0 has ")
    assert losses(tmp_path / "t.npz", truths) == {}


def test_columns_of_masks_are_read_only_if_wanted(tmp_path: Path) -> None:
    """Whatever is in them."""
    arrays: dict[str, Any] = {"image": np.array([0]), "label": np.array([0]), "box": np.zeros((1, 4))}
    np.savez(tmp_path / "t.npz", **arrays, mask_counts=np.array(["x"]))
    assert len(boxscore.read_truths(tmp_path / "t.npz", box_format="xyxy")) == 1
    message = "must have the arrays mask_counts, mask_start, mask_sizes for masks; `mask_start` is missing"
    refused(lambda: boxscore.read_truths(tmp_path / "t.npz", box_format="xyxy", **BOTH), message)
    masks: dict[str, Any] = {
        "mask_counts": np.zeros(3),
        "mask_start": np.array([0, 3]),
        "mask_sizes": np.array([[3, 4]]),
    }
    np.savez(tmp_path / "t.npz", **arrays, **masks)
    message = "the first of bytes, the others of integers; got float64 (3,), int64 (2,), int64 (1, 2)"
    refused(lambda: boxscore.read_truths(tmp_path / "t.npz", box_format="xyxy", **BOTH), message)
    masks |= {"mask_counts": np.frombuffer(b"421", np.uint8)}
    np.savez(tmp_path / "t.npz", **arrays, **masks)
    message = "t.npz: row 0: `mask` `counts` must have run lengths for the 3 x 4"
    refused(lambda: boxscore.read_truths(tmp_path / "t.npz", box_format="xyxy", **BOTH), message)
    np.savez(tmp_path / "t.npz", **arrays, **masks | {"mask_start": np.array([0]), "mask_sizes": np.zeros((0, 2), int)})
    message = "masks must have as many rows as `image`, 1; got 0"
    refused(lambda: boxscore.read_truths(tmp_path / "t.npz", box_format="xyxy", **BOTH), message)


def test_a_row_without_a_class_needs_no_mask(tmp_path: Path) -> None:
    """It is an image without boxes; a row with a class and no mask is an error."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    table = pa.table({"image": ["a", "b"], "class": ["cat", None], "mask": [RLE, None]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    truths = boxscore.read_truths(tmp_path / "t.parquet", **BOTH)
    assert len(truths) == 1
    assert truths.image_names == {0: "a", 1: "b"}
    table = pa.table({"image": ["a", "b"], "class": ["cat", "cat"], "mask": [RLE, None]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    refused(lambda: boxscore.read_truths(tmp_path / "t.parquet", **BOTH), "t.parquet: row 1: `mask` must not be null")
    text = pa.table({"image": ["a"], "class": ["cat"], "segmentation": [json.dumps(RLE)]})
    pyarrow.parquet.write_table(text, tmp_path / "t.parquet")
    assert boxscore.read_truths(tmp_path / "t.parquet", **BOTH).masks.rle() == [RLE]


def converted(capsys: Captured, *arguments: Path | str) -> tuple[str, list[str]]:
    """What `boxscore convert` prints, and its warnings."""
    assert main(["convert", *map(str, arguments)]) == 0
    out, err = capsys.readouterr()
    return out, [line.removeprefix("boxscore: warning: ") for line in err.splitlines()]


def test_convert_keeps_cocos_polygons_and_run_lengths(tmp_path: Path, capsys: Captured) -> None:
    """Number for number; run lengths are text."""
    source = shared_data("masks/instances_coco_tiny.json")
    out, lost = converted(capsys, source, tmp_path / "a.json")
    assert (out, lost) == (f"wrote 815 truths in 80 images to {tmp_path / 'a.json'} (coco)\n", [])
    before, after = (json.loads(path.read_text())["annotations"] for path in (source, tmp_path / "a.json"))
    num_polygons = 0
    for old, new in zip(before, after, strict=True):
        assert old["area"] == new["area"]
        if isinstance(old["segmentation"], list):
            assert old["segmentation"] == new["segmentation"]
            num_polygons += 1
        else:
            assert isinstance(new["segmentation"]["counts"], str)
            assert Masks.from_rle([old["segmentation"]]).rle() == [new["segmentation"]]
    assert num_polygons == 804
    _, lost = converted(capsys, tmp_path / "a.json", tmp_path / "b.csv")
    assert lost == []
    converted(capsys, tmp_path / "b.csv", tmp_path / "c.json")
    assert (tmp_path / "c.json").read_text() == (tmp_path / "a.json").read_text()


def test_convert_keeps_masks_through_every_format(tmp_path: Path, capsys: Captured) -> None:
    """From COCO to each format that has masks, and back: the same pixels."""
    source = shared_data("masks/instances_coco_tiny.json")
    expected = boxscore.read_truths(source, **BOTH)
    for name, file in TRUTHS:
        _, lost = converted(capsys, source, tmp_path / file, "--to", name, "--overwrite")
        assert not any("shape" in loss for loss in lost), name
        converted(capsys, tmp_path / file, tmp_path / "back.json", "--from", name, "--overwrite")
        again = boxscore.read_truths(tmp_path / "back.json", **BOTH)
        assert rows_of(again, again) == rows_of(expected, expected), name
    _, lost = converted(capsys, source, tmp_path / "voc", "--to", "voc")
    assert lost[0] == "815 masks are lost"


def test_convert_of_detections_keeps_masks(tmp_path: Path, capsys: Captured) -> None:
    """With the truths of another format."""
    source = shared_data("val2014_100/instances_val2014_100.json")
    results = shared_data("val2014_100/instances_val2014_fakesegm100_results.json")
    truths = boxscore.read_truths(source, **BOTH)
    expected = rows_of(boxscore.read_detections(results, truths, **BOTH), truths)
    for name, file in DETECTIONS:
        converted(capsys, results, tmp_path / file, "--to", name, "--truths", source, "--overwrite")
        again = boxscore.read_detections(tmp_path / file, truths, format=name, **BOTH)
        assert rows_of(again, truths) == expected, name


def test_convert_of_some_masks_gives_boxes_and_a_warning(tmp_path: Path, capsys: Captured) -> None:
    """Where a row has none, or an invalid one."""
    dataset = json.loads(json.dumps(MASKED_COCO))
    for annotation in dataset["annotations"]:
        annotation |= {"bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0}
    for segmentation, rule in (([], "must have at least one polygon; got []"), ([[1, 2, 3]], "must have polygons of")):
        dataset["annotations"][1]["segmentation"] = segmentation
        path = write(tmp_path / "t.json", json.dumps(dataset))
        _, warnings = converted(capsys, path, tmp_path / "out.json", "--overwrite")
        (warning,) = warnings
        where = f"{path}: annotation 1 (id 2): `segmentation` "
        assert warning.startswith(f"masks are left out, as not every row has valid ones: {where}{rule}")
        assert "segmentation" not in (tmp_path / "out.json").read_text()
    write(tmp_path / "labels" / "a.txt", "0 .1 .2 .3 .2 .3 .6\n0 .5 .5 .2 .2\n")
    write(tmp_path / "images" / "a.png", PNG)
    _, warnings = converted(capsys, tmp_path / "labels", tmp_path / "out.json", "--overwrite")
    assert "a.txt: line 2 must be a polygon" in warnings[0]


def test_convert_of_boxes_makes_no_masks(tmp_path: Path, capsys: Captured) -> None:
    """Not of rectangles either, though they are masks to those who ask for masks."""
    rectangle = {"label": "cat", "points": [[1, 2], [9, 8]], "shape_type": "rectangle"}
    data = {"imagePath": "a.jpg", "imageWidth": 20, "imageHeight": 10, "shapes": [rectangle]}
    write(tmp_path / "l" / "a.json", json.dumps(data))
    box = '<image id="0" name="a" width="9" height="9"><box label="c" xtl="1" ytl="1" xbr="2" ybr="2"/></image>'
    write(tmp_path / "c.xml", f"<annotations>{box}</annotations>")
    for source in (tmp_path / "l", tmp_path / "c.xml"):
        assert converted(capsys, source, tmp_path / "out.json", "--overwrite")[1] == []
        assert "segmentation" not in (tmp_path / "out.json").read_text()
