"""Optimal LRP: the definition of Oksuz et al. in plain Python as the reference, by hand, in streams, per class."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, MeanAveragePrecision, Protocol, Tally, Truths
from boxscore.result.extra_numbers import LrpError
from tests.support.engines import ENGINES
from tests.support.scenes import Scene, random_scene

BOX = (0, 0, 10, 10)
NAMES = LrpError._fields


def by_definition(scene: Scene, label: int, *, threshold: float = 0.5) -> list[float]:
    """The error of one class, its parts and its score threshold, from pycocotools' matches at an IoU of 0.5.

    With the detections above a score threshold, the error is

        1 / (TP + FP + FN) * (sum over TP of (1 - IoU) / (1 - 0.5) + FP + FN)

    and the optimal one is the least over all score thresholds, which here are those between any two detections.
    """
    evaluation = scene.pycocotools(maxDets=[100], areaRng=[[0, 1e10]], areaRngLbl=["all"], iouThrs=[threshold])
    rows: list[tuple[float, int, float]] = []
    num_truths = 0
    for image in range(scene.num_images):
        entry = evaluation.evaluateImg(image, label, [0, 1e10], 100)
        if entry is None:
            continue
        num_truths += int((~np.array(entry["gtIgnore"], bool)).sum())
        truth_ids = [each["id"] for each in evaluation._gts[image, label]]
        ious = evaluation.ious[image, label]  # by falling score
        for place, score in enumerate(entry["dtScores"]):
            if entry["dtIgnore"][0, place]:
                continue
            match = int(entry["dtMatches"][0, place])
            iou = float(ious[place, truth_ids.index(match)]) if match else 0.0
            rows.append((score, int(match > 0), iou))
    rows.sort(key=lambda row: -row[0])
    if not num_truths:
        return [np.nan] * 5
    best = [1.0, np.nan, np.nan, 1.0, np.nan]
    num_true, num_false, shared, least = 0, 0, 0.0, np.inf
    for score, is_true, iou in rows:
        num_true, num_false, shared = num_true + is_true, num_false + 1 - is_true, shared + iou
        missed, lost = num_truths - num_true, num_true - shared
        error = (lost / (1 - threshold) + num_false + missed) / (num_true + num_false + missed)
        if error < least:
            least = error
            precise = num_false / (num_true + num_false)
            best = [error, lost / num_true if num_true else np.nan, precise, missed / num_truths, score]
    return best if any(is_true for _, is_true, _ in rows) else [1.0, np.nan, np.nan, 1.0, np.nan]


@pytest.mark.parametrize("engine", ["native", "parallel", "sequential"])
def test_it_is_the_definition(engine: Any) -> None:
    """Every part of every class, to the last bit, with crowds and equal scores; the numbers are means over classes."""
    for seed in range(25 if engine == "native" else 5):
        scene = random_scene(seed)
        result = boxscore.evaluate(scene.detections, scene.truths, "olrp", engine)
        expected = np.array([by_definition(scene, label) for label in range(scene.num_classes)])
        for name, column in zip(NAMES, expected.T, strict=True):
            assert np.array_equal(result.per_class.extra[name], column, equal_nan=True), (seed, name)
            if name != "olrp_score" and not np.isnan(column).all():
                assert result[name] == pytest.approx(np.nanmean(column), abs=1e-15)


def test_ap_is_that_of_coco() -> None:
    """The same matches."""
    scene = random_scene(4)
    result = boxscore.evaluate(scene.detections, scene.truths, "olrp")
    plain = boxscore.evaluate(scene.detections, scene.truths, "coco")
    assert {name: result[name] for name in plain} == dict(plain)


def evaluate(detections: Any, scores: list[float], *, engine: Any, num_truths: int = 2) -> dict[str, float]:
    """Detections of one class in one image with two truths, at (0, 0) and far away."""
    truths = Truths(image_ids=[0] * num_truths, labels=[0] * num_truths, boxes=[BOX, (50, 50, 60, 60)][:num_truths])
    num = len(scores)
    box = np.array(detections, float).reshape(-1, 4)
    return dict(
        boxscore.evaluate(
            Detections(image_ids=[0] * num, labels=[0] * num, scores=scores, boxes=box), truths, "olrp", engine
        )
    )


@pytest.mark.parametrize("engine", ENGINES)
class TestByHand:
    """Three boxes at most."""

    def test_one_of_two_with_an_iou_of_three_quarters(self, engine: Any) -> None:
        """After the first: TP 1 with IoU 0.75, FN 1: (0.25 / 0.5 + 1) / 2 = 0.75. After the second, FP 1: 2.5 / 3."""
        numbers = evaluate([(0, 0, 7.5, 10), (80, 80, 90, 90)], [0.9, 0.8], engine=engine)
        assert {name: numbers[name] for name in NAMES[:4]} == {
            "olrp": 0.75,
            "olrp_loc": 0.25,
            "olrp_fp": 0.0,
            "olrp_fn": 0.5,
        }

    def test_a_false_one_before_two_true_ones_is_worth_it(self, engine: Any) -> None:
        """After the third: both with IoU 1, FP 1: 1 / 3; before it is 1 and (1 + 1) / 3."""
        numbers = evaluate([(80, 80, 90, 90), BOX, (50, 50, 60, 60)], [0.9, 0.8, 0.7], engine=engine)
        assert [numbers[name] for name in NAMES[:4]] == [1 / 3, 0, 1 / 3, 0]

    def test_without_a_true_one_it_is_1(self, engine: Any) -> None:
        """Then nothing is found, and there is nothing to measure the place or the precision of."""
        for boxes, scores in (([(80, 80, 90, 90)], [0.9]), ([], [])):
            numbers = evaluate(boxes, scores, engine=engine)
            assert (numbers["olrp"], numbers["olrp_fn"]) == (1, 1)
            assert np.isnan([numbers["olrp_loc"], numbers["olrp_fp"]]).all()

    def test_a_perfect_detector_has_no_error(self, engine: Any) -> None:
        """And without truths it is not defined."""
        numbers = evaluate([BOX, (50, 50, 60, 60)], [0.9, 0.8], engine=engine)
        assert [numbers[name] for name in NAMES[:4]] == [0, 0, 0, 0]
        assert np.isnan(evaluate([BOX], [0.9], engine=engine, num_truths=0)["olrp"])


def test_pieces_give_what_the_whole_gives(tmp_path: Path) -> None:
    """Merged tallies, saved and loaded ones, and the metric: bit for bit, similarities included."""
    scene = random_scene(11)
    whole = boxscore.evaluate(scene.detections, scene.truths, "olrp")
    images = np.arange(scene.num_images)
    truths = Truths(
        **scene.truth, box_format="xywh", class_names=scene.truths.class_names,
        image_names={image: str(image) for image in images.tolist()},
    )  # fmt: skip
    pieces = [
        boxscore.formats.select(scene.detections, truths, images=images[start::3].tolist()) for start in (1, 2, 0)
    ]
    tallies = [boxscore.match(*piece, "olrp") for piece in pieces]
    for number, tally in enumerate(tallies):
        tally.save(tmp_path / f"{number}.tally")
    loaded = [Tally.load(tmp_path / f"{number}.tally") for number in range(3)]
    metric = MeanAveragePrecision("olrp", warn=False, class_names=scene.truths.class_names)
    for piece in pieces:
        metric.update(*piece)
    for result in (boxscore.finish(tallies), boxscore.finish(loaded), metric.compute()):
        assert np.array_equal([*result.values()], [*whole.values()], equal_nan=True)
        for name in NAMES:
            assert np.array_equal(result.per_class.extra[name], whole.per_class.extra[name], equal_nan=True), name


def test_classes_have_their_columns() -> None:
    """In the rows of the result and in its plain values."""
    scene = random_scene(2)
    result = boxscore.evaluate(scene.detections, scene.truths, "olrp")
    for k, row in enumerate(result.per_class.rows()):
        assert tuple(row.extra) == NAMES
        assert np.array_equal(row.extra["olrp"], result.per_class.extra["olrp"][k], equal_nan=True)
    plain = result.to_dict()["per_class"]
    assert all(set(NAMES) <= set(row) for row in plain)
    assert Protocol.named("olrp").extra_names == NAMES[:4]
