"""Check files and report findings. A file that cannot be read is a finding, and the other files are still checked."""

import contextlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.checks.checklist import REFUSED, SEVERITIES, Check, Finding, ask
from boxscore.checks.file_checks import PAIR_CHECKS, ROW_CHECKS, ROW_CHECKS_WITHOUT_BOXES, TRUTH_CHECKS, is_listed
from boxscore.checks.file_rows import FileRows, Flags, Pair, rows_of_detections, rows_of_truths
from boxscore.checks.mistakes import Mistake, Remedies, find_angle_mistake, find_mistakes
from boxscore.checks.pycocotools_ids import SAME, map_of_pycocotools, why_ids_differ
from boxscore.checks.requirements import check_requirements, sizes_of_detections
from boxscore.checks.shape_checks import SHAPE_CHECKS, is_invalid
from boxscore.checks.suspicion import Counts
from boxscore.data.dataset import Detections, Truths
from boxscore.data.geometry.boxes import Boxes
from boxscore.data.geometry.masks import Masks
from boxscore.formats import Records, Role, join, read_records, to_truths, with_labels
from boxscore.formats.hierarchy import Hierarchy, read_hierarchy
from boxscore.formats.image_sizes import read_sizes
from boxscore.formats.joining import join_classes, join_images, keep_rows, look_like_pixels, sizes_by_id
from boxscore.formats.record_shapes import missing_shapes
from boxscore.formats.records import Options, RowsWarning, Sizes, codes_of
from boxscore.pipeline import evaluate_columns
from boxscore.protocol.protocol import Protocol

_CAUSES = {"empty", "box-format", "shifted-labels", "fractions-as-pixels", "pixels-as-fractions"}
"""Kinds of findings that explain a result near 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """Formats of the files, None to detect them, and the options of readers."""

    truths_format: str | None = None
    detections_format: str | None = None
    options: Options = Options()


@dataclass(frozen=True, kw_only=True, slots=True)
class _OtherSide:
    """The truths, for the inspection of detections, and how both sides are evaluated."""

    truths: Truths | None
    """The valid truths; None: the file can't be read."""
    protocol: Protocol
    sizes: Sizes | None
    is_ready: bool = False
    """Whether the truths have all data that the protocol needs."""
    has_names: bool
    """Whether class names were given."""


def inspect_files(
    truths: str | Path, detections: Sequence[str | Path], protocol: Protocol, reading: Reading | None = None
) -> list[Finding]:
    """Check a file of truths and files of detections for them; the most severe findings come first.

    >>> from boxscore.cli.sample import FOLDER
    >>> found = inspect_files(FOLDER / "truths.json", [FOLDER / "detections.json"], Protocol.named("coco"))
    >>> [(finding.severity, finding.title) for finding in found]
    [('note', '5 boxes beyond the border of their image by more than a pixel')]
    """
    reading = reading or Reading()
    found: list[Finding] = []
    with np.errstate(all="ignore"):
        known: Truths | None = None
        sizes = read_sizes(reading.options.sizes)
        options = replace(reading.options, keeps_polygons=True, hierarchy=_hierarchy(reading.options, found))
        records = _read(truths, "truths", reading.truths_format, options, found)
        ids = None if records is None else records.id
        if records is not None:
            if protocol.clips_boxes:
                records = _with_sizes(records, detections, reading.detections_format)
            known = _inspect_truths(records, protocol, sizes, found)
        other = _OtherSide(truths=known, protocol=protocol, sizes=sizes, has_names=options.names is not None)
        if known is not None:
            other = replace(other, is_ready=_is_ready(known, str(truths), protocol, found))
            options = replace(options, known_classes=list((known.names_by_label or {}).values()))
        for file in detections:
            records = _read(file, "detections", reading.detections_format, options, found, known)
            if records is not None:
                found += _inspect_detections(records, other)
                if known is not None and other.is_ready and why_ids_differ(ids):
                    found += _different_result(truths, file, records, known, protocol)
    if reading.options.hierarchy is not None and options.hierarchy is None:
        found = [finding for finding in found if finding.kind != "unknown-class"]  # the hierarchy may have them
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def _hierarchy(options: Options, found: list[Finding]) -> Hierarchy | None:
    """Read the class hierarchy once for all files. If that fails, add a finding; rows are then not expanded."""
    if options.hierarchy is None:
        return None
    try:
        return read_hierarchy(options.hierarchy, options.names)
    except InputError as error:
        found.append(_refusal(str(options.hierarchy), "unreadable", error))
        return None


