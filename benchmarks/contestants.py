"""Who takes part: how each tool loads a workload, and what is measured of it.

A contestant has `load`, which is not measured: detections and truths in the tool's own form. `run` is: COCO's twelve
numbers and its arrays, which peers build in any case. It gives the numbers and, if they were built, the precisions.
"""

import contextlib
import io
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from benchmarks.workloads import load

STATS = ["map", "map_50", "map_75", "map_small", "map_medium", "map_large"]
STATS += ["mar_1", "mar_10", "mar_100", "mar_small", "mar_medium", "mar_large"]


class Contestant(NamedTuple):
    """One tool."""

    package: str
    load: Callable[[Path], Any]
    run: Callable[[Any, int], tuple[Any, Any]]
    is_exact: bool = True
    """Whether it claims pycocotools' bits."""


def _load_boxscore(folder: Path) -> Any:
    return load(folder)


def _run_boxscore(loaded: Any, threads: int, *, is_with_arrays: bool = False) -> tuple[Any, Any]:
    """The numbers and the table of classes; arrays are built when they are read."""
    import boxscore

    found, there = loaded
    detections = boxscore.Detections(**found, box_format="xywh")
    truths = boxscore.Truths(**there, box_format="xywh")
    return _read(boxscore.evaluate(detections, truths, threads=threads), is_with_arrays=is_with_arrays)


def _read(result: Any, *, is_with_arrays: bool) -> tuple[Any, Any]:
    numbers = [result[name] for name in STATS]
    list(result.per_class.rows())
    if not is_with_arrays:
        return numbers, None
    np.asarray(result.curves.scores)
    return numbers, result.curves.precision


def _matrix(folder: Path) -> np.ndarray:
    """Detections as pycocotools' `loadRes` takes an array."""
    found, _ = load(folder)
    return np.column_stack([found["image_ids"], found["boxes"], found["scores"], found["labels"]])


def _drop_in(import_name: str, evaluator: str) -> tuple[Callable[[Path], Any], Callable[[Any, int], tuple[Any, Any]]]:
    def load_it(folder: Path) -> Any:
        module = __import__(import_name, fromlist=["COCO"])
        with contextlib.redirect_stdout(io.StringIO()):
            truths = module.COCO(str(folder / "truths.json"))
            return truths, truths.loadRes(_matrix(folder))

    def run_it(loaded: Any, threads: int) -> tuple[Any, Any]:
        del threads  # set in the environment, before the tool is imported
        name, _, attribute = evaluator.rpartition(".")
        module = __import__(name, fromlist=[attribute])
        with contextlib.redirect_stdout(io.StringIO()):
            evaluation = getattr(module, attribute)(*loaded, "bbox")
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        return list(evaluation.stats[:12]), np.asarray(evaluation.eval["precision"])

    return load_it, run_it


def _load_vernier(folder: Path) -> Any:
    from vernier import instance

    return instance.CocoDataset.from_json((folder / "truths.json").read_bytes()), _matrix(folder)


def _run_vernier(loaded: Any, threads: int) -> tuple[Any, Any]:
    from vernier import instance

    summary = instance.evaluate_bbox_summary(
        *loaded, parity_mode="strict", max_dets=[1, 10, 100], use_cats=True, num_threads=threads
    )
    return list(summary.stats), None


def load_stream(folder: Path) -> Any:
    """Batches of 16 images, in each tool's own form: one dict of tensors per image, and hotcoco's dicts and arrays."""
    import torch

    found, there = load(folder)

    def images(columns: dict[str, Any], keys: dict[str, str]) -> list[dict[str, Any]]:
        order = np.argsort(columns["image_ids"], kind="stable")
        cuts = np.searchsorted(columns["image_ids"][order], np.arange(2, found["image_ids"].max() + 1))
        parts = {key: np.split(columns[name][order], cuts) for key, name in keys.items()}
        dtypes = {"boxes": torch.float64, "scores": torch.float64, "area": torch.float64}
        return [
            {key: torch.as_tensor(parts[key][i], dtype=dtypes.get(key, torch.int64)) for key in keys}
            for i in range(len(cuts) + 1)
        ]

    return (
        images(found, {key: key for key in ("boxes", "scores", "labels")}),
        images(there, {"boxes": "boxes", "labels": "labels", "iscrowd": "ignore", "area": "area"}),
    )


