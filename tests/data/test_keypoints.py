"""Keypoints as a geometry: OKS by hand and to the last bit, the same in every engine, and through all that boxes do."""

import math
import pickle
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import boxscore
import boxscore._compiled as _compiled
from boxscore import Detections, InputError, MeanAveragePrecision, Protocol, Tally, Truths
from boxscore.arrays import library, to_numpy
from boxscore.data import Keypoints
from boxscore.data.geometry.keypoints import _sum_as_numpy
from boxscore.data.preparation import prepare
from boxscore.engines.parallel.batch import DetectionBatch, TruthBatch, match_shapes
from boxscore.protocol.table import NUM_WHOLEBODY
from tests.conftest import COMPILED, EAGER, Backend, make_backend
from tests.support.comparisons import assert_same, assert_same_tally
from tests.support.dropin import THEIRS, from_dicts, outcome
from tests.support.engines import ENGINES
from tests.support.pose_scenes import (
    columns_of,
    flat_columns,
    image_dicts,
    points_of,
    protocol_with,
    random_poses,
)

COCO = Protocol.named("coco_keypoints")
TWO = COCO.replace(sigmas=(0.5, 0.25))
"""Two points whose variances, (2 x sigma)², are 1 and 1/4."""
NUM_POINTS = (1, 5, 7, 8, 9, 17, 133, 200)
"""Around 8 and 128, where NumPy changes the order in which it adds."""

EMPTY: list[Any] = [[], np.zeros((0, 17, 3)), np.zeros(0), np.zeros((0, 0, 2))]
"""The keypoints of an image without poses, as people write them."""
EMPTY_IDS = ["list", "(0, 17, 3)", "(0,)", "(0, 0, 2)"]

few = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def found_at(*poses: Any, score: Any = None, **columns: Any) -> Detections:
    """Detections of class 0 in image 0, by falling score."""
    score = np.linspace(0.9, 0.1, len(poses)) if score is None else score
    ids: dict[str, Any] = {"image_ids": [0] * len(poses), "labels": [0] * len(poses)}
    return Detections(**ids, scores=score, keypoints=np.array(poses, np.float64), **columns)


def truths_at(*poses: Any, **columns: Any) -> Truths:
    """Truths of class 0 in image 0."""
    ids: dict[str, Any] = {"image_ids": [0] * len(poses), "labels": [0] * len(poses)}
    return Truths(**ids, keypoints=np.array(poses, np.float64), **columns)


def oks(detections: Detections, truths: Truths, protocol: Protocol, *, is_crowd: bool = False) -> Any:
    """The similarities by the sequential engine. Shape (D, G)."""
    shapes, truth_shapes = detections.keypoints.shapes(protocol), truths.keypoints.shapes(protocol)
    return np.array(
        [[Keypoints.similarity(a, b, is_crowd=is_crowd, protocol=protocol) for b in truth_shapes] for a in shapes]
    )


def native_oks(detections: Detections, truths: Truths, protocol: Protocol) -> Any:
    """The same by the native engine. Shape (D, G)."""
    group = _compiled.ImageGroups(np.array([0, len(detections)]), np.array([0, len(truths)]))
    sides = detections.keypoints.compiled(protocol), truths.keypoints.compiled(protocol)
    values = _compiled.similarities(group, *sides, np.zeros(len(truths), np.uint8), 1)
    return values.reshape(len(detections), len(truths))


