"""Checks of the rows of files: of any file, of truths and LVIS' lists, and of detections joined with their truths."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from boxscore.checks.checklist import REFUSED, Check, Counted, Evidence, Severity
from boxscore.checks.evidence import (
    MIN_BOXES,
    SHIFTED,
    LabelReading,
    best_rows,
    boxes_on,
    find_other_format,
    find_overlaps,
    find_shifted_labels,
    label_readings,
    one_class,
    reaches_beyond,
)
from boxscore.checks.file_rows import FileRows, Flags, Pair, names_of
from boxscore.data.batch_keys import COVERAGE_KEYS
from boxscore.data.coverage import pair_keys
from boxscore.data.dataset import Detections, host_ids
from boxscore.data.geometry.boxes import LARGEST_FRACTION, look_like_fractions
from boxscore.formats.joining import look_like_pixels
from boxscore.formats.records import Floats, Ids, Named, codes_of

MAX_TINY = 4
"""In images of at most this width or height, small numbers may be pixels."""
AREA_EFFECT = "the area decides between small, medium and large, so the results of these ranges change"
_OTHER_CLASSES = "detections are compared with truths of other classes, so AP is near 0"
_OR_LEFT_OUT = f"{REFUSED}; with --unmatched warn, it leaves them out"


# Rows of any file.


def _no_rows(rows: FileRows) -> Iterable[Evidence]:
    if not len(rows.records):
        effect = rows.of_role("every number is undefined", "every AP is 0")
        yield Evidence(num=0, facts={"role": rows.role, "effect": effect}, example=rows.records.source)


def _not_finite(rows: FileRows, name: str) -> Iterable[Evidence]:
    column = getattr(rows.records, name)
    return () if column is None else rows.where(~np.isfinite(column), lambda row: f"{name} {column[row]}")


def _zero_size(rows: FileRows) -> Iterable[Evidence]:
    protocol, is_inclusive = rows.protocol, rows.protocol.pixels == "inclusive"
    if is_inclusive:
        effect = f"under {protocol.name}, where the last pixel counts, each is one pixel wide or high"
    elif protocol.empty == "drop" or (protocol.empty == "drop_detections" and rows.role == "detections"):
        effect = f"it is left out under {protocol.name}"
    else:
        effect = overlaps_nothing(rows)
    is_thin = rows.is_finite & (rows.extent == 0).any(axis=1) & (rows.extent >= 0).all(axis=1)
    return rows.where(is_thin, severity="note" if is_inclusive else None, effect=effect)


def overlaps_nothing(rows: FileRows) -> str:
    """Text for the effect of shapes without area."""
    return rows.of_role(
        "no detection can overlap it, so each is a miss", "it overlaps no truth, so each is a false positive"
    )


def _is_outside(rows: FileRows) -> tuple[Flags, Flags, str]:
    """Which boxes are completely outside of their image, which partly, and the tolerance as text."""
    is_valid = rows.is_finite & (rows.extent >= 0).all(axis=1)
    slack, shown = (0.01, "a hundredth of it") if rows.records.is_normalized else (1.0, "a pixel")
    is_beyond = is_valid & reaches_beyond(rows.corner, rows.size, slack)
    is_apart = (rows.corner[:, :2] > rows.size).any(axis=1) | (rows.corner[:, 2:] < 0).any(axis=1)
    return is_beyond & is_apart, is_beyond & ~is_apart, shown


def _show_outside(rows: FileRows, row: int) -> str:
    width, height = rows.size[row].tolist()
    return f"{rows.show_box(row)} in an image of {width:g} x {height:g}"


def _outside_image(rows: FileRows) -> Iterable[Evidence]:
    effect = rows.of_role("each is a miss for every detector that stays in the image", "each is a false positive")
    if rows.protocol.clips_boxes and rows.role == "truths":
        effect = f"clipped to the image, as under {rows.protocol.name}, it is empty, so each is a miss"
    return rows.where(_is_outside(rows)[0], lambda row: _show_outside(rows, row), effect=effect)


def _over_the_border(rows: FileRows) -> Iterable[Evidence]:
    if rows.protocol.clips_boxes:
        return ()
    effect = rows.of_role(
        "boxes are not clipped, so the part outside lowers the IoU of detections that stay in the image",
        "boxes are not clipped; clipped at the border, their IoU may be higher",
    )
    _, is_bad, shown = _is_outside(rows)
    severity: Severity | None = None if rows.role == "truths" else "note"
    return rows.where(is_bad, lambda row: _show_outside(rows, row), severity=severity, slack=shown, effect=effect)


def _other_format(rows: FileRows) -> Iterable[Evidence]:
    finite = np.flatnonzero(rows.is_finite)
    is_truths, declared = rows.role == "truths", rows.records.box_format
    found = find_other_format(rows.box[finite], declared, rows.size[finite], is_truths=is_truths)
    if found is None:
        return ()
    is_bad = np.zeros(len(rows.records), bool)
    is_bad[finite] = found.is_bad
    return rows.where(is_bad, rows=len(rows.records), why=found.why, declared=declared, other=found.other)


def _pixels_as_fractions(rows: FileRows) -> Iterable[Evidence]:
    if not rows.records.is_normalized or not len(rows.records):
        return ()
    is_large = look_like_pixels(rows.box, rows.records.box_format)
    is_refused = rows.role == "truths" or 2 * is_large.sum() >= len(rows.records)
    effect = f"they look like pixels: {REFUSED}" if is_refused else "each is far outside of its image"
    return rows.where(is_large, severity="error" if is_refused else None, most=LARGEST_FRACTION, effect=effect)


def _fractions_as_pixels(rows: FileRows) -> Iterable[Evidence]:
    return fractions_in(rows, rows.box, rows.is_finite)


def fractions_in(
    rows: FileRows, values: Floats, is_used: Flags, show: Callable[[int], str] | None = None
) -> Iterable[Evidence]:
    """Evidence that numbers in a format of pixels are fractions of the image's size; empty if they are not.

    Args:
        rows: The rows of a file.
        values: The numbers of each row. Shape (R, …).
        is_used: Which of them to check. Shape (R,), or the shape of `values` without its last axis.
        show: Function that describes a row.
    """
    used = values[is_used]
    if rows.records.is_normalized or (rows.size <= MAX_TINY).any() or not look_like_fractions(used):
        return ()
    is_row = is_used if is_used.ndim == 1 else is_used.any(axis=1)
    inside = used[np.abs(used).max(axis=1) <= LARGEST_FRACTION]
    return rows.where(is_row, show, low=float(inside.min()), high=float(inside.max()))


def _duplicates(rows: FileRows) -> Iterable[Evidence]:
    again, first = repeats(rows.group, np.ascontiguousarray(rows.records.written_boxes[0] + 0.0))
    is_again = np.zeros(len(rows.records), bool)
    is_again[again] = True
    first_of = dict(zip(again.tolist(), first.tolist(), strict=True))
    effect = rows.of_role(
        "a detection matches one of them, and the other is missed",
        "at most one of them is a true positive, the others are false positives",
    )
    return rows.where(
        is_again & rows.is_finite,
        lambda row: f"{rows.show_box(row)}, as in {rows.records.location(first_of[row])}",
        noun=rows.role.removesuffix("s"),
        effect=effect,
    )


def repeats(group: Ids, box: Floats) -> tuple[Ids, Ids]:
    """Rows whose group and box occurred before, ascending, and for each the first such row.

    >>> repeats(np.array([7, 7, 8, 7]), np.ones((4, 4)))
    (array([1, 3]), array([0, 0]))
    """
    with np.errstate(over="ignore"):
        # Hash each row; only rows with equal hashes are compared.
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


def _scores(rows: FileRows, *, are_percent: bool) -> Iterable[Evidence]:
    score = rows.records.score
    if score is None or not len(score):
        return ()
    finite = score[np.isfinite(score)]
    is_out = np.isfinite(score) & ((score < 0) | (score > 1))
    if are_percent != (is_out.mean() >= 0.5 and finite.min() >= 0 and 10 < finite.max() <= 100):
        return ()
    scales = "" if is_out.all() else ", unless the scores have different scales"
    return rows.where(
        is_out,
        lambda row: f"score {score[row]:.10g}",
        rows=len(score),
        most=float(finite.max(initial=0)),
        scales=scales,
    )


def _same_scores(rows: FileRows) -> Iterable[Evidence]:
    score = rows.records.score
    if score is None or len(score) < 2 * MIN_BOXES or not (score == score[0]).all():
        return ()
    return rows.where(np.ones(len(score), bool), lambda row: f"score {score[row]:.10g}", score=float(score[0]))


def _over_limit(rows: FileRows) -> Iterable[Evidence]:
    protocol, limit = rows.protocol, rows.protocol.limits[-1]
    if limit is None or rows.records.score is None or not len(rows.records):
        return
    group, nouns = {
        "class": (rows.group, "image and class/images and classes"),
        "image": (rows.image, "image"),
        "dataset": (rows.label, "class/classes"),
    }[protocol.limits_per]
    _, code, counts = np.unique(group, return_inverse=True, return_counts=True)
    is_over = counts > limit
    if not is_over.any():
        return
    row = int(np.argmax(is_over[code]))
    image, label = f"image {rows.show_image(row)}", f"class {rows.show_class(row)}"
    place = {"class": f"{image}, {label}", "image": image, "dataset": label}[protocol.limits_per]
    groups = format(Counted(is_over.sum()), nouns)
    yield Evidence(
        num=int((counts[is_over] - limit).sum()),
        facts={"limit": limit, "scope": protocol.limit_scope, "groups": groups, "protocol": protocol.title},
        example=f"{rows.records.location(row)}: {place}: {counts[code[row]]:,} detections",
    )


_ORDER = "only the order of scores matters, so the result is the same{scales}"
_OF_BOXES: Sequence[Check[FileRows]] = (
    Check(
        "not-finite",
        lambda rows: rows.where(~rows.is_finite),
        "{num:box/boxes} with numbers that are not finite",
        REFUSED,
        "error",
    ),
    Check("score-not-finite", lambda rows: _not_finite(rows, "score"), "{num:score} not finite", REFUSED, "error"),
    Check("area-not-finite", lambda rows: _not_finite(rows, "area"), "{num:area} not finite", REFUSED, "error"),
    Check(
        "negative-size",
        lambda rows: rows.where(rows.is_finite & (rows.extent < 0).any(axis=1)),
        "{num:box/boxes} of negative width or height",
        REFUSED,
        "error",
    ),
    Check(
        "box-format",
        _other_format,
        "{num} of {rows:box/boxes} {why} as {declared}; they fit as {other}",
        "if they are {other}, nearly every overlap is wrong",
    ),
    Check(
        "pixels-as-fractions",
        _pixels_as_fractions,
        "{num:box/boxes} with numbers above {most:g}, in a format of fractions",
        "{effect}",
    ),
    Check(
        "fractions-as-pixels",
        _fractions_as_pixels,
        "all numbers of {num:box/boxes} lie between {low:.3g} and {high:.3g}",
        "they look like fractions of the image's size, but are taken as pixels, so areas are wrong",
    ),
    Check("zero-size", _zero_size, "{num:box/boxes} of zero width or height", "{effect}"),
    Check("outside-image", _outside_image, "{num:box/boxes} completely outside of their image", "{effect}"),
    Check(
        "over-the-border",
        _over_the_border,
        "{num:box/boxes} beyond the border of their image by more than {slack}",
        "{effect}",
    ),
    Check("duplicate-boxes", _duplicates, "{num:{noun}} with the image, class and box of an earlier one", "{effect}"),
)
_OF_SCORES: Sequence[Check[FileRows]] = (
    Check(
        "score-percent",
        lambda rows: _scores(rows, are_percent=True),
        "{num:score} of {rows} outside of 0 to 1, up to {most:g}: they look like percentages",
        _ORDER,
    ),
    Check(
        "score-range",
        lambda rows: _scores(rows, are_percent=False),
        "{num:score} of {rows} outside of 0 to 1",
        _ORDER,
    ),
    Check(
        "score-same",
        _same_scores,
        "all {num:score} are {score:.10g}",
        "the order of rows in the file decides the precision",
    ),
    Check(
        "over-limit",
        _over_limit,
        "{num:detection} beyond the limit of {limit} {scope}, in {groups}",
        "only the {limit} with the highest scores count under {protocol}",
    ),
)
_EMPTY: Check[FileRows] = Check("empty", _no_rows, "no {role}", "{effect}")

ROW_CHECKS: Sequence[Check[FileRows]] = (_EMPTY, *_OF_BOXES, *_OF_SCORES)
"""Checks of the rows of any file."""
ROW_CHECKS_WITHOUT_BOXES: Sequence[Check[FileRows]] = (_EMPTY, *_OF_SCORES)
"""Checks of rows without boxes in the file."""


# Truths, apart from their boxes: ids, images, classes, areas.


def _duplicate_ids(rows: FileRows) -> Iterable[Evidence]:
    ids = rows.records.id
    if ids is None or not len(ids):
        return ()
    _, first, code = np.unique(ids, return_index=True, return_inverse=True)
    return rows.where(
        first[code] != np.arange(len(ids)), lambda row: f"as in {rows.records.location(int(first[code[row]]))}"
    )


def _zero_ids(rows: FileRows) -> Iterable[Evidence]:
    return () if rows.records.id is None else rows.where(rows.records.id == 0)


def _unlisted_images(rows: FileRows) -> Iterable[Evidence]:
    listed = rows.records.image_names
    if listed is None or isinstance(rows.records.image, Named):
        return ()
    is_unlisted = ~np.isin(rows.image, np.fromiter(listed, np.int64, len(listed)))
    return rows.where(is_unlisted, lambda row: f"image {rows.show_image(row)}")


def is_listed(rows: FileRows) -> Flags:
    """Whether the file lists the class of each row; True if it has no list."""
    listed, label = rows.records.class_names, rows.records.label
    if listed is None:
        return np.ones(len(label), bool)
    if isinstance(label, Named):
        names = set(listed.values())
        return np.isin(label.code, [code for code, name in enumerate(label.names) if name in names])
    return np.isin(label, np.fromiter(listed, np.int64, len(listed)))


def _areas(rows: FileRows, is_bad: Callable[[Floats, Floats, Floats], Flags]) -> Iterable[Evidence]:
    """Evidence about areas for which `is_bad` is true; it gets area, width and height."""
    area = rows.records.area
    if area is None or rows.records.is_normalized:
        return ()
    width, height = rows.extent.T
    effect = "each truth is in the range of small objects"
    if rows.protocol.empty == "drop":
        effect = f"it is left out under {rows.protocol.name}"
    return rows.where(
        np.isfinite(area) & is_bad(area, width, height),
        lambda row: f"area {area[row]:.10g}, box {width[row]:.10g} x {height[row]:.10g}",
        effect=effect,
    )


def _is_valid_box(width: Floats, height: Floats) -> Flags:
    return np.isfinite(width) & np.isfinite(height) & (width >= 0) & (height >= 0)


def _unused_classes(rows: FileRows) -> Iterable[Evidence]:
    names = class_names_of(rows)
    used = set(np.unique(rows.label).tolist())
    if isinstance(rows.records.label, Named) and rows.records.class_names is not None:
        used = {number for number, name in names.items() if name in set(rows.records.label.names)}
    return rows.listed([name for number, name in names.items() if number not in used])


def class_names_of(rows: FileRows) -> Mapping[int, str]:
    """Names of the classes of a file; ids as text if it has no names."""
    if rows.records.class_names is not None:
        return rows.records.class_names
    return names_of(rows.records.label, None)


def spelling(name: str) -> str:
    """The name without case, spaces, hyphens and underscores.

    >>> spelling("Traffic Light") == spelling("traffic_light")
    True
    """
    return "".join(letter for letter in name.casefold() if not letter.isspace() and letter not in "-_")


def _similar_names(rows: FileRows) -> Iterable[Evidence]:
    by_spelling: dict[str, list[str]] = {}
    for name in class_names_of(rows).values():
        by_spelling.setdefault(spelling(name), []).append(name)
    alike = [names for names in by_spelling.values() if len(names) > 1]
    return rows.listed(alike[0] if alike else [], sum(map(len, alike)))


def _duplicate_file_names(rows: FileRows) -> Iterable[Evidence]:
    names = Counter(rows.image_names.values())
    again = [name for name, num in names.items() if num > 1]
    return rows.listed(again, sum(names[name] for name in again))


def _missing_sizes(rows: FileRows) -> Iterable[Evidence]:
    return rows.listed([name for number, name in rows.image_names.items() if number not in rows.image_sizes])


# LVIS' lists: which classes were verified in which images.

_NEGATIVE = COVERAGE_KEYS[0]


class _Lists(NamedTuple):
    """The entries of the lists of classes that LVIS' images have. E entries."""

    image: Ids
    """The image of each entry, numbered as in `FileRows.image`. Shape (E,)."""
    label: Ids
    is_exhaustive: Flags


