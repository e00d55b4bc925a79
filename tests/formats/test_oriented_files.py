"""Oriented boxes in files: DOTA, YOLO-OBB, COCO JSON and tables, read, written, evaluated and converted."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, Truths
from boxscore.cli import main
from boxscore.cli.arguments import ORIENTED_FORMATS, UPRIGHT_FORMATS
from boxscore.data.geometry import box_formats
from boxscore.data.geometry.oriented_boxes import OrientedBoxes
from tests.support.comparisons import assert_same
from tests.support.oriented_scenes import random_oriented

NAMES = {0: "plane", 1: "ship", 2: "small-vehicle"}
FORMATS = {
    "dota": ("truths", "found"),
    "yolo": ("truths", "found"),
    "coco": ("truths.json", "found.json"),
    "csv": ("truths.csv", "found.csv"),
    "parquet": ("truths.parquet", "found.parquet"),
    "npz": ("truths.npz", "found.npz"),
}


def scene(seed: int = 3) -> tuple[Detections, Truths]:
    """Corners in eighths of pixels, which survive every format, in images of 256 x 128."""
    detections, truths = random_oriented(seed)

    def corners(columns: Any) -> OrientedBoxes:
        return OrientedBoxes(boxes=np.round(columns.oriented_boxes.corners() * 8) / 8)

    images = {image: f"P{image:04}" for image in range(8)}
    named = replace(
        truths,
        geometry=corners(truths),
        class_names=NAMES,
        image_names=images,
        image_sizes=dict.fromkeys(images, (256, 128)),
    )
    return replace(detections, geometry=corners(detections)), named


def write(folder: Path, name: str, seed: int = 3) -> tuple[Path, Path]:
    """A scene in a format."""
    detections, truths = scene(seed)
    paths = tuple(folder / each for each in FORMATS[name])
    boxscore.write_truths(paths[0], truths, format=name)
    boxscore.write_detections(paths[1], detections, truths, format=name)
    return paths[0], paths[1]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_keeps_every_digit(name: str, tmp_path: Path) -> None:
    """What is written reads back as the same boxes, and gives the same result."""
    pytest.importorskip("pyarrow")
    detections, truths = scene()
    paths = write(tmp_path, name)
    there = boxscore.read_truths(paths[0], iou_type="obb")
    found = boxscore.read_detections(paths[1], there, iou_type="obb")
    expected = replace(truths, ignore=None) if name == "yolo" else truths  # which has no flags
    assert sorted(there.oriented_boxes.boxes.tolist()) == sorted(truths.oriented_boxes.boxes.tolist())
    assert sorted(found.oriented_boxes.boxes.tolist()) == sorted(detections.oriented_boxes.boxes.tolist())
    np.testing.assert_allclose(
        list(boxscore.evaluate(found, there).values()),
        list(boxscore.evaluate(detections, expected).values()),
        atol=0.02,  # ties: DOTA has detections class by class
        equal_nan=True,
    )


def table(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What the command prints."""
    assert main([*map(str, arguments)]) == 0
    return capsys.readouterr().out


