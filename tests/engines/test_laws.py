"""What holds for all data: order, padding, names and grouping change nothing; more mistakes never help."""

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import boxscore
from boxscore import Detections, InputError, Protocol, Tally, Truths
from boxscore.arrays import order_by
from boxscore.data.geometry.boxes import Boxes
from boxscore.engines import map_reduce
from boxscore.engines.parallel import array_engine
from tests.support.comparisons import TALLY, assert_same, assert_same_tally
from tests.support.scenes import Scene, random_scene
from tests.support.strategies import protocol_names, scenes

pytestmark = pytest.mark.native

TINY = boxscore.match(
    Detections(image_ids=[], labels=[], scores=[], boxes=[]), Truths(image_ids=[7], labels=[1], boxes=[[0, 0, 9, 9]])
)
"""One truth, in image 7."""

few = settings(max_examples=25, deadline=None)


def rows(columns: dict[str, Any], index: NDArray[Any]) -> dict[str, Any]:
    """Some rows of columns."""
    return {name: column[index] for name, column in columns.items()}


@given(scenes(), protocol_names)
@few
def test_engines_give_the_same_tally(scene: Scene, protocol: Any) -> None:
    """Bit for bit, so every precision and recall is the same."""
    expected = boxscore.match(scene.detections, scene.truths, protocol, "sequential")
    for engine in ("parallel", "native"):
        assert_same_tally(boxscore.match(scene.detections, scene.truths, protocol, engine), expected)


@given(scenes(), protocol_names)
@few
def test_engines_give_the_same_curves(scene: Scene, protocol: Any) -> None:
    """Bit for bit, every number and every curve."""
    tally = boxscore.match(scene.detections, scene.truths, protocol)
    sequential, parallel, native = (boxscore.finish(tally, e) for e in ("sequential", "parallel", "native"))
    assert_same(parallel, native)
    assert_same(sequential, native)


