"""Kinds of truths, coverage of images, limits per image: two or three boxes by hand, then laws."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import boxscore
from boxscore import Detections, InputError, Protocol, Truths
from boxscore.arrays import to_numpy
from boxscore.data import Coverage
from boxscore.data.dataset import coverage_codes, pooled, take
from boxscore.parallel import PaddedDetections, PaddedTruths, match_batch
from boxscore.protocol.protocol import CROWD, DIFFICULT, GROUP, REGULAR
from boxscore.result.tally import EXTRAS
from tests.support.engines import ENGINES
from tests.support.scenes import random_scene

ONE_CELL: dict[str, Any] = {"thresholds": (0.5,), "areas": {"all": (0, 1e10)}, "limits": (100,)}
COCO = Protocol.named("coco", group_of_weight=1, **ONE_CELL)
VOC = Protocol.named("voc2012", pixels="continuous", group_of_weight=1)
PAPER = Protocol.named("paper", pixels="continuous", group_of_weight=1)
FEDERATED = COCO.replace(federated=True)
MATCHINGS = [COCO, VOC, PAPER]

TALLY = (
    *("image", "label", "score", "tier", "state", "is_true", "is_counted"),
    *("classes", "truth_image", "truth_label", "truth_state"),
)


def verdicts(detections: Detections, truths: Truths, protocol: Protocol, engine: Any) -> list[int]:
    """One verdict per detection of one class in one image, by falling score."""
    return list(boxscore.match(detections, truths, protocol, engine).sorted().verdict[:, 0, 0].tolist())


def detect(*boxes: tuple[float, float, float, float]) -> Detections:
    """Detections of class 0 in image 0, by falling score."""
    num = len(boxes)
    return Detections(
        image_ids=[0] * num, labels=[0] * num, scores=np.linspace(0.9, 0.5, num), boxes=np.array(boxes, float)
    )


def annotate(kind: list[int], *boxes: tuple[float, float, float, float]) -> Truths:
    """Truths of class 0 in image 0."""
    return Truths(image_ids=[0] * len(kind), labels=[0] * len(kind), boxes=np.array(boxes, float), kind=kind)


BOX, NEAR, INSIDE, LARGE = (0, 0, 10, 10), (0, 0, 10, 9), (40, 40, 50, 50), (30, 30, 90, 90)


@pytest.mark.parametrize("engine", ENGINES)
class TestKinds:
    """What a detection on a truth of each kind becomes."""

    @pytest.mark.parametrize("protocol", MATCHINGS)
    def test_kinds_are_what_the_protocol_would_make_of_ignore(self, engine: Any, protocol: Protocol) -> None:
        """`ignore` under "crowd" and kind 2 are one thing, as are `ignore` under "difficult" and kind 1."""
        detections = detect(BOX, NEAR, INSIDE, INSIDE)
        flagged = Truths(image_ids=[0, 0], labels=[0, 0], boxes=np.array([BOX, LARGE], float), ignore=[False, True])
        for ignored, kind in (("crowd", CROWD), ("difficult", DIFFICULT)):
            expected = verdicts(detections, flagged, protocol.replace(ignored=ignored), engine)
            assert verdicts(detections, annotate([REGULAR, kind], BOX, LARGE), protocol, engine) == expected
        # INSIDE lies in LARGE whole, but is 100 / 3600 of it.
        assert verdicts(detections, annotate([REGULAR, CROWD], BOX, LARGE), COCO, engine) == [2, 1, 0, 0]
        assert verdicts(detections, annotate([REGULAR, DIFFICULT], BOX, LARGE), COCO, engine) == [2, 1, 1, 1]

    def test_difficult_and_crowd_may_stand_side_by_side(self, engine: Any) -> None:
        """In COCO's matching a difficult truth takes one detection, a crowd any number."""
        truths = annotate([DIFFICULT, CROWD], BOX, LARGE)
        assert verdicts(detect(BOX, NEAR, INSIDE, INSIDE), truths, COCO, engine) == [0, 1, 0, 0]

    @pytest.mark.parametrize("protocol", MATCHINGS)
    def test_the_first_detection_of_a_group_is_true_and_the_others_are_ignored(
        self, engine: Any, protocol: Protocol
    ) -> None:
        """Each lies in the group whole; the group counts as one truth."""
        truths, detections = annotate([GROUP], LARGE), detect(INSIDE, (60, 60, 70, 70), (35, 35, 80, 80))
        assert verdicts(detections, truths, protocol, engine) == [2, 0, 0]
        assert boxscore.match(detections, truths, protocol, engine).num_truths.tolist() == [[1]]

    @pytest.mark.parametrize("protocol", MATCHINGS)
    def test_regular_truths_come_before_a_group(self, engine: Any, protocol: Protocol) -> None:
        """The first takes the regular truth, with IoU 81/100, though it lies in the group whole. The second finds the
        regular truth taken, and is the first of the group; so a group saves a duplicate. The third is ignored.
        """
        truths = annotate([GROUP, REGULAR], LARGE, INSIDE)
        detections = detect((40, 40, 49, 49), INSIDE, INSIDE)
        assert verdicts(detections, truths, protocol, engine) == [2, 2, 0]

    @pytest.mark.parametrize("protocol", [COCO, VOC])
    def test_a_detection_that_a_difficult_truth_drops_does_not_count_for_a_group(
        self, engine: Any, protocol: Protocol
    ) -> None:
        """As in Open Images' evaluation: only what would be a false positive asks for groups."""
        truths = annotate([GROUP, DIFFICULT], LARGE, INSIDE)
        assert verdicts(detect(INSIDE, (60, 60, 70, 70)), truths, protocol, engine) == [0, 2]

    def test_a_group_outside_of_an_area_range_is_ignored_there(self, engine: Any) -> None:
        """It has 3600 square pixels: its detections are ignored among small ones, and it is no truth there."""
        protocol = COCO.replace(areas={"all": (0, 1e10), "small": (0, 1024)})
        tally = boxscore.match(detect(INSIDE, INSIDE), annotate([GROUP], LARGE), protocol, engine)
        assert tally.verdict[:, :, 0].tolist() == [[2, 0], [0, 0]]
        assert tally.num_truths.tolist() == [[1, 0]]


