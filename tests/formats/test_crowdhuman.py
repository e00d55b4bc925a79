"""CrowdHuman: mmdetection's AP and miss rate, the Jaccard index by its rule, by hand, in streams, and its files."""

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]

import boxscore
from boxscore import Detections, MeanAveragePrecision, Protocol, Tally, Truths, _compiled
from boxscore.analysis.bootstrap import draws
from boxscore.cli import main
from boxscore.result import distributed
from boxscore.result.extra_numbers import FALSE_POSITIVES_PER_IMAGE
from boxscore.result.tally import JACCARD_SCORES
from tests.support.crowd_scenes import Record, mmdetection_numbers, random_crowd, read_crowd, write_crowd
from tests.support.engines import ENGINES
from tests.support.resampling import repeated
from tests.support.scenes import random_scene
from tests.support.small_files import refused, write

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("engine", ["native", "parallel", "sequential"])
def test_numbers_are_those_of_mmdetection(tmp_path: Path, engine: Any) -> None:
    """AP and miss rate always; the Jaccard index where it makes as many pairs: it makes the most, of an IoU of 0.5,
    too, and the published rule makes those of the largest sum, above 0.5.
    """
    num_alike = 0
    for seed in range(60 if engine == "native" else 8):
        records = random_crowd(seed)
        detections, truths = read_crowd(tmp_path, records)
        expected, counts = mmdetection_numbers(records)
        result = boxscore.evaluate(detections, truths, "crowdhuman", engine)
        assert np.array_equal([result["map"], result["mr"]], [expected["map"], expected["mr"]]), seed
        assert result.tally.jaccard is not None
        if np.array_equal(result.tally.jaccard.transpose(1, 0, 2), counts):
            assert np.array_equal(result["ji"], expected["ji"]), seed
            num_alike += 1
    assert num_alike > (30 if engine == "native" else 4)


def overlaps(box: Any, other: Any, *, is_relative: bool = False) -> Any:
    """The IoU of every pair of corners, or the part of each `box` that lies in each other one. Shape (B, O)."""
    box, other = box[:, None], other[None]
    extent = np.clip(np.minimum(box[..., 2:], other[..., 2:]) - np.maximum(box[..., :2], other[..., :2]), 0, None)
    shared = extent.prod(-1)
    area, other_area = ((each[..., 2:] - each[..., :2]).prod(-1) for each in (box, other))
    whole = area + 0 * other_area if is_relative else area + other_area - shared
    return shared / np.maximum(whole, 1e-6)


def clipped(boxes: list[Any], record: Record) -> Any:
    """Corners within the image."""
    left, top, width, height = np.array(boxes, float).reshape(-1, 4).T
    far = record["width"], record["height"]
    near = [np.clip(each, 0, size - 1) for each, size in zip((left, top), far, strict=True)]
    end = [np.clip(each, 0, size) for each, size in zip((left + width, top + height), far, strict=True)]
    return np.stack([*near, *end], axis=1)


def published_index(records: list[Record]) -> float:
    """The Jaccard index by its rule: the best over score thresholds of the mean over images."""
    indices = []
    for threshold in JACCARD_SCORES:
        ratios, num_images = [], 0
        for record in records:
            is_person = [row["tag"] == "person" and not row["extra"].get("ignore") for row in record["gtboxes"]]
            boxes = clipped([row["fbox"] for row in record["gtboxes"]], record)
            truth, ignored = boxes[np.array(is_person, bool)], boxes[~np.array(is_person, bool)]
            found = clipped([row["box"] for row in record["dtboxes"] if row["score"] > threshold], record)
            iou = overlaps(found, truth)
            weight = np.where(iou > 0.5, iou, 0)
            row, column = linear_sum_assignment(weight, maximize=True)
            is_pair = weight[row, column] > 0
            lost = (
                np.setdiff1d(np.arange(len(found)), row[is_pair]),
                np.setdiff1d(np.arange(len(truth)), column[is_pair]),
            )
            num_within = [
                int((overlaps(each[rows], ignored, is_relative=True) > 0.5).any(axis=1).sum())
                for each, rows in zip((found, truth), lost, strict=True)
            ]
            k, n, m = int(is_pair.sum()), len(found) - num_within[0], len(truth) - num_within[1]
            ratios.append(k / (m + n - k + 1e-6))
            num_images += m != 0 or n != 0
        indices.append(np.sum(ratios) / num_images)
    return float(max(indices))


