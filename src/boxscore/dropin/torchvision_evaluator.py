"""CocoEvaluator: the evaluator of torchvision's references, DETR and its descendants, on boxscore's engine."""

import copy
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.arrays import is_array, library, to_numpy
from boxscore.data.batch_keys import DETECTION_KEYS
from boxscore.data.batches import read_alike
from boxscore.data.dataset import Detections
from boxscore.data.geometry.boxes import Boxes
from boxscore.data.geometry.kinds import kind_of
from boxscore.data.geometry.masks import Masks
from boxscore.dropin.coco_dataset import COCO, load_results
from boxscore.dropin.evaluated_rows import (
    ALL,
    Cells,
    EvaluatedPart,
    EvaluatedRows,
    ImageClassIndex,
    RefusedRowError,
    Selected,
    describe_invalid,
    detections_of,
    distinct,
    join,
    rows_under,
    select_rows,
    select_truths,
    shape_of,
)
from boxscore.dropin.evaluation import COCOeval
from boxscore.dropin.image_entries import part_entries
from boxscore.dropin.params import SHAPE_KEYS, Params
from boxscore.result.distributed import gather_bytes, is_distributed

Dict = dict[str, Any]
Floats = NDArray[np.float64]
Predictions = Mapping[Any, Mapping[str, Any]]

KEYS = {iou_type: kind_of(iou_type).key for iou_type in SHAPE_KEYS}
"""The key of the shapes in predictions, by similarity."""

PREPARATIONS = {
    "bbox": "prepare_for_coco_detection",
    "segm": "prepare_for_coco_segmentation",
    "keypoints": "prepare_for_coco_keypoint",
}
"""The methods that make COCO's results, by similarity. If a subclass overrides one, its results are evaluated."""


