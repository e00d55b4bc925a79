"""Map classes of detections to classes of the truths, by ids or names."""

import csv
import io
import warnings
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.data.dataset import Truths
from boxscore.formats.files import open_source, parse_json
from boxscore.formats.records import Key, Named, Records
from boxscore.formats.selection import some

Class = int | str
"""An id, or a name."""


def read_class_map(source: Any) -> dict[Class, Class]:
    """Read a class map from a mapping, text like "1:0,cat:dog", or the path of a JSON object or a CSV of two columns.

    Integers in text are ids.

    >>> read_class_map("1:0,cat:dog")
    {1: 0, 'cat': 'dog'}
    """
    if isinstance(source, Mapping):
        pairs, location = list(source.items()), "`map_classes`"
    elif isinstance(source, PathLike) or _is_file(source):
        pairs, location = _read(Path(source)), str(source)
    else:
        parts = [part.rpartition(":") for part in str(source).split(",")]
        if not all(sign for _, sign, _ in parts):
            raise InputError(f"`map_classes` must be a file, or like 1:0,2:1; got {source!r}")
        pairs, location = [(old, new) for old, _, new in parts], "`map_classes`"
    found: dict[Class, Class] = {}
    for old, new in pairs:
        key, value = _class(old, location), _class(new, location)
        if found.setdefault(key, value) != value:
            raise InputError(f"{location}: class {old!r} is given twice, as {found[key]!r} and {new!r}")
    return found


def _is_file(source: Any) -> bool:
    if not isinstance(source, str):
        raise InputError(f"`map_classes` must be a mapping, a path, or text like 1:0,2:1; got {type(source).__name__}")
    try:
        return Path(source).is_file()
    except (OSError, ValueError):  # text of many classes is too long for a file name
        return False


def _read(path: Path) -> list[tuple[Any, Any]]:
    content = open_source(path).text()
    if path.suffix.lower() == ".json":
        classes = parse_json(content, str(path))
        if not isinstance(classes, dict):
            raise InputError(f"{path}: must be a JSON object from classes to classes; got a {type(classes).__name__}")
        return list(classes.items())
    pairs = []
    for number, row in enumerate(csv.reader(io.StringIO(content), delimiter="\t" if "\t" in content else ","), 1):
        if not row or (number == 1 and [cell.strip().lower() for cell in row] == ["from", "to"]):
            continue
        if len(row) != 2:
            raise InputError(f"{path}: line {number} must have two classes, `from` and `to`; got {','.join(row)!r}")
        pairs.append((row[0], row[1]))
    return pairs


def _class(value: Any, location: str) -> Class:
    if isinstance(value, str) and value.strip():
        return _key(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise InputError(f"{location}: classes must be ids or names; got {value!r}")


def _key(text: str) -> Class:
    """The integer that the text spells, as an id; else the text without surrounding spaces."""
    word = text.strip()
    return int(word) if word.removeprefix("-").isdecimal() and word.isascii() and len(word) < 19 else word


def map_classes(records: Records, mapping: Mapping[Class, Class], truths: Truths) -> Records:
    """Replace the classes that the map has by classes of the truths; others stay as they are.

    A class is looked up by its id, then by its name if it has one. In files that have only names, such as text files, a
    number is a name.
    """
    known = truths.names_by_label
    are_numbers = truths.is_numbered and all(isinstance(_key(name), int) for name in (known or {}).values())
    target = {old: _target(str(new) if are_numbers else new, known) for old, new in mapping.items()}
    label = records.label
    names = label.names if isinstance(label, Named) else records.class_names
    if isinstance(label, Named):
        code, values = label.code, list[Class](label.names)
    else:
        distinct, code = np.unique(label, return_inverse=True)
        values = list[Class](distinct.tolist())
    own = [_found(value, target, names) for value in values]
    if values and all(each is None for each in own):
        warnings.warn(
            f"{records.source}: no detection is of a class that `map_classes` has ({some(mapping)}); "
            f"they are of {some(values)}",
            stacklevel=3,
        )
        return records
    mapped: Key
    pairs = list(zip(values, own, strict=True))
    if all(each is not None for each in own) or (not isinstance(label, Named) and records.class_names is None):
        mapped = np.array([value if new is None else new for value, new in pairs], np.int64)
    elif known is None:
        raise InputError(f"`map_classes` must have every class of {records.source}, as the truths have no names")
    else:
        mapped = Named.of([_name(value, names) if new is None else known[new] for value, new in pairs])
    return replace(records, label=mapped[code], class_names=None, is_position=False, has_ultralytics_ids=False)


def _target(new: Class, known: Mapping[int, str] | None) -> int:
    """The id of a class of the truths."""
    if isinstance(new, int) and (known is None or new in known):
        return new
    label = next((label for label, name in (known or {}).items() if name == str(new)), None)
    if label is None:
        classes = some(f"{label} ({name})" for label, name in (known or {}).items()) or "only ids"
        raise InputError(f"`map_classes`: {new!r} is not a class of the truths; they have {classes}")
    return label


def _found(value: Class, target: Mapping[Class, int], names: Any) -> int | None:
    if isinstance(value, str):
        return target.get(_key(value))
    return target[value] if value in target else target.get(_name(value, names))


def _name(value: Class, names: Any) -> str:
    return names.get(value, str(value)) if isinstance(names, Mapping) else str(value)
