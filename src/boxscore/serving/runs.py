"""Runs on disk: every folder with results is a run. A file is read again only when it has changed.

    runs/                    the folder that is served; with results of its own it is a run, too
    ├── yolo-a/              a run
    │   ├── epoch_000.boxscore       `Result.save`: numbers, report, comparison
    │   └── epoch_001.boxscore
    └── yolo-b/              another run
        ├── epoch_000.tally          `Tally.save`: the same
        └── epoch_001.json           `boxscore eval --json`: numbers and classes

The first bytes of a file decide what it is. Other files are left alone.
"""

import json
import math
import os
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import boxscore
from boxscore._support.exceptions import InputError
from boxscore.model.comparable import Comparable
from boxscore.model.result import Result
from boxscore.scaling import saved_results, storage
from boxscore.scaling.saved_results import load_result

MAX_DEPTH = 4
"""How many folders below the served one are searched."""
SUFFIX = ".boxscore"
"""A file of this name is meant to be a saved result, whatever is in it."""
NUM_FIRST_BYTES = 4096
"""How many bytes of a file decide what it is."""

Kind = Literal["result", "tally", "json"]
Stamp = tuple[int, int, int]
"""Time of the last change in nanoseconds, size and inode: another stamp, another content."""

_UNIT_AND_STEP = re.compile(r"(?i)(?<![a-z])(epoch|ep|step|iteration|iter)[ _.=-]*(\d{1,18})(?!\d)")
_LAST_NUMBER = re.compile(r"(?:^|[ _.=-])(\d{1,18})$")
_NUMBER_NAME = re.compile(r"(map|mar|mr|ji|olrp)(_\w+)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One result of a run."""

    id: str
    """The path below the served folder; of several results in one file with "#" and an index."""
    path: Path
    stamp: Stamp
    kind: Kind
    name: str | None
    """The name of the model, if the file has one."""
    step: int | None
    """From the file, else from its name; None: neither has one."""
    time: datetime
    """When it was saved, else when the file was last changed."""
    numbers: Mapping[str, float]
    title: str
    """The title of the protocol."""
    comparable: str
    document: Mapping[str, Any] | None = None
    """The JSON of `boxscore eval`, where the file is that."""

    @property
    def label(self) -> str:
        """What distinguishes it in its run: the epoch or step, else its name, else the name of its file."""
        if self.step is None:
            return self.name or self.path.name
        return f"{unit_of(self.path)} {self.step}"

    def load(self) -> Result:
        """The result itself; `InputError` for a file that has only numbers, or has been changed since."""
        if self.kind == "json":
            raise InputError(f"{self.path.name}: has numbers only; a report needs a file of `Result.save`")
        result = load_result(self.path)
        if stamp_of(self.path) != self.stamp:
            raise InputError(f"{self.path.name}: has changed while it was read; reload the page")
        return result


class Unreadable(NamedTuple):
    """A file that should be a result, and why it is not."""

    id: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """The results of one folder, by step, then by name."""

    name: str
    """The path of the folder below the served one; of that one, its own name."""
    entries: tuple[Entry, ...]
    unreadable: tuple[Unreadable, ...]


Content = tuple[Entry, ...] | Unreadable | None
"""What a file is: results, a result that can't be read, or something else."""


class RunFolder:
    """The folder that is served; `scan` may be called from several threads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._known: dict[Path, tuple[Stamp, Content]] = {}

    def scan(self) -> list[Run]:
        """All runs as they are on disk now, by name; `InputError` if the folder can't be read."""
        with self._lock:
            before, self._known = self._known, {}
            errors: list[OSError] = []
            runs = [self._run(folder, files, before) for folder, files in _folders(self.root, errors)]
            for error in errors:
                folder, why = Path(error.filename), f"can't be read: {error.strerror}"
                if folder == self.root:
                    raise InputError(f"{folder}: {why}")
                name = _relative(folder, self.root)
                runs.append(Run(name=name, entries=(), unreadable=(Unreadable(name, why),)))
            return sorted((run for run in runs if run.entries or run.unreadable), key=lambda run: run.name)

    def _run(self, folder: Path, files: list[tuple[Path, Stamp]], before: Mapping[Path, tuple[Stamp, Content]]) -> Run:
        contents = [self._content(path, stamp, before) for path, stamp in files]
        entries = [entry for each in contents if not isinstance(each, Unreadable | None) for entry in each]
        return Run(
            name=self.root.resolve().name if folder == self.root else _relative(folder, self.root),
            entries=tuple(sorted(entries, key=_order)),
            unreadable=tuple(each for each in contents if isinstance(each, Unreadable)),
        )

    def _content(self, path: Path, stamp: Stamp, before: Mapping[Path, tuple[Stamp, Content]]) -> Content:
        known = before.get(path)
        content = known[1] if known is not None and known[0] == stamp else _read(path, stamp, self.root)
        self._known[path] = (stamp, content)
        return content


def _order(entry: Entry) -> tuple[float, str]:
    return (math.inf if entry.step is None else entry.step, entry.id)


def _relative(path: Path, root: Path) -> str:
    """The path below the root, with slashes."""
    return path.relative_to(root).as_posix()


def stamp_of(path: Path) -> Stamp:
    """What changes when the file does."""
    status = path.stat()
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def _folders(root: Path, errors: list[OSError]) -> Iterator[tuple[Path, list[tuple[Path, Stamp]]]]:
    """Every folder with its files and their stamps. Hidden ones are left out; `errors` gets those of folders."""
    for name, folders, files in os.walk(root, onerror=errors.append):
        folder = Path(name)
        is_deep = len(folder.relative_to(root).parts) >= MAX_DEPTH
        folders[:] = [] if is_deep else [each for each in folders if not each.startswith(".")]
        stamped = []
        for path in sorted(folder / file for file in files if not file.startswith(".")):
            try:
                if path.is_file():
                    stamped.append((path, stamp_of(path)))
            except OSError:
                continue  # it is gone by now
        yield folder, stamped


def _read(path: Path, stamp: Stamp, root: Path) -> Content:
    """The results in a file."""
    name = _relative(path, root)
    try:
        with path.open("rb") as file:
            first = file.read(NUM_FIRST_BYTES)
        if first.startswith(storage.MAGIC):
            return (_of_result(path, name, stamp, "tally"),)
        if first.startswith(saved_results.MAGIC) or path.suffix == SUFFIX:
            return (_saved(path, name, stamp),)
        if path.suffix.lower() == ".json" and b'"protocol":' in first:
            return tuple(_of_document(path, name, stamp))
    except OSError as error:
        return Unreadable(name, f"can't be read: {error.strerror}")
    except InputError as error:
        return Unreadable(name, str(error).removeprefix(f"{path}: "))
    except (*storage.UNREADABLE, MemoryError) as error:
        return Unreadable(name, f"the content is invalid: {error or type(error).__name__}")
    return None


def _saved(path: Path, name: str, stamp: Stamp) -> Entry:
    header = saved_results.read_header(path)
    if header.version != boxscore.__version__:  # a number may be another one now
        return _of_result(path, name, stamp, "result", header)
    return Entry(
        id=name,
        path=path,
        stamp=stamp,
        kind="result",
        name=header.name,
        step=step_of(path) if header.step is None else header.step,
        time=header.time,
        numbers=header.numbers,
        title=header.title,
        comparable=header.comparable,
    )


def _of_result(path: Path, name: str, stamp: Stamp, kind: Kind, header: saved_results.Header | None = None) -> Entry:
    """An entry whose numbers are computed from its tally."""
    result = load_result(path)
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
    """The results in a file of `boxscore eval --json`: of one model, of several, or by similarity."""
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"it is not valid JSON: {error}") from None
    documents = list(_documents(content))
    for index, (title, document) in enumerate(documents):
        numbers = {key: _number(key, value) for key, value in document.items() if _NUMBER_NAME.fullmatch(key)}
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
    """Each document with the similarity that it stands under, if any."""
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
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"`{key}` must be a finite number; got {value!r:.40}")
    return float(value)


def _words_of(comparable: Any) -> str:
    try:
        return str(Comparable(rules=str(comparable["rules"]), differences=(*map(str, comparable["differences"]),)))
    except (KeyError, TypeError):
        return ""


def step_of(path: Path) -> int | None:
    """The number behind "epoch" or "step" in a name, else the number at its end; None if it has neither.

    >>> [step_of(Path(name)) for name in ("epoch_003.boxscore", "yolo-step12-b.json", "a_0010.tally", "yolov8.json")]
    [3, 12, 10, None]
    """
    found = list(_UNIT_AND_STEP.finditer(path.stem))
    if found:
        return int(found[-1][2])
    last = _LAST_NUMBER.search(path.stem)
    return None if last is None else int(last[1])


def unit_of(path: Path) -> str:
    """What steps are, by the name of a file.

    >>> unit_of(Path("epoch_003.boxscore")), unit_of(Path("a_0010.tally"))
    ('epoch', 'step')
    """
    found = _UNIT_AND_STEP.search(path.stem)
    return "epoch" if found is not None and found[1].lower() in ("epoch", "ep") else "step"
