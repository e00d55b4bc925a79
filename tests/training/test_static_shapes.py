"""States for compiled steps that compare other shapes than boxes, eager and compiled, against `evaluate`."""

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, Protocol, Truths
from boxscore.arrays.counting import counting
from boxscore.data.geometry.masks import iou_of_counts

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax", reason="JAX is not installed")
NAMES = ["zero", "one", "two"]
Batch = tuple[dict[str, Any], dict[str, Any]]


def random_rows(random: np.random.Generator, num_images: int, most: int) -> Any:
    """Labels below 0 are padding; an image in four is empty."""
    label = random.integers(0, len(NAMES), (num_images, most))
    num = random.integers(0, most + 1, num_images) * (random.random(num_images) < 0.75)
    return np.where(np.arange(most) < num[:, None], label, -1)


def mask_scene(seed: int, *, num_images: int = 9) -> Batch:
    """Blocks of pixels, some equal, some empty; crowds, ties of scores, and areas at the borders of ranges."""
    random = np.random.default_rng(seed)
    label, truth_label = random_rows(random, num_images, 8), random_rows(random, num_images, 5)

    def blocks(shape: tuple[int, ...]) -> Any:
        low = random.integers(0, 30, (*shape, 2)) // 5 * 5
        high = low + random.integers(0, 40, (*shape, 2))
        lines, columns = np.arange(44)[:, None], np.arange(52)
        low, high = low[..., None, None, :], high[..., None, None, :]
        is_inside = (lines >= low[..., 0]) & (lines < high[..., 0]) & (columns >= low[..., 1])
        return is_inside & (columns < high[..., 1]) & (random.random((*shape, 44, 52)) < 0.95)

    truth_mask, mask = blocks(truth_label.shape), blocks(label.shape)
    for image, row in zip(*np.nonzero(random.random(label.shape) < 0.7), strict=True):
        source = random.integers(truth_label.shape[1])
        mask[image, row] = truth_mask[image, source] & (random.random((44, 52)) < random.choice([0.6, 0.8, 1]))
        if truth_label[image, source] >= 0 and label[image, row] >= 0:
            label[image, row] = truth_label[image, source]
    score = random.integers(0, 12, label.shape) / 12
    crowd = random.random(truth_label.shape) < 0.2
    return (
        {"masks": mask, "labels": label, "scores": score},
        {"masks": truth_mask, "labels": truth_label, "iscrowd": crowd},
    )


def pose_scene(seed: int, *, num_images: int = 9) -> Batch:
    """Poses near truths, some equal; truths without labelled points, crowds, ties of scores."""
    random = np.random.default_rng(seed)
    label, truth_label = random_rows(random, num_images, 8), random_rows(random, num_images, 5)
    size = random.lognormal(4.2, 0.6, (*truth_label.shape, 1, 1))
    point = random.uniform(0, 100, (*truth_label.shape, 1, 2)) + random.random((*truth_label.shape, 17, 2)) * size
    visibility = random.integers(0, 3, (*truth_label.shape, 17)) * (random.random(truth_label.shape) < 0.8)[..., None]
    pose = random.uniform(0, 200, (*label.shape, 17, 2))
    for image, row in zip(*np.nonzero(random.random(label.shape) < 0.8), strict=True):
        source = random.integers(truth_label.shape[1])
        noise = random.normal(0, 1, (17, 2)) * size[image, source] * random.choice([0, 0.02, 0.08, 0.2])
        pose[image, row] = point[image, source] + noise
        if truth_label[image, source] >= 0 and label[image, row] >= 0:
            label[image, row] = truth_label[image, source]
    box = np.concatenate([point.min(axis=2), point.max(axis=2)], axis=-1)
    preds = {"keypoints": pose, "labels": label, "scores": random.integers(0, 12, label.shape) / 12}
    targets = {"keypoints": np.concatenate([point, visibility[..., None]], axis=-1), "labels": truth_label}
    targets |= {"iscrowd": random.random(truth_label.shape) < 0.2}
    targets |= [{}, {"boxes": box}, {"area": size[..., 0, 0] ** 2 * random.uniform(0.3, 0.7)}][seed % 3]
    return preds, targets


