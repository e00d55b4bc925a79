"""The `boxscore` command. One module per command.

Exit codes: 0 success, 1 invalid data, 2 usage error, 128 plus the number of the signal that stopped it.
"""

import sys
from collections.abc import Sequence

COMMANDS = {
    "eval": "evaluate",
    "compare": "compare",
    "explain": "explain",
    "serve": "serve",
    "label-errors": "find_label_errors",
    "check": "check",
    "convert": "convert",
    "demo": "demo",
    "table1": "table1",
    "completion": "completion",
}
"""The module of each command. It is imported when the command is used, or when the help lists all of them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    early_files = None
    if words[:1] == ["eval"]:
        from boxscore.engines.native.early_files import start_reading

        early_files = start_reading(words[1:])  # by other threads, while this one imports the rest
    from boxscore.cli.command_line import run

    return run(words, early_files)
