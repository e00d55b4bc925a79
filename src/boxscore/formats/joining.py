"""Turn records into columns: give ids and labels to truths, join detections with the truths' images and classes."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.image_file_names import NAME_KEYS, base_of, number_of, stem_of
from boxscore._support.text import count
from boxscore.arrays import compact
from boxscore.data.coverage import Coverage
from boxscore.data.dataset import Detections, Truths
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.geometry.boxes import LARGEST_FRACTION
from boxscore.data.geometry.boxes import sizes as extents
from boxscore.formats.record_shapes import crowd_index_by_id, first_of, in_pixels, masks_in_images, shapes_for
from boxscore.formats.records import Floats, Ids, Key, Named, Records, RowKeys, Sizes
from boxscore.formats.selection import Rule, Selection, as_known_id, finder, some
from boxscore.formats.table_facts import groups_by_label


@dataclass(frozen=True, kw_only=True, slots=True)
class Unmatched:
    """Images or classes of the detections that the truths do not have."""

    kind: str
    """ "image" or "class"."""
    num_rows: int
    """The number of detections on such an image, or of such a class."""
    values: Sequence[int | str]
    location: str
    """The location of the first such detection."""
    known: Sequence[int | str]
    """Images or classes that the truths have, for the message."""

    def __str__(self) -> str:
        more = len(self.values) - 1
        plural = "images" if self.kind == "image" else "classes"
        known = ", ".join(map(str, self.known[:5])) + (", …" if len(self.known) > 5 else "")
        others = f" and {count(more, f'other {self.kind}', f'other {plural}')}" if more else ""
        return (
            f"{self.location}: {self.kind} {self.values[0]!r} is not among those of the truths"
            f" ({count(self.num_rows, 'detection')} with it{others}; known: {known or 'none'})"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The outcome of a join: rows whose image or class the truths do not have."""

    num_rows: int
    num_unmatched: int = 0
    unmatched: Sequence[Unmatched] = ()

    @property
    def subset(self) -> tuple[str, ...]:
        """The difference from published numbers, as in `Truths.subset`; empty if no row was dropped.

        >>> Report(num_rows=1356, num_unmatched=209).subset
        ('209 of 1,356 detections left out',)
        """
        if not self.num_unmatched:
            return ()
        return (f"{self.num_unmatched:,} of {self.num_rows:,} detections left out",)


def to_truths(
    records: Records,
    sizes: Sizes | None = None,
    *,
    iou_types: Sequence[str] = ("bbox",),
    keeps_polygons: bool = False,
) -> Truths:
    """Turn records into truths. Images and classes without ids are numbered 0, 1, 2, … by name.

    Truths on images that the file does not list are dropped, and a warning says how many.

    Args:
        records: The rows of a file.
        sizes: Sizes of images by id or name; they override the sizes in the file.
        iou_types: The similarities that the truths get shapes for.
        keeps_polygons: Whether masks keep the polygons that they are drawn from.
    """
    records = _on_listed_images(records)
    _check_fractions(records)
    image, image_names, is_numbered = numbered_images(records)
    label, class_names = numbered_classes(records)
    image_sizes = sizes_by_id(records.image_sizes, sizes, image_names, is_numbered=is_numbered)
    is_normalized = records.is_normalized and records.image_sizes is None and sizes is None
    if is_normalized:
        # Boxes stay fractions: every image has size 1 x 1.
        image_sizes = dict.fromkeys(image_names or np.unique(image).tolist(), (1, 1))
    measured = in_pixels(records, image, image_sizes)
    try:
        mask = masks_in_images(records, image, image_sizes, keeps_polygons=keeps_polygons)
        shapes = shapes_for(measured, mask, iou_types)
        crowd_index = crowd_index_by_id(records, image_names)
        truths = Truths(
            image_ids=image,
            labels=label,
            **shapes,
            ignore=records.ignore,
            kind=records.kind,
            truncated=records.truncated,
            area=records.area,
            class_names=class_names,
            class_groups=groups_by_label(records.class_groups, class_names),
            image_names=image_names,
            image_sizes=image_sizes or None,
            crowd_index=crowd_index,
            subset=records.subset,
            _is_numbered=is_numbered,
            _is_normalized=is_normalized,
        )
        return truths if records.coverage is None else replace(truths, coverage=_coverage(records, truths))
    except InputError as error:
        raise records.refuse(error) from None


