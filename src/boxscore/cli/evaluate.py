"""`boxscore eval GT DT …`: tables of the numbers, analyses, and output files."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads
from boxscore.cli import arguments
from boxscore.cli.input_files import Model, hint_if_swapped, models_of
from boxscore.cli.outputs import as_json, check_outputs, deliver, folder_of, title_of
from boxscore.cli.picture_options import add_pictures, picture_settings
from boxscore.cli.result_warnings import left_out, warn_if_suspicious, warn_of_ids, warn_of_masks
from boxscore.cli.terminal import Outcome, Progress, styled
from boxscore.cli.truth_requirements import ready_truths
from boxscore.engines.native.direct import summarize_files
from boxscore.model.measures import meanings
from boxscore.model.protocol import Protocol
from boxscore.model.summary import ClassPoint, Summary, has_ap_50

if TYPE_CHECKING:
    from boxscore.analysis.bootstrap import Intervals
    from boxscore.model.dataset import Detections, Truths
    from boxscore.model.result import Result
    from boxscore.report.gallery import Gallery

_EXAMPLES = """\
examples:
  boxscore eval instances_val2017.json detections.json
  boxscore eval truths.json a.json b.json c.json --per-class   # one table, one column per file
  boxscore eval instances_val2017.json detections.json --iou-type bbox,segm   # boxes, then masks
  boxscore eval VOC2007/ results/ --protocol voc2007 --images test
  boxscore eval labels/ predictions/ --sizes images/ --names data.yaml --iou 0.5
  boxscore eval truths.json detections.json --bootstrap 1000   # with 95 % confidence intervals
  boxscore eval truths.json detections.json --slice weather.csv
  boxscore eval truths.json detections.json --errors --operating-point precision=0.9 --plots charts/
  boxscore eval truths.json detections.json --html report.html
  boxscore eval truths.json detections.json --html report.html --image-folder val2017/   # with the worst images
  boxscore eval truths.json small=a.json large=b.json --latex table.tex --title 'Two sizes' --html report.html
  boxscore eval truths.json detections.json --json - | jq .map
  boxscore eval truths.parquet 'detections/*.parquet' --memory 2GB   # larger than memory
  boxscore eval s3://bucket/truths s3://bucket/detections --engine ray --address head:6379"""


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "eval",
        usage="%(prog)s GT DT [DT ...] [options]",
        help="compute mAP and other numbers of detections",
        description="Compute mean average precision and other numbers of detections.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_files(parser)
    arguments.add_protocol(parser, has_several=True)
    arguments.add_formats(parser)
    arguments.add_selection(parser)
    group = parser.add_argument_group("analysis")
    group.add_argument("--per-class", action="store_true", help="also print a table of classes")
    group.add_argument(
        "--errors", action="store_true", help="print TIDE's types of errors, and what fixing each would add to AP"
    )
    group.add_argument(
        "--operating-point",
        type=arguments.aim,
        metavar="AIM",
        help="print score thresholds: f1 (best F1), precision=P (lowest with at least P) or recall=R (highest with R)",
    )
    group.add_argument("--confusion", action="store_true", help="print the confusion matrix")
    group.add_argument("--calibration", action="store_true", help="print the calibration of scores")
    group.add_argument(
        "--worst-images",
        type=arguments.positive,
        metavar="N",
        help="print the N images with the most false positives and truths not found",
    )
    group.add_argument("--plots", metavar="DIR", help="save every chart in DIR as PNG and PDF (needs boxscore[plots])")
    group = parser.add_argument_group("output")
    arguments.add_documents(group, "number")
    group.add_argument(
        "--save",
        metavar="FILE",
        help="save the result, such as runs/a/epoch_3.boxscore, for `boxscore serve` and `boxscore.load_result`; of one"
        " file of detections",
    )
    add_pictures(parser)
    arguments.add_confidence(parser)
    arguments.add_slices(parser)
    arguments.add_engine(parser, has_ray=True)
    parser.set_defaults(run=run, files="detections")


