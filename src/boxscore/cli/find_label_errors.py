"""`boxscore label-errors GT DT …`: truths that are likely wrong, ranked."""

import argparse
from collections.abc import Callable
from typing import Any

from boxscore._support.exceptions import InputError
from boxscore.cli import arguments
from boxscore.cli.evaluate import evaluate_files
from boxscore.cli.input_files import models_of, with_hint
from boxscore.cli.outputs import as_json, check_outputs, deliver, title_of
from boxscore.cli.parsing import HelpFormatter
from boxscore.cli.picture_options import add_pictures, picture_settings
from boxscore.cli.terminal import Outcome

KINDS = ("missing", "wrong_class", "misplaced", "spurious")
"""Kinds of label errors; a copy, since `analysis.label_errors` needs NumPy."""

_EXAMPLES = """\
examples:
  boxscore label-errors truths.json detections.json
  boxscore label-errors truths.json a.json b.json c.json --csv cases.csv   # better with several models
  boxscore label-errors truths.json a.json b.json --html cases.html --images val2017/
  boxscore label-errors truths.json detections.json --kinds missing,wrong_class --score 0.5"""


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "label-errors",
        usage="%(prog)s GT DT [DT ...] [options]",
        help="find truths that are likely wrong, ranked",
        description="Find truths that are likely wrong, because confident detections contradict them.",
        epilog=_EXAMPLES,
        formatter_class=HelpFormatter,
    )
    groups = arguments.add_groups(parser)
    arguments.add_truths(groups.files)
    groups.files.add_argument(
        "detections", metavar="DT", nargs="+", help="detections, in any supported format; one file per model"
    )
    arguments.add_formats(groups.files)
    arguments.add_selection(groups.evaluated)
    arguments.add_protocol(groups.rules)
    group = groups.analysis
    group.add_argument(
        "--kinds",
        type=kinds,
        metavar="NAMES",
        default=KINDS[:3],
        help="kinds of errors: missing,wrong_class,misplaced (default), spurious",
    )
    group.add_argument(
        "--score",
        type=arguments.finite,
        metavar="S",
        help="detections from this score on are confident (default: of each model, that with the best F1)",
    )
    group.add_argument("--num", type=arguments.positive, metavar="N", help="only the N most suspicious cases")
    group = groups.output
    group.add_argument("--json", metavar="FILE", help="write all cases as JSON; `-`: to stdout, instead of the table")
    group.add_argument("--csv", metavar="FILE", help="write all cases as CSV, one per line")
    group.add_argument("--html", metavar="FILE", help="write a page with all cases")
    group.add_argument("--title", metavar="TEXT", help="title of the page (default: the names of the files)")
    arguments.add_quiet(group)
    add_pictures(groups.pictures, default=60)
    arguments.add_engine(groups.speed)
    parser.set_defaults(run=run, files="detections")


def kinds(text: str) -> tuple[str, ...]:
    """Kinds of label errors, separated by commas.

    >>> kinds("missing,spurious")
    ('missing', 'spurious')
    """
    names = tuple(arguments.words(text))
    if unknown := [name for name in names if name not in KINDS]:
        raise argparse.ArgumentTypeError(f"invalid choice: {unknown[0]!r} (choose from {', '.join(KINDS)})")
    return names


def run(options: argparse.Namespace) -> Outcome:
    """Print the table and write the requested files."""
    from boxscore.analysis.label_review import label_errors

    arguments.check_title(options)
    models = models_of(options, options.detections)
    options.detections = [model.path for model in models]
    check_outputs(options)
    pictures = picture_settings(options)
    if options.image_folder is not None:
        from boxscore.report.gallery import Gallery

        Gallery.of(**pictures)  # a missing folder is an error before the work
    try:
        results = [
            result for _, (result,) in evaluate_files(options, options.detections, arguments.protocols_of(options))
        ]
    except InputError as error:
        raise with_hint(error, options.truths, options.detections) from None
    errors = label_errors(results, score=options.score, kinds=options.kinds, threads=options.threads)
    if options.num is not None:
        errors = errors.first(options.num)
    names = [model.name for model in models]
    documents: dict[str, Callable[[], str]] = {
        "html": lambda: errors.to_html(
            title=options.title or f"Label errors: {title_of(names, options.truths)}",
            made_from={"ground truth": options.truths, "detections": ", ".join(options.detections)},
            **pictures,
        ),
        "csv": errors.to_csv,
        "json": lambda: as_json(errors.to_dict()),
    }
    return deliver(options, documents, lambda: str(errors))
