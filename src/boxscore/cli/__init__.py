"""The `boxscore` command: arguments and exit codes; one module a command. The only place that prints.

Exit codes: 0 fine, 1 the data is bad, 2 the call is wrong, 130 interrupted.
"""

import argparse
import sys
import warnings
from collections.abc import Sequence

import boxscore
from boxscore.cli import demo, table1
from boxscore.errors import InputError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    parser = argparse.ArgumentParser(prog="boxscore", description="Mean average precision for object detection.")
    parser.add_argument("--version", action="version", version=f"boxscore {boxscore.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (demo, table1):
        command.add_to(commands)
    options = parser.parse_args(arguments)
    with warnings.catch_warnings(record=True, action="always", category=UserWarning) as caught:
        try:
            output, complaint, code = options.run(options), None, 0
        except InputError as error:
            output, complaint, code = None, f"boxscore: {error}", 1
        except KeyboardInterrupt:
            output, complaint, code = None, "boxscore: interrupted", 130
    for warning in caught:
        print(f"boxscore: warning: {warning.message}", file=sys.stderr)
    if complaint is not None:
        print(complaint, file=sys.stderr)
    else:
        print(output)
    return code
