"""Two or three boxes, and the numbers worked out in a comment."""

import math
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, Protocol, Truths
from tests.support.engines import ENGINES

pytestmark = pytest.mark.native


def at(*boxes: tuple[float, float, float, float]) -> np.ndarray:
    """Boxes as an array."""
    return np.array(boxes, dtype=float).reshape(-1, 4)


def verdicts(detections: Detections, truths: Truths, protocol: Protocol, engine: Any) -> list[int]:
    """One verdict a detection, in the order given, for a protocol with one cell."""
    tally = boxscore.match(detections, truths, protocol, engine)
    by_score = np.argsort(-np.asarray(detections.scores), kind="stable")
    sorted_verdicts = tally.sorted().verdict[:, 0, 0]
    found = np.empty(len(detections), int)
    found[by_score] = sorted_verdicts
    return found.tolist()


def one_class(boxes: np.ndarray, scores: list[float]) -> Detections:
    """Detections of class 0 in image 0."""
    return Detections(image_ids=[0] * len(scores), labels=[0] * len(scores), scores=scores, boxes=boxes)


def one_class_truths(boxes: np.ndarray, ignore: list[bool] | None = None) -> Truths:
    """Truths of class 0 in image 0."""
    return Truths(image_ids=[0] * len(boxes), labels=[0] * len(boxes), boxes=boxes, ignore=ignore)