def test_the_index_is_that_of_the_published_rule(tmp_path: Path) -> None:
    """Pairs by scipy's assignment on the whole matrix."""
    for seed in range(40):
        records = random_crowd(seed)
        detections, truths = read_crowd(tmp_path, records)
        assert boxscore.evaluate(detections, truths, "crowdhuman")["ji"] == published_index(records), seed


@given(st.data())
@settings(deadline=None)
def test_pairs_have_the_largest_sum(data: st.DataObject) -> None:
    """That of scipy's assignment on the dense matrix, where a missing pair weighs nothing; weights add exactly."""
    num_rows, num_columns = data.draw(st.integers(0, 7)), data.draw(st.integers(0, 7))
    cells = [(row, column) for row in range(num_rows) for column in range(num_columns)]
    chosen = sorted(data.draw(st.lists(st.sampled_from(cells), unique=True))) if cells else []
    weight = np.array(data.draw(st.lists(st.integers(1, 64), min_size=len(chosen), max_size=len(chosen)))) / 64
    row, column = np.array(chosen, np.int32).reshape(-1, 2).T.copy()
    pair = _compiled.assign_pairs(row, column, weight.astype(np.float64), num_rows, num_columns)
    taken = pair[pair >= 0]
    assert row[taken].tolist() == np.flatnonzero(pair >= 0).tolist(), "each row has a pair of its own"
    assert len(set(column[taken].tolist())) == taken.size, "and no column has two"
    dense = np.zeros((num_rows, num_columns))
    dense[row, column] = weight
    assert weight[taken].sum() == dense[linear_sum_assignment(dense, maximize=True)].sum()


A, B, C, FAR = (0, 0, 10, 10), (20, 0, 30, 10), (40, 0, 50, 10), (60, 60, 70, 70)


def three_persons(*, ignored: list[Any] | None = None) -> tuple[Detections, Truths]:
    """A, B and C in image 0 of 2; A is found first, then nothing, then B."""
    boxes = [A, B, C, *(ignored or [])]
    truths = Truths(
        image_ids=[0] * len(boxes),
        labels=[0] * len(boxes),
        boxes=np.array(boxes, float),
        ignore=[False] * 3 + [True] * (len(boxes) - 3),
        image_sizes={0: (100, 100), 1: (100, 100)},
        class_names=["person"],
    )
    detections = Detections(
        image_ids=[0] * 3, labels=[0] * 3, scores=[0.9, 0.8, 0.7], boxes=np.array([A, FAR, B], float)
    )
    return detections, truths


