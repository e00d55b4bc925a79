"""Masks in tables: a column of JSON text, or run lengths in separate columns.

A cell of text has `{"size": [height, width], "counts": "…"}` as in COCO, or polygons, `[[x, y, x, y, …], …]`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.geometry.masks import Masks, Polygons
from boxscore.data.validation import RowError
from boxscore.formats.records import Floats, Ids

NAMES = ("segmentation", "mask")
"""Names of the column."""
ARRAYS = ("mask_counts", "mask_start", "mask_sizes")
"""Names of the arrays in .npz: run lengths of all masks, offset of each mask's run lengths, height and width."""
_RULE = 'must be {"size": [height, width], "counts": "…"} or polygons [[x, y, x, y, …], …] in JSON'


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MaskColumn:
    """A lazy column of masks, read once it is known which rows are needed."""

    read: Callable[[Ids | None], Masks]
    """Reads the masks of the given rows; with None, of all rows."""
    num_rows: int
    rows: Ids | None = None

    def __len__(self) -> int:
        return self.num_rows if self.rows is None else len(self.rows)

    def take(self, rows: Ids) -> "MaskColumn":
        """The given rows."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def masks(self) -> Masks:
        """Read the masks of the rows."""
        return self.read(self.rows)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CellPlaces:
    """Column name and row locations for errors about cells, and image sizes for drawing polygons beside run lengths."""

    name: str
    location: Callable[[int], str]
    sizes: Sequence[tuple[int, int] | None]
    """Width and height of each row's image, or None."""


def read_column(
    column: MaskColumn | Sequence[Any], places: CellPlaces, *, keeps_polygons: bool
) -> dict[str, Masks | Polygons]:
    """Read the masks of a column as fields of `Records`: `mask`, or `polygons` if all cells have polygons."""
    try:
        if isinstance(column, MaskColumn):
            return {"mask": column.masks()}
        cells = [_parsed(cell, row, places) for row, cell in enumerate(column)]
        parts = [_polygons(cell, row) if isinstance(cell, list) else [] for row, cell in enumerate(cells)]
        if all(parts):
            return {"polygons": Polygons.of(parts)}
        sizes = np.zeros((len(cells), 2), np.int64)
        for row in (row for row, part in enumerate(parts) if part):
            if (size := places.sizes[row]) is None:
                raise RowError("mask", row, "is a polygon: `image_width` and `image_height` must have its image's size")
            sizes[row] = size[::-1]
        masks = Masks.from_rle(cells, sizes)
    except RowError as error:
        raise InputError(f"{places.location(error.row)}: `{places.name}` {error.rule}") from None
    return {"mask": replace(masks, polygons=Polygons.of(parts)) if keeps_polygons and any(parts) else masks}


def _parsed(cell: Any, row: int, places: CellPlaces) -> Any:
    """Parse the run lengths or the polygons of a cell."""
    value = cell
    if isinstance(cell, str):
        try:
            value = json.loads(cell)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, dict | list):
        text = cell if isinstance(cell, str) else repr(cell)
        raise InputError(f"{places.location(row)}: `{places.name}` {_RULE}; got {text[:60]!r}")
    return value


def _polygons(parts: list[Any], row: int) -> list[Floats]:
    """Validate and convert the polygons of a cell."""
    if not parts:
        raise RowError("mask", row, "must have at least one polygon; got none")
    found = []
    for part in parts:
        try:
            numbers = np.array(part, np.float64)
        except (ValueError, TypeError, OverflowError):
            numbers = np.zeros(())
        if numbers.ndim != 1:
            raise RowError("mask", row, "must be a list of polygons, each a list of numbers x, y, x, y, …")
        if not numbers.size or numbers.size % 2:
            raise RowError("mask", row, f"must have polygons of pairs x, y; got {numbers.size} numbers")
        found.append(numbers)
    return found


def boxes_around(found: Mapping[str, Masks | Polygons]) -> tuple[Floats, BoxFormat]:
    """The boxes around the masks of `read_column`, for tables without boxes."""
    shapes = found.get("mask", found.get("polygons"))
    if isinstance(shapes, Masks):
        return shapes.runs.box.astype(np.float64), "xywh"
    assert shapes is not None
    return shapes.bounds(), "xyxy"


def masks_of_arrays(arrays: Mapping[str, Any], source: str) -> MaskColumn | None:
    """The masks in the arrays of an .npz file; None if it has none of these arrays."""
    if not any(name in arrays for name in ARRAYS):
        return None
    missing = [name for name in ARRAYS if name not in arrays]
    if missing:
        raise InputError(f"{source}: must have the arrays {', '.join(ARRAYS)} for masks; `{missing[0]}` is missing")
    counts, start, sizes = (arrays[name] for name in ARRAYS)
    is_valid = counts.dtype == np.uint8 and all(array.dtype.kind in "iu" for array in (start, sizes))
    if not is_valid or (counts.ndim, start.ndim) != (1, 1) or sizes.shape != (len(start) - 1, 2):
        got = ", ".join(f"{array.dtype} {array.shape}" for array in (counts, start, sizes))
        rule = "must be of shapes (C,), (N + 1,) and (N, 2), the first of bytes, the others of integers"
        raise InputError(f"{source}: {', '.join(ARRAYS)} {rule}; got {got}")

    def read(rows: Ids | None) -> Masks:
        masks = Masks.from_arrays(counts, start, sizes)
        return masks if rows is None else masks.take(rows)

    return MaskColumn(read=read, num_rows=len(sizes))


def arrays_of(mask: Masks | None) -> dict[str, Any]:
    """The arrays of masks for an .npz file; empty without masks."""
    if mask is None:
        return {}
    return dict(zip(ARRAYS, (mask.runs.counts, mask.runs.start, mask.runs.sizes), strict=True))


def cells_of(mask: Masks, sizes: Sequence[tuple[int, int] | None], most: int) -> tuple[list[str], int]:
    """A cell of text for each mask, and the number of masks whose kept polygons are not written.

    Polygons are written only if the image is known to have the mask's size, so that they are drawn the same again.
    `most`: maximum number of characters of a cell.
    """
    cells, num_lost = [], 0
    for row, rle in enumerate(mask.rle()):
        outline = [] if mask.polygons is None else [part.tolist() for part in mask.polygons[row]]
        cell = json.dumps(outline)
        size = sizes[row]
        if not outline or len(cell) > most or size is None or [*size[::-1]] != rle["size"]:
            num_lost += bool(outline)
            cell = json.dumps(rle)
        if len(cell) > most:
            raise InputError(
                f"mask {row} has {len(cell):,} characters of run lengths, and a cell may have {most:,}; choose npz,"
                " parquet or coco"
            )
        cells.append(cell)
    return cells, num_lost
