"""Ultralytics' validators with COCO's numbers, its results as detections, and the files that it writes."""

import contextlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

import boxscore
from tests.support import ultralytics_runs as runs
from tests.support.page_runs import run_page

VALIDATORS = {
    "detect": "DetectionValidator",
    "segment": "SegmentationValidator",
    "pose": "PoseValidator",
    "obb": "OBBValidator",
}
IOU_TYPES = {"detect": {"B": "bbox"}, "segment": {"B": "bbox", "M": "segm"}, "pose": {"B": "bbox", "P": "keypoints"}}


class Run:
    """One validation: its data, its folder and its metrics."""

    def __init__(self, task: str, folder: Path) -> None:
        self.task, self.folder = task, folder / "run"
        self.data = runs.write_dataset(folder / "data", task)
        validator = runs.planned(getattr(runs.adapters(), VALIDATORS[task]))
        settings: dict[str, Any] = {"save_json": True, "save_txt": True, "save_conf": True, "overlap_mask": False}
        self.metrics = runs.validate(self.data, task, self.folder, validator, **settings)
        self.predictions = json.loads((self.folder / "predictions.json").read_text())

    def truths(self, iou_type: Any) -> dict[str, Any]:
        """The labels as COCO's JSON."""
        made = runs.truths_as_json(self.data, self.task)
        for each in made["annotations"]:
            each["area"] *= 0.53 if iou_type == "keypoints" else 1
        return made


@pytest.fixture(scope="module")
def all_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """A validation of each task."""
    return {task: Run(task, tmp_path_factory.mktemp(task)) for task in VALIDATORS}


def reference(truths: Any, results: Any, iou_type: Any) -> list[float]:
    """The numbers of pycocotools."""
    with contextlib.redirect_stdout(io.StringIO()):
        ground = COCO()
        ground.dataset = truths
        ground.createIndex()
        evaluation = COCOeval(ground, ground.loadRes(results), iou_type)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return [float(each) for each in evaluation.stats]


def numbers_of(metrics: Any, letter: str) -> list[float]:
    """COCO's numbers in `results_dict`, in order."""
    return [v for k, v in metrics.results_dict.items() if k.startswith("metrics/coco_") and k.endswith(f"({letter})")]


@pytest.mark.parametrize("task", VALIDATORS)
def test_predictions_that_can_not_be_are_dropped(all_runs: dict[str, Run], task: str, tmp_path: Path) -> None:
    """COCO's numbers are those of the run without them, and say so."""
    import torch

    class Spoilt(runs.planned(getattr(runs.adapters(), VALIDATORS[task]))):  # type: ignore[misc]
        def postprocess(self, outputs: Any) -> Any:
            found = super().postprocess(outputs)
            for pred in found:
                for key, column in pred.items():
                    pred[key] = torch.cat([column, column[:1]])
                pred["bboxes"][-1:] = torch.nan
            return found

    run = all_runs[task]
    metrics = runs.validate(run.data, task, tmp_path / "run", Spoilt, overlap_mask=False)
    for letter, result in metrics.coco.items():
        assert result.num_invalid > 0
        assert same(result, run.metrics.coco[letter])


@pytest.mark.usefixtures("libm_exp")
@pytest.mark.parametrize(("task", "letter"), [(task, letter) for task, types in IOU_TYPES.items() for letter in types])
def test_numbers_are_those_of_pycocotools_on_predictions_json(all_runs: dict[str, Run], task: str, letter: str) -> None:
    """All of them, to the bit, from the file that the same run has written."""
    run, iou_type = all_runs[task], IOU_TYPES[task][letter]
    expected = reference(run.truths(iou_type), run.predictions, iou_type)
    assert 0.05 < expected[0] < 0.95
    assert numbers_of(run.metrics, letter) == expected


def test_oriented_boxes_have_the_numbers_of_the_corners_in_predictions_json(all_runs: dict[str, Run]) -> None:
    """Under COCO's rules, with the exact IoU; from the file, and from rows made by hand."""
    run = all_runs["obb"]
    truths = boxscore.read_truths(run.data, iou_type="obb")
    by_hand = boxscore.Detections(
        image_ids=[row["image_id"] for row in run.predictions],
        labels=[row["category_id"] - 1 for row in run.predictions],
        scores=[row["score"] for row in run.predictions],
        boxes=[row["poly"] for row in run.predictions],
        box_format="xyxyxyxy",
    )
    expected = boxscore.evaluate(by_hand, truths)
    assert 0.05 < expected["map"] < 0.95
    assert same(run.metrics.coco["B"], expected)
    read = boxscore.read_detections(run.folder / "predictions.json", truths, iou_type="obb")
    assert same(boxscore.evaluate(read, truths), expected)
    turned: Any = {"iou_type": "obb", "box_format": "cxcywha:radians"}  # `rbox`, whose angles have three digits
    rounded = boxscore.evaluate(boxscore.read_detections(run.folder / "predictions.json", truths, **turned), truths)
    assert rounded["map_50"] == pytest.approx(expected["map_50"], abs=0.05)


def same(one: Any, other: Any) -> bool:
    """Whether two results have the same numbers, to the bit."""
    return np.array_equal([*one.values()], [*other.values()], equal_nan=True) and [*one] == [*other]


FILES = [(task, letter, iou) for task, types in IOU_TYPES.items() for letter, iou in types.items()]


