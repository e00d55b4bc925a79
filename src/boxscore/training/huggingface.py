"""mAP of Transformers' detectors from a model's outputs and labels, as `compute_metrics` of a `Trainer`.

```text
 outputs ── the processor's post-processing ──► boxes or masks, scores, labels ─┐
                       ▲ target sizes                                           ├─► MeanAveragePrecision
 labels ── size, orig_size, pixel mask ── scaled to the original image ─────────┘
```
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from types import SimpleNamespace
from typing import Any

import torch
from accelerate.state import GradientState
from transformers.image_transforms import center_to_corners_format, get_size_with_aspect_ratio
from transformers.image_utils import get_image_size_for_max_height_width

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore._support.keyword_hints import suggests_keywords
from boxscore.data.dataset import Invalid
from boxscore.protocol.fields import check_choice
from boxscore.protocol.protocol import EngineName, IouType, ProtocolLike
from boxscore.result import distributed
from boxscore.result.result import Result
from boxscore.training.metric import MeanAveragePrecision

__all__ = ["DetectionMetrics"]

Images = list[dict[str, Any]]

_POST_PROCESSING = {
    "bbox": "post_process_object_detection",
    "segm": "post_process_instance_segmentation",
    "boundary": "post_process_instance_segmentation",
}
"""The image processor's method for each similarity."""

_READ_BY_PROCESSORS = ("logits", "pred_boxes", "pred_masks", "class_queries_logits", "masks_queries_logits")
"""The model outputs that post-processing reads."""


