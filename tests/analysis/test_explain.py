"""The path from one number to another: its steps by hand, its laws, its words."""

import json
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, Protocol, Truths
from boxscore.analysis import explanation as explanation_module
from boxscore.analysis.explanation import NO_EFFECT, verdicts_as_given
from boxscore.analysis.known_tools import TOOLS
from boxscore.analysis.pairing import as_given, pair_rows
from boxscore.data import Coverage
from boxscore.data.preparation import kept_detections, prepare
from boxscore.protocol.table import PROTOCOLS
from boxscore.protocol.words import STEPS, ordered_steps
from tests.support.scenes import random_scene
from tests.support.shared import shared_data

BASE = Protocol.named("voc2012", pixels="continuous")
"""One threshold, 0.5; a detection may take its best truth alone; AP is the area under the envelope."""

SQUARE, OTHER = [0, 0, 10, 10], [20, 0, 30, 10]


def truths_of(*boxes: list[int], **more: Any) -> Truths:
    """Truths of class 1 in image 0, unless `more` says otherwise."""
    num = len(boxes)
    return Truths(**{"image_ids": [0] * num, "labels": [1] * num, "boxes": list(boxes), **more})


def detections_of(*boxes: list[int], **more: Any) -> Detections:
    """Detections of class 1 in image 0, with scores 0.9, 0.8, …, unless `more` says otherwise."""
    num = len(boxes)
    score = [0.9 - 0.1 * i for i in range(num)]
    return Detections(**{"image_ids": [0] * num, "labels": [1] * num, "scores": score, "boxes": list(boxes), **more})


BY_HAND: dict[str, tuple[Detections, Truths, Protocol, dict[str, Any], float, float, list[tuple[str, str, int]]]] = {
    # 9 x 9 and 9 x 4: 36 / 81 is below 0.5. With +1 pixel 10 x 10 and 10 x 5: 0.5.
    "geometry": (
        *(detections_of([0, 0, 9, 4]), truths_of([0, 0, 9, 9]), BASE),
        *({"pixels": "inclusive"}, 0.0, 1.0, [("false positive", "true positive", 1)]),
    ),
    # Both truths are found, with scores 0.9 and 0.8. From 0.85 on, one of two.
    "score cut-off": (
        *(detections_of(SQUARE, OTHER), truths_of(SQUARE, OTHER), BASE),
        *({"min_score": 0.85}, 1.0, 0.5, [("true positive", "left out", 1)]),
    ),
    # IoU 0.6.
    "thresholds": (
        *(detections_of([0, 0, 10, 6]), truths_of(SQUARE), BASE),
        *({"thresholds": (0.75,)}, 1.0, 0.0, [("true positive", "false positive", 1)]),
    ),
    # The difficult truth is found, the other one not: 0 of 1, then 1 of 2.
    "ignored truths": (
        *(detections_of(OTHER), truths_of(SQUARE, OTHER, ignore=[False, True]), BASE),
        *({"ignored": "regular"}, 0.0, 0.5, [("ignored", "true positive", 1)]),
    ),
    # The group is found, the other truth not: 0 of 1, then 1 of 2.
    "groups": (
        *(detections_of(OTHER), truths_of(SQUARE, OTHER, kind=[0, 3]), BASE.replace(group_of_weight=0)),
        *({"group_of_weight": 1}, 0.0, 0.5, [("ignored", "true positive", 1)]),
    ),
    # The surer detection is in image 1, where nobody verified class 1. With it precision is 1/2 at recall 1.
    "verified classes": (
        detections_of(SQUARE, SQUARE, image_ids=[1, 0]),
        *(truths_of(SQUARE, coverage=Coverage(image_ids=[0], labels=[1])), BASE),
        *({"federated": True}, 0.5, 1.0, [("false positive", "left out", 1)]),
    ),
    # IoU 0.5.
    "match condition": (
        *(detections_of([0, 0, 10, 5]), truths_of(SQUARE), BASE),
        *({"comparison": ">"}, 1.0, 0.0, [("true positive", "false positive", 1)]),
    ),
    # Both detections are nearest to the first truth; the second has IoU 0.6 with the second truth, too.
    "matching rule": (
        *(detections_of(SQUARE, SQUARE), truths_of(SQUARE, [0, 0, 10, 6]), BASE),
        *({"matching": "next_best"}, 0.5, 1.0, [("false positive", "true positive", 1)]),
    ),
    # The first detection has IoU 1/3 with both truths. If it takes the first truth, nothing is left for the second.
    "ties": (
        *(detections_of([5, 0, 15, 10], SQUARE), truths_of(SQUARE, [10, 0, 20, 10]), BASE.replace(thresholds=(0.3,))),
        *({"ties": "last"}, 0.5, 1.0, [("false positive", "true positive", 1)]),
    ),
    # The small truth is not found. From an area of 50 on it does not count.
    "areas": (
        *(detections_of(SQUARE), truths_of(SQUARE, [20, 0, 25, 5]), BASE),
        *({"areas": {"large": (50, None)}}, 0.5, 1.0, []),
    ),
    "limits": (
        *(detections_of(SQUARE, OTHER), truths_of(SQUARE, OTHER), BASE),
        *({"limits": (1,)}, 1.0, 0.5, [("true positive", "left out", 1)]),
    ),
    # One of two is found. Precision is 1 at recalls 0, 0.1, …, 0.5: 6 points of 11.
    "AP rule": (
        *(detections_of(SQUARE), truths_of(SQUARE, OTHER), BASE),
        *({"ap": "interpolated", "recall_points": tuple(i * 0.1 for i in range(11))}, 0.5, 6 / 11, []),
    ),
    # Class 1 has three truths, all found; class 2 has one, which is not: (1 + 0) / 2, then (3 * 1 + 1 * 0) / 4.
    "averaging": (
        detections_of(SQUARE, SQUARE, SQUARE, image_ids=[0, 1, 2]),
        *(truths_of(SQUARE, SQUARE, SQUARE, SQUARE, image_ids=[0, 1, 2, 3], labels=[1, 1, 1, 2]), BASE),
        *({"average": "weighted"}, 0.5, 0.75, []),
    ),
}


