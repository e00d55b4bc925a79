"""Errors: TIDE's types and gains, equal to those of `tidecv`, and where they are not, why."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tidecv
from numpy.typing import NDArray
from tidecv.errors import main_errors

import boxscore
from boxscore import Detections, InputError, Protocol, Truths
from boxscore.analysis import errors
from boxscore.analysis.errors import TYPES, Errors, find_case
from boxscore.analysis.pairing import pair_rows
from boxscore.cli import sample
from boxscore.data.geometry.boxes import Boxes
from boxscore.result.tally import IGNORED
from tests.support.scenes import random_scene
from tests.support.shared import shared_data

# TIDE's AP: 101 recall points that are hundredths, not steps of 0.01, no epsilon, and no limit within a class.
TIDE = Protocol.named(
    "coco",
    name="tide",
    thresholds=(0.5,),
    recall_points=[x / 100 for x in range(101)],
    precision_epsilon=0,
    areas={"all": (0, None)},
    limits=(None,),
)

THEIRS = [
    main_errors.ClassError,
    main_errors.BoxError,
    main_errors.OtherError,
    main_errors.DuplicateError,
    main_errors.BackgroundError,
    main_errors.MissedError,
]
"""TIDE's names for our types, in our order."""


def run_tide(
    detections: Detections, truths: Truths, *, background: float = 0.1, limit: int = 10**9
) -> tidecv.quantify.TIDERun:
    """What `tidecv` makes of it, without its limit of 100 detections per image. Boxes are xywh."""
    there, found = tidecv.Data("truths", max_dets=limit), tidecv.Data("detections")
    ignore = np.zeros(len(truths), bool) if truths.ignore is None else truths.ignore
    for image, label, box, is_ignored in zip(truths.image_ids, truths.labels, truths.boxes, ignore, strict=True):
        (there.add_ignore_region if is_ignored else there.add_ground_truth)(int(image), int(label), box.tolist())
    for image, label, score, box in zip(
        detections.image_ids, detections.labels, detections.scores, detections.boxes, strict=True
    ):
        found.add_detection(int(image), int(label), float(score), box.tolist())
        there.images[int(image)]  # TIDE looks at the images of the truths alone
    return tidecv.TIDE(background_threshold=background).evaluate(there, found)


def without_ignored(detections: Detections, truths: Truths) -> Detections:
    """The detections that count: TIDE finds errors among ignored ones, too."""
    verdict = pair_rows(detections, truths, TIDE, 1).verdict
    return rows_of(detections, np.flatnonzero(verdict != IGNORED))


def rows_of(detections: Detections, row: NDArray[np.int64]) -> Detections:
    """Some of the detections."""
    columns = {name: getattr(detections, name)[row] for name in ("image_ids", "labels", "scores")}
    return replace(detections, **columns, geometry=detections.geometry.take(row))


def assert_same(detections: Detections, truths: Truths, *, background: float = 0.1) -> Errors:
    """Types of all boxes, counts, every curve after every fix: all are TIDE's. No two scores may be equal."""
    run = run_tide(detections, truths, background=background)
    found = boxscore.evaluate(detections, truths, TIDE).errors(background=background)
    theirs = np.full(len(detections), -1)
    for kind, error_class in enumerate(THEIRS[:-1]):
        theirs[[error.pred["_id"] for error in run.error_dict[error_class]]] = kind
    assert np.array_equal(found.detection_type, theirs)
    missed = np.zeros(len(truths), bool)
    missed[[error.gt["_id"] for error in run.error_dict[main_errors.MissedError]]] = True
    assert np.array_equal(found.truth_type == errors.MISSED, missed)
    assert found.count.tolist() == [len(run.error_dict[error_class]) for error_class in THEIRS]

    labels = found.label
    case = find_case(pair_rows(detections, truths, TIDE, 1), labels, background)
    fixes: list[tuple[boxscore.Tally, Any]] = [(case.tally(), run.ap_data)]
    for kind, error_class in enumerate(THEIRS):
        fixed = run.fix_errors(lambda error, error_class=error_class: isinstance(error, error_class))
        fixes.append((case.fixed(kind), fixed))
    fixes.append((case.without_false(), run.fix_errors(transform=main_errors.FalsePositiveError.fix)))
    fixes.append((case.without_unfound(), run.fix_errors(false_neg_dict=run.false_negatives)))
    gains = [0.0, *found.gain, found.false_gain, found.unfound_gain]
    for (tally, fixed), gain in zip(fixes, gains, strict=True):
        ours = boxscore.finish(tally)
        for k, label in enumerate(labels):
            _, precision = fixed.objs[int(label)].get_pr_curve() or (None, np.zeros(101))  # no truths left: AP 0
            assert np.array_equal(ours.curves.precision[0, :, k, 0, 0], precision)
        # The same samples, summed in another order.
        assert fixed.get_mAP() - run.ap == pytest.approx(100 * gain, abs=1e-10)
    return found