@pytest.mark.parametrize("engine", ENGINES)
class TestMatching:
    """Which truth a detection takes."""

    def test_voc_gives_a_taken_truth_to_nobody_else(self, engine: Any) -> None:
        """Both detections like the first truth best; the second one's next best does not help it."""
        truths = one_class_truths(at((0, 0, 9, 9), (0, 4, 9, 13)))
        detections = one_class(at((0, 0, 9, 9), (0, 1, 9, 10)), [0.9, 0.8])
        # Second detection: IoU 90/110 with the first truth, 70/130 with the second.
        assert verdicts(detections, truths, Protocol.named("voc2012"), engine) == [2, 1]

    def test_coco_lets_it_take_its_next_best(self, engine: Any) -> None:
        """The same boxes: 70/130 reaches 0.5."""
        truths = one_class_truths(at((0, 0, 10, 10), (0, 4, 10, 14)))
        detections = one_class(at((0, 0, 10, 10), (0, 1, 10, 11)), [0.9, 0.8])
        protocol = Protocol.named("coco", thresholds=(0.5,), areas={"all": (0, 1e10)}, limits=(100,))
        assert verdicts(detections, truths, protocol, engine) == [2, 2]

    def test_voc_drops_a_detection_whose_best_truth_is_difficult(self, engine: Any) -> None:
        """And the paper as published lets it go on to an easy one."""
        truths = one_class_truths(at((0, 0, 9, 9), (0, 2, 9, 11)), ignore=[True, False])
        detections = one_class(at((0, 0, 9, 10)), [0.9])  # IoU 100/110 and 90/120
        assert verdicts(detections, truths, Protocol.named("voc2007"), engine) == [0]
        assert verdicts(detections, truths, Protocol.named("paper"), engine) == [2]

    def test_a_difficult_truth_can_be_found_any_number_of_times(self, engine: Any) -> None:
        """None of them counts."""
        truths = one_class_truths(at((0, 0, 9, 9)), ignore=[True])
        detections = one_class(at((0, 0, 9, 9), (0, 0, 9, 9)), [0.9, 0.8])
        for name in ("voc2007", "paper"):
            assert verdicts(detections, truths, Protocol.named(name), engine) == [0, 0]

    def test_as_in_coco_overlap_with_a_crowd_is_relative_to_the_detection(self, engine: Any) -> None:
        """A small box inside a large crowd is fully in it, as often as you like."""
        truths = one_class_truths(at((0, 0, 100, 100)), ignore=[True])
        detections = one_class(at((10, 10, 20, 20), (50, 50, 60, 60)), [0.9, 0.8])
        protocol = Protocol.named("coco", thresholds=(0.95,), areas={"all": (0, 1e10)}, limits=(100,))
        assert verdicts(detections, truths, protocol, engine) == [0, 0]
        assert verdicts(detections, truths, protocol.replace(ignored="difficult"), engine) == [1, 1]

    def test_as_in_coco_a_regular_truth_comes_before_an_ignored_one_of_larger_iou(self, engine: Any) -> None:
        """The crowd has IoU 1, the regular truth 0.5."""
        truths = one_class_truths(at((0, 0, 10, 10), (0, 0, 10, 5)), ignore=[True, False])
        detections = one_class(at((0, 0, 10, 10)), [0.9])
        protocol = Protocol.named("coco", thresholds=(0.5,), areas={"all": (0, 1e10)}, limits=(100,))
        assert verdicts(detections, truths, protocol, engine) == [2]

    def test_ties_in_iou_go_to_the_first_truth_in_voc_and_to_the_last_in_coco(self, engine: Any) -> None:
        """The first detection lies midway between both truths; the second reaches only the last one."""
        truths = one_class_truths(at((0, 0, 10, 10), (4, 0, 14, 10)))
        detections = one_class(at((2, 0, 12, 10), (6, 0, 16, 10)), [0.9, 0.8])
        voc = Protocol.named("voc2012", pixels="continuous")
        assert verdicts(detections, truths, voc, engine) == [2, 2]
        coco = Protocol.named("coco", thresholds=(0.5,), areas={"all": (0, 1e10)}, limits=(100,))
        assert verdicts(detections, truths, coco, engine) == [2, 1]

    @pytest.mark.parametrize(("comparison", "expected"), [(">=", [2]), (">", [1])])
    def test_an_iou_equal_to_the_threshold(self, engine: Any, comparison: str, expected: list[int]) -> None:
        """50 of 100 pixels."""
        truths, detections = one_class_truths(at((0, 0, 9, 9))), one_class(at((0, 0, 9, 4)), [0.9])
        protocol = Protocol.named("voc2007", comparison=comparison)
        assert verdicts(detections, truths, protocol, engine) == expected

    def test_pixels_decide_whether_the_last_pixel_counts(self, engine: Any) -> None:
        """Inclusive: 10 x 5 of 10 x 10. Continuous: 9 x 4 of 9 x 9."""
        truths, detections = one_class_truths(at((0, 0, 9, 9))), one_class(at((0, 0, 9, 4)), [0.9])
        assert verdicts(detections, truths, Protocol.named("voc2007"), engine) == [2]
        assert verdicts(detections, truths, Protocol.named("voc2007", pixels="continuous"), engine) == [1]

    def test_a_false_positive_outside_the_area_range_does_not_count(self, engine: Any) -> None:
        """Nor does one that is in the range of another."""
        detections, truths = one_class(at((0, 0, 10, 10)), [0.9]), one_class_truths(at((50, 50, 60, 60)))
        protocol = Protocol.named("coco", areas={"all": (0, 1e10), "large": (1000, 1e10)}, thresholds=(0.5,))
        tally = boxscore.match(detections, truths, protocol, engine)
        assert tally.verdict[0, :, 0].tolist() == [1, 0]

    def test_limits_count_per_image_and_class(self, engine: Any) -> None:
        """With at most one detection, the better of two in one class counts, and both in two."""
        truths = one_class_truths(at((0, 0, 10, 10)))
        boxes = at((0, 0, 10, 10), (50, 50, 60, 60))
        protocol = Protocol.named("coco", limits=(1,))
        same = Detections(image_ids=[0, 0], labels=[0, 0], scores=[0.9, 0.8], boxes=boxes)
        other = Detections(image_ids=[0, 0], labels=[0, 1], scores=[0.9, 0.8], boxes=boxes)
        assert len(boxscore.match(same, truths, protocol, engine)) == 1
        assert len(boxscore.match(other, truths, protocol, engine)) == 2

    def test_class_agnostic_matches_across_labels(self, engine: Any) -> None:
        """A cat found as a dog is found."""
        truths = one_class_truths(at((0, 0, 10, 10)))
        detections = Detections(image_ids=[0], labels=[5], scores=[0.9], boxes=at((0, 0, 10, 10)))
        assert boxscore.evaluate(detections, truths, "voc2012", engine)["map"] == 0
        protocol = Protocol.named("voc2012", class_agnostic=True)
        assert boxscore.evaluate(detections, truths, protocol, engine)["map"] == 1


