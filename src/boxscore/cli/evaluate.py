"""`boxscore eval GT DT …`: the table."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from boxscore import text
from boxscore.cli import arguments
from boxscore.cli.beyond_memory import evaluate_beyond_memory
from boxscore.cli.output import check_outputs, deliver, folder_of, short_names, title_of
from boxscore.cli.terminal import Outcome, Progress, styled
from boxscore.direct import summarize_files
from boxscore.errors import InputError
from boxscore.exports import to_csv
from boxscore.measures import measures
from boxscore.protocol import Protocol
from boxscore.summary import Summary
from boxscore.threads import num_threads

if TYPE_CHECKING:
    from boxscore.analysis.bootstrap import Intervals
    from boxscore.result import Result

_EXAMPLES = """\
examples:
  boxscore eval instances_val2017.json detections.json
  boxscore eval truths.json a.json b.json c.json --per-class   one table, a column each
  boxscore eval VOC2007/ results/ --protocol voc2007 --images test
  boxscore eval labels/ predictions/ --sizes images/ --names data.yaml --iou 0.5
  boxscore eval truths.json detections.json --bootstrap 1000   with 95 % intervals
  boxscore eval truths.json detections.json --slice weather.csv
  boxscore eval truths.json detections.json --errors --operating-point precision=0.9 --plots charts/
  boxscore eval truths.json detections.json --html report.html
  boxscore eval truths.json detections.json --json - | jq .map
  boxscore eval truths.parquet 'found/*.parquet' --memory 2GB   larger than memory
  boxscore eval s3://bucket/truths s3://bucket/found --engine ray --address head:6379"""


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "eval",
        usage="%(prog)s GT DT [DT ...] [options]",
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
    group.add_argument("--csv", metavar="FILE", help="the same of numbers and classes as CSV, one number a line")
    group.add_argument("--html", metavar="FILE", help="the same as a report for people (needs boxscore[report])")
    group.add_argument("--quiet", action="store_true", help="print no table and no warnings")
    arguments.add_confidence(parser)
    arguments.add_slices(parser)
    arguments.add_engine(parser, has_ray=True)
    parser.set_defaults(run=run, files="detections")


class Part(NamedTuple):
    """What was found in one file of detections, or in one group of images of it."""

    path: str
    name: str
    """As much of the path as tells it from others."""
    group: str | None
    summary: Summary
    num_images: int = 0
    """Images of the group, or of all; 0 where nobody asked."""
    result: "Result | None" = None
    """What the summary is of; none where it came by the short way."""
    intervals: "Intervals | None" = None
    analyses: Mapping[str, Any] = {}
    """What else was asked for, by its key in JSON."""


def run(options: argparse.Namespace) -> Outcome:
    """The table, and the files that were asked for."""
    check_outputs(options)
    protocol = arguments.protocol_of(options)
    if options.plots is not None:
        from boxscore.report.plots import check_matplotlib

        check_matplotlib()
    if options.html is not None:
        from boxscore.report.charts import check_vl_convert

        check_vl_convert()
    parts = _parts(options, protocol)
    if options.plots is not None:
        _save_plots(options, parts)
    documents = {
        "html": lambda: _report(options, parts),
        "csv": lambda: _csv(parts),
        "json": lambda: f"{json.dumps(_plain(parts), indent=1)}\n",
    }
    return deliver(options, documents, lambda: _everything(parts, is_per_class=options.per_class))


