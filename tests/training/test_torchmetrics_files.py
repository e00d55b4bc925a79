"""The class for torchmetrics: TorchScript, COCO's files, and what is left out of the result."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import boxscore
from boxscore import InputError
from boxscore.torchmetrics import MeanAveragePrecision
from tests.support.torchmetrics_results import BATCH, IN_DOUBLE, check_equal
from tests.support.world_of_metrics import SCENE, as_dicts


def in_single(image: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same in single precision, as detectors give it and files of COCO are read."""
    return {key: column.float() if column.is_floating_point() else column for key, column in image.items()}


BATCHES = [
    tuple([in_single(as_dicts(SCENE, i)[side]) for i in images] for side in (0, 1))
    for images in ([0, 1, 2], [3], [4, 5])
]


@pytest.mark.filterwarnings("ignore:This property will be removed:DeprecationWarning")  # torchmetrics' own
def test_it_can_be_scripted() -> None:
    """As torchmetrics' own class can: `forward` and `compute` stay Python, and models that hold it script."""
    torch.jit.script(MeanAveragePrecision())

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.metric = MeanAveragePrecision(extended_summary=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    assert torch.jit.script(Model())(torch.ones(1)) == 2


@pytest.mark.parametrize("average", ["macro", "micro"])
def test_ious_are_those_of_all_updates(theirs: Any, average: str) -> None:
    """Of several batches, with crowds, more detections than count and images without boxes."""
    limits = [1, 2, 3]
    settings: dict[str, Any] = {"extended_summary": True, "average": average, "max_detection_thresholds": limits}
    ours, other = MeanAveragePrecision("xywh", **settings), theirs("xywh", **(IN_DOUBLE | settings))
    empty = {"boxes": torch.zeros(0, 4), "scores": torch.zeros(0), "labels": torch.zeros(0, dtype=torch.int64)}
    for metric in (ours, other):
        metric.warn_on_many_detections = False
        for batch in [*BATCHES, ([empty], [empty])]:
            metric.update(*batch)
    found, expected = ours.compute()["ious"], other.compute()["ious"]
    check_equal({"ious": found}, {"ious": expected})
    assert any(len(iou) > 1 for iou in found.values())
    assert max(iou.shape[0] for iou in found.values() if isinstance(iou, torch.Tensor) and iou.ndim == 2) == limits[-1]
    ours.reset()
    ours.update([], [])
    assert ours.compute()["ious"] == {}


def test_ious_survive_forward_and_pickles() -> None:
    """Boxes are a state like any other."""
    import pickle

    metric, plain = (MeanAveragePrecision("xywh", extended_summary=True) for _ in range(2))
    for batch in BATCHES:
        plain.update(*batch)
        assert len(metric(*batch)["ious"]) < len(plain.compute()["ious"]) or batch is BATCHES[0]
    check_equal(pickle.loads(pickle.dumps(metric)).compute(), plain.compute())


def test_with_unique_images_copies_have_no_ious() -> None:
    """The first image of each id counts, in a batch and over all."""
    preds, target = BATCH
    named = [image | {"image_id": 7 - i} for i, image in enumerate(target)]
    metric, plain = (MeanAveragePrecision("xywh", extended_summary=True, unique_images=each) for each in (True, False))
    metric.update(preds[:3], named[:3])
    metric.update([preds[0], preds[3], preds[3]], [named[0], named[3], named[3]])
    plain.update(preds, target)
    check_equal({"ious": metric.compute()["ious"]}, {"ious": plain.compute()["ious"]})


def as_format(box: torch.Tensor, box_format: str) -> torch.Tensor:
    """Boxes of left, top, width, height in another format."""
    corner, size = box[:, :2], box[:, 2:]
    if box_format == "xywh":
        return box
    return torch.cat([corner, corner + size] if box_format == "xyxy" else [corner + size / 2, size], dim=1)


@pytest.mark.parametrize("box_format", ["xywh", "xyxy", "cxcywh"])
def test_files_of_coco_go_there_and_back(tmp_path: Path, box_format: Any) -> None:
    """What was seen, evaluated from the files, gives the same numbers; and so does what is read of them."""
    metric = MeanAveragePrecision(box_format, keep_boxes=True)
    for batch in BATCHES:
        preds, target = ([image | {"boxes": as_format(image["boxes"], box_format)} for image in side] for side in batch)
        metric.update(preds, target)
    metric.tm_to_coco(str(tmp_path / "seen"))
    truths = boxscore.read_truths(tmp_path / "seen_target.json")
    detections = boxscore.read_detections(tmp_path / "seen_preds.json", truths)
    expected = metric.compute()
    assert torch.tensor(boxscore.evaluate(detections, truths)["map"]).float() == expected["map"]
    again = MeanAveragePrecision("xywh")
    preds, target = MeanAveragePrecision.coco_to_tm(
        str(tmp_path / "seen_preds.json"), str(tmp_path / "seen_target.json")
    )
    assert len(preds) == len(target) == 6
    assert {key: column.dtype for key, column in (preds[0] | target[0]).items()} == {
        "boxes": torch.float32,
        "scores": torch.float32,
        "labels": torch.int32,
        "iscrowd": torch.int32,
        "area": torch.float32,
    }
    again.update(preds, target)
    if box_format == "xywh":  # others are rounded to single precision on their way through
        check_equal(again.compute(), expected)


def test_files_are_those_of_torchmetrics(theirs: Any, tmp_path: Path) -> None:
    """The same rows; theirs lists one class for all."""
    ours, other = MeanAveragePrecision("xywh", keep_boxes=True), theirs("xywh")
    for metric, name in ((ours, "ours"), (other, "theirs")):
        for batch in BATCHES:
            metric.update(*batch)
        metric.tm_to_coco(str(tmp_path / name))
    for part in ("preds", "target"):
        found, expected = (json.loads((tmp_path / f"{name}_{part}.json").read_text()) for name in ("ours", "theirs"))
        if part == "target":
            assert found["images"] == expected["images"]
            labels = np.concatenate([image["labels"] for batch in BATCHES for side in batch for image in side])
            assert [row["id"] for row in found["categories"]] == np.unique(labels).tolist()
            found, expected = found["annotations"], expected["annotations"]
        assert found == [row | {"iscrowd": int(row["iscrowd"])} for row in expected]
    paths = (str(tmp_path / "theirs_preds.json"), str(tmp_path / "theirs_target.json"))
    for mine, its in zip(MeanAveragePrecision.coco_to_tm(*paths), other.coco_to_tm(*paths), strict=True):
        for image, expected in zip(mine, its, strict=False):
            assert {key: column.tolist() for key, column in image.items()} == {
                key: column.tolist() for key, column in expected.items()
            }


def test_images_without_truths_are_read_too(tmp_path: Path) -> None:
    """Their detections are false positives, which torchmetrics leaves out."""
    box = [0, 0, 10, 10]
    images = [{"id": 3}, {"id": 5}]
    target = {"images": images, "annotations": [{"image_id": 5, "category_id": 1, "bbox": box}], "categories": []}
    preds = [{"image_id": i, "category_id": 1, "bbox": box, "score": 0.5 + i / 100} for i in (3, 5)]
    for name, content in (("preds", preds), ("target", target)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    read = MeanAveragePrecision.coco_to_tm(str(tmp_path / "preds.json"), str(tmp_path / "target.json"))
    assert [len(image["labels"]) for image in read[0]] == [1, 1]
    assert [len(image["labels"]) for image in read[1]] == [1, 0]


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    """With the file and the place."""
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text('{"images": [], "annotations": []}')

    def refused(content: str, message: str) -> None:
        bad.write_text(content)
        with pytest.raises(InputError, match=message):
            MeanAveragePrecision.coco_to_tm(str(bad), str(good))

    refused("[", r"bad\.json: not JSON")
    refused("{}", r"bad\.json: must be COCO's results, a list; got dict")
    refused('[{"image_id": 1}]', r"bad\.json: result 0 must have the key 'bbox'")
    refused('[{"image_id": 1, "bbox": [1], "category_id": 1, "score": 1}]', r"image 1 is not in .*good\.json")
    with pytest.raises(InputError, match="can't be read"):
        MeanAveragePrecision.coco_to_tm(str(tmp_path / "none.json"), str(good))
    with pytest.raises(InputError, match="`iou_type` must be one of bbox, segm or a tuple of these; got 'poses'"):
        MeanAveragePrecision.coco_to_tm(str(good), str(good), "poses")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="`tm_to_coco` needs the boxes: make the metric with keep_boxes=True"):
        MeanAveragePrecision().tm_to_coco(str(tmp_path / "x"))


def test_undefined_numbers_can_be_left_out() -> None:
    """Without truths all of them are; else those of sizes that no truth has."""
    nothing = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}
    found = {"boxes": torch.tensor([[0.0, 0, 10, 10]]), "scores": torch.ones(1), "labels": torch.ones(1).int()}
    metric = MeanAveragePrecision(scalars_only=True, skip_undefined=True)
    metric.update([found], [nothing])
    assert metric.compute() == {}
    metric.update([found], [{key: found[key] for key in ("boxes", "labels")}])
    numbers = metric.compute()
    assert "map_small" in numbers
    assert "map_large" not in numbers
    assert all(value >= 0 for value in numbers.values())
    assert np.isclose(float(numbers["map"]), 0.5)