def scene_of(seed: int, *, is_crowded: bool = False) -> tuple[Detections, Truths]:
    """A random scene where no scores are equal, no IoU is, and every class has truths."""
    scene = random_scene(seed, num_classes=4, num_images=20)
    random = np.random.default_rng(seed)
    found, truth = dict(scene.detection), dict(scene.truth)
    size, num_truths = found["labels"].size, truth["labels"].size
    found["scores"] = random.permutation(size) / size
    found["labels"] = random.integers(0, 3, size) if seed % 2 else np.where(found["labels"] > 2, 0, found["labels"])
    truth["labels"] = np.where(random.random(num_truths) < 0.3, random.integers(0, 3, num_truths), truth["labels"] % 3)
    for boxes in (found["boxes"], truth["boxes"]):
        boxes += random.uniform(0.01, 0.02, boxes.shape)
    if not is_crowded:
        truth["ignore"] = np.zeros(num_truths, bool)
    return Detections(**found, box_format="xywh"), Truths(**truth, box_format="xywh")


@pytest.mark.parametrize("seed", range(12))
def test_types_counts_and_gains_are_those_of_tide(seed: int) -> None:
    """On random scenes, with several background thresholds."""
    found = assert_same(*scene_of(seed), background=(0.1, 0.3, 0.02)[seed % 3])
    assert (found.count[[0, 1, 4]] > 0).all(), "the scene has something to say"


@pytest.mark.parametrize("seed", range(4))
def test_among_crowds_too_if_ignored_detections_are_left_out(seed: int) -> None:
    """They are no false positives, so they are no errors."""
    detections, truths = scene_of(seed, is_crowded=True)
    assert_same(without_ignored(detections, truths), truths)


def test_the_errors_of_real_detections_are_those_of_tide() -> None:
    """All of COCO val2017; scores that are equal are told apart, as TIDE's order of those is its own."""
    truths = boxscore.read_truths(shared_data("coco_val2017/instances_val2017_boxes.json"))
    detections = boxscore.read_detections(shared_data("coco_val2017/yolox_nano.json"), truths)
    order = np.argsort(np.argsort(-detections.scores, kind="stable"), kind="stable")
    detections = without_ignored(replace(detections, scores=1 - order / order.size), truths)
    found = assert_same(detections, truths)
    assert found.count.sum() > 200_000


