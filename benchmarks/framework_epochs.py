"""Epochs of evaluation in frameworks: what each would have in its memory, and the calls that it makes.

Functions prepare an epoch from the folder of a workload; the frameworks are those that the tests load.
"""

import contextlib
import io
import json
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.contestants import torchmetrics_metric
from benchmarks.steps import entries_of
from benchmarks.workloads import load

BATCH = 16
"""Images."""
SIDE = 640
"""Pixels of an image in each direction."""
Epoch = Callable[[], float]
"""From predictions to numbers; its value is one of them, mAP or another of COCO's."""


class Image(NamedTuple):
    """What one image has, in xyxy."""

    id: int
    boxes: Any
    scores: Any
    labels: Any
    truth_boxes: Any
    truth_labels: Any


def images_of(folder: Path) -> list[Image]:
    """The images of a workload, as tensors. Classes are counted from 1."""
    import torch

    found, there = load(folder)

    def rows(columns: Mapping[str, Any], image: int) -> tuple[Any, ...]:
        mine = columns["image_ids"] == image
        box = columns["boxes"][mine].astype(np.float32)
        box[:, 2:] += box[:, :2]
        return torch.from_numpy(box), torch.from_numpy(columns["labels"][mine])

    images = []
    for image in range(1, int(found["image_ids"].max()) + 1):
        boxes, labels = rows(found, image)
        scores = torch.from_numpy(found["scores"][found["image_ids"] == image].astype(np.float32))
        images.append(Image(image, boxes, scores, labels, *rows(there, image)))
    return images


def batches_of(folder: Path) -> list[list[Image]]:
    """The same in batches."""
    images = images_of(folder)
    return [images[first : first + BATCH] for first in range(0, len(images), BATCH)]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what frameworks print and warn of."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _predictions(folder: Path) -> list[dict[int, Any]]:
    return [
        {image.id: {"boxes": image.boxes, "scores": image.scores, "labels": image.labels} for image in batch}
        for batch in batches_of(folder)
    ]


def torchvision_ours(folder: Path) -> Epoch:
    """`boxscore.torchvision.CocoEvaluator`."""
    from pycocotools.coco import COCO

    from boxscore.torchvision import CocoEvaluator

    truths, predictions = COCO(str(folder / "truths.json")), _predictions(folder)

    def epoch() -> float:
        evaluator = CocoEvaluator(truths, ["bbox"])
        for batch in predictions:
            evaluator.update(batch)
        evaluator.synchronize_between_processes()
        evaluator.accumulate()
        evaluator.summarize()
        return float(evaluator.coco_eval["bbox"].stats[0])

    return epoch


def torchvision_reference(folder: Path) -> Epoch:
    """The steps of the references' evaluator, over pycocotools."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truths, predictions = COCO(str(folder / "truths.json")), _predictions(folder)

    def results(image: int, prediction: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        left, top, right, bottom = prediction["boxes"].unbind(1)
        import torch

        boxes = torch.stack([left, top, right - left, bottom - top], dim=1).tolist()
        columns = prediction["labels"].tolist(), boxes, prediction["scores"].tolist()
        for label, box, score in zip(*columns, strict=True):
            yield {"image_id": image, "category_id": label, "bbox": box, "score": score}

    def epoch() -> float:
        evaluation = COCOeval(truths, iouType="bbox")
        parts = []
        for batch in predictions:
            rows = [row for image, each in batch.items() for row in results(image, each)]
            evaluation.cocoDt = COCO.loadRes(truths, rows)
            evaluation.params.imgIds = sorted(batch)
            parts.append(entries_of(evaluation))
        evaluation.params.imgIds = sorted(image for batch in predictions for image in batch)
        evaluation._paramsEval = evaluation.params
        evaluation.evalImgs = list(np.concatenate(parts, axis=2).flatten())
        evaluation.accumulate()
        evaluation.summarize()
        return float(evaluation.stats[0])

    return epoch


def faster_coco_eval(package: str) -> Callable[[Path], Epoch]:
    """The script of faster-coco-eval, from files."""

    def prepared(folder: Path) -> Epoch:
        module = __import__(package, fromlist=["COCO"])

        def epoch() -> float:
            truths = module.COCO(str(folder / "truths.json"))
            evaluation = module.COCOeval_faster(truths, truths.loadRes(str(folder / "detections.json")), "bbox")
            evaluation.run()
            return float(evaluation.stats_as_dict["AP_all"])

        return epoch

    return prepared


def _hugging_face(folder: Path) -> tuple[Any, list[tuple[Any, list[dict[str, Any]]]]]:
    """The processor of DETR; outputs and labels of each batch, as its model and its processor make them."""
    import torch
    import transformers

    def output(batch: list[Image]) -> Any:
        logits = torch.zeros(len(batch), len(batch[0].scores), 82)
        for row, image in enumerate(batch):
            chance = image.scores.clamp(1e-4, 1 - 1e-4)
            logits[row].scatter_(1, image.labels[:, None], (chance / (1 - chance) * 81).log()[:, None])
        boxes = torch.stack([_centred(each.boxes) / SIDE for each in batch])
        return transformers.models.detr.modeling_detr.DetrObjectDetectionOutput(logits=logits, pred_boxes=boxes)

    def label(image: Image) -> dict[str, Any]:
        size = torch.tensor([SIDE, SIDE])
        sizes = {"orig_size": size, "size": size, "image_id": torch.tensor([image.id])}
        return {"boxes": _centred(image.truth_boxes) / SIDE, "class_labels": image.truth_labels, **sizes}

    batches = [(output(batch), [label(image) for image in batch]) for batch in batches_of(folder)]
    return transformers.DetrImageProcessorPil(), batches


def hugging_face_ours(folder: Path) -> Epoch:
    """`boxscore.huggingface.DetectionMetrics`."""
    from boxscore.huggingface import DetectionMetrics

    processor, batches = _hugging_face(folder)

    def epoch() -> float:
        metrics = DetectionMetrics(processor, warn=False)
        for outputs, labels in batches:
            metrics.update(outputs, labels)
        return float(metrics.compute()["map"])

    return epoch


def hugging_face_example(folder: Path) -> Epoch:
    """What Transformers' example does after the loop: post-processing, then torchmetrics for all batches."""
    import torch

    processor, batches = _hugging_face(folder)

    def epoch() -> float:
        preds, targets = [], []
        for outputs, labels in batches:
            sizes = torch.stack([label["orig_size"] for label in labels])
            found = processor.post_process_object_detection(outputs, threshold=0.0, target_sizes=sizes)
            preds += [{**each, "boxes": _xywh(each["boxes"])} for each in found]
            for label in labels:
                center, extent = label["boxes"].split(2, dim=1)
                boxes = torch.cat([center - extent / 2, extent], dim=1) * SIDE
                targets.append({"boxes": boxes, "labels": label["class_labels"]})
        metric = torchmetrics_metric(class_metrics=True)
        metric.update(preds, targets)
        return float(metric.compute()["map"])

    return epoch


