"""Checks of keypoints, of truths or detections: one function per check. Files without keypoints have no findings."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from boxscore._support.text import count
from boxscore.checks.file_rows import FileRows, Flags
from boxscore.checks.findings import Finding
from boxscore.checks.row_checks import MIN_ROWS, REFUSED
from boxscore.formats.records import Floats, PoseRows

FAR = 0.1
"""Farther outside of its image, or of its box, than this, as a fraction of the size, is far."""
MOST = 0.5
"""The share of its labelled points that may lie outside of a truth's box."""
LARGEST_FRACTION = 2
"""Points whose numbers are all below look like fractions of the image's size."""
Check = Callable[[FileRows, PoseRows], Iterable[Finding]]


def is_invalid(rows: FileRows) -> Flags:
    """Whether the evaluation refuses the keypoints of a row."""
    poses = rows.records.keypoints
    if poses is None:
        return np.zeros(len(rows.records), bool)
    return ~_are_finite(poses) | _is_negative(rows, poses) | _has_no_size(rows, poses)


def not_finite(rows: FileRows, poses: PoseRows) -> Iterable[Finding]:
    """NaN and infinity."""
    yield from rows.found(
        ~_are_finite(poses),
        kind="keypoints-not-finite",
        severity="error",
        title=lambda num: f"{_sets(num)} with numbers that are not finite",
        show=lambda row: _shown(poses, row, ~np.isfinite(_numbers(poses)[row]).all(axis=1)),
        effect=REFUSED,
    )


def negative_visibility(rows: FileRows, poses: PoseRows) -> Iterable[Finding]:
    """Visibilities below 0."""
    third = _third(poses)
    yield from rows.found(
        _is_negative(rows, poses),
        kind="negative-visibility",
        severity="error",
        title=lambda num: f"{_sets(num)} with a negative visibility",
        show=lambda row: _shown(poses, row, third[row] < 0),
        effect=REFUSED,
    )


def no_size(rows: FileRows, poses: PoseRows) -> Iterable[Finding]:
    """Truths that OKS can't be relative to."""
    area = rows.records.area
    what = "an area" if area is not None else "a box" if poses.has_boxes else "labelled points in a box"
    yield from rows.found(
        _has_no_size(rows, poses),
        kind="keypoints-without-area",
        severity="error",
        title=lambda num: f"{count(num, 'truth')} with labelled points and {what} of size 0",
        show=lambda row: f"area {area[row]:.10g}" if area is not None else rows.show_box(row),
        effect=f"OKS divides by the area, so {REFUSED}",
    )


def unlabelled(rows: FileRows, poses: PoseRows) -> Iterable[Finding]:
    """Truths without a labelled point."""
    if rows.role == "truths":
        yield from rows.found(
            ~_any(_is_labelled(rows, poses)),
            kind="no-labelled-points",
            severity="note",
            title=lambda num: f"{count(num, 'truth')} without a labelled point",
            show=lambda _: f"{count(poses.point.shape[1], 'point')}, all of visibility 0",
            effect="it is ignored: finding it is not rewarded, missing it not punished",
        )


def other_counts(rows: FileRows, poses: PoseRows) -> Iterable[Finding]:
    """Numbers of labelled points that are not those of the points."""
    num = poses.num_labelled
    if rows.role != "truths" or num is None:
        return
    labelled, visible = _is_labelled(rows, poses).sum(axis=1), (_third(poses) == 2).sum(axis=1)
    is_decisive = (num == 0) != (labelled == 0)

    def show(row: int) -> str:
        return f"num_keypoints {num[row]:g}, {count(int(labelled[row]), 'labelled point')}"

    yield from rows.found(
        is_decisive,
        kind="num-keypoints",
        severity="warning",
        title=lambda num: f"{count(num, 'truth')} with `num_keypoints` of 0 but labelled points, or the reverse",
        show=show,
        effect="a truth with `num_keypoints` of 0 is ignored, whatever its points are",
    )
    yield from rows.found(
        ~is_decisive & (num != labelled) & (num != visible),
        kind="num-keypoints-differs",
        severity="note",
        title=lambda num: f"{count(num, 'truth')} with `num_keypoints` that is not the number of labelled points",
        show=show,
        effect="only whether it is 0 matters, so the result is the same",
    )


