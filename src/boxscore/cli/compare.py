"""`boxscore compare GT A B …`: what the others differ from the first in, and how sure that is."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boxscore.cli import arguments
from boxscore.cli.evaluate import evaluate_files
from boxscore.cli.output import short_names, title_of
from boxscore.cli.terminal import Outcome
from boxscore.exports import as_csv
from boxscore.writing import write_file

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
    group.add_argument("--csv", metavar="FILE", help="write differences of numbers and classes as CSV, one a line")
    group.add_argument(
        "--html", metavar="FILE", help="write a report on the models and what they differ in (needs boxscore[report])"
    )
    group.add_argument("--quiet", action="store_true", help="print no table and no warnings")
    arguments.add_engine(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> Outcome:
    """The tables, and the files that were asked for."""
    from boxscore.analysis.comparison import compare

    if options.html is not None:
        from boxscore.report.charts import check_vl_convert

        check_vl_convert()
    paths = [options.first, *options.others]
    results = [result for _, result in evaluate_files(options, paths, arguments.protocol_of(options))]
    comparison = compare(
        dict(zip(_names(paths), results, strict=True)),
        resamples=options.bootstrap,
        seed=options.seed,
        level=options.level,
        threads=options.threads,
    )
    if options.html is not None:
        comparison.to_html(
            options.html,
            title=title_of(comparison.names, options.truths),
            made_from={"ground truth": options.truths, "detections": ", ".join(paths)},
            threads=options.threads,
        )
    if options.csv is not None:
        write_file(Path(options.csv), _csv(comparison))
    document = None if options.json is None else json.dumps(comparison.to_dict(), indent=1)
    if options.json == "-":
        return Outcome(str(document))
    if document is not None:
        write_file(Path(options.json), f"{document}\n")
    if options.quiet:
        return Outcome("")
    return Outcome(comparison.tables(is_per_class=options.per_class, num_images=options.images_changed))


def _names(paths: list[str]) -> list[str]:
    """Names for the models, all different, even where one file is given twice."""
    short = short_names(paths)
    return [name if short.count(name) == 1 else f"{name} ({i})" for i, name in enumerate(short, start=1)]


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
