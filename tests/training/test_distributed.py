"""Under torch.distributed every process gets the result of one process over everything, to the last bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore.result.distributed import renumbered, without_copies
from tests.support.processes import run_world
from tests.support.world_of_metrics import PROTOCOLS, SCENE, numbered, over, over_masks, uneven, values_of
from tests.support.world_with_a_death import TIMEOUT

EVERYTHING = list(range(SCENE.num_images))


@pytest.fixture(scope="module", params=[2, 3])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the processes of a world found in each case."""
    found = run_world("tests.support.world_of_metrics", request.param, tmp_path_factory.mktemp("world"))
    assert all(each is not None for each in found)
    return found


def check_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """The same bits, NaN where NaN is expected."""
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        if isinstance(values, list):
            assert found[name] == values, name
        else:
            assert np.array_equal(found[name], values, equal_nan=values.dtype.kind == "f"), name


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_uneven_shards_give_the_bits_of_one_process(world: list[dict[str, Any]], protocol: str) -> None:
    """On every rank, under every protocol."""
    expected = values_of(over(EVERYTHING, protocol).compute())
    for rank in world:
        check_equal(rank[f"uneven {protocol}"], expected)


def test_masks_give_the_bits_of_one_process(world: list[dict[str, Any]]) -> None:
    """They are matched where they are; verdicts travel."""
    expected = values_of(over_masks(EVERYTHING).compute())
    assert 0 < expected["numbers"][0] < 1
    for rank in world:
        check_equal(rank["masks"], expected)


def test_several_similarities_give_the_bits_of_one_process(world: list[dict[str, Any]]) -> None:
    """Each of them."""
    both = over_masks(EVERYTHING, ("segm", "boundary")).compute()
    assert 0 < both["boundary"]["map"] < both["segm"]["map"] < 1
    for rank in world:
        assert [*rank["both"]] == ["segm", "boundary"]
        for each, expected in both.items():
            check_equal(rank["both"][each], values_of(expected))


def test_a_process_without_data_is_welcome(world: list[dict[str, Any]]) -> None:
    """It gets the others' result."""
    for rank in world:
        check_equal(rank["one empty"], values_of(over(EVERYTHING).compute()))


def test_without_any_data_nothing_is_defined(world: list[dict[str, Any]]) -> None:
    """As in one process."""
    for rank in world:
        check_equal(rank["all empty"], values_of(over([]).compute()))


def test_images_that_a_sampler_repeated_count_once(world: list[dict[str, Any]]) -> None:
    """DistributedSampler gives every rank as many images, some of them twice."""
    assert sum(rank["num sampled"] for rank in world) > len(EVERYTHING)
    for rank in world:
        check_equal(rank["sampler"], values_of(over(EVERYTHING).compute()))


def test_of_copies_that_of_the_lowest_rank_counts(world: list[dict[str, Any]]) -> None:
    """Even if the others found nothing in it."""
    for rank in world:
        check_equal(rank["two copies"], values_of(over(EVERYTHING).compute()))


def test_numbered_images_of_different_ranks_are_different(world: list[dict[str, Any]]) -> None:
    """They count as if rank 0 had come first."""
    for rank in world:
        check_equal(rank["numbered"], values_of(numbered(EVERYTHING).compute()))
        check_equal(rank["numbered, one empty"], values_of(numbered(EVERYTHING).compute()))


def test_without_sync_each_has_its_own_result(world: list[dict[str, Any]]) -> None:
    """Of its shard alone."""
    for number, rank in enumerate(world):
        check_equal(rank["not synced"], values_of(over(uneven(number, len(world))).compute()))


def test_different_protocols_are_refused_everywhere(world: list[dict[str, Any]]) -> None:
    """By name and rank, on every rank alike."""
    expected = "every process must have the same protocol; rank 0 and rank 1 have different ones ('coco' and 'voc2012')"
    assert {rank["protocols"] for rank in world} == {expected}


