"""Facts about images that affect numbers, as read from tables, where an image may have many rows in many parts."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.data.coverage import Coverage
from boxscore.data.dataset import Truths, host_ids
from boxscore.protocol.protocol import Protocol

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


SIZES = ("image_width", "image_height")
CROWD_INDEX = "crowd_index"
"""The columns of tables with facts about each row's image."""
CLASS_GROUP = "class_group"
"""The column of tables with the group of each row's class."""
LISTS = ("list_image", "list_label", "is_negative")
"""The columns with one row per entry of a list."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ImageFacts:
    """Sizes of images, how crowded they are, and the lists of labels for their coverage.

    The coverage of an image follows from its lists and all its truths, so lists are kept until all truths are read.
    """

    image: Ids
    """Image ids, with or without truths. Shape (N,)."""
    width: Floats
    """Widths in pixels; NaN: unknown. Shape (N,)."""
    height: Floats
    """Heights in pixels; NaN: unknown. Shape (N,)."""
    crowd_index: Floats
    """How crowded each image is; NaN: unknown. Shape (N,)."""
    list_image: Ids | None = None
    """The image of each label in a list; None: no lists. Shape (L,)."""
    list_label: Ids | None = None
    """The labels in lists. Shape (L,)."""
    is_negative: NDArray[np.bool_] | None = None
    """Whether the label is in `neg_category_ids`, else in `not_exhaustive_category_ids`. Shape (L,)."""

    @classmethod
    def none(cls) -> "ImageFacts":
        """Facts about no images."""
        return cls(image=np.zeros(0, np.int64), width=np.zeros(0), height=np.zeros(0), crowd_index=np.zeros(0))

    def needed_by(self, protocol: Protocol) -> "ImageFacts | None":
        """Select the facts that a protocol needs, without repeated rows; None if it needs none."""
        if not asks_for_facts(protocol):
            return None
        unknown = np.full(self.image.size, np.nan)
        width, height = (self.width, self.height) if protocol.clips_boxes else (unknown, unknown)
        crowd_index = self.crowd_index if protocol.ranges_by == "crowd_index" else unknown
        values = (self.image, width.view(np.int64), height.view(np.int64), crowd_index.view(np.int64))
        order = np.lexsort(values)
        is_new = np.ones(order.size, bool)
        is_new[1:] = np.logical_or.reduce([np.diff(column[order]) != 0 for column in values])
        rows = np.sort(order[is_new])
        lists = {name: getattr(self, name) if protocol.federated else None for name in LISTS}
        return ImageFacts(
            image=self.image[rows], width=width[rows], height=height[rows], crowd_index=crowd_index[rows], **lists
        )

    def completed(self, truths: Truths, *, has_lists: bool = False) -> Truths:
        """Add the facts to the truths of the images. `has_lists`: tables have lists, even if these images have none."""
        listed = np.union1d(self.image, host_ids(truths.image_ids)).tolist() if self.image.size else []
        is_sized = ~np.isnan(self.width) & ~np.isnan(self.height)
        sizes = zip(self.width[is_sized].tolist(), self.height[is_sized].tolist(), strict=True)
        known: dict[int, tuple[int, int]] = {}
        for image, size in zip(self.image[is_sized].tolist(), sizes, strict=True):
            width, height = known.setdefault(image, (int(size[0]), int(size[1])))
            if (width, height) != size:
                both = f"{width} x {height} and {size[0]:g} x {size[1]:g}"
                raise InputError(f"`{SIZES[0]}` and `{SIZES[1]}` of image {image} must be one size; got {both}")
        return replace(
            truths,
            image_names=truths.image_names or {image: str(image) for image in listed} or None,
            image_sizes={**(truths.image_sizes or {}), **known} or None,
            crowd_index=truths.crowd_index or self._crowd_index(),
            coverage=self._coverage(truths, has_lists),
        )

    def _crowd_index(self) -> dict[int, float] | None:
        rows = np.flatnonzero(~np.isnan(self.crowd_index))
        known: dict[int, float] = {}
        for image, value in zip(self.image[rows].tolist(), self.crowd_index[rows].tolist(), strict=True):
            if known.setdefault(image, value) != value:
                raise InputError(f"`crowd_index` of image {image} must be one number; got {known[image]} and {value}")
        return known or None

    def _coverage(self, truths: Truths, has_lists: bool) -> Coverage | None:
        if self.list_image is None or self.list_label is None or self.is_negative is None:
            return Coverage(image_ids=[], labels=[]) if has_lists else truths.coverage
        negative, not_exhaustive = (
            (self.list_image[rows], self.list_label[rows]) for rows in (self.is_negative, ~self.is_negative)
        )
        annotated = host_ids(truths.image_ids), host_ids(truths.labels)
        return Coverage.from_lists(negative=negative, not_exhaustive=not_exhaustive, annotated=annotated)


def asks_for_facts(protocol: Protocol) -> bool:
    """Whether a protocol's numbers depend on facts about images: coverage, sizes, crowding, or the list of images."""
    asks_by_image = protocol.clips_boxes or protocol.ranges_by == "crowd_index" or bool(protocol.extra_numbers)
    return asks_by_image or protocol.federated
