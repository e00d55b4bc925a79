"""Data loading (Alg. 4): truths of a mini-batch in arrays of one length, with a mask.

Dimensions: N images, G truths of the image that has most.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from boxscore._support.arrays import Array, constant, convert, int_dtype, is_array, library, namespace
from boxscore._support.checks import as_array, as_flags, as_id, is_kind, shape_of
from boxscore._support.exceptions import InputError
from boxscore.model.batch_keys import FLAGS, TRUTH_KEYS
from boxscore.model.batches import any_of


class PaddedTruths(NamedTuple):
    """The truths of a mini-batch. A dummy has label -1, which no detection has, and is ignored."""

    box: Array
    """Shape (N, G, 4)."""
    label: Array
    """Shape (N, G)."""
    ignore: Array
    """The paper's mask: True for dummies and for difficult truths or crowds. Shape (N, G)."""
    area: Array | None = None
    """Areas that decide the size class, if they differ from the boxes'. Shape (N, G)."""
    kind: Array | None = None
    """The kinds of `Truths.kind`; if given, these decide instead of `ignore`. Shape (N, G)."""


class PaddedDetections(NamedTuple):
    """The detections of a mini-batch."""

    box: Array
    """Shape (N, D, 4)."""
    label: Array
    """Shape (N, D)."""
    score: Array
    """Shape (N, D)."""
    discarded: Array
    """True for detections that post-processing discarded, and for padding. Shape (N, D)."""
    coverage: Array | None = None
    """0 counts; 1 is ignored if it takes no truth, as its class was not annotated exhaustively in its image; 2 is left
    out, as nobody looked for its class there. None: all count. Shape (N, D)."""


def pad_truths(
    boxes: Sequence[Array],
    labels: Sequence[Array],
    ignores: Sequence[Array] | None = None,
    *,
    num_truths: int | None = None,
) -> PaddedTruths:
    """Truths of one image each, padded to `num_truths`, by default to the longest (Alg. 4).

    The paper gives a dummy label 0 and a box of zeros, which in inclusive pixels still covers one; label -1 keeps it
    from ever meeting a detection. Shapes: lists of (G, 4), (G,) and (G,).

    >>> import numpy as np
    >>> padded = pad_truths([np.ones((2, 4)), np.ones((1, 4))], [np.array([3, 5]), np.array([3])])
    >>> padded.label.tolist(), padded.ignore.tolist()
    ([[3, 5], [3, -1]], [[False, False], [False, True]])
    """
    if not boxes:
        raise InputError("`boxes` must have at least one image; got none")
    for name, lists in (("labels", labels), ("ignores", ignores)):
        if lists is not None and len(lists) != len(boxes):
            raise InputError(f"`{name}` must have {len(boxes)} images, as `boxes` has; got {len(lists)}")
    longest = max(int(label.shape[0]) for label in labels)
    length = longest if num_truths is None else num_truths
    if longest > length:
        raise InputError(f"`num_truths` must be at least {longest}, the most truths of an image; got {num_truths}")

    xp = namespace(*boxes, *labels)
    labels = [xp.astype(label, int_dtype(label)) for label in labels]
    if ignores is None:
        ignores = [xp.zeros_like(label, dtype=xp.bool) for label in labels]
    return PaddedTruths(
        box=xp.stack([_pad(box, length, fill=0) for box in boxes], axis=0),
        label=xp.stack([_pad(label, length, fill=-1) for label in labels], axis=0),
        ignore=xp.stack([_pad(ignore, length, fill=True) for ignore in ignores], axis=0),
    )


