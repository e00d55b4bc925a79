"""The streaming metric: `update` matches a batch and forgets its boxes; `compute` gives the result."""

import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypedDict, Unpack, cast, get_args, overload

import numpy as np

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore._support.keyword_hints import suggests_keywords
from boxscore._support.locks import fork_safe_lock
from boxscore._support.threads import num_threads
from boxscore._support.untraced import untraced
from boxscore.arrays import is_on_device
from boxscore.checks.mistakes import Mistake, Remedies, Watch, find_input_mistakes
from boxscore.data.batch_keys import DETECTION_KEYS, PADDED_DETECTION_KEYS, PADDED_TRUTH_KEYS, TRUTH_KEYS, Keys
from boxscore.data.batches import PaddedBatch, collect_arrays, in_argument, read_images
from boxscore.data.dataset import (
    ClassNames,
    Detections,
    ImageIdsLike,
    Invalid,
    Truths,
    checked_invalid,
    detections_maker,
    detections_of_images,
    host_ids,
    take_images,
    truths_of_images,
)
from boxscore.data.geometry.box_formats import BoxFormat, check_box_format, check_format_of, is_oriented
from boxscore.data.geometry.device_masks import CountedShape
from boxscore.data.geometry.kinds import as_iou_types
from boxscore.data.image_ids import ImageIds, image_ids_of, read_image_ids
from boxscore.data.image_objects import as_dicts, is_image_object
from boxscore.data.mask_counts import (
    MaskCounts,
    count_images,
    count_padded,
    has_outer_boxes,
    padded_masks,
    put_masks,
    without_masks,
)
from boxscore.data.preparation import shaped_by
from boxscore.data.row_buffer import BufferSettings, RowBuffer
from boxscore.data.snapshots import Snapshot, can_delay, delayed_images, has_device_arrays
from boxscore.engines.native.compiled_engine import match_buffer
from boxscore.pipeline import finish, match
from boxscore.protocol.protocol import (
    IOU_TYPES,
    EngineName,
    IouType,
    Protocol,
    ProtocolLike,
    as_protocol,
    difference_of,
)
from boxscore.protocol.table import for_iou_type, protocol_of
from boxscore.result import distributed
from boxscore.result.result import Result
from boxscore.result.tally import Tally, joined

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # `default` is new in Python 3.13

    Computed = TypeVar("Computed", default=Result)
else:
    from typing import TypeVar

    Computed = TypeVar("Computed")

_WATCHED = 10
"""Number of updates that are checked for likely mistakes; such mistakes show from the first batch on."""

_MOST_DELAYED = 32
"""Number of updates whose values may be on their way to host memory; with more, `update` waits for the oldest."""


class _Delayed(NamedTuple):
    """An update with arrays on a device, whose values are on their way to host memory."""

    number: int
    """1 for the first update."""
    snapshot: Snapshot
    add: Callable[[list[dict[str, Any]]], None]
    """Adds the values to the metric."""


_UNCOPIED = ("_lock", "_waiting", "_delayed", "_refused")
"""Attributes of a metric that its copies and pickles don't have."""


class _Settings(TypedDict, total=False):
    """The keywords of `MeanAveragePrecision` that don't change what `compute` returns."""

    box_format: BoxFormat
    class_names: ClassNames | None
    class_groups: Mapping[int, str] | None
    engine: EngineName
    threads: int | None
    warn: bool
    sync: bool
    process_group: Any
    unique_images: bool
    invalid: Invalid


