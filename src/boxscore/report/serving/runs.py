"""Runs on disk: every folder with results is a run. A file is read again only when it has changed.

    runs/                    the served folder; if it contains results, it is a run, too
    ├── yolo-a/              a run
    │   ├── epoch_000.boxscore       `Result.save`: numbers, report, comparison
    │   └── epoch_001.boxscore
    └── yolo-b/              another run
        ├── epoch_000.tally          `Tally.save`: the same
        └── epoch_001.json           `boxscore eval --json`: numbers and classes

The first bytes of a file decide its kind. Other files are ignored. Numbers are computed from the tally of a file, as in
its report; the numbers in its header are not shown.
"""

import contextlib
import json
import math
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from boxscore._support.exceptions import InputError
from boxscore.data.validation import is_number
from boxscore.pipeline import finish_saved, load_result
from boxscore.protocol.comparable import Comparable
from boxscore.protocol.measures import quantity_of
from boxscore.result import blocks, saved_results, storage
from boxscore.result.result import Result

MAX_DEPTH = 4
"""Maximum depth of searched folders below the served one."""
LONG_SCAN = 0.2
"""Duration in seconds from which on scans are made less often."""
SUFFIX = ".boxscore"
"""A file with this suffix is expected to be a saved result, whatever its content."""
NUM_FIRST_BYTES = 4096
"""Number of bytes that are read to recognise the kind of a file."""
MAX_JSON_BYTES, MAX_RESULT_BYTES = 16_000_000, 512_000_000
"""Maximum file sizes; the header of a saved result may be as large as a JSON file. JSON takes ten times its size in
memory, and has a megabyte with a thousand classes; a saved result takes about three times its size, and has 20 bytes
per detection.
"""
READ_SECONDS = 1.0
"""Time limit for reading new files in one scan; the next scans read the rest. COCO val2017 takes some 50 ms."""

Kind = Literal["result", "tally", "json"]
Stamp = tuple[int, int, int]
"""Time of the last change in nanoseconds, size, and inode: if the stamp changes, so did the content."""

