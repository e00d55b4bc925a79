"""Oriented boxes as a geometry: by hand, against shapely, and the same in every engine."""

from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, Protocol, Truths
from boxscore.arrays import to_numpy
from boxscore.data.geometry.boxes import Boxes
from boxscore.data.geometry.oriented_boxes import OrientedBoxes
from boxscore.engines.parallel.batch import DetectionBatch, TruthBatch, match_shapes
from tests.conftest import COMPILED, Backend, make_backend
from tests.support.comparisons import assert_same, assert_same_tally
from tests.support.oriented_reference import largest_difference, probiou, shapely_iou
from tests.support.oriented_scenes import RADIANS, crowded_scene, random_boxes, random_oriented, random_pairs

pytestmark = pytest.mark.native

OBB, PROBIOU = (Protocol.named("coco", iou_type=iou_type) for iou_type in ("obb", "probiou"))
SQUARE = [0, 0, 2, 0, 2, 2, 0, 2]


def one_by_one(one: OrientedBoxes, other: OrientedBoxes, protocol: Protocol, *, is_crowd: bool = False) -> Any:
    """The similarity of each pair of rows, in plain numbers."""
    pairs = zip(one.shapes(protocol), other.shapes(protocol), strict=True)
    return np.array([OrientedBoxes.similarity(a, b, is_crowd=is_crowd, protocol=protocol) for a, b in pairs])


def pairwise(one: OrientedBoxes, other: OrientedBoxes, protocol: Protocol, *, is_crowd: bool = False) -> Any:
    """The same in arrays: as many images as pairs."""
    rows = np.arange(len(one))[:, None]
    columns, truth_columns = (each.gatherer(protocol, np.zeros(0))(rows) for each in (one, other))
    return OrientedBoxes.pairwise(columns, truth_columns, np.full((len(one), 1), is_crowd), protocol)[:, 0, 0]


def native(one: OrientedBoxes, other: OrientedBoxes, protocol: Protocol) -> Any:
    """The same in compiled code."""
    from boxscore import _compiled

    ids, label, flags = np.arange(len(one)), np.zeros(len(one), np.int64), np.ones(len(one), np.uint8)
    detections = _compiled.Detections(ids, label, np.ones(len(one)), one.compiled(protocol))
    truths = _compiled.Truths(ids, label, other.compiled(protocol))
    return _compiled.find_nearest(detections, truths, flags, flags, 1)[1]


def iou(one: Any, other: Any, box_format: Any = "xyxyxyxy", *, is_crowd: bool = False) -> float:
    """IoU of two boxes, on which all three agree in every bit, whichever comes first."""
    first, second = (OrientedBoxes(boxes=[box], box_format=box_format) for box in (one, other))
    value = float(one_by_one(first, second, OBB, is_crowd=is_crowd)[0])
    assert pairwise(first, second, OBB, is_crowd=is_crowd)[0] == value
    if not is_crowd:
        assert native(first, second, OBB)[0] == value
        assert one_by_one(second, first, OBB)[0] == value
    return value


