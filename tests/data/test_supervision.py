"""Objects of supervision in place of dicts: the same rows, and the numbers of supervision's own metric."""

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import supervision as sv

import boxscore
from boxscore import Detections, InputError, MeanAveragePrecision, Truths
from tests.support.tool_runs import corners, run_supervision, tool_scene

NUMBERS = ("map50_95", "map50", "map75")
"""supervision's names for `map`, `map_50` and `map_75`."""


def by_image(columns: dict[str, Any], num_images: int) -> list[dict[str, Any]]:
    """The rows of each image."""
    return [
        {name: column[columns["image_ids"] == image] for name, column in columns.items()} for image in range(num_images)
    ]


def as_objects(scene: Any) -> tuple[list[Any], list[Any]]:
    """A scene as supervision's objects, with areas and crowds in `data`."""
    found, truth = by_image(scene.detection, scene.num_images), by_image(scene.truth, scene.num_images)
    preds = [sv.Detections(xyxy=corners(x["boxes"]), class_id=x["labels"], confidence=x["scores"]) for x in found]
    data = [{"area": x["area"], "iscrowd": x["ignore"].astype(int)} for x in truth]
    targets = [
        sv.Detections(xyxy=corners(x["boxes"]), class_id=x["labels"], data=more)
        for x, more in zip(truth, data, strict=True)
    ]
    return preds, targets


def their_numbers(preds: Any, targets: Any, **settings: Any) -> list[float]:
    """Those of supervision's own metric."""
    result = sv.metrics.MeanAveragePrecision(**settings).update(preds, targets).compute()
    return [float(getattr(result, name)) for name in NUMBERS]


def our_numbers(result: Any) -> list[float]:
    """The same of a result."""
    return [result[name] for name in ("map", "map_50", "map_75")]


@pytest.mark.parametrize("seed", range(3))
def test_the_metric_gives_what_evaluate_gives(seed: int) -> None:
    """To the bit, with areas and crowds; and supervision's numbers, which it rounds to float32 on the way."""
    scene = tool_scene(seed)
    preds, targets = as_objects(scene)
    metric = MeanAveragePrecision(warn=False)
    for part in (slice(0, 5), slice(5, 6), slice(6, None)):
        metric.update(preds[part], targets[part])
    result, expected = metric.compute(), boxscore.evaluate(scene.detections, scene.truths)
    assert dict(result) == dict(expected)
    theirs = run_supervision(scene)
    assert np.allclose(our_numbers(result), [getattr(theirs, name) for name in NUMBERS], rtol=0, atol=1e-7)


def test_one_object_is_a_batch_of_one_image() -> None:
    """As in supervision's own `update`."""
    preds, targets = as_objects(tool_scene(0))
    one, many = MeanAveragePrecision(warn=False), MeanAveragePrecision(warn=False)
    for pred, target in zip(preds, targets, strict=True):
        one.update(pred, target)
    many.update(preds, targets)
    assert dict(one.compute()) == dict(many.compute())


