"""The `boxscore` command: arguments and exit codes; one module a command. The only place that prints.

Exit codes: 0 fine, 1 the data is bad, 2 the call is wrong, 130 interrupted.
"""

import argparse
import os
import sys
import warnings
from collections.abc import Sequence

import boxscore
from boxscore.cli import check, compare, completion, convert, demo, evaluate, table1
from boxscore.cli.terminal import Outcome, styled
from boxscore.errors import InputError

_EXAMPLES = """\
examples:
  boxscore eval instances_val2017.json detections.json
  boxscore eval VOC2007/Annotations results/ --protocol voc2007 --images VOC2007/ImageSets/Main/test.txt
  boxscore eval truths.json model_a.json model_b.json --per-class --json scores.json
  boxscore compare truths.json model_a.json model_b.json
  boxscore check truths.json detections.json
  boxscore convert VOC2007/Annotations truths.json
  boxscore demo

`boxscore COMMAND --help` says more."""


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="boxscore",
        description="Mean average precision for object detection.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"boxscore {boxscore.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (evaluate, compare, check, convert, demo, table1, completion):
        command.add_to(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    options.parser = parser
    outcome, complaint = Outcome(""), None
    with warnings.catch_warnings(record=True, action="always", category=UserWarning) as caught:
        try:
            outcome = options.run(options)
        except InputError as error:
            outcome, complaint = Outcome("", 1), str(error)
        except KeyboardInterrupt:
            outcome, complaint = Outcome("", 130), "interrupted"
    if not getattr(options, "quiet", False):
        for warning in caught:
            print(f"{styled('boxscore: warning:', 'yellow', sys.stderr)} {warning.message}", file=sys.stderr)
    if complaint is not None:
        print(f"{styled('boxscore:', 'red', sys.stderr)} {complaint}", file=sys.stderr)
    try:
        if outcome.text:
            print(outcome.text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has seen enough, as `head` has. Python would complain once more when it closes the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return outcome.code
