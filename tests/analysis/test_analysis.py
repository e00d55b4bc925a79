"""Confusion, calibration, operating points, scores, worst images: by hand, by plain loops, and against the tally."""

import json
from typing import Any

import numpy as np
import pytest

import boxscore
import boxscore._compiled as _compiled
from boxscore import Detections, InputError, Protocol, Truths
from boxscore.analysis.pairing import Pairing, pair_rows
from boxscore.cli import sample
from boxscore.engines.native.pairs import match_across, nearest, side
from boxscore.engines.native.rules import rules_of
from boxscore.parallel import pairwise_iou
from boxscore.result.tally import FALSE, IGNORED, TRUE
from tests.support.scenes import Scene, random_scene

pytestmark = pytest.mark.native


def ious_of(scene: Scene, protocol: Protocol) -> Any:
    """The IoU of all pairs, -1 for those of different images. Shape (D, G)."""
    found, truth = scene.detection, scene.truth
    iou = pairwise_iou(found["boxes"][None], truth["boxes"][None], box_format="xywh", pixels=protocol.pixels)[0]
    return np.where(found["image_ids"][:, None] == truth["image_ids"], iou, -1)


@pytest.mark.parametrize("name", ["coco", "voc2012"])
@pytest.mark.parametrize("seed", range(6))
def test_the_nearest_truths_are_those_of_plain_loops(name: str, seed: int) -> None:
    """The first of the largest IoU, in the same class and in the others, among those that are there."""
    scene, random = random_scene(seed), np.random.default_rng(seed)
    protocol = Protocol.named(name).at()
    is_asked = random.random(scene.detection["labels"].size) < 0.8
    is_there = random.random(scene.truth["labels"].size) < 0.8
    near = nearest(side(scene.detections, is_asked), side(scene.truths, is_there), protocol, 2)
    iou_DG = ious_of(scene, protocol)
    is_own_DG = scene.detection["labels"][:, None] == scene.truth["labels"]
    for row, iou, is_wanted in ((near.own, near.own_iou, is_own_DG), (near.other, near.other_iou, ~is_own_DG)):
        masked_DG = np.where(is_wanted & is_there & is_asked[:, None], iou_DG, 0)
        best = masked_DG.max(axis=1, initial=0)
        assert np.array_equal(iou, best)
        assert np.array_equal(row, np.where(best > 0, masked_DG.argmax(axis=1), -1))


@pytest.mark.parametrize("name", ["coco", "paper"])
@pytest.mark.parametrize("seed", range(6))
def test_pairs_across_classes_are_those_of_plain_loops(name: str, seed: int) -> None:
    """By falling score, of equal ones the first; the free truth of another class with the largest IoU."""
    scene = random_scene(seed)
    protocol = Protocol.named(name).at(0.3)
    every, there = np.ones(scene.detection["labels"].size, bool), np.ones(scene.truth["labels"].size, bool)
    found = side(scene.detections, every)
    taken = match_across(found, side(scene.truths, there), protocol, 2)
    expected, iou_DG = np.full(every.size, -1), ious_of(scene, protocol)
    for d in np.argsort(-scene.detection["scores"], kind="stable"):
        is_open = there & (scene.truth["labels"] != scene.detection["labels"][d])
        is_open &= iou_DG[d] > 0.3 if protocol.comparison == ">" else iou_DG[d] >= 0.3
        if is_open.any():
            expected[d] = np.where(is_open, iou_DG[d], -1).argmax()
            there[expected[d]] = False
    assert np.array_equal(taken, expected)
    assert (taken >= 0).any()