class TestByHand:
    """Two points, and numbers that need no rounding."""

    # The first point is 3 right and 4 down of the truth: 25 / 1 / 50 / 2 = 1/4.
    # The second is 5 down: 25 / (1/4) / 50 / 2 = 1.
    POSE, TRUTH = [[3, 4], [10, 5]], [[0, 0, 2], [10, 0, 1]]

    @pytest.mark.native
    def test_oks_is_the_mean_closeness_of_the_labelled_points(self) -> None:
        """The mean of exp(-1/4) and exp(-1); of exp(-1) alone where the first point has no label."""
        detections = found_at(self.POSE)
        truths = truths_at(self.TRUTH, [[0, 0, 0], [10, 0, 1]], area=[50, 50])
        expected = [[(math.exp(-0.25) + math.exp(-1)) / 2, math.exp(-1)]]
        assert oks(detections, truths, TWO).tolist() == expected
        assert native_oks(detections, truths, TWO).tolist() == expected

    @pytest.mark.native
    def test_without_labels_points_are_free_in_the_box_around_three_boxes(self) -> None:
        """The box from (10, 20), 20 wide and 30 high, becomes (-10, -10) to (50, 80), borders included."""
        truths = truths_at([[0, 0, 0]] * 2, boxes=[[10, 20, 20, 30]], box_format="xywh", area=[50])
        # 3 left and 4 above: 25 / 1 / 50 / 2 = 1/4; 5 right: 25 / (1/4) / 50 / 2 = 1
        detections = found_at([[-10, -10], [50, 80]], [[-13, -14], [0, 0]], [[20, 30], [55, 80]])
        expected = [[1.0], [(math.exp(-0.25) + 1) / 2], [(1 + math.exp(-1)) / 2]]
        assert oks(detections, truths, TWO).tolist() == expected
        assert native_oks(detections, truths, TWO).tolist() == expected

    @pytest.mark.native
    def test_without_labels_and_without_a_box_nothing_is_similar(self) -> None:
        """There is nowhere to be near to."""
        detections, truths = found_at([[0, 0], [10, 0]]), truths_at([[0, 0, 0], [10, 0, 0]], area=[50])
        assert oks(detections, truths, TWO).tolist() == [[0.0]]
        assert native_oks(detections, truths, TWO).tolist() == [[0.0]]

    @pytest.mark.native
    @pytest.mark.parametrize("engine", ENGINES)
    def test_a_detection_is_right_up_to_its_oks(self, engine: Any) -> None:
        """(exp(-1/4) + exp(-1)) / 2 is 0.573: at 0.5 and 0.55, and at none of the eight thresholds above."""
        tally = boxscore.match(found_at(self.POSE), truths_at(self.TRUTH, area=[50]), TWO, engine)
        assert tally.verdict[0, 0].tolist() == [2] * 2 + [1] * 8

    @pytest.mark.native
    @pytest.mark.parametrize("engine", ENGINES)
    @pytest.mark.parametrize(("num", "num_near", "threshold"), [(20, 11, 0.55), (25, 14, 0.56), (100, 7, 0.07)])
    def test_an_oks_that_equals_the_threshold_reaches_it(
        self, num: int, num_near: int, threshold: float, engine: Any
    ) -> None:
        """14 of 25 points are right and the others far away: 0.56, though 0.56 x 25 is above 14."""
        point = np.stack([np.arange(num), np.arange(num) % 7, np.full(num, 2)], axis=1)
        pose = point[:, :2] + 1e7 * (np.arange(num) >= num_near)[:, None]
        protocol = protocol_with(num, thresholds=[threshold])
        truths = truths_at(point, area=[500])
        assert oks(found_at(pose), truths, protocol).tolist() == [[num_near / num]] == [[threshold]]
        assert boxscore.match(found_at(pose), truths, protocol, engine).verdict[0, 0].tolist() == [2]

    @pytest.mark.native
    @pytest.mark.parametrize("engine", ENGINES)
    def test_a_crowd_is_no_region_but_may_be_taken_many_times(self, engine: Any) -> None:
        """Its OKS is that of any truth. Who takes it is ignored; who is far from its points is a false positive."""
        near, far = [[0, 0], [10, 0]], [[0, 900], [10, 900]]
        detections = found_at(near, near, far)
        truths = truths_at(self.TRUTH, area=[50], boxes=[[0, 0, 2000, 2000]], ignore=[True])
        assert np.array_equal(oks(detections, truths, TWO, is_crowd=True), oks(detections, truths, TWO))
        assert boxscore.match(detections, truths, TWO, engine).verdict[:, 0, 0].tolist() == [0, 0, 1]
        regular = truths_at(self.TRUTH, area=[50], boxes=[[0, 0, 2000, 2000]])
        assert boxscore.match(detections, regular, TWO, engine).verdict[:, 0, 0].tolist() == [2, 1, 1]

    @pytest.mark.native
    @pytest.mark.parametrize("engine", ENGINES)
    def test_a_truth_without_labels_is_ignored_and_taken_once(self, engine: Any) -> None:
        """The first detection in its box counts nowhere, the second is a false positive, and no truth is left."""
        truths = truths_at([[0, 0, 0]] * 2, area=[50], boxes=[[0, 0, 9, 9]])
        result = boxscore.evaluate(found_at([[1, 1], [2, 2]], [[1, 1], [2, 2]]), truths, TWO, engine)
        assert result.tally.verdict[:, 0, 0].tolist() == [0, 1]
        assert result.tally.num_truths.tolist() == [[0, 0, 0]]
        assert math.isnan(result["map"])

    def test_areas_that_are_not_given_are_a_share_of_the_box(self) -> None:
        """0.53 of the box's; without a box, of the one around the labelled points: 10 x 20."""
        pose = [[0, 0, 2], [10, 20, 2], [400, 400, 0]]
        three = COCO.replace(sigmas=(0.1, 0.1, 0.1))
        assert truths_at(pose).keypoints.areas(three).tolist() == [200 * 0.53]
        boxed = truths_at(pose, boxes=[[0, 0, 30, 40]], box_format="xywh")
        assert boxed.keypoints.areas(three).tolist() == [1200 * 0.53]
        assert truths_at(pose, boxes=[[0, 0, 30, 40]], area=[7]).keypoints.areas(three).tolist() == [7.0]
        assert found_at([[1, 2], [4, 12], [2, 5]]).keypoints.areas(three).tolist() == [30.0]

    def test_outer_boxes(self) -> None:
        """A truth's own box; else that around its labelled points; of a detection, around all."""
        pose = [[1, 2, 2], [10, 20, 2], [400, 400, 0]]
        assert truths_at(pose).keypoints.outer_boxes().tolist() == [[1, 2, 10, 20]]
        boxed = truths_at(pose, boxes=[[5, 6, 30, 40]], box_format="xywh")
        assert boxed.keypoints.outer_boxes().tolist() == [[5, 6, 35, 46]]
        assert found_at([[1, 2], [10, 20], [400, 1]]).keypoints.outer_boxes().tolist() == [[1, 1, 400, 20]]