class MeanAveragePrecision(Generic[Computed]):
    """mAP over a stream of batches; the numbers equal one evaluation of all images, bit for bit.

    `update` matches a batch and stores about 20 bytes per detection; inputs are neither changed nor stored. Small
    batches wait, as copies of a few megabytes at most, to be matched together. `compute` can be called at any time and
    changes nothing.

    With `iou_type` "segm" or "boundary" batches have `masks` in place of `boxes`: booleans or bytes, (D, H, W) or
    (D, 1, H, W) per image. With "obb" or "probiou" `boxes` are oriented, in the format of `box_format`:
    "cxcywha:radians", (D, 5), "xyxyxyxy", (D, 8), and others. Under LVIS targets also have `neg_category_ids`.

    With a tuple of similarities, such as `iou_type=("bbox", "segm")`, batches have the shapes of all of them, and
    `compute` returns a dict with a result for each, equal to the results of two metrics.

    Args:
        protocol: The rules: a name, such as "coco" or "voc2012", or a `Protocol`.
        iou_type: The similarity, or a tuple of several; by default the protocol's, or "obb" for a named protocol and
            oriented boxes.
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

    _targets = "targets"
    """The name of the argument in errors; `boxscore.torchmetrics` calls it `target`."""
    _fills_areas = False
    """Whether an `area` of 0 means the area of the shape, as in torchmetrics."""

    @overload
    def __init__(
        self: "MeanAveragePrecision[Result]",
        protocol: ProtocolLike = "coco",
        *,
        iou_type: IouType | None = None,
        **settings: Unpack[_Settings],
    ) -> None: ...
    @overload
    def __init__(
        self: "MeanAveragePrecision[dict[str, Result]]",
        protocol: ProtocolLike = "coco",
        *,
        iou_type: Sequence[IouType],
        **settings: Unpack[_Settings],
    ) -> None: ...
    @suggests_keywords
    def __init__(
        self,
        protocol: ProtocolLike = "coco",
        *,
        iou_type: IouType | Sequence[IouType] | None = None,
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
        given = as_protocol(protocol)
        if iou_type is None and isinstance(protocol, str) and is_oriented(box_format) and given.iou_type == "bbox":
            given = protocol_of(protocol, "obb")
        self.protocols = {given.iou_type: given}
        if iou_type is not None:
            self.protocols = {each: for_iou_type(protocol, each) for each in as_iou_types(iou_type)}
            for each in self.protocols:
                check_format_of(each, box_format)
        self._has_several = iou_type is not None and not isinstance(iou_type, str)
        self.box_format = box_format
        self.engine, self.threads, self.warn = engine, threads, warn
        self.sync, self.process_group = sync, process_group
        self.unique_images = unique_images
        self.invalid = checked_invalid(invalid)
        no_truths = Truths(image_ids=[], labels=[], boxes=[], class_names=class_names, class_groups=class_groups)
        self.class_names, self.class_groups = no_truths.names_by_label, no_truths.class_groups
        # The empty tally is the same for every kind of shape.
        found = Detections(image_ids=[], labels=[], scores=[], boxes=[])
        self._nothing = {
            each: replace(match(found, no_truths, rules.replace(iou_type="bbox"), engine), protocol=rules)
            for each, rules in self.protocols.items()
        }
        self._lock = fork_safe_lock()
        self._warned: frozenset[str] = frozenset()
        self.reset()

    def reset(self) -> None:
        """Forget all updates."""
        with self._lock:
            self._delayed: deque[_Delayed] = deque()
            self._refused: list[Exception] = []
            self._num_updates = 0
            self._tallies: dict[str, list[Tally]] = {each: [] for each in self.protocols}
            self._waiting: RowBuffer | None = None
            self._seen: set[int] = set()
            self._names: dict[int, str] = {}
            self._is_numbering: bool | None = None
            self._num_watched = 0
            self._watches = {each: Watch() for each in self.protocols}

    @untraced
    def update(
        self, preds: Any, targets: Any = None, *, target: Any = None, image_ids: ImageIdsLike | None = None
    ) -> None:
        """Match one batch. An invalid batch is refused as a whole, and the metric stays unchanged.

        Arrays may be NumPy's, PyTorch's, JAX's or TensorFlow's. A batch is a list of dicts, one per image; a dict of
        padded arrays; or `Detections` and `Truths`. In place of a dict, the objects of supervision are accepted, and in
        `preds` Ultralytics' `Results`. With `invalid="drop"` invalid predictions are dropped.

        Arrays on an accelerator are copied to host memory without waiting, in the order of the device's stream, so they
        may be overwritten after `update`. Keys, shapes and dtypes are checked at once. Values are checked when they
        have arrived, in a later call: `update`, `compute`, or whatever needs the tally. An invalid batch is left out
        then, the error names the update, 1 for the first, and all other updates count. Masks are compared on the
        accelerator, and only their areas and common pixels are copied; see docs/guides/segmentation.md for exceptions.

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
        ids = image_ids if image_ids is None or is_on_device(image_ids) else read_image_ids(image_ids)
        with self._lock:
            self._num_updates += 1
            if isinstance(preds, Detections) or isinstance(targets, Truths):
                self._add_delayed()
                self._update_columns(preds, targets, _host_image_ids(ids))
            elif isinstance(preds, Mapping) and isinstance(targets, Mapping):
                self._update_padded(preds, targets, ids)
            else:
                self._update_images(_as_list(preds), _as_list(targets), ids)
            self._report_refused()

    @untraced
    def compute(self) -> Computed:
        """Compute the result of all updates so far, of all processes if there are several: each must call this.

        Every process gets the same bits, as if one process had seen all images. An image that several processes have
        seen counts once, if updates named their images. Numbered images are all different; rank 0 comes first. The
        state of this process doesn't change.

        Returns:
            The result; for a tuple of similarities, a dict with the result of each.
        """
        with self._lock:
            tallies, is_numbering = self.tallies, self._is_numbering
        results = {iou_type: self._finish(iou_type, tally, is_numbering) for iou_type, tally in tallies.items()}
        return cast(Computed, results if self._has_several else results[self.protocol.iou_type])

    def _finish(self, iou_type: str, tally: Tally, is_numbering: bool | None) -> Result:
        if self.sync and distributed.is_distributed(self.process_group):
            tally = distributed.gather(tally, is_numbering, self.process_group)
        result = finish(tally, self.engine, threads=self.threads)
        is_dropped = tally.num_invalid > 0 and len(tally) == 0  # a warning has said so
        if self.warn and not is_dropped and distributed.is_first():
            self._warn_of(self._watches[iou_type].find_mistakes(result, Remedies()))
        return result

    @property
    def protocol(self) -> Protocol:
        """The rules; with several similarities, of the first one. `protocols` has the rules of each."""
        return next(iter(self.protocols.values()))

    @property
    def tally(self) -> Tally:
        """The tally of all updates of this process."""
        if self._has_several:
            raise InputError("a metric of several similarities has several tallies; `tallies` has them by `iou_type`")
        return self.tallies[self.protocol.iou_type]

    @property
    def tallies(self) -> dict[str, Tally]:
        """The tally of all updates of this process, for each similarity."""
        with self._lock:
            self._settle()
            for iou_type, parts in self._tallies.items():
                if len(parts) != 1:
                    parts[:] = [joined([self._nothing[iou_type], *parts])]
            return {iou_type: parts[0] for iou_type, parts in self._tallies.items()}

    @property
    def image_names(self) -> dict[int, str]:
        """The names of images that were identified by name, by the ids that stand for them in tallies and results."""
        with self._lock:
            self._settle()
            return dict(self._names)

    def merge(self, *others: "MeanAveragePrecision[Computed]") -> "MeanAveragePrecision[Computed]":
        """Make a new metric from the updates of this one and others, with the settings of this one.

        None of them changes. Merging is associative, and an empty metric changes no result.

        Args:
            *others: Metrics of the same protocol and similarities.

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
            _check_same(
                self.protocols, metric.protocols, "metrics to be merged must have one protocol; got different ones"
            )
            with metric._lock:
                snapshots.append((metric.tallies, set(metric._seen), dict(metric._names), metric._is_numbering))
        numberings = [is_numbering for *_, is_numbering in snapshots if is_numbering is not None]
        if any(numberings) and len(numberings) > 1:
            raise InputError("metrics can be merged if every update named its images, by `image_ids`")
        merged = copy(self)
        merged.reset()
        for tallies, images, names, _ in snapshots:
            merged._names |= names
            if repeated := merged._seen & images:
                if not self.unique_images:
                    image = ImageIds([], merged._names).shown(min(repeated))
                    option = "unique_images=True counts the first"
                    raise InputError(f"image {image} is in more than one of the metrics; {option}")
                copies = np.array(sorted(repeated))
                tallies = {each: tally.without(copies) for each, tally in tallies.items()}
            for each, tally in tallies.items():
                merged._tallies[each].append(tally)
            merged._seen |= images
        merged._is_numbering = numberings[0] if numberings else None
        return merged

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint, in built-in types only: `torch.load` and other loaders accept it."""
        from boxscore.result import storage

        with self._lock:
            return {
                "tally": b"".join(map(storage.to_bytes, self.tallies.values())),
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
        tallies, rest = {}, memoryview(content)
        while len(rest):
            tally, rest = storage.split_bytes(rest, "`state`")
            tallies[tally.protocol.iou_type] = tally
        protocols = {each: tally.protocol for each, tally in tallies.items()}
        _check_same(protocols, self.protocols, "`state` must have the metric's protocol; got another one")
        if any(not seen.issuperset(tally.images.tolist()) for tally in tallies.values()):
            raise InputError(
                "`state` must be what `state_dict` gave: its tally has images that are not among those seen"
            )
        with self._lock:
            self.reset()
            self._tallies = {each: [tallies[each]] for each in self.protocols}
            self._seen, self._names = seen, names
            self._is_numbering = is_numbering

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            self._settle()
            state = {name: value for name, value in vars(self).items() if name not in _UNCOPIED}
            # `update` changes these in place: neither a copy nor a pickle may share them.
            copies = {name: copy(state[name]) for name in ("_seen", "_names")}
            nested = {name: {key: copy(each) for key, each in state[name].items()} for name in ("_tallies", "_watches")}
            return state | copies | nested

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=fork_safe_lock(), _waiting=None, _delayed=deque(), _refused=[])

    def __deepcopy__(self, memo: dict[int, Any]) -> "MeanAveragePrecision[Computed]":
        memo[id(self.process_group)] = self.process_group  # PyTorch's handle, which can't be copied
        copied = memo[id(self)] = type(self).__new__(type(self))
        copied.__setstate__(deepcopy(self.__getstate__(), memo))
        return copied

    def __repr__(self) -> str:
        with self._lock:
            self._add_delayed()
            self._match_waiting()
            num_images, num_detections = len(self._seen), sum(map(len, self._tallies[self.protocol.iou_type]))
        counts = f"{text.count(num_images, 'image')}, {text.count(num_detections, 'detection')}"
        titles = " and ".join(protocol.title for protocol in self.protocols.values())
        return f"MeanAveragePrecision({titles}, {counts})"

    @property
    def _shapes(self) -> tuple[tuple[str, ...], BoxFormat]:
        """The similarities and the box format, which decide the keys of dicts and the shapes of their rows."""
        return tuple(self.protocols), self.box_format

    @property
    def _is_watching(self) -> bool:
        return self.warn and self._num_watched < _WATCHED

    @property
    def _pred_keys(self) -> Keys:
        return DETECTION_KEYS.of_shapes(*self._shapes)

    @property
    def _target_keys(self) -> Keys:
        return TRUTH_KEYS.of_shapes(*self._shapes)

    def _can_delay(self, *batches: Any) -> bool:
        """Whether batches have arrays on a device that are copied to host memory without waiting."""
        # With "parallel" arrays stay on their device. Overlaps of masks are counted on it, for the native engine.
        if "boundary" in self.protocols or ("segm" in self.protocols and self._needs_pixels):
            return False
        return self.engine != "parallel" and has_device_arrays(*batches)

    @property
    def _needs_pixels(self) -> bool:
        """Whether masks must come to host memory."""
        return self.engine == "sequential"

    def _count_masks(self, count: Callable[..., MaskCounts | None], *sides: Any) -> MaskCounts | None:
        """Count the overlaps of the masks of both sides, if the metric compares masks; None if that isn't possible."""
        return count(*sides, has_boxes=self._is_watching) if "segm" in self.protocols else MaskCounts([], [])

    def _delay(
        self, dicts: Sequence[Mapping[str, Any]], add: Callable[[list[dict[str, Any]]], None], *, is_joined: bool
    ) -> None:
        """Start to copy the arrays of an update that `add` adds when they are in host memory."""
        update = _Delayed(self._num_updates, Snapshot(dicts, is_joined=is_joined), add)
        self._add_delayed(is_waiting=False)  # earlier ones, while this one is on its way
        self._delayed.append(update)

    def _add_delayed(self, *, is_waiting: bool = True) -> None:
        """Add the delayed updates whose values have arrived, in their order; or with `is_waiting` all.

        An update with invalid values is left out, and its error is kept for `_report_refused`.
        """
        while self._delayed:
            update = self._delayed[0]
            if not is_waiting and len(self._delayed) < _MOST_DELAYED and not update.snapshot.has_arrived:
                return
            try:
                update.add(update.snapshot.wait())
            except InputError as error:
                words = "was left out when its arrays had arrived in host memory; all other updates count"
                self._refused.append(InputError(f"update {update.number} {words}: {error}"))
            except Exception as error:  # a warning that is raised as an error
                self._refused.append(error)
            self._delayed.popleft().snapshot.release()

    def _report_refused(self) -> None:
        """Raise the error of the first delayed update that was left out and not reported yet, if any."""
        if self._refused:
            raise self._refused.pop(0)

    def _settle(self) -> None:
        """Match all updates. Raise the error of one that is invalid, once."""
        self._add_delayed()
        self._report_refused()
        self._match_waiting()

    def _update_images(self, preds: Any, targets: Any, ids: Any) -> None:
        """Match one dict per image, at once or when its arrays are in host memory."""
        for name, images in (("preds", preds), (self._targets, targets)):
            if type(images) is not list and (isinstance(images, Mapping | str) or not isinstance(images, Sequence)):
                kinds = "a list of dicts, a dict of padded batches, or columns"
                raise InputError(
                    f"`preds` and `{self._targets}` must both be {kinds}; got {type(images).__name__} for `{name}`"
                )
        if len(preds) != len(targets):
            counts = f"{len(preds)} and {len(targets)}"
            raise InputError(f"`preds` and `{self._targets}` must have one entry per image; got {counts}")
        preds = in_argument("preds", as_dicts, preds, DETECTION_KEYS, *self._shapes)
        targets = in_argument(self._targets, as_dicts, targets, TRUTH_KEYS, *self._shapes)
        if self._can_delay(preds, targets):
            found = delayed_images(preds, without_masks(self._pred_keys))
            known = delayed_images(targets, without_masks(self._target_keys))
            if found is not None and known is not None:
                overlaps = self._count_masks(count_images, preds, targets)
                if overlaps is not None:
                    dicts = [*found, *known, *overlaps.dicts, {"image_ids": ids}]
                    self._delay(dicts, partial(self._add_dicts, overlaps.shapes), is_joined=True)
                    return
        self._add_delayed()
        self._add_images(preds, targets, _host_image_ids(ids))

    def _add_dicts(self, shapes: list[CountedShape], dicts: list[dict[str, Any]]) -> None:
        """Match one dict per image: predictions, targets, counts of overlaps of masks, and given ids.

        Their arrays have arrived.
        """
        *images, ids = dicts
        num = (len(images) - len(shapes)) // 2
        preds, targets = images[:num], images[num : 2 * num]
        if shapes:
            put_masks(preds, targets, images[2 * num :], shapes)
        self._add_images(preds, targets, _host_image_ids(ids["image_ids"]))

    def _add_images(self, preds: Any, targets: Any, ids: ImageIds | None) -> None:
        """Match one dict per image, through the buffer if possible, else through columns."""
        ids = self._ids_in(targets) if ids is None else ids
        rows = self._new_rows(ids, len(preds))
        if rows is not None and ids is not None:
            if len(rows) < len(preds):  # errors in images that are skipped are errors, too
                every = list(range(len(preds)))
                self._read_preds(preds, every, self.invalid), self._read_targets(targets, every)
            preds, targets, ids = [preds[row] for row in rows], [targets[row] for row in rows], ids.take(rows)
        images = self._checked_images(ids, len(preds))
        arrays = collect_arrays(preds, DETECTION_KEYS), collect_arrays(targets, TRUTH_KEYS)
        if self._add_to_buffer(*arrays, images, partial(self._read_preds, preds, images)):
            self._remember(images, ids)
        else:
            detections, truths = self._read_preds(preds, images, self.invalid), self._read_targets(targets, images)
            self._store(self._match(detections, truths, partial(self._read_preds, preds, images)), images, ids)

    def _read_preds(self, preds: Any, images: list[int], invalid: Invalid = "error") -> Detections:
        """Read the predictions of dicts on the general path."""
        given = preds, images, self.box_format, tuple(self.protocols)
        return in_argument("preds", detections_of_images, *given, invalid=invalid, as_numpy=True)

    def _read_targets(self, targets: Any, images: list[int]) -> Truths:
        """Read the targets of dicts on the general path."""
        given = targets, images, self.box_format, tuple(self.protocols)
        return in_argument(self._targets, truths_of_images, *given, class_names=self.class_names, as_numpy=True)

    def _ids_in(self, targets: Any) -> ImageIds | None:
        """The ids in the targets; None if one has none."""
        if all(isinstance(each, Mapping) and "image_id" in each for each in targets):
            return in_argument(self._targets, image_ids_of, targets, "")
        if self.unique_images:  # errors of invalid targets come first
            in_argument(self._targets, read_images, targets, TRUTH_KEYS.of_shapes(*self._shapes))
        return None

    def _add_to_buffer(self, preds: Any, targets: Any, images: list[int], read: Callable[[], Any]) -> bool:
        """Copy the rows of a batch, to be matched with others; return whether that was possible.

        `preds` and `targets` come from `collect_arrays`. `read` raises the error of the first invalid prediction.
        """
        if self.engine not in ("auto", "native") or len(self.protocols) > 1:
            return False
        settings = BufferSettings(self.protocol, self.box_format, self.class_names, self.invalid, self._fills_areas)
        if self._waiting is None or self._waiting.settings != settings:
            if not settings.are_supported:
                return False
            self._match_waiting()
            self._waiting = RowBuffer(settings)
        threads = num_threads(self.threads)
        if not self._waiting.add(preds, targets, images):
            return False
        try:
            self._examine(self._waiting, read)
            if self._waiting.is_full:
                self._tallies[self.protocol.iou_type].append(match_buffer(self._waiting, threads))
        except BaseException:
            self._waiting.remove_last()
            raise
        return True

    def _examine(self, buffer: RowBuffer, read: Callable[[], Any]) -> None:
        """Warn about the last batch of the buffer."""
        if self.invalid == "drop" and (num := buffer.num_last_invalid):
            self._tell_of_invalid(num, read)
        if self._is_watching:
            self._look_at(*buffer.last())

    def _match_waiting(self) -> None:
        """Match the waiting batches, if any."""
        if self._waiting is not None and len(self._waiting):
            tally = match_buffer(self._waiting, num_threads(self.threads))
            self._tallies[self.protocol.iou_type].append(tally)

    def _update_padded(self, preds: Mapping[str, Any], targets: Mapping[str, Any], ids: Any) -> None:
        """Match a padded batch, at once or when its arrays are in host memory."""
        keys, truth_keys = _padded_keys(*self._shapes)
        is_delayed = self._can_delay(preds, targets)
        batch = PaddedBatch.from_dict("preds", preds, keys)
        truth_batch = PaddedBatch.from_dict("targets", targets, truth_keys)
        if batch.num_images != truth_batch.num_images:
            counts = f"{batch.num_images} and {truth_batch.num_images}"
            raise InputError(f"`preds` and `targets` must have as many images; got {counts}")
        ids = targets.get("image_id") if ids is None else ids
        rest, truth_rest = batch.without("masks"), truth_batch.without("masks")
        if is_delayed and can_delay(rest) and can_delay(truth_rest):
            overlaps = self._count_masks(count_padded, batch, truth_batch)
            if overlaps is not None:
                ids = ids if ids is None or is_on_device(ids) else read_image_ids(ids)
                dicts = [rest.arrays, truth_rest.arrays, {"image_ids": ids}, *overlaps.dicts]
                sides = rest.without_arrays(), truth_rest.without_arrays()
                self._delay(dicts, partial(self._add_padded_dicts, *sides, overlaps.shapes), is_joined=False)
                return
        self._add_delayed()
        self._add_padded(batch, truth_batch, _host_image_ids(ids))

    def _add_padded_dicts(
        self, batch: PaddedBatch, truth_batch: PaddedBatch, shapes: list[CountedShape], dicts: list[dict[str, Any]]
    ) -> None:
        """Match a padded batch whose arrays have arrived, and the counts of overlaps of masks."""
        preds, targets, ids, *counts = dicts
        masks = padded_masks(counts[0], shapes[0]) if counts else [None, None]
        batch = batch._replace(arrays=preds, masks=masks[0])
        truth_batch = truth_batch._replace(arrays=targets, masks=masks[1])
        self._add_padded(batch, truth_batch, _host_image_ids(ids["image_ids"]))

    def _add_padded(self, batch: PaddedBatch, truth_batch: PaddedBatch, ids: ImageIds | None) -> None:
        """Match a padded batch, through the buffer if possible, else through columns."""
        rows = self._new_rows(ids, batch.num_images)
        if rows is not None and ids is not None:
            batch, truth_batch = batch.as_numpy().take(rows), truth_batch.as_numpy().take(rows)
            ids = ids.take(rows)
        images = self._checked_images(ids, batch.num_images)
        settings: dict[str, Any] = {"image_ids": images, "box_format": self.box_format}

        def read() -> Detections:
            made: Detections = in_argument("preds", batch.as_numpy().build, Detections, **settings)
            return made

        if self._add_to_buffer(batch.collect_arrays(), truth_batch.collect_arrays(), images, read):
            self._remember(images, ids)
            return
        detections = in_argument("preds", batch.as_numpy().build, detections_maker(self.invalid), **settings)
        truths = in_argument("targets", truth_batch.as_numpy().build, Truths, class_names=self.class_names, **settings)
        self._store(self._match(detections, truths, read), images, ids)

    def _update_columns(self, preds: Any, targets: Any, ids: ImageIds | None) -> None:
        for name, columns, kind in (("preds", preds, Detections), ("targets", targets, Truths)):
            if not isinstance(columns, kind):
                rule = f"`{name}` must be boxscore.{kind.__name__}, since the other is columns"
                raise InputError(f"{rule}; got {type(columns).__name__}")
        if self.class_names is not None and targets.class_names is None:
            targets = replace(targets, class_names=self.class_names)
        ids = ImageIds([], {}) if ids is None else ids
        dropped = [] if preds.invalid_image_ids is None else preds.invalid_image_ids.tolist()
        images = sorted(
            {*host_ids(preds.image_ids).tolist(), *host_ids(targets.image_ids).tolist(), *dropped, *ids.numbers}
        )
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

    def _match(self, detections: Detections, truths: Truths, read: Callable[[], Any] | None = None) -> dict[str, Tally]:
        """Match a batch by each similarity."""
        if self.class_groups is not None and truths.class_groups is None:
            truths = replace(truths, class_groups=self.class_groups)
        settings: dict[str, Any] = {"engine": self.engine, "threads": self.threads}
        tallies = {each: match(detections, truths, rules, **settings) for each, rules in self.protocols.items()}
        if num_invalid := tallies[self.protocol.iou_type].num_invalid:
            self._tell_of_invalid(num_invalid, read)
        if self._is_watching and has_outer_boxes(detections) and has_outer_boxes(truths):
            self._look_at(detections, truths)
        return tallies

    def _look_at(self, detections: Detections, truths: Truths) -> None:
        """Warn about likely mistakes in a batch, and copy it for a diagnosis of the result."""
        if not len(detections) or not len(truths):
            return
        self._num_watched += 1
        for iou_type, protocol in self.protocols.items():
            sides = shaped_by(detections, iou_type), shaped_by(truths, iou_type)
            self._watches[iou_type].add(*sides)
            self._warn_of(find_input_mistakes(*sides, protocol, Remedies()))

    def _store(self, tallies: Mapping[str, Tally], images: list[int], ids: ImageIds | None) -> None:
        self._match_waiting()
        for iou_type, tally in tallies.items():
            self._tallies.setdefault(iou_type, []).append(tally.listing(images))
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
        end = "`num_invalid` of the result counts all (warn=False silences this)"
        warnings.warn(f"{words}; {end}", stacklevel=caller_level())

    def _warn_of(self, mistakes: Iterable[Mistake]) -> None:
        """Warn of each kind of mistake once; `reset` doesn't repeat warnings."""
        for mistake in mistakes:
            if mistake.kind not in self._warned:
                self._warned |= {mistake.kind}
                warnings.warn(f"{mistake} (warn=False silences this)", stacklevel=caller_level())