class TestCommand:
    """`boxscore eval`, `convert` and `check`."""

    def test_a_dota_folder_is_evaluated_as_oriented_boxes(self, tmp_path: Path, capsys: Any) -> None:
        """Without being told; so is a table with four corners."""
        dota = write(tmp_path / "dota", "dota")
        assert table(capsys, "eval", *dota).startswith("coco obb: 3 classes")
        for name in ("csv", "parquet", "npz"):
            assert table(capsys, "eval", *write(tmp_path / name, name)).startswith("coco obb: 3 classes")
        assert table(capsys, "eval", *dota, "--protocol", "dota").startswith("dota: 3 classes")
        assert table(capsys, "eval", *dota, "--iou-type", "probiou").startswith("coco probiou: 3 classes")
        assert table(capsys, "eval", *dota, "--iou-type", "bbox").startswith("coco: 3 classes")

    @pytest.mark.parametrize("name", ["yolo", "coco"])
    def test_others_are_if_they_are_told(self, name: str, tmp_path: Path, capsys: Any) -> None:
        """By `--iou-type obb`: a polygon of four corners may also be a mask."""
        paths = write(tmp_path, name)
        assert table(capsys, "eval", *paths, "--iou-type", "obb").startswith("coco obb: 3 classes")
        both = json.loads(table(capsys, "eval", *paths, "--iou-type", "bbox,obb", "--json", "-"))
        assert sorted(both) == ["bbox", "obb"]

    @pytest.mark.parametrize("name", ["yolo", "coco", "csv"])
    def test_convert_to_dota_and_back(self, name: str, tmp_path: Path, capsys: Any) -> None:
        """The same corners."""
        truths, found = write(tmp_path, name)
        table(capsys, "convert", truths, tmp_path / "dota", "--to", "dota")
        table(capsys, "convert", found, tmp_path / "results", "--to", "dota", "--truths", truths)
        there = boxscore.read_truths(tmp_path / "dota", iou_type="obb")
        assert sorted(there.oriented_boxes.boxes.tolist()) == sorted(scene()[1].oriented_boxes.boxes.tolist())
        assert table(capsys, "eval", tmp_path / "dota", tmp_path / "results").startswith("coco obb: 3 classes")
        table(capsys, "convert", tmp_path / "dota", tmp_path / "again.json")
        again = boxscore.read_truths(tmp_path / "again.json", iou_type="obb")
        assert sorted(again.oriented_boxes.boxes.tolist()) == sorted(there.oriented_boxes.boxes.tolist())

    def test_check(self, tmp_path: Path, capsys: Any) -> None:
        """A valid folder has no error; an invalid box has its line."""
        truths, found = write(tmp_path, "dota")
        assert main(["check", str(truths), str(found)]) == 0
        file = truths / "labelTxt" / "P0003.txt"
        file.write_text(f"{file.read_text()}0 0 9 9 9 0 0 9 ship 0\n")
        capsys.readouterr()
        assert main(["check", str(truths), str(found)]) == 1
        assert "1 oriented box whose edges cross" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("change", "title"),
        [
            (
                lambda box: box[:, [0, 1, 3, 2, 4]],
                "only if width and height are swapped, or the box is turned by 90 deg",
            ),
            (
                lambda box: box * [1, 1, 1, 1, -1],
                "only if angles turn the other way: `--box-format cxcywha:radians:ccw`",
            ),
            (lambda box: box * [1, 1, 1, 1, np.pi / 180], "only if angles are radians, read as degrees"),
        ],
    )
    def test_conventions_of_angles(self, change: Any, title: str, tmp_path: Path, capsys: Any) -> None:
        """A warning that says how most detections would overlap a truth; none about the right ones."""
        random = np.random.default_rng(0)
        box = np.concatenate(
            [random.uniform(0, 2000, (60, 2)), random.uniform(10, 14, (60, 2)), np.zeros((60, 1))], axis=1
        )
        box[:, 2] *= 5
        box[:, 4] = random.uniform(0.3, 1.2, 60)
        columns: dict[str, Any] = {"image_ids": np.arange(60) // 10, "labels": np.zeros(60, np.int64)}
        names: dict[str, Any] = {"class_names": ["ship"], "image_names": {image: f"P{image}" for image in range(6)}}
        truths = Truths(**columns, **names, boxes=box, box_format="cxcywha:radians")
        boxscore.write_truths(tmp_path / "truths", truths, format="dota")
        for name, other in (("right", box), ("wrong", change(box))):
            found = Detections(**columns, scores=np.linspace(0, 1, 60), boxes=other, box_format="cxcywha:radians")
            boxscore.write_detections(tmp_path / name, found, truths, format="dota")
        main(["check", str(tmp_path / "truths"), str(tmp_path / "right")])
        assert "only if" not in capsys.readouterr().out
        main(["check", str(tmp_path / "truths"), str(tmp_path / "wrong")])
        assert f" of the 60 best of the detections overlap a truth {title}" in capsys.readouterr().out
        main(["eval", str(tmp_path / "truths"), str(tmp_path / "wrong")])
        assert f" of the 60 best of {tmp_path / 'wrong'} overlap a truth {title}" in capsys.readouterr().err

    def test_degrees_in_radians(self, tmp_path: Path, capsys: Any) -> None:
        """An angle of 45 radians is none."""
        (tmp_path / "table.csv").write_text("image_id,class,cx,cy,w,h,angle\n1,ship,5,5,2,2,45\n")
        assert main(["check", str(tmp_path / "table.csv"), "--box-format", "cxcywha:radians"]) == 1
        out = capsys.readouterr().out
        assert "1 oriented box with an angle beyond a turn" in out
        assert "angles in degrees, read as radians? `--box-format cxcywha:degrees` reads them so" in out

    def test_formats_of_boxes(self, tmp_path: Path, capsys: Any) -> None:
        """Those of the command are those of the library."""
        assert (*UPRIGHT_FORMATS, *ORIENTED_FORMATS) == (*box_formats.UPRIGHT_FORMATS, *box_formats.ORIENTED_FORMATS)
        with pytest.raises(SystemExit):
            main(["eval", str(tmp_path), str(tmp_path), "--box-format", "cxcywha"])
        assert "radians or degrees" in capsys.readouterr().err


class TestDota:
    """Files as DOTA has them."""

    def test_headers_difficult_and_folders(self, tmp_path: Path) -> None:
        """Lines before the labels, labels without a flag, files without labels; results of one class per file."""
        folder = tmp_path / "val" / "labelTxt-v1.0"
        folder.mkdir(parents=True)
        head = "imagesource:GoogleEarth\ngsd:0.146343590398\n"
        (folder / "P0003.txt").write_text(f"{head}2753.0 2408.0 2861.0 2385.0 2888.0 2468.0 2805.0 2502.0 plane 0\n")
        (folder / "P0007.txt").write_text(f"{head}0 0 9 0 9 9 0 9 ship 1\r\n20 0 29 0 29 9 20 9 ship\r\n")
        (folder / "P0010.txt").write_text(head)
        results = tmp_path / "results"
        results.mkdir()
        (results / "Task1_plane.txt").write_text("P0003 0.9 2753.0 2408.0 2861.0 2385.0 2888.0 2468.0 2805.0 2502.0\n")
        (results / "Task1_ship.txt").write_text("P0010 0.3 0 0 9 0 9 9 0 9\nP0007 0.5 20 0 29 0 29 9 20 9\n")
        truths = boxscore.read_truths(tmp_path / "val", iou_type="obb")
        assert truths.image_names == {0: "P0003", 1: "P0007", 2: "P0010"}
        assert truths.ignore is not None
        assert truths.ignore.tolist() == [False, True, False]
        detections = boxscore.read_detections(results, truths, iou_type="obb")
        assert boxscore.evaluate(detections, truths, "dota")["map"] == 1

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("0 0 9 0 9 9 0 ship 0", r"P1.txt: line 2 must be `x1 y1 x2 y2 x3 y3 x4 y4 class, and 0 or 1"),
            ("0 0 9 0 9 9 0 9 ship 7", "line 2 must be .*; got '0 0 9 0 9 9 0 9 ship 7'"),
            ("0 0 9 9 9 0 0 9 ship 0", "P1.txt: line 2: `box` must have its corners in order around the box"),
            ("0 0 9 0 9 9 0 nan ship 0", "P1.txt: line 2: `box` must have 8 finite numbers"),
        ],
    )
    def test_invalid_labels(self, line: str, message: str, tmp_path: Path) -> None:
        """With the file and the line."""
        (tmp_path / "P1.txt").write_text(f"0 0 9 0 9 9 0 9 ship 0\n{line}\n")
        with pytest.raises(InputError, match=message):
            boxscore.read_truths(tmp_path, format="dota", iou_type="obb")

    def test_invalid_results_and_names(self, tmp_path: Path) -> None:
        """A result without a score; a class with a space."""
        (tmp_path / "Task1_ship.txt").write_text("P1 0 0 9 0 9 9 0 9\n")
        with pytest.raises(InputError, match=r"Task1_ship.txt: line 1 must be `image score x1 y1"):
            boxscore.read_detections(tmp_path, scene()[1], iou_type="obb")
        truths = scene()[1]
        spaced = replace(truths, class_names={0: "plane", 1: "ship", 2: "small vehicle"})
        with pytest.raises(InputError, match="class 'small vehicle' has a space in its name"):
            boxscore.write_truths(tmp_path / "new", spaced, format="dota")

    def test_upright_boxes_are_written_as_corners(self, tmp_path: Path) -> None:
        """So that any detector can be compared on DOTA."""
        truths = Truths(image_ids=[0], labels=[0], boxes=[[1, 2, 5, 9]], class_names=["ship"], image_names={0: "P1"})
        boxscore.write_truths(tmp_path / "dota", truths, format="dota")
        assert (tmp_path / "dota" / "labelTxt" / "P1.txt").read_text() == "1 2 5 2 5 9 1 9 ship 0\n"