class TestEngines:
    """Three engines and every array library, on scenes with ties, crowds, empty images and poses of no size."""

    @pytest.mark.native
    @pytest.mark.parametrize("engine", ENGINES)
    @pytest.mark.parametrize("num_points", NUM_POINTS)
    def test_every_engine_gives_the_same_tally(self, num_points: int, engine: Any) -> None:
        """And the same numbers, under COCO and VOC, by class and with all classes as one."""
        for seed in range(3):
            detections, truths = columns_of(*random_poses(seed, num_points=num_points))
            for protocol in (
                protocol_with(num_points),
                protocol_with(num_points, "voc2012", iou_type="keypoints"),
                protocol_with(num_points, class_agnostic=True),
            ):
                result, expected = (
                    boxscore.evaluate(detections, truths, protocol, each) for each in (engine, "native")
                )
                assert_same_tally(result.tally.sorted(), expected.tally.sorted())
                assert_same(result, expected)
                assert 0 < result["map"] < 1

    @pytest.mark.native
    @pytest.mark.parametrize("num_points", NUM_POINTS)
    def test_native_oks_has_the_bits_of_the_sequential(self, num_points: int) -> None:
        """Every detection with every truth, of whatever image; with labels and without."""
        detections, truths = columns_of(*random_poses(1, num_points=num_points, num_images=12))
        protocol = protocol_with(num_points)
        values = native_oks(detections, truths, protocol)
        assert np.array_equal(values, oks(detections, truths, protocol))
        assert len(np.unique(values)) > 20

    @pytest.mark.parametrize("num_points", NUM_POINTS)
    def test_pairwise_oks_has_the_bits_of_pycocotools(self, num_points: int) -> None:
        """On NumPy, with NumPy's own exp, whatever the processor's."""
        dataset, results = random_poses(2, num_points=num_points, num_classes=1)
        for row in (*dataset["annotations"], *results):
            row["image_id"] = 0  # so that all are compared with all
        detections, truths = columns_of(dataset, results)
        protocol = protocol_with(num_points)
        limits = {"kpt_oks_sigmas": np.array(protocol.sigmas), "maxDets": [len(results)]}
        evaluation, _ = outcome(lambda tool: from_dicts(tool, dataset, results, iou_type="keypoints", **limits), THEIRS)
        outcome(lambda _: evaluation._prepare(), THEIRS)
        by_score = np.argsort(-detections.scores, kind="stable")
        like = np.zeros(0)
        columns = detections.keypoints.gatherer(protocol, like)(by_score[None])
        truth_columns = truths.keypoints.gatherer(protocol, like)(np.arange(len(truths))[None])
        values = Keypoints.pairwise(columns, truth_columns, np.zeros((1, len(truths)), bool), protocol)
        assert np.array_equal(values[0], evaluation.computeOks(0, 0))

    @pytest.mark.parametrize("num_points", [17, NUM_WHOLEBODY])
    def test_every_library_gives_the_verdicts_of_numpy(self, eager: Backend, num_points: int) -> None:
        """From flat columns, in float64."""
        dataset, results = random_poses(3, num_points=num_points)
        protocol = protocol_with(num_points)
        expected = boxscore.evaluate(*columns_of(dataset, results), protocol, "sequential")
        found, truth = ({k: eager.array(v) for k, v in side.items()} for side in flat_columns(dataset, results))
        detections = Detections(**found)
        truths = Truths(**truth, box_format="xywh", class_names=["class 0", "class 1"])
        result = boxscore.evaluate(detections, truths, protocol, "parallel")
        assert result.iou_dtype == "float64"
        assert library(*detections.geometry.arrays) == eager.name.partition("-")[0]
        assert_same_tally(result.tally.sorted(), expected.tally.sorted())
        for name in ("precision", "recall", "scores"):
            assert np.array_equal(getattr(result.curves, name), getattr(expected.curves, name)), name

    @pytest.mark.parametrize("name", ["torch", "jax", "tensorflow"])
    def test_float32_keypoints_are_compared_in_float64(self, name: str) -> None:
        """A float32 coordinate is a number like any other."""
        array = make_backend(name).array
        found, truth = flat_columns(*random_poses(5, num_points=5))
        found["keypoints"] = found["keypoints"].astype(np.float32)
        truths = Truths(**truth, box_format="xywh")
        protocol = protocol_with(5)
        expected = boxscore.match(Detections(**found), truths, protocol, "sequential")
        moved = Detections(**{key: array(column) for key, column in found.items()})
        for engine in ("parallel", "native"):
            tally = boxscore.match(moved, truths, protocol, engine)
            assert tally.iou_dtype == "float64"
            assert_same_tally(tally.sorted(), expected.sorted())

    @pytest.mark.parametrize("num_points", [5, 17])
    @pytest.mark.parametrize("name", ["numpy-readonly", *COMPILED])
    def test_matching_can_be_compiled(self, name: str, num_points: int) -> None:
        """Static shapes, with padding: the verdicts of `match` under jit. The test above has them eager."""
        backend = make_backend(name)
        protocol = protocol_with(num_points)
        detections, truths = prepare(*columns_of(*random_poses(6, num_points=num_points)), protocol)
        like = np.zeros(0)
        rows, truth_rows = (padded_rows(each.image_ids, 8) for each in (detections, truths))
        arrays = [
            *detections.keypoints.gatherer(protocol, like)(np.minimum(rows, len(detections) - 1)),
            *truths.keypoints.gatherer(protocol, like)(np.minimum(truth_rows, len(truths) - 1)),
            *(padded(column, rows) for column in (detections.keypoints.areas(protocol), detections.scores)),
            *(padded(column, rows, -1) for column in (detections.labels,)),
            rows == len(detections),
            padded(truths.area, truth_rows),
            padded(truths.labels, truth_rows, -1),
            padded(truths.kinds(protocol), truth_rows),
        ]

        def match(*columns: Any) -> Any:
            point, *labelled = columns[:5]
            area, score, label, discarded, truth_area, truth_label, kind = columns[5:]
            found = DetectionBatch((point,), area, label, score, discarded)
            return match_shapes(
                found, TruthBatch(tuple(labelled), truth_area, truth_label, kind), protocol, Keypoints.pairwise
            )

        matched = backend.compile(match)(*map(backend.array, arrays))
        assert library(matched.verdict) == backend.name.partition("-")[0]
        verdict, rank = to_numpy(matched.verdict), to_numpy(matched.rank)
        expected = boxscore.match(detections, truths, protocol, "sequential")
        image, slot = np.nonzero(rows < len(detections))
        order = np.lexsort((rank[image, slot], arrays[7][image, slot], image))  # the order of a tally
        assert np.array_equal(verdict[image[order], slot[order]], expected.verdict)


def padded_rows(image: NDArray[Any], num_images: int) -> NDArray[np.int64]:
    """The rows of each image; the number of rows where there are no more. Shape (N, D)."""
    rows = [np.flatnonzero(image == each) for each in range(num_images)]
    length = max(each.size for each in rows)
    return np.array([np.pad(each, (0, length - each.size), constant_values=len(image)) for each in rows])


def padded(column: Any, rows: NDArray[np.int64], fill: int = 0) -> NDArray[Any]:
    """A column by image. Shape (N, D)."""
    column = np.asarray(column)
    return np.append(column, column.dtype.type(fill))[rows]


class TestSums:
    """The order of additions is NumPy's, where only some of the values count."""

    def total(self, values: Any, is_counted: Any) -> float:
        """By the code that any library runs."""
        return float(_sum_as_numpy(values[None, None, None], is_counted.astype(np.float64)[None, None])[0, 0, 0])

    def test_every_length(self) -> None:
        """From 1 to 300; another order gives other bits for most of them."""
        random = np.random.default_rng(0)
        differing = 0
        for num in range(1, 301):
            values = random.random(num)
            assert self.total(values, np.ones(num, bool)) == np.sum(values), num
            # Not `sum`, which has corrections of its own since Python 3.12.
            differing += reduce(add, values.tolist()) != np.sum(values)
        assert differing > 150

    @given(st.integers(1, 300), st.integers(0, 200), seeds)
    @example(249, 0, 1)  # 120 and 129, of which the second is split again
    @settings(max_examples=80, deadline=None)
    def test_values_that_do_not_count_leave_no_gap(self, num: int, num_others: int, seed: int) -> None:
        """As if they had been taken out before."""
        random = np.random.default_rng(seed)
        values = random.random(num + num_others) ** 4
        is_counted = random.permutation(num + num_others) < num
        assert self.total(values, is_counted) == np.sum(values[is_counted])

    @pytest.mark.parametrize("name", [*EAGER, "torch-compile", "jax-jit"])
    def test_every_library_adds_in_this_order(self, name: str) -> None:
        """Compiled, too: a product with 0 or 1 is exact, whatever it is fused with.

        Not so in a `tf.function`: TensorFlow's arithmetic optimizer puts additions into an order of its own.
        """
        backend = make_backend(name)
        random = np.random.default_rng(1)
        values, is_counted = random.random((2, 3, 4, 140)), random.random((2, 4, 140)) < 0.92
        assert is_counted.sum(axis=-1).min() <= 128 < is_counted.sum(axis=-1).max()  # where NumPy begins to halve
        sums = backend.compile(_sum_as_numpy)(backend.array(values), backend.array(is_counted.astype(np.float64)))
        for n, d, g in np.ndindex(2, 3, 4):
            assert to_numpy(sums)[n, d, g] == np.sum(values[n, d, g][is_counted[n, g]])


