"""Options for pictures in a report."""

import argparse
import os
from typing import Any

from boxscore.cli.arguments import memory_size, positive


def add_pictures(group: Any, *, default: int = 24) -> None:
    """Add the options for the folder of images and the number of pictures; `default` is the default number."""
    group.add_argument(
        "--images",
        dest="image_folder",
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


_OPTIONS = {"image_folder": "--images", "num_pictures": "--num-pictures", "picture_bytes": "--picture-bytes"}
"""The options by their names in `Result.to_html`."""


def picture_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The options by their names in `Result.to_html`; without a report or a folder they are usage errors."""
    settings = {name: getattr(options, name) for name in _OPTIONS}
    hint = "to evaluate only some images, use --only-images"
    for name in (name for name, value in settings.items() if value is not None):
        if options.html is None:
            more = f"; {hint}" if name == "image_folder" else ""
            options.command.error(f"argument {_OPTIONS[name]}: needs --html{more}")
        if options.image_folder is None:
            options.command.error(f"argument {_OPTIONS[name]}: needs --images")
    if options.image_folder is not None and not os.path.isdir(options.image_folder):  # noqa: PTH112
        options.command.error(f"argument --images: must be a folder of images; got {options.image_folder!r}; {hint}")
    return settings
