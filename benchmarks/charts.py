"""Charts of the results as SVG, each for light and for dark pages, with a transparent background.

Vega-Lite draws them. Everything is placed here, in pixels: a layout by Vega would measure texts, and depend on the
fonts of the machine. So the same results give the same files everywhere.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from benchmarks.processes import Row
from benchmarks.results import Results

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
WIDTH = 840
_LABEL, _VALUE, _GAP = 168, 104, 28
"""Pixels of a panel for tools, for numbers beside bars, and between panels."""
_ROW, _BAR, _TITLE, _NOTE = 21, 13, 30, 18
"""Pixels per bar with its margins, without, per title and per line below the panels."""


class Theme(NamedTuple):
    """Colours of a page."""

    text: str
    muted: str
    grid: str
    ours: str
    others: str


THEMES: Mapping[str, Theme] = {
    "light": Theme("#1f2328", "#59636e", "#d8dee4", "#0072b2", "#a6b0ba"),
    "dark": Theme("#e6edf3", "#9aa4ae", "#3a424b", "#56b4e9", "#68727d"),
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One tool: its length, and the text beside it."""

    tool: str
    length: float
    text: str
    is_ours: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """A title, and one bar per tool."""

    title: str
    bars: Sequence[Bar]


@dataclass(frozen=True, slots=True)
class Drawing:
    """Marks in pixels, each with its kind: `text`, `bar`, `rule` or `point`; later ones are in front."""

    theme: Theme
    height: float
    marks: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        """A text whose middle is at y."""
        self.marks.append(("text", {"x": x, "y": y, "text": text, "style": {"color": self.theme.text} | style}))

    def bar(self, x: float, y: float, x2: float, **style: Any) -> None:
        """A bar from x to x2."""
        self.marks.append(("bar", {"x": x, "y": y, "x2": x2, "style": {"size": _BAR, "cornerRadiusEnd": 2} | style}))

    def rule(self, x: float, y: float, x2: float, y2: float, **style: Any) -> None:
        """A straight line."""
        marks = {"x": x, "y": y, "x2": x2, "y2": y2, "style": {"color": self.theme.grid} | style}
        self.marks.append(("rule", marks))

    def point(self, x: float, y: float, **style: Any) -> None:
        """A disc."""
        self.marks.append(("point", {"x": x, "y": y, "style": {"filled": True, "size": 45, "opacity": 1} | style}))

    def specification(self, font: str = FONT) -> dict[str, Any]:
        """The drawing in Vega-Lite: one layer per mark, in pixels from the top left corner."""
        scales = {
            axis: {"type": "quantitative", "axis": None, "scale": {"domain": [0, size], "range": [0, size]}}
            for axis, size in (("x", WIDTH), ("y", self.height))
        }

        def layer(kind: str, mark: Mapping[str, Any]) -> dict[str, Any]:
            encoding: dict[str, Any] = {axis: scales[axis] | {"field": axis} for axis in ("x", "y")}
            encoding |= {end: {"field": end} for end in ("x2", "y2") if end in mark}
            encoding |= {"text": {"field": "text"}} if kind == "text" else {}
            values = {key: value for key, value in mark.items() if key != "style"}
            style = {"type": kind, "orient": "horizontal"} if kind == "bar" else {"type": kind}
            return {"data": {"values": [values]}, "mark": style | mark["style"], "encoding": encoding}

        return {
            "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
            "width": WIDTH,
            "height": self.height,
            "padding": 0,
            "autosize": "none",
            "background": None,
            "layer": [layer(kind, mark) for kind, mark in self.marks],
            "config": {
                "view": {"stroke": None},
                "text": {"font": font, "fontSize": 12, "align": "left", "baseline": "middle", "limit": 0},
            },
        }


Draw = Callable[[Results, Theme], Drawing]


def svg(drawing: Drawing, font: str = FONT) -> str:
    """The drawing as SVG."""
    import vl_convert

    text: str = vl_convert.vegalite_to_svg(json.dumps(drawing.specification(font)))
    return text + "\n"


