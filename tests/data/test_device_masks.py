"""Masks that are compared where they are: every number of run lengths, from integers only."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import boxscore._compiled as _compiled
from boxscore import Detections, InputError, Protocol, Truths, evaluate
from boxscore.arrays.counting import counting
from boxscore.arrays.libraries import _jitted_by_jax
from boxscore.data import Masks
from boxscore.data.geometry import device_masks
from boxscore.data.geometry.device_masks import ComparedMasks, DeviceMasks, compare_stacks
from boxscore.engines.native.pairs import nearest, side
from boxscore.engines.native.rules import rules_of
from boxscore.pipeline import match
from tests.conftest import Backend, make_backend
from tests.support.comparisons import assert_same, assert_same_tally
from tests.support.mask_scenes import blob, moved

SEGM, BOUNDARY = (Protocol.named("coco", iou_type=iou_type) for iou_type in ("segm", "boundary"))
SIZES = [(23, 31), (40, 17), (23, 31), (16, 16)]


@dataclass(frozen=True)
class Scene:
    """Masks per image, with the other columns of both sides."""

    stacks: list[Any]
    truth_stacks: list[Any]
    found: dict[str, Any]
    true: dict[str, Any]

    def columns(self, make: Any) -> tuple[Detections, Truths]:
        """Both sides; `make` builds the masks of all stacks of one side."""
        return (
            Detections(**self.found, geometry=make(self.stacks)),
            Truths(**self.true, geometry=make(self.truth_stacks)),
        )


def make_scene(seed: int = 0, sizes: list[tuple[int, int]] = SIZES) -> Scene:
    """Images of many sizes, one without truths, one without detections; crowds and masks without pixels."""
    random = np.random.default_rng(seed)
    stacks, truth_stacks = [], []
    for image, size in enumerate(sizes):
        truths = np.array([blob(random, *size) for _ in range(0 if image == 1 else random.integers(1, 6))])
        copies = [moved(random, mask) for mask in truths for _ in range(random.integers(1, 3))]
        masks = [*copies, *(blob(random, *size) for _ in range(3)), np.zeros(size, bool)]
        stacks.append(np.array([] if image == 2 else masks).reshape(-1, *size).astype(bool))
        truth_stacks.append(truths.reshape(-1, *size).astype(bool))
    truth_stacks[0][0] = False
    num, num_truths = (sum(map(len, each)) for each in (stacks, truth_stacks))
    ids, truth_ids = (np.repeat(np.arange(len(sizes)), [*map(len, each)]) for each in (stacks, truth_stacks))
    found = {"image_ids": ids, "labels": random.integers(0, 2, num), "scores": random.integers(0, 9, num) / 9}
    true: dict[str, Any] = {"image_ids": truth_ids, "labels": random.integers(0, 2, num_truths)}
    true["ignore"] = random.random(num_truths) < 0.2
    return Scene(stacks, truth_stacks, found, true)


def on(backend: Backend) -> Any:
    """Make masks of arrays of a library, which are compared where they are."""
    return lambda stacks: DeviceMasks.of_stacks([backend.array(stack) for stack in stacks])


def is_compared(detections: Detections, truths: Truths, protocol: Protocol = SEGM) -> bool:
    """Whether the compiled core gets overlaps."""
    images = [np.asarray(each.image_ids) for each in (detections, truths)]
    both = detections.geometry.compared(images[0], truths.geometry, images[1], protocol)
    return all(isinstance(each, ComparedMasks) for each in both)


@pytest.mark.parametrize("seed", range(3))
def test_numbers_are_those_of_run_lengths(eager: Backend, seed: int) -> None:
    """To the last bit: crowds, empty masks, images without detections or truths, images of different sizes."""
    scene = make_scene(seed)
    compared = scene.columns(on(eager))
    assert is_compared(*compared)
    assert_same(evaluate(*compared, SEGM), evaluate(*scene.columns(Masks.from_stacks), SEGM))


def test_traces_and_pairs_are_those_of_run_lengths(eager: Backend) -> None:
    """The truth that each detection takes with its similarity, and the nearest truths of any class."""
    scene = make_scene(3)
    compared, expected = scene.columns(on(eager)), scene.columns(Masks.from_stacks)
    assert_same_tally(match(*compared, SEGM, trace=True), match(*expected, SEGM, trace=True))
    for one, other in zip(find_nearest(*compared), find_nearest(*expected), strict=True):
        assert np.array_equal(one, other)


def find_nearest(detections: Detections, truths: Truths) -> Any:
    """The nearest truths of the detection's class, and of other classes."""
    own, other = (side(each, np.ones(len(each), bool)) for each in (detections, truths))
    return nearest(own, other, SEGM, 1)


