"""Temporary files and folders beside their target, and the removal of leftovers of killed processes.

    .truths.json.boxscore-1f0c9a2e-4711-8d3a51c7
     target's name        host     process  random

They are made in the folder of their target, so that a rename replaces it. A process removes its temporaries at the
end, also after an error or an interrupt. After `kill -9` the next process that writes to the same folder does.
"""

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl

_NAME = re.compile(r"\..*\.boxscore-(?P<host>[0-9a-f]{8})-(?P<process>\d+)-[0-9a-f]{8}", re.DOTALL)
_MAX_AGE = 24 * 3600
"""Seconds after which a temporary of another machine, or of a process id that is in use again, is a leftover."""

_in_use: set[str] = set()
"""The temporaries of this process."""
_searched: set[str] = set()
"""Folders that this process has searched for leftovers."""


@contextlib.contextmanager
def temporary_file(target: Path, mode: int | None = None) -> Iterator[tuple[Path, IO[bytes]]]:
    """Open a new file beside `target` for writing; remove it at the end unless renamed. `mode`: its permissions."""
    with _reserved(target) as path:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                set_mode(path, mode)  # while it is still empty
            _lock(descriptor)
            yield path, file


@contextlib.contextmanager
def temporary_folder(target: Path, mode: int = 0o777) -> Iterator[Path]:
    """Make a new folder beside `target`; at the end remove whatever has its name."""
    with _reserved(target) as path:
        path.mkdir(mode)
        if sys.platform == "win32":
            yield path
            return
        descriptor = os.open(path, os.O_RDONLY)
        try:
            _lock(descriptor)
            yield path
        finally:
            os.close(descriptor)


def sync_files(paths: Iterable[str]) -> None:
    """Write files to the disk, several at a time: file systems commit them together, in a tenth of the time."""
    from concurrent.futures import ThreadPoolExecutor

    paths = list(paths)
    with ThreadPoolExecutor(8) as pool:
        try:
            done = pool.map(_sync_file, paths)
        except RuntimeError:  # no thread can be started
            done = map(_sync_file, paths)
        for _ in done:
            pass


def _sync_file(path: str) -> None:
    descriptor = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Write the names in a folder to the disk, if the system and the permissions allow opening it."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            _sync_file(str(path))


def set_mode(path: Path, mode: int) -> None:
    """Set the permissions of a file, if its file system supports them."""
    with contextlib.suppress(OSError):
        path.chmod(mode)


@contextlib.contextmanager
def _reserved(target: Path) -> Iterator[Path]:
    """Reserve an unused path beside `target`; remove its file or folder at the end."""
    _remove_leftovers(target.parent)
    # File systems limit names to 255 bytes; the target's name is only for people.
    path = target.with_name(f".{target.name[:40]}.boxscore-{_host()}-{os.getpid()}-{os.urandom(4).hex()}")
    _in_use.add(str(path))
    try:
        yield path
    finally:
        _remove(path)
        _in_use.discard(str(path))


def _remove_leftovers(folder: Path) -> None:
    """Remove the temporaries of processes that ended without removing them."""
    if sys.platform == "win32" or str(folder) in _searched:
        return
    _searched.add(str(folder))
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if ".boxscore-" in entry.name and (match := _NAME.fullmatch(entry.name)):
                is_here = match["host"] == _host()
                with contextlib.suppress(OSError):
                    if _is_left_over(entry, int(match["process"]) if is_here else None):
                        _remove(Path(entry.path))


def _is_left_over(entry: "os.DirEntry[str]", process: int | None) -> bool:
    """Whether the process that made a temporary has ended. `process`: its id; None for another machine."""
    status = entry.stat(follow_symlinks=False)
    if entry.path in _in_use or entry.is_symlink() or status.st_uid != os.geteuid():
        return False
    descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its process has it open
    finally:
        os.close(descriptor)
    return (process is not None and not _is_alive(process)) or time.time() - status.st_mtime > _MAX_AGE


def _is_alive(process: int) -> bool:
    """Whether another process has this id. In a container, this process may have the id of an earlier one."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _lock(descriptor: int) -> None:
    """Lock the file until it is closed; if that is impossible, the process id in its name is the fallback."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        import shutil

        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _host() -> str:
    """Eight digits for the name of this machine."""
    import zlib

    name = os.uname().nodename if hasattr(os, "uname") else ""
    return f"{zlib.crc32(name.encode(errors='replace')):08x}"
