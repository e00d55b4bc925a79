"""A geometry in one file goes through everything: intervals on a line give the numbers of boxes of height 1."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, MeanAveragePrecision, Protocol, Result, Truths
from boxscore.cli import main
from boxscore.data.dataset import take
from boxscore.data.geometry.kinds import ENTRY_POINTS, kind_of, register
from boxscore.report.paths import paths_of
from tests.geometries.interval_scenes import COCO, make_scene, protocol_of
from tests.geometries.intervals import Intervals
from tests.support.comparisons import TALLY
from tests.support.engines import ENGINES
from tests.support.photos import write_photos


def assert_same(result: Result, expected: Result) -> None:
    """Every number and every curve, bit for bit."""
    assert np.array_equal(list(result.values()), list(expected.values()), equal_nan=True)
    assert np.array_equal(result.curves.precision, expected.curves.precision)


@pytest.mark.parametrize("protocol", [COCO, Protocol.named("voc2012", pixels="continuous")])
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_tally_of_boxes(engine: Any, protocol: Protocol) -> None:
    """Crowds and area ranges included; and some of the detections are right."""
    scene = make_scene()
    tally, expected = (
        boxscore.match(detections, truths, protocol_of(detections, protocol), engine)
        for detections, truths in zip(scene.detections, scene.truths, strict=True)
    )
    for column in TALLY:
        assert np.array_equal(getattr(tally, column), getattr(expected, column)), column
    assert 0.2 < boxscore.finish(tally)["map"] < 0.9


@pytest.mark.parametrize("engine", ENGINES)
class TestEverythingAfter:
    """What comes after matching never asks what a shape is."""

    def test_evaluate_and_bootstrap(self, engine: Any) -> None:
        """The same numbers, and the same confidence intervals."""
        scene = make_scene()
        result, expected = (
            boxscore.evaluate(detections, truths, protocol_of(detections), engine)
            for detections, truths in zip(scene.detections, scene.truths, strict=True)
        )
        assert_same(result, expected)
        sure, other = result.intervals(resamples=20), expected.intervals(resamples=20)
        assert sure.low == other.low
        assert sure.high == other.high

    def test_metric_and_merge(self, engine: Any) -> None:
        """Two halves of the images, in one metric and in two tallies that are merged."""
        scene = make_scene()
        results = []
        for detections, truths in zip(scene.detections, scene.truths, strict=True):
            metric = MeanAveragePrecision(protocol_of(detections), engine=engine, warn=False)
            tallies = []
            for part in (0, 1):
                rows, truth_rows = detections.image_ids % 2 == part, truths.image_ids % 2 == part
                some = take(detections, rows), take(truths, truth_rows)
                metric.update(*some)
                tallies.append(boxscore.match(*some, protocol_of(detections), engine))
            results.append(metric.compute())
            assert_same(boxscore.finish(tallies[0].merge(tallies[1])), results[-1])
        assert_same(*results)

    def test_class_agnostic(self, engine: Any) -> None:
        """All classes as one: rows are sorted by label first."""
        scene = make_scene()
        protocol = COCO.replace(class_agnostic=True)
        assert_same(
            *(
                boxscore.evaluate(detections, truths, protocol_of(detections, protocol), engine)
                for detections, truths in zip(scene.detections, scene.truths, strict=True)
            )
        )


def test_errors_confusion_and_report() -> None:
    """TIDE's types, the confusion matrix and the page."""
    scene = make_scene()
    result, expected = (
        boxscore.evaluate(detections, truths, protocol_of(detections), "parallel")
        for detections, truths in zip(scene.detections, scene.truths, strict=True)
    )
    assert result.errors().to_dict() == expected.errors().to_dict()
    assert result.confusion().to_dict() == expected.confusion().to_dict()
    page, expected_page = (
        each.to_html(resamples=0).replace(each.comparable.sentence, "").replace(str(each.comparable), "")
        for each in (result, expected)
    )
    page = page.replace("coco interval_iou", "coco").replace('["shapes","interval_iou"]', '["shapes","boxes"]')
    page = page.replace('"interval_iou"', '"bbox"')
    assert len(page) == len(expected_page)


def test_pictures_show_its_sketch(tmp_path: Path) -> None:
    """The report that is written has the lines of each interval, in drawn pixels, and not the boxes around them."""
    scene = make_scene()
    names, size = {image: f"{image}.png" for image in range(12)}, (240, 20)
    truths = replace(scene.truths[0], image_names=names, image_sizes=dict.fromkeys(names, size))
    folder = write_photos(tmp_path / "images", truths)
    result = boxscore.evaluate(scene.detections[0], truths, protocol_of(scene.detections[0]), "parallel")
    result.to_html(tmp_path / "report.html", image_folder=folder, num_pictures=12, resamples=0)
    page = (tmp_path / "report.html").read_text()
    for columns in (scene.detections[0], truths):
        drawn = [paths_of(columns.geometry.sketch(row), (1.0, 1.0)).lines for row in range(len(columns))]
        assert all("Z" not in path for path in drawn)  # open lines
        assert sum(f'"{path}"' in page for path in drawn) > 100
    boxes = [paths_of(scene.truths[1].geometry.sketch(row), (1.0, 1.0)).lines for row in range(len(truths))]
    assert not any(path in page for path in boxes)