SCENES = {"segm": mask_scene, "keypoints": pose_scene}
CASES = [("coco", "segm"), ("coco", "keypoints"), ("voc2007", "segm"), ("voc2012", "segm")]


def of_library(scene: Batch, place: Any, size: int) -> list[tuple[Any, Any, Any]]:
    """The scene in batches of `size` images, whose arrays `place` makes."""
    num = len(scene[0]["labels"])
    return [
        (
            *({key: place(column[first : first + size]) for key, column in side.items()} for side in scene),
            place(np.arange(first, min(first + size, num))),
        )
        for first in range(0, num, size)
    ]


def evaluated(scene: Batch, protocol: Protocol, **options: Any) -> Any:
    """The result of the compiled engine."""
    preds, targets = (dict(side) for side in scene)
    ids = np.arange(len(preds["labels"]))
    targets["ignore"] = targets.pop("iscrowd")
    return boxscore.evaluate(
        Detections.from_padded(image_ids=ids, **preds, **options),
        Truths.from_padded(image_ids=ids, class_names=NAMES, **targets, **options),
        protocol,
    )


def rules(name: str, iou_type: str) -> Protocol:
    """The protocol for a similarity."""
    if iou_type == "keypoints":
        return Protocol.named("coco_keypoints")
    return (
        Protocol.named(name) if Protocol.named(name).iou_type == iou_type else Protocol.named(name, iou_type=iou_type)
    )


def assert_equal(metric: Any, state: Any, expected: Any, *, has_numbers: bool = True) -> None:
    """The result and all curves, to the last bit, and the numbers within the graph."""
    result = metric.compute(state)
    assert dict(result) == pytest.approx(dict(expected), abs=0, nan_ok=True)
    for name in ("precision", "recall", "scores", "average_precision", "num_true", "num_false"):
        assert np.array_equal(getattr(result.curves, name), getattr(expected.curves, name), equal_nan=True), name
    if not has_numbers:
        return
    found: Mapping[str, Any] = metric.numbers(state)
    assert {name: float(each) for name, each in found.items()} == pytest.approx(
        {name: expected[name] for name in found}, abs=0, nan_ok=True
    )


torch_metric, jax_metric = (importlib.import_module(f"boxscore.{name}") for name in ("torch", "jax"))


@pytest.mark.parametrize(("name", "iou_type"), CASES)
def test_eager_updates_of_tensors_are_one_evaluation(name: str, iou_type: str) -> None:
    """Over random scenes, in batches of different sizes."""
    protocol, num_true = rules(name, iou_type), 0
    for seed in range(6):
        scene = SCENES[iou_type](seed)
        state = torch_metric.init(200, name, iou_type=iou_type, class_names=NAMES)
        for batch in of_library(scene, torch.from_numpy, 4):
            state = torch_metric.update(state, *batch)
        expected = evaluated(scene, protocol)
        assert_equal(torch_metric, state, expected)
        num_true += int(expected.curves.num_true.sum())
    assert num_true > 0


@pytest.mark.parametrize(("name", "iou_type"), CASES[:2])
def test_one_graph_of_pytorch_is_one_evaluation(name: str, iou_type: str) -> None:
    """Of the compiler's own operations, with one more compilation for the last batch."""
    torch.compiler.reset()
    step = torch.compile(torch_metric.update, fullgraph=True, backend="aot_eager")
    scene = SCENES[iou_type](11)
    state = torch_metric.init(200, name, iou_type=iou_type, class_names=NAMES)
    for batch in of_library(scene, torch.from_numpy, 4):
        state = step(state, *batch)
    assert_equal(torch_metric, state, evaluated(scene, rules(name, iou_type)))