def _lists_of(rows: FileRows) -> _Lists | None:
    """LVIS' lists; None if the file has none."""
    coverage = rows.records.coverage
    if coverage is None or coverage.is_exhaustive is None or isinstance(coverage.label, Named):
        return None  # Open Images' image labels also have classes that are present
    image = coverage.image
    if isinstance(image, Named):
        code_of = {name: code for code, name in rows.image_names.items()}
        image = np.array([code_of[name] for name in image.names], np.int64)[image.code]
    return _Lists(image, coverage.label, np.asarray(coverage.is_exhaustive, bool))


def _entries(rows: FileRows, lists: _Lists, is_bad: Flags) -> Iterable[Evidence]:
    """Yield evidence about the bad entries of the lists, if any."""
    num = int(is_bad.sum())
    if num:
        entry = int(np.argmax(is_bad))
        image, label = int(lists.image[entry]), int(lists.label[entry])
        known = rows.records.class_names or {}
        name = f" ({known[label]!r})" if label in known else ""
        where = f"image {rows.image_names.get(image, image)!r}: `{_NEGATIVE}` has {label}{name}"
        yield Evidence(num=num, example=f"{rows.records.source}: {where}")


def _unknown_negatives(rows: FileRows) -> Iterable[Evidence]:
    lists, listed = _lists_of(rows), rows.records.class_names
    if lists is None or listed is None:
        return ()
    return _entries(rows, lists, ~np.isin(lists.label, np.fromiter(listed, np.int64, len(listed))))


