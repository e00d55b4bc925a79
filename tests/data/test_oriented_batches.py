"""Oriented boxes in dicts, padded batches and the metric; and after matching, everything that boxes have."""

import warnings
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, MeanAveragePrecision, Protocol, Truths
from boxscore.data.dataset import take
from boxscore.data.geometry.boxes import Boxes
from boxscore.data.geometry.oriented_boxes import OrientedBoxes
from tests.support.arrow_tables import tables
from tests.support.comparisons import assert_same
from tests.support.oriented_scenes import RADIANS, random_oriented

OBB = Protocol.named("coco", iou_type="obb")
NUM_IMAGES = 8


def written(columns: Any, box_format: str) -> Any:
    """The boxes of a scene in another format."""
    box = np.asarray(columns.oriented_boxes.boxes)
    if box_format == "xyxyxyxy":
        return columns.oriented_boxes.corners()
    turned = box * [1, 1, 1, 1, -1 if "ccw" in box_format else 1]
    return turned if "radians" in box_format else turned * [1, 1, 1, 1, 180 / np.pi]


def dicts(seed: int, box_format: str = RADIANS) -> tuple[list[Any], list[Any]]:
    """A scene as one dict per image."""
    detections, truths = random_oriented(seed, num_images=NUM_IMAGES)
    found, there = written(detections, box_format), written(truths, box_format)
    preds, targets = [], []
    for image in range(NUM_IMAGES):
        rows, truth_rows = detections.image_ids == image, truths.image_ids == image
        preds.append({"boxes": found[rows], "scores": detections.scores[rows], "labels": detections.labels[rows]})
        targets.append(
            {"boxes": there[truth_rows], "labels": truths.labels[truth_rows], "ignore": truths.ignore[truth_rows]}  # type: ignore[index]
        )
    return preds, targets


def padded(images: list[Any], size: int) -> dict[str, Any]:
    """The same as a padded batch."""
    most = max(len(image["labels"]) for image in images)
    batch = {}
    for key in images[0]:
        shape = (len(images), most, size) if key == "boxes" else (len(images), most)
        batch[key] = np.full(shape, -1 if key == "labels" else 0, images[0][key].dtype)
        for index, image in enumerate(images):
            batch[key][index, : len(image[key])] = image[key]
    return batch


@pytest.mark.parametrize("box_format", ["xyxyxyxy", RADIANS, "cxcywha:degrees", "cxcywha:degrees:ccw"])
def test_dicts_and_padded_batches(box_format: Any) -> None:
    """Give the result of columns, through the metric and without it."""
    expected = boxscore.evaluate(*random_oriented(3))
    preds, targets = dicts(3, box_format)
    found = Detections.from_images(preds, box_format=box_format)
    there = Truths.from_images(targets, box_format=box_format, iou_type="probiou")
    assert isinstance(found.geometry, OrientedBoxes)
    np.testing.assert_allclose(list(boxscore.evaluate(found, there).values()), list(expected.values()), equal_nan=True)

    metric = MeanAveragePrecision(box_format=box_format, warn=False)
    assert metric.protocol == OBB
    metric.update(preds[:5], targets[:5])
    metric.update(preds[5:], targets[5:])
    assert_same(metric.compute(), boxscore.evaluate(found, there))

    size = 8 if box_format == "xyxyxyxy" else 5
    batch, truth_batch = padded(preds, size), padded(targets, size)
    columns = {"boxes": batch["boxes"], "labels": batch["labels"], "scores": batch["scores"]}
    also = Detections.from_padded(**columns, box_format=box_format)
    assert np.array_equal(also.oriented_boxes.boxes, found.oriented_boxes.boxes)
    metric.reset()
    metric.update(batch, truth_batch)
    assert_same(metric.compute(), boxscore.evaluate(found, there))


def test_collated_truths() -> None:
    """A loader's samples as a padded batch."""
    preds, targets = dicts(3)
    _, batch = boxscore.collate_truths([(np.zeros((3, 4, 4)), each) for each in targets], box_format=RADIANS)
    assert batch["boxes"].shape[2] == 5
    metric = MeanAveragePrecision("coco", box_format=RADIANS, warn=False)
    metric.update(padded(preds, 5), batch)
    there = Truths.from_images(targets, box_format=RADIANS)
    assert_same(metric.compute(), boxscore.evaluate(Detections.from_images(preds, box_format=RADIANS), there))


def test_tensors() -> None:
    """From PyTorch, in single precision, with the result of the same numbers in NumPy."""
    torch = pytest.importorskip("torch")
    preds, targets = dicts(4)
    for each in (*preds, *targets):
        each["boxes"] = each["boxes"].astype(np.float32)
    metric = MeanAveragePrecision("coco", iou_type="probiou", box_format=RADIANS, warn=False)
    metric.update(
        *([{key: torch.tensor(value) for key, value in each.items()} for each in side] for side in (preds, targets))
    )
    found, there = Detections.from_images(preds, box_format=RADIANS), Truths.from_images(targets, box_format=RADIANS)
    assert_same(metric.compute(), boxscore.evaluate(found, there, Protocol.named("coco", iou_type="probiou")))


