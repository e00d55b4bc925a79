"""Files and folders that are written completely or not at all."""

import contextlib
import errno
import os
import signal
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from boxscore._support.exceptions import InputError
from boxscore._support.temporary_files import set_mode, sync_files, sync_folder, temporary_file, temporary_folder

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextlib.contextmanager
def _whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces the file at `path` at the end; after an error nothing is replaced.

    If `path` is a link, its target is replaced. The new file keeps the permissions of the old one. A pipe or a device
    is written to directly: a file must not replace it.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    with temporary_file(target, _mode_of(target)) as (temporary, file):
        yield file
        file.flush()
        os.fsync(file.fileno())  # after a power cut the rename may persist without the content
        file.close()
        temporary.replace(target)
        sync_folder(target.parent)


def check_place(path: Path) -> None:
    """Raise `InputError` if no file can be written there: the folder does not exist, or the path is a folder.

    Called before the work, so that the error doesn't come after it.
    """
    if path.is_dir():
        raise InputError(f"{path}: can't be written: {os.strerror(errno.EISDIR)}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: can't be written: {os.strerror(errno.ENOENT)}")


def write_file(path: Path, content: str | bytes | Iterable[bytes | memoryview]) -> None:
    """Write the content to a file; if anything fails, the file stays as it was.

    Several processes may write to the same path at the same time: each writes a temporary file, and the last one to
    finish replaces the others.
    """
    if not path.name:
        raise InputError(f"{path}: can't be written: {os.strerror(errno.EISDIR)}")
    if isinstance(content, str):
        content = content.encode(errors="backslashreplace")  # file names may contain bytes that are not UTF-8
    try:
        with _whole_file(path) as file:
            file.writelines([content] if isinstance(content, bytes) else content)
    except OSError as error:
        raise InputError(f"{path}: can't be written: {error.strerror}") from None


def write_folder(path: Path, files: Mapping[str, bytes], *, overwrite: bool) -> None:
    """Write all files to a folder, or, after an error or an interrupt, none. `files` has the content by relative name.

    A folder that is not empty is refused unless `overwrite`; then files of the same names are replaced and keep their
    permissions, and other files stay. All files are first written to a temporary folder; Ctrl-C, SIGTERM and SIGHUP
    take effect before the first file is moved, or after the last. `OSError` is left to the caller.
    """
    if path.exists() and not path.is_dir():
        raise InputError(f"{path}: must be the name of a folder; got a file")
    is_full = path.is_dir() and any(path.iterdir())
    if is_full and not overwrite:
        raise InputError(f"{path}: already exists and is not empty; pass overwrite=True to replace its files")
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(target) as temporary:
        new, old = temporary / "new", temporary / "old"
        new.mkdir()
        folders = {str(parent) for name in files for parent in PurePosixPath(name).parents}
        for folder in folders:
            (new / folder).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            with _opened(f"{new}{os.sep}{name}") as file:
                file.write(content)
        sync_files(f"{new}{os.sep}{name}" for name in files)
        for folder in folders:
            sync_folder(new / folder)
        with deferred_signals():
            if is_full:
                _exchange(new, target, old, files)
            else:
                if (mode := _mode_of(target)) is not None:
                    set_mode(new, mode)
                new.replace(target)
        for folder in folders:
            sync_folder(target / folder)
        sync_folder(target.parent)


def _opened(path: str) -> IO[bytes]:
    return open(path, "xb")  # noqa: PTH123 (creating a Path takes as long as writing a small file)


def _exchange(new: Path, target: Path, old: Path, names: Iterable[str]) -> None:
    """Move files of `new` to `target`, and replaced files to `old`; after an error move all of them back."""
    undo: list[tuple[Path, Path | None]] = []
    created: list[Path] = []
    try:
        for name in names:
            path = target / name
            for folder in reversed([each for each in path.parents if not each.exists()]):
                folder.mkdir()
                created.append(folder)
            backup = None
            if os.path.lexists(path):
                if path.is_dir():
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
                if (mode := _mode_of(path)) is not None:
                    set_mode(new / name, mode)
                backup = old / name
                backup.parent.mkdir(parents=True, exist_ok=True)
                _back_up(path, backup)
            undo.append((path, backup))
            (new / name).replace(path)
    except OSError:
        for path, backup in reversed(undo):
            if backup is None:
                path.unlink(missing_ok=True)
            else:
                backup.rename(path)
        for folder in reversed(created):
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _back_up(path: Path, backup: Path) -> None:
    """Link the file to a second path, so that it is never missing; if links are not possible, move it."""
    try:
        os.link(path, backup, follow_symlinks=False)
    except (OSError, NotImplementedError):
        path.rename(backup)


def _mode_of(path: Path) -> int | None:
    """The permissions of a file or folder; None if it does not exist."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


@contextlib.contextmanager
def deferred_signals() -> Iterator[None]:
    """Defer Ctrl-C, SIGTERM and SIGHUP to the end of the block."""
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield  # Python handles signals in the main thread only
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
