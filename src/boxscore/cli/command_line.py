"""One command line: parse it, run its command, print the outcome."""

import argparse
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import boxscore
from boxscore._support.exceptions import InputError
from boxscore._support.inputs import inputs_are_kept
from boxscore._support.text import lines
from boxscore.cli import COMMANDS
from boxscore.cli.parsing import HelpFormatter, parse
from boxscore.cli.terminal import Outcome, Stopped, say, show, stopped_by_signals, styled

if TYPE_CHECKING:
    from boxscore.cli.early_files import EarlyFiles

_EXAMPLES = """\
examples:
  boxscore eval instances_val2017.json detections.json
  boxscore eval VOC2007/Annotations results/ --protocol voc2007 --only-images VOC2007/ImageSets/Main/test.txt
  boxscore eval truths.json model_a.json model_b.json --per-class --json scores.json
  boxscore compare truths.json model_a.json model_b.json
  boxscore explain truths.json detections.json --from coco --to ultralytics
  boxscore serve runs/ --open
  boxscore label-errors truths.json model_a.json model_b.json
  boxscore check truths.json detections.json
  boxscore convert VOC2007/Annotations truths.json
  boxscore demo
  boxscore devices --json devices.json

Run `boxscore COMMAND --help` for the options of a command."""


def make_parser(names: Iterable[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """Make the parser of these commands; by default of all."""
    parser = argparse.ArgumentParser(
        prog="boxscore",
        description="Mean average precision for object detection.",
        epilog=_EXAMPLES,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"boxscore {boxscore.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", prog="boxscore")
    for name in names:
        import_module(f"boxscore.cli.{COMMANDS[name]}").add_to(commands)
    for each in commands.choices.values():
        each.set_defaults(command=each)
    parser.set_defaults(make_parser=make_parser, files=None, early_files=None)
    return parser


def _needed(words: Sequence[str]) -> Iterable[str]:
    """The commands that the parser needs: the one in the words, none for the version, all for help and errors."""
    first = words[0] if words else ""
    return (first,) if first in COMMANDS else () if first == "--version" else COMMANDS


def run(words: Sequence[str], early_files: "EarlyFiles | None" = None) -> int:
    """Run one command and return its exit code. `early_files`: files that another thread reads already."""
    options = parse(make_parser(_needed(words)), words)
    options.early_files = early_files
    outcome, error_message = Outcome(""), None
    with warnings.catch_warnings(record=True, action="always", category=UserWarning) as caught:
        try:
            with stopped_by_signals(), inputs_are_kept():
                outcome = options.run(options)
        except InputError as error:
            outcome, error_message = Outcome("", 1), str(error)
        except OSError as error:  # such as a name that is too long for the file system
            if error.filename is None:
                raise
            outcome, error_message = Outcome("", 1), f"{os.fsdecode(error.filename)}: {error.strerror}"
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
