"""Columns of tables with facts about the image or the class of a row.

| column | |
|---|---|
| `kind` | of a truth: 0 to 3, or regular, difficult, crowd, group |
| `neg_category_ids` | a list of the classes verified as absent from the image, by id or name as in the class column |
| `not_exhaustive_category_ids` | a list of the classes of which some objects in the image have no truth |
| `crowd_index` | the crowd index of the image |
| `class_group` | the group of the row's class, such as LVIS' rare, common and frequent |

The facts of an image may be in one of its rows or in all; lists of several rows are combined. A row without a class is
an image without boxes. In text, lists are JSON.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.data.batch_keys import COVERAGE_KEYS
from boxscore.data.coverage import Coverage
from boxscore.data.image_facts import CLASS_GROUP, CROWD_INDEX
from boxscore.formats.records import CoverageRows, Floats, Ids, Key, Named, codes_of
from boxscore.protocol.protocol import Protocol

if TYPE_CHECKING:
    from boxscore.formats.tables import Table

KIND = "kind"
KINDS = ("regular", "difficult", "crowd", "group")
"""The names of `Truths.kind`, by number."""
NAMES = (KIND, *COVERAGE_KEYS, CROWD_INDEX, CLASS_GROUP)


def unneeded_columns(protocol: Protocol) -> set[str]:
    """The columns that a protocol does not need, for rows that are evaluated while they are read."""
    lists = set() if protocol.federated else {*COVERAGE_KEYS}
    return lists | (set() if protocol.ranges_by == CROWD_INDEX else {CROWD_INDEX})


class FactRows(NamedTuple):
    """Facts of images, by rows of a table."""

    crowd_index: Floats | None
    """NaN where a row has no value. Shape (R,)."""
    lists: Sequence[tuple[Ids, Key]] | None
    """The row and the class of each entry, for `neg_category_ids`, then for `not_exhaustive_category_ids`."""


def read_facts(table: "Table") -> FactRows:
    """Read the facts of images from all rows, with or without a class."""
    crowd_index = None
    if CROWD_INDEX in table.columns:
        crowd_index = table.floats(CROWD_INDEX, missing=np.nan)
    names = [name for name in COVERAGE_KEYS if name in table.columns]
    if names == [COVERAGE_KEYS[1]]:
        raise InputError(f"{table.source}: must have the column {COVERAGE_KEYS[0]}, since it has {names[0]}")
    return FactRows(crowd_index, [_entries(table, name) for name in names] if names else None)


def read_kinds(table: "Table") -> Any:
    """Read the kinds of truths, as uint8; None if the table has no such column."""
    if KIND not in table.columns:
        return None
    number_of = {name: number for number, name in enumerate(KINDS)} | {str(number): number for number in range(4)}
    kinds = np.zeros(table.num_rows, np.uint8)
    for row, value in enumerate(table.values(KIND)):
        number = number_of.get(str(value).strip().lower())
        if number is None:
            rule = f"must be 0 to 3, or {', '.join(KINDS)}"
            raise InputError(f"{table.location(row)}: `{KIND}` {rule}; got {str(value)[:60]!r}")
        kinds[row] = number
    return kinds


def read_class_groups(table: "Table", label: Key) -> dict[Any, str] | None:
    """Read the group of each class, by id or name; None if the table has no such column."""
    if CLASS_GROUP not in table.columns:
        return None
    groups: dict[Any, str] = {}
    for row, (key, group) in enumerate(zip(label.tolist(), table.values(CLASS_GROUP), strict=True)):
        if not _is_missing(group) and groups.setdefault(key, str(group)) != str(group):
            both = f"{groups[key]!r} and {str(group)!r}"
            raise InputError(f"{table.location(row)}: class {key!r} must have one `{CLASS_GROUP}`; got {both}")
    return groups


def groups_by_label(groups: Mapping[Any, str] | None, names: Mapping[int, str] | None) -> dict[int, str] | None:
    """Groups by label, from groups by id or by name."""
    if groups is None:
        return None
    label_of: dict[Any, int] = {name: label for label, name in (names or {}).items()}
    return {label_of[key] if isinstance(key, str) else key: group for key, group in groups.items()}


def _crowd_index(facts: FactRows, image: Key) -> dict[Any, float] | None:
    """The crowd index of each image, by id or name; None if the table has no such column."""
    if facts.crowd_index is None:
        return None
    is_given = ~np.isnan(facts.crowd_index)
    known: dict[Any, float] = {}
    pairs = {*zip(codes_of(image)[is_given].tolist(), facts.crowd_index[is_given].tolist(), strict=True)}
    for code, value in sorted(pairs):
        key = image.names[code] if isinstance(image, Named) else code
        if known.setdefault(key, value) != value:
            raise InputError(f"`{CROWD_INDEX}` of image {key} must be one number; got {known[key]} and {value}")
    return known


def fields_of(table: "Table", image: Key, annotated: tuple[Key, Key], boxes: "Table") -> dict[str, Any]:
    """Fields of `Records` with the facts of a table that has all rows of its images.

    Args:
        table: All rows.
        image: The image of each row.
        annotated: Image and class of each truth.
        boxes: The rows that are truths.
    """
    facts = read_facts(table)
    return {
        "crowd_index": _crowd_index(facts, image),
        "coverage": _coverage(facts, image, annotated),
        "class_groups": read_class_groups(boxes, annotated[1]),
    }


def _coverage(facts: FactRows, image: Key, annotated: tuple[Key, Key]) -> CoverageRows | None:
    if facts.lists is None:
        return None
    lists = [*facts.lists, (np.zeros(0, np.int64), np.zeros(0, np.int64))][:2]
    (listed, truth_image), images = _coded([image, annotated[0]])
    (negative, partial, truth_label), labels = _coded([lists[0][1], lists[1][1], annotated[1]])
    rows = Coverage.from_lists(
        negative=(listed[lists[0][0]], negative),
        not_exhaustive=(listed[lists[1][0]], partial),
        annotated=(truth_image, truth_label),
    )
    return CoverageRows(_decoded(rows.image_ids, images), _decoded(rows.labels, labels), rows.is_exhaustive)


def _coded(keys: Sequence[Key]) -> tuple[list[Ids], list[str] | None]:
    """Encode keys as integers, equal for equal keys. Also return the names that they index; None if they are ids."""
    if not any(isinstance(key, Named) for key in keys):
        return [key for key in keys if not isinstance(key, Named)], None
    texts = [[*map(str, key.tolist())] for key in keys]
    named = Named.of([text for each in texts for text in each])
    return np.split(named.code, np.cumsum([len(each) for each in texts])[:-1]), list(named.names)


def _decoded(codes: Ids, names: list[str] | None) -> Key:
    return codes if names is None else Named(code=codes, names=names)


def _entries(table: "Table", name: str) -> tuple[Ids, Key]:
    """The row and the class of each entry of a column of lists."""
    rows: list[int] = []
    values: list[Any] = []
    for row, cell in enumerate(table.columns[name]):  # type: ignore[arg-type]
        entries = _parsed(cell)
        if entries is None or not all(type(entry) in (int, str) for entry in entries):
            rule = "must be a list of classes, by id or name"
            raise InputError(f"{table.location(row)}: `{name}` {rule}; got {str(cell)[:60]!r}")
        rows += [row] * len(entries)
        values += entries
    if all(type(value) is int for value in values):
        return np.array(rows, np.int64), np.array(values, np.int64)
    return np.array(rows, np.int64), Named.of([*map(str, values)])


def _parsed(cell: Any) -> list[Any] | None:
    """The entries of a cell; None if it is not a list."""
    if isinstance(cell, np.ndarray):
        cell = cell.tolist()
    elif isinstance(cell, str) and cell:
        try:
            cell = json.loads(cell)
        except (ValueError, RecursionError):
            return None
    return [] if _is_missing(cell) else cell if isinstance(cell, list) else None


def _is_missing(value: Any) -> bool:
    return value is None or value == ""
