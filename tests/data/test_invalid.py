"""`invalid="drop"`: predictions that can't be are dropped and counted; all else is as if they had not been there."""

import pickle
import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, MeanAveragePrecision, Tally, Truths
from boxscore.data.batch_keys import DETECTION_KEYS, TRUTH_KEYS
from boxscore.data.batches import collect_arrays
from boxscore.data.row_buffer import BufferSettings, RowBuffer
from boxscore.engines.native.compiled_engine import match_buffer
from boxscore.result import storage
from tests.support.comparisons import assert_same, assert_same_tally

NAN, INF = np.nan, np.inf
Image = dict[str, Any]

quiet = pytest.mark.filterwarnings("ignore:.*invalid prediction:UserWarning")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Shapes of one kind, and what a network must not give for them."""

    settings: dict[str, Any]
    key: str
    shape: Callable[[np.random.Generator], Any]
    """A valid shape."""
    bad: tuple[Any, ...]
    """Invalid shapes."""
    dtype: Any = np.float64


def _upright(random: np.random.Generator) -> Any:
    corner = random.integers(0, 20, 2)
    return np.concatenate([corner, corner + random.integers(20, 40, 2)]).astype(float)


def _points(random: np.random.Generator) -> Any:
    return np.concatenate([random.uniform(0, 40, (17, 2)), np.full((17, 1), 2.0)], axis=1)


def _spoilt(value: float, column: int) -> Any:
    points = _points(np.random.default_rng(0))
    points[3, column] = value
    return points


UPRIGHT = ([NAN, 0, 1, 1], [0, 0, INF, 1], [0, -INF, 1, 1], [5, 5, -3, 9], [0, 0, 2e18, 1])
KINDS = {
    "xyxy": Kind(settings={}, key="boxes", shape=_upright, bad=UPRIGHT),
    "xywh": Kind(settings={"box_format": "xywh"}, key="boxes", shape=_upright, bad=UPRIGHT),
    "cxcywh in single precision": Kind(
        settings={"box_format": "cxcywh"}, key="boxes", shape=_upright, bad=UPRIGHT, dtype=np.float32
    ),
    "angles": Kind(
        settings={"box_format": "cxcywha:radians"},
        key="boxes",
        shape=lambda random: np.concatenate([_upright(random), random.uniform(-3, 3, 1)]),
        bad=([NAN, 0, 1, 1, 0], [0, 0, -1, 1, 0], [0, 0, 1, 1, 30], [0, 0, 1, 1, INF], [0, 0, 2e18, 1, 0]),
    ),
    "corners": Kind(
        settings={"box_format": "xyxyxyxy"},
        key="boxes",
        shape=lambda random: _upright(random)[[0, 1, 2, 1, 2, 3, 0, 3]],
        bad=([0, 0, 4, 0, 0, 2, 4, 2], [0, 0, 4, 0, 1, 1, 0, 4], [NAN, 0, 4, 0, 4, 2, 0, 2]),
    ),
    "poses": Kind(
        settings={"protocol": "coco_keypoints"},
        key="keypoints",
        shape=_points,
        bad=(_spoilt(NAN, 0), _spoilt(INF, 1), _spoilt(NAN, 2)),
    ),
    "masks": Kind(
        settings={"iou_type": "segm"},
        key="masks",
        shape=lambda random: np.kron(random.random((4, 4)) < 0.5, np.ones((3, 3))).astype(bool),
        bad=(),
        dtype=bool,
    ),
}
NUM_IMAGES = 6


@dataclass(frozen=True)
class Scene:
    """Predictions with and without invalid rows."""

    spoilt: list[Image]
    clean: list[Image]
    targets: list[Image]
    num_invalid: int


def scene_of(kind: Kind, seed: int = 0) -> Scene:
    """Random predictions near truths, with every invalid shape and every invalid score somewhere among them."""
    random = np.random.default_rng(seed)
    spoilt, clean, targets, num_invalid = [], [], [], 0
    for image in range(NUM_IMAGES):
        shapes = [kind.shape(random) for _ in range(4)]
        label = random.integers(0, 2, 4)
        targets.append({kind.key: np.array(shapes[:3], kind.dtype), "labels": label[:3]})
        rows = [(shape, float(score), 0) for shape, score in zip(shapes, random.random(4).round(1), strict=True)]
        rows += [(shape, 0.95, 1) for shape in kind.bad if image != 2]  # image 2 is all valid
        rows += [(shapes[0], score, 1) for score in (NAN, INF, -INF) if image % 2]
        if image == 4:  # nothing but invalid rows
            rows = [row for row in rows if row[2]] or [(shapes[0], NAN, 1)]
        rows = [rows[index] for index in random.permutation(len(rows))]
        columns = [np.array(each) for each in zip(*rows, strict=True)]
        pred = {kind.key: columns[0].astype(kind.dtype), "scores": columns[1], "labels": np.resize(label, len(rows))}
        is_valid = columns[2] == 0
        spoilt.append(pred)
        clean.append({key: column[is_valid] for key, column in pred.items()})
        num_invalid += int((~is_valid).sum())
    return Scene(spoilt, clean, targets, num_invalid)


def metric_of(kind: Kind, **settings: Any) -> MeanAveragePrecision:
    """One that drops, without a word."""
    return MeanAveragePrecision(**{"warn": False, "invalid": "drop", **kind.settings, **settings})


def counts_of(tally: Tally) -> Any:
    """How many rows were dropped in images 0 to 15."""
    assert tally.invalid_image is not None
    return np.bincount(tally.invalid_image, minlength=16)


def _torch(images: list[Image]) -> list[Image]:
    torch = pytest.importorskip("torch")
    return [{key: torch.as_tensor(column) for key, column in image.items()} for image in images]


def _lists(images: list[Image]) -> list[Image]:
    return [{key: column if key == "masks" else column.tolist() for key, column in each.items()} for each in images]


def _padded(images: list[Image]) -> Image:
    most = max(len(image["labels"]) for image in images)
    batch: Image = {}
    for key in images[0]:
        parts = [np.asarray(image[key]) for image in images]
        batch[key] = np.full((len(images), most, *parts[0].shape[1:]), -1 if key == "labels" else 0, parts[0].dtype)
        for row, part in zip(batch[key], parts, strict=True):
            row[: len(part)] = part
    return batch


def _jax(images: list[Image]) -> list[Image]:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    return [{key: jax.numpy.asarray(column) for key, column in image.items()} for image in images]


WAYS: dict[str, Callable[[list[Image]], Any]] = {
    "arrays": list,
    "tensors": _torch,
    "lists": _lists,
    "padded": _padded,
    "jax": _jax,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_is_dropped_changes_nothing(kind: Kind, way: str) -> None:
    """Every verdict, number and curve is that of the valid rows, however batches come; the rest is counted."""
    scene = scene_of(kind)
    metric, expected = metric_of(kind), metric_of(kind, invalid="error")
    ids = list(range(10, 10 + NUM_IMAGES))
    for part in (slice(0, 4), slice(4, 6)):
        preds, clean, targets = (WAYS[way](each[part]) for each in (scene.spoilt, scene.clean, scene.targets))
        with pytest.raises(InputError, match="row"):
            metric_of(kind, invalid="error").update(preds, targets)
        metric.update(preds, targets, image_ids=ids[part])
        expected.update(clean, targets, image_ids=ids[part])
    result, whole = metric.compute(), expected.compute()
    assert 0 < whole["map"] <= 1
    assert_same_tally(metric.tally, expected.tally)
    assert_same(result, whole)
    assert (result.num_invalid, whole.num_invalid) == (scene.num_invalid, 0)
    words = f"{scene.num_invalid} invalid detections dropped"
    assert words in result.comparable.differences
    assert words in str(result)
    assert words not in whole.comparable.differences
    counts = counts_of(metric.tally)[10:]
    given = [len(image["labels"]) for image in scene.spoilt]
    assert counts.tolist() == [num - len(image["labels"]) for num, image in zip(given, scene.clean, strict=True)]


@pytest.mark.parametrize("engine", ["native", "parallel", "sequential"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_columns_carry_what_was_dropped(kind: Kind, engine: Any) -> None:
    """From `Detections` by any engine to the result of `evaluate`, `match` and `finish`."""
    scene = scene_of(kind, seed=1)
    settings = {"iou_type": "bbox", **kind.settings}
    protocol = boxscore.Protocol.named(settings.pop("protocol", "coco"))
    if kind.key == "keypoints":
        settings["iou_type"] = "keypoints"
    detections, clean = (
        Detections.from_images(each, **settings, invalid="drop") for each in (scene.spoilt, scene.clean)
    )
    truths = Truths.from_images(scene.targets, **settings)
    protocol = protocol.replace(iou_type=detections.geometry.iou_types[0])
    result = boxscore.evaluate(detections, truths, protocol, engine)
    assert_same(result, boxscore.evaluate(clean, truths, protocol, engine))
    assert result.num_invalid == result.tally.num_invalid == scene.num_invalid
    assert (
        boxscore.finish(boxscore.match(detections, truths, protocol, engine), engine).num_invalid == scene.num_invalid
    )
    assert len(detections) == len(clean)
    assert clean.invalid_image_ids is None


ODD = [0.0, -0.0, 1.0, 7.5, -3.0, NAN, INF, -INF, 1e18, 1.1e18, 2e18, -1e18, 3e38, 1e-300, -1e-300]


@pytest.mark.parametrize("box_format", ["xyxy", "xywh", "cxcywh"])
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_both_paths_drop_the_same_rows(box_format: Any, real: Any) -> None:
    """The buffer, and columns; of rows of odd numbers."""
    random = np.random.default_rng(0)
    protocol = boxscore.Protocol.named("coco")
    for _ in range(50):
        with np.errstate(over="ignore"):
            box, score = (random.choice(ODD, size).astype(real) for size in ((30, 4), 30))
        box[::3] = [1, 1, 5, 5]
        score[1::2] = 0.5
        pred = {"boxes": box, "scores": score, "labels": random.integers(0, 3, 30)}
        target = {"boxes": np.array([[1, 1, 5, 5.0]]), "labels": np.array([0])}
        buffer = RowBuffer(BufferSettings(protocol, box_format, None, "drop"))
        assert buffer.add(collect_arrays([pred], DETECTION_KEYS), collect_arrays([target], TRUTH_KEYS), [7])
        found = Detections.from_images([pred], image_ids=[7], box_format=box_format, invalid="drop")
        truths = Truths.from_images([target], image_ids=[7], box_format=box_format)
        tally, expected = match_buffer(buffer, 1), boxscore.match(found, truths, protocol)
        assert_same_tally(tally, expected)
        assert tally.num_invalid == expected.num_invalid > 0


def test_what_waits_is_taken_back_with_what_it_dropped() -> None:
    """Where a warning is an error, a batch leaves nothing behind."""
    scene = scene_of(KINDS["xyxy"])
    metric = MeanAveragePrecision(invalid="drop")
    metric.update(scene.clean[:2], scene.targets[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="were dropped"):
            metric.update(scene.spoilt[2:], scene.targets[2:])
    result = metric.compute()
    assert result.num_invalid == 0
    assert result.comparable


def test_there_is_one_warning() -> None:
    """With the number and the first of them, however many batches and epochs there are."""
    kind = KINDS["xyxy"]
    for way in (list, _lists, _padded):
        metric = MeanAveragePrecision(invalid="drop")
        target = {"boxes": np.array([[0.0, 0, 9, 9]]), "labels": np.array([1])}
        pred = {"boxes": np.array([[0.0, 0, 9, 9], [5, 5, 1, 9]]), "scores": [0.9, 0.8], "labels": [1, 1]}
        pred = {key: np.asarray(column) for key, column in pred.items()}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                metric.update(way([pred]), way([target]))
            metric.reset()
            metric.update(way([pred]), way([target]))
            metric.compute()
        (warning,) = caught
        assert str(warning.message).startswith("1 invalid prediction of a batch was dropped; the first: ")
        where = "`preds`: `boxes` row [0, 1]" if way is _padded else "preds[0]: `boxes` row 1"
        rule = "must have x1 <= x2 and y1 <= y2 (box_format='xyxy'); got [5.0, 5.0, 1.0, 9.0]"
        end = "; `num_invalid` of the result counts all (warn=False silences this)"
        assert str(warning.message).endswith(f"{where} {rule}{end}")
        assert warning.filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric = metric_of(kind)
        metric.update(scene_of(kind).spoilt, scene_of(kind).targets)
        metric.compute()


def test_if_all_is_dropped_nobody_asks_for_more_predictions() -> None:
    """The first warning has said why there are none."""
    metric = MeanAveragePrecision(invalid="drop")
    target = {"boxes": np.tile([0.0, 0, 9, 9], (20, 1)), "labels": np.ones(20, int)}
    pred = {"boxes": np.full((20, 4), NAN), "scores": np.full(20, 0.5), "labels": np.ones(20, int)}
    with pytest.warns(UserWarning, match="20 invalid predictions of a batch were dropped"):
        metric.update([pred], [target])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metric.compute()["map"] == 0


@pytest.mark.parametrize("way", ["arrays", "lists", "padded"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind.bad], ids=[n for n in KINDS if n != "masks"])
def test_truths_are_never_dropped(kind: Kind, way: str) -> None:
    """A truth that can't be is an error, and nothing of its batch counts."""
    scene = scene_of(kind)
    for bad in kind.bad:
        target = {kind.key: np.array([bad], kind.dtype), "labels": np.array([1])}
        metric = metric_of(kind)
        with pytest.raises(InputError, match=r"targets.* row"):
            metric.update(WAYS[way](scene.spoilt[:1]), WAYS[way]([target]))
        assert metric.compute().num_invalid == 0