@pytest.mark.parametrize("engine", ENGINES)
class TestByHand:
    """Two images, three boxes."""

    def test_three_persons(self, engine: Any) -> None:
        """Recalls 1/3, 1/3, 2/3 and precisions 1, 1/2, 2/3: one trapezoid, 1/3 (1/2 + 2/3) / 2 = 7/36.

        False positives per image are 0, 1/2, 1/2, so the seven numbers up to 0.3162 are reached with the second
        detection, where 2/3 are missed; two are never reached, and 1/3 are missed in the end. At score thresholds below
        0.7 there are 2 pairs of 3 truths and 3 detections: 2 / (3 + 3 - 2). Image 1 has nothing, and only the miss rate
        counts it.
        """
        result = boxscore.evaluate(*three_persons(), "crowdhuman", engine)
        assert result["map"] == pytest.approx(7 / 36, abs=1e-15)
        assert sum(point <= 0.5 for point in FALSE_POSITIVES_PER_IMAGE) == 7
        assert result["mr"] == pytest.approx((2 / 3) ** (7 / 9) * (1 / 3) ** (2 / 9), abs=1e-15)
        assert result["ji"] == 2 / (4 + 1e-6)

    def test_what_lies_in_an_ignored_region_does_not_count(self, engine: Any) -> None:
        """Half of the false one is not more than half; then 60 of 100 are: precision 1 at recalls 1/3 and 2/3, no false
        positive, so 1/3 are missed everywhere; 2 pairs of 3 truths and 2 detections.
        """
        half, more = (60, 60, 100, 65), (60, 60, 100, 66)
        plain = boxscore.evaluate(*three_persons(), "crowdhuman", engine)
        assert dict(boxscore.evaluate(*three_persons(ignored=[half]), "crowdhuman", engine)) == dict(plain)
        result = boxscore.evaluate(*three_persons(ignored=[more]), "crowdhuman", engine)
        assert result["map"] == pytest.approx(1 / 3, abs=1e-15)
        assert result["mr"] == pytest.approx(1 / 3, abs=1e-15)
        assert result["ji"] == 2 / (3 + 1e-6)

    def test_an_iou_of_one_half_is_not_enough(self, engine: Any) -> None:
        """A detection of 5 x 10 in A."""
        truths = Truths(image_ids=[0], labels=[0], boxes=[A], image_sizes={0: (100, 100)})
        for width, is_found in ((5, False), (6, True)):
            detections = Detections(image_ids=[0], labels=[0], scores=[0.9], boxes=[(0, 0, width, 10)])
            result = boxscore.evaluate(detections, truths, "crowdhuman", engine)
            assert (result["mar"], round(result["ji"], 5)) == (is_found, is_found)

    def test_boxes_end_where_their_image_ends(self, engine: Any) -> None:
        """Beyond the image of 10 x 10 nobody looks: both are the whole image then."""
        truths = Truths(image_ids=[0], labels=[0], boxes=[(-50, -50, 10, 10)], image_sizes={0: (10, 10)})
        detections = Detections(image_ids=[0], labels=[0], scores=[0.9], boxes=[(0, 0, 90, 90)])
        assert boxscore.evaluate(detections, truths, "crowdhuman", engine)["ji"] == 1 / (1 + 1e-6)
        protocol = Protocol.named("crowdhuman", clips_boxes=False)
        assert boxscore.evaluate(detections, truths, protocol, engine)["ji"] == 0


def test_the_miss_rate_is_a_number_of_any_protocol() -> None:
    """COCO's matches at 0.5, per class, and their mean; AP is not changed."""
    scene = random_scene(7)
    result = boxscore.evaluate(scene.detections, scene.truths, Protocol.named("coco", extra_numbers=("mr",)))
    plain = boxscore.evaluate(scene.detections, scene.truths, "coco")
    assert {name: result[name] for name in plain} == dict(plain)
    rows, expected = result.tally.sorted(), []
    for label, num_truths in zip(result.tally.classes.tolist(), result.per_class.num_truths.tolist(), strict=True):
        verdict = rows.verdict[rows.label == label, 0, 0]
        counted = verdict[verdict != 0]
        missed = [1 - float(np.sum(counted[: end + 1] == 2)) / num_truths if num_truths else np.nan
                  for end in range(counted.size)]  # fmt: skip
        false = [float(np.sum(counted[: end + 1] == 1)) / result.images.size for end in range(counted.size)]
        at = [next((i for i, each in enumerate(false) if each >= point), -1) for point in FALSE_POSITIVES_PER_IMAGE]
        value = np.exp(np.log([missed[i] for i in at]).mean()) if missed else 1.0
        expected.append(value if num_truths else np.nan)
    assert np.array_equal(result.per_class.extra["mr"], expected, equal_nan=True)
    assert result["mr"] == pytest.approx(np.nanmean(expected), abs=1e-15)


@pytest.fixture
def crowd(tmp_path: Path) -> tuple[Detections, Truths]:
    """A dataset with an image in which there is nothing."""
    records = random_crowd(3)
    records.append({"ID": "nothing", "width": 9, "height": 9, "gtboxes": [], "dtboxes": []})
    return read_crowd(tmp_path, records)