def _with_sizes(records: Records, detections: Sequence[str | Path], name: str | None) -> Records:
    """Add sizes of images that only files of detections have to the truths, as the evaluation does."""
    sizes: dict[Any, tuple[int, int]] = {}
    for file in detections:
        with contextlib.suppress(InputError):  # it becomes a finding of that file
            sizes = {**sizes_of_detections([file], name), **sizes}
    return replace(records, image_sizes={**sizes, **(records.image_sizes or {})} or None)


def _is_ready(known: Truths, path: str, protocol: Protocol, found: list[Finding]) -> bool:
    """Whether truths have all data that the protocol needs; if not, add a finding."""
    try:
        check_requirements(known, path, protocol)
    except InputError as error:
        found.append(_refusal(path, "refused", error))
        return False
    return True


def _read(
    path: str | Path,
    role: Role,
    name: str | None,
    options: Options,
    found: list[Finding],
    known: Truths | None = None,
) -> Records | None:
    """Read the records of a file; errors and warnings become findings. `known`: the truths, for detections."""
    with warnings.catch_warnings(record=True, action="always", category=RowsWarning) as caught:
        try:
            if role == "truths":
                records = read_records(path, role, options, format=name)
            else:
                records = read_records(path, role, replace(options, hierarchy=None), format=name)
                records = with_labels(records, role, options, None if known is None else known.names_by_label)
            for kind in options.kinds:
                if kind not in (Boxes, *records.kinds) and (len(records) or kind is Masks):
                    error = InputError(missing_shapes(kind, options.iou_types))
                    found.append(_refusal(str(path), "refused", error))
        except InputError as error:
            caught.clear()  # reading the boxes warns again
            others = [kind for kind in options.kinds if not kind.is_box]
            if not others or (boxes := _read_boxes(path, role, name, options)) is None:
                found.append(_refusal(str(path), "unreadable", error))
                return None
            title = f"{others[0].plural} cannot be read; the boxes are checked"
            found.append(_refusal(str(path), f"invalid-{others[0].columns[0]}", error, title))
            records = boxes
    for warning in caught:
        problem = warning.message
        if not isinstance(problem, RowsWarning):
            warnings.warn(problem, stacklevel=3)
            continue
        found.append(
            Finding(
                severity="warning",
                kind="changed-in-reading",
                file=str(path),
                count=problem.num,
                title=problem.what,
                example=problem.location,
                effect=problem.fate,
            )
        )
    return records


def _read_boxes(path: str | Path, role: Role, name: str | None, options: Options) -> Records | None:
    """Read only the boxes of a file whose other shapes cannot be read, so that they are still checked."""
    with contextlib.suppress(InputError):
        return read_records(path, role, replace(options, iou_types=("bbox",)), format=name)
    return None


_TITLES = {
    "unreadable": "cannot be read",
    "refused": "cannot be evaluated",
}


def _refusal(file: str, kind: str, error: InputError, title: str | None = None) -> Finding:
    text = str(error)
    return Finding(
        severity="error",
        kind=kind,
        file=file,
        count=1,
        title=title or _TITLES[kind],
        example=text if text.startswith(file) else f"{file}: {text}",
        effect=REFUSED,
    )


def _checks_of(records: Records) -> Sequence[Check[FileRows]]:
    """The checks of rows of any file; boxes that were computed around other shapes are not checked."""
    return ROW_CHECKS if records.has_boxes else ROW_CHECKS_WITHOUT_BOXES


def _inspect_truths(records: Records, protocol: Protocol, sizes: Sizes | None, found: list[Finding]) -> Truths | None:
    """Check the truths and add findings. Return the valid rows, with which detections are compared."""
    rows = rows_of_truths(records, protocol, sizes)
    own = ask((*_checks_of(records), *TRUTH_CHECKS, *SHAPE_CHECKS), rows, records.source)
    found += own
    records = rows.records
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # these are findings already
            if any(finding.severity == "error" for finding in own):
                records = keep_rows(records, _is_valid(rows))
            return to_truths(records, sizes, iou_types=_iou_types(records))
    except InputError as error:
        found.append(_refusal(records.source, "refused", error))
        return None


def _iou_types(records: Records) -> tuple[str, ...]:
    """The similarities that the shapes of the records allow."""
    return ("bbox", *(iou_type for kind in records.kinds for iou_type in kind.iou_types))