def test_a_confusion_matrix_by_hand() -> None:
    """Two rounds: a class finds its own truths first, whatever the scores; then what is left meets other classes."""
    truths = Truths(
        image_ids=[0, 0, 0, 1, 1],
        labels=[1, 2, 1, 2, 2],
        boxes=[[0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10], [0, 0, 10, 10], [50, 50, 99, 99]],
        ignore=[False, False, False, False, True],
        class_names={1: "cat", 2: "dog"},
    )
    detections = Detections(
        image_ids=[0, 0, 0, 0, 1, 1, 1],
        labels=[2, 1, 2, 1, 1, 2, 1],
        scores=[0.9, 0.5, 0.8, 0.7, 0.6, 0.5, 0.1],
        boxes=[
            [0, 0, 10, 10],  # a dog where the cat is; the cat below finds it
            [0, 0, 10, 9],  # the cat
            [40, 0, 50, 10],  # a dog where a cat is that no cat finds
            [90, 90, 99, 99],  # a cat on nothing
            [0, 0, 10, 10],  # a cat where a dog is
            [60, 60, 70, 70],  # a dog among ignored dogs
            [0, 0, 9, 9],  # a cat below the threshold
        ],
    )
    confusion = boxscore.evaluate(detections, truths).confusion(score=0.2)
    assert confusion.count.tolist() == [
        [1, 1, 0],  # cats: one found, one found as a dog
        [1, 0, 1],  # dogs: one found as a cat, one not found
        [1, 1, 0],  # on nothing: a cat, and the dog on the cat that was found
    ]
    assert confusion.name == ("cat", "dog")
    assert confusion.largest() == [("cat", "dog", 1), ("dog", "cat", 1)]
    shares = boxscore.evaluate(detections, truths).confusion(score=0.2, normalize="truths").matrix
    assert np.array_equal(shares, [[0.5, 0.5, 0], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    assert str(confusion).splitlines()[4].split() == ["cat", "1", "1", "0"]


@pytest.mark.parametrize("name", ["coco", "voc2007", "paper"])
@pytest.mark.parametrize("seed", range(5))
def test_rows_are_truths_columns_detections_and_the_diagonal_true_positives(name: Any, seed: int) -> None:
    """Those of the tally, from a score on."""
    scene = random_scene(seed)
    result = boxscore.evaluate(scene.detections, scene.truths, name)
    for score in (None, 0.3, -1.0):
        confusion = result.confusion(score=score, iou=0.5)
        tally, verdict = result.tally, result.tally.verdict_at(0)
        is_kept = tally.score >= confusion.score

        def per_class(column: Any, labels: Any = tally.classes) -> Any:
            return np.bincount(np.searchsorted(labels, column), minlength=labels.size)

        assert np.array_equal(confusion.count[:-1].sum(axis=1), result.per_class.num_truths)
        assert np.array_equal(
            confusion.count[:, :-1].sum(axis=0), per_class(tally.label[is_kept & (verdict != IGNORED)])
        )
        assert np.array_equal(np.diagonal(confusion.count)[:-1], per_class(tally.label[is_kept & (verdict == TRUE)]))
        assert confusion.count[-1, -1] == 0


def test_without_a_score_the_threshold_is_that_of_the_best_f1(result: boxscore.Result) -> None:
    """Over all classes, at the same IoU."""
    for iou in (0.5, 0.75):
        assert result.confusion(iou=iou).score == result.operating_points(iou=iou).score[0]
        assert result.worst_images(iou=iou).score == result.scores(iou=iou).best == result.confusion(iou=iou).score


def test_many_classes_print_their_largest_confusions() -> None:
    """A matrix of 13 classes is not for reading."""
    labels = np.arange(13)
    truths = Truths(image_ids=labels, labels=labels, boxes=np.tile([0, 0, 10, 10], (13, 1)))
    wrong = Detections(
        image_ids=labels, labels=np.where(labels == 4, 7, labels), scores=np.full(13, 0.5), boxes=truths.boxes
    )
    lines = str(boxscore.evaluate(wrong, truths).confusion()).splitlines()
    assert lines[0].endswith("12 found as what they are, 1 as another class, 0 not found; 0 on background")
    assert lines[2:] == ["truth  found as  count", "-----  --------  -----", "4      7             1"]


def test_operating_points_by_hand() -> None:
    """Four detections of one class, with two equal scores, and a class that finds nothing."""
    truths = Truths(image_ids=[0, 1, 2, 3], labels=[1, 1, 1, 2], boxes=[[0, 0, 10, 10]] * 4)
    detections = Detections(
        image_ids=[0, 1, 9, 2, 8],
        labels=[1, 1, 1, 1, 1],
        scores=[0.9, 0.8, 0.8, 0.4, 0.2],
        boxes=[[0, 0, 10, 10]] * 5,
    )
    result = boxscore.evaluate(detections, truths)
    points = result.operating_points()
    # From 0.9: 1 TP. From 0.8: 2 TP, 1 FP. From 0.4: 3 TP, 1 FP. From 0.2: 3 TP, 2 FP.
    # F1 of class 1, with 3 truths: 2/4, 4/6, 6/7, 6/8.
    assert points.score[1] == 0.4
    assert (points.precision[1], points.recall[1], points.f1[1]) == (3 / 4, 1, 6 / 7)
    assert (points.num_true[1], points.num_false[1], points.num_truths[1]) == (3, 1, 3)
    # Of all classes there are 4 truths: 2/5, 4/7, 6/8, 6/9.
    assert (points.score[0], points.recall[0], points.f1[0]) == (0.4, 3 / 4, 6 / 8)
    assert np.isnan(points.score[2])
    assert points.name == ("all classes", "1", "2")
    assert result.operating_points(precision=0.7).score[1] == 0.4
    assert result.operating_points(precision=0.76).score[1] == 0.9
    assert result.operating_points(precision=0).score[1] == 0.2
    assert result.operating_points(recall=0.3).score[1] == 0.9
    assert result.operating_points(recall=0.34).score[1] == 0.8
    assert np.isnan(result.operating_points(recall=0.8).score[0])


def test_operating_points_are_those_of_trying_every_score() -> None:
    """On random scenes with many ties, by plain counting."""
    for seed in range(4):
        scene = random_scene(seed)
        result = boxscore.evaluate(scene.detections, scene.truths, "voc2012")
        tally, verdict = result.tally, result.tally.verdict_at(0)
        points = result.operating_points()
        for i, label in enumerate(points.label):
            is_of = np.ones(len(tally), bool) if label is None else tally.label == label
            best = (0.0, np.nan)
            for score in sorted(set(tally.score[is_of & (verdict != IGNORED)].tolist()), reverse=True):
                is_kept = is_of & (tally.score >= score)
                num_true, num_false = (int((is_kept & (verdict == kind)).sum()) for kind in (TRUE, FALSE))
                total = num_true + num_false + int(points.num_truths[i])
                if points.num_truths[i] and 2 * num_true / total > best[0]:
                    best = (2 * num_true / total, score)
            if best[0]:
                assert (points.f1[i], points.score[i]) == best


def test_calibration_by_hand() -> None:
    """Two bins: 0.5 is in the upper one, as is 1."""
    truths = Truths(image_ids=[0, 1, 2], labels=[1, 1, 1], boxes=[[0, 0, 10, 10]] * 3)
    detections = Detections(
        image_ids=[0, 1, 7, 8, 9], labels=[1] * 5, scores=[1.0, 0.5, 0.75, 0.25, 0.0], boxes=[[0, 0, 10, 10]] * 5
    )
    calibration = boxscore.evaluate(detections, truths).calibration(bins=2)
    assert calibration.count.tolist() == [2, 3]
    assert calibration.num_true.tolist() == [0, 2]
    assert calibration.mean_score.tolist() == [0.125, 0.75]
    assert calibration.precision.tolist() == [0, 2 / 3]
    # |2 * 0 - 0.25| and |2 - 2.25| of 5 detections.
    assert calibration.ece == 0.1
    assert calibration.mce == 0.125
    assert calibration.ece_of_class.tolist() == [0.1]


def test_a_calibrated_detector_has_no_calibration_error() -> None:
    """Three of four detections of score 0.75 are right."""
    truths = Truths(image_ids=[0, 1, 2], labels=[1] * 3, boxes=[[0, 0, 10, 10]] * 3)
    detections = Detections(image_ids=[0, 1, 2, 3], labels=[1] * 4, scores=[0.75] * 4, boxes=[[0, 0, 10, 10]] * 4)
    assert boxscore.evaluate(detections, truths).calibration().ece == 0


def test_ignored_detections_are_not_calibrated() -> None:
    """Nor are they in the histogram of scores."""
    truths = Truths(image_ids=[0], labels=[1], boxes=[[0, 0, 10, 10]], ignore=[True])
    detections = Detections(image_ids=[0, 1], labels=[1, 1], scores=[0.7, 0.2], boxes=[[0, 0, 10, 10]] * 2)
    result = boxscore.evaluate(detections, truths)
    assert result.calibration().count.sum() == 1
    assert (result.scores().num_true.sum(), result.scores().num_false.sum()) == (0, 1)


def test_scores_that_are_no_probabilities() -> None:
    """Calibration refuses them; the histogram takes its range from them."""
    truths = Truths(image_ids=[0], labels=[1], boxes=[[0, 0, 10, 10]])
    detections = Detections(image_ids=[0, 0], labels=[1, 1], scores=[3.5, -2.0], boxes=[[0, 0, 10, 10]] * 2)
    result = boxscore.evaluate(detections, truths)
    with pytest.raises(InputError, match="calibration needs scores between 0 and 1; got"):
        result.calibration()
    assert result.scores(bins=2).edge.tolist() == [-2, 0.75, 3.5]
    assert result.scores(bins=2).num_true.tolist() == [0, 1]
    assert result.operating_points().score.tolist() == [3.5, 3.5]


def test_worst_images_by_hand() -> None:
    """Most errors first, of equal ones the lower id; names where there are any."""
    truths = Truths(
        image_ids=[3, 3, 5, 8],
        labels=[1] * 4,
        boxes=[[0, 0, 10, 10], [50, 0, 60, 10], [0, 0, 10, 10], [0, 0, 10, 10]],
        image_names={3: "c.jpg", 5: "e.jpg", 8: "h.jpg"},
    )
    box = [[0, 0, 10, 10], *[[90, 90, 99, 99]] * 3, [0, 0, 10, 10]]
    detections = Detections(image_ids=[3, 5, 5, 5, 8], labels=[1] * 5, scores=[0.9] * 5, boxes=box)
    worst = boxscore.evaluate(detections, truths).worst_images(score=0.5)
    assert worst.name == ("e.jpg", "c.jpg", "h.jpg")
    assert worst.num_false.tolist() == [3, 0, 0]
    assert worst.num_unfound.tolist() == [1, 1, 0]
    assert worst.num_true.tolist() == [0, 1, 1]
    assert worst.num_errors.tolist() == [4, 1, 0]
    assert len(boxscore.evaluate(detections, truths).worst_images(score=0.5, num=2)) == 2


@pytest.mark.parametrize("seed", range(3))
def test_the_images_together_have_the_errors_of_all(seed: int) -> None:
    """False positives and truths not found."""
    scene = random_scene(seed)
    result = boxscore.evaluate(scene.detections, scene.truths)
    worst, errors = result.worst_images(score=-1.0, num=None), result.errors()
    assert (worst.num_false.sum(), worst.num_unfound.sum()) == (errors.num_false, errors.num_unfound)
    assert np.all(np.diff(worst.num_errors) <= 0)


def test_all_of_it_is_plain_json(result: boxscore.Result) -> None:
    """Also of nothing, where all is undefined."""
    nothing = boxscore.evaluate(
        Detections(image_ids=[], labels=[], scores=[], boxes=[]), Truths(image_ids=[], labels=[], boxes=[])
    )
    for each in (result, nothing):
        for name in ("errors", "confusion", "calibration", "operating_points", "scores", "worst_images"):
            analysis = getattr(each, name)()
            plain = analysis.to_dict()
            assert json.loads(json.dumps(plain, allow_nan=False)) == plain
            assert repr(analysis).startswith(type(analysis).__name__)
            assert "\n" in str(analysis)
    assert np.isnan(nothing.confusion().score)
    assert result.confusion(normalize="all").to_dict()["matrix"][0][0] == 73 / 227


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("confusion", {"score": float("nan")}, "`score` must be a finite number; got nan"),
        ("confusion", {"normalize": "rows"}, "`normalize` must be one of truths, detections, all; got 'rows'"),
        ("confusion", {"iou": -1}, "`iou` must be a number between 0 and 1; got -1"),
        ("calibration", {"bins": 0}, "`bins` must be an integer from 1 to 10000; got 0"),
        ("calibration", {"iou": 1.5}, "`iou` must be a number between 0 and 1; got 1.5"),
        ("scores", {"bins": 2.5}, "`bins` must be an integer from 1 to 10000; got 2.5"),
        ("operating_points", {"precision": 1.1}, "`precision` must be a number between 0 and 1; got 1.1"),
        ("operating_points", {"recall": 0.5, "precision": 0.5}, "give `precision` or `recall`, not both"),
        ("worst_images", {"num": 0}, "`num` must be a positive integer; got 0"),
    ],
)
def test_bad_options_are_explained(result: boxscore.Result, method: str, options: dict[str, Any], message: str) -> None:
    """With the argument's name."""
    with pytest.raises(InputError) as caught:
        getattr(result, method)(**options)
    assert str(caught.value).startswith(message)


