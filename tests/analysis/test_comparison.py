"""Comparison: paired differences, their intervals and p-values, and the images that changed."""

import json
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, Protocol, Result, Truths, compare
from tests.support.random_datasets import random_dataset
from tests.support.scenes import random_scene


def thinned(detections: Detections, keep: float, seed: int = 0) -> Detections:
    """Some of the detections."""
    is_kept = np.random.default_rng(seed).random(len(detections)) < keep
    columns = {name: getattr(detections, name)[is_kept] for name in ("image_ids", "labels", "scores", "boxes")}
    return Detections(**columns, box_format=detections.box_format)


def pair(protocol: Any = "coco", **sizes: Any) -> tuple[Result, Result]:
    """A detector, and a worse one."""
    scene = random_scene(3, **({"num_images": 60} | sizes))
    worse = thinned(scene.detections, 0.7)
    return boxscore.evaluate(worse, scene.truths, protocol), boxscore.evaluate(scene.detections, scene.truths, protocol)


@pytest.mark.parametrize("average", ["macro", "weighted", "micro"])
def test_samples_are_differences_of_the_same_draws(average: str) -> None:
    """Bit for bit those of each result on its own, with the same seed, over the same images."""
    first, second = pair(Protocol.named("coco", average=average))
    assert np.array_equal(first.images, second.images)
    difference = compare([first, second], resamples=40, seed=5).differences[0]
    alone = [result.intervals(resamples=40, seed=5).samples for result in (first, second)]
    for name, samples in difference.samples.numbers.items():
        assert np.array_equal(samples, alone[1].numbers[name] - alone[0].numbers[name], equal_nan=True)
    assert np.array_equal(difference.samples.ap, alone[1].ap - alone[0].ap, equal_nan=True)
    assert np.array_equal(difference.samples.ar, alone[1].ar - alone[0].ar, equal_nan=True)


def test_a_result_does_not_differ_from_itself() -> None:
    """No difference, no doubt, no surprise, no image."""
    _, result = pair()
    difference = compare({"a": result, "b": result}, resamples=50).differences[0]
    for change in (*difference.numbers.values(), *difference.ap, *difference.ar):
        if not np.isnan(change.first):
            assert change[2:] == (0, 0, 0, 0, 1, False)
    assert difference.images.rows() == []
    assert "no image changed" in compare([result, result], resamples=5).tables(num_images=3)


def test_one_image_is_no_proof() -> None:
    """A class whose truths are all in one image has a difference, yet neither interval nor p-value."""
    box = [[0, 0, 9, 9]] * 5
    truths = Truths(image_ids=range(5), labels=[0, 1, 1, 1, 1], boxes=box, class_names=["rare", "common"])
    blind = evaluated_on(truths, [1, 2])
    keen = evaluated_on(truths, [0, 1, 2, 3, 4])
    comparison = compare({"blind": blind, "keen": keen}, resamples=100)
    rare, common = comparison.differences[0].ap
    assert list(rare[:3]) == pytest.approx([0, 1, 1])
    assert np.isnan(rare[3:7]).all()
    assert not rare.is_least
    assert 0 < common.low < common.difference < common.high == 1, "moved, it would end above 1"
    assert common.p_value < 0.05
    row = next(line for line in comparison.tables(is_per_class=True).splitlines() if line.startswith("rare"))
    assert row.split()[1:] == ["0.0000", "1.0000", "+1.0000", "-", "-"]


def evaluated_on(truths: Truths, rows: list[int]) -> Result:
    """A detector that finds some of the truths, and nothing else."""
    columns: dict[str, Any] = {
        name: np.asarray(getattr(truths, name))[rows] for name in ("image_ids", "labels", "boxes")
    }
    return boxscore.evaluate(Detections(**columns, scores=np.ones(len(rows))), truths)