def test_every_step_has_a_case_by_hand() -> None:
    """In the order of the steps."""
    assert list(BY_HAND) == [step.name for step in STEPS]


@pytest.mark.parametrize("name", BY_HAND)
def test_a_step_by_hand(name: str) -> None:
    """One rule changes, and with it the number, by what the comment derives."""
    detections, truths, before, changes, first, last, verdicts = BY_HAND[name]
    explanation = boxscore.explain(detections, truths, before, before.replace(**changes))
    (step,) = explanation.steps
    assert step.name == name
    assert {change.field for change in step.fields} == set(changes)
    assert (step.before, step.after) == (explanation.first, explanation.last) == pytest.approx((first, last))
    assert step.difference == pytest.approx(last - first)
    assert list(step.verdicts) == verdicts
    assert step.num_changed == sum(num for *_, num in verdicts)
    assert step.has_effect
    assert step.reason.endswith(".")
    assert step.reason != NO_EFFECT


@pytest.mark.parametrize("name", BY_HAND)
def test_a_step_and_its_way_back_cancel(name: str) -> None:
    """From the second protocol to the first, numbers and verdicts change the other way."""
    detections, truths, before, changes, *_ = BY_HAND[name]
    (there,) = boxscore.explain(detections, truths, before, before.replace(**changes)).steps
    (back,) = boxscore.explain(detections, truths, before.replace(**changes), before).steps
    assert (back.before, back.after) == (there.after, there.before)
    assert {(old, new, num) for old, new, num in back.verdicts} == {(new, old, num) for old, new, num in there.verdicts}
    assert back.reason != there.reason
    assert [(each.before, each.after) for each in back.fields] == [(each.after, each.before) for each in there.fields]


PATHS = [("coco", "ultralytics"), ("coco", "voc2012"), ("voc2007", "torchmetrics"), ("paper", "coco")]


