"""CocoEvaluator: the evaluator of torchvision's references and of DETR and its descendants, on boxscore's engine."""

import contextlib
import copy
import io
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.dropin.coco_dataset import COCO
from boxscore.dropin.evaluated_batches import EvaluatedBatch, join
from boxscore.dropin.evaluation import COCOeval
from boxscore.dropin.evaluation_columns import (
    EvaluationColumns,
    columns_under,
    describe_odd,
    select_columns,
    select_truths,
)
from boxscore.dropin.image_entries import entries
from boxscore.dropin.params import Params
from boxscore.dropin.predictions import KEYS, PredictionColumns, Predictions
from boxscore.dropin.row_selection import ImageClassIndex, distinct
from boxscore.result.distributed import gather_bytes, is_distributed

Dict = dict[str, Any]

PREPARATIONS = {
    "bbox": "prepare_for_coco_detection",
    "segm": "prepare_for_coco_segmentation",
    "keypoints": "prepare_for_coco_keypoint",
}
"""The methods that make COCO's results, by similarity. Where a subclass has its own, its results are evaluated."""

_EMPTY_RUNS = "masks of `coco_gt` and of results have runs of no pixels, where pycocotools stops; encode them again"


class CocoEvaluator:
    """Evaluates predictions batch by batch, with the numbers of `coco_eval.py` in torchvision's references and in DETR.

    `coco_gt`: a `COCO` of pycocotools, faster_coco_eval or boxscore. `iou_types`: any of "bbox", "segm" and
    "keypoints". `useCats`: whether classes are evaluated separately.

    An image that was updated twice, or by several processes, counts once, as it was first. `coco_gt` is not copied.

    >>> import numpy as np
    >>> coco_gt = COCO()
    >>> coco_gt.dataset = {
    ...     "images": [{"id": 7}],
    ...     "categories": [{"id": 1, "name": "cat"}],
    ...     "annotations": [{"id": 1, "image_id": 7, "category_id": 1, "bbox": [0, 0, 9, 9], "area": 81, "iscrowd": 0}],
    ... }
    >>> coco_gt.createIndex()
    creating index...
    index created!
    >>> evaluator = CocoEvaluator(coco_gt, ["bbox"])
    >>> boxes, scores, labels = np.array([[0.0, 0, 9, 8]]), np.array([0.9]), np.array([1])
    >>> evaluator.update({7: {"boxes": boxes, "scores": scores, "labels": labels}})
    >>> evaluator.accumulate()  # doctest: +ELLIPSIS
    Accumulating evaluation results...
    DONE (t=...s).
    >>> float(evaluator.coco_eval["bbox"].eval["recall"].max())
    1.0
    """

    def __init__(self, coco_gt: Any, iou_types: Sequence[str], useCats: bool = True) -> None:
        if not isinstance(iou_types, list | tuple) or not all(each in KEYS for each in iou_types):
            raise InputError(f"`iou_types` must be a list of {', '.join(map(repr, KEYS))}; got {iou_types!r}")
        if "keypoints" in iou_types and not useCats:
            raise InputError("`useCats` must be True for keypoints, which pycocotools compares within classes alone")
        self.coco_gt, self.iou_types, self.useCats = coco_gt, iou_types, useCats
        self.coco_eval = {iou_type: COCOeval(coco_gt, iouType=iou_type) for iou_type in iou_types}
        for evaluation in self.coco_eval.values():
            evaluation.params.useCats = int(useCats)
        self.img_ids: list[Any] = []
        self._batches: dict[str, list[EvaluatedBatch]] = {iou_type: [] for iou_type in iou_types}
        self._is_finished = False
        self._images: set[Any] = set()

    def __copy__(self) -> "CocoEvaluator":
        copied = type(self).__new__(type(self))
        vars(copied).update(
            vars(self),
            coco_eval={iou_type: copy.copy(each) for iou_type, each in self.coco_eval.items()},
            img_ids=[*self.img_ids],
            _batches={iou_type: [*each] for iou_type, each in self._batches.items()},
        )
        for evaluation in copied.coco_eval.values():
            evaluation.params = copy.copy(evaluation.params)
        return copied

    def update(self, predictions: Predictions) -> None:
        """Match the predictions of some images, one dict of tensors by the id of each image.

        Keys: `boxes` in xyxy, `scores`, `labels` (ids of categories); `masks` or `keypoints` if these are evaluated. An
        empty dict is an image without predictions.
        """
        predictions = {_plain_id(image): prediction for image, prediction in predictions.items()}
        if not predictions:
            return
        batches = {iou_type: self._evaluate(predictions, iou_type) for iou_type in self.iou_types}
        self.img_ids.extend(distinct(list(predictions)))
        for iou_type, batch in batches.items():
            self._batches[iou_type].append(batch)
        self._is_finished = False

    def _evaluate(self, predictions: Predictions, iou_type: str) -> EvaluatedBatch:
        params = copy.copy(self.coco_eval[iou_type].params)
        params.imgIds = distinct(list(predictions))
        params.maxDets = sorted(params.maxDets)
        if params.catIds == [-1]:  # accumulate has put all classes together, for a summary
            params.catIds = self.coco_gt.getCatIds()
        params.catIds = distinct(params.catIds)
        if self._has_own_preparation(iou_type):
            results = self._load(predictions, iou_type)
            return self._matched(select_columns(self.coco_gt, results, params), results, params)
        found = PredictionColumns.read(predictions, iou_type)
        self._check_known(found.images)
        index = ImageClassIndex.of(params)
        truths = select_truths(index, self.coco_gt)
        columns = None if truths is None else columns_under(params, index, found.select(index), truths)
        return self._matched(columns, COCO(), params)

    def _matched(self, columns: EvaluationColumns | None, results: Any, params: Params) -> EvaluatedBatch:
        if columns is None:
            raise InputError(describe_odd(self.coco_gt, results, params) or _EMPTY_RUNS)
        return EvaluatedBatch.of(columns)

    def _has_own_preparation(self, iou_type: str) -> bool:
        names = ("prepare", PREPARATIONS[iou_type])
        return any(getattr(type(self), name) is not getattr(CocoEvaluator, name) for name in names)

    def _load(self, predictions: Predictions, iou_type: str) -> Any:
        """The results that a subclass makes, as a dataset."""
        results = self.prepare(predictions, iou_type)
        self._check_known([result["image_id"] for result in results])
        with contextlib.redirect_stdout(io.StringIO()):
            return COCO.loadRes(self.coco_gt, results) if results else COCO()

    def _check_known(self, images: Sequence[Any]) -> None:
        if not all(image in self._images for image in images):
            self._images = set(self.coco_gt.getImgIds())
        unknown = next((image for image in images if image not in self._images), None)
        if unknown is not None:
            raise InputError(f"`predictions` must be of images in `coco_gt`; got image {unknown!r}, which is not there")

    def synchronize_between_processes(self) -> None:
        """Give every process what all processes have seen; all of them must call this.

        Without torch.distributed there is nothing to do.
        """
        gathered = self._batches
        if is_distributed():
            mine = pickle.dumps({iou_type: [join(each)] if each else [] for iou_type, each in self._batches.items()})
            parts = [pickle.loads(part) for part in gather_bytes(mine, "synchronize_between_processes()")]
            gathered = {iou_type: [batch for part in parts for batch in part[iou_type]] for iou_type in self.iou_types}
        self._finish(gathered)

    def accumulate(self) -> None:
        """Compute the curves, for what was synchronized, or else for what this process has seen."""
        if not self._is_finished:
            self._finish(self._batches)
        for evaluation in self.coco_eval.values():
            evaluation.accumulate()

    def _finish(self, batches: dict[str, list[EvaluatedBatch]]) -> None:
        """Hand the batches to the evaluations."""
        for iou_type, evaluation in self.coco_eval.items():
            if not batches[iou_type]:
                raise InputError("the evaluator must have seen images before they are accumulated; call update() first")
            every = join(batches[iou_type])
            evaluation.take_over(every.columns, every.tally)
        self._is_finished = True

    def summarize(self) -> None:
        """Print the numbers of each of `iou_types`; they are in `coco_eval[iou_type].stats` from then on."""
        for iou_type, evaluation in self.coco_eval.items():
            print(f"IoU metric: {iou_type}")
            evaluation.summarize()

    @property
    def eval_imgs(self) -> dict[str, list[NDArray[Any]]]:
        """The entries of `evalImgs` of every update of this process, made when they are read. Shape (K, A, N) each."""
        return {
            iou_type: [
                np.array([*entries(batch.columns), None], object)[:-1].reshape(
                    len(batch.columns.classes), len(batch.columns.areas), len(batch.columns.images)
                )
                for batch in batches
            ]
            for iou_type, batches in self._batches.items()
        }

    def prepare(self, predictions: Predictions, iou_type: str) -> list[Dict]:
        """The predictions as COCO's results, one dict per detection."""
        if iou_type not in KEYS:
            raise InputError(f"`iou_type` must be one of {', '.join(map(repr, KEYS))}; got {iou_type!r}")
        results: list[Dict] = getattr(self, PREPARATIONS[iou_type])(predictions)
        return results

    def prepare_for_coco_detection(self, predictions: Predictions) -> list[Dict]:
        """Boxes as COCO's results, with `bbox` in xywh."""
        return PredictionColumns.read(predictions, "bbox").results("bbox")

    def prepare_for_coco_segmentation(self, predictions: Predictions) -> list[Dict]:
        """Masks as COCO's results, with `segmentation` as compressed run lengths."""
        return PredictionColumns.read(predictions, "segm").results("segm")

    def prepare_for_coco_keypoint(self, predictions: Predictions) -> list[Dict]:
        """Keypoints as COCO's results."""
        return PredictionColumns.read(predictions, "keypoints").results("keypoints")


def _plain_id(image: Any) -> Any:
    """The id of an image, which may be a tensor with one number."""
    return image.item() if hasattr(image, "item") else image
