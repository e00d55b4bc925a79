"""Delivery of results to files and stdout. Modules that only files need are imported with the first file."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from boxscore.cli.terminal import Outcome

STDOUT = "-"
"""The path that means stdout."""
DOCUMENTS = ("json", "csv", "html", "latex", "markdown")
"""Options of commands that name a file to write."""
_INPUTS = (
    *("truths", "first", "others", "detections", "sizes", "names", "only_images", "map_classes", "slice"),
    *("image_labels", "hierarchy", "image_folder"),
)
"""Options and arguments that may name an input."""


def check_outputs(options: argparse.Namespace) -> None:
    """Raise an error, before any work, if an output can't be written or would overwrite an input or another output."""
    given = {f"--{name}": getattr(options, name, None) for name in DOCUMENTS}
    printed = [name for name, path in given.items() if path == STDOUT]
    if len(printed) > 1:
        options.command.error(f"argument {printed[1]}: only one output can go to stdout, and {printed[0]} already does")
    files = {name: path for name, path in given.items() if path is not None and path != STDOUT}
    folder, saved = getattr(options, "plots", None), getattr(options, "save", None)
    if files or folder is not None or saved is not None:
        from boxscore.cli.output_files import check_files

        check_files(files, folder, saved, _inputs(options))


def _inputs(options: argparse.Namespace) -> Iterator[str]:
    for name in _INPUTS:
        value = getattr(options, name, None)
        yield from [value] if isinstance(value, str) else value or ()


def as_json(value: Any) -> str:
    """JSON text of a document."""
    import json

    return f"{json.dumps(value, indent=1)}\n"


def deliver(
    options: argparse.Namespace,
    documents: Mapping[str, Callable[[], str]],
    table: Callable[[], str],
    code: int = 0,
    notes: Sequence[str] = (),
) -> Outcome:
    """Write each document to the file that its option names; return the outcome with the text for stdout.

    Args:
        options: The options of the command.
        documents: Functions that make a document, by the name of its option.
        table: Makes the text for stdout, unless a document goes there.
        code: The exit code.
        notes: Notes before those on files that were written.
    """
    printed, written = None, list(notes)
    for name, make in documents.items():
        path = getattr(options, name)
        if path == STDOUT:
            printed = make().removesuffix("\n")
        elif path is not None:
            from pathlib import Path

            from boxscore._support.writing import write_file

            write_file(Path(path), make())
            written.append(f"wrote {path}")
    if printed is None:
        printed = "" if options.quiet else table()
    return Outcome(printed, code, () if options.quiet else tuple(written))


def title_of(names: Sequence[str], truths: str) -> str:
    """Title of a report: the models, and the ground truth.

    >>> title_of(["a.json", "b.json"], "coco/val.json")
    'a.json, b.json on val.json'
    """
    from pathlib import Path

    return f"{', '.join(names)} on {Path(truths).name}"