def test_the_other_way_round_is_the_same_with_the_other_sign() -> None:
    """Intervals and p-values, too."""
    first, second = pair()
    there, back = (compare(two, resamples=100).differences[0] for two in ([first, second], [second, first]))
    for name, change in there.numbers.items():
        other = back.numbers[name]
        assert other.difference == -change.difference
        assert (other.low, other.high) == pytest.approx((-change.high, -change.low))
        assert other.p_value == change.p_value


def test_intervals_and_p_values_by_hand() -> None:
    """Ten images with a truth each; the second detector finds all, the first all but one.

    Under VOC 2012 a resample's difference is the part of its draws that is the image which was not found.
    """
    box = np.tile([0.0, 0.0, 9.0, 9.0], (10, 1))
    truths = Truths(image_ids=np.arange(10), labels=np.ones(10, int), boxes=box)

    def result_of(num: int) -> Result:
        columns: dict[str, Any] = {
            "image_ids": np.arange(num),
            "labels": np.ones(num, int),
            "scores": np.full(num, 0.5),
        }
        return boxscore.evaluate(Detections(**columns, boxes=box[:num]), truths, "voc2012")

    difference = compare([result_of(9), result_of(10)], resamples=999, level=0.8).differences[0]
    samples, change = difference.samples.numbers["map"], difference.numbers["map"]
    drawn = [boxscore.analysis.bootstrap.draws(10, resample=resample)[9] / 10 for resample in range(999)]
    assert samples == pytest.approx(drawn)
    moved = np.array(drawn) - np.mean(drawn) + 0.1
    assert (change.low, change.high) == pytest.approx((np.quantile(moved, 0.1), np.quantile(moved, 0.9)))
    assert change.p_value == pytest.approx(2 * (1 + (moved <= 0).sum()) / 1000)
    assert change.error == pytest.approx(np.std(drawn, ddof=1))
    (row,) = difference.images.rows()
    assert (row["image"], row["first_true"], row["second_true"], row["gain"]) == (9, 0, 1, 1)


def test_a_p_value_at_the_floor_is_an_upper_bound() -> None:
    """Where no resample speaks against a difference; of a class that some resamples lack the floor is higher.

    By hand: 60 images; the first detector finds nothing, the second everything. Class 1 is in two images only.
    """
    box = np.tile([0.0, 0.0, 9.0, 9.0], (60, 1))
    truths = Truths(image_ids=np.arange(60), labels=[1] * 2 + [0] * 58, boxes=box, class_names=["often", "rare"])
    blind, keen = evaluated_on(truths, []), evaluated_on(truths, list(range(60)))
    comparison = compare({"blind": blind, "keen": keen}, resamples=1000)
    (difference,) = comparison.differences
    often, rare = difference.ap
    assert (often.p_value, often.is_least, often.p_text) == (2 / 1001, True, "≤ 0.002")
    num_defined = int((~np.isnan(difference.samples.ap[:, 1])).sum())
    assert num_defined < 1000
    assert (rare.p_value, rare.is_least, rare.p_text) == (2 / (num_defined + 1), True, "≤ 0.003")
    assert often.to_dict()["is_least"] is True
    rows = [line.split() for line in comparison.tables(is_per_class=True).splitlines()]
    assert [row[-2:] for row in rows if row[:1] == ["map"]] == [["≤", "0.002"]]
    same = compare([keen, keen], resamples=50).differences[0].ap[0]
    assert (same.p_text, same.is_least) == ("1.000", False)
    few = compare([blind, keen], resamples=9).differences[0].ap[0]
    assert few.p_text == "≤ 0.200"


