"""Updates with masks on an accelerator: overlaps are counted there, nothing waits, and numbers are those of pixels."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from boxscore import InputError, MeanAveragePrecision
from boxscore.arrays.libraries import LIBRARIES
from boxscore.data import Masks
from tests.conftest import Backend, make_backend
from tests.support.comparisons import assert_same_tally
from tests.support.mask_scenes import blob, moved

torch = pytest.importorskip("torch")

from boxscore.arrays.counting import Counts, counting  # noqa: E402
from boxscore.torchmetrics import MeanAveragePrecision as TorchMetric  # noqa: E402

pytestmark = pytest.mark.native

Images = list[dict[str, Any]]


@pytest.fixture
def device() -> Iterator[Counts]:
    """The counting device."""
    with counting() as counts:
        yield counts


def make_images(seed: int, sizes: list[tuple[int, int]], *, has_boxes: bool = False) -> tuple[Images, Images]:
    """Predictions and targets in host memory; the second image has no targets, the third one no predictions."""
    random = np.random.default_rng(seed)
    preds, targets = [], []
    for image, size in enumerate(sizes):
        truths = [blob(random, *size) for _ in range(0 if image == 1 else 4)]
        masks = [] if image == 2 else [*(moved(random, mask) for mask in truths), np.zeros(size, bool)]
        stack, truth_stack = (
            torch.from_numpy(np.array(each).reshape(-1, *size).astype(bool)) for each in (masks, truths)
        )
        labels, truth_labels = (torch.from_numpy(random.integers(0, 2, len(each))) for each in (masks, truths))
        scores = torch.from_numpy(random.integers(0, 9, len(masks)) / 9).float()
        crowds = torch.from_numpy((random.random(len(truths)) < 0.3).astype(np.int64))
        preds.append({"masks": stack, "scores": scores, "labels": labels})
        targets.append({"masks": truth_stack, "labels": truth_labels, "iscrowd": crowds})
        if has_boxes:
            for each in (preds[-1], targets[-1]):
                each["boxes"] = torch.from_numpy(random.integers(0, 9, (len(each["labels"]), 4))).float().cumsum(1)
    return preds, targets


def placed(device: Counts, images: Any) -> Any:
    """The images on the device."""
    if isinstance(images, dict):
        return {key: device.place(value) for key, value in images.items()}
    return [placed(device, image) for image in images]


def padded(images: Images) -> dict[str, Any]:
    """The images as one padded batch, whose padding has pixels."""
    length = max(len(image["labels"]) for image in images) + 1
    made = {}
    for key in images[0]:
        fill = {"labels": -1, "masks": 1}.get(key, 0)
        rows = []
        for image in images:
            column = image[key]
            rest = torch.full((length - len(column), *column.shape[1:]), fill, dtype=column.dtype)
            rows.append(torch.cat([column, rest]))
        made["ignore" if key == "iscrowd" else key] = torch.stack(rows)
    return made


SIZES = [(23, 31), (40, 17), (12, 12), (23, 31)]
SAME = [(20, 30)] * 4


class TestNumbers:
    """Equal to those of the same masks in host memory."""

    @pytest.mark.parametrize("iou_type", ["segm", ("bbox", "segm")])
    @pytest.mark.parametrize("form", ["images", "padded"])
    def test_tallies_are_equal(self, device: Counts, iou_type: Any, form: str) -> None:
        """Of one similarity, or of boxes and masks from one read of each batch."""
        metric, expected = (MeanAveragePrecision("coco", iou_type=iou_type) for _ in range(2))
        for seed in range(3):
            sides = make_images(seed, SIZES if form == "images" else SAME, has_boxes=iou_type != "segm")
            given = tuple(map(padded, sides)) if form == "padded" else sides
            expected.update(*given)
            metric.update(*placed(device, given))
        assert device.reads == 0
        for each, tally in expected.tallies.items():
            assert_same_tally(metric.tallies[each], tally)

    def test_numbers_of_torchmetrics(self, device: Counts) -> None:
        """Bits of every number, of the metric with torchmetrics' names."""
        metric, expected = (TorchMetric(iou_type=("bbox", "segm"), class_metrics=True) for _ in range(2))
        for seed in range(2):
            sides = make_images(seed, SIZES, has_boxes=True)
            expected.update(*sides)
            metric.update(*placed(device, sides))
        assert device.reads == 0
        numbers = metric.compute()
        for name, value in expected.compute().items():
            assert torch.equal(numbers[name], value), name

    @pytest.mark.parametrize("settings", [{"keep_boxes": True}, {"average": "micro"}])
    def test_settings_of_torchmetrics(self, device: Counts, settings: Any) -> None:
        """With `keep_boxes` masks are stored, so their pixels are copied."""
        metric, expected = (TorchMetric(iou_type="segm", **settings) for _ in range(2))
        sides = make_images(0, SIZES)
        expected.update(*sides)
        metric.update(*placed(device, sides))
        numbers = metric.compute()
        for name, value in expected.compute().items():
            assert torch.equal(numbers[name], value), name

    @pytest.mark.parametrize("settings", [{"iou_type": "boundary"}, {"iou_type": "segm", "engine": "sequential"}])
    def test_pixels_are_copied_if_they_are_needed(self, device: Counts, settings: Any) -> None:
        """Boundary IoU and the sequential engine read pixels in host memory."""
        metric, expected = (MeanAveragePrecision("coco", **settings) for _ in range(2))
        sides = make_images(1, SIZES)
        expected.update(*sides)
        metric.update(*placed(device, sides))
        assert_same_tally(metric.tally, expected.tally)

    def test_targets_in_host_memory(self, device: Counts) -> None:
        """Their masks are copied to the device, and no pixels come back."""
        metric, expected = (MeanAveragePrecision("coco", iou_type="segm") for _ in range(2))
        preds, targets = make_images(2, SIZES)
        expected.update(preds, targets)
        metric.update(placed(device, preds), targets)
        assert device.reads == 0
        assert_same_tally(metric.tally, expected.tally)

    def test_masks_of_other_sizes(self, device: Counts) -> None:
        """They never match; the warning says so."""
        preds, targets = make_images(3, SIZES)
        preds[0]["masks"] = preds[0]["masks"].transpose(1, 2).contiguous()
        expected = MeanAveragePrecision("coco", iou_type="segm", warn=False)
        expected.update(preds, targets)
        metric = MeanAveragePrecision("coco", iou_type="segm")
        with pytest.warns(UserWarning, match="masks have different sizes"):
            metric.update(*placed(device, (preds, targets)))
        assert_same_tally(metric.tally, expected.tally)

    def test_images_that_come_again(self, device: Counts) -> None:
        """With `unique_images` they are left out, in lists and in padded batches."""
        sides = make_images(4, SAME)
        for given in (sides, tuple(map(padded, sides))):
            metric, expected = (MeanAveragePrecision("coco", iou_type="segm", unique_images=True) for _ in range(2))
            for ids in ([0, 1, 2, 3], [3, 4, 5, 0]):
                expected.update(*given, image_ids=ids)
                metric.update(*placed(device, given), image_ids=ids)
            assert_same_tally(metric.tally, expected.tally)

    def test_masks_may_be_overwritten_after_update(self, device: Counts) -> None:
        """The counts are in the stream before what follows."""
        metric, expected = (MeanAveragePrecision("coco", iou_type="segm") for _ in range(2))
        sides = make_images(5, SIZES)
        expected.update(*sides)
        on_device = placed(device, sides)
        metric.update(*on_device)
        for image in (*on_device[0], *on_device[1]):
            image["masks"].fill_(True)
        assert_same_tally(metric.tally, expected.tally)


