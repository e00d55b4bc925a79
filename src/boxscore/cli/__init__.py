"""The `boxscore` command. One module per command.

Exit codes: 0 success, 1 invalid data, 2 usage error, 128 plus the number of the signal that stopped it.
"""

import os
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
    "devices": "devices",
    "completion": "completion",
}
"""The module of each command, imported when the command is used or when the help lists all commands."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        arguments: The words of the command line; default: `sys.argv[1:]`.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        early_files = None
        if words[:1] == ["eval"]:
            from boxscore.cli.early_files import start_reading

            early_files = start_reading(words[1:])
        from boxscore.cli.command_line import run

        return run(words, early_files)
    except (MemoryError, ImportError) as error:
        if isinstance(error, ImportError) and "failed to map segment" not in str(error):
            raise
    if sys.stderr is not None:
        advice = "`boxscore eval --memory` evaluates Parquet files of any size within a limit"
        sys.stderr.write(f"boxscore: out of memory; {advice}\n")
    return 1


def quit_at_once(*_: object) -> None:
    """Handle Ctrl-C while modules are imported, before and after a command, when nothing needs cleaning up."""
    os.write(2, b"boxscore: interrupted\n")
    os._exit(130)
