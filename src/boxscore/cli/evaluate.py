"""`boxscore eval GT DT …`: the table."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from boxscore import text
from boxscore.cli import arguments
from boxscore.cli.terminal import Outcome, Progress, styled
from boxscore.direct import summarize_files
from boxscore.exports import to_csv, write_file
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
  boxscore eval truths.json detections.json --errors --operating-point precision=0.9 --plots charts/
  boxscore eval truths.json detections.json --json - | jq .map"""


class Evaluated(NamedTuple):
    """What one file of detections came to."""

    summary: Summary
    result: "Result | None" = None
    """All that is behind it; none where the short way was taken."""
    analyses: Mapping[str, Any] = {}
    """What was asked for beyond the numbers, by its name in JSON."""


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
    group.add_argument(
        "--errors", action="store_true", help="print why: TIDE's types of errors, and what fixing each would add to AP"
    )
    group.add_argument(
        "--operating-point",
        type=arguments.aim,
        metavar="AIM",
        help="print score thresholds: f1 (the best), precision=P (the lowest with it) or recall=R (the highest)",
    )
    group.add_argument("--plots", metavar="DIR", help="draw every chart there as PNG and PDF (needs boxscore[plots])")
    group.add_argument("--json", metavar="FILE", help="write all of it as JSON; `-`: to stdout, instead of the table")
    group.add_argument("--csv", metavar="FILE", help="write numbers and classes as CSV, one number a line")
    group.add_argument("--quiet", action="store_true", help="print no table and no warnings")
    arguments.add_engine(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> Outcome:
    """The table, and the files that were asked for."""
    protocol = arguments.protocol_of(options)
    if options.plots is not None:
        from boxscore.report import plots

        plots.check_matplotlib()
    evaluated = _evaluate(options, protocol)
    summaries = [each.summary for each in evaluated]
    names = _short(options.detections)
    if options.plots is not None:
        for name, each in zip(names, evaluated, strict=True):
            if each.result is not None:
                each.result.save_plots(_folder(options.plots, name) if len(names) > 1 else options.plots)
    if options.csv is not None:
        write_file(Path(options.csv), to_csv(summaries, names))
    document = None if options.json is None else json.dumps(_plain(options.detections, evaluated), indent=1)
    if options.json == "-":
        return Outcome(str(document))
    if document is not None:
        write_file(Path(options.json), f"{document}\n")
    if options.quiet:
        return Outcome("")
    tables = [_tables(names, summaries, is_per_class=options.per_class)]
    for name, each in zip(names, evaluated, strict=True):
        heading = f"{styled(name, 'bold', sys.stdout)}: " if len(names) > 1 else ""
        tables += [f"{heading}{analysis}" for analysis in each.analyses.values()]
    return Outcome("\n\n".join(tables))


def _evaluate(options: argparse.Namespace, protocol: Protocol) -> list[Evaluated]:
    """What each file of detections comes to: by the short way for COCO files, else through columns."""
    files = [Path(path) for path in options.detections]
    is_whole = all(getattr(options, name) is None for name in ("classes", "images", "box_format", "sizes", "names"))
    is_coco = all(name in (None, "coco") for name in (options.gt_format, options.dt_format)) and all(
        path.suffix.lower() == ".json" for path in (Path(options.truths), *files)
    )
    is_plain = not options.errors and options.operating_point is None and options.plots is None
    if is_whole and is_coco and is_plain and options.engine in ("auto", "native"):
        summaries = summarize_files(Path(options.truths), files, protocol, num_threads(options.threads))
        if summaries is not None:
            return [Evaluated(summary) for summary in summaries]
    from boxscore.formats import read_detections, read_truths
    from boxscore.pipeline import evaluate

    selection = {"images": options.images, "classes": options.classes}
    details = {"box_format": options.box_format, "sizes": options.sizes, "names": options.names}
    evaluated = []
    with Progress(1 + 2 * len(files), is_quiet=options.quiet) as progress:
        progress.step(f"reading {options.truths}")
        truths = read_truths(options.truths, format=options.gt_format, **selection, **details)
        for file in files:
            progress.step(f"reading {file}")
            detections = read_detections(
                file, truths, format=options.dt_format, unmatched=options.unmatched, **selection, **details
            )
            progress.step(f"evaluating {file}")
            result = evaluate(detections, truths, protocol, options.engine, threads=options.threads)
            evaluated.append(Evaluated(result.summary, result, dict(_analyses(options, result))))
    return evaluated


def _analyses(options: argparse.Namespace, result: "Result") -> Iterator[tuple[str, Any]]:
    if options.errors:
        yield "errors", result.errors(threads=options.threads)
    if options.operating_point is not None:
        yield "operating_points", result.operating_points(**options.operating_point)


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


def _plain(paths: Sequence[str], evaluated: Sequence[Evaluated]) -> Any:
    """What `Result.to_dict()` gives, and the analyses; for several files a list of those, each with the file's name."""
    documents = [
        each.summary.to_dict() | {name: analysis.to_dict() for name, analysis in each.analyses.items()}
        for each in evaluated
    ]
    if len(documents) == 1:
        return documents[0]
    return [{"detections": path, **document} for path, document in zip(paths, documents, strict=True)]


def _folder(root: str, name: str) -> Path:
    """A folder of its own for each name, right below the root, whatever path the name is.

    >>> _folder("charts", "../a/boxes.json").as_posix()
    'charts/.._a_boxes.json'
    """
    return Path(root, name.replace("/", "_").replace("\\", "_"))


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
