"""`boxscore compare GT A B …`: what the others differ from the first in, and how sure that is."""

import argparse
import json
from typing import TYPE_CHECKING, Any

from boxscore.cli import arguments
from boxscore.cli.evaluate import evaluate_files
from boxscore.cli.output import check_outputs, deliver, short_names, title_of
from boxscore.cli.terminal import Outcome
from boxscore.exports import as_csv

if TYPE_CHECKING:
    from boxscore.analysis.comparison import Comparison

_EXAMPLES = """\
examples:
  boxscore compare truths.json old.json new.json
  boxscore compare truths.json baseline.json a.json b.json --per-class   each against the first
  boxscore compare truths.json old.json new.json --images-changed 20 --json changes.json
  boxscore compare truths.json old.json new.json --html comparison.html"""


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "compare",
        usage="%(prog)s GT A B [B ...] [options]",
        help="print what models differ in, with intervals and p-values",
        description="Print what each model differs from the first in, with intervals and p-values.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("truths", metavar="GT", help="ground truth: a file, folder, .gz or .zip in any format")
    parser.add_argument("first", metavar="A", help="detections of the first model, in any format")
    parser.add_argument("others", metavar="B", nargs="+", help="those of others; each is compared with the first")
    arguments.add_confidence(parser, resamples=1000)
    arguments.add_protocol(parser)
    arguments.add_formats(parser)
    arguments.add_selection(parser)
    group = parser.add_argument_group("output")
    group.add_argument("--per-class", action="store_true", help="print a table of classes, too")
    group.add_argument(
        "--images-changed",
        type=arguments.whole,
        default=5,
        metavar="N",
        help="print the N images that changed most (default: 5)",
    )
    group.add_argument("--json", metavar="FILE", help="write all of it as JSON; `-`: to stdout, instead of the table")
    group.add_argument("--csv", metavar="FILE", help="the same of numbers and classes as CSV, one difference a line")
    group.add_argument(
        "--html", metavar="FILE", help="write a report on the models and what they differ in (needs boxscore[report])"
    )
    group.add_argument("--quiet", action="store_true", help="print no table and no warnings")
    arguments.add_engine(parser)
    parser.set_defaults(run=run, files="others")


def run(options: argparse.Namespace) -> Outcome:
    """The tables, and the files that were asked for."""
    from boxscore.analysis.comparison import compare

    check_outputs(options)
    if options.html is not None:
        from boxscore.report.charts import check_vl_convert

        check_vl_convert()
    paths = [options.first, *options.others]
    results = [result for _, result in evaluate_files(options, paths, arguments.protocol_of(options))]
    comparison = compare(
        dict(zip(short_names(paths), results, strict=True)),
        resamples=options.bootstrap,
        seed=options.seed,
        level=options.level,
        threads=options.threads,
    )
    documents = {
        "html": lambda: comparison.to_html(
            title=title_of(comparison.names, options.truths),
            made_from={"ground truth": options.truths, "detections": ", ".join(paths)},
            threads=options.threads,
        ),
        "csv": lambda: _csv(comparison),
        "json": lambda: f"{json.dumps(comparison.to_dict(), indent=1)}\n",
    }
    return deliver(
        options,
        documents,
        lambda: comparison.tables(is_per_class=options.per_class, num_images=options.images_changed),
    )


def _csv(comparison: "Comparison") -> str:
    """One number a line: which models, which class (none: all), which number, and what became of it."""
    rows: list[list[Any]] = []
    for difference in comparison.differences:
        models = [difference.first, difference.second]
        plain = difference.to_dict()
        changes = [("", name, plain[name]) for name in difference.numbers]
        changes += [(row["name"], name, row[name]) for row in plain["per_class"] for name in ("ap", "ar")]
        rows += [[*models, class_name, name, *change.values()] for class_name, name, change in changes]
    values = ["first_value", "second_value", "difference", "low", "high", "error", "p_value"]
    return as_csv([["first", "second", "class", "number", *values], *rows])