@pytest.mark.parametrize(("task", "letter", "iou_type"), FILES)
def test_predictions_json_is_read_with_the_labels_of_data_yaml(
    all_runs: dict[str, Run], task: str, letter: str, iou_type: Any
) -> None:
    """Whose classes count from 0, those of the file from 1: the numbers are those of the run."""
    run = all_runs[task]
    truths = boxscore.read_truths(run.data, iou_type=iou_type)
    found = boxscore.read_detections(run.folder / "predictions.json", truths, iou_type=iou_type)
    protocol: Any = "coco_keypoints" if iou_type == "keypoints" else "coco"
    assert same(boxscore.evaluate(found, truths, protocol), run.metrics.coco[letter])


@pytest.mark.parametrize(("task", "iou_type"), [("detect", "bbox"), ("segment", "segm"), ("pose", "keypoints")])
def test_labels_of_save_txt_are_the_detections_of_predictions_json(
    all_runs: dict[str, Run], task: str, iou_type: Any
) -> None:
    """In the same order, with six digits of fractions in place of three of pixels."""
    run = all_runs[task]
    truths = boxscore.read_truths(run.data, iou_type=iou_type)
    read = [
        boxscore.read_detections(run.folder / name, truths, iou_type=iou_type)
        for name in ("labels", "predictions.json")
    ]
    text, rows = (
        {"image_ids": each.image_ids, "labels": each.labels, "scores": np.asarray(each.scores)} for each in read
    )
    order = np.argsort(rows["image_ids"], kind="stable")
    assert np.array_equal(text["image_ids"], rows["image_ids"][order])
    assert np.array_equal(text["labels"], rows["labels"][order])
    assert np.abs(text["scores"] - rows["scores"][order]).max() <= 1e-5
    if task == "detect":
        corner = read[0].boxes - np.c_[read[0].boxes[:, 2:] / 2, np.zeros((len(read[0]), 2))]
        assert np.abs(corner - read[1].boxes[order]).max() < 0.002


def test_ultralytics_own_numbers_stay(all_runs: dict[str, Run], tmp_path: Path) -> None:
    """They are those of its own validator on the same detections."""
    from ultralytics.models.yolo.detect import DetectionValidator

    run = all_runs["detect"]
    theirs = runs.validate(run.data, "detect", tmp_path / "run", runs.planned(DetectionValidator)).results_dict
    ours = run.metrics.results_dict
    assert {key: ours[key] for key in theirs} == theirs
    assert all(key.startswith("metrics/coco_") for key in ours.keys() - theirs.keys())


def write_coco(folder: Path) -> Path:
    """The dataset of a run where Ultralytics takes it for COCO: 80 classes, val2017.txt and COCO's annotations."""
    data = runs.write_dataset(folder / "coco", "detect")
    made = runs.truths_as_json(data, "detect")
    ids = [1, 2, 3, *range(4, 12), *range(13, 26), 27, 28, *range(31, 45), *range(46, 66), 67, 70, *range(72, 83)]
    ids += range(84, 91)
    made["categories"] = [{"id": number, "name": f"class {number}"} for number in ids]
    made["annotations"][3] |= {"iscrowd": 1}
    made["annotations"][5] |= {"area": 5000.0}
    (folder / "coco" / "annotations").mkdir()
    runs.write_json(folder / "coco" / "annotations" / "instances_val2017.json", made)
    images = [f"./images/val/{index:012}.png\n" for index in range(len(runs.SIZES))]
    (folder / "coco" / "val2017.txt").write_text("".join(images))
    names = "".join(f"  {label}: class {number}\n" for label, number in enumerate(ids))
    data.write_text(f"path: {folder / 'coco'}\ntrain: val2017.txt\nval: val2017.txt\nnames:\n{names}")
    return data


def test_coco_itself_is_evaluated_with_its_annotations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which have crowds, and areas of masks, and ids with gaps; the number is the one that papers report."""
    data = write_coco(tmp_path)
    names = [line.split(": ")[1] for line in data.read_text().splitlines() if line.startswith("  ")]
    monkeypatch.setattr(runs, "NAMES", names)
    metrics = runs.validate(data, "detect", tmp_path / "run", runs.planned(runs.adapters().DetectionValidator))
    truths = json.loads((tmp_path / "coco" / "annotations" / "instances_val2017.json").read_text())
    predictions = json.loads((tmp_path / "run" / "predictions.json").read_text())  # Ultralytics writes it for COCO
    expected = reference(truths, predictions, "bbox")
    assert expected[4] != -1, "the area of 5000"
    assert numbers_of(metrics, "B") == expected


def test_the_page_runs_and_its_training_has_the_numbers_in_results_csv(
    all_runs: dict[str, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the same columns for every epoch, also where an epoch is not validated."""
    run = all_runs["detect"]
    monkeypatch.chdir(tmp_path)
    shutil.copytree(run.data.parent, tmp_path, dirs_exist_ok=True)
    shutil.copytree(run.folder, tmp_path / "run")
    settings: dict[str, Any] = {"imgsz": 32, "batch": 5, "workers": 0, "amp": False, "plots": False, "val": False}
    settings["deterministic"] = False  # which is a setting of PyTorch
    settings |= {"project": str(tmp_path), "name": "trained", "exist_ok": True, "device": "cpu", "verbose": False}
    names: dict[str, Any] = {"weights": "yolo11n.yaml", "settings": settings}
    with runs.without_torchvision():
        run_page("docs/frameworks/ultralytics.md", tmp_path, names, capsys)
    header, *rows = (tmp_path / "trained" / "results.csv").read_text().splitlines()
    keys = runs.adapters().DetectionTrainer.validator_class.coco_keys()
    assert [key for key in header.split(",") if "coco" in key] == keys
    assert len(keys) == 12
    assert [len(row.split(",")) for row in rows] == [len(header.split(","))] * 2
    values = dict(zip(header.split(","), rows[1].split(","), strict=True))
    assert float(values["metrics/coco_map_large(B)"]) == -1, "the last epoch is validated, and has no large truths"
