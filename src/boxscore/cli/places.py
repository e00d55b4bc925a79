"""Where outputs may go: not onto an input, and not two onto one name. Known before any work is done."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from boxscore._support.exceptions import InputError

_OWN_OUTPUT = re.compile(
    rb'\s*(\{\s*"(protocol|detections)":|\[\s*(\{\s*"(detections|severity)":|\])|[a-z,]*class,number,|first,second,class,'
    rb"|<!doctype html>|\||\\begin\{)"
)
"""How the files begin that `eval`, `compare` and `check` write."""
_FOLDER_SUFFIXES = frozenset({".txt", ".xml", ".yaml", ".yml", ".names"})
"""Of the files that formats of folders write."""


def check_apart(outputs: Mapping[str, str], inputs: Iterable[str]) -> None:
    """Raise `InputError` if an output is an input, also by a link or in another case, or if two outputs are one file.

    `outputs`: paths by what they are called in messages. An output inside a folder that is read is refused, too, where
    a file is there that no command of boxscore made.
    """
    taken: dict[tuple[object, ...], str] = {}
    read = list(_each(inputs)) if outputs else []
    for name, path in ((name, Path(path)) for name, path in outputs.items()):
        if _is_stream(path):
            continue
        if (key := _key(path)) in taken:
            raise InputError(f"{path}: is the output of {taken[key]} and of {name}; give each a name of its own")
        taken[key] = name
        for source in read:
            if path.is_file() and _is_same(path, source):
                raise InputError(f"{path}: is an input, and {name} would replace it; give another name")
            if source.is_dir() and path.is_file() and is_inside(path, source) and not _is_own(path):
                rule = f"is in {source}, which is read, and {name} would replace it"
                raise InputError(f"{path}: {rule}; give another name, or remove it first")


def check_conversion(output: Path, inputs: Iterable[str], *, is_same_format: bool) -> None:
    """Raise `InputError` if what is converted, or read for it, may be among the files that are replaced.

    `is_same_format`: whether the files of the input and of the output have names of the same kind.
    """
    if _is_stream(output) or not output.exists():
        return
    is_filled = output.is_file() or (is_same_format and any(output.iterdir()))
    for source in _each(inputs):
        if _is_same(output, source):
            raise InputError(f"{output}: is an input, and would be replaced; give another name")
        if source.is_dir() and is_filled and is_inside(output, source):
            raise InputError(f"{output}: is in {source}, which is read, and would be replaced; give another name")
        is_alike = source.is_dir() or source.suffix.lower() in _FOLDER_SUFFIXES
        if output.is_dir() and is_alike and is_inside(source, output):
            raise InputError(f"{output}: holds {source}, which is read and might be replaced; give another name")


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a file or folder is somewhere in a folder, links followed."""
    return Path(os.path.realpath(folder)) in Path(os.path.realpath(path)).parents


def is_there(path: str) -> bool:
    """Whether there is a file or folder of this name; what can't be a name is none."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long, or with a zero in it
        return False


def _each(inputs: Iterable[str]) -> Iterator[Path]:
    """The inputs that are there, patterns expanded."""
    for path in inputs:
        if is_there(path):
            yield Path(path)
        elif "*" in path or "?" in path:
            from glob import glob

            yield from map(Path, glob(path, recursive=True))  # noqa: PTH207 (the pattern may begin at the root)


def _is_same(path: Path, other: Path) -> bool:
    """Whether both are the same file or folder, by whatever link, in whatever case the file system takes for one."""
    return path.exists() and not _is_stream(other) and path.samefile(other)


def _is_stream(path: Path) -> bool:
    """Whether it is a pipe or a device, which nothing replaces."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _key(path: Path) -> tuple[object, ...]:
    """The same for all names of one file; for one that is not there, also where they differ in case alone."""
    if path.exists():
        status = path.stat()
        return status.st_dev, status.st_ino
    from unicodedata import normalize

    target = Path(os.path.realpath(path))
    return target.parent, normalize("NFC", target.name).casefold()


def _is_own(path: Path) -> bool:
    """Whether a file is what a command wrote before, or has nothing in it."""
    try:
        with path.open("rb") as file:
            start = file.read(4096)
    except OSError:
        return False
    return not start or _OWN_OUTPUT.match(start) is not None
