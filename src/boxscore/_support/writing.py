"""Files and folders that appear whole or not at all."""

import contextlib
import errno
import os
import signal
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from boxscore._support.exceptions import InputError
from boxscore._support.temporary_files import set_mode, temporary_file, temporary_folder

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextlib.contextmanager
def _whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to. It takes the place of what is there once all is written; after an error that stays.

    Where `path` is a link, what it points to is replaced. The permissions stay those of the file that is replaced. A
    pipe or a device is written to as it is: a file in its place would be the end of it.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    with temporary_file(target, _mode_of(target)) as (temporary, file):
        yield file
        file.close()
        temporary.replace(target)


def check_place(path: Path) -> None:
    """Raise `InputError` where no file can be: in a folder that is not there, or in the place of one.

    Better known before the work than after it.
    """
    if path.is_dir():
        raise InputError(f"{path}: can't be written: {os.strerror(errno.EISDIR)}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: can't be written: {os.strerror(errno.ENOENT)}")


def write_file(path: Path, content: str | bytes | Iterable[bytes | memoryview]) -> None:
    """The file has the content, or, if anything fails, what it had before.

    Pieces are written one after the other. Whoever else writes to the same name, at the same time, writes a file of its
    own; the last to end is the one that stays.
    """
    if not path.name:
        raise InputError(f"{path}: can't be written: {os.strerror(errno.EISDIR)}")
    if isinstance(content, str):
        content = content.encode(errors="backslashreplace")  # names of files may have bytes that are no text
    try:
        with _whole_file(path) as file:
            file.writelines([content] if isinstance(content, bytes) else content)
    except OSError as error:
        raise InputError(f"{path}: can't be written: {error.strerror}") from None


def write_folder(path: Path, files: Mapping[str, bytes], *, overwrite: bool) -> None:
    """Every file is in the folder, or, after an error or an interrupt, none of it. `files`: content by relative name.

    A folder with something in it is refused unless `overwrite`; then files of the same names are replaced and keep
    their permissions, and others stay. All are written to a temporary folder first; Ctrl-C, SIGTERM and SIGHUP take
    effect before the first of them is moved to its place, or after the last. `OSError` is left to the caller.
    """
    if path.exists() and not path.is_dir():
        raise InputError(f"{path}: must be the name of a folder; got a file")
    is_there = path.is_dir() and any(path.iterdir())
    if is_there and not overwrite:
        raise InputError(
            f"{path}: must be a new or an empty folder; got one with files in it (overwrite=True allows it)"
        )
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(target) as temporary:
        new, old = temporary / "new", temporary / "old"
        new.mkdir()
        for folder in {str(PurePosixPath(name).parent) for name in files}:
            (new / folder).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            with _opened(f"{new}{os.sep}{name}") as file:
                file.write(content)
        with deferred_signals():
            if is_there:
                _exchange(new, target, old, files)
            else:
                if (mode := _mode_of(target)) is not None:
                    set_mode(new, mode)
                new.replace(target)


def _opened(path: str) -> IO[bytes]:
    return open(path, "xb")  # noqa: PTH123 (a Path for each of many files takes as long as writing it)


def _exchange(new: Path, target: Path, old: Path, names: Iterable[str]) -> None:
    """Files of `new` are in `target`, and those that they replace in `old`; after an error all are where they were."""
    undo: list[tuple[Path, Path | None]] = []
    made: list[Path] = []
    try:
        for name in names:
            place = target / name
            for folder in reversed([each for each in place.parents if not each.exists()]):
                folder.mkdir()
                made.append(folder)
            kept = None
            if os.path.lexists(place):
                if place.is_dir():
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(place))
                if (mode := _mode_of(place)) is not None:
                    set_mode(new / name, mode)
                kept = old / name
                kept.parent.mkdir(parents=True, exist_ok=True)
                _keep(place, kept)
            undo.append((place, kept))
            (new / name).replace(place)
    except OSError:
        for place, kept in reversed(undo):
            if kept is None:
                place.unlink(missing_ok=True)
            else:
                kept.rename(place)
        for folder in reversed(made):
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _keep(place: Path, kept: Path) -> None:
    """The file has a second name, so that it is never missing under its first; where links can't be, it is moved."""
    try:
        os.link(place, kept, follow_symlinks=False)
    except (OSError, NotImplementedError):
        place.rename(kept)


def _mode_of(path: Path) -> int | None:
    """The permissions of a file or folder; None if there is none."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


@contextlib.contextmanager
def deferred_signals() -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP wait for the end of the block, and then do what they do."""
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield  # Python handles signals in the main thread alone
        return
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    waiting = {number: handler for number, handler in handlers.items() if handler not in (None, signal.SIG_IGN)}
    arrived: list[int] = []
    try:
        for number in waiting:
            signal.signal(number, lambda number, _: arrived.append(number))
        yield
    finally:
        for number, handler in waiting.items():
            signal.signal(number, handler)
        for number in arrived[:1]:
            signal.raise_signal(number)
