"""Masks through the class for torchmetrics: its keys, its numbers, its files."""

import json
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import boxscore
from boxscore.torchmetrics import MeanAveragePrecision
from tests.support.mask_scenes import blob, moved
from tests.support.torchmetrics_results import IN_DOUBLE, NUMBERS, check_equal, check_same_ious

Image = dict[str, torch.Tensor]


def image(random: np.random.Generator, dtype: torch.dtype, *, num: int) -> tuple[Image, Image]:
    """A prediction and a target with boxes and masks; boxes are not those of the masks."""
    size = int(random.integers(20, 60)), int(random.integers(20, 60))
    masks = [blob(random, *size) for _ in range(num)]
    labels = random.integers(0, 3, num)
    near = [moved(random, masks[i]) for i in random.integers(0, num, 2 * num)] if num else [blob(random, *size)]
    found = random.integers(0, 3, len(near))

    def shapes(pixels: list[Any]) -> Image:
        boxes = torch.tensor(np.round(random.random((len(pixels), 4)) * 60), dtype=torch.float32)
        stacked = np.array(pixels, bool).reshape(len(pixels), *size)
        return {"boxes": boxes, "masks": torch.tensor(stacked).to(dtype)}

    pred = {**shapes(near), "scores": torch.tensor(random.random(len(near)), dtype=torch.float32)}
    target = {**shapes(masks), "iscrowd": torch.tensor(random.random(num) < 0.2).int()}
    return pred | {"labels": torch.tensor(found)}, target | {"labels": torch.tensor(labels)}


