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
from boxscore.data.batch_keys import PADDED_DETECTION_KEYS, PADDED_TRUTH_KEYS, Keys
from boxscore.data.dataset import ClassNames, Invalid, Truths, check_labels_are_named, checked_invalid, ignored_kinds
from boxscore.data.geometry import RowShape
from boxscore.data.geometry.box_formats import BoxFormat, check_box_format
from boxscore.data.geometry.kinds import as_iou_types
from boxscore.data.geometry.padded_shapes import PADDED_GEOMETRIES, PaddedGeometry
from boxscore.engines.parallel.batch import DetectionBatch, Judged, TruthBatch, check_static, judge, which_count
from boxscore.engines.parallel.loading import PaddedDetections, PaddedTruths
from boxscore.engines.parallel.packed_flags import NUM_BITS, pack, unpack
from boxscore.engines.parallel.static_finish import CountedTruths as StaticTruths
from boxscore.engines.parallel.static_finish import VerdictRows, check_static_finish, static_numbers
from boxscore.pipeline import finish
from boxscore.protocol.protocol import (
    DIFFICULT,
    POOLED,
    REGULAR,
    IouType,
    KeypointRules,
    Protocol,
    ProtocolLike,
    as_protocol,
    difference_of,
)
from boxscore.protocol.table import for_iou_type
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
    """The settings of a state: the arguments of `init`, which describes them."""

    capacity: int
    protocol: ProtocolLike
    truth_capacity: int | None
    box_format: BoxFormat
    class_names: ClassNames | None
    num_classes: int | None
    invalid: Invalid
    iou_type: IouType | None = None


_NO_KEYS = {
    side: keys._replace(others=()) for side, keys in (("preds", PADDED_DETECTION_KEYS), ("targets", PADDED_TRUTH_KEYS))
}
_KEYS = {
    (side, iou_type): keys.of_shapes(iou_type, geometry.box_formats[0])
    for iou_type, geometry in PADDED_GEOMETRIES.items()
    for side, keys in _NO_KEYS.items()
}
"""The keys of batches, made at import: compilers need not trace how."""


class Layout(NamedTuple):
    """The keys of one side of a batch, and the shapes of a row of its shapes."""

    keys: Keys
    row_shapes: Mapping[str, RowShape]


def layout_of(state: State, side: str) -> Layout:
    """The layout of `preds` or `targets`."""
    geometry = geometry_of(state)
    row_shapes = geometry.detection_keys if side == "preds" else geometry.truth_keys
    return Layout(_KEYS[side, state.protocol.iou_type], row_shapes)


def geometry_of(state: State) -> PaddedGeometry:
    """The geometry that a state compares."""
    return PADDED_GEOMETRIES[state.protocol.iou_type]


