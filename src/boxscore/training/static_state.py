"""A state of fixed size for compiled steps, on any array library: the steps of `boxscore.jax` and `boxscore.torch`.

    init ──► State ──► update: match a padded batch, append its rows ──► State ──► compute, on the host ──► Result
                          ▲                                               │
                          └──────────── next batch ◄──────────────────────┴──► numbers, in the same compiled step

All functions are pure and have static shapes. `update` and `numbers` read no value and copy no constant from the host.
A compiled step can't raise an error, so `update` counts invalid rows, and `compute` raises the error.

A state has columns with room for a number of rows, the first `num` of which are in use:

    detections   image, serial, label, score, rank, and two words of bits per 64 cells: true, false
    truths       image, serial, label, counts: one flag per area range

`serial` is the running number of an image, by which an image that comes twice is found.

Dimensions: N images, D detections, G truths, P = N * D or N * G, A areas, T thresholds, X = A * T cells, W words; in a
state B rows of capacity.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore.arrays import (
    Array,
    along_rows,
    arange,
    float_dtype,
    int_dtype,
    namespace,
    rows_at,
    size_of,
    slice_rows,
    to_numpy,
    write_rows,
    zeros,
)
from boxscore.data.dataset import ClassNames, Invalid, Truths, check_labels_are_named, checked_invalid, ignored_kinds
from boxscore.data.geometry.box_formats import UPRIGHT_FORMATS, BoxFormat, check_box_format
from boxscore.data.geometry.boxes import Boxes, padded_boxes, sizes
from boxscore.engines.parallel.batch import DetectionBatch, Judged, TruthBatch, check_static, judge, which_count
from boxscore.engines.parallel.loading import PaddedDetections, PaddedTruths
from boxscore.engines.parallel.packed_flags import NUM_BITS, pack, unpack
from boxscore.engines.parallel.static_finish import CountedTruths as StaticTruths
from boxscore.engines.parallel.static_finish import VerdictRows, check_static_finish, static_numbers
from boxscore.pipeline import finish
from boxscore.protocol.protocol import LARGEST_SIDE, POOLED, Protocol, ProtocolLike, as_protocol, difference_of
from boxscore.result.result import Result
from boxscore.result.tally import FALSE, TRUE, UNKNOWN_IMAGE, CountedTruths, RankedRows, Tally


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Columns with capacity for B rows; the first `num` rows are in use."""

    columns: dict[str, Array]
    """Shapes (B, …)."""
    num: Array
    """Shape ()."""
    num_lost: Array
    """Number of rows that did not fit. Shape ()."""

    @property
    def capacity(self) -> int:
        """The number of rows that fit."""
        return int(self.columns["image"].shape[0])


@dataclass(frozen=True, kw_only=True)
class State:
    """The verdicts of all updates, in arrays of fixed size: a pytree, for compiled steps and checkpoints."""

    static: ClassVar[tuple[str, ...]] = ("protocol", "box_format", "class_names", "num_classes", "invalid")
    """The fields that are not arrays."""

    detections: Rows
    truths: Rows
    num_images: Array
    """Number of images so far. Shape ()."""
    num_wrong: Array
    """Number of invalid rows that are errors: a NaN, an infinity, or a size that is negative or too large. Shape ()."""
    num_invalid: Array
    """Number of invalid detections that were dropped. Shape ()."""
    protocol: Protocol
    box_format: BoxFormat
    class_names: tuple[tuple[int, str], ...] | None
    num_classes: int | None
    invalid: Invalid

    def __repr__(self) -> str:
        room = f"room for {self.detections.capacity} detections and {self.truths.capacity} truths"
        return f"State({self.protocol.title}, {room})"


ARRAYS = tuple(field.name for field in fields(State) if field.name not in State.static)
"""The fields of a state that are arrays, or have them."""


class Options(NamedTuple):
    """What a state is made for; the arguments of `init`, which describes them."""

    capacity: int
    protocol: ProtocolLike
    truth_capacity: int | None
    box_format: BoxFormat
    class_names: ClassNames | None
    num_classes: int | None
    invalid: Invalid


