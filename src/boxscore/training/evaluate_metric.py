"""mAP as a metric of Hugging Face's Evaluate: `add`, `add_batch`, `compute`. Nothing is downloaded."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import datasets
import evaluate
import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.arrays import to_numpy
from boxscore.data.batch_keys import DETECTION_KEYS, TRUTH_KEYS, Keys, row_shape_of
from boxscore.data.batches import build_from_images, in_argument
from boxscore.data.dataset import ClassNames, Invalid, Truths, detections_maker
from boxscore.data.geometry.box_formats import UPRIGHT_FORMATS, BoxFormat, check_box_format
from boxscore.data.geometry.masks import Masks
from boxscore.data.validation import as_array
from boxscore.protocol.fields import check_choice
from boxscore.protocol.protocol import EngineName, IouType, ProtocolLike
from boxscore.training.metric import MeanAveragePrecision

__all__ = ["EvaluateMetric"]

_DESCRIPTION = "Mean average precision of object detection and instance segmentation, with the numbers of pycocotools."

_INPUTS = """
Predictions and references are lists of dicts, one per image.

Prediction: `boxes` (D, 4), `scores` (D,) and `labels` (D,).
Reference: `boxes` (G, 4) and `labels` (G,); if you like, `area`, `iscrowd`, `ignore` and `difficult` (G,).
With iou_type="segm" or "boundary" they have `masks` in place of `boxes`: booleans (D, H, W), or COCO's run lengths.

