"""The command line: files and options in any order, and a wrong option with the one that was meant."""

import argparse
from collections.abc import Sequence


def parse(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command that is called; a wrong call is explained, and exit code 2."""
    options, rest = parser.parse_known_args(arguments)
    for word in rest:
        if word.startswith("-") and word != "-":
            options.command.error(f"unknown option {word}{_meant(word, options.command)}")
    if rest and options.files is None:
        options.command.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        # argparse takes files up to the first option that follows one, and leaves the others
        getattr(options, options.files).extend(rest)
    return options


def _meant(word: str, command: argparse.ArgumentParser) -> str:
    """The option most like a word, as a question."""
    from difflib import get_close_matches

    known = [flag for action in command._actions for flag in action.option_strings]
    near = get_close_matches(word.partition("=")[0], known, n=1)
    return f"; did you mean {near[0]}?" if near else ""
