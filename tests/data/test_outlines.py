"""Outlines of masks: drawn again they have the same pixels; parts, holes and corners by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from boxscore.data.geometry.masks import Masks
from boxscore.data.geometry.outlines import are_same, joined, trace, traced

Pixels = NDArray[np.bool_]


def mask_of(text: str) -> Pixels:
    """The pixels of a drawing: lines separated by spaces, # is on."""
    return np.array([[letter == "#" for letter in line] for line in text.split()])


def outlines(text: str) -> list[list[list[float]]]:
    """Its outlines as lists."""
    return [[outline.tolist() for outline in part] for part in trace(mask_of(text))]


def test_a_single_pixel_has_four_corners() -> None:
    """Clockwise from its top left corner on, at the edges of the pixel."""
    assert outlines("... ..# ...") == [[[2, 1, 3, 1, 3, 2, 2, 2]]]


def test_a_run_has_no_corners_in_between() -> None:
    """Only where the outline turns."""
    assert outlines("#### ####") == [[[0, 0, 4, 0, 4, 2, 0, 2]]]


def test_pixels_that_touch_at_a_corner_are_two_parts() -> None:
    """Falling and rising."""
    assert outlines("#. .#") == [[[0, 0, 1, 0, 1, 1, 0, 1]], [[1, 1, 2, 1, 2, 2, 1, 2]]]
    assert outlines(".# #.") == [[[1, 0, 2, 0, 2, 1, 1, 1]], [[0, 1, 1, 1, 1, 2, 0, 2]]]


def test_a_hole_follows_the_outline_of_its_part() -> None:
    """The other way around: down, right, up."""
    ring = [[0, 0, 3, 0, 3, 3, 0, 3], [1, 1, 1, 2, 2, 2, 2, 1]]
    assert outlines("### #.# ###") == [ring]


def test_a_part_in_a_hole_is_a_part_of_its_own() -> None:
    """And a hole in it belongs to it; the hole of the outer part stays with the outer part."""
    nested = outlines("####### #.....# #.###.# #.#.#.# #.###.# #.....# #######")
    assert [len(part) for part in nested] == [2, 2]
    assert nested[0][0] == [0, 0, 7, 0, 7, 7, 0, 7]
    assert sorted(nested[0][1]) == sorted([1, 1, 1, 6, 6, 6, 6, 1])
    assert nested[1][0] == [2, 2, 5, 2, 5, 5, 2, 5]


def test_holes_that_touch_at_a_corner_are_one_hole() -> None:
    """Pixels that are off are connected by corners, too."""
    (part,) = outlines("#### #.## ##.# ####")
    assert len(part) == 2
    assert len(part[1]) == 2 * 8


def test_nothing_has_no_outline() -> None:
    """Nor has an image without pixels."""
    assert trace(np.zeros((3, 4), bool)) == []
    assert trace(np.zeros((0, 4), bool)) == []


def assert_drawn_again(pixels: Pixels) -> None:
    """Polygons per part, and all of them as one, have the same pixels."""
    mask = Masks.from_pixels(pixels[None])
    parts = traced(mask, 0)
    assert are_same(mask, Masks.from_polygons([parts], pixels.shape)).all()
    whole = joined([outline for part in trace(pixels) for outline in part])
    assert are_same(mask, Masks.from_polygons([[whole]], pixels.shape)).all()


@settings(max_examples=300, deadline=None)
@given(arrays.arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9))))
def test_outlines_drawn_again_have_the_same_pixels(pixels: Pixels) -> None:
    """Single pixels, diagonal neighbours, holes, parts in holes, the borders of the image."""
    if pixels.any():
        assert_drawn_again(pixels)


@pytest.mark.parametrize("seed", range(20))
def test_large_masks_drawn_again_have_the_same_pixels(seed: int) -> None:
    """Blobs of many parts with holes."""
    rng = np.random.default_rng(seed)
    coarse = rng.random((rng.integers(3, 12), rng.integers(3, 12))) < rng.random()
    pixels = np.kron(coarse, np.ones((rng.integers(1, 9), rng.integers(1, 9)), bool)) ^ (rng.random() < 0.2)
    pixels[0, 0] = True
    pixels = pixels ^ (rng.random(pixels.shape) < 0.01)
    if pixels.any():
        assert_drawn_again(pixels)


@pytest.mark.parametrize("seed", range(10))
def test_holes_are_inside_of_their_parts(seed: int) -> None:
    """And parts without their holes have the pixels, each once."""
    rng = np.random.default_rng(seed)
    pixels = rng.random((20, 30)) < 0.6
    total = np.zeros(pixels.shape, np.int64)
    for part, *holes in trace(pixels):
        inside = Masks.from_polygons([[part]], pixels.shape).pixels(0).astype(np.int64)
        for hole in holes:
            gap = Masks.from_polygons([[hole]], pixels.shape).pixels(0)
            assert (inside >= gap).all()
            inside -= gap
        total += inside
    assert np.array_equal(total, pixels)


def test_parts_are_joined_at_their_nearest_corners() -> None:
    """By a line that is walked forth and back."""
    one, other = trace(mask_of("#..## ...##"))
    assert joined([*one, *other]).tolist() == [0, 0, 1, 0, 3, 0, 5, 0, 5, 2, 3, 2, 3, 0, 1, 0, 1, 1, 0, 1]


def test_one_outline_is_itself() -> None:
    """Nothing is joined with nothing."""
    outline = np.array([0.0, 0, 2, 0, 2, 2])
    assert joined([outline]).tolist() == outline.tolist()


def test_masks_are_the_same_if_their_pixels_are() -> None:
    """Run lengths of 0 change nothing; another size does."""
    plain, odd, wide = Masks.from_rle(
        [
            {"size": [2, 2], "counts": [1, 2, 1]},
            {"size": [2, 2], "counts": [1, 1, 0, 1, 1]},
            {"size": [1, 4], "counts": [1, 2, 1]},
        ]
    ).rle()
    first = Masks.from_rle([plain, plain, plain])
    assert are_same(first, Masks.from_rle([plain, odd, wide])).tolist() == [True, True, False]