@pytest.mark.parametrize("names", PATHS)
@pytest.mark.parametrize("seed", range(4))
def test_the_steps_lead_from_one_number_to_the_other(names: tuple[str, str], seed: int) -> None:
    """Each begins where the one before ended, so the differences add up to the whole."""
    scene = random_scene(seed, num_images=20)
    explanation = boxscore.explain(scene.detections, scene.truths, *names)
    ends: list[Any] = [TOOLS[name].protocol if name in TOOLS else name for name in names]
    assert explanation.first == boxscore.evaluate(scene.detections, scene.truths, ends[0])["map"]
    assert explanation.last == boxscore.evaluate(scene.detections, scene.truths, ends[1])["map"]
    numbers = [explanation.first, *(step.after for step in explanation.steps)]
    assert numbers == [*(step.before for step in explanation.steps), explanation.last]
    assert sum(step.difference for step in explanation.steps) == pytest.approx(explanation.difference)
    order = explanation.order
    assert sorted(order) == sorted(step.name for step in STEPS)
    assert [step.name for step in explanation.steps] == sorted((s.name for s in explanation.steps), key=order.index)


EVERY_RULE = {name: TOOLS[name].protocol if name in TOOLS else PROTOCOLS[name] for name in (*PROTOCOLS, *TOOLS)}


@pytest.mark.parametrize("source", EVERY_RULE)
def test_crowds_are_only_where_regular_truths_come_first(source: str) -> None:
    """On no path is there a mixture that no tool has: crowds that win against a detection's own truth."""
    for target in EVERY_RULE.values():
        steps = [each for *_, each in explanation_module._path(EVERY_RULE[source], target)]
        assert all(each.matching == "next_best" for each in steps if each.ignored == "crowd")


def test_the_order_of_steps_is_fixed() -> None:
    """Ignored truths come before the matching rule; where they become crowds, behind ties."""
    coco, voc, lvis = (Protocol.named(name) for name in ("coco", "voc2012", "lvis"))
    assert ordered_steps(coco, voc) == ordered_steps(coco, lvis) == ordered_steps(voc, lvis) == STEPS
    names = [step.name for step in ordered_steps(voc, coco)]
    assert names == [step.name for step in ordered_steps(lvis, coco)]
    assert names.index("ignored truths") == names.index("ties") + 1
    assert [name for name in names if name != "ignored truths"] == [
        step.name for step in STEPS if step.name != "ignored truths"
    ]


def test_verdicts_change_at_any_threshold() -> None:
    """With IoU 0.75 exactly, a stricter match condition changes nothing at 0.50 and one detection at 0.75."""
    detections, truths = detections_of([0, 0, 4, 3]), truths_of([0, 0, 4, 4])
    before = BASE.replace(thresholds=(0.5, 0.75))
    (step,) = boxscore.explain(detections, truths, before, before.replace(comparison=">")).steps
    assert (step.before, step.after) == (1, 0.5)
    assert (step.num_changed, step.verdicts) == (1, ())
    assert step.reason == (
        "An IoU equal to the threshold no longer suffices: 1 detection changes its verdict at thresholds other than IoU"
        " 0.50."
    )
    # A second detection, with IoU 0.5 in another image, changes at 0.50.
    detections = detections_of([0, 0, 4, 3], [0, 0, 4, 2], image_ids=[0, 1])
    truths = truths_of([0, 0, 4, 4], [0, 0, 4, 4], image_ids=[0, 1])
    (step,) = boxscore.explain(detections, truths, before, before.replace(comparison=">")).steps
    assert (step.num_changed, step.verdicts) == (2, (("true positive", "false positive", 1),))
    assert step.reason.endswith(
        ": 1 true positive becomes a false positive at IoU 0.50, and 1 more changes at other thresholds."
    )


