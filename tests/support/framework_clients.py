"""How frameworks that are not installed call pycocotools, written anew: what each passes, sets and reads.

Each imports pycocotools when it is called, and returns all the numbers that its framework reports.
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Rows = list[dict[str, Any]]
Client = Callable[[Path, Rows], Any]
"""Called with the path of the ground truth and the results; the folder of the path may be written to."""


def _finish(evaluation: Any) -> Any:
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return evaluation


def _per_class(evaluation: Any) -> list[float]:
    """AP of each class in all areas at the last limit, as most frameworks print it."""
    precision = evaluation.eval["precision"]
    means = []
    for index in range(precision.shape[2]):
        some = precision[:, :, index, 0, -1]
        some = some[some > -1]
        means.append(float(np.mean(some)) if some.size else float("nan"))
    return means


def detectron2(truths: Path, results: Rows) -> Any:
    """COCOEvaluator with `use_fast_impl=False`: results without the key that a kind does not need."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    ground, numbers = COCO(str(truths)), {}
    for kind in ("bbox", "segm"):
        rows = copy.deepcopy(results)
        for row in rows:
            row.pop("bbox" if kind == "segm" else "segmentation", None)
        evaluation = COCOeval(ground, ground.loadRes(rows), kind)
        evaluation.params.maxDets = [1, 10, 100]
        evaluation = _finish(evaluation)
        numbers[kind] = [*evaluation.stats.tolist(), *_per_class(evaluation)]
    return numbers


def yolox(truths: Path, results: Rows) -> Any:
    """COCOEvaluator without its C++ extension: results through a file, AP and AR per class."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    file = truths.parent / "yolox.json"
    boxes = [{key: value for key, value in row.items() if key != "segmentation"} for row in results]
    file.write_text(json.dumps([row | {"segmentation": []} for row in boxes]))
    ground = COCO(str(truths))
    evaluation = _finish(COCOeval(ground, ground.loadRes(str(file)), "bbox"))
    recall = evaluation.eval["recall"][:, :, 0, -1]
    return evaluation.stats[0], evaluation.stats[1], _per_class(evaluation), recall.mean(axis=0).tolist()


def effdet(truths: Path, results: Rows) -> Any:
    """CocoEvaluator: results through a file, images by their ids, the first number."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    file = truths.parent / "effdet.json"
    file.write_text(
        json.dumps([{key: row[key] for key in ("image_id", "bbox", "score", "category_id")} for row in results])
    )
    ground = COCO(str(truths))
    evaluation = COCOeval(ground, ground.loadRes(str(file)), "bbox")
    evaluation.params.imgIds = sorted(ground.imgs)[1:]
    return float(_finish(evaluation).stats[0])


def paddle(truths: Path, results: Rows) -> Any:
    """`cocoapi_eval` of PaddleDetection: boxes and masks, and proposals without classes."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    ground = COCO(str(truths))
    file = truths.parent / "paddle.json"
    numbers = []
    for kind in ("bbox", "segm", "proposal"):
        file.write_text(json.dumps(results))
        evaluation = COCOeval(ground, ground.loadRes(str(file)), "bbox" if kind == "proposal" else kind)
        if kind == "proposal":
            evaluation.params.useCats = 0
            evaluation.params.maxDets = [100, 300, 1000]
        evaluation = _finish(evaluation)
        numbers.append([evaluation.stats.tolist(), _per_class(evaluation)])
    return numbers


def keras_cv(truths: Path, results: Rows) -> Any:
    """`BoxCOCOMetrics`: a subclass of COCO that gets dicts, and makes the results' dataset itself."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    class Wrapper(COCO):  # type: ignore[misc]
        def __init__(self, dataset: Any) -> None:
            COCO.__init__(self, annotation_file=None)
            self.dataset = dataset
            self.createIndex()

        def loadRes(self, rows: Rows) -> Any:
            made = COCO()
            made.dataset["images"] = copy.deepcopy(self.dataset["images"])
            made.dataset["categories"] = copy.deepcopy(self.dataset["categories"])
            for index, row in enumerate(rows):
                row |= {"area": row["bbox"][2] * row["bbox"][3], "id": index + 1}
            made.dataset["annotations"] = rows
            made.createIndex()
            return made

    ground = Wrapper(json.loads(truths.read_text()))
    rows = [row | {"bbox": np.array(row["bbox"]), "score": np.float32(row["score"])} for row in results]
    evaluation = COCOeval(ground, ground.loadRes(rows), iouType="bbox")
    evaluation.params.imgIds = [row["image_id"] for row in rows]
    return _finish(evaluation).stats.tolist()


CLIENTS: dict[str, Client] = {
    "detectron2": detectron2,
    "YOLOX": yolox,
    "effdet": effdet,
    "PaddleDetection": paddle,
    "KerasCV": keras_cv,
}