@pytest.mark.parametrize("name", ["voc2012", "coco", "lvis", "openimages"])
def test_every_protocol(eager: Backend, name: str) -> None:
    """Rules that drop rows or pool classes take rows of masks that are compared later."""
    protocol = Protocol.named(name, iou_type="segm", federated=False)
    scene = make_scene(4)
    for rules in (protocol, protocol.replace(min_score=0.3)):
        assert_same(evaluate(*scene.columns(on(eager)), rules), evaluate(*scene.columns(Masks.from_stacks), rules))


def test_classes_as_one(eager: Backend) -> None:
    """Pooling sorts the rows of an image by label."""
    rules, scene = SEGM.replace(class_agnostic=True), make_scene(5)
    assert_same(evaluate(*scene.columns(on(eager)), rules), evaluate(*scene.columns(Masks.from_stacks), rules))


def test_rows_in_any_order(eager: Backend) -> None:
    """One array for all images, whose rows are not sorted by image."""
    scene = make_scene(6, [(20, 24)] * 5)
    random = np.random.default_rng(0)
    order, truth_order = (random.permutation(sum(map(len, each))) for each in (scene.stacks, scene.truth_stacks))
    stack, truth_stack = np.concatenate(scene.stacks)[order], np.concatenate(scene.truth_stacks)[truth_order]
    found = {name: column[order] for name, column in scene.found.items()}
    true = {name: column[truth_order] for name, column in scene.true.items()}
    mixed = Scene([stack], [truth_stack], found, true)
    compared = mixed.columns(on(eager))
    assert is_compared(*compared)
    assert_same_tally(match(*compared, SEGM), match(*mixed.columns(Masks.from_stacks), SEGM))


@pytest.mark.parametrize("case", ["boundary", "sizes", "stacks", "host"])
def test_run_lengths_in_other_cases(eager: Backend, case: str) -> None:
    """Boundary IoU, sizes that differ within an image, an image in two arrays, one side in host memory."""
    scene, rules, make, make_other = make_scene(7), SEGM, on(eager), on(eager)
    if case == "boundary":
        rules = BOUNDARY
    elif case == "sizes":
        stacks = [*scene.stacks]
        stacks[0] = np.swapaxes(stacks[0], 1, 2).copy()
        scene = replace(scene, stacks=stacks)
    elif case == "stacks":
        scene = replace(scene, stacks=[scene.stacks[0][:2], scene.stacks[0][2:], *scene.stacks[1:]])
    else:
        make_other = Masks.from_stacks
    detections, _ = scene.columns(make)
    _, truths = scene.columns(make_other)
    assert not is_compared(detections, truths, rules)
    assert_same(evaluate(detections, truths, rules), evaluate(*scene.columns(Masks.from_stacks), rules))


@pytest.mark.parametrize("engine", ["sequential", "parallel"])
def test_other_engines_read_run_lengths(engine: Any) -> None:
    """They compare one pair, or one group, at a time."""
    scene = make_scene(8)
    compared = scene.columns(DeviceMasks.of_stacks)
    assert_same(evaluate(*compared, SEGM, engine), evaluate(*scene.columns(Masks.from_stacks), SEGM, engine))


