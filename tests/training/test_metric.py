"""The streaming metric: the bits of one evaluation, whatever the batches; mistakes are caught when they happen."""

import pickle
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy, deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import InputError, MeanAveragePrecision
from boxscore.result import storage
from tests.support.comparisons import TALLY, assert_same
from tests.support.image_dicts import dicts
from tests.support.scenes import Scene, random_scene


def metric_of(scene: Scene, protocol: Any = "coco", **settings: Any) -> MeanAveragePrecision:
    """A metric for the scene's boxes and classes."""
    names = scene.truths.class_names
    return MeanAveragePrecision(protocol, box_format="xywh", class_names=names, warn=False, **settings)


@pytest.mark.parametrize("protocol", ["coco", "voc2007", "voc2012", "paper"])
@pytest.mark.parametrize("size", [1, 3, 100])
def test_batches_give_the_bits_of_one_evaluation(protocol: Any, size: int) -> None:
    """However many images a batch has; with the size of state that a tally has."""
    scene = random_scene(5, num_images=11)
    metric = metric_of(scene, protocol)
    preds, targets = dicts(scene)
    for first in range(0, len(preds), size):
        metric.update(preds[first : first + size], targets[first : first + size])
    assert_same(metric.compute(), boxscore.evaluate(scene.detections, scene.truths, protocol))
    assert repr(metric) == f"MeanAveragePrecision({protocol}, 11 images, {len(metric.tally)} detections)"


@pytest.mark.parametrize("name", ["numpy", "torch", "jax", "tensorflow", "lists"])
def test_any_library_will_do(name: str) -> None:
    """Lists, too."""
    if name == "lists":
        wrap: Any = list
    elif name == "numpy":
        wrap = np.asarray
    elif name == "torch":
        wrap = pytest.importorskip("torch").as_tensor
    elif name == "jax":
        jax = pytest.importorskip("jax")
        jax.config.update("jax_enable_x64", True)
        wrap = jax.numpy.asarray
    else:
        wrap = pytest.importorskip("tensorflow").convert_to_tensor
    scene = random_scene(6, num_images=5)
    metric = metric_of(scene)
    preds, targets = dicts(scene, wrap)
    metric.update(preds[:3], targets[:3])
    metric.update(preds[3:], targets[3:])
    assert_same(metric.compute(), boxscore.evaluate(scene.detections, scene.truths))


def test_padded_batches_and_columns_give_the_same() -> None:
    """The paper's batches with masks; flat columns with an image each."""
    scene = random_scene(7, num_images=6)
    expected = boxscore.evaluate(scene.detections, scene.truths)
    metric = metric_of(scene)
    metric.update(scene.detections, scene.truths)
    assert_same(metric.compute(), expected)

    preds, targets = dicts(scene)
    metric = metric_of(scene)
    for first in (0, 3):
        found, there = (_pad(images[first : first + 3]) for images in (preds, targets))
        found["discarded"] = found.pop("padding")
        found["labels"] = np.where(found["discarded"], 0, found["labels"])
        there.pop("padding")
        metric.update(found, there, image_ids=range(first, first + 3))
    assert_same(metric.compute(), expected)


def _pad(images: list[dict[str, Any]]) -> dict[str, Any]:
    length = max(len(image["labels"]) for image in images)
    batch: dict[str, Any] = {}
    for key in images[0]:
        shape = (len(images), length, *images[0][key].shape[1:])
        batch[key] = np.full(shape, -1 if key == "labels" else 0, images[0][key].dtype)
        for row, image in enumerate(images):
            batch[key][row, : len(image[key])] = image[key]
    batch["padding"] = batch["labels"] < 0
    return batch


def test_compute_may_be_called_after_every_batch() -> None:
    """It gives the result so far, and changes nothing."""
    scene = random_scene(8, num_images=4)
    metric = metric_of(scene)
    preds, targets = dicts(scene)
    for image in range(4):
        metric.update(preds[image : image + 1], targets[image : image + 1])
        so_far = metric.compute()
        assert_same(metric.compute(), so_far)
    assert_same(so_far, boxscore.evaluate(scene.detections, scene.truths))


def test_without_updates_every_number_is_undefined() -> None:
    """The classes are there."""
    result = MeanAveragePrecision(class_names=["cat", "dog"]).compute()
    assert np.isnan(result["map"])
    assert result.per_class.name == ("cat", "dog")


def test_reset_starts_anew() -> None:
    """An image may come again."""
    scene = random_scene(9, num_images=3)
    metric = metric_of(scene)
    metric.update(scene.detections, scene.truths)
    expected = metric.compute()
    metric.reset()
    metric.update(scene.detections, scene.truths)
    assert_same(metric.compute(), expected)