def test_only_shared_thresholds_count() -> None:
    """Whatever their last digits; without a shared one, the first of each side are compared."""
    detections, truths = detections_of([0, 0, 10, 6]), truths_of(SQUARE)
    (step,) = boxscore.explain(detections, truths, "coco", Protocol.named("coco", thresholds=(0.5,))).steps
    assert (step.num_changed, step.verdicts) == (0, ())
    first, *_ = boxscore.explain(detections, truths, "coco", "torchmetrics").steps
    assert (first.name, first.num_changed, first.verdicts) == ("thresholds", 1, ())  # 0.6, which is 0.60000002
    some = BASE.replace(thresholds=(0.55, 0.7))
    explanation = boxscore.explain(detections, truths, some, some.replace(thresholds=(0.4, 0.7)))
    assert explanation.steps[0].num_changed == 0
    assert explanation.verdicts_at == "IoU 0.70 in area range all"
    explanation = boxscore.explain(detections, truths, some, some.replace(thresholds=(0.65,)))
    assert explanation.steps[0].num_changed == 1
    assert explanation.verdicts_at == "IoU 0.55 in area range all, then IoU 0.65 in area range all"


def test_the_threads_change_nothing() -> None:
    """The same bits, whatever their number."""
    scene = random_scene(0)
    one, three = (boxscore.explain(scene.detections, scene.truths, threads=threads) for threads in (1, 3))
    assert one.to_dict() == three.to_dict()


@pytest.mark.parametrize("name", ["coco", "paper", "crowdhuman"])
def test_the_path_from_a_protocol_to_itself_is_empty(name: str) -> None:
    """And so is the one to a protocol that only measures more."""
    truths = truths_of(SQUARE, image_sizes={0: (100, 100)})
    explanation = boxscore.explain(detections_of(SQUARE), truths, name, Protocol.named(name, extra_numbers=("mr",)))
    assert explanation.steps == ()
    assert explanation.first == explanation.last
    assert "order of steps" not in str(explanation)
    assert "The rules are the same." in str(explanation)


CHANGES: list[dict[str, Any]] = [
    {},
    {"min_score": 0.5},
    {"limits": (2,)},
    {"limits": (5,), "limits_per": "image"},
    {"limits": (7,), "limits_per": "dataset"},
    {"class_agnostic": True},
    {"class_agnostic": True, "min_score": 0.3, "limits": (3,)},
    {"thresholds": (0.6, 0.8), "empty": "drop"},
]


@pytest.mark.parametrize("name", ["coco", "voc2012", "paper", "ultralytics"])
@pytest.mark.parametrize("changes", CHANGES)
def test_verdicts_are_those_of_pairs_and_of_the_tally(name: str, changes: dict[str, Any]) -> None:
    """Of rows as they were given, at each threshold; those that the tally has not are left out."""
    scene = random_scene(5, num_images=20)
    detections, truths = scene.detections, scene.truths
    protocol = Protocol.named(name, **changes)
    tally = boxscore.match(detections, truths, protocol, trace=True)
    every = verdicts_as_given(tally, len(detections))
    assert every.shape == (len(protocol.thresholds), len(detections))
    is_kept = kept_detections(detections, protocol)
    rows = np.flatnonzero(np.ones(len(detections), bool) if is_kept is None else is_kept)
    for t, threshold in enumerate(protocol.thresholds):
        pairing = pair_rows(*prepare(detections, truths, protocol), protocol.at(threshold), 1)
        expected = as_given(pairing.verdict, pairing.detection_row)
        is_in = every[t] != 3  # fewer than those of pairs, where the limit is over the dataset
        assert np.array_equal(every[t][rows][is_in[rows]], expected[is_in[rows]])
        assert protocol.limits_per == "dataset" or np.array_equal(is_in[rows], expected != 3)
    tally, verdict = tally.limited(), every[protocol.threshold_index()]
    is_in = verdict != 3
    label = np.full(len(detections), -1) if protocol.class_agnostic else np.asarray(detections.labels)
    mine = np.stack([np.asarray(detections.image_ids), label, np.asarray(detections.scores), verdict])[:, is_in]
    theirs = np.stack([tally.image, tally.label, tally.score, tally.verdict_at(protocol.threshold_index())])
    assert np.array_equal(mine[:, np.lexsort(mine)], theirs[:, np.lexsort(theirs)])
    assert is_in.sum() == len(tally)