def test_columns_from_objects_are_those_from_dicts() -> None:
    """An image without boxes has no rows."""
    preds, targets = as_objects(tool_scene(1))
    preds[2] = sv.Detections.empty()
    found, truths = Detections.from_images(preds), Truths.from_images(targets)
    dicts = [{"boxes": x.xyxy, "scores": x.confidence, "labels": x.class_id} for x in preds]
    expected = Detections.from_images(dicts)
    for name in ("image_ids", "labels", "scores", "boxes"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert truths.area is not None
    assert truths.ignore is not None
    assert np.array_equal(np.asarray(truths.area), np.concatenate([x.data["area"] for x in targets]))
    assert np.array_equal(np.asarray(truths.ignore), np.concatenate([x.data["iscrowd"] > 0 for x in targets]))


def random_masks(seed: int, num_images: int = 6) -> tuple[list[Any], list[Any]]:
    """Rectangles of pixels, and the same moved a little."""
    random = np.random.default_rng(seed)
    preds: list[Any] = []
    targets: list[Any] = []
    for _ in range(num_images):
        start = random.integers(0, 30, (5, 2))
        box = np.hstack([start, start + random.integers(8, 30, (5, 2))])
        moved = box + random.integers(-2, 3, (5, 4))
        label = random.integers(0, 2, 5)
        for boxes, made, more in ((moved, preds, {"confidence": random.random(5)}), (box, targets, {})):
            mask = np.zeros((5, 64, 64), bool)
            for row, (left, top, right, bottom) in enumerate(boxes):
                mask[row, max(top, 0) : bottom, max(left, 0) : right] = True
            made.append(sv.Detections(xyxy=boxes.astype(float), mask=mask, class_id=label, **more))
    return preds, targets


def test_masks_have_supervisions_numbers() -> None:
    """Within its rounding to float32; compact masks have the same bits as arrays."""
    preds, targets = random_masks(0)
    results = []
    for is_compact in (False, True):
        if is_compact:
            for each in (*preds, *targets):
                each.mask = sv.CompactMask.from_dense(each.mask, xyxy=each.xyxy, image_shape=(64, 64))
        metric = MeanAveragePrecision(iou_type="segm", warn=False)
        metric.update([*preds, sv.Detections.empty()], [*targets, sv.Detections.empty()])
        results.append(our_numbers(metric.compute()))
    assert results[0] == results[1]
    theirs = their_numbers(preds, targets, metric_target=sv.metrics.MetricTarget.MASKS)
    assert np.allclose(results[0], theirs, rtol=0, atol=1e-7)


def test_oriented_boxes_are_those_in_data() -> None:
    """`data["xyxyxyxy"]`, (n, 4, 2); supervision's IoUs are in float32, ours exact, and here they decide alike."""
    random = np.random.default_rng(0)
    preds: list[Any] = []
    targets: list[Any] = []
    for _ in range(4):
        center, size, angle = random.uniform(30, 200, (6, 2)), random.uniform(20, 40, (6, 2)), random.uniform(0, 3, 6)
        label = random.integers(0, 2, 6)
        for shift, made, more in ((2.0, preds, {"confidence": random.random(6)}), (0.0, targets, {})):
            along = np.stack([np.cos(angle), np.sin(angle)], axis=1)
            side = np.stack([-along[:, 1], along[:, 0]], axis=1)
            half = size[:, :, None] / 2 * np.stack([along, side], axis=1)
            signs = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
            corner = center[:, None] + shift + np.einsum("ks,nsc->nkc", signs, half)
            xyxy = np.hstack([corner.min(axis=1), corner.max(axis=1)])
            made.append(sv.Detections(xyxy=xyxy, class_id=label, data={"xyxyxyxy": corner}, **more))
    metric = MeanAveragePrecision(box_format="xyxyxyxy", warn=False)
    metric.update(preds, targets)
    theirs = their_numbers(preds, targets, metric_target=sv.metrics.MetricTarget.ORIENTED_BOUNDING_BOXES)
    assert 0.1 < theirs[0] < 0.99
    assert np.allclose(our_numbers(metric.compute()), theirs, rtol=0, atol=1e-7)


def test_key_points_are_poses() -> None:
    """There is no metric for them in supervision; the dicts of the same arrays give the same bits."""
    random = np.random.default_rng(0)
    point = random.uniform(0, 90, (3, 2, 17, 2)).astype(np.float32)
    moved = point + random.normal(0, 1, point.shape).astype(np.float32)
    score, sure = random.random((3, 2)).astype(np.float32), random.random((3, 2, 17)).astype(np.float32)
    visible, area, label = random.random((3, 2, 17)) < 0.8, np.full((3, 2), 3000.0), np.zeros((3, 2), int)
    preds = [
        sv.KeyPoints(xy=moved[i], class_id=label[i], keypoint_confidence=sure[i], detection_confidence=score[i])
        for i in range(3)
    ]
    targets = [
        sv.KeyPoints(xy=point[i], class_id=label[i], visible=visible[i], data={"area": area[i]}) for i in range(3)
    ]
    metric = MeanAveragePrecision("coco_keypoints", warn=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.update(preds, targets)
    expected = boxscore.evaluate(
        Detections.from_images(
            [
                {"keypoints": moved[i], "keypoints_scores": sure[i], "scores": score[i], "labels": label[i]}
                for i in range(3)
            ],
            iou_type="keypoints",
        ),
        Truths.from_images(
            [
                {"keypoints": point[i], "visibility": visible[i] * 1, "labels": label[i], "area": area[i]}
                for i in range(3)
            ],
            iou_type="keypoints",
        ),
        "coco_keypoints",
    )
    result = metric.compute()
    assert 0 < result["map"] < 1
    assert {name: value for name, value in result.items() if value == value} == {
        name: value for name, value in expected.items() if value == value
    }


BOX = np.array([[0.0, 0.0, 9.0, 9.0]])
GOOD = {"xyxy": BOX, "class_id": np.array([1]), "confidence": np.array([0.9])}


@pytest.mark.parametrize(
    ("settings", "metric", "message"),
    [
        ({"confidence": None}, {}, "preds[0] must have `confidence`, which becomes `scores`; got supervision's"),
        ({"class_id": None}, {}, "preds[0] must have `class_id`, which becomes `labels`; got supervision's"),
        ({}, {"iou_type": "segm"}, "preds[0] must have `mask`, which becomes `masks`; got supervision's"),
        ({}, {"box_format": "xyxyxyxy"}, "preds[0] must have `data['xyxyxyxy']`, which becomes `boxes`; got"),
        ({}, {"box_format": "xywh"}, "preds[0] is supervision's Detections, which are boxes of `box_format` 'xyxy' or"),
    ],
)
def test_what_an_object_lacks_is_an_error(settings: dict[str, Any], metric: dict[str, Any], message: str) -> None:
    """Which names the object, its attribute and the key; nothing is counted."""
    counted = MeanAveragePrecision(warn=False, **metric)
    good = sv.Detections(**GOOD)
    with pytest.raises(InputError) as error:
        counted.update([sv.Detections(**{**GOOD, **settings})], [good])
    assert str(error.value).startswith(message)
    assert repr(counted) == repr(MeanAveragePrecision(warn=False, **metric))


def test_another_object_is_still_refused() -> None:
    """One that has some of the attributes."""
    with pytest.raises(InputError, match=r"preds\[0\] must be a dict with `boxes`, `scores` and `labels`"):
        MeanAveragePrecision().update([SimpleNamespace(xyxy=BOX)], [sv.Detections(**GOOD)])