@pytest.mark.parametrize(("name", "iou_type"), CASES[:2])
def test_a_jitted_step_of_jax_is_one_evaluation(name: str, iou_type: str) -> None:
    """XLA must not replace a division by a product."""
    step = jax.jit(jax_metric.update)
    for seed in range(20, 26):
        scene = SCENES[iou_type](seed)
        with jax.enable_x64(True):
            state = jax_metric.init(200, name, iou_type=iou_type, class_names=NAMES)
            for batch in of_library(scene, jax.numpy.asarray, 3):
                state = step(state, *batch)
            assert_equal(jax_metric, state, evaluated(scene, rules(name, iou_type)), has_numbers=False)


@pytest.mark.parametrize(("name", "iou_type"), CASES[:2])
def test_nothing_is_copied_or_read(name: str, iou_type: str) -> None:
    """State and batch on a device: an update needs nothing from the host, and tells it nothing."""
    scene = SCENES[iou_type](3)
    state = torch_metric.init(200, name, iou_type=iou_type, class_names=NAMES)
    with counting() as counts:
        state = torch.utils._pytree.tree_map(counts.place, state)
        for batch in of_library(scene, lambda column: counts.place(torch.from_numpy(column)), 4):
            state = torch_metric.update(state, *batch)
        assert (counts.copies_to_device, counts.copies_to_host, counts.reads) == (0, 0, 0)
        assert counts.launches > 0
        state = torch.utils._pytree.tree_map(lambda tensor: tensor.cpu(), state)
    assert_equal(torch_metric, state, evaluated(scene, rules(name, iou_type)))


def test_classes_may_be_disregarded() -> None:
    """As in COCO, ties between classes are broken by label: masks are sorted with their rows."""
    protocol = Protocol.named("coco", iou_type="segm", class_agnostic=True)
    scene = mask_scene(5)
    state = torch_metric.init(200, protocol, class_names=NAMES)
    for batch in of_library(scene, torch.from_numpy, 4):
        state = torch_metric.update(state, *batch)
    assert_equal(torch_metric, state, evaluated(scene, protocol))


def test_given_areas_decide_the_ranges_of_masks() -> None:
    """Instead of numbers of pixels."""
    preds, targets = mask_scene(6)
    area = np.random.default_rng(0).choice([100.0, 1024, 5000, 9216.5], targets["labels"].shape)
    scene = preds, targets | {"area": area}
    state = torch_metric.init(200, "coco", iou_type="segm", class_names=NAMES)
    for batch in of_library(scene, torch.from_numpy, 4):
        state = torch_metric.update(state, *batch)
    expected = evaluated(scene, rules("coco", "segm"))
    assert expected["map_large"] != evaluated((preds, targets), rules("coco", "segm"))["map_large"]
    assert_equal(torch_metric, state, expected)


@pytest.mark.parametrize("is_bytes", [True, False])
def test_masks_may_be_bytes_or_have_a_channel(is_bytes: bool) -> None:
    """A byte that is not 0 is a pixel of the mask."""
    preds, targets = mask_scene(7)
    state = torch_metric.init(200, "coco", iou_type="segm", class_names=NAMES)
    for found, there, ids in of_library((preds, targets), torch.from_numpy, 4):
        masks = found["masks"].to(torch.uint8) * 255 if is_bytes else found["masks"][:, :, None]
        state = torch_metric.update(state, found | {"masks": masks}, there, ids)
    assert_equal(torch_metric, state, evaluated((preds, targets), rules("coco", "segm")))