class Part(NamedTuple):
    """The result of one file of detections, or of one group of its images."""

    model: Model
    group: str | None
    summary: Summary
    num_images: int = 0
    """Images of the group, or all images; 0 where they were not counted."""
    result: "Result | None" = None
    """The result behind the summary; None if it was computed by the fast path."""
    intervals: "Intervals | None" = None
    analyses: Mapping[str, Any] = {}
    """Requested analyses, by their key in JSON."""

    @property
    def iou_type(self) -> str:
        """The similarity that was evaluated."""
        return self.summary.protocol.iou_type


def run(options: argparse.Namespace) -> Outcome:
    """The tables, and the requested files."""
    arguments.check_title(options)
    models = models_of(options, options.detections)
    options.detections = [model.path for model in models]
    check_outputs(options)
    pictures = picture_settings(options)
    protocols = arguments.protocols_of(options)
    if options.save is not None:
        _check_save(options, len(protocols))
    if options.plots is not None:
        from boxscore.report.plots import check_matplotlib

        check_matplotlib()
    if options.html is not None:
        from boxscore.report.charts import check_vl_convert

        check_vl_convert()
    gallery = None
    if options.image_folder is not None:
        from boxscore.report.gallery import Gallery

        gallery = Gallery.of(**pictures)
    try:
        parts = _parts(options, models, protocols)
    except InputError as error:
        if options.engine == "ray" or options.memory is not None:
            raise  # data that does not fit in memory is not read again for a hint
        raise InputError(f"{error}{hint_if_swapped(options.truths, options.detections)}") from None
    if options.plots is not None:
        _save_plots(options, parts)
    written = [] if options.plots is None else [f"wrote charts to {options.plots}"]
    if options.save is not None:
        written.append(_save(options, parts[0]))
    documents = {
        "html": lambda: _report(options, parts, gallery),
        "csv": lambda: _table("csv", parts),
        "latex": lambda: _table("latex", parts),
        "markdown": lambda: _table("markdown", parts),
        "json": lambda: as_json(_plain(parts, options.min_score)),
    }
    return deliver(options, documents, lambda: _text(parts, is_per_class=options.per_class), notes=written)


def _parts(options: argparse.Namespace, models: Sequence[Model], protocols: Sequence[Protocol]) -> list[Part]:
    """The results, one per column of the tables: by the fast path for COCO files, else by the general path.

    Similarity by similarity, and in each model by model.
    """
    if options.address is not None and options.engine != "ray":
        options.command.error("argument --address: needs --engine ray")
    if options.engine == "ray" or options.memory is not None:
        from boxscore.cli.large_data import evaluate_large_data

        return [
            Part(model, None, evaluate_large_data(options, model.path, protocol))
            for protocol in protocols
            for model in models
        ]
    files = [Path(path) for path in options.detections]
    is_sliced = options.slice is not None or options.slice_by is not None
    is_whole = all(getattr(options, name) is None for name in _CHANGES_INPUT)
    is_coco = all(name in (None, "coco") for name in (options.gt_format, options.dt_format)) and all(
        path.suffix.lower() == ".json" for path in (Path(options.truths), *files)
    )
    is_plain = not any(getattr(options, name) not in (None, False, 0) for name in _NEEDS_RESULT) and not is_sliced
    if is_plain and is_whole and is_coco and options.engine in ("auto", "native"):
        summaries = summarize_files(Path(options.truths), files, protocols, num_threads(options.threads))
        if summaries is not None:
            of_models = (zip(models, each, strict=True) for each in summaries)
            return [Part(model, None, summary) for each in of_models for model, summary in each]
    parts: list[list[Part]] = [[] for _ in protocols]
    for model, (path, results) in zip(models, evaluate_files(options, options.detections, protocols), strict=True):
        for of_type, result in zip(parts, results, strict=True):
            of_type.append(_part(model, None, result, options))
            if is_sliced:
                from boxscore.analysis.slices import slices

                groups = slices(result, _groups(options, path, result), threads=options.threads)
                of_type += [_part(model, group, part, options) for group, part in groups.items()]
    return [part for of_type in parts for part in of_type]


_CHANGES_INPUT = (
    *("classes", "images", "box_format", "sizes", "names", "min_score", "map_classes"),
    *("image_labels", "hierarchy"),
)
"""Options that the fast path does not support."""
_NEEDS_RESULT = (
    *("bootstrap", "html", "plots", "save", "errors", "operating_point", "confusion", "calibration", "worst_images"),
)
"""Options that need more than a summary."""


