"""Where results go: files and stdout; folders for charts, and titles for reports."""

import argparse
import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from boxscore._support.exceptions import InputError
from boxscore._support.writing import check_place, write_file
from boxscore.cli.places import check_apart
from boxscore.cli.terminal import Outcome

STDOUT = "-"
"""The file that is no file."""


DOCUMENTS = ("json", "csv", "html", "latex", "markdown")
"""Options that name a file to write, where a command has them."""
_INPUTS = ("truths", "first", "others", "detections", "sizes", "names", "images", "map_classes", "slice")
"""Options and arguments that may name what is read."""


def check_outputs(options: argparse.Namespace) -> None:
    """Refuse what can't be written, or would replace an input or another output, before any work is done."""
    given = {f"--{name}": getattr(options, name, None) for name in DOCUMENTS}
    printed = [name for name, path in given.items() if path == STDOUT]
    if len(printed) > 1:
        options.command.error(f"argument {printed[1]}: stdout has room for one; {printed[0]} goes there")
    files = {name: path for name, path in given.items() if path is not None and path != STDOUT}
    for path in files.values():
        check_place(Path(path))
    if (folder := getattr(options, "plots", None)) is not None:
        if Path(folder).exists() and not Path(folder).is_dir():
            raise InputError(f"{folder}: can't be made a folder: {os.strerror(errno.EEXIST)}")
        files["--plots"] = folder
    if files:
        check_apart(files, _inputs(options))


def _inputs(options: argparse.Namespace) -> Iterator[str]:
    for name in _INPUTS:
        value = getattr(options, name, None)
        yield from [value] if isinstance(value, str) else value or ()


def deliver(
    options: argparse.Namespace,
    documents: Mapping[str, Callable[[], str]],
    table: Callable[[], str],
    code: int = 0,
    notes: Sequence[str] = (),
) -> Outcome:
    """Each document is in the file that its option names; on stdout is the one that is wanted there, or the table.

    Every file that was written is noted, after `notes`.
    """
    printed, written = None, list(notes)
    for name, make in documents.items():
        path = getattr(options, name)
        if path == STDOUT:
            printed = make().removesuffix("\n")
        elif path is not None:
            write_file(Path(path), make())
            written.append(f"wrote {path}")
    if printed is None:
        printed = "" if options.quiet else table()
    return Outcome(printed, code, () if options.quiet else tuple(written))


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
