"""mAP inside a compiled PyTorch step: `init`, `update`, `merge`, `numbers`, `compute`, on a state of fixed size.

`update` matches a padded batch on its device and appends the verdicts to the state: one graph under
`torch.compile(fullgraph=True)`, without copies from the host and without reads. `compute` copies the state to the host
and finishes as `boxscore.evaluate` does, with the same bits. `training.static_state` has the steps; this module reads
the arguments.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree

from boxscore._support.exceptions import InputError
from boxscore.data.batches import PaddedBatch, fits_row, in_argument, shape_text
from boxscore.data.dataset import ClassNames, Invalid
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.image_ids import read_image_ids
from boxscore.data.validation import as_flags
from boxscore.engines.parallel.loading import PaddedDetections, PaddedTruths
from boxscore.protocol.protocol import IouType, ProtocolLike
from boxscore.result.result import Result
from boxscore.training import static_state
from boxscore.training.static_state import ARRAYS, Options, Rows, State

__all__ = ["State", "compute", "init", "merge", "numbers", "update"]


def _register(kind: type, arrays: tuple[str, ...], static: tuple[str, ...]) -> None:
    """Make a dataclass a pytree, so that `torch.export` and `torch.utils.data` see its tensors."""

    def flatten(value: Any) -> tuple[list[Any], tuple[Any, ...]]:
        return [getattr(value, name) for name in arrays], tuple(getattr(value, name) for name in static)

    def flatten_with_keys(value: Any) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        return [(_pytree.GetAttrKey(name), getattr(value, name)) for name in arrays], flatten(value)[1]

    def unflatten(values: Any, context: tuple[Any, ...]) -> Any:
        return kind(**dict(zip(arrays, values, strict=True)), **dict(zip(static, context, strict=True)))

    _pytree.register_pytree_node(kind, flatten, unflatten, flatten_with_keys_fn=flatten_with_keys)


_register(Rows, ("columns", "num", "num_lost"), ())
_register(State, ARRAYS, State.static)


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
    device: "torch.device | str | None" = None,
) -> State:
    """Make a state without images, with capacity for `capacity` detections and `truth_capacity` truths.

    Padding and discarded rows take no capacity. A detection takes 56 bytes under COCO and 48 under VOC; on Apple's MPS
    4 less.

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
        device: The device of the state and of all batches; by default PyTorch's.

    Raises:
        InputError: If compiled steps can't compute the similarity (`iou_type`), or can't follow a rule of the protocol.

    >>> init(1000, "voc2012")
    State(voc2012, room for 1000 detections and 1000 truths)
    """
    options = Options(capacity, protocol, truth_capacity, box_format, class_names, num_classes, invalid, iou_type)
    return static_state.init(options, torch.zeros((), device=device))


def update(state: State, preds: Any, targets: Any, image_ids: Any) -> State:
    """Match a padded batch and append the verdicts. Can be compiled with `fullgraph=True`, and exported.

    Rows with a label below 0 are padding.

    For "segm" both sides have `masks` instead of `boxes`: booleans or bytes of one height and width, (N, D, H, W) and
    (N, G, H, W). Areas of truths are numbers of pixels unless `area` is given.

    For "keypoints" both sides have `keypoints` instead of `boxes`: (N, D, K, 2) or (N, D, K, 3), and for truths
    (N, G, K, 3) with visibilities, or (N, G, K, 2) and optionally `visibility` (N, G, K). Truths may have `area` or
    `boxes` (N, G, 4), from which areas are derived as in `evaluate`; without labelled points they are ignored.

    Args:
        state: The state so far. It is not changed.
        preds: A dict with `boxes` (N, D, 4), `labels` (N, D), `scores` (N, D) and optionally `discarded` (N, D), or
            `boxscore.parallel.PaddedDetections`; tensors on the device of the state.
        targets: A dict with `boxes` (N, G, 4), `labels` (N, G) and optionally `area` (N, G) and any of `ignore`,
            `iscrowd` and `difficult` (N, G), or `PaddedTruths`.
        image_ids: Distinct integers; an image that is all padding may have any. Shape (N,).

    Returns:
        The new state.

    >>> state = init(10, "voc2012")
    >>> label = torch.tensor([[1]])
    >>> preds = {"boxes": torch.tensor([[[0, 0, 9, 9]]]), "labels": label, "scores": torch.tensor([[0.9]])}
    >>> targets = {"boxes": torch.tensor([[[0, 0, 9, 8]]]), "labels": label}
    >>> compute(update(state, preds, targets, torch.tensor([7])))["map"]
    1.0
    """
    _check_state("state", state)
    with torch.no_grad():
        return static_state.update(
            state, _detections(preds, state), _truths(targets, state), _image_ids(image_ids, state)
        )


def merge(state: State, other: State) -> State:
    """Concatenate the states of two devices or processes; the capacities add up. Can be compiled.

    Args:
        state: The state whose rows come first.
        other: A state of other images on the same device; protocol, box format, classes and `invalid` must be equal.

    Returns:
        The new state.
    """
    _check_state("state", state)
    _check_state("other", other)
    return static_state.merge(state, other)


def numbers(state: State) -> dict[str, torch.Tensor]:
    """Compute the numbers of the protocol on the device of the state, without the host. Can be compiled.

    In double precision they have the bits of `compute`, on Apple's MPS they are within 1e-6. All are NaN if rows did
    not fit or were invalid, or if a truth has another label than `init` was told.

    Args:
        state: The state; `init` was given `class_names` or `num_classes`.

    Returns:
        The numbers by name. Shape () each; NaN: undefined.

    Raises:
        InputError: If the protocol has a rule that needs a loop over rows, or the classes are not known.

    >>> {name: value.item() for name, value in numbers(init(10, "voc2012", num_classes=2)).items()}
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
    return static_state.compute(state, "init")