def _annotated_negatives(rows: FileRows) -> Iterable[Evidence]:
    lists = _lists_of(rows)
    if lists is None:
        return ()
    keys = pair_keys(np.concatenate([lists.image, rows.image]), np.concatenate([lists.label, rows.label]))
    own, annotated = np.split(keys, [lists.image.size])
    # Entries of `not_exhaustive_category_ids` are not exhaustive; skip them.
    return _entries(rows, lists, np.isin(own, annotated) & lists.is_exhaustive)


def _no_frequency(rows: FileRows) -> Iterable[Evidence]:
    if _lists_of(rows) is not None and rows.records.class_groups is None:
        example = f"{rows.records.source}: LVIS' categories have `frequency`: r, c or f"
        yield Evidence(num=len(rows.records.class_names or ()), example=example)


TRUTH_CHECKS: Sequence[Check[FileRows]] = (
    Check(
        "unknown-class",
        lambda rows: rows.where(~is_listed(rows), lambda row: f"class {rows.show_class(row)}"),
        "{num:truth} of classes that are not listed",
        REFUSED,
        "error",
    ),
    Check(
        "unknown-image",
        _unlisted_images,
        "{num:truth} on images that are not listed",
        "they are left out, as in pycocotools; detections on such images are an error",
    ),
    Check(
        "duplicate-ids",
        _duplicate_ids,
        "{num:annotation} with the id of an earlier one",
        "boxscore counts each of them; tools that look annotations up by id, as pycocotools does, confuse them",
    ),
    Check(
        "zero-id",
        _zero_ids,
        "{num:annotation} with the id 0",
        "boxscore counts it; for pycocotools 0 means no match, so its detection is a false positive",
    ),
    Check(
        "negative-area", lambda rows: _areas(rows, lambda area, *_: area < 0), "{num:area} below 0", REFUSED, "error"
    ),
    Check(
        "zero-area",
        lambda rows: _areas(
            rows, lambda area, width, height: _is_valid_box(width, height) & (area == 0) & (width * height > 0)
        ),
        "{num:area} of 0, though the box is not empty",
        "{effect}",
    ),
    # Counting the last pixel adds one to each side, which is more than any rounding.
    Check(
        "large-area",
        lambda rows: _areas(
            rows,
            lambda area, width, height: _is_valid_box(width, height) & (area > (width + 1) * (height + 1) * (1 + 1e-9)),
        ),
        "{num:area} larger than the box",
        AREA_EFFECT,
    ),
    Check(
        "similar-names",
        _similar_names,
        "{num:class/classes} with names that differ in case or spaces at most",
        "they are different classes: a detection of one does not match a truth of the other",
    ),
    Check(
        "duplicate-file-names",
        _duplicate_file_names,
        "{num:image} with the file name of another",
        "detections that give images by file name match none of them",
    ),
    Check(
        "unused-class",
        _unused_classes,
        "{num:class/classes} without truths",
        "their AP is undefined, and not in the mean",
        "note",
    ),
    Check(
        "no-size",
        _missing_sizes,
        "{num:image} of unknown size",
        "boxes outside of them are not found, and fractions need sizes; give them as --sizes",
        "note",
    ),
    Check(
        "unknown-negative",
        _unknown_negatives,
        f"{{num:entry/entries}} of `{_NEGATIVE}` with a class that is not listed",
        "it says nothing: a detection of such a class is an error",
    ),
    Check(
        "annotated-negative",
        _annotated_negatives,
        f"{{num:entry/entries}} of `{_NEGATIVE}` with a class that has annotations in the image",
        "the annotations count, as in any image where the class was verified",
    ),
    Check(
        "no-frequency",
        _no_frequency,
        f"{{num:category/categories}} without `frequency`, though images have `{_NEGATIVE}`",
        "under lvis, map_rare, map_common and map_frequent are undefined",
    ),
)
"""Checks of truths, apart from their boxes."""


