"""`boxscore eval GT DT …`: tables of the numbers, analyses, and output files."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads
from boxscore.cli import arguments
from boxscore.cli.direct import summarize_files
from boxscore.cli.evaluation_tables import Part, exported_table, json_document, names_of, text_of
from boxscore.cli.input_files import Model, is_pipe, models_of, with_hint
from boxscore.cli.outputs import as_json, check_outputs, deliver, title_of
from boxscore.cli.parsing import HelpFormatter, changed_options
from boxscore.cli.picture_options import add_pictures, picture_settings
from boxscore.cli.result_warnings import warn_if_suspicious, warn_of_ids, warn_of_masks
from boxscore.cli.terminal import Outcome, Progress
from boxscore.protocol.protocol import Protocol
from boxscore.result.summary import ClassPoint, Summary

if TYPE_CHECKING:
    from boxscore.data.dataset import Detections, Truths
    from boxscore.report.gallery import Gallery
    from boxscore.result.result import Result

_EXAMPLES = """\
examples:
  boxscore eval instances_val2017.json detections.json
  boxscore eval truths.json a.json b.json c.json --per-class   # one table, one column per file
  boxscore eval instances_val2017.json detections.json --iou-type bbox,segm   # boxes, then masks
  boxscore eval VOC2007/ results/ --protocol voc2007 --only-images test
  boxscore eval labels/ predictions/ --sizes images/ --names data.yaml --iou 0.5
  boxscore eval truths.json detections.json --bootstrap 1000   # with 95 % confidence intervals
  boxscore eval truths.json detections.json --slice weather.csv
  boxscore eval truths.json detections.json --errors --operating-point precision=0.9 --plots charts/
  boxscore eval truths.json detections.json --html report.html
  boxscore eval truths.json detections.json --html report.html --images val2017/   # with the worst images
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
        formatter_class=HelpFormatter,
    )
    groups = arguments.add_groups(parser)
    arguments.add_truths(groups.files)
    groups.files.add_argument(
        "detections",
        metavar="DT",
        nargs="+",
        help="detections, in any supported format; one column per file; NAME=DT sets the column's name",
    )
    arguments.add_formats(groups.files)
    arguments.add_selection(groups.evaluated)
    arguments.add_slices(groups.evaluated)
    arguments.add_protocol(groups.rules, has_several=True)
    group = groups.analysis
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
    arguments.add_confidence(group)
    group = groups.output
    arguments.add_documents(group, "number")
    group.add_argument("--plots", metavar="DIR", help="save every chart in DIR as PNG and PDF (needs boxscore[plots])")
    group.add_argument(
        "--save",
        metavar="FILE",
        help="save the result, such as runs/a/epoch_3.boxscore, for `boxscore serve` and `boxscore.load_result`; of one"
        " file of detections",
    )
    add_pictures(groups.pictures)
    arguments.add_engine(groups.speed, has_ray=True)
    parser.set_defaults(run=run, files="detections")


def run(options: argparse.Namespace) -> Outcome:
    """Print the tables and write the requested files."""
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
            raise  # data larger than memory is not read again for a hint
        raise with_hint(error, options.truths, options.detections) from None
    if options.plots is not None:
        _save_plots(options, parts)
    written = [] if options.plots is None else [f"wrote charts to {options.plots}"]
    if options.save is not None:
        written.append(_save(options, parts[0]))
    documents = {
        "html": lambda: _report(options, parts, gallery),
        "csv": lambda: exported_table("csv", parts),
        "latex": lambda: exported_table("latex", parts),
        "markdown": lambda: exported_table("markdown", parts),
        "json": lambda: as_json(json_document(parts, options.min_score)),
    }
    return deliver(options, documents, lambda: text_of(parts, is_per_class=options.per_class), notes=written)