class TestStreams:
    """Pieces give what the whole gives."""

    def test_tallies_merge_in_any_order(self, crowd: tuple[Detections, Truths], tmp_path: Path) -> None:
        """Bit for bit, saved and loaded; the image without anything counts for false positives per image."""
        whole = boxscore.evaluate(*crowd, "crowdhuman")
        images = sorted(crowd[1].image_names or {})
        assert whole.images.tolist() == images
        pieces = [boxscore.formats.select(*crowd, images=images[start::3]) for start in (2, 0, 1)]
        tallies = [boxscore.match(*piece, "crowdhuman") for piece in pieces]
        for number, tally in enumerate(tallies):
            tally.save(tmp_path / f"{number}.tally")
        loaded = [Tally.load(tmp_path / f"{number}.tally") for number in range(3)]
        for given_tallies in (tallies, loaded):
            assert dict(boxscore.finish(given_tallies)) == dict(whole)
            first, second, third = given_tallies
            assert dict(boxscore.finish(third.merge(first.merge(second)))) == dict(whole)
        without = boxscore.match(*boxscore.formats.select(*crowd, images=images[:-1]), "crowdhuman")
        assert boxscore.finish(without)["mr"] != whole["mr"]

    def test_the_metric_takes_columns(self, crowd: tuple[Detections, Truths]) -> None:
        """With the sizes of their images, batch by batch; two metrics merge."""
        whole = boxscore.evaluate(*crowd, "crowdhuman")
        images = sorted(crowd[1].image_names or {})
        metrics = [MeanAveragePrecision("crowdhuman", warn=False) for _ in range(2)]
        for number, start in enumerate(range(0, len(images), 4)):
            batch = images[start : start + 4]
            metrics[number % 2].update(*boxscore.formats.select(*crowd, images=batch), image_ids=batch)
        assert dict(metrics[0].merge(metrics[1]).compute()) == dict(whole)

    def test_dicts_are_counted_too(self) -> None:
        """Of a protocol that clips nothing: an empty dict is an image, and lowers the false positives per image."""
        protocol = Protocol.named("crowdhuman", clips_boxes=False)
        detections, truths = three_persons()
        truth = {"boxes": truths.boxes, "labels": truths.labels}
        found = {"boxes": detections.boxes, "labels": detections.labels, "scores": detections.scores}
        nothing: dict[str, Any] = {"boxes": np.zeros((0, 4)), "labels": np.zeros(0, int)}
        metric = MeanAveragePrecision(protocol, warn=False)
        metric.update([found, nothing | {"scores": np.zeros(0)}], [truth, nothing])
        assert metric.compute()["mr"] == boxscore.evaluate(detections, truths, protocol)["mr"]


@pytest.mark.parametrize("names", [("mr", "ji"), ("olrp",)])
def test_resamples_are_those_of_repeated_images(crowd: tuple[Detections, Truths], names: tuple[str, ...]) -> None:
    """Each equals an evaluation of the images that were drawn, as often as they were."""
    protocol = Protocol.named("crowdhuman", extra_numbers=names)
    detections, truths = crowd
    result = boxscore.evaluate(detections, truths, protocol)
    samples = result.intervals(resamples=12, seed=4).samples
    images, sizes = result.images, truths.image_sizes or {}
    columns = {name: np.asarray(getattr(truths, name)) for name in ("image_ids", "labels", "boxes", "ignore")}
    found = {name: np.asarray(getattr(detections, name)) for name in ("image_ids", "labels", "boxes", "scores")}
    for resample in range(12):
        drawn = draws(images.size, resample=resample, seed=4).astype(np.int64)
        copies = {image * 100 + copy: sizes[image] for image in images.tolist() for copy in range(drawn[image])}
        again = Truths(
            **repeated(columns, drawn), box_format="xywh", image_sizes=copies, class_names=truths.class_names
        )
        expected = boxscore.evaluate(Detections(**repeated(found, drawn), box_format="xywh"), again, protocol)
        for name in ("map", *protocol.extra_names):
            # A mean of n times a ratio is not that of the ratio n times, in the last digit.
            tolerance = 1e-15 if name == "ji" else 0
            assert samples.numbers[name][resample] == pytest.approx(expected[name], abs=tolerance, rel=0), name


