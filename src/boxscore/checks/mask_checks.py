"""Checks of masks, of truths or detections: one function per check. Files without masks have no findings here."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from boxscore._support.text import count
from boxscore.checks.file_rows import FileRows
from boxscore.checks.findings import Finding
from boxscore.data.geometry.masks import Masks, Polygons
from boxscore.formats.records import Floats

MAX_DISTANCE = 2
"""Pixels that a box may differ from the box around its mask: annotators' boxes and pixels are rounded."""
MAX_FACTOR = 2
"""An area may be this many times the pixels of its mask, or the reverse."""
FAR = 0.1
"""Farther outside of its image than this, as a fraction of the image's size, is far."""


def few_points(rows: FileRows, mask: Masks) -> Iterable[Finding]:
    """Polygons of one point or two."""
    polygons = _polygons(rows, mask)
    if polygons is None:
        return
    is_short = np.diff(polygons.part_start) < 6
    num_short = np.diff(np.concatenate([[0], np.cumsum(is_short)])[polygons.mask_start])

    def show(row: int) -> str:
        part = next(part for part in polygons[row] if part.size < 6)
        return f"a polygon of {count(part.size // 2, 'point')}: {_shown(part)}"

    yield from rows.found(
        num_short > 0,
        kind="few-points",
        severity="warning",
        title=lambda num: f"{count(num, 'mask')} with a polygon of fewer than 3 points",
        show=show,
        effect="such a polygon encloses nothing, and adds no pixel",
    )


def empty_masks(rows: FileRows, mask: Masks) -> Iterable[Finding]:
    """Masks without a pixel."""
    effects = {
        "truths": "no detection can overlap it, so each is a miss",
        "detections": "it overlaps no truth, so each is a false positive",
    }
    yield from rows.found(
        mask.runs.area == 0,
        kind="empty-mask",
        severity="warning",
        title=lambda num: f"{count(num, 'mask')} without pixels",
        show=lambda row: f"a mask of {_size(mask, row)} pixels, all off",
        effect=effects[rows.role],
    )


def other_sizes(rows: FileRows, mask: Masks) -> Iterable[Finding]:
    """Masks that do not have the size of their image."""
    size = rows.image_size
    is_other = (mask.runs.sizes[:, ::-1] != size).any(axis=1) & ~np.isnan(size[:, 0])
    yield from rows.found(
        is_other,
        kind="mask-size",
        severity="warning",
        title=lambda num: f"{count(num, 'mask')} of another size than the image",
        show=lambda row: f"{_size(mask, row)} pixels in an image of {size[row, 0]:g} x {size[row, 1]:g}",
        effect="masks of different sizes do not match, as in pycocotools",
    )


def other_boxes(rows: FileRows, mask: Masks) -> Iterable[Finding]:
    """Boxes that are not the ones around their masks."""
    if rows.records.is_normalized:
        return  # these are the boxes around the polygons
    is_valid = rows.is_finite & (rows.extent >= 0).all(axis=1) & (mask.runs.area > 0)
    is_other = is_valid & (np.abs(np.asarray(mask.outer_boxes()) - rows.corner) > MAX_DISTANCE).any(axis=1)
    if (polygons := _polygons(rows, mask)) is not None:
        # A tip that is thinner than a pixel is in the box around the polygon, and not in the one around the pixels.
        is_other &= (np.abs(polygons.bounds() - rows.corner) > MAX_DISTANCE).any(axis=1)

    def show(row: int) -> str:
        return f"{rows.show_box(row)}, and around the mask [{_shown(mask.runs.box[row])}] (xywh)"

    yield from rows.found(
        is_other,
        kind="mask-box",
        severity="warning" if rows.role == "truths" else "note",
        title=lambda num: f"{count(num, 'box', 'boxes')} more than {MAX_DISTANCE} pixels from the one around the mask",
        show=show,
        effect="the results for boxes and for masks are of different shapes",
    )


def other_areas(rows: FileRows, mask: Masks) -> Iterable[Finding]:
    """Areas far from the number of pixels."""
    area, pixels = rows.records.area, mask.runs.area
    if rows.role != "truths" or area is None:
        return
    border = mask.runs.box[:, 2:].sum(axis=1)  # half of the pixels at the border may be on or off
    is_other = (area > MAX_FACTOR * pixels + border) | (MAX_FACTOR * (area + border) < pixels)
    yield from rows.found(
        np.isfinite(area) & (area >= 0) & (pixels > 0) & is_other,
        kind="mask-area",
        severity="warning",
        title=lambda num: (
            f"{count(num, 'area')} far from the pixels of the mask, by more than a factor of {MAX_FACTOR}"
        ),
        show=lambda row: f"area {area[row]:.10g}, mask of {count(int(pixels[row]), 'pixel')}",
        effect="the area decides between small, medium and large, so the results of these ranges change",
    )


def outside_polygons(rows: FileRows, mask: Masks) -> Iterable[Finding]:
    """Polygons that reach far beyond their image."""
    polygons = _polygons(rows, mask)
    if polygons is None or not polygons.points.size:
        return
    size = (
        np.ones_like(rows.size) if rows.records.is_normalized and rows.records.polygons is polygons else rows.image_size
    )
    of_row = polygons.row_of_points()
    points = polygons.points.reshape(-1, 2)
    is_far = ((points < -FAR * size[of_row]) | (points > (1 + FAR) * size[of_row])).any(axis=1)
    num_far = np.bincount(of_row[is_far], minlength=len(polygons))

    def show(row: int) -> str:
        far = points[is_far & (of_row == row)][0]
        width, height = size[row].tolist()
        return f"a point ({_shown(far)}) in an image of {width:g} x {height:g}"

    yield from rows.found(
        num_far > 0,
        kind="polygon-outside",
        severity="warning",
        title=lambda num: (
            f"{count(num, 'mask')} with a polygon that reaches beyond the image by more than {FAR:.0%} of its size"
        ),
        show=show,
        effect="masks end at the border of the image: what is beyond it is cut off",
    )


def _polygons(rows: FileRows, mask: Masks) -> Polygons | None:
    """The polygons of the file, if it has some."""
    return mask.polygons if rows.records.polygons is None else rows.records.polygons


def _size(mask: Masks, row: int) -> str:
    height, width = mask.runs.sizes[row].tolist()
    return f"{width} x {height}"


def _shown(numbers: Floats) -> str:
    return ", ".join(f"{number:.10g}" for number in numbers.tolist())


_CHECKS: Sequence[Callable[[FileRows, Masks], Iterable[Finding]]] = (
    other_sizes,
    few_points,
    empty_masks,
    outside_polygons,
    other_boxes,
    other_areas,
)
"""In the order of their findings."""


def check_masks(rows: FileRows) -> Iterable[Finding]:
    """The findings about masks, if the file has masks and they could be drawn."""
    mask = rows.records.mask
    if mask is not None:
        for check in _CHECKS:
            yield from check(rows, mask)
