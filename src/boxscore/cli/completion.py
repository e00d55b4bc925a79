"""`boxscore completion SHELL`: a completion script, generated from the parser by shtab."""

import argparse
from typing import Any

from boxscore._support.exceptions import InputError
from boxscore.cli.parsing import HelpFormatter, commands_of
from boxscore.cli.terminal import Outcome

_INSTALL = """\
needs shtab: pip install 'boxscore[completion]'

install:
  bash   boxscore completion bash > ~/.local/share/bash-completion/completions/boxscore
  zsh    boxscore completion zsh > "${fpath[1]}/_boxscore"
  fish   boxscore completion fish > ~/.config/fish/completions/boxscore.fish
  tcsh   boxscore completion tcsh > ~/.boxscore.csh; source it in ~/.tcshrc"""


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "completion",
        help="print a completion script for a shell",
        description="Print a completion script for a shell.",
        epilog=_INSTALL,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh"))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> Outcome:
    """Generate the script."""
    try:
        import shtab
    except ImportError:
        raise InputError("`boxscore completion` needs shtab: pip install 'boxscore[completion]'") from None
    if options.shell not in shtab.SUPPORTED_SHELLS:
        known = ", ".join(shtab.SUPPORTED_SHELLS)
        raise InputError(f"shtab {shtab.__version__} has no completion for {options.shell}; it has {known}")
    parser = options.make_parser()
    for command in commands_of(parser).values():
        for action in command._actions:
            if action.choices is None and action.nargs != 0:
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # read by shtab
    return Outcome(shtab.complete(parser, options.shell))