def _host_image_ids(ids: Any) -> ImageIds | None:
    return None if ids is None else read_image_ids(ids)


def caller_level() -> int:
    """The `stacklevel` of a warning that names the first caller outside of boxscore, torchmetrics and Dynamo."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and _is_inside(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    return level


def _is_inside(module: str) -> bool:
    return module.split(".")[0] in ("boxscore", "torchmetrics") or module.startswith("torch._dynamo")


def dropped_words(num: int, read: Callable[[], Any] | None) -> str:
    """Say how many predictions of a batch were dropped, and why the first was: by the error that `read` raises."""
    words = f"{text.count(num, 'invalid prediction')} of a batch {'was' if num == 1 else 'were'} dropped"
    try:
        if read is not None:
            read()
    except InputError as error:
        words += f"; the first: {error}"
    return words


@lru_cache(maxsize=16)
def _padded_keys(iou_types: tuple[str, ...], box_format: BoxFormat) -> tuple[Keys, Keys]:
    """The keys of padded predictions and targets."""
    return (
        PADDED_DETECTION_KEYS.of_shapes(iou_types, box_format),
        PADDED_TRUTH_KEYS.of_shapes(iou_types, box_format),
    )


def _check_is_protocol(protocol: object) -> None:
    """Raise `InputError` for a box format or a similarity, the first argument in other tools."""
    for name, known in (("box_format", get_args(BoxFormat)), ("iou_type", IOU_TYPES)):
        if isinstance(protocol, str) and protocol in known:
            raise InputError(
                f"`protocol`, the first argument, must be a protocol; got {protocol!r}: pass {name}={protocol!r}"
            )


def _check_same(protocols: Mapping[str, Protocol], others: Mapping[str, Protocol], rule: str) -> None:
    """Raise `InputError` with the rule, unless these are the same protocols."""
    if protocols.keys() != others.keys():
        raise InputError(f"{rule} (`iou_type` {', '.join(protocols) or 'none'} and {', '.join(others)})")
    for protocol, other in zip(protocols.values(), others.values(), strict=True):
        if protocol != other:
            raise InputError(f"{rule} ({difference_of(protocol, other)})")


def _check_num_ids(ids: ImageIds, num_images: int) -> None:
    if len(ids.numbers) != num_images:
        raise InputError(f"`image_ids` must have one id per image; got {len(ids.numbers)} for {num_images} images")


def _as_list(images: Any) -> Any:
    """Wrap another library's object of one image in a list; return anything else unchanged."""
    return [images] if type(images) is not list and is_image_object(images) else images