class TestByHand:
    """Areas that can be worked out on paper."""

    def test_squares(self) -> None:
        """Half of each is shared: 2 / 6; a crowd divides by the detection's own 4."""
        moved = [1, 0, 3, 0, 3, 2, 1, 2]
        assert iou(SQUARE, moved) == 2 / 6
        assert iou(SQUARE, moved, is_crowd=True) == 2 / 4
        assert iou(SQUARE, SQUARE) == 1
        assert iou(SQUARE, [0.5, 0.5, 1.5, 0.5, 1.5, 1.5, 0.5, 1.5]) == 1 / 4

    def test_an_octagon(self) -> None:
        """A square of side 2 and the same turned by 45 degrees share an octagon of 8 (√2 - 1)."""
        octagon = 8 * (np.sqrt(2) - 1)
        turned = iou([0, 0, 2, 2, 0], [0, 0, 2, 2, 45], "cxcywha:degrees")
        assert turned == pytest.approx(octagon / (8 - octagon), abs=1e-15)

    def test_touching_is_not_sharing(self) -> None:
        """An edge or a corner in common, and boxes that only their outer boxes overlap."""
        assert iou(SQUARE, [2, 0, 4, 0, 4, 2, 2, 2]) == 0
        assert iou(SQUARE, [2, 2, 4, 2, 4, 4, 2, 4]) == 0
        assert iou([0, 0, 1, -1, 10, 8, 9, 9], [6, 0, 10, 0, 10, 2, 6, 2]) == 0

    def test_triangles(self) -> None:
        """A corner given twice: half of the square."""
        assert iou(SQUARE, [0, 0, 2, 0, 2, 2, 2, 2]) == 0.5

    @pytest.mark.parametrize(
        "nothing",
        [[1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 2, 2, 1, 1], [0, 0, 1, 0, 2, 0, 1.5, 0], [0, 0, 0, 0, 2, 2, 2, 2]],
    )
    def test_without_area(self, nothing: Any) -> None:
        """A point and lines have an IoU of 0, with themselves, too."""
        assert iou(SQUARE, nothing) == 0
        assert iou(nothing, nothing) == 0
        assert iou(nothing, SQUARE, is_crowd=True) == 0

    def test_direction_of_angles(self) -> None:
        """By 30 degrees the end of the long side goes down in an image, where y grows; with ccw it goes up."""
        down = OrientedBoxes(boxes=[[0, 0, 4, 0, 30]], box_format="cxcywha:degrees").corners()[0]
        assert down[2:4].tolist() == pytest.approx([np.sqrt(3), 1])
        up = OrientedBoxes(boxes=[[0, 0, 4, 0, 30]], box_format="cxcywha:degrees:ccw").corners()[0]
        assert up[2:4].tolist() == pytest.approx([np.sqrt(3), -1])
        formats: list[tuple[Any, Any]] = [("cxcywha:radians", "cxcywha:degrees")]
        formats += [("cxcywha:radians:ccw", "cxcywha:degrees:ccw")]
        for one, other in formats:
            radians = OrientedBoxes(boxes=[[0, 0, 4, 2, np.pi / 6]], box_format=one).corners()
            degrees = OrientedBoxes(boxes=[[0, 0, 4, 2, 30]], box_format=other).corners()
            np.testing.assert_allclose(radians, degrees, rtol=0, atol=1e-15)

    def test_ranges_of_angles_do_not_matter(self) -> None:
        """One box as OpenCV, MMRotate's le90 and le135, and DOTA's long-side form write it."""
        same = [[9, 9, 8, 3, 30], [9, 9, 3, 8, -60], [9, 9, 3, 8, 120], [9, 9, 8, 3, -150], [9, 9, 8, 3, 210]]
        for one in same:
            assert iou(one, same[0], "cxcywha:degrees") == pytest.approx(1, abs=1e-14)

    def test_areas_and_outer_boxes(self) -> None:
        """Width times height, exactly; that of a quadrilateral from its corners, whichever way they turn."""
        boxes = OrientedBoxes(boxes=[[50, 50, 32, 32, 0.3]], box_format=RADIANS)
        assert boxes.areas(OBB).tolist() == [1024]
        quads = OrientedBoxes(boxes=np.array([SQUARE, SQUARE]).reshape(2, 4, 2)[:, ::-1])
        assert quads.areas(OBB).tolist() == [4, 4]
        assert quads.outer_boxes().tolist() == [[0, 0, 2, 2]] * 2
        assert len(quads.take([True, False])) == 1


