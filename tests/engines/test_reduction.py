"""Curves built bin by bin are the curves built at once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import boxscore
from boxscore import InputError
from boxscore.engines.map_reduce import Bins, reduce_tallies
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
    Protocol.named("ultralytics"),
    Protocol.named("coco", extra_numbers=("mr", "olrp")),
    Protocol.named("coco", areas={"all": (0, 1e10), **{f"a{i}": (i * 500, i * 500 + 500) for i in range(9)}}),
]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: f"{protocol.title} {protocol.ap}")
@settings(deadline=None, max_examples=10)
@given(
    scene=scenes(num_images=9, most_detections=60, most_truths=25),
    is_spacious=st.booleans(),
    is_local=st.booleans(),
)
def test_curves_of_bins_are_the_curves_of_the_whole(
    protocol: Protocol, scene: Scene, is_spacious: bool, is_local: bool
) -> None:
    """All cells, under every rule of AP; a bin has as many rows as the largest class, or twice as many."""
    tally = boxscore.match(scene.detections, scene.truths, protocol)
    halves = [tally.within(tally.images[half::2]) for half in (0, 1)]
    bin_size = int(tally.totals.num_detections.max(initial=1)) * (2 if is_spacious else 1)
    assert_same(reduce_tallies(MemoryStore(halves, bin_size, is_local), 1), boxscore.finish(tally))


def tally_of(num_per_class: list[int], protocol: Protocol) -> Tally:
    """Classes 1, 2, … with so many detections, and no truths."""
    label = np.repeat(np.arange(len(num_per_class)) + 1, num_per_class)
    found = boxscore.Detections(
        image_ids=np.arange(label.size) % 100,
        labels=label,
        scores=np.random.default_rng(0).random(label.size),
        boxes=np.ones((label.size, 4)),
    )
    return boxscore.match(found, boxscore.Truths(image_ids=[], labels=[], boxes=[]), protocol)


def test_bins_hold_whole_classes() -> None:
    """Every row is in one bin, small classes share, and no bin has more rows than it may."""
    tally = tally_of([900, 300, 400, 600], Protocol.named("voc2012"))
    bins = Bins.plan(tally.totals, 1_000)
    assert bins.number.tolist() == [0, 1, 1, 2]
    assert bins.num_bins == 3
    pieces = dict(bins.split(tally))
    assert {number: np.unique(piece.label).tolist() for number, piece in pieces.items()} == {0: [1], 1: [2, 3], 2: [4]}
    assert [len(pieces[number]) for number in range(3)] == [900, 700, 600]


@pytest.mark.parametrize("is_local", [False, True])
@pytest.mark.parametrize(
    ("average", "which", "num", "factor"),
    [("macro", "class 2", "1,234", 1.3), ("micro", "the average over all classes as one", "1,334", 1.4)],
)
def test_a_class_that_does_not_fit_is_refused(
    average: str, which: str, num: str, factor: float, is_local: bool
) -> None:
    """With the memory that is enough; micro averages need the verdicts of all classes at once."""
    sizes = [100, 1_234] if average == "macro" else [500, 834]
    tally = tally_of(sizes, Protocol.named("voc2012", average=average))
    rule = f"`memory` must be larger: {which} has {num} detections, which must fit at once, and 1,000 fit"
    with pytest.raises(InputError) as error:
        reduce_tallies(MemoryStore([tally], 1_000, is_local), 1)
    assert str(error.value) == f"{rule}; {factor} times as much is enough"


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
