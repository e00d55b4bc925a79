"""What the compiled matcher takes: kinds of truths, coverage, limits per image, and any geometry with a policy."""

from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Protocol, Tally, _compiled
from boxscore.engines.native.compiled_engine import tally_of
from boxscore.engines.native.rules import rules_of
from boxscore.engines.parallel.iou import pairwise_iou
from boxscore.protocol.protocol import CROWD, DIFFICULT, GROUP, REGULAR
from tests.support.comparisons import assert_same_tally
from tests.support.scenes import Scene, random_scene

pytestmark = pytest.mark.native

LONG = [[0, 0, 100, 10], [0, 0, 10, 10], [10, 0, 10, 10], [20, 0, 10, 10]]
"""A wide box, and three that lie in it side by side, in xywh."""


def boxes(box: Any) -> Any:
    """Boxes in xywh."""
    return _compiled.Boxes(np.array(box, float), _compiled.BoxFormat.xywh, False)


def match(
    detections: dict[str, Any], truths: dict[str, Any], *, protocol: Protocol, is_per_image: bool = False
) -> Tally:
    """The tally of columns given as lists; image and class are 0 where they are not given."""
    sides: list[Any] = []
    for given, side in ((detections, _compiled.Detections), (truths, _compiled.Truths)):
        columns = {"image": [0] * len(given["geometry"]), "label": [0] * len(given["geometry"])} | given
        kinds = {"score": float, "area": float, "kind": np.uint8, "coverage": np.uint8, "image": int, "label": int}
        sides.append(side(**{n: np.array(c, kinds[n]) if n in kinds else c for n, c in columns.items()}))
    rules = _compiled.Rules()
    for name in (name for name in dir(rules) if not name.startswith("_")):
        setattr(rules, name, getattr(rules_of(protocol), name))
    rules.is_limit_per_image = is_per_image
    return tally_of(_compiled.match(sides[0], sides[1], np.zeros(0, np.int64), rules, 2), protocol, None)


def one_cell(name: str, **changes: Any) -> Protocol:
    """A protocol with one threshold and one area range."""
    return Protocol.named(name, thresholds=(0.5,), areas={"all": (0, None)}, **changes)


@pytest.mark.parametrize("name", ["coco", "voc2012"])
def test_the_first_detection_of_a_group_is_true_and_later_ones_are_ignored(name: str) -> None:
    """Each lies in the group with all of its own area; a group is one truth."""
    found = {"geometry": boxes(LONG[1:]), "score": [0.7, 0.9, 0.8]}
    tally = match(found, {"geometry": boxes(LONG[:1]), "kind": [GROUP]}, protocol=one_cell(name))
    assert tally.score.tolist() == [0.9, 0.8, 0.7]
    assert tally.verdict.ravel().tolist() == [2, 0, 0]
    assert tally.num_truths.tolist() == [[1]]


@pytest.mark.parametrize("name", ["coco", "voc2012"])
def test_a_group_is_for_detections_that_take_no_other_truth(name: str) -> None:
    """The first two find the same regular truth: the second of them is the group's first, and the third comes later."""
    found = {"geometry": boxes([LONG[1], LONG[1], LONG[2]]), "score": [0.9, 0.8, 0.7]}
    there = {"geometry": boxes(LONG[:2]), "kind": [GROUP, REGULAR]}
    tally = match(found, there, protocol=one_cell(name))
    assert tally.verdict.ravel().tolist() == [2, 2, 0]
    assert tally.num_truths.tolist() == [[2]]


def test_a_group_outside_of_the_area_range_is_ignored() -> None:
    """It has an area of 1000: its detection is true among all, and ignored among areas up to 500."""
    found = {"geometry": boxes(LONG[1:2]), "score": [0.9]}
    protocol = Protocol.named("coco", thresholds=(0.5,), areas={"all": (0, None), "small": (0, 500)})
    tally = match(found, {"geometry": boxes(LONG[:1]), "kind": [GROUP]}, protocol=protocol)
    assert tally.verdict.tolist() == [[[2], [0]]]
    assert tally.num_truths.tolist() == [[1, 0]]