class TestFiles:
    """`.odgt`, read and written."""

    def test_a_file_is_read_as_it_is_published(self, tmp_path: Path) -> None:
        """Full boxes; what is no person or has `ignore` is ignored; images without boxes are there."""
        lines = [
            {
                "ID": "273271,1a0d6000b9e1f5b7",
                "gtboxes": [
                    {"tag": "person", "fbox": [-5, 2, 30.5, 40], "vbox": [0, 0, 1, 1], "extra": {"box_id": 3}},
                    {"tag": "person", "fbox": [1, 2, 3, 4], "extra": {"ignore": 1}, "head_attr": {"ignore": 1}},
                    {"tag": "mask", "fbox": [5, 6, 7, 8], "head_attr": {}},
                    {"tag": "person", "fbox": [5, 6, 7, 8], "head_attr": {"ignore": 1}},
                ],
            },
            {"ID": "empty", "gtboxes": [], "width": 20, "height": 10},
        ]
        path = write(tmp_path / "t.odgt", "\n".join(map(json.dumps, lines)))
        truths = boxscore.read_truths(path)
        assert truths.image_names == {0: "273271,1a0d6000b9e1f5b7", 1: "empty"}
        assert truths.names_by_label == {0: "person"}
        assert np.asarray(truths.boxes).tolist() == [[-5, 2, 30.5, 40], [1, 2, 3, 4], [5, 6, 7, 8], [5, 6, 7, 8]]
        assert np.asarray(truths.ignore).tolist() == [False, True, True, False]
        assert truths.image_sizes == {1: (20, 10)}
        found = {"ID": "empty", "width": 20, "height": 10, "dtboxes": [{"box": [1, 2, 3, 4], "score": 0.5, "tag": 1}]}
        for name, text in (
            ("d.odgt", json.dumps(found)),
            ("d.json", json.dumps(found)),
            ("l.json", f"[{json.dumps(found)}]"),
        ):
            assert boxscore.formats.detect(write(tmp_path / name, text), "detections") == "odgt"
            assert boxscore.read_detections(tmp_path / name, truths).image_ids.tolist() == [1]
        folder = write(tmp_path / "folder" / "annotation_val.odgt", path.read_bytes()).parent
        assert len(boxscore.read_truths(folder)) == 4
        assert len(boxscore.read_truths(write(tmp_path / "none.odgt", ""))) == 0

    def test_what_is_written_reads_back(self, crowd: tuple[Detections, Truths], tmp_path: Path) -> None:
        """All bits of boxes and scores, all images and sizes."""
        detections, truths = crowd
        moved = Truths(
            image_ids=truths.image_ids, labels=truths.labels, boxes=np.asarray(truths.boxes) + 0.1, box_format="xywh",
            ignore=truths.ignore, image_names=truths.image_names, image_sizes=truths.image_sizes,
            class_names=["person"], _is_numbered=True,
        )  # fmt: skip
        lost = boxscore.write_truths(tmp_path / "again.odgt.gz", moved)
        assert [str(loss) for loss in lost] == ["1 class id is lost"]
        again = boxscore.read_truths(tmp_path / "again.odgt.gz")
        assert np.array_equal(again.boxes, moved.boxes)
        assert np.asarray(again.ignore).tolist() == np.asarray(moved.ignore).tolist()
        assert (again.image_names, again.image_sizes) == (moved.image_names, moved.image_sizes)
        assert boxscore.write_detections(tmp_path / "d.odgt", detections, again) == ()
        back = boxscore.read_detections(tmp_path / "d.odgt", again)
        for name in ("image_ids", "labels", "boxes", "scores"):
            assert np.array_equal(getattr(back, name), getattr(detections, name)), name

    def test_what_it_cannot_hold_is_told(self, tmp_path: Path) -> None:
        """One class alone; corners may lose a digit."""
        truths = Truths(
            image_ids=[4], labels=[2], boxes=[[0.3, 0.3, 0.9, 0.9]], area=[5], truncated=[True],
            class_names={2: "walker", 3: "rider"}, image_names={4: "a.jpg", 6: "b.jpg"},
        )  # fmt: skip
        assert [str(loss) for loss in boxscore.write_truths(tmp_path / "t.odgt", truths)] == [
            "1 last digit of a box that was not left, top, width, height is lost",
            "1 truncated flag is lost",
            "1 area is lost",
            "2 class names are lost",
            "2 class ids are lost",
            "2 image ids are lost",
        ]
        assert boxscore.read_truths(tmp_path / "t.odgt").image_names == {0: "a", 1: "b"}
        both = Truths(image_ids=[4, 4], labels=[2, 3], boxes=[[0, 0, 1, 1]] * 2, class_names={2: "walker", 3: "rider"})
        message = "has one class, person; got boxes of 2: walker, rider; select one"
        refused(lambda: boxscore.write_truths(tmp_path / "t.odgt", both), message)

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("7", "line 2: must be an object with `ID` and `gtboxes`; got 7"),
            ("{", "line 2: not JSON"),
            ('{"ID": "a", "gtboxes": []}', "line 2: `ID` must be unique; got 'a', as line 1 has"),
            ('{"gtboxes": []}', "line 2: `ID` must be the name of an image; got None"),
            ('{"ID": "\\ud800", "gtboxes": []}', "line 2: `ID` must be the name of an image"),
            ('{"ID": "b", "dtboxes": []}', "line 2: `gtboxes` must be a list of objects, one per box; got an object"),
            ('{"ID": "b", "gtboxes": [1]}', "line 2: `gtboxes` must be a list of objects, one per box; got [1]"),
            ('{"ID": "b", "gtboxes": [{}]}', "line 2: `gtboxes` 0: `fbox` must have 4 numbers, left, top, width"),
            ('{"ID": "b", "gtboxes": [{"fbox": [1, 2, 3, "4"]}]}', "line 2: `gtboxes` 0: `fbox` must have 4 numbers"),
            ('{"ID": "b", "gtboxes": [{"fbox": [1, 2, 3, NaN]}]}', "line 2: `gtboxes` 0: `fbox` must have 4 finite"),
            ('{"ID": "b", "gtboxes": [{"fbox": [1, 2, 3, -4]}]}', "line 2: `gtboxes` 0: `fbox` must not have"),
            ('{"ID": "b", "gtboxes": [{"fbox": [1, 2, 3, 4], "extra": 1}]}', "`extra` must be an object; got 1"),
            ('{"ID": "b", "gtboxes": [{"fbox": [1, 2, 3, 4], "extra": {"ignore": "x"}}]}', "must be 0 or 1; got 'x'"),
            ('{"ID": "b", "width": 0, "height": 5, "gtboxes": []}', "`width` and `height` must be the sides"),
        ],
    )  # fmt: skip
    def test_damaged_lines_are_refused(self, tmp_path: Path, line: str, message: str) -> None:
        """With the file, the line and the box."""
        path = write(tmp_path / "t.odgt", f'{{"ID": "a", "gtboxes": []}}\n{line}\n')
        refused(lambda: boxscore.read_truths(path), message)
        refused(lambda: boxscore.read_truths(path), str(path))

    def test_detections_need_scores(self, tmp_path: Path) -> None:
        """Which are numbers; truths are no detections."""
        truths = boxscore.read_truths(write(tmp_path / "t.odgt", '{"ID": "a", "gtboxes": []}\n'))
        path = write(tmp_path / "d.odgt", '{"ID": "a", "dtboxes": [{"box": [1, 2, 3, 4], "score": null}]}')
        refused(
            lambda: boxscore.read_detections(path, truths), "line 1: `dtboxes` 0: `score` must be a number; got None"
        )
        refused(lambda: boxscore.read_detections(tmp_path / "t.odgt", truths), "line 1: `dtboxes` must be a list")


