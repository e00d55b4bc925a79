"""Overlaps of masks as pixels: the counts of run lengths, on every array library, eager and compiled."""

from typing import Any

import numpy as np
import pytest

import boxscore._compiled as _compiled
from boxscore import InputError
from boxscore.data import Masks
from boxscore.data.geometry.mask_overlaps import count_overlaps
from tests.conftest import Backend
from tests.support.mask_scenes import blob

NUM_IMAGES, NUM, NUM_TRUTHS = 2, 5, 3


def make_masks(seed: int, num: int, size: tuple[int, int]) -> Any:
    """Some masks per image; the last one has no pixels. Shape (N, num, H, W)."""
    random = np.random.default_rng(seed)
    masks = np.array([[blob(random, *size) for _ in range(num)] for _ in range(NUM_IMAGES)])
    masks[:, -1] = False
    return masks


def expected(masks: Any, truth_masks: Any) -> list[Any]:
    """Common pixels and areas of both sides, from booleans."""
    common = (masks[:, :, None] & truth_masks[:, None]).sum(axis=(-2, -1))
    return [common, masks.sum(axis=(-2, -1)), truth_masks.sum(axis=(-2, -1))]


def assert_counts(overlaps: Any, wanted: list[Any]) -> None:
    """All counts are equal, and integers of 32 bits."""
    for counted, right in zip(overlaps, wanted, strict=True):
        assert np.array_equal(np.asarray(counted), right)
        assert np.asarray(counted).dtype == np.int32


@pytest.mark.parametrize("lines", [None, 7])
def test_counts_are_those_of_booleans(backend: Backend, lines: int | None) -> None:
    """Whatever the tile; 23 lines are no multiple of 7."""
    masks, truth_masks = make_masks(0, NUM, (23, 31)), make_masks(1, NUM_TRUTHS, (23, 31))
    count = backend.compile(lambda *both: count_overlaps(*both, lines=lines))
    assert_counts(count(backend.array(masks), backend.array(truth_masks)), expected(masks, truth_masks))


def test_every_byte_but_0_is_a_pixel(eager: Backend) -> None:
    """As in run lengths of bytes."""
    masks, truth_masks = make_masks(2, NUM, (9, 14)), make_masks(3, NUM_TRUTHS, (9, 14))
    both = backend_bytes(eager, masks, 7), backend_bytes(eager, truth_masks, 255)
    assert_counts(count_overlaps(*both), expected(masks, truth_masks))


def backend_bytes(backend: Backend, masks: Any, value: int) -> Any:
    """The masks as bytes of a value."""
    return backend.array(masks.astype(np.uint8) * np.uint8(value))


@pytest.mark.parametrize(
    ("num", "num_truths", "size"), [(0, 3, (5, 6)), (3, 0, (5, 6)), (2, 3, (0, 6)), (2, 3, (5, 0))]
)
def test_nothing_to_compare(eager: Backend, num: int, num_truths: int, size: tuple[int, int]) -> None:
    """Images without detections or truths, and masks without pixels."""
    masks, truth_masks = np.ones((2, num, *size), bool), np.ones((2, num_truths, *size), bool)
    overlaps = count_overlaps(eager.array(masks), eager.array(truth_masks))
    assert_counts(overlaps, expected(masks, truth_masks))


def test_counts_beyond_single_precision(eager: Backend) -> None:
    """2^24 + 1 pixels: however many lines are asked for, tiles have fewer pixels, and are added as integers."""
    masks = np.ones((1, 1, 2**12 + 1, 2**12), np.uint8)
    masks[:, :, -1, 1:] = 0
    overlaps = count_overlaps(eager.array(masks), eager.array(masks), lines=2**13)
    assert [int(np.asarray(each).reshape(-1)[0]) for each in overlaps] == [2**24 + 1] * 3


def test_sizes_must_agree(eager: Backend) -> None:
    """The error has both sizes."""
    both = eager.array(np.ones((1, 1, 4, 5), bool)), eager.array(np.ones((1, 1, 5, 4), bool))
    with pytest.raises(InputError, match=r"same height and width; got \(4, 5\) and \(5, 4\)"):
        count_overlaps(*both)


def test_too_many_pixels() -> None:
    """Counts have 32 bits."""
    masks = np.broadcast_to(np.zeros((), bool), (1, 1, 2**16, 2**15))
    with pytest.raises(InputError, match=r"less than 2\^31 pixels"):
        count_overlaps(masks, masks)


def test_a_graph_of_tensorflow_need_not_know_any_size() -> None:
    """One trace for batches of different shapes."""
    import tensorflow as tf

    unknown = tf.TensorSpec([None, None, None, None], tf.bool)
    count = tf.function(count_overlaps, input_signature=[unknown, unknown])
    for size in ((23, 31), (8, 3)):
        masks, truth_masks = make_masks(4, NUM, size), make_masks(5, NUM_TRUTHS, size)
        assert_counts(count(tf.constant(masks), tf.constant(truth_masks)), expected(masks, truth_masks))
    assert count.experimental_get_tracing_count() == 1


def test_an_exported_graph_takes_any_number_of_images() -> None:
    """`torch.export` with a dynamic batch."""
    import torch

    class Count(torch.nn.Module):  # type: ignore[misc]
        def forward(self, masks: Any, truth_masks: Any) -> Any:
            return tuple(count_overlaps(masks, truth_masks))

    masks, truth_masks = make_masks(6, NUM, (20, 30)), make_masks(7, NUM_TRUTHS, (20, 30))
    both = torch.from_numpy(masks), torch.from_numpy(truth_masks)
    images = torch.export.Dim("images", min=1, max=64)
    program = torch.export.export(Count(), both, dynamic_shapes=({0: images}, {0: images})).module()
    assert_counts(
        program(*(each.repeat(3, 1, 1, 1) for each in both)),
        expected(np.tile(masks, (3, 1, 1, 1)), np.tile(truth_masks, (3, 1, 1, 1))),
    )


@pytest.mark.parametrize("size", [(23, 31), (7, 2048), (3, 2049), (1, 1)])
def test_half_precision_counts_exactly(size: tuple[int, int]) -> None:
    """As on CUDA, where a product has at most 2^11 pixels; masks are full, so that every count is the largest."""
    import torch

    from boxscore.arrays.counting import counting

    masks, truth_masks = np.ones((2, 3, *size), bool), np.ones((2, 2, *size), bool)
    with counting() as counts:
        overlaps = count_overlaps(*(counts.place(torch.from_numpy(each)) for each in (masks, truth_masks)))
        assert counts.reads == counts.copies_to_device == counts.copies_to_host == 0
        assert_counts([each.cpu() for each in overlaps], expected(masks, truth_masks))


def test_areas_are_those_of_run_lengths() -> None:
    """The compiled core counts the same pixels."""
    masks = make_masks(8, NUM, (23, 31))
    runs: _compiled.Masks = Masks.from_pixels(masks.reshape(-1, 23, 31)).runs
    assert np.array_equal(count_overlaps(masks, masks).area.reshape(-1), runs.area)