def test_what_verdicts_alone_can_tell_a_stream_tells() -> None:
    """All but errors and confusion."""
    metric = boxscore.MeanAveragePrecision("voc2012")
    there = {"boxes": [[0, 0, 9, 9]], "labels": [1]}
    metric.update([{**there, "scores": [0.9]}], [there])
    result = metric.compute()
    assert result.operating_points().score.tolist() == [0.9, 0.9]
    assert result.calibration().ece == pytest.approx(0.1)
    assert len(result.worst_images()) == 1
    with pytest.raises(InputError, match="`confusion` needs the detections and truths"):
        result.confusion()
    with pytest.raises(InputError, match="`scores` at a threshold that was not measured needs the detections"):
        result.scores(iou=0.3)


def test_iou_means_the_same_in_every_analysis(result: boxscore.Result) -> None:
    """Any threshold: at one that was not measured it tells what an evaluation at that threshold does."""
    assert result.inputs is not None
    measured = boxscore.evaluate(*result.inputs, result.protocol.replace(thresholds=(0.3,)))
    for name in ("errors", "confusion", "calibration", "operating_points", "scores", "worst_images"):
        told, expected = getattr(result, name)(iou=0.3).to_dict(), getattr(measured, name)().to_dict()
        assert told == expected, name
        assert told != getattr(result, name)().to_dict(), name