@pytest.mark.parametrize("is_traced", [False, True])
def test_errors_of_masks_name_the_rule(is_traced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Probabilities, other sizes and boxes are refused."""
    preds, targets, ids = of_library(mask_scene(8), torch.from_numpy, 9)[0]
    state = torch_metric.init(200, "coco", iou_type="segm")
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: is_traced)
    with pytest.raises(InputError, match=r"`masks` must hold booleans or bytes \(uint8\); got torch.float32"):
        torch_metric.update(state, preds | {"masks": preds["masks"].float()}, targets, ids)
    with pytest.raises(InputError, match="must have the same height and width"):
        torch_metric.update(state, preds | {"masks": preds["masks"][..., 1:]}, targets, ids)
    with pytest.raises(InputError, match=r"`preds`: `masks` must have shape \(9, 8, H, W\)"):
        torch_metric.update(state, preds | {"masks": preds["masks"][..., 0]}, targets, ids)
    boxes = {"boxes": torch.zeros(9, 8, 4), "labels": preds["labels"], "scores": preds["scores"]}
    with pytest.raises(InputError, match="`preds` must have the key 'masks'"):
        torch_metric.update(state, boxes, targets, ids)
    with pytest.raises(InputError, match="`preds` must have the key 'boxes'"):
        torch_metric.update(torch_metric.init(200), preds, targets, ids)


def test_a_score_that_is_not_finite_drops_a_mask() -> None:
    """As with boxes."""
    preds, targets, ids = of_library(mask_scene(9), torch.from_numpy, 9)[0]
    row = tuple(np.argwhere(preds["labels"].numpy() >= 0)[0])
    preds["scores"] = preds["scores"].clone()
    preds["scores"][row] = np.nan
    state = torch_metric.update(torch_metric.init(200, "coco", iou_type="segm"), preds, targets, ids)
    with pytest.warns(UserWarning, match="1 invalid detection dropped"):
        assert torch_metric.compute(state).num_invalid == 1
    targets["area"] = torch.full(targets["labels"].shape, -1.0)
    state = torch_metric.update(torch_metric.init(200, "coco", iou_type="segm"), preds, targets, ids)
    with pytest.raises(InputError, match="scores and areas must have finite numbers, and areas no negative ones; got"):
        torch_metric.compute(state)


@pytest.mark.parametrize("metric", [torch_metric, jax_metric])
def test_other_similarities_are_refused_by_name(metric: Any) -> None:
    """A wrong number in silence would be worse."""
    for iou_type in ("boundary", "probiou", "obb"):
        with pytest.raises(InputError, match=f"has `iou_type` '{iou_type}'"):
            metric.init(20, "coco", iou_type=iou_type)
    with pytest.raises(InputError, match="`iou_type` must be one similarity, as a state has one"):
        metric.init(20, "coco", iou_type=("bbox", "segm"))
    for name, iou_type in (("lvis", "segm"), ("crowdpose", "keypoints"), ("coco_wholebody", "keypoints")):
        with pytest.raises(InputError, match=f"protocol {name} has a rule"):
            metric.init(20, name, iou_type=iou_type)
    with pytest.raises(InputError, match="must have the same `protocol`"):
        metric.merge(metric.init(20), metric.init(20, iou_type="segm"))


def pose_batch() -> tuple[Any, Any, Any]:
    """One pose of one person, and its truth, with 17 labelled points."""
    point = torch.arange(34.0).reshape(1, 1, 17, 2) ** 2
    label = torch.ones((1, 1), dtype=torch.int64)
    preds = {"keypoints": point, "labels": label, "scores": torch.tensor([[0.5]])}
    return preds, {"keypoints": point, "labels": label}, torch.tensor([0])


@pytest.mark.parametrize("is_traced", [False, True])
def test_errors_of_keypoints_name_the_rule(is_traced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes are known while tracing."""
    preds, targets, ids = pose_batch()
    state = torch_metric.init(20, "coco_keypoints")
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: is_traced)
    with pytest.raises(InputError, match="`sigmas` must have one number for each of the 16 keypoints; got 17"):
        torch_metric.update(state, preds | {"keypoints": preds["keypoints"][:, :, 1:]}, targets, ids)
    with pytest.raises(InputError, match="`sigmas` must have one number for each of the 17 keypoints; got 0"):
        torch_metric.update(torch_metric.init(20, "voc2012", iou_type="keypoints"), preds, targets, ids)
    with pytest.raises(InputError, match=r"`keypoints` must have shape \(N, D, K, 3\) or \(N, D, K, 2\)"):
        torch_metric.update(state, preds | {"keypoints": preds["keypoints"].repeat(1, 1, 1, 2)}, targets, ids)
    with pytest.raises(InputError, match=r"`visibility` must have shape \(1, 1, 17\), one per keypoint"):
        torch_metric.update(state, preds, targets | {"visibility": torch.ones(1, 1, 16)}, ids)
    both = targets | {"keypoints": torch.ones(1, 1, 17, 3), "visibility": torch.ones(1, 1, 17)}
    with pytest.raises(InputError, match="`keypoints` must have 2 numbers per point beside `visibility`"):
        torch_metric.update(state, preds, both, ids)


