"""The page of the benchmarks, and the sentence of the README: Markdown from the results."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from benchmarks.charts import CHARTS, THEMES, is_ours, times
from benchmarks.processes import Row
from benchmarks.results import Measured, Results

Cells = Mapping[str, Callable[[Row], str]]
"""The columns of a table: a header, and the cell of a row. `ratio` in a row is to the first of its group."""


class Part(NamedTuple):
    """A part of the page: sections of the results under one heading, with a chart."""

    title: str
    text: str
    chart: str
    sections: tuple[str, ...]
    content: Callable[[Results, tuple[str, ...]], list[str]]


def _with_ratios(rows: Sequence[Row]) -> list[Row]:
    """Rows with the ratio of their seconds to those of the first in the group; the first has none.

    >>> rows = [{"group": "g", "tool": "a", "seconds": 2.0}, {"group": "g", "tool": "b", "seconds": 3.0}]
    >>> [row.get("ratio") for row in _with_ratios(rows)]
    [None, 1.5]
    """
    groups = (list(each) for _, each in groupby(rows, lambda row: (row["group"], row.get("threads"))))
    return [
        row if row is group[0] else row | {"ratio": row["seconds"] / group[0]["seconds"]}
        for group in groups
        for row in group
    ]


def _table(cells: Cells) -> Callable[[Results, tuple[str, ...]], list[str]]:
    """A table of all rows of some sections."""

    def content(results: Results, sections: tuple[str, ...]) -> list[str]:
        rows = [row for name in sections if name in results for row in results[name]["rows"]]
        return _markdown(list(cells), [[cell(row) for cell in cells.values()] for row in _with_ratios(rows)])

    return content


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows)]


def _text(key: str) -> Callable[[Row], str]:
    return lambda row: str(row[key])


def _seconds(key: str = "seconds", num_digits: int = 3) -> Callable[[Row], str]:
    return lambda row: f"{row[key]:.{num_digits}f}"


def _milliseconds(row: Row) -> str:
    return f"{row['seconds'] * 1e3:.1f}"


def _faster(row: Row) -> str:
    return times(row["ratio"]) if "ratio" in row else ""


def _ratio(row: Row) -> str:
    return f"{row['ratio']:.2f}" if "ratio" in row else ""


def _memory(row: Row) -> str:
    return f"{row['peak_mb']:,.0f} MB"


def _distance(row: Row) -> str:
    return f"{row['distance']:.1g}"


_TOOL: Cells = {"tool": _text("tool")}
_SPEED: Cells = {"seconds": _seconds(), "boxscore is faster": _faster}
_MEMORY: Cells = {"peak memory": _memory}


def _functions(results: Results, sections: tuple[str, ...]) -> list[str]:
    """One line per function, both tools beside each other."""
    lines = []
    rows = results[sections[0]]["rows"]
    for ours, theirs in zip(rows[::2], rows[1::2], strict=True):
        faster = times(theirs["seconds"] / ours["seconds"])
        lines.append([ours["group"], f"{ours['seconds'] * 1e3:.3f}", f"{theirs['seconds'] * 1e3:.3f}", faster])
    return _markdown(["function", "boxscore, ms", "pycocotools, ms", "boxscore is faster"], lines)


def _training(results: Results, sections: tuple[str, ...]) -> list[str]:
    cells: Cells = {**_TOOL, **_SPEED, **_MEMORY, "equal to boxscore": _text("agrees")}
    lines = _table(cells)(results, sections[:1])
    if "training-cost" in results:
        (cost,) = results["training-cost"]["rows"]
        lines += [
            "",
            f"- All updates take {cost['update']:.3f} s, `compute` after the last one {cost['compute'] * 1e3:.0f} ms: "
            f"{cost['compute'] / cost['update']:.2f} of that.",
            f"- The state takes {cost['state_bytes']:.1f} bytes per detection.",
            f"- `boxscore.torchmetrics` takes {cost['class_metrics']:.2f} times as long with `class_metrics=True`.",
        ]
    return lines


_COUNTS: Cells = {
    "update": _text("tool"),
    "kernel launches": _text("launches"),
    "copies to the device": _text("copies_to_device"),
    "copies to the host": _text("copies_to_host"),
    "KB to the host": lambda row: f"{row['kilobytes_to_host']:,.0f}",
    "reads that block": _text("reads"),
}

DEVICE_TABLES: Mapping[str, tuple[str, Cells]] = {
    "counts": ("One update of 16 images with 100 predictions and 100 targets each:", _COUNTS),
    "masks": (
        "One update of 16 images with 100 predicted masks and 20 of targets each, of 640 x 480 pixels, 590 MB:",
        _COUNTS,
    ),
    "padded": (
        "All updates of the stream of the section above, in host memory, on one thread:",
        {"batches": _text("tool"), "CPU seconds": _seconds(num_digits=4), "ratio": _ratio},
    ),
    "states": (
        "One update of 16 images with 100 predictions and 24 targets each inside a compiled step, on the CPU:",
        {
            "step": _text("tool"),
            "ms": lambda row: f"{row['seconds'] * 1e3:.1f}",
            "temporary MB": lambda row: "" if row["megabytes"] is None else f"{row['megabytes']:.1f}",
            "seconds to compile": lambda row: f"{row['compiled']:.1f}",
        },
    ),
}
"""By the name of a measure in `benchmarks.device`: the sentence above its table, and the columns."""


def _device(results: Results, sections: tuple[str, ...]) -> list[str]:
    """One table per measure."""
    lines = []
    rows = results[sections[0]]["rows"]
    for name, (title, cells) in DEVICE_TABLES.items():
        if own := [row for row in rows if row["measure"] == name]:
            lines += ["", title, "", *_plain(cells, _with_ratios(own) if "seconds" in own[0] else own)]
    return lines[1:]


def _growth(results: Results, sections: tuple[str, ...]) -> list[str]:
    """All at once, and as a stream."""
    cells: Cells = {
        "detections": lambda row: f"{row['detections']:,}",
        "ns per detection": lambda row: f"{row['nanoseconds']:.0f}",
        "bytes per detection in a Tally": lambda row: f"{row['tally_bytes']:.1f}",
        "peak bytes beyond the inputs": lambda row: f"{row['peak_bytes']:.0f}",
    }
    lines = []
    for name, title in zip(sections, ("All in memory at once:", _STREAM), strict=True):
        if name in results:
            rows = results[name]["rows"]
            lines += ["", title, "", *(stream_table(rows) if name == "scale" else _plain(cells, rows))]
    return lines[1:]


_STREAM = (
    "A stream, matched batch by batch, in nanoseconds per detection: on the wall, of each step and of both, and of "
    "processors, in boxscore's code and in the system:"
)


def _plain(cells: Cells, rows: Sequence[Row]) -> list[str]:
    return _markdown(list(cells), [[cell(row) for cell in cells.values()] for row in rows])


def stream_table(rows: Sequence[Row]) -> list[str]:
    """Each size of the stream beside the first."""
    cells: Cells = {
        "detections": lambda row: f"{row['detections']:,.0f}",
        "match": lambda row: f"{row['match']:.0f}",
        "finish": lambda row: f"{row['finish']:.0f}",
        "total": lambda row: f"{row['all']:.0f}",
        "to the first": lambda row: f"{row['all'] / rows[0]['all']:.2f}x",
        "processors": lambda row: f"{row['all_user']:.0f}",
        "to the first ": lambda row: f"{row['all_user'] / rows[0]['all_user']:.2f}x",
        "system": lambda row: f"{row['all_system']:.0f}",
        "bytes in a Tally": lambda row: f"{row['tally_bytes']:.1f}",
        "peak bytes": lambda row: f"{row['peak_bytes']:.0f}",
    }
    return _plain(cells, rows)


PARTS = (
    Part(
        "From loaded data to COCO's numbers",
        "boxscore starts from NumPy arrays, including validation; the others from their own loaded form. `boxscore` "
        "gives the twelve numbers and the table of classes; `boxscore, all arrays` reads `precision` and `scores`, "
        "too, which are built then. Peers build them in any case. vernier is left out of LVIS-like: it takes a minute "
        "and a half per run there, and 13 GB.",
        "arrays",
        ("coco-val-like", "val2017", "aerial", "lvis-like"),
        _table(
            {"workload": _text("group"), "threads": _text("threads")}
            | {**_TOOL, **_SPEED, **_MEMORY, "equal to boxscore": _text("agrees")}
        ),
    ),
    Part(
        "During training",
        "COCO-val-like data, 500,000 detections, as tensors in batches of 16 images: all updates, and the numbers and "
        "the table of classes at the end; `boxscore, all arrays` reads `precision` and `scores`, too. torchmetrics "
        "runs with faster-coco-eval.",
        "training",
        ("stream", "training-cost"),
        _training,
    ),
    Part(
        "On an accelerator",
        "Launches, copies and reads, counted on a device that computes on the CPU and reports `cuda:0`; how long they "
        "take on an accelerator has not been measured. Matching waits for the copies when it runs, in a later call: "
        "see [Tensors on an accelerator](../guides/training.md#tensors-on-an-accelerator).",
        "",
        ("device",),
        _device,
    ),
    Part(
        "From files to the table",
        "Whole processes, including imports: COCO-val-like files, 48 MB of detections and 5 MB of truths.",
        "files",
        ("files",),
        _table({"command": _text("tool"), **_SPEED, **_MEMORY}),
    ),
    Part(
        "The unchanged pycocotools script",
        "`COCO(file)`, `loadRes(file)`, `COCOeval`, `evaluate`, `accumulate`, `summarize`, with each package's "
        "drop-in, from files to `stats`, which are equal to the bit, except those of faster-coco-eval. The minimum of "
        "all rounds; imports are listed separately.",
        "script",
        ("script",),
        _table(
            {"workload": _text("group"), **_TOOL, **_SPEED}
            | {"CPU seconds": _seconds("cpu_seconds"), "CPU seconds of imports": _seconds("import_cpu_seconds")}
        ),
    ),
    Part(
        "The same script from dicts",
        "The data is in memory: a dataset of dicts, and results as a list of dicts or as an array of seven columns, as "
        "training loops have them. `COCO()`, `createIndex`, `loadRes(list)`, `COCOeval`, `evaluate`, `accumulate`, "
        "`summarize`; without imports. `stats` are equal to the bit, except those of faster-coco-eval.",
        "",
        ("dicts",),
        _table({"workload": _text("group"), **_TOOL, **_SPEED, "CPU seconds": _seconds("cpu_seconds")}),
    ),
    Part(
        "Masks",
        "Like COCO val: 5,000 images of 640 x 480, 36,000 polygons as truths, 100 run-length masks per image as "
        "detections (200 MB of JSON). `boxscore.coco` is the drop-in; `boxscore` reads the files with `read_truths` "
        "and `read_detections` and calls `evaluate`. Commands are whole processes; the others are without imports.",
        "masks",
        ("masks",),
        _table({"from": _text("group"), **_TOOL, **_SPEED, **_MEMORY}),
    ),
    Part(
        "The functions of `pycocotools.mask`",
        "100 or 200 masks per call, medians of 30.",
        "mask-functions",
        ("mask-functions",),
        _functions,
    ),
    Part(
        "Keypoints",
        "Like COCO val: 5,000 images, 11,000 persons of 17 keypoints as truths, 27 poses per image as detections (61 "
        "MB of JSON). Commands are whole processes; the others are without imports. All ten numbers of all tools are "
        "equal to the bit. vernier gets a file that has boxes, too, since it reads no other.",
        "keypoints",
        ("keypoints",),
        _table({"from": _text("group"), **_TOOL, **_SPEED, **_MEMORY}),
    ),
    Part(
        "Oriented boxes",
        "Like DOTA: 20 images of 4,000 x 4,000, 2,000 oriented boxes each as truths, about 2,500 as detections, 15 "
        "classes. Both tools have the same boxes in files of their own form: corners for boxscore, center, sides and "
        "angle for hotcoco. Without imports.",
        "oriented",
        ("oriented",),
        _table(
            {"from": _text("group"), **_TOOL, **_SPEED, **_MEMORY, "distance to boxscore's numbers": _distance},
        ),
    ),
    Part(
        "LVIS, files to its 13 numbers",
        "2,000 images, 1,203 classes, 20,000 truths and 200,000 detections, boxes; without imports. `boxscore "
        "drop-in` is `boxscore.lvis`, the same script as `lvis`.",
        "federated",
        ("federated",),
        _table({**_TOOL, **_SPEED, **_MEMORY, "distance to the numbers of lvis": _distance}),
    ),
    Part(
        "Inside frameworks",
        "An epoch's evaluation, from predictions to numbers: 500 images with 100 detections each, COCO-val-like, in "
        "batches of 16. Each framework's own evaluator, and boxscore in its place, as [its page]"
        "(../frameworks/index.md) says. Ultralytics computes its own numbers in both rows. Without imports, and "
        "without the network.",
        "",
        ("adapters",),
        _table({"framework": _text("group"), "evaluator": _text("tool"), **_SPEED}),
    ),
    Part(
        "Folders of 4,952 annotations",
        "VOC 2007's, and the same as YOLO labels with their images; without imports.",
        "folders",
        ("folders",),
        _table({"folder": _text("group"), **_TOOL, **_SPEED}),
    ),
    Part(
        "VOC 2007, 87,765 real detections",
        "The engines of boxscore, from loaded data to all numbers. `as published` is the paper's method.",
        "engines",
        ("voc2007",),
        _table({"engine": _text("tool"), "seconds": _seconds(num_digits=4), "native is faster": _faster}),
    ),
    Part(
        "Bootstrap of 500,000 detections",
        "COCO-val-like data, 5,000 images; the second model has nine of ten detections. Every number of COCO, and AP "
        "and AR of each class, after matching. `compare` of both, without the time that it takes for no resamples.",
        "bootstrap",
        ("bootstrap",),
        _table(
            {"models": _text("group"), **_TOOL, "resamples": lambda row: f"{row['resamples']:,}"}
            | {"milliseconds per resample": _milliseconds, "boxscore is faster": _faster}
        ),
    ),
    Part(
        "Start",
        "Whole processes, from start to end, with files in the cache of the system. `import boxscore` loads a module "
        "when it is first used; `import all that evaluates` is for code that evaluates files: readers and evaluation.",
        "start",
        ("start",),
        _table({"what": _text("group"), **_TOOL, "milliseconds": _milliseconds}),
    ),
    Part(
        "As data grows",
        "COCO-val-like data of any size, on all cores.",
        "growth",
        ("growth", "scale"),
        _growth,
    ),
    Part(
        "A wheel beside the local build",
        "The wheel that users install, built by another compiler for older systems, and a build on this machine: the "
        "same interpreter, COCO-val-like data, equal bits.",
        "",
        ("wheel",),
        _table({"from": _text("group"), "build": _text("tool"), "seconds": _seconds(num_digits=4), "ratio": _ratio}),
    ),
)


def page(results: Results) -> str:
    """The whole page."""
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench` from [results.json](results.json). All tools of a table ran in turns, each in its "
        "own process; times are medians unless the text says otherwise. Compare ratios: seconds depend on the "
        "machine.",
    ]
    if _can_draw("overview", results):
        lines += ["", *picture("overview", "Speed of boxscore and its peers in four tasks")]
    for part in PARTS:
        measured = {name: results[name] for name in part.sections if name in results}
        if part.sections[0] not in measured:
            continue
        lines += ["", f"## {part.title}", "", part.text]
        if part.chart and _can_draw(part.chart, results):
            lines += ["", *picture(part.chart, f"Chart: {part.title.replace('`', '')}")]
        lines += ["", *part.content(results, part.sections), *_provenance(measured)]
    return "\n".join(lines) + "\n"


def _can_draw(chart: str, results: Results) -> bool:
    return all(section in results for section in CHARTS[chart][0])


def picture(chart: str, text: str) -> list[str]:
    """Both themes, of which GitHub and the site show the one that fits."""
    return [f"![{text}]({chart}-{theme}.svg#gh-{theme}-mode-only)" for theme in THEMES]


def _provenance(measured: Results) -> list[str]:
    """When and with what, once for all sections that agree in it; with their names if others do not."""
    runs: list[tuple[list[str], Measured]] = []
    for name, section in measured.items():
        for names, run in runs:
            if _is_alike(run, section):
                names.append(name)
                run["versions"] = run["versions"] | section["versions"]
                break
        else:
            runs.append(([name], section.copy()))
    lines = []
    for names, run in runs:
        packages = ", ".join(f"{package} {number}" for package, number in run["versions"].items())
        rounds = "1 round" if run["rounds"] == 1 else f"{run['rounds']} rounds"
        of = f"{', '.join(names)}: " if len(runs) > 1 else ""
        lines += ["", f"*{of}{run['date']}, {rounds}; {run['machine']}; {packages}.*"]
    return lines


def _is_alike(run: Measured, section: Measured) -> bool:
    is_same_run = all(run[key] == section[key] for key in ("date", "machine", "rounds"))
    return is_same_run and all(run["versions"].get(name, it) == it for name, it in section["versions"].items())


def with_speed(text: str, group: str, results: Results) -> str:
    """The page of a framework with the sentence on speed that the results give, if it was measured."""
    rows = [row for row in results["adapters"]["rows"] if row["group"] == group] if "adapters" in results else []
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{_epoch(rows)}\n{END}{after}" if rows else text


def _epoch(rows: Sequence[Row]) -> str:
    """How long an epoch's evaluation takes by boxscore, the first row, and by the others."""
    ours, *others = rows
    measured = "[500 images with 100 detections each](../benchmarks/index.md#inside-frameworks)"
    each = (
        f"{_short(row['seconds'])} with {row['tool']} ({times(row['seconds'] / ours['seconds'])} as long)"
        for row in others
    )
    return f"An epoch's evaluation, {measured}, takes {_short(ours['seconds'])} with boxscore, {', '.join(each)}."