@pytest.mark.native
class TestLaws:
    """What holds for all data."""

    @given(seeds, st.permutations(range(8)))
    @few
    def test_the_order_of_images_does_not_matter(self, seed: int, order: list[int]) -> None:
        """Rows of one image keep their order; images come in any."""
        found, truth = flat_columns(*random_poses(seed))
        expected = boxscore.evaluate(Detections(**found), Truths(**truth, box_format="xywh"))
        position = np.array(order)
        rows, truth_rows = (np.argsort(position[each["image_ids"]], kind="stable") for each in (found, truth))
        shuffled = Detections(**{key: column[rows] for key, column in found.items()})
        truths = Truths(**{key: column[truth_rows] for key, column in truth.items()}, box_format="xywh")
        assert_same(boxscore.evaluate(shuffled, truths), expected)

    @given(seeds)
    @few
    def test_a_perfect_detector_scores_1(self, seed: int) -> None:
        """Every labelled truth is found exactly; points without a label may be anywhere."""
        _, truth = flat_columns(*random_poses(seed))
        is_counted = ~truth["ignore"] & (truth["keypoints"][:, :, 2] > 0).any(axis=1)
        assume(is_counted.any())
        pose = np.where(truth["keypoints"][:, :, 2:] > 0, truth["keypoints"][:, :, :2], 1e6)
        kept = {key: column[is_counted] for key, column in truth.items()}
        detections = Detections(
            image_ids=kept["image_ids"],
            labels=kept["labels"],
            scores=np.ones(is_counted.sum()),
            keypoints=pose[is_counted],
        )
        result = boxscore.evaluate(detections, Truths(**truth, box_format="xywh"))
        assert (result.tally.verdict[:, 0] == 2).all()
        assert result["mar"] == 1
        assert result["map"] == pytest.approx(1, abs=1e-12)  # COCO's first precision is 1 - 2.2e-16

    @given(st.data(), st.integers(1, 20))
    @few
    def test_oks_is_between_0_and_1(self, data: st.DataObject, num_points: int) -> None:
        """For points however far away, and truths however small."""
        number = st.floats(-1e9, 1e9, width=32)
        pose, truth = (
            np.array(data.draw(st.lists(number, min_size=2 * num_points, max_size=2 * num_points))).reshape(-1, 2)
            for _ in range(2)
        )
        visibility = data.draw(st.lists(st.integers(0, 2), min_size=num_points, max_size=num_points))
        area = data.draw(st.floats(1e-6, 1e9))
        detections = found_at(pose)
        truths = truths_at(truth, visibility=[visibility], area=[area], boxes=[[0, 0, 9, 9]])
        value = oks(detections, truths, protocol_with(num_points))[0, 0]
        assert 0 <= value <= 1
        assert native_oks(detections, truths, protocol_with(num_points))[0, 0] == value
        exact = truths_at(pose, visibility=[[1] * num_points], area=[area])
        assert oks(detections, exact, protocol_with(num_points))[0, 0] == 1

    @given(seeds)
    @few
    def test_points_without_a_label_change_nothing(self, seed: int) -> None:
        """Wherever a detection puts them; unless none of a truth's points is labelled."""
        found, truth = flat_columns(*random_poses(seed, num_classes=1))
        truth["keypoints"][:, :, 2] = 2
        truth["keypoints"][:, 3, 2] = 0
        moved = found["keypoints"].copy()
        moved[:, 3, :2] += np.random.default_rng(seed).normal(0, 500, 2)
        area = np.full(len(moved), 2000.0)
        truths = Truths(**truth, box_format="xywh")
        results = [
            boxscore.evaluate(Detections(**found | {"keypoints": each, "area": area}), truths)
            for each in (found["keypoints"], moved)
        ]
        assert_same(*results)