@pytest.mark.parametrize("copied", [copy, deepcopy])
def test_a_copy_and_the_original_go_on_by_themselves(copied: Callable[[Any], Any]) -> None:
    """Neither sees the other's images, nor the names of these, nor what waits to be matched."""
    scene = random_scene(10, num_images=6)
    preds, targets = dicts(scene)
    names = [f"{number}.jpg" for number in range(6)]
    metric, fresh = metric_of(scene), metric_of(scene)
    for each in (metric, fresh):
        each.update(preds[:2], targets[:2], image_ids=names[:2])
        each.compute()  # one tally; the next batch waits
        each.update(preds[2:4], targets[2:4], image_ids=names[2:4])
    other = copied(metric)
    other.update(preds[4:], targets[4:], image_ids=names[4:])
    assert_same(metric.compute(), fresh.compute())
    assert len(metric.image_names) == 4
    metric.update(preds[4:], targets[4:], image_ids=names[4:])
    assert_same(metric.compute(), other.compute())
    other.reset()
    assert repr(metric).startswith("MeanAveragePrecision(coco, 6 images")


def test_copies_share_the_process_group() -> None:
    """It is a handle that can't be copied, and both mean the same processes."""
    from threading import Lock

    group = Lock()  # can't be copied either
    metric = MeanAveragePrecision(process_group=group)
    assert copy(metric).process_group is deepcopy(metric).process_group is group


def test_state_goes_through_checkpoints_and_pickles() -> None:
    """In the middle of an epoch."""
    scene = random_scene(10, num_images=6)
    preds, targets = dicts(scene)
    first, second = metric_of(scene), metric_of(scene)
    first.update(preds[:3], targets[:3])
    second.load_state_dict(first.state_dict())
    third = pickle.loads(pickle.dumps(first))
    for metric in (first, second, third):
        metric.update(preds[3:], targets[3:])
        assert_same(metric.compute(), boxscore.evaluate(scene.detections, scene.truths))
    with pytest.raises(InputError, match=r"^`state` must have the metric's protocol; got another one \('coco' and"):
        MeanAveragePrecision("voc2012").load_state_dict(first.state_dict())
    for state in ({}, None, first.state_dict() | {"tally": "text"}, first.state_dict() | {"seen": [0.5]}):
        with pytest.raises(InputError, match=r"^`state` must be what `state_dict` gave"):
            first.load_state_dict(state)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^`state` must be what `state_dict` gave$"):
        first.load_state_dict({})


def test_metrics_merge() -> None:
    """Those of other processes; an image may be in one of them only."""
    scene = random_scene(11, num_images=6)
    preds, targets = dicts(scene)
    parts = [metric_of(scene) for _ in range(3)]
    for part, images in zip(parts, ([0, 5], [2], [1, 3, 4]), strict=True):
        part.update([preds[i] for i in images], [targets[i] for i in images], image_ids=images)
    before = [part.state_dict() for part in parts]
    merged = parts[0].merge(*parts[1:])
    expected = boxscore.evaluate(scene.detections, scene.truths)
    assert_same(merged.compute(), expected)
    assert_same(parts[0].merge(parts[1].merge(parts[2])).compute(), expected)
    assert_same(parts[0].merge(parts[1]).merge(parts[2]).compute(), expected)
    assert_same(metric_of(scene).merge(merged).merge(metric_of(scene)).compute(), expected)
    assert [part.state_dict() for part in parts] == before, "merging changes none of them"
    with pytest.raises(
        InputError, match=r"^image 2 is in more than one of the metrics; unique_images=True counts the first$"
    ):
        merged.merge(parts[1])
    unnamed = metric_of(scene)
    unnamed.update(preds[:1], targets[:1])
    with pytest.raises(InputError, match="if every update named its images"):
        merged.merge(unnamed)
    assert_same(unnamed.merge(metric_of(scene)).compute(), unnamed.compute())


def test_inputs_are_neither_changed_nor_kept() -> None:
    """Changing them afterwards changes nothing."""
    scene = random_scene(12, num_images=3)
    preds, targets = dicts(scene)
    copies = pickle.loads(pickle.dumps((preds, targets)))
    metric = metric_of(scene)
    metric.update(preds, targets)
    for images, before in zip((preds, targets), copies, strict=True):
        for image, old in zip(images, before, strict=True):
            for key, value in image.items():
                assert np.array_equal(value, old[key])
                value[...] = 0
    assert_same(metric.compute(), boxscore.evaluate(scene.detections, scene.truths))


GOOD = {"boxes": np.array([[0.0, 0, 9, 9]]), "scores": np.array([0.5]), "labels": np.array([1])}
TARGET = {"boxes": np.array([[0.0, 0, 9, 9]]), "labels": np.array([1])}
PADDED = {"boxes": [[[0.0, 0, 9, 9]]], "scores": [[0.5]], "labels": [[1]]}
PADDED_TARGET = {"boxes": [[[0.0, 0, 9, 9]]], "labels": [[1]]}


