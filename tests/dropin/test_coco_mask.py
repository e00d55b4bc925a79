"""boxscore.coco.mask gives what pycocotools.mask gives: values, types, shapes, memory order and errors."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pycocotools.mask as reference
import pytest

from boxscore.coco import mask

pytestmark = pytest.mark.native

SQUARE = np.zeros((3, 4), np.uint8, order="F")
SQUARE[1:3, 1:3] = 1
RLE = {"size": [3, 4], "counts": b"42102"}
OUTSIDE = {"size": [3, 4], "counts": b"042M02"}
LARGER = {"size": [5, 5], "counts": b"i0"}
BOX = [[0, 0, 2, 2]]
POLYGON = [1, 1, 3, 1, 3, 3, 1, 3]


def random_mask(random: np.random.Generator, height: int, width: int) -> Any:
    """Noise, nothing, everything, a rectangle or an ellipse."""
    kind = random.integers(5)
    pixels = np.zeros((height, width), bool)
    if kind == 0:
        pixels = random.random((height, width)) < random.random()
    elif kind == 1:
        pixels[:] = True
    elif kind == 2:
        y, x = random.integers(0, height), random.integers(0, width)
        pixels[y : y + random.integers(1, height + 1), x : x + random.integers(1, width + 1)] = True
    elif kind == 3:
        y, x = np.mgrid[:height, :width]
        center, radius = random.random(2) * (height, width), 1 + random.random(2) * (height, width)
        pixels = ((y - center[0]) / radius[0]) ** 2 + ((x - center[1]) / radius[1]) ** 2 < random.random()
    return np.asfortranarray(pixels.astype(np.uint8))


def random_polygon(random: np.random.Generator, height: int, width: int) -> list[float]:
    """Of any shape: crossing itself, outside of the image, with repeated points, thinner than a pixel, on the grid."""
    num = int(random.integers(3, 12))
    point = random.random((num, 2)) * (width, height)
    kind = random.integers(8)
    if kind == 0:
        point = point * 3 - (width, height)
    elif kind == 1:
        point = np.round(point)
    elif kind == 2:
        point[1], point[-1] = point[0], point[-2]
    elif kind == 3:
        point[:, 0] = point[0, 0] + random.random(num) * 0.4
    elif kind == 4:
        point[:, 1] = point[0, 1] + random.random(num) * 0.4
    elif kind == 5:
        point = np.round(point * 5) / 5 + random.choice([-0.1, 0, 0.1], (num, 2))
    elif kind == 6:
        point = np.round(point * 2) / 2
    return [float(number) for number in point.reshape(-1)]


def random_size(random: np.random.Generator) -> tuple[int, int]:
    """From one pixel to some thousands."""
    height, width = random.integers(1, random.choice([4, 30, 200]), 2)
    return int(height), int(width)


def assert_same(result: Any, expected: Any) -> None:
    """The same type, dtype, shape, memory order and bits."""
    assert type(result) is type(expected)
    if isinstance(expected, np.ndarray):
        assert result.dtype == expected.dtype
        assert result.shape == expected.shape
        assert result.flags.f_contiguous == expected.flags.f_contiguous
        assert np.array_equal(result, expected)
    else:
        assert result == expected


@pytest.mark.parametrize("seed", range(60))
def test_masks_are_encoded_decoded_measured_and_merged(seed: int) -> None:
    """Any number of masks, of any size."""
    random = np.random.default_rng(seed)
    for _ in range(20):
        height, width = random_size(random)
        masks = [random_mask(random, height, width) for _ in range(random.integers(1, 6))]
        pixels = np.asfortranarray(np.stack(masks, axis=-1))
        encoded = reference.encode(pixels)
        assert_same(mask.encode(pixels), encoded)
        assert_same(mask.encode(masks[0]), encoded[0])
        for each in (encoded, encoded[0]):
            assert_same(mask.decode(each), reference.decode(each))
            assert_same(mask.area(each), reference.area(each))
            assert_same(mask.toBbox(each), reference.toBbox(each))
        for intersect in (0, 1):
            assert_same(mask.merge(encoded, intersect), reference.merge(encoded, intersect))


@pytest.mark.parametrize("seed", range(60))
def test_iou_of_every_pair(seed: int) -> None:
    """Crowds, empty masks, and masks of another size, which give -1 where their boxes touch."""
    random = np.random.default_rng(seed)
    for _ in range(20):
        height, width = random_size(random)
        truths, detections = (
            [reference.encode(random_mask(random, height, width)) for _ in range(random.integers(1, 6))] for _ in "12"
        )
        if random.random() < 0.3:
            detections.append(reference.encode(random_mask(random, height + 1, width)))
        is_crowd = random.integers(0, 2, len(truths))
        expected = reference.iou(detections, truths, is_crowd)
        assert_same(mask.iou(detections, truths, is_crowd), expected)


@pytest.mark.parametrize("seed", range(100))
def test_polygons_have_the_same_pixels(seed: int) -> None:
    """Thousands of random and degenerate polygons, and boxes."""
    random = np.random.default_rng(seed)
    for _ in range(50):
        height, width = random_size(random)
        polygons = [random_polygon(random, height, width) for _ in range(random.integers(1, 4))]
        assert_same(mask.frPyObjects(polygons, height, width), reference.frPyObjects(polygons, height, width))
        boxes = np.round(random.random((3, 4)) * (width, height, width, height), int(random.integers(0, 3)))
        assert_same(mask.frPyObjects(boxes, height, width), reference.frPyObjects(boxes, height, width))


@pytest.mark.parametrize(
    "points",
    [
        [2.2, 2.2, 2.2, 2.2, 2.2, 2.2],  # one point
        [1, 1, 8, 6, 1, 1],  # two points
        [1, 1, 9, 1, 9, 1.1, 1, 1.1],  # a sliver of a tenth of a pixel
        [1, 1, 9, 9, 1, 9, 9, 1],  # two triangles
        [-5, -5, 30, -5, 30, 30, -5, 30],  # all of the image
        [100, 100, 120, 100, 120, 120],  # outside of it
        [0, 0, 10, 0, 10, 10, 0, 10, 0, 0],  # closed, as some tools write it
        [-1e6, 3, 1e6, 3, 1e6, 7, -1e6, 7],  # far away on both sides
        [0.5, 0.5, 0.5, 9.5, 1.5, 9.5, 1.5, 0.5],  # through the centres of pixels
        [3, 3, 7, 3, 7, 7, 3, 7, 3],  # an odd number of coordinates: the last is left out
    ],
)
def test_degenerate_polygons_have_the_same_pixels(points: list[float]) -> None:
    """In an image of 10 x 10 pixels, and in one of a single column."""
    for height, width in ((10, 10), (10, 1), (1, 10)):
        assert_same(mask.frPyObjects([points], height, width), reference.frPyObjects([points], height, width))


def test_an_outline_that_crosses_itself_a_million_times() -> None:
    """Crossings that cancel each other don't pile up in memory."""
    x = np.where(np.arange(60_000) % 2 == 0, 0.0, 50.0)
    y = np.arange(60_000) % 40 + 0.3
    points = np.stack([x, y], axis=1).reshape(-1).tolist()
    assert_same(mask.frPyObjects([points], 40, 50), reference.frPyObjects([points], 40, 50))


