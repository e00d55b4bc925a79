"""COCO files that another thread reads while this one imports the modules that evaluate them.

`boxscore eval` of 5,000 images takes 10 % less time by it (`make bench`, section `files`). Imports next to nothing.
"""

import _thread
import os
from collections.abc import Sequence

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads

_HARMLESS = frozenset({"--iou-type", "bbox", "--per-class", "--quiet"})
"""Words of a command line that don't change how COCO files are read."""


class EarlyFiles:
    """Files that are read in the background, in this order, as `_compiled.read_coco_file` reads boxes."""

    def __init__(self, paths: Sequence[str], threads: int) -> None:
        self._threads = threads
        self._files: dict[str, _compiled.CocoFile | BaseException] = {}
        self._locks = {path: _thread.allocate_lock() for path in paths}
        """Each is locked until its file was read, and removed when the file is taken."""
        for lock in self._locks.values():
            lock.acquire()
        _thread.start_new_thread(self._read, (tuple(self._locks.items()),))

    def take(self, path: str) -> _compiled.CocoFile | None:
        """Wait for a file and hand it over, once; None for any other path. Raises the error of reading it."""
        lock = self._locks.pop(path, None)
        if lock is None:
            return None
        lock.acquire()
        file = self._files.pop(path)
        if isinstance(file, BaseException):
            raise file
        return file

    def _read(self, locks: Sequence[tuple[str, _thread.LockType]]) -> None:
        for path, lock in locks:
            try:
                self._files[path] = _compiled.read_coco_file(os.fsencode(path), self._threads)
            except BaseException as error:  # raised in the thread that takes the file
                self._files[path] = error
            lock.release()


def start_reading(words: Sequence[str]) -> EarlyFiles | None:
    """Start to read the truths and the first detections of `eval`, if the words are only COCO files and `_HARMLESS`."""
    files = [word for word in words if word not in _HARMLESS]
    if len(files) < 2 or os.name == "nt":
        return None
    if not all(word.endswith(".json") and os.path.isfile(word) for word in files):  # noqa: PTH113 (without pathlib)
        return None
    try:
        return EarlyFiles(files[:2], num_threads(None))
    except (InputError, RuntimeError):  # of BOXSCORE_THREADS, which the command reports; no more threads
        return None