@pytest.mark.parametrize(
    ("preds", "targets", "message"),
    [
        ([GOOD], [], "`preds` and `targets` must have one entry per image; got 1 and 0"),
        ([GOOD | {"labels": np.array([1.0])}], [TARGET], "preds[0]: `labels` must hold integers; got float64"),
        ([GOOD | {"scores": np.array([np.nan])}], [TARGET], "preds[0]: `scores` row 0 must be finite; got nan"),
        ([GOOD], [TARGET | {"boxes": np.array([[5.0, 5, 4, 9]])}], "targets[0]: `boxes` row 0 must have x1 <= x2"),
        ([GOOD], [{"labels": np.array([1])}], "targets[0] must have the key 'boxes'; got ['labels']"),
        (
            [GOOD],
            [TARGET | {"labels": np.array([7])}],
            "`targets`: `labels` must be one of those in `class_names` (0, 1)",
        ),
        (GOOD, [TARGET], "`preds` and `targets` must both be a list of dicts"),
        ([GOOD], [None], "targets[0] must be a dict with `boxes` and `labels`; got NoneType"),
        (
            [GOOD],
            [TARGET | {"iscrowd": np.array([0.5])}],
            "targets[0]: `iscrowd` must hold booleans, or integers 0 and 1",
        ),
        (
            PADDED | {"labels": 1},
            PADDED_TARGET,
            "`preds`: `labels` must have two dimensions, images and boxes; got shape ()",
        ),
        (
            PADDED | {"labels": [[1], [1, 2]]},
            PADDED,
            "`preds`: `labels` must be an array or a list of numbers; got rows",
        ),
        (
            PADDED,
            PADDED_TARGET | {"ignore": [[0]], "iscrowd": [0]},
            "`targets`: `iscrowd` must have shape (1, 1), to go with `labels`; got (1,)",
        ),
        (
            PADDED,
            PADDED_TARGET | {"image_id": 7},
            "`image_ids` must be a list of integers or names, one per image; got 7",
        ),
        (
            [GOOD],
            [TARGET | {"image_id": 1.5}],
            "targets[0]: an image id must be an integer of 64 bits or a name; got 1.5",
        ),
    ],
)
@pytest.mark.parametrize("warn", [True, False])
def test_mistakes_are_refused_and_change_nothing(preds: Any, targets: Any, message: str, warn: bool) -> None:
    """With the image, the key and the row."""
    metric = MeanAveragePrecision(class_names=["cat", "dog"], warn=warn)
    with pytest.raises(InputError) as error:
        metric.update(preds, targets)
    assert str(error.value).startswith(message)
    assert len(metric.tally) == 0
    metric.update([GOOD], [TARGET])
    assert metric.compute()["map"] == pytest.approx(1)


def test_settings_that_can_not_be_are_refused_at_once() -> None:
    """Not at the first update; ids that are no list at the update that has them."""
    with pytest.raises(InputError, match=r"^`engine` must be one of auto, native, parallel, sequential; got 'gpu'"):
        MeanAveragePrecision(engine="gpu")  # type: ignore[call-overload]
    with pytest.raises(InputError, match=r"^`image_ids` must be a list of integers or names, one per image; got 5"):
        MeanAveragePrecision().update([GOOD], [TARGET], image_ids=5)


def test_padded_batches_may_name_their_images_in_a_list() -> None:
    """As in an array."""
    metric = MeanAveragePrecision()
    metric.update(PADDED, PADDED_TARGET | {"image_id": [7]})
    assert metric.tally.images.tolist() == [7]


def test_threads_may_share_a_metric() -> None:
    """Nothing is lost where one updates while another computes."""
    metric = MeanAveragePrecision(warn=False)
    with ThreadPoolExecutor(4) as pool:
        updates = [pool.submit(metric.update, [GOOD] * 2, [TARGET] * 2) for _ in range(400)]
        computes = [pool.submit(metric.compute) for _ in range(100)]
        for update in updates:
            update.result()
        for compute in computes:
            compute.result()
    assert metric.tally.images.tolist() == list(range(800))
    assert len(metric.tally) == 800


def test_a_checkpoint_of_torch_holds_the_state(tmp_path: Path) -> None:
    """As `torch.load` takes nothing but plain values and tensors, unless it is told to trust the file."""
    torch = pytest.importorskip("torch")
    metric = MeanAveragePrecision()
    metric.update([GOOD], [TARGET])
    torch.save({"metric": metric.state_dict()}, tmp_path / "last.ckpt")
    again = MeanAveragePrecision()
    again.load_state_dict(torch.load(tmp_path / "last.ckpt")["metric"])
    assert_same(again.compute(), metric.compute())


