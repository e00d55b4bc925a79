"""Run all of it: tools take turns, several rounds, each run in a process of its own; a Markdown table and JSON.

python -m benchmarks [--rounds 3] [--only coco-val-like,files,voc2007,…]
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import contestants, federated, files, keypoints, masks, oriented, scale, script
from benchmarks.workloads import FOLDER, SHARED, is_present, prepare

FAST = ("boxscore", "hotcoco", "ultrafast-pycocotools", "vernier")
SLOW = ("faster-coco-eval", "pycocotools", "torchmetrics")
LEFT_OUT = {("lvis-like", "vernier")}
"""What takes a minute and a half and 13 GB per run."""
SCRIPTED = ("coco-val-like", "val2017", "lvis-like")
WORKLOADS = ("coco-val-like", "val2017", "aerial", "lvis-like")
SECTIONS = (
    *WORKLOADS,
    "stream",
    "files",
    "script",
    "masks",
    "keypoints",
    "oriented",
    "federated",
    "folders",
    "voc2007",
    "bootstrap",
    "growth",
    "scale",
    "slow",
)
GROWTH = (50_000, 200_000, 1_000_000, 5_000_000, 20_000_000)


def worker(module: str, *arguments: str) -> dict[str, Any]:
    """What a process reports; fails with what it said."""
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{module} {' '.join(arguments)}:\n{done.stderr[-2000:]}")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def measure(table: str, workload: str, names: Sequence[str], *, threads: int, rounds: int) -> list[dict[str, Any]]:
    """Rows of one workload: the tools take turns, so that a slow moment of the machine hits all of them."""
    folder = prepare(workload, is_with_results=False)
    reports: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            if name in SLOW and reports[name]:
                continue  # once is enough for what takes minutes
            say(f"{workload}, {threads} threads: {name}")
            repeats = "1" if name in SLOW else "4"
            reports[name].append(worker("benchmarks.worker", table, name, str(folder), str(threads), repeats))
    ours = reports["boxscore"][0]
    rows = []
    for name, runs in reports.items():
        rows.append(
            {
                "workload": workload if table == "CONTESTANTS" else f"{workload}, stream of 16 images per batch",
                "threads": threads,
                "tool": name,
                "seconds": statistics.median(second for run in runs for second in run["seconds"]),
                "peak_mb": round(statistics.median(run["peak_kb"] for run in runs) / 1024),
                "agrees": agreement(getattr(contestants, table)[name], runs[0], ours),
            }
        )
    for row in rows:
        row["ratio"] = row["seconds"] / rows[0]["seconds"]
    return rows


def agreement(contestant: contestants.Contestant, run: dict[str, Any], ours: dict[str, Any]) -> str:
    """How a tool's numbers compare with ours. What claims pycocotools' bits must have them."""
    if run["precision"] is not None and run["precision"] == ours["precision"] and run["stats"] == ours["stats"]:
        return "every bit"
    if run["precision"] is None and run["stats"] == ours["stats"]:
        return "all 12 numbers"
    distance = max(abs(a - b) for a, b in zip(run["stats"], ours["stats"], strict=True))
    if contestant.is_exact:
        raise RuntimeError(f"{contestant.package} claims pycocotools' bits, and is {distance:g} off ours")
    return f"within {distance:.1g}"


def whole_processes(rounds: int, threads: int) -> list[dict[str, Any]]:
    """From two files to the table, by whole processes."""
    folder = prepare("coco-val-like", is_with_results=True)
    return files.measure_commands(folder, "bbox", rounds=2 * rounds, threads=threads, say=say)


def unchanged_scripts(workloads: Sequence[str], rounds: int, *, is_with_slow: bool) -> list[dict[str, Any]]:
    """The pycocotools script that everybody has, over each drop-in, from files to `stats`."""
    rows = []
    for workload in workloads:
        if not is_present(workload):
            continue
        folder = prepare(workload, is_with_results=True)
        paths = [str(folder / "truths.json"), str(folder / "detections.json")]
        names = [name for name in script.PATCHES if name not in SLOW or (is_with_slow and workload == "coco-val-like")]
        reports: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for _ in range(2 * rounds):
            for name in names:
                if name in SLOW and reports[name]:
                    continue  # once is enough for what takes minutes
                say(f"the unchanged script, {workload}: {name}")
                reports[name].append(worker("benchmarks.script", name, *paths))
        for name, runs in reports.items():
            if name != "faster-coco-eval" and runs[0]["stats"] != reports["boxscore"][0]["stats"]:
                raise RuntimeError(f"{name}: other `stats` than ours in {workload}")
            keys = ("seconds", "cpu_seconds", "import_cpu_seconds")
            best = {key: min(run[key] for run in runs) for key in keys}
            rows.append({"workload": workload, "tool": name, **best})
    for row in rows:
        ours = next(each for each in rows if each["workload"] == row["workload"])
        row["ratio"] = row["seconds"] / ours["seconds"]
    return rows


def folders(rounds: int) -> list[dict[str, Any]]:
    """Reading folders of many small files; seconds without those of imports."""
    rows = []
    for kind in ("voc", "yolo"):
        folder = files.folder_of(kind)
        if folder is None:
            continue
        seconds: dict[str, list[float]] = {name: [] for name in files.readers(kind)}
        for _ in range(rounds):
            for name, command in files.readers(kind).items():
                say(f"folder of {kind}: {name}")
                done = subprocess.run([*command, str(folder)], capture_output=True, text=True)
                if done.returncode != 0:
                    raise RuntimeError(f"{name}:\n{done.stderr[-2000:]}")
                seconds[name].append(float(done.stdout.split()[-1]))
        medians = {name: statistics.median(values) for name, values in seconds.items()}
        for name, median in medians.items():
            rows.append({"kind": kind, "tool": name, "seconds": median, "ratio": median / medians["boxscore"]})
    return rows


def voc2007(rounds: int) -> list[dict[str, Any]]:
    """The engines of this repository on real VOC 2007 data."""
    names = ("native", "parallel", "as published", "sequential")
    runs: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            say(f"voc2007: {name}")
            runs[name].append(worker("benchmarks.voc", name)["seconds"])
    medians = {name: statistics.median(seconds) for name, seconds in runs.items()}
    return [
        {"workload": "voc2007", "engine": name, "seconds": medians[name], "ratio": medians[name] / medians["native"]}
        for name in names
    ]


def resampling(rounds: int, threads: int) -> list[dict[str, Any]]:
    """Intervals of one model, and paired ones of two, for each resample."""
    folder = prepare("coco-val-like", is_with_results=False)
    names = {
        "intervals": "boxscore, `result.intervals`",
        "compare": "boxscore, `compare`",
        "hotcoco": "hotcoco, `compare`",
    }
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            say(f"bootstrap: {name}")
            runs[name].append(worker("benchmarks.bootstrap", name, str(folder), str(threads)))
    each = {name: statistics.median(run["seconds"] / run["resamples"] for run in runs[name]) for name in names}
    return [
        {
            "tool": title,
            "models": 1 if name == "intervals" else 2,
            "milliseconds": each[name] * 1000,
            "resamples": runs[name][0]["resamples"],
            "ratio": each[name] / each["compare"],
        }
        for name, title in names.items()
    ]


def growth() -> list[dict[str, Any]]:
    """Time and memory per detection, as data grows."""
    rows = []
    for num in GROWTH:
        say(f"growth: {num:,} detections")
        time_report, memory_report = (worker("benchmarks.growth", kind, str(num)) for kind in ("time", "memory"))
        row = {"detections": num, "nanoseconds": time_report["seconds"] / num * 1e9}
        rows.append(row | {"tally_bytes": time_report["tally_bytes"] / num, "peak_bytes": memory_report["bytes"]})
    return rows


def updated(path: Path, measured: dict[str, Any]) -> dict[str, Any]:
    """What was measured now, and of earlier runs on this machine what was not; a table is always of one run."""
    before = json.loads(path.read_text()) if path.exists() else {}
    report = {name: value if value is not None else before.get(name) for name, value in measured.items()}
    again = {row["workload"] for row in measured["coco"]}
    report["coco"] = [row for row in before.get("coco", []) if row["workload"] not in again] + measured["coco"]
    return report


def say(text: str) -> None:
    """Progress, on stderr."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def markdown(report: dict[str, Any]) -> str:
    """The report as a document."""
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`: all tools in one run, in turns, each in its own process, medians of "
        f"{report['rounds']} rounds. Compare ratios; seconds depend on the machine: {report['machine']}.",
        "",
        "Versions: " + ", ".join(f"{name} {number}" for name, number in report["versions"].items()) + ".",
        "",
        "## From loaded data to all of COCO's arrays and numbers",
        "",
        "boxscore starts from NumPy arrays, including validation; the others from their own loaded form. vernier is "
        "left out of LVIS-like: it takes a minute and a half per run there, and 13 GB.",
        "",
        "| workload | threads | tool | seconds | boxscore is faster | peak memory | equal to boxscore |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in report["coco"]:
        faster = "" if row["tool"] == "boxscore" else f"{row['ratio']:.1f}x"
        cells = [row["workload"], row["threads"], row["tool"], f"{row['seconds']:.3f}", faster]
        lines.append("| " + " | ".join(map(str, [*cells, f"{row['peak_mb']:,} MB", row["agrees"]])) + " |")
    if report["stream"]:
        cost = report["stream"]
        lines += [
            "",
            "## During training",
            "",
            "In the stream above, 500,000 detections in batches of 16 images:",
            "",
            f"- all updates take {cost['update']:.3f} s, `compute` after the last one {cost['compute'] * 1e3:.0f} ms: "
            f"{cost['compute'] / cost['update']:.2f} of that",
            f"- the state takes {cost['state_bytes']:.1f} bytes per detection",
            f"- `boxscore.torchmetrics` takes {cost['class_metrics']:.2f}x as long with `class_metrics=True`",
        ]
    if report["files"]:
        lines += [
            "",
            "## From files to the table",
            "",
            "Whole processes, including imports: COCO-val-like files, 48 MB of detections and 5 MB of truths.",
            "",
            "| command | seconds | boxscore is faster | peak memory |",
            "|---|---|---|---|",
        ]
        for row in report["files"]:
            faster = f"{row['ratio']:.1f}x" if row["ratio"] != 1 else ""
            lines.append(f"| {row['tool']} | {row['seconds']:.3f} | {faster} | {row['peak_mb']:.0f} MB |")
    if report["script"]:
        lines += [
            "",
            "## The unchanged pycocotools script",
            "",
            "`COCO(file)`, `loadRes(file)`, `COCOeval`, `evaluate`, `accumulate`, `summarize`, with each package's "
            "drop-in ([boxscore's](pycocotools.md)), from files to `stats`, which are equal to the bit, except those "
            "of faster-coco-eval. The minimum of all rounds; imports are listed separately.",
            "",
            "| workload | tool | seconds | boxscore is faster | CPU seconds | CPU seconds of imports |",
            "|---|---|---|---|---|---|",
        ]
        for row in report["script"]:
            faster = "" if row["tool"] == "boxscore" else f"{row['ratio']:.1f}x"
            seconds, *cpu = (f"{row[key]:.3f}" for key in ("seconds", "cpu_seconds", "import_cpu_seconds"))
            lines.append("| " + " | ".join([row["workload"], row["tool"], seconds, faster, *cpu]) + " |")
    if report["masks"]:
        lines += masks.markdown(report["masks"])
    if report["keypoints"]:
        lines += keypoints.markdown(report["keypoints"])
    if report["oriented"]:
        lines += oriented.markdown(report["oriented"])
    if report["federated"]:
        lines += federated.markdown(report["federated"])
    if report["folders"]:
        lines += [
            "",
            "## Folders of 4,952 annotations",
            "",
            "VOC 2007's, and the same as YOLO labels with their images; without imports.",
            "",
            "| folder | tool | seconds | boxscore is faster |",
            "|---|---|---|---|",
        ]
        for row in report["folders"]:
            faster = f"{row['ratio']:.1f}x" if row["ratio"] != 1 else ""
            lines.append(f"| {row['kind']} | {row['tool']} | {row['seconds']:.3f} | {faster} |")
    if report["voc"]:
        lines += [
            "",
            "## VOC 2007, 87,765 real detections",
            "",
            "| engine | seconds | native is faster |",
            "|---|---|---|",
        ]
        lines += [f"| {r['engine']} | {r['seconds']:.4f} | {r['ratio']:.0f}x |" for r in report["voc"]]
    if report["bootstrap"]:
        lines += [
            "",
            "## Bootstrap of 500,000 detections",
            "",
            "COCO-val-like data, 5,000 images; the second model has nine of ten detections. Every number of COCO, and "
            "AP and AR of each class, after matching. `compare` of both, without the time that it takes for no "
            "resamples.",
            "",
            "| tool | models | resamples | milliseconds per resample | boxscore is faster |",
            "|---|---|---|---|---|",
        ]
        for row in report["bootstrap"]:
            faster = f"{row['ratio']:.0f}x" if row["ratio"] > 1 else ""
            cells = [row["tool"], row["models"], f"{row['resamples']:,}", f"{row['milliseconds']:.1f}", faster]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    if report["growth"]:
        header = "| detections | ns per detection | bytes per detection in a Tally | peak bytes beyond the inputs |"
        lines += ["", "## As data grows, 2 threads", "", header, "|---|---|---|---|"]
        lines += [
            f"| {r['detections']:,} | {r['nanoseconds']:.0f} | {r['tally_bytes']:.1f} | {r['peak_bytes']:.0f} |"
            for r in report["growth"]
        ]
    if report["scale"]:
        lines += ["", "## A stream, matched batch by batch, 2 threads", "", scale.table(report["scale"])]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, write `build/bench/report.json` and `docs/benchmarks.md`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(SECTIONS))
    options = parser.parse_args()
    chosen = options.only.split(",")
    cores = len(os.sched_getaffinity(0))
    coco: list[dict[str, Any]] = []
    for workload in WORKLOADS:
        if workload not in chosen or not is_present(workload):
            continue
        is_main = workload == "coco-val-like"
        names: tuple[str, ...] = (*FAST, *SLOW[:2]) if is_main and "slow" in chosen else FAST
        names = tuple(name for name in names if (workload, name) not in LEFT_OUT)
        coco += measure("CONTESTANTS", workload, names, threads=cores, rounds=options.rounds)
        if is_main:
            coco += measure("CONTESTANTS", workload, FAST, threads=1, rounds=options.rounds)
    if "stream" in chosen:
        coco += measure("STREAMS", "coco-val-like", tuple(contestants.STREAMS), threads=cores, rounds=options.rounds)
    has_voc = "voc2007" in chosen and (SHARED / "voc2007").exists()
    everyone = [*contestants.CONTESTANTS.values(), *contestants.STREAMS.values()]
    packages = ["boxscore", "numpy", *sorted({c.package for c in everyone} - {"boxscore"})]
    measured: dict[str, Any] = {
        "rounds": options.rounds,
        "machine": f"{cores} cores, {platform.machine()}, Python {platform.python_version()}",
        "versions": {name: version(name) for name in packages},
        "coco": coco,
        "stream": worker("benchmarks.stream", str(FOLDER / "coco-val-like")) if "stream" in chosen else None,
        "files": whole_processes(options.rounds, cores) if "files" in chosen else None,
        "script": unchanged_scripts(SCRIPTED, options.rounds, is_with_slow="slow" in chosen)
        if "script" in chosen
        else None,
        "masks": masks.measure(worker, say, options.rounds) if "masks" in chosen else None,
        "keypoints": keypoints.measure(worker, say, options.rounds) if "keypoints" in chosen else None,
        "oriented": oriented.measure(worker, say, options.rounds) if "oriented" in chosen else None,
        "federated": federated.measure(worker, say, options.rounds) if "federated" in chosen else None,
        "folders": folders(options.rounds) if "folders" in chosen else None,
        "voc": voc2007(options.rounds) if has_voc else None,
        "bootstrap": resampling(options.rounds, cores) if "bootstrap" in chosen else None,
        "growth": growth() if "growth" in chosen else None,
        "scale": scale.run() if "scale" in chosen else None,
    }
    report = updated(FOLDER / "report.json", measured)
    (FOLDER / "report.json").write_text(json.dumps(report, indent=1))
    document = markdown(report)
    (Path(__file__).parents[1] / "docs" / "benchmarks.md").write_text(document)
    print(document)


if __name__ == "__main__":
    main()