# Detections joined with their truths.


def _some(values: Iterable[str]) -> str:
    known = list(values)
    return ", ".join(known[:5]) + (", …" if len(known) > 5 else "")


def _unknown_images(pair: Pair) -> Iterable[Evidence]:
    rows, known = pair.detections, _some((pair.truths.image_names or {}).values())
    return rows.where(pair.is_image_lost, lambda row: f"image {rows.show_image(row)}; known: {known}")


def _unknown_classes(pair: Pair) -> Iterable[Evidence]:
    rows, names = pair.detections, pair.truths.names_by_label or {}
    known = _some(f"{label} ({name})" if str(label) != name else name for label, name in names.items())
    return rows.where(pair.is_class_lost, lambda row: f"class {rows.show_class(row)}; known: {known}")


def _spellings(pair: Pair) -> Iterable[Evidence]:
    rows = pair.detections
    if not isinstance(rows.records.label, Named) and rows.records.class_names is None:
        return
    known = list((pair.truths.names_by_label or {}).values())
    by_spelling = {spelling(name): name for name in known}
    used = set(np.unique(rows.label).tolist())
    pairs = [
        (number, name, by_spelling[spelling(name)])
        for number, name in class_names_of(rows).items()
        if number in used and name not in known and spelling(name) in by_spelling
    ]
    if not pairs:
        return
    is_lost = any(pair.is_class_lost[rows.label == number].any() for number, *_ in pairs)
    row = int(np.argmax(rows.label == pairs[0][0]))
    yield Evidence(
        num=len(pairs),
        facts={"effect": "some of them match no class" if is_lost else "they are treated as equal"},
        example=f"{rows.records.location(row)}: {pairs[0][1]!r}, in the ground truth {pairs[0][2]!r}",
        severity=None if is_lost else "note",
    )