def test_names_on_one_rank_and_numbers_on_another_are_refused_everywhere(world: list[dict[str, Any]]) -> None:
    """An id here and a number there can't be told apart."""
    expected = "either every process must name its images, by `image_ids`, or none; got some of each"
    assert {rank["some numbered"] for rank in world} == {expected}


def test_a_process_group_is_all_that_is_gathered(world: list[dict[str, Any]]) -> None:
    """Who is not in it is told."""
    expected = values_of(over(uneven(0, len(world)) + uneven(1, len(world))).compute())
    for rank in world[:2]:
        check_equal(rank["pair"], expected)
    for rank in world[2:]:
        assert rank["pair"] == "`process_group` must have this process in it; got one without it"


def test_a_box_that_can_not_be_fails_on_no_rank(world: list[dict[str, Any]]) -> None:
    """One rank has dropped it; all have the numbers without it, and say so."""
    expected = values_of(numbered(EVERYTHING).compute())
    for rank in world:
        found, num_invalid, words = rank["invalid"]
        check_equal(found, expected)
        assert num_invalid == 1
        assert words == "not comparable with COCO leaderboard rules: 1 invalid detection dropped"


def test_what_was_dropped_in_copies_of_an_image_counts_once(world: list[dict[str, Any]]) -> None:
    """As the image does: every rank has dropped a box in it."""
    assert {rank["invalid, twice"] for rank in world} == {1}


def test_two_collectives_are_enough(world: list[dict[str, Any]]) -> None:
    """Whatever the number of batches and of processes."""
    assert all(rank["collectives"] == ["all_gather", "all_gather"] for rank in world)


def test_what_a_process_has_counted_stays_its_own(world: list[dict[str, Any]]) -> None:
    """Compute changes nothing, and updates go on from there."""
    assert all(rank["stays"] for rank in world)


@pytest.mark.parametrize(
    ("fate", "metric"),
    [("dies", "metric"), ("sleeps", "metric"), ("sleeps", "torchmetrics"), ("sleeps", "evaluator")],
)
def test_a_process_that_never_computes_is_an_error_not_a_hang(fate: str, metric: str, tmp_path: Path) -> None:
    """Within the time-out of the process group, with the cure, and with PyTorch's own error as the cause."""
    if metric == "torchmetrics":
        pytest.importorskip("torchmetrics")
    folder = tmp_path / f"{fate}_{metric}"
    folder.mkdir()
    (message, cause, seconds), other = run_world("tests.support.world_with_a_death", 2, folder, seconds=60)
    assert other is None
    call = "synchronize_between_processes()" if metric == "evaluator" else "compute()"
    advice = {
        "metric": "; MeanAveragePrecision(sync=False) computes the numbers of one process",
        "torchmetrics": "; MeanAveragePrecision(sync_on_compute=False) computes the numbers of one process",
        "evaluator": "",
    }[metric]
    expected = "gathering from 2 processes failed on rank 0: a process may have died, or not called"
    assert message == f"{expected} {call}. Every process must call it, also one without data{advice}"
    assert cause.endswith("Error")
    assert seconds < TIMEOUT + 10


def test_renumbered_tallies_have_no_image_in_common() -> None:
    """Images without boxes in between take their numbers along; empty tallies take none."""
    tally = numbered(EVERYTHING[:5]).tally
    nothing = boxscore.Tally.empty(tally.protocol)
    first, _, second = renumbered([tally, nothing, tally])
    assert np.array_equal(first.images, tally.images)
    assert np.array_equal(second.images, tally.images + tally.images[-1] + 1)


def test_copies_are_left_out_of_later_tallies() -> None:
    """Their detections and their truths."""
    whole = over(EVERYTHING).tally
    kept = without_copies([over(EVERYTHING[:9]).tally, whole])
    assert not set(kept[0].images) & set(kept[1].images)
    assert len(kept[0]) + len(kept[1]) == len(whole)
