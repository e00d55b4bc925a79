"""`boxscore compare GT A B …`: differences from the first model, with confidence intervals and p-values."""

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

_EXAMPLES = """\
examples:
  boxscore compare truths.json old.json new.json
  boxscore compare truths.json baseline.json a.json b.json --per-class   # each against the first
  boxscore compare truths.json old.json new.json --images-changed 20 --json changes.json
  boxscore compare truths.json old.json new.json --html comparison.html"""


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "compare",
        usage="%(prog)s GT A B [B ...] [options]",
        help="compare models, with confidence intervals and p-values",
        description="Compare each model with the first, with confidence intervals and p-values.",
        epilog=_EXAMPLES,
        formatter_class=HelpFormatter,
    )
    groups = arguments.add_groups(parser)
    arguments.add_truths(groups.files)
    groups.files.add_argument(
        "first", metavar="A", help="detections of the first model, in any supported format, or NAME=A"
    )
    groups.files.add_argument(
        "others", metavar="B", nargs="+", help="detections of the other models; each is compared with the first"
    )
    arguments.add_formats(groups.files)
    arguments.add_selection(groups.evaluated)
    arguments.add_protocol(groups.rules)
    groups.analysis.add_argument("--per-class", action="store_true", help="also print a table of classes")
    groups.analysis.add_argument(
        "--images-changed",
        type=arguments.non_negative,
        default=5,
        metavar="N",
        help="print the N images that changed most (default: 5)",
    )
    arguments.add_confidence(groups.analysis, resamples=1000)
    arguments.add_documents(groups.output, "difference")
    add_pictures(groups.pictures)
    arguments.add_engine(groups.speed)
    parser.set_defaults(run=run, files="others")


def run(options: argparse.Namespace) -> Outcome:
    """Print the tables and write the requested files."""
    from boxscore.analysis.comparison import compare

    arguments.check_title(options)
    models = models_of(options, [options.first, *options.others])
    paths = [model.path for model in models]
    options.first, *options.others = paths
    check_outputs(options)
    pictures = picture_settings(options)
    if options.html is not None:
        from boxscore.report.charts import check_vl_convert

        check_vl_convert()
    if options.image_folder is not None:
        from boxscore.report.gallery import Gallery

        Gallery.of(**pictures)  # a missing folder is an error before the work
    try:
        results = [result for _, (result,) in evaluate_files(options, paths, arguments.protocols_of(options))]
    except InputError as error:
        raise with_hint(error, options.truths, paths) from None
    comparison = compare(
        {model.name: result for model, result in zip(models, results, strict=True)},
        resamples=options.bootstrap,
        seed=options.seed,
        level=options.level,
        threads=options.threads,
    )
    documents: dict[str, Callable[[], str]] = {
        "html": lambda: comparison.to_html(
            title=options.title or title_of(comparison.names, options.truths),
            made_from={"ground truth": options.truths, "detections": ", ".join(paths)},
            threads=options.threads,
            **pictures,
        ),
        "csv": comparison.to_csv,
        "latex": lambda: f"{comparison.to_latex()}\n",
        "markdown": lambda: f"{comparison.to_markdown()}\n",
        "json": lambda: as_json(comparison.to_dict()),
    }
    return deliver(
        options,
        documents,
        lambda: comparison.tables(is_per_class=options.per_class, num_images=options.images_changed),
    )