@pytest.mark.parametrize("library", ["jax", "tensorflow"])
@pytest.mark.parametrize("form", ["images", "padded"])
def test_other_libraries(library: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays that can't be read in host memory; the library's CPU stands for an accelerator."""
    backend = make_backend(library)
    home = next(each for each in LIBRARIES if each.name == library)
    monkeypatch.setattr(type(home), "is_in_host_memory", lambda *_: False)
    monkeypatch.setattr(Masks, "from_stacks", None)  # which encodes pixels in host memory
    sides = make_images(11, SAME)
    given = tuple(map(padded, sides)) if form == "padded" else sides
    metric = MeanAveragePrecision("coco", iou_type="segm")
    metric.update(*moved_to(backend, given))
    tally = metric.tally
    monkeypatch.undo()
    expected = MeanAveragePrecision("coco", iou_type="segm")
    expected.update(*given)
    assert_same_tally(tally, expected.tally)


def moved_to(backend: Backend, images: Any) -> Any:
    """The images as arrays of another library."""
    if isinstance(images, dict):
        return {key: backend.array(value.numpy()) for key, value in images.items()}
    return [moved_to(backend, image) for image in images]


class TestCounts:
    """Bytes, copies and reads per update."""

    def test_only_integers_leave(self, device: Counts) -> None:
        """4 bytes per pair of an image and per mask, and the other columns."""
        preds, targets = make_images(6, SIZES)
        metric = MeanAveragePrecision("coco", iou_type="segm", warn=False)
        sides = placed(device, (preds, targets))
        device.reset()
        metric.update(*sides)
        pairs = sum(len(one["labels"]) * len(other["labels"]) for one, other in zip(preds, targets, strict=True))
        rest = sum(value.nbytes for each in (*preds, *targets) for key, value in each.items() if key != "masks")
        masks = sum(len(each["labels"]) for each in (*preds, *targets))
        assert device.bytes_to_host == 4 * (pairs + masks) + rest
        assert (device.copies_to_host, device.copies_to_device, device.reads) == (1, 0, 0)

    def test_outer_boxes_of_the_first_batches(self, device: Counts) -> None:
        """They are compared to find resized detections."""
        metric = MeanAveragePrecision("coco", iou_type="segm")
        preds, targets = make_images(7, [(60, 80)] * 12)
        for pred, target in zip(preds, targets, strict=True):  # in half of the image's size
            num = len(target["labels"])
            half = torch.nn.functional.pad(target["masks"][:, ::2, ::2], (0, 40, 0, 30))
            pred |= {"masks": half, "scores": torch.linspace(0.5, 1, num), "labels": target["labels"]}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                metric.update(*placed(device, (preds, targets)))
        assert device.reads == 0
        on_host = MeanAveragePrecision("coco", iou_type="segm")
        for _ in range(3):
            on_host.update(preds, targets)
        told = [[str(each.message) for each in recorded(made)] for made in (metric, on_host)]
        assert told[0] == told[1] != []


def recorded(metric: MeanAveragePrecision) -> list[warnings.WarningMessage]:
    """The warnings of `compute`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        metric.compute()
    return list(caught)


class TestErrors:
    """Shapes and dtypes at once, values when they have arrived."""

    @pytest.mark.parametrize("form", ["images", "padded"])
    def test_probabilities_are_refused_at_once(self, device: Counts, form: str) -> None:
        """With advice."""
        preds, targets = make_images(8, SAME)
        for each in preds:
            each["masks"] = each["masks"].float()
        given = (padded(preds), padded(targets)) if form == "padded" else (preds, targets)
        metric = MeanAveragePrecision("coco", iou_type="segm")
        with pytest.raises(InputError, match=r"pass `masks > 0\.5` for probabilities"):
            metric.update(*placed(device, given))
        assert len(metric.tally) == 0

    @pytest.mark.parametrize("num", [0, 3])
    def test_the_number_of_masks_is_checked_at_once(self, device: Counts, num: int) -> None:
        """One per label."""
        preds, targets = make_images(9, SIZES)
        preds[0]["masks"] = preds[0]["masks"][:num]
        with pytest.raises(InputError, match=r"preds\[0\]: `masks` must have"):
            MeanAveragePrecision("coco", iou_type="segm").update(*placed(device, (preds, targets)))

    def test_an_invalid_score_is_reported_later(self, device: Counts) -> None:
        """The update is left out, and the others count."""
        preds, targets = make_images(10, SIZES)
        metric, expected = (MeanAveragePrecision("coco", iou_type="segm") for _ in range(2))
        expected.update(preds, targets)
        metric.update(*placed(device, (preds, targets)))
        preds[0]["scores"][0] = np.nan
        metric.update(*placed(device, (preds, targets)))
        with pytest.raises(InputError, match=r"update 2 .* row 0 must be finite"):
            metric.compute()
        assert_same_tally(metric.tally, expected.tally)