def _coverage(records: Records, truths: Truths) -> Coverage:
    """The coverage of the records, by the ids and labels of the truths."""
    rows = records.coverage
    assert rows is not None
    keys = RowKeys(image=rows.image, label=rows.label, location=records.location, source=records.source)
    (image, lost_image), (label, lost_class) = join_images(keys, truths), join_classes(keys, truths)
    is_known = ~(lost_image | lost_class)
    is_exhaustive = None if rows.is_exhaustive is None else rows.is_exhaustive[is_known]
    return Coverage(image_ids=image[is_known], labels=label[is_known], is_exhaustive=is_exhaustive)


def _on_listed_images(records: Records) -> Records:
    if records.image_names is None or isinstance(records.image, Named):
        return records
    is_listed = np.isin(records.image, list(records.image_names))
    if is_listed.all():
        return records
    # as in COCO: an image that is not listed is not evaluated
    row, num = int(np.argmin(is_listed)), int((~is_listed).sum())
    what = count(num, "truth on an image", "truths on images")
    first = f"{records.location(row)}, on image {records.image[row]}"
    warnings.warn(f"{what} that the file does not list left out; the first is {first}", stacklevel=4)
    return keep_rows(records, is_listed)


def numbered_images(records: RowKeys) -> tuple[Ids, dict[int, str] | None, bool]:
    """The id of each row's image, the names of all images by id, and whether the ids were assigned here by name."""
    if isinstance(records.image, Named):
        code, names = _sorted_names(records.image)
        return code, dict(enumerate(names)), True
    return records.image, None if records.image_names is None else dict(records.image_names), False


def numbered_classes(records: RowKeys) -> tuple[Ids, dict[int, str] | None]:
    """The label of each row, and the names of all classes by label."""
    if not isinstance(records.label, Named):
        return records.label, None if records.class_names is None else dict(records.class_names)
    if records.class_names is None:
        code, names = _sorted_names(records.label)
        return code, dict(enumerate(names))
    label_of = {name: label for label, name in records.class_names.items()}
    for index, name in enumerate(records.label.names):
        if name not in label_of and (row := first_of(records.label.code == index)) is not None:
            raise InputError(f"{records.location(row)}: class {name!r} is not among those listed: {some(label_of)}")
    table = np.array([label_of.get(name, -1) for name in records.label.names], np.int64)  # no row has a -1
    return table[records.label.code], dict(records.class_names)


def _sorted_names(column: Named) -> tuple[Ids, list[str]]:
    order = sorted(range(len(column.names)), key=column.names.__getitem__)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[column.code], [column.names[code] for code in order]