@pytest.mark.parametrize("seed", range(40))
def test_runs_without_pixels(seed: int) -> None:
    """Other tools write such runs; they stay, and mean nothing."""
    random = np.random.default_rng(seed)
    height, width = 20, 30
    counts = random.integers(0, 4, random.integers(1, 30))
    counts[-1] += 1  # so that some pixels are on
    plain = {"size": [height, width], "counts": [*counts.tolist(), height * width - int(counts.sum())]}
    encoded = mask.frPyObjects(plain, height, width)
    assert_same(encoded, reference.frPyObjects(plain, height, width))
    other = reference.encode(random_mask(random, height, width))
    for call in ("area", "decode", "toBbox"):
        if call != "toBbox" or reference.area(encoded):  # the box around nothing has sides of 4e9 in pycocotools
            assert_same(getattr(mask, call)(encoded), getattr(reference, call)(encoded))
    for pair in ([encoded, other], [encoded, encoded]):
        assert_same(mask.iou(pair[:1], pair[1:], [0]), reference.iou(pair[:1], pair[1:], [0]))
        for intersect in (0, 1):
            assert_same(mask.merge(pair, intersect), reference.merge(pair, intersect))


def test_a_run_ends_where_a_byte_changes() -> None:
    """As in COCO: pixels of 1 and 2 are two runs; booleans are bytes, too."""
    pixels = np.asfortranarray(np.random.default_rng(0).integers(0, 3, (7, 9)).astype(np.uint8))
    assert_same(mask.encode(pixels), reference.encode(pixels))
    assert_same(mask.encode(SQUARE.astype(bool)), reference.encode(SQUARE.astype(bool)))


