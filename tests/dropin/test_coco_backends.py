"""boxscore as the COCO evaluator of RF-DETR and SAHI: their own functions give their own numbers."""

import contextlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import boxscore
from boxscore.cli import sample
from tests.support import oracles
from tests.support.documents import blocks
from tests.support.page_runs import run_page
from tests.support.page_setups import write_sample
from tests.support.world_of_coco import SCENE
from tests.support.world_of_metrics import as_dicts

METRIC, BACKEND = blocks("docs/frameworks/rf-detr.md", "python")


@pytest.fixture
def coco_map(theirs: Any) -> Iterator[Any]:
    """RF-DETR's module of the metric, which its pages change."""
    module = oracles.rfdetr("training.coco_map")
    known = dict(module._BACKENDS), module.OnePassCocoMeanAveragePrecision
    yield module
    module._BACKENDS.clear()
    module._BACKENDS.update(known[0])
    module.OnePassCocoMeanAveragePrecision = known[1]


def computed(module: Any, backend: str, **settings: Any) -> dict[str, Any]:
    """What RF-DETR's metric computes of a scene, with masks that are the boxes."""
    metric = module.OnePassCocoMeanAveragePrecision("xywh", class_metrics=True, backend=backend, **settings)
    for image in range(SCENE.num_images):
        pred, target = as_dicts(SCENE, image)
        target |= {"iscrowd": target["iscrowd"].int()}
        if "segm" in settings.get("iou_type", ()):
            pred["masks"], target["masks"] = _drawn(pred["boxes"]), _drawn(target["boxes"])
        metric.update([pred], [target])
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # hotcoco's own
        return metric.compute()  # type: ignore[no-any-return]


def _drawn(boxes: Any) -> Any:
    masks = torch.zeros((len(boxes), 120, 120), dtype=torch.bool)
    for mask, (left, top, width, height) in zip(masks, boxes.int().tolist(), strict=True):
        mask[max(top, 0) : top + height, max(left, 0) : left + width] = True
    return masks


SETTINGS: list[dict[str, Any]] = [
    {},
    {"max_detection_thresholds": [1, 10, 500]},
    {"iou_type": ("bbox", "segm"), "max_detection_thresholds": [1, 10, 500]},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("page", [METRIC, BACKEND], ids=["metric", "backend"])
def test_rf_detr_gets_the_numbers_of_its_own_evaluator(coco_map: Any, page: str, settings: dict[str, Any]) -> None:
    """Every tensor, by either way of the page: aggregates, classes, areas, the limit of 500."""
    expected = computed(coco_map, "faster_coco_eval", **settings)
    exec(page, {})
    found = computed(coco_map, "ufcoco" if page == BACKEND else "faster_coco_eval", **settings)
    prefix = "bbox_" if "iou_type" in settings else ""
    assert 0 < expected[f"{prefix}map"] < 1
    check_tensors(found, expected)


def check_tensors(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """All of them are equal, to the bit."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


def test_rf_detr_gets_the_numbers_of_hotcoco(coco_map: Any) -> None:
    """Its fast evaluator that is installed here."""
    expected = computed(coco_map, "hotcoco")
    exec(METRIC, {})
    check_tensors(computed(coco_map, "hotcoco"), expected)


@pytest.mark.parametrize("settings", [{}, {"classwise": True, "max_detections": 3}, {"iou_thrs": [0.4]}], ids=str)
def test_sahi_gets_the_numbers_of_pycocotools(tmp_path: Path, settings: dict[str, Any]) -> None:
    """From the patch, and from the classes that `evaluate_core` takes; its text is the same, too."""
    sahi = oracles.sahi_evaluation()
    write_sample(tmp_path)
    files = str(tmp_path / "truths.json"), str(tmp_path / "detections.json")
    outcomes = []
    for kind in ("pycocotools", "patch", "classes"):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.ExitStack() as stack:
            if kind == "classes":
                classes: dict[str, Any] = {"COCO": boxscore.coco.COCO, "COCOeval": boxscore.coco.COCOeval}
                report = sahi.evaluate_core(*files, **classes, out_dir=str(tmp_path), **settings)
            else:
                if kind == "patch":
                    stack.enter_context(boxscore.patch_pycocotools())
                report = sahi.evaluate(*files, out_dir=str(tmp_path), return_dict=True, **settings)
        lines = [line for line in printed.getvalue().splitlines() if "t=" not in line]
        outcomes.append((report["eval_results"], lines))
    assert 0 < outcomes[0][0]["bbox_mAP"] < 1
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_the_page_on_sahi_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it stands, on the sample; with SAHI's own limit its number is that of the sample."""
    oracles.sahi_evaluation()
    write_sample(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    run_page("docs/frameworks/sahi.md", tmp_path, names, capsys)
    protocol = boxscore.Protocol.named("coco", limits=(500,))
    found = boxscore.evaluate(*sample.load(), protocol)["map"]
    assert names["report"]["eval_results"]["bbox_mAP"] == np.round(found, 3)
