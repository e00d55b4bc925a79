"""Real clients of faster_coco_eval, over the real package and then over ours: what test_faster_coco_eval runs.

Prints the results of both as JSON. It is a process of its own, as it gives the clients the parts of torchvision that
they ask for, which is not installed.
"""

import contextlib
import io
import json
import logging
import sys
import types
from typing import Any

import torch
import torchmetrics.detection.mean_ap as torchmetrics_module

import boxscore
from tests.support import oracles
from tests.support.evaluators import in_batches, predictions_of, scene_of, truths_of


def stub_torchvision() -> None:
    """The one function of torchvision that torchmetrics calls, for boxes that need no conversion."""

    def box_convert(boxes: Any, in_fmt: str, out_fmt: str) -> Any:
        assert in_fmt == "xyxy"
        assert out_fmt == "xywh"
        return torch.cat([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], dim=1)

    ops: Any = types.ModuleType("torchvision.ops")
    ops.box_convert = box_convert
    sys.modules |= {"torchvision": types.ModuleType("torchvision"), "torchvision.ops": ops}
    setattr(torchmetrics_module, "_TORCHVISION_AVAILABLE", True)  # noqa: B010 — mypy knows it as a constant


def ultralytics_numbers(validator: Any, *, is_lvis: bool) -> Any:
    """`DetectionValidator.eval_json` of Ultralytics, over ground truth in memory."""
    dataset, results = scene_of("bbox", 3)
    for category in dataset["categories"]:
        category["frequency"] = "rcf"[category["id"] % 3]
    for image in dataset["images"]:
        image["neg_category_ids"], image["not_exhaustive_category_ids"] = [1], [0]
    results.sort(key=lambda row: row["image_id"])
    own = validator.__new__(validator)
    own.args = types.SimpleNamespace(save_json=True, split="val")
    own.training, own.is_coco, own.is_lvis = False, not is_lvis, is_lvis
    own.jdict, own.gdict = results, dataset
    own.pred_counts = [sum(row["image_id"] == image["id"] for row in results) for image in dataset["images"]]
    return own.eval_json({})


def rfdetr_numbers(kind: str) -> Any:
    """RF-DETR's own evaluator, imported anew, and its metric of keypoints."""
    for name in [name for name in sys.modules if name.startswith("rfdetr")]:
        del sys.modules[name]
    evaluation = oracles.rfdetr("evaluation.coco_eval")
    dataset, results = scene_of(kind, 3)
    batches = list(in_batches(predictions_of(dataset, results, kind), 3))
    evaluator = evaluation.CocoEvaluator(truths_of(dataset), [kind], max_dets=300)
    for batch in batches:
        evaluator.update(batch)
    evaluator.synchronize_between_processes()
    evaluator.accumulate()
    numbers = {"stats": evaluator.coco_eval[kind].stats.tolist()}
    if kind == "keypoints":
        metric = oracles.rfdetr("evaluation.keypoint_oks").MetricKeypointOKS(truths_of(dataset))
        for batch in batches:
            metric.update(batch)
        numbers |= {str(key): value for key, value in metric.compute().items()}
    return numbers


def torchmetrics_numbers(metric: Any) -> Any:
    """A metric in the manner of torchmetrics, over random boxes and masks."""
    random = torch.Generator().manual_seed(0)
    for _ in range(3):
        sides = []
        for num in (20, 6):
            box = torch.rand(num, 4, generator=random) * 30
            box[:, 2:] += box[:, :2] + 1
            mask = torch.zeros(num, 64, 64, dtype=torch.bool)
            for row, (left, top, right, bottom) in enumerate(box.int().tolist()):
                mask[row, top:bottom, left:right] = True
            label = torch.randint(0, 3, (num,), generator=random)
            sides.append({"boxes": box, "labels": label, "masks": mask, "scores": torch.rand(num, generator=random)})
        metric.update(sides[:1], [{key: value for key, value in sides[1].items() if key != "scores"}])
    return {name: value.tolist() for name, value in metric.compute().items()}


def numbers(validator: Any) -> Any:
    """Those of all clients."""
    found: Any = {"ultralytics": ultralytics_numbers(validator, is_lvis=False)}
    found["ultralytics lvis"] = ultralytics_numbers(validator, is_lvis=True)
    for kind in ("bbox", "segm", "keypoints"):
        found[f"rfdetr {kind}"] = rfdetr_numbers(kind)
    settings: Any = {"backend": "faster_coco_eval", "class_metrics": True, "iou_type": ("bbox", "segm")}
    found["torchmetrics"] = torchmetrics_numbers(torchmetrics_module.MeanAveragePrecision(**settings))
    module = oracles.rfdetr("training.coco_map")
    found["rfdetr training"] = torchmetrics_numbers(module.OnePassCocoMeanAveragePrecision(**settings))
    return found


def main() -> None:
    """The clients over both."""
    validator = oracles.ultralytics("models.yolo.detect.val").DetectionValidator
    logging.disable()
    stub_torchvision()
    with contextlib.redirect_stdout(io.StringIO()):
        theirs = numbers(validator)
        for name in [name for name in sys.modules if name.startswith("rfdetr")]:
            del sys.modules[name]
        with boxscore.patch_faster_coco_eval():
            ours = numbers(validator)
            used = sys.modules["rfdetr.evaluation.coco_eval"].COCOeval.__module__
    print(json.dumps({"theirs": theirs, "ours": ours, "used": used}))  # noqa: T201 — for the test


if __name__ == "__main__":
    main()