def test_the_verdicts_of_a_cell_are_those_of_all(result: boxscore.Result) -> None:
    """In every threshold and area range, also where they need several words."""
    scene = random_scene(1)
    many = {f"size {a}": (a * 500, a * 500 + 700) for a in range(8)}
    wide = boxscore.evaluate(scene.detections, scene.truths, Protocol.named("coco", areas={"all": (0, None)} | many))
    for each in (result, wide):
        verdict = each.tally.verdict
        for a in range(verdict.shape[1]):
            for t in range(verdict.shape[2]):
                assert np.array_equal(each.tally.verdict_at(t, a), verdict[:, a, t])


def test_a_default_threshold_is_there_under_any_protocol() -> None:
    """0.5, or the first."""
    detections, truths = sample.load()
    result = boxscore.evaluate(detections, truths, Protocol.named("coco", thresholds=(0.3, 0.7)))
    for method in (result.errors, result.confusion, result.calibration, result.operating_points):
        assert method().iou == 0.3
    pairing: Pairing = pair_rows(detections, truths, result.protocol.at(), 1)
    assert pairing.protocol.thresholds == (0.3,)


def test_the_compiled_code_checks_what_it_is_given() -> None:
    """Sizes and types, before it reads anything."""
    ids, flags, numbers = np.zeros(2, np.int64), np.ones(2, np.uint8), np.zeros(2)
    boxes = _compiled.Boxes(np.zeros((2, 4)), _compiled.BoxFormat.xyxy, False)
    plain: dict[str, Any] = {"image": ids, "label": ids, "geometry": boxes}
    detections, truths = _compiled.Detections(**plain, score=numbers), _compiled.Truths(**plain)
    few = _compiled.Boxes(np.zeros((1, 4)), _compiled.BoxFormat.xyxy, False)
    for name, wrong in (("label", ids[:1]), ("score", numbers[:1]), ("geometry", few), ("coverage", flags[:1])):
        with pytest.raises(ValueError, match=rf"^{name}: unexpected"):
            _compiled.Detections(**{**plain, "score": numbers, name: wrong})
    for name, wrong in (("label", ids[:1]), ("geometry", few), ("area", numbers[:1]), ("kind", ids)):
        with pytest.raises(ValueError, match=rf"^{name}: unexpected"):
            _compiled.Truths(**plain | {name: wrong})
    with pytest.raises(ValueError, match=r"^geometry: expected a Geometry$"):
        _compiled.Truths(**plain | {"geometry": 1})
    with pytest.raises(ValueError, match=r"^box: expected four numbers per row$"):
        _compiled.Boxes(numbers, _compiled.BoxFormat.xyxy, False)
    rules = rules_of(Protocol.named("voc2012"))
    with pytest.raises(ValueError, match=r"^rules: expected one threshold$"):
        _compiled.match_across(detections, truths, flags, flags, rules_of(Protocol.named("coco")), 1)
    with pytest.raises(ValueError, match=r"^is_used: unexpected"):
        _compiled.match_across(detections, truths, flags[:1], flags, rules, 1)
    inclusive = _compiled.Boxes(np.zeros((2, 4)), _compiled.BoxFormat.xyxy, True)
    for other, message in ((inclusive, "is_inclusive: must be the same"), (_compiled.GivenShapes(numbers), "the same")):
        with pytest.raises(ValueError, match=message):
            _compiled.match(detections, _compiled.Truths(**plain | {"geometry": other}), ids, rules, 1)