`compute` returns a dict: `map`, `map_50`, `map_75` and so on. A number that is undefined, such as that of small objects
where there are none, is -1.
"""


class EvaluateMetric(evaluate.Metric):
    """mAP as a metric of Hugging Face's Evaluate, for `evaluate.combine` and code that takes an `EvaluationModule`.

    Nothing is downloaded. Inputs are validated when they are added: an invalid batch is refused as a whole.

    Evaluate keeps all inputs until `compute`, in a file or in memory. For large datasets `MeanAveragePrecision`, which
    keeps 20 bytes per detection, is the better choice.

    Args:
        protocol: As in `MeanAveragePrecision`.
        iou_type: "bbox", "segm" or "boundary"; by default the protocol's.
        box_format: "xyxy", "xywh" or "cxcywh".
        class_names: As in `MeanAveragePrecision`.
        class_groups: As in `MeanAveragePrecision`.
        per_class: Whether `compute` returns `ap/<class>`, too.
        engine: As in `MeanAveragePrecision`.
        threads: As in `MeanAveragePrecision`.
        warn: As in `MeanAveragePrecision`.
        invalid: As in `MeanAveragePrecision`.
        **settings: Arguments of `evaluate.Metric`: `keep_in_memory`, `cache_dir`, `num_process`, `process_id`,
            `experiment_id` and so on.

    >>> metric = EvaluateMetric(keep_in_memory=True)
    >>> metric.add(
    ...     prediction={"boxes": [[0, 0, 10, 9]], "scores": [0.9], "labels": [1]},
    ...     reference={"boxes": [[0, 0, 10, 10]], "labels": [1]},
    ... )
    >>> round(metric.compute()["map"], 4)
    0.9
    """

    def __init__(
        self,
        protocol: ProtocolLike = "coco",
        *,
        iou_type: IouType | None = None,
        box_format: BoxFormat = "xyxy",
        class_names: ClassNames | None = None,
        class_groups: Mapping[int, str] | None = None,
        per_class: bool = False,
        engine: EngineName = "auto",
        threads: int | None = None,
        warn: bool = True,
        invalid: Invalid = "error",
        **settings: Any,
    ) -> None:
        check_box_format(box_format, UPRIGHT_FORMATS)
        if not isinstance(per_class, bool):
            raise InputError(f"`per_class` must be True or False; got {per_class!r}")
        self.per_class = per_class
        self._metric = MeanAveragePrecision(
            protocol,
            iou_type=iou_type,
            box_format=box_format,
            class_names=class_names,
            class_groups=class_groups,
            engine=engine,
            threads=threads,
            warn=warn,
            invalid=invalid,
            sync=False,  # Evaluate itself joins the processes
        )
        kind = self._metric.protocol.iou_type
        check_choice("iou_type", iou_type or kind, ("bbox", "segm", "boundary"))
        super().__init__(**{"config_name": kind, **settings})

    def _info(self) -> Any:
        """The description of the metric and the types of its inputs, for Evaluate."""
        keys, truth_keys = self._keys
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="",
            inputs_description=_INPUTS,
            features=datasets.Features({"predictions": _features(keys), "references": _features(truth_keys)}),
            homepage="https://boxscore.github.io/boxscore/",
            license="MIT",
            reference_urls=["https://cocodataset.org/#detection-eval"],
        )

    @property
    def name(self) -> str:
        """The prefix that `evaluate.combine` gives to names that several metrics share."""
        return "boxscore"

    @property
    def _keys(self) -> tuple[Keys, Keys]:
        """The keys of predictions and references."""
        iou_type = self._metric.protocol.iou_type
        return DETECTION_KEYS.of_shapes(iou_type), TRUTH_KEYS.of_shapes(iou_type)

    def add(self, *, prediction: Any = None, reference: Any = None, **named: Any) -> None:
        """Add one image.

        Args:
            prediction: A dict with `boxes` or `masks`, `scores` and `labels`.
            reference: A dict with `boxes` or `masks`, and `labels`.
            **named: Further arguments of `evaluate.Metric.add_batch`.
        """
        # `evaluate.combine` passes `predictions` and `references`
        prediction, reference = named.pop("predictions", prediction), named.pop("references", reference)
        self.add_batch(predictions=[prediction], references=[reference], **named)

    def add_batch(self, *, predictions: Any = None, references: Any = None, **named: Any) -> None:
        """Add some images.

        Args:
            predictions: One dict per image.
            references: One dict per image.
            **named: Further arguments of `evaluate.Metric.add_batch`.
        """
        for name, images in (("predictions", predictions), ("references", references)):
            if isinstance(images, Mapping | str) or not isinstance(images, Sequence):
                raise InputError(f"`{name}` must be a list of dicts, one per image; got {type(images).__name__}")
        if len(predictions) != len(references):
            counts = f"{len(predictions)} and {len(references)}"
            raise InputError(f"`predictions` and `references` must have one entry per image; got {counts}")
        keys, truth_keys = self._keys
        given: dict[str, Any] = {"as_numpy": True}
        if self._metric.protocol.iou_type == "bbox":
            given["box_format"] = self._metric.box_format
        make = detections_maker(self._metric.invalid)
        in_argument("predictions", build_from_images, make, predictions, keys, **given)
        names = self._metric.class_names
        in_argument("references", build_from_images, Truths, references, truth_keys, class_names=names, **given)
        super().add_batch(
            predictions=[_stored(each, keys) for each in predictions],
            references=[_stored(each, truth_keys) for each in references],
            **named,
        )

    def _compute(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        keys, truth_keys = self._keys
        pairs = [
            (_loaded(pred, keys), _loaded(truth, truth_keys))
            for pred, truth in zip(predictions, references, strict=True)
        ]
        self._metric.reset()
        for _, some in groupby(pairs, key=lambda pair: pair[1].keys()):  # batches may have different keys
            preds, targets = zip(*some, strict=True)
            self._metric.update(list(preds), list(targets))
        result = self._metric.compute()
        self._metric.reset()
        return result.log_dict(per_class=self.per_class, undefined=-1.0)


def _dtype(column: str) -> str:
    """The type of a column's numbers; float64 represents every other precision exactly."""
    return "int64" if column in ("labels", "ignore") else "float64"


def _features(keys: Keys) -> dict[str, Any]:
    """The Evaluate types of a dict's columns."""
    types: dict[str, Any] = {}
    for key, column in keys.columns.items():
        number = datasets.Value(_dtype(column))
        if column == "masks":
            mask = {"size": datasets.Sequence(datasets.Value("int64")), "counts": datasets.Value("string")}
            types[key] = [mask]
        else:
            types[key] = datasets.Sequence(datasets.Sequence(number) if row_shape_of(column, keys.box_size) else number)
    return types


def _stored(image: Mapping[str, Any], keys: Keys) -> dict[str, Any]:
    """Convert a dict for storage: lists, None for missing keys, masks as run lengths."""
    stored: dict[str, Any] = dict.fromkeys(keys.columns)
    for key, column in keys.columns.items():
        if column == "masks":
            stored[key] = Masks.of(image[key]).rle()
        elif key in image:
            stored[key] = to_numpy(as_array(key, image[key])).astype(_dtype(column)).tolist()
    return stored


def _loaded(image: Mapping[str, Any], keys: Keys) -> dict[str, Any]:
    """Convert a stored dict to NumPy arrays, without its missing keys."""
    given = {key: value for key, value in image.items() if value is not None}
    for key, value in given.items():
        column = keys.columns[key]
        if column != "masks":
            given[key] = np.array(value, _dtype(column)).reshape(-1, *row_shape_of(column, keys.box_size))
    return given