def test_steps_without_effect_say_so() -> None:
    """They stay in the list, and share one line of the table."""
    explanation = boxscore.explain(detections_of(SQUARE), truths_of(SQUARE), "coco", "ultralytics")
    idle = [step.name for step in explanation.steps if not step.has_effect]
    assert idle == ["score cut-off", "ignored truths", "ties", "areas", "limits"]
    assert all(step.reason == NO_EFFECT for step in explanation.steps if not step.has_effect)
    assert f"No effect on this data: {', '.join(idle)}." in str(explanation)
    assert "\nties" not in str(explanation)


def test_the_table() -> None:
    """One line per step that has an effect, then what changed and why, then the order."""
    detections, truths = detections_of(SQUARE, SQUARE, [0, 0, 10, 6]), truths_of(SQUARE, OTHER)
    recall_points = Protocol.named("voc2007").recall_points
    target = BASE.replace(name="other", ap="interpolated", recall_points=recall_points, min_score=0.75, ties="last")
    lines = str(boxscore.explain(detections, truths, BASE, target)).splitlines()
    assert lines == [
        "voc2012, changed 0.5000 -> other 0.5455, one rule at a time",
        "",
        "step                 map  difference  verdicts changed",
        "----------------  ------  ----------  ----------------",
        "voc2012, changed  0.5000",
        "score cut-off     0.5000     +0.0000                 1",
        "AP rule           0.5455     +0.0455                 0",
        "other             0.5455     +0.0455",
        "",
        "score cut-off: lowest score none -> 0.75",
        "  1 detection with a score below 0.75 no longer counts.",
        "AP rule: whole area under the envelope -> mean precision at recall points, class by class; recall points 101"
        " from 0 to 1 -> 11 from 0 to 1",
        "  AP is the mean precision at recall points, class by class, instead of the whole area under the envelope;"
        " every verdict stays. Precision is sampled at 11 recalls.",
        "",
        "No effect on this data: ties.",
        "",
        "A verdict is TP, FP, ignored or left out. Of 3 detections, those are counted whose verdict changes at any"
        " threshold that a step keeps; reasons count at IoU 0.50 in area range all.",
        "The order of steps is fixed: geometry, score cut-off, thresholds, ignored truths, groups, verified classes,"
        " match condition, matching rule, ties, areas, limits, AP rule, averaging.",
    ]


def test_no_truths_is_undefined() -> None:
    """A dash in the table, null in JSON; and nothing has an effect."""
    explanation = boxscore.explain(detections_of(SQUARE), truths_of(boxes=np.zeros((0, 4))), "coco", "voc2012")
    assert np.isnan(explanation.first)
    assert explanation.to_dict()["first"] is None
    assert explanation.to_dict()["steps"][0]["difference"] is None
    assert not any(step.has_effect for step in explanation.steps)
    assert "coco - -> voc2012 -" in str(explanation)
    json.dumps(explanation.to_dict(), allow_nan=False)


def test_no_detections_is_zero() -> None:
    """Under every protocol."""
    nothing = detections_of(boxes=np.zeros((0, 4)))
    assert boxscore.explain(nothing, truths_of(SQUARE), "voc2007", "ultralytics").last == 0


def test_the_bars_of_the_waterfall_meet() -> None:
    """The first and the last begin at 0; between them is one bar per step that has an effect."""
    scene = random_scene(1)
    explanation = boxscore.explain(scene.detections, scene.truths, "coco", "voc2007")
    (first, zero, start), *bars, (last, other_zero, end) = explanation.waterfall()
    assert (first, last) == ("coco", "voc2007")
    assert (zero, other_zero) == (0, 0)
    assert [label for label, *_ in bars] == [step.name for step in explanation.steps if step.has_effect]
    assert [begin for _, begin, _ in bars] + [end] == [start] + [finish for *_, finish in bars]


