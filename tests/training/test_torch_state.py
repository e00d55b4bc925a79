"""The state for compiled PyTorch steps: eager, compiled, exported and merged, it gives the bits of one evaluation."""

import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import boxscore
import boxscore.torch as metric
from boxscore import InputError, Protocol, parallel
from boxscore.arrays.counting import counting
from tests.support.scenes import Scene, padded, random_scene

torch = pytest.importorskip("torch")
NUM_CLASSES = 4
NAMES = [f"class {label}" for label in range(NUM_CLASSES)]


def batches(scene: Scene, size: int) -> list[tuple[dict[str, Any], dict[str, Any], Any]]:
    """The scene in padded batches of up to `size` images, as tensors."""
    found, there = padded(scene)
    area = np.zeros(there.labels.shape)
    for image in range(scene.num_images):
        rows = scene.truth["image_ids"] == image
        area[image, : np.count_nonzero(rows)] = scene.truth["area"][rows]
    preds = {name: getattr(found, name) for name in ("boxes", "labels", "scores", "discarded")}
    targets = {"boxes": there.boxes, "labels": there.labels, "iscrowd": there.ignore, "area": area}
    made = []
    for first in range(0, scene.num_images, size):
        images = slice(first, first + size)
        sides = (
            {key: torch.from_numpy(np.array(column[images])) for key, column in side.items()}
            for side in (preds, targets)
        )
        made.append((*sides, torch.arange(scene.num_images)[images]))
    return made


def fresh(protocol: Any, capacity: int = 2000, **options: Any) -> Any:
    """A state for scenes."""
    return metric.init(capacity, protocol, box_format="xywh", class_names=NAMES, **options)


def assert_equal(state: Any, scene: Scene, protocol: Any) -> None:
    """The result, and the numbers on the device, to the last bit."""
    expected = boxscore.evaluate(scene.detections, scene.truths, protocol)
    result = metric.compute(state)
    assert dict(result) == pytest.approx(dict(expected), abs=0, nan_ok=True)
    for name in ("precision", "recall", "scores", "average_precision", "num_true", "num_false"):
        assert np.array_equal(getattr(result.curves, name), getattr(expected.curves, name), equal_nan=True), name
    if Protocol.named(protocol).ap != "trapezoid":
        found = {name: value.item() for name, value in metric.numbers(state).items()}
        assert found == pytest.approx({name: expected[name] for name in found}, abs=0, nan_ok=True)


@pytest.mark.parametrize("protocol", ["coco", "voc2007", "voc2012", "paper"])
def test_eager_updates_give_the_bits_of_evaluate(protocol: str) -> None:
    """Over batches of different numbers of images."""
    scene = random_scene(3, num_images=11)
    state = fresh(protocol)
    for batch in batches(scene, 3):
        state = metric.update(state, *batch)
    assert_equal(state, scene, protocol)


@pytest.mark.parametrize("protocol", ["coco", "voc2012"])
def test_one_graph_gives_the_bits_of_evaluate(protocol: str) -> None:
    """The last batch has fewer images: one more compilation, and no more after it."""
    from torch._dynamo.testing import CompileCounterWithBackend

    torch.compiler.reset()
    counter = CompileCounterWithBackend("eager")
    step = torch.compile(metric.update, fullgraph=True, backend=counter)
    scene = random_scene(3, num_images=11)
    for _ in range(2):
        state = fresh(protocol)
        for batch in batches(scene, 3):
            state = step(state, *batch)
        assert_equal(state, scene, protocol)
    assert counter.frame_count <= 2


def test_an_exported_update_takes_any_number_of_images() -> None:
    """`torch.export` with a dynamic batch; the state is a pytree."""
    scene = random_scene(4, num_images=7)
    every = batches(scene, 3)

    class Step(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, state: Any, preds: Any, targets: Any, image_ids: Any) -> Any:
            return metric.update(state, preds, targets, image_ids)

    images = torch.export.Dim("images", min=1, max=64)
    state = fresh("voc2012")
    shapes = torch.export.ShapesCollection()
    for tensor in (*every[0][0].values(), *every[0][1].values(), every[0][2]):
        shapes[tensor] = {0: images}
    program = torch.export.export(Step(), (state, *every[0]), dynamic_shapes=shapes).module()
    for batch in every:
        state = program(state, *batch)
    assert_equal(state, scene, "voc2012")


