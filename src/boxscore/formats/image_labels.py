"""Open Images' verified labels of images: which classes were looked for, and found or not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from os import PathLike
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore._support.image_file_names import stem_of
from boxscore.formats.csv import read_table
from boxscore.formats.files import open_source
from boxscore.formats.hierarchy import Hierarchy, as_named
from boxscore.formats.openimages import read_descriptions, renamed
from boxscore.formats.records import CoverageRows, Ids, Key, Named, Options, Records
from boxscore.formats.selection import some
from boxscore.formats.tables import IMAGE_IDS, IMAGE_NAMES, LABEL_NAMES, Table, shown
from boxscore.protocol.comparable import NOT_EXPANDED

CONFIDENCES = ("confidence", "confidenceimagelabel")


def cover(records: Records, options: Options, hierarchy: Hierarchy | None) -> Records:
    """The records with what was looked for, from the file of image labels that the options name.

    A class with a label in an image was looked for there, whether it is 1, present, or 0, absent. By the hierarchy, all
    classes above one that is present are present, and all below one that is absent are absent. Images and classes that
    have labels only are part of the data, where these are known by name; classes that the hierarchy does not have say
    nothing. Labels of which none is of an image of the records are an error.
    """
    path = options.image_labels
    if not isinstance(path, str | PathLike):
        raise InputError(f"`image_labels` must be the path of a CSV file; got {type(path).__name__}")
    table = read_table(open_source(path))
    image = as_named(table.keys(table.need("image", *IMAGE_IDS, *IMAGE_NAMES)), None)
    label = as_named(table.keys(table.need("class", *LABEL_NAMES)), None)
    is_present = _are_present(table)
    _check_images(records, image, str(path))
    if options.names is not None:
        label = renamed(label, _descriptions(options.names))
    subset = tuple(dict.fromkeys((*records.subset, NOT_EXPANDED)))
    if hierarchy is not None:
        image, label = _expanded(table, image, label, is_present, hierarchy)
        subset = records.subset
    return replace(
        records,
        subset=subset,
        image=_with_names(records.image, records.image_names, image.names),
        label=_with_names(records.label, records.class_names, label.names),
        image_names=None if _are_plain(records.image_names) else records.image_names,
        class_names=None if _are_plain(records.class_names) else records.class_names,
        coverage=_each_once(image, label),
    )


def _check_images(records: Records, image: Named, path: str) -> None:
    """Raise `InputError` if no label is of an image that the records have, and they have some."""
    own = as_named(records.image, records.image_names).names
    known = {stem_of(name) for name in (*own, *(records.image_names or {}).values())}
    known |= {str(number) for number in records.image_names or ()}
    if known and known.isdisjoint(map(stem_of, image.names)):
        got = f"these have {some(image.names, 3) or 'none'}, and those {some(own, 3)}"
        raise InputError(f"{path}: image labels must be of the images of {records.source}, and none is: {got}")


def _each_once(image: Named, label: Named) -> CoverageRows:
    """Every pair once, as it first occurs: several people may have verified it, and so may several classes."""
    _, first = np.unique(np.stack([image.code, label.code]), axis=1, return_index=True)
    first.sort()
    return CoverageRows(replace(image, code=image.code[first]), replace(label, code=label.code[first]))


def _descriptions(names: Any) -> Mapping[str, str]:
    """The descriptions of labels; a list of names says nothing of labels."""
    return {} if isinstance(names, Sequence) and not isinstance(names, str) else read_descriptions(names)


def _are_present(table: Table) -> list[bool]:
    """Whether each label says that its class is in the image."""
    name = table.need("verdict on the label", *CONFIDENCES)
    values = table.floats(name)
    is_verified = (values == 0) | (values == 1)
    if not is_verified.all():
        row = int(np.argmin(is_verified))
        got = shown(table.values(name)[row])
        rule = "must be 1, the class is in the image, or 0, it is not: labels that people verified"
        raise InputError(f"{table.location(row)}: `{name}` {rule}; got {got}")
    is_present: list[bool] = (values == 1).tolist()
    return is_present


def _expanded(
    table: Table, image: Named, label: Named, is_present: Sequence[bool], hierarchy: Hierarchy
) -> tuple[Named, Named]:
    """The labels, and those that follow from them by the hierarchy, without those of classes that it does not have."""
    names = [hierarchy.name_of(name) for name in label.names]
    if names and hierarchy.ancestors.keys().isdisjoint(names):
        hierarchy.check_has(names[label.code[0]], table.location(0))
    lists: list[Sequence[str]] = []
    for row, code in enumerate(label.code.tolist()):
        name, following = names[code], hierarchy.ancestors if is_present[row] else hierarchy.descendants
        lists.append((name, *following[name]) if name in following else ())
    row_of = np.repeat(np.arange(len(lists)), np.array([len(each) for each in lists], np.int64))
    return replace(image, code=image.code[row_of]), Named.of(list(chain.from_iterable(lists)))


def _are_plain(names: Mapping[int, str] | None) -> bool:
    """Whether names say nothing that the ids do not."""
    return names is None or all(name == str(number) for number, name in names.items())


def _with_names(column: Key, known: Mapping[int, str] | None, more: Sequence[str]) -> Key:
    """The column by names, with those of labels; ids that have other names stay, with the list that the file has."""
    if not isinstance(column, Named):
        if not _are_plain(known):
            return column
        column = as_named(column, known)
    names = list(dict.fromkeys((*column.names, *more)))
    code: Ids = column.code
    return Named(code=code, names=names)