def test_both_sides_have_the_shapes_of_the_protocol() -> None:
    """Intervals can't be compared with boxes."""
    scene = make_scene()
    rule = r"`iou_type` 'bbox' needs other shapes; these Detections have intervals \(interval_iou\)"
    with pytest.raises(InputError, match=rule):
        boxscore.match(scene.detections[0], scene.truths[1], COCO)
    with pytest.raises(InputError, match=rule):
        boxscore.match(scene.detections[0], scene.truths[1], "coco")


def test_a_geometry_says_what_it_is() -> None:
    """In its repr, and in errors."""
    scene = make_scene()
    assert repr(scene.detections[0]) == "Detections(120 intervals in 12 images, numpy)"
    with pytest.raises(InputError, match="boxes are needed here; these Detections have intervals"):
        _ = scene.detections[0].boxes
    with pytest.raises(InputError, match="`intervals` must have 1 rows, the number of scores; got 120"):
        Detections(image_ids=[0], labels=[0], scores=[0.5], geometry=scene.detections[0].geometry)


def dicts_of(columns: Any, **keys: Any) -> list[dict[str, Any]]:
    """One dict per image, with the arrays of the columns by key."""
    rows = [np.flatnonzero(columns.image_ids == image) for image in range(12)]
    return [{key: np.asarray(array)[some] for key, array in keys.items()} for some in rows]


@pytest.mark.parametrize("is_padded", [False, True])
def test_dicts_have_its_key(is_padded: bool) -> None:
    """Lists of dicts and padded batches; the metric gives the numbers of the columns."""
    scene = make_scene()
    detections, truths = scene.detections[0], scene.truths[0]
    protocol: Any = protocol_of(detections)
    found: Any = dicts_of(
        detections, intervals=detections.geometry.arrays[0], scores=detections.scores, labels=detections.labels
    )
    there: Any = dicts_of(truths, intervals=truths.geometry.arrays[0], labels=truths.labels, ignore=truths.ignore)
    expected = boxscore.evaluate(detections, truths, protocol)
    assert_same(
        boxscore.evaluate(
            Detections.from_images(found, iou_type=protocol.iou_type),
            Truths.from_images(there, iou_type=protocol.iou_type),
            protocol,
        ),
        expected,
    )
    if is_padded:
        found, there = (
            {key: padded([image[key] for image in images], -1 if key == "labels" else 0) for key in images[0]}
            for images in (found, there)
        )
    assert_same(boxscore.evaluate(found, there, protocol), expected)
    for metric in (MeanAveragePrecision(protocol), MeanAveragePrecision(protocol, iou_type=protocol.iou_type)):
        metric.update(found, there)
        assert_same(metric.compute(), expected)


def padded(arrays: list[Any], fill: float) -> Any:
    """Arrays of images as one, with rows of `fill` at the end."""
    most = max(map(len, arrays))
    rest = [np.full((most - len(each), *each.shape[1:]), fill, each.dtype) for each in arrays]
    return np.stack([np.concatenate(pair) for pair in zip(arrays, rest, strict=True)])


def test_invalid_shapes_in_dicts_are_named() -> None:
    """With the image, the key and the row; a misspelled key, and one that no geometry has, too."""
    image = {"intervals": np.array([[1.0, 2.0], [5.0, 4.0]]), "labels": np.array([0, 0])}
    iou_type: Any = "interval_iou"
    with pytest.raises(InputError, match=r"images\[0\]: `intervals` row 1 must not end before the start; got"):
        Truths.from_images([image], iou_type=iou_type)
    with pytest.raises(InputError, match=r"`intervals` must have shape \(1, 2\) for 1 labels; got \(1, 3\)"):
        Truths.from_images([{"intervals": np.ones((1, 3)), "labels": np.array([0])}], iou_type=iou_type)
    with pytest.raises(InputError, match="'interval' must be called 'intervals'"):
        Truths.from_images([{"interval": np.ones((1, 2)), "labels": np.array([0])}], iou_type=iou_type)
    with pytest.raises(InputError, match=r"`shapes` must have keys of geometries, boxes, masks, .*; got 'spans'"):
        Truths(image_ids=[0], labels=[0], shapes={"spans": [[0, 1]]})
    found = Detections.from_images([image | {"scores": np.array([0.5, 0.5])}], iou_type=iou_type, invalid="drop")
    assert len(found) == 1


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".npz", ".parquet", ".arrow"])
def test_tables_have_its_columns(suffix: str, tmp_path: Path) -> None:
    """Nothing is lost, and the files give the numbers of the data in memory, bit for bit."""
    scene = make_scene()
    detections, truths = scene.detections[0], scene.truths[0]
    paths = tmp_path / f"detections{suffix}", tmp_path / f"truths{suffix}"
    assert boxscore.formats.write_detections(paths[0], detections, truths) == ()
    assert boxscore.formats.write_truths(paths[1], truths) == ()
    again = boxscore.read_truths(paths[1], iou_type="interval_iou")
    found = boxscore.read_detections(paths[0], again, iou_type="interval_iou")
    for columns, expected in ((found, detections), (again, truths)):
        assert isinstance(columns.geometry, Intervals)
        assert isinstance(expected.geometry, Intervals)
        assert np.array_equal(columns.geometry.interval, expected.geometry.interval)
    protocol = protocol_of(detections)
    result = boxscore.evaluate(detections, truths, protocol)
    assert_same(boxscore.evaluate(found, again, protocol), result)
    assert_same(boxscore.evaluate(*paths, protocol), result)


