"""`boxscore explain GT DT`: why two tools give different numbers, or which tool gives a claimed number."""

import argparse
import sys
from contextlib import ExitStack
from textwrap import fill
from typing import TYPE_CHECKING, Any

from boxscore._support.exceptions import InputError
from boxscore.analysis.known_tools import TOOLS, as_rules, rules_of_shapes, with_sigmas_of
from boxscore.cli import arguments
from boxscore.cli.evaluate import read_files
from boxscore.cli.input_files import Model, models_of, with_hint
from boxscore.cli.outputs import STDOUT, as_json, check_outputs, deliver, title_of
from boxscore.cli.parsing import HelpFormatter
from boxscore.cli.result_warnings import warn_if_suspicious, warn_of_ids
from boxscore.cli.terminal import Outcome, Progress, styled
from boxscore.protocol.protocol import Protocol
from boxscore.protocol.table import PROTOCOLS, protocol_of

if TYPE_CHECKING:
    from boxscore.analysis.claims import ClaimExplanation
    from boxscore.analysis.explanation import Explanation
    from boxscore.data.dataset import Detections, Truths
    from boxscore.result.result import Result

_EXAMPLES = """\
examples:
  boxscore explain truths.json detections.json --from coco --to ultralytics
  boxscore explain VOC2007/ results/ --only-images test --from voc2007 --to torchmetrics --html path.html
  boxscore explain truths.json detections.json --claim 0.531   # which tool and settings give this number?"""


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "explain",
        usage="%(prog)s GT DT [options]",
        help="explain the difference between the numbers of two tools, or find what gives a claimed number",
        description="Explain the difference between the numbers of two protocols or tools, one rule at a time; or find"
        " the tool and the settings that give a claimed number.",
        epilog=f"{_names()}\n\n{_EXAMPLES}",
        formatter_class=HelpFormatter,
    )
    groups = arguments.add_groups(parser)
    arguments.add_truths(groups.files)
    groups.files.add_argument("detections", metavar="DT", help="detections, in any supported format")
    arguments.add_formats(groups.files)
    arguments.add_selection(groups.evaluated)
    group = groups.rules
    for option, dest, which, default in (
        ("--from", "source", "first", "coco"),
        ("--to", "target", "other", "ultralytics"),
    ):
        group.add_argument(
            option,
            dest=dest,
            choices=(*PROTOCOLS, *(name for name in TOOLS if name not in PROTOCOLS)),
            metavar="NAME",
            help=f"protocol or tool of the {which} number; the names are below (default: {default})",
        )
    group.add_argument(
        "--claim", metavar="N", help="find the tool and the settings that give this number: 0.531, or 53.1 for percent"
    )
    group.add_argument(
        "--iou-type",
        type=arguments.iou_type,
        metavar="TYPE",
        help=f"what is compared: {arguments.SIMILARITIES} (default: as in the protocols)",
    )
    group = groups.output
    group.add_argument("--json", metavar="FILE", help="write the explanation as JSON; `-`: to stdout, not the table")
    group.add_argument("--html", metavar="FILE", help="write a report with a waterfall chart (needs boxscore[report])")
    group.add_argument("--title", metavar="TEXT", help="title of the page (default: the names of the files)")
    arguments.add_quiet(group)
    arguments.add_threads(groups.speed)
    parser.set_defaults(run=run)


