"""Checks that an output overwrites no input and no other output, and the paths of files in an output folder."""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from boxscore._support.exceptions import InputError
from boxscore._support.writing import check_place
from boxscore.cli.input_files import path_exists

_OWN_OUTPUT = (
    rb'\s*(\{\s*"(protocol|detections|num_models)":|\[\s*(\{\s*"(detections|severity)":|\])|[a-z,]*class,number,|first,second,class,|kind,suspicion,'
    rb"|<!doctype html>|\||\\begin\{|boxscore result )"
)
"""The first bytes of the files that `eval`, `compare`, `check` and `label-errors` write."""
_FOLDER_SUFFIXES = frozenset({".txt", ".xml", ".yaml", ".yml", ".names"})
"""The suffixes of files that folder formats write."""


def check_files(files: Mapping[str, str], folder: str | None, saved: str | None, inputs: Iterable[str]) -> None:
    """Raise `InputError` if an output can't be written, or would overwrite an input or another output.

    `files` are paths by the name of their option, `folder` is for charts, and `saved` is the file of a result.
    """
    outputs = dict(files)
    for path in files.values():
        check_place(Path(path))
    if folder is not None:
        if Path(folder).exists() and not Path(folder).is_dir():
            raise InputError(f"{folder}: can't be created as a folder: {os.strerror(errno.EEXIST)}")
        outputs["--plots"] = folder
    if saved is not None:
        if Path(saved).is_dir():
            raise InputError(f"{saved}: can't be written: {os.strerror(errno.EISDIR)}")
        outputs["--save"] = saved
    check_apart(outputs, inputs)


def folder_of(root: str, name: str) -> Path:
    """Folder for a name, directly in the root; path separators in the name are replaced.

    >>> folder_of("charts", "../a/boxes.json").as_posix()
    'charts/.._a_boxes.json'
    """
    return Path(root, name.replace("/", "_").replace("\\", "_"))


def check_apart(outputs: Mapping[str, str], inputs: Iterable[str]) -> None:
    """Raise `InputError` if an output is an input, also by a link or in another case, or if two outputs are one file.

    `outputs` are paths by the name of their option. An output inside an input folder is an error, too, if it would
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

    `is_same_format` says that input and output have the same format, so that their files may have the same names.
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
    """Yield the inputs that exist, with patterns expanded."""
    for path in inputs:
        if path_exists(path):
            yield Path(path)
        elif "*" in path or "?" in path:
            from glob import glob

            yield from map(Path, glob(path, recursive=True))  # noqa: PTH207 (the pattern may begin at the root)


def _is_same(path: Path, other: Path) -> bool:
    """Whether both paths are the same file or folder, considering links and the file system's letter case."""
    return path.exists() and not _is_stream(other) and path.samefile(other)


def _is_stream(path: Path) -> bool:
    """Whether the path is a pipe or a device, which is written to and not replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _key(path: Path) -> tuple[object, ...]:
    """Key of a file, equal for all of its names; new names that differ only in letter case share one."""
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
    return not start or re.match(_OWN_OUTPUT, start) is not None
