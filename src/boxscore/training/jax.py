"""mAP inside a compiled JAX loop: `empty`, `update`, `merge`, `compute`, on a state of fixed size.

`update` can be jitted and scanned like any other step: it matches a padded batch and appends the verdicts to the state.
`compute` copies them to the host and finishes as `boxscore.evaluate` does; with x64 enabled the result has the same
bits. A compiled step can't raise an error, so `update` counts invalid rows, and `compute` raises the error; invalid
detections are dropped unless `invalid="error"`.

Dimensions: N images, D detections, G truths, P = N * D or N * G, A areas, T thresholds; in a state B rows of capacity.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore.data.batch_keys import PADDED_DETECTION_KEYS, TRUTH_KEYS
from boxscore.data.batches import PaddedBatch, in_argument
from boxscore.data.dataset import (
    ClassNames,
    Invalid,
    Truths,
    check_labels_are_named,
    checked_invalid,
    ignored_kinds,
)
from boxscore.data.geometry.box_formats import UPRIGHT_FORMATS, BoxFormat, check_box_format
from boxscore.data.geometry.boxes import measure, sizes
from boxscore.data.image_ids import read_image_ids
from boxscore.engines.parallel.batch import check_static, match_batch, which_count
from boxscore.engines.parallel.loading import PaddedDetections, PaddedTruths
from boxscore.pipeline import finish
from boxscore.protocol.protocol import LARGEST_SIDE, POOLED, Protocol, ProtocolLike, as_protocol, difference_of
from boxscore.result.result import Result
from boxscore.result.tally import UNKNOWN_IMAGE, CountedTruths, RankedRows, Tally

__all__ = ["State", "compute", "empty", "merge", "update"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """Columns with capacity for B rows; the first `num` rows are in use."""

    columns: dict[str, jax.Array]
    """Shapes (B, …)."""
    num: jax.Array
    """Shape ()."""
    num_lost: jax.Array
    """Number of rows that did not fit. Shape ()."""

    @property
    def capacity(self) -> int:
        """The number of rows that fit."""
        return int(self.columns["image"].shape[0])


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """The verdicts of all updates, in arrays of fixed size: a pytree, for `jit`, `scan` and checkpoints."""

    detections: Rows
    truths: Rows
    num_images: jax.Array
    """Number of images so far. Shape ()."""
    num_wrong: jax.Array
    """Number of invalid rows that are errors: a NaN, an infinity, or a size that is negative or too large. Shape ()."""
    num_invalid: jax.Array
    """Number of invalid detections that were dropped. Shape ()."""
    protocol: Protocol
    box_format: BoxFormat
    class_names: tuple[tuple[int, str], ...] | None
    invalid: Invalid

    def __repr__(self) -> str:
        room = f"room for {self.detections.capacity} detections and {self.truths.capacity} truths"
        return f"State({self.protocol.title}, {room})"


jax.tree_util.register_dataclass(Rows, [field.name for field in fields(Rows)], [])
_STATIC = ["protocol", "box_format", "class_names", "invalid"]
jax.tree_util.register_dataclass(State, [f.name for f in fields(State) if f.name not in _STATIC], _STATIC)


def empty(
    protocol: ProtocolLike = "coco",
    capacity: int = 100_000,
    *,
    truth_capacity: int | None = None,
    box_format: BoxFormat = "xyxy",
    class_names: ClassNames | None = None,
    invalid: Invalid = "drop",
) -> State:
    """Make a state without images, with capacity for `capacity` detections and `truth_capacity` truths.

    Padding and discarded rows take no capacity. A detection takes 60 bytes under COCO and 21 under VOC; with x64
    enabled, 80 and 41.

    Args:
        protocol: The rules; they must compare boxes, and need only the verdicts of each batch.
        capacity: The largest number of detections of all updates.
        truth_capacity: The largest number of truths; by default `capacity`.
        box_format: "xyxy", "xywh" or "cxcywh".
        class_names: The names of classes, as in `Truths`.
        invalid: The treatment of a detection with a NaN, an infinity, or a size that is negative or too large. With
            "drop" it changes no number, takes no capacity, and is counted: `compute` warns, and the result is not
            `comparable`. With "error" `compute` raises `InputError`, as it always does for truths.

    Raises:
        InputError: If the protocol compares other shapes (`iou_type`), or has a rule that compiled steps can't follow.

    >>> empty("voc2012", 1000)
    State(voc2012, room for 1000 detections and 1000 truths)
    """
    check_box_format(box_format, UPRIGHT_FORMATS)
    protocol = as_protocol(protocol)
    check_static(protocol)
    rules = {
        "federated": protocol.federated,
        "extra_numbers": protocol.extra_numbers,
        "class_groups": protocol.class_groups,
        "limits_per": protocol.limits_per == "dataset",
    }
    if needed := [name for name, is_needed in rules.items() if is_needed]:
        rule = f"protocol {protocol.name} has a rule that needs more than the verdicts of each batch, `{needed[0]}`"
        raise InputError(f"{rule}: use `boxscore.MeanAveragePrecision`")
    truth_capacity = capacity if truth_capacity is None else truth_capacity
    for name, value in (("capacity", capacity), ("truth_capacity", truth_capacity)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise InputError(f"`{name}` must be a number of rows, at least 1; got {value!r}")
    names = Truths(image_ids=[], labels=[], boxes=[], class_names=class_names).names_by_label
    num_areas, num_thresholds = len(protocol.areas), len(protocol.thresholds)
    whole, real = _dtype("int64"), _dtype("float64")

    def zero() -> jax.Array:  # separate arrays, so that all of them can be donated to a step
        return jnp.zeros((), whole)

    ids = {"image": ((), whole), "serial": ((), whole), "label": ((), whole)}
    detection_columns = ids | {
        "score": ((), real),
        "rank": ((), whole),
        "verdict": ((num_areas, num_thresholds), jnp.uint8),
    }
    truth_columns = ids | {"counts": ((num_areas,), jnp.bool_)}

    def rows(columns: Mapping[str, Any], size: int) -> Rows:
        buffers = {name: jnp.zeros((size, *shape), dtype) for name, (shape, dtype) in columns.items()}
        return Rows(columns=buffers, num=zero(), num_lost=zero())

    return State(
        detections=rows(detection_columns, int(capacity)),
        truths=rows(truth_columns, int(truth_capacity)),
        num_images=zero(),
        num_wrong=zero(),
        num_invalid=zero(),
        protocol=protocol,
        box_format=box_format,
        class_names=None if names is None else tuple(names.items()),
        invalid=checked_invalid(invalid),
    )


def update(state: State, preds: Any, targets: Any, image_ids: Any) -> State:
    """Match a padded batch and append the verdicts. Can be jitted, best with `donate_argnums=0`, and scanned.

    Rows with a label below 0 are padding.

    Args:
        state: The state so far.
        preds: A dict with `boxes` (N, D, 4), `labels` (N, D), `scores` (N, D) and optionally `discarded` (N, D), or
            `boxscore.parallel.PaddedDetections`.
        targets: A dict with `boxes` (N, G, 4), `labels` (N, G) and optionally `area` (N, G) and any of `ignore`,
            `iscrowd` and `difficult` (N, G), or `PaddedTruths`.
        image_ids: Distinct integers; an image that is all padding may have any. Shape (N,).

    Returns:
        The new state.

    >>> state = empty("voc2012", 10)
    >>> preds = {"boxes": jnp.array([[[0, 0, 9, 9]]]), "labels": jnp.array([[1]]), "scores": jnp.array([[0.9]])}
    >>> targets = {"boxes": jnp.array([[[0, 0, 9, 8]]]), "labels": jnp.array([[1]])}
    >>> compute(jax.jit(update)(state, preds, targets, jnp.array([7])))["map"]
    1.0
    """
    _check_state("state", state)
    batch, truth_batch, image_N = _detections(preds), _truths(targets), _image_ids(image_ids)
    num_images = int(batch.labels.shape[0])
    if int(truth_batch.labels.shape[0]) != num_images or image_N.shape != (num_images,):
        sizes_given = f"{num_images}, {truth_batch.labels.shape[0]} and shape {image_N.shape}"
        raise InputError(f"`preds`, `targets` and `image_ids` must have as many images; got {sizes_given}")
    protocol = state.protocol
    if protocol.class_agnostic:  # as in COCO: ties between classes are broken by label
        batch, truth_batch = _by_label(batch), _by_label(truth_batch)

    # Invalid rows must not change the verdicts of others. Count them here; `compute` raises an error or warns.
    is_bad_ND = _is_bad(batch.boxes, state.box_format) | ~jnp.isfinite(batch.scores)
    is_bad_ND = is_bad_ND & ~batch.discarded
    is_dropped_ND = is_bad_ND & (state.invalid == "drop")
    batch = batch._replace(
        boxes=jnp.where(is_dropped_ND[..., None], jnp.zeros_like(batch.boxes), batch.boxes),
        scores=jnp.where(is_dropped_ND, jnp.zeros_like(batch.scores), batch.scores),
        discarded=batch.discarded | is_dropped_ND,
    )
    is_real_NG = truth_batch.labels >= 0
    is_bad_NG = _is_bad(truth_batch.boxes, state.box_format) & is_real_NG
    if truth_batch.area is not None:
        is_bad_NG = is_bad_NG | (is_real_NG & ~((truth_batch.area >= 0) & jnp.isfinite(truth_batch.area)))

    matched = match_batch(batch, truth_batch, protocol, box_format=state.box_format)
    serial_N = state.num_images + jnp.arange(num_images)

    def of_image(values_N: jax.Array, like: jax.Array) -> jax.Array:
        return jnp.broadcast_to(values_N[:, None], like.shape)

    detections = {
        "image": of_image(image_N, batch.labels),
        "serial": of_image(serial_N, batch.labels),
        "label": batch.labels,
        "score": batch.scores,
        "rank": matched.rank,
        "verdict": matched.verdict,
    }
    truths = {
        "image": of_image(image_N, truth_batch.labels),
        "serial": of_image(serial_N, truth_batch.labels),
        "label": truth_batch.labels,
        "counts": _which_count(truth_batch, state),
    }
    return replace(
        state,
        detections=_append(state.detections, detections, ~matched.discarded, "capacity"),
        truths=_append(state.truths, truths, is_real_NG, "truth_capacity"),
        num_images=state.num_images + num_images,
        num_wrong=state.num_wrong
        + _count(is_bad_ND & ~is_dropped_ND, state.num_wrong)
        + _count(is_bad_NG, state.num_wrong),
        num_invalid=state.num_invalid + _count(is_dropped_ND, state.num_invalid),
    )


def merge(state: State, other: State) -> State:
    """Concatenate the states of two devices or processes; the capacities add up. Can be jitted.

    Args:
        state: The state whose rows come first.
        other: A state of other images, with the same protocol, box format, class names and `invalid`.

    Returns:
        The new state.
    """
    _check_state("state", state)
    _check_state("other", other)
    for name in _STATIC:
        if getattr(state, name) != getattr(other, name):
            protocols = f" ({difference_of(state.protocol, other.protocol)})" if name == "protocol" else ""
            raise InputError(f"states to be merged must have the same `{name}`; got different ones{protocols}")

    def joined(ours: Rows, theirs: Rows) -> Rows:
        wider = {
            name: jnp.concatenate([column, jnp.zeros_like(theirs.columns[name])])
            for name, column in ours.columns.items()
        }
        block = theirs.columns | {"serial": theirs.columns["serial"] + state.num_images}
        rows = Rows(columns=wider, num=ours.num, num_lost=ours.num_lost + theirs.num_lost)
        return _write(rows, block, theirs.num)

    return replace(
        state,
        detections=joined(state.detections, other.detections),
        truths=joined(state.truths, other.truths),
        num_images=state.num_images + other.num_images,
        num_wrong=state.num_wrong + other.num_wrong,
        num_invalid=state.num_invalid + other.num_invalid,
    )


def compute(state: State) -> Result:
    """Compute the result of all updates, on the host.

    Args:
        state: The state after all updates.

    Raises:
        InputError: If rows did not fit, if invalid rows were not dropped, or if two images have the same id.
    """
    _check_state("state", state)
    state = jax.device_get(state)
    for rows, name, one in ((state.detections, "capacity", "detection"), (state.truths, "truth_capacity", "truth")):
        if (lost := int(rows.num_lost)) > 0:
            came = text.count(rows.capacity + lost, one)
            raise InputError(f"`{name}` must be at least the number of rows; got {rows.capacity}, and {came} came")
    if (wrong := int(state.num_wrong)) > 0:
        rule = f"must have finite numbers, no negative size, and sides up to {LARGEST_SIDE:g}"
        raise InputError(f"boxes, scores and areas {rule}; got {text.count(wrong, 'row')} that had not")
    detections, truths = (_taken(rows) for rows in (state.detections, state.truths))
    _check_images_are_different(detections, truths)
    if (num_invalid := int(state.num_invalid)) > 0:
        dropped = text.count(num_invalid, "invalid detection")
        warnings.warn(f'{dropped} dropped; empty(invalid="error") makes them an error', stacklevel=2)

    protocol = state.protocol
    names = None if state.class_names is None else dict(state.class_names)
    if names is not None:
        for columns in (detections, truths):
            check_labels_are_named(columns["label"], names)
    if protocol.class_agnostic:
        names = {POOLED: "all"}
        for columns in (detections, truths):
            columns["label"] = np.full_like(columns["label"], POOLED)
    labels = [detections["label"], truths["label"], np.array(list(names or ()), np.int64)]
    tally = Tally.from_verdicts(
        protocol=protocol,
        rows=RankedRows(*(detections[name] for name in RankedRows._fields)),
        verdict=detections["verdict"],
        truths=CountedTruths(*(truths[name] for name in CountedTruths._fields)),
        classes=np.unique(np.concatenate(labels)).astype(np.int64),
        class_names=names,
        iou_dtype=str(detections["score"].dtype),
        invalid_image=np.full(num_invalid, UNKNOWN_IMAGE) if num_invalid else None,
    )
    return finish(tally)


def _check_state(name: str, state: Any) -> None:
    if not isinstance(state, State):
        raise InputError(f"`{name}` must be a boxscore.jax.State; got {type(state).__name__}")


def _dtype(name: str) -> Any:
    """The dtype, or its 32-bit counterpart without x64."""
    return jax.dtypes.canonicalize_dtype(name)


def _detections(preds: Any) -> PaddedDetections:
    """Read the batch in `preds`, and mark all padding as discarded."""
    if isinstance(preds, PaddedDetections):
        _check_is_absent("preds", "coverage", preds.coverage, "federated protocols, which need more than a batch has")
        required = {name: getattr(preds, name) for name in ("boxes", "labels", "scores")}
        batch = in_argument("preds", PaddedBatch.from_columns, required, {"discarded": preds.discarded})
    else:
        batch = PaddedBatch.from_dict("preds", preds, PADDED_DETECTION_KEYS._replace(others=()))
    columns = {name: jnp.asarray(column) for name, column in in_argument("preds", batch.columns).items()}
    is_padding_ND = columns["labels"] < 0
    discarded_ND = columns.pop("discarded", is_padding_ND)
    return PaddedDetections(**columns, discarded=discarded_ND | is_padding_ND)


def _truths(targets: Any) -> PaddedTruths:
    """Read the batch in `targets`, and mark all padding as ignored. It has no ids: they come as `image_ids`."""
    if isinstance(targets, PaddedTruths):
        _check_is_absent("targets", "kind", targets.kind, "`boxscore.parallel.match_batch`; `ignore` marks truths here")
        required = {name: getattr(targets, name) for name in ("boxes", "labels", "ignore")}
        batch = in_argument("targets", PaddedBatch.from_columns, required, {"area": targets.area})
    else:
        batch = PaddedBatch.from_dict("targets", targets, TRUTH_KEYS._replace(others=()))
    columns = {name: jnp.asarray(column) for name, column in in_argument("targets", batch.columns).items()}
    is_padding_NG = columns["labels"] < 0
    ignore_NG = columns.pop("ignore", is_padding_NG)
    return PaddedTruths(**columns, ignore=ignore_NG | is_padding_NG)


def _check_is_absent(argument: str, name: str, column: Any, home: str) -> None:
    if column is not None:
        raise InputError(f"`{argument}` must not have `{name}`, which is for {home}")


def _image_ids(image_ids: Any) -> jax.Array:
    if isinstance(image_ids, Sequence) and any(isinstance(image, jax.Array) for image in image_ids):
        image_ids = jnp.asarray(image_ids)  # a list of traced scalars
    if not isinstance(image_ids, jax.Array):
        image_ids = np.array(read_image_ids(image_ids).numbers, np.int64)
        limits = np.iinfo(_dtype("int64"))
        if image_ids.size and not (limits.min <= image_ids.min() and image_ids.max() <= limits.max):
            widest = max(image_ids.min(), image_ids.max(), key=abs)
            raise InputError(f"`image_ids` must fit {limits.dtype}, all there is without x64; got {widest}")
    if not jnp.issubdtype(image_ids.dtype, jnp.integer):
        raise InputError(f"`image_ids` must be integers; got {image_ids.dtype}")
    return jnp.asarray(image_ids)


def _by_label(batch: Any) -> Any:
    """Sort the rows of each image by label; ties keep their order."""
    order = jnp.argsort(batch.labels, axis=1, stable=True)

    def sort(column: jax.Array) -> jax.Array:
        return jnp.take_along_axis(column, order[..., None] if column.ndim == 3 else order, axis=1)

    return type(batch)(*(None if column is None else sort(column) for column in batch))


def _is_bad(box: jax.Array, box_format: BoxFormat) -> jax.Array:
    """Whether a box has a number that is not finite, or a size that is negative or too large. Shape (N, D)."""
    box = box.astype(_dtype("float64"))  # differences of unsigned integers are never negative
    width, height = sizes(box, box_format)
    is_valid = (width >= 0) & (height >= 0) & (jnp.maximum(width, height) <= LARGEST_SIDE)
    return ~(jnp.isfinite(box).all(axis=-1) & is_valid)


def _which_count(truths: PaddedTruths, state: State) -> jax.Array:
    """Whether each truth counts in each area range. Shape (N, G, A)."""
    real = _dtype("float64")
    if truths.area is None:
        box = truths.boxes.astype(real)
        area_NG = measure(box, box_format=state.box_format, pixels=state.protocol.pixels).area
    else:
        area_NG = truths.area.astype(real)
    is_counted_NGA: jax.Array = which_count(area_NG, ignored_kinds(truths.ignore, state.protocol), state.protocol)
    return is_counted_NGA


def _count(flags: jax.Array, like: jax.Array) -> jax.Array:
    return jnp.sum(flags, dtype=like.dtype)


def _append(rows: Rows, batch: Mapping[str, jax.Array], is_kept: jax.Array, name: str) -> Rows:
    """Append the kept rows of a batch."""
    num_rows = is_kept.size
    if num_rows > rows.capacity:
        product = " * ".join(map(str, is_kept.shape))
        raise InputError(f"`{name}` must have room for a batch, {product} with its padding; got {rows.capacity}")
    order_P = jnp.argsort(~is_kept.reshape(-1), stable=True)  # kept rows first
    block = {key: column.reshape(num_rows, *column.shape[2:])[order_P] for key, column in batch.items()}
    return _write(rows, block, _count(is_kept, rows.num))


def _write(rows: Rows, block: Mapping[str, jax.Array], num: jax.Array) -> Rows:
    """Append the first `num` rows of a block.

    The whole block is written; the next one overwrites its remaining rows. Near the end of the buffer the block would
    not fit, and `dynamic_update_slice` would shift it back, over earlier rows. So it starts earlier there, and contains
    copies of these rows.
    """
    size = block["image"].shape[0]
    start = jnp.minimum(rows.num, rows.capacity - size)
    is_earlier = jnp.arange(size) < rows.num - start

    def write(buffer: jax.Array, values: jax.Array) -> jax.Array:
        before = jax.lax.dynamic_slice_in_dim(buffer, start, size)
        moved = jnp.roll(values.astype(buffer.dtype), rows.num - start, axis=0)
        mask = is_earlier.reshape(-1, *[1] * (buffer.ndim - 1))
        return jax.lax.dynamic_update_slice_in_dim(buffer, jnp.where(mask, before, moved), start, axis=0)

    num_lost = jnp.maximum(rows.num + num - rows.capacity, 0)
    return Rows(
        columns={name: write(buffer, block[name]) for name, buffer in rows.columns.items()},
        num=rows.num + num - num_lost,
        num_lost=rows.num_lost + num_lost,
    )


def _taken(rows: Rows) -> dict[str, NDArray[Any]]:
    return {name: np.asarray(column)[: int(rows.num)] for name, column in rows.columns.items()}


def _check_images_are_different(detections: Mapping[str, NDArray[Any]], truths: Mapping[str, NDArray[Any]]) -> None:
    """Raise `InputError` if two images have the same id."""
    pairs = [np.stack([columns["image"], columns["serial"]], axis=1) for columns in (detections, truths)]
    images, counts = np.unique(np.unique(np.concatenate(pairs), axis=0)[:, 0], return_counts=True)
    if (counts > 1).any():
        raise InputError(f"image {images[counts > 1][0]} came more than once; an image needs an id of its own")
