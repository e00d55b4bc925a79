"""Options for pictures in a report."""

import argparse
from typing import Any

from boxscore.cli.arguments import memory_size, positive


def add_pictures(parser: argparse.ArgumentParser, *, default: int = 24) -> None:
    """The folder of images, and how many pictures there are; `default`: how many, if not said otherwise."""
    group = parser.add_argument_group("pictures")
    group.add_argument(
        "--image-folder",
        metavar="DIR",
        help="folder of images, for pictures in the HTML report: with --html (needs boxscore[pictures])",
    )
    group.add_argument(
        "--num-pictures", type=positive, metavar="N", help=f"at most N pictures, of each model (default: {default})"
    )
    group.add_argument(
        "--picture-bytes",
        type=memory_size,
        metavar="SIZE",
        help="size of all pictures together, such as 6MB (default); more are scaled down, or left out",
    )


def picture_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The options by the names of `Result.to_html`; without a report or without a folder they are usage errors."""
    settings = {name: getattr(options, name) for name in ("image_folder", "num_pictures", "picture_bytes")}
    given = [name for name, value in settings.items() if value is not None]
    for name in given:
        if options.html is None:
            options.command.error(f"argument --{name.replace('_', '-')}: needs --html")
        if options.image_folder is None:
            options.command.error(f"argument --{name.replace('_', '-')}: needs --image-folder")
    return settings