def join(
    records: Records,
    truths: Truths,
    sizes: Sizes | None = None,
    *,
    images: Selection | None = None,
    classes: Selection | None = None,
    iou_types: Sequence[str] = ("bbox",),
    keeps_polygons: bool = False,
    keeps_labels: bool = False,
) -> tuple[Detections, Report]:
    """Turn records into detections on the truths' images and classes; drop unmatched rows and report them.

    Images are joined by id, by file name, by file name without its folder, or by stem; classes by name, by name
    ignoring case, or by id. One rule applies to the whole file: the first that matches every image (or class), else the
    one that matches most.

    Args:
        records: The rows of a file.
        truths: The truths.
        sizes: Sizes of images by id or name; they override the truths' sizes.
        images: The selected images. Rows on other images are not reported.
        classes: The selected classes. Rows of other classes are not reported.
        iou_types: The similarities that the detections get shapes for.
        keeps_polygons: Whether masks keep the polygons that they are drawn from.
        keeps_labels: Whether rows of unknown classes keep the file's labels, if it has labels but no class names.
    """
    if records.score is None:
        raise InputError(f"{records.source}: detections must have a score")
    _check_fractions(records)
    image, lost_image = join_images(records, truths)
    label, lost_class = join_classes(records, truths)
    if keeps_labels and _are_joined_by_label(records, label, lost_class):
        label, lost_class = np.asarray(records.label), np.zeros_like(lost_class)
    is_lost = lost_image | lost_class
    is_wanted = _is_wanted(records.image, records.image_names, images) & _is_wanted(
        records.label, records.class_names, classes
    )
    report = Report(
        num_rows=len(records),
        num_unmatched=int((is_lost & is_wanted).sum()),
        unmatched=unmatched_rows(records, truths, lost_image & is_wanted, lost_class & is_wanted),
    )
    if is_lost.any():
        records, image, label = keep_rows(records, ~is_lost), image[~is_lost], label[~is_lost]
    known = sizes_by_id(truths.image_sizes, sizes, truths.image_names, is_numbered=truths.is_numbered)
    measured = in_pixels(records, image, known)
    if not records.is_normalized and truths.is_normalized:
        rule = "the truths are fractions of their images' sizes, but the detections are pixels"
        raise InputError(f"{records.source}: {rule}; read the truths with `sizes`, too")
    try:
        mask = masks_in_images(records, image, known, keeps_polygons=keeps_polygons)
        shapes = shapes_for(measured, mask, iou_types)
        columns = Detections(image_ids=image, labels=label, scores=records.score, area=records.area, **shapes)
    except InputError as error:
        raise records.refuse(error) from None
    return columns, report


def unmatched_rows(
    records: RowKeys, truths: Truths, lost_image: NDArray[np.bool_], lost_class: NDArray[np.bool_]
) -> tuple[Unmatched, ...]:
    """The images and the classes of lost rows, one `Unmatched` each; empty if no row is lost."""
    problems = (
        _unmatched(records, "image", records.image, lost_image, _names(truths.image_names)),
        _unmatched(records, "class", records.label, lost_class, _names(truths.names_by_label)),
    )
    return tuple(problem for problem in problems if problem is not None)


def _are_joined_by_label(records: Records, label: Ids, is_lost: NDArray[np.bool_]) -> bool:
    """Whether the file has labels without names, and every label that was found is the same among the truths."""
    if isinstance(records.label, Named) or records.class_names or records.is_position:
        return False
    return np.array_equal(label[~is_lost], records.label[~is_lost])


def keep_rows(records: Records, is_kept: NDArray[np.bool_]) -> Records:
    """The kept rows of the records; each keeps its location in the file."""
    return take_records(records, np.flatnonzero(is_kept))


def take_records(records: Records, row: Ids) -> Records:
    """The given rows of the records, in any order and possibly repeated; each keeps its location in the file."""
    names = ("image", "label", "box", "score", "ignore", "kind", "truncated", "area", "id")
    given = {name: column for name in names if (column := getattr(records, name)) is not None}
    columns = {name: column[row] for name, column in given.items()}
    masks = {name: getattr(records, name) for name in ("mask", "polygons")}
    columns |= {name: each.take(row) for name, each in masks.items() if each is not None}
    columns["shapes"] = {kind: rows.take(row) for kind, rows in records.shapes.items()}
    return replace(records, **columns, location=lambda index: records.location(int(row[index])))


def join_images(records: RowKeys, truths: Truths) -> tuple[Ids, NDArray[np.bool_]]:
    """The id of each row's image among the truths, and which rows have none."""
    known = truths.image_names
    if known is None:
        if isinstance(records.image, Named):
            raise InputError(
                f"{records.source}: images have names, but the truths have no `image_names` to look them up"
            )
        return records.image, np.zeros(len(records), bool)
    by_name = [finder(known, key) for key in NAME_KEYS]
    # Ids numbered here from names mean nothing in other files; an integer can only be the number in a name.
    by_id = [] if truths.is_numbered else [partial(as_known_id, known=known)]
    by_number = finder(known, _whole_stem)
    if isinstance(records.image, Named):
        return _apply(records.image, [*by_name, *by_id, by_number])
    if records.image_names:
        through = [_through(records.image_names, rule) for rule in by_name]
        return _apply(records.image, [*through, *by_id, by_number])
    if truths.is_numbered:
        _check_ids_are_names(_distinct(records.image), known, records.source)
        return _apply(records.image, [by_number])
    return _apply(records.image, [*by_id, by_name[0], by_number])


