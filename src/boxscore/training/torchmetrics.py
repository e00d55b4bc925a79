"""The metric with torchmetrics' constructor, names and synchronization. Needs PyTorch and torchmetrics.

docs/guides/training.md lists the differences from torchmetrics' MeanAveragePrecision, with reasons.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import torch
from torchmetrics import Metric

from boxscore._support.exceptions import InputError
from boxscore._support.locks import fork_safe_lock
from boxscore._support.untraced import untraced
from boxscore.arrays import convert, to_numpy
from boxscore.checks.mistakes import Remedies, Watch
from boxscore.data.batch_keys import TRUTH_KEYS, Keys
from boxscore.data.batches import build_from_images, in_argument, read_images
from boxscore.data.dataset import (
    Detections,
    Invalid,
    Truths,
    checked_invalid,
    host_ids,
)
from boxscore.data.geometry.box_formats import UPRIGHT_FORMATS, BoxFormat, check_box_format
from boxscore.data.geometry.boxes import sizes
from boxscore.data.geometry.masks import Masks
from boxscore.data.image_ids import ImageIds, image_ids_of
from boxscore.data.preparation import shaped_by
from boxscore.data.row_buffer import RowBuffer
from boxscore.pipeline import finish, match
from boxscore.protocol.fields import check_choice
from boxscore.protocol.protocol import IouType, Protocol, iou_types_of
from boxscore.protocol.table import protocol_of
from boxscore.result import storage
from boxscore.result.distributed import explained, is_first, renumbered, without_copies
from boxscore.result.result import Result
from boxscore.result.tally import Tally, joined
from boxscore.training import metric, stored_shapes

Images = Sequence[Mapping[str, Any]]

_COCO = Protocol.named("coco")


class _Matcher(metric.MeanAveragePrecision[Any]):
    """The metric that reads and matches batches, with torchmetrics' names, areas and treatment of images."""

    _targets = "target"
    _fills_areas = True

    def __init__(self, *, is_micro: bool, keeps_shapes: bool, **settings: Any) -> None:
        super().__init__(**settings)
        self.is_micro, self.keeps_shapes = is_micro, keeps_shapes
        self.limit: int | None = None
        """An image with more detections of one class gives a warning."""
        self.packed = b""
        """The shapes of the last batch, with `keeps_shapes`."""
        self._last: tuple[Detections, Truths] | None = None

    @property
    def _needs_pixels(self) -> bool:
        return self.keeps_shapes

    @property
    def _is_watching(self) -> bool:
        return self.warn and any(watch.is_open for watch in self._watches.values())

    def _look_at(self, detections: Detections, truths: Truths) -> None:
        for iou_type, watch in self._watches.items():
            watch.add(shaped_by(detections, iou_type), shaped_by(truths, iou_type))

    def _ids_in(self, targets: Any) -> ImageIds | None:
        if not self.unique_images:
            return None
        try:
            return in_argument("target", image_ids_of, targets, "for unique_images=True")
        except InputError:
            in_argument("target", read_images, targets, self._target_keys)  # errors of invalid targets come first
            raise

    @property
    def _target_keys(self) -> Keys:
        defaults = {} if "keypoints" in self.protocols else {"area": 0}
        return TRUTH_KEYS._replace(defaults={**TRUTH_KEYS.defaults, **defaults}).of_shapes(tuple(self.protocols))

    def _read_targets(self, targets: Any, images: list[int]) -> Truths:
        settings: dict[str, Any] = {"box_format": self.box_format} if "boxes" in self._target_keys.all else {}
        read = partial(build_from_images, Truths, targets, self._target_keys, images, as_numpy=True, **settings)
        truths: Truths = in_argument("target", read)
        return truths if "keypoints" in self.protocols else _with_areas(truths)

    def _add_to_buffer(self, *values: Any) -> bool:
        return not self.is_micro and not self.keeps_shapes and super()._add_to_buffer(*values)

    def _examine(self, buffer: RowBuffer, read: Callable[[], Any]) -> None:
        super()._examine(buffer, read)
        if self.limit is not None and buffer.compiled.most_last_detections > self.limit:
            _warn_of_many(buffer.last()[0], self.limit)

    def _match(self, detections: Detections, truths: Truths, read: Callable[[], Any] | None = None) -> dict[str, Tally]:
        if self.limit is not None:
            _warn_of_many(detections, self.limit)
        tallies = super()._match(detections, truths, read)
        if self.is_micro:
            # as in torchmetrics: one label for all, in input order
            pooled = replace(detections, labels=np.zeros(len(detections), np.int64))
            pooled_truths = replace(truths, labels=np.zeros(len(truths), np.int64))
            for each, rules in self.protocols.items():
                tallies[f"{each} pooled"] = match(pooled, pooled_truths, rules.replace(class_agnostic=True))
        self._last = (detections, truths) if self.keeps_shapes else None
        return tallies

    def _store(self, tallies: Mapping[str, Tally], images: list[int], ids: ImageIds | None) -> None:
        super()._store(tallies, images, ids)
        self.packed = stored_shapes.pack(*self._last, images) if self._last is not None and images else b""

    def drain(self) -> bytes:
        """Return the bytes of all tallies, and forget the updates."""
        with self._lock:
            self._settle()
            content = b"".join(storage.to_bytes(joined(parts)) for parts in self._tallies.values() if parts)
            self.reset()
            return content


