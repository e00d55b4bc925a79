"""Open Images' class hierarchy: every row also counts for all ancestors of its class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.formats.files import Source, open_source, parse_json
from boxscore.formats.joining import take_records
from boxscore.formats.openimages import read_descriptions
from boxscore.formats.records import Ids, Key, Named, Records, codes_of
from boxscore.formats.selection import some
from boxscore.formats.tables import shown

MAX_DEPTH = 100
"""Maximum number of levels of a tree; the published trees have six."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hierarchy:
    """The classes of a tree, without its root, which is a virtual node above all classes."""

    source: str
    root: str
    ancestors: Mapping[str, Sequence[str]]
    """All classes above each class."""
    descendants: Mapping[str, Sequence[str]]
    """All classes below each class."""
    descriptions: Mapping[str, str]
    """Names of classes by their label in the tree. If not empty, the other fields have names, not labels."""

    def name_of(self, label: str) -> str:
        """The name of a class by its label or its name."""
        return self.descriptions.get(label, label)

    def check_has(self, label: str, location: str) -> None:
        """Raise `InputError` if a class is not in the tree."""
        if label in self.ancestors:
            return
        reason = "is not in it" if label != self.root else "is its root, which stands for no class"
        raise InputError(
            f"{location}: every class must be one of the hierarchy {self.source}; {shown(label)} {reason}: it has"
            f" {some(self.ancestors, 5)}; take the hierarchy that was published with these classes, give the file of"
            " their descriptions as names, if one of both has labels like /m/01g317, or leave such rows out"
        )


def read_hierarchy(path: Any, names: Any = None) -> Hierarchy:
    """Read the tree in a JSON file: nodes have a `LabelName` and optionally a list of children, `Subcategory`.

    `names`: descriptions of labels, a mapping or a file of two columns; other kinds of names are ignored. Nodes in
    `Part` are not descendants: a wheel is not a car. A node that occurs only as a part has no ancestors.
    """
    if isinstance(path, Hierarchy):
        return path
    if not isinstance(path, str | PathLike):
        raise InputError(f"`hierarchy` must be the path of a JSON file; got {type(path).__name__}")
    source = open_source(path)
    tree = parse_json(source.text(), str(source))
    descriptions = read_descriptions(names) if _are_descriptions(names) else {}
    return _from_tree(tree, source, descriptions)


def _are_descriptions(names: Any) -> bool:
    """Whether names describe labels, and are not a list of classes by number."""
    if isinstance(names, str | PathLike):
        return Path(names).suffix.lower() not in (".yaml", ".yml", ".names")
    return isinstance(names, Mapping) and all(isinstance(label, str) for label in names)


class _Node(NamedTuple):
    """A class in the tree."""

    label: str
    children: Sequence[Any]
    """The nodes of `Subcategory`."""
    parts: Sequence[Any]
    """The nodes of `Part`."""


def _from_tree(tree: Any, source: Source, descriptions: Mapping[str, str]) -> Hierarchy:
    top = _node(tree, source, (), descriptions)
    if not top.children:
        raise InputError(f"{source}: must be a hierarchy, a tree of classes; {shown(top.label)} has no `Subcategory`")
    ancestors: dict[str, dict[str, None]] = {}
    descendants: dict[str, dict[str, None]] = {}
    nodes, parts = list(top.children), list(top.parts)
    while nodes:
        # A node that is only a part becomes a root with its descendants; known classes keep their ancestors.
        known = {*ancestors}
        stack: list[tuple[Any, tuple[str, ...]]] = [(node, ()) for node in reversed(nodes)]
        while stack:
            each, above = stack.pop()
            node = _node(each, source, (top.label, *above), descriptions)
            _check_path((top.label, *above, node.label), source)
            parts += node.parts
            stack += [(child, (*above, node.label)) for child in reversed(node.children)]
            if node.label not in known:
                # A class may occur several times in the tree: its ancestors are the union over these.
                ancestors.setdefault(node.label, {}).update(dict.fromkeys(reversed(above)))
                for label in above:
                    descendants.setdefault(label, {})[node.label] = None
        nodes, parts = parts, []
    return Hierarchy(
        source=str(source),
        root=top.label,
        ancestors={label: tuple(above) for label, above in ancestors.items()},
        descendants={label: tuple(descendants.get(label, ())) for label in ancestors},
        descriptions=descriptions,
    )


def _check_path(path: Sequence[str], source: Source) -> None:
    """Raise `InputError` if the last class of a path is its own ancestor, or is too deep."""
    *above, label = path
    if label in above:
        got = " > ".join(path)
        raise InputError(f"{source}: class {shown(label)} must not be its own ancestor; got {got}")
    if len(above) > MAX_DEPTH:
        raise InputError(f"{source}: must have at most {MAX_DEPTH} levels of classes; {shown(label)} is deeper")