class CocoEvaluator:
    """Evaluates predictions batch by batch, with the numbers of `coco_eval.py` in torchvision's references and in DETR.

    Of an image that was updated twice, or by several processes, the first update counts.

    Args:
        coco_gt: A `COCO` of pycocotools, faster_coco_eval or boxscore; it is not copied.
        iou_types: Any of "bbox", "segm" and "keypoints".
        useCats: Whether classes are evaluated separately.

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
            raise InputError("`useCats` must be True for keypoints, which pycocotools compares only within classes")
        self.coco_gt, self.iou_types, self.useCats = coco_gt, iou_types, useCats
        self.coco_eval = {iou_type: COCOeval(coco_gt, iouType=iou_type) for iou_type in iou_types}
        for evaluation in self.coco_eval.values():
            evaluation.params.useCats = int(useCats)
        self.img_ids: list[Any] = []
        self._batches: dict[str, list[EvaluatedPart]] = {iou_type: [] for iou_type in iou_types}
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
        """Match the predictions of some images.

        Args:
            predictions: One dict of tensors per image, by image id: `boxes` in xyxy, `scores`, `labels` (ids of
                categories); `masks` or `keypoints` if these are evaluated. An empty dict is an image without
                predictions.
        """
        predictions = {_python_id(image): prediction for image, prediction in predictions.items()}
        if not predictions:
            return
        batches = {iou_type: self._evaluate(predictions, iou_type) for iou_type in self.iou_types}
        self.img_ids.extend(distinct(list(predictions)))
        for iou_type, batch in batches.items():
            self._batches[iou_type].append(batch)
        self._is_finished = False

    def _evaluate(self, predictions: Predictions, iou_type: str) -> EvaluatedPart:
        params = copy.copy(self.coco_eval[iou_type].params)
        params.imgIds = distinct(list(predictions))
        params.maxDets = sorted(params.maxDets)
        if params.catIds == [-1]:  # set by `accumulate`, which pools the classes
            params.catIds = self.coco_gt.getCatIds()
        params.catIds = distinct(params.catIds)
        found = None
        if not self._has_own_preparation(iou_type):
            found = PredictionColumns.read(predictions, iou_type)
            self._check_known(found.images)
        results = self._load(self.prepare(predictions, iou_type)) if found is None else None
        try:
            rows = select_rows(self.coco_gt, results, params) if found is None else self._select(found, params)
        except RefusedRowError:
            rows = None
        else:
            if rows is None and (described := describe_invalid(self.coco_gt, results or COCO(), params)) is not None:
                raise InputError(described)
        if rows is not None:
            return EvaluatedPart.of(rows)
        results = self._load(found.results(iou_type)) if found is not None else results
        evaluation = COCOeval(iouType=iou_type)
        evaluation.cocoGt, evaluation.cocoDt, evaluation.params = self.coco_gt, results, params
        evaluation._evaluate_any(params)
        return EvaluatedPart(cells=Cells.of(params), entries=evaluation.evalImgs, overlaps=evaluation.ious)

    def _select(self, found: "PredictionColumns", params: Params) -> EvaluatedRows | None:
        index = ImageClassIndex(params)
        return rows_under(params, found.select(index), select_truths(index, self.coco_gt))

    def _has_own_preparation(self, iou_type: str) -> bool:
        names = ("prepare", PREPARATIONS[iou_type])
        return any(getattr(type(self), name) is not getattr(CocoEvaluator, name) for name in names)

    def _load(self, results: list[Dict]) -> Any:
        """Load results as a dataset."""
        self._check_known([result["image_id"] for result in results])
        loaded = COCO()
        if results:
            load_results(loaded, list(results), self.coco_gt)
            loaded._index_dicts()
        return loaded

    def _check_known(self, images: Sequence[Any]) -> None:
        if not all(image in self._images for image in images):
            self._images = set(self.coco_gt.getImgIds())
        unknown = next((image for image in images if image not in self._images), None)
        if unknown is not None:
            raise InputError(f"`predictions` must be of images in `coco_gt`; got image {unknown!r}, which is not there")

    def synchronize_between_processes(self) -> None:
        """Gather the batches of all processes in each of them; every process must call this.

        Without torch.distributed, nothing is gathered.
        """
        gathered = self._batches
        if is_distributed():
            mine = pickle.dumps(self._batches)
            parts = [pickle.loads(part) for part in gather_bytes(mine, "synchronize_between_processes()")]
            gathered = {iou_type: [batch for part in parts for batch in part[iou_type]] for iou_type in self.iou_types}
        self._finish(gathered)

    def accumulate(self) -> None:
        """Compute the curves of the synchronized batches, or else of this process's batches."""
        if not self._is_finished:
            self._finish(self._batches)
        for evaluation in self.coco_eval.values():
            evaluation.accumulate()

    def _finish(self, batches: dict[str, list[EvaluatedPart]]) -> None:
        """Join the batches and pass them to the evaluations."""
        for iou_type, evaluation in self.coco_eval.items():
            if not batches[iou_type]:
                raise InputError("the evaluator must have seen images before they are accumulated; call update() first")
            evaluation.take_over(join(batches[iou_type]))
        self._is_finished = True

    def summarize(self) -> None:
        """Print the numbers of each of `iou_types`, and store them in `coco_eval[iou_type].stats`."""
        for iou_type, evaluation in self.coco_eval.items():
            print(f"IoU metric: {iou_type}")
            evaluation.summarize()

    @property
    def eval_imgs(self) -> dict[str, list[NDArray[Any]]]:
        """The entries of `evalImgs` for each update of this process, computed on each access. Shape (K, A, N) each."""
        return {
            iou_type: [
                np.array([*part_entries(batch), None], object)[:-1].reshape(
                    len(batch.cells.classes), len(batch.cells.areas), len(batch.cells.images)
                )
                for batch in batches
            ]
            for iou_type, batches in self._batches.items()
        }

    def prepare(self, predictions: Predictions, iou_type: str) -> list[Dict]:
        """Convert predictions to COCO's results, one dict per detection.

        Args:
            predictions: As in `update`.
            iou_type: "bbox", "segm" or "keypoints".
        """
        if iou_type not in KEYS:
            raise InputError(f"`iou_type` must be one of {', '.join(map(repr, KEYS))}; got {iou_type!r}")
        results: list[Dict] = getattr(self, PREPARATIONS[iou_type])(predictions)
        return results

    def prepare_for_coco_detection(self, predictions: Predictions) -> list[Dict]:
        """Convert boxes to COCO's results, with `bbox` in xywh."""
        return PredictionColumns.read(predictions, "bbox").results("bbox")

    def prepare_for_coco_segmentation(self, predictions: Predictions) -> list[Dict]:
        """Convert masks to COCO's results, with `segmentation` as compressed run lengths."""
        return PredictionColumns.read(predictions, "segm").results("segm")

    def prepare_for_coco_keypoint(self, predictions: Predictions) -> list[Dict]:
        """Convert keypoints to COCO's results."""
        return PredictionColumns.read(predictions, "keypoints").results("keypoints")


