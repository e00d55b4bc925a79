"""Checks of shapes other than upright boxes: masks, keypoints, oriented boxes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from boxscore._support.text import count
from boxscore.checks.checklist import REFUSED, Check, Evidence, Severity
from boxscore.checks.evidence import MIN_BOXES, MIN_FITTING, MIN_MISPLACED
from boxscore.checks.file_checks import AREA_EFFECT, fractions_in, overlaps_nothing
from boxscore.checks.file_rows import FileRows, Flags
from boxscore.data.geometry.keypoints import PoseRows
from boxscore.data.geometry.masks import Masks, Polygons
from boxscore.data.geometry.oriented_boxes import OrientedRows, faults_of
from boxscore.formats.records import Floats

FAR = 0.1
"""Minimum distance that counts as far outside of an image or a box, as a fraction of its size."""
MAX_DISTANCE = 2
"""Maximum distance in pixels of a box from the box around its mask; boxes and masks of annotators are rounded."""
MAX_FACTOR = 2
"""Maximum ratio of an area and the number of pixels of its mask, in either direction."""
MOST = 0.5
"""Maximum share of labelled points that may lie outside of a truth's box."""


def _shown(numbers: Floats) -> str:
    return ", ".join(f"{number:.10g}" for number in numbers.tolist())


def is_invalid(rows: FileRows) -> Flags:
    """Whether the evaluation refuses the shape of each row. Shape (R,)."""
    is_bad = np.zeros(len(rows.records), bool)
    for is_wrong in _faults(rows).values():
        is_bad |= is_wrong
    poses = rows.records.rows_of(PoseRows)
    if poses is not None:
        is_bad |= ~_are_finite(poses) | _is_negative(rows, poses) | _has_no_size(rows, poses)
    return is_bad


# Masks. `Records.mask` is None for files without masks, and if polygons could not be drawn.


def _of_masks(find: Callable[[FileRows, Masks], Iterable[Evidence]]) -> Callable[[FileRows], Iterable[Evidence]]:
    return lambda rows: () if rows.records.mask is None else find(rows, rows.records.mask)


def _polygons(rows: FileRows, mask: Masks) -> Polygons | None:
    """The polygons of the file, or None."""
    return mask.polygons if rows.records.polygons is None else rows.records.polygons


def _size(mask: Masks, row: int) -> str:
    height, width = mask.runs.sizes[row].tolist()
    return f"{width} x {height}"


def _few_points(rows: FileRows, mask: Masks) -> Iterable[Evidence]:
    polygons = _polygons(rows, mask)
    if polygons is None:
        return ()
    is_short = np.diff(polygons.part_start) < 6
    num_short = np.diff(np.concatenate([[0], np.cumsum(is_short)])[polygons.mask_start])

    def show(row: int) -> str:
        part = next(part for part in polygons[row] if part.size < 6)
        return f"a polygon of {count(part.size // 2, 'point')}: {_shown(part)}"

    return rows.where(num_short > 0, show)


def _other_sizes(rows: FileRows, mask: Masks) -> Iterable[Evidence]:
    size = rows.image_size
    is_other = (mask.runs.sizes[:, ::-1] != size).any(axis=1) & ~np.isnan(size[:, 0])
    return rows.where(
        is_other, lambda row: f"{_size(mask, row)} pixels in an image of {size[row, 0]:g} x {size[row, 1]:g}"
    )


def _other_boxes(rows: FileRows, mask: Masks) -> Iterable[Evidence]:
    if rows.records.is_normalized:
        return ()  # the boxes were computed around the polygons
    is_valid = rows.is_finite & (rows.extent >= 0).all(axis=1) & (mask.runs.area > 0)
    is_other = is_valid & (np.abs(np.asarray(mask.outer_boxes()) - rows.corner) > MAX_DISTANCE).any(axis=1)
    if (polygons := _polygons(rows, mask)) is not None:
        # A tip that is thinner than a pixel extends the box around the polygon, but not the box around the pixels.
        is_other &= (np.abs(polygons.bounds() - rows.corner) > MAX_DISTANCE).any(axis=1)
    return rows.where(
        is_other,
        lambda row: f"{rows.show_box(row)}, and around the mask [{_shown(mask.runs.box[row])}] (xywh)",
        severity=None if rows.role == "truths" else "note",
        most=MAX_DISTANCE,
    )