class DetectionMetrics:
    """mAP as `compute_metrics` of Transformers' `Trainer`, for object detection and instance segmentation.

        metrics = DetectionMetrics(processor, id2label=model.config.id2label)
        DetectionTrainer(model, args, eval_dataset=dataset, data_collator=collate, compute_metrics=metrics)

    `DetectionTrainer` passes on every batch after its prediction. Transformers' `Trainer` works in one process, with
    `eval_do_concat_batches=False` or `batch_eval_metrics=True` in its arguments; if it may have lost truths, that is an
    error. The numbers are logged as `eval_map`, `eval_map_50` and so on; undefined numbers are -1, as in torchmetrics.
    In your own loop, call `update` for each batch, then `compute`.

    Boxes are compared in pixels of the original image, whose size is `orig_size` in the labels, also if the processor
    has padded the images. An `area` in the labels decides which truths are small, as in COCO. Masks are compared in the
    size of the label masks.

    Args:
        processor: The image processor of the model, for its `post_process_object_detection`, or with `iou_type="segm"`
            or `"boundary"` its `post_process_instance_segmentation`; or a function with the same arguments: outputs,
            `threshold`, `target_sizes`.
        protocol: As in `MeanAveragePrecision`.
        id2label: The class names by label.
        class_groups: As in `MeanAveragePrecision`.
        threshold: Detections need a higher score; AP is defined for 0.
        iou_type: "bbox", "segm" or "boundary"; by default the protocol's.
        post_process: Further arguments of the post-processing, such as `{"top_k": 300}`.
        per_class: Whether to log `ap/<class>`, too.
        unique_images: As in `MeanAveragePrecision`; a trainer doesn't need it.
        engine: As in `MeanAveragePrecision`.
        threads: As in `MeanAveragePrecision`.
        warn: As in `MeanAveragePrecision`.
        invalid: As in `MeanAveragePrecision`, but "drop" by default, so that a box with NaN doesn't end the training.
    """

    @suggests_keywords
    def __init__(
        self,
        processor: Any,
        protocol: ProtocolLike = "coco",
        *,
        id2label: Mapping[int, str] | None = None,
        class_groups: Mapping[int, str] | None = None,
        threshold: float = 0.0,
        iou_type: IouType | None = None,
        post_process: Mapping[str, Any] | None = None,
        per_class: bool = False,
        unique_images: bool = False,
        engine: EngineName = "auto",
        threads: int | None = None,
        warn: bool = True,
        invalid: Invalid = "drop",
    ) -> None:
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
            raise InputError(f"`threshold` must be a number from 0 to 1; got {threshold!r}")
        if not isinstance(per_class, bool):
            raise InputError(f"`per_class` must be True or False; got {per_class!r}")
        names = None if id2label is None else {int(label): name for label, name in id2label.items()}
        self.metric = MeanAveragePrecision(
            protocol,
            iou_type=iou_type,
            class_names=names,
            class_groups=class_groups,
            engine=engine,
            threads=threads,
            warn=warn,
            unique_images=unique_images,
            invalid=invalid,
        )
        self.processor, self.threshold, self.per_class = processor, threshold, per_class
        self._post_process = _post_processing(processor, iou_type or self.metric.protocol.iou_type)
        self._arguments = {"threshold": threshold, **(post_process or {})}
        if self.has_masks and "return_binary_maps" in inspect.signature(self._post_process).parameters:
            self._arguments["return_binary_maps"] = True  # without it, overlapping masks would lose pixels
        self._loader: Any = None
        self.result: Result | None = None
        """The result of the last evaluation, with classes and curves."""

    def __copy__(self) -> "DetectionMetrics":
        copied = type(self).__new__(type(self))
        vars(copied).update(vars(self), metric=copy(self.metric))
        return copied

    @property
    def has_masks(self) -> bool:
        """Whether masks are compared instead of boxes."""
        return self.metric.protocol.iou_type != "bbox"

    def reset(self) -> None:
        """Forget all batches."""
        self.metric.reset()

    def update(self, outputs: Any, labels: Any, *, pixel_mask: Any = None, num_images: int | None = None) -> None:
        """Match one batch.

        Args:
            outputs: The outputs of the model, or a tuple of them without the loss, as in a `Trainer`.
            labels: The labels of the model, a list of dicts, one per image, with `boxes`, `class_labels` and
                `orig_size`, and optionally `size`, `area`, `iscrowd` and `image_id`; for masks with `masks` and
                `class_labels`, or a pair of lists, `mask_labels` and `class_labels`.
            pixel_mask: The pixel mask of the inputs; without it, the size of an image before padding follows from the
                settings of the processor.
            num_images: Match only this number of images, the first of the batch; by default all.
        """
        named = _named_outputs(outputs, self.has_masks)
        truths = read_labels(labels, self.has_masks)
        num_predicted = len(next(value for key, value in vars(named).items() if key in _READ_BY_PROCESSORS))
        if num_predicted != len(truths):
            raise InputError(f"`outputs` and `labels` must have as many images; got {num_predicted} and {len(truths)}")
        if not truths:
            return
        if self.has_masks:
            preds, targets = self._masks(named, truths)
        else:
            preds, targets = self._boxes(named, truths, pixel_mask)
        self.metric.update(preds[:num_images], targets[:num_images])

    def compute(self) -> dict[str, float]:
        """Compute the numbers of all batches on all processes: `map`, `map_50` and so on; undefined numbers are -1."""
        self.result = self.metric.compute()
        return self.result.log_dict(per_class=self.per_class, undefined=-1.0)

    def __call__(self, evaluation: Any, compute_result: bool | None = None) -> dict[str, float]:
        """Compute the numbers for a `Trainer`, which calls this with all batches, or with one at a time.

        Args:
            evaluation: The `EvalPrediction` of all batches, or with `batch_eval_metrics=True` of one batch.
            compute_result: Whether this is the last batch; None if `evaluation` has all batches.

        Returns:
            The numbers; an empty dict if more batches follow.
        """
        if distributed.is_distributed():
            raise InputError(
                "a `Trainer` can't gather the labels of detectors from several processes: use"
                " boxscore.huggingface.DetectionTrainer, in which every process matches its own images"
            )
        predictions, labels = evaluation.predictions, evaluation.label_ids
        if compute_result is not None:
            return self._add_batch(predictions, labels, is_last=compute_result)
        if not isinstance(predictions, list):
            raise InputError(
                "a `Trainer` must not concatenate batches, whose images have different numbers of truths: set"
                " eval_do_concat_batches=False or batch_eval_metrics=True in its arguments"
            )
        self.reset()
        batches = [read_labels(each, self.has_masks) for each in labels]
        if len(batches) == 1 or len(batches[-1]) < max(map(len, batches)):
            _check_is_complete(batches[-1], len(batches[-1]))
        for outputs, batch in zip(predictions, batches, strict=True):
            self.update(outputs, batch)
        numbers = self.compute()
        self.reset()
        return numbers

    def _add_batch(self, predictions: Any, labels: Any, *, is_last: bool) -> dict[str, float]:
        state = GradientState()
        if state.active_dataloader is not self._loader:  # the previous evaluation was interrupted
            self.reset()
        self._loader = None
        batch = read_labels(labels, self.has_masks)
        if state.end_of_dataloader and state.remainder > 0:
            _check_is_complete(batch, state.remainder)
        self.update(predictions, batch)
        if not is_last:
            self._loader = state.active_dataloader
            return {}
        numbers = self.compute()
        self.reset()
        return numbers

    def _boxes(self, outputs: SimpleNamespace, labels: Images, pixel_mask: Any) -> tuple[Images, Images]:
        """Read the boxes of detections and truths, in pixels of the original images."""
        sizes = [_Sizes(label, self._unpadded(label, index, pixel_mask)) for index, label in enumerate(labels)]
        scale = torch.tensor([each.scale for each in sizes], dtype=torch.float32)
        preds = self._post_process(outputs, target_sizes=scale, **self._arguments)
        targets = []
        for label, each, (height, width) in zip(labels, sizes, scale, strict=True):
            box = center_to_corners_format(_tensor(label["boxes"]).reshape(-1, 4))
            target = {"boxes": box * torch.stack([width, height, width, height]), "labels": label["class_labels"]}
            target |= {key: label[key] for key in ("iscrowd", "image_id") if key in label}
            if "area" in label and each.area_factor is not None:
                target["area"] = _tensor(label["area"]) * each.area_factor
            targets.append(target)
        return preds, targets

    def _masks(self, outputs: SimpleNamespace, labels: Images) -> tuple[Images, Images]:
        """Read the masks of detections and truths, in the size of the truths' masks."""
        sizes = [tuple(label["masks"].shape[-2:]) for label in labels]
        found = self._post_process(outputs, target_sizes=sizes, **self._arguments)
        preds = [_as_prediction(each, size) for each, size in zip(found, sizes, strict=True)]
        targets = []
        for label in labels:
            target = {"masks": _tensor(label["masks"]) > 0.5, "labels": label["class_labels"]}
            targets.append(target | {key: label[key] for key in ("iscrowd", "image_id") if key in label})
        return preds, targets

    def _unpadded(self, label: Mapping[str, Any], index: int, pixel_mask: Any) -> tuple[int, int] | None:
        """Height and width of a processed image without its padding; None if the labels have no `size`."""
        if "size" not in label:
            return None
        padded = _pair(label, "size")
        if pixel_mask is not None:
            mask = torch.as_tensor(pixel_mask[index]) > 0
            return int(mask.any(1).sum()), int(mask.any(0).sum())
        resized = _resized(self.processor, _pair(label, "orig_size"))
        # the `size` of the call may differ from the processor's
        is_within = resized is not None and resized[0] <= padded[0] and resized[1] <= padded[1]
        return resized if is_within else padded