_UNIT_AND_STEP = re.compile(r"(?i)(?<![a-z])(epoch|ep|step|iteration|iter)[ _.=-]*(\d{1,18})(?!\d)")
_LAST_NUMBER = re.compile(r"(?:^|[ _.=-])(\d{1,18})$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One result of a run."""

    id: str
    """The path below the served folder; if a file has several results, with "#" and an index."""
    path: Path
    stamp: Stamp
    kind: Kind
    name: str | None
    """The name of the model, if the file has one."""
    step: int | None
    """The step in the file, else in its name; None: unknown."""
    time: datetime
    """The time of saving, else of the last change of the file."""
    numbers: Mapping[str, float]
    title: str
    """The title of the protocol."""
    comparable: str
    document: Mapping[str, Any] | None = None
    """The JSON of `boxscore eval`, if the file is of that kind."""

    @property
    def label(self) -> str:
        """Label within its run: the epoch or step, else its name, else the name of its file."""
        if self.step is None:
            return self.name or self.path.name
        return f"{unit_of(self.path)} {self.step}"

    def load(self) -> Result:
        """Load the result; `InputError` for a file that has only numbers, or has changed since."""
        if self.kind == "json":
            raise InputError(f"{self.path.name}: has numbers only; a report needs a file of `Result.save`")
        result = load_result(self.path)
        try:
            is_same = stamp_of(self.path.stat()) == self.stamp
        except OSError:
            is_same = False
        if not is_same:
            raise InputError(f"{self.path.name}: has changed while it was read; reload the page")
        return result


class Unreadable(NamedTuple):
    """A file that should be a result, and the reason why it can't be read."""

    id: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Run:
    """The results of one folder, by step, then by name."""

    name: str
    """The path of the folder below the served one; for the served one, its name and a slash, which no other run has."""
    entries: tuple[Entry, ...]
    unreadable: tuple[Unreadable, ...]
    num_waiting: int = 0
    """Number of files that are not read yet."""


Content = tuple[Entry, ...] | Unreadable | None
"""Contents of a file: results, a result that can't be read, or something else."""


class _KnownFolder(NamedTuple):
    """Contents of a folder at its last reading."""

    files: dict[str, Stamp]
    """The stamps of files, without unread ones."""
    why: str | None
    """The reason why the folder can't be read, if any."""
    contents: dict[str, Content]
    run: Run


class RunFolder:
    """The folder that is served; `scan` may be called from several threads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._known: dict[str, _KnownFolder] = {}
        self._runs: list[Run] = []
        self._next_scan = 0.0
        self._seconds_read = 0.0

    def scan(self) -> list[Run]:
        """Find all runs on disk, by name; `InputError` if the folder can't be read.

        Unchanged runs are returned as the same objects. New files are read for `READ_SECONDS`; their run counts the
        remaining ones. If scans take long, at most a tenth of the time is spent on them.
        """
        with self._lock:
            start = time.monotonic()
            if start < self._next_scan:
                return self._runs
            before, self._known, self._seconds_read = self._known, {}, 0.0
            for folder, files, why in _walk(self.root):
                known = before.get(folder)
                is_same = known is not None and (known.files, known.why) == (files, why)
                self._known[folder] = known if known is not None and is_same else self._read(folder, files, why, known)
            every = [known.run for known in self._known.values()]
            runs = [run for run in every if run.entries or run.unreadable or run.num_waiting]
            self._runs = sorted(runs, key=lambda run: run.name)
            duration = time.monotonic() - start - self._seconds_read
            self._next_scan = start + 10 * duration if duration > LONG_SCAN else 0.0
            return self._runs

    def _read(self, folder: str, files: dict[str, Stamp], why: str | None, before: _KnownFolder | None) -> _KnownFolder:
        contents: dict[str, Content] = {}
        for name, stamp in sorted(files.items()):
            if before is not None and before.files.get(name) == stamp:
                contents[name] = before.contents[name]
            elif self._seconds_read < READ_SECONDS:
                start = time.monotonic()
                contents[name] = _read(Path(self.root, folder, name), stamp, self.root)
                self._seconds_read += time.monotonic() - start
        entries = [entry for each in contents.values() if not isinstance(each, Unreadable | None) for entry in each]
        unreadable = [each for each in contents.values() if isinstance(each, Unreadable)]
        if why is not None:
            unreadable.append(Unreadable(_safe(folder), why))
        run = Run(
            name=_safe(folder) or f"{_safe(self.root.resolve().name)}/",
            entries=tuple(sorted(entries, key=_order)),
            unreadable=tuple(unreadable),
            num_waiting=len(files) - len(contents),
        )
        return _KnownFolder({name: files[name] for name in contents}, why, contents, run)


def _order(entry: Entry) -> tuple[float, str]:
    return (math.inf if entry.step is None else entry.step, entry.id)


def _safe(name: str) -> str:
    r"""The name of a file as encodable text: bytes that are not UTF-8 are escaped.

    >>> _safe("a\udcff")
    'a\\udcff'
    """
    return name.encode("utf-8", "backslashreplace").decode()


def stamp_of(status: os.stat_result) -> Stamp:
    """Identity of a file's content: changes when the file does. Windows lists files without their inodes."""
    return (status.st_mtime_ns, status.st_size, status.st_ino if os.name == "posix" else 0)


def _walk(root: Path, folder: str = "", depth: int = 0) -> Iterator[tuple[str, dict[str, Stamp], str | None]]:
    """Yield every folder, relative to the root, with the stamps of its files, or the reason why it can't be read.

    Hidden files and folders, and links to folders, are skipped.
    """
    files, folders = {}, []
    try:
        with os.scandir(Path(root, folder)) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # removed meanwhile
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.name)
                    elif entry.is_file():
                        files[entry.name] = stamp_of(entry.stat())
    except OSError as error:
        why = f"can't be read: {error.strerror}"
        if depth == 0:
            raise InputError(f"{root}: {why}") from None
        yield folder, {}, why
        return
    yield folder, {name: stamp for name, stamp in files.items() if not name.startswith(".")}, None
    for name in sorted(folders) if depth < MAX_DEPTH else ():
        if not name.startswith("."):
            yield from _walk(root, f"{folder}/{name}" if folder else name, depth + 1)


def _read(path: Path, stamp: Stamp, root: Path) -> Content:
    """Read the results in a file."""
    name = _safe(path.relative_to(root).as_posix())
    try:
        if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
            is_result = path.suffix in (SUFFIX, ".tally")
            return Unreadable(name, "a link out of the served folder is not followed") if is_result else None
        with path.open("rb") as file:
            first = file.read(NUM_FIRST_BYTES)
        if first.startswith(blocks.magic(storage.KIND)):
            return (_of_result(path, name, stamp, "tally"),)
        if first.startswith(blocks.magic(saved_results.KIND)) or path.suffix == SUFFIX:
            return (_of_result(path, name, stamp, "result"),)
        if path.suffix.lower() == ".json" and b'"protocol":' in first:
            return tuple(_of_document(path, name, stamp))
    except OSError as error:
        return Unreadable(name, f"can't be read: {error.strerror}")
    except InputError as error:
        return Unreadable(name, error.rule)
    except (*blocks.UNREADABLE, MemoryError) as error:
        return Unreadable(name, f"the content is invalid: {error or type(error).__name__}")
    return None


