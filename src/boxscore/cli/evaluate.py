"""`boxscore eval GT DT …`: the table."""

import argparse
import csv
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boxscore import text
from boxscore.cli import arguments
from boxscore.cli.terminal import Outcome, Progress, styled
from boxscore.direct import summarize_files
from boxscore.errors import InputError
from boxscore.measures import measures
from boxscore.protocol import Protocol
from boxscore.summary import Summary, class_table
from boxscore.threads import num_threads

if TYPE_CHECKING:
    from boxscore.result import Result

_EXAMPLES = """\
examples:
  boxscore eval instances_val2017.json detections.json
  boxscore eval truths.json a.json b.json c.json --per-class   one table, a column each
  boxscore eval VOC2007/ results/ --protocol voc2007 --images test
  boxscore eval labels/ predictions/ --sizes images/ --names data.yaml --iou 0.5
  boxscore eval truths.json detections.json --json - | jq .map
  boxscore eval truths.parquet 'found/*.parquet' --memory 2GB   larger than memory
  boxscore eval s3://bucket/truths s3://bucket/found --engine ray --address head:6379"""


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "eval",
        help="print how well detections find the ground truth",
        description="Print how well detections find the ground truth.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_files(parser)
    arguments.add_protocol(parser)
    arguments.add_formats(parser)
    arguments.add_selection(parser)
    group = parser.add_argument_group("output")
    group.add_argument("--per-class", action="store_true", help="print a table of classes, too")
    group.add_argument("--json", metavar="FILE", help="write all of it as JSON; `-`: to stdout, instead of the table")
    group.add_argument("--csv", metavar="FILE", help="write numbers and classes as CSV, one number a line")
    group.add_argument("--quiet", action="store_true", help="print no table and no warnings")
    arguments.add_engine(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> Outcome:
    """The table, and the files that were asked for."""
    protocol = arguments.protocol_of(options)
    summaries = _summaries(options, protocol)
    names = _short(options.detections)
    if options.csv is not None:
        write_text(Path(options.csv), _csv(names, summaries))
    document = None if options.json is None else json.dumps(_plain(options.detections, summaries), indent=1)
    if options.json == "-":
        return Outcome(str(document))
    if document is not None:
        write_text(Path(options.json), f"{document}\n")
    return Outcome("" if options.quiet else _tables(names, summaries, is_per_class=options.per_class))


def _summaries(options: argparse.Namespace, protocol: Protocol) -> list[Summary]:
    """A summary for each file of detections: by the short way for COCO files, else through columns."""
    if options.address is not None and options.engine != "ray":
        options.parser.error("argument --address: is for --engine ray")
    if options.engine == "ray" or options.memory is not None:
        return [_beyond_memory(options, path, protocol).summary for path in options.detections]
    files = [Path(path) for path in options.detections]
    is_whole = all(getattr(options, name) is None for name in ("classes", "images", "box_format", "sizes", "names"))
    is_coco = all(name in (None, "coco") for name in (options.gt_format, options.dt_format)) and all(
        path.suffix.lower() == ".json" for path in (Path(options.truths), *files)
    )
    if is_whole and is_coco and options.engine in ("auto", "native"):
        summaries = summarize_files(Path(options.truths), files, protocol, num_threads(options.threads))
        if summaries is not None:
            return summaries
    from boxscore.formats import read_detections, read_truths
    from boxscore.pipeline import evaluate

    selection = {"images": options.images, "classes": options.classes}
    details = {"box_format": options.box_format, "sizes": options.sizes, "names": options.names}
    summaries = []
    with Progress(1 + 2 * len(files), is_quiet=options.quiet) as progress:
        progress.step(f"reading {options.truths}")
        truths = read_truths(options.truths, format=options.gt_format, **selection, **details)
        for file in files:
            progress.step(f"reading {file}")
            detections = read_detections(
                file, truths, format=options.dt_format, unmatched=options.unmatched, **selection, **details
            )
            progress.step(f"evaluating {file}")
            summaries.append(evaluate(detections, truths, protocol, options.engine, threads=options.threads).summary)
    return summaries


def _beyond_memory(options: argparse.Namespace, detections: str, protocol: Protocol) -> "Result":
    """The result of one file, folder or pattern of detections, on Ray, or within a limit of memory."""
    way = "--engine ray" if options.engine == "ray" else "--memory"
    for name in ("gt_format", "dt_format", "sizes", "names", "classes", "images"):
        if getattr(options, name) is not None:
            options.parser.error(f"argument --{name.replace('_', '-')}: not with {way}")
    if options.engine == "ray":
        from boxscore import ray

        limit = {} if options.memory is None else {"memory": options.memory}
        ray.connect(options.address)
        return ray.evaluate_files(
            options.truths, detections, protocol, box_format=options.box_format, quiet=options.quiet, **limit
        )
    if options.engine not in ("auto", "native"):
        options.parser.error(f"argument --engine: {options.engine} has no limit of memory")
    from boxscore.outofcore import evaluate_files

    with Progress(5, is_quiet=options.quiet) as progress:
        return evaluate_files(
            options.truths,
            detections,
            protocol,
            memory=options.memory,
            box_format=options.box_format,
            unmatched=options.unmatched,
            threads=options.threads,
            step=progress.step,
        )


def _tables(names: Sequence[str], summaries: Sequence[Summary], *, is_per_class: bool) -> str:
    if len(summaries) == 1:
        title, _, rest = str(summaries[0]).partition("\n")
        tables = [f"{styled(title, 'bold', sys.stdout)}\n{rest}"]
        if is_per_class:
            tables.append(class_table(summaries[0].per_class, summaries[0].protocol.thresholds))
        return "\n\n".join(tables)
    first = summaries[0]
    rows = [
        [
            measure.name,
            *(text.fraction(summary.numbers[measure.name]) for summary in summaries),
            *measure.meaning(first.protocol),
        ]
        for measure in measures(first.protocol)
    ]
    align = "<" + ">" * len(summaries)
    numbers = text.table(rows, align=f"{align}<<<<", header=[first.protocol.title, *names, "", "IoU", "area", "limit"])
    if not is_per_class:
        return numbers
    classes = [
        [row.name, *(text.fraction(summary.per_class[k].ap) for summary in summaries)]
        for k, row in enumerate(first.per_class)
    ]
    return f"{numbers}\n\n{text.table(classes, align=align, header=['AP by class', *names])}"


def _plain(paths: Sequence[str], summaries: Sequence[Summary]) -> Any:
    """What `Result.to_dict()` gives; for several files a list of those, each with the file's name."""
    if len(summaries) == 1:
        return summaries[0].to_dict()
    return [{"detections": path, **summary.to_dict()} for path, summary in zip(paths, summaries, strict=True)]


def _csv(names: Sequence[str], summaries: Sequence[Summary]) -> str:
    """One number a line: which detections, which class (none: all), which number, its value (none: undefined)."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(["detections", "class", "number", "value"])
    for name, summary in zip(names, summaries, strict=True):
        whole = summary.to_dict()
        for number in summary.numbers:
            writer.writerow([name, "", number, whole[number]])
        for row in whole["per_class"]:
            for number in ("ap", "ar", "num_truths", "num_detections"):
                writer.writerow([name, row["name"], number, row[number]])
    return output.getvalue()


def _short(paths: Sequence[str]) -> list[str]:
    """Names for columns: the last part of each path, or as much more as tells them apart.

    >>> _short(["runs/a/boxes.json", "runs/b/boxes.json"])
    ['a/boxes.json', 'b/boxes.json']
    """
    parts = [Path(path).parts for path in paths]
    for num in range(1, max(map(len, parts)) + 1):
        names = [str(Path(*part[-num:])) for part in parts]
        if len(set(names)) == len(names):
            return names
    return list(paths)


def write_text(path: Path, content: str) -> None:
    """The file has the content, or, if anything fails, what it had before."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            temporary.write_text(content, encoding="utf-8")
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: can't be written: {error.strerror}") from None