def _label_readings(pair: Pair) -> tuple[Ids, list[LabelReading]]:
    """The classes, ascending, and the interpretations of class ids; none if classes have names, or rows are few."""
    records = pair.detections.records
    label = records.label
    order = np.array(sorted(pair.truths.names_by_label or np.unique(host_ids(pair.truths.labels)).tolist()), np.int64)
    if isinstance(label, Named) or records.class_names is not None or len(label) < MIN_BOXES or order.size < 2:
        return order, []
    return order, label_readings(label, order, is_position=records.is_position)


def _example_of_label(pair: Pair, row: int, label: Ids) -> str:
    records = pair.detections.records
    return f"{records.location(row)}: class {codes_of(records.label)[row]}, in the ground truth {label[row]}"


def _shifted_labels(pair: Pair) -> Iterable[Evidence]:
    """Yield evidence if class ids agree with the overlapped truths only in another interpretation."""
    _, readings = _label_readings(pair)
    rows, truth = _overlaps(pair) if readings else (np.zeros(0, np.int64), np.zeros(0, np.int64))
    if rows.size < MIN_BOXES:
        return
    wanted, label = host_ids(pair.truths.labels)[truth], codes_of(pair.detections.records.label)
    is_right = (pair.label[rows] == wanted) & ~pair.is_class_lost[rows]
    some = [each._replace(label=each.label[rows]) for each in readings]
    is_foreign = bool(pair.is_class_lost.all())
    found = find_shifted_labels(label[rows], wanted, is_right, some, is_foreign=is_foreign)
    if found is not None:
        row = int(rows[np.argmax(found.reading.label == wanted)])
        meant = next(each.label for each in readings if each.name == found.reading.name)
        yield Evidence(num=len(label), facts=found.facts, example=_example_of_label(pair, row, meant))