class TestSpellings:
    """The same columns from arrays, dicts and padded batches."""

    def test_visibilities_and_scores_may_be_apart(self) -> None:
        """(N, K, 3), or (N, K, 2) and (N, K)."""
        dataset, results = random_poses(7)
        expected = boxscore.evaluate(*columns_of(dataset, results))
        found, truth = flat_columns(dataset, results)
        pose, there = found.pop("keypoints"), truth.pop("keypoints")
        detections = Detections(**found, keypoints=pose[:, :, :2], keypoints_scores=pose[:, :, 2])
        truths = Truths(**truth, box_format="xywh", keypoints=there[:, :, :2], visibility=there[:, :, 2])
        assert np.array_equal(to_numpy(detections.keypoints.score), pose[:, :, 2])
        assert np.array_equal(to_numpy(truths.keypoints.visibility), there[:, :, 2])
        assert_same(boxscore.evaluate(detections, truths), expected)
        plain = Detections(**found, keypoints=pose[:, :, :2])
        assert plain.keypoints.score is None
        assert_same(boxscore.evaluate(plain, truths), expected)

    def test_truths_without_visibilities_are_labelled(self) -> None:
        """Every point of them."""
        _, truth = flat_columns(*random_poses(7))
        point = truth["keypoints"][:, :, :2] + np.arange(17)[:, None] * (3, 2)
        truths = Truths(image_ids=truth["image_ids"], labels=truth["labels"], keypoints=point)
        assert (to_numpy(truths.keypoints.visibility) == 1).all()

    def test_lists_and_integers_are_taken(self) -> None:
        """As numbers of any type."""
        pose = [[[1, 2, 2], [10, 20, 0], [5, 9, 1]]]
        three = COCO.replace(sigmas=(0.1, 0.2, 0.3))
        results = [
            boxscore.evaluate(
                Detections(image_ids=[0], labels=[0], scores=[0.5], keypoints=make(pose)),
                Truths(image_ids=[0], labels=[0], keypoints=make(pose), area=[30]),
                three,
            )
            for make in (list, np.array, lambda values: np.array(values, np.uint8), lambda values: np.float32(values))
        ]
        assert results[0]["mar"] == 1
        for each in results[1:]:
            assert_same(each, results[0])

    def test_nothing_is_fine(self) -> None:
        """Neither detections nor truths, or one of them."""
        found = Detections(image_ids=[], labels=[], scores=[], keypoints=[])
        there = Truths(image_ids=[], labels=[], keypoints=np.zeros((0, 17, 3)))
        assert repr(found) == "Detections(0 sets of keypoints in 0 images, numpy)"
        some, truths = columns_of(*random_poses(1))
        for engine in ("native", "sequential", "parallel"):
            assert math.isnan(boxscore.evaluate(found, there, COCO, engine)["map"])
            assert math.isnan(boxscore.evaluate(some, there, COCO, engine)["map"])
            assert boxscore.evaluate(found, truths, COCO, engine)["map"] == 0

    def test_boxes_and_keypoints_from_one_object(self) -> None:
        """A name takes boxes if both sides have them, a protocol says which."""
        dataset, results = random_poses(8, has_boxes=True)
        found, truth = flat_columns(dataset, results)
        boxes: dict[str, Any] = {"boxes": np.array([row["bbox"] for row in results]), "box_format": "xywh"}
        both, truths = Detections(**found, **boxes), Truths(**truth, box_format="xywh")
        assert repr(both) == f"Detections({len(results)} boxes and sets of keypoints in 7 images, numpy)"
        assert_same(boxscore.evaluate(both, truths, COCO), boxscore.evaluate(Detections(**found), truths, COCO))
        assert boxscore.evaluate(both, truths).protocol.iou_type == "bbox"
        assert boxscore.evaluate(Detections(**found), truths).protocol == COCO
        rule = r"`iou_type` 'bbox' needs other shapes; these Detections have sets of keypoints \(keypoints\)"
        with pytest.raises(InputError, match=rule):
            boxscore.evaluate(Detections(**found), truths, Protocol.named("coco"))

    def test_copies_are_the_same(self) -> None:
        """Through pickles, and by taking rows."""
        detections, truths = columns_of(*random_poses(9))
        expected = boxscore.evaluate(detections, truths)
        again = pickle.loads(pickle.dumps((detections.keypoints, truths.keypoints)))
        assert np.array_equal(again[1].visibility, to_numpy(truths.keypoints.visibility))
        order = np.arange(len(truths))[::-1]
        twice = truths.keypoints.take(order).take(order)
        for mine, own in zip(twice.arrays, truths.keypoints.arrays, strict=True):
            assert np.array_equal(mine, own)
        copied = Detections(
            image_ids=detections.image_ids, labels=detections.labels, scores=detections.scores, geometry=again[0]
        )
        assert_same(boxscore.evaluate(copied, truths), expected)

    @pytest.mark.parametrize("iou_type", ["keypoints", ("keypoints",)])
    def test_dicts_give_what_columns_give(self, iou_type: Any) -> None:
        """One per image, two of them empty; labels, boxes, areas and crowds in the keys."""
        dataset, results = random_poses(10)
        preds, targets = image_dicts(dataset, results)
        assert len(preds[-1]["labels"]) == len(targets[0]["labels"]) == 0
        detections = Detections.from_images(preds, iou_type=iou_type)
        truths = Truths.from_images(targets, iou_type=iou_type, box_format="xywh")
        assert_same(boxscore.evaluate(detections, truths), boxscore.evaluate(*columns_of(dataset, results)))

    def test_boxes_and_areas_are_optional_in_dicts(self) -> None:
        """Areas are 0.53 of the boxes; without these, of the boxes around the labelled points."""
        preds, targets = image_dicts(*random_poses(11))
        detections = Detections.from_images(preds, iou_type="keypoints")
        boxed = [{key: value for key, value in each.items() if key != "area"} for each in targets]
        given = [each | {"area": each["boxes"][:, 2] * each["boxes"][:, 3] * 0.53} for each in boxed]
        results = [
            boxscore.evaluate(detections, Truths.from_images(each, iou_type="keypoints", box_format="xywh"))
            for each in (boxed, given)
        ]
        assert_same(*results)
        bare = [{key: value for key, value in each.items() if key != "boxes"} for each in boxed]
        truths = Truths.from_images(bare, iou_type="keypoints")
        number = np.concatenate([each["keypoints"] for each in targets])
        row = int(np.argmax((number[:, :, 2] > 0).any(axis=1)))
        point = number[row][number[row][:, 2] > 0][:, :2]
        width, height = point.max(axis=0) - point.min(axis=0)
        assert truths.keypoints.areas(COCO)[row] == width * height * 0.53

    @pytest.mark.parametrize("empty", EMPTY, ids=EMPTY_IDS)
    def test_an_image_without_poses_may_be_written_in_many_ways(self, empty: Any) -> None:
        """First, in the middle or last."""
        preds, targets = image_dicts(*random_poses(12))
        expected = MeanAveragePrecision(COCO, box_format="xywh", warn=False)
        expected.update(preds, targets)
        other = MeanAveragePrecision(COCO, box_format="xywh", warn=False)
        other.update(
            [each if len(each["labels"]) else each | {"keypoints": empty} for each in preds],
            [each if len(each["labels"]) else each | {"keypoints": empty} for each in targets],
        )
        assert sum(len(each["labels"]) == 0 for each in targets) > 1
        assert_same(other.compute(), expected.compute())

    @pytest.mark.parametrize("empty", EMPTY, ids=EMPTY_IDS)
    def test_a_batch_without_any_pose_is_fine(self, empty: Any) -> None:
        """On one side or on both: nothing found is 0, nothing to find is undefined."""
        poses: dict[str, Any] = {"keypoints": POSES, "labels": [0, 0, 0], "scores": [0.9, 0.8, 0.7]}
        nothing: dict[str, Any] = {"keypoints": empty, "labels": [], "scores": []}
        for pred, target, expected in ((nothing, poses, 0.0), (poses, nothing, np.nan), (nothing, nothing, np.nan)):
            metric = MeanAveragePrecision(iou_type="keypoints", warn=False)
            metric.update([pred], [{key: value for key, value in target.items() if key != "scores"}])
            assert np.array_equal(metric.compute()["map"], expected, equal_nan=True)

    def test_padded_batches_give_what_dicts_give(self) -> None:
        """Padding has the label -1; its points and areas may be anything."""
        preds, targets = image_dicts(*random_poses(13))
        expected = MeanAveragePrecision("coco", iou_type="keypoints", box_format="xywh", warn=False)
        expected.update(preds, targets)
        batches = [padded_batch(each) for each in (preds, targets)]
        metric = MeanAveragePrecision("coco", iou_type="keypoints", box_format="xywh", warn=False)
        metric.update(*batches)
        assert_same(metric.compute(), expected.compute())
        found, there = batches
        detections = Detections.from_padded(
            keypoints=found["keypoints"], labels=found["labels"], scores=found["scores"]
        )
        truths = Truths.from_padded(
            keypoints=there["keypoints"][..., :2], visibility=there["keypoints"][..., 2], labels=there["labels"],
            boxes=there["boxes"], box_format="xywh", area=there["area"], ignore=there["iscrowd"],
        )  # fmt: skip
        assert_same(boxscore.evaluate(detections, truths, COCO), expected.compute())


