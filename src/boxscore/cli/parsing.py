"""Parsing of the command line: files and options in any order, and suggestions for misspelled words."""

import argparse
from collections.abc import Sequence


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Formatter that reads the width of the terminal only when it formats a text.

    argparse makes a formatter for each option, to check it, and would import `shutil` for the width.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=80)

    def format_help(self) -> str:
        """Format the text, as wide as the terminal."""
        known = argparse.RawDescriptionHelpFormatter(self._prog)
        self._width, self._max_help_position = known._width, known._max_help_position
        return super().format_help()


def parse(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """Parse the words of a command line; a usage error exits with code 2."""
    if words:
        _check_command(parser, words)
    options, rest = parser.parse_known_args(words)
    for word in rest:
        if word.startswith("-") and word != "-":
            options.command.error(f"unknown option {word}{_suggestion(word, options.command, options.make_parser())}")
    if rest and options.files is None:
        options.command.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        # argparse accepts no more files after an option that follows files
        getattr(options, options.files).extend(rest)
    return options


def changed_options(options: argparse.Namespace) -> set[str]:
    """Names of the command's arguments and options whose value is not the default."""
    return {
        action.dest
        for action in options.command._actions
        if hasattr(options, action.dest) and getattr(options, action.dest) != action.default
    }


_SYNONYMS = {
    "evaluate": "eval",
    "score": "eval",
    "map": "eval",
    "val": "eval",
    "test": "eval",
    "diff": "compare",
    "validate": "check",
    "lint": "check",
    "inspect": "check",
    "export": "convert",
    "help": "--help",
    "version": "--version",
}
"""Commands by the names that other tools use for them."""


def _check_command(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Exit with a suggestion unless the first word is a command or a global option."""
    word, commands = words[0], commands_of(parser)
    flags = _flags(parser)
    if word in commands or not word or any(flag.startswith(word) for flag in flags if word.startswith("-")):
        return
    if word.startswith("-"):
        parser.error(f"unknown option {word}{_suggestion(word, parser, parser)}")
    from difflib import get_close_matches
    from pathlib import Path

    near = [_SYNONYMS[word]] if word in _SYNONYMS else get_close_matches(word, commands, n=1)
    if Path(word).exists():
        import shlex

        near = [shlex.join(["eval", *words])]
    hint = f"; did you mean `boxscore {near[0]}`?" if near else ""
    parser.error(f"unknown command {word!r}{hint} (commands: {', '.join(commands)})")


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the commands by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return [flag for action in parser._actions for flag in action.option_strings]


def _suggestion(word: str, command: argparse.ArgumentParser, parser: argparse.ArgumentParser) -> str:
    """A question with the most similar option, or a note on the commands with this option; else ""."""
    from difflib import get_close_matches

    flag = word.partition("=")[0]
    if near := get_close_matches(flag, _flags(command), n=1):
        return f"; did you mean {near[0]}?"
    having = [name for name, each in commands_of(parser).items() if flag in _flags(each)]
    if not having:
        return ""
    example = f": `boxscore {having[0]} … {flag}`" if command is parser else ""
    return f"; it is an option of {' and '.join(having)}{example}"