def _ultralytics(folder: Path, validator: Any, *, saves_json: bool) -> Epoch:
    """The calls of a validation, without the network; labels and detections are in pixels of the image."""
    import torch
    from tests.support.ultralytics_runs import without_torchvision

    batches = batches_of(folder)
    names = {label: str(label) for label in range(81)}
    labels = {
        f"{image.id}.jpg": {
            "im_file": f"{image.id}.jpg",
            "shape": (SIDE, SIDE),
            "cls": image.truth_labels[:, None].numpy().astype(np.float32),
            "bboxes": (_centred(image.truth_boxes) / SIDE).numpy(),
            "normalized": True,
            "bbox_format": "xywh",
        }
        for batch in batches
        for image in batch
    }
    num = len(labels)
    dataset = types.SimpleNamespace(labels=list(labels.values()), im_files=list(labels))
    loader = types.SimpleNamespace(dataset=dataset, sampler=range(num))
    data = {"path": ".", "val": "images", "names": names, "nc": len(names), "channels": 3}

    def batch_of(batch: list[Image]) -> dict[str, Any]:
        owner = torch.cat([torch.full((len(each.truth_labels),), row) for row, each in enumerate(batch)])
        return {
            "img": torch.zeros(len(batch), 3, SIDE, SIDE),
            "batch_idx": owner,
            "cls": torch.cat([each.truth_labels for each in batch])[:, None].float(),
            "bboxes": torch.cat([_centred(each.truth_boxes) for each in batch]) / SIDE,
            "ori_shape": [(SIDE, SIDE)] * len(batch),
            "ratio_pad": [((1.0, 1.0), (0.0, 0.0))] * len(batch),
            "im_file": [f"{each.id}.jpg" for each in batch],
        }

    def preds_of(batch: list[Image]) -> list[dict[str, Any]]:
        return [
            {"bboxes": each.boxes, "conf": each.scores, "cls": each.labels.float(), "extra": torch.zeros(100, 0)}
            for each in batch
        ]

    given = [(preds_of(batch), batch_of(batch)) for batch in batches]
    target = Path(tempfile.mkdtemp())

    def epoch() -> float:
        with without_torchvision():
            return validated()

    def validated() -> float:
        running = validator(loader, target, {"save_json": saves_json, "plots": False, "task": "detect", "mode": "val"})
        running.data, running.device = data, torch.device("cpu")
        running.init_metrics(types.SimpleNamespace(names=names))
        for preds, batch in given:
            running.update_metrics(preds, batch)
        running.gather_stats()
        stats = running.get_stats()
        running.finalize_metrics()
        if saves_json:
            (target / "predictions.json").write_text(json.dumps(running.jdict))
            stats = running.eval_json(stats)
        return float(stats["metrics/mAP_small(B)" if saves_json else "metrics/coco_map_small(B)"])

    return epoch