def _other_areas(rows: FileRows, mask: Masks) -> Iterable[Evidence]:
    area, pixels = rows.records.area, mask.runs.area
    if rows.role != "truths" or area is None:
        return ()
    border = mask.runs.box[:, 2:].sum(axis=1)  # half of the border pixels may be set or unset
    is_other = (area > MAX_FACTOR * pixels + border) | (MAX_FACTOR * (area + border) < pixels)
    return rows.where(
        np.isfinite(area) & (area >= 0) & (pixels > 0) & is_other,
        lambda row: f"area {area[row]:.10g}, mask of {count(int(pixels[row]), 'pixel')}",
        factor=MAX_FACTOR,
    )


def _outside_polygons(rows: FileRows, mask: Masks) -> Iterable[Evidence]:
    polygons = _polygons(rows, mask)
    if polygons is None or not polygons.points.size:
        return ()
    are_fractions = rows.records.is_normalized and rows.records.polygons is polygons
    size = np.ones_like(rows.size) if are_fractions else rows.image_size
    of_row, points = polygons.row_of_points(), polygons.points.reshape(-1, 2)
    is_far = ((points < -FAR * size[of_row]) | (points > (1 + FAR) * size[of_row])).any(axis=1)

    def show(row: int) -> str:
        far = points[is_far & (of_row == row)][0]
        width, height = size[row].tolist()
        return f"a point ({_shown(far)}) in an image of {width:g} x {height:g}"

    return rows.where(np.bincount(of_row[is_far], minlength=len(polygons)) > 0, show, far=FAR)


_MASK_CHECKS: Sequence[Check[FileRows]] = (
    Check(
        "mask-size",
        _of_masks(_other_sizes),
        "{num:mask} of another size than the image",
        "masks of different sizes do not match, as in pycocotools",
    ),
    Check(
        "few-points",
        _of_masks(_few_points),
        "{num:mask} with a polygon of fewer than 3 points",
        "such a polygon encloses nothing, and adds no pixel",
    ),
    Check(
        "empty-mask",
        _of_masks(
            lambda rows, mask: rows.where(
                mask.runs.area == 0,
                lambda row: f"a mask of {_size(mask, row)} pixels, all off",
                effect=overlaps_nothing(rows),
            )
        ),
        "{num:mask} without pixels",
        "{effect}",
    ),
    Check(
        "polygon-outside",
        _of_masks(_outside_polygons),
        "{num:mask} with a polygon that reaches beyond the image by more than {far:.0%} of its size",
        "masks end at the border of the image: what is beyond it is cut off",
    ),
    Check(
        "mask-box",
        _of_masks(_other_boxes),
        "{num:box/boxes} more than {most} pixels from the one around the mask",
        "the results for boxes and for masks are of different shapes",
    ),
    Check(
        "mask-area",
        _of_masks(_other_areas),
        "{num:area} far from the pixels of the mask, by more than a factor of {factor}",
        AREA_EFFECT,
    ),
)


# Oriented boxes.

_FAULTS = {
    "negative_size": ("of negative width or height", ""),
    "large_side": ("with a side that is too large", ""),
    "large_angle": (
        "with an angle beyond a turn",
        "; angles in degrees, read as radians? `--box-format cxcywha:degrees` reads them so",
    ),
    "self_crossing": ("whose edges cross", "; corners must be in order around the box"),
    "not_convex": ("that is not convex/that are not convex", ""),
}
"""Title and hint by fault."""