def test_images_are_counted_at_the_best_f1() -> None:
    """By hand: the stray detections below every hit are not used, the one above all hits is."""
    truths = Truths(
        image_ids=[1, 2, 3],
        labels=[0, 0, 0],
        boxes=[[0, 0, 9, 9]] * 3,
        image_names={i: f"{i}.jpg" for i in (1, 2, 3, 4)},
    )
    near, far = [0, 0, 9, 9], [50, 50, 59, 59]
    first = Detections(
        image_ids=[4, 1, 2, 3, 1, 1],
        labels=[0] * 6,
        scores=[0.9, 0.8, 0.8, 0.7, 0.2, 0.1],
        boxes=[far, near, near, near, far, far],
    )
    second = Detections(
        image_ids=[1, 2, 3, 3], labels=[0] * 4, scores=[0.8, 0.8, 0.3, 0.9], boxes=[near, near, far, far]
    )
    images = compare([boxscore.evaluate(found, truths) for found in (first, second)], resamples=2).differences[0].images
    # First: F1 is 6 / 7 down to 0.7. Second: 2 * 2 / (3 + 3) down to 0.8; the stray at 0.3 is left out.
    counts = dict(
        zip(
            images.name,
            zip(images.first_true, images.first_false, images.second_true, images.second_false, strict=True),
            strict=True,
        )
    )
    assert counts == {"3.jpg": (1, 0, 0, 1), "4.jpg": (0, 1, 0, 0), "1.jpg": (1, 0, 1, 0), "2.jpg": (1, 0, 1, 0)}
    assert images.gain.tolist() == [-2, 1, 0, 0]
    assert images.num_truths.tolist() == [1, 0, 1, 1]


def test_without_a_difference_small_p_values_are_rare() -> None:
    """Two detectors that differ by chance alone: about one in twenty has p < 0.05, and intervals without 0."""
    protocol = Protocol.named("voc2012")
    num_small, trials = 0, 200
    for seed in range(trials):
        found, truths = random_dataset(np.random.default_rng(seed), 60)
        two = [boxscore.evaluate(thinned(found, 0.8, seed=2 * seed + i), truths, protocol) for i in (0, 1)]
        change = compare(two, resamples=200, threads=1).differences[0].numbers["map"]
        num_small += change.p_value < 0.05
        assert (change.p_value < 0.05) == (not change.low <= 0 <= change.high) or 0.03 < change.p_value < 0.07
    # Binomial(200, 0.05) is between 2 and 22 with a probability of 0.999.
    assert 2 <= num_small <= 22


def test_several_are_compared_with_the_first() -> None:
    """In order, under their names; classes that only one of them knows have no difference."""
    scene = random_scene(4)
    truths = Truths(**scene.truth, box_format="xywh")
    found = scene.detections
    odd = Detections(
        **scene.detection | {"labels": np.where(scene.detection["labels"] == 0, 99, scene.detection["labels"])},
        box_format="xywh",
    )
    results = {name: boxscore.evaluate(each, truths) for name, each in {"a": found, "b": odd, "c": found}.items()}
    comparison = compare(results, resamples=20)
    assert comparison.names == ("a", "b", "c")
    b, c = comparison.differences
    assert (b.first, b.second, c.first, c.second) == ("a", "b", "a", "c")
    assert b.label.tolist() == c.label.tolist() == sorted({*found.labels.tolist(), *truths.labels.tolist(), 99})
    assert np.isnan(b.ap[-1].difference)
    assert b.class_name[-1] == "99"
    assert repr(comparison) == "Comparison(b, c against a)"
    json.dumps(comparison.to_dict(), allow_nan=False)
    assert "nan" not in comparison.tables(is_per_class=True, num_images=9)


def test_what_can_not_be_compared_is_refused() -> None:
    """With the names of the two."""
    first, second = pair()
    other, _ = pair("voc2007")
    less = boxscore.finish(second.tally.without(second.images[:1]))
    with pytest.raises(
        InputError, match=r"^`results` must have one protocol; 'result 1' and 'result 2' have different ones"
    ):
        compare([first, other])
    with pytest.raises(InputError, match=r"^`results` must have the same truths; 'a' and 'b' have different ones"):
        compare({"a": first, "b": less})
    with pytest.raises(InputError, match=r"^`results` must have at least two results; got 1"):
        compare([first])
    with pytest.raises(InputError, match=r"^`results` must be a mapping or a sequence of results; got Result"):
        compare(first)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^`results` must have boxscore.Result as values; got int for 'b'"):
        compare({"a": first, "b": 3})  # type: ignore[dict-item]