class TestCommand:
    """`boxscore eval annotation_val.odgt detections.odgt --protocol crowdhuman`."""

    def test_sizes_come_from_the_detections(self, tmp_path: Path, capsys: Captured) -> None:
        """The truths have none; the numbers are those of Python."""
        records = random_crowd(5)
        truths, detections = write_crowd(tmp_path, records)
        assert main(["eval", str(truths), str(detections), "--protocol", "crowdhuman", "--json", "-"]) == 0
        plain = json.loads(capsys.readouterr().out)
        result = boxscore.evaluate(*read_crowd(tmp_path, records), "crowdhuman")
        assert {name: plain[name] for name in result} == dict(result)

    def test_without_sizes_the_error_says_what_to_give(self, tmp_path: Path, capsys: Captured) -> None:
        """In the command and in Python."""
        records = [{key: each for key, each in record.items() if key != "width"} for record in random_crowd(5)]
        truths, detections = write_crowd(tmp_path, records)
        assert main(["eval", str(truths), str(detections), "--protocol", "crowdhuman"]) == 1
        error = capsys.readouterr().err
        assert f"{truths}: protocol crowdhuman clips boxes to their images, and the size of image '000' is" in error
        assert "give --sizes, a list (name,width,height) or the folder of the images" in error
        sizes = write(tmp_path / "sizes.csv", "".join(f"{record['ID']},100,80\n" for record in records))
        arguments = ["eval", str(truths), str(detections), "--protocol", "crowdhuman", "--sizes", str(sizes)]
        assert main([*arguments, "--quiet"]) == 0
        read = boxscore.read_truths(truths)
        found = boxscore.read_detections(detections, read)
        refused(lambda: boxscore.evaluate(found, read, "crowdhuman"), "`image_sizes` must have every image")