def panels_of(rows: Sequence[Row], title: Callable[[Row], str] = lambda row: str(row["group"])) -> list[Panel]:
    """Speeds: a bar is as long as its tool is fast; its text has the seconds, and the ratio to the first of its group.

    >>> rows = [{"group": "g", "tool": "boxscore", "seconds": 0.5}, {"group": "g", "tool": "peer", "seconds": 2.0}]
    >>> [(bar.tool, bar.length, bar.text) for bar in panels_of(rows)[0].bars]
    [('boxscore', 2.0, '0.50 s'), ('peer', 0.5, '2.0 s · 4.0x')]
    """
    panels = []
    for name, each in groupby(rows, title):
        group = list(each)
        ours, shortest = group[0]["seconds"], min(row["seconds"] for row in group)
        bars = [
            Bar(
                tool=plain(row["tool"]),
                length=1 / row["seconds"],
                text=duration(row["seconds"], shortest)
                + ("" if row is group[0] else f" · {times(row['seconds'] / ours)}"),
                is_ours=is_ours(row["tool"]),
            )
            for row in group
        ]
        panels.append(Panel(name, bars))
    return panels


def is_ours(tool: str) -> bool:
    """Whether a tool is boxscore."""
    return tool.startswith(("boxscore", "native"))


def plain(text: str) -> str:
    """Without Markdown."""
    return text.replace("`", "")


def duration(seconds: float, shortest: float) -> str:
    """Two digits or more, in milliseconds where the shortest in the panel has none before the point.

    >>> [duration(value, 0.0573) for value in (0.0573, 0.1994, 1.373, 47.56)]
    ['0.057 s', '0.20 s', '1.4 s', '48 s']
    >>> [duration(value, 0.00102) for value in (0.00102, 0.0234, 1.234)]
    ['1.0 ms', '23 ms', '1,234 ms']
    """
    value, unit = (seconds, "s") if shortest >= 0.02 else (seconds * 1000, "ms")
    num_decimals = max(0, 1 - math.floor(math.log10(value)))
    return f"{value:,.{num_decimals}f} {unit}"


def times(ratio: float) -> str:
    """A ratio with two or three digits.

    >>> [times(value) for value in (1.04, 3.49, 24.04, 830.8)]
    ['1.0x', '3.5x', '24x', '831x']
    """
    return f"{ratio:.{0 if ratio >= 10 else 1}f}x"


def draw_bars(panels: Sequence[Panel], notes: Sequence[str], theme: Theme, *, num_columns: int = 2) -> Drawing:
    """Panels side by side, in rows of as many columns; each has its own scale, from zero."""
    num_columns = min(num_columns, len(panels))
    width = (WIDTH - _GAP * (num_columns - 1)) / num_columns
    lines = [panels[first : first + num_columns] for first in range(0, len(panels), num_columns)]
    heights = [_TITLE + _ROW * max(len(panel.bars) for panel in line) + 10 for line in lines]
    drawing = Drawing(theme, sum(heights) + _NOTE * len(notes) + 6)
    top = 0
    for line, height in zip(lines, heights, strict=True):
        for column, panel in enumerate(line):
            _draw_panel(drawing, panel, column * (width + _GAP), top, width)
        top += height
    for number, note in enumerate(notes):
        drawing.text(0, top + _NOTE * (number + 0.5), note, color=theme.muted, fontSize=11)
    return drawing


def _draw_panel(drawing: Drawing, panel: Panel, left: float, top: float, width: float) -> None:
    start, longest = left + _LABEL, max(bar.length for bar in panel.bars)
    drawing.text(left, top + _TITLE / 2 - 2, panel.title, fontWeight=600, fontSize=13)
    for number, bar in enumerate(panel.bars):
        y = top + _TITLE + _ROW * (number + 0.5)
        end = start + max(2.0, (width - _LABEL - _VALUE) * bar.length / longest)
        weight = {"fontWeight": 600} if bar.is_ours else {}
        drawing.text(start - 8, y, bar.tool, align="right", **weight)
        drawing.bar(start, y, round(end, 1), color=drawing.theme.ours if bar.is_ours else drawing.theme.others)
        drawing.text(round(end, 1) + 7, y, bar.text, **weight)
    bottom = top + _TITLE + _ROW * len(panel.bars)
    drawing.rule(start, top + _TITLE, start, bottom, color=drawing.theme.muted)