def init(options: Options, like: Array) -> State:
    """Make a state without images. `like`: an array of the library and device of the state."""
    capacity, protocol, truth_capacity, box_format, class_names, num_classes, invalid = options
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
    for name, value in (("capacity", capacity), ("truth_capacity", truth_capacity), ("num_classes", num_classes)):
        if value is None and name == "num_classes":
            continue
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            one = "classes" if name == "num_classes" else "rows"
            raise InputError(f"`{name}` must be a number of {one}, at least 1; got {value!r}")
    if num_classes is not None and class_names is not None:
        raise InputError("`num_classes` and `class_names` must not both be given")
    names = Truths(image_ids=[], labels=[], boxes=[], class_names=class_names).names_by_label
    num_words = -(-len(protocol.areas) * len(protocol.thresholds) // NUM_BITS)
    whole, xp = int_dtype(like), namespace(like)
    ids = {"image": ((), whole), "serial": ((), whole), "label": ((), whole)}
    detection_columns = ids | {
        "score": ((), float_dtype(like)),
        "rank": ((), whole),
        "true": ((num_words,), xp.int32),
        "false": ((num_words,), xp.int32),
    }
    truth_columns = ids | {"counts": ((len(protocol.areas),), xp.bool)}

    def zero() -> Array:  # separate arrays, so that all of them can be donated to a step
        return zeros((), like=like, dtype=whole)

    def rows(columns: Mapping[str, Any], size: int) -> Rows:
        buffers = {name: zeros((size, *shape), like=like, dtype=dtype) for name, (shape, dtype) in columns.items()}
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
        num_classes=None if num_classes is None else int(num_classes),
        invalid=checked_invalid(invalid),
    )


def update(state: State, preds: PaddedDetections, targets: PaddedTruths, image_N: Array) -> State:
    """Match a padded batch of valid shapes and append the verdicts. All padding is discarded or ignored."""
    xp = namespace(preds.labels)
    num_given = preds.labels.shape[0]
    if targets.labels.shape[0] != num_given or tuple(image_N.shape) != (num_given,):
        sizes_given = f"{num_given}, {targets.labels.shape[0]} and shape {tuple(image_N.shape)}"
        raise InputError(f"`preds`, `targets` and `image_ids` must have as many images; got {sizes_given}")
    num_images = size_of(preds.labels, 0)
    if state.protocol.class_agnostic:  # as in COCO: ties between classes are broken by label
        preds, targets = _by_label(preds), _by_label(targets)

    # Invalid rows must not change the verdicts of others. Count them here; `compute` raises an error or warns.
    is_bad_ND = (_is_bad(preds.boxes, state.box_format) | ~xp.isfinite(_real(preds.scores))) & ~preds.discarded
    is_dropped_ND = is_bad_ND if state.invalid == "drop" else is_bad_ND & False
    preds = preds._replace(
        boxes=xp.where(is_dropped_ND[..., None], xp.zeros_like(preds.boxes), preds.boxes),
        scores=xp.where(is_dropped_ND, xp.zeros_like(preds.scores), preds.scores),
        discarded=preds.discarded | is_dropped_ND,
    )
    is_truth_NG = targets.labels >= 0
    is_bad_NG = _is_bad(targets.boxes, state.box_format) & is_truth_NG
    if targets.area is not None:
        is_bad_NG = is_bad_NG | (is_truth_NG & ~((targets.area >= 0) & xp.isfinite(_real(targets.area))))
    judged, counts_NGA = _judge(preds, targets, state)
    is_kept_ND = ~judged.discarded
    serial_N = state.num_images + arange(num_images, like=preds.labels)
    num_wrong = _count(is_bad_ND & ~is_dropped_ND, state.num_wrong) + _count(is_bad_NG, state.num_wrong)
    found = {
        **_ids(image_N, serial_N, preds.labels),
        "score": preds.scores,
        "rank": judged.rank,
        "true": judged.is_true,
        "false": judged.is_false,
    }
    truths = {**_ids(image_N, serial_N, targets.labels), "counts": counts_NGA}
    return replace(
        state,
        detections=_append(state.detections, found, is_kept_ND, "capacity"),
        truths=_append(state.truths, truths, is_truth_NG, "truth_capacity"),
        num_images=state.num_images + num_images,
        num_wrong=state.num_wrong + num_wrong,
        num_invalid=state.num_invalid + _count(is_dropped_ND, state.num_invalid),
    )


def _judge(preds: PaddedDetections, targets: PaddedTruths, state: State) -> tuple[Judged, Array]:
    """Match the batch: its verdicts, and the area ranges in which each truth counts. The latter has shape (N, G, A)."""
    protocol = state.protocol
    columns = padded_boxes(preds.boxes, state.box_format, protocol)
    truth_columns = padded_boxes(targets.boxes, state.box_format, protocol)
    area_NG = truth_columns.area if targets.area is None else _real(targets.area)
    kind_NG = ignored_kinds(targets.ignore, protocol)
    judged = judge(
        DetectionBatch(columns, columns.area, preds.labels, preds.scores, preds.discarded),
        TruthBatch(truth_columns, area_NG, targets.labels, kind_NG),
        protocol,
        Boxes.pairwise,
    )
    return judged, which_count(area_NG, kind_NG, protocol)


