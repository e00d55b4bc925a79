"""Checks of LVIS' lists: which classes were looked for in which images. One function per check."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from boxscore._support.text import count
from boxscore.checks.file_rows import FileRows, Flags
from boxscore.checks.findings import Finding
from boxscore.data.batch_keys import COVERAGE_KEYS
from boxscore.data.coverage import pair_keys
from boxscore.formats.records import Ids, Named

NEGATIVE = COVERAGE_KEYS[0]


class _Lists(NamedTuple):
    """The entries of LVIS' lists of images. E entries."""

    image: Ids
    """The image of each entry, as the rows have it. Shape (E,)."""
    label: Ids
    is_exhaustive: Flags


def _lists_of(rows: FileRows) -> _Lists | None:
    """LVIS' lists; None if the file has none."""
    coverage = rows.records.coverage
    if coverage is None or coverage.is_exhaustive is None or isinstance(coverage.label, Named):
        return None  # image labels of Open Images name classes that are present, too
    image = coverage.image
    if isinstance(image, Named):
        code_of = {name: code for code, name in rows.image_names.items()}
        image = np.array([code_of[name] for name in image.names], np.int64)[image.code]
    return _Lists(image, coverage.label, np.asarray(coverage.is_exhaustive, bool))


def _finding(rows: FileRows, lists: _Lists, is_bad: Flags, **values: str) -> list[Finding]:
    """The warning about some entries of the lists, if there are any."""
    num = int(is_bad.sum())
    if not num:
        return []
    entry = int(np.argmax(is_bad))
    image, label = int(lists.image[entry]), int(lists.label[entry])
    known = rows.records.class_names or {}
    name = f" ({known[label]!r})" if label in known else ""
    example = f"{rows.records.source}: image {rows.image_names.get(image, image)!r}: `{NEGATIVE}` has {label}{name}"
    title = f"{count(num, 'entry', 'entries')} of `{NEGATIVE}` with a class that {values.pop('that')}"
    return [rows.finding(severity="warning", count=num, title=title, example=example, **values)]


def unknown_negatives(rows: FileRows) -> Iterable[Finding]:
    """Classes that were looked for in vain, and that the file does not list."""
    lists, listed = _lists_of(rows), rows.records.class_names
    if lists is None or listed is None:
        return
    yield from _finding(
        rows,
        lists,
        ~np.isin(lists.label, np.fromiter(listed, np.int64, len(listed))),
        kind="unknown-negative",
        that="is not listed",
        effect="it says nothing: a detection of such a class is an error",
    )


def annotated_negatives(rows: FileRows) -> Iterable[Finding]:
    """Classes that were looked for in vain in an image, and have annotations in it."""
    lists = _lists_of(rows)
    if lists is None:
        return
    keys = pair_keys(np.concatenate([lists.image, rows.image]), np.concatenate([lists.label, rows.label]))
    own, annotated = np.split(keys, [lists.image.size])
    yield from _finding(
        rows,
        lists,
        np.isin(own, annotated) & lists.is_exhaustive,  # entries of the other list are not exhaustive
        kind="annotated-negative",
        that="has annotations in the image",
        effect="the annotations count, as those of any class that was looked for",
    )


def no_frequency(rows: FileRows) -> Iterable[Finding]:
    """Categories without a frequency, though images have lists."""
    if _lists_of(rows) is None or rows.records.class_groups is not None:
        return
    num = len(rows.records.class_names or ())
    yield rows.finding(
        kind="no-frequency",
        severity="warning",
        count=num,
        title=f"{count(num, 'category', 'categories')} without `frequency`, though images have `{NEGATIVE}`",
        example=f"{rows.records.source}: LVIS' categories have `frequency`: r, c or f",
        effect="under lvis, map_rare, map_common and map_frequent are undefined",
    )


CHECKS: Sequence[Callable[[FileRows], Iterable[Finding]]] = (unknown_negatives, annotated_negatives, no_frequency)
"""In the order of their findings."""
