"""Names that tell files apart, for columns, folders and titles."""

from collections.abc import Sequence
from pathlib import Path


def short_names(paths: Sequence[str]) -> list[str]:
    """Names for columns: the last part of each path, or as much more as tells them apart.

    >>> short_names(["runs/a/boxes.json", "runs/b/boxes.json"])
    ['a/boxes.json', 'b/boxes.json']
    """
    parts = [Path(path).parts for path in paths]
    for num in range(1, max(map(len, parts)) + 1):
        names = [str(Path(*part[-num:])) for part in parts]
        if len(set(names)) == len(names):
            return names
    return list(paths)


def folder_of(root: str, name: str) -> Path:
    """A folder of its own for each name, right below the root, whatever path the name is.

    >>> folder_of("charts", "../a/boxes.json").as_posix()
    'charts/.._a_boxes.json'
    """
    return Path(root, name.replace("/", "_").replace("\\", "_"))


def title_of(names: Sequence[str], truths: str) -> str:
    """The title of a report: which models, on what.

    >>> title_of(["a.json", "b.json"], "coco/val.json")
    'a.json, b.json on val.json'
    """
    return f"{', '.join(names)} on {Path(truths).name}"