def _check_ids_are_names(ids: Sequence[int], known: Mapping[int, str], source: str) -> None:
    """Raise `InputError` unless the integer ids of detections are the numbers in the truths' names: 12 is `000012.jpg`.

    `known`: images that have only names; their ids were assigned here. A few ids may match no name: they are reported
    as unmatched later. But if none matches, or if some don't and all are valid indices into the list of names, they are
    ids of something else, and would match an image by chance.
    """
    named: dict[str, list[str]] = {}
    for name in known.values():
        named.setdefault(_whole_stem(name), []).append(name)
    num_found = 0
    for value in ids:
        names = named.get(str(value), [])
        num_found += len(names) == 1
        if len(names) > 1:
            raise InputError(
                f"{source}: image {value} may be {names[0]!r} or {names[1]!r} of the truths, which have names and no"
                " ids; give the images of the detections by file name"
            )
    are_indices = all(0 <= value < len(known) for value in ids)
    if ids and (num_found == 0 or (num_found < len(ids) and are_indices)):
        unknown = next(value for value in ids if str(value) not in named)
        raise InputError(
            f"{source}: images have ids ({some(ids, 3)}), but those of the truths have only names"
            f" ({some(known.values(), 3)}), and {unknown} is none of them; give the images of the detections by file"
            " name, or read truths that have ids, as those of COCO JSON do"
        )


def join_classes(records: RowKeys, truths: Truths) -> tuple[Ids, NDArray[np.bool_]]:
    """The label of each row among the truths, and which rows have none."""
    known = truths.names_by_label
    if known is None:
        if isinstance(records.label, Named):
            raise InputError(
                f"{records.source}: classes have names, but the truths have no `class_names` to look them up"
            )
        return records.label, np.zeros(len(records), bool)
    by_name = [finder(known, str), finder(known, lambda name: name.strip().casefold())]
    by_id = partial(as_known_id, known=known)
    if isinstance(records.label, Named):
        return _apply(records.label, [*by_name, by_id])
    if records.class_names:
        through = [_through(records.class_names, rule) for rule in by_name]
        return _apply(records.label, [*through, by_id])
    if records.is_position:
        label_at = dict(enumerate(sorted(known)))
        return _apply(records.label, [lambda value: label_at.get(int(value))])
    if records.has_ultralytics_ids and truths.is_numbered:
        from boxscore.formats.ultralytics_json import class_rule

        rule = class_rule(_distinct(records.label), known, records.source)
        if rule is not None:
            return _apply(records.label, [rule])
    return _apply(records.label, [by_id, by_name[0]])


def _through(names: Mapping[int, str], rule: Rule) -> Rule:
    """A rule that applies the given rule to the name that the file gives to an id."""
    return lambda value: rule(names[int(value)]) if value in names else None


def _whole_stem(name: str) -> str:
    """An integer stem without leading zeros; any other stem becomes a text that matches nothing."""
    number = number_of(name)
    return f"not a number: {stem_of(name)}" if number is None else str(number)


def _apply(column: Key, rules: Sequence[Rule]) -> tuple[Ids, NDArray[np.bool_]]:
    """Apply the rule that matches most values, the first of equals; return ids, and which rows do not match."""
    values = _distinct(column)
    best: list[int | None] = [None] * len(values)
    num_best = -1
    for rule in rules:
        found = [rule(value) for value in values]
        num_found = len(values) - found.count(None)
        if num_found > num_best:
            best, num_best = found, num_found
        if num_found == len(values):
            break
    is_lost = np.array([each is None for each in best], bool)
    table = np.array([0 if each is None else each for each in best], np.int64)
    if isinstance(column, Named):
        used = np.unique(column.code)
        code = np.searchsorted(used, column.code)
    elif not is_lost.any() and table.tolist() == values:
        return column, np.zeros(column.size, bool)
    else:
        code = np.searchsorted(np.array(values, np.int64), column)
    if not len(values):
        return np.zeros(0, np.int64), np.zeros(0, bool)
    return table[code], is_lost[code]