def test_a_tool_takes_the_shapes_that_the_data_has() -> None:
    """Masks, where there are no boxes."""
    shapes: dict[str, Any] = {"image_ids": [0], "labels": [1], "masks": np.ones((1, 4, 4), bool)}
    truths, detections = Truths(**shapes), Detections(**shapes, scores=[0.9])
    explanation = boxscore.explain(detections, truths, "coco", "torchmetrics")
    assert explanation.source == "coco segm"
    assert explanation.first == pytest.approx(1)


def test_what_the_data_lacks_is_an_error() -> None:
    """Coverage for lvis, sizes for crowdhuman, and no coverage where labels are disregarded."""
    detections, truths = detections_of(SQUARE), truths_of(SQUARE)
    with pytest.raises(InputError, match="`coverage` must be given for the truths: protocol lvis"):
        boxscore.explain(detections, truths, "coco", "lvis")
    with pytest.raises(InputError, match="`image_sizes` must have every image: protocol crowdhuman"):
        boxscore.explain(detections, truths, "crowdhuman", "coco")
    covered = truths_of(SQUARE, coverage=Coverage(image_ids=[0], labels=[1]))
    with pytest.raises(InputError, match="`coverage` is by class"):
        boxscore.explain(detections, covered, "coco", Protocol.named("lvis", class_agnostic=True))
    with pytest.raises(InputError, match="got 'nothing'"):
        boxscore.explain(detections, truths, "coco", "nothing")
    with pytest.raises(InputError, match=r"`detections` must be boxscore\.Detections; got Truths"):
        boxscore.explain(truths, truths)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"`truths` must be boxscore\.Truths; got Detections"):
        boxscore.explain(detections, detections)  # type: ignore[arg-type]


def test_coverage_on_the_way_to_lvis() -> None:
    """Of 13 rules, those that differ: ignored truths, verified classes, areas, limits, averaging."""
    coverage = Coverage(image_ids=[0, 1], labels=[1, 1], is_exhaustive=[True, False])
    detections = detections_of(SQUARE, SQUARE, SQUARE, image_ids=[1, 2, 0])
    truths = truths_of(SQUARE, coverage=coverage, class_groups={1: "rare"})
    explanation = boxscore.explain(detections, truths, "coco", "lvis")
    names = ["ignored truths", "verified classes", "areas", "limits", "averaging"]
    assert [step.name for step in explanation.steps] == names
    step = explanation.steps[1]
    # Precision at recall 1 is 1/3, with two false positives before; then one is ignored and one left out.
    assert (step.before, step.after) == pytest.approx((1 / 3, 1))
    assert list(step.verdicts) == [("false positive", "ignored", 1), ("false positive", "left out", 1)]
    assert step.reason == (
        "A class counts only in images where it was verified: 1 false positive is ignored and 1 false positive is"
        " left out at IoU 0.50."
    )


@pytest.mark.parametrize("names", [("coco", "voc2012"), ("voc2012", "coco"), ("coco", "ultralytics-8.3")])
def test_reasons_do_not_contradict_their_counts(names: tuple[str, str]) -> None:
    """On COCO val2017, the matching rule moves a hundred verdicts, and crowds thousands, all in one direction."""
    truths = boxscore.read_truths(shared_data("coco_val2017/instances_val2017_boxes.json"))
    detections = boxscore.read_detections(shared_data("coco_val2017/yolox_nano.json"), truths)
    steps = {step.name: step for step in boxscore.explain(detections, truths, *names).steps}
    assert 50 < steps["matching rule"].num_changed < 200
    (change,) = steps["ignored truths"].verdicts
    assert {change.before, change.after} == {"ignored", "false positive"}
    assert change.num > 10_000


