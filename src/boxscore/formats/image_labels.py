"""Open Images' verified image labels: which classes were verified as present or absent in which images."""

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
    """Add the coverage to the records, from the file of image labels that the options name.

    A class that has a label in an image was verified there, as present (1) or absent (0). By the hierarchy, all
    ancestors of a present class are present, and all descendants of an absent class are absent; labels of classes that
    the hierarchy does not have are ignored. Images and classes that have only labels become part of the data, if images
    and classes are identified by name. If no label is of an image of the records, that is an error.
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
        image_names=None if _are_ids(records.image_names) else records.image_names,
        class_names=None if _are_ids(records.class_names) else records.class_names,
        coverage=_each_once(image, label),
    )


def _check_images(records: Records, image: Named, path: str) -> None:
    """Raise `InputError` if the records have images, and no label is of one of them."""
    own = as_named(records.image, records.image_names).names
    known = {stem_of(name) for name in (*own, *(records.image_names or {}).values())}
    known |= {str(number) for number in records.image_names or ()}
    if known and known.isdisjoint(map(stem_of, image.names)):
        got = f"these have {some(image.names, 3) or 'none'}, and those {some(own, 3)}"
        raise InputError(f"{path}: image labels must be of the images of {records.source}, and none is: {got}")


def _each_once(image: Named, label: Named) -> CoverageRows:
    """Remove duplicate pairs, which occur if several people verified a class or several classes imply it."""
    _, first = np.unique(np.stack([image.code, label.code]), axis=1, return_index=True)
    first.sort()
    return CoverageRows(image[first], label[first])


def _descriptions(names: Any) -> Mapping[str, str]:
    """The descriptions of labels; empty for a list of names, which does not describe labels."""
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
    """Add the labels that follow by the hierarchy; drop labels of classes that it does not have."""
    names = [hierarchy.name_of(name) for name in label.names]
    if names and hierarchy.ancestors.keys().isdisjoint(names):
        hierarchy.check_has(names[label.code[0]], table.location(0))
    lists: list[Sequence[str]] = []
    for row, code in enumerate(label.code.tolist()):
        name, following = names[code], hierarchy.ancestors if is_present[row] else hierarchy.descendants
        lists.append((name, *following[name]) if name in following else ())
    row_of = np.repeat(np.arange(len(lists)), np.array([len(each) for each in lists], np.int64))
    return image[row_of], Named.of(list(chain.from_iterable(lists)))


def _are_ids(names: Mapping[int, str] | None) -> bool:
    """Whether names are missing, or are only the ids as text."""
    return names is None or all(name == str(number) for number, name in names.items())


def _with_names(column: Key, known: Mapping[int, str] | None, more: Sequence[str]) -> Key:
    """Convert the column to names and add the names of the image labels; ids that have names stay as they are."""
    if not isinstance(column, Named):
        if not _are_ids(known):
            return column
        column = as_named(column, known)
    names = list(dict.fromkeys((*column.names, *more)))
    code: Ids = column.code
    return Named(code=code, names=names)
