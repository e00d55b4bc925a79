"""Data loading (Alg. 4): truths of a mini-batch in arrays of one length, with a mask.

Dimensions: N images, G truths of the image with the most truths.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.arrays import Array, constant, convert, int_dtype, is_array, library, namespace, to_numpy
from boxscore.data.batch_keys import TRUTH_KEYS, Keys
from boxscore.data.batches import in_argument, masks_of_images, pad_rows, read_images
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.image_ids import image_ids_of
from boxscore.data.validation import as_flags, check_rows
from boxscore.protocol.protocol import IouType


class PaddedTruths(NamedTuple):
    """The truths of a mini-batch. A dummy has label -1, which no detection has, and is ignored."""

    boxes: Array
    """Shape (N, G, 4)."""
    labels: Array
    """Shape (N, G)."""
    ignore: Array
    """The paper's mask: True for dummies and for difficult truths or crowds. Shape (N, G)."""
    area: Array | None = None
    """Areas that decide the area range, if they differ from the areas of the boxes. Shape (N, G)."""
    kind: Array | None = None
    """Kinds, as in `Truths.kind`; if given, they replace `ignore`. Shape (N, G)."""


class PaddedDetections(NamedTuple):
    """The detections of a mini-batch."""

    boxes: Array
    """Shape (N, D, 4)."""
    labels: Array
    """Shape (N, D)."""
    scores: Array
    """Shape (N, D)."""
    discarded: Array
    """True for detections that post-processing discarded, and for padding. Shape (N, D)."""
    coverage: Array | None = None
    """0: counts. 1: ignored if unmatched, because its class was not annotated exhaustively in its image. 2: excluded,
    because its class was not verified in its image. None: all count. Shape (N, D).
    """


def pad_truths(
    boxes: Sequence[Array],
    labels: Sequence[Array],
    ignores: Sequence[Array] | None = None,
    *,
    num_truths: int | None = None,
) -> PaddedTruths:
    """Pad the truths of each image to one length (Alg. 4).

    The paper gives a dummy label 0 and a box of zeros, which in inclusive pixels still covers one pixel; here its label
    is -1, so that it never matches a detection.

    Args:
        boxes: Boxes of each image. Shape (G, 4) each.
        labels: Labels of each image. Shape (G,) each.
        ignores: Ignored truths of each image. Shape (G,) each.
        num_truths: The length; default: the largest number of truths of an image.

    >>> import numpy as np
    >>> padded = pad_truths([np.ones((2, 4)), np.ones((1, 4))], [np.array([3, 5]), np.array([3])])
    >>> padded.labels.tolist(), padded.ignore.tolist()
    ([[3, 5], [3, -1]], [[False, False], [False, True]])
    """
    if not boxes:
        raise InputError("`boxes` must have at least one image; got none")
    for name, lists in (("labels", labels), ("ignores", ignores)):
        if lists is not None and len(lists) != len(boxes):
            raise InputError(f"`{name}` must have {len(boxes)} images, as `boxes` has; got {len(lists)}")
    num_rows = [int(label.shape[0]) for label in labels]
    length = _length_of(num_rows, num_truths)
    xp = namespace(*boxes, *labels)
    columns = {"boxes": xp.concat(list(boxes), axis=0), "labels": xp.concat(list(labels), axis=0)}
    if ignores is not None:
        columns["ignore"] = xp.concat(list(ignores), axis=0)
    return _padded(columns, num_rows, length)


def _length_of(num_rows: Sequence[int], num_truths: Any) -> int:
    """The length to pad images to: `num_truths`, or the largest number of truths of an image."""
    longest = max(num_rows)
    if num_truths is None:
        return longest
    if isinstance(num_truths, bool) or not isinstance(num_truths, int | np.integer):
        raise InputError(f"`num_truths` must be an integer; got {num_truths!r}")
    if longest > num_truths:
        raise InputError(f"`num_truths` must be at least {longest}, the most truths of an image; got {num_truths}")
    return int(num_truths)


def _padded(columns: Mapping[str, Array], num_rows: Sequence[int], length: int) -> PaddedTruths:
    """Pad all columns; without boxes, `boxes` is None."""
    xp = namespace(columns["labels"])
    label = xp.astype(columns["labels"], int_dtype(columns["labels"]))
    ignore = columns["ignore"] if "ignore" in columns else xp.zeros_like(label, dtype=xp.bool)
    return PaddedTruths(
        boxes=pad_rows(columns["boxes"], num_rows, length, fill=0) if "boxes" in columns else None,
        labels=pad_rows(label, num_rows, length, fill=-1),
        ignore=pad_rows(ignore, num_rows, length, fill=True),
        area=pad_rows(columns["area"], num_rows, length, fill=0) if "area" in columns else None,
    )