def padded_batch(images: list[dict[str, Any]]) -> dict[str, Any]:
    """One dict of arrays for all images, with two more slots than the fullest of them needs."""
    length = max(len(each["labels"]) for each in images) + 2

    def stacked(key: str) -> Any:
        fill = -1 if key == "labels" else 0
        columns = [np.asarray(each[key]) for each in images]
        return np.stack(
            [
                np.pad(column, [(0, length - len(column))] + [(0, 0)] * (column.ndim - 1), constant_values=fill)
                for column in columns
            ]
        )

    return {key: stacked(key) for key in images[0]}


class TestEverythingAfter:
    """What comes after matching works for keypoints as for boxes."""

    def test_tallies_with_other_sigmas_are_not_merged(self, tmp_path: Path) -> None:
        """Nor with a stored one, as they are in the file."""
        boxscore.match(*columns_of(*random_poses(21))).save(tmp_path / "tally")
        pose = points_of([{"keypoints": [1, 2, 2] * 17}])
        moved = Truths(image_ids=[99], labels=[0], keypoints=pose, area=[9])
        none = Detections(image_ids=[], labels=[], scores=[], keypoints=[])
        other = boxscore.match(none, moved, COCO.replace(sigmas=[0.1] * 17))
        with pytest.raises(InputError, match="protocol"):
            Tally.load(tmp_path / "tally").merge(other)

    def test_errors_and_confusion_by_hand(self) -> None:
        """One detection of the wrong class, one whose OKS is between 0.1 and 0.5, one near nothing."""
        pose: Any = [[0, 0], [10, 0]]
        near: Any = [[7, 7], [17, 7]]  # 98 / 50 / 2 = 0.98 and 3.92: (0.375 + 0.020) / 2 = 0.198
        far: Any = [[900, 900], [910, 900]]
        truths = Truths(image_ids=[0, 1], labels=[0, 0], keypoints=np.array([pose, pose], float), area=[50, 50])
        detections = Detections(
            image_ids=[0, 1, 1], labels=[1, 0, 0], scores=[0.9, 0.8, 0.7], keypoints=np.array([pose, near, far], float)
        )
        result = boxscore.evaluate(detections, truths, TWO)
        counts = {name: each["count"] for name, each in result.errors().to_dict()["types"].items()}
        assert counts == {
            "classification": 1, "localisation": 1, "both": 0, "duplicate": 0, "background": 1, "missed": 0,
        }  # fmt: skip
        # Rows are truths of class 0, class 1 and none; columns detections.
        assert result.confusion(score=0.5).to_dict()["matrix"] == [[0, 1, 1], [0, 0, 0], [2, 0, 0]]

    def test_every_chart_is_drawn(self, tmp_path: Path) -> None:
        """The one of sizes, too: recall within the only limit is called `mar` here, not `mar_20`."""
        files = boxscore.evaluate(*columns_of(*random_poses(23))).save_plots(tmp_path)
        assert {"pr.png", "sizes.png", "errors.png"} <= {file.name for file in files}
        assert all(file.stat().st_size > 1000 for file in files)

    def test_the_names_of_the_numbers(self) -> None:
        """Ten, in the order of pycocotools' stats."""
        result = boxscore.evaluate(*columns_of(*random_poses(24)))
        assert list(result) == [
            *("map", "map_50", "map_75", "map_medium", "map_large"),
            *("mar", "mar_50", "mar_75", "mar_medium", "mar_large"),
        ]

    @pytest.mark.native
    @pytest.mark.parametrize("engine", ENGINES)
    def test_areas_of_detections_may_be_given(self, engine: Any) -> None:
        """They decide whether a false positive is in a range; else the box around the points does."""
        pose: Any = [[0, 0], [40, 50]]  # 2000, which is medium
        truths = truths_at([[500, 500, 2], [600, 600, 2]], area=[50 * 50])
        for area, verdict in ((None, [1, 1, 0]), ([100.0], [1, 0, 0]), ([1e5], [1, 0, 1])):
            tally = boxscore.match(found_at(pose, area=area), truths, TWO, engine)
            assert tally.verdict[0, :, 0].tolist() == verdict


POSES = np.arange(3 * 17 * 3, dtype=np.float64).reshape(3, 17, 3)
ROWS: dict[str, Any] = {"image_ids": [0, 0, 1], "labels": [0, 0, 0]}
FOUND: dict[str, Any] = {**ROWS, "scores": [0.9, 0.8, 0.7]}


def changed(row: int, point: int, axis: int, value: float) -> Any:
    """The poses with one other number."""
    poses = POSES.copy()
    poses[row, point, axis] = value
    return poses


def on_a_line(row: int) -> Any:
    """The poses, one of them with points of the same x."""
    poses = POSES.copy()
    poses[row, :, 0] = 5
    return poses


