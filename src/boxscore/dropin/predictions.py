"""Predictions as torchvision's models give them: one dict of tensors per image, as columns and as COCO's results."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.arrays import is_array, library, to_numpy
from boxscore.data.batch_keys import DETECTION_KEYS
from boxscore.data.batches import read_alike
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.data.geometry.masks import Masks
from boxscore.dropin.evaluation_columns import DetectionColumns
from boxscore.dropin.row_selection import ImageClassIndex

Dict = dict[str, Any]
Floats = NDArray[np.float64]
Predictions = Mapping[Any, Mapping[str, Any]]

KEYS = {"bbox": "boxes", "segm": "masks", "keypoints": "keypoints"}
"""The key of the shapes, by similarity."""

RESULT_KEYS = {"bbox": "bbox", "segm": "segmentation", "keypoints": "keypoints"}
"""The same in COCO's results."""


class PredictionColumns(NamedTuple):
    """The predictions of some images, in the order in which they came; images without predictions have no rows."""

    images: list[Any]
    """The id of each row's image."""
    category: NDArray[np.int64]
    score: Floats
    shapes: Any
    """Boxes in xywh, (D, 4); `Masks`; or keypoints, (D, K, 3)."""

    @classmethod
    def read(cls, predictions: Predictions, iou_type: str) -> "PredictionColumns":
        """Raises `InputError` for what no model predicts, with the image's id."""
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
        """The boxes of images whose arrays are alike, read in one step; None for all others."""
        given = {image: prediction for image, prediction in predictions.items() if len(prediction)}
        batch = read_alike([*given.values()], DETECTION_KEYS, is_hosted=True)
        if batch is None:
            return None
        images = [image for image, num in zip(given, batch.num_rows, strict=True) for _ in range(num)]
        label, score = batch.columns["label"].astype(np.int64), batch.columns["score"].astype(np.float64)
        return cls(images, label, score, _read_boxes(batch.columns["box"], None))

    def select(self, index: ImageClassIndex) -> DetectionColumns:
        """The detections of the evaluation's images and classes."""
        position = {image: i for i, image in enumerate(index.images)}
        image = np.array([position[each] for each in self.images], np.int64)
        row, image, label = index.select_labels(image, self.category)
        shared: Dict = {"image": image, "label": label, "score": self.score[row]}
        number = np.arange(1, len(self.images) + 1)[row]
        return DetectionColumns(**shared, id=number, **_columns_of(self.shapes, row))

    def results(self, iou_type: str) -> list[Dict]:
        """One dict per detection, as COCO's files have it."""
        if not self.images:
            return []
        shapes = self.shapes.rle() if isinstance(self.shapes, Masks) else self.shapes.reshape(len(self.images), -1)
        values = shapes if isinstance(shapes, list) else shapes.tolist()
        rows = zip(self.images, self.category.tolist(), values, self.score.tolist(), strict=True)
        key = RESULT_KEYS[iou_type]
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
    """Scores or labels. Shape (D,)."""
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
    """In host memory."""
    return to_numpy(value).astype(np.float64)


def _read_boxes(value: Any, image: Any) -> Floats:
    """Boxes in xywh. # as in the reference: width and height are computed in the precision of the corners"""
    corners = value if is_array(value) else np.array(value, np.float64).reshape(-1, 4)
    if len(corners.shape) != 2 or corners.shape[1] != 4:
        raise InputError(f"image {image!r}: `boxes` must have shape (N, 4); got {tuple(corners.shape)}")
    return np.concatenate([_as_float64(corners[:, :2]), _as_float64(corners[:, 2:] - corners[:, :2])], axis=1)


def _read_masks(value: Any, image: Any) -> Masks:
    """Masks above 0.5."""
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


def _columns_of(shapes: Any, row: Any) -> Dict:
    """The columns of shapes and areas, as COCO computes them for results."""
    if isinstance(shapes, Masks):
        masks = shapes if isinstance(row, slice) else shapes.take(row)
        return {"box": np.zeros((len(masks), 4)), "mask": masks, "area": masks.runs.area.astype(np.float64)}
    shapes = shapes[row]
    if shapes.ndim == 2:
        return {"box": shapes, "area": shapes[:, 2] * shapes[:, 3]}
    x, y = shapes[:, :, 0], shapes[:, :, 1]
    area = np.zeros(len(shapes)) if x.size == 0 else np.ptp(x, axis=1) * np.ptp(y, axis=1)
    return {"box": np.zeros((len(shapes), 4)), "keypoints": Keypoints(point=shapes[:, :, :2]), "area": area}
