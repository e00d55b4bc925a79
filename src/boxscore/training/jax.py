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
from boxscore.data.batch_keys import PADDED_DETECTION_KEYS, TRUTH_KEYS
from boxscore.data.batches import PaddedBatch, in_argument
from boxscore.data.dataset import ClassNames, Invalid
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.image_ids import read_image_ids
from boxscore.engines.parallel.loading import PaddedDetections, PaddedTruths
from boxscore.protocol.protocol import ProtocolLike
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
        protocol: The rules; they must compare boxes, and need only the verdicts of each batch.
        truth_capacity: The largest number of truths; by default `capacity`.
        box_format: "xyxy", "xywh" or "cxcywh".
        class_names: The names of classes, as in `Truths`.
        num_classes: The number of classes, whose labels are 0, 1, …; `numbers` needs it or `class_names`.
        invalid: The treatment of a detection with a NaN, an infinity, or a size that is negative or too large. With
            "drop" it changes no number, takes no capacity, and is counted: `compute` warns, and the result is not
            `comparable`. With "error" `compute` raises `InputError`, as it always does for truths.

    Raises:
        InputError: If the protocol compares other shapes (`iou_type`), or has a rule that compiled steps can't follow.

    >>> init(1000, "voc2012")
    State(voc2012, room for 1000 detections and 1000 truths)
    """
    options = Options(capacity, protocol, truth_capacity, box_format, class_names, num_classes, invalid)
    return static_state.init(options, jnp.zeros(()))


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

    >>> state = init(10, "voc2012")
    >>> preds = {"boxes": jnp.array([[[0, 0, 9, 9]]]), "labels": jnp.array([[1]]), "scores": jnp.array([[0.9]])}
    >>> targets = {"boxes": jnp.array([[[0, 0, 9, 8]]]), "labels": jnp.array([[1]])}
    >>> compute(jax.jit(update)(state, preds, targets, jnp.array([7])))["map"]
    1.0
    """
    _check_state("state", state)
    return static_state.update(state, _detections(preds), _truths(targets), _image_ids(image_ids))


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