class _Tallies(list[torch.Tensor]):
    """The bytes of tallies, one or more per tensor, and the metric that has the batches since the last.

    The metrics of a collection may share one list, so that metric is stored here.
    """

    def __init__(self, parts: Sequence[torch.Tensor] = ()) -> None:
        super().__init__(parts)
        self.lock = fork_safe_lock()
        self.matcher: _Matcher | None = None
        self.settings: dict[str, Any] = {}

    def drain(self, device: torch.device) -> None:
        """Append the tallies of the batches since the last, if any."""
        with self.lock:
            content = b"" if self.matcher is None else self.matcher.drain()
            if content:
                self.append(_as_tensor(content, device))

    def __reduce__(self) -> Any:
        return _Tallies, ([*self],)


class MeanAveragePrecision(Metric):
    """mAP and mAR under COCO's protocol, in a dict of tensors with the names of torchmetrics.

    `update` matches a batch and stores the verdicts as bytes; boxes are forgotten. Neither torchvision nor pycocotools
    is needed. The first nine arguments are torchmetrics'; the others are new.

    With `iou_type="segm"` dicts have `masks` in place of `boxes`, booleans or bytes (D, H, W) or (D, 1, H, W). With
    `iou_type=("bbox", "segm")` they have both, and the names of numbers begin with `bbox_` and `segm_`. With
    `iou_type="keypoints"`, which torchmetrics does not have, predictions have `keypoints` (D, K, 3), and targets have
    `keypoints` (G, K, 3), `labels` and optionally `boxes`, `area`, `visibility` and flags: OKS under COCO's protocol
    for keypoints.

    Args:
        box_format: "xyxy", "xywh" or "cxcywh".
        iou_type: "bbox", "segm", a tuple of both, or "keypoints".
        iou_thresholds: The IoU thresholds; by default COCO's, 0.5 to 0.95.
        rec_thresholds: The recall points; by default COCO's, 0 to 1 in steps of 0.01.
        max_detection_thresholds: The limits of detections per image and class; by default COCO's.
        class_metrics: Whether `compute` returns AP and AR of each class.
        extended_summary: Whether `compute` returns curves and IoUs, too; keeps all boxes, as `keep_boxes` does.
        average: "macro" averages over classes; "micro" gives all detections and truths one label.
        backend: torchmetrics' "pycocotools" or "faster_coco_eval"; changes nothing here.
        sigmas: The spread of annotators for each keypoint, relative to the size of the object; by default COCO's 17.
        unique_images: Whether images are told apart by `image_id`, which every target must have then. Of images with
            the same id, such as a sampler's repetitions, the first one of the lowest rank counts. If False, every image
            counts, and ties of score break by rank and order.
        scalars_only: Whether to return only numbers that `log_dict` can log: no arrays, no `classes`.
        skip_undefined: Whether to drop undefined numbers from the dict instead of returning -1.
        keep_boxes: Whether to keep all boxes, about 90 bytes each, and masks, about one byte per run, for
            `tm_to_coco`.
        warn: Whether to warn, once each, about inputs that are likely a mistake.
        invalid: The treatment of a prediction with a NaN, an infinity or a negative size: "drop" drops it, with one
            warning, and `num_invalid` counts it; "error" refuses the batch. Targets must always be valid.
        torchmetrics_thresholds: Whether default thresholds are torchmetrics', which are COCO's rounded to single
            precision, so that numbers equal torchmetrics' to the last bit.
        **settings: Arguments of torchmetrics' `Metric`.

    >>> metric = MeanAveragePrecision()
    >>> pred = {"boxes": torch.tensor([[0.0, 0.0, 10.0, 9.0]]), "scores": torch.tensor([0.9])}
    >>> target = {"boxes": torch.tensor([[0.0, 0.0, 10.0, 10.0]])}
    >>> metric.update([pred | {"labels": torch.tensor([1])}], [target | {"labels": torch.tensor([1])}])
    >>> metric.compute()["map"], metric.compute()["map_large"]
    (tensor(0.9000), tensor(-1.))
    """

    __jit_unused_properties__: ClassVar[list[str]] = [
        *Metric.__jit_unused_properties__,
        "iou_thresholds",
        "rec_thresholds",
        "max_detection_thresholds",
        "num_invalid",
        "tallies",
        "_has_keypoints",
    ]
    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0
    warn_on_many_detections = True
    boxes: list[torch.Tensor]
    """Bytes of all boxes and masks, with `keep_boxes` only; see `boxscore.training.stored_shapes`."""

    def __init__(
        self,
        box_format: BoxFormat = "xyxy",
        iou_type: IouType | tuple[IouType, ...] = "bbox",
        iou_thresholds: Sequence[float] | None = None,
        rec_thresholds: Sequence[float] | None = None,
        max_detection_thresholds: Sequence[int] | None = None,
        class_metrics: bool = False,
        extended_summary: bool = False,
        average: str = "macro",
        backend: str = "pycocotools",
        *,
        sigmas: Sequence[float] | None = None,
        unique_images: bool = False,
        scalars_only: bool = False,
        skip_undefined: bool = False,
        keep_boxes: bool = False,
        warn: bool = True,
        invalid: Invalid = "drop",
        torchmetrics_thresholds: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        check_box_format(box_format, UPRIGHT_FORMATS)
        self.iou_type = _iou_types(iou_type)
        check_choice("average", average, ("macro", "micro"))
        check_choice("backend", backend, ("pycocotools", "faster_coco_eval"))  # validated, not used
        flags = {"class_metrics": class_metrics, "extended_summary": extended_summary}
        flags |= {"unique_images": unique_images, "scalars_only": scalars_only}
        flags |= {"skip_undefined": skip_undefined, "keep_boxes": keep_boxes, "warn": warn}
        for name, flag in (flags | {"torchmetrics_thresholds": torchmetrics_thresholds}).items():
            if not isinstance(flag, bool):
                raise InputError(f"`{name}` must be True or False; got {flag!r}")
        if self._has_keypoints and (keep_boxes or extended_summary):
            raise InputError("`keep_boxes` and `extended_summary` keep boxes and masks, and no keypoints")
        base = protocol_of("coco", self.iou_type[0])
        if sigmas is not None and not self._has_keypoints:
            raise InputError('`sigmas` must be given with iou_type="keypoints" alone')
        if sigmas is not None:
            base = base.replace(sigmas=sigmas)
        self.protocol = _protocol(base, iou_thresholds, rec_thresholds, max_detection_thresholds)
        if torchmetrics_thresholds:
            self.protocol = _in_single_precision(self.protocol, iou_thresholds, rec_thresholds)
        self.box_format, self.average = box_format, average
        self.class_metrics, self.extended_summary = class_metrics, extended_summary
        self.unique_images, self.scalars_only = unique_images, scalars_only
        self.skip_undefined, self.keep_boxes = skip_undefined, keep_boxes or extended_summary
        self.warn, self.invalid = warn, checked_invalid(invalid)
        self._watches = {each: Watch() for each in self.iou_type}
        self._warned: frozenset[str] = frozenset()
        self._is_diagnosed, self._is_in_forward = False, False
        self.add_state("tallies", default=[], dist_reduce_fx="cat")
        if self.keep_boxes:
            self.add_state("boxes", default=[], dist_reduce_fx="cat")

    @property
    def _has_keypoints(self) -> bool:
        return self.iou_type == ("keypoints",)

    @property
    def iou_thresholds(self) -> list[float]:
        """The IoU thresholds, ascending."""
        return list(self.protocol.thresholds)

    @property
    def rec_thresholds(self) -> list[float]:
        """The recall points, ascending."""
        return list(self.protocol.recall_points)

    @property
    def max_detection_thresholds(self) -> list[int]:
        """The limits of detections per image and class, ascending."""
        return [int(limit) for limit in self.protocol.limits if limit is not None]

    @property
    def num_invalid(self) -> int:
        """Number of invalid predictions that were dropped; while states are synchronized, of all processes."""
        return self._joined(self._protocols()[0], list(self._split())).num_invalid

    @property
    def tallies(self) -> list[torch.Tensor]:
        """The state: bytes of tallies, one or more per tensor; one tensor while states are synchronized."""
        if isinstance(self._tallies, _Tallies):
            try:
                self._tallies.drain(self.device)
            finally:  # batches whose arrays have arrived now may have given warnings
                if self._tallies.matcher is not None:
                    self._warned |= self._tallies.matcher._warned
        return self._tallies

    @tallies.setter
    def tallies(self, value: list[torch.Tensor]) -> None:
        self._tallies = _Tallies(value) if type(value) is list else value

    @untraced
    def update(self, preds: Images, target: Images) -> None:
        """Match one batch. An invalid batch is refused as a whole; with `invalid="drop"` predictions are dropped.

        Args:
            preds: One dict per image with `boxes` (D, 4), `scores` (D,) and `labels` (D,).
            target: One dict per image with `boxes` (G, 4), `labels` (G,) and optionally `area` (G,) and any of
                `iscrowd`, `ignore` and `difficult` (G,).
        """
        for name, images in (("preds", preds), ("target", target)):
            if isinstance(images, Mapping | str) or not isinstance(images, Sequence):
                raise InputError(f"`{name}` must be a list of dicts, one per image; got {type(images).__name__}")
        if len(preds) != len(target):
            raise InputError(f"`preds` and `target` must have one entry per image; got {len(preds)} and {len(target)}")
        settings: dict[str, Any] = {"protocol": self.protocol, "iou_type": self.iou_type, "box_format": self.box_format}
        settings |= {"unique_images": self.unique_images, "invalid": self.invalid}
        settings |= {"is_micro": self.average == "micro", "keeps_shapes": self.keep_boxes}
        tallies: Any = self._tallies
        with tallies.lock:
            if tallies.settings != settings:
                tallies.drain(self.device)
                tallies.matcher, tallies.settings = _Matcher(**settings), settings
            matcher = tallies.matcher
            matcher.warn, matcher._warned, matcher._watches = self.warn, self._warned, self._watches
            matcher.limit = self.max_detection_thresholds[-1] if self.warn_on_many_detections else None
            try:
                matcher.update(preds, target)
            finally:
                self._warned = matcher._warned
            if self.keep_boxes:
                tallies.drain(self.device)  # so that images of each block are numbered from 0
                if matcher.packed:
                    self.boxes.append(_as_tensor(matcher.packed, self.device))

    @torch.jit.unused  # type: ignore[untyped-decorator]
    @untraced
    def forward(self, *values: Any, **named: Any) -> Any:
        """Add one batch, as `update` does, and return its numbers. One batch is too few to warn about mistakes."""
        self._is_in_forward = True
        try:
            return super().forward(*values, **named)
        finally:
            self._is_in_forward = False

    @untraced
    def compute(self) -> dict[str, Any]:
        """Compute the numbers of all updates on all processes. Undefined numbers are -1, as in torchmetrics."""
        each = list(self._split())
        computed: dict[str, Any] = {}
        for protocol in self._protocols():
            prefix = "" if len(self.iou_type) == 1 else f"{protocol.iou_type}_"
            per_class = finish(self._joined(protocol, each))
            if self.warn and not self._is_diagnosed and not self._is_in_forward and is_first():
                self._diagnose(per_class)
            averaged = per_class
            if self.average == "micro":
                averaged = finish(self._joined(protocol.replace(class_agnostic=True), each))
            numbers = _numbers(averaged)
            if self.skip_undefined:
                numbers = {name: value for name, value in numbers.items() if value >= 0}
            if not self.scalars_only:
                numbers |= self._arrays(per_class, averaged)
            computed |= {f"{prefix}{name}": value for name, value in numbers.items()}
        if not self.scalars_only:
            computed["classes"] = torch.from_numpy(per_class.per_class.label.astype(np.int32))
        return computed

    def _arrays(self, per_class: Result, averaged: Result) -> dict[str, Any]:
        """The entries that are not one number: AP and AR per class, and with `extended_summary` curves and IoUs."""
        classes, last = per_class.per_class, self.max_detection_thresholds[-1]
        values = (classes.ap, classes.ar) if self.class_metrics else (np.array([-1.0]), np.array([-1.0]))
        extended: dict[str, Any] = {}
        if self.extended_summary:
            curves = averaged.curves
            extended = {name: torch.tensor(getattr(curves, name)) for name in ("precision", "recall", "scores")}
            iou_type = averaged.protocol.iou_type
            ious = self._stored_shapes().ious(last, iou_type, is_pooled=self.average == "micro")
            extended["ious"] = {
                key: torch.tensor(iou, dtype=torch.float32) if len(iou) else [] for key, iou in ious.items()
            }
        return {**extended, "map_per_class": _tensor(values[0]), f"mar_{last}_per_class": _tensor(values[1])}

    def _protocols(self) -> list[Protocol]:
        """The protocol for each similarity."""
        return [self.protocol.replace(iou_type=each) for each in self.iou_type]

    def _diagnose(self, result: Result) -> None:
        """Warn, once, about likely mistakes behind a result, judging by the boxes of the first batches."""
        remedies = Remedies(truths="`target`", class_names=None)
        for mistake in self._watches[result.protocol.iou_type].find_mistakes(result, remedies):
            self._is_diagnosed = True
            warnings.warn(f"{mistake} (warn=False silences this)", stacklevel=metric.caller_level())

    def tm_to_coco(self, name: str = "tm_map_input") -> None:
        """Write the images of this process to `<name>_preds.json` and `<name>_target.json`, in COCO's format.

        Images are numbered as they came; with `unique_images` they have their ids.

        Args:
            name: The beginning of both paths.

        Raises:
            InputError: If the metric keeps no boxes; make it with `keep_boxes=True`.
        """
        if not self.keep_boxes:
            raise InputError("`tm_to_coco` needs the boxes: make the metric with keep_boxes=True")
        self._stored_shapes().write_coco(name, self.iou_type)

    @staticmethod
    def coco_to_tm(
        coco_preds: str, coco_target: str, iou_type: IouType | Sequence[IouType] = "bbox", backend: str = "pycocotools"
    ) -> tuple[list[dict[str, torch.Tensor]], list[dict[str, torch.Tensor]]]:
        """Read COCO's files as inputs of `update`. Boxes are xywh, masks uint8 (N, H, W).

        Images with truths come first, in the order of their first truth in the file; then images without truths.

        Args:
            coco_preds: The path of the results.
            coco_target: The path of the ground truth.
            iou_type: "bbox" for boxes, "segm" for masks, or a tuple of both.
            backend: torchmetrics' "pycocotools" or "faster_coco_eval"; changes nothing here.

        Returns:
            Predictions and targets, one dict per image.
        """
        iou_types = iou_types_of(iou_type, ("bbox", "segm"))
        check_choice("backend", backend, ("pycocotools", "faster_coco_eval"))
        preds, target = (
            [{key: torch.from_numpy(column) for key, column in image.items()} for image in images]
            for images in stored_shapes.read_coco(coco_preds, coco_target, iou_types)
        )
        return preds, target

    def __getstate__(self) -> dict[str, Any]:
        """As in torchmetrics, but a copy shares no list that `update` changes in place."""
        _ = self.tallies  # matches the waiting batches
        state: dict[str, Any] = super().__getstate__()
        changed = (name for name in ("_tallies", "boxes") if name in state)
        watches = {each: copy(watch) for each, watch in self._watches.items()}
        return state | {name: copy(state[name]) for name in changed} | {"_watches": watches}

    def _stored_shapes(self) -> stored_shapes.StoredShapes:
        content = _as_bytes(self.boxes, torch.device("cpu")).numpy().tobytes()
        return stored_shapes.StoredShapes.unpack(content, unique_images=self.unique_images)

    def reset(self) -> None:
        """Forget all updates."""
        if not self._is_in_forward:  # `forward` resets, then restores the state
            self._watches = {each: Watch() for each in self.iou_type}
        self.tallies = []  # torchmetrics would empty the list in place; wrappers such as `Running` still hold it
        if self.keep_boxes:
            self.boxes = []
        super().reset()

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot results, as in torchmetrics. Needs matplotlib.

        Args:
            val: One result of `compute`, or a list of results; by default a new one.
            ax: matplotlib's axes to draw into; by default new ones.

        Returns:
            A figure and axes.
        """
        return self._plot(val, ax)

    def sync(self, *values: Any, **settings: Any) -> None:
        """Gather the bytes of all processes, with torchmetrics' three collectives."""
        if not self._is_synced:
            # A process without data must send an empty tensor of bytes; torchmetrics would send one of floats.
            self.tallies = [_as_bytes(self.tallies, self.device)]
            if self.keep_boxes:
                self.boxes = [_as_bytes(self.boxes, self.device)]
        advice = "; MeanAveragePrecision(sync_on_compute=False) computes the numbers of one process"
        with explained("compute()", advice, self.process_group):
            super().sync(*values, **settings)

    def _split(self) -> Iterator[Tally]:
        """Yield the tallies in the order of updates, rank 0 first."""
        for part in self.tallies if isinstance(self.tallies, list) else [self.tallies]:
            rest = memoryview(part.cpu().numpy())
            while len(rest):
                tally, rest = storage.split_bytes(rest, "the state of the metric")
                yield tally

    def _joined(self, protocol: Protocol, tallies: Sequence[Tally]) -> Tally:
        """Merge the tallies of one protocol."""
        own = [tally for tally in tallies if tally.protocol == protocol]
        return joined([Tally.empty(protocol), *(without_copies(own) if self.unique_images else renumbered(own))])


def _iou_types(value: Any) -> tuple[str, ...]:
    """Validate `iou_type`; return a tuple of "bbox", "segm" or both, or of "keypoints"."""
    if value in ("keypoints", ("keypoints",)):
        return ("keypoints",)
    try:
        return iou_types_of(value, ("bbox", "segm"))
    except InputError:
        raise InputError(f"`iou_type` must be bbox, segm, a tuple of both, or keypoints; got {value!r}") from None


def _protocol(base: Protocol, thresholds: Any, recalls: Any, limits: Any) -> Protocol:
    """The protocol with the given thresholds, recall points and limits; None and empty lists change nothing."""
    names = {"thresholds": "iou_thresholds", "recall_points": "rec_thresholds", "limits": "max_detection_thresholds"}
    changes: dict[str, Any] = {}
    for name, values in zip(names, (thresholds, recalls, limits), strict=True):
        if values is None:
            continue
        if isinstance(values, str) or not hasattr(values, "__len__"):
            raise InputError(f"`{names[name]}` must be a list of numbers; got {values!r}")
        if len(values):
            changes[name] = list(values)
    if "limits" in changes:
        if not all(isinstance(limit, Integral) and not isinstance(limit, bool) for limit in changes["limits"]):
            raise InputError(f"`max_detection_thresholds` must be positive integers; got {changes['limits']}")
        changes["limits"] = sorted(set(changes["limits"]))
    try:
        return base.replace(**changes)
    except InputError as error:
        raise InputError(error.rule, argument=names.get(error.argument or "", error.argument)) from None


def _in_single_precision(protocol: Protocol, thresholds: Any, recalls: Any) -> Protocol:
    """The protocol with torchmetrics' single-precision thresholds in place of the defaults."""
    if protocol.iou_type == "keypoints":
        raise InputError("`torchmetrics_thresholds` is for boxes and masks: torchmetrics has no keypoints")
    changes: dict[str, Any] = {}
    if thresholds is None or not len(thresholds):
        changes["thresholds"] = torch.linspace(0.5, 0.95, 10).tolist()  # as in torchmetrics
    if recalls is None or not len(recalls):
        changes["recall_points"] = torch.linspace(0.0, 1.0, 101).tolist()
    if not changes:
        raise InputError(
            "`torchmetrics_thresholds` replaces defaults, but `iou_thresholds` and `rec_thresholds` are given:"
            " leave out one of the three"
        )
    return protocol.replace(**changes)


def _with_areas(truths: Truths) -> Truths:
    """Replace areas of 0 by the areas of the shapes; as in torchmetrics, of the masks if the truths have masks."""
    masks = next((each for each in truths.geometries if isinstance(each, Masks)), None)
    if truths.area is None:
        is_both = masks is not None and len(truths.geometries) > 1
        return replace(truths, area=masks.areas(_COCO)) if masks is not None and is_both else truths
    area = to_numpy(truths.area)
    if area.all():
        return truths
    if masks is not None:
        own = to_numpy(masks.areas(_COCO))
    else:
        width, height = sizes(to_numpy(truths.boxes).astype(np.float64), truths.box_format)
        own = width * height
    return replace(truths, area=convert(np.where(area > 0, area, own), like=truths.geometry.arrays[0]))


def _warn_of_many(detections: Detections, limit: int) -> None:
    """Warn if an image has more detections of one class than `limit`."""
    if len(detections) <= limit:
        return
    image, label = host_ids(detections.image_ids), host_ids(detections.labels)
    if np.unique(image, return_counts=True)[1].max() <= limit:
        return
    most = np.unique(np.stack([image, label]), axis=1, return_counts=True)[1].max()
    if most > limit:
        warnings.warn(
            # begins as torchmetrics' warning does, for filters by message
            f"Encountered more than {limit} detections in a single image: {most} are of one class, of which the {limit}"
            " with the highest scores count; a larger limit in `max_detection_thresholds` counts more of them"
            " (warn_on_many_detections=False silences this)",
            stacklevel=metric.caller_level(),
        )


def _numbers(result: Result) -> dict[str, torch.Tensor]:
    """The numbers by name, always with `map_50` and `map_75`; -1 if undefined."""
    numbers = {"map": result["map"]}
    for name, threshold in (("map_50", 0.5), ("map_75", 0.75)):
        near = [value for each, value in result.per_threshold.items() if abs(each - threshold) < 1e-9]
        numbers[name] = near[0] if near else np.nan
    numbers |= {name: value for name, value in result.items() if name not in numbers}
    return {name: _tensor(np.array([value])) for name, value in numbers.items()}


def _tensor(values: Any) -> torch.Tensor:
    """Single-precision numbers, -1 for NaN. `Metric` removes the axis of a single number."""
    return torch.from_numpy(np.where(np.isnan(values), -1.0, values).astype(np.float32))


def _as_tensor(content: bytes, device: torch.device) -> torch.Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8).to(device)


def _as_bytes(tallies: Any, device: torch.device) -> torch.Tensor:
    """Concatenate the bytes of a list of tensors; a single tensor is accepted, too."""
    parts = tallies if isinstance(tallies, list) else [tallies]
    return torch.cat(
        [torch.zeros(0, dtype=torch.uint8, device=device), *(part.to(device, torch.uint8) for part in parts)]
    )
