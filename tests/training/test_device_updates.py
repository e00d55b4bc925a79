"""Updates with tensors on an accelerator: few launches, no waiting, and the bits of host memory.

The counting device never finishes a copy by itself, so a value that is read too early is a wrong one.
"""

import copy
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from boxscore import InputError, MeanAveragePrecision
from boxscore.training import metric as metric_module
from tests.support.comparisons import assert_same, assert_same_tally
from tests.support.image_dicts import dicts
from tests.support.scenes import random_scene

torch = pytest.importorskip("torch")

from boxscore.arrays.counting import Counts, counting  # noqa: E402
from boxscore.torchmetrics import MeanAveragePrecision as TorchMetric  # noqa: E402

pytestmark = pytest.mark.native

SCENE = random_scene(4, num_images=12, num_classes=5, most_detections=30, most_truths=9)

Images = list[dict[str, Any]]


@pytest.fixture
def device() -> Iterator[Counts]:
    """The counting device."""
    with counting() as counts:
        yield counts


def tensors(values: Any, dtype: Any = None) -> Any:
    """A tensor with the dtypes of a network."""
    tensor = torch.as_tensor(values)
    return tensor.to(dtype or torch.float32) if tensor.is_floating_point() else tensor


def boxes_of_scene() -> tuple[Images, Images]:
    """All images of the scene, boxes in xywh."""
    return dicts(SCENE, tensors)


def poses_of_scene() -> tuple[Images, Images]:
    """Images with three poses each, of which the targets are near."""
    rng = np.random.default_rng(3)
    preds, targets = [], []
    for _ in range(6):
        points = rng.uniform(0, 200, (3, 17, 2))
        near = points + rng.normal(0, 3, points.shape)
        label = np.ones(3, np.int64)
        preds.append({"keypoints": np.dstack([near, np.ones((3, 17))]), "scores": rng.random(3), "labels": label})
        area = rng.uniform(2000, 9000, 3)
        targets.append({"keypoints": np.dstack([points, np.full((3, 17), 2.0)]), "labels": label, "area": area})
    return [{k: tensors(v) for k, v in each.items()} for each in preds], [
        {k: tensors(v) for k, v in each.items()} for each in targets
    ]


def oriented_of_scene() -> tuple[Images, Images]:
    """Images with three oriented boxes each."""
    rng = np.random.default_rng(5)
    preds, targets = [], []
    for _ in range(6):
        boxes = np.column_stack([rng.uniform(50, 200, (3, 2)), rng.uniform(10, 40, (3, 2)), rng.uniform(-1, 1, 3)])
        label = np.arange(3)
        preds.append({"boxes": boxes + rng.normal(0, 0.3, boxes.shape), "scores": rng.random(3), "labels": label})
        targets.append({"boxes": boxes, "labels": label})
    return [{k: tensors(v) for k, v in each.items()} for each in preds], [
        {k: tensors(v) for k, v in each.items()} for each in targets
    ]