def test_areas_boxes_and_sizes(eager: Backend) -> None:
    """Counted without run lengths, also of a selection."""
    scene = make_scene(9)
    masks, expected = on(eager)(scene.stacks), Masks.from_stacks(scene.stacks)
    rows = np.random.default_rng(0).permutation(len(expected))[:7]
    for one, other in ((masks, expected), (masks.take(rows), expected.take(rows))):
        assert np.array_equal(one.areas(SEGM, np.zeros(0)), other.areas(SEGM))
        assert np.array_equal(one.outer_boxes(), other.outer_boxes())
        assert np.array_equal(one.sizes, other.sizes)
        assert len(one) == len(other)
        assert one.rle() == other.rle()
        assert np.array_equal(one.areas(SEGM, np.zeros(0)), other.areas(SEGM))  # now of the run lengths
        assert np.array_equal(one.take([2, 1]).outer_boxes(), other.take([2, 1]).outer_boxes())
        assert len(one.take([])) == 0


def test_jax_compiles_few_numbers_of_masks() -> None:
    """Rows are padded to a power of two, so most numbers of detections and truths need no compilation."""
    array = make_backend("jax").array
    pixels = make_scene(13, [(14, 15)]).stacks[0][:1]
    compiled = set()
    for num, num_truths in ((5, 3), (6, 4), (8, 3), (7, 4)):
        stacks = [array(np.repeat(pixels, each, axis=0)) for each in (num, num_truths)]
        detections, truths = compare_stacks([(stacks[0], stacks[1])])
        compiled.add(_jitted_by_jax(device_masks._count)._cache_size())  # type: ignore[attr-defined]
        assert (len(detections), len(truths)) == (num, num_truths)
        assert detections.common is not None
        assert detections.common.tolist() == [pixels.sum()] * (num * num_truths)
    assert len(compiled) == 1


def test_analyses_read_run_lengths() -> None:
    """The inputs of a result have their masks: outlines of pictures, run lengths for files."""
    scene = make_scene(10)
    result, expected = (evaluate(*scene.columns(make), SEGM) for make in (DeviceMasks.of_stacks, Masks.from_stacks))
    assert result.inputs is not None
    assert expected.inputs is not None
    assert result.inputs.detections.masks.rle() == expected.inputs.detections.masks.rle()
    assert str(result.errors()) == str(expected.errors())


class TestOnADevice:
    """The counting device, whose memory can't be read: what leaves it."""

    def test_only_integers_leave(self) -> None:
        """4 bytes per pair of an image and per mask; the pixels stay."""
        import torch

        scene = make_scene(11)
        expected = evaluate(*scene.columns(Masks.from_stacks), SEGM)
        with counting() as counts:
            on_device = scene.columns(
                lambda stacks: DeviceMasks.of_stacks([counts.place(torch.from_numpy(stack)) for stack in stacks])
            )
            counts.reset()
            result = evaluate(*on_device, SEGM)
            pairs = sum(len(one) * len(other) for one, other in zip(scene.stacks, scene.truth_stacks, strict=True))
            masks = sum(map(len, (*scene.stacks, *scene.truth_stacks)))
            flags = len(scene.true["ignore"])
            assert counts.bytes_to_host <= 4 * (pairs + masks) + 2 * flags
        assert_same(result, expected)

    @pytest.mark.parametrize("form", ["images", "padded", "columns"])
    def test_every_way_in(self, form: str) -> None:
        """Dicts, padded batches and columns: tensors on the device are compared there by default."""
        import torch

        scene = make_scene(12, [(20, 24)] * 4)
        expected = evaluate(*scene.columns(Masks.from_stacks), SEGM)
        with counting() as counts:
            given = ways_in(scene, form, lambda array: counts.place(torch.from_numpy(np.ascontiguousarray(array))))
            counts.reset()
            result = evaluate(*given, "coco", iou_type="segm")
            assert counts.bytes_to_host < scene.stacks[0][0].size * 20
        assert_same(result, expected)