@pytest.mark.parametrize("protocol", ["coco", "voc2007"])
def test_nothing_is_copied_or_read_on_a_device(protocol: str) -> None:
    """State and batch on a device: an update needs nothing from the host, and tells it nothing."""
    scene = random_scene(1, num_images=3)
    state = fresh(protocol)
    with counting() as counts:
        state = torch.utils._pytree.tree_map(counts.place, state)
        for preds, targets, image_ids in batches(scene, 2):
            found, there = ({key: counts.place(tensor) for key, tensor in side.items()} for side in (preds, targets))
            state = metric.update(state, found, there, counts.place(image_ids))
        assert (counts.copies_to_device, counts.copies_to_host, counts.reads) == (0, 0, 0)
        assert counts.launches > 0
        state = torch.utils._pytree.tree_map(lambda tensor: tensor.cpu(), state)
    assert_equal(state, scene, protocol)


def test_merged_states_are_one() -> None:
    """In either order."""
    scene = random_scene(5, num_images=10)
    one, other = fresh("coco"), fresh("coco")
    for index, batch in enumerate(batches(scene, 2)):
        if index in (0, 3):
            one = metric.update(one, *batch)
        else:
            other = metric.update(other, *batch)
    assert_equal(metric.merge(one, other), scene, "coco")
    assert_equal(metric.merge(fresh("coco", 1), metric.merge(other, one)), scene, "coco")


PRED = {
    "boxes": torch.tensor([0.0, 0, 9, 9]).expand(2, 3, 4),
    "labels": torch.ones((2, 3), dtype=torch.int64),
    "scores": torch.tensor([[0.9, 0.5, 0.4]] * 2),
}
TARGET = {"boxes": PRED["boxes"][:, :1], "labels": torch.ones((2, 1), dtype=torch.int64)}


def test_rows_that_find_no_room_are_an_error_and_no_number() -> None:
    """`compute` raises it; `numbers`, which can't, are NaN."""
    state = metric.init(10, "voc2012", num_classes=2)
    for first in (0, 2):
        state = metric.update(state, PRED, TARGET, torch.tensor([first, first + 1]))
    with pytest.raises(InputError, match=r"`capacity` must be at least the number of rows; got 10, and 12 detections"):
        metric.compute(state)
    assert math.isnan(metric.numbers(state)["map"].item())


def test_invalid_detections_are_dropped_or_an_error() -> None:
    """As `invalid` says; invalid truths are always an error."""
    spoilt = PRED | {"scores": torch.tensor([[0.9, math.nan, 0.4], [0.9, 0.5, 0.4]])}
    state = metric.update(metric.init(10, "voc2012", num_classes=2), spoilt, TARGET, torch.tensor([0, 1]))
    with pytest.warns(UserWarning, match=r'^1 invalid detection dropped; init\(invalid="error"\) makes them an error$'):
        assert metric.compute(state).num_invalid == 1
    assert metric.numbers(state)["map"].item() == 1
    reversed_boxes = TARGET | {"boxes": -TARGET["boxes"]}
    for invalid, preds, targets in (("error", spoilt, TARGET), ("drop", PRED, reversed_boxes)):
        state = metric.init(10, "voc2012", num_classes=2, invalid=invalid)  # type: ignore[arg-type]
        state = metric.update(state, preds, targets, torch.tensor([0, 1]))
        with pytest.raises(InputError, match="must have finite numbers, no negative size"):
            metric.compute(state)
        assert math.isnan(metric.numbers(state)["map"].item())


def test_an_image_that_comes_twice_is_an_error() -> None:
    """In one batch, or in two."""
    once = metric.update(metric.init(20, "voc2012"), PRED, TARGET, torch.tensor([3, 4]))
    for ids in ([4, 5], [6, 6]):
        with pytest.raises(InputError, match=r"image [46] came more than once"):
            metric.compute(metric.update(once, PRED, TARGET, torch.tensor(ids)))


