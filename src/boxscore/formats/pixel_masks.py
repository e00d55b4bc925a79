"""Masks given as pixels within a box, and their union with polygons."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore.data.geometry.masks import Masks, Polygons
from boxscore.data.validation import RowError
from boxscore.formats.records import Floats, Ids, Options, Records

MAX_PIXELS = 1 << 28
"""Maximum number of pixels within the box of a mask that is given row by row."""


class Crop(NamedTuple):
    """The pixels of a mask within a box; all pixels outside of it are unset."""

    left: int
    top: int
    is_on: NDArray[np.bool_]
    """Shape (H, W)."""

    def bounds(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom of the set pixels; if there are none, an empty box at the top left corner."""
        rows, columns = np.flatnonzero(self.is_on.any(axis=1)), np.flatnonzero(self.is_on.any(axis=0))
        if not rows.size:
            return self.left, self.top, self.left, self.top
        return (
            float(self.left + columns[0]),
            float(self.top + rows[0]),
            float(self.left + columns[-1] + 1),
            float(self.top + rows[-1] + 1),
        )

    def check_inside(self, size: tuple[int, int], location: str) -> None:
        """Raise `InputError` unless the box is inside an image of this width and height."""
        height, width = self.is_on.shape
        if min(self.left, self.top) < 0 or self.left + width > size[0] or self.top + height > size[1]:
            raise InputError(
                f"{location}: the box of the mask must be inside of its image of {size[0]} x {size[1]} pixels; got"
                f" {width} x {height} pixels from ({self.left}, {self.top}) on"
            )

    def counts(self, height: int, width: int) -> list[int]:
        """COCO's run lengths of the mask in an image of this size, which must contain the box."""
        padded = np.pad(self.is_on, ((1, 1), (0, 0))).T.astype(np.int8)
        column, row = np.nonzero(np.diff(padded, axis=1))  # starts and ends of runs, alternating
        edges = (self.left + column) * height + self.top + row
        if edges.size:
            # Merge a run that ends at the bottom of a column with one that begins at the top of the next.
            inner = edges[1:-1].reshape(-1, 2)
            edges = np.concatenate([edges[:1], inner[inner[:, 0] != inner[:, 1]].reshape(-1), edges[-1:]])
        lengths: list[int] = np.diff(np.concatenate([[0], edges, [height * width]])).tolist()
        return lengths


def drawn(
    parts: Sequence[Sequence[Floats]], crops: Mapping[int, Sequence[Crop]], sizes: Ids, *, keeps_polygons: bool
) -> Masks:
    """Draw the masks of rows that have polygons, pixels or both.

    `crops`: pixels by row, only for rows that have any; other rows may keep their polygons. `sizes`: height and width.
    Shape (N, 2).
    """
    rle: list[Any] = [None] * len(parts)
    of_polygons = [row for row, polygons in enumerate(parts) if polygons]
    with _rows_among_all(of_polygons):
        polygons_drawn = Masks.from_polygons([parts[row] for row in of_polygons], sizes[of_polygons])
    for row, each in zip(of_polygons, polygons_drawn.rle(), strict=True):
        rle[row] = each
    for row, boxes in crops.items():
        height, width = sizes[row].tolist()
        with _rows_among_all([row] * len(boxes)):
            of_row = Masks.from_rle([{"size": [height, width], "counts": each.counts(height, width)} for each in boxes])
        pieces = [each for each in (rle[row], *of_row.rle()) if each is not None]
        rle[row] = pieces[0] if len(pieces) == 1 else _compiled.rle_merge(pieces, False)
    masks = Masks.from_rle(rle)
    if not keeps_polygons:
        return masks
    kept = [() if row in crops else polygons for row, polygons in enumerate(parts)]
    return replace(masks, polygons=Polygons.of(kept))


@contextlib.contextmanager
def _rows_among_all(rows: Sequence[int]) -> Iterator[None]:
    """Translate row indices in errors: index i becomes `rows[i]`."""
    try:
        yield
    except RowError as error:
        raise RowError(error.column, rows[error.row], error.rule) from None


def row_major(counts: Sequence[int], left: int, top: int, height: int, width: int) -> Crop:
    """Decode run lengths that go row by row through a box; the first run is unset. They must cover the whole box.

    >>> row_major([1, 2, 1], left=5, top=7, height=2, width=2).is_on.tolist()
    [[False, True], [True, False]]
    """
    is_on = np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(height, width)
    return Crop(left, top, is_on)


def row_major_counts(is_on: NDArray[np.bool_]) -> list[int]:
    """The run lengths of pixels row by row; the first run is unset.

    >>> row_major_counts(np.array([[True, False], [False, True]]))
    [0, 1, 2, 1]
    """
    flat = is_on.reshape(-1)
    edges = np.flatnonzero(np.concatenate([flat[:1], flat[1:] != flat[:-1]]))
    lengths: list[int] = np.diff(np.concatenate([[0], edges, [flat.size]])).tolist()
    return lengths


def with_masks(
    records: Records, parts: Sequence[Sequence[Floats]], crops: Mapping[int, Sequence[Crop]], options: Options
) -> Records:
    """Add masks to records whose rows have polygons, pixels or both.

    If all rows have only polygons, they are drawn later, when image sizes are known; else the file must have the sizes.
    """
    if not crops:
        return replace(records, polygons=Polygons.of(parts))
    known = records.image_sizes or {}
    sizes = np.zeros((len(parts), 2), np.int64)
    for row, key in enumerate(records.image.tolist()):
        size = known.get(key)
        if size is None:
            raise InputError(
                f"{records.location(row)}: masks are drawn into images, and the file must have the size of its image"
            )
        for crop in crops.get(row, ()):
            crop.check_inside(size, records.location(row))
        sizes[row] = size[::-1]
    try:
        return replace(records, mask=drawn(parts, crops, sizes, keeps_polygons=options.keeps_polygons))
    except InputError as error:
        raise records.refuse(error) from None
