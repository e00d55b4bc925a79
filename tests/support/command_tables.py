"""The options of every command in docs/reference/commands.md, from the parser.

`python -m tests.support.command_tables` writes them there.
"""

import argparse
from collections.abc import Iterator

from boxscore.cli.command_line import make_parser
from boxscore.cli.parsing import commands_of
from tests.support.documents import write_parts

PAGE = "docs/reference/commands.md"


def command_list() -> str:
    """One row per command."""
    parser = make_parser()
    rows = [f"| [`boxscore {name}`](#{name}) | {_help_of(parser, name)} |\n" for name in commands_of(parser)]
    return "".join(["| command | |\n", "|---|---|\n", *rows])


def option_tables(name: str) -> str:
    """How a command is called, what it does, and one table per group of options."""
    parser = commands_of(make_parser())[name]
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    parts = [f"```text\n{usage}\n```\n"]
    if parser.description:
        parts.append(f"{parser.description}\n")
    parts += list(_tables(parser))
    return "\n".join(parts)


def _tables(parser: argparse.ArgumentParser) -> Iterator[str]:
    for group in parser._action_groups:
        rows = [_row(parser, action) for action in group._group_actions if action.dest != "help"]
        if rows:
            title = {"positional arguments": "arguments"}.get(str(group.title), str(group.title))
            yield "".join([f"| {title} | |\n", "|---|---|\n", *rows])


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    words = ", ".join(f"`{flag}`" for flag in action.option_strings) or f"`{action.metavar or action.dest}`"
    if action.option_strings and action.nargs != 0 and (action.metavar or not action.choices):
        words = words.removesuffix("`") + f" {action.metavar or action.dest.upper()}`"
    texts = [parser._get_formatter()._expand_help(action)] if action.help else []
    is_listed = action.metavar and all(str(choice) in str(action.help) for choice in action.choices or ())
    if action.choices and not is_listed:
        texts.append(f"one of {', '.join(f'`{choice}`' for choice in action.choices)}")
    return f"| {words} | {'; '.join(texts)} |\n"


def _help_of(parser: argparse.ArgumentParser, name: str) -> str:
    (choices,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return next(str(action.help) for action in choices._choices_actions if action.dest == name)


def expected() -> dict[str, str]:
    """What the page has to have between its comments, by the name of the comment."""
    options = {f"options of {name}": option_tables(name) for name in commands_of(make_parser())}
    return {"all commands": command_list(), **options}


if __name__ == "__main__":
    write_parts(PAGE, expected())