def test_an_image_seen_twice_is_refused() -> None:
    """By the id of the call, or of the target."""
    metric = MeanAveragePrecision()
    metric.update([GOOD], [TARGET | {"image_id": np.array(3)}])
    with pytest.raises(InputError, match=r"^image 3 was in an update before"):
        metric.update([GOOD], [TARGET], image_ids=[3])
    with pytest.raises(InputError, match=r"^either every update must name its images, or none"):
        metric.update([GOOD], [TARGET])


def boxes(num: int, scale: float = 1.0) -> np.ndarray[Any, Any]:
    """Corners of boxes far from the origin."""
    corner = np.random.default_rng(0).uniform(100, 200, (num, 2))
    return np.concatenate([corner, corner + 50], axis=1) * scale


def batch(box: Any, label: Any, **more: Any) -> dict[str, Any]:
    """One image."""
    return {"boxes": box, "labels": np.full(len(box), label), **more}


@pytest.mark.parametrize(
    ("pred", "target", "box_format", "message"),
    [
        (batch(boxes(12, 1 / 640), 1), batch(boxes(12), 1), "xyxy", "the boxes of `preds` look like fractions"),
        (batch(boxes(12), 1), batch(boxes(12, 1 / 640), 1), "xyxy", "the boxes of `targets` look like fractions"),
        (
            batch(boxes(12), 1),
            batch(boxes(5), 1),
            "xywh",
            "all boxes in `preds` have width > x and height > y; did you mean box_format='xyxy'?",
        ),
        (batch(boxes(12), 0), batch(boxes(12), 1), "xyxy", r"most would be with \+1: off by one\?"),
    ],
)
def test_likely_mistakes_are_warned_about_once(pred: Any, target: Any, box_format: Any, message: str) -> None:
    """With how to silence it."""
    pred = pred | {"scores": np.full(len(pred["boxes"]), 0.5)}
    metric = MeanAveragePrecision(box_format=box_format)
    with pytest.warns(UserWarning, match=f"{message}.*warn=False silences this") as told:
        metric.update([pred], [target])
    assert told[0].filename == __file__  # the line to look at
    with warnings.catch_warnings(action="error"):
        metric.update([pred], [target])
        MeanAveragePrecision(box_format=box_format, warn=False).update([pred], [target])


def test_good_data_is_not_warned_about() -> None:
    """Boxes of every size."""
    with warnings.catch_warnings(action="error"):
        for seed in range(10):
            scene = random_scene(seed)
            metric = MeanAveragePrecision(box_format="xywh")
            metric.update(scene.detections, scene.truths)


def test_a_tally_goes_through_bytes() -> None:
    """Bit for bit; several may stand one after the other."""
    scene = random_scene(13)
    tallies = [boxscore.match(scene.detections, scene.truths, name) for name in ("coco", "voc2012")]
    content = b"".join(storage.to_bytes(tally) for tally in tallies)
    first, rest = storage.split_bytes(content)
    for tally, again in zip(tallies, (first, storage.from_bytes(rest)), strict=True):
        assert again.protocol == tally.protocol
        assert again.class_names == tally.class_names
        for column in TALLY:
            assert np.array_equal(getattr(again, column), getattr(tally, column)), column
            assert getattr(again, column).dtype == getattr(tally, column).dtype


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:0], "t: not a boxscore tally, or one of another version"),
        (lambda content: b"x" + content[1:], "t: not a boxscore tally, or one of another version"),
        (lambda content: content[:20], "t: the tally is truncated: got 20 bytes"),
        (lambda content: content[:-1], "t: the tally is truncated: got "),
        (lambda content: content[:-9] + b"\0" + content[-8:], "t: the checksum of the tally does not match"),
        (lambda content: content + b"x", "t: 1 bytes after the end of the tally"),
    ],
)
def test_bytes_that_are_no_tally_are_refused(change: Any, message: str) -> None:
    """Foreign, truncated, changed."""
    scene = random_scene(14)
    content = storage.to_bytes(boxscore.match(scene.detections, scene.truths))
    assert content[-9] != 0
    with pytest.raises(InputError) as error:
        storage.from_bytes(change(content), "t")
    assert str(error.value).startswith(message)


def test_targets_have_the_name_of_torchmetrics_too() -> None:
    """One of both."""
    metric = MeanAveragePrecision(warn=False)
    metric.update([GOOD], target=[TARGET])
    metric.update(preds=[GOOD], targets=[TARGET])
    assert metric.compute()["map"] == pytest.approx(1)
    for sides in ({}, {"targets": [TARGET], "target": [TARGET]}):
        with pytest.raises(InputError, match=r"^`targets` must be given once, under this name or as `target`$"):
            metric.update([GOOD], **sides)