def evaluate_files(
    options: argparse.Namespace, paths: Sequence[str], protocols: Sequence[Protocol]
) -> Iterator[tuple[str, "list[Result]"]]:
    """The path of each file of detections, with its result under each protocol; these differ in `iou_type` alone."""
    from boxscore.pipeline import evaluate

    scores: list[tuple[str, float]] = []
    with Progress(1 + 2 * len(paths), is_quiet=options.quiet) as progress:
        for path, detections, truths in read_files(options, paths, protocols, progress):
            progress.step(f"evaluating {path}")
            results = [
                evaluate(detections, truths, protocol, options.engine, threads=options.threads)
                for protocol in protocols
            ]
            warn_if_suspicious(options, path, results[0])
            scores.append((path, results[0]["map"]))
            yield path, results
    warn_of_ids(options, protocols[0], scores)


def read_files(
    options: argparse.Namespace,
    paths: Sequence[str],
    protocols: Sequence[Protocol],
    progress: Progress,
    *,
    keep_labels: bool = False,
) -> Iterator[tuple[str, "Detections", "Truths"]]:
    """The path of each file of detections, with its detections and the truths, as the options select them.

    `keep_labels`: detections of classes that the truths do not have stay, if the file has labels and no names.
    """
    from boxscore.formats import read_detections_and_report, read_truths, selected_images

    # An image set is looked up beside the ground truth, wherever the detections are.
    selection = {"images": selected_images(options.images, options.truths), "classes": options.classes}
    details = {name: getattr(options, name) for name in ("box_format", "sizes", "names", "hierarchy", "threads")}
    details["iou_type"] = tuple(protocol.iou_type for protocol in protocols)
    progress.step(f"reading {options.truths}")
    labels = options.image_labels
    truths = read_truths(options.truths, format=options.gt_format, image_labels=labels, **selection, **details)
    truths = ready_truths(truths, options, protocols[0], paths)
    for path in paths:
        progress.step(f"reading {path}")
        detections, report = read_detections_and_report(
            path,
            truths,
            format=options.dt_format,
            unmatched=options.unmatched,
            map_classes=options.map_classes,
            score_key=protocols[0].keypoints.score_key,
            keep_labels=keep_labels,
            **selection,
            **details,
        )
        warn_of_masks(options, path, detections)
        subset = [left_out(report.num_unmatched, report.num_rows)] if report.num_unmatched else []
        yield path, detections, replace(truths, subset=(*truths.subset, *subset))


def _part(model: Model, group: str | None, result: "Result", options: argparse.Namespace) -> Part:
    """The result with the requested analyses. An HTML report has confidence intervals by default, the table has not."""
    summary, intervals = result.summary, None
    resamples = options.bootstrap
    if resamples is None and options.html is not None:
        from boxscore.report.contents import default_resamples

        resamples = default_resamples(result)
    if resamples:
        plan = {"resamples": resamples, "seed": options.seed, "level": options.level}
        intervals = result.intervals(**plan, threads=options.threads)
    if intervals is not None and options.bootstrap is not None:
        summary = replace(summary, confidence=intervals.confidence)
    analyses: dict[str, Any] = {}
    if options.errors:
        analyses["errors"] = result.errors(threads=options.threads)
    if options.operating_point is not None:
        analyses["operating_points"] = points = result.operating_points(**options.operating_point)
        columns = (column.tolist()[1:] for column in (points.score, points.precision, points.recall))
        summary = replace(summary, points=[ClassPoint(*row) for row in zip(*columns, strict=True)])
    if options.confusion:
        analyses["confusion"] = result.confusion(threads=options.threads)
    if options.calibration:
        analyses["calibration"] = result.calibration()
    if options.worst_images is not None:
        analyses["worst_images"] = result.worst_images(num=options.worst_images)
    return Part(model, group, summary, result.images.size, result, intervals, analyses)