class TestAgainstOthers:
    """Shapely and Ultralytics' formula as oracles."""

    @pytest.mark.parametrize("offset", [0.0, 1e7])
    @pytest.mark.not_sanitized
    def test_shapely(self, offset: float) -> None:
        """Within 1e-12, also far away, where coordinates have 2e-9: the shapes are the same, as is their IoU."""
        one, other = random_pairs(0, 20_000)
        first, second = (np.round(corners * 1024) / 1024 + offset for corners in (one, other))
        ours = pairwise(OrientedBoxes(boxes=first), OrientedBoxes(boxes=second), OBB)
        assert largest_difference(ours, first - offset, second - offset) < 1e-12
        assert (ours > 0.01).mean() > 0.5

    @pytest.mark.not_sanitized
    def test_very_thin_boxes(self) -> None:
        """Areas are differences of products of sides: what is lost is 1e-16 times length over width."""
        random = np.random.default_rng(3)
        one, other = random_boxes(random, 3000), random_boxes(random, 3000)
        one[:, 3] = 10 ** random.uniform(-7, 0, 3000)
        first, second = (OrientedBoxes(boxes=box, box_format=RADIANS).corners() for box in (one, other))
        ours = pairwise(OrientedBoxes(boxes=first), OrientedBoxes(boxes=second), OBB)
        lost = 1e-15 * one[:, 2] / one[:, 3] * 60
        assert (np.abs(ours - shapely_iou(first, second)) < 1e-12 + lost).all()

    def test_upright_boxes(self) -> None:
        """At angles of 0 it is the IoU of boxes."""
        random = np.random.default_rng(1)
        box, truth = (random.uniform(1, 50, (500, 4)) for _ in range(2))
        protocol = Protocol.named("coco")
        upright = [Boxes(boxes=each, box_format="cxcywh").shapes(protocol) for each in (box, truth)]
        expected = [Boxes.similarity(a, b, is_crowd=False, protocol=protocol) for a, b in zip(*upright, strict=True)]
        first, second = (
            OrientedBoxes(boxes=np.pad(each, ((0, 0), (0, 1))), box_format=RADIANS) for each in (box, truth)
        )
        np.testing.assert_allclose(one_by_one(first, second, OBB), np.array(expected), rtol=0, atol=1e-14)

    def test_probiou(self) -> None:
        """Boxes with angles, and the same as corners: their least rectangle is the box."""
        random = np.random.default_rng(2)
        one, other = random_boxes(random, 400), random_boxes(random, 400)
        first, second = (OrientedBoxes(boxes=box, box_format=RADIANS) for box in (one, other))
        np.testing.assert_allclose(one_by_one(first, second, PROBIOU), probiou(one, other), rtol=0, atol=1e-6)
        quads, other_quads = (OrientedBoxes(boxes=each.corners()) for each in (first, second))
        np.testing.assert_allclose(
            one_by_one(quads, other_quads, PROBIOU), one_by_one(first, second, PROBIOU), rtol=0, atol=1e-9
        )
        # as in Ultralytics: a box and itself are 1 - sqrt(2e-7) alike
        assert one_by_one(first, first, PROBIOU).tolist() == pytest.approx([1 - np.sqrt(2e-7)] * 400, abs=1e-6)


@pytest.mark.parametrize("protocol", [OBB, PROBIOU], ids=["obb", "probiou"])
def test_three_twins_have_the_same_bits(protocol: Protocol) -> None:
    """Plain numbers, arrays and compiled code; and a pair has one similarity. Logarithms may differ in arrays."""
    one, other = (OrientedBoxes(boxes=corners) for corners in random_pairs(5, 4000))
    plain, arrays, compiled = (compare(one, other, protocol) for compare in (one_by_one, pairwise, native))
    assert np.array_equal(plain, compiled)
    if protocol is OBB:
        assert np.array_equal(plain, arrays)
        assert np.array_equal(plain, one_by_one(other, one, protocol))
        assert (one_by_one(one, one, protocol) == 1).all()
    np.testing.assert_allclose(plain, arrays, rtol=0, atol=1e-12)
    assert plain.min() >= 0
    assert plain.max() <= 1