class _Sizes:
    """Factors that convert the fractions and areas in an image's labels to pixels of the original image.

    The processor resizes an image and may pad it; boxes are fractions of `size`, the size after padding:

        ┌───────────────┬───┐
        │ unpadded      │   │   fraction * size = pixels of the unpadded image
        │               │   │   pixels * orig_size / unpadded = pixels of the original image
        ├───────────────┘   │
        └───────────────────┘ size
    """

    def __init__(self, label: Mapping[str, Any], unpadded: tuple[int, int] | None) -> None:
        height, width = _pair(label, "orig_size")
        self.scale: tuple[float, float] = height, width
        """Factors for fractions of height and width."""
        self.area_factor: float | None = None
        """Factor for areas; None if the size of the unpadded image is unknown."""
        if unpadded is not None:
            padded_height, padded_width = _pair(label, "size")
            self.scale = height * padded_height / unpadded[0], width * padded_width / unpadded[1]
            self.area_factor = height * width / (unpadded[0] * unpadded[1])


def _resized(processor: Any, original: tuple[int, int]) -> tuple[int, int] | None:
    """The size to which a processor resizes an image before padding; None if it doesn't pad or the size is unknown."""
    size = getattr(processor, "size", None)
    if size is None or not getattr(processor, "do_pad", False):
        return None
    if not getattr(processor, "do_resize", True):
        return original
    get = size.get if isinstance(size, Mapping) else lambda key: getattr(size, key, None)
    shortest, longest, height, width = map(get, ("shortest_edge", "longest_edge", "max_height", "max_width"))
    if shortest and longest:
        return _whole(get_size_with_aspect_ratio(original, shortest, longest))
    if height and width:
        return _whole(get_image_size_for_max_height_width(original, height, width))
    height, width = map(get, ("height", "width"))
    return (height, width) if height and width else None


def _whole(size: Sequence[Any]) -> tuple[int, int]:
    return int(size[0]), int(size[1])


def _post_processing(processor: Any, iou_type: str) -> Callable[..., Any]:
    check_choice("iou_type", iou_type, _POST_PROCESSING)
    name = _POST_PROCESSING[iou_type]
    method = getattr(processor, name, None)
    if callable(method):
        return method  # type: ignore[no-any-return]
    if inspect.isfunction(processor) or inspect.ismethod(processor):
        return processor
    raise InputError(f"`processor` must have the method `{name}`, or be a function; got {type(processor).__name__}")


def _tensor(value: Any) -> Any:
    """A tensor in host memory, in a precision that NumPy supports."""
    tensor = torch.as_tensor(value).detach().cpu()
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


