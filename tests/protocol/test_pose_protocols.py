"""CrowdPose and COCO-WholeBody: every number of xtcocotools, the evaluation that their authors publish."""

import contextlib
import io
import json
import sys
import types
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, Protocol, Truths, read_detections, read_truths
from boxscore.cli import main
from boxscore.data.dataset import take
from boxscore.protocol import KeypointRules
from tests.support.comparisons import assert_same
from tests.support.dropin import write_files
from tests.support.engines import ENGINES
from tests.support.pose_scenes import PARTS, image_dicts, points_of, random_bodies, random_crowds

Files = tuple[str, str]
Reference = Callable[..., Any]

WHOLEBODY: dict[Any, str] = {
    "coco_wholebody": "keypoints_wholebody",
    "coco_wholebody_body": "keypoints",
    "coco_wholebody_foot": "keypoints_foot",
    "coco_wholebody_face": "keypoints_face",
    "coco_wholebody_lefthand": "keypoints_lefthand",
    "coco_wholebody_righthand": "keypoints_righthand",
}
"""Our protocols, and what xtcocotools calls them."""
RANGES = ("map_easy", "map_medium", "map_hard")
"""CrowdPose's numbers for less and more crowded images."""


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch, libm_exp: None) -> Reference:
    """The evaluation of two files by xtcocotools. Its masks, which poses don't need, are built for NumPy 1 alone."""
    masks = types.ModuleType("xtcocotools._mask")
    for name in ("iou", "merge", "frPyObjects"):
        setattr(masks, name, None)
    monkeypatch.setitem(sys.modules, "xtcocotools._mask", masks)
    coco, cocoeval = import_module("xtcocotools.coco"), import_module("xtcocotools.cocoeval")

    def evaluate(files: Files, kind: str, protocol: Protocol, *, use_area: bool = True) -> Any:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it leaves a file open, and warns if scores of parts are missing
            truths = coco.COCO(files[0])
            sigmas = np.array(protocol.sigmas)
            evaluation = cocoeval.COCOeval(truths, truths.loadRes(files[1]), kind, sigmas, use_area=use_area)
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        return evaluation

    return evaluate


def read(files: Files, protocol: Protocol) -> tuple[Detections, Truths]:
    """Both files as a protocol reads them."""
    truths = read_truths(files[0], iou_type="keypoints")
    key = protocol.keypoints.score_key
    return read_detections(files[1], truths, iou_type="keypoints", score_key=key), truths


def command(files: Files, *options: str) -> dict[str, Any]:
    """The JSON of `boxscore eval`; undefined numbers are -1, as in COCO."""
    out = Path(files[0]).parent / "numbers.json"
    assert main(["eval", *files, "--quiet", "--json", str(out), *options]) == 0
    return {name: -1 if number is None else number for name, number in json.loads(out.read_text()).items()}


def stats_of(result: Any, names: Any = None) -> list[float]:
    """The numbers; undefined ones are -1, as in COCO."""
    return [-1 if result[name] != result[name] else result[name] for name in names or result]


