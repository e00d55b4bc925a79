"""The `boxscore` command: parser and exit codes. One module per command.

Exit codes: 0 success, 1 invalid data, 2 usage error, 128 plus the number of the signal that stopped it.
"""

import argparse
import sys
import warnings
from collections.abc import Sequence

import boxscore
from boxscore._support.exceptions import InputError
from boxscore._support.text import lines
from boxscore.cli import check, compare, completion, convert, demo, evaluate, explain, table1
from boxscore.cli.parsing import parse
from boxscore.cli.terminal import Outcome, Stopped, say, show, stopped_by_signals, styled

_EXAMPLES = """\
examples:
  boxscore eval instances_val2017.json detections.json
  boxscore eval VOC2007/Annotations results/ --protocol voc2007 --images VOC2007/ImageSets/Main/test.txt
  boxscore eval truths.json model_a.json model_b.json --per-class --json scores.json
  boxscore compare truths.json model_a.json model_b.json
  boxscore explain truths.json detections.json --from coco --to ultralytics
  boxscore check truths.json detections.json
  boxscore convert VOC2007/Annotations truths.json
  boxscore demo

Run `boxscore COMMAND --help` for the options of a command."""


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
    for command in (evaluate, compare, explain, check, convert, demo, table1, completion):
        command.add_to(commands)
    for each in commands.choices.values():
        each.set_defaults(command=each)
    parser.set_defaults(parser=parser, files=None)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    options = parse(make_parser(), arguments)
    outcome, error_message = Outcome(""), None
    with warnings.catch_warnings(record=True, action="always", category=UserWarning) as caught:
        try:
            with stopped_by_signals():
                outcome = options.run(options)
        except InputError as error:
            outcome, error_message = Outcome("", 1), str(error)
        except KeyboardInterrupt:
            outcome, error_message = Outcome("", 130), "interrupted"
        except Stopped as stop:
            outcome, error_message = Outcome("", stop.code), str(stop)
    if not getattr(options, "quiet", False):
        for warning in caught:
            say(f"{styled('boxscore: warning:', 'yellow', sys.stderr)} {lines(str(warning.message))}", sys.stderr)
    if error_message is None:
        error_message = show(outcome.text, sys.stdout)
        outcome = outcome if error_message is None else Outcome("", 1)
    for note in outcome.notes:
        say(lines(note), sys.stderr)
    if error_message is not None:
        say(f"{styled('boxscore:', 'red', sys.stderr)} {lines(error_message)}", sys.stderr)
    return outcome.code
