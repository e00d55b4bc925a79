"""The bootstrap: every resample has the bits of repeated images, and intervals cover what they should."""

from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, Protocol, Result, Truths
from boxscore.analysis import bootstrap
from boxscore.analysis.bootstrap import Plan, Samples, draws, spread
from tests.support.random_datasets import random_dataset
from tests.support.resampling import assert_resamples_are_exact
from tests.support.scenes import random_scene

pytestmark = pytest.mark.native

AVERAGES = ("macro", "weighted", "micro")


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("name", ["coco", "voc2007", "voc2012", "paper"])
def test_a_resample_has_the_bits_of_repeated_images(name: str, average: str) -> None:
    """Scores tie within images and between them; an epsilon that makes rounding matter, too."""
    for seed in range(9):
        scene = random_scene(seed, num_images=1 + seed, most_detections=60)
        if seed % 3 == 0:
            scene.detection["scores"][:] = np.round(scene.detection["scores"] * 3) / 3
        for epsilon in (Protocol.named(name).precision_epsilon, 1e-15):
            protocol = Protocol.named(name, average=average, precision_epsilon=epsilon)
            assert_resamples_are_exact(scene, protocol, seed=seed)


def test_a_resample_of_many_cells_and_one_class_has_the_bits_of_repeated_images() -> None:
    """Several words of verdicts, states of 64 bits, early limits, classes taken as one."""
    many = Protocol.named(
        "coco",
        thresholds=np.linspace(0.3, 0.9, 13),
        areas={f"range {a}": (a * 500.0, None) for a in range(9)},
        limits=(1, 2, 5, None),
    )
    for average in AVERAGES:
        for is_agnostic in (False, True):
            protocol = many.replace(average=average, class_agnostic=is_agnostic)
            assert_resamples_are_exact(random_scene(5, num_classes=6), protocol, seed=7)


def test_a_resample_of_many_classes_has_the_bits_of_repeated_images() -> None:
    """So many that resamples are taken one by one, not side by side."""
    scene = random_scene(3, num_images=40, num_classes=400, most_detections=60)
    assert_resamples_are_exact(scene, Protocol.named("coco"), seed=2)


@pytest.mark.parametrize("name", ["coco", "voc2007"])
def test_resamples_side_by_side_have_the_bits_of_one_by_one(name: Any) -> None:
    """Eight lanes are faster, and nothing else."""
    scene = random_scene(2, num_images=30)
    tally = boxscore.match(scene.detections, scene.truths, name)
    one, eight = (bootstrap.resample(tally, tally.images, Plan(20, 5, 0.95), max_lanes=num) for num in (1, 8))
    assert_same_samples(one, eight, 20)


def result_of(seed: int = 1, *, num_images: int, num_classes: int = 4) -> Result:
    """What coco makes of a scene."""
    scene = random_scene(seed, num_images=num_images, num_classes=num_classes)
    return boxscore.evaluate(scene.detections, scene.truths)


def assert_same_samples(first: Samples, second: Samples, num: int) -> None:
    """The first so many, bit for bit."""
    for name, values in first.numbers.items():
        assert np.array_equal(values[:num], second.numbers[name][:num], equal_nan=True)
    for name in ("ap", "ar"):
        assert np.array_equal(getattr(first, name)[:num], getattr(second, name)[:num], equal_nan=True)


def test_the_bits_depend_on_the_seed_alone() -> None:
    """Neither on the threads, nor on how many resamples there are, nor on the order of a tally's rows."""
    result = result_of(num_images=200, num_classes=9)
    samples = result.intervals(resamples=50, seed=3, threads=1).samples
    for threads in (2, 5):
        assert_same_samples(samples, result.intervals(resamples=80, seed=3, threads=threads).samples, 50)
    parts = [result.tally.without(result.images[start::3]) for start in range(3)]
    halves = [parts[0].without(result.images[1::3]), parts[1].without(result.images[2::3])]
    shuffled = boxscore.finish(halves[1].merge(halves[0], parts[2].without(result.images[0::3])))
    assert_same_samples(samples, shuffled.intervals(resamples=50, seed=3).samples, 50)
    other = result.intervals(resamples=50, seed=4, threads=1).samples
    assert not np.array_equal(samples.numbers["map"], other.numbers["map"])


def test_every_image_is_as_likely_as_the_other() -> None:
    """As many draws as images, each with probability 1 / N: the counts are binomial."""
    num_images, resamples = 7, 4000
    drawn = np.array([draws(num_images, resample=resample, seed=11) for resample in range(resamples)])
    assert (drawn.sum(axis=1) == num_images).all()
    chance = 1 / num_images
    error = np.sqrt(num_images * chance * (1 - chance) / resamples)
    assert np.abs(drawn.mean(axis=0) - 1).max() < 4 * error
    assert drawn.var() == pytest.approx(num_images * chance * (1 - chance), rel=0.05)


def test_one_image_says_nothing_of_others() -> None:
    """It is drawn once, always, and every resample has the number that was measured; that is no certainty."""
    sure = result_of(3, num_images=1).intervals(resamples=10)
    assert np.array_equal(sure.samples.numbers["map"], [sure.numbers["map"]] * 10)
    for column in (sure.low, sure.high, sure.error):
        assert np.isnan(list(column.values())).all()
    assert np.isnan(sure.per_class.ap_low).all()
    assert "nan" not in str(sure)