class TestErrors:
    """The argument, the row, the rule and what came."""

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (
                lambda: Truths(**ROWS, keypoints=POSES[:, :, :1]),
                r"^`keypoints` must have shape \(N, K, 3\) or \(N, K, 2\); got \(3, 17, 1\)$",
            ),
            (
                lambda: Detections(**FOUND, keypoints=POSES[0]),
                r"^`keypoints` must have shape \(N, K, 3\) or \(N, K, 2\); got \(17, 3\)$",
            ),
            (
                lambda: Detections(**FOUND, keypoints=POSES[:, :0]),
                r"^`keypoints` must have shape \(N, K, 3\) or \(N, K, 2\); got \(3, 0, 3\)$",
            ),
            (
                lambda: Detections(**FOUND, keypoints=[[[1, 2]], [[1, 2], [3, 4]], [[1, 2]]]),
                "^`keypoints` must be an array or a list of numbers; got rows of different length$",
            ),
            (
                lambda: Detections(**FOUND, keypoints=POSES * 1j),
                "^`keypoints` must hold real numbers; got complex128$",
            ),
            (
                lambda: Detections(**FOUND, keypoints=POSES[:2]),
                "^`keypoints` must have 3 rows, the number of scores; got 2$",
            ),
            (
                lambda: Truths(**ROWS, keypoints=POSES[:2]),
                "^`keypoints` must have 3 rows, the number of labels; got 2$",
            ),
            (
                lambda: Truths(**ROWS, keypoints=changed(1, 4, 0, np.nan)),
                r"^`keypoints` row 1 must have finite numbers; got \[nan, 64.0\] for point 4$",
            ),
            (
                lambda: Detections(**FOUND, keypoints=changed(2, 16, 1, -np.inf)),
                r"^`keypoints` row 2 must have finite numbers; got \[150.0, -inf\] for point 16$",
            ),
            (
                lambda: Detections(**FOUND, keypoints=changed(2, 3, 2, np.nan)),
                "^`keypoints` row 2 must have finite numbers; got nan for point 3$",
            ),
            (
                lambda: Truths(**ROWS, keypoints=changed(2, 3, 2, -1)),
                "^`keypoints` row 2 must not have a negative visibility; got -1.0 for point 3$",
            ),
            (
                lambda: Truths(**ROWS, keypoints=POSES[:, :, :2], visibility=changed(1, 5, 2, -2)[:, :, 2]),
                "^`visibility` row 1 must not have a negative visibility; got -2.0 for point 5$",
            ),
            (
                lambda: Truths(**ROWS, keypoints=POSES[:, :, :2], visibility=POSES[:, :5, 2]),
                r"^`visibility` must have shape \(3, 17\), one per keypoint; got \(3, 5\)$",
            ),
            (
                lambda: Truths(**ROWS, keypoints=POSES, visibility=POSES[:, :, 2]),
                r"^`keypoints` must have shape \(N, K, 2\) beside `visibility`; got \(3, 17, 3\)$",
            ),
            (
                lambda: Detections(**FOUND, keypoints=POSES[:, :, :2], keypoints_scores=POSES[:, :5, 2]),
                r"^`keypoints_scores` must have shape \(3, 17\), one per keypoint; got \(3, 5\)$",
            ),
            (
                lambda: Detections(
                    **FOUND, keypoints=POSES[:, :, :2], keypoints_scores=changed(0, 1, 2, np.inf)[..., 2]
                ),
                "^`keypoints_scores` row 0 must have finite numbers; got inf for point 1$",
            ),
            (
                lambda: Detections(**FOUND, keypoints=POSES, keypoints_scores=POSES[:, :5, 2]),
                r"^`keypoints_scores` must have shape \(3, 17\), one per keypoint; got \(3, 5\)$",
            ),
            (
                lambda: Truths(**ROWS, keypoints=POSES, area=[1, 0, 1]),
                "^`area` row 1 must be above 0, as OKS divides by it; got 0$",
            ),
            (
                lambda: Truths(**ROWS, keypoints=POSES, area=[1, 1, -3]),
                "^`area` row 2 must be above 0, as OKS divides by it; got -3$",
            ),
            (
                lambda: Truths(**ROWS, keypoints=POSES, area=[1, np.nan, 1]),
                "^`area` row 1 must be above 0, as OKS divides by it; got nan$",
            ),
            (
                lambda: Truths(**ROWS, keypoints=POSES, area=[1, 1]),
                r"^`area` must have shape \(G,\) with G = 3, the number of labels; got \(2,\)$",
            ),
            (
                lambda: Truths(**ROWS, keypoints=on_a_line(2)),
                "^`keypoints` row 2 must have an area above 0, as OKS divides by it; give `area`, or boxes; "
                "got labelled points in one line$",
            ),
            (
                lambda: Truths(**ROWS, keypoints=POSES, boxes=np.zeros((3, 3))),
                r"^`boxes` must have shape \(N, 4\), four numbers per box; got \(3, 3\)$",
            ),
            (
                lambda: Truths(**ROWS, keypoints=POSES, boxes=np.array([[0.0, 0, 9, 9]] * 2)),
                "^`boxes` must have 3 rows, the number of labels; got 2$",
            ),
            (
                lambda: Truths(**ROWS, boxes=np.ones((3, 4)), visibility=np.ones((3, 17))),
                "^`visibility` must be given with `keypoints`; got no keypoints$",
            ),
            (
                lambda: Detections(**FOUND, boxes=np.ones((3, 4)), keypoints_scores=np.ones((3, 17))),
                "^`keypoints_scores` must be given with `keypoints`; got no keypoints$",
            ),
            (
                lambda: Truths(**ROWS, keypoints=POSES, boxes=np.zeros((3, 4))),
                r"^`boxes` row 0 must have an area above 0, as OKS divides by it; got sides \[0.0, 0.0\]$",
            ),
            (
                lambda: COCO.replace(sigmas=[0.1, 0]),
                "^`sigmas` must be above 0 and finite; got 0 for keypoint 1$",
            ),
            (
                lambda: COCO.replace(sigmas=[np.nan]),
                "^`sigmas` must be above 0 and finite; got nan for keypoint 0$",
            ),
            (lambda: COCO.replace(sigmas=5), "^`sigmas` must be a sequence of numbers, one per keypoint; got 5$"),
            (lambda: COCO.replace(keypoints=5), "^`keypoints` must be a boxscore.protocol.KeypointRules; got 5$"),
        ],
    )
    def test_what_is_no_pose_is_refused(self, make: Any, message: str) -> None:
        """With the row, the rule and what came."""
        with pytest.raises(InputError, match=message):
            make()

    def test_an_area_of_0_is_fine_without_labels(self) -> None:
        """Nothing is divided by it that counts; and crowds in COCO have such."""
        truths = truths_at([[0, 0, 0]] * 2, area=[0], boxes=[[0, 0, 9, 9]])
        assert oks(found_at([[1, 1], [100, 100]]), truths, TWO).tolist() == [[0.5]]

    @pytest.mark.parametrize("engine", ["native", "sequential", "parallel"])
    def test_a_sigma_is_needed_for_each_point(self, engine: Any) -> None:
        """Whichever side has another number of points; and a protocol without sigmas has none."""
        detections, truths = Detections(**FOUND, keypoints=POSES), Truths(**ROWS, keypoints=POSES)
        for protocol, got in (
            (COCO.replace(sigmas=[0.1] * 5), 5),
            (Protocol.named("voc2012", iou_type="keypoints"), 0),
        ):
            rule = (
                rf"^`sigmas` must have one number for each of the 17 keypoints; got {got} \(protocol {protocol.name}\)"
            )
            with pytest.raises(InputError, match=rule):
                boxscore.evaluate(detections, truths, protocol, engine)
        rule = "^`sigmas` must have one number for each of the 14 keypoints; got 17"
        with pytest.raises(InputError, match=rule):
            boxscore.evaluate(Detections(**FOUND, keypoints=POSES[:, :14]), truths, COCO, engine)
        with pytest.raises(InputError, match=rule):
            boxscore.evaluate(detections, Truths(**ROWS, keypoints=POSES[:, :14]), COCO, engine)

    @pytest.mark.parametrize(
        ("pred", "target", "message"),
        [
            (
                {"keypoints": POSES[:, :5]},
                {},
                r"^preds\[1\]: `keypoints` must have shape \(N, 17, 3\), as in images before; got \(N, 5, 3\)$",
            ),
            (
                {},
                {"keypoints": POSES[:, :, :2]},
                r"^targets\[1\]: `keypoints` must have shape \(N, 17, 3\), as in images before; got \(N, 17, 2\)$",
            ),
            (
                {"keypoints": changed(1, 4, 0, np.nan)},
                {},
                r"^preds\[1\]: `keypoints` row 1 must have finite numbers; got \[nan, 64.0\] for point 4$",
            ),
            (
                {},
                {"keypoints": changed(2, 3, 2, -1)},
                r"^targets\[1\]: `keypoints` row 2 must not have a negative visibility; got -1.0 for point 3$",
            ),
            (
                {},
                {"area": np.array([1.0, 0, 1])},
                r"^targets\[1\]: `area` row 1 must be above 0, as OKS divides by it; got 0$",
            ),
            (
                {"keypoints": POSES[:2]},
                {},
                r"^preds\[1\]: `keypoints` must have shape \(3, .*for 3 labels; got \(2, 17, 3\)$",
            ),
            (
                {},
                {"visible": POSES[:, :, 2]},
                r"^targets\[1\] must not have the key 'visible', which is not read: rename it to 'visibility'",
            ),
        ],
    )
    def test_dicts_with_something_wrong_name_the_image_and_the_row(self, pred: Any, target: Any, message: str) -> None:
        """The second of two images."""
        good: dict[str, Any] = {"keypoints": POSES, "labels": np.zeros(3, int), "scores": np.full(3, 0.5)}
        there: dict[str, Any] = {"keypoints": POSES, "labels": np.zeros(3, int), "area": np.ones(3)}
        metric = MeanAveragePrecision(iou_type="keypoints", warn=False)
        with pytest.raises(InputError, match=message):
            metric.update([good, good | pred], [there, there | target])

    def test_a_missing_key_is_named_with_the_one_that_was_meant(self) -> None:
        """`kpts` are keypoints."""
        metric = MeanAveragePrecision(iou_type="keypoints", warn=False)
        message = r"preds\[0\] must have the key 'keypoints'; got .*: 'kpts' must be called 'keypoints'"
        with pytest.raises(InputError, match=message):
            metric.update([{"kpts": POSES, "labels": [0] * 3, "scores": [0.5] * 3}], [{"keypoints": [], "labels": []}])

    def test_a_padded_batch_with_something_wrong_names_image_and_slot(self) -> None:
        """Of the arrays as they were given, padding included."""
        label = np.array([[0, -1, 0], [-1, 0, 0]])
        poses = np.stack([POSES, changed(2, 3, 0, np.nan)])
        with pytest.raises(InputError, match=r"`keypoints` row \[1, 2\] must have finite numbers"):
            Detections.from_padded(keypoints=poses, labels=label, scores=np.ones((2, 3)))