@pytest.mark.parametrize("engine", ENGINES)
class TestCoverage:
    """Verified classes."""

    def test_a_class_nobody_looked_for_is_left_out_and_one_not_exhaustive_is_ignored_if_unmatched(
        self, engine: Any
    ) -> None:
        """Class 1 was verified as absent, 2 was not annotated exhaustively, 3 was not verified; 4 has a truth."""
        label = [1, 2, 2, 3, 4, 4]
        detections = Detections(
            image_ids=[0] * 6,
            labels=label,
            scores=np.linspace(0.9, 0.4, 6),
            boxes=[INSIDE, BOX, INSIDE, BOX, BOX, INSIDE],
        )
        coverage = Coverage(image_ids=[0, 0, 7], labels=[1, 2, 3], is_exhaustive=[True, False, True])
        truths = Truths(image_ids=[0, 0], labels=[2, 4], boxes=[BOX, BOX], coverage=coverage)
        tally = boxscore.match(detections, truths, FEDERATED, engine)
        assert tally.label.tolist() == [1, 2, 2, 4, 4]
        assert tally.verdict[:, 0, 0].tolist() == [1, 2, 0, 2, 1]
        assert tally.classes.tolist() == [1, 2, 3, 4]

    def test_limits_come_first(self, engine: Any) -> None:
        """Of two detections per image the first is of a class that was not verified: one is left."""
        protocol = FEDERATED.replace(limits=(2,), limits_per="image")
        detections = Detections(image_ids=[0] * 3, labels=[3, 1, 1], scores=[0.9, 0.8, 0.7], boxes=[BOX] * 3)
        truths = Truths(image_ids=[], labels=[], boxes=[], coverage=Coverage(image_ids=[0], labels=[1]))
        assert boxscore.match(detections, truths, protocol, engine).score.tolist() == [0.8]

    def test_without_coverage_every_class_was_looked_for(self, engine: Any) -> None:
        """A detection on nothing is a false positive."""
        truths = Truths(image_ids=[], labels=[], boxes=[])
        assert verdicts(detect(BOX), truths, COCO, engine) == [1]