def _names() -> str:
    """Names of protocols and tools, in lines that fit a terminal."""
    groups = {"protocols": PROTOCOLS, "tools": [name for name in TOOLS if name not in PROTOCOLS]}
    lines = [
        fill(", ".join(names), 79, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
        for names in groups.values()
    ]
    return "\n\n".join(f"{title}:\n{names}" for title, names in zip(groups, lines, strict=True))


def run(options: argparse.Namespace) -> Outcome:
    """Print the table and write the requested files."""
    arguments.check_title(options)
    _check_usage(options)
    (model,) = models_of(options, [options.detections])
    options.detections = model.path
    check_outputs(options)
    if options.html is not None:
        from boxscore.report.charts import check_vl_convert

        check_vl_convert()
    explanation: Explanation | ClaimExplanation
    try:
        if options.claim is not None:
            explanation = _explain_claim(options)
        else:
            explanation, result = _explain(options)
    except InputError as error:
        raise with_hint(error, options.truths, [options.detections]) from None
    document = {"detections": options.detections, **explanation.to_dict()}
    documents = {"json": lambda: as_json(document)}
    if options.html is not None:
        documents["html"] = lambda: _report(options, model, result, explanation)
    return deliver(options, documents, lambda: _text(explanation))


def _check_usage(options: argparse.Namespace) -> None:
    """Exit with a usage error if options contradict each other."""
    if options.html == STDOUT:
        options.command.error("argument --html: must be a file; got -")
    if options.claim is None:
        return
    for name, value in (("--from", options.source), ("--to", options.target), ("--html", options.html)):
        if value is not None:
            options.command.error(f"argument --claim: not allowed with argument {name}")


def _explain(options: argparse.Namespace) -> "tuple[Explanation, Result]":
    """Explain the difference; also return the result under the first rules."""
    from boxscore.analysis.explanation import explain
    from boxscore.checks.requirements import ready_truths
    from boxscore.pipeline import evaluate_columns

    source, target = _both_rules(options)
    with Progress(4, is_quiet=options.quiet) as progress:
        detections, truths = _read(options, source, progress)
        truths = ready_truths(truths, options.truths, target, [options.detections], options.dt_format)
        progress.step(f"evaluating {options.detections}")
        result = evaluate_columns(detections, truths, with_sigmas_of(source, target), threads=options.threads)
        warn_if_suspicious(options, options.detections, result)
        progress.step(f"explaining {options.detections}")
        explanation = explain(detections, truths, source, target, threads=options.threads)
    if options.min_score is None:
        warn_of_ids(options, source, [(options.detections, result["map"])])
    return explanation, result


def _explain_claim(options: argparse.Namespace) -> "ClaimExplanation":
    from boxscore.analysis.claims import explain_claim, read_claim

    try:
        read_claim(options.claim)
    except InputError as error:
        options.command.error(f"argument --claim: {error.rule}")
    options.protocol = "coco"
    # Groups are an error under rules without groups; the search skips such rules.
    neutral = protocol_of("coco", arguments.iou_types_of(options)[0]).replace(group_of_weight=0)
    with Progress(2, is_quiet=options.quiet) as progress:
        detections, truths = _read(options, neutral, progress, keep_labels=True)
    with ExitStack() as lines:
        bars: list[Progress] = []

        def show(num_done: int, num: int) -> None:
            if not bars:
                bars.append(lines.enter_context(Progress(num, is_quiet=options.quiet)))
            bars[0].step(f"searching for {options.claim}: matching {num_done + 1} of {num} at most")

        try:
            return explain_claim(detections, truths, options.claim, threads=options.threads, progress=show)
        except InputError as error:
            raise InputError(f"{options.detections}: {error}") from None


def _read(
    options: argparse.Namespace, protocol: Protocol, progress: Progress, *, keep_labels: bool = False
) -> "tuple[Detections, Truths]":
    from boxscore.data.dataset import host_scores, take

    files = read_files(options, [options.detections], [protocol], progress, keep_labels=keep_labels)
    ((_, detections, truths),) = files
    if options.min_score is not None:
        detections = take(detections, host_scores(detections.scores) >= options.min_score)
    return detections, truths


def _both_rules(options: argparse.Namespace) -> list[Protocol]:
    """The rules of both names, for one similarity."""
    names = {"--from": options.source or "coco", "--to": options.target or "ultralytics"}
    own = {option: as_rules(name).iou_type for option, name in names.items()}
    special = [option for option, iou_type in own.items() if iou_type != "bbox"]
    if len({own[option] for option in special}) > 1:
        first, last = names.values()
        options.command.error(f"argument --to: {last} needs {own['--to']}, and {first} needs {own['--from']}")
    options.protocol = names[special[0]] if special else "coco"
    (iou_type,) = arguments.iou_types_of(options)
    return [rules_of_shapes(name, iou_type) for name in names.values()]


def _report(options: argparse.Namespace, model: Model, result: "Result", explanation: Any) -> str:
    """Make the HTML report on the result under the first rules, with the path to the other rules."""
    from boxscore.report.html import make_report

    return make_report(
        {model.name: result},
        title=options.title or title_of([model.name], options.truths),
        made_from={"ground truth": options.truths, "detections": options.detections},
        intervals={},
        explanation=explanation,
    )


def _text(explanation: "Explanation | ClaimExplanation") -> str:
    title, _, rest = str(explanation).partition("\n")
    return f"{styled(title, 'bold', sys.stdout)}\n{rest}"