def _check_save(options: argparse.Namespace, num_protocols: int) -> None:
    """A usage error unless there is one result, with all of its verdicts."""
    if len(options.detections) * num_protocols > 1:
        options.command.error("argument --save: needs one file of detections and one similarity")
    if options.engine == "ray" or options.memory is not None:
        options.command.error("argument --save: does not work with --memory and --engine ray, which keep no verdicts")


def _save(options: argparse.Namespace, part: Part) -> str:
    """Save the result of all images; what was written."""
    assert part.result is not None
    part.result.save(options.save, name=part.model.name if part.model.is_named else None)
    return f"wrote {options.save}"


def _save_plots(options: argparse.Namespace, parts: Sequence[Part]) -> None:
    """Every chart; of several parts, in one folder per part, and charts of all parts beside the folders."""
    for name, part in zip(_names(parts), parts, strict=True):
        if part.result is not None:
            part.result.save_plots(folder_of(options.plots, name) if len(parts) > 1 else options.plots)
    named = {name: part.result for name, part in zip(_names(parts), parts, strict=True) if part.result is not None}
    if len(named) > 1:
        from boxscore.report import plots

        plots.save(plots.draw_models(named), options.plots)


def _report(options: argparse.Namespace, parts: Sequence[Part], gallery: "Gallery | None") -> str:
    """The HTML report on all parts."""
    from boxscore.report.html import make_report

    named = dict(zip(_names(parts), parts, strict=True))
    return make_report(
        {name: part.result for name, part in named.items() if part.result is not None},
        title=options.title or title_of(list(dict.fromkeys(part.model.name for part in parts)), options.truths),
        made_from={"ground truth": options.truths, "detections": ", ".join(options.detections)},
        intervals={name: part.intervals for name, part in named.items() if part.intervals is not None},
        gallery=gallery,
    )


def _table(kind: str, parts: Sequence[Part]) -> str:
    """The numbers as a table in a file."""
    from boxscore.report.exports import to_csv, to_latex, to_markdown

    if kind == "csv":
        return to_csv(*_columns(parts, is_always_named=True))
    return f"{(to_latex if kind == 'latex' else to_markdown)(*_columns(parts))}\n"


def _groups(options: argparse.Namespace, detections: str, result: "Result") -> dict[int, str]:
    """The group of each image: from `--slice`, else from a column of the ground truth, else of the detections."""
    from boxscore.formats.groups import read_groups

    assert result.inputs is not None
    truths, column = result.inputs.truths, options.slice_by
    if options.slice is not None:
        return read_groups(options.slice, truths, column=column)
    try:
        return read_groups(options.truths, truths, column=column)
    except InputError as error:
        try:
            return read_groups(detections, truths, column=column)
        except InputError:
            raise error from None


def _text(parts: Sequence[Part], *, is_per_class: bool) -> str:
    """The tables, similarity by similarity, then the requested analyses."""
    tables = [_tables(of_type, is_per_class=is_per_class) for of_type in _by_iou_type(parts).values()]
    for name, part in zip(_names(parts), parts, strict=True):
        heading = f"{styled(text.line(name), 'bold', sys.stdout)}: " if len(parts) > 1 else ""
        tables += [f"{heading}{analysis}" for analysis in part.analyses.values()]
    return "\n\n".join(tables)


def _by_iou_type(parts: Sequence[Part]) -> dict[str, list[Part]]:
    """The parts of each similarity."""
    return {
        each: [part for part in parts if part.iou_type == each] for each in dict.fromkeys(p.iou_type for p in parts)
    }


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
            name,
            *(_cell(part.summary, name) for part in parts),
            *meaning,
        ]
        for name, meaning in meanings(first.protocol)
    ]
    if any(part.group is not None for part in parts):
        rows.append(["images", *(f"{part.num_images:,}" for part in parts), *[""] * 4])
        nums = (sum(row.num_truths for row in part.summary.per_class) for part in parts)
        rows.append(["truths", *(f"{num:,}" for num in nums), *[""] * 4])
    align = "<" + ">" * len(parts)
    numbers = text.table(
        rows,
        align=f"{align}<<<<",
        header=[first.protocol.title, *names, "", first.protocol.similarity, "area", "limit"],
    )
    tables = [numbers] if first.confidence is None else [first.confidence.title, numbers]
    tables.append(_comparable(parts, names))
    if is_per_class:
        classes = [
            [row.name, *(_class_cell(part.summary, k) for part in parts)] for k, row in enumerate(first.per_class)
        ]
        tables.append(text.table(classes, align=align, header=["AP by class", *names]))
        if has_ap_50(first.protocol.thresholds):
            halves = [
                [row.name, *(text.fraction(part.summary.per_class[k].ap_50) for part in parts)]
                for k, row in enumerate(first.per_class)
            ]
            tables.append(text.table(halves, align=align, header=["AP50 by class", *names]))
    return "\n\n".join(tables)