@pytest.mark.parametrize("protocol", [OBB, PROBIOU], ids=["obb", "probiou"])
@pytest.mark.parametrize("threshold", [0.02, 0.3, 0.5, 0.95])
def test_the_index_leaves_nothing_out(threshold: float, protocol: Protocol) -> None:
    """Many truths of one class: the same verdicts as if all pairs were compared."""
    protocol = protocol.replace(thresholds=(threshold,), limits=(None,))
    for seed in range(3):
        detections, truths = crowded_scene(seed)
        tally, expected = (boxscore.match(detections, truths, protocol, each) for each in ("native", "parallel"))
        assert_same_tally(tally.sorted(), expected.sorted())
        assert tally.is_true.any()


@pytest.mark.not_sanitized
@pytest.mark.parametrize("protocol", [OBB, PROBIOU], ids=["obb", "probiou"])
def test_every_array_library(eager: Backend, protocol: Protocol) -> None:
    """The verdicts of NumPy's arrays, in all engines."""
    detections, truths = random_oriented(7)
    expected = boxscore.match(detections, truths, protocol)
    moved, moved_truths = (
        OrientedBoxes(boxes=eager.array(columns.geometry.arrays[0]), box_format=RADIANS)
        for columns in (detections, truths)
    )
    found = Detections(
        image_ids=detections.image_ids, labels=detections.labels, scores=detections.scores, geometry=moved
    )
    there = Truths(image_ids=truths.image_ids, labels=truths.labels, geometry=moved_truths, ignore=truths.ignore)
    for engine in ("native", "parallel"):
        assert_same_tally(boxscore.match(found, there, protocol, engine).sorted(), expected.sorted())


@pytest.mark.not_sanitized
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_by_every_array_library(name: str) -> None:
    """Padded batches of static shape. A compiler may fuse a product and a sum: verdicts are the same."""
    backend = make_backend(name)
    random = np.random.default_rng(0)
    truth = random_boxes(random, 12)
    found = np.repeat(truth, 2, axis=0) + random.normal(0, 1, (24, 5)) * [1, 1, 0.5, 0.5, 0.05]
    found[:, 2:4] = np.abs(found[:, 2:4])
    found[:, 4] = np.remainder(found[:, 4], 2 * np.pi)
    boxes = [OrientedBoxes(boxes=box, box_format=RADIANS) for box in (found, truth)]
    rows = [np.arange(24).reshape(2, 12), np.arange(12).reshape(2, 6)]
    columns = [each.gatherer(OBB, np.zeros(0))(row) for each, row in zip(boxes, rows, strict=True)]
    areas = [each.areas(OBB)[row] for each, row in zip(boxes, rows, strict=True)]
    label, truth_label = np.zeros((2, 12), np.int64), np.zeros((2, 6), np.int64)
    score, discarded = random.random((2, 12)), np.zeros((2, 12), bool)

    def match(*arrays: Any) -> Any:
        return match_shapes(
            DetectionBatch(arrays[:3], arrays[6], arrays[8], arrays[9], arrays[10], None),
            TruthBatch(arrays[3:6], arrays[7], arrays[11], arrays[12], None),
            OBB,
            OrientedBoxes.pairwise,
        ).verdict

    arrays = [*columns[0], *columns[1], *areas, label, score, discarded, truth_label, np.zeros((2, 6), np.uint8)]
    expected = match(*arrays)
    verdict = backend.compile(match)(*map(backend.array, arrays))
    assert np.array_equal(to_numpy(verdict), expected)
    assert len(np.unique(expected)) > 1


def test_a_name_takes_the_shapes_that_there_are() -> None:
    """COCO, on oriented boxes, is COCO with their IoU."""
    detections, truths = random_oriented(1)
    result = boxscore.evaluate(detections, truths)
    assert result.protocol == OBB
    assert_same(result, boxscore.evaluate(detections, truths, OBB))
    assert repr(detections).startswith(f"Detections({len(detections)} oriented boxes in")