@pytest.mark.parametrize("name", ["voc", "cvat", "labelme", "openimages"])
def test_formats_without_them_say_so(name: str, tmp_path: Path) -> None:
    """The upright boxes are written; the loss is told."""
    _, truths = scene()
    path = tmp_path / ("truths.csv" if name == "openimages" else "truths")
    losses = [str(loss) for loss in boxscore.write_truths(path, truths, format=name)]
    assert f"{len(truths)} oriented boxes are lost" in losses


@pytest.mark.filterwarnings("ignore:hotcoco")
@pytest.mark.parametrize("seed", range(5))
def test_coco_gives_the_numbers_of_hotcoco(seed: int, tmp_path: Path) -> None:
    """Whose files have boxes as `obb`: centre, width, height and radians. Without crowds."""
    hotcoco = pytest.importorskip("hotcoco")
    detections, truths = random_oriented(seed, num_images=20)
    score = np.random.default_rng(seed).permutation(len(detections)) / len(detections)  # no ties
    detections, truths = replace(detections, scores=score), replace(truths, ignore=None)

    def rows(columns: Any) -> list[dict[str, Any]]:
        return [
            {"image_id": image, "category_id": label, "obb": box, "bbox": [0, 0, *box[2:4]], "area": box[2] * box[3]}
            for image, label, box in zip(
                columns.image_ids.tolist(), columns.labels.tolist(), columns.oriented_boxes.boxes.tolist(), strict=True
            )
        ]

    annotations = [{"id": index, "iscrowd": 0, **row} for index, row in enumerate(rows(truths), start=1)]
    dataset = {
        "images": [{"id": image, "width": 400, "height": 400} for image in range(20)],
        "categories": [{"id": label, "name": str(label)} for label in range(3)],
        "annotations": annotations,
    }
    results = [row | {"score": score} for row, score in zip(rows(detections), score.tolist(), strict=True)]
    (tmp_path / "truths.json").write_text(json.dumps(dataset))
    (tmp_path / "found.json").write_text(json.dumps(results))
    theirs = hotcoco.COCO(str(tmp_path / "truths.json"))
    evaluation = hotcoco.COCOeval(theirs, theirs.load_res(str(tmp_path / "found.json")), "obb")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    ours = np.nan_to_num(list(boxscore.evaluate(detections, truths).values()), nan=-1)
    np.testing.assert_allclose(ours, evaluation.stats, rtol=0, atol=1e-12)