class TestCrowdPose:
    """14 points, areas from boxes, and ranges of how crowded an image is."""

    PROTOCOL = Protocol.named("crowdpose")
    NAMES = ("map", "map_50", "map_75", "mar", "mar_50", "mar_75")

    @pytest.mark.parametrize("has_boxes", [False, True])
    @pytest.mark.parametrize("seed", range(8))
    def test_every_number_is_that_of_xtcocotools(
        self, seed: int, has_boxes: bool, reference: Reference, tmp_path: Path
    ) -> None:
        """Six to the last bit; those of the ranges to the four digits that it rounds to."""
        files = write_files(tmp_path, *random_crowds(seed, has_boxes=has_boxes))
        expected = reference(files, "keypoints_crowd", self.PROTOCOL, use_area=False).stats.tolist()
        result = boxscore.evaluate(*read(files, self.PROTOCOL), "crowdpose")
        assert stats_of(result, self.NAMES) == expected[:6]
        assert [round(each, 4) for each in stats_of(result, RANGES)] == expected[6:]
        assert 0 < result["map"] < 1
        numbers = command(files, "--protocol", "crowdpose")
        assert [numbers[name] for name in result] == stats_of(result)

    @pytest.mark.parametrize("seed", range(4))
    def test_a_range_is_the_evaluation_of_its_images(self, seed: int, reference: Reference, tmp_path: Path) -> None:
        """To the last bit, by xtcocotools and by boxscore: below 0.2, from there to below 0.8, and from there on."""
        files = write_files(tmp_path, *random_crowds(seed))
        evaluation = reference(files, "keypoints_crowd", self.PROTOCOL, use_area=False)
        detections, truths = read(files, self.PROTOCOL)
        result = boxscore.evaluate(detections, truths, "crowdpose")
        assert truths.crowd_index is not None
        for name, low, high in zip(RANGES, (0, 0.2, 0.8), (0.2, 0.8, 2), strict=True):
            images = [image for image, index in truths.crowd_index.items() if low <= index < high]
            some = (
                take(detections, np.isin(detections.image_ids, images)),
                take(truths, np.isin(truths.image_ids, images)),
            )
            expected = boxscore.evaluate(*some, "crowdpose")
            assert stats_of(result, [name]) == stats_of(expected, ["map"])
            with contextlib.redirect_stdout(io.StringIO()):
                evaluation.params.imgIds = images
                evaluation.evaluate()
                evaluation.accumulate()
            assert stats_of(result, [name]) == [np.mean(evaluation.eval["precision"][:, :, :, 0, :])]

    @pytest.mark.native
    @pytest.mark.parametrize("engine", ENGINES)
    @pytest.mark.parametrize("seed", range(4))
    def test_every_engine_gives_the_same(self, seed: int, engine: Any, tmp_path: Path) -> None:
        """Ranges, areas from boxes, and detections that are left out."""
        files = write_files(tmp_path, *random_crowds(seed))
        sides = read(files, self.PROTOCOL)
        result = boxscore.evaluate(*sides, self.PROTOCOL, engine)
        assert_same(result, boxscore.evaluate(*sides, self.PROTOCOL, "native"))
        assert len(result.tally) < len(sides[0])

    def test_areas_are_a_share_of_the_box(self) -> None:
        """0.53 of it, whatever area is given."""
        pose = points_of([{"keypoints": [1, 2, 2] * 14}])
        truths = Truths(image_ids=[0], labels=[0], keypoints=pose, boxes=[[0, 0, 20, 30]], area=[7])
        assert truths.keypoints.areas(self.PROTOCOL).tolist() == [600 * 0.53]
        assert truths.keypoints.areas(Protocol.named("coco_keypoints", sigmas=self.PROTOCOL.sigmas)).tolist() == [7]

    @pytest.mark.parametrize("engine", ["native", "sequential", "parallel"])
    def test_a_detection_that_is_sure_of_no_point_is_left_out(self, engine: Any) -> None:
        """As if it were not there: neither a true positive nor a false one. Without scores, all are there."""
        pose: Any = np.stack([np.arange(14) * 5, np.arange(14) * 7], axis=1)[None].astype(float)
        truths = Truths(image_ids=[0], labels=[0], keypoints=pose, boxes=[[0, 0, 70, 90]], crowd_index={0: 0.5})
        rows: dict[str, Any] = {"image_ids": [0, 0], "labels": [0, 0], "scores": [0.9, 0.8]}
        both = np.concatenate([pose, pose])
        for scores, verdict in (([0.0, 0.1], [2]), ([0.1, 0.0], [2]), ([0.2, 0.1], [2, 1]), ([0.0, 0.0], [])):
            sure = np.zeros((2, 14))
            sure[:, 5] = scores
            detections = Detections(**rows, keypoints=both, keypoints_scores=sure)
            tally = boxscore.match(detections, truths, self.PROTOCOL, engine)
            assert tally.verdict[:, 0, 0].tolist() == verdict
        plain = boxscore.match(Detections(**rows, keypoints=both), truths, self.PROTOCOL, engine)
        assert plain.verdict[:, 0, 0].tolist() == [2, 1]

    def test_without_crowd_index_it_is_an_error(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """In the file for all images, or for one."""
        dataset, results = random_crowds(1)
        files = write_files(tmp_path, dataset, results)
        truths = read_truths(files[0], iou_type="keypoints")
        assert truths.crowd_index == {image["id"]: image["crowdIndex"] for image in dataset["images"]}
        image = dataset["annotations"][0]["image_id"]
        del dataset["images"][image]["crowdIndex"]
        files = write_files(tmp_path, dataset, results)
        rule = f"`crowd_index` must have every image; got none for image {image}"
        with pytest.raises(InputError, match=rule):
            boxscore.evaluate(*read(files, self.PROTOCOL), "crowdpose")
        for each in dataset["images"]:
            each.pop("crowdIndex", None)
        files = write_files(tmp_path, dataset, results)
        rule = "`crowd_index` must be given for the truths, `crowdIndex` of images in COCO's files: protocol crowdpose"
        with pytest.raises(InputError, match=rule):
            boxscore.evaluate(*read(files, self.PROTOCOL), "crowdpose")
        assert main(["eval", *files, "--protocol", "crowdpose"]) == 1
        assert rule in capsys.readouterr().err

    def test_a_crowd_index_that_is_no_number_is_an_error(self, tmp_path: Path) -> None:
        """With the file and the image."""
        dataset, results = random_crowds(1)
        dataset["images"][2]["crowdIndex"] = "much"
        files = write_files(tmp_path, dataset, results)
        with pytest.raises(InputError, match=r"truths\.json: image 2.*`crowdIndex` must be .*; got \"much\""):
            read_truths(files[0], iou_type="keypoints")

    def test_without_boxes_it_is_an_error(self) -> None:
        """Areas come from them."""
        pose = points_of([{"keypoints": [1, 2, 2, 7, 8, 2] * 7}])
        rows: dict[str, Any] = {"image_ids": [0], "labels": [0], "keypoints": pose}
        rule = "`boxes` must be given for the truths: protocol crowdpose takes areas from them"
        with pytest.raises(InputError, match=rule):
            boxscore.evaluate(Detections(**rows, scores=[0.5]), Truths(**rows, crowd_index={0: 0.1}), "crowdpose")

    def test_nothing_is_fine(self) -> None:
        """Neither truths nor detections: nothing is defined, as under any protocol."""
        found = Detections(image_ids=[], labels=[], scores=[], keypoints=[])
        for engine in ("native", "sequential", "parallel"):
            result = boxscore.evaluate(found, Truths(image_ids=[], labels=[], keypoints=[]), "crowdpose", engine)
            assert all(np.isnan(list(result.values())))


@pytest.mark.parametrize("name", WHOLEBODY)
class TestWholeBody:
    """133 points: all of them, or the body, the feet, the face, a hand."""

    @pytest.mark.parametrize("has_part_scores", [False, True])
    @pytest.mark.parametrize("has_boxes", [False, True])
    @pytest.mark.parametrize("seed", range(3))
    def test_every_number_is_that_of_xtcocotools(
        self, name: str, seed: int, has_boxes: bool, has_part_scores: bool, reference: Reference, tmp_path: Path
    ) -> None:
        """To the last bit, with scores of parts or one for all, parts without labels, and parts that are not sure."""
        files = write_files(tmp_path, *random_bodies(seed, has_part_scores=has_part_scores, has_boxes=has_boxes))
        protocol = Protocol.named(name)
        expected = reference(files, WHOLEBODY[name], protocol).stats.tolist()
        detections, truths = read(files, protocol)
        result = boxscore.evaluate(detections, truths, protocol)
        assert stats_of(result) == expected
        assert 0 < result["map"] < 1
        if name != "coco_wholebody":  # of a whole body some point is always sure
            assert len(result.tally) < len(detections)
        numbers = command(files, "--protocol", name)
        assert [numbers[each] for each in result] == expected

    @pytest.mark.native
    @pytest.mark.parametrize("engine", ENGINES)
    def test_every_engine_gives_the_same(self, name: str, engine: Any, tmp_path: Path) -> None:
        """Also from the points of the part alone."""
        dataset, results = random_bodies(4, has_part_scores=True, has_boxes=True)
        protocol = Protocol.named(name)
        detections, truths = read(write_files(tmp_path, dataset, results), protocol)
        result = boxscore.evaluate(detections, truths, protocol, engine)
        assert_same(result, boxscore.evaluate(detections, truths, protocol, "native"))
        first, end = protocol.keypoints.first, protocol.keypoints.first + len(protocol.sigmas)
        pose, there = detections.keypoints, truths.keypoints
        assert pose.score is not None
        assert there.visibility is not None
        alone = Detections(
            image_ids=detections.image_ids, labels=detections.labels, scores=detections.scores, area=detections.area,
            keypoints=pose.point[:, first:end], keypoints_scores=pose.score[:, first:end],
        )  # fmt: skip
        part = Truths(
            image_ids=truths.image_ids, labels=truths.labels, ignore=truths.ignore, area=truths.area, boxes=there.box,
            box_format="xywh", keypoints=there.point[:, first:end], visibility=there.visibility[:, first:end],
            class_names=truths.class_names,
        )  # fmt: skip
        assert_same(boxscore.evaluate(alone, part, protocol, engine), result)

    def test_the_score_of_the_part_is_read(self, name: str, tmp_path: Path) -> None:
        """If results have it; `score` is the body's, and that of results without."""
        key = Protocol.named(name).keypoints.score_key
        for has_part_scores in (False, True):
            dataset, results = random_bodies(5, has_part_scores=has_part_scores)
            detections, _ = read(write_files(tmp_path, dataset, results), Protocol.named(name))
            assert detections.scores.tolist() == [row.get(key, row["score"]) for row in results]
        assert key in results[0]

    def test_points_are_those_of_all_parts(self, name: Any, tmp_path: Path) -> None:
        """One after the other: body, feet, face, left hand, right hand."""
        dataset, results = random_bodies(6, has_part_scores=False)
        detections, truths = read(write_files(tmp_path, dataset, results), Protocol.named(name))
        for rows, keypoints in ((dataset["annotations"], truths.keypoints), (results, detections.keypoints)):
            numbers = points_of([{"keypoints": [each for part in PARTS for each in row[part]]} for row in rows])
            assert np.array_equal(keypoints.point, numbers[:, :, :2])
        assert truths.keypoints.num_points == 133


def test_a_part_without_labels_is_ignored() -> None:
    """Under the protocol of the part: a detection in its box is no false positive; under the other parts it counts."""
    pose = np.stack([np.arange(133) * 2.0, np.arange(133) * 3.0, np.full(133, 2.0)], axis=1)[None]
    unlabelled = pose.copy()
    unlabelled[:, 17:23, 2] = 0  # the feet
    rows: dict[str, Any] = {"image_ids": [0], "labels": [0]}
    detections = Detections(**rows, scores=[0.9], keypoints=pose)
    truths = Truths(**rows, keypoints=unlabelled, boxes=[[0, 0, 300, 400]])
    verdicts = {name: boxscore.match(detections, truths, name).verdict[0, 0, 0] for name in WHOLEBODY}
    assert verdicts == dict.fromkeys(WHOLEBODY, 2) | {"coco_wholebody_foot": 0}


def test_the_area_of_a_body_is_around_its_first_17_points() -> None:
    """As in COCO: results without boxes have the one around `keypoints`, which are the body's."""
    pose = np.zeros((1, 133, 2))
    pose[0, 3], pose[0, 100] = (10, 20), (500, 500)
    keypoints = Detections(image_ids=[0], labels=[0], scores=[0.5], keypoints=pose).keypoints
    for name in WHOLEBODY:
        assert keypoints.areas(Protocol.named(name)).tolist() == [200.0]
    plain = Protocol.named("coco_keypoints", sigmas=[0.1] * 133)
    assert keypoints.areas(plain).tolist() == [250_000.0]


def test_parts_follow_each_other() -> None:
    """Their sigmas make up those of the whole body."""
    whole = Protocol.named("coco_wholebody")
    parts = [Protocol.named(name) for name in list(WHOLEBODY)[1:]]
    assert [len(part.sigmas) for part in parts] == list(PARTS.values())
    assert sum((part.sigmas for part in parts), ()) == whole.sigmas
    assert [part.keypoints.first for part in parts] == [0, 17, 23, 91, 112]
    assert Protocol.named("coco_keypoints").keypoints == KeypointRules()


def test_other_numbers_of_points_are_an_error() -> None:
    """A part has its own number of points, or is one of 133."""
    pose = np.random.default_rng(0).random((1, 20, 2))
    rows: dict[str, Any] = {"image_ids": [0], "labels": [0], "keypoints": pose}
    wrong: dict[Any, int] = {"coco_wholebody": 133, "coco_wholebody_lefthand": 21}
    for name, num in wrong.items():
        rule = rf"`sigmas` must have one number for each of the 20 keypoints; got {num} \(protocol {name}\)"
        with pytest.raises(InputError, match=rule):
            boxscore.evaluate(Detections(**rows, scores=[0.5]), Truths(**rows), name)


@pytest.mark.parametrize("name", ["crowdpose", *WHOLEBODY])
def test_a_stored_tally_keeps_the_rules(name: Any, tmp_path: Path) -> None:
    """Sigmas, parts and ranges come back with it."""
    dataset, results = random_crowds(2) if name == "crowdpose" else random_bodies(2, has_part_scores=True)
    sides = read(write_files(tmp_path, dataset, results), Protocol.named(name))
    tally = boxscore.match(*sides, name)
    tally.save(tmp_path / "tally")
    loaded = boxscore.Tally.load(tmp_path / "tally")
    assert loaded.protocol == Protocol.named(name)
    assert_same(boxscore.finish(loaded), boxscore.evaluate(*sides, name))


def test_a_metric_of_crowds_takes_columns(tmp_path: Path) -> None:
    """In batches of images; dicts have no crowd index, and are refused."""
    dataset, results = random_crowds(3)
    protocol = Protocol.named("crowdpose")
    detections, truths = read(write_files(tmp_path, dataset, results), protocol)
    metric = boxscore.MeanAveragePrecision("crowdpose", box_format="xywh", warn=False)
    for part in (0, 1):
        metric.update(take(detections, detections.image_ids % 2 == part), take(truths, truths.image_ids % 2 == part))
    assert_same(metric.compute(), boxscore.evaluate(detections, truths, protocol))
    for row in dataset["annotations"]:
        row["area"] = 1.0  # never read: areas come from boxes
    other = boxscore.MeanAveragePrecision("crowdpose", box_format="xywh", warn=False)
    with pytest.raises(InputError, match="`crowd_index` must be given for the truths"):
        other.update(*image_dicts(dataset, results))


@pytest.mark.parametrize("part", ["", "_foot", "_face"])
@pytest.mark.parametrize("engine", ["native", "sequential", "parallel"])
def test_the_area_of_a_detection_is_that_of_its_body(part: str, engine: Any) -> None:
    """In arrays of 133 points, whatever the part and the engine: 40 x 40 here, though the hands are far away."""
    protocol = Protocol.named(f"coco_wholebody{part}")
    random = np.random.default_rng(0)
    points = np.zeros((1, 133, 3))
    points[:, :, :2], points[:, :, 2] = random.uniform(10, 50, (1, 133, 2)), 1
    points[0, :2, :2] = [[10, 10], [50, 50]]
    truths = boxscore.Truths(image_ids=[0], labels=[1], keypoints=points, area=[1600.0])
    far = points.copy()
    far[:, 100:] += 1000  # hands of another one: the box around all points would be large
    stray = boxscore.Detections(
        image_ids=[0, 0], labels=[1, 1], scores=[0.9, 0.8], keypoints=np.concatenate([points, far + 300])
    )
    assert stray.geometry.areas(protocol).tolist() == [1600, 1600]
    verdict = boxscore.match(stray, truths, protocol, engine).verdict[:, :, 0]
    assert verdict.tolist() == [[2, 2, 0], [1, 1, 0]], "medium ones: a true and a false positive"


def test_the_area_of_a_part_alone_is_that_of_all_its_points() -> None:
    """There is no body in it."""
    points = np.random.default_rng(0).uniform(0, 9, (1, 68, 2))
    points[0, 60] = [99, 99]
    detections = boxscore.Detections(image_ids=[0], labels=[1], scores=[0.9], keypoints=points)
    low, high = points[0].min(0), points[0].max(0)
    area = (high[0] - low[0]) * (high[1] - low[1])
    assert detections.geometry.areas(Protocol.named("coco_wholebody_face")).tolist() == [area]


@pytest.mark.parametrize("value", [{0: "x"}, {0: None}, {0: float("nan")}, {0: -1}, 5])
def test_a_crowd_index_is_a_number(value: Any) -> None:
    """Validated where it comes in."""
    with pytest.raises(boxscore.InputError, match="`crowd_index` must be"):
        boxscore.Truths(image_ids=[0], labels=[1], keypoints=np.ones((1, 14, 2)), area=[9.0], crowd_index=value)


@pytest.mark.parametrize("changes", [{"recall_at": 5}, {"recall_at": None}, {"limits": [50, 100]}])
def test_recalls_have_names_of_their_own(changes: dict[str, Any]) -> None:
    """And are numbers."""
    with pytest.raises(boxscore.InputError, match=r"`recall_at` must|`limits` must not have 50 before the last"):
        Protocol.named("coco_keypoints", **changes)
    assert Protocol.named("coco_keypoints", thresholds=[0.6], limits=[50, 100]).limits == (50, 100)


@pytest.mark.parametrize("engine", ["native", "sequential", "parallel"])
@pytest.mark.parametrize("name", ["coco_keypoints", "coco_wholebody_face"])
def test_one_side_may_be_empty(name: str, engine: Any) -> None:
    """Without truths every number is undefined, without detections 0."""
    protocol = Protocol.named(name)
    num = len(protocol.sigmas)
    nothing = np.zeros((0, num, 3))
    poses: dict[str, Any] = {
        "image_ids": [0],
        "labels": [1],
        "keypoints": np.random.default_rng(0).uniform(1, 9, (1, num, 3)),
    }
    sides: list[Any] = [nothing, np.zeros((0, 133, 3)), []]
    for empty in sides:
        no_truths = boxscore.Truths(image_ids=[], labels=[], keypoints=empty)
        result = boxscore.evaluate(boxscore.Detections(**poses, scores=[0.9]), no_truths, protocol, engine)
        assert np.isnan(result["map"])
        no_detections = boxscore.Detections(image_ids=[], labels=[], scores=[], keypoints=empty)
        assert boxscore.evaluate(no_detections, boxscore.Truths(**poses), protocol, engine)["map"] == 0


def test_labels_may_be_flags() -> None:
    """True where a point is labelled."""
    points, flags = np.random.default_rng(0).uniform(1, 9, (2, 17, 2)), np.arange(34).reshape(2, 17) % 3 > 0
    given = boxscore.Truths(image_ids=[0, 0], labels=[1, 1], keypoints=points, visibility=flags, area=[9.0, 9.0])
    assert given.keypoints.visibility is not None
    assert given.keypoints.visibility.tolist() == flags.astype(float).tolist()