def _distinct(column: Key) -> list[Any]:
    """The distinct values of the rows; ids are ascending."""
    if isinstance(column, Named):
        return [column.names[code] for code in np.unique(column.code)]
    return np.sort(_compiled.distinct(compact(column))).tolist() if column.size else []


def _unmatched(
    records: RowKeys, kind: str, column: Key, is_lost: NDArray[np.bool_], known: Sequence[str]
) -> Unmatched | None:
    row = first_of(is_lost)
    if row is None:
        return None
    first = column.item(row)
    others = [value for value in _distinct(column[is_lost]) if value != first]
    return Unmatched(
        kind=kind, num_rows=int(is_lost.sum()), values=(first, *others), location=records.location(row), known=known
    )


def _names(known: Mapping[int, str] | None) -> list[str]:
    return list((known or {}).values())


def _is_wanted(column: Key, names: Mapping[int, str] | None, selection: Selection | None) -> NDArray[np.bool_]:
    """Whether the name or id of each row is selected."""
    if selection is None:
        return np.ones(len(column), bool)
    if isinstance(column, Named):
        return np.array([selection.has(name) for name in column.names], bool)[column.code]
    wanted = [value for value in _distinct(column) if selection.has((names or {}).get(value, value))]
    return np.isin(column, wanted)


def sizes_by_id(
    known: Sizes | None, given: Sizes | None, names: Mapping[int, str] | None, *, is_numbered: bool = False
) -> dict[int, tuple[int, int]]:
    """Sizes by image id, from sizes by id or name; `given` sizes override `known` ones.

    `is_numbered`: the ids are only indices into a list of names, so a text of digits is a name and not an id.
    """
    found: dict[int, tuple[int, int]] = {}
    for sizes in (known, given):
        if not sizes:
            continue
        if names is None or all(isinstance(key, int) for key in sizes):
            found |= {key: size for key, size in sizes.items() if isinstance(key, int)}
            continue
        by_name = {str(key): size for key, size in sizes.items()}
        by_stem = {stem_of(key): size for key, size in by_name.items()}
        for number, name in names.items():
            size = by_name.get(name) or by_name.get(base_of(name)) or by_stem.get(stem_of(name))
            if size is None and not is_numbered:
                size = by_name.get(str(number))
            if size is not None:
                found[number] = size
    return found


def look_like_pixels(box: Floats, box_format: BoxFormat) -> NDArray[np.bool_]:
    """Whether boxes that should be fractions are at least as large as the image and reach far beyond it. Shape (R,).

    >>> look_like_pixels(np.array([[0.5, 0.5, 1.01, 1.2], [320, 240, 9, 9]]), "cxcywh").tolist()
    [False, True]
    """
    with np.errstate(invalid="ignore"):
        width, height = extents(box, box_format)
        is_large = (width >= 1) & (height >= 1) & (np.abs(box) > LARGEST_FRACTION).any(axis=1)
    return np.asarray(is_large & np.isfinite(box).all(axis=1))


def _check_fractions(records: Records) -> None:
    """Refuse pixels in a format of fractions: any among truths, a majority among detections; warn about a minority.

    A detector that does not clip its boxes may give a few very large ones.
    """
    if not records.is_normalized or not len(records):
        return
    is_large = look_like_pixels(records.box, records.box_format)
    row, num = first_of(is_large), int(is_large.sum())
    if row is None:
        return
    numbers = " ".join(f"{number:.10g}" for number in records.box[row].tolist())
    got = f"must be fractions of the image's width and height, 0 to 1; got {numbers} ({records.box_format})"
    if records.score is None or 2 * num >= len(records):
        advice = "these look like pixels: divide them by the image's size"
        others = f" ({count(num, 'box', 'boxes')} like it)" if num > 1 else ""
        raise InputError(f"{records.location(row)}: boxes {got}; {advice}{others}")
    shown = f"{count(num, 'box', 'boxes')} of {len(records):,}"
    warnings.warn(f"{shown} look like pixels; {records.location(row)}: boxes {got}", stacklevel=4)