@pytest.mark.parametrize("engine", ENGINES)
def test_limits_per_image_count_all_classes(engine: Any) -> None:
    """Four detections of two classes; of the equal scores 0.8 the earlier row ranks first."""
    detections = Detections(image_ids=[0] * 4, labels=[1, 2, 1, 2], scores=[0.8, 0.8, 0.7, 0.9], boxes=[BOX] * 4)
    truths = Truths(image_ids=[0, 0], labels=[1, 2], boxes=[BOX, BOX])
    protocol = COCO.replace(limits=(1, 3))
    per_image = boxscore.match(detections, truths, protocol.replace(limits_per="image"), engine)
    assert per_image.label.tolist() == [1, 2, 2]
    assert per_image.score.tolist() == [0.8, 0.9, 0.8]
    assert per_image.tier.tolist() == [1, 0, 1]
    per_class = boxscore.match(detections, truths, protocol, engine)
    assert per_class.score.tolist() == [0.8, 0.7, 0.9, 0.8]
    assert per_class.tier.tolist() == [0, 1, 0, 1]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_engines_give_the_same_tally(data: st.DataObject) -> None:
    """Bit for bit, with any kinds, coverage, limits and rules; so do the numbers beside AP and recall."""
    scene = random_scene(data.draw(st.integers(0, 10**6)), num_images=3, most_detections=10, most_truths=6)
    num_truths = scene.truth["labels"].size
    kind = data.draw(st.lists(st.integers(0, 3), min_size=num_truths, max_size=num_truths))
    pairs = data.draw(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.booleans()), unique_by=lambda p: p[:2])
    )
    image, label, is_exhaustive = (list(column) for column in zip(*pairs, strict=True)) if pairs else ([], [], [])
    coverage = Coverage(image_ids=image, labels=label, is_exhaustive=is_exhaustive)
    truth = {name: column for name, column in scene.truth.items() if name != "ignore"}
    truths = Truths(**truth, box_format="xywh", kind=kind, coverage=coverage)
    protocol = Protocol.named(
        data.draw(st.sampled_from(["coco", "voc2012", "paper"])),
        limits=data.draw(st.sampled_from([(None,), (1, 5), (2, 4, 7)])),
        limits_per=data.draw(st.sampled_from(["class", "image"])),
        ties=data.draw(st.sampled_from(["first", "last"])),
        ignored=data.draw(st.sampled_from(["crowd", "difficult", "regular", "absent"])),
        comparison=data.draw(st.sampled_from([">", ">="])),
        group_of_weight=data.draw(st.sampled_from([0, 1])),
        federated=data.draw(st.booleans()),
        empty=data.draw(st.sampled_from(["keep", "drop", "drop_detections"])),
        min_score=data.draw(st.sampled_from([None, 0.5])),
        ap=data.draw(
            st.sampled_from(
                [
                    *("recall_points", "interpolated", "linear_points", "linear_points_to_end"),
                    *("envelope", "trapezoid", "trapezoid_from_first"),
                ]
            )
        ),
        extra_numbers=data.draw(st.sampled_from([(), ("olrp",), ("mr", "ji", "olrp")])),
    )
    results = [
        boxscore.evaluate(scene.detections, truths, protocol, engine) for engine in ("sequential", "parallel", "native")
    ]
    first = results[0]
    for result in results[1:]:
        for column in (*TALLY, *EXTRAS):
            assert np.array_equal(getattr(result.tally, column), getattr(first.tally, column)), column
        assert np.array_equal([*result.values()], [*first.values()], equal_nan=True)
        assert np.array_equal(result.curves.average_precision, first.curves.average_precision, equal_nan=True)


