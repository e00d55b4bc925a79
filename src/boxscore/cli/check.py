"""`boxscore check GT DT …`: errors and likely mistakes in the data."""

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from boxscore._support.text import count, line
from boxscore.cli import arguments
from boxscore.cli.input_files import hint_if_swapped
from boxscore.cli.outputs import as_json, check_outputs, deliver
from boxscore.cli.parsing import HelpFormatter
from boxscore.cli.terminal import Outcome, styled

if TYPE_CHECKING:
    from boxscore.checks.checklist import Finding

_EXAMPLES = """\
examples:
  boxscore check instances_val2017.json
  boxscore check truths.json detections.json
  boxscore check instances_val2017.json detections.json --iou-type segm
  boxscore check labels/ predictions/ --sizes images/ --names data.yaml --json findings.json

error: the evaluation rejects the data. warning: it changes the result, or is very likely a mistake. note: information.
The exit code is 1 if there is an error, or with --strict a warning; else 0."""

_STYLES = {"error": "red", "warning": "yellow", "note": "bold"}


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "check",
        usage="%(prog)s GT [DT ...] [options]",
        help="find errors and likely mistakes in the data",
        description="Find errors and likely mistakes in the data, all in one pass.",
        epilog=_EXAMPLES,
        formatter_class=HelpFormatter,
    )
    groups = arguments.add_groups(parser)
    arguments.add_truths(groups.files)
    groups.files.add_argument(
        "detections",
        metavar="DT",
        nargs="*",
        help="detections, in any supported format (default: check the ground truth only)",
    )
    arguments.add_formats(groups.files)
    arguments.add_limits(groups.rules)
    groups.rules.add_argument(
        "--iou-type",
        type=arguments.iou_types,
        metavar="TYPE",
        help=f"what to check: {arguments.SIMILARITIES} (default: as in the protocol)",
    )
    arguments.add_sigmas(groups.rules)
    group = groups.output
    group.add_argument("--strict", action="store_true", help="exit with code 1 for warnings, too")
    group.add_argument("--json", metavar="FILE", help="write findings as JSON; `-`: to stdout, instead of the listing")
    group.add_argument("--quiet", action="store_true", help="print nothing; only set the exit code")
    parser.set_defaults(run=run, files="detections")


def run(options: argparse.Namespace) -> Outcome:
    """Print the findings; exit code 1 if the evaluation would reject something."""
    from boxscore.checks.inspector import Reading, inspect_files
    from boxscore.formats.records import Options

    check_outputs(options)
    reading = Reading(
        truths_format=options.gt_format,
        detections_format=options.dt_format,
        options=Options(
            box_format=options.box_format,
            sizes=options.sizes,
            names=options.names,
            image_labels=options.image_labels,
            hierarchy=options.hierarchy,
            iou_types=arguments.iou_types_of(options),
        ),
    )
    findings = inspect_files(options.truths, options.detections, arguments.protocol_of(options), reading)
    bad = ("error", "warning") if options.strict else ("error",)
    code = int(any(finding.severity in bad for finding in findings))
    if any(finding.severity == "error" for finding in findings) and (
        hint := hint_if_swapped(options.truths, options.detections)
    ):
        warnings.warn(hint, stacklevel=2)
    documents = {"json": lambda: as_json([finding.to_dict() for finding in findings])}
    return deliver(options, documents, lambda: listing(findings), code)


def listing(findings: "Sequence[Finding]") -> str:
    """Text of the findings, three lines each, then their counts."""
    parts = [
        f"{styled(finding.severity, _STYLES[finding.severity], sys.stdout)}: {line(finding.title)}\n"
        f"  {line(finding.example)}\n"
        f"  {line(finding.effect)}\n"
        for finding in findings
    ]
    number = Counter(finding.severity for finding in findings)
    kinds = [(severity, number[severity]) for severity in ("error", "warning", "note")]
    return "\n".join([*parts, ", ".join(count(num, kind) if num else f"no {kind}s" for kind, num in kinds)])
