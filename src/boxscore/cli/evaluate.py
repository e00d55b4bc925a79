"""`boxscore eval GT DT …`: the table."""

import argparse
import csv
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boxscore import text
from boxscore.cli import arguments
from boxscore.cli.terminal import Outcome, Progress, styled
from boxscore.direct import summarize_files
from boxscore.measures import measures
from boxscore.protocol import Protocol
from boxscore.summary import Summary, class_table
from boxscore.threads import num_threads
from boxscore.writing import write_text

if TYPE_CHECKING:
    from boxscore.result import Result

_EXAMPLES = """\
examples:
  boxscore eval instances_val2017.json detections.json
  boxscore eval truths.json a.json b.json c.json --per-class   one table, a column each
  boxscore eval VOC2007/ results/ --protocol voc2007 --images test
  boxscore eval labels/ predictions/ --sizes images/ --names data.yaml --iou 0.5
  boxscore eval truths.json detections.json --json - | jq .map
  boxscore eval truths.json detections.json --html report.html"""


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
    group.add_argument("--html", metavar="FILE", help="write a report that explains the numbers: one HTML file")
    group.add_argument("--quiet", action="store_true", help="print no table and no warnings")
    arguments.add_engine(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> Outcome:
    """The table, and the files that were asked for."""
    protocol = arguments.protocol_of(options)
    names = _short(options.detections)
    summaries = None if options.html is not None else _direct(options, protocol)
    if summaries is None:
        results = _results(options, protocol)
        summaries = [result.summary for result in results]
        if options.html is not None:
            _write_report(options, dict(zip(names, results, strict=True)))
    if options.csv is not None:
        write_text(Path(options.csv), _csv(names, summaries))
    document = None if options.json is None else json.dumps(_plain(options.detections, summaries), indent=1)
    if options.json == "-":
        return Outcome(str(document))
    if document is not None:
        write_text(Path(options.json), f"{document}\n")
    return Outcome("" if options.quiet else _tables(names, summaries, is_per_class=options.per_class))


def _direct(options: argparse.Namespace, protocol: Protocol) -> list[Summary] | None:
    """A summary for each file of detections by the short way, for whole COCO files; None if columns are needed."""
    files = [Path(path) for path in options.detections]
    is_whole = all(getattr(options, name) is None for name in ("classes", "images", "box_format", "sizes", "names"))
    is_coco = all(name in (None, "coco") for name in (options.gt_format, options.dt_format)) and all(
        path.suffix.lower() == ".json" for path in (Path(options.truths), *files)
    )
    if not (is_whole and is_coco and options.engine in ("auto", "native")):
        return None
    return summarize_files(Path(options.truths), files, protocol, num_threads(options.threads))


def _results(options: argparse.Namespace, protocol: Protocol) -> "list[Result]":
    """A result for each file of detections, through columns."""
    from boxscore.formats import read_detections, read_truths
    from boxscore.pipeline import evaluate

    selection = {"images": options.images, "classes": options.classes}
    details = {"box_format": options.box_format, "sizes": options.sizes, "names": options.names}
    results = []
    with Progress(1 + 2 * len(options.detections), is_quiet=options.quiet) as progress:
        progress.step(f"reading {options.truths}")
        truths = read_truths(options.truths, format=options.gt_format, **selection, **details)
        for file in options.detections:
            progress.step(f"reading {file}")
            detections = read_detections(
                file, truths, format=options.dt_format, unmatched=options.unmatched, **selection, **details
            )
            progress.step(f"evaluating {file}")
            results.append(evaluate(detections, truths, protocol, options.engine, threads=options.threads))
    return results


def _write_report(options: argparse.Namespace, results: "dict[str, Result]") -> None:
    """The HTML report on all models."""
    from boxscore.report.html import make_report

    truths = Path(options.truths).name
    make_report(
        results,
        options.html,
        title=f"{', '.join(results)} on {truths}",
        made_from={"ground truth": options.truths, "detections": ", ".join(options.detections)},
        threads=options.threads,
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