def test_a_jitted_batch_has_kinds_coverage_and_limits_per_image() -> None:
    """`match_batch` under `jax.jit`, in static shapes: the verdicts of the sequential engine."""
    jax = pytest.importorskip("jax")
    found = detect((40, 40, 49, 49), INSIDE, INSIDE, BOX, (70, 0, 80, 10), BOX)
    label, kind = np.array([0, 0, 0, 1, 2, 3]), np.array([GROUP, REGULAR, DIFFICULT], np.uint8)
    coverage = Coverage(image_ids=[0, 0], labels=[0, 2], is_exhaustive=[True, False])
    detections = Detections(image_ids=[0] * 6, labels=label, scores=found.scores, boxes=found.boxes)
    box = np.array([LARGE, INSIDE, BOX], float)
    truths = Truths(image_ids=[0] * 3, labels=[0, 0, 1], boxes=box, kind=kind, coverage=coverage)
    protocol = FEDERATED.replace(limits=(5,), limits_per="image")
    code = coverage_codes(detections, truths, protocol)
    assert code is not None
    matched = jax.jit(lambda detections, truths: match_batch(detections, truths, protocol))(
        PaddedDetections(found.boxes[None], label[None], found.scores[None], np.zeros((1, 6), bool), code[None]),
        PaddedTruths(box[None], np.array([[0, 0, 1]]), np.zeros((1, 3), bool), kind=kind[None]),
    )
    # Regular, then the group's first and second; difficult; unmatched and not exhaustive; beyond the limit of 5.
    assert matched.verdict[0, :, 0, 0].tolist() == [2, 2, 0, 0, 0, 0]
    assert np.asarray(matched.discarded)[0].tolist() == [False] * 5 + [True]
    expected = boxscore.match(detections, truths, protocol, "sequential")
    assert expected.verdict[:, 0, 0].tolist() == [2, 2, 0, 0, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": [0, 4]}, r"`kind` row 1 must be 0 \(regular\), 1 \(difficult\), 2 \(crowd\) or 3 \(group\); got 4"),
        ({"kind": [0]}, r"`kind` must have shape \(2,\), one per truth; got \(1,\)"),
        ({"kind": [0.0, 1.0]}, "`kind` must hold integers; got float64"),
        ({"kind": [0, 1], "ignore": [0, 1]}, "`kind` and `ignore` must not both be given"),
        ({"coverage": [(0, 1)]}, "`coverage` must be a boxscore.data.Coverage; got list"),
    ],
)
def test_what_is_invalid_is_refused(changes: dict[str, Any], message: str) -> None:
    """By name, with the rule and what came."""
    with pytest.raises(InputError, match=message):
        Truths(image_ids=[0, 0], labels=[0, 0], boxes=[BOX, BOX], **changes)


def test_coverage_has_each_image_and_label_once_and_no_place_in_class_agnostic_protocols() -> None:
    """Both are errors."""
    with pytest.raises(InputError, match="must have each image and label once; got image 3, label 1 twice"):
        Coverage(image_ids=[3, 0, 3], labels=[1, 1, 1])
    with pytest.raises(InputError, match=r"`image_ids` must have shape \(C,\) with C = 2, the number of labels; got"):
        Coverage(image_ids=[3], labels=[1, 2])
    truths = Truths(image_ids=[], labels=[], boxes=[], coverage=Coverage(image_ids=[0], labels=[1]))
    with pytest.raises(InputError, match="`coverage` is by class, and a class-agnostic protocol has none"):
        boxscore.match(detect(BOX), truths, FEDERATED.replace(class_agnostic=True), "parallel")


def test_rows_keep_their_kinds() -> None:
    """When rows are taken, and when all classes are one."""
    truths = Truths(image_ids=[0, 1, 2], labels=[5, 4, 3], boxes=[BOX] * 3, kind=[REGULAR, CROWD, GROUP])
    assert to_numpy(take(truths, np.array([False, True, True])).kind).tolist() == [CROWD, GROUP]
    assert to_numpy(pooled(truths).kind).tolist() == [GROUP, CROWD, REGULAR]


@pytest.mark.parametrize("name", ["t.json", "t.npz", "t.csv"])
def test_kinds_and_coverage_that_a_file_cannot_hold_are_told(tmp_path: Path, name: str) -> None:
    """What is ignored stays ignored; nothing is lost in silence."""
    truths = Truths(
        image_ids=[0, 0, 0, 0],
        labels=[0, 0, 0, 0],
        boxes=[[0, 0, 9, 9]] * 4,
        kind=[REGULAR, DIFFICULT, CROWD, GROUP],
        coverage=Coverage(image_ids=[0, 0], labels=[0, 1]),
        class_names=["a", "b"],
        image_names={0: "a.jpg"},
    )
    losses = [str(loss) for loss in boxscore.write_truths(tmp_path / name, truths)]
    has_coverage = name == "t.json"
    told = ["2 truth kinds are lost", "1 group (IsGroupOf) becomes a regular truth"]
    told += [] if has_coverage else ["2 coverage rows are lost"]
    assert losses[-len(told) :] == told
    again = boxscore.read_truths(tmp_path / name)
    assert to_numpy(again.ignore).tolist() == [False, True, True, False]
    assert (again.coverage is not None) == has_coverage