def _faults(rows: FileRows) -> Mapping[str, Flags]:
    """Which oriented boxes are invalid, by fault. Shapes (R,)."""
    return {} if rows.records.rows_of(OrientedRows) is None else faults_of(*rows.records.written_boxes)


def _find_fault(rows: FileRows, fault: str) -> Iterable[Evidence]:
    faults = _faults(rows)
    return rows.where(faults[fault]) if fault in faults else ()


def _fault_check(fault: str) -> Check[FileRows]:
    what, hint = _FAULTS[fault]
    one, _, many = what.partition("/")
    title = f"{{num:oriented box {one}/oriented boxes {many or one}}}"
    return Check(fault.replace("_", "-"), partial(_find_fault, fault=fault), title, f"{REFUSED}{hint}", "error")


# Keypoints.


def _of_poses(find: Callable[[FileRows, PoseRows], Iterable[Evidence]]) -> Callable[[FileRows], Iterable[Evidence]]:
    def of_file(rows: FileRows) -> Iterable[Evidence]:
        poses = rows.records.rows_of(PoseRows)
        return () if poses is None or not len(rows.records) else find(rows, poses)

    return of_file


def _numbers(poses: PoseRows) -> Floats:
    """x, y and the third number, if any, of each point. Shape (R, K, 2 or 3)."""
    return poses.point if poses.third is None else np.concatenate([poses.point, poses.third[:, :, None]], axis=2)


def _third(poses: PoseRows) -> Floats:
    """The third number of each point; 1 if points have only two. Shape (R, K)."""
    return np.ones(poses.point.shape[:2]) if poses.third is None else poses.third


def _is_labelled(rows: FileRows, poses: PoseRows) -> Flags:
    """Whether each point of a truth is labelled, or of a detection has a score above 0. Shape (R, K).

    All points of a detection count if all of its scores are 0.
    """
    is_labelled = _third(poses) > 0
    if rows.role == "detections":  # files without scores have zeros
        is_labelled = is_labelled | ~is_labelled.any(axis=1, keepdims=True)
    return np.asarray(is_labelled)


def _are_finite(poses: PoseRows) -> Flags:
    return np.asarray(np.isfinite(_numbers(poses)).all(axis=(1, 2)))


def _is_negative(rows: FileRows, poses: PoseRows) -> Flags:
    return np.asarray((_third(poses) < 0).any(axis=1) & (rows.role == "truths"))


def _has_no_size(rows: FileRows, poses: PoseRows) -> Flags:
    """Whether each row is a truth with labelled points and an area of 0; without areas, a box of area 0. Shape (R,)."""
    area = rows.records.area
    size = rows.extent.prod(axis=1) if area is None else area
    is_labelled = (_third(poses) > 0).any(axis=1)
    return np.asarray(is_labelled & (size == 0) & (rows.role == "truths"))


def _show_point(poses: PoseRows, row: int, is_bad: Flags) -> str:
    """Describe the first bad point of a row."""
    index = int(np.argmax(is_bad))
    return f"point {index}: ({_shown(_numbers(poses)[row, index])})"


def _poses_not_finite(rows: FileRows, poses: PoseRows) -> Iterable[Evidence]:
    is_bad = np.asarray(~np.isfinite(_numbers(poses)).all(axis=2))
    return rows.where(~_are_finite(poses), lambda row: _show_point(poses, row, is_bad[row]))


def _negative_visibility(rows: FileRows, poses: PoseRows) -> Iterable[Evidence]:
    return rows.where(_is_negative(rows, poses), lambda row: _show_point(poses, row, _third(poses)[row] < 0))


def _no_size(rows: FileRows, poses: PoseRows) -> Iterable[Evidence]:
    area = rows.records.area
    what = "an area" if area is not None else "a box" if poses.has_boxes else "labelled points in a box"
    show = None if area is None else lambda row: f"area {area[row]:.10g}"
    return rows.where(_has_no_size(rows, poses), show, what=what)


