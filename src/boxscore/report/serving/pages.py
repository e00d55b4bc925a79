"""The pages that are served: the overview of all runs, the report of a result, the comparison of two.

Reports come from `boxscore.report`, with links to their neighbours. They are cached until a file changes.
"""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple
from urllib.parse import urlencode

import boxscore
from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore.analysis.comparison import compare
from boxscore.data.validation import is_number
from boxscore.protocol.measures import quantity_of
from boxscore.report.charts import chart_script
from boxscore.report.compact import cut, rounded
from boxscore.report.contents import default_resamples, describe
from boxscore.report.html import STYLES, escaped, json_block, page_file, render, sample_intervals
from boxscore.report.serving.runs import MAX_JSON_BYTES, MAX_RESULT_BYTES, Entry, Run, RunFolder, unit_of

MAX_PAGES = 16
"""Maximum number of cached reports; each has about 2 MB."""
SHARED_SCRIPTS = ("elements.js", "sections.js", "tables.js", "charts.js", "theme.js")
"""The scripts of the report that the overview uses, too."""
OWN_SCRIPTS = ("run_data.js", "run_chart.js", "run_tables.js", "compare_bar.js", "live.js")
DOCUMENT_SCRIPTS = ("document.js",)


Links = Sequence[tuple[str, str]]
"""Texts and addresses of the links to other pages."""


class NotFoundError(InputError):
    """Raised for a result that does not exist."""


class ListedEntry(NamedTuple):
    """A result and its run."""

    run: Run
    number: int
    """The index of the result in its run."""

    @property
    def entry(self) -> Entry:
        """The result."""
        return self.run.entries[self.number]

    @property
    def title(self) -> str:
        """The run, and the label of the result in it."""
        return f"{self.run.name}, {self.entry.label}"


class Page(NamedTuple):
    """A page, and whether it is a report, which brings its own scripts."""

    html: str
    is_report: bool


class Pages:
    """All pages of a folder. Methods may be called from several threads; one report is made at a time."""

    def __init__(self, folder: RunFolder, resamples: int | None = None) -> None:
        self._folder, self._resamples = folder, resamples
        self._title = cut(folder.root.resolve().name)
        self._data: tuple[list[Run], str] | None = None
        self._data_lock = threading.Lock()
        self._pages: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether a report is being made."""
        return self._lock.locked()

    def data(self) -> str:
        """The data of the overview, in JSON. If the folder can't be read, it has the reason instead of numbers."""
        try:
            runs = self._folder.scan()
        except InputError as error:
            return json_block(self._values([], str(error)))
        with self._data_lock:
            if self._data is None or runs != self._data[0]:  # runs are compared by identity
                self._data = (runs, json_block(self._values(runs)))
            return self._data[1]

    def _values(self, runs: Sequence[Run], problem: str | None = None) -> dict[str, Any]:
        """Contents of the overview, as values for JSON."""
        measures = list(dict.fromkeys(name for run in runs for entry in run.entries for name in entry.numbers))
        return {
            "folder": self._title,
            "version": boxscore.__version__,
            "problem": problem,
            "limits": _LIMITS,
            "runs": [_run(run) for run in runs],
            "measures": measures,
            "errors": [name for name in measures if (known := quantity_of(name)) and known[0].is_error],
        }

    def overview(self) -> str:
        """Render the page of all runs."""
        return _shell(f"{self._title} – boxscore", "runs.js", self.data())

    def report(self, name: str) -> Page:
        """Render the report of a result, or a page of numbers if the file has only these. Raise `NotFoundError`."""
        found = self._find(name)
        if found.entry.document is not None:
            return Page(_shell(found.title, "document.js", json_block(_document(found))), is_report=False)
        links = [_HOME, *_neighbours(found)]
        return self._cached([found], links, lambda: self._report(found, links))

    def comparison(self, first: str, second: str) -> Page:
        """Render the comparison of two results; `InputError` gives the reason if they can't be compared."""
        listed = [self._find(first), self._find(second)]
        if listed[0].entry.id == listed[1].entry.id:
            raise InputError(f"{listed[0].title}: choose two different results to compare")
        links = [_HOME, *((each.title, _address(each.entry)) for each in listed)]
        return self._cached(listed, links, lambda: self._comparison(listed, links))

    def _find(self, name: str) -> ListedEntry:
        """Find a result by id among the files on disk: an id is never used as a path."""
        for run in self._folder.scan():
            for index, entry in enumerate(run.entries):
                if entry.id == name:
                    return ListedEntry(run, index)
        raise NotFoundError(f"{name}: there is no such result; it may have been removed, or can't be read")

    def _cached(self, listed: Sequence[ListedEntry], links: Links, make: Callable[[], str]) -> Page:
        """The page of these files in their current state, with these links; rendered if it is not cached."""
        key = json.dumps([[(each.entry.id, each.entry.stamp) for each in listed], links])
        with self._lock:
            if key not in self._pages:
                self._pages[key] = make()
            self._pages.move_to_end(key)
            while len(self._pages) > MAX_PAGES:
                self._pages.popitem(last=False)
            return Page(self._pages[key], is_report=True)

    def _report(self, found: ListedEntry, links: Links) -> str:
        results = {found.title: found.entry.load()}
        contents = describe(results, sample_intervals(results, self._resamples), _made_from([found]))
        return _rendered(found.title, contents, links)

    def _comparison(self, listed: Sequence[ListedEntry], links: Links) -> str:
        titles = [each.title for each in listed]
        if titles[0] == titles[1]:  # two files of one step
            titles = [f"{each.title} ({each.entry.id})" for each in listed]
        results = {title: each.entry.load() for title, each in zip(titles, listed, strict=True)}
        resamples = min(map(default_resamples, results.values())) if self._resamples is None else self._resamples
        compared = compare(results, resamples=resamples)
        contents = describe(results, sample_intervals(results, resamples), _made_from(listed), compared)
        return _rendered(" and ".join(titles), contents, links)


