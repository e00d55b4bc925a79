"""The input files of a command: names of models, and a hint if ground truth and detections are swapped."""

import argparse
import os
from collections.abc import Sequence
from typing import NamedTuple

from boxscore._support.exceptions import InputError


class Model(NamedTuple):
    """One file, folder or pattern of detections."""

    path: str
    name: str
    is_named: bool = False
    """Whether the name was given as `NAME=path`."""


def models_of(options: argparse.Namespace, words: Sequence[str]) -> list[Model]:
    """The models of the command line; two models with one name are a usage error."""
    given = [_split(word) for word in words]
    shown = short_names([path for _, path in given])
    models = [Model(path, name or short, name is not None) for (name, path), short in zip(given, shown, strict=True)]
    names = [model.name for model in models]
    for name in names:
        if names.count(name) > 1:
            options.command.error(f"models must have different names; got {name!r} twice")
    return models


def _split(word: str) -> tuple[str | None, str]:
    """Split `NAME=path` into name and path. A word that is an existing path has no name, even with `=` in it."""
    name, sign, path = word.partition("=")
    if not sign or not name or not path or "/" in name or "\\" in name or path_exists(word):
        return None, word
    if any(mark in word for mark in "*?["):
        from glob import glob

        if glob(word):  # noqa: PTH207 (the pattern may begin at the root)
            return None, word
    return name, path


def short_names(paths: Sequence[str]) -> list[str]:
    """Names of columns: the shortest endings of the paths that differ from each other; a repeated path is numbered.

    >>> short_names(["runs/a/boxes.json", "runs/b/boxes.json"])
    ['a/boxes.json', 'b/boxes.json']
    >>> short_names(["a.json", "b.json", "a.json"])
    ['a.json (1)', 'b.json', 'a.json (3)']
    """
    last = paths[0].rpartition("/")[2]
    if len(paths) == 1 and os.name != "nt" and last not in ("", "."):
        return [last]  # as below, without waiting for pathlib
    from pathlib import Path

    parts = [Path(path).parts for path in paths]
    for num in range(1, max(map(len, parts)) + 1):
        names = [str(Path(*part[-num:])) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [path if paths.count(path) == 1 else f"{path} ({i})" for i, path in enumerate(paths, start=1)]


def path_exists(path: str) -> bool:
    """Whether a file or folder of this name exists; False for an invalid name."""
    return os.path.exists(path)  # noqa: PTH110 (without waiting for pathlib)


def is_pipe(path: str) -> bool:
    """Whether a path is a pipe or a device."""
    return path_exists(path) and not os.path.isfile(path) and not os.path.isdir(path)  # noqa: PTH112, PTH113 (as above)


def with_hint(error: InputError, truths: str, detections: Sequence[str]) -> InputError:
    """The error, with `hint_if_swapped` behind it if there is one."""
    hint = hint_if_swapped(truths, detections)
    return error if hint is None else InputError(f"{error}; {hint}")


def hint_if_swapped(truths: str, detections: Sequence[str]) -> str | None:
    """The hint after an error if the first file looks like detections and another like ground truth; else None."""
    from boxscore.formats import find_swapped

    other = find_swapped(truths, detections)
    if other is None:
        return None
    return f"the ground truth comes first, then detections, but {truths} looks like detections: try {other} {truths}"