@pytest.mark.parametrize(("kind", "expected"), [(DIFFICULT, [0, 1]), (CROWD, [0, 0]), (REGULAR, [2, 1])])
def test_a_difficult_truth_takes_one_detection_and_a_crowd_takes_all(kind: int, expected: list[int]) -> None:
    """Two detections that equal the truth."""
    found = {"geometry": boxes([LONG[0]] * 2), "score": [0.9, 0.8]}
    tally = match(found, {"geometry": boxes(LONG[:1]), "kind": [kind]}, protocol=one_cell("coco"))
    assert tally.verdict.ravel().tolist() == expected
    assert tally.num_truths.tolist() == [[kind == REGULAR]]


def test_only_crowds_and_groups_are_compared_with_the_size_of_the_detection() -> None:
    """A tenth of the truth: an IoU of 0.1, but all of the detection."""
    found = {"geometry": boxes(LONG[1:2]), "score": [0.9]}
    for kind, expected in ((REGULAR, 1), (DIFFICULT, 1), (CROWD, 0), (GROUP, 2)):
        tally = match(found, {"geometry": boxes(LONG[:1]), "kind": [kind]}, protocol=one_cell("coco"))
        assert tally.verdict.ravel().tolist() == [expected], kind


@pytest.mark.parametrize("name", ["coco", "voc2012"])
def test_coverage_decides_what_becomes_of_unmatched_detections(name: str) -> None:
    """Looked for exhaustively: false. Not exhaustively: ignored, or true with a truth. Not at all: left out."""
    found = {"geometry": boxes([LONG[0], *LONG]), "score": [0.9, 0.8, 0.7, 0.6, 0.5], "coverage": [1, 0, 1, 2, 0]}
    tally = match(found, {"geometry": boxes(LONG[:1])}, protocol=one_cell(name))
    assert tally.score.tolist() == [0.9, 0.8, 0.7, 0.5]
    assert tally.verdict.ravel().tolist() == [2, 1, 0, 1]


def test_limits_come_before_coverage() -> None:
    """Detections of classes that were not verified still have ranks."""
    found = {"geometry": boxes(LONG[:3]), "score": [0.9, 0.8, 0.7], "coverage": [2, 0, 0]}
    tally = match(found, {"geometry": boxes(LONG[3:])}, protocol=one_cell("coco", limits=(2,)))
    assert tally.score.tolist() == [0.8]


def test_limits_per_image_rank_the_detections_of_all_classes() -> None:
    """By falling score, of equal ones the first row: 0.9 (class 1), 0.8 (class 0), 0.8 (class 1); 0.7 is dropped."""
    found = {
        "geometry": boxes([LONG[0]] * 5),
        "image": [0, 0, 0, 0, 1],
        "label": [0, 1, 1, 0, 1],
        "score": [0.8, 0.9, 0.8, 0.7, 0.1],
    }
    there = {"geometry": boxes(LONG[:1])}
    tally = match(found, there, protocol=one_cell("coco", limits=(1, 3)), is_per_image=True)
    columns = (tally.image, tally.label, tally.score, tally.tier)
    assert [column.tolist() for column in columns] == [[0, 0, 0, 1], [0, 1, 1, 1], [0.8, 0.9, 0.8, 0.1], [1, 0, 1, 0]]
    per_class = match(found, there, protocol=one_cell("coco", limits=(1, 3)))
    assert per_class.tier.tolist() == [0, 1, 0, 1, 0]


def _columns(side: dict[str, Any]) -> dict[str, Any]:
    """The columns of one side of a scene, by the names of the compiled code."""
    names = {"image_ids": "image", "labels": "label", "scores": "score", "area": "area"}
    return {names[name]: column for name, column in side.items() if name in names}