def _unlisted_labels(pair: Pair) -> Iterable[Evidence]:
    """Yield evidence if all class ids are known only in another interpretation, and too few boxes overlap truths."""
    order, readings = _label_readings(pair)
    fitting = [each for each in readings if np.isin(each.label, order).all()]
    if fitting and pair.is_class_lost.any() and _overlaps(pair)[0].size < MIN_BOXES:
        example = _example_of_label(pair, int(np.argmax(pair.is_class_lost)), fitting[0].label)
        yield Evidence(num=len(pair.label), facts={"reading": fitting[0].name}, example=example)


def _overlaps(pair: Pair) -> tuple[Ids, Ids]:
    """The best detections that overlap a truth of any class, and for each the truth that it overlaps most."""
    rows, score = pair.detections, pair.detections.records.score
    if score is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    usable = np.flatnonzero(rows.is_finite & ~pair.is_image_lost & np.isfinite(score))
    usable = usable[best_rows(score[usable], len(pair.truths))]
    corner = rows.corner
    if rows.records.is_normalized:  # truths are in pixels
        scale = np.nan_to_num(rows.image_size, nan=1.0)
        corner = corner * np.concatenate([scale, scale], axis=1)
    found, truth = find_overlaps(boxes_on(Detections, pair.image[usable], corner[usable]), one_class(pair.truths))
    return usable[found], truth