def test_invalid_keypoints_are_dropped_or_an_error() -> None:
    """Detections with a NaN are dropped; truths must have finite points, visibilities of at least 0, and an area."""
    preds, targets, ids = pose_batch()
    spoilt = preds | {"keypoints": preds["keypoints"].clone()}
    spoilt["keypoints"][0, 0, 3, 1] = np.nan
    state = torch_metric.update(torch_metric.init(20, "coco_keypoints"), spoilt, targets, ids)
    with pytest.warns(UserWarning, match="1 invalid detection dropped"):
        assert torch_metric.compute(state)["map"] == 0
    negative = torch.ones(1, 1, 17)
    negative[0, 0, 5] = -1
    invalid = (
        {"keypoints": spoilt["keypoints"]},
        {"visibility": negative},
        {"area": torch.zeros(1, 1)},
        {"boxes": torch.tensor([[[5.0, 5, 1, 1]]])},
    )
    for change in invalid:
        state = torch_metric.update(torch_metric.init(20, "coco_keypoints"), preds, targets | change, ids)
        with pytest.raises(InputError, match=r"^keypoints, visibilities, boxes, scores and areas .*; got 1 row"):
            torch_metric.compute(state)
    state = torch_metric.update(torch_metric.init(20, "coco_keypoints"), preds, targets, ids)
    assert torch_metric.compute(state)["map"] == pytest.approx(1)


def test_a_quotient_has_the_same_bits_in_a_jitted_step() -> None:
    """XLA must not divide by a product with the reciprocal."""
    random = np.random.default_rng(0)
    area, truth_area = random.integers(1, 5000, (20, 30)) * 1.0, random.integers(1, 5000, (20, 25)) * 1.0
    common = np.floor(random.random((20, 30, 25)) * np.minimum(area[:, :, None], truth_area[:, None]))
    is_crowd = random.random((20, 25)) < 0.3
    expected = iou_of_counts(common, area, truth_area, is_crowd_NG=is_crowd)
    with jax.enable_x64(True):
        columns = map(jax.numpy.asarray, (common, area, truth_area, is_crowd))
        found = jax.jit(lambda *each: iou_of_counts(*each[:3], is_crowd_NG=each[3]))(*columns)
    assert np.array_equal(np.asarray(found), expected)


@pytest.mark.parametrize(("name", "iou_type"), CASES[:2])
def test_an_exported_update_takes_any_number_of_images(name: str, iou_type: str) -> None:
    """No geometry makes the compiler assume one number of rows."""

    class Step(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, state: Any, preds: Any, targets: Any, image_ids: Any) -> Any:
            return torch_metric.update(state, preds, targets, image_ids)

    every = of_library(SCENES[iou_type](4), torch.from_numpy, 4)
    images, shapes = torch.export.Dim("images", min=1, max=32), torch.export.ShapesCollection()
    for tensor in (*every[0][0].values(), *every[0][1].values(), every[0][2]):
        shapes[tensor] = {0: images}
    state = torch_metric.init(2000, name, iou_type=iou_type, class_names=NAMES)
    program = torch.export.export(Step(), (state, *every[0]), dynamic_shapes=shapes).module()
    for batch in every:
        state = program(state, *batch)
    assert_equal(torch_metric, state, evaluated(SCENES[iou_type](4), rules(name, iou_type)))