def _python_id(image: Any) -> Any:
    """Convert a tensor with one number to the number; return other ids unchanged."""
    return image.item() if hasattr(image, "item") else image


class PredictionColumns(NamedTuple):
    """The predictions of some images, in input order; images without predictions have no rows."""

    images: list[Any]
    """The id of each row's image."""
    category: NDArray[np.int64]
    score: Floats
    shapes: Any
    """Boxes in xywh, (D, 4); `Masks`; or keypoints, (D, K, 3)."""

    @classmethod
    def read(cls, predictions: Predictions, iou_type: str) -> "PredictionColumns":
        """Read and validate predictions; an `InputError` names the image."""
        if iou_type == "bbox" and (read := cls._read_alike(predictions)) is not None:
            return read
        images: list[Any] = []
        columns: list[tuple[Any, Any, Any]] = []
        for image, prediction in predictions.items():
            if len(prediction) == 0:
                continue
            label, score = (_flat(prediction, key, image) for key in ("labels", "scores"))
            shapes = _READERS[iou_type](_value(prediction, KEYS[iou_type], image), image)
            if not len(label) == len(score) == len(shapes):
                counts = f"{len(shapes)} {KEYS[iou_type]}, {len(score)} scores and {len(label)} labels"
                raise InputError(f"image {image!r}: `predictions` must have one score and one label each; got {counts}")
            columns.append((_whole(label, image), score.astype(np.float64), shapes))
            images += [image] * len(label)
        if not images:
            return cls([], np.zeros(0, np.int64), np.zeros(0), _NOTHING[iou_type])
        categories, all_scores, parts = ([each for each in part if len(each)] for part in zip(*columns, strict=True))
        return cls(images, np.concatenate(categories), np.concatenate(all_scores), _joined(parts, images))

    @classmethod
    def _read_alike(cls, predictions: Predictions) -> "PredictionColumns | None":
        """Read all boxes in one step if the arrays of all images are alike; else return None."""
        given = {image: prediction for image, prediction in predictions.items() if len(prediction)}
        batch = read_alike([*given.values()], DETECTION_KEYS, as_numpy=True)
        if batch is None:
            return None
        images = [image for image, num in zip(given, batch.num_rows, strict=True) for _ in range(num)]
        label = to_numpy(batch.columns["labels"]).astype(np.int64)
        return cls(images, label, _as_float64(batch.columns["scores"]), _read_boxes(batch.columns["boxes"], None))

    def select(self, index: ImageClassIndex) -> Selected[Detections]:
        """Select the detections of the evaluation's images and classes."""
        position = {image: i for i, image in enumerate(index.images)}
        image = np.array([position[each] for each in self.images], np.int64)
        row, image, label = index.select_labels(image, self.category)
        shapes = self.shapes
        if row is not ALL:
            shapes = shapes.take(row) if isinstance(shapes, Masks) else shapes[row]
        shape = shape_of(shapes) if index.kind in (Boxes, Masks) else {"keypoints": shapes[:, :, :2]}
        columns = {"image_ids": image, "labels": label, **shape}
        return detections_of(columns, self.score[row], None, np.arange(1, len(self.images) + 1)[row])

    def results(self, iou_type: str) -> list[Dict]:
        """Convert the rows to COCO's results, one dict per detection."""
        if not self.images:
            return []
        shapes = self.shapes.rle() if isinstance(self.shapes, Masks) else self.shapes.reshape(len(self.images), -1)
        values = shapes if isinstance(shapes, list) else shapes.tolist()
        rows = zip(self.images, self.category.tolist(), values, self.score.tolist(), strict=True)
        key = SHAPE_KEYS[iou_type]
        return [
            {"image_id": image, "category_id": label, key: value, "score": score} for image, label, value, score in rows
        ]