@quiet
def test_ids_of_predictions_stay_strict() -> None:
    """A label that no class has is a mistake, unless its row is dropped anyway; and rows have the numbers they had."""
    target = {"boxes": np.array([[0.0, 0, 9, 9]]), "labels": np.array([1])}
    box = np.array([[NAN, 0, 9, 9], [0, 0, 9, 9]])
    for way in (list, _lists):
        metric = MeanAveragePrecision(invalid="drop", class_names={1: "cat"})
        pred = {"boxes": box, "scores": np.array([0.9, 0.8]), "labels": np.array([5, 1])}
        metric.update(way([pred]), [target])
        with pytest.raises(InputError, match="must be one of those in `class_names`"):
            metric.update(way([pred | {"labels": np.array([1, 5])}]), [target])
        assert metric.compute().num_invalid == 1
    labels = np.array([1, 2**63 + 5], np.uint64)
    with pytest.raises(InputError, match=r"^images\[0\]: `labels` row 1 must fit in 63 bits"):
        Detections.from_images([{"boxes": box, "scores": [0.9, 0.8], "labels": labels}], invalid="drop")
    unknown: Any = "ignore"
    for made in (MeanAveragePrecision, lambda invalid: Detections.from_images([], invalid=invalid)):
        with pytest.raises(InputError, match=r"^`invalid` must be one of error, drop; got 'ignore'$"):
            made(invalid=unknown)


