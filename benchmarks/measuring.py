"""Every section of the benchmarks: how it is measured, and by which packages."""

import statistics
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from benchmarks import (
    adapters,
    contestants,
    dicts,
    federated,
    files,
    keypoints,
    masks,
    oriented,
    scale,
    script,
    start,
    wheel,
)
from benchmarks.processes import Row, Settings, say, take_turns, worker
from benchmarks.workloads import SHARED, is_present, prepare

PEERS = ("hotcoco", "ultrafast-pycocotools", "vernier")
FAST = ("boxscore", "boxscore, all arrays", *PEERS)
SLOW = ("faster-coco-eval", "pycocotools", "torchmetrics")
LEFT_OUT = {("lvis-like", "vernier")}
"""What takes a minute and a half and 13 GB per run."""
ADAPTED = ("transformers", "ultralytics", "supervision", "rfdetr", "sahi", "mmdet", "torchmetrics", "torch", *SLOW[:2])
"""The frameworks of the section `adapters`, and what they evaluate with."""
SCRIPTED = ("coco-val-like", "val2017", "lvis-like")
GROWTH = (50_000, 200_000, 1_000_000, 5_000_000, 20_000_000)


def arrays(settings: Settings, workload: str) -> list[Row]:
    """From loaded data to COCO's numbers and arrays; COCO-val-like also with one thread, and by slow tools."""
    if not is_present(workload):
        return []
    is_main = workload == "coco-val-like"
    names: tuple[str, ...] = (*FAST, *SLOW[:2]) if is_main and settings.is_with_slow else FAST
    names = tuple(name for name in names if (workload, name) not in LEFT_OUT)
    rows = _contest("CONTESTANTS", workload, names, settings.threads, settings.rounds)
    return rows + (_contest("CONTESTANTS", workload, FAST, 1, settings.rounds) if is_main else [])


def stream(settings: Settings) -> list[Row]:
    """The metrics of a training loop, in batches of 16 images."""
    return _contest("STREAMS", "coco-val-like", tuple(contestants.STREAMS), settings.threads, settings.rounds)


def _contest(table: str, workload: str, names: tuple[str, ...], threads: int, rounds: int) -> list[Row]:
    folder = prepare(workload, is_with_results=False)

    def run(name: str) -> dict[str, Any]:
        say(f"{workload}, {threads} threads: {name}")
        repeats = "1" if name in SLOW else "4"
        return worker("benchmarks.worker", table, name, str(folder), str(threads), repeats)

    reports = take_turns(names, run, rounds=rounds, once=SLOW)
    ours = reports["boxscore, all arrays"][0]
    return [
        {
            "group": workload if table == "CONTESTANTS" else f"{workload}, stream of 16 images per batch",
            "threads": threads,
            "tool": name,
            "seconds": statistics.median(second for run in runs for second in run["seconds"]),
            "peak_mb": statistics.median(run["peak_kb"] for run in runs) / 1024,
            "agrees": _agreement(getattr(contestants, table)[name], runs[0], ours),
        }
        for name, runs in reports.items()
    ]


def _agreement(contestant: contestants.Contestant, run: dict[str, Any], ours: dict[str, Any]) -> str:
    """How a tool's numbers compare with ours. What claims pycocotools' bits must have them."""
    has_same_numbers = run["stats"] == ours["stats"]
    if has_same_numbers and run["precision"] == ours["precision"]:
        return "every bit"
    distance = max(abs(a - b) for a, b in zip(run["stats"], ours["stats"], strict=True))
    if contestant.is_exact and not (has_same_numbers and run["precision"] is None):
        raise RuntimeError(f"{contestant.package} claims pycocotools' bits, and is {distance:g} off ours")
    return "all 12 numbers" if has_same_numbers else f"within {distance:.1g}"


def training_cost(settings: Settings) -> list[Row]:
    """The parts of the cost of a metric in a training loop."""
    del settings  # one process takes many turns
    say("cost in a training loop")
    return [worker("benchmarks.stream", str(prepare("coco-val-like", is_with_results=False)))]


def updates_on_a_device(settings: Settings) -> list[Row]:
    """What updates cost on an accelerator, as far as it can be counted."""
    del settings  # counts are exact, and times are of many turns
    say("device")
    rows: list[Row] = worker("benchmarks.device", str(prepare("coco-val-like", is_with_results=False)))["rows"]
    return rows


def whole_processes(settings: Settings) -> list[Row]:
    """From two files to the table, by whole processes."""
    folder = prepare("coco-val-like", is_with_results=True)
    group = "files to the table, as a command"
    return files.measure_commands(folder, "bbox", group=group, rounds=2 * settings.rounds, threads=settings.threads)


def unchanged_scripts(settings: Settings) -> list[Row]:
    """The usual pycocotools script with each drop-in, from files to `stats`: the minimum of all rounds."""
    rows: list[Row] = []
    for workload in filter(is_present, SCRIPTED):
        folder = prepare(workload, is_with_results=True)
        is_with_slow = settings.is_with_slow and workload == "coco-val-like"

        def run(name: str, workload: str = workload, folder: Any = folder) -> dict[str, Any]:
            say(f"the unchanged script, {workload}: {name}")
            return worker("benchmarks.script", name, str(folder / "truths.json"), str(folder / "detections.json"))

        names = [name for name in script.PATCHES if name not in SLOW or is_with_slow]
        reports = take_turns(names, run, rounds=2 * settings.rounds, once=SLOW)
        for name, runs in reports.items():
            if name != "faster-coco-eval" and runs[0]["stats"] != reports["boxscore"][0]["stats"]:
                raise RuntimeError(f"{name}: other `stats` than ours in {workload}")
            keys = ("seconds", "cpu_seconds", "import_cpu_seconds")
            rows.append({"group": workload, "tool": name} | {key: min(run[key] for run in runs) for key in keys})
    return rows


