"""Files of detections and what they are called: as much of the path as tells them apart, or the name in `NAME=path`."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from boxscore.cli.places import is_there


class Model(NamedTuple):
    """One file, folder or pattern of detections."""

    path: str
    name: str
    is_named: bool = False
    """Whether the user gave it its name."""


def models_of(options: argparse.Namespace, words: Sequence[str]) -> list[Model]:
    """The models that are given; two of one name are a wrong call."""
    given = [_split(word) for word in words]
    shown = short_names([path for _, path in given])
    models = [Model(path, name or short, name is not None) for (name, path), short in zip(given, shown, strict=True)]
    names = [model.name for model in models]
    for name in names:
        if names.count(name) > 1:
            options.command.error(f"models must have different names; got {name!r} twice")
    return models


def _split(word: str) -> tuple[str | None, str]:
    """The name, if there is one, and the path. What is there under the whole word is a path, `=` or not."""
    name, sign, path = word.partition("=")
    if not sign or not name or not path or "/" in name or "\\" in name or is_there(word):
        return None, word
    if any(mark in word for mark in "*?["):
        from glob import glob

        if glob(word):  # noqa: PTH207 (the pattern may begin at the root)
            return None, word
    return name, path


def short_names(paths: Sequence[str]) -> list[str]:
    """Names for columns: the last part of each path, or as much more as tells them apart; a file given twice is
    numbered.

    >>> short_names(["runs/a/boxes.json", "runs/b/boxes.json"])
    ['a/boxes.json', 'b/boxes.json']
    >>> short_names(["a.json", "b.json", "a.json"])
    ['a.json (1)', 'b.json', 'a.json (3)']
    """
    parts = [Path(path).parts for path in paths]
    for num in range(1, max(map(len, parts)) + 1):
        names = [str(Path(*part[-num:])) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [path if paths.count(path) == 1 else f"{path} ({i})" for i, path in enumerate(paths, start=1)]