class TestListedImages:
    """Truths may know more images than a batch has; each tally lists them, and has rows of its own only."""

    NAMES: ClassVar[dict[int, str]] = {0: "a", 1: "b", 2: "c"}

    def metric_of(self, image: int) -> boxscore.MeanAveragePrecision:
        """A metric that has seen one image, with the names of all."""
        metric = boxscore.MeanAveragePrecision(Protocol.named("coco", extra_numbers=("mr", "ji")), warn=False)
        shapes: dict[str, Any] = {"image_ids": [image], "labels": [1], "boxes": [[0, 0, 9, 9]]}
        metric.update(Detections(**shapes, scores=[0.9]), Truths(**shapes, image_names=self.NAMES))
        return metric

    def test_tallies_of_different_images_merge(self) -> None:
        """In memory, over processes and from a state; the image without anything counts once."""
        metrics = [self.metric_of(0), self.metric_of(1)]
        first, second = (metric.tally for metric in metrics)
        merged = first.merge(second)
        assert merged.num_truths[:, 0].tolist() == [2]
        assert merged.listed_image is not None
        assert merged.listed_image.tolist() == [0, 1, 2]
        assert [tally.num_truths[0, 0] for tally in distributed.without_copies([first, second])] == [1, 1]
        again = boxscore.MeanAveragePrecision(metrics[0].protocol, warn=False)
        again.load_state_dict(metrics[0].state_dict())
        assert np.array_equal([*again.compute().values()], [*metrics[0].compute().values()], equal_nan=True)
        whole = metrics[0].merge(metrics[1]).compute()
        assert whole["ji"] == pytest.approx(1, abs=1e-5)
        assert whole.images.tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["crowdhuman", "olrp"])
def test_an_empty_tally_has_what_its_protocol_asks_for(name: str, tmp_path: Path) -> None:
    """It can be finished, stored and merged."""
    tally = boxscore.Tally.empty(Protocol.named(name))
    assert all(value != value for value in boxscore.finish(tally).values())
    tally.save(tmp_path / "empty.tally")
    assert len(boxscore.Tally.load(tmp_path / "empty.tally").merge(tally)) == 0
    assert len(boxscore.Tally.from_arrow(tally.to_arrow())) == 0