def _short(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s"


BEGIN, END = "<!-- speed: `make bench` writes this sentence -->", "<!-- end of speed -->"


def with_claims(readme: str, results: Results) -> str:
    """The README with the sentence on speed that the results give, if all of its sections were measured."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    if not {"coco-val-like", "files", "masks", "keypoints", "oriented", "stream"} <= set(results):
        return readme
    return f"{before}{BEGIN}\n{claims(results)}\n{END}{after}"


def claims(results: Results) -> str:
    """How fast boxscore is beside the fastest peer in each task, and beside pycocotools."""
    arrays = _leads(row for name in PARTS[0].sections if name in results for row in results[name]["rows"])
    commands = "files to the table, as a command"
    files, masks, poses = (_leads(results[name]["rows"])[commands, None] for name in ("files", "masks", "keypoints"))
    oriented = _leads(results["oriented"]["rows"])["files to all numbers", None]
    (stream,) = _leads(results["stream"]["rows"]).values()
    seconds = {row["tool"]: row["seconds"] for row in reversed(results["coco-val-like"]["rows"])}
    low, high = min(arrays.values()), max(arrays.values())
    lines = [
        f"Compared with the fastest peer, boxscore is {low:.1f} to {high:.1f} times as fast from arrays, "
        f"{files:.1f} times from files",
        f"(masks {masks:.1f}, poses {poses:.1f}, oriented boxes {oriented:.1f}) and {stream:.1f} times in a training "
        "loop.",
    ]
    if "pycocotools" in seconds:
        lines[-1] += f" pycocotools takes {seconds['pycocotools'] / seconds['boxscore']:.0f} times as long."
    return "\n".join(lines)


def _leads(rows: Iterable[Row]) -> dict[tuple[str, int | None], float]:
    """By group: the time of the fastest peer, divided by that of the fastest of boxscore."""
    leads = {}
    for key, each in groupby(rows, lambda row: (row["group"], row.get("threads"))):
        group = list(each)
        ours, others = (min(row["seconds"] for row in group if is_ours(row["tool"]) == flag) for flag in (True, False))
        leads[key] = others / ours
    return leads