def _centred(boxes: Any) -> Any:
    import torch

    return torch.cat([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], dim=1)


def ultralytics_ours(folder: Path) -> Epoch:
    """`boxscore.ultralytics.DetectionValidator`: its own numbers, and COCO's."""
    from tests.support.ultralytics_runs import adapters

    return _ultralytics(folder, adapters().DetectionValidator, saves_json=False)


def ultralytics_json(folder: Path) -> Epoch:
    """Its own validator with `save_json=True`: COCO's numbers by faster-coco-eval."""
    from tests.support import oracles

    module = oracles.ultralytics("models.yolo")
    return _ultralytics(folder, module.detect.DetectionValidator, saves_json=True)


def _supervision(folder: Path) -> list[tuple[list[Any], list[Any]]]:
    import supervision as sv

    def detections(image: Image) -> Any:
        return sv.Detections(image.boxes.numpy(), confidence=image.scores.numpy(), class_id=image.labels.numpy())

    def truths(image: Image) -> Any:
        return sv.Detections(image.truth_boxes.numpy(), class_id=image.truth_labels.numpy())

    return [([*map(detections, batch)], [*map(truths, batch)]) for batch in batches_of(folder)]


def supervision_ours(folder: Path) -> Epoch:
    """`boxscore.MeanAveragePrecision` with `sv.Detections`."""
    import boxscore

    batches = _supervision(folder)

    def epoch() -> float:
        metric = boxscore.MeanAveragePrecision("coco", warn=False)
        for preds, targets in batches:
            metric.update(preds, targets)
        return metric.compute()["map"]

    return epoch


def supervision_metric(folder: Path) -> Epoch:
    """`sv.metrics.MeanAveragePrecision`."""
    from supervision.metrics import MeanAveragePrecision

    batches = _supervision(folder)

    def epoch() -> float:
        metric = MeanAveragePrecision()
        for preds, targets in batches:
            metric.update(preds, targets)
        return float(metric.compute().map50_95)

    return epoch


def rf_detr(backend: str) -> Callable[[Path], Epoch]:
    """RF-DETR's metric with one of its evaluators, or boxscore's metric as its page has it."""

    def prepared(folder: Path) -> Epoch:
        torchmetrics_metric()  # with what stands in for torchvision
        from tests.support import oracles
        from tests.support.documents import blocks

        module = oracles.rfdetr("training.coco_map")
        if backend == "boxscore":
            exec(blocks("docs/frameworks/rf-detr.md", "python")[0], {})
        given = [
            (
                {"boxes": _xywh(image.boxes), "scores": image.scores, "labels": image.labels},
                {"boxes": _xywh(image.truth_boxes), "labels": image.truth_labels},
            )
            for image in images_of(folder)
        ]

        def epoch() -> float:
            name = "faster_coco_eval" if backend == "boxscore" else backend
            metric = module.OnePassCocoMeanAveragePrecision("xywh", class_metrics=True, backend=name)
            for pred, target in given:
                metric.update([pred], [target])
            return float(metric.compute()["map"])

        return epoch

    return prepared


def _xywh(boxes: Any) -> Any:
    import torch

    return torch.cat([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], dim=1)


def sahi(*, is_patched: bool) -> Callable[[Path], Epoch]:
    """SAHI's command, from files."""

    def prepared(folder: Path) -> Epoch:
        from tests.support import oracles

        import boxscore

        if is_patched:
            boxscore.patch_pycocotools()
        evaluate = oracles.sahi_evaluation().evaluate
        files = str(folder / "truths.json"), str(folder / "detections.json")

        def epoch() -> float:
            with tempfile.TemporaryDirectory() as out:
                report = evaluate(*files, out_dir=out, return_dict=True)
            return float(report["eval_results"]["bbox_mAP"])

        return epoch

    return prepared


def mmdetection(*, is_patched: bool) -> Callable[[Path], Epoch]:
    """Mmdetection's CocoMetric."""

    def prepared(folder: Path) -> Epoch:
        from tests.support import oracles

        import boxscore

        if is_patched:
            boxscore.patch_pycocotools()
        module = oracles.mmdet_coco_metric()
        path = folder / "truths.json"
        names = [each["name"] for each in json.loads(path.read_text())["categories"]]
        preds = [
            {
                "bboxes": image.boxes.numpy(),
                "scores": image.scores.numpy(),
                "labels": image.labels.numpy() - 1,
                "img_id": image.id,
            }
            for image in images_of(folder)
        ]

        def epoch() -> float:
            metric = module.CocoMetric(str(path))
            metric.dataset_meta = {"classes": names}
            return float(metric.compute_metrics([({}, pred) for pred in preds])["bbox_mAP"])

        return epoch

    return prepared