def test_keypoints_become_those_of_their_side() -> None:
    """As truths, those of detections are all labelled; as detections, those of truths have no labels."""
    poses = np.concatenate([np.random.default_rng(0).uniform(0, 90, (3, 17, 2)), np.zeros((3, 17, 1))], axis=2)
    poses[:2, :, 2] = 2
    rows: dict[str, Any] = {"image_ids": [0, 0, 1], "labels": [0, 0, 0]}
    sides: list[dict[str, Any]] = [{"keypoints": Keypoints.of_truths(poses)}, {"geometry": Keypoints.of_truths(poses)}]
    truths = Truths(**rows, keypoints=Keypoints.of_detections(poses))
    assert truths.keypoints.visibility is not None
    assert truths.keypoints.visibility.all()
    plain = Detections(**rows, scores=[0.9, 0.8, 0.7], keypoints=poses[:, :, :2])
    for shapes in sides:
        detections = Detections(**rows, scores=[0.9, 0.8, 0.7], **shapes)
        assert detections.keypoints.visibility is None
        assert boxscore.evaluate(detections, truths)["map"] == boxscore.evaluate(plain, truths)["map"]


def test_a_loader_pads_keypoints() -> None:
    """Dummies have zeros; the padded batch gives what its images give."""
    import torch

    random = np.random.default_rng(0)
    targets = [
        {
            "keypoints": torch.from_numpy(random.uniform(1, 90, (num, 17, 3))),
            "labels": torch.zeros(num, dtype=torch.int64),
            "area": torch.full((num,), 900.0),
        }
        for num in (2, 0, 3)
    ]
    samples = [(torch.zeros(3, 4, 4), target) for target in targets]
    _, padded = boxscore.collate_truths(samples, iou_type="keypoints")
    assert padded["keypoints"].shape == (3, 3, 17, 3)
    assert padded["labels"].tolist() == [[0, 0, -1], [-1, -1, -1], [0, 0, 0]]
    assert not padded["keypoints"][1].any()
    score = torch.rand(3, 3, generator=torch.Generator().manual_seed(0))
    moved = padded["keypoints"] + score[:, :, None, None] * 3
    whole = boxscore.MeanAveragePrecision(iou_type="keypoints")
    whole.update({"keypoints": moved, "labels": padded["labels"], "scores": score}, padded)
    each = boxscore.MeanAveragePrecision(iou_type="keypoints")
    preds = [
        {"keypoints": moved[i, : len(target["labels"])], "labels": target["labels"]}
        | {"scores": score[i, : len(target["labels"])]}
        for i, target in enumerate(targets)
    ]
    each.update(preds, targets)
    assert 0 < whole.compute()["map"] < 1
    assert whole.compute()["map"] == each.compute()["map"]
