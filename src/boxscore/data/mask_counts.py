"""Masks of a batch on a device: their overlaps are counted there, and the batch goes on without pixels.

update(batch)
masks on the device ──► counts on the device ─┐
other columns ────────────────────────────────┴──► Snapshot, one copy without waiting
later
counts in host memory ──► `ComparedMasks` in place of the pixels ──► read like any batch
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from boxscore._support.exceptions import InputError
from boxscore.arrays import Array, convert, home_of, is_array, is_on_device
from boxscore.data.batch_keys import Keys
from boxscore.data.batches import PaddedBatch, masks_of_images
from boxscore.data.dataset import Shapes
from boxscore.data.geometry.device_masks import (
    ComparedMasks,
    CountedShape,
    can_compare,
    compared_masks,
    start_counts,
    start_counts_of_image,
)
from boxscore.data.geometry.mask_overlaps import as_flags
from boxscore.data.geometry.masks import check_are_pixels
from boxscore.data.validation import shape_of

KEY = "masks"


class MaskCounts(NamedTuple):
    """Counts of the overlaps of a batch, on their device."""

    dicts: list[dict[str, Array]]
    """The arrays of `start_counts` of each image, or of the whole of a padded batch, by "0", "1", …"""
    shapes: list[CountedShape]


def count_images(
    preds: Sequence[Mapping[str, Any]], targets: Sequence[Mapping[str, Any]], *, has_boxes: bool
) -> MaskCounts | None:
    """Count the overlaps of the masks of one dict per image.

    None if an image's masks are invalid, which a reader should report, or can't be compared on a device: lists, masks
    of different sizes, detections in host memory. Truths in host memory are copied to the device of the detections.

    Args:
        preds: The predictions.
        targets: The truths of the same images.
        has_boxes: Whether to find the outer boxes, too.
    """
    try:
        sides = [masks_of_images(images, KEY, [_num_rows(image) for image in images]) for images in (preds, targets)]
    except InputError:
        return None
    home = next((stack for stack in sides[0] if is_on_device(stack)), None)
    pairs = []
    for stack, truth_stack in zip(*sides, strict=True):
        pair = _on_device_of(home, stack, truth_stack)
        if pair is None:
            return None
        pairs.append(pair)
    counts = [start_counts_of_image(*pair, has_boxes=has_boxes) for pair in pairs]
    return MaskCounts([*map(_named, counts)], [CountedShape.of_image(*pair) for pair in pairs])


def count_padded(batch: PaddedBatch, truth_batch: PaddedBatch, *, has_boxes: bool) -> MaskCounts | None:
    """Count the overlaps of padded batches, as `count_images` does; padding is counted, and dropped later."""
    masks, truth_masks = batch.arrays[KEY], truth_batch.arrays[KEY]
    try:
        check_are_pixels(masks)
        check_are_pixels(truth_masks)
    except InputError:
        return None
    pair = _on_device_of(masks if is_on_device(masks) else None, masks, truth_masks)
    if pair is None:
        return None
    shape = CountedShape(shape_of(pair[0])[1], shape_of(pair[1])[1], shape_of(pair[0])[2:])
    return MaskCounts([_named(start_counts(*pair, has_boxes=has_boxes))], [shape])


def _named(counts: Sequence[Array]) -> dict[str, Array]:
    return {str(index): array for index, array in enumerate(counts)}


def _num_rows(image: Mapping[str, Any]) -> int:
    labels = image.get("labels")
    shape = shape_of(labels) if is_array(labels) else ()
    if len(shape) != 1:
        raise InputError("`labels` must be an array with one dimension")
    return shape[0]


def _on_device_of(home: Array | None, masks: Any, truth_masks: Any) -> tuple[Array, Array] | None:
    """Masks that can be compared on the device of `home`; those without rows have any size. Shapes (…, H, W)."""
    if home is None or not is_array(masks) or not is_array(truth_masks):
        return None
    if 0 in shape_of(masks)[:-2]:
        masks = truth_masks[..., :0, :, :]
    elif not is_on_device(masks):
        return None
    if 0 in shape_of(truth_masks)[:-2]:
        truth_masks = masks[..., :0, :, :]
    if not can_compare(masks, truth_masks):
        return None
    pair = [each if is_on_device(each) else convert(as_flags(each), like=home) for each in (masks, truth_masks)]
    return (pair[0], pair[1]) if {*map(home_of, pair)} == {home_of(home)} else None


def without_masks(keys: Keys) -> Keys:
    """The keys of the other columns."""
    return keys._replace(required={key: name for key, name in keys.required.items() if key != KEY})


def put_masks(
    preds: Sequence[dict[str, Any]],
    targets: Sequence[dict[str, Any]],
    counts: Sequence[Mapping[str, Any]],
    shapes: Sequence[CountedShape],
) -> None:
    """Put the masks of counts that have arrived into one dict per image."""
    for image, truth, arrived, shape in zip(preds, targets, counts, shapes, strict=True):
        image[KEY], truth[KEY] = compared_masks([*arrived.values()], shape)


def padded_masks(counts: Mapping[str, Any], shape: CountedShape) -> list[ComparedMasks]:
    """Both sides of a padded batch whose counts have arrived; they stay valid when the arrays are released."""
    return [ComparedMasks.joined([side]) for side in compared_masks([*counts.values()], shape)]


def has_outer_boxes(columns: Shapes) -> bool:
    """Whether the boxes around all shapes are known: those of compared masks are only if they were asked for."""
    return all(each.box is not None for each in columns.geometries if isinstance(each, ComparedMasks))