def other_visibility(rows: FileRows, poses: PoseRows) -> Iterable[Finding]:
    """Visibilities that are none of COCO's."""
    third = _third(poses)
    is_other = ~np.isin(third, (0, 1, 2)) & (third >= 0)
    if rows.role == "truths":
        yield from rows.found(
            _any(is_other),
            kind="visibility",
            severity="warning",
            title=lambda num: f"{count(num, 'truth')} with a visibility other than 0, 1 and 2",
            show=lambda row: _shown(poses, row, is_other[row]),
            effect="any number above 0 means labelled; are these scores of a detector?",
        )


def outside_image(rows: FileRows, poses: PoseRows) -> Iterable[Finding]:
    """Points far outside of their image, and points that lie in it only if x and y are swapped."""
    is_used, size = _is_labelled(rows, poses), rows.size[:, None]
    is_far_point = is_used & _beyond(poses.point, 0 * size, size, FAR * size)
    is_far = _any(is_far_point)
    is_swapped_far = _any(is_used & _beyond(poses.point[:, :, ::-1], 0 * size, size, 0.01 * size))
    has_size = ~np.isnan(rows.size[:, 0]) & _any(is_used)
    are_many = has_size.sum() >= MIN_ROWS and is_far[has_size].mean() >= 0.3
    if are_many and is_swapped_far[has_size].mean() <= 0.05:
        title = f"of {_sets(len(rows.records))} far outside of their image; nearly all fit if x and y are swapped"
        yield from rows.found(
            is_far,
            kind="keypoint-axes",
            severity="warning",
            title=lambda num: f"{num:,} {title}",
            show=lambda row: _shown_in(rows, poses, row, is_far_point[row]),
            effect="if y is before x, nearly every OKS is wrong",
        )
        return
    yield from rows.found(
        is_far,
        kind="keypoint-outside",
        severity="warning" if rows.role == "truths" else "note",
        title=lambda num: f"{_sets(num)} with a point beyond the image by more than {FAR:.0%} of its size",
        show=lambda row: _shown_in(rows, poses, row, is_far_point[row]),
        effect="no detector that stays in the image gets near it"
        if rows.role == "truths"
        else "points are not clipped; clipped at the border, their OKS may be higher",
    )


def fractions(rows: FileRows, poses: PoseRows) -> Iterable[Finding]:
    """Fractions of the image given as pixels."""
    is_used = _is_labelled(rows, poses) & np.isfinite(poses.point).all(axis=2)
    some = poses.point[is_used]
    if rows.records.is_normalized or len(some) < MIN_ROWS or (rows.size <= 4).any():
        return
    if np.abs(some).max() <= LARGEST_FRACTION and (some != np.floor(some)).any():
        yield from rows.found(
            _any(is_used),
            kind="keypoint-fractions",
            severity="warning",
            title=lambda num: f"all numbers of {_sets(num)} lie between {some.min():.3g} and {some.max():.3g}",
            show=lambda row: _shown(poses, row, is_used[row]),
            effect="they look like fractions of the image's size, but are taken as pixels: multiply them by it",
        )


def outside_box(rows: FileRows, poses: PoseRows) -> Iterable[Finding]:
    """Truths whose labelled points are mostly outside of their box."""
    if rows.role != "truths" or not poses.has_boxes:
        return
    is_labelled = _is_labelled(rows, poses)
    low, high = rows.corner[:, None, :2], rows.corner[:, None, 2:]
    is_out = is_labelled & _beyond(poses.point, low, high, FAR * (high - low))
    num_out, num_labelled = is_out.sum(axis=1), is_labelled.sum(axis=1)

    def show(row: int) -> str:
        return f"{num_out[row]} of {count(int(num_labelled[row]), 'labelled point')}, box {rows.show_box(row)}"

    yield from rows.found(
        rows.is_finite & (num_out > MOST * num_labelled),
        kind="keypoints-outside-box",
        severity="warning",
        title=lambda num: f"{count(num, 'truth')} with most of the labelled points outside of the box",
        show=show,
        effect="box and points seem to belong to different objects, or are in different units",
    )