def collate_truths(samples: Sequence[tuple[Any, Mapping[str, Any]]]) -> tuple[Any, dict[str, Array]]:
    """The images of samples, and their truths as one padded batch (Alg. 4): the `collate_fn` of a loader.

    A sample is an image and its target, a dict with `boxes` (G, 4), `labels` (G,) and, if you like, any of `ignore`,
    `iscrowd` and `difficult` (G,), `area` (G,) and `image_id`. Images of one shape are stacked, others stay a list. The
    batch has `boxes` (N, G, 4), `labels` (N, G), -1 for dummies, `ignore` (N, G), and `area` and `image_id` if the
    targets have them, as `MeanAveragePrecision.update` takes it. Other keys are left out.

    >>> import numpy as np
    >>> one = {"boxes": np.ones((1, 4)), "labels": np.array([7]), "image_id": 3}
    >>> two = {"boxes": np.ones((2, 4)), "labels": np.array([7, 8]), "image_id": 5}
    >>> images, targets = collate_truths([(np.zeros((3, 8, 8)), one), (np.zeros((3, 8, 8)), two)])
    >>> images.shape, targets["labels"].tolist(), targets["image_id"].tolist()
    ((2, 3, 8, 8), [[7, -1], [7, 8]], [3, 5])
    """
    if not samples:
        raise InputError("`samples` must have at least one image; got none")
    targets = [_target(index, sample) for index, sample in enumerate(samples)]
    for index, target in enumerate(targets):
        for key in ("area", "image_id"):
            if (key in target) != (key in targets[0]):
                raise InputError(f"samples[{index}]: {key!r} must be in the targets of all samples, or of none")
    targets = _alike(targets)
    padded = pad_truths(*([target[key] for target in targets] for key in ("boxes", "labels", "ignore")))
    batch = {"boxes": padded.box, "labels": padded.label, "ignore": padded.ignore}
    xp = namespace(padded.label)
    if "area" in targets[0]:
        length = int(padded.label.shape[1])
        batch["area"] = xp.stack([_pad(target["area"], length, fill=0) for target in targets], axis=0)
    if "image_id" in targets[0]:
        ids = [target["image_id"] for target in targets]
        batch["image_id"] = constant(ids, like=padded.label, dtype=int_dtype(padded.label))
    images = [image for image, _ in samples]
    if all(is_array(image) and image.shape == images[0].shape and image.dtype == images[0].dtype for image in images):
        return namespace(*images).stack(images, axis=0), batch
    return images, batch


def _target(index: int, sample: Any) -> dict[str, Any]:
    """The target of a sample with one name for each thing, checked."""
    try:
        return _checked_target(sample)
    except InputError as error:
        raise InputError(f"samples[{index}]: {error}") from None


def _checked_target(sample: Any) -> dict[str, Any]:
    if not isinstance(sample, Sequence) or len(sample) != 2 or not isinstance(sample[1], Mapping):
        raise InputError(f"a sample must be an image and its target, a dict; got {type(sample).__name__}")
    target = sample[1]
    TRUTH_KEYS.check(target, "the target")
    given = {key: as_array(key, target[key]) for key in ("boxes", "labels", "area", *FLAGS) if key in target}
    label, size = given["labels"], shape_of(given["labels"])
    xp = namespace(label)
    if len(size) != 1:
        raise InputError(f"`labels` must have one dimension; got shape {size}")
    if size == (0,) and shape_of(given["boxes"]) == (0,):
        given["boxes"] = xp.reshape(given["boxes"], (0, 4))
    for key, column in given.items():
        expected = (*size, 4) if key == "boxes" else size
        if shape_of(column) != expected:
            raise InputError(f"`{key}` must have shape {expected} for {size[0]} labels; got {shape_of(column)}")
    if size[0] and not is_kind(label, "integral"):
        raise InputError(f"`labels` must hold integers; got {label.dtype}")
    if size[0] and int(xp.min(label)) < 0:
        raise InputError(f"`labels` must not be negative, as dummies are; got {int(xp.min(label))}")
    flags = [as_flags(key, given.pop(key)) for key in FLAGS if key in given]
    ignore = any_of(flags, size) if flags else xp.zeros_like(label, dtype=xp.bool)
    return {**given, "ignore": ignore} | ({"image_id": as_id(target["image_id"])} if "image_id" in target else {})


def _alike(targets: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The targets with each column in one library: lists go to that of the others; what is empty has their dtype."""
    keys = [key for key in targets[0] if key != "image_id"]
    given = [target[key] for target in targets for key in keys]
    framework = library(*given)
    home = next(column for column in given if library(column) == framework)
    xp = namespace(home)
    alike = [dict(target) for target in targets]
    for key in keys:
        columns = [convert(target[key], like=home) for target in targets]
        dtype = next((column.dtype for column in columns if column.shape[0]), columns[0].dtype)
        for target, column in zip(alike, columns, strict=True):
            target[key] = column if column.shape[0] else xp.astype(column, dtype)
    return alike


def _pad(values: Array, length: int, *, fill: int) -> Array:
    xp = namespace(values)
    shape = (length - int(values.shape[0]), *values.shape[1:])
    padding = xp.broadcast_to(constant(fill, like=values, dtype=values.dtype), shape)
    return xp.concat([values, padding], axis=0)
