"""Checks of detections against their truths: one function per check."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from boxscore._support.text import count
from boxscore.checks.diagnosis import MAX_DETECTIONS, boxes_on, find_overlaps, one_class
from boxscore.checks.file_rows import FileRows, Flags
from boxscore.checks.findings import Finding
from boxscore.checks.truth_checks import class_names_of, spelling
from boxscore.data.dataset import Detections, Truths, host_ids
from boxscore.formats.records import Floats, Ids, Named

MIN_OVERLAPS = 10
"""With fewer overlaps or detections than this, classes are not judged."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pair:
    """Detections joined with the valid truths. D rows."""

    detections: FileRows
    truths: Truths
    image: Ids
    """The id of each detection's image among the truths. Shape (D,)."""
    label: Ids
    """The label of each detection among the truths. Shape (D,)."""
    is_image_lost: Flags
    """Whether the truths do not have a detection's image. Shape (D,)."""
    is_class_lost: Flags
    """Whether the truths do not have its class. Shape (D,)."""


def unknown_images(pair: Pair) -> Iterable[Finding]:
    """Detections on images that the truths don't have."""
    rows = pair.detections
    yield from rows.found(
        pair.is_image_lost,
        kind="unknown-image",
        severity="error",
        title=lambda num: f"{count(num, 'detection')} on images that the ground truth does not have",
        show=lambda row: f"image {rows.show_image(row)}; known: {_known((pair.truths.image_names or {}).values())}",
        effect="the evaluation refuses the file; with --unmatched warn, it leaves them out",
    )


def unknown_classes(pair: Pair) -> Iterable[Finding]:
    """Detections of classes that the truths don't have."""
    rows = pair.detections
    known = pair.truths.names_by_label or {}
    yield from rows.found(
        pair.is_class_lost,
        kind="unknown-class",
        severity="error",
        title=lambda num: f"{count(num, 'detection')} of classes that the ground truth does not have",
        show=lambda row: (
            f"class {rows.show_class(row)};"
            f" known: {_known(f'{label} ({name})' if str(label) != name else name for label, name in known.items())}"
        ),
        effect="the evaluation refuses the file; with --unmatched warn, it leaves them out",
    )


def _known(values: Iterable[str]) -> str:
    known = list(values)
    return ", ".join(known[:5]) + (", …" if len(known) > 5 else "")


def class_spelling(pair: Pair) -> Iterable[Finding]:
    """Class names that are written differently in the two files."""
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
    yield rows.finding(
        kind="class-spelling",
        severity="warning" if is_lost else "note",
        count=len(pairs),
        title=f"{count(len(pairs), 'class name')} in another spelling than in the ground truth",
        example=f"{rows.records.location(row)}: {pairs[0][1]!r}, in the ground truth {pairs[0][2]!r}",
        effect="some of them match no class" if is_lost else "they are treated as equal",
    )


def shifted_classes(pair: Pair) -> Iterable[Finding]:
    """Class ids that are off by one, or indices into the list of classes: they agree with truths only if read so."""
    rows, label = pair.detections, pair.detections.records.label
    if isinstance(label, Named) or rows.records.class_names is not None or not len(label):
        return
    order = np.array(sorted(pair.truths.names_by_label or np.unique(host_ids(pair.truths.label)).tolist()), np.int64)
    if order.size < 2:
        return
    readings = {
        "one more": label + 1,
        "one less": label - 1,
        "indices into the list of classes, from 0": _at(order, label),
        "indices into the list of classes, from 1": _at(order, label - 1),
    }
    if rows.records.is_position:
        readings = {"one more": _at(order, label + 1), "one less": _at(order, label - 1), "ids": label}
    found, truth = overlaps(pair)
    expected = host_ids(pair.truths.label)[truth]
    if found.size >= MIN_OVERLAPS:
        as_is = float(((pair.label[found] == expected) & ~pair.is_class_lost[found]).mean())
        agreement = {name: float((reading[found] == expected).mean()) for name, reading in readings.items()}
        best = max(agreement, key=agreement.__getitem__)
        if agreement[best] < 0.5 or agreement[best] < 2 * as_is:
            return
        row = int(found[np.argmax(readings[best][found] == expected)])
        expected_label = int(readings[best][row])
        why = f"read as {best}, {agreement[best]:.0%} agree with the truths that they overlap; as they are, {as_is:.0%}"
    else:
        fitting = [name for name, reading in readings.items() if np.isin(reading, order).all()]
        if not pair.is_class_lost.any() or not fitting or len(label) < MIN_OVERLAPS:
            return
        best = fitting[0]
        row = int(np.argmax(pair.is_class_lost))
        expected_label = int(readings[best][row])
        why = f"read as {best}, all are classes of the ground truth"
    yield rows.finding(
        kind="shifted-classes",
        severity="warning",
        count=len(label),
        title=f"class ids of {count(len(label), 'detection')} look shifted: {why}",
        example=f"{rows.records.location(row)}: class {int(label[row])}, in the ground truth {expected_label}",
        effect="detections are compared with truths of other classes, so AP is near 0",
    )


def _at(order: Ids, index: Ids) -> Ids:
    """The classes at these indices; an impossible label where the index is invalid."""
    is_valid = (index >= 0) & (index < order.size)
    return np.where(is_valid, order[np.where(is_valid, index, 0)], np.iinfo(np.int64).min)


def overlaps(pair: Pair) -> tuple[Ids, Ids]:
    """The best detections that have an IoU of at least 0.5 with a truth of any class, and the truth with the most."""
    rows, truths = pair.detections, pair.truths
    score = rows.records.score
    if score is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    usable = np.flatnonzero(rows.is_finite & ~pair.is_image_lost & np.isfinite(score))
    if usable.size > MAX_DETECTIONS:
        usable = usable[np.argpartition(-score[usable], MAX_DETECTIONS)[:MAX_DETECTIONS]]
    detections = boxes_on(Detections, pair.image[usable], _in_pixels(pair)[usable])
    found, truth = find_overlaps(detections, one_class(truths))
    return usable[found], truth


def _in_pixels(pair: Pair) -> Floats:
    """Corners in the unit of the truths."""
    rows = pair.detections
    if not rows.records.is_normalized:
        return rows.corner
    seen, code = np.unique(pair.image, return_inverse=True)
    sizes = rows.image_sizes
    scale = np.array([sizes.get(number, (1, 1)) for number in seen.tolist()], np.float64).reshape(-1, 2)[code]
    return np.asarray(rows.corner * np.concatenate([scale, scale], axis=1))


def silent_images(pair: Pair) -> Iterable[Finding]:
    """Images of the truths without a detection."""
    names = pair.truths.image_names or {
        number: str(number) for number in np.unique(host_ids(pair.truths.image)).tolist()
    }
    seen = set(np.unique(pair.image[~pair.is_image_lost]).tolist())
    silent = [name for number, name in names.items() if number not in seen]
    if silent:
        yield pair.detections.finding(
            kind="silent-images",
            severity="note",
            count=len(silent),
            title=f"{len(silent):,} of {count(len(names), 'image')} without detections",
            example=f"{pair.detections.records.source}: none on {silent[0]!r}",
            effect="every truth on them is missed",
        )


CHECKS: Sequence[Callable[[Pair], Iterable[Finding]]] = (
    unknown_images,
    unknown_classes,
    shifted_classes,
    class_spelling,
    silent_images,
)
"""In the order of their findings."""