def coinciding(rows: FileRows, poses: PoseRows) -> Iterable[Finding]:
    """Detections with all points in one place."""
    if rows.role == "detections" and poses.point.shape[1] > 1:
        yield from rows.found(
            (poses.point == poses.point[:, :1]).all(axis=(1, 2)),
            kind="coinciding-keypoints",
            severity="warning",
            title=lambda num: f"{count(num, 'detection')} with all keypoints in one place",
            show=lambda row: f"{count(poses.point.shape[1], 'point')} at ({_listed(poses.point[row, 0])})",
            effect="it is like no object, so each is very likely a false positive",
        )


def _numbers(poses: PoseRows) -> Floats:
    """x, y and, if there is one, the third number of each point. Shape (R, K, 2 or 3)."""
    return poses.point if poses.third is None else np.concatenate([poses.point, poses.third[:, :, None]], axis=2)


def _third(poses: PoseRows) -> Floats:
    """The third numbers; 1 where there are none. Shape (R, K)."""
    return np.ones(poses.point.shape[:2]) if poses.third is None else poses.third


def _is_labelled(rows: FileRows, poses: PoseRows) -> Flags:
    """Which points of truths are labelled, and which of detections have a score above 0. Shape (R, K)."""
    is_labelled = _third(poses) > 0
    if rows.role == "detections":  # a file without scores has zeros
        is_labelled = is_labelled | ~is_labelled.any(axis=1, keepdims=True)
    return np.asarray(is_labelled)


def _any(flags: Flags) -> Flags:
    """Whether a row has one. Shape (R,)."""
    return np.asarray(flags.any(axis=1))


def _are_finite(poses: PoseRows) -> Flags:
    return np.asarray(np.isfinite(_numbers(poses)).all(axis=(1, 2)))


def _is_negative(rows: FileRows, poses: PoseRows) -> Flags:
    return np.asarray((_third(poses) < 0).any(axis=1) & (rows.role == "truths"))


def _has_no_size(rows: FileRows, poses: PoseRows) -> Flags:
    """Truths with labelled points whose area is 0, or, without areas, their box."""
    area = rows.records.area
    size = rows.extent.prod(axis=1) if area is None else area
    is_labelled = (_third(poses) > 0).any(axis=1)
    return np.asarray(is_labelled & (size == 0) & (rows.role == "truths"))


def _beyond(point: Floats, low: Floats, high: Floats, slack: Floats) -> Flags:
    """Which points are outside of a region by more than `slack`. Shape (R, K)."""
    return np.asarray(((point < low - slack) | (point > high + slack)).any(axis=2))


def _sets(num: int) -> str:
    return count(num, "set of keypoints", "sets of keypoints")


def _listed(numbers: Floats) -> str:
    return ", ".join(f"{number:.10g}" for number in numbers.tolist())


def _shown(poses: PoseRows, row: int, is_bad: Flags) -> str:
    """The first bad point of a row."""
    index = int(np.argmax(is_bad))
    return f"point {index}: ({_listed(_numbers(poses)[row, index])})"


def _shown_in(rows: FileRows, poses: PoseRows, row: int, is_bad: Flags) -> str:
    width, height = rows.size[row].tolist()
    return f"{_shown(poses, row, is_bad)} in an image of {width:g} x {height:g}"


_CHECKS: Sequence[Check] = (
    not_finite,
    negative_visibility,
    no_size,
    fractions,
    outside_image,
    outside_box,
    other_counts,
    other_visibility,
    coinciding,
    unlabelled,
)
"""In the order of their findings."""


def check_keypoints(rows: FileRows) -> Iterable[Finding]:
    """The findings about keypoints, if the file has some and they were asked for."""
    poses = rows.records.keypoints
    if poses is not None and len(rows.records):
        for check in _CHECKS:
            yield from check(rows, poses)