def ways_in(scene: Scene, form: str, place: Any) -> tuple[Any, Any]:
    """The scene as dicts, a padded batch or columns; masks are placed on a device."""
    num = [*map(len, scene.stacks)]
    num_truths = [*map(len, scene.truth_stacks)]
    if form == "columns":
        stack, truth_stack = (np.concatenate(each) for each in (scene.stacks, scene.truth_stacks))
        return (
            Detections(**scene.found, masks=place(stack)),
            Truths(**scene.true, masks=place(truth_stack[:, None])[:, 0]),
        )
    parts = [np.split(scene.found[name], np.cumsum(num)[:-1]) for name in ("labels", "scores")]
    truth_parts = [np.split(scene.true[name], np.cumsum(num_truths)[:-1]) for name in ("labels", "ignore")]
    if form == "images":
        return (
            [
                {"masks": place(stack), "labels": labels, "scores": scores}
                for stack, labels, scores in zip(scene.stacks, *parts, strict=True)
            ],
            [
                {"masks": place(stack[:, None]), "labels": labels, "ignore": ignore}
                for stack, labels, ignore in zip(scene.truth_stacks, *truth_parts, strict=True)
            ],
        )

    def padded(arrays: list[Any], fill: Any) -> Any:
        length = max(map(len, arrays)) + 1
        shape = arrays[0].shape[1:]
        return np.array([np.concatenate([each, np.full((length - len(each), *shape), fill)]) for each in arrays])

    return (
        {
            "masks": place(padded(scene.stacks, True)),
            "labels": padded(parts[0], -1),
            "scores": padded(parts[1], 0.0),
        },
        {
            "masks": place(padded(scene.truth_stacks, True)),
            "labels": padded(truth_parts[0], -1),
            "ignore": padded(truth_parts[1], False),
        },
    )


class TestGivenOverlaps:
    """The compiled geometry of overlaps."""

    def test_every_pair_of_an_image_must_be_there(self) -> None:
        """A pair beyond the given overlaps is an error, not a number."""
        area, offset = np.ones(1), np.zeros(1, np.int64)
        found = _compiled.GivenOverlaps(area, offset, np.zeros(0, np.int32))
        ids, score = np.zeros(1, np.int64), np.ones(1)
        true = _compiled.GivenOverlaps(area, offset)
        columns = _compiled.Detections(ids, ids, score, found), _compiled.Truths(ids, ids, true)
        with pytest.raises(IndexError, match="every pair of an image"):
            _compiled.match(*columns, ids, rules_of(SEGM), 1)

    @pytest.mark.parametrize(
        ("arguments", "rule"),
        [
            ((np.ones(2), np.zeros(1, np.int64)), "offset"),
            ((np.ones(1), np.array([-1])), "must not be negative"),
            ((np.ones(1), np.zeros(1, np.int64), np.zeros(1)), "common"),
        ],
    )
    def test_columns_must_fit(self, arguments: tuple[Any, ...], rule: str) -> None:
        """The error names the column."""
        with pytest.raises(ValueError, match=rule):
            _compiled.GivenOverlaps(*arguments)


def test_compared_masks_have_no_run_lengths() -> None:
    """They have no other similarity, and no pixels."""
    masks = ComparedMasks(np.ones(1, np.int64), np.ones((1, 2), np.int64), np.zeros(1, np.int64))
    with pytest.raises(InputError, match="no run lengths"):
        masks.rle()
    with pytest.raises(InputError, match="mask IoU only; got 'boundary'"):
        masks.compiled(BOUNDARY)
    with pytest.raises(InputError, match="only if these were asked for"):
        masks.outer_boxes()