def _parts(options: argparse.Namespace, protocol: Protocol) -> list[Part]:
    """All that has a column: by the short way for COCO files, else through columns."""
    names = short_names(options.detections)
    if options.address is not None and options.engine != "ray":
        options.command.error("argument --address: is for --engine ray")
    if options.engine == "ray" or options.memory is not None:
        return [
            Part(path, name, None, evaluate_beyond_memory(options, path, protocol).summary)
            for path, name in zip(options.detections, names, strict=True)
        ]
    files = [Path(path) for path in options.detections]
    is_sliced = options.slice is not None or options.slice_by is not None
    is_whole = all(getattr(options, name) is None for name in ("classes", "images", "box_format", "sizes", "names"))
    is_coco = all(name in (None, "coco") for name in (options.gt_format, options.dt_format)) and all(
        path.suffix.lower() == ".json" for path in (Path(options.truths), *files)
    )
    wanted = (options.bootstrap, options.html, options.plots, options.operating_point)
    is_plain = all(each is None for each in wanted) and not options.errors and not is_sliced
    if is_plain and is_whole and is_coco and options.engine in ("auto", "native"):
        summaries = summarize_files(Path(options.truths), files, protocol, num_threads(options.threads))
        if summaries is not None:
            columns = zip(options.detections, names, summaries, strict=True)
            return [Part(path, name, None, summary) for path, name, summary in columns]
    parts = []
    for (path, result), name in zip(evaluate_files(options, options.detections, protocol), names, strict=True):
        parts.append(_part(path, name, None, result, options))
        if is_sliced:
            from boxscore.analysis.slices import slices

            groups = slices(result, _groups(options, path, result), threads=options.threads)
            parts += [_part(path, name, group, part, options) for group, part in groups.items()]
    return parts


def evaluate_files(
    options: argparse.Namespace, paths: Sequence[str], protocol: Protocol
) -> Iterator[tuple[str, "Result"]]:
    """Each file of detections, and its result."""
    from boxscore.formats import read_detections, read_truths
    from boxscore.pipeline import evaluate

    selection = {"images": options.images, "classes": options.classes}
    details = {"box_format": options.box_format, "sizes": options.sizes, "names": options.names}
    with Progress(1 + 2 * len(paths), is_quiet=options.quiet) as progress:
        progress.step(f"reading {options.truths}")
        truths = read_truths(options.truths, format=options.gt_format, **selection, **details)
        for path in paths:
            progress.step(f"reading {path}")
            detections = read_detections(
                path, truths, format=options.dt_format, unmatched=options.unmatched, **selection, **details
            )
            progress.step(f"evaluating {path}")
            yield path, evaluate(detections, truths, protocol, options.engine, threads=options.threads)


def _part(path: str, name: str, group: str | None, result: "Result", options: argparse.Namespace) -> Part:
    """The result with its intervals, where they are asked for; a report has them always, the table then not."""
    summary, sure = result.summary, None
    resamples = options.bootstrap
    if resamples is None and options.html is not None:
        from boxscore.report.contents import default_resamples

        resamples = default_resamples(result)
    if resamples:
        sure = result.intervals(resamples=resamples, seed=options.seed, level=options.level, threads=options.threads)
    if sure is not None and options.bootstrap is not None:
        summary = replace(summary, confidence=sure.confidence)
    analyses: dict[str, Any] = {}
    if options.errors:
        analyses["errors"] = result.errors(threads=options.threads)
    if options.operating_point is not None:
        analyses["operating_points"] = result.operating_points(**options.operating_point)
    return Part(path, name, group, summary, result.images.size, result, sure, analyses)


def _save_plots(options: argparse.Namespace, parts: Sequence[Part]) -> None:
    """Every chart, in a folder for each part where there are several, and beside the folders all in one chart."""
    for name, part in zip(_names(parts), parts, strict=True):
        if part.result is not None:
            part.result.save_plots(folder_of(options.plots, name) if len(parts) > 1 else options.plots)
    named = {name: part.result for name, part in zip(_names(parts), parts, strict=True) if part.result is not None}
    if len(named) > 1:
        from boxscore.report import plots

        plots.save(plots.draw_models(named), options.plots)


def _report(options: argparse.Namespace, parts: Sequence[Part]) -> str:
    """The HTML report on all that has a column."""
    from boxscore.report.html import make_report

    named = dict(zip(_names(parts), parts, strict=True))
    return make_report(
        {name: part.result for name, part in named.items() if part.result is not None},
        title=title_of([part.name for part in parts if part.group is None], options.truths),
        made_from={"ground truth": options.truths, "detections": ", ".join(options.detections)},
        intervals={name: part.intervals for name, part in named.items() if part.intervals is not None},
    )