def line_scene(seed: int) -> Scene:
    """A scene of boxes of height 1 on whole numbers, all on one line."""
    scene = random_scene(seed, num_images=6, most_detections=60, most_truths=40, is_whole=True)
    for columns in (scene.detection, scene.truth):
        columns["boxes"][:, 1], columns["boxes"][:, 3] = 0, 1
    return scene


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["coco", "voc2012"])
def test_intervals_match_like_boxes_of_one_height(name: str, seed: int) -> None:
    """A geometry from an extension module of its own, which has no index: every column of the tally is the same."""
    intervals = pytest.importorskip("boxscore_test_intervals", reason="built with BOXSCORE_TEST_GEOMETRIES=ON")
    scene = line_scene(seed)
    protocol = Protocol.named(name)
    kind = scene.truth["ignore"].astype(np.uint8) * CROWD

    def tally(geometries: list[Any]) -> Tally:
        found = _columns(scene.detection) | {"geometry": geometries[0]}
        there = _columns(scene.truth) | {"geometry": geometries[1], "kind": kind}
        return match(found, there, protocol=protocol)

    sides = [scene.detection["boxes"], scene.truth["boxes"]]
    lines = [intervals.Intervals(np.stack([box[:, 0], box[:, 0] + box[:, 2]], axis=1)) for box in sides]
    assert_same_tally(tally(lines), tally([boxes(box) for box in sides]))


def candidates_of(scene: Scene) -> list[Any]:
    """Both sides with the IoUs of all pairs that overlap, for an engine that can't measure them."""
    found, there = scene.detection, scene.truth
    iou_DG = pairwise_iou(found["boxes"][None], there["boxes"][None], box_format="xywh", pixels="continuous")[0]
    detection, truth = np.nonzero(iou_DG)
    start = np.searchsorted(detection, np.arange(len(found["boxes"]) + 1))
    areas = [side["boxes"][:, 2] * side["boxes"][:, 3] for side in (found, there)]
    given = _compiled.GivenShapes(areas[0], start, truth.astype(np.int32), iou_DG[detection, truth])
    return [given, _compiled.GivenShapes(areas[1])]


@pytest.mark.parametrize("seed", range(4))
def test_candidates_that_are_given_match_like_the_boxes_they_are_of(seed: int) -> None:
    """The fallback of geometries whose similarity is not compiled."""
    scene = random_scene(seed)
    shapes = candidates_of(scene)
    found, there = _columns(scene.detection) | {"geometry": shapes[0]}, _columns(scene.truth) | {"geometry": shapes[1]}
    protocol = Protocol.named("coco", ignored="difficult")
    there["kind"] = scene.truth["ignore"].astype(np.uint8) * DIFFICULT
    expected = boxscore.match(scene.detections, scene.truths, protocol, "sequential")
    tally = match(found, there, protocol=protocol)
    for column in ("image", "label", "score", "tier", "state", "is_true", "is_counted", "truth_state"):
        assert np.array_equal(getattr(tally, column), getattr(expected, column)), column


def test_candidates_that_do_not_fit_are_refused() -> None:
    """Lists must ascend from 0 to the number of candidates, one per detection."""
    area, similarity = np.ones(2), np.ones(3)
    truth = np.zeros(3, np.int32)
    for start in ([0, 2], [0, 2, 2], [1, 2, 3], [0, 4, 3]):
        with pytest.raises(ValueError, match=r"^start: "):
            _compiled.GivenShapes(area, np.array(start), truth, similarity)
    with pytest.raises(ValueError, match=r"^similarity: unexpected"):
        _compiled.GivenShapes(area, np.array([0, 1, 3]), truth, similarity[1:])
    with pytest.raises(ValueError, match=r"^truth, similarity: must be given with start$"):
        _compiled.GivenShapes(area, np.array([0, 1, 3]))
    given = {"geometry": _compiled.GivenShapes(area)}
    with pytest.raises(ValueError, match=r"^start: must be given for detections$"):
        match(given | {"score": [1, 2]}, given, protocol=one_cell("coco"))