def _is_valid(rows: FileRows) -> Flags:
    """Whether each row has no error. Shape (R,)."""
    records = rows.records
    is_valid = rows.is_finite & (rows.extent >= 0).all(axis=1)
    if records.area is not None:
        is_valid &= np.isfinite(records.area) & (records.area >= 0)
    is_valid &= ~is_invalid(rows)
    if records.is_normalized:
        is_valid &= ~look_like_pixels(records.box, records.box_format)
    return is_valid & is_listed(rows)


def _inspect_detections(records: Records, other: _OtherSide) -> list[Finding]:
    """Check detections, and if possible compare them with the truths."""
    known = other.truths
    pair, refusal = None, None
    if known is not None:
        try:
            pair = _joined(records, known, other.protocol, other.sizes)
        except InputError as error:
            refusal = error
    if pair is None:
        rows = rows_of_detections(records, other.protocol, image=codes_of(records.image), sizes={})
    else:
        rows = pair.detections
    found = ask((*_checks_of(records), *SHAPE_CHECKS), rows, records.source)
    if pair is not None:
        found += ask(PAIR_CHECKS, pair, records.source)
    if known is not None and refusal is None and not any(finding.severity == "error" for finding in found):
        try:
            detections, _ = join(rows.records, known, other.sizes, iou_types=_iou_types(rows.records))
            found += _likely_mistakes(detections, known, other, records.source, found)
        except InputError as error:
            refusal = error
    if refusal is not None:
        found.append(_refusal(records.source, "refused", refusal))
    return found


def _likely_mistakes(
    detections: Detections, known: Truths, other: _OtherSide, source: str, found: Sequence[Finding]
) -> list[Finding]:
    """Find likely mistakes in both sides and their result, unless `found` explains the result already.

    If the protocol can't be evaluated, only angles are checked.
    """
    protocol = other.protocol
    can_evaluate = other.is_ready and all(protocol.iou_type in side.iou_types() for side in (detections, known))
    remedies = Remedies(
        detections="the detections",
        truths="the ground truth",
        box_format="`--box-format {}` may read them so",
        truth_box_format="convert them",
        both_formats="are both {}? Convert them",
        angles="`--box-format {}` reads them so",
        labels="in the file",
        class_names="put a name for 0 in front" if other.has_names else None,
    )
    angle = find_angle_mistake(detections, known, remedies)
    if angle is not None:
        effect = "their IoU is low, and most of them are false positives; is it the convention of their angles?"
        return [_finding(angle, source, angle.evidence.num, effect)]
    if not can_evaluate or not _CAUSES.isdisjoint(finding.kind for finding in found):
        return []
    result = evaluate_columns(detections, known, protocol)
    effect = f"AP at the lowest IoU is {Counts.of_result(result.per_class).mean_ap:.4f}"
    mistakes = find_mistakes(result, detections, known, remedies)
    return [_finding(mistake, source, len(detections), effect) for mistake in mistakes]


def _finding(mistake: Mistake, source: str, num: int, effect: str) -> Finding:
    return Finding(
        severity="warning",
        kind=mistake.kind,
        file=source,
        count=num,
        title=str(mistake),
        example=source,
        effect=effect,
    )


def _different_result(
    truths: str | Path, file: str | Path, records: Records, known: Truths, protocol: Protocol
) -> list[Finding]:
    """A finding if pycocotools gives another result because of annotation ids; else empty."""
    try:
        own = evaluate_columns(join(records, known, iou_types=_iou_types(records))[0], known, protocol)["map"]
    except InputError:
        return []
    other = map_of_pycocotools(truths, file, protocol)
    if other is None or abs(other - own) <= SAME:
        return []
    return [
        Finding(
            severity="warning",
            kind="pycocotools-differs",
            file=str(file),
            count=1,
            title=f"pycocotools would give map {other:.4f}, boxscore gives {own:.4f}",
            example=f"{truths}: annotation ids that are 0 or not unique",
            effect="with unique annotation ids from 1 on, both give the same",
        )
    ]


def _joined(records: Records, known: Truths, protocol: Protocol, sizes: Sizes | None) -> Pair:
    image, is_image_lost = join_images(records, known)
    label, is_class_lost = join_classes(records, known)
    if known.names_by_label == {}:
        is_class_lost = np.ones(len(records), bool)  # the list of classes is empty
    image = np.where(is_image_lost, np.iinfo(np.int64).min, image)
    known_sizes = sizes_by_id(known.image_sizes, sizes, known.image_names, is_numbered=known.is_numbered)
    rows = rows_of_detections(records, protocol, image=image, sizes=known_sizes)
    return Pair(
        detections=rows,
        truths=known,
        image=image,
        label=label,
        is_image_lost=is_image_lost,
        is_class_lost=is_class_lost,
    )