class Line(NamedTuple):
    """A series: its name, and its points."""

    name: str
    points: Sequence[tuple[float, float]]


def draw_lines(lines: Sequence[Line], title: str, notes: Sequence[str], theme: Theme) -> Drawing:
    """Nanoseconds per detection over the number of detections, on a logarithmic axis of powers of ten."""
    height, left, right, top = 170, 44, WIDTH - 160, 34
    drawing = Drawing(theme, top + height + 34 + _NOTE * len(notes))
    points = [point for line in lines for point in line.points]
    low, high = (f(math.log10(x) for x, _ in points) for f in (min, max))
    step = 50
    most = step * math.ceil(max(y for _, y in points) / step)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - low) / (high - low)
        return round(left + 10 + across * (right - left - 20), 1), round(top + height * (1 - y / most), 1)

    drawing.text(0, 13, title, fontWeight=600, fontSize=13)
    for tick in range(0, most + 1, step):
        _, y = place(10**low, tick)
        drawing.rule(left, y, right, y)
        drawing.text(left - 8, y, str(tick), align="right", color=theme.muted)
    for power in range(math.ceil(low), math.floor(high) + 1):
        x, _ = place(10**power, 0)
        drawing.text(x, top + height + 14, f"{10**power:,}", align="center", color=theme.muted)
    for line, color in zip(lines, (theme.others, theme.ours), strict=True):
        placed = [place(*point) for point in line.points]
        for (x, y), (x2, y2) in pairwise(placed):
            drawing.rule(x, y, x2, y2, color=color, strokeWidth=2)
        for x, y in placed:
            drawing.point(x, y, color=color)
        x, y = placed[-1] if color == theme.ours else placed[0]
        drawing.text(x + 12, y - (0 if color == theme.ours else 6), line.name)
    for number, note in enumerate(notes):
        drawing.text(0, top + height + 34 + _NOTE * (number + 0.5), note, color=theme.muted, fontSize=11)
    return drawing


SPEED = (
    "Longer is faster: a bar is the speed of a tool, on a scale of its own per panel. 4.0x: it takes 4.0 times as long."
)


def _rows(results: Results, *names: str) -> list[Row]:
    return [row for name in names if name in results for row in results[name]["rows"]]


def versions(results: Results, names: Sequence[str], left_out: Sequence[str] = ("numpy", "torch")) -> str:
    """The versions of all packages in these sections; several of one package if they differ."""
    known: dict[str, list[str]] = {}
    for name in names:
        for package, number in results[name]["versions"].items() if name in results else ():
            if package not in left_out and number not in known.setdefault(package, []):
                known[package].append(number)
    return " · ".join(f"{package} {' and '.join(numbers)}" for package, numbers in known.items())


def _notes(results: Results, names: Sequence[str]) -> list[str]:
    return [SPEED, versions(results, names)]


def _workload(row: Row) -> str:
    titles = {
        "coco-val-like": "COCO-val-like, 500,000 detections",
        "val2017": "COCO val2017, a real YOLOX-Nano",
        "aerial": "Aerial: few images, many boxes",
        "lvis-like": "LVIS-like, 1,203 classes",
    }
    title = titles[row["group"]]
    return title + (", 1 thread" if row.get("threads") == 1 else "")


def _streams(results: Results) -> list[Row]:
    variants = ("class_metrics", "padded")
    return [row for row in _rows(results, "stream") if not any(each in row["tool"] for each in variants)]


def _training(results: Results, theme: Theme) -> Drawing:
    panel = Panel("500,000 detections, 16 images per batch", panels_of(_streams(results))[0].bars)
    return draw_bars([panel], _notes(results, ["stream"]), theme)


def _mask_functions(results: Results, theme: Theme) -> Drawing:
    """The speed of each function on one scale: that of pycocotools is 1."""
    rows = _rows(results, "mask-functions")
    ratios = {
        ours["group"]: peer["seconds"] / ours["seconds"] for ours, peer in pairwise(rows) if is_ours(ours["tool"])
    }
    bars = [Bar(name, ratio, times(ratio), is_ours=True) for name, ratio in ratios.items()]
    panel = Panel("boxscore.coco.mask: times as fast as pycocotools.mask", bars)
    return draw_bars([panel], [versions(results, ["mask-functions"])], theme)