def _groups(options: argparse.Namespace, detections: str, result: "Result") -> dict[int, str]:
    """The groups in the file that says so; else those of a column of the ground truth, or else of the detections."""
    from boxscore.formats import read_groups

    assert result.boxes is not None
    truths, column = result.boxes.truths, options.slice_by
    if options.slice is not None:
        return read_groups(options.slice, truths, column=column)
    try:
        return read_groups(options.truths, truths, column=column)
    except InputError as complaint:
        try:
            return read_groups(detections, truths, column=column)
        except InputError:
            raise complaint from None


def _everything(parts: Sequence[Part], *, is_per_class: bool) -> str:
    """The tables, and below them what else was asked for."""
    tables = [_tables(parts, is_per_class=is_per_class)]
    for name, part in zip(_names(parts), parts, strict=True):
        heading = f"{styled(name, 'bold', sys.stdout)}: " if len(parts) > 1 else ""
        tables += [f"{heading}{analysis}" for analysis in part.analyses.values()]
    return "\n\n".join(tables)


def _tables(parts: Sequence[Part], *, is_per_class: bool) -> str:
    if len(parts) == 1:
        summary = parts[0].summary
        title, _, rest = str(summary).partition("\n")
        tables = [f"{styled(title, 'bold', sys.stdout)}\n{rest}"]
        return "\n\n".join([*tables, summary.class_table] if is_per_class else tables)
    first = parts[0].summary
    names = _heads(parts)
    rows = [
        [
            measure.name,
            *(_cell(part.summary, measure.name) for part in parts),
            *measure.meaning(first.protocol),
        ]
        for measure in measures(first.protocol)
    ]
    if any(part.group is not None for part in parts):
        rows.append(["images", *(f"{part.num_images:,}" for part in parts), *[""] * 4])
        nums = (sum(row.num_truths for row in part.summary.per_class) for part in parts)
        rows.append(["truths", *(f"{num:,}" for num in nums), *[""] * 4])
    align = "<" + ">" * len(parts)
    numbers = text.table(rows, align=f"{align}<<<<", header=[first.protocol.title, *names, "", "IoU", "area", "limit"])
    tables = [numbers] if first.confidence is None else [first.confidence.title, numbers]
    if is_per_class:
        classes = [
            [row.name, *(_class_cell(part.summary, k) for part in parts)] for k, row in enumerate(first.per_class)
        ]
        tables.append(text.table(classes, align=align, header=["AP by class", *names]))
    return "\n\n".join(tables)


def _cell(summary: Summary, name: str) -> str:
    value, sure = text.fraction(summary.numbers[name]), summary.confidence
    return value if sure is None else f"{value} {sure.numbers[name]}"


def _class_cell(summary: Summary, k: int) -> str:
    value, sure = text.fraction(summary.per_class[k].ap), summary.confidence
    return value if sure is None else f"{value} {sure.ap[k]}"


def _names(parts: Sequence[Part]) -> list[str]:
    """What each part is called: the file, and of several the file, the group, or both."""
    return [parts[0].name] if len(parts) == 1 else _heads(parts)


def _heads(parts: Sequence[Part]) -> list[str]:
    """The name of each column: the file, the group, or both."""
    if sum(part.group is None for part in parts) > 1:
        return [part.name if part.group is None else f"{part.name}: {part.group}" for part in parts]
    everything = "all images" if any(part.group == "all" for part in parts) else "all"
    return [everything if part.group is None else part.group for part in parts]


def _plain(parts: Sequence[Part]) -> Any:
    """What `Result.to_dict()` gives, and that of each group under `slices`; for several files a list of those."""
    documents: list[dict[str, Any]] = []
    for part in parts:
        if part.group is None:
            documents.append({"detections": part.path, **_document(part)})
        else:
            plain = {"num_images": part.num_images, **_document(part)}
            documents[-1].setdefault("slices", {})[part.group] = plain
    if len(documents) > 1:
        return documents
    return {key: value for key, value in documents[0].items() if key != "detections"}


def _document(part: Part) -> dict[str, Any]:
    return part.summary.to_dict() | {name: analysis.to_dict() for name, analysis in part.analyses.items()}


def _csv(parts: Sequence[Part]) -> str:
    """The numbers of all parts; a column tells groups apart where there are any."""
    groups = [part.group or "" for part in parts]
    return to_csv([part.summary for part in parts], [part.name for part in parts], groups if any(groups) else None)
