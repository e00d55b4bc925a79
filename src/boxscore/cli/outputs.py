"""Where results are written: files and stdout, and the rule that no input and no other output is overwritten."""

import argparse
import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from boxscore._support.exceptions import InputError
from boxscore._support.writing import check_place, write_file
from boxscore.cli.input_files import path_exists
from boxscore.cli.terminal import Outcome

STDOUT = "-"
"""The path that means stdout."""
DOCUMENTS = ("json", "csv", "html", "latex", "markdown")
"""Options that name a file to write, where a command has them."""
_INPUTS = (
    *("truths", "first", "others", "detections", "sizes", "names", "only_images", "map_classes", "slice"),
    *("image_labels", "hierarchy", "image_folder"),
)
"""Options and arguments that may name what is read."""
_OWN_OUTPUT = re.compile(
    rb'\s*(\{\s*"(protocol|detections|num_models)":|\[\s*(\{\s*"(detections|severity)":|\])|[a-z,]*class,number,|first,second,class,|kind,suspicion,'
    rb"|<!doctype html>|\||\\begin\{|boxscore result )"
)
"""The first bytes of the files that `eval`, `compare`, `check` and `label-errors` write."""
_FOLDER_SUFFIXES = frozenset({".txt", ".xml", ".yaml", ".yml", ".names"})
"""The suffixes of files that folder formats write."""


def check_outputs(options: argparse.Namespace) -> None:
    """Raise an error, before any work, if an output can't be written or would overwrite an input or another output."""
    given = {f"--{name}": getattr(options, name, None) for name in DOCUMENTS}
    printed = [name for name, path in given.items() if path == STDOUT]
    if len(printed) > 1:
        options.command.error(f"argument {printed[1]}: only one output can go to stdout, and {printed[0]} already does")
    files = {name: path for name, path in given.items() if path is not None and path != STDOUT}
    for path in files.values():
        check_place(Path(path))
    if (folder := getattr(options, "plots", None)) is not None:
        if Path(folder).exists() and not Path(folder).is_dir():
            raise InputError(f"{folder}: can't be created as a folder: {os.strerror(errno.EEXIST)}")
        files["--plots"] = folder
    if (saved := getattr(options, "save", None)) is not None:
        if Path(saved).is_dir():
            raise InputError(f"{saved}: can't be written: {os.strerror(errno.EISDIR)}")
        files["--save"] = saved
    if files:
        check_apart(files, _inputs(options))


def _inputs(options: argparse.Namespace) -> Iterator[str]:
    for name in _INPUTS:
        value = getattr(options, name, None)
        yield from [value] if isinstance(value, str) else value or ()


def as_json(value: Any) -> str:
    """A document in JSON."""
    import json

    return f"{json.dumps(value, indent=1)}\n"


def deliver(
    options: argparse.Namespace,
    documents: Mapping[str, Callable[[], str]],
    table: Callable[[], str],
    code: int = 0,
    notes: Sequence[str] = (),
) -> Outcome:
    """Write each document to the file that its option names; the outcome has the document for stdout, or the table.

    Its notes are `notes`, then one for each file that was written.
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
    """The folder for a name, directly in the root; path separators in the name are replaced.

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


def check_apart(outputs: Mapping[str, str], inputs: Iterable[str]) -> None:
    """Raise `InputError` if an output is an input, also by a link or in another case, or if two outputs are one file.

    `outputs`: paths by the name of their option. An output inside an input folder is an error, too, if it would
    overwrite a file that boxscore did not write.
    """
    taken: dict[tuple[object, ...], str] = {}
    read = list(_expanded(inputs)) if outputs else []
    for name, path in ((name, Path(path)) for name, path in outputs.items()):
        if _is_stream(path):
            continue
        if (key := _key(path)) in taken:
            raise InputError(f"{path}: is the output of both {taken[key]} and {name}; choose different names")
        taken[key] = name
        for source in read:
            if path.is_file() and _is_same(path, source):
                raise InputError(f"{path}: is an input, and {name} would overwrite it; choose another name")
            if source.is_dir() and path.is_file() and is_inside(path, source) and not _is_own_output(path):
                rule = f"is inside the input folder {source}, and {name} would overwrite it"
                raise InputError(f"{path}: {rule}; choose another name, or remove the file first")


def check_conversion(output: Path, inputs: Iterable[str], *, is_same_format: bool) -> None:
    """Raise `InputError` if an input of the conversion could be overwritten by its output.

    `is_same_format`: whether input and output have the same format, so that their files may have the same names.
    """
    if _is_stream(output) or not output.exists():
        return
    is_filled = output.is_file() or (is_same_format and any(output.iterdir()))
    for source in _expanded(inputs):
        if _is_same(output, source):
            raise InputError(f"{output}: is an input, and would be overwritten; choose another name")
        if source.is_dir() and is_filled and is_inside(output, source):
            raise InputError(f"{output}: is inside the input {source}, and would be overwritten; choose another name")
        is_alike = source.is_dir() or source.suffix.lower() in _FOLDER_SUFFIXES
        if output.is_dir() and is_alike and is_inside(source, output):
            raise InputError(f"{output}: contains the input {source}, which could be overwritten; choose another name")


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a file or folder is somewhere in a folder, links followed."""
    return Path(os.path.realpath(folder)) in Path(os.path.realpath(path)).parents


def _expanded(inputs: Iterable[str]) -> Iterator[Path]:
    """The inputs that exist, with patterns expanded."""
    for path in inputs:
        if path_exists(path):
            yield Path(path)
        elif "*" in path or "?" in path:
            from glob import glob

            yield from map(Path, glob(path, recursive=True))  # noqa: PTH207 (the pattern may begin at the root)


def _is_same(path: Path, other: Path) -> bool:
    """Whether both are the same file or folder, links and the file system's letter case considered."""
    return path.exists() and not _is_stream(other) and path.samefile(other)


def _is_stream(path: Path) -> bool:
    """Whether the path is a pipe or a device, which is written to, not replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _key(path: Path) -> tuple[object, ...]:
    """A key that is equal for all names of one file; new names that differ only in letter case have one key."""
    if path.exists():
        status = path.stat()
        return status.st_dev, status.st_ino
    from unicodedata import normalize

    target = Path(os.path.realpath(path))
    return target.parent, normalize("NFC", target.name).casefold()


def _is_own_output(path: Path) -> bool:
    """Whether a file was written by boxscore, or is empty."""
    try:
        with path.open("rb") as file:
            start = file.read(4096)
    except OSError:
        return False
    return not start or _OWN_OUTPUT.match(start) is not None