@pytest.mark.parametrize("engine", ENGINES)
class TestAverages:
    """TP, FP, TP with four truths: precision 1, 1/2, 2/3 at recall 1/4, 1/4, 2/4."""

    @pytest.fixture
    def data(self) -> tuple[Detections, Truths]:
        corners = [(0, 0, 9, 9), (20, 0, 29, 9), (40, 0, 49, 9), (60, 0, 69, 9)]
        return one_class(at(corners[0], (80, 0, 89, 9), corners[1]), [0.9, 0.8, 0.7]), one_class_truths(at(*corners))

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("voc2007", (3 * 1 + 3 * 2 / 3) / 11),  # recalls 0 to 0.2 at precision 1, 0.3 to 0.5 at 2/3
            ("voc2012", 1 / 4 * 1 + 1 / 4 * 2 / 3),
            ("paper", 1 / 4 * (1 + 1) / 2 + 1 / 4 * (1 / 2 + 2 / 3) / 2),
            ("coco", (26 * 1 + 25 * 2 / 3) / 101),  # recalls 0 to 0.25, 0.26 to 0.5; the boxes match at any threshold
        ],
    )
    def test_average_precision(self, data: tuple[Detections, Truths], engine: Any, name: Any, expected: float) -> None:
        """One rule a protocol."""
        result = boxscore.evaluate(*data, name, engine)
        assert result["map"] == pytest.approx(expected, abs=1e-12)
        assert result.per_class.num_true[0, 0] == 2
        assert result.per_class.num_false[0, 0] == 1

    def test_averages_over_classes(self, data: tuple[Detections, Truths], engine: Any) -> None:
        """Class 0 has AP 1/4 + 1/6 = 5/12 of four truths; class 1 has one truth, found first of all: AP 1."""
        found, there = data
        detections = Detections(
            image_ids=[0] * 4,
            labels=[0, 0, 0, 1],
            scores=[*found.scores, 0.95],
            boxes=np.concatenate([found.boxes, at((0, 90, 9, 99))]),
        )
        truths = Truths(
            image_ids=[0] * 5, labels=[0, 0, 0, 0, 1], boxes=np.concatenate([there.boxes, at((0, 90, 9, 99))])
        )
        expected = {
            "macro": (5 / 12 + 1) / 2,
            "weighted": (4 * 5 / 12 + 1) / 5,
            "micro": 1 / 5 + 1 / 5 + 1 / 5 * 3 / 4,  # TP TP FP TP: precision 1, 1, 2/3, 3/4 of five truths
        }
        for average, value in expected.items():
            protocol = Protocol.named("voc2012", average=average)
            result = boxscore.evaluate(detections, truths, protocol, engine)
            assert result["map"] == pytest.approx(value, abs=1e-12), average
            assert result.per_class.ap.tolist() == pytest.approx([5 / 12, 1], abs=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["voc2007", "voc2012", "coco", "paper"])
class TestEmpty:
    """Empty inputs are not an error."""

    def test_nothing_at_all(self, engine: Any, name: Any) -> None:
        """No classes, and every number undefined."""
        nothing = Detections(image_ids=[], labels=[], scores=[], boxes=[]), Truths(image_ids=[], labels=[], boxes=[])
        result = boxscore.evaluate(*nothing, name, engine)
        assert len(result.per_class) == 0
        assert all(math.isnan(value) for value in result.values())

    def test_no_truths(self, engine: Any, name: Any) -> None:
        """Undefined, however many detections there are; they are false positives."""
        detections = one_class(at((0, 0, 9, 9)), [0.9])
        result = boxscore.evaluate(detections, Truths(image_ids=[], labels=[], boxes=[]), name, engine)
        assert math.isnan(result["map"])
        assert result.per_class.num_false[0, 0] == 1
        assert (result.curves.precision == -1).all()

    def test_no_detections(self, engine: Any, name: Any) -> None:
        """Nothing is found: 0."""
        nothing = Detections(image_ids=[], labels=[], scores=[], boxes=[])
        result = boxscore.evaluate(nothing, one_class_truths(at((0, 0, 9, 9))), name, engine)
        assert result["map"] == 0
        assert result.per_class.ar.tolist() == [0]

    def test_only_ignored_truths(self, engine: Any, name: Any) -> None:
        """They are not there to be found: undefined."""
        truths = one_class_truths(at((0, 0, 9, 9)), ignore=[True])
        result = boxscore.evaluate(one_class(at((0, 0, 9, 9)), [0.9]), truths, name, engine)
        assert math.isnan(result["map"])
        assert result.per_class.num_false[0, 0] == 0
