"""Ultralytics' validators and trainers, with COCO's numbers in addition to Ultralytics'. Needs Ultralytics.

Detections are in pixels of the original image and rounded as `save_json=True` writes them, so the numbers equal an
evaluation of predictions.json. Truths are the labels as Ultralytics has loaded them; for COCO, the annotation file.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ultralytics.models.yolo import detect, obb, pose, segment
from ultralytics.utils import LOGGER, RANK, metrics, ops

from boxscore.data.dataset import Detections, Invalid, Truths, detections_maker, host_ids, take
from boxscore.data.geometry.masks import Masks
from boxscore.formats import read_truths
from boxscore.protocol.protocol import IouType, Protocol
from boxscore.protocol.table import protocol_of
from boxscore.result.result import Result
from boxscore.training.metric import MeanAveragePrecision

Floats = NDArray[np.float64]

_BOX_DIGITS, _SCORE_DIGITS = 3, 5
"""Numbers of decimals in Ultralytics' predictions.json. For float32 values NumPy's `round` gives the same bits as
Python's, because their product with a power of ten is exact in float64."""


class _CocoMetrics:
    """Mixin that adds COCO's results to Ultralytics' metrics, and their numbers to `results_dict`."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.coco: dict[str, Result] = {}
        """The results by Ultralytics' letters: "B" for boxes, "M" for masks, "P" for poses."""

    @property
    def results_dict(self) -> dict[str, float]:
        """Ultralytics' numbers, then COCO's: `metrics/coco_map(B)` and so on; undefined numbers are -1."""
        numbers: dict[str, float] = dict(super().results_dict)  # type: ignore[misc]
        return numbers | {key: value for letter, each in self.coco.items() for key, value in _named(each, letter)}


def _named(result: Result, letter: str) -> list[tuple[str, float]]:
    numbers = result.log_dict("metrics/coco_", per_class=False, undefined=-1.0)
    return [(f"{name}({letter})", value) for name, value in numbers.items()]


class DetMetrics(_CocoMetrics, metrics.DetMetrics):
    """Ultralytics' metrics of boxes, and COCO's."""


class SegmentMetrics(_CocoMetrics, metrics.SegmentMetrics):
    """Ultralytics' metrics of boxes and masks, and COCO's."""


class PoseMetrics(_CocoMetrics, metrics.PoseMetrics):
    """Ultralytics' metrics of boxes and poses, and COCO's."""


class OBBMetrics(_CocoMetrics, metrics.OBBMetrics):
    """Ultralytics' metrics of oriented boxes, and COCO's."""


