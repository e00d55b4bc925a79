"""Checks of truths beside their boxes: ids, images, classes, areas. One function per check."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from boxscore._support.text import count
from boxscore.checks.file_rows import FileRows, Flags, names_of
from boxscore.checks.findings import Finding
from boxscore.checks.row_checks import REFUSED
from boxscore.formats.records import Named


def duplicate_ids(rows: FileRows) -> Iterable[Finding]:
    """Annotations with the id of another."""
    ids = rows.records.id
    if ids is None or not len(ids):
        return
    _, first, code = np.unique(ids, return_index=True, return_inverse=True)
    yield from rows.found(
        first[code] != np.arange(len(ids)),
        kind="duplicate-ids",
        severity="warning",
        title=lambda num: f"{count(num, 'annotation')} with the id of an earlier one",
        show=lambda row: f"as in {rows.records.location(int(first[code[row]]))}",
        effect="boxscore counts each of them; tools that look annotations up by id, as pycocotools does, confuse them",
    )


def zero_ids(rows: FileRows) -> Iterable[Finding]:
    """Annotations with the id 0."""
    ids = rows.records.id
    if ids is None:
        return
    yield from rows.found(
        ids == 0,
        kind="zero-id",
        severity="warning",
        title=lambda num: f"{count(num, 'annotation')} with the id 0",
        show=rows.show_box,
        effect="boxscore counts it; for pycocotools 0 means no match, so its detection is a false positive",
    )


def unknown_images(rows: FileRows) -> Iterable[Finding]:
    """Truths on images that the file does not list."""
    listed = rows.records.image_names
    if listed is None or isinstance(rows.records.image, Named):
        return
    yield from rows.found(
        ~np.isin(rows.image, np.fromiter(listed, np.int64, len(listed))),
        kind="unknown-image",
        severity="warning",
        title=lambda num: f"{count(num, 'truth')} on images that are not listed",
        show=lambda row: f"image {rows.show_image(row)}",
        effect="they are left out, as in pycocotools; detections on such images are an error",
    )


def unknown_classes(rows: FileRows) -> Iterable[Finding]:
    """Truths of classes that the file does not list."""
    if rows.records.class_names is None:
        return
    yield from rows.found(
        ~is_listed(rows),
        kind="unknown-class",
        severity="error",
        title=lambda num: f"{count(num, 'truth')} of classes that are not listed",
        show=lambda row: f"class {rows.show_class(row)}",
        effect=REFUSED,
    )


def is_listed(rows: FileRows) -> Flags:
    """Whether the file lists the class of each row; True if it has no list."""
    listed, label = rows.records.class_names, rows.records.label
    if listed is None:
        return np.ones(len(label), bool)
    if isinstance(label, Named):
        names = set(listed.values())
        return np.isin(label.code, [code for code, name in enumerate(label.names) if name in names])
    return np.isin(label, np.fromiter(listed, np.int64, len(listed)))


def areas(rows: FileRows) -> Iterable[Finding]:
    """Areas that no mask inside the box can have."""
    area = rows.records.area
    if area is None or rows.records.is_normalized:
        return
    width, height = rows.extent.T
    is_valid = rows.is_finite & np.isfinite(area) & (rows.extent >= 0).all(axis=1)

    def show(row: int) -> str:
        return f"area {area[row]:.10g}, box {width[row]:.10g} x {height[row]:.10g}"

    yield from rows.found(
        np.isfinite(area) & (area < 0),
        kind="negative-area",
        severity="error",
        title=lambda num: f"{count(num, 'area')} below 0",
        show=show,
        effect=REFUSED,
    )
    yield from rows.found(
        is_valid & (area == 0) & (width * height > 0),
        kind="zero-area",
        severity="warning",
        title=lambda num: f"{count(num, 'area')} of 0, though the box is not empty",
        show=show,
        effect=f"it is left out under {rows.protocol.name}"
        if rows.protocol.empty == "drop"
        else "each truth is in the range of small objects",
    )
    # Counting the last pixel adds one to each side; that is more than any rounding.
    yield from rows.found(
        is_valid & (area > (width + 1) * (height + 1) * (1 + 1e-9)),
        kind="large-area",
        severity="warning",
        title=lambda num: f"{count(num, 'area')} larger than the box",
        show=show,
        effect="the area decides between small, medium and large, so the results of these ranges change",
    )


def unused_classes(rows: FileRows) -> Iterable[Finding]:
    """Classes without a single truth."""
    names = class_names_of(rows)
    used = set(np.unique(rows.label).tolist())
    if isinstance(rows.records.label, Named) and rows.records.class_names is not None:
        used = {number for number, name in names.items() if name in set(rows.records.label.names)}
    unused = [name for number, name in names.items() if number not in used]
    yield from _listed(
        rows,
        "unused-class",
        unused,
        f"{count(len(unused), 'class', 'classes')} without truths",
        "their AP is undefined, and not in the mean",
    )


def class_names_of(rows: FileRows) -> Mapping[int, str]:
    """Every class of a file; without names, the ids as text."""
    if rows.records.class_names is not None:
        return rows.records.class_names
    return names_of(rows.records.label, None)


def _listed(rows: FileRows, kind: str, names: Sequence[str], title: str, effect: str) -> Iterable[Finding]:
    """A note about some images or classes."""
    if names:
        example = f"{rows.records.source}: {_some(names)}"
        yield rows.finding(kind=kind, severity="note", count=len(names), title=title, example=example, effect=effect)


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (", …" if len(names) > 3 else "")


def spelling(name: str) -> str:
    """A name without case, spaces, hyphens and underscores.

    >>> spelling("Traffic Light") == spelling("traffic_light")
    True
    """
    return "".join(letter for letter in name.casefold() if not letter.isspace() and letter not in "-_")


def similar_names(rows: FileRows) -> Iterable[Finding]:
    """Classes of one file whose names differ in case or spaces only, or not at all."""
    by_spelling: dict[str, list[str]] = {}
    for name in class_names_of(rows).values():
        by_spelling.setdefault(spelling(name), []).append(name)
    alike = [names for names in by_spelling.values() if len(names) > 1]
    if alike:
        num = sum(map(len, alike))
        yield rows.finding(
            kind="similar-names",
            severity="warning",
            count=num,
            title=f"{count(num, 'class', 'classes')} with names that differ in case or spaces at most",
            example=f"{rows.records.source}: {_some(alike[0])}",
            effect="they are different classes: a detection of one does not match a truth of the other",
        )


def duplicate_file_names(rows: FileRows) -> Iterable[Finding]:
    """Images with the file name of another."""
    names = Counter(rows.image_names.values())
    again = [name for name, num in names.items() if num > 1]
    if again:
        num = sum(names[name] for name in again)
        yield rows.finding(
            kind="duplicate-file-names",
            severity="warning",
            count=num,
            title=f"{count(num, 'image')} with the file name of another",
            example=f"{rows.records.source}: {_some(again)}",
            effect="detections that give images by file name match none of them",
        )


def missing_sizes(rows: FileRows) -> Iterable[Finding]:
    """Images whose size is not known."""
    unknown = [name for number, name in rows.image_names.items() if number not in rows.image_sizes]
    effect = "boxes outside of them are not found, and fractions need sizes; give them as --sizes"
    yield from _listed(rows, "no-size", unknown, f"{count(len(unknown), 'image')} of unknown size", effect)


CHECKS: Sequence[Callable[[FileRows], Iterable[Finding]]] = (
    unknown_classes,
    unknown_images,
    duplicate_ids,
    zero_ids,
    areas,
    similar_names,
    duplicate_file_names,
    unused_classes,
    missing_sizes,
)
"""In the order of their findings."""
