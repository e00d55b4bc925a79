"""mAP inside a compiled JAX loop: `init`, `update`, `merge`, `numbers`, `compute`, on a state of fixed size.

`update` can be jitted and scanned like any other step: it matches a padded batch and appends the verdicts to the state.
`compute` copies them to the host and finishes as `boxscore.evaluate` does; with x64 enabled the result has the same
bits. `training.static_state` has the steps; this module reads the arguments.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.data.batches import PaddedBatch, in_argument
from boxscore.data.dataset import ClassNames, Invalid
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.image_ids import read_image_ids
from boxscore.engines.parallel.loading import PaddedDetections, PaddedTruths
from boxscore.protocol.protocol import IouType, ProtocolLike
from boxscore.result.result import Result
from boxscore.training import static_state
from boxscore.training.static_state import ARRAYS, Options, Rows, State

__all__ = ["State", "compute", "init", "merge", "numbers", "update"]

jax.tree_util.register_dataclass(Rows, [field.name for field in fields(Rows)], [])
jax.tree_util.register_dataclass(State, list(ARRAYS), list(State.static))


def init(
    capacity: int = 100_000,
    protocol: ProtocolLike = "coco",
    *,
    iou_type: IouType | None = None,
    truth_capacity: int | None = None,
    box_format: BoxFormat = "xyxy",
    class_names: ClassNames | None = None,
    num_classes: int | None = None,
    invalid: Invalid = "drop",
) -> State:
    """Make a state without images, with capacity for `capacity` detections and `truth_capacity` truths.

    Padding and discarded rows take no capacity. A detection takes 36 bytes under COCO and 28 under VOC; with x64
    enabled, 56 and 48.

    Args:
        capacity: The largest number of detections of all updates.
        protocol: The rules; they must need only the verdicts of each batch.
        iou_type: "bbox", "segm" or "keypoints"; by default the protocol's. A state has one similarity.
        truth_capacity: The largest number of truths; by default `capacity`.
        box_format: "xyxy", "xywh" or "cxcywh".
        class_names: The names of classes, as in `Truths`.
        num_classes: The number of classes, whose labels are 0, 1, …; `numbers` needs it or `class_names`.
        invalid: The treatment of a detection with a NaN, an infinity, or a size that is negative or too large. With
            "drop" it changes no number, takes no capacity, and is counted: `compute` warns, and the result is not
            `comparable`. With "error" `compute` raises `InputError`, as it always does for truths.

    Raises:
        InputError: If compiled steps can't compute the similarity (`iou_type`), or can't follow a rule of the protocol.

    >>> init(1000, "voc2012")
    State(voc2012, room for 1000 detections and 1000 truths)
    """
    options = Options(capacity, protocol, truth_capacity, box_format, class_names, num_classes, invalid, iou_type)
    return static_state.init(options, jnp.zeros(()))


def update(state: State, preds: Any, targets: Any, image_ids: Any) -> State:
    """Match a padded batch and append the verdicts. Can be jitted, best with `donate_argnums=0`, and scanned.

    Rows with a label below 0 are padding.

    For "segm" both sides have `masks` instead of `boxes`: booleans or bytes of one height and width, (N, D, H, W) and
    (N, G, H, W). Areas of truths are numbers of pixels unless `area` is given.

    For "keypoints" both sides have `keypoints` instead of `boxes`: (N, D, K, 2) or (N, D, K, 3), and for truths
    (N, G, K, 3) with visibilities, or (N, G, K, 2) and optionally `visibility` (N, G, K). Truths may have `area` or
    `boxes` (N, G, 4), from which areas are derived as in `evaluate`; without labelled points they are ignored.

    Args:
        state: The state so far.
        preds: A dict with `boxes` (N, D, 4), `labels` (N, D), `scores` (N, D) and optionally `discarded` (N, D), or
            `boxscore.parallel.PaddedDetections`.
        targets: A dict with `boxes` (N, G, 4), `labels` (N, G) and optionally `area` (N, G) and any of `ignore`,
            `iscrowd` and `difficult` (N, G), or `PaddedTruths`.
        image_ids: Distinct integers; an image that is all padding may have any. Shape (N,).

    Returns:
        The new state.

    >>> state = init(10, "voc2012")
    >>> preds = {"boxes": jnp.array([[[0, 0, 9, 9]]]), "labels": jnp.array([[1]]), "scores": jnp.array([[0.9]])}
    >>> targets = {"boxes": jnp.array([[[0, 0, 9, 8]]]), "labels": jnp.array([[1]])}
    >>> compute(jax.jit(update)(state, preds, targets, jnp.array([7])))["map"]
    1.0
    """
    _check_state("state", state)
    return static_state.update(state, _detections(preds, state), _truths(targets, state), _image_ids(image_ids))


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
    return static_state.merge(state, other)


def numbers(state: State) -> dict[str, jax.Array]:
    """Compute the numbers of the protocol inside a compiled step, without the host. Can be jitted.

    With x64 enabled they have the bits of `compute`, without it they are within 1e-6. All are NaN if rows did not fit
    or were invalid, or if a truth has another label than `init` was told.

    Args:
        state: The state; `init` was given `class_names` or `num_classes`.

    Returns:
        The numbers by name. Shape () each; NaN: undefined.

    Raises:
        InputError: If the protocol has a rule that needs a loop over rows, or the classes are not known.

    >>> state = init(10, "voc2012", num_classes=2)
    >>> {name: float(value) for name, value in jax.jit(numbers)(state).items()}
    {'map': nan, 'mar': nan}
    """
    _check_state("state", state)
    return static_state.numbers(state)


def compute(state: State) -> Result:
    """Compute the result of all updates, on the host.

    Args:
        state: The state after all updates.

    Raises:
        InputError: If rows did not fit, if invalid rows were not dropped, or if two images have the same id.
    """
    _check_state("state", state)
    return static_state.compute(jax.device_get(state), "init")


def _check_state(name: str, state: Any) -> None:
    if not isinstance(state, State):
        raise InputError(f"`{name}` must be a boxscore.jax.State; got {type(state).__name__}")


def _dtype(name: str) -> Any:
    """The dtype, or its 32-bit counterpart without x64."""
    return jax.dtypes.canonicalize_dtype(name)


def _detections(preds: Any, state: State) -> dict[str, jax.Array]:
    """Read the batch in `preds`, and mark all padding as discarded."""
    if isinstance(preds, PaddedDetections):
        preds = static_state.columns_of_detections(preds)
    columns = _columns("preds", preds, state)
    is_padding_ND = columns["labels"] < 0
    columns["discarded"] = columns.get("discarded", is_padding_ND) | is_padding_ND
    return columns


def _truths(targets: Any, state: State) -> dict[str, jax.Array]:
    """Read the batch in `targets`, and mark all padding as ignored. It has no ids: they come as `image_ids`."""
    if isinstance(targets, PaddedTruths):
        targets = static_state.columns_of_truths(targets)
    columns = _columns("targets", targets, state)
    is_padding_NG = columns["labels"] < 0
    columns["ignore"] = columns.get("ignore", is_padding_NG) | is_padding_NG
    return columns


def _columns(argument: str, batch: Any, state: State) -> dict[str, jax.Array]:
    read = PaddedBatch.from_dict(argument, batch, static_state.layout_of(state, argument).keys)
    return {name: jnp.asarray(column) for name, column in in_argument(argument, read.columns).items()}


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