def test_each_type_by_hand() -> None:
    """One of each, in one image of two classes; the numbers are derived here."""
    truths = Truths(
        image_ids=[0, 0, 0, 0],
        labels=[1, 1, 2, 1],
        boxes=[[0, 0, 10, 10], [50, 0, 60, 10], [100, 0, 110, 10], [150, 0, 160, 10]],
    )
    detections = Detections(
        image_ids=[0] * 6,
        labels=[1, 1, 1, 1, 1, 2],
        scores=[0.9, 0.8, 0.7, 0.6, 0.5, 0.4],
        boxes=[
            [0, 0, 10, 10],  # right
            [0, 0, 10, 9],  # the same truth again
            [55, 0, 65, 10],  # a third of the second truth
            [100, 0, 110, 10],  # the third truth is of class 2
            [200, 0, 210, 10],  # nothing there
            [155, 0, 165, 10],  # a third of the fourth truth, which is of class 1
        ],
    )
    found = boxscore.evaluate(detections, truths, "voc2012").errors()
    assert [TYPES[kind] for kind in found.detection_type[1:]] == [
        "duplicate",
        "localisation",
        "classification",
        "background",
        "both",
    ]
    assert found.detection_type[0] == -1
    assert found.detection_truth.tolist() == [-1, 0, 1, 2, -1, 3]
    assert [TYPES[kind] if kind >= 0 else "" for kind in found.truth_type] == [
        "",
        "localisation",
        "classification",
        "missed",
    ]
    assert found.count.tolist() == [1, 1, 1, 1, 1, 1]
    assert (found.num_false, found.num_unfound) == (5, 3)
    # Class 1 finds the first of its 3 truths at once: AP 1/3. Class 2 finds nothing: AP 0.
    assert found.ap_of_class == pytest.approx([1 / 3, 0])
    gain = dict(zip(TYPES, found.gain_of_class.tolist(), strict=True))
    # The detection of the third truth becomes one of class 2, with the highest score there: AP 1.
    assert gain["classification"] == pytest.approx([0, 1])
    # The second truth is found by the third detection of class 1: 1/3 + 1/3 * 2/3.
    assert gain["localisation"] == pytest.approx([2 / 9, 0])
    assert gain["duplicate"] == gain["background"] == gain["both"] == pytest.approx([0, 0])
    # One of the three truths of class 1 is gone: AP 1/2.
    assert gain["missed"] == pytest.approx([1 / 6, 0])
    assert found.gain == pytest.approx([1 / 2, 1 / 9, 0, 0, 0, 1 / 12])
    # Without false positives nothing more is found. Without truths that were not found class 1 has AP 1, and class 2,
    # which would have none left, keeps its 0.
    assert (found.false_gain, found.unfound_gain) == pytest.approx((0, 1 / 3))
    assert str(found).splitlines()[4].split()[:3] == ["classification", "1", "+0.5000"]


def test_an_iou_of_exactly_the_threshold_is_a_localisation_error_as_in_tide() -> None:
    """Even where the truth is taken, and it is a duplicate by rights."""
    truths = Truths(image_ids=[0], labels=[0], boxes=[[0.0, 0.0, 10.0, 10.0]], box_format="xywh")
    box = [[0.0, 0.0, 10.0, 10.0], [0.0, 0.0, 10.0, 5.0]]
    detections = Detections(image_ids=[0, 0], labels=[0, 0], scores=[0.9, 0.8], boxes=box, box_format="xywh")
    found = assert_same(detections, truths)
    assert found.detection_type.tolist() == [-1, errors.LOCALISATION]


def test_tide_takes_the_first_of_equal_truths_and_coco_the_last() -> None:
    """Two truths in the same place, one detection: which of them is missed."""
    truths = Truths(image_ids=[0, 0], labels=[0, 0], boxes=[[0.0, 0.0, 10.0, 10.0]] * 2, box_format="xywh")
    detections = Detections(image_ids=[0], labels=[0], scores=[0.9], boxes=[[0.0, 0.0, 10.0, 10.0]], box_format="xywh")
    (missed,) = run_tide(detections, truths).error_dict[main_errors.MissedError]
    assert missed.gt["_id"] == 1
    assert boxscore.evaluate(detections, truths, TIDE).errors().truth_type.tolist() == [errors.MISSED, -1]


def test_a_crowd_needs_more_than_the_threshold_in_tide() -> None:
    """Half of a detection in a crowd is enough for COCO to ignore it; TIDE has a false positive."""
    box = [[0.0, 0.0, 10.0, 10.0], [50.0, 0.0, 50.0, 50.0]]
    truths = Truths(image_ids=[0, 0], labels=[0, 0], boxes=box, ignore=[False, True], box_format="xywh")
    detections = Detections(image_ids=[0], labels=[0], scores=[0.9], boxes=[[45.0, 0.0, 10.0, 10.0]], box_format="xywh")
    assert len(run_tide(detections, truths).ap_data.objs[0].data_points) == 1
    assert boxscore.evaluate(detections, truths, TIDE).errors().num_false == 0


