"""Checks of what truths list besides boxes: ids, images, classes, areas. One function a check."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from boxscore._support.text import count
from boxscore.formats.inspection.file_rows import Flags, Side, names_of
from boxscore.formats.inspection.findings import Finding
from boxscore.formats.inspection.row_checks import REFUSED
from boxscore.formats.records import Named


def duplicate_ids(side: Side) -> Iterable[Finding]:
    """Annotations with the id of another."""
    ids = side.records.id
    if ids is None or not len(ids):
        return
    _, first, code = np.unique(ids, return_index=True, return_inverse=True)
    yield from side.found(
        first[code] != np.arange(len(ids)),
        kind="duplicate-ids",
        severity="warning",
        title=lambda num: f"{count(num, 'annotation')} with the id of an earlier one",
        show=lambda row: f"as in {side.records.place(int(first[code[row]]))}",
        effect="boxscore counts each of them; tools that look annotations up by id, as pycocotools does, mix them up",
    )


def zero_ids(side: Side) -> Iterable[Finding]:
    """Annotations with the id 0."""
    ids = side.records.id
    if ids is None:
        return
    yield from side.found(
        ids == 0,
        kind="zero-id",
        severity="warning",
        title=lambda num: f"{count(num, 'annotation')} with the id 0",
        show=side.show_box,
        effect="boxscore counts it as any other; for pycocotools 0 is no match, so a detection that finds it is false",
    )


def unknown_images(side: Side) -> Iterable[Finding]:
    """Truths on images that the file does not list."""
    listed = side.records.image_names
    if listed is None or isinstance(side.records.image, Named):
        return
    yield from side.found(
        ~np.isin(side.image, np.fromiter(listed, np.int64, len(listed))),
        kind="unknown-image",
        severity="warning",
        title=lambda num: f"{count(num, 'truth')} on images that are not listed",
        show=lambda row: f"image {side.show_image(row)}",
        effect="they are left out, as pycocotools does; detections on such images are refused",
    )


def unknown_classes(side: Side) -> Iterable[Finding]:
    """Truths of classes that the file does not list."""
    if side.records.class_names is None:
        return
    yield from side.found(
        ~is_listed(side),
        kind="unknown-class",
        severity="error",
        title=lambda num: f"{count(num, 'truth')} of classes that are not listed",
        show=lambda row: f"class {side.show_class(row)}",
        effect=REFUSED,
    )


def is_listed(side: Side) -> Flags:
    """Whether the class of each row is one of those that the file lists; all are, if it has no list."""
    listed, label = side.records.class_names, side.records.label
    if listed is None:
        return np.ones(len(label), bool)
    if isinstance(label, Named):
        names = set(listed.values())
        return np.isin(label.code, [code for code, name in enumerate(label.names) if name in names])
    return np.isin(label, np.fromiter(listed, np.int64, len(listed)))


def areas(side: Side) -> Iterable[Finding]:
    """Areas that no mask inside of the box can have."""
    area = side.records.area
    if area is None or side.records.is_normalized:
        return
    width, height = side.extent.T
    is_sound = side.is_finite & np.isfinite(area) & (side.extent >= 0).all(axis=1)

    def show(row: int) -> str:
        return f"area {area[row]:.10g}, box {width[row]:.10g} x {height[row]:.10g}"

    yield from side.found(
        np.isfinite(area) & (area < 0),
        kind="negative-area",
        severity="error",
        title=lambda num: f"{count(num, 'area')} below 0",
        show=show,
        effect=REFUSED,
    )
    yield from side.found(
        is_sound & (area == 0) & (width * height > 0),
        kind="zero-area",
        severity="warning",
        title=lambda num: f"{count(num, 'area')} of 0, though the box has some",
        show=show,
        effect="each counts as small",
    )
    # One more pixel on each side is what counting the last pixel gives, and more than any rounding.
    yield from side.found(
        is_sound & (area > (width + 1) * (height + 1) * (1 + 1e-9)),
        kind="large-area",
        severity="warning",
        title=lambda num: f"{count(num, 'area')} larger than the box",
        show=show,
        effect="the area decides between small, medium and large, so the numbers of these ranges change",
    )


def unused_classes(side: Side) -> Iterable[Finding]:
    """Classes without a single truth."""
    names = class_names_of(side)
    used = set(np.unique(side.label).tolist())
    if isinstance(side.records.label, Named) and side.records.class_names is not None:
        used = {number for number, name in names.items() if name in set(side.records.label.names)}
    unused = [name for number, name in names.items() if number not in used]
    yield from _listed(
        side,
        "unused-class",
        unused,
        f"{count(len(unused), 'class', 'classes')} without truths",
        "their AP is undefined, and no part of the mean",
    )


def class_names_of(side: Side) -> Mapping[int, str]:
    """Every class of a file; where it has ids only, those."""
    if side.records.class_names is not None:
        return side.records.class_names
    return names_of(side.records.label, None)


def _listed(side: Side, kind: str, names: Sequence[str], title: str, effect: str) -> Iterable[Finding]:
    """The note about some images or classes."""
    if names:
        example = f"{side.records.source}: {_some(names)}"
        yield side.finding(kind=kind, severity="note", count=len(names), title=title, example=example, effect=effect)


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (", …" if len(names) > 3 else "")


def spelling(name: str) -> str:
    """What is left of a name without case, spaces, hyphens and underscores.

    >>> spelling("Traffic Light") == spelling("traffic_light")
    True
    """
    return "".join(letter for letter in name.casefold() if not letter.isspace() and letter not in "-_")


def similar_names(side: Side) -> Iterable[Finding]:
    """Classes of one file whose names differ in case or spaces only, or not at all."""
    by_spelling: dict[str, list[str]] = {}
    for name in class_names_of(side).values():
        by_spelling.setdefault(spelling(name), []).append(name)
    alike = [names for names in by_spelling.values() if len(names) > 1]
    if alike:
        num = sum(map(len, alike))
        yield side.finding(
            kind="similar-names",
            severity="warning",
            count=num,
            title=f"{count(num, 'class', 'classes')} with names that differ in case or spaces at most",
            example=f"{side.records.source}: {_some(alike[0])}",
            effect="they are different classes: a detection of one does not find a truth of the other",
        )


def duplicate_file_names(side: Side) -> Iterable[Finding]:
    """Images with the file name of another."""
    names = Counter(side.image_names.values())
    again = [name for name, num in names.items() if num > 1]
    if again:
        num = sum(names[name] for name in again)
        yield side.finding(
            kind="duplicate-file-names",
            severity="warning",
            count=num,
            title=f"{count(num, 'image')} with the file name of another",
            example=f"{side.records.source}: {_some(again)}",
            effect="detections that name their images by file find none of them",
        )


def missing_sizes(side: Side) -> Iterable[Finding]:
    """Images whose size is not known."""
    unknown = [name for number, name in side.image_names.items() if number not in side.image_sizes]
    effect = "boxes outside of them can't be found, and fractions need sizes; --sizes gives them"
    yield from _listed(side, "no-size", unknown, f"{count(len(unknown), 'image')} of unknown size", effect)


CHECKS: Sequence[Callable[[Side], Iterable[Finding]]] = (
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
"""In the order in which findings are told."""
