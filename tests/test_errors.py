"""Errors: TIDE's types and gains, equal to those of `tidecv`, and where they are not, why."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tidecv
from numpy.typing import NDArray
from tidecv.errors import main_errors

import boxscore
from boxscore import Detections, Protocol, Truths
from boxscore.analysis import errors
from boxscore.analysis.errors import Errors, find_case
from boxscore.analysis.pairing import pair_boxes
from boxscore.tally import IGNORED
from tests.scenes import random_scene
from tests.shared import shared_data

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


def run_tide(detections: Detections, truths: Truths, *, background: float = 0.1) -> tidecv.quantify.TIDERun:
    """What `tidecv` makes of it, without its limit of 100 detections an image. Boxes are xywh."""
    there, found = tidecv.Data("truths", max_dets=10**9), tidecv.Data("detections")
    ignore = np.zeros(len(truths), bool) if truths.ignore is None else truths.ignore
    for image, label, box, is_ignored in zip(truths.image, truths.label, truths.box, ignore, strict=True):
        (there.add_ignore_region if is_ignored else there.add_ground_truth)(int(image), int(label), box.tolist())
    for image, label, score, box in zip(
        detections.image, detections.label, detections.score, detections.box, strict=True
    ):
        found.add_detection(int(image), int(label), float(score), box.tolist())
        there.images[int(image)]  # TIDE looks at the images of the truths alone
    return tidecv.TIDE(background_threshold=background).evaluate(there, found)


def without_ignored(detections: Detections, truths: Truths) -> Detections:
    """The detections that count: TIDE finds errors among ignored ones, too."""
    verdict = pair_boxes(detections, truths, TIDE, 1).pairs.verdict
    return rows_of(detections, np.flatnonzero(verdict != IGNORED))


def rows_of(detections: Detections, row: NDArray[np.int64]) -> Detections:
    """Some of the detections."""
    columns = {name: getattr(detections, name)[row] for name in ("image", "label", "score", "box")}
    return replace(detections, **columns)


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
    case = find_case(pair_boxes(detections, truths, TIDE, 1), labels, background)
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
    size, num_truths = found["label"].size, truth["label"].size
    found["score"] = random.permutation(size) / size
    found["label"] = random.integers(0, 3, size) if seed % 2 else np.where(found["label"] > 2, 0, found["label"])
    truth["label"] = np.where(random.random(num_truths) < 0.3, random.integers(0, 3, num_truths), truth["label"] % 3)
    for boxes in (found["box"], truth["box"]):
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
    order = np.argsort(np.argsort(-detections.score, kind="stable"), kind="stable")
    detections = without_ignored(replace(detections, score=1 - order / order.size), truths)
    found = assert_same(detections, truths)
    assert found.count.sum() > 200_000