def batches(
    seed: int, dtype: torch.dtype = torch.bool, *, is_empty_too: bool = False
) -> list[tuple[list[Image], list[Image]]]:
    """Some batches of images of different sizes; `is_empty_too`: some have no truths."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(4):
        pairs = [image(random, dtype, num=int(random.integers(0 if is_empty_too else 1, 5))) for _ in range(3)]
        made.append(([pred for pred, _ in pairs], [target for _, target in pairs]))
    return made


def streamed(metric: Any, seen: Any) -> Any:
    """The metric after all batches."""
    metric.warn_on_many_detections = False
    for batch in seen:
        metric.update(*batch)
    return metric


@pytest.mark.parametrize("iou_type", ["segm", ("segm",), ("bbox", "segm")], ids=str)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"class_metrics": True},
        {"average": "micro"},
        {"max_detection_thresholds": [1, 2, 3]},
        {"extended_summary": True},
    ],
    ids=str,
)
def test_keys_and_numbers_are_those_of_torchmetrics(theirs: Any, iou_type: Any, settings: dict[str, Any]) -> None:
    """Bit for bit, with masks as booleans and as bytes."""
    for seed, dtype in ((0, torch.bool), (1, torch.uint8)):
        seen = batches(seed, dtype)
        ours = streamed(MeanAveragePrecision("xywh", iou_type, **settings), seen).compute()
        expected = streamed(theirs("xywh", iou_type, **(IN_DOUBLE | settings)), seen).compute()
        assert ours.keys() == expected.keys()
        for name in [name for name in ours if name.endswith("ious")]:
            check_same_ious(ours.pop(name), expected.pop(name))
        assert 0 < ours["map" if isinstance(iou_type, str) or len(iou_type) == 1 else "segm_map"] < 1
        if settings.get("max_detection_thresholds"):
            # torchmetrics takes the limit of 100 for `map`, which is not among these, and gives -1
            ours, expected = ({k: v for k, v in each.items() if not k.endswith("map")} for each in (ours, expected))
        check_equal(ours, expected)


def test_areas_that_were_given_decide(theirs: Any) -> None:
    """And 0 means that of the mask, for boxes, too, where there are both."""
    seen = batches(3)
    for _, targets in seen:
        for target in targets:
            target["area"] = torch.tensor([0, 5000, 20_000, 400, 30][: len(target["labels"])])
    for iou_type in ("segm", ("bbox", "segm")):
        ours = streamed(MeanAveragePrecision("xywh", iou_type), seen).compute()
        check_equal(ours, streamed(theirs("xywh", iou_type, **IN_DOUBLE), seen).compute())


def test_detections_in_images_without_truths_are_false_positives() -> None:
    """For masks as for boxes. torchmetrics leaves such images out, if there are no boxes."""
    seen = batches(5, is_empty_too=True)
    assert any(len(target["labels"]) == 0 for _, targets in seen for target in targets)
    found = streamed(MeanAveragePrecision(iou_type="segm"), seen).compute()
    images = [pair for batch in seen for pair in zip(*batch, strict=True)]
    detections = boxscore.Detections.from_images([pred for pred, _ in images], iou_type="segm")
    truths = boxscore.Truths.from_images([target for _, target in images], iou_type="segm")
    expected = boxscore.evaluate(detections, truths)
    assert expected.protocol.iou_type == "segm"
    for name in NUMBERS:
        assert found[name] == torch.tensor(np.nan_to_num(expected[name], nan=-1.0), dtype=torch.float32)


def test_truths_without_any_prediction_have_an_ap_of_0(theirs: Any) -> None:
    """For masks as for boxes. torchmetrics gives -1 for masks, and 0 for boxes."""
    masks = torch.ones(1, 20, 20, dtype=torch.bool)
    found = {"masks": masks[:0], "boxes": torch.zeros(0, 4), "scores": torch.zeros(0), "labels": torch.zeros(0)}
    target = {"masks": masks, "boxes": torch.tensor([[0.0, 0.0, 20.0, 20.0]]), "labels": torch.tensor([1])}
    numbers = {}
    for name, make in (("ours", partial(MeanAveragePrecision, warn=False)), ("theirs", theirs)):
        for iou_type in ("segm", "bbox"):
            metric = make("xywh", iou_type)
            metric.update([found | {"labels": found["labels"].long()}], [target])
            numbers[name, iou_type] = [float(metric.compute()[key]) for key in ("map", "mar_100")]
    assert numbers == {
        ("ours", "segm"): [0, 0],
        ("ours", "bbox"): [0, 0],
        ("theirs", "segm"): [-1, -1],
        ("theirs", "bbox"): [0, 0],
    }


def test_masks_are_forgotten() -> None:
    """The state has some bytes per detection and truth, however large its masks are."""
    metric = streamed(MeanAveragePrecision(iou_type="segm"), batches(1))
    num = sum(len(each["labels"]) for batch in batches(1) for side in batch for each in side)
    assert sum(part.numel() for part in metric.tallies) < 60 * num + 4 * 3000
    check_equal(pickle.loads(pickle.dumps(metric)).compute(), metric.compute())


def test_forward_gives_the_numbers_of_one_batch() -> None:
    """And the batch counts."""
    first, second = batches(2)[:2]
    metric = MeanAveragePrecision("xywh", ("bbox", "segm"), scalars_only=True)
    check_equal(
        metric(*first), streamed(MeanAveragePrecision("xywh", ("bbox", "segm"), scalars_only=True), [first]).compute()
    )
    metric(*second)
    both = streamed(MeanAveragePrecision("xywh", ("bbox", "segm"), scalars_only=True), [first, second])
    check_equal(metric.compute(), both.compute())


@pytest.mark.parametrize("iou_type", ["segm", ("bbox", "segm")], ids=str)
def test_files_of_coco_go_there_and_back(iou_type: Any, theirs: Any, tmp_path: Path) -> None:
    """Written as torchmetrics does, and read as it does."""
    seen = batches(4)
    ours = streamed(MeanAveragePrecision("xywh", iou_type, keep_boxes=True), seen)
    other = streamed(theirs("xywh", iou_type), seen)
    for metric, name in ((ours, "ours"), (other, "theirs")):
        metric.tm_to_coco(str(tmp_path / name))
    for part in ("preds", "target"):
        found, expected = (json.loads((tmp_path / f"{name}_{part}.json").read_text()) for name in ("ours", "theirs"))
        if part == "target":
            assert found["images"] == expected["images"]
            found, expected = found["annotations"], expected["annotations"]
        for row in expected:
            row.pop("area_bbox", None)
            row.pop("area_segm", None)
        assert found == [row | {"iscrowd": int(row["iscrowd"])} for row in expected]
    paths = (str(tmp_path / "ours_preds.json"), str(tmp_path / "ours_target.json"))
    read, expected = MeanAveragePrecision.coco_to_tm(*paths, iou_type), other.coco_to_tm(*paths, iou_type)
    for mine, its in zip(read, expected, strict=True):
        for one, another in zip(mine, its, strict=True):
            assert one.keys() == another.keys()
            for key, column in one.items():
                assert column.dtype == another[key].dtype
                assert torch.equal(column.reshape(another[key].shape), another[key])
    again = streamed(MeanAveragePrecision("xywh", iou_type), [read])
    check_equal(again.compute(), ours.compute())


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"masks": torch.zeros(3, 4)}, r"preds\[0\]: `masks` must have shape \(\d, H, W\) for \d labels; got \(3, 4\)"),
        ({"masks": torch.zeros(9, 4, 4, dtype=torch.bool)}, r"preds\[0\]: `masks` must have shape"),
        ({"masks": None}, r"preds\[0\]: `masks` must be a sequence of masks; got NoneType"),
        ({"mask": torch.zeros(1)}, r"preds\[0\] must not have the key 'mask', which is not read: rename it"),
    ],
)
def test_masks_that_cannot_be_right_are_refused(change: dict[str, Any], rule: str) -> None:
    """With the image, the key and the rule; nothing is counted."""
    (preds, targets), *_ = batches(0)
    changed = [preds[0] | change, *preds[1:]]
    if "mask" in change:
        changed = [{key: value for key, value in image.items() if key != "masks"} for image in changed]
        rule = r"preds\[0\] must have the key 'masks'; got .*: 'mask' must be called 'masks'"
    metric = MeanAveragePrecision(iou_type="segm")
    with pytest.raises(boxscore.InputError, match=rule):
        metric.update(changed, targets)
    assert len(metric.tallies) == 0
    with pytest.raises(boxscore.InputError, match=r"`masks` must hold booleans or bytes \(uint8\); got torch.float32"):
        metric.update([preds[0] | {"masks": preds[0]["masks"].float()}], targets[:1])