def test_tide_takes_the_best_100_of_an_image_and_coco_those_of_each_class() -> None:
    """The hit is the 101st of its image, and the first of its class."""
    truths = Truths(image_ids=[0], labels=[0], boxes=[[0.0, 0.0, 10.0, 10.0]], box_format="xywh")
    box = [[50.0, 0.0, 10.0, 10.0]] * 100 + [[0.0, 0.0, 10.0, 10.0]]
    score = 1 - np.arange(101) / 101
    detections = Detections(image_ids=[0] * 101, labels=[1] * 100 + [0], scores=score, boxes=box, box_format="xywh")
    assert run_tide(detections, truths, limit=100).ap == 0
    assert boxscore.evaluate(detections, truths).errors().ap == pytest.approx(1)


def test_tide_finds_errors_among_ignored_detections() -> None:
    """A detection in a crowd is background to TIDE's counts, though not to its AP; here it is no error."""
    truths = Truths(
        image_ids=[0, 0], labels=[0, 0], boxes=[[0.0, 0.0, 10.0, 10.0], [50.0, 0.0, 50.0, 50.0]], ignore=[False, True]
    )
    box = [[0.0, 0.0, 10.0, 10.0], [60.0, 10.0, 10.0, 10.0]]
    detections = Detections(image_ids=[0, 0], labels=[0, 0], scores=[0.9, 0.8], boxes=box, box_format="xywh")
    truths = replace(truths, geometry=Boxes(boxes=truths.boxes, box_format="xywh"))
    assert run_tide(detections, truths).count_errors()[main_errors.BackgroundError] == 1
    assert boxscore.evaluate(detections, truths, TIDE).errors().count.sum() == 0


def test_tide_counts_classes_without_truths_as_0() -> None:
    """COCO, and with it boxscore, leaves them out of the mean; so fixing their false positives gains nothing."""
    truths = Truths(image_ids=[0], labels=[0], boxes=[[0.0, 0.0, 10.0, 10.0]], box_format="xywh")
    box = [[0.0, 0.0, 10.0, 10.0], [50.0, 0.0, 10.0, 10.0]]
    detections = Detections(image_ids=[0, 0], labels=[0, 1], scores=[0.9, 0.8], boxes=box, box_format="xywh")
    theirs, ours = run_tide(detections, truths), boxscore.evaluate(detections, truths, TIDE).errors()
    assert (theirs.ap, ours.ap) == (50, 1)
    assert theirs.fix_main_errors()[main_errors.BackgroundError] == 50
    assert ours.gain[errors.BACKGROUND] == 0


def test_tide_leaves_out_a_class_that_a_fix_leaves_empty() -> None:
    """A class without detections: without its missed truths its 0 is not in TIDE's mean any more; it stays in ours."""
    truths = Truths(
        image_ids=[0, 0], labels=[0, 1], boxes=[[0.0, 0.0, 10.0, 10.0], [50.0, 0.0, 9.0, 9.0]], box_format="xywh"
    )
    detections = Detections(image_ids=[0], labels=[0], scores=[0.9], boxes=[[0.0, 0.0, 10.0, 10.0]], box_format="xywh")
    theirs, ours = run_tide(detections, truths), boxscore.evaluate(detections, truths, TIDE).errors()
    assert theirs.fix_main_errors()[main_errors.MissedError] == 50
    assert ours.gain[errors.MISSED] == 0


def test_tide_puts_errors_first_among_equal_scores_once_it_fixes() -> None:
    """So AP changes with nothing fixed; here equal scores keep their order."""
    truths = Truths(image_ids=[0], labels=[0], boxes=[[0.0, 0.0, 10.0, 10.0]], box_format="xywh")
    box = [[0.0, 0.0, 10.0, 10.0], [50.0, 0.0, 10.0, 10.0]]
    detections = Detections(image_ids=[0, 1], labels=[0, 0], scores=[0.9, 0.9], boxes=box, box_format="xywh")
    run = run_tide(detections, truths)
    assert (run.ap, run.fix_errors().get_mAP()) == (100, 50)
    case = find_case(pair_rows(detections, truths, TIDE, 1), np.array([0]), 0.1)
    assert boxscore.finish(case.tally())["map"] == 1