def init(options: Options, like: Array) -> State:
    """Make a state without images. `like`: an array of the library and device of the state."""
    capacity, protocol, truth_capacity, box_format, class_names, num_classes, invalid, iou_type = options
    protocol = as_protocol(protocol) if iou_type is None else for_iou_type(protocol, _one_iou_type(iou_type))
    check_static(protocol, PADDED_GEOMETRIES)
    check_box_format(box_format, PADDED_GEOMETRIES[protocol.iou_type].box_formats)
    rules = {
        "federated": protocol.federated,
        "extra_numbers": protocol.extra_numbers,
        "class_groups": protocol.class_groups,
        "limits_per": protocol.limits_per == "dataset",
        "keypoints": protocol.keypoints != KeypointRules(),
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


def _one_iou_type(iou_type: object) -> str:
    names = as_iou_types(iou_type)
    if len(names) != 1:
        raise InputError(f"`iou_type` must be one similarity, as a state has one; got {iou_type!r}")
    return names[0]


def update(state: State, preds: Mapping[str, Array], targets: Mapping[str, Array], image_N: Array) -> State:
    """Match a padded batch and append the verdicts. All padding is discarded or ignored.

    Args:
        state: The state so far.
        preds: The columns `labels`, `scores`, `discarded`, and the shapes by key.
        targets: The columns `labels`, `ignore`, optionally `area`, and the shapes by key.
        image_N: The ids of the images.
    """
    preds, targets = dict(preds), dict(targets)
    geometry = geometry_of(state)
    num_given = preds["labels"].shape[0]
    if targets["labels"].shape[0] != num_given or tuple(image_N.shape) != (num_given,):
        sizes_given = f"{num_given}, {targets['labels'].shape[0]} and shape {tuple(image_N.shape)}"
        raise InputError(f"`preds`, `targets` and `image_ids` must have as many images; got {sizes_given}")
    num_images = size_of(preds["labels"], 0)
    if state.protocol.class_agnostic:  # as in COCO: ties between classes are broken by label
        preds, targets = _by_label(preds), _by_label(targets)

    # Invalid rows must not change the verdicts of others. Count them here; `compute` raises an error or warns.
    is_bad_ND, is_bad_NG = _find_invalid(preds, targets, state)
    is_dropped_ND = is_bad_ND if state.invalid == "drop" else is_bad_ND & False
    if geometry.find_invalid is not None:
        preds |= {key: _zeroed(preds[key], is_dropped_ND) for key in geometry.detection_keys if key in preds}
    preds["scores"] = _zeroed(preds["scores"], is_dropped_ND)
    preds["discarded"] = preds["discarded"] | is_dropped_ND
    is_truth_NG = targets["labels"] >= 0
    judged, counts_NGA = _judge(preds, targets, state)
    is_kept_ND = ~judged.discarded
    serial_N = state.num_images + arange(num_images, like=preds["labels"])
    num_wrong = _count(is_bad_ND & ~is_dropped_ND, state.num_wrong) + _count(is_bad_NG, state.num_wrong)
    found = {
        **_ids(image_N, serial_N, preds["labels"]),
        "score": preds["scores"],
        "rank": judged.rank,
        "true": judged.is_true,
        "false": judged.is_false,
    }
    truths = {**_ids(image_N, serial_N, targets["labels"]), "counts": counts_NGA}
    return replace(
        state,
        detections=_append(state.detections, found, is_kept_ND, "capacity"),
        truths=_append(state.truths, truths, is_truth_NG, "truth_capacity"),
        num_images=state.num_images + num_images,
        num_wrong=state.num_wrong + num_wrong,
        num_invalid=state.num_invalid + _count(is_dropped_ND, state.num_invalid),
    )


def columns_of_detections(preds: PaddedDetections) -> dict[str, Array]:
    """The columns of a padded batch as a dict. Raise `InputError` for coverage."""
    if preds.coverage is not None:
        rule = "`preds` must not have `coverage`, which is for federated protocols"
        raise InputError(f"{rule}, which need more than a batch has")
    return {name: column for name, column in preds._asdict().items() if column is not None}


def columns_of_truths(targets: PaddedTruths) -> dict[str, Array]:
    """The columns of a padded batch as a dict. Raise `InputError` for kinds."""
    if targets.kind is not None:
        rule = "`targets` must not have `kind`, which is for `boxscore.parallel.match_batch`"
        raise InputError(f"{rule}; `ignore` marks truths here")
    return {name: column for name, column in targets._asdict().items() if column is not None}


def _find_invalid(preds: Mapping[str, Array], targets: Mapping[str, Array], state: State) -> tuple[Array, Array]:
    """Whether each detection and each truth is invalid; padding is not. Shapes (N, D) and (N, G)."""
    xp, find_invalid = namespace(preds["labels"]), geometry_of(state).find_invalid
    is_bad_ND = ~xp.isfinite(_real(preds["scores"]))
    is_bad_NG = xp.zeros_like(targets["labels"]) > 0
    if "area" in targets:
        is_bad_NG = ~((targets["area"] >= 0) & xp.isfinite(_real(targets["area"])))
    if find_invalid is not None:
        is_bad_ND = is_bad_ND | find_invalid(preds, state.box_format, is_truth=False)
        is_bad_NG = is_bad_NG | find_invalid(targets, state.box_format, is_truth=True)
    return is_bad_ND & ~preds["discarded"], is_bad_NG & (targets["labels"] >= 0)


def _zeroed(column: Array, is_dropped_ND: Array) -> Array:
    """The column with zeros in the dropped rows."""
    xp = namespace(column)
    index = (slice(None), slice(None), *(None for _ in column.shape[2:]))
    return xp.where(is_dropped_ND[index], xp.zeros_like(column), column)


def _judge(preds: Mapping[str, Array], targets: Mapping[str, Array], state: State) -> tuple[Judged, Array]:
    """Match the batch: its verdicts, and the area ranges in which each truth counts. The latter has shape (N, G, A)."""
    protocol, geometry = state.protocol, geometry_of(state)
    found, truths = geometry.measure(preds, targets, state.box_format, protocol)
    kind_NG = ignored_kinds(targets["ignore"], protocol)
    if truths.is_blank is not None:
        xp = namespace(kind_NG)
        is_blank_NG = truths.is_blank & (kind_NG == REGULAR)
        kind_NG = xp.where(is_blank_NG, xp.zeros_like(kind_NG) + DIFFICULT, kind_NG)
    judged = judge(
        DetectionBatch(found.columns, found.area, preds["labels"], preds["scores"], preds["discarded"]),
        TruthBatch(truths.columns, truths.area, targets["labels"], kind_NG),
        protocol,
        geometry.pairwise,
    )
    return judged, which_count(truths.area, kind_NG, protocol)


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
        raise InputError(f"{geometry_of(state).rule}; got {text.count(wrong, 'row')} that had not")


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


def _by_label(batch: Mapping[str, Array]) -> dict[str, Array]:
    """Sort the rows of each image by label; ties keep their order."""
    xp = namespace(batch["labels"])
    order_ND = xp.argsort(batch["labels"], axis=1, stable=True)
    num_images, num_rows = (size_of(order_ND, axis) for axis in (0, 1))
    row_P = xp.reshape(order_ND + arange(num_images, like=order_ND)[:, None] * num_rows, (-1,))

    def sort(column: Array) -> Array:
        if len(column.shape) == 2:
            return along_rows(column, order_ND)
        sorted_rows = rows_at(xp.reshape(column, (-1, *column.shape[2:])), row_P)
        return xp.reshape(sorted_rows, (num_images, num_rows, *column.shape[2:]))

    return {name: sort(column) for name, column in batch.items()}


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