def _overview(results: Results, theme: Theme) -> Drawing:
    """What the README shows: four tasks, on all cores."""
    names = ("coco-val-like", "files", "masks", "stream")
    arrays = [row for row in _rows(results, "coco-val-like") if row["threads"] != 1]
    masks = [row for row in _rows(results, "masks") if row["group"].endswith("as a command")]
    tasks = {
        "Boxes: arrays to COCO's numbers": arrays,
        "Boxes: two files to the table": _rows(results, "files"),
        "Masks: two files to the table": masks,
        "Boxes: batch by batch in a training loop": _streams(results),
    }
    panels = [Panel(title, panels_of(rows)[0].bars) for title, rows in tasks.items()]
    size = "5,000 images, 500,000 detections."
    return draw_bars(panels, [f"{size} {SPEED}", versions(results, names)], theme)


def _bars(*names: str, title: Callable[[Row], str] = lambda row: _capitalized(row["group"])) -> Draw:
    """A chart of the speeds in some sections."""

    def draw(results: Results, theme: Theme) -> Drawing:
        return draw_bars(panels_of(_rows(results, *names), title), _notes(results, names), theme)

    return draw


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _start(results: Results, theme: Theme) -> Drawing:
    """Times, not speeds: they differ by less, and the interpreter's own is part of each."""
    panels = [
        Panel(
            _capitalized(panel.title),
            [Bar(bar.tool, 1 / bar.length, duration(1 / bar.length, 0), bar.is_ours) for bar in panel.bars],
        )
        for panel in panels_of(_rows(results, "start"))
    ]
    notes = ["Shorter is faster: a bar is the time of a whole process, on a scale of its own per panel."]
    return draw_bars(panels, [*notes, versions(results, ["start"])], theme)


def _growth(results: Results, theme: Theme) -> Drawing:
    """Time per detection: it stays the same, whatever their number."""
    lines = [
        Line("all in memory at once", [(row["detections"], row["nanoseconds"]) for row in _rows(results, "growth")]),
        Line("a stream of batches", [(row["detections"], row["all"]) for row in _rows(results, "scale")]),
    ]
    return draw_lines(
        lines, "Nanoseconds per detection, by the number of detections", [versions(results, ["growth", "scale"])], theme
    )


CHARTS: Mapping[str, tuple[tuple[str, ...], Draw]] = {
    "overview": (("coco-val-like", "files", "masks", "stream"), _overview),
    "arrays": (
        ("coco-val-like", "val2017", "aerial", "lvis-like"),
        _bars("coco-val-like", "val2017", "aerial", "lvis-like", title=_workload),
    ),
    "training": (("stream",), _training),
    "files": (("files",), _bars("files", title=lambda _: "5,000 images, 500,000 detections")),
    "script": (("script",), _bars("script", title=_workload)),
    "masks": (("masks",), _bars("masks")),
    "mask-functions": (("mask-functions",), _mask_functions),
    "keypoints": (("keypoints",), _bars("keypoints")),
    "oriented": (("oriented",), _bars("oriented")),
    "federated": (("federated",), _bars("federated")),
    "folders": (("folders",), _bars("folders", title=lambda row: f"A folder of {row['group']} files")),
    "engines": (("voc2007",), _bars("voc2007", title=lambda _: "Engines of boxscore")),
    "bootstrap": (("bootstrap",), _bars("bootstrap", title=lambda row: f"One resample of {row['group']}")),
    "start": (("start",), _start),
    "growth": (("growth", "scale"), _growth),
}
"""The sections that a chart needs, all of them, and how it is drawn."""


def charts(results: Results) -> Iterator[tuple[str, str]]:
    """The name and the content of every file: each chart whose sections were measured, for each theme."""
    for name, (needed, draw) in CHARTS.items():
        if all(section in results for section in needed):
            for theme, colors in THEMES.items():
                yield f"{name}-{theme}.svg", svg(draw(results, colors))