def _silent_images(pair: Pair) -> Iterable[Evidence]:
    names = pair.truths.image_names or {
        number: str(number) for number in np.unique(host_ids(pair.truths.image_ids)).tolist()
    }
    seen = set(np.unique(pair.image[~pair.is_image_lost]).tolist())
    silent = [name for number, name in names.items() if number not in seen]
    if silent:
        example = f"{pair.detections.records.source}: none on {silent[0]!r}"
        yield Evidence(num=len(silent), facts={"images": len(names)}, example=example)


PAIR_CHECKS: Sequence[Check[Pair]] = (
    Check(
        "unknown-image",
        _unknown_images,
        "{num:detection} on images that the ground truth does not have",
        _OR_LEFT_OUT,
        "error",
    ),
    Check(
        "unknown-class",
        _unknown_classes,
        "{num:detection} of classes that the ground truth does not have",
        _OR_LEFT_OUT,
        "error",
    ),
    Check(
        "shifted-labels",
        _shifted_labels,
        f"class ids of {{num:detection}} look {{reading}}: {SHIFTED}",
        _OTHER_CLASSES,
    ),
    Check(
        "shifted-labels",
        _unlisted_labels,
        "class ids of {num:detection} look {reading}: read so, all are classes of the ground truth",
        _OTHER_CLASSES,
    ),
    Check(
        "class-spelling",
        _spellings,
        "{num:class name} in another spelling than in the ground truth",
        "{effect}",
    ),
    Check(
        "silent-images",
        _silent_images,
        "{num} of {images:image} without detections",
        "every truth on them is missed",
        "note",
    ),
)
"""Checks of detections joined with their truths."""