def _unlabelled(rows: FileRows, poses: PoseRows) -> Iterable[Evidence]:
    is_blank = ~_is_labelled(rows, poses).any(axis=1) & (rows.role == "truths")
    return rows.where(is_blank, lambda _: f"{count(poses.point.shape[1], 'point')}, all of visibility 0")


def _other_counts(rows: FileRows, poses: PoseRows, *, is_decisive: bool) -> Iterable[Evidence]:
    """Evidence about truths whose `num_keypoints` is not the number of labelled points.

    `is_decisive`: only truths for which exactly one of the two numbers is 0, else only the other truths.
    """
    num = poses.num_labelled
    if rows.role != "truths" or num is None:
        return ()
    labelled, visible = _is_labelled(rows, poses).sum(axis=1), (_third(poses) == 2).sum(axis=1)
    is_blank = (num == 0) != (labelled == 0)
    return rows.where(
        is_blank if is_decisive else ~is_blank & (num != labelled) & (num != visible),
        lambda row: f"num_keypoints {num[row]:g}, {count(int(labelled[row]), 'labelled point')}",
    )


def _other_visibility(rows: FileRows, poses: PoseRows) -> Iterable[Evidence]:
    third = _third(poses)
    is_other = np.asarray(~np.isin(third, (0, 1, 2)) & (third >= 0) & (rows.role == "truths"))
    return rows.where(is_other.any(axis=1), lambda row: _show_point(poses, row, is_other[row]))


def _poses_outside(rows: FileRows, poses: PoseRows, *, are_swapped: bool) -> Iterable[Evidence]:
    """Evidence about points far outside of their image.

    `are_swapped`: only if many points are, and nearly all would be inside with x and y swapped; else only if not.
    """
    is_used, size = _is_labelled(rows, poses), rows.size[:, None]
    is_far_point = is_used & _beyond(poses.point, 0 * size, size, FAR * size)
    is_swapped_far_point = is_used & _beyond(poses.point[:, :, ::-1], 0 * size, size, 0.01 * size)
    is_far, is_swapped_far = (np.asarray(each.any(axis=1)) for each in (is_far_point, is_swapped_far_point))
    has_size = ~np.isnan(rows.size[:, 0]) & is_used.any(axis=1)
    are_many = has_size.sum() >= MIN_BOXES and is_far[has_size].mean() >= MIN_MISPLACED
    if are_swapped != (are_many and is_swapped_far[has_size].mean() <= 1 - MIN_FITTING):
        return ()

    def show(row: int) -> str:
        width, height = rows.size[row].tolist()
        return f"{_show_point(poses, row, is_far_point[row])} in an image of {width:g} x {height:g}"

    facts: dict[str, Any] = {"far": FAR, "rows": len(rows.records)}
    facts["effect"] = rows.of_role(
        "no detector that stays in the image gets near it",
        "points are not clipped; clipped at the border, their OKS may be higher",
    )
    severity: Severity | None = "note" if rows.role == "detections" and not are_swapped else None
    return rows.where(is_far, show, severity=severity, **facts)


def _beyond(point: Floats, low: Floats, high: Floats, slack: Floats) -> Flags:
    """Whether each point is outside of a region by more than `slack`. Shape (R, K)."""
    return np.asarray(((point < low - slack) | (point > high + slack)).any(axis=2))


def _pose_fractions(rows: FileRows, poses: PoseRows) -> Iterable[Evidence]:
    is_used = _is_labelled(rows, poses) & np.isfinite(poses.point).all(axis=2)
    if is_used.sum() < MIN_BOXES:
        return ()
    return fractions_in(rows, poses.point, is_used, lambda row: _show_point(poses, row, is_used[row]))