def _check_size(stamp: Stamp, most: int, kind: str) -> None:
    if stamp[1] > most:
        raise InputError(f"has {stamp[1] / 1e6:,.0f} MB; {kind} of more than {most / 1e6:,.0f} MB are not read")


def _of_result(path: Path, name: str, stamp: Stamp, kind: Kind) -> Entry:
    """Create an entry with numbers that are computed from the tally."""
    _check_size(stamp, MAX_RESULT_BYTES, "saved results")
    tally, header = saved_results.read_saved(path, max_header=MAX_JSON_BYTES)
    result = finish_saved(tally, header)
    return Entry(
        id=name,
        path=path,
        stamp=stamp,
        kind=kind,
        name=None if header is None else header.name,
        step=step_of(path) if header is None or header.step is None else header.step,
        time=_time_of(stamp) if header is None else header.time,
        numbers=dict(result),
        title=result.protocol.title,
        comparable=str(result.comparable),
    )


def _time_of(stamp: Stamp) -> datetime:
    return datetime.fromtimestamp(stamp[0] / 1e9, UTC)


def _of_document(path: Path, name: str, stamp: Stamp) -> Iterator[Entry]:
    """Yield the results in a file of `boxscore eval --json`: of one model, of several, or by similarity."""
    _check_size(stamp, MAX_JSON_BYTES, "JSON files")
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"it is not valid JSON: {error}") from None
    documents = list(_documents(content))
    for index, (title, document) in enumerate(documents):
        numbers = {key: _number(key, value) for key, value in document.items() if quantity_of(key)}
        if "map" not in numbers:
            raise InputError("it has no number `map`; expected the JSON of `boxscore eval`")
        given = document.get("name") or document.get("detections") or title
        has_several = len(documents) > 1
        yield Entry(
            id=f"{name}#{index}" if has_several else name,
            path=path,
            stamp=stamp,
            kind="json",
            name=None if given is None else str(given),
            step=step_of(Path(str(given))) if has_several else step_of(path),
            time=_time_of(stamp),
            numbers=numbers,
            title=" ".join(filter(None, [str(document["protocol"]), title])),
            comparable=_words_of(document.get("comparable")),
            document=document,
        )


def _documents(content: Any) -> Iterator[tuple[str | None, Mapping[str, Any]]]:
    """Yield each document with its similarity, if it is given as a key."""
    if isinstance(content, list):
        for each in content:
            yield from _documents(each)
    elif isinstance(content, dict) and isinstance(content.get("per_class"), list) and "protocol" in content:
        yield None, content
    elif isinstance(content, dict):
        for title, each in content.items():
            yield from ((title, document) for _, document in _documents(each))


def _number(key: str, value: Any) -> float:
    """A finite number; NaN for None, which JSON has for undefined numbers."""
    if value is not None and not is_number(value):
        raise InputError(f"`{key}` must be a finite number; got {value!r:.40}")
    return math.nan if value is None else float(value)


def _words_of(comparable: Any) -> str:
    try:
        return str(Comparable(rules=str(comparable["rules"]), differences=(*map(str, comparable["differences"]),)))
    except (KeyError, TypeError):
        return ""


def step_of(path: Path) -> int | None:
    """The number after "epoch" or "step" in a name, else the number at its end; None without either.

    >>> [step_of(Path(name)) for name in ("epoch_003.boxscore", "yolo-step12-b.json", "a_0010.tally", "yolov8.json")]
    [3, 12, 10, None]
    """
    found = list(_UNIT_AND_STEP.finditer(path.stem))
    if found:
        return int(found[-1][2])
    last = _LAST_NUMBER.search(path.stem)
    return None if last is None else int(last[1])


def unit_of(path: Path) -> str:
    """Unit of the steps, by the name of a file.

    >>> unit_of(Path("epoch_003.boxscore")), unit_of(Path("a_0010.tally"))
    ('epoch', 'step')
    """
    found = _UNIT_AND_STEP.search(path.stem)
    return "epoch" if found is not None and found[1].lower() in ("epoch", "ep") else "step"
