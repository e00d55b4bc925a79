"""Checks of the rows of one file, truths or detections: one function per check."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from boxscore._support.text import count
from boxscore.checks.file_rows import FileRows, Flags
from boxscore.checks.findings import Finding
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.geometry.boxes import sizes, to_xyxy
from boxscore.formats.joining import LARGEST_FRACTION, look_like_pixels
from boxscore.formats.records import Floats, Ids

MIN_ROWS = 20
"""Fewer rows than this are not enough to judge all of them."""
REFUSED = "the evaluation refuses the file"


def no_rows(rows: FileRows) -> Iterable[Finding]:
    """A file without a single box."""
    if not len(rows.records):
        effect = "every number is undefined" if rows.role == "truths" else "every AP is 0"
        example = rows.records.source
        title = f"no {rows.noun[1]}"
        yield rows.finding(kind="empty", severity="warning", count=0, title=title, example=example, effect=effect)


def not_finite(rows: FileRows) -> Iterable[Finding]:
    """NaN and infinity in boxes, scores and areas."""
    yield from rows.found(
        ~rows.is_finite,
        kind="not-finite",
        severity="error",
        title=lambda num: f"{count(num, 'box', 'boxes')} with numbers that are not finite",
        show=rows.show_box,
        effect=REFUSED,
    )
    for name in ("score", "area"):
        column = getattr(rows.records, name)
        if column is not None:
            yield from rows.found(
                ~np.isfinite(column),
                kind=f"{name}-not-finite",
                severity="error",
                title=lambda num, name=name: f"{count(num, name)} not finite",  # type: ignore[misc]
                show=lambda row, name=name, column=column: f"{name} {column[row]}",  # type: ignore[misc]
                effect=REFUSED,
            )


def negative_size(rows: FileRows) -> Iterable[Finding]:
    """Boxes with right < left or bottom < top, or with a negative width or height."""
    yield from rows.found(
        rows.is_finite & (rows.extent < 0).any(axis=1),
        kind="negative-size",
        severity="error",
        title=lambda num: f"{count(num, 'box', 'boxes')} of negative width or height",
        show=rows.show_box,
        effect=REFUSED,
    )


def zero_size(rows: FileRows) -> Iterable[Finding]:
    """Boxes without width or height."""
    is_thin = rows.is_finite & (rows.extent == 0).any(axis=1) & (rows.extent >= 0).all(axis=1)
    if rows.protocol.pixels == "inclusive":
        effect = f"under {rows.protocol.name}, where the last pixel counts, each is one pixel wide or high"
    elif rows.protocol.empty == "drop" or (rows.protocol.empty == "drop_detections" and rows.role == "detections"):
        effect = f"it is left out under {rows.protocol.name}"
    elif rows.role == "truths":
        effect = "no detection can overlap it, so each is a miss"
    else:
        effect = "it overlaps no truth, so each is a false positive"
    yield from rows.found(
        is_thin,
        kind="zero-size",
        severity="note" if rows.protocol.pixels == "inclusive" else "warning",
        title=lambda num: f"{count(num, 'box', 'boxes')} of zero width or height",
        show=rows.show_box,
        effect=effect,
    )


def reaches_beyond(corner: Floats, size: Floats, slack: float | Floats) -> Flags:
    """Whether boxes reach beyond their images by more than `slack`; False where the size is unknown."""
    is_out = np.concatenate([corner[:, :2] < -slack, corner[:, 2:] > size + slack], axis=1)
    return np.asarray(is_out.any(axis=1) & ~np.isnan(size[:, 0]))


def _outside_effect(rows: FileRows) -> str:
    if rows.role == "detections":
        return "each is a false positive"
    if rows.protocol.clips_boxes:
        return f"clipped to the image, as under {rows.protocol.name}, it is empty, so each is a miss"
    return "each is a miss for every detector that stays in the image"


def outside_image(rows: FileRows) -> Iterable[Finding]:
    """Boxes that are partly or completely outside of their image."""
    is_valid = rows.is_finite & (rows.extent >= 0).all(axis=1)
    is_outside = (rows.corner[:, :2] > rows.size).any(axis=1) | (rows.corner[:, 2:] < 0).any(axis=1)
    slack, shown = (0.01, "a hundredth of it") if rows.records.is_normalized else (1.0, "a pixel")
    is_outside &= reaches_beyond(rows.corner, rows.size, slack)

    def show(row: int) -> str:
        width, height = rows.size[row].tolist()
        return f"{rows.show_box(row)} in an image of {width:g} x {height:g}"

    yield from rows.found(
        is_valid & is_outside,
        kind="outside-image",
        severity="warning",
        title=lambda num: f"{count(num, 'box', 'boxes')} completely outside of their image",
        show=show,
        effect=_outside_effect(rows),
    )
    if rows.protocol.clips_boxes:
        return
    yield from rows.found(
        is_valid & ~is_outside & reaches_beyond(rows.corner, rows.size, slack),
        kind="over-the-border",
        severity="warning" if rows.role == "truths" else "note",
        title=lambda num: f"{count(num, 'box', 'boxes')} beyond the border of their image by more than {shown}",
        show=show,
        effect="boxes are not clipped, so the part outside lowers the IoU of detections that stay in the image"
        if rows.role == "truths"
        else "boxes are not clipped; clipped at the border, their IoU may be higher",
    )


def box_format(rows: FileRows) -> Iterable[Finding]:
    """Corners given as sizes, or sizes as corners: most boxes fit only in the other format."""
    declared = rows.records.box_format
    others: dict[str, BoxFormat] = {"xywh": "xyxy", "xyxy": "xywh"}
    if declared not in others or int(rows.is_finite.sum()) < MIN_ROWS:
        return
    other = others[declared]
    box = rows.box[rows.is_finite]
    has_size = ~np.isnan(rows.size[rows.is_finite, 0])
    is_negative = (rows.extent[rows.is_finite] < 0).any(axis=1)
    is_positive = (np.stack(sizes(box, other), axis=1) >= 0).all(axis=1)
    if has_size.sum() >= MIN_ROWS:
        size = rows.size[rows.is_finite]
        is_bad = (is_negative | reaches_beyond(rows.corner[rows.is_finite], size, 0.1 * size)) & has_size
        is_good = is_positive & ~reaches_beyond(np.stack(to_xyxy(box, other), axis=1), size, 0.01 * size)
        is_other_format = is_bad[has_size].mean() >= 0.3 and is_good[has_size].mean() >= 0.95
        why = "of negative size, or far outside of their image,"
    elif declared == "xyxy":
        is_bad = is_negative
        is_other_format = is_bad.mean() >= 0.3 and is_positive.mean() >= 0.95
        why = "of negative size"
    else:
        # Without sizes of images: some real widths and heights are smaller than left and top.
        is_bad = np.ones(len(box), bool)
        is_other_format = is_positive.all() and (box[:, :2] > 0).all(axis=1).mean() > 0.5
        why = "with width > left and height > top"
    if is_other_format:
        is_listed = np.zeros(len(rows.records), bool)
        is_listed[np.flatnonzero(rows.is_finite)] = is_bad
        yield from rows.found(
            is_listed,
            kind="box-format",
            severity="warning",
            title=lambda num: (
                f"{num:,} of {count(len(rows.records), 'box', 'boxes')} {why} as {declared}; they fit as {other}"
            ),
            show=rows.show_box,
            effect=f"if they are {other}, nearly every overlap is wrong",
        )


def wrong_unit(rows: FileRows) -> Iterable[Finding]:
    """Fractions of the image given as pixels, or pixels given as fractions."""
    box = rows.box[rows.is_finite]
    if not len(box):
        return
    is_all = np.ones(len(rows.records), bool) & rows.is_finite
    largest = np.abs(box).max()
    if rows.records.is_normalized:
        is_large = look_like_pixels(rows.box, rows.records.box_format)
        is_refused = rows.role == "truths" or 2 * is_large.sum() >= len(rows.records)
        yield from rows.found(
            is_large,
            kind="pixels-as-fractions",
            severity="error" if is_refused else "warning",
            title=lambda num: (
                f"{count(num, 'box', 'boxes')} with numbers above {LARGEST_FRACTION}, in a format of fractions"
            ),
            show=rows.show_box,
            effect=f"they look like pixels: {REFUSED}" if is_refused else "each is far outside of its image",
        )
    elif largest <= 2 and (box != np.floor(box)).any() and not (rows.size <= 4).any():
        yield from rows.found(
            is_all,
            kind="fractions-as-pixels",
            severity="warning",
            title=lambda num: (
                f"all numbers of {count(num, 'box', 'boxes')} lie between {box.min():.3g} and {largest:.3g}"
            ),
            show=rows.show_box,
            effect="they look like fractions of the image's size, but are taken as pixels, so areas are wrong",
        )


def duplicates(rows: FileRows) -> Iterable[Finding]:
    """The same box for the same class in the same image."""
    box = rows.box if rows.records.oriented is None else rows.records.oriented.box
    again, first = repeats(rows.group, np.ascontiguousarray(box + 0.0))
    is_again = np.zeros(len(rows.records), bool)
    is_again[again] = True
    is_again &= rows.is_finite
    first_of = dict(zip(again.tolist(), first.tolist(), strict=True))
    effects = {
        "truths": "a detection matches one of them, and the other is missed",
        "detections": "at most one of them is a true positive, the others are false positives",
    }
    yield from rows.found(
        is_again,
        kind="duplicate-boxes",
        severity="warning",
        title=lambda num: f"{count(num, rows.noun[0])} with the image, class and box of an earlier one",
        show=lambda row: f"{rows.show_box(row)}, as in {rows.records.location(first_of[row])}",
        effect=effects[rows.role],
    )


def repeats(group: Ids, box: Floats) -> tuple[Ids, Ids]:
    """Rows whose group and box occurred before, ascending, and the first rows with them.

    >>> repeats(np.array([7, 7, 8, 7]), np.ones((4, 4)))
    (array([1, 3]), array([0, 0]))
    """
    with np.errstate(over="ignore"):
        # A hash per row; only rows with equal hashes are compared.
        hashed = group.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        for column in box.view(np.uint64).T:
            hashed = (hashed ^ column) * np.uint64(0xD6E8FEB86659FD93)
            hashed ^= hashed >> np.uint64(32)
    order = np.argsort(hashed, kind="stable")
    is_shared = np.zeros(len(order), bool)
    is_same = hashed[order][1:] == hashed[order][:-1]
    is_shared[order[1:][is_same]] = True
    is_shared[order[:-1][is_same]] = True
    candidate = np.flatnonzero(is_shared)
    keys = [candidate, *box[candidate].T, group[candidate]]
    candidate = candidate[np.lexsort(keys)]
    is_equal = (group[candidate][1:] == group[candidate][:-1]) & (box[candidate][1:] == box[candidate][:-1]).all(axis=1)
    is_first = np.concatenate([[True], ~is_equal])[: len(candidate)]
    first = candidate[np.maximum.accumulate(np.where(is_first, np.arange(len(candidate)), 0))]
    ascending = np.argsort(candidate[~is_first])
    return candidate[~is_first][ascending], first[~is_first][ascending]


def scores(rows: FileRows) -> Iterable[Finding]:
    """Scores outside of 0 to 1, or all equal."""
    score = rows.records.score
    if score is None or not len(score):
        return
    fine = score[np.isfinite(score)]
    is_out = np.isfinite(score) & ((score < 0) | (score > 1))
    is_percent = is_out.mean() >= 0.5 and fine.min() >= 0 and 10 < fine.max() <= 100
    order = "only the order of scores matters, so the result is the same"
    yield from rows.found(
        is_out,
        kind="score-percent" if is_percent else "score-range",
        severity="warning",
        title=lambda num: (
            f"{count(num, 'score')} of {len(score):,} outside of 0 to 1"
            + (f", up to {fine.max():g}: they look like percentages" if is_percent else "")
        ),
        show=lambda row: f"score {score[row]:.10g}",
        effect=order if is_out.all() else f"{order}, unless the scores have different scales",
    )
    if len(score) >= MIN_ROWS and (score == score[0]).all():
        yield from rows.found(
            np.ones(len(score), bool),
            kind="score-same",
            severity="warning",
            title=lambda num: f"all {count(num, 'score')} are {score[0]:.10g}",
            show=lambda row: f"score {score[row]:.10g}",
            effect="the order of rows in the file decides the precision",
        )


def over_limit(rows: FileRows) -> Iterable[Finding]:
    """More detections than the limit: per image and class, per image, or per class."""
    protocol, limit = rows.protocol, rows.protocol.limits[-1]
    if limit is None or rows.records.score is None or not len(rows.records):
        return
    group, nouns = {
        "class": (rows.group, ("image and class", "images and classes")),
        "image": (rows.image, ("image", "images")),
        "dataset": (rows.label, ("class", "classes")),
    }[protocol.limits_per]
    _, code, counts = np.unique(group, return_inverse=True, return_counts=True)
    is_over = counts > limit
    if not is_over.any():
        return
    num = int((counts[is_over] - limit).sum())
    row = int(np.argmax(is_over[code]))
    image, label = f"image {rows.show_image(row)}", f"class {rows.show_class(row)}"
    place = {"class": f"{image}, {label}", "image": image, "dataset": label}[protocol.limits_per]
    where = f"{place}: {counts[code[row]]:,} detections"
    pairs = count(int(is_over.sum()), *nouns)
    yield rows.finding(
        kind="over-limit",
        severity="warning",
        count=num,
        title=f"{count(num, 'detection')} beyond the limit of {limit:,} {protocol.limit_scope}, in {pairs}",
        example=f"{rows.records.location(row)}: {where}",
        effect=f"only the {limit:,} with the highest scores count under {protocol.title}",
    )


Check = Callable[[FileRows], Iterable[Finding]]
CHECKS: Sequence[Check] = (
    no_rows,
    not_finite,
    negative_size,
    box_format,
    wrong_unit,
    zero_size,
    outside_image,
    duplicates,
    scores,
    over_limit,
)
"""In the order of their findings."""
CHECKS_WITHOUT_BOXES: Sequence[Check] = (no_rows, scores, over_limit)
"""Those of rows whose boxes are not in the file."""