def test_however_a_file_is_cut_it_is_read_alike(tmp_path: Path) -> None:
    """COCO's JSON, on several threads and in small parts: corners, and boxes with an angle."""
    from boxscore import _compiled

    _, truths = scene()
    boxscore.write_truths(tmp_path / "truths.json", truths)
    content = (tmp_path / "truths.json").read_bytes()
    turned = json.loads(content)
    for annotation, box in zip(turned["annotations"], truths.oriented_boxes.rectangles().tolist(), strict=True):
        annotation["bbox"] = box
    for text, shapes, expected in (
        (content, _compiled.CocoShapes.corners, truths.oriented_boxes.boxes),
        (json.dumps(turned).encode(), _compiled.CocoShapes.turned_boxes, truths.oriented_boxes.rectangles()),
    ):
        for threads, size in ((1, 1), (2, 7), (3, 64), (2, 1 << 18)):
            assert np.array_equal(_compiled.read_coco_bytes(text, threads, size, shapes).boxes.oriented, expected)


class TestOtherFormats:
    """Angles in tables and COCO; what is missing is told."""

    @pytest.mark.parametrize("box_format", ["cxcywha:degrees", "cxcywha:radians:ccw"])
    def test_angles_in_tables_and_coco(self, box_format: Any, tmp_path: Path) -> None:
        """Columns cx, cy, w, h, angle; a list of five; a `bbox` of five numbers."""
        box = [[50.0, 40.0, 30.0, 10.0, 0.5], [90.0, 40.0, 30.0, 10.0, -1.2]]
        expected = OrientedBoxes(boxes=box, box_format=box_format).corners()
        rows = "".join(f"1,ship,{','.join(map(str, each))}\n" for each in box)
        (tmp_path / "columns.csv").write_text(f"image_id,class,cx,cy,w,h,angle\n{rows}")
        lists = "".join(f'1,ship,"{each}"\n' for each in box)
        (tmp_path / "lists.csv").write_text(f"image_id,class,box\n{lists}")
        annotations = [{"image_id": 1, "category_id": 1, "bbox": each} for each in box]
        dataset = {"images": [{"id": 1}], "categories": [{"id": 1, "name": "ship"}], "annotations": annotations}
        (tmp_path / "coco.json").write_text(json.dumps(dataset))
        for name in ("columns.csv", "lists.csv", "coco.json"):
            truths = boxscore.read_truths(tmp_path / name, iou_type="obb", box_format=box_format)
            assert np.array_equal(truths.oriented_boxes.corners(), expected), name
        (tmp_path / "results.json").write_text(json.dumps([each | {"score": 0.5} for each in annotations]))
        truths = boxscore.read_truths(tmp_path / "coco.json", iou_type="obb", box_format=box_format)
        found = boxscore.read_detections(tmp_path / "results.json", truths, iou_type="obb", box_format=box_format)
        assert_same(boxscore.evaluate(found, found_as_truths(found)), boxscore.evaluate(found, truths))

    @pytest.mark.parametrize(
        ("content", "box_format", "message"),
        [
            ({"segmentation": [[0, 0, 9, 0, 9, 9]]}, None, "0: `segmentation` must be one polygon of 4 corners"),
            ({"segmentation": [[0, 0, 9, 0, 9, 9, 0, 9]] * 2}, None, "`segmentation` must be one polygon of 4 corners"),
            ({"segmentation": {"size": [1, 1], "counts": "1"}}, None, "4 corners, 8 finite numbers; got {"),
            ({"bbox": [0, 0, 9, 9]}, None, "annotation 0 must have `segmentation`, one polygon of 4 corners"),
            ({"bbox": [0, 0, 9, 9]}, "cxcywha:degrees", "must have 5 finite numbers: centre, width, height, angle"),
            ({"segmentation": [[0, 0, 9, 9, 9, 0, 0, 9]]}, None, "0: `segmentation` must have its corners in"),
            ({"bbox": [0, 0, 9, 9, 80]}, "cxcywha:radians", "annotation 0: `bbox` must have an angle of at"),
        ],
    )  # fmt: skip
    def test_what_coco_must_have(self, content: Any, box_format: Any, message: str, tmp_path: Path) -> None:
        """The annotation, the key and what came."""
        annotation = {"image_id": 1, "category_id": 1, **content}
        dataset = {"images": [{"id": 1}], "categories": [{"id": 1, "name": "ship"}], "annotations": [annotation]}
        (tmp_path / "coco.json").write_text(json.dumps(dataset))
        with pytest.raises(InputError, match=message):
            boxscore.read_truths(tmp_path / "coco.json", iou_type="obb", box_format=box_format)

    def test_angles_without_a_unit(self, tmp_path: Path) -> None:
        """A table does not say what its angles are in."""
        (tmp_path / "table.csv").write_text("image_id,class,cx,cy,w,h,angle\n1,ship,5,5,2,2,0\n")
        with pytest.raises(
            InputError, match=r"boxes have an angle: say what it is in, .*, cxcywha:radians or cxcywha:deg"
        ):
            boxscore.read_truths(tmp_path / "table.csv", iou_type="obb")

    def test_upright_boxes_have_no_angle(self, tmp_path: Path) -> None:
        """Tables and folders of upright boxes can't be evaluated as oriented ones."""
        (tmp_path / "table.csv").write_text("image_id,class,x,y,w,h\n1,ship,5,5,2,2\n")
        with pytest.raises(InputError, match=r"must have oriented boxes for `iou_type` obb; the file has none"):
            boxscore.read_truths(tmp_path / "table.csv", iou_type="obb")
        (tmp_path / "labels").mkdir()
        (tmp_path / "labels" / "a.txt").write_text("0 0.5 0.5 0.1 0.1\n")
        with pytest.raises(InputError, match=r"line 1 must be an oriented box: class x1 y1 .* y4; got '0 0.5"):
            boxscore.read_truths(tmp_path / "labels", iou_type="obb", sizes={"a": (9, 9)})

    def test_results_of_yolo_need_their_confidence(self, tmp_path: Path) -> None:
        """Nine numbers are a box without it."""
        _, paths = write(tmp_path, "yolo"), tmp_path
        file = next((paths / "found").rglob("P*.txt"))
        file.write_text(" ".join(file.read_text().splitlines()[0].split()[:-1]))
        there = boxscore.read_truths(tmp_path / "truths", iou_type="obb")
        with pytest.raises(InputError, match=r"x4 y4 confidence; got no confidence \(in Ultralytics, `save_conf=True`"):
            boxscore.read_detections(tmp_path / "found", there, iou_type="obb")


def found_as_truths(found: Detections) -> Truths:
    """The same boxes as truths."""
    names = {"class_names": {1: "ship"}, "image_names": {1: "1"}}
    return Truths(image_ids=found.image_ids, labels=found.labels, geometry=found.geometry, **names)  # type: ignore[arg-type]
