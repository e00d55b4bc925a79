"""The streaming metric: `update` matches a batch and forgets its boxes; `compute` gives the result."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import numpy as np

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore._support.keyword_hints import suggests_keywords
from boxscore._support.locks import fork_safe_lock
from boxscore._support.threads import num_threads
from boxscore.checks.mistakes import Mistake, Remedies, Watch, find_input_mistakes
from boxscore.data.batch_keys import DETECTION_KEYS, PADDED_DETECTION_KEYS, PADDED_TRUTH_KEYS, TRUTH_KEYS
from boxscore.data.batches import PaddedBatch, collect_arrays, in_argument, read_images
from boxscore.data.dataset import (
    ClassNames,
    Detections,
    ImageIdsLike,
    Invalid,
    Truths,
    checked_invalid,
    detections_maker,
    host_ids,
    take_images,
)
from boxscore.data.geometry.box_formats import BoxFormat, check_box_format, is_oriented
from boxscore.data.image_ids import ImageIds, image_ids_of, read_image_ids
from boxscore.data.image_objects import as_dicts, is_image_object
from boxscore.data.preparation import shaped_by
from boxscore.data.row_buffer import BufferSettings, RowBuffer
from boxscore.engines.native.compiled_engine import match_buffer
from boxscore.pipeline import finish, match
from boxscore.protocol.fields import check_choice
from boxscore.protocol.protocol import IOU_TYPES, EngineName, IouType, ProtocolLike, as_protocol, difference_of
from boxscore.protocol.table import protocol_of
from boxscore.result import distributed
from boxscore.result.result import Result
from boxscore.result.tally import Tally, joined

_WATCHED = 10
"""Number of updates that are checked for likely mistakes; such mistakes show from the first batch on."""


class MeanAveragePrecision:
    """mAP over a stream of batches; the numbers equal one evaluation of all images, bit for bit.

    `update` matches a batch and stores about 20 bytes per detection; inputs are neither changed nor stored. Small
    batches wait, as copies of a few megabytes at most, to be matched together. `compute` can be called at any time and
    changes nothing.

    With `iou_type` "segm" or "boundary" batches have `masks` in place of `boxes`: booleans or bytes, (D, H, W) or
    (D, 1, H, W) per image. With "obb" or "probiou" `boxes` are oriented, in the format of `box_format`:
    "cxcywha:radians", (D, 5), "xyxyxyxy", (D, 8), and others. Under LVIS targets also have `neg_category_ids`.

    Args:
        protocol: The rules: a name, such as "coco" or "voc2012", or a `Protocol`.
        iou_type: The similarity; by default the protocol's, or "obb" for a named protocol and oriented boxes.
        box_format: The format of all boxes, such as "xyxy", "xywh" or "cxcywh".
        class_names: The names of classes: a list, or a dict by label.
        class_groups: The group of each class by label, for protocols that measure groups: "rare", "common" or
            "frequent" under LVIS.
        engine: "auto", "native", "parallel" or "sequential", as in `evaluate`.
        threads: The number of threads; by default BOXSCORE_THREADS, else this process's share of the cores.
        warn: Whether to warn, once each, about inputs that are likely a mistake, such as fractions mixed with pixels.
        sync: Whether `compute` covers all processes of torch.distributed, if there are several.
        process_group: The processes that `compute` covers; by default all.
        unique_images: Whether to skip an image that comes again, since loaders repeat images to fill their last batch:
            the first one counts, and every image must have an id. If False, a repeated image is an error.
        invalid: The treatment of a prediction with a NaN, an infinity or a negative size. "error" refuses the batch;
            "drop" drops the prediction and warns once, for training that must go on. The result counts the dropped
            predictions in `num_invalid` and is not `comparable`. Targets must always be valid.

    >>> metric = MeanAveragePrecision("coco", box_format="xyxy", class_names=["cat", "dog"])
    >>> pred = {"boxes": np.array([[0, 0, 10, 9]]), "scores": np.array([0.9]), "labels": np.array([1])}
    >>> metric.update([pred], [{"boxes": np.array([[0, 0, 10, 10]]), "labels": np.array([1])}])
    >>> round(metric.compute()["map"], 4)
    0.9
    """

    @suggests_keywords
    def __init__(
        self,
        protocol: ProtocolLike = "coco",
        *,
        iou_type: IouType | None = None,
        box_format: BoxFormat = "xyxy",
        class_names: ClassNames | None = None,
        class_groups: Mapping[int, str] | None = None,
        engine: EngineName = "auto",
        threads: int | None = None,
        warn: bool = True,
        sync: bool = True,
        process_group: Any = None,
        unique_images: bool = False,
        invalid: Invalid = "error",
    ) -> None:
        check_box_format(box_format)
        _check_is_protocol(protocol)
        if not isinstance(unique_images, bool):
            raise InputError(f"`unique_images` must be True or False; got {unique_images!r}")
        self.protocol = as_protocol(protocol)
        kind: str | None = iou_type
        if kind is None and isinstance(protocol, str) and is_oriented(box_format):
            kind = "obb" if self.protocol.iou_type == "bbox" else self.protocol.iou_type
        if kind is not None:
            check_choice("iou_type", kind, IOU_TYPES)
            is_name = isinstance(protocol, str)
            self.protocol = protocol_of(str(protocol), kind) if is_name else self.protocol.replace(iou_type=kind)
        self.box_format = box_format
        self.engine, self.threads, self.warn = engine, threads, warn
        self.sync, self.process_group = sync, process_group
        self.unique_images = unique_images
        self.invalid = checked_invalid(invalid)
        no_truths = Truths(image=[], label=[], box=[], class_names=class_names, class_groups=class_groups)
        self.class_names, self.class_groups = no_truths.names_by_label, no_truths.class_groups
        # The empty tally is the same for every kind of shape.
        nothing = match(
            Detections(image=[], label=[], score=[], box=[]), no_truths, self.protocol.replace(iou_type="bbox"), engine
        )
        self._nothing = replace(nothing, protocol=self.protocol)
        self._lock = fork_safe_lock()
        self._warned: frozenset[str] = frozenset()
        self.reset()

    def reset(self) -> None:
        """Forget all updates."""
        with self._lock:
            self._tallies: list[Tally] = []
            self._waiting: RowBuffer | None = None
            self._seen: set[int] = set()
            self._names: dict[int, str] = {}
            self._is_numbering: bool | None = None
            self._num_watched = 0
            self._watch = Watch()

    def update(
        self, preds: Any, targets: Any = None, *, target: Any = None, image_ids: ImageIdsLike | None = None
    ) -> None:
        """Match one batch. An invalid batch is refused as a whole, and the metric stays unchanged.

        Arrays may be NumPy's, PyTorch's, JAX's or TensorFlow's. A batch is a list of dicts, one per image; a dict of
        padded arrays; or `Detections` and `Truths`. In place of a dict, supervision's `Detections` and `KeyPoints` are
        accepted, and in `preds` Ultralytics' `Results`. With `invalid="drop"` invalid predictions are dropped.

        Args:
            preds: The predictions: `boxes`, `scores` and `labels` per image.
            targets: The truths: `boxes` and `labels` per image.
            target: torchmetrics' name for `targets`.
            image_ids: One id per image, an integer or a name; by default `image_id` in the targets' dicts. Images
                without ids are numbered as they come.

        Raises:
            InputError: If the batch is invalid, or if an image came before and `unique_images` is False.
        """
        if (targets is None) == (target is None):
            raise InputError("`targets` must be given once, under this name or as `target`")
        targets = target if targets is None else targets
        ids = None if image_ids is None else read_image_ids(image_ids)
        with self._lock:
            if isinstance(preds, Detections) or isinstance(targets, Truths):
                self._update_columns(preds, targets, ids)
            elif isinstance(preds, Mapping) and isinstance(targets, Mapping):
                self._update_padded(preds, targets, ids)
            else:
                self._update_images(_as_list(preds), _as_list(targets), ids)

    def compute(self) -> Result:
        """Compute the result of all updates so far, of all processes if there are several: each must call this.

        Every process gets the same bits, as if one process had seen all images. An image that several processes have
        seen counts once, if updates named their images. Numbered images are all different; rank 0 comes first. The
        state of this process doesn't change.
        """
        with self._lock:
            tally, is_numbering = self.tally, self._is_numbering
        if self.sync and distributed.is_distributed(self.process_group):
            tally = distributed.gather(tally, is_numbering, self.process_group)
        result = finish(tally, self.engine, threads=self.threads)
        is_dropped = tally.num_invalid > 0 and len(tally) == 0  # a warning has said so
        if self.warn and not is_dropped and distributed.is_first():
            self._warn_of(self._watch.find_mistakes(result, Remedies()), stacklevel=3)
        return result

    @property
    def tally(self) -> Tally:
        """The tally of all updates of this process."""
        with self._lock:
            self._match_waiting()
            if len(self._tallies) != 1:
                self._tallies = [joined([self._nothing, *self._tallies])]
            return self._tallies[0]

    @property
    def image_names(self) -> dict[int, str]:
        """The names of images that were identified by name, by the ids that stand for them in tallies and results."""
        return dict(self._names)

    def merge(self, *others: "MeanAveragePrecision") -> "MeanAveragePrecision":
        """Make a new metric from the updates of this one and others, with the settings of this one.

        None of them changes. Merging is associative, and an empty metric changes no result.

        Args:
            *others: Metrics of the same protocol.

        Raises:
            InputError: If protocols differ, if images have no ids, or if an image is in more than one metric; with
                `unique_images` the first one counts instead.

        >>> first, second = MeanAveragePrecision(warn=False), MeanAveragePrecision(warn=False)
        >>> pred = {"boxes": [[0, 0, 9, 9]], "scores": [0.9], "labels": [1]}
        >>> first.update([pred], [pred], image_ids=["a.jpg"])
        >>> second.update([pred], [pred], image_ids=["b.jpg"])
        >>> first.merge(second)
        MeanAveragePrecision(coco, 2 images, 2 detections)
        """
        snapshots = []
        for metric in (self, *others):  # one lock at a time: two metrics may be merging each other
            if not isinstance(metric, MeanAveragePrecision):
                raise InputError(f"a metric can be merged with metrics only; got {type(metric).__name__}")
            if metric.protocol != self.protocol:
                difference = difference_of(self.protocol, metric.protocol)
                raise InputError(f"metrics to be merged must have one protocol; got different ones ({difference})")
            with metric._lock:
                snapshots.append((metric.tally, set(metric._seen), dict(metric._names), metric._is_numbering))
        numberings = [is_numbering for *_, is_numbering in snapshots if is_numbering is not None]
        if any(numberings) and len(numberings) > 1:
            raise InputError("metrics can be merged if every update named its images, by `image_ids`")
        merged = copy(self)
        merged.reset()
        tallies = []
        for tally, images, names, _ in snapshots:
            merged._names |= names
            if repeated := merged._seen & images:
                if not self.unique_images:
                    image = ImageIds([], merged._names).shown(min(repeated))
                    option = "unique_images=True counts the first"
                    raise InputError(f"image {image} is in more than one of the metrics; {option}")
                tally = tally.without(np.array(sorted(repeated)))
            tallies.append(tally)
            merged._seen |= images
        merged._tallies = [joined(tallies)]
        merged._is_numbering = numberings[0] if numberings else None
        return merged

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint, in built-in types only: `torch.load` and other loaders accept it."""
        from boxscore.result import storage

        with self._lock:
            return {
                "tally": storage.to_bytes(self.tally),
                "seen": sorted(self._seen),
                "names": self.image_names,
                "is_numbering": self._is_numbering,
            }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint.

        Args:
            state: A dict from `state_dict`, of a metric of the same protocol.
        """
        from boxscore.result import storage

        try:
            content, is_numbering = state["tally"], state["is_numbering"]
            seen, names = set(read_image_ids(state["seen"]).numbers), dict(state["names"])
        except (KeyError, TypeError, ValueError):
            raise InputError("`state` must be what `state_dict` gave") from None
        if not isinstance(content, bytes) or is_numbering not in (None, True, False):
            raise InputError("`state` must be what `state_dict` gave")
        tally = storage.from_bytes(content, "`state`")
        if tally.protocol != self.protocol:
            difference = difference_of(tally.protocol, self.protocol)
            raise InputError(f"`state` must have the metric's protocol; got another one ({difference})")
        if not seen.issuperset(tally.images.tolist()):
            raise InputError(
                "`state` must be what `state_dict` gave: its tally has images that are not among those seen"
            )
        with self._lock:
            self.reset()
            self._tallies = [tally]
            self._seen, self._names = seen, names
            self._is_numbering = is_numbering

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            self._match_waiting()
            state = {name: value for name, value in vars(self).items() if name not in ("_lock", "_waiting")}
            # `update` changes these in place: neither a copy nor a pickle may share them.
            return state | {name: copy(state[name]) for name in ("_tallies", "_seen", "_names", "_watch")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=fork_safe_lock(), _waiting=None)

    def __deepcopy__(self, memo: dict[int, Any]) -> "MeanAveragePrecision":
        memo[id(self.process_group)] = self.process_group  # PyTorch's handle, which can't be copied
        copied = memo[id(self)] = type(self).__new__(type(self))
        copied.__setstate__(deepcopy(self.__getstate__(), memo))
        return copied

    def __repr__(self) -> str:
        with self._lock:
            self._match_waiting()
            num_images, num_detections = len(self._seen), sum(map(len, self._tallies))
        counts = f"{text.count(num_images, 'image')}, {text.count(num_detections, 'detection')}"
        return f"MeanAveragePrecision({self.protocol.title}, {counts})"

    @property
    def _shapes(self) -> tuple[str, BoxFormat]:
        """The similarity and the box format, which decide the keys of dicts and the shapes of their rows."""
        return self.protocol.iou_type, self.box_format

    @property
    def _is_watching(self) -> bool:
        return self.warn and self._num_watched < _WATCHED

    def _update_images(self, preds: Any, targets: Any, ids: ImageIds | None) -> None:
        """Match one dict per image, through the buffer if possible, else through columns."""
        for name, images in (("preds", preds), ("targets", targets)):
            if type(images) is not list and (isinstance(images, Mapping | str) or not isinstance(images, Sequence)):
                kinds = "a list of dicts, a dict of padded batches, or columns"
                raise InputError(
                    f"`preds` and `targets` must both be {kinds}; got {type(images).__name__} for `{name}`"
                )
        if len(preds) != len(targets):
            counts = f"{len(preds)} and {len(targets)}"
            raise InputError(f"`preds` and `targets` must have one entry per image; got {counts}")
        preds = in_argument("preds", as_dicts, preds, DETECTION_KEYS, *self._shapes)
        targets = in_argument("targets", as_dicts, targets, TRUTH_KEYS, *self._shapes)
        if ids is None:
            if all(isinstance(each, Mapping) and "image_id" in each for each in targets):
                ids = in_argument("targets", image_ids_of, targets, "")
            elif self.unique_images:  # errors of invalid targets come first
                in_argument("targets", read_images, targets, TRUTH_KEYS.of_shapes(*self._shapes))
        rows = self._new_rows(ids, len(preds))
        if rows is not None and ids is not None:
            preds, targets, ids = [preds[row] for row in rows], [targets[row] for row in rows], ids.take(rows)
        images = self._checked_images(ids, len(preds))
        arrays = collect_arrays(preds, DETECTION_KEYS), collect_arrays(targets, TRUTH_KEYS)
        if self._add_to_buffer(*arrays, images, partial(self._read_preds, preds, images)):
            self._remember(images, ids)
        else:
            detections = self._read_preds(preds, images, self.invalid)
            settings: dict[str, Any] = {"box_format": self.box_format, "iou_type": self.protocol.iou_type}
            settings |= {"image_ids": images, "class_names": self.class_names, "is_hosted": True}
            truths = in_argument("targets", Truths.from_images, targets, **settings)
            self._store(self._match(detections, truths, partial(self._read_preds, preds, images)), images, ids)

    def _read_preds(self, preds: Any, images: list[int], invalid: Invalid = "error") -> Detections:
        """Read the predictions of dicts on the general path."""
        settings: dict[str, Any] = {"box_format": self.box_format, "iou_type": self.protocol.iou_type}
        settings |= {"image_ids": images, "invalid": invalid, "is_hosted": True}
        return in_argument("preds", Detections.from_images, preds, **settings)

    def _add_to_buffer(self, preds: Any, targets: Any, images: list[int], read: Callable[[], Any]) -> bool:
        """Copy the rows of a batch, to be matched with others; return whether that was possible.

        `preds` and `targets` come from `collect_arrays`. `read` raises the error of the first invalid prediction.
        """
        if self.engine not in ("auto", "native"):
            return False
        settings = BufferSettings(self.protocol, self.box_format, self.class_names, self.invalid)
        if self._waiting is None or self._waiting.settings != settings:
            if not settings.are_supported:
                return False
            self._match_waiting()
            self._waiting = RowBuffer(settings)
        threads = num_threads(self.threads)
        if not self._waiting.add(preds, targets, images):
            return False
        try:
            if self.invalid == "drop" and (num := self._waiting.num_last_invalid):
                self._tell_of_invalid(num, read)
            if self._is_watching:
                self._look_at(*self._waiting.last())
            if self._waiting.is_full:
                self._tallies.append(match_buffer(self._waiting, threads))
        except BaseException:
            self._waiting.remove_last()
            raise
        return True

    def _match_waiting(self) -> None:
        """Match the waiting batches, if any."""
        if self._waiting is not None and len(self._waiting):
            self._tallies.append(match_buffer(self._waiting, num_threads(self.threads)))

    def _update_padded(self, preds: Mapping[str, Any], targets: Mapping[str, Any], ids: ImageIds | None) -> None:
        keys, truth_keys = (each.of_shapes(*self._shapes) for each in (PADDED_DETECTION_KEYS, PADDED_TRUTH_KEYS))
        batch = PaddedBatch.from_dict("preds", preds, keys, is_hosted=True)
        truth_batch = PaddedBatch.from_dict("targets", targets, truth_keys, is_hosted=True)
        if batch.num_images != truth_batch.num_images:
            counts = f"{batch.num_images} and {truth_batch.num_images}"
            raise InputError(f"`preds` and `targets` must have as many images; got {counts}")
        if ids is None and targets.get("image_id") is not None:
            ids = read_image_ids(targets["image_id"])
        rows = self._new_rows(ids, batch.num_images)
        if rows is not None and ids is not None:
            batch, truth_batch, ids = batch.take(rows), truth_batch.take(rows), ids.take(rows)
        images = self._checked_images(ids, batch.num_images)
        settings = {"image_ids": images, "box_format": self.box_format}
        read = partial(in_argument, "preds", batch.build, Detections, **settings)
        if self._add_to_buffer(batch.collect_arrays(), truth_batch.collect_arrays(), images, read):
            self._remember(images, ids)
            return
        detections = in_argument("preds", batch.build, detections_maker(self.invalid), **settings)
        truths = in_argument("targets", truth_batch.build, Truths, class_names=self.class_names, **settings)
        self._store(self._match(detections, truths, read), images, ids)

    def _update_columns(self, preds: Any, targets: Any, ids: ImageIds | None) -> None:
        for name, columns, kind in (("preds", preds, Detections), ("targets", targets, Truths)):
            if not isinstance(columns, kind):
                rule = f"`{name}` must be boxscore.{kind.__name__}, since the other is columns"
                raise InputError(f"{rule}; got {type(columns).__name__}")
        if self.class_names is not None and targets.class_names is None:
            targets = replace(targets, class_names=self.class_names)
        ids = ImageIds([], {}) if ids is None else ids
        dropped = [] if preds.invalid_image is None else preds.invalid_image.tolist()
        images = sorted({*host_ids(preds.image).tolist(), *host_ids(targets.image).tolist(), *dropped, *ids.numbers})
        if self.unique_images and not self._seen.isdisjoint(images):
            images = [image for image in images if image not in self._seen]
            preds, targets = take_images(preds, images), take_images(targets, images)
        ids = ids._replace(numbers=images)
        self._checked_images(ids, len(images))
        self._store(self._match(preds, targets), images, ids)

    def _new_rows(self, ids: ImageIds | None, num_images: int) -> list[int] | None:
        """Indices of the batch's images that are new, each once; None without `unique_images`, for all of them."""
        if not self.unique_images or not num_images:
            return None
        if ids is None:
            rule = "give every target an `image_id`, or pass `image_ids` to `update`"
            raise InputError(f"`unique_images` needs the images' ids: {rule}")
        _check_num_ids(ids, num_images)
        first = {image: row for row, image in reversed([*enumerate(ids.numbers)])}
        return sorted(row for image, row in first.items() if image not in self._seen)

    def _checked_images(self, ids: ImageIds | None, num_images: int) -> list[int]:
        """Check that all images are new, and return their ids; without ids, numbers that continue from the last."""
        if not num_images:
            return []
        if self._is_numbering is not None and (ids is None) != self._is_numbering:
            raise InputError("either every update must name its images, or none; name them by `image_ids`")
        if ids is None:
            return list(range(len(self._seen), len(self._seen) + num_images))
        _check_num_ids(ids, num_images)
        images = ids.numbers
        rule = "unique_images=True leaves out images that come again"
        if len(set(images)) < len(images):
            repeated = next(image for row, image in enumerate(images) if image in images[:row])
            raise InputError(f"image {ids.shown(repeated)} is in the batch twice; {rule}")
        if not self._seen.isdisjoint(images):
            repeated = next(image for image in images if image in self._seen)
            raise InputError(f"image {ids.shown(repeated)} was in an update before; {rule}, and `reset` starts anew")
        return images

    def _match(self, detections: Detections, truths: Truths, read: Callable[[], Any] | None = None) -> Tally:
        if self.class_groups is not None and truths.class_groups is None:
            truths = replace(truths, class_groups=self.class_groups)
        tally = match(detections, truths, self.protocol, self.engine, threads=self.threads)
        if tally.num_invalid:
            self._tell_of_invalid(tally.num_invalid, read)
        if self._is_watching:
            iou_type = self.protocol.iou_type
            self._look_at(shaped_by(detections, iou_type), shaped_by(truths, iou_type))
        return tally

    def _look_at(self, detections: Detections, truths: Truths) -> None:
        """Warn about likely mistakes in a batch, and copy it for a diagnosis of the result."""
        if len(detections) and len(truths):
            self._num_watched += 1
            self._watch.add(detections, truths)
            self._warn_of(find_input_mistakes(detections, truths, self.protocol, Remedies()), stacklevel=6)

    def _store(self, tally: Tally, images: list[int], ids: ImageIds | None) -> None:
        self._match_waiting()
        self._tallies.append(tally.listing(images))
        self._remember(images, ids)

    def _remember(self, images: list[int], ids: ImageIds | None) -> None:
        if images:
            self._is_numbering = ids is None
        if ids is not None:
            self._names.update(ids.names)
        self._seen.update(images)

    def _tell_of_invalid(self, num: int, read: Callable[[], Any] | None) -> None:
        """Warn, once, that predictions were dropped. `read` raises the error of the first of them."""
        if not self.warn or "dropped" in self._warned:
            return
        self._warned |= {"dropped"}
        words = dropped_words(num, read)
        warnings.warn(f"{words}; `num_invalid` of the result counts all (warn=False silences this)", stacklevel=5)

    def _warn_of(self, mistakes: Iterable[Mistake], stacklevel: int) -> None:
        """Warn of each kind of mistake once; `reset` doesn't repeat warnings."""
        for mistake in mistakes:
            if mistake.kind not in self._warned:
                self._warned |= {mistake.kind}
                warnings.warn(f"{mistake} (warn=False silences this)", stacklevel=stacklevel)


def dropped_words(num: int, read: Callable[[], Any] | None) -> str:
    """Say how many predictions of a batch were dropped, and why the first was: by the error that `read` raises."""
    words = f"{text.count(num, 'invalid prediction')} of a batch {'was' if num == 1 else 'were'} dropped"
    try:
        if read is not None:
            read()
    except InputError as error:
        words += f"; the first: {error}"
    return words


def _check_is_protocol(protocol: object) -> None:
    """Raise `InputError` for a box format or a similarity, the first argument in other tools."""
    for name, known in (("box_format", get_args(BoxFormat)), ("iou_type", IOU_TYPES)):
        if isinstance(protocol, str) and protocol in known:
            raise InputError(
                f"`protocol`, the first argument, must be a protocol; got {protocol!r}: pass {name}={protocol!r}"
            )


def _check_num_ids(ids: ImageIds, num_images: int) -> None:
    if len(ids.numbers) != num_images:
        raise InputError(f"`image_ids` must have one id per image; got {len(ids.numbers)} for {num_images} images")


def _as_list(images: Any) -> Any:
    """Wrap another library's object of one image in a list; return anything else unchanged."""
    return [images] if type(images) is not list and is_image_object(images) else images