def _check_state(name: str, state: Any) -> None:
    if not isinstance(state, State):
        raise InputError(f"`{name}` must be a boxscore.torch.State; got {type(state).__name__}")


def _detections(preds: Any, state: State) -> dict[str, torch.Tensor]:
    """Read the batch in `preds`, and mark all padding as discarded."""
    if isinstance(preds, PaddedDetections):
        preds = static_state.columns_of_detections(preds)
    columns = _columns("preds", preds, state)
    is_padding_ND = columns["labels"] < 0
    columns["discarded"] = columns.get("discarded", is_padding_ND) | is_padding_ND
    return columns


def _truths(targets: Any, state: State) -> dict[str, torch.Tensor]:
    """Read the batch in `targets`, and mark all padding as ignored. It has no ids: they come as `image_ids`."""
    if isinstance(targets, PaddedTruths):
        targets = static_state.columns_of_truths(targets)
    columns = _columns("targets", targets, state)
    is_padding_NG = columns["labels"] < 0
    columns["ignore"] = columns.get("ignore", is_padding_NG) | is_padding_NG
    return columns


def _columns(argument: str, batch: Any, state: State) -> dict[str, torch.Tensor]:
    """The columns of a padded batch. Tensors that a compiler traces have no memory that could be validated."""
    keys, row_shapes = static_state.layout_of(state, argument)
    if not torch.compiler.is_compiling():
        read = PaddedBatch.from_dict(argument, batch, keys)
        return dict(in_argument(argument, read.columns))
    if not isinstance(batch, Mapping):
        raise InputError(f"`{argument}` must be a dict of padded arrays; got {type(batch).__name__}")
    for key in keys.required:
        if key not in batch:
            raise InputError(f"`{argument}` must have the key {key!r}; got {sorted(map(str, batch))}")
    columns: dict[str, torch.Tensor] = {}
    shape = tuple(batch["labels"].shape)
    for key, value in batch.items():
        if key not in keys.required and key not in keys.optional:
            raise InputError(f"`{argument}` must have no keys but {', '.join(keys.all)}; got {key!r}")
        row_shape = row_shapes.get(key, ())
        if key == "masks" and len(value.shape) == 5 and value.shape[2] == 1:  # as in Mask R-CNN
            value = value[:, :, 0]
        if tuple(value.shape[:2]) != shape or not fits_row(value.shape[2:], row_shape):
            wanted = f"({shape[0]}, {shape[1]}, H, W)" if key == "masks" else shape_text((*shape, *row_shape))
            rule = f"`{argument}`: `{key}` must have shape {wanted}, to go with `labels`"
            raise InputError(f"{rule}; got {tuple(value.shape)}")
        name = keys.required.get(key) or keys.optional[key]
        if name in ("ignore", "discarded"):
            value = as_flags(key, value, is_traced=True)
        columns[name] = columns[name] | value if name in columns else value
    if columns["labels"].dtype.is_floating_point:
        raise InputError(f"`{argument}`: `labels` must hold integers; got {columns['labels'].dtype}")
    return columns


def _image_ids(image_ids: Any, state: State) -> torch.Tensor:
    if not isinstance(image_ids, torch.Tensor):
        image_ids = torch.tensor(read_image_ids(image_ids).numbers, device=state.num_images.device)
    if image_ids.dtype.is_floating_point or image_ids.dtype == torch.bool:
        raise InputError(f"`image_ids` must be integers; got {image_ids.dtype}")
    return image_ids