@pytest.mark.parametrize("protocol", ["coco", "voc2012", "paper"])
@pytest.mark.parametrize("most", [1, 40, None])
def test_the_size_of_batches_does_not_matter(monkeypatch: pytest.MonkeyPatch, protocol: Any, most: int | None) -> None:
    """The parallel engine compares any number of pairs together, or those of a group, and settles any number."""
    scene = random_scene(3, num_images=9, num_classes=3, most_truths=30)
    expected = boxscore.match(scene.detections, scene.truths, protocol, "sequential")
    monkeypatch.setattr(array_engine, "SHARE_IN_HOST_MEMORY", 1)
    monkeypatch.setattr(array_engine, "CELLS_PER_BLOCK", most or 2000)
    monkeypatch.setattr(Boxes, "pairs_per_batch", most)
    assert_same_tally(boxscore.match(scene.detections, scene.truths, protocol, "parallel"), expected)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([-(2**63), -1, 0, 7, 2**40, 2**63 - 1]),
            st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 1e-300, 0.1, np.inf]),
        )
    )
)
@few
def test_rows_are_sorted_as_numpy_sorts_them(pairs: list[tuple[int, float]]) -> None:
    """By whole numbers of any size, then by floats; of equal rows the first stays first."""
    number = np.array([pair[0] for pair in pairs], np.int64)
    for kind in (np.float64, np.float32):
        value = np.array([pair[1] for pair in pairs], kind)
        assert np.array_equal(order_by(number, value), np.lexsort((value, number)))
        assert np.array_equal(order_by(value, number), np.lexsort((number, value)))


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", "f4", "f8"])
def test_many_rows_are_sorted_by_many_columns(kind: str) -> None:
    """More columns than one key holds, of all kinds of numbers, with many equal rows."""
    rng = np.random.default_rng(0)
    last = np.finfo(kind).max if kind.startswith("f") else np.iinfo(kind).max
    columns = [rng.choice(np.array([0, 1, 5, last // 2, last], kind), 5000) for _ in range(4)]
    if not kind.startswith("u"):
        columns = [column * rng.choice(np.array([-1, 1], kind), 5000) for column in columns]
    assert np.array_equal(order_by(*columns), np.lexsort(columns[::-1]))
    assert order_by(*(column[:0] for column in columns)).size == 0


@given(scenes(), protocol_names, st.permutations(range(5)))
@few
def test_the_order_of_images_does_not_matter(scene: Scene, protocol: Any, order: list[int]) -> None:
    """Rows of one image keep their order; images come in any."""
    position = np.array(order)
    detections, truths = (
        np.argsort(position[columns["image_ids"]], kind="stable") for columns in (scene.detection, scene.truth)
    )
    shuffled = Scene(
        detection=rows(scene.detection, detections),
        truth=rows(scene.truth, truths),
        num_classes=scene.num_classes,
        num_images=scene.num_images,
    )
    expected = boxscore.evaluate(scene.detections, scene.truths, protocol)
    assert_same(boxscore.evaluate(shuffled.detections, shuffled.truths, protocol), expected)


@given(scenes(), protocol_names, st.permutations(range(4)))
@few
def test_permuting_classes_permutes_their_numbers(scene: Scene, protocol: Any, order: list[int]) -> None:
    """Each class keeps its AP under its new label."""
    new = np.array(order)
    found = scene.detection | {"labels": new[scene.detection["labels"]]}
    there = scene.truth | {"labels": new[scene.truth["labels"]]}
    before = boxscore.evaluate(scene.detections, scene.truths, protocol)
    truths = Truths(**there, box_format="xywh", class_names=scene.truths.class_names)
    after = boxscore.evaluate(Detections(**found, box_format="xywh"), truths, protocol)
    assert np.array_equal(after.per_class.ap[new], before.per_class.ap, equal_nan=True)
    assert np.array_equal(after.curves.precision[:, :, new], before.curves.precision)


@given(scenes(), protocol_names, st.sets(st.integers(-(10**9), 10**9), min_size=4, max_size=4))
@few
def test_relabelling_classes_changes_nothing_else(scene: Scene, protocol: Any, labels: set[int]) -> None:
    """New labels, far apart and negative too, in the old order: the same numbers."""
    new = np.array(sorted(labels))
    found = scene.detection | {"labels": new[scene.detection["labels"]]}
    there = scene.truth | {"labels": new[scene.truth["labels"]]}
    names = {int(label): f"class {k}" for k, label in enumerate(new)}
    result = boxscore.evaluate(
        Detections(**found, box_format="xywh"), Truths(**there, box_format="xywh", class_names=names), protocol
    )
    assert result.per_class.label.tolist() == new.tolist()
    assert_same(result, boxscore.evaluate(scene.detections, scene.truths, protocol))


@given(scenes(), protocol_names, st.lists(st.integers(0, 4), min_size=5, max_size=5))
@few
def test_merging_in_any_grouping_and_order_changes_nothing(scene: Scene, protocol: Any, shards: list[int]) -> None:
    """Images are dealt to five shards; some may be empty, and none need have all classes."""
    shard_of = np.array(shards)
    tallies = []
    for shard in range(5):
        found = rows(scene.detection, shard_of[scene.detection["image_ids"]] == shard)
        there = rows(scene.truth, shard_of[scene.truth["image_ids"]] == shard)
        truths = Truths(**there, box_format="xywh")
        tallies.append(boxscore.match(Detections(**found, box_format="xywh"), truths, protocol))
    expected = boxscore.evaluate(scene.detections, Truths(**scene.truth, box_format="xywh"), protocol)
    empty = Tally.empty(Protocol.named(protocol))
    assert_same(boxscore.finish(reduce(Tally.merge, tallies, empty)), expected)
    assert_same(
        boxscore.finish(tallies[4].merge(tallies[3], tallies[2].merge(empty, tallies[1], tallies[0]))), expected
    )


@pytest.mark.parametrize("protocol", ["coco", "voc2007", "voc2012", "paper"])
@pytest.mark.parametrize("average", ["macro", "weighted", "micro"])
@pytest.mark.parametrize("part", [1, 30, 1 << 16])
def test_several_tallies_are_finished_as_one(
    protocol: Any, average: str, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, in any order, though large ones are not copied: here they are large from so many rows on."""
    monkeypatch.setattr(map_reduce, "_PART_SIZE", part)
    scene = random_scene(9, num_images=12)
    rules = Protocol.named(protocol, average=average)
    whole = boxscore.match(scene.detections, scene.truths, rules)
    expected = boxscore.finish(whole)
    by_range = [whole.within(np.arange(first, first + 3)) for first in range(0, 12, 3)]
    mixed = [whole.within(np.arange(first, 12, 4)) for first in range(4)]
    narrow = [*by_range[:2], replace(by_range[2], score=by_range[2].score.astype(np.float32)), by_range[3]]
    for tallies in (by_range, by_range[::-1], [*by_range, Tally.empty(rules)], mixed, [whole]):
        result = boxscore.finish(tallies)
        assert_same(result, expected)
        assert {name: len(getattr(result.tally, name)) for name in TALLY} == {
            name: len(getattr(whole, name)) for name in TALLY
        }
        assert result.tally is result.tally
    assert_same(boxscore.finish(narrow), boxscore.finish(narrow[0].merge(*narrow[1:])))


@pytest.mark.parametrize(
    ("tallies", "message"),
    [
        ([], "`tally` must be a boxscore.Tally, or a list of them; got a list of none"),
        ("ab", "`tally` must be a boxscore.Tally, or a list of them; got str"),
        ([TINY, 1], "`tally` must be a boxscore.Tally, or a list of them; got a list of Tally and int"),
        ([TINY, TINY], "image 7 is in more than one tally"),
        ([TINY, Tally.empty(Protocol.named("voc2012"))], "tallies were made under different protocols"),
    ],
)
def test_what_can_not_be_finished_is_refused(tallies: Any, message: str) -> None:
    """As it is where tallies are merged."""
    with pytest.raises(InputError) as error:
        boxscore.finish(tallies)
    assert str(error.value).startswith(message)


@given(scenes(), protocol_names, st.integers(1, 7))
@few
def test_padding_changes_nothing(scene: Scene, protocol: Any, num_more: int) -> None:
    """Discarded detections and dummy truths are as if they were not there, whatever their boxes."""
    random = np.random.default_rng(num_more)

    def pad(columns: dict[str, Any], fill: dict[str, float]) -> dict[str, Any]:
        counts = np.bincount(columns["image_ids"], minlength=scene.num_images)
        length = counts.max() + num_more
        out = {}
        for name in fill:
            shape = (scene.num_images, length, *columns[name].shape[1:])
            noise = random.integers(0, 50, shape).astype(columns[name].dtype)
            out[name] = np.full(shape, fill[name], columns[name].dtype) if name == "labels" else noise
            for image in range(scene.num_images):
                out[name][image, : counts[image]] = columns[name][columns["image_ids"] == image]
        out["is_row"] = np.arange(length) < counts[:, None]
        return out

    found = pad(scene.detection, {"boxes": 0, "labels": 0, "scores": 0})
    there = pad(scene.truth, {"boxes": 0, "labels": -1, "ignore": 1, "area": 0})
    discarded = ~found.pop("is_row")
    there.pop("is_row")
    result = boxscore.evaluate(
        Detections.from_padded(**found, discarded=discarded, box_format="xywh"),
        Truths.from_padded(**there, box_format="xywh"),
        protocol,
    )
    plain = Truths(**scene.truth, box_format="xywh")
    assert_same(result, boxscore.evaluate(scene.detections, plain, protocol))


@given(scenes(), st.sampled_from(["voc2007", "voc2012", "paper"]))
@few
def test_a_perfect_detector_scores_1(scene: Scene, protocol: Any) -> None:
    """Every easy truth found exactly, once. (Under COCO: what pycocotools gives, tested there.)"""
    # Boxes of one place would compete for one truth; shift each to its own.
    place = np.arange(scene.truth["labels"].size)[:, None] * np.array([1000.0, 0, 0, 0])
    truth = rows(scene.truth | {"boxes": scene.truth["boxes"] + place}, ~scene.truth["ignore"])
    assume(truth["labels"].size > 0)
    truths = Truths(**truth, box_format="xywh")
    detections = Detections(
        image_ids=truth["image_ids"],
        labels=truth["labels"],
        scores=np.ones(len(truths)),
        boxes=truth["boxes"],
        box_format="xywh",
    )
    assert boxscore.evaluate(detections, truths, protocol)["map"] == pytest.approx(1, abs=1e-12)


@given(scenes(), protocol_names, st.integers(0, 4), st.integers(0, 3))
@few
def test_one_more_false_positive_of_the_lowest_score_never_raises_a_number(
    scene: Scene, protocol: Any, image: int, label: int
) -> None:
    """Far away from all truths, behind all other detections."""
    more = {
        "image_ids": np.array([image]),
        "labels": np.array([label]),
        "boxes": np.array([[5000.0, 5000.0, 60.0, 60.0]]),
        "scores": np.array([-1.0]),
    }
    found: dict[str, Any] = {name: np.concatenate([column, more[name]]) for name, column in scene.detection.items()}
    before = boxscore.evaluate(scene.detections, scene.truths, protocol)
    after = boxscore.evaluate(Detections(**found, box_format="xywh"), scene.truths, protocol)
    for name in before:
        assert np.isnan(before[name]) or after[name] <= before[name], name


@given(scenes(is_whole=True), protocol_names)
@few
def test_box_formats_say_the_same(scene: Scene, protocol: Any) -> None:
    """On whole and half pixels, where no conversion rounds."""

    def converted(box: NDArray[Any], box_format: str) -> NDArray[Any]:
        corner, size = box[:, :2], box[:, 2:]
        first, second = {"xyxy": (corner, corner + size), "cxcywh": (corner + size / 2, size)}[box_format]
        return np.concatenate([first, second], axis=1)

    expected = boxscore.evaluate(scene.detections, scene.truths, protocol)
    for box_format in ("xyxy", "cxcywh"):
        found = scene.detection | {"boxes": converted(scene.detection["boxes"], box_format)}
        there = scene.truth | {"boxes": converted(scene.truth["boxes"], box_format)}
        truths = Truths(**there, box_format=box_format, class_names=scene.truths.class_names)
        assert_same(boxscore.evaluate(Detections(**found, box_format=box_format), truths, protocol), expected)


def test_a_tally_without_some_images_is_that_of_the_others() -> None:
    """Detections, truths and all."""
    scene = random_scene(3, num_images=8)
    whole = boxscore.match(scene.detections, scene.truths)
    gone = np.array([1, 4, 5])
    parts: list[dict[str, Any]] = [
        {name: column[~np.isin(columns["image_ids"], gone)] for name, column in columns.items()}
        for columns in (scene.detection, scene.truth)
    ]
    names = scene.truths.class_names
    others = boxscore.match(
        boxscore.Detections(**parts[0], box_format="xywh"),
        boxscore.Truths(**parts[1], box_format="xywh", class_names=names),
    )
    left = whole.without(gone)
    for column in TALLY:
        assert np.array_equal(getattr(left, column), getattr(others, column)), column
    assert not np.isin(left.images, gone).any()


def test_an_image_with_truths_alone_is_an_image() -> None:
    """Two tallies of it would count its truths twice."""
    with pytest.raises(InputError, match=r"^image 7 is in more than one tally"):
        TINY.merge(TINY)