def dropping() -> tuple[MeanAveragePrecision, Scene]:
    """A metric that has dropped rows in images 10 to 15."""
    scene = scene_of(KINDS["xyxy"])
    metric = metric_of(KINDS["xyxy"])
    metric.update(scene.spoilt, scene.targets, image_ids=list(range(10, 16)))
    return metric, scene


def test_the_count_survives_whatever_a_tally_goes_through(tmp_path: Path) -> None:
    """Files, checkpoints, pickles, tables, copies, other processes; and saved results."""
    metric, scene = dropping()
    metric.tally.save(tmp_path / "a.tally")
    other = metric_of(KINDS["xyxy"])
    other.load_state_dict(metric.state_dict())
    ways = {
        "file": Tally.load(tmp_path / "a.tally"),
        "bytes": storage.from_bytes(storage.to_bytes(metric.tally)),
        "state": other.tally,
        "pickle": pickle.loads(pickle.dumps(metric)).tally,
        "copy": copy(metric).tally,
        "sorted": metric.tally.sorted(),
        "pooled": metric.tally.pooled(),
        "merged": Tally.empty(metric.protocol).merge(metric.tally),
    }
    if pytest.importorskip("pyarrow"):
        ways["arrow"] = Tally.from_arrow(metric.tally.to_arrow())
    for name, tally in ways.items():
        assert np.array_equal(counts_of(tally), counts_of(metric.tally)), name
        assert boxscore.finish(tally).num_invalid == scene.num_invalid, name
    result = metric.compute()
    result.save(tmp_path / "a.boxscore")
    loaded = boxscore.load_result(tmp_path / "a.boxscore")
    assert loaded.num_invalid == scene.num_invalid
    assert str(loaded.comparable) == str(result.comparable)


