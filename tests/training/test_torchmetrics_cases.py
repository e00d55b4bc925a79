"""What torchmetrics tests of its own class holds for ours: on COCO's files, on wrong input, and in what it warns of."""

import contextlib
import io
import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from boxscore.torchmetrics import MeanAveragePrecision
from tests.support.shared import shared_data
from tests.support.torchmetrics_results import IN_DOUBLE, NUMBERS, check_equal

Batches = list[tuple[list[Any], list[Any]]]


@pytest.fixture(scope="module")
def files() -> list[str]:
    """The paths of COCO's example results and of the truths."""
    names = ("fakebbox100_results", "100")
    return [str(shared_data(f"val2014_100/instances_val2014_{name}.json")) for name in names]


@pytest.fixture(scope="module")
def batches(files: list[str]) -> Batches:
    """10 batches of 10 images, in the order of the truths in the file."""
    preds, target = MeanAveragePrecision.coco_to_tm(files[0], files[1])
    assert len(preds) == len(target) == 100
    return [(preds[i : i + 10], target[i : i + 10]) for i in range(0, 100, 10)]


def forwarded(metric: Any, batches: Batches) -> dict[str, Any]:
    """What `compute` gives after `forward` of all batches, with a pickle before and after."""
    metric = pickle.loads(pickle.dumps(metric))
    for preds, target in batches:
        metric(preds, target)
    result: dict[str, Any] = pickle.loads(pickle.dumps(metric)).compute()
    return result


FEW = [0.25, 0.5, 0.75]


@pytest.mark.parametrize("settings", [{}, {"iou_thresholds": FEW}, {"rec_thresholds": FEW}, {"class_metrics": True}])
def test_on_files_of_coco_all_is_as_torchmetrics_gives_it(
    theirs: Any, batches: Batches, settings: dict[str, Any]
) -> None:
    """Keys, shapes, dtypes and bits, after `forward` and pickles."""
    ours = forwarded(MeanAveragePrecision("xywh", **settings), batches)
    other = theirs("xywh", **(IN_DOUBLE | settings))
    for preds, target in batches:
        other.update(preds, target)
    check_equal(ours, other.compute())


def test_on_files_of_coco_the_numbers_are_those_of_pycocotools(files: list[str], batches: Batches) -> None:
    """To the last bit of single precision, with images by id, which breaks ties of score as pycocotools does."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    annotations = json.loads(Path(files[1]).read_text())["annotations"]
    ids = list(dict.fromkeys(truth["image_id"] for truth in annotations))
    images = [image for preds, target in batches for image in zip(preds, target, strict=True)]
    in_order = [images[index] for index in np.argsort(ids)]
    found = forwarded(MeanAveragePrecision("xywh"), [([pred], [target]) for pred, target in in_order])
    with contextlib.redirect_stdout(io.StringIO()):
        truths = COCO(files[1])
        evaluation = COCOeval(truths, truths.loadRes(files[0]), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    assert [found[name].item() for name in NUMBERS] == evaluation.stats.astype(np.float32).tolist()


@pytest.mark.parametrize("name", ["is_differentiable", "higher_is_better"])
def test_what_is_constant_cannot_be_set(name: str) -> None:
    """As in every metric of torchmetrics."""
    with pytest.raises(RuntimeError, match="Can't change const"):
        setattr(MeanAveragePrecision(), name, True)


NONE, NO_LABELS = torch.zeros(0), torch.zeros(0, dtype=torch.int32)
PRED, TARGET = {"boxes": NONE, "scores": NONE, "labels": NO_LABELS}, {"boxes": NONE, "labels": NO_LABELS}


def without(image: dict[str, Any], key: str) -> dict[str, Any]:
    """The same without one key."""
    return {name: column for name, column in image.items() if name != key}


@pytest.mark.parametrize(
    ("preds", "target"),
    [
        (torch.zeros(0), []),
        ([], torch.zeros(0)),
        ([{}], [{}, {}]),
        *(([without(PRED, key)], [TARGET]) for key in PRED),
        *(([PRED], [without(TARGET, key)]) for key in TARGET),
        *(([PRED | {key: torch.Tensor}], [TARGET]) for key in PRED),
        ([PRED | {"labels": torch.zeros(2, dtype=torch.int32)}], [TARGET]),
        ([PRED], [TARGET | {"labels": torch.zeros(2, dtype=torch.int32)}]),
    ],
)
def test_batches_that_torchmetrics_refuses_are_value_errors(theirs: Any, preds: Any, target: Any) -> None:
    """So what catches its errors catches ours."""
    for metric in (theirs(), MeanAveragePrecision()):
        metric.update([], [])
        with pytest.raises(ValueError, match=r"."):
            metric.update(preds, target)


@pytest.mark.parametrize(
    "settings",
    [
        {"box_format": "xxyy"},
        {"iou_type": "boxes"},
        {"iou_thresholds": 0.5},
        {"rec_thresholds": 0.5},
        {"max_detection_thresholds": 100},
        {"class_metrics": 0},
        {"extended_summary": 1},
        {"average": "weighted"},
        {"backend": "lvis"},
    ],
    ids=str,
)
def test_settings_that_torchmetrics_refuses_are_value_errors(theirs: Any, settings: dict[str, Any]) -> None:
    """One for each of its arguments."""
    for kind in (theirs, MeanAveragePrecision):
        with pytest.raises(ValueError, match=r"."):
            kind(**settings)


def test_lists_are_taken_as_tensors_are() -> None:
    """Torchmetrics refuses them."""
    box = [[0.0, 0.0, 10.0, 10.0]]
    metric = MeanAveragePrecision()
    metric.update([{"boxes": box, "scores": [0.5], "labels": [1]}], [{"boxes": box, "labels": [1]}])
    metric.update([{"boxes": [], "scores": [], "labels": []}], [{"boxes": [], "labels": []}])
    assert metric.compute()["map"] == 1


def test_filters_for_the_warning_of_torchmetrics_take_ours(theirs: Any) -> None:
    """That of too many detections begins with its words."""
    batch = (
        [{"boxes": torch.ones(101, 4), "scores": torch.ones(101), "labels": torch.zeros(101, dtype=torch.int64)}],
        [{"boxes": torch.ones(1, 4), "labels": torch.zeros(1, dtype=torch.int64)}],
    )
    with pytest.warns(UserWarning, match="Encountered") as warned:
        theirs("xywh").update(*batch)
    beginning = str(warned[0].message).partition(".")[0]
    assert beginning == "Encountered more than 100 detections in a single image"
    with pytest.warns(UserWarning, match=f"^{re.escape(beginning)}: 101 are of one class, of which the 100 with"):
        MeanAveragePrecision("xywh").update(*batch)


def test_one_batch_of_forward_is_no_mistake() -> None:
    """Though nothing in it is found; `compute` over all tells of the mistake, from the boxes of the first batches."""
    boxes = torch.arange(10.0).reshape(10, 1, 1) * 10 + torch.tensor([[0.0, 0.0, 9.0, 9.0]])
    labels = torch.arange(10).reshape(10, 1)
    metric = MeanAveragePrecision("xywh")
    metric([PRED], [{"boxes": boxes[0], "labels": labels[0]}])
    for box, label in zip(boxes, labels, strict=True):
        metric([{"boxes": box, "scores": torch.tensor([0.9]), "labels": label + 1}], [{"boxes": box, "labels": label}])
    with pytest.warns(UserWarning, match="the labels of `preds` look one too high"):
        metric.compute()