def _node(node: Any, source: Source, above: Sequence[str], descriptions: Mapping[str, str]) -> _Node:
    place = f"{source}: " + (f"below {' > '.join(above)}: " if above else "")
    if not isinstance(node, dict) or not isinstance(node.get("LabelName"), str) or not node["LabelName"]:
        rule = "a hierarchy must have objects with `LabelName`, a text, and perhaps `Subcategory`, a list of the same"
        raise InputError(f"{place}{rule}; got {_kind(node)}")
    label: str = node["LabelName"]
    if not label.isprintable():
        raise InputError(f"{place}`LabelName` must be printable text; got {shown(label)}")
    lists = []
    for key in ("Subcategory", "Part"):
        lists.append(node.get(key, []))
        if not isinstance(lists[-1], list):
            raise InputError(f"{place}`{key}` of {shown(label)} must be a list; got {_kind(lists[-1])}")
    return _Node(descriptions.get(label, label), *lists)


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object with {some(value, 3) or 'no keys'}"
    return "a list" if isinstance(value, list) else shown(value)


def expand_records(records: Records, hierarchy: Hierarchy, known: Mapping[int, str] | None = None) -> Records:
    """Add a copy of each row for every ancestor of its class; each copy keeps the location of its row.

    If all copies exist already, with the same image, box and score, no row is added. The result lists the classes of
    the hierarchy. `known`: class names by label, for files that have labels without names.
    """
    label = _named_labels(records, known)
    names = [hierarchy.name_of(name) for name in label.names]
    code_of = {name: code for code, name in enumerate(hierarchy.ancestors)}
    for code in np.unique(label.code).tolist():
        if names[code] not in code_of:
            hierarchy.check_has(names[code], records.location(int(np.argmax(label.code == code))))
    own = np.array([code_of.get(name, -1) for name in names], np.int64)[label.code]
    row, code = _with_ancestors(own, hierarchy, code_of)
    if _is_expanded(records, own, row, code, len(code_of)):
        row, code = np.arange(len(records)), own
    column = Named(code=code, names=list(code_of))
    return replace(take_records(records, row), label=column, class_names=None, is_position=False)


def _with_ancestors(own: Ids, hierarchy: Hierarchy, code_of: Mapping[str, int]) -> tuple[Ids, Ids]:
    """The row and the class of each copy: for each row its own class, then its ancestors. Shapes (C,)."""
    lists = [[code, *map(code_of.__getitem__, hierarchy.ancestors[name])] for name, code in code_of.items()]
    num = np.array([len(each) for each in lists], np.int64)
    num_copies = num[own]
    row = np.repeat(np.arange(own.size), num_copies)
    index = np.arange(row.size) - np.repeat(np.cumsum(num_copies) - num_copies, num_copies)
    first = np.cumsum(num) - num
    return row, np.concatenate([np.array(each, np.int64) for each in lists])[first[own][row] + index]


def _is_expanded(records: Records, own: Ids, row: Ids, code: Ids, num_classes: int) -> bool:
    """Whether every copy exists already: a row of its class with the same image, box, score, kind and ignore flag."""
    if not len(records):
        return False
    image = codes_of(records.image)
    flags = [column for column in (records.score, records.kind, records.ignore) if column is not None]
    columns = [records.box, *(np.asarray(column, np.float64)[:, None] for column in flags)]
    values = np.concatenate(columns, axis=1) + 0.0  # -0 is 0
    keys = np.concatenate([image[:, None], values.view(np.int64)], axis=1)
    _, box = np.unique(keys, axis=0, return_inverse=True)
    box = box.reshape(-1)
    found: NDArray[np.bool_] = np.isin(box[row] * num_classes + code, box * num_classes + own)
    return bool(found.all())


def _named_labels(records: Records, known: Mapping[int, str] | None) -> Named:
    """The class of each row, by name."""
    names = records.class_names or known
    if records.is_position and known is not None:
        names = {index: known[label] for index, label in enumerate(sorted(known))}
    if not isinstance(records.label, Named) and names is None and len(records):
        raise InputError(f"{records.source}: classes must have names, to be found in the hierarchy; got ids")
    return as_named(records.label, names)


def as_named(column: Key, names: Mapping[int, str] | None) -> Named:
    """The column by names; an id without a name becomes text."""
    if isinstance(column, Named):
        return column
    ids, code = np.unique(column, return_inverse=True)
    return Named.of([(names or {}).get(number, str(number)) for number in ids.tolist()])[code.reshape(-1)]