def collate_truths(
    samples: Sequence[Any],
    iou_type: IouType | Sequence[IouType] = "bbox",
    box_format: BoxFormat = "xyxy",
    *,
    num_truths: int | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Collate samples into images and one padded batch of truths (Alg. 4): the `collate_fn` of a loader.

    With `num_truths`, by `functools.partial`, all batches have one shape, so that a compiler compiles a step once.

    Args:
        samples: Pairs of an image and its target, a dict with `boxes` (G, 4), `labels` (G,) and optionally any of
            `ignore`, `iscrowd` and `difficult` (G,), `area` (G,) and `image_id`. Other keys are dropped.
        iou_type: With "segm" targets have `masks` (G, H, W) instead of `boxes`, with ("bbox", "segm") both; with
            other similarities they have the keys of its geometry.
        box_format: Only matters if boxes are oriented, (G, 5) or (G, 8).
        num_truths: The number of truths G to pad each image to; default: the most truths of an image in the batch.

    Returns:
        The images, stacked if they have one shape, else as a list; and the batch, as `MeanAveragePrecision.update`
        takes it: `boxes` (N, G, 4), `labels` (N, G), -1 for dummies, `ignore` (N, G), and `area` and `image_id` if the
        targets have them. Ids that are names stay a list. `masks` are (N, G, H, W), smaller ones padded to the right
        and below with pixels that are off; other shapes are (N, G, …).

    >>> import numpy as np
    >>> one = {"boxes": np.ones((1, 4)), "labels": np.array([7]), "image_id": 3}
    >>> two = {"boxes": np.ones((2, 4)), "labels": np.array([7, 8]), "image_id": 5}
    >>> images, targets = collate_truths([(np.zeros((3, 8, 8)), one), (np.zeros((3, 8, 8)), two)])
    >>> images.shape, targets["labels"].tolist(), targets["image_id"].tolist()
    ((2, 3, 8, 8), [[7, -1], [7, 8]], [3, 5])
    """
    if not samples:
        raise InputError("`samples` must have at least one image; got none")
    for index, sample in enumerate(samples):
        if not isinstance(sample, Sequence) or len(sample) != 2 or not isinstance(sample[1], Mapping):
            rule = "must be an image and its target, a dict"
            raise InputError(f"samples[{index}] {rule}; got {type(sample).__name__}")
    images, targets = (list(part) for part in zip(*samples, strict=True))
    keys = TRUTH_KEYS.of_shapes(iou_type, box_format)
    length = _length_of([0], num_truths)
    padded, shapes = in_argument("samples", _pad_targets, targets, keys, length)
    _length_of([padded.labels.shape[1]], num_truths)  # an error if an image has more
    columns = {
        "boxes": padded.boxes,
        **shapes,
        "labels": padded.labels,
        "ignore": padded.ignore,
        "area": padded.area,
    }
    batch = {key: column for key, column in columns.items() if column is not None}
    if any("image_id" in target for target in targets):
        ids = in_argument("samples", image_ids_of, targets, "as other samples do")
        names = [ids.names.get(number, number) for number in ids.numbers]
        int64 = int_dtype(padded.labels)
        batch["image_id"] = names if ids.names else constant(ids.numbers, like=padded.labels, dtype=int64)
    if all(is_array(image) and image.shape == images[0].shape and image.dtype == images[0].dtype for image in images):
        return namespace(*images).stack(images, axis=0), batch
    return images, batch


def _pad_targets(targets: Sequence[Mapping[str, Any]], keys: Keys, least: int) -> tuple[PaddedTruths, dict[str, Array]]:
    """The padded columns, and by key the shapes other than boxes, masks as pixels.

    The length is the largest number of truths of an image, or `least` if that is more.
    """
    has_masks = "masks" in keys.required
    required = {key: name for key, name in keys.required.items() if key != "masks"}
    read = read_images(targets, keys._replace(required=required, others=(*keys.others, "masks")))
    framework = library(*read.columns.values())
    home = next(column for column in read.columns.values() if library(column) == framework)
    columns = {name: convert(column, like=home) for name, column in read.columns.items()}
    with read.named_rows():
        check_rows("labels", columns["labels"] >= 0, "must not be negative, as dummies are", columns["labels"])
        if "ignore" in columns:
            columns["ignore"] = as_flags("ignore", columns["ignore"])
    length = max(least, *read.num_rows)
    shapes: dict[str, Array] = {
        name: pad_rows(columns.pop(name), read.num_rows, length, 0)
        for name in [*columns]
        if name not in PaddedTruths._fields
    }
    padded = _padded(columns, read.num_rows, length)
    if not has_masks:
        return padded, shapes
    given = masks_of_images(targets, "masks", read.num_rows)
    pixels = [list(_pixels_of(masks)) for masks in given]
    sizes = [each.shape for image in pixels for each in image] + [each.shape[1:] for each in given if is_array(each)]
    both = np.zeros((len(targets), length, *np.max([(0, 0), *sizes], axis=0).tolist()), bool)
    for image, masks in enumerate(pixels):
        for row, each in enumerate(masks):
            both[image, row, : each.shape[0], : each.shape[1]] = each
    return padded, {**shapes, "masks": convert(both, like=home)}


def _pixels_of(masks: Any) -> Iterator[NDArray[Any]]:
    """Yield the pixels of each mask of an image, nonzero inside the mask."""
    if is_array(masks):
        yield from to_numpy(masks)
    else:
        yield from (masks.pixels(row) for row in range(len(masks)))