class _CocoValidator:
    """Mixin that adds COCO's numbers of the same run to Ultralytics' validators."""

    iou_types: Mapping[str, IouType] = {"B": "bbox"}
    """The similarity that each of Ultralytics' letters stands for."""
    annotations = "instances_val2017.json"
    """COCO's annotation file, which replaces the labels if it is where Ultralytics puts it."""
    metrics_class: type = DetMetrics
    invalid: Invalid = "drop"
    """Treatment of invalid predictions, as in `MeanAveragePrecision`; "drop" lets training go on."""

    # Attributes of Ultralytics' validators.
    metrics: Any
    dataloader: Any
    data: Any
    names: Any
    is_coco: bool
    class_map: Sequence[int]

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.metrics = self.metrics_class()
        self.coco_metrics: dict[str, MeanAveragePrecision] = {}

    def protocol(self, iou_type: str) -> Protocol:
        """COCO's rules for a similarity."""
        return protocol_of("coco", iou_type)

    def init_metrics(self, model: Any) -> None:
        """Start a new evaluation, as Ultralytics does before each validation."""
        super().init_metrics(model)  # type: ignore[misc]
        datasets = getattr(self.dataloader.dataset, "datasets", [self.dataloader.dataset])
        self._labels = {label["im_file"]: label for dataset in datasets for label in dataset.labels}
        self._image_of = _numbered([*self._labels])
        self._file_truths = self._truths_of_coco()
        names = self.names if self._file_truths is None else self._file_truths.class_names
        self.coco_metrics = {
            letter: MeanAveragePrecision(self.protocol(each), class_names=names, warn=False, unique_images=True)
            for letter, each in self.iou_types.items()
        }
        self.metrics.coco = {}

    def _truths_of_coco(self) -> Truths | None:
        """Read COCO's annotation file, if the dataset is COCO and the file exists."""
        path = Path(self.data["path"]) / "annotations" / self.annotations if self.is_coco else None
        if path is None or not path.is_file():
            return None
        return read_truths(path, iou_type=[*self.iou_types.values()])

    def update_metrics(self, preds: Sequence[dict[str, Any]], batch: dict[str, Any]) -> None:
        """Add a batch to Ultralytics' numbers and to COCO's."""
        super().update_metrics(preds, batch)  # type: ignore[misc]
        files, shapes = batch["im_file"], batch["ori_shape"]
        images = [self._image_of[file] for file in files]
        detections = self._detections(preds, batch, images)
        if self._file_truths is None:
            truths = self._truths([self._labels[file] for file in files], shapes, images)
        else:
            truths = take(self._file_truths, np.isin(host_ids(self._file_truths.image_ids), images))
        for metric in self.coco_metrics.values():
            metric.update(detections, truths, image_ids=images)

    def _detections(self, preds: Sequence[dict[str, Any]], batch: dict[str, Any], images: Sequence[int]) -> Detections:
        """The rows of predictions.json for the images of a batch."""
        scaled, of_row = [], []
        for index, pred in enumerate(preds):
            if num := len(pred["cls"]):
                image = {key: batch[key][index] for key in ("ori_shape", "ratio_pad")}
                scaled.append(self.scale_preds(pred, image | {"imgsz": batch["img"].shape[2:]}))  # type: ignore[attr-defined]
                of_row += [images[index]] * num
        label = _joined([_host(each["cls"]) for each in scaled]).astype(np.int64)
        if self._file_truths is not None:
            label = np.array(self.class_map, np.int64)[label]
        return detections_maker(self.invalid)(
            image_ids=np.array(of_row, np.int64),
            labels=label,
            scores=_joined([_host(each["conf"]) for each in scaled]).round(_SCORE_DIGITS),
            **self.shapes_of_preds(scaled),
        )

    def _truths(self, labels: Sequence[dict[str, Any]], shapes: Sequence[Any], images: Sequence[int]) -> Truths:
        """The labels of the images of a batch. `shapes` has the height and width of each image."""
        return Truths(
            image_ids=np.repeat(images, [len(label["cls"]) for label in labels]),
            labels=_joined([label["cls"].reshape(-1) for label in labels]).astype(np.int64),
            **self.shapes_of_labels(labels, [(width, height) for height, width in shapes]),
        )

    def shapes_of_preds(self, preds: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The shapes of scaled predictions, as keyword arguments of `Detections`."""
        box = [ops.xyxy2xywh(each["bboxes"]) for each in preds]
        corner = [each[:, :2] - each[:, 2:] / 2 for each in box]
        parts = [np.hstack([_host(a), _host(b[:, 2:])]) for a, b in zip(corner, box, strict=True)]
        xywh = _joined(parts, 4).round(_BOX_DIGITS)
        # as in COCO: the area of a result is the area of its box, also for masks and poses
        return {"boxes": xywh, "box_format": "xywh", "area": xywh[:, 2] * xywh[:, 3]}

    def shapes_of_labels(self, labels: Sequence[dict[str, Any]], sizes: Sequence[tuple[int, int]]) -> dict[str, Any]:
        """The shapes of labels, as keyword arguments of `Truths`. `sizes` has the width and height of each image."""
        pairs = zip(labels, sizes, strict=True)
        boxes = [label["bboxes"].astype(np.float64) * np.tile(size, 2) for label, size in pairs]
        return {"boxes": _joined(boxes, 4), "box_format": "cxcywh"}

    def gather_stats(self) -> None:
        """Gather the statistics of all processes; each process computes COCO's numbers of all images."""
        super().gather_stats()  # type: ignore[misc]
        self.metrics.coco = {letter: metric.compute() for letter, metric in self.coco_metrics.items()}

    def print_results(self) -> None:
        """Log Ultralytics' table, and COCO's numbers."""
        super().print_results()  # type: ignore[misc]
        for letter, result in self.metrics.coco.items():
            numbers = ", ".join(f"{name} {value:.4f}" for name, value in list(result.items())[:3])
            LOGGER.info(f"COCO's rules ({letter}): {numbers}")
            if result.num_invalid:
                LOGGER.warning(f"COCO's rules ({letter}): {result.comparable}")

    @classmethod
    def coco_keys(cls) -> list[str]:
        """The names of COCO's numbers in `results_dict`."""
        empty = {
            letter: MeanAveragePrecision("coco", iou_type=each, sync=False) for letter, each in cls.iou_types.items()
        }
        return [key for letter, metric in empty.items() for key, _ in _named(metric.compute(), letter)]


def _numbered(files: Sequence[str]) -> dict[str, int]:
    """Number the images by file, in the order of the ids in predictions.json, which breaks ties between images.

    The numbers are the file stems if all stems are distinct numbers; else ranks of the stems, or of the paths if two
    stems are equal.
    """
    stems = [Path(file).stem for file in files]
    if all(stem.isnumeric() for stem in stems) and len({*map(int, stems)}) == len(files):
        return dict(zip(files, map(int, stems), strict=True))
    names = stems if len({*stems}) == len(files) else files
    rank = {name: number for number, name in enumerate(sorted(names))}
    return {file: rank[name] for file, name in zip(files, names, strict=True)}


def _host(tensor: Any) -> Floats:
    array: Floats = tensor.detach().cpu().double().numpy()
    return array


def _joined(parts: Sequence[NDArray[Any]], *row_shape: int) -> Floats:
    """Concatenate the rows of all parts. Empty parts may have another shape."""
    full = [part for part in parts if len(part)]
    return np.concatenate(full).astype(np.float64) if full else np.zeros((0, *row_shape))


class DetectionValidator(_CocoValidator, detect.DetectionValidator):
    """Ultralytics' validator of boxes, with COCO's numbers: `model.val(validator=DetectionValidator)`.

    `results_dict` of the metrics has them as `metrics/coco_map(B)`, `metrics/coco_map_50(B)` and so on; `coco["B"]` is
    the whole `Result`, with classes and curves. The detections equal the rows of predictions.json, whether it is
    written or not: boxes are rounded to 3 decimals and scores to 5. The truths are Ultralytics' labels, without crowds
    and with the area of the box; for COCO, if annotations/instances_val2017.json exists, they come from that file.
    Ultralytics' own numbers don't change. It takes the arguments of Ultralytics' validator.
    """


class SegmentationValidator(_CocoValidator, segment.SegmentationValidator):
    """Ultralytics' validator of boxes ("B") and masks ("M"), with COCO's numbers, as in `DetectionValidator`.

    Masks are compared in the size of the original image. They are made as with `save_json=True`, so Ultralytics' own
    mask numbers are the ones that it gives with `save_json=True`.
    """

    iou_types: Mapping[str, IouType] = {"B": "bbox", "M": "segm"}
    metrics_class = SegmentMetrics

    def init_metrics(self, model: Any) -> None:
        """Start a new evaluation; masks are made with `process_mask_native`, as for predictions.json."""
        super().init_metrics(model)
        self.process = ops.process_mask_native

    def shapes_of_preds(self, preds: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The boxes and masks of scaled predictions."""
        masks = [Masks.from_pixels(each["masks"].cpu().numpy()) for each in preds]
        return super().shapes_of_preds(preds) | {"masks": Masks.concatenate([Masks.from_rle([]), *masks])}

    def shapes_of_labels(self, labels: Sequence[dict[str, Any]], sizes: Sequence[tuple[int, int]]) -> dict[str, Any]:
        """The boxes of labels, and their polygons, drawn into images of the original size."""
        outlines = [
            (each.astype(np.float64) * size, size)
            for label, size in zip(labels, sizes, strict=True)
            for each in label["segments"]
        ]
        polygons, extents = [[points.reshape(-1)] for points, _ in outlines], [size[::-1] for _, size in outlines]
        mask = Masks.from_polygons(polygons, extents) if outlines else Masks.from_rle([])
        return super().shapes_of_labels(labels, sizes) | {"masks": mask}


class PoseValidator(_CocoValidator, pose.PoseValidator):
    """Ultralytics' validator of boxes ("B") and poses ("P"), with COCO's numbers, as in `DetectionValidator`.

    The area of a label's pose is 0.53 of its box, as in Ultralytics.
    """

    iou_types: Mapping[str, IouType] = {"B": "bbox", "P": "keypoints"}
    annotations = "person_keypoints_val2017.json"
    metrics_class = PoseMetrics

    def protocol(self, iou_type: str) -> Protocol:
        """COCO's rules; for keypoints other than COCO's 17, with Ultralytics' sigmas."""
        protocol = super().protocol(iou_type)
        if iou_type != "keypoints" or np.array_equal(self.sigma, metrics.OKS_SIGMA):
            return protocol
        return protocol.replace(sigmas=tuple(map(float, self.sigma)))

    def shapes_of_preds(self, preds: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The boxes and keypoints of scaled predictions."""
        points = _joined([_host(each["keypoints"]) for each in preds], *self.kpt_shape)
        return super().shapes_of_preds(preds) | {"keypoints": points}

    def shapes_of_labels(self, labels: Sequence[dict[str, Any]], sizes: Sequence[tuple[int, int]]) -> dict[str, Any]:
        """The boxes and keypoints of labels."""
        pairs = zip(labels, sizes, strict=True)
        points = [label["keypoints"].astype(np.float64) * [*size, 1] for label, size in pairs if len(label["cls"])]
        return super().shapes_of_labels(labels, sizes) | {"keypoints": _joined(points, self.kpt_shape[0], 3)}


class OBBValidator(_CocoValidator, obb.OBBValidator):
    """Ultralytics' validator of oriented boxes, with COCO's numbers, as in `DetectionValidator`.

    COCO's rules apply, with the exact IoU of the corners in predictions.json and labels.
    """

    iou_types: Mapping[str, IouType] = {"B": "obb"}
    metrics_class = OBBMetrics

    def shapes_of_preds(self, preds: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The corners of scaled predictions."""
        parts = [_host(ops.xywhr2xyxyxyxy(each["bboxes"]).reshape(-1, 8)) for each in preds]
        return {"boxes": _joined(parts, 8).round(_BOX_DIGITS), "box_format": "xyxyxyxy"}

    def shapes_of_labels(self, labels: Sequence[dict[str, Any]], sizes: Sequence[tuple[int, int]]) -> dict[str, Any]:
        """The corners of labels."""
        corners = [
            (each.astype(np.float64) * size).reshape(1, 8)
            for label, size in zip(labels, sizes, strict=True)
            for each in label["segments"]
        ]
        return {"boxes": _joined(corners, 8), "box_format": "xyxyxyxy"}


class _CocoTrainer:
    """Mixin that makes Ultralytics' trainers validate with the validators above."""

    validator_class: type[_CocoValidator] = DetectionValidator

    # Attributes of Ultralytics' trainers.
    metrics: Any
    test_loader: Any
    save_dir: Any
    args: Any
    callbacks: Any

    def get_validator(self) -> Any:
        """Make the validator with COCO's numbers."""
        settings = {"save_dir": self.save_dir, "args": copy(self.args), "_callbacks": self.callbacks}
        return self.validator_class(self.test_loader, **settings)

    def _setup_train(self) -> None:
        super()._setup_train()  # type: ignore[misc]
        if RANK in {-1, 0}:  # results.csv needs the same columns from the first epoch on, also with val=False
            self.metrics |= dict.fromkeys(self.validator_class.coco_keys(), 0.0)


class DetectionTrainer(_CocoTrainer, detect.DetectionTrainer):
    """Ultralytics' trainer, with COCO's numbers after every epoch: `model.train(trainer=DetectionTrainer, …)`.

    They are in results.csv and go to loggers, as `metrics/coco_map(B)` and so on, rounded to 5 decimals like all of
    Ultralytics' numbers during training. Ultralytics' fitness, and so the choice of best.pt, doesn't change.
    """


class SegmentationTrainer(_CocoTrainer, segment.SegmentationTrainer):
    """Ultralytics' trainer for masks, with COCO's numbers, as in `DetectionTrainer`."""

    validator_class = SegmentationValidator


class PoseTrainer(_CocoTrainer, pose.PoseTrainer):
    """Ultralytics' trainer for poses, with COCO's numbers, as in `DetectionTrainer`."""

    validator_class = PoseValidator


class OBBTrainer(_CocoTrainer, obb.OBBTrainer):
    """Ultralytics' trainer for oriented boxes, with COCO's numbers, as in `DetectionTrainer`."""

    validator_class = OBBValidator