@pytest.mark.parametrize("name", ["coco", "voc2007", "voc2012", "paper"])
@pytest.mark.parametrize("changes", [{}, {"average": "micro"}, {"average": "weighted"}, {"class_agnostic": True}])
def test_the_pairs_are_those_of_the_tally(name: str, changes: dict[str, Any]) -> None:
    """At every threshold: AP, false positives, true positives, truths."""
    for seed in range(4):
        scene = random_scene(seed)
        protocol = Protocol.named(name, **changes)
        result = boxscore.evaluate(scene.detections, scene.truths, protocol)
        for t, iou in enumerate(protocol.thresholds):
            found = result.errors(iou=iou, threads=1 + seed % 2)
            assert found.iou == iou
            assert found.ap == result.per_threshold[iou]
            assert np.array_equal(found.ap_of_class, result.per_class.ap_at[:, t], equal_nan=True)
            assert found.num_false == result.per_class.num_false[:, t].sum() == found.count[:-1].sum()
            num_found = result.per_class.num_true[:, t].sum()
            assert found.num_unfound == result.per_class.num_truths.sum() - num_found
            assert (found.detection_type >= 0).sum() == found.num_false
            assert (found.truth_type >= 0).sum() == found.num_unfound


def test_rows_are_as_they_were_given_where_all_are_one_class() -> None:
    """Though labels decide the order of equal scores."""
    truths = Truths(image_ids=[0, 0], labels=[7, 3], boxes=[[0, 0, 10, 10], [50, 0, 60, 10]])
    box = [[0, 0, 10, 10], [200, 0, 210, 10], [55, 0, 65, 10]]
    detections = Detections(image_ids=[0] * 3, labels=[9, 1, 5], scores=[0.9] * 3, boxes=box)
    found = boxscore.evaluate(detections, truths, Protocol.named("coco", class_agnostic=True)).errors()
    assert found.detection_type.tolist() == [-1, errors.BACKGROUND, errors.LOCALISATION]
    assert found.detection_truth.tolist() == [-1, -1, 1]
    assert found.truth_type.tolist() == [-1, errors.LOCALISATION]


def test_detections_beyond_the_limit_are_no_errors() -> None:
    """They are not part of the evaluation."""
    truths = Truths(image_ids=[0], labels=[0], boxes=[[0, 0, 10, 10]])
    detections = Detections(image_ids=[0] * 3, labels=[0] * 3, scores=[0.9, 0.8, 0.7], boxes=[[50, 0, 60, 10]] * 3)
    found = boxscore.evaluate(detections, truths, Protocol.named("coco", limits=(2,))).errors()
    assert found.detection_type.tolist() == [errors.BACKGROUND, errors.BACKGROUND, -1]


def test_bad_options_are_explained() -> None:
    """With the argument's name."""
    result = boxscore.evaluate(*sample.load())
    for options, message in (
        ({"background": 0.6}, "`background` must lie above 0 and not above the IoU threshold, 0.5; got 0.6"),
        ({"background": 0}, "`background` must lie above 0 and not above the IoU threshold, 0.5; got 0"),
        ({"iou": 1.5}, "`iou` must be a number between 0 and 1; got 1.5"),
        ({"iou": "high"}, "`iou` must be a finite number; got 'high'"),
    ):
        with pytest.raises(InputError) as caught:
            result.errors(**options)
        assert str(caught.value) == message


def test_any_iou_will_do_where_boxes_are() -> None:
    """Also one that the protocol does not measure at."""
    found = boxscore.evaluate(*sample.load()).errors(iou=0.3)
    assert found.iou == 0.3
    assert found.ap > boxscore.evaluate(*sample.load())["map_50"]


def test_a_stream_has_forgotten_its_boxes() -> None:
    """The message says where they would be kept."""
    metric = boxscore.MeanAveragePrecision("voc2012")
    there = {"boxes": [[0, 0, 9, 9]], "labels": [1]}
    metric.update([{**there, "scores": [0.9]}], [there])
    with pytest.raises(
        InputError,
        match=r"`errors` needs the detections and truths.*`boxscore.evaluate\(detections, truths\)` retains them",
    ):
        metric.compute().errors()