def load_padded_stream(folder: Path) -> Any:
    """The same batches, padded: one dict of tensors (16, D, …) per side, labels -1 where there is no row."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    def padded(images: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        fill = {"labels": -1}
        return {key: pad_sequence([image[key] for image in images], True, fill.get(key, 0)) for key in images[0]}

    sides = load_stream(folder)
    return [tuple(padded(images[first : first + 16]) for images in sides) for first in range(0, len(sides[0]), 16)]


def _run_hotcoco_stream(loaded: Any, threads: int) -> tuple[Any, Any]:
    del threads  # set in the environment, before the tool is imported
    import hotcoco

    labels = sorted({int(label) for image in loaded[1] for label in image["labels"]} | set(range(1, 81)))
    stream = hotcoco.StreamingEval([{"id": label, "name": str(label)} for label in labels], iou_type="bbox")
    num_seen = 0
    for first in range(0, len(loaded[0]), 16):
        found, there = (images[first : first + 16] for images in loaded)
        annotations = []
        for place, image in enumerate(there):
            columns = (image[key].tolist() for key in ("labels", "boxes", "area", "iscrowd"))
            for label, box, area, is_crowd in zip(*columns, strict=True):
                num_seen += 1
                row = {"id": num_seen, "image_id": first + place, "category_id": label, "bbox": box}
                annotations.append(row | {"area": area, "iscrowd": is_crowd})
        matrix = [
            np.column_stack(
                [np.full(len(image["scores"]), first + place), image["boxes"], image["scores"], image["labels"]]
            )
            for place, image in enumerate(found)
        ]
        stream.update([{"id": first + place} for place in range(len(found))], annotations, np.concatenate(matrix))
    evaluation = stream.finalize()
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation.accumulate()
        evaluation.summarize()
    arrays: Any = evaluation.eval
    return list(evaluation.stats[:12]), np.asarray(arrays["precision"])


def _run_boxscore_stream(loaded: Any, threads: int, *, is_with_arrays: bool = False) -> tuple[Any, Any]:
    import boxscore

    metric = boxscore.MeanAveragePrecision("coco", box_format="xywh", threads=threads)
    for first in range(0, len(loaded[0]), 16):
        metric.update(*(images[first : first + 16] for images in loaded))
    result = metric.compute()
    return _read(result, is_with_arrays=is_with_arrays)


def _run_boxscore_padded_stream(loaded: Any, threads: int) -> tuple[Any, Any]:
    import boxscore

    metric = boxscore.MeanAveragePrecision("coco", box_format="xywh", threads=threads)
    for preds, targets in loaded:
        metric.update(preds, targets)
    return _read(metric.compute(), is_with_arrays=False)


def _stream_into(metric: Any, loaded: Any) -> tuple[Any, Any]:
    for first in range(0, len(loaded[0]), 16):
        metric.update(*(images[first : first + 16] for images in loaded))
    result = metric.compute()
    return [float(result[name]) for name in STATS], None


def torchmetrics_metric(**settings: Any) -> Any:
    """Torchmetrics' own metric, with faster-coco-eval behind it.

    It wants torchvision for one function, which has nothing to do where boxes are xywh already.
    """
    import torchmetrics.detection.mean_ap as module

    ops = ModuleType("torchvision.ops")
    ops.box_convert = lambda boxes, **_: boxes  # type: ignore[attr-defined]
    sys.modules.update({"torchvision": ModuleType("torchvision"), "torchvision.ops": ops})
    module._TORCHVISION_AVAILABLE = True
    metric = module.MeanAveragePrecision(box_format="xywh", backend="faster_coco_eval", **settings)
    metric.warn_on_many_detections = False
    return metric


def _run_torchmetrics_stream(loaded: Any, threads: int) -> tuple[Any, Any]:
    del threads
    return _stream_into(torchmetrics_metric(), loaded)


def _run_boxscore_torchmetrics_stream(loaded: Any, threads: int, **settings: Any) -> tuple[Any, Any]:
    del threads
    from boxscore.torchmetrics import MeanAveragePrecision

    return _stream_into(MeanAveragePrecision(box_format="xywh", **settings), loaded)


CONTESTANTS: Mapping[str, Contestant] = {
    "boxscore": Contestant("boxscore", _load_boxscore, _run_boxscore),
    "boxscore, all arrays": Contestant("boxscore", _load_boxscore, partial(_run_boxscore, is_with_arrays=True)),
    "hotcoco": Contestant("hotcoco", *_drop_in("hotcoco", "hotcoco.COCOeval")),
    "ultrafast-pycocotools": Contestant(
        "ultrafast-pycocotools", *_drop_in("ultrafast_pycocotools", "ultrafast_pycocotools.COCOeval")
    ),
    "vernier": Contestant("vernier", _load_vernier, _run_vernier),
    "faster-coco-eval": Contestant(
        "faster-coco-eval", *_drop_in("faster_coco_eval", "faster_coco_eval.COCOeval_faster"), is_exact=False
    ),
    "pycocotools": Contestant("pycocotools", *_drop_in("pycocotools.coco", "pycocotools.cocoeval.COCOeval")),
}

STREAMS: Mapping[str, Contestant] = {
    "boxscore": Contestant("boxscore", load_stream, _run_boxscore_stream),
    "boxscore, all arrays": Contestant("boxscore", load_stream, partial(_run_boxscore_stream, is_with_arrays=True)),
    "boxscore, padded": Contestant("boxscore", load_padded_stream, _run_boxscore_padded_stream),
    "boxscore.torchmetrics": Contestant("boxscore", load_stream, _run_boxscore_torchmetrics_stream, is_exact=False),
    "boxscore.torchmetrics, class_metrics": Contestant(
        "boxscore", load_stream, partial(_run_boxscore_torchmetrics_stream, class_metrics=True), is_exact=False
    ),
    "hotcoco": Contestant("hotcoco", load_stream, _run_hotcoco_stream),
    "torchmetrics": Contestant("torchmetrics", load_stream, _run_torchmetrics_stream, is_exact=False),
}