_HOME = ("All runs", "./")
_LIMITS = (
    f"JSON files of more than {MAX_JSON_BYTES // 10**6} MB, saved results of more than {MAX_RESULT_BYTES // 10**6} MB"
    " and links out of the served folder are not read."
)


def _address(entry: Entry) -> str:
    return f"report?{urlencode({'result': entry.id})}"


def _neighbours(found: ListedEntry) -> list[tuple[str, str]]:
    """Links to the previous and the next result."""
    entries, index = found.run.entries, found.number
    before = [(f"← {each.label}", _address(each)) for each in entries[max(index - 1, 0) : index]]
    return before + [(f"{each.label} →", _address(each)) for each in entries[index + 1 : index + 2]]


def _made_from(listed: Sequence[ListedEntry]) -> dict[str, str]:
    files = ", ".join(each.entry.id for each in listed)
    times = ", ".join(f"{each.entry.time:%Y-%m-%d %H:%M:%S} UTC" for each in listed)
    return {"file" if len(listed) == 1 else "files": files, "saved": times}


def _rendered(title: str, contents: Mapping[str, Any], links: Links) -> str:
    return render({"title": title, "links": links, **contents}, chart_script())


def _run(run: Run) -> dict[str, Any]:
    """A run as compact values for JSON."""
    return {
        "name": cut(run.name),
        "results": [
            {
                "id": entry.id,
                "label": cut(entry.label),
                "step": entry.step,
                "unit": unit_of(entry.path),
                "time": entry.time.timestamp(),
                "title": entry.title,
                "comparable": entry.comparable,
                "numbers": {name: rounded(value) for name, value in entry.numbers.items()},
                "hasVerdicts": entry.kind != "json",
            }
            for entry in run.entries
        ],
        "unreadable": [each._asdict() for each in run.unreadable],
        "numWaiting": run.num_waiting,
    }


def _document(found: ListedEntry) -> dict[str, Any]:
    """Contents of the page for a file that has only numbers."""
    entry, document = found.entry, found.entry.document or {}
    rows = [row for row in document["per_class"] if isinstance(row, dict)]
    return {
        "title": found.title,
        "links": [_HOME, *_neighbours(found)],
        "subtitle": f"{entry.title}, {entry.id}",
        "comparable": entry.comparable,
        "numbers": [[name, rounded(value)] for name, value in entry.numbers.items()],
        "classes": [
            [cut(str(row.get("name", ""))), *(_number_or_none(row.get(key)) for key in ("ap", "ap_50", "ar"))]
            + [_number_or_none(row.get(key)) for key in ("num_truths", "num_detections")]
            for row in rows
        ],
    }


def _number_or_none(value: Any) -> float | None:
    return float(value) if is_number(value) else None


def message(title: str, why: str) -> str:
    """Render a page with the reason why another one can't be shown."""
    data = {"title": title, "links": [_HOME], "problem": text.lines(why)}
    return _shell(title, "document.js", json_block(data))


def _shell(title: str, script: str, data: str) -> str:
    """Render a page from a script and its data, in JSON."""
    return Template(own_file("shell.html")).substitute(
        title=escaped(title),
        script=script,
        version=boxscore.__version__,
        tag=asset_tag(),
        data=data,
    )


@cache
def assets() -> dict[str, tuple[str, str]]:
    """Content and type of the scripts and styles, by name."""
    shared = [page_file(name) for name in SHARED_SCRIPTS]
    scripts = {"runs.js": OWN_SCRIPTS, "document.js": DOCUMENT_SCRIPTS}
    made = {
        name: (_closed([*shared, *map(own_file, own)]), "text/javascript; charset=utf-8")
        for name, own in scripts.items()
    }
    styles = "\n".join([*map(page_file, STYLES), own_file("runs.css")])
    return {**made, "runs.css": (styles, "text/css; charset=utf-8")}


def _closed(scripts: Sequence[str]) -> str:
    body = "\n".join(scripts)
    return f'"use strict";\n(() => {{\n{body}}})();\n'


@cache
def asset_tag() -> str:
    """A hash of all scripts and styles, so that browsers don't show old ones."""
    return hashlib.sha256("".join(content for content, _ in assets().values()).encode()).hexdigest()[:12]


def own_file(name: str) -> str:
    """Read a file of the overview."""
    return (files("boxscore.report.serving") / "page" / name).read_text(encoding="utf-8")