def _named_outputs(outputs: Any, has_masks: bool) -> SimpleNamespace:
    """The outputs of a model by name; those in `_READ_BY_PROCESSORS` are in host memory."""
    if isinstance(outputs, Mapping):
        named = dict(outputs)
    elif isinstance(outputs, tuple | list):
        # drops the losses, a number and a dict, and lists of layers
        arrays = [each for each in outputs if len(getattr(each, "shape", ())) > 0]
        dims = [len(each.shape) for each in arrays]
        names: tuple[str, ...] = ("logits", "pred_boxes")
        if has_masks:
            names = ("class_queries_logits", "masks_queries_logits") if dims[:2] == [3, 4] else (*names, "pred_masks")
        named = dict(zip(names, arrays, strict=False))
    else:
        raise InputError(f"`outputs` must be the outputs of a model, or a tuple of them; got {type(outputs).__name__}")
    named = {key: _tensor(value) if key in _READ_BY_PROCESSORS else value for key, value in named.items()}
    shapes = {key: tuple(value.shape) for key, value in named.items() if key in _READ_BY_PROCESSORS}
    logits, boxes = shapes.get("logits", ()), shapes.get("pred_boxes", ())
    is_valid = (
        bool({"pred_masks", "masks_queries_logits"} & shapes.keys())
        if has_masks
        else len(logits) == 3 and boxes == (*logits[:2], 4)
    )
    if not is_valid:
        needed = "class_queries_logits and masks_queries_logits" if has_masks else "logits and pred_boxes"
        raise InputError(f"`outputs` must have {needed}, one row per image and query; got {shapes or sorted(named)}")
    return SimpleNamespace(**named)


def read_labels(labels: Any, has_masks: bool) -> Images:
    """Validate the labels and return one dict per image; a pair of lists becomes `masks` and `class_labels`."""
    if isinstance(labels, Mapping) and {"mask_labels", "class_labels"} <= labels.keys():
        labels = labels["mask_labels"], labels["class_labels"]
    if has_masks and isinstance(labels, tuple | list) and len(labels) == 2 and isinstance(labels[0], tuple | list):
        masks, classes = labels if _num_dims(labels[0]) > 1 else reversed(labels)  # ordered as `label_names`
        labels = [{"masks": mask, "class_labels": each} for mask, each in zip(masks, classes, strict=True)]
    if isinstance(labels, Mapping) or not isinstance(labels, tuple | list):
        raise InputError(f"`labels` must be a list of dicts, one per image; got {type(labels).__name__}")
    needed = ("masks", "class_labels") if has_masks else ("boxes", "class_labels", "orig_size")
    for index, label in enumerate(labels):
        if not isinstance(label, Mapping):
            raise InputError(f"labels[{index}] must be a dict; got {type(label).__name__}")
        for key in needed:
            if key not in label:
                raise InputError(f"labels[{index}] must have the key {key!r}; got {sorted(label)}")
    return [
        {key: _tensor(value) if hasattr(value, "shape") else value for key, value in each.items()} for each in labels
    ]


def _num_dims(column: Sequence[Any]) -> int:
    return max((len(each.shape) for each in column), default=0)


def _pair(label: Mapping[str, Any], key: str) -> tuple[int, int]:
    """Read a height and a width from the labels."""
    values = torch.as_tensor(label[key]).tolist()
    if not isinstance(values, list) or len(values) != 2 or not all(value > 0 for value in values):
        raise InputError(f"`{key}` in the labels must be a height and a width; got {values}")
    return _whole(values)


def _as_prediction(found: Mapping[str, Any], size: tuple[int, int]) -> dict[str, Any]:
    """Convert the segments of an image to masks, scores and labels."""
    segments, segmentation = found["segments_info"], found["segmentation"]
    ids = torch.tensor([each["id"] for each in segments], dtype=torch.int64)
    if not segments:
        masks = torch.zeros((0, *size), dtype=torch.bool)
    elif segmentation.ndim == 3:  # one map per segment
        masks = segmentation > 0.5
    else:  # one map, of ids
        masks = segmentation[None] == ids[:, None, None]
    return {
        "masks": masks,
        "scores": torch.tensor([each["score"] for each in segments], dtype=torch.float64),
        "labels": torch.tensor([each["label_id"] for each in segments], dtype=torch.int64),
    }


def _check_is_complete(labels: Images, num_images: int) -> None:
    """Raise `InputError` if targets of an incomplete last batch may have lost rows.

    Accelerate's `gather_for_metrics` truncates every tensor of that batch to the number of images, and so the rows of
    every target. A target with fewer rows than images is complete; one with equally many may have lost rows.
    """
    if all(len(each["class_labels"]) < num_images and len(each.get("orig_size", "hw")) == 2 for each in labels):
        return
    rule = f"Accelerate's `gather_for_metrics` truncates every tensor of a target there to {num_images}"
    advice = "a `per_device_eval_batch_size` that divides the number of images"
    raise InputError(
        f"the labels of the last batch, of {text.count(num_images, 'image')}, may be incomplete: {rule}. Use"
        f" boxscore.huggingface.DetectionTrainer, which gathers no labels, or {advice}"
    )
