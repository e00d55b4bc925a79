"""Curves drawn bin by bin, and range by range, are those drawn at once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import boxscore
from boxscore.engines.bins import Bins, Cuts, Sample
from boxscore.engines.map_reduce import no_start, reduce_tallies
from boxscore.protocol.protocol import Protocol
from boxscore.result.tally import Tally
from tests.support.comparisons import assert_same
from tests.support.scenes import Scene, random_scene
from tests.support.strategies import scenes
from tests.support.tally_store import MemoryStore

pytestmark = pytest.mark.native

PROTOCOLS = [
    Protocol.named("coco"),
    Protocol.named("voc2007"),
    Protocol.named("voc2012"),
    Protocol.named("paper"),
    Protocol.named("coco", recall_points=(0.05, 0.3, 0.9)),
    Protocol.named("coco", ap="envelope", limits=(1, 2, 5)),
    Protocol.named("voc2012", recall_points=(0.2, 0.5), thresholds=(0.5, 0.75)),
    Protocol.named("coco", areas={"all": (0, 1e10), **{f"a{i}": (i * 500, i * 500 + 500) for i in range(9)}}),
]


def binned(tally: Tally, bin_size: int) -> tuple[Bins, dict[int, Tally]]:
    """The bins of a tally, and the rows in each."""
    bins = Bins.plan(tally.totals, Sample.from_tally(tally, bin_size), bin_size)
    return bins, dict(bins.split(tally))


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: f"{protocol.title} {protocol.ap}")
@settings(deadline=None, max_examples=10)
@given(
    scene=scenes(num_images=9, most_detections=60, most_truths=25),
    bin_size=st.sampled_from([3, 17, 60]),
    is_local=st.booleans(),
)
def test_a_class_that_is_split_by_score_has_the_curve_of_the_whole(
    protocol: Protocol, scene: Scene, bin_size: int, is_local: bool
) -> None:
    """All cells, under every rule of AP; most scores are tied, so ranges are cut between images of one score, too."""
    tally = boxscore.match(scene.detections, scene.truths, protocol)
    halves = [tally.within(tally.images[half::2]) for half in (0, 1)]
    assert_same(reduce_tallies(MemoryStore(halves, bin_size, is_local), 1), boxscore.finish(tally))


@pytest.mark.parametrize("bin_size", [7, 64, 500])
@pytest.mark.parametrize("num_found", [0, 1, 7, 8, 100, 129, 300, 1_500, 2_000])
def test_a_long_sum_continues_from_range_to_range(num_found: int, bin_size: int) -> None:
    """NumPy adds in halves of halves; whichever of them a range ends in, the next one continues there."""
    random = np.random.default_rng(num_found)
    image = np.arange(2_000)
    box = np.tile([0, 0, 10, 10], (image.size, 1))
    truths = boxscore.Truths(image_ids=image, labels=np.ones_like(image), boxes=box)
    moved = box + np.where(random.permutation(image) < num_found, 0, 100)[:, None]
    score = random.integers(0, 300, image.size) / 300
    found = boxscore.Detections(image_ids=image, labels=np.ones_like(image), scores=score, boxes=moved)
    for name in ("voc2012", "voc2007", "paper"):
        tally = boxscore.match(found, truths, name)
        for is_local in (False, True):
            assert_same(reduce_tallies(MemoryStore([tally], bin_size, is_local), 1), boxscore.finish(tally))


def test_bins_hold_whole_classes_or_ranges_of_one() -> None:
    """Every row is in one bin, small classes share, and no bin has more rows than it may."""
    random = np.random.default_rng(0)
    label = np.repeat([1, 2, 3, 4], [20_000, 300, 400, 600])
    image = random.integers(0, 5_000, label.size)
    found = boxscore.Detections(
        image_ids=image, labels=label, scores=random.random(label.size), boxes=np.ones((label.size, 4))
    )
    tally = boxscore.match(found, boxscore.Truths(image_ids=[], labels=[], boxes=[]), "voc2012")
    bins, pieces = binned(tally, 1_000)
    assert sum(map(len, pieces.values())) == len(tally)
    assert max(map(len, pieces.values())) <= 1_000
    assert {number: bins.classes_of(number).tolist() for number in pieces} == {
        **{number: [1] for number in bins.ranges[1]},
        len(bins.ranges[1]): [2, 3],
        len(bins.ranges[1]) + 1: [4],
    }
    best = [piece.score.max() for number, piece in pieces.items() if number in bins.ranges[1]]
    assert best == sorted(best, reverse=True)


def test_a_cut_is_the_last_row_of_its_range() -> None:
    """By hand: cuts at (0.9, image 5), (0.5, image 2) and (0.5, image 7)."""
    cuts = Cuts(np.array([0.9, 0.5, 0.5]), np.array([5, 2, 7]))
    score = np.array([0.95, 0.9, 0.9, 0.7, 0.5, 0.5, 0.5, 0.5, 0.1], np.float32).astype(np.float64)
    score[1:3] = 0.9  # not a number of single precision
    image = np.array([9, 5, 6, 0, 2, 3, 7, 8, 0])
    assert cuts.range_of(score, image).tolist() == [0, 0, 1, 1, 1, 2, 2, 3, 3]


def test_counts_beyond_32_bits_make_the_same_precision() -> None:
    """A range that begins after three thousand million false positives: the division is that of Python's integers."""
    from boxscore.engines.native.compiled_engine import build_range

    truths = boxscore.Truths(image_ids=[0], labels=[1], boxes=[[0, 0, 10, 10]])
    found = boxscore.Detections(image_ids=[0], labels=[1], scores=[0.5], boxes=[[0, 0, 10, 10]])
    tally = boxscore.match(found, truths, "coco")
    start = no_start(tally.protocol)
    before = 3_000_000_000
    start = start._replace(num_counted=np.full_like(start.num_counted, before))
    curves, _ = build_range(tally, tally.num_truths, 1, start)
    assert curves.precision[0, 0, 0, 0, 0] == 1 / (before + 1 + np.spacing(1))
    assert curves.num_false[0, 0, 0, 0] == before


def test_totals_add_up() -> None:
    """Those of two tallies are those of the tallies merged."""
    scene = random_scene(3)
    tally = boxscore.match(scene.detections, scene.truths, "coco")
    parts = [tally.without(tally.images[half::2]) for half in (0, 1)]
    parts[1] = replace(parts[1], class_names=None)
    merged = parts[0].totals.merge(parts[1].totals)
    for name in ("classes", "num_truths", "num_detections"):
        assert np.array_equal(getattr(merged, name), getattr(tally.totals, name)), name
    assert merged.class_names == tally.class_names


def test_a_start_that_can_not_be_is_refused() -> None:
    """More true positives than detections."""
    from boxscore.engines.native.compiled_engine import build_range

    tally = Tally.empty(Protocol.named("voc2012"))
    tally = replace(tally, classes=np.array([1]))
    start = no_start(tally.protocol)
    with pytest.raises(ValueError, match="start: counts out of range"):
        build_range(tally, tally.num_truths, 1, start._replace(num_true=start.num_true + 1))