class TestErrors:
    """Each says the row, the rule and what came."""

    @pytest.mark.parametrize(
        ("box", "box_format", "message"),
        [
            ([[0, 0, 4, 2, 1]], "cxcywha", "radians or degrees: cxcywha:radians or cxcywha:degrees; got 'cxcywha'"),
            ([[0, 0, 4, 2, 1]], "cxcywha:turns", "must be one of xyxyxyxy, cxcywha:radians, .*; got 'cxcywha:t"),
            ([[0, 0, 4, 2, 1]], "xyxyxyxy", r"\(N, 8\) or \(N, 4, 2\), four corners per box; got \(1, 5\): boxes with"),
            ([[0, 0, 4, 2, 1, 1]], "xyxyxyxy", r"got \(1, 6\): 3 corners per box"),
            ([[0, 0, 4, 2]], "xyxyxyxy", r"got \(1, 4\): upright boxes are box_format=\"xyxy\""),
            ([SQUARE], RADIANS, r"\(N, 5\), centre, width, height and angle .*got \(1, 8\): four corners"),
            ([SQUARE, [*SQUARE[:7], np.nan]], "xyxyxyxy", "`boxes` row 1 must have 8 finite numbers; got"),
            ([[0, 0, np.inf, 2, 1]], RADIANS, "`boxes` row 0 must have 5 finite numbers; got"),
            ([[0, 0, 4, -2, 1]], RADIANS, "`boxes` row 0 must not have a negative width or height"),
            ([[0, 0, 1e19, 2, 1]], RADIANS, r"`boxes` row 0 must have sides up to 1e\+18"),
            ([[-1e19, 0, 1e19, 0, 1e19, 2, 0, 2]], "xyxyxyxy", r"`boxes` row 0 must have sides up to 1e\+18"),
            ([[0, 0, 4, 2, 45]], RADIANS, "a turn, 2 pi radians .*are these degrees, box_format='cxcywha:degrees'"),
            ([[0, 0, 4, 2, 400]], "cxcywha:degrees:ccw", "at most a turn, 360 degrees"),
            ([SQUARE, [0, 0, 2, 2, 2, 0, 0, 2]], "xyxyxyxy", "row 1 must have its corners in order .*, and not be"),
            ([[0, 0, 4, 0, 1, 1, 0, 4]], "xyxyxyxy", "`boxes` row 0 must be convex: no corner may lie inside"),
            ([[True] * 8], "xyxyxyxy", "`boxes` must hold real numbers"),
        ],
    )  # fmt: skip
    def test_what_is_no_box_is_refused(self, box: Any, box_format: Any, message: str) -> None:
        """With what to do about it, where that can be told."""
        with pytest.raises(InputError, match=message):
            OrientedBoxes(boxes=box, box_format=box_format)

    def test_a_dent_of_rounding_is_accepted(self) -> None:
        """Files have one decimal: up to 5% of the diagonal, and the hull counts."""
        dented = [0, 0, 10, 0.1, 20, 0, 20, 8]
        assert OrientedBoxes(boxes=[dented]).areas(OBB).tolist() == [80]
        assert iou(dented, [0, 0, 20, 0, 20, 8, 20, 8]) == 1
        twisted = [0, 0, 100, 0.1, 100, 0, 0, 0.1]  # a thin box whose ends were rounded past each other
        assert OrientedBoxes(boxes=[twisted]).areas(OBB)[0] == pytest.approx(10)
        for dent in (0.9, 1.3):
            quad = [0, 0, 10, dent, 20, 0, 10, 20]
            if dent > 0.05 * np.hypot(20, 20 - 0):
                with pytest.raises(InputError, match="must be convex"):
                    OrientedBoxes(boxes=[quad])

    def test_nothing_is_fine(self) -> None:
        """No boxes, in every format."""
        for box_format in ("xyxyxyxy", RADIANS):
            assert len(OrientedBoxes(boxes=[], box_format=box_format)) == 0