def _parts(options: argparse.Namespace, models: Sequence[Model], protocols: Sequence[Protocol]) -> list[Part]:
    """Compute the results, one per column of the tables: on the fast path for COCO files, else on the general path.

    Files that the fast path can't evaluate without an error or a warning continue on the general path.

    They are ordered by similarity, then by model.
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
    files = (options.truths, *options.detections)
    is_sliced = options.slice is not None or options.slice_by is not None
    is_coco = all(name in (None, "coco") for name in (options.gt_format, options.dt_format)) and all(
        path.lower().endswith(".json") and not is_pipe(path) for path in files
    )
    summaries: list[list[Summary] | None] = [None] * len(models)
    if is_coco and options.engine in ("auto", "native") and changed_options(options) <= _NEEDS_SUMMARY_ONLY:
        threads, early = num_threads(options.threads), options.early_files
        summaries = summarize_files(options.truths, options.detections, protocols, threads, early)
    others = [path for path, summary in zip(options.detections, summaries, strict=True) if summary is None]
    evaluated = evaluate_files(options, others, protocols) if others else iter(())
    parts: list[list[Part]] = [[] for _ in protocols]
    for model, done in zip(models, summaries, strict=True):
        if done is not None:
            for of_type, summary in zip(parts, done, strict=True):
                of_type.append(Part(model, None, summary))
            continue
        path, results = next(evaluated)
        for of_type, result in zip(parts, results, strict=True):
            of_type.append(_part(model, None, result, options))
            if is_sliced:
                from boxscore.analysis.slicing import slices

                groups = slices(result, _groups(options, path, result), threads=options.threads)
                of_type += [_part(model, group, part, options) for group, part in groups.items()]
    for _ in evaluated:  # to its end, where it warns about all files
        pass
    return [part for of_type in parts for part in of_type]


_NEEDS_SUMMARY_ONLY = frozenset(
    {
        *("truths", "detections", "gt_format", "dt_format", "unmatched", "engine", "threads"),
        *("protocol", "max_dets", "iou_type", "sigmas", "iou", "areas", "extra_numbers", "class_agnostic"),
        *("per_class", "json", "csv", "latex", "markdown", "quiet"),
    }
)
"""Options that the fast path handles, or that decide whether it is taken; any other option needs the general path."""


def evaluate_files(
    options: argparse.Namespace, paths: Sequence[str], protocols: Sequence[Protocol]
) -> Iterator[tuple[str, "list[Result]"]]:
    """Yield the path of each file of detections and its result under each protocol; these differ only in `iou_type`."""
    from boxscore.pipeline import evaluate_columns

    scores: list[tuple[str, float]] = []
    with Progress(1 + 2 * len(paths), is_quiet=options.quiet) as progress:
        for path, detections, truths in read_files(options, paths, protocols, progress):
            progress.step(f"evaluating {path}")
            results = [
                evaluate_columns(detections, truths, protocol, options.engine, threads=options.threads)
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
    """Yield the path of each file of detections, its detections and the truths, as the options select them.

    `keep_labels` keeps detections of classes that the truths lack, if the file has labels and no names.
    """
    from boxscore.checks.requirements import ready_truths
    from boxscore.formats import read_detections_and_report, read_truths, selected_images

    # An image set is looked up beside the ground truth, wherever the detections are.
    selection = {"images": selected_images(options.only_images, options.truths), "classes": options.classes}
    details = {name: getattr(options, name) for name in ("box_format", "sizes", "names", "hierarchy", "threads")}
    details["iou_type"] = tuple(protocol.iou_type for protocol in protocols)
    progress.step(f"reading {options.truths}")
    labels = options.image_labels
    truths = read_truths(options.truths, format=options.gt_format, image_labels=labels, **selection, **details)
    truths = ready_truths(truths, options.truths, protocols[0], paths, options.dt_format)
    for path in paths:
        progress.step(f"reading {path}")
        detections, report = read_detections_and_report(
            path,
            truths,
            format=options.dt_format,
            unmatched=options.unmatched,
            map_classes=options.map_classes,
            score_key=protocols[0].score_key,
            keep_labels=keep_labels,
            **selection,
            **details,
        )
        warn_of_masks(options, path, detections)
        yield path, detections, replace(truths, subset=(*truths.subset, *report.subset))


def _part(model: Model, group: str | None, result: "Result", options: argparse.Namespace) -> Part:
    """Add the requested analyses to a result. By default an HTML report has confidence intervals, the table none."""
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
    """Exit with a usage error unless the command gives a single result that keeps its verdicts."""
    if len(options.detections) * num_protocols > 1:
        options.command.error("argument --save: needs one file of detections and one similarity")
    if options.engine == "ray" or options.memory is not None:
        options.command.error("argument --save: does not work with --memory and --engine ray, which keep no verdicts")


def _save(options: argparse.Namespace, part: Part) -> str:
    """Save the result of all images and return a note about it."""
    assert part.result is not None
    part.result.save(options.save, name=part.model.name if part.model.is_named else None)
    return f"wrote {options.save}"


def _save_plots(options: argparse.Namespace, parts: Sequence[Part]) -> None:
    """Save all charts; with several parts in one folder per part, with charts of all parts beside the folders."""
    from boxscore.cli.output_files import folder_of

    for name, part in zip(names_of(parts), parts, strict=True):
        if part.result is not None:
            part.result.save_plots(folder_of(options.plots, name) if len(parts) > 1 else options.plots)
    named = {name: part.result for name, part in zip(names_of(parts), parts, strict=True) if part.result is not None}
    if len(named) > 1:
        from boxscore.report import plots

        plots.save(plots.draw_models(named), options.plots)


def _report(options: argparse.Namespace, parts: Sequence[Part], gallery: "Gallery | None") -> str:
    """Make the HTML report on all parts."""
    from boxscore.report.html import make_report

    named = dict(zip(names_of(parts), parts, strict=True))
    return make_report(
        {name: part.result for name, part in named.items() if part.result is not None},
        title=options.title or title_of(list(dict.fromkeys(part.model.name for part in parts)), options.truths),
        made_from={"ground truth": options.truths, "detections": ", ".join(options.detections)},
        intervals={name: part.intervals for name, part in named.items() if part.intervals is not None},
        gallery=gallery,
    )


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