def test_a_padded_truth_of_the_paper_may_be_given_as_such() -> None:
    """The tuples of `boxscore.parallel`, with what they have beyond a batch refused."""
    found, there = padded(random_scene(6))
    preds = parallel.PaddedDetections(*(torch.from_numpy(np.array(column)) for column in found[:4]))
    targets = parallel.PaddedTruths(*(torch.from_numpy(np.array(column)) for column in there[:3]))
    ids = torch.arange(len(found.labels))
    state = metric.update(fresh("voc2012"), preds, targets, ids)
    assert state.num_images.item() == len(ids)
    with pytest.raises(InputError, match="`preds` must not have `coverage`"):
        metric.update(state, preds._replace(coverage=preds.labels), targets, ids)
    with pytest.raises(InputError, match="`targets` must not have `kind`"):
        metric.update(state, preds, targets._replace(kind=targets.labels), ids)


@pytest.mark.parametrize(
    ("preds", "message"),
    [
        (PRED | {"scores": torch.ones((2, 4))}, r"`preds`: `scores` must have shape \(2, 3\), to go with `labels`"),
        (PRED | {"labels": torch.ones((2, 3))}, "`preds`: `labels` must hold integers; got torch.float32"),
        (PRED | {"score": torch.ones((2, 3))}, "`preds` must have no keys but boxes, scores, labels, discarded"),
        ({"boxes": PRED["boxes"]}, "`preds` must have the key 'scores'"),
        ([], "`preds` must be a dict of padded arrays; got list"),
    ],
)
@pytest.mark.parametrize("is_traced", [False, True])
def test_errors_name_the_argument_and_the_rule(
    preds: Any, message: str, is_traced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shapes and types are known while tracing, so these come at once."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: is_traced)
    with pytest.raises(InputError, match=message):
        metric.update(metric.init(20, "voc2012"), preds, TARGET, torch.tensor([0, 1]))


def test_other_errors_name_the_argument_and_the_rule() -> None:
    """Other shapes than boxes, other rules, other objects."""
    state = metric.init(20, "voc2012")
    for name, iou_type in (("dota", "obb"), ("coco", "boundary")):
        with pytest.raises(InputError, match=f"has `iou_type` '{iou_type}'"):
            metric.init(20, Protocol.named(name, iou_type=iou_type))
    for name in ("lvis", "crowdhuman", "ultralytics"):
        with pytest.raises(InputError, match=f"protocol {name} has a rule"):
            metric.init(20, Protocol.named(name))
    with pytest.raises(InputError, match="`capacity` must be a number of rows, at least 1; got 0"):
        metric.init(0)
    with pytest.raises(InputError, match="`num_classes` must be a number of classes, at least 1; got 0"):
        metric.init(5, num_classes=0)
    with pytest.raises(InputError, match="`num_classes` and `class_names` must not both be given"):
        metric.init(5, num_classes=1, class_names=["cat"])
    with pytest.raises(InputError, match="`num_classes` or `class_names` must be given to `init` for `numbers`"):
        metric.numbers(state)
    with pytest.raises(InputError, match="must have as many images; got 2, 2 and shape"):
        metric.update(state, PRED, TARGET, torch.tensor([0, 1, 2]))
    with pytest.raises(InputError, match=r"`image_ids` must be integers; got torch\.float32"):
        metric.update(state, PRED, TARGET, torch.tensor([0.5, 1]))
    with pytest.raises(InputError, match=r"`capacity` must have room for a batch, 2 \* 3 with its padding; got 5"):
        metric.update(metric.init(5, "voc2012"), PRED, TARGET, torch.tensor([0, 1]))
    with pytest.raises(InputError, match=r"`state` must be a boxscore\.torch\.State; got dict"):
        metric.compute({})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"must have the same `protocol`; got different ones \('voc2012' and 'coco'\)"):
        metric.merge(state, metric.init(20))


def test_a_detection_takes_as_many_bytes_as_the_docstring_says() -> None:
    """Five columns of 8, and two words of 4 for each 32 cells."""
    for protocol, expected in (("coco", 56), ("voc2012", 48)):
        columns = metric.init(10, Protocol.named(protocol)).detections.columns.values()
        assert sum(column.nbytes for column in columns) == 10 * expected


def test_the_module_imports_nothing_but_pytorch() -> None:
    """Of the frameworks."""
    code = "import sys, boxscore.torch; print(*{'jax', 'tensorflow', 'keras'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env={**os.environ})
    assert done.stdout.strip() == ""