def merge(state: State, other: State) -> State:
    """Concatenate two states of different images; the capacities add up."""
    for name in State.static:
        if getattr(state, name) != getattr(other, name):
            protocols = f" ({difference_of(state.protocol, other.protocol)})" if name == "protocol" else ""
            raise InputError(f"states to be merged must have the same `{name}`; got different ones{protocols}")
    xp = namespace(state.num_images)

    def joined(ours: Rows, theirs: Rows) -> Rows:
        wider = {
            name: xp.concat([column, xp.zeros_like(theirs.columns[name])], axis=0)
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


def numbers(state: State) -> dict[str, Array]:
    """The numbers by name, shape () each; NaN if rows did not fit or were invalid."""
    check_static_finish(state.protocol)
    if state.class_names is None and state.num_classes is None and not state.protocol.class_agnostic:
        raise InputError("`num_classes` or `class_names` must be given to `init` for `numbers`; got neither")
    classes = range(state.num_classes or 1) if state.class_names is None else sorted(dict(state.class_names))
    found, truths, protocol = state.detections, state.truths, state.protocol
    num_cells = len(protocol.areas) * len(protocol.thresholds)
    is_valid = (found.num_lost == 0) & (truths.num_lost == 0) & (state.num_wrong == 0)
    is_true, is_false = (unpack(found.columns[name], num_cells) for name in ("true", "false"))
    ids = {name: found.columns[name] for name in ("label", "score", "image", "rank")}
    rows = VerdictRows(**ids, is_true=is_true, is_false=is_false, num=found.num)
    counted = StaticTruths(truths.columns["label"], truths.columns["counts"], truths.num)
    return dict(static_numbers(rows, counted, protocol, classes, is_valid=is_valid).numbers)


def check_is_valid(state: State) -> None:
    """Raise `InputError` if rows did not fit, or were invalid and not dropped."""
    for rows, name, one in ((state.detections, "capacity", "detection"), (state.truths, "truth_capacity", "truth")):
        if (lost := int(rows.num_lost)) > 0:
            came = text.count(rows.capacity + lost, one)
            raise InputError(f"`{name}` must be at least the number of rows; got {rows.capacity}, and {came} came")
    if (wrong := int(state.num_wrong)) > 0:
        rule = f"must have finite numbers, no negative size, and sides up to {LARGEST_SIDE:g}"
        raise InputError(f"boxes, scores and areas {rule}; got {text.count(wrong, 'row')} that had not")


def compute(state: State, name_of_init: str) -> Result:
    """Compute the result on the host, as `evaluate` does. `name_of_init`: for messages."""
    protocol = state.protocol
    check_is_valid(state)
    detections, truths = (_taken(rows) for rows in (state.detections, state.truths))
    _check_images_are_different(detections, truths)
    if (num_invalid := int(state.num_invalid)) > 0:
        dropped = text.count(num_invalid, "invalid detection")
        warnings.warn(f'{dropped} dropped; {name_of_init}(invalid="error") makes them an error', stacklevel=3)

    names = None if state.class_names is None else dict(state.class_names)
    if names is not None:
        for columns in (detections, truths):
            check_labels_are_named(columns["label"], names)
    if protocol.class_agnostic:
        names = {POOLED: "all"}
        for columns in (detections, truths):
            columns["label"] = np.full_like(columns["label"], POOLED)
    labels = [detections["label"], truths["label"], np.array(list(names or ()), np.int64)]
    num_cells = len(protocol.areas) * len(protocol.thresholds)
    is_true, is_false = (unpack(detections.pop(name), num_cells) for name in ("true", "false"))
    verdict = TRUE * is_true.astype(np.uint8) + FALSE * is_false.astype(np.uint8)
    tally = Tally.from_verdicts(
        protocol=protocol,
        rows=RankedRows(*(detections[name] for name in RankedRows._fields)),
        verdict=verdict.reshape(-1, len(protocol.areas), len(protocol.thresholds)),
        truths=CountedTruths(*(truths[name] for name in CountedTruths._fields)),
        classes=np.unique(np.concatenate(labels)).astype(np.int64),
        class_names=names,
        iou_dtype=str(detections["score"].dtype),
        invalid_image=np.full(num_invalid, UNKNOWN_IMAGE) if num_invalid else None,
    )
    return finish(tally)


def _real(column: Array) -> Array:
    """The column in the widest float of its device."""
    return namespace(column).astype(column, float_dtype(column))


def _by_label(batch: Any) -> Any:
    """Sort the rows of each image by label; ties keep their order."""
    xp = namespace(batch.labels)
    order_ND = xp.argsort(batch.labels, axis=1, stable=True)

    def sort(column: Array) -> Array:
        if len(column.shape) == 2:
            return along_rows(column, order_ND)
        return xp.stack([along_rows(column[..., i], order_ND) for i in range(column.shape[-1])], axis=-1)

    return type(batch)(*(None if column is None else sort(column) for column in batch))


def _is_bad(box: Array, box_format: BoxFormat) -> Array:
    """Whether a box has a number that is not finite, or a size that is negative or too large. Shape (N, D)."""
    box = _real(box)  # differences of unsigned integers are never negative
    xp = namespace(box)
    width, height = sizes(box, box_format)
    is_valid = (width >= 0) & (height >= 0) & (xp.maximum(width, height) <= LARGEST_SIDE)
    return ~(xp.all(xp.isfinite(box), axis=-1) & is_valid)


def _ids(image_N: Array, serial_N: Array, label_ND: Array) -> dict[str, Array]:
    """The ids of each row of a batch. Shape (N, D) each."""
    zero = namespace(label_ND).zeros_like(label_ND)
    return {"image": image_N[:, None] + zero, "serial": serial_N[:, None] + zero, "label": label_ND}


def _count(flag: Array, like: Array) -> Array:
    xp = namespace(flag)
    return xp.sum(xp.astype(xp.reshape(flag, (-1,)), like.dtype), axis=0)


def _append(rows: Rows, batch: Mapping[str, Array], is_kept: Array, name: str) -> Rows:
    """Append the kept rows of a batch."""
    xp = namespace(is_kept)
    shape = tuple(is_kept.shape)
    if None not in shape and shape[0] * shape[1] > rows.capacity:
        product = " * ".join(map(str, shape))
        raise InputError(f"`{name}` must have room for a batch, {product} with its padding; got {rows.capacity}")
    order_P = xp.argsort(xp.astype(xp.reshape(~is_kept, (-1,)), xp.int32), stable=True)  # kept rows first
    order_P = order_P[: rows.capacity]  # TensorFlow's graphs may not know how many there are
    block = {}
    for key, column in batch.items():
        flat = xp.reshape(column, (-1, *column.shape[2:]))
        block[key] = rows_at(pack(flat) if key in ("true", "false") else flat, order_P)
    return _write(rows, block, _count(is_kept, rows.num))


def _write(rows: Rows, block: Mapping[str, Array], num: Array) -> Rows:
    """Append the first `num` rows of a block.

    The whole block is written; the next one overwrites its remaining rows. Near the end of the buffer the block would
    not fit. So it starts earlier there, and contains copies of the rows that were there.
    """
    xp = namespace(num)
    size = size_of(block["image"], 0)
    zero = xp.zeros_like(rows.num)
    start = xp.minimum(rows.num, zero + (rows.capacity - size))
    index_P = arange(size, like=rows.num)
    shift = rows.num - start
    is_earlier_P = index_P < shift
    source_P = xp.where(is_earlier_P, xp.zeros_like(index_P), index_P - shift)

    def write(buffer: Array, values: Array) -> Array:
        before = slice_rows(buffer, start, size)
        moved = xp.astype(rows_at(values, source_P), buffer.dtype)
        mask = is_earlier_P if len(buffer.shape) == 1 else is_earlier_P[:, None]
        return write_rows(buffer, start, xp.where(mask, before, moved))

    num_lost = xp.maximum(rows.num + num - rows.capacity, zero)
    return Rows(
        columns={name: write(buffer, block[name]) for name, buffer in rows.columns.items()},
        num=rows.num + num - num_lost,
        num_lost=rows.num_lost + num_lost,
    )


def _taken(rows: Rows) -> dict[str, NDArray[Any]]:
    num = int(rows.num)
    return {name: to_numpy(column)[:num] for name, column in rows.columns.items()}


def _check_images_are_different(detections: Mapping[str, NDArray[Any]], truths: Mapping[str, NDArray[Any]]) -> None:
    """Raise `InputError` if two images have the same id."""
    pairs = [np.stack([columns["image"], columns["serial"]], axis=1) for columns in (detections, truths)]
    images, counts = np.unique(np.unique(np.concatenate(pairs), axis=0)[:, 0], return_counts=True)
    if (counts > 1).any():
        raise InputError(f"image {images[counts > 1][0]} came more than once; an image needs an id of its own")