def test_a_tally_of_valid_rows_is_stored_as_ever() -> None:
    """So older files are read, and older versions read what has nothing dropped."""
    metric = metric_of(KINDS["xyxy"])
    scene = scene_of(KINDS["xyxy"])
    metric.update(scene.clean, scene.targets)
    content = storage.to_bytes(metric.tally)
    assert b"invalid" not in content
    assert storage.from_bytes(content).invalid_image is None


def test_the_count_is_that_of_the_images() -> None:
    """Parts of a tally have theirs, merging adds them up, and an image that came again adds nothing."""
    metric, scene = dropping()
    counts = counts_of(metric.tally)
    assert metric.tally.within(np.array([11, 13])).num_invalid == counts[[11, 13]].sum()
    assert metric.tally.without(np.array([11, 13])).num_invalid == counts.sum() - counts[[11, 13]].sum()
    parts = [metric.tally.within(np.arange(10, 12)), metric.tally.within(np.arange(12, 16))]
    assert parts[0].merge(parts[1]).num_invalid == scene.num_invalid
    assert boxscore.finish(parts).num_invalid == scene.num_invalid
    assert parts[0].totals.merge(parts[1].totals).num_invalid == scene.num_invalid
    for way in (list, _padded):
        unique = metric_of(KINDS["xyxy"], unique_images=True)
        for _ in range(2):
            unique.update(way(scene.spoilt), way(scene.targets), image_ids=list(range(10, 16)))
        assert unique.compute().num_invalid == scene.num_invalid
        assert unique.merge(metric, unique).compute().num_invalid == scene.num_invalid
    columns = metric_of(KINDS["xyxy"], unique_images=True)
    ids = list(range(10, 16))
    sides = (
        Detections.from_images(scene.spoilt, image_ids=ids, invalid="drop"),
        Truths.from_images(scene.targets, image_ids=ids),
    )
    columns.update(*sides)
    columns.update(*sides)
    assert columns.compute().num_invalid == scene.num_invalid


def test_an_image_of_nothing_but_what_was_dropped_counts_once() -> None:
    """In its tally it has no row, and its id is known all the same."""
    metric = metric_of(KINDS["xyxy"])
    nothing = {"boxes": np.zeros((0, 4)), "labels": np.zeros(0, int)}
    pred = {"boxes": np.full((1, 4), NAN), "scores": np.array([0.5]), "labels": np.array([1])}
    metric.update([pred], [nothing], image_ids=["a.jpg"])
    assert metric.tally.num_invalid == metric.compute().num_invalid == 1
    with pytest.raises(InputError, match="was in an update before"):
        metric.update([pred], [nothing], image_ids=["a.jpg"])
    from boxscore.result.distributed import renumbered, without_copies

    assert [each.num_invalid for each in without_copies([metric.tally, metric.tally])] == [1, 0]
    numbered = metric_of(KINDS["xyxy"])
    numbered.update([pred], [nothing])
    moved = renumbered([numbered.tally, numbered.tally])
    assert [each.invalid_image.tolist() for each in moved if each.invalid_image is not None] == [[0], [1]]