def calls(name: str, *objects: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """The function of this name with each of some objects."""
    return [(name, (each,)) for each in objects]


CALLS = [
    *calls(
        "encode",
        np.ascontiguousarray(SQUARE),
        SQUARE.astype(np.int64),
        np.stack([SQUARE, SQUARE]),
        SQUARE[None, None],
        [[1]],
        np.zeros(3, np.uint8),
        np.zeros((0, 0), np.uint8, order="F"),
        np.zeros((3, 0), np.uint8, order="F"),
        np.zeros((3, 4, 0), np.uint8, order="F"),
    ),
    *calls(
        "decode",
        RLE | {"counts": "42102"},
        RLE | {"counts": [4, 2, 6]},
        {"size": [3, 4]},
        {"counts": b""},
        RLE | {"counts": b"9999"},
        RLE | {"size": [2, 4]},
        None,
        (RLE,),
        RLE | {"size": [3.0, 4]},
        RLE | {"size": (3, 4)},
        RLE | {"size": [3, 4, 5]},
        RLE | {"size": [-3, 4]},
        RLE | {"counts": np.bytes_(b"42102")},
        [RLE, LARGER],
    ),
    *calls("area", [], (RLE,), None, RLE | {"counts": b"9999"}, RLE | {"counts": [4]}),
    *calls("toBbox", [], RLE | {"counts": b""}, RLE | {"counts": b"<"}, None),
    *calls("merge", [], [RLE], [RLE, LARGER], RLE, None, (RLE, OUTSIDE)),
    *(("merge", ([RLE, OUTSIDE], intersect)) for intersect in (2, True, None)),
    *(
        ("frPyObjects", (*arguments, 3, 4))
        for _, arguments in calls(
            "",
            POLYGON,
            [],
            [[]],
            [[1, 1]],
            [[1, 1, 2, 2]],
            [[1, 1, 2, 2, 3]],
            np.array([[1, 1, 2, 2]]),
            np.array([POLYGON], float),
            np.array(POLYGON, float),
            np.zeros((0, 4)),
            RLE,
            [RLE],
            (POLYGON,),
            None,
            "abc",
            [None],
            [[1.5, "a", 2, 3, 4, 5]],
            [np.array(POLYGON)],
            [tuple(POLYGON)],
            [POLYGON, [1, 1, 2, 2]],
            RLE | {"counts": [4, -2, 6]},
            RLE | {"counts": [4.5, 2, 6]},
            RLE | {"counts": "x"},
            RLE | {"counts": (4, 2, 6)},
            RLE | {"counts": np.array([4, 2, 6])},
            {"counts": [1]},
            {"size": [30, 40], "counts": [4, 2, 6]},
            [1, 2, 3, 4],
            (1, 2, 3, 4),
        )
    ),
    *(("frPyObjects", ([POLYGON], *size)) for size in ((3.5, 4), (-1, 4), ("a", 1), (np.int64(3), np.int32(4)))),
    ("iou", ([], [RLE], [0])),
    ("iou", ([RLE], [], [])),
    ("iou", ([RLE], [LARGER], [0])),
    ("iou", ([RLE], [RLE], [])),
    ("iou", ([RLE], [RLE], [0, 1])),
    ("iou", ([RLE], [RLE], [2])),
    ("iou", ([RLE], [RLE], [-1])),
    ("iou", ([RLE], [RLE], [300])),
    ("iou", ([RLE], [RLE], ["a"])),
    ("iou", ([RLE], [RLE], None)),
    ("iou", (RLE, RLE, [0])),
    ("iou", ([RLE], BOX, [0])),
    ("iou", (BOX, [RLE], [0])),
    ("iou", (np.array(BOX), BOX, [0])),
    ("iou", (np.array(BOX, np.float32), np.array(BOX, float), [0])),
    ("iou", ([[0, 0, 2]], BOX, [0])),
    ("iou", ([(0, 0, 2, 2)], BOX, [0])),
    ("iou", ([np.array([0, 0, 2, 2])], BOX, [0])),
    ("iou", (np.zeros((2, 3)), BOX, [0])),
    ("iou", (np.zeros((1, 1, 4)), BOX, [0])),
    ("iou", ("x", BOX, [0])),
    ("iou", ([1], BOX, [0])),
    ("iou", ([{"a": 1}], [RLE], [0])),
    ("iou", ([[0, 0, 2, 2], RLE], BOX, [0])),
    ("iou", ([RLE, [0, 0, 2, 2]], [RLE], [0])),
    ("iou", (tuple(BOX), BOX, [0])),
    ("iou", (np.zeros((0, 4)), BOX, [0])),
]


def outcome(call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """What a call gives, or its error."""
    try:
        return call(*arguments)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_odd_arguments_have_the_same_outcome(name: str, arguments: tuple[Any, ...]) -> None:
    """A value, or an error of the same type with the same text, as on Python 3.11; Cython varies them."""
    result, expected = (outcome(getattr(module, name), arguments) for module in (mask, reference))
    if sys.version_info >= (3, 12) and isinstance(expected, tuple) and expected[0] is TypeError:
        result, expected = result[0], expected[0]
    assert_same(result, expected)


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: mask.frPyObjects([[float("nan")] * 6], 3, 4), "a polygon must have finite numbers"),
        (lambda: mask.frPyObjects([[1e300] * 6], 3, 4), "none of them beyond 4e8"),
        (lambda: mask.frPyObjects([POLYGON], 10**9, 10**9), "at most 4294967295 pixels"),
        (lambda: mask.frPyObjects([[0, 0, 4e8, 5, 4e8, 9, 0, 3]], 10, 4 * 10**8), "at most 10,000,000 columns"),
        (lambda: mask.frPyObjects(np.array([[0, 0, 4e8, 9]]), 10, 4 * 10**8), "at most 10,000,000 columns"),
        (lambda: mask.iou([RLE | {"counts": b"4"}], [RLE], [0]), None),
        (lambda: mask.iou([RLE | {"counts": b"42"}], [RLE], [0]), "run lengths for as many pixels"),
        (lambda: mask.merge([RLE | {"counts": b"42"}, RLE]), "run lengths for as many pixels"),
        (lambda: mask.decode({"size": [10**9, 10**9], "counts": b"0"}), "Invalid RLE mask representation"),
    ],
)
def test_what_makes_pycocotools_hang_or_invent_pixels(call: Callable[[], Any], rule: str | None) -> None:
    """Is an error here; what has no pixels at all has nothing in common with anything."""
    if rule is None:
        assert call() == [[0.0]]
    else:
        with pytest.raises(ValueError, match=rule):
            call()


def test_decoding_what_is_cut_short_leaves_the_rest_off() -> None:
    """In pycocotools the rest is whatever was in memory."""
    assert mask.decode(RLE | {"counts": b"42"}).sum() == 2
    assert mask.decode([]).shape == (0, 0, 0)