def _cell(summary: Summary, name: str) -> str:
    value, confidence = text.fraction(summary.numbers[name]), summary.confidence
    return value if confidence is None else f"{value} {confidence.numbers[name]}"


def _class_cell(summary: Summary, k: int) -> str:
    value, confidence = text.fraction(summary.per_class[k].ap), summary.confidence
    return value if confidence is None else f"{value} {confidence.ap[k]}"


def _names(parts: Sequence[Part]) -> list[str]:
    """The name of each part: the file; of several parts the file, the group, the similarity, or several of these."""
    of_types = _by_iou_type(parts)
    names = [[each[0].model.name] if len(each) == 1 else _heads(each) for each in of_types.values()]
    if len(of_types) == 1:
        return names[0]
    return [
        iou_type if len(of_type) == 1 else f"{name} {iou_type}"
        for iou_type, of_type in zip(of_types, names, strict=True)
        for name in of_type
    ]


def _comparable(parts: Sequence[Part], names: Sequence[str]) -> str:
    """Whether the numbers of each file may be compared with published ones: once where it is the same for all.

    Those of a group of images never may.
    """
    pairs = zip(names, parts, strict=True)
    sentences = {name: part.summary.comparable.sentence for name, part in pairs if part.group is None}
    if len(set(sentences.values())) == 1:
        return next(iter(sentences.values()))
    return "\n".join(f"{text.line(name)}: {sentence}" for name, sentence in sentences.items())


def _heads(parts: Sequence[Part]) -> list[str]:
    """The name of each column: the file, the group, or both."""
    if sum(part.group is None for part in parts) > 1:
        return [part.model.name if part.group is None else f"{part.model.name}: {part.group}" for part in parts]
    everything = "all images" if any(part.group == "all" for part in parts) else "all"
    return [everything if part.group is None else part.group for part in parts]


def _plain(parts: Sequence[Part], min_score: float | None) -> Any:
    """`Result.to_dict()`, with the groups under `slices`; for several files a list of these; for several similarities
    one of these under the name of each.
    """
    of_types = _by_iou_type(parts)
    if len(of_types) > 1:
        return {iou_type: _plain(of_type, min_score) for iou_type, of_type in of_types.items()}
    selection = {} if min_score is None else {"min_score": min_score}
    documents: list[dict[str, Any]] = []
    for part in parts:
        if part.group is None:
            named = {"name": part.model.name} if part.model.is_named else {}
            documents.append({"detections": part.model.path, **named, **_document(part), **selection})
        else:
            plain = {"num_images": part.num_images, **_document(part)}
            documents[-1].setdefault("slices", {})[part.group] = plain
    if len(documents) > 1:
        return documents
    return {key: value for key, value in documents[0].items() if key != "detections"}


def _document(part: Part) -> dict[str, Any]:
    return part.summary.to_dict() | {name: analysis.to_dict() for name, analysis in part.analyses.items()}


def _columns(
    parts: Sequence[Part], *, is_always_named: bool = False
) -> tuple[list[Summary], list[str] | None, list[str] | None]:
    """The summaries, with columns for models and groups where there are several, or where the only model has a name."""
    groups = [part.group or "" for part in parts]
    is_named = is_always_named or any(part.model.is_named for part in parts) or groups.count("") > 1
    has_several = len(_by_iou_type(parts)) > 1
    heads = [f"{part.model.name} {part.iou_type}" if has_several else part.model.name for part in parts]
    names = heads if is_named else None
    return [part.summary for part in parts], names, groups if any(groups) else None