CASES: dict[str, tuple[Callable[[], tuple[Images, Images]], dict[str, Any]]] = {
    "boxes": (boxes_of_scene, {"box_format": "xywh"}),
    "poses": (poses_of_scene, {"iou_type": "keypoints"}),
    "oriented boxes": (oriented_of_scene, {"box_format": "cxcywha:radians"}),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Any:
    """Images in host memory, and the settings of their metric."""
    make, settings = CASES[request.param]
    return *make(), settings


def placed(device: Counts, images: Images) -> Images:
    """The images on the device."""
    return [{key: device.place(value) for key, value in image.items()} for image in images]


def padded(images: Images) -> dict[str, Any]:
    """The images as one padded batch."""
    length = max(len(image["labels"]) for image in images)
    fill = {"labels": -1}
    made = {}
    for key in images[0]:
        rows = []
        for image in images:
            column = image[key]
            rest = torch.full((length - len(column), *column.shape[1:]), fill.get(key, 0), dtype=column.dtype)
            rows.append(torch.cat([column, rest]))
        made[key] = torch.stack(rows)
    return made


def made(preds: Any, targets: Any, **settings: Any) -> MeanAveragePrecision:
    """A metric after one update."""
    metric = MeanAveragePrecision(warn=False, **settings)
    metric.update(preds, targets)
    return metric


class TestCounts:
    """Launches, copies and reads per update."""

    def test_lists_take_one_launch_one_copy_and_no_read(self, device: Counts, case: Any) -> None:
        """Of all columns of both sides together."""
        preds, targets, settings = case
        metric = MeanAveragePrecision(warn=True, **settings)
        sides = placed(device, preds), placed(device, targets)
        device.reset()
        metric.update(*sides)
        assert (device.launches, device.copies_to_host, device.copies_to_device, device.reads) == (1, 1, 0, 0)
        num_bytes = sum(value.nbytes for images in (preds, targets) for image in images for value in image.values())
        assert device.bytes_to_host == num_bytes

    def test_columns_of_a_wider_tensor_take_one_more_launch_per_kind(self, device: Counts) -> None:
        """As in the outputs of YOLO, of which boxes and scores are slices."""
        preds, targets = boxes_of_scene()
        wide = [device.place(torch.cat([each["boxes"], each["scores"][:, None]], 1)) for each in preds]
        labels = placed(device, [{"labels": each["labels"]} for each in preds])
        sides = [{"boxes": a[:, :4], "scores": a[:, 4], **b} for a, b in zip(wide, labels, strict=True)], targets
        device.reset()
        metric = made(*sides, box_format="xywh")
        assert (device.launches, device.copies_to_host, device.reads) == (3, 1, 0)
        assert_same_tally(metric.tally, made(preds, targets, box_format="xywh").tally)

    def test_padded_batches_take_one_copy_per_column_and_no_launch(self, device: Counts, case: Any) -> None:
        """Boxes, scores and labels; boxes, labels and more."""
        preds, targets, settings = case
        metric = MeanAveragePrecision(warn=True, **settings)
        targets = [{"ignore" if key == "iscrowd" else key: value for key, value in each.items()} for each in targets]
        sides = [{key: device.place(value) for key, value in padded(images).items()} for images in (preds, targets)]
        device.reset()
        metric.update(*sides)
        num_columns = len(preds[0]) + len(targets[0])
        assert (device.launches, device.copies_to_host, device.copies_to_device) == (0, num_columns, 0)
        assert device.reads == 0

    @pytest.mark.parametrize("is_forward", [False, True])
    def test_torchmetrics_takes_one_launch_one_copy_and_no_read(self, device: Counts, *, is_forward: bool) -> None:
        """Its state is on the CPU; warnings of likely mistakes and of many detections are on."""
        preds, targets = boxes_of_scene()
        metric = TorchMetric(box_format="xywh")
        sides = placed(device, preds), placed(device, targets)
        device.reset()
        if is_forward:
            metric(*sides)
            assert device.reads > 0  # the numbers of a batch are read
        else:
            metric.update(*sides)
            assert (device.launches, device.copies_to_host, device.copies_to_device, device.reads) == (1, 1, 0, 0)

    def test_the_number_of_buffers_is_that_of_batches_that_wait(self, device: Counts) -> None:
        """They return when a batch was read."""
        from boxscore.arrays import copies

        preds, targets = boxes_of_scene()
        metric = MeanAveragePrecision(box_format="xywh", warn=False)
        metric.update(placed(device, preds), placed(device, targets))
        assert len(metric.tally) > 0
        copies._free.clear()
        for _ in range(5):
            metric.update(placed(device, preds), placed(device, targets))
            device.finish()  # so each is read while the next is on its way
        assert len(metric.tally) > 0
        assert sum(map(len, copies._free.values())) == 2

    def test_an_update_waits_for_the_oldest_if_too_many_are_on_their_way(
        self, device: Counts, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So memory is bounded if the host runs far ahead of the device."""
        monkeypatch.setattr(metric_module, "_MOST_DELAYED", 3)
        preds, targets = boxes_of_scene()
        metric = MeanAveragePrecision(box_format="xywh", warn=False)
        reads = []
        for _ in range(4):
            metric.update(placed(device, preds), placed(device, targets))
            reads.append(device.reads)
        assert reads == [0, 0, 0, 1]


class TestBits:
    """The tally of host memory."""

    @pytest.mark.parametrize("is_padded", [False, True])
    @pytest.mark.parametrize("which", ["both", "preds", "targets"])
    def test_the_tally_is_that_of_host_memory(self, device: Counts, case: Any, which: str, *, is_padded: bool) -> None:
        """With one side on the device, or both."""
        preds, targets, settings = case
        on_device = [
            side if which in ("both", name) else None for name, side in (("preds", preds), ("targets", targets))
        ]
        given = [
            side if there is None else placed(device, side)
            for side, there in zip((preds, targets), on_device, strict=True)
        ]
        if is_padded:
            given = [
                padded(side) if there is None else {key: device.place(value) for key, value in padded(side).items()}
                for side, there in zip((preds, targets), on_device, strict=True)
            ]
            metric = made(*given, **settings)
            expected = made(padded(preds), padded(targets), **settings)
        else:
            metric, expected = made(*given, **settings), made(preds, targets, **settings)
        assert device.reads == 0
        assert_same_tally(metric.tally, expected.tally)
        assert_same(metric.compute(), expected.compute())

    @pytest.mark.parametrize("is_padded", [False, True])
    def test_inputs_may_be_overwritten_after_the_update(self, device: Counts, case: Any, *, is_padded: bool) -> None:
        """On the device by the order of its stream, in host memory because they were copied."""
        preds, targets, settings = case
        expected = made(preds, targets, **settings)
        sides: list[Any] = [placed(device, preds), [{k: v.clone() for k, v in each.items()} for each in targets]]
        if is_padded:
            sides = [{k: device.place(v) for k, v in padded(preds).items()}, padded(targets)]
        metric = made(*sides, **settings)
        for batch in (each for side in sides for each in ([side] if is_padded else side)):
            for value in batch.values():
                value.fill_(1)
        assert_same_tally(metric.tally, expected.tally)

    @pytest.mark.parametrize("real", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    @pytest.mark.parametrize("whole", [torch.uint8, torch.int16, torch.int32, torch.int64])
    def test_dtypes(self, device: Counts, real: Any, whole: Any) -> None:
        """Of tensors that require gradients, too."""
        preds, targets = (
            [
                {
                    key: tensors(value, real) if value.is_floating_point() else value.to(whole)
                    for key, value in each.items()
                }
                for each in images
            ]
            for images in boxes_of_scene()
        )
        given = placed(device, preds)
        for each in given:
            each["boxes"].requires_grad_()
        metric = made(given, placed(device, targets), box_format="xywh")
        assert device.reads == 0
        assert_same_tally(metric.tally, made(preds, targets, box_format="xywh").tally)

    def test_images_without_rows_and_images_without_flags(self, device: Counts) -> None:
        """Empty tensors of any shape and dtype; a key that only some images have."""
        preds, targets = boxes_of_scene()
        preds[2] = {"boxes": torch.zeros(0), "scores": torch.zeros(0), "labels": torch.zeros(0)}
        targets[1] = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0), "area": torch.zeros(0)}
        del targets[0]["iscrowd"]
        metric = made(placed(device, preds), placed(device, targets), box_format="xywh")
        assert device.reads == 0
        assert_same_tally(metric.tally, made(preds, targets, box_format="xywh").tally)

    def test_updates_on_the_device_and_in_host_memory_keep_their_order(self, device: Counts) -> None:
        """Ties between images break by it."""
        preds, targets = boxes_of_scene()
        settings: dict[str, Any] = {"box_format": "xywh", "warn": False}
        metric, expected = MeanAveragePrecision(**settings), MeanAveragePrecision(**settings)
        for first in range(0, 12, 3):
            batch = preds[first : first + 3], targets[first : first + 3]
            expected.update(*batch)
            metric.update(*(batch if first == 6 else (placed(device, images) for images in batch)))
        assert_same_tally(metric.tally, expected.tally)

    @pytest.mark.parametrize("inference", [(True, False), (False, True)])
    def test_updates_inside_and_outside_of_inference_mode(self, device: Counts, inference: tuple[bool, bool]) -> None:
        """The memory that is used again belongs to neither."""
        preds, targets = boxes_of_scene()
        metric = MeanAveragePrecision(box_format="xywh", warn=False)
        for is_inference in inference:
            with torch.inference_mode(is_inference):
                metric.update(placed(device, preds), placed(device, targets))
                assert len(metric.tally) > 0


def test_engine_parallel_compares_on_the_device(device: Counts) -> None:
    """It launches kernels, and gives the same bits."""
    preds, targets = boxes_of_scene()
    metric = made(placed(device, preds), placed(device, targets), box_format="xywh", engine="parallel")
    assert device.launches > 50
    expected = made(preds, targets, box_format="xywh")
    assert_same(metric.compute(), expected.compute())


def named(preds: Images, targets: Images, device: Counts) -> tuple[Images, Images]:
    """Both on the device, where targets have ids."""
    ids = [{**each, "image_id": torch.tensor(7 * index)} for index, each in enumerate(targets)]
    return placed(device, preds), placed(device, ids)


class TestState:
    """Whatever a metric does, values on their way are part of it."""

    @pytest.fixture
    def metrics(self, device: Counts) -> tuple[MeanAveragePrecision, MeanAveragePrecision]:
        """A metric with updates on their way, and one in host memory; images are named."""
        preds, targets = boxes_of_scene()
        settings: dict[str, Any] = {"box_format": "xywh", "warn": False}
        metric, expected = MeanAveragePrecision(**settings), MeanAveragePrecision(**settings)
        sides = named(preds, targets, device)
        metric.update(sides[0][:6], sides[1][:6])
        metric.update(sides[0][6:], sides[1][6:])
        expected.update(preds, targets, image_ids=[7 * index for index in range(12)])
        assert device.reads == 0
        return metric, expected

    @pytest.mark.parametrize(
        "use",
        [
            copy.copy,
            copy.deepcopy,
            lambda metric: pickle.loads(pickle.dumps(metric)),
            lambda metric: metric.merge(),
            lambda metric: MeanAveragePrecision(box_format="xywh", warn=False).merge(metric),
        ],
    )
    def test_copies_have_them(self, metrics: Any, use: Any) -> None:
        """By `copy`, `deepcopy`, `pickle` and `merge`; the metric itself still has them, too."""
        metric, expected = metrics
        assert_same_tally(use(metric).tally, expected.tally)
        assert_same_tally(metric.tally, expected.tally)

    def test_checkpoints_have_them(self, metrics: Any) -> None:
        """`state_dict` waits for them."""
        metric, expected = metrics
        restored = MeanAveragePrecision(box_format="xywh", warn=False)
        restored.load_state_dict(metric.state_dict())
        assert_same_tally(restored.tally, expected.tally)

    def test_repr_counts_them(self, metrics: Any) -> None:
        """All images, and all detections."""
        metric, expected = metrics
        assert repr(metric) == repr(expected)

    def test_reset_forgets_them(self, metrics: Any, device: Counts) -> None:
        """Without waiting, and copies that arrive later change nothing."""
        metric, _ = metrics
        metric.reset()
        assert device.reads == 0
        preds, targets = boxes_of_scene()
        metric.update(*named(preds[:3], targets[:3], device))
        assert repr(metric).startswith("MeanAveragePrecision(coco, 3 images")

    def test_a_repeated_image_is_an_error_that_names_the_update(self, metrics: Any, device: Counts) -> None:
        """The id is a value on the device; the first copy of the image counts."""
        metric, expected = metrics
        preds, targets = boxes_of_scene()
        metric.update(*named(preds[:1], targets[:1], device))
        with pytest.raises(InputError, match=r"^update 3 was left out .*: image 0 was in an update before"):
            metric.compute()
        assert_same_tally(metric.tally, expected.tally)

    def test_unique_images_skips_a_repeated_image(self, device: Counts) -> None:
        """Ids are read when they are in host memory."""
        preds, targets = boxes_of_scene()
        metric = MeanAveragePrecision(box_format="xywh", warn=False, unique_images=True)
        metric.update(*named(preds, targets, device))
        metric.update(*named(preds[:5], targets[:5], device))
        ids = device.place(torch.arange(0, 84, 7))
        metric.update(placed(device, preds), targets, image_ids=ids)
        assert device.reads == 0
        expected = made(preds, targets, box_format="xywh")
        assert_same(metric.compute(), expected.compute())


class TestInvalid:
    """Keys, shapes and dtypes are checked at once, values when they are in host memory."""

    @pytest.mark.parametrize(
        ("key", "change"),
        [
            ("boxes", lambda box: box[:, :3]),
            ("scores", lambda score: score[:1]),
            ("labels", lambda label: label.float()),
            ("labels", None),
        ],
    )
    def test_shapes_keys_and_dtypes_are_errors_at_once(self, device: Counts, key: str, change: Any) -> None:
        """In the words of host memory; the metric stays unchanged."""
        errors = []
        for place in (lambda images: images, lambda images: placed(device, images)):
            preds, targets = boxes_of_scene()
            if change is None:
                del preds[1][key]
            else:
                preds[1][key] = change(preds[1].get(key))
            metric = MeanAveragePrecision(box_format="xywh", warn=False)
            with pytest.raises(InputError) as error:
                metric.update(place(preds), place(targets))
            errors.append(str(error.value))
            assert repr(metric) == "MeanAveragePrecision(coco, 0 images, 0 detections)"
        assert errors[0] == errors[1]

    @pytest.mark.parametrize(
        ("side", "key", "value", "words"),
        [
            ("preds", "scores", np.nan, "`scores` row 0 must be finite; got nan"),
            ("targets", "labels", -1, "`labels` row 0 must not be negative"),
            ("targets", "iscrowd", 2, "`iscrowd` row 0 must be 0 or 1; got 2"),
        ],
    )
    def test_values_are_errors_when_they_have_arrived(
        self, device: Counts, side: str, key: str, value: Any, words: str
    ) -> None:
        """By the update after that; that batch is left out as a whole, and all others count."""
        preds, targets = boxes_of_scene()
        metric = MeanAveragePrecision(box_format="xywh", warn=False)
        metric.update(placed(device, preds), placed(device, targets))
        bad_preds, bad_targets = boxes_of_scene()
        bad = {"preds": bad_preds, "targets": bad_targets}[side][1]
        bad[key] = bad[key].to(bad[key].dtype if key == "scores" else torch.int64, copy=True)
        bad[key][0] = value
        metric.update(placed(device, bad_preds), placed(device, bad_targets))
        device.finish()
        with pytest.raises(InputError) as error:
            metric.update(placed(device, preds), placed(device, targets))
        start = "update 2 was left out when its arrays had arrived in host memory; all other updates count: "
        assert str(error.value).startswith(f"{start}{side}[1]: {words}")
        expected = made(preds, targets, box_format="xywh")
        expected.update(preds, targets)
        assert_same_tally(metric.tally, expected.tally)

    def test_compute_reports_them_once(self, device: Counts) -> None:
        """Then it computes the result of the other updates."""
        preds, targets = boxes_of_scene()
        metric = made(placed(device, preds), placed(device, targets), box_format="xywh")
        preds[0]["boxes"] = -preds[0]["boxes"]
        metric.update(placed(device, preds), placed(device, targets))
        with pytest.raises(InputError, match=r"^update 2 was left out"):
            metric.compute()
        preds, targets = boxes_of_scene()
        assert_same(metric.compute(), made(preds, targets, box_format="xywh").compute())

    def test_invalid_predictions_are_dropped_and_counted(self, device: Counts) -> None:
        """The warning comes when they have arrived."""
        preds, targets = boxes_of_scene()
        preds[3]["scores"] = torch.full_like(preds[3]["scores"], torch.nan)
        metric = MeanAveragePrecision(box_format="xywh", invalid="drop")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            metric.update(placed(device, preds), placed(device, targets))
        with pytest.warns(UserWarning, match=r"were dropped; the first: .*preds\[3\]: `scores` row 0 must be finite"):
            result = metric.compute()
        assert result.num_invalid == len(preds[3]["scores"]) > 0
        assert device.reads == 1

    def test_torchmetrics_warns_once_across_updates(self, device: Counts) -> None:
        """Also if the first warning comes from `compute`."""
        preds, targets = boxes_of_scene()
        preds[3]["scores"] = torch.full_like(preds[3]["scores"], torch.nan)
        metric = TorchMetric(box_format="xywh")
        metric.update(placed(device, preds), placed(device, targets))
        with pytest.warns(UserWarning, match="were dropped"):
            metric.compute()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            metric.update(placed(device, preds), placed(device, targets))
            metric.compute()


def test_likely_mistakes_are_told_when_values_have_arrived(device: Counts) -> None:
    """The checks of the first batches read host memory only."""
    preds, targets = boxes_of_scene()
    for each in preds:
        each["boxes"] = each["boxes"] / 1000
    metric = MeanAveragePrecision(box_format="xywh")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.update(placed(device, preds), placed(device, targets))
    assert device.reads == 0
    with pytest.warns(UserWarning, match="fractions"):
        assert len(metric.tally)
