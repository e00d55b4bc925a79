"""The streaming metric: mAP as inference goes. `update` matches and forgets the boxes; `compute` gives the result."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support import text
from boxscore._support.arrays import Array, is_in_host_memory, to_numpy
from boxscore._support.checks import as_array, as_id, in_argument, shape_of
from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads
from boxscore.analysis.diagnosis import Watch, Words, unlike_units
from boxscore.analysis.suspicion import Counts
from boxscore.engines.native.batch import match_images
from boxscore.geometry.boxes import BoxFormat, check_box_format
from boxscore.model.batch_keys import PADDED_DETECTION_KEYS, TRUTH_KEYS
from boxscore.model.batches import padded_columns
from boxscore.model.dataset import ClassNames, Detections, Truths, host_ids, renamed_images, take
from boxscore.model.protocol import Protocol, as_protocol
from boxscore.model.result import Result
from boxscore.model.tally import Tally, joined
from boxscore.pipeline import finish, match
from boxscore.scaling import storage
from boxscore.training import distributed

_WATCHED = 10
"""Updates that are looked at for likely mistakes; those show from the first batch on."""


class _Batch(NamedTuple):
    """What came in one update."""

    detections: Detections
    truths: Truths
    num_images: int
    ids: list[int] | None
    """Of the images; None if they are to be numbered."""


class MeanAveragePrecision:
    """mAP over a stream of batches, the same bits as one evaluation of everything.

    `update` takes what detectors and loaders give, in NumPy, PyTorch, JAX or TensorFlow: a list of dicts, one an image;
    a dict of padded batches; `Detections` and `Truths`. It matches and keeps about 20 bytes a detection; inputs are
    neither changed nor kept. `compute` can be called at any time, and leaves all as it is.

    Images are told apart by `image_ids`, or by `image_id` in the targets' dicts; else they are numbered as they come.
    `unique_images`: whether an image that comes again, as loaders repeat images to fill their last batch, is left out:
    the first one counts. Every image must be named then. Without it such an image is an error.
    `warn`: whether inputs that are likely a mistake, such as fractions beside pixels, are warned about, once each.
    `sync`: whether `compute` is over all processes of torch.distributed, where there are several, and `process_group`
    which of them; the default is all.

    >>> metric = MeanAveragePrecision("coco", box_format="xyxy", class_names=["cat", "dog"])
    >>> found = {"boxes": np.array([[0, 0, 10, 9]]), "scores": np.array([0.9]), "labels": np.array([1])}
    >>> metric.update([found], [{"boxes": np.array([[0, 0, 10, 10]]), "labels": np.array([1])}])
    >>> round(metric.compute()["map"], 4)
    0.9
    """

    def __init__(
        self,
        protocol: str | Protocol = "coco",
        *,
        box_format: BoxFormat = "xyxy",
        class_names: ClassNames | None = None,
        engine: str = "auto",
        threads: int | None = None,
        warn: bool = True,
        sync: bool = True,
        process_group: Any = None,
        unique_images: bool = False,
    ) -> None:
        check_box_format(box_format)
        if not isinstance(unique_images, bool):
            raise InputError(f"`unique_images` must be True or False; got {unique_images!r}")
        self.protocol = as_protocol(protocol)
        self.box_format = box_format
        self.engine, self.threads, self.warn = engine, threads, warn
        self.sync, self.process_group = sync, process_group
        self.unique_images = unique_images
        no_truths = Truths(image=[], label=[], box=[], class_names=class_names)
        self.class_names = no_truths.names_by_label
        self._nothing = match(Detections(image=[], label=[], score=[], box=[]), no_truths, self.protocol, engine)
        self._lock = RLock()
        self._is_diagnosed = False
        self.reset()

    def reset(self) -> None:
        """Forget all that was seen."""
        with self._lock:
            self._tallies: list[Tally] = []
            self._seen: set[int] = set()
            self._is_numbering: bool | None = None
            self._num_watched = 0
            self._watch = Watch()
            self._warned: set[str] = set()

    def update(self, preds: Any, targets: Any, *, image_ids: Iterable[int] | None = None) -> None:
        """Match one batch. If anything in it is wrong, it is refused as a whole, and all is as it was before."""
        ids = None if image_ids is None else _as_ids(image_ids)
        with self._lock:
            if type(preds) is type(targets) is list and len(preds) == len(targets):
                preds, targets, ids = self._named(preds, targets, ids)
            if not self._update_plain(preds, targets, ids):
                self._update_carefully(preds, targets, ids)

    def compute(self) -> Result:
        """The result of all updates so far, on all processes of torch.distributed: all of them must call this then.

        Each gets the same bits, those of one process that has seen everything. An image that several have seen counts
        once, if updates named their images; numbered images are all different, those of rank 0 first. What this
        process has counted stays as it is.
        """
        with self._lock:
            tally, is_numbering = self.tally, self._is_numbering
        if self.sync and distributed.is_distributed(self.process_group):
            tally = distributed.gather(tally, is_numbering, self.process_group)
        result = finish(tally, self.engine, threads=self.threads)
        if self.warn and not self._is_diagnosed and not self._warned and distributed.is_first():
            self._diagnose(result)
        return result

    @property
    def tally(self) -> Tally:
        """All that was counted so far, as one tally."""
        with self._lock:
            if len(self._tallies) != 1:
                self._tallies = [joined([self._nothing, *self._tallies])]
            return self._tallies[0]

    def merge(self, *others: "MeanAveragePrecision") -> None:
        """Count all that others have seen, too: those of other processes, say.

        An image may be in one of them only; with `unique_images` that of the first one counts.
        """
        snapshots = []
        for other in others:  # before the own lock is taken: two metrics may be merging each other
            if not isinstance(other, MeanAveragePrecision):
                raise InputError(f"a metric can be merged with metrics only; got {type(other).__name__}")
            if other.protocol != self.protocol:
                pair = f"{self.protocol.name!r} and {other.protocol.name!r}"
                raise InputError(f"metrics of different protocols can't be merged; got {pair}, and they differ")
            with other._lock:
                snapshots.append((other.tally, set(other._seen), other._is_numbering))
        with self._lock:
            tallies, seen = [self.tally], set(self._seen)
            for tally, images, is_numbering in snapshots:
                if self._is_numbering or is_numbering:
                    raise InputError("metrics can be merged if every update named its images, by `image_ids`")
                if repeated := seen & images:
                    if not self.unique_images:
                        option = "unique_images=True counts the first"
                        raise InputError(f"image {min(repeated)} is in more than one of the metrics; {option}")
                    tally = tally.without(np.array(sorted(repeated)))
                tallies.append(tally)
                seen |= images
            self._tallies, self._seen = [joined(tallies)], seen
            if any(is_numbering is False for _, _, is_numbering in snapshots):
                self._is_numbering = False

    def state_dict(self) -> dict[str, Any]:
        """All that was seen, in plain values, for a checkpoint: `torch.load` and others take them as they are."""
        with self._lock:
            return {
                "tally": storage.to_bytes(self.tally),
                "seen": sorted(self._seen),
                "is_numbering": self._is_numbering,
            }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        try:
            content, seen, is_numbering = (state[key] for key in ("tally", "seen", "is_numbering"))
            seen = {as_id(image) for image in seen}
        except (KeyError, TypeError, InputError):
            raise InputError("`state` must be what `state_dict` gave") from None
        if not isinstance(content, bytes) or is_numbering not in (None, True, False):
            raise InputError("`state` must be what `state_dict` gave")
        tally = storage.from_bytes(content, "`state`")
        if tally.protocol != self.protocol:
            pair = f"{tally.protocol.name!r} and {self.protocol.name!r}"
            raise InputError(f"`state` must be of the metric's own protocol; got {pair}, and they differ")
        if not seen.issuperset(tally.images.tolist()):
            raise InputError(
                "`state` must be what `state_dict` gave: its tally has images that are not among those seen"
            )
        with self._lock:
            self.reset()
            self._tallies = [tally]
            self._seen = seen
            self._is_numbering = is_numbering

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=RLock())

    def __repr__(self) -> str:
        counts = f"{text.count(len(self._seen), 'image')}, {text.count(sum(map(len, self._tallies)), 'detection')}"
        return f"MeanAveragePrecision({self.protocol.title}, {counts})"

    @property
    def _is_watching(self) -> bool:
        return self.warn and self._num_watched < _WATCHED

    def _update_plain(self, preds: Any, targets: Any, ids: list[int] | None) -> bool:
        """Match lists of dicts in one step, if there is nothing to convert or to say; else nothing happens."""
        if self._is_watching or self.engine not in ("auto", "native") or self.protocol.class_agnostic:
            return False
        if not (type(preds) is type(targets) is list and len(preds) == len(targets)):
            return False
        images = self._images(ids, len(preds))
        tally = match_images(
            preds,
            targets,
            images,
            protocol=self.protocol,
            box_format=self.box_format,
            class_names=self.class_names,
            threads=num_threads(self.threads),
        )
        if tally is None:
            return False
        self._keep(tally, images, is_numbering=ids is None)
        return True

    def _update_carefully(self, preds: Any, targets: Any, ids: list[int] | None) -> None:
        batch = self._read(preds, targets, ids)
        images = self._images(batch.ids, batch.num_images)
        if batch.ids is None:
            _number(batch, images)
        tally = match(batch.detections, batch.truths, self.protocol, self.engine, threads=self.threads)
        if self._is_watching and len(batch.detections) and len(batch.truths):
            self._num_watched += 1
            self._watch.add(batch.detections, batch.truths)
            self._look_for_mistakes(batch.detections, batch.truths)
        self._keep(tally, images, is_numbering=batch.ids is None)

    def _images(self, ids: list[int] | None, num_images: int) -> list[int]:
        """The ids of a batch's images, or numbers that go on from the last batch's; all are new."""
        if not num_images:
            return []
        if self._is_numbering is not None and (ids is None) != self._is_numbering:
            raise InputError("either every update must name its images, or none; name them by `image_ids`")
        if ids is None:
            return list(range(len(self._seen), len(self._seen) + num_images))
        if not self._seen.isdisjoint(ids):
            repeated = next(image for image in ids if image in self._seen)
            rule = "unique_images=True leaves out images that come again, and `reset` starts anew"
            raise InputError(f"image {repeated} was in an update before; {rule}")
        return ids

    def _named(
        self, preds: Sequence[Any], targets: Sequence[Any], ids: list[int] | None
    ) -> tuple[Sequence[Any], Sequence[Any], list[int] | None]:
        """The images and their ids, if they have any; with `unique_images` only those that did not come before."""
        ids = _ids_of(targets) if ids is None else ids
        if not self.unique_images:
            _check_each_comes_once(ids)
        elif all(isinstance(target, Mapping) for target in targets):  # else there is something else to say
            rows = self._new(ids, len(preds))
            return [preds[row] for row in rows], [targets[row] for row in rows], [(ids or [])[row] for row in rows]
        return preds, targets, ids

    def _new(self, ids: list[int] | None, num_images: int) -> list[int]:
        """The places in a batch of the images that did not come before, each once."""
        if ids is None:
            if not num_images:
                return []
            rule = "give every target an `image_id`, or pass `image_ids` to `update`"
            raise InputError(f"`unique_images` needs the images' ids: {rule}")
        if len(ids) != num_images:
            raise InputError(f"`image_ids` must have an id per image; got {len(ids)} for {num_images} images")
        first = {image: place for place, image in reversed([*enumerate(ids)])}
        return sorted(place for image, place in first.items() if image not in self._seen)

    def _keep(self, tally: Tally, images: list[int], *, is_numbering: bool) -> None:
        if images:
            self._is_numbering = is_numbering
        self._seen.update(images)
        self._tallies.append(tally)

    def _read(self, preds: Any, targets: Any, ids: list[int] | None) -> _Batch:
        """The batch as columns."""
        if isinstance(preds, Detections) or isinstance(targets, Truths):
            return self._flat(preds, targets, ids)
        if isinstance(preds, Mapping) and isinstance(targets, Mapping):
            return self._padded(preds, targets, ids)
        for name, images in (("preds", preds), ("targets", targets)):
            if type(images) is not list and (isinstance(images, Mapping | str) or not isinstance(images, Sequence)):
                kinds = "a list of dicts, a dict of padded batches, or columns"
                raise InputError(
                    f"`preds` and `targets` must both be {kinds}; got {type(images).__name__} for `{name}`"
                )
        if len(preds) != len(targets):
            raise InputError(f"`preds` and `targets` must have an entry an image; got {len(preds)} and {len(targets)}")
        if type(preds) is not list or type(targets) is not list:
            preds, targets, ids = self._named(preds, targets, ids)
        settings: dict[str, Any] = {"image_ids": ids, "box_format": self.box_format, "is_hosted": True}
        detections = in_argument("preds", Detections.from_images, preds, **settings)
        truths = in_argument("targets", Truths.from_images, targets, class_names=self.class_names, **settings)
        return _Batch(detections, truths, len(preds), ids)

    def _flat(self, preds: Any, targets: Any, ids: list[int] | None) -> _Batch:
        for name, columns, kind in (("preds", preds, Detections), ("targets", targets, Truths)):
            if not isinstance(columns, kind):
                rule = f"`{name}` must be boxscore.{kind.__name__}, since the other is columns"
                raise InputError(f"{rule}; got {type(columns).__name__}")
        if self.class_names is not None and targets.class_names is None:
            targets = replace(targets, class_names=self.class_names)
        seen = np.union1d(host_ids(preds.image), host_ids(targets.image)).tolist()
        images = sorted({*seen, *(ids or ())})
        if self.unique_images and not self._seen.isdisjoint(images):
            images = [image for image in images if image not in self._seen]
            preds, targets = (take(each, np.isin(host_ids(each.image), images)) for each in (preds, targets))
        return _Batch(preds, targets, len(images), images)

    def _padded(self, preds: Mapping[str, Any], targets: Mapping[str, Any], ids: list[int] | None) -> _Batch:
        found, there = (
            in_argument(name, padded_columns, keys.of_padded(batch, f"`{name}`"), keys)
            for name, batch, keys in (("preds", preds, PADDED_DETECTION_KEYS), ("targets", targets, TRUTH_KEYS))
        )
        if "image_id" in targets and ids is None:
            ids = _as_ids(to_numpy(as_array("image_id", targets["image_id"])).tolist())
        for name, columns in (("preds", found), ("targets", there)):
            if len(shape_of(columns["label"])) != 2:
                rule = f"`{name}`: `labels` must have two dimensions, images and boxes"
                raise InputError(f"{rule}; got shape {shape_of(columns['label'])}")
        sizes = {name: int(columns["label"].shape[0]) for name, columns in (("preds", found), ("targets", there))}
        if sizes["preds"] != sizes["targets"]:
            raise InputError(
                f"`preds` and `targets` must have as many images; got {sizes['preds']} and {sizes['targets']}"
            )
        rows = self._new(ids, sizes["preds"]) if self.unique_images else None
        if rows is None:
            _check_each_comes_once(ids)
        image = None if ids is None or rows is not None else np.array(ids)
        settings: dict[str, Any] = {"image": image, "box_format": self.box_format}
        detections = in_argument("preds", Detections.from_padded, **_hosted(found), **settings)
        truths = in_argument("targets", Truths.from_padded, **_hosted(there), class_names=self.class_names, **settings)
        if rows is None or ids is None:
            return _Batch(detections, truths, sizes["preds"], ids)
        named = renamed_images(detections, rows, ids), renamed_images(truths, rows, ids)
        return _Batch(*named, len(rows), [ids[row] for row in rows])

    def _look_for_mistakes(self, detections: Detections, truths: Truths) -> None:
        """Warn about what is likely wrong, though it may be right."""
        if not (is_in_host_memory(detections.box) and is_in_host_memory(truths.box)):
            return
        found, there = to_numpy(detections.box), to_numpy(truths.box)
        if (message := unlike_units(found, there, Words())) is not None:
            self._tell(message)
        if self.box_format == "xywh":
            for name, box in (("preds", found), ("targets", there)):
                if len(box) >= 10 and (box[:, 2:] > box[:, :2]).all() and (box[:, :2] > 0).mean() > 0.8:
                    self._tell(
                        f"every box of `{name}` is wider than it is far from the left, and higher than from the top:"
                        " are they corners, box_format='xyxy'?"
                    )
        labels, wanted = set(host_ids(detections.label).tolist()), set(host_ids(truths.label).tolist())
        if not labels & wanted and min(len(detections), len(truths)) >= 5:
            for shift in (1, -1):
                if len({label + shift for label in labels} & wanted) * 2 > len(wanted):
                    self._tell(f"no label of `preds` is in `targets`, but most would be with {shift:+d}: off by one?")

    def _diagnose(self, result: Result) -> None:
        """Warn, once, about the likely mistake behind a result near 0; the boxes are those of the first batches."""
        counts = Counts.of_result(result.per_class)
        found = self._watch.diagnose(counts, Words(), has_classes=not self.protocol.class_agnostic)
        if found is not None:
            self._is_diagnosed = True
            warnings.warn(f"{found} (warn=False silences this)", stacklevel=3)

    def _tell(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(f"{message} (warn=False silences this)", stacklevel=5)


def _as_ids(image_ids: Any) -> list[int]:
    try:
        images = list(image_ids)
    except TypeError:
        raise InputError(f"`image_ids` must be a list of integers, one an image; got {image_ids!r}") from None
    return [as_id(image) for image in images]


def _ids_of(targets: Sequence[Any]) -> list[int] | None:
    """The ids of images, if all of them have one."""
    if not targets or not all(isinstance(each, Mapping) and "image_id" in each for each in targets):
        return None
    return [as_id(each["image_id"]) for each in targets]


def _check_each_comes_once(ids: list[int] | None) -> None:
    if ids is not None and len(set(ids)) < len(ids):
        repeated = next(image for place, image in enumerate(ids) if image in ids[:place])
        raise InputError(
            f"image {repeated} is in the batch twice; unique_images=True leaves out images that come again"
        )


def _number(batch: _Batch, images: list[int]) -> None:
    """Give the images of a batch that were numbered from 0 their own numbers."""
    for columns in (batch.detections, batch.truths):
        shifted = columns.image + images[0] if images else columns.image
        object.__setattr__(columns, "image", shifted)  # made a moment ago, and nobody else's


def _hosted(columns: Mapping[str, Array]) -> dict[str, Array | NDArray[Any]]:
    """What is in host memory as NumPy's; the rest stays on its device."""
    if not is_in_host_memory(columns["box"]):
        return dict(columns)
    return {name: to_numpy(column) for name, column in columns.items()}