def test_formats_without_its_columns_name_the_loss(tmp_path: Path) -> None:
    """They get the boxes around the shapes, and can't be read as intervals."""
    truths = make_scene().truths[0]
    losses = boxscore.formats.write_truths(tmp_path / "voc", truths, format="voc")
    assert "120 intervals are lost" in map(str, losses)
    losses = boxscore.formats.write_truths(tmp_path / "truths.json", truths)
    assert "120 intervals are lost" in map(str, losses)
    rule = "truths.json: must have intervals for `iou_type` interval_iou; the file has none"
    with pytest.raises(InputError, match=rule):
        boxscore.read_truths(tmp_path / "truths.json", iou_type="interval_iou")


def test_invalid_cells_are_named_with_their_line(tmp_path: Path) -> None:
    """By the names of the file."""
    path = tmp_path / "truths.csv"
    path.write_text("image_id,category_id,start,end\n1,1,2,5\n1,1,four,5\n")
    with pytest.raises(InputError, match=r"truths.csv: line 3: `start` must be a number; got 'four'"):
        boxscore.read_truths(path, iou_type="interval_iou")


def test_check_and_convert_know_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Intervals without boxes have no errors, and convert to another table."""
    scene = make_scene()
    detections, truths = scene.detections[0], scene.truths[0]
    boxscore.formats.write_detections(tmp_path / "detections.csv", detections, truths)
    boxscore.formats.write_truths(tmp_path / "truths.csv", truths)
    files = [str(tmp_path / "truths.csv"), str(tmp_path / "detections.csv")]
    assert main(["check", *files, "--iou-type", "interval_iou"]) == 0
    assert "no errors, no warnings" in capsys.readouterr().out
    assert main(["convert", files[0], str(tmp_path / "truths.npz")]) == 0
    again = boxscore.read_truths(tmp_path / "truths.npz", iou_type="interval_iou")
    assert np.array_equal(again.geometry.arrays[0], truths.geometry.arrays[0])


def test_the_command_finds_geometries_of_installed_packages(tmp_path: Path) -> None:
    """By their entry points, once a similarity is asked for that boxscore does not have."""
    scene = make_scene()
    detections, truths = scene.detections[0], scene.truths[0]
    boxscore.formats.write_detections(tmp_path / "detections.csv", detections, truths)
    boxscore.formats.write_truths(tmp_path / "truths.csv", truths)
    package = tmp_path / "package" / "intervals-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: intervals\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\nintervals = {Intervals.__module__}:Intervals\n")
    command = [sys.executable, "-m", "boxscore", "eval", "truths.csv", "detections.csv", "--iou-type", "interval_iou"]
    root = Path(__file__).parents[2]
    settings: dict[str, Any] = {"cwd": tmp_path, "capture_output": True, "text": True}
    paths = os.pathsep.join(map(str, (package.parent, root)))
    done = subprocess.run([*command, "--json", "-"], env={**os.environ, "PYTHONPATH": paths}, check=True, **settings)
    expected = boxscore.evaluate(detections, truths, Protocol.named("coco", iou_type="interval_iou"))
    assert json.loads(done.stdout)["map"] == expected["map"]
    without = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(root)}, check=False, **settings)
    assert "--iou-type: must be of bbox, segm, boundary" in without.stderr
    assert "got 'interval_iou'" in without.stderr


def test_a_similarity_belongs_to_one_geometry() -> None:
    """A second geometry of the same similarity is refused; unknown similarities name the known ones."""

    class Spans(Intervals):
        """Another geometry."""

        plural = "spans"

    with pytest.raises(InputError, match="`iou_type` 'interval_iou' of spans is known already, for intervals"):
        register(Spans)
    with pytest.raises(InputError, match=r"must be one of bbox, .*, interval_iou or a tuple of these; got 'spans'"):
        kind_of("spans")