@pytest.mark.parametrize("protocol", ["coco", "voc2012"])
def test_a_class_needs_truths_in_two_images(protocol: Any) -> None:
    """By hand: class 0 has two truths in one image, class 1 one in each of two; small ones are in one image only.

    Ignored truths are none.
    """
    small, large = [0, 0, 9, 9], [0, 0, 99, 99]
    truths = Truths(
        image_ids=[1, 1, 1, 2, 3],
        labels=[0, 0, 1, 1, 0],
        boxes=[small, large, large, large, large],
        ignore=[False, False, False, False, True],
    )
    found = Detections(image_ids=[1, 1, 3], labels=[0, 1, 1], scores=[0.9, 0.8, 0.7], boxes=[small, large, small])
    sure = boxscore.evaluate(found, truths, protocol).intervals(resamples=50)
    assert np.isnan(sure.per_class.ap_low).tolist() == [True, False]
    assert np.isnan(sure.per_class.ar_error).tolist() == [True, False]
    undefined = {name for name, low in sure.low.items() if np.isnan(low)}
    assert undefined == ({"map_small", "map_medium", "mar_small", "mar_medium"} if protocol == "coco" else set())


def test_images_without_boxes_are_drawn_too() -> None:
    """Where the truths list them; then other images are drawn less often, and more resamples miss a class."""
    columns: dict[str, Any] = {"image_ids": [1, 2], "labels": [0, 1], "boxes": np.ones((2, 4))}
    found = Detections(**columns, scores=[0.5, 0.6])
    few = boxscore.evaluate(found, Truths(**columns)).intervals(resamples=400)
    listed = Truths(**columns, image_names={image: f"{image}.jpg" for image in range(10)})
    many = boxscore.evaluate(found, listed).intervals(resamples=400)
    assert (few.num_images, many.num_images) == (2, 10)
    assert np.isnan(many.samples.ap).mean() == pytest.approx(0.9**10, abs=0.06)
    assert np.isnan(few.samples.ap).mean() == pytest.approx(0.25, abs=0.06)


def test_undefined_samples_are_left_out() -> None:
    """A class without truths has no interval; one that some resamples miss has that of the others."""
    samples = np.array([[np.nan, 0.25, np.nan], [np.nan, 0.75, 0.5], [np.nan, np.nan, np.nan]])
    low, high, error = spread(samples, np.array([np.nan, 0.5, 0.5]), 0.5)
    assert np.array_equal(low, [np.nan, 0.375, 0.5], equal_nan=True)
    assert np.array_equal(high, [np.nan, 0.625, 0.5], equal_nan=True)
    assert np.array_equal(error, [np.nan, np.sqrt(0.125), np.nan], equal_nan=True)


def test_an_interval_is_that_of_the_percentiles_around_the_number() -> None:
    """As NumPy has them."""
    result = result_of(num_images=40)
    sure = result.intervals(resamples=200, level=0.9)
    samples = sure.samples.numbers["map"]
    shift = result["map"] - samples.mean()
    assert sure.low["map"] == pytest.approx(np.quantile(samples, 0.05) + shift)
    assert sure.high["map"] == pytest.approx(np.quantile(samples, 0.95) + shift)
    assert sure.error["map"] == pytest.approx(samples.std(ddof=1))
    assert sure.low["map"] < result["map"] < sure.high["map"]


def test_there_is_nothing_to_be_sure_of_without_data() -> None:
    """Every number is NaN."""
    sure = boxscore.finish(boxscore.Tally.empty(Protocol.named("coco"))).intervals(resamples=5)
    assert all(np.isnan(value) for value in (*sure.low.values(), *sure.high.values(), *sure.error.values()))
    assert "nan" not in str(sure)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resamples": 1}, "`resamples` must be an integer of at least 2; got 1"),
        ({"resamples": 10.0}, "`resamples` must be an integer of at least 2; got 10.0"),
        ({"seed": -1}, "`seed` must be an integer of at least 0; got -1"),
        ({"level": 1}, "`level` must lie between 0 and 1, both excluded; got 1"),
        ({"level": 95}, "`level` must lie between 0 and 1, both excluded; got 95"),
        ({"threads": 0}, "`threads` must be a positive integer; got 0"),
    ],
)
def test_a_plan_that_can_not_be_is_refused(options: dict[str, Any], message: str) -> None:
    """With the name of the option."""
    with pytest.raises(InputError, match=f"^{message}"):
        result_of(num_images=2).intervals(**options)


@pytest.mark.not_sanitized
def test_intervals_cover_what_they_should() -> None:
    """Of 300 data sets of 60 images, about 95 % have an interval with the mean number of such data sets inside."""
    protocol = Protocol.named("coco", thresholds=(0.5, 0.75), areas={"all": (0, None)})
    names, trials = ("map", "map_50", "mar_100"), 300

    def result_by(seed: int) -> Result:
        return boxscore.evaluate(*random_dataset(np.random.default_rng(seed), 60), protocol)

    others = [result_by(10_000 + seed) for seed in range(1000)]
    expected = {name: np.mean([other[name] for other in others]) for name in names}
    expected_ap = np.mean([other.per_class.ap for other in others], axis=0)
    num_covered = dict.fromkeys(names, 0)
    num_covered_ap = np.zeros(3, int)
    for seed in range(trials):
        sure = result_by(seed).intervals(resamples=200, threads=1)
        for name in names:
            num_covered[name] += bool(sure.low[name] <= expected[name] <= sure.high[name])
        num_covered_ap += (sure.per_class.ap_low <= expected_ap) & (expected_ap <= sure.per_class.ap_high)
    # Binomial(300, 0.95) is between 269 and 299 with a probability of 0.9999.
    for num in (*num_covered.values(), *num_covered_ap):
        assert 269 <= num <= 299