def folders(settings: Settings) -> list[Row]:
    """Reading folders of many small files; seconds without those of imports."""
    rows: list[Row] = []
    for kind, title in (("voc", "VOC"), ("yolo", "YOLO")):
        folder = files.folder_of(kind)
        if folder is None:
            continue
        readers = files.readers(kind)

        def run(
            name: str, kind: str = kind, readers: Mapping[str, list[str]] = readers, folder: str = str(folder)
        ) -> float:
            say(f"folder of {kind}: {name}")
            done = subprocess.run([*readers[name], folder], capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"{name}:\n{done.stderr[-2000:]}")
            return float(done.stdout.split()[-1])

        seconds = take_turns(readers, run, rounds=settings.rounds)
        rows += [{"group": title, "tool": name, "seconds": statistics.median(each)} for name, each in seconds.items()]
    return rows


def voc2007(settings: Settings) -> list[Row]:
    """The engines of this repository on real VOC 2007 data."""
    if not (SHARED / "voc2007").exists():
        return []

    def run(name: str) -> float:
        say(f"voc2007: {name}")
        return float(worker("benchmarks.voc", name)["seconds"])

    names = ("native", "parallel", "parallel, torch", "as published", "sequential")
    seconds = take_turns(names, run, rounds=settings.rounds)
    return [{"group": "VOC 2007", "tool": name, "seconds": statistics.median(each)} for name, each in seconds.items()]


def resampling(settings: Settings) -> list[Row]:
    """Intervals of one model, and paired ones of two: seconds per resample."""
    folder = prepare("coco-val-like", is_with_results=False)
    titles = {
        "intervals": "boxscore `intervals`",
        "compare": "boxscore `compare`",
        "hotcoco": "hotcoco `compare`",
    }

    def run(name: str) -> dict[str, Any]:
        say(f"bootstrap: {name}")
        return worker("benchmarks.bootstrap", name, str(folder), str(settings.threads))

    reports = take_turns(titles, run, rounds=settings.rounds)
    return [
        {
            "group": "one model" if name == "intervals" else "two models, paired",
            "tool": title,
            "seconds": statistics.median(report["seconds"] / report["resamples"] for report in reports[name]),
            "resamples": reports[name][0]["resamples"],
        }
        for name, title in titles.items()
    ]


def growth(settings: Settings) -> list[Row]:
    """Time and memory per detection, as data grows."""
    del settings  # one run per size
    rows: list[Row] = []
    for num in GROWTH:
        say(f"growth: {num:,} detections")
        time_report, memory_report = (worker("benchmarks.growth", kind, str(num)) for kind in ("time", "memory"))
        row = {"detections": num, "nanoseconds": time_report["seconds"] / num * 1e9}
        rows.append(row | {"tally_bytes": time_report["tally_bytes"] / num, "peak_bytes": memory_report["bytes"]})
    return rows


def streams_of_growing_size(settings: Settings) -> list[Row]:
    """A stream of detections, matched batch by batch, up to 100 million."""
    del settings  # each size decides on its number of runs
    say("scale")
    return [*scale.run()]


class Section(NamedTuple):
    """One section of `results.json`."""

    measure: Callable[[Settings], list[Row]]
    """Its rows; none where its data is missing."""
    packages: tuple[str, ...] = ()
    """Whose versions it records, besides boxscore and NumPy."""


SECTIONS: Mapping[str, Section] = {
    "coco-val-like": Section(partial(arrays, workload="coco-val-like"), (*PEERS, *SLOW[:2])),
    "val2017": Section(partial(arrays, workload="val2017"), PEERS),
    "aerial": Section(partial(arrays, workload="aerial"), PEERS),
    "lvis-like": Section(partial(arrays, workload="lvis-like"), PEERS[:-1]),
    "stream": Section(stream, ("hotcoco", "torchmetrics", "faster-coco-eval", "torch")),
    "training-cost": Section(training_cost, ("torchmetrics", "torch")),
    "device": Section(updates_on_a_device, ("torch", "torchmetrics")),
    "files": Section(whole_processes, PEERS),
    "script": Section(unchanged_scripts, (*PEERS[:-1], *SLOW[:2])),
    "dicts": Section(dicts.measure, ("hotcoco", *SLOW[:2])),
    "masks": Section(masks.measure, (*PEERS, "torchmetrics", "faster-coco-eval", "torch")),
    "mask-functions": Section(masks.measure_functions, ("pycocotools",)),
    "keypoints": Section(keypoints.measure, (*PEERS, "pycocotools")),
    "oriented": Section(oriented.measure, ("hotcoco",)),
    "federated": Section(federated.measure, ("hotcoco", "lvis")),
    "adapters": Section(adapters.measure, ADAPTED),
    "folders": Section(folders, ("supervision", "globox")),
    "voc2007": Section(voc2007, ("torch",)),
    "bootstrap": Section(resampling, ("hotcoco",)),
    "start": Section(start.measure, (*PEERS[:-1], "pycocotools")),
    "growth": Section(growth),
    "scale": Section(streams_of_growing_size),
    "wheel": Section(wheel.measure),
}
"""In the order in which they are measured. `wheel` only if there is one."""