def _value(prediction: Mapping[str, Any], key: str, image: Any) -> Any:
    if not isinstance(prediction, Mapping):
        raise InputError(f"image {image!r}: a prediction must be a dict; got {type(prediction).__name__}")
    if key not in prediction:
        raise InputError(f"image {image!r}: the prediction must have `{key}`; got {', '.join(map(str, prediction))}")
    return prediction[key]


def _flat(prediction: Mapping[str, Any], key: str, image: Any) -> NDArray[Any]:
    """Read scores or labels. Shape (D,)."""
    value = _value(prediction, key, image)
    array = to_numpy(value) if is_array(value) else np.array(value)
    if array.ndim != 1 or (array.dtype.kind not in "iufb" and array.size):
        raise InputError(f"image {image!r}: `{key}` must be numbers of shape (N,); got {array.dtype} {array.shape}")
    return array


def _whole(label: NDArray[Any], image: Any) -> NDArray[np.int64]:
    if label.dtype.kind == "f" and not (label == np.floor(label)).all():
        raise InputError(f"image {image!r}: `labels` must be the ids of categories, whole numbers; got fractions")
    return label.astype(np.int64)


def _as_float64(value: Any) -> Floats:
    """Convert an array to float64, in host memory."""
    return to_numpy(value).astype(np.float64)


def _read_boxes(value: Any, image: Any) -> Floats:
    """Convert boxes to xywh. # as in the reference: width and height are computed in the precision of the corners"""
    corners = value if is_array(value) else np.array(value, np.float64).reshape(-1, 4)
    if len(corners.shape) != 2 or corners.shape[1] != 4:
        raise InputError(f"image {image!r}: `boxes` must have shape (N, 4); got {tuple(corners.shape)}")
    return np.concatenate([_as_float64(corners[:, :2]), _as_float64(corners[:, 2:] - corners[:, :2])], axis=1)


def _read_masks(value: Any, image: Any) -> Masks:
    """Read masks, thresholded at 0.5."""
    shape = tuple(getattr(value, "shape", ()))
    if len(shape) != 4 or shape[1] != 1:
        raise InputError(
            f"image {image!r}: `masks` must be an array of shape (N, 1, H, W); got {shape or type(value).__name__}"
        )
    pixels = to_numpy(value[:, 0] > 0.5 if library(value) == "torch" else to_numpy(value)[:, 0] > 0.5)
    return Masks.from_stacks([pixels])


def _read_keypoints(value: Any, image: Any) -> Floats:
    array = _as_float64(value) if is_array(value) else np.array(value, np.float64)
    if array.ndim != 3 or array.shape[2] != 3:
        raise InputError(f"image {image!r}: `keypoints` must have shape (N, K, 3); got {array.shape}")
    return array


_READERS: dict[str, Callable[[Any, Any], Any]] = {
    "bbox": _read_boxes,
    "segm": _read_masks,
    "keypoints": _read_keypoints,
}

_NOTHING: Dict = {
    "bbox": np.zeros((0, 4)),
    "segm": Masks.from_rle([]),
    "keypoints": np.zeros((0, 0, 3)),
}


def _joined(shapes: list[Any], images: list[Any]) -> Any:
    if isinstance(shapes[0], Masks):
        return Masks.concatenate(shapes)
    if len({each.shape[1] for each in shapes}) > 1:
        raise InputError(f"`keypoints` must be as many in all images, as in {images[0]!r}; got different numbers")
    return np.concatenate(shapes)