def _outside_box(rows: FileRows, poses: PoseRows) -> Iterable[Evidence]:
    if rows.role != "truths" or not poses.has_boxes:
        return ()
    is_labelled = _is_labelled(rows, poses)
    low, high = rows.corner[:, None, :2], rows.corner[:, None, 2:]
    is_out = is_labelled & _beyond(poses.point, low, high, FAR * (high - low))
    num_out, num_labelled = is_out.sum(axis=1), is_labelled.sum(axis=1)

    def show(row: int) -> str:
        return f"{num_out[row]} of {count(int(num_labelled[row]), 'labelled point')}, box {rows.show_box(row)}"

    return rows.where(rows.is_finite & (num_out > MOST * num_labelled), show)


def _coinciding(rows: FileRows, poses: PoseRows) -> Iterable[Evidence]:
    num = poses.point.shape[1]
    is_point = (poses.point == poses.point[:, :1]).all(axis=(1, 2)) & (rows.role == "detections") & (num > 1)
    return rows.where(is_point, lambda row: f"{count(num, 'point')} at ({_shown(poses.point[row, 0])})")


_SETS = "{num:set of keypoints/sets of keypoints}"
_POSE_CHECKS: Sequence[Check[FileRows]] = (
    Check(
        "keypoints-not-finite",
        _of_poses(_poses_not_finite),
        f"{_SETS} with numbers that are not finite",
        REFUSED,
        "error",
    ),
    Check(
        "negative-visibility",
        _of_poses(_negative_visibility),
        f"{_SETS} with a negative visibility",
        REFUSED,
        "error",
    ),
    Check(
        "keypoints-without-area",
        _of_poses(_no_size),
        "{num:truth} with labelled points and {what} of size 0",
        f"OKS divides by the area, so {REFUSED}",
        "error",
    ),
    Check(
        "keypoint-fractions",
        _of_poses(_pose_fractions),
        f"all numbers of {_SETS} lie between {{low:.3g}} and {{high:.3g}}",
        "they look like fractions of the image's size, but are taken as pixels: multiply them by it",
    ),
    Check(
        "keypoint-axes",
        _of_poses(partial(_poses_outside, are_swapped=True)),
        "{num} of {rows:set of keypoints/sets of keypoints} far outside of their image; nearly all fit if x and y are"
        " swapped",
        "if y is before x, nearly every OKS is wrong",
    ),
    Check(
        "keypoint-outside",
        _of_poses(partial(_poses_outside, are_swapped=False)),
        f"{_SETS} with a point beyond the image by more than {{far:.0%}} of its size",
        "{effect}",
    ),
    Check(
        "keypoints-outside-box",
        _of_poses(_outside_box),
        "{num:truth} with most of the labelled points outside of the box",
        "box and points seem to belong to different objects, or are in different units",
    ),
    Check(
        "num-keypoints",
        _of_poses(partial(_other_counts, is_decisive=True)),
        "{num:truth} with `num_keypoints` of 0 but labelled points, or the reverse",
        "a truth with `num_keypoints` of 0 is ignored, whatever its points are",
    ),
    Check(
        "num-keypoints-differs",
        _of_poses(partial(_other_counts, is_decisive=False)),
        "{num:truth} with `num_keypoints` that is not the number of labelled points",
        "only whether it is 0 matters, so the result is the same",
        "note",
    ),
    Check(
        "visibility",
        _of_poses(_other_visibility),
        "{num:truth} with a visibility other than 0, 1 and 2",
        "any number above 0 means labelled; are these scores of a detector?",
    ),
    Check(
        "coinciding-keypoints",
        _of_poses(_coinciding),
        "{num:detection} with all keypoints in one place",
        "it is like no object, so each is very likely a false positive",
    ),
    Check(
        "no-labelled-points",
        _of_poses(_unlabelled),
        "{num:truth} without a labelled point",
        "it is ignored: finding it is not rewarded, missing it not punished",
        "note",
    ),
)

SHAPE_CHECKS: Sequence[Check[FileRows]] = (*_MASK_CHECKS, *map(_fault_check, _FAULTS), *_POSE_CHECKS)
"""Checks of shapes other than upright boxes; files without such shapes pass."""