def test_rules_are_told_in_words() -> None:
    """Float32 is named, and so is the end of a curve."""
    detections, truths = detections_of(SQUARE), truths_of(SQUARE, OTHER)
    steps = boxscore.explain(detections, truths, "coco", "torchmetrics").steps
    assert [step.what for step in steps] == [
        "thresholds: 0.50:0.95 -> 0.50:0.95 in float32",
        "AP rule: recall points 101 from 0 to 1 -> 101 from 0 to 1 in float32",
    ]
    *_, step = boxscore.explain(detections, truths, "coco", "ultralytics-8.3").steps
    assert step.reason.startswith(
        "AP is the area under lines between recall points of the envelope, down to (1, 0), instead of the mean"
    )


def test_the_notes_of_tools_are_shown() -> None:
    """Also where the rules are the same; protocols have none."""
    detections, truths = detections_of(SQUARE), truths_of(SQUARE)
    explanation = boxscore.explain(detections, truths, "torchmetrics", "supervision")
    assert explanation.notes == tuple((name, TOOLS[name].note) for name in ("torchmetrics", "supervision"))
    assert explanation.to_dict()["notes"][1] == {"name": "supervision", "text": TOOLS["supervision"].note}
    assert f"\n\ntorchmetrics: {TOOLS['torchmetrics'].note}\nsupervision: " in str(explanation)
    same = boxscore.explain(detections, truths, "coco", "supervision")
    assert str(same).endswith(f"The rules are the same.\n\nsupervision: {TOOLS['supervision'].note}")
    assert boxscore.explain(detections, truths, "coco", "voc2012").notes == ()


POSES: dict[str, Any] = {"image_ids": [0], "labels": [1], "keypoints": [[[3.0 * i, 2.0 * i, 2] for i in range(17)]]}


def test_rules_without_sigmas_get_those_of_the_other_side() -> None:
    """In both directions, and the notes say so; if neither has any, an error says who has."""
    truths, detections = Truths(**POSES, area=[400.0]), Detections(**POSES, scores=[0.9])
    there = boxscore.explain(detections, truths, "coco", "ultralytics")
    back = boxscore.explain(detections, truths, "ultralytics", "pycocotools")
    assert (there.source, there.target) == ("coco_keypoints", "ultralytics keypoints")
    assert (back.first, back.last) == (there.last, there.first) == pytest.approx((0.995, 1))
    assert "geometry" not in [step.name for step in there.steps]
    words = "It has no sigmas here, so it gets the sigmas of {}."
    assert ("ultralytics", words.format("coco_keypoints")) in there.notes
    assert ("ultralytics", words.format("pycocotools")) in back.notes
    with pytest.raises(InputError, match=r"`sigmas`, which voc2012 and ultralytics have not: .* coco_keypoints, crowd"):
        boxscore.explain(detections, truths, "voc2012", "ultralytics")


def test_the_limit_is_told_in_numbers() -> None:
    """How many now count, and how many no longer do."""
    detections = detections_of(*[SQUARE] * 5)
    per_class, per_image = Protocol.named("coco", limits=(2,)), Protocol.named("coco", limits=(4,), limits_per="image")
    (step,) = boxscore.explain(detections, truths_of(SQUARE), per_class, per_image).steps
    assert step.reason == "2 detections beyond the limit of 2 per image and class now count."
    (step,) = boxscore.explain(detections, truths_of(SQUARE), per_image, per_class).steps
    assert step.reason == "2 detections beyond the limit of 2 per image and class no longer count."


def test_real_detections_from_coco_to_ultralytics() -> None:
    """Crowds, limits and the AP rule move the number of YOLOX-nano on COCO val2017, and nothing else does."""
    truths = boxscore.read_truths(shared_data("coco_val2017/instances_val2017_boxes.json"))
    detections = boxscore.read_detections(shared_data("coco_val2017/yolox_nano.json"), truths)
    explanation = boxscore.explain(detections, truths, "coco", "ultralytics")
    assert (round(explanation.first, 4), round(explanation.last, 4)) == (0.2564, 0.2523)
    moved = [step.name for step in explanation.steps if step.has_effect]
    assert moved == ["ignored truths", "limits", "AP rule"]
