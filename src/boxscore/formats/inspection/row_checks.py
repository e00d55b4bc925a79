"""Checks of the rows of one file, truths or detections: one function a check."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from boxscore._support.text import count
from boxscore.formats.inspection.file_rows import Flags, Side
from boxscore.formats.inspection.findings import Finding
from boxscore.formats.joining import LARGEST_FRACTION, look_like_pixels
from boxscore.formats.records import Floats, Ids
from boxscore.geometry.boxes import BoxFormat, sizes, to_xyxy

FEW = 20
"""Fewer rows than this are no evidence for a guess about all of them."""
REFUSED = "the evaluation refuses the file"


def no_rows(side: Side) -> Iterable[Finding]:
    """A file without a single box."""
    if not len(side.records):
        effect = "every number is undefined" if side.role == "truths" else "every AP is 0"
        example = side.records.source
        title = f"no {side.noun[1]}"
        yield side.finding(kind="empty", severity="warning", count=0, title=title, example=example, effect=effect)


def not_finite(side: Side) -> Iterable[Finding]:
    """NaN and infinity in boxes, scores and areas."""
    yield from side.found(
        ~side.is_finite,
        kind="not-finite",
        severity="error",
        title=lambda num: f"{count(num, 'box', 'boxes')} with numbers that are not finite",
        show=side.show_box,
        effect=REFUSED,
    )
    for name in ("score", "area"):
        column = getattr(side.records, name)
        if column is not None:
            yield from side.found(
                ~np.isfinite(column),
                kind=f"{name}-not-finite",
                severity="error",
                title=lambda num, name=name: f"{count(num, name)} not finite",  # type: ignore[misc]
                show=lambda row, name=name, column=column: f"{name} {column[row]}",  # type: ignore[misc]
                effect=REFUSED,
            )


def negative_size(side: Side) -> Iterable[Finding]:
    """Boxes whose right is left of their left, or that say a width or height below 0."""
    yield from side.found(
        side.is_finite & (side.extent < 0).any(axis=1),
        kind="negative-size",
        severity="error",
        title=lambda num: f"{count(num, 'box', 'boxes')} of negative width or height",
        show=side.show_box,
        effect=REFUSED,
    )


def zero_size(side: Side) -> Iterable[Finding]:
    """Boxes without width or height."""
    is_thin = side.is_finite & (side.extent == 0).any(axis=1) & (side.extent >= 0).all(axis=1)
    if side.protocol.pixels == "inclusive":
        effect = f"under {side.protocol.name}, where the last pixel counts, each is one pixel thin"
    elif side.role == "truths":
        effect = "no detection can overlap it, so each is a miss"
    else:
        effect = "it overlaps no truth, so each is a false positive"
    yield from side.found(
        is_thin,
        kind="zero-size",
        severity="note" if side.protocol.pixels == "inclusive" else "warning",
        title=lambda num: f"{count(num, 'box', 'boxes')} of zero width or height",
        show=side.show_box,
        effect=effect,
    )


def reaches_out(corner: Floats, size: Floats, slack: float | Floats) -> Flags:
    """Whether boxes reach out of their images by more than `slack`; never where the size is unknown."""
    is_out = np.concatenate([corner[:, :2] < -slack, corner[:, 2:] > size + slack], axis=1)
    return np.asarray(is_out.any(axis=1) & ~np.isnan(size[:, 0]))


def outside_image(side: Side) -> Iterable[Finding]:
    """Boxes beyond the borders: some of it, or all of it."""
    is_sound = side.is_finite & (side.extent >= 0).all(axis=1)
    is_apart = (side.corner[:, :2] > side.size).any(axis=1) | (side.corner[:, 2:] < 0).any(axis=1)
    slack, shown = (0.01, "a hundredth of it") if side.records.is_normalized else (1.0, "a pixel")
    is_apart &= reaches_out(side.corner, side.size, slack)

    def show(row: int) -> str:
        width, height = side.size[row].tolist()
        return f"{side.show_box(row)} in an image of {width:g} x {height:g}"

    yield from side.found(
        is_sound & is_apart,
        kind="outside-image",
        severity="warning",
        title=lambda num: f"{count(num, 'box', 'boxes')} wholly outside of their image",
        show=show,
        effect="each is a miss for every detector that stays in the image"
        if side.role == "truths"
        else "each is a false positive",
    )
    yield from side.found(
        is_sound & ~is_apart & reaches_out(side.corner, side.size, slack),
        kind="over-the-border",
        severity="warning" if side.role == "truths" else "note",
        title=lambda num: f"{count(num, 'box', 'boxes')} over the border of their image by more than {shown}",
        show=show,
        effect="boxes are taken as they are, so the part outside lowers the IoU of detections that stay in the image"
        if side.role == "truths"
        else "boxes are taken as they are; cut at the border, their IoU may be higher",
    )


def box_format(side: Side) -> Iterable[Finding]:
    """Corners given as sizes, or sizes as corners: most boxes fit only if read the other way."""
    declared = side.records.box_format
    others: dict[str, BoxFormat] = {"xywh": "xyxy", "xyxy": "xywh"}
    if declared not in others or int(side.is_finite.sum()) < FEW:
        return
    other = others[declared]
    box = side.box[side.is_finite]
    has_size = ~np.isnan(side.size[side.is_finite, 0])
    is_negative = (side.extent[side.is_finite] < 0).any(axis=1)
    is_positive = (np.stack(sizes(box, other), axis=1) >= 0).all(axis=1)
    if has_size.sum() >= FEW:
        size = side.size[side.is_finite]
        is_bad = (is_negative | reaches_out(side.corner[side.is_finite], size, 0.1 * size)) & has_size
        is_good = is_positive & ~reaches_out(np.stack(to_xyxy(box, other), axis=1), size, 0.01 * size)
        is_mixed_up = is_bad[has_size].mean() >= 0.3 and is_good[has_size].mean() >= 0.95
        why = "of negative size, or far outside of their image,"
    elif declared == "xyxy":
        is_bad = is_negative
        is_mixed_up = is_bad.mean() >= 0.3 and is_positive.mean() >= 0.95
        why = "of negative size"
    else:
        # Without sizes: among real widths and heights, some are smaller than left and top.
        is_bad = np.ones(len(box), bool)
        is_mixed_up = is_positive.all() and (box[:, :2] > 0).all(axis=1).mean() > 0.5
        why = "wider than what is left of them and higher than what is above,"
    if is_mixed_up:
        rows = np.zeros(len(side.records), bool)
        rows[np.flatnonzero(side.is_finite)] = is_bad
        yield from side.found(
            rows,
            kind="box-format",
            severity="warning",
            title=lambda num: (
                f"{num:,} of {count(len(side.records), 'box', 'boxes')} {why} as {declared}; they fit as {other}"
            ),
            show=side.show_box,
            effect=f"if they are {other}, nearly every overlap is wrong",
        )


def wrong_unit(side: Side) -> Iterable[Finding]:
    """Fractions of the image given as pixels, or pixels as fractions."""
    box = side.box[side.is_finite]
    if not len(box):
        return
    is_all = np.ones(len(side.records), bool) & side.is_finite
    largest = np.abs(box).max()
    if side.records.is_normalized:
        is_large = look_like_pixels(side.box, side.records.box_format)
        is_refused = side.role == "truths" or 2 * is_large.sum() >= len(side.records)
        yield from side.found(
            is_large,
            kind="pixels-as-fractions",
            severity="error" if is_refused else "warning",
            title=lambda num: (
                f"{count(num, 'box', 'boxes')} with numbers above {LARGEST_FRACTION}, in a format of fractions"
            ),
            show=side.show_box,
            effect=f"they look like pixels: {REFUSED}" if is_refused else "each is far outside of its image",
        )
    elif largest <= 2 and (box != np.floor(box)).any() and not (side.size <= 4).any():
        yield from side.found(
            is_all,
            kind="fractions-as-pixels",
            severity="warning",
            title=lambda num: (
                f"all numbers of {count(num, 'box', 'boxes')} lie between {box.min():.3g} and {largest:.3g}"
            ),
            show=side.show_box,
            effect="they look like fractions of the image's size, but are taken as pixels, so areas are wrong",
        )


def duplicates(side: Side) -> Iterable[Finding]:
    """The same box for the same class in the same image."""
    rows, first = repeats(side.group, np.ascontiguousarray(side.box + 0.0))
    is_again = np.zeros(len(side.records), bool)
    is_again[rows] = True
    is_again &= side.is_finite
    first_of = dict(zip(rows.tolist(), first.tolist(), strict=True))
    truth = "a detection finds one of them, and the other is a miss"
    yield from side.found(
        is_again,
        kind="duplicate-boxes",
        severity="warning",
        title=lambda num: f"{count(num, side.noun[0])} with image, class and box of an earlier one",
        show=lambda row: f"{side.show_box(row)}, as in {side.records.place(first_of[row])}",
        effect=truth if side.role == "truths" else "at most one of them is a hit, the others are false positives",
    )


def repeats(group: Ids, box: Floats) -> tuple[Ids, Ids]:
    """Rows whose group and box came before, ascending, and where they came first.

    >>> repeats(np.array([7, 7, 8, 7]), np.ones((4, 4)))
    (array([1, 3]), array([0, 0]))
    """
    with np.errstate(over="ignore"):
        # A number for a row that equal rows share; only those that share one are sorted in full.
        mixed = group.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        for column in box.view(np.uint64).T:
            mixed = (mixed ^ column) * np.uint64(0xD6E8FEB86659FD93)
            mixed ^= mixed >> np.uint64(32)
    order = np.argsort(mixed, kind="stable")
    is_shared = np.zeros(len(order), bool)
    is_same = mixed[order][1:] == mixed[order][:-1]
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


def scores(side: Side) -> Iterable[Finding]:
    """Scores that are no fractions, or all the same."""
    score = side.records.score
    if score is None or not len(score):
        return
    fine = score[np.isfinite(score)]
    is_out = np.isfinite(score) & ((score < 0) | (score > 1))
    is_percent = is_out.mean() >= 0.5 and fine.min() >= 0 and 10 < fine.max() <= 100
    order = "only the order of scores counts, so the result is the same"
    yield from side.found(
        is_out,
        kind="score-percent" if is_percent else "score-range",
        severity="warning",
        title=lambda num: (
            f"{count(num, 'score')} of {len(score):,} outside of 0 to 1"
            + (f", up to {fine.max():g}: they look like percentages" if is_percent else "")
        ),
        show=lambda row: f"score {score[row]:.10g}",
        effect=order if is_out.all() else f"{order}, unless some scores are of one scale and some of another",
    )
    if len(score) >= FEW and (score == score[0]).all():
        yield from side.found(
            np.ones(len(score), bool),
            kind="score-same",
            severity="warning",
            title=lambda num: f"all {count(num, 'score')} are {score[0]:.10g}",
            show=lambda row: f"score {score[row]:.10g}",
            effect="the order of rows in the file decides the precision",
        )


def over_limit(side: Side) -> Iterable[Finding]:
    """More detections in an image and class than count."""
    limit = side.protocol.largest_limit
    if side.records.score is None or not len(side.records):
        return
    _, code, counts = np.unique(side.group, return_inverse=True, return_counts=True)
    is_over = counts > limit
    if not is_over.any():
        return
    num = int((counts[is_over] - limit).sum())
    row = int(np.argmax(is_over[code]))
    where = f"image {side.show_image(row)}, class {side.show_class(row)}: {counts[code[row]]:,} detections"
    pairs = count(int(is_over.sum()), "image and class", "images and classes")
    yield side.finding(
        kind="over-limit",
        severity="warning",
        count=num,
        title=f"{count(num, 'detection')} beyond the {limit:g} that count of an image and class, in {pairs}",
        example=f"{side.records.place(row)}: {where}",
        effect=f"only the {limit:g} with the highest scores count under {side.protocol.title}",
    )


CHECKS: Sequence[Callable[[Side], Iterable[Finding]]] = (
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
"""In the order in which findings are told."""