def test_nothing_to_warn_about() -> None:
    """The watch for mistakes takes oriented boxes as they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric = MeanAveragePrecision("dota", box_format=RADIANS)
        metric.update(*dicts(5))
        metric.compute()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Detections.from_images(dicts(1)[0]), r"images\[0\]: `boxes` must have shape \(2, 4\).* \(2, 5\)"),
        (lambda: Detections.from_images(dicts(1)[0], box_format="cxcywha"), "say what angles are in"),  # type: ignore[arg-type]
        (
            lambda: Detections.from_images(dicts(1, "xyxyxyxy")[0], box_format=RADIANS),
            r"`boxes` must have shape \(\d+, 5\) for \d+ labels; got \(\d+, 8\)",
        ),
        (lambda: Truths.from_images([], iou_type="obb"), "one of xyxyxyxy, .* for `iou_type` 'obb'; got 'xyxy'"),
        (
            lambda: MeanAveragePrecision(iou_type="obb").update(*dicts(1)),
            "`box_format` must be one of xyxyxyxy, .* for `iou_type` 'obb'; got 'xyxy'",
        ),
        (
            lambda: Detections(image_ids=[0], labels=[0], scores=[0.5], boxes=[[0, 0, 1, 1, 50]], box_format=RADIANS),
            "are these degrees",
        ),
        (
            lambda: Truths.from_images([{"boxes": [[0, 0, -1, 1, 0]], "labels": [0]}], box_format=RADIANS),
            r"images\[0\]: `boxes` row 0 must not have a negative width",
        ),
        (lambda: random_oriented(1)[0].boxes, "boxes are needed here; these Detections have oriented boxes"),
        (lambda: boxscore.evaluate(*random_oriented(1), Protocol.named("coco")), "'bbox' needs other shapes"),
    ],
)  # fmt: skip
def test_slips_are_told(make: Any, message: str) -> None:
    """With the argument, the image and what to do."""
    with pytest.raises(InputError, match=message):
        make()


def test_boxes_of_two_kinds() -> None:
    """Upright boxes beside oriented ones: the protocol says which count."""
    detections, truths = random_oriented(6)
    both = Detections(
        image_ids=detections.image_ids,
        labels=detections.labels,
        scores=detections.scores,
        geometry=[Boxes(boxes=detections.geometry.outer_boxes()), detections.geometry],
    )
    assert_same(boxscore.evaluate(both, truths), boxscore.evaluate(detections, truths))
    assert both.boxes.shape[1] == 4
    assert repr(both).startswith(f"Detections({len(both)} boxes and oriented boxes in")


def test_dota_by_hand() -> None:
    """More than half must be shared; a difficult truth neither rewards nor punishes; 3 of 4 points of area."""
    truth = [[10, 10, 8, 4, 0], [30, 10, 8, 4, 0], [50, 10, 8, 4, 0]]
    found = [[10, 10, 8, 4, 0], [30, 10, 8, 2, 0], [50, 10, 8, 4, 0], [90, 10, 8, 4, 0]]
    columns: dict[str, Any] = {"labels": [0] * 4, "image_ids": [0] * 4, "scores": [0.9, 0.8, 0.7, 0.6]}
    detections = Detections(**columns, boxes=found, box_format=RADIANS)
    truths = Truths(image_ids=[0] * 3, labels=[0] * 3, boxes=truth, box_format=RADIANS, ignore=[False, False, True])
    result = boxscore.evaluate(detections, truths, "dota")
    # The second has an IoU of exactly 0.5, which is not more: a false positive. The third is not counted.
    assert result["map"] == 0.5
    assert result.protocol.title == "dota"
    assert boxscore.evaluate(detections, truths, "dota2007")["map"] == pytest.approx(6 / 11)
    assert boxscore.evaluate(detections, truths, Protocol.named("dota", comparison=">="))["map"] == 1


def test_shards_of_arrow_tables() -> None:
    """Tables whose boxes are lists of five numbers."""
    pytest.importorskip("pyarrow")
    detections, truths = random_oriented(10)
    expected = boxscore.evaluate(detections, truths)
    shard = boxscore.scaling.match_shard(*tables(detections, truths), OBB, box_format=RADIANS, name="first")
    assert_same(boxscore.finish(shard), expected)


class TestEverythingAfter:
    """No step after matching asks what a shape is."""

    def test_compare_and_save(self, tmp_path: Any) -> None:
        """A comparison of two detectors; a tally that was saved."""
        detections, truths = random_oriented(8, num_images=20)
        first = boxscore.evaluate(detections, truths)
        second = boxscore.evaluate(take(detections, detections.scores > 0.3), truths)
        assert boxscore.compare([first, second], resamples=20).to_dict()
        tally = boxscore.match(detections, truths)
        tally.save(tmp_path / "tally.boxscore")
        assert_same(boxscore.finish(boxscore.Tally.load(tmp_path / "tally.boxscore")), first)

    def test_worst_images_and_operating_points(self) -> None:
        """And calibration."""
        result = boxscore.evaluate(*random_oriented(9, num_images=20))
        assert result.worst_images()
        assert result.operating_points()
