"""`boxscore completion SHELL`: a completion script, generated from the parser."""

import argparse
from collections.abc import Iterator
from typing import Any

from boxscore.cli.parsing import HelpFormatter, commands_of
from boxscore.cli.terminal import Outcome

_INSTALL = """\
install:
  bash   boxscore completion bash > ~/.local/share/bash-completion/completions/boxscore
  zsh    boxscore completion zsh > "${fpath[1]}/_boxscore"
  fish   boxscore completion fish > ~/.config/fish/completions/boxscore.fish"""


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "completion",
        help="print a completion script for a shell",
        description="Print a completion script for a shell.",
        epilog=_INSTALL,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> Outcome:
    """The script."""
    commands = commands_of(options.make_parser())
    return Outcome({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](commands))


def _options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    yield from (action for action in parser._actions if action.option_strings)


def _choices(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[str]]]:
    """Options with a fixed set of values; "" for a positional argument."""
    for action in parser._actions:
        if action.choices is not None:
            yield (action.option_strings or [""])[-1], [str(choice) for choice in action.choices]


def _bash(commands: dict[str, argparse.ArgumentParser]) -> str:
    cases = []
    for name, parser in commands.items():
        flags = " ".join(action.option_strings[-1] for action in _options(parser))
        values = "".join(
            f'\n      {option}) COMPREPLY=($(compgen -W "{" ".join(choices)}" -- "$word")); return ;;'
            for option, choices in _choices(parser)
            if option
        )
        own = " ".join(" ".join(choices) for option, choices in _choices(parser) if not option)
        cases.append(
            f"""    {name})
      case "$before" in{values}
      esac
      if [[ "$word" == -* ]]; then
        COMPREPLY=($(compgen -W "{flags}" -- "$word"))
      else
        COMPREPLY=($(compgen -W "{own}" -- "$word") $(compgen -f -- "$word"))
      fi ;;"""
        )
    body = "\n".join(cases)
    return f"""# bash completion for boxscore
_boxscore() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
  if [[ $COMP_CWORD -eq 1 ]]; then
    COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version" -- "$word"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{body}
  esac
}}
complete -o filenames -F _boxscore boxscore"""


def _zsh(commands: dict[str, argparse.ArgumentParser]) -> str:
    script = _bash(commands).removeprefix("# bash completion for boxscore\n")
    return f"#compdef boxscore\nautoload -U +X bashcompinit && bashcompinit\n{script}"


def _fish(commands: dict[str, argparse.ArgumentParser]) -> str:
    lines = [
        "# fish completion for boxscore",
        f'complete -c boxscore -f -n __fish_use_subcommand -a "{" ".join(commands)}"',
    ]
    for name, parser in commands.items():
        here = f'complete -c boxscore -n "__fish_seen_subcommand_from {name}"'
        choices = dict(_choices(parser))
        for action in _options(parser):
            flag = action.option_strings[-1]
            values = f' -x -a "{" ".join(choices[flag])}"' if flag in choices else ""
            needs_value = " -r" if action.nargs != 0 and flag not in choices else ""
            lines.append(f"{here} -l {flag.lstrip('-')}{needs_value}{values}")
        lines += [f'{here} -f -a "{" ".join(values)}"' for flag, values in choices.items() if not flag]
    return "\n".join(lines)
